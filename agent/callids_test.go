package agent_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

func TestBadIDsDoNotSpoilTheNextRequest(t *testing.T) {
	for _, id := range []string{"", "1"} {
		for _, max := range []int{0, 1} {
			var last *model.Request
			g, err := agent.New(agent.ReAct[S]{MaxIterations: max, Tools: []tool.Tool{logs("x", new([]string))},
				Model: model.Func(func(_ context.Context, r *model.Request) (*model.Response, error) {
					if last = r; r.Messages[len(r.Messages)-1].Text() == "go" {
						return &model.Response{Message: chat.Assistant("", call(id, "x", "{}"), call(id, "x", "{}"))}, nil
					}
					return &model.Response{Message: chat.Assistant("fine")}, nil
				})}, mem())
			_, _ = ok(t, g, err).Thread(th).Invoke(t.Context(), input("go"))
			_, err = g.Thread(th).Invoke(t.Context(), input("what now?"))
			if bad := sound(last.Messages); err != nil || bad != nil {
				t.Errorf("ID %q, MaxIterations %d: %v, %v", id, max, err, bad)
			}
		}
	}
}

func TestASingleNodeWhoseModelUsesAnIDAgain(t *testing.T) {
	type R struct{ agent.Scratch }
	for _, crash := range []bool{false, true} {
		replies := []scripted.Reply{scripted.Calls(call("0", "sub", `{"task":"one"}`)), scripted.Calls(call("0", "sub", `{"task":"two"}`))}
		if crash {
			replies = slices.Insert(replies, 1, scripted.Error(errors.New("503")))
		}
		b := graph.New[R]("g")
		agent.AddReAct(b, "r", agent.ReActNode{Model: scripted.New(append(replies, scripted.Text("done"))...), Tools: []tool.Tool{agent.AsTool(echo("sub"))}})
		g := b.AddEdge(graph.Start, "r").MustCompile(mem())
		s, err := g.Thread(th).Invoke(t.Context(), g.Input(func(r *R) error {
			r.UserInput = "q"
			return nil
		}))
		if crash {
			s, err = g.Thread(th).Invoke(t.Context(), g.Continue())
		}
		if err != nil {
			t.Errorf("crash %v: %v", crash, err)
			continue
		}
		if got := string(s.State.Scratchpad.Slice()[3].Observation); got != `"sub: two"` {
			t.Errorf("crash %v: task two got %s", crash, got)
		}
	}
}
