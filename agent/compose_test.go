package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/draw"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

// says is a model that answers with what it was asked, between marks.
func says(mark string) model.Model {
	return model.Func(func(_ context.Context, r *model.Request) (*model.Response, error) {
		return &model.Response{Message: chat.Assistant(mark + "(" + r.Messages[len(r.Messages)-1].Text() + ")")}, nil
	})
}

// member is an agent that answers so.
func member(t *testing.T, name string, m model.Model, tools ...tool.Tool) *agent.Agent {
	t.Helper()
	g, err := agent.New(agent.ReAct[agent.State]{Name: name, Model: m, Tools: tools})
	if err != nil {
		t.Fatal(err)
	}
	return agent.Of(g, "Knows "+name+".")
}

func invoke(t *testing.T, g *graph.Graph[agent.State], err error, text string, thread ...string) *graph.Snapshot[agent.State] {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	snap, err := g.Thread(strings.Join(thread, "")).Invoke(t.Context(), g.Input(agent.Ask[agent.State](text)))
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

func TestAChainPassesAnswersOn(t *testing.T) { // TRPC-49
	g, err := agent.Chain("chain", []*agent.Agent{member(t, "a", says("a")), member(t, "b", says("b"))})
	snap := invoke(t, g, err, "hi")
	same(t, "the conversation", transcript(snap.State.Messages.Slice()), "user: hi\nassistant: a(hi)\nassistant: b(a(hi))\n")
	if snap.State.LastResponse.Get() != "b(a(hi))" || snap.State.Messages.Last().Name != "b" {
		t.Errorf("%q of %q", snap.State.LastResponse.Get(), snap.State.Messages.Last().Name)
	}
	if r, _ := snap.State.NodeResponses.Get("a"); r != "a(hi)" {
		t.Errorf("a's response is %q", r)
	}
}

func TestAnErrorStopsAChain(t *testing.T) { // TRPC-49
	boom := errors.New("boom")
	second := script(scripted.Text("x"))
	g, err := agent.Chain("chain", []*agent.Agent{member(t, "a", script(scripted.Error(boom))), member(t, "b", second)})
	if err != nil {
		t.Fatal(err)
	}
	_, err = g.Invoke(t.Context(), agent.Ask[agent.State]("hi"))
	if !errors.Is(err, boom) || len(second.Requests()) != 0 {
		t.Errorf("%v; the second agent was asked %d times", err, len(second.Requests()))
	}
}

func TestParallelAgentsAnswerOneInput(t *testing.T) { // TRPC-49
	g, err := agent.Parallel("both", []*agent.Agent{member(t, "a", says("a")), member(t, "b", says("b"))})
	if err != nil {
		t.Fatal(err)
	}
	authors := map[string]bool{}
	var last *agent.State
	for ev, err := range g.Stream(t.Context(), agent.Ask[agent.State]("hi"), graph.Modes(graph.ModeMessages, graph.ModeValues)) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Type == graph.EventMessage {
			authors[strings.Join(ev.Path, "/")] = true
		}
		if s, ok := graph.StateOf[agent.State](ev); ok && len(ev.Path) == 0 {
			last = s
		}
	}
	same(t, "the conversation", transcript(last.Messages.Slice()), "user: hi\nassistant: a(hi)\nassistant: b(hi)\n")
	if !authors["a"] || !authors["b"] {
		t.Errorf("tokens come from %v", authors)
	}
	if got := last.LastResponse.Get(); got != "a: a(hi)\n\nb: b(hi)" {
		t.Errorf("all answers: %q", got)
	}
	// In a chain the next agent sees all of them.
	chain, err := agent.Chain("chain", []*agent.Agent{agent.Of(g, ""), member(t, "c", says("c"))})
	snap := invoke(t, chain, err, "hi")
	if got := snap.State.LastResponse.Get(); got != "c(a: a(hi)\n\nb: b(hi))" {
		t.Errorf("the chain's answer is %q", got)
	}
	if r, _ := snap.State.NodeResponses.Get("both/a"); r != "a(hi)" {
		t.Errorf("the inner response is %q", r)
	}
}

