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
func (v counterValues) DecodeAll(data []json.RawMessage) (all []any, err error) {
	for _, d := range data {
		var c any
		if len(d) > 0 && err == nil {
			c, err = v.Decode(d, nil)
		}
		all = append(all, c)
	}
	return all, err
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
	g, problems, _ := plan.Compile(spec)
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
	if err := s.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	return s.Machine().Epoch()
}

var run = checkpoint.NewRunID()

// runTasks and advance are sessions of one run that nobody disturbs.
func runTasks(t testing.TB, prog *local.Program, o local.Options, epoch checkpoint.ID, from, to int) {
	t.Helper()
	o.Run, o.Hold = run, new(local.Hold)
	if recorded, err := local.RunTasks(context.Background(), prog, &o, epoch, from, to); err != nil || !recorded {
		t.Fatal(recorded, err)
	}
}

func advance(t testing.TB, prog *local.Program, o local.Options, epoch checkpoint.ID) local.Stand {
	t.Helper()
	o.Run, o.Hold = run, new(local.Hold)
	st, err := local.AdvanceThread(context.Background(), prog, &o, epoch)
	if err != nil || st.Err != nil {
		t.Fatal(err, st.Err)
	}
	return st
}

// Workers wait until what they did is stored before they take another task.
func TestMoreTasksThanMayRunAtATime(t *testing.T) {
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
	runTasks(t, prog, o, epoch, 0, 4)
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
	open := func(from, to int) {
		t.Helper()
		if st := advance(t, prog, o, epoch); st.Epoch != epoch || st.From != from || st.To != to {
			t.Fatalf("%+v, want tasks %d to %d of the same superstep", st, from, to)
		}
	}
	open(0, 4)
	runTasks(t, prog, o, epoch, 2, 4)
	runTasks(t, prog, o, epoch, 2, 4) // twice
	open(0, 2)
	runTasks(t, prog, o, epoch, 1, 2)
	open(0, 1)
	runTasks(t, prog, o, epoch, 0, 4) // ranges that overlap
	if n := runs.Load(); n != 4 {
		t.Errorf("%d runs", n)
	}
	first := advance(t, prog, o, epoch)
	if again := advance(t, prog, o, epoch); again != first || first.Epoch == epoch || first.To != 1 {
		t.Fatalf("asked again: %+v after %+v", again, first)
	}
	runTasks(t, prog, o, epoch, 0, 4) // late
	if n := runs.Load(); n != 4 {
		t.Errorf("%d runs after the step was closed", n)
	}
	runTasks(t, prog, o, first.Epoch, 0, 1)
	last := advance(t, prog, o, first.Epoch)
	for _, late := range []checkpoint.ID{first.Epoch, epoch, ""} {
		if again := advance(t, prog, o, late); again != last || !last.Ended {
			t.Errorf("asked for %q at the end: %+v, want %+v", late, again, last)
		}
	}
	state, err := local.StateOf(ctx, store, prog.Values, o.Log, last.At, local.Keeper{})
	if err != nil || state.(*counter).n != 1+2+3+4+5 {
		t.Errorf("state %v, %v", state, err)
	}
	o.Run, o.Hold = run, new(local.Hold)
	if _, err := local.AdvanceThread(ctx, prog, &o, run); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("a superstep that never was: %v", err)
	}
}

func TestOperationsFromManyWorkersOnTwoHandles(t *testing.T) {
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
				for st := (local.Stand{Epoch: epoch}); st.Epoch == epoch; {
					for range 2 {
						i := rand.IntN(4)
						runTasks(t, prog, o, epoch, i, i+1)
					}
					st = advance(t, prog, o, epoch)
					ids[w] = st.Epoch
				}
			})
		}
		wg.Wait()
		for _, id := range ids {
			if id != ids[0] {
				t.Fatalf("workers saw different records: %v", ids)
			}
		}
		state, err := local.StateOf(t.Context(), stores[1], prog.Values, log, ids[0], local.Keeper{})
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
	o.Run, o.Hold = run, &local.Hold{Fence: stale.Fence}
	if recorded, err := local.RunTasks(ctx, prog, &o, epoch, 0, 1); recorded || !errors.Is(err, local.ErrThreadBusy) {
		t.Fatal(recorded, err)
	}
	if _, err := local.AdvanceThread(ctx, prog, &o, epoch); !errors.Is(err, local.ErrThreadBusy) {
		t.Fatal(err)
	}
	results, err := store.Results(ctx, o.Log, "", epoch)
	if err != nil || len(results) != 0 || runs.Load() != 0 {
		t.Errorf("%v, %v; %d tasks ran", results, err, runs.Load())
	}
}

