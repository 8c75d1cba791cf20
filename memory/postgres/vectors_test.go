package postgres_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/superstep-dev/superstep/internal/race"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/memory/postgres"
	"github.com/superstep-dev/superstep/model"
)

// directions embeds each text in a direction of its own.
func directions(dimensions int) model.Embedder {
	return model.EmbedFunc(dimensions, func(_ context.Context, texts []string) ([][]float32, error) {
		out := make([][]float32, len(texts))
		for i, text := range texts {
			out[i] = direction(dimensions, text)
		}
		return out, nil
	})
}

func direction(dimensions int, text string) []float32 {
	h := fnv.New64a()
	h.Write([]byte(text))
	r := rand.New(rand.NewPCG(h.Sum64(), 1))
	v := make([]float32, dimensions)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

type vectorItem struct {
	Text  string `json:"text"`
	N     int    `json:"n"`
	Color string `json:"color"`
}

// Of 10,000 vectors just the nearest are found that a condition and a prefix leave,
// all of them if they are fewer than asked for: conditions are applied before
// the ranking, not to its first results. With pgvector and without it is the same,
// on the same tables.
func TestTheNearestOfManyVectorsUnderConditions(t *testing.T) {
	const dimensions, users = 32, 100
	n := 10_000
	if race.Enabled {
		n = 2_000
	}
	url := servertest.Postgres(t)
	pgvector := withPgvector(t, url)
	config := memory.Config{Index: &memory.Index{Embedder: directions(dimensions), Fields: []string{"text"}}}
	s := open(t, url, postgres.Options{Config: config, NoPgvector: true})
	defer s.Close()
	var all []vectorItem
	var load errgroup.Group
	load.SetLimit(8)
	for i := range n {
		x := vectorItem{Text: fmt.Sprint("item ", i), N: i, Color: []string{"red", "green", "blue"}[i%3]}
		all = append(all, x)
		load.Go(func() error {
			_, err := memory.Put(t.Context(), s, []string{"users", fmt.Sprint(i % users)}, fmt.Sprint(i), x)
			return err
		})
	}
	if err := load.Wait(); err != nil {
		t.Fatal(err)
	}
	stores := map[string]*postgres.Store{"without pgvector": s}
	if pgvector {
		with := open(t, url, postgres.Options{Config: config, Schema: sameSchema(t, s)})
		defer with.Close()
		if !with.Pgvector() {
			t.Fatal("pgvector wasn't found")
		}
		stores["with pgvector"] = with
	} else {
		t.Log("NOT TESTED: pgvector; the server doesn't have it")
	}
	for _, c := range []struct {
		name   string
		prefix []string
		q      memory.Query
		left   func(x vectorItem) bool
	}{
		{"all", nil, memory.Query{Limit: 20}, func(vectorItem) bool { return true }},
		{"a third", nil, memory.Query{Limit: 20, Filter: memory.Filter{memory.Eq("color", "red")}}, func(x vectorItem) bool { return x.Color == "red" }},
		{"one of a thousand", nil, memory.Query{Limit: 20, Filter: memory.Filter{memory.Lt("n", 10)}}, func(x vectorItem) bool { return x.N < 10 }},
		{"one", nil, memory.Query{Limit: 20, Filter: memory.Filter{memory.Eq("n", 4711)}}, func(x vectorItem) bool { return x.N == 4711 }},
		{"none", nil, memory.Query{Limit: 20, Filter: memory.Filter{memory.Eq("color", "black")}}, func(vectorItem) bool { return false }},
		{"a namespace", []string{"users", "7"}, memory.Query{Limit: 20}, func(x vectorItem) bool { return x.N%users == 7 }},
		{
			"a namespace and a condition", []string{"users", "7"}, memory.Query{Limit: 50, Filter: memory.Filter{memory.Ne("color", "red")}},
			func(x vectorItem) bool { return x.N%users == 7 && x.Color != "red" },
		},
		{"another page", nil, memory.Query{Limit: 20, Offset: 40, Filter: memory.Filter{memory.Eq("color", "blue")}}, func(x vectorItem) bool { return x.Color == "blue" }},
		{"the last page", []string{"users", "7"}, memory.Query{Limit: 20, Offset: 95}, func(x vectorItem) bool { return x.N%users == 7 }},
	} {
		for k, text := range []string{"item 4711", "something else"} {
			c.q.Text = text
			want := nearest(all, text, dimensions, c.left)
			want = want[min(c.q.Offset, len(want)):]
			want = want[:min(c.q.Limit, len(want))]
			for name, s := range stores {
				found, err := memory.Search[vectorItem](t.Context(), s, c.prefix, c.q)
				if err != nil {
					t.Fatalf("%s, %s: %v", name, c.name, err)
				}
				if len(found) != len(want) {
					t.Errorf("%s, %s, text %d: %d found, want %d", name, c.name, k, len(found), len(want))
					continue
				}
				for i, e := range found {
					if e.Value.N != want[i].n || math.Abs(e.Score-want[i].score) > 1e-5 {
						t.Errorf("%s, %s, text %d: item %d at %d with %v, want %+v", name, c.name, k, e.Value.N, i, e.Score, want[i])
					}
				}
			}
		}
	}
}

type scored struct {
	n     int
	score float64
}

// nearest ranks items the simple way.
func nearest(all []vectorItem, text string, dimensions int, left func(vectorItem) bool) []scored {
	cosine := func(a, b []float32) float64 {
		var dot, aa, bb float64
		for i := range a {
			dot, aa, bb = dot+float64(a[i])*float64(b[i]), aa+float64(a[i])*float64(a[i]), bb+float64(b[i])*float64(b[i])
		}
		return dot / math.Sqrt(aa*bb)
	}
	to := direction(dimensions, text)
	var out []scored
	for _, x := range all {
		if left(x) {
			out = append(out, scored{x.N, cosine(direction(dimensions, x.Text), to)})
		}
	}
	slices.SortStableFunc(out, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
	return out
}

// Vectors of several lengths stand in one table: only those of a search's own are
// compared, and an embedder that breaks its word changes nothing.
func TestVectorsOfSeveralLengths(t *testing.T) {
	url := servertest.Postgres(t)
	for _, pgvector := range []bool{false, true} {
		t.Run(fmt.Sprint("pgvector ", pgvector), func(t *testing.T) {
			if pgvector {
				needPgvector(t, url)
			}
			config := func(e model.Embedder) postgres.Options {
				return postgres.Options{Config: memory.Config{Index: &memory.Index{Embedder: e, Fields: []string{"text"}}}, NoPgvector: !pgvector}
			}
			o := config(directions(3))
			o.Schema = newSchema(t, url)
			put := func(e model.Embedder, key string) error {
				o.Index = config(e).Index
				s := open(t, url, o)
				defer s.Close()
				_, err := memory.Put(t.Context(), s, []string{"a"}, key, vectorItem{Text: key})
				return err
			}
			find := func(dimensions int) string {
				o.Index = config(directions(dimensions)).Index
				s := open(t, url, o)
				defer s.Close()
				items, err := s.Search(t.Context(), nil, memory.Query{Text: "k"})
				if err != nil {
					t.Fatal(err)
				}
				var keys []string
				for _, i := range items {
					keys = append(keys, i.Key)
				}
				return strings.Join(keys, " ")
			}
			const most = 16_000 // that pgvector compares
			for _, d := range []int{3, 4, most, most + 1} {
				if err := put(directions(d), fmt.Sprint("of ", d)); err != nil {
					t.Fatal(err)
				}
			}
			lying := model.EmbedFunc(3, func(_ context.Context, texts []string) ([][]float32, error) {
				return [][]float32{make([]float32, 4)}, nil
			})
			var ee *model.EmbeddingError
			if err := put(lying, "of 3"); !errors.As(err, &ee) {
				t.Errorf("a vector of another length: %v", err)
			}
			for _, d := range []int{3, 4, most, most + 1} {
				if got := find(d); got != fmt.Sprint("of ", d) {
					t.Errorf("among vectors of length %d: %q", d, got)
				}
			}
			if got := find(5); got != "" {
				t.Errorf("found %q, which has no vector to compare", got)
			}
			s := open(t, url, o)
			defer s.Close()
			if item, err := s.Get(t.Context(), []string{"a"}, "of 3"); err != nil || !json.Valid(item.Value) || !strings.Contains(string(item.Value), "of 3") {
				t.Errorf("%v, %v", item, err)
			}
		})
	}
}
