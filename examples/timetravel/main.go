// Timetravel looks at a thread's past and takes another way from there.
//
// Every superstep leaves a checkpoint. History lists them; State shows the state
// at one of them; a run From one starts a branch, and the old one stays. A fork
// with an edit answers the question: what if?
//
//	go run ./examples/timetravel
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// State is a price on its way through the shop.
type State struct {
	Price float64
	Note  graph.List[string]
}

func step(name string, change func(price float64) float64) func(context.Context, *State) error {
	return func(_ context.Context, s *State) error {
		s.Price = change(s.Price)
		s.Note.Add(fmt.Sprintf("%s %.2f", name, s.Price))
		return nil
	}
}

func main() {
	b := graph.New[State]("timetravel")
	b.AddNode("discount", step("discount", func(p float64) float64 { return p * 0.8 }))
	b.AddNode("shipping", step("shipping", func(p float64) float64 { return p + 5 }))
	b.AddNode("tax", step("tax", func(p float64) float64 { return p * 1.25 }))
	b.AddSequence(graph.Start, "discount", "shipping", "tax")
	g, err := b.Compile(graph.WithCheckpointer(checkpoint.NewMemory()))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	t := g.Thread("order-1")

	end, err := t.Invoke(ctx, t.Input(func(s *State) error {
		s.Price = 100
		return nil
	}))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("first line:  %v\n\nhistory, newest first:\n", end.State.Note)

	var discounted string // the checkpoint after the discount
	for entry, err := range t.History(ctx, graph.HistoryQuery{}) {
		if err != nil {
			log.Fatal(err)
		}
		state, err := entry.State(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("  step %d  %-5s  ran %-10s  next %-10s  price %.2f\n",
			entry.Step, entry.Source, fmt.Sprint(entry.Nodes), fmt.Sprint(entry.Next), state.Price)
		if entry.Step == 1 {
			discounted = entry.Checkpoint
		}
	}

	// What if the price after the discount had been 50?
	_, err = t.At(discounted).Edit(ctx, func(s *State) error {
		s.Price = 50
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	branch, err := t.Invoke(ctx, t.Continue())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("\nother line:  %v\n", branch.State.Note)

	old, err := t.At(end.Checkpoint).State(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("still there: %v\n", old.State.Note)
}
