// Streaming shows a run as it happens: parts of a message as a node writes it,
// the node's own progress reports, and what each superstep changed.
//
// Stream is an iterator. Breaking out of the loop cancels the run; a consumer
// that is slow makes the run wait.
//
//	go run ./examples/streaming
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/superstep-dev/superstep/graph"
)

// State is a question and its answer.
type State struct {
	Question string
	Sources  graph.List[string]
	Answer   string
}

func search(ctx context.Context, s *State) error {
	for _, source := range []string{"almanac", "atlas"} {
		if err := graph.Emit(ctx, "searched the "+source); err != nil {
			return err
		}
		s.Sources.Add(source)
	}
	return nil
}

func answer(ctx context.Context, s *State) error {
	for _, token := range []string{"It ", "is ", "42."} {
		if err := graph.EmitMessage(ctx, token); err != nil {
			return err
		}
		s.Answer += token
	}
	return nil
}

func main() {
	b := graph.New[State]("streaming")
	b.AddNode("search", search)
	b.AddNode("answer", answer)
	b.AddSequence(graph.Start, "search", "answer")
	g, err := b.Compile()
	if err != nil {
		log.Fatal(err)
	}

	ask := func(s *State) error {
		s.Question = "What is it?"
		return nil
	}
	modes := graph.Modes(graph.ModeValues, graph.ModeUpdates, graph.ModeCustom, graph.ModeMessages)
	for ev, err := range g.Stream(context.Background(), ask, modes) {
		if err != nil {
			log.Fatal(err)
		}
		switch ev.Type {
		case graph.EventValues:
			state, _ := graph.StateOf[State](ev)
			fmt.Printf("%-9s step %d, next %v, answer %q\n", ev.Type, ev.Step, ev.Next, state.Answer)
		case graph.EventUpdate:
			fmt.Printf("%-9s %s wrote %s\n", ev.Type, ev.Node, ev.Update)
		default:
			fmt.Printf("%-9s %s sent %q\n", ev.Type, ev.Node, ev.Value)
		}
	}
}
