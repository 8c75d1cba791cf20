package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

// dear says something, calls tools, and costs in tokens for each call.
func dear(in int, says string, cs ...chat.ToolCall) scripted.Reply {
	m := chat.Assistant(says, cs...)
	m.Model = "m"
	return scripted.Message(m).Usage(chat.Usage{Input: in, Output: 1})
}

// dearAgent is an agent with such a model.
func dearAgent(t *testing.T, name string, replies ...scripted.Reply) *agent.Agent {
	t.Helper()
	g, err := agent.New(agent.ReAct[agent.State]{Name: name, Model: script(replies...)})
	if err != nil {
		t.Fatal(err)
	}
	return agent.Of(g, "")
}

func paths(u agent.Usage) string {
	var out []string
	for _, x := range u {
		out = append(out, fmt.Sprintf("%s %d*%d", x.Path, x.Calls, x.Input))
	}
	return strings.Join(out, ", ")
}

// Whatever an agent is made of, its state says what all models in it have used,
// and where.
func TestUsageOfAgentsInsideIsSummedUp(t *testing.T) {
	one := func(name string, in int) *agent.Agent { return dearAgent(t, name, dear(in, name)) }
	team := func() []*agent.Agent { return []*agent.Agent{one("a", 10), one("b", 20)} }
	type made = func(opts ...graph.Option) (*graph.Graph[agent.State], error)
	for name, c := range map[string]struct {
		make made
		want string
	}{
		"an agent alone": {func(opts ...graph.Option) (*graph.Graph[agent.State], error) {
			n := 0
			return agent.New(agent.ReAct[agent.State]{
				Model: script(dear(1, "", call("1", "multiply", `{"a":1,"b":2}`)), dear(2, "2")), Tools: []tool.Tool{counted(&n)},
			}, opts...)
		}, "agent 2*3"},
		"with a structured answer": {func(opts ...graph.Option) (*graph.Graph[agent.State], error) {
			out, err := model.OutputOf[pair]()
			if err != nil {
				return nil, err
			}
			return agent.New(agent.ReAct[agent.State]{Model: script(dear(1, "x"), dear(2, `{"a":1,"b":2}`)), Output: out}, opts...)
		}, "agent 1*1, structure 1*2"},
		"a chain": {func(opts ...graph.Option) (*graph.Graph[agent.State], error) {
			return agent.Chain("c", team(), opts...)
		}, "a/agent 1*10, b/agent 1*20"},
		"parallel": {func(opts ...graph.Option) (*graph.Graph[agent.State], error) {
			return agent.Parallel("p", team(), opts...)
		}, "a/agent 1*10, b/agent 1*20"},
		"a cycle": {func(opts ...graph.Option) (*graph.Graph[agent.State], error) {
			return agent.NewCycle(agent.Cycle{Name: "c", MaxRounds: 2, Agents: []*agent.Agent{dearAgent(t, "a", dear(10, "x"), dear(11, "y"))}}, opts...)
		}, "a/agent 2*21"},
		"a supervisor": {func(opts ...graph.Option) (*graph.Graph[agent.State], error) {
			return agent.NewSupervisor(agent.Supervisor{
				Model:  script(dear(1, "", call("1", "a", `{"task":"x"}`), call("2", "b", `{"task":"y"}`)), dear(2, "done")),
				Agents: team(),
			}, opts...)
		}, "a/agent 1*10, b/agent 1*20, supervisor 2*3"},
		"a swarm": {func(opts ...graph.Option) (*graph.Graph[agent.State], error) {
			return agent.NewSwarm(agent.Swarm{Agents: []agent.SwarmAgent{
				{ReAct: agent.ReAct[agent.State]{Name: "a", Model: script(dear(10, "", call("1", agent.HandOffTool("b"), "{}")))}},
				{ReAct: agent.ReAct[agent.State]{Name: "b", Model: script(dear(20, "done"))}},
			}}, opts...)
		}, "a 1*10, b 1*20"},
		"agents as tools, one in another": {func(opts ...graph.Option) (*graph.Graph[agent.State], error) {
			middle, err := agent.New(agent.ReAct[agent.State]{
				Name: "middle", Model: script(dear(10, "", call("i", "inner", `{"task":"y"}`)), dear(10, "half")), Tools: []tool.Tool{agent.AsTool(one("inner", 100))},
			})
			if err != nil {
				return nil, err
			}
			return agent.New(agent.ReAct[agent.State]{
				Model: script(dear(1, "", call("1", "middle", `{"task":"x"}`)), dear(2, "done")),
				Tools: []tool.Tool{tool.Limit(agent.AsTool(agent.Of(middle, "")), 1000)},
			}, opts...)
		}, "agent 2*3, tools/middle/agent 2*20, tools/middle/tools/inner/agent 1*100"},
		"a graph as a tool, and a tool that asks a model itself": {func(opts ...graph.Option) (*graph.Graph[agent.State], error) {
			inner, err := agent.New(agent.ReAct[agent.State]{Name: "inner", Model: script(dear(10, "x"))})
			if err != nil {
				return nil, err
			}
			own := script(dear(20, "y"))
			return agent.New(agent.ReAct[agent.State]{
				Parallel: 2,
				Model:    script(dear(1, "", call("1", "inner", `{}`), call("2", "own", `{}`)), dear(2, "done")),
				Tools: []tool.Tool{
					agent.GraphTool(inner, "", func(s *agent.State, _ struct{}) { s.UserInput = "x" }, func(s *agent.State) (string, error) { return s.LastResponse.Get(), nil }),
					tool.New("own", "", func(ctx context.Context, _ struct{}) (string, error) {
						resp, err := own.Generate(ctx, &model.Request{Messages: []chat.Message{chat.User("x")}})
						if err != nil || !agent.Spend(ctx, agent.UsedBy("own", resp)) {
							return "", fmt.Errorf("not counted: %w", err)
						}
						return resp.Message.Text(), nil
					}),
				},
			}, opts...)
		}, "agent 2*3, tools/inner/agent 1*10, tools/own 1*20"},
		"chains in a chain": {func(opts ...graph.Option) (*graph.Graph[agent.State], error) {
			inner, err := agent.Parallel("inner", team())
			if err != nil {
				return nil, err
			}
			return agent.Chain("outer", []*agent.Agent{agent.Of(inner, ""), one("last", 1)}, opts...)
		}, "inner/a/agent 1*10, inner/b/agent 1*20, last/agent 1*1"},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := c.make(memory())
			snap := invoke(t, g, err, "go", "t")
			u := snap.State.Usage.Get()
			if paths(u) != c.want {
				t.Errorf("used %s\nwant %s", paths(u), c.want)
			}
			stored, err := g.Thread("t").State(t.Context())
			if err != nil || !reflect.DeepEqual(stored.State.Usage.Get(), u) {
				t.Errorf("stored is %v, %v", stored.State.Usage.Get(), err)
			}
		})
	}
}

