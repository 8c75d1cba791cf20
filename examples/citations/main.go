// Citations is an agent that answers from the documents of a folder, and says for each
// statement where it stands.
//
// The documents (Markdown, HTML, PDF) are cut into chunks and kept in a SQLite file
// with their embeddings; run again, only what has changed is embedded. The embedder here
// counts words, so that the example runs without a key: a real program takes a model's, such
// as openai.NewEmbedder.
//
//	go run ./examples/citations -dir examples/citations/handbook "When do buses leave the depot?"
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/examples/internal/demo"
	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/memory/sqlite"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/retrieval"
	"github.com/superstep-dev/superstep/retrieval/pdf"
	"github.com/superstep-dev/superstep/tool"
)

const search = "search_handbook"

// clerk stands for a model: it searches for what the user asks, and answers with the
// last paragraph of the best passage.
func clerk(_ context.Context, req *model.Request) (chat.Message, error) {
	last := req.Messages[len(req.Messages)-1]
	result, found := last.ToolResult()
	if !found {
		args, err := json.Marshal(map[string]string{"query": last.Text()})
		return chat.Assistant("", chat.ToolCall{Name: search, Args: string(args)}), err
	}
	var f retrieval.Found
	if err := json.Unmarshal([]byte(result.Content[0].(chat.Text).Text), &f); err != nil || len(f.Passages) == 0 {
		return chat.Assistant("The handbook doesn't say it."), err
	}
	best := f.Passages[0]
	paragraphs := strings.Split(best.Text, "\n\n")
	says := strings.Join(strings.Fields(paragraphs[len(paragraphs)-1]), " ")
	return chat.Assistant(fmt.Sprintf("%s [%s]", says, best.Cite)), nil
}

func run(ctx context.Context, dir, db, question string) error {
	embedder := memory.HashEmbedder(512)
	store, err := sqlite.Open(db, sqlite.Options{Config: memory.Config{Index: &memory.Index{Embedder: embedder, Name: "words"}}})
	if err != nil {
		return err
	}
	defer store.Close()
	index := &retrieval.Index{
		Store: store, Namespace: []string{"handbook"}, Embedder: embedder, Name: "words",
		Splitter: retrieval.Splitter{Size: 120},
	}
	report, err := index.Add(ctx, retrieval.LoadFS(ctx, os.DirFS(dir), retrieval.Loaders{".pdf": pdf.Load}))
	if err != nil {
		return err
	}
	fmt.Printf("%d documents added, %d unchanged, %d chunks embedded\n", report.Added, report.Unchanged, report.Embedded)

	retriever := &retrieval.Retriever{Index: index, K: 2, By: retrieval.ByBoth}
	a, err := agent.New(agent.ReAct[agent.State]{
		Model:       demo.Model(scripted.Func(clerk).Repeat()),
		Instruction: retrieval.CiteInstruction,
		Tools:       []tool.Tool{retriever.Tool(search, "Finds what the handbook of the depot says.")},
	})
	if err != nil {
		return err
	}
	snap, err := a.Invoke(ctx, agent.Ask[agent.State](question))
	if err != nil {
		return err
	}
	fmt.Println(snap.State.LastResponse.Get())
	return nil
}

func main() {
	dir := flag.String("dir", "examples/citations/handbook", "folder of documents")
	db := flag.String("db", "handbook.db", "SQLite database of the index")
	flag.Parse()
	if err := run(context.Background(), *dir, *db, strings.Join(flag.Args(), " ")); err != nil {
		log.Fatal(err)
	}
}
