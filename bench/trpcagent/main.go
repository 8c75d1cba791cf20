// Trpcagent runs the workloads with trpc.group/trpc-go/trpc-agent-go.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strconv"

	_ "github.com/mattn/go-sqlite3"
	"github.com/superstep-dev/superstep/bench/measure"
	"trpc.group/trpc-go/trpc-agent-go/agent"
	"trpc.group/trpc-go/trpc-agent-go/graph"
	"trpc.group/trpc-go/trpc-agent-go/graph/checkpoint/inmemory"
	"trpc.group/trpc-go/trpc-agent-go/graph/checkpoint/sqlite"
)

var bg = context.Background()

func main() {
	ended := "a lineage that has ended does not run again; conversations are kept in sessions, beside the graph"
	measure.Main(measure.Peer{
		Name:    "trpc-agent-go",
		Version: measure.ModuleVersion("trpc.group/trpc-go/trpc-agent-go"),
		Run: map[string]func(string) (measure.Sample, error){
			"loop":    loop,
			"chain":   chain,
			"memory":  stored(memory, measure.FewThreads),
			"sqlite":  stored(onSQLite, measure.FewFiles),
			"commits": measure.Commits("sqlite3", func(path string) string { return path }),
			"sends":   sends,
			"many":    many,
		},
		NA: map[string]string{
			"turns-memory": ended, "turns-memory-400": ended, "turns-sqlite": ended, "turns-sqlite-400": ended,
		},
	})
}

// A store is made anew for each sample.
type store struct {
	graph.CheckpointSaver
	close func() error
	file  string
}

func memory(string) (store, error) {
	return store{CheckpointSaver: inmemory.NewSaver()}, nil
}

func onSQLite(dir string) (store, error) {
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(dir, "threads.db")+"?_journal_mode=WAL&_synchronous=NORMAL")
	if err != nil {
		return store{}, err
	}
	s, err := sqlite.NewSaver(db)
	return store{s, db.Close, "threads.db"}, err
}

func schema() *graph.StateSchema {
	return graph.NewStateSchema().AddField("n", graph.StateField{Type: reflect.TypeFor[int](), Reducer: graph.DefaultReducer})
}

func count(_ context.Context, s graph.State) (any, error) {
	n, _ := s["n"].(int)
	return graph.State{"n": n + 1}, nil
}

// ring counts to a number, with a router after each step.
func ring(to int, opts ...graph.ExecutorOption) (*graph.Executor, error) {
	b := graph.NewStateGraph(schema()).AddNode("count", count).SetEntryPoint("count")
	b.AddConditionalEdges("count", func(_ context.Context, s graph.State) (string, error) {
		if n, _ := s["n"].(int); n < to {
			return "count", nil
		}
		return graph.End, nil
	}, map[string]string{"count": "count", graph.End: graph.End})
	return compile(b, append(opts, graph.WithMaxSteps(to+10))...)
}

func compile(b *graph.StateGraph, opts ...graph.ExecutorOption) (*graph.Executor, error) {
	g, err := b.Compile()
	if err != nil {
		return nil, err
	}
	return graph.NewExecutor(g, opts...)
}

// run executes a graph with neither traces nor events of its steps, and decodes
// a field of the state that it ends with.
func run(e *graph.Executor, input graph.State, field string, out any) error {
	var opts agent.RunOptions
	for _, o := range []agent.RunOption{agent.WithDisableTracing(true), agent.WithDisableGraphExecutorEvents(true)} {
		o(&opts)
	}
	events, err := e.Execute(bg, input, agent.NewInvocation(agent.WithInvocationRunOptions(opts)))
	if err != nil {
		return err
	}
	found := false
	for ev := range events {
		if ev.Error != nil {
			err = errors.Join(err, ev.Error)
		}
		if data, ok := ev.StateDelta[field]; ok && ev.Done {
			found = true
			err = errors.Join(err, json.Unmarshal(data, out))
		}
	}
	if err == nil && !found {
		err = fmt.Errorf("a run ended without %s", field)
	}
	return err
}