func TestUsageOfASingleNodeAndASummary(t *testing.T) {
	inner := dearAgent(t, "inner", dear(10, "x"))
	g := single(t, agent.ReActNode{Model: script(dear(1, "", call("1", "inner", `{"task":"x"}`)), dear(2, "done")), Tools: []tool.Tool{agent.AsTool(inner)}})
	snap, err := g.Invoke(t.Context(), question("go"))
	if err != nil {
		t.Fatal(err)
	}
	if got := paths(snap.State.Usage.Get()); got != "agent 2*3, agent/inner/agent 1*10" {
		t.Error(got)
	}

	b := graph.New[state]("g")
	agent.AddSummary(b, "shorten", agent.Summary{Model: script(dear(5, "short")), MaxTokens: 1}, func(s *state) *chat.History { return &s.Messages })
	agent.AddLLM(b, "ask", agent.LLM[state]{Model: script(dear(1, "ok"))})
	long, err := compile(t, b.AddEdge(graph.Start, "shorten").AddEdge("shorten", "ask")).Invoke(t.Context(), say(chat.User("one"), chat.Assistant("two"), chat.User("three")))
	if err != nil {
		t.Fatal(err)
	}
	if got := paths(long.State.Usage.Get()); got != "ask 1*1, shorten 1*5" {
		t.Error(got)
	}
}

func TestUsageOverAMap(t *testing.T) {
	b := graph.NewSchemaGraph("g", agent.MessagesSchema())
	agent.AddSchemaLLM(b, "ask", agent.LLM[agent.State]{Model: script(dear(1, "ok"))})
	agent.AddSchemaAgent(b, "sub", dearAgent(t, "sub", dear(10, "s")), agent.SubAgent[agent.State]{})
	g, err := b.AddEdge(graph.Start, "ask").AddEdge("ask", "sub").Compile()
	if err != nil {
		t.Fatal(err)
	}
	snap, err := g.Invoke(t.Context(), set(graph.MapState{agent.KeyUserInput: "go"}))
	if err != nil {
		t.Fatal(err)
	}
	u, _ := snap.State.Get(agent.KeyUsage).(agent.Usage)
	if got := paths(u); got != "ask 1*1, sub/agent 1*10" {
		t.Error(got)
	}
}

