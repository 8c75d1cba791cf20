// Package anthropic has the models of Anthropic, over its Messages API and its
// own Go SDK.
//
//	m := anthropic.New("claude-sonnet-5", anthropic.Defaults(model.Config{MaxTokens: 4000}))
//
// # What is sent
//
// Messages of the system are joined in the API's system field, one block for
// each text. Messages of one role that follow one another become one message;
// in it the results of tools come first, as the API wants. Texts of white space
// alone are left out: the API refuses them. Names of speakers
// are not sent: the API knows none. A picture's Detail, which is a hint, has no
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
// # Answers
//
// Blocks of server tools, which Extra can turn on, can't be told in a message:
// they are an error of [model.ErrorResponse]. Citations are left out.
package anthropic

import (
	"context"
	"iter"
	"mime"
	"net/http"
	"os"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

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
)

// Model is a model of Anthropic. It is a [model.Model].
type Model struct {
	name     string
	defaults model.Config
	client   sdk.MessageService
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

// APIKey is the key to use instead of that in ANTHROPIC_API_KEY.
func APIKey(key string) Option { return func(s *settings) { s.key = key } }

// BaseURL is the server to use instead of that in ANTHROPIC_BASE_URL or, if
// that is empty, Anthropic's. The API's paths are below it.
func BaseURL(url string) Option { return func(s *settings) { s.baseURL = url } }

// HTTPClient is used for requests instead of [http.DefaultClient].
func HTTPClient(c *http.Client) Option { return func(s *settings) { s.http = c } }

// Header is sent with every request, such as a beta's name in anthropic-beta.
// It replaces the headers of that name that the SDK sends.
func Header(key, value string) Option { return func(s *settings) { s.header.Set(key, value) } }

// Defaults are the settings of requests that don't have their own. Fields of
// Extra are taken one by one.
func Defaults(c model.Config) Option { return func(s *settings) { s.defaults = c } }

// New returns the model with a name, such as "claude-sonnet-5". It reads the
// environment and does nothing else; what is wrong, such as a missing key, is
// the error of the calls.
//
// The model never repeats a request by itself: see [model.Retry].
func New(modelName string, opts ...Option) *Model {
	s := settings{
		key:     os.Getenv("ANTHROPIC_API_KEY"),
		baseURL: os.Getenv("ANTHROPIC_BASE_URL"),
		http:    http.DefaultClient,
		header:  http.Header{},
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
	request := []option.RequestOption{
		option.WithBaseURL(s.baseURL),
		option.WithHTTPClient(s.http),
		option.WithMaxRetries(0),
		option.WithoutOpenTelemetry(), // what traces a program wants is its own choice
	}
	if s.key != "" {
		request = append(request, option.WithAPIKey(s.key))
		m.secrets.Add(s.key)
	}
	authorized := s.key != ""
	for k, values := range s.header {
		for _, v := range values {
			request = append(request, option.WithHeader(k, v))
			m.secrets.AddHeader(k, v)
			authorized = authorized || k == "Authorization" || k == "X-Api-Key"
		}
	}
	m.client = sdk.NewMessageService(request...)

	u, wrong := vendor.ParseBase(s.baseURL)
	switch {
	case wrong != "":
		m.err = invalid("%s", wrong)
		return m
	case !authorized:
		m.err = &model.Error{Provider: provider, Kind: model.ErrorAuth, Message: "no API key: set ANTHROPIC_API_KEY or use anthropic.APIKey"}
	}
	m.secrets.AddURL(u)
	return m
}

// Generate returns the whole answer. If so many tokens are allowed that the
// answer may take longer than ten minutes, it is streamed, as connections
// without traffic don't last that long.
func (m *Model) Generate(ctx context.Context, req *model.Request) (*model.Response, error) {
	params, opts, err := m.params(req)
	if err != nil {
		return nil, err
	}
	if _, err := sdk.CalculateNonStreamingTimeout(int(params.MaxTokens), params.Model, nil); err != nil {
		resp, err := model.Collect(m.Stream(ctx, req))
		if err != nil {
			return nil, err
		}
		return resp, nil
	}
	var body []byte
	var resp *http.Response
	if _, err := m.client.New(ctx, params, append(opts, option.WithResponseBodyInto(&body), option.WithResponseInto(&resp))...); err != nil {
		return nil, m.failure(ctx, err, resp, true)
	}
	message, err := answer(body)
	if err != nil {
		return nil, err
	}
	return &model.Response{Message: message}, nil
}

// Stream yields the answer in chunks as they come.
func (m *Model) Stream(ctx context.Context, req *model.Request) iter.Seq2[chat.Chunk, error] {
	return func(yield func(chat.Chunk, error) bool) {
		params, opts, err := m.params(req)
		if err != nil {
			yield(chat.Chunk{}, err)
			return
		}
		request, cancel := context.WithCancel(ctx)
		defer cancel()
		var resp *http.Response
		stream := m.client.NewStreaming(request, params, append(opts, option.WithResponseInto(&resp))...)
		defer stream.Close()
		if stream.Err() == nil {
			if t, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); t != "text/event-stream" {
				yield(chat.Chunk{}, unreadable("content type %q instead of a stream of events", resp.Header.Get("Content-Type")))
				return
			}
		}
		var d decoder
		for stream.Next() {
			chunk, some, err := d.event(stream.Current())
			if err != nil {
				yield(chat.Chunk{}, err)
				return
			}
			if some && !yield(chunk, nil) || d.done {
				return
			}
		}
		if err := stream.Err(); err != nil {
			yield(chat.Chunk{}, m.failure(ctx, err, resp, d.started))
			return
		}
		yield(chat.Chunk{}, &model.Error{Provider: provider, Kind: model.ErrorBrokenStream, Message: "the stream ended before the message did"})
	}
}
