package memory_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/memory/memorytest"
)

func TestInMemory(t *testing.T) {
	memorytest.Run(t, func(t *testing.T, c memory.Config) memory.Store { return newStore(t, c) })
}

func newStore(t testing.TB, c ...memory.Config) *memory.InMemory {
	t.Helper()
	s, err := memory.NewInMemory(c...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ending is a context that ends when it has been looked at a number of times.
type ending struct {
	context.Context
	looks atomic.Int64
}

func (e *ending) Err() error {
	if e.looks.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

func TestASearchOfALargeNamespaceEndsWithItsContext(t *testing.T) {
	s := newStore(t, memory.Config{Index: &memory.Index{Embedder: memory.HashEmbedder(8)}})
	for i := range 10_000 {
		if _, err := s.Put(t.Context(), []string{"a"}, fmt.Sprint(i), json.RawMessage(`{"text":"x"}`)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"by text": "x", "the latest": ""} {
		q := memory.Query{Text: text, Filter: memory.Filter{memory.Eq("text", "y")}}
		// What is done shows in what is allocated: a match decodes the value.
		cost := func(looks int64, want error) float64 {
			return testing.AllocsPerRun(1, func() {
				ctx := &ending{Context: t.Context()}
				ctx.looks.Store(looks)
				if _, err := s.Search(ctx, []string{"a"}, q); !errors.Is(err, want) {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		if all, cut := cost(1<<40, nil), cost(5, context.Canceled); cut > all/2 {
			t.Errorf("%s: a search that is over allocates %v times, a whole one %v times", name, cut, all)
		}
	}
}
