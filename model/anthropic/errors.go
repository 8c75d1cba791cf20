package anthropic

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/internal/vendor"
)

// invalid says that a request can't be sent.
func invalid(format string, args ...any) *model.Error {
	return &model.Error{Provider: provider, Kind: model.ErrorInvalid, Message: fmt.Sprintf(format, args...)}
}

// unreadable says that an answer can't be understood.
func unreadable(format string, args ...any) *model.Error {
	return &model.Error{Provider: provider, Kind: model.ErrorResponse, Message: fmt.Sprintf(format, args...)}
}

// failure makes an error of the SDK one of ours. Resp is nil if there was no
// response; began says whether a successful one had begun to tell the answer.
func (m *Model) failure(ctx context.Context, err error, resp *http.Response, began bool) error {
	if err := vendor.Ended(ctx, provider); err != nil {
		return err
	}
	e := &model.Error{Provider: provider, Err: m.redacted(err)}
	if resp != nil && resp.StatusCode >= 400 {
		e.Status = resp.StatusCode
		e.RetryAfter = vendor.RetryAfter(resp.Header)
	}
	var api *sdk.Error
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	var send *url.Error
	var slow net.Error
	switch {
	case errors.As(err, &api):
		e.Code, e.Message = m.details(api)
		e.Kind = kindOf(e.Status, e.Code, e.Message)
	case e.Status != 0: // the body of the error was cut off
		e.Kind = kindOf(e.Status, "", "")
	case errors.As(err, &syntax), errors.As(err, &kind), errors.Is(err, bufio.ErrTooLong):
		e.Kind = model.ErrorResponse
	case resp != nil && began:
		e.Kind = model.ErrorBrokenStream
	case errors.As(err, &slow) && slow.Timeout(), errors.Is(err, context.DeadlineExceeded):
		e.Kind = model.ErrorTimeout
		// A deadline of the client's, not the context's: it must not be
		// mistaken for that.
		e.Err = errors.New(e.Err.Error())
	case resp != nil, errors.As(err, &send):
		e.Kind = model.ErrorConnection
	default: // the SDK could not make a request of it
		e.Kind = model.ErrorInvalid
	}
	return e
}

// redacted returns err, or its text without what must stay secret.
func (m *Model) redacted(err error) error {
	text := err.Error()
	if clean := m.secrets.Clean(text); clean != text {
		return errors.New(clean)
	}
	return err
}

// details returns the type and the message of an API error, or its body if it
// has another form.
func (m *Model) details(e *sdk.Error) (code, message string) {
	var body struct {
		Error struct{ Type, Message string }
	}
	if json.Unmarshal([]byte(e.RawJSON()), &body) == nil {
		code, message = body.Error.Type, body.Error.Message
	}
	if message == "" {
		message = strings.TrimSpace(e.RawJSON())
		const most = 500 // an HTML page of a proxy, maybe
		if len(message) > most {
			message = strings.ToValidUTF8(message[:most], "") + "…"
		}
	}
	return m.secrets.Clean(code), m.secrets.Clean(message)
}

// kindOf tells what went wrong from the type of the error, which is more exact,
// or the status. Status is 0 for an error inside a stream.
func kindOf(status int, code, message string) model.ErrorKind {
	switch code {
	case "authentication_error", "permission_error":
		return model.ErrorAuth
	case "billing_error":
		return model.ErrorQuota
	case "not_found_error":
		return model.ErrorNotFound
	case "rate_limit_error":
		return model.ErrorRateLimit
	case "timeout_error":
		return model.ErrorTimeout
	case "overloaded_error":
		return model.ErrorOverloaded
	case "api_error":
		return model.ErrorServer
	case "request_too_large":
		return model.ErrorContextLength
	case "invalid_request_error":
		// These have no type of their own.
		text := strings.ToLower(message)
		switch {
		case strings.Contains(text, "prompt is too long"), strings.Contains(text, "exceed context limit"):
			return model.ErrorContextLength
		case strings.Contains(text, "credit balance is too low"):
			return model.ErrorQuota
		case strings.Contains(text, "content filtering policy"):
			return model.ErrorFilter
		}
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
	case status == 529, status == http.StatusServiceUnavailable:
		return model.ErrorOverloaded
	case status >= 500:
		return model.ErrorServer
	case status == 0 && code != "invalid_request_error":
		return model.ErrorServer
	}
	return model.ErrorInvalid
}
