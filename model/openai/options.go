package openai

import (
	"context"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/internal/vendor"
)

// Option is a setting of [New].
type Option func(*settings)

type settings struct {
	vendor.Settings
	organization, project string

	retries   int
	maxTokens bool
	noUsage   bool
	toolMedia bool
	responses bool
	reasoning *string
}

// APIKey gives the key. Space around it is cut off. The default is
// OPENAI_API_KEY, unless there is a [BaseURL].
func APIKey(key string) Option { return func(s *settings) { s.Key = key } }

// BaseURL gives the server, with the path that comes before /chat/completions or
// /responses:
// http://localhost:11434/v1. It needs no key then; what key it gets is said by
// [APIKey]. The default is OPENAI_BASE_URL or else https://api.openai.com/v1.
func BaseURL(u string) Option { return func(s *settings) { s.BaseURL = u } }

// HTTPClient gives the client to send requests with. The default is
// [http.DefaultClient], which has no timeout: the context of a call has.
func HTTPClient(c *http.Client) Option { return func(s *settings) { s.HTTP = c } }

// Header adds a header to every request; given twice, the last one counts. It
// replaces one that would be sent anyway, such as Authorization.
func Header(name, value string) Option { return func(s *settings) { s.SetHeader(name, value) } }

// OnRequest gives a function that sees each request before it is sent: it may alter
// the header, and what it returns is sent as the body. Its error is that of the call.
func OnRequest(f func(ctx context.Context, header http.Header, body []byte) ([]byte, error)) Option {
	return func(s *settings) { s.Hook = f }
}

// IdleTimeout says how long a stream may be silent before it counts as broken, with
// an error of kind [model.ErrorTimeout]. The default is ten minutes; less than 0 is no
// limit. For whole answers the context of the call is the only limit.
func IdleTimeout(d time.Duration) Option { return func(s *settings) { s.Idle = d } }

// Organization says whom to bill, if the key belongs to several. The default is
// OPENAI_ORG_ID, unless there is a [BaseURL].
func Organization(id string) Option { return func(s *settings) { s.organization = id } }

// Project says which project to bill. The default is OPENAI_PROJECT_ID, unless
// there is a [BaseURL].
func Project(id string) Option { return func(s *settings) { s.project = id } }

// Defaults gives the settings of requests that don't set them. Extra fields are
// joined, and a request's wins over the default of the same name.
func Defaults(c model.Config) Option { return func(s *settings) { s.Defaults = c } }

// Capabilities gives the table of what models take and give, in the place of
// [model.KnownModels].
func Capabilities(t model.Table) Option { return func(s *settings) { s.Table = t } }

// Retries repeats a failed request up to n times before the answer began, as
// [model.Retry] does with its own defaults. The default is 0.
func Retries(n int) Option { return func(s *settings) { s.retries = n } }

// MaxTokensField sends Config.MaxTokens as max_tokens instead of
// max_completion_tokens, for servers that know only the older name.
func MaxTokensField() Option { return func(s *settings) { s.maxTokens = true } }

// NoStreamUsage makes streams not ask for the usage, for servers that refuse
// stream_options. Their messages may then have no Usage.
func NoStreamUsage() Option { return func(s *settings) { s.noUsage = true } }

// ToolMedia lets tools return images, sounds and files. The API takes nothing
// but text from a tool, so the other parts follow in a message of the user after
// the tools' messages, each with a text that says which call it is the result
// of. That gives what a tool returned the weight of the user's word: turn it on
// for tools that you trust. Without it, and where the model doesn't take them, the
// model is told in words what there was: of a file that is a text the text, of a sound
// the transcript.
func ToolMedia() Option { return func(s *settings) { s.toolMedia = true } }

// Responses asks by OpenAI's Responses API instead of Chat Completions: see the
// package's documentation for what is different. [MaxTokensField], [NoStreamUsage] and
// [ReasoningField] aren't for it, and [ToolMedia] isn't needed: the API takes images and
// files from tools.
func Responses() Option { return func(s *settings) { s.responses = true } }

// The fields of [ReasoningField].
const (
	reasoningContent = "reasoning_content"
	reasoningPlain   = "reasoning"
)

