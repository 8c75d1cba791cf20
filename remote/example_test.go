package remote_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/client"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/remote"
	"github.com/superstep-dev/superstep/server"
)

// Order is the state of a graph that another server serves.
type Order struct {
	Item string `json:"item"`
	Paid bool   `json:"paid"`
}

// A graph of a server is a node of one here, and what it asks is asked here.
func Example() {
	b := graph.New[Order]("order")
	b.AddNode("pay", func(ctx context.Context, s *Order) (err error) {
		s.Paid, err = graph.Interrupt[bool](ctx, "pay", "Pay for "+s.Item+"?")
		return err
	})
	b.AddEdge(graph.Start, "pay")
	ctx := context.Background()
	srv, err := server.New(ctx, server.Graph(b.MustCompile()), server.WithoutStudio())
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close(ctx)
	web := httptest.NewServer(srv)
	defer web.Close()

	//snippet:node
	type Errand struct {
		Wish string
		Done bool
	}
	c, err := client.New(web.URL) // or the address of a server, such as https://orders.example.com
	if err != nil {
		log.Fatal(err)
	}
	errands := graph.New[Errand]("errands")
	remote.AddGraph(errands, "order", remote.Graph[Errand, map[string]string, Order]{
		Client: c, Assistant: "order",
		Input: func(_ context.Context, s *Errand) (map[string]string, error) {
			return map[string]string{"item": s.Wish}, nil
		},
		Output: func(_ context.Context, s *Errand, o Order) error { s.Done = o.Paid; return nil },
	})
	errands.AddEdge(graph.Start, "order")
	g := errands.MustCompile(graph.WithCheckpointer(checkpoint.NewMemory()))

	t := g.Thread("t-1")
	snap, err := t.Invoke(ctx, t.Input(func(s *Errand) error { s.Wish = "a chair"; return nil }))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(snap.Interrupts[0].Key, "-", snap.Interrupts[0].Value)
	snap, err = t.Invoke(ctx, t.Answer(true)) // days later, in another process
	fmt.Println(snap.State.Done, err)
	//snippet:end
	// Output:
	// pay - Pay for a chair?
	// true <nil>
}
