package graph_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// readCounter counts the records that are read from a store, in order and one by
// one.
type readCounter struct {
	*checkpoint.Memory
	read int
	got  int // one by one
}

func (s *readCounter) Get(ctx context.Context, log checkpoint.Log, id checkpoint.ID) (*checkpoint.Record, error) {
	s.got++
	return s.Memory.Get(ctx, log, id)
}

func (s *readCounter) Records(ctx context.Context, q checkpoint.Query) iter.Seq2[*checkpoint.Record, error] {
	return func(yield func(*checkpoint.Record, error) bool) {
		for r, err := range s.Memory.Records(ctx, q) {
			s.read++
			if !yield(r, err) {
				return
			}
		}
	}
}

func TestATurnReadsWhatTheThreadHasGrownBy(t *testing.T) {
	store := &readCounter{Memory: checkpoint.NewMemory()}
	g := diaryGraph(t, store)
	for range 150 {
		spend(t, g, 2)
	}
	most := func(opts ...graph.ThreadOption) (n int) {
		for range 20 {
			store.read = 0
			if _, err := g.Thread("t", opts...).State(bg); err != nil {
				t.Fatal(err)
			}
			n = max(n, store.read)
			spend(t, g, 1)
		}
		return n
	}
	if n := most(); n > 4 {
		t.Errorf("after 300 days a look reads %d records", n)
	}
	if n := most(graph.ReadCache(0)); n < 300 {
		t.Errorf("without a cache a look reads %d records only: the test proves nothing", n)
	}
	if n := most(graph.ReadCache(1000)); n < 300 {
		t.Errorf("with a cache that is too small a look reads %d records", n)
	}
	if n := most(); n > 50 {
		t.Errorf("with the cache again, a look reads %d records", n)
	}
}

func TestATurnReadsWhatAnotherProcessHasWritten(t *testing.T) {
	store := &readCounter{Memory: checkpoint.NewMemory()}
	one, other := diaryGraph(t, store), diaryGraph(t, store)
	spend(t, one, 300)
	must[*graph.Snapshot[diary]](t)(other.Thread("t").State(bg))
	for turn := range 30 {
		store.read = 0
		spend(t, other, 1)
		spend(t, one, 1)
		if store.read > 16 {
			t.Fatalf("turns %d read %d records", turn, store.read)
		}
	}
}

// The changes that a list is read from say much else: only what the state has counts.
func TestAStateIsKeptByItsSizeHoweverMuchWasWrittenForIt(t *testing.T) {
	type log struct {
		Lines graph.List[string]
		Last  string
	}
	store := &readCounter{Memory: checkpoint.NewMemory()}
	g := compile(t, graph.New[log]("log").AddNode("note", func(_ context.Context, s *log) error {
		s.Lines.Add(fmt.Sprint("line ", s.Lines.Len()))
		s.Last = strings.Repeat("x", 1000) + s.Lines.At(s.Lines.Len()-1)
		return nil
	}).AddEdge(graph.Start, "note"), graph.WithCheckpointer(store), graph.ReadCache(20_000))
	for i := range 300 {
		before := store.read
		must[*graph.Snapshot[log]](t)(g.Thread("t").Invoke(bg, g.Input(func(*log) error { return nil })))
		if n := store.read - before; i > 0 && n > 4 {
			t.Fatalf("run %d reads %d records", i, n)
		}
	}
	grown := must[*graph.Snapshot[log]](t)(g.Thread("t").State(bg))
	equal(t, "lines", grown.State.Lines.Len(), 300)
	cold := must[*graph.Snapshot[log]](t)(g.Thread("t", graph.ReadCache(0)).State(bg))
	equal(t, "state", asJSON(t, grown.State), asJSON(t, cold.State))
}

func TestAThreadBegunAnewIsKeptLikeTheOneBefore(t *testing.T) {
	for _, who := range []string{"the same graph", "another process"} {
		store := &readCounter{Memory: checkpoint.NewMemory()}
		g := diaryGraph(t, store)
		spend(t, g, 300)
		old := must[*graph.Snapshot[diary]](t)(g.Thread("t").State(bg))
		deleter := g
		if who == "another process" {
			deleter = diaryGraph(t, store)
		}
		if err := deleter.Thread("t").Delete(bg); err != nil {
			t.Fatal(err)
		}
		spend(t, deleter, 150)
		must[*graph.Snapshot[diary]](t)(g.Thread("t").State(bg))
		store.read = 0
		if got := must[*graph.Snapshot[diary]](t)(g.Thread("t").State(bg)); got.State.Day >= old.State.Day {
			t.Fatalf("deleted by %s, the new thread has got to day %d of %d: the test proves nothing", who, got.State.Day, old.State.Day)
		}
		if store.read > 50 {
			t.Errorf("deleted by %s, another look at the new thread reads %d records", who, store.read)
		}
	}
}

