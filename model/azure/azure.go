// Package azure has the models that Azure runs, at a resource of one's own and with its key
// or an identity of Microsoft Entra: OpenAI's, and Anthropic's in Microsoft Foundry.
//
//	m := azure.New("my-deployment", azure.Resource{Endpoint: "https://my-resource.openai.azure.com"})
//	m := azure.Claude("claude-sonnet-4-5", azure.Resource{Endpoint: "https://my-resource.services.ai.azure.com"})
//
// The models are those of packages openai and anthropic, which say what is sent and take the
// options: openai.Responses, openai.Defaults and so on. Their options APIKey and BaseURL are
// not for them. Failures are [*model.Error] of the provider "azure", but for requests that
// those packages can't send at all.
//
// # Credentials
//
// They are [Resource.Key] or [Resource.Credential], or else the key in AZURE_OPENAI_API_KEY,
// for Anthropic's models that in ANTHROPIC_FOUNDRY_API_KEY, or else what the default
// credential of package azidentity finds: a service principal in
// AZURE_CLIENT_ID, AZURE_TENANT_ID and AZURE_CLIENT_SECRET, the identity of the workload or
// the machine, or whom "az login" has signed in. An identity needs the role "Cognitive
// Services OpenAI User" at the resource, for Anthropic's models "Cognitive Services User".
// Credentials that are missing, wrong or expired are errors of [model.ErrorAuth] that say
// what to do.
//
// # Names
//
// A deployment has what name one has given it. What a model takes is known by the model's
// name: for another, give openai.Capabilities or anthropic.Capabilities a table.
package azure

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/superstep-dev/superstep/model/anthropic"
	"github.com/superstep-dev/superstep/model/internal/vendor"
	"github.com/superstep-dev/superstep/model/openai"
)

const provider = "azure"

// DefaultScope is what tokens of Entra are asked for.
const DefaultScope = "https://cognitiveservices.azure.com/.default"

// Resource is a resource of Azure OpenAI, or of AI Foundry, and how to get at it.
type Resource struct {
	// Endpoint is its URL, https://NAME.openai.azure.com or, for Anthropic's models,
	// https://NAME.services.ai.azure.com; with or without the path /openai/v1 or
	// /anthropic. "" means that in AZURE_OPENAI_ENDPOINT or ANTHROPIC_FOUNDRY_BASE_URL.
	Endpoint string

	// Key and Credential are the credentials, one of them; see the package.
	Key        string
	Credential azcore.TokenCredential

	// Scope is that of the credential's tokens; "" means [DefaultScope]. Other clouds than
	// the public one have others.
	Scope string

	// APIVersion asks by the older API, such as "2024-10-21", which has versions by date.
	// "" means the v1 API. Anthropic's models have only one.
	APIVersion string
}

// New returns the model of a deployment. It reads the environment and does nothing else;
// what is wrong is the error of the calls.
func New(deployment string, r Resource, opts ...openai.Option) *openai.Model {
	return openai.New(deployment, r.options(opts)...)
}

// NewEmbedder returns the embedder of a deployment, whose vectors have so many
// dimensions, as [openai.NewEmbedder] does.
func NewEmbedder(deployment string, dimensions int, r Resource, opts ...openai.Option) *openai.Embedder {
	return openai.NewEmbedder(deployment, dimensions, r.options(opts)...)
}

func (r Resource) options(opts []openai.Option) []openai.Option {
	path := "/openai/v1"
	if r.APIVersion != "" {
		path = "/openai"
	}
	return append(opts[:len(opts):len(opts)], openai.On(r.cloud(path, "AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY", "Cognitive Services OpenAI User")))
}

