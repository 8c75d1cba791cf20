package server_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server"
)

// Whether a subgraph is still to begin, works, waits, has failed or has finished: its
// task says where its log is, or will be.
func TestATaskSaysWhereItsSubgraphIs(t *testing.T) {
	type inner struct {
		Word string `json:"word"`
	}
	type outer struct {
		Text string `json:"text"`
	}
	entered, leave := make(chan struct{}), make(chan struct{})
	in := graph.New[inner]("inner")
	in.AddNode("say", func(ctx context.Context, s *inner) error { s.Word += "!"; return nil })
	in.AddNode("do", func(ctx context.Context, s *inner) error {
		switch s.Word {
		case "fail!":
			return errors.New("it fails")
		case "ask!":
			word, err := graph.Interrupt[string](ctx, "word", s.Word)
			s.Word = word
			return err
		case "work!":
			entered <- struct{}{}
			<-leave
		}
		return nil
	})
	in.AddEdge(graph.Start, "say").AddEdge("say", "do")
	var graphs []server.Option
	for name, opts := range map[string][]graph.Option{"fresh": nil, "keeping": {graph.KeepState()}} {
		out := graph.New[outer](name)
		graph.AddSubgraph(out, "sub", in.MustCompile(opts...), graph.Mapping[outer, inner]{
			In:  func(p *outer, c *inner) { c.Word = p.Text },
			Out: func(c *inner, p *outer) { p.Text = c.Word },
		})
		out.AddNode("first", func(ctx context.Context, s *outer) error { return nil })
		out.AddEdge(graph.Start, "first").AddEdge("first", "sub")
		graphs = append(graphs, server.Graph(out.MustCompile()))
	}
	c := start(t, append(graphs, quiet())...)
	for _, name := range []string{"fresh", "keeping"} {
		thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
		at := "/threads/" + thread
		// sub returns the namespace that the task of the subgraph names, and how many
		// checkpoints there are in it.
		sub := func(state object) (string, int) {
			t.Helper()
			for _, task := range state["tasks"].([]any) {
				if ref, ok := task.(object)["checkpoint"].(object); ok && task.(object)["name"] == "sub" {
					ns := ref["checkpoint_ns"].(string)
					return ns, len(call[[]object](c, "POST", at+"/history", object{"checkpoint": object{"checkpoint_ns": ns}}))
				}
			}
			t.Fatalf("%s: no task says where the subgraph is: %v", name, state["tasks"])
			return "", 0
		}
		now := func() object { return call[object](c, "GET", at+"/state", nil) }
		wait := func(text string, more object) {
			body := object{"assistant_id": name, "input": object{"text": text}}
			maps.Copy(body, more)
			call[any](c, "POST", at+"/runs/wait", body)
		}
		// It is still to begin.
		wait("ask", object{"interrupt_before": []string{"sub"}})
		pending, n := sub(now())
		if n != 0 || !strings.HasPrefix(pending, "sub") || (name == "keeping") != (pending == "sub") {
			t.Errorf("%s: before it begins it is in %s, with %d checkpoints", name, pending, n)
		}
		nested := call[object](c, "GET", at+"/state?subgraphs=true", nil)["tasks"].([]any)[0].(object)
		if state, _ := nested["state"].(object); nested["checkpoint"] != nil || len(state["values"].(object)) > 0 || state["checkpoint"].(object)["checkpoint_ns"] != pending {
			t.Errorf("%s: before it begins its state is %v", name, nested)
		}
		// It waits, and has finished.
		wait("", object{"input": nil})
		waiting, n := sub(now())
		if waiting != pending || n != 3 {
			t.Errorf("%s: while it waits it is in %s, with %d checkpoints", name, waiting, n)
		}
		wait("", object{"input": nil, "command": object{"resume": "done"}})
		if tasks := now()["tasks"].([]any); len(tasks) > 0 {
			t.Errorf("%s: at the end there are %v", name, tasks)
		}
		before := call[[]object](c, "POST", at+"/history", object{})[1]
		if finished, n := sub(before); finished != pending || n != 4 {
			t.Errorf("%s: when it has finished it is in %s, with %d checkpoints", name, finished, n)
		}
		// It works.
		call[any](c, "POST", at+"/runs", object{"assistant_id": name, "input": object{"text": "work"}})
		<-entered
		working, n := sub(now())
		if n < 2 || (name == "keeping") != (working == pending) {
			t.Errorf("%s: while it works it is in %s, with %d checkpoints", name, working, n)
		}
		leave <- struct{}{}
		// It has failed.
		wait("fail", nil)
		state := now()
		failed, n := sub(state)
		if text, _ := state["tasks"].([]any)[0].(object)["error"].(string); n < 2 || !strings.Contains(text, "it fails") || (name == "keeping") != (failed == working) {
			t.Errorf("%s: when it has failed it is in %s, with %d checkpoints: %s", name, failed, n, text)
		}
	}
}
