package graph_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// asking is a graph whose only node asks before it adds.
func asking(t *testing.T, name string, store checkpoint.Store, opts ...graph.Option) *graph.Graph[tally] {
	t.Helper()
	b := graph.New[tally](name)
	b.AddNode("pay", func(ctx context.Context, s *tally) error {
		if _, err := graph.Interrupt[bool](ctx, "approve", nil); err != nil {
			return err
		}
		if err := graph.Sleep(ctx, "rest", time.Millisecond); err != nil {
			return err
		}
		s.N++
		return nil
	}).AddEdge(graph.Start, "pay")
	g, err := b.Compile(append(opts, graph.WithCheckpointer(store))...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestAThreadThatWaitsInOneGraphIsNotContinuedInAnother(t *testing.T) {
	ctx, store := t.Context(), checkpoint.NewMemory()
	nothing := func(*tally) error { return nil }
	orders := asking(t, "orders", store).Thread("42")
	if _, err := orders.Invoke(ctx, orders.Input(nothing)); err != nil {
		t.Fatal(err)
	}
	invoices := asking(t, "invoices", store).Thread("42")
	_, stateErr := invoices.State(ctx)
	_, inputErr := invoices.Invoke(ctx, invoices.Input(nothing))
	_, answerErr := invoices.Invoke(ctx, invoices.Answer(true))
	_, editErr := invoices.Edit(ctx, nothing)
	for what, err := range map[string]error{"State": stateErr, "Input": inputErr, "Answer": answerErr, "Edit": editErr} {
		if e, ok := errors.AsType[*graph.UnknownNodeError](err); !ok || e.Graph != "orders" || e.Thread != "42" {
			t.Errorf("%s: %v", what, err)
		}
	}
	snap, err := orders.Invoke(ctx, orders.Answer(true))
	if err != nil || len(snap.Waits) != 1 {
		t.Fatal(snap, err)
	}

	// Under a name that the graph had, a runner finds it, too.
	purchases := asking(t, "purchases", store, graph.FormerName("sales", "orders"))
	time.Sleep(2 * time.Millisecond)
	r, err := graph.NewRunner(store, graph.RunnerOptions{}, purchases)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	if snap, err := purchases.Thread("42").State(ctx); err != nil || !snap.Done() || snap.State.N != 1 {
		t.Fatal(snap, err)
	}
	// Where nothing waits, a thread may go on in another graph.
	if snap, err := invoices.Invoke(ctx, invoices.Input(nothing)); err != nil || snap.State.N != 1 || len(snap.Interrupts) != 1 {
		t.Error(snap, err)
	}
}
