package azure_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/anthropic"
	"github.com/superstep-dev/superstep/model/azure"
	"github.com/superstep-dev/superstep/model/internal/strict"
	"github.com/superstep-dev/superstep/model/openai"
)

const hello = `{"id":"chatcmpl-00000000000000000001","model":"gpt-test","choices":[{"index":0,"message":{"role":"assistant","content":"Hello."},"finish_reason":"stop"}]}`

// token is a credential.
type token func(policy.TokenRequestOptions) (string, error)

func (f token) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	text, err := f(o)
	return azcore.AccessToken{Token: text, ExpiresOn: time.Now().Add(time.Hour)}, errors.Join(err, ctx.Err())
}

func is(text string) token {
	return func(o policy.TokenRequestOptions) (string, error) {
		if len(o.Scopes) != 1 || o.Scopes[0] != azure.DefaultScope {
			return "", fmt.Errorf("the scopes %q", o.Scopes)
		}
		return text, nil
	}
}

// entra is a server of tokens, in the place of Microsoft's.
type entra struct {
	status int
	answer string
}

func (e entra) Do(r *http.Request) (*http.Response, error) {
	status, body := 200, `{"token_endpoint":"https://login.microsoftonline.com/t/oauth2/v2.0/token","authorization_endpoint":"https://login.microsoftonline.com/t/oauth2/v2.0/authorize","issuer":"https://login.microsoftonline.com/t/v2.0"}`
	if strings.HasSuffix(r.URL.Path, "/token") {
		status, body = e.status, e.answer
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func principal(t *testing.T, status int, answer string) azcore.TokenCredential {
	t.Helper()
	c, err := azidentity.NewClientSecretCredential("t", "client", "client-secret", &azidentity.ClientSecretCredentialOptions{
		ClientOptions: policy.ClientOptions{Transport: entra{status, answer}, Retry: policy.RetryOptions{MaxRetries: -1}}, DisableInstanceDiscovery: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func clear(t *testing.T) {
	for _, name := range []string{"AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT", "ANTHROPIC_FOUNDRY_API_KEY", "ANTHROPIC_FOUNDRY_BASE_URL", "AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_CLIENT_SECRET"} {
		t.Setenv(name, "")
	}
	t.Setenv("AZURE_TOKEN_CREDENTIALS", "EnvironmentCredential") // no other is looked for
	t.Setenv("OPENAI_API_KEY", "not-for-azure")
	t.Setenv("ANTHROPIC_API_KEY", "not-for-azure")
	t.Setenv("OPENAI_BASE_URL", "https://not-azure.example")
}

const endpoint = "https://r.openai.azure.com"

func TestADeploymentAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		resource azure.Resource
		env      map[string]string
		has      strict.Azure
	}{
		"by a key":                  {azure.Resource{Endpoint: endpoint, Key: "k"}, nil, strict.Azure{Key: "k"}},
		"by a key of the program's": {azure.Resource{Key: "k"}, map[string]string{"AZURE_OPENAI_ENDPOINT": endpoint + "/openai/v1/", "AZURE_OPENAI_API_KEY": "other"}, strict.Azure{Key: "k"}},
		"by the environment":        {azure.Resource{}, map[string]string{"AZURE_OPENAI_ENDPOINT": endpoint, "AZURE_OPENAI_API_KEY": " k\n"}, strict.Azure{Key: "k"}},
		"by a token":                {azure.Resource{Endpoint: endpoint, Credential: is("entra-token")}, map[string]string{"AZURE_OPENAI_API_KEY": "other"}, strict.Azure{Token: "entra-token"}},
		"by a service principal":    {azure.Resource{Endpoint: endpoint, Credential: principal(t, 200, `{"access_token":"entra-token","expires_in":3600,"token_type":"Bearer"}`)}, nil, strict.Azure{Token: "entra-token"}},
		"by the older API":          {azure.Resource{Endpoint: endpoint, Key: "k", APIVersion: "2024-10-21"}, nil, strict.Azure{Key: "k", APIVersion: "2024-10-21"}},
	} {
		t.Run(name, func(t *testing.T) {
			clear(t)
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			c.has.Deployment = "my-model"
			s := &strict.Server{Check: c.has.Check, Answers: []string{hello}}
			m := azure.New(c.has.Deployment, c.resource, openai.HTTPClient(&http.Client{Transport: s}))
			resp, err := m.Generate(t.Context(), &model.Request{Messages: []chat.Message{chat.User("hi")}})
			if err != nil || resp.Message.Text() != "Hello." {
				t.Errorf("%v, %v", resp, err)
			}
		})
	}
}

const claudes = "https://r.services.ai.azure.com"

func TestADeploymentOfAnthropicsAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		resource azure.Resource
		env      map[string]string
		has      strict.Azure
	}{
		"by a key":           {azure.Resource{Endpoint: claudes, Key: "k"}, map[string]string{"ANTHROPIC_FOUNDRY_API_KEY": "other"}, strict.Azure{Key: "k"}},
		"by the environment": {azure.Resource{}, map[string]string{"ANTHROPIC_FOUNDRY_BASE_URL": claudes + "/anthropic/", "ANTHROPIC_FOUNDRY_API_KEY": " k\n", "AZURE_OPENAI_API_KEY": "other", "AZURE_OPENAI_ENDPOINT": endpoint}, strict.Azure{Key: "k"}},
		"by a token":         {azure.Resource{Endpoint: claudes, Credential: is("entra-token")}, nil, strict.Azure{Token: "entra-token"}},
	} {
		t.Run(name, func(t *testing.T) {
			clear(t)
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			c.has.Deployment = "mine"
			s := &strict.Server{Check: c.has.Check, Answers: []string{
				`{"id":"msg","type":"message","role":"assistant","model":"claude-test","content":[{"type":"text","text":"Hello."}],"stop_reason":"end_turn"}`,
				"data: {\"type\":\"message_start\",\"message\":{}}\n\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"Hello.\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n",
			}}
			m := azure.Claude("mine", c.resource, anthropic.HTTPClient(&http.Client{Transport: s}))
			whole, err := m.Generate(t.Context(), &model.Request{Messages: []chat.Message{chat.User("hi")}})
			if err != nil || whole.Message.Text() != "Hello." {
				t.Errorf("%v, %v", whole, err)
			}
			streamed, err := model.Collect(m.Stream(t.Context(), &model.Request{Messages: []chat.Message{chat.User("hi")}}))
			if err != nil || streamed.Message.Text() != "Hello." {
				t.Errorf("streamed: %v, %v", streamed, err)
			}
		})
	}
}

func TestWhatIsWrongWithADeploymentOfAnthropicsIsSaidWithTheMend(t *testing.T) {
	for name, c := range map[string]struct {
		resource azure.Resource
		opts     []anthropic.Option
		has      strict.Azure
		kind     model.ErrorKind
		says     string
	}{
		"no endpoint":         {azure.Resource{Key: "k"}, nil, strict.Azure{}, model.ErrorInvalid, "ANTHROPIC_FOUNDRY_BASE_URL"},
		"a version":           {azure.Resource{Endpoint: claudes, Key: "k", APIVersion: "2024-10-21"}, nil, strict.Azure{}, model.ErrorInvalid, "2024-10-21"},
		"Anthropic's own key": {azure.Resource{Endpoint: claudes, Key: "k"}, []anthropic.Option{anthropic.APIKey("x")}, strict.Azure{}, model.ErrorInvalid, "package azure"},
		"no credentials":      {azure.Resource{Endpoint: claudes}, nil, strict.Azure{}, model.ErrorAuth, "set ANTHROPIC_FOUNDRY_API_KEY, or sign in"},
		"a wrong key":         {azure.Resource{Endpoint: claudes, Key: "wrong"}, nil, strict.Azure{Key: "k", Deployment: "mine"}, model.ErrorAuth, "check ANTHROPIC_FOUNDRY_API_KEY"},
		"an expired token":    {azure.Resource{Endpoint: claudes, Credential: is("entra-token")}, nil, strict.Azure{Token: "entra-token", Expired: true, Deployment: "mine"}, model.ErrorAuth, "the role Cognitive Services User"},
		"no such deployment":  {azure.Resource{Endpoint: claudes, Key: "k"}, nil, strict.Azure{Key: "k", Deployment: "other"}, model.ErrorNotFound, "does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			clear(t)
			s := &strict.Server{Check: func(r *http.Request, body []byte) error {
				if c.has == (strict.Azure{}) {
					t.Error("a request was sent")
				}
				return c.has.Check(r, body)
			}}
			_, err := azure.Claude("mine", c.resource, append(c.opts, anthropic.HTTPClient(&http.Client{Transport: s}))...).Generate(t.Context(), &model.Request{Messages: []chat.Message{chat.User("hi")}})
			if e, ok := errors.AsType[*model.Error](err); !ok || e.Kind != c.kind || e.Provider != "azure" || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %s that says %q", err, c.kind, c.says)
			}
		})
	}
}

