package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// collect reads a stream to its end.
func collect(seq iter.Seq2[graph.Event, error]) (evs []graph.Event, err error) {
	for ev, e := range seq {
		if e != nil {
			return evs, e
		}
		evs = append(evs, ev)
	}
	return evs, nil
}

// short describes an event by what doesn't differ between runs.
func short(ev graph.Event) string {
	s := fmt.Sprint(ev.Type, " ", ev.Step, " ", strings.Join(ev.Path, "/"), "/", ev.Node)
	switch {
	case ev.Update != nil:
		s += " " + string(ev.Update)
	case ev.Value != nil:
		s += fmt.Sprint(" ", ev.Value)
	case ev.Interrupt != nil:
		s += " " + ev.Interrupt.String()
	case ev.Err != nil:
		s += " error"
	}
	return s
}

func shorts(evs []graph.Event) []string {
	var out []string
	for _, ev := range evs {
		out = append(out, short(ev))
	}
	return out
}

func two(t testing.TB) *graph.Graph[trail] {
	b := visits(graph.New[trail]("g"), "a", "b")
	b.AddEdge(graph.Start, "a").AddEdge("a", "b")
	return compile(t, b, stored()...)
}

func TestStreamOfUpdatesIsTheDefault(t *testing.T) { // SYN-16, SYN-17
	evs := must[[]graph.Event](t)(collect(two(t).Thread("t").Stream(bg, graph.Requests[trail]{}.Input(func(*trail) error { return nil }))))
	equalSlice(t, "events", shorts(evs), []string{`updates 1 /a {"Ran":["a"]}`, `updates 2 /b {"Ran":["b"]}`})
}

func TestStreamOfValues(t *testing.T) { // SONI-45
	evs := must[[]graph.Event](t)(collect(two(t).Thread("t").Stream(bg, graph.Requests[trail]{}.Input(func(s *trail) error {
		s.N = 5
		return nil
	}), graph.Modes(graph.ModeValues))))
	var sizes []int
	for _, ev := range evs {
		s, ok := graph.StateOf[trail](ev)
		if !ok {
			t.Fatal(ev)
		}
		equal(t, "N", s.N, 5)
		if ev.Step > 0 {
			sizes = append(sizes, s.Ran.Len())
		}
		s.Ran.Add("the consumer's own copy")
	}
	equalSlice(t, "sizes after each node", sizes, []int{1, 2})
	equal(t, "events", len(evs), 3)
}

func TestStreamOfEverything(t *testing.T) { // SONI-46, SONI-47
	b := graph.New[trail]("g")
	b.AddNode("a", func(ctx context.Context, s *trail) error {
		for _, tok := range []string{"Hel", "lo"} {
			if err := graph.EmitMessage(ctx, tok); err != nil {
				return err
			}
		}
		s.Note = "Hello"
		return graph.Emit(ctx, "half way")
	})
	b.AddNode("b", func(ctx context.Context, s *trail) error {
		_, err := graph.Interrupt[bool](ctx, "ok", "fine?")
		return err
	})
	b.AddEdge(graph.Start, "a").AddEdge("a", "b")
	g := compile(t, b, stored()...)
	evs := must[[]graph.Event](t)(collect(g.Thread("t").Stream(bg, g.Input(func(*trail) error { return nil }), graph.Modes(graph.ModeUpdates, graph.ModeMessages, graph.ModeCustom, graph.ModeDebug))))
	equalSlice(t, "events", shorts(evs), []string{
		"checkpoints 0 /", "task 1 /a", "messages 1 /a Hel", "messages 1 /a lo", "custom 1 /a half way",
		`task_result 1 /a {"Note":"Hello"}`, `updates 1 /a {"Note":"Hello"}`, "checkpoints 1 /", "task 2 /b",
		`interrupt 2 /b interrupted in node 'b': "ok" waits for an answer`, "checkpoints 1 /",
	})
	evs = must[[]graph.Event](t)(collect(g.Thread("t").Stream(bg, g.Answer(true), graph.Modes(graph.ModeTasks))))
	equalSlice(t, "events", shorts(evs), []string{"task 2 /b", "task_result 2 /b"})
	for _, ev := range evs {
		if ev.Task == "" || ev.Thread != "t" || ev.Time.IsZero() {
			t.Errorf("%+v", ev)
		}
	}
}

