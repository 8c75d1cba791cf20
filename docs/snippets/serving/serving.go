// Package serving is the program of the page about the server, whose tests send
// the requests of that page to it.
package serving

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/agent/calls"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/server"
)

// Trip is the state of a graph that asks before it books.
type Trip struct {
	Days     int                    `json:"days"`
	Costs    graph.Map[string, int] `json:"costs"`
	Booked   string                 `json:"booked"`
	Messages chat.History           `json:"messages"` // for who talks with it
}

func plan(ctx context.Context, s *Trip) error {
	for _, city := range []string{"Oslo", "Lisbon"} {
		s.Costs.Put(city, s.Days*(60+7*len(city)))
	}
	return advise(ctx) // by a model
}

func book(ctx context.Context, s *Trip) error {
	city, err := graph.Interrupt[string](ctx, "city", "Which city shall it be?")
	if err != nil {
		return err
	}
	s.Booked = fmt.Sprintf("%d days in %s", s.Days, city)
	return nil
}

var adviser = model.Func(func(context.Context, *model.Request) (*model.Response, error) {
	return &model.Response{Message: chat.Assistant("Lisbon is warmer.")}, nil
})

// advise asks a model, as an agent does.
func advise(ctx context.Context) error {
	_, err := agent.Generate(ctx, "advice", adviser, &model.Request{Messages: []chat.Message{chat.User("Oslo or Lisbon?")}})
	return err
}

// Graph compiles it.
func Graph() (*graph.Graph[Trip], error) {
	b := graph.New[Trip]("trip")
	b.AddNode("plan", plan)
	b.AddNode("book", book)
	b.AddEdge(graph.Start, "plan").AddEdge("plan", "book")
	return b.Compile()
}

//snippet:serve

// Serve serves the graph until the context ends, such as one of signal.NotifyContext.
func Serve(ctx context.Context, l net.Listener, data string) error {
	g, err := Graph()
	if err != nil {
		return err
	}
	s, err := server.New(ctx,
		server.Graph(g, server.Describe("Compares cities, then asks which one to book.")),
		server.Data(data), // such as sqlite:trips.db
		server.AskAgain(func(context.Context, *calls.Call) (model.Model, error) { return adviser, nil }),
	)
	if err != nil {
		return err
	}
	h := server.HTTPServer(s)
	failed := make(chan error, 1)
	go func() { failed <- h.Serve(l) }()
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	s.Drain(wait) // runs finish their superstep, and streams end
	return errors.Join(err, h.Shutdown(wait), s.Close(wait))
}

//snippet:end
