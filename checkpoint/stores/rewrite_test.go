package stores_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/stores"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
)

// eachStore runs a test over a store of each kind. Open opens it once more, as
// another process would.
func eachStore(t *testing.T, test func(t *testing.T, open func() checkpoint.Store)) {
	for _, kind := range []string{"memory", "file", "sqlite", "postgres", "redis"} {
		t.Run(kind, func(t *testing.T) {
			var url string
			switch name := fmt.Sprintf("rewrite%d", time.Now().UnixNano()); kind {
			case "file":
				url = "file:" + t.TempDir() + "?sync=never"
			case "sqlite":
				url = "sqlite:" + filepath.Join(t.TempDir(), "threads.db")
			case "postgres":
				url = servertest.Postgres(t) + "&schema=" + name
			case "redis":
				url = servertest.Redis(t) + "?prefix=" + name + ":"
			}
			memory := checkpoint.NewMemory()
			test(t, func() checkpoint.Store {
				if url == "" {
					return memory
				}
				s, err := stores.Open(t.Context(), url)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = s.Close() })
				return s
			})
		})
	}
}

// log is a state whose snapshots refer to earlier records.
type log struct {
	Lines graph.List[string]
	Turns graph.Sum[int]
}

func (l *log) check() error {
	for i, line := range l.Lines.All() {
		if want := fmt.Sprint("line ", i, " "); !strings.HasPrefix(line, want) {
			return fmt.Errorf("line %d of %d is %.20q", i, l.Lines.Len(), line)
		}
	}
	if l.Lines.Len() != l.Turns.Get() {
		return fmt.Errorf("%d lines in %d turns", l.Lines.Len(), l.Turns.Get())
	}
	return nil
}

func writes(_ context.Context, l *log) error {
	l.Lines.Add(fmt.Sprintf("line %d %0200d", l.Lines.Len(), l.Lines.Len()))
	l.Turns.Add(1)
	return nil
}