func TestStreamIsTheSameOver200Runs(t *testing.T) { // W7-40
	var first []string
	for i := range 200 {
		b := graph.New[trail]("g")
		work := graph.AddTask(b, "work", func(_ context.Context, s *trail, n int) error {
			if (n+i)%4 == 0 {
				time.Sleep(20 * time.Microsecond)
			}
			s.Total.Add(n)
			s.Ran.Add(fmt.Sprint(n))
			return nil
		})
		b.AddCommandNode("split", func(context.Context, *trail) (graph.Command, error) {
			var sends []graph.Send
			for n := range 8 {
				sends = append(sends, work.Send(n))
			}
			return graph.Dispatch(sends...), nil
		})
		visits(b, "x", "y", "end")
		b.AddEdge(graph.Start, "split").AddEdge(graph.Start, "x").AddEdge("x", "y").AddEdge("work", "end")
		evs := must[[]graph.Event](t)(collect(compile(t, b, stored()...).Thread("t").Stream(bg, graph.Requests[trail]{}.Input(func(*trail) error { return nil }), graph.Modes(graph.ModeUpdates, graph.ModeDebug, graph.ModeValues))))
		got := shorts(evs)
		if i == 0 {
			first = got
		} else if !slices.Equal(got, first) {
			t.Fatalf("run %d differs:\n%s\nfirst:\n%s", i, strings.Join(got, "\n"), strings.Join(first, "\n"))
		}
	}
	if len(first) < 40 {
		t.Errorf("only %d events", len(first))
	}
}

func TestStreamEndsWithTheError(t *testing.T) {
	b := visits(graph.New[trail]("g"), "a")
	b.AddNode("b", func(context.Context, *trail) error { return errBoom })
	b.AddEdge(graph.Start, "a").AddEdge("a", "b")
	n := 0
	var last error
	for _, err := range compile(t, b).Stream(bg, nil) {
		n++
		last = err
	}
	equal(t, "events", n, 2)
	if !errors.Is(last, errBoom) {
		t.Error(last)
	}
	for _, err := range compile(t, b).Stream(bg, nil, graph.MaxSteps(1)) { // W7-19
		last = err
	}
	wantErr[*graph.LimitError](t, last)
}

func TestBreakingOutCancelsTheRun(t *testing.T) {
	ran := &calls{}
	b := visits(graph.New[trail]("g"), "a")
	b.AddNode("b", func(ctx context.Context, s *trail) error {
		ran.add("b")
		<-ctx.Done()
		return ctx.Err()
	})
	visits(b, "c")
	b.AddEdge(graph.Start, "a").AddSequence("a", "b", "c")
	g := compile(t, b, stored()...)
	for range g.Thread("t").Stream(bg, g.Input(func(*trail) error { return nil })) {
		break
	}
	// The run has ended: the thread can be taken up, and goleak finds nothing.
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").State(bg))
	equal(t, "ran", snap.State.ran(), "a")
	equalSlice(t, "next", snap.Next, []string{"b"})
}

func TestDetachLetsTheRunGoOn(t *testing.T) {
	done := make(chan struct{})
	b := visits(graph.New[trail]("g"), "a", "b")
	b.AddNode("c", func(context.Context, *trail) error { close(done); return nil })
	b.AddEdge(graph.Start, "a").AddSequence("a", "b", "c")
	for range compile(t, b).Stream(bg, nil, graph.Detach()) {
		break
	}
	<-done
}

func TestASlowConsumerHoldsTheRunBack(t *testing.T) { // TRPC-45
	ran := &calls{}
	b := graph.New[trail]("g")
	b.AddNode("a", func(ctx context.Context, s *trail) error {
		for i := range 1000 {
			ran.add("emitted")
			if err := graph.Emit(ctx, i); err != nil {
				return err
			}
		}
		return nil
	})
	b.AddEdge(graph.Start, "a")
	n := 0
	for ev, err := range compile(t, b).Stream(bg, nil, graph.Modes(graph.ModeCustom), graph.Buffer(3)) {
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "order", ev.Value.(int), n)
		n++
		if ahead := ran.of("emitted") - n; ahead > 5 {
			t.Fatalf("the run is %d events ahead of its consumer", ahead)
		}
	}
	equal(t, "events", n, 1000)
}

func TestSubgraphEventsCarryTheirPath(t *testing.T) {
	ran := &calls{}
	g := mounted(t, childGraph(t, ran, false), ran, stored()...)
	evs := must[[]graph.Event](t)(collect(g.Thread("t").Stream(bg, g.Input(func(*trail) error { return nil }))))
	equalSlice(t, "events", shorts(evs), []string{
		`updates 1 /before {"Note":"hi"}`, `updates 1 sub/first {"Log":["first hi"],"Runs":1}`, `updates 2 sub/second {"Log":["second"]}`,
		`updates 2 /sub {"Ran":["first hi","second"],"N":1}`, `updates 3 /after {"Ran":["after"]}`,
	})
}

