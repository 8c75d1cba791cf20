package sqlite_test

import (
	"context"
	"fmt"

	"github.com/superstep-dev/superstep/cache/sqlite"
	"github.com/superstep-dev/superstep/graph"
)

// A node that was run by one process needn't be run by another.
func Example() {
	type page struct{ Text, Summary string }
	results, err := sqlite.Open(":memory:") // a path, for several processes
	if err != nil {
		fmt.Println(err)
		return
	}
	defer results.Close()
	b := graph.New[page]("pages")
	b.AddNode("sum up", func(_ context.Context, s *page) error {
		fmt.Println("running")
		s.Summary = s.Text[:4]
		return nil
	}, graph.Cache(graph.CachePolicy{Store: results}))
	g := b.AddEdge(graph.Start, "sum up").MustCompile()
	run := func() {
		snap, err := g.Invoke(context.Background(), func(s *page) error { s.Text = "A long text"; return nil })
		fmt.Printf("%q %v\n", snap.State.Summary, err)
	}
	run()
	run()
	if err := g.ClearCache(context.Background(), "sum up"); err != nil {
		fmt.Println(err)
	}
	run()
	// Output:
	// running
	// "A lo" <nil>
	// "A lo" <nil>
	// running
	// "A lo" <nil>
}
