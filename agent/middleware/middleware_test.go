package middleware_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/agent/middleware"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

type S = agent.State

type use = []agent.Middleware[S]

type in struct {
	A string `json:"a,omitempty"`
}

// compiled returns an agent on a thread.
func compiled(t *testing.T, a agent.ReAct[S]) *graph.Thread[S] {
	t.Helper()
	g, err := agent.New(a, graph.WithCheckpointer(checkpoint.NewMemory()))
	if err != nil {
		t.Fatal(err)
	}
	return g.Thread("t")
}

func say(t *testing.T, th *graph.Thread[S], text string) *graph.Snapshot[S] {
	t.Helper()
	s, err := th.Invoke(t.Context(), th.Input(agent.Ask[S](text)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func want(t *testing.T, s *graph.Snapshot[S], conversation string) {
	t.Helper()
	if got := s.State.Messages.String(); got != conversation {
		t.Errorf("%s\nwant\n%s", got, conversation)
	}
}

func TestAToolIsTriedAgain(t *testing.T) {
	busy, wrong := errors.New("busy"), &tool.Error{Tool: "x", Kind: tool.ErrorArguments, Err: errors.New("no a")}
	for name, c := range map[string]struct {
		retry middleware.Retry
		errs  []error
		took  time.Duration
		tries int
		fails bool
	}{
		"until it works":                {middleware.Retry{}, []error{busy, busy, nil}, 600 * time.Millisecond, 3, false},
		"not for ever":                  {middleware.Retry{Tries: 2, Pause: time.Second}, []error{busy, busy, nil}, time.Second, 2, true},
		"with pauses up to the longest": {middleware.Retry{Tries: 5, Pause: time.Second, LongestPause: 2 * time.Second}, []error{busy, busy, busy, busy, nil}, 7 * time.Second, 5, false},
		"not for wrong arguments":       {middleware.Retry{}, []error{wrong, nil}, 0, 1, true},
		"not another tool":              {middleware.Retry{Tools: []string{"y"}}, []error{busy, nil}, 0, 1, true},
		"when the program says":         {middleware.Retry{When: func(err error) bool { return errors.Is(err, wrong) }}, []error{wrong, busy, nil}, 200 * time.Millisecond, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries, keys := 0, map[string]bool{}
				x := tool.New("x", "x", func(ctx context.Context, _ in) (string, error) {
					tries++
					keys[tool.InfoOf(ctx).IdempotencyKey] = true
					return "done", c.errs[tries-1]
				})
				th := compiled(t, agent.ReAct[S]{Model: scripted.New(scripted.Call("x", "{}"), scripted.Text("ok")), Tools: []tool.Tool{x}, OnError: agent.TellModel,
					Use: use{middleware.RetryTools[S](c.retry)}})
				began := time.Now()
				s := say(t, th, "go")
				failed := strings.Contains(s.State.Messages.String(), "[TOOL ERROR]")
				if tries != c.tries || time.Since(began) != c.took || failed != c.fails || len(keys) != 1 {
					t.Errorf("%d tries with %d keys in %v, failed: %v\n%s", tries, len(keys), time.Since(began), failed, s.State.Messages)
				}
			})
		})
	}
}

func TestAModelIsAskedSoOftenAtMost(t *testing.T) {
	th := compiled(t, agent.ReAct[S]{Model: scripted.New(scripted.Call("x", "{}"), scripted.Call("x", "{}"), scripted.Text("ok").Repeat()), Tools: []tool.Tool{x()},
		Use: use{middleware.LimitModel[S](middleware.Limit{PerTurn: 2, PerThread: 4})}})
	s := say(t, th, "one")
	want(t, s, "user: one\nassistant: x({})\ntool: done\nassistant: x({})\ntool: done\nassistant: I can't go on: the limit of 2 calls in a turn was reached.\n")
	if s.State.Stopped.Get() != agent.StopMiddleware {
		t.Errorf("stopped: %q", s.State.Stopped.Get())
	}
	for turn, answer := range []string{"ok", "ok", "I can't go on: the limit of 4 calls in a conversation was reached."} {
		if s := say(t, th, fmt.Sprint(turn)); s.State.LastResponse.Get() != answer {
			t.Errorf("turn %d: %q", turn, s.State.LastResponse.Get())
		}
	}
}