// Who advances a superstep again, and died before that, goes on with what others, or it
// itself, have done since.
func TestAnOldSuperstepIsAdvancedToWhereTheRunStands(t *testing.T) {
	var runs atomic.Int32
	prog := program(t, &runs)
	o := local.Options{Store: checkpoint.NewMemory(), Log: checkpoint.Log{Thread: "t"}}
	epoch := begin(t, prog, o)
	runTasks(t, prog, o, epoch, 0, 4)
	second := advance(t, prog, o, epoch)
	runTasks(t, prog, o, second.Epoch, 0, 1)
	if st := advance(t, prog, o, epoch); !st.Ended || st.At == second.At {
		t.Errorf("%+v: the second superstep was not closed", st)
	}
}

// A run that begins twice, since its caller was not told, has one claim; another that
// began meanwhile keeps the thread.
func TestARunBeginsOnce(t *testing.T) {
	ctx := context.Background()
	var runs atomic.Int32
	prog := program(t, &runs)
	store := checkpoint.NewMemory()
	o := local.Options{Store: store, Log: checkpoint.Log{Thread: "t"}}
	begin(t, prog, o)
	o.Lease = local.DefaultLease
	_, before, err := store.Head(ctx, o.Log)
	if err != nil {
		t.Fatal(err)
	}
	start := func(run checkpoint.ID) (local.Stand, error) {
		o.Run, o.Hold = run, &local.Hold{Fence: before, Claim: true}
		return local.AdvanceThread(ctx, prog, &o, "")
	}
	first, err := start(run)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := start(run); err != nil || again != first || first.Fence != before+1 {
		t.Errorf("%+v, %v; want %+v", again, err, first)
	}
	if _, err := start(checkpoint.NewRunID()); !errors.Is(err, local.ErrThreadBusy) {
		t.Errorf("another run: %v", err)
	}
	var w checkpoint.Write
	w.Log, w.Fence, w.Lease, w.Holder = o.Log, first.Fence, local.DefaultLease, string(run)
	if _, err := store.Write(ctx, &w); err != nil {
		t.Errorf("the run does not hold the thread any more: %v", err)
	}
}

// late is a store in which something is written right before a claim.
type late struct {
	checkpoint.Store
	before func()
}

func (s *late) Write(ctx context.Context, w *checkpoint.Write) (checkpoint.Written, error) {
	if w.Claim && s.before != nil {
		s.before()
		s.before = nil
	}
	return s.Store.Write(ctx, w)
}

func TestARunBeginsWithAllThatWasRecordedBeforeItsClaim(t *testing.T) {
	ctx := context.Background()
	var runs atomic.Int32
	prog := program(t, &runs)
	store := &late{Store: checkpoint.NewMemory()}
	o := local.Options{Store: store, Log: checkpoint.Log{Thread: "t"}}
	epoch := begin(t, prog, o)
	_, before, err := store.Head(ctx, o.Log)
	if err != nil {
		t.Fatal(err)
	}
	store.before = func() { runTasks(t, prog, o, epoch, 1, 4) }
	o.Run, o.Hold = checkpoint.NewRunID(), &local.Hold{Fence: before, Claim: true}
	st, err := local.AdvanceThread(ctx, prog, &o, "")
	if err != nil || st.From != 0 || st.To != 1 {
		t.Errorf("%+v, %v; want the one task that is left", st, err)
	}
}
