package graph_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/race"
)

// What a superstep and a task of a fan-out allocate is part of what they cost,
// and unlike time it can be tested. The limits leave room for what grows by and
// by: slices and maps.

// allocs returns what more of something allocates, each, apart from what a run
// allocates whatever it does.
func allocs(t *testing.T, few, many int, run func(n int)) float64 {
	t.Helper()
	run(many) // what is made once and kept
	a := testing.AllocsPerRun(5, func() { run(few) })
	b := testing.AllocsPerRun(5, func() { run(many) })
	return (b - a) / float64(many-few)
}

func TestASuperstepAllocatesLittle(t *testing.T) {
	b := graph.New[small]("ring")
	b.AddNode("a", func(_ context.Context, s *small) error { s.N++; return nil })
	b.AddNode("b", func(_ context.Context, s *small) error { s.N++; return nil })
	b.AddEdge(graph.Start, "a").AddEdge("a", "b").AddEdge("b", "a")
	for name, tc := range map[string]struct {
		opts  func() []graph.Option
		limit float64
	}{
		"without a store": {func() []graph.Option { return nil }, 0.5},
		"stored in memory": {func() []graph.Option {
			return []graph.Option{graph.WithCheckpointer(checkpoint.NewMemory())}
		}, 4.5},
	} {
		t.Run(name, func(t *testing.T) {
			got := allocs(t, 100, 1100, func(n int) {
				g := compile(t, b, tc.opts()...)
				_, err := g.Thread("t").Invoke(bg, g.Input(func(s *small) error {
					s.N = 1
					return nil
				}), graph.MaxSteps(n))
				wantErr[*graph.LimitError](t, err)
			})
			if got > tc.limit {
				t.Errorf("a superstep allocates %.2f times, want at most %.1f", got, tc.limit)
			}
		})
	}
}

// A router costs what it is called with: its context and its view of the state, for
// which room is made several at a time.
func TestASuperstepWithARouterAllocatesLittle(t *testing.T) {
	for name, tc := range map[string]struct {
		opts  func() []graph.Option
		limit float64
	}{
		"without a store": {func() []graph.Option { return nil }, 0.6},
		"stored in memory": {func() []graph.Option {
			return []graph.Option{graph.WithCheckpointer(checkpoint.NewMemory())}
		}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			got := allocs(t, 100, 1100, func(n int) {
				g := counting(t, n, tc.opts()...)
				must[*graph.Snapshot[tally]](t)(g.Thread("t").Invoke(bg, g.Input(func(s *tally) error {
					s.N = 0
					return nil
				})))
			})
			if got > tc.limit {
				t.Errorf("a superstep allocates %.2f times, want at most %.1f", got, tc.limit)
			}
		})
	}
}

func TestATaskOfAFanOutAllocatesLittle(t *testing.T) {
	n := 0
	b := graph.New[trail]("fan")
	work := graph.AddTask(b, "work", func(_ context.Context, s *trail, in int) error { s.Total.Add(in); return nil })
	b.AddCommandNode("split", func(context.Context, *trail) (graph.Command, error) {
		sends := make([]graph.Send, n)
		for i := range sends {
			sends[i] = work.Send(i)
		}
		return graph.Dispatch(sends...), nil
	})
	b.AddEdge(graph.Start, "split")
	for name, tc := range map[string]struct {
		opts  func() []graph.Option
		limit float64
	}{
		"without a store": {func() []graph.Option { return nil }, 6.5},
		"stored in memory": {func() []graph.Option {
			return []graph.Option{graph.WithCheckpointer(checkpoint.NewMemory())}
		}, 12}, // how many results are stored at a time varies
	} {
		t.Run(name, func(t *testing.T) {
			got := allocs(t, 500, 2500, func(sends int) {
				n = sends
				g := compile(t, b, tc.opts()...)
				if _, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })); err != nil {
					t.Fatal(err)
				}
			})
			if got > tc.limit {
				t.Errorf("a task allocates %.2f times, want at most %.1f", got, tc.limit)
			}
		})
	}
}

// allocatedBytes is allocs for bytes.
func allocatedBytes(t *testing.T, few, many int, run func(n int)) float64 {
	t.Helper()
	run(many)
	of := func(n int) float64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		run(n)
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc - before.TotalAlloc)
	}
	return (of(many) - of(few)) / float64(many-few)
}

