package graph_test

import (
	"context"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// Where each task led is recorded: a replay that takes it needs not guess it from
// what was planned.
func TestWhereEachTaskLedIsRecorded(t *testing.T) {
	var w graph.Task[int]
	for name, lead := range map[string]func(s *trail) graph.Command{
		"to a stop":      func(*trail) graph.Command { return graph.EndRun() },
		"to the end":     func(*trail) graph.Command { return graph.Goto(graph.End) },
		"beside a stop":  func(*trail) graph.Command { return graph.Dispatch(w.Send(7)) },
		"along":          func(*trail) graph.Command { return graph.Command{} },
		"where b leads":  func(*trail) graph.Command { return graph.Goto("c") },
		"to many places": func(*trail) graph.Command { return graph.Goto("c", "b").And(graph.Dispatch(w.Send(1), w.Send(2))) },
	} {
		t.Run(name, func(t *testing.T) {
			build := func(taken bool, opts ...graph.Option) *graph.Graph[trail] {
				b := graph.New[trail]("g")
				b.AddCommandNode("a", func(_ context.Context, s *trail) (graph.Command, error) {
					if taken {
						t.Error("a node runs whose record stands for it")
					}
					if s.Ran.Len() > 0 {
						return graph.EndRun(), nil
					}
					return lead(s), nil
				})
				b.AddCommandNode("b", func(_ context.Context, s *trail) (graph.Command, error) {
					s.Ran.Add("b")
					if name == "beside a stop" {
						return graph.EndRun(), nil
					}
					return graph.Goto("c").And(graph.Dispatch(w.Send(s.Ran.Len() + 10))), nil
				}, graph.Destinations("c", "w"))
				w = graph.AddCommandTask(b, "w", func(_ context.Context, s *trail, n int) (graph.Command, error) {
					s.Total.Add(n)
					if n == 2 {
						return graph.Goto("c"), nil
					}
					return graph.Dispatch(), nil
				}, graph.Destinations("c"))
				b.AddNode("c", func(_ context.Context, s *trail) error { s.Ran.Add("c"); return nil })
				b.AddEdge(graph.Start, "a").AddEdge(graph.Start, "b").AddEdge("a", "c")
				return compile(t, b, append(opts, graph.MaxSteps(5))...)
			}
			store := checkpoint.NewMemory()
			_, _ = build(false, graph.WithCheckpointer(store)).Thread("t").Invoke(bg, graph.Requests[trail]{}.Input(func(*trail) error { return nil }))
			rec := taped(t, store, "t")
			same(t, build(false), rec)
			same(t, build(true), rec, graph.ReplayOptions{TakeRecorded: []string{"a", "w"}})
		})
	}
}
