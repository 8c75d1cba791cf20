package graph_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

type ranState struct{ N int }

// The record that commits a superstep says of each of its tasks when it ran, with all
// attempts, and how long.
func TestARecordSaysWhenTheTasksRanThatItCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := checkpoint.NewMemory()
		b := graph.New[ranState]("ran")
		attempts := 0
		b.AddNode("slow", func(ctx context.Context, s *ranState) error {
			time.Sleep(30 * time.Millisecond)
			if attempts++; attempts < 3 {
				return errors.New("not yet")
			}
			s.N++
			return nil
		}, graph.Retry(graph.RetryPolicy{MaxAttempts: 3, Initial: 10 * time.Millisecond, Factor: 1, NoJitter: true}))
		b.AddNode("quick", func(ctx context.Context, s *ranState) error { time.Sleep(5 * time.Millisecond); return nil })
		b.AddNode("after", func(ctx context.Context, s *ranState) error { return nil })
		b.AddEdge(graph.Start, "slow").AddEdge(graph.Start, "quick").AddEdge("slow", "after")
		g, err := b.Compile(graph.WithCheckpointer(store))
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if _, err := g.Thread("t").Invoke(t.Context(), g.Input(func(*ranState) error { return nil })); err != nil {
			t.Fatal(err)
		}
		ran := map[string]checkpoint.Change{}
		for r, err := range store.Records(t.Context(), checkpoint.Query{Log: checkpoint.Log{Thread: "t"}, Meta: true}) {
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range r.Changes {
				ran[c.Node] = c
			}
		}
		for e, err := range g.Thread("t").History(t.Context(), graph.HistoryQuery{}) {
			if err != nil {
				t.Fatal(err)
			}
			for i, node := range e.Nodes {
				if c := ran[node]; !e.Began[i].Equal(time.UnixMicro(c.Began)) || e.Took[i] != time.Duration(c.Took)*time.Microsecond {
					t.Errorf("the history has %s begin at %v and take %v, the record says %+v", node, e.Began[i], e.Took[i], c)
				}
			}
		}
		for node, want := range map[string]struct {
			at, took time.Duration
			failed   int
		}{"slow": {0, 110 * time.Millisecond, 2}, "quick": {0, 5 * time.Millisecond, 0}, "after": {110 * time.Millisecond, 0, 0}} {
			c, ok := ran[node]
			if at := time.UnixMicro(c.Began).Sub(begun); !ok || at != want.at || time.Duration(c.Took)*time.Microsecond != want.took || c.Failed != want.failed {
				t.Errorf("%s began after %v and took %d µs with %d failed attempts, want %+v", node, at, c.Took, c.Failed, want)
			}
		}
	})
}
