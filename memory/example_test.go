package memory_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/model/scripted"
)

type Note struct {
	Text  string `json:"text"`
	Stars int    `json:"stars"`
}

func Example() {
	ctx := context.Background()
	store, err := memory.NewInMemory(memory.Config{
		Index: &memory.Index{Embedder: memory.HashEmbedder(256), Fields: []string{"text"}}, // a real program has a model's embedder
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()

	ann := []string{"users", "ann"}
	for key, note := range map[string]Note{
		"food": {"She likes pizza with olives.", 5},
		"work": {"She works at night.", 2},
		"pet":  {"Her cat likes olives, too.", 3},
	} {
		if _, err := memory.Put(ctx, store, ann, key, note); err != nil {
			fmt.Println(err)
			return
		}
	}
	found, err := memory.Search[Note](ctx, store, []string{"users"}, memory.Query{
		Text: "Who likes pizza?", Filter: memory.Filter{memory.Gte("stars", 3)},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range found {
		fmt.Println(e.Key, e.Value.Text)
	}
	// Output:
	// food She likes pizza with olives.
	// pet Her cat likes olives, too.
}

// A node gets the memory of its run. What one thread learns, another knows.
func Example_graph() {
	type State struct {
		User, Says, Reply string
	}
	type Profile struct {
		Name string `json:"name"`
	}
	b := graph.New[State]("greeter")
	b.AddNode("greet", func(ctx context.Context, s *State) error {
		store, err := memory.From(ctx)
		if err != nil {
			return err
		}
		namespace := []string{"users", s.User}
		if s.Says != "" {
			_, err := memory.Put(ctx, store, namespace, "profile", Profile{Name: s.Says})
			s.Reply = "I'll remember that."
			return err
		}
		p, err := memory.Get[Profile](ctx, store, namespace, "profile")
		if errors.Is(err, memory.ErrNotFound) {
			s.Reply = "Who are you?"
			return nil
		}
		s.Reply = "Hello " + p.Value.Name + "!"
		return err
	})
	b.AddEdge(graph.Start, "greet")
	b.AddEdge("greet", graph.End)

	store, err := memory.NewInMemory()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	g, err := b.Compile(memory.Use(store))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, says := range []string{"", "Ann", ""} {
		snap, err := g.Invoke(context.Background(), func(s *State) error {
			s.User, s.Says = "u-1", says
			return nil
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(snap.State.Reply)
	}
	// Output:
	// Who are you?
	// I'll remember that.
	// Hello Ann!
}

func ExampleUpdate() {
	ctx := context.Background()
	store, err := memory.NewInMemory()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	for range 3 {
		// Nobody else's star gets lost, whoever gives one at the same time.
		_, err := memory.Update(ctx, store, []string{"notes"}, "n1", func(n *Note) error {
			n.Stars++
			return nil
		}, memory.PutOptions{TTL: 24 * time.Hour})
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	n, err := memory.Get[Note](ctx, store, []string{"notes"}, "n1")
	fmt.Println(n.Value.Stars, n.ExpiresAt.Sub(n.UpdatedAt), err)
	// Output: 3 24h0m0s <nil>
}

func ExampleParseFilter() {
	f, err := memory.ParseFilter(json.RawMessage(`{"kind": "note", "author": {"name": "Ann"}, "stars": {"$gte": 3}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range f {
		fmt.Println(c.Field, c.Op, string(c.Value))
	}
	_, err = memory.ParseFilter(json.RawMessage(`{"stars": {"$near": 3}}`))
	fmt.Println(err)
	// Output:
	// author.name $eq "Ann"
	// kind $eq "note"
	// stars $gte 3
	// memory: invalid filter "stars": unknown operator "$near"; the operators are ["$eq" "$ne" "$gt" "$gte" "$lt" "$lte" "$in" "$nin" "$and" "$or" "$not"]
}

func ExampleTools() {
	ctx := context.Background()
	store, err := memory.NewInMemory()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	tools := memory.Tools(func(context.Context) ([]string, error) { return []string{"users", "ann"}, nil })
	a, err := agent.New(agent.ReAct[agent.State]{
		Model: scripted.New(
			scripted.Call(memory.SaveTool, `{"content":"Ann works at night."}`), scripted.Text("I'll remember that."),
			scripted.Call(memory.SearchTool, `{"query":"When does Ann work?"}`), scripted.Text("At night."),
		),
		Tools: tools,
	}, memory.Use(store))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, says := range []string{"I work at night.", "When do I work?"} {
		snap, err := a.Invoke(ctx, agent.Ask[agent.State](says))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Print(snap.State.Messages)
	}
	// Output:
	// user: I work at night.
	// assistant: save_memory({"content":"Ann works at night."})
	// tool: {"key":"26f960916054d67e"}
	// assistant: I'll remember that.
	// user: When do I work?
	// assistant: search_memories({"query":"When does Ann work?"})
	// tool: {"memories":[{"key":"26f960916054d67e","content":"Ann works at night.","score":0.25}]}
	// assistant: At night.
}