func invoke(e *graph.Executor, want int, lineage string) error {
	input := graph.State{"n": 0}
	if lineage != "" {
		input[graph.CfgKeyLineageID] = lineage
	}
	var n int
	if err := run(e, input, "n", &n); err != nil {
		return err
	}
	return measure.Want("counted", n, want)
}

func loop(string) (measure.Sample, error) {
	e, err := ring(measure.LoopSteps)
	return measure.Sample{Do: func() error {
		return measure.Times(measure.Loops, func(int) error { return invoke(e, measure.LoopSteps, "") })
	}}, err
}

func chain(string) (measure.Sample, error) {
	b := graph.NewStateGraph(schema())
	for i := range measure.ChainNodes {
		name := fmt.Sprint("node", i)
		b.AddNode(name, count)
		if i > 0 {
			b.AddEdge(fmt.Sprint("node", i-1), name)
		}
	}
	b.SetEntryPoint("node0").SetFinishPoint(fmt.Sprint("node", measure.ChainNodes-1))
	e, err := compile(b)
	return measure.Sample{Do: func() error {
		return measure.Times(measure.Chains, func(int) error { return invoke(e, measure.ChainNodes, "") })
	}}, err
}

// stored runs ten steps on each of some new lineages, one after the other.
func stored(open func(dir string) (store, error), threads int) func(string) (measure.Sample, error) {
	return func(dir string) (measure.Sample, error) {
		st, err := open(dir)
		if err != nil {
			return measure.Sample{}, err
		}
		e, err := ring(measure.RunSteps, graph.WithCheckpointSaver(st.CheckpointSaver))
		return measure.Sample{Close: st.close, Stored: st.file, Do: func() error {
			err := measure.Times(threads, func(i int) error { return invoke(e, measure.RunSteps, strconv.Itoa(i)) })
			return errors.Join(err, kept(st))
		}}, err
	}
}

// kept says whether each step of the first lineage is in the store, and its input.
func kept(st store) error {
	all, err := st.List(bg, graph.CreateCheckpointConfig("0", "", ""), graph.NewCheckpointFilter())
	if err != nil {
		return err
	}
	return measure.Want("checkpoints", len(all), measure.RunSteps+1)
}

func many(string) (measure.Sample, error) {
	e, err := ring(measure.RunSteps, graph.WithCheckpointSaver(inmemory.NewSaver()))
	return measure.Sample{Do: func() error {
		return measure.AtOnce(measure.Threads, func(i int) error { return invoke(e, measure.RunSteps, strconv.Itoa(i)) })
	}}, err
}

func sends(string) (measure.Sample, error) {
	b := graph.NewStateGraph(schema().
		AddField("in", graph.StateField{Type: reflect.TypeFor[int](), Reducer: graph.DefaultReducer}).
		AddField("sum", graph.StateField{Type: reflect.TypeFor[int](), Reducer: func(a, b any) any {
			x, _ := a.(int)
			y, _ := b.(int)
			return x + y
		}}))
	b.AddNode("split", func(context.Context, graph.State) (any, error) {
		all := make([]*graph.Command, measure.Sends)
		for i := range all {
			all[i] = &graph.Command{GoTo: "work", Update: graph.State{"in": i}}
		}
		return all, nil
	}, graph.WithDestinations(map[string]string{"work": ""}))
	b.AddNode("work", func(_ context.Context, s graph.State) (any, error) { return graph.State{"sum": s["in"]}, nil })
	b.AddNode("join", func(_ context.Context, s graph.State) (any, error) { return graph.State{"n": s["sum"]}, nil })
	b.SetEntryPoint("split").AddEdge("work", "join").SetFinishPoint("join")
	e, err := compile(b)
	return measure.Sample{Do: func() error {
		return measure.Times(measure.Fans, func(int) error { return invoke(e, measure.Sends*(measure.Sends-1)/2, "") })
	}}, err
}
