package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/race"
)

// diary is a state with fields of all kinds, so that pruning has something to
// get wrong.
type diary struct {
	Day   int
	Mood  string
	Pages graph.List[string]
	Words graph.Map[string, int]
	Total graph.Sum[int]
	Left  int // days until the run ends
}

func diaryGraph(t testing.TB, store checkpoint.Store) *graph.Graph[diary] {
	t.Helper()
	b := graph.New[diary]("diary")
	b.AddNode("write", func(ctx context.Context, s *diary) error {
		s.Day++
		s.Mood = fmt.Sprint("mood ", s.Day%3)
		s.Pages.Add(fmt.Sprintf("page %d %0300d", s.Day, s.Day))
		s.Words.Put(s.Mood, s.Day)
		s.Total.Add(s.Day)
		if s.Day%5 == 0 {
			ok, err := graph.Interrupt[string](ctx, "title", s.Day)
			if err != nil {
				return err
			}
			s.Pages.Add(ok)
		}
		s.Left--
		return nil
	})
	b.AddEdge(graph.Start, "write")
	b.AddConditionalEdges("write", func(_ context.Context, s *diary) (graph.Command, error) {
		if s.Left > 0 {
			return graph.Goto("write"), nil
		}
		return graph.Goto(graph.End), nil
	}, "write", graph.End)
	return compile(t, b, graph.WithCheckpointer(store))
}

