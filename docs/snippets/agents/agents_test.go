package agents_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/agent/calls"
	"github.com/superstep-dev/superstep/agent/middleware"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/openai"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/mcp"
)

// City is what the tool is asked for.
type City struct {
	Name string `json:"name" jsonschema:"the city, in English"`
}

func weatherTool() tool.Tool {
	return tool.New("weather", "Tells the weather of a city.", func(ctx context.Context, in City) (string, error) {
		if in.Name != "Bern" {
			return "", errors.New("no weather is known for " + in.Name)
		}
		return "2 degrees, snow", nil
	})
}

// weatherModel answers from a script.
func weatherModel() model.Model {
	return scripted.New(scripted.Call("weather", `{"name": "Bern"}`), scripted.Text("Yes: it snows."))
}

func Example_agent() {
	a, err := agent.New(agent.ReAct[agent.State]{
		Model: scripted.New(scripted.Call("weather", `{"name": "Bern"}`), scripted.Text("Yes: it snows.")),
		Tools: []tool.Tool{weatherTool()},
	})
	if err != nil {
		panic(err)
	}
	snap, err := a.Invoke(context.Background(), agent.Ask[agent.State]("Do I need a coat in Bern?"))
	if err != nil {
		panic(err)
	}
	fmt.Println(snap.State.LastResponse)
	fmt.Print(snap.State.Messages)
	// Output:
	// Yes: it snows.
	// user: Do I need a coat in Bern?
	// assistant: weather({"name":"Bern"})
	// tool: 2 degrees, snow
	// assistant: Yes: it snows.
}

func Example_streaming() {
	a, err := agent.New(agent.ReAct[agent.State]{Model: weatherModel(), Tools: []tool.Tool{weatherTool()}})
	if err != nil {
		panic(err)
	}
	for ev, err := range a.Stream(context.Background(), agent.Ask[agent.State]("Do I need a coat in Bern?"), graph.Modes(graph.ModeMessages, graph.ModeTools)) {
		if err != nil {
			panic(err)
		}
		switch v := ev.Value.(type) {
		case chat.Chunk: // a token
			fmt.Print(v.Text)
		case tool.Started:
			fmt.Println("calling", v.Name, string(v.Args))
		case tool.Ended:
			fmt.Println(v.Name, "returned", v.Result.Text())
		}
	}
	fmt.Println()
	// Output:
	// calling weather {"name":"Bern"}
	// weather returned 2 degrees, snow
	// Yes: it snows.
}

func Example_approval() {
	pay := tool.New("pay", "Pays a bill.", func(ctx context.Context, in struct {
		Amount int `json:"amount"`
	}) (string, error) {
		return fmt.Sprint("paid ", in.Amount), nil
	})
	a, err := agent.New(agent.ReAct[agent.State]{
		Model:   scripted.New(scripted.Call("pay", `{"amount": 900}`), scripted.Text("Paid.")),
		Tools:   []tool.Tool{pay},
		Approve: agent.Approve("pay"),
	}, graph.WithCheckpointer(checkpoint.NewMemory()))
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	t := a.Thread("bill")
	snap, err := t.Invoke(ctx, t.Input(agent.Ask[agent.State]("Pay my bill of 900.")))
	if err != nil {
		panic(err)
	}
	var asked agent.ApprovalRequest
	if err := json.Unmarshal(snap.Interrupts[0].Raw, &asked); err != nil {
		panic(err)
	}
	fmt.Println(asked.Actions[0].Name, string(asked.Actions[0].Args))

	// Days later, perhaps in another process:
	snap, err = t.Invoke(ctx, t.Answer(asked.Answer(agent.Decision{Type: agent.ApproveCall})))
	if err != nil {
		panic(err)
	}
	fmt.Println(snap.State.LastResponse)
	// Output:
	// pay {"amount":900}
	// Paid.
}

// Trip is a state of the user's own: the nodes of package agent work on the part
// that it embeds.
type Trip struct {
	agent.State
	Booked graph.List[string]
}

