package graph_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

type bulky struct {
	Small string
	Blob  graph.Value[string]
	Log   graph.List[string]
}

// filling says how many bytes to add.
type filling struct{ Bytes int }

func fill(n int) graph.RunOption { return graph.Configure(func(c *filling) { c.Bytes = n }) }

// filler is a graph whose node adds n bytes to Log, and to Blob when they are
// many.
func filler(t testing.TB, opts ...graph.Option) *graph.Graph[bulky] {
	t.Helper()
	b := graph.New[bulky]("filler")
	b.AddNode("fill", func(ctx context.Context, s *bulky) error {
		c, err := graph.Configured[filling](ctx)
		if err != nil {
			return err
		}
		n := c.Bytes
		s.Small = "small"
		if n > 1<<20 {
			s.Blob.Set(strings.Repeat("b", n))
		} else {
			s.Log.Add(strings.Repeat("l", n))
		}
		return nil
	})
	b.AddEdge(graph.Start, "fill")
	return compile(t, b, append([]graph.Option{graph.WithCheckpointer(checkpoint.NewMemory()), graph.Configurable(filling{})}, opts...)...)
}

func TestLargeStateWarns(t *testing.T) { // SONI-36
	var got []graph.Warning
	g := filler(t, graph.OnWarning(func(w graph.Warning) { got = append(got, w) }))
	turn := func(n int) {
		t.Helper()
		if _, err := g.Thread("t").Invoke(bg, g.Input(func(*bulky) error { return nil }), fill(n)); err != nil {
			t.Fatal(err)
		}
	}
	turn(1000)
	if len(got) != 0 {
		t.Fatalf("warned of a small state: %+v", got)
	}
	turn(10 << 20)
	if len(got) != 2 {
		t.Fatalf("got %+v, want a large change and a large state", got)
	}
	change, state := got[0], got[1]
	if change.Kind != graph.LargeChange || change.Node != "fill" || change.Field != "Blob" || change.Size < 10<<20 || change.Of < 10<<20 {
		t.Errorf("got %+v", change)
	}
	if state.Kind != graph.LargeState || state.Field != "Blob" || state.Size < 10<<20 || !strings.Contains(state.String(), `field "Blob"`) {
		t.Errorf("got %+v", state)
	}
	turn(1000)
	if len(got) != 2 {
		t.Errorf("warned again though little was added: %+v", got[2:])
	}
}

func TestSlowlyGrowingStateWarnsEachTimeItHasDoubled(t *testing.T) { // SONI-36
	var got []int
	g := filler(t, graph.WarnSize(10_000), fill(500), graph.OnWarning(func(w graph.Warning) {
		if w.Kind != graph.LargeState || w.Field != "Log" {
			t.Errorf("got %+v", w)
		}
		got = append(got, w.Size)
	}))
	for range 400 {
		if _, err := g.Thread("t").Invoke(bg, g.Input(func(*bulky) error { return nil })); err != nil {
			t.Fatal(err)
		}
	}
	if len(got) < 3 || len(got) > 8 || got[0] > 12_000 {
		t.Fatalf("warned at %v bytes of 200,000, want a few times", got)
	}
}

func TestStateSizeLimit(t *testing.T) { // SONI-36
	g := filler(t, graph.WarnSize(0), graph.MaxStateSize(20_000), fill(900))
	var err error
	n := 0
	for ; err == nil && n < 100; n++ {
		_, err = g.Thread("t").Invoke(bg, g.Input(func(*bulky) error { return nil }))
	}
	var tooLarge *graph.StateSizeError
	if !errors.As(err, &tooLarge) || tooLarge.Field != "Log" || tooLarge.Size <= 20_000 || tooLarge.Size > 25_000 || tooLarge.Limit != 20_000 {
		t.Fatalf("after %d turns: %v", n, err)
	}
	// What made it so is kept, and an edit helps.
	if _, err := g.Thread("t").Edit(bg, func(s *bulky) error {
		s.Log.Overwrite()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Thread("t").Invoke(bg, g.Input(func(*bulky) error { return nil })); err != nil {
		t.Fatal(err)
	}
	if err := filler(t, graph.MaxStateSize(1)).Thread("t").Delete(bg); err != nil {
		t.Fatal(err)
	}
	b := graph.New[bulky]("bad")
	b.AddNode("n", func(context.Context, *bulky) error { return nil })
	b.AddEdge(graph.Start, "n")
	for what, o := range map[string]graph.Option{"negative": graph.WarnSize(-1), "no limit": graph.MaxStateSize(0)} {
		if _, err := b.Compile(o); err == nil {
			t.Errorf("%s was taken", what)
		}
	}
}
