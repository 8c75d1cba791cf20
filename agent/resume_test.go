package agent_test

import (
	"context"
	"errors"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

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
