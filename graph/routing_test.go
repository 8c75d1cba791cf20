package graph_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/draw"
	"github.com/superstep-dev/superstep/graph"
)

func run(t testing.TB, b *graph.Builder[trail], opts ...graph.RunOption) *graph.Snapshot[trail] {
	t.Helper()
	return must[*graph.Snapshot[trail]](t)(compile(t, b).Invoke(bg, nil, opts...))
}

func TestEntryPointAndStartEdgeAreTheSame(t *testing.T) { // W7-05, TRPC-03
	one := visits(graph.New[trail]("g"), "a", "b")
	one.SetEntryPoint("a").AddEdge("a", "b").SetFinishPoint("b")
	two := visits(graph.New[trail]("g"), "a", "b")
	two.AddEdge(graph.Start, "a").AddEdge("a", "b").AddEdge("b", graph.End)
	equal(t, "drawing", draw.Mermaid(compile(t, one).Drawing(0), nil), draw.Mermaid(compile(t, two).Drawing(0), nil))
	equal(t, "ran", run(t, one).State.ran(), run(t, two).State.ran())
	equal(t, "constants", graph.Start+" "+graph.End, "__start__ __end__")
	one.AddEdge(graph.Start, "b")
	_, err := one.Compile()
	wantErr[*graph.CompileError](t, err)
}

func TestParallelEdgesRunTogether(t *testing.T) { // TRPC-27
	b := graph.New[trail]("g")
	var both sync.WaitGroup
	both.Add(2)
	for _, n := range []string{"x", "y"} {
		b.AddNode(n, func(_ context.Context, s *trail) error {
			both.Done()
			both.Wait() // a deadlock if they ran one after the other
			s.Ran.Add(n)
			return nil
		})
		b.AddEdge(graph.Start, n)
	}
	equal(t, "ran", run(t, b).State.ran(), "x y")
}

func TestADiamondJoinsOnceAndMergesInPlanOrder(t *testing.T) { // TRPC-33
	for i := range 200 {
		b := graph.New[trail]("g")
		for k, n := range []string{"left", "right"} {
			b.AddNode(n, func(_ context.Context, s *trail) error {
				if (i+k)%2 == 0 {
					time.Sleep(time.Duration(i%3) * 10 * time.Microsecond)
				}
				s.Ran.Add(n)
				s.Total.Add(1)
				return nil
			})
		}
		visits(b, "top", "bottom")
		b.AddEdge(graph.Start, "top").AddEdge("top", "left").AddEdge("top", "right").AddEdge("left", "bottom").AddEdge("right", "bottom")
		snap := run(t, b)
		equal(t, "ran", snap.State.ran(), "top left right bottom")
		equal(t, "total", snap.State.Total.Get(), 2)
	}
}

func TestEdgesOfUnequalLengthRunTheirTargetTwiceAndJoinsOnce(t *testing.T) {
	build := func(join bool) *graph.Builder[trail] {
		b := visits(graph.New[trail]("g"), "a", "long1", "long2", "c")
		b.AddEdge(graph.Start, "a").AddEdge(graph.Start, "long1").AddEdge("long1", "long2")
		if join {
			b.AddJoin([]string{"a", "long2"}, "c")
		} else {
			b.AddEdge("a", "c").AddEdge("long2", "c")
		}
		return b
	}
	equal(t, "edges", run(t, build(false)).State.ran(), "a long1 long2 c c")
	equal(t, "join", run(t, build(true)).State.ran(), "a long1 long2 c")
}

func TestAJoinInALoopWaitsForAllAgain(t *testing.T) {
	b := visits(graph.New[trail]("g"), "x", "y", "both")
	b.AddEdge(graph.Start, "x").AddEdge(graph.Start, "y").AddJoin([]string{"x", "y"}, "both")
	b.AddConditionalEdges("both", func(_ context.Context, s *trail) (graph.Command, error) {
		if s.Ran.Len() > 5 {
			return graph.Goto(graph.End), nil
		}
		return graph.Goto("x", "y"), nil
	}, "x", "y", graph.End)
	equal(t, "ran", run(t, b).State.ran(), "x y both x y both")
}

func TestADeferredNodeRunsWhenTheRunWouldEnd(t *testing.T) {
	b := visits(graph.New[trail]("g"), "a", "b", "c")
	b.AddNode("last", visit("last"), graph.Defer())
	b.AddEdge(graph.Start, "a").AddEdge("a", "last").AddSequence("a", "b", "c").AddEdge("c", "last")
	equal(t, "ran", run(t, b).State.ran(), "a b c last")
}

