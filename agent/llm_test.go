package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/openai"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

// What a model is sent follows one of three rules, and what is written follows
// from it.
func TestWhatAModelIsSent(t *testing.T) { // TRPC-11, 19, 36, 37, 38
	history := []chat.Message{chat.User("u1"), chat.Assistant("a1")}
	loop := []chat.Message{chat.User("u1"), chat.Assistant("", call("c", "multiply", "{}")), chat.ResultText(call("c", "multiply", "{}"), "6")}
	for name, c := range map[string]struct {
		input          func(*state) error
		sent, messages string
	}{
		"the user's input is appended": {
			func(s *state) error {
				s.Messages.Add(history...)
				s.UserInput = "u2"
				return nil
			},
			"system: I\nuser: u1\nassistant: a1\nuser: u2\n", "user: u1\nassistant: a1\nuser: u2\nassistant: ok\n",
		},
		"without input the conversation stands as it is": {
			func(s *state) error {
				s.Messages.Add(loop...)
				return nil
			},
			"system: I\nuser: u1\nassistant: [c multiply{}]\ntool: 6 (c)\n", "user: u1\nassistant: [c multiply{}]\ntool: 6 (c)\nassistant: ok\n",
		},
		"one-shot messages are all that is sent": {
			func(s *state) error {
				s.Messages.Add(history...)
				s.UserInput = "later"
				s.OneShot.Set([]chat.Message{chat.System("only"), chat.User("this")})
				return nil
			},
			"system: only\nuser: this\n", "user: u1\nassistant: a1\nassistant: ok\n",
		},
	} {
		m := script(scripted.Text("ok"))
		snap, err := llm(t, agent.LLM[state]{Model: m, Instruction: "I"}).Invoke(t.Context(), c.input)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		same(t, name+": the request", transcript(m.Last().Messages), c.sent)
		same(t, name+": the conversation", messages(snap), c.messages)
		if r, _ := snap.State.NodeResponses.Get("ask"); r != "ok" || snap.State.LastResponse.Get() != "ok" || len(snap.State.OneShot.Get()) != 0 {
			t.Errorf("%s: node response %q, last response %q, one-shot %v", name, r, snap.State.LastResponse.Get(), snap.State.OneShot.Get())
		}
		if left := snap.State.UserInput; (left == "later") != strings.HasPrefix(name, "one-shot") {
			t.Errorf("%s: user input %q", name, left)
		}
	}
}

// What OneShot led to is done although the user's input waits; after that the
// usual rules hold, and the input is answered.
func TestToolsOfAOneShotAreCalledWhileTheInputWaits(t *testing.T) { // TRPC-36, 37, 38
	both := func(s *state) error {
		s.UserInput = "hi"
		s.OneShot.Set([]chat.Message{chat.System("only"), chat.User("this")})
		return nil
	}
	for name, approve := range map[string][]agent.Approval{"at once": nil, "when a human agrees": agent.Approve("multiply")} {
		n := 0
		m := script(calls(call("1", "multiply", `{"a":2,"b":3}`)), scripted.Text("hello"))
		g := react(t, agent.ReAct[state]{Model: m, Tools: []tool.Tool{counted(&n)}, Instruction: "I", Approve: approve}, memory())
		snap, err := g.Thread("t").Invoke(t.Context(), g.Input(both))
		if approve != nil && err == nil {
			snap, err = g.Thread("t").Invoke(t.Context(), g.Answer(agent.ApprovalAnswer{Decisions: []agent.Decision{{Type: agent.ApproveCall}}}))
		}
		if err != nil || n != 1 || snap.State.UserInput != "" {
			t.Fatalf("%s: %v, called %d times, input %q", name, err, n, snap.State.UserInput)
		}
		same(t, "the first request", transcript(m.Requests()[0].Messages), "system: only\nuser: this\n")
		same(t, "the second request", transcript(m.Last().Messages), "system: I\nassistant: [1 multiply{\"a\":2,\"b\":3}]\ntool: 6 (1)\nuser: hi\n")
		same(t, "the conversation", messages(snap), "assistant: [1 multiply{\"a\":2,\"b\":3}]\ntool: 6 (1)\nuser: hi\nassistant: hello\n")
	}
}

