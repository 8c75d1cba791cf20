package anthropic

import (
	"encoding/json"
	"strings"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/internal/vendor"
)

// invalid says that a request can't be sent.
func invalid(format string, args ...any) *model.Error {
	return vendor.Invalid(provider, format, args...)
}

// unreadable says that an answer can't be understood.
func unreadable(format string, args ...any) *model.Error {
	return vendor.Unreadable(provider, format, args...)
}

// failure makes an error of what the API says, or of the body if it has another
// form. Status is 0 for an error inside a stream.
func failure(status int, body []byte) *model.Error {
	var said struct {
		Error struct{ Type, Message string }
	}
	_ = json.Unmarshal(body, &said) // it may be a proxy's page
	e := &model.Error{Provider: provider, Status: status, Code: said.Error.Type, Message: said.Error.Message}
	if e.Message == "" {
		e.Message = vendor.Shorten(body)
	}
	e.Kind = kindOf(status, e.Code, e.Message)
	return e
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
	if status == 0 && code == "invalid_request_error" {
		return model.ErrorInvalid
	}
	return vendor.KindOf(status)
}
