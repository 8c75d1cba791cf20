package program

import (
	"context"
	"errors"
	"fmt"

	"github.com/superstep-dev/superstep/graph"
)

// hello is the state of the graph "hello".
type hello struct {
	Name      string             `json:"name"`
	Greetings graph.List[string] `json:"greetings"`
}

func helloGraph() *graph.Graph[hello] {
	b := graph.New[hello]("hello")
	b.AddNode("ask", func(_ context.Context, s *hello) error {
		if s.Name == "" {
			s.Name = "world"
		}
		return nil
	}, graph.Describe("ask", "Fills in a name if none is given."))
	b.AddNode("greet", func(_ context.Context, s *hello) error {
		s.Greetings.Add("Hello, " + s.Name + "!")
		return nil
	}, graph.Describe("greet", "Adds a greeting."))
	b.AddEdge(graph.Start, "ask").AddEdge("ask", "greet").AddEdge("greet", graph.End)
	return b.MustCompile()
}

// order is the state of the graph "approval".
type order struct {
	Item     string             `json:"item"`
	Amount   float64            `json:"amount"`
	Approved bool               `json:"approved"`
	Note     string             `json:"note"`
	Log      graph.List[string] `json:"log"`
}

func approvalGraph() *graph.Graph[order] {
	b := graph.New[order]("approval")
	b.AddNode("check", func(_ context.Context, s *order) error {
		if s.Item == "" || s.Amount <= 0 {
			return errors.New(`an order needs an item and an amount: --input '{"item": "a chair", "amount": 120}'`)
		}
		s.Log.Add(fmt.Sprintf("checked: %s for %.2f", s.Item, s.Amount))
		return nil
	}, graph.Describe("check", "Refuses orders without item or amount."))
	b.AddNode("approve", func(ctx context.Context, s *order) error {
		ok, err := graph.Interrupt[bool](ctx, "approve", fmt.Sprintf("Buy %s for %.2f?", s.Item, s.Amount))
		if err != nil {
			return err
		}
		s.Approved = ok
		return nil
	}, graph.Describe("approve", "Asks a person, and waits."))
	b.AddNode("reason", func(ctx context.Context, s *order) error {
		note, err := graph.Interrupt[string](ctx, "reason", "Why not?")
		if err != nil {
			return err
		}
		s.Note = note
		s.Log.Add("declined: " + note)
		return nil
	}, graph.Describe("reason", "Asks why an order was declined."))
	b.AddNode("pay", func(_ context.Context, s *order) error {
		s.Log.Add(fmt.Sprintf("paid: %.2f", s.Amount))
		return nil
	}, graph.Describe("pay", "Pays."))
	b.AddEdge(graph.Start, "check").AddEdge("check", "approve")
	b.AddConditionalEdges("approve", func(_ context.Context, s *order) (graph.Command, error) {
		if s.Approved {
			return graph.Goto("pay"), nil
		}
		return graph.Goto("reason"), nil
	}, "pay", "reason")
	b.AddEdge("pay", graph.End).AddEdge("reason", graph.End)
	return b.MustCompile()
}
