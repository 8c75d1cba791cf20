// Retrieval answers a question from a handful of documents. When nothing is
// found, it rewrites the question and tries once more.
//
//	go run ./examples/retrieval
package main

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/superstep-dev/superstep/graph"
)

var documents = []string{
	"A superstep runs every due node in parallel.",
	"A checkpoint is stored after every superstep.",
	"A thread is a log of checkpoints.",
}

var synonyms = map[string]string{"snapshot": "checkpoint", "conversation": "thread"}

// State is a question on its way to an answer.
type State struct {
	Question string
	Tries    int
	Found    graph.Value[[]string] // replaced as a whole at each try
	Answer   string
}

func retrieve(_ context.Context, s *State) error {
	var found []string
	for _, d := range documents {
		for term := range strings.FieldsSeq(s.Question) {
			if strings.Contains(strings.ToLower(d), term) {
				found = append(found, d)
				break
			}
		}
	}
	s.Found.Set(found)
	s.Tries++
	return nil
}

func grade(_ context.Context, s *State) (string, error) {
	if len(s.Found.Get()) == 0 && s.Tries < 2 {
		return "nothing found", nil
	}
	return "good enough", nil
}

func rewrite(_ context.Context, s *State) error {
	for word, better := range synonyms {
		s.Question = strings.ReplaceAll(s.Question, word, better)
	}
	return nil
}

func answer(_ context.Context, s *State) error {
	s.Answer = "I don't know."
	if found := s.Found.Get(); len(found) > 0 {
		s.Answer = found[0]
	}
	return nil
}

func main() {
	b := graph.New[State]("retrieval")
	b.AddNode("retrieve", retrieve)
	b.AddNode("rewrite", rewrite)
	b.AddNode("answer", answer)
	b.AddEdge(graph.Start, "retrieve")
	b.AddRoutes("retrieve", grade, map[string]string{"nothing found": "rewrite", "good enough": "answer"})
	b.AddEdge("rewrite", "retrieve")
	g, err := b.Compile()
	if err != nil {
		log.Fatal(err)
	}

	for _, question := range []string{"superstep", "snapshot", "weather"} {
		snap, err := g.Invoke(context.Background(), func(s *State) error {
			s.Question = question
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s? %s\n  %s\n", question, snap.State.Answer, strings.Join(snap.Recent, " -> "))
	}
}
