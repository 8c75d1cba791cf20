package graph_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/file"
	"github.com/superstep-dev/superstep/graph"
)

func TestWritingTheBaseValueIsNoWrite(t *testing.T) {
	b := graph.New[trail]("g")
	b.AddNode("keeps", func(_ context.Context, s *trail) error {
		s.N = 9
		s.N = 5
		return nil
	})
	b.AddNode("sets", func(_ context.Context, s *trail) error { s.N = 6; return nil })
	b.AddEdge(graph.Start, "keeps").AddEdge(graph.Start, "sets")
	snap := must[*graph.Snapshot[trail]](t)(compile(t, b).Invoke(bg, func(s *trail) error {
		s.N = 5
		return nil
	}))
	equal(t, "N", snap.State.N, 6)
}

// overwritten is a state with every field that can be overwritten.
type overwritten struct {
	List      graph.List[int]
	Map       graph.Map[string, int]
	MergeMap  graph.MergeMap[string, int, sum]
	Set       graph.Set[string]
	Sum       graph.Sum[int]
	Reduced   graph.Reduced[int, sum]
	Untracked graph.Untracked[int]
}

type sum struct{}

func (sum) Reduce(current, update int) int { return current + update }

// fill overwrites every field by what the first superstep leaves.
func (s *overwritten) fill() {
	s.List.Overwrite(1, 2)
	s.Map.Overwrite(map[string]int{"a": 1})
	s.MergeMap.Overwrite(map[string]int{"a": 1})
	s.Set.Overwrite("a")
	s.Sum.Overwrite(7)
	s.Reduced.Overwrite(7)
	s.Untracked.Set(7)
}

func (s *overwritten) add() {
	s.List.Add(3)
	s.Map.Put("b", 2)
	s.MergeMap.Add("a", 2)
	s.Set.Add("b")
	s.Sum.Add(1)
	s.Reduced.Add(1)
	s.Untracked.Set(8)
}

func (s *overwritten) all() map[string]any {
	return map[string]any{
		"List": s.List.Slice(), "Map": maps.Collect(s.Map.All()), "MergeMap": maps.Collect(s.MergeMap.All()),
		"Set": slices.Collect(s.Set.All()), "Sum": s.Sum.Get(), "Reduced": s.Reduced.Get(), "Untracked": s.Untracked.Get(),
	}
}

func TestAnOverwriteWithWhatIsThereReplacesWhatStandsBeforeIt(t *testing.T) {
	fill := func(_ context.Context, s *overwritten) error { s.fill(); return nil }
	add := func(_ context.Context, s *overwritten) error { s.add(); return nil }
	for name, order := range map[string][]string{ // the order of declaration is plan order
		"added before": {"add", "fill"},
		"added after":  {"fill", "add"},
	} {
		var live *overwritten
		b := graph.New[overwritten]("g").AddNode("first", fill)
		b.AddNode("look", func(_ context.Context, s *overwritten) error { live = s; return nil })
		b.AddEdge(graph.Start, "first").AddJoin(order, "look")
		for _, n := range order {
			b.AddNode(n, map[string]func(context.Context, *overwritten) error{"fill": fill, "add": add}[n]).AddEdge("first", n)
		}
		g := compile(t, b, stored()...)
		must[*graph.Snapshot[overwritten]](t)(g.Thread("t").Invoke(bg, g.Input(func(*overwritten) error { return nil })))

		var want overwritten
		want.fill()
		if name == "added after" {
			want.add()
		}
		equal(t, name, fmt.Sprint(live.all()), fmt.Sprint(want.all()))
		read := must[*graph.Snapshot[overwritten]](t)(g.Thread("t").State(bg)).State
		read.Untracked, want.Untracked = graph.Untracked[int]{}, graph.Untracked[int]{}
		equal(t, name+", read", fmt.Sprint(read.all()), fmt.Sprint(want.all()))
	}
}

// fussy is a reducer that panics while it is told to.
type fussy struct{}

var fussyPanics bool

func (fussy) Reduce(current, update int) int {
	if fussyPanics && update == 2 {
		panic("not 2")
	}
	return current + update
}

