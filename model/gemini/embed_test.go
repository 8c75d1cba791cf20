package gemini_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/gemini"
)

var _ model.Embedder = (*gemini.Embedder)(nil)

// The server stands in for Google's, so that the example runs without a key.
func ExampleNewEmbedder() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"embeddings":[{"values":[1,0,0]},{"values":[0,0.5,0.5]}]}`)
	}))
	defer server.Close()

	e := gemini.NewEmbedder("gemini-embedding-001", 3,
		gemini.APIKey("key"), // or GEMINI_API_KEY
		gemini.BaseURL(server.URL),
		gemini.Defaults(model.Config{Extra: map[string]any{"taskType": "SEMANTIC_SIMILARITY"}}))
	vectors, err := model.Embed(context.Background(), e, []string{"cats", "ships"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(e.Dimensions(), vectors)
	// Output: 3 [[1 0 0] [0 0.5 0.5]]
}

// embedder returns an embedder of two dimensions whose provider is the handler.
func embedder(t *testing.T, h http.HandlerFunc, opts ...gemini.Option) *gemini.Embedder {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return gemini.NewEmbedder("gemini-test", 2, append([]gemini.Option{gemini.APIKey(key), gemini.BaseURL(s.URL), gemini.HTTPClient(s.Client())}, opts...)...)
}

// batches answers with the number in each text, which follows its first letter,
// and keeps the texts of each request.
type batches struct {
	t    *testing.T
	mu   sync.Mutex
	sent [][]string
}

func (b *batches) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Requests []struct {
			Content struct{ Parts []struct{ Text string } }
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		b.t.Error(err)
	}
	var texts, vectors []string
	for _, q := range body.Requests {
		text := q.Content.Parts[0].Text
		texts = append(texts, text)
		vectors = append(vectors, fmt.Sprintf(`{"values":[%s,1]}`, text[1:]))
	}
	b.mu.Lock()
	b.sent = append(b.sent, texts)
	b.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"embeddings":[%s]}`, strings.Join(vectors, ","))
}

func numbered(n int) []string {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = fmt.Sprint("t", i)
	}
	return texts
}

