// Package handbook is an agent that answers from the Markdown pages of a folder, and
// says where each statement stands.
package handbook

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/retrieval"
	"github.com/superstep-dev/superstep/tool"
)

//go:embed pages
var pages embed.FS

// Search is the name of the tool that finds passages.
const Search = "search_handbook"

// New reads the pages and returns the agent. They are in memory, and found by their
// words; for many, use package memory/sqlite or memory/postgres, and for a search by
// meaning the embeddings of a model, models.OpenEmbedder("openai:text-embedding-3-small", 1536).
func New(ctx context.Context, m model.Model, opts ...graph.Option) (*graph.Graph[agent.State], error) {
	store, err := memory.NewInMemory()
	if err != nil {
		return nil, err
	}
	index := &retrieval.Index{Store: store, Namespace: []string{"handbook"}, Splitter: retrieval.Splitter{Size: 300}}
	if _, err := index.Add(ctx, retrieval.LoadFS(ctx, pages, nil)); err != nil {
		return nil, err
	}
	retriever := &retrieval.Retriever{Index: index, K: 3, By: retrieval.ByWords}
	return agent.New(agent.ReAct[agent.State]{
		Name:        "handbook",
		Model:       model.Retry(m, model.RetryPolicy{}),
		Instruction: retrieval.CiteInstruction,
		Tools:       []tool.Tool{retriever.Tool(Search, "Finds passages of the handbook.")},
		OnError:     agent.TellModel,
	}, opts...)
}

// Offline stands for a model, so that the program runs without a key: it searches for the
// user's words, and repeats the best passage.
func Offline() model.Model {
	return scripted.New(scripted.Func(func(_ context.Context, req *model.Request) (chat.Message, error) {
		last := req.Messages[len(req.Messages)-1]
		result, ok := last.ToolResult()
		if !ok {
			args, err := json.Marshal(map[string]string{"query": last.Text()})
			return chat.Assistant("", chat.ToolCall{Name: Search, Args: string(args)}), err
		}
		var found retrieval.Found
		if err := json.Unmarshal([]byte(result.Text()), &found); err != nil || len(found.Passages) == 0 {
			return chat.Assistant("The handbook doesn't say it."), err
		}
		best := found.Passages[0]
		return chat.Assistant(fmt.Sprintf("%s [%s]", strings.TrimSpace(best.Text), best.Cite)), nil
	}).Repeat())
}
