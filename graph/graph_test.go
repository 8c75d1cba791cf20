package graph_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

type jokes struct {
	Topic    string
	Approved bool
	Jokes    graph.List[string]
	Score    graph.Sum[int]
}

func buildJokes(t testing.TB, opts ...graph.Option) *graph.Graph[jokes] {
	b := graph.New[jokes]("jokes")
	b.AddNode("write", func(ctx context.Context, s *jokes) error {
		s.Jokes.Add("Why did the " + s.Topic + " cross the road?")
		return nil
	})
	b.AddNode("review", func(ctx context.Context, s *jokes) error {
		ok, err := graph.Interrupt[bool](ctx, "review", s.Jokes.Last())
		if err != nil {
			return err
		}
		s.Approved = ok
		return nil
	})
	b.AddEdge(graph.Start, "write")
	b.AddEdge("write", "review")
	b.AddConditionalEdges("review", func(ctx context.Context, s *jokes) (graph.Command, error) {
		if s.Approved {
			return graph.Goto(graph.End), nil
		}
		return graph.Goto("write"), nil
	}, "write", graph.End)
	g, err := b.Compile(opts...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestDesignProgram(t *testing.T) {
	ctx := context.Background()
	g := buildJokes(t, graph.WithCheckpointer(checkpoint.NewMemory()))
	snap, err := g.Invoke(ctx, func(s *jokes) { s.Topic = "cats" }, graph.Thread("t-1"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("%+v\n", snap)
	snap, err = g.Resume(ctx, false, graph.Thread("t-1"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("%+v\n", snap)
	snap, err = g.Resume(ctx, true, graph.Thread("t-1"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("%+v\n", snap)
	if !snap.State.Approved || !snap.Done() || snap.State.Jokes.Len() != 2 {
		t.Fatal(snap)
	}
	fmt.Println(g)
	for e, err := range g.History(ctx, graph.Thread("t-1")) {
		fmt.Println(e.Checkpoint, e.Step, e.Source, e.Nodes, e.Next, err)
	}
}

func BenchmarkStep(b *testing.B) {
	for _, c := range []struct {
		name string
		opts []graph.Option
	}{{"none", nil}, {"memory", []graph.Option{graph.WithCheckpointer(checkpoint.NewMemory()), graph.Thread("b")}}} {
		b.Run(c.name, func(b *testing.B) {
			type S struct{ N int }
			n := b.N
			bl := graph.New[S]("loop")
			bl.AddNode("a", func(ctx context.Context, s *S) error { s.N++; return nil })
			bl.AddEdge(graph.Start, "a")
			bl.AddConditionalEdges("a", func(ctx context.Context, s *S) (graph.Command, error) {
				if s.N%1000000 >= n {
					return graph.Goto(graph.End), nil
				}
				return graph.Goto("a"), nil
			}, "a", graph.End)
			_ = bl
			b2 := graph.New[S]("loop")
			b2.AddNode("a", func(ctx context.Context, s *S) error { s.N++; return nil })
			b2.AddNode("b", func(ctx context.Context, s *S) error { s.N++; return nil })
			b2.AddEdge(graph.Start, "a").AddEdge("a", "b").AddEdge("b", "a")
			g := b2.MustCompile(c.opts...)
			b.ReportAllocs()
			b.ResetTimer()
			_, err := g.Invoke(context.Background(), func(s *S) { s.N = 1 }, graph.MaxSteps(n))
			b.StopTimer()
			if err == nil {
				b.Fatal("expected limit")
			}
		})
	}
}