func TestTextsAreSentAsTheAPIWantsThem(t *testing.T) {
	var got any
	e := embedder(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/v1beta/models/gemini-test:batchEmbedContents" {
			t.Errorf("%s %s", r.Method, r.URL.Path)
		}
		if r.Header.Get("X-Goog-Api-Key") != key || r.Header.Get("X-Some") != "header" {
			t.Errorf("header %v", r.Header)
		}
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"embeddings":[{"values":[1,2]},{"values":[3,4]}]}`)
	}, gemini.Header("x-some", "header"), gemini.Defaults(model.Config{Extra: map[string]any{"taskType": "CLUSTERING"}}))
	vectors, err := e.Embed(t.Context(), []string{"one", "two"})
	if err != nil || !reflect.DeepEqual(vectors, [][]float32{{1, 2}, {3, 4}}) {
		t.Errorf("got %v, %v", vectors, err)
	}
	var want any
	if err := json.Unmarshal([]byte(`{"requests":[
		{"model":"models/gemini-test","content":{"parts":[{"text":"one"}]},"outputDimensionality":2,"taskType":"CLUSTERING"},
		{"model":"models/gemini-test","content":{"parts":[{"text":"two"}]},"outputDimensionality":2,"taskType":"CLUSTERING"}]}`), &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("sent %v\nwant %v", got, want)
	}
}

func TestManyTextsAreSeveralRequests(t *testing.T) {
	for n, want := range map[int][]int{1: {1}, 100: {100}, 101: {100, 1}, 250: {100, 100, 50}} {
		b := &batches{t: t}
		texts := numbered(n)
		got, err := embedder(t, b.ServeHTTP).Embed(t.Context(), texts)
		if err != nil {
			t.Fatal(err)
		}
		var sizes []int
		for _, s := range b.sent {
			sizes = append(sizes, len(s))
		}
		if !slices.Equal(sizes, want) || !slices.Equal(slices.Concat(b.sent...), texts) || len(got) != n {
			t.Errorf("%d vectors by requests of %v texts, want %v, in order", len(got), sizes, want)
		}
		for i, v := range got {
			if v[0] != float32(i) {
				t.Fatalf("text %d has the vector of text %v", i, v[0])
			}
		}
	}
}

func TestAFailureOfALaterRequestIsThatOfAll(t *testing.T) {
	b := &batches{t: t}
	calls := 0
	e := embedder(t, func(w http.ResponseWriter, r *http.Request) {
		if calls++; calls == 1 {
			b.ServeHTTP(w, r)
			return
		}
		reply(200, "application/json", []byte(`{"embeddings":[{"values":[1,2]},{"values":[1]}]}`))(w, r)
	})
	got, err := e.Embed(t.Context(), numbered(102))
	check(t, err, model.ErrorResponse, "length 1, the embedder says 2")
	if e, ok := errors.AsType[*model.EmbeddingError](err); !ok || e.Text != 101 || got != nil {
		t.Errorf("got %d vectors, error %v", len(got), err)
	}
}

func TestVectorsThatWereNotAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		text int
		says string
	}{
		"too few":        {`{"embeddings":[{"values":[1,2]}]}`, -1, "1 vectors for the 2 texts"},
		"none":           {`{}`, -1, "0 vectors"},
		"too many":       {`{"embeddings":[{"values":[1,2]},{"values":[1,2]},{"values":[1,2]}]}`, -1, "3 vectors"},
		"a wrong length": {`{"embeddings":[{"values":[1,2]},{"values":[1,2,3]}]}`, 1, "length 3, the embedder says 2"},
		"no length":      {`{"embeddings":[{},{"values":[1,2]}]}`, 0, "length 0"},
		"null":           {`{"embeddings":[{"values":[1,2]},null]}`, 1, "no vector"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := embedder(t, reply(200, "application/json", []byte(c.body))).Embed(t.Context(), []string{"a", "b"})
			check(t, err, model.ErrorResponse, c.says)
			if e, ok := errors.AsType[*model.EmbeddingError](err); !ok || e.Text != c.text || got != nil {
				t.Errorf("got %v, %#v", got, e)
			}
		})
	}
}

func TestVectorsThatCannotBeRead(t *testing.T) {
	for _, body := range []string{
		`<html>`, `[]`, `{"embeddings":"x"}`, `{"embeddings":["x"]}`, `{"embeddings":[{"values":"x"}]}`,
		`{"embeddings":[{"values":["NaN",1]}]}`, `{"embeddings":[{"values":[1e300,1]}]}`,
	} {
		t.Run(body, func(t *testing.T) {
			_, err := embedder(t, reply(200, "application/json", []byte(body))).Embed(t.Context(), []string{"a"})
			check(t, err, model.ErrorResponse, "")
		})
	}
}

func TestErrorsOfTheAPIOfEmbeddings(t *testing.T) {
	for _, c := range []struct {
		status       int
		body, header string
		kind         model.ErrorKind
		says         string
		wait         time.Duration
	}{
		{400, `{"error":{"code":400,"message":"API key not valid: ` + key + `","status":"INVALID_ARGUMENT"}}`, "", model.ErrorAuth, "[redacted]", 0},
		{401, `{"error":{"code":401,"message":"who","status":"UNAUTHENTICATED"}}`, "", model.ErrorAuth, "who", 0},
		{404, `{"error":{"code":404,"message":"models/x","status":"NOT_FOUND"}}`, "", model.ErrorNotFound, "models/x", 0},
		{429, `{"error":{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED"}}`, "7", model.ErrorRateLimit, "slow", 7 * time.Second},
		{503, "busy", "", model.ErrorOverloaded, "busy", 0},
	} {
		t.Run(fmt.Sprint(c.status), func(t *testing.T) {
			calls := 0
			e := embedder(t, func(w http.ResponseWriter, r *http.Request) {
				calls++
				if c.header != "" {
					w.Header().Set("Retry-After", c.header)
				}
				reply(c.status, "application/json", []byte(c.body))(w, r)
			})
			got, err := e.Embed(t.Context(), []string{"a"})
			if e := check(t, err, c.kind, c.says); e.Status != c.status || e.RetryAfter != c.wait || got != nil || calls != 1 {
				t.Errorf("got %v, status %d, wait %v, after %d requests", got, e.Status, e.RetryAfter, calls)
			}
		})
	}
}

