package agenttest_test

import (
	"context"
	"fmt"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/agenttest"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

func ExampleTranscript() {
	call := chat.ToolCall{ID: "call_QxGg", Name: "multiply", Args: `{"a": 6, "b": 7}`}
	fmt.Print(agenttest.Transcript([]chat.Message{
		chat.User("What is 6 times 7?"),
		chat.Assistant("", call),
		chat.ResultText(call, "42"),
		chat.Assistant("42."),
	}))
	// Output:
	// user: What is 6 times 7?
	// assistant:
	//   call #1 multiply {"a":6,"b":7}
	// tool multiply #1: 42
	// assistant: 42.
}

func ExampleSound() {
	fmt.Println(agenttest.Sound([]chat.Message{
		chat.User("What is 6 times 7?"),
		chat.Assistant("", chat.ToolCall{ID: "c1", Name: "multiply"}),
		chat.User("Well?"),
	}))
	// Output: message 2: the call "c1" of multiply has no result
}

// A stream breaks; the thread goes on.
func ExampleFaulty() {
	hi := scripted.Text("Good morning!")
	m := agenttest.Faulty(scripted.New(hi, hi), agenttest.BreakStream(1).At(1))
	a, err := agent.New(agent.ReAct[agent.State]{Model: m}, graph.WithCheckpointer(checkpoint.NewMemory()))
	if err != nil {
		fmt.Println(err)
		return
	}
	t := a.Thread("t-1")
	snap, err := t.Invoke(context.Background(), t.Input(agent.Ask[agent.State]("Hello")))
	fmt.Println(snap.State.Messages.Len(), err)
	snap, err = t.Invoke(context.Background(), t.Continue())
	fmt.Println(snap.State.LastResponse, err)
	// Output:
	// 0 node "agent" failed in step 1: agenttest: broken stream (HTTP 200): the connection broke
	// Good morning! <nil>
}

// The first call of a tool panics; the model is told.
func ExampleFaultyTool() {
	now := tool.New("now", "Tells the time.", func(context.Context, struct{}) (string, error) { return "noon", nil })
	m := scripted.New(scripted.Call("now", ""), scripted.Call("now", ""), scripted.Text("It is noon."))
	a, err := agent.New(agent.ReAct[agent.State]{
		Model: m, OnError: agent.TellModel,
		Tools: []tool.Tool{agenttest.FaultyTool(now, agenttest.PanicTool("no clock").At(1))},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	snap, err := a.Invoke(context.Background(), agent.Ask[agent.State]("What time is it?"))
	fmt.Print(agenttest.Transcript(snap.State.Messages.Slice()), err)
	// Output:
	// user: What time is it?
	// assistant:
	//   call #1 now {}
	// tool now #1 failed: [TOOL ERROR] now: panic: no clock
	// assistant:
	//   call #2 now {}
	// tool now #2: noon
	// assistant: It is noon.
	// <nil>
}