func TestAnEmbedderOfADeployment(t *testing.T) {
	for version, want := range map[string]string{"": "/openai/v1/embeddings", "2024-10-21": "/openai/deployments/mine/embeddings?api-version=2024-10-21"} {
		s := &strict.Server{Check: func(r *http.Request, _ []byte) error {
			if got := r.URL.RequestURI(); got != want || r.Header.Get("Api-Key") != "k" {
				return fmt.Errorf("%s, want %s", got, want)
			}
			return nil
		}, Answers: []string{`{"data":[{"index":0,"embedding":[1,0]}]}`}}
		e := azure.NewEmbedder("mine", 2, azure.Resource{Endpoint: endpoint, Key: "k", APIVersion: version}, openai.HTTPClient(&http.Client{Transport: s}))
		if v, err := e.Embed(t.Context(), []string{"a"}); err != nil || len(v) != 1 {
			t.Errorf("%v, %v", v, err)
		}
	}
}

func TestWhatIsWrongWithCredentialsIsSaidWithTheMend(t *testing.T) {
	throttled := &strict.Refusal{Status: 429, Header: http.Header{"Retry-After": {"7"}}, Body: `{"error":{"code":"429","message":"Requests have exceeded call rate limit."}}`}
	told := &strict.Refusal{Status: 401, Header: http.Header{"Retry-After": {"7"}}, Body: `{"error":{"code":"401","message":"no such token: entra-token"}}`}
	for name, c := range map[string]struct {
		resource azure.Resource
		opts     []openai.Option
		has      strict.Azure
		refuses  error
		kind     model.ErrorKind
		says     []string
	}{
		"no endpoint":            {resource: azure.Resource{Key: "k"}, kind: model.ErrorInvalid, says: []string{"AZURE_OPENAI_ENDPOINT"}},
		"a key and a credential": {resource: azure.Resource{Endpoint: endpoint, Key: "k", Credential: is("entra-token")}, kind: model.ErrorInvalid, says: []string{"one of them"}},
		"OpenAI's key":           {resource: azure.Resource{Endpoint: endpoint, Key: "k"}, opts: []openai.Option{openai.APIKey("x")}, kind: model.ErrorInvalid, says: []string{"APIKey", "package azure"}},
		"OpenAI's server":        {resource: azure.Resource{Endpoint: endpoint, Key: "k"}, opts: []openai.Option{openai.BaseURL("https://x")}, kind: model.ErrorInvalid, says: []string{"BaseURL"}},
		"no credentials":         {resource: azure.Resource{Endpoint: endpoint}, kind: model.ErrorAuth, says: []string{"no credentials", "AZURE_OPENAI_API_KEY", "az login"}},
		"a wrong key":            {resource: azure.Resource{Endpoint: endpoint, Key: "wrong"}, has: strict.Azure{Key: "k"}, kind: model.ErrorAuth, says: []string{"(HTTP 401)", "invalid subscription key", "check AZURE_OPENAI_API_KEY"}},
		"an expired token":       {resource: azure.Resource{Endpoint: endpoint, Credential: is("entra-token")}, has: strict.Azure{Token: "entra-token", Expired: true}, kind: model.ErrorAuth, says: []string{"(HTTP 401)", "expired", "Cognitive Services OpenAI User"}},
		"a wrong client secret":  {resource: azure.Resource{Endpoint: endpoint, Credential: principal(t, 401, `{"error":"invalid_client","error_description":"AADSTS7000215: Invalid client secret provided."}`)}, kind: model.ErrorAuth, says: []string{"AADSTS7000215", "AZURE_CLIENT_SECRET"}},
		"Entra is down":          {resource: azure.Resource{Endpoint: endpoint, Credential: principal(t, 503, `{"error":"temporarily_unavailable"}`)}, kind: model.ErrorOverloaded, says: []string{"can't be had"}},
		"no such deployment":     {resource: azure.Resource{Endpoint: endpoint, Key: "k"}, has: strict.Azure{Key: "k", Deployment: "other"}, kind: model.ErrorNotFound, says: []string{"does not exist"}},
		"a server that tells":    {resource: azure.Resource{Endpoint: endpoint, Credential: is("entra-token")}, refuses: told, kind: model.ErrorAuth, says: []string{"no such token: [redacted]"}},
		"too many requests":      {resource: azure.Resource{Endpoint: endpoint, Key: "k"}, refuses: throttled, kind: model.ErrorRateLimit, says: []string{"call rate limit"}},
	} {
		t.Run(name, func(t *testing.T) {
			clear(t)
			s := &strict.Server{Check: func(r *http.Request, body []byte) error {
				if c.refuses != nil {
					return c.refuses
				}
				if c.has == (strict.Azure{}) {
					t.Error("a request was sent")
				}
				if c.has.Deployment == "" {
					c.has.Deployment = "mine"
				}
				return c.has.Check(r, body)
			}}
			m := azure.New("mine", c.resource, append(c.opts, openai.HTTPClient(&http.Client{Transport: s}))...)
			_, err := m.Generate(t.Context(), &model.Request{Messages: []chat.Message{chat.User("hi")}})
			e, ok := errors.AsType[*model.Error](err)
			if !ok || e.Kind != c.kind || e.Provider != "azure" || c.refuses != nil && e.RetryAfter != 7*time.Second {
				t.Fatalf("%#v", err)
			}
			for _, text := range c.says {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q does not say %q", err, text)
				}
			}
			if strings.Contains(err.Error(), "client-secret") {
				t.Errorf("%q tells a secret", err)
			}
		})
	}
}

