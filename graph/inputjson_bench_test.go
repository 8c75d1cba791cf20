package graph_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/superstep-dev/superstep/graph"
)

// BenchmarkUpdateJSON measures input from outside beside what decoding it into the
// same types takes.
func BenchmarkUpdateJSON(b *testing.B) {
	type part struct {
		Kind string `json:"kind"`
		Text string `json:"text"`
	}
	type message struct {
		Role  string            `json:"role"`
		Parts []part            `json:"parts"`
		Meta  map[string]string `json:"meta,omitempty"`
		Count int               `json:"count"`
	}
	type state struct {
		Topic    string              `json:"topic"`
		Messages graph.List[message] `json:"messages"`
	}
	bl := graph.New[state]("g").AddNode("a", func(_ context.Context, _ *state) error { return nil }).AddEdge(graph.Start, "a")
	g := compile(b, bl)
	for _, n := range []int{1, 10, 400} {
		list := make([]message, n)
		for i := range list {
			list[i] = message{Role: "user", Parts: []part{{"text", fmt.Sprint("what is said in message ", i)}}, Meta: map[string]string{"id": fmt.Sprint(i)}, Count: i}
		}
		data, err := json.Marshal(map[string]any{"topic": "cats", "messages": list})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("messages=%d", n), func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				var s state
				if err := g.UpdateJSON(&s, data); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("messages=%d/decoding", n), func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				var s struct {
					Topic    string    `json:"topic"`
					Messages []message `json:"messages"`
				}
				if err := json.Unmarshal(data, &s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
