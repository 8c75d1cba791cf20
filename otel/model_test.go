package otel_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/otel"
	"github.com/superstep-dev/superstep/tool"
)

type place struct {
	City string `json:"city"`
}

func weather() tool.Tool {
	return tool.New("weather", "Tells the weather.", func(_ context.Context, in place) (string, error) {
		if in.City == "" {
			return "", errors.New("no city")
		}
		return "snow in " + in.City, nil
	})
}

var info = otel.ModelInfo{Provider: "openai", Name: "gpt-5-mini"}

// contents are the attributes that carry what people and models say.
var contents = []string{"gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.definitions", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"}

// ask runs an agent that calls a tool and answers.
func ask(t *testing.T, r *recorder) {
	t.Helper()
	answer := chat.Assistant("Yes, it snows.")
	answer.Model = "gpt-5-mini-2025-08-07"
	m := scripted.New(
		scripted.Calls(chat.ToolCall{ID: "call-1", Name: "weather", Args: `{"city":"Bern"}`}).Usage(chat.Usage{Input: 20, Output: 5}),
		scripted.Message(answer).Usage(chat.Usage{Input: 40, Output: 6, CacheRead: 16, Reasoning: 2}).After(3*time.Second))
	a, err := agent.New(agent.ReAct[agent.State]{
		Name: "helper", Model: r.Model(m, info), Tools: r.Tools(weather()), Instruction: "Be brief.", Config: model.Config{MaxTokens: 100},
	}, r.Observe(), graph.WithCheckpointer(checkpoint.NewMemory()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Thread("t-1").Invoke(bg, a.Input(agent.Ask[agent.State]("Do I need a coat?"))); err != nil {
		t.Fatal(err)
	}
}

func TestAnAgentsModelAndToolsStandUnderItsNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := record(t, false)
		ask(t, r)
		for _, s := range r.spans.GetSpans() {
			if text := describe(s, contents); strings.Contains(text, "=") && !strings.Contains(text, "!") {
				t.Errorf("content was not asked for: %s", text)
			}
		}
		wantTree(t, r.tree("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.request.stream", "gen_ai.request.max_tokens",
			"gen_ai.response.model", "gen_ai.response.finish_reasons", "gen_ai.response.time_to_first_chunk", "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens",
			"gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.reasoning.output_tokens", "gen_ai.tool.name", "gen_ai.tool.call.id", "gen_ai.conversation.id"), `
		invoke_workflow helper name=invoke_workflow id=t-1
		  superstep
		    node agent
		      chat gpt-5-mini name=chat name=openai model=gpt-5-mini stream=true max_tokens=100 finish_reasons=["tool_calls"] time_to_first_chunk=1e-09 input_tokens=20 output_tokens=5 id=t-1
		  superstep
		    node tools
		      execute_tool weather name=execute_tool name=weather id=call-1 id=t-1
		  superstep
		    node agent
		      chat gpt-5-mini name=chat name=openai model=gpt-5-mini stream=true max_tokens=100 model=gpt-5-mini-2025-08-07 finish_reasons=["stop"] time_to_first_chunk=3 input_tokens=40 output_tokens=6 input_tokens=16 output_tokens=2 id=t-1`)
		wantTree(t, r.metrics(t), `
		gen_ai.client.operation.duration [name=chat name=openai model=gpt-5-mini model=gpt-5-mini-2025-08-07 outcome=success] 1 times
		gen_ai.client.operation.duration [name=chat name=openai model=gpt-5-mini outcome=success] 1 times
		gen_ai.client.operation.duration [name=execute_tool name=weather outcome=success] 1 times
		gen_ai.client.operation.time_to_first_chunk [name=chat name=openai model=gpt-5-mini] 2 times
		gen_ai.client.token.usage [name=chat name=openai model=gpt-5-mini model=gpt-5-mini-2025-08-07 type=input] 1 times, sum 40
		gen_ai.client.token.usage [name=chat name=openai model=gpt-5-mini model=gpt-5-mini-2025-08-07 type=output] 1 times, sum 6
		gen_ai.client.token.usage [name=chat name=openai model=gpt-5-mini type=input] 1 times, sum 20
		gen_ai.client.token.usage [name=chat name=openai model=gpt-5-mini type=output] 1 times, sum 5
		superstep.node.duration [graph=helper node=agent outcome=success] 2 times
		superstep.node.duration [graph=helper node=tools outcome=success] 1 times
		superstep.run.active [graph=helper] 0
		superstep.run.duration [graph=helper outcome=success] 1 times`)
	})
}

func TestContentIsReportedWhenItIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := record(t, true)
		ask(t, r)
		got := map[string]string{}
		for _, s := range r.spans.GetSpans() {
			for _, a := range s.Attributes {
				got[string(a.Key)] = a.Value.AsString() // the last one's
			}
		}
		for _, k := range contents[:2] {
			var list []struct {
				Role  string
				Parts []map[string]any
			}
			if err := json.Unmarshal([]byte(got[k]), &list); err != nil || len(list) == 0 || list[0].Role == "" || len(list[0].Parts) == 0 {
				t.Errorf("%s: %q: %v", k, got[k], err)
			}
		}
		for k, want := range map[string]string{
			"gen_ai.input.messages":      `{"role":"assistant","parts":[{"type":"tool_call","id":"call-1","name":"weather","arguments":{"city":"Bern"}}],"finish_reason":"tool_calls"},{"role":"tool","name":"weather","parts":[{"type":"tool_call_response","id":"call-1","response":"snow in Bern"}]}]`,
			"gen_ai.output.messages":     `[{"role":"assistant","parts":[{"type":"text","content":"Yes, it snows."}],"finish_reason":"stop"}]`,
			"gen_ai.tool.definitions":    `[{"type":"function","name":"weather","description":"Tells the weather.","parameters":{`,
			"gen_ai.tool.call.arguments": `{"city":"Bern"}`,
			"gen_ai.tool.call.result":    `snow in Bern`,
		} {
			if !strings.Contains(got[k], want) {
				t.Errorf("%s is\n%s\nwhich lacks\n%s", k, got[k], want)
			}
		}
	})
}

