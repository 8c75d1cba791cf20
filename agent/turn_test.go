package agent_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/client"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/server"
	"github.com/superstep-dev/superstep/tool"
)

// answers is a model that answers "<name>: <what was said last>" and fails while the
// user asks "broken".
func answers(name string) model.Model {
	return model.Func(func(_ context.Context, r *model.Request) (*model.Response, error) {
		if err := sound(r.Messages); err != nil {
			return nil, fmt.Errorf("a provider would refuse this: %w", err)
		}
		last := r.Messages[len(r.Messages)-1].Text()
		if strings.HasSuffix(last, "broken") {
			return nil, errors.New("503")
		}
		return &model.Response{Message: chat.Assistant(name + ": " + last)}, nil
	})
}

// brokenAfter fails when it answers to what began with "q1".
func brokenAfter(name string) model.Model {
	return model.Func(func(_ context.Context, r *model.Request) (*model.Response, error) {
		last := r.Messages[len(r.Messages)-1].Text()
		if strings.HasSuffix(last, "q1") {
			return nil, errors.New("503")
		}
		return &model.Response{Message: chat.Assistant(name + ": " + last)}, nil
	})
}

func agentOf(t *testing.T, name string, m model.Model) *agent.Agent {
	t.Helper()
	g, err := agent.New(agent.ReAct[S]{Name: name, Model: m})
	return agent.Of(ok(t, g, err), name)
}

// delegating is a model that hands what the user says to an agent, and then answers
// with its result.
func delegating(to string) model.Model {
	return model.Func(func(_ context.Context, r *model.Request) (*model.Response, error) {
		if err := sound(r.Messages); err != nil {
			return nil, fmt.Errorf("a provider would refuse this: %w", err)
		}
		last := r.Messages[len(r.Messages)-1]
		if last.Role == chat.RoleUser {
			return &model.Response{Message: chat.Assistant("", call(fmt.Sprint(len(r.Messages)), to, fmt.Sprintf(`{"task":%q}`, last.Text())))}, nil
		}
		return &model.Response{Message: chat.Assistant(last.Text())}, nil
	})
}