// Only the input that was there counts as waiting: what the user says afterwards
// stops the calls as ever.
func TestAnInputAfterAOneShotStopsItsCalls(t *testing.T) {
	n := 0
	m := script(calls(call("1", "multiply", `{"a":2,"b":3}`)), scripted.Text("bye"))
	b := graph.New[state]("g")
	agent.AddLLM(b, "ask", agent.LLM[state]{Model: m})
	b.AddNode("listen", func(_ context.Context, s *state) error { s.UserInput = "never mind"; return nil })
	agent.AddTools(b, "tools", agent.Tools[state]{Tools: []tool.Tool{counted(&n)}})
	agent.AddToolsConditionalEdges(b, "ask", "listen", graph.End)
	g := compile(t, b.AddEdge(graph.Start, "ask").AddEdge("listen", "tools").AddEdge("tools", "ask"))
	snap, err := g.Invoke(t.Context(), func(s *state) error {
		s.UserInput = "hi"
		s.OneShot.Set([]chat.Message{chat.User("this")})
		return nil
	})
	if err != nil || n != 0 {
		t.Fatalf("%v, called %d times", err, n)
	}
	same(t, "the conversation", messages(snap), "assistant: [1 multiply{\"a\":2,\"b\":3}]\ntool: not called: the user went on (1) failed\nuser: never mind\nassistant: bye\n")
}

// A node before the model may rewrite what the user said.
func TestARewrittenInputIsWhatCounts(t *testing.T) { // TRPC-37
	m := script(scripted.Text("ok"))
	b := graph.New[state]("g").AddNode("clean", func(_ context.Context, s *state) error { s.UserInput = strings.TrimSpace(s.UserInput); return nil })
	agent.AddLLM(b, "ask", agent.LLM[state]{Model: m})
	snap, err := compile(t, b.AddEdge(graph.Start, "clean").AddEdge("clean", "ask")).Invoke(t.Context(), ask("  hi "))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the request", transcript(m.Last().Messages), "user: hi\n")
	same(t, "the conversation", messages(snap), "user: hi\nassistant: ok\n")
}

func TestAFailedModelLeavesTheInputAlone(t *testing.T) { // TRPC-11, 37
	m := script(scripted.Error(errors.New("down")), scripted.Text("ok"))
	g := llm(t, agent.LLM[state]{Model: m}, memory())
	snap, err := g.Thread("t").Invoke(t.Context(), g.Input(ask("hi")))
	if err == nil || snap.State.UserInput != "hi" || snap.State.Messages.Len() != 0 {
		t.Fatalf("%v, input %q, %s", err, snap.State.UserInput, messages(snap))
	}
	if snap, err = g.Thread("t").Invoke(t.Context(), g.Continue()); err != nil || messages(snap) != "user: hi\nassistant: ok\n" {
		t.Errorf("%v, %s", err, messages(snap))
	}
}

type values map[string]any

func (v values) Value(_ context.Context, name string) (any, bool) { x, ok := v[name]; return x, ok }

