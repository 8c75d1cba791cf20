package calls_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/agent/calls"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

type S = agent.State

func weather() tool.Tool {
	return tool.New("weather", "the weather of a city", func(context.Context, struct{ City string }) (string, error) { return "rain", nil })
}

func react(t *testing.T, m model.Model, opts ...graph.Option) *graph.Graph[S] {
	t.Helper()
	g, err := agent.New(agent.ReAct[S]{Model: m, Instruction: "Be brief.", Tools: []tool.Tool{weather()}}, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func say(t *testing.T, th *graph.Thread[S], text string, opts ...graph.RunOption) error {
	t.Helper()
	_, err := th.Invoke(t.Context(), graph.Requests[S]{}.Input(agent.Ask[S](text)), opts...)
	return err
}

// list returns the calls of a thread with their contents, the oldest first.
func list(t *testing.T, store checkpoint.Store, thread string) (all []*calls.Call) {
	t.Helper()
	for c, err := range calls.List(t.Context(), store, thread, calls.Query{}) {
		if err == nil {
			err = c.Load(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	slices.Reverse(all)
	return all
}

func said(c *calls.Call) string {
	var b strings.Builder
	for _, m := range c.Request.Messages {
		fmt.Fprintf(&b, "%s: %s", m.Role, m.Text())
		for _, call := range m.ToolCalls() {
			fmt.Fprintf(&b, "%s(%s)", call.Name, call.Args)
		}
		b.WriteString(" | ")
	}
	if c.Answer != nil {
		fmt.Fprintf(&b, "-> %s%d calls", c.Answer.Text(), len(c.Answer.ToolCalls()))
	}
	return b.String()
}

func TestEachCallOfAnAgentIsRecordedWithWhatWasSentAndAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := scripted.New(
			scripted.Call("weather", `{"City":"Bonn"}`).Usage(chat.Usage{Input: 20, Output: 5}).After(time.Second),
			scripted.Text("It rains.").Usage(chat.Usage{Input: 40, Output: 3, CacheRead: 20}).Every(time.Second).Split(func(s string) []string { return strings.SplitAfter(s, " ") }),
			scripted.Text("Yes."),
		)
		store := checkpoint.NewMemory()
		g := react(t, m, graph.WithCheckpointer(store))
		th := g.Thread("t")
		for _, text := range []string{"How is Bonn?", "Really?"} {
			if err := say(t, th, text); err != nil {
				t.Fatal(err)
			}
		}
		got := list(t, store, "t")
		want := []string{
			"system: Be brief. | user: How is Bonn? | -> 1 calls",
			"system: Be brief. | user: How is Bonn? | assistant: weather({\"City\":\"Bonn\"}) | tool: rain | -> It rains.0 calls",
			"system: Be brief. | user: How is Bonn? | assistant: weather({\"City\":\"Bonn\"}) | tool: rain | assistant: It rains. | user: Really? | -> Yes.0 calls",
		}
		for i, c := range got {
			if i >= len(want) || said(c) != want[i] {
				t.Errorf("call %d: %s", i, said(c))
				continue
			}
			if c.Node != agent.NodeModel || c.Checkpoint == "" || c.Attempt != 1 || len(c.Request.Tools) != 1 || c.Request.Tools[0].Name != "weather" || c.Error != "" {
				t.Errorf("call %d: %+v", i, c)
			}
			one, err := calls.Get(t.Context(), store, "t", c.ID)
			if err != nil || one == nil || said(one) != want[i] {
				t.Errorf("call %d by its ID: %v, %v", i, one, err)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%d calls, want %d", len(got), len(want))
		}
		if c := got[0]; c.Took < time.Second || c.Usage == nil || c.Usage.Input != 20 || c.Finish != chat.FinishToolCalls || c.Step != 1 {
			t.Errorf("the first: %+v", c)
		}
		if c := got[1]; c.FirstToken <= 0 || c.FirstToken >= c.Took || c.Usage.CacheRead != 20 || !c.Began.After(got[0].Began) || c.Began.Location() != time.UTC {
			t.Errorf("the second: %+v", c)
		}
		if c, err := calls.Get(t.Context(), store, "t", string(checkpoint.NewRunID())); c != nil || err != nil {
			t.Errorf("an unknown call: %v, %v", c, err)
		}
		if _, err := calls.Get(t.Context(), store, "t", "?"); err == nil {
			t.Error("an ID that is none is no error")
		}
	})
}

func TestAFailedCallIsRecordedBeforeAndAfterItsSuperstepIsCommitted(t *testing.T) {
	overloaded := &model.Error{Provider: "there", Kind: model.ErrorOverloaded, Message: "try later"}
	m := scripted.New(scripted.Error(overloaded), scripted.Error(errors.New("broken")), scripted.Text("ok"))
	store := checkpoint.NewMemory()
	g := react(t, m, graph.WithCheckpointer(store))
	th := g.Thread("t")
	if err := say(t, th, "hello"); err == nil {
		t.Fatal("no error")
	}
	if got := list(t, store, "t"); len(got) != 1 || got[0].Provider != "there" || got[0].ErrorKind != model.ErrorOverloaded || !strings.Contains(got[0].Error, "try later") || got[0].Answer != nil || got[0].Checkpoint != "" || got[0].Node != agent.NodeModel {
		t.Fatalf("while the superstep is open: %+v", got)
	}
	for range 2 {
		_, _ = th.Invoke(t.Context(), g.Continue())
	}
	var texts []string
	for _, c := range list(t, store, "t") {
		texts = append(texts, c.Error)
		if c.Checkpoint == "" {
			t.Error("no checkpoint has it")
		}
	}
	if want := []string{overloaded.Error(), "broken", ""}; !slices.Equal(texts, want) {
		t.Errorf("%q, want %q", texts, want)
	}
}

func TestACallThatWasGivenUpStays(t *testing.T) {
	m := scripted.New(scripted.Error(errors.New("broken")), scripted.Text("ok"))
	store := checkpoint.NewMemory()
	g := react(t, m, graph.WithCheckpointer(store))
	th := g.Thread("t")
	_ = say(t, th, "one")
	if _, err := th.Invoke(t.Context(), g.Restart(agent.Ask[S]("two"))); err != nil {
		t.Fatal(err)
	}
	if got := list(t, store, "t"); len(got) != 2 || got[0].Error != "broken" || got[1].Answer.Text() != "ok" {
		t.Errorf("%+v", got)
	}
}

func TestACallOfARunThatIsCancelledIsRecorded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m := model.Func(func(ctx context.Context, _ *model.Request) (*model.Response, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	})
	store := checkpoint.NewMemory()
	g := react(t, m, graph.WithCheckpointer(store))
	th := g.Thread("t")
	if _, err := th.Invoke(ctx, g.Input(agent.Ask[S]("one"))); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if got := list(t, store, "t"); len(got) != 1 || got[0].Error != context.Canceled.Error() {
		t.Errorf("%+v", got)
	}
}

// What an agent inside of an agent, a tool, and a node that uses model.Generate ask is recorded
// in the same way.
func TestCallsInsideOfSubgraphsToolsAndOwnNodesAreRecorded(t *testing.T) {
	answers := func(text string) model.Model {
		return model.Func(func(context.Context, *model.Request) (*model.Response, error) {
			return &model.Response{Message: chat.Assistant(text)}, nil
		})
	}
	type form struct{ Ok bool }
	asks := tool.New("judge", "judges", func(ctx context.Context, _ struct{}) (string, error) {
		_, _, err := model.Generate[form](ctx, answers(`{"Ok":true}`), &model.Request{Messages: []chat.Message{chat.User("judge")}})
		return "fine", err
	})
	poet, err := agent.New(agent.ReAct[S]{Name: "poet", Model: scripted.New(scripted.Call("judge", `{}`), scripted.Text("a poem")), Tools: []tool.Tool{asks}})
	if err != nil {
		t.Fatal(err)
	}
	b := graph.New[S]("outer")
	b.AddNode("own", func(ctx context.Context, _ *S) error {
		if _, err := agent.Generate(ctx, "q", answers("by hand"), &model.Request{Messages: []chat.Message{chat.User("one")}}); err != nil {
			return err
		}
		_, err := model.Ask(calls.Recording(ctx), answers("asked"), &model.Request{Messages: []chat.Message{chat.User("two")}})
		return err
	})
	agent.AddAgent(b, "poet", agent.Of(poet, "poet"), agent.SubAgent[S]{})
	b.AddEdge(graph.Start, "own")
	b.AddEdge("own", "poet")
	store := checkpoint.NewMemory()
	g, err := b.Compile(graph.WithCheckpointer(store))
	if err != nil {
		t.Fatal(err)
	}
	th := g.Thread("t")
	if err := say(t, th, "write"); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range list(t, store, "t") {
		inside := ""
		if c.Namespace != "" {
			inside = "inside "
		}
		got = append(got, fmt.Sprintf("%s%s@%d %s", inside, c.Node, c.Step, c.Answer.Text()))
	}
	want := []string{"own@1 by hand", "own@1 asked", "inside agent@1 ", `inside tools@2 {"Ok":true}`, "inside agent@3 a poem"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAHookChangesOrDropsACallBeforeItIsStored(t *testing.T) {
	store := checkpoint.NewMemory()
	m := func() model.Model { return scripted.New(scripted.Text("my card is 4711")) }
	for name, tt := range map[string]struct {
		opt  graph.Option
		want string
	}{
		"changed": {calls.Redact(func(_ context.Context, c *calls.Call) bool {
			for _, m := range append(c.Request.Messages, *c.Answer) {
				for i, p := range m.Parts {
					if text, ok := p.(chat.Text); ok {
						m.Parts[i] = chat.Text{Text: strings.ReplaceAll(text.Text, "4711", "****")}
					}
				}
			}
			return true
		}), "[system: Be brief. | user: **** | -> my card is ****0 calls]"},
		"dropped":    {calls.Redact(func(context.Context, *calls.Call) bool { return false }), "[]"},
		"turned off": {calls.Off(), "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			th := react(t, m(), graph.WithCheckpointer(store), tt.opt).Thread(name)
			if err := say(t, th, "4711"); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range list(t, store, name) {
				got = append(got, said(c))
			}
			if fmt.Sprint(got) != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
			st, err := th.State(t.Context())
			if err != nil || st.State.LastResponse.Get() != "my card is 4711" || st.State.Messages.Slice()[0].Text() != "4711" {
				t.Errorf("the conversation was changed: %v, %v", st, err)
			}
		})
	}
}

// A node that runs again and reads its answer from its records has not called the model again.
func TestARecordedAnswerIsNoCall(t *testing.T) {
	asked := 0
	m := model.Func(func(context.Context, *model.Request) (*model.Response, error) {
		asked++
		return &model.Response{Message: chat.Assistant("yes")}, nil
	})
	b := graph.New[S]("g")
	b.AddNode("n", func(ctx context.Context, _ *S) error {
		if _, err := agent.Generate(ctx, "q", m, &model.Request{Messages: []chat.Message{chat.User("sure?")}}); err != nil {
			return err
		}
		_, err := graph.Interrupt[bool](ctx, "ok", nil)
		return err
	})
	b.AddEdge(graph.Start, "n")
	store := checkpoint.NewMemory()
	g, err := b.Compile(graph.WithCheckpointer(store))
	if err != nil {
		t.Fatal(err)
	}
	th := g.Thread("t")
	if err := say(t, th, ""); err != nil {
		t.Fatal(err)
	}
	if got := list(t, store, "t"); len(got) != 1 || got[0].Checkpoint != "" {
		t.Fatalf("while it waits: %v", got)
	}
	if _, err := th.Invoke(t.Context(), g.Answer(true)); err != nil {
		t.Fatal(err)
	}
	if got := list(t, store, "t"); asked != 1 || len(got) != 1 || got[0].Checkpoint == "" {
		t.Errorf("asked %d times, %d calls", asked, len(got))
	}
}

func TestPrunedCallsAreGoneAndThoseLeftAreWhole(t *testing.T) {
	store := checkpoint.NewMemory()
	m := model.Func(func(_ context.Context, r *model.Request) (*model.Response, error) {
		return &model.Response{Message: chat.Assistant(fmt.Sprint("answer to ", r.Messages[len(r.Messages)-1].Text()))}, nil
	})
	th := react(t, m, graph.WithCheckpointer(store)).Thread("t")
	for i := range 10 {
		if err := say(t, th, fmt.Sprint("turn ", i)); err != nil {
			t.Fatal(err)
		}
	}
	before := list(t, store, "t")
	parts := func() int {
		rs, err := store.Results(t.Context(), checkpoint.Log{Thread: "t"}, "", checkpoint.PartsEpoch)
		if err != nil {
			t.Fatal(err)
		}
		return len(rs)
	}
	all := parts()
	if _, err := th.Prune(t.Context(), graph.Keep{Last: 4}); err != nil {
		t.Fatal(err)
	}
	got := list(t, store, "t")
	if len(got) != 2 || said(got[1]) != said(before[9]) || said(got[0]) != said(before[8]) {
		t.Fatalf("%d calls are left", len(got))
	}
	if err := say(t, th, "more"); err != nil {
		t.Fatal(err)
	}
	if got := list(t, store, "t"); len(got) != 3 || len(got[2].Request.Messages) != 22 {
		t.Errorf("%d calls after another turn", len(got))
	}
	// An edit that begins the conversation anew leaves the parts of what was before to be swept.
	if _, err := th.Edit(t.Context(), func(s *S) error { s.Messages.Overwrite(); return nil }); err != nil {
		t.Fatal(err)
	}
	if err := say(t, th, "afresh"); err != nil {
		t.Fatal(err)
	}
	if _, err := th.Prune(t.Context(), graph.Keep{Last: 1, DropForks: true}); err != nil {
		t.Fatal(err)
	}
	if got := list(t, store, "t"); len(got) != 1 || said(got[0]) != "system: Be brief. | user: afresh | -> answer to afresh0 calls" {
		t.Errorf("%v", got)
	}
	if left := parts(); left >= all || left > 4 {
		t.Errorf("%d of %d parts are left", left, all)
	}
}
