package killtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// role says which graph's threads a process runs.
type role string

const (
	boss   role = "boss"   // spawns errands and waits for them
	worker role = "worker" // runs them
)

// scheduled is a store that runners can work on.
type scheduled interface {
	checkpoint.Store
	checkpoint.Scheduler
	checkpoint.Locker
}

// noted notes each write before it reaches the store, so that kills hit what is
// between two writes.
type noted struct {
	scheduled
	e *effects
}

func (n *noted) Write(ctx context.Context, w *checkpoint.Write) (checkpoint.Written, error) {
	n.e.note(line{Kind: kWrite})
	return n.scheduled.Write(ctx, w)
}

type plans struct {
	Came graph.List[string]
}

type errand struct {
	N    int
	Came graph.List[string]
}

const errands = 3 // of which the last one fails

// errandGraphs returns a graph whose tasks each spawn an errand and wait for it, and
// that of the errands.
func errandGraphs(e *effects, store checkpoint.Store) (*graph.Graph[plans], *graph.Graph[errand]) {
	inner := graph.New[errand]("errand")
	inner.AddNode("go", func(ctx context.Context, s *errand) error {
		in := graph.Info(ctx)
		e.note(line{Kind: kStart, Task: in.Task, Node: in.Node})
		got, err := graph.Once(ctx, "fetch", func(_ context.Context, key string) (string, error) {
			e.note(line{Kind: kOnce, Task: in.Task, Node: in.Thread, Key: key})
			return fmt.Sprint("goods ", s.N), nil
		})
		if err != nil {
			return err
		}
		e.note(line{Kind: kRecorded, Task: in.Task, Node: in.Thread})
		s.Came.Add(got)
		return nil
	})
	inner.AddNode("return", func(ctx context.Context, s *errand) error {
		e.note(line{Kind: kStart, Task: graph.Info(ctx).Task, Node: "return"})
		if s.N == errands-1 {
			return errors.New("robbed")
		}
		s.Came.Add("back")
		return nil
	})
	sent := inner.AddEdge(graph.Start, "go").AddSequence("go", "return").MustCompile(graph.LeaseTTL(shortLease))

	b := graph.New[plans]("boss")
	send := graph.AddTask(b, "delegate", func(ctx context.Context, s *plans, n int) error {
		e.note(line{Kind: kStart, Task: graph.Info(ctx).Task, Node: "delegate"})
		sp, err := graph.Spawn(ctx, "errand", sent.Thread(""), sent.Input(func(s *errand) error { s.N = n; return nil }))
		if err != nil {
			return err
		}
		e.note(line{Kind: kEnd, Task: graph.Info(ctx).Task, Node: "delegate"})
		got, err := sp.Wait(ctx)
		var failed *graph.SpawnError
		switch {
		case errors.As(err, &failed):
			why := failed.Error() // names the attempt, which depends on the kills
			s.Came.Add(fmt.Sprint(n, why[strings.LastIndex(why, ":"):]))
		case err != nil:
			return err
		default:
			s.Came.Add(fmt.Sprintf("%d: %v", n, got.Came.Slice()))
		}
		return nil
	})
	b.AddCommandNode("plan", func(context.Context, *plans) (graph.Command, error) {
		sends := make([]graph.Send, errands)
		for i := range sends {
			sends[i] = send.Send(i)
		}
		return graph.Dispatch(sends...), nil
	}, graph.Destinations("delegate"))
	b.AddNode("home", func(_ context.Context, s *plans) error { s.Came.Add("home"); return nil })
	b.AddEdge(graph.Start, "plan").AddEdge("delegate", "home")
	return b.MustCompile(graph.WithCheckpointer(store), graph.LeaseTTL(shortLease)), sent
}

// shortLease is for how long the thread of a killed process is waited for.
const shortLease = time.Second

// work runs the threads of one graph until the boss's thread has ended.
func (j *job) work(e *effects) error {
	store, err := j.open()
	if err != nil {
		return err
	}
	on := &noted{store.(scheduled), e}
	g, errand := errandGraphs(e, on)
	var mine graph.Runnable = errand
	if j.Role == boss {
		mine = g
	}
	ctx := context.Background()
	r, err := graph.NewRunner(on, graph.RunnerOptions{Poll: shortLease / 50, Report: func(graph.RunnerReport) {}}, mine)
	if err != nil {
		return err
	}
	t := g.Thread(j.Thread)
	for {
		snap, err := t.State(ctx)
		switch {
		case errors.Is(err, checkpoint.ErrNotFound):
			if j.Role == boss {
				_, err = t.Invoke(ctx, t.Input(func(*plans) error { return nil }), graph.WhenBusy(graph.BusyInterrupt))
			} else {
				err = nil
			}
		case err == nil && snap.Done():
			return store.Close()
		}
		if err != nil {
			return err
		}
		if err := r.Sweep(ctx); err != nil {
			return err
		}
		time.Sleep(shortLease / 100)
	}
}

