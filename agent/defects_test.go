package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

// What once went wrong with agents whose nodes run again.

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

func TestEachCallOfAToolAsksItsOwnQuestion(t *testing.T) {
	for _, key := range []string{"sure", ""} {
		asked, paid := map[string]bool{}, []int{}
		pay := tool.New("pay", "Pays.", func(ctx context.Context, in struct{ Amount int }) (string, error) {
			yes, err := graph.Interrupt[bool](ctx, key, fmt.Sprint("pay ", in.Amount, "?"))
			if err == nil && yes {
				paid = append(paid, in.Amount)
			}
			return "paid", err
		})
		g, err := agent.New(agent.ReAct[S]{Tools: []tool.Tool{pay}, Model: scripted.New(
			scripted.Calls(call("1", "pay", `{"Amount":9}`), call("2", "pay", `{"Amount":5000000}`)), scripted.Text("ok"))}, mem())
		s, err := ok(t, g, err).Thread(th).Invoke(t.Context(), input("go"))
		n := 0
		for range 5 {
			if err != nil { // "raised interrupt twice in one execution"
				s, err = g.Thread(th).Invoke(t.Context(), g.Continue())
				continue
			}
			if len(s.Interrupts) == 0 {
				break
			}
			asked[string(s.Interrupts[0].Raw)] = true
			n++
			s, err = g.Thread(th).Invoke(t.Context(), g.Answer(true))
		}
		if len(asked) != 2 || n != 2 {
			t.Errorf("key %q: paid %v, asked %d times: %v", key, paid, n, asked)
		}
	}
}

func TestEachCallOfAToolHasItsOwnOnce(t *testing.T) {
	var booked []string
	book := agent.NewStateTool("book", "b", func(ctx context.Context, _ *S, in struct{ To string }) (string, graph.Command, error) {
		id, err := graph.Once(ctx, "book", func(context.Context, string) (string, error) {
			booked = append(booked, in.To)
			return "ticket to " + in.To, nil
		})
		return id, graph.Command{}, err
	})
	g, err := agent.New(agent.ReAct[S]{Tools: []tool.Tool{book}, Model: scripted.New(
		scripted.Calls(call("1", "book", `{"To":"Bern"}`), call("2", "book", `{"To":"Basel"}`)), scripted.Text("ok"))}, mem())
	s, err := ok(t, g, err).Thread(th).Invoke(t.Context(), input("go"))
	if !slices.Equal(booked, []string{"Bern", "Basel"}) {
		t.Errorf("%v: booked %v\n%s", err, booked, s.State.Messages)
	}
}

func TestADecisionIsAboutTheCallThatWasShown(t *testing.T) {
	var called []string
	pay, del, c := logs("pay", &called), logs("delete", &called), logs("c", &called)
	resumed := false
	g, err := agent.New(agent.ReAct[S]{
		Model: scripted.New(scripted.Calls(call("1", "pay", "{}"), call("2", "delete", "{}"), call("3", "c", "{}")), scripted.Text("ok")),
		Choose: func(context.Context, *S) ([]tool.Tool, error) {
			if resumed {
				return []tool.Tool{del, c}, nil
			}
			return []tool.Tool{pay, del}, nil
		},
		Approve: agent.Approve("*"), OnError: agent.TellModelAll,
	}, mem())
	if _, err := ok(t, g, err).Thread(th).Invoke(t.Context(), input("go")); err != nil {
		t.Fatal(err)
	}
	resumed = true // asked: pay, delete
	_, err = g.Thread(th).Invoke(t.Context(), g.Answer(agent.ApprovalAnswer{Decisions: []agent.Decision{{Type: agent.ApproveCall}, {Type: agent.RejectCall}}}))
	if slices.Contains(called, "delete") {
		t.Errorf("%v: delete was rejected and called", err)
	}
	// The same over a deployment: pay was approved, delete was never shown.
	called = nil
	store := checkpoint.NewMemory()
	version := func(needs string) *graph.Graph[S] {
		g, err := agent.New(agent.ReAct[S]{Model: scripted.New(scripted.Calls(call("1", "pay", "{}"), call("2", "delete", "{}")), scripted.Text("ok")),
			Tools: []tool.Tool{pay, del}, Approve: agent.Approve(needs)}, graph.WithCheckpointer(store))
		return ok(t, g, err)
	}
	if _, err := version("pay").Thread(th).Invoke(t.Context(), input("go")); err != nil {
		t.Fatal(err)
	}
	second := version("delete").Thread(th)
	_, err = second.Invoke(t.Context(), second.Answer(agent.ApprovalAnswer{Decisions: []agent.Decision{{Type: agent.ApproveCall}}}))
	if slices.Contains(called, "delete") {
		t.Errorf("%v: delete was called without anybody having been asked about it", err)
	}
}

