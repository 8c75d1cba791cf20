package graph_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

func abc(t testing.TB, opts ...graph.Option) *graph.Graph[trail] {
	b := visits(graph.New[trail]("abc"), "a", "b", "c")
	b.AddEdge(graph.Start, "a").AddSequence("a", "b", "c")
	return compile(t, b, append(stored(), opts...)...)
}

func TestACheckpointAfterEveryStep(t *testing.T) { // W7-27, TRPC-50, SONI-01, SYN-18
	g := abc(t)
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }), graph.Metadata("user", "ann")))
	es := entriesOf(t, g.Thread("t"))
	equal(t, "checkpoints", len(es), 4)
	for i, e := range es {
		equal(t, "step, newest first", e.Step, 3-i)
		equal(t, "metadata", e.Metadata["user"], "ann")
		if e.CreatedAt.IsZero() || e.CreatedAt.Location().String() != "UTC" {
			t.Errorf("created at %v", e.CreatedAt)
		}
		if i > 0 {
			equal(t, "lineage", es[i-1].Parent, e.Checkpoint)
			if es[i-1].CreatedAt.Before(e.CreatedAt) {
				t.Error("times decrease")
			}
		}
		state := must[trail](t)(e.State(bg))
		equal(t, "state", state.Ran.Len(), e.Step)
	}
	oldest := entriesOf(t, g.Thread("t"), graph.HistoryQuery{OldestFirst: true}) // SYN-23, C-17
	slices.Reverse(oldest)
	for i := range es {
		equal(t, "checkpoint", oldest[i].Checkpoint, es[i].Checkpoint)
	}
	equalSlice(t, "next of the first", oldest[3].Next, []string{"a"})
	equal(t, "next of the last", len(oldest[0].Next), 0)
}

func TestHistoryFilters(t *testing.T) { // TRPC-54
	g := abc(t)
	for turn := range 5 {
		must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }), graph.Metadata("turn", fmt.Sprint(turn))))
	}
	equal(t, "limit", len(entriesOf(t, g.Thread("t"), graph.HistoryQuery{Limit: 10})), 10)
	equal(t, "inputs", len(entriesOf(t, g.Thread("t"), graph.HistoryQuery{Source: "input"})), 5)
	equal(t, "turn 3", len(entriesOf(t, g.Thread("t"), graph.HistoryQuery{Metadata: map[string]string{"turn": "3"}})), 4)
	equal(t, "both", len(entriesOf(t, g.Thread("t"), graph.HistoryQuery{Metadata: map[string]string{"turn": "3"}, Source: "loop"})), 3)
	equal(t, "unknown thread", len(entriesOf(t, g.Thread("unknown"))), 0)
	from := entriesOf(t, g.Thread("t"))[7].Checkpoint
	equal(t, "before a checkpoint", len(entriesOf(t, g.Thread("t").At(from))), 13)
}

func TestThreadsAreIsolated(t *testing.T) { // SYN-21, SONI-02
	g := abc(t)
	for i := range 50 {
		must[*graph.Snapshot[trail]](t)(g.Thread(fmt.Sprint(i)).Invoke(bg, g.Input(func(s *trail) error {
			s.N = i
			return nil
		})))
	}
	for i := range 50 {
		equal(t, "N", must[*graph.Snapshot[trail]](t)(g.Thread(fmt.Sprint(i)).State(bg)).State.N, i)
	}
	if err := g.Thread("7").Delete(bg); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Thread("7").State(bg); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Error(err)
	}
	equal(t, "N", must[*graph.Snapshot[trail]](t)(g.Thread("8").State(bg)).State.N, 8)
}

func TestNamespacesAreIsolated(t *testing.T) {
	g := abc(t)
	must[*graph.Snapshot[trail]](t)(g.Thread("t", graph.Namespace("svc:prod:one")).Invoke(bg, g.Input(func(s *trail) error {
		s.N = 1
		return nil
	})))
	must[*graph.Snapshot[trail]](t)(g.Thread("t", graph.Namespace("svc:prod:two")).Invoke(bg, g.Input(func(s *trail) error {
		s.N = 2
		return nil
	})))
	equal(t, "N", must[*graph.Snapshot[trail]](t)(g.Thread("t", graph.Namespace("svc:prod:one")).State(bg)).State.N, 1)
	if _, err := g.Thread("t").State(bg); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Error(err)
	}
}