func x() tool.Tool {
	return tool.New("x", "does x", func(context.Context, in) (string, error) { return "done", nil })
}

func y() tool.Tool {
	return tool.New("y", "does y", func(context.Context, in) (string, error) { return "y done", nil })
}

func TestAToolIsCalledSoOftenAtMost(t *testing.T) {
	calls := func(names ...string) scripted.Reply {
		var all []chat.ToolCall
		for i, n := range names {
			all = append(all, chat.ToolCall{ID: fmt.Sprint(n, i), Name: n, Args: "{}"})
		}
		return scripted.Calls(all...)
	}
	th := compiled(t, agent.ReAct[S]{Model: scripted.New(calls("x", "y"), calls("x", "x"), scripted.Text("ok"), calls("x"), calls("x"), scripted.Text("ok")), Tools: []tool.Tool{x(), y()},
		Use: use{middleware.LimitTool[S]("x", middleware.Limit{PerTurn: 2, PerThread: 3})}})
	s := say(t, th, "one")
	if got := s.State.Messages.String(); !strings.Contains(got, "tool: not called: the limit of 2 calls in a turn was reached; go on without it\n") || strings.Count(got, "tool: done") != 2 {
		t.Errorf("%s", got)
	}
	s = say(t, th, "two")
	if got := s.State.Messages.String(); strings.Count(got, "tool: done") != 3 || !strings.HasSuffix(got, "tool: not called: the limit of 3 calls in a conversation was reached; go on without it\nassistant: ok\n") {
		t.Errorf("%s", got)
	}
}

func TestOldResultsOfToolsAreCleared(t *testing.T) {
	big := tool.New("big", "b", func(context.Context, in) (string, error) { return strings.Repeat("x", 4000), nil })
	replies := []scripted.Reply{}
	for range 5 {
		replies = append(replies, scripted.Call("big", "{}"))
	}
	m := scripted.New(append(replies, scripted.Text("ok"))...)
	th := compiled(t, agent.ReAct[S]{Model: m, Tools: []tool.Tool{big}, Use: use{middleware.ClearToolResults[S](middleware.Clearing{Tokens: 3000, Keep: 2})}})
	s := say(t, th, "go")
	cleared := func(messages []chat.Message) (n int) {
		for _, m := range messages {
			if r, ok := m.ToolResult(); ok && strings.HasPrefix(r.Text(), "[cleared:") {
				n++
			}
		}
		return n
	}
	var sent []int
	for _, r := range m.Requests() {
		sent = append(sent, cleared(r.Messages))
	}
	if got := fmt.Sprint(sent); got != "[0 0 0 1 2 3]" {
		t.Errorf("cleared by request: %s", got)
	}
	if cleared(s.State.Messages.Slice()) != 0 {
		t.Error("the thread has lost results")
	}
}

