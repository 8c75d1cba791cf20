package local_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
	"github.com/superstep-dev/superstep/internal/core"
	"github.com/superstep-dev/superstep/internal/local"
	"github.com/superstep-dev/superstep/internal/plan"
)

// counter is a state of one sum, as simple as core.Values can be.
type counter struct{ n int }

type counterValues struct{}

func (counterValues) New() any             { return &counter{} }
func (counterValues) Fork(base any) any    { c := *base.(*counter); return &c }
func (v counterValues) Forks() core.Forks  { return v }
func (v counterValues) Look(base any) any  { return v.Fork(base) }
func (v counterValues) Ahead(base any) any { return v.Fork(base) }
func (counterValues) Unrecorded(any) bool  { return false }
func (counterValues) Current(int) bool     { return true }
func (counterValues) Upgrade(_ int, data json.RawMessage) (json.RawMessage, error) {
	return data, nil
}
func (counterValues) Changes(base, fork, _ any) (any, error) {
	if d := fork.(*counter).n - base.(*counter).n; d != 0 {
		return d, nil
	}
	return nil, nil
}
func (counterValues) Fold(base any, cs []any, _ core.When) (any, uint64, error) {
	c := *base.(*counter)
	for _, d := range cs {
		c.n += d.(int)
	}
	return &c, uint64(len(cs)), nil
}
func (counterValues) Encode(changes any) (json.RawMessage, error) {
	if changes == nil {
		return nil, nil
	}
	return json.Marshal(changes)
}
func (counterValues) Growth(any) []core.Growth { return nil }
func (counterValues) Decode(data json.RawMessage, only []string) (any, error) {
	var d int
	err := json.Unmarshal(data, &d)
	return d, err
}
func (counterValues) Snapshot(base any, _ bool) (json.RawMessage, error) {
	return json.Marshal(base.(*counter).n)
}
func (counterValues) Restore(_ any, data json.RawMessage) (any, error) {
	c := &counter{}
	return c, json.Unmarshal(data, &c.n)
}

// program is a fan-out of four nodes into a join and an end, counting runs.
func program(t testing.TB, runs *atomic.Int32) *local.Program {
	spec := plan.Spec{Name: "ops"}
	prog := &local.Program{Values: counterValues{}}
	for i, name := range []string{"a", "b", "c", "d", "end"} {
		spec.Nodes = append(spec.Nodes, plan.NodeSpec{Name: name})
		prog.Nodes = append(prog.Nodes, local.Node{Name: name, Run: func(_ context.Context, state, _ any) (local.Command, error) {
			runs.Add(1)
			state.(*counter).n += i + 1
			return local.Command{}, nil
		}})
		if name != "end" {
			spec.Edges = append(spec.Edges, plan.EdgeSpec{From: plan.Start, To: name}, plan.EdgeSpec{From: name, To: "end"})
		}
	}
	g, problems := plan.Compile(spec)
	if g == nil {
		t.Fatal(problems)
	}
	prog.Plan = g
	return prog
}

