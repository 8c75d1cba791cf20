package checkpoint_test

import (
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/checkpointtest"
)

func TestMemory(t *testing.T) { // W7-28, SONI-30, TRPC-51
	checkpointtest.Run(t, func(t *testing.T) checkpoint.Store { return checkpoint.NewMemory() })
}

func BenchmarkMemory(b *testing.B) {
	checkpointtest.Benchmark(b, func(b *testing.B) checkpoint.Store { return checkpoint.NewMemory() })
}
