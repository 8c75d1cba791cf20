package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// again describes the events that are told again, and says where those of each
// checkpoint are.
func again(t *testing.T, evs []graph.Event) (out []string, at map[string]int) {
	t.Helper()
	at = map[string]int{"": 0}
	for _, ev := range evs {
		if len(ev.Path) > 0 {
			continue
		}
		switch ev.Type {
		case graph.EventUpdate:
			out = append(out, fmt.Sprintf("%s %d %s %s %s", ev.Type, ev.Step, ev.Node, ev.Task, ev.Update))
		case graph.EventValues:
			state := must[json.RawMessage](t)(ev.StateJSON())
			out = append(out, fmt.Sprintf("%s %d %s %v", ev.Type, ev.Step, state, ev.Next))
		case graph.EventCheckpoint:
			if ev.Source != "loop" && ev.Source != "input" { // it stands inside a superstep
				continue
			}
			at[ev.Checkpoint] = len(out)
			out = append(out, fmt.Sprintf("%s %d %s %s %s %v", ev.Type, ev.Step, ev.Checkpoint, ev.Parent, ev.Source, ev.Next))
		}
	}
	return out, at
}

// Whoever has seen a checkpoint is told all that was recorded since, just as the
// run told of it that recorded it.
func TestAStreamTellsWhatWasRecordedSince(t *testing.T) {
	recorded := graph.Modes(graph.ModeCheckpoints, graph.ModeUpdates, graph.ModeValues)
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		asks, turns := r.IntN(3) > 0, 1+r.IntN(3)
		inner := visits(graph.New[trail]("inner"), "i", "j").AddEdge(graph.Start, "i").AddEdge("i", "j")
		sub := compile(t, inner)
		b := visits(graph.New[trail]("g"), "a", "b", "quiet")
		b.AddNode("c", func(ctx context.Context, s *trail) error {
			if asks && s.N%2 == 0 {
				if _, err := graph.Interrupt[bool](ctx, "ok", "fine?"); err != nil {
					return err
				}
			}
			s.Ran.Add("c")
			return nil
		})
		b.AddNode("nothing", func(context.Context, *trail) error { return nil })
		graph.AddShared(b, "deep", sub, func(s *trail) *trail { return s })
		work := graph.AddTask(b, "work", func(_ context.Context, s *trail, n int) error { s.Total.Add(n); return nil })
		b.AddCommandNode("split", func(context.Context, *trail) (graph.Command, error) {
			return graph.Dispatch(work.Send(1), work.Send(2)), nil
		})
		b.AddEdge(graph.Start, "a").AddEdge("a", "b").AddEdge("a", "c").AddEdge("a", "nothing").AddEdge("a", "deep").AddEdge("c", "split").AddEdge("work", "quiet")
		g := compile(t, b, graph.WithCheckpointer(checkpoint.NewMemory()))
		var evs []graph.Event
		for turn := range turns {
			evs = append(evs, must[[]graph.Event](t)(collect(g.Thread("t").Stream(bg, g.Input(func(s *trail) error {
				s.N = turn
				return nil
			}), recorded)))...)
			if asks && turn%2 == 0 {
				var edits []func(*trail) error
				if r.IntN(2) == 0 {
					edits = append(edits, func(s *trail) error {
						s.Note = "edited"
						return nil
					})
				}
				evs = append(evs, must[[]graph.Event](t)(collect(g.Thread("t").Stream(bg, g.Answer(true, edits...), recorded)))...)
			}
		}
		// What a task wrote whose superstep stays open is told by each run.
		last := map[string]int{}
		for i, ev := range evs {
			last[string(ev.Type)+ev.Task] = i
		}
		var told []graph.Event
		for i, ev := range evs {
			if ev.Type != graph.EventUpdate || last[string(ev.Type)+ev.Task] == i {
				told = append(told, ev)
			}
		}
		all, at := again(t, told)
		for id, i := range at {
			got, _ := again(t, must[[]graph.Event](t)(collect(g.Thread("t").Stream(bg, g.Continue(), recorded, graph.Since(id)))))
			want := all[i:]
			if id != "" { // what was told of the checkpoint itself was seen
				n := 1
				for n < len(want) && want[n][:6] != "values" {
					n++
				}
				want = want[n+1:]
			}
			equalSlice(t, fmt.Sprintf("seed %d, since %q", seed, id), got, want)
		}
		if t.Failed() {
			return
		}
	}
}

