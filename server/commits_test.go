package server_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
	"github.com/superstep-dev/superstep/server"
)

// A run is stored as one that works, its input and its superstep are checkpoints, and what
// is told of it goes with its end.
func TestARunOfOneNodeOnAThreadMakesFourTransactions(t *testing.T) {
	t.Parallel()
	pg := servertest.OwnPostgres(t) // whose transactions nobody else makes
	b := graph.New[trip]("one")
	b.AddNode("book", func(_ context.Context, s *trip) error { s.Booked = true; return nil })
	b.AddEdge(graph.Start, "book")
	g, err := b.Compile()
	if err != nil {
		t.Fatal(err)
	}
	c := start(t, server.Data(pg.URL()), server.Graph(g), quiet())
	conn, err := pgx.Connect(t.Context(), pg.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	next := func() (id int64) {
		t.Helper()
		if err := conn.QueryRow(t.Context(), `SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint`).Scan(&id); err != nil {
			t.Fatal(err)
		}
		return id
	}
	thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	var made []int64
	for range 15 { // the server gives signs of life meanwhile, which are transactions too
		before := next()
		call[any](c, "POST", "/threads/"+thread+"/runs/wait", object{"assistant_id": "one", "input": object{"city": "Ulm"}})
		made = append(made, next()-before)
	}
	if least := slices.Min(made); least > 4 {
		t.Errorf("runs make %d transactions", made)
	}
}

// What is told of a run that nobody reads may wait until somebody comes, wherever that is.
func TestARunThatNobodyReadIsReadAtAnyInstanceWhileItWorks(t *testing.T) {
	goOn := make(chan struct{})
	b := graph.New[trip]("gated")
	b.AddNode("wait", func(ctx context.Context, s *trip) error {
		for i := range 3 {
			if err := graph.Emit(ctx, fmt.Sprint("custom-", i)); err != nil {
				return err
			}
			select {
			case <-goOn:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	b.AddEdge(graph.Start, "wait")
	g, err := b.Compile()
	if err != nil {
		t.Fatal(err)
	}
	x, y := pair(t, server.Graph(g))
	for _, at := range []client{x, y} {
		thread := call[object](x, "POST", "/threads", object{})["thread_id"].(string)
		run := call[object](x, "POST", "/threads/"+thread+"/runs", object{"assistant_id": "gated", "input": object{}, "stream_mode": "custom"})
		if run["status"] != "pending" {
			t.Errorf("a new run is %v", run["status"])
		}
		lines, stop := at.sse(fmt.Sprintf("/threads/%s/runs/%s/stream", thread, run["run_id"]), "Last-Event-ID", "-1")
		for i := range 3 {
			for line := range lines {
				if strings.Contains(line, fmt.Sprint("custom-", i)) {
					break
				}
			}
			goOn <- struct{}{} // it has been read while the run worked
		}
		for range lines {
		}
		stop()
	}
}
