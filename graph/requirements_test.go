package graph_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

func noInput(*trail) error { return nil }

// TRPC-58: a node can look whether its question has an answer without asking: it is
// absent, present, of a wrong type, and used up when the node has succeeded.
func TestANodeLooksWhetherItsQuestionIsAnswered(t *testing.T) {
	var log []string
	b := graph.New[trail]("g").AddNode("ask", func(ctx context.Context, s *trail) error {
		v, has, err := graph.Answered[string](ctx, "ok")
		_, _, wrong := graph.Answered[int](ctx, "ok")
		var refused *graph.AnswerError
		log = append(log, fmt.Sprintf("%q %v %v, as a number: %v", v, has, err, errors.As(wrong, &refused)))
		if _, has, err := graph.Answered[string](ctx, "other"); has || err != nil {
			log = append(log, "other is there")
		}
		if !has {
			v = "default"
		}
		s.Note = v
		_, err = graph.Interrupt[string](ctx, "ok", "fine?")
		s.N++
		return err
	})
	b.AddEdge(graph.Start, "ask")
	b.AddConditionalEdges("ask", func(_ context.Context, s *trail) (graph.Command, error) {
		if s.N < 2 {
			return graph.Goto("ask"), nil
		}
		return graph.Goto(graph.End), nil
	}, "ask", graph.End)
	th := compile(t, b, stored()...).Thread("t")
	must[*graph.Snapshot[trail]](t)(th.Invoke(bg, th.Input(noInput)))
	for _, answer := range []string{"yes", "again"} {
		must[*graph.Snapshot[trail]](t)(th.Invoke(bg, th.Answer(answer)))
	}
	equalSlice(t, "log", log, []string{
		`"" false <nil>, as a number: false`, `"yes" true <nil>, as a number: true`,
		`"" false <nil>, as a number: false`, `"again" true <nil>, as a number: true`,
	})
	if _, _, err := graph.Answered[string](bg, "ok"); !errors.Is(err, graph.ErrNotInNode) {
		t.Error(err)
	}
}

// TRPC-55: the snapshot of an interrupted run has its checkpoint, metadata and parent,
// and what the parallel sibling that finished has written.
func TestASnapshotHasWhatAFinishedSiblingWroteBesideAQuestion(t *testing.T) {
	b := graph.New[trail]("g").AddNode("good", visit("good")).AddNode("asks", func(ctx context.Context, _ *trail) error {
		_, err := graph.Interrupt[bool](ctx, "ok", "fine?")
		return err
	})
	g := compile(t, b.AddEdge(graph.Start, "good").AddEdge(graph.Start, "asks"), stored()...)
	th := g.Thread("lineage", graph.Namespace("svc:prod:flowX"))
	must[*graph.Snapshot[trail]](t)(th.Invoke(bg, th.Input(noInput), graph.Metadata("by", "anna")))
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("lineage", graph.Namespace("svc:prod:flowX")).State(bg))
	equal(t, "written by the sibling", snap.State.ran(), "good")
	equal(t, "namespace", snap.Namespace, "svc:prod:flowX")
	if snap.Checkpoint == "" || snap.Parent == "" || snap.Parent == snap.Checkpoint || snap.CreatedAt.IsZero() || snap.Metadata["by"] != "anna" {
		t.Errorf("%+v", snap)
	}
	equal(t, "status of the sibling", snap.Tasks[0].Status, "done")
	equal(t, "question", snap.Interrupts[0].Node, "asks")
	at := must[*graph.Snapshot[trail]](t)(th.At(snap.Checkpoint).State(bg))
	equal(t, "the same by its checkpoint", at.State.ran(), "good")
}

// TRPC-56: deleting a thread removes all of its namespaces and nothing of another
// thread; a namespace is a name of the user's own.
func TestDeletingAThreadRemovesItsNamespacesAndNoOtherThread(t *testing.T) {
	store := checkpoint.NewMemory()
	g := compile(t, visits(graph.New[trail]("g"), "a").AddEdge(graph.Start, "a"), graph.WithCheckpointer(store))
	names := []string{"", "svc:prod:flowX", "svc:prod:flowY"}
	for _, id := range []string{"one", "two"} {
		for _, ns := range names {
			th := g.Thread(id, graph.Namespace(ns))
			must[*graph.Snapshot[trail]](t)(th.Invoke(bg, th.Input(noInput)))
		}
	}
	if err := g.Thread("one").Delete(bg); err != nil {
		t.Fatal(err)
	}
	for _, ns := range names {
		if _, err := g.Thread("one", graph.Namespace(ns)).State(bg); !errors.Is(err, checkpoint.ErrNotFound) {
			t.Errorf("namespace %q of the deleted thread: %v", ns, err)
		}
		snap := must[*graph.Snapshot[trail]](t)(g.Thread("two", graph.Namespace(ns)).State(bg))
		equal(t, "the other thread in "+ns, snap.State.ran(), "a")
	}
	same := func(a, b *graph.Thread[trail]) bool { return reflect.DeepEqual(a.ID(), b.ID()) }
	if !same(g.Thread("two"), g.Thread("two", graph.Namespace("svc:prod:flowX"))) {
		t.Error("handles of one thread name different ones")
	}
}

