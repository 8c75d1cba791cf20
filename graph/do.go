package graph

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/superstep-dev/superstep/internal/local"
)

// Do runs a sub-step of a node, as a node of its own is run, and records its result:
// when the node runs again, after a question, a sleep, an error or a crash, the
// recorded result is returned and fn isn't called. So a whole workflow may be one node
// whose Go code calls Do: in loops, in branches, in helper functions.
//
// [Retry], [Timeout] and [Cache] hold for it as they do for a node, but attempts are
// counted anew when the node runs again. The [CachePolicy.Key] is given in, and in as
// JSON. It is told of as a task is, in streams ([ModeTasks]), by observers and traces: its
// node is name, at the end of its path is the node that called it. A failure is a
// [NodeError] that says the same.
//
// A sub-step is told from others of its task by name, in, and how often it was called
// with the same two before in this execution, in the order of the calls; one that failed
// isn't counted. So a loop may call Do with one name, several goroutines may call it
// with several inputs, and where an answer, an edit or a fork leads to another input, the
// sub-step is another one. In must therefore be the same when the node runs again: the
// time of day or a random number in it is a new input each time, and is to be
// read in a sub-step of its own. Fields added to its type later are to be omitted when
// empty. In [Once] the name alone tells.
//
// Only success is recorded. Inside fn, [Info] has a key for services that take
// idempotency keys, for the case that the process dies after the effect and before the
// record. Fn must not write to the state, ask, or call Do: the node does. In and the
// result are encoded as JSON.
//
// An attempt of fn that exceeds its Timeout is left behind after a while, and what it
// returns is dropped, though what it did is not undone: the next one has the same key.
func Do[In, Out any](ctx context.Context, name string, fn func(ctx context.Context, in In) (Out, error), in In, opts ...DoOption) (Out, error) {
	t, do, err := doing("Do", ctx, name, fn, in, opts)
	if err != nil {
		return *new(Out), err
	}
	data, err := t.Do(ctx, *do)
	return recorded[Out](do.Call, do.Name, data, err)
}

// Go is [Do] on a goroutine of its own: several sub-steps run at once, at most as many
// as [Concurrency] says. Their order, which tells equal ones apart, is that of the calls
// of Go. The node's attempt ends when they have: if the node has failed they are
// cancelled, and an error of one that nobody waited for is the node's.
func Go[In, Out any](ctx context.Context, name string, fn func(ctx context.Context, in In) (Out, error), in In, opts ...DoOption) *Future[Out] {
	t, do, err := doing("Go", ctx, name, fn, in, opts)
	if t == nil {
		return &Future[Out]{err: err}
	}
	return &Future[Out]{do: do, f: t.Go(ctx, *do, err)}
}

// Future is a sub-step that [Go] has started. It is safe for concurrent use.
type Future[Out any] struct {
	do  *local.Do
	f   *local.Future
	err error // it has not started
}

// Wait returns the result, as [Do] does. It may be called several times.
func (f *Future[Out]) Wait(ctx context.Context) (Out, error) {
	if f.f == nil {
		return *new(Out), f.err
	}
	data, err := f.f.Wait(ctx)
	return recorded[Out](f.do.Call, f.do.Name, data, err)
}

func doing[In, Out any](call string, ctx context.Context, name string, fn func(ctx context.Context, in In) (Out, error), in In, opts []DoOption) (*local.Task, *local.Do, error) {
	t, err := task(ctx, call)
	if err != nil {
		return nil, nil, err
	}
	do := &local.Do{Call: call, Name: name}
	refuse := func(format string, args ...any) (*local.Task, *local.Do, error) {
		return t, do, &local.CallError{Call: call, Node: t.Info().Node, Key: name, Reason: fmt.Sprintf(format, args...)}
	}
	if do.Input, err = json.Marshal(in); err != nil {
		return refuse("its input can't be encoded: %v", err)
	}
	if fn != nil {
		do.Run = func(ctx context.Context) (json.RawMessage, error) {
			v, err := fn(ctx, in)
			return result(call, name, v, err)
		}
	}
	var p policy
	for _, o := range opts {
		if o == nil {
			return refuse("it has a nil option: remove it")
		}
		o.do(&p)
	}
	for _, m := range p.mistakes {
		return refuse("%s: %s", m.text, m.fix)
	}
	do.Retry, do.Timeout = retrier(p.retries), p.timeout
	if p.cache != nil {
		info := t.Info()
		do.Cache = p.cache.compile(info.Graph, info.Node+"/"+name, func(any) (json.RawMessage, error) { return nil, nil })
		key := do.Cache.Key
		do.Cache.Key = func(_, payload any) (string, error) { return key(in, payload) }
		do.Usable = func(data json.RawMessage) bool { return json.Unmarshal(data, new(Out)) == nil }
	}
	return t, do, nil
}
