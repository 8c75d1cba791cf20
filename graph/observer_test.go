package graph_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/graph"
)

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
