// Recovery deals with failures in three ways: it tries again, it falls back to
// a recovery node, and it continues a thread that failed.
//
// A failed node's writes are discarded. What other nodes finished is recorded,
// so continuing the thread runs only what is missing.
//
//	go run ./examples/recovery
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// State is a report.
type State struct {
	Rate   float64
	Source string
	Report string
	Errors graph.List[string]
}

var (
	errBusy = errors.New("service is busy")
	errDisk = errors.New("disk is full")
)

// fetch succeeds at the second attempt, and never if the service is down.
func fetch(down bool) func(context.Context, *State) error {
	return func(ctx context.Context, s *State) error {
		attempt := graph.Info(ctx).Attempt
		fmt.Println("  fetch, attempt", attempt)
		if down || attempt < 2 {
			return errBusy
		}
		s.Rate, s.Source = 1.08, "service"
		return nil
	}
}

// giveUp takes over when all attempts of fetch have failed.
func giveUp(_ context.Context, s *State, err *graph.NodeError) (graph.Command, error) {
	s.Errors.Add(err.Error())
	return graph.Goto("recover"), nil
}

func recoverRate(_ context.Context, s *State) error {
	s.Rate, s.Source = 1.1, "yesterday's table"
	return nil
}

var diskFull = true

func report(_ context.Context, s *State) error {
	if diskFull {
		return errDisk
	}
	s.Report = fmt.Sprintf("rate %.2f from %s", s.Rate, s.Source)
	return nil
}

func build(down bool) (*graph.Graph[State], error) {
	b := graph.New[State]("recovery")
	b.AddNode("fetch", fetch(down),
		graph.Retry(graph.RetryPolicy{
			MaxAttempts: 3,
			Initial:     time.Millisecond,
			If:          func(err error) bool { return errors.Is(err, errBusy) },
		}),
		graph.OnError(giveUp),
		graph.Destinations("recover"))
	b.AddNode("recover", recoverRate)
	b.AddNode("report", report)
	b.AddSequence(graph.Start, "fetch", "report")
	b.AddEdge("recover", "report")
	return b.Compile(graph.WithCheckpointer(checkpoint.NewMemory()))
}

func main() {
	ctx := context.Background()
	for _, down := range []bool{false, true} {
		g, err := build(down)
		if err != nil {
			log.Fatal(err)
		}
		t := g.Thread("report-1")
		fmt.Println("service is down:", down)

		diskFull = true
		snap, err := t.Invoke(ctx, t.Input(func(*State) error { return nil }))
		fmt.Println("  failed:", err)
		fmt.Println("  next:", snap.Next)

		diskFull = false
		snap, err = t.Invoke(ctx, t.Continue()) // fetch does not run again
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(" ", snap.State.Report)
		for _, e := range snap.State.Errors.All() {
			fmt.Println("  handled:", e)
		}
	}
}
