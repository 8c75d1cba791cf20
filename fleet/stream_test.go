package fleet_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/fleet"
	"github.com/superstep-dev/superstep/graph"
)

// elsewhere is a dispatcher whose workers are, for all that a client knows, in other
// processes.
type elsewhere struct{ fleet.Dispatcher }

// told returns a line for each event, but for IDs and times, and one for an error.
func told(events iter.Seq2[graph.Event, error]) (lines []string) {
	for ev, err := range events {
		if err != nil {
			return append(lines, err.Error())
		}
		state, _ := ev.StateJSON()
		line := fmt.Sprintln(ev.Type, ev.Path, ev.Step, ev.Node, string(ev.Update), ev.Value, ev.Source, ev.Next, ev.From, string(state))
		if q := ev.Interrupt; q != nil {
			line += q.Key
		}
		lines = append(lines, line)
	}
	return lines
}

// journey has a fan-out, a subgraph, a question and what nodes emit.
func journey(t *testing.T, store checkpoint.Store) *graph.Graph[trip] {
	t.Helper()
	inner := graph.New[trip]("inner")
	inner.AddNode("look", func(ctx context.Context, s *trip) error {
		s.Log.Add("looked")
		return graph.Emit(ctx, "looking")
	})
	inner.AddEdge(graph.Start, "look")
	b := graph.New[trip]("journey")
	work := graph.AddTask(b, "work", func(ctx context.Context, s *trip, n int) error {
		s.Log.Add(fmt.Sprint("work ", n))
		return nil
	})
	b.AddCommandNode("plan", func(ctx context.Context, s *trip) (graph.Command, error) {
		s.Log.Add("plan")
		return graph.Dispatch(work.Send(1), work.Send(2)), nil
	}, graph.Destinations("work"))
	graph.AddShared(b, "inner", inner.MustCompile(), func(s *trip) *trip { return s })
	b.AddNode("ask", func(ctx context.Context, s *trip) error {
		yes, err := graph.Interrupt[bool](ctx, "go", "Go?")
		s.Log.Add(fmt.Sprint("go ", yes))
		return err
	})
	b.AddEdge(graph.Start, "plan").AddEdge("work", "inner").AddEdge("inner", "ask")
	g, err := b.Compile(graph.WithCheckpointer(store))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestAStreamOfThisProcessTellsWhatAnyOtherRunTells(t *testing.T) {
	modes := graph.Modes(graph.ModeUpdates, graph.ModeValues, graph.ModeCheckpoints, graph.ModeTasks, graph.ModeCustom)
	var all [2][]string
	for i := range all {
		store := checkpoint.NewMemory()
		g := journey(t, store)
		th := g.Thread("t")
		c, d := local(t, store, store, g)
		defer d.Close()
		for _, req := range []graph.Request[trip]{th.Input(func(s *trip) error { s.Log.Add("in"); return nil }), th.Answer(true)} {
			if i == 0 {
				all[i] = append(all[i], told(th.Stream(t.Context(), req, modes))...)
			} else {
				all[i] = append(all[i], told(fleet.Stream(t.Context(), c, th, req, modes))...)
			}
		}
	}
	if !slices.Equal(all[0], all[1]) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(all[1], "\n"), strings.Join(all[0], "\n"))
	}
}

func TestAStreamTellsWhatWorkersElsewhereHaveRecorded(t *testing.T) {
	modes := graph.Modes(graph.ModeUpdates, graph.ModeValues, graph.ModeCheckpoints)
	var all [2][]string
	for i := range all {
		store := checkpoint.NewMemory()
		g := journey(t, store)
		th := g.Thread("t")
		c, d := local(t, store, store, g)
		defer d.Close()
		c.Dispatcher = elsewhere{d}
		for _, req := range []graph.Request[trip]{th.Input(func(s *trip) error { s.Log.Add("in"); return nil }), th.Answer(true)} {
			var lines []string
			if i == 0 {
				lines = told(th.Stream(t.Context(), req, modes))
			} else {
				lines = told(fleet.Stream(t.Context(), c, th, req, modes))
			}
			for _, line := range lines {
				if !strings.HasPrefix(line, "interrupt") && !strings.Contains(line, "[inner]") && !strings.Contains(line, "interrupt [") {
					all[i] = append(all[i], line)
				}
			}
		}
	}
	if !slices.Equal(all[0], all[1]) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(all[1], ""), strings.Join(all[0], ""))
	}
}

func TestAStreamThatIsCancelledEndsItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, away := range []bool{false, true} {
			store := checkpoint.NewMemory()
			began := make(chan struct{})
			g := compile(t, store, "slow", func(ctx context.Context, s *trip) error {
				close(began)
				<-ctx.Done()
				return context.Cause(ctx)
			})
			c, d := local(t, store, store, g)
			defer d.Close()
			if away {
				c.Dispatcher = elsewhere{d}
			}
			th := g.Thread("t")
			ctx, cancel := context.WithCancelCause(t.Context())
			why := errors.New("enough")
			go func() { <-began; cancel(why) }()
			var last error
			for _, err := range fleet.Stream(ctx, c, th, th.Input(nothing)) {
				last = err
			}
			if !errors.Is(last, context.Canceled) || !errors.Is(last, why) {
				t.Errorf("the stream ended with %v", last)
			}
			if _, err := th.Edit(t.Context(), nothing); err != nil {
				t.Errorf("the thread is not given up: %v", err)
			}
		}
	})
}