// ReasoningField sends what the model thought in earlier answers back to it, in a
// field of the assistant's messages: "reasoning_content" or "reasoning"; "" sends
// nothing. OpenAI's API has no such field and some servers refuse it, while others
// fail without it as soon as a tool was called. The default is "" but for the servers
// of DeepSeek, Moonshot (Kimi) and Z.ai (GLM), which want reasoning_content, and
// OpenRouter, which wants reasoning. A message without thoughts, such as another
// model's, gets a space there.
func ReasoningField(name string) Option { return func(s *settings) { s.reasoning = &name } }

// reasoningOf are the fields that the servers with these hosts want.
func reasoningOf(host string) string {
	switch host {
	case "api.deepseek.com", "api.moonshot.ai", "api.moonshot.cn", "api.z.ai", "open.bigmodel.cn":
		return reasoningContent
	case "openrouter.ai":
		return reasoningPlain
	}
	return ""
}

// On is for the packages of clouds, such as model/azure, and for nobody else.
func On(c *vendor.Cloud) Option { return func(s *settings) { s.Cloud = c } }

func collect(opts []Option) *settings {
	s := &settings{}
	for _, o := range opts {
		o(s)
	}
	if s.BaseURL == "" && s.Cloud == nil {
		for _, v := range []struct {
			to   *string
			name string
		}{
			{&s.Key, "OPENAI_API_KEY"}, {&s.BaseURL, "OPENAI_BASE_URL"},
			{&s.organization, "OPENAI_ORG_ID"}, {&s.project, "OPENAI_PROJECT_ID"},
		} {
			if *v.to == "" {
				*v.to = os.Getenv(v.name)
			}
		}
	}
	s.Key = strings.TrimSpace(s.Key)
	s.Defaults.Stop = slices.Clone(s.Defaults.Stop)
	s.Defaults.Extra = maps.Clone(s.Defaults.Extra)
	return s
}

func newModel(name string, s *settings) *Model {
	m := &Model{
		name: name, defaults: s.Defaults,
		maxTokens: s.maxTokens, noUsage: s.noUsage, toolMedia: s.toolMedia, responses: s.responses, table: s.TableOf(),
		retries: s.retries, thoughts: s.reasoning != nil,
		noKey: s.Key == "" && !s.HasKey() && s.Cloud == nil,
	}
	if m.err = s.check(m.noKey); m.err != nil {
		return m
	}
	if s.BaseURL == "" && s.Cloud == nil {
		s.BaseURL = defaultBaseURL
	}
	header := map[string]string{}
	for name, value := range map[string]string{"OpenAI-Organization": s.organization, "OpenAI-Project": s.project} {
		if value != "" {
			header[name] = value
		}
	}
	if s.Key != "" {
		header["Authorization"] = "Bearer " + s.Key
	}
	if m.api, m.err = s.API(provider, header, m.refused); m.err != nil {
		return m
	}
	if s.Cloud == nil && !m.noKey { // without a key, what is refused says so
		m.api.Mend = "check the key, which is of openai.APIKey or OPENAI_API_KEY"
	}
	m.reasoning = reasoningOf(m.api.Host())
	if s.reasoning != nil {
		m.reasoning = *s.reasoning
	}
	if s.retries > 0 {
		m.again = model.Retry(once{m}, model.RetryPolicy{MaxAttempts: s.retries + 1})
	}
	return m
}

// check returns what is wrong with the settings, or nil.
func (s *settings) check(noKey bool) *model.Error {
	switch {
	case s.retries < 0:
		return invalid("Retries(%d) is negative", s.retries)
	case s.reasoning != nil && !slices.Contains([]string{"", reasoningContent, reasoningPlain}, *s.reasoning):
		return invalid("ReasoningField(%q) is none of %q, %q and \"\"", *s.reasoning, reasoningContent, reasoningPlain)
	case s.responses && (s.maxTokens || s.noUsage || s.reasoning != nil && *s.reasoning != ""):
		return invalid("MaxTokensField, NoStreamUsage and ReasoningField are for chat completions: leave them out beside Responses")
	case s.BaseURL == "" && s.Cloud == nil && noKey:
		return &model.Error{
			Provider: provider, Kind: model.ErrorAuth,
			Message: "no API key: set OPENAI_API_KEY or give openai.APIKey; a server that needs no key is named by openai.BaseURL or OPENAI_BASE_URL",
		}
	}
	return nil
}
