package graphtest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/graph"
)

// Fault is a fault of a node. It first waits for Delay, then panics with Panic
// or fails with Err if either is set.
type Fault struct {
	Node string
	Run  int // which attempt of the node, counted from 1 over all tasks and runs; 0 means each

	// After makes the fault happen when the node has succeeded, so that what
	// it did outside of its state is done, and what it wrote is dropped.
	After bool

	Delay time.Duration
	Panic any
	Err   error
}

// FailAt makes the n-th attempt of a node fail with [ErrFault].
func FailAt(node string, n int) Fault {
	return Fault{Node: node, Run: n, Err: fmt.Errorf("%w: attempt %d of node %q", ErrFault, n, node)}
}

// PanicAt makes the n-th attempt of a node panic with v.
func PanicAt(node string, n int, v any) Fault { return Fault{Node: node, Run: n, Panic: v} }

// DelayAt makes the n-th attempt of a node start late by d.
func DelayAt(node string, n int, d time.Duration) Fault { return Fault{Node: node, Run: n, Delay: d} }

// Injector injects faults into the nodes of a graph. It is safe for concurrent
// use.
type Injector struct {
	faults []Fault

	mu      sync.Mutex
	runs    map[string]int  // attempts begun, by node
	running map[attempt]int // which attempt of its node each is
	fired   []bool          // by fault
}

// attempt tells attempts apart that run at the same time.
type attempt struct {
	node, run, task string
	n               int
}

func attemptOf(i graph.TaskInfo) attempt { return attempt{i.Node, i.Run, i.Task, i.Attempt} }

// Inject adds faults to the nodes of a builder; it must be compiled afterwards.
// The faults of a node happen within its timeouts and retries.
func Inject[S any](b *graph.Builder[S], faults ...Fault) *Injector {
	in := &Injector{faults: faults, runs: map[string]int{}, running: map[attempt]int{}, fired: make([]bool, len(faults))}
	b.NodeDefaults(graph.WithCallbacks(graph.Callbacks[S]{
		Before: func(ctx context.Context, _ *S) (bool, error) {
			return false, in.meet(ctx, false, in.begin(graph.Info(ctx)))
		},
		After: func(ctx context.Context, _ *S) error {
			return in.meet(ctx, true, in.of(graph.Info(ctx)))
		},
	}))
	return in
}

// begin counts an attempt and lists its faults.
func (in *Injector) begin(i graph.TaskInfo) []int {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.runs[i.Node]++
	in.running[attemptOf(i)] = in.runs[i.Node]
	return in.due(i.Node, in.runs[i.Node])
}

// of lists the faults of an attempt that has begun.
func (in *Injector) of(i graph.TaskInfo) []int {
	in.mu.Lock()
	defer in.mu.Unlock()
	n := in.running[attemptOf(i)]
	delete(in.running, attemptOf(i))
	return in.due(i.Node, n)
}

// due lists the faults of the n-th attempt of a node.
func (in *Injector) due(node string, n int) []int {
	var due []int
	for k, f := range in.faults {
		if f.Node == node && (f.Run == 0 || f.Run == n) {
			due = append(due, k)
		}
	}
	return due
}

func (in *Injector) meet(ctx context.Context, after bool, due []int) error {
	for _, k := range due {
		f := in.faults[k]
		if f.After != after {
			continue
		}
		in.mu.Lock()
		in.fired[k] = true
		in.mu.Unlock()
		if f.Delay > 0 {
			timer := time.NewTimer(f.Delay)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return context.Cause(ctx)
			}
		}
		if f.Panic != nil {
			panic(f.Panic)
		}
		if f.Err != nil {
			return f.Err
		}
	}
	return nil
}

// Runs returns how many attempts of a node have begun.
func (in *Injector) Runs(node string) int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.runs[node]
}

// Check fails the test for each fault that has not happened, so that a test
// can't pass since a name was misspelt.
func (in *Injector) Check(tb testing.TB) {
	tb.Helper()
	in.mu.Lock()
	defer in.mu.Unlock()
	for k, f := range in.faults {
		if !in.fired[k] {
			tb.Errorf("graphtest: the fault at attempt %d of node %q never happened: %d attempts were made", f.Run, f.Node, in.runs[f.Node])
		}
	}
}
