package retrieval_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/superstep-dev/superstep/internal/servers/servertest"
	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/memory/postgres"
	"github.com/superstep-dev/superstep/memory/sqlite"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/retrieval"
)

// counting is an embedder that counts calls and texts, and fails when it is told to.
type counting struct {
	model.Embedder
	batches []int
	fail    func(texts []string) error
}

func (c *counting) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if c.fail != nil {
		if err := c.fail(texts); err != nil {
			return nil, err
		}
	}
	c.batches = append(c.batches, len(texts))
	return c.Embedder.Embed(ctx, texts)
}

func (c *counting) texts() (n int) {
	for _, b := range c.batches {
		n += b
	}
	c.batches = nil
	return n
}

func TestMain(m *testing.M) { servertest.Main(m) }

// stores are those that an index is tested on. PostgreSQL has its approximate index where
// the server can.
func stores(t *testing.T, run func(t *testing.T, x *retrieval.Index, e *counting)) {
	e := &counting{Embedder: memory.HashEmbedder(256)}
	c := memory.Config{Index: &memory.Index{Embedder: e}}
	for kind, open := range map[string]func(t *testing.T) (memory.Store, error){
		"memory": func(*testing.T) (memory.Store, error) { return memory.NewInMemory(c) },
		"SQLite": func(t *testing.T) (memory.Store, error) {
			return sqlite.Open(filepath.Join(t.TempDir(), "a.db"), sqlite.Options{Config: c})
		},
		"PostgreSQL": func(t *testing.T) (memory.Store, error) {
			url := servertest.Postgres(t)
			o := postgres.Options{Config: c, Schema: fmt.Sprintf("retrieval %d %d", os.Getpid(), schemas.Add(1))}
			if pgvector(t, url, o.Schema) {
				o.HNSW = &postgres.HNSW{}
			}
			return postgres.Open(t.Context(), url, o)
		},
	} {
		t.Run(kind, func(t *testing.T) {
			s, err := open(t)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			e.fail, e.batches = nil, nil
			run(t, &retrieval.Index{Store: s, Namespace: []string{"docs"}, Embedder: e, Splitter: retrieval.Splitter{Size: 40}, Batch: 3}, e)
		})
	}
}

var schemas atomic.Int64