func TestANewQuestionIsNotAnsweredWithTheRecordOfTheOldOne(t *testing.T) {
	first := true
	b := graph.New[S]("g")
	agent.AddLLM(b, "a", agent.LLM[S]{
		Model: model.Func(func(_ context.Context, r *model.Request) (*model.Response, error) {
			return &model.Response{Message: chat.Assistant("answer to " + r.Messages[len(r.Messages)-1].Text())}, nil
		}),
		Use: aroundModel(nil, func(context.Context, *S, *model.Request, *model.Response, error) (*model.Response, error) {
			if first {
				first = false
				return nil, errors.New("the guard is down")
			}
			return nil, nil
		})})
	g := b.AddEdge(graph.Start, "a").MustCompile(mem())
	_, _ = g.Thread(th).Invoke(t.Context(), input("one"))
	s, err := g.Thread(th).Invoke(t.Context(), input("two"))
	if got := s.State.LastResponse.Get(); err != nil || got != "answer to two" {
		t.Errorf("LLM: %v, %q", err, got)
	}

	type R struct{ agent.Scratch }
	down, deleted := true, []string(nil)
	del := tool.New("delete", "d", func(_ context.Context, in struct{ What string }) (string, error) {
		if down {
			down = false
			return "", errors.New("down")
		}
		deleted = append(deleted, in.What)
		return "done", nil
	})
	rb := graph.New[R]("r")
	agent.AddReAct(rb, "r", agent.ReActNode{Tools: []tool.Tool{del}, Model: model.Func(func(_ context.Context, r *model.Request) (*model.Response, error) {
		if last := r.Messages[len(r.Messages)-1]; last.Text() == "delete it" {
			return &model.Response{Message: chat.Assistant("", call("1", "delete", `{"What":"it"}`))}, nil
		}
		return &model.Response{Message: chat.Assistant("it is noon")}, nil
	})})
	rg := rb.AddEdge(graph.Start, "r").MustCompile(mem())
	_, _ = rg.Thread(th).Invoke(t.Context(), rg.Input(func(r *R) error {
		r.UserInput = "delete it"
		return nil
	}))
	rs, err := rg.Thread(th).Invoke(t.Context(), rg.Input(func(r *R) error {
		r.UserInput = "no! what time is it?"
		return nil
	}))
	if len(deleted) > 0 {
		t.Errorf("ReActNode: %v, %q: deleted %v", err, rs.State.UserInput, deleted)
	}
}

func TestAnUnusableAnswerDoesNotPoisonTheThread(t *testing.T) {
	type out struct{ Amount int }
	form, _ := model.OutputOf[out]()
	m := scripted.New(scripted.Text("not JSON"), scripted.Text(`{"Amount":1}`).Repeat())
	b := graph.New[S]("g")
	agent.AddLLM(b, "a", agent.LLM[S]{Model: m, Output: form}, graph.Retry(graph.RetryPolicy{MaxAttempts: 2}))
	g := b.AddEdge(graph.Start, "a").MustCompile(mem())
	if _, err := g.Thread(th).Invoke(t.Context(), input("one")); err == nil {
		return
	}
	_, err1 := g.Thread(th).Invoke(t.Context(), g.Continue())
	_, err2 := g.Thread(th).Invoke(t.Context(), input("two"))
	if err1 != nil && err2 != nil {
		t.Errorf("the model was asked %d times in 6 attempts; %v", len(m.Requests()), err2)
	}
}

