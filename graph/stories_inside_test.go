package graph_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/file"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
	"github.com/superstep-dev/superstep/graph"
)

// talePart is the state of subgraphs, and what some share with the graph.
type talePart struct {
	Said graph.List[string]
	Hits graph.Sum[int]
	P    graph.Ephemeral[string]
}

// inside reports whether the graph of a seed has subgraphs.
func inside(seed uint64) bool { return seed%4 >= 2 }

// storeOf returns the store for a seed: some are files or databases.
func storeOf(t *testing.T, seed uint64) prunable {
	var s prunable
	switch seed % 40 {
	case 7:
		s = must[*file.Store](t)(file.Open(t.TempDir(), file.Options{Sync: file.SyncNever}))
	case 8:
		s = must[*sqlite.Store](t)(sqlite.Open(filepath.Join(t.TempDir(), "threads.db")))
	default:
		return checkpoint.NewMemory()
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// mounts returns what adds a node to the graph, or a subgraph in its stead.
func (w *tale) mounts(t *testing.T, b *graph.Builder[taleState], seed uint64) func(name string, run func(context.Context, *taleState) error, opts []graph.NodeOption) {
	r := rand.New(rand.NewPCG(seed, 13))
	return func(name string, run func(context.Context, *taleState) error, opts []graph.NodeOption) {
		part := func(s *taleState) *talePart { return &s.talePart }
		mapped := graph.Mapping[taleState, talePart]{
			In:  func(s *taleState, c *talePart) { c.Said.Add(fmt.Sprintf("after %d, %d", s.Log.Len(), s.Count.Get())) },
			Out: func(c *talePart, s *taleState) { s.Log.Add(c.Said.Slice()...); s.Count.Add(c.Hits.Get()) },
		}
		kind := r.IntN(8)
		if !inside(seed) {
			b.AddNode(name, run, opts...)
			return
		}
		switch kind {
		case 0, 1:
			graph.AddShared(b, name, w.subgraph(t, name, r, 0, seed), part, opts...)
		case 2:
			graph.AddSubgraph(b, name, w.subgraph(t, name, r, 0, seed), mapped, opts...)
		case 3, 4:
			graph.AddSubgraph(b, name, w.subgraph(t, name, r, 0, seed, graph.KeepState()), mapped, opts...)
		default:
			b.AddNode(name, run, opts...)
		}
	}
}

// subgraph makes a subgraph, which may contain another.
func (w *tale) subgraph(t *testing.T, path string, r *rand.Rand, depth int, seed uint64, opts ...graph.Option) *graph.Graph[talePart] {
	one := func(n int) bool { return r.IntN(n) == 0 }
	b := graph.New[talePart](path)
	work := graph.AddTask(b, "work", func(_ context.Context, s *talePart, in int) error {
		s.Said.Add(fmt.Sprintf("%s/work %d after %d", path, in, s.Said.Len()))
		return nil
	})
	nodes := []string{"p", "q", "r"}
	for i, name := range nodes {
		full := path + "/" + name
		asks, setsP := one(3), seed%2 == 1 && one(4)
		run := func(ctx context.Context, s *talePart) error {
			if w.fails[full] {
				return errBoom
			}
			answer := 0
			if asks {
				var err error
				if answer, err = graph.Interrupt[int](ctx, full, s.Said.Len()); err != nil {
					return err
				}
			}
			s.Said.Add(fmt.Sprintf("%s sees %q after %d: %d", full, s.P.Get(), s.Said.Len(), answer))
			if s.Hits.Add(1); setsP {
				s.P.Set(full)
			}
			return nil
		}
		switch {
		case depth < 1 && one(4):
			graph.AddShared(b, name, w.subgraph(t, full, r, depth+1, seed), func(s *talePart) *talePart { return s })
		case depth < 1 && one(4):
			var keep []graph.Option
			if one(2) {
				keep = append(keep, graph.KeepState())
			}
			graph.AddSubgraph(b, name, w.subgraph(t, full, r, depth+1, seed, keep...), graph.Mapping[talePart, talePart]{
				In:  func(p, c *talePart) { c.Said.Add(fmt.Sprintf("after %d", p.Said.Len())) },
				Out: func(c, p *talePart) { p.Said.Add(c.Said.Slice()...); p.Hits.Add(c.Hits.Get()) },
			})
		default:
			b.AddNode(name, run)
		}
		switch {
		case i == len(nodes)-1:
		case one(4):
			b.AddConditionalEdges(name, func(_ context.Context, s *talePart) (graph.Command, error) {
				if w.fails["router of "+full] {
					return graph.Command{}, errBoom
				}
				return graph.Dispatch(work.Send(1), work.Send(2)).And(graph.Goto(nodes[i+1])), nil
			}, nodes[i+1], "work")
		default:
			b.AddEdge(name, nodes[i+1])
		}
		if i == 0 || one(3) {
			b.AddEdge(graph.Start, name)
		}
	}
	if one(3) {
		b.AddConditionalEdges("r", func(_ context.Context, s *talePart) (graph.Command, error) {
			return graph.Dispatch(work.Send(s.Said.Len())), nil
		}, "work")
	}
	return compile(t, b, append(opts, graph.CycleGuard(0))...)
}

// editInside edits the state of a subgraph that waits, or of one inside of it. That
// changes what it has said, and nothing that is seen of the thread.
func (w *tale) editInside(t *testing.T, d deed, even bool) error {
	outer, there := w.state(t)
	if !there {
		return nil
	}
	ns, tasks := "", outer.Tasks
	for {
		var below []string
		for _, task := range tasks {
			below = append(below, slices.Sorted(maps.Keys(task.Subgraphs))...)
		}
		if len(below) == 0 || ns != "" && d.a%2 == 0 {
			break
		}
		ns = below[d.b%len(below)]
		tasks = must[*graph.Snapshot[json.RawMessage]](t)(w.g.Thread("t").Inside(ns).State(bg)).Tasks
	}
	if ns == "" {
		return nil
	}
	sub := w.g.Thread("t").Inside(ns)
	said := func(s *graph.Snapshot[json.RawMessage]) (list []string) {
		var part struct{ Said []string }
		if err := json.Unmarshal(s.State, &part); err != nil {
			t.Fatal(err)
		}
		return part.Said
	}
	before := must[*graph.Snapshot[json.RawMessage]](t)(sub.State(bg))
	after, err := sub.Edit(bg, graph.UpdateWith(fmt.Appendf(nil, `{"Said": [%q]}`, d.mark)))
	if err == nil {
		equalSlice(t, "said in "+ns, said(after), append(said(before), d.mark))
		if even { // else it may give up what conflicts
			equalSlice(t, "next in "+ns, after.Next, before.Next)
		}
		read := must[*graph.Snapshot[json.RawMessage]](t)(sub.State(bg))
		equal(t, "state read back", string(read.State), string(after.State))
	}
	return err
}
