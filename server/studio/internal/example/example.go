// Package example has the graphs on which the studio is tried: a conversation
// with a tool that needs approval, a booking that asks, a slow count, a graph
// with subgraphs and one that fails.
package example

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/server"
	"github.com/superstep-dev/superstep/tool"
)

// Options serves the graphs.
func Options() ([]server.Option, error) {
	chat, err := Chat()
	booking, err2 := Booking()
	count, err3 := Count()
	report, err4 := Report()
	broken, err5 := Broken()
	if err := errors.Join(err, err2, err3, err4, err5); err != nil {
		return nil, err
	}
	return []server.Option{
		server.Graph(chat, server.Describe("Sends mail, when it is allowed to")),
		server.Graph(booking, server.Describe("Plans a journey and asks before it books")),
		server.Graph(count, server.Describe("Counts, slowly")),
		server.Graph(report, server.Describe("Researches and writes, in two subgraphs")),
		server.Graph(broken, server.Describe("Fails at its second step")),
	}, nil
}

type mail struct {
	To   string `json:"to" jsonschema:"the address"`
	Text string `json:"text" jsonschema:"what to write"`
}

type place struct {
	City string `json:"city"`
}

// Chat is an agent with a tool that may be called only when somebody allows it,
// and one that may be called at any time.
func Chat() (*graph.Graph[agent.State], error) {
	send := tool.New("send_mail", "Sends a mail.", func(_ context.Context, m mail) (string, error) { return "sent to " + m.To, nil })
	weather := tool.New("weather", "Tells the weather.", func(ctx context.Context, p place) (map[string]any, error) {
		return map[string]any{"city": p.City, "sky": "clear", "celsius": 21}, graph.Emit(ctx, map[string]any{"looked_up": p.City})
	})
	said := func(text string) func(*model.Request) bool { return scripted.Says(text) }
	return agent.New(agent.ReAct[agent.State]{
		Name: "chat", Tools: []tool.Tool{send, weather}, Approve: agent.Approve("send_mail"),
		Model: scripted.New(
			scripted.Text("The mail to Kim is on its way. Is there anything else that I can do for you?").When(scripted.Returned("send_mail")).Every(25*time.Millisecond).Repeat(),
			scripted.Text("It is clear in Bonn, at 21 degrees: a fine day for a walk along the Rhine.").When(scripted.Returned("weather")).Every(25*time.Millisecond).Repeat(),
			scripted.Call("send_mail", `{"to":"kim@example.com","text":"The train leaves at nine."}`).When(said("mail")).Repeat(),
			scripted.Call("weather", `{"city":"Bonn"}`).When(said("weather")).Repeat(),
			scripted.Text("Hello! I can send mails and tell the weather. What shall it be today?").Every(80*time.Millisecond).Repeat(),
		),
	})
}

// Journey is the state of Booking.
type Journey struct {
	City   string             `json:"city" jsonschema:"where to go"`
	Nights int                `json:"nights" jsonschema:"how long to stay"`
	Class  string             `json:"class" enum:"simple,fine"`
	Steps  graph.List[string] `json:"steps"`
	Booked bool               `json:"booked"`
}

// Booking asks before it books.
func Booking() (*graph.Graph[Journey], error) {
	b := graph.New[Journey]("booking")
	b.AddNode("plan", func(ctx context.Context, s *Journey) error {
		if s.City == "" {
			s.City = "Ulm"
		}
		s.Nights = max(s.Nights, 1)
		s.Steps.Add(fmt.Sprintf("planned %d nights in %s", s.Nights, s.City))
		return nil
	})
	b.AddNode("book", func(ctx context.Context, s *Journey) error {
		yes, err := graph.Interrupt[bool](ctx, "sure", map[string]any{"question": "Book " + s.City + "?", "nights": s.Nights})
		if err != nil {
			return err
		}
		s.Booked = yes
		return nil
	})
	b.AddNode("confirm", func(ctx context.Context, s *Journey) error {
		s.Steps.Add("booked " + s.City)
		return nil
	})
	b.AddNode("cancel", func(ctx context.Context, s *Journey) error {
		s.Steps.Add("did not book " + s.City)
		return nil
	})
	b.AddEdge(graph.Start, "plan")
	b.AddEdge("plan", "book")
	b.AddRoutes("book", func(ctx context.Context, s *Journey) (string, error) {
		if s.Booked {
			return "yes", nil
		}
		return "no", nil
	}, map[string]string{"yes": "confirm", "no": "cancel"})
	b.AddEdge("confirm", graph.End)
	b.AddEdge("cancel", graph.End)
	return b.Compile()
}

