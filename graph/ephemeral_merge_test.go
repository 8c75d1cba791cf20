package graph_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
	"github.com/superstep-dev/superstep/field"
	"github.com/superstep-dev/superstep/graph"
)

type mergedInts = graph.MergeEphemeral[[]int, concat]

func TestMergeEphemeral(t *testing.T) {
	var e mergedInts
	if e.Has() || e.Get() != nil || fieldJSON(t, e) != "null" || e.Merger().(field.Stepped).EndStep() || !e.IsZero() {
		t.Error("zero value")
	}
	commitField(t, &e, func(e *mergedInts) {
		e.Add([]int{1})
		e.Add([]int{2})
		if fmt.Sprint(e.Get()) != "[1 2]" {
			t.Error("own write")
		}
	})
	if fieldJSON(t, e) != "[1,2]" || e.String() != "[1 2]" {
		t.Errorf("got %v", e)
	}
	fork := forkField(&e)
	if changeOf(t, fork) != nil {
		t.Error("reading is a write")
	}
	fork.Add([]int{3})
	if got := fieldJSON(t, changeOf(t, fork)); got != "[3]" {
		t.Errorf("wrote %s", got)
	}
	fork.Overwrite([]int{9})
	fork.Add([]int{3})
	if got := fieldJSON(t, changeOf(t, fork)); got != `{"$overwrite":[9],"$updates":[[3]]}` {
		t.Errorf("wrote %s", got)
	}
	if !e.Merger().(field.Stepped).EndStep() || e.Has() {
		t.Error("still there")
	}
}

// While a superstep is open it has the value that its tasks read and what was added to
// the one to come.
func TestMergeEphemeralOfAnOpenSuperstep(t *testing.T) {
	change := func(write func(e *mergedInts)) field.Change {
		var e mergedInts
		e.Merger().Bind()
		write(&e)
		return changeOf(t, &e)
	}
	add := func(x ...int) field.Change { return change(func(e *mergedInts) { e.Add(x) }) }
	over := func(x ...int) field.Change { return change(func(e *mergedInts) { e.Overwrite(x) }) }
	type do func(*mergedInts) error
	give := func(c field.Change) do {
		return func(e *mergedInts) error { return e.Merger().(field.Stepped).Give(c) }
	}
	apply := func(c field.Change) do { return func(e *mergedInts) error { return e.Merger().Apply(c) } }
	for _, tt := range []struct {
		do                         []do
		snapshot, now, ahead, next string
	}{
		{nil, `null`, `null`, `null`, `null`},
		{[]do{give(add(1))}, `[1]`, `[1]`, `[1]`, `null`},
		{[]do{give(add(1)), give(add(2))}, `[1,2]`, `[1,2]`, `[1,2]`, `null`},
		{[]do{apply(add(1))}, `{"$next":[[1]]}`, `null`, `[1]`, `[1]`},
		{[]do{apply(add(1)), apply(add(2))}, `{"$next":[[1],[2]]}`, `null`, `[1,2]`, `[1,2]`},
		{[]do{give(add(1)), apply(add(2)), give(add(3)), apply(add(4))}, `{"$next":[[2],[4]],"$now":[1,3]}`, `[1,3]`, `[1,3,2,4]`, `[2,4]`},
		{[]do{give(add(1)), apply(add(2)), apply(over(3)), apply(add(4))}, `{"$next":[{"$overwrite":[3]},[4]],"$now":[1]}`, `[1]`, `[3,4]`, `[3,4]`},
		{[]do{apply(add(2)), give(over(3))}, `[3]`, `[3]`, `[3]`, `null`},
	} {
		e := new(mergedInts)
		for _, do := range tt.do {
			if err := do(e); err != nil {
				t.Fatal(err)
			}
		}
		data, err := e.Merger().(field.Snapshotting).MarshalSnapshot()
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "snapshot", string(data), tt.snapshot)
		restored := new(mergedInts)
		if err := restored.Merger().(field.Snapshotting).UnmarshalSnapshot(data); err != nil {
			t.Fatal(err)
		}
		for _, e := range []*mergedInts{e, restored} {
			equal(t, "what tasks read", fieldJSON(t, forkField[mergedInts](e)), tt.now)
			ahead, next := *e, *e
			ahead.Merger().(field.Stepped).Ahead()
			equal(t, "what is shown", fieldJSON(t, ahead), tt.ahead)
			equal(t, "something ends", next.Merger().(field.Stepped).EndStep(), !e.IsZero())
			equal(t, "what the next tasks read", fieldJSON(t, next), tt.next)
		}
	}
	var bad graph.MergeEphemeral[int, quotient]
	for _, data := range []string{"1", "0"} {
		c := must[field.Change](t)(bad.Merger().DecodeChange([]byte(data)))
		if err := bad.Merger().Apply(c); (err == nil) != (data == "1") {
			t.Errorf("adding %s: %v", data, err)
		}
	}
	bad.Merger().(field.Stepped).EndStep()
	equal(t, "after a reducer that panics", fieldJSON(t, bad), "1")
}

