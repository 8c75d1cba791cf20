package fleet_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/fleet"
	"github.com/superstep-dev/superstep/graph"
)

type trip struct {
	Log graph.List[string]
}

func compile(t *testing.T, store checkpoint.Store, name string, node func(context.Context, *trip) error, opts ...graph.Option) *graph.Graph[trip] {
	t.Helper()
	b := graph.New[trip](name)
	b.AddNode("node", node)
	b.AddNode("end", func(_ context.Context, s *trip) error { s.Log.Add("end"); return nil })
	b.AddEdge(graph.Start, "node").AddEdge("node", "end")
	g, err := b.Compile(append(opts, graph.WithCheckpointer(store))...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// local returns a client of a new dispatcher in this process; workers use their own view of
// the store.
func local(t *testing.T, store, workers checkpoint.Store, programs ...graph.Runnable) (*fleet.Client, *fleet.Local) {
	t.Helper()
	var ps []fleet.Program
	for _, g := range programs {
		ps = append(ps, fleet.Program{Graph: g})
	}
	w, err := fleet.NewWorker(workers, fleet.Options{}, ps...)
	if err != nil {
		t.Fatal(err)
	}
	d, err := fleet.NewLocal(w, fleet.LocalOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return &fleet.Client{Dispatcher: d, Store: store}, d
}

// watched runs f while a client watches the store.
func watched(t *testing.T, c *fleet.Client, f func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error)
	go func() { over <- c.Watch(ctx, graph.RunnerOptions{}) }()
	f()
	cancel()
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Errorf("the watch ended with %v", err)
	}
}

func state(t *testing.T, th *graph.Thread[trip]) *graph.Snapshot[trip] {
	t.Helper()
	snap, err := th.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

func nothing(*trip) error { return nil }

func TestAThreadSleepsThroughTheEndOfItsDispatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := checkpoint.NewMemory()
		g := compile(t, store, "nap", func(ctx context.Context, s *trip) error {
			if err := graph.Sleep(ctx, "nap", 48*time.Hour); err != nil {
				return err
			}
			s.Log.Add("awake")
			return nil
		})
		c, d := local(t, store, store, g)
		th := g.Thread("t")
		run, err := fleet.Start(t.Context(), c, th, g.Input(nothing))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if snap := state(t, th); len(snap.Waits) != 1 {
			t.Fatalf("%+v", snap)
		}
		d.Close()
		if _, err := run.Wait(t.Context()); !errors.Is(err, fleet.ErrCancelled) {
			t.Errorf("the run that was asleep: %v", err)
		}
		c, d = local(t, store, store, g)
		defer d.Close()
		watched(t, c, func() { time.Sleep(46 * time.Hour) })
		if snap := state(t, th); len(snap.Waits) != 1 {
			t.Errorf("woken early: %+v", snap)
		}
		watched(t, c, func() { time.Sleep(2 * time.Hour) })
		if snap := state(t, th); !snap.Done() || !slices.Equal(snap.State.Log.Slice(), []string{"awake", "end"}) {
			t.Errorf("%+v", snap)
		}
	})
}

// gone is a store to which a process has no way any more, from some write on.
type gone struct {
	checkpoint.Store
	left atomic.Int64
}

func (s *gone) Write(ctx context.Context, w *checkpoint.Write) (checkpoint.Written, error) {
	if s.left.Add(-1) < 0 {
		return checkpoint.Written{}, errors.New("there is no way to the store")
	}
	return s.Store.Write(ctx, w)
}

// Wherever the process of a run dies, the watch has the run go on when its lease is over,
// and each sub-step that is recorded is done once.
func TestARunGoesOnWhereItsProcessDied(t *testing.T) {
	for writes := range int64(8) {
		synctest.Test(t, func(t *testing.T) {
			store := checkpoint.NewMemory()
			var paid atomic.Int64
			g := compile(t, store, "pay", func(ctx context.Context, s *trip) error {
				_, err := graph.Once(ctx, "pay", func(context.Context, string) (int64, error) { return paid.Add(1), nil })
				s.Log.Add("paid")
				return err
			})
			dead := &gone{Store: store}
			dead.left.Store(writes)
			first, d := local(t, store, dead, g)
			th := g.Thread("t")
			if _, err := fleet.Start(t.Context(), first, th, g.Input(nothing)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second) // else the watch may be first
			second, other := local(t, store, store, g)
			defer other.Close()
			watched(t, second, func() { time.Sleep(time.Minute) })
			if snap := state(t, th); !snap.Done() || !slices.Equal(snap.State.Log.Slice(), []string{"paid", "end"}) {
				t.Errorf("died after %d writes: %+v", writes, snap)
			}
			// What could not be recorded is the one thing that is done again.
			want := int64(1)
			if writes == 2 { // after the claim, and its renewal before the node
				want = 2
			}
			if n := paid.Load(); n != want {
				t.Errorf("died after %d writes: paid %d times, want %d", writes, n, want)
			}
			d.Close()
		})
	}
}

