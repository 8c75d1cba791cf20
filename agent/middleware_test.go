package agent_test

import (
	"context"
	"errors"
	"slices"
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

// aroundModel is a pair of callbacks as middleware: before may answer in the model's
// stead, after may replace what comes of it.
func aroundModel[S any](before func(context.Context, *S, *model.Request) (*model.Response, error), after func(context.Context, *S, *model.Request, *model.Response, error) (*model.Response, error)) []agent.Middleware[S] {
	return []agent.Middleware[S]{{Name: "callbacks", WrapModel: func(ctx context.Context, s *S, req *model.Request, call agent.CallModel) (resp *model.Response, err error) {
		if before != nil {
			if resp, err = before(ctx, s, req); err != nil {
				return nil, err
			}
		}
		if resp == nil {
			resp, err = call(ctx, req)
		}
		if after == nil || errors.Is(err, graph.ErrInterrupted) {
			return resp, err
		}
		replaced, afterErr := after(ctx, s, req, resp, err)
		if replaced != nil || afterErr != nil {
			return replaced, afterErr
		}
		return resp, err
	}}}
}

// aroundTools is the same for tools.
func aroundTools[S any](before func(context.Context, *chat.ToolCall) (*tool.Result, error), after func(context.Context, chat.ToolCall, *tool.Result, error) (*tool.Result, error)) agent.Middleware[S] {
	return agent.Middleware[S]{Name: "tool callbacks", WrapTool: func(ctx context.Context, c chat.ToolCall, call agent.CallTool) (r *tool.Result, err error) {
		if before != nil {
			if r, err = before(ctx, &c); err != nil {
				return nil, err
			}
		}
		if r == nil {
			r, err = call(ctx, c)
		}
		if after == nil || errors.Is(err, graph.ErrInterrupted) {
			return r, err
		}
		replaced, afterErr := after(ctx, c, r, err)
		if replaced != nil || afterErr != nil {
			return replaced, afterErr
		}
		return r, err
	}}
}

// nodes are nodes before and after the model; nil: none.
func nodes[S any](before, after func(context.Context, *S) error) []agent.Middleware[S] {
	onward := func(f func(context.Context, *S) error) func(context.Context, *S) (agent.Next, error) {
		if f == nil {
			return nil
		}
		return func(ctx context.Context, s *S) (agent.Next, error) { return agent.Onward, f(ctx, s) }
	}
	return []agent.Middleware[S]{{Name: "hooks", BeforeModel: onward(before), AfterModel: onward(after)}}
}

// logging is middleware that notes each of its functions.
func logging(name string, log *[]string) agent.Middleware[S] {
	node := func(when string) func(context.Context, *S) (agent.Next, error) {
		return func(context.Context, *S) (agent.Next, error) {
			*log = append(*log, name+" "+when)
			return agent.Onward, nil
		}
	}
	return agent.Middleware[S]{
		Name: name, BeforeAgent: node("before agent"), BeforeModel: node("before model"), AfterModel: node("after model"), AfterAgent: node("after agent"),
		WrapModel: func(ctx context.Context, _ *S, req *model.Request, call agent.CallModel) (*model.Response, error) {
			*log = append(*log, name+" asks")
			resp, err := call(ctx, req)
			*log = append(*log, name+" has asked")
			return resp, err
		},
		WrapTool: func(ctx context.Context, c chat.ToolCall, call agent.CallTool) (*tool.Result, error) {
			*log = append(*log, name+" calls")
			r, err := call(ctx, c)
			*log = append(*log, name+" has called")
			return r, err
		},
	}
}

func TestTheFirstMiddlewareIsTheOutermost(t *testing.T) {
	var log []string
	m := scripted.New(scripted.Call("x", "{}"), scripted.Text("done"))
	g, err := agent.New(agent.ReAct[S]{Model: m, Tools: []tool.Tool{logs("x", new([]string))}, Use: []agent.Middleware[S]{logging("a", &log), logging("b", &log)}})
	if _, err := ok(t, g, err).Invoke(t.Context(), agent.Ask[S]("go")); err != nil {
		t.Fatal(err)
	}
	round := "a before model, b before model, a asks, b asks, b has asked, a has asked, b after model, a after model, "
	want := "a before agent, b before agent, " + round + "a calls, b calls, b has called, a has called, " + round + "b after agent, a after agent"
	if got := strings.Join(log, ", "); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if names := g.Nodes(); !slices.Contains(names, "a.before_agent") || !slices.Contains(names, "b.after_model") {
		t.Errorf("nodes %v", names)
	}
}

func TestMiddlewareDecidesWhatFollows(t *testing.T) {
	form, _ := model.OutputOf[struct{ N int }]()
	type turn struct{ after int } // calls of AfterModel
	for name, c := range map[string]struct {
		use     func(t *turn) agent.Middleware[S]
		replies []scripted.Reply
		output  *model.Schema
		direct  []string
		want    string
		stop    agent.StopReason
	}{
		"the turn ends before the model": {
			use: func(*turn) agent.Middleware[S] {
				return agent.Middleware[S]{BeforeModel: func(_ context.Context, s *S) (agent.Next, error) { s.Reply("not today"); return agent.ToEnd, nil }}
			}, want: "user: go\nassistant: not today\n", stop: agent.StopMiddleware,
		},
		"the turn ends before the agent": {
			use: func(*turn) agent.Middleware[S] {
				return agent.Middleware[S]{BeforeAgent: func(_ context.Context, s *S) (agent.Next, error) { s.Reply("closed"); return agent.ToEnd, nil }}
			}, output: form, want: "user: go\nassistant: closed\n", stop: agent.StopMiddleware,
		},
		"calls that wait are not made": {
			use: func(*turn) agent.Middleware[S] {
				return agent.Middleware[S]{AfterModel: func(context.Context, *S) (agent.Next, error) { return agent.ToEnd, nil }}
			}, replies: []scripted.Reply{scripted.Calls(call("1", "x", "{}"))}, want: "user: go\nassistant: x({})\ntool: not called: m decided otherwise\n", stop: agent.StopMiddleware,
		},
		"the model is asked again": {
			use: func(w *turn) agent.Middleware[S] {
				return agent.Middleware[S]{AfterModel: func(_ context.Context, s *S) (agent.Next, error) {
					if w.after++; w.after > 1 {
						return agent.Onward, nil
					}
					s.Messages.Add(chat.User("shorter"))
					return agent.ToModel, nil
				}}
			}, replies: []scripted.Reply{scripted.Text("long"), scripted.Text("short")}, want: "user: go\nassistant: long\nuser: shorter\nassistant: short\n", stop: agent.StopAnswer,
		},
		"an answer is taken back": {
			use: func(*turn) agent.Middleware[S] {
				return agent.Middleware[S]{AfterModel: func(_ context.Context, s *S) (agent.Next, error) {
					s.Messages.Remove(s.Messages.Last().ID)
					return agent.Onward, nil
				}}
			}, replies: []scripted.Reply{scripted.Text("secret")}, want: "user: go\n", stop: agent.StopAnswer,
		},
		"a tool's result is the answer": {
			use:     func(*turn) agent.Middleware[S] { return agent.Middleware[S]{} },
			replies: []scripted.Reply{scripted.Calls(call("1", "x", "{}"))}, direct: []string{"x"}, want: "user: go\nassistant: x({})\ntool: x done\n", stop: agent.StopDirect,
		},
		"the answer has a form": {
			use:     func(*turn) agent.Middleware[S] { return agent.Middleware[S]{} },
			replies: []scripted.Reply{scripted.Text("one"), scripted.Text(`{"N":1}`)}, output: form, want: "user: go\nassistant: one\n", stop: agent.StopAnswer,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &turn{}
			mw := c.use(w)
			mw.Name = "m"
			ended := 0
			mw.AfterAgent = func(context.Context, *S) (agent.Next, error) { ended++; return agent.Onward, nil }
			g, err := agent.New(agent.ReAct[S]{Model: scripted.New(c.replies...), Tools: []tool.Tool{logs("x", new([]string))}, Output: c.output, Direct: c.direct, Use: []agent.Middleware[S]{mw}})
			s, err := ok(t, g, err).Invoke(t.Context(), agent.Ask[S]("go"))
			if err != nil || s.State.Messages.String() != c.want || s.State.Stopped.Get() != c.stop || ended != 1 {
				t.Errorf("%v, stopped %q, after the agent %d times\n%swant\n%s", err, s.State.Stopped.Get(), ended, s.State.Messages, c.want)
			}
			if last := s.State.Messages.Last(); last.Role == chat.RoleAssistant && s.State.LastResponse.Get() != last.Text() || c.want == "user: go\n" && s.State.LastResponse.Get() != "" {
				t.Errorf("the last response is %q", s.State.LastResponse.Get())
			}
		})
	}
}

