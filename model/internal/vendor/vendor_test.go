package vendor

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
)

func TestFieldsOfTheUsersAreAdded(t *testing.T) {
	const body = `{"b":1,"a":{"x":[2,1],"y":"<"},"tools":[{"n":1}]}`
	given := map[string]string{"b": "B", "a.x": "X", "tools": "Tools"}
	for _, c := range []struct {
		name  string
		extra map[string]any
		want  string // of what, or the error
	}{
		{"none", nil, body},
		{"new ones, sorted", map[string]any{"d": nil, "c": "&"}, `{"b":1,"a":{"x":[2,1],"y":"<"},"tools":[{"n":1}],"c":"&","d":null}`},
		{"an object", map[string]any{"a": map[string]any{"z": 3}}, `{"b":1,"a":{"x":[2,1],"y":"<","z":3},"tools":[{"n":1}]}`},
		{"what no setting gives", map[string]any{"a": map[string]any{"y": 4}}, `{"b":1,"a":{"x":[2,1],"y":4},"tools":[{"n":1}]}`},
		{"the same", map[string]any{"b": 1.0, "a": map[string]any{"x": []int{2, 1}}}, body},
		{"tools", map[string]any{"tools": []any{map[string]any{"t": 2}}}, `{"b":1,"a":{"x":[2,1],"y":"<"},"tools":[{"n":1},{"t":2}]}`},
		{"a given one", map[string]any{"b": 2}, `the extra field "b" is given by B`},
		{"a given one inside", map[string]any{"a": map[string]any{"x": []int{1}}}, `the extra field "a.x" is given by X`},
		{"tools that are none", map[string]any{"tools": "x"}, `the extra field "tools" is given by Tools`},
		{"no tools", map[string]any{"tools": nil}, `the extra field "tools" is given by Tools`},
		{"no JSON", map[string]any{"c": func() {}}, `the extra field "c" has no JSON: json: unsupported type: func()`},
	} {
		got, err := Extend([]byte(body), c.extra, given)
		if err != nil {
			got = []byte(err.Error())
		}
		if string(got) != c.want {
			t.Errorf("%s: got %s\nwant %s", c.name, got, c.want)
		}
	}
}

// texts is a stream of texts.
type texts struct{ n int }

func (s *texts) Event(ev Event) ([]chat.Chunk, bool, error) {
	s.n++
	return []chat.Chunk{{Text: string(ev.Data)}}, false, nil
}

func (s *texts) End() ([]chat.Chunk, bool) { return nil, s.n > 1 }

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAnAnswerOfTooManyBytesIsNotRead(t *testing.T) {
	for kind, body := range map[string]string{"application/json": `{"a":"` + strings.Repeat("x", 2000), "text/event-stream": "data: a\n\ndata: " + strings.Repeat("x", 2000)} {
		s := Settings{BaseURL: "http://localhost", HTTP: &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
		})}}
		a, wrong := s.API("p", nil, nil)
		if wrong != nil {
			t.Fatal(wrong)
		}
		a.most = 1000
		whole := func([]byte) (chat.Message, error) { return chat.Message{}, errors.New("it was read") }
		_, err := model.Collect(a.Stream(t.Context(), func() (Call, error) { return Call{Stream: true}, nil }, whole, func() Stream { return &texts{} }))
		if e, ok := errors.AsType[*model.Error](err); !ok || e.Kind != model.ErrorResponse || !strings.Contains(e.Error(), "more than 1000 bytes") {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestHeadersThatCannotBeSentAreNamed(t *testing.T) {
	for _, h := range [][2]string{{"X-A", "a\nb"}, {"X-A", "\x7f"}, {"X A", "a"}, {"", "a"}, {"X-Ä", "a"}} {
		s := Settings{BaseURL: "http://localhost", Header: http.Header{h[0]: {h[1]}}}
		want := fmt.Sprintf("p: invalid: the header %q can't be sent: it holds what no header can", h[0])
		if _, err := s.API("p", nil, nil); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	s := Settings{BaseURL: "http://localhost", Key: "a\nb"}
	if _, err := s.API("p", map[string]string{"X-Key": s.Key}, nil); err == nil || !strings.Contains(err.Error(), `"X-Key"`) {
		t.Errorf("got %v", err)
	}
}

func TestTheUsersHeadersStayAsTheyAre(t *testing.T) {
	h := http.Header{"X-A": {"a"}}
	s := Settings{BaseURL: "http://localhost", Header: h, Hook: nil}
	a, err := s.API("p", map[string]string{"X-B": "b"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	a.header.Set("X-A", "c")
	if !reflect.DeepEqual(h, http.Header{"X-A": {"a"}}) {
		t.Errorf("the header is %v", h)
	}
}
