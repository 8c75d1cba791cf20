// Package example has the graphs on which the studio is tried: a conversation
// with tools that need approval, a booking that asks, a survey with several
// questions, a slow count, graphs with subgraphs, one that fails, one that is
// configured, one with a large state and a long history, and one that sleeps.
package example

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/agent/calls"
	"github.com/superstep-dev/superstep/chat"
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
	survey, err6 := Survey()
	letter, err7 := Letter()
	greet, err8 := Greet()
	archive, err9 := Archive()
	nap, err10 := Nap()
	if err := errors.Join(err, err2, err3, err4, err5, err6, err7, err8, err9, err10); err != nil {
		return nil, err
	}
	return []server.Option{
		server.Graph(chat, server.Describe("Sends mail, when it is allowed to")),
		server.Graph(booking, server.Describe("Plans a journey and asks before it books")),
		server.Graph(count, server.Describe("Counts, slowly")),
		server.Graph(report, server.Describe("Researches and writes, in two subgraphs")),
		server.Graph(broken, server.Describe("Fails at its second step")),
		server.Graph(survey, server.Describe("Asks two questions at once")),
		server.Graph(letter, server.Describe("Asks within a subgraph, or fails there")),
		server.Graph(greet, server.Describe("Greets in the tone that is configured")),
		server.Graph(archive, server.Describe("Has much to keep, in many steps")),
		server.Graph(nap, server.Describe("Sleeps for a while")),
		server.AskAgain(func(context.Context, *calls.Call) (model.Model, error) { return echo(), nil }),
	}, nil
}

// echo is a model that says how much it was asked.
func echo() model.Model {
	return model.Func(func(_ context.Context, req *model.Request) (*model.Response, error) {
		m := chat.Assistant(fmt.Sprintf("You sent %d messages.", len(req.Messages)))
		m.Usage = &chat.Usage{Input: 12, Output: 4}
		return &model.Response{Message: m}, nil
	})
}

type mail struct {
	To   string `json:"to" jsonschema:"the address"`
	Text string `json:"text" jsonschema:"what to write"`
}

type place struct {
	City string `json:"city"`
}

type file struct {
	Name string `json:"name" jsonschema:"which file"`
}

