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

func Example_inputAndOutput() {
	//snippet:ends
	type Mail struct {
		Subject string `json:"subject"`
		Body    string `json:"body,omitempty"`
	}
	type Receipt struct {
		Number int `json:"number"`
	}
	take := func(s *Ticket, in Mail) error {
		if in.Subject == "" {
			return errors.New("a mail without a subject")
		}
		s.Text = in.Subject
		return nil
	}
	give := func(s *Ticket) Receipt { return Receipt{Number: s.Trail.Len()} }

	b := graph.New[Ticket]("ticket")
	graph.SetInput(b, take)  // of what comes from outside
	graph.SetOutput(b, give) // of what a run gives to its caller
	b.AddNode("read", visit("read"))
	b.AddEdge(graph.Start, "read")
	g := b.MustCompile(graph.WithCheckpointer(checkpoint.NewMemory()))

	t := graph.JSON(g).Thread("t-1")
	snap, err := t.Invoke(ctx, t.Input(graph.UpdateWith([]byte(`{"subject": "help"}`))))
	out, _ := snap.OutputJSON()
	fmt.Println(string(out), err)
	fmt.Println(string(snap.State)) // the thread keeps all of it
	_, err = t.Edit(ctx, graph.UpdateWith([]byte(`{"Priority": 2}`)))
	fmt.Println(err) // an edit is an update of the state

	mail := Mail{Subject: "more help"} // in Go
	typed, err := g.Thread("t-2").Invoke(ctx, g.Input(func(s *Ticket) error { return take(s, mail) }))
	fmt.Println(give(&typed.State).Number, err)
	//snippet:end
	// Output:
	// {"number":1} <nil>
	// {"Text":"help","Urgent":false,"Trail":["read"],"Priority":0}
	// <nil>
	// 1 <nil>
}
