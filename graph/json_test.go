package graph_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/graph"
)

// Programs that don't know a graph's types speak JSON with it: its configuration,
// payloads of sends, and states in events.
func TestAGraphSpeaksJSON(t *testing.T) {
	type limits struct {
		Max int `json:"max"`
	}
	type state struct {
		Seen graph.List[int] `json:"seen"`
	}
	b := graph.New[state]("json")
	graph.AddTask(b, "take", func(ctx context.Context, s *state, n int) error {
		l, err := graph.Configured[limits](ctx)
		s.Seen.Add(min(n, l.Max))
		return err
	})
	b.AddNode("begin", func(context.Context, *state) error { return nil })
	b.AddEdge(graph.Start, "begin").AddEdge("begin", graph.End)
	g := b.MustCompile(graph.Configurable(limits{}))
	run := func(config, payload string) (string, error) {
		last := ""
		for ev, err := range g.Thread("").Stream(t.Context(), g.Restart(func(*state) error { return nil }, graph.Dispatch(graph.SendJSON("take", json.RawMessage(payload)))), graph.Modes(graph.ModeValues), graph.ConfigureJSON(json.RawMessage(config))) {
			if err != nil {
				return last, err
			}
			data, err := ev.StateJSON()
			if err != nil {
				return last, err
			}
			last = string(data)
		}
		return last, nil
	}
	if got, err := run(`{"max":5}`, `7`); err != nil || got != `{"seen":[5]}` {
		t.Errorf("%s, %v", got, err)
	}
	for name, c := range map[string]struct{ config, payload, says string }{
		"a configuration of another type": {`"five"`, `7`, "configuration of type graph_test.limits: configuration: must be an object"},
		"a payload of another type":       {`{}`, `"seven"`, "payload"},
		"a payload that is no JSON":       {`{}`, `{`, `payload of a send to "take" is not valid JSON`},
	} {
		if _, err := run(c.config, c.payload); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %s", name, err, c.says)
		}
	}
	if data, err := (graph.Event{Type: graph.EventUpdate}).StateJSON(); data != nil || err != nil {
		t.Errorf("an event without a state: %s, %v", data, err)
	}
}
