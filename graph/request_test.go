package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// An option is given where it has an effect; elsewhere the program doesn't compile.
func TestOptionsAreTypedByTheCallThatTakesThem(t *testing.T) {
	for name, o := range map[string]struct {
		option                    any
		graph, thread, run, event bool
	}{
		"KeepState":        {graph.KeepState(), true, false, false, false},
		"InputSchema":      {graph.InputSchema("a", nil), true, false, false, false},
		"SchemaVersion":    {graph.SchemaVersion(1), true, false, false, false},
		"RequireDeps":      {graph.RequireDeps[int](), true, false, false, false},
		"WithCheckpointer": {graph.WithCheckpointer(checkpoint.NewMemory()), true, true, false, false},
		"Namespace":        {graph.Namespace("n"), true, true, false, false},
		"MaxSteps":         {graph.MaxSteps(1), true, true, true, true},
		"UseDeps":          {graph.UseDeps(1), true, true, true, true},
		"Modes":            {graph.Modes(graph.ModeValues), false, false, false, true},
		"Since":            {graph.Since(""), false, false, false, true},
		"Detach":           {graph.Detach(), false, false, false, true},
	} {
		_, ofGraph := o.option.(graph.Option)
		_, ofThread := o.option.(graph.ThreadOption)
		_, ofRun := o.option.(graph.RunOption)
		_, ofStream := o.option.(graph.StreamOption)
		equal(t, name+" of Compile", ofGraph, o.graph)
		equal(t, name+" of Thread", ofThread, o.thread)
		equal(t, name+" of Invoke", ofRun, o.run)
		equal(t, name+" of Stream", ofStream, o.event)
	}
}

func TestAnInputThatRefusesChangesNothing(t *testing.T) {
	g := asker(t)
	th := g.Thread("t")
	refuse := func(s *trail) error {
		s.Ran.Add("never")
		return errBoom
	}
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, errBoom) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := th.Invoke(bg, th.Input(refuse))
	refused("a first input", err)
	if _, err := th.State(bg); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("after a refused input: %v", err)
	}
	asked := must[*graph.Snapshot[trail]](t)(th.Invoke(bg, th.Input(func(*trail) error { return nil })))
	_, err = th.Invoke(bg, th.Input(refuse))
	refused("an input into a pending thread", err)
	_, err = th.Invoke(bg, th.Restart(refuse))
	refused("the input of a new turn", err)
	_, err = th.Invoke(bg, th.Answer("x", refuse))
	refused("the edit of an answer", err)
	_, err = th.Edit(bg, refuse)
	refused("an edit", err)
	_, err = th.EditAs(bg, graph.Start, refuse)
	refused("an edit as Start", err)
	snap := must[*graph.Snapshot[trail]](t)(th.State(bg))
	equal(t, "the thread stands at", snap.Checkpoint, asked.Checkpoint)
	_, err = th.BulkEdit(bg, nil)
	if err == nil {
		t.Error("no edit is an edit")
	}
}

// A request is a value: it may be given to several calls, and to Stream as to Invoke.
func TestARequestServesSeveralCalls(t *testing.T) {
	g := asker(t)
	start, answer := g.Input(func(s *trail) error { s.N++; return nil }), g.Answer("x")
	for _, id := range []string{"one", "two"} {
		th := g.Thread(id)
		must[*graph.Snapshot[trail]](t)(th.Invoke(bg, start))
		must[[]graph.Event](t)(collect(th.Stream(bg, answer)))
		snap := must[*graph.Snapshot[trail]](t)(th.State(bg))
		equal(t, "ran", snap.State.ran(), "a b c")
		equal(t, "N", snap.State.N, 1)
	}
}

func TestEditAsStartPlansATurnAndAsEndPlansNone(t *testing.T) {
	for name, pending := range map[string]bool{"of a thread that has ended": false, "of a thread that asks": true} {
		t.Run(name, func(t *testing.T) {
			g := asker(t)
			th := g.Thread("t")
			must[*graph.Snapshot[trail]](t)(th.Invoke(bg, th.Input(func(*trail) error { return nil })))
			ran := "a"
			if !pending {
				must[*graph.Snapshot[trail]](t)(th.Invoke(bg, th.Answer("x")))
				ran = "a b c"
			}
			snap := must[*graph.Snapshot[trail]](t)(th.EditAs(bg, graph.Start, func(s *trail) error { s.N = 5; return nil }))
			equalSlice(t, "next as Start", snap.Next, []string{"a"})
			equal(t, "N", snap.State.N, 5)
			equal(t, "ran", snap.State.ran(), ran)
			snap = must[*graph.Snapshot[trail]](t)(th.EditAs(bg, graph.End, func(s *trail) error { s.N = 6; return nil }))
			equal(t, "done as End", snap.Done(), true)
			equal(t, "N", snap.State.N, 6)
			snap = must[*graph.Snapshot[trail]](t)(th.Invoke(bg, th.Continue()))
			equal(t, "ran after End", snap.State.ran(), ran)
		})
	}
}