func TestACallThatIsEndedDoesNotWaitForAToken(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	m := azure.New("mine", azure.Resource{Endpoint: endpoint, Credential: token(func(policy.TokenRequestOptions) (string, error) {
		cancel(stopped)
		return "t", nil
	})}, openai.HTTPClient(&http.Client{Transport: &strict.Server{}}))
	if _, err := m.Generate(ctx, &model.Request{Messages: []chat.Message{chat.User("hi")}}); !errors.Is(err, context.Canceled) || !errors.Is(err, stopped) {
		t.Error(err)
	}
}

// TestLive asks a real deployment, with the credentials of the environment.
func TestLive(t *testing.T) {
	name := os.Getenv("SUPERSTEP_LIVE_AZURE_DEPLOYMENT")
	if name == "" {
		t.Skip("NOT RUN: no real model was asked; set SUPERSTEP_LIVE_AZURE_DEPLOYMENT and AZURE_OPENAI_ENDPOINT, and AZURE_OPENAI_API_KEY or sign in with az login")
	}
	m := azure.New(name, azure.Resource{})
	resp, err := model.Collect(m.Stream(t.Context(), &model.Request{Messages: []chat.Message{chat.User("Say hello.")}}))
	if err != nil || resp.Message.Text() == "" {
		t.Errorf("%v, %v", resp, err)
	}
}
