package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/openai"
)

// A local server that speaks the API needs no key.
func ExampleNewEmbedder() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"data":[{"index":0,"embedding":[1,0,0]},{"index":1,"embedding":[0,0.5,0.5]}]}`)
	}))
	defer server.Close()

	e := openai.NewEmbedder("nomic-embed-text", 3, openai.BaseURL(server.URL+"/v1"))
	vectors, err := model.Embed(context.Background(), e, []string{"cats", "ships"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(e.Dimensions(), vectors)
	// Output: 3 [[1 0 0] [0 0.5 0.5]]
}

// embedder returns an embedder of two dimensions on the server, without a key.
func (s *server) embedder(opts ...openai.Option) *openai.Embedder {
	return openai.NewEmbedder("m", 2, append([]openai.Option{openai.BaseURL(s.URL + "/v1"), openai.HTTPClient(s.Client())}, opts...)...)
}

// inputs returns the texts of each request.
func (s *server) inputs(t *testing.T) [][]string {
	var list [][]string
	for _, r := range s.all() {
		list = append(list, r.texts(t))
	}
	return list
}

func (r request) texts(t *testing.T) []string {
	var body struct{ Input []string }
	if err := json.Unmarshal(r.body, &body); err != nil {
		t.Error(err)
	}
	return body.Input
}

// vectors is an answer with as many vectors, the last first.
func vectors(n int, vector func(i int) string) string {
	var list []string
	for i := n - 1; i >= 0; i-- {
		list = append(list, fmt.Sprintf(`{"object":"embedding","index":%d,"embedding":%s}`, i, vector(i)))
	}
	return `{"object":"list","model":"m-1","data":[` + strings.Join(list, ",") + `],"usage":{"prompt_tokens":1,"total_tokens":1}}`
}

// numbered answers with the number in each text, which follows its first letter.
func numbered(t *testing.T, s **server) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		all := (*s).all()
		texts := all[len(all)-1].texts(t)
		replies(200, vectors(len(texts), func(i int) string {
			return "[" + strings.TrimLeft(texts[i], "tx") + ",1]"
		}))(w, r)
	}
}

func TestVectorsAreInTheOrderOfTheTexts(t *testing.T) {
	var s *server
	s = serve(t, numbered(t, &s))
	got, err := s.embedder().Embed(t.Context(), []string{"t3", "t1", "t2"})
	if want := [][]float32{{3, 1}, {1, 1}, {2, 1}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if p := s.last(t).path; p != "POST /v1/embeddings" {
		t.Errorf("asked %s", p)
	}
}

func TestAZeroIndexMayBeLeftOut(t *testing.T) {
	s := serve(t, replies(200, `{"data":[{"index":1,"embedding":[1,1]},{"embedding":[0,0]}]}`))
	got, err := s.embedder().Embed(t.Context(), []string{"a", "b"})
	if err != nil || !reflect.DeepEqual(got, [][]float32{{0, 0}, {1, 1}}) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestManyTextsAreSeveralRequests(t *testing.T) {
	many := func(n, size int) []string {
		texts := make([]string, n)
		for i := range texts {
			texts[i] = fmt.Sprint("t", i)
			if pad := size - len(texts[i]); pad > 0 {
				texts[i] = strings.Repeat("x", pad) + texts[i]
			}
		}
		return texts
	}
	for _, c := range []struct {
		name  string
		texts []string
		sizes []int
	}{
		{"as many as one takes", many(2048, 0), []int{2048}},
		{"one more", many(2049, 0), []int{2048, 1}},
		{"more than two take", many(4100, 0), []int{2048, 2048, 4}},
		{"as many bytes as one takes", many(3, 100_000), []int{3}},
		{"more bytes", many(4, 100_000), []int{3, 1}},
		{"each too big to share", many(2, 400_000), []int{1, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s *server
			s = serve(t, numbered(t, &s))
			got, err := s.embedder().Embed(t.Context(), c.texts)
			if err != nil {
				t.Fatal(err)
			}
			var sizes []int
			for _, in := range s.inputs(t) {
				sizes = append(sizes, len(in))
			}
			if !slices.Equal(sizes, c.sizes) || !slices.Equal(slices.Concat(s.inputs(t)...), c.texts) {
				t.Errorf("requests of %v texts, want %v, in order", sizes, c.sizes)
			}
			if len(got) != len(c.texts) {
				t.Fatalf("%d vectors for %d texts", len(got), len(c.texts))
			}
			for i, v := range got {
				if v[0] != float32(i) {
					t.Fatalf("text %d has the vector of text %v", i, v[0])
				}
			}
		})
	}
}

func TestAFailureOfALaterRequestIsThatOfAll(t *testing.T) {
	var s *server
	s = serve(t, func(w http.ResponseWriter, r *http.Request) {
		if len(s.all()) == 1 {
			numbered(t, &s)(w, r)
			return
		}
		replies(200, `{"data":[{"index":0,"embedding":[1,2]},{"index":1,"embedding":[1]}]}`)(w, r)
	})
	texts := make([]string, 2050)
	for i := range texts {
		texts[i] = fmt.Sprint("t", i)
	}
	got, err := s.embedder().Embed(t.Context(), texts)
	failsAs(t, err, model.ErrorResponse)
	if e, ok := errors.AsType[*model.EmbeddingError](err); !ok || e.Text != 2049 || got != nil {
		t.Errorf("got %d vectors, error %v", len(got), err)
	}
}

func TestTheLengthIsSentToModelsThatTakeIt(t *testing.T) {
	for name, want := range map[string]string{
		"text-embedding-3-small":        "2",
		"openai/text-embedding-3-large": "2",
		"text-embedding-ada-002":        "",
		"nomic-embed-text":              "",
		"my-text-embedding-3":           "",
	} {
		s := serve(t, replies(200, vectors(1, func(int) string { return "[1,2]" })))
		e := openai.NewEmbedder(name, 2, openai.BaseURL(s.URL))
		if _, err := e.Embed(t.Context(), []string{"a"}); err != nil {
			t.Fatal(err)
		}
		if got := s.field(t, "dimensions"); got != want || s.field(t, "model") != fmt.Sprintf("%q", name) || s.field(t, "encoding_format") != "" {
			t.Errorf("%s: the body is %s", name, s.last(t).body)
		}
	}
}

func TestOptionsAreThoseOfAModel(t *testing.T) {
	s := serve(t, replies(200, vectors(1, func(int) string { return "[1,2]" })))
	e := s.embedder(openai.APIKey("k"), openai.Organization("o"), openai.Project("p"), openai.Header("X-Some", "h"),
		openai.Defaults(model.Config{Extra: map[string]any{"dimensions": 2, "user": "u"}}))
	if _, err := e.Embed(t.Context(), []string{"a"}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"Authorization": "Bearer k", "OpenAI-Organization": "o", "OpenAI-Project": "p", "X-Some": "h"} {
		if got := s.last(t).header.Get(name); got != want {
			t.Errorf("header %s is %q, want %q", name, got, want)
		}
	}
	if s.field(t, "dimensions") != "2" || s.field(t, "user") != `"u"` {
		t.Errorf("the body is %s", s.last(t).body)
	}
}

func TestWhatAnEmbedderCannotUseIsNamed(t *testing.T) {
	extra := func(name string, v any) openai.Option {
		return openai.Defaults(model.Config{Extra: map[string]any{name: v}})
	}
	for _, c := range []struct {
		name       string
		model      string
		dimensions int
		opts       []openai.Option
		kind       model.ErrorKind
		says       string
	}{
		{"no name", "", 2, nil, model.ErrorInvalid, "no name"},
		{"no length", "m", 0, nil, model.ErrorInvalid, "0 dimensions"},
		{"a negative length", "m", -1, nil, model.ErrorInvalid, "-1 dimensions"},
		{"no key", "m", 2, []openai.Option{openai.BaseURL("")}, model.ErrorAuth, "OPENAI_API_KEY"},
		{"a bad server", "m", 2, []openai.Option{openai.BaseURL("ftp://x")}, model.ErrorInvalid, "ftp://x"},
		{"a field of chats", "m", 2, []openai.Option{openai.MaxTokensField()}, model.ErrorInvalid, "MaxTokensField"},
		{"usage of streams", "m", 2, []openai.Option{openai.NoStreamUsage()}, model.ErrorInvalid, "NoStreamUsage"},
		{"thoughts", "m", 2, []openai.Option{openai.ReasoningField("")}, model.ErrorInvalid, "ReasoningField"},
		{"media of tools", "m", 2, []openai.Option{openai.ToolMedia()}, model.ErrorInvalid, "ToolMedia"},
		{"another model", "m", 2, []openai.Option{extra("model", "n")}, model.ErrorInvalid, `"model" is given by NewEmbedder`},
		{"another input", "m", 2, []openai.Option{extra("input", "n")}, model.ErrorInvalid, `"input" is given by Embed`},
		{"another length", "text-embedding-3-small", 2, []openai.Option{extra("dimensions", 3)}, model.ErrorInvalid, `"dimensions" is given by NewEmbedder`},
		{"another form", "m", 2, []openai.Option{extra("encoding_format", "base64")}, model.ErrorInvalid, `"encoding_format"`},
		{"an extra that is not JSON", "m", 2, []openai.Option{extra("x", make(chan int))}, model.ErrorInvalid, `"x" has no JSON`},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, name := range []string{"OPENAI_API_KEY", "OPENAI_BASE_URL"} {
				t.Setenv(name, "")
			}
			s := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the request was sent") })
			e := openai.NewEmbedder(c.model, c.dimensions, append([]openai.Option{openai.BaseURL(s.URL)}, c.opts...)...)
			got, err := e.Embed(t.Context(), []string{"a"})
			failsAs(t, err, c.kind, c.says)
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
		e := openai.NewEmbedder("m", 2, openai.BaseURL("http://localhost:1"), openai.Defaults(c))
		_, err := e.Embed(t.Context(), []string{"a"})
		failsAs(t, err, model.ErrorInvalid, "the setting Defaults: "+f.Name)
	}
}

func TestAnEmptyTextIsNamedAndNothingIsSent(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the request was sent") })
	texts := slices.Repeat([]string{"a"}, 3000)
	texts[2500] = ""
	_, err := s.embedder().Embed(t.Context(), texts)
	failsAs(t, err, model.ErrorInvalid, "index 2500 is empty")
}

func TestNoTextsAreNoRequest(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the request was sent") })
	if got, err := s.embedder().Embed(t.Context(), nil); len(got) != 0 || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestErrorsOfAServerOfEmbeddings(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		body   string
		header []string
		kind   model.ErrorKind
		says   string
		wait   time.Duration
	}{
		{"a wrong key", 401, `{"error":{"message":"Incorrect API key: sk-secret","code":"invalid_api_key"}}`, nil, model.ErrorAuth, "[redacted]; check the key, which is of openai.APIKey or OPENAI_API_KEY", 0},
		{"too many requests", 429, `{"error":{"message":"slow down","code":"rate_limit_exceeded"}}`, []string{"Retry-After", "7"}, model.ErrorRateLimit, "slow down", 7 * time.Second},
		{"no money", 429, `{"error":{"message":"pay","code":"insufficient_quota"}}`, nil, model.ErrorQuota, "pay", 0},
		{"another model", 404, `{"error":{"message":"no m","code":"model_not_found"}}`, nil, model.ErrorNotFound, "no m", 0},
		{"a text too long", 400, `{"error":{"message":"This model's maximum context length is 8192 tokens"}}`, nil, model.ErrorContextLength, "8192", 0},
		{"a failure", 500, `oops`, nil, model.ErrorServer, "oops", 0},
		{"a failure that is a success", 200, `{"error":{"message":"busy","type":"overloaded_error"}}`, nil, model.ErrorOverloaded, "busy", 0},
		{"no JSON", 200, `<html>`, nil, model.ErrorResponse, "not the API's JSON", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, replies(c.status, c.body, c.header...))
			got, err := s.embedder(openai.APIKey("sk-secret")).Embed(t.Context(), []string{"a"})
			e := failsAs(t, err, c.kind, c.says)
			if e.RetryAfter != c.wait || got != nil || strings.Contains(err.Error(), "sk-secret") {
				t.Errorf("got %v, %v, wait %v", got, err, e.RetryAfter)
			}
			if c.status != 200 && e.Status != c.status {
				t.Errorf("status %d", e.Status)
			}
			if n := len(s.all()); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

func TestAnAnswerThatBreaksOffHasNoVectors(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		io.WriteString(w, `{"data"`)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	_, err := s.embedder().Embed(t.Context(), []string{"a"})
	failsAs(t, err, model.ErrorBrokenStream)
}

func TestVectorsThatWereNotAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		data string
		text int
		says string
	}{
		"too few":            {`{"index":0,"embedding":[1,2]}`, -1, "1 vectors for the 2 texts"},
		"none":               {``, -1, "0 vectors"},
		"too many":           {`{"index":0,"embedding":[1,2]},{"index":1,"embedding":[1,2]},{"index":2,"embedding":[1,2]}`, -1, "3 vectors"},
		"a wrong length":     {`{"index":1,"embedding":[1,2,3]},{"index":0,"embedding":[1,2]}`, 1, "length 3, the embedder says 2"},
		"no length":          {`{"index":1,"embedding":[]},{"index":0,"embedding":[1,2]}`, 1, "length 0"},
		"no vector":          {`{"index":0,"embedding":[1,2]},{"index":1}`, 1, "not an array of numbers"},
		"null":               {`{"index":0,"embedding":[1,2]},{"index":1,"embedding":null}`, 1, "not an array of numbers"},
		"a null in it":       {`{"index":0,"embedding":[1,null]},{"index":1,"embedding":[1,2]}`, 0, "not an array of numbers"},
		"more than fits":     {`{"index":0,"embedding":[1,1e300]},{"index":1,"embedding":[1,2]}`, 0, "not an array of numbers"},
		"another form":       {`{"index":0,"embedding":"AACAPwAAAEA="},{"index":1,"embedding":[1,2]}`, 0, "not an array of numbers"},
		"two of an index":    {`{"index":1,"embedding":[1,2]},{"index":1,"embedding":[1,2]}`, 1, "two vectors"},
		"without an index":   {`{"embedding":[1,2]},{"embedding":[1,2]}`, 0, "two vectors"},
		"an index too high":  {`{"index":1,"embedding":[1,2]},{"index":2,"embedding":[1,2]}`, -1, "index 2 for 2 texts"},
		"an index below all": {`{"index":-1,"embedding":[1,2]},{"index":0,"embedding":[1,2]}`, -1, "index -1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, replies(200, `{"data":[`+c.data+`]}`))
			got, err := s.embedder().Embed(t.Context(), []string{"a", "b"})
			failsAs(t, err, model.ErrorResponse, c.says)
			if e, ok := errors.AsType[*model.EmbeddingError](err); !ok || e.Text != c.text || got != nil {
				t.Errorf("got %v, %#v", got, e)
			}
		})
	}
}

func TestTheEndOfTheContextEndsAnEmbedding(t *testing.T) {
	cause := errors.New("the user left")
	for name, when := range map[string]int{"before the request": 0, "before the answer": 1, "between requests": 2} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			var s *server
			s = serve(t, func(w http.ResponseWriter, r *http.Request) {
				if len(s.all()) < when {
					numbered(t, &s)(w, r)
					return
				}
				cancel(cause)
				<-r.Context().Done()
			})
			if when == 0 {
				cancel(cause)
			}
			texts := make([]string, 2049)
			for i := range texts {
				texts[i] = fmt.Sprint("t", i)
			}
			got, err := s.embedder().Embed(ctx, texts)
			if !errors.Is(err, context.Canceled) || !errors.Is(err, cause) || model.Temporary(err) || got != nil {
				t.Errorf("got %d vectors, %v", len(got), err)
			}
			if n := len(s.all()); n != when {
				t.Errorf("%d requests, want %d", n, when)
			}
		})
	}
}

func TestADeadlineOfAnEmbeddingIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openai.NewEmbedder("m", 2, openai.APIKey("k"), openai.BaseURL("http://localhost"), inMemory(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		if _, err := e.Embed(ctx, []string{"a"}); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Minute {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
	})
}

func TestAnErrorOfTheOptionsIsEachCallsOwn(t *testing.T) {
	e := openai.NewEmbedder("", 2, openai.BaseURL("http://localhost"))
	_, first := e.Embed(t.Context(), []string{"a"})
	failsAs(t, first, model.ErrorInvalid).Message = "changed"
	_, second := e.Embed(t.Context(), []string{"a"})
	failsAs(t, second, model.ErrorInvalid, "no name")
}

func TestAnEmbedderHoldsWhatItWasMadeWith(t *testing.T) {
	s := serve(t, replies(200, vectors(1, func(int) string { return "[1,2]" })))
	extra := map[string]any{"user": "u"}
	e := s.embedder(openai.Defaults(model.Config{Extra: extra}))
	extra["user"] = "other"
	if _, err := e.Embed(t.Context(), []string{"a"}); err != nil {
		t.Fatal(err)
	}
	if got := s.field(t, "user"); got != `"u"` {
		t.Errorf("user is %s", got)
	}
}

func TestAnEmbedderRepeatsRequestsIfItIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		e := openai.NewEmbedder("m", 2, openai.APIKey("k"), openai.Retries(2), inMemory(func(r *http.Request) (*http.Response, error) {
			resp := &http.Response{StatusCode: 500, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("")), Request: r}
			if sent++; sent == 3 {
				resp.StatusCode, resp.Body = 200, io.NopCloser(strings.NewReader(vectors(1, func(int) string { return "[1,2]" })))
			}
			return resp, nil
		}))
		if got, err := e.Embed(t.Context(), []string{"a"}); err != nil || len(got) != 1 || sent != 3 {
			t.Errorf("%v, %v, sent %d times", got, err, sent)
		}
	})
}
