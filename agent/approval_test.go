package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

// The question has the shape that Agent Chat UI shows as a form.
func TestTheQuestionWhetherToolsMayBeCalled(t *testing.T) {
	n := 0
	g := tools(t, agent.Tools[state]{
		Tools:   []tool.Tool{counted(&n), failing("f")},
		Approve: []agent.Approval{{Tool: "multiply"}},
	}, memory())
	snap, err := g.Thread("t").Invoke(t.Context(), g.Input(say(chat.User("go"), chat.Assistant("", call("1", "multiply", `{"a":2,"b":3}`)))))
	if err != nil || len(snap.Interrupts) != 1 || n != 0 {
		t.Fatalf("%v, %v, called %d times", err, snap, n)
	}
	spec, _ := json.Marshal(counted(&n).Spec().Schema)
	want := fmt.Sprintf(`{"action_requests":[{"name":"multiply","args":{"a":2,"b":3},"description":"Multiplies two numbers."}],`+
		`"review_configs":[{"action_name":"multiply","allowed_decisions":["approve","edit","reject"],"args_schema":%s}]}`, spec)
	if q := snap.Interrupts[0]; q.Key != agent.ApprovalKey || string(q.Raw) != want {
		t.Errorf("asked %s: %s\nwant %s", q.Key, q.Raw, want)
	}
}

