//lint:file-ignore SA1019 servers ask for samples and roots for years to come

package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/mcp"
)

// asker is a server whose tools ask.
type asker struct {
	*mcp.Server
	effects atomic.Int32 // before a question
}

var seats = json.RawMessage(`{"type":"object","required":["seats"],"properties":{"seats":{"type":"integer","minimum":1},"row":{"type":"string","default":"any"}}}`)

func newAsker(t *testing.T) *asker {
	s, err := mcp.NewServer("asker", "1")
	if err != nil {
		t.Fatal(err)
	}
	a := &asker{Server: closing(t, s)}
	add := func(name string, h sdk.ToolHandler) {
		a.SDK().AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, h)
	}
	says := func(format string, args ...any) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf(format, args...)}}}, nil
	}
	// It says what it needs, in the words of the new protocol; the SDK asks clients of the old one itself.
	add("book", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if r.Params.RequestState == "" {
			a.effects.Add(1)
			q := &sdk.ElicitParams{Message: "How many for " + string(r.Params.Arguments) + "?", RequestedSchema: seats}
			return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"q": q}, RequestState: "held"}, nil
		}
		res := r.Params.InputResponses["q"].(*sdk.ElicitResult)
		return says("%s: %s %v", r.Params.Arguments, res.Action, res.Content)
	})
	// It asks while it works, one question after the other.
	add("interview", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		a.effects.Add(1)
		var said []string
		for _, q := range []string{"name", "name", "city"} { // one twice
			res, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: q, RequestedSchema: json.RawMessage(`{"type":"object","properties":{"v":{"type":"string"}}}`)})
			if err != nil {
				return nil, err
			}
			said = append(said, fmt.Sprint(res.Action, " ", res.Content["v"]))
		}
		return says("%s", strings.Join(said, ", "))
	})
	// It asks the model, then the user.
	add("advise", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		res, err := r.Session.CreateMessage(ctx, &sdk.CreateMessageParams{MaxTokens: 10, Messages: []*sdk.SamplingMessage{{Role: "user", Content: &sdk.TextContent{Text: "advice?"}}}})
		if err != nil {
			return nil, err
		}
		advice := res.Content.(*sdk.TextContent).Text
		ok, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: advice})
		if err != nil {
			return nil, err
		}
		return says("%s %s", advice, ok.Action)
	})
	gives := func(name string, requests sdk.InputRequestMap) {
		add(name, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			if r.Params.RequestState == "" || name == "never_done" || name == "busy" {
				return &sdk.CallToolResult{InputRequests: requests, RequestState: "x"}, nil
			}
			data, err := json.Marshal(r.Params.InputResponses)
			if err != nil {
				return nil, err
			}
			return says("%s", data)
		})
	}
	gives("liar", sdk.InputRequestMap{"q": &sdk.ElicitParams{Message: "?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"object"}}}`)}})
	gives("ring", sdk.InputRequestMap{"q": &sdk.ElicitParams{Message: "?", RequestedSchema: json.RawMessage(`{"type":"object","allOf":[{"$ref":"#"}]}`)}}) // a validator's stack would end the process
	gives("anchor", sdk.InputRequestMap{"q": &sdk.ElicitParams{Message: "?", RequestedSchema: json.RawMessage(`{"type":"object","$anchor":"x","allOf":[{"$ref":"#x"}]}`)}})
	gives("no_page", sdk.InputRequestMap{"q": &sdk.ElicitParams{Mode: "url", Message: "?"}})
	gives("never_done", sdk.InputRequestMap{"q": &sdk.ElicitParams{Message: "again?", RequestedSchema: seats}})
	gives("busy", sdk.InputRequestMap{})
	gives("roots", sdk.InputRequestMap{"r": &sdk.ListRootsParams{}})
	gives("sample", sdk.InputRequestMap{"s": &sdk.CreateMessageParams{MaxTokens: 100, SystemPrompt: "Be brief.", Messages: []*sdk.SamplingMessage{
		{Role: "user", Content: &sdk.TextContent{Text: "capital of France?"}},
	}}})
	add("login", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if a.effects.Add(1) == 1 {
			return nil, sdk.URLElicitationRequiredError([]*sdk.ElicitParams{{Mode: "url", Message: "log in", URL: "https://example.com/login", ElicitationID: "1"}})
		}
		return says("you are in")
	})
	return a
}

type asking struct{ Said string }

// calls returns a graph whose node calls a tool of a server, to which it connects anew.
func calls(t *testing.T, store checkpoint.Store, cfg mcp.Config, name, args string) *graph.Graph[asking] {
	call := get(t, connect(t, cfg), name)
	b := graph.New[asking]("calls")
	b.AddNode("call", func(ctx context.Context, s *asking) error {
		r, err := call.Call(ctx, json.RawMessage(args))
		s.Said = r.Text()
		return err
	})
	b.AddEdge(graph.Start, "call")
	return b.MustCompile(graph.WithCheckpointer(store))
}

func start(*asking) error { return nil }

func TestAQuestionOfAServerWaitsForAPersonInAnotherProcess(t *testing.T) {
	for protocol, effects := range map[string]int32{"": 1, old: 2} { // the old one begins again
		t.Run("protocol "+protocol, func(t *testing.T) {
			server, store := newAsker(t), checkpoint.NewMemory()
			cfg := mcp.Config{Transport: server.Local(), Protocol: protocol, Prefix: "x_", Elicit: mcp.Ask}
			th := calls(t, store, cfg, "x_book", `{"a":1}`).Thread("t")
			snap, err := th.Invoke(t.Context(), th.Input(start))
			if err != nil || len(snap.Interrupts) != 1 {
				t.Fatalf("%+v, %v", snap, err)
			}
			var e mcp.Elicitation
			if q := snap.Interrupts[0]; q.Key != mcp.ElicitationKey || json.Unmarshal(q.Raw, &e) != nil ||
				e.During != `tool "x_book"` || e.Message != `How many for {"a":1}?` || !strings.Contains(string(e.Schema), "minimum") {
				t.Errorf("the question is %+v", snap.Interrupts[0])
			}
			for _, wrong := range []string{`{"action":"accept"}`, `{"action":"accept","content":{"seats":0}}`, `{"action":"maybe"}`} {
				_, err := th.Invoke(t.Context(), th.Answer(json.RawMessage(wrong)))
				if _, ok := errors.AsType[*graph.AnswerError](err); !ok {
					t.Errorf("%s: %v", wrong, err)
				}
			}
			th = calls(t, store, cfg, "x_book", `{"a":1}`).Thread("t")
			snap, err = th.Invoke(t.Context(), th.Answer(json.RawMessage(`{"action":"accept","content":{"seats":2}}`)))
			if want := `{"a":1}: accept map[row:any seats:2]`; err != nil || snap.State.Said != want {
				t.Errorf("got %q, %v", snap.State.Said, err)
			}
			if got := server.effects.Load(); got != effects {
				t.Errorf("%d effects before the question, want %d", got, effects)
			}
		})
	}
}

func TestAnswersThatAreThereAreGivenAtOnce(t *testing.T) {
	server := newAsker(t)
	th := calls(t, checkpoint.NewMemory(), mcp.Config{Transport: server.Local(), Protocol: old, Elicit: mcp.Ask}, "interview", `{}`).Thread("t")
	snap, err := th.Invoke(t.Context(), th.Input(start))
	for i, answer := range []string{`{"action":"accept","content":{"v":"Ada"}}`, `{"action":"decline"}`, `{"action":"accept","content":{"v":"Bern"}}`} {
		if err != nil || len(snap.Interrupts) != 1 || int(server.effects.Load()) != i+1 {
			t.Fatalf("answer %d: %+v, %v, %d calls", i, snap.Interrupts, err, server.effects.Load())
		}
		snap, err = th.Invoke(t.Context(), th.Answer(json.RawMessage(answer)))
	}
	if want := "accept Ada, decline <nil>, accept Bern"; err != nil || snap.State.Said != want {
		t.Errorf("got %q, %v", snap.State.Said, err)
	}
}

func TestQuestionsOfCallsSideBySideReachTheirCalls(t *testing.T) {
	for _, protocol := range []string{"", old} {
		t.Run("protocol "+protocol, func(t *testing.T) {
			c := connect(t, mcp.Config{Transport: newAsker(t).Local(), Protocol: protocol, Elicit: mcp.Ask})
			call := func(id, args string) chat.ToolCall { return chat.ToolCall{ID: id, Name: "book", Args: args} }
			a, err := agent.New(agent.ReAct[agent.State]{
				Model:    scripted.New(scripted.Message(chat.Assistant("", call("1", `{"n":1}`), call("2", `{"n":2}`), call("3", `{"n":2}`))), scripted.Text("done")),
				Tools:    []tool.Tool{get(t, c, "book")},
				Parallel: 3,
			}, graph.WithCheckpointer(checkpoint.NewMemory()))
			if err != nil {
				t.Fatal(err)
			}
			th := a.Thread("t")
			snap, err := th.Invoke(t.Context(), th.Input(agent.Ask[agent.State]("go")))
			n := 0
			for ; err == nil && len(snap.Interrupts) > 0; n++ { // while one waits, calls that haven't begun wait, too
				answers := graph.Answers{}
				for _, q := range snap.Interrupts {
					seats := 1
					if strings.Contains(string(q.Raw), `2`) {
						seats = 2
					}
					answers[q.ID] = json.RawMessage(fmt.Sprintf(`{"action":"accept","content":{"seats":%d}}`, seats))
				}
				snap, err = th.Invoke(t.Context(), th.Answer(answers))
			}
			if err != nil || n == 0 {
				t.Fatal(err)
			}
			var got []string
			for m := range snap.State.Messages.All() {
				if m.Role == chat.RoleTool {
					got = append(got, m.Text())
				}
			}
			two := `{"n":2}: accept map[row:any seats:2]`
			if !slices.Equal(got, []string{`{"n":1}: accept map[row:any seats:1]`, two, two}) || snap.State.LastResponse.Get() != "done" {
				t.Errorf("%q, %q", got, snap.State.LastResponse.Get())
			}
		})
	}
}

func TestACallBesideAnOpenQuestionWaits(t *testing.T) {
	for _, protocol := range []string{"", old} {
		book := get(t, connect(t, mcp.Config{Transport: newAsker(t).Local(), Protocol: protocol, Elicit: mcp.Ask}), "book")
		var errs [2]error
		b := graph.New[asking]("two")
		b.AddNode("call", func(ctx context.Context, s *asking) error {
			for i := range errs {
				var r tool.Result
				r, errs[i] = book.Call(ctx, json.RawMessage(fmt.Sprintf(`{"n":%d}`, i)))
				s.Said += r.Text() + "; "
			}
			return errors.Join(errs[:]...)
		})
		b.AddEdge(graph.Start, "call")
		th := b.MustCompile(graph.WithCheckpointer(checkpoint.NewMemory())).Thread("t")
		snap, err := th.Invoke(t.Context(), th.Input(start))
		for n := 0; len(snap.Interrupts) > 0 && err == nil && n < 3; n++ {
			if n == 0 && (!errors.Is(errs[0], graph.ErrInterrupted) || !errors.Is(errs[1], graph.ErrInterrupted)) {
				t.Errorf("errors are %v", errs)
			}
			for _, err := range errs {
				if _, lost := errors.AsType[*mcp.ConnectionError](err); lost {
					t.Errorf("it isn't lost: %v", err)
				}
			}
			answers := graph.Answers{}
			for _, q := range snap.Interrupts {
				answers[q.ID] = json.RawMessage(`{"action":"accept","content":{"seats":1}}`)
			}
			snap, err = th.Invoke(t.Context(), th.Answer(answers))
		}
		if want := `{"n":0}: accept map[row:any seats:1]; {"n":1}: accept map[row:any seats:1]; `; err != nil || snap.State.Said != want {
			t.Errorf("protocol %q: %q, %v", protocol, snap.State.Said, err)
		}
	}
}

func TestAServerThatMayAskNobodyIsToldSo(t *testing.T) {
	for _, protocol := range []string{"", old} {
		c := connect(t, mcp.Config{Transport: newAsker(t).Local(), Protocol: protocol})
		for _, name := range []string{"book", "sample"} {
			_, err := get(t, c, name).Call(t.Context(), nil)
			if err == nil || protocol == "" && !strings.Contains(err.Error(), "set Config.") {
				t.Errorf("protocol %q, %s: %v", protocol, name, err)
			}
		}
	}
}

func TestWhatAServerMayNotAskEndsItsCallAndNoOther(t *testing.T) {
	yes := func(_ context.Context, e mcp.Elicitation) (mcp.ElicitationAnswer, error) {
		return mcp.ElicitationAnswer{Action: mcp.Accept, Content: json.RawMessage(`{"seats":1}`)}, nil
	}
	c := connect(t, mcp.Config{Transport: newAsker(t).Local(), Elicit: yes})
	for name, want := range map[string]string{
		"liar":       `during tool "liar": it asks a person for a form that is wrong: its field "a" is nested`,
		"ring":       `a form that is wrong: it leads to itself by references`,
		"anchor":     `a form that is wrong: $ref "#x": only references within the schema`,
		"no_page":    `gives no URL or a form as well: report it to who made it`,
		"never_done": `isn't done: `,
		"busy":       `it has answered 3 times that it needs more, and isn't done: call it later`,
	} {
		_, err := get(t, c, name).Call(t.Context(), nil)
		if _, ok := errors.AsType[*mcp.InputError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := text(t, get(t, c, "book"), `{}`); got != "{}: accept map[row:any seats:1]" {
		t.Errorf("afterwards: %q", got)
	}
	for what, elicit := range map[string]func(context.Context, mcp.Elicitation) (mcp.ElicitationAnswer, error){
		"isn't an action": func(context.Context, mcp.Elicitation) (mcp.ElicitationAnswer, error) {
			return mcp.ElicitationAnswer{Action: "maybe"}, nil
		},
		"doesn't fit": func(context.Context, mcp.Elicitation) (mcp.ElicitationAnswer, error) {
			return mcp.ElicitationAnswer{Action: mcp.Accept}, nil
		},
		"fails": func(context.Context, mcp.Elicitation) (mcp.ElicitationAnswer, error) {
			return mcp.ElicitationAnswer{}, errors.New("nobody is here")
		},
		"asks outside of a node": mcp.Ask,
		"panics":                 func(context.Context, mcp.Elicitation) (mcp.ElicitationAnswer, error) { panic("oh") },
	} {
		protocols := []string{"", old}
		if what == "panics" {
			protocols = protocols[1:] // in the new one it is the caller's goroutine
		}
		for _, protocol := range protocols {
			c := connect(t, mcp.Config{Transport: newAsker(t).Local(), Protocol: protocol, Elicit: elicit})
			if _, err := get(t, c, "book").Call(t.Context(), nil); err == nil || !strings.Contains(err.Error(), `during tool "book"`) {
				t.Errorf("%s, protocol %q: %v", what, protocol, err)
			}
		}
	}
}

func TestACallWaitsForAPageToBeDone(t *testing.T) {
	for _, protocol := range []string{"", old} {
		server := newAsker(t)
		th := calls(t, checkpoint.NewMemory(), mcp.Config{Transport: server.Local(), Protocol: protocol, Elicit: mcp.Ask}, "login", `{}`).Thread("t")
		snap, err := th.Invoke(t.Context(), th.Input(start))
		if err != nil || len(snap.Interrupts) != 1 || !strings.Contains(string(snap.Interrupts[0].Raw), `"url":"https://example.com/login"`) {
			t.Fatalf("%+v, %v", snap, err)
		}
		snap, err = th.Invoke(t.Context(), th.Answer(mcp.ElicitationAnswer{Action: mcp.Accept}))
		if err != nil || snap.State.Said != "you are in" {
			t.Errorf("%q, %v", snap.State.Said, err)
		}
	}
	no := func(context.Context, mcp.Elicitation) (mcp.ElicitationAnswer, error) {
		return mcp.ElicitationAnswer{Action: mcp.Decline}, nil
	}
	_, err := get(t, connect(t, mcp.Config{Transport: newAsker(t).Local(), Elicit: no}), "login").Call(t.Context(), nil)
	if e, ok := errors.AsType[*tool.Error](err); !ok || e.Tool != "login" {
		t.Errorf("error is %v", err)
	}
}

func TestAServerAsksTheModelWhereItMay(t *testing.T) {
	for _, protocol := range []string{"", old} {
		t.Run("protocol "+protocol, func(t *testing.T) {
			var asked atomic.Int32
			var req *model.Request
			m := model.Func(func(_ context.Context, r *model.Request) (*model.Response, error) {
				asked.Add(1)
				req = r
				a := chat.Assistant("Paris")
				a.Model, a.Finish = "m-1", chat.FinishLength
				return &model.Response{Message: a}, nil
			})
			cfg := mcp.Config{Transport: newAsker(t).Local(), Protocol: protocol, Sampling: m}
			got := text(t, get(t, connect(t, cfg), "sample"), `{}`)
			if !strings.Contains(got, `"text":"Paris"`) || !strings.Contains(got, `"model":"m-1"`) || !strings.Contains(got, `"stopReason":"maxTokens"`) {
				t.Errorf("the server got %s", got)
			}
			if req.MaxTokens != 100 || len(req.Messages) != 2 || req.Messages[0].Role != chat.RoleSystem || req.Messages[1].Text() != "capital of France?" {
				t.Errorf("the model was asked %+v", req)
			}
			asked.Store(0)
			cfg.ApproveSampling = mcp.ApproveSampling
			g := calls(t, checkpoint.NewMemory(), cfg, "sample", `{}`)
			for id, ok := range map[string]bool{"yes": true, "no": false} {
				th := g.Thread(id)
				snap, err := th.Invoke(t.Context(), th.Input(start))
				if err != nil || len(snap.Interrupts) != 1 || snap.Interrupts[0].Key != mcp.SamplingKey || !strings.Contains(string(snap.Interrupts[0].Raw), "capital of France?") {
					t.Fatalf("%+v, %v", snap, err)
				}
				snap, err = th.Invoke(t.Context(), th.Answer(ok))
				if e, refused := errors.AsType[*tool.Error](err); ok && (err != nil || !strings.Contains(snap.State.Said, "Paris")) || !ok && (!refused || e.Tool != "sample") {
					t.Errorf("answer %v: %q, %v", ok, snap.State.Said, err)
				}
			}
			if asked.Load() != 1 {
				t.Errorf("the model was asked %d times", asked.Load())
			}
		})
	}
}

func TestWhatAServerAsksTheModelIsTheThreadsUsage(t *testing.T) {
	for _, protocol := range []string{"", old} {
		m := scripted.New(scripted.Text("Paris").Usage(chat.Usage{Input: 100, Output: 1}))
		c := connect(t, mcp.Config{Transport: newAsker(t).Local(), Protocol: protocol, Sampling: m})
		a, err := agent.New(agent.ReAct[agent.State]{
			Model: scripted.New(scripted.Call("sample", `{}`), scripted.Text("It is Paris.").Usage(chat.Usage{Input: 7, Output: 1})), Tools: []tool.Tool{get(t, c, "sample")},
		})
		if err != nil {
			t.Fatal(err)
		}
		snap, err := a.Invoke(t.Context(), agent.Ask[agent.State]("What is it?"))
		if err != nil {
			t.Fatal(err)
		}
		used := snap.State.Usage.Get()
		if asked := used.Under("tools/sample"); asked.Calls() != 1 || asked.Total().Input != 100 || used.Total().Input != 107 {
			t.Errorf("protocol %q: %v", protocol, used)
		}
	}
}

func TestAnAnswerOfTheModelIsRecorded(t *testing.T) {
	asked := 0
	m := model.Func(func(context.Context, *model.Request) (*model.Response, error) {
		asked++
		return &model.Response{Message: chat.Assistant(fmt.Sprint("advice no. ", asked))}, nil
	})
	store, cfg := checkpoint.NewMemory(), mcp.Config{Transport: newAsker(t).Local(), Protocol: old, Sampling: m, Elicit: mcp.Ask}
	th := calls(t, store, cfg, "advise", `{}`).Thread("t")
	snap, err := th.Invoke(t.Context(), th.Input(start))
	if err != nil || len(snap.Interrupts) != 1 {
		t.Fatalf("%+v, %v", snap, err)
	}
	th = calls(t, store, cfg, "advise", `{}`).Thread("t")
	snap, err = th.Invoke(t.Context(), th.Answer(mcp.ElicitationAnswer{Action: mcp.Accept}))
	if err != nil || snap.State.Said != "advice no. 1 accept" || asked != 1 {
		t.Errorf("%q after %d questions, %v", snap.State.Said, asked, err)
	}
}

func TestRootsAreToldToTheServer(t *testing.T) {
	for _, protocol := range []string{"", old} {
		cfg := mcp.Config{Transport: newAsker(t).Local(), Protocol: protocol, Roots: []mcp.Root{{URI: "file:///work", Name: "work"}}}
		if got := text(t, get(t, connect(t, cfg), "roots"), `{}`); !strings.Contains(got, `{"name":"work","uri":"file:///work"}`) {
			t.Errorf("the server got %s", got)
		}
	}
	_, err := mcp.Connect(t.Context(), mcp.Config{Transport: newAsker(t).Local(), Roots: []mcp.Root{{URI: "/work"}}})
	if err == nil || !strings.Contains(err.Error(), "file:///") {
		t.Errorf("error is %v", err)
	}
}

// A connection that breaks while a person is asked loses the call, and nothing else.
func TestAServerMayDieWhileAQuestionWaits(t *testing.T) {
	s := newAsker(t)
	th := calls(t, checkpoint.NewMemory(), mcp.Config{Transport: s.Local(), Protocol: old, Elicit: mcp.Ask}, "book", `{}`).Thread("t")
	if _, err := th.Invoke(t.Context(), th.Input(start)); err != nil {
		t.Fatal(err)
	}
	for session := range s.SDK().Sessions() {
		if err := session.Close(); err != nil {
			t.Error(err)
		}
	}
	snap, err := th.Invoke(t.Context(), th.Answer(json.RawMessage(`{"action":"decline"}`)))
	if _, lost := errors.AsType[*mcp.ConnectionError](err); lost { // it may find out by this call
		snap, err = th.Invoke(t.Context(), th.Continue())
	}
	if err != nil || snap.State.Said != "{}: decline map[]" {
		t.Errorf("%q, %v", snap.State.Said, err)
	}
}

// Whatever a server does, its call ends with an error that says so, and the thread goes on.
func TestAnAgentOutlivesABadServer(t *testing.T) {
	always := func(context.Context, mcp.Elicitation) (mcp.ElicitationAnswer, error) {
		return mcp.ElicitationAnswer{Action: mcp.Accept, Content: json.RawMessage(`{"v":"x","seats":1}`)}, nil
	}
	flood := func(t *testing.T) mcp.Transport { // of questions, while it works
		s, err := mcp.NewServer("flood", "1")
		if err != nil {
			t.Fatal(err)
		}
		s.SDK().AddTool(&sdk.Tool{Name: "bad", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			for ctx.Err() == nil {
				if _, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: "and?"}); err != nil {
					return nil, err
				}
			}
			return nil, ctx.Err()
		})
		return closing(t, s).Local()
	}
	for name, k := range map[string]struct {
		transport func(t *testing.T) mcp.Transport
		protocol  string
		tool      string
		want      string
	}{
		"it lies about a form":       {func(t *testing.T) mcp.Transport { return newAsker(t).Local() }, "", "liar", "asks a person for a form that is wrong"},
		"it floods with questions":   {flood, old, "bad", "has asked 100 times, and isn't done"},
		"it is never done":           {func(t *testing.T) mcp.Transport { return newAsker(t).Local() }, "", "never_done", "isn't done"},
		"it hangs":                   {func(*testing.T) mcp.Transport { return command("ours") }, "", "slow", `100ms`},
		"it hangs, with the old one": {func(*testing.T) mcp.Transport { return command("ours") }, old, "slow", `100ms`},
		"it dies":                    {func(*testing.T) mcp.Transport { return command("ours") }, "", "die", `lost while tool "die" ran`},
		"it dies, with the old one":  {func(*testing.T) mcp.Transport { return command("ours") }, old, "die", `lost while tool "die" ran`},
	} {
		t.Run(name, func(t *testing.T) {
			c := connect(t, mcp.Config{Transport: k.transport(t), Protocol: k.protocol, Elicit: always})
			bad := get(t, c, k.tool)
			if k.tool == "slow" {
				bad = tool.WithTimeout(bad, 100*time.Millisecond)
			}
			a, err := agent.New(agent.ReAct[agent.State]{
				Model: scripted.New(scripted.Call(k.tool, `{}`), scripted.Text("it failed"), scripted.Text("as ever")), Tools: []tool.Tool{bad}, OnError: agent.TellModelAll,
			}, graph.WithCheckpointer(checkpoint.NewMemory()))
			if err != nil {
				t.Fatal(err)
			}
			th := a.Thread("t")
			snap, err := th.Invoke(t.Context(), th.Input(agent.Ask[agent.State]("go")))
			if err != nil {
				t.Fatal(err)
			}
			told := ""
			for m := range snap.State.Messages.All() {
				if m.Role == chat.RoleTool {
					told = m.Text()
				}
			}
			if !strings.Contains(told, k.want) || snap.State.LastResponse.Get() != "it failed" {
				t.Errorf("the model is told %q, and says %q", told, snap.State.LastResponse.Get())
			}
			if snap, err = th.Invoke(t.Context(), th.Input(agent.Ask[agent.State]("and now?"))); err != nil || snap.State.LastResponse.Get() != "as ever" {
				t.Errorf("the thread goes on: %q, %v", snap.State.LastResponse.Get(), err)
			}
			if _, err := c.Tools(t.Context()); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}
