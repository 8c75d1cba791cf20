package model

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrorKind says what went wrong with a model.
type ErrorKind string

// The kinds.
const (
	ErrorRateLimit     ErrorKind = "rate limit"     // too many requests or tokens in a time
	ErrorQuota         ErrorKind = "quota"          // the account has no money or quota left
	ErrorOverloaded    ErrorKind = "overloaded"     // the provider has no capacity now
	ErrorServer        ErrorKind = "server"         // the provider failed
	ErrorTimeout       ErrorKind = "timeout"        // no answer in time
	ErrorConnection    ErrorKind = "connection"     // no connection, or it broke before the answer began
	ErrorBrokenStream  ErrorKind = "broken stream"  // the answer ended in its middle
	ErrorAuth          ErrorKind = "authentication" // a wrong or missing key, or no right
	ErrorNotFound      ErrorKind = "not found"      // no such model
	ErrorContextLength ErrorKind = "context length" // the conversation is too long
	ErrorFilter        ErrorKind = "content filter" // the provider refused the content
	ErrorInvalid       ErrorKind = "invalid"        // a request that the provider doesn't take
	ErrorResponse      ErrorKind = "response"       // an answer that can't be understood
)

// Error is a failure of a provider.
type Error struct {
	Provider string // such as "openai"
	Kind     ErrorKind
	Status   int    // of HTTP; 0 if there was none
	Code     string // the provider's own
	Message  string // the provider's own

	RequestID string // the provider's name of the request, for its support; "" if it has none

	// RetryAfter is how long the provider asks to wait; 0 if it doesn't say.
	RetryAfter time.Duration

	Err error // the cause
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", e.Provider, e.Kind)
	if e.Status != 0 {
		fmt.Fprintf(&b, " (HTTP %d)", e.Status)
	}
	switch {
	case e.Message != "":
		fmt.Fprintf(&b, ": %s", e.Message)
	case e.Err != nil:
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Temporary reports whether the same request may succeed later.
func (e *Error) Temporary() bool {
	switch e.Kind {
	case ErrorRateLimit, ErrorOverloaded, ErrorServer, ErrorTimeout, ErrorConnection, ErrorBrokenStream:
		return true
	}
	return false
}

// Temporary reports whether err is, or wraps, an [*Error] that may pass.
func Temporary(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Temporary()
}