func TestDecisionsAboutCalls(t *testing.T) {
	start := []chat.Message{chat.User("go"), chat.Assistant("", call("1", "multiply", `{"a":2,"b":3}`), call("2", "multiply", `{"a":4,"b":5}`))}
	for name, c := range map[string]struct {
		answer, want string
		calls        int
	}{
		"approve": {
			`{"decisions":[{"type":"approve"},{"type":"approve"}]}`,
			"assistant: [1 multiply{\"a\":2,\"b\":3}][2 multiply{\"a\":4,\"b\":5}]\ntool: 6 (1)\ntool: 20 (2)\n", 2,
		},
		"reject": {
			`{"decisions":[{"type":"reject","message":"too dear"},{"type":"reject"}]}`,
			"assistant: [1 multiply{\"a\":2,\"b\":3}][2 multiply{\"a\":4,\"b\":5}]\ntool: too dear (1) failed\ntool: The user rejected the call of multiply. (2) failed\n", 0,
		},
		"edit": {
			`{"decisions":[{"type":"edit","edited_action":{"name":"multiply","args":{"a":1,"b":1}}},{"type":"approve"}]}`,
			"assistant: [1 multiply{\"a\":1,\"b\":1}][2 multiply{\"a\":4,\"b\":5}]\ntool: 1 (1)\ntool: 20 (2)\n", 2,
		},
		"edit to another tool": {
			`{"decisions":[{"type":"approve"},{"type":"edit","edited_action":{"name":"hello","args":{}}}]}`,
			"assistant: [1 multiply{\"a\":2,\"b\":3}][2 hello{}]\ntool: 6 (1)\ntool: hello done (2)\n", 1,
		},
		"respond": {
			`{"decisions":[{"type":"respond","message":"it is six"},{"type":"approve"}]}`,
			"assistant: [1 multiply{\"a\":2,\"b\":3}][2 multiply{\"a\":4,\"b\":5}]\ntool: it is six (1)\ntool: 20 (2)\n", 1,
		},
	} {
		n := 0
		g := tools(t, agent.Tools[state]{
			Tools:   []tool.Tool{counted(&n), logged("hello", new([]string))},
			Approve: []agent.Approval{{Tool: "*", Allowed: []agent.DecisionType{agent.ApproveCall, agent.EditCall, agent.RejectCall, agent.RespondCall}}},
		}, memory())
		if _, err := g.Thread("t").Invoke(t.Context(), g.Input(say(start...))); err != nil {
			t.Fatal(err)
		}
		snap, err := g.Thread("t").Invoke(t.Context(), g.Answer(json.RawMessage(c.answer)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		same(t, name+": the conversation", messages(snap), "user: go\n"+c.want)
		if n != c.calls {
			t.Errorf("%s: called %d times", name, n)
		}
	}
}

// An answer that doesn't fit is refused, and the thread goes on waiting.
func TestAnswersThatAreNoDecisions(t *testing.T) {
	n := 0
	g := tools(t, agent.Tools[state]{Tools: []tool.Tool{counted(&n)}, Approve: agent.Approve("multiply")}, memory())
	if _, err := g.Thread("t").Invoke(t.Context(), g.Input(say(chat.User("go"), chat.Assistant("", call("1", "multiply", `{"a":2,"b":3}`))))); err != nil {
		t.Fatal(err)
	}
	for _, answer := range []string{
		`true`, `{}`, `{"decisions":[]}`, `{"decisions":[{"type":"approve"},{"type":"approve"}]}`, `{"decisions":[{"type":"maybe"}]}`,
		`{"decisions":[{"type":"respond","message":"x"}]}`, `{"decisions":[{"type":"edit"}]}`, `{"decisions":[{"type":"edit","edited_action":{"name":"other","args":{}}}]}`,
		`{"decisions":[{"type":"edit","edited_action":{"name":"multiply","args":[]}}]}`,
	} {
		_, err := g.Thread("t").Invoke(t.Context(), g.Answer(json.RawMessage(answer)))
		var ae *graph.AnswerError
		if !errors.As(err, &ae) {
			t.Errorf("%s: %v", answer, err)
		}
	}
	snap, err := g.Thread("t").Invoke(t.Context(), g.Answer(agent.ApprovalAnswer{Decisions: []agent.Decision{{Type: agent.ApproveCall}}}))
	if err != nil || n != 1 || !snap.Done() {
		t.Errorf("%v, called %d times", err, n)
	}
}

// An edit whose arguments don't fit the tool is refused when it is given, by
// another process too, and the question stays open: under FailFast it would fail
// each Continue.
func TestAnEditThatDoesNotFitTheToolIsRefused(t *testing.T) {
	type order struct {
		Amount int     `json:"amount" minimum:"1"`
		Note   *string `json:"note,omitempty"`
		To     struct {
			Name string `json:"name"`
		} `json:"to"`
	}
	paid := 0
	foreign := func(name, schema string) tool.Tool { // as a server of MCP describes it
		return tool.New(name, "", func(context.Context, map[string]any) (string, error) { return name, nil }, tool.Schema(json.RawMessage(schema)))
	}
	set := func() []tool.Tool {
		return []tool.Tool{
			tool.New("pay", "Pays.", func(_ context.Context, in order) (string, error) { paid += in.Amount; return "paid", nil }),
			foreign("tree", `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"root":{"$ref":"#/$defs/node"}},"required":["root"],"$defs":{"node":{"type":"object","properties":{"next":{"$ref":"#/$defs/node"}},"additionalProperties":false}}}`),
			foreign("self", `{"$id":"https://example.com/self.json","type":"object","properties":{"x":{"$ref":"#/definitions/x"}},"required":["x"],"definitions":{"x":{"type":"integer"}}}`),
		}
	}
	first := call("1", "pay", `{"amount":900,"note":null,"to":{"name":"Ann"}}`)
	two := func(t *testing.T, store checkpoint.Store) func(m model.Model) (resume func(answer any) (text string, err error)) {
		return func(m model.Model) func(any) (string, error) {
			g := react(t, agent.ReAct[state]{Model: m, Tools: set(), Approve: agent.Approve("pay")}, graph.WithCheckpointer(store))
			return func(answer any) (string, error) {
				if answer == nil {
					_, err := g.Thread("t").Invoke(t.Context(), g.Input(ask("go")))
					return "", err
				}
				snap, err := g.Thread("t").Invoke(t.Context(), g.Answer(answer))
				if err != nil {
					return "", err
				}
				return snap.State.LastResponse.Get(), nil
			}
		}
	}
	one := func(t *testing.T, store checkpoint.Store) func(m model.Model) (resume func(answer any) (text string, err error)) {
		return func(m model.Model) func(any) (string, error) {
			g := single(t, agent.ReActNode{Model: m, Tools: set(), Approve: agent.Approve("pay")}, graph.WithCheckpointer(store))
			return func(answer any) (string, error) {
				if answer == nil {
					_, err := g.Thread("t").Invoke(t.Context(), g.Input(question("go")))
					return "", err
				}
				snap, err := g.Thread("t").Invoke(t.Context(), g.Answer(answer))
				if err != nil {
					return "", err
				}
				return snap.State.FinalOutput, nil
			}
		}
	}
	for name, open := range map[string]func(*testing.T, checkpoint.Store) func(model.Model) func(any) (string, error){"two nodes": two, "a single node": one} {
		t.Run(name, func(t *testing.T) {
			for _, good := range []struct {
				name, args string
				paid       int
			}{
				{"pay", `{"amount":5,"to":{"name":"Ann"}}`, 5},
				{"pay", `{"amount":6,"note":null,"to":{"name":"Bob"}}`, 6},
				{"tree", `{"root":{"next":{"next":null}}}`, 0},
				{"self", `{"x":3}`, 0},
			} {
				path := filepath.Join(t.TempDir(), "t.db")
				store, err := sqlite.Open(path, sqlite.Options{})
				if err != nil {
					t.Fatal(err)
				}
				paid = 0
				if _, err := open(t, store)(script(calls(first)))(nil); err != nil {
					t.Fatal(err)
				}
				if err := store.Close(); err != nil {
					t.Fatal(err)
				}
				if store, err = sqlite.Open(path, sqlite.Options{}); err != nil { // another process
					t.Fatal(err)
				}
				m := script(scripted.Text("done"))
				resume := open(t, store)(m)
				for _, bad := range []struct{ name, args string }{
					{"pay", `{}`}, {"pay", `{"amount":"much","to":{"name":"Ann"}}`}, {"pay", `{"amount":0,"to":{"name":"Ann"}}`},
					{"pay", `{"amount":5,"to":{}}`}, {"pay", `{"amount":5,"to":{"name":"Ann"},"extra":1}`},
					{"tree", `{}`}, {"tree", `{"root":{"next":{"next":3}}}`}, {"tree", `{"root":{"more":1}}`}, {"self", `{"x":"3"}`},
				} {
					_, err := resume(edited(bad.name, bad.args))
					var ae *graph.AnswerError
					if !errors.As(err, &ae) {
						t.Errorf("%s %s: %v", bad.name, bad.args, err)
					}
				}
				if text, err := resume(edited(good.name, good.args)); err != nil || text != "done" || paid != good.paid {
					t.Errorf("%s %s: %q, %v, paid %d", good.name, good.args, text, err, paid)
				}
				if sent := transcript(m.Last().Messages); !strings.Contains(sent, "[1 "+good.name+good.args+"]") {
					t.Errorf("the model was sent\n%s", sent)
				}
				store.Close()
			}
		})
	}
}

// ringTool is a tool from elsewhere whose schema a validator would follow until its stack
// ends the process.
type ringTool struct{ called *int }

func (ringTool) Spec() chat.ToolSpec {
	return chat.ToolSpec{Name: "ring", Schema: json.RawMessage(`{"type":"object","allOf":[{"$ref":"#"}]}`)}
}

func (r ringTool) Call(context.Context, json.RawMessage) (tool.Result, error) {
	*r.called++
	return tool.Text("rung"), nil
}

func TestAToolWhoseSchemaLeadsToItselfIsApprovedWithoutBeingChecked(t *testing.T) {
	called := 0
	m := script(calls(call("1", "ring", `{"a":1}`)), scripted.Text("done"))
	g := react(t, agent.ReAct[state]{Model: m, Tools: []tool.Tool{ringTool{&called}}, Approve: agent.Approve("ring")}, graph.WithCheckpointer(checkpoint.NewMemory()))
	if _, err := g.Thread("t").Invoke(t.Context(), g.Input(ask("go"))); err != nil {
		t.Fatal(err)
	}
	snap, err := g.Thread("t").Invoke(t.Context(), g.Answer(edited("ring", `{"a":2}`)))
	if err != nil || called != 1 || snap.State.LastResponse.Get() != "done" {
		t.Errorf("%v, called %d times", err, called)
	}
}

func edited(name, args string) agent.ApprovalAnswer {
	return agent.ApprovalAnswer{Decisions: []agent.Decision{{Type: agent.EditCall, Edited: &agent.EditedAction{Name: name, Args: json.RawMessage(args)}}}}
}

// A single node asks about the calls of each round.
func TestASingleNodeAsksBeforeItsTools(t *testing.T) {
	n := 0
	same := call("1", "multiply", `{"a":2,"b":3}`)
	g := single(t, agent.ReActNode{
		Model: script(calls(same), calls(same), scripted.Text("done")), Tools: []tool.Tool{counted(&n)}, Approve: agent.Approve("multiply"), OnError: agent.TellModel,
	}, memory())
	snap, err := g.Thread("t").Invoke(t.Context(), g.Input(question("go")))
	for i, d := range []agent.Decision{{Type: agent.ApproveCall}, {Type: agent.RejectCall, Message: "enough"}} {
		if err != nil || len(snap.Interrupts) != 1 || n != i {
			t.Fatalf("%d: %v, %d calls", i, err, n)
		}
		snap, err = g.Thread("t").Invoke(t.Context(), g.Answer(agent.ApprovalAnswer{Decisions: []agent.Decision{d}}))
	}
	if err != nil || snap.State.FinalOutput != "done" || n != 1 || kinds(snap) != "action observation action observation final_answer" {
		t.Fatalf("%v, %q, %d calls, %s", err, snap.State.FinalOutput, n, kinds(snap))
	}
	if got := string(snap.State.Scratchpad.At(3).Observation); got != `"enough"` {
		t.Error(got)
	}
	b := graph.New[report]("g")
	agent.AddReAct(b, "agent", agent.ReActNode{Model: script(), Tools: []tool.Tool{counted(&n)}, Approve: agent.Approve("multiplied")})
	if _, err := b.AddEdge(graph.Start, "agent").Compile(); err == nil || !strings.Contains(err.Error(), "multiplied") {
		t.Error(err)
	}
}

func TestWhichCallsNeedADecision(t *testing.T) {
	n := 0
	g := tools(t, agent.Tools[state]{Tools: []tool.Tool{counted(&n), failing("f")}, OnError: agent.TellModel, Approve: []agent.Approval{
		{Tool: "*", Allowed: []agent.DecisionType{agent.RejectCall}},
		{Tool: "multiply", When: func(c chat.ToolCall) bool { return strings.Contains(c.Args, "9") }},
	}}, memory())
	snap, err := g.Thread("t").Invoke(t.Context(), g.Input(say(chat.User("go"), chat.Assistant("", call("1", "multiply", `{"a":2,"b":3}`), call("2", "multiply", `{"a":9,"b":3}`), call("3", "f", ``)))))
	if err != nil || len(snap.Interrupts) != 1 {
		t.Fatal(err)
	}
	var req agent.ApprovalRequest
	if err := json.Unmarshal(snap.Interrupts[0].Raw, &req); err != nil {
		t.Fatal(err)
	}
	if len(req.Actions) != 2 || string(req.Actions[0].Args) != `{"a":9,"b":3}` || req.Actions[1].Name != "f" || len(req.Reviews[1].Allowed) != 1 {
		t.Errorf("%+v", req)
	}
}

// A question stays open until it is answered, or the user begins anew without the
// calls.
func TestTheUserGoesOnWhileADecisionWaits(t *testing.T) {
	n := 0
	m := script(calls(call("1", "multiply", `{"a":2,"b":3}`)), scripted.Text("fine"))
	g := react(t, agent.ReAct[state]{Model: m, Tools: []tool.Tool{counted(&n)}, Approve: agent.Approve("multiply")}, memory())
	for range 2 {
		if snap, err := g.Thread("t").Invoke(t.Context(), g.Input(ask("go"))); err != nil || len(snap.Interrupts) == 0 {
			t.Fatal(err)
		}
	}
	snap, err := g.Thread("t").Invoke(t.Context(), g.Restart(ask("never mind")))
	if err != nil || !snap.Done() || n != 0 {
		t.Fatalf("%v, %d calls, %v", err, n, snap.Interrupts)
	}
	same(t, "the conversation", messages(snap), "user: go\nassistant: [1 multiply{\"a\":2,\"b\":3}]\ntool: not called: the user went on (1) failed\nuser: never mind\nassistant: fine\n")
	if _, err := g.Thread("t").Invoke(t.Context(), g.Answer(agent.ApprovalAnswer{})); err == nil {
		t.Error("the question is still open")
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