func TestTimeTravelLeavesTheOldBranch(t *testing.T) { // TRPC-52, SONI-38
	g := abc(t)
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(s *trail) error {
		s.N = 41
		return nil
	})))
	es := entriesOf(t, g.Thread("t"))
	step1 := es[2]
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").At(step1.Checkpoint).Invoke(bg, g.Continue()))
	equal(t, "ran", snap.State.ran(), "a b c")
	equal(t, "types are kept", snap.State.N, 41)
	line := entriesOf(t, g.Thread("t"))
	equal(t, "the branch goes back to the fork", line[3].Checkpoint, step1.Checkpoint)
	equal(t, "and to the root", len(line), 5) // input, a, fork, b, c
	all := entriesOf(t, g.Thread("t"), graph.HistoryQuery{AllBranches: true})
	equal(t, "all branches", len(all), 7)
	for _, e := range es {
		state := must[trail](t)(e.State(bg))
		equal(t, "old branch", state.Ran.Len(), e.Step)
	}
}

func TestForkKeepsWhatIsPendingAndTheOldLine(t *testing.T) {
	ran := &calls{}
	b := graph.New[trail]("g")
	b.AddNode("free", func(_ context.Context, s *trail) error { ran.add("free"); s.Ran.Add("free"); return nil })
	b.AddNode("ask", func(ctx context.Context, s *trail) error {
		v, err := graph.Interrupt[string](ctx, "k", nil)
		s.Ran.Add(v)
		return err
	})
	b.AddEdge(graph.Start, "free").AddEdge(graph.Start, "ask")
	g := compile(t, b, stored()...)
	asked := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	must[*graph.Snapshot[trail]](t)(g.Thread("t").At(asked.Checkpoint).Fork(bg))
	one := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer("one")))
	equal(t, "ran", one.State.ran(), "free one")
	two := must[*graph.Snapshot[trail]](t)(g.Thread("t").At(asked.Checkpoint).Invoke(bg, g.Answer("two")))
	equal(t, "ran", two.State.ran(), "free two")
	equal(t, "the first branch", must[*graph.Snapshot[trail]](t)(g.Thread("t").At(one.Checkpoint).State(bg)).State.ran(), "free one")
	if n := ran.of("free"); n > 2 {
		t.Errorf("free ran %d times", n)
	}
}

func TestForkAnswersSeveralDecisionsAndComparesThem(t *testing.T) {
	g := asker(t)
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	asked := must[*graph.Snapshot[trail]](t)(g.Thread("t").State(bg))
	for _, answer := range []string{"x", "y", "z"} {
		snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").At(asked.Checkpoint).Invoke(bg, g.Answer(answer)))
		equal(t, "note", snap.State.Note, answer)
	}
	equal(t, "branches", len(entriesOf(t, g.Thread("t"), graph.HistoryQuery{AllBranches: true, Source: "fork"})), 3)
}

func TestCopyThread(t *testing.T) {
	g := asker(t)
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	if err := g.Thread("t").Copy(bg, "copy"); err != nil {
		t.Fatal(err)
	}
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer("original")))
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("copy").Invoke(bg, g.Answer("copied")))
	equal(t, "copy", snap.State.Note, "copied")
	equal(t, "original", must[*graph.Snapshot[trail]](t)(g.Thread("t").State(bg)).State.Note, "original")
	if err := g.Thread("t").Copy(bg, "copy"); !errors.Is(err, checkpoint.ErrConflict) {
		t.Error(err)
	}
	if err := g.Thread("nobody").Copy(bg, "x"); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Error(err)
	}
}

func TestEditsOfAThread(t *testing.T) { // SYN-25
	g := abc(t)
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Edit(bg, func(s *trail) error {
		s.N = 1
		return nil
	})) // starts a thread
	equal(t, "step", snap.Step, 0)
	equal(t, "done", snap.Done(), true)
	snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").BulkEdit(bg, []graph.Edit[trail]{
		{Apply: func(s *trail) error {
			s.Ran.Add("as a")
			return nil
		}, AsNode: "a"},
		{Apply: func(s *trail) error {
			s.Ran.Add("as b")
			return nil
		}, AsNode: "b"},
	}))
	equalSlice(t, "next", snap.Next, []string{"c"})
	snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
	equal(t, "ran", snap.State.ran(), "as a as b c")
	_, err := g.Thread("t").EditAs(bg, "nobody", nil)
	wantErr[*graph.InvalidEdgeError](t, err)
	first := entriesOf(t, g.Thread("t"), graph.HistoryQuery{OldestFirst: true})[0]
	snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").At(first.Checkpoint).Edit(bg, func(s *trail) error {
		s.N = 2
		return nil
	}))
	equal(t, "on a branch of the past", snap.State.ran(), "")
	equal(t, "N", snap.State.N, 2)
}

