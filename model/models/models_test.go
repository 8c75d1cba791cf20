package models_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/models"
)

// unset takes away what the environment of the test says about models.
func unset(t *testing.T) {
	for _, name := range []string{
		models.Variable, "OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL",
		"GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL", "OLLAMA_HOST", "OLLAMA_API_KEY",
	} {
		t.Setenv(name, "")
	}
}

// server answers like a vendor's and keeps the last request.
type server struct {
	*httptest.Server
	path, key string
	body      map[string]any
}

func serve(t *testing.T, answer string) *server {
	data, err := os.ReadFile(answer)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.path, s.key, s.body = r.URL.Path, "", nil
		for _, name := range []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key"} {
			s.key += r.Header.Get(name)
		}
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &s.body)
		}
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		if _, err := w.Write(data); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func ask(t *testing.T, m model.Model) {
	t.Helper()
	resp, err := m.Generate(t.Context(), &model.Request{Messages: []chat.Message{chat.User("hi")}, Config: model.Config{MaxTokens: 7}})
	if err != nil {
		t.Fatal(err)
	}
	if resp.Message.Text() == "" {
		t.Errorf("the answer is %+v", resp.Message)
	}
}

const (
	openaiAnswer    = "../openai/testdata/answer/text.json"
	responsesAnswer = "../openai/testdata/response.json"
	anthropicAnswer = "../anthropic/testdata/answer.json"
	geminiAnswer    = "../gemini/testdata/answer.json"
)

func TestANameIsAModelOnAServer(t *testing.T) {
	for _, c := range []struct {
		name   string // URL stands for the server's
		env    map[string]string
		answer string
		path   string
		model  string // in the body
		key    string
	}{
		{"openai:gpt-5", map[string]string{"OPENAI_BASE_URL": "URL/v1", "OPENAI_API_KEY": "k"}, openaiAnswer, "/v1/chat/completions", "gpt-5", "Bearer k"},
		{"openai:qwen@URL/v1", map[string]string{"OPENAI_API_KEY": "k"}, openaiAnswer, "/v1/chat/completions", "qwen", ""},
		{"openai:meta-llama/Llama-3.1:free@URL/api", nil, openaiAnswer, "/api/chat/completions", "meta-llama/Llama-3.1:free", ""},
		{"openai:claude@20250514@URL/v1", nil, openaiAnswer, "/v1/chat/completions", "claude@20250514", ""},
		{"openai-responses:gpt-5", map[string]string{"OPENAI_BASE_URL": "URL/v1", "OPENAI_API_KEY": "k"}, responsesAnswer, "/v1/responses", "gpt-5", "Bearer k"},
		{"openai-responses:qwen@URL/v1", map[string]string{"OPENAI_API_KEY": "k"}, responsesAnswer, "/v1/responses", "qwen", ""},
		{"anthropic:claude-sonnet-4-5", map[string]string{"ANTHROPIC_BASE_URL": "URL", "ANTHROPIC_API_KEY": "k"}, anthropicAnswer, "/v1/messages", "claude-sonnet-4-5", "k"},
		{"anthropic:claude-sonnet-4-5@URL", map[string]string{"ANTHROPIC_API_KEY": "k"}, anthropicAnswer, "/v1/messages", "claude-sonnet-4-5", "k"},
		{"gemini:gemini-2.5-pro", map[string]string{"GOOGLE_GEMINI_BASE_URL": "URL", "GEMINI_API_KEY": "k"}, geminiAnswer, "/v1beta/models/gemini-2.5-pro:generateContent", "", "k"},
		{"gemini:gemini-2.5-pro@URL", map[string]string{"GEMINI_API_KEY": "k"}, geminiAnswer, "/v1beta/models/gemini-2.5-pro:generateContent", "", "k"},
		{"ollama:llama3.2", map[string]string{"OLLAMA_HOST": "URL", "OPENAI_API_KEY": "k"}, openaiAnswer, "/v1/chat/completions", "llama3.2", ""},
		{"ollama:llama3.2:3b", map[string]string{"OLLAMA_HOST": "URL/", "OLLAMA_API_KEY": "o"}, openaiAnswer, "/v1/chat/completions", "llama3.2:3b", "Bearer o"},
		{"ollama:llama3.2@URL", map[string]string{"OLLAMA_HOST": "nowhere", "OLLAMA_API_KEY": "o"}, openaiAnswer, "/v1/chat/completions", "llama3.2", ""},
		{"ollama:llama3.2@URL/v1", nil, openaiAnswer, "/v1/chat/completions", "llama3.2", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			unset(t)
			s := serve(t, c.answer)
			for name, value := range c.env {
				t.Setenv(name, strings.ReplaceAll(value, "URL", s.URL))
			}
			name := strings.ReplaceAll(c.name, "URL", s.URL)
			m, err := models.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			ask(t, m)
			if got, _ := s.body["model"].(string); s.path != c.path || got != c.model || s.key != c.key {
				t.Errorf("it asked %s for %q with the key %q, want %s, %q, %q", s.path, got, s.key, c.path, c.model, c.key)
			}
			t.Setenv(models.Variable, name)
			if m, err = models.FromEnv(); err != nil {
				t.Fatal(err)
			}
			ask(t, m)
		})
	}
}