func TestSinceACheckpointThatTheThreadDoesNotComeFrom(t *testing.T) {
	g := two(t)
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	first := ""
	for e, err := range g.Thread("t").History(bg, graph.HistoryQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		first = e.Checkpoint
	}
	must[*graph.Snapshot[trail]](t)(g.Thread("t").At(first).Invoke(bg, g.Restart(func(*trail) error { return nil })))
	ran := must[*graph.Snapshot[trail]](t)(g.Thread("t").State(bg))
	other := must[*graph.Snapshot[trail]](t)(g.Thread("other").Invoke(bg, g.Input(func(*trail) error { return nil })))
	for _, id := range []string{"unknown", other.Checkpoint} {
		_, err := collect(g.Thread("t").Stream(bg, g.Input(func(*trail) error { return nil }), graph.Since(id)))
		if !errors.Is(err, checkpoint.ErrNotFound) {
			t.Errorf("since %q: %v", id, err)
		}
	}
	equal(t, "the thread", must[*graph.Snapshot[trail]](t)(g.Thread("t").State(bg)).Checkpoint, ran.Checkpoint)
	if _, err := collect(g.Thread("new").Stream(bg, g.Input(func(*trail) error { return nil }), graph.Since(first))); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("a new thread: %v", err)
	}
	if evs, err := collect(g.Thread("new").Stream(bg, g.Input(func(*trail) error { return nil }), graph.Since(""))); err != nil || len(evs) != 2 {
		t.Errorf("a new thread from its beginning: %v, %v", evs, err)
	}
}

// An input into an open superstep is told of like any other, and again.
func TestValuesAfterAnInputIntoAnOpenSuperstep(t *testing.T) {
	b := visits(graph.New[trail]("g"), "b")
	b.AddNode("a", func(ctx context.Context, s *trail) error {
		_, err := graph.Interrupt[bool](ctx, "ok", "fine?")
		return err
	})
	b.AddEdge(graph.Start, "a").AddEdge(graph.Start, "b")
	g := compile(t, b, stored()...)
	asked := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	notes := func(evs []graph.Event) (out []string) {
		for _, ev := range evs {
			s, _ := graph.StateOf[trail](ev)
			out = append(out, s.Note+" "+s.ran())
		}
		return out
	}
	values := graph.Modes(graph.Mode(graph.ModeValues &^ (graph.ModeUpdates & graph.ModeValues)))
	evs := must[[]graph.Event](t)(collect(g.Thread("t").Stream(bg, g.Input(func(s *trail) error {
		s.Note = "more"
		return nil
	}), values)))
	equalSlice(t, "values", notes(evs), []string{"more b"})
	evs = must[[]graph.Event](t)(collect(g.Thread("t").Stream(bg, g.Continue(), values, graph.Since(asked.Checkpoint))))
	equalSlice(t, "values since", notes(evs), []string{"more b"})
}

func TestSinceWhatWasPrunedIsRefused(t *testing.T) {
	b := visits(graph.New[trail]("g"), "x", "y", "z")
	b.AddNode("a", func(ctx context.Context, s *trail) error {
		_, err := graph.Interrupt[bool](ctx, "ok", "fine?")
		return err
	})
	b.AddEdge(graph.Start, "a").AddEdge("a", "x").AddEdge("x", "y").AddEdge("y", "z")
	g := compile(t, b, stored()...)
	asked := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(true)))
	must[graph.Pruned](t)(g.Thread("t").Prune(bg, graph.Keep{Last: 1, Interrupts: true}))
	for _, since := range []string{asked.Checkpoint, ""} {
		if evs, err := collect(g.Thread("t").Stream(bg, g.Continue(), graph.Since(since))); !errors.Is(err, checkpoint.ErrNotFound) {
			t.Errorf("since %q: %v, %v", since, evs, err)
		}
	}
}

// An edit inside a superstep folds what tasks have written so far: that is told with
// the edit, and not once more when the superstep ends.
func TestSinceAnEditInsideASuperstep(t *testing.T) {
	b := visits(graph.New[trail]("g"), "b")
	b.AddNode("quiet", func(context.Context, *trail) error { return nil })
	b.AddNode("a", func(ctx context.Context, s *trail) error {
		if _, err := graph.Interrupt[bool](ctx, "ok", "fine?"); err != nil {
			return err
		}
		s.Ran.Add("a")
		return nil
	})
	b.AddEdge(graph.Start, "a").AddEdge(graph.Start, "b").AddEdge(graph.Start, "quiet")
	g := compile(t, b, stored()...)
	asked := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	edit := must[*graph.Snapshot[trail]](t)(g.Thread("t").Edit(bg, func(s *trail) error {
		s.Note = "edited"
		return nil
	}))
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(true)))
	told := func(since string) (told []string) {
		for _, ev := range must[[]graph.Event](t)(collect(g.Thread("t").Stream(bg, g.Continue(), graph.Modes(graph.ModeUpdates), graph.Since(since)))) {
			told = append(told, fmt.Sprintf("%d %s %s", ev.Step, ev.Node, ev.Update))
		}
		return told
	}
	equalSlice(t, "told since it was asked", told(asked.Checkpoint), []string{`1 b {"Ran":["b"]}`, `1 quiet `, `1 a {"Ran":["a"]}`})
	equalSlice(t, "told since the edit", told(edit.Checkpoint), []string{`1 a {"Ran":["a"]}`})
}