func TestPlaceholdersOfAnInstruction(t *testing.T) { // TRPC-39, 40, 41
	v := values{"topic": "cats", "n": 3, "obj": map[string]int{"a": 1}, "user:name": "Ann", "app:v": "2", "temp:x": "tmp", "raw": json.RawMessage(`"txt"`)}
	for text, want := range map[string]string{
		"about {topic}":                  "about cats",
		"{n} {obj} {raw}":                `3 {"a":1} txt`,
		"{user:name}/{app:v}/{temp:x}":   "Ann/2/tmp",
		"{missing} and {missing?}.":      "{missing} and .",
		"{user:missing?}{temp:missing}":  "{temp:missing}",
		"{} { not a key } {\"json\": 1}": "{} { not a key } {\"json\": 1}",
		"{other:scope} {1} {topic?}":     "{other:scope} {1} cats",
	} {
		m := script(scripted.Text("ok"))
		g := llm(t, agent.LLM[state]{Model: m, Instruction: text}, graph.ProvideDeps(func(context.Context) (agent.Values, error) { return v, nil }))
		snap, err := g.Invoke(t.Context(), ask("hi"))
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Last().Messages[0].Text(); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
		if strings.Contains(messages(snap), "system") {
			t.Errorf("the instruction is stored: %s", messages(snap))
		}
	}
	m := script(scripted.Text("ok"))
	if _, err := llm(t, agent.LLM[state]{Model: m, Instruction: "{a} {b?}!"}).Invoke(t.Context(), ask("hi")); err != nil || m.Last().Messages[0].Text() != "{a} !" {
		t.Errorf("without values: %v, %q", err, m.Last().Messages[0].Text())
	}
}

func TestARequestHasTheNodesSettings(t *testing.T) { // TRPC-47, W5-15
	temperature := 0.5
	n := 0
	m := script(scripted.Text("ok"))
	l := agent.LLM[state]{
		Model: m, Config: model.Config{Temperature: &temperature, MaxTokens: 9}, ToolChoice: model.ToolNone,
		Tools:  []tool.Tool{counted(&n), failing("other")},
		Prompt: func(_ context.Context, s *state) (string, error) { return "about " + s.Topic, nil },
	}
	if _, err := llm(t, l).Invoke(t.Context(), func(s *state) error {
		s.Topic = "cats"
		s.UserInput = "hi"
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	r := m.Last()
	if *r.Temperature != 0.5 || r.MaxTokens != 9 || r.ToolChoice != model.ToolNone || r.Messages[0].Text() != "about cats" {
		t.Errorf("%+v", r)
	}
	if len(r.Tools) != 2 || r.Tools[0].Name != "multiply" || r.Tools[1].Name != "other" {
		t.Errorf("tools %v", r.Tools)
	}
}

func TestToolsThatAreChosenForATurn(t *testing.T) {
	n := 0
	m := script(scripted.Text("ok"))
	l := agent.LLM[state]{Model: m, Tools: []tool.Tool{failing("always")}, Choose: func(_ context.Context, s *state) ([]tool.Tool, error) {
		if s.Topic != "maths" {
			return nil, errors.New("wrong topic")
		}
		return []tool.Tool{counted(&n)}, nil
	}}
	g := llm(t, l)
	if _, err := g.Invoke(t.Context(), ask("hi")); err == nil || !strings.Contains(err.Error(), "wrong topic") {
		t.Error(err)
	}
	if _, err := g.Invoke(t.Context(), func(s *state) error {
		s.Topic = "maths"
		s.UserInput = "hi"
		return nil
	}); err != nil || m.Last().Tools[0].Name != "multiply" {
		t.Errorf("%v, %v", err, m.Last().Tools)
	}
}

func TestModelCallbacks(t *testing.T) { // TRPC-47
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		before func(context.Context, *state, *model.Request) (*model.Response, error)
		after  func(context.Context, *state, *model.Request, *model.Response, error) (*model.Response, error)
		reply  scripted.Reply
		want   string
		err    error
		asked  int
	}{
		"before changes the request": {
			before: func(_ context.Context, _ *state, r *model.Request) (*model.Response, error) {
				r.Messages = append(r.Messages, chat.User("more"))
				return nil, nil
			},
			reply: scripted.Func(func(_ context.Context, r *model.Request) (chat.Message, error) {
				return chat.Assistant(r.Messages[len(r.Messages)-1].Text()), nil
			}), want: "more", asked: 1,
		},
		"before answers": {
			before: func(context.Context, *state, *model.Request) (*model.Response, error) {
				return &model.Response{Message: chat.Assistant("short")}, nil
			}, want: "short",
		},
		"before fails": {
			before: func(context.Context, *state, *model.Request) (*model.Response, error) { return nil, boom }, err: boom,
		},
		"after replaces": {
			after: func(_ context.Context, _ *state, _ *model.Request, r *model.Response, err error) (*model.Response, error) {
				return &model.Response{Message: chat.Assistant(r.Message.Text() + "!")}, err
			}, reply: scripted.Text("ok"), want: "ok!", asked: 1,
		},
		"after saves a failure": {
			after: func(_ context.Context, _ *state, _ *model.Request, _ *model.Response, err error) (*model.Response, error) {
				return &model.Response{Message: chat.Assistant("sorry: " + err.Error())}, nil
			}, reply: scripted.Error(boom), want: "sorry: boom", asked: 1,
		},
		"after only watches": {
			after: func(context.Context, *state, *model.Request, *model.Response, error) (*model.Response, error) {
				return nil, nil
			}, reply: scripted.Text("ok"), want: "ok", asked: 1,
		},
	} {
		m := script(c.reply)
		snap, err := llm(t, agent.LLM[state]{Model: m, Use: aroundModel(c.before, c.after)}).Invoke(t.Context(), ask("hi"))
		if !errors.Is(err, c.err) || c.err == nil && err != nil || snap.State.LastResponse.Get() != c.want || len(m.Requests()) != c.asked {
			t.Errorf("%s: %q after %d requests, %v", name, snap.State.LastResponse.Get(), len(m.Requests()), err)
		}
	}
}

// SONI-47: tokens come while the node runs, and add up to the message.
func TestTokensAreStreamedAsTheyCome(t *testing.T) {
	step := make(chan bool)
	m := model.Model(gated{script(scripted.Text("one two three")), step})
	g := llm(t, agent.LLM[state]{Model: m}, memory())
	var sum chat.Collector
	var stored chat.Message
	n := 0
	for ev, err := range g.Thread("t").Stream(t.Context(), g.Input(ask("hi")), graph.Modes(graph.ModeMessages, graph.ModeValues)) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Type == graph.EventValues {
			if s, ok := graph.StateOf[state](ev); ok {
				stored = s.Messages.Last()
			}
			continue
		}
		chunk, ok := ev.Value.(chat.Chunk)
		if !ok || ev.Node != "ask" {
			t.Fatalf("event %+v", ev)
		}
		sum.Add(chunk)
		n++
		step <- true // the model goes on only after its token was seen
	}
	got := sum.Message()
	if got.Text() != "one two three" || n < 3 || got.ID == "" || got.ID != stored.ID || stored.Text() != got.Text() {
		t.Errorf("%d tokens, %q (%s); stored %q (%s)", n, got.Text(), got.ID, stored.Text(), stored.ID)
	}
}

