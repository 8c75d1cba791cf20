package graph_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// hooked is a store that calls functions around its writes and before it reads a head.
type hooked struct {
	checkpoint.Store
	before, after func(w *checkpoint.Write) error
	head          func(ctx context.Context) error
}

func (h *hooked) Write(ctx context.Context, w *checkpoint.Write) (checkpoint.Written, error) {
	if h.before != nil {
		if err := h.before(w); err != nil {
			return checkpoint.Written{}, err
		}
	}
	done, err := h.Store.Write(ctx, w)
	if err == nil && h.after != nil {
		err = h.after(w)
	}
	return done, err
}

func (h *hooked) Head(ctx context.Context, log checkpoint.Log) (*checkpoint.Record, checkpoint.Fence, error) {
	if h.head != nil {
		if err := h.head(ctx); err != nil {
			return nil, 0, err
		}
	}
	return h.Store.Head(ctx, log)
}

// inLine is a hooked store whose runs are in line.
type inLine struct {
	*hooked
	checkpoint.Locker
}

// eachHook runs a test for runs that see each other, and for runs that meet in the
// store alone. Open returns a handle of the store below.
func eachHook(t *testing.T, test func(t *testing.T, mem *checkpoint.Memory, open func(*hooked) checkpoint.Store)) {
	for _, one := range []bool{true, false} {
		t.Run(map[bool]string{true: "in one process", false: "in several processes"}[one], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := checkpoint.NewMemory()
				test(t, mem, func(h *hooked) checkpoint.Store {
					h.Store = mem
					if one {
						return inLine{h, mem}
					}
					return h
				})
			})
		})
	}
}

func quick(context.Context, string) error { return nil }

// What a run has told its caller stays: one that is asked to give the thread up
// while it writes for the last time has come to its end all the same.
func TestARunThatHasEndedIsNotRolledBack(t *testing.T) {
	eachHook(t, func(t *testing.T, mem *checkpoint.Memory, open func(*hooked) checkpoint.Store) {
		last, evicted := make(chan struct{}), make(chan struct{})
		a := &hooked{after: func(w *checkpoint.Write) error {
			if w.Release {
				close(last)
				<-evicted
			}
			return nil
		}}
		done := make(chan error)
		go func() {
			_, err := talker(t, open(a), quick).Thread("t").Invoke(t.Context(), graph.Requests[turns]{}.Input(say("a")))
			done <- err
		}()
		<-last
		go func() { synctest.Wait(); close(evicted) }()
		snap, err := talker(t, open(&hooked{}), quick, graph.WhenBusy(graph.BusyRollback)).Thread("t").Invoke(t.Context(), graph.Requests[turns]{}.Input(say("b")))
		if err := <-done; err != nil {
			t.Fatalf("the first run returned %v", err)
		}
		if err != nil || said(&snap.State) != "a A b B" {
			t.Fatalf("got %q, %v; want both turns", said(&snap.State), err)
		}
	})
}

// Who finds a lease and comes to steal it when its run has just ended has stopped
// nobody.
func TestARunThatEndsBeforeItsLeaseIsStolenIsNotRolledBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := checkpoint.NewMemory()
		goOn, done := make(chan struct{}), make(chan error, 1)
		slow := func(context.Context, string) error { <-goOn; return nil }
		go func() {
			_, err := talker(t, elsewhere{mem}, slow).Thread("t").Invoke(t.Context(), graph.Requests[turns]{}.Input(say("a")))
			done <- err
		}()
		synctest.Wait()
		ended := false
		b := &hooked{Store: mem, before: func(w *checkpoint.Write) error {
			if w.Steal != "" && !ended {
				ended = true
				close(goOn)
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
			return nil
		}}
		snap, err := talker(t, b, quick, graph.WhenBusy(graph.BusyRollback)).Thread("t").Invoke(t.Context(), graph.Requests[turns]{}.Input(say("b")))
		if err != nil || !ended || said(&snap.State) != "a A b B" {
			t.Fatalf("got %q, %v; want both turns", said(&snap.State), err)
		}
	})
}

// A run that parked its thread is over when it has given the thread up: until then
// it can be stopped, and then says so.
func TestARunWhoseLeaseIsStolenBeforeItGaveItUpSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := checkpoint.NewMemory()
		asks := hears(func() error { return nil })
		b := asks.MustCompile(graph.WithCheckpointer(elsewhere{mem}), graph.WhenBusy(graph.BusyRollback))
		stolen := false
		a := &hooked{Store: mem, before: func(w *checkpoint.Write) error {
			if w.Release && !stolen {
				stolen = true
				if _, err := b.Thread("t").Invoke(t.Context(), b.Input(func(s *hearing) error {
					s.Word = "b"
					return nil
				})); err != nil {
					t.Error(err)
				}
			}
			return nil
		}}
		_, err := asks.MustCompile(graph.WithCheckpointer(a)).Thread("t").Invoke(t.Context(), graph.Requests[hearing]{}.Input(func(s *hearing) error {
			s.Word = "a"
			return nil
		}))
		if !stolen || !errors.Is(err, graph.ErrThreadBusy) {
			t.Fatalf("got %v, want ErrThreadBusy", err)
		}
		if snap, err := b.Thread("t").State(t.Context()); err != nil || snap.State.Word != "b" {
			t.Fatalf("%+v, %v", snap, err)
		}
	})
}