func TestAThreadWaitsForOneThatItSpawned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := checkpoint.NewMemory()
		child := compile(t, store, "child", func(_ context.Context, s *trip) error { s.Log.Add("child"); return nil })
		g := compile(t, store, "parent", func(ctx context.Context, s *trip) error {
			spawned, err := graph.Spawn(ctx, "child", child.Thread("c"), child.Input(nothing))
			if err != nil {
				return err
			}
			got, err := spawned.Wait(ctx)
			if err != nil {
				return err
			}
			s.Log.Add(got.Log.Slice()...)
			return nil
		})
		c, d := local(t, store, store, g, child)
		defer d.Close()
		th := g.Thread("p")
		watched(t, c, func() {
			if _, err := fleet.Start(t.Context(), c, th, g.Input(nothing)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		})
		if snap := state(t, th); !slices.Equal(snap.State.Log.Slice(), []string{"child", "end", "end"}) {
			t.Errorf("%+v", snap)
		}
	})
}

func TestARunOutOfTimeFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := checkpoint.NewMemory()
		g := compile(t, store, "slow", func(ctx context.Context, s *trip) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}, graph.RunTimeout(time.Hour))
		c, d := local(t, store, store, g)
		defer d.Close()
		_, err := fleet.Invoke(t.Context(), c, g.Thread("t"), g.Input(nothing))
		if late, ok := errors.AsType[*graph.TimeoutError](err); !ok || late.Kind != "run" || late.Limit != time.Hour {
			t.Errorf("got %v", err)
		}
		if _, err := g.Thread("t").Edit(t.Context(), nothing); err != nil {
			t.Errorf("the thread is not given up: %v", err)
		}
	})
}

// Metadata that a run is begun with are those of all its checkpoints, and they have its ID.
func TestTheCheckpointsOfARunAreItsOwn(t *testing.T) {
	store := checkpoint.NewMemory()
	var run string
	g := compile(t, store, "own", func(ctx context.Context, s *trip) error { run = graph.Info(ctx).Run; return nil })
	c, d := local(t, store, store, g)
	defer d.Close()
	th := g.Thread("t")
	started, err := fleet.Start(t.Context(), c, th, g.Input(nothing), graph.Metadata("who", "Ada"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := started.Wait(t.Context())
	if err != nil || p.Run != run {
		t.Fatalf("%+v, %v; the node saw run %s", p, err, run)
	}
	n := 0
	for e, err := range th.History(t.Context(), graph.HistoryQuery{Source: "loop"}) {
		if err != nil || e.Metadata["who"] != "Ada" || string(checkpoint.ID(e.Checkpoint).Run()) != run {
			t.Errorf("%+v, %v", e, err)
		}
		n++
	}
	if n != 2 {
		t.Errorf("%d checkpoints", n)
	}
}

// watch runs a dispatcher and its watch until stop is called, as a process does that is told
// to end.
func watch(t *testing.T, store checkpoint.Store, programs ...graph.Runnable) (stop func()) {
	t.Helper()
	c, d := local(t, store, store, programs...)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error)
	go func() { over <- c.Watch(ctx, graph.RunnerOptions{}) }()
	return func() {
		cancel()
		<-over
		d.Close()
	}
}

// What Close stops is due: the next watch has it go on at once, at what was not recorded.
func TestARunGoesOnThatWasAtWorkWhenItsDispatcherWasClosed(t *testing.T) {
	busy := errors.New("provider 503")
	for name, c := range map[string]struct {
		node func(ctx context.Context, attempt int) error
		opts []graph.NodeOption
		want []string // what the second process does
	}{
		"in a node": {func(ctx context.Context, attempt int) error {
			select {
			case <-time.After(10 * time.Second):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}, nil, []string{"1"}},
		"between two attempts": {func(ctx context.Context, attempt int) error {
			if attempt == 1 {
				return busy
			}
			return nil
		}, []graph.NodeOption{graph.Retry(graph.RetryPolicy{MaxAttempts: 3, Initial: time.Hour})}, []string{"2"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := checkpoint.NewMemory()
				b := graph.New[trip]("g")
				b.AddNode("node", func(ctx context.Context, s *trip) error {
					attempt := graph.Info(ctx).Attempt
					s.Log.Add(strconv.Itoa(attempt))
					return c.node(ctx, attempt)
				}, c.opts...).AddEdge(graph.Start, "node")
				g, err := b.Compile(graph.WithCheckpointer(store))
				if err != nil {
					t.Fatal(err)
				}
				th := g.Thread("t")
				if err := fleet.Submit(t.Context(), th, g.Input(nothing)); err != nil {
					t.Fatal(err)
				}
				stop := watch(t, store, g)
				time.Sleep(5 * time.Second)
				stop()
				stop = watch(t, store, g)
				defer stop()
				time.Sleep(11 * time.Second)
				if snap := state(t, th); !snap.Done() || !slices.Equal(snap.State.Log.Slice(), c.want) {
					t.Errorf("%v, %+v", snap.State.Log.Slice(), snap)
				}
			})
		})
	}
}

