package snippets_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

type Order struct {
	Item    string
	Price   int
	Count   int
	Bought  bool
	Address Address
	Log     graph.List[string]
}

func compileOrder(node func(context.Context, *Order) error, opts ...graph.Option) *graph.Graph[Order] {
	b := graph.New[Order]("order")
	b.AddNode("order", node)
	b.AddEdge(graph.Start, "order")
	return b.MustCompile(append([]graph.Option{graph.WithCheckpointer(checkpoint.NewMemory())}, opts...)...)
}

func confirm(ctx context.Context, s *Order) error {
	yes, err := graph.Interrupt[bool](ctx, "confirm", fmt.Sprintf("Buy %s for %d?", s.Item, s.Price))
	if err != nil {
		return err // the run pauses here
	}
	s.Bought = yes
	return nil
}

func Example_confirm() {
	g := compileOrder(confirm)
	t := g.Thread("t-1")
	snap, err := t.Invoke(ctx, t.Input(func(s *Order) error {
		s.Item, s.Price = "tea", 4
		return nil
	}))
	fmt.Println(snap.Interrupts[0].Key, "-", snap.Interrupts[0].Value, err)

	snap, err = t.Invoke(ctx, t.Answer(true))
	fmt.Println(snap.State.Bought, err)
	// Output:
	// confirm - Buy tea for 4? <nil>
	// true <nil>
}

func Example_asError() {
	g := compileOrder(confirm)
	//snippet:err
	t := g.Thread("t-1")
	snap, err := t.Invoke(ctx, t.Input(func(s *Order) error {
		s.Item = "tea"
		return nil
	}))
	if err == nil {
		err = snap.Err() // an interrupted run as an error
	}
	interrupted, ok := errors.AsType[*graph.InterruptError](err)
	fmt.Println(ok, interrupted)
	//snippet:end
	// Output: true interrupted in node 'order': "confirm" waits for an answer
}

func oneAfterTheOther(ctx context.Context, s *Order) error {
	item, err := graph.Interrupt[string](ctx, "item", "What would you like?")
	if err != nil {
		return err
	}
	count, err := graph.Interrupt[int](ctx, "count", "How many of "+item+"?")
	if err != nil {
		return err
	}
	s.Item, s.Count = item, count
	return nil
}

func atOnce(ctx context.Context, s *Order) error {
	item, err1 := graph.Interrupt[string](ctx, "item", "What would you like?")
	count, err2 := graph.Interrupt[int](ctx, "count", "How many?")
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	s.Item, s.Count = item, count
	return nil
}

func Example_several() {
	t := compileOrder(oneAfterTheOther).Thread("t-1")
	_, _ = t.Invoke(ctx, t.Input(func(*Order) error { return nil }))
	snap, _ := t.Invoke(ctx, t.Answer("tea"))
	fmt.Println(snap.Interrupts[0].Value)
	snap, _ = t.Invoke(ctx, t.Answer(2))
	fmt.Println(snap.State.Item, snap.State.Count)

	t = compileOrder(atOnce).Thread("t-1")
	snap, _ = t.Invoke(ctx, t.Input(func(*Order) error { return nil }))
	fmt.Println(len(snap.Interrupts), "questions")
	//snippet:answers
	_, err := t.Invoke(ctx, t.Answer("tea"))
	fmt.Println(err)
	snap, _ = t.Invoke(ctx, t.Answer(graph.Answers{"item": "tea", "count": 2}))
	//snippet:end
	fmt.Println(snap.State.Item, snap.State.Count)
	// Output:
	// How many of tea?
	// tea 2
	// 2 questions
	// answer refused: 2 questions are open: use graph.Answers to say which (waiting: item, count)
	// tea 2
}

func Example_parallelQuestions() {
	//snippet:parallel
	ask := func(who string) func(context.Context, *Order) error {
		return func(ctx context.Context, s *Order) error {
			yes, err := graph.Interrupt[bool](ctx, "approve", who+", do you agree?")
			if err != nil {
				return err
			}
			s.Log.Add(fmt.Sprint(who, " ", yes))
			return nil
		}
	}
	b := graph.New[Order]("approvals")
	b.AddNode("legal", ask("legal"))
	b.AddNode("finance", ask("finance"))
	b.AddEdge(graph.Start, "legal").AddEdge(graph.Start, "finance")
	g := b.MustCompile(graph.WithCheckpointer(checkpoint.NewMemory()))

	t := g.Thread("t-1")
	snap, _ := t.Invoke(ctx, t.Input(func(*Order) error { return nil }))
	answers := graph.Answers{} // by ID, since both have the same key
	for _, q := range snap.Interrupts {
		answers[q.ID] = q.Node == "legal"
	}
	snap, err := t.Invoke(ctx, t.Answer(answers))
	fmt.Println(snap.State.Log, err)
	//snippet:end
	// Output: [legal true finance false] <nil>
}

