package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/model/models"
)

// embeddings serves OpenAI's API for embeddings, of texts that share words.
func embeddings(t *testing.T, name string) (url string, asked *atomic.Int32) {
	t.Helper()
	asked = new(atomic.Int32)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		var b struct {
			Model      string   `json:"model"`
			Dimensions int      `json:"dimensions"`
			Input      []string `json:"input"`
		}
		err := json.NewDecoder(r.Body).Decode(&b)
		if err == nil && (r.URL.Path != "/v1/embeddings" || b.Model != name || b.Dimensions == 0) {
			err = errors.New("not as asked for")
		}
		if err != nil {
			t.Errorf("%s %+v: %v", r.URL, b, err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		vectors, err := memory.HashEmbedder(b.Dimensions).Embed(r.Context(), b.Input)
		if err != nil {
			t.Error(err)
		}
		type one struct {
			Index     int       `json:"index"`
			Embedding []float32 `json:"embedding"`
		}
		var out struct {
			Data []one `json:"data"`
		}
		for i, v := range vectors {
			out.Data = append(out.Data, one{i, v})
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(out); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1", asked
}

// tell sends JSON to a server and decodes the answer.
func tell(t *testing.T, method, url, body string, v any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 {
		t.Fatalf("%s %s: %s", method, url, answer.Status)
	}
	if v != nil {
		if err := json.NewDecoder(answer.Body).Decode(v); err != nil {
			t.Fatal(err)
		}
	}
}

func TestServeSearchesTheStoreByMeaningWithTheModelThatIsNamed(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "k")
	at, asked := embeddings(t, "text-embedding-3-small")
	store := "sqlite:" + filepath.Join(t.TempDir(), "a.db")
	args := []string{"--store", store, "--store-index", "openai:text-embedding-3-small@" + at, "--store-index-fields", "text,notes[*].text"}
	url := servedWith(t, []cli.Option{cli.Embedders(models.OpenEmbedder)}, args...)
	for key, value := range map[string]string{
		"tea":   `{"text": "ada drinks tea in the morning"}`,
		"notes": `{"notes": [{"text": "the ship leaves"}, {"text": "ada drinks tea"}]}`,
		"title": `{"title": "ada drinks tea"}`,
	} {
		tell(t, "PUT", url+"/store/items", `{"namespace": ["facts"], "key": "`+key+`", "value": `+value+`}`, nil)
	}
	var found struct {
		Items []struct {
			Key   string
			Score float64
		}
	}
	tell(t, "POST", url+"/store/items/search", `{"namespace_prefix": ["facts"], "query": "ada drinks tea"}`, &found)
	if len(found.Items) != 2 || found.Items[0].Key != "notes" || found.Items[1].Key != "tea" || found.Items[0].Score <= found.Items[1].Score {
		t.Errorf("found %+v", found.Items)
	}
	if asked.Load() != 3 { // two items with such texts, and the query
		t.Errorf("the model was asked %d times", asked.Load())
	}
}

func TestServeSaysWhatIsWrongWithAnIndex(t *testing.T) {
	for name, tt := range map[string]struct {
		says string
		args []string
	}{
		"fields alone":         {"--store-index openai:text-embedding-3-small", []string{"--store-index-fields", "text"}},
		"dimensions alone":     {"for --store-index, which is missing", []string{"--store-index-dims", "3"}},
		"an unknown length":    {"--store-index-dims must say how many dimensions the vectors of ollama:nomic-embed-text have", []string{"--store-index", "ollama:nomic-embed-text@http://127.0.0.1:1"}},
		"a length that's none": {"--store-index-dims must", []string{"--store-index", "openai:text-embedding-3-small", "--store-index-dims", "-1"}},
		"no embeddings":        {"anthropic has no embeddings", []string{"--store-index", "anthropic:x", "--store-index-dims", "3"}},
		"no such vendor":       {"--store-index: ", []string{"--store-index", "nobody:x", "--store-index-dims", "3"}},
		"a field that is none": {"a name is empty", []string{"--store-index", "openai:text-embedding-3-small", "--store-index-fields", "a..b"}},
	} {
		var out, notes bytes.Buffer
		code := cli.Run(t.Context(), append([]string{"serve", "--port", "0", "--store", "memory"}, tt.args...), strings.NewReader(""), &out, &notes, cli.Graph(jokes()), cli.Embedders(models.OpenEmbedder))
		if code == 0 || !strings.Contains(notes.String(), tt.says) {
			t.Errorf("%s: %d %s", name, code, notes.String())
		}
	}
}
