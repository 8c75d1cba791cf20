package graph_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// The workloads of bench/, without other engines beside: what docs/performance.md says
// of them is measured there.

type tally struct{ N int }

func add(_ context.Context, s *tally) error {
	s.N++
	return nil
}

// counting counts to a number, with a router after each step.
func counting(b testing.TB, to int, opts ...graph.Option) *graph.Graph[tally] {
	g, err := graph.New[tally]("ring").AddNode("count", add).AddEdge(graph.Start, "count").
		AddConditionalEdges("count", func(_ context.Context, s *tally) (graph.Command, error) {
			if s.N < to {
				return graph.Goto("count"), nil
			}
			return graph.Goto(graph.End), nil
		}, "count", graph.End).Compile(append(opts, graph.MaxSteps(to+1))...)
	if err != nil {
		b.Fatal(err)
	}
	return g
}

func runTally(b testing.TB, g *graph.Graph[tally], want int, thread string) {
	t := g.Thread(thread)
	snap, err := t.Invoke(bg, t.Input(func(s *tally) error { s.N = 0; return nil }))
	if err != nil || snap.State.N != want {
		b.Fatal(snap.State.N, err)
	}
}

func BenchmarkLoopWithARouter(b *testing.B) {
	b.ReportAllocs()
	g := counting(b, 1000)
	for b.Loop() {
		runTally(b, g, 1000, "")
	}
}

func BenchmarkChainOfTen(b *testing.B) {
	b.ReportAllocs()
	builder, before := graph.New[tally]("chain"), graph.Start
	for i := range 10 {
		name := fmt.Sprint("node", i)
		builder.AddNode(name, add).AddEdge(before, name)
		before = name
	}
	g := builder.MustCompile()
	for b.Loop() {
		runTally(b, g, 10, "")
	}
}

func BenchmarkTenStepsOnANewThread(b *testing.B) {
	b.ReportAllocs()
	g, i := counting(b, 10, graph.WithCheckpointer(checkpoint.NewMemory())), 0
	for b.Loop() {
		runTally(b, g, 10, strconv.Itoa(i))
		i++
	}
}

type talk struct{ Messages graph.List[string] }

// A turn reads the thread, adds a message and an answer, and stores both.
func BenchmarkTurn(b *testing.B) {
	b.ReportAllocs()
	builder := graph.New[talk]("talk")
	builder.AddNode("answer", func(_ context.Context, s *talk) error {
		s.Messages.Add("an answer")
		return nil
	}).AddEdge(graph.Start, "answer")
	g := builder.MustCompile(graph.WithCheckpointer(checkpoint.NewMemory()))
	i := 0
	for b.Loop() {
		t := g.Thread(strconv.Itoa(i / 100)) // a hundred turns each
		if _, err := t.Invoke(bg, t.Input(func(s *talk) error {
			s.Messages.Add("a question")
			return nil
		})); err != nil {
			b.Fatal(err)
		}
		i++
	}
}