type Address struct {
	Street string `json:"street"`
	Zip    string `json:"zip" jsonschema:"postal code"`
}

func address(ctx context.Context, s *Order) error {
	a, err := graph.Interrupt[Address](ctx, "address", "Where to?")
	if err != nil {
		return err
	}
	s.Address = a
	return nil
}

func Example_typed() {
	g := compileOrder(address)
	t := g.Thread("t-1")
	snap, _ := t.Invoke(ctx, t.Input(func(*Order) error { return nil }))
	fmt.Println(snap.Interrupts[0].Schema != nil)

	_, err := t.Invoke(ctx, t.Answer(map[string]any{"street": 7}))
	refused, _ := errors.AsType[*graph.AnswerError](err)
	fmt.Println(refused.Key, "-", refused.Reason)

	snap, err = t.Invoke(ctx, t.Answer(Address{Street: "Main St 1", Zip: "0150"}))
	fmt.Println(snap.State.Address, err)
	// Output:
	// true
	// address - it has the wrong shape
	// {Main St 1 0150} <nil>
}

func amount(ctx context.Context, s *Order) error {
	n, err := graph.Interrupt[int](ctx, "count", "How many?",
		graph.AnswerSchema([]byte(`{"type": "integer", "minimum": 1, "maximum": 10}`)))
	if err != nil {
		return err
	}
	s.Count = n
	return nil
}

func Example_schema() {
	g := compileOrder(amount)
	t := g.Thread("t-1")
	_, _ = t.Invoke(ctx, t.Input(func(*Order) error { return nil }))
	_, err := t.Invoke(ctx, t.Answer(100))
	fmt.Println(err != nil)
	snap, err := t.Invoke(ctx, t.Answer(10))
	fmt.Println(snap.State.Count, err)
	// Output:
	// true
	// 10 <nil>
}

func Example_static() {
	b := graph.New[Ticket]("static")
	b.AddNode("agent", visit("agent"))
	b.AddNode("tools", visit("tools"))
	b.AddSequence(graph.Start, "agent", "tools")
	//snippet:static
	g := b.MustCompile(
		graph.WithCheckpointer(checkpoint.NewMemory()),
		graph.InterruptBefore("tools"))

	t := g.Thread("t-1")
	snap, _ := t.Invoke(ctx, t.Input(func(*Ticket) error { return nil }))
	fmt.Println(snap.Err())
	_, _ = t.Edit(ctx, func(s *Ticket) error {
		s.Priority = 3
		return nil
	})
	snap, err := t.Invoke(ctx, t.Answer(nil)) // or Continue
	fmt.Println(snap.State.Trail, snap.State.Priority, err)
	//snippet:end
	// Output:
	// interrupted before node 'tools'
	// [agent tools] 3 <nil>
}

func Example_askFirst() {
	//snippet:askfirst
	b := graph.New[Order]("order")
	b.AddNode("confirm", confirm, graph.AskFirst[Order, bool]("confirm", func(s *Order) (any, []graph.AskOption, bool) {
		return fmt.Sprintf("Buy %s for %d?", s.Item, s.Price), nil, true
	}))
	//snippet:end
	b.AddEdge(graph.Start, "confirm")
	g := b.MustCompile(graph.WithCheckpointer(checkpoint.NewMemory()))
	t := g.Thread("t-1")
	snap, _ := t.Invoke(ctx, t.Input(func(s *Order) error {
		s.Item, s.Price = "tea", 4
		return nil
	}))
	fmt.Println(snap.Source, snap.Interrupts[0].Value)
	snap, err := t.Invoke(ctx, t.Answer(true))
	fmt.Println(snap.State.Bought, err)
	// Output:
	// input Buy tea for 4?
	// true <nil>
}

