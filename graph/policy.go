package graph

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/internal/local"
	"github.com/superstep-dev/superstep/internal/plan"
)

// NodeOption is a setting of one node.
type NodeOption func(spec *plan.NodeSpec, n *nodeConfig)

// Defer makes the node wait until the run would otherwise end, however many
// branches lead to it.
func Defer() NodeOption {
	return func(spec *plan.NodeSpec, _ *nodeConfig) { spec.Defer = true }
}

// Destinations declares where a command node may go. They are checked by
// Compile and drawn; they have no effect when the graph runs.
func Destinations(nodes ...string) NodeOption {
	return func(spec *plan.NodeSpec, _ *nodeConfig) {
		spec.Destinations = append(slices.Clone(spec.Destinations), nodes...)
		spec.Command = true
	}
}

// Formerly names names that the node had in earlier versions of the program.
// Threads that wait at one of them go on at this node; without it, they fail
// with an [UnknownNodeError]. Code can't go to a node by a former name. When a
// node was removed, name it at the one that takes its place.
func Formerly(names ...string) NodeOption {
	return func(spec *plan.NodeSpec, n *nodeConfig) {
		spec.Former = append(slices.Clone(spec.Former), names...)
		n.local.Former = spec.Former
	}
}

// Describe sets a label for drawings and a description.
func Describe(label, description string) NodeOption {
	return func(_ *plan.NodeSpec, n *nodeConfig) { n.label, n.description = label, description }
}

// RetryPolicy says when a failed attempt of a node is tried again. The zero
// value of a field means its default.
//
// Attempts are counted over the life of a task, since failures are recorded: a node
// that has used them up is tried once each time that the thread is continued.
//
// The wait before attempt n+1 is Initial × Factor^(n-1), at most Max, and with
// jitter a random time between half of that and all of it.
type RetryPolicy struct {
	MaxAttempts int           // including the first; 0 means 3
	Initial     time.Duration // 0 means 500 ms
	Factor      float64       // 0 means 2
	Max         time.Duration // 0 means 8 s, or Initial if that is longer
	NoJitter    bool

	// If says which errors are retried. Nil retries every error that is not
	// a panic and doesn't come from the context of the run.
	If func(error) bool
}

func (p *RetryPolicy) matches(err error) bool {
	if p.If != nil {
		return p.If(err)
	}
	var pe *PanicError
	return !errors.As(err, &pe)
}

func (p *RetryPolicy) delay(attempt int) time.Duration {
	d, factor, limit := p.Initial, p.Factor, p.Max
	if d <= 0 {
		d = 500 * time.Millisecond
	}
	if factor <= 0 {
		factor = 2
	}
	if limit <= 0 {
		limit = max(8*time.Second, d)
	}
	f := float64(d)
	for range attempt - 1 {
		if f *= factor; f >= float64(limit) {
			break
		}
	}
	d = min(time.Duration(min(f, float64(limit))), limit)
	if !p.NoJitter {
		d = d/2 + rand.N(d/2+1)
	}
	return d
}

// Retry adds retry policies. Of several, the first whose If accepts the error
// decides. Questions to people and contexts that ended are never retried.
func Retry(policies ...RetryPolicy) NodeOption {
	return func(_ *plan.NodeSpec, n *nodeConfig) {
		for _, p := range policies {
			if p.MaxAttempts < 0 || p.Initial < 0 || p.Max < 0 || !(p.Factor >= 0) {
				n.mistake("use 0 for a default", "RetryPolicy{MaxAttempts: %d, Initial: %v, Factor: %v, Max: %v} has a negative number", p.MaxAttempts, p.Initial, p.Factor, p.Max)
			}
		}
		n.retries = append(n.retries, policies...)
	}
}

func retrier(policies []RetryPolicy) func(int, error) (time.Duration, bool) {
	if len(policies) == 0 {
		return nil
	}
	policies = slices.Clone(policies)
	return func(attempt int, err error) (time.Duration, bool) {
		for i := range policies {
			p := &policies[i]
			if !p.matches(err) {
				continue
			}
			limit := p.MaxAttempts
			if limit <= 0 {
				limit = 3
			}
			return p.delay(attempt), attempt < limit
		}
		return 0, false
	}
}

// Timeout bounds each attempt of the node. When it ends, the attempt fails with
// a [TimeoutError] (which can be retried) and what it still writes is dropped.
func Timeout(d time.Duration) NodeOption {
	return func(_ *plan.NodeSpec, n *nodeConfig) {
		if d < 0 {
			n.mistake("use a positive duration, or 0 for none", "Timeout of %v", d)
		}
		n.local.Timeout = d
	}
}

// IdleTimeout fails an attempt that gave no sign of life for d: an event by
// [Emit] or [EmitMessage], a finished [Once], or [Heartbeat]. What happens in
// subgraphs counts too, and so does each of their tasks that ends.
func IdleTimeout(d time.Duration) NodeOption {
	return func(_ *plan.NodeSpec, n *nodeConfig) {
		if d < 0 {
			n.mistake("use a positive duration, or 0 for none", "IdleTimeout of %v", d)
		}
		n.local.Idle = d
	}
}