// A question in an agent, and a node that runs again, count no call twice.
func TestUsageCountsEachCallOnce(t *testing.T) {
	n := 0
	flaky := tool.New("flaky", "", func(context.Context, struct{}) (string, error) {
		if n++; n == 1 {
			return "", errors.New("no luck")
		}
		return "ok", nil
	})
	asking := tool.New("asking", "", func(ctx context.Context, _ struct{}) (string, error) { return graph.Interrupt[string](ctx, "q", nil) })
	sub, err := agent.New(agent.ReAct[agent.State]{Name: "sub", Model: script(dear(10, "", call("1", "asking", "{}")), dear(10, "x")), Tools: []tool.Tool{asking}})
	if err != nil {
		t.Fatal(err)
	}
	g := react(t, agent.ReAct[state]{
		Model: script(dear(1, "", call("1", "sub", `{"task":"x"}`), call("2", "flaky", "{}")), dear(1, "done"), dear(1, "again")),
		Tools: []tool.Tool{agent.AsTool(agent.Of(sub, "")), flaky},
	}, memory())
	thread := g.Thread("t")
	if snap, err := thread.Invoke(t.Context(), thread.Input(ask("go"))); err != nil || len(snap.Interrupts) == 0 || paths(snap.State.Usage.Get()) != "agent 1*1" {
		t.Fatal(err)
	}
	if _, err := thread.Invoke(t.Context(), thread.Answer("yes")); err == nil {
		t.Fatal("the tool didn't fail")
	}
	first, err := thread.Invoke(t.Context(), thread.Continue())
	if err != nil || paths(first.State.Usage.Get()) != "agent 2*2, tools/sub/agent 2*20" {
		t.Fatalf("%v, used %s", err, paths(first.State.Usage.Get()))
	}
	second, err := thread.Invoke(t.Context(), thread.Input(ask("more")))
	if err != nil {
		t.Fatal(err)
	}
	if got := paths(second.State.Usage.Get().Since(first.State.Usage.Get())); got != "agent 1*1" {
		t.Errorf("the second turn used %s", got)
	}
}

func TestSumsOfUsage(t *testing.T) {
	u := agent.Usage{
		{Path: "a", Model: "m", Calls: 2, Usage: chat.Usage{Input: 1000, Output: 100}},
		{Path: "a/b", Model: "n", Calls: 1, Usage: chat.Usage{Input: 10, CacheRead: 5, Reasoning: 3}},
		{Path: "ab", Model: "m", Calls: 1, Usage: chat.Usage{CacheWrite: 1}},
	}
	if u.Calls() != 4 || u.Total() != (chat.Usage{Input: 1010, Output: 100, CacheRead: 5, CacheWrite: 1, Reasoning: 3}) {
		t.Error(u.Calls(), u.Total())
	}
	if got := u.Under("a"); len(got) != 2 || got[1].Path != "a/b" {
		t.Error(got)
	}
	prices := map[string]model.Prices{"m": {Input: 1, Output: 10}, "n": {Free: true}}
	if cost, err := u.Cost(prices); err != nil || math.Abs(cost-0.002001) > 1e-12 {
		t.Error(cost, err)
	}
	delete(prices, "n")
	var pe *agent.PriceError
	if _, err := u.Cost(prices); !errors.As(err, &pe) || pe.Model != "n" || !strings.Contains(err.Error(), `"m"`) {
		t.Error(err)
	}
	data, err := json.Marshal(u)
	var back agent.Usage
	if err != nil || json.Unmarshal(data, &back) != nil || !reflect.DeepEqual(u, back) {
		t.Errorf("%s, %v", data, err)
	}
	if want := `{"path":"a","model":"m","calls":2,"input_tokens":1000,"output_tokens":100}`; !strings.Contains(string(data), want) {
		t.Errorf("%s lacks %s", data, want)
	}
	if len(u.Since(u)) != 0 {
		t.Error(u.Since(u))
	}
}

