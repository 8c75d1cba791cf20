// Eino runs the workloads with github.com/cloudwego/eino.
package main

import (
	"context"
	"fmt"

	"github.com/cloudwego/eino/compose"
	"github.com/superstep-dev/superstep/bench/measure"
)

var bg = context.Background()

type counter struct{ N int }

func count(_ context.Context, s counter) (counter, error) {
	s.N++
	return s, nil
}

func main() {
	na := map[string]string{"sends": "no sends: what runs in parallel is fixed when the graph is built"}
	for _, w := range []string{"memory", "sqlite", "many", "turns-memory", "turns-memory-400", "turns-sqlite", "turns-sqlite-400"} {
		na[w] = "steps are not stored: a checkpoint is written when a run is interrupted"
	}
	na["commits"] = "no store on SQLite"
	measure.Main(measure.Peer{
		Name:    "Eino",
		Version: measure.ModuleVersion("github.com/cloudwego/eino"),
		Run:     map[string]func(string) (measure.Sample, error){"loop": loop, "chain": chain},
		NA:      na,
	})
}

func invoke(g compose.Runnable[counter, counter], want int) error {
	s, err := g.Invoke(bg, counter{})
	if err != nil {
		return err
	}
	return measure.Want("counted", s.N, want)
}

func loop(string) (measure.Sample, error) {
	b := compose.NewGraph[counter, counter]()
	err := b.AddLambdaNode("count", compose.InvokableLambda(count))
	if err == nil {
		err = b.AddEdge(compose.START, "count")
	}
	if err == nil {
		err = b.AddBranch("count", compose.NewGraphBranch(func(_ context.Context, s counter) (string, error) {
			if s.N < measure.LoopSteps {
				return "count", nil
			}
			return compose.END, nil
		}, map[string]bool{"count": true, compose.END: true}))
	}
	if err != nil {
		return measure.Sample{}, err
	}
	g, err := b.Compile(bg, compose.WithMaxRunSteps(measure.LoopSteps+10))
	return measure.Sample{Do: func() error {
		return measure.Times(measure.Loops, func(int) error { return invoke(g, measure.LoopSteps) })
	}}, err
}

func chain(string) (measure.Sample, error) {
	b := compose.NewChain[counter, counter]()
	for i := range measure.ChainNodes {
		b.AppendLambda(compose.InvokableLambda(count), compose.WithNodeName(fmt.Sprint("node", i)))
	}
	g, err := b.Compile(bg)
	return measure.Sample{Do: func() error {
		return measure.Times(measure.Chains, func(int) error { return invoke(g, measure.ChainNodes) })
	}}, err
}