// A stream that is drained ends with the superstep, or leaves the run to the workers, and
// whoever follows it is told the rest.
func TestAStreamThatIsDrainedIsFollowedByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, away := range []bool{false, true} {
			store := checkpoint.NewMemory()
			began, drain := make(chan struct{}), make(chan struct{})
			g := compile(t, store, "slow", func(ctx context.Context, s *trip) error {
				close(began)
				s.Log.Add("slow")
				time.Sleep(time.Second)
				return ctx.Err()
			})
			c, d := local(t, store, store, g)
			defer d.Close()
			if away {
				c.Dispatcher = elsewhere{d}
			}
			th := g.Thread("t")
			go func() { <-began; close(drain) }()
			first := told(fleet.Stream(t.Context(), c, th, th.Input(nothing), graph.Drain(drain)))
			if n := len(first); n == 0 || first[n-1] != graph.ErrDrained.Error() {
				t.Fatalf("the stream ended with %q", first)
			}
			rest := told(fleet.Follow(t.Context(), c, th))
			if all := slices.Concat(first[:len(first)-1], rest); len(all) != 2 || !strings.Contains(all[0], "slow") || !strings.Contains(all[1], "end") {
				t.Errorf("told %q", all)
			}
			if snap := state(t, th); !slices.Equal(snap.State.Log.Slice(), []string{"slow", "end"}) {
				t.Errorf("%+v", snap.State)
			}
		}
	})
}

// What a task wrote is told when it is recorded: its sibling is still at work.
func TestAStreamTellsWhatATaskWroteBeforeTheSuperstepEnds(t *testing.T) {
	store := checkpoint.NewMemory()
	told := make(chan struct{})
	b := graph.New[trip]("halves")
	b.AddNode("fast", func(_ context.Context, s *trip) error { s.Log.Add("fast"); return nil })
	b.AddNode("slow", func(ctx context.Context, s *trip) error {
		select {
		case <-told:
			s.Log.Add("slow")
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	g, err := b.AddEdge(graph.Start, "fast").AddEdge(graph.Start, "slow").Compile(graph.WithCheckpointer(store))
	if err != nil {
		t.Fatal(err)
	}
	c, d := local(t, store, store, g)
	defer d.Close()
	th := g.Thread("t")
	var nodes []string
	for ev, err := range fleet.Stream(t.Context(), c, th, th.Input(nothing)) {
		if err != nil {
			t.Fatal(err)
		}
		if nodes = append(nodes, ev.Node); ev.Node == "fast" {
			close(told)
		}
	}
	if !slices.Equal(nodes, []string{"fast", "slow"}) {
		t.Errorf("told %q", nodes)
	}
}

// Which limit a run has reached is known where its error is not.
func TestTheErrorOfARunElsewhereHasItsKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, opts := range map[string][]graph.Option{"supersteps": {graph.MaxSteps(1)}, "time": {graph.RunTimeout(time.Minute)}} {
			store := checkpoint.NewMemory()
			g := compile(t, store, "slow", func(ctx context.Context, s *trip) error {
				if name == "time" {
					<-ctx.Done()
				}
				return ctx.Err()
			}, opts...)
			w, err := fleet.NewWorker(store, fleet.Options{}, fleet.Program{Graph: g})
			if err != nil {
				t.Fatal(err)
			}
			d, err := fleet.NewLocal(w, fleet.LocalOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			c := &fleet.Client{Dispatcher: elsewhere{byJSON{d}}, Store: store}
			_, err = fleet.Invoke(t.Context(), c, g.Thread("t"), g.Input(nothing))
			var kind bool
			switch name {
			case "time":
				_, kind = errors.AsType[*graph.TimeoutError](err)
			default:
				_, kind = errors.AsType[*graph.LimitError](err)
			}
			if !kind {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// byJSON is a dispatcher whose progress comes as JSON.
type byJSON struct{ fleet.Dispatcher }

type runByJSON struct{ fleet.Run }

func (d byJSON) Dispatch(ctx context.Context, ref fleet.Ref) (fleet.Run, error) {
	run, err := d.Dispatcher.Dispatch(ctx, ref)
	return runByJSON{run}, err
}

func (r runByJSON) Wait(ctx context.Context) (p fleet.Progress, err error) {
	whole, err := r.Run.Wait(ctx)
	data, _ := json.Marshal(whole) // of texts and numbers
	return p, errors.Join(err, json.Unmarshal(data, &p))
}