// The first run of a log may be rolled back, and nothing else goes with it.
func TestRollingBackALogsFirstRunLeavesEverythingElse(t *testing.T) {
	eachHook(t, func(t *testing.T, mem *checkpoint.Memory, open func(*hooked) checkpoint.Store) {
		ctx := t.Context()
		if _, err := talker(t, mem, quick, graph.Namespace("other")).Thread("t").Invoke(ctx, graph.Requests[turns]{}.Input(say("other"))); err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() {
			_, err := talker(t, open(&hooked{}), never).Thread("t").Invoke(ctx, graph.Requests[turns]{}.Input(say("a")))
			done <- err
		}()
		synctest.Wait()
		if err := talker(t, mem, quick).Thread("t").SendEvent(ctx, "go", "word"); err != nil {
			t.Fatal(err)
		}
		g := talker(t, open(&hooked{}), quick, graph.WhenBusy(graph.BusyRollback))
		snap, err := g.Thread("t").Invoke(ctx, g.Input(say("b")))
		if err != nil || said(&snap.State) != "b B" {
			t.Fatalf("got %q, %v", said(&snap.State), err)
		}
		if err := <-done; !errors.Is(err, graph.ErrThreadBusy) {
			t.Fatalf("the first run returned %v, want ErrThreadBusy", err)
		}
		if snap, err := g.Thread("t", graph.Namespace("other")).State(ctx); err != nil || said(&snap.State) != "other OTHER" {
			t.Errorf("the other namespace has %v, %v", snap, err)
		}
		mail, err := mem.Results(ctx, checkpoint.Log{Thread: "t"}, "", checkpoint.EventsEpoch)
		if err != nil || len(mail) != 1 {
			t.Errorf("the event is gone: %v, %v", mail, err)
		}
		if _, err := g.Thread("t").Invoke(ctx, g.Input(say("c"))); err != nil {
			t.Fatal(err)
		}
		if _, err := talker(t, mem, quick).Thread("t").Prune(ctx, graph.Keep{DropForks: true}); err != nil {
			t.Fatal(err)
		}
		if snap, err = g.Thread("t").State(ctx); err != nil || said(&snap.State) != "b B c C" {
			t.Fatalf("got %q, %v after pruning", said(&snap.State), err)
		}
	})
}