func TestADrainedSubAgentGoesOn(t *testing.T) {
	drain := make(chan struct{})
	x := tool.New("x", "x", func(context.Context, none) (string, error) { close(drain); return "y", nil })
	sub, err := agent.New(agent.ReAct[S]{Name: "sub", Model: scripted.New(scripted.Call("x", "{}"), scripted.Text("result")), Tools: []tool.Tool{x}})
	ok(t, sub, err)
	g, err := agent.NewSupervisor(agent.Supervisor{Model: scripted.New(scripted.Calls(call("1", "sub", `{"task":"A"}`)), scripted.Text("ok")),
		Agents: []*agent.Agent{agent.Of(sub, "d")}, OnError: agent.TellModel}, mem())
	_, _ = ok(t, g, err).Thread(th).Invoke(t.Context(), input("go"), graph.Drain(drain))
	s, err := g.Thread(th).Invoke(t.Context(), g.Continue())
	for m := range s.State.Messages.All() {
		if r, is := m.ToolResult(); is && r.Text() != "result" {
			t.Errorf("%v: the model was told %q", err, r.Text())
		}
	}
}

func TestAQuestionIsNotLostWhileAnAgentWaits(t *testing.T) {
	sub, err := agent.New(agent.ReAct[S]{Name: "sub", Model: scripted.New(scripted.Call("x", "{}"), scripted.Text("answer to A"), scripted.Text("other").Repeat()),
		Tools: []tool.Tool{logs("x", new([]string))}, Approve: agent.Approve("x")})
	ok(t, sub, err)
	g, err := agent.Chain("c", []*agent.Agent{agent.Of(sub, "d")}, mem())
	_, _ = ok(t, g, err).Thread(th).Invoke(t.Context(), input("question A"))
	_, _ = g.Thread(th).Invoke(t.Context(), input("question B"))
	s, err := g.Thread(th).Invoke(t.Context(), g.Answer(agent.ApprovalAnswer{Decisions: []agent.Decision{{Type: agent.ApproveCall}}}))
	if first := s.State.Messages.Slice()[0].Text(); first != "question A" {
		t.Errorf("%v\n%s", err, s.State.Messages)
	}
}

func TestTheUserCanGoOnAfterAnAgentOfASupervisorFailed(t *testing.T) {
	sub, err := agent.New(agent.ReAct[S]{Name: "sub", Model: scripted.New(scripted.Message(chat.Assistant("")), scripted.Text("real").Repeat())})
	ok(t, sub, err)
	g, err := agent.NewSupervisor(agent.Supervisor{Agents: []*agent.Agent{agent.Of(sub, "d")},
		Model: scripted.New(scripted.Calls(call("1", "sub", `{"task":"A"}`)), scripted.Text("ok").Repeat())}, mem())
	_, err = ok(t, g, err).Thread(th).Invoke(t.Context(), input("go")) // "gave no answer"
	for _, text := range []string{"", "never mind", "hello?"} {
		if text == "" {
			_, err = g.Thread(th).Invoke(t.Context(), g.Continue())
		} else {
			_, err = g.Thread(th).Invoke(t.Context(), input(text))
		}
	}
	if err != nil {
		t.Error("for ever:", err)
	}
}

func TestCallsOfASupervisorWithOneID(t *testing.T) {
	lead := scripted.New(scripted.Calls(call("1", "a", `{"task":"A"}`), call("1", "a", `{"task":"B"}`)), scripted.Text("ok"))
	g, err := agent.NewSupervisor(agent.Supervisor{Model: lead, Agents: []*agent.Agent{echo("a")}, OnError: agent.TellModelAll}, mem())
	s, err := ok(t, g, err).Thread(th).Invoke(t.Context(), input("go"))
	if err != nil {
		return // an error that says so would do
	}
	if ms := s.State.Messages.Slice(); ms[2].Text() == ms[3].Text() {
		t.Errorf("task B got the answer of task A:\n%s", s.State.Messages)
	}
	if err := sound(lead.Last().Messages); err != nil {
		t.Error("the next request:", err)
	}
}

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

