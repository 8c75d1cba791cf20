package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/file"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graphtest"
)

// work is the state of a spawned graph.
type work struct {
	Topic string
	Found graph.List[string]
}

func topic(s string) func(*work) error {
	return func(w *work) error { w.Topic = s; return nil }
}

// worker is a graph of two supersteps; do, if not nil, stands for its first node.
func worker(t testing.TB, do func(ctx context.Context, s *work) error, opts ...graph.Option) *graph.Graph[work] {
	t.Helper()
	if do == nil {
		do = func(_ context.Context, s *work) error { s.Found.Add("first"); return nil }
	}
	b := graph.New[work]("worker")
	b.AddNode("find", do)
	b.AddNode("sum up", func(_ context.Context, s *work) error { s.Found.Add("about " + s.Topic); return nil })
	b.AddEdge(graph.Start, "find").AddEdge("find", "sum up")
	return compile(t, b, opts...)
}

// spawner returns a node that spawns work on a thread and notes what it comes to.
func spawner(g *graph.Graph[work], thread string, opts ...graph.AskOption) func(ctx context.Context, s *turns) error {
	return func(ctx context.Context, s *turns) error {
		sp, err := graph.Spawn(ctx, "work", g.Thread(thread), g.Input(topic("cats")))
		if err != nil {
			return err
		}
		w, err := sp.Wait(ctx, opts...)
		if err != nil {
			return err
		}
		s.Said.Add(w.Found.Slice()...)
		return nil
	}
}

