package calls_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/superstep-dev/superstep/agent/calls"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
)

// Two programs run turns, of which some fail, and a third prunes: what is listed can be
// loaded, meanwhile and afterwards.
func TestCallsThatAreLeftCanBeReadBesidePruning(t *testing.T) {
	file, err := sqlite.Open(t.TempDir() + "/threads.db")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	for name, store := range map[string]checkpoint.Store{"memory": checkpoint.NewMemory(), "sqlite": file} {
		for mode, d := range map[string]graph.Durability{"sync": graph.Sync, "async": graph.Async} {
			t.Run(name+" "+mode, func(t *testing.T) {
				var made atomic.Int64
				m := model.Func(func(context.Context, *model.Request) (*model.Response, error) {
					n := made.Add(1)
					if n%7 == 0 {
						return nil, errors.New("broken")
					}
					return &model.Response{Message: chat.Assistant(fmt.Sprintf("an answer that is long enough to be referred to: %d", n))}, nil
				})
				load := func() (n int) {
					for c, err := range calls.List(t.Context(), store, mode, calls.Query{}) {
						if err == nil {
							err = c.Load(t.Context())
						}
						if err != nil && !errors.Is(err, checkpoint.ErrNotFound) { // it was pruned meanwhile
							t.Error(err)
						}
						n++
					}
					return n
				}
				done := make(chan struct{})
				var writers, others sync.WaitGroup
				for range 2 {
					g := react(t, m, graph.WithCheckpointer(store), graph.WithDurability(d))
					writers.Go(func() {
						for i := range 25 {
							_ = say(t, g.Thread(mode, graph.WhenBusy(graph.BusyQueue)), fmt.Sprintf("a question that is long enough to be referred to: %d", i)) // or it is broken
						}
					})
				}
				g := react(t, m, graph.WithCheckpointer(store))
				for _, act := range []func(){
					func() { _, _ = g.Thread(mode).Prune(t.Context(), graph.Keep{Last: 3}) }, // or it is busy
					func() { load() },
				} {
					others.Go(func() {
						for {
							select {
							case <-done:
								return
							default:
								act()
							}
						}
					})
				}
				writers.Wait()
				close(done)
				others.Wait()
				if n := load(); n == 0 {
					t.Error("no call is left")
				}
			})
		}
	}
}
