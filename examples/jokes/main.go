// Jokes is the program of the README.
//
//	go run ./examples/jokes
package main

import (
	"context"
	"fmt"

	"github.com/superstep-dev/superstep/graph"
)

type State struct {
	Topic string             // a plain field: parallel writes of different values are an error
	Jokes graph.List[string] // a merging field: parallel writes are concatenated
}

func main() {
	b := graph.New[State]("jokes")
	b.AddNode("write", func(ctx context.Context, s *State) error {
		s.Jokes.Add("Why did the " + s.Topic + " cross the road?")
		return nil // commits what was written; an error discards it
	})
	b.AddEdge(graph.Start, "write")
	g := b.MustCompile()
	snap, err := g.Invoke(context.Background(), func(s *State) error {
		s.Topic = "cats"
		return nil
	})
	fmt.Println(snap.State.Jokes.Last(), err)
}