func TestHowACallOfAModelMayEnd(t *testing.T) {
	overloaded := &model.Error{Provider: "openai", Kind: model.ErrorRateLimit, Message: "slow down"}
	canceled, cancel := context.WithCancel(bg)
	cancel()
	for _, c := range []struct {
		name string
		m    model.Model
		ctx  context.Context
		want string // Generate and Stream
	}{
		{"an answer", scripted.New(scripted.Text("a b").Repeat()), bg, `
		chat m outcome=success chunks=3
		chat m outcome=success`},
		{"an error of the provider", scripted.New(scripted.Error(overloaded).Repeat()), bg, `
		chat m type=rate_limit outcome=failed chunks=0 ERROR openai: rate limit: slow down
		chat m type=rate_limit outcome=failed ERROR openai: rate limit: slow down`},
		{"a stream that breaks", scripted.New(scripted.Text("a b").Break(1, overloaded).Repeat()), bg, `
		chat m type=rate_limit outcome=failed chunks=1 ERROR openai: rate limit: slow down
		chat m type=rate_limit outcome=failed ERROR openai: rate limit: slow down`},
		{"a context that ended", scripted.New(scripted.Text("a").Repeat()), canceled, `
		chat m outcome=cancelled chunks=0
		chat m outcome=cancelled`},
		{"a panic", model.Func(func(context.Context, *model.Request) (*model.Response, error) { panic("boom") }), bg, `
		chat m type=panic outcome=failed chunks=0 ERROR panic
		chat m type=panic outcome=failed ERROR panic`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := record(t, false)
			m := r.Model(c.m, otel.ModelInfo{Name: "m"})
			req := &model.Request{Messages: []chat.Message{chat.User("hi")}}
			safely(func() { _, _ = model.Collect(m.Stream(c.ctx, req)) })
			safely(func() { _, _ = m.Generate(c.ctx, req) })
			wantTree(t, r.tree("error.type", "superstep.outcome", "superstep.chunks"), c.want)
		})
	}
}

func safely(f func()) {
	defer func() { _ = recover() }()
	f()
}

func TestAStreamThatNobodyReadsOnIsNoFailure(t *testing.T) {
	r := record(t, false)
	for range r.Model(scripted.New(scripted.Text("a b c")), info).Stream(bg, &model.Request{Config: model.Config{Model: "other"}}) {
		break
	}
	wantTree(t, r.tree("superstep.outcome"), `chat other outcome=abandoned`)
}

func TestTokensOfACachedAnswerAreNotCounted(t *testing.T) {
	r := record(t, false)
	m := r.Model(model.Func(func(context.Context, *model.Request) (*model.Response, error) {
		return &model.Response{Message: chat.Message{Usage: &chat.Usage{Input: 1}}, Cached: true}, nil
	}), info)
	if _, err := m.Generate(bg, &model.Request{}); err != nil {
		t.Fatal(err)
	}
	wantTree(t, r.tree("superstep.cached"), `chat gpt-5-mini cached=true`)
	if got := r.metrics(t); strings.Contains(got, "token.usage") {
		t.Error(got)
	}
}

func TestHowACallOfAToolMayEnd(t *testing.T) {
	r := record(t, false)
	boom := tool.New("boom", "", func(context.Context, place) (string, error) { panic("boom") })
	asks := tool.New("asks", "", func(ctx context.Context, _ place) (string, error) { return graph.Interrupt[string](ctx, "sure", nil) })
	for _, c := range []struct {
		tl   tool.Tool
		args string
	}{{weather(), `{"city":"Bern"}`}, {weather(), `{"city":""}`}, {weather(), `{"town":1}`}, {boom, `{"city":""}`}} {
		_, _ = r.Tool(c.tl).Call(bg, json.RawMessage(c.args))
	}
	wantTree(t, r.tree("error.type", "superstep.outcome"), `
		execute_tool weather outcome=success
		execute_tool weather type=_OTHER outcome=failed ERROR tool "weather": no city
		execute_tool weather type=invalid_arguments outcome=failed ERROR tool "weather": invalid arguments: city: is missing, a string; town: unknown field; remove it
		execute_tool boom type=panic outcome=failed ERROR tool "boom": panic: boom`)

	a, err := agent.New(agent.ReAct[agent.State]{Model: scripted.New(scripted.Call("asks", `{"city":"Bern"}`)), Tools: r.Tools(asks)},
		graph.WithCheckpointer(checkpoint.NewMemory()))
	if err != nil {
		t.Fatal(err)
	}
	if snap, err := a.Thread("t").Invoke(bg, a.Input(agent.Ask[agent.State]("go"))); err != nil || len(snap.Interrupts) != 1 {
		t.Fatal(snap.Interrupts, err)
	}
	wantTree(t, r.tree("superstep.outcome"), `execute_tool asks outcome=interrupted`)
}

func TestAToolThatIsWrongIsSaidToBe(t *testing.T) {
	r := record(t, false)
	var none *struct{ tool.Tool }
	if _, err := tool.NewSet(r.Tools(nil, none, tool.New("what is it?", "", func(context.Context, place) (string, error) { return "", nil }))...); err == nil ||
		strings.Count(err.Error(), "\n") != 3 {
		t.Error(err)
	}
}
