package vertex_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/oauth2"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/anthropic"
	"github.com/superstep-dev/superstep/model/gemini"
	"github.com/superstep-dev/superstep/model/internal/strict"
	"github.com/superstep-dev/superstep/model/vertex"
)

const (
	byGemini = `{"candidates":[{"content":{"role":"model","parts":[{"text":"Hello."}]},"finishReason":"STOP"}],"modelVersion":"gemini-test","responseId":"r"}`
	byClaude = `{"id":"msg","type":"message","role":"assistant","model":"claude-test","content":[{"type":"text","text":"Hello."}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`
	good     = "google-token"
)

func is(token string) oauth2.TokenSource {
	return oauth2.StaticTokenSource(&oauth2.Token{AccessToken: token})
}

func hello() *model.Request { return &model.Request{Messages: []chat.Message{chat.User("hi")}} }

func clear(t *testing.T) {
	for _, name := range []string{"GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_APPLICATION_CREDENTIALS"} {
		t.Setenv(name, "")
	}
	for _, name := range []string{"GOOGLE_API_KEY", "GEMINI_API_KEY", "ANTHROPIC_API_KEY"} {
		t.Setenv(name, "not-for-vertex")
	}
	for _, name := range []string{"GOOGLE_GEMINI_BASE_URL", "ANTHROPIC_BASE_URL"} {
		t.Setenv(name, "https://not-vertex.example")
	}
}