func Example_middleware() {
	brief := agent.OnRequest("brief", func(_ context.Context, _ *agent.State, req *model.Request) error {
		req.MaxTokens = 200
		return nil
	})
	a, err := agent.New(agent.ReAct[agent.State]{
		Model: weatherModel(),
		Tools: []tool.Tool{weatherTool()},
		Use: []agent.Middleware[agent.State]{
			middleware.GuardInput[agent.State](func(_ context.Context, text string) (string, error) {
				if strings.Contains(text, "password") {
					return "I don't talk about passwords.", nil
				}
				return "", nil
			}),
			middleware.LimitModel[agent.State](middleware.Limit{PerTurn: 20}),
			middleware.RetryTools[agent.State](middleware.Retry{Tools: []string{"weather"}}),
			brief,
		},
	})
	if err != nil {
		panic(err)
	}
	for _, text := range []string{"What is the password?", "Do I need a coat in Bern?"} {
		snap, err := a.Invoke(context.Background(), agent.Ask[agent.State](text))
		if err != nil {
			panic(err)
		}
		fmt.Println(snap.State.LastResponse)
	}
	// Output:
	// I don't talk about passwords.
	// Yes: it snows.
}

func Example_graph() {
	book := agent.NewStateTool("book", "Books a trip to a city.", func(ctx context.Context, s *Trip, in City) (string, graph.Command, error) {
		s.Booked.Add(in.Name)
		return "booked", graph.Command{}, nil
	})
	tools := []tool.Tool{book, weatherTool()}
	m := scripted.New(scripted.Call("book", `{"name": "Bern"}`), scripted.Text("Have a nice trip."))

	b := graph.New[Trip]("trip")
	agent.AddLLM(b, "ask", agent.LLM[Trip]{Model: m, Tools: tools, Instruction: "You book trips."})
	agent.AddTools(b, "tools", agent.Tools[Trip]{Tools: tools, OnError: agent.TellModel})
	b.AddNode("bill", func(ctx context.Context, s *Trip) error {
		fmt.Println("to be billed:", s.Booked)
		return nil
	})
	b.AddEdge(graph.Start, "ask").AddEdge("tools", "ask")
	agent.AddToolsConditionalEdges(b, "ask", "tools", "bill")
	g := b.MustCompile()

	snap, err := g.Invoke(context.Background(), agent.Ask[Trip]("Book me a trip to Bern."))
	if err != nil {
		panic(err)
	}
	fmt.Println(snap.State.LastResponse)
	// Output:
	// to be billed: [Bern]
	// Have a nice trip.
}

func Example_supervisor() {
	poet, err := agent.New(agent.ReAct[agent.State]{Name: "poet", Model: scripted.New(scripted.Text("Snow on the roofs,"))})
	if err != nil {
		panic(err)
	}
	meteorologist, err := agent.New(agent.ReAct[agent.State]{Name: "meteorologist", Model: weatherModel(), Tools: []tool.Tool{weatherTool()}})
	if err != nil {
		panic(err)
	}
	lead := scripted.New(
		scripted.Calls(
			chat.ToolCall{ID: "1", Name: "meteorologist", Args: `{"task": "the weather in Bern"}`},
			chat.ToolCall{ID: "2", Name: "poet", Args: `{"task": "a line about snow"}`},
		),
		scripted.Text("It snows. Snow on the roofs,"),
	)
	s, err := agent.NewSupervisor(agent.Supervisor{
		Model:  lead,
		Agents: []*agent.Agent{agent.Of(poet, "Writes poems."), agent.Of(meteorologist, "Knows the weather.")},
	})
	if err != nil {
		panic(err)
	}
	snap, err := s.Invoke(context.Background(), agent.Ask[agent.State]("A poem about the weather in Bern!"))
	if err != nil {
		panic(err)
	}
	fmt.Println(snap.State.LastResponse)
	// Output: It snows. Snow on the roofs,
}

// Forecast is the form of an answer.
type Forecast struct {
	City    string `json:"city"`
	Degrees int    `json:"degrees"`
}

