package graph_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// The table of C-13: what Invoke and Resume do, by where the thread stands.

// asker is a graph that visits a, asks in b, and visits c.
func asker(t testing.TB, opts ...graph.Option) *graph.Graph[trail] {
	b := graph.New[trail]("asker")
	b.AddNode("a", visit("a"))
	b.AddNode("b", func(ctx context.Context, s *trail) error {
		note, err := graph.Interrupt[string](ctx, "note", "what note?")
		if err != nil {
			return err
		}
		s.Ran.Add("b")
		s.Note = note
		return nil
	})
	b.AddNode("c", visit("c"))
	b.AddEdge(graph.Start, "a").AddSequence("a", "b", "c")
	return compile(t, b, append(stored(), opts...)...)
}

func TestInputStartsANewThread(t *testing.T) { // SYN-10, SYN-15
	g := asker(t)
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(s *trail) error {
		s.N = 7
		return nil
	})))
	equal(t, "ran", snap.State.ran(), "a")
	equal(t, "N", snap.State.N, 7)
	equalSlice(t, "next", snap.Next, []string{"b"})
}

func TestNoInputOnANewThreadIsNothingToResume(t *testing.T) {
	g := asker(t)
	_, err := g.Thread("t").Invoke(bg, g.Continue())
	if !errors.Is(err, graph.ErrNothingToResume) {
		t.Fatal(err)
	}
	if _, err := g.Thread("t").Invoke(bg, g.Answer("x")); !errors.Is(err, graph.ErrNothingToResume) {
		t.Fatal(err)
	}
	if _, err := g.Thread("t").State(bg); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Fatalf("the refused call left a checkpoint: %v", err)
	}
}

func TestPendingWithoutInputContinues(t *testing.T) { // SYN-19, SONI-03
	fail := true
	b := visits(graph.New[trail]("g"), "a")
	b.AddNode("b", func(_ context.Context, s *trail) error {
		if fail {
			return errBoom
		}
		s.Ran.Add("b")
		return nil
	})
	b.AddEdge(graph.Start, "a").AddEdge("a", "b")
	g := compile(t, b, stored()...)
	_, err := g.Thread("t").Invoke(bg, g.Input(func(s *trail) error { return nil }))
	if !errors.Is(err, errBoom) {
		t.Fatal(err)
	}
	fail = false
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
	equal(t, "ran", snap.State.ran(), "a b")
	equal(t, "done", snap.Done(), true)
}

func TestPendingQuestionStillWaitsWhenContinued(t *testing.T) {
	g := asker(t)
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(s *trail) error { return nil })))
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
	equal(t, "interrupts", len(snap.Interrupts), 1)
	equal(t, "ran", snap.State.ran(), "a")
}

func TestPendingWithAnswerIsAnswered(t *testing.T) { // SONI-04 to 06, TRPC-57
	g := asker(t)
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(s *trail) error { return nil })))
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer("hello")))
	equal(t, "ran", snap.State.ran(), "a b c")
	equal(t, "note", snap.State.Note, "hello")
}

func TestPendingWithInputFoldsItAndContinues(t *testing.T) { // W7-23
	g := asker(t)
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(s *trail) error { return nil })))
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(s *trail) error {
		s.N = 9
		return nil
	})))
	equal(t, "N", snap.State.N, 9)
	equal(t, "ran", snap.State.ran(), "a")
	equal(t, "still asked", len(snap.Interrupts), 1)
	snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer("x")))
	equal(t, "ran", snap.State.ran(), "a b c")
}

func TestRestartStartsOverOnTheKeptState(t *testing.T) {
	g := asker(t)
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(s *trail) error { return nil })))
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Restart(func(s *trail) error { return nil })))
	equal(t, "ran", snap.State.ran(), "a a")
	equal(t, "interrupts", len(snap.Interrupts), 1)
}

func TestFinishedWithInputStartsAnotherTurn(t *testing.T) { // W7-23
	b := visits(graph.New[trail]("g"), "a", "b")
	b.AddEdge(graph.Start, "a").AddEdge("a", "b")
	g := compile(t, b, stored()...)
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(s *trail) error {
		s.N = 1
		return nil
	})))
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(s *trail) error {
		s.Note = "second"
		return nil
	})))
	equal(t, "ran", snap.State.ran(), "a b a b")
	equal(t, "N", snap.State.N, 1)
	equal(t, "step", snap.Step, 4)
}

