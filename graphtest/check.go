package graphtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// outcome is what a run came to.
type outcome struct {
	state, events string
}

// try compiles a graph anew and drives it to its end on a thread in store.
func try[S any](ctx context.Context, b *graph.Builder[S], input func(s *S) error, script Script, store checkpoint.Store, recover func(error) bool, opts []graph.ThreadOption) (outcome, error) {
	g, err := b.Compile()
	if err != nil {
		return outcome{}, err
	}
	seen := &CollectingObserver{}
	opts = append([]graph.ThreadOption{graph.Observe(seen), graph.CheckMutations()}, opts...)
	opts = append(opts, graph.WithCheckpointer(store))
	d := driver[S]{t: g.Thread("graphtest", opts...), input: started(input), script: script, recover: recover}
	snap, err := d.run(ctx)
	if err == nil {
		err = d.leftOver()
	}
	if err != nil {
		return outcome{}, err
	}
	data, err := json.Marshal(snap.State)
	if err != nil {
		return outcome{}, err
	}
	return outcome{string(data), Format(seen.Events())}, nil
}

// Run compiles a builder and drives it to its end on a fresh thread in memory,
// with [graph.CheckMutations]. A nil input writes nothing. The options are for
// the run; checkpointer and thread are the function's own.
func Run[S any](tb testing.TB, b *graph.Builder[S], input func(s *S) error, script Script, opts ...graph.ThreadOption) *graph.Snapshot[S] {
	tb.Helper()
	g, err := b.Compile()
	if err != nil {
		tb.Fatalf("graphtest: %v", err)
	}
	opts = append([]graph.ThreadOption{graph.CheckMutations()}, opts...)
	opts = append(opts, graph.WithCheckpointer(checkpoint.NewMemory()))
	return Drive(tb, g.Thread("graphtest", opts...), started(input), script)
}

// started returns an input that starts a thread.
func started[S any](input func(s *S) error) func(s *S) error {
	if input == nil {
		return func(*S) error { return nil }
	}
	return input
}

// CheckDeterministic runs a graph n times and fails the test if two runs end
// with different states or differ in what they do on the way: nodes, what they
// write, questions and checkpoints, in their order.
func CheckDeterministic[S any](tb testing.TB, n int, build func() *graph.Builder[S], input func(s *S) error, script Script, opts ...graph.ThreadOption) {
	tb.Helper()
	var first outcome
	for i := range max(n, 2) {
		out, err := try(tb.Context(), build(), input, script, checkpoint.NewMemory(), nil, opts)
		switch {
		case err != nil:
			tb.Fatalf("graphtest: run %d: %v", i+1, err)
		case i == 0:
			first = out
		case out.state != first.state:
			tb.Fatalf("graphtest: runs 1 and %d end differently: %s", i+1, fields(first.state, out.state))
		case out.events != first.events:
			tb.Fatalf("graphtest: runs 1 and %d take different ways: %s", i+1, difference(first.events, out.events))
		}
	}
}

// CheckIdempotent runs a graph in such a way that each node of the builder runs
// a second time, from its records, after it has succeeded: as if the process had
// died before its result was stored. Answers are given, and what [graph.Once]
// has recorded is not done again. The test fails if a node then writes something
// else, or if the graph ends in another state than without.
//
// A node that fails the check reads a clock, a random number, a service or a
// variable outside of Once. Nodes of subgraphs are checked where their own
// builders are.
func CheckIdempotent[S any](tb testing.TB, build func() *graph.Builder[S], input func(s *S) error, script Script, opts ...graph.ThreadOption) {
	tb.Helper()
	once, err := try(tb.Context(), build(), input, script, checkpoint.NewMemory(), nil, opts)
	if err != nil {
		tb.Fatalf("graphtest: %v", err)
	}
	var mu sync.Mutex
	wrote := map[string][]byte{} // by task
	reported := false
	b := build()
	b.NodeDefaults(graph.WithCallbacks(graph.Callbacks[S]{After: func(ctx context.Context, s *S) error {
		info := graph.Info(ctx)
		data, err := json.Marshal(s)
		if err != nil {
			return err
		}
		mu.Lock()
		before, again := wrote[info.Task]
		wrote[info.Task] = data
		if again && !bytes.Equal(before, data) {
			tb.Errorf("graphtest: node %q comes to something else when it runs again: %s", info.Node, fields(string(before), string(data)))
			reported = true
		}
		mu.Unlock()
		if again {
			return nil
		}
		// A question makes the engine drop what the node wrote and run it
		// again once the question is answered.
		_, err = graph.Interrupt[bool](ctx, againKey, nil)
		return err
	}}))
	twice, err := try(tb.Context(), b, input, script, checkpoint.NewMemory(), nil, opts)
	switch {
	case err != nil:
		tb.Fatalf("graphtest: with each node run twice: %v", err)
	case !reported && twice.state != once.state:
		tb.Errorf("graphtest: the graph ends differently when each node runs twice: %s", fields(once.state, twice.state))
	}
}

// againKey is the key of the question that makes a node run again. It is always
// answered.
const againKey = "graphtest: run again"

// CheckRecovery crashes a graph at each of its writes to the store, once before
// the write took effect and once after it, lets it go on from what is stored,
// and fails the test if it then ends in another state than without a crash, or
// cannot go on.
func CheckRecovery[S any](tb testing.TB, build func() *graph.Builder[S], input func(s *S) error, script Script, opts ...graph.ThreadOption) {
	tb.Helper()
	whole, err := try(tb.Context(), build(), input, script, checkpoint.NewMemory(), nil, opts)
	if err != nil {
		tb.Fatalf("graphtest: %v", err)
	}
	for write := 1; ; write++ {
		for _, after := range []bool{false, true} {
			store := NewStore(checkpoint.NewMemory(), StoreFault{Write: write, Effect: Crash, After: after})
			out, err := try(tb.Context(), build(), input, script, store, func(err error) bool {
				crashed := errors.Is(err, ErrCrashed)
				store.Restart()
				return crashed
			}, opts)
			when := "before"
			if after {
				when = "after"
			}
			switch {
			case err != nil:
				tb.Fatalf("graphtest: crashed %s write %d: %v", when, write, err)
			case out.state != whole.state:
				tb.Fatalf("graphtest: crashed %s write %d, the graph ends differently: %s", when, write, fields(whole.state, out.state))
			case store.Fired() == 0: // it has fewer writes
				return
			}
		}
	}
}

// fields tells in which fields two states in JSON differ.
func fields(want, got string) string {
	var w, g map[string]json.RawMessage
	if json.Unmarshal([]byte(want), &w) != nil || json.Unmarshal([]byte(got), &g) != nil {
		return fmt.Sprintf("%s, then %s", want, got)
	}
	var parts []string
	for _, f := range slices.Sorted(maps.Keys(w)) {
		if !bytes.Equal(w[f], g[f]) {
			parts = append(parts, fmt.Sprintf("field %q is %s, then %s", f, w[f], g[f]))
		}
	}
	return strings.Join(parts, "; ")
}