func TestAReducerThatPanicsDoesNotPoisonTheThread(t *testing.T) {
	type state struct{ Sum graph.Reduced[int, fussy] }
	ran := &calls{}
	b := graph.New[state]("g")
	for i, n := range []string{"one", "two"} {
		b.AddNode(n, func(_ context.Context, s *state) error {
			ran.add(n)
			s.Sum.Add(i + 1)
			return nil
		})
		b.AddEdge(graph.Start, n)
	}
	g := compile(t, b, stored()...)
	fussyPanics = true
	defer func() { fussyPanics = false }()
	_, err := g.Thread("t").Invoke(bg, g.Input(func(*state) error { return nil }))
	if err == nil || !strings.Contains(err.Error(), "two") || !strings.Contains(err.Error(), "Sum") {
		t.Errorf("node and field are not named: %v", err)
	}
	fussyPanics = false
	snap := must[*graph.Snapshot[state]](t)(g.Thread("t").Invoke(bg, g.Continue()))
	equal(t, "sum", snap.State.Sum.Get(), 3)
	equal(t, "runs of one", ran.of("one"), 1)
	equal(t, "runs of two", ran.of("two"), 2)
}

func TestErrorAndInterruptTogetherReturnBoth(t *testing.T) {
	asked := make(chan struct{})
	b := graph.New[trail]("g")
	b.AddNode("ask", func(ctx context.Context, s *trail) error {
		_, err := graph.Interrupt[string](ctx, "k", nil)
		close(asked)
		return err
	})
	b.AddNode("fail", func(context.Context, *trail) error {
		<-asked
		time.Sleep(100 * time.Millisecond) // ask's report is in
		return errBoom
	})
	b.AddEdge(graph.Start, "ask").AddEdge(graph.Start, "fail")
	snap, err := compile(t, b, stored()...).Thread("t").Invoke(bg, graph.Requests[trail]{}.Input(func(*trail) error { return nil }))
	if !errors.Is(err, errBoom) {
		t.Error(err)
	}
	equal(t, "questions", len(snap.Interrupts), 1)
}

func TestAnInterruptCancelsNothing(t *testing.T) {
	asked := make(chan struct{})
	b := graph.New[trail]("g")
	b.AddNode("ask", func(ctx context.Context, s *trail) error {
		defer close(asked)
		_, err := graph.Interrupt[string](ctx, "k", nil)
		return err
	})
	b.AddNode("slow", func(ctx context.Context, s *trail) error {
		<-asked
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(30 * time.Millisecond):
			s.Ran.Add("slow")
			return nil
		}
	})
	b.AddEdge(graph.Start, "ask").AddEdge(graph.Start, "slow")
	snap := must[*graph.Snapshot[trail]](t)(compile(t, b, stored()...).Thread("t").Invoke(bg, graph.Requests[trail]{}.Input(func(*trail) error { return nil })))
	equal(t, "ran", snap.State.ran(), "slow")
	equal(t, "questions", len(snap.Interrupts), 1)
}

func TestCallbacksDontSeeQuestions(t *testing.T) {
	for name, swallow := range map[string]bool{"returned": false, "swallowed": true} {
		seen := &calls{}
		b := graph.New[trail]("g")
		b.AddNode("ask", func(ctx context.Context, s *trail) error {
			_, err := graph.Interrupt[string](ctx, "k", nil)
			if swallow {
				return nil
			}
			return err
		}, graph.WithCallbacks(graph.Callbacks[trail]{
			After:   func(context.Context, *trail) error { seen.add("after"); return nil },
			OnError: func(context.Context, *trail, error) { seen.add("error") },
		}))
		b.AddEdge(graph.Start, "ask")
		g := compile(t, b, stored()...)
		must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
		equal(t, name+": seen before the answer", len(seen.all()), 0)
		must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer("x")))
		equal(t, name+": seen", strings.Join(seen.all(), " "), "after")
	}
}

