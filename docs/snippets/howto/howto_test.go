package howto_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/agent/middleware"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

// Pages is a batch: what is to be done, and what came of it.
type Pages struct {
	Names  graph.List[string]
	Words  graph.Map[string, int]
	Failed graph.Map[string, string]
	Done   graph.Sum[int]
}

// counting counts the words of pages, read by a function that may fail.
func counting(read func(name string) (string, error)) *graph.Builder[Pages] {
	b := graph.New[Pages]("counting")
	count := graph.AddTask(b, "count", func(ctx context.Context, s *Pages, name string) error {
		text, err := read(name)
		switch {
		case errors.Is(err, errNotText): // no attempt helps: note it, and go on with the others
			s.Failed.Put(name, err.Error())
		case err != nil: // the batch stops here, and goes on here
			return err
		default:
			s.Words.Put(name, len(strings.Fields(text)))
		}
		s.Done.Add(1)
		return graph.Emit(ctx, name) // progress
	})
	b.AddConditionalEdges(graph.Start, func(_ context.Context, s *Pages) (graph.Command, error) {
		var sends []graph.Send
		for _, name := range s.Names.All() {
			sends = append(sends, count.Send(name))
		}
		return graph.Dispatch(sends...), nil
	}, "count")
	return b
}

var errNotText = errors.New("it is no text")

func Example_batch() {
	online := false
	var asked []string
	read := func(name string) (string, error) {
		asked = append(asked, name)
		switch name {
		case "b.png":
			return "", errNotText
		case "d.md":
			if !online {
				return "", errors.New("the network is down")
			}
		}
		return "some words of " + name, nil
	}
	dir, err := os.MkdirTemp("", "batch")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	//snippet:batch
	store, err := sqlite.Open(filepath.Join(dir, "batch.db"))
	if err != nil {
		panic(err)
	}
	defer store.Close()
	g, err := counting(read).Compile(
		graph.WithCheckpointer(store),
		graph.Concurrency(1), // as many as the service allows at a time
	)
	if err != nil {
		panic(err)
	}
	t := g.Thread("pages-2027-01")
	work := func(ctx context.Context, req graph.Request[Pages]) error {
		done := 0
		for ev, err := range t.Stream(ctx, req, graph.Modes(graph.ModeCustom)) {
			if err != nil {
				return err
			}
			done++
			fmt.Println(done, ev.Value)
		}
		return nil
	}

	ctx := context.Background()
	err = work(ctx, t.Input(func(s *Pages) error {
		s.Names.Add("a.md", "b.png", "c.md", "d.md", "e.md")
		return nil
	}))
	fmt.Println("stopped:", err != nil)

	// An hour later, in this process or in another:
	online = true
	err = work(ctx, t.Continue())
	snap, stateErr := t.State(ctx)
	if err != nil || stateErr != nil {
		panic(errors.Join(err, stateErr))
	}
	fmt.Println(snap.State.Done, "done,", snap.State.Words.Len(), "counted, failed:", snap.State.Failed)
	//snippet:end
	fmt.Println("read:", asked)
	// Output:
	// 1 a.md
	// 2 b.png
	// 3 c.md
	// stopped: true
	// 1 d.md
	// 2 e.md
	// 5 done, 4 counted, failed: map[b.png:it is no text]
	// read: [a.md b.png c.md d.md d.md e.md]
}

// Letter is written by a node, approved by a person, and sent.
type Letter struct {
	To, Text string
	Approved bool
	Sent     string
}

