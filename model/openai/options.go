package openai

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/superstep-dev/superstep/model"
)

// Option is a setting of [New].
type Option func(*settings)

type settings struct {
	key, baseURL, organization, project string

	client    *http.Client
	headers   [][2]string
	defaults  model.Config
	retries   int
	maxTokens bool
	noUsage   bool
	toolMedia bool
}

// APIKey gives the key. Space around it is cut off. The default is
// OPENAI_API_KEY, unless there is a [BaseURL].
func APIKey(key string) Option { return func(s *settings) { s.key = key } }

// BaseURL gives the server, with the path that comes before /chat/completions:
// http://localhost:11434/v1. It needs no key then; what key it gets is said by
// [APIKey]. The default is OPENAI_BASE_URL or else https://api.openai.com/v1.
func BaseURL(u string) Option { return func(s *settings) { s.baseURL = u } }

// HTTPClient gives the client to send requests with. The default is
// [http.DefaultClient], which has no timeout: the context of a call has.
func HTTPClient(c *http.Client) Option { return func(s *settings) { s.client = c } }

// Header adds a header to every request; given twice, the last one counts. It
// replaces one that would be sent anyway, such as Authorization.
func Header(name, value string) Option {
	return func(s *settings) { s.headers = append(s.headers, [2]string{name, value}) }
}

// Organization says whom to bill, if the key belongs to several. The default is
// OPENAI_ORG_ID, unless there is a [BaseURL].
func Organization(id string) Option { return func(s *settings) { s.organization = id } }

// Project says which project to bill. The default is OPENAI_PROJECT_ID, unless
// there is a [BaseURL].
func Project(id string) Option { return func(s *settings) { s.project = id } }

// Defaults gives the settings of requests that don't set them. Extra fields are
// joined, and a request's wins over the default of the same name.
func Defaults(c model.Config) Option { return func(s *settings) { s.defaults = c } }

// Retries lets the SDK repeat a failed request up to n times before the answer
// began. The default is 0: [model.Retry] repeats for all models in the same way.
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
// for tools that you trust. Without it such a result is an error.
func ToolMedia() Option { return func(s *settings) { s.toolMedia = true } }

func collect(opts []Option) *settings {
	s := &settings{}
	for _, o := range opts {
		o(s)
	}
	if s.baseURL == "" {
		for _, v := range []struct {
			to   *string
			name string
		}{
			{&s.key, "OPENAI_API_KEY"}, {&s.baseURL, "OPENAI_BASE_URL"},
			{&s.organization, "OPENAI_ORG_ID"}, {&s.project, "OPENAI_PROJECT_ID"},
		} {
			if *v.to == "" {
				*v.to = os.Getenv(v.name)
			}
		}
	}
	s.key = strings.TrimSpace(s.key)
	s.defaults.Stop = slices.Clone(s.defaults.Stop)
	s.defaults.Extra = maps.Clone(s.defaults.Extra)
	return s
}

func newModel(name string, s *settings) *Model {
	m := &Model{
		name: name, defaults: s.defaults,
		maxTokens: s.maxTokens, noUsage: s.noUsage, toolMedia: s.toolMedia,
		noKey: s.key == "", err: s.check(),
	}
	if m.err != nil {
		return m
	}
	// The service, unlike the SDK's client, reads no environment: what is sent
	// is what New documents.
	opts := []option.RequestOption{option.WithEnvironmentProduction(), option.WithMaxRetries(s.retries)}
	if s.baseURL != "" {
		opts = append(opts, option.WithBaseURL(s.baseURL))
	}
	if s.key != "" {
		opts = append(opts, option.WithAPIKey(s.key))
		m.hide(s.key)
	}
	if s.client != nil {
		opts = append(opts, option.WithHTTPClient(s.client))
	}
	if s.organization != "" {
		opts = append(opts, option.WithOrganization(s.organization))
	}
	if s.project != "" {
		opts = append(opts, option.WithProject(s.project))
	}
	for _, h := range s.headers {
		opts = append(opts, option.WithHeader(h[0], h[1]))
		if secretive(h[0]) {
			m.hide(h[1])
			m.noKey = false
		}
	}
	m.completions = sdk.NewChatCompletionService(opts...)
	return m
}

// check returns what is wrong with the settings, or nil.
func (s *settings) check() *model.Error {
	if s.retries < 0 {
		return invalid("Retries(%d) is negative", s.retries)
	}
	if s.baseURL == "" {
		if s.key == "" && !slices.ContainsFunc(s.headers, func(h [2]string) bool { return secretive(h[0]) }) {
			return &model.Error{
				Provider: provider, Kind: model.ErrorAuth,
				Message: "no API key: set OPENAI_API_KEY or give openai.APIKey; a server that needs no key is named by openai.BaseURL or OPENAI_BASE_URL",
			}
		}
		return nil
	}
	u, err := url.Parse(s.baseURL)
	switch {
	case err != nil:
		// The parser's error quotes the URL, which may hold a password.
		return invalid("the base URL can't be parsed")
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return invalid("the base URL %q is not one such as http://localhost:11434/v1", u.Redacted())
	case u.RawQuery != "" || u.Fragment != "":
		return invalid("the base URL may not have a query or a fragment")
	}
	return nil
}

// secretive reports whether a header of this name likely holds a secret.
func secretive(header string) bool {
	h := strings.ToLower(header)
	return slices.ContainsFunc([]string{"auth", "key", "token", "cookie", "secret"}, func(s string) bool { return strings.Contains(h, s) })
}

// hide keeps a secret out of errors.
func (m *Model) hide(secret string) {
	if i := strings.LastIndexByte(secret, ' '); i >= 0 { // Bearer …
		secret = secret[i+1:]
	}
	if secret != "" {
		m.secrets = append(m.secrets, secret)
	}
}

func (m *Model) redact(text string) string {
	for _, s := range m.secrets {
		text = strings.ReplaceAll(text, s, "[secret]")
	}
	return text
}

func invalid(format string, args ...any) *model.Error {
	return &model.Error{Provider: provider, Kind: model.ErrorInvalid, Message: fmt.Sprintf(format, args...)}
}