func TestEphemeralIsReadInTheNextSuperstepAndUntrackedIsNotStored(t *testing.T) {
	type state struct {
		Hint   graph.Ephemeral[string]
		Handle graph.Untracked[*int]
		Saw    graph.List[string]
	}
	look := func(s *state, who string) {
		handle := "no handle"
		if s.Handle.Get() != nil {
			handle = "handle"
		}
		s.Saw.Add(who + ": " + s.Hint.Get() + ", " + handle)
	}
	b := graph.New[state]("g")
	b.AddNode("a", func(_ context.Context, s *state) error {
		s.Hint.Set("hint")
		s.Handle.Set(new(int))
		return nil
	})
	b.AddNode("b", func(_ context.Context, s *state) error { look(s, "b"); return nil })
	b.AddNode("c", func(ctx context.Context, s *state) error {
		if _, err := graph.Interrupt[bool](ctx, "k", nil); err != nil {
			return err
		}
		look(s, "c")
		return nil
	})
	b.AddEdge(graph.Start, "a").AddSequence("a", "b", "c")
	g := compile(t, b, stored()...)
	must[*graph.Snapshot[state]](t)(g.Thread("t").Invoke(bg, g.Input(func(*state) error { return nil })))
	snap := must[*graph.Snapshot[state]](t)(g.Thread("t").Invoke(bg, g.Answer(true)))
	equalSlice(t, "saw", snap.State.Saw.Slice(), []string{"b: hint, handle", "c: , no handle"})

	// The hint is part of the thread: who resumes between a and b reads it.
	must[*graph.Snapshot[state]](t)(g.Thread("t2").Invoke(bg, g.Input(func(*state) error { return nil }), graph.InterruptBefore("b")))
	must[*graph.Snapshot[state]](t)(g.Thread("t2").Invoke(bg, g.Continue()))
	snap = must[*graph.Snapshot[state]](t)(g.Thread("t2").State(bg))
	equal(t, "saw", snap.State.Saw.At(0), "b: hint, no handle")
}

// The states of one thread over three versions of a program.
type (
	version1 struct {
		Name string
		Old  string
		Ran  graph.List[string]
	}
	version2 struct { // without Old, with New
		Name string
		New  int
		Ran  graph.List[string]
	}
	version3 struct { // with Name of another type
		Name int
		Ran  graph.List[string]
	}
)

func sleeper[S any](t testing.TB, store checkpoint.Store) *graph.Graph[S] {
	b := graph.New[S]("g")
	b.AddNode("a", func(ctx context.Context, _ *S) error {
		_, err := graph.Interrupt[bool](ctx, "k", nil)
		return err
	})
	b.AddEdge(graph.Start, "a")
	return compile(t, b, graph.WithCheckpointer(store))
}

func TestW10FieldsMayBeAddedAndRemovedWhileAThreadWaits(t *testing.T) {
	store := checkpoint.NewMemory()
	must[*graph.Snapshot[version1]](t)(sleeper[version1](t, store).Thread("t").Invoke(bg, graph.Requests[version1]{}.Input(func(s *version1) error {
		s.Name, s.Old = "n", "o"
		s.Ran.Add("x")
		return nil
	})))
	snap := must[*graph.Snapshot[version2]](t)(sleeper[version2](t, store).Thread("t").Invoke(bg, graph.Requests[version2]{}.Answer(true)))
	equal(t, "name", snap.State.Name, "n")
	equal(t, "new", snap.State.New, 0)
	equal(t, "list", snap.State.Ran.Len(), 1)
}

func TestW10WhatCannotBeDecodedNamesFieldAndThread(t *testing.T) {
	store := checkpoint.NewMemory()
	must[*graph.Snapshot[version1]](t)(sleeper[version1](t, store).Thread("t-7").Invoke(bg, graph.Requests[version1]{}.Input(func(s *version1) error {
		s.Name = "n"
		return nil
	})))
	_, err := sleeper[version3](t, store).Thread("t-7").Invoke(bg, graph.Requests[version3]{}.Answer(true))
	wantErr[*graph.CheckpointError](t, err)
	for _, name := range []string{"Name", "t-7"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named: %v", name, err)
		}
	}
	snap := must[*graph.Snapshot[version1]](t)(sleeper[version1](t, store).Thread("t-7").Invoke(bg, graph.Requests[version1]{}.Answer(true)))
	equal(t, "name, the thread is as it was", snap.State.Name, "n")
}

