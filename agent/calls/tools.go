package calls

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/note"
)

// ToolCall says when a tool ran that a model had called. What it was given and returned is in
// the messages of the thread.
type ToolCall struct {
	Place

	Tool    string // its name
	Call    string // the ID that the model gave the call
	Attempt int    // of the node, from 1
	Began   time.Time
	Took    time.Duration
	Failed  bool // it returned an error, told to the model or not
}

// ToolKind is the kind of the notes by which calls of tools are recorded; see [note.Note].
const ToolKind = "tool_call"

type storedTool struct {
	Tool    string `json:"tool"`
	Call    string `json:"call,omitempty"`
	Attempt int    `json:"attempt,omitempty"` // if it isn't the first
	Began   int64  `json:"began"`             // microseconds since 1970
	Took    int64  `json:"took"`              // microseconds
	Failed  bool   `json:"failed,omitempty"`
}

// RecordTool records that a tool ran, on the thread of the node whose context it is, with what
// the node records next. The place and the attempt are the node's; the rest is the caller's to say. Nodes of
// package agent do so. Where calls of models aren't recorded ([Recording]), those of tools aren't
// either, but [Redact] doesn't see them.
func RecordTool(ctx context.Context, c ToolCall) error {
	in := graph.Info(ctx)
	if in.Thread == "" {
		return nil
	}
	if p, _ := graph.Deps[policy](ctx); p.off {
		return nil
	}
	s := storedTool{Tool: c.Tool, Call: c.Call, Began: c.Began.UnixMicro(), Took: c.Took.Microseconds(), Failed: c.Failed}
	if in.Attempt > 1 {
		s.Attempt = in.Attempt
	}
	data, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("recording a call of the tool %q: %w", c.Tool, err)
	}
	_, err = add(ctx, note.Note{Kind: ToolKind, Data: data})
	return err
}

// ListTools is [List] for calls of tools. One whose result was recorded before the node ran again
// is there once.
func ListTools(ctx context.Context, store checkpoint.Store, thread string, q Query) iter.Seq2[*ToolCall, error] {
	return listed(ctx, store, thread, ToolKind, q, readTool)
}

func readTool(e *note.Entry) (*ToolCall, error) {
	var s storedTool
	if err := json.Unmarshal(e.Data, &s); err != nil {
		return nil, fmt.Errorf("the recorded call %s of a tool can't be read: %w", e.ID, err)
	}
	return &ToolCall{
		Place: placeOf(e), Tool: s.Tool, Call: s.Call, Attempt: max(s.Attempt, 1),
		Began: time.UnixMicro(s.Began).UTC(), Took: time.Duration(s.Took) * time.Microsecond, Failed: s.Failed,
	}, nil
}
