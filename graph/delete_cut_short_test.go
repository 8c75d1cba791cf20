package graph_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/file"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
	"github.com/superstep-dev/superstep/graph"
)

func quickly(context.Context, string) error { return nil }

func TestADeletionWhoseContextHasEndedLeavesTheThreadToOthers(t *testing.T) {
	eachReach(t, func(t *testing.T, open func() checkpoint.Store) {
		g := talker(t, open(), quickly)
		if _, err := g.Thread("t").Invoke(t.Context(), g.Input(say("a"))); err != nil {
			t.Fatal(err)
		}
		for _, policy := range []graph.BusyPolicy{graph.BusyReject, graph.BusyQueue, graph.BusyInterrupt} {
			ctx, cancel := context.WithCancelCause(t.Context())
			why := errors.New("the caller has left")
			cancel(why)
			if err := g.Thread("t", graph.WhenBusy(policy)).Delete(ctx); !errors.Is(err, why) {
				t.Fatalf("got %v, want why the context has ended", err)
			}
			if _, err := talker(t, open(), quickly).Thread("t").Invoke(t.Context(), graph.Requests[turns]{}.Input(say("b"))); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// atClaim calls a function after the first claim.
type atClaim struct {
	checkpoint.Store
	do func()
}

func (s *atClaim) Write(ctx context.Context, w *checkpoint.Write) (checkpoint.Written, error) {
	out, err := s.Store.Write(ctx, w)
	if w.Claim && s.do != nil {
		s.do()
		s.do = nil
	}
	return out, err
}

// brokenDelete is a store that deletes nothing.
type brokenDelete struct{ checkpoint.Store }

var errNotNow = errors.New("not now")

func (brokenDelete) Delete(context.Context, checkpoint.ThreadID) error { return errNotNow }

func TestADeletionThatFailsGivesTheThreadBack(t *testing.T) {
	eachReach(t, func(t *testing.T, open func() checkpoint.Store) {
		g := talker(t, open(), quickly)
		if _, err := g.Thread("t").Invoke(t.Context(), g.Input(say("a"))); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("the caller has left")
		leaving := talker(t, &atClaim{open(), func() { cancel(why) }}, quickly)
		if err := leaving.Thread("t").Delete(ctx); !errors.Is(err, why) {
			t.Fatalf("got %v, want why the context has ended", err)
		}
		if _, err := g.Thread("t").Invoke(t.Context(), g.Input(say("b"))); err != nil {
			t.Fatal(err)
		}
		if err := talker(t, brokenDelete{open()}, quickly).Thread("t").Delete(t.Context()); !errors.Is(err, errNotNow) {
			t.Fatalf("got %v, want the store's error", err)
		}
		if _, err := g.Thread("t").Invoke(t.Context(), g.Input(say("c"))); err != nil {
			t.Fatal(err)
		}
		if err := g.Thread("t").Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// leases tells when a lease was renewed.
type leases struct {
	checkpoint.Store
	renewed chan struct{}
}

func (s leases) Write(ctx context.Context, w *checkpoint.Write) (checkpoint.Written, error) {
	out, err := s.Store.Write(ctx, w)
	if w.Lease > 0 && !w.Claim && err == nil {
		select {
		case s.renewed <- struct{}{}:
		default:
		}
	}
	return out, err
}

func TestARunOfADeletedThreadLeavesTheOneBegunAnewAlone(t *testing.T) {
	test := func(t *testing.T, open func() checkpoint.Store, ttl graph.Option) {
		released := [2]chan struct{}{make(chan struct{}), make(chan struct{})}
		done := [2]chan error{make(chan error, 1), make(chan error, 1)}
		begin := func(i int, word string) (renewed chan struct{}) {
			began, renewed := make(chan struct{}), make(chan struct{})
			g := talker(t, leases{open(), renewed}, func(context.Context, string) error {
				close(began)
				<-released[i] // and deaf to its end
				return nil
			}, ttl)
			go func() {
				_, err := g.Thread("t").Invoke(t.Context(), g.Input(say(word)))
				done[i] <- err
			}()
			<-began
			return renewed
		}
		begin(0, "a")
		if err := talker(t, open(), quickly).Thread("t", graph.WhenBusy(graph.BusyInterrupt)).Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
		renewed := begin(1, "b")
		<-renewed
		<-renewed // between the two the other one has tried to
		close(released[0])
		if err := <-done[0]; !errors.Is(err, graph.ErrThreadBusy) {
			t.Errorf("the run that was stopped ended with %v", err)
		}
		other := talker(t, open(), quickly)
		if _, err := other.Thread("t").Invoke(t.Context(), other.Input(say("c"))); !errors.Is(err, graph.ErrThreadBusy) {
			t.Errorf("while the new run works on the thread, a third one got %v", err)
		}
		close(released[1])
		if err := <-done[1]; err != nil {
			t.Errorf("the new run ended with %v", err)
		}
		snap, err := other.Thread("t").State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := said(&snap.State); got != "b B" {
			t.Errorf("the thread says %q, want what the new run said", got)
		}
	}
	t.Run("memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := checkpoint.NewMemory()
			test(t, func() checkpoint.Store { return elsewhere{store} }, graph.LeaseTTL(time.Minute))
		})
	})
	for kind, open := range map[string]func(dir string) (checkpoint.Store, error){
		"sqlite": func(dir string) (checkpoint.Store, error) {
			return sqlite.Open(filepath.Join(dir, "threads.db"))
		},
		"file": func(dir string) (checkpoint.Store, error) { return file.Open(dir, file.Options{}) },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			test(t, func() checkpoint.Store {
				s, err := open(dir)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = s.Close() })
				return s
			}, graph.LeaseTTL(time.Second))
		})
	}
}
