package agenttest

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool"
)

// Fault is something that goes wrong with a model or a tool, at each call unless
// its methods say otherwise. It is a value: they return a changed copy.
type Fault[T any] struct {
	name string
	wrap func(inner T, happened func()) T

	calls  []int // empty: any
	random bool
	chance float64
	seed   uint64
}

// Faults of a model are for [Faulty], those of a tool for [FaultyTool].
type (
	ModelFault = Fault[model.Model]
	ToolFault  = Fault[tool.Tool]
)

// At makes the fault happen at some calls only, which are counted from 1.
func (f Fault[T]) At(calls ...int) Fault[T] { f.calls = slices.Clone(calls); return f }

// Sometimes makes the fault happen at a part of the calls, for a chance between 0
// and 1. Which they are follows from the seed and their numbers alone.
func (f Fault[T]) Sometimes(chance float64, seed uint64) Fault[T] {
	f.random, f.chance, f.seed = true, chance, seed
	return f
}

// due reports whether the fault happens at a call.
func (f *Fault[T]) due(call int) bool {
	if len(f.calls) > 0 && !slices.Contains(f.calls, call) {
		return false
	}
	return !f.random || rand.New(rand.NewPCG(f.seed, uint64(call))).Float64() < f.chance
}

// injector counts the calls of a model or a tool and puts its faults around it.
type injector[T any] struct {
	inner  T
	faults []Fault[T]

	mu    sync.Mutex
	calls int
	fired []bool // by fault
}

func newInjector[T any](inner T, faults []Fault[T]) injector[T] {
	return injector[T]{inner: inner, faults: slices.Clone(faults), fired: make([]bool, len(faults))}
}

// next begins a call. The first fault is the outermost.
func (in *injector[T]) next() T {
	in.mu.Lock()
	in.calls++
	call := in.calls
	in.mu.Unlock()
	t := in.inner
	for k := range slices.Backward(in.faults) {
		if f := &in.faults[k]; f.due(call) {
			t = f.wrap(t, func() {
				in.mu.Lock()
				defer in.mu.Unlock()
				in.fired[k] = true
			})
		}
	}
	return t
}

// Calls returns how many calls have begun.
func (in *injector[T]) Calls() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.calls
}

// CheckFired fails the test for each fault that has not happened, but for those
// that happen [Fault.Sometimes].
func (in *injector[T]) CheckFired(tb testing.TB) {
	tb.Helper()
	in.mu.Lock()
	defer in.mu.Unlock()
	for k, f := range in.faults {
		if in.fired[k] || f.random {
			continue
		}
		if len(f.calls) == 0 {
			tb.Errorf("agenttest: the fault %q never happened: %s made", f.name, were(in.calls))
		} else {
			tb.Errorf("agenttest: the fault %q at %v never happened: %s made", f.name, f.calls, were(in.calls))
		}
	}
}

func were(calls int) string {
	if calls == 1 {
		return "1 call was"
	}
	return count(calls, "call") + " were"
}

// sleep waits for d, or for the end of the context, whose error it returns.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