// What a model has answered is recorded, whatever middleware makes of it: when the node runs
// again, the model isn't asked again.
func TestAnswersThatMiddlewareSawAreRecorded(t *testing.T) {
	m := scripted.New(scripted.Error(errors.New("busy")), scripted.Text("first"), scripted.Text("second"), scripted.Text("never"))
	down := true
	again := agent.Middleware[S]{Name: "again", WrapModel: func(ctx context.Context, _ *S, req *model.Request, call agent.CallModel) (*model.Response, error) {
		var said string
		for range 2 {
			resp, err := call(ctx, req)
			if err != nil { // once more
				resp, err = call(ctx, req)
			}
			if err != nil {
				return nil, err
			}
			said += resp.Message.Text() + " "
		}
		if down {
			return nil, errors.New("down")
		}
		return &model.Response{Message: chat.Assistant(said)}, nil
	}}
	g, err := agent.New(agent.ReAct[S]{Model: m, Use: []agent.Middleware[S]{again}}, mem())
	if _, err := ok(t, g, err).Thread(th).Invoke(t.Context(), input("go")); err == nil {
		t.Fatal("it did not fail")
	}
	down = false
	s, err := g.Thread(th).Invoke(t.Context(), g.Continue())
	if err != nil || s.State.LastResponse.Get() != "first second " || len(m.Requests()) != 3 {
		t.Errorf("%v, %q after %d requests", err, s.State.LastResponse.Get(), len(m.Requests()))
	}
}