// An input into an open superstep is told of with what it folds, while it happens as
// afterwards, and once.
func TestAnInputIntoAnOpenSuperstepIsToldOnce(t *testing.T) {
	b := visits(graph.New[trail]("g"), "b")
	b.AddNode("a", func(ctx context.Context, s *trail) error {
		if _, err := graph.Interrupt[bool](ctx, "ok", "fine?"); err != nil {
			return err
		}
		s.Ran.Add("a")
		return nil
	})
	b.AddEdge(graph.Start, "a").AddEdge(graph.Start, "b")
	g := compile(t, b, stored()...)
	asked := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	recorded := graph.Modes(graph.ModeUpdates, graph.ModeValues)
	var live []graph.Event
	live = append(live, must[[]graph.Event](t)(collect(g.Thread("t").Stream(bg, g.Input(func(s *trail) error {
		s.Note = "more"
		return nil
	}), recorded)))...)
	live = append(live, must[[]graph.Event](t)(collect(g.Thread("t").Stream(bg, g.Answer(true), recorded)))...)
	tell := func(evs []graph.Event) (told []string) {
		for _, ev := range evs {
			switch s, ok := graph.StateOf[trail](ev); {
			case ok:
				told = append(told, fmt.Sprintf("%d %s %s, next %s", ev.Step, s.Note, s.ran(), ev.Next))
			case ev.Node != "" && ev.Update != nil:
				told = append(told, fmt.Sprintf("%d %s %s", ev.Step, ev.Node, ev.Update))
			}
		}
		return told
	}
	want := []string{`1 b {"Ran":["b"]}`, `0 more b, next [a]`, `1 a {"Ran":["a"]}`, `1 more b a, next []`}
	equalSlice(t, "told live", tell(live), want)
	equalSlice(t, "told since", tell(must[[]graph.Event](t)(collect(g.Thread("t").Stream(bg, g.Continue(), recorded, graph.Since(asked.Checkpoint))))), want)
}

// A checkpoint that the thread doesn't come from is refused whatever is to be told.
func TestSinceAnUnknownCheckpointRunsNothing(t *testing.T) {
	ran := 0
	b := graph.New[trail]("g")
	b.AddNode("a", func(context.Context, *trail) error { ran++; return nil }).AddEdge(graph.Start, "a")
	g := compile(t, b, stored()...)
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	if _, err := collect(g.Thread("t").Stream(bg, g.Input(func(*trail) error { return nil }), graph.Modes(graph.ModeCustom), graph.Since("unknown"))); !errors.Is(err, checkpoint.ErrNotFound) || ran != 1 {
		t.Errorf("the graph ran %d times: %v", ran, err)
	}
}

// What is told costs as much as there is of it.
func TestSinceReadsEachRecordOnce(t *testing.T) {
	const steps = 500
	b := graph.New[trail]("g")
	b.AddNode("a", func(_ context.Context, s *trail) error { s.Ran.Add("a"); s.N++; return nil })
	b.AddEdge(graph.Start, "a").AddRoutes("a", func(_ context.Context, s *trail) (string, error) {
		if s.N < steps {
			return "a", nil
		}
		return graph.End, nil
	}, map[string]string{"a": "a", graph.End: graph.End})
	store := &readCounter{Memory: checkpoint.NewMemory()}
	g := compile(t, b, graph.WithCheckpointer(store), graph.MaxSteps(steps+1))
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	store.read = 0
	evs := must[[]graph.Event](t)(collect(g.Thread("t").Stream(bg, g.Continue(), graph.Modes(graph.ModeValues), graph.Since(""))))
	if read := store.read; read > 3*steps || len(evs) < steps {
		t.Errorf("%d records were read for %d events of %d supersteps", read, len(evs), steps)
	}
}