// gated is a model that waits after each chunk until it was seen.
type gated struct {
	*scripted.Model
	step chan bool
}

func (g gated) Stream(ctx context.Context, req *model.Request) iter.Seq2[chat.Chunk, error] {
	return func(yield func(chat.Chunk, error) bool) {
		for c, err := range g.Model.Stream(ctx, req) {
			if !yield(c, err) {
				return
			}
			<-g.step
		}
	}
}

// C-29: a model that doesn't stream sends one chunk.
func TestAModelThatDoesNotStreamSendsOneChunk(t *testing.T) {
	m := model.Func(func(context.Context, *model.Request) (*model.Response, error) {
		return &model.Response{Message: chat.Assistant("all at once")}, nil
	})
	var texts []string
	for ev, err := range llm(t, agent.LLM[state]{Model: m}).Stream(t.Context(), ask("hi"), graph.Modes(graph.ModeMessages)) {
		if err != nil {
			t.Fatal(err)
		}
		var c chat.Collector
		c.Add(ev.Value.(chat.Chunk))
		texts = append(texts, c.Message().Text())
	}
	if !slices.Equal(texts, []string{"all at once"}) {
		t.Error(texts)
	}
}

// A provider whose answers all have the same ID doesn't overwrite the
// conversation.
func TestIDsOfProvidersNeedNotBeUnique(t *testing.T) {
	m := model.Func(func(context.Context, *model.Request) (*model.Response, error) {
		return &model.Response{Message: chat.Message{ID: "chatcmpl-0", Role: chat.RoleAssistant, Parts: []chat.Part{chat.Text{Text: "x"}}}}, nil
	})
	g := llm(t, agent.LLM[state]{Model: m}, memory())
	for range 2 {
		if _, err := g.Thread("t").Invoke(t.Context(), g.Input(ask("hi"))); err != nil {
			t.Fatal(err)
		}
	}
	snap, err := g.Thread("t").State(t.Context())
	if err != nil || snap.State.Messages.Len() != 4 {
		t.Errorf("%v, %s", err, messages(snap))
	}
}

