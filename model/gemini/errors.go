package gemini

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"time"

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

// problem is what the API says went wrong.
type problem struct {
	Code    int              `json:"code"`
	Message string           `json:"message"`
	Status  string           `json:"status"`
	Details []map[string]any `json:"details"`
}

// failure makes an error of what the API says, or of the body if it has another
// form. Status is 0 for an error inside a stream.
func failure(status int, body []byte) *model.Error {
	var said struct {
		Error problem `json:"error"`
	}
	// It may be a proxy's page. A stream's is in a list at times.
	_ = json.Unmarshal(bytes.Trim(bytes.TrimSpace(body), "[]"), &said)
	p := said.Error
	e := &model.Error{Provider: provider, Status: status, Code: p.Status, Message: vendor.Shorten([]byte(p.Message))}
	if e.Message == "" {
		e.Message = vendor.Shorten(body)
	}
	if status == 0 {
		status = p.Code
	}
	e.Kind = kindOf(status, p.Status, p.Message, p.Details)
	e.RetryAfter = retryInfo(p.Details)
	return e
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
	return vendor.KindOf(status)
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
