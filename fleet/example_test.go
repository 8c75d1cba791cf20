package fleet_test

import (
	"context"
	"fmt"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/fleet"
	"github.com/superstep-dev/superstep/fleet/bus"
	"github.com/superstep-dev/superstep/graph"
)

// What a node sends is told live to whoever streams the run, wherever the node works.
func Example_bus() {
	type talk struct{ Said string }
	store := checkpoint.NewMemory()
	b := graph.New[talk]("talk")
	b.AddNode("say", func(ctx context.Context, s *talk) error {
		for _, token := range []string{"Hello, ", "world"} {
			s.Said += token
			if err := graph.EmitMessage(ctx, chat.Chunk{ID: "m-1", Text: token}); err != nil {
				return err
			}
		}
		return nil
	})
	g := b.AddEdge(graph.Start, "say").MustCompile(graph.WithCheckpointer(store))

	events := bus.NewMemory() // several machines have one of fleet/bus/postgres or fleet/bus/redis
	worker, err := fleet.NewWorker(store, fleet.Options{Bus: events}, fleet.Program{Graph: g})
	if err != nil {
		fmt.Println(err)
		return
	}
	dispatcher, err := fleet.NewLocal(worker, fleet.LocalOptions{}) // or one of an engine
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dispatcher.Close()

	c := &fleet.Client{Dispatcher: dispatcher, Store: store, Bus: events}
	t := g.Thread("t-1")
	for ev, err := range fleet.Stream(context.Background(), c, t, t.Input(func(*talk) error { return nil }), graph.Modes(graph.ModeMessages, graph.ModeUpdates)) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if piece, ok := ev.Value.(chat.Chunk); ok {
			fmt.Printf("%q\n", piece.Text)
			continue
		}
		fmt.Println(ev.Node, string(ev.Update))
	}
	// Output:
	// "Hello, "
	// "world"
	// say {"Said":"Hello, world"}
}

// A graph that a person has to agree to: the fleet runs it to the question, the answer is
// given in this process, and the fleet goes on.
func Example() {
	type order struct {
		Item     string
		Approved bool
		Done     graph.List[string]
	}
	store := checkpoint.NewMemory() // several machines share a PostgreSQL, say
	b := graph.New[order]("order")
	b.AddNode("check", func(_ context.Context, o *order) error {
		o.Done.Add("checked " + o.Item)
		return nil
	})
	b.AddNode("approve", func(ctx context.Context, o *order) (err error) {
		o.Approved, err = graph.Interrupt[bool](ctx, "approve", "Send "+o.Item+"?")
		return err
	})
	b.AddNode("send", func(_ context.Context, o *order) error {
		o.Done.Add("sent " + o.Item)
		return nil
	})
	b.AddEdge(graph.Start, "check").AddSequence("check", "approve", "send")
	g := b.MustCompile(graph.WithCheckpointer(store))

	worker, err := fleet.NewWorker(store, fleet.Options{}, fleet.Program{Graph: g})
	if err != nil {
		fmt.Println(err)
		return
	}
	dispatcher, err := fleet.NewLocal(worker, fleet.LocalOptions{Workers: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dispatcher.Close()

	ctx := context.Background()
	c := &fleet.Client{Dispatcher: dispatcher, Store: store}
	t := g.Thread("o-1")
	snap, err := fleet.Invoke(ctx, c, t, t.Input(func(o *order) error {
		o.Item = "a bicycle"
		return nil
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(snap.Interrupts[0].Value)
	snap, err = fleet.Invoke(ctx, c, t, t.Answer(true))
	fmt.Println(snap.State.Done.Slice(), err)
	// Output:
	// Send a bicycle?
	// [checked a bicycle sent a bicycle] <nil>
}