func TestW3StorageGrowsWithWhatWasWritten(t *testing.T) {
	dir := t.TempDir()
	store := must[*file.Store](t)(file.Open(dir, file.Options{Sync: file.SyncNever}))
	defer store.Close()
	b := graph.New[trail]("chat")
	b.AddNode("reply", func(_ context.Context, s *trail) error {
		s.Ran.Add(strings.Repeat("r", 1000))
		return nil
	})
	b.AddEdge(graph.Start, "reply")
	g := compile(t, b, graph.WithCheckpointer(store))
	size := func() (sum int64) {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			info, err := os.Stat(path)
			if err == nil {
				sum += info.Size()
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	turns := func(n int) {
		for range n {
			must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(s *trail) error {
				s.Ran.Add(strings.Repeat("q", 1000))
				return nil
			})))
		}
	}
	turns(100)
	first := size()
	turns(100)
	second := size() - first
	if second > first*11/10 {
		t.Errorf("100 turns took %d bytes, the next 100 %d", first, second)
	}
	if messages := int64(200 * 2000); first+second > messages*3/2 {
		t.Errorf("%d bytes of messages take %d", messages, first+second)
	}
}

// keeping is a state whose nodes write what is there.
type keeping struct {
	Map graph.Map[string, int]
	Set graph.Set[string]
}

// besides runs nodes, the order of which is plan order, in one superstep after one
// that puts "a" into the map and the set. It returns what the run and a later read
// of the thread leave, which must be the same.
func besides(t *testing.T, writes ...func(*keeping) error) (string, error) {
	t.Helper()
	b := graph.New[keeping]("g")
	node := func(write func(*keeping) error) func(context.Context, *keeping) error {
		return func(_ context.Context, s *keeping) error {
			if err := write(s); err != nil {
				return err
			}
			return nil
		}
	}
	b.AddNode("first", node(func(s *keeping) error {
		s.Map.Put("a", 1)
		s.Set.Add("a")
		return nil
	})).AddEdge(graph.Start, "first")
	for i, write := range writes {
		b.AddNode(fmt.Sprint(i), node(write)).AddEdge("first", fmt.Sprint(i))
	}
	g := compile(t, b, stored()...)
	snap, err := g.Thread("t").Invoke(bg, g.Input(func(*keeping) error { return nil }))
	if err != nil {
		return "", err
	}
	live := fmt.Sprint(snap.State.Map, snap.State.Set)
	read := must[*graph.Snapshot[keeping]](t)(g.Thread("t").State(bg)).State
	equal(t, "read", fmt.Sprint(read.Map, read.Set), live)
	return live, nil
}

func TestPuttingWhatIsThereAfterAnOverwritePutsIt(t *testing.T) {
	put := func(s *keeping) error {
		s.Map.Put("a", 1)
		s.Set.Add("a")
		return nil
	}
	over := func(s *keeping) error {
		s.Map.Overwrite(map[string]int{"z": 9})
		s.Set.Overwrite("z")
		return nil
	}
	other := func(s *keeping) error {
		s.Map.Put("a", 2)
		s.Map.Put("b", 3)
		s.Set.Add("b")
		return nil
	}
	remove := func(s *keeping) error {
		s.Map.Delete("a")
		s.Set.Remove("a")
		return nil
	}
	for name, test := range map[string]struct {
		writes []func(*keeping) error
		want   string // empty: they conflict
	}{
		"alone":                      {[]func(*keeping) error{put}, "map[a:1] [a]"},
		"after an overwrite":         {[]func(*keeping) error{over, put}, "map[a:1 z:9] [a z]"},
		"before an overwrite":        {[]func(*keeping) error{put, over}, "map[z:9] [z]"},
		"after another value":        {[]func(*keeping) error{other, put}, "map[a:2 b:3] [a b]"},
		"before another value":       {[]func(*keeping) error{put, other}, "map[a:2 b:3] [a b]"},
		"over, other value and same": {[]func(*keeping) error{over, other, put}, "map[a:2 b:3 z:9] [a b z]"},
		"over, same and other value": {[]func(*keeping) error{over, put, other}, "map[a:2 b:3 z:9] [a b z]"},
		"after a delete":             {[]func(*keeping) error{remove, put}, ""},
		"before a delete":            {[]func(*keeping) error{put, remove}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := besides(t, test.writes...)
			if (err != nil) != (test.want == "") {
				t.Fatal(err)
			}
			equal(t, "state", got, test.want)
		})
	}
}

