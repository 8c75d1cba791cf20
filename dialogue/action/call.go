package action

import (
	"cmp"
	"context"
	"strings"

	"github.com/superstep-dev/superstep/dialogue/program"
)

// Call is the call that an action or a validator answers.
type Call struct {
	// ID is the idempotency key: the same for all attempts, and for the same call after a
	// crash. Pass it to services that take one. A validator has no effect, and no key.
	ID     string
	Action string
	Effect program.Effect // as the program says
	FlowID string         // the instance of the flow
	Step   string
	Caller
}

// Caller is whom a conversation is with.
type Caller struct {
	User     string
	Thread   string // the conversation
	Language string
}

type callKey struct{}

type callerKey struct{}

// WithCaller returns a context for [Set.Do] and [Set.Validate] that says whom the
// conversation is with. An empty Thread is taken from the call's key, an empty Language
// from the validation.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallOf returns the call that the context of an action or a validator belongs to; zero if
// there is none.
func CallOf(ctx context.Context) Call {
	c, _ := ctx.Value(callKey{}).(Call)
	return c
}

// withCall returns the context of a call.
func withCall(ctx context.Context, c Call) context.Context {
	given := c.Caller
	c.Caller, _ = ctx.Value(callerKey{}).(Caller)
	c.Language = cmp.Or(c.Language, given.Language)
	if thread, _, ok := strings.Cut(c.ID, "/"+c.FlowID+"/"); ok && c.Thread == "" && c.FlowID != "" {
		c.Thread = thread
	}
	return context.WithValue(ctx, callKey{}, c)
}