func TestRouterDecidesOverTheStaticEdge(t *testing.T) { // W7-13
	b := visits(graph.New[trail]("g"), "a", "static", "chosen")
	b.AddEdge(graph.Start, "a").AddEdge("a", "static")
	b.AddRoutes("a", func(context.Context, *trail) (string, error) { return "yes", nil }, map[string]string{"yes": "chosen", "no": "static"})
	equal(t, "ran", run(t, b).State.ran(), "a chosen")
}

func TestRouterNamingNodesDirectly(t *testing.T) { // W7-12, W7-11, SYN-12
	b := visits(graph.New[trail]("g"), "a", "approve", "reject")
	b.AddEdge(graph.Start, "a")
	b.AddConditionalEdges("a", func(context.Context, *trail) (graph.Command, error) { return graph.Goto("approve"), nil }, "approve", "reject")
	equal(t, "ran", run(t, b).State.ran(), "a approve")
}

func TestUndeclaredDestinationOfARouter(t *testing.T) {
	b := visits(graph.New[trail]("g"), "a", "b", "c")
	b.AddEdge(graph.Start, "a").AddEdge("b", "c")
	b.AddConditionalEdges("a", func(context.Context, *trail) (graph.Command, error) { return graph.Goto("c"), nil }, "b")
	_, err := compile(t, b).Invoke(bg, nil)
	e := wantErr[*graph.InvalidEdgeError](t, err)
	equalSlice(t, "allowed", e.Allowed, []string{"b"})
}

func TestACommandReplacesEdgesAndRouters(t *testing.T) { // SYN-28, SYN-29, C-37
	routed := false
	b := graph.New[trail]("g")
	b.AddCommandNode("a", func(_ context.Context, s *trail) (graph.Command, error) {
		s.Ran.Add("a")
		return graph.Goto("c"), nil
	}, graph.Destinations("c"))
	visits(b, "b", "c")
	b.AddEdge(graph.Start, "a").AddEdge("a", "b")
	b.AddConditionalEdges("a", func(context.Context, *trail) (graph.Command, error) {
		routed = true
		return graph.Goto("b"), nil
	}, "b")
	equal(t, "ran", run(t, b).State.ran(), "a c")
	equal(t, "router called", routed, false)
}

func TestEndRunDropsWhatIsPlannedAndKeepsSiblings(t *testing.T) { // C-38
	b := graph.New[trail]("g")
	b.AddCommandNode("stop", func(_ context.Context, s *trail) (graph.Command, error) {
		s.Ran.Add("stop")
		return graph.EndRun(), nil
	})
	visits(b, "sibling", "after")
	b.AddNode("last", visit("last"), graph.Defer())
	b.AddEdge(graph.Start, "stop").AddEdge(graph.Start, "sibling").AddEdge("sibling", "after").AddEdge("sibling", "last").AddEdge("stop", "after")
	snap := run(t, b)
	equal(t, "ran", snap.State.ran(), "stop sibling")
	equal(t, "done", snap.Done(), true)
}

func TestGotoSeveralNodes(t *testing.T) { // SONI-53
	var both sync.WaitGroup
	both.Add(2)
	b := graph.New[trail]("g")
	for _, n := range []string{"x", "y"} {
		b.AddNode(n, func(_ context.Context, s *trail) error {
			both.Done()
			both.Wait()
			s.Ran.Add(n)
			return nil
		})
	}
	b.AddCommandNode("a", func(context.Context, *trail) (graph.Command, error) { return graph.Goto("y", "x"), nil })
	b.AddEdge(graph.Start, "a")
	equal(t, "ran in declared order", run(t, b).State.ran(), "x y")
}

// mapReduce fans out n sends whose results are summed.
func mapReduce(n int) *graph.Builder[trail] {
	b := graph.New[trail]("mapreduce")
	work := graph.AddTask(b, "work", func(_ context.Context, s *trail, in int) error {
		s.Total.Add(in)
		s.Ran.Add(fmt.Sprint(in))
		return nil
	})
	b.AddCommandNode("split", func(context.Context, *trail) (graph.Command, error) {
		sends := make([]graph.Send, n)
		for i := range sends {
			sends[i] = work.Send(i)
		}
		return graph.Dispatch(sends...), nil
	})
	b.AddNode("sum", func(_ context.Context, s *trail) error { s.N = s.Total.Get(); return nil })
	b.AddEdge(graph.Start, "split").AddEdge("work", "sum")
	return b
}