type wrapped struct{ tool.Tool } // any middleware without Unwrap

func TestAStateToolInAWrapper(t *testing.T) {
	book := agent.NewStateTool("book", "b", func(_ context.Context, s *S, _ none) (string, graph.Command, error) {
		s.NodeResponses.Put("booked", "yes")
		return "booked", graph.Command{}, nil
	})
	ask := tool.New("ask", "a", func(ctx context.Context, _ none) (string, error) { return graph.Interrupt[string](ctx, "k", "?") })
	g, err := agent.New(agent.ReAct[S]{Tools: []tool.Tool{wrapped{book}, ask},
		Model: scripted.New(scripted.Calls(call("1", "book", "{}"), call("2", "ask", "{}")), scripted.Text("ok"))}, mem())
	_, _ = ok(t, g, err).Thread(th).Invoke(t.Context(), input("go"))
	s, err := g.Thread(th).Invoke(t.Context(), g.Answer("yes"))
	if v, _ := s.State.NodeResponses.Get("booked"); err == nil && v != "yes" {
		t.Errorf("what the tool wrote is lost, its result is not:\n%s", s.State.Messages)
	}
}
func TestAStateToolInAWrapperInParallel(t *testing.T) { // fails under -race
	book := agent.NewStateTool("book", "b", func(_ context.Context, s *S, _ none) (string, graph.Command, error) {
		s.Rounds++
		time.Sleep(time.Millisecond)
		return "booked", graph.Command{}, nil
	})
	g, err := agent.New(agent.ReAct[S]{Tools: []tool.Tool{wrapped{book}}, Parallel: 2,
		Model: scripted.New(scripted.Calls(call("1", "book", "{}"), call("2", "book", "{}")), scripted.Text("ok"))})
	_, _ = ok(t, g, err).Invoke(t.Context(), agent.Ask[S]("go"))
}

func TestWithoutSuperstepsForAnotherRoundTheThreadIsSound(t *testing.T) {
	nop := func(context.Context, *S) error { return nil }
	for n := 4; n < 12; n++ {
		g, err := agent.New(agent.ReAct[S]{Model: scripted.New(scripted.Call("x", "{}").Repeat()), Tools: []tool.Tool{logs("x", new([]string))}, Use: nodes(nop, nop)},
			mem(), graph.MaxSteps(n), graph.CycleGuard(0))
		s, err := ok(t, g, err).Thread(th).Invoke(t.Context(), input("go"))
		if err != nil {
			t.Errorf("MaxSteps(%d): stopped %q, next %v: %.60v", n, s.State.Stopped.Get(), s.Next, err)
		}
	}
	form, _ := model.OutputOf[struct{ Amount int }]()
	g, err := agent.New(agent.ReAct[S]{Model: scripted.New(scripted.Call("x", "{}"), scripted.Text("hi"), scripted.Text(`{"Amount":1}`)), Tools: []tool.Tool{logs("x", new([]string))}, Output: form},
		mem(), graph.MaxSteps(3))
	if s, err := ok(t, g, err).Thread(th).Invoke(t.Context(), input("go")); err != nil {
		t.Errorf("Output: stopped %q: %.60v", s.State.Stopped.Get(), err)
	}
}

// An agent that gives no answer has none in NodeResponses.
func TestParallelDoesNotRepeatTheAnswerOfTheTurnBefore(t *testing.T) {
	one := func(name string, rs ...scripted.Reply) *agent.Agent {
		g, _ := agent.New(agent.ReAct[S]{Name: name, Model: scripted.New(rs...)})
		return agent.Of(g, name)
	}
	g, err := agent.Parallel("p", []*agent.Agent{one("a", scripted.Text("a1"), scripted.Text("a2")), one("b", scripted.Text("b1"), scripted.Message(chat.Assistant("")))}, mem())
	_, _ = ok(t, g, err).Thread(th).Invoke(t.Context(), input("q1"))
	s, _ := g.Thread(th).Invoke(t.Context(), input("q2"))
	if got := s.State.LastResponse.Get(); got != "a: a2" {
		t.Errorf("%q", got)
	}
}