// Ollama heeds max_tokens alone.
func TestOllamaIsToldTheLimitInItsOwnWord(t *testing.T) {
	unset(t)
	s := serve(t, openaiAnswer)
	m, err := models.Open("ollama:llama3.2@" + s.URL)
	if err != nil {
		t.Fatal(err)
	}
	ask(t, m)
	if s.body["max_tokens"] != 7.0 || s.body["max_completion_tokens"] != nil {
		t.Errorf("the body is %v", s.body)
	}
}

func TestNamesThatAreNone(t *testing.T) {
	unset(t)
	const use = ": use " + models.Usage
	for name, want := range map[string]string{
		"":                                `unknown provider ""` + use,
		"gpt-5":                           `unknown provider "gpt-5"` + use,
		"mistral:large":                   `unknown provider "mistral"` + use,
		"openai":                          "model of openai: its name is missing: write openai:MODEL",
		"ollama:":                         "model of ollama: its name is missing: write ollama:MODEL",
		"openai:@http://localhost/v1":     "model of openai: its name is missing: write openai:MODEL",
		"openai:m@http://":                `model of openai: its server "http:" is not an http or https URL`,
		"openai:m@http://u:secret@h:port": "model of openai: the URL of its server can't be read",
		"gemini:m@http://u:secret@h/?a=b": `model of gemini: its server "http://u:xxxxx@h/?a=b" has something after the path`,
		"ollama:m@https:///v1":            `model of ollama: its server "https:///v1" is not an http or https URL`,
		"anthropic:m@http://h/#f":         `model of anthropic: its server "http://h/#f" has something after the path`,
	} {
		m, err := models.Open(name)
		if m != nil || err == nil || err.Error() != want {
			t.Errorf("%q is %v, %v\nwant %s", name, m, err, want)
		}
		var unknown *models.UnknownProviderError
		var wrong *models.NameError
		if errors.As(err, &unknown) == errors.As(err, &wrong) {
			t.Errorf("%q: the error is a %T", name, err)
		}
	}
	t.Setenv("OLLAMA_HOST", "ftp://there")
	if _, err := models.Open("ollama:m"); err == nil || err.Error() != `model of ollama: its server "ftp://there" is not an http or https URL` {
		t.Errorf("the error is %v", err)
	}
}

func TestTheEnvironmentNamesNoModel(t *testing.T) {
	unset(t)
	if _, err := models.FromEnv(); !errors.Is(err, models.ErrUnset) {
		t.Errorf("the error is %v", err)
	}
	t.Setenv(models.Variable, "gpt-5")
	var unknown *models.UnknownProviderError
	if _, err := models.FromEnv(); !errors.As(err, &unknown) || !strings.HasPrefix(err.Error(), "SUPERSTEP_MODEL: ") {
		t.Errorf("the error is %v", err)
	}
}

// A library that imported this package would choose for its users.
func TestOnlyProgramsImportThisPackage(t *testing.T) {
	const module = "github.com/superstep-dev/superstep/"
	cmd := exec.Command("go", "list", "-e", "-f", `{{range .Imports}}{{if eq . "`+module+`model/models"}}{{$.ImportPath}}{{end}}{{end}}`, "./...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, pkg := range strings.Fields(string(out)) {
		tree, _, _ := strings.Cut(strings.TrimPrefix(pkg, module), "/")
		if !slices.Contains([]string{"cmd", "cli", "examples"}, tree) {
			t.Errorf("%s imports it", pkg)
		}
	}
}

// Every provider that can be named refuses fields of a request's own that would
// replace what is said or called.
func TestNoProviderTakesExtraFieldsThatReplaceMessagesOrTools(t *testing.T) {
	for _, name := range []string{"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"} {
		t.Setenv(name, "k")
	}
	for name, messages := range map[string]string{"openai:m": "messages", "anthropic:m": "messages", "gemini:m": "contents", "ollama:m": "messages", "openai:m@http://localhost:1/v1": "messages"} {
		for _, field := range []string{messages, "tools"} {
			m, err := models.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			req := &model.Request{Messages: []chat.Message{chat.User("hi")}, Tools: []chat.ToolSpec{{Name: "f"}}}
			req.Extra = map[string]any{field: map[string]any{"x": 1}}
			var e *model.Error
			if _, err = m.Generate(t.Context(), req); !errors.As(err, &e) || e.Kind != model.ErrorInvalid || !strings.Contains(err.Error(), "is given by Request.") {
				t.Errorf("%s with its own %s: %v", name, field, err)
			}
		}
	}
}
