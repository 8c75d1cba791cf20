//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
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

// meanwhileKey is the key of a func() in a context: what somebody else does with the
// thread after it was read and before what was read is the ground of a claim.
type meanwhileKey struct{}

func (s *shaky) Write(ctx context.Context, w *checkpoint.Write) (checkpoint.Written, error) {
	if meanwhile, ok := ctx.Value(meanwhileKey{}).(func()); ok && w.Claim {
		meanwhile()
	}
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

// Head now and then leaves others the time to act before what it tells is used.
func (s *shaky) Head(ctx context.Context, log checkpoint.Log) (*checkpoint.Record, checkpoint.Fence, error) {
	head, fence, err := s.backend.Head(ctx, log)
	s.mu.Lock()
	slow := time.Duration(0)
	if s.rng.Float64() < 5*s.rate {
		slow = time.Duration(s.rng.Int64N(int64(10 * time.Millisecond)))
	}
	s.mu.Unlock()
	time.Sleep(slow)
	return head, fence, err
}

func (s *shaky) Rewrite(ctx context.Context, rw *checkpoint.Rewrite) error {
	if s.fails() {
		return errAway
	}
	err := s.Rewriter.Rewrite(ctx, rw)
	if err == nil && s.fails() {
		return errAway
	}
	return err
}

// heal ends the failures and returns how many there were.
func (s *shaky) heal() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rate = 0
	return s.hits
}

// elsewhere is a store as another process sees it: who works there waits in no line
// with those who work here.
type elsewhere struct {
	checkpoint.Store
	checkpoint.Rewriter
	checkpoint.Scheduler
	checkpoint.Lister
}

// talk is a state of turns: each word is said, and heard in parallel by two nodes.
type talk struct {
	Said graph.List[string]
	A, B graph.List[string]
	Bulk graph.List[string] // of which each turn has so much that it is worth a snapshot
}

var bulk = strings.Repeat("bulk ", 1<<10)

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

// earlier returns one of the newest checkpoints of a thread.
func earlier(ctx context.Context, t *graph.Thread[talk], rng *rand.Rand) (at string, err error) {
	for e, err := range t.History(ctx, graph.HistoryQuery{AllBranches: true, Limit: 1 + rng.IntN(8)}) {
		if err != nil {
			return "", err
		}
		at = e.Checkpoint
	}
	if at == "" {
		err = checkpoint.ErrNotFound
	}
	return at, err
}

// say gives a thread a word.
func say(ctx context.Context, t *graph.Thread[talk], word string) error {
	_, err := t.Invoke(ctx, t.Input(func(s *talk) error {
		s.Said.Add(word)
		s.Bulk.Add(bulk)
		return nil
	}))
	return err
}

// The kinds of acts.
const (
	held  = 10 // a turn, where another process prunes the thread after it was read and before it is claimed
	kinds = 11
)

// act does one thing with a thread. It returns the word that the caller was told is
// said and heard. Away is another process.
func act(ctx context.Context, g, away *graph.Graph[talk], rng *rand.Rand, kind int, thread, word string) (told string, err error) {
	busy := graph.WhenBusy([]graph.BusyPolicy{graph.BusyReject, graph.BusyQueue, graph.BusyInterrupt, graph.BusyRollback}[rng.IntN(4)])
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if kind == 1 && !forked(thread) {
		kind = 2
	}
	t := g.Thread(thread, busy)
	switch kind {
	case 0:
		_, err = t.Prune(ctx, graph.Keep{Last: 1 + rng.IntN(3)})
	case 1:
		var at string
		if at, err = earlier(ctx, t, rng); err == nil {
			_, err = t.At(at).Fork(ctx)
		}
	case 2:
		_, err = t.Edit(ctx, func(s *talk) error { return nil })
	case 3, 4:
		_, err = t.State(ctx)
		for e, herr := range t.History(ctx, graph.HistoryQuery{AllBranches: true}) {
			if herr == nil {
				_, herr = e.State(ctx)
			}
			if err = errors.Join(err, herr); herr != nil {
				break
			}
		}
	case 5:
		_, err = t.Invoke(ctx, t.Continue())
	default:
		if kind == held {
			prune := sync.OnceFunc(func() { // who is refused, or fails, has pruned nothing
				_, _ = away.Thread(thread).Prune(ctx, graph.Keep{})
			})
			ctx = context.WithValue(ctx, meanwhileKey{}, prune)
		}
		if err = say(ctx, t, word); err == nil {
			told = word
		}
	}
	return told, err
}