func TestAnAnswerThatBreaksOffHasNoVectors(t *testing.T) {
	e := embedder(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Length", "1000")
		io.WriteString(w, `{"embeddings"`)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	_, err := e.Embed(t.Context(), []string{"a"})
	check(t, err, model.ErrorBrokenStream, "")
}

func TestAnEmptyTextIsNamedAndNothingIsSent(t *testing.T) {
	e := embedder(t, func(http.ResponseWriter, *http.Request) { t.Error("the request was sent") })
	texts := numbered(200)
	texts[150] = ""
	_, err := e.Embed(t.Context(), texts)
	check(t, err, model.ErrorInvalid, "index 150 is empty")
}

func TestNoTextsAreNoRequest(t *testing.T) {
	e := embedder(t, func(http.ResponseWriter, *http.Request) { t.Error("the request was sent") })
	if got, err := e.Embed(t.Context(), nil); len(got) != 0 || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestWhatAnEmbedderCannotUseIsNamed(t *testing.T) {
	extra := func(name string, v any) gemini.Option {
		return gemini.Defaults(model.Config{Extra: map[string]any{name: v}})
	}
	for _, c := range []struct {
		name       string
		model      string
		dimensions int
		opts       []gemini.Option
		kind       model.ErrorKind
		says       string
	}{
		{"no name", "", 2, nil, model.ErrorInvalid, "no model is named"},
		{"a name that is none", "a?b", 2, nil, model.ErrorInvalid, "model"},
		{"no length", "m", 0, nil, model.ErrorInvalid, "0 dimensions"},
		{"a length beyond the API's", "m", 1 << 40, nil, model.ErrorInvalid, "1099511627776 dimensions"},
		{"no key", "m", 2, []gemini.Option{gemini.APIKey("")}, model.ErrorAuth, "GEMINI_API_KEY"},
		{"a bad server", "m", 2, []gemini.Option{gemini.BaseURL("ftp://x")}, model.ErrorInvalid, "ftp://x"},
		{"another content", "m", 2, []gemini.Option{extra("content", 1)}, model.ErrorInvalid, `"content"`},
		{"another model", "m", 2, []gemini.Option{extra("model", 1)}, model.ErrorInvalid, `"model"`},
		{"another length", "m", 2, []gemini.Option{extra("outputDimensionality", 1)}, model.ErrorInvalid, `"outputDimensionality"`},
		{"an extra that is not JSON", "m", 2, []gemini.Option{extra("x", make(chan int))}, model.ErrorInvalid, "chan int"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the request was sent") }))
			defer s.Close()
			e := gemini.NewEmbedder(c.model, c.dimensions, append([]gemini.Option{gemini.APIKey(key), gemini.BaseURL(s.URL)}, c.opts...)...)
			got, err := e.Embed(t.Context(), []string{"a"})
			check(t, err, c.kind, c.says)
			if got != nil || e.Dimensions() != c.dimensions {
				t.Errorf("got %v, %d dimensions", got, e.Dimensions())
			}
		})
	}
}

func TestAnEmbedderRefusesEverySettingOfAChat(t *testing.T) {
	for f := range reflect.TypeFor[model.Config]().Fields() {
		if f.Name == "Extra" || f.Name == "Headers" {
			continue
		}
		var c model.Config
		v := reflect.ValueOf(&c).Elem().FieldByIndex(f.Index)
		switch f.Type.Kind() {
		case reflect.String:
			v.SetString("x")
		case reflect.Int:
			v.SetInt(1)
		case reflect.Slice:
			v.Set(reflect.MakeSlice(f.Type, 1, 1))
		case reflect.Pointer:
			v.Set(reflect.New(f.Type.Elem()))
		default:
			t.Fatalf("the field %s is a %s", f.Name, f.Type)
		}
		e := gemini.NewEmbedder("m", 2, gemini.APIKey(key), gemini.BaseURL("http://localhost:1"), gemini.Defaults(c))
		_, err := e.Embed(t.Context(), []string{"a"})
		check(t, err, model.ErrorInvalid, "the setting "+f.Name)
	}
}

func TestTheEndOfTheContextEndsAnEmbedding(t *testing.T) {
	cause := errors.New("enough")
	for name, when := range map[string]int{"before the request": 0, "before the answer": 1, "between requests": 2} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			b := &batches{t: t}
			var mu sync.Mutex
			calls := 0
			e := embedder(t, func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				calls++
				n := calls
				mu.Unlock()
				if n < when {
					b.ServeHTTP(w, r)
					return
				}
				io.Copy(io.Discard, r.Body)
				cancel(cause)
				<-r.Context().Done()
			})
			if when == 0 {
				cancel(cause)
			}
			got, err := e.Embed(ctx, numbered(101))
			if !errors.Is(err, context.Canceled) || !errors.Is(err, cause) || model.Temporary(err) || got != nil {
				t.Errorf("got %d vectors, %v", len(got), err)
			}
			mu.Lock()
			defer mu.Unlock()
			if calls != when {
				t.Errorf("%d requests, want %d", calls, when)
			}
		})
	}
}

func TestADeadlineOfAnEmbeddingIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})}
		e := gemini.NewEmbedder("m", 2, gemini.APIKey(key), gemini.BaseURL("http://localhost"), gemini.HTTPClient(client))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		if _, err := e.Embed(ctx, []string{"a"}); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Minute {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
	})
}