// What the user says after a turn has failed, wherever that was, starts a turn and
// is answered.
func TestAMessageAfterAFailedTurnIsAnswered(t *testing.T) {
	once := func() func(context.Context, *S) error {
		return func(_ context.Context, s *S) error {
			if strings.HasSuffix(s.LastResponse.Get(), "q1") {
				return errors.New("the guard is down")
			}
			return nil
		}
	}
	form, err := model.OutputOf[struct{ N int }]()
	if err != nil {
		t.Fatal(err)
	}
	structured := model.Func(func(_ context.Context, r *model.Request) (*model.Response, error) {
		last := r.Messages[len(r.Messages)-1].Text()
		if !strings.HasSuffix(last, "follows the schema and nothing else.") {
			return &model.Response{Message: chat.Assistant("m: " + last)}, nil
		}
		if strings.HasSuffix(r.Messages[len(r.Messages)-2].Text(), "q1") {
			return nil, errors.New("503")
		}
		return &model.Response{Message: chat.Assistant(`{"N":2}`)}, nil
	})
	for name, c := range map[string]struct {
		build func() (*graph.Graph[S], error)
		want  string
	}{
		"post model": {func() (*graph.Graph[S], error) {
			return agent.New(agent.ReAct[S]{Model: answers("m"), Use: nodes(nil, once())}, mem())
		}, "m: q2"},
		"pre model": {func() (*graph.Graph[S], error) {
			return agent.New(agent.ReAct[S]{Model: answers("m"), Use: nodes(func(_ context.Context, s *S) error {
				if s.UserInput == "q1" {
					return errors.New("no")
				}
				return nil
			}, nil)}, mem())
		}, "m: q2"},
		"structure": {func() (*graph.Graph[S], error) {
			return agent.New(agent.ReAct[S]{Model: structured, Output: form}, mem())
		}, "m: q2"},
		"the second of a chain": {func() (*graph.Graph[S], error) {
			return agent.Chain("c", []*agent.Agent{agentOf(t, "a", answers("a")), agentOf(t, "b", brokenAfter("b")), agentOf(t, "c", answers("c"))}, mem())
		}, "c: b: a: q2"},
		"one of several at once": {func() (*graph.Graph[S], error) {
			return agent.Parallel("p", []*agent.Agent{agentOf(t, "a", answers("a")), agentOf(t, "b", brokenAfter("b"))}, mem())
		}, "a: a: q2\n\nb: b: q2"},
		"the second of a cycle": {func() (*graph.Graph[S], error) {
			return agent.NewCycle(agent.Cycle{Name: "c", MaxRounds: 1, Agents: []*agent.Agent{agentOf(t, "a", answers("a")), agentOf(t, "b", brokenAfter("b"))}}, mem())
		}, "b: a: q2"},
		"an agent of a supervisor": {func() (*graph.Graph[S], error) {
			return agent.NewSupervisor(agent.Supervisor{Model: delegating("sub"), Agents: []*agent.Agent{agentOf(t, "sub", brokenAfter("sub"))}}, mem())
		}, "sub: q2"},
		"a tool of a swarm": {func() (*graph.Graph[S], error) {
			return agent.NewSwarm(agent.Swarm{Agents: []agent.SwarmAgent{{ReAct: agent.ReAct[S]{Name: "s", Model: delegating("sub"), Tools: []tool.Tool{agent.AsTool(agentOf(t, "sub", brokenAfter("sub")))}}}}}, mem())
		}, "sub: q2"},
		"an agent as a tool": {func() (*graph.Graph[S], error) {
			return agent.New(agent.ReAct[S]{Model: delegating("sub"), Tools: []tool.Tool{agent.AsTool(agentOf(t, "sub", brokenAfter("sub")))}}, mem())
		}, "sub: q2"},
		"behind an agent as a node": {func() (*graph.Graph[S], error) {
			b := graph.New[S]("g")
			agent.AddAgent(b, "sub", agentOf(t, "sub", answers("sub")), agent.SubAgent[S]{})
			b.AddNode("check", once())
			return b.AddEdge(graph.Start, "sub").AddEdge("sub", "check").Compile(mem())
		}, "sub: q2"},
		"behind nodes of one's own graph": {func() (*graph.Graph[S], error) {
			b := graph.New[S]("g")
			agent.AddLLM(b, "ask", agent.LLM[S]{Model: answers("m")})
			b.AddNode("check", once())
			return b.AddEdge(graph.Start, "ask").AddEdge("ask", "check").Compile(mem())
		}, "m: q2"},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := c.build()
			ok(t, g, err)
			if _, err := g.Thread(th).Invoke(t.Context(), input("q1")); err == nil {
				t.Fatal("the first turn did not fail")
			}
			s, err := g.Thread(th).Invoke(t.Context(), input("q2"))
			if err != nil || !s.Done() || s.State.LastResponse.Get() != c.want || s.State.UserInput != "" {
				t.Errorf("%v, done %v, answered %q, left %q\n%s", err, s.Done(), s.State.LastResponse.Get(), s.State.UserInput, s.State.Messages)
			}
			if err := sound(s.State.Messages.Slice()); err != nil {
				t.Errorf("%v\n%s", err, s.State.Messages)
			}
		})
	}
}

// What the failed turn has said stays in the conversation, also what parallel agents
// said whose sibling failed.
func TestWhatAFailedTurnHasSaidStays(t *testing.T) {
	fail := true
	m := scripted.New(scripted.Text("a1"), scripted.Text("a2"))
	g, err := agent.New(agent.ReAct[S]{Model: m, Use: nodes(nil, func(context.Context, *S) error {
		if fail {
			return errors.New("down")
		}
		return nil
	})}, mem())
	_, _ = ok(t, g, err).Thread(th).Invoke(t.Context(), input("q1"))
	fail = false
	s, err := g.Thread(th).Invoke(t.Context(), input("q2"))
	if got := s.State.Messages.String(); err != nil || got != "user: q1\nassistant: a1\nuser: q2\nassistant: a2\n" {
		t.Errorf("%v\n%s", err, got)
	}
	if sent := chat.Of(m.Last().Messages...); sent.String() != "user: q1\nassistant: a1\nuser: q2\n" {
		t.Errorf("sent\n%s", &sent)
	}
	first := make(chan struct{})
	p, err := agent.Parallel("p", []*agent.Agent{agentOf(t, "a", answers("a")), agentOf(t, "b", model.Func(func(ctx context.Context, r *model.Request) (*model.Response, error) {
		<-first
		return brokenAfter("b").Generate(ctx, r)
	}))}, mem(), graph.Observe(&exits{node: "a", closes: first}))
	if _, err = ok(t, p, err).Thread(th).Invoke(t.Context(), input("q1")); err == nil {
		t.Fatal("it did not fail")
	}
	s, err = p.Thread(th).Invoke(t.Context(), p.Input(agent.Ask[S]("q2")))
	if got := s.State.Messages.String(); err != nil || got != "user: q1\nassistant: a: q1\nuser: q2\nassistant: a: q2\nassistant: b: q2\n" {
		t.Errorf("%v\n%s", err, got)
	}
}

