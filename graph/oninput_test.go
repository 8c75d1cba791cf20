package graph_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// charger charges in a node that fails, beside one that finishes.
func charger(t *testing.T, fail *bool, f func(s *trail, open graph.Open) (bool, error)) *graph.Graph[trail] {
	done := make(chan struct{}, 9)
	b := graph.New[trail]("g")
	b.AddNode("a", func(_ context.Context, s *trail) error { s.Ran.Add("a"); return nil })
	b.AddNode("b", func(_ context.Context, s *trail) error {
		s.Ran.Add("b")
		return nil
	})
	b.AddNode("c", func(ctx context.Context, s *trail) error {
		id, err := graph.Once(ctx, "charge", func(context.Context, string) (string, error) { return "charge 7", nil })
		if err != nil {
			return err
		}
		if *fail {
			<-done
			return errBoom
		}
		s.Ran.Add(id)
		return nil
	})
	b.AddEdge(graph.Start, "a").AddEdge("a", "b").AddEdge("a", "c")
	b.Defaults(graph.OnInput(f))
	return compile(t, b, append(stored(), graph.Observe(&exit{node: "b", then: func() { done <- struct{}{} }}))...)
}

type exit struct {
	node string
	then func()
}

func (e *exit) OnNodeEnter(graph.Event)       {}
func (e *exit) OnError(graph.Event)           {}
func (*exit) OnInterrupt(graph.Event)         {}
func (e *exit) OnCheckpointSaved(graph.Event) {}
func (e *exit) OnNodeExit(ev graph.Event) {
	if ev.Node == e.node {
		e.then()
	}
}

func TestInputMayStartATurnWhereSomethingIsPending(t *testing.T) {
	for how, request := range map[string]func(func(*trail) error) graph.Request[trail]{
		"input":   graph.Requests[trail]{}.Input,
		"restart": func(in func(*trail) error) graph.Request[trail] { return graph.Requests[trail]{}.Restart(in) },
		"at a": func(in func(*trail) error) graph.Request[trail] {
			return graph.Requests[trail]{}.Restart(in, graph.Goto("a"))
		},
	} {
		fail := true
		g := charger(t, &fail, func(s *trail, open graph.Open) (bool, error) {
			if len(open.Tasks) != 1 || open.Tasks[0].Node != "c" || open.Tasks[0].Error == "" || open.Restart != (how != "input") {
				t.Errorf("open: %+v", open)
			}
			var id string
			if found, err := open.Tasks[0].Recorded("charge", &id); err != nil || !found {
				t.Errorf("%v, found %v", err, found)
			}
			if found, err := open.Tasks[0].Recorded("other", &id); err != nil || found {
				t.Errorf("%v, found %v", err, found)
			}
			s.Ran.Add("known: " + id)
			return true, nil
		})
		if _, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })); !errors.Is(err, errBoom) {
			t.Fatal(err)
		}
		fail = false
		snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, request(func(s *trail) error {
			s.N = 2
			return nil
		})))
		equalSlice(t, "ran", snap.State.Ran.Slice(), []string{"a", "b", "known: charge 7", "a", "b", "charge 7"})
		equal(t, "done", snap.Done(), true)
		equal(t, "N", snap.State.N, 2)
	}
}

func TestInputMayBeFoldedOrRefusedByTheGraph(t *testing.T) {
	fail, refuse := true, errors.New("not now")
	g := charger(t, &fail, func(s *trail, _ graph.Open) (bool, error) {
		s.Ran.Add("folded")
		return false, refuse
	})
	if _, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })); !errors.Is(err, errBoom) {
		t.Fatal(err)
	}
	was := must[*graph.Snapshot[trail]](t)(g.Thread("t").State(bg))
	if _, err := g.Thread("t").Invoke(bg, g.Input(func(s *trail) error {
		s.N = 2
		return nil
	})); !errors.Is(err, refuse) {
		t.Fatal(err)
	}
	is := must[*graph.Snapshot[trail]](t)(g.Thread("t").State(bg))
	equal(t, "checkpoint after a refusal", is.Checkpoint, was.Checkpoint)
	fail, refuse = false, nil
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(s *trail) error {
		s.N = 2
		return nil
	})))
	if ran := snap.State.Ran.Slice(); !slices.Equal(ran, []string{"a", "b", "folded", "charge 7"}) || snap.State.N != 2 {
		t.Errorf("ran %q, N %d", ran, snap.State.N)
	}
	if _, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }), graph.OnInput(func(*int, graph.Open) (bool, error) { return true, nil })); err != nil {
		t.Errorf("nothing is pending, so nothing is decided: %v", err)
	}
}

// fatal is a store whose process dies at its nth write.
type fatal struct {
	checkpoint.Store
	left atomic.Int32
}

func (s *fatal) Write(ctx context.Context, w *checkpoint.Write) (checkpoint.Written, error) {
	if s.left.Add(-1) < 0 {
		return checkpoint.Written{}, errStalled
	}
	return s.Store.Write(ctx, w)
}

// What stays of a superstep that is given up is recorded with the input that starts the
// turn: a process that dies between them would leave a thread that has neither.
func TestATurnAndWhatItLeavesAreOneRecord(t *testing.T) {
	for writes := range 7 {
		fail := true
		g := charger(t, &fail, func(s *trail, _ graph.Open) (bool, error) {
			s.Ran.Add("given up")
			return true, nil
		})
		store := checkpoint.NewMemory()
		at := func(s checkpoint.Store) *graph.Thread[trail] {
			return g.Thread("t", graph.WithCheckpointer(s), graph.RecordOnce())
		}
		if _, err := at(store).Invoke(bg, g.Input(nothing)); !errors.Is(err, errBoom) {
			t.Fatal(err)
		}
		fail = false
		dies := &fatal{Store: store}
		dies.left.Store(int32(writes))
		_, err := at(dies).Invoke(bg, g.Input(func(s *trail) error { s.N = 2; return nil }))
		if err != nil && !errors.Is(err, errStalled) {
			t.Fatal(err)
		}
		snap := must[*graph.Snapshot[trail]](t)(at(store).Invoke(bg, g.Continue()))
		want := []string{"a", "b", "charge 7"}
		if snap.State.N == 2 {
			want = []string{"a", "b", "given up", "a", "b", "charge 7"}
		}
		equalSlice(t, fmt.Sprintf("ran after a death at write %d", writes), snap.State.Ran.Slice(), want)
		if writes > 0 && snap.State.N != 2 {
			t.Errorf("the input is lost at write %d", writes)
		}
		rec := taped(t, store, "t")
		same(t, g, rec)
		var nodes []string
		for e, err := range at(store).History(bg, graph.HistoryQuery{OldestFirst: true}) {
			if err != nil {
				t.Fatal(err)
			}
			nodes = append(nodes, fmt.Sprint(e.Source, e.Nodes))
		}
		if writes > 0 {
			equalSlice(t, "history", nodes, []string{"input[]", "loop[a]", "input[b]", "loop[a]", "loop[b c]"})
		}
	}
}