func Example_structured() {
	out, err := model.OutputOf[Forecast]()
	if err != nil {
		panic(err)
	}
	a, err := agent.New(agent.ReAct[agent.State]{
		Model:  scripted.New(scripted.Call("weather", `{"name": "Bern"}`), scripted.Text("2 degrees."), scripted.Text(`{"city": "Bern", "degrees": 2}`)),
		Tools:  []tool.Tool{weatherTool()},
		Output: out,
	})
	if err != nil {
		panic(err)
	}
	snap, err := a.Invoke(context.Background(), agent.Ask[agent.State]("How cold is it in Bern?"))
	if err != nil {
		panic(err)
	}
	f, err := agent.Structured[Forecast](&snap.State)
	fmt.Printf("%+v %v\n", f, err)
	// Output: {City:Bern Degrees:2} <nil>
}

func Example_wrapped() {
	var budget model.Budget
	first := scripted.New(scripted.Error(&model.Error{Provider: "first", Kind: model.ErrorOverloaded}))
	second := scripted.New(scripted.Text("Here I am."))
	m := model.Budgeted(model.Fallback(first, second), &budget, model.Prices{})
	resp, err := m.Generate(context.Background(), &model.Request{Messages: []chat.Message{chat.User("Anybody there?")}})
	if err != nil {
		panic(err)
	}
	fmt.Println(resp.Message.Text())
	// Output: Here I am.
}

func Example_usage() {
	say := func(text string, in, out int) scripted.Reply {
		m := chat.Assistant(text)
		m.Model = "small-1" // as the provider names it
		return scripted.Message(m).Usage(chat.Usage{Input: in, Output: out})
	}
	poet, err := agent.New(agent.ReAct[agent.State]{Name: "poet", Model: scripted.New(say("Snow on the roofs,", 900, 100))})
	if err != nil {
		panic(err)
	}
	critic, err := agent.New(agent.ReAct[agent.State]{Name: "critic", Model: scripted.New(say("Good.", 1200, 10))})
	if err != nil {
		panic(err)
	}
	c, err := agent.Chain("review", []*agent.Agent{agent.Of(poet, ""), agent.Of(critic, "")})
	if err != nil {
		panic(err)
	}
	snap, err := c.Invoke(context.Background(), agent.Ask[agent.State]("A poem about the weather in Bern!"))
	if err != nil {
		panic(err)
	}
	used := snap.State.Usage.Get()
	fmt.Print(used)
	fmt.Println("together:", used.Total().Total(), "tokens")
	cost, err := used.Cost(map[string]model.Prices{"small-1": {Input: 0.5, Output: 2}}) // for a million tokens
	fmt.Printf("the poet: %d tokens; all of it costs %.4f, %v\n", used.Under("poet").Total().Total(), cost, err)
	// Output:
	// critic/agent small-1: 1 calls, 1200 tokens in, 10 out
	// poet/agent small-1: 1 calls, 900 tokens in, 100 out
	// together: 2210 tokens
	// the poet: 1000 tokens; all of it costs 0.0013, <nil>
}

func Example_modelEvents() {
	a, err := agent.New(agent.ReAct[agent.State]{Model: weatherModel(), Tools: []tool.Tool{weatherTool()}})
	if err != nil {
		panic(err)
	}
	for ev, err := range a.Stream(context.Background(), agent.Ask[agent.State]("Do I need a coat in Bern?"), agent.ModelEvents(), graph.Modes(graph.ModeCustom)) {
		if err != nil {
			panic(err)
		}
		switch v := ev.Value.(type) {
		case agent.ModelStarted:
			fmt.Println(ev.Node, "sends", len(v.Request.Messages), "messages")
		case agent.ModelEnded: // and v.Model, v.Usage, v.Duration
			fmt.Println(ev.Node, "has its answer:", v.Finish, v.Err)
		}
	}
	// Output:
	// agent sends 2 messages
	// agent has its answer: tool_calls <nil>
	// agent sends 4 messages
	// agent has its answer: stop <nil>
}