func Example_streaming() {
	write := func(ctx context.Context, s *Letter) error {
		for _, token := range []string{"Dear ", s.To, ", ", "hello."} { // as a model gives them
			s.Text += token
			if err := graph.EmitMessage(ctx, token); err != nil {
				return err
			}
		}
		return nil
	}
	approve := func(ctx context.Context, s *Letter) (err error) {
		s.Approved, err = graph.Interrupt[bool](ctx, "approve", "Shall I send it?")
		return err
	}
	send := func(ctx context.Context, s *Letter) error {
		for _, percent := range []int{50, 100} {
			if err := graph.Emit(ctx, percent); err != nil {
				return err
			}
		}
		s.Sent = "to " + s.To
		return nil
	}
	b := graph.New[Letter]("letter")
	b.AddNode("write", write)
	b.AddNode("approve", approve)
	b.AddNode("send", send)
	b.AddEdge(graph.Start, "write").AddEdge("write", "approve").AddEdge("approve", "send")
	g := b.MustCompile(graph.WithCheckpointer(checkpoint.NewMemory()))
	//snippet:streaming
	t := g.Thread("l-1")
	show := func(ctx context.Context, req graph.Request[Letter]) error {
		modes := graph.ModeMessages | graph.ModeCustom | graph.ModeUpdates
		for ev, err := range t.Stream(ctx, req, graph.Modes(modes)) {
			if err != nil {
				return err
			}
			switch ev.Type {
			case graph.EventMessage: // a token
				fmt.Printf("%v|", ev.Value)
			case graph.EventCustom: // what a node tells of itself
				fmt.Printf("%s: %v%%\n", ev.Node, ev.Value)
			case graph.EventInterrupt:
				fmt.Printf("%s\n", ev.Interrupt.Raw)
			case graph.EventUpdate: // a node has ended, with what it wrote
				fmt.Printf("%s %s\n", ev.Node, ev.Update)
			}
		}
		return nil
	}
	ctx := context.Background()
	if err := show(ctx, t.Input(func(s *Letter) error { s.To = "Ann"; return nil })); err != nil {
		panic(err)
	}
	fmt.Println("-- the person says yes")
	if err := show(ctx, t.Answer(true)); err != nil {
		panic(err)
	}
	//snippet:end
	// Output:
	// Dear |Ann|, |hello.|write {"Text":"Dear Ann, hello."}
	// "Shall I send it?"
	// -- the person says yes
	// approve {"Approved":true}
	// send: 50%
	// send: 100%
	// send {"Sent":"to Ann"}
}

// Order is bought: small ones at once, large ones when somebody has agreed.
type Order struct {
	Item   string
	Amount int
	Result string
}

func Example_approvals() {
	var charged []string
	charge := func(_ context.Context, key string, amount int) (string, error) {
		charged = append(charged, key)
		return fmt.Sprint("paid ", amount), nil
	}
	//snippet:approvals
	buy := func(ctx context.Context, s *Order) error {
		if s.Amount > 100 { // the condition; it must not change while the question is open
			yes, err := graph.Interrupt[bool](ctx, "approve", map[string]any{"item": s.Item, "amount": s.Amount})
			if err != nil {
				return err // the thread waits
			}
			if !yes {
				s.Result = "refused"
				return nil
			}
		}
		var err error
		s.Result, err = graph.Once(ctx, "charge", func(ctx context.Context, key string) (string, error) {
			return charge(ctx, key, s.Amount) // the key is the same however often it is tried
		})
		return err
	}
	b := graph.New[Order]("buying")
	b.AddNode("buy", buy)
	b.AddEdge(graph.Start, "buy")
	g := b.MustCompile(graph.WithCheckpointer(checkpoint.NewMemory()))

	ctx := context.Background()
	order := func(item string, amount int) (*graph.Thread[Order], *graph.Snapshot[Order]) {
		t := g.Thread(item)
		snap, err := t.Invoke(ctx, t.Input(func(s *Order) error { s.Item, s.Amount = item, amount; return nil }))
		if err != nil {
			panic(err)
		}
		return t, snap
	}
	_, snap := order("pens", 20)
	fmt.Println(snap.State.Item, snap.State.Result)

	t, snap := order("chair", 300)
	fmt.Printf("%s\n", snap.Interrupts[0].Raw)
	snap, err := t.Invoke(ctx, t.Answer(true)) // days later
	fmt.Println(snap.State.Item, snap.State.Result, err)
	//snippet:end
	fmt.Println(len(charged), "charges")
	// Output:
	// pens paid 20
	// {"amount":300,"item":"chair"}
	// chair paid 300 <nil>
	// 2 charges
}

