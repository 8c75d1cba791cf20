// Command agents is a server whose runs go by Temporal, and which is a worker: the program of
// the deployments in deploy/. Start as many as there is work for.
//
//	agents serve --store postgres://… --temporal localhost:7233
package main

import (
	"cmp"
	"context"
	"strings"

	"go.temporal.io/sdk/worker"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/temporal"
	"github.com/superstep-dev/superstep/temporal/serve"
)

// Report is the state.
type Report struct {
	Topic    string
	Draft    string
	Approved bool
	Messages chat.History
}

// report writes a draft, whose words are streamed, and asks whether it is good.
func report() *graph.Graph[Report] {
	b := graph.New[Report]("report")
	b.AddNode("write", func(ctx context.Context, r *Report) error {
		r.Draft = "All is well with " + cmp.Or(r.Topic, "the world") + "."
		id := graph.Info(ctx).Task
		for word := range strings.SplitAfterSeq(r.Draft, " ") { // as a model would
			if err := graph.EmitMessage(ctx, chat.Chunk{ID: id, Text: word}); err != nil {
				return err
			}
		}
		r.Messages.Add(chat.Message{ID: id, Role: chat.RoleAssistant, Parts: []chat.Part{chat.Text{Text: r.Draft}}})
		return nil
	})
	b.AddNode("approve", func(ctx context.Context, r *Report) (err error) {
		r.Approved, err = graph.Interrupt[bool](ctx, "approve", r.Draft)
		return err
	})
	return b.AddEdge(graph.Start, "write").AddEdge("write", "approve").MustCompile()
}

func main() {
	cli.Main(cli.Graph(report()), serve.OnTemporal(temporal.Options{TaskQueue: "agents"}, worker.Options{}))
}
