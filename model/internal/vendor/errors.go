package vendor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/superstep-dev/superstep/internal/redact"
	"github.com/superstep-dev/superstep/model"
)

// Ended returns the error for a context that has ended, else nil.
func Ended(ctx context.Context, provider string) error {
	if ctx.Err() == nil {
		return nil
	}
	return &ended{provider, ctx.Err(), context.Cause(ctx)}
}

// ended is the error of a call whose context ended.
type ended struct {
	provider   string
	err, cause error
}

func (e *ended) Error() string { return e.provider + ": " + e.cause.Error() }

// Unwrap returns the context's error and its cause.
func (e *ended) Unwrap() []error { return []error{e.err, e.cause} }

// Invalid says that a request can't be sent.
func Invalid(provider, format string, args ...any) *model.Error {
	err := fmt.Errorf(format, args...)
	return &model.Error{Provider: provider, Kind: model.ErrorInvalid, Message: err.Error(), Err: errors.Unwrap(err)}
}

// Unreadable says that an answer can't be understood.
func Unreadable(provider, format string, args ...any) *model.Error {
	err := fmt.Errorf(format, args...)
	return &model.Error{Provider: provider, Kind: model.ErrorResponse, Message: err.Error(), Err: errors.Unwrap(err)}
}

// NotAsked is the error of vectors that aren't what was asked for: about the text
// at an index, or about all if it is negative.
func NotAsked(provider string, text int, format string, args ...any) *model.Error {
	return &model.Error{Provider: provider, Kind: model.ErrorResponse, Err: &model.EmbeddingError{Text: text, Reason: fmt.Sprintf(format, args...)}}
}

// KindOf tells what went wrong from a status of HTTP alone.
func KindOf(status int) model.ErrorKind {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return model.ErrorAuth
	case http.StatusPaymentRequired:
		return model.ErrorQuota
	case http.StatusNotFound:
		return model.ErrorNotFound
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return model.ErrorTimeout
	case http.StatusRequestEntityTooLarge:
		return model.ErrorContextLength
	case http.StatusTooManyRequests:
		return model.ErrorRateLimit
	case http.StatusServiceUnavailable, 529:
		return model.ErrorOverloaded
	}
	switch {
	case status >= 500, status == 499, status == 0: // 499 says that the server gave up
		return model.ErrorServer
	case status < 400:
		return model.ErrorResponse // a redirect that leads nowhere
	}
	return model.ErrorInvalid
}

// Shorten bounds a text that may be an HTML page of a proxy, or a whole answer, and
// puts it on one line.
func Shorten(text []byte) string {
	const most = 400
	cut := len(text) > 4*most
	if cut {
		text = text[:4*most]
	}
	s := strings.Join(strings.Fields(strings.ToValidUTF8(string(text), "")), " ")
	if len(s) > most {
		s, cut = strings.ToValidUTF8(s[:most], ""), true // a rune may be cut in two
	}
	if cut {
		s += "…"
	}
	return s
}

// clean takes secrets out of an error.
func clean(s redact.Secrets, e *model.Error) *model.Error {
	e.Message, e.Code = s.Clean(e.Message), s.Clean(e.Code)
	if e.Err != nil {
		e.Err = s.Error(e.Err)
	}
	return e
}
