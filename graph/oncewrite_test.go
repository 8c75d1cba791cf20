package graph_test

import (
	"context"
	"sync"
	"testing"

	"github.com/superstep-dev/superstep/graph"
)

// What fn writes to the state inside Once isn't written again when the recorded
// result is returned; with CheckMutations, Once says so.
func TestWritesToTheStateInsideOnceAreFound(t *testing.T) {
	for field, write := range map[string]func(s *trail) error{
		"N": func(s *trail) error {
			s.N = 7
			return nil
		},
		"Ran": func(s *trail) error {
			s.Ran.Add("inside")
			return nil
		},
		"Total": func(s *trail) error {
			s.Total.Add(7)
			return nil
		},
		"": func(*trail) error { return nil },
	} {
		b := graph.New[trail]("g").AddNode("a", func(ctx context.Context, s *trail) error {
			s.N++
			n, err := graph.Once(ctx, "count", func(context.Context, string) (int, error) {
				_ = write(s)
				return 1, nil
			})
			s.Total.Add(n)
			return err
		})
		_, err := compile(t, b.AddEdge(graph.Start, "a")).Invoke(bg, func(*trail) error { return nil }, graph.CheckMutations())
		if field == "" {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		e := wantErr[*graph.MutationError](t, err)
		equal(t, "where", e.Node+"."+e.Field+" in "+e.Kind+" "+e.Name, "a."+field+" in Once count")
	}
}

// A node may call Once in goroutines of its own, one of which writes while another is
// inside.
func TestWritesBesideOnceAreNotFound(t *testing.T) {
	b := graph.New[trail]("g").AddNode("a", func(ctx context.Context, s *trail) error {
		var mu sync.Mutex
		var wg sync.WaitGroup
		for _, name := range []string{"x", "y", "z"} {
			wg.Go(func() {
				_, err := graph.Once(ctx, name, func(context.Context, string) (int, error) { return 1, nil })
				mu.Lock()
				defer mu.Unlock()
				if s.N++; err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		return nil
	})
	snap := must[*graph.Snapshot[trail]](t)(compile(t, b.AddEdge(graph.Start, "a")).Invoke(bg, func(*trail) error { return nil }, graph.CheckMutations()))
	equal(t, "N", snap.State.N, 3)
}