// logObserver writes what it is told to a log.
type logObserver struct{ log *[]string }

func (o logObserver) OnNodeEnter(ev graph.Event)       { *o.log = append(*o.log, "enter "+ev.Node) }
func (o logObserver) OnNodeExit(ev graph.Event)        { *o.log = append(*o.log, "exit "+ev.Node) }
func (o logObserver) OnError(ev graph.Event)           { *o.log = append(*o.log, "error "+ev.Node) }
func (o logObserver) OnCheckpointSaved(ev graph.Event) { *o.log = append(*o.log, "saved "+ev.Source) }
func (o logObserver) OnInterrupt(ev graph.Event) {
	*o.log = append(*o.log, "interrupt "+ev.Interrupt.When+" "+ev.Node)
}

func TestTheOrderOfAStep(t *testing.T) { // W7-20, W7-18
	var log []string
	b := graph.New[trail]("g")
	for _, n := range []string{"a", "b"} {
		b.AddNode(n, func(_ context.Context, s *trail) error {
			log = append(log, "run "+n)
			return nil
		})
	}
	b.AddEdge(graph.Start, "a")
	b.AddConditionalEdges("a", func(context.Context, *trail) (graph.Command, error) {
		log = append(log, "route a")
		return graph.Goto("b"), nil
	}, "b")
	g := compile(t, b, append(stored(), graph.Observe(logObserver{&log}), graph.InterruptBefore("a"), graph.InterruptAfter("a"))...)
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
	equalSlice(t, "log", log, []string{
		"saved input", "interrupt before a",
		"saved resume", "enter a", "run a", "route a", "exit a", "saved loop", "interrupt after a",
		"saved resume", "enter b", "run b", "exit b", "saved loop",
	})
}

func TestObserverOfAFailingRunAndOfOneCall(t *testing.T) {
	var log, other []string
	b := visits(graph.New[trail]("g"), "a")
	b.AddNode("b", func(context.Context, *trail) error { return errBoom })
	b.AddEdge(graph.Start, "a").AddEdge("a", "b")
	g := compile(t, b, append(stored(), graph.Observe(logObserver{&log}))...)
	_, _ = g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }))
	equalSlice(t, "log", log, []string{"saved input", "enter a", "exit a", "saved loop", "enter b", "error b"})
	log = nil
	_, _ = g.Thread("t").Invoke(bg, g.Continue(), graph.Observe(logObserver{&other}))
	equalSlice(t, "the graph's observer", log, []string{"enter b", "error b"})
	equalSlice(t, "that of the call", other, []string{"enter b", "error b"})
}

// All that is told of a task, and what the node itself knows, has one ID; no
// other task of the run has it.
func TestATaskHasOneID(t *testing.T) {
	for name, opts := range map[string][]graph.ThreadOption{"with a store": {graph.WithCheckpointer(checkpoint.NewMemory())}, "without": nil} {
		known := map[string]string{} // node: ID as the node knows it
		note := func(ctx context.Context, _ *toolState) error { return graph.Emit(ctx, graph.Info(ctx).Task) }
		g := graph.New[toolState]("g").AddNode("a", note).AddNode("b", note).AddSequence("a", "b").AddEdge(graph.Start, "a").MustCompile()
		seen := map[string]int{}
		for ev, err := range g.Thread("t", opts...).Stream(t.Context(), g.Input(func(*toolState) error { return nil }), graph.Modes(graph.ModeUpdates, graph.ModeTasks, graph.ModeCustom)) {
			if err != nil {
				t.Fatal(err)
			}
			if ev.Type == graph.EventCustom {
				known[ev.Node] = ev.Value.(string)
			}
			if seen[ev.Task]++; known[ev.Node] != "" && ev.Task != known[ev.Node] {
				t.Errorf("%s: %s of %s has the task %s, not %s", name, ev.Type, ev.Node, ev.Task, known[ev.Node])
			}
		}
		if len(seen) != 2 || known["a"] == known["b"] {
			t.Errorf("%s: %v, %v", name, seen, known)
		}
	}
}

