package graph_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/graph"
)

type badPayload struct{ N int }

func (*badPayload) UnmarshalJSON([]byte) error { panic("out of order") }

// Whatever a program hands to a node may panic: it is that node's error, alone and
// beside others, and the thread goes on when it is put right.
func TestAPanicOfWhatANodeIsGivenIsItsError(t *testing.T) {
	var broken bool
	fail := func() {
		if broken {
			panic("out of order")
		}
	}
	cases := map[string]func(b *graph.Builder[trail]){
		"payload": func(b *graph.Builder[trail]) {
			w := graph.AddTask(b, "w", func(_ context.Context, s *trail, in badPayload) error { return nil })
			b.AddCommandNode("a", func(context.Context, *trail) (graph.Command, error) {
				if broken {
					return graph.Dispatch(w.Send(badPayload{1}), w.Send(badPayload{2})), nil
				}
				return graph.Command{}, nil
			}, graph.Destinations("w"))
		},
		"retry condition": func(b *graph.Builder[trail]) {
			b.AddNode("a", func(context.Context, *trail) error {
				if broken {
					return errBoom
				}
				return nil
			}, graph.Retry(graph.RetryPolicy{If: func(error) bool { fail(); return false }}))
		},
		"error handler": func(b *graph.Builder[trail]) {
			b.AddNode("a", func(context.Context, *trail) error {
				if broken {
					return errBoom
				}
				return nil
			}, graph.OnError(func(context.Context, *trail, *graph.NodeError) (graph.Command, error) {
				fail()
				return graph.Command{}, nil
			}))
		},
		"callback before": func(b *graph.Builder[trail]) {
			b.AddNode("a", visit("a"), graph.WithCallbacks(graph.Callbacks[trail]{Before: func(context.Context, *trail) (bool, error) { fail(); return false, nil }}))
		},
		"callback after": func(b *graph.Builder[trail]) {
			b.AddNode("a", visit("a"), graph.WithCallbacks(graph.Callbacks[trail]{After: func(context.Context, *trail) error { fail(); return nil }}))
		},
		"callback on error": func(b *graph.Builder[trail]) {
			b.AddNode("a", func(context.Context, *trail) error {
				if broken {
					return errBoom
				}
				return nil
			}, graph.WithCallbacks(graph.Callbacks[trail]{OnError: func(context.Context, *trail, error) { fail() }}))
		},
		"router": func(b *graph.Builder[trail]) {
			b.AddNode("a", visit("a"))
			b.AddConditionalEdges("a", func(context.Context, *trail) (graph.Command, error) { fail(); return graph.Goto(graph.End), nil }, graph.End)
		},
	}
	for name, add := range cases {
		for _, parallel := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, parallel: %v", name, parallel), func(t *testing.T) {
				b := graph.New[trail]("g")
				add(b)
				b.AddEdge(graph.Start, "a")
				if parallel {
					b.AddNode("b", visit("b")).AddEdge(graph.Start, "b")
				}
				g := compile(t, b, stored()...)
				broken = true
				_, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }))
				var ne *graph.NodeError
				var pe *graph.PanicError
				if !errors.As(err, &ne) || !errors.As(err, &pe) || !strings.Contains(string(pe.Stack), "panic_test.go") {
					t.Fatalf("error %v", err)
				}
				broken = false
				if name == "payload" {
					return // it is recorded
				}
				snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
				if !snap.Done() {
					t.Errorf("the thread stands at %v", snap.Next)
				}
			})
		}
	}
}
