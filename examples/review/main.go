// Review lets a model look at a text first, and a person at what is left:
//
//	check -> reject                                   the model finds it unfit
//	      -> human -> publish or reject
//
// The model's verdict is a Go type: it answers in JSON that follows the type's
// schema, and an answer that doesn't is an error of the node, not a surprise
// further on.
//
//	go run ./examples/review -text "Our office moves to Bern." -answer approve
//	go run ./examples/review -text "Free money for everyone!"
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/examples/internal/demo"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
)

// State is a text on its way to the newsletter.
type State struct {
	agent.State
	Text   string
	Status string // approved or rejected
	By     string // who decided
}

// verdict is what the model says about a text.
type verdict struct {
	Fit    bool   `json:"fit" jsonschema:"whether an editor should look at it at all"`
	Reason string `json:"reason" jsonschema:"one sentence"`
}

// route sends a text that is unfit back without bothering anyone.
func route(_ context.Context, s *State) (string, error) {
	v, err := agent.Structured[verdict](&s.State)
	if v.Fit {
		return "fit", err
	}
	return "unfit", err
}

func human(ctx context.Context, s *State) error {
	v, err := agent.Structured[verdict](&s.State)
	if err != nil {
		return err
	}
	answer, err := graph.Interrupt[string](ctx, "review", fmt.Sprintf("%q (%s)", s.Text, v.Reason),
		graph.AnswerSchema([]byte(`{"enum": ["approve", "reject"]}`))) // another answer is refused, and the question stays open
	if err != nil {
		return err
	}
	s.Status, s.By = map[string]string{"approve": "approved", "reject": "rejected"}[answer], "the editor"
	return nil
}

func reject(_ context.Context, s *State) error {
	s.Status, s.By = "rejected", "the model"
	return nil
}

func main() {
	text := flag.String("text", "Our office moves to Bern.", "what to publish")
	given := flag.String("answer", "", "approve or reject, instead of asking on the terminal")
	flag.Parse()

	schema, err := model.OutputOf[verdict]()
	if err != nil {
		log.Fatal(err)
	}
	b := graph.New[State]("review")
	agent.AddLLM(b, "check", agent.LLM[State]{
		Model: demo.Model(
			scripted.Text(`{"fit": false, "reason": "It promises free money."}`).When(scripted.Says("Free money")),
			scripted.Text(`{"fit": true, "reason": "It is plain news."}`),
		),
		Instruction: "You read what is sent in for a newsletter. Advertisements and fraud are unfit.",
		Output:      schema,
	})
	b.AddNode("human", human)
	b.AddNode("reject", reject)
	b.AddEdge(graph.Start, "check")
	b.AddRoutes("check", route, map[string]string{"fit": "human", "unfit": "reject"})
	g, err := b.Compile(graph.WithCheckpointer(checkpoint.NewMemory()))
	if err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	t := g.Thread("newsletter")
	snap, err := t.Invoke(ctx, t.Input(func(s *State) error {
		s.Text, s.UserInput = *text, *text
		return nil
	}))
	if err == nil && len(snap.Interrupts) > 0 {
		fmt.Printf("%v\nPublish it? [approve/reject] ", snap.Interrupts[0].Value)
		snap, err = t.Invoke(ctx, t.Answer(ask(*given)))
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s by %s: %q\n", snap.State.Status, snap.State.By, snap.State.Text)
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
