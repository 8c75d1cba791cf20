package a2a_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	proto "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"

	"github.com/superstep-dev/superstep/a2a"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server"
)

// A graph is an agent to all that speak the protocol.
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
	g := b.AddEdge(graph.Start, "pay").MustCompile()
	ctx := context.Background()

	//snippet:serve
	s, err := server.New(ctx, server.Graph(g, server.Describe("Orders things.")))
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close(ctx)
	h := a2a.Handler(s, a2a.Options{
		URL: "https://agents.example.com",
		Card: func(card *proto.AgentCard) {
			card.Provider = &proto.AgentProvider{Org: "Example", URL: "https://example.com"}
		},
	})
	web := httptest.NewServer(h) // or http.ListenAndServe
	//snippet:end
	defer web.Close()

	send := func(message string) (task struct {
		ID     string
		Status struct{ State string }
	}) {
		r, err := http.NewRequest("POST", web.URL+"/a2a/order", strings.NewReader(`{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": `+message+`}}`))
		if err != nil {
			log.Fatal(err)
		}
		r.Header.Set("A2A-Version", "1.0")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			log.Fatal(err)
		}
		defer resp.Body.Close()
		var answer struct {
			Result struct{ Task json.RawMessage }
		}
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
			log.Fatal(err)
		}
		if err := json.Unmarshal(answer.Result.Task, &task); err != nil {
			log.Fatal(err)
		}
		return task
	}
	task := send(`{"messageId": "m1", "role": "ROLE_USER", "parts": [{"data": {"item": "a chair"}}]}`)
	fmt.Println(task.Status.State)
	task = send(`{"messageId": "m2", "role": "ROLE_USER", "taskId": "` + task.ID + `", "parts": [{"data": true}]}`)
	fmt.Println(task.Status.State)
	// Output:
	// TASK_STATE_INPUT_REQUIRED
	// TASK_STATE_COMPLETED
}

// An agent that is elsewhere is a node of a graph here.
func ExampleAddAgent() {
	type order struct {
		Item string `json:"item"`
		Paid bool   `json:"paid"`
	}
	b := graph.New[order]("order")
	b.AddNode("pay", func(ctx context.Context, s *order) (err error) {
		s.Paid, err = graph.Interrupt[bool](ctx, "pay", "Pay for "+s.Item+"?")
		return err
	})
	ctx := context.Background()
	s, err := server.New(ctx, server.Graph(b.AddEdge(graph.Start, "pay").MustCompile()))
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close(ctx)
	web := httptest.NewServer(a2a.Handler(s, a2a.Options{}))
	defer web.Close()

	//snippet:node
	type Errand struct {
		Wish string
		Done graph.List[string]
	}
	card, err := agentcard.DefaultResolver.Resolve(ctx, web.URL) // or https://orders.example.com
	if err != nil {
		log.Fatal(err)
	}
	c, err := a2aclient.NewFromCard(ctx, card)
	if err != nil {
		log.Fatal(err)
	}
	errands := graph.New[Errand]("errands")
	a2a.AddAgent(errands, "order", a2a.Agent[Errand]{
		Client: c,
		Message: func(_ context.Context, s *Errand) ([]*proto.Part, error) {
			return []*proto.Part{proto.NewDataPart(map[string]string{"item": s.Wish})}, nil
		},
		Output: func(_ context.Context, s *Errand, t *proto.Task) error {
			for _, made := range t.Artifacts {
				s.Done.Add(fmt.Sprint(made.Name, " ", made.Parts[0].Data()))
			}
			return nil
		},
	})
	g := errands.AddEdge(graph.Start, "order").MustCompile(graph.WithCheckpointer(checkpoint.NewMemory()))

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
	// [values map[item:a chair paid:true]] <nil>
}