// Several callers, half of them as if in another process, work on few threads over a
// store that fails, and do all that can be done with a thread, as each busy policy
// says: runs, edits, forks from older checkpoints, prunes, also while a run holds what
// it has read and hasn't claimed the thread yet, and readers. In the end each
// thread goes on and can be read at all of its checkpoints, and the input of each call
// that returned without an error is there, once.
func TestChaosOfActs(t *testing.T) {
	acts := setting(t, "CHAOS_ACTS", 300)
	for _, name := range []string{"memory", "file", "sqlite", "redis", "postgres"} {
		t.Run(name, func(t *testing.T) { actsOver(t, name, acts) })
	}
}

func actsOver(t *testing.T, name string, acts int) {
	ctx, seed := t.Context(), uint64(setting(t, "CHAOS_SEED", 1))
	b := openFor(t, name)
	s := &shaky{backend: b, Rewriter: b.(checkpoint.Rewriter), rng: rand.New(rand.NewPCG(seed, 0)), rate: 0.02}
	g, err := talking(s)
	if err != nil {
		t.Fatal(err)
	}
	away, err := talking(elsewhere{s, s, s, s})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	told := map[string][]string{}
	counts := map[string]int{}
	var wg sync.WaitGroup
	const callers, threads, each = 6, 4, 40 // acts of a caller until all go on to other threads
	for c := range callers {
		g := []*graph.Graph[talk]{g, away}[c%2]
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(c+1)))
			for i := range acts / callers {
				thread, word := fmt.Sprintf("t%d-%d", rng.IntN(threads), i/each), fmt.Sprintf("%d-%d", c, i)
				kind := rng.IntN(kinds)
				if i%5 == 4 { // on a thread that nobody has pruned: there snapshots refer to records
					kind, thread = held, thread+"-"+word
					_ = say(ctx, g.Thread(thread), "first")
				}
				said, err := act(ctx, g, away, rng, kind, thread, word)
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
	hits, n := s.heal(), 0
	for info, err := range b.Threads(ctx, checkpoint.ThreadFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if thread := string(info.Thread); told[thread] == nil {
			told[thread] = []string{}
		}
	}
	for _, thread := range slices.Sorted(maps.Keys(told)) {
		n += len(told[thread])
		if err := sound(ctx, g, thread, told[thread]); err != nil {
			t.Errorf("%s, seed %d, thread %s: %v", name, seed, thread, err)
		}
	}
	t.Logf("%s: %d acts, %d failures of the store, %d turns told, refused %v", name, acts, hits, n, counts)
}

// sound reports what is wrong with a thread: it must come to its end and be readable
// at all of its checkpoints, nothing may be there twice, and what callers were told of
// must be there.
func sound(ctx context.Context, g *graph.Graph[talk], thread string, told []string) error {
	t := g.Thread(thread)
	snap, err := t.Invoke(ctx, t.Continue(), graph.WhenBusy(graph.BusyQueue))
	if errors.Is(err, graph.ErrNothingToResume) {
		snap, err = t.State(ctx)
	}
	if err != nil {
		return fmt.Errorf("it can't go on: %w", err)
	}
	var errs []error
	if !snap.Done() {
		errs = append(errs, fmt.Errorf("it has not come to its end: %v", snap.Next))
	}
	there := map[string]bool{}
	look := func(s *talk) {
		for what, words := range map[string][]string{"said": s.Said.Slice(), "heard by a": s.A.Slice(), "heard by b": s.B.Slice()} {
			seen := map[string]bool{}
			for _, word := range words {
				if seen[word] {
					errs = append(errs, fmt.Errorf("%s is %s twice", word, what))
				}
				seen[word] = true
			}
			if what == "said" {
				maps.Copy(there, seen)
			}
		}
	}
	look(&snap.State)
	for e, err := range t.History(ctx, graph.HistoryQuery{AllBranches: true}) {
		var st talk
		if err == nil {
			st, err = e.State(ctx)
		}
		if errs = append(errs, err); err == nil && forked(thread) {
			look(&st)
		}
	}
	for _, word := range told {
		if !there[word] {
			errs = append(errs, fmt.Errorf("the caller was told of %s, which is lost", word))
		}
	}
	return errors.Join(errs...)
}

func why(err error) string {
	switch {
	case errors.Is(err, errAway):
		return "away"
	case errors.Is(err, graph.ErrThreadBusy):
		return "busy"
	case errors.Is(err, checkpoint.ErrNotFound):
		return "not found"
	}
	text, _, _ := strings.Cut(filepath.Base(err.Error()), ":")
	return text
}
