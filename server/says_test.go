package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/server"
)

type essay struct {
	Topic string             `json:"topic"`
	Lines graph.List[string] `json:"lines"`
}

func essays(t *testing.T) *graph.Graph[essay] {
	t.Helper()
	b := graph.New[essay]("essays")
	b.AddNode("write", func(_ context.Context, s *essay) error {
		s.Lines.Add("A 100% honest account of " + s.Topic)
		if strings.HasPrefix(s.Topic, "long") {
			s.Lines.Add(strings.Repeat("x ", 10_000) + "amen")
		}
		return nil
	})
	b.AddEdge(graph.Start, "write")
	g, err := b.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// A thread has a title by its state, and is found by words of that and of all that its state says.
func TestThreadsHaveATitleAndAreFoundByWhatTheySay(t *testing.T) {
	for name, data := range map[string]func(testing.TB) string{"memory": func(testing.TB) string { return "memory" }, "postgres": ownSchema} {
		t.Run(name, func(t *testing.T) {
			guide, err := agent.New(agent.ReAct[agent.State]{Name: "guide", Model: scripted.New(scripted.Text("Take the night train.").Repeat())})
			if err != nil {
				t.Fatal(err)
			}
			c := start(t, server.Data(data(t)), server.Graph(essays(t), server.Titled("topic")), server.Graph(guide), quiet())
			names := map[string]string{}
			ran := func(name, graph string, input object) string {
				id := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
				call[any](c, "POST", "/threads/"+id+"/runs/wait", object{"assistant_id": graph, "input": input})
				names[id] = name
				return id
			}
			ran("rivers", "essays", object{"topic": "Rivers and\n  Überflüsse"})
			long := ran("long", "essays", object{"topic": "long " + strings.Repeat("story ", 50)})
			talk := ran("talk", "guide", object{"user_input": "How do I get to Oslo?"})
			for id, want := range map[string]string{long: "long " + strings.Repeat("story ", 15) + "stor…", talk: "How do I get to Oslo?"} {
				if got := call[object](c, "GET", "/threads/"+id, nil)["title"]; got != want {
					t.Errorf("the title is %q, not %q", got, want)
				}
			}
			found := func(query string) string {
				t.Helper()
				var all []string
				for _, th := range call[[]object](c, "POST", "/threads/search", object{"query": query, "select": []string{"thread_id", "title"}}) {
					all = append(all, names[th["thread_id"].(string)])
				}
				if n := call[float64](c, "POST", "/threads/count", object{"query": query}); int(n) != len(all) {
					t.Errorf("%q: %v are counted, and %q listed", query, n, all)
				}
				return strings.Join(all, " ")
			}
			for query, want := range map[string]string{
				"": "talk long rivers", "OSLO": "talk", "night get": "talk", "night rivers": "", "überflüsse": "rivers", "100% honest": "long rivers", "10_% honest": "",
				"amen": "long", "guide": "talk", long: "long", long[:4]: "", "human": "",
			} {
				if got := found(query); got != want {
					t.Errorf("%q finds %q, not %q", query, got, want)
				}
			}
			// What people call a thread goes before what its state says, which changes with it.
			call[any](c, "PATCH", "/threads/"+talk, object{"metadata": object{"title": "Holidays"}})
			if got := call[object](c, "GET", "/threads/"+talk, nil)["title"]; got != "Holidays" || found("holi") != "talk" || found("oslo") != "talk" {
				t.Errorf("the title is %q", got)
			}
			call[any](c, "POST", "/threads/"+long+"/state", object{"values": object{"topic": "Short"}, "as_node": "write"})
			if got := call[object](c, "GET", "/threads/"+long, nil)["title"]; got != "Short" || found("story short") != "long" {
				t.Errorf("the title is %q", got)
			}
			copied := call[object](c, "POST", "/threads/"+long+"/copy", nil)
			names[copied["thread_id"].(string)] = "copy"
			if copied["title"] != "Short" || found("short amen") != "copy long" {
				t.Errorf("the copy: %v, %q", copied["title"], found("short amen"))
			}
			for _, query := range []string{strings.Repeat("w ", 21), strings.Repeat("w", 5000)} {
				if status, _, text := c.do("POST", "/threads/search", object{"query": query}); status != http.StatusUnprocessableEntity {
					t.Errorf("%.10s: %d %s", query, status, text)
				}
			}
		})
	}
}

func TestATitleIsOfTheState(t *testing.T) {
	for path, wrong := range map[string]bool{"topic": false, "lines[0]": false, "title": true, ".": true} {
		s, err := server.New(t.Context(), server.Graph(essays(t), server.Titled(path)), quiet())
		if err == nil {
			defer s.Close(context.Background())
		}
		if (err != nil) != wrong || wrong && !strings.Contains(err.Error(), "it has lines, topic") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestWhatALargeStateSaysIsItsBeginningAndItsEnd(t *testing.T) {
	c := start(t, server.Graph(essays(t), server.Titled("lines[-1]")), quiet())
	id := call[object](c, "POST", "/threads", object{"metadata": object{"graph_id": "essays"}})["thread_id"].(string)
	lines := make([]string, 2000)
	for i := range lines {
		lines[i] = fmt.Sprintf("line%d \u00fc", i)
	}
	call[any](c, "POST", "/threads/"+id+"/state", object{"values": object{"topic": "numbers", "lines": lines}, "as_node": "write"})
	for query, want := range map[string]int{"numbers": 1, "line0 ü": 1, "line100": 1, "line1000": 0, "line1999": 1} {
		if got := call[float64](c, "POST", "/threads/count", object{"query": query}); int(got) != want {
			t.Errorf("%q finds %v", query, got)
		}
	}
	if got := call[object](c, "GET", "/threads/"+id, nil)["title"]; got != "line1999 ü" {
		t.Errorf("the title is %q", got)
	}
}