func TestSendsRunInParallelAndMergeInSendOrder(t *testing.T) {
	snap := run(t, mapReduce(50))
	equal(t, "sum", snap.State.N, 49*50/2)
	if !slices.IsSortedFunc(snap.State.Ran.Slice(), func(a, b string) int { return len(a) - len(b) }) || snap.State.Ran.At(7) != "7" {
		t.Errorf("not in send order: %v", snap.State.ran())
	}
	equal(t, "supersteps", snap.Step, 3)
	run(t, mapReduce(0)) // no sends end the branch
}

func TestASendCannotAliasItsPayload(t *testing.T) {
	type job struct{ Words []string }
	b := graph.New[trail]("g")
	work := graph.AddTask(b, "work", func(_ context.Context, s *trail, in job) error {
		s.Ran.Add(strings.Join(in.Words, ","))
		in.Words[0] = "spoiled"
		return nil
	})
	b.AddCommandNode("split", func(context.Context, *trail) (graph.Command, error) {
		words := []string{"a", "b"}
		one := work.Send(job{words})
		words[0] = "changed"
		return graph.Dispatch(one, work.Send(job{words})), nil
	})
	b.AddEdge(graph.Start, "split")
	equal(t, "ran", run(t, b).State.ran(), "a,b changed,b")
}

func TestAPayloadThatCannotBeEncodedIsTheSendersError(t *testing.T) {
	b := graph.New[trail]("g")
	work := graph.AddTask(b, "work", func(context.Context, *trail, any) error { return nil })
	b.AddCommandNode("split", func(context.Context, *trail) (graph.Command, error) {
		return graph.Dispatch(work.Send(make(chan int))), nil
	})
	b.AddEdge(graph.Start, "split")
	_, err := compile(t, b).Invoke(bg, nil)
	equal(t, "node", wantErr[*graph.NodeError](t, err).Node, "split")
}

func TestGotoATaskNeedsAPayload(t *testing.T) {
	b := graph.New[trail]("g")
	graph.AddTask(b, "work", func(context.Context, *trail, int) error { return nil })
	b.AddCommandNode("a", func(context.Context, *trail) (graph.Command, error) { return graph.Goto("work"), nil })
	b.AddEdge(graph.Start, "a")
	_, err := compile(t, b).Invoke(bg, nil)
	e := wantErr[*graph.InvalidEdgeError](t, err)
	if !strings.Contains(e.Error(), "Send") {
		t.Error(e)
	}
}

func TestStartingElsewhere(t *testing.T) { // SONI-52, SONI-54
	b := visits(graph.New[trail]("g"), "a", "b", "c")
	work := graph.AddTask(b, "work", func(_ context.Context, s *trail, in string) error { s.Ran.Add(in); return nil })
	b.AddEdge(graph.Start, "a").AddSequence("a", "b", "c")
	g := compile(t, b)
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("").Invoke(bg, g.Restart(func(s *trail) error {
		s.N = 1
		return nil
	}, graph.Goto("c"))))
	equal(t, "ran", snap.State.ran(), "c")
	snap = must[*graph.Snapshot[trail]](t)(g.Thread("").Invoke(bg, g.Restart(nil, graph.Dispatch(work.Send("from outside")).And(graph.Goto("b")))))
	equal(t, "ran", snap.State.ran(), "from outside b c")
	_, err := g.Thread("").Invoke(bg, g.Restart(nil, graph.Goto("nowhere")))
	wantErr[*graph.InvalidEdgeError](t, err)
}

func TestConditionalEntry(t *testing.T) {
	b := visits(graph.New[trail]("g"), "a", "b")
	b.AddConditionalEdges(graph.Start, func(_ context.Context, s *trail) (graph.Command, error) {
		if s.N > 0 {
			return graph.Goto("b"), nil
		}
		return graph.Goto("a"), nil
	}, "a", "b")
	g := compile(t, b)
	equal(t, "ran", must[*graph.Snapshot[trail]](t)(g.Invoke(bg, func(s *trail) error {
		s.N = 1
		return nil
	})).State.ran(), "b")
	equal(t, "ran", must[*graph.Snapshot[trail]](t)(g.Invoke(bg, nil)).State.ran(), "a")
}

