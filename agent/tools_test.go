package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graphtest"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

func TestToolsAnswerTheCallsInTheirOrder(t *testing.T) { // W7-34, SYN-06, W5-22, TRPC-20
	var log []string
	g := tools(t, agent.Tools[state]{Tools: []tool.Tool{logged("a", &log), logged("b", &log)}})
	snap, err := g.Invoke(t.Context(), say(chat.User("go"), chat.Assistant("", call("1", "b", "{}"), call("2", "a", ""))))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the conversation", messages(snap), `
		user: go
		assistant: [1 b{}][2 a]
		tool: b done (1)
		tool: a done (2)
		`)
	if !slices.Equal(log, []string{"b", "a"}) {
		t.Error(log)
	}
}

func TestWithoutCallsNothingChanges(t *testing.T) { // SYN-06
	g := tools(t, agent.Tools[state]{Tools: []tool.Tool{failing("f")}})
	snap, err := g.Invoke(t.Context(), say(chat.User("go"), chat.Assistant("done")))
	if err != nil || messages(snap) != "user: go\nassistant: done\n" {
		t.Errorf("%v, %s", err, messages(snap))
	}
	if _, err := g.Invoke(t.Context(), nil); !errors.Is(err, agent.ErrNoMessages) {
		t.Errorf("an empty conversation: %v", err)
	}
}

func TestWhichCallsArePending(t *testing.T) { // TRPC-21
	c1, c2 := call("1", "f", "{}"), call("2", "f", "{}")
	for name, c := range map[string]struct {
		messages []chat.Message
		want     []chat.ToolCall
	}{
		"none":                              {nil, nil},
		"all":                               {[]chat.Message{chat.Assistant("", c1, c2)}, []chat.ToolCall{c1, c2}},
		"those without a result":            {[]chat.Message{chat.Assistant("", c1, c2), chat.ResultText(c1, "x")}, []chat.ToolCall{c2}},
		"none that were answered":           {[]chat.Message{chat.Assistant("", c1), chat.ResultText(c1, "x")}, nil},
		"none before the user's message":    {[]chat.Message{chat.Assistant("", c1), chat.User("stop")}, nil},
		"none of an earlier message":        {[]chat.Message{chat.Assistant("", c1), chat.Assistant("", c2), chat.ResultText(c2, "x")}, nil},
		"a message without calls is passed": {[]chat.Message{chat.Assistant("", c1), chat.Assistant("wait")}, []chat.ToolCall{c1}},
	} {
		h := chat.Of(c.messages...)
		if _, got := agent.Pending(&h); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// What a tool's failure leads to.
func TestToolFailures(t *testing.T) { // W5-04, 19, 20, 21; C-27
	for name, c := range map[string]struct {
		call  chat.ToolCall
		kinds map[agent.ErrorPolicy]string // the tool's message; empty: the node fails
		kind  tool.ErrorKind
	}{
		"a tool that fails": {call("1", "f", "{}"), map[agent.ErrorPolicy]string{
			agent.FailFast: "", agent.TellModel: "[TOOL ERROR] f: no luck", agent.TellModelAll: "[TOOL ERROR] f: no luck"}, tool.ErrorFailed},
		"a tool that panics": {call("1", "p", "{}"), map[agent.ErrorPolicy]string{
			agent.FailFast: "", agent.TellModel: "[TOOL ERROR] p: panic: oh", agent.TellModelAll: "[TOOL ERROR] p: panic: oh"}, tool.ErrorPanic},
		"an unknown tool": {call("1", "ff", "{}"), map[agent.ErrorPolicy]string{
			agent.FailFast: "", agent.TellModel: "", agent.TellModelAll: `[TOOL ERROR] ff: unknown tool: `}, tool.ErrorUnknown},
		"arguments that don't parse": {call("1", "f", `{"a":`), map[agent.ErrorPolicy]string{
			agent.FailFast: "", agent.TellModel: "", agent.TellModelAll: "[TOOL ERROR] f: invalid arguments: "}, tool.ErrorArguments},
		"a call without ID": {call("", "f", `{}`), map[agent.ErrorPolicy]string{
			agent.FailFast: "", agent.TellModel: "", agent.TellModelAll: "[TOOL ERROR] f: no luck"}, tool.ErrorArguments},
		"arguments that don't fit": {call("1", "m", `{"a":"x"}`), map[agent.ErrorPolicy]string{
			agent.FailFast: "", agent.TellModel: "[TOOL ERROR] m: invalid arguments: ", agent.TellModelAll: "[TOOL ERROR] m: invalid arguments: "}, tool.ErrorArguments},
	} {
		for policy, want := range c.kinds {
			after := 0
			later := tool.New("later", "", func(context.Context, struct{}) (string, error) { after++; return "ok", nil })
			n := 0
			mul := tool.New("m", "", func(_ context.Context, in pair) (int, error) { n++; return 0, nil })
			panics := tool.New("p", "", func(context.Context, struct{}) (string, error) { panic("oh") })
			g := tools(t, agent.Tools[state]{Tools: []tool.Tool{failing("f"), panics, mul, later}, OnError: policy})
			snap, err := g.Invoke(t.Context(), say(chat.User("go"), chat.Assistant("", c.call, call("2", "later", "{}"))))
			var callErr *agent.ToolCallError
			var toolErr *tool.Error
			if want == "" {
				if !errors.As(err, &callErr) || callErr.Call != c.call || !errors.As(err, &toolErr) || toolErr.Kind != c.kind || after != 0 {
					t.Errorf("%s, policy %d: %v; the next tool was called %d times", name, policy, err, after)
				}
				continue
			}
			if err != nil || after != 1 {
				t.Errorf("%s, policy %d: %v; the next tool was called %d times", name, policy, err, after)
				continue
			}
			all := snap.State.Messages.Slice()
			r, _ := all[2].ToolResult()
			if !strings.HasPrefix(r.Text(), want) || !r.IsError || all[3].Text() != "ok" {
				t.Errorf("%s, policy %d: the model is told %q", name, policy, r.Text())
			}
		}
	}
}

// A result is recorded: when the node runs again, the tool isn't called again.
func TestAToolWithARecordedResultIsNotCalledAgain(t *testing.T) {
	first, second := 0, 0
	a := tool.New("a", "", func(ctx context.Context, _ struct{}) (string, error) {
		first++
		if info := tool.InfoOf(ctx); info.CallID != "1" || info.IdempotencyKey == "" {
			t.Errorf("info %+v", info)
		}
		return "one", nil
	})
	b := tool.New("b", "", func(context.Context, struct{}) (string, error) {
		if second++; second == 1 {
			return "", errors.New("down")
		}
		return "two", nil
	})
	g := tools(t, agent.Tools[state]{Tools: []tool.Tool{a, b}}, memory())
	if _, err := g.Thread("t").Invoke(t.Context(), g.Input(say(chat.User("go"), chat.Assistant("", call("1", "a", "{}"), call("2", "b", "{}"))))); err == nil {
		t.Fatal("no error")
	}
	var ended []tool.Ended
	var last string
	for ev, err := range g.Thread("t").Stream(t.Context(), g.Continue(), graph.Modes(graph.ModeTools, graph.ModeValues)) {
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := ev.Value.(tool.Ended); ok {
			ended = append(ended, e)
		}
		if s, ok := graph.StateOf[state](ev); ok {
			last = transcript(s.Messages.Slice())
		}
	}
	if first != 1 || second != 2 || !strings.Contains(last, "tool: one (1)\ntool: two (2)") {
		t.Errorf("%d, %d calls; %s", first, second, last)
	}
	if len(ended) != 2 || !ended[0].Recorded || ended[1].Recorded || ended[0].Result.Content[0] != (chat.Text{Text: "one"}) {
		t.Errorf("%+v", ended)
	}
}

// A failure that the model was told of is recorded as well.
func TestARecordedFailureIsNotTriedAgain(t *testing.T) {
	n := 0
	bad := tool.New("bad", "", func(context.Context, struct{}) (string, error) { n++; return "", errors.New("no luck") })
	asks := tool.New("asks", "", func(ctx context.Context, _ struct{}) (string, error) {
		return graph.Interrupt[string](ctx, "k", "?")
	})
	g := tools(t, agent.Tools[state]{Tools: []tool.Tool{bad, asks}, OnError: agent.TellModel}, memory())
	snap, err := g.Thread("t").Invoke(t.Context(), g.Input(say(chat.User("go"), chat.Assistant("", call("1", "bad", "{}"), call("2", "asks", "{}")))))
	if err != nil || len(snap.Interrupts) == 0 {
		t.Fatal(err)
	}
	if snap, err = g.Thread("t").Invoke(t.Context(), g.Answer("yes")); err != nil || n != 1 {
		t.Errorf("%v; called %d times", err, n)
	}
	same(t, "the conversation", messages(snap), "user: go\nassistant: [1 bad{}][2 asks{}]\ntool: [TOOL ERROR] bad: no luck (1) failed\ntool: yes (2)\n")
}

// a tool may ask a human, in parallel with others too.
func TestAToolThatAsks(t *testing.T) {
	for _, parallel := range []int{0, 4} {
		var before, after atomic.Int32
		count := func(n *atomic.Int32) func(context.Context, struct{}) (string, error) {
			return func(context.Context, struct{}) (string, error) { n.Add(1); return "ok", nil }
		}
		asks := tool.New("asks", "", func(ctx context.Context, _ struct{}) (string, error) {
			ok, err := graph.Interrupt[bool](ctx, "sure", "sure?")
			return fmt.Sprint(ok), err
		})
		g := tools(t, agent.Tools[state]{Parallel: parallel, OnError: agent.TellModel, Tools: []tool.Tool{tool.New("x", "", count(&before)), asks, tool.New("y", "", count(&after))}}, memory())
		snap, err := g.Thread("t").Invoke(t.Context(), g.Input(say(chat.User("go"), chat.Assistant("", call("1", "x", "{}"), call("2", "asks", "{}"), call("3", "y", "{}")))))
		if err != nil || len(snap.Interrupts) != 1 || snap.Interrupts[0].Key != "sure" {
			t.Fatalf("parallel %d: %v, %v", parallel, snap.Interrupts, err)
		}
		if snap, err = g.Thread("t").Invoke(t.Context(), g.Answer(true)); err != nil {
			t.Fatal(err)
		}
		same(t, "the conversation", messages(snap), "user: go\nassistant: [1 x{}][2 asks{}][3 y{}]\ntool: ok (1)\ntool: true (2)\ntool: ok (3)\n")
		if before.Load() != 1 || after.Load() != 1 {
			t.Errorf("parallel %d: called %d and %d times", parallel, before.Load(), after.Load())
		}
	}
}

// C-26: on request tools are called at once; the results stand in the order of
// the calls.
func TestToolsInParallel(t *testing.T) {
	var both sync.WaitGroup
	both.Add(2)
	meet := func(name string) tool.Tool { // returns when the other was called, too
		return tool.New(name, "", func(context.Context, struct{}) (string, error) {
			both.Done()
			both.Wait()
			return name, nil
		})
	}
	g := tools(t, agent.Tools[state]{Tools: []tool.Tool{meet("a"), meet("b")}, Parallel: 2})
	snap, err := g.Invoke(t.Context(), say(chat.User("go"), chat.Assistant("", call("1", "b", "{}"), call("2", "a", "{}"))))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the conversation", messages(snap), "user: go\nassistant: [1 b{}][2 a{}]\ntool: b (1)\ntool: a (2)\n")
}

func TestAFailureInParallelCancelsTheOthers(t *testing.T) {
	waits := tool.New("waits", "", func(ctx context.Context, _ struct{}) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	})
	g := tools(t, agent.Tools[state]{Tools: []tool.Tool{waits, failing("f")}, Parallel: 2})
	_, err := g.Invoke(t.Context(), say(chat.User("go"), chat.Assistant("", call("1", "waits", "{}"), call("2", "f", "{}"))))
	var callErr *agent.ToolCallError
	if !errors.As(err, &callErr) || callErr.Call.Name != "f" {
		t.Errorf("got %v", err)
	}
}

// A tool may write the state, and say where the graph goes on.
func TestAToolWithState(t *testing.T) {
	type in struct {
		Text string `json:"text"`
	}
	note := agent.NewStateTool("note", "Takes a note.", func(_ context.Context, s *state, in in) (string, graph.Command, error) {
		s.Notes.Add(in.Text)
		return fmt.Sprintf("note %d", s.Notes.Len()), graph.Command{}, nil
	})
	leave := agent.NewStateTool("leave", "Leaves.", func(_ context.Context, s *state, _ struct{}) (string, graph.Command, error) {
		return "bye", graph.Goto("away"), nil
	})
	ran := ""
	visit := func(name string) func(context.Context, *state) error {
		return func(context.Context, *state) error { ran = name; return nil }
	}
	n := 0
	for _, parallel := range []int{0, 3} {
		b := graph.New[state]("g").AddNode("away", visit("away")).AddNode("next", visit("next"))
		agent.AddTools(b, "tools", agent.Tools[state]{Tools: []tool.Tool{note, leave, counted(&n)}, Parallel: parallel}, graph.Destinations("away"))
		g := compile(t, b.AddEdge(graph.Start, "tools").AddEdge("tools", "next"))
		run := func(calls ...chat.ToolCall) *graph.Snapshot[state] {
			snap, err := g.Invoke(t.Context(), say(chat.User("go"), chat.Assistant("", calls...)))
			if err != nil {
				t.Fatal(err)
			}
			return snap
		}
		snap := run(call("1", "note", `{"text":"a"}`), call("2", "multiply", `{"a":2,"b":2}`), call("3", "note", `{"text":"b"}`))
		if !slices.Equal(snap.State.Notes.Slice(), []string{"a", "b"}) || ran != "next" {
			t.Errorf("notes %v, then %s", snap.State.Notes.Slice(), ran)
		}
		same(t, "the conversation", messages(snap), "user: go\nassistant: [1 note{\"text\":\"a\"}][2 multiply{\"a\":2,\"b\":2}][3 note{\"text\":\"b\"}]\ntool: note 1 (1)\ntool: 4 (2)\ntool: note 2 (3)\n")
		if run(call("1", "leave", "")); ran != "away" {
			t.Errorf("then %s", ran)
		}
	}
	var se *agent.StateError
	if _, err := note.Call(t.Context(), json.RawMessage(`{"text":"x"}`)); !errors.As(err, &se) {
		t.Errorf("outside of a node: %v", err)
	}
}

// What a state tool wrote before a question of another is neither lost nor
// doubled.
func TestStateToolsAndQuestions(t *testing.T) {
	note := agent.NewStateTool("note", "", func(_ context.Context, s *state, _ struct{}) (string, graph.Command, error) {
		s.Notes.Add("x")
		return "ok", graph.Command{}, nil
	})
	asks := tool.New("asks", "", func(ctx context.Context, _ struct{}) (string, error) { return graph.Interrupt[string](ctx, "k", "?") })
	g := tools(t, agent.Tools[state]{Tools: []tool.Tool{note, asks}}, memory())
	if _, err := g.Thread("t").Invoke(t.Context(), g.Input(say(chat.User("go"), chat.Assistant("", call("1", "note", ""), call("2", "asks", ""))))); err != nil {
		t.Fatal(err)
	}
	snap, err := g.Thread("t").Invoke(t.Context(), g.Answer("yes"))
	if err != nil || snap.State.Notes.Len() != 1 || snap.State.Messages.Len() != 4 {
		t.Errorf("%v, notes %v, %s", err, snap.State.Notes.Slice(), messages(snap))
	}
}

func TestToolCallbacks(t *testing.T) { // TRPC-47
	n := 0
	var seen []string
	g := tools(t, agent.Tools[state]{
		Tools: []tool.Tool{counted(&n), failing("f")},
		Use: []agent.Middleware[state]{aroundTools[state](func(_ context.Context, c *chat.ToolCall) (*tool.Result, error) {
			seen = append(seen, "before "+c.ID)
			switch c.ID {
			case "1":
				c.Args = `{"a":3,"b":3}`
			case "2":
				r := tool.Text("short")
				return &r, nil
			}
			return nil, nil
		}, func(_ context.Context, c chat.ToolCall, r *tool.Result, err error) (*tool.Result, error) {
			seen = append(seen, fmt.Sprint("after ", c.ID, " ", err != nil))
			if err != nil {
				r := tool.Text("saved")
				return &r, nil
			}
			return nil, nil
		})},
	})
	snap, err := g.Invoke(t.Context(), say(chat.User("go"), chat.Assistant("", call("1", "multiply", `{"a":2,"b":2}`), call("2", "multiply", `{"a":2,"b":2}`), call("3", "f", ""))))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the conversation", messages(snap), "user: go\nassistant: [1 multiply{\"a\":2,\"b\":2}][2 multiply{\"a\":2,\"b\":2}][3 f]\ntool: 9 (1)\ntool: short (2)\ntool: saved (3)\n")
	if got := strings.Join(seen, ", "); got != "before 1, after 1 false, before 2, after 2 false, before 3, after 3 true" || n != 1 {
		t.Errorf("%s; called %d times", got, n)
	}
}

func TestDirectToolsEndTheTurn(t *testing.T) {
	b := graph.New[state]("g").AddNode("next", func(context.Context, *state) error { t.Error("the turn went on"); return nil })
	agent.AddTools(b, "tools", agent.Tools[state]{Tools: []tool.Tool{logged("a", new([]string))}, Direct: []string{"a"}}, graph.Destinations(graph.End))
	snap, err := compile(t, b.AddEdge(graph.Start, "tools").AddEdge("tools", "next")).Invoke(t.Context(), say(chat.User("go"), chat.Assistant("", call("1", "a", ""))))
	if err != nil || snap.State.LastResponse.Get() != "a done" || snap.State.Stopped.Get() != agent.StopDirect {
		t.Errorf("%v, %q, %s", err, snap.State.LastResponse.Get(), snap.State.Stopped.Get())
	}
}

func TestMistakesInAToolsNode(t *testing.T) {
	b := graph.New[state]("g")
	agent.AddTools(b, "tools", agent.Tools[state]{Tools: []tool.Tool{failing("f")}, Approve: agent.Approve("g"), Direct: []string{"h"}})
	_, err := b.AddEdge(graph.Start, "tools").Compile()
	if err == nil || !strings.Contains(err.Error(), `"g"`) || !strings.Contains(err.Error(), `"h"`) {
		t.Errorf("got %v", err)
	}
}

// W5-24: what an observer sees of a node that calls tools.
func TestAnObserverSeesCallsAndResults(t *testing.T) {
	n := 0
	m := script(calls(call("1", "multiply", `{"a":2,"b":2}`), call("2", "f", "")), scripted.Text("done"))
	a, err := agent.New(agent.ReAct[state]{Model: m, Tools: []tool.Tool{counted(&n), failing("f")}, OnError: agent.TellModel})
	if err != nil {
		t.Fatal(err)
	}
	var o observer
	if _, err := a.Invoke(t.Context(), ask("go"), graph.Observe(&o)); err != nil {
		t.Fatal(err)
	}
	want := `enter agent, exit agent, enter tools, call multiply {"a":2,"b":2}, result multiply 4 <nil>, call f {}, result f [] tool "f": no luck, exit tools, enter agent, exit agent`
	if got := strings.Join(o, ", "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

type observer []string

func (o *observer) add(format string, args ...any)   { *o = append(*o, fmt.Sprintf(format, args...)) }
func (o *observer) OnNodeEnter(ev graph.Event)       { o.add("enter %s", ev.Node) }
func (o *observer) OnNodeExit(ev graph.Event)        { o.add("exit %s", ev.Node) }
func (o *observer) OnError(ev graph.Event)           { o.add("error %s", ev.Node) }
func (*observer) OnInterrupt(graph.Event)            {}
func (o *observer) OnCheckpointSaved(ev graph.Event) {}
func (o *observer) OnToolCall(ev graph.Event) {
	s := ev.Value.(tool.Started)
	o.add("call %s %s", s.Name, s.Args)
}
func (o *observer) OnToolResult(ev graph.Event) {
	e := ev.Value.(tool.Ended)
	text := "[]"
	if len(e.Result.Content) > 0 {
		text = e.Result.Content[0].(chat.Text).Text
	}
	o.add("result %s %s %v", e.Name, text, e.Err)
}

// Under TellModelAll a call without ID gets one, and the conversation is sound.
func TestACallWithoutAnIDGetsOne(t *testing.T) {
	n := 0
	g := tools(t, agent.Tools[state]{Tools: []tool.Tool{counted(&n)}, OnError: agent.TellModelAll})
	snap, err := g.Invoke(t.Context(), say(chat.User("go"), chat.Assistant("", call("", "multiply", `{"a":1,"b":2}`), call("x", "multiply", `{"a":3,"b":4}`), call("x", "multiply", `{"a":5,"b":6}`))))
	if err != nil {
		t.Fatal(err)
	}
	if _, left := agent.Pending(&snap.State.Messages); len(left) != 0 || n != 3 {
		t.Errorf("called %d times; left: %v\n%s", n, left, messages(snap))
	}
}

// The user may go on without the calls that wait: what was recorded of them is
// kept, the rest isn't made.
func TestTheUserGoesOnWithoutTheCalls(t *testing.T) {
	n, m := 0, script(calls(call("1", "multiply", `{"a":2,"b":3}`), call("2", "f", "")), scripted.Text("fine"))
	g := react(t, agent.ReAct[state]{Model: m, Tools: []tool.Tool{counted(&n), failing("f")}}, memory())
	if _, err := g.Thread("t").Invoke(t.Context(), g.Input(ask("go"))); err == nil {
		t.Fatal("no error")
	}
	snap, err := g.Thread("t").Invoke(t.Context(), g.Input(ask("never mind")))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the conversation", messages(snap), `
		user: go
		assistant: [1 multiply{"a":2,"b":3}][2 f{}]
		tool: 6 (1)
		tool: was called; the outcome is unknown: the turn ended before it was recorded (2) failed
		user: never mind
		assistant: fine
		`)
	if n != 1 {
		t.Errorf("called %d times", n)
	}
}

// An agent is deterministic but for the IDs of its answers.
func TestAnAgentWithStableIDsIsDeterministic(t *testing.T) {
	graphtest.CheckDeterministic(t, 5, func() *graph.Builder[state] {
		n := 0
		return agent.Builder(agent.ReAct[state]{Model: script(calls(call("1", "multiply", `{"a":2,"b":3}`)), scripted.Text("6")), Tools: []tool.Tool{counted(&n)}})
	}, ask("2*3?"), nil, agent.StableIDs())
}

// What a human or the tool has to say to the model is no answer for the user.
func TestADirectToolThatFailsIsToldToTheModel(t *testing.T) {
	failing := tool.New("buy", "b", func(_ context.Context, in struct{ N int }) (string, error) {
		if in.N == 0 {
			return "", errors.New("none left")
		}
		return fmt.Sprint("bought ", in.N), nil
	})
	for name, c := range map[string]struct {
		approve  []agent.Approval
		first    string
		decision agent.Decision
	}{
		"the tool fails":      {first: `{"N":0}`},
		"the arguments":       {first: `{"N":"x"}`},
		"the user rejects it": {first: `{"N":9}`, approve: agent.Approve("buy"), decision: agent.Decision{Type: agent.RejectCall, Message: "not 9"}},
	} {
		m := scripted.New(scripted.Call("buy", c.first), scripted.Text("sorry"))
		g, err := agent.New(agent.ReAct[S]{Model: m, Tools: []tool.Tool{failing}, Direct: []string{"buy"}, OnError: agent.TellModel, Approve: c.approve}, mem())
		s, err := ok(t, g, err).Thread(th).Invoke(t.Context(), input("go"))
		if c.approve != nil && err == nil {
			s, err = g.Thread(th).Invoke(t.Context(), g.Answer(agent.ApprovalAnswer{Decisions: []agent.Decision{c.decision}}))
		}
		if err != nil || s.State.LastResponse.Get() != "sorry" || s.State.Stopped.Get() != agent.StopAnswer {
			t.Errorf("%s: %v, answered %q, stopped %q", name, err, s.State.LastResponse.Get(), s.State.Stopped.Get())
		}
	}
}

// nothing is a tool that returns what can't be stored.
type nothing struct{}

func (nothing) Spec() chat.ToolSpec { return chat.ToolSpec{Name: "nothing"} }

func (nothing) Call(context.Context, json.RawMessage) (tool.Result, error) {
	return tool.Result{Content: []chat.Part{nil}}, nil
}

func TestAResultThatIsNoneIsTheToolsFailure(t *testing.T) {
	m := scripted.New(scripted.Call("nothing", "{}"), scripted.Text("ok"))
	g, err := agent.New(agent.ReAct[S]{Model: m, Tools: []tool.Tool{nothing{}}, OnError: agent.TellModel}, mem())
	s, err := ok(t, g, err).Thread(th).Invoke(t.Context(), input("go"))
	if err != nil || s.State.LastResponse.Get() != "ok" {
		t.Errorf("%v\n%s", err, s.State.Messages)
	}
}
