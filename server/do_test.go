package server_test

import (
	"context"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server"
)

// raising is a workflow of one function, with two sub-steps.
func raising(t *testing.T) *graph.Graph[numbers] {
	t.Helper()
	inc := func(_ context.Context, n int) (int, error) { return n + 1, nil }
	b := graph.New[numbers]("raising").AddNode("run", func(ctx context.Context, s *numbers) (err error) {
		for range 2 {
			if s.N, err = graph.Do(ctx, "inc", inc, s.N); err != nil {
				return err
			}
		}
		return nil
	}).AddEdge(graph.Start, "run")
	return b.MustCompile()
}

// What a node does by Do is shown as tasks below it, in either version of the protocol.
func TestSubStepsAreShownAsTasksBelowTheirNode(t *testing.T) {
	const want = "run {\"n\":5}\nrun|inc 5\nrun|inc 6"
	c := start(t, server.Graph(raising(t)))
	for _, mode := range []string{"tasks", "debug"} {
		var lines, results []string
		for _, p := range c.streamed("/runs/stream", object{"assistant_id": "raising", "input": object{"n": 5}, "stream_mode": mode, "stream_subgraphs": true}) {
			data, _ := p.data.(object)
			_, path, _ := strings.Cut(p.event, "|")
			if mode == "debug" {
				data, _ = data["payload"].(object)
			}
			switch {
			case data["triggers"] != nil:
				lines = append(lines, task(path, data["name"], data["input"]))
			case data["name"] != nil && data["result"] != nil:
				results = append(results, string(encoded(data["result"])))
			}
		}
		if got := strings.Join(lines, "\n"); got != want {
			t.Errorf("%s: tasks begin with\n%s\nwant\n%s", mode, got, want)
		}
		if got := strings.Join(results, " "); got != `6 7 {"n":7}` {
			t.Errorf("%s: they came to %s", mode, got)
		}
	}
	thread := newThread()
	s := c.follow(thread, object{"channels": []string{"tasks", "lifecycle"}})
	c.must(thread, "run.start", object{"assistant_id": "raising", "input": object{"n": 5}})
	var lines []string
	for _, e := range s.until(told.ending) {
		if e.Method == "tasks" && e.data()["triggers"] != nil {
			lines = append(lines, task(strings.Join(e.Params.Namespace, "|"), e.data()["name"], e.data()["input"]))
		}
	}
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("tasks begin with\n%s\nwant\n%s", got, want)
	}
}
