package agent_test

import (
	"context"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

// A callback may return the same answer again and again, to several runs at once.
func TestAnAnswerOfACallbackIsNotAltered(t *testing.T) {
	canned := &model.Response{Message: chat.Assistant("no")}
	for name, l := range map[string]agent.LLM[S]{
		"Before": {Model: scripted.New(), Use: aroundModel(func(context.Context, *S, *model.Request) (*model.Response, error) { return canned, nil }, nil)},
		"After": {Model: scripted.New(scripted.Text("x").Repeat()), Use: aroundModel(nil, func(context.Context, *S, *model.Request, *model.Response, error) (*model.Response, error) {
			return canned, nil
		})},
	} {
		b := graph.New[S]("g")
		agent.AddLLM(b, "a", l)
		g, err := b.AddEdge(graph.Start, "a").Compile(mem())
		g = ok(t, g, err)
		for _, text := range []string{"one", "two"} {
			if _, err := g.Thread(th).Invoke(t.Context(), input(text)); err != nil {
				t.Fatal(err)
			}
		}
		s, err := g.Thread(th).State(t.Context())
		if err != nil || s.State.Messages.String() != "user: one\nassistant: no\nuser: two\nassistant: no\n" {
			t.Errorf("%s: %v\n%s", name, err, s.State.Messages)
		}
		if canned.Message.ID != "" {
			t.Errorf("%s: the answer got the ID %q", name, canned.Message.ID)
		}
	}
}

// A callback that names another tool has approvals and the record speak of one
// and the model of another.
func TestACallbackMayNotMakeACallAnother(t *testing.T) {
	for _, change := range []func(c *chat.ToolCall){func(c *chat.ToolCall) { c.Name = "b" }, func(c *chat.ToolCall) { c.ID = "2" }} {
		var called []string
		m := scripted.New(scripted.Calls(call("1", "a", "{}")), scripted.Text("ok"))
		g, err := agent.New(agent.ReAct[S]{Model: m, Tools: []tool.Tool{logs("a", &called), logs("b", &called)}, OnError: agent.TellModelAll,
			Use: []agent.Middleware[S]{aroundTools[S](func(_ context.Context, c *chat.ToolCall) (*tool.Result, error) { change(c); return nil, nil }, nil)}})
		_, err = ok(t, g, err).Invoke(t.Context(), agent.Ask[S]("go"))
		if err == nil || !strings.Contains(err.Error(), "may change the arguments alone") || len(called) > 0 {
			t.Errorf("%v: called %v", err, called)
		}
	}
}
