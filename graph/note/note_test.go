package note_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/note"
)

type noteState struct{ N int }

// noting is a graph with one node.
func noting(t *testing.T, store checkpoint.Store, node func(ctx context.Context, s *noteState) error) *graph.Thread[noteState] {
	t.Helper()
	b := graph.New[noteState]("notes")
	b.AddNode("n", node)
	b.AddEdge(graph.Start, "n")
	g, err := b.Compile(graph.WithCheckpointer(store))
	if err != nil {
		t.Fatal(err)
	}
	return g.Thread("t")
}

func items(texts ...string) (list []json.RawMessage) {
	for _, s := range texts {
		data, _ := json.Marshal(s)
		list = append(list, data)
	}
	return list
}

func notesOf(t *testing.T, store checkpoint.Store, q note.Query) (all []string) {
	t.Helper()
	for e, err := range note.List(t.Context(), store, checkpoint.Log{Thread: "t"}, q) {
		if err != nil {
			t.Fatal(err)
		}
		lists, err := e.Lists(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%s %s%s", e.Kind, e.Data, lists))
	}
	return all
}

func TestNotesAreReadTheNewestFirstWithTheirLists(t *testing.T) {
	long := strings.Repeat("long ", 20)
	lists := [][]json.RawMessage{items("a", long), items("a", long, "b"), items(long, "b"), items("a"), nil, items("b", "b", long, long)}
	// Each run is of another program at first, which knows nothing of what is stored.
	for name, again := range map[string]bool{"in one program": false, "each run in another": true} {
		t.Run(name, func(t *testing.T) {
			store := checkpoint.NewMemory()
			node := func(ctx context.Context, s *noteState) error {
				list := lists[s.N]
				s.N++
				return note.Add(ctx, note.Note{Kind: "k", Data: json.RawMessage(fmt.Sprintf(`{ "n": %d }`, s.N)), Lists: [][]json.RawMessage{list}})
			}
			th := noting(t, store, node)
			var want []string
			for i, list := range lists {
				if again {
					th = noting(t, store, node)
				}
				if _, err := th.Invoke(t.Context(), graph.Requests[noteState]{}.Input(func(*noteState) error { return nil })); err != nil {
					t.Fatal(err)
				}
				want = append([]string{fmt.Sprintf(`k {"n":%d}%s`, i+1, [][]json.RawMessage{list})}, want...)
			}
			if got := notesOf(t, store, note.Query{}); !slices.Equal(got, want) {
				t.Errorf("%v\nwant %v", got, want)
			}
			if got := notesOf(t, store, note.Query{Kind: "k", Limit: 2}); !slices.Equal(got, want[:2]) {
				t.Errorf("%v\nwant %v", got, want[:2])
			}
			if got := notesOf(t, store, note.Query{Kind: "other"}); got != nil {
				t.Errorf("of another kind: %v", got)
			}
			rs, err := store.Results(t.Context(), checkpoint.Log{Thread: "t"}, "", checkpoint.PartsEpoch)
			var all strings.Builder
			for _, r := range rs {
				all.Write(r.Data)
			}
			if err != nil || strings.Count(all.String(), long) > 1 || all.Len() > 600 {
				t.Errorf("%d parts take %d bytes, or something is stored twice: %v, %v", len(rs), all.Len(), all.String(), err)
			}
		})
	}
}

func TestNotesOfAttemptsThatFailedAreKept(t *testing.T) {
	for name, d := range map[string]graph.Durability{"sync": graph.Sync, "async": graph.Async, "at exit": graph.Exit} {
		t.Run(name, func(t *testing.T) {
			fail := true
			store := checkpoint.NewMemory()
			th := noting(t, store, func(ctx context.Context, _ *noteState) error {
				if err := note.Add(ctx, note.Note{Kind: fmt.Sprint("failing ", fail)}); err != nil {
					return err
				}
				if fail {
					return errors.New("no")
				}
				return nil
			})
			if _, err := th.Invoke(t.Context(), graph.Requests[noteState]{}.Input(func(*noteState) error { return nil }), graph.WithDurability(d)); err == nil {
				t.Fatal("no error")
			}
			if got := notesOf(t, store, note.Query{}); !slices.Equal(got, []string{"failing true []"}) {
				t.Fatalf("after the failure: %q", got)
			}
			fail = false
			if _, err := th.Invoke(t.Context(), graph.Requests[noteState]{}.Continue(), graph.WithDurability(d)); err != nil {
				t.Fatal(err)
			}
			if got := notesOf(t, store, note.Query{}); !slices.Equal(got, []string{"failing false []", "failing true []"}) {
				t.Errorf("%q", got)
			}
		})
	}
}

// A note is no result of Once: a replay doesn't ask for it, and a history doesn't name it.
func TestNotesAreNoResultsOfOnce(t *testing.T) {
	th := noting(t, checkpoint.NewMemory(), func(ctx context.Context, _ *noteState) error {
		return note.Add(ctx, note.Note{Kind: "k"})
	})
	if _, err := th.Invoke(t.Context(), graph.Requests[noteState]{}.Input(func(*noteState) error { return nil })); err != nil {
		t.Fatal(err)
	}
	for e, err := range th.History(t.Context(), graph.HistoryQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		if rs, err := e.Recorded(t.Context()); e.Did != nil || rs != nil || err != nil {
			t.Errorf("did %v, recorded %v, %v", e.Did, rs, err)
		}
	}
}

func TestANoteThatCannotBeStoredIsAnError(t *testing.T) {
	for want, one := range map[string]note.Note{
		"it needs a Kind":              {},
		"its Data":                     {Kind: "k", Data: json.RawMessage("{")},
		"item 1 of list 0":             {Kind: "k", Lists: [][]json.RawMessage{{json.RawMessage("1"), json.RawMessage("x")}}},
		"unexpected end of JSON input": {Kind: "k", Lists: [][]json.RawMessage{{nil}}},
	} {
		th := noting(t, checkpoint.NewMemory(), func(ctx context.Context, _ *noteState) error { return note.Add(ctx, one) })
		if _, err := th.Invoke(t.Context(), graph.Requests[noteState]{}.Input(func(*noteState) error { return nil })); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := note.Add(t.Context(), note.Note{Kind: "k"}); !errors.Is(err, graph.ErrNotInNode) {
		t.Errorf("outside of a node: %v", err)
	}
	log := checkpoint.Log{Thread: "t"}
	for want, list := range map[string]iter.Seq2[note.Entry, error]{
		"Limit":     note.List(t.Context(), checkpoint.NewMemory(), log, note.Query{Limit: -1}),
		"Before":    note.List(t.Context(), checkpoint.NewMemory(), log, note.Query{Before: "x"}),
		"UUID":      note.List(t.Context(), checkpoint.NewMemory(), log, note.Query{ID: "x"}),
		"a store":   note.List(t.Context(), nil, log, note.Query{}),
		"thread_id": note.List(t.Context(), checkpoint.NewMemory(), checkpoint.Log{}, note.Query{}),
	} {
		n := 0
		for _, err := range list {
			if n++; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		if n != 1 {
			t.Errorf("%q: yielded %d times", want, n)
		}
	}
}

// Since leaves out what was noted before, also beside a log that has not moved on.
func TestNotesSinceATimeAreThoseMadeThenOrLater(t *testing.T) {
	store := checkpoint.NewMemory()
	fails := false
	th := noting(t, store, func(ctx context.Context, s *noteState) error {
		s.N++
		if err := note.Add(ctx, note.Note{Kind: "k"}); err != nil || !fails {
			return err
		}
		return errors.New("no")
	})
	for n := range 20 {
		fails = n%5 == 4
		_, err := th.Invoke(t.Context(), graph.Requests[noteState]{}.Input(func(*noteState) error { return nil }))
		if (err != nil) != fails {
			t.Fatal(err)
		}
	}
	read := func(since time.Time) (at []time.Time) {
		for e, err := range note.List(t.Context(), store, checkpoint.Log{Thread: "t"}, note.Query{Since: since}) {
			if err != nil {
				t.Fatal(err)
			}
			at = append(at, e.At())
		}
		return at
	}
	all := read(time.Time{})
	if len(all) != 20 {
		t.Fatalf("there are %d", len(all))
	}
	for _, since := range append(all, all[19].Add(-time.Hour), all[0].Add(time.Millisecond), all[0].Add(time.Hour)) {
		want := slices.DeleteFunc(slices.Clone(all), func(at time.Time) bool { return at.Before(since) })
		if got := read(since.Add(time.Millisecond - 1)); !slices.Equal(got, want) {
			t.Errorf("since %v: %v, not %v", since, got, want)
		}
	}
}

func TestAnItemInTwoListsIsReadFromBothHoweverItWasEncoded(t *testing.T) {
	text := strings.Repeat("<p> & </p>\u2028", 8)
	var plain strings.Builder
	e := json.NewEncoder(&plain)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		t.Fatal(err)
	}
	item := json.RawMessage(plain.String())
	store := checkpoint.NewMemory()
	th := noting(t, store, func(ctx context.Context, s *noteState) error {
		return note.Add(ctx, note.Note{Kind: "k", Lists: [][]json.RawMessage{{item}, append(items("x"), item)}})
	})
	if _, err := th.Invoke(t.Context(), graph.Requests[noteState]{}.Input(func(*noteState) error { return nil })); err != nil {
		t.Fatal(err)
	}
	for e, err := range note.List(t.Context(), store, checkpoint.Log{Thread: "t"}, note.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		lists, err := e.Lists(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, list := range lists {
			var got string
			if err := json.Unmarshal(list[len(list)-1], &got); err != nil || got != text {
				t.Errorf("read %q (%v) for %q", got, err, text)
			}
		}
	}
}

// dying is a store of a process that is killed when it has stored a record with notes in the
// log of a subgraph.
type dying struct {
	checkpoint.Store
	killed bool
}

func (s *dying) Write(ctx context.Context, w *checkpoint.Write) (checkpoint.Written, error) {
	if s.killed {
		return checkpoint.Written{}, errors.New("killed")
	}
	s.killed = w.Log.Namespace != "" && w.Record != nil && len(w.Record.Once) > 0
	return s.Store.Write(ctx, w)
}

func TestTheListsOfANoteThatASubgraphHasRecordedAreStored(t *testing.T) {
	for _, durability := range []graph.Durability{graph.Sync, graph.Async} {
		store := &dying{Store: checkpoint.NewMemory()}
		inner := graph.New[noteState]("inner")
		inner.AddNode("n", func(ctx context.Context, s *noteState) error {
			return note.Add(ctx, note.Note{Kind: "k", Lists: [][]json.RawMessage{items("a", "b")}})
		})
		inner.AddEdge(graph.Start, "n")
		b := graph.New[noteState]("outer")
		graph.AddShared(b, "inner", inner.MustCompile(), func(s *noteState) *noteState { return s })
		b.AddEdge(graph.Start, "inner")
		g, err := b.Compile(graph.WithCheckpointer(store), graph.WithDurability(durability))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Thread("t").Invoke(t.Context(), g.Input(func(*noteState) error { return nil })); err == nil || !store.killed {
			t.Fatalf("%v, killed: %v", err, store.killed)
		}
		if got, want := notesOf(t, store.Store, note.Query{}), []string{`k [["a" "b"]]`}; !slices.Equal(got, want) {
			t.Errorf("durability %v: %q, want %q", durability, got, want)
		}
	}
}
