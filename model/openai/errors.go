package openai

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/internal/vendor"
)

// provider is the name in errors, whoever's server it is.
const provider = "openai"

// invalid says that a request can't be sent.
func invalid(format string, args ...any) *model.Error {
	return vendor.Invalid(provider, format, args...)
}

// unreadable says that an answer can't be understood.
func unreadable(format string, args ...any) *model.Error {
	return vendor.Unreadable(provider, format, args...)
}

// refused is the error of a response that isn't a success.
func (m *Model) refused(status int, body []byte) *model.Error {
	e := failure(status, body)
	switch {
	case e.Kind == model.ErrorAuth && m.noKey:
		e.Message += "; no key was sent: give one with openai.APIKey, as a server named by openai.BaseURL doesn't get OPENAI_API_KEY"
	case e.Kind == model.ErrorNotFound && !json.Valid(body):
		// The API answers in JSON: this wasn't it.
		path := completionsPath
		if m.responses {
			path = responsesPath
		}
		e.Message += "; the base URL must have the path before /" + path + ", which often is /v1"
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
func failure(status int, body []byte) *model.Error {
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
		e.Message = string(body)
	}
	if e.Message = vendor.Shorten([]byte(e.Message)); e.Message == "" {
		e.Message = http.StatusText(status)
	}

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
	case says("content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation", "image_content_policy_violation", "invalid_prompt"):
		return model.ErrorFilter
	case says("rate_limit_exceeded"):
		return model.ErrorRateLimit
	case says("model_not_found"):
		return model.ErrorNotFound
	case says("invalid_api_key"):
		return model.ErrorAuth
	}
	if kind := vendor.KindOf(status); status != 0 && kind != model.ErrorInvalid {
		return kind
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
	case says("timeout", "vector_store_timeout"):
		return model.ErrorTimeout
	case says("invalid_request_error"), strings.HasPrefix(code, "invalid_"), strings.Contains(code, "image"):
		return model.ErrorInvalid
	}
	return model.ErrorServer
}
