package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server"
)

// A thread that waits inside of a subgraph is shown, edited there and answered.
func TestSubgraphsAreShownAndEdited(t *testing.T) {
	type inner struct {
		Word string `json:"word"`
	}
	type outer struct {
		Text string `json:"text"`
	}
	in := graph.New[inner]("inner")
	in.AddNode("ask", func(ctx context.Context, s *inner) error {
		word, err := graph.Interrupt[string](ctx, "word", s.Word)
		s.Word = word + s.Word
		return err
	}).AddEdge(graph.Start, "ask")
	out := graph.New[outer]("outer")
	graph.AddSubgraph(out, "sub", in.MustCompile(), graph.Mapping[outer, inner]{
		In:  func(p *outer, c *inner) { c.Word = p.Text },
		Out: func(c *inner, p *outer) { p.Text = c.Word },
	})
	out.AddEdge(graph.Start, "sub")
	c := start(t, server.Graph(out.MustCompile()))

	subgraphs := call[map[string]object](c, "GET", "/assistants/outer/subgraphs", nil)
	if s := subgraphs["sub"]; s["graph_id"] != "inner" || s["state_schema"].(object)["properties"].(object)["word"] == nil {
		t.Errorf("subgraphs: %v", subgraphs)
	}
	drawn := call[object](c, "GET", "/assistants/outer/graph?xray=true", nil)
	if ids := drawn["nodes"].([]any); ids[1].(object)["id"] != "sub:ask" {
		t.Errorf("drawn: %v", drawn)
	}
	thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	call[object](c, "POST", "/threads/"+thread+"/runs/wait", object{"assistant_id": "outer", "input": object{"text": "x"}})
	task := call[object](c, "GET", "/threads/"+thread+"/state", nil)["tasks"].([]any)[0].(object)
	if task["state"] != nil || task["checkpoint"] == nil {
		t.Fatalf("closed: %v", task)
	}
	ns := task["checkpoint"].(object)["checkpoint_ns"]
	nested := call[object](c, "GET", "/threads/"+thread+"/state?subgraphs=true", nil)["tasks"].([]any)[0].(object)
	if got := nested["state"].(object)["values"].(object)["word"]; got != "x" || nested["checkpoint"] != nil {
		t.Errorf("open: %v", nested)
	}
	call[object](c, "POST", "/threads/"+thread+"/state", object{"values": object{"word": "y"}, "checkpoint": object{"checkpoint_ns": ns}})
	part := call[object](c, "POST", "/threads/"+thread+"/state/checkpoint", object{"checkpoint": object{"checkpoint_ns": ns}})
	if got := part["values"].(object)["word"]; got != "y" {
		t.Errorf("edited: %v", part)
	}
	if got := call[object](c, "POST", "/threads/"+thread+"/runs/wait", object{"assistant_id": "outer", "command": object{"resume": "a"}}); got["text"] != "ay" {
		t.Errorf("after the answer: %v", got)
	}
	if status, _, text := c.do("POST", "/threads/"+thread+"/state/checkpoint", object{"checkpoint": object{"checkpoint_ns": "/nowhere"}}); status != 404 {
		t.Errorf("an unknown namespace: %d %s", status, text)
	}
}

// An edit as the node that asks in a subgraph, at the checkpoint that the thread's state
// names for it, is as if that node had ended: a run without input goes on behind it.
func TestAnEditAsANodeInsideASubgraphLetsTheThreadGoOn(t *testing.T) {
	type words struct {
		Words graph.List[string] `json:"words"`
	}
	in := graph.New[words]("inner")
	in.AddNode("ask", func(ctx context.Context, s *words) error {
		word, err := graph.Interrupt[string](ctx, "word", nil)
		s.Words.Add(word)
		return err
	})
	in.AddNode("then", func(_ context.Context, s *words) error { s.Words.Add("then"); return nil })
	in.AddEdge(graph.Start, "ask").AddEdge("ask", "then")
	out := graph.New[words]("outer")
	graph.AddShared(out, "sub", in.MustCompile(), func(s *words) *words { return s }).AddEdge(graph.Start, "sub")
	c := start(t, server.Graph(out.MustCompile()))
	thread := "/threads/" + call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	call[object](c, "POST", thread+"/runs/wait", object{"assistant_id": "outer", "input": object{"words": []string{"in"}}})
	nested := call[object](c, "GET", thread+"/state?subgraphs=true", nil)["tasks"].([]any)[0].(object)
	at := nested["state"].(object)["checkpoint"].(object)
	if at["checkpoint_id"] == nil {
		t.Fatalf("the subgraph's checkpoint: %v", at)
	}
	call[object](c, "POST", thread+"/state", object{"values": object{"words": []string{"edited"}}, "as_node": "ask", "checkpoint": at})
	state := call[object](c, "GET", thread+"/state", nil)
	if asked := state["interrupts"].([]any); len(asked) > 0 || fmt.Sprint(state["next"]) != "[sub]" {
		t.Errorf("after the edit: %v next, %v", state["next"], asked)
	}
	if got := call[object](c, "POST", thread+"/runs/wait", object{"assistant_id": "outer", "input": nil}); fmt.Sprint(got["words"]) != "[in edited then]" {
		t.Errorf("the thread went on to %v", got)
	}
}