// pgvector makes the extension in a database, if the server has it, and drops a schema at
// the end of the test.
func pgvector(t *testing.T, url, schema string) (there bool) {
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, err := c.Exec(context.Background(), `DROP SCHEMA IF EXISTS `+pgx.Identifier{schema}.Sanitize()+` CASCADE`)
		if err := errors.Join(err, c.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
	if err := c.QueryRow(t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_available_extensions WHERE name = 'vector')`).Scan(&there); err != nil {
		t.Fatal(err)
	}
	if there {
		if _, err := c.Exec(t.Context(), `CREATE EXTENSION IF NOT EXISTS vector`); err != nil {
			t.Fatal(err)
		}
	}
	return there
}

func text(id string, paragraphs ...string) retrieval.Document {
	return retrieval.Document{ID: id, Source: id + ".txt", Text: strings.Join(paragraphs, "\n\n")}
}

// kept is what an index has: the texts of the chunks, sorted.
func kept(t *testing.T, x *retrieval.Index) string {
	t.Helper()
	found, err := memory.Search[retrieval.Chunk](t.Context(), x.Store, append(slices.Clone(x.Namespace), "chunks"), memory.Query{Limit: memory.Unlimited})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range found {
		out = append(out, fmt.Sprintf("%s@%d", e.Value.Text, e.Value.Start))
	}
	slices.Sort(out)
	return strings.Join(out, "|")
}

func add(t *testing.T, x *retrieval.Index, docs ...retrieval.Document) retrieval.Report {
	t.Helper()
	r, err := x.Add(t.Context(), retrieval.Of(docs...))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const (
	one   = "Trams leave the depot at five in winter."
	two   = "Every brake is tested twice on each day."
	three = "The last tram is back at one past night."
)

func TestADocumentThatIsAddedAgainReplacesItsChunksAndEmbedsWhatIsNew(t *testing.T) {
	stores(t, func(t *testing.T, x *retrieval.Index, e *counting) {
		if r := add(t, x, text("a", one, two), text("b", one)); r != (retrieval.Report{Added: 2, Embedded: 3}) || fmt.Sprint(e.batches) != "[3]" {
			t.Errorf("%+v in batches of %v", r, e.batches)
		}
		e.texts()
		if r := add(t, x, text("a", one, two), text("b", one)); r != (retrieval.Report{Unchanged: 2}) || e.texts() != 0 {
			t.Errorf("the same again: %+v", r)
		}
		if r := add(t, x, text("a", three, one)); r != (retrieval.Report{Added: 1, Embedded: 1, Kept: 1, Removed: 1}) || e.texts() != 1 {
			t.Errorf("changed: %+v", r)
		}
		if got := kept(t, x); got != three+"@0|"+one+"@0|"+one+"@42" {
			t.Errorf("kept %q", got)
		}
		r := retrieval.Retriever{Index: x, K: 1, Filter: memory.Filter{memory.Eq("document", "a")}}
		if found, err := r.Retrieve(t.Context(), "When do trams leave the depot?"); err != nil || len(found) != 1 || found[0].Start != 42 || found[0].Score < 0.3 {
			t.Errorf("what has moved: %+v, %v", found, err)
		}
		changed := text("a", three, one)
		changed.Metadata = []byte(`{"lines": [7, 8.0], "kind": "plan"}`)
		e.texts()
		if r := add(t, x, changed); r != (retrieval.Report{Added: 1, Kept: 2}) || e.texts() != 0 {
			t.Errorf("other metadata: %+v", r)
		}
		r.Filter = memory.Filter{memory.In("metadata.kind", "plan", "map"), memory.Not(memory.Eq("document", "b"))}
		if found, err := r.Retrieve(t.Context(), "last tram"); err != nil || len(found) != 1 || found[0].Text != three {
			t.Errorf("by metadata: %+v, %v", found, err)
		}
		if r := add(t, x, text("a", one, one, one)); r != (retrieval.Report{Added: 1, Embedded: 2, Kept: 1, Removed: 1}) {
			t.Errorf("the same text several times: %+v", r)
		}
		if r := add(t, x, text("a", one), text("a", two)); r.Added != 2 || kept(t, x) != two+"@0|"+one+"@0" {
			t.Errorf("twice at once: %+v, kept %q", r, kept(t, x))
		}
		list, err := x.Documents(t.Context())
		if err != nil || len(list) != 2 || list[0].ID != "a" || list[0].Chunks != 1 || !list[0].Complete || list[1].Source != "b.txt" {
			t.Errorf("listed %+v, %v", list, err)
		}
		for range 2 {
			if err := x.Delete(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
		}
		if got := kept(t, x); got != one+"@0" {
			t.Errorf("kept %q", got)
		}
	})
}

// dying is a store that fails from a number of writes on.
type dying struct {
	memory.Store
	left int
}

var errDied = errors.New("killed")

func (d *dying) Put(ctx context.Context, namespace []string, key string, value json.RawMessage, opts ...memory.PutOptions) (memory.Item, error) {
	if d.left--; d.left < 0 {
		return memory.Item{}, errDied
	}
	return d.Store.Put(ctx, namespace, key, value, opts...)
}

func (d *dying) Delete(ctx context.Context, namespace []string, key string, opts ...memory.DeleteOptions) error {
	if d.left--; d.left < 0 {
		return errDied
	}
	return d.Store.Delete(ctx, namespace, key, opts...)
}

func TestWhatIsKilledInTheMiddleIsRightWhenItIsDoneAgain(t *testing.T) {
	stores(t, func(t *testing.T, x *retrieval.Index, _ *counting) {
		whole := x.Store
		for n := 0; ; n++ {
			add(t, x, text("a", one, two), text("b", two))
			x.Store = &dying{whole, n}
			_, err := x.Add(t.Context(), retrieval.Of(text("a", three, one, three)))
			x.Store = whole
			if err == nil && n > 5 {
				break
			}
			if !errors.Is(err, errDied) || !errors.Is(err, retrieval.ErrStore) {
				t.Fatalf("killed at write %d: %v", n, err)
			}
			if list, err := x.Documents(t.Context()); err != nil || n > 0 && list[0].Complete {
				t.Errorf("killed at write %d: listed %+v, %v", n, list, err)
			}
			add(t, x, text("a", three, one, three))
			if got, want := kept(t, x), two+"@0|"+three+"@0|"+three+"@84|"+one+"@42"; got != want {
				t.Fatalf("killed at write %d: kept %q, want %q", n, got, want)
			}
			if r := add(t, x, text("a", three, one, three)); r.Unchanged != 1 {
				t.Fatalf("killed at write %d: then %+v", n, r)
			}
		}
		for n := 0; ; n++ {
			add(t, x, text("a", one, two))
			x.Store = &dying{whole, n}
			err := x.Delete(t.Context(), "a")
			x.Store = whole
			if err == nil && n > 3 {
				break
			}
			if !errors.Is(err, errDied) {
				t.Fatalf("killed at write %d: %v", n, err)
			}
			if n%2 == 0 {
				add(t, x, text("a", one, two))
			}
			if err := x.Delete(t.Context(), "a"); err != nil || kept(t, x) != two+"@0" {
				t.Fatalf("killed at write %d: kept %q, %v", n, kept(t, x), err)
			}
		}
	})
}

func TestAnEmbedderThatFailsHalfWayNamesTheDocumentAndKeepsWhatIsDone(t *testing.T) {
	stores(t, func(t *testing.T, x *retrieval.Index, e *counting) {
		down := errors.New("the provider is down")
		e.fail = func(texts []string) error {
			if len(e.batches) == 1 {
				return down
			}
			return nil
		}
		r, err := x.Add(t.Context(), retrieval.Of(text("small", one), text("big", one, two, three, one)))
		d, ok := errors.AsType[*retrieval.DocumentError](err)
		if !ok || !errors.Is(err, down) || !errors.Is(err, retrieval.ErrEmbedding) || d.Document != "big" || !strings.Contains(err.Error(), "2 of its 4 chunks are done") {
			t.Fatal(err)
		}
		if r.Added != 1 || r.Embedded != 3 {
			t.Errorf("%+v", r)
		}
		e.fail = nil
		e.texts()
		if r := add(t, x, text("small", one), text("big", one, two, three, one)); r.Unchanged != 1 || r.Added != 1 || e.texts() != 2 {
			t.Errorf("again: %+v", r)
		}
		e.fail = func([]string) error { return context.Canceled }
		if _, err := x.Add(t.Context(), retrieval.Of(text("c", "other"))); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestADocumentThatCannotBeAddedDoesNotStopTheOthers(t *testing.T) {
	stores(t, func(t *testing.T, x *retrieval.Index, _ *counting) {
		lost := &retrieval.DocumentError{Document: "lost", Kind: retrieval.ErrUnreadable, Fix: "find it"}
		docs := func(yield func(retrieval.Document, error) bool) {
			_ = yield(text("a", one), nil) && yield(retrieval.Document{}, lost) && yield(text("empty", " "), nil) &&
				yield(retrieval.Document{ID: "odd", Text: one, Metadata: []byte(`{"a":"\u0000"}`)}, nil) && yield(text("b", two), nil)
		}
		r, err := x.Add(t.Context(), docs)
		if r.Added != 2 || !errors.Is(err, lost) || !errors.Is(err, retrieval.ErrEmpty) || !errors.Is(err, memory.ErrValue) || !strings.Contains(err.Error(), `"odd"`) {
			t.Fatalf("%+v, %v", r, err)
		}
		if got := kept(t, x); got != two+"@0|"+one+"@0" {
			t.Errorf("kept %q", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := x.Add(ctx, docs); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// meddling adds another form of the document while one is being added.
type meddling struct {
	memory.Store
	meddle func()
}

func (m *meddling) Search(ctx context.Context, prefix []string, q memory.Query) ([]memory.Item, error) {
	items, err := m.Store.Search(ctx, prefix, q)
	if f := m.meddle; f != nil {
		m.meddle = nil
		f()
	}
	return items, err
}

func TestOfTwoWhoAddADocumentAtOnceTheLastToEndWins(t *testing.T) {
	stores(t, func(t *testing.T, x *retrieval.Index, _ *counting) {
		other := *x
		x.Store = &meddling{x.Store, func() { add(t, &other, text("a", one, two)) }}
		add(t, x, text("a", one, three))
		if got := kept(t, x); got != three+"@42|"+one+"@0" {
			t.Errorf("kept %q", got)
		}
		if r := add(t, x, text("a", one, three)); r.Unchanged != 1 {
			t.Errorf("%+v", r)
		}
		var again func()
		m := &meddling{Store: other.Store}
		again = func() { add(t, &other, text("a", two)); m.meddle = again }
		m.meddle, x.Store = again, m
		if _, err := x.Add(t.Context(), retrieval.Of(text("a", three))); !errors.Is(err, memory.ErrConflict) || !strings.Contains(err.Error(), "let one of them do it") {
			t.Errorf("for ever: %v", err)
		}
	})
}

func TestSettingsOfAnIndexThatAreWrong(t *testing.T) {
	s, err := memory.NewInMemory()
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]*retrieval.Index{
		"no store":         {Namespace: []string{"a"}},
		"no namespace":     {Store: s},
		"a negative batch": {Store: s, Namespace: []string{"a"}, Batch: -1},
		"a negative size":  {Store: s, Namespace: []string{"a"}, Splitter: retrieval.Splitter{Size: -1}},
	} {
		if _, err := x.Add(t.Context(), retrieval.Of()); !as[*retrieval.OptionError](err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	x := &retrieval.Index{Store: s, Namespace: []string{"a"}, Embedder: memory.HashEmbedder(8)}
	if _, err := x.Add(t.Context(), retrieval.Of(text("a", one))); !errors.Is(err, memory.ErrNoIndex) {
		t.Errorf("a store without an index: %v", err)
	}
}
