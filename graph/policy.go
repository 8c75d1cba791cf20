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
	"unicode/utf8"

	"github.com/superstep-dev/superstep/cache"
	"github.com/superstep-dev/superstep/internal/local"
	"github.com/superstep-dev/superstep/internal/plan"
)

// NodeOption is a setting of one node.
type NodeOption interface {
	node(spec *plan.NodeSpec, n *nodeConfig)
}

type nodeSetting func(spec *plan.NodeSpec, n *nodeConfig)

func (f nodeSetting) node(spec *plan.NodeSpec, n *nodeConfig) { f(spec, n) }

// DoOption is a setting of one call of [Do] or [Go]. It is a [NodeOption] as well.
type DoOption interface {
	NodeOption
	do(p *policy)
}

// policy says how a node, or a call of Do, is tried.
type policy struct {
	retries  []RetryPolicy // nil: there is no such option
	timeout  time.Duration
	timed    bool // there is a timeout, perhaps 0
	cache    *CachePolicy
	mistakes []mistake
}

// mistake says what is wrong with an option.
type mistake struct{ text, fix string }

func (p *policy) mistake(fix, format string, args ...any) {
	p.mistakes = append(p.mistakes, mistake{fmt.Sprintf(format, args...), fix})
}

type policySetting func(p *policy)

func (f policySetting) do(p *policy)                         { f(p) }
func (f policySetting) node(_ *plan.NodeSpec, n *nodeConfig) { f(&n.policy) }

// Defer makes the node wait until the run would otherwise end, however many
// branches lead to it.
func Defer() NodeOption {
	return nodeSetting(func(spec *plan.NodeSpec, _ *nodeConfig) { spec.Defer = true })
}

// Destinations declares where a command node may go. They are checked by
// Compile and drawn; they have no effect when the graph runs.
func Destinations(nodes ...string) NodeOption {
	return nodeSetting(func(spec *plan.NodeSpec, _ *nodeConfig) {
		spec.Destinations = append(slices.Clone(spec.Destinations), nodes...)
		spec.Command = true
	})
}

// Formerly names names that the node had in earlier versions of the program.
// Threads that wait at one of them go on at this node; without it, they fail
// with an [UnknownNodeError]. Code can't go to a node by a former name. When a
// node was removed, name it at the one that takes its place.
func Formerly(names ...string) NodeOption {
	return nodeSetting(func(spec *plan.NodeSpec, n *nodeConfig) {
		spec.Former = append(slices.Clone(spec.Former), names...)
		n.local.Former = spec.Former
	})
}

// Describe sets a label for drawings and a description.
func Describe(label, description string) NodeOption {
	return nodeSetting(func(_ *plan.NodeSpec, n *nodeConfig) { n.label, n.description = label, description })
}

