package agent_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

// mute is a model that says nothing at all.
type mute struct{}

func (mute) Generate(context.Context, *model.Request) (*model.Response, error) { return nil, nil }

func (mute) Stream(context.Context, *model.Request) iter.Seq2[chat.Chunk, error] {
	return func(func(chat.Chunk, error) bool) {}
}

func TestAModelThatReturnsNeitherAnAnswerNorAnErrorIsAnError(t *testing.T) {
	null := model.Func(func(context.Context, *model.Request) (*model.Response, error) { return nil, nil })
	for name, m := range map[string]model.Model{
		"a function": null, "a model": mute{}, "tried again": model.Retry(mute{}, model.RetryPolicy{}), "and another": model.Fallback(mute{}, mute{}),
		"within a budget": model.Budgeted(null, &model.Budget{}, model.Prices{}), "cached": model.Cached(null, "", &model.LRU{}),
	} {
		for _, whole := range []bool{false, true} {
			g, err := agent.New(agent.ReAct[S]{Model: m, Whole: whole}, mem())
			_, err = ok(t, g, err).Thread(th).Invoke(t.Context(), input("go"))
			var e *model.Error
			if !errors.Is(err, model.ErrNoAnswer) || !errors.As(err, &e) {
				t.Errorf("%s, whole %v: %v", name, whole, err)
			}
			s, stateErr := g.Thread(th).State(t.Context())
			if stateErr != nil || s.State.UserInput != "go" {
				t.Errorf("%s: the input is %q, %v", name, s.State.UserInput, stateErr)
			}
		}
	}
	if _, _, err := model.Generate[int](t.Context(), mute{}, &model.Request{}); !errors.Is(err, model.ErrNoAnswer) {
		t.Error(err)
	}
}

func TestAnAnswerThatWasCutOffSaysSo(t *testing.T) {
	for finish, want := range map[chat.FinishReason]agent.StopReason{
		chat.FinishStop: agent.StopAnswer, chat.FinishOther: agent.StopAnswer, "": agent.StopAnswer, chat.FinishLength: agent.StopLength, chat.FinishFilter: agent.StopFilter,
	} {
		m := chat.Assistant("half an ans")
		m.Finish = finish
		g, err := agent.New(agent.ReAct[S]{Model: scripted.New(scripted.Message(m)), Tools: []tool.Tool{logs("x", new([]string))}})
		s, err := ok(t, g, err).Invoke(t.Context(), agent.Ask[S]("go"))
		if err != nil || s.State.Stopped.Get() != want {
			t.Errorf("%q: stopped %q, %v", finish, s.State.Stopped.Get(), err)
		}
		n := single(t, agent.ReActNode{Model: scripted.New(scripted.Message(m))})
		r, err := n.Invoke(t.Context(), question("go"))
		if err != nil || r.State.Stopped != want {
			t.Errorf("%q in a single node: stopped %q, %v", finish, r.State.Stopped, err)
		}
	}
}

func TestBytesThatAreNoTextInWhatTheUserAsksAreReplaced(t *testing.T) {
	m := scripted.New(scripted.Text("fine"))
	g, err := agent.New(agent.ReAct[S]{Model: m}, mem())
	if _, err := ok(t, g, err).Thread(th).Invoke(t.Context(), g.Input(agent.Ask[S]("caf\xe9?"))); err != nil {
		t.Fatal(err)
	}
	s, err := g.Thread(th).State(t.Context())
	if last := m.Last().Messages; err != nil || last[len(last)-1].Text() != "caf\ufffd?" || s.State.Messages.Slice()[0].Text() != "caf\ufffd?" {
		t.Errorf("%v, sent %v", err, last)
	}
}

// What a guard takes back, or rewrites, is not the last response; what it says
// instead is.
func TestTheLastResponseIsNotWhatAGuardRemoved(t *testing.T) {
	for name, c := range map[string]struct {
		guard func(s *S)
		want  string
	}{
		"leaves it":         {func(*S) {}, "secret"},
		"removes it":        {func(s *S) { s.Messages.Remove(s.Messages.Last().ID) }, ""},
		"rewrites it":       {func(s *S) { m := s.Messages.Last(); m.Parts = []chat.Part{chat.Text{Text: "***"}}; s.Messages.Add(m) }, "***"},
		"says another":      {func(s *S) { s.Messages.Remove(s.Messages.Last().ID); s.LastResponse.Add("I can't say that.") }, "I can't say that."},
		"removes all of it": {func(s *S) { s.Messages.Overwrite() }, ""},
	} {
		g, err := agent.New(agent.ReAct[S]{Model: scripted.New(scripted.Text("secret")), Use: nodes(nil, func(_ context.Context, s *S) error { c.guard(s); return nil })}, mem())
		s, err := ok(t, g, err).Thread(th).Invoke(t.Context(), input("go"))
		if got := s.State.LastResponse.Get(); err != nil || got != c.want {
			t.Errorf("a guard that %s: %v, %q", name, err, got)
		}
		if got, _ := s.State.NodeResponses.Get(agent.NodeModel); c.want != "I can't say that." && got != c.want {
			t.Errorf("a guard that %s: the node's is %q", name, got)
		}
	}
}

type chatty struct {
	Messages chat.History
	Rate     float64
}

// A summary that was written before the conversation changed is not that of the
// conversation as it is now: what came since would be lost.
func TestASummaryIsOfWhatIsThere(t *testing.T) {
	var asked []string
	m := model.Func(func(_ context.Context, r *model.Request) (*model.Response, error) {
		asked = append(asked, r.Messages[1].Text())
		return &model.Response{Message: chat.Assistant(fmt.Sprint("summary ", len(asked)))}, nil
	})
	broken := true
	b := graph.New[chatty]("g")
	agent.AddSummary(b, "sum", agent.Summary{Model: m, MaxTokens: 3, KeepTokens: 1, Count: func(chat.Message) int { return 1 }}, func(s *chatty) *chat.History {
		if s.Rate = 0; broken {
			s.Rate = math.NaN() // which can't be committed
		}
		return &s.Messages
	})
	g, err := b.AddEdge(graph.Start, "sum").Compile(mem())
	if err != nil {
		t.Fatal(err)
	}
	say := func(texts ...string) func(*chatty) error {
		return func(s *chatty) error {
			for _, text := range texts {
				s.Messages.Add(chat.User(text))
			}
			return nil
		}
	}
	if _, err := g.Thread(th).Invoke(t.Context(), g.Input(say("1", "2", "3", "4"))); err == nil {
		t.Fatal("it didn't fail")
	}
	broken = false
	if _, err := g.Thread(th).Edit(t.Context(), say("5", "6")); err != nil {
		t.Fatal(err)
	}
	s, err := g.Thread(th).Invoke(t.Context(), g.Continue())
	if err != nil || len(asked) != 2 || !strings.Contains(asked[1], "5") {
		t.Errorf("%v: asked %q\n%s", err, asked, s.State.Messages)
	}
}
