// Subgraph uses one graph as a node of another.
//
// The inner graph has a state of its own; Mapping says what goes in and what
// comes out. Its question is asked of the outer thread, and after the answer
// the inner graph goes on where it stood.
//
//	go run ./examples/subgraph
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// Payment is the state of the inner graph.
type Payment struct {
	Amount  int
	Card    string
	Receipt string
}

func card(ctx context.Context, p *Payment) (err error) {
	p.Card, err = graph.Interrupt[string](ctx, "card", fmt.Sprintf("Which card shall pay %d?", p.Amount))
	return err
}

func charge(_ context.Context, p *Payment) error {
	p.Receipt = fmt.Sprintf("%d from %s", p.Amount, p.Card)
	return nil
}

// Order is the state of the outer graph.
type Order struct {
	Items   graph.List[string]
	Total   int
	Receipt string
}

func price(_ context.Context, o *Order) error {
	o.Total = 10 * o.Items.Len()
	return nil
}

func main() {
	inner := graph.New[Payment]("payment")
	inner.AddNode("card", card)
	inner.AddNode("charge", charge)
	inner.AddSequence(graph.Start, "card", "charge")
	payment, err := inner.Compile()
	if err != nil {
		log.Fatal(err)
	}

	outer := graph.New[Order]("order")
	outer.AddNode("price", price)
	graph.AddSubgraph(outer, "pay", payment, graph.Mapping[Order, Payment]{
		In:  func(o *Order, p *Payment) { p.Amount = o.Total },
		Out: func(p *Payment, o *Order) { o.Receipt = p.Receipt },
	})
	outer.AddSequence(graph.Start, "price", "pay")
	order, err := outer.Compile(graph.WithCheckpointer(checkpoint.NewMemory()))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	t := order.Thread("order-1")

	snap, err := t.Invoke(ctx, t.Input(func(o *Order) error {
		o.Items.Add("tea", "cups")
		return nil
	}))
	if err != nil {
		log.Fatal(err)
	}
	question := snap.Interrupts[0]
	fmt.Println(question)
	fmt.Println(question.Value)

	snap, err = t.Invoke(ctx, t.Answer("Visa"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("paid:", snap.State.Receipt)
}