func TestHistoryFindsWhereANodeIsPending(t *testing.T) {
	g := abc(t)
	th := g.Thread("t")
	must[*graph.Snapshot[trail]](t)(th.Invoke(bg, th.Input(func(*trail) error { return nil })))
	for _, node := range []string{"a", "b", "c"} {
		es := entriesOf(t, th, graph.HistoryQuery{WhereNext: node})
		equal(t, "entries before "+node, len(es), 1)
		equalSlice(t, "next", es[0].Next, []string{node})
	}
	for _, err := range th.History(bg, graph.HistoryQuery{WhereNext: "bb"}) {
		wantErr[*graph.InvalidEdgeError](t, err)
	}
	for _, err := range th.History(bg, graph.HistoryQuery{Limit: -1}) {
		if err == nil {
			t.Error("a negative limit is taken")
		}
	}
}

// A graph from JSON is the same graph: the same threads, in JSON.
func TestAGraphIsServedAsJSON(t *testing.T) {
	g := asker(t)
	j := graph.JSON(g)
	th := j.Thread("t")
	snap := must[*graph.Snapshot[json.RawMessage]](t)(th.Invoke(bg, th.Input(graph.UpdateWith(json.RawMessage(`{"N": 7}`)))))
	equal(t, "asks", len(snap.Interrupts), 1)
	var unknown *graph.UnknownFieldError
	if _, err := th.Edit(bg, graph.UpdateWith(json.RawMessage(`{"M": 7}`))); !errors.As(err, &unknown) {
		t.Errorf("an edit of a field that there isn't: %v", err)
	}
	if err := j.CheckJSON(graph.JSONUpdate, []byte(`{"M": 7}`)); !errors.As(err, &unknown) {
		t.Errorf("a check of it: %v", err)
	}
	must[*graph.Snapshot[json.RawMessage]](t)(th.Edit(bg, graph.UpdateWith(json.RawMessage(`{"Note": "edited"}`))))
	typed := must[*graph.Snapshot[trail]](t)(g.Thread("t").State(bg))
	equal(t, "N", typed.State.N, 7)
	equal(t, "note", typed.State.Note, "edited")
	must[*graph.Snapshot[json.RawMessage]](t)(th.Invoke(bg, th.Answer("hello", graph.UpdateWith(json.RawMessage(`{"N": 8}`)))))
	for e, err := range th.History(bg, graph.HistoryQuery{Limit: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		var s struct {
			N    int
			Note string
		}
		if err := json.Unmarshal(must[json.RawMessage](t)(e.State(bg)), &s); err != nil || s.N != 8 || s.Note != "hello" {
			t.Errorf("state in JSON: %+v, %v", s, err)
		}
	}
	if err := j.UpdateJSON(new(json.RawMessage), []byte(`{}`)); err == nil {
		t.Error("UpdateJSON on JSON does nothing and says nothing")
	}
}

// An answer's edit that is nil is none: an answer to nobody continues the thread, with
// it as without.
func TestANilEditOfAnAnswerIsNone(t *testing.T) {
	for name, edits := range map[string][]func(*trail) error{"no edit": nil, "nil": {nil}} {
		t.Run(name, func(t *testing.T) {
			opts, broken := stored(), true
			b := visits(graph.New[trail]("g"), "a").AddNode("b", func(_ context.Context, s *trail) error {
				if broken {
					return errBoom
				}
				s.Ran.Add("b")
				return nil
			})
			g := compile(t, b.AddEdge(graph.Start, "a").AddEdge("a", "b"), opts...)
			th := g.Thread("t")
			if _, err := th.Invoke(bg, th.Input(func(*trail) error { return nil })); !errors.Is(err, errBoom) {
				t.Fatal(err)
			}
			broken = false
			snap := must[*graph.Snapshot[trail]](t)(th.Invoke(bg, th.Answer(nil, edits...)))
			equal(t, "ran", snap.State.ran(), "a b")
			sources := []string{}
			for _, e := range entriesOf(t, th) {
				sources = append(sources, e.Source)
			}
			equalSlice(t, "sources", sources, []string{"loop", "loop", "input"})
		})
	}
}

// A command that an edit can't follow is refused.
func TestAnEditThatLeadsNowhereTakesNoCommand(t *testing.T) {
	g := asker(t)
	th := g.Thread("t")
	asked := must[*graph.Snapshot[trail]](t)(th.Invoke(bg, th.Input(func(*trail) error { return nil })))
	for _, node := range []string{"", graph.End} {
		_, err := th.BulkEdit(bg, []graph.Edit[trail]{{AsNode: node, Command: graph.Goto("a")}})
		if err == nil || !strings.Contains(err.Error(), "Command") {
			t.Errorf("as %q: %v", node, err)
		}
	}
	snap := must[*graph.Snapshot[trail]](t)(th.State(bg))
	equal(t, "the thread stands at", snap.Checkpoint, asked.Checkpoint)
}

// History finds where a node was pending under a name that it had.
func TestHistoryFindsWhereANodeWasPendingUnderAFormerName(t *testing.T) {
	opts := stored()
	older := compile(t, visits(graph.New[trail]("g"), "a", "b").AddEdge(graph.Start, "a").AddEdge("a", "b"), opts...)
	must[*graph.Snapshot[trail]](t)(older.Thread("t").Invoke(bg, older.Input(func(*trail) error { return nil })))
	b := visits(graph.New[trail]("g"), "a").AddNode("c", visit("c"), graph.Formerly("b"))
	g := compile(t, b.AddEdge(graph.Start, "a").AddEdge("a", "c"), opts...)
	equal(t, "entries before c", len(entriesOf(t, g.Thread("t"), graph.HistoryQuery{WhereNext: "c"})), 1)
}