func TestANullThatWasSetIsNotUnsetAfterASnapshot(t *testing.T) {
	type state struct {
		Reduced graph.Reduced[map[string]any, marking]
		Hint    graph.Ephemeral[*int]
		Saw     graph.List[string]
	}
	for name, value := range map[string]map[string]any{
		"null":             nil,
		"like the wrapper": {"$overwrite": nil},
		"wrapped twice":    {"$overwrite": map[string]any{"$overwrite": nil}},
		"an operation":     {"$overwrite": "x"},
	} {
		b := graph.New[state]("g")
		b.AddNode("set", func(_ context.Context, s *state) error {
			s.Reduced.Overwrite(value)
			s.Hint.Set(nil)
			return nil
		})
		b.AddNode("look", func(_ context.Context, s *state) error {
			s.Saw.Add(fmt.Sprint(s.Reduced.IsZero(), s.Reduced, s.Hint.Has()))
			s.Reduced.Add(map[string]any{"x": "y"})
			return nil
		})
		b.AddEdge(graph.Start, "set").AddEdge("set", "look")
		g := compile(t, b, append(stored(), graph.InterruptBefore("look"))...)
		snap := must[*graph.Snapshot[state]](t)(g.Thread("t").Invoke(bg, g.Input(func(*state) error { return nil })))
		plain := fieldJSON(t, snap.State.Reduced)
		must[graph.Pruned](t)(g.Thread("t").Prune(bg, graph.Keep{}))
		snap = must[*graph.Snapshot[state]](t)(g.Thread("t").State(bg))
		equal(t, name+", JSON", fieldJSON(t, snap.State.Reduced), plain)
		snap = must[*graph.Snapshot[state]](t)(g.Thread("t").Invoke(bg, g.Continue()))
		equal(t, name+", seen", fmt.Sprint(snap.State.Saw), fmt.Sprint([]string{fmt.Sprint(false, value, true)}))
		equal(t, name+", folded", snap.State.Reduced.Get()["called"], any("yes"))
	}
}

// marking is a reducer that leaves a mark.
type marking struct{}

func (marking) Reduce(_, _ map[string]any) map[string]any { return map[string]any{"called": "yes"} }

func TestACycleThatRemovesWhatIsNotThereMakesNoProgress(t *testing.T) {
	type state struct {
		Map      graph.Map[string, int]
		MergeMap graph.MergeMap[string, int, sum]
		Set      graph.Set[string]
	}
	for name, write := range map[string]func(*state) error{
		"map, delete": func(s *state) error {
			s.Map.Delete("x")
			return nil
		},
		"map, put the same": func(s *state) error {
			s.Map.Put("a", 1)
			return nil
		},
		"merge map": func(s *state) error {
			s.MergeMap.Delete("x")
			return nil
		},
		"set, remove": func(s *state) error {
			s.Set.Remove("x")
			return nil
		},
		"set, add the same": func(s *state) error {
			s.Set.Add("a")
			return nil
		},
	} {
		node := func(_ context.Context, s *state) error {
			if err := write(s); err != nil {
				return err
			}
			return nil
		}
		b := graph.New[state]("g").AddNode("a", node).AddNode("b", node)
		b.AddEdge(graph.Start, "a").AddEdge("a", "b").AddEdge("b", "a")
		_, err := compile(t, b).Invoke(bg, func(s *state) error {
			s.Map.Put("a", 1)
			s.MergeMap.Add("a", 1)
			s.Set.Add("a")
			return nil
		})
		if cycle := (*graph.CycleError)(nil); !errors.As(err, &cycle) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