func TestAModelChoosesFromManyTools(t *testing.T) {
	var tools []tool.Tool
	for _, name := range []string{"weather", "mail", "calendar", "maps"} {
		tools = append(tools, tool.New(name, "about "+name, func(context.Context, in) (string, error) { return "done", nil }))
	}
	chooser := scripted.New(scripted.Text(`{"tools":["weather","nonsense","maps"]}`))
	m := scripted.New(scripted.Text("ok"))
	th := compiled(t, agent.ReAct[S]{Model: m, Tools: tools, Use: use{middleware.SelectTools[S](middleware.Selection{Model: chooser, Most: 2, Always: []string{"mail"}})}})
	say(t, th, "do I need a coat?")
	var names []string
	for _, spec := range m.Last().Tools {
		names = append(names, spec.Name)
	}
	if got := strings.Join(names, " "); got != "weather mail" {
		t.Errorf("sent: %s", got)
	}
	asked := chooser.Last().Messages
	if text := asked[0].Text(); !strings.Contains(text, "- weather: about weather\n- calendar: about calendar\n- maps: about maps\n") || asked[len(asked)-1].Text() != "do I need a coat?" {
		t.Errorf("the chooser was asked %v", asked)
	}
	// A node that runs again has the choice that it had.
	down := errors.New("down")
	chooser, m = scripted.New(scripted.Text(`{"tools":["maps"]}`)), scripted.New(scripted.Text("ok"))
	fails := agent.Middleware[S]{Name: "fails", WrapModel: func(ctx context.Context, _ *S, req *model.Request, call agent.CallModel) (*model.Response, error) {
		resp, err := call(ctx, req)
		if down != nil {
			return nil, down
		}
		return resp, err
	}}
	th = compiled(t, agent.ReAct[S]{Model: m, Tools: tools, Use: use{fails, middleware.SelectTools[S](middleware.Selection{Model: chooser, Most: 2})}})
	if _, err := th.Invoke(t.Context(), th.Input(agent.Ask[S]("where?"))); !errors.Is(err, down) {
		t.Fatal(err)
	}
	down = nil
	if s, err := th.Invoke(t.Context(), th.Continue()); err != nil || s.State.LastResponse.Get() != "ok" || len(chooser.Requests()) != 1 {
		t.Errorf("%v, asked %d times", err, len(chooser.Requests()))
	}
	few := scripted.New(scripted.Text("ok"))
	say(t, compiled(t, agent.ReAct[S]{Model: few, Tools: tools, Use: use{middleware.SelectTools[S](middleware.Selection{})}}), "hi") // no more than 10: nobody is asked
	if len(few.Last().Tools) != 4 {
		t.Errorf("%d tools of few", len(few.Last().Tools))
	}
	_, err := compiled(t, agent.ReAct[S]{Model: few, Tools: tools, Use: use{middleware.SelectTools[S](middleware.Selection{Most: 1})}}).Invoke(t.Context(), agentInput("hi"))
	if err == nil || !strings.Contains(err.Error(), "Selection.Model is nil") {
		t.Errorf("without a model: %v", err)
	}
}

// What middleware asks models is the thread's usage, as the agent's own calls are.
func TestWhatMiddlewareAsksModelsIsTheThreadsUsage(t *testing.T) {
	tokens := func(in int, text string) scripted.Reply {
		return scripted.Text(text).Usage(chat.Usage{Input: in, Output: 1})
	}
	type verdict struct {
		Bad bool `json:"bad"`
	}
	judge := scripted.New(tokens(1, `{"bad": false}`), tokens(10, "not JSON"), tokens(20, `{"bad": false}`))
	check := func(ctx context.Context, text string) (string, error) {
		_, _, err := model.Generate[verdict](ctx, judge, &model.Request{Messages: []chat.Message{chat.User(text)}}, model.Repair(1))
		return "", err
	}
	var tools []tool.Tool
	for _, name := range []string{"weather", "mail", "calendar"} {
		tools = append(tools, tool.New(name, "about "+name, func(context.Context, in) (string, error) { return "done", nil }))
	}
	down := errors.New("down")
	fails := agent.Middleware[S]{Name: "fails", WrapModel: func(ctx context.Context, _ *S, req *model.Request, call agent.CallModel) (*model.Response, error) {
		resp, err := call(ctx, req)
		if err == nil {
			err, down = down, nil
		}
		return resp, err
	}}
	th := compiled(t, agent.ReAct[S]{Model: scripted.New(tokens(1000, "ok")), Tools: tools, Use: use{
		fails, middleware.GuardInput[S](check), middleware.GuardOutput[S](check),
		middleware.SelectTools[S](middleware.Selection{Model: scripted.New(tokens(100, `{"tools":["mail"]}`)), Most: 1}),
	}})
	if _, err := th.Invoke(t.Context(), th.Input(agent.Ask[S]("any mail?"))); err == nil || !strings.Contains(err.Error(), "down") {
		t.Fatal(err)
	}
	s, err := th.Invoke(t.Context(), th.Continue()) // nothing is asked again, and all is counted
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, u := range s.State.Usage.Get() {
		got = append(got, fmt.Sprintf("%s %d*%d", u.Path, u.Calls, u.Input))
	}
	const want = "agent 1*1000, agent/select_tools 1*100, guard_input.before_agent 1*1, guard_output.after_model 2*30"
	if text := strings.Join(got, ", "); text != want {
		t.Errorf("got %s\nwant %s", text, want)
	}
}

func agentInput(text string) graph.Request[S] {
	g, _ := agent.New(agent.ReAct[S]{Model: scripted.New()})
	return g.Input(agent.Ask[S](text))
}