// sweep lets a runner look at a store n times.
func sweep(t testing.TB, store checkpoint.Store, n int, graphs ...graph.Runnable) {
	t.Helper()
	r, err := graph.NewRunner(store, graph.RunnerOptions{Report: func(graph.RunnerReport) {}}, graphs...)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		if err := r.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// threads returns the threads of a graph in a store.
func threads(t testing.TB, store checkpoint.Store, name string) (ids []string) {
	t.Helper()
	for info, err := range store.(checkpoint.Lister).Threads(t.Context(), checkpoint.ThreadFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if info.Head.Graph == name {
			ids = append(ids, string(info.Thread))
		}
	}
	return ids
}

// inputs counts the inputs that a thread was given.
func inputs(t testing.TB, store checkpoint.Store, thread string) (n int) {
	t.Helper()
	for r, err := range store.Records(t.Context(), checkpoint.Query{Log: checkpoint.Log{Thread: checkpoint.ThreadID(thread)}, AllBranches: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Source == checkpoint.SourceInput {
			n++
		}
	}
	return n
}

func TestASpawnedThreadsEndLetsItsWaiterGoOn(t *testing.T) {
	for name, store := range map[string]checkpoint.Store{
		"memory": checkpoint.NewMemory(),
		"file":   open[*file.Store](t)(file.Open(t.TempDir(), file.Options{})),
		"sqlite": open[*sqlite.Store](t)(sqlite.Open(filepath.Join(t.TempDir(), "t.db"))),
	} {
		t.Run(name, func(t *testing.T) {
			child := worker(t, nil)
			g := oneNode(t, store, spawner(child, ""))
			snap, err := g.Thread("t").Invoke(t.Context(), g.Input(nil2))
			if err != nil || snap.Done() || len(snap.Interrupts) != 0 || len(snap.Waits) != 1 {
				t.Fatalf("got %+v, %v; want a thread that waits and asks nobody", snap, err)
			}
			ids := threads(t, store, "worker")
			if len(ids) != 1 || snap.Waits[0].Thread != ids[0] || !strings.Contains(snap.Waits[0].String(), ids[0]) {
				t.Fatalf("waits for %v, spawned %v", snap.Waits, ids)
			}
			// The one is due, the other when it has ended.
			sweep(t, store, 1, child, g)
			sweep(t, store, 1, child, g)
			snap, err = g.Thread("t").State(t.Context())
			if err != nil || !snap.Done() || said(&snap.State) != "first about cats" {
				t.Fatalf("got %q, %+v, %v", said(&snap.State), snap.Waits, err)
			}
			for w, err := range store.(checkpoint.Scheduler).Due(t.Context(), time.Time{}, 0) {
				t.Errorf("%v is due when all is over (%v)", w, err)
			}
		})
	}
}

// Whenever the processes die, the other thread is started once, ends, and its end
// reaches the thread that waits.
func TestSpawnSurvivesTheDeathOfEitherProcessAtAnyWrite(t *testing.T) {
	for _, after := range []bool{false, true} {
		for _, who := range []string{"both", "spawner", "spawned"} {
			for n, fired := 1, true; fired; n++ {
				synctest.Test(t, func(t *testing.T) {
					inner := checkpoint.NewMemory()
					fault := graphtest.StoreFault{Write: n, Effect: graphtest.Crash, After: after}
					outer := graphtest.NewStore(inner)
					own := outer // of the process that runs what is spawned
					switch who {
					case "both":
						outer = graphtest.NewStore(inner, fault)
						own = outer
					case "spawner":
						outer, own = graphtest.NewStore(inner, fault), graphtest.NewStore(inner)
					case "spawned":
						own = graphtest.NewStore(inner, fault)
					}
					child := worker(t, nil)
					g := oneNode(t, outer, spawner(child, ""))
					runners := make([]*graph.Runner, 2)
					for i, r := range []struct {
						store checkpoint.Store
						graph graph.Runnable
					}{{outer, g}, {own, child}} {
						runners[i] = must[*graph.Runner](t)(graph.NewRunner(r.store, graph.RunnerOptions{Report: func(graph.RunnerReport) {}}, r.graph))
					}
					_, err := g.Thread("t").Invoke(t.Context(), g.Input(nil2))
					if err != nil && !errors.Is(err, graphtest.ErrCrashed) {
						t.Fatal(err)
					}
					var snap *graph.Snapshot[turns]
					for range 10 {
						outer.Restart()
						own.Restart()
						for _, r := range runners {
							_ = r.Sweep(t.Context())
						}
						time.Sleep(time.Minute) // leases run out
						if snap, err = g.Thread("t").State(t.Context()); errors.Is(err, checkpoint.ErrNotFound) {
							_, _ = g.Thread("t").Invoke(t.Context(), g.Input(nil2)) // it was never begun
						}
					}
					if snap == nil || !snap.Done() || said(&snap.State) != "first about cats" {
						t.Fatalf("%s, write %d (after: %v): got %+v, %v", who, n, after, snap, err)
					}
					ids := threads(t, inner, "worker")
					if len(ids) != 1 || inputs(t, inner, ids[0]) != 1 {
						t.Fatalf("%s, write %d (after: %v): spawned %v", who, n, after, ids)
					}
					fired = outer.Fired()+own.Fired() > 0
				})
				if t.Failed() {
					return
				}
				if n == 1 && !fired {
					t.Fatal("no write was made")
				}
			}
		}
	}
}

func TestWaitForASpawnedThreadThatAsksGoesOnUntilItIsAnswered(t *testing.T) {
	for _, d := range []graph.Durability{graph.Sync, graph.Async, graph.Exit} {
		waitForOneThatAsks(t, d)
	}
}

func waitForOneThatAsks(t *testing.T, d graph.Durability) {
	store := checkpoint.NewMemory()
	child := worker(t, func(ctx context.Context, s *work) error {
		a, err := graph.Interrupt[string](ctx, "which", "?")
		s.Found.Add(a)
		return err
	}, graph.WithCheckpointer(store))
	g := oneNode(t, store, spawner(child, "w"))
	_, err := g.Thread("t").Invoke(bg, g.Input(nil2))
	sweep(t, store, 3, child, g)
	snap := must[*graph.Snapshot[turns]](t)(g.Thread("t").State(bg))
	if err != nil || len(snap.Waits) != 1 || snap.Waits[0].Thread != "w" {
		t.Fatalf("got %+v, %v", snap, err)
	}
	if _, err := child.Thread("w").Invoke(bg, child.Answer("tabby"), graph.WithDurability(d)); err != nil {
		t.Fatal(err)
	}
	sweep(t, store, 1, g)
	snap = must[*graph.Snapshot[turns]](t)(g.Thread("t").State(bg))
	if !snap.Done() || said(&snap.State) != "tabby about cats" {
		t.Fatalf("got %q, %+v", said(&snap.State), snap.Waits)
	}
}

func TestASpawnedThreadThatFailsIsAnErrorThatIsRecorded(t *testing.T) {
	for name, test := range map[string]struct {
		opts []graph.Option
		find func(ctx context.Context, s *work) error
		want func(error) bool
		heal string // how the other thread is made to go on; empty: it can't
	}{
		"node": {
			find: func(context.Context, *work) error { return fmt.Errorf("no: %w", errBoom) },
			want: func(err error) bool { return errors.Is(err, errBoom) },
		},
		"limit": {
			opts: []graph.Option{graph.MaxSteps(1)},
			want: func(err error) bool { return strings.Contains(err.Error(), "max iterations (1)") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := checkpoint.NewMemory()
			child := worker(t, test.find, append(test.opts, graph.WithCheckpointer(store))...)
			g := oneNode(t, store, spawner(child, "w"))
			_, err := g.Thread("t").Invoke(bg, g.Input(nil2))
			if err != nil {
				t.Fatal(err)
			}
			sweep(t, store, 2, child, g)
			snap := must[*graph.Snapshot[turns]](t)(g.Thread("t").State(bg))
			if len(snap.Tasks) != 1 || snap.Tasks[0].Status != "failed" {
				t.Fatalf("got %+v", snap)
			}
			_, err = g.Thread("t").Invoke(bg, g.Continue())
			var se *graph.SpawnError
			if !errors.As(err, &se) || se.Thread != "w" || se.Key != "work" || !test.want(err) {
				t.Fatalf("got %v", err)
			}
			// Somebody helps the other thread; the waiter has been told, and asks anew.
			if _, err := child.Thread("w").EditAs(bg, "find", func(s *work) error { s.Found.Add("by hand"); return nil }); err != nil && name == "node" {
				t.Fatal(err)
			}
			if _, err := child.Thread("w").Invoke(bg, child.Continue()); err != nil {
				t.Fatal(err)
			}
			if _, err := g.Thread("t").Invoke(bg, g.Continue()); !errors.As(err, &se) {
				t.Fatalf("the failure was recorded; got %v", err)
			}
			snap, err = g.Thread("t").Invoke(bg, g.RestartStep())
			if err != nil || !snap.Done() || !strings.HasSuffix(said(&snap.State), "about cats") {
				t.Fatalf("got %q, %v", said(&snap.State), err)
			}
			if n := inputs(t, store, "w"); n != 1 {
				t.Errorf("it was started %d times", n)
			}
		})
	}
}

func TestASpawnedThreadThatIsGoneIsAnErrorOfItsWaiter(t *testing.T) {
	for name, remove := range map[string]func(store checkpoint.Store, child *graph.Graph[work]) error{
		"deleted": func(_ checkpoint.Store, child *graph.Graph[work]) error { return child.Thread("w").Delete(bg) },
		"deleted from the store": func(store checkpoint.Store, _ *graph.Graph[work]) error {
			if err := store.Delete(bg, "w"); err != nil {
				return err
			}
			_, err := store.Write(bg, &checkpoint.Write{Log: checkpoint.Log{Thread: "t"}, Wake: true})
			return err
		},
		"begun anew": func(store checkpoint.Store, child *graph.Graph[work]) error {
			if err := child.Thread("w").Delete(bg); err != nil {
				return err
			}
			_, err := child.Thread("w").Invoke(bg, child.Input(topic("dogs")))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := checkpoint.NewMemory()
			child := worker(t, nil, graph.WithCheckpointer(store))
			g := oneNode(t, store, spawner(child, "w"))
			if _, err := g.Thread("t").Invoke(bg, g.Input(nil2)); err != nil {
				t.Fatal(err)
			}
			if err := remove(store, child); err != nil {
				t.Fatal(err)
			}
			sweep(t, store, 1, g)
			_, err := g.Thread("t").Invoke(bg, g.Continue())
			if se := new(graph.SpawnError); !errors.As(err, &se) || !errors.Is(err, checkpoint.ErrNotFound) {
				t.Fatalf("got %v", err)
			}
		})
	}
}

// What has ended before anybody waited is there at once, and what Wait has returned stays
// whatever becomes of the other thread.
func TestWaitForAThreadThatHasEndedNeedsNobodyToWakeIt(t *testing.T) {
	store := checkpoint.NewMemory()
	child := worker(t, nil, graph.WithCheckpointer(store))
	g := oneNode(t, store, func(ctx context.Context, s *turns) error {
		sp, err := graph.Spawn(ctx, "work", child.Thread("w"), child.Input(topic("cats")))
		if err != nil {
			return err
		}
		if _, err := graph.Interrupt[bool](ctx, "now", sp.Thread().ID()); err != nil {
			return err
		}
		w, err := sp.Wait(ctx)
		if err != nil {
			return err
		}
		s.Said.Add(w.Found.Slice()...)
		_, err = graph.Interrupt[bool](ctx, "done", nil)
		return err
	})
	if _, err := g.Thread("t").Invoke(bg, g.Input(nil2)); err != nil {
		t.Fatal(err)
	}
	sweep(t, store, 1, child)
	if _, err := child.Thread("w").Invoke(bg, child.Input(topic("dogs"))); err != nil { // another turn
		t.Fatal(err)
	}
	snap, err := g.Thread("t").Invoke(bg, g.Answer(true))
	if err != nil || len(snap.Interrupts) != 1 || snap.Interrupts[0].Key != "done" {
		t.Fatalf("got %+v, %v", snap, err)
	}
	if err := child.Thread("w").Delete(bg); err != nil {
		t.Fatal(err)
	}
	snap, err = g.Thread("t").Invoke(bg, g.Answer(true))
	if err != nil || said(&snap.State) != "first about cats" {
		t.Fatalf("got %q, %v", said(&snap.State), err)
	}
}

// The end of a turn is found whatever is pruned of its thread, as long as it is there.
func TestAPrunedThreadStillTellsItsWaiterOfItsEnd(t *testing.T) {
	for name, test := range map[string]struct {
		again bool // another turn before the waiter looks, and all before is pruned
		want  string
	}{
		"while the turn goes on": {want: "ok about cats"},
		"after another turn":     {again: true},
	} {
		t.Run(name, func(t *testing.T) {
			store := checkpoint.NewMemory()
			child := worker(t, func(ctx context.Context, s *work) error {
				a, err := graph.Interrupt[string](ctx, "which", nil)
				s.Found.Add(a)
				return err
			}, graph.WithCheckpointer(store))
			g := oneNode(t, store, spawner(child, "w"))
			if _, err := g.Thread("t").Invoke(bg, g.Input(nil2)); err != nil {
				t.Fatal(err)
			}
			sweep(t, store, 1, child)
			w := child.Thread("w")
			must[graph.Pruned](t)(w.Prune(bg, graph.Keep{}))
			must[*graph.Snapshot[work]](t)(w.Invoke(bg, w.Answer("ok")))
			if test.again {
				must[*graph.Snapshot[work]](t)(w.Invoke(bg, w.Input(topic("dogs"))))
				must[*graph.Snapshot[work]](t)(w.Invoke(bg, w.Answer("ok")))
				must[graph.Pruned](t)(w.Prune(bg, graph.Keep{}))
			}
			snap, err := g.Thread("t").Invoke(bg, g.Continue())
			if test.again {
				if se := new(graph.SpawnError); !errors.As(err, &se) || !errors.Is(err, checkpoint.ErrNotFound) {
					t.Fatalf("got %+v, %v", snap, err)
				}
			} else if err != nil || said(&snap.State) != test.want {
				t.Fatalf("got %q, %v", said(&snap.State), err)
			}
		})
	}
}

func TestForksInsideASuperstepShareWhatItSpawned(t *testing.T) {
	store := checkpoint.NewMemory()
	child := worker(t, nil)
	b := graph.New[turns]("waits")
	b.AddNode("before", func(context.Context, *turns) error { return nil })
	b.AddNode("node", spawner(child, ""))
	b.AddEdge(graph.Start, "before").AddEdge("before", "node")
	g := compile(t, b, graph.WithCheckpointer(store))
	snap, err := g.Thread("t").Invoke(bg, g.Input(nil2))
	if err != nil {
		t.Fatal(err)
	}
	waiting, first := snap.Checkpoint, ""
	for e, err := range g.Thread("t").History(bg, graph.HistoryQuery{OldestFirst: true, Limit: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		first = e.Checkpoint
	}
	sweep(t, store, 2, child, g)
	for _, at := range []string{waiting, first} {
		_, err = g.Thread("t").At(at).Invoke(bg, g.Continue())
		if err != nil {
			t.Fatal(err)
		}
		sweep(t, store, 2, child, g)
		snap = must[*graph.Snapshot[turns]](t)(g.Thread("t").State(bg))
		if !snap.Done() || said(&snap.State) != "first about cats" {
			t.Fatalf("got %q, %+v", said(&snap.State), snap.Waits)
		}
		if ids := threads(t, store, "worker"); at == waiting && len(ids) != 1 {
			t.Fatalf("spawned %v", ids)
		}
	}
	if ids := threads(t, store, "worker"); len(ids) != 2 {
		t.Fatalf("spawned %v: want one by the superstep that both share, and one by that of the fork before it", ids)
	}
	snap, err = g.Thread("t").At(waiting).Fork(bg)
	if err != nil || len(snap.Waits) != 1 {
		t.Fatalf("got %+v, %v", snap, err)
	}
	snap, err = g.Thread("t").Invoke(bg, g.Continue())
	if err != nil || !snap.Done() {
		t.Fatalf("got %+v, %v", snap.Waits, err)
	}
}

func TestAReplayTakesWhatWasSpawnedFromTheRecord(t *testing.T) {
	store := checkpoint.NewMemory()
	child := worker(t, nil)
	g := oneNode(t, store, spawner(child, ""), graph.RecordOnce())
	if _, err := g.Thread("t").Invoke(bg, g.Input(nil2)); err != nil {
		t.Fatal(err)
	}
	r, err := graph.NewRunner(store, graph.RunnerOptions{}, g, child)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.Sweep(bg); err != nil {
			t.Fatal(err)
		}
	}
	before := threads(t, store, "worker")
	same(t, g, taped(t, store, "t"))
	if after := threads(t, store, "worker"); len(after) != len(before) {
		t.Fatalf("the replay spawned: %v, before %v", after, before)
	}
}

func TestARunThatIsStoppedLeavesWhatItSpawned(t *testing.T) {
	store := checkpoint.NewMemory()
	child := worker(t, nil)
	ctx, cancel := context.WithCancel(bg)
	spawn := spawner(child, "")
	stopped := false
	g := oneNode(t, store, func(ctx context.Context, s *turns) error {
		err := spawn(ctx, s)
		if !stopped && errors.Is(err, graph.ErrInterrupted) {
			stopped = true
			cancel()
			return ctx.Err()
		}
		return err
	})
	_, _ = g.Thread("t").Invoke(ctx, g.Input(nil2))
	if !stopped {
		t.Fatal("the run was not stopped")
	}
	sweep(t, store, 1, child)
	if snap := must[*graph.Snapshot[work]](t)(child.Thread(threads(t, store, "worker")[0], graph.WithCheckpointer(store)).State(bg)); !snap.Done() {
		t.Fatalf("got %+v", snap)
	}
	snap, err := g.Thread("t").Invoke(bg, g.Continue())
	if err != nil || said(&snap.State) != "first about cats" {
		t.Fatalf("got %q, %v", said(&snap.State), err)
	}
}

// A thread may be given turn after turn, and several be waited for at once.
func TestTurnsOfOneThreadAndThreadsAtOnce(t *testing.T) {
	store := checkpoint.NewMemory()
	child := worker(t, nil)
	g := oneNode(t, store, func(ctx context.Context, s *turns) error {
		for _, about := range []string{"cats", "dogs"} {
			sp, err := graph.Spawn(ctx, "talk "+about, child.Thread("w"), child.Restart(topic(about)))
			if err != nil {
				return err
			}
			w, err := sp.Wait(ctx)
			if err != nil {
				return err
			}
			s.Said.Add(w.Found.Last())
		}
		parts, waits := make([]*graph.Spawned[work], 3), []error{}
		for i := range parts {
			key := fmt.Sprint("part ", i)
			sp, err := graph.Spawn(ctx, key, child.Thread(""), child.Input(topic(key)))
			if err != nil {
				return err
			}
			parts[i] = sp
		}
		for _, sp := range parts {
			w, err := sp.Wait(ctx)
			if waits = append(waits, err); err == nil {
				s.Said.Add(w.Found.Last())
			}
		}
		return errors.Join(waits...)
	})
	if _, err := g.Thread("t").Invoke(bg, g.Input(nil2)); err != nil {
		t.Fatal(err)
	}
	atOnce := 0
	var snap *graph.Snapshot[turns]
	for range 6 {
		sweep(t, store, 1, child, g)
		snap = must[*graph.Snapshot[turns]](t)(g.Thread("t").State(bg))
		atOnce = max(atOnce, len(snap.Waits))
	}
	if atOnce != 3 {
		t.Errorf("%d were waited for at once", atOnce)
	}
	if want := "about cats about dogs about part 0 about part 1 about part 2"; !snap.Done() || said(&snap.State) != want {
		t.Fatalf("got %q, %+v", said(&snap.State), snap.Waits)
	}
}

func TestDeadlineOfAWaitForAThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := checkpoint.NewMemory()
		child := worker(t, nil)
		g := oneNode(t, store, spawner(child, "w", graph.Deadline(time.Hour)))
		if _, err := g.Thread("t").Invoke(t.Context(), g.Input(nil2)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		snap, err := g.Thread("t").Invoke(t.Context(), g.Continue())
		if late := new(graph.DeadlineError); !errors.As(err, &late) || late.Thread != "w" || !strings.Contains(err.Error(), `thread "w"`) {
			t.Fatalf("got %+v, %v", snap, err)
		}
	})
}

