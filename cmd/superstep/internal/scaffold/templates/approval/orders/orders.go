// Package orders pays orders, and asks a person about the larger ones. The question
// waits in the store, for months if need be: no process has to.
package orders

import (
	"context"
	"errors"
	"fmt"

	"github.com/superstep-dev/superstep/graph"
)

// Limit is the amount up to which nobody is asked.
const Limit = 50

// State is an order on its way.
type State struct {
	Item     string  `json:"item"`
	Amount   float64 `json:"amount"`
	Approved bool    `json:"approved"`
	Receipt  string  `json:"receipt"`
}

// Payer pays an order once for each key, however often it is called: a process may die
// between the payment and its record.
type Payer func(ctx context.Context, key, item string, amount float64) (receipt string, err error)

// Pay stands for a bank.
func Pay(_ context.Context, _, item string, amount float64) (string, error) {
	return fmt.Sprintf("paid %.2f for %s", amount, item), nil
}

// Builder returns the graph, to be compiled.
func Builder(pay Payer) *graph.Builder[State] {
	b := graph.New[State]("orders")
	b.AddCommandNode("check", func(_ context.Context, s *State) (graph.Command, error) {
		switch {
		case s.Item == "" || s.Amount <= 0:
			return graph.Command{}, errors.New("an order needs an item and an amount")
		case s.Amount <= Limit:
			return graph.Goto("pay"), nil
		}
		return graph.Goto("approve"), nil
	}, graph.Destinations("approve", "pay"))
	b.AddCommandNode("approve", func(ctx context.Context, s *State) (graph.Command, error) {
		yes, err := graph.Interrupt[bool](ctx, "approve", fmt.Sprintf("Buy %s for %.2f?", s.Item, s.Amount))
		if err != nil {
			return graph.Command{}, err
		}
		if s.Approved = yes; !yes {
			return graph.Goto(graph.End), nil
		}
		return graph.Goto("pay"), nil
	}, graph.Destinations("pay", graph.End))
	b.AddNode("pay", func(ctx context.Context, s *State) (err error) {
		s.Receipt, err = graph.Once(ctx, "pay", func(ctx context.Context, key string) (string, error) {
			return pay(ctx, key, s.Item, s.Amount)
		})
		return err
	})
	b.AddEdge(graph.Start, "check").AddEdge("pay", graph.End)
	return b
}
