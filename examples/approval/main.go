// Approval asks a person before it sends something.
//
// The question is part of the thread: the run ends, and nothing waits in
// memory. The answer resumes the thread, here a moment later; with a store on
// disk it may come months later from another process. The node that asked runs
// again from its beginning, and this time Interrupt returns the answer.
//
//	go run ./examples/approval              # asks on the terminal
//	go run ./examples/approval -answer yes
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// State is a letter on its way out.
type State struct {
	To     string
	Letter string
	Sent   bool
}

func write(_ context.Context, s *State) error {
	s.Letter = "Dear " + s.To + ", we need your report today!"
	return nil
}

func review(ctx context.Context, s *State) (graph.Command, error) {
	approved, err := graph.Interrupt[bool](ctx, "send", s.Letter)
	if err != nil {
		return graph.Command{}, err
	}
	if !approved {
		return graph.Goto("soften"), nil
	}
	return graph.Goto("send"), nil
}

func soften(_ context.Context, s *State) error {
	s.Letter = "Dear " + s.To + ", when could you send your report?"
	return nil
}

func send(_ context.Context, s *State) error {
	s.Sent = true
	return nil
}

func main() {
	given := flag.String("answer", "", "yes or no, instead of asking on the terminal")
	flag.Parse()

	b := graph.New[State]("approval")
	b.AddNode("write", write)
	b.AddCommandNode("review", review, graph.Destinations("soften", "send"))
	b.AddNode("soften", soften)
	b.AddNode("send", send)
	b.AddSequence(graph.Start, "write", "review")
	b.AddSequence("soften", "send", graph.End)
	g, err := b.Compile(graph.WithCheckpointer(checkpoint.NewMemory()))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	t := g.Thread("letter-1")

	snap, err := t.Invoke(ctx, t.Input(func(s *State) error {
		s.To = "Kim"
		return nil
	}))
	if err != nil {
		log.Fatal(err)
	}
	for len(snap.Interrupts) > 0 {
		question := snap.Interrupts[0]
		fmt.Printf("%v\nSend it? [yes/no] ", question.Value)
		snap, err = t.Invoke(ctx, t.Answer(ask(*given) == "yes"))
		if err != nil {
			log.Fatal(err)
		}
	}
	fmt.Printf("sent: %t\n%s\n", snap.State.Sent, snap.State.Letter)
}

// ask returns the answer that was given with the flag, or reads a line.
func ask(given string) string {
	if given != "" {
		fmt.Println(given)
		return given
	}
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil {
		log.Fatal("no answer: ", err)
	}
	return strings.TrimSpace(line)
}
