// Package vertex has the models that Google Cloud runs on Vertex AI, in a project of one's
// own and with its credentials: Google's own, and Anthropic's.
//
//	m := vertex.Gemini("gemini-2.5-flash", vertex.Project{ID: "my-project"})
//	m := vertex.Claude("claude-sonnet-4-5@20250929", vertex.Project{ID: "my-project", Location: "us-east5"})
//
// The models are those of packages gemini and anthropic, which say what is sent and take
// the options. Their options APIKey and BaseURL are not for them. Failures
// are [*model.Error] of the provider "vertex", but for requests that those packages can't
// send at all. Files are named by URL, such as one of gs://
// in [chat.Source.FileID]: Vertex AI doesn't know the files of the Gemini API. Embedders
// have another API there, which this package has not.
//
// # Credentials
//
// They are [Project.Tokens], or else the Application Default Credentials: the file in
// GOOGLE_APPLICATION_CREDENTIALS, what "gcloud auth application-default login" has left, or
// the service account of the machine. They need the role "Vertex AI User" in the project.
// Credentials that are missing, wrong or expired are errors of [model.ErrorAuth] that say
// what to do.
package vertex

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/superstep-dev/superstep/model/anthropic"
	"github.com/superstep-dev/superstep/model/gemini"
	"github.com/superstep-dev/superstep/model/internal/vendor"
)

const (
	provider = "vertex"
	scope    = "https://www.googleapis.com/auth/cloud-platform"
	version  = "vertex-2023-10-16" // of Anthropic's API
)

// Project is where the models run.
type Project struct {
	ID       string // "" means that in GOOGLE_CLOUD_PROJECT, or else the credentials' own
	Location string // such as "us-east5"; "" means that in GOOGLE_CLOUD_LOCATION, or else "global"

	// Tokens are the credentials; see the package. They are asked for a token when the
	// last one is no longer valid.
	Tokens oauth2.TokenSource

	// Endpoint is the server, in the place of the location's: a private one, or a proxy.
	Endpoint string
}

// Gemini returns a model of Google's. It reads the environment and does nothing else; what
// is wrong is the error of the calls.
func Gemini(name string, p Project, opts ...gemini.Option) *gemini.Model {
	c := p.cloud(func(r *http.Request, parent string, body []byte) ([]byte, error) {
		// The path is /v1beta/models/NAME:METHOD.
		base, call, _ := strings.Cut(r.URL.Path, "/v1beta/models/")
		model, _, ok := strings.Cut(call, ":")
		if !ok || !plain(model) {
			return nil, vendor.Invalid(provider, "the model %q is not one of Google's on Vertex AI", r.URL.Path)
		}
		r.URL.Path, r.URL.RawPath = base+"/v1beta1/"+parent+"/publishers/google/models/"+call, ""
		return body, nil
	})
	return gemini.New(name, append(opts[:len(opts):len(opts)], func(s *vendor.Settings) { s.Cloud = c })...)
}

// Claude returns a model of Anthropic's, by its name at Vertex AI. It reads the
// environment and does nothing else; what is wrong is the error of the calls.
func Claude(name string, p Project, opts ...anthropic.Option) *anthropic.Model {
	c := p.cloud(func(r *http.Request, parent string, body []byte) ([]byte, error) {
		model, body, err := vendor.TakeText(body, "model")
		if err == nil {
			body, err = vendor.Extend(body, map[string]any{"anthropic_version": version}, nil)
		}
		if err != nil {
			return nil, vendor.Invalid(provider, "the request: %w", err)
		}
		if !plain(model) {
			return nil, vendor.Invalid(provider, "the model %q is not one of Anthropic's on Vertex AI", model)
		}
		method := ":rawPredict"
		if _, taken, err := vendor.Take(body, "stream"); err == nil && string(taken["stream"]) == "true" {
			method = ":streamRawPredict"
		}
		r.Header.Del("Anthropic-Version")
		base := strings.TrimSuffix(r.URL.Path, "/v1/messages")
		r.URL.Path, r.URL.RawPath = base+"/v1/"+parent+"/publishers/anthropic/models/"+model+method, ""
		return body, nil
	})
	return anthropic.New(name, append(opts[:len(opts):len(opts)], func(s *vendor.Settings) { s.Cloud = c })...)
}

// plain reports whether a name can stand in a path as it is.
func plain(name string) bool {
	return url.PathEscape(name) == name && !strings.Contains(name, "..")
}

// cloud returns Vertex AI, for requests that are made its by a function, which is told
// where the project's models are.
func (p Project) cloud(prepare func(r *http.Request, parent string, body []byte) ([]byte, error)) *vendor.Cloud {
	location := cmp.Or(p.Location, os.Getenv("GOOGLE_CLOUD_LOCATION"), "global")
	id := cmp.Or(p.ID, os.Getenv("GOOGLE_CLOUD_PROJECT"))
	c := &vendor.Cloud{
		Name: provider, BaseURL: cmp.Or(p.Endpoint, endpoint(location)),
		Mend: "run gcloud auth application-default login, or set GOOGLE_APPLICATION_CREDENTIALS to a file of credentials; they need the role Vertex AI User in the project, which must have the Vertex AI API",
	}
	login := &login{tokens: p.Tokens}
	if login.tokens != nil {
		login.tokens = oauth2.ReuseTokenSource(nil, login.tokens)
	}
	for _, name := range []string{location, id} {
		if !plain(name) {
			c.Err = vendor.Invalid(provider, "the project or location %q can't stand in a URL", name)
		}
	}
	c.Prepare = func(r *http.Request, body []byte) ([]byte, error) {
		token, err := vendor.Wait(r.Context(), login.token)
		if err != nil {
			status := 0
			if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok && e.Response != nil {
				status = e.Response.StatusCode
			}
			return nil, c.NoCredentials(err, status)
		}
		project := cmp.Or(id, login.project)
		if project == "" {
			return nil, vendor.Invalid(provider, "no project: set GOOGLE_CLOUD_PROJECT or give vertex.Project.ID")
		}
		token.SetAuthHeader(r)
		if login.quota != "" {
			r.Header.Set("X-Goog-User-Project", login.quota)
		}
		return prepare(r, "projects/"+project+"/locations/"+location, body)
	}
	return c
}

// endpoint is the server of a location.
func endpoint(location string) string {
	switch location {
	case "global":
		return "https://aiplatform.googleapis.com"
	case "us", "eu":
		return "https://aiplatform." + location + ".rep.googleapis.com"
	}
	return "https://" + location + "-aiplatform.googleapis.com"
}

// login has the credentials, which are looked for when they are needed. The other fields
// are set by token.
type login struct {
	mu             sync.Mutex
	tokens         oauth2.TokenSource
	project, quota string
}

// token knows no context: the token may serve later calls, too.
func (l *login) token() (*oauth2.Token, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tokens == nil {
		creds, err := google.FindDefaultCredentials(context.Background(), scope)
		if err != nil {
			return nil, err
		}
		// Those of a person say to whose account calls go.
		var file struct {
			Quota string `json:"quota_project_id"`
		}
		_ = json.Unmarshal(creds.JSON, &file) // a machine's have none
		l.tokens, l.project, l.quota = creds.TokenSource, creds.ProjectID, file.Quota
	}
	return l.tokens.Token()
}