// A sub-step that doesn't heed the end of its context is not begun a second time while it is
// under way in a process that ends.
func TestASubStepIsDoneOnceThatIsUnderWayWhenItsDispatcherIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := checkpoint.NewMemory()
		var paid atomic.Int64
		g := compile(t, store, "pay", func(ctx context.Context, s *trip) error {
			n, err := graph.Once(ctx, "pay", func(context.Context, string) (int64, error) {
				time.Sleep(time.Minute)
				return paid.Add(1), nil
			})
			s.Log.Add("paid " + strconv.Itoa(int(n)))
			return err
		})
		th := g.Thread("t")
		if err := fleet.Submit(t.Context(), th, g.Input(nothing)); err != nil {
			t.Fatal(err)
		}
		stop := watch(t, store, g)
		time.Sleep(5 * time.Second)
		stop()
		stop = watch(t, store, g)
		defer stop()
		time.Sleep(2 * time.Minute)
		if snap := state(t, th); !snap.Done() || !slices.Equal(snap.State.Log.Slice(), []string{"paid 1", "end"}) {
			t.Errorf("%v, %+v", snap.State.Log.Slice(), snap)
		}
	})
}

// A run that somebody has cancelled stays where it is, also when its process ends.
func TestARunThatIsCancelledStaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := checkpoint.NewMemory()
		g := compile(t, store, "long", func(ctx context.Context, s *trip) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		c, d := local(t, store, store, g)
		th := g.Thread("t")
		if _, err := fleet.Start(t.Context(), c, th, g.Input(nothing)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := d.Cancel(t.Context(), "t"); err != nil {
			t.Fatal(err)
		}
		d.Close()
		time.Sleep(time.Minute)
		for range store.Due(t.Context(), time.Now().Add(time.Hour), 0) {
			t.Error("it is due")
		}
		for range store.Abandoned(t.Context(), 0) {
			t.Error("it is as if its process had died")
		}
	})
}

// deaf takes what it is given and does nothing.
type deaf struct{ given atomic.Int64 }

func (d *deaf) Dispatch(context.Context, fleet.Ref) (fleet.Run, error) {
	d.given.Add(1)
	return d, nil
}

// Wait returns when nobody waits any more.
func (d *deaf) Wait(ctx context.Context) (fleet.Progress, error) {
	<-ctx.Done()
	return fleet.Progress{}, ctx.Err()
}

func (d *deaf) Cancel(context.Context, string) error { return nil }

// What waits for a worker is given to the dispatcher again, less and less often; what else
// comes to the thread is given to it with the next look.
func TestAThreadThatNobodyRunsIsNotGivenAgainAtEachLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := checkpoint.NewMemory()
		g := compile(t, store, "deaf", func(context.Context, *trip) error { return nil })
		if err := fleet.Submit(t.Context(), g.Thread("t"), g.Input(nothing)); err != nil {
			t.Fatal(err)
		}
		// Another is due, and its run has died, too.
		if err := fleet.Submit(t.Context(), g.Thread("dead"), g.Input(nothing)); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Write(t.Context(), &checkpoint.Write{Log: checkpoint.Log{Thread: "dead"}, Claim: true, Lease: time.Second, Holder: "dead", Wake: true}); err != nil {
			t.Fatal(err)
		}
		d := new(deaf)
		watched(t, &fleet.Client{Dispatcher: d, Store: store}, func() {
			time.Sleep(time.Hour)
			if n := d.given.Load(); n < 120 || n > 140 {
				t.Errorf("the two were given %d times in an hour", n)
			}
			before := d.given.Load()
			if err := fleet.Submit(t.Context(), g.Thread("t"), g.Input(nothing)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			if n := d.given.Load() - before; n < 1 || n > 3 {
				t.Errorf("given %d times after something new has come to it", n)
			}
		})
	})
}