func TestACycleEnds(t *testing.T) { // TRPC-49
	for name, c := range map[string]struct {
		cycle  agent.Cycle
		want   string
		rounds int
	}{
		"at its limit": {agent.Cycle{Agents: []*agent.Agent{member(t, "a", says("a")), member(t, "b", says("b"))}, MaxRounds: 2}, "b(a(b(a(hi))))", 2},
		"when it is good enough": {agent.Cycle{
			Agents: []*agent.Agent{member(t, "a", says("a"))}, MaxRounds: 9,
			Until: func(s *agent.State) bool { return strings.Count(s.LastResponse.Get(), "a") == 3 },
		}, "a(a(a(hi)))", 3},
		"when an agent escalates": {agent.Cycle{Agents: []*agent.Agent{
			member(t, "a", script(scripted.Text("draft"), scripted.Call("exit_loop", "{}"), scripted.Text("good")), agent.EscalateTool[agent.State]()),
		}, MaxRounds: 9}, "good", 2},
	} {
		c.cycle.Name = "cycle"
		g, err := agent.NewCycle(c.cycle)
		snap := invoke(t, g, err, "hi")
		if snap.State.LastResponse.Get() != c.want || snap.State.Rounds != c.rounds {
			t.Errorf("%s: %q after %d rounds", name, snap.State.LastResponse.Get(), snap.State.Rounds)
		}
	}
}

// A second turn of a cycle begins anew.
func TestACycleCountsItsRoundsAnew(t *testing.T) {
	g, err := agent.NewCycle(agent.Cycle{Name: "c", Agents: []*agent.Agent{member(t, "a", says("a"))}, MaxRounds: 2}, memory())
	for range 2 {
		if snap := invoke(t, g, err, "hi", "t"); snap.State.Rounds != 2 || snap.State.LastResponse.Get() != "a(a(hi))" {
			t.Errorf("%d rounds, %q", snap.State.Rounds, snap.State.LastResponse.Get())
		}
	}
}

// TRPC-22, 24: an agent, here a chain, between the nodes of a user's graph.
func TestAnAgentAsANode(t *testing.T) {
	chain, err := agent.Chain("analyzer", []*agent.Agent{member(t, "a", says("a")), member(t, "b", says("b"))})
	if err != nil {
		t.Fatal(err)
	}
	b := graph.New[state]("g").
		AddNode("prepare", func(_ context.Context, s *state) error {
			s.UserInput = strings.TrimSpace(s.UserInput)
			s.Topic = "cats"
			return nil
		}).
		AddNode("finalize", func(_ context.Context, s *state) error { s.Notes.Add("final " + s.LastResponse.Get()); return nil })
	agent.AddAgent(b, "analyzer", agent.Of(chain, ""), agent.SubAgent[state]{
		Input:  func(s *state, in *agent.State) { in.UserInput += " about " + s.Topic },
		Output: func(s *state, out *agent.State) { s.Notes.Add(fmt.Sprint(out.Messages.Len(), " messages")) },
	})
	g := compile(t, b.AddSequence("prepare", "analyzer", "finalize").AddEdge(graph.Start, "prepare"))
	snap, err := g.Invoke(t.Context(), ask(" hi "))
	if err != nil {
		t.Fatal(err)
	}
	if got := snap.State.Notes.Slice(); !slices.Equal(got, []string{"3 messages", "final b(a(hi about cats))"}) {
		t.Errorf("notes %q", got)
	}
	same(t, "the conversation", messages(snap), "user: hi\nassistant: b(a(hi about cats))\n")
	if r, _ := snap.State.NodeResponses.Get("analyzer"); r != "b(a(hi about cats))" || snap.State.UserInput != "" {
		t.Errorf("node response %q, input %q", r, snap.State.UserInput)
	}
	if d := draw.Mermaid(g.Drawing(-1), nil); !strings.Contains(d, "subgraph") || !strings.Contains(d, "analyzer") {
		t.Errorf("the agent's inside is not drawn:\n%s", d)
	}
}