// begin writes the input record and returns the epoch it planned.
func begin(t testing.TB, prog *local.Program, o local.Options) checkpoint.ID {
	t.Helper()
	ctx := context.Background()
	s, err := local.Open(ctx, prog, &o, "", false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Begin(ctx, checkpoint.SourceInput, nil, nil, local.Command{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(ctx); err != nil && !errors.Is(err, local.ErrDrained) {
		t.Fatal(err)
	}
	return s.Machine().Epoch()
}

// Workers wait until what they did is stored before they take another task.
func TestMoreTasksThanMayRunAtATime(t *testing.T) {
	ctx := t.Context()
	var runs atomic.Int32
	prog := program(t, &runs)
	o := local.Options{Store: checkpoint.NewMemory(), Log: checkpoint.Log{Thread: "t"}, Bounds: local.Bounds{Concurrency: 1}}
	epoch := begin(t, prog, o)
	seen := 0
	for i, run := range prog.Nodes {
		prog.Nodes[i].Run = func(ctx context.Context, state, payload any) (local.Command, error) {
			results, err := o.Store.Results(ctx, o.Log, "", epoch)
			if len(results) < 2*seen { // changes and routing of each
				t.Errorf("%d results are stored of %d tasks that have ended", len(results), seen)
			}
			seen++
			if err != nil {
				return local.Command{}, err
			}
			return run.Run(ctx, state, payload)
		}
	}
	if err := local.RunTasks(ctx, prog, o, 0, epoch, []int{0, 1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	if runs.Load() != 4 {
		t.Errorf("%d tasks ran", runs.Load())
	}
}

func TestOperationsTwiceLateAndOutOfOrder(t *testing.T) {
	ctx := context.Background()
	var runs atomic.Int32
	prog := program(t, &runs)
	store := checkpoint.NewMemory()
	o := local.Options{Store: store, Log: checkpoint.Log{Thread: "t"}}
	epoch := begin(t, prog, o)
	do := func(tasks ...int) {
		t.Helper()
		if err := local.RunTasks(ctx, prog, o, 0, epoch, tasks); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := local.AdvanceThread(ctx, prog, o, 0, epoch); !errors.Is(err, local.ErrOpen) {
		t.Fatalf("advanced before the tasks ran: %v", err)
	}
	do(2, 3)
	do(2, 3) // twice
	do(1)
	if _, err := local.AdvanceThread(ctx, prog, o, 0, epoch); !errors.Is(err, local.ErrOpen) {
		t.Fatal(err)
	}
	do(0, 1, 2, 3) // ranges that overlap
	if n := runs.Load(); n != 4 {
		t.Errorf("%d runs", n)
	}
	first, err := local.AdvanceThread(ctx, prog, o, 0, epoch)
	if err != nil {
		t.Fatal(err)
	}
	again, err := local.AdvanceThread(ctx, prog, o, 0, epoch)
	if err != nil || again.ID != first.ID {
		t.Fatalf("asked again: %v, %v", again, err)
	}
	do(0, 1, 2, 3) // late
	if n := runs.Load(); n != 4 {
		t.Errorf("%d runs after the step was closed", n)
	}
	if err := local.RunTasks(ctx, prog, o, 0, first.ID, []int{0}); err != nil {
		t.Fatal(err)
	}
	last, err := local.AdvanceThread(ctx, prog, o, 0, first.ID)
	if err != nil || len(last.Tasks) != 0 {
		t.Fatalf("%+v, %v", last, err)
	}
	if r, err := local.AdvanceThread(ctx, prog, o, 0, epoch); err != nil || r.ID != first.ID {
		t.Errorf("the first step, asked for at the end: %v, %v", r, err)
	}
	state, err := local.StateAt(ctx, store, prog.Values, last, local.Keeper{})
	if err != nil || state.(*counter).n != 1+2+3+4+5 {
		t.Errorf("state %v, %v", state, err)
	}
}

func TestOperationsFromManyWorkersOnTwoHandles(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "ops.db")
	var stores []checkpoint.Store
	for range 2 {
		s, err := sqlite.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		stores = append(stores, s)
	}
	for round := range 10 {
		var runs atomic.Int32
		prog := program(t, &runs)
		log := checkpoint.Log{Thread: checkpoint.ThreadID(fmt.Sprint("t", round))}
		epoch := begin(t, prog, local.Options{Store: stores[0], Log: log})
		ids := make([]checkpoint.ID, 8)
		var wg sync.WaitGroup
		for w := range ids {
			wg.Go(func() {
				o := local.Options{Store: stores[w%2], Log: log}
				for ids[w] == "" {
					if err := local.RunTasks(ctx, prog, o, 0, epoch, []int{rand.IntN(4), rand.IntN(4)}); err != nil {
						t.Error(err)
						return
					}
					rec, err := local.AdvanceThread(ctx, prog, o, 0, epoch)
					switch {
					case errors.Is(err, local.ErrOpen):
					case err != nil:
						t.Error(err)
						return
					default:
						ids[w] = rec.ID
					}
				}
			})
		}
		wg.Wait()
		for _, id := range ids {
			if id != ids[0] {
				t.Fatalf("workers saw different records: %v", ids)
			}
		}
		rec, err := stores[1].Get(ctx, log, ids[0])
		if err != nil {
			t.Fatal(err)
		}
		state, err := local.StateAt(ctx, stores[1], prog.Values, rec, local.Keeper{})
		if err != nil || state.(*counter).n != 1+2+3+4 {
			t.Errorf("state %v, %v", state, err)
		}
	}
}

func TestAFencedOperationWritesNothing(t *testing.T) {
	ctx := context.Background()
	var runs atomic.Int32
	prog := program(t, &runs)
	store := checkpoint.NewMemory()
	o := local.Options{Store: store, Log: checkpoint.Log{Thread: "t"}}
	epoch := begin(t, prog, o)
	stale, err := store.Write(ctx, &checkpoint.Write{Log: o.Log, Claim: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Write(ctx, &checkpoint.Write{Log: o.Log, Claim: true}); err != nil {
		t.Fatal(err)
	}
	if err := local.RunTasks(ctx, prog, o, stale.Fence, epoch, []int{0}); !errors.Is(err, local.ErrThreadBusy) {
		t.Fatal(err)
	}
	results, err := store.Results(ctx, o.Log, "", epoch)
	if err != nil || len(results) != 0 {
		t.Errorf("%v, %v", results, err)
	}
}
