package agent_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint/file"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

type remembering struct {
	agent.Scratch
	agent.Buffer
}

// W7-32: a buffer gives an agent a memory that outlives the process; without one
// it has none.
func TestABufferIsTheMemoryOfASingleNode(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "threads")
	var last []chat.Message
	m := model.Func(func(_ context.Context, r *model.Request) (*model.Response, error) {
		last = r.Messages[1:]
		return &model.Response{Message: chat.Assistant(fmt.Sprint("answer ", len(last)))}, nil
	})
	turn := func(text string) { // as a process of its own would
		t.Helper()
		store, err := file.Open(dir, file.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		b := graph.New[remembering]("g")
		agent.AddReAct(b, "agent", agent.ReActNode{Model: m})
		agent.AddBuffer(b, "remember")
		g := compile(t, b.AddSequence("agent", "remember").AddEdge(graph.Start, "agent"), graph.WithCheckpointer(store))
		if _, err := g.Thread("t").Invoke(t.Context(), g.Input(func(s *remembering) error {
			s.UserInput = text
			return nil
		})); err != nil {
			t.Fatal(err)
		}
	}
	turn("my name is Ann")
	turn("what is my name?")
	same(t, "the second request", transcript(last), "user: my name is Ann\nassistant: answer 1\nuser: what is my name?\n")

	g := single(t, agent.ReActNode{Model: m}, memory())
	for _, q := range []string{"my name is Ann", "what is my name?"} {
		if _, err := g.Thread("t").Invoke(t.Context(), g.Input(question(q))); err != nil {
			t.Fatal(err)
		}
	}
	same(t, "without a buffer", transcript(last), "user: what is my name?\n")
}

// W7-33: beyond a budget the older messages become a summary.
func TestASummaryKeepsAConversationShort(t *testing.T) {
	summaries := 0
	sum := model.Func(func(_ context.Context, r *model.Request) (*model.Response, error) {
		summaries++
		return &model.Response{Message: chat.Assistant(fmt.Sprintf("sum %d of %d lines", summaries, strings.Count(r.Messages[1].Text(), "\n")))}, nil
	})
	b := graph.New[state]("g")
	agent.AddLLM(b, "ask", agent.LLM[state]{Model: says("m")})
	ten := func(chat.Message) int { return 10 }
	agent.AddSummary(b, "shorten", agent.Summary{Model: sum, MaxTokens: 50, Count: ten}, func(s *state) *chat.History { return &s.Messages })
	g := compile(t, b.AddSequence("ask", "shorten").AddEdge(graph.Start, "ask"), memory())
	overflows := 0
	for i := range 10 {
		snap, err := g.Thread("t").Invoke(t.Context(), g.Input(ask(fmt.Sprint("q", i))))
		if err != nil {
			t.Fatal(err)
		}
		all := snap.State.Messages.Slice()
		if len(all) > 5 {
			t.Errorf("turn %d: %d messages", i, len(all))
		}
		if want := fmt.Sprintf("user: q%d\nassistant: m(q%d)\n", i, i); !strings.HasSuffix(transcript(all), want) {
			t.Errorf("turn %d: the last turn is not intact:\n%s", i, transcript(all))
		}
		if agent.IsSummary(all[0]) && all[0].Text() != "" && strings.HasPrefix(all[0].Text(), fmt.Sprintf("sum %d ", summaries)) && summaries > overflows {
			overflows = summaries
		}
	}
	if summaries == 0 || overflows != summaries || summaries > 5 {
		t.Errorf("%d summaries, %d seen", summaries, overflows)
	}
	snap, err := g.Thread("t").State(t.Context())
	if err != nil || snap.State.Messages.Slice()[0].Role != chat.RoleSystem {
		t.Errorf("%v\n%s", err, messages(snap))
	}
}

// One turn that is too long stays as it is.
func TestASummaryLeavesTheLastTurnAlone(t *testing.T) {
	m := script()
	b := graph.New[state]("g")
	agent.AddSummary(b, "shorten", agent.Summary{Model: m, MaxTokens: 2}, func(s *state) *chat.History { return &s.Messages })
	snap, err := compile(t, b.AddEdge(graph.Start, "shorten")).Invoke(t.Context(), say(chat.User(strings.Repeat("long ", 50)), chat.Assistant("yes")))
	if err != nil || snap.State.Messages.Len() != 2 || len(m.Requests()) != 0 {
		t.Errorf("%v, %s", err, messages(snap))
	}
}

