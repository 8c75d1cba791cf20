package graph_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graphtest"
)

// approver has a node that begins with a question, as f says.
func approver(f func(s *trail) (any, []graph.AskOption, bool)) *graph.Builder[trail] {
	b := graph.New[trail]("g")
	b.AddNode("write", func(_ context.Context, s *trail) error {
		s.Ran.Add("write")
		s.N++
		return nil
	})
	b.AddNode("ask", func(ctx context.Context, s *trail) error {
		ok, err := graph.Interrupt[bool](ctx, "ok", fmt.Sprint("is it ", s.N, "?"))
		if errors.As(err, new(*graph.DeadlineError)) {
			s.Ran.Add("too late")
			return nil
		}
		if err != nil {
			return err
		}
		s.Ran.Add(fmt.Sprint(ok))
		return nil
	}, graph.AskFirst[trail, bool]("ok", f))
	return b.AddEdge(graph.Start, "write").AddEdge("write", "ask")
}

func isIt(s *trail) (any, []graph.AskOption, bool) { return fmt.Sprint("is it ", s.N, "?"), nil, true }

func sources[S any](t *testing.T, th *graph.Thread[S]) (list []string) {
	t.Helper()
	for e, err := range th.History(bg, graph.HistoryQuery{OldestFirst: true}) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprintf("%s%v%v", e.Source, e.Nodes, e.Next))
	}
	return list
}

func TestAQuestionAtANodesBeginningNeedsNoRecordOfItsOwn(t *testing.T) {
	store := checkpoint.NewMemory()
	g := compile(t, approver(isIt), graph.WithCheckpointer(store))
	th := g.Thread("t")
	var told []string
	for ev, err := range th.Stream(bg, g.Input(nothing), graph.Modes(graph.ModeDebug)) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Type == graph.EventInterrupt {
			told = append(told, fmt.Sprint(ev.Node, " ", ev.Interrupt.Value))
		}
	}
	equalSlice(t, "told", told, []string{"ask is it 1?"})
	equalSlice(t, "history", sources(t, th), []string{"input[][write]", "loop[write][ask]"})
	snap := must[*graph.Snapshot[trail]](t)(th.State(bg))
	if len(snap.Interrupts) != 1 || snap.Interrupts[0].Key != "ok" || snap.Tasks[0].Status != "interrupted" {
		t.Errorf("%+v %+v", snap.Interrupts, snap.Tasks)
	}
	for _, wrong := range []any{"yes", 1} {
		if _, err := th.Invoke(bg, g.Answer(wrong)); !errors.As(err, new(*graph.AnswerError)) {
			t.Errorf("an answer of another type: %v", err)
		}
	}
	planned := snap.Checkpoint
	snap = must[*graph.Snapshot[trail]](t)(th.Invoke(bg, g.Answer(true)))
	equalSlice(t, "ran", snap.State.Ran.Slice(), []string{"write", "true"})
	equalSlice(t, "history", sources(t, th), []string{"input[][write]", "loop[write][ask]", "resume[][]", "loop[ask][]"})
	same(t, g, taped(t, store, "t"))

	// From there it is asked again, and so it is where the superstep begins anew.
	snap = must[*graph.Snapshot[trail]](t)(th.At(planned).Invoke(bg, g.Answer(false)))
	equalSlice(t, "ran on a branch", snap.State.Ran.Slice(), []string{"write", "false"})
	must[*graph.Snapshot[trail]](t)(th.Invoke(bg, g.Restart(nothing)))
	snap = must[*graph.Snapshot[trail]](t)(th.Invoke(bg, g.RestartStep()))
	equal(t, "questions after a restart", len(snap.Interrupts), 1)
	snap = must[*graph.Snapshot[trail]](t)(th.Invoke(bg, g.Answer(true)))
	equalSlice(t, "ran after a restart", snap.State.Ran.Slice(), []string{"write", "false", "write", "true"})
}

