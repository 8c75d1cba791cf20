// Counter remembers, from one process to the next, what it was told: each run
// is another turn of the thread, on the state that the last one left.
//
//	go run ./examples/counter -db /tmp/counter.db -add 2
//	go run ./examples/counter -db /tmp/counter.db -add 40
package main

import (
	"context"
	"flag"
	"fmt"
	"log"

	"github.com/superstep-dev/superstep/checkpoint/sqlite"
	"github.com/superstep-dev/superstep/graph"
)

// State is the counter.
type State struct {
	Add   int // of this turn
	Total graph.Sum[int]
	Turns graph.List[int]
}

func count(_ context.Context, s *State) error {
	s.Total.Add(s.Add)
	s.Turns.Add(s.Add)
	return nil
}

func main() {
	path := flag.String("db", "counter.db", "SQLite database")
	thread := flag.String("thread", "default", "thread to go on with")
	add := flag.Int("add", 1, "number to add")
	flag.Parse()

	store, err := sqlite.Open(*path)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	b := graph.New[State]("counter")
	b.AddNode("count", count)
	b.AddEdge(graph.Start, "count")
	g, err := b.Compile(graph.WithCheckpointer(store))
	if err != nil {
		log.Fatal(err)
	}

	t := g.Thread(*thread)
	snap, err := t.Invoke(context.Background(), t.Input(func(s *State) error {
		s.Add = *add
		return nil
	}))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("turn", snap.Step)
	fmt.Println("added", snap.State.Turns)
	fmt.Println("total", snap.State.Total)
}