// signedIn sets the credentials of a person, whose tokens come from a server that answers
// with a status.
func signedIn(t *testing.T, status int, answer string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("refresh_token") != "refresh" {
			t.Errorf("asked for a token with %v", r.Form)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "adc.json")
	data, err := json.Marshal(map[string]string{"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "refresh", "token_uri": s.URL, "quota_project_id": "payer"})
	if err == nil {
		err = os.WriteFile(file, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
}

func TestModelsOfAProjectAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		project vertex.Project
		env     map[string]string
		has     strict.Vertex
	}{
		"in a region":        {vertex.Project{ID: "p", Location: "us-east5", Tokens: is(good)}, map[string]string{"GOOGLE_CLOUD_PROJECT": "other"}, strict.Vertex{Project: "p", Location: "us-east5"}},
		"on a continent":     {vertex.Project{ID: "p", Location: "eu", Tokens: is(good)}, nil, strict.Vertex{Project: "p", Location: "eu"}},
		"anywhere":           {vertex.Project{ID: "p", Tokens: is(good)}, nil, strict.Vertex{Project: "p", Location: "global"}},
		"of the environment": {vertex.Project{Tokens: is(good)}, map[string]string{"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "europe-west4"}, strict.Vertex{Project: "p", Location: "europe-west4"}},
	} {
		t.Run(name, func(t *testing.T) {
			clear(t)
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			c.has.Token = good
			s := &strict.Server{Check: c.has.Check, Answers: []string{byGemini, byClaude}}
			client := &http.Client{Transport: s}
			for _, m := range []model.Model{vertex.Gemini("gemini-test", c.project, gemini.HTTPClient(client)), vertex.Claude("claude-test", c.project, anthropic.HTTPClient(client))} {
				if resp, err := m.Generate(t.Context(), hello()); err != nil || resp.Message.Text() != "Hello." {
					t.Errorf("%v, %v", resp, err)
				}
			}
		})
	}
}

// Who is signed in by gcloud is so for models, and says whose quota counts.
func TestTheDefaultCredentialsAreUsed(t *testing.T) {
	clear(t)
	signedIn(t, 200, `{"access_token":"google-token","expires_in":3600,"token_type":"Bearer"}`)
	s := &strict.Server{Check: func(r *http.Request, body []byte) error {
		if got := r.Header.Get("X-Goog-User-Project"); got != "payer" {
			return fmt.Errorf("the quota of %q", got)
		}
		return strict.Vertex{Project: "p", Location: "global", Token: good}.Check(r, body)
	}, Answers: []string{byGemini}}
	if _, err := vertex.Gemini("gemini-test", vertex.Project{ID: "p"}, gemini.HTTPClient(&http.Client{Transport: s})).Generate(t.Context(), hello()); err != nil {
		t.Error(err)
	}
}

func TestAProxyIsAskedBelowItsPath(t *testing.T) {
	clear(t)
	var got []string
	s := &strict.Server{Check: func(r *http.Request, _ []byte) error {
		got = append(got, r.URL.String())
		return nil
	}, Answers: []string{byGemini, byClaude}}
	client, p := &http.Client{Transport: s}, vertex.Project{ID: "p", Location: "eu", Tokens: is(good), Endpoint: "https://proxy/v1x"}
	for _, m := range []model.Model{vertex.Gemini("g", p, gemini.HTTPClient(client)), vertex.Claude("c", p, anthropic.HTTPClient(client))} {
		if _, err := m.Generate(t.Context(), hello()); err != nil {
			t.Error(err)
		}
	}
	if want := "[https://proxy/v1x/v1beta1/projects/p/locations/eu/publishers/google/models/g:generateContent https://proxy/v1x/v1/projects/p/locations/eu/publishers/anthropic/models/c:rawPredict]"; fmt.Sprint(got) != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestWhatIsWrongWithCredentialsIsSaidWithTheMend(t *testing.T) {
	file := func(name string) func(*testing.T) {
		return func(t *testing.T) { t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", name) }
	}
	tokens := func(status int, answer string) func(*testing.T) {
		return func(t *testing.T) { signedIn(t, status, answer) }
	}
	revoked := `{"error":"invalid_grant","error_description":"Token has been expired or revoked."}`
	throttled := &strict.Refusal{Status: 429, Body: `{"error":{"code":429,"message":"Resource exhausted. Please try again later.","status":"RESOURCE_EXHAUSTED"}}`}
	has := strict.Vertex{Project: "p", Location: "global", Token: good}
	for name, c := range map[string]struct {
		project vertex.Project
		set     func(*testing.T)
		check   strict.Check
		kind    model.ErrorKind
		says    []string
	}{
		"no file of credentials":   {vertex.Project{ID: "p"}, file("/nowhere/adc.json"), nil, model.ErrorAuth, []string{"no credentials", "/nowhere/adc.json", "gcloud auth application-default login"}},
		"a sign-in that has ended": {vertex.Project{ID: "p"}, tokens(400, revoked), nil, model.ErrorAuth, []string{"expired or revoked", "gcloud auth application-default login"}},
		"Google is down":           {vertex.Project{ID: "p"}, tokens(503, `{}`), nil, model.ErrorOverloaded, []string{"can't be had"}},
		"no project":               {vertex.Project{Tokens: is(good)}, nil, nil, model.ErrorInvalid, []string{"GOOGLE_CLOUD_PROJECT"}},
		"a project that is none":   {vertex.Project{ID: "../x", Tokens: is(good)}, nil, nil, model.ErrorInvalid, []string{`"../x"`}},
		"a wrong token":            {vertex.Project{ID: "p", Tokens: is("another-token")}, nil, has.Check, model.ErrorAuth, []string{"(HTTP 401)", "invalid authentication", "gcloud auth application-default login"}},
		"another project":          {vertex.Project{ID: "q", Tokens: is(good)}, nil, has.Check, model.ErrorAuth, []string{"(HTTP 403)", "projects/q", "Vertex AI User"}},
		"too many requests":        {vertex.Project{ID: "p", Tokens: is(good)}, nil, func(*http.Request, []byte) error { return throttled }, model.ErrorRateLimit, []string{"Resource exhausted"}},
	} {
		t.Run(name, func(t *testing.T) {
			clear(t)
			if c.set != nil {
				c.set(t)
			}
			s := &strict.Server{Check: func(r *http.Request, body []byte) error {
				if c.check == nil {
					t.Error("a request was sent")
				}
				return c.check(r, body)
			}}
			client := &http.Client{Transport: s}
			for _, m := range []model.Model{vertex.Gemini("gemini-test", c.project, gemini.HTTPClient(client)), vertex.Claude("claude-test", c.project, anthropic.HTTPClient(client))} {
				_, err := model.Collect(m.Stream(t.Context(), hello()))
				e, ok := errors.AsType[*model.Error](err)
				if !ok || e.Kind != c.kind || e.Provider != "vertex" {
					t.Fatalf("%#v", err)
				}
				for _, text := range c.says {
					if !strings.Contains(err.Error(), text) {
						t.Errorf("%q does not say %q", err, text)
					}
				}
			}
		})
	}
}

func TestOptionsOfTheVendorsOwnAreRefused(t *testing.T) {
	p := vertex.Project{ID: "p", Tokens: is(good)}
	for _, m := range []model.Model{
		vertex.Gemini("g", p, gemini.APIKey("x")), vertex.Gemini("g", p, gemini.BaseURL("https://x")), vertex.Gemini("tunedModels/g", p), vertex.Claude("a/b", p),
		vertex.Claude("c", p, anthropic.APIKey("x")), vertex.Claude("c", p, anthropic.BaseURL("https://x")),
	} {
		_, err := m.Generate(t.Context(), hello())
		if e, ok := errors.AsType[*model.Error](err); !ok || e.Kind != model.ErrorInvalid || e.Provider != "vertex" {
			t.Errorf("%#v", err)
		}
	}
}

// held is a source of tokens that gives none until it is closed.
type held chan struct{}

func (h held) Token() (*oauth2.Token, error) {
	<-h
	return nil, errors.New("closed")
}

func TestACallThatIsEndedDoesNotWaitForAToken(t *testing.T) {
	h := make(held)
	defer close(h)
	ctx, cancel := context.WithCancel(t.Context())
	go cancel()
	if _, err := vertex.Gemini("g", vertex.Project{ID: "p", Tokens: h}).Generate(ctx, hello()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestLive asks real models, with the credentials of the environment.
func TestLive(t *testing.T) {
	asked := false
	for name, open := range map[string]func(string) model.Model{
		"SUPERSTEP_LIVE_VERTEX_GEMINI": func(name string) model.Model { return vertex.Gemini(name, vertex.Project{}) },
		"SUPERSTEP_LIVE_VERTEX_CLAUDE": func(name string) model.Model { return vertex.Claude(name, vertex.Project{}) },
	} {
		if name = os.Getenv(name); name == "" {
			continue
		}
		asked = true
		resp, err := model.Collect(open(name).Stream(t.Context(), &model.Request{Messages: []chat.Message{chat.User("Say hello.")}}))
		if err != nil || resp.Message.Text() == "" {
			t.Errorf("%s: %v, %v", name, resp, err)
		}
	}
	if !asked {
		t.Skip("NOT RUN: no real model was asked; set SUPERSTEP_LIVE_VERTEX_GEMINI or SUPERSTEP_LIVE_VERTEX_CLAUDE, GOOGLE_CLOUD_PROJECT, and sign in with gcloud auth application-default login")
	}
}
