package dbos_test

import (
	"context"
	"log"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/dbos"
	"github.com/superstep-dev/superstep/fleet"
	"github.com/superstep-dev/superstep/graph"
)

type Report struct {
	Parts graph.List[string]
}

// work is the program of a worker: as many as there is work for, on any machines.
func work(ctx context.Context, database string, store checkpoint.Store, g *graph.Graph[Report]) error {
	fw, err := fleet.NewWorker(store, fleet.Options{}, fleet.Program{Graph: g, Version: "2"})
	if err != nil {
		return err
	}
	w, err := dbos.Start(ctx, database, fw, dbos.WorkerOptions{Queue: "reports-2", Concurrency: 16})
	if err != nil {
		return err
	}
	<-ctx.Done()
	return w.Close()
}

// ask is what a program does that has the workers run a thread.
func ask(ctx context.Context, database string, store checkpoint.Store, g *graph.Graph[Report], thread string) (*graph.Snapshot[Report], error) {
	d, err := dbos.New(ctx, database, dbos.Options{Queue: "reports-2"})
	if err != nil {
		return nil, err
	}
	defer d.Close()
	c := &fleet.Client{Dispatcher: d, Store: store, Version: func(string) string { return "2" }}
	t := g.Thread(thread)
	return fleet.Invoke(ctx, c, t, t.Input(func(r *Report) error {
		r.Parts.Add("the beginning")
		return nil
	}))
}

func Example() {
	ctx, database := context.Background(), "postgres://localhost/reports"
	var store checkpoint.Store // that all share, such as one of package checkpoint/postgres
	var g *graph.Graph[Report] // compiled with it
	go func() { log.Print(work(ctx, database, store, g)) }()
	snap, err := ask(ctx, database, store, g, "r-1")
	log.Print(snap, err)
}