// results returns what the model was told of each call, by its ID.
func results(h *chat.History) map[string]string {
	told := map[string]string{}
	for m := range h.All() {
		if r, ok := m.ToolResult(); ok {
			told[r.CallID] = r.Text()
		}
	}
	return told
}

const (
	notCalled = "not called: the user went on"
	unknown   = "was called; the outcome is unknown: the turn ended before it was recorded"
)

// A model is told of each call what the records say, however the turn ended and
// whatever starts the next one.
func TestAModelIsToldOfEachCallWhatTheRecordsSay(t *testing.T) {
	type turn func(g *graph.Graph[S]) (*graph.Snapshot[S], error)
	next := map[string]turn{
		"a message": func(g *graph.Graph[S]) (*graph.Snapshot[S], error) {
			return g.Thread(th).Invoke(t.Context(), input("never mind"))
		},
		"Say": func(g *graph.Graph[S]) (*graph.Snapshot[S], error) {
			return g.Thread(th).Invoke(t.Context(), g.Input(agent.Say[S](chat.User("never mind"))))
		},
		"Restart": func(g *graph.Graph[S]) (*graph.Snapshot[S], error) {
			return g.Thread(th).Invoke(t.Context(), g.Restart(agent.Ask[S]("never mind")))
		},
		"StartAt": func(g *graph.Graph[S]) (*graph.Snapshot[S], error) {
			return g.Thread(th).Invoke(t.Context(), g.Restart(agent.Ask[S]("never mind"), graph.Goto(agent.NodeModel)))
		},
	}
	for name, start := range next {
		for _, parallel := range []int{0, 3} {
			for how, end := range map[string]func(ctx context.Context, cancel func()) error{
				"it fails":      func(context.Context, func()) error { return errors.New("no") },
				"it is stopped": func(ctx context.Context, cancel func()) error { cancel(); <-ctx.Done(); return ctx.Err() },
				"it panics":     func(context.Context, func()) error { panic("no") },
			} {
				ctx, cancel := context.WithCancel(t.Context())
				paid := make(chan struct{})
				var payments int
				pay := tool.New("pay", "p", func(context.Context, none) (string, error) {
					payments++
					close(paid)
					return "paid", nil
				})
				cut := tool.New("cut", "c", func(ctx context.Context, _ none) (string, error) {
					<-paid
					return "", end(ctx, cancel)
				})
				late := tool.New("late", "l", func(ctx context.Context, _ none) (string, error) { return "late", nil })
				m := scripted.New(scripted.Calls(call("1", "pay", "{}"), call("2", "cut", "{}"), call("3", "late", "{}")), scripted.Text("fine"))
				g, err := agent.New(agent.ReAct[S]{Model: m, Tools: []tool.Tool{pay, cut, late}, Parallel: parallel, Use: []agent.Middleware[S]{aroundTools[S](func(_ context.Context, c *chat.ToolCall) (*tool.Result, error) {
					if parallel > 0 && c.Name == "late" {
						return nil, errors.New("not now")
					}
					return nil, nil
				}, nil)}}, mem())
				if _, err := ok(t, g, err).Thread(th).Invoke(ctx, input("go")); err == nil {
					t.Fatal("it did not fail")
				}
				cancel()
				s, err := start(g)
				told := results(&s.State.Messages)
				// Beside others pay may have been cut off after the effect, as cut is.
				exact := told["1"] == "paid" || parallel > 0 && told["1"] == unknown
				if err != nil || !exact || told["2"] != unknown && parallel == 0 || told["3"] != notCalled || payments > 1 {
					t.Errorf("%s, %s, parallel %d: %v, %d payments, told %q", name, how, parallel, err, payments, told)
				}
				if err := sound(s.State.Messages.Slice()); err != nil {
					t.Errorf("%s, %s: %v\n%s", name, how, err, s.State.Messages)
				}
			}
		}
	}
}

