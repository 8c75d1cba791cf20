package mapstate

import (
	"errors"
	"fmt"

	"github.com/superstep-dev/superstep/graph/internal/state"
)

// UnknownFieldError says that an update names a field that was not declared.
type UnknownFieldError = state.UnknownFieldError

// ReservedFieldError says that an update names a field that is reserved.
type ReservedFieldError struct {
	Node  string // that wrote it; empty: input from outside
	Field string
}

func (e *ReservedFieldError) Error() string {
	return fmt.Sprintf("field %q is reserved: nodes can't write it", e.Field)
}

// FieldTypeError says that a value has another type than its field.
type FieldTypeError struct {
	Node  string // that wrote it; empty: input from outside, or a reducer
	Field string
	Want  string // the Go type that the field takes
	Got   string // the Go type of the value, or "nil"
}

func (e *FieldTypeError) Error() string {
	return fmt.Sprintf("field %q takes a value of type %s, not %s", e.Field, e.Want, e.Got)
}

// RequiredError says that a required field has no value.
type RequiredError struct {
	Node  string // that was to run
	Field string
}

func (e *RequiredError) Error() string {
	return fmt.Sprintf("required field %q has no value: set it in the input", e.Field)
}

// Warning is something that a schema lets pass.
type Warning struct {
	Kind  WarningKind
	Field string
	Node  string // that wrote the field; empty: input from outside, or not known
	With  string // whose write was replaced
	Size  int    // bytes of a large change or state
	Of    int    // bytes of Field in it
}

// WarningKind is the kind of a Warning.
type WarningKind string

// The kinds of warnings.
const (
	UndeclaredField  WarningKind = "undeclared field"
	ConcurrentWrites WarningKind = "concurrent writes"
	LargeChange      WarningKind = "large change"
	LargeState       WarningKind = "large state"
)

func (w Warning) String() string {
	who := "the input"
	if w.Node != "" {
		who = fmt.Sprintf("node %q", w.Node)
	}
	switch w.Kind {
	case LargeChange:
		return fmt.Sprintf("%s wrote %d bytes in one superstep, %d of them to field %q: store large data elsewhere and keep a reference to it", who, w.Size, w.Of, w.Field)
	case LargeState:
		return fmt.Sprintf("the state has %d bytes, %d of them in field %q: store large data elsewhere and keep a reference to it", w.Size, w.Of, w.Field)
	}
	if w.Kind == UndeclaredField {
		return fmt.Sprintf("%s wrote field %q, which the schema doesn't declare: it was stored as it is", who, w.Field)
	}
	return fmt.Sprintf("%s replaced what node %q wrote to field %q in the same superstep: give the field a reducer", who, w.With, w.Field)
}

var errConflict = errors.New("two tasks of one superstep set different values; give the field a reducer, or let one task write it")

func panicError(p any) error {
	if err, ok := p.(error); ok {
		return fmt.Errorf("panic: %w", err)
	}
	return fmt.Errorf("panic: %v", p)
}

func fieldErr(name string, err error) error { return fmt.Errorf("field %q: %w", name, err) }
