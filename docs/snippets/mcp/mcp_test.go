package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/mcp"
)

// theatre is a server whose tool asks how many seats to book.
func theatre() *mcp.Server {
	s, err := mcp.NewServer("theatre", "1.0")
	if err != nil {
		panic(err)
	}
	book := &sdk.Tool{Name: "book", InputSchema: json.RawMessage(`{"type":"object"}`)}
	s.SDK().AddTool(book, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if r.Params.RequestState == "" {
			form := json.RawMessage(`{"type":"object","required":["seats"],"properties":{"seats":{"type":"integer"}}}`)
			return &sdk.CallToolResult{RequestState: "asked", InputRequests: sdk.InputRequestMap{
				"seats": &sdk.ElicitParams{Message: "How many seats?", RequestedSchema: form},
			}}, nil
		}
		a := r.Params.InputResponses["seats"].(*sdk.ElicitResult)
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf("%v seats are yours", a.Content["seats"])}}}, nil
	})
	return s
}

func Example_elicitation() {
	ctx := context.Background()
	server := theatre()
	defer server.Close()
	client, err := mcp.Connect(ctx, mcp.Config{Transport: server.Local(), Elicit: mcp.Ask})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	tools, err := client.Tools(ctx)
	if err != nil {
		panic(err)
	}
	a, err := agent.New(agent.ReAct[agent.State]{
		Model: scripted.New(scripted.Call("book", `{}`), scripted.Text("Done.")),
		Tools: tools,
	}, graph.WithCheckpointer(checkpoint.NewMemory()))
	if err != nil {
		panic(err)
	}
	t := a.Thread("t-1")
	snap, err := t.Invoke(ctx, t.Input(agent.Ask[agent.State]("Book the theatre.")))
	if err != nil {
		panic(err)
	}
	var q mcp.Elicitation
	if err := json.Unmarshal(snap.Interrupts[0].Raw, &q); err != nil {
		panic(err)
	}
	fmt.Println(q.Server, "-", q.Message)

	// Days later, in another process:
	snap, err = t.Invoke(ctx, t.Answer(mcp.ElicitationAnswer{Action: mcp.Accept, Content: json.RawMessage(`{"seats": 2}`)}))
	if err != nil {
		panic(err)
	}
	fmt.Print(snap.State.Messages)
	// Output:
	// theatre - How many seats?
	// user: Book the theatre.
	// assistant: book({})
	// tool: 2 seats are yours
	// assistant: Done.
}

func Example_context() {
	ctx := context.Background()
	server := theatre()
	defer server.Close()
	plays := &sdk.Resource{URI: "theatre://plays", Name: "plays"}
	server.SDK().AddResource(plays, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: plays.URI, Text: "Hamlet, Faust"}}}, nil
	})
	client, err := mcp.Connect(ctx, mcp.Config{Transport: server.Local(), Prefix: "theatre_"})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	parts, err := client.ReadResource(ctx, "theatre://plays")
	fmt.Println(parts[0].(chat.Text).Text, err)

	a, err := agent.New(agent.ReAct[agent.State]{
		Model: scripted.New(scripted.Call("theatre_read_resource", `{"uri": "theatre://plays"}`), scripted.Text("Hamlet and Faust.")),
		Choose: func(ctx context.Context, _ *agent.State) ([]tool.Tool, error) { // before each call of the model
			tools, err := client.Tools(ctx)
			return append(tools, client.ContextTools()...), err
		},
	})
	if err != nil {
		panic(err)
	}
	snap, err := a.Invoke(ctx, agent.Ask[agent.State]("What is on?"))
	fmt.Println(snap.State.LastResponse.Get(), err)
	// Output:
	// [resource theatre://plays]
	// Hamlet, Faust <nil>
	// Hamlet and Faust. <nil>
}

func Example_sampling() {
	ctx := context.Background()
	server := theatre()
	defer server.Close()
	client, err := mcp.Connect(ctx, mcp.Config{
		Transport:       server.Local(),
		Sampling:        scripted.New(scripted.Text("a summary")),
		ApproveSampling: mcp.ApproveSampling, // a person decides about each time
		Roots:           []mcp.Root{{URI: "file:///home/me/project", Name: "project"}},
	})
	if err != nil {
		panic(err)
	}
	defer client.Close()
}

// folder keeps tokens in files that only this user can read.
type folder string

func (f folder) file(server string) string { return filepath.Join(string(f), url.PathEscape(server)) }

func (f folder) Load(_ context.Context, server string) ([]byte, error) {
	data, err := os.ReadFile(f.file(server))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

func (f folder) Save(_ context.Context, server string, grant []byte) error {
	return os.WriteFile(f.file(server), grant, 0o600)
}

func Example_oauth() {
	const server = "https://tools.example.com/mcp"
	h, err := mcp.OAuth(context.Background(), server, &auth.AuthorizationCodeHandlerConfig{
		PreregisteredClient: &oauthex.ClientCredentials{ClientID: "my-program"},
		RedirectURL:         "http://localhost:8400/callback",
		RequestRefreshToken: true,
		AuthorizationCodeFetcher: func(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			fmt.Println("open", args.URL) // and wait for the browser to come back to RedirectURL
			return nil, errors.New("nobody logs in here")
		},
	}, folder(os.TempDir()))
	if err != nil {
		panic(err)
	}
	_ = mcp.Config{Transport: mcp.HTTP{URL: server, OAuth: h}}
}

// Order is the state of a graph that asks.
type Order struct {
	Item string `json:"item"`
	Sold bool   `json:"sold,omitempty"`
}

func order() *graph.Graph[Order] {
	b := graph.New[Order]("order")
	b.AddNode("confirm", func(ctx context.Context, s *Order) (err error) {
		s.Sold, err = graph.Interrupt[bool](ctx, "confirm", "Buy "+s.Item+"?")
		return err
	})
	b.AddEdge(graph.Start, "confirm")
	return b.MustCompile(graph.WithCheckpointer(checkpoint.NewMemory()))
}

func Example_serveGraphs() {
	server, err := mcp.NewServer("shop", "1.0")
	if err != nil {
		panic(err)
	}
	defer server.Close()
	if err := server.SetGraphs(mcp.Graph{Graph: graph.JSON(order()), Description: "Buys something."}); err != nil {
		panic(err)
	}
	// server.ServeStdio(ctx), or server.Handler() over HTTP; here a client in the same program:
	ctx := context.Background()
	client, err := mcp.Connect(ctx, mcp.Config{Transport: server.Local()})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	tools, err := client.Tools(ctx)
	if err != nil {
		panic(err)
	}
	set, err := tool.NewSet(tools...)
	if err != nil {
		panic(err)
	}
	for _, call := range []struct{ tool, args string }{
		{"order", `{"item": "tea", "thread": "t-1"}`},
		{mcp.AnswerTool, `{"graph": "order", "thread": "t-1", "answers": {"confirm": true}}`},
	} {
		t, err := set.Get(call.tool)
		if err != nil {
			panic(err)
		}
		res, err := t.Call(ctx, json.RawMessage(call.args))
		if err != nil {
			panic(err)
		}
		var r mcp.ThreadResult
		if err := json.Unmarshal(res.Artifact, &r); err != nil {
			panic(err)
		}
		for _, q := range r.Questions {
			fmt.Printf("%s: %s %s\n", r.Status, q.Key, q.Value)
		}
		if r.Status == "done" {
			fmt.Printf("%s: %s\n", r.Status, r.Output)
		}
	}
	// Output:
	// asks: confirm "Buy tea?"
	// done: {"item":"tea","sold":true}
}
