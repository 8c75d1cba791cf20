package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/mcp"
)

func Example() {
	type In struct {
		A, B float64
	}
	add := tool.New("add", "Adds two numbers.", func(ctx context.Context, in In) (float64, error) { return in.A + in.B, nil })
	server, err := mcp.NewServer("calculator", "1.0", add)
	if err != nil {
		log.Fatal(err)
	}
	web := httptest.NewServer(server.Handler())
	defer web.Close()

	ctx := context.Background()
	client, err := mcp.Connect(ctx, mcp.Config{Transport: mcp.HTTP{URL: web.URL}, Prefix: "calc_"})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	tools, err := client.Tools(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range tools {
		fmt.Println(t.Spec().Name, "-", t.Spec().Description)
		r, err := t.Call(ctx, json.RawMessage(`{"A":1,"B":2}`))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.Content[0].(chat.Text).Text)
		_, err = t.Call(ctx, json.RawMessage(`{"A":1,"B":"two"}`))
		fmt.Println(err)
	}
	// Output:
	// calc_add - Adds two numbers.
	// 3
	// tool "calc_add": invalid arguments: B: must be a number, not "two"
}

// A server that is a program of its own is started and ended by the client.
func ExampleCommand() {
	fetch := mcp.Config{
		Transport: mcp.Command{Path: "mcp-server-fetch", Args: []string{"--quiet"}},
		Allow:     []string{"fetch"},
		OnLog:     func(l mcp.Log) { log.Printf("%s: %s", l.Level, l.Data) },
	}
	client, err := mcp.Connect(context.Background(), fetch)
	if err != nil {
		log.Print(err)
		return
	}
	defer client.Close()
}

// A server is in the same program: for tests, or to give a set of tools to
// several agents.
func ExampleServer_Local() {
	hello := tool.New("hello", "Greets.", func(context.Context, struct{}) (string, error) { return "hello", nil })
	server, err := mcp.NewServer("greeter", "1.0", hello)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := mcp.Connect(context.Background(), mcp.Config{Transport: server.Local()})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	tools, err := client.Tools(context.Background())
	fmt.Println(len(tools), err)
	// Output: 1 <nil>
}
