package server_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/stores"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
	"github.com/superstep-dev/superstep/server"
)

// A run is stored as one that works, and its input is a checkpoint; that of its superstep
// goes with its end and what is told of it.
func TestARunOfOneNodeOnAThreadMakesThreeTransactions(t *testing.T) {
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
	if least := slices.Min(made); least > 3 {
		t.Errorf("runs make %d transactions", made)
	}
}

// Nobody finds a run that is over before its last checkpoint is, or the other way round.
func TestARunEndsInTheTransactionOfItsLastCheckpoint(t *testing.T) {
	t.Parallel()
	pg := servertest.OwnPostgres(t)
	c := start(t, server.Data(pg.URL()), server.Graph(slow(t)), quiet())
	conn, err := pgx.Connect(t.Context(), pg.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	for _, more := range []object{
		{}, {"stream_mode": []string{"values", "updates", "messages", "tasks", "checkpoints", "debug", "events"}}, {"durability": "async"},
	} {
		body := object{"assistant_id": "slow", "input": object{"todo": 2}}
		maps.Copy(body, more)
		call[any](c, "POST", "/threads/"+thread+"/runs/wait", body)
		var together bool
		if err := conn.QueryRow(t.Context(), `SELECT (SELECT xmin FROM superstep_records ORDER BY rid DESC LIMIT 1) = ALL (
			SELECT xmin FROM superstep_runs WHERE id = (SELECT id FROM superstep_runs ORDER BY created DESC LIMIT 1)
			UNION ALL (SELECT xmin FROM superstep_feed_events ORDER BY seq DESC LIMIT 1))`).Scan(&together); err != nil {
			t.Fatal(err)
		}
		if !together {
			t.Errorf("with %v the end of a run and its last checkpoint are two transactions", more)
		}
	}
}

// Somebody else may take the thread when the run has written its last checkpoint and its end
// isn't noted yet.
func TestARunWhoseLastCheckpointIsRefusedFails(t *testing.T) {
	t.Parallel()
	url := ownSchema(t)
	other, err := stores.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	var thread string
	var once sync.Once
	b := graph.New[trip]("taken")
	b.AddNode("book", func(_ context.Context, s *trip) error { s.Booked = true; return nil })
	b.AddEdge(graph.Start, "book")
	graph.SetOutput(b, func(s *trip) trip {
		if s.Booked {
			once.Do(func() {
				w := &checkpoint.Write{Log: checkpoint.Log{Thread: checkpoint.ThreadID(thread)}, Claim: true}
				_, err := other.Write(context.Background(), w)
				if busy, ok := errors.AsType[*checkpoint.BusyError](err); ok {
					w.Steal = busy.Lease.Holder
					_, err = other.Write(context.Background(), w)
				} else {
					t.Errorf("claiming the thread of a run that works: %v", err)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		return *s
	})
	g, err := b.Compile()
	if err != nil {
		t.Fatal(err)
	}
	c := start(t, server.Data(url), server.Graph(g), quiet())
	thread = call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	body := object{"assistant_id": "taken", "input": object{"city": "Ulm"}, "stream_mode": "values"}
	parts := c.streamed("/threads/"+thread+"/runs/stream", body)
	for _, p := range parts {
		if p.event == "values" && p.data.(object)["booked"] == true {
			t.Errorf("the run tells of %v, which isn't stored", p.data)
		}
	}
	if parts[len(parts)-1].event != "error" {
		t.Errorf("the run tells %v", parts)
	}
	if runs := call[[]object](c, "GET", "/threads/"+thread+"/runs", nil); runs[0]["status"] != "error" {
		t.Errorf("the run is %v", runs[0]["status"])
	}
	if state := call[object](c, "GET", "/threads/"+thread+"/state", nil); state["values"].(object)["booked"] == true {
		t.Errorf("the state is %v", state["values"])
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