// logger is a graph that writes a line twice in each turn.
func logger(t *testing.T, s checkpoint.Store) *graph.Graph[log] {
	t.Helper()
	b := graph.New[log]("logger")
	b.AddNode("a", writes).AddNode("b", writes)
	b.AddEdge(graph.Start, "a").AddEdge("a", "b")
	g, err := b.Compile(graph.WithCheckpointer(s))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func turn(*log) error { return nil }

// gated is a store that calls a function before it lets a run claim its thread,
// once.
type gated struct {
	checkpoint.Store
	before func()
}

func (s *gated) Write(ctx context.Context, w *checkpoint.Write) (checkpoint.Written, error) {
	if before := s.before; w.Claim && before != nil {
		s.before = nil
		before()
	}
	return s.Store.Write(ctx, w)
}

// acts are the ways to write to a thread, at its head or from a checkpoint.
var acts = map[string]func(ctx context.Context, t *graph.Thread[log]) error{
	"Fork": func(ctx context.Context, t *graph.Thread[log]) error {
		_, err := t.Fork(ctx)
		return err
	},
	"Edit": func(ctx context.Context, t *graph.Thread[log]) error {
		_, err := t.Edit(ctx, func(l *log) error { return writes(ctx, l) })
		return err
	},
	"Restart": func(ctx context.Context, t *graph.Thread[log]) error {
		_, err := t.Invoke(ctx, t.Restart(turn))
		return err
	},
	"Continue": func(ctx context.Context, t *graph.Thread[log]) error {
		_, err := t.Invoke(ctx, t.Continue())
		return err
	},
}

// Who reads a thread, and claims it when it was pruned, goes on from what is left.
func TestWhoReadAThreadBeforeAPruneGoesOnAfterIt(t *testing.T) {
	eachStore(t, func(t *testing.T, open func() checkpoint.Store) {
		ours, theirs := open(), open()
		for name, act := range acts {
			for _, at := range []string{"", "pruned", "kept"} {
				t.Run(name+" "+at, func(t *testing.T) {
					id := strings.TrimSpace(name + " " + at)
					other := logger(t, theirs).Thread(id)
					do := func(thread *graph.Thread[log], opts ...graph.RunOption) {
						t.Helper()
						if _, err := thread.Invoke(t.Context(), thread.Restart(turn), opts...); err != nil {
							t.Fatal(err)
						}
					}
					for range 10 {
						do(other)
					}
					do(other, graph.InterruptBefore("b")) // so that something is pending
					var history []string
					for e, err := range other.History(t.Context(), graph.HistoryQuery{}) {
						if err != nil {
							t.Fatal(err)
						}
						history = append(history, e.Checkpoint)
					}
					read := &gated{Store: ours, before: func() {
						if p, err := other.Prune(t.Context(), graph.Keep{Last: 2}); err != nil || p.Removed == 0 {
							t.Errorf("pruned %+v, %v", p, err)
						}
					}}
					from := map[string]string{"": "", "pruned": history[10], "kept": history[1]}[at]
					if name == "Fork" && at == "" {
						from = history[0]
					}
					thread := logger(t, read).Thread(id)
					err := act(t.Context(), thread.At(from))
					if read.before != nil {
						t.Fatal("nothing was claimed")
					}
					if at == "pruned" {
						if !errors.Is(err, checkpoint.ErrNotFound) || !strings.Contains(err.Error(), history[10]) {
							t.Errorf("got error %v, want one that says that checkpoint %s is not there", err, history[10])
						}
					} else if err != nil {
						t.Error(err)
					}
					for range 8 {
						do(thread)
					}
					snap, err := logger(t, open()).Thread(id).State(t.Context())
					if err == nil {
						err = snap.State.check()
					}
					if err != nil {
						t.Fatal(err)
					}
					if n := snap.State.Lines.Len(); n < 36 {
						t.Errorf("%d lines are left", n)
					}
				})
			}
		}
	})
}

// Runs, edits, forks, prunes, deletions and readers meet on the same threads, in two
// processes: whatever they meet, every thread can be read all the time, and is what
// was written.
func TestThreadsStayReadableWhateverMeets(t *testing.T) {
	eachStore(t, func(t *testing.T, open func() checkpoint.Store) {
		const threads, rounds = 4, 40
		var wg sync.WaitGroup
		worker := func(what string, f func(thread *graph.Thread[log], round int) error) {
			g := logger(t, open())
			wg.Go(func() {
				for i := range rounds {
					err := f(g.Thread(fmt.Sprint("t", i%threads)), i)
					if err != nil && !errors.Is(err, graph.ErrThreadBusy) && !errors.Is(err, checkpoint.ErrNotFound) {
						t.Errorf("%s: %v", what, err)
					}
				}
			})
		}
		for i := range threads {
			for range 5 {
				thread := logger(t, open()).Thread(fmt.Sprint("t", i))
				if _, err := thread.Invoke(t.Context(), thread.Input(turn)); err != nil {
					t.Fatal(err)
				}
			}
		}
		ctx := t.Context()
		for range 2 {
			worker("invoke", func(thread *graph.Thread[log], _ int) error {
				_, err := thread.Invoke(ctx, thread.Restart(turn))
				return err
			})
			worker("prune", func(thread *graph.Thread[log], i int) error {
				_, err := thread.Prune(ctx, graph.Keep{Last: 1 + i%3, DropForks: i%2 == 0})
				return err
			})
		}
		worker("edit", func(thread *graph.Thread[log], _ int) error {
			_, err := thread.Edit(ctx, func(l *log) error { return writes(ctx, l) })
			return err
		})
		worker("fork", func(thread *graph.Thread[log], i int) error {
			at := ""
			for e, err := range thread.History(ctx, graph.HistoryQuery{Limit: 1 + i%7}) {
				if err != nil {
					return err
				}
				at = e.Checkpoint
			}
			if at == "" {
				return nil
			}
			_, err := thread.At(at).Fork(ctx)
			return err
		})
		worker("delete", func(thread *graph.Thread[log], i int) error {
			if i%10 != 9 {
				return nil
			}
			return thread.Delete(ctx)
		})
		for range 2 {
			worker("read", func(thread *graph.Thread[log], _ int) error {
				snap, err := thread.State(ctx)
				if err != nil {
					return err
				}
				return snap.State.check()
			})
		}
		worker("history", func(thread *graph.Thread[log], _ int) error {
			for e, err := range thread.History(ctx, graph.HistoryQuery{}) {
				if err != nil {
					return err
				}
				l, err := e.State(ctx)
				if err == nil {
					err = l.check()
				}
				if err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
					return err
				}
			}
			return nil
		})
		wg.Wait()
		for i := range threads {
			thread := logger(t, open()).Thread(fmt.Sprint("t", i))
			snap, err := thread.Invoke(ctx, thread.Restart(turn))
			if err == nil {
				err = snap.State.check()
			}
			if err != nil {
				t.Errorf("thread %d: %v", i, err)
			}
		}
	})
}