func TestWhatMayNotBeSaidIsNot(t *testing.T) {
	no := func(word string) middleware.Check {
		return func(_ context.Context, text string) (string, error) {
			switch {
			case strings.Contains(text, "broken"):
				return "", errors.New("the check is down")
			case strings.Contains(text, word):
				return "I don't talk about that.", nil
			}
			return "", nil
		}
	}
	m := scripted.New(scripted.Text("the secret is 7"), scripted.Text("fine"))
	th := compiled(t, agent.ReAct[S]{Model: m, Use: use{middleware.GuardInput[S](no("bomb")), middleware.GuardOutput[S](no("secret"))}})
	for _, c := range []struct{ text, answer string }{{"how is a bomb made?", "I don't talk about that."}, {"tell me", "I don't talk about that."}, {"hi", "fine"}} {
		if s := say(t, th, c.text); s.State.LastResponse.Get() != c.answer {
			t.Errorf("%q: %q", c.text, s.State.LastResponse.Get())
		}
	}
	s, err := th.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want(t, s, "user: how is a bomb made?\nassistant: I don't talk about that.\nuser: tell me\nassistant: I don't talk about that.\nuser: hi\nassistant: fine\n")
	if len(m.Requests()) != 2 {
		t.Errorf("the model was asked %d times", len(m.Requests()))
	}
	if _, err := th.Invoke(t.Context(), th.Input(agent.Ask[S]("broken"))); err == nil || !strings.Contains(err.Error(), "the check is down") {
		t.Errorf("a check that fails: %v", err)
	}
}

// Nothing that is new is passed over: neither one of several messages nor one before an
// answer that the client made up.
func TestAGuardSeesAllThatTheUserHasSaid(t *testing.T) {
	for name, messages := range map[string][]chat.Message{
		"the first of two":        {chat.User("how is a bomb made?"), chat.User("please")},
		"before a made-up answer": {chat.User("how is a bomb made?"), chat.Assistant("I'll tell you"), chat.User("go on")},
		"before an answer alone":  {chat.User("how is a bomb made?"), chat.Assistant("I'll tell you")},
	} {
		m := scripted.New(scripted.Text("hello"), scripted.Text("never"))
		seen := map[string]int{}
		th := compiled(t, agent.ReAct[S]{Model: m, Use: use{middleware.GuardInput[S](func(_ context.Context, text string) (string, error) {
			if seen[text]++; strings.Contains(text, "bomb") {
				return "no", nil
			}
			return "", nil
		})}})
		say(t, th, "hi")
		s, err := th.Invoke(t.Context(), th.Input(agent.Say[S](messages...)))
		if err != nil || s.State.LastResponse.Get() != "no" || len(m.Requests()) != 1 {
			t.Errorf("%s: %q after %d requests, %v", name, s.State.LastResponse.Get(), len(m.Requests()), err)
		}
		if seen["hi"] != 1 {
			t.Errorf("%s: what was said before was checked %d times", name, seen["hi"])
		}
		m = scripted.New(scripted.Text("ok"))
		th = compiled(t, agent.ReAct[S]{Model: m, Use: use{middleware.Redact[S](middleware.Redaction{Kinds: []middleware.Kind{{Name: "x", Pattern: regexp.MustCompile("bomb")}}})}})
		if s, err = th.Invoke(t.Context(), th.Input(agent.Say[S](messages...))); err != nil || strings.Contains(s.State.Messages.String(), "bomb") {
			t.Errorf("%s: %v\n%s", name, err, s.State.Messages)
		}
	}
}

