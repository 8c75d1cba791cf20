package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

// state is a state of a user's own.
type state struct {
	agent.State
	Topic string
	Notes graph.List[string]
}

type pair struct {
	A int `json:"a"`
	B int `json:"b"`
}

// noting guards what the tools of tests note: they run at once.
var noting sync.Mutex

// counted is a tool that multiplies and counts its calls.
func counted(calls *int) tool.Tool {
	return tool.New("multiply", "Multiplies two numbers.", func(_ context.Context, in pair) (int, error) {
		noting.Lock()
		defer noting.Unlock()
		*calls++
		return in.A * in.B, nil
	})
}

// failing is a tool that fails.
func failing(name string) tool.Tool {
	return tool.New(name, "Fails.", func(context.Context, struct{}) (string, error) { return "", errors.New("no luck") })
}

// logged is a tool that notes when it begins and ends.
func logged(name string, log *[]string) tool.Tool {
	return tool.New(name, "Logs.", func(context.Context, struct{}) (string, error) {
		noting.Lock()
		defer noting.Unlock()
		*log = append(*log, name)
		return name + " done", nil
	})
}

// transcript writes messages, a line each.
func transcript(messages []chat.Message) string {
	var b strings.Builder
	for _, m := range messages {
		fmt.Fprintf(&b, "%s: %s", m.Role, m.Text())
		for _, c := range m.ToolCalls() {
			fmt.Fprintf(&b, "[%s %s%s]", c.ID, c.Name, c.Args)
		}
		if r, ok := m.ToolResult(); ok {
			fmt.Fprintf(&b, " (%s)", r.CallID)
			if r.IsError {
				b.WriteString(" failed")
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func same(t *testing.T, what, got, want string) {
	t.Helper()
	want = strings.ReplaceAll(strings.TrimLeft(want, "\n"), "\t", "")
	if got != want {
		t.Errorf("%s is\n%s\nwant\n%s", what, got, want)
	}
}

func compile[S any](t *testing.T, b *graph.Builder[S], opts ...graph.Option) *graph.Graph[S] {
	t.Helper()
	g, err := b.Compile(opts...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// llm is a graph of one LLM node.
func llm(t *testing.T, l agent.LLM[state], opts ...graph.Option) *graph.Graph[state] {
	t.Helper()
	b := graph.New[state]("g")
	agent.AddLLM(b, "ask", l)
	return compile(t, b.AddEdge(graph.Start, "ask"), opts...)
}

// tools is a graph of one Tools node.
func tools(t *testing.T, c agent.Tools[state], opts ...graph.Option) *graph.Graph[state] {
	t.Helper()
	b := graph.New[state]("g")
	agent.AddTools(b, "tools", c)
	return compile(t, b.AddEdge(graph.Start, "tools"), opts...)
}

func call(id, name, args string) chat.ToolCall { return chat.ToolCall{ID: id, Name: name, Args: args} }

func say(messages ...chat.Message) func(*state) error { return agent.Say[state](messages...) }

func ask(text string) func(*state) error { return agent.Ask[state](text) }

func memory() graph.Option { return graph.WithCheckpointer(checkpoint.NewMemory()) }

func messages(s *graph.Snapshot[state]) string { return transcript(s.State.Messages.Slice()) }

// loop is a model that calls a tool for ever.
func loop() model.Model {
	n := 0
	return model.Func(func(context.Context, *model.Request) (*model.Response, error) {
		n++
		return &model.Response{Message: chat.Assistant("", call(fmt.Sprint("c", n), "multiply", `{"a":2,"b":3}`))}, nil
	})
}

func script(replies ...scripted.Reply) *scripted.Model { return scripted.New(replies...) }

func calls(cs ...chat.ToolCall) scripted.Reply { return scripted.Calls(cs...) }
