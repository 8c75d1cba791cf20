// Superstep runs the workloads with the engine itself.
package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/superstep-dev/superstep/bench/measure"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
	"github.com/superstep-dev/superstep/graph"
	_ "modernc.org/sqlite"
)

var bg = context.Background()

type counter struct{ N int }

func count(_ context.Context, s *counter) error {
	s.N++
	return nil
}

func main() {
	measure.Main(measure.Peer{
		Name:    "Superstep",
		Version: "this tree",
		Run: map[string]func(string) (measure.Sample, error){
			"loop":             loop,
			"chain":            chain,
			"memory":           stored(memory, measure.FewThreads),
			"sqlite":           stored(onSQLite, measure.FewFiles),
			"commits":          measure.Commits("sqlite", func(path string) string { return path }),
			"sends":            sends,
			"many":             many,
			"turns-memory":     turns(memory, 200),
			"turns-memory-400": turns(memory, 400),
			"turns-sqlite":     turns(onSQLite, 200),
			"turns-sqlite-400": turns(onSQLite, 400),
		},
	})
}

// A store is made anew for each sample.
type store struct {
	checkpoint.Store
	close func() error
	file  string
}

func memory(string) (store, error) { return store{Store: checkpoint.NewMemory()}, nil }

func onSQLite(dir string) (store, error) {
	s, err := sqlite.Open(filepath.Join(dir, "threads.db"))
	if err != nil {
		return store{}, err
	}
	return store{s, s.Close, "threads.db"}, nil
}

// ring counts to a number, with a router after each step.
func ring(to int, opts ...graph.Option) (*graph.Graph[counter], error) {
	b := graph.New[counter]("ring")
	b.AddNode("count", count)
	b.AddEdge(graph.Start, "count")
	b.AddConditionalEdges("count", func(_ context.Context, s *counter) (graph.Command, error) {
		if s.N < to {
			return graph.Goto("count"), nil
		}
		return graph.Goto(graph.End), nil
	}, "count", graph.End)
	return b.Compile(append(opts, graph.MaxSteps(to+1))...)
}

func loop(string) (measure.Sample, error) {
	g, err := ring(measure.LoopSteps)
	return measure.Sample{Do: func() error {
		return measure.Times(measure.Loops, func(int) error { return invoke(g, measure.LoopSteps, "") })
	}}, err
}

func invoke(g *graph.Graph[counter], want int, thread string) error {
	t := g.Thread(thread)
	snap, err := t.Invoke(bg, t.Input(func(s *counter) error {
		s.N = 0
		return nil
	}))
	if err != nil {
		return err
	}
	return measure.Want("counted", snap.State.N, want)
}

func chain(string) (measure.Sample, error) {
	b := graph.New[counter]("chain")
	before := graph.Start
	for i := range measure.ChainNodes {
		name := fmt.Sprint("node", i)
		b.AddNode(name, count).AddEdge(before, name)
		before = name
	}
	g, err := b.Compile()
	return measure.Sample{Do: func() error {
		return measure.Times(measure.Chains, func(int) error { return invoke(g, measure.ChainNodes, "") })
	}}, err
}

// stored runs ten steps on each of some new threads, one after the other.
func stored(open func(dir string) (store, error), threads int) func(string) (measure.Sample, error) {
	return func(dir string) (measure.Sample, error) {
		st, err := open(dir)
		if err != nil {
			return measure.Sample{}, err
		}
		g, err := ring(measure.RunSteps, graph.WithCheckpointer(st.Store))
		return measure.Sample{Close: st.close, Stored: st.file, Do: func() error {
			err := measure.Times(threads, func(i int) error {
				return invoke(g, measure.RunSteps, strconv.Itoa(i))
			})
			return errors.Join(err, kept(g))
		}}, err
	}
}

// kept says whether each step of the first thread is in the store, and its input.
func kept(g *graph.Graph[counter]) error {
	n := 0
	for _, err := range g.Thread("0").History(bg, graph.HistoryQuery{}) {
		if err != nil {
			return err
		}
		n++
	}
	return measure.Want("checkpoints", n, measure.RunSteps+1)
}

func many(string) (measure.Sample, error) {
	g, err := ring(measure.RunSteps, graph.WithCheckpointer(checkpoint.NewMemory()))
	return measure.Sample{Do: func() error {
		return measure.AtOnce(measure.Threads, func(i int) error {
			return invoke(g, measure.RunSteps, strconv.Itoa(i))
		})
	}}, err
}

type total struct {
	Sum graph.Sum[int]
	N   int
}

func sends(string) (measure.Sample, error) {
	b := graph.New[total]("sends")
	work := graph.AddTask(b, "work", func(_ context.Context, s *total, in int) error {
		s.Sum.Add(in)
		return nil
	})
	b.AddCommandNode("split", func(context.Context, *total) (graph.Command, error) {
		all := make([]graph.Send, measure.Sends)
		for i := range all {
			all[i] = work.Send(i)
		}
		return graph.Dispatch(all...), nil
	})
	b.AddNode("join", func(_ context.Context, s *total) error {
		s.N = s.Sum.Get()
		return nil
	})
	b.AddEdge(graph.Start, "split").AddEdge("work", "join")
	g, err := b.Compile()
	return measure.Sample{Do: func() error {
		return measure.Times(measure.Fans, func(int) error {
			snap, err := g.Invoke(bg, nil)
			if err != nil {
				return err
			}
			return measure.Want("sum", snap.State.N, measure.Sends*(measure.Sends-1)/2)
		})
	}}, err
}

type talk struct{ Messages graph.List[string] }

// turns is a conversation: the input of each turn adds a message, and the node
// its answer.
func turns(open func(dir string) (store, error), n int) func(string) (measure.Sample, error) {
	texts := measure.Texts(n)
	return func(dir string) (measure.Sample, error) {
		st, err := open(dir)
		if err != nil {
			return measure.Sample{}, err
		}
		b := graph.New[talk]("talk")
		b.AddNode("answer", func(_ context.Context, s *talk) error {
			s.Messages.Add(texts[s.Messages.Len()])
			return nil
		})
		b.AddEdge(graph.Start, "answer")
		g, err := b.Compile(graph.WithCheckpointer(st.Store))
		return measure.Sample{Close: st.close, Stored: st.file, Do: func() error {
			t := g.Thread("talk")
			var snap *graph.Snapshot[talk]
			err := measure.Times(n, func(i int) (err error) {
				snap, err = t.Invoke(bg, t.Input(func(s *talk) error {
					s.Messages.Add(texts[2*i])
					return nil
				}))
				return err
			})
			if err != nil {
				return err
			}
			return measure.Want("messages", snap.State.Messages.Len(), 2*n)
		}}, err
	}
}