func TestSpawnInsideDoAndInSubgraphs(t *testing.T) {
	store := checkpoint.NewMemory()
	child := worker(t, nil)
	attempts := 0
	inner := graph.New[turns]("inner").AddNode("in", func(ctx context.Context, s *turns) error {
		id, err := graph.Do(ctx, "start", func(ctx context.Context, key string) (string, error) {
			sp, err := graph.Spawn(ctx, key, child.Thread(""), child.Input(topic("mice")))
			if err != nil {
				return "", err
			}
			if _, err := sp.Wait(ctx); err == nil || errors.Is(err, graph.ErrInterrupted) {
				return "", fmt.Errorf("waited inside Do: %v", err)
			}
			if attempts++; attempts == 1 {
				return "", errBoom // after it was started
			}
			return sp.Thread().ID(), nil
		}, "k", graph.Retry(graph.RetryPolicy{}))
		if err != nil {
			return err
		}
		if _, err := graph.Interrupt[bool](ctx, "ok", id); err != nil {
			return err
		}
		return spawner(child, "")(ctx, s)
	}).AddEdge(graph.Start, "in")
	b := graph.New[turns]("outer")
	graph.AddShared(b, "sub", compile(t, inner), func(s *turns) *turns { return s })
	b.AddEdge(graph.Start, "sub")
	g := compile(t, b, graph.WithCheckpointer(store))
	if _, err := g.Thread("t").Invoke(bg, g.Input(nil2)); err != nil {
		t.Fatal(err)
	}
	if ids := threads(t, store, "worker"); len(ids) != 1 || attempts != 2 {
		t.Fatalf("spawned %v in %d attempts", ids, attempts)
	}
	snap, err := g.Thread("t").Invoke(bg, g.Answer(true))
	if err != nil || len(snap.Waits) != 1 {
		t.Fatalf("got %+v, %v", snap, err)
	}
	sweep(t, store, 2, child, g)
	snap = must[*graph.Snapshot[turns]](t)(g.Thread("t").State(bg))
	if !snap.Done() || said(&snap.State) != "first about cats" {
		t.Fatalf("got %q, %+v", said(&snap.State), snap.Waits)
	}
}