// exits closes a channel when a node has succeeded.
type exits struct {
	node   string
	closes chan struct{}
	closed bool
}

func (e *exits) OnNodeEnter(graph.Event)       {}
func (e *exits) OnError(graph.Event)           {}
func (*exits) OnInterrupt(graph.Event)         {}
func (e *exits) OnCheckpointSaved(graph.Event) {}
func (e *exits) OnNodeExit(ev graph.Event) {
	if ev.Node == e.node && len(ev.Path) == 0 && !e.closed {
		e.closed = true
		close(e.closes)
	}
}

// The result of an agent that finished beside one that failed stands beside the log.
func TestASupervisorIsToldWhatItsAgentsCameTo(t *testing.T) {
	for _, restart := range []bool{false, true} {
		first := make(chan struct{})
		a := agentOf(t, "a", model.Func(func(context.Context, *model.Request) (*model.Response, error) {
			return &model.Response{Message: chat.Assistant("done")}, nil
		}))
		g, err := agent.NewSupervisor(agent.Supervisor{
			Model: scripted.New(scripted.Calls(call("1", "a", `{"task":"A"}`), call("2", "b", `{"task":"B"}`)), scripted.Text("fine")),
			Agents: []*agent.Agent{a, agentOf(t, "b", model.Func(func(ctx context.Context, _ *model.Request) (*model.Response, error) {
				<-first
				return nil, errors.New("503")
			}))},
		}, mem(), graph.Observe(&exits{node: "a", closes: first}))
		if _, err := ok(t, g, err).Thread(th).Invoke(t.Context(), input("go")); err == nil {
			t.Fatal("it did not fail")
		}
		request := input("and now?")
		if restart {
			request = g.Restart(agent.Ask[S]("and now?"))
		}
		s, err := g.Thread(th).Invoke(t.Context(), request)
		if told := results(&s.State.Messages); err != nil || told["1"] != "done" || told["2"] != unknown {
			t.Errorf("%v, told %q", err, told)
		}
	}
}

// mortal is a store as one process sees it: when that has died nothing is written.
type mortal struct {
	checkpoint.Store
	dead atomic.Bool
}

var errDead = errors.New("the process is dead")

func (m *mortal) Write(ctx context.Context, w *checkpoint.Write) (checkpoint.Written, error) {
	if m.dead.Load() {
		return checkpoint.Written{}, errDead
	}
	return m.Store.Write(ctx, w)
}

// The process dies inside of a tool; the next one opens the store and is asked
// something else.
func TestACallInWhichTheProcessDiedIsNotToldAsNotCalled(t *testing.T) {
	store := checkpoint.NewMemory()
	first := &mortal{Store: store}
	ctx, cancel := context.WithCancel(t.Context())
	pay := tool.New("pay", "p", func(context.Context, none) (string, error) {
		first.dead.Store(true)
		cancel()
		return "paid", nil
	})
	m := scripted.New(scripted.Calls(call("1", "pay", "{}"), call("2", "pay", "{}")), scripted.Text("fine"))
	process := func(store checkpoint.Store) *graph.Graph[S] {
		g, err := agent.New(agent.ReAct[S]{Model: m, Tools: []tool.Tool{pay}}, graph.WithCheckpointer(store))
		return ok(t, g, err)
	}
	if _, err := process(first).Thread(th).Invoke(ctx, input("go")); err == nil {
		t.Fatal("it did not die")
	}
	s, err := process(&mortal{Store: store}).Thread(th).Invoke(t.Context(), input("did you pay?"))
	if told := results(&s.State.Messages); err != nil || told["1"] != unknown || told["2"] != notCalled {
		t.Errorf("%v, told %q", err, told)
	}
}

