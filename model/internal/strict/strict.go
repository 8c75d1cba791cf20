// Package strict has servers for tests that speak the vendors' APIs as strictly as
// the vendors do: they refuse fields that they don't know and conversations whose
// order is wrong. It was written from the APIs' descriptions, and shares no code with
// the packages that it tests.
package strict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// Check says what is wrong with a request, or nil.
type Check func(r *http.Request, body []byte) error

// Refusal is the error of a check that says how the server refuses.
type Refusal struct {
	Status int
	Header http.Header
	Body   string
}

func (r *Refusal) Error() string { return fmt.Sprintf("status %d: %s", r.Status, r.Body) }

// Server is a transport that answers each request that a check accepts with the next
// of some answers, and refuses others with status 400, or as a [*Refusal] says. An answer
// that begins with "event:" or "data:" is a stream, and so is one of [EventStream].
type Server struct {
	Check   Check
	Answers []string

	Requests [][]byte
	Refused  []error
}

// RoundTrip implements [http.RoundTripper].
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.Requests = append(s.Requests, body)
	answer := func(status int, kind, text string) *http.Response {
		return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(text)), Request: r}
	}
	if err := s.Check(r, body); err != nil {
		s.Refused = append(s.Refused, err)
		if no, ok := errors.AsType[*Refusal](err); ok {
			resp := answer(no.Status, "application/json", no.Body)
			for name := range no.Header {
				resp.Header.Set(name, no.Header.Get(name))
			}
			return resp, nil
		}
		text, err := json.Marshal(map[string]any{"error": map[string]string{"message": err.Error()}})
		return answer(400, "application/json", string(text)), err
	}
	if len(s.Answers) == 0 {
		return nil, errors.New("strict: no answer is left")
	}
	text := s.Answers[0]
	s.Answers = s.Answers[1:]
	if strings.HasPrefix(text, "event:") || strings.HasPrefix(text, "data:") {
		return answer(200, "text/event-stream", text), nil
	}
	if strings.HasPrefix(text, "\x00") {
		return answer(200, "application/vnd.amazon.eventstream", text), nil
	}
	return answer(200, "application/json", text), nil
}

// decode decodes JSON whose fields must all be known.
func decode(data []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("something follows the JSON")
	}
	return nil
}

func text(data json.RawMessage) (string, bool) {
	var s string
	return s, len(data) > 0 && data[0] == '"' && json.Unmarshal(data, &s) == nil
}

// object checks that JSON is an object, such as a schema.
func object(data json.RawMessage) error {
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &fields) != nil || fields == nil {
		return fmt.Errorf("%.80s is not an object", data)
	}
	return nil
}

// calls keeps which calls of tools are open.
type calls struct {
	open []string
	seen map[string]bool
}

func (c *calls) add(id string) error {
	if c.seen == nil {
		c.seen = map[string]bool{}
	}
	if id == "" || slices.Contains(c.open, id) {
		return fmt.Errorf("the ID %q of a call is empty or not the only one", id)
	}
	c.open = append(c.open, id)
	return nil
}

func (c *calls) answer(id string) error {
	i := slices.Index(c.open, id)
	if i < 0 {
		return fmt.Errorf("a result of the call %q, which the message before doesn't have or which has one", id)
	}
	c.open = slices.Delete(c.open, i, i+1)
	return nil
}

func (c *calls) closed() error {
	if len(c.open) > 0 {
		return fmt.Errorf("the calls %q have no result", c.open)
	}
	return nil
}

// only checks that of some fields of a thing those of its type are set, and no
// others.
func only(kind string, needs string, has map[string]bool) error {
	for _, name := range strings.Fields(needs) {
		required := !strings.HasSuffix(name, "?")
		name = strings.TrimSuffix(name, "?")
		if required && !has[name] {
			return fmt.Errorf("a %s without %s", kind, name)
		}
		delete(has, name)
	}
	for name, set := range has {
		if set {
			return fmt.Errorf("a %s with %s", kind, name)
		}
	}
	return nil
}

var (
	functionName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	speakerName  = regexp.MustCompile(`^[^\s<|\\/>]{1,64}$`)
)
