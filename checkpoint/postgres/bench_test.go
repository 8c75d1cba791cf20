package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/checkpointtest"
	"github.com/superstep-dev/superstep/checkpoint/internal/logtest"
	"github.com/superstep-dev/superstep/checkpoint/postgres"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
)

// message is what one record of a conversation holds.
var message = json.RawMessage(`{"messages":[{"role":"assistant","content":"` + strings.Repeat("x", 440) + `"}]}`)

// durableURL returns a server that syncs every commit, as servers do.
func durableURL(b *testing.B) string {
	b.Helper()
	return servertest.Postgres(b, "fsync = on")
}

// parallel runs f for b.N times in all, on n goroutines.
func parallel(b *testing.B, n int, f func(i int, more func() bool) error) {
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ResetTimer()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if err := f(i, func() bool { return left.Add(-1) >= 0 }); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
}

// BenchmarkAppend appends whole supersteps to n threads at once; compare it with
// BenchmarkBareInsert.
func BenchmarkAppend(b *testing.B) {
	for _, writers := range []int{1, 2, 4, 7} {
		for _, n := range []int{1, 16, 256} {
			if n == 1 && writers != 4 {
				continue
			}
			b.Run(fmt.Sprintf("writers-%d/threads-%d", writers, n), func(b *testing.B) {
				s := open(b, durableURL(b), postgres.Options{Writers: writers})
				defer s.Close()
				parallel(b, n, func(i int, more func() bool) error {
					log, run := checkpoint.Log{Thread: checkpoint.ThreadID(fmt.Sprint("t", i))}, checkpoint.NewRunID()
					var parent checkpoint.ID
					for seq := int64(1); more(); seq++ {
						r := logtest.Step(log, run, parent, seq, message)
						w := &checkpoint.Write{Log: log, Record: r, Head: parent}
						if parent != "" {
							w.Drop = &checkpoint.Drop{Epoch: parent}
							w.Results = []checkpoint.Result{{Epoch: parent, Kind: checkpoint.KindChanges, Data: message}, {Epoch: parent, Kind: checkpoint.KindRouting, Data: []byte(`{"static":true}`)}}
						}
						if _, err := s.Write(b.Context(), w); err != nil {
							return err
						}
						parent = r.ID
					}
					return nil
				})
			})
		}
	}
}

// BenchmarkBareInsert is the loop to compare with: one row a commit, prepared, the
// same driver, server and bytes.
func BenchmarkBareInsert(b *testing.B) {
	meta, data, err := checkpoint.MarshalBody(logtest.Step(checkpoint.Log{Thread: "t"}, checkpoint.NewRunID(), "", 1, message))
	if err != nil {
		b.Fatal(err)
	}
	body := append(meta, data...)
	for _, c := range []struct{ conns, n int }{{8, 1}, {8, 16}, {8, 256}} {
		b.Run(fmt.Sprintf("conns-%d/threads-%d", c.conns, c.n), func(b *testing.B) {
			url := durableURL(b)
			exec(b, url, `DROP TABLE IF EXISTS superstep_bench`, `CREATE TABLE superstep_bench (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea NOT NULL)`)
			pool := poolOf(b, url, func(p *pgxpool.Config) { p.MaxConns = int32(c.conns) })
			defer pool.Close()
			parallel(b, c.n, func(_ int, more func() bool) error {
				for more() {
					if _, err := pool.Exec(context.Background(), `INSERT INTO superstep_bench (body) VALUES ($1)`, body); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

func BenchmarkStore(b *testing.B) {
	checkpointtest.Benchmark(b, func(b *testing.B) checkpoint.Store {
		return open(b, durableURL(b), postgres.Options{})
	})
}