// page counts how often one is decoded.
type page struct{ text string }

var pagesDecoded atomic.Int64

func (p page) MarshalJSON() ([]byte, error) { return json.Marshal(p.text) }

func (p *page) UnmarshalJSON(data []byte) error {
	pagesDecoded.Add(1)
	return json.Unmarshal(data, &p.text)
}

type album struct{ Pages graph.List[page] }

func TestAPrunedThreadBegunAnewIsKeptLikeTheOneBefore(t *testing.T) {
	b := graph.New[album]("album").AddNode("add", func(_ context.Context, s *album) error {
		s.Pages.Add(page{strings.Repeat("x", 300)})
		return nil
	})
	b.SetEntryPoint("add").SetFinishPoint("add")
	g := compile(t, b, graph.WithCheckpointer(checkpoint.NewMemory()))
	look := func() (pages int, decoded int64) {
		before := pagesDecoded.Load()
		pages = must[*graph.Snapshot[album]](t)(g.Thread("t").State(bg)).State.Pages.Len()
		return pages, pagesDecoded.Load() - before
	}
	begin := func(turns int) {
		for range turns {
			must[*graph.Snapshot[album]](t)(g.Thread("t").Invoke(bg, g.Input(func(*album) error { return nil })))
		}
		must[graph.Pruned](t)(g.Thread("t").Prune(bg, graph.Keep{Last: 1}))
		if pages, decoded := look(); pages != turns || decoded < int64(turns) {
			t.Fatalf("the first look at %d pages decodes %d of them: the test proves nothing", pages, decoded)
		}
		if pages, decoded := look(); pages != turns || decoded > 0 {
			t.Errorf("another look at %d pages decodes %d of them", pages, decoded)
		}
	}
	begin(40)
	if err := g.Thread("t").Delete(bg); err != nil {
		t.Fatal(err)
	}
	begin(20)
}

// What was recorded is decoded once.
func TestATurnDecodesWhatWasRecordedSince(t *testing.T) {
	b := graph.New[album]("album").AddNode("add", func(_ context.Context, s *album) error {
		s.Pages.Add(page{"x"})
		return nil
	})
	b.SetEntryPoint("add").SetFinishPoint("add")
	g := compile(t, b, graph.WithCheckpointer(checkpoint.NewMemory()))
	turn := func(opts ...graph.ThreadOption) int64 {
		before := pagesDecoded.Load()
		must[*graph.Snapshot[album]](t)(g.Thread("t", opts...).Invoke(bg, g.Input(func(*album) error { return nil })))
		return pagesDecoded.Load() - before
	}
	for n := range 40 {
		if decoded := turn(); decoded > 1 {
			t.Fatalf("turn %d decodes %d pages", n, decoded)
		}
	}
	if decoded := turn(graph.ReadCache(0)); decoded < 40 {
		t.Errorf("without a cache a turn decodes %d pages only: the test proves nothing", decoded)
	}
}

func TestALookBackCostsOneMoreReadAtMost(t *testing.T) {
	store := &readCounter{Memory: checkpoint.NewMemory()}
	g := diaryGraph(t, store)
	spend(t, g, 300)
	ids := entriesOf(t, g.Thread("t"))
	getsAt := func(at string, opts ...graph.ThreadOption) int {
		store.got = 0
		must[*graph.Snapshot[diary]](t)(g.Thread("t", opts...).At(at).State(bg))
		return store.got
	}
	gets := func(opts ...graph.ThreadOption) int { return getsAt("", opts...) }
	kept, cold := gets(), gets(graph.ReadCache(0))
	equal(t, "gets of a look that goes on from nothing", kept, cold)
	kept = gets()
	equal(t, "gets of a look at what is kept", kept, cold)
	back := ids[len(ids)/2].Checkpoint
	if kept, cold = getsAt(back), getsAt(back, graph.ReadCache(0)); kept > cold+1 {
		t.Errorf("a look back gets %d records, %d of them without a cache", kept, cold)
	}
	store.read = 0
	gets()
	if store.read > 50 {
		t.Errorf("after a look back, a look at the newest state reads %d records", store.read)
	}
	for what, change := range map[string]func(){
		"of a pruned thread": func() { must[graph.Pruned](t)(g.Thread("t").Prune(bg, graph.Keep{Last: 1})) },
		"of a pruned thread that has grown": func() {
			must[graph.Pruned](t)(g.Thread("t").Prune(bg, graph.Keep{Last: 1}))
			gets()
			spend(t, g, 300)
		},
		"at a newer beginning of its list": func() {
			must[*graph.Snapshot[diary]](t)(g.Thread("t").Edit(bg, func(s *diary) error {
				s.Pages.Overwrite()
				return nil
			}))
			spend(t, g, 300)
		},
	} {
		change()
		kept, cold = gets(), gets(graph.ReadCache(0))
		equal(t, "gets of a look "+what, kept, cold)
	}
}

