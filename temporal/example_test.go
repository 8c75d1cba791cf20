package temporal_test

import (
	"context"
	"log"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/fleet"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server"
	"github.com/superstep-dev/superstep/temporal"
)

type Report struct {
	Parts graph.List[string]
}

// work is the program of a worker: as many as there is work for, on any machines.
func work(store checkpoint.Store, g *graph.Graph[Report]) error {
	c, err := client.Dial(client.Options{HostPort: "temporal:7233"})
	if err != nil {
		return err
	}
	defer c.Close()
	w, err := fleet.NewWorker(store, fleet.Options{}, fleet.Program{Graph: g, Version: "2"})
	if err != nil {
		return err
	}
	runs := worker.New(c, "reports-2", worker.Options{MaxConcurrentActivityExecutionSize: 16})
	temporal.Register(runs, w)
	return runs.Run(worker.InterruptCh())
}

// ask is what a program does that has the workers run a thread.
func ask(ctx context.Context, store checkpoint.Store, g *graph.Graph[Report], thread string) (*graph.Snapshot[Report], error) {
	c, err := client.Dial(client.Options{HostPort: "temporal:7233"})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	d, err := temporal.New(c, temporal.Options{TaskQueue: "reports-2"})
	if err != nil {
		return nil, err
	}
	fc := &fleet.Client{Dispatcher: d, Store: store, Version: func(string) string { return "2" }}
	t := g.Thread(thread)
	return fleet.Invoke(ctx, fc, t, t.Input(func(r *Report) error {
		r.Parts.Add("the beginning")
		return nil
	}))
}

func Example() {
	var store checkpoint.Store // that all share, such as one of package checkpoint/postgres
	var g *graph.Graph[Report] // compiled with it
	go func() { log.Print(work(store, g)) }()
	snap, err := ask(context.Background(), store, g, "r-1")
	log.Print(snap, err)
}

// host makes a server whose runs go by Temporal, and which is a worker, without the commands of
// package cli: those have package serve.
func host(ctx context.Context, database string, g *graph.Graph[Report]) (*server.Server, error) {
	c, err := client.DialContext(ctx, client.Options{HostPort: "temporal:7233"})
	if err != nil {
		return nil, err
	}
	return server.New(ctx, server.Data(database), server.Graph(g), server.Dispatch(temporal.Begin(c, temporal.Options{TaskQueue: "reports-2"}, worker.Options{})))
}

func ExampleBegin() {
	var g *graph.Graph[Report]
	s, err := host(context.Background(), "postgres://…", g)
	log.Print(s, err)
}
