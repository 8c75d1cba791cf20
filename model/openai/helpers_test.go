package openai_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/openai"
)

// server is a local server of the protocol. It keeps what it was sent.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	requests []request
}

type request struct {
	path   string
	header http.Header
	body   []byte
}

// serve starts a server that answers with a handler.
func serve(t *testing.T, h http.HandlerFunc) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		s.requests = append(s.requests, request{r.Method + " " + r.URL.Path, r.Header.Clone(), body})
		s.mu.Unlock()
		h(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// model returns a model on the server, without a key.
func (s *server) model(opts ...openai.Option) *openai.Model {
	return openai.New("m", append([]openai.Option{openai.BaseURL(s.URL + "/v1"), openai.HTTPClient(s.Client())}, opts...)...)
}

func (s *server) all() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// last returns the last request.
func (s *server) last(t *testing.T) request {
	t.Helper()
	all := s.all()
	if len(all) == 0 {
		t.Fatal("the server got no request")
	}
	return all[len(all)-1]
}

// field returns a field of the last request's body as JSON; "" if it has none.
func (s *server) field(t *testing.T, name string) string {
	t.Helper()
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(s.last(t).body, &fields); err != nil {
		t.Fatal(err)
	}
	return string(fields[name])
}

const hello = `{"id":"chatcmpl-00000000000000000001","object":"chat.completion","model":"m-1","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`

// replies answers with a status and a body of JSON.
func replies(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// streams answers with a text of events as it is.
func streams(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, text)
	}
}

// events writes each JSON as an event, and the end.
func events(data ...string) string {
	var b strings.Builder
	for _, d := range append(data, "[DONE]") {
		fmt.Fprintf(&b, "data: %s\n\n", d)
	}
	return b.String()
}

// delta is a chunk of the stream with a delta and, if given, a reason to stop.
func delta(delta, finish string) string {
	if finish == "" {
		finish = "null"
	}
	return fmt.Sprintf(`{"id":"chatcmpl-00000000000000000001","object":"chat.completion.chunk","model":"m-1","choices":[{"index":0,"delta":%s,"finish_reason":%s}]}`, delta, finish)
}

func ask(messages ...chat.Message) *model.Request {
	if messages == nil {
		messages = []chat.Message{chat.User("hi")}
	}
	return &model.Request{Messages: messages}
}

// failsAs checks the kind of an error and what it says, and returns it.
func failsAs(t *testing.T, err error, kind model.ErrorKind, says ...string) *model.Error {
	t.Helper()
	e, ok := errors.AsType[*model.Error](err)
	if !ok {
		t.Fatalf("error %v is not a *model.Error", err)
	}
	if e.Kind != kind {
		t.Errorf("error %q is of kind %q, want %q", e, e.Kind, kind)
	}
	for _, s := range says {
		if !strings.Contains(e.Error(), s) {
			t.Errorf("error %q does not say %q", e, s)
		}
	}
	return e
}

func generate(t *testing.T, m model.Model, req *model.Request) chat.Message {
	t.Helper()
	resp, err := m.Generate(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Message
}

func stream(t *testing.T, m model.Model, req *model.Request) chat.Message {
	t.Helper()
	resp, err := model.Collect(m.Stream(t.Context(), req))
	if err != nil {
		t.Fatal(err)
	}
	return resp.Message
}

func streamError(t *testing.T, m model.Model) error {
	t.Helper()
	_, err := model.Collect(m.Stream(t.Context(), ask()))
	if err == nil {
		t.Fatal("the stream ended without an error")
	}
	return err
}

func generateError(t *testing.T, m model.Model, req *model.Request) error {
	t.Helper()
	resp, err := m.Generate(t.Context(), req)
	if err == nil {
		t.Fatalf("no error, but the answer %+v", resp.Message)
	}
	return err
}