// What is drawn of an opened subgraph hangs together with what is around it, whether
// its first and last nodes have edges to the start and the end or not.
func TestAnOpenedSubgraphIsDrawnWithTheEdgesAroundIt(t *testing.T) {
	type state struct{ N int }
	pass := func(context.Context, *state) error { return nil }
	part := func(open bool) *graph.Graph[state] {
		b := graph.New[state]("part")
		b.AddNode("first", pass)
		b.AddNode("last", pass)
		b.AddEdge("first", "last")
		if !open {
			return b.AddEdge(graph.Start, "first").MustCompile()
		}
		return b.AddConditionalEdges(graph.Start, func(context.Context, *state) (graph.Command, error) { return graph.Goto("first"), nil }).MustCompile()
	}
	b := graph.New[state]("outer")
	b.AddNode("before", pass).AddNode("beside", pass)
	graph.AddSubgraph(b, "sub", part(false), graph.Mapping[state, state]{})
	graph.AddSubgraph(b, "open", part(true), graph.Mapping[state, state]{})
	b.AddNode("after", pass)
	b.AddEdge(graph.Start, "before").AddEdge(graph.Start, "beside").AddEdge("before", "sub").AddEdge("sub", "open")
	b.AddJoin([]string{"open", "beside"}, "after").AddEdge("after", graph.End)
	c := start(t, server.Graph(b.MustCompile()))
	var edges []string
	for _, e := range call[object](c, "GET", "/assistants/outer/graph?xray=true", nil)["edges"].([]any) {
		edges = append(edges, fmt.Sprintf("%s>%s", e.(object)["source"], e.(object)["target"]))
	}
	slices.Sort(edges)
	want := "__start__>before __start__>beside after>__end__ before>sub:first beside>after " +
		"open:first>open:last open:last>after sub:first>sub:last sub:last>open:first"
	if got := strings.Join(edges, " "); got != want {
		t.Errorf("edges: %s\nwant:  %s", got, want)
	}
}

// Events of a subgraph carry the tasks above them in their names, so that parallel
// runs of one subgraph are told apart.
func TestStreamsNameTheTasksAboveASubgraph(t *testing.T) {
	type inner struct {
		Word string `json:"word"`
	}
	type outer struct {
		Text string `json:"text"`
	}
	in := graph.New[inner]("inner")
	in.AddNode("say", func(ctx context.Context, s *inner) error {
		s.Word += "!"
		return graph.Emit(ctx, s.Word)
	}).AddEdge(graph.Start, "say")
	mapping := graph.Mapping[outer, inner]{In: func(p *outer, c *inner) { c.Word = p.Text }}
	out := graph.New[outer]("outer")
	graph.AddSubgraph(out, "one", in.MustCompile(), mapping)
	graph.AddSubgraph(out, "two", in.MustCompile(), mapping)
	out.AddEdge(graph.Start, "one").AddEdge(graph.Start, "two")
	c := start(t, server.Graph(out.MustCompile()))
	_, _, text := c.do("POST", "/runs/stream", object{
		"assistant_id": "outer", "input": object{"text": "x"}, "stream_mode": []string{"tasks", "custom"}, "stream_subgraphs": true,
	})
	tasks, said := map[string]string{}, map[string]string{} // node, by task
	event := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "event: "); ok {
			event = name
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		if event == "tasks" {
			var task struct{ ID, Name string }
			if err := json.Unmarshal([]byte(data), &task); err != nil {
				t.Fatal(err)
			}
			tasks[task.ID] = task.Name
		}
		if place, ok := strings.CutPrefix(event, "custom|"); ok {
			node, task, _ := strings.Cut(place, ":")
			said[task] = node
		}
	}
	if len(said) != 2 || !maps.Equal(said, tasks) {
		t.Errorf("tasks %v, said %v:\n%s", tasks, said, text)
	}
}

