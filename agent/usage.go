package agent

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/superstep-dev/superstep/agent/calls"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
)

// Usage is what models have used, by the place where they were asked: a list in
// the order of the places, with one element for each place and model. In a
// [State] it is that of the whole thread, agents inside of it included.
//
//	snap.State.Usage.Get().Total()
//
// It has the calls that were committed and whose provider says what they used: those of
// agents, and what middleware, guards, retrievers, tools, summaries and servers of MCP ask on
// their behalf by model.Generate, or say with model.Count or [Spend]. It doesn't have those
// of a node or an agent that failed, nor those of nodes that aren't of this package, unless
// they are [Counted]; model.Budgeted counts every call of a model, while the program runs.
type Usage []Used

// Used is what a model has used in one place.
type Used struct {
	// Path leads to the node that asked: the nodes down to it, and the names of
	// agents that are tools, joined by "/". That of a ReAct agent is "agent"; of
	// one in a node "poet", "poet/agent"; of one that is the tool "poet" of a node
	// "tools", "tools/poet/agent".
	Path string `json:"path"`

	Model string `json:"model,omitempty"` // as its provider names it; may be empty
	Calls int    `json:"calls"`
	chat.Usage
}

// UsedBy is what an answer has used, for [Spend] and for nodes that ask a model by
// themselves:
//
//	s.Usage.Add(agent.UsedBy("classify", resp))
//
// It is empty if the provider doesn't say, and for an answer that comes from a
// cache.
func UsedBy(path string, resp *model.Response) Usage {
	if resp == nil || resp.Cached || resp.Message.Usage == nil || *resp.Message.Usage == (chat.Usage{}) {
		return nil
	}
	return Usage{{Path: path, Model: resp.Message.Model, Calls: 1, Usage: *resp.Message.Usage}}
}

// Total is the sum of all tokens.
func (u Usage) Total() chat.Usage {
	var sum chat.Usage
	for _, x := range u {
		sum = sum.Add(x.Usage)
	}
	return sum
}

// Calls is how many calls of models there were.
func (u Usage) Calls() int {
	n := 0
	for _, x := range u {
		n += x.Calls
	}
	return n
}

// Under returns what was used at a path and below it.
func (u Usage) Under(path string) Usage {
	var out Usage
	for _, x := range u {
		if x.Path == path || strings.HasPrefix(x.Path, path+"/") {
			out = append(out, x)
		}
	}
	return out
}

// Since returns what was used after an earlier state of the thread had before:
// that of one run, for example.
func (u Usage) Since(before Usage) Usage {
	negative := slices.Clone(before)
	for i, x := range negative {
		negative[i].Calls = -x.Calls
		negative[i].Usage = chat.Usage{Input: -x.Input, Output: -x.Output, CacheRead: -x.CacheRead, CacheWrite: -x.CacheWrite, Reasoning: -x.Reasoning}
	}
	return slices.DeleteFunc(u.plus(negative), func(x Used) bool { return x.Calls == 0 && x.Usage == chat.Usage{} })
}

// PriceError says that a model has no price.
type PriceError struct {
	Model string   // as its provider names it
	Have  []string // models that have one
}

func (e *PriceError) Error() string {
	return fmt.Sprintf("agent: no price for the model %q: prices are given for %q, by the names that providers give in their answers", e.Model, e.Have)
}

// Cost is what it costs, given the prices of all models in it, by the names in
// [Used.Model]. A model without a price is a [*PriceError].
func (u Usage) Cost(prices map[string]model.Prices) (float64, error) {
	var sum float64
	for _, x := range u {
		p, ok := prices[x.Model]
		if !ok {
			return 0, &PriceError{Model: x.Model, Have: slices.Sorted(maps.Keys(prices))}
		}
		sum += p.Cost(x.Usage)
	}
	return sum, nil
}

func (u Usage) String() string {
	var b strings.Builder
	for _, x := range u {
		fmt.Fprintf(&b, "%s %s: %d calls, %d tokens in, %d out\n", x.Path, cmp.Or(x.Model, "(unnamed)"), x.Calls, x.Input, x.Output)
	}
	return b.String()
}

