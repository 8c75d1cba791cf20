package graph_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

func TestAThreadThatARunWorksOnIsNotDeleted(t *testing.T) {
	eachReach(t, func(t *testing.T, open func() checkpoint.Store) {
		release := make(chan struct{})
		g := talker(t, open(), func(context.Context, string) error { <-release; return nil })
		done := make(chan error)
		go func() { _, err := g.Thread("t").Invoke(t.Context(), g.Input(say("a"))); done <- err }()
		synctest.Wait()
		other := talker(t, open(), nil)
		err := other.Thread("t").Delete(t.Context())
		var busy *checkpoint.BusyError
		if !errors.Is(err, graph.ErrThreadBusy) || !errors.As(err, &busy) || !strings.Contains(busy.Lease.Holder, " pid ") {
			t.Fatalf("got %v, want ErrThreadBusy with the holder", err)
		}
		if strings.Contains(err.Error(), "0001-01-01") {
			t.Fatalf("a time that nobody said: %v", err)
		}
		deleted := make(chan error)
		go func() { deleted <- other.Thread("t", graph.WhenBusy(graph.BusyQueue)).Delete(t.Context()) }()
		synctest.Wait()
		close(release)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if err := <-deleted; err != nil {
			t.Fatal(err)
		}
		if _, err := other.Thread("t").State(t.Context()); !errors.Is(err, checkpoint.ErrNotFound) {
			t.Fatalf("got %v, want ErrNotFound", err)
		}
		if err := other.Thread("t").Delete(t.Context()); err != nil {
			t.Fatalf("deleting an unknown thread: %v", err)
		}
	})
}

func TestDeletingAThreadCanStopTheRunThatWorksOnIt(t *testing.T) {
	eachReach(t, func(t *testing.T, open func() checkpoint.Store) {
		g := talker(t, open(), never)
		done := make(chan error)
		go func() { _, err := g.Thread("t").Invoke(t.Context(), g.Input(say("a"))); done <- err }()
		synctest.Wait()
		other := talker(t, open(), nil)
		if err := other.Thread("t", graph.WhenBusy(graph.BusyInterrupt)).Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, graph.ErrThreadBusy) {
			t.Fatalf("the run ended with %v", err)
		}
		if _, err := other.Thread("t").State(t.Context()); !errors.Is(err, checkpoint.ErrNotFound) {
			t.Fatalf("got %v, want ErrNotFound", err)
		}
	})
}

func TestARunWhoseThreadWasDeletedSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := checkpoint.NewMemory()
		release := make(chan struct{})
		g := talker(t, elsewhere{store}, func(context.Context, string) error { <-release; return nil })
		done := make(chan error)
		go func() { _, err := g.Thread("t").Invoke(t.Context(), g.Input(say("a"))); done <- err }()
		synctest.Wait()
		if err := g.Thread("t", graph.WhenBusy(graph.BusyInterrupt)).Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
		close(release)
		if err := <-done; !errors.Is(err, graph.ErrThreadBusy) || !strings.Contains(err.Error(), `thread "t" was deleted`) {
			t.Fatalf("the run ended with %v", err)
		}
	})
}