func Example_approvalsOfTools() {
	//snippet:approvalsOfTools
	pay := tool.New("pay", "Pays a bill.", func(_ context.Context, in struct {
		Amount int `json:"amount"`
	}) (string, error) {
		return fmt.Sprint("paid ", in.Amount), nil
	})
	large := func(call chat.ToolCall) bool {
		var in struct{ Amount int }
		return json.Unmarshal([]byte(call.Args), &in) != nil || in.Amount > 100 // ask about what can't be read, too
	}
	a, err := agent.New(agent.ReAct[agent.State]{
		Model: scripted.New(
			scripted.Call("pay", `{"amount": 20}`), scripted.Text("Paid."),
			scripted.Call("pay", `{"amount": 900}`), scripted.Text("I was not allowed to."),
		),
		Tools:   []tool.Tool{pay},
		Approve: []agent.Approval{{Tool: "pay", When: large}},
	}, graph.WithCheckpointer(checkpoint.NewMemory()))
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	t := a.Thread("bills")
	for _, text := range []string{"Pay 20.", "Pay 900."} {
		snap, err := t.Invoke(ctx, t.Input(agent.Ask[agent.State](text)))
		if err != nil {
			panic(err)
		}
		if len(snap.Interrupts) > 0 {
			var asked agent.ApprovalRequest
			if err := json.Unmarshal(snap.Interrupts[0].Raw, &asked); err != nil {
				panic(err)
			}
			fmt.Printf("%s %s?\n", asked.Actions[0].Name, asked.Actions[0].Args)
			snap, err = t.Invoke(ctx, t.Answer(asked.Answer(agent.Decision{Type: agent.RejectCall, Message: "It is paid already."})))
			if err != nil {
				panic(err)
			}
		}
		fmt.Println(snap.State.LastResponse)
	}
	//snippet:end
	// Output:
	// Paid.
	// pay {"amount":900}?
	// I was not allowed to.
}

func Example_guardrails() {
	//snippet:guardrails
	no := func(word, instead string) middleware.Check {
		return func(_ context.Context, text string) (string, error) {
			if strings.Contains(strings.ToLower(text), word) {
				return instead, nil
			}
			return "", nil // it may stand
		}
	}
	a, err := agent.New(agent.ReAct[agent.State]{
		Model: scripted.New(scripted.Text("I have written to you."), scripted.Text("The internal price is 3.")),
		Use: []agent.Middleware[agent.State]{
			middleware.GuardInput[agent.State](no("password", "I don't talk about passwords.")),
			middleware.Redact[agent.State](middleware.Redaction{Kinds: []middleware.Kind{middleware.Email}}),
			middleware.GuardOutput[agent.State](no("internal", "I can't say.")),
			middleware.LimitModel[agent.State](middleware.Limit{PerTurn: 10}),
		},
	}, graph.WithCheckpointer(checkpoint.NewMemory()))
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	t := a.Thread("guarded")
	for _, text := range []string{"What is the password?", "Write to ann@example.com.", "What does it cost?"} {
		snap, err := t.Invoke(ctx, t.Input(agent.Ask[agent.State](text)))
		if err != nil {
			panic(err)
		}
		fmt.Println(snap.State.LastResponse)
	}
	snap, err := t.State(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Print(snap.State.Messages)
	//snippet:end
	// Output:
	// I don't talk about passwords.
	// I have written to you.
	// I can't say.
	// user: What is the password?
	// assistant: I don't talk about passwords.
	// user: Write to [REDACTED_EMAIL].
	// assistant: I have written to you.
	// user: What does it cost?
	// assistant: I can't say.
}
