package temporal

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/stores"
	"github.com/superstep-dev/superstep/fleet"
	"github.com/superstep-dev/superstep/fleet/fleettest"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
)

const wide, long = 60, 10 // of a journey

const patience = 5 * time.Minute // with a thread

// journey is a fan-out and a join, a sleep, and a chain.
func journey(store checkpoint.Store) (*graph.Graph[fleettest.State], error) {
	b := graph.New[fleettest.State]("journey")
	part := graph.AddTask(b, "part", func(ctx context.Context, s *fleettest.State, i int) error {
		n, err := graph.Once(ctx, "count", func(context.Context, string) (int, error) {
			time.Sleep(5 * time.Millisecond)
			return i, nil
		})
		s.N.Add(n)
		s.Log.Add(fmt.Sprint("part ", i))
		return err
	})
	b.AddCommandNode("split", func(context.Context, *fleettest.State) (graph.Command, error) {
		sends := make([]graph.Send, wide)
		for i := range sends {
			sends[i] = part.Send(i)
		}
		return graph.Dispatch(sends...), nil
	}, graph.Destinations("part"))
	b.AddNode("nap", func(ctx context.Context, s *fleettest.State) error {
		s.Log.Add("slept")
		return graph.Sleep(ctx, "nap", 200*time.Millisecond)
	})
	b.AddNode("step", func(_ context.Context, s *fleettest.State) error {
		s.Log.Add("step")
		return nil
	})
	b.AddEdge(graph.Start, "split").AddEdge("part", "nap").AddEdge("nap", "step")
	b.AddConditionalEdges("step", func(_ context.Context, s *fleettest.State) (graph.Command, error) {
		if s.Log.Len() >= wide+1+long {
			return graph.Goto(graph.End), nil
		}
		return graph.Goto("step"), nil
	}, "step", graph.End)
	return b.Compile(graph.WithCheckpointer(store))
}

// undisturbed is what a journey leads to.
func undisturbed() (log []string) {
	for i := range wide {
		log = append(log, fmt.Sprint("part ", i))
	}
	return append(append(log, "slept"), slices.Repeat([]string{"step"}, long)...)
}

// Whatever is killed, and how often, each thread ends in the state that it would have come to
// anyway: workers, the server of Temporal, which has its own database, and PostgreSQL, which
// has the threads. TEMPORAL_KILLS is for how long, such as 10m; by default each is killed once.
func TestWhateverIsKilledNothingIsLostOrDoneTwice(t *testing.T) {
	t.Parallel()
	onServer(t) // it can be had
	pg := servertest.OwnPostgres(t)
	port := freePort(t)
	s := &testServer{}
	if err := s.start(filepath.Join(t.TempDir(), "temporal.db"), strconv.Itoa(port)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.c.Close(); s.kill() })
	store, err := stores.Open(t.Context(), pg.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	g, err := journey(store)
	if err != nil {
		t.Fatal(err)
	}
	d := s.dispatcher(t, Options{Batch: 15, Fuse: time.Second, Heartbeat: 2 * time.Second})
	c := &fleet.Client{Dispatcher: d, Store: store}

	workers := make([]*exec.Cmd, 3)
	begin := func(i int) {
		workers[i] = s.worker(d, pg.URL(), "journey")
		if err := workers[i].Start(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range workers {
		begin(i)
		t.Cleanup(func() { _ = workers[i].Process.Kill(); _ = workers[i].Wait() })
	}
	const often = 30 + 3 + 1
	kill := []struct {
		what  string
		often int // of so many
		kill  func()
	}{
		{"workers", 30, func() {
			i := rand.IntN(len(workers))
			_ = workers[i].Process.Kill()
			_ = workers[i].Wait()
			begin(i)
		}},
		{"PostgreSQL", 3, func() {
			pg.Kill()
			if err := pg.Start(); err != nil {
				t.Fatal(err)
			}
		}},
		{"Temporal", 1, func() {
			s.kill()
			if err := s.run(); err != nil {
				t.Fatal(err)
			}
		}},
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var beside, started sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() {
		_ = c.Watch(ctx, graph.RunnerOptions{Report: func(graph.RunnerReport) {}})
	})
	over := make(chan struct{})
	var ended [4]int
	for i := range ended {
		started.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-over:
					return
				default:
				}
				th := g.Thread(fmt.Sprint(i, " ", n))
				if err := travel(t.Context(), c, th); err != nil {
					t.Errorf("thread %q: %v", th.ID(), err)
					return
				}
				ended[i]++
			}
		})
	}

	killed := map[string]int{}
	if text := os.Getenv("TEMPORAL_KILLS"); text == "" {
		for _, k := range kill {
			time.Sleep(500 * time.Millisecond)
			k.kill()
			killed[k.what]++
		}
	} else {
		how, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal("TEMPORAL_KILLS: ", err)
		}
		for end := time.Now().Add(how); time.Now().Before(end) && !t.Failed(); {
			time.Sleep(rand.N(3 * time.Second)) // they take a while to begin
			n := rand.IntN(often)
			for _, k := range kill {
				if n -= k.often; n < 0 {
					k.kill()
					killed[k.what]++
					break
				}
			}
		}
	}
	close(over)
	started.Wait()
	cancel()
	sum := 0
	for _, n := range ended {
		sum += n
	}
	t.Logf("%d threads ended as if nobody had killed %v", sum, killed)
}

// travel has a thread make its journey, whatever fails meanwhile, and returns what is wrong
// with what it came to.
func travel(ctx context.Context, c *fleet.Client, th *graph.Thread[fleettest.State]) error {
	begun := time.Now()
	for try := 0; ; try++ {
		snap, err := th.State(ctx)
		switch {
		case err == nil && snap.Done():
			if got := snap.State.Log.Slice(); !slices.Equal(got, undisturbed()) || snap.State.N.Get() != wide*(wide-1)/2 {
				return fmt.Errorf("in superstep %d, next %q: the sum %d, %q", snap.Step, snap.Next, snap.State.N.Get(), got)
			}
			return nil
		case errors.Is(err, checkpoint.ErrNotFound):
			_, err = fleet.Start(ctx, c, th, th.Input(func(*fleettest.State) error { return nil }))
			if err != nil { // it is looked at again
				log.Print(th.ID(), ": ", err)
			}
		case time.Since(begun) > patience && err != nil:
			return fmt.Errorf("after %s: %w", patience, err)
		case time.Since(begun) > patience:
			return fmt.Errorf("after %s in superstep %d, next %q", patience, snap.Step, snap.Next)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
