// Package fleettest is the suite that every dispatcher of package fleet passes.
package fleettest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/fleet"
	"github.com/superstep-dev/superstep/graph"
)

// Suite says what is tested.
type Suite struct {
	// New returns a dispatcher whose workers have a worker's programs and store. What it
	// needs to be closed it leaves to t.Cleanup.
	New func(t *testing.T, w *fleet.Worker) fleet.Dispatcher

	// Store returns an empty store that the test and the workers share; nil: in memory.
	Store func(t *testing.T) checkpoint.Store
}

// Run runs the suite. Each scenario is run by graph.Thread.Invoke first: what the
// dispatcher makes of it must be the same, and what it ran, too.
func Run(t *testing.T, s Suite) {
	if s.Store == nil {
		s.Store = func(*testing.T) checkpoint.Store { return checkpoint.NewMemory() }
	}
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			want := sc.play(t, s.Store(t), plainly)
			got := sc.play(t, s.Store(t), func(t *testing.T, g *graph.Graph[State], store checkpoint.Store) invoke {
				c := s.client(t, g, store)
				return func(ctx context.Context, th *graph.Thread[State], req graph.Request[State]) (*graph.Snapshot[State], error) {
					return fleet.Invoke(ctx, c, th, req)
				}
			})
			compare(t, want, got)
			t.Run("moving", func(t *testing.T) { compare(t, want, sc.play(t, s.Store(t), moving)) })
		})
	}
	t.Run("cancel", s.cancel)
	t.Run("cancel one of several", s.cancelOne)
	t.Run("busy", s.busy)
	t.Run("unknown", s.unknown)
	t.Run("unreadable", s.unreadable)
	t.Run("killed", s.killed)
}