// Chat is an agent with tools that may be called only when somebody allows it,
// and one that may be called at any time.
func Chat() (*graph.Graph[agent.State], error) {
	send := tool.New("send_mail", "Sends a mail.", func(_ context.Context, m mail) (string, error) { return "sent to " + m.To, nil })
	remove := tool.New("delete_file", "Deletes a file for good.", func(_ context.Context, f file) (string, error) { return f.Name + " is gone", nil })
	weather := tool.New("weather", "Tells the weather.", func(ctx context.Context, p place) (map[string]any, error) {
		return map[string]any{"city": p.City, "sky": "clear", "celsius": 21}, graph.Emit(ctx, map[string]any{"looked_up": p.City})
	})
	said := func(text string) func(*model.Request) bool { return scripted.Says(text) }
	usage := chat.Usage{Input: 412, Output: 23}
	like, _ := model.KnownModels().Named("openai", "gpt-5-mini") // so that it has a price
	return agent.New(agent.ReAct[agent.State]{
		Name: "chat", Tools: []tool.Tool{send, remove, weather},
		Approve: []agent.Approval{
			{Tool: "send_mail"},
			{Tool: "delete_file", Allowed: []agent.DecisionType{agent.ApproveCall, agent.RejectCall, agent.RespondCall}},
		},
		Model: model.WithCapabilities(scripted.New(
			scripted.Text("Both are dealt with, as you decided. Is there more to do?").When(scripted.Returned("delete_file")).Every(10*time.Millisecond).Usage(usage).Repeat(),
			scripted.Text("The mail to Kim is on its way. Is there anything else that I can do for you?").When(scripted.Returned("send_mail")).Every(15*time.Millisecond).Usage(usage).Repeat(),
			scripted.Text("It is clear in Bonn, at 21 degrees: a fine day for a walk along the Rhine.").When(scripted.Returned("weather")).Every(15*time.Millisecond).Usage(usage).Repeat(),
			scripted.Calls(
				chat.ToolCall{Name: "send_mail", Args: `{"to":"kim@example.com","text":"The draft is gone."}`},
				chat.ToolCall{Name: "delete_file", Args: `{"name":"draft.txt"}`},
			).When(said("tidy up")).Usage(usage).Repeat(),
			scripted.Call("send_mail", `{"to":"kim@example.com","text":"The train leaves at nine."}`).When(said("mail")).Usage(usage).Repeat(),
			scripted.Call("weather", `{"city":"Bonn"}`).When(said("weather")).Usage(usage).Repeat(),
			scripted.Text("Once upon a time there was a river"+strings.Repeat(" and it flowed and flowed", 200)+".").When(said("story")).Every(150*time.Millisecond).Usage(usage).Repeat(), // for minutes: until somebody stops it
			scripted.Text("Hello! I can **send mails** and tell the weather. What shall it be today?").Every(150*time.Millisecond).Usage(usage).Repeat(),
		), like),
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
		case <-time.After(250 * time.Millisecond):
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
	say := func(name string, takes time.Duration) func(context.Context, *Text) error {
		return func(ctx context.Context, s *Text) error {
			select {
			case <-time.After(takes):
			case <-ctx.Done():
				return ctx.Err()
			}
			s.Facts.Add(name + " on " + s.Topic)
			return nil
		}
	}
	research := graph.New[Text]("research")
	research.AddNode("search", say("what was found", 6*time.Second))
	research.AddNode("ask", say("what was said", 6*time.Second))
	research.AddNode("sum", say("the sum", 100*time.Millisecond), graph.Defer())
	research.AddEdge(graph.Start, "search")
	research.AddEdge(graph.Start, "ask")
	research.AddJoin([]string{"search", "ask"}, "sum")
	inner, err := research.Compile()
	if err != nil {
		return nil, err
	}
	write := graph.New[Text]("writing")
	write.AddNode("draft", say("a draft", 100*time.Millisecond))
	write.AddNode("revise", say("a better draft", 100*time.Millisecond))
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

// Answers is the state of Survey.
type Answers struct {
	Party   graph.Value[Party]  `json:"party"`
	Remark  graph.Value[string] `json:"remark"`
	Summary string              `json:"summary"`
}

// Party is an answer with parts of its own.
type Party struct {
	Guests int      `json:"guests" jsonschema:"how many come"`
	Menu   string   `json:"menu"`
	Names  []string `json:"names"`
	Where  place    `json:"where"`
}

// Survey asks for something with a schema and for anything.
func Survey() (*graph.Graph[Answers], error) {
	schema := json.RawMessage(`{"type":"object","required":["guests","menu"],"properties":{
		"guests":{"type":"integer","minimum":1,"maximum":12,"description":"how many come"},
		"menu":{"type":"string","enum":["fish","vegetables"]},
		"names":{"type":"array","items":{"type":"string"}},
		"where":{"type":"object","properties":{"city":{"type":"string","pattern":"^[A-Z]","description":"with a capital letter"}}}}}`)
	b := graph.New[Answers]("survey")
	b.AddNode("party", func(ctx context.Context, s *Answers) error {
		p, err := graph.Interrupt[Party](ctx, "party", "Who comes to the party?", graph.AnswerSchema(schema))
		if err == nil {
			s.Party.Set(p)
		}
		return err
	})
	b.AddNode("remark", func(ctx context.Context, s *Answers) error {
		v, err := graph.Interrupt[any](ctx, "remark", map[string]any{"question": "Anything else?"})
		if err == nil {
			s.Remark.Set(fmt.Sprint(v))
		}
		return err
	})
	b.AddNode("sum", func(_ context.Context, s *Answers) error {
		p := s.Party.Get()
		s.Summary = fmt.Sprintf("%d guests eat %s; remark: %s", p.Guests, p.Menu, s.Remark.Get())
		return nil
	})
	b.AddEdge(graph.Start, "party").AddEdge(graph.Start, "remark")
	b.AddJoin([]string{"party", "remark"}, "sum")
	return b.Compile()
}

// Letter asks within its subgraph, and fails there if it has no topic.
func Letter() (*graph.Graph[Text], error) {
	in := graph.New[Text]("writer")
	in.AddNode("draft", func(_ context.Context, s *Text) error {
		s.Facts.Add("a draft on " + s.Topic)
		return nil
	})
	in.AddNode("check", func(ctx context.Context, s *Text) error {
		if s.Topic == "" {
			return errors.New("a letter needs a topic")
		}
		word, err := graph.Interrupt[string](ctx, "word", "How shall the letter end?")
		s.Text = "On " + s.Topic + ". " + word
		return err
	})
	in.AddEdge(graph.Start, "draft").AddEdge("draft", "check")
	writer, err := in.Compile()
	if err != nil {
		return nil, err
	}
	b := graph.New[Text]("letter")
	graph.AddSubgraph(b, "writer", writer, graph.Mapping[Text, Text]{
		In:  func(p, c *Text) { c.Topic = p.Topic },
		Out: func(c, p *Text) { p.Text = c.Text },
	})
	b.AddNode("post", func(_ context.Context, s *Text) error {
		s.Facts.Add("posted")
		return nil
	})
	b.AddEdge(graph.Start, "writer").AddEdge("writer", "post")
	return b.Compile()
}

// Greeting is the state of Greet.
type Greeting struct {
	Name string `json:"name"`
	Said string `json:"said"`
}

// Manner is what Greet is configured with.
type Manner struct {
	Tone string `json:"tone" jsonschema:"how to say it"`
}

// Greet says a word that is configured.
func Greet() (*graph.Graph[Greeting], error) {
	b := graph.New[Greeting]("greet")
	b.AddNode("choose", func(ctx context.Context, s *Greeting) error {
		if s.Name == "" {
			s.Name = "world"
		}
		return nil
	})
	b.AddNode("say", func(ctx context.Context, s *Greeting) error {
		manner, err := graph.Configured[Manner](ctx)
		s.Said = "a " + manner.Tone + " hello to " + s.Name
		return err
	})
	b.AddEdge(graph.Start, "choose").AddEdge("choose", "say")
	return b.Compile(graph.Configurable(Manner{Tone: "plain"}))
}

// Files is the state of Archive.
type Files struct {
	Steps     int                `json:"steps" jsonschema:"how many steps to make"`
	Kilobytes int                `json:"kilobytes" jsonschema:"how much to keep"`
	Done      int                `json:"done"`
	Pages     graph.List[string] `json:"pages"`
}

// Archive fills its state at its first step and then makes many small ones.
func Archive() (*graph.Graph[Files], error) {
	b := graph.New[Files]("archive")
	b.AddNode("file", func(_ context.Context, s *Files) error {
		for s.Pages.Len() < s.Kilobytes {
			s.Pages.Add(fmt.Sprintf("page %d ", s.Pages.Len()+1) + strings.Repeat("lorem ipsum dolor sit amet. ", 37))
		}
		s.Done++
		return nil
	})
	b.AddEdge(graph.Start, "file")
	b.AddRoutes("file", func(_ context.Context, s *Files) (string, error) {
		if s.Done < s.Steps {
			return "again", nil
		}
		return "done", nil
	}, map[string]string{"again": "file", "done": graph.End})
	return b.Compile(graph.MaxSteps(2000))
}

// Rest is the state of Nap.
type Rest struct {
	How string `json:"how"`
}

// Nap sleeps without a run: the server wakes it up when the event alarm is sent, or
// after an hour.
func Nap() (*graph.Graph[Rest], error) {
	b := graph.New[Rest]("nap")
	b.AddNode("sleep", func(ctx context.Context, _ *Rest) error {
		_, err := graph.WaitFor[any](ctx, "", "alarm", graph.Deadline(time.Hour))
		if _, late := errors.AsType[*graph.DeadlineError](err); late {
			return nil
		}
		return err
	})
	b.AddNode("rise", func(_ context.Context, s *Rest) error {
		s.How = "slept well"
		return nil
	})
	b.AddEdge(graph.Start, "sleep").AddEdge("sleep", "rise")
	return b.Compile()
}
