package models_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/models"
)

// The server stands in for Ollama, so that the example runs without it.
func ExampleOpenEmbedder() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"data":[{"index":0,"embedding":[1,0]},{"index":1,"embedding":[0,1]}]}`)
	}))
	defer server.Close()

	e, err := models.OpenEmbedder("ollama:nomic-embed-text@"+server.URL, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	vectors, err := model.Embed(context.Background(), e, []string{"cats", "ships"})
	fmt.Println(vectors, err)
	// Output: [[1 0] [0 1]] <nil>
}

func TestANameIsAnEmbedderOnAServer(t *testing.T) {
	const (
		openaiVectors = `{"data":[{"index":0,"embedding":[1,2]}]}`
		geminiVectors = `{"embeddings":[{"values":[1,2]}]}`
	)
	for _, c := range []struct {
		name       string // URL stands for the server's
		env        map[string]string
		answer     string
		path       string
		model      string  // in the body
		dimensions float64 // in the body; 0 if it has none
		key        string
	}{
		{"openai:text-embedding-3-small", map[string]string{"OPENAI_BASE_URL": "URL/v1", "OPENAI_API_KEY": "k"}, openaiVectors, "/v1/embeddings", "text-embedding-3-small", 2, "Bearer k"},
		{"openai:text-embedding-3-large@URL/v1", map[string]string{"OPENAI_API_KEY": "k"}, openaiVectors, "/v1/embeddings", "text-embedding-3-large", 2, ""},
		{"openai:BAAI/bge-m3@URL/api", nil, openaiVectors, "/api/embeddings", "BAAI/bge-m3", 0, ""},
		{"gemini:gemini-embedding-001", map[string]string{"GOOGLE_GEMINI_BASE_URL": "URL", "GEMINI_API_KEY": "k"}, geminiVectors, "/v1beta/models/gemini-embedding-001:batchEmbedContents", "", 0, "k"},
		{"gemini:gemini-embedding-001@URL", map[string]string{"GEMINI_API_KEY": "k"}, geminiVectors, "/v1beta/models/gemini-embedding-001:batchEmbedContents", "", 0, "k"},
		{"ollama:nomic-embed-text", map[string]string{"OLLAMA_HOST": "URL", "OPENAI_API_KEY": "k"}, openaiVectors, "/v1/embeddings", "nomic-embed-text", 0, ""},
		{"ollama:nomic-embed-text:v1.5", map[string]string{"OLLAMA_HOST": "URL/", "OLLAMA_API_KEY": "o"}, openaiVectors, "/v1/embeddings", "nomic-embed-text:v1.5", 0, "Bearer o"},
		{"ollama:nomic-embed-text@URL", map[string]string{"OLLAMA_HOST": "nowhere", "OLLAMA_API_KEY": "o"}, openaiVectors, "/v1/embeddings", "nomic-embed-text", 0, ""},
		{"ollama:nomic-embed-text@URL/v1", nil, openaiVectors, "/v1/embeddings", "nomic-embed-text", 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			unset(t)
			answer := filepath.Join(t.TempDir(), "answer.json")
			if err := os.WriteFile(answer, []byte(c.answer), 0o600); err != nil {
				t.Fatal(err)
			}
			s := serve(t, answer)
			for name, value := range c.env {
				t.Setenv(name, strings.ReplaceAll(value, "URL", s.URL))
			}
			e, err := models.OpenEmbedder(strings.ReplaceAll(c.name, "URL", s.URL), 2)
			if err != nil {
				t.Fatal(err)
			}
			vectors, err := model.Embed(t.Context(), e, []string{"a"})
			if err != nil || len(vectors) != 1 || e.Dimensions() != 2 {
				t.Fatalf("got %v, %v", vectors, err)
			}
			name, _ := s.body["model"].(string)
			dimensions, _ := s.body["dimensions"].(float64)
			if s.path != c.path || name != c.model || dimensions != c.dimensions || s.key != c.key {
				t.Errorf("it asked %s for %q of length %v with the key %q, want %s, %q, %v, %q", s.path, name, dimensions, s.key, c.path, c.model, c.dimensions, c.key)
			}
		})
	}
}

func TestNamesThatAreNoEmbedders(t *testing.T) {
	unset(t)
	const none = "anthropic has no embeddings: use " + models.EmbedderUsage
	for name, want := range map[string]string{
		"":                                `unknown provider ""`,
		"text-embedding-3-small":          `unknown provider "text-embedding-3-small"`,
		"mistral:mistral-embed":           `unknown provider "mistral"`,
		"anthropic":                       none,
		"anthropic:claude-sonnet-4-5":     none,
		"anthropic:m@http://localhost":    none,
		"openai":                          "model of openai: its name is missing: write openai:MODEL",
		"ollama:@http://localhost":        "model of ollama: its name is missing: write ollama:MODEL",
		"gemini:m@http://u:secret@h/?a=b": `model of gemini: its server "http://u:xxxxx@h/?a=b" has something after the path`,
		"ollama:m@http://u:secret@h:port": "model of ollama: the URL of its server can't be read",
		"openai:m@http://":                `model of openai: its server "http:" is not an http or https URL`,
	} {
		e, err := models.OpenEmbedder(name, 2)
		if e != nil || err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q is %v, %v\nwant %s", name, e, err, want)
			continue
		}
		_, unknown := errors.AsType[*models.UnknownProviderError](err)
		_, wrong := errors.AsType[*models.NameError](err)
		without, no := errors.AsType[*models.NoEmbeddingsError](err)
		if unknown != strings.HasPrefix(want, "unknown") || no != (want == none) || unknown == wrong && !no {
			t.Errorf("%q: the error is a %T", name, err)
		}
		if no && without.Provider != "anthropic" {
			t.Errorf("%q: the provider is %q", name, without.Provider)
		}
	}
	t.Setenv("OLLAMA_HOST", "ftp://there")
	if e, err := models.OpenEmbedder("ollama:m", 2); e != nil || err == nil || err.Error() != `model of ollama: its server "ftp://there" is not an http or https URL` {
		t.Errorf("got %v, %v", e, err)
	}
}

func TestWhatIsWrongWithTheRestIsTheErrorOfTheCall(t *testing.T) {
	unset(t)
	for name, kind := range map[string]model.ErrorKind{
		"openai:text-embedding-3-small": model.ErrorAuth,
		"gemini:gemini-embedding-001":   model.ErrorAuth,
		"ollama:nomic-embed-text":       model.ErrorInvalid, // which needs no key: the length is wrong
	} {
		e, err := models.OpenEmbedder(name, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.Embed(t.Context(), []string{"a"})
		if got, ok := errors.AsType[*model.Error](err); !ok || got.Kind != kind {
			t.Errorf("%s: the error is %v, want the kind %s", name, err, kind)
		}
	}
}