// A graph that keeps what it read sees what one sees that reads everything,
// whatever happens to the thread in between, through either of them or a third.
func TestWhatIsKeptIsWhatIsStored(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		store := checkpoint.NewMemory()
		kept := diaryGraph(t, store)
		graphs := []*graph.Graph[diary]{kept, diaryGraph(t, store)}
		spend(t, kept, 4)
		for range rapid.IntRange(3, 10).Draw(rt, "operations") {
			g := graphs[rapid.IntRange(0, 1).Draw(rt, "who")]
			ids := checkpoints(rt, g)
			at := ids[rapid.IntRange(0, len(ids)-1).Draw(rt, "at")]
			var err error
			switch rapid.SampledFrom([]string{"turn", "turn", "turn", "branch", "overwrite", "look back", "prune", "delete", "copy", "fork"}).Draw(rt, "what") {
			case "turn":
				spend(t, g, rapid.IntRange(1, 20).Draw(rt, "days"))
			case "branch":
				spend(t, g, rapid.IntRange(1, 6).Draw(rt, "days"), at)
			case "fork":
				_, err = g.Thread("t").At(at).Fork(bg)
			case "overwrite":
				_, err = g.Thread("t").Edit(bg, func(s *diary) error {
					s.Pages.Overwrite("a new book")
					return nil
				})
			case "look back":
				_, err = g.Thread("t").At(at).State(bg)
			case "prune":
				_, err = g.Thread("t").Prune(bg, graph.Keep{Last: rapid.IntRange(1, 10).Draw(rt, "last"), DropForks: rapid.Bool().Draw(rt, "drop")})
			case "delete":
				if err = g.Thread("t").Delete(bg); err == nil {
					spend(t, g, rapid.IntRange(1, 30).Draw(rt, "days"))
				}
			case "copy": // away and back under the same name
				if err = g.Thread("t").Copy(bg, "u"); err == nil {
					spend(t, g, 3)
					if err = g.Thread("t").Delete(bg); err == nil {
						if err = g.Thread("u").Copy(bg, "t"); err == nil {
							err = g.Thread("u").Delete(bg)
						}
					}
				}
			}
			if err != nil {
				rt.Fatal(err)
			}
			agree(rt, kept)
		}
	})
}

func checkpoints(rt *rapid.T, g *graph.Graph[diary]) (ids []string) {
	for e, err := range g.Thread("t").History(bg, graph.HistoryQuery{AllBranches: true}) {
		if err != nil {
			rt.Fatal(err)
		}
		ids = append(ids, e.Checkpoint)
	}
	return ids
}

func agree(rt *rapid.T, g *graph.Graph[diary]) {
	ids := checkpoints(rt, g)
	for _, from := range []string{"", ids[0], ids[len(ids)/2]} {
		got, err := graph.JSON(g).Thread("t").At(from).State(bg)
		if err != nil {
			rt.Fatal(err)
		}
		want, err := graph.JSON(g).Thread("t", graph.ReadCache(0)).At(from).State(bg)
		if err != nil {
			rt.Fatal(err)
		}
		if string(got.State) != string(want.State) {
			rt.Fatalf("what is kept gives\n%.400s\nwhat is stored gives\n%.400s", got.State, want.State)
		}
	}
}

func TestASchemaGraphKeepsWhatItReads(t *testing.T) {
	b := graph.AddMapNode(graph.NewSchemaGraph("g", guide()), "note", func(_ context.Context, s graph.MapState) (any, error) {
		return graph.MapState{"items": []string{strings.Repeat("x", 300)}, "counter": 1, "note": fmt.Sprint(s["counter"])}, nil
	})
	b.SetEntryPoint("note").SetFinishPoint("note")
	g := compileSchema(t, b, graph.WithCheckpointer(checkpoint.NewMemory()))
	for turn := range 60 {
		runSchema(t, g, graph.MapState{"items": []string{fmt.Sprint("turn ", turn)}})
		if turn == 40 {
			if _, err := g.Thread("t").Prune(bg, graph.Keep{Last: 2}); err != nil {
				t.Fatal(err)
			}
		}
		got, err := g.Thread("t").State(bg)
		if err != nil {
			t.Fatal(err)
		}
		want, err := g.Thread("t", graph.ReadCache(0)).State(bg)
		if err != nil {
			t.Fatal(err)
		}
		wantState(t, got.State, want.State.Map())
	}
}