// Providers refuse conversations in which a call has no result.
func TestCallsWithoutResultsAreAnsweredInTheRequest(t *testing.T) {
	c1, c2 := call("c1", "multiply", "{}"), call("c2", "multiply", "{}")
	m := script(scripted.Text("ok"))
	snap, err := llm(t, agent.LLM[state]{Model: m}).Invoke(t.Context(), say(
		chat.User("u1"), chat.Assistant("", c1, c2), chat.ResultText(c2, "2"), chat.User("never mind"),
	))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the request", transcript(m.Last().Messages), `
		user: u1
		assistant: [c1 multiply{}][c2 multiply{}]
		tool: not called: the conversation went on (c1) failed
		tool: 2 (c2)
		user: never mind
		`)
	if strings.Contains(messages(snap), "went on") {
		t.Error("that is stored")
	}
}

func TestAStructuredAnswer(t *testing.T) {
	type weather struct {
		Degrees int  `json:"degrees"`
		Snow    bool `json:"snow"`
	}
	out, err := model.OutputOf[weather]()
	if err != nil {
		t.Fatal(err)
	}
	m := script(scripted.Text(`{"degrees":-2,"snow":true}`), scripted.Text(`{"degrees":"cold"}`))
	g := llm(t, agent.LLM[state]{Model: m, Output: out})
	snap, err := g.Invoke(t.Context(), ask("hi"))
	if err != nil {
		t.Fatal(err)
	}
	if w, err := agent.Structured[weather](&snap.State.State); err != nil || w != (weather{-2, true}) || m.Last().Output == nil {
		t.Errorf("%+v, %v", w, err)
	}
	var fe *model.FormatError
	if _, err := g.Invoke(t.Context(), ask("hi")); !errors.As(err, &fe) {
		t.Errorf("an answer of another form: %v", err)
	}
	if _, err := agent.Structured[weather](&agent.State{}); !errors.Is(err, agent.ErrNoStructured) {
		t.Error(err)
	}
}

func TestMistakesInAnLLMNode(t *testing.T) { // W5-11, 12
	n := 0
	b := graph.New[state]("g")
	agent.AddLLM(b, "ask", agent.LLM[state]{Tools: []tool.Tool{counted(&n), counted(&n)}})
	_, err := b.AddEdge(graph.Start, "ask").Compile()
	if err == nil || !strings.Contains(err.Error(), "needs a Model") || !strings.Contains(err.Error(), "multiply") {
		t.Errorf("got %v", err)
	}
	if _, err := llm(t, agent.LLM[state]{Model: script()}).Invoke(t.Context(), nil); !errors.Is(err, agent.ErrNoMessages) {
		t.Errorf("an empty conversation: %v", err)
	}
}

// A conversation with calls that have no ID, or one ID twice, is sent in a form
// that providers take.
func TestCallsInAHistoryThatHaveNoID(t *testing.T) {
	m := script(scripted.Text("ok"))
	if _, err := llm(t, agent.LLM[state]{Model: m}).Invoke(t.Context(), say(
		chat.User("u1"), chat.Assistant("", call("", "f", "{}"), call("x", "f", "{}"), call("x", "g", "{}")), chat.ResultText(call("x", "f", ""), "ok"), chat.User("u2"),
	)); err != nil {
		t.Fatal(err)
	}
	same(t, "the request", transcript(m.Last().Messages), `
		user: u1
		assistant: [call_1_0 f{}][x f{}][call_1_2 g{}]
		tool: not called: the conversation went on (call_1_0) failed
		tool: ok (x)
		tool: not called: the conversation went on (call_1_2) failed
		user: u2
		`)
}

// SYN-04: a state of messages that is made of a list, to which nodes add.
func TestAStateOfMessages(t *testing.T) {
	start := agent.State{Messages: chat.Of(chat.Human("6*7?"))}
	c := call("1", "multiply", `{"a":6,"b":7}`)
	g := graph.New[agent.State]("g").
		AddNode("ai", func(_ context.Context, s *agent.State) error { s.Messages.Add(chat.AI("", c)); return nil }).
		AddNode("tool", func(_ context.Context, s *agent.State) error {
			s.Messages.Add(chat.ResultText(s.Messages.Last().ToolCalls()[0], "42"))
			return nil
		}).
		AddSequence(graph.Start, "ai", "tool").
		MustCompile()
	snap, err := g.Invoke(t.Context(), agent.Say[agent.State](start.Messages.Slice()...))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the conversation", transcript(snap.State.Messages.Slice()), "user: 6*7?\nassistant: [1 multiply{\"a\":6,\"b\":7}]\ntool: 42 (1)\n")
	if last := snap.State.Messages.Last(); last.Text() != "42" || len(last.ToolCalls()) != 0 {
		t.Errorf("the last message is %v", last)
	}
}

// A tool returns what the provider refuses: later turns go on, and the model is told.
func TestAToolsMediaThatTheProviderDoesNotTakeDoNotEndAThread(t *testing.T) {
	var bodies []string
	answers := []string{
		`{"choices":[{"message":{"tool_calls":[{"id":"c1","type":"function","function":{"name":"scan","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`,
		`{"choices":[{"message":{"content":"scanned"}}]}`, `{"choices":[{"message":{"content":"fine"}}]}`,
	}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(body))
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answers[len(bodies)-1])
	}))
	defer h.Close()
	scan := tool.New("scan", "Scans.", func(context.Context, struct{}) (tool.Result, error) {
		return tool.Result{Content: []chat.Part{chat.Image{Source: chat.Source{Data: []byte("12345"), MIME: "image/png"}}}}, nil
	})
	g := react(t, agent.ReAct[state]{Model: openai.New("m", openai.BaseURL(h.URL)), Tools: []tool.Tool{scan}}, memory())
	for _, text := range []string{"scan it", "and?"} {
		if _, err := g.Thread("t").Invoke(t.Context(), g.Input(ask(text))); err != nil {
			t.Fatal(err)
		}
	}
	if len(bodies) != 3 || !strings.Contains(bodies[2], "[Not shown: an image (image/png, 5 bytes)") {
		t.Errorf("sent %q", bodies)
	}
}

// A tool may read a file in Latin-1, and a model may cut a character in two.
func TestBytesThatAreNoTextDoNotFailTheAgent(t *testing.T) {
	read := tool.New("read", "r", func(context.Context, none) (string, error) { return "caf\xe9", nil })
	for want, direct := range map[string][]string{"o\ufffdk": nil, "caf\ufffd": {"read"}} {
		m := scripted.New(scripted.Call("read", "{}"), scripted.Text("o\xe9k"))
		a, err := agent.New(agent.ReAct[S]{Tools: []tool.Tool{read}, Direct: direct, Model: m}, mem())
		live, err := ok(t, a, err).Thread(th).Invoke(t.Context(), input("go"))
		if err != nil || live.State.LastResponse.Get() != want {
			t.Errorf("%v: answered %q", err, live.State.LastResponse.Get())
			continue
		}
		stored, err := a.Thread(th).State(t.Context())
		if err != nil || !reflect.DeepEqual(live.State.Messages.Slice(), stored.State.Messages.Slice()) {
			t.Errorf("%v: live\n%s\nstored\n%s", err, live.State.Messages, stored.State.Messages)
		}
	}
}