// A question is no failure of the model or the tool that middleware could make up for.
func TestMiddlewareCannotSwallowAQuestion(t *testing.T) {
	asks := tool.New("asks", "a", func(ctx context.Context, _ none) (string, error) { return graph.Interrupt[string](ctx, "k", "sure?") })
	swallow := agent.Middleware[S]{Name: "swallow", WrapTool: func(ctx context.Context, c chat.ToolCall, call agent.CallTool) (*tool.Result, error) {
		r, err := call(ctx, c)
		if err != nil {
			saved := tool.Text("saved")
			return &saved, nil
		}
		return r, nil
	}}
	g, err := agent.New(agent.ReAct[S]{Model: scripted.New(scripted.Call("asks", "{}"), scripted.Text("done")), Tools: []tool.Tool{asks}, Use: []agent.Middleware[S]{swallow}}, mem())
	s, err := ok(t, g, err).Thread(th).Invoke(t.Context(), input("go"))
	if err != nil || s.Done() {
		t.Fatalf("%v, done %v", err, s.Done())
	}
	s, err = g.Thread(th).Invoke(t.Context(), g.Answer("yes"))
	if err != nil || s.State.Messages.String() != "user: go\nassistant: asks({})\ntool: yes\nassistant: done\n" {
		t.Errorf("%v\n%s", err, s.State.Messages)
	}
}

func TestMiddlewareKeepsItsOwnInTheThread(t *testing.T) {
	counts := agent.Middleware[S]{Name: "counts", BeforeAgent: func(_ context.Context, s *S) (agent.Next, error) {
		n, err := agent.Kept[int](s, "counts")
		if err == nil {
			err = agent.Keep(s, "counts", n+1)
		}
		return agent.Onward, err
	}}
	g, err := agent.New(agent.ReAct[S]{Model: scripted.New(scripted.Text("ok").Repeat()), Use: []agent.Middleware[S]{counts}}, mem())
	g = ok(t, g, err)
	for range 3 {
		if _, err := g.Thread(th).Invoke(t.Context(), input("go")); err != nil {
			t.Fatal(err)
		}
	}
	s, err := g.Thread(th).State(t.Context())
	if n, keptErr := agent.Kept[int](&s.State, "counts"); err != nil || keptErr != nil || n != 3 {
		t.Errorf("%d, %v, %v", n, err, keptErr)
	}
	if _, err := agent.Kept[string](&s.State, "counts"); err == nil || !strings.Contains(err.Error(), `"counts"`) {
		t.Errorf("another type: %v", err)
	}
}

