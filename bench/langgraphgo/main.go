// Langgraphgo runs the workloads with github.com/smallnest/langgraphgo.
package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"

	_ "github.com/mattn/go-sqlite3"
	"github.com/smallnest/langgraphgo/graph"
	"github.com/smallnest/langgraphgo/store/sqlite"
	"github.com/superstep-dev/superstep/bench/measure"
)

var bg = context.Background()

type counter struct{ N int }

func count(_ context.Context, s counter) (counter, error) {
	s.N++
	return s, nil
}

func main() {
	grows := "each checkpoint looks through all that the store holds"
	whole := "each checkpoint holds the whole conversation; the last ten are kept"
	noSends := "no sends: what runs in parallel is fixed when the graph is built"
	measure.Main(measure.Peer{
		Name:    "langgraphgo",
		Version: measure.ModuleVersion("github.com/smallnest/langgraphgo"),
		Run: map[string]func(string) (measure.Sample, error){
			"loop":             loop,
			"chain":            chain,
			"memory":           stored(memory, measure.FewThreads),
			"sqlite":           stored(onSQLite, measure.FewFiles),
			"commits":          measure.Commits("sqlite3", func(path string) string { return path }),
			"many":             many,
			"turns-memory":     turns(memory, 200),
			"turns-memory-400": turns(memory, 400),
			"turns-sqlite":     turns(onSQLite, 200),
			"turns-sqlite-400": turns(onSQLite, 400),
		},
		NA: map[string]string{"sends": noSends},
		Notes: map[string]string{
			"memory": grows, "many": grows, "turns-memory": whole, "turns-sqlite": whole,
		},
	})
}

// A store is made anew for each sample.
type store struct {
	graph.CheckpointStore
	close func() error
	file  string
}

func memory(string) (store, error) {
	return store{CheckpointStore: graph.NewMemoryCheckpointStore()}, nil
}

func onSQLite(dir string) (store, error) {
	s, err := sqlite.NewSqliteCheckpointStore(sqlite.SqliteOptions{
		Path: "file:" + filepath.Join(dir, "threads.db") + "?_journal_mode=WAL&_synchronous=NORMAL",
	})
	if err != nil {
		return store{}, err
	}
	return store{s, s.Close, "threads.db"}, nil
}

func (s store) config() graph.CheckpointConfig {
	c := graph.DefaultCheckpointConfig() // a checkpoint after each step, the last ten of a thread
	c.Store = s.CheckpointStore
	return c
}

// ring counts to a number, with a router after each step.
func ring(g *graph.StateGraph[counter], to int) {
	g.SetEntryPoint("count")
	g.AddConditionalEdge("count", func(_ context.Context, s counter) string {
		if s.N < to {
			return "count"
		}
		return graph.END
	})
}

type invoker interface {
	InvokeWithConfig(context.Context, counter, *graph.Config) (counter, error)
}

func invoke(g invoker, want int, config *graph.Config) error {
	s, err := g.InvokeWithConfig(bg, counter{}, config)
	if err != nil {
		return err
	}
	return measure.Want("counted", s.N, want)
}

func loop(string) (measure.Sample, error) {
	b := graph.NewStateGraph[counter]()
	b.AddNode("count", "", count)
	ring(b, measure.LoopSteps)
	g, err := b.Compile()
	return measure.Sample{Do: func() error {
		return measure.Times(measure.Loops, func(int) error { return invoke(g, measure.LoopSteps, nil) })
	}}, err
}

func chain(string) (measure.Sample, error) {
	b := graph.NewStateGraph[counter]()
	b.SetEntryPoint("node0")
	for i := range measure.ChainNodes {
		name := fmt.Sprint("node", i)
		b.AddNode(name, "", count)
		if i > 0 {
			b.AddEdge(fmt.Sprint("node", i-1), name)
		}
	}
	b.AddEdge(fmt.Sprint("node", measure.ChainNodes-1), graph.END)
	g, err := b.Compile()
	return measure.Sample{Do: func() error {
		return measure.Times(measure.Chains, func(int) error { return invoke(g, measure.ChainNodes, nil) })
	}}, err
}

func listenable() (*graph.ListenableRunnable[counter], error) {
	b := graph.NewListenableStateGraph[counter]()
	b.AddNode("count", "", count)
	ring(b.StateGraph, measure.RunSteps)
	return b.CompileListenable()
}

// thread runs ten steps on a new thread. What keeps checkpoints belongs to one
// thread at a time, so each has its own; the graph is compiled once.
func thread(g *graph.ListenableRunnable[counter], st store, i int) error {
	return invoke(graph.NewCheckpointableRunnable(g, st.config()), measure.RunSteps, graph.WithThreadID(strconv.Itoa(i)))
}

// kept says whether a thread's steps are in the store.
func kept(st store, id string, want int) error {
	lister, ok := st.CheckpointStore.(interface {
		ListByThread(context.Context, string) ([]*graph.Checkpoint, error)
	})
	if !ok {
		return fmt.Errorf("%T lists no threads", st.CheckpointStore)
	}
	all, err := lister.ListByThread(bg, id)
	if err != nil {
		return err
	}
	return measure.Want("checkpoints", len(all), want)
}

// stored runs ten steps on each of some new threads, one after the other.
func stored(open func(dir string) (store, error), threads int) func(string) (measure.Sample, error) {
	return func(dir string) (measure.Sample, error) {
		st, err := open(dir)
		if err != nil {
			return measure.Sample{}, err
		}
		g, err := listenable()
		return measure.Sample{Close: st.close, Stored: st.file, Do: func() error {
			if err := measure.Times(threads, func(i int) error { return thread(g, st, i) }); err != nil {
				return err
			}
			return kept(st, "0", measure.RunSteps)
		}}, err
	}
}

func many(string) (measure.Sample, error) {
	st, _ := memory("")
	g, err := listenable()
	return measure.Sample{Do: func() error {
		if err := measure.AtOnce(measure.Threads, func(i int) error { return thread(g, st, i) }); err != nil {
			return err
		}
		return kept(st, "0", measure.RunSteps)
	}}, err
}

// turns is a conversation: the input of each turn adds a message, and the node
// its answer. The state is a map: SQLite gives no other type back.
func turns(open func(dir string) (store, error), n int) func(string) (measure.Sample, error) {
	texts := measure.Texts(n)
	return func(dir string) (measure.Sample, error) {
		st, err := open(dir)
		if err != nil {
			return measure.Sample{}, err
		}
		b := graph.NewCheckpointableStateGraphWithConfig[map[string]any](st.config())
		schema := graph.NewMapSchema()
		schema.RegisterReducer("messages", graph.AppendReducer)
		b.SetSchema(schema)
		b.AddNode("answer", "", func(_ context.Context, s map[string]any) (map[string]any, error) {
			return map[string]any{"messages": []any{texts[len(s["messages"].([]any))]}}, nil
		})
		b.SetEntryPoint("answer")
		b.AddEdge("answer", graph.END)
		g, err := b.CompileCheckpointable()
		return measure.Sample{Close: st.close, Stored: st.file, Do: func() error {
			var s map[string]any
			err := measure.Times(n, func(i int) (err error) {
				s, err = g.InvokeWithConfig(bg, map[string]any{"messages": []any{texts[2*i]}}, graph.WithThreadID("talk"))
				return err
			})
			if err != nil {
				return err
			}
			return measure.Want("messages", len(s["messages"].([]any)), 2*n)
		}}, err
	}
}