func loop(t testing.TB, opts ...graph.Option) *graph.Graph[trail] {
	b := graph.New[trail]("loop")
	b.AddNode("a", func(_ context.Context, s *trail) error { s.N++; return nil })
	b.AddEdge(graph.Start, "a").AddEdge("a", "a")
	return compile(t, b, opts...)
}

func TestStepLimit(t *testing.T) { // W7-25, SYN-37, W7-15, C-02, TRPC-43, W7-41
	g := loop(t, stored()...)
	snap, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }), graph.MaxSteps(3))
	e := wantErr[*graph.LimitError](t, err)
	equal(t, "limit", fmt.Sprint(e.Max, e.Reached), "3 3")
	equal(t, "runs", snap.State.N, 3)
	equal(t, "step", snap.Step, 3)
	snap, err = g.Thread("t").Invoke(bg, g.Continue(), graph.MaxSteps(5))
	wantErr[*graph.LimitError](t, err)
	equal(t, "the count goes on", snap.State.N, 5)

	snap, err = loop(t).Thread("t").Invoke(bg, graph.Requests[trail]{}.Continue())
	if err == nil || !strings.Contains(err.Error(), "max iterations (100) exceeded") {
		t.Fatal(err)
	}
	equal(t, "runs without configuration", snap.State.N, 100)

	g = loop(t, graph.MaxSteps(1))
	snap, _ = g.Thread("t").Invoke(bg, g.Continue())
	equal(t, "the graph's limit", snap.State.N, 1)
	snap, _ = g.Thread("t").Invoke(bg, g.Continue(), graph.MaxSteps(5))
	equal(t, "the run's limit", snap.State.N, 5)
	for _, n := range []int{0, -1} {
		if _, err := g.Thread("t").Invoke(bg, g.Continue(), graph.MaxSteps(n)); err == nil {
			t.Errorf("a limit of %d is accepted", n)
		}
	}
}

func TestTaskLimitStopsAWideFanOut(t *testing.T) { // C-03
	_, err := compile(t, mapReduce(50)).Invoke(bg, nil, graph.MaxTasks(20))
	e := wantErr[*graph.LimitError](t, err)
	equal(t, "limit", e.Of, "tasks")
	equal(t, "next", e.Coming, 50)
	equal(t, "reached", e.Reached, 1)
}

func TestAnswersResetTheStepLimit(t *testing.T) {
	b := graph.New[trail]("g")
	b.AddNode("ask", func(ctx context.Context, s *trail) error {
		_, err := graph.Interrupt[int](ctx, "more", nil)
		s.N++
		return err
	})
	b.AddEdge(graph.Start, "ask").AddEdge("ask", "ask")
	g := compile(t, b, append(stored(), graph.MaxSteps(2))...)
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	for range 10 {
		must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(1)))
	}
}

func TestCycleGuard(t *testing.T) { // W7-26, C-04
	build := func(change bool) *graph.Builder[trail] {
		b := graph.New[trail]("g")
		for _, n := range []string{"A", "B"} {
			b.AddNode(n, func(_ context.Context, s *trail) error {
				if change {
					s.Ran.Add(n)
				}
				return nil
			})
		}
		b.AddEdge(graph.Start, "A").AddEdge("A", "B").AddEdge("B", "A")
		return b
	}
	_, err := compile(t, build(false)).Invoke(bg, nil)
	e := wantErr[*graph.CycleError](t, err)
	equal(t, "node", e.Node, "A")
	equalSlice(t, "recent", e.Recent, []string{"A", "B"})
	_, err = compile(t, build(true)).Invoke(bg, nil)
	wantErr[*graph.LimitError](t, err)
	_, err = compile(t, build(false)).Invoke(bg, nil, graph.CycleGuard(0))
	wantErr[*graph.LimitError](t, err)
	_, err = compile(t, build(true)).Invoke(bg, nil, graph.StrictCycleGuard(20))
	wantErr[*graph.CycleError](t, err)
}

func TestCycleGuardSeesAToggleAsNoProgress(t *testing.T) {
	b := graph.New[trail]("g")
	b.AddNode("on", func(_ context.Context, s *trail) error { s.N = 1; return nil })
	b.AddNode("off", func(_ context.Context, s *trail) error { s.N = 0; return nil })
	b.AddEdge(graph.Start, "on").AddEdge("on", "off").AddEdge("off", "on")
	_, err := compile(t, b).Invoke(bg, nil)
	wantErr[*graph.CycleError](t, err)
}

