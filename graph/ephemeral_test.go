package graph_test

import (
	"testing"

	"github.com/superstep-dev/superstep/field"
	"github.com/superstep-dev/superstep/graph"
)

func TestEphemeral(t *testing.T) {
	var e graph.Ephemeral[int]
	if e.Has() || e.Get() != 0 || fieldJSON(t, e) != "null" || e.Merger().(field.Stepped).EndStep() || !e.IsZero() {
		t.Error("zero value")
	}
	commitField(t, &e, func(e *graph.Ephemeral[int]) {
		e.Set(0)
		if !e.Has() {
			t.Error("own write")
		}
	})
	if !e.Has() || fieldJSON(t, e) != "0" || e.String() != "0" {
		t.Errorf("got %v", e)
	}
	// The value ends with this step, so setting it anew is a write.
	fork := forkField(&e)
	if changeOf(t, fork) != nil {
		t.Error("reading is a write")
	}
	fork.Set(0)
	if changeOf(t, fork) == nil {
		t.Error("setting is no write")
	}
	if !e.Merger().(field.Stepped).EndStep() || e.Has() {
		t.Error("still there")
	}
}

// While a superstep is open it has the value that its tasks read and the one to come.
func TestEphemeralOfAnOpenSuperstep(t *testing.T) {
	set := func(x any) field.Change {
		var e graph.Ephemeral[any]
		e.Merger().Bind()
		e.Set(x)
		return changeOf(t, &e)
	}
	begun := func(changes ...func(e *graph.Ephemeral[any]) error) *graph.Ephemeral[any] {
		e := new(graph.Ephemeral[any])
		for _, change := range changes {
			if err := change(e); err != nil {
				t.Fatal(err)
			}
		}
		return e
	}
	give := func(x any) func(*graph.Ephemeral[any]) error {
		return func(e *graph.Ephemeral[any]) error { return e.Merger().(field.Stepped).Give(set(x)) }
	}
	apply := func(x any) func(*graph.Ephemeral[any]) error {
		return func(e *graph.Ephemeral[any]) error { return e.Merger().Apply(set(x)) }
	}
	for _, tt := range []struct {
		e                          *graph.Ephemeral[any]
		snapshot, now, ahead, next string
	}{
		{begun(), `null`, `null`, `null`, `null`},
		{begun(give("a")), `"a"`, `"a"`, `"a"`, `null`},
		{begun(apply("b")), `{"$next":["b"]}`, `null`, `"b"`, `"b"`},
		{begun(give("a"), apply("b")), `{"$next":["b"],"$now":"a"}`, `"a"`, `"b"`, `"b"`},
		{begun(give("a"), apply("b"), apply("c")), `{"$next":["c"],"$now":"a"}`, `"a"`, `"c"`, `"c"`},
		{begun(apply("b"), give("a")), `"a"`, `"a"`, `"a"`, `null`},
		{begun(give(nil), apply(nil)), `{"$next":[null],"$now":null}`, `null`, `null`, `null`},
		{begun(give(map[string]any{"$next": 1.0})), `{"$now":{"$next":1}}`, `{"$next":1}`, `{"$next":1}`, `null`},
		{begun(give(map[string]any{"$overwrite": 1.0})), `{"$overwrite":{"$overwrite":1}}`, `{"$overwrite":1}`, `{"$overwrite":1}`, `null`},
		{begun(give(map[string]any{"$now": 1.0})), `{"$now":{"$now":1}}`, `{"$now":1}`, `{"$now":1}`, `null`},
		{begun(give(nil)), `{"$now":null}`, `null`, `null`, `null`},
		{begun(apply(map[string]any{"$next": 1.0})), `{"$next":[{"$next":1}]}`, `null`, `{"$next":1}`, `{"$next":1}`},
	} {
		data, err := tt.e.Merger().(field.Snapshotting).MarshalSnapshot()
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "snapshot", string(data), tt.snapshot)
		restored := new(graph.Ephemeral[any])
		if err := restored.Merger().(field.Snapshotting).UnmarshalSnapshot(data); err != nil {
			t.Fatal(err)
		}
		for _, e := range []*graph.Ephemeral[any]{tt.e, restored} {
			equal(t, "what tasks read", fieldJSON(t, forkField[graph.Ephemeral[any]](e)), tt.now)
			ahead, next := *e, *e
			ahead.Merger().(field.Stepped).Ahead()
			equal(t, "what is shown", fieldJSON(t, ahead), tt.ahead)
			equal(t, "something ends", next.Merger().(field.Stepped).EndStep(), !e.IsZero())
			equal(t, "what the next tasks read", fieldJSON(t, next), tt.next)
		}
	}
}

func FuzzEphemeral(f *testing.F) { fuzzField[graph.Ephemeral[[]int]](f) }