func TestEditWithACommand(t *testing.T) {
	g := abc(t)
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").EditAs(bg, "a", func(s *trail) error { return nil }, graph.Goto("c")))
	equalSlice(t, "next", snap.Next, []string{"c"})
}

func TestLongThreadsAreReadBackExactly(t *testing.T) { // snapshots and ranges
	type state struct {
		Items graph.List[string]
		Known graph.Map[string, int]
		Text  string
		N     int
	}
	b := graph.New[state]("g")
	b.AddNode("a", func(_ context.Context, s *state) error {
		s.N++
		s.Items.Add(strings.Repeat("x", 200) + fmt.Sprint(s.N))
		s.Known.Put(fmt.Sprint(s.N%50), s.N)
		if s.N%70 == 0 {
			s.Items.Overwrite(fmt.Sprint("cut at ", s.N))
		}
		s.Text = strings.Repeat("t", s.N%300)
		return nil
	})
	b.AddEdge(graph.Start, "a")
	g := compile(t, b, stored()...)
	var want []string
	for i := 1; i <= 300; i++ {
		snap := must[*graph.Snapshot[state]](t)(g.Thread("t").Invoke(bg, g.Input(func(s *state) error {
			if i%3 == 0 {
				s.Items.Add("input")
			}
			return nil
		})))
		want = append(want, fmt.Sprint(snap.State.Items.Slice(), snap.State.N, snap.State.Text, snap.State.Known))
	}
	i := 300
	for e, err := range g.Thread("t").History(bg, graph.HistoryQuery{Source: "loop"}) {
		if err != nil {
			t.Fatal(err)
		}
		if i%7 == 0 {
			s := must[state](t)(e.State(bg))
			if got := fmt.Sprint(s.Items.Slice(), s.N, s.Text, s.Known); got != want[i-1] {
				t.Fatalf("turn %d reads back as %.300s\nwant %.300s", i, got, want[i-1])
			}
		}
		i--
	}
}

func TestSnapshotsOfAThreadOverItsLife(t *testing.T) { // SONI-37, SONI-39, SYN-22, SONI-59
	g := asker(t)
	if _, err := g.Thread("t").State(bg); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Fatal(err)
	}
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").State(bg))
	equal(t, "next", strings.Join(snap.Next, ","), "b")
	equal(t, "payload", fmt.Sprint(snap.Interrupts[0].Value), "what note?")
	equal(t, "status", snap.Tasks[0].Status, "interrupted")
	if snap.Checkpoint == "" || snap.CreatedAt.IsZero() || snap.Thread != "t" {
		t.Errorf("%+v", snap)
	}
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer("n")))
	snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").State(bg))
	equal(t, "done", snap.Done(), true)
	equal(t, "interrupts", len(snap.Interrupts), 0)
}

func TestW1SecondRunOnAThreadIsBusy(t *testing.T) {
	in := make(chan struct{})
	out := make(chan struct{})
	b := graph.New[trail]("g")
	b.AddNode("a", func(_ context.Context, s *trail) error {
		in <- struct{}{}
		<-out
		s.Ran.Add("a")
		return nil
	})
	b.AddEdge(graph.Start, "a")
	g := compile(t, b, stored()...)
	done := make(chan error)
	go func() {
		_, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }))
		done <- err
	}()
	<-in
	for _, call := range []func() error{
		func() error {
			_, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }))
			return err
		},
		func() error { _, err := g.Thread("t").Edit(bg, func(*trail) error { return nil }); return err },
	} {
		if err := call(); !errors.Is(err, graph.ErrThreadBusy) {
			t.Error(err)
		}
	}
	if _, err := g.Thread("t").State(bg); err != nil {
		t.Error(err) // reading is always possible
	}
	close(out)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	equal(t, "ran", must[*graph.Snapshot[trail]](t)(g.Thread("t").State(bg)).State.ran(), "a")
}

