// Parallel looks up three things at the same time and waits for all of them.
//
// Several edges out of one place run their targets in parallel, each on its own
// copy of the state. What they write is merged when the superstep ends: lists
// are concatenated in the order in which the nodes were declared, sums are
// added, whichever node finishes first. A join waits for all of its sources,
// here for the two branches of different length.
//
//	go run ./examples/parallel
package main

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/graph"
)

// State collects what the branches found.
type State struct {
	City  string
	Facts graph.List[string]
	Price graph.Sum[int]
	Plan  string
}

func flight(_ context.Context, s *State) error {
	time.Sleep(20 * time.Millisecond) // the slowest comes first in the list all the same
	s.Facts.Add("flight to " + s.City)
	s.Price.Add(120)
	return nil
}

func hotel(_ context.Context, s *State) error {
	s.Facts.Add("hotel in " + s.City)
	s.Price.Add(200)
	return nil
}

func transfer(_ context.Context, s *State) error {
	s.Facts.Add("bus to the hotel")
	s.Price.Add(15)
	return nil
}

func plan(_ context.Context, s *State) error {
	s.Plan = fmt.Sprintf("%s: %d", strings.Join(s.Facts.Slice(), ", "), s.Price.Get())
	return nil
}

func main() {
	b := graph.New[State]("parallel")
	b.AddNode("flight", flight)
	b.AddNode("hotel", hotel)
	b.AddNode("transfer", transfer)
	b.AddNode("plan", plan)
	b.AddEdge(graph.Start, "flight")
	b.AddEdge(graph.Start, "hotel")
	b.AddEdge("hotel", "transfer")
	b.AddJoin([]string{"flight", "transfer"}, "plan")
	g, err := b.Compile()
	if err != nil {
		log.Fatal(err)
	}

	fmt.Println(g)
	snap, err := g.Invoke(context.Background(), func(s *State) error {
		s.City = "Oslo"
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(snap.State.Plan)
	fmt.Println("last nodes:", snap.Recent)
}