// Ticks is the state of Count.
type Ticks struct {
	Todo int `json:"todo" jsonschema:"how far to count"`
	Done int `json:"done"`
}

// Count takes some time for each number.
func Count() (*graph.Graph[Ticks], error) {
	b := graph.New[Ticks]("count")
	b.AddNode("tick", func(ctx context.Context, s *Ticks) error {
		select {
		case <-time.After(400 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
		s.Done++
		return graph.Emit(ctx, map[string]int{"tick": s.Done})
	})
	b.AddEdge(graph.Start, "tick")
	b.AddRoutes("tick", func(ctx context.Context, s *Ticks) (string, error) {
		if s.Done < s.Todo {
			return "again", nil
		}
		return "done", nil
	}, map[string]string{"again": "tick", "done": graph.End})
	return b.Compile(graph.MaxSteps(1000))
}

// Text is the state of Report and of its subgraphs.
type Text struct {
	Topic string             `json:"topic"`
	Facts graph.List[string] `json:"facts"`
	Text  string             `json:"text"`
}

// Report works in two subgraphs.
func Report() (*graph.Graph[Text], error) {
	say := func(name string) func(context.Context, *Text) error {
		return func(ctx context.Context, s *Text) error {
			select {
			case <-time.After(300 * time.Millisecond):
			case <-ctx.Done():
				return ctx.Err()
			}
			s.Facts.Add(name + " on " + s.Topic)
			return nil
		}
	}
	research := graph.New[Text]("research")
	research.AddNode("search", say("what was found"))
	research.AddNode("ask", say("what was said"))
	research.AddNode("sum", say("the sum"), graph.Defer())
	research.AddEdge(graph.Start, "search")
	research.AddEdge(graph.Start, "ask")
	research.AddJoin([]string{"search", "ask"}, "sum")
	inner, err := research.Compile()
	if err != nil {
		return nil, err
	}
	write := graph.New[Text]("writing")
	write.AddNode("draft", say("a draft"))
	write.AddNode("revise", say("a better draft"))
	write.AddEdge(graph.Start, "draft")
	write.AddEdge("draft", "revise")
	writing, err := write.Compile()
	if err != nil {
		return nil, err
	}
	whole := graph.Mapping[Text, Text]{
		In: func(p, c *Text) { c.Topic = p.Topic },
		Out: func(c, p *Text) {
			for _, f := range c.Facts.All() {
				p.Facts.Add(f)
			}
		},
	}
	b := graph.New[Text]("report")
	graph.AddSubgraph(b, "research", inner, whole)
	graph.AddSubgraph(b, "write", writing, whole)
	b.AddNode("publish", func(ctx context.Context, s *Text) error {
		s.Text = fmt.Sprintf("%s: %d facts", s.Topic, s.Facts.Len())
		return nil
	})
	b.AddEdge(graph.Start, "research")
	b.AddEdge("research", "write")
	b.AddEdge("write", "publish")
	b.AddEdge("publish", graph.End)
	return b.Compile()
}

// Broken fails at its second step.
func Broken() (*graph.Graph[Ticks], error) {
	b := graph.New[Ticks]("broken")
	b.AddNode("first", func(ctx context.Context, s *Ticks) error { s.Done++; return nil })
	b.AddNode("second", func(ctx context.Context, s *Ticks) error { return errors.New("the kettle is empty") })
	b.AddEdge(graph.Start, "first")
	b.AddEdge("first", "second")
	return b.Compile()
}