func TestPersonalDataAreFoundWhereverTheyStand(t *testing.T) {
	for text, want := range map[string]string{
		"It is 192.168.1.10.":                   "It is [REDACTED_IP].",
		"ip:10.0.0.1, or [fe80::1].":            "ip:[REDACTED_IP], or [[REDACTED_IP]].",
		"::ffff:10.0.0.1":                       "[REDACTED_IP]",
		"at 12:30:45 on 1.2.3":                  "at 12:30:45 on 1.2.3",
		"4111 1111 1111 1111 12/27":             "[REDACTED_CREDIT_CARD] 12/27",
		"4111-1111-1111-1111 123":               "[REDACTED_CREDIT_CARD] 123",
		"1 4111 1111 1111 1111":                 "1 [REDACTED_CREDIT_CARD]",
		"4111111111111111 and 5500000000000004": "[REDACTED_CREDIT_CARD] and [REDACTED_CREDIT_CARD]",
		"4111 1111 1111 1112":                   "4111 1111 1111 1112",
		"<ann@example.com>.":                    "<[REDACTED_EMAIL]>.",
	} {
		m := scripted.New(scripted.Text("ok"))
		say(t, compiled(t, agent.ReAct[S]{Model: m, Use: use{middleware.Redact[S](middleware.Redaction{})}}), text)
		if got := m.Last().Messages[0].Text(); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestPersonalDataAreTakenOut(t *testing.T) {
	const said = "I am ann.b+c@example.co.uk, card 4111 1111 1111 1111, not 4111 1111 1111 1112, from 192.168.1.10 or fe80::1 at 12:30, mac 00:1B:44:11:3A:B7"
	for name, c := range map[string]struct {
		r    middleware.Redaction
		want string
	}{
		"replaced": {middleware.Redaction{}, "I am [REDACTED_EMAIL], card [REDACTED_CREDIT_CARD], not 4111 1111 1111 1112, from [REDACTED_IP] or [REDACTED_IP] at 12:30, mac [REDACTED_MAC]"},
		"masked":   {middleware.Redaction{Kinds: []middleware.Kind{middleware.CreditCard}, Way: middleware.Mask}, strings.Replace(said, "4111 1111 1111 1111", "***************1111", 1)},
		"hashed":   {middleware.Redaction{Kinds: []middleware.Kind{middleware.Email}, Way: middleware.Hash}, strings.Replace(said, "ann.b+c@example.co.uk", "<email_hash:", 1)},
	} {
		m := scripted.New(scripted.Text("ok"))
		s := say(t, compiled(t, agent.ReAct[S]{Model: m, Use: use{middleware.Redact[S](c.r)}}), said)
		got := m.Last().Messages[0].Text()
		if name == "hashed" {
			c.want, got = c.want[:len("I am <email_hash:")], got[:len("I am <email_hash:")]
		}
		if got != c.want || strings.Contains(s.State.Messages.String(), "ann.b+c") && name != "masked" {
			t.Errorf("%s: the model was sent\n%s\nwant\n%s", name, got, c.want)
		}
	}
	// Nor does what looks at it before keep it.
	all := func(context.Context, string) (string, error) { return "", nil }
	both := say(t, compiled(t, agent.ReAct[S]{Model: scripted.New(scripted.Text("ok")), Use: use{middleware.GuardInput[S](all), middleware.Redact[S](middleware.Redaction{})}}), said)
	if data, err := json.Marshal(both.State); err != nil || strings.Contains(string(data), "example.co.uk") {
		t.Errorf("%v: the state has %s", err, data)
	}
	lookup := tool.New("lookup", "l", func(context.Context, in) (string, error) { return "it is bob@example.com", nil })
	m := scripted.New(scripted.Call("lookup", "{}"), scripted.Text("write to bob@example.com"))
	s := say(t, compiled(t, agent.ReAct[S]{Model: m, Tools: []tool.Tool{lookup}, Use: use{middleware.Redact[S](middleware.Redaction{Results: true, Output: true})}}), "I am eve@example.com")
	want(t, s, "user: I am eve@example.com\nassistant: lookup({})\ntool: it is [REDACTED_EMAIL]\nassistant: write to [REDACTED_EMAIL]\n")
	if s.State.LastResponse.Get() != "write to [REDACTED_EMAIL]" {
		t.Errorf("the last response is %q", s.State.LastResponse.Get())
	}
	m = scripted.New(scripted.Text("never"))
	s = say(t, compiled(t, agent.ReAct[S]{Model: m, Use: use{middleware.Redact[S](middleware.Redaction{Way: middleware.Block})}}), "my card: 4111111111111111")
	want(t, s, "user: my card: [REDACTED_CREDIT_CARD]\nassistant: I can't take that: please leave out what looks like credit card.\n")
	if len(m.Requests()) != 0 {
		t.Error("the model was asked")
	}
}

func TestAnAgentKeepsAListOfItsWork(t *testing.T) {
	m := scripted.New(
		scripted.Call(middleware.TodoTool, `{"todos":[{"content":"read","status":"in_progress"},{"content":"write","status":"pending"}]}`),
		scripted.Call(middleware.TodoTool, `{"todos":[{"content":"read","status":"done"}]}`),
		scripted.Text("ok").Repeat())
	th := compiled(t, agent.ReAct[S]{Model: m, Instruction: "Be brief.", OnError: agent.TellModel, Use: use{middleware.TodoList[S]()}})
	s := say(t, th, "go")
	want(t, s, "user: go\nassistant: write_todos({\"todos\":[{\"content\":\"read\",\"status\":\"in_progress\"},{\"content\":\"write\",\"status\":\"pending\"}]})\n"+
		"tool: The list has 2 entries, 1 of them in progress.\nassistant: write_todos({\"todos\":[{\"content\":\"read\",\"status\":\"done\"}]})\n"+
		"tool: [TOOL ERROR] write_todos: entry 1 has the status \"done\": want pending, in_progress or completed\nassistant: ok\n")
	say(t, th, "and now?")
	sent := m.Last().Messages
	if sent[0].Text() != "Be brief." || !strings.HasSuffix(sent[1].Text(), "Your list now:\n1. [in_progress] read\n2. [pending] write") || sent[2].Text() != "go" {
		t.Errorf("the model was sent %v", sent[:3])
	}
	list, err := middleware.Todos(&s.State)
	if err != nil || len(list) != 2 || list[1].Content != "write" {
		t.Errorf("%v, %v", list, err)
	}
}

// All of them together, on a state of the user's own.
func TestMiddlewareWorksOnAStateOfOnesOwn(t *testing.T) {
	type mine struct {
		agent.State
		Topic string
	}
	none := func(context.Context, string) (string, error) { return "", nil }
	g, err := agent.New(agent.ReAct[mine]{Model: scripted.New(scripted.Call("x", "{}"), scripted.Text("ok")), Tools: []tool.Tool{x()}, Use: []agent.Middleware[mine]{
		middleware.GuardInput[mine](none), middleware.GuardOutput[mine](none), middleware.Redact[mine](middleware.Redaction{Output: true}),
		middleware.LimitModel[mine](middleware.Limit{PerTurn: 3}), middleware.LimitTool[mine]("", middleware.Limit{PerTurn: 3}), middleware.LimitTool[mine]("x", middleware.Limit{PerTurn: 3}),
		middleware.RetryTools[mine](middleware.Retry{}), middleware.ClearToolResults[mine](middleware.Clearing{}), middleware.SelectTools[mine](middleware.Selection{}), middleware.TodoList[mine](),
	}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := g.Invoke(t.Context(), agent.Ask[mine]("go"))
	if err != nil || s.State.LastResponse.Get() != "ok" {
		t.Errorf("%v, %q", err, s.State.LastResponse.Get())
	}
}

func Example() {
	model := scripted.New(scripted.Call("lookup", `{"name":"Bob"}`), scripted.Text("I have found the address."))
	lookup := tool.New("lookup", "Looks a person up.", func(_ context.Context, in struct {
		Name string `json:"name"`
	}) (string, error) {
		return in.Name + " is bob@example.com", nil
	})
	a, err := agent.New(agent.ReAct[agent.State]{
		Model: model,
		Tools: []tool.Tool{lookup},
		Use: []agent.Middleware[agent.State]{
			middleware.LimitModel[agent.State](middleware.Limit{PerTurn: 20}),
			middleware.RetryTools[agent.State](middleware.Retry{}),
			middleware.Redact[agent.State](middleware.Redaction{Kinds: []middleware.Kind{middleware.Email}}),
		},
	})
	if err != nil {
		panic(err)
	}
	snap, err := a.Invoke(context.Background(), agent.Ask[agent.State]("What is Bob's address?"))
	if err != nil {
		panic(err)
	}
	fmt.Print(snap.State.Messages)
	// Output:
	// user: What is Bob's address?
	// assistant: lookup({"name":"Bob"})
	// tool: Bob is [REDACTED_EMAIL]
	// assistant: I have found the address.
}
