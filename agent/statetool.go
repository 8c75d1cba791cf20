package agent

import (
	"context"
	"fmt"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/tool"
)

// NewStateTool makes a tool of a function that reads and writes the graph's
// state, and may choose where the graph goes on: the zero command follows the
// edges of the [Tools] node, of several commands all are followed. Other than
// that it is [tool.New].
//
// The state is that of the node: what the tool writes is committed with it. Its
// result isn't recorded by itself, so the function runs again when the node
// does: what must not happen twice belongs into graph.Once. Tools with state are
// called one after the other. Don't give them to tool.WithTimeout: a tool that
// goes on when its time is over would write a state that is another's by then.
func NewStateTool[S, In, Out any](name, description string, fn func(ctx context.Context, s *S, in In) (Out, graph.Command, error), opts ...tool.Option) tool.Tool {
	var call func(ctx context.Context, in In) (Out, error)
	if fn != nil {
		call = func(ctx context.Context, in In) (Out, error) {
			s, ok := ctx.Value(stateKey{}).(*S)
			if !ok {
				var none Out
				return none, &StateError{Tool: name, Want: fmt.Sprintf("%T", s), Got: fmt.Sprintf("%T", ctx.Value(stateKey{}))}
			}
			out, cmd, err := fn(ctx, s, in)
			if to, ok := ctx.Value(commandKey{}).(*graph.Command); ok && err == nil && !cmd.IsZero() {
				*to = to.And(cmd)
			}
			return out, err
		}
	}
	return stateTool{tool.New(name, description, call, opts...)}
}

// StateError says that a tool of [NewStateTool] was called where there is no
// state of its type.
type StateError struct {
	Tool      string
	Want, Got string // types; Got is <nil> outside of a Tools node
}

func (e *StateError) Error() string {
	return fmt.Sprintf("tool %q works on a state %s, and there is a %s here: give it to a Tools node of a graph with its state", e.Tool, e.Want, e.Got)
}

type (
	stateKey   struct{}
	commandKey struct{}
)

func withState[S any](ctx context.Context, s *S) context.Context {
	return context.WithValue(ctx, stateKey{}, s)
}

func withCommand(ctx context.Context, cmd *graph.Command) context.Context {
	return context.WithValue(ctx, commandKey{}, cmd)
}

// routed reports whether a tool called before has said where the graph goes on.
func routed(ctx context.Context) bool {
	cmd, ok := ctx.Value(commandKey{}).(*graph.Command)
	return ok && !cmd.IsZero()
}

// stateTool marks a tool that takes the state.
type stateTool struct{ tool.Tool }

func (stateTool) takesState() {}

// Check returns what is wrong with the definition.
func (t stateTool) Check() error { return tool.Check(t.Tool) }

// takesState reports whether a tool, or one that it wraps, takes the state.
func takesState(t tool.Tool) bool {
	for {
		if _, ok := t.(interface{ takesState() }); ok {
			return true
		}
		w, ok := t.(interface{ Unwrap() tool.Tool })
		if !ok {
			return false
		}
		t = w.Unwrap()
	}
}
