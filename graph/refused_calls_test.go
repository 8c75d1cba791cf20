package graph_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

type panicky struct{ graph.Observer }

func twoSteps(t *testing.T, opts ...graph.Option) *graph.Graph[tally] {
	t.Helper()
	b := graph.New[tally]("two")
	b.AddNode("one", func(ctx context.Context, s *tally) error {
		_, err := graph.Do(ctx, "sub-step", func(context.Context, int) (int, error) { return 1, nil }, 1)
		s.N++
		return err
	}).AddNode("two", add).AddSequence("one", "two").AddEdge(graph.Start, "one")
	g, err := b.Compile(append(opts, graph.WithCheckpointer(checkpoint.NewMemory()))...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// An observer without methods panics whatever it is told.
func TestAnObserverThatPanicsStopsNoRun(t *testing.T) {
	th := twoSteps(t).Thread("t")
	snap, err := th.Invoke(t.Context(), th.Input(func(*tally) error { return nil }), graph.Observe(panicky{}))
	if err != nil || !snap.Done() || snap.State.N != 2 {
		t.Fatal(snap.State, err)
	}
	for _, err := range th.Stream(t.Context(), th.Input(func(*tally) error { return nil }), graph.Observe(panicky{})) {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestALoopOverAStreamThatPanicsGivesTheThreadUp(t *testing.T) {
	for name, leave := range map[string]func(){"panic": func() { panic("x") }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			th := twoSteps(t).Thread("t")
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer func() { _ = recover() }()
				for range th.Stream(context.Background(), th.Input(func(*tally) error { return nil })) {
					leave()
				}
			}()
			<-done
			if snap, err := th.Invoke(t.Context(), th.Continue()); err != nil || snap.State.N != 2 {
				t.Error(snap.State, err)
			}
		})
	}
}

func TestWhatACallIsGivenThatPanicsIsItsError(t *testing.T) {
	type config struct{ N int }
	b := graph.New[tally]("configured")
	b.AddNode("one", add).AddEdge(graph.Start, "one")
	g, err := b.Compile(graph.WithCheckpointer(checkpoint.NewMemory()), graph.Configurable(config{}))
	if err != nil {
		t.Fatal(err)
	}
	th := g.Thread("t")
	for what, opt := range map[string]graph.SubgraphOption{
		"dependency":         graph.ProvideDeps(func(context.Context) (*config, error) { panic("boom") }),
		"graph.Configure of": graph.Configure(func(*config) { panic("boom") }),
	} {
		check := func(err error) {
			t.Helper()
			if p, ok := errors.AsType[*graph.PanicError](err); !ok || p.Value != "boom" || !strings.Contains(err.Error(), what) {
				t.Errorf("%s: %v", what, err)
			}
		}
		_, err := th.Invoke(t.Context(), th.Input(func(*tally) error { return nil }), opt)
		check(err)
		var last error
		for _, err := range th.Stream(t.Context(), th.Input(func(*tally) error { return nil }), opt) {
			last = err
		}
		check(last)
	}
}

func TestACallThatIsRefusedSaysNothingOfItsThread(t *testing.T) {
	th := twoSteps(t).Thread("t")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	snap, err := th.Invoke(ended, th.Input(func(*tally) error { return nil }))
	if !errors.Is(err, context.Canceled) || snap.Done() {
		t.Error(snap.Done(), err)
	}
	snap, err = th.Invoke(t.Context(), th.Continue(), graph.MaxSteps(-5))
	if err == nil || snap.Done() {
		t.Error(snap.Done(), err)
	}
}

func TestARestartThatIsRefusedStopsNoOtherRun(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	b := graph.New[tally]("slow")
	b.AddNode("slow", func(ctx context.Context, s *tally) error {
		close(started)
		select {
		case <-release:
		case <-ctx.Done():
		}
		s.N++
		return ctx.Err()
	}).AddEdge(graph.Start, "slow")
	th := b.MustCompile(graph.WithCheckpointer(checkpoint.NewMemory())).Thread("t")
	over := make(chan error)
	go func() {
		_, err := th.Invoke(t.Context(), th.Input(func(*tally) error { return nil }))
		over <- err
	}()
	<-started
	snap, err := th.Invoke(t.Context(), th.Restart(nil, graph.Command{}), graph.WhenBusy(graph.BusyInterrupt))
	if err == nil || snap.Done() {
		t.Errorf("%+v, %v", snap, err)
	}
	close(release)
	if err := <-over; err != nil {
		t.Error(err)
	}
}