// What a human made of a call is what was called, and what the model is told of.
func TestAnEditedCallOfAFailedTurnIsToldAsItWasMade(t *testing.T) {
	var paid []int
	pay := tool.New("pay", "p", func(_ context.Context, in struct{ N int }) (string, error) {
		paid = append(paid, in.N)
		return fmt.Sprint("paid ", in.N), nil
	})
	fail := tool.New("fail", "f", func(context.Context, none) (string, error) { return "", errors.New("no") })
	m := scripted.New(scripted.Calls(call("1", "pay", `{"N":900}`), call("2", "fail", "{}")), scripted.Text("fine"))
	g, err := agent.New(agent.ReAct[S]{Model: m, Tools: []tool.Tool{pay, fail}, Approve: agent.Approve("pay")}, mem())
	if _, err := ok(t, g, err).Thread(th).Invoke(t.Context(), input("go")); err != nil {
		t.Fatal(err)
	}
	edit := agent.Decision{Type: agent.EditCall, Edited: &agent.EditedAction{Name: "pay", Args: []byte(`{"N":5}`)}}
	if _, err := g.Thread(th).Invoke(t.Context(), g.Answer(agent.ApprovalAnswer{Decisions: []agent.Decision{edit}})); err == nil {
		t.Fatal("it did not fail")
	}
	s, err := g.Thread(th).Invoke(t.Context(), input("never mind"))
	want := "user: go\nassistant: pay({\"N\":5}) fail({})\ntool: paid 5\ntool: " + unknown + "\nuser: never mind\nassistant: fine\n"
	if got := s.State.Messages.String(); err != nil || got != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
}

// A message that comes while an approval waits is kept until the call was decided
// about, and answered then. The approval counts.
func TestAnApprovalAfterANewerMessageCounts(t *testing.T) {
	for _, direct := range [][]string{nil, {"pay"}} {
		var called []string
		m := scripted.New(scripted.Calls(call("1", "pay", "{}")), scripted.Text("paid, and it is noon"))
		g, err := agent.New(agent.ReAct[S]{Model: m, Tools: []tool.Tool{logs("pay", &called)}, Approve: agent.Approve("pay"), Direct: direct}, mem())
		for _, text := range []string{"pay", "what time is it?"} {
			s, err := ok(t, g, err).Thread(th).Invoke(t.Context(), input(text))
			if err != nil || len(s.Interrupts) != 1 {
				t.Fatalf("%v, %v", err, s.Interrupts)
			}
		}
		var refused *agent.WaitingError
		if _, err := g.Thread(th).Invoke(t.Context(), input("hello?")); !errors.As(err, &refused) || refused.Kept != "what time is it?" {
			t.Errorf("a third message: %v", err)
		}
		s, err := g.Thread(th).Invoke(t.Context(), g.Answer(agent.ApprovalAnswer{Decisions: []agent.Decision{{Type: agent.ApproveCall}}}))
		want := "user: pay\nassistant: pay({})\ntool: pay done\nuser: what time is it?\nassistant: paid, and it is noon\n"
		if got := s.State.Messages.String(); err != nil || !s.Done() || got != want || len(called) != 1 {
			t.Errorf("%v, called %v\n%s", err, called, got)
		}
	}
}

// Where nothing would take a kept message, it is refused.
func TestAMessageWhileAMemberOfAChainWaitsIsRefused(t *testing.T) {
	sub, err := agent.New(agent.ReAct[S]{Name: "sub", Model: scripted.New(scripted.Call("x", "{}"), scripted.Text("done")), Tools: []tool.Tool{logs("x", new([]string))}, Approve: agent.Approve("x")})
	ok(t, sub, err)
	g, err := agent.Chain("c", []*agent.Agent{echo("a"), agent.Of(sub, "d")}, mem())
	if _, err := ok(t, g, err).Thread(th).Invoke(t.Context(), input("q1")); err != nil {
		t.Fatal(err)
	}
	var refused *agent.WaitingError
	if _, err := g.Thread(th).Invoke(t.Context(), input("q2")); !errors.As(err, &refused) || !strings.Contains(err.Error(), `"approve"`) {
		t.Fatal(err)
	}
	s, err := g.Thread(th).Invoke(t.Context(), g.Answer(agent.ApprovalAnswer{Decisions: []agent.Decision{{Type: agent.ApproveCall}}}))
	if err != nil || s.State.LastResponse.Get() != "done" {
		t.Errorf("%v\n%s", err, s.State.Messages)
	}
}

