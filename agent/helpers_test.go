package agent_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool"
)

type (
	S    = agent.State
	none = struct{}
)

const th = "t"

func mem() graph.Option { return graph.WithCheckpointer(checkpoint.NewMemory()) }

func ok(t *testing.T, g *graph.Graph[S], err error) *graph.Graph[S] {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func input(text string) graph.Request[S] { return graph.Requests[S]{}.Input(agent.Ask[S](text)) }

func logs(name string, to *[]string) tool.Tool {
	return tool.New(name, name, func(context.Context, none) (string, error) { *to = append(*to, name); return name + " done", nil })
}

// echo answers "<name>: <last message>".
func echo(name string) *agent.Agent {
	g, err := agent.New(agent.ReAct[S]{Name: name, Model: model.Func(func(_ context.Context, r *model.Request) (*model.Response, error) {
		return &model.Response{Message: chat.Assistant(name + ": " + r.Messages[len(r.Messages)-1].Text())}, nil
	})})
	if err != nil {
		panic(err)
	}
	return agent.Of(g, name)
}

// sound reports what a provider would refuse: each call has exactly one result,
// right behind its message, and each result a call.
func sound(ms []chat.Message) error {
	open := map[string]bool{}
	for i, m := range ms {
		if r, ok := m.ToolResult(); ok {
			if !open[r.CallID] {
				return fmt.Errorf("message %d: a result of %q, which no call waits for", i, r.CallID)
			}
			delete(open, r.CallID)
			continue
		}
		if len(open) > 0 {
			return fmt.Errorf("message %d: calls without results: %v", i, open)
		}
		for _, c := range m.ToolCalls() {
			open[c.ID] = true
		}
	}
	return nil
}
