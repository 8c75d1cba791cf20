package graph_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// trail is a state that records which nodes ran.
type trail struct {
	Ran   graph.List[string]
	N     int
	Note  string
	Total graph.Sum[int]
}

// ran returns the nodes that ran, in the order committed.
func (s *trail) ran() string { return strings.Join(s.Ran.Slice(), " ") }

// visit returns a node that records its name.
func visit(name string) func(context.Context, *trail) error {
	return func(_ context.Context, s *trail) error {
		s.Ran.Add(name)
		return nil
	}
}

// visits adds nodes that record their names.
func visits(b *graph.Builder[trail], names ...string) *graph.Builder[trail] {
	for _, n := range names {
		b.AddNode(n, visit(n))
	}
	return b
}

// calls counts how often something happened, across goroutines.
type calls struct {
	mu sync.Mutex
	in []string
}

func (c *calls) add(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.in = append(c.in, what)
	return c.count(what)
}

func (c *calls) count(what string) int {
	n := 0
	for _, x := range c.in {
		if x == what {
			n++
		}
	}
	return n
}

func (c *calls) of(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count(what)
}

func (c *calls) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.in)
}

func must[T any](t testing.TB) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func compile[S any](t testing.TB, b *graph.Builder[S], opts ...graph.Option) *graph.Graph[S] {
	t.Helper()
	g, err := b.Compile(opts...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// stored returns options for a graph with a fresh in-memory store and a thread.
func stored() []graph.Option {
	return []graph.Option{graph.WithCheckpointer(checkpoint.NewMemory())}
}

func wantErr[E error](t testing.TB, err error) E {
	t.Helper()
	var e E
	if !errors.As(err, &e) {
		t.Fatalf("error is %T (%v), want %T", err, err, e)
	}
	return e
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func equalSlice[T comparable](t testing.TB, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

var errBoom = errors.New("boom")

var bg = context.Background()
