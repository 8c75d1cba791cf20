// Package gemini has the models of Google, over the Gemini API and Google's own
// Go SDK.
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
// of [model.ErrorFilter]; code that the server ran, which Extra can turn on,
// can't be told in a message and is an error of [model.ErrorResponse]. Sources
// of grounding, citations and pictures among the thoughts are left out.
package gemini

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"os"

	"google.golang.org/genai"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/internal/vendor"
)

const (
	provider       = "gemini"
	defaultBaseURL = "https://generativelanguage.googleapis.com/"
)

// Model is a model of Google. It is a [model.Model].
type Model struct {
	name     string
	defaults model.Config
	client   *genai.Client
	secrets  vendor.Secrets // of the options; no error tells them
	err      error          // why no request can be made
}

type settings struct {
	key      string
	baseURL  string
	http     *http.Client
	header   http.Header
	defaults model.Config
}

// Option is a setting of [New].
type Option func(*settings)

// APIKey is the key to use instead of that in GOOGLE_API_KEY or, if that is
// empty, GEMINI_API_KEY. The order is Google's.
func APIKey(key string) Option { return func(s *settings) { s.key = key } }

// BaseURL is the server to use instead of that in GOOGLE_GEMINI_BASE_URL or, if
// that is empty, Google's. The API's paths, which begin with its version, are
// below it.
func BaseURL(url string) Option { return func(s *settings) { s.baseURL = url } }

// HTTPClient is used for requests instead of [http.DefaultClient].
func HTTPClient(c *http.Client) Option { return func(s *settings) { s.http = c } }

// Header is sent with every request.
func Header(key, value string) Option { return func(s *settings) { s.header.Set(key, value) } }

// Defaults are the settings of requests that don't have their own. Fields of
// Extra are taken one by one.
func Defaults(c model.Config) Option { return func(s *settings) { s.defaults = c } }

// New returns the model with a name, such as "gemini-2.5-flash". It reads the
// environment and does nothing else; what is wrong, such as a missing key, is
// the error of the calls.
//
// The model never repeats or continues a request by itself: see [model.Retry].
func New(modelName string, opts ...Option) *Model {
	s := settings{
		key:     os.Getenv("GOOGLE_API_KEY"),
		baseURL: os.Getenv("GOOGLE_GEMINI_BASE_URL"),
		http:    http.DefaultClient,
		header:  http.Header{},
	}
	if s.key == "" {
		s.key = os.Getenv("GEMINI_API_KEY")
	}
	for _, o := range opts {
		o(&s)
	}
	if s.baseURL == "" {
		s.baseURL = defaultBaseURL
	}
	if s.http == nil {
		s.http = http.DefaultClient
	}

	m := &Model{name: modelName, defaults: s.defaults}
	m.secrets.Add(s.key)
	for k, values := range s.header {
		for _, v := range values {
			m.secrets.AddHeader(k, v)
		}
	}
	u, wrong := vendor.ParseBase(s.baseURL)
	switch {
	case wrong != "":
		m.err = invalid("%s", wrong)
		return m
	case s.key == "":
		m.err = &model.Error{Provider: provider, Kind: model.ErrorAuth, Message: "no API key: set GEMINI_API_KEY or GOOGLE_API_KEY, or use gemini.APIKey"}
		return m
	}
	m.secrets.AddURL(u)
	client := *s.http
	client.Transport = transport{client.Transport}
	// With a key for the Gemini API the client is made without a request, so
	// the context has no effect.
	var err error
	m.client, err = genai.NewClient(context.Background(), &genai.ClientConfig{
		APIKey:      s.key,
		Backend:     genai.BackendGeminiAPI,
		HTTPClient:  &client,
		HTTPOptions: genai.HTTPOptions{BaseURL: s.baseURL, Headers: s.header},
	})
	if err != nil {
		m.err = invalid("the client can't be made: %s", m.secrets.Clean(err.Error()))
	}
	return m
}

// Generate returns the whole answer.
func (m *Model) Generate(ctx context.Context, req *model.Request) (*model.Response, error) {
	name, contents, config, err := m.params(req)
	if err != nil {
		return nil, err
	}
	var x exchange
	resp, err := guard(func() (*genai.GenerateContentResponse, error) {
		return m.client.Models.GenerateContent(x.in(ctx), name, contents, config)
	})
	if err != nil {
		return nil, m.failure(ctx, err, &x, true)
	}
	// By the way of chunks, so that it is what the chunks of the same message
	// add up to.
	var c chat.Collector
	var d decoder
	chunks, err := d.response(resp)
	if err != nil {
		return nil, err
	}
	for _, k := range chunks {
		c.Add(k)
	}
	if !d.answered {
		return nil, unreadable("the answer has no candidate")
	}
	c.Add(d.last())
	return &model.Response{Message: c.Message()}, nil
}

// Stream yields the answer in chunks as they come.
func (m *Model) Stream(ctx context.Context, req *model.Request) iter.Seq2[chat.Chunk, error] {
	return func(yield func(chat.Chunk, error) bool) {
		name, contents, config, err := m.params(req)
		if err != nil {
			yield(chat.Chunk{}, err)
			return
		}
		request, cancel := context.WithCancel(ctx)
		defer cancel()
		var x exchange
		// Pulled, so that a panic of the SDK's can be told from one of the
		// caller's.
		next, stop := iter.Pull2(m.client.Models.GenerateContentStream(x.in(request), name, contents, config))
		defer stop()
		var d decoder
		for {
			var more bool
			resp, err := guard(func() (resp *genai.GenerateContentResponse, err error) {
				resp, err, more = next()
				return resp, err
			})
			if err == nil && !more {
				err = x.read // what the SDK took for the end
				if err == nil || d.finished() {
					break
				}
			}
			if err != nil {
				yield(chat.Chunk{}, m.failure(ctx, err, &x, d.started))
				return
			}
			chunks, err := d.response(resp)
			if err != nil {
				yield(chat.Chunk{}, err)
				return
			}
			for _, k := range chunks {
				if !yield(k, nil) {
					return
				}
			}
		}
		if !d.finished() {
			yield(chat.Chunk{}, &model.Error{Provider: provider, Kind: model.ErrorBrokenStream, Message: "the stream ended before the message did"})
			return
		}
		yield(d.last(), nil)
	}
}

// guard makes panics of the SDK, which takes the form of answers for granted,
// errors.
func guard[T any](f func() (T, error)) (v T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the SDK can't read the answer: %v", p)
		}
	}()
	return f()
}