func Example_mcp() {
	ctx := context.Background()
	server, err := mcp.NewServer("weather", "1.0", weatherTool())
	if err != nil {
		panic(err)
	}
	defer server.Close()
	client, err := mcp.Connect(ctx, mcp.Config{Transport: server.Local(), Prefix: "bern_"}) // tools of other servers may have the same names
	if err != nil {
		panic(err)
	}
	defer client.Close()
	tools, err := client.Tools(ctx)
	if err != nil {
		panic(err)
	}
	a, err := agent.New(agent.ReAct[agent.State]{
		Model:   scripted.New(scripted.Call("bern_weather", `{"name": "Bern"}`), scripted.Text("Yes: it snows.")),
		Tools:   tools,
		OnError: agent.TellModelAll,
	})
	if err != nil {
		panic(err)
	}
	snap, err := a.Invoke(ctx, agent.Ask[agent.State]("Do I need a coat in Bern?"))
	if err != nil {
		panic(err)
	}
	fmt.Println(snap.State.LastResponse)
	// Output: Yes: it snows.
}

func Example_promptCache() {
	m := scripted.New(scripted.Text("By Mary Shelley.")) // for anthropic.New("claude-sonnet-4-5")
	book := "It was on a dreary night of November that I beheld …"
	resp, err := m.Generate(context.Background(), &model.Request{
		Messages: []chat.Message{{Role: chat.RoleUser, Parts: []chat.Part{chat.Text{Text: book}, chat.Text{Text: "Who wrote it?"}}}},
		Cache:    []model.CachePoint{{Message: 0, Parts: 1, TTL: time.Hour}}, // after the book
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(resp.Message.Text())
	// Output: By Mary Shelley.
}

func Example_capabilities() {
	table := model.KnownModels()
	table["our-model"] = model.Capabilities{Tools: true, Context: 32_768, Prices: model.Prices{Input: 0.5, Output: 2}}
	m := openai.New("our-model", openai.BaseURL("http://localhost:8000/v1"), openai.Capabilities(table))

	c, known := model.CapabilitiesOf(model.Retry(m, model.RetryPolicy{}), "")
	fmt.Println(known, c.Images, c.Context)
	fmt.Println(c.Prices.Cost(chat.Usage{Input: 10_000, Output: 500})) // table.Prices is what Usage.Cost takes
	// Output:
	// true false 32768
	// 0.006
}

func Example_calls() {
	ctx := context.Background()
	store := checkpoint.NewMemory()
	secret := regexp.MustCompile(`\b\d{4}-\d{4}\b`)
	a, err := agent.New(agent.ReAct[agent.State]{
		Instruction: "Be brief.",
		Model:       scripted.New(scripted.Text("It is on its way.").Usage(chat.Usage{Input: 30, Output: 5})),
	},
		graph.WithCheckpointer(store),
		calls.Redact(func(_ context.Context, c *calls.Call) bool {
			for _, m := range c.Request.Messages {
				for i, p := range m.Parts {
					if t, ok := p.(chat.Text); ok {
						m.Parts[i] = chat.Text{Text: secret.ReplaceAllString(t.Text, "****")}
					}
				}
			}
			return true // false leaves the call out
		}),
	)
	if err != nil {
		panic(err)
	}
	t := a.Thread("t-1")
	if _, err := t.Invoke(ctx, t.Input(agent.Ask[agent.State]("Where is parcel 4711-0815?"))); err != nil {
		panic(err)
	}
	for c, err := range calls.List(ctx, store, "t-1", calls.Query{}) {
		if err == nil {
			err = c.Load(ctx) // what was sent and answered
		}
		if err != nil {
			panic(err)
		}
		fmt.Println(c.Node, c.Step, c.Usage.Input, "tokens in,", c.Usage.Output, "out,", c.Finish)
		for _, m := range append(c.Request.Messages, *c.Answer) {
			fmt.Printf("%s: %s\n", m.Role, m.Text())
		}
	}
	// Output:
	// agent 1 30 tokens in, 5 out, stop
	// system: Be brief.
	// user: Where is parcel ****?
	// assistant: It is on its way.
}