// A call of a model can be watched in the stream of a run, in agents inside too.
func TestModelCallsAreEvents(t *testing.T) {
	down := errors.New("down")
	sub := dearAgent(t, "sub", scripted.Error(down))
	g := react(t, agent.ReAct[state]{
		Model: script(dear(7, "", call("1", "sub", `{"task":"x"}`)), dear(1, "done")), Tools: []tool.Tool{agent.AsTool(sub)}, OnError: agent.TellModel,
	})
	var got []string
	watch := func(opts ...graph.StreamOption) {
		for ev, err := range g.Stream(t.Context(), ask("go"), append(opts, graph.Modes(graph.ModeCustom))...) {
			if err != nil {
				t.Fatal(err)
			}
			where := strings.Join(append(ev.Path, ev.Node), "/")
			switch v := ev.Value.(type) {
			case agent.ModelStarted:
				got = append(got, fmt.Sprintf("%s asks with %d messages and %d tools", where, len(v.Request.Messages), len(v.Request.Tools)))
			case agent.ModelEnded:
				if v.Duration <= 0 || v.Message == "" {
					t.Errorf("%+v", v)
				}
				got = append(got, fmt.Sprintf("%s: %s %v %v %v", where, v.Model, v.Usage, v.Finish, v.Err))
				data, err := json.Marshal(v)
				if err != nil || !strings.HasPrefix(string(data), `{"type":"model_ended","message_id":"msg_`) || (v.Err != nil) != strings.Contains(string(data), `"error":"down"`) {
					t.Errorf("%s, %v", data, err)
				}
			}
		}
	}
	watch(agent.ModelEvents())
	same(t, "what was told", strings.Join(got, "\n")+"\n", `
		agent asks with 2 messages and 1 tools
		agent: m &{7 1 0 0 0} tool_calls <nil>
		tools/agent asks with 1 messages and 0 tools
		tools/agent:  <nil>  down
		agent asks with 4 messages and 1 tools
		agent: m &{1 1 0 0 0} stop <nil>
	`+"")
}

func TestModelCallsAreNoEventsUnlessAskedFor(t *testing.T) {
	g := react(t, agent.ReAct[state]{Model: script(dear(7, "done"))})
	for ev, err := range g.Stream(t.Context(), ask("go"), graph.Modes(graph.ModeCustom)) {
		t.Errorf("%+v, %v", ev, err)
	}
}

// The usage of a thread has what models are asked for a node, by whatever it calls.
func TestANodesCallsOfModelsAreCountedWhereverTheyAreMade(t *testing.T) {
	answer := func(ctx context.Context) error {
		_, _, err := model.Generate[string](ctx, script(dear(10, `{"value": "yes"}`)), &model.Request{Messages: []chat.Message{chat.User("?")}})
		return err
	}
	once := func(ctx context.Context) error {
		_, err := agent.Once(ctx, "step", "ask", func(ctx context.Context, _ string) (bool, error) { return true, answer(ctx) })
		return err
	}
	for name, c := range map[string]struct {
		f    func(ctx context.Context) error
		want string
	}{
		"by Generate": {answer, "n 1*10"},
		"by Count": {func(ctx context.Context) error {
			resp, err := script(dear(5, "yes")).Generate(ctx, &model.Request{})
			if !model.Count(ctx, "lookup", resp) {
				t.Error("nobody counts")
			}
			return err
		}, "n/lookup 1*5"},
		"in a step that is recorded": {once, "n/step 1*10"},
		"by what fails, and is left": {func(ctx context.Context) error {
			_, _, err := model.Generate[int](ctx, script(dear(3, "no number"), dear(4, "nor this")), &model.Request{Messages: []chat.Message{chat.User("?")}}, model.Repair(1))
			if err == nil {
				t.Error("a text is no number")
			}
			return nil
		}, "n 2*7"},
		"by nothing, as it was metered for another": {func(ctx context.Context) error {
			ctx, used := agent.Metered(ctx)
			err := answer(ctx)
			if got := paths(used()); got != " 1*10" {
				t.Errorf("metered %q", got)
			}
			return err
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			down := errors.New("down")
			b := graph.New[agent.State]("g")
			b.AddNode("n", agent.Counted(func(ctx context.Context, _ *agent.State) error {
				if err := c.f(ctx); err != nil {
					return err
				}
				err := down
				down = nil
				return err
			}))
			b.AddEdge(graph.Start, "n")
			g, err := b.Compile(graph.WithCheckpointer(checkpoint.NewMemory()))
			if err != nil {
				t.Fatal(err)
			}
			th := g.Thread("t")
			snap, err := th.Invoke(t.Context(), th.Input(func(*agent.State) error { return nil }))
			if err == nil || len(snap.State.Usage.Get()) != 0 {
				t.Fatalf("%v: a node that failed has used %v", err, snap.State.Usage.Get())
			}
			if snap, err = th.Invoke(t.Context(), th.Continue()); err != nil {
				t.Fatal(err)
			}
			if got := paths(snap.State.Usage.Get()); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
	if model.Count(t.Context(), "", nil) || agent.Spend(t.Context(), nil) {
		t.Error("outside of a node nobody counts")
	}
}
