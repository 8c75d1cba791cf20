package gemini

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"google.golang.org/genai"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/internal/vendor"
)

// exchange is what the SDK doesn't tell about a request. It is written and read
// by one goroutine at a time.
type exchange struct {
	status int
	header http.Header
	read   error // why the body couldn't be read to its end
	eof    bool  // it was
}

type exchangeKey struct{}

func (x *exchange) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

// transport fills the exchange in. To the SDK a broken connection looks like the
// end of the answer: it writes to the program's log otherwise.
type transport struct{ base http.RoundTripper }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	base := t.base
	if base == nil {
		base = http.DefaultTransport
	}
	resp, err := base.RoundTrip(r)
	if x, ok := r.Context().Value(exchangeKey{}).(*exchange); ok && err == nil {
		x.status, x.header = resp.StatusCode, resp.Header
		resp.Body = &body{resp.Body, x}
	}
	return resp, err
}

type body struct {
	io.ReadCloser
	x *exchange
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == io.EOF:
		b.x.eof = true
	case err != nil:
		b.x.read = err
		err = io.EOF
	}
	return n, err
}

// Close never fails: the SDK would write to the program's log.
func (b *body) Close() error {
	b.ReadCloser.Close()
	return nil
}

// invalid says that a request can't be sent.
func invalid(format string, args ...any) *model.Error {
	return &model.Error{Provider: provider, Kind: model.ErrorInvalid, Message: fmt.Sprintf(format, args...)}
}

// unreadable says that an answer can't be understood.
func unreadable(format string, args ...any) *model.Error {
	return &model.Error{Provider: provider, Kind: model.ErrorResponse, Message: fmt.Sprintf(format, args...)}
}

// failure makes an error of the SDK one of ours. Began says whether an answer
// that breaks off had begun.
func (m *Model) failure(ctx context.Context, err error, x *exchange, began bool) error {
	if err := vendor.Ended(ctx, provider); err != nil {
		return err
	}
	e := &model.Error{Provider: provider}
	if x.status >= 400 {
		e.Status = x.status
		e.RetryAfter = vendor.RetryAfter(x.header)
	}
	var api genai.APIError
	var syntax *json.SyntaxError
	var send *url.Error
	var slow net.Error
	switch {
	case x.read != nil: // whatever the SDK made of it
		err = x.read
		switch {
		case e.Status != 0:
			e.Kind = kindOf(e.Status, "", "", nil)
		case began:
			e.Kind = model.ErrorBrokenStream
		default:
			e.Kind = model.ErrorConnection
		}
	case errors.As(err, &api):
		e.Message = m.secrets.Clean(shorten(api.Message))
		if !strings.Contains(api.Status, " ") { // else it is a line of HTTP
			e.Code = m.secrets.Clean(api.Status)
		}
		status := e.Status
		if status == 0 { // inside a stream
			status = api.Code
		}
		e.Kind = kindOf(status, e.Code, api.Message, api.Details)
		if d := retryInfo(api.Details); d > 0 {
			e.RetryAfter = d
		}
	case x.eof && errors.As(err, &syntax) && syntax.Error() == "unexpected end of JSON input":
		e.Kind = model.ErrorBrokenStream
	case errors.As(err, &slow) && slow.Timeout(), errors.Is(err, context.DeadlineExceeded):
		e.Kind = model.ErrorTimeout
		// A deadline of the client's, not the context's: it must not be
		// mistaken for that.
		err = errors.New(err.Error())
	case x.status != 0, errors.Is(err, bufio.ErrTooLong):
		e.Kind = model.ErrorResponse
		err = errors.New(shorten(err.Error()))
	case errors.As(err, &send):
		e.Kind = model.ErrorConnection
	default: // the SDK could not make a request of it
		e.Kind = model.ErrorInvalid
	}
	e.Err = err
	if clean := m.secrets.Clean(err.Error()); clean != err.Error() {
		e.Err = errors.New(clean)
	}
	return e
}

// shorten bounds a text that may be an HTML page of a proxy, or a whole answer.
func shorten(text string) string {
	const most = 500
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// kindOf tells what went wrong from the status of HTTP, or that of an error
// inside a stream, which uses the same, and from what has no status of its own.
func kindOf(status int, code, message string, details []map[string]any) model.ErrorKind {
	text := strings.ToLower(message)
	switch {
	case status == http.StatusBadRequest && (hasReason(details, "API_KEY_INVALID") || strings.Contains(text, "api key not valid")):
		return model.ErrorAuth
	case status == http.StatusBadRequest && strings.Contains(text, "token count") && strings.Contains(text, "exceeds"):
		return model.ErrorContextLength
	case status == http.StatusTooManyRequests && perDay(details):
		return model.ErrorQuota
	}
	switch code {
	case "UNAUTHENTICATED", "PERMISSION_DENIED":
		return model.ErrorAuth
	case "NOT_FOUND":
		return model.ErrorNotFound
	case "RESOURCE_EXHAUSTED":
		return model.ErrorRateLimit
	case "UNAVAILABLE":
		return model.ErrorOverloaded
	case "DEADLINE_EXCEEDED":
		return model.ErrorTimeout
	}
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return model.ErrorAuth
	case status == http.StatusPaymentRequired:
		return model.ErrorQuota
	case status == http.StatusNotFound:
		return model.ErrorNotFound
	case status == http.StatusRequestTimeout, status == http.StatusGatewayTimeout:
		return model.ErrorTimeout
	case status == http.StatusRequestEntityTooLarge:
		return model.ErrorContextLength
	case status == http.StatusTooManyRequests:
		return model.ErrorRateLimit
	case status == http.StatusServiceUnavailable:
		return model.ErrorOverloaded
	case status >= 500, status == 499, status == 0: // 499 is the server's own CANCELLED
		return model.ErrorServer
	}
	return model.ErrorInvalid
}

// detail yields the details of a type of google.rpc.
func detail(details []map[string]any, kind string) (list []map[string]any) {
	for _, d := range details {
		if t, _ := d["@type"].(string); strings.HasSuffix(t, "google.rpc."+kind) {
			list = append(list, d)
		}
	}
	return list
}

func hasReason(details []map[string]any, reason string) bool {
	for _, d := range detail(details, "ErrorInfo") {
		if d["reason"] == reason {
			return true
		}
	}
	return false
}

// perDay reports whether a quota of a day is used up: to wait is no use.
func perDay(details []map[string]any) bool {
	for _, d := range detail(details, "QuotaFailure") {
		violations, _ := d["violations"].([]any)
		for _, v := range violations {
			v, _ := v.(map[string]any)
			if id, _ := v["quotaId"].(string); strings.Contains(id, "PerDay") {
				return true
			}
		}
	}
	return false
}

// retryInfo reads how long to wait from the details of an error.
func retryInfo(details []map[string]any) time.Duration {
	for _, d := range detail(details, "RetryInfo") {
		text, _ := d["retryDelay"].(string)
		if delay, err := time.ParseDuration(text); err == nil && delay > 0 {
			return delay
		}
	}
	return 0
}