// Whatever a run was doing when another one stopped it, it says that it was.
func TestARunThatIsStoppedWhileItReadsSaysSo(t *testing.T) {
	eachHook(t, func(t *testing.T, mem *checkpoint.Memory, open func(*hooked) checkpoint.Store) {
		ctx := t.Context()
		failing := func(context.Context, string) error { return errBoom }
		if _, err := talker(t, mem, failing).Thread("t").Invoke(ctx, graph.Requests[turns]{}.Input(say("a"))); !errors.Is(err, errBoom) {
			t.Fatal(err)
		}
		claimed := false
		a := &hooked{}
		a.after = func(w *checkpoint.Write) error { claimed = claimed || w.Claim; return nil }
		a.head = func(ctx context.Context) error {
			if claimed {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		done := make(chan error)
		go func() {
			_, err := talker(t, open(a), quick).Thread("t").Invoke(bg, graph.Requests[turns]{}.Continue())
			done <- err
		}()
		synctest.Wait()
		if _, err := talker(t, open(&hooked{}), quick, graph.WhenBusy(graph.BusyInterrupt)).Thread("t").Invoke(ctx, graph.Requests[turns]{}.Input(say("b"))); err != nil {
			t.Fatal(err)
		}
		err := <-done
		var load *graph.CheckpointError
		if !errors.Is(err, graph.ErrThreadBusy) || errors.As(err, &load) {
			t.Fatalf("the first run returned %v, want ErrThreadBusy alone", err)
		}
	})
}

// When the store fails while a task's result is saved, the thread is due again: a
// failure of the store is no end of the run.
func TestAStoreThatFailsWhileATaskSavesLeavesTheThreadToTheNext(t *testing.T) {
	for _, kind := range []checkpoint.ResultKind{checkpoint.KindOnce, checkpoint.KindOpen} {
		t.Run(string(kind), func(t *testing.T) {
			ctx, mem := t.Context(), checkpoint.NewMemory()
			failing := kind == checkpoint.KindOpen
			b := graph.New[trail]("saves")
			b.AddNode("hear", func(ctx context.Context, s *trail) error { _, err := graph.WaitFor[string](ctx, "", "go"); return err })
			b.AddNode("once", func(ctx context.Context, s *trail) error {
				_, err := graph.Once(ctx, "effect", func(context.Context, string) (string, error) { return "", nil })
				s.Ran.Add("once")
				return err
			})
			b.AddNode("beside", func(ctx context.Context, s *trail) error {
				if failing {
					return errBoom
				}
				s.Ran.Add("beside")
				return nil
			})
			b.AddEdge(graph.Start, "hear").AddEdge("hear", "once").AddEdge("hear", "beside")
			g := b.MustCompile(graph.WithCheckpointer(mem))
			if _, err := g.Thread("t").Invoke(ctx, g.Input(func(*trail) error { return nil })); err != nil {
				t.Fatal(err)
			}
			if err := g.Thread("t").SendEvent(ctx, "go", "word"); err != nil {
				t.Fatal(err)
			}
			var failed atomic.Bool // tasks save at the same time
			bad := &detached{Store: &hooked{Store: mem, before: func(w *checkpoint.Write) error {
				of := func(r checkpoint.Result) bool { return r.Kind == kind }
				if slices.ContainsFunc(w.Results, of) && failed.CompareAndSwap(false, true) {
					return errors.New("away")
				}
				return nil
			}}, Scheduler: mem, before: func() {}}
			sweep := func(store checkpoint.Store) {
				r, err := graph.NewRunner(store, graph.RunnerOptions{Report: func(graph.RunnerReport) {}}, g)
				if err == nil {
					err = r.Sweep(ctx)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			sweep(bad)
			if !failed.Load() || !isDue(t, mem, "t") {
				t.Fatalf("the store failed: %v; the thread is not due", failed.Load())
			}
			failing = false
			sweep(mem)
			if snap, err := g.Thread("t").State(ctx); err != nil || snap.State.ran() != "once beside" {
				t.Fatalf("%+v, %v", snap, err)
			}
		})
	}
}

// rewriting is a store of another process that can prune.
type rewriting struct {
	checkpoint.Store
	checkpoint.Rewriter
}

// Edits, forks and prunes wait for a run that holds the thread, or stop it.
func TestEditsForksAndPrunesDoAsIsSaidWhenTheThreadIsBusy(t *testing.T) {
	for what, do := range map[string]func(ctx context.Context, g *graph.Graph[turns], first string) error{
		"edit": func(ctx context.Context, g *graph.Graph[turns], _ string) error {
			_, err := g.Thread("t").Edit(ctx, say("edit"))
			return err
		},
		"fork": func(ctx context.Context, g *graph.Graph[turns], first string) error {
			_, err := g.Thread("t").At(first).Fork(ctx)
			return err
		},
		"prune": func(ctx context.Context, g *graph.Graph[turns], _ string) error {
			_, err := g.Thread("t").Prune(ctx, graph.Keep{})
			return err
		},
	} {
		for _, one := range []bool{true, false} {
			t.Run(what+map[bool]string{true: " in one process", false: " in several processes"}[one], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, mem := t.Context(), checkpoint.NewMemory()
					open := func() checkpoint.Store {
						if one {
							return mem
						}
						return rewriting{mem, mem}
					}
					slow := func(ctx context.Context, _ string) error {
						select {
						case <-time.After(time.Minute):
							return nil
						case <-ctx.Done():
							return ctx.Err()
						}
					}
					first, err := talker(t, mem, quick).Thread("t").Invoke(ctx, graph.Requests[turns]{}.Input(say("first")))
					if err != nil {
						t.Fatal(err)
					}
					begin := func() chan error {
						done := make(chan error, 1)
						go func() {
							_, err := talker(t, open(), slow).Thread("t").Invoke(ctx, graph.Requests[turns]{}.Input(say("a")))
							done <- err
						}()
						synctest.Wait()
						return done
					}
					done := begin()
					if err := do(ctx, talker(t, open(), quick), first.Checkpoint); !errors.Is(err, graph.ErrThreadBusy) {
						t.Errorf("got %v, want ErrThreadBusy", err)
					}
					if err := do(ctx, talker(t, open(), quick, graph.WhenBusy(graph.BusyQueue)), first.Checkpoint); err != nil {
						t.Errorf("in the queue: %v", err)
					}
					if err := <-done; err != nil {
						t.Errorf("the run that was waited for returned %v", err)
					}
					done = begin()
					if err := do(ctx, talker(t, open(), quick, graph.WhenBusy(graph.BusyInterrupt)), first.Checkpoint); err != nil {
						t.Errorf("interrupting: %v", err)
					}
					if err := <-done; !errors.Is(err, graph.ErrThreadBusy) {
						t.Errorf("the run that was stopped returned %v", err)
					}
					if _, err := talker(t, open(), quick).Thread("t").State(ctx); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}
