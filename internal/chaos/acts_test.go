//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// errAway is a failure of the store that the test makes.
var errAway = errors.New("the store is away")

// shaky is a store that fails now and then, before a write or, with the write done,
// after it.
type shaky struct {
	backend
	checkpoint.Rewriter
	mu   sync.Mutex
	rng  *rand.Rand
	rate float64
	hits int
}

func (s *shaky) fails() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rng.Float64() >= s.rate {
		return false
	}
	s.hits++
	return true
}

func (s *shaky) Write(ctx context.Context, w *checkpoint.Write) (checkpoint.Written, error) {
	if s.fails() {
		return checkpoint.Written{}, errAway
	}
	done, err := s.backend.Write(ctx, w)
	if err == nil && s.fails() {
		return checkpoint.Written{}, errAway
	}
	return done, err
}

func (s *shaky) Results(ctx context.Context, log checkpoint.Log, b checkpoint.Branch, epoch checkpoint.ID) ([]checkpoint.Result, error) {
	if s.fails() {
		return nil, errAway
	}
	return s.backend.Results(ctx, log, b, epoch)
}

// talk is a state of turns: each word is said, and heard in parallel by two nodes.
type talk struct {
	Said graph.List[string]
	A, B graph.List[string]
}

func talking(store checkpoint.Store) (*graph.Graph[talk], error) {
	b := graph.New[talk]("talk")
	b.AddNode("a", func(ctx context.Context, s *talk) error {
		word := s.Said.Last()
		_, err := graph.Once(ctx, "hear", func(context.Context, string) (string, error) { return word, nil })
		s.A.Add(word)
		return err
	})
	b.AddNode("b", func(_ context.Context, s *talk) error { s.B.Add(s.Said.Last()); return nil })
	b.AddNode("end", func(context.Context, *talk) error { return nil })
	b.AddEdge(graph.Start, "a").AddEdge(graph.Start, "b").AddJoin([]string{"a", "b"}, "end")
	return b.Compile(graph.WithCheckpointer(store), graph.LeaseTTL(time.Second))
}

// forked reports whether a thread is one that is forked: what its callers were told of
// may be on a line that it has left.
func forked(thread string) bool { return thread >= "t2" }

// act does one thing with a thread. It returns the word that the caller was told is
// said and heard.
func act(ctx context.Context, g *graph.Graph[talk], rng *rand.Rand, prunes bool, thread, word string) (told string, err error) {
	id := graph.Thread(thread)
	busy := graph.WhenBusy([]graph.BusyPolicy{graph.BusyReject, graph.BusyQueue, graph.BusyInterrupt, graph.BusyRollback}[rng.IntN(4)])
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	kind := rng.IntN(10)
	switch {
	case kind == 0 && !prunes, kind == 1 && !forked(thread):
		kind = 2
	}
	switch kind {
	case 0:
		_, err = g.Prune(ctx, graph.Keep{Last: 1 + rng.IntN(3)}, id, busy)
	case 1: // where the thread stood
		var snap *graph.Snapshot[talk]
		if snap, err = g.State(ctx, id); err == nil {
			_, err = g.Fork(ctx, snap.Checkpoint, id, busy)
		}
	case 2:
		_, err = g.UpdateState(ctx, func(s *talk) {}, id, busy)
	case 3, 4:
		_, err = g.State(ctx, id)
		for e, herr := range g.History(ctx, id, graph.AllBranches()) {
			if herr == nil {
				_, herr = e.State(ctx)
			}
			if err = errors.Join(err, herr); herr != nil {
				break
			}
		}
	case 5:
		_, err = g.Continue(ctx, id, busy)
	default:
		if _, err = g.Invoke(ctx, func(s *talk) { s.Said.Add(word) }, id, busy); err == nil {
			told = word
		}
	}
	return told, err
}

