package tool

import (
	"context"
	"encoding/json"
	"time"
)

// Info says which call a tool is to answer.
type Info struct {
	CallID string // the model's

	// IdempotencyKey is the same whenever this call is made again, after a
	// crash between the tool's effect and its record: pass it to services that
	// take one. It is empty outside of a graph.
	IdempotencyKey string
}

type infoKey struct{}

// WithInfo returns a context for [Tool.Call] that carries info.
func WithInfo(ctx context.Context, info Info) context.Context {
	return context.WithValue(ctx, infoKey{}, info)
}

// InfoOf returns what the context of a [Tool.Call] carries; zero if nothing.
func InfoOf(ctx context.Context) Info {
	info, _ := ctx.Value(infoKey{}).(Info)
	return info
}

// Started is what an agent tells those who watch its tools when it calls one.
type Started struct {
	CallID string          `json:"tool_call_id"`
	Name   string          `json:"name"`
	Args   json.RawMessage `json:"args"`
}

// Ended is what an agent tells those who watch its tools when one has returned.
type Ended struct {
	CallID   string
	Name     string
	Result   Result
	Err      error // of a call that failed; the result is then empty
	Duration time.Duration
	Recorded bool // the result is that of an earlier attempt; the tool was not called
}
