// Observer watches an agent from outside: which nodes run, which tools they
// call and what these return.
//
// An observer is told of everything in order, also of what happens inside of
// agents in agents. Nothing in the agent knows of it. This one prints; others
// count, measure or send traces.
//
//	go run ./examples/observer
package main

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/examples/internal/demo"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

// console is a graph.Observer, and a graph.ToolObserver as well.
type console struct{}

func (console) OnNodeEnter(ev graph.Event) { line(ev, "enter "+ev.Node) }
func (console) OnNodeExit(ev graph.Event)  { line(ev, "exit  "+ev.Node) } // ev.Duration says how long it took
func (console) OnError(ev graph.Event)     { line(ev, "fail  "+ev.Node+": "+ev.Err.Error()) }

func (console) OnInterrupt(graph.Event)       {}
func (console) OnCheckpointSaved(graph.Event) {} // there is no checkpointer

func (console) OnToolCall(ev graph.Event) {
	if call, ok := ev.Value.(tool.Started); ok {
		line(ev, fmt.Sprintf("  call   %s %s", call.Name, call.Args))
	}
}

func (console) OnToolResult(ev graph.Event) {
	end, ok := ev.Value.(tool.Ended)
	switch {
	case !ok:
	case end.Err != nil:
		line(ev, fmt.Sprintf("  error  %s: %v", end.Name, end.Err))
	default:
		line(ev, fmt.Sprintf("  result %s: %s", end.Name, chat.ToolResult{Content: end.Result.Content}.Text()))
	}
}

// line prints what happens in an inner agent further to the right.
func line(ev graph.Event, text string) {
	fmt.Println(strings.Repeat("      ", len(ev.Path)) + text)
}

type city struct {
	City string `json:"city"`
}

func weather(_ context.Context, in city) (string, error) {
	if in.City != "Bern" {
		return "", fmt.Errorf("no station in %s", in.City)
	}
	return "4 °C, snow", nil
}

func main() {
	inner, err := agent.New(agent.ReAct[agent.State]{
		Name: "meteorologist",
		Model: demo.Model(
			scripted.Call("weather", `{"city": "Berne"}`),
			scripted.Call("weather", `{"city": "Bern"}`),
			scripted.Text("It snows in Bern."),
		),
		Tools:   []tool.Tool{tool.New("weather", "Says how the weather is.", weather)},
		OnError: agent.TellModelAll,
	})
	if err != nil {
		log.Fatal(err)
	}
	outer, err := agent.New(agent.ReAct[agent.State]{
		Model: demo.Model(
			scripted.Call("meteorologist", `{"task": "How is the weather in Bern?"}`),
			scripted.Text("Take a coat: it snows."),
		),
		Tools: []tool.Tool{agent.AsTool(agent.Of(inner, "Knows the weather of cities."))},
	}, graph.Observe(console{}))
	if err != nil {
		log.Fatal(err)
	}
	snap, err := outer.Invoke(context.Background(), agent.Ask[agent.State]("Do I need a coat in Bern?"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(snap.State.LastResponse)
}
