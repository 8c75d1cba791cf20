package agenttest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/agenttest"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/openai"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

// react compiles an agent, and returns its thread in a store.
func react(t *testing.T, store checkpoint.Store, a agent.ReAct[agent.State], opts ...graph.Option) *graph.Thread[agent.State] {
	t.Helper()
	a.Instruction = "Use your tools."
	g, err := agent.New(a, append([]graph.Option{graph.WithCheckpointer(store), graph.CheckMutations()}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return g.Thread("t")
}

// requests makes what is asked of a thread that is new each time.
var requests graph.Requests[agent.State]

func ask(text string) func(*agent.State) error { return agent.Ask[agent.State](text) }

type pair struct {
	A int `json:"a"`
	B int `json:"b"`
}

// multiply is a tool that counts its calls.
func multiply(calls *atomic.Int32) tool.Tool {
	return tool.New("multiply", "Multiplies two numbers.", func(_ context.Context, in pair) (int, error) {
		calls.Add(1)
		return in.A * in.B, nil
	})
}

func same(t *testing.T, what, got, want string) {
	t.Helper()
	if want = strings.ReplaceAll(strings.TrimLeft(want, "\n"), "\t", ""); got != want {
		t.Errorf("%s is\n%s\nwant\n%s", what, got, want)
	}
}

func said(snap *graph.Snapshot[agent.State]) string {
	return agenttest.Transcript(snap.State.Messages.Slice())
}

// unchanged checks that a first turn that failed in its first node has left
// nothing but its input.
func unchanged(t *testing.T, snap *graph.Snapshot[agent.State], input string) {
	t.Helper()
	s := &snap.State
	if s.Messages.Len() != 0 || s.UserInput != input || s.LastResponse.Get() != "" || s.NodeResponses.Len() != 0 || s.Stopped.Get() != "" || len(snap.Next) != 1 {
		t.Errorf("stored %s input %q, response %q, stopped for %q, next %v", said(snap), s.UserInput, s.LastResponse.Get(), s.Stopped.Get(), snap.Next)
	}
}

// kind checks that err is a node's failure with a provider's error of that kind.
func kind(t *testing.T, err error, node string, want model.ErrorKind) {
	t.Helper()
	var ne *graph.NodeError
	var me *model.Error
	if !errors.As(err, &ne) || ne.Node != node || !errors.As(err, &me) || me.Kind != want {
		t.Errorf("got %v, want %s of node %s", err, want, node)
	}
}

func TestAStreamThatBreaksFailsTheNodeStoresNothingAndTheThreadGoesOn(t *testing.T) {
	for _, whole := range []bool{false, true} {
		for _, chunks := range []int{0, 1, 3, 100} {
			reply := scripted.Text("one two three four")
			m := agenttest.Faulty(scripted.New(reply, reply), agenttest.BreakStream(chunks).At(1))
			thread := react(t, checkpoint.NewMemory(), agent.ReAct[agent.State]{Model: m, Whole: whole})
			snap, err := thread.Invoke(t.Context(), thread.Input(ask("count")))
			kind(t, err, agent.NodeModel, model.ErrorBrokenStream)
			unchanged(t, snap, "count")
			if stored, err := thread.State(t.Context()); err != nil {
				t.Error(err)
			} else {
				unchanged(t, stored, "count")
			}
			if snap, err = thread.Invoke(t.Context(), thread.Continue()); err != nil || !snap.Done() {
				t.Fatalf("%v", err)
			}
			same(t, "the conversation", said(snap), "user: count\nassistant: one two three four\n")
			if snap.State.UserInput != "" || snap.State.LastResponse.Get() != "one two three four" {
				t.Errorf("input %q, response %q", snap.State.UserInput, snap.State.LastResponse.Get())
			}
			m.CheckFired(t)
		}
	}
}

func TestAStreamThatBreaksAfterTheToolsLeavesTheirResults(t *testing.T) {
	var calls atomic.Int32
	answer := scripted.Text("It is 42.")
	s := scripted.New(scripted.Call("multiply", `{"a":6,"b":7}`), answer, answer)
	m := agenttest.Faulty(s, agenttest.BreakStream(2).At(2))
	store := checkpoint.NewMemory()
	a := agent.ReAct[agent.State]{Model: m, Tools: []tool.Tool{multiply(&calls)}}
	snap, err := react(t, store, a).Invoke(t.Context(), requests.Input(ask("6*7?")))
	kind(t, err, agent.NodeModel, model.ErrorBrokenStream)
	same(t, "what is stored", said(snap), `
		user: 6*7?
		assistant:
		  call #1 multiply {"a":6,"b":7}
		tool multiply #1: 42
		`)
	snap, err = react(t, store, a).Invoke(t.Context(), requests.Continue()) // as another process would
	if err != nil || snap.State.LastResponse.Get() != "It is 42." || calls.Load() != 1 {
		t.Errorf("%v, %q; the tool was called %d times", err, snap.State.LastResponse.Get(), calls.Load())
	}
	agenttest.CheckRequests(t, s.Requests())
	agenttest.CheckConversation(t, snap.State.Messages.Slice())
}

// streamed runs an agent and returns the IDs of the messages that were streamed,
// in order, and the text of each.
func streamed(t *testing.T, thread *graph.Thread[agent.State], input func(*agent.State) error) (ids, texts []string, failed error) {
	t.Helper()
	for ev, err := range thread.Stream(t.Context(), thread.Input(input), graph.Modes(graph.ModeMessages)) {
		if err != nil {
			return ids, texts, err
		}
		chunk, ok := ev.Value.(chat.Chunk)
		if !ok {
			continue
		}
		if len(ids) == 0 || ids[len(ids)-1] != chunk.ID {
			ids, texts = append(ids, chunk.ID), append(texts, "")
		}
		texts[len(texts)-1] += chunk.Text
	}
	return ids, texts, nil
}

func TestAStreamThatBrokeInItsMiddleIsNotGluedToAnotherAnswer(t *testing.T) {
	m := agenttest.Faulty(scripted.New(scripted.Text("one two three"), scripted.Text("un deux trois")), agenttest.BreakStream(2).At(1))
	thread := react(t, checkpoint.NewMemory(), agent.ReAct[agent.State]{Model: model.Retry(m, model.RetryPolicy{Initial: 1})})
	ids, texts, err := streamed(t, thread, ask("count"))
	kind(t, err, agent.NodeModel, model.ErrorBrokenStream)
	if len(texts) != 1 || texts[0] != "one two " || m.Calls() != 1 {
		t.Errorf("streamed %q in %d calls", texts, m.Calls())
	}
	again, texts, err := streamed(t, thread, nil)
	if err != nil || len(texts) != 1 || texts[0] != "un deux trois" {
		t.Fatalf("streamed %q, %v", texts, err)
	}
	snap, err := thread.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the conversation", said(snap), "user: count\nassistant: un deux trois\n")
	// Who shows the stream can tell the two answers apart.
	if ids[0] == again[0] || snap.State.Messages.Last().ID != again[0] {
		t.Errorf("streamed %v, then %v; stored %s", ids, again, snap.State.Messages.Last().ID)
	}
}

func TestAStreamThatBrokeBeforeItsFirstWordIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reply := scripted.Text("one two three")
		m := agenttest.Faulty(scripted.New(reply, reply), agenttest.BreakStream(0).At(1))
		thread := react(t, checkpoint.NewMemory(), agent.ReAct[agent.State]{Model: model.Retry(m, model.RetryPolicy{Initial: time.Second, NoJitter: true})})
		start := time.Now()
		ids, texts, err := streamed(t, thread, ask("count"))
		if err != nil || len(ids) != 1 || texts[0] != "one two three" || m.Calls() != 2 || time.Since(start) != time.Second {
			t.Errorf("%v, streamed %q in %d calls and %v", err, texts, m.Calls(), time.Since(start))
		}
	})
}

