package server_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/server"
)

// rememberer is an agent that saves what it is told.
func rememberer(t *testing.T, opts ...graph.Option) *graph.Graph[agent.State] {
	t.Helper()
	g, err := agent.New(agent.ReAct[agent.State]{
		Model: scripted.New(scripted.Call(memory.SaveTool, `{"content": "Ann skis."}`), scripted.Text("I'll remember.")),
		Tools: memory.Tools(func(context.Context) ([]string, error) { return []string{"users", "ann"}, nil }),
	}, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestWhatAToolSavesIsWhatClientsOfTheServerSee(t *testing.T) {
	own, err := memory.NewInMemory()
	if err != nil {
		t.Fatal(err)
	}
	for name, opt := range map[string]server.Option{
		"a memory of the server's":  server.Data("sqlite:" + filepath.Join(t.TempDir(), "a.db")),
		"a memory of the program's": server.UseMemory(own),
	} {
		t.Run(name, func(t *testing.T) {
			g := rememberer(t)
			c := start(t, server.Graph(g), opt, quiet())
			call[any](c, "POST", "/runs/wait", object{"assistant_id": g.Name(), "input": object{"messages": []object{{"role": "user", "content": "I ski."}}}})
			found := call[object](c, "POST", "/store/items/search", object{"namespace_prefix": []string{"users"}})["items"].([]any)
			if len(found) != 1 || found[0].(object)["value"].(object)["content"] != "Ann skis." {
				t.Errorf("clients see %v", found)
			}
		})
	}
}

func TestAServerRefusesAGraphWithAMemoryOfItsOwn(t *testing.T) {
	own, err := memory.NewInMemory()
	if err != nil {
		t.Fatal(err)
	}
	_, err = server.New(t.Context(), server.Graph(rememberer(t, memory.Use(own))), quiet())
	if err == nil || !strings.Contains(err.Error(), "compiled with a memory of its own") || !strings.Contains(err.Error(), "UseMemory") {
		t.Error(err)
	}
}
