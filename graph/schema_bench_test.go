package graph_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// BenchmarkSchemaStep measures a superstep of a node that adds to a counter, in
// a state with so many fields.
func BenchmarkSchemaStep(b *testing.B) {
	for _, fields := range []int{1, 10, 100} {
		for _, what := range []string{"map", "reads", "lazy", "stored"} {
			b.Run(fmt.Sprintf("fields=%d/%s", fields, what), func(b *testing.B) {
				s := guide()
				for i := range fields {
					s.AddField(fmt.Sprint("f", i), graph.FieldOf(strings.Repeat("x", 20), nil))
				}
				stepBench(b, s, what)
			})
		}
	}
	for _, what := range []string{"map", "reads", "lazy", "stored"} {
		b.Run("list=10000/"+what, func(b *testing.B) {
			items := strings.Split(strings.Repeat("item ", 10000), " ")
			stepBench(b, guide().AddField("list", graph.FieldOf(items, graph.AppendReducer)), what)
		})
	}
}

func stepBench(b *testing.B, s *graph.Schema, what string) {
	sb := graph.NewSchemaGraph("g", s.AddField("stop", graph.Field{Type: reflect.TypeFor[int]()}))
	var opts []graph.NodeOption
	if what == "reads" {
		opts = append(opts, graph.Reads("counter"))
	}
	left := 0
	next := func() graph.Command {
		if left--; left <= 0 {
			return graph.EndRun()
		}
		return graph.Goto("a")
	}
	if what == "lazy" {
		sb.AddCommandNode("a", func(_ context.Context, s *graph.SchemaState) (graph.Command, error) {
			return next(), graph.MapState{"counter": 1}.Into(s)
		})
	} else {
		graph.AddMapNode(sb, "a", func(_ context.Context, s graph.MapState) (any, error) {
			return &graph.MapCommand{Update: graph.MapState{"counter": 1}, Goto: next()}, nil
		}, opts...)
	}
	o := []graph.Option{graph.MaxSteps(1 << 40)}
	if what == "stored" {
		o = append(o, graph.WithCheckpointer(checkpoint.NewMemory()))
	}
	g := compileSchema(b, sb.SetEntryPoint("a"), o...)
	b.ReportAllocs()
	left = b.N
	b.ResetTimer()
	if _, err := g.Thread("t").Invoke(bg, g.Input(graph.MapState{}.Into)); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkSchemaFanOut measures one of many parallel tasks that a list of
// commands starts.
func BenchmarkSchemaFanOut(b *testing.B) {
	for _, n := range []int{100, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			sb := graph.NewSchemaGraph("g", guide().AddField("param", graph.Field{Type: reflect.TypeFor[int]()}))
			graph.AddMapNode(sb, "spread", func(context.Context, graph.MapState) (any, error) {
				list := make([]*graph.MapCommand, n)
				for i := range list {
					list[i] = &graph.MapCommand{Update: graph.MapState{"param": i}, Goto: graph.Goto("work")}
				}
				return list, nil
			})
			graph.AddMapNode(sb, "work", func(_ context.Context, s graph.MapState) (any, error) {
				return graph.MapState{"items": "done", "counter": 1}, nil
			})
			g := compileSchema(b, sb.SetEntryPoint("spread"))
			b.ReportAllocs()
			for b.Loop() {
				snap, err := g.Invoke(bg, nil)
				if err != nil || snap.State.Get("counter") != n {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/task")
		})
	}
}