func TestARateLimitIsWaitedForAsLongAsTheProviderAsks(t *testing.T) {
	refusals := 0
	http429 := &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		if refusals++; refusals == 1 {
			return response(429, `{"error":{"message":"slow down","type":"requests","code":"rate_limit_exceeded"}}`, "Content-Type", "application/json", "Retry-After", "7"), nil
		}
		return response(200, providers["openai"].stream, "Content-Type", "text/event-stream"), nil
	})}
	for name, m := range map[string]model.Model{
		"a scripted model": agenttest.Faulty(scripted.New(scripted.Text(`Grüezi <you> & "them"`)), agenttest.RateLimit(7*time.Second).At(1)),
		"a provider's":     openai.New("m", openai.APIKey("k"), openai.BaseURL("http://x.test/v1"), openai.HTTPClient(http429)),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				thread := react(t, checkpoint.NewMemory(), agent.ReAct[agent.State]{Model: model.Retry(m, model.RetryPolicy{Initial: time.Second})})
				start := time.Now()
				snap, err := thread.Invoke(t.Context(), thread.Input(ask("hello")))
				if err != nil {
					t.Fatal(err)
				}
				if d := time.Since(start); d != 7*time.Second {
					t.Errorf("it took %v", d)
				}
				same(t, "the conversation", said(snap), "user: hello\nassistant: Grüezi <you> & \"them\"\n")
			})
		})
	}
}