func TestCycleGuardSeesOverwritesWithTheSameAsNoProgress(t *testing.T) {
	fill := func(_ context.Context, s *overwritten) error { s.fill(); return nil }
	b := graph.New[overwritten]("g").AddNode("a", fill).AddNode("b", fill)
	b.AddEdge(graph.Start, "a").AddEdge("a", "b").AddEdge("b", "a")
	_, err := compile(t, b).Invoke(bg, nil)
	wantErr[*graph.CycleError](t, err)
}

func TestCycleGuardSeesUpdatesThatChangeNothingAsNoProgress(t *testing.T) {
	type state struct {
		Best  graph.Reduced[int, longest]
		Names graph.Reduced[string, graph.Latest[string]]
		By    graph.MergeMap[string, int, longest]
		N     graph.Sum[int]
	}
	for name, tt := range map[string]struct {
		visit    func(s *state) error
		progress bool
	}{
		"the same maximum": {func(s *state) error {
			s.Best.Add(5)
			s.Best.Add(3)
			return nil
		}, false},
		"a growing maximum": {func(s *state) error {
			s.Best.Add(s.Best.Get() + 1)
			return nil
		}, true},
		"the same text": {func(s *state) error {
			s.Names.Add("x")
			return nil
		}, false},
		"the same maximum by name": {func(s *state) error {
			s.By.Add("x", 5)
			s.By.Add("y", 2)
			s.By.Delete("z")
			return nil
		}, false},
		"a new name": {func(s *state) error {
			s.By.Add("x", 5)
			s.By.Add(strings.Repeat("y", s.By.Len()), 2)
			return nil
		}, true},
		"a maximum that sinks": {func(s *state) error {
			n, _ := s.By.Get("x")
			s.By.Delete("x")
			s.By.Add("x", n-1)
			return nil
		}, true},
		"a sum": {func(s *state) error {
			s.N.Add(1)
			return nil
		}, true},
		"a sum to which one adds what the other takes": {func(s *state) error {
			s.N.Add(1 - 2*(s.N.Get()&1))
			return nil
		}, false},
		"a text that changes and changes back": {func(s *state) error {
			s.Names.Add(map[string]string{"": "x", "y": "x", "x": "y"}[s.Names.Get()])
			return nil
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			visit := func(_ context.Context, s *state) error {
				if err := tt.visit(s); err != nil {
					return err
				}
				return nil
			}
			b := graph.New[state]("g").AddNode("a", visit).AddNode("b", visit)
			b.AddEdge(graph.Start, "a").AddEdge("a", "b").AddEdge("b", "a")
			_, err := compile(t, b).Invoke(bg, nil)
			if tt.progress {
				wantErr[*graph.LimitError](t, err)
			} else {
				wantErr[*graph.CycleError](t, err)
			}
		})
	}
}

// longest keeps the largest number.
type longest struct{}

func (longest) Reduce(a, b int) int { return max(a, b) }

func TestSequentialMode(t *testing.T) { // W7-22
	for range 50 {
		active, most := 0, 0
		var order []string
		b := graph.New[trail]("g")
		for _, n := range []string{"top", "left", "right", "bottom"} {
			b.AddNode(n, func(context.Context, *trail) error {
				active++
				most = max(most, active)
				order = append(order, n)
				active--
				return nil
			})
		}
		b.AddEdge(graph.Start, "top").AddEdge("top", "left").AddEdge("top", "right").AddEdge("left", "bottom").AddEdge("right", "bottom")
		run(t, b, graph.Concurrency(1))
		equal(t, "active at a time", most, 1)
		equal(t, "order", strings.Join(order, " "), "top left right bottom")
	}
}

func TestOneGraphServesManyRuns(t *testing.T) { // TRPC-35
	b := graph.New[trail]("g")
	b.AddCommandNode("a", func(ctx context.Context, s *trail) (graph.Command, error) {
		if s.N%2 == 0 {
			return graph.Goto("even"), nil
		}
		return graph.Goto("odd"), nil
	})
	b.AddNode("even", func(_ context.Context, s *trail) error { s.Note = fmt.Sprint("even ", s.N); return nil })
	b.AddNode("odd", func(ctx context.Context, s *trail) error {
		v, err := graph.Interrupt[int](ctx, "k", s.N)
		s.Note = fmt.Sprint("odd ", v)
		return err
	})
	b.AddEdge(graph.Start, "a")
	g := compile(t, b, stored()...)
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			th := fmt.Sprint(i)
			snap, err := g.Thread(th).Invoke(bg, g.Input(func(s *trail) error {
				s.N = i
				return nil
			}))
			if err == nil && i%2 == 1 {
				snap, err = g.Thread(th).Invoke(bg, g.Answer(i))
			}
			want := fmt.Sprint([]string{"even ", "odd "}[i%2], i)
			if err != nil || snap.State.Note != want {
				t.Errorf("run %d: %q, %v", i, snap.State.Note, err)
			}
		})
	}
	wg.Wait()
}

