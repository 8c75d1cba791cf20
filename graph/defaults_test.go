package graph_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/cache"
	"github.com/superstep-dev/superstep/graph"
)

func TestANodesOwnPoliciesOverrideTheDefaults(t *testing.T) {
	ran := &calls{}
	fails := func(name string) func(context.Context, *trail) error {
		return func(context.Context, *trail) error { ran.add(name); return errBoom }
	}
	handler := func(who string) graph.NodeOption {
		return graph.OnError(func(_ context.Context, s *trail, err *graph.NodeError) (graph.Command, error) {
			s.Ran.Add(who + " for " + err.Node)
			return graph.Command{}, nil
		})
	}
	b := graph.New[trail]("g")
	b.AddNode("early", fails("early"))
	b.NodeDefaults(graph.Retry(graph.RetryPolicy{MaxAttempts: 5, Initial: 1}), handler("first"))
	b.NodeDefaults(graph.Retry(graph.RetryPolicy{MaxAttempts: 2, Initial: 1})) // the handler stays
	b.AddNode("late", fails("late"))
	b.AddNode("own", fails("own"), graph.Retry(graph.RetryPolicy{MaxAttempts: 3, Initial: 1}), handler("own"))
	b.AddNode("once", fails("once"), graph.Retry())
	b.AddSequence(graph.Start, "early", "late", "own", "once")
	snap := must[*graph.Snapshot[trail]](t)(compile(t, b).Invoke(bg, nil))
	equal(t, "handlers", snap.State.ran(), "first for early first for late own for own first for once")
	for name, want := range map[string]int{"early": 2, "late": 2, "own": 3, "once": 1} {
		equal(t, name, ran.of(name), want)
	}
}

func TestADefaultTimeoutHoldsUnlessTheNodeHasItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(ctx context.Context, s *trail) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Minute):
				s.N++
				return nil
			}
		}
		for _, tt := range []struct {
			name    string
			def     graph.NodeOption
			own     []graph.NodeOption
			expires bool
		}{
			{"the default", graph.Timeout(time.Second), nil, true},
			{"the idle default", graph.IdleTimeout(time.Second), nil, true},
			{"a longer one", graph.Timeout(time.Second), []graph.NodeOption{graph.Timeout(time.Hour)}, false},
			{"none", graph.Timeout(time.Second), []graph.NodeOption{graph.Timeout(0)}, false},
			{"no idle one", graph.IdleTimeout(time.Second), []graph.NodeOption{graph.IdleTimeout(0)}, false},
		} {
			b := one(slow, tt.own...).NodeDefaults(tt.def)
			_, err := compile(t, b).Invoke(bg, nil)
			if _, ok := errors.AsType[*graph.TimeoutError](err); ok != tt.expires {
				t.Errorf("%s: %v", tt.name, err)
			}
		}
	})
}

func TestADefaultCacheIsOneOfEachNode(t *testing.T) {
	ran := &calls{}
	b := graph.New[trail]("g").NodeDefaults(graph.Cache(graph.CachePolicy{Store: &cache.Memory{}}))
	for _, name := range []string{"a", "b"} {
		b.AddNode(name, func(_ context.Context, s *trail) error { ran.add(name); s.Ran.Add(name); return nil })
	}
	b.AddSequence(graph.Start, "a", "b")
	g := compile(t, b)
	for range 2 {
		equal(t, "ran", must[*graph.Snapshot[trail]](t)(g.Invoke(bg, nil)).State.ran(), "a b")
	}
	equal(t, "a", ran.of("a"), 1)
	equal(t, "b", ran.of("b"), 1)
}

func TestDefaultsAreNotInheritedBySubgraphs(t *testing.T) {
	ran := &calls{}
	child := compile(t, one(func(context.Context, *trail) error { ran.add("inside"); return errBoom }))
	b := graph.New[trail]("outer").NodeDefaults(graph.OnError(func(_ context.Context, s *trail, err *graph.NodeError) (graph.Command, error) {
		s.Note = strings.Join(append(err.Path, err.Node), "/")
		return graph.Command{}, nil
	}))
	graph.AddSubgraph(b, "sub", child, graph.Mapping[trail, trail]{})
	b.AddEdge(graph.Start, "sub")
	snap := must[*graph.Snapshot[trail]](t)(compile(t, b).Invoke(bg, nil))
	equal(t, "handled", snap.State.Note, "sub")
	equal(t, "ran", ran.of("inside"), 1)
}

func TestDefaultsThatConcernOneNodeAreRefused(t *testing.T) {
	child := compile(t, one(func(context.Context, *trail) error { return nil }))
	for name, o := range map[string]graph.NodeOption{
		"Destinations": graph.Destinations("n"), "ParentDestinations": graph.ParentDestinations("n"), "Defer": graph.Defer(),
		"Formerly": graph.Formerly("m"), "Describe": graph.Describe("N", ""), "Contains": graph.Contains(child), "a nil option": nil,
		"AskFirst": graph.AskFirst[trail, bool]("ok", func(*trail) (any, []graph.AskOption, bool) { return nil, nil, true }),
		"state":    graph.WithCallbacks(graph.Callbacks[form]{}), "negative number": graph.Retry(graph.RetryPolicy{MaxAttempts: -1}),
	} {
		b := one(func(context.Context, *trail) error { return nil }).NodeDefaults(o)
		_, err := b.Compile()
		problems := wantErr[*graph.CompileError](t, err).Problems
		if len(problems) != 1 || !strings.Contains(problems[0].Text, name) || !strings.Contains(problems[0].Text, "NodeDefaults") {
			t.Errorf("%s: %v", name, problems)
		}
	}
}
