// Package anthropic has the models of Anthropic, over its Messages API.
//
//	m := anthropic.New("claude-sonnet-5", anthropic.Defaults(model.Config{MaxTokens: 4000}))
//
// # What is sent
//
// Messages of the system are joined in the API's system field, one block for
// each text. Messages of one role that follow one another become one message;
// in it the results of tools come first, as the API wants. Texts of white space
// alone are left out: the API refuses them. Names of speakers
// are not sent: the API knows none. IDs of tool calls in a form that the API refuses,
// such as other providers', are replaced. A picture's Detail, which is a hint, has no
// effect. A call whose arguments are not a JSON object is sent as
// {"INVALID_JSON": "..."}, as Anthropic recommends, so that the model can read
// what it wrote.
//
// Reasoning is sent back as it came. Reasoning of other providers is left out:
// that without a signature, with an ID, or in a message of a gemini model.
//
// Pictures are JPEG, PNG, GIF and WebP, files are PDF and text; sounds are not
// supported.
//
// # Settings
//
// The API needs a limit of tokens: MaxTokens is [DefaultMaxTokens] if not set,
// plus ReasoningTokens. Reasoning is "none" or an effort, "low", "medium",
// "high", "xhigh" or "max", at which the model thinks as it sees fit; models
// before Claude 4.6 need ReasoningTokens instead. Together they set both.
// FrequencyPenalty, PresencePenalty and Seed are not known to the API, so they
// are an error.
//
// The schema of an answer is sent as it is, but for its Name, which the API
// doesn't have, and its Description, which goes into it. Anthropic takes a part
// of JSON Schema and wants additionalProperties to be false.
//
// # The cache of prompts
//
// Each of [model.Request.Cache] is a cache_control on the last block before it that can
// have one. What was read from the cache, and written to it, is in the answer's usage.
// The API keeps nothing below a length of some thousand tokens.
//
// # Answers
//
// Tools that the server runs, such as its search of the web, are turned on by Extra,
// beside those of the request:
//
//	Extra: map[string]any{"tools": []any{map[string]any{"type": "web_search_20250305", "name": "web_search"}}}
//
// Their blocks are [chat.Native], and what a text cites follows it as [chat.Citation];
// both are sent back as they came.
package anthropic

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

// DefaultMaxTokens bounds an answer, thinking included, when neither the
// request nor [Defaults] does. All current models can write that much, and it
// is the order of what the API answers without streaming.
const DefaultMaxTokens = 16384

const (
	provider       = "anthropic"
	defaultBaseURL = "https://api.anthropic.com"
	version        = "2023-06-01" // of the API
)

// Model is a model of Anthropic. It is a [model.Model].
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

// APIKey is the key to use instead of that in ANTHROPIC_API_KEY.
func APIKey(key string) Option { return func(s *settings) { s.Key = key } }

// BaseURL is the server to use instead of that in ANTHROPIC_BASE_URL or, if
// that is empty, Anthropic's. The API's paths are below it.
func BaseURL(url string) Option { return func(s *settings) { s.BaseURL = url } }

// HTTPClient is used for requests instead of [http.DefaultClient].
func HTTPClient(c *http.Client) Option { return func(s *settings) { s.HTTP = c } }

// Header is sent with every request, such as a beta's name in anthropic-beta.
// It replaces the header of that name that would be sent anyway.
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

// New returns the model with a name, such as "claude-sonnet-5". It reads the
// environment and does nothing else; what is wrong, such as a missing key, is
// the error of the calls.
//
// The model never repeats a request by itself: see [model.Retry]. A redirect to
// another server isn't followed: it would get the key.
func New(modelName string, opts ...Option) *Model {
	var s settings
	for _, o := range opts {
		o(&s)
	}
	if s.Cloud == nil {
		s.Key = cmp.Or(s.Key, os.Getenv("ANTHROPIC_API_KEY"))
		s.BaseURL = cmp.Or(s.BaseURL, os.Getenv("ANTHROPIC_BASE_URL"), defaultBaseURL)
	}
	m := &Model{name: modelName, defaults: s.Defaults, table: s.TableOf()}
	header := map[string]string{"Anthropic-Version": version}
	if s.Key != "" {
		header["X-Api-Key"] = s.Key
	}
	m.api, m.err = s.API(provider, header, failure)
	if m.err == nil && s.Cloud == nil && s.Key == "" && s.Header.Get("Authorization") == "" && s.Header.Get("X-Api-Key") == "" {
		m.err = &model.Error{Provider: provider, Kind: model.ErrorAuth, Message: "no API key: set ANTHROPIC_API_KEY or use anthropic.APIKey"}
	}
	if m.err == nil && s.Cloud == nil {
		m.api.Mend = "check the key, which is of anthropic.APIKey or ANTHROPIC_API_KEY"
	}
	return m
}

// maxWhole is how many tokens an answer may have that isn't streamed: at the speed
// of the slowest models it comes in ten minutes, and connections without traffic
// don't last longer.
const maxWhole = 21_333

// Capabilities implements [model.Capable].
func (m *Model) Capabilities(name string) (model.Capabilities, bool) {
	return m.table.Named(provider, cmp.Or(name, m.defaults.Model, m.name))
}

// Generate returns the whole answer. If so many tokens are allowed that the
// answer may take longer than ten minutes, it is streamed, as connections
// without traffic don't last that long.
func (m *Model) Generate(ctx context.Context, req *model.Request) (*model.Response, error) {
	call, tokens, err := m.call(req, false)
	if err != nil {
		return nil, err
	}
	if tokens > maxWhole {
		resp, err := model.Collect(m.Stream(ctx, req))
		if err != nil {
			return nil, err
		}
		return resp, nil
	}
	return m.api.Generate(ctx, call, answer)
}

// Stream yields the answer in chunks as they come.
func (m *Model) Stream(ctx context.Context, req *model.Request) iter.Seq2[chat.Chunk, error] {
	return m.api.Stream(ctx, func() (vendor.Call, error) {
		call, _, err := m.call(req, true)
		return call, err
	}, answer, func() vendor.Stream { return &decoder{} })
}