// Claude returns the model of a deployment of one of Anthropic's. It reads the environment
// and does nothing else; what is wrong is the error of the calls.
func Claude(deployment string, r Resource, opts ...anthropic.Option) *anthropic.Model {
	c := r.cloud("/anthropic", "ANTHROPIC_FOUNDRY_BASE_URL", "ANTHROPIC_FOUNDRY_API_KEY", "Cognitive Services User")
	if c.Err == nil && r.APIVersion != "" {
		c.Err = vendor.Invalid(provider, "the APIVersion %q is OpenAI's: leave it out for Anthropic's models", r.APIVersion)
	}
	return anthropic.New(deployment, append(opts[:len(opts):len(opts)], func(s *vendor.Settings) { s.Cloud = c })...)
}

// cloud returns Azure, for an API at a path of the endpoint. Endpoint and key may be in two
// variables of the environment; an identity needs a role.
func (r Resource) cloud(path, endpointIn, keyIn, role string) *vendor.Cloud {
	c := &vendor.Cloud{Name: provider}
	if r.Key != "" && r.Credential != nil {
		c.Err = vendor.Invalid(provider, "the resource has a Key and a Credential: give one of them")
		return c
	}
	endpoint := strings.TrimRight(cmp.Or(r.Endpoint, os.Getenv(endpointIn)), "/")
	if endpoint == "" {
		c.Err = vendor.Invalid(provider, "no endpoint: set %s or give azure.Resource.Endpoint", endpointIn)
		return c
	}
	c.BaseURL = strings.TrimSuffix(strings.TrimSuffix(endpoint, "/openai/v1"), "/anthropic") + path
	key := r.Key
	if r.Credential == nil {
		key = strings.TrimSpace(cmp.Or(key, os.Getenv(keyIn)))
	}
	authorize := r.entra(c)
	if c.Mend = "set " + keyIn + ", or sign in with az login or AZURE_CLIENT_ID, AZURE_TENANT_ID and AZURE_CLIENT_SECRET; the identity needs the role " + role + " at the resource"; key != "" {
		c.Mend = "check " + keyIn + " or azure.Resource.Key: it must be a key of the resource of the endpoint that is not expired or replaced, and the resource must allow keys"
		authorize = func(req *http.Request) error {
			req.Header.Set("Api-Key", key)
			return nil
		}
	}
	c.Prepare = func(req *http.Request, body []byte) ([]byte, error) {
		if r.APIVersion != "" {
			if err := r.dated(req, body); err != nil {
				return nil, err
			}
		}
		return body, authorize(req)
	}
	return c
}

// entra authorizes by tokens.
func (r Resource) entra(c *vendor.Cloud) func(*http.Request) error {
	credential := sync.OnceValues(func() (azcore.TokenCredential, error) {
		if r.Credential != nil {
			return r.Credential, nil
		}
		return azidentity.NewDefaultAzureCredential(nil)
	})
	return func(req *http.Request) error {
		cred, err := credential()
		if err != nil {
			return c.NoCredentials(err, 0)
		}
		token, err := cred.GetToken(req.Context(), policy.TokenRequestOptions{Scopes: []string{cmp.Or(r.Scope, DefaultScope)}})
		if err != nil {
			status := 0
			if failed, ok := errors.AsType[*azidentity.AuthenticationFailedError](err); ok && failed.RawResponse != nil {
				status = failed.RawResponse.StatusCode
			}
			return c.NoCredentials(err, status)
		}
		req.Header.Set("Authorization", "Bearer "+token.Token)
		return nil
	}
}

// dated puts the deployment, where there is one, and the version into the URL.
func (r Resource) dated(req *http.Request, body []byte) error {
	for _, path := range []string{"/chat/completions", "/embeddings"} {
		before, ok := strings.CutSuffix(req.URL.Path, path)
		if !ok {
			continue
		}
		name, _, err := vendor.TakeText(body, "model")
		if err != nil {
			return vendor.Invalid(provider, "the deployment: %w", err)
		}
		req.URL.RawPath = (&url.URL{Path: before}).EscapedPath() + "/deployments/" + url.PathEscape(name) + path
		req.URL.Path = before + "/deployments/" + name + path
	}
	req.URL.RawQuery = url.Values{"api-version": {r.APIVersion}}.Encode()
	return nil
}