// Agents that are nodes one after the other get the user's input, or the answer
// before, and of the graph's state what is passed on; what happens in them is seen
// in the graph's stream.
func TestAgentsAsNodesOneAfterTheOther(t *testing.T) {
	type given struct {
		agent.State
		Topic string
	}
	echo := func(name string) *agent.Agent {
		b := graph.New[given](name)
		b.AddNode("echo", func(_ context.Context, s *given) error {
			lang, _ := s.Metadata.Get("lang")
			s.LastResponse.Add(fmt.Sprintf("%s(%s, %s, %s)", name, s.UserInput, s.Topic, lang))
			return nil
		})
		inner := compile(t, b.AddEdge(graph.Start, "echo"))
		return agent.Of(inner, "")
	}
	b := graph.New[state]("g")
	for _, name := range []string{"a", "b"} {
		agent.AddAgent(b, name, echo(name), agent.SubAgent[state]{Input: func(s *state, in *agent.State) {
			in.UserInput += " about " + s.Topic
		}})
	}
	g := compile(t, b.AddSequence("a", "b").AddEdge(graph.Start, "a"))
	var inside []string
	var last *state
	for ev, err := range g.Stream(t.Context(), func(s *state) error {
		s.UserInput, s.Topic = "hi", "cats"
		s.Metadata.Put("lang", json.RawMessage(`"en"`))
		return nil
	}, graph.Modes(graph.ModeTasks, graph.ModeValues)) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Type == graph.EventTaskEnd && len(ev.Path) > 0 {
			inside = append(inside, strings.Join(append(ev.Path, ev.Node), "/"))
		}
		if s, ok := graph.StateOf[state](ev); ok && len(ev.Path) == 0 {
			last = s
		}
	}
	first := `a(hi about cats, , "en")`
	second := "b(" + first + ` about cats, , "en")`
	if last == nil || last.LastResponse.Get() != second || last.UserInput != "" {
		t.Fatalf("%+v", last)
	}
	for name, want := range map[string]string{"a": first, "b": second} {
		if got, _ := last.NodeResponses.Get(name); got != want {
			t.Errorf("the response of %s is %q", name, got)
		}
	}
	if !slices.Equal(inside, []string{"a/echo", "b/echo"}) {
		t.Errorf("seen inside: %q", inside)
	}
}

