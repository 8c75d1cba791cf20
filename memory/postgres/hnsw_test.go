package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/superstep-dev/superstep/internal/race"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/memory/postgres"
)

// indexes names the approximate indexes of a schema.
func indexes(t *testing.T, url, schema string) (names string) {
	t.Helper()
	s, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	if err := s.QueryRow(t.Context(), `SELECT coalesce(string_agg(indexname, ' '), '') FROM pg_indexes WHERE schemaname = $1 AND indexname LIKE 'superstep_memory_hnsw_%'`, schema).Scan(&names); err != nil {
		t.Fatal(err)
	}
	return names
}

func TestTheApproximateIndexFindsAlmostAllOfTheNearestAndNeverFewerThanThereAre(t *testing.T) {
	url := servertest.Postgres(t)
	needPgvector(t, url)
	const dimensions, users = 32, 20
	n := 3_000
	if race.Enabled {
		n = 1_000
	}
	schema := newSchema(t, url)
	o := postgres.Options{
		Schema: schema, HNSW: &postgres.HNSW{EfSearch: 100},
		Config: memory.Config{Index: &memory.Index{Embedder: directions(dimensions), Name: `an "index's" name`, Fields: []string{"text", "also"}}},
	}
	s := open(t, url, o)
	defer s.Close()
	type value struct {
		vectorItem
		Also string `json:"also,omitempty"`
	}
	var all []vectorItem
	var load errgroup.Group
	load.SetLimit(8)
	for i := range n {
		x := vectorItem{Text: fmt.Sprint("item ", i), N: i, Color: []string{"red", "green", "blue"}[i%3]}
		all = append(all, x)
		load.Go(func() error {
			v := value{vectorItem: x}
			if i%10 == 0 { // its two vectors are both near
				v.Also = x.Text
			}
			_, err := memory.Put(t.Context(), s, []string{"users", fmt.Sprint(i % users)}, fmt.Sprint(i), v)
			return err
		})
	}
	if err := load.Wait(); err != nil {
		t.Fatal(err)
	}
	exec(t, url, `ANALYZE `+quote(schema)+`.superstep_memory_items`, `ANALYZE `+quote(schema)+`.superstep_memory_vectors`)
	for name, c := range map[string]struct {
		prefix []string
		q      memory.Query
		left   func(x vectorItem) bool
	}{
		"all":             {nil, memory.Query{Limit: 10}, func(vectorItem) bool { return true }},
		"another page":    {nil, memory.Query{Limit: 10, Offset: 20}, func(vectorItem) bool { return true }},
		"a third":         {nil, memory.Query{Limit: 10, Filter: memory.Filter{memory.Eq("color", "red")}}, func(x vectorItem) bool { return x.Color == "red" }},
		"nine":            {nil, memory.Query{Limit: 20, Filter: memory.Filter{memory.Lt("n", 9)}}, func(x vectorItem) bool { return x.N < 9 }},
		"a namespace":     {[]string{"users", "7"}, memory.Query{Limit: 10}, func(x vectorItem) bool { return x.N%users == 7 }},
		"without a limit": {[]string{"users", "7"}, memory.Query{Limit: memory.Unlimited}, func(x vectorItem) bool { return x.N%users == 7 }},
	} {
		c.q.Text = "item 470"
		want := nearest(all, c.q.Text, dimensions, c.left)
		want = want[c.q.Offset:]
		if c.q.Limit > 0 {
			want = want[:min(c.q.Limit, len(want))]
		}
		found, err := memory.Search[vectorItem](t.Context(), s, c.prefix, c.q)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(found) != len(want) {
			t.Errorf("%s: %d found, want %d", name, len(found), len(want))
		}
		hits := 0
		for _, w := range want {
			for _, e := range found {
				if e.Value.N == w.n {
					hits++
				}
			}
		}
		if hits*10 < 8*len(want) {
			t.Errorf("%s: %d of the %d nearest", name, hits, len(want))
		}
	}
	plan, err := postgres.Plan(t.Context(), s, nil, memory.Query{Text: "item 470", Limit: 10})
	if err != nil || !strings.Contains(plan, "superstep_memory_hnsw_") {
		t.Errorf("the index isn't used: %v\n%s", err, plan)
	}

	t.Run("other settings make another index, the same ones none", func(t *testing.T) {
		before := indexes(t, url, schema)
		open(t, url, o).Close()
		if again := indexes(t, url, schema); again != before || strings.Count(again, "hnsw") != 1 || !strings.HasSuffix(again, "_16_64") {
			t.Errorf("indexes %q, then %q", before, again)
		}
		o.HNSW = &postgres.HNSW{M: 4, EfConstruction: 8}
		open(t, url, o).Close()
		if now := indexes(t, url, schema); now != strings.TrimSuffix(before, "_16_64")+"_4_8" {
			t.Errorf("index %q", now)
		}
	})
}

func TestAnApproximateIndexOfLongVectors(t *testing.T) {
	url := servertest.Postgres(t)
	needPgvector(t, url)
	o := postgres.Options{HNSW: &postgres.HNSW{}, Config: memory.Config{Index: &memory.Index{Embedder: directions(3072), Fields: []string{"text"}}}}
	s := open(t, url, o)
	defer s.Close()
	for _, text := range []string{"a", "b", "c"} {
		if _, err := memory.Put(t.Context(), s, []string{"n"}, text, vectorItem{Text: text}); err != nil {
			t.Fatal(err)
		}
	}
	items, err := s.Search(t.Context(), nil, memory.Query{Text: "b", Limit: 1})
	if err != nil || len(items) != 1 || items[0].Key != "b" || items[0].Score < 0.999 {
		t.Fatal(items, err)
	}
}

func TestAnApproximateIndexThatCannotBeMade(t *testing.T) {
	index := func(dimensions int) memory.Config {
		return memory.Config{Index: &memory.Index{Embedder: directions(dimensions)}}
	}
	for name, c := range map[string]struct {
		o    postgres.Options
		says string
	}{
		"without an index of texts": {postgres.Options{HNSW: &postgres.HNSW{}}, "no Index"},
		"without pgvector":          {postgres.Options{HNSW: &postgres.HNSW{}, Config: index(3), NoPgvector: true}, "NoPgvector is set"},
		"of too many dimensions":    {postgres.Options{HNSW: &postgres.HNSW{}, Config: index(4001)}, "leave HNSW out"},
		"with one link":             {postgres.Options{HNSW: &postgres.HNSW{M: 1}, Config: index(3)}, "M is 1"},
		"with few candidates":       {postgres.Options{HNSW: &postgres.HNSW{M: 50, EfConstruction: 64}, Config: index(3)}, "EfConstruction is 64, not 100"},
		"with many candidates":      {postgres.Options{HNSW: &postgres.HNSW{EfSearch: 1001}, Config: index(3)}, "EfSearch is 1001"},
	} {
		_, err := postgres.Open(t.Context(), "postgres://u:p@127.0.0.1:1/db", c.o)
		if !errors.Is(err, memory.ErrOption) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	url := servertest.OwnPostgres(t).URL()
	_, err := postgres.Open(context.Background(), url, postgres.Options{HNSW: &postgres.HNSW{}, Config: index(3)})
	wantError(t, err, postgres.ErrNoHNSW)
}