// Tags adds tags to the node, for those who read events ([Event].Tags), traces
// ([Part].Tags) and drawings. They hold for all that happens in a subgraph that is the
// node, too. The engine knows one: [NoStream].
func Tags(tags ...string) NodeOption {
	return nodeSetting(func(_ *plan.NodeSpec, n *nodeConfig) {
		for _, tag := range tags {
			if tag == "" || !utf8.ValidString(tag) {
				n.mistake("use words", "the tag %q is empty or not valid UTF-8", tag)
			}
			if !slices.Contains(n.local.Tags, tag) {
				n.local.Tags = append(slices.Clip(n.local.Tags), tag)
			}
		}
	})
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
func Retry(policies ...RetryPolicy) DoOption {
	return policySetting(func(n *policy) {
		for _, p := range policies {
			if p.MaxAttempts < 0 || p.Initial < 0 || p.Max < 0 || !(p.Factor >= 0) {
				n.mistake("use 0 for a default", "RetryPolicy{MaxAttempts: %d, Initial: %v, Factor: %v, Max: %v} has a negative number", p.MaxAttempts, p.Initial, p.Factor, p.Max)
			}
		}
		n.retries = append(n.retries, policies...)
		if n.retries == nil { // none, whatever the defaults are
			n.retries = []RetryPolicy{}
		}
	})
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
func Timeout(d time.Duration) DoOption {
	return policySetting(func(p *policy) {
		if d < 0 {
			p.mistake("use a positive duration, or 0 for none", "Timeout of %v", d)
		}
		p.timeout, p.timed = d, true
	})
}

// IdleTimeout fails an attempt that gave no sign of life for d: an event by
// [Emit] or [EmitMessage], a finished [Once] or [Do], or [Heartbeat]. What happens in
// subgraphs counts too, and so does each of their tasks that ends.
func IdleTimeout(d time.Duration) NodeOption {
	return nodeSetting(func(_ *plan.NodeSpec, n *nodeConfig) {
		if d < 0 {
			n.mistake("use a positive duration, or 0 for none", "IdleTimeout of %v", d)
		}
		n.local.Idle, n.idled = d, true
	})
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
	return nodeSetting(func(_ *plan.NodeSpec, n *nodeConfig) {
		if handler == nil {
			n.mistake("pass a handler or leave the option out", "OnError has a nil handler")
			return
		}
		n.stateType = reflect.TypeFor[S]()
		n.local.Recover = func(ctx context.Context, state any, err *local.NodeError) (local.Command, error) {
			c, herr := handler(ctx, state.(*S), err)
			return c.local(), herr
		}
	})
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

// WithCallbacks adds callbacks to the node. Those of [Builder.NodeDefaults] run
// outside of them: first before and last after.
func WithCallbacks[S any](c Callbacks[S]) NodeOption {
	return nodeSetting(func(_ *plan.NodeSpec, n *nodeConfig) {
		n.stateType = reflect.TypeFor[S]()
		addCallbacks(&n.local, c)
	})
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

// CachePolicy keeps a node's result and uses it when the node is to run again
// on the same input. Not kept are results that write fields which are not stored,
// such as [Untracked], and those of tasks that asked or waited ([Interrupt],
// [WaitFor], [Sleep]): an answer holds in the thread in which it was given.
type CachePolicy struct {
	// Store is required: a *[cache.Memory], or what packages cache/sqlite and
	// cache/redis open, which several processes share. Where it fails to tell whether
	// it has a result, the node fails; that it fails to keep one is of no effect.
	Store cache.Store

	TTL time.Duration // 0: for ever

	// Version is part of the key: change it when the node's code changes.
	Version string

	// Key returns what the result depends on, given the state as the node sees it
	// (a *S) and, for a task, its payload in JSON; for a [Do] what it is called with. Nil means the whole state, but
	// for what isn't recorded of it ([Untracked]), and payload. The result is what
	// the node wrote, and to set a plain field to what it holds is no write: so
	// the result depends on the plain fields that the node sets, too.
	Key func(state any, payload json.RawMessage) (string, error)
}

// Cache caches the node's results, but for those that depend on an answer, write
// what isn't recorded, send tasks, or move the state of a subgraph that
// keeps it.
func Cache(p CachePolicy) DoOption {
	return policySetting(func(of *policy) {
		if of.cache = &p; p.TTL < 0 {
			of.mistake("use 0 to keep results for ever", "a cache policy with a TTL of %v", p.TTL)
		}
		if p.Store == nil {
			of.mistake("set CachePolicy.Store, for example to a *cache.Memory", "a cache policy without a store")
		}
	})
}

// NodeDefaults sets options that hold for every node of the graph, those added
// before included, unless the node has its own: [Retry], [Timeout], [IdleTimeout],
// [Cache] and [OnError]. Retry() and Timeout(0) make a node do without. Of several
// calls the last one holds, option by option. [WithCallbacks] doesn't override:
// callbacks of the defaults run around those of the node, and those of a call
// around those of later calls. [Tags] are added to the node's.
//
// Other options concern one node, and Compile refuses them here. Subgraphs don't
// inherit defaults: theirs are those of their own builders.
func (b *Builder[S]) NodeDefaults(opts ...NodeOption) *Builder[S] {
	b.made().nodeDefaults(opts)
	return b
}

func (d *draft) nodeDefaults(opts []NodeOption) {
	for _, o := range opts {
		if o == nil {
			d.problem("option", "", "remove it", "NodeDefaults has a nil option")
			continue
		}
		var spec plan.NodeSpec
		var n nodeConfig
		o.node(&spec, &n)
		if name := ofOneNode(&spec, &n); name != "" {
			d.problem("option", "", "give it to the node", "NodeDefaults with %s, which concerns one node", name)
		}
		for _, m := range n.mistakes {
			d.problem("option", "", m.fix, "NodeDefaults: %s", m.text)
		}
		if n.stateType != nil && n.stateType != d.state {
			d.problem(plan.BadEdge, "", fmt.Sprintf("make it for %v", d.state), "an option of NodeDefaults is for the state %v", n.stateType)
		}
		n.inherit(&d.defaults)
		d.defaults = n
	}
}

// ofOneNode names an option that can't hold for several nodes.
func ofOneNode(spec *plan.NodeSpec, n *nodeConfig) string {
	switch {
	case spec.ParentDestinations != nil:
		return "ParentDestinations"
	case spec.Destinations != nil || spec.Command:
		return "Destinations"
	case spec.Defer:
		return "Defer"
	case spec.Former != nil:
		return "Formerly"
	case n.inner != nil:
		return "Contains"
	case n.reads != nil:
		return "Reads"
	case n.local.First != nil:
		return "AskFirst"
	case n.label != "" || n.description != "":
		return "Describe"
	}
	return ""
}

// inherit takes what n doesn't have itself from the defaults d.
func (n *nodeConfig) inherit(d *nodeConfig) {
	if n.retries == nil {
		n.retries = d.retries
	}
	if !n.timed {
		n.timeout, n.timed = d.timeout, d.timed
	}
	if !n.idled {
		n.local.Idle, n.idled = d.local.Idle, d.idled
	}
	if n.cache == nil {
		n.cache = d.cache
	}
	if n.local.Recover == nil {
		n.local.Recover = d.local.Recover
	}
	own := n.local.Tags
	n.local.Tags = slices.Clone(d.local.Tags)
	Tags(own...).node(nil, n)
	n.local.Before = slices.Concat(d.local.Before, n.local.Before)
	n.local.After = slices.Concat(n.local.After, d.local.After)
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
		return cacheKey(graph, node, p.Version) + key, nil
	}}
}

// cacheKey returns what the keys of results begin with. Its parts can't be mistaken for
// one another.
func cacheKey(parts ...string) (key string) {
	for _, part := range parts {
		key += strings.NewReplacer("%", "%25", "/", "%2F").Replace(part) + "/"
	}
	return key
}

// ClearCache has nodes of the graph forget the results that their caches keep (see
// [Cache]), in all runs and processes that share these, and whatever the version. With
// no nodes it means all that have a cache. A node that has none is of no effect, and so
// is one of the same name in another graph; nodes of subgraphs are cleared by [Graph.Subgraph].
// Runs that are under way may keep results anew. A node that the graph doesn't have is
// an [UnknownNodeError], and nothing is cleared.
func (g *Graph[S]) ClearCache(ctx context.Context, nodes ...string) error {
	e, err := g.engine()
	if err != nil {
		return err
	}
	return e.clearCache(ctx, nodes)
}

func (e *engine) clearCache(ctx context.Context, nodes []string) error {
	p := e.prog.Plan
	if len(nodes) == 0 {
		nodes = p.Names()
	}
	places := make([]int, len(nodes))
	for i, name := range nodes {
		n, ok := p.Node(name)
		if !ok {
			return &UnknownNodeError{Node: name, Near: plan.Nearest(name, p.Names())}
		}
		places[i] = n
	}
	var errs []error
	for _, n := range places {
		if c := e.nodes[n].cache; c != nil {
			if err := c.Store.Clear(ctx, cacheKey(p.Name, p.Nodes[n].Name)); err != nil {
				errs = append(errs, fmt.Errorf("cache of node %q: %w", p.Nodes[n].Name, err))
			}
		}
	}
	return errors.Join(errs...)
}
