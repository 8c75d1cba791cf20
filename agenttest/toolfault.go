package agenttest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/tool"
)

// Tool is a tool with faults; see [FaultyTool].
type Tool struct{ injector[tool.Tool] }

var _ tool.Tool = (*Tool)(nil)

// FaultyTool returns a tool that does what t does, but for the faults. Calls are
// counted in the order in which they begin. Where several faults meet, the first
// is around the others.
func FaultyTool(t tool.Tool, faults ...ToolFault) *Tool { return &Tool{newInjector(t, faults)} }

// Spec implements [tool.Tool].
func (t *Tool) Spec() chat.ToolSpec { return t.inner.Spec() }

// Check returns what is wrong with the definition of the tool without faults.
func (t *Tool) Check() error { return tool.Check(t.inner) }

// Unwrap returns the tool without faults.
func (t *Tool) Unwrap() tool.Tool { return t.inner }

// Call implements [tool.Tool].
func (t *Tool) Call(ctx context.Context, args json.RawMessage) (tool.Result, error) {
	return t.next().Call(ctx, args)
}

// called is a tool with another function.
type called struct {
	tool.Tool
	call func(ctx context.Context, args json.RawMessage) (tool.Result, error)
}

func (c *called) Call(ctx context.Context, args json.RawMessage) (tool.Result, error) {
	return c.call(ctx, args)
}

func toolFault(name string, call func(ctx context.Context, t tool.Tool, args json.RawMessage) (tool.Result, error)) ToolFault {
	return ToolFault{name: name, wrap: func(t tool.Tool, happened func()) tool.Tool {
		return &called{t, func(ctx context.Context, args json.RawMessage) (tool.Result, error) {
			happened()
			return call(ctx, t, args)
		}}
	}}
}

// FailTool makes a call fail with a [*tool.Error] of the tool that wraps err; an
// err that is one stays as it is. The tool isn't called.
func FailTool(err error) ToolFault {
	return toolFault("FailTool", func(_ context.Context, t tool.Tool, _ json.RawMessage) (tool.Result, error) {
		if e := (*tool.Error)(nil); errors.As(err, &e) {
			return tool.Result{}, err
		}
		return tool.Result{}, &tool.Error{Tool: t.Spec().Name, Err: err}
	})
}

// PanicTool makes a call panic with v. The tool isn't called.
func PanicTool(v any) ToolFault {
	return toolFault("PanicTool", func(context.Context, tool.Tool, json.RawMessage) (tool.Result, error) { panic(v) })
}

// SlowTool makes a call wait for d, or for the end of the context, whose error it
// then fails with, before it calls the tool.
func SlowTool(d time.Duration) ToolFault {
	return toolFault("SlowTool", func(ctx context.Context, t tool.Tool, args json.RawMessage) (tool.Result, error) {
		if err := sleep(ctx, d); err != nil {
			return tool.Result{}, err
		}
		return t.Call(ctx, args)
	})
}

// HugeResult makes a call return a text of that many bytes. The tool isn't called.
func HugeResult(bytes int) ToolFault {
	return toolFault("HugeResult", func(context.Context, tool.Tool, json.RawMessage) (tool.Result, error) {
		const line = "This result is far too long to be of use.\n"
		return tool.Text(strings.Repeat(line, bytes/len(line)+1)[:bytes]), nil
	})
}
