// Hello is the smallest useful graph: one typed state, two nodes, one after the
// other.
//
//	go run ./examples/hello
package main

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/superstep-dev/superstep/graph"
)

// State is what the nodes share.
type State struct {
	Name     string
	Greeting string
}

func greet(_ context.Context, s *State) error {
	s.Greeting = "Hello, " + s.Name
	return nil
}

func shout(_ context.Context, s *State) error {
	s.Greeting = strings.ToUpper(s.Greeting) + "!"
	return nil
}

func main() {
	b := graph.New[State]("hello")
	b.AddNode("greet", greet)
	b.AddNode("shout", shout)
	b.AddSequence(graph.Start, "greet", "shout", graph.End)
	g, err := b.Compile()
	if err != nil {
		log.Fatal(err)
	}

	snap, err := g.Invoke(context.Background(), func(s *State) error {
		s.Name = "world"
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(snap.State.Greeting)
	fmt.Println(snap.Step, "supersteps")
}