func TestCompiledGraphIsUnaffectedByItsBuilder(t *testing.T) { // W7-04
	b := visits(graph.New[trail]("g"), "a")
	b.AddEdge(graph.Start, "a")
	g := compile(t, b)
	before := draw.Mermaid(g.Drawing(0), nil)
	visits(b, "b")
	b.AddEdge("a", "b")
	again := compile(t, b)
	equal(t, "drawing", draw.Mermaid(g.Drawing(0), nil), before)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			equal(t, "ran", must[*graph.Snapshot[trail]](t)(g.Invoke(bg, nil)).State.ran(), "a")
			equal(t, "ran", must[*graph.Snapshot[trail]](t)(again.Invoke(bg, nil)).State.ran(), "a b")
		})
	}
	wg.Wait()
}

func TestGraphWithAnotherStore(t *testing.T) { // SYN-20
	b := visits(graph.New[trail]("g"), "a")
	b.AddEdge(graph.Start, "a")
	plain := compile(t, b)
	kept := must[*graph.Graph[trail]](t)(plain.With(graph.WithCheckpointer(checkpoint.NewMemory())))
	must[*graph.Snapshot[trail]](t)(kept.Thread("t").Invoke(bg, kept.Input(func(*trail) error { return nil })))
	equal(t, "ran", must[*graph.Snapshot[trail]](t)(kept.Thread("t").State(bg)).State.ran(), "a")
	if _, err := plain.Thread("t").State(bg); !errors.Is(err, graph.ErrNoCheckpointer) {
		t.Error(err)
	}
}

func TestRunContextInsideANode(t *testing.T) { // W7-06
	var seen []string
	b := graph.New[trail]("g")
	for _, n := range []string{"a", "b", "c"} {
		b.AddNode(n, func(ctx context.Context, s *trail) error {
			in := graph.Info(ctx)
			seen = append(seen, fmt.Sprintf("%s %d %v %q %d %d", in.Thread, in.Step, in.Recent, in.From, in.Attempt, in.RemainingSteps))
			if n == "b" {
				_, err := graph.Interrupt[int](ctx, "k", nil)
				return err
			}
			return nil
		})
	}
	b.AddEdge(graph.Start, "a").AddSequence("a", "b", "c")
	g := compile(t, b, append(stored(), graph.MaxSteps(5))...)
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(1)))
	equalSlice(t, "seen", seen, []string{`t 1 [] "" 1 4`, `t 2 [a] "a" 1 3`, `t 2 [a] "a" 1 4`, `t 3 [a b] "b" 1 3`})
	equalSlice(t, "recent", snap.Recent, []string{"a", "b", "c"})
	snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	equalSlice(t, "recent, after an input", snap.Recent, []string{"a"})
}

// What a run leaves for the next one of its graph holds no timer: one of a bubble may be
// used in that alone.
func TestAGraphRunsInOneBubbleAfterAnother(t *testing.T) {
	b := visits(graph.New[trail]("g"), "a", "b")
	b.AddEdge(graph.Start, "a")
	b.AddConditionalEdges("a", func(context.Context, *trail) (graph.Command, error) {
		time.Sleep(2 * time.Millisecond) // longer than a router may take before its node's changes are recorded
		return graph.Goto("b"), nil
	}, "b")
	g := compile(t, b, graph.WithCheckpointer(checkpoint.NewMemory()))
	visit := func(thread string) {
		equal(t, "ran", must[*graph.Snapshot[trail]](t)(g.Thread(thread).Invoke(bg, g.Input(func(*trail) error { return nil }))).State.ran(), "a b")
	}
	for i := range 3 {
		synctest.Test(t, func(*testing.T) { visit(fmt.Sprint("inside ", i)) })
	}
	visit("after")
}
