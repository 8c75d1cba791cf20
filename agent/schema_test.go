package agent_test

import (
	"context"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

func schemaMessages(t *testing.T, snap *graph.Snapshot[graph.SchemaState]) string {
	t.Helper()
	m, ok := snap.State.Get(agent.KeyMessages).([]chat.Message)
	if !ok {
		t.Fatalf("messages are a %T", snap.State.Get(agent.KeyMessages))
	}
	return transcript(m)
}

func set(m graph.MapState) func(*graph.SchemaState) error { return m.Into }

// The guide's program: prepare, ask, tools, finish, over a state that is a map.
func TestAnAgentOverAMap(t *testing.T) { // TRPC-10, 19, 20, 26, 37, 38
	n := 0
	m := script(scripted.Message(chat.Assistant("Wait.", call("1", "multiply", `{"a":6,"b":7}`))), scripted.Text("42."))
	b := graph.NewSchemaGraph("g", agent.MessagesSchema().AddField("final_output", graph.FieldOf("", nil)))
	graph.AddMapNode(b, "prepare", func(_ context.Context, s graph.MapState) (any, error) {
		in, _ := s[agent.KeyUserInput].(string)
		return graph.MapState{agent.KeyUserInput: strings.TrimSpace(in), agent.KeyMetadata: map[string]any{"seen": true}}, nil
	})
	agent.AddSchemaLLM(b, "ask", agent.LLM[agent.State]{Model: m, Instruction: "Be brief.", Tools: []tool.Tool{counted(&n)}})
	agent.AddSchemaTools(b, "tools", agent.Tools[agent.State]{Tools: []tool.Tool{counted(&n)}})
	agent.AddSchemaToolsEdges(b, "ask", "tools", "finish")
	graph.AddMapNode(b, "finish", func(_ context.Context, s graph.MapState) (any, error) {
		last, _ := s[agent.KeyLastResponse].(string)
		return graph.MapState{"final_output": last}, nil
	})
	g, err := b.AddEdge("prepare", "ask").AddEdge("tools", "ask").SetEntryPoint("prepare").SetFinishPoint("finish").Compile(graph.WithCheckpointer(checkpoint.NewMemory()))
	if err != nil {
		t.Fatal(err)
	}
	snap, err := g.Thread("t").Invoke(t.Context(), g.Input(set(graph.MapState{agent.KeyUserInput: " 6*7? "})))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the conversation", schemaMessages(t, snap), "user: 6*7?\nassistant: Wait.[1 multiply{\"a\":6,\"b\":7}]\ntool: 42 (1)\nassistant: 42.\n")
	same(t, "the second request", transcript(m.Last().Messages), "system: Be brief.\nuser: 6*7?\nassistant: Wait.[1 multiply{\"a\":6,\"b\":7}]\ntool: 42 (1)\n")
	responses, _ := snap.State.Get(agent.KeyNodeResponses).(map[string]any)
	if snap.State.Get("final_output") != "42." || responses["ask"] != "42." || snap.State.Get(agent.KeyUserInput) != "" || n != 1 {
		t.Errorf("%v", snap.State)
	}
	// What a checkpoint brings back is the same, types included.
	again, err := g.Thread("t").State(t.Context())
	if err != nil || schemaMessages(t, again) != schemaMessages(t, snap) {
		t.Errorf("%v", err)
	}
}

// TRPC-10, 16, C-08: updates from parallel nodes merge.
func TestUpdatesOfMessagesMerge(t *testing.T) {
	b := graph.NewSchemaGraph("g", agent.MessagesSchema())
	for i, update := range []any{ // in plan order: a replaces what was there before
		chat.ReplaceLastUser(chat.User("hi")).Then(chat.AppendMessages(chat.Assistant("hello"))),
		[]chat.Message{chat.User("b1"), chat.User("b2")},
		chat.User("c"),
	} {
		name := string("abc"[i])
		graph.AddMapNode(b, name, func(context.Context, graph.MapState) (any, error) {
			return graph.MapState{
				agent.KeyMessages: update, agent.KeyNodeResponses: map[string]any{name: "x"}, agent.KeyLastResponse: name, agent.KeyMetadata: map[string]any{name: 1},
			}, nil
		}).AddEdge(graph.Start, name)
	}
	g, err := b.Compile(graph.WithCheckpointer(checkpoint.NewMemory()))
	if err != nil {
		t.Fatal(err)
	}
	snap, err := g.Thread("t").Invoke(t.Context(), g.Input(set(graph.MapState{agent.KeyMessages: chat.User(" hi ")})))
	if err != nil {
		t.Fatal(err)
	}
	got := schemaMessages(t, snap)
	for _, want := range []string{"user: hi\n", "assistant: hello\n", "user: b1\nuser: b2\n", "user: c\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("nothing of %q in\n%s", want, got)
		}
	}
	if responses, _ := snap.State.Get(agent.KeyNodeResponses).(map[string]any); len(responses) != 3 {
		t.Errorf("%v", responses)
	}
}

// TRPC-10: the fields that are there from the start, and what becomes of them when
// two nodes write them in one superstep.
func TestFieldsOfTheSchemaOfMessages(t *testing.T) {
	b := graph.NewSchemaGraph("g", agent.MessagesSchema())
	for _, name := range []string{"a", "b"} {
		graph.AddMapNode(b, name, func(context.Context, graph.MapState) (any, error) {
			return graph.MapState{
				agent.KeyMessages: chat.User(name), agent.KeyUserInput: name, agent.KeyLastResponse: name,
				agent.KeyNodeResponses: map[string]any{name: name}, agent.KeyMetadata: map[string]any{name: name},
				agent.KeyUsage: agent.Usage{{Path: "x", Calls: 1, Usage: chat.Usage{Input: 2}}},
			}, nil
		}).AddEdge(graph.Start, name)
	}
	g, err := b.Compile()
	if err != nil {
		t.Fatal(err)
	}
	fields, err := g.JSONSchema(graph.JSONState)
	for _, name := range []string{agent.KeyMessages, agent.KeyUserInput, agent.KeyLastResponse, agent.KeyNodeResponses, agent.KeyMetadata, agent.KeyOneShot, agent.KeyStructured, agent.KeyUsage} {
		if err != nil || !strings.Contains(string(fields), strconv.Quote(name)+":") {
			t.Errorf("no field %q in %s, %v", name, fields, err)
		}
	}
	snap, err := g.Invoke(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the conversation", schemaMessages(t, snap), "user: a\nuser: b\n")
	both := map[string]any{"a": "a", "b": "b"}
	for name, want := range map[string]any{
		agent.KeyUserInput: "b", agent.KeyLastResponse: "b", agent.KeyNodeResponses: both, agent.KeyMetadata: both,
		agent.KeyUsage: agent.Usage{{Path: "x", Calls: 2, Usage: chat.Usage{Input: 4}}},
	} {
		if got := snap.State.Get(name); !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

// T-08: a schema without messages is a mistake, not an agent that never calls
// its tools.
func TestASchemaThatLacksAField(t *testing.T) {
	b := graph.NewSchemaGraph("g", graph.NewSchema().AddField(agent.KeyUserInput, graph.FieldOf("", nil)))
	agent.AddSchemaLLM(b, "ask", agent.LLM[agent.State]{Model: script()})
	_, err := b.AddEdge(graph.Start, "ask").Compile()
	var ce *graph.CompileError
	if !errors.As(err, &ce) || !strings.Contains(err.Error(), `"messages"`) {
		t.Errorf("got %v", err)
	}
}

// TRPC-36, 22: one-shot messages and agents work over a map as well.
func TestOneShotMessagesAndAgentsOverAMap(t *testing.T) {
	m := script(scripted.Text("ok"))
	b := graph.NewSchemaGraph("g", agent.MessagesSchema())
	agent.AddSchemaLLM(b, "ask", agent.LLM[agent.State]{Model: m})
	agent.AddSchemaAgent(b, "sub", member(t, "sub", says("s")), agent.SubAgent[agent.State]{})
	g, err := b.AddEdge(graph.Start, "ask").AddEdge("ask", "sub").Compile()
	if err != nil {
		t.Fatal(err)
	}
	snap, err := g.Invoke(t.Context(), set(graph.MapState{agent.KeyOneShot: []chat.Message{chat.User("only this")}}))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the request", transcript(m.Last().Messages), "user: only this\n")
	same(t, "the conversation", schemaMessages(t, snap), "assistant: ok\nassistant: s(ok)\n")
	if one, _ := snap.State.Get(agent.KeyOneShot).([]chat.Message); len(one) != 0 {
		t.Errorf("one-shot messages are left: %v", one)
	}
}

func TestAnUpdateOfMessagesThatIsNone(t *testing.T) {
	b := graph.NewSchemaGraph("g", agent.MessagesSchema())
	graph.AddMapNode(b, "a", func(context.Context, graph.MapState) (any, error) { return graph.MapState{agent.KeyMessages: 7}, nil })
	g, err := b.AddEdge(graph.Start, "a").Compile()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Invoke(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "chat.Update") {
		t.Errorf("got %v", err)
	}
}

// TRPC-12, 17, C-31: what a run works with is not state.
func TestInternalNamesCannotBeWritten(t *testing.T) {
	for name, value := range map[string]string{
		agent.KeySession: "session", agent.KeyExecContext: "exec_context", agent.KeyToolCallbacks: "tool_callbacks", agent.KeyModelCallbacks: "model_callbacks",
		agent.KeyAgentCallbacks: "agent_callbacks", agent.KeyCurrentNode: "current_node_id", agent.KeyParentAgent: "parent_agent",
		agent.KeyCommand: "__command__", agent.KeyResumeMap: "__resume_map__",
	} {
		if name != value {
			t.Errorf("%q is not %q", name, value)
		}
		b := graph.NewSchemaGraph("g", agent.MessagesSchema())
		graph.AddMapNode(b, "a", func(context.Context, graph.MapState) (any, error) { return graph.MapState{name: 1}, nil })
		g, err := b.AddEdge(graph.Start, "a").Compile()
		if err != nil {
			t.Fatal(err)
		}
		var re *graph.FieldError
		if _, err := g.Invoke(t.Context(), nil); !errors.As(err, &re) || re.Field != name || re.Node != "a" {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := graph.AddMapNode(graph.NewSchemaGraph("g", agent.MessagesSchema().AddField(name, graph.FieldOf("", nil))), "a", func(context.Context, graph.MapState) (any, error) { return nil, nil }).AddEdge(graph.Start, "a").Compile(); err == nil {
			t.Errorf("%s was declared", name)
		}
	}
}
