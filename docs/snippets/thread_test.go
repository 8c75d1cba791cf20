package snippets_test

import (
	"errors"
	"fmt"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// tea is an input: it orders tea, once.
func tea(s *Order) error {
	if s.Item != "" {
		return errors.New("there is an order already")
	}
	s.Item, s.Price = "tea", 4
	return nil
}

func Example_handle() {
	g := compileOrder(confirm)
	//snippet:handle
	t := g.Thread("t-1", graph.Metadata("user", "ann")) // a handle
	snap, err := t.Invoke(ctx, t.Input(tea))
	fmt.Println(snap.Interrupts[0].Value, err)

	asked := t.At(snap.Checkpoint) // another one, to the same thread as it is now
	snap, err = t.Invoke(ctx, t.Answer(true))
	fmt.Println(snap.State.Bought, err)

	snap, err = asked.Invoke(ctx, t.Answer(false)) // the other answer, on a branch
	fmt.Println(snap.State.Bought, err)

	_, err = t.Invoke(ctx, t.Input(tea)) // the thread has ended: another turn, which tea refuses
	fmt.Println(err)
	//snippet:end
	// Output:
	// Buy tea for 4? <nil>
	// true <nil>
	// false <nil>
	// there is an order already
}

func Example_jsonView() {
	b := graph.New[Ticket]("ticket")
	b.AddNode("read", visit("read"))
	b.AddEdge(graph.Start, "read")
	g := b.MustCompile(graph.WithCheckpointer(checkpoint.NewMemory()))
	//snippet:json
	t := graph.JSON(g).Thread("t-1") // a *graph.Thread[json.RawMessage]
	snap, err := t.Invoke(ctx, t.Input(graph.UpdateWith([]byte(`{"Text": "help", "Trail": ["sent"]}`))))
	fmt.Println(string(snap.State), err)

	typed, err := g.Thread("t-1").State(ctx) // the same thread
	fmt.Println(typed.State.Trail, err)
	//snippet:end
	// Output:
	// {"Text":"help","Urgent":false,"Trail":["sent","read"],"Priority":0} <nil>
	// [sent read] <nil>
}
