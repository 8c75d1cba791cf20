package program

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/cmd/superstep/internal/demomodel"
	"github.com/superstep-dev/superstep/cmd/superstep/internal/tools"
	"github.com/superstep-dev/superstep/graph"
)

// demoGraphs are what "superstep serve --demo" serves. Without it nothing is served:
// the other graphs read and write files, as the commands that start them are told
// to.
func demoGraphs() cli.Option {
	return cli.Demo(
		greeting(), buying(),
		cli.Graph(assistantGraph(), cli.Describe("Talks with the demonstration model, which calls tools and asks before it writes a file.")),
		cli.Graph(tripGraph(), cli.Describe("Compares cities in parallel, then asks which one to book.")),
	)
}

func greeting(opts ...cli.GraphOption) cli.Option {
	return cli.Graph(helloGraph(), append(opts, cli.Describe("Greets somebody: two steps, no questions."), cli.ExampleInput(`{"name": "Ada"}`))...)
}

func buying(opts ...cli.GraphOption) cli.Option {
	return cli.Graph(approvalGraph(), append(opts, cli.Describe("Asks before it pays: a question that waits, for months if need be."), cli.ExampleInput(`{"item": "a chair", "amount": 120}`))...)
}

// assistantGraph is an agent whose model needs no key.
func assistantGraph() *graph.Graph[agent.State] {
	g, err := agent.New(agent.ReAct[agent.State]{
		Name: "assistant", Model: demomodel.Model{}, Tools: tools.In("."), Approve: agent.Approve(tools.WriteFile), OnError: agent.TellModel,
	})
	if err != nil {
		panic(err)
	}
	return g
}

// trip is the state of tripGraph.
type trip struct {
	Days   int                    `json:"days"`
	Cities graph.List[string]     `json:"cities"`
	Costs  graph.Map[string, int] `json:"costs"`
	Choice string                 `json:"choice"`
	Booked string                 `json:"booked"`
}

// tripGraph fans out, joins, asks and goes on.
func tripGraph() *graph.Graph[trip] {
	b := graph.New[trip]("trip")
	price := graph.AddTask(b, "price", func(ctx context.Context, s *trip, city string) error {
		for percent := 25; percent <= 100; percent += 25 {
			select {
			case <-time.After(200 * time.Millisecond): // as a service would take
			case <-ctx.Done():
				return ctx.Err()
			}
			if err := graph.Emit(ctx, map[string]any{"city": city, "percent": percent}); err != nil {
				return err
			}
		}
		s.Costs.Put(city, s.Days*(60+7*len(city)))
		return nil
	})
	b.AddCommandNode("plan", func(_ context.Context, s *trip) (graph.Command, error) {
		if s.Days <= 0 {
			s.Days = 3
		}
		if s.Cities.Len() == 0 {
			s.Cities.Add("Oslo", "Lisbon", "Ljubljana")
		}
		var sends []graph.Send
		for _, city := range s.Cities.All() {
			sends = append(sends, price.Send(city))
		}
		return graph.Dispatch(sends...), nil
	}, graph.Destinations("price"))
	b.AddNode("choose", func(ctx context.Context, s *trip) error {
		choice, err := graph.Interrupt[string](ctx, "city", map[string]any{"question": "Which city shall it be?", "costs": s.Costs})
		if err != nil {
			return err
		}
		s.Choice = strings.TrimSpace(choice)
		return nil
	})
	b.AddNode("book", func(_ context.Context, s *trip) error {
		if s.Choice == "" {
			s.Booked = "nothing"
			return nil
		}
		s.Booked = fmt.Sprintf("%d days in %s", s.Days, s.Choice)
		return nil
	})
	b.AddEdge(graph.Start, "plan").AddEdge("price", "choose").AddEdge("choose", "book").AddEdge("book", graph.End)
	g, err := b.Compile()
	if err != nil {
		panic(err)
	}
	return g
}
