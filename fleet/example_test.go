package fleet_test

import (
	"context"
	"fmt"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/fleet"
	"github.com/superstep-dev/superstep/graph"
)

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