// What happens in a subgraph is told with the tasks that run it, which tells runs
// of one node apart.
func TestEventsOfSubgraphsNameTheTasksAboveThem(t *testing.T) {
	leaf := graph.New[trail]("leaf")
	leaf.AddNode("n", func(context.Context, *trail) error { return nil })
	leaf.AddEdge(graph.Start, "n")
	lg := compile(t, leaf)
	mid := graph.New[trail]("mid")
	mid.AddNode("call", func(ctx context.Context, _ *trail) error { _, err := graph.Call(ctx, "", lg, nil); return err })
	mid.AddEdge(graph.Start, "call")
	mg := compile(t, mid)
	b := graph.New[trail]("top")
	each := graph.AddTask(b, "each", func(ctx context.Context, _ *trail, _ int) error {
		_, err := graph.Call(ctx, "", mg, nil)
		return err
	})
	b.AddCommandNode("split", func(context.Context, *trail) (graph.Command, error) {
		return graph.Dispatch(each.Send(1), each.Send(2)), nil
	})
	b.AddEdge(graph.Start, "split")
	for _, opts := range [][]graph.Option{nil, stored()} {
		g := compile(t, b, opts...)
		above := map[string][]string{} // by task
		leaves := 0
		for ev, err := range g.Thread("t").Stream(bg, g.Input(func(*trail) error { return nil }), graph.Modes(graph.ModeTasks)) {
			if err != nil {
				t.Fatal(err)
			}
			if len(ev.Within) != len(ev.Path) {
				t.Fatalf("path %v has the segments %v", ev.Path, ev.Within)
			}
			if ev.Type != graph.EventTaskStart {
				continue
			}
			above[strings.Join(append(slices.Clone(ev.Within), checkpoint.Segment(ev.Node, ev.Task, "")), " ")] = ev.Path
			if n := len(ev.Within); n > 0 && len(above[strings.Join(ev.Within, " ")]) != n-1 {
				t.Errorf("nothing is known of the task above %v", ev.Within)
			}
			if ev.Node == "n" {
				leaves++
			}
		}
		equal(t, "leaves", leaves, 2)
		equal(t, "tasks told apart", len(above), 7)
	}
}

// What a task wrote is told when it is stored, though others of its superstep still run:
// in plan order as far as that is complete, with LiveOrder as it comes.
func TestUpdatesAreToldBeforeTheSuperstepEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		opts []graph.StreamOption
		slow int // this task ends when the others were told of
		told []string
	}{
		"in plan order": {nil, 2, []string{"0", "1", "2"}},
		"live":          {[]graph.StreamOption{graph.LiveOrder()}, 0, []string{"1", "2", "0"}},
	} {
		for stored, store := range map[string][]graph.Option{"stored": stored(), "not stored": nil} {
			t.Run(name+", "+stored, func(t *testing.T) {
				ended := make([]chan struct{}, 3)
				for i := range ended {
					ended[i] = make(chan struct{})
				}
				others := make(chan struct{})
				b := graph.New[trail]("g")
				work := graph.AddTask(b, "work", func(_ context.Context, s *trail, i int) error {
					switch {
					case i == tt.slow:
						<-others
					case i == 2 && tt.slow == 0:
						<-ended[1]
					}
					s.Ran.Add(fmt.Sprint(i))
					return nil
				})
				b.AddCommandNode("split", func(context.Context, *trail) (graph.Command, error) {
					return graph.Dispatch(work.Send(0), work.Send(1), work.Send(2)), nil
				}).AddEdge(graph.Start, "split")
				g := compile(t, b, store...)
				var told []string
				for ev, err := range g.Thread("t").Stream(bg, g.Input(func(*trail) error { return nil }), tt.opts...) {
					if err != nil {
						t.Fatal(err)
					}
					if ev.Node != "work" {
						continue
					}
					var wrote struct{ Ran []string }
					if err := json.Unmarshal(ev.Update, &wrote); err != nil {
						t.Fatal(err)
					}
					if told = append(told, wrote.Ran...); wrote.Ran[0] == "1" {
						close(ended[1])
					}
					if len(told) == 2 {
						close(others)
					}
				}
				equalSlice(t, "told", told, tt.told)
			})
		}
	}
}

// What tasks wrote whose superstep failed is told when it goes on, once for each run.
func TestUpdatesOfAFailedSuperstepAreToldByEachRun(t *testing.T) {
	broken := true
	b := visits(graph.New[trail]("g"), "a").AddNode("b", func(_ context.Context, s *trail) error {
		if broken {
			return errBoom
		}
		s.Ran.Add("b")
		return nil
	})
	g := compile(t, b.AddEdge(graph.Start, "a").AddEdge(graph.Start, "b"), stored()...)
	th := g.Thread("t")
	evs, err := collect(th.Stream(bg, th.Input(func(*trail) error { return nil })))
	if !errors.Is(err, errBoom) {
		t.Fatal(err)
	}
	equalSlice(t, "the first run", shorts(evs), []string{`updates 1 /a {"Ran":["a"]}`})
	broken = false
	evs = must[[]graph.Event](t)(collect(th.Stream(bg, th.Continue())))
	equalSlice(t, "the second run", shorts(evs), []string{`updates 1 /a {"Ran":["a"]}`, `updates 1 /b {"Ran":["b"]}`})
}