// Several callers work on few threads over a store that fails, and do all that can be
// done with a thread, as each busy policy says. In the end each thread goes on and can
// be read at all of its checkpoints, and the input of each call that returned without
// an error is there, once.
func TestChaosOfActs(t *testing.T) {
	acts := setting(t, "CHAOS_ACTS", 300)
	for _, name := range []string{"memory", "file", "sqlite", "redis", "postgres"} {
		t.Run(name, func(t *testing.T) { actsOver(t, name, acts) })
	}
}

func actsOver(t *testing.T, name string, acts int) {
	ctx, seed := t.Context(), uint64(setting(t, "CHAOS_SEED", 1))
	var b backend
	if name == "memory" {
		wanted(t, name)
		b = checkpoint.NewMemory()
	} else {
		l := newLab(t, name)
		var err error
		if b, err = openPatiently(ctx, name, l.direct); err != nil {
			t.Fatal(err)
		}
	}
	defer b.Close()
	s := &shaky{backend: b, Rewriter: b.(checkpoint.Rewriter), rng: rand.New(rand.NewPCG(seed, 0)), rate: 0.02}
	g, err := talking(s)
	if err != nil {
		t.Fatal(err)
	}
	prunes := setting(t, "CHAOS_PRUNES", 0) > 0
	var mu sync.Mutex
	told := map[string][]string{}
	counts := map[string]int{}
	var wg sync.WaitGroup
	const callers, threads = 6, 4
	for c := range callers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(c+1)))
			for i := range acts / callers {
				thread, word := fmt.Sprint("t", rng.IntN(threads)), fmt.Sprintf("%d-%d", c, i)
				said, err := act(ctx, g, rng, prunes, thread, word)
				mu.Lock()
				switch {
				case said != "":
					told[thread] = append(told[thread], said)
				case err == nil:
				case errors.Is(err, graph.ErrThreadBusy), errors.Is(err, errAway), errors.Is(err, graph.ErrNothingToResume), errors.Is(err, checkpoint.ErrNotFound):
					counts[why(err)]++
				default:
					t.Errorf("%s, seed %d, thread %s: %v", name, seed, thread, err)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	s.mu.Lock()
	s.rate = 0
	s.mu.Unlock()
	n := 0
	for i := range threads {
		thread := fmt.Sprint("t", i)
		snap, err := g.Continue(ctx, graph.Thread(thread), graph.WhenBusy(graph.BusyQueue))
		if errors.Is(err, graph.ErrNothingToResume) {
			continue
		}
		if err != nil {
			t.Errorf("%s, seed %d, thread %s can't go on: %v", name, seed, thread, err)
			continue
		}
		there := map[string]bool{}
		look := func(s *talk) {
			seen := map[string]bool{}
			for _, word := range s.Said.Slice() {
				if seen[word] {
					t.Errorf("%s, seed %d, thread %s: %s is said twice", name, seed, thread, word)
				}
				seen[word], there[word] = true, true
			}
		}
		look(&snap.State)
		for e, err := range g.History(ctx, graph.Thread(thread), graph.AllBranches()) {
			var st talk
			if err == nil {
				st, err = e.State(ctx)
			}
			if err != nil {
				t.Errorf("%s, seed %d, thread %s: %v", name, seed, thread, err)
			}
			if forked(thread) {
				look(&st)
			}
		}
		for _, word := range told[thread] {
			if n++; !there[word] {
				t.Errorf("%s, seed %d, thread %s: the caller was told of %s, which is lost", name, seed, thread, word)
			}
		}
	}
	t.Logf("%s: %d acts, %d failures of the store, %d turns told, refused %v", name, acts, s.hits, n, counts)
}

func why(err error) string {
	switch {
	case errors.Is(err, errAway):
		return "away"
	case errors.Is(err, graph.ErrThreadBusy):
		return "busy"
	}
	text, _, _ := strings.Cut(filepath.Base(err.Error()), ":")
	return text
}