func TestARateLimitThatIsTooLongFailsAtOnceAndTheThreadGoesOnLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := agenttest.Faulty(scripted.New(scripted.Text("hi")), agenttest.RateLimit(time.Hour).At(1))
		thread := react(t, checkpoint.NewMemory(), agent.ReAct[agent.State]{Model: model.Retry(m, model.RetryPolicy{})})
		start := time.Now()
		snap, err := thread.Invoke(t.Context(), thread.Input(ask("hello")))
		kind(t, err, agent.NodeModel, model.ErrorRateLimit)
		unchanged(t, snap, "hello")
		if me, ok := errors.AsType[*model.Error](err); !ok || me.RetryAfter != time.Hour || time.Since(start) != 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		time.Sleep(time.Hour)
		if snap, err = thread.Invoke(t.Context(), thread.Continue()); err != nil || snap.State.LastResponse.Get() != "hi" {
			t.Errorf("%q, %v", snap.State.LastResponse.Get(), err)
		}
	})
}

func TestAServerThatIsDownFailsTheNodeAfterSomeAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := agenttest.Faulty(scripted.New(scripted.Text("hi")), agenttest.ServerError().At(1, 2, 3))
		thread := react(t, checkpoint.NewMemory(), agent.ReAct[agent.State]{Model: model.Retry(m, model.RetryPolicy{MaxAttempts: 3})})
		snap, err := thread.Invoke(t.Context(), thread.Input(ask("hello")))
		kind(t, err, agent.NodeModel, model.ErrorServer)
		unchanged(t, snap, "hello")
		if !strings.Contains(err.Error(), "after 3 attempts") || m.Calls() != 3 {
			t.Errorf("%v, %d calls", err, m.Calls())
		}
		if snap, err = thread.Invoke(t.Context(), thread.Continue()); err != nil || snap.State.LastResponse.Get() != "hi" {
			t.Errorf("%q, %v", snap.State.LastResponse.Get(), err)
		}
	})
}

func TestAModelThatIsTooSlowEndsWithTheNodesTimeAndStoresNothing(t *testing.T) {
	for name, c := range map[string]struct {
		fault agenttest.ModelFault
		whole bool
	}{
		"never answers":           {agenttest.Hang().At(1), false},
		"never answers, whole":    {agenttest.Hang().At(1), true},
		"answers a word a second": {agenttest.SlowTokens(time.Second).At(1), false},
		"answers after an hour":   {agenttest.SlowTokens(time.Hour).At(1), true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reply := scripted.Text("one two three four five")
				m := agenttest.Faulty(scripted.New(reply, reply), c.fault)
				thread := react(t, checkpoint.NewMemory(), agent.ReAct[agent.State]{Model: model.Retry(m, model.RetryPolicy{}), Whole: c.whole}, graph.NodeTimeout(3500*time.Millisecond))
				start := time.Now()
				snap, err := thread.Invoke(t.Context(), thread.Input(ask("count")))
				if _, ok := errors.AsType[*graph.TimeoutError](err); !ok || time.Since(start) != 3500*time.Millisecond || m.Calls() != 1 {
					t.Errorf("%v after %v and %d calls", err, time.Since(start), m.Calls())
				}
				unchanged(t, snap, "count")
				if snap, err = thread.Invoke(t.Context(), thread.Continue()); err != nil || snap.State.LastResponse.Get() != "one two three four five" {
					t.Errorf("%q, %v", snap.State.LastResponse.Get(), err)
				}
			})
		})
	}
}