// Copies of a schema graph's state share the fields that nobody wrote to.
func TestASuperstepOfASchemaGraphCopiesNoFieldThatIsNotWritten(t *testing.T) {
	step := func(fields int) float64 {
		s := guide()
		for i := range fields {
			s.AddField(fmt.Sprint("f", i), graph.FieldOf("x", nil))
		}
		left := 0
		g := compileSchema(t, graph.NewSchemaGraph("g", s).AddCommandNode("a", func(_ context.Context, s *graph.SchemaState) (graph.Command, error) {
			if left--; left <= 0 {
				return graph.EndRun(), graph.MapState{"counter": 1}.Into(s)
			}
			return graph.Goto("a"), graph.MapState{"counter": 1}.Into(s)
		}).SetEntryPoint("a"), graph.MaxSteps(1<<20))
		return allocatedBytes(t, 100, 1100, func(n int) {
			left = n
			must[*graph.Snapshot[graph.SchemaState]](t)(g.Invoke(bg, nil))
		})
	}
	few, many := step(1), step(201)
	if each := (many - few) / 200; each > 16 { // a field takes 48 bytes, a reference to it 8
		t.Errorf("a superstep allocates %.0f bytes with 200 more fields and %.0f without: %.1f each", many, few, each)
	}
}

// A run begins in the memory of one that is over.
func TestARunAllocatesLittle(t *testing.T) {
	builder, before := graph.New[tally]("chain"), graph.Start
	for i := range 10 {
		name := fmt.Sprint("node", i)
		builder.AddNode(name, add).AddEdge(before, name)
		before = name
	}
	chain, stored, thread := compile(t, builder), counting(t, 10, graph.WithCheckpointer(checkpoint.NewMemory())), 0
	for name, tc := range map[string]struct {
		run           func()
		allocs, bytes float64
	}{
		"a chain of ten":                       {func() { runTally(t, chain, 10, "") }, 16, 6500},
		"ten stored steps, each with a router": {func() { thread++; runTally(t, stored, 10, strconv.Itoa(thread)) }, 90, 19500},
	} {
		if race.Enabled { // then pools lose a part of what they are given
			tc.allocs += 5
		}
		t.Run(name, func(t *testing.T) {
			runs := func(n int) {
				for range n {
					tc.run()
				}
			}
			if got := allocs(t, 20, 120, runs); got > tc.allocs {
				t.Errorf("a run allocates %.1f times, want at most %.0f", got, tc.allocs)
			}
			if got := allocatedBytes(t, 20, 120, runs); got > tc.bytes {
				t.Errorf("a run allocates %.0f bytes, want at most %.0f", got, tc.bytes)
			}
		})
	}
}

// A map that was written to and begins a run, or a subgraph, takes in what was written, and not all that it
// has.
func TestWhatAMapTakesInDoesNotCostByItsSize(t *testing.T) {
	var m graph.Map[int, int]
	for i := range 10_000 {
		m.Put(i, i)
	}
	m.Merger().Bind()
	if n := testing.AllocsPerRun(20, func() { m.Put(5, m.Len()); m.Delete(7); m.Merger().Bind() }); n > 60 {
		t.Errorf("two writes to 10,000 keys make %.0f allocations", n)
	}
	if v, ok := m.Get(5); !ok || v < 9_999 || m.Len() != 9_999 {
		t.Errorf("5 is %d, of %d keys", v, m.Len())
	}
}

// What is left of a run doesn't meet the next one in its memory.
func TestWhatIsLeftOfARunSeesNothingOfTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		var kept context.Context
		g := compile(t, graph.New[tally]("g").AddNode("a", func(ctx context.Context, s *tally) error {
			if s.N++; s.N > 100 { // it ignores its context
				kept = ctx
				<-goOn
			}
			return nil
		}).AddEdge(graph.Start, "a"), graph.StepTimeout(time.Millisecond))
		late := func(s *tally) error { s.N = 100; return nil }
		if _, err := g.Invoke(bg, late); !errors.As(err, new(*graph.TimeoutError)) {
			t.Fatalf("a step took longer than it may: %v", err)
		}
		for range 100 {
			if _, err := g.Invoke(bg, nil); err != nil {
				t.Fatal(err)
			}
		}
		close(goOn)
		synctest.Wait() // what runs it still has to see what it wrote
		if info := graph.Info(kept); info.Node != "a" || info.Step != 1 {
			t.Error(info)
		}
	})
}
