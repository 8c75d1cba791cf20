package snippets_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

var ctx = context.Background()

// Article is the state: what the nodes read and write.
type Article struct {
	Topic    string
	Approved bool
	Sections graph.List[string]
	Words    graph.Sum[int]
}

func intro(_ context.Context, s *Article) error {
	s.Sections.Add("Why " + s.Topic)
	s.Words.Add(120)
	return nil
}

func body(_ context.Context, s *Article) error {
	s.Sections.Add("How " + s.Topic)
	s.Words.Add(800)
	return nil
}

func Example_article() {
	b := graph.New[Article]("article")
	b.AddNode("intro", intro)
	b.AddNode("body", body)
	b.AddEdge(graph.Start, "intro")
	b.AddEdge(graph.Start, "body")
	b.AddEdge("intro", graph.End)
	b.AddEdge("body", graph.End)
	g, err := b.Compile()
	if err != nil {
		fmt.Println(err)
		return
	}

	snap, err := g.Invoke(ctx, func(s *Article) error {
		s.Topic = "graphs"
		return nil
	})
	fmt.Println(snap.State.Sections, snap.State.Words, err)
	// Output: [Why graphs How graphs] 920 <nil>
}

func Example_ownCopy() {
	look := func(name string) func(context.Context, *Article) error {
		return func(_ context.Context, s *Article) error {
			s.Sections.Add(name)
			s.Sections.Add(fmt.Sprintf("%s sees %d", name, s.Sections.Len()))
			return nil
		}
	}
	b := graph.New[Article]("copies")
	b.AddNode("a", look("a"))
	b.AddNode("b", look("b"))
	b.AddNode("last", look("last"))
	b.AddEdge(graph.Start, "a").AddEdge(graph.Start, "b")
	b.AddEdge("a", "last").AddEdge("b", "last")

	snap, err := b.MustCompile().Invoke(ctx, nil)
	for _, line := range snap.State.Sections.All() {
		fmt.Println(line)
	}
	fmt.Println(err)
	// Output:
	// a
	// a sees 1
	// b
	// b sees 1
	// last
	// last sees 5
	// <nil>
}

func Example_conflict() {
	b := graph.New[Article]("conflict")
	b.AddNode("cats", func(_ context.Context, s *Article) error { s.Topic = "cats"; return nil })
	b.AddNode("dogs", func(_ context.Context, s *Article) error { s.Topic = "dogs"; return nil })
	b.AddEdge(graph.Start, "cats").AddEdge(graph.Start, "dogs")

	_, err := b.MustCompile().Invoke(ctx, nil)
	conflict, ok := errors.AsType[*graph.ConflictError](err)
	fmt.Println(ok, conflict.Field, conflict.With, conflict.Node)
	// Output: true Topic cats dogs
}

func review(ctx context.Context, s *Article) error {
	approved, err := graph.Interrupt[bool](ctx, "approve", s.Sections.Last())
	if err != nil {
		return err
	}
	s.Approved = approved
	return nil
}

func publishOrRewrite(_ context.Context, s *Article) (graph.Command, error) {
	if s.Approved {
		return graph.Goto(graph.End), nil
	}
	return graph.Goto("body"), nil
}

func Example_review() {
	store := checkpoint.NewMemory() // or file.Open, sqlite.Open: see checkpoints.md

	b := graph.New[Article]("article")
	b.AddNode("body", body)
	b.AddNode("review", review)
	b.AddEdge(graph.Start, "body")
	b.AddEdge("body", "review")
	b.AddConditionalEdges("review", publishOrRewrite, "body", graph.End)
	g, err := b.Compile(graph.WithCheckpointer(store))
	if err != nil {
		fmt.Println(err)
		return
	}

	t := g.Thread("a-1")
	snap, err := t.Invoke(ctx, t.Input(func(s *Article) error {
		s.Topic = "graphs"
		return nil
	}))
	fmt.Println(snap.Interrupts[0].Value, err)

	// Later, possibly in another process:
	snap, err = t.Invoke(ctx, t.Answer(false))
	fmt.Println(snap.Interrupts[0].Value, err)
	snap, err = t.Invoke(ctx, t.Answer(true))
	fmt.Println(snap.Done(), snap.State.Words, err)
	// Output:
	// How graphs <nil>
	// How graphs <nil>
	// true 1600 <nil>
}
