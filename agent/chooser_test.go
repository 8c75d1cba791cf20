package agent_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

// chooser is a tool that hands a task to one of several agents.
type chooser struct {
	tool.Tool
	among []tool.Tool
}

func (c chooser) Unwrap() []tool.Tool { return c.among }

type handed struct {
	To   string `json:"to"`
	Task string `json:"task"`
}

func hand(among ...tool.Tool) tool.Tool {
	return chooser{tool.New("hand", "Hands a task over.", func(ctx context.Context, in handed) (string, error) {
		for _, one := range among {
			if one.Spec().Name != in.To {
				continue
			}
			args, err := json.Marshal(map[string]string{"task": in.Task})
			if err != nil {
				return "", err
			}
			res, err := one.Call(ctx, args)
			return res.Text(), err
		}
		return "", nil
	}), among}
}

// A tool that chooses among agents declares them by its Unwrap.
func TestTheAgentsThatAToolChoosesAmongAreFound(t *testing.T) {
	n := 0
	sub := func(name string) tool.Tool { return asking(t, name, &n) }
	m := script(calls(call("1", "hand", `{"to":"y","task":"do"}`)), scripted.Text("done"))
	g := react(t, agent.ReAct[state]{Model: m, Tools: []tool.Tool{hand(sub("x"), sub("y"))}}, memory())
	for _, name := range []string{"x", "y"} {
		if sub, ok := g.Subgraph("tools", name); !ok || sub.Name() != name {
			t.Errorf("agent %s is not found", name)
		}
	}
	snap, err := g.Thread("t").Invoke(t.Context(), g.Input(ask("go")))
	if err != nil || len(snap.Interrupts) != 1 {
		t.Fatalf("%v, %+v", err, snap)
	}
	nested, err := g.Thread("t").Nested(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for ns := range nested.Tasks[0].Subgraphs {
		at, err := g.Thread("t").Inside(ns).State(t.Context())
		found = err == nil && strings.Contains(string(at.State), "do")
	}
	if !found {
		t.Errorf("its run is not found: %+v", nested.Tasks[0])
	}
	snap, err = g.Thread("t").Invoke(t.Context(), g.Answer(graph.Answers{snap.Interrupts[0].ID: agent.ApprovalAnswer{Decisions: []agent.Decision{{Type: agent.ApproveCall}}}}))
	if err != nil || n != 1 {
		t.Fatalf("%v, called %d times", err, n)
	}
	same(t, "the conversation", messages(snap), "user: go\nassistant: [1 hand{\"to\":\"y\",\"task\":\"do\"}]\ntool: y says 4 (1)\nassistant: done\n")
}