func TestAnAgentThatSeesTheConversation(t *testing.T) {
	inner := script(scripted.Text("ok"))
	b := graph.New[state]("g")
	agent.AddAgent(b, "a", member(t, "a", inner), agent.SubAgent[state]{Conversation: true})
	snap, err := compile(t, b.AddEdge(graph.Start, "a")).Invoke(t.Context(), func(s *state) error {
		s.Messages.Add(chat.User("u1"), chat.Assistant("a1"))
		s.UserInput = "u2"
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the request", transcript(inner.Last().Messages), "user: u1\nassistant: a1\nuser: u2\n")
	same(t, "the conversation", messages(snap), "user: u1\nassistant: a1\nuser: u2\nassistant: ok\n")
}

// a question of an agent inside of an agent is the thread's, and its tools
// aren't called again.
func TestAQuestionOfASubAgent(t *testing.T) {
	n := 0
	inner, err := agent.New(agent.ReAct[agent.State]{
		Name: "inner", Tools: []tool.Tool{counted(&n)}, Approve: agent.Approve("multiply"),
		Model: script(scripted.Call("multiply", `{"a":6,"b":7}`), scripted.Text("42")),
	})
	if err != nil {
		t.Fatal(err)
	}
	sub := agent.Of(inner, "Calculates.")
	asked := script(calls(call("1", "inner", `{"task":"6*7"}`)), scripted.Text("It is 42."))
	outer, err := agent.New(agent.ReAct[state]{Model: asked, Tools: []tool.Tool{agent.AsTool(sub)}}, memory())
	if err != nil {
		t.Fatal(err)
	}
	snap, err := outer.Thread("t").Invoke(t.Context(), outer.Input(ask("6*7?")))
	if err != nil || len(snap.Interrupts) != 1 || snap.Interrupts[0].Key != agent.ApprovalKey || len(snap.Interrupts[0].Path) == 0 {
		t.Fatalf("%v, %+v", err, snap.Interrupts)
	}
	snap, err = outer.Thread("t").Invoke(t.Context(), outer.Answer(agent.ApprovalAnswer{Decisions: []agent.Decision{{Type: agent.ApproveCall}}}))
	if err != nil || n != 1 || snap.State.LastResponse.Get() != "It is 42." {
		t.Fatalf("%v, called %d times, %q", err, n, snap.State.LastResponse.Get())
	}
	same(t, "the conversation", messages(snap), "user: 6*7?\nassistant: [1 inner{\"task\":\"6*7\"}]\ntool: 42 (1)\nassistant: It is 42.\n")
}

func TestASupervisorHandsTasksToAgents(t *testing.T) {
	n := 0
	boss := script(
		calls(call("1", "maths", `{"task":"6*7"}`), call("2", "poet", `{"task":"rhyme"}`), call("3", "multiply", `{"a":1,"b":1}`), call("4", "poet", `{"task":"more"}`)),
		scripted.Text("done"),
	)
	g, err := agent.NewSupervisor(agent.Supervisor{
		Model: boss, Tools: []tool.Tool{counted(&n)}, Instruction: "Lead.",
		Agents: []*agent.Agent{member(t, "maths", says("m")), member(t, "poet", says("p"))},
	}, memory())
	snap := invoke(t, g, err, "go", "t")
	same(t, "the conversation", transcript(snap.State.Messages.Slice()), `
		user: go
		assistant: [1 maths{"task":"6*7"}][2 poet{"task":"rhyme"}][3 multiply{"a":1,"b":1}][4 poet{"task":"more"}]
		tool: m(6*7) (1)
		tool: p(rhyme) (2)
		tool: p(more) (4)
		tool: 1 (3)
		assistant: done
		`)
	if n != 1 || len(boss.Requests()) != 2 || len(boss.Requests()[0].Tools) != 3 {
		t.Errorf("called %d times, %d requests", n, len(boss.Requests()))
	}
	if d := draw.Mermaid(g.Drawing(0), nil); !strings.Contains(d, "maths") || !strings.Contains(d, "poet") {
		t.Error(d)
	}
}

func TestASupervisorWhoseCallsGoWrong(t *testing.T) {
	for name, c := range map[string]struct {
		policy agent.ErrorPolicy
		call   chat.ToolCall
		agent  model.Model
		want   string // the result; empty: an error
	}{
		"an unknown agent":       {agent.TellModelAll, call("1", "painter", `{"task":"x"}`), says("p"), "[TOOL ERROR] painter: unknown tool"},
		"an unknown agent fails": {agent.FailFast, call("1", "painter", `{"task":"x"}`), says("p"), ""},
		"a broken call":          {agent.TellModelAll, call("1", "poet", `{"task":`), says("p"), "[TOOL ERROR] poet: invalid arguments"},
		"a task missing":         {agent.TellModel, call("1", "poet", `{}`), says("p"), "[TOOL ERROR] poet: invalid arguments"},
		"an agent that fails":    {agent.TellModel, call("1", "poet", `{"task":"x"}`), script(scripted.Error(errors.New("boom"))), "[TOOL ERROR] poet: "},
		"one that fails fast":    {agent.FailFast, call("1", "poet", `{"task":"x"}`), script(scripted.Error(errors.New("boom"))), ""},
	} {
		g, err := agent.NewSupervisor(agent.Supervisor{
			Model: script(calls(c.call), scripted.Text("done")), OnError: c.policy, Agents: []*agent.Agent{member(t, "poet", c.agent)},
		})
		if err != nil {
			t.Fatal(err)
		}
		snap, err := g.Invoke(t.Context(), agent.Ask[agent.State]("go"))
		if c.want == "" {
			var ce *agent.ToolCallError
			if !errors.As(err, &ce) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := snap.State.Messages.Slice()[2].Text(); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: the model is told %q", name, got)
		}
	}
}

func TestASwarmHandsTheConversationOver(t *testing.T) {
	alice := script(scripted.Text("Hello."), calls(call("1", "transfer_to_bob", ""), call("2", "transfer_to_carol", "{}")))
	bob := script(scripted.Text("Bob here."), scripted.Text("Still Bob."))
	g, err := agent.NewSwarm(agent.Swarm{Agents: []agent.SwarmAgent{
		{ReAct: agent.ReAct[agent.State]{Name: "alice", Model: alice, Instruction: "You are Alice."}, Description: "Greets."},
		{ReAct: agent.ReAct[agent.State]{Name: "bob", Model: bob, Instruction: "You are Bob."}, Description: "Builds.", To: []string{"alice"}},
		{ReAct: agent.ReAct[agent.State]{Name: "carol", Model: says("c")}, To: []string{}},
	}}, memory())
	for _, text := range []string{"hi", "build", "more"} {
		invoke(t, g, err, text, "t")
	}
	snap, err := g.Thread("t").State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the conversation", transcript(snap.State.Messages.Slice()), `
		user: hi
		assistant: Hello.
		user: build
		assistant: [1 transfer_to_bob{}][2 transfer_to_carol{}]
		tool: The conversation was handed over to bob. (1)
		tool: Not done: the conversation was handed over to bob already. (2)
		assistant: Bob here.
		user: more
		assistant: Still Bob.
		`)
	if snap.State.Active != "bob" || bob.Requests()[0].Messages[0].Text() != "You are Bob." || len(bob.Requests()[0].Tools) != 1 || len(alice.Requests()[0].Tools) != 2 {
		t.Errorf("active %q, %v", snap.State.Active, bob.Requests()[0].Tools)
	}
}

func TestMistakesInCompositions(t *testing.T) {
	ok := member(t, "a", says("a"))
	for name, c := range map[string]struct {
		make func() error
		want string
	}{
		"no agents":      {func() error { _, err := agent.Chain("c", nil); return err }, "no agents"},
		"a nil agent":    {func() error { _, err := agent.Parallel("c", []*agent.Agent{nil, ok}); return err }, "an agent is nil"},
		"a nil graph":    {func() error { _, err := agent.Chain("c", []*agent.Agent{agent.Of[agent.State](nil, "")}); return err }, "an agent is nil"},
		"one name twice": {func() error { _, err := agent.Chain("c", []*agent.Agent{ok, ok}); return err }, `"a"`},
		"no limit":       {func() error { _, err := agent.NewCycle(agent.Cycle{Name: "c", Agents: []*agent.Agent{ok}}); return err }, "MaxRounds"},
		"no model":       {func() error { _, err := agent.NewSupervisor(agent.Supervisor{Agents: []*agent.Agent{ok}}); return err }, "needs a Model"},
		"a nil agent to lead": {func() error {
			_, err := agent.NewSupervisor(agent.Supervisor{Model: says("x"), Agents: []*agent.Agent{nil}})
			return err
		}, "nil"},
		"a swarm's start": {func() error {
			_, err := agent.NewSwarm(agent.Swarm{Start: "x", Agents: []agent.SwarmAgent{{ReAct: agent.ReAct[agent.State]{Name: "a", Model: says("a")}, To: []string{"y"}}}})
			return err
		}, `"y"`},
	} {
		if err := c.make(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// asking is an agent as a tool that multiplies two by two, and asks before it does.
func asking(t *testing.T, name string, n *int) tool.Tool {
	t.Helper()
	g, err := agent.New(agent.ReAct[agent.State]{
		Name: name, Tools: []tool.Tool{counted(n)}, Approve: agent.Approve("multiply"),
		Model: script(calls(call(name+"1", "multiply", `{"a":2,"b":2}`)), scripted.Text(name+" says 4")),
	})
	if err != nil {
		t.Fatal(err)
	}
	return agent.AsTool(agent.Of(g, ""))
}

// Agents that are tools work at once, and each may ask.
func TestParallelToolsThatAreAgentsAsk(t *testing.T) {
	n := 0
	sub := func(name string) tool.Tool { return asking(t, name, &n) }
	m := script(calls(call("1", "x", `{"task":"x"}`), call("2", "y", `{"task":"y"}`)), scripted.Text("done"))
	g := react(t, agent.ReAct[state]{Model: m, Tools: []tool.Tool{sub("x"), sub("y")}, Parallel: 2}, memory())
	snap, err := g.Thread("t").Invoke(t.Context(), g.Input(ask("go")))
	for range 3 {
		if err != nil {
			t.Fatal(err)
		}
		if snap.Done() {
			break
		}
		answers := graph.Answers{}
		for _, q := range snap.Interrupts {
			answers[q.ID] = agent.ApprovalAnswer{Decisions: []agent.Decision{{Type: agent.ApproveCall}}}
		}
		snap, err = g.Thread("t").Invoke(t.Context(), g.Answer(answers))
	}
	if err != nil || !snap.Done() || n != 2 {
		t.Fatalf("%v, %d calls, %v", err, n, snap.Interrupts)
	}
	same(t, "the conversation", messages(snap), "user: go\nassistant: [1 x{\"task\":\"x\"}][2 y{\"task\":\"y\"}]\ntool: x says 4 (1)\ntool: y says 4 (2)\nassistant: done\n")
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