// TRPC-46: a callback before the node may answer for it or fail, one after it may
// replace its result, and one for errors sees them; those of the graph come first before
// the node, and each knows node, step, task and thread.
func TestCallbacksOfANodeSkipFailReplaceAndObserve(t *testing.T) {
	var log []string
	seen := func(who string) graph.Callbacks[trail] {
		return graph.Callbacks[trail]{
			Before: func(ctx context.Context, s *trail) (bool, error) {
				in := graph.Info(ctx)
				log = append(log, fmt.Sprint(who, " before ", in.Node, " ", in.Step, " ", in.Thread, " ", in.Task != ""))
				switch {
				case who == "node" && s.Note == "skip":
					s.Ran.Add("instead")
					return true, nil
				case who == "node" && s.Note == "fail":
					return false, errBoom
				}
				return false, nil
			},
			After: func(_ context.Context, s *trail) error {
				if who == "node" {
					s.Ran.Overwrite("replaced")
				}
				return nil
			},
			OnError: func(_ context.Context, _ *trail, err error) { log = append(log, who+" saw "+err.Error()) },
		}
	}
	b := graph.New[trail]("g").NodeDefaults(graph.WithCallbacks(seen("graph")))
	b.AddNode("a", func(ctx context.Context, s *trail) error {
		if s.Note == "boom" {
			return errBoom
		}
		return visit("a")(ctx, s)
	}, graph.WithCallbacks(seen("node")))
	g := compile(t, b.AddEdge(graph.Start, "a"), stored()...)
	for note, want := range map[string]string{"": "replaced", "skip": "instead", "fail": "", "boom": ""} {
		log = nil
		th := g.Thread("t" + note)
		snap, err := th.Invoke(bg, th.Input(func(s *trail) error { s.Note = note; return nil }))
		if got := snap.State.ran(); got != want || errors.Is(err, errBoom) != (note == "fail" || note == "boom") {
			t.Errorf("%q: ran %q, %v", note, got, err)
		}
		before := []string{"graph before a 1 t" + note + " true", "node before a 1 t" + note + " true"}
		if len(log) < 2 || !slices.Equal(log[:2], before) {
			t.Errorf("%q: %q", note, log)
		}
		if sees := slices.Contains(log, "node saw boom") && slices.Contains(log, "graph saw boom"); sees != (note == "boom") {
			t.Errorf("%q: errors are seen: %q", note, log)
		}
	}
}

// W7-16: a checkpointer is attached to a graph, and a thread to what runs it: runs then
// need no configuration, and the store has the thread.
func TestACheckpointerAndAThreadAreAttachedOnce(t *testing.T) {
	store := checkpoint.NewMemory()
	plain := compile(t, visits(graph.New[trail]("g"), "a").AddEdge(graph.Start, "a"))
	g := must[*graph.Graph[trail]](t)(plain.With(graph.WithCheckpointer(store)))
	run := g.Thread("thread_id")
	must[*graph.Snapshot[trail]](t)(run.Invoke(bg, run.Input(noInput)))
	head, _, err := store.Head(bg, checkpoint.Log{Thread: "thread_id"})
	if err != nil || head == nil {
		t.Fatalf("%v, %v", head, err)
	}
	equal(t, "ran", must[*graph.Snapshot[trail]](t)(run.State(bg)).State.ran(), "a")
}

// SYN-07, SYN-11: the page's graph of two steps, built in one expression, runs them in
// order to the end, along fixed edges.
func TestTwoStepsRunInOrderToTheEnd(t *testing.T) {
	g := graph.New[trail]("page").
		AddNode("step_1", visit("step_1")).
		AddNode("step_2", visit("step_2")).
		SetEntryPoint("step_1").
		AddEdge("step_1", "step_2").
		AddEdge("step_2", graph.End).
		MustCompile()
	snap := must[*graph.Snapshot[trail]](t)(g.Invoke(bg, nil))
	equal(t, "ran", snap.State.ran(), "step_1 step_2")
	equal(t, "done", snap.Done(), true)
	equal(t, "steps", snap.Step, 2)
}

