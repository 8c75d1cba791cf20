package memory_test

import (
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
