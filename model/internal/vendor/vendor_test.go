package vendor

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
)

func TestEventsAreReadAs(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for _, c := range []struct {
		name, text string
		want       []string // name:data
		end        error
	}{
		{"nothing", "", nil, io.EOF},
		{"data", "data: a\n\n", []string{":a"}, io.EOF},
		{"a name", "event: n\ndata: a\n\n", []string{"n:a"}, io.EOF},
		{"a name after the data", "data: a\nevent: n\n\n", []string{"n:a"}, io.EOF},
		{"no space", "event:n\ndata:a\n\n", []string{"n:a"}, io.EOF},
		{"two spaces", "data:  a\n\n", []string{": a"}, io.EOF},
		{"several lines", "data: a\ndata: \ndata: b\n\n", []string{":a\n\nb"}, io.EOF},
		{"lines of Windows", "event: n\r\ndata: a\r\n\r\ndata: b\r\n\r\n", []string{"n:a", ":b"}, io.EOF},
		{"comments, IDs and unknown fields", ": hi\nid: 1\nretry: 5\nelse: x\ndata: a\n\n", []string{":a"}, io.EOF},
		{"signs of life", "\n: hi\n\nevent: ping\n\ndata:\n\ndata: a\n\n", []string{":a"}, io.EOF},
		{"a line longer than a buffer", "data: " + long + "\n\ndata: b\n\n", []string{":" + long, ":b"}, io.EOF},
		{"an end within an event", "data: a\n\ndata: b\n", []string{":a"}, io.ErrUnexpectedEOF},
		{"an end within a line", "data: a\n\ndata", []string{":a"}, io.ErrUnexpectedEOF},
		{"an error that is no event", "data: a\n\n{\n \"error\": 1\n}", []string{":a", "error:{\n \"error\": 1\n}"}, io.EOF},
		{"a line that is too long", "data: a\n\ndata: " + strings.Repeat(long, 11), []string{":a"}, errTooLong},
		{"an event that is too long", "data: a\n\n" + strings.Repeat("data: "+long+"\n", 11), []string{":a"}, errTooLong},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(c.text), iotest.HalfReader(strings.NewReader(c.text))} {
				e := newEvents(r, 1_000_000)
				var got []string
				ev, err := e.next()
				for ; err == nil; ev, err = e.next() {
					got = append(got, ev.Name+":"+string(ev.Data))
				}
				if !slices.Equal(got, c.want) || err != c.end {
					t.Errorf("got %.200q, %v, want %.200q, %v", got, err, c.want, c.end)
				}
			}
		})
	}
}

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
