// Agentapproval has a person decide before an agent uses a tool that does harm.
//
// The run ends with a question that is stored with the thread; the answer
// resumes it. Here that is a moment later. It may be months later and in another
// process, as examples/agentrecovery shows. A rejected call isn't made, and the
// model is told why.
//
//	go run ./examples/agentapproval              # asks on the terminal
//	go run ./examples/agentapproval -answer yes
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/examples/internal/demo"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

type file struct {
	Name string `json:"name"`
}

func list(context.Context, struct{}) ([]string, error) {
	return []string{"report.txt", "report.bak"}, nil
}

func remove(_ context.Context, in file) (string, error) {
	fmt.Println("  removing", in.Name)
	return "removed", nil
}

// report says what the last call came to.
func report(_ context.Context, req *model.Request) (chat.Message, error) {
	if r, _ := req.Messages[len(req.Messages)-1].ToolResult(); r.IsError {
		return chat.Assistant("I have left everything as it is. " + r.Text()), nil
	}
	return chat.Assistant("report.bak is gone."), nil
}

func main() {
	given := flag.String("answer", "", "yes or no, instead of asking on the terminal")
	flag.Parse()

	a, err := agent.New(agent.ReAct[agent.State]{
		Model: demo.Model(
			scripted.Call("list_files", `{}`),
			scripted.Call("remove_file", `{"name": "report.bak"}`),
			scripted.Func(report),
		),
		Tools: []tool.Tool{
			tool.New("list_files", "Lists the files.", list),
			tool.New("remove_file", "Removes a file for good.", remove),
		},
		Approve: agent.Approve("remove_file"), // list_files needs nobody's permission
	}, graph.WithCheckpointer(checkpoint.NewMemory()))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	t := a.Thread("cleaning")
	snap, err := t.Invoke(ctx, t.Input(agent.Ask[agent.State]("Remove all backups.")))
	for err == nil && len(snap.Interrupts) > 0 {
		var question agent.ApprovalRequest
		if err := json.Unmarshal(snap.Interrupts[0].Raw, &question); err != nil {
			log.Fatal(err)
		}
		var answer agent.ApprovalAnswer // one decision for each call
		for _, call := range question.Actions {
			fmt.Printf("May the agent call %s %s? [yes/no] ", call.Name, call.Args)
			decision := agent.Decision{Type: agent.RejectCall, Message: "The user wants to keep it."}
			if ask(*given) == "yes" {
				decision = agent.Decision{Type: agent.ApproveCall}
			}
			answer.Decisions = append(answer.Decisions, decision)
		}
		snap, err = t.Invoke(ctx, t.Answer(answer))
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(snap.State.LastResponse)
}

var terminal = bufio.NewReader(os.Stdin)

// ask returns the answer that was given with the flag, or reads a line.
func ask(given string) string {
	if given != "" {
		fmt.Println(given)
		return given
	}
	line, err := terminal.ReadString('\n')
	if err != nil {
		log.Fatal("no answer: ", err)
	}
	return strings.TrimSpace(line)
}
