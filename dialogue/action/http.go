package action

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
)

// HTTPOptions say how a server of actions is called.
type HTTPOptions struct {
	// Header is added to each request: a token, for example.
	Header http.Header
	// Client makes the requests; nil is one like [http.DefaultClient]. It follows no
	// redirect, whatever its CheckRedirect says.
	Client *http.Client
}

// HTTP returns the actions and validators of a server: a [Handler], or one that answers
// likewise. It asks the server what it has, for at most 30 seconds; what a server has later
// needs another call.
//
// An attempt is one request, which carries the idempotency key in its body and as the
// header Idempotency-Key; there, a character that is not printable ASCII, and %, is
// percent-encoded. Requests and answers have at most 1 MB.
//
// What the server tells is told as it is. Otherwise the failure is of type unavailable if
// there is no connection, it breaks, or a server on the way is overloaded (429, 502, 503,
// 504); timeout; invalid_output for an answer that is none of this call; and unknown for
// any other status.
func HTTP(ctx context.Context, serverURL string, o HTTPOptions) ([]Part, error) {
	u, err := url.Parse(serverURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("action: %q is no URL of a server; write http:// or https:// and a host", serverURL)
	}
	s := &server{url: u.String(), name: u.Redacted(), header: o.Header.Clone()}
	if o.Client != nil {
		s.client = *o.Client
	}
	s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	parts, err := s.list(ctx)
	if err != nil {
		return nil, fmt.Errorf("action: server %s: %w", s.name, err)
	}
	return parts, nil
}

// server is one that is called.
type server struct {
	url    string
	name   string // its URL without a password
	header http.Header
	client http.Client
}

func (s *server) list(ctx context.Context) ([]Part, error) {
	ctx, cancel := context.WithTimeout(ctx, defaultTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return nil, err
	}
	status, data, err := s.send(req)
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, unexpected(status, data)
	}
	var l listing
	if err := json.Unmarshal(data, &l); err != nil || l.Actions == nil && l.Validators == nil {
		return nil, errors.New("it doesn't say which actions it has; is this the URL of a server of actions?")
	}
	var parts []Part
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(l.Actions)) {
		signature, err := l.Actions[name].signature()
		if err := errors.Join(checkName(name), err); err != nil {
			errs = append(errs, &DefinitionError{Name: name, Err: err})
			continue
		}
		parts = append(parts, &Action{name: name, signature: signature, run: s.action})
	}
	for _, name := range slices.Sorted(maps.Keys(l.Validators)) {
		t := l.Validators[name]
		if err := errors.Join(checkName(name), checkType(t)); err != nil {
			errs = append(errs, &DefinitionError{Name: name, Err: err})
			continue
		}
		parts = append(parts, &Validator{name: name, takes: t, run: s.validator})
	}
	return parts, errors.Join(errs...)
}

func (s *server) action(ctx context.Context, inputs map[string]expr.Value) (map[string]expr.Value, error) {
	c := CallOf(ctx)
	q := request{Action: c.Action, Inputs: inputs, Effect: c.Effect, Key: c.ID, Flow: c.FlowID, Step: c.Step, Thread: c.Thread, User: c.User, Language: c.Language}
	if deadline, ok := ctx.Deadline(); ok {
		q.Timeout = max(time.Until(deadline), time.Millisecond).Seconds()
	}
	a, err := s.post(ctx, q)
	if err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(a.Outputs, []byte("{")) {
		return nil, invalidOutput("the answer has neither outputs, an object, nor an error")
	}
	return readObject(a.Outputs, "")
}

func (s *server) validator(ctx context.Context, v dialogue.Validation) (expr.Value, error) {
	c := CallOf(ctx)
	a, err := s.post(ctx, request{Validator: v.Validator, Value: v.Value, Slot: v.Slot, Effect: program.Read, Thread: c.Thread, User: c.User, Language: c.Language})
	if err != nil {
		return expr.Value{}, err
	}
	if a.Refused != nil {
		return expr.Value{}, Refusal(*a.Refused)
	}
	if len(a.Value) == 0 || string(a.Value) == "null" || len(a.Value) > dialogue.MaxOutput {
		return expr.Value{}, invalidOutput("the answer has neither a value of at most %d bytes, refused, nor an error", dialogue.MaxOutput)
	}
	member := bytes.Join([][]byte{[]byte(`{"value":`), a.Value, []byte(`}`)}, nil)
	values, err := readObject(member, "")
	return values["value"], err
}

// post makes one request.
func (s *server) post(ctx context.Context, q request) (answer, error) {
	var a answer
	data, err := json.Marshal(q)
	if err != nil {
		return a, invalid("the inputs have no JSON")
	}
	if len(data) > maxBody {
		return a, invalid("the inputs have more than %d bytes", maxBody)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(data))
	if err != nil {
		return a, err
	}
	req.Header.Set("Content-Type", "application/json")
	if q.Key != "" {
		req.Header.Set("Idempotency-Key", printable(q.Key))
	}
	req.GetBody = nil // else the transport may send it again if the connection breaks
	status, data, err := s.send(req)
	switch {
	case errors.Is(err, context.Canceled), timedOut(err):
		return a, err
	case errors.Is(err, errTooLong):
		return a, invalidOutput("the answer has more than %d bytes", maxBody)
	case err != nil:
		return a, because("unavailable", err)
	}
	err = json.Unmarshal(data, &a)
	if err == nil && a.Error != nil {
		return a, &dialogue.Failure{Type: a.Error.Type, Message: a.Error.Message}
	}
	switch status {
	case http.StatusOK:
		if err != nil {
			return a, invalidOutput("the answer is no JSON object of this call")
		}
		return a, nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return a, because("unavailable", unexpected(status, data))
	}
	return a, unexpected(status, data)
}

var errTooLong = errors.New("the answer is too long")

// send returns the status and the body of an answer.
func (s *server) send(req *http.Request) (int, []byte, error) {
	for name, list := range s.header {
		req.Header[name] = list
	}
	req.Header.Set("Accept", "application/json")
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	if to := resp.Header.Get("Location"); resp.StatusCode/100 == 3 && to != "" {
		return resp.StatusCode, []byte("it redirects to " + to + ", and what is sent to it is not for others; give that URL"), nil
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	switch {
	case err != nil:
		return 0, nil, err
	case len(data) > maxBody:
		return 0, nil, errTooLong
	}
	return resp.StatusCode, data, nil
}

func unexpected(status int, body []byte) error {
	const most = 300
	text := strings.ToValidUTF8(string(body[:min(len(body), most)]), "")
	return fmt.Errorf("the server answered %d %s: %q", status, http.StatusText(status), text)
}

// printable returns a key as a header can have it.
func printable(key string) string {
	var b strings.Builder
	for _, c := range []byte(key) {
		if c <= ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