func TestMistakesInASummary(t *testing.T) {
	b := graph.New[state]("g")
	agent.AddSummary(b, "shorten", agent.Summary{KeepTokens: 5}, nil)
	_, err := b.AddEdge(graph.Start, "shorten").Compile()
	if err == nil || !strings.Contains(err.Error(), "needs a Model") || !strings.Contains(err.Error(), "MaxTokens") || !strings.Contains(err.Error(), "function") {
		t.Error(err)
	}
	b = graph.New[state]("g")
	agent.AddSummary(b, "shorten", agent.Summary{Model: script(scripted.Text(" "), scripted.Error(errors.New("down"))), MaxTokens: 2}, func(s *state) *chat.History { return &s.Messages })
	g := compile(t, b.AddEdge(graph.Start, "shorten"))
	for _, want := range []string{"no summary", "down"} {
		if _, err := g.Invoke(t.Context(), say(chat.User("u1"), chat.User("u2"))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

// In a turn of many rounds the older ones become a summary: the user's message stays,
// and so do the pairs of calls and results, and the limit of calls counts what is in it.
func TestALongTurnIsShortenedBetweenItsRounds(t *testing.T) {
	longest, summaries := 0, 0
	calls := 0
	m := model.Func(func(_ context.Context, r *model.Request) (*model.Response, error) {
		if err := sound(r.Messages); err != nil {
			return nil, err
		}
		ms := r.Messages[1:]
		longest = max(longest, len(ms))
		if n := slices.IndexFunc(ms, func(m chat.Message) bool { return m.Text() == "count to ten" }); n < 0 {
			return nil, fmt.Errorf("the question is gone:\n%s", transcript(ms))
		}
		calls++
		return &model.Response{Message: chat.Assistant("", call(fmt.Sprint("c", calls), "x", "{}"), call(fmt.Sprint("d", calls), "x", "{}"))}, nil
	})
	sum := model.Func(func(_ context.Context, r *model.Request) (*model.Response, error) {
		summaries++
		m := chat.Assistant("so far so good")
		m.Usage = &chat.Usage{Input: 1}
		return &model.Response{Message: m}, nil
	})
	g, err := agent.New(agent.ReAct[S]{Model: m, Tools: []tool.Tool{logs("x", new([]string))}, MaxIterations: 10,
		Summary: &agent.Summary{Model: sum, MaxTokens: 9, Count: func(chat.Message) int { return 1 }}}, mem(), graph.CycleGuard(0))
	if _, err := ok(t, g, err).Thread(th).Invoke(t.Context(), g.Input(agent.Say[S](chat.User("hi"), chat.Assistant("hello"), chat.User("count to ten")))); err != nil {
		t.Fatal(err)
	}
	s, err := g.Thread(th).State(t.Context())
	if err != nil || calls != 10 || s.State.Stopped.Get() != agent.StopMaxIterations {
		t.Errorf("%v, %d calls, stopped %q", err, calls, s.State.Stopped.Get())
	}
	if longest > 9 || summaries < 2 || summaries > 6 {
		t.Errorf("%d messages in a request, %d summaries", longest, summaries)
	}
	if used := s.State.Usage.Get().Under(agent.NodeSummary).Calls(); used != summaries {
		t.Errorf("the usage has %d summaries of %d", used, summaries)
	}
}

// A summary at the entry comes before the model, which answers once.
func TestASummaryAtTheEntryDoesNotAnswerTwice(t *testing.T) {
	sum := func() *agent.Summary {
		return &agent.Summary{Model: scripted.New(scripted.Text("sum").Repeat()), MaxTokens: 3, Count: func(chat.Message) int { return 1 }}
	}
	for name, build := range map[string]func(m model.Model) (*graph.Graph[S], error){
		"of an agent": func(m model.Model) (*graph.Graph[S], error) {
			return agent.New(agent.ReAct[S]{Model: m, Tools: []tool.Tool{logs("x", new([]string))}, Summary: sum()}, mem())
		},
		"of a graph of one's own": func(m model.Model) (*graph.Graph[S], error) {
			b := graph.New[S]("g")
			agent.AddSummary(b, "shorten", *sum(), func(s *S) *chat.History { return &s.Messages })
			agent.AddLLM(b, "ask", agent.LLM[S]{Model: m})
			return b.AddSequence("shorten", "ask").AddEdge(graph.Start, "shorten").Compile(mem())
		},
	} {
		m := scripted.New(scripted.Text("fine").Repeat())
		g, err := build(m)
		for turn := range 4 {
			s, err := ok(t, g, err).Thread(th).Invoke(t.Context(), input(fmt.Sprint("q", turn)))
			last := fmt.Sprintf("user: q%d\nassistant: fine\n", turn)
			if err != nil || len(m.Requests()) != turn+1 || !strings.HasSuffix(s.State.Messages.String(), last) || s.State.Messages.Len() > 5 {
				t.Errorf("%s: %v, %d answers\n%s", name, err, len(m.Requests()), s.State.Messages)
			}
		}
	}
}
