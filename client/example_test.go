package client_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/superstep-dev/superstep/client"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server"
)

// A run is followed until it asks, and resumed with the answer.
func Example() {
	type order struct {
		Item string `json:"item"`
		Paid bool   `json:"paid"`
	}
	b := graph.New[order]("order")
	b.AddNode("pay", func(ctx context.Context, s *order) (err error) {
		s.Paid, err = graph.Interrupt[bool](ctx, "pay", "Pay for "+s.Item+"?")
		return err
	})
	b.AddEdge(graph.Start, "pay")
	ctx := context.Background()
	s, err := server.New(ctx, server.Graph(b.MustCompile()))
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close(ctx)
	web := httptest.NewServer(s)
	defer web.Close()

	//snippet:run
	c, err := client.New(web.URL) // or the address of a server, such as http://localhost:8123
	if err != nil {
		log.Fatal(err)
	}
	thread, err := c.CreateThread(ctx, client.NewThread{})
	if err != nil {
		log.Fatal(err)
	}
	for ev, err := range c.Stream(ctx, thread.ID, client.RunRequest{
		Assistant: "order",
		Input:     map[string]string{"item": "a chair"},
		Modes:     []client.Mode{client.ModeUpdates},
	}) {
		if err != nil {
			log.Fatal(err)
		}
		if ev.Name == "updates" {
			state, err := c.State(ctx, thread.ID, false)
			if err != nil {
				log.Fatal(err)
			}
			for _, q := range state.Questions() {
				fmt.Println(string(q.Value))
			}
		}
	}
	out, err := c.Wait(ctx, thread.ID, client.RunRequest{Assistant: "order", Command: &client.Command{Resume: true}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(out.Values))
	//snippet:end
	// Output:
	// "Pay for a chair?"
	// {"item":"a chair","paid":true}
}
