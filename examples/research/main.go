// Research reads a folder of text files, with an agent for each file, all at
// work at once, and has a model write a summary of what they found.
//
// How many agents there are turns out when the graph runs: a router sends each
// file to a task. With a checkpointer each task's result is stored when it is
// there, so that a crash costs no more than the files that were being read.
//
//	go run ./examples/research -dir examples/research/notes
package main

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"strings"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/examples/internal/demo"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

// State is a question and what each file says about it.
type State struct {
	agent.State
	Question string
	Files    graph.List[string]
	Findings graph.Map[string, string] // by file, so that their order doesn't depend on who is first
}

// skim is the script of a reader: it opens its file and quotes the first line.
func skim(_ context.Context, req *model.Request) (chat.Message, error) {
	last := req.Messages[len(req.Messages)-1]
	if _, ok := last.ToolResult(); ok {
		first, _, _ := strings.Cut(last.Text(), "\n")
		return chat.Assistant(first), nil
	}
	name, _, _ := strings.Cut(last.Text(), ":")
	return chat.Assistant("", chat.ToolCall{Name: "read_file", Args: fmt.Sprintf(`{"name": %q}`, name)}), nil
}

type file struct {
	Name string `json:"name"`
}

func main() {
	dir := flag.String("dir", "examples/research/notes", "folder of text files")
	flag.Parse()
	root, err := os.OpenRoot(*dir) // the model can't get out of it
	if err != nil {
		log.Fatal(err)
	}
	defer root.Close()
	read := tool.New("read_file", "Returns a file's text.", func(_ context.Context, in file) (string, error) {
		text, err := root.ReadFile(in.Name)
		return string(text), err
	})
	m := demo.Model(
		scripted.Text("Animals tell each other where food, the wind and the pack are.").When(scripted.System("summary")),
		scripted.Func(skim).Repeat(),
	)
	reader, err := agent.New(agent.ReAct[agent.State]{
		Name: "reader", Model: m, OnError: agent.TellModelAll,
		Instruction: "You answer from one file, in one sentence. Read it first.",
		Tools:       []tool.Tool{tool.Limit(read, 20_000)},
	})
	if err != nil {
		log.Fatal(err)
	}

	b := graph.New[State]("research")
	b.AddNode("list", func(_ context.Context, s *State) error {
		files, err := fs.Glob(root.FS(), "*.txt")
		s.Files.Add(files...)
		return err
	})
	study := graph.AddSubgraphTask(b, "study", reader, func(s *State, r *agent.State, name string) error {
		return agent.Ask[agent.State](name + ": " + s.Question)(r)
	}, func(r *agent.State, s *State, name string) error {
		s.Findings.Put(name, r.LastResponse.Get())
		return nil
	})
	b.AddConditionalEdges("list", func(_ context.Context, s *State) (graph.Command, error) {
		var sends []graph.Send
		for _, name := range s.Files.All() {
			sends = append(sends, study.Send(name))
		}
		return graph.Dispatch(sends...), nil
	}, "study")
	b.AddNode("collect", func(_ context.Context, s *State) error {
		s.UserInput = s.Question
		for name, finding := range s.Findings.All() {
			s.UserInput += fmt.Sprintf("\n%s: %s", name, finding)
		}
		return nil
	})
	agent.AddLLM(b, "summarize", agent.LLM[State]{Model: m, Instruction: "You write a summary of findings in one sentence."})
	b.AddEdge(graph.Start, "list")
	b.AddSequence("study", "collect", "summarize")
	g, err := b.Compile(graph.MaxConcurrency(8)) // a folder may have thousands
	if err != nil {
		log.Fatal(err)
	}

	snap, err := g.Invoke(context.Background(), func(s *State) error {
		s.Question = "How do animals work together?"
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	for name, finding := range snap.State.Findings.All() {
		fmt.Printf("%s: %s\n", name, finding)
	}
	fmt.Println(snap.State.LastResponse)
}