// OnError adds a handler that runs when all attempts of the node have failed,
// in the same superstep, on a fresh copy of the state. If it returns nil, its
// changes and command are the node's; if it returns an error, the node has
// failed with it. The node's timeout holds for it as well, counted anew. [Payload]
// gives it what was sent to the task.
//
// That the handler stands in is recorded: when it asks, fails or is cut short, it
// runs again and the node doesn't, unless with [Requests.RestartStep]. In a later run the
// cause of err is a [RecordedError].
func OnError[S any](handler func(ctx context.Context, s *S, err *NodeError) (Command, error)) NodeOption {
	return func(_ *plan.NodeSpec, n *nodeConfig) {
		if handler == nil {
			n.mistake("pass a handler or leave the option out", "OnError has a nil handler")
			return
		}
		n.stateType = reflect.TypeFor[S]()
		n.local.Recover = func(ctx context.Context, state any, err *local.NodeError) (local.Command, error) {
			c, herr := handler(ctx, state.(*S), err)
			return c.local(), herr
		}
	}
}

// Callbacks are called around each attempt of a node, by the goroutine that
// runs it. Any of them may be nil. When an attempt ends with an open question,
// neither After nor OnError is called.
type Callbacks[S any] struct {
	// Before runs first. If it reports skip, the node isn't called, and what
	// Before wrote to s stands for it. If it fails, so does the attempt.
	Before func(ctx context.Context, s *S) (skip bool, err error)

	// After runs when the node has returned nil and may write to s as well.
	After func(ctx context.Context, s *S) error

	// OnError observes an error of the node.
	OnError func(ctx context.Context, s *S, err error)
}

// WithCallbacks adds callbacks to the node. Those of the graph (see
// [Builder.AddCallbacks]) run outside of them: first before and last after.
func WithCallbacks[S any](c Callbacks[S]) NodeOption {
	return func(_ *plan.NodeSpec, n *nodeConfig) {
		n.stateType = reflect.TypeFor[S]()
		addCallbacks(&n.local, c)
	}
}

func addCallbacks[S any](n *local.Node, c Callbacks[S]) {
	if c.Before != nil {
		n.Before = append(n.Before, func(ctx context.Context, state any) (bool, error) { return c.Before(ctx, state.(*S)) })
	}
	if c.After != nil || c.OnError != nil {
		n.After = append(n.After, func(ctx context.Context, state any, err error) error {
			switch {
			case err == nil && c.After != nil:
				return c.After(ctx, state.(*S))
			case err != nil && c.OnError != nil:
				c.OnError(ctx, state.(*S), err)
			}
			return err
		})
	}
}

// CacheStore keeps results of nodes. It is safe for concurrent use. A TTL of 0
// means for ever.
type CacheStore interface {
	Get(ctx context.Context, key string) (data []byte, ok bool, err error)
	Set(ctx context.Context, key string, data []byte, ttl time.Duration) error
}

// CachePolicy keeps a node's result and uses it when the node is to run again
// on the same input. Not kept are results that write fields which are not stored,
// such as [Untracked], and those of tasks that asked or waited ([Interrupt],
// [WaitFor], [Sleep]): an answer holds in the thread in which it was given.
type CachePolicy struct {
	Store CacheStore    // required
	TTL   time.Duration // 0: for ever

	// Version is part of the key: change it when the node's code changes.
	Version string

	// Key returns what the result depends on, given the state as the node sees it
	// (a *S) and, for a task, its payload in JSON. Nil means the whole state, but
	// for what isn't recorded of it ([Untracked]), and payload. The result is what
	// the node wrote, and to set a plain field to what it holds is no write: so
	// the result depends on the plain fields that the node sets, too.
	Key func(state any, payload json.RawMessage) (string, error)
}

// Cache caches the node's results, but for those that depend on an answer, write
// what isn't recorded, send tasks, or move the state of a subgraph that
// keeps it.
func Cache(p CachePolicy) NodeOption {
	return func(_ *plan.NodeSpec, n *nodeConfig) { n.cache = &p }
}

// AddCallbacks adds callbacks to every node of the graph, those added later
// included.
func (b *Builder[S]) AddCallbacks(c Callbacks[S]) *Builder[S] {
	b.made()
	b.settings.callbacks = append(b.settings.callbacks, func(n *local.Node) {
		inner := *n
		n.Before, n.After = nil, nil
		addCallbacks(n, c)
		n.Before = append(n.Before, inner.Before...)
		n.After = append(slices.Clone(inner.After), n.After...)
	})
	return b
}

func (p *CachePolicy) compile(graph, node string, snapshot func(state any) (json.RawMessage, error)) *local.Cache {
	return &local.Cache{Store: p.Store, TTL: p.TTL, Key: func(state, payload any) (string, error) {
		raw, err := json.Marshal(payload)
		if err != nil {
			return "", err
		}
		var key string
		if p.Key != nil {
			key, err = p.Key(state, raw)
		} else {
			var s json.RawMessage
			s, err = snapshot(state)
			key = digest(s) + digest(raw)
		}
		if err != nil {
			return "", err
		}
		part := strings.NewReplacer("%", "%25", "/", "%2F").Replace
		return fmt.Sprintf("%s/%s/%s/%s", part(graph), part(node), part(p.Version), key), nil
	}}
}
