package snippets_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// PaperV1 is the state of the first version of a program.
type PaperV1 struct {
	Title string
	Words string // as text, alas
}

// PaperV2 is the state of the second version.
type PaperV2 struct {
	Subject string // was Title
	Words   int    // was a string
	Author  string // is new
}

func Example_evolution() {
	store := checkpoint.NewMemory()
	first := graph.New[PaperV1]("paper")
	first.AddNode("approve", func(ctx context.Context, s *PaperV1) error {
		s.Words = "1200"
		_, err := graph.Interrupt[bool](ctx, "approve", s.Title)
		return err
	})
	first.AddEdge(graph.Start, "approve")
	old := first.MustCompile(graph.WithCheckpointer(store))
	draft := old.Thread("p-1")
	_, err := draft.Invoke(ctx, draft.Input(func(s *PaperV1) error {
		s.Title, s.Words = "cats", "1200"
		return nil
	}))
	fmt.Println(err)

	// Weeks later, the question still open, the program has changed.
	//snippet:evolve
	b := graph.New[PaperV2]("paper")
	b.AddNode("review", func(ctx context.Context, s *PaperV2) error {
		_, err := graph.Interrupt[bool](ctx, "approve", s.Subject)
		return err
	}, graph.Formerly("approve"))
	b.AddEdge(graph.Start, "review")
	g := b.MustCompile(
		graph.WithCheckpointer(store),
		graph.FieldAlias("Title", "Subject"),
		graph.Migrate(2, func(fields map[string]json.RawMessage) error {
			raw, ok := fields["Words"]
			if !ok {
				return nil // this record didn't write it
			}
			var text string
			if err := json.Unmarshal(raw, &text); err != nil {
				return err
			}
			n, err := strconv.Atoi(text)
			fields["Words"] = []byte(strconv.Itoa(n))
			return err
		}),
	)
	t := g.Thread("p-1")
	snap, err := t.Invoke(ctx, t.Answer(true))
	fmt.Println(snap.State.Subject, snap.State.Words, snap.Done(), err)
	//snippet:end
	// Output:
	// <nil>
	// cats 1200 true <nil>
}