// below returns u as that of what runs at a path.
func (u Usage) below(path string) Usage {
	out := slices.Clone(u)
	for i := range out {
		out[i].Path = strings.TrimSuffix(path+"/"+out[i].Path, "/")
	}
	return out
}

// plus returns the sum, without altering either.
func (u Usage) plus(v Usage) Usage {
	out := slices.Clone(u)
	for _, x := range v {
		i, found := slices.BinarySearchFunc(out, x, func(a, b Used) int {
			return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Model, b.Model))
		})
		if !found {
			out = slices.Insert(out, i, x)
			continue
		}
		out[i].Calls += x.Calls
		out[i].Usage = out[i].Usage.Add(x.Usage)
	}
	return out
}

// sumUsage is the reducer of usages.
type sumUsage struct{}

// Reduce adds up.
func (sumUsage) Reduce(current, update Usage) Usage { return current.plus(update) }

// UsageField is a field of a state that adds up what models use.
type UsageField = graph.Reduced[Usage, sumUsage]

// spend adds to a field, which stays unset if there is nothing to add.
func spend(f *UsageField, u Usage) {
	if len(u) > 0 {
		f.Add(Usage(nil).plus(u)) // in order: the first one is stored as it is
	}
}

// Spend says what was used of models by something that a node of this package called, given
// the context of that call: a tool, middleware, a retriever. It is counted for the node, and
// recorded with a tool's result. It reports whether there is such a node. It may be called
// from several goroutines, before the call returns.
func Spend(ctx context.Context, u Usage) bool {
	l, ok := ctx.Value(ledgerKey{}).(*ledger)
	if ok {
		l.add(u)
	}
	return ok
}

// Metered returns a context for which the answers of models are counted apart, and what they
// have used: what is asked with it doesn't count for the node, unless it is given to [Spend].
func Metered(ctx context.Context) (context.Context, func() Usage) {
	l := new(ledger)
	ctx = context.WithValue(calls.Recording(ctx), ledgerKey{}, l)
	return model.Counting(ctx, func(place string, r *model.Response) { l.add(UsedBy(place, r)) }), l.spent
}

// Once is [graph.Once] for what asks models: what they used is recorded with the result, and
// counted for the node, at the place below it, also when that runs again.
func Once[T any](ctx context.Context, place, name string, f func(ctx context.Context, key string) (T, error)) (T, error) {
	type record struct {
		Value T
		Used  Usage `json:",omitempty"`
	}
	r, err := graph.Once(ctx, name, func(ctx context.Context, key string) (record, error) {
		ctx, used := Metered(ctx)
		v, err := f(ctx, key)
		return record{v, used()}, err
	})
	if err == nil {
		Spend(ctx, r.Used.below(place))
	}
	return r.Value, err
}

// Counted returns the function of a node that asks models by other means than this package,
// such as with model.Generate or a retriever, so that what they use is in the Usage of the
// state when the node succeeds.
func Counted[S any, P Stateful[S]](f func(ctx context.Context, s *S) error) func(ctx context.Context, s *S) error {
	return func(ctx context.Context, s *S) error {
		_, err := counted(ctx, func() *UsageField { return &P(s).AgentState().Usage }, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx, s) })
		return err
	}
}

// counted calls f for a node and adds what it used to a field.
func counted[R any](ctx context.Context, field func() *UsageField, f func(ctx context.Context) (R, error)) (R, error) {
	ctx, used := Metered(ctx)
	r, err := f(ctx)
	if err == nil {
		spend(field(), used().below(graph.Info(ctx).Node))
	}
	return r, err
}

type ledgerKey struct{}

// ledger collects what a node, or a call of a tool, uses.
type ledger struct {
	mu   sync.Mutex
	used Usage
}

func (l *ledger) add(u Usage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used = l.used.plus(u)
}

func (l *ledger) spent() Usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.used
}