// client returns a client of a new dispatcher with a worker that has g.
func (s *Suite) client(t *testing.T, g *graph.Graph[State], store checkpoint.Store) *fleet.Client {
	t.Helper()
	w, err := fleet.NewWorker(store, fleet.Options{}, fleet.Program{Graph: g, Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	return &fleet.Client{Dispatcher: s.New(t, w), Store: store, Version: func(string) string { return "v1" }}
}

// State is that of the graphs.
type State struct {
	Log  graph.List[string]
	N    graph.Sum[int]
	Last string
	Inner
}

// Inner is the state of a subgraph.
type Inner struct{ Seen graph.List[string] }

// scenario is a graph and what is done to a thread of it.
type scenario struct {
	name  string
	build func(b *graph.Builder[State], ran *counts)
	steps []step
	opts  []graph.Option
}

type step func(ctx context.Context, th *graph.Thread[State], run invoke) (*graph.Snapshot[State], error)

// invoke does what graph.Thread.Invoke does.
type invoke func(context.Context, *graph.Thread[State], graph.Request[State]) (*graph.Snapshot[State], error)

// counts says how often what was run.
type counts struct {
	mu sync.Mutex
	of map[string]int
}

// add counts and returns how often that makes.
func (c *counts) add(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of[what]++
	return c.of[what]
}

// play returns a line for each step and one for what has been run.
func (sc *scenario) play(t *testing.T, store checkpoint.Store, how func(*testing.T, *graph.Graph[State], checkpoint.Store) invoke) (lines []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ran := &counts{of: map[string]int{}}
	b := graph.New[State]("g")
	sc.build(b, ran)
	g, err := b.Compile(append(sc.opts, graph.WithCheckpointer(store))...)
	if err != nil {
		t.Fatal(err)
	}
	run := how(t, g, store)
	th := g.Thread("t")
	for _, do := range sc.steps {
		snap, err := do(ctx, th, run)
		lines = append(lines, line(snap, err))
	}
	ran.mu.Lock()
	defer ran.mu.Unlock()
	data, _ := json.Marshal(ran.of) // of strings and numbers
	return append(lines, string(data))
}

// line says how a thread stands.
func line(snap *graph.Snapshot[State], err error) string {
	var l struct {
		State             json.RawMessage
		Next, Asks, Waits []string
		Step              int
		Errors            []string
		Failed            string
	}
	if snap != nil {
		l.State, _ = json.Marshal(snap.State) // a state that was stored
		l.Next, l.Step = snap.Next, snap.Step
		for _, q := range snap.Interrupts {
			l.Asks = append(l.Asks, fmt.Sprintf("%s %v", q.Key, q.Value))
		}
		for _, w := range snap.Waits {
			l.Waits = append(l.Waits, w.Key+" "+w.Event)
		}
		for _, task := range snap.Tasks {
			if task.Error != "" {
				l.Errors = append(l.Errors, task.Error)
			}
		}
	}
	if err != nil {
		l.Failed = err.Error()
	}
	data, _ := json.Marshal(l)
	return string(data)
}

// unsaid returns a line without the words of its error, which differ: of an error that is
// recorded, and of several.
func unsaid(line string) string {
	before, said, failed := strings.Cut(line, `,"Failed":`)
	if failed && said != `""}` {
		return before + " failed"
	}
	return line
}

func compare(t *testing.T, want, got []string) {
	t.Helper()
	for i := range max(len(want), len(got)) {
		var w, g string
		if i < len(want) {
			w = want[i]
		}
		if i < len(got) {
			g = got[i]
		}
		if unsaid(w) != unsaid(g) {
			t.Errorf("step %d:\n got  %s\n want %s", i, g, w)
		}
	}
}

func plainly(*testing.T, *graph.Graph[State], checkpoint.Store) invoke {
	return func(ctx context.Context, th *graph.Thread[State], req graph.Request[State]) (*graph.Snapshot[State], error) {
		snap, err := th.Invoke(ctx, req)
		for err == nil && asleep(snap) {
			time.Sleep(time.Until(snap.Waits[0].Until))
			snap, err = th.Invoke(ctx, th.Continue())
		}
		return snap, err
	}
}

func asleep(snap *graph.Snapshot[State]) bool {
	return len(snap.Interrupts) == 0 && len(snap.Waits) > 0 && !slices.ContainsFunc(snap.Waits, func(w graph.Wait) bool { return w.Event != "" || w.Until.IsZero() })
}

// moving runs a superstep by the operations of a worker, task by task, the next by
// graph.Thread.Invoke, and so on.
func moving(t *testing.T, g *graph.Graph[State], store checkpoint.Store) invoke {
	w, err := fleet.NewWorker(store, fleet.Options{}, fleet.Program{Graph: g})
	if err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context, th *graph.Thread[State], req graph.Request[State]) (*graph.Snapshot[State], error) {
		if err := fleet.Submit(ctx, th, req); err != nil {
			return nil, err
		}
		th = th.At("")
		for {
			over, err := superstep(ctx, w, store)
			if err == nil && !over {
				over, err = alone(ctx, th)
			}
			if err != nil || over {
				snap, serr := th.State(ctx)
				return snap, errors.Join(err, serr)
			}
		}
	}
}

// superstep runs one by the operations.
func superstep(ctx context.Context, w *fleet.Worker, store checkpoint.Store) (over bool, err error) {
	ref, err := fleet.NewRef(ctx, store, "t")
	if err != nil {
		return false, err
	}
	p, err := w.Advance(ctx, ref)
	for err == nil && p.Status == fleet.RunSleeps {
		time.Sleep(time.Until(p.Wake))
		p, err = w.Advance(ctx, p.Ref)
	}
	if err != nil || p.Status.Over() {
		return true, errors.Join(err, p.Err)
	}
	for i := p.To - 1; i >= p.From; i-- {
		err := w.RunTasks(ctx, p.Ref, i, i+1)
		if _, failed := errors.AsType[*fleet.TaskError](err); err != nil && !failed {
			return false, err
		} else if failed {
			break
		}
	}
	p, err = w.Advance(ctx, p.Ref)
	switch {
	case err != nil:
		return false, err
	case p.Status.Over():
		return p.Status != fleet.RunSleeps, p.Err
	}
	return false, w.GiveUp(ctx, p.Ref)
}

// alone runs one superstep by Invoke.
func alone(ctx context.Context, th *graph.Thread[State]) (over bool, err error) {
	before, err := th.State(ctx)
	if err != nil || asleep(before) {
		return false, err
	}
	stop := &once{ch: make(chan struct{})}
	snap, err := th.Invoke(ctx, th.Continue(), graph.Drain(stop.ch), graph.Observe(stop))
	if errors.Is(err, graph.ErrDrained) {
		return false, nil
	}
	return !(err == nil && asleep(snap)), err
}

// once closes a channel when the first node is entered.
type once struct {
	sync.Once
	ch chan struct{}
}

func (o *once) OnNodeEnter(graph.Event)       { o.Do(func() { close(o.ch) }) }
func (o *once) OnNodeExit(graph.Event)        {}
func (o *once) OnError(graph.Event)           {}
func (o *once) OnCheckpointSaved(graph.Event) {}
func (o *once) OnInterrupt(graph.Event)       {}
