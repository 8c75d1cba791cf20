//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// ending is a store as a process sees it whose store is away from some moment on, for
// good. The last write is done, or not.
type ending struct {
	backend
	mu   sync.Mutex
	left int // operations
	done bool
}

func (s *ending) away() (gone, last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left--
	return s.left <= 0, s.left == 0
}

func (s *ending) Write(ctx context.Context, w *checkpoint.Write) (checkpoint.Written, error) {
	gone, last := s.away()
	if !gone {
		return s.backend.Write(ctx, w)
	}
	if last && s.done {
		_, _ = s.backend.Write(ctx, w)
	}
	return checkpoint.Written{}, errAway
}

func (s *ending) Results(ctx context.Context, log checkpoint.Log, b checkpoint.Branch, epoch checkpoint.ID) ([]checkpoint.Result, error) {
	if gone, _ := s.away(); gone {
		return nil, errAway
	}
	return s.backend.Results(ctx, log, b, epoch)
}

func (s *ending) Head(ctx context.Context, log checkpoint.Log) (*checkpoint.Record, checkpoint.Fence, error) {
	if gone, _ := s.away(); gone {
		return nil, 0, errAway
	}
	return s.backend.Head(ctx, log)
}

// looking fails the looks of a runner, too.
type looking struct{ *shaky }

func (s looking) Due(ctx context.Context, until time.Time, limit int) iter.Seq2[checkpoint.Waiting, error] {
	return s.look(s.shaky.Due(ctx, until, limit))
}

func (s looking) Abandoned(ctx context.Context, limit int) iter.Seq2[checkpoint.Waiting, error] {
	return s.look(s.shaky.Abandoned(ctx, limit))
}

func (s looking) look(found iter.Seq2[checkpoint.Waiting, error]) iter.Seq2[checkpoint.Waiting, error] {
	return func(yield func(checkpoint.Waiting, error) bool) {
		for w, err := range found {
			if s.fails() {
				yield(checkpoint.Waiting{}, errAway)
				return
			}
			if !yield(w, err) {
				return
			}
		}
	}
}

// effects are the calls of the functions of Once: by effect, how many with each key.
type effects struct {
	mu   sync.Mutex
	keys map[string]map[string]int
}

func (e *effects) once(ctx context.Context, name string) error {
	in := graph.Info(ctx)
	_, err := graph.Once(ctx, "effect", func(_ context.Context, key string) (string, error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		id := in.Thread + " " + name
		if e.keys[id] == nil {
			e.keys[id] = map[string]int{}
		}
		e.keys[id][key]++
		return "", nil
	})
	return err
}

// errand is a state of a run that needs nobody but runners once its event is sent.
type errand struct {
	Trail graph.List[string]
	Loops int
	Sum   graph.Sum[int]
	Word  string
	Sub   string
}

type detour struct{ Steps graph.List[string] }

const errandRounds, errandParts = 3, 4

// errands returns a graph with a Once wherever one can be: a loop, sends, a sleep, an
// event and a subgraph.
func errands(store checkpoint.Store, e *effects) (*graph.Graph[errand], error) {
	b := graph.New[errand]("errand")
	node := func(name string, fn func(ctx context.Context, s *errand) error) {
		b.AddNode(name, func(ctx context.Context, s *errand) error {
			s.Trail.Add(name)
			return fn(ctx, s)
		})
	}
	node("pay", func(ctx context.Context, _ *errand) error { return e.once(ctx, "pay") })
	node("count", func(ctx context.Context, s *errand) error {
		s.Loops++
		return e.once(ctx, fmt.Sprint("count ", s.Loops))
	})
	part := graph.AddTask(b, "part", func(ctx context.Context, s *errand, n int) error {
		s.Sum.Add(n)
		return e.once(ctx, fmt.Sprint("part ", n))
	})
	b.AddCommandNode("split", func(context.Context, *errand) (graph.Command, error) {
		var sends []graph.Send
		for i := range errandParts {
			sends = append(sends, part.Send(i))
		}
		return graph.Dispatch(sends...), nil
	}, graph.Destinations("part"))
	node("nap", func(ctx context.Context, _ *errand) error {
		return errors.Join(e.once(ctx, "nap"), graph.Sleep(ctx, "nap", 20*time.Millisecond))
	})
	node("hear", func(ctx context.Context, s *errand) (err error) {
		if err = e.once(ctx, "hear"); err == nil {
			s.Word, err = graph.WaitFor[string](ctx, "", goEvent)
		}
		return err
	})
	in := graph.New[detour]("detour")
	for _, name := range []string{"first", "last"} {
		in.AddNode(name, func(ctx context.Context, s *detour) error {
			s.Steps.Add(name)
			return e.once(ctx, name)
		})
	}
	in.AddEdge(graph.Start, "first").AddEdge("first", "last")
	graph.AddSubgraph(b, "sub", in.MustCompile(), graph.Mapping[errand, detour]{
		Out: func(c *detour, p *errand) { p.Sub = fmt.Sprint(c.Steps.Slice()) },
	})
	node("finish", func(ctx context.Context, _ *errand) error { return e.once(ctx, "finish") })
	b.AddEdge(graph.Start, "pay").AddEdge("pay", "count")
	b.AddRoutes("count", func(_ context.Context, s *errand) (string, error) {
		if s.Loops < errandRounds {
			return "again", nil
		}
		return "on", nil
	}, map[string]string{"again": "count", "on": "split"})
	b.AddEdge("part", "nap").AddEdge("nap", "hear").AddEdge("hear", "sub").AddEdge("sub", "finish")
	return b.Compile(graph.WithCheckpointer(store), graph.LeaseTTL(time.Second))
}