// A message that was kept is not lost when the turn fails after all.
func TestAKeptMessageOutlivesAFailure(t *testing.T) {
	fail := tool.New("pay", "p", func(context.Context, none) (string, error) { return "", errors.New("no") })
	m := scripted.New(scripted.Calls(call("1", "pay", "{}")), scripted.Text("fine"))
	g, err := agent.New(agent.ReAct[S]{Model: m, Tools: []tool.Tool{fail}, Approve: agent.Approve("pay")}, mem())
	for _, text := range []string{"pay", "what time is it?"} {
		if _, err := ok(t, g, err).Thread(th).Invoke(t.Context(), input(text)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := g.Thread(th).Invoke(t.Context(), g.Answer(agent.ApprovalAnswer{Decisions: []agent.Decision{{Type: agent.ApproveCall}}})); err == nil {
		t.Fatal("it did not fail")
	}
	s, err := g.Thread(th).Invoke(t.Context(), input("hello?"))
	want := "user: pay\nassistant: pay({})\ntool: " + unknown + "\nuser: what time is it?\nuser: hello?\nassistant: fine\n"
	if got := s.State.Messages.String(); err != nil || got != want {
		t.Errorf("%v\n%s", err, got)
	}
}

// What the user has said stays in the conversation, once, if an agent inside has worked
// on it: the call that brought it may have returned without an error, at a question.
func TestWhatAnAgentInsideHasBegunWithStays(t *testing.T) {
	pays := func(name string) *agent.Agent {
		fail := tool.New("pay", "p", func(context.Context, none) (string, error) { return "", errors.New("no") })
		g, err := agent.New(agent.ReAct[S]{Name: name, Model: model.Func(func(_ context.Context, r *model.Request) (*model.Response, error) {
			last := r.Messages[len(r.Messages)-1].Text()
			if last == "pay" {
				return &model.Response{Message: chat.Assistant("", call("1", "pay", "{}"))}, nil
			}
			return &model.Response{Message: chat.Assistant(name + ": " + last)}, nil
		}), Tools: []tool.Tool{fail}, Approve: agent.Approve("pay")})
		return agent.Of(ok(t, g, err), name)
	}
	for name, c := range map[string]struct {
		build func() (*graph.Graph[S], error)
		want  string
	}{
		"chain": {func() (*graph.Graph[S], error) {
			return agent.Chain("c", []*agent.Agent{pays("a"), echo("b")}, mem())
		}, "assistant: a: hello?\nassistant: b: a: hello?\n"},
		"all at once": {func() (*graph.Graph[S], error) {
			return agent.Parallel("p", []*agent.Agent{pays("a"), pays("b")}, mem())
		}, "assistant: a: hello?\nassistant: b: hello?\n"},
		"all at once, one has finished": {func() (*graph.Graph[S], error) {
			return agent.Parallel("p", []*agent.Agent{pays("a"), echo("b")}, mem())
		}, "assistant: a: hello?\nassistant: b: hello?\n"},
	} {
		for _, ends := range []string{"fails", "is given up"} {
			t.Run(name+" "+ends, func(t *testing.T) {
				g, err := c.build()
				th := ok(t, g, err).Thread(th)
				s, err := th.Invoke(t.Context(), input("pay"))
				if err != nil {
					t.Fatal(err)
				}
				request := input("hello?")
				if ends == "fails" {
					answers := graph.Answers{}
					for _, q := range s.Interrupts {
						answers[q.ID] = agent.ApprovalAnswer{Decisions: []agent.Decision{{Type: agent.ApproveCall}}}
					}
					if _, err := th.Invoke(t.Context(), g.Answer(answers)); err == nil {
						t.Fatal("it did not fail")
					}
				} else {
					request = g.Restart(agent.Ask[S]("hello?"))
				}
				s, err = th.Invoke(t.Context(), request)
				want := "user: pay\nuser: hello?\n" + c.want
				if strings.HasSuffix(name, "finished") {
					want = "user: pay\nassistant: b: pay\nuser: hello?\n" + c.want
				}
				if got := s.State.Messages.String(); err != nil || !s.Done() || got != want || s.State.UserInput != "" {
					t.Errorf("%v\n%s", err, got)
				}
			})
		}
	}
}

// A breakpoint is not passed by what the user says instead.
func TestAMessageAtABreakpointMakesNoCalls(t *testing.T) {
	var called []string
	m := scripted.New(scripted.Calls(call("1", "pay", "{}")), scripted.Text("fine"))
	g, err := agent.New(agent.ReAct[S]{Model: m, Tools: []tool.Tool{logs("pay", &called)}}, mem(), graph.InterruptBefore(agent.NodeTools))
	if _, err := ok(t, g, err).Thread(th).Invoke(t.Context(), input("pay")); err != nil {
		t.Fatal(err)
	}
	s, err := g.Thread(th).Invoke(t.Context(), input("no!"))
	if told := results(&s.State.Messages); err != nil || len(called) > 0 || told["1"] != notCalled || !s.Done() {
		t.Errorf("%v, called %v, told %q", err, called, told)
	}
}

// The single node has no conversation in which a message could wait.
func TestAMessageWhileASingleNodeWaitsIsRefused(t *testing.T) {
	var called []string
	m := scripted.New(scripted.Calls(call("1", "pay", "{}")), scripted.Text("done"))
	b := graph.New[report]("g")
	agent.AddReAct(b, "r", agent.ReActNode{Model: m, Tools: []tool.Tool{logs("pay", &called)}, Approve: agent.Approve("pay")})
	b.AddNode("check", func(context.Context, *report) error { return nil })
	g := b.AddEdge(graph.Start, "r").AddEdge("r", "check").MustCompile(mem())
	if _, err := g.Thread(th).Invoke(t.Context(), g.Input(question("pay"))); err != nil {
		t.Fatal(err)
	}
	var refused *agent.WaitingError
	if _, err := g.Thread(th).Invoke(t.Context(), g.Input(question("what time is it?"))); !errors.As(err, &refused) {
		t.Errorf("%v", err)
	}
	s, err := g.Thread(th).Invoke(t.Context(), g.Answer(agent.ApprovalAnswer{Decisions: []agent.Decision{{Type: agent.ApproveCall}}}))
	if err != nil || len(called) != 1 || s.State.FinalOutput != "done" {
		t.Errorf("%v, called %v, %q", err, called, s.State.FinalOutput)
	}
}

// The protocol of the server begins a turn without the answer: an approval that comes
// after it is refused, and nothing is called.
func TestOverHTTPAnApprovalAfterANewerMessageIsRefused(t *testing.T) {
	var called []string
	m := scripted.New(scripted.Calls(call("1", "pay", "{}")), scripted.Text("it is noon"))
	g, err := agent.New(agent.ReAct[S]{Model: m, Tools: []tool.Tool{logs("pay", &called)}, Approve: agent.Approve("pay")})
	srv, err := server.New(t.Context(), server.Graph(ok(t, g, err), server.Named("agent")), server.UseStore(checkpoint.NewMemory()), server.WithoutStudio(), server.Logger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close(context.Background())
	h := httptest.NewServer(srv)
	defer h.Close()
	c, err := client.New(h.URL)
	if err != nil {
		t.Fatal(err)
	}
	thread := "6a0f3e86-7f2c-4d8a-9d53-2f6c1f3b7a12"
	var question string
	for _, text := range []string{"pay", "what time is it?"} {
		out, err := c.Wait(t.Context(), thread, client.RunRequest{Assistant: "agent", CreateThread: true, Input: map[string]string{"user_input": text}})
		if err != nil {
			t.Fatal(err)
		}
		if len(out.Interrupts) > 0 {
			question = out.Interrupts[0].ID
		}
	}
	answer := map[string]any{question: agent.ApprovalAnswer{Decisions: []agent.Decision{{Type: agent.ApproveCall}}}}
	if _, err = c.Wait(t.Context(), thread, client.RunRequest{Assistant: "agent", Command: &client.Command{Resume: answer}}); err == nil || len(called) > 0 {
		t.Errorf("%v, called %v", err, called)
	}
}
