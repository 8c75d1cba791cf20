package snippets_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/fleet"
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

// Batch is what a node collects from other threads.
type Batch struct {
	Customers graph.Value[[]string]
	Paid      graph.Sum[int]
}

// collect spawns an invoice for each customer and waits for all of them.
func collect(invoices *graph.Graph[Invoice]) func(context.Context, *Batch) error {
	return func(ctx context.Context, s *Batch) error {
		var all []*graph.Spawned[Invoice]
		for _, customer := range s.Customers.Get() {
			one, err := graph.Spawn(ctx, customer, invoices.Thread("invoice-"+customer), invoices.Input(func(i *Invoice) error {
				i.Customer = customer
				return nil
			}))
			if err != nil {
				return err
			}
			all = append(all, one)
		}
		var errs []error
		for _, one := range all {
			i, err := one.Wait(ctx)
			if errs = append(errs, err); err == nil {
				s.Paid.Add(i.Paid)
			}
		}
		return errors.Join(errs...) // the first time: the thread is parked here
	}
}

func Example_spawn() {
	ctx := context.Background()
	store := checkpoint.NewMemory()
	invoices := compileInvoice(store, awaitPayment)
	b := graph.New[Batch]("batch").AddNode("collect", collect(invoices)).AddEdge(graph.Start, "collect")
	g := b.MustCompile(graph.WithCheckpointer(store))

	t := g.Thread("b-1")
	snap, err := t.Invoke(ctx, t.Input(func(s *Batch) error {
		s.Customers.Set([]string{"kim", "lee"})
		return nil
	}))
	fmt.Println(len(snap.Waits), snap.Waits[0].Thread, err)

	err = errors.Join(
		invoices.Thread("invoice-kim").SendEvent(ctx, "payment", 1250),
		invoices.Thread("invoice-lee").SendEvent(ctx, "payment", 800))
	runner, err2 := graph.NewRunner(store, graph.RunnerOptions{}, g, invoices)
	for range 3 { // Run does so until its context ends
		err2 = errors.Join(err2, runner.Sweep(ctx))
	}
	snap, err3 := t.State(ctx)
	fmt.Println(snap.State.Paid, errors.Join(err, err2, err3))
	// Output:
	// 2 invoice-kim <nil>
	// 2050 <nil>
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

// serve runs the threads of a store until ctx ends, such as one of
// signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM).
func serve(ctx context.Context, store checkpoint.Store, g *graph.Graph[Invoice]) error {
	runner, err := graph.NewRunner(store, graph.RunnerOptions{
		Options: []graph.RunOption{graph.Drain(ctx.Done())}, // supersteps that are at work come to their end,
	}, g)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	context.AfterFunc(ctx, func() { time.AfterFunc(20*time.Second, stop) }) // which has a limit
	return runner.Run(running)
}

func Example_serve() {
	store := checkpoint.NewMemory()
	ctx, terminate := context.WithCancel(ctx)
	g := compileInvoice(store, func(ctx context.Context, s *Invoice) error {
		if err := graph.Sleep(ctx, "moment", time.Millisecond); err != nil {
			return err
		}
		terminate() // in the middle of the work
		s.Outcome = "paid"
		return ctx.Err()
	})
	t := g.Thread("i-1")
	_, err := t.Invoke(ctx, t.Input(func(*Invoice) error { return nil }))
	fmt.Println(err)
	fmt.Println(serve(ctx, store, g))
	snap, err := t.State(context.WithoutCancel(ctx))
	fmt.Println(snap.State.Outcome, err)
	// Output:
	// <nil>
	// run was drained: it stopped at a superstep's end and can be continued
	// paid <nil>
}

// left returns the threads of a graph that could go on, and that nobody is at: their calls
// were cancelled, were drained, or failed.
func left(ctx context.Context, store checkpoint.Lister, g *graph.Graph[Invoice]) (ids []string, err error) {
	for info, err := range store.Threads(ctx, checkpoint.ThreadFilter{}) {
		if err != nil {
			return nil, err
		}
		if info.Head.Graph != g.Name() || info.Lease.Live(time.Now()) {
			continue
		}
		snap, err := g.Thread(string(info.Thread)).State(ctx)
		if err != nil {
			return nil, err
		}
		if !snap.Done() && len(snap.Interrupts)+len(snap.Waits) == 0 {
			ids = append(ids, snap.Thread)
		}
	}
	return ids, nil
}

func Example_left() {
	store := checkpoint.NewMemory()
	call, terminate := context.WithCancel(ctx)
	g := compileInvoice(store, func(ctx context.Context, s *Invoice) error {
		terminate() // the first time in the middle of the work
		s.Outcome = "paid"
		return ctx.Err()
	})
	t := g.Thread("i-1")
	_, err := t.Invoke(call, t.Input(func(*Invoice) error { return nil }))
	fmt.Println(errors.Is(err, context.Canceled))
	runner, err := graph.NewRunner(store, graph.RunnerOptions{}, g)
	if err == nil {
		err = runner.Sweep(ctx)
	}
	//snippet:continue
	ids, err2 := left(ctx, store, g)
	for _, id := range ids {
		t := g.Thread(id)
		err2 = errors.Join(err2, fleet.Submit(ctx, t, t.Continue()))
	}
	//snippet:end
	fmt.Println(ids, errors.Join(err, err2, runner.Sweep(ctx)))
	snap, err := t.State(ctx)
	fmt.Println(snap.State.Outcome, err)
	// Output:
	// true
	// [i-1] <nil>
	// paid <nil>
}

func Example_recover() {
	store := checkpoint.NewMemory()
	g := compileInvoice(store, thank)
	//snippet:recover
	runner, err := graph.NewRunner(store, graph.RunnerOptions{}, g)
	if err == nil {
		err = runner.Sweep(ctx)
	}
	fmt.Println(err)
	//snippet:end
	// Output: <nil>
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
