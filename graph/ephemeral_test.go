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

func FuzzEphemeral(f *testing.F) { fuzzField[graph.Ephemeral[[]int]](f) }
