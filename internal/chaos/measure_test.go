//go:build unix

package chaos

import (
	"context"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/servers"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
)

type parked struct {
	Name string
	Woke bool
}

func parkedGraph(s checkpoint.Store) (*graph.Graph[parked], error) {
	b := graph.New[parked]("parked")
	b.AddNode("rest", func(ctx context.Context, p *parked) error {
		if err := graph.Sleep(ctx, "long", 10*365*24*time.Hour); err != nil {
			return err
		}
		p.Woke = true
		return nil
	})
	return b.AddEdge(graph.Start, "rest").Compile(graph.WithCheckpointer(s))
}

// park makes threads first to last-1 from what the engine wrote for one: its
// records, with the results beside them, under other names and IDs.
func park(ctx context.Context, s checkpoint.Store, records []*checkpoint.Record, results []checkpoint.Result, first, last int) error {
	next := make(chan int)
	errs := make(chan error, 1)
	var wg sync.WaitGroup
	for range 32 { // side by side, they share transactions
		wg.Go(func() {
			for i := range next {
				if err := parkOne(ctx, s, records, results, i); err != nil {
					select {
					case errs <- err:
					default:
					}
				}
			}
		})
	}
	for i := first; i < last; i++ {
		next <- i
	}
	close(next)
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

func parkOne(ctx context.Context, s checkpoint.Store, records []*checkpoint.Record, results []checkpoint.Result, i int) error {
	id := checkpoint.NewRunID()
	name := func(old checkpoint.ID) checkpoint.ID {
		if old == "" {
			return ""
		}
		return id.Checkpoint(old.Count())
	}
	log := checkpoint.Log{Thread: parkedName(i)}
	for n, old := range records {
		r := *old
		r.Log, r.ID, r.Parent, r.Epoch = log, name(old.ID), name(old.Parent), name(old.Epoch)
		w := &checkpoint.Write{Log: log, Record: &r, Head: r.Parent, Claim: n == 0}
		if n == len(records)-1 {
			for _, x := range results {
				x.Epoch = name(x.Epoch)
				w.Results = append(w.Results, x)
			}
		}
		if _, err := s.Write(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

func parkedName(i int) checkpoint.ThreadID {
	var b [8]byte // spread, as names of users are
	binary.BigEndian.PutUint64(b[:], uint64(i)*0x9e3779b97f4a7c15)
	return checkpoint.ThreadID(fmt.Sprintf("user-%x", b))
}

// rss returns the memory of this process in MB.
func rss() float64 {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, resident int
	_, _ = fmt.Sscan(string(data), &size, &resident)
	return float64(resident) * float64(os.Getpagesize()) / (1 << 20)
}

func sizeOf(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if st, err := d.Info(); err == nil {
				n += st.Size()
			}
		}
		return nil
	})
	return n
}

func median(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}

// serverDir makes a directory that a server's own user can reach.
func serverDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "superstep-chaos")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// TestMeasureParkedThreads says what threads cost that sleep for years:
//
//	CHAOS_MEASURE=1 CHAOS_PARKED=1000000 go test -run MeasureParked -v -timeout 60m ./internal/chaos
func TestMeasureParkedThreads(t *testing.T) {
	if os.Getenv("CHAOS_MEASURE") != "1" {
		t.Skip("a measurement: CHAOS_MEASURE=1")
	}
	most := setting(t, "CHAOS_PARKED", 1_000_000)
	for _, name := range []string{"sqlite", "postgres"} {
		t.Run(name, func(t *testing.T) {
			wanted(t, name)
			dir := serverDir(t)
			at := filepath.Join(dir, "threads.db")
			if name == "postgres" {
				p, err := servers.StartPostgres(dir)
				servertest.Available(t, err)
				t.Cleanup(p.Stop)
				at = p.URL() + "&synchronous_commit=off"
			}
			ctx := t.Context()
			var records []*checkpoint.Record
			var results []checkpoint.Result
			have := 0
			for _, count := range []int{10, most} {
				began := time.Now()
				s, err := openStore(ctx, name, at)
				if err != nil {
					t.Fatal(err)
				}
				if records == nil {
					records, results = pattern(t, s)
				}
				if err := park(ctx, s, records, results, have, count); err != nil {
					t.Fatal(err)
				}
				have = count
				filled := time.Since(began)
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				debug.FreeOSMemory()
				before, disk := rss(), sizeOf(dir)
				began = time.Now()
				if s, err = openStore(ctx, name, at); err != nil {
					t.Fatal(err)
				}
				opened := time.Since(began)
				g, err := parkedGraph(s)
				if err != nil {
					t.Fatal(err)
				}
				r, err := graph.NewRunner(s, graph.RunnerOptions{Report: func(r graph.RunnerReport) { t.Errorf("%+v", r) }}, g)
				if err != nil {
					t.Fatal(err)
				}
				var polls []time.Duration
				for range 20 {
					began = time.Now()
					if err := r.Sweep(ctx); err != nil {
						t.Fatal(err)
					}
					polls = append(polls, time.Since(began))
				}
				after := rss()
				var resumes []time.Duration
				for i := range 7 {
					thread := g.Thread(string(parkedName(i * (count / 10))))
					began = time.Now()
					snap, err := thread.Invoke(ctx, thread.Answer(graph.Answers{"long": nil}))
					resumes = append(resumes, time.Since(began))
					if err != nil || !snap.Done() || !snap.State.Woke {
						t.Fatalf("%+v, %v", snap, err)
					}
				}
				first := resumes[0]
				runtime.KeepAlive(r)
				t.Logf("%s, %d parked threads of %d records: %.1f MB on disk (%d bytes a thread), filled in %v; opening %v; a poll of a runner %v (first %v); memory %.1f MB before opening, %.1f MB after the polls; resuming one %v (first %v)",
					name, count, len(records), float64(disk)/1e6, disk/int64(count), filled.Round(time.Millisecond), opened.Round(10*time.Microsecond),
					median(polls[1:]), polls[0], before, after, median(resumes[1:]), first)
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				// Those that were resumed are not parked any more.
				if count == 10 {
					s, err := openStore(ctx, name, at)
					if err != nil {
						t.Fatal(err)
					}
					for i := range 10 {
						if err := s.Delete(ctx, parkedName(i)); err != nil {
							t.Fatal(err)
						}
					}
					have = 0
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

// pattern has the engine park a thread, and returns what it wrote.
func pattern(t *testing.T, s backend) (records []*checkpoint.Record, results []checkpoint.Result) {
	t.Helper()
	ctx := t.Context()
	g, err := parkedGraph(s)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := g.Thread("pattern").Invoke(ctx, g.Input(func(p *parked) error {
		p.Name = strings.Repeat("n", 100)
		return nil
	}))
	if err != nil || len(snap.Waits) != 1 {
		t.Fatalf("%+v, %v", snap, err)
	}
	log := checkpoint.Log{Thread: "pattern"}
	for r, err := range s.Records(ctx, checkpoint.Query{Log: log, AllBranches: true}) {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	head := records[len(records)-1]
	if results, err = s.Results(ctx, log, head.Branch, head.Epoch); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(ctx, "pattern"); err != nil {
		t.Fatal(err)
	}
	return records, results
}
