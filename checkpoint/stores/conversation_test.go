package stores_test

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/minio/minio-go/v7"

	"github.com/superstep-dev/superstep/checkpoint/codec"
	"github.com/superstep-dev/superstep/checkpoint/stores"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/race"
)

type conversation struct {
	Said graph.List[string]
}

var dictionary = strings.Fields(`a about after again all also an and answer any are as ask at be because been before but by can
	could day did do each even find first for from get give go good had has have he her here him his how I if in into is it its just
	know last like little long look made make many may me more most much must my never new no not now of on one only or other our out
	over own people place question right said same say see she should show so some still such take tell than that the their them then
	there these they thing think this time to two under up us use very want was water way we week well went were what when where which
	while who why will with without word work world would year you your`)

// prose returns n bytes of words, which compress about as well as prose does.
func prose(r *rand.Rand, n int) string {
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(dictionary[r.IntN(len(dictionary))] + " ")
	}
	return b.String()[:n]
}

// sizes say how many bytes a store takes: of files, of PostgreSQL after a vacuum, or of the
// memory that Redis's keys take.
var sizes = map[string]func(t *testing.T, url string) int64{
	"file": func(t *testing.T, url string) int64 {
		return onDisk(t, strings.TrimPrefix(strings.TrimSuffix(url, "?sync=never"), "file:"))
	},
	"sqlite": func(t *testing.T, url string) int64 {
		return onDisk(t, filepath.Dir(strings.TrimPrefix(url, "sqlite:")))
	},
	"postgres": func(t *testing.T, url string) (n int64) {
		c, err := pgx.Connect(t.Context(), strings.Replace(url, "schema="+goldenSchema, "", 1))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(t.Context())
		for _, name := range []string{"threads", "logs", "records", "side"} {
			var one int64
			name = goldenSchema + ".superstep_" + name
			if _, err := c.Exec(t.Context(), `VACUUM FULL `+name); err != nil {
				t.Fatal(err)
			}
			if err := c.QueryRow(t.Context(), `SELECT pg_total_relation_size($1::text::regclass)`, name).Scan(&one); err != nil {
				t.Fatal(err)
			}
			n += one
		}
		return n
	},
	"redis": func(t *testing.T, url string) (n int64) {
		c, err := redisClient(url)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for keys := c.Scan(t.Context(), 0, "*", 1000).Iterator(); keys.Next(t.Context()); {
			one, err := c.MemoryUsage(t.Context(), keys.Val(), 0).Result()
			if err != nil {
				t.Fatal(err)
			}
			n += one
		}
		return n
	},
	"s3": func(t *testing.T, url string) (n int64) {
		c, name, err := s3Client(url)
		if err != nil {
			t.Fatal(err)
		}
		for o := range c.ListObjects(t.Context(), name, minio.ListObjectsOptions{Recursive: true}) {
			n += o.Size
		}
		return n
	},
}

func onDisk(t *testing.T, dir string) (n int64) {
	if err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

// Each turn is a run: it claims the thread, says what was said, and gives the thread up.
func TestAConversationTakesNotMuchMoreThanItsMessages(t *testing.T) {
	const turns, each = 2000, 500
	for kind, most := range map[string]struct{ plain, compressed float64 }{
		"file": {1.31, 0.95}, "sqlite": {1.3, 0.9}, "postgres": {1.1, 1}, "redis": {1.05, 1}, "s3": {1.25, 0.85},
	} {
		for _, compress := range []bool{false, true} {
			if race.Enabled && (compress || kind != "file" && kind != "sqlite") {
				continue // it takes long
			}
			t.Run(fmt.Sprint(kind, ", compressed: ", compress), func(t *testing.T) {
				url := forms[kind].open(t)
				if kind == "file" {
					url += "?sync=never"
				}
				s, err := stores.Open(t.Context(), url)
				if err != nil {
					t.Fatal(err)
				}
				limit := most.plain
				if compress {
					limit = most.compressed
					if s, err = codec.Wrap(s, codec.Options{Compress: true}); err != nil {
						t.Fatal(err)
					}
				}
				r := rand.New(rand.NewPCG(1, 2))
				b := graph.New[conversation]("chat")
				b.AddNode("agent", func(_ context.Context, c *conversation) error {
					c.Said.Add(prose(r, each-len(`{"Said":[""]}`)))
					return nil
				})
				b.AddEdge(graph.Start, "agent")
				g, err := b.Compile(graph.WithCheckpointer(s))
				if err != nil {
					t.Fatal(err)
				}
				for range turns {
					if _, err := g.Thread("t").Invoke(t.Context(), g.Input(func(c *conversation) error {
						c.Said.Add(prose(r, each-len(`{"Said":[""]}`)))
						return nil
					})); err != nil {
						t.Fatal(err)
					}
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				ratio := float64(sizes[kind](t, url)) / (turns * 2 * each)
				t.Logf("%.2f times the messages", ratio)
				if ratio > limit {
					t.Errorf("it takes %.2f times the bytes of its messages, want at most %.2f", ratio, limit)
				}
			})
		}
	}
}
