// Reminder waits: for an event, for a time, and for both at once. A thread that
// waits is a few rows in a database: no goroutine, no timer, no process. Any
// process that runs a Runner over the database wakes it.
//
// An invoice is sent, and paid or not. Every other day there is a reminder, and
// after the third the matter goes to a lawyer. (Days are fractions of a second
// here.)
//
//	go run ./examples/reminder -db /tmp/invoices.db            # nobody pays
//	go run ./examples/reminder -db /tmp/invoices.db -paid 2    # after two reminders
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
	"github.com/superstep-dev/superstep/graph"
)

const day = 150 * time.Millisecond

// State is an invoice.
type State struct {
	Customer  string
	Reminders int
	Paid      int // cents
	Outcome   string
}

// await waits for the payment, but not for ever.
func await(ctx context.Context, s *State) (graph.Command, error) {
	paid, err := graph.WaitFor[int](ctx, "", "payment", graph.Deadline(2*day))
	var late *graph.DeadlineError
	switch {
	case err == nil:
		s.Paid, s.Outcome = paid, "paid"
		return graph.Goto("thank"), nil
	case !errors.As(err, &late):
		return graph.Command{}, err // the thread is parked here
	case s.Reminders == 3:
		s.Outcome = "with a lawyer"
		return graph.EndRun(), nil
	}
	return graph.Goto("remind"), nil
}

func remind(_ context.Context, s *State) error {
	s.Reminders++
	return nil
}

// thank waits a day before it writes: nobody likes to be thanked in a hurry.
func thank(ctx context.Context, s *State) error {
	if err := graph.Sleep(ctx, "decency", day); err != nil {
		return err
	}
	s.Outcome += ", thanked"
	return nil
}

func main() {
	db := flag.String("db", "invoices.db", "database")
	paid := flag.Int("paid", -1, "pay after so many reminders")
	flag.Parse()
	store, err := sqlite.Open(*db)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	b := graph.New[State]("invoice")
	b.AddCommandNode("await", await, graph.Destinations("remind", "thank"))
	b.AddNode("remind", remind)
	b.AddNode("thank", thank)
	b.AddEdge(graph.Start, "await").AddEdge("remind", "await")
	g, err := b.Compile(graph.WithCheckpointer(store))
	if err != nil {
		log.Fatal(err)
	}

	t := g.Thread(string(checkpoint.NewRunID()))
	ctx, stop := context.WithCancel(context.Background())
	snap, err := t.Invoke(ctx, t.Input(func(s *State) error {
		s.Customer = "Kim"
		return nil
	}))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("waiting for %q: the run is over, the thread is parked\n", snap.Waits[0].Event)

	// What follows could be another process, a year later.
	runner, err := graph.NewRunner(store, graph.RunnerOptions{Poll: day / 2}, g)
	if err != nil {
		log.Fatal(err)
	}
	over := make(chan error)
	go func() { over <- runner.Run(ctx) }()
	for sent := false; !snap.Done(); time.Sleep(day / 5) {
		if snap, err = t.State(ctx); err != nil {
			log.Fatal(err)
		}
		if !sent && *paid >= 0 && snap.State.Reminders >= *paid {
			sent = true
			if err := t.SendEvent(ctx, "payment", 1250); err != nil {
				log.Fatal(err)
			}
		}
	}
	stop()
	<-over
	fmt.Printf("%s after %d reminders\n", snap.State.Outcome, snap.State.Reminders)
}
