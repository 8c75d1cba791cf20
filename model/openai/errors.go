package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/internal/vendor"
)

// provider is the name in errors, whoever's server it is.
const provider = "openai"

// maxErrorBody and maxErrorText bound what is read of an error's body, and what
// is told of one that isn't understood, in bytes.
const (
	maxErrorBody = 1 << 20
	maxErrorText = 400
)

// ended is the error of a call whose context ended.
type ended struct{ err, cause error }

func (e *ended) Error() string { return provider + ": " + e.cause.Error() }

// Unwrap returns the context's error and its cause.
func (e *ended) Unwrap() []error { return []error{e.err, e.cause} }

// redacted is an error whose text held a secret. What it stands for can be asked
// for with errors.Is, but not got at.
type redacted struct {
	text string
	err  error
}

func (e *redacted) Error() string { return e.text }

// Is reports whether the error is, or wraps, another.
func (e *redacted) Is(target error) bool { return errors.Is(e.err, target) }

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// unreachable is the error of a request that got no response.
func unreachable(err error) *model.Error {
	e := &model.Error{Provider: provider, Kind: model.ErrorConnection, Err: err}
	if n, ok := errors.AsType[net.Error](err); ok && n.Timeout() {
		e.Kind = model.ErrorTimeout
	}
	return e
}

// refused is the error of a response that isn't a success.
func (m *Model) refused(resp *http.Response) *model.Error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // the status alone says enough
	e := failure(body, resp.StatusCode)
	e.RetryAfter = vendor.RetryAfter(resp.Header)
	switch {
	case resp.StatusCode < 400:
		e.Kind = model.ErrorResponse // a redirect that leads nowhere
	case e.Kind == model.ErrorAuth && m.noKey:
		e.Message += "; no key was sent: give one with openai.APIKey, as a server named by openai.BaseURL doesn't get OPENAI_API_KEY"
	case e.Kind == model.ErrorNotFound && !json.Valid(body):
		// The API answers in JSON: this wasn't it.
		e.Message += "; the base URL must have the path before /chat/completions, which often is /v1"
	}
	return e
}

// failure makes an error of what a server says in the body of a response, or in
// an event of a stream, whose status is 0. It knows the shapes
//
//	{"error": {"message": …, "type": …, "code": …}}
//	{"error": "message"}
//	{"message": …, "type": …, "code": …}
//	{"detail": …}
func failure(body []byte, status int) *model.Error {
	type details struct {
		Message json.RawMessage `json:"message"`
		Type    json.RawMessage `json:"type"`
		Code    json.RawMessage `json:"code"`
		Detail  json.RawMessage `json:"detail"`
	}
	var outer struct {
		details
		Error json.RawMessage `json:"error"`
	}
	e := &model.Error{Provider: provider, Status: status}
	var d details
	if err := json.Unmarshal(body, &outer); err == nil {
		d = outer.details
		if plain(outer.Error) != "" {
			if err := json.Unmarshal(outer.Error, &d); err != nil {
				d = details{Message: outer.Error}
			}
		}
	}
	e.Message = plain(d.Message)
	if e.Message == "" {
		e.Message = plain(d.Detail)
	}
	if e.Message == "" {
		e.Message = strings.Join(strings.Fields(strings.ToValidUTF8(string(body), "")), " ")
	}
	if e.Message == "" {
		e.Message = http.StatusText(status)
	}
	e.Message = cut(e.Message)

	code, class := plain(d.Code), plain(d.Type)
	if n, err := strconv.Atoi(code); err == nil { // some servers repeat the status there
		code = ""
		if status == 0 && n >= 400 && n < 600 {
			status = n
		}
	}
	e.Kind = kindOf(status, code, class, e.Message)
	e.Code = code
	if code == "" {
		e.Code = class
	}
	return e
}

// plain returns the text of a JSON string, and other values as they are; null is
// empty.
func plain(v json.RawMessage) string {
	var s string
	if err := json.Unmarshal(v, &s); err == nil {
		return s
	}
	return string(v)
}

// cut shortens a text to maxErrorText.
func cut(s string) string {
	if len(s) <= maxErrorText {
		return s
	}
	return strings.ToValidUTF8(s[:maxErrorText], "") + "…" // a rune may be cut in two
}

// kindOf finds out what went wrong: by codes that leave no doubt, then by the
// status, then by the rest. Class is the error's type.
func kindOf(status int, code, class, message string) model.ErrorKind {
	says := func(codes ...string) bool {
		return slices.Contains(codes, code) || slices.Contains(codes, class)
	}
	switch {
	case says("insufficient_quota", "billing_hard_limit_reached", "billing_not_active"):
		return model.ErrorQuota
	case says("context_length_exceeded", "exceed_context_size_error"):
		return model.ErrorContextLength
	case says("content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation"):
		return model.ErrorFilter
	case says("rate_limit_exceeded"):
		return model.ErrorRateLimit
	case says("model_not_found"):
		return model.ErrorNotFound
	case says("invalid_api_key"):
		return model.ErrorAuth
	}
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return model.ErrorAuth
	case http.StatusPaymentRequired:
		return model.ErrorQuota
	case http.StatusNotFound:
		return model.ErrorNotFound
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return model.ErrorTimeout
	case http.StatusTooManyRequests:
		return model.ErrorRateLimit
	case http.StatusServiceUnavailable, 529:
		return model.ErrorOverloaded
	}
	if status >= 500 {
		return model.ErrorServer
	}
	lower := strings.ToLower(message)
	for _, s := range []string{"context length", "context window", "context size", "prompt is too long"} {
		if strings.Contains(lower, s) {
			return model.ErrorContextLength
		}
	}
	switch {
	case status != 0:
		return model.ErrorInvalid
	case says("rate_limit_error", "requests", "tokens"):
		return model.ErrorRateLimit
	case says("overloaded_error", "overloaded", "engine_overloaded", "service_unavailable"):
		return model.ErrorOverloaded
	case says("authentication_error", "permission_error"):
		return model.ErrorAuth
	case says("not_found_error"):
		return model.ErrorNotFound
	case says("timeout"):
		return model.ErrorTimeout
	case says("invalid_request_error"):
		return model.ErrorInvalid
	}
	return model.ErrorServer
}

// unreadable is the error of an answer that isn't what the API says it is.
func unreadable(err error, format string, args ...any) *model.Error {
	e := &model.Error{Provider: provider, Kind: model.ErrorResponse, Err: err, Message: fmt.Sprintf(format, args...)}
	if err != nil {
		e.Message += ": " + err.Error()
	}
	return e
}