// What can't be asked first is asked by the node.
func TestANodeAsksByItselfWhatItCannotAskFirst(t *testing.T) {
	for name, f := range map[string]func(s *trail) (any, []graph.AskOption, bool){
		"a panic": func(*trail) (any, []graph.AskOption, bool) { panic("oh no") },
		"no JSON": func(*trail) (any, []graph.AskOption, bool) { return make(chan int), nil, true },
		"nothing": func(*trail) (any, []graph.AskOption, bool) { return nil, nil, false },
		"no schema": func(*trail) (any, []graph.AskOption, bool) {
			return nil, []graph.AskOption{graph.AnswerSchema([]byte(`7`))}, true
		},
		"what writes the state": func(s *trail) (any, []graph.AskOption, bool) { s.N = 7; return nil, nil, false },
	} {
		g := compile(t, approver(f), stored()...)
		th := g.Thread("t")
		snap := must[*graph.Snapshot[trail]](t)(th.Invoke(bg, g.Input(nothing)))
		equalSlice(t, name, sources(t, th), []string{"input[][write]", "loop[write][ask]", "interrupt[][ask]"})
		equal(t, name, fmt.Sprint(snap.Interrupts[0].Value), "is it 1?")
		snap = must[*graph.Snapshot[trail]](t)(th.Invoke(bg, g.Answer(true)))
		equalSlice(t, name, snap.State.Ran.Slice(), []string{"write", "true"})
	}
	b := graph.AddSubgraph(graph.New[trail]("outer"), "inner", compile(t, approver(isIt)), graph.Mapping[trail, trail]{Out: func(c, p *trail) { p.Ran.Add(c.Ran.Slice()...) }})
	g := compile(t, b.AddEdge(graph.Start, "inner"), stored()...)
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(nothing)))
	equal(t, "asked in a subgraph", fmt.Sprint(snap.Interrupts[0].Value), "is it 1?")
	snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(true)))
	equalSlice(t, "ran in a subgraph", snap.State.Ran.Slice(), []string{"write", "true"})
	if _, err := approver(nil).Compile(); !errors.As(err, new(*graph.CompileError)) {
		t.Errorf("without a function: %v", err)
	}
}

func TestAQuestionAskedFirstHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := compile(t, approver(within(time.Minute)), stored()...)
		th := g.Thread("t")
		snap := must[*graph.Snapshot[trail]](t)(th.Invoke(bg, g.Input(nothing)))
		equal(t, "deadline", time.Until(snap.Interrupts[0].Deadline), time.Minute)
		time.Sleep(time.Minute)
		snap = must[*graph.Snapshot[trail]](t)(th.Invoke(bg, g.Continue()))
		equalSlice(t, "ran", snap.State.Ran.Slice(), []string{"write", "too late"})
	})
}

func within(d time.Duration) func(*trail) (any, []graph.AskOption, bool) {
	return func(*trail) (any, []graph.AskOption, bool) { return nil, []graph.AskOption{graph.Deadline(d)}, true }
}

// A replay stands where its recording stood, whatever the clock says.
func TestAReplayLetsNoDeadlinePass(t *testing.T) {
	store := checkpoint.NewMemory()
	g := compile(t, approver(within(time.Nanosecond)), graph.WithCheckpointer(store))
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(nothing)))
	equalSlice(t, "ran", snap.State.Ran.Slice(), []string{"write", "too late"})
	same(t, g, taped(t, store, "t"))
}

func TestAReplayComparesWhatIsAskedFirst(t *testing.T) {
	store := checkpoint.NewMemory()
	g := compile(t, approver(isIt), graph.WithCheckpointer(store))
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(nothing)))
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(true)))
	rec := taped(t, store, "t")
	same(t, g, rec)
	same(t, compile(t, approver(func(*trail) (any, []graph.AskOption, bool) { return nil, nil, false })), rec)
	other := compile(t, approver(func(*trail) (any, []graph.AskOption, bool) { return "well?", nil, true }))
	first(t, other, rec, `1 /ask question : asks "ok": "is it 1?" | asks "ok": "well?"`)
}

func TestAQuestionAskedFirstSurvivesACrashAtAnyWrite(t *testing.T) {
	graphtest.CheckRecovery(t, func() *graph.Builder[trail] { return approver(isIt) }, nothing, graphtest.Script{"ok": {true}})
}