func FuzzMergeEphemeral(f *testing.F) { fuzzField[mergedInts](f) }

// Tasks that run at once hand something to the next superstep, wherever that is run.
func TestTasksOfASuperstepAddToAMergeEphemeral(t *testing.T) {
	type state struct {
		Found graph.MergeEphemeral[[]int, concat]
		Saw   graph.List[string]
	}
	for name, store := range map[string]checkpoint.Store{
		"memory": checkpoint.NewMemory(),
		"sqlite": open[*sqlite.Store](t)(sqlite.Open(filepath.Join(t.TempDir(), "t.db"))),
	} {
		t.Run(name, func(t *testing.T) {
			b := graph.New[state]("found")
			saw := func(name string, s *state) { s.Saw.Add(name + fmt.Sprint(s.Found.Get())) }
			look := graph.AddTask(b, "look", func(ctx context.Context, s *state, in int) error {
				saw("look", s)
				if in == 2 {
					if _, err := graph.Interrupt[bool](ctx, "ok", nil); err != nil {
						return err
					}
				}
				s.Found.Add([]int{in})
				return nil
			})
			b.AddCommandNode("split", func(_ context.Context, s *state) (graph.Command, error) {
				saw("split", s)
				s.Found.Add([]int{0})
				return graph.Dispatch(look.Send(1), look.Send(2), look.Send(3)), nil
			}, graph.Destinations("look"))
			b.AddNode("collect", func(_ context.Context, s *state) error { saw("collect", s); return nil })
			b.AddNode("after", func(_ context.Context, s *state) error { saw("after", s); return nil })
			b.AddEdge(graph.Start, "split").AddEdge("look", "collect").AddEdge("collect", "after")
			g := compile(t, b, graph.WithCheckpointer(store))
			th := g.Thread("t")
			snap := must[*graph.Snapshot[state]](t)(th.Invoke(bg, g.Input(func(s *state) error { s.Found.Add([]int{7}); return nil })))
			equal(t, "what is shown meanwhile", fmt.Sprint(snap.State.Found.Get()), "[0 1 3]")
			snap = must[*graph.Snapshot[state]](t)(th.Edit(bg, func(s *state) error { s.Found.Add([]int{8}); return nil }))
			equal(t, "what is shown after an edit", fmt.Sprint(snap.State.Found.Get()), "[0 8 1 3]")
			must[graph.Pruned](t)(th.Prune(bg, graph.Keep{}))
			snap = must[*graph.Snapshot[state]](t)(compile(t, b, graph.WithCheckpointer(store)).Thread("t").Invoke(bg, g.Answer(true)))
			want := "split[7] look[0] look[0] look[0 8] collect[1 3 2] after[]"
			if got := strings.Join(snap.State.Saw.Slice(), " "); got != want || snap.State.Found.Has() {
				t.Errorf("got %s, want %s; left %v", got, want, snap.State.Found)
			}
		})
	}
}
