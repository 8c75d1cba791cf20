// Package gemini has the models of Google, over the Gemini API.
//
//	m := gemini.New("gemini-2.5-flash", gemini.Defaults(model.Config{MaxTokens: 4000}))
//
// # What is sent
//
// Messages of the system are joined in the API's system instruction, one part
// for each text. Messages of one role that follow one another become one
// content; in it the results of tools come first, as the API wants. Names of
// speakers and of files are not sent, nor is a picture's Detail, which is a
// hint: the API knows none. A file ID is what the Files API calls a name,
// "files/abc", or its URI. A call whose arguments are not a JSON object is sent
// as {"INVALID_JSON": "..."}, so that the model can read what it wrote.
//
// Thoughts and their signatures are sent back as they came. The signature of a
// text or of a picture comes as an empty [chat.Text] after it, so that text can
// be streamed before the signature is known. Reasoning of other providers is
// left out: that of claude models, that which is redacted or has an ID, and, if
// a message's Model doesn't say that it is Gemini's, that without a signature.
//
// # Settings
//
// Reasoning is "none", "minimal", "low", "medium" or "high"; models before
// Gemini 3 need ReasoningTokens instead, and the API takes only one of the two.
// Either asks for thoughts in the answer too. Tools that are Strict turn on
// validation of all calls. ParallelTools set to false is an error, as the API
// doesn't know it. Objects in Extra are merged into those of the request:
//
//	Extra: map[string]any{"generationConfig": map[string]any{"responseModalities": []string{"TEXT", "IMAGE"}}}
//
// # Answers
//
// Only the first candidate is read. Calls without an ID get one, from the ID of
// the message and their place in it. A prompt that the API refuses is an error
// of [model.ErrorFilter]. Tools that the server runs are turned on by Extra, beside
// the functions of the request:
//
//	Extra: map[string]any{"tools": []any{map[string]any{"googleSearch": map[string]any{}}}}
//
// Code that it ran and the results are [chat.Native], which are sent back as they came.
// The pages that an answer rests on follow it as [chat.Citation]. Pictures among the
// thoughts are left out.
package gemini

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"os"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/internal/vendor"
)

const (
	provider       = "gemini"
	defaultBaseURL = "https://generativelanguage.googleapis.com"
)

// Model is a model of Google. It is a [model.Model].
type Model struct {
	name     string
	defaults model.Config
	table    model.Table
	api      *vendor.API
	err      *model.Error // why no request can be made
}

type settings = vendor.Settings

// Option is a setting of [New].
type Option func(*settings)

// APIKey is the key to use instead of that in GOOGLE_API_KEY or, if that is
// empty, GEMINI_API_KEY. The order is Google's.
func APIKey(key string) Option { return func(s *settings) { s.Key = key } }

// BaseURL is the server to use instead of that in GOOGLE_GEMINI_BASE_URL or, if
// that is empty, Google's. The API's paths, which begin with its version, are
// below it.
func BaseURL(url string) Option { return func(s *settings) { s.BaseURL = url } }

// HTTPClient is used for requests instead of [http.DefaultClient].
func HTTPClient(c *http.Client) Option { return func(s *settings) { s.HTTP = c } }

// Header is sent with every request. It replaces the header of that name that would
// be sent anyway.
func Header(key, value string) Option { return func(s *settings) { s.SetHeader(key, value) } }

// OnRequest gives a function that sees each request before it is sent: it may alter
// the header, and what it returns is sent as the body. Its error is that of the call.
func OnRequest(f func(ctx context.Context, header http.Header, body []byte) ([]byte, error)) Option {
	return func(s *settings) { s.Hook = f }
}

// IdleTimeout says how long a stream may be silent before it counts as broken, with
// an error of [model.ErrorTimeout]. The default is ten minutes; less than 0 is no
// limit. For whole answers the context of the call is the only limit.
func IdleTimeout(d time.Duration) Option { return func(s *settings) { s.Idle = d } }

// Defaults are the settings of requests that don't have their own. Fields of
// Extra are taken one by one.
func Defaults(c model.Config) Option { return func(s *settings) { s.Defaults = c } }

// Capabilities gives the table of what models take and give, in the place of
// [model.KnownModels].
func Capabilities(t model.Table) Option { return func(s *settings) { s.Table = t } }

// New returns the model with a name, such as "gemini-2.5-flash". It reads the
// environment and does nothing else; what is wrong, such as a missing key, is
// the error of the calls.
//
// The model never repeats or continues a request by itself: see [model.Retry]. A
// redirect to another server isn't followed: it would get the key.
func New(modelName string, opts ...Option) *Model {
	var s settings
	for _, o := range opts {
		o(&s)
	}
	header := map[string]string{}
	if s.Cloud == nil {
		s.Key = cmp.Or(s.Key, os.Getenv("GOOGLE_API_KEY"), os.Getenv("GEMINI_API_KEY"))
		s.BaseURL = cmp.Or(s.BaseURL, os.Getenv("GOOGLE_GEMINI_BASE_URL"), defaultBaseURL)
		header["X-Goog-Api-Key"] = s.Key
	}
	m := &Model{name: modelName, defaults: s.Defaults, table: s.TableOf()}
	m.api, m.err = s.API(provider, header, failure)
	if m.err == nil && s.Cloud == nil && s.Key == "" {
		m.err = &model.Error{Provider: provider, Kind: model.ErrorAuth, Message: "no API key: set GEMINI_API_KEY or GOOGLE_API_KEY, or use gemini.APIKey"}
	}
	if m.err == nil && s.Cloud == nil {
		m.api.Mend = "check the key, which is of gemini.APIKey, GOOGLE_API_KEY or GEMINI_API_KEY"
	}
	return m
}

// Capabilities implements [model.Capable].
func (m *Model) Capabilities(name string) (model.Capabilities, bool) {
	return m.table.Named(provider, cmp.Or(name, m.defaults.Model, m.name))
}

// Generate returns the whole answer.
func (m *Model) Generate(ctx context.Context, req *model.Request) (*model.Response, error) {
	call, err := m.call(req, false)
	if err != nil {
		return nil, err
	}
	return m.api.Generate(ctx, call, answer)
}

// Stream yields the answer in chunks as they come.
func (m *Model) Stream(ctx context.Context, req *model.Request) iter.Seq2[chat.Chunk, error] {
	call := func() (vendor.Call, error) { return m.call(req, true) }
	return m.api.Stream(ctx, call, answer, func() vendor.Stream { return &decoder{} })
}