// wrong reports what is not as it is at the end of an undisturbed run.
func (s *errand) wrong() error {
	if trail := fmt.Sprint(s.Trail.Slice()); trail != "[pay count count count nap hear finish]" || s.Loops != errandRounds ||
		s.Sum.Get() != errandParts*(errandParts-1)/2 || s.Word != "word" || s.Sub != "[first last]" {
		return fmt.Errorf("it ends with %s and %+v", trail, *s)
	}
	return nil
}

// Runs begin threads over a store that is away from some moment on. Runners, over a
// store that fails now and then, alone bring each thread to its end: none is stranded,
// and each effect has happened, under one key.
func TestChaosOfRunners(t *testing.T) {
	runs := setting(t, "CHAOS_RUNS", 60)
	for _, name := range []string{"memory", "file", "sqlite", "redis", "postgres"} {
		t.Run(name, func(t *testing.T) { runnersOver(t, name, runs) })
	}
}

func runnersOver(t *testing.T, name string, runs int) {
	ctx, seed := t.Context(), uint64(setting(t, "CHAOS_SEED", 1))
	b := openFor(t, name)
	s := &shaky{backend: b, rng: rand.New(rand.NewPCG(seed, 0)), rate: 0.03}
	e := &effects{keys: map[string]map[string]int{}}
	calm, err := errands(b, e)
	if err != nil {
		t.Fatal(err)
	}
	working, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	for range 2 {
		r, err := graph.NewRunner(looking{s}, graph.RunnerOptions{
			Poll: 20 * time.Millisecond, Concurrency: 8,
			Report: func(r graph.RunnerReport) {
				if r.Err != nil && !errors.Is(r.Err, errAway) && !errors.Is(r.Err, context.Canceled) && !errors.Is(r.Err, graph.ErrThreadBusy) {
					t.Errorf("%s, seed %d, thread %s: the runner: %v", name, seed, r.Thread, r.Err)
				}
			},
		}, calm)
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() { _ = r.Run(working) })
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	var begun []string
	cut := 0
	for i := range runs {
		thread := fmt.Sprint("r", i)
		g, err := errands(&ending{backend: b, left: 3 + rng.IntN(40), done: rng.IntN(2) == 0}, e)
		if err != nil {
			t.Fatal(err)
		}
		busy := graph.WhenBusy([]graph.BusyPolicy{graph.BusyReject, graph.BusyQueue}[rng.IntN(2)])
		_, err = g.Thread(thread).Invoke(ctx, g.Input(func(*errand) error { return nil }), busy)
		if err != nil {
			cut++
		}
		if _, err := calm.Thread(thread).State(ctx); errors.Is(err, checkpoint.ErrNotFound) {
			continue // it has not begun
		} else if err != nil {
			t.Fatal(err)
		}
		begun = append(begun, thread)
		if err := calm.Thread(thread).SendEvent(ctx, goEvent, "word"); err != nil {
			t.Fatal(err)
		}
	}
	if cut == 0 || len(begun) == 0 {
		t.Errorf("%d of %d runs were cut short, %d threads have begun", cut, runs, len(begun))
	}
	// The last leases run out while the store still fails; in the end nothing does.
	time.Sleep(2 * time.Second)
	hits, end := s.heal(), time.Now().Add(time.Minute)
	for _, thread := range begun {
		if err := brought(ctx, calm, thread, end); err != nil {
			t.Errorf("%s, seed %d, thread %s: %v", name, seed, thread, err)
		}
	}
	again := 0
	e.mu.Lock()
	defer e.mu.Unlock()
	names := []string{"pay", "nap", "hear", "first", "last", "finish"}
	for i := range errandRounds {
		names = append(names, fmt.Sprint("count ", i+1))
	}
	for i := range errandParts {
		names = append(names, fmt.Sprint("part ", i))
	}
	for _, thread := range begun {
		for _, effect := range names {
			keys := e.keys[thread+" "+effect]
			if len(keys) != 1 {
				t.Errorf("%s, seed %d, thread %s: the effect %q has the keys %v", name, seed, thread, effect, keys)
			}
			for _, n := range keys {
				again += n - 1
			}
		}
	}
	t.Logf("%s: %d of %d runs were cut short, %d threads have begun, %d failures of the store under the runners, %d effects, %d tried again", name, cut, runs, len(begun), hits, len(begun)*len(names), again)
}

// brought waits for a thread's end, and reports what is wrong with it.
func brought(ctx context.Context, g *graph.Graph[errand], thread string, until time.Time) error {
	for {
		snap, err := g.Thread(thread).State(ctx)
		switch {
		case err != nil:
			return err
		case snap.Done():
			return snap.State.wrong()
		case time.Now().After(until):
			return fmt.Errorf("it is stranded before %v, waiting for %v", snap.Next, snap.Waits)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// openFor opens a store of its own for a test.
func openFor(t *testing.T, name string) backend {
	t.Helper()
	var b backend
	if name == "memory" {
		wanted(t, name)
		b = checkpoint.NewMemory()
	} else {
		var err error
		if b, err = openPatiently(t.Context(), name, newLab(t, name).direct); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}