func TestFinishedWithoutInputRunsNothing(t *testing.T) {
	b := visits(graph.New[trail]("g"), "a")
	b.AddEdge(graph.Start, "a")
	g := compile(t, b, stored()...)
	first := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(s *trail) error { return nil })))
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
	equal(t, "ran", snap.State.ran(), "a")
	equal(t, "checkpoint", snap.Checkpoint, first.Checkpoint)
	if _, err := g.Thread("t").Invoke(bg, g.Answer(1)); !errors.Is(err, graph.ErrNothingToResume) {
		t.Fatal(err)
	}
}

func TestACheckpointIDBranches(t *testing.T) {
	b := visits(graph.New[trail]("g"), "a", "b", "c")
	b.AddEdge(graph.Start, "a").AddSequence("a", "b", "c")
	g := compile(t, b, stored()...)
	end := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(s *trail) error { return nil })))
	var afterA string
	for e, err := range g.Thread("t").History(bg, graph.HistoryQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Step == 1 && e.Source == "loop" {
			afterA = e.Checkpoint
		}
	}
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").At(afterA).Invoke(bg, g.Continue()))
	equal(t, "ran", snap.State.ran(), "a b c")
	if snap.Checkpoint == end.Checkpoint {
		t.Error("the new branch has the old branch's checkpoint")
	}
	old := must[*graph.Snapshot[trail]](t)(g.Thread("t").At(end.Checkpoint).State(bg))
	equal(t, "old branch", old.State.ran(), "a b c")

	// A new turn on a branch of a finished thread's past.
	snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").At(afterA).Invoke(bg, g.Input(func(s *trail) error {
		s.N = 5
		return nil
	})))
	equal(t, "N", snap.State.N, 5)
	equal(t, "ran", snap.State.ran(), "a b c")

	if _, err := g.Thread("t").At("00000000-0000-7000-8000-000000000000").Invoke(bg, g.Continue()); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Fatalf("unknown checkpoint: %v", err)
	}
}

func TestThreadIsRequiredWithACheckpointer(t *testing.T) { // SONI-56
	b := visits(graph.New[trail]("g"), "a")
	b.AddEdge(graph.Start, "a")
	g := compile(t, b, graph.WithCheckpointer(checkpoint.NewMemory()))
	_, err := g.Invoke(bg, func(s *trail) error { return nil })
	if !errors.Is(err, graph.ErrThreadRequired) || !strings.Contains(err.Error(), "thread_id is required") {
		t.Fatal(err)
	}
	g = compile(t, b)
	must[*graph.Snapshot[trail]](t)(g.Invoke(bg, nil))
}

func TestMinimalGraphPersistsNothing(t *testing.T) { // W7-02, W7-08, W7-21, SONI-11
	b := graph.New[trail]("g")
	b.AddNode("a", func(_ context.Context, s *trail) error { s.N = 1; return nil })
	b.AddNode("b", func(_ context.Context, s *trail) error { s.N = 2; return nil })
	b.SetEntryPoint("a").AddEdge("a", "b")
	snap := must[*graph.Snapshot[trail]](t)(compile(t, b).Invoke(bg, nil))
	equal(t, "N", snap.State.N, 2)
	equal(t, "checkpoint", snap.Checkpoint, "")
}

func TestContinuingTwiceIsTheSame(t *testing.T) {
	g := asker(t)
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(s *trail) error { return nil })))
	one := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
	two := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
	equal(t, "checkpoint", one.Checkpoint, two.Checkpoint)
}

func TestTheDriverPattern(t *testing.T) { // SONI-08
	g := asker(t)
	say := func(message string) *graph.Snapshot[trail] {
		snap, err := g.Thread("t").State(bg)
		if err == nil && len(snap.Next) > 0 {
			return must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(message)))
		}
		return must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(s *trail) error {
			s.Note = message
			return nil
		})))
	}
	equal(t, "first turn", say("hi").State.Note, "hi")
	equal(t, "second turn", say("answer").State.Note, "answer")
	equal(t, "third turn", say("again").State.Note, "again")
}