// SYN-30: three sends to several targets run at the same time, see each its own payload,
// and merge in the order of the sends.
func TestThreeSendsToSeveralTargetsOverlapWithTheirPayloads(t *testing.T) {
	var all sync.WaitGroup
	all.Add(3)
	work := func(name string) func(context.Context, *trail, string) error {
		return func(_ context.Context, s *trail, in string) error {
			all.Done()
			all.Wait() // for ever, if they ran one after another
			s.Ran.Add(name + "(" + in + ")")
			return nil
		}
	}
	b := graph.New[trail]("g")
	left, right := graph.AddTask(b, "left", work("left")), graph.AddTask(b, "right", work("right"))
	b.AddCommandNode("split", func(context.Context, *trail) (graph.Command, error) {
		return graph.Dispatch(left.Send("1"), right.Send("2"), left.Send("3")), nil
	}, graph.Destinations("left", "right"))
	snap := must[*graph.Snapshot[trail]](t)(compile(t, b.AddEdge(graph.Start, "split")).Invoke(bg, nil))
	equal(t, "merged", snap.State.ran(), "left(1) right(2) left(3)")
}

// SONI-44: without a mode a stream is of updates, {node: update} for each node, and of
// the question, with its payload, where a node asks one.
func TestTheDefaultStreamHasTheUpdateOfEachNodeAndTheQuestion(t *testing.T) {
	b := graph.New[trail]("g").AddNode("collect", visit("collect")).AddNode("confirm", func(ctx context.Context, _ *trail) error {
		_, err := graph.Interrupt[bool](ctx, "sure", map[string]any{"amount": 5})
		return err
	})
	g := compile(t, b.AddEdge(graph.Start, "collect").AddEdge("collect", "confirm"), stored()...)
	th := g.Thread("t")
	var progress []string
	for ev, err := range th.Stream(bg, th.Input(noInput)) {
		if err != nil {
			t.Fatal(err)
		}
		switch ev.Type {
		case graph.EventUpdate:
			progress = append(progress, fmt.Sprintf("{%s: %s}", ev.Node, ev.Update))
		case graph.EventInterrupt:
			progress = append(progress, fmt.Sprintf("{__interrupt__: %s %s}", ev.Interrupt.Key, fmt.Sprint(ev.Interrupt.Value)))
		default:
			progress = append(progress, fmt.Sprint(ev.Type))
		}
	}
	equalSlice(t, "progress", progress, []string{`{collect: {"Ran":["collect"]}}`, "{__interrupt__: sure map[amount:5]}"})
}

// SONI-58: what threads share is a dependency: both see one cache, and neither has it in
// its state.
func TestTwoThreadsShareADependencyAndNotTheirState(t *testing.T) {
	type cache struct{ sync.Map }
	shared := &cache{}
	g := compile(t, one(func(ctx context.Context, s *trail) error {
		c, err := graph.Deps[*cache](ctx)
		if err != nil {
			return err
		}
		was, _ := c.LoadOrStore("setting", "set by "+graph.Info(ctx).Thread)
		s.Note = fmt.Sprint(was)
		return nil
	}), append(stored(), graph.ProvideDeps(func(context.Context) (*cache, error) { return shared, nil }))...)
	for _, id := range []string{"one", "two"} {
		th := g.Thread(id)
		snap := must[*graph.Snapshot[trail]](t)(th.Invoke(bg, th.Input(noInput)))
		equal(t, "read by "+id, snap.State.Note, map[string]string{"one": "set by one", "two": "set by one"}[id])
	}
}

// W7-37: an observer is told, in order, that a node is entered, left and stored, and that
// one is entered and fails; without one a run allocates no more.
func TestAnObserverSeesEnterExitSavedEnterError(t *testing.T) {
	var log []string
	b := visits(graph.New[trail]("g"), "good").AddNode("bad", func(context.Context, *trail) error { return errBoom })
	b.AddEdge(graph.Start, "good").AddEdge("good", "bad")
	g := compile(t, b, append(stored(), graph.Observe(logObserver{&log}))...)
	th := g.Thread("t")
	if _, err := th.Invoke(bg, th.Input(noInput)); !errors.Is(err, errBoom) {
		t.Fatal(err)
	}
	want := []string{"enter good", "exit good", "saved loop", "enter bad"}
	if len(log) < 6 || !slices.Equal(log[1:5], want) || !strings.HasPrefix(log[5], "error") {
		t.Errorf("%q", log)
	}
	chain := func(opts ...graph.Option) float64 {
		g := compile(t, visits(graph.New[trail]("g"), "a").AddEdge(graph.Start, "a"), opts...)
		return testing.AllocsPerRun(100, func() { _, _ = g.Invoke(bg, nil) })
	}
	if none, one := chain(), chain(graph.Observe(silent{})); none > one {
		t.Errorf("%v allocations without an observer, %v with one that does nothing", none, one)
	}
}

type silent struct{}

func (silent) OnNodeEnter(graph.Event)       {}
func (silent) OnNodeExit(graph.Event)        {}
func (silent) OnError(graph.Event)           {}
func (silent) OnInterrupt(graph.Event)       {}
func (silent) OnCheckpointSaved(graph.Event) {}