// What the user said in a turn that middleware ended without a word isn't lost.
func TestATurnThatSeveralMiddlewaresEndEndsOnceAndIsKept(t *testing.T) {
	var ran []string
	end := func(name string) func(context.Context, *S) (agent.Next, error) {
		return func(context.Context, *S) (agent.Next, error) {
			ran = append(ran, name)
			return agent.ToEnd, nil
		}
	}
	g, err := agent.New(agent.ReAct[S]{Model: scripted.New(), Use: []agent.Middleware[S]{
		{Name: "a", BeforeModel: end("before a"), AfterAgent: end("after a")}, {Name: "b", BeforeModel: end("before b"), AfterAgent: end("after b")},
	}}, mem())
	want := ""
	for _, said := range []string{"go", "again"} {
		ran, want = nil, want+"user: "+said+"\n"
		s, err := ok(t, g, err).Thread(th).Invoke(t.Context(), input(said))
		if err != nil || s.State.Stopped.Get() != agent.StopMiddleware || s.State.Messages.String() != want || s.State.UserInput != "" || !slices.Equal(ran, []string{"before a", "after b"}) {
			t.Errorf("%v, stopped %q, ran %q\n%s", err, s.State.Stopped.Get(), ran, s.State.Messages)
		}
	}
}

func TestMistakesInMiddleware(t *testing.T) {
	nop := func(context.Context, *S) (agent.Next, error) { return agent.Onward, nil }
	for want, use := range map[string][]agent.Middleware[S]{
		"middleware 1 has no Name":                {{BeforeAgent: nop}},
		`two middlewares have the name "a"`:       {{Name: "a", BeforeAgent: nop}, {Name: "a", AfterModel: nop}},
		`middleware "a" does nothing: set one of`: {{Name: "a"}},
	} {
		if _, err := agent.New(agent.ReAct[S]{Model: scripted.New(), Use: use}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	b := graph.New[S]("g")
	agent.AddLLM(b, "a", agent.LLM[S]{Model: scripted.New(), Use: []agent.Middleware[S]{{Name: "m", BeforeModel: nop}}})
	agent.AddTools(b, "t", agent.Tools[S]{Use: []agent.Middleware[S]{{Name: "n", AfterAgent: nop}}})
	_, err := b.AddEdge(graph.Start, "a").AddEdge("a", "t").Compile()
	for _, name := range []string{`"m"`, `"n"`} {
		if err == nil || !strings.Contains(err.Error(), "middleware "+name+" has nodes or tools of its own, which only an agent can have") {
			t.Errorf("nodes that nobody adds: %v", err)
		}
	}
	for want, m := range map[string]agent.Middleware[S]{
		`middleware "m" returned Next(7)`: {BeforeModel: func(context.Context, *S) (agent.Next, error) { return 7, nil }},
		`middleware "m" returned neither an answer nor an error`: {WrapModel: func(context.Context, *S, *model.Request, agent.CallModel) (*model.Response, error) {
			return nil, nil
		}},
		`middleware "m" returned neither a result nor an error`: {WrapTool: func(context.Context, chat.ToolCall, agent.CallTool) (*tool.Result, error) { return nil, nil }},
		"broken wrap": {WrapModel: func(context.Context, *S, *model.Request, agent.CallModel) (*model.Response, error) {
			panic("broken wrap")
		}},
		"broken tool":   {WrapTool: func(context.Context, chat.ToolCall, agent.CallTool) (*tool.Result, error) { panic("broken tool") }},
		"broken before": {BeforeModel: func(context.Context, *S) (agent.Next, error) { panic("broken before") }},
		"broken after":  {AfterAgent: func(context.Context, *S) (agent.Next, error) { panic("broken after") }},
	} {
		m.Name = "m"
		store := checkpoint.NewMemory()
		g, err := agent.New(agent.ReAct[S]{Model: scripted.New(scripted.Call("x", "{}"), scripted.Text("ok").Repeat()), Tools: []tool.Tool{logs("x", new([]string))}, Use: []agent.Middleware[S]{m}}, graph.WithCheckpointer(store))
		_, err = ok(t, g, err).Thread(th).Invoke(t.Context(), input("go"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		m = agent.Middleware[S]{Name: "m", BeforeModel: nop, AfterAgent: nop}
		g, err = agent.New(agent.ReAct[S]{Model: scripted.New(scripted.Text("well")), Tools: []tool.Tool{logs("x", new([]string))}, Use: []agent.Middleware[S]{m}}, graph.WithCheckpointer(store))
		s, err := ok(t, g, err).Thread(th).Invoke(t.Context(), input("and now?"))
		if err != nil || s.State.LastResponse.Get() != "well" || sound(s.State.Messages.Slice()) != nil {
			t.Errorf("after %q: %v\n%s", want, err, s.State.Messages)
		}
	}
}
