package graph_test

import (
	"math"
	"slices"
	"testing"

	"github.com/superstep-dev/superstep/graph"
)

func TestSet(t *testing.T) {
	var s graph.Set[uint8]
	if s.Has(1) || s.Len() != 0 || fieldJSON(t, s) != "[]" || !s.IsZero() {
		t.Error("zero value")
	}
	commitField(t, &s, func(s *graph.Set[uint8]) { s.Add(3, 1, 2, 1) })
	commitField(t, &s, func(s *graph.Set[uint8]) {
		s.Remove(2, 9)
		if s.Has(2) || !s.Has(1) || s.Len() != 2 {
			t.Error("own write")
		}
	})
	if fieldJSON(t, s) != "[1,3]" || s.String() != "[1 3]" || !slices.Equal(slices.Collect(s.All()), []uint8{1, 3}) {
		t.Errorf("got %v", s)
	}
	fork := forkField(&s)
	fork.Add(1)
	if c := changeOf(t, fork); c == nil || !keeps(&s, c) || fieldJSON(t, c) != `{"$keep":[1]}` {
		t.Error("adding what is there is not recorded, or progress")
	}
	fork.Remove(1)
	fork.Add(4)
	if got := fieldJSON(t, changeOf(t, fork)); got != `{"$remove":[1],"$add":[4]}` {
		t.Error(got)
	}
	// Whether it is there or not, adding and removing don't go together.
	other := forkField(&s)
	other.Remove(4)
	if conflict(&s, changeOf(t, other), changeOf(t, fork)) == nil {
		t.Error("no conflict")
	}
	fork.Overwrite(7, 7)
	if got := fieldJSON(t, changeOf(t, fork)); got != `{"$overwrite":[7]}` {
		t.Error(got)
	}
	fork.Overwrite(3, 1)
	if c := changeOf(t, fork); c == nil || !keeps(&s, c) {
		t.Error("overwriting with the same is not recorded, or progress")
	}
	for range s.All() {
		break
	}
}

func TestSetNotFinite(t *testing.T) {
	var s graph.Set[float64]
	for _, x := range []float64{math.NaN(), math.Inf(1)} {
		fork := forkField(&s)
		fork.Add(x)
		if _, err := fork.Merger().Change(); err == nil {
			t.Errorf("%v was taken", x)
		}
	}
}

func FuzzSet(f *testing.F) {
	fuzzField[graph.Set[string]](f, `["b","a","b"]`, `{"$add":["a"],"$remove":["a"],"$overwrite":["c"]}`)
}