func TestAnAnswerThatSaysNothingEndsTheTurn(t *testing.T) {
	s := scripted.New(scripted.Text("hi"))
	m := agenttest.Faulty(s, agenttest.EmptyAnswer().At(1))
	thread := react(t, checkpoint.NewMemory(), agent.ReAct[agent.State]{Model: m})
	snap, err := thread.Invoke(t.Context(), thread.Input(ask("hello")))
	if err != nil || !snap.Done() || snap.State.Stopped.Get() != agent.StopAnswer || snap.State.LastResponse.Get() != "" {
		t.Errorf("%v, stopped for %q, %q", err, snap.State.Stopped.Get(), snap.State.LastResponse.Get())
	}
	if snap, err = thread.Invoke(t.Context(), thread.Input(ask("hello?"))); err != nil {
		t.Fatal(err)
	}
	same(t, "the conversation", said(snap), "user: hello\nassistant:\nuser: hello?\nassistant: hi\n")
	agenttest.CheckRequests(t, s.Requests())
}

var policies = map[agent.ErrorPolicy]string{agent.FailFast: "fail fast", agent.TellModel: "tell the model", agent.TellModelAll: "tell the model all"}

// What goes wrong with a tool, under each policy. A message calls two tools, of
// which the second goes wrong.
func TestWhatGoesWrongWithAToolUnderEachPolicy(t *testing.T) {
	const good = `{"a":6,"b":7}`
	for name, c := range map[string]struct {
		model   []agenttest.ModelFault
		tool    []agenttest.ToolFault
		args    string // of the second call
		kind    tool.ErrorKind
		call    string // the second call as a transcript has it
		told    string // what the model is told
		failing []agent.ErrorPolicy
		before  bool // such a call keeps the first from being made, too
		lasting bool // it goes wrong again
	}{
		"it panics": {tool: []agenttest.ToolFault{agenttest.PanicTool("oh no").At(1)}, args: good, kind: tool.ErrorPanic,
			told: "[TOOL ERROR] add: panic: oh no", failing: []agent.ErrorPolicy{agent.FailFast}},
		"it fails": {tool: []agenttest.ToolFault{agenttest.FailTool(errors.New("out of paper")).At(1)}, args: good, kind: tool.ErrorFailed,
			told: "[TOOL ERROR] add: out of paper", failing: []agent.ErrorPolicy{agent.FailFast}},
		"its arguments don't fit its schema": {args: `{"a":"six","b":7}`, kind: tool.ErrorArguments,
			told: "[TOOL ERROR] add: invalid arguments: ", failing: []agent.ErrorPolicy{agent.FailFast}, lasting: true},
		"its arguments don't parse": {model: []agenttest.ModelFault{agenttest.BrokenArguments().At(1)}, args: good, kind: tool.ErrorArguments,
			call: `add "{{\"a\":6,\"b\":7}"`, told: "[TOOL ERROR] add: invalid arguments: not a JSON object: ",
			failing: []agent.ErrorPolicy{agent.FailFast, agent.TellModel}, before: true, lasting: true},
		"there is no such tool": {model: []agenttest.ModelFault{agenttest.UnknownTool().At(1)}, args: good, kind: tool.ErrorUnknown,
			call: agenttest.NoSuchTool + " " + good, told: "[TOOL ERROR] " + agenttest.NoSuchTool + ": unknown tool: ",
			failing: []agent.ErrorPolicy{agent.FailFast, agent.TellModel}, before: true, lasting: true},
	} {
		for policy, policyName := range policies {
			for _, parallel := range []int{0, 4} {
				t.Run(fmt.Sprintf("%s, %s, parallel %d", name, policyName, parallel), func(t *testing.T) {
					var multiplied atomic.Int32
					add := agenttest.FaultyTool(tool.New("add", "Adds two numbers.", func(_ context.Context, in pair) (int, error) {
						return in.A + in.B, nil
					}), c.tool...)
					s := scripted.New(
						scripted.Calls(chat.ToolCall{ID: "1", Name: "multiply", Args: good}, chat.ToolCall{ID: "2", Name: "add", Args: c.args}),
						scripted.Text("so"), scripted.Text("and so"))
					m := agenttest.Faulty(s, c.model...)
					store := checkpoint.NewMemory()
					// Each call is made by a new graph, as by another process.
					build := func() *graph.Thread[agent.State] {
						return react(t, store, agent.ReAct[agent.State]{Model: m, Tools: []tool.Tool{multiply(&multiplied), add}, OnError: policy, Parallel: parallel})
					}
					snap, err := build().Invoke(t.Context(), requests.Input(ask("go")))
					if slices.Contains(c.failing, policy) {
						snap = goOn(t, build, snap, err, c.kind, c.lasting, parallel > 0)
						if c.before && multiplied.Load() != 0 {
							t.Errorf("the first tool was called %d times", multiplied.Load())
						}
					} else {
						told(t, snap, err, c.told)
					}
					if !c.before && multiplied.Load() != 1 {
						t.Errorf("the first tool was called %d times", multiplied.Load())
					}
					if snap.State.LastResponse.Get() != "so" || !snap.Done() {
						t.Errorf("the answer is %q, next %v", snap.State.LastResponse.Get(), snap.Next)
					}
					if snap, err = build().Invoke(t.Context(), requests.Input(ask("and?"))); err != nil || snap.State.LastResponse.Get() != "and so" {
						t.Errorf("the next turn: %q, %v", snap.State.LastResponse.Get(), err)
					}
					if call := c.call; call != "" && !strings.Contains(said(snap), call) {
						t.Errorf("nothing of %s in\n%s", call, said(snap))
					}
					agenttest.CheckRequests(t, s.Requests())
					m.CheckFired(t)
					add.CheckFired(t)
				})
			}
		}
	}
}