// The process that spawns and waits is killed, and so is the one that runs what was
// spawned: each errand begins once, does its effect once, and its end, a failure too,
// reaches the thread that waits.
func TestKilledSpawnsBeginOnceAndTheirEndsArrive(t *testing.T) {
	kills := setting(t, "KILLTEST_KILLS_ACTS", usual)
	for _, s := range []string{"sqlite", "file"} {
		t.Run(s, func(t *testing.T) {
			t.Parallel()
			tormentSpawns(t, s, kills)
		})
	}
}

func tormentSpawns(t *testing.T, storeKind string, kills int) {
	seed := uint64(setting(t, "KILLTEST_SEED", 1))
	rng := rand.New(rand.NewPCG(seed, uint64(len(storeKind))))
	killed := map[role]int{}
	threads := 0
	for total := 0; total < kills && !t.Failed(); threads++ {
		base := job{Store: storeKind, Dir: t.TempDir(), Thread: "t-" + strconv.Itoa(threads)}
		var mu sync.Mutex
		var wg sync.WaitGroup
		for _, who := range []role{boss, worker} {
			wg.Go(func() {
				for dead := true; dead && !t.Failed(); {
					j := base
					j.Role = who
					mu.Lock()
					if total < kills {
						j.End = moment{1 + rng.IntN(30), time.Duration(rng.IntN(2)) * time.Duration(rng.ExpFloat64()*float64(300*time.Microsecond))}
					}
					mu.Unlock()
					wait, err := begin(&j)
					if err == nil {
						_, dead, err = wait()
					}
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					if dead {
						total++
						killed[who]++
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if !t.Failed() {
			lines, _, _ := readEffects(t, &base, 0)
			if err := judgeErrands(t, &base, lines); err != nil {
				t.Errorf("%s, seed %d, thread %s, after %v kills: %v", storeKind, seed, base.Thread, killed, err)
			}
		}
	}
	t.Logf("%s, seed %d: killed %v over %d threads", storeKind, seed, killed, threads)
}

// judgeErrands compares what is in the store, and what was done, with what is to be.
func judgeErrands(t *testing.T, j *job, lines []line) error {
	store, err := j.open()
	if err != nil {
		return err
	}
	defer store.Close()
	g, errand := errandGraphs(&effects{}, store)
	snap, err := g.Thread(j.Thread).State(t.Context())
	if err != nil {
		return err
	}
	want := []string{"0: [goods 0 back]", "1: [goods 1 back]", "2: robbed", "home"}
	if got := snap.State.Came.Slice(); !slices.Equal(got, want) {
		return fmt.Errorf("it ends with %q, want %q", got, want)
	}
	var ids []string
	for info, err := range store.(checkpoint.Lister).Threads(t.Context(), checkpoint.ThreadFilter{}) {
		if err != nil {
			return err
		}
		if info.Head.Graph == errand.Name() {
			ids = append(ids, string(info.Thread))
		}
	}
	if len(ids) != errands {
		return fmt.Errorf("the errands are %v, want %d", ids, errands)
	}
	keys := map[string]string{}
	recorded := map[string]bool{}
	for _, l := range lines {
		switch l.Kind {
		case kOnce:
			if had, ok := keys[l.Node]; recorded[l.Node] || ok && had != l.Key {
				return fmt.Errorf("errand %s is done with key %q, after %q (recorded: %v)", l.Node, l.Key, had, recorded[l.Node])
			}
			keys[l.Node] = l.Key
		case kRecorded:
			recorded[l.Node] = true
		}
	}
	for _, id := range ids {
		n := 0
		for r, err := range store.Records(t.Context(), checkpoint.Query{Log: checkpoint.Log{Thread: checkpoint.ThreadID(id)}, AllBranches: true}) {
			if err != nil {
				return err
			}
			if r.Source == checkpoint.SourceInput {
				n++
			}
		}
		if n != 1 || keys[id] == "" {
			return fmt.Errorf("errand %s was begun %d times, and done with key %q", id, n, keys[id])
		}
		delete(keys, id)
	}
	if len(keys) > 0 {
		return fmt.Errorf("done as well: %v", keys)
	}
	return nil
}
