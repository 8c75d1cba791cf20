package snippets_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

type Invoice struct {
	Customer string
	Paid     int
	Outcome  string
}

func compileInvoice(store checkpoint.Store, node func(context.Context, *Invoice) error, opts ...graph.Option) *graph.Graph[Invoice] {
	b := graph.New[Invoice]("invoice")
	b.AddNode("invoice", node)
	b.AddEdge(graph.Start, "invoice")
	return b.MustCompile(append([]graph.Option{graph.WithCheckpointer(store)}, opts...)...)
}

func thank(ctx context.Context, s *Invoice) error {
	if err := graph.Sleep(ctx, "decency", 24*time.Hour); err != nil {
		return err // the thread is parked here
	}
	s.Outcome = "thanked"
	return nil
}

func awaitPayment(ctx context.Context, s *Invoice) error {
	cents, err := graph.WaitFor[int](ctx, "", "payment", graph.Deadline(14*24*time.Hour))
	if _, late := errors.AsType[*graph.DeadlineError](err); late {
		s.Outcome = "overdue"
		return nil
	}
	if err != nil {
		return err
	}
	s.Paid, s.Outcome = cents, "paid"
	return nil
}

func Example_sleep() {
	g := compileInvoice(checkpoint.NewMemory(), thank)
	t := g.Thread("i-1")
	snap, err := t.Invoke(ctx, t.Input(func(s *Invoice) error {
		s.Customer = "Kim"
		return nil
	}))
	wait := snap.Waits[0]
	fmt.Println(snap.Done(), wait.Key, time.Until(wait.Until).Round(time.Hour), err)
	// Output: false decency 24h0m0s <nil>
}

func Example_event() {
	g := compileInvoice(checkpoint.NewMemory(), awaitPayment)
	t := g.Thread("i-1")
	snap, err := t.Invoke(ctx, t.Input(func(s *Invoice) error {
		s.Customer = "Kim"
		return nil
	}))
	fmt.Println(snap.Waits[0].Event, err)

	// From the handler of a webhook, in any process:
	err = t.SendEvent(ctx, "payment", 1250)
	fmt.Println(err)

	// A runner would do this by itself:
	snap, err = t.Invoke(ctx, t.Continue())
	fmt.Println(snap.State.Outcome, snap.State.Paid, err)
	// Output:
	// payment <nil>
	// <nil>
	// paid 1250 <nil>
}

func Example_runner() {
	store := checkpoint.NewMemory()
	soon := func(ctx context.Context, s *Invoice) error {
		if err := graph.Sleep(ctx, "moment", 20*time.Millisecond); err != nil {
			return err
		}
		s.Outcome = "woken"
		return nil
	}
	g := compileInvoice(store, soon)
	t := g.Thread("i-1")
	_, err := t.Invoke(ctx, t.Input(func(s *Invoice) error {
		s.Customer = "Kim"
		return nil
	}))
	fmt.Println(err)
	//snippet:runner
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	woken := make(chan string, 1)
	runner, err := graph.NewRunner(store, graph.RunnerOptions{
		Report: func(r graph.RunnerReport) { woken <- fmt.Sprint(r.Thread, " ", r.Err) },
	}, g)
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error)
	go func() { ended <- runner.Run(ctx) }()
	fmt.Println(<-woken)
	cancel()
	fmt.Println(<-ended)
	//snippet:end
	// Output:
	// <nil>
	// i-1 <nil>
	// context canceled
}

func Example_recover() {
	store := checkpoint.NewMemory()
	g := compileInvoice(store, thank)
	//snippet:recover
	n, err := graph.Recover(ctx, store, g)
	fmt.Println(n, err)
	//snippet:end
	// Output: 0 <nil>
}

func Example_queue() {
	store := checkpoint.NewMemory()
	slow := func(ctx context.Context, s *Invoice) error {
		time.Sleep(5 * time.Millisecond)
		s.Paid++
		return nil
	}
	//snippet:queue
	g := compileInvoice(store, slow, graph.WhenBusy(graph.BusyQueue))
	t := g.Thread("i-1")
	errs := make(chan error)
	for range 3 { // three messages at once for one thread
		go func() {
			_, err := t.Invoke(ctx, t.Input(func(s *Invoice) error {
				s.Customer = "Kim"
				return nil
			}))
			errs <- err
		}()
	}
	for range 3 {
		fmt.Println(<-errs)
	}
	snap, err := t.State(ctx)
	fmt.Println(snap.State.Paid, err)
	//snippet:end
	// Output:
	// <nil>
	// <nil>
	// <nil>
	// 3 <nil>
}