func Example_inputSchema() {
	b := graph.New[Ticket]("input")
	b.AddNode("review", visit("review"))
	b.AddEdge(graph.Start, "review")
	//snippet:inputschema
	g := b.MustCompile(
		graph.WithCheckpointer(checkpoint.NewMemory()),
		graph.InterruptBefore("review"),
		graph.InputSchema("review", []byte(`{
			"type": "object",
			"properties": {"Urgent": {"type": "boolean"}},
			"required": ["Urgent"]
		}`)))
	t := g.Thread("t-1")
	_, _ = t.Invoke(ctx, t.Input(func(*Ticket) error { return nil }))
	snap, err := t.Invoke(ctx, t.Answer(map[string]any{"Urgent": true}))
	fmt.Println(snap.State.Urgent, snap.State.Trail, err)
	//snippet:end
	// Output: true [review] <nil>
}

var priceCalls int

func expensivePrice() int { priceCalls++; return 40 + priceCalls }

//snippet:optionA

func price(_ context.Context, s *Order) error { // a node of its own, before the question
	s.Price = expensivePrice()
	return nil
}

//snippet:end

//snippet:optionB

func priceAfter(ctx context.Context, s *Order) error { // after the question
	item, err := graph.Interrupt[string](ctx, "item", "What would you like?")
	if err != nil {
		return err
	}
	s.Item, s.Price = item, expensivePrice()
	return nil
}

//snippet:end

//snippet:once

func priceOnce(ctx context.Context, s *Order) error { // recorded the first time
	price, err := graph.Once(ctx, "price", func(ctx context.Context, key string) (int, error) {
		return expensivePrice(), nil
	})
	if err != nil {
		return err
	}
	yes, err := graph.Interrupt[bool](ctx, "confirm", fmt.Sprintf("Buy for %d?", price))
	if err != nil {
		return err
	}
	s.Price, s.Bought = price, yes
	return nil
}

//snippet:end

func Example_repeatedWork() {
	b := graph.New[Order]("a")
	b.AddNode("price", price)
	b.AddNode("confirm", confirm)
	b.AddSequence(graph.Start, "price", "confirm")
	a := b.MustCompile(graph.WithCheckpointer(checkpoint.NewMemory()))
	for _, test := range []struct {
		g      *graph.Graph[Order]
		answer any
	}{{a, true}, {compileOrder(priceAfter), "tea"}, {compileOrder(priceOnce), true}} {
		priceCalls = 0
		t := test.g.Thread("t-1")
		_, _ = t.Invoke(ctx, t.Input(func(*Order) error { return nil }))
		snap, err := t.Invoke(ctx, t.Answer(test.answer))
		fmt.Println(snap.State.Price, priceCalls, err)
	}
	// Output:
	// 41 1 <nil>
	// 41 1 <nil>
	// 41 1 <nil>
}

// Bank is a service that takes idempotency keys.
type Bank interface {
	Charge(ctx context.Context, idempotencyKey string, amount int) (receipt string, err error)
}

type fakeBank struct{ charged map[string]int }

func (f *fakeBank) Charge(_ context.Context, key string, amount int) (string, error) {
	f.charged[key] = amount // a known key is charged once
	return fmt.Sprint("receipt for ", amount), nil
}

func charge(ctx context.Context, s *Order) error {
	bank, err := graph.Deps[Bank](ctx)
	if err != nil {
		return err
	}
	receipt, err := graph.Once(ctx, "charge", func(ctx context.Context, key string) (string, error) {
		return bank.Charge(ctx, key, s.Price)
	})
	if err != nil {
		return err
	}
	s.Log.Add(receipt)
	return nil
}

func Example_charge() {
	bank := &fakeBank{charged: map[string]int{}}
	g := compileOrder(charge, graph.UseDeps[Bank](bank))
	t := g.Thread("t-1")
	snap, err := t.Invoke(ctx, t.Input(func(s *Order) error {
		s.Price = 4
		return nil
	}))
	fmt.Println(snap.State.Log, len(bank.charged), err)
	// Output: [receipt for 4] 1 <nil>
}

func Example_resumeUpdate() {
	g := compileOrder(confirm)
	t := g.Thread("t-1")
	_, _ = t.Invoke(ctx, t.Input(func(s *Order) error {
		s.Item = "tea"
		return nil
	}))
	//snippet:update
	snap, err := t.Invoke(ctx, t.Answer(true, func(s *Order) error {
		s.Price = 5
		return nil
	}))
	//snippet:end
	fmt.Println(snap.State.Price, snap.State.Bought, err)
	// Output: 5 true <nil>
}
