package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/mcp"
)

type sums struct{ A, B, Sum int }

func sumGraph() *graph.Graph[sums] {
	return graph.New[sums]("sum").
		AddNode("add", func(_ context.Context, s *sums) error { s.Sum = s.A + s.B; return nil }).
		AddEdge(graph.Start, "add").
		MustCompile()
}

func sumTool() tool.Tool {
	return agent.GraphTool(sumGraph(), "Adds two numbers.",
		func(s *sums, in pair) { s.A, s.B = in.A, in.B },
		func(s *sums) (int, error) { return s.Sum, nil })
}

// A graph and an agent are tools of an agent, over the Model Context Protocol
// too.
func TestGraphsAreServedAsTools(t *testing.T) {
	server, err := mcp.NewServer("test", "1", sumTool(), agent.AsTool(member(t, "echo", says("e"))))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	client, err := mcp.Connect(t.Context(), mcp.Config{Transport: server.Local()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	remote, err := client.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, tools := range map[string][]tool.Tool{"in the process": {sumTool(), agent.AsTool(member(t, "echo", says("e")))}, "over MCP": remote} {
		m := script(calls(call("1", "sum", `{"a":40,"b":2}`), call("2", "echo", `{"task":"hi"}`)), scripted.Text("done"))
		g := react(t, agent.ReAct[state]{Model: m, Tools: tools}, memory())
		snap, err := g.Thread("t").Invoke(t.Context(), g.Input(ask("go")))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		same(t, name+": the conversation", messages(snap), "user: go\nassistant: [1 sum{\"a\":40,\"b\":2}][2 echo{\"task\":\"hi\"}]\ntool: 42 (1)\ntool: e(hi) (2)\nassistant: done\n")
	}
}

// Outside of a graph nobody answers an agent's question.
func TestAQuestionOutsideOfAGraphIsAnError(t *testing.T) {
	n := 0
	g, err := agent.New(agent.ReAct[agent.State]{
		Name: "a", Model: script(scripted.Call("multiply", `{"a":1,"b":1}`)), Tools: []tool.Tool{counted(&n)}, Approve: agent.Approve("multiply"),
	}, memory())
	if err != nil {
		t.Fatal(err)
	}
	_, err = agent.AsTool(agent.Of(g, "")).Call(t.Context(), json.RawMessage(`{"task":"x"}`))
	var ie *graph.InterruptError
	if !errors.As(err, &ie) || n != 0 {
		t.Errorf("got %v", err)
	}
}

func TestToolsOfNoGraph(t *testing.T) {
	for _, bad := range []tool.Tool{agent.AsTool(nil), agent.GraphTool[sums, pair, int](nil, "", nil, nil)} {
		if err := tool.Check(bad); err == nil || !strings.Contains(err.Error(), "function") {
			t.Errorf("got %v", err)
		}
	}
}
