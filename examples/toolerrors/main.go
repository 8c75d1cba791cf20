// Toolerrors shows what becomes of a tool that fails.
//
// By default the run fails: a program's own tools should work. When the model can
// do something about an error, tell it: the text of the error is the result of
// the call, and the conversation goes on.
//
//	go run ./examples/toolerrors
package main

import (
	"context"
	"fmt"
	"log"
	"maps"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/examples/internal/demo"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

var notes = map[string]string{
	"garden.txt":   "Water the tomatoes on Monday.",
	"shopping.txt": "Milk, bread, a new rake.",
}

type file struct {
	Name string `json:"name"`
}

// read fails with words that the model can use: what there is instead.
func read(_ context.Context, in file) (string, error) {
	text, ok := notes[in.Name]
	if !ok {
		names := slices.Sorted(maps.Keys(notes))
		return "", fmt.Errorf("there is no note %q; the notes are %s", in.Name, strings.Join(names, ", "))
	}
	return text, nil
}

func main() {
	for _, policy := range []struct {
		name string
		agent.ErrorPolicy
	}{
		{"fail fast", agent.FailFast},
		{"tell the model", agent.TellModel},
	} {
		a, err := agent.New(agent.ReAct[agent.State]{
			Model: demo.Model(
				scripted.Call("read_note", `{"name": "gardening.txt"}`),
				scripted.Call("read_note", `{"name": "garden.txt"}`),
				scripted.Text("Water the tomatoes."),
			),
			Instruction: "You read the user's notes. Begin with the note gardening.txt.",
			Tools:       []tool.Tool{tool.New("read_note", "Returns the text of a note.", read)},
			OnError:     policy.ErrorPolicy,
		})
		if err != nil {
			log.Fatal(err)
		}
		snap, err := a.Invoke(context.Background(), agent.Ask[agent.State]("What do I have to do in the garden on Monday?"))
		fmt.Printf("-- %s\n%v", policy.name, snap.State.Messages)
		if err != nil {
			fmt.Println("the run failed:", err)
		}
	}
}
