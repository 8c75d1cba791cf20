package client

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// What an [*Error] may be, for [errors.Is].
var (
	ErrUnauthenticated = errors.New("credentials are missing or not valid") // 401
	ErrForbidden       = errors.New("not allowed")                          // 403
	ErrNotFound        = errors.New("not found")                            // 404
	ErrConflict        = errors.New("conflict")                             // 409
	ErrBusy            = errors.New("the thread has a run")                 // which must end first
)

// Error says that the server refused a call.
type Error struct {
	Method  string
	Path    string // of the protocol, without the server's own
	Status  int    // of HTTP
	Message string // the server's words; may be empty

	// RetryAfter is how long the server asks to wait before the next try; 0 if it
	// doesn't say.
	RetryAfter time.Duration
}

func (e *Error) Error() string {
	text := e.Message
	if text == "" {
		text = http.StatusText(e.Status)
	}
	if text != "" {
		text = ": " + text
	}
	return fmt.Sprintf("%s %s: %d%s", e.Method, e.Path, e.Status, text)
}

// Is makes errors.Is(err, ErrNotFound) and the like work.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrUnauthenticated:
		return e.Status == http.StatusUnauthorized
	case ErrForbidden:
		return e.Status == http.StatusForbidden
	case ErrNotFound:
		return e.Status == http.StatusNotFound
	case ErrConflict:
		return e.Status == http.StatusConflict
	case ErrBusy: // the protocol has no code for it
		text := strings.ToLower(e.Message)
		return (e.Status == http.StatusConflict || e.Status == http.StatusUnprocessableEntity) &&
			(strings.Contains(text, "busy") || strings.Contains(text, "already running"))
	}
	return false
}

// most bounds the text of an error, in bytes.
const most = 2000

// refusal reads the answer of a server that refused.
func refusal(q call, resp *http.Response) error {
	data, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // what there is of it
	return &Error{
		Method: q.method, Path: q.path, Status: resp.StatusCode, Message: words(resp.Header.Get("Content-Type"), data),
		RetryAfter: retryAfter(resp.Header.Get("Retry-After")),
	}
}

// retryAfter reads a header, which holds seconds or a date.
func retryAfter(text string) time.Duration {
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return max(0, time.Until(at))
}

// words returns what an error's body says: text, or the text in one of the usual
// members. Pages for browsers say nothing.
func words(kind string, data []byte) string {
	if strings.Contains(kind, "html") {
		return ""
	}
	var o map[string]json.RawMessage
	text := string(data)
	if json.Unmarshal(data, &o) == nil {
		for _, name := range []string{"detail", "message", "error"} {
			var s string
			if json.Unmarshal(o[name], &s) == nil && s != "" {
				text = s
				break
			}
		}
	}
	text = strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD"))
	if len(text) > most {
		cut := most
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut] + "…"
	}
	return text
}

// UnreachableError says that nothing answers at the server's address.
type UnreachableError struct {
	URL string // without a password
	Err error
}

func (e *UnreachableError) Error() string {
	advice := "start the server, or check the address"
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.Is(e.Err, http.ErrSchemeMismatch):
		advice = "use http:// in the address"
	case errors.As(e.Err, &untrusted):
		advice = "use the name that its certificate is for, and let this machine trust who issued it"
	}
	return fmt.Sprintf("no answer from %s: %v; %s", e.URL, e.Err, advice)
}

func (e *UnreachableError) Unwrap() error { return e.Err }

// unreachable returns the error of a call that got no answer: the context's own
// if that has ended.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var e *url.Error
	if errors.As(err, &e) { // which repeats the URL
		err = e.Err
	}
	if errors.As(err, new(*redirectError)) {
		return &ProtocolError{URL: c.URL(), Err: err}
	}
	return &UnreachableError{URL: c.URL(), Err: err}
}

// ProtocolError says that something answers at the server's address, but not as
// the protocol has it.
type ProtocolError struct {
	URL string // without a password
	Err error
}

func (e *ProtocolError) Error() string {
	return fmt.Sprintf("%s does not answer as a server of LangGraph's protocol: %v", e.URL, e.Err)
}

func (e *ProtocolError) Unwrap() error { return e.Err }

// RunError says that a run failed, in the server's words.
type RunError struct {
	Thread, Run string // may be unknown
	Name        string // of the kind of error, such as GraphRecursionError
	Message     string
}

func (e *RunError) Error() string {
	switch {
	case e.Message == "":
		return e.Name
	case e.Name == "" || e.Name == "Error":
		return e.Message
	}
	return e.Name + ": " + e.Message
}

// LostError says that the events of a run could not be followed to its end,
// because the connection was cut and could not be had again. The run itself may
// go on at the server: [Client.JoinStream] follows it.
type LostError struct {
	URL         string // without a password
	Thread, Run string // empty if the server said nothing about them yet
	LastEventID string // of the last event that was received
	Err         error
}

func (e *LostError) Error() string {
	err := e.Err
	var u *UnreachableError
	if errors.As(err, &u) { // which says the address again
		err = u.Err
	}
	text := fmt.Sprintf("the connection to %s was lost and could not be had again: %v", e.URL, err)
	if e.Run != "" {
		text += fmt.Sprintf("; run %s may go on there", e.Run)
	}
	return text
}

func (e *LostError) Unwrap() error { return e.Err }