func TestSpawnOfAGraphInJSON(t *testing.T) {
	store := checkpoint.NewMemory()
	child := worker(t, nil)
	j := graph.JSON(child)
	g := oneNode(t, store, func(ctx context.Context, s *turns) error {
		sp, err := graph.Spawn(ctx, "work", j.Thread(""), j.Input(graph.UpdateWith([]byte(`{"Topic": "birds"}`))))
		if err != nil {
			return err
		}
		w, err := sp.Wait(ctx)
		if err != nil {
			return err
		}
		var got work
		err = json.Unmarshal(*w, &got)
		s.Said.Add(got.Found.Last())
		return err
	})
	if _, err := g.Thread("t").Invoke(bg, g.Input(nil2)); err != nil {
		t.Fatal(err)
	}
	sweep(t, store, 2, child, g)
	if snap := must[*graph.Snapshot[turns]](t)(g.Thread("t").State(bg)); said(&snap.State) != "about birds" {
		t.Fatalf("got %q, %+v", said(&snap.State), snap.Waits)
	}
}

func TestSpawnRefuses(t *testing.T) {
	store, other := checkpoint.NewMemory(), checkpoint.NewMemory()
	plain := worker(t, nil)
	stored := worker(t, nil, graph.WithCheckpointer(store))
	apart := worker(t, nil, graph.WithCheckpointer(other))
	asks := worker(t, func(ctx context.Context, _ *work) error {
		_, err := graph.Interrupt[bool](ctx, "k", nil)
		return err
	}, graph.WithCheckpointer(store))
	if _, err := asks.Thread("busy").Invoke(bg, asks.Input(topic("cats"))); err != nil {
		t.Fatal(err)
	}
	in := plain.Input(topic("cats"))
	for want, spawn := range map[string]func(ctx context.Context) error{
		"needs a key":       func(ctx context.Context) error { _, err := graph.Spawn(ctx, "", plain.Thread(""), in); return err },
		"its thread is nil": func(ctx context.Context) error { _, err := graph.Spawn[work](ctx, "k", nil, in); return err },
		"must be an Input": func(ctx context.Context) error {
			_, err := graph.Spawn(ctx, "k", plain.Thread(""), plain.Continue())
			return err
		},
		"without At": func(ctx context.Context) error {
			_, err := graph.Spawn(ctx, "k", stored.Thread("x").At("y"), in)
			return err
		},
		`thread "t" is the one`:       func(ctx context.Context) error { _, err := graph.Spawn(ctx, "k", stored.Thread("t"), in); return err },
		"both threads must be in one": func(ctx context.Context) error { _, err := graph.Spawn(ctx, "k", apart.Thread("x"), in); return err },
		"something is pending":        func(ctx context.Context) error { _, err := graph.Spawn(ctx, "k", asks.Thread("busy"), in); return err },
		"not today": func(ctx context.Context) error {
			_, err := graph.Spawn(ctx, "k", plain.Thread("x"), plain.Input(func(*work) error { return errors.New("not today") }))
			return err
		},
		"Spawn is not possible inside": nil,
	} {
		t.Run(want, func(t *testing.T) {
			g := oneNode(t, store, func(ctx context.Context, s *turns) error {
				if spawn != nil {
					return spawn(ctx)
				}
				_, err := graph.Once(ctx, "once", func(ctx context.Context, _ string) (int, error) {
					_, err := graph.Spawn(ctx, "k", plain.Thread(""), in)
					return 0, err
				})
				return err
			})
			_, err := g.Thread("t").Invoke(bg, g.Input(nil2))
			if spawn == nil {
				want = "is not possible inside"
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("got %v, want %q", err, want)
			}
			if err := g.Thread("t").Delete(bg); err != nil {
				t.Fatal(err)
			}
		})
	}
	if _, err := graph.Spawn(bg, "k", plain.Thread(""), in); !errors.Is(err, graph.ErrNotInNode) {
		t.Errorf("got %v", err)
	}
	g := graph.New[turns]("none").AddNode("node", spawner(plain, "")).AddEdge(graph.Start, "node").MustCompile()
	if _, err := g.Invoke(bg, nil); !errors.Is(err, graph.ErrNoCheckpointer) {
		t.Errorf("got %v", err)
	}
}

