// Loop improves a guess until it is good enough, and shows what happens when it
// never is.
//
// A cycle is an ordinary edge back. Every run has a limit of supersteps, 100
// unless MaxSteps says otherwise; reaching it is an error that comes together
// with the state as it then is.
//
//	go run ./examples/loop
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"

	"github.com/superstep-dev/superstep/graph"
)

// State is a square root on its way.
type State struct {
	Of    float64
	Guess float64
}

func improve(_ context.Context, s *State) error {
	s.Guess = (s.Guess + s.Of/s.Guess) / 2
	return nil
}

// again is the router: it decides what follows improve.
func again(_ context.Context, s *State) (graph.Command, error) {
	if math.Abs(s.Guess*s.Guess-s.Of) < 1e-6 {
		return graph.Goto(graph.End), nil
	}
	return graph.Goto("improve"), nil
}

func main() {
	b := graph.New[State]("loop")
	b.AddNode("improve", improve)
	b.AddEdge(graph.Start, "improve")
	b.AddConditionalEdges("improve", again, "improve", graph.End)
	g, err := b.Compile()
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()

	start := func(guess float64) func(*State) error {
		return func(s *State) error {
			s.Of, s.Guess = 2, guess
			return nil
		}
	}

	snap, err := g.Invoke(ctx, start(1))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.6f after %d steps\n", snap.State.Guess, snap.Step)

	snap, err = g.Invoke(ctx, start(1e9), graph.MaxSteps(5))
	if limit, ok := errors.AsType[*graph.LimitError](err); ok {
		fmt.Println("gave up:", limit)
		fmt.Printf("%.1f after %d steps\n", snap.State.Guess, snap.Step)
	}
}