// goOn checks that a run failed in its tools, and has it go on.
func goOn(t *testing.T, build func() *graph.Thread[agent.State], snap *graph.Snapshot[agent.State], err error, want tool.ErrorKind, lasting, restart bool) *graph.Snapshot[agent.State] {
	t.Helper()
	var ce *agent.ToolCallError
	var te *tool.Error
	check := func() {
		t.Helper()
		if !errors.As(err, &ce) || ce.Call.ID == "" || !errors.As(err, &te) || te.Kind != want {
			t.Fatalf("got %v", err)
		}
		if snap.State.Messages.Len() != 2 || snap.State.Messages.Last().Role != chat.RoleAssistant || len(snap.Next) != 1 || snap.Next[0] != agent.NodeTools {
			t.Fatalf("next %v, stored\n%s", snap.Next, said(snap))
		}
	}
	check()
	if snap, err = build().State(t.Context()); err != nil {
		t.Fatal(err)
	}
	snap, err = build().Invoke(t.Context(), requests.Continue())
	if lasting {
		check()
		// The user goes another way.
		if restart {
			snap, err = build().Invoke(t.Context(), requests.Restart(ask("never mind")))
		} else {
			snap, err = build().Invoke(t.Context(), requests.Input(agent.Say[agent.State](chat.User("never mind"))))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

// told checks that the model was told of a failure and answered.
func told(t *testing.T, snap *graph.Snapshot[agent.State], err error, want string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	r, _ := snap.State.Messages.Slice()[3].ToolResult()
	if !r.IsError || !strings.HasPrefix(r.Text(), want) || strings.Contains(r.Text(), "goroutine") {
		t.Errorf("the model is told %q", r.Text())
	}
	agenttest.CheckConversation(t, snap.State.Messages.Slice())
}

func TestACallWithoutIDFailsTheNodeBeforeAnyToolIsCalled(t *testing.T) {
	for _, policy := range []agent.ErrorPolicy{agent.FailFast, agent.TellModel} {
		var calls atomic.Int32
		m := agenttest.Faulty(scripted.New(scripted.Call("multiply", `{"a":6,"b":7}`)), agenttest.NoCallID())
		thread := react(t, checkpoint.NewMemory(), agent.ReAct[agent.State]{Model: m, Tools: []tool.Tool{multiply(&calls)}, OnError: policy})
		_, err := thread.Invoke(t.Context(), thread.Input(ask("6*7?")))
		if te, ok := errors.AsType[*tool.Error](err); !ok || te.Kind != tool.ErrorArguments || !strings.Contains(err.Error(), "no ID") || calls.Load() != 0 {
			t.Errorf("%s: %v; the tool was called %d times", policies[policy], err, calls.Load())
		}
		m.CheckFired(t)
	}
}

const megabyte = 1 << 20

func TestAResultOfAMegabyteIsStoredAndSentWholeUnlessLimited(t *testing.T) {
	for policy, name := range policies {
		for _, limit := range []int{0, 1000} {
			t.Run(fmt.Sprintf("%s, limit %d", name, limit), func(t *testing.T) {
				var calls atomic.Int32
				huge := agenttest.FaultyTool(multiply(&calls), agenttest.HugeResult(megabyte))
				used := tool.Tool(huge)
				want := megabyte
				if limit > 0 {
					used, want = tool.Limit(huge, limit), limit+len("\n[cut: 1047576 of 1048576 bytes are left out]")
				}
				s := scripted.New(scripted.Call("multiply", `{"a":6,"b":7}`), scripted.Text("much"), scripted.Text("so much"))
				// The model fails when it has the result; another process goes on.
				m := agenttest.Faulty(s, agenttest.ServerError().At(2))
				store := checkpoint.NewMemory()
				warned := false
				build := func() *graph.Thread[agent.State] {
					// Without CheckMutations, which would hash the megabyte all the time.
					g, err := agent.New(agent.ReAct[agent.State]{Model: m, Tools: []tool.Tool{used}, OnError: policy, Instruction: "Use your tools."},
						graph.WithCheckpointer(store), graph.OnWarning(func(w graph.Warning) {
							warned = warned || w.Kind == graph.LargeChange && w.Node == agent.NodeTools && w.Field == "messages"
						}))
					if err != nil {
						t.Fatal(err)
					}
					return g.Thread("t")
				}
				_, err := build().Invoke(t.Context(), requests.Input(ask("go")))
				if warned != (limit == 0) {
					t.Errorf("warned of the size: %v", warned)
				}
				kind(t, err, agent.NodeModel, model.ErrorServer)
				if _, err = build().Invoke(t.Context(), requests.Continue()); err != nil {
					t.Fatal(err)
				}
				snap, err := build().Invoke(t.Context(), requests.Input(ask("and?")))
				if err != nil || snap.State.LastResponse.Get() != "so much" || huge.Calls() != 1 {
					t.Fatalf("%v, %q; the tool was called %d times", err, snap.State.LastResponse.Get(), huge.Calls())
				}
				stored, _ := snap.State.Messages.Slice()[2].ToolResult()
				sent, _ := s.Last().Messages[3].ToolResult()
				if len(stored.Text()) != want || sent.Text() != stored.Text() || stored.IsError {
					t.Errorf("stored %d bytes, sent %d, want %d", len(stored.Text()), len(sent.Text()), want)
				}
				if limit > 0 && !strings.HasSuffix(stored.Text(), "bytes are left out]") {
					t.Errorf("it ends in %q", stored.Text()[limit-10:])
				}
				agenttest.CheckRequests(t, s.Requests())
			})
		}
	}
}

func TestAFailureOfAMegabyteIsLimitedLikeAResult(t *testing.T) {
	var calls atomic.Int32
	bad := agenttest.FaultyTool(multiply(&calls), agenttest.FailTool(errors.New(strings.Repeat("oh ", megabyte/3))))
	m := scripted.New(scripted.Call("multiply", `{"a":6,"b":7}`), scripted.Text("so"))
	thread := react(t, checkpoint.NewMemory(), agent.ReAct[agent.State]{Model: m, Tools: []tool.Tool{tool.Limit(bad, 1000)}, OnError: agent.TellModel})
	snap, err := thread.Invoke(t.Context(), thread.Input(ask("go")))
	if err != nil {
		t.Fatal(err)
	}
	if r, _ := snap.State.Messages.Slice()[2].ToolResult(); len(r.Text()) > 1100 || !strings.HasPrefix(r.Text(), "[TOOL ERROR] multiply: oh ") {
		t.Errorf("the model is told %d bytes: %.100s", len(r.Text()), r.Text())
	}
}

func TestAToolThatHangsEndsWithItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		hangs := agenttest.FaultyTool(multiply(&calls), agenttest.SlowTool(time.Hour).At(1))
		m := scripted.New(scripted.Call("multiply", `{"a":6,"b":7}`), scripted.Call("multiply", `{"a":6,"b":7}`), scripted.Text("42"))
		thread := react(t, checkpoint.NewMemory(), agent.ReAct[agent.State]{Model: m, Tools: []tool.Tool{tool.WithTimeout(hangs, 2*time.Second)}, OnError: agent.TellModel})
		start := time.Now()
		snap, err := thread.Invoke(t.Context(), thread.Input(ask("6*7?")))
		if err != nil || time.Since(start) != 2*time.Second || calls.Load() != 1 {
			t.Fatalf("%v after %v; the tool was called %d times", err, time.Since(start), calls.Load())
		}
		same(t, "the conversation", said(snap), `
			user: 6*7?
			assistant:
			  call #1 multiply {"a":6,"b":7}
			tool multiply #1 failed: [TOOL ERROR] multiply: no answer within 2s: context deadline exceeded
			assistant:
			  call #2 multiply {"a":6,"b":7}
			tool multiply #2: 42
			assistant: 42
			`)
	})
}

