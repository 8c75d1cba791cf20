package graph_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

func TestW6OnceIsNotRepeatedAfterAQuestion(t *testing.T) { // SONI-57
	store := checkpoint.NewMemory()
	ran := &calls{}
	build := func() *graph.Graph[trail] {
		b := graph.New[trail]("g")
		b.AddNode("a", func(ctx context.Context, s *trail) error {
			ran.add("node")
			price, err := graph.Once(ctx, "price", func(_ context.Context, key string) (int, error) {
				ran.add("price " + key)
				return 40 + ran.of("node"), nil
			})
			if err != nil {
				return err
			}
			ok, err := graph.Interrupt[bool](ctx, "buy", price)
			if err != nil {
				return err
			}
			s.N = price
			s.Note = fmt.Sprint(ok)
			return nil
		})
		b.AddEdge(graph.Start, "a")
		return compile(t, b, graph.WithCheckpointer(store))
	}
	snap := must[*graph.Snapshot[trail]](t)(build().Thread("t").Invoke(bg, graph.Requests[trail]{}.Input(func(*trail) error { return nil })))
	equal(t, "asked about", fmt.Sprint(snap.Interrupts[0].Value), "41")
	snap = must[*graph.Snapshot[trail]](t)(build().Thread("t").Invoke(bg, graph.Requests[trail]{}.Answer(true)))
	equal(t, "price", snap.State.N, 41)
	equal(t, "calls", len(ran.all()), 3)
}

func TestOnceKeepsItsKeyOverRetriesAndRuns(t *testing.T) {
	var keys []string
	fail := 3
	b := graph.New[trail]("g")
	b.AddNode("a", func(ctx context.Context, s *trail) error {
		_, err := graph.Once(ctx, "pay", func(_ context.Context, key string) (string, error) {
			keys = append(keys, key)
			if fail--; fail > 0 {
				return "", errBoom
			}
			return "ok", nil
		})
		return err
	}, graph.Retry(graph.RetryPolicy{MaxAttempts: 2, Initial: 1}))
	b.AddNode("b", func(ctx context.Context, s *trail) error {
		_, err := graph.Once(ctx, "pay", func(_ context.Context, key string) (string, error) {
			keys = append(keys, key)
			return "ok", nil
		})
		return err
	})
	b.AddEdge(graph.Start, "a").AddEdge("a", "b")
	g := compile(t, b, stored()...)
	if _, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })); !errors.Is(err, errBoom) {
		t.Fatal(err)
	}
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
	equal(t, "calls", len(keys), 4)
	if keys[0] != keys[1] || keys[1] != keys[2] || keys[2] == keys[3] || keys[0] == "" {
		t.Errorf("keys: %q", keys)
	}
}

func TestOnceWithOneNameIsSharedByConcurrentCallers(t *testing.T) {
	ran := &calls{}
	b := graph.New[trail]("g")
	b.AddNode("a", func(ctx context.Context, s *trail) error {
		var wg sync.WaitGroup
		got := make([]int, 20)
		for i := range got {
			wg.Go(func() {
				got[i], _ = graph.Once(ctx, "shared", func(context.Context, string) (int, error) { return ran.add("call") + 6, nil })
			})
		}
		for i := range 5 {
			wg.Go(func() {
				_, _ = graph.Once(ctx, fmt.Sprint("own", i), func(context.Context, string) (int, error) { return ran.add("own"), nil })
			})
		}
		wg.Wait()
		for _, v := range got {
			equal(t, "result", v, 7)
		}
		return nil
	})
	b.AddEdge(graph.Start, "a")
	for _, opts := range [][]graph.Option{nil, stored()} {
		ran.in = nil
		must[*graph.Snapshot[trail]](t)(compile(t, b, opts...).Thread("t").Invoke(bg, graph.Requests[trail]{}.Input(func(*trail) error { return nil })))
		equal(t, "calls", ran.of("call"), 1)
		equal(t, "own calls", ran.of("own"), 5)
	}
}

func TestNothingIsAskedInsideOnce(t *testing.T) {
	b := graph.New[trail]("g")
	b.AddNode("a", func(ctx context.Context, s *trail) error {
		_, err := graph.Once(ctx, "x", func(ctx context.Context, _ string) (int, error) {
			return graph.Interrupt[int](ctx, "k", nil)
		})
		return err
	})
	b.AddEdge(graph.Start, "a")
	_, err := compile(t, b, stored()...).Thread("t").Invoke(bg, graph.Requests[trail]{}.Input(func(*trail) error { return nil }))
	if !errors.Is(err, graph.ErrNoAsking) {
		t.Fatal(err)
	}
}