// The place of a subgraph has one name: in streams, in states, and where clients ask for
// its history and state, also where a node runs several graphs or the subgraph keeps its
// state. It begins with the node and the task's ID.
func TestAPlaceHasOneName(t *testing.T) {
	type part struct {
		Word string `json:"word"`
	}
	type whole struct {
		Text string `json:"text"`
	}
	in := graph.New[part]("inner")
	in.AddNode("ask", func(ctx context.Context, s *part) (err error) {
		s.Word, err = graph.Interrupt[string](ctx, "what", "What?")
		return err
	})
	inner := in.AddEdge(graph.Start, "ask").MustCompile()
	out := graph.New[whole]("outer")
	out.AddNode("two", func(ctx context.Context, s *whole) error {
		_, err := graph.Call(ctx, "left|right", inner, nil)
		_, err2 := graph.Call(ctx, "call:1", inner, nil)
		return errors.Join(err, err2)
	}, graph.Contains(inner))
	graph.AddSubgraph(out, "one", inner, graph.Mapping[whole, part]{})
	keeping := in.MustCompile(graph.KeepState())
	graph.AddSubgraph(out, "keeps", keeping, graph.Mapping[whole, part]{})
	out.AddEdge(graph.Start, "two").AddEdge(graph.Start, "one").AddEdge(graph.Start, "keeps")
	c := start(t, server.Graph(out.MustCompile()), quiet())
	thread := newThread()
	at := "/threads/" + thread
	s := c.follow(thread, object{"channels": []string{"tasks", "checkpoints", "lifecycle"}})
	c.must(thread, "run.start", object{"assistant_id": "outer", "input": object{"text": "x"}})
	places := map[string]bool{}
	ids := map[string]bool{}
	for _, e := range s.until(told.ending) {
		if len(e.Params.Namespace) > 0 {
			places[strings.Join(e.Params.Namespace, "|")] = true
		} else if e.Method == "tasks" {
			ids[fmt.Sprint(e.data()["name"], ":", e.data()["id"])] = true
		}
	}
	if len(places) != 4 || len(ids) != 3 {
		t.Fatalf("places %v of tasks %v", places, ids)
	}
	state := call[object](c, "GET", at+"/state", nil)
	for _, task := range state["tasks"].([]any) {
		task := task.(object)
		ns := task["checkpoint"].(object)["checkpoint_ns"].(string)
		if name := fmt.Sprint(task["name"]); !ids[name+":"+fmt.Sprint(task["id"])] || ns != "keeps" && !places[ns] {
			t.Errorf("task %v is in %s, streams told of %v and %v", task["id"], ns, ids, places)
		}
	}
	for ns := range places {
		id, _, _ := strings.Cut(ns, "#")
		if !ids[id] {
			t.Errorf("no task is called %s: %v", id, ids)
		}
		history := call[[]object](c, "POST", at+"/history", object{"checkpoint": object{"checkpoint_ns": ns}})
		inside := call[object](c, "POST", at+"/state/checkpoint", object{"checkpoint": object{"checkpoint_ns": ns}})
		if len(history) == 0 || len(inside["tasks"].([]any)) != 1 || checkpointID(inside["checkpoint"]) != checkpointID(history[0]["checkpoint"]) {
			t.Errorf("in %s there is %v, of %d checkpoints", ns, inside, len(history))
		}
		if got := history[0]["checkpoint"].(object)["checkpoint_ns"]; got != ns && got != "keeps" {
			t.Errorf("in %s it is in %s", ns, got)
		}
		if got := c.must(thread, "state.get", object{"namespace": []string{ns}})["values"].(object); got["word"] != "" {
			t.Errorf("the state in %s: %v", ns, got)
		}
	}
}