func asJSON(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// spend runs the diary for some days, giving titles as it asks for them.
func spend(t testing.TB, g *graph.Graph[diary], days int, from ...string) *graph.Snapshot[diary] {
	t.Helper()
	return spendOn(t, g, "t", days, from...)
}

func TestPruneLeavesWhatItLeavesAsItWas(t *testing.T) { // W3, Q-12
	days := 30
	if race.Enabled {
		days = 12
	}
	rapid.Check(t, func(rt *rapid.T) {
		store := checkpoint.NewMemory()
		g := diaryGraph(t, store)
		spend(t, g, rapid.IntRange(1, days).Draw(rt, "days"))
		for range rapid.IntRange(0, 3).Draw(rt, "forks") {
			es := entriesOf(t, g.Thread("t"), graph.HistoryQuery{AllBranches: true})
			from := es[rapid.IntRange(0, len(es)-1).Draw(rt, "from")]
			spend(t, g, rapid.IntRange(1, 8).Draw(rt, "more days"), from.Checkpoint)
		}
		if rapid.Bool().Draw(rt, "pending") { // at a question
			if _, err := g.Thread("t").Invoke(bg, g.Input(func(s *diary) error {
				s.Left = 9
				return nil
			})); err != nil {
				rt.Fatal(err)
			}
		}
		for range rapid.IntRange(1, 3).Draw(rt, "times") {
			was := map[string]string{}
			for _, e := range entriesOf(t, g.Thread("t"), graph.HistoryQuery{AllBranches: true}) {
				s, err := e.State(bg)
				if err != nil {
					rt.Fatal(err)
				}
				was[e.Checkpoint] = asJSON(t, s)
			}
			newest, err := g.Thread("t").State(bg)
			if err != nil {
				rt.Fatal(err)
			}
			if err := g.Thread("t").Copy(bg, "twin"); err != nil {
				rt.Fatal(err)
			}
			marked := map[string]bool{}
			for id := range was {
				marked[id] = rapid.IntRange(0, 9).Draw(rt, "mark") == 0
			}
			keep := graph.Keep{
				Last: rapid.IntRange(0, 12).Draw(rt, "last"), Interrupts: rapid.Bool().Draw(rt, "interrupts"), DropForks: rapid.Bool().Draw(rt, "drop forks"),
				Where: func(r *checkpoint.Record) bool { return marked[string(r.ID)] },
			}
			pruned, err := g.Thread("t").Prune(bg, keep)
			if err != nil {
				rt.Fatal(err)
			}
			left := entriesOf(t, g.Thread("t"), graph.HistoryQuery{AllBranches: true})
			if pruned.Kept != len(left) || pruned.Kept+pruned.Removed != len(was) {
				rt.Fatalf("%+v, but %d of %d are left", pruned, len(left), len(was))
			}
			for _, e := range left {
				s, err := e.State(bg)
				if err != nil {
					rt.Fatalf("state at %s: %v", e.Checkpoint, err)
				}
				if got := asJSON(t, s); got != was[e.Checkpoint] {
					rt.Fatalf("state at %s is\n%s, was\n%s", e.Checkpoint, got, was[e.Checkpoint])
				}
				delete(marked, e.Checkpoint)
			}
			after, err := g.Thread("t").State(bg)
			if err != nil || asJSON(t, after.State) != asJSON(t, newest.State) || fmt.Sprint(after.Next, after.Interrupts) != fmt.Sprint(newest.Next, newest.Interrupts) {
				rt.Fatalf("got %+v, %v, want %+v", after, err, newest)
			}
			if !keep.DropForks {
				for id, m := range marked {
					if m {
						rt.Fatalf("%s went though it was asked for", id)
					}
				}
			}
			// It goes on as its twin does.
			twin := diaryGraph(t, store)
			a, b := spend(t, g, 7), spendOn(t, twin, "twin", 7)
			if asJSON(t, a.State) != asJSON(t, b.State) {
				rt.Fatalf("the thread goes on to\n%s, its twin to\n%s", asJSON(t, a.State), asJSON(t, b.State))
			}
			again, err := diaryGraph(t, store).Thread("t").State(bg)
			if err != nil || asJSON(t, again.State) != asJSON(t, a.State) {
				rt.Fatalf("read again it is %+v, %v", again, err)
			}
			if err := g.Thread("twin").Delete(bg); err != nil {
				rt.Fatal(err)
			}
		}
	})
}

func spendOn(t testing.TB, g *graph.Graph[diary], thread string, days int, from ...string) *graph.Snapshot[diary] {
	t.Helper()
	snap, err := g.Thread(thread).At(append(from, "")[0]).Invoke(bg, g.Restart(func(s *diary) error {
		s.Left = days
		return nil
	}))
	for err == nil && len(snap.Interrupts) > 0 {
		snap, err = g.Thread(thread).Invoke(bg, g.Answer("a title"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

func entriesOf[S any](t testing.TB, th *graph.Thread[S], q ...graph.HistoryQuery) []graph.Entry[S] {
	t.Helper()
	var es []graph.Entry[S]
	for e, err := range th.History(bg, append(q, graph.HistoryQuery{})[0]) {
		if err != nil {
			t.Fatal(err)
		}
		es = append(es, e)
	}
	return es
}

func TestPruneByAgeAndCount(t *testing.T) {
	g := diaryGraph(t, checkpoint.NewMemory())
	spend(t, g, 4) // an input and four days
	if p := must[graph.Pruned](t)(g.Thread("t").Prune(bg, graph.Keep{Newer: time.Hour})); p.Removed != 0 || p.Kept != 5 {
		t.Fatalf("%+v: nothing is older than an hour", p)
	}
	if p := must[graph.Pruned](t)(g.Thread("t").Prune(bg, graph.Keep{Last: 3})); p.Removed != 2 || p.Freed <= 0 {
		t.Fatalf("%+v, want 2 of 5 gone", p)
	}
	if p := must[graph.Pruned](t)(g.Thread("t").Prune(bg, graph.Keep{})); p.Kept != 1 {
		t.Fatalf("%+v, want the newest left", p)
	}
	es := entriesOf(t, g.Thread("t"))
	if len(es) != 1 || es[0].Parent != "" || es[0].Step != 4 {
		t.Fatalf("%+v is left", es)
	}
	for range 3 { // and on as ever
		spend(t, g, 30)
	}
	snap := must[*graph.Snapshot[diary]](t)(g.Thread("t").State(bg))
	if snap.State.Day != 94 || snap.State.Pages.At(0) != fmt.Sprintf("page 1 %0300d", 1) {
		t.Fatalf("day %d, first page %q", snap.State.Day, snap.State.Pages.At(0))
	}
}

func TestPruneMakesAThreadSmall(t *testing.T) { // W3
	store := checkpoint.NewMemory()
	g := diaryGraph(t, store)
	for range 20 {
		spend(t, g, 50)
	}
	size := func() (n int64) {
		for info, err := range store.Logs(bg, "t") {
			if err != nil {
				t.Fatal(err)
			}
			n += info.Bytes
		}
		return n
	}
	before := size()
	if _, err := g.Thread("t").Prune(bg, graph.Keep{Last: 10}); err != nil {
		t.Fatal(err)
	}
	state := must[*graph.Snapshot[diary]](t)(g.Thread("t").State(bg))
	if after, least := size(), int64(len(asJSON(t, state.State))); after > least*11/10+10_000 || before < after {
		t.Fatalf("%d bytes before, %d after; the state has %d", before, after, least)
	}
}

func TestPruneDropsLogsOfSubgraphCalls(t *testing.T) {
	store := checkpoint.NewMemory()
	inner := oneNode(t, store, func(ctx context.Context, s *turns) error {
		if s.Said.Len()%2 == 0 {
			_, err := graph.Interrupt[bool](ctx, "q", nil)
			return err
		}
		s.Said.Add("inner")
		return nil
	})
	b := graph.New[turns]("outer")
	graph.AddSubgraph(b, "inner", inner, graph.Mapping[turns, turns]{
		In:  func(p, c *turns) { c.Said.Overwrite(p.Said.Slice()...) },
		Out: func(c, p *turns) { p.Said.Add("outer") },
	})
	b.AddEdge(graph.Start, "inner")
	g := compile(t, b, graph.WithCheckpointer(store))
	logs := func() (n int) {
		for _, err := range store.Logs(bg, "t") {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	for range 4 {
		snap, err := g.Thread("t").Invoke(bg, g.Input(say("a")))
		if err != nil {
			t.Fatal(err)
		}
		if len(snap.Interrupts) > 0 {
			break
		}
	}
	before := logs()
	if _, err := g.Thread("t").Prune(bg, graph.Keep{}); err != nil {
		t.Fatal(err)
	}
	snap := must[*graph.Snapshot[turns]](t)(g.Thread("t").State(bg))
	want := 1
	if len(snap.Interrupts) > 0 {
		want = 2 // the call that waits
	}
	if after := logs(); after != want || before <= after {
		t.Fatalf("%d logs before, %d after, want %d", before, after, want)
	}
	if len(snap.Interrupts) > 0 {
		if _, err := g.Thread("t").Invoke(bg, g.Answer(true)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPruneMisuse(t *testing.T) {
	store := checkpoint.NewMemory()
	g := diaryGraph(t, store)
	if _, err := g.Thread("t").Prune(bg, graph.Keep{}); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("an unknown thread: %v", err)
	}
	spend(t, g, 3)
	if _, err := g.Thread("t").Prune(bg, graph.Keep{Last: -1}); err == nil {
		t.Error("a negative count was taken")
	}
	if _, err := g.Thread("").Prune(bg, graph.Keep{}); !errors.Is(err, graph.ErrThreadRequired) {
		t.Errorf("no thread: %v", err)
	}
	if _, err := g.Thread("t", graph.WithCheckpointer(elsewhere{store})).Prune(bg, graph.Keep{}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a store that can't: %v", err)
	}
	_, err := store.Write(bg, &checkpoint.Write{Log: checkpoint.Log{Thread: "t"}, Claim: true, Lease: time.Hour, Holder: "somebody"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Thread("t").Prune(bg, graph.Keep{}); !errors.Is(err, graph.ErrThreadBusy) {
		t.Errorf("a thread that is held: %v", err)
	}
}

// A branch keeps its first record, which names it. One that was forked inside a
// superstep needs the record that planned the superstep, on the line before.
func TestPruneKeepsWhatABranchBeganWith(t *testing.T) {
	store := checkpoint.NewMemory()
	g := diaryGraph(t, store)
	snap, err := g.Thread("t").Invoke(bg, g.Input(func(s *diary) error {
		s.Left = 7
		return nil
	})) // asks on day 5
	if err != nil || len(snap.Interrupts) != 1 {
		t.Fatal(snap.Interrupts, err)
	}
	goOn := func() {
		if _, err := g.Thread("t").Invoke(bg, g.Answer("a title")); err != nil {
			t.Fatal(err)
		}
		spend(t, g, 9)
	}
	goOn()
	fork, err := g.Thread("t").At(snap.Checkpoint).Fork(bg)
	if err != nil {
		t.Fatal(err)
	}
	goOn()
	for range 2 {
		if _, err := g.Thread("t").Prune(bg, graph.Keep{Last: 1}); err != nil {
			t.Fatal(err)
		}
		got, err := g.Thread("t").At(fork.Checkpoint).State(bg)
		if err != nil {
			t.Fatal(err)
		}
		if n := got.State.Pages.Len(); n != 4 {
			t.Fatalf("%d pages", n)
		}
	}
}

// What was pruned can't be gone back to: a turn that rolls a run back, while what that
// had begun with was pruned, goes on after it, and loses nothing that a caller was told.
func TestARollbackBehindAPruneKeepsWhatWasToldBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := compile(t, one(func(ctx context.Context, s *trail) error {
			if s.Ran.Last() == "second" && graph.Info(ctx).Step == 2 {
				time.Sleep(50 * time.Millisecond) // it ignores its context for a while
				return ctx.Err()
			}
			return nil
		}), graph.WithCheckpointer(checkpoint.NewMemory()), graph.LeaseTTL(time.Minute))
		th := g.Thread("t")
		say := func(word string, opts ...graph.RunOption) error {
			_, err := th.Invoke(bg, th.Input(func(s *trail) error { s.Ran.Add(word); return nil }), opts...)
			return err
		}
		if err := say("first"); err != nil {
			t.Fatal(err)
		}
		go func() { _ = say("second") }()
		time.Sleep(time.Millisecond)
		go func() {
			if _, err := g.Thread("t", graph.WhenBusy(graph.BusyInterrupt)).Prune(bg, graph.Keep{Last: 1}); err != nil {
				t.Error(err)
			}
		}()
		time.Sleep(time.Millisecond)
		if err := say("third", graph.WhenBusy(graph.BusyRollback)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		snap := must[*graph.Snapshot[trail]](t)(th.State(bg))
		equal(t, "what was said", snap.State.ran(), "first second third")
	})
}