// Whatever fails, and however often: a thread that goes on until it ends has the
// conversation that it would have had, and each tool's effect happened once.
func TestAThreadThatGoesOnEndsAsIfNothingHadFailed(t *testing.T) {
	const want = `user: 6*7 and 2*21?
assistant:
  call #1 multiply {"a":6,"b":7}
  call #2 multiply {"a":2,"b":21}
tool multiply #1: 42
tool multiply #2: 42
assistant: Both are 42.
`
	failures := 0
	for seed := range uint64(100) {
		var calls atomic.Int32
		s := scripted.New(
			scripted.Text("Both are 42.").When(scripted.Returned("multiply")).Repeat(),
			scripted.Calls(chat.ToolCall{Name: "multiply", Args: `{"a":6,"b":7}`}, chat.ToolCall{Name: "multiply", Args: `{"a":2,"b":21}`}).Repeat())
		m := agenttest.Faulty(s,
			agenttest.RateLimit(0).Sometimes(0.2, seed),
			agenttest.BreakStream(1).Sometimes(0.3, seed+1000),
			agenttest.Fail(errors.New("no connection")).Sometimes(0.2, seed+2000))
		mul := agenttest.FaultyTool(multiply(&calls),
			agenttest.FailTool(errors.New("out of paper")).Sometimes(0.3, seed),
			agenttest.PanicTool("oh no").Sometimes(0.3, seed+1000))
		thread := react(t, checkpoint.NewMemory(), agent.ReAct[agent.State]{Model: m, Tools: []tool.Tool{mul}, Whole: seed%3 == 0, Parallel: int(seed % 3)})
		snap, err := thread.Invoke(t.Context(), thread.Input(ask("6*7 and 2*21?")))
		for n := 0; err != nil && n < 100; n++ {
			failures++
			snap, err = thread.Invoke(t.Context(), thread.Continue())
		}
		if err != nil || said(snap) != want || calls.Load() != 2 {
			t.Errorf("seed %d: %v; the tool was called %d times; the conversation is\n%s", seed, err, calls.Load(), said(snap))
		}
		agenttest.CheckRequests(t, s.Requests())
	}
	if failures < 100 {
		t.Errorf("only %d failures", failures)
	}
}