func TestOnceAfterAnOpenQuestionDoesNotRun(t *testing.T) {
	ran := &calls{}
	b := graph.New[trail]("g")
	b.AddNode("a", func(ctx context.Context, s *trail) error {
		_, _ = graph.Interrupt[int](ctx, "k", nil)
		_, err := graph.Once(ctx, "x", func(context.Context, string) (int, error) { return ran.add("x"), nil })
		return err
	})
	b.AddEdge(graph.Start, "a")
	g := compile(t, b, stored()...)
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	equal(t, "calls", ran.of("x"), 0)
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(1)))
	equal(t, "calls", ran.of("x"), 1)
}

func TestAPanicInOnceIsTheNodes(t *testing.T) {
	b := graph.New[trail]("g")
	b.AddNode("a", func(ctx context.Context, s *trail) error {
		_, err := graph.Once(ctx, "x", func(context.Context, string) (int, error) { panic("in once") })
		return err
	})
	b.AddEdge(graph.Start, "a")
	_, err := compile(t, b, stored()...).Thread("t").Invoke(bg, graph.Requests[trail]{}.Input(func(*trail) error { return nil }))
	wantErr[*graph.PanicError](t, err)
}

func TestOnceOfAnAbandonedSuperstepIsNotUsedAgain(t *testing.T) {
	ran := &calls{}
	b := graph.New[trail]("g")
	b.AddNode("a", func(ctx context.Context, s *trail) error {
		n, err := graph.Once(ctx, "n", func(context.Context, string) (int, error) { return ran.add("n"), nil })
		if err != nil {
			return err
		}
		s.N = n
		_, err = graph.Interrupt[bool](ctx, "q", n)
		return err
	})
	b.AddEdge(graph.Start, "a")
	g := compile(t, b, stored()...)
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Restart(func(*trail) error { return nil })))
	equal(t, "asked", snap.Interrupts[0].Value.(float64), 2)
}

// Code that a node runs several times has its own names in each scope.
func TestScopesTellNamesApart(t *testing.T) {
	inner := graph.New[toolState]("inner").AddNode("n", func(_ context.Context, s *toolState) error { s.N++; return nil }).AddEdge(graph.Start, "n").MustCompile()
	effects := map[string]int{}
	part := func(ctx context.Context, name string) (string, error) {
		ctx = graph.Scope(ctx, name)
		once, err := graph.Once(ctx, "effect", func(context.Context, string) (string, error) { effects[name]++; return name, nil })
		if err != nil {
			return "", err
		}
		if _, err := graph.Call(ctx, "call", inner, func(s *toolState) error {
			s.N = 1
			return nil
		}); err != nil {
			return "", err
		}
		keyed, err := graph.Interrupt[string](ctx, "k", "keyed "+name)
		if err != nil {
			return "", err
		}
		first, err := graph.Interrupt[string](ctx, "", "first "+name)
		return once + " " + keyed + " " + first, err
	}
	var got []string
	g := graph.New[toolState]("g").AddNode("n", func(ctx context.Context, _ *toolState) error {
		got = nil
		for _, name := range []string{"a", "b"} {
			text, err := part(ctx, name)
			if err != nil {
				return err
			}
			got = append(got, text)
		}
		return nil
	}).AddEdge(graph.Start, "n").MustCompile(graph.WithCheckpointer(checkpoint.NewMemory()))
	snap, err := g.Thread("t").Invoke(t.Context(), g.Input(func(*toolState) error { return nil }))
	var asked []string
	for err == nil && !snap.Done() {
		asked = append(asked, snap.Interrupts[0].Value.(string))
		snap, err = g.Thread("t").Invoke(t.Context(), g.Answer("re: "+snap.Interrupts[0].Value.(string)))
	}
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"keyed a", "first a", "keyed b", "first b"}; !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
	if want := []string{"a re: keyed a re: first a", "b re: keyed b re: first b"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if effects["a"] != 1 || effects["b"] != 1 {
		t.Errorf("effects %v", effects)
	}
}