func TestHistoryNamesNodesThatWroteNothing(t *testing.T) {
	b := visits(graph.New[trail]("silent"), "loud")
	b.AddNode("silent", func(context.Context, *trail) error { return nil })
	b.AddEdge(graph.Start, "silent").AddEdge(graph.Start, "loud")
	g := compile(t, b, stored()...)
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	es := entriesOf(t, g.Thread("t"))
	equalSlice(t, "nodes", es[0].Nodes, []string{"loud", "silent"})
}

func TestHistoryShowsWhatIsPendingAfterAnEdit(t *testing.T) {
	b := visits(graph.New[trail]("g"), "a", "b", "c").AddEdge(graph.Start, "a").AddEdge("a", "b").AddEdge("a", "c")
	g := compile(t, b, append(stored(), graph.InterruptBefore("b", "c"))...)
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	next := func(want ...string) {
		t.Helper()
		newest := entriesOf(t, g.Thread("t"))[0]
		equal(t, "source", newest.Source, "update")
		equalSlice(t, "next in the history", newest.Next, want)
		equalSlice(t, "next", must[*graph.Snapshot[trail]](t)(g.Thread("t").State(bg)).Next, want)
	}
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Edit(bg, func(s *trail) error {
		s.N = 1
		return nil
	}))
	next("b", "c")
	must[*graph.Snapshot[trail]](t)(g.Thread("t").EditAs(bg, "b", func(s *trail) error {
		s.N = 2
		return nil
	}))
	next("c")
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Edit(bg, func(s *trail) error {
		s.N = 3
		return nil
	}))
	next()
}

// Before its first checkpoint a thread can begin again, beside what it holds.
func TestAThreadBeginsAgainAtItsStart(t *testing.T) {
	for kind, seed := range map[string]uint64{"memory": 0, "files": 7, "SQLite": 8} {
		t.Run(kind, func(t *testing.T) {
			store := storeOf(t, seed)
			b := visits(graph.New[trail]("line"), "a", "b").AddEdge(graph.Start, "a").AddEdge("a", "b")
			g := compile(t, b, graph.WithCheckpointer(store))
			set := func(note string) graph.Request[trail] {
				return g.Input(func(s *trail) error { s.Note = note; return nil })
			}
			thread, start := g.Thread("t"), g.Thread("t").At(graph.Start)
			if _, err := start.Invoke(bg, g.Continue()); !errors.Is(err, graph.ErrNothingToResume) {
				t.Errorf("a thread without checkpoints goes on at its start: %v", err)
			}
			first := must[*graph.Snapshot[trail]](t)(start.Invoke(bg, set("first")))
			must[*graph.Snapshot[trail]](t)(thread.Invoke(bg, set("more")))
			again := must[*graph.Snapshot[trail]](t)(start.Invoke(bg, set("again")))
			equal(t, "what it is then", again.State.ran()+" "+again.State.Note, "a b again")
			equal(t, "the thread", must[*graph.Snapshot[trail]](t)(thread.State(bg)).State.Note, "again")
			equal(t, "what was", must[*graph.Snapshot[trail]](t)(thread.At(first.Checkpoint).State(bg)).State.Note, "first")
			line := entriesOf(t, thread)
			equal(t, "the line", len(line), 3)
			equal(t, "the oldest's parent", line[2].Parent, "")
			equal(t, "of all branches", len(entriesOf(t, thread, graph.HistoryQuery{AllBranches: true})), 9)
			edited := must[*graph.Snapshot[trail]](t)(start.EditAs(bg, "a", func(s *trail) error { s.Note = "edited"; return nil }))
			equalSlice(t, "what follows an edit there", edited.Next, []string{"b"})
			for _, err := range []error{
				second(start.Fork(bg)), second(start.Invoke(bg, g.Continue())), second(start.Invoke(bg, g.Answer("yes"))),
			} {
				if !errors.Is(err, checkpoint.ErrNotFound) && !errors.Is(err, graph.ErrNothingToResume) {
					t.Errorf("there is something at the start: %v", err)
				}
			}
			empty := must[*graph.Snapshot[trail]](t)(start.State(bg))
			equal(t, "the state there", empty.State.ran()+empty.State.Note+empty.Checkpoint, "")
			equal(t, "a history before the first", len(entriesOf(t, start)), 0)
			equal(t, "the thread after refusals", must[*graph.Snapshot[trail]](t)(thread.State(bg)).State.Note, "edited")
		})
	}
}

func second[T any](_ T, err error) error { return err }