// A run that reaches its own limit of time has failed, as with any other limit: nobody
// takes it up again by himself, and who waits for it is told.
func TestASpawnedTurnThatRunsOutOfTimeIsAnErrorOfItsWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := checkpoint.NewMemory()
		ran, slow := 0, true
		child := worker(t, func(ctx context.Context, s *work) error {
			if ran++; slow {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}, graph.WithCheckpointer(store), graph.RunTimeout(time.Second))
		g := oneNode(t, store, spawner(child, "w"))
		if _, err := g.Thread("t").Invoke(t.Context(), g.Input(nil2)); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			sweep(t, store, 1, child, g)
			time.Sleep(time.Hour)
		}
		if ran != 1 {
			t.Errorf("it ran %d times", ran)
		}
		_, err := g.Thread("t").Invoke(t.Context(), g.Continue())
		if se := new(graph.SpawnError); !errors.As(err, &se) || !strings.Contains(err.Error(), "run exceeded its timeout of 1s") {
			t.Fatalf("got %v", err)
		}
		slow = false
		if _, err := child.Thread("w").Invoke(t.Context(), child.Continue()); err != nil {
			t.Fatal(err)
		}
		snap, err := g.Thread("t").Invoke(t.Context(), g.RestartStep())
		if err != nil || !snap.Done() || said(&snap.State) != "about cats" {
			t.Fatalf("got %q, %v", said(&snap.State), err)
		}
	})
}
