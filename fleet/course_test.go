package fleet_test

import (
	"cmp"
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
	"github.com/superstep-dev/superstep/fleet/bus"
	"github.com/superstep-dev/superstep/graph"
)

// winding has all that a stream can tell of: a fan-out, a retry, a sub-step, a subgraph that
// keeps its state and asks, a breakpoint and a failure.
func winding(t *testing.T, store checkpoint.Store) *graph.Graph[trip] {
	t.Helper()
	inner := graph.New[trip]("inner")
	inner.AddNode("look", func(ctx context.Context, s *trip) error {
		found, err := graph.Do(ctx, "search", func(_ context.Context, what string) (string, error) { return "found " + what, nil }, "gold")
		s.Log.Add(found)
		return cmp.Or(err, graph.Emit(ctx, "looking"))
	})
	inner.AddNode("sure", func(ctx context.Context, s *trip) error {
		yes, err := graph.Interrupt[bool](ctx, "sure", "Sure?")
		s.Log.Add(fmt.Sprint("sure ", yes))
		return err
	})
	b := graph.New[trip]("winding")
	work := graph.AddTask(b, "work", func(ctx context.Context, s *trip, n int) error {
		if n == 2 && graph.Info(ctx).Attempt == 1 {
			return errors.New("not yet")
		}
		s.Log.Add(fmt.Sprint("work ", n))
		return nil
	}, graph.Retry(graph.RetryPolicy{Initial: time.Second}))
	b.AddCommandNode("plan", func(_ context.Context, s *trip) (graph.Command, error) {
		s.Log.Add("plan")
		return graph.Dispatch(work.Send(1), work.Send(2)), nil
	}, graph.Destinations("work"))
	graph.AddShared(b, "inner", inner.AddEdge(graph.Start, "look").AddEdge("look", "sure").MustCompile(), func(s *trip) *trip { return s })
	b.AddNode("held", func(_ context.Context, s *trip) error { s.Log.Add("held"); return nil })
	b.AddNode("fail", func(context.Context, *trip) error { return errors.New("it is broken") })
	g, err := b.AddEdge(graph.Start, "plan").AddEdge("work", "inner").AddSequence("inner", "held", "fail").Compile(graph.WithCheckpointer(store))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// course returns a line for each event, but for IDs and times.
func course(t *testing.T, events iter.Seq2[graph.Event, error]) (lines []string) {
	for ev, err := range events {
		if err != nil {
			return append(lines, "the error: "+err.Error())
		}
		state, serr := ev.StateJSON()
		output, oerr := ev.OutputJSON()
		if serr != nil || oerr != nil {
			t.Fatal(serr, oerr)
		}
		if data, ok := ev.Value.(json.RawMessage); ok {
			if err := json.Unmarshal(data, &ev.Value); err != nil {
				t.Fatal(err)
			}
		}
		line := fmt.Sprintf("%s %v within %d, step %d, %s %t attempt %d: %s %v %s %v %s %s %v %v %t %s %s",
			ev.Type, ev.Path, len(ev.Within), ev.Step, ev.Node, ev.Task != "", ev.Attempt, ev.Update, ev.Value, ev.Source, ev.Next, ev.From, ev.Input, ev.Err, ev.Delay > 0, ev.Cached, state, output)
		if q := ev.Interrupt; q != nil {
			line += fmt.Sprint(q.Key, q.When, q.Path)
		}
		if ev.Time.IsZero() || ev.Graph == "" || ev.Thread != "t" {
			t.Errorf("%s: at %v of %q in %q", line, ev.Time, ev.Graph, ev.Thread)
		}
		if ev.Source != string(checkpoint.SourceInterrupt) || len(ev.Path) > 0 { // see graph.Since
			lines = append(lines, line)
		}
	}
	return lines
}

// What happens on workers elsewhere is told as by a run of this process: the course of
// tasks, what happens inside of subgraphs, what is asked.
func TestAStreamTellsTheCourseOfTasksElsewhere(t *testing.T) {
	modes := graph.Modes(graph.ModeUpdates, graph.ModeValues, graph.ModeTasks, graph.ModeCheckpoints, graph.ModeCustom)
	breakpoint := graph.InterruptBefore("held")
	var all [2][]string
	for i := range all {
		synctest.Test(t, func(t *testing.T) {
			store := checkpoint.NewMemory()
			g := winding(t, store)
			th := g.Thread("t")
			b := bus.NewMemory()
			w, err := fleet.NewWorker(store, fleet.Options{Bus: b, Run: func(_ context.Context, _ fleet.Ref, g graph.Runnable) (graph.Runnable, []graph.RunOption, error) {
				return g, []graph.RunOption{breakpoint}, nil
			}}, fleet.Program{Graph: g})
			if err != nil {
				t.Fatal(err)
			}
			d, err := fleet.NewLocal(w, fleet.LocalOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			c := &fleet.Client{Dispatcher: elsewhere{d}, Store: store, Bus: b}
			for _, req := range []graph.Request[trip]{th.Input(func(s *trip) error { s.Log.Add("in"); return nil }), th.Answer(true), th.Continue()} {
				if i == 0 {
					all[i] = append(all[i], course(t, th.Stream(t.Context(), req, modes, breakpoint))...)
				} else {
					all[i] = append(all[i], course(t, fleet.Stream(t.Context(), c, th, req, modes))...)
				}
			}
		})
	}
	want, got := all[0], all[1]
	for _, kind := range []string{"task [", "task_result [", "task_error [", "task_retry [", "updates [inner", "values [inner", "checkpoints [inner", "interrupt [", "task [inner look]", "the error"} {
		if !slices.ContainsFunc(want, func(line string) bool { return strings.HasPrefix(line, kind) }) {
			t.Errorf("nothing begins with %q", kind)
		}
	}
	// Tasks that run at once are told of as it happens; all else is in one order.
	atOnce := func(line string) bool { return strings.Contains(line, ", work true") }
	if a, b := slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(got)); !slices.Equal(a, b) ||
		!slices.Equal(slices.DeleteFunc(slices.Clone(want), atOnce), slices.DeleteFunc(slices.Clone(got), atOnce)) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Workers tell what the stream of a run wants: what costs something and nobody wants does
// not go over the bus.
func TestWorkersTellWhatIsWanted(t *testing.T) {
	for name, one := range map[string]struct {
		modes   graph.StreamOption
		topOnly bool
		want    []string
	}{
		"messages":                         {graph.Modes(graph.ModeMessages), false, nil},
		"custom events":                    {graph.Modes(graph.ModeCustom), false, []string{"custom"}},
		"tasks":                            {graph.Modes(graph.ModeTasks), false, []string{"task", "task_result", "task_retry"}},
		"tasks but for those of subgraphs": {graph.Modes(graph.ModeTasks), true, []string{"task", "task_result", "task_retry"}},
		"values of the graph itself":       {graph.Modes(graph.ModeValues), true, []string{"interrupt", "values"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := checkpoint.NewMemory()
			g := winding(t, store)
			b := &overheard{Bus: bus.NewMemory(), kinds: map[string]bool{}}
			c := away(t, store, b, nil, g)
			c.TopOnly = one.topOnly
			th := g.Thread("t")
			var got []string
			for ev, err := range fleet.Stream(t.Context(), c, th, th.Input(nothing), one.modes) {
				if err != nil {
					t.Fatal(err)
				}
				if len(ev.Path) > 0 && one.topOnly {
					t.Errorf("%s: %s of %v", name, ev.Type, ev.Path)
				}
				got = append(got, string(ev.Type))
			}
			slices.Sort(got)
			if got = slices.Compact(got); !slices.Equal(got, one.want) {
				t.Errorf("%s: %q are told, and %q is wanted", name, got, one.want)
			}
			if b.kinds["values"] || b.kinds["updates"] || b.kinds["task"] != slices.Contains(one.want, "task") {
				t.Errorf("%s: %v went over the bus", name, b.kinds)
			}
		})
	}
}

// overheard is a bus that notes which kinds of events it carries.
type overheard struct {
	bus.Bus
	kinds map[string]bool
}

func (o *overheard) Publish(ctx context.Context, thread string, batch []byte) error {
	var read struct {
		Sent []struct{ Events []struct{ Kind string } }
	}
	if err := json.Unmarshal(batch, &read); err != nil {
		return err
	}
	for _, task := range read.Sent {
		for _, ev := range task.Events {
			o.kinds[ev.Kind] = true
		}
	}
	return o.Bus.Publish(ctx, thread, batch)
}
