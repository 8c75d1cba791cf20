// Mapreduce counts the words of several texts: one task for each text, all in
// parallel, and a reducer that adds up what they counted.
//
// AddTask returns a handle whose Send is checked by the compiler: a task can
// only be sent what it takes. How many tasks there are is decided while the
// graph runs.
//
//	go run ./examples/mapreduce
package main

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/superstep-dev/superstep/graph"
)

// State holds the texts and how often each word occurs in them.
type State struct {
	Texts  graph.List[string]
	Counts graph.MergeMap[string, int, sum]
	Top    string
}

// sum merges the counts of one word.
type sum struct{}

func (sum) Reduce(current, update int) int { return current + update }

func count(_ context.Context, s *State, text string) error {
	for word := range strings.FieldsSeq(text) {
		s.Counts.Add(word, 1)
	}
	return nil
}

func top(_ context.Context, s *State) error {
	most := 0
	for word, n := range s.Counts.All() { // in the order of the keys
		if n > most {
			s.Top, most = word, n
		}
	}
	return nil
}

func main() {
	b := graph.New[State]("mapreduce")
	counter := graph.AddTask(b, "count", count)
	b.AddNode("top", top)
	b.AddConditionalEdges(graph.Start, func(_ context.Context, s *State) (graph.Command, error) {
		var sends []graph.Send
		for _, text := range s.Texts.All() {
			sends = append(sends, counter.Send(text))
		}
		return graph.Dispatch(sends...), nil
	}, "count")
	b.AddEdge("count", "top")
	g, err := b.Compile()
	if err != nil {
		log.Fatal(err)
	}

	snap, err := g.Invoke(context.Background(), func(s *State) error {
		s.Texts.Add("the cat and the dog", "the bird", "a cat")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	for word, n := range snap.State.Counts.All() {
		fmt.Println(n, word)
	}
	fmt.Println("most frequent:", snap.State.Top)
}
