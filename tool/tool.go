// Package tool is the contract between agents and the tools that their models
// call.
//
// A [Tool] describes itself and is called with JSON. [New] makes one of a Go
// function: its arguments' JSON Schema comes from a struct. [NewSet] checks the
// tools of an agent and finds them by name. [Limit] and [WithTimeout] wrap any
// tool. Package mcp below it takes tools from servers of the Model Context
// Protocol, and serves them.
package tool

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/superstep-dev/superstep/chat"
)

// Tool is something that a model may have called. It is safe for concurrent use.
type Tool interface {
	// Spec describes the tool to models. It is always the same.
	Spec() chat.ToolSpec

	// Call runs the tool. Args is a JSON object, checked by nobody yet. An
	// error that the model can do something about is an [*Error].
	//
	// Inside a graph the context is the node's: graph.Interrupt asks a human,
	// graph.Emit streams progress, graph.Deps has the dependencies. An
	// error of these must be returned as it is, or wrapped.
	Call(ctx context.Context, args json.RawMessage) (Result, error)
}

// Result is what a tool returns.
type Result struct {
	// Content is what the model is told: text, images, audio and files.
	Content []chat.Part

	// Artifact is for the program and isn't sent to the model: JSON or nil.
	Artifact json.RawMessage
}

// Text returns a result of one text.
func Text(s string) Result { return Result{Content: []chat.Part{chat.Text{Text: s}}} }

// Text returns the text of the content, all parts joined.
func (r Result) Text() string { return chat.ToolResult{Content: r.Content}.Text() }

// Error says that a tool failed.
type Error struct {
	Tool string // name
	Kind ErrorKind
	Err  error // what happened, in words that a model can use
}

// ErrorKind says how a tool failed.
type ErrorKind string

// The kinds.
const (
	ErrorFailed    ErrorKind = ""                  // it was called and failed
	ErrorArguments ErrorKind = "invalid arguments" // they don't parse or don't match the schema
	ErrorUnknown   ErrorKind = "unknown tool"
	ErrorPanic     ErrorKind = "panic"
)

func (e *Error) Error() string {
	if e.Kind == ErrorFailed {
		return fmt.Sprintf("tool %q: %v", e.Tool, e.Err)
	}
	return fmt.Sprintf("tool %q: %s: %v", e.Tool, e.Kind, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
