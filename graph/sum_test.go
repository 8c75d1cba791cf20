package graph_test

import (
	"math"
	"testing"

	"github.com/superstep-dev/superstep/field"
	"github.com/superstep-dev/superstep/graph"
)

func TestSum(t *testing.T) {
	var s graph.Sum[int8]
	if s.Get() != 0 || fieldJSON(t, s) != "0" || !s.IsZero() {
		t.Error("zero value")
	}
	commitField(t, &s, func(s *graph.Sum[int8]) {
		s.Add(100)
		s.Add(-1)
		if s.Get() != 99 {
			t.Error("own write")
		}
	})
	commitField(t, &s, func(s *graph.Sum[int8]) { s.Add(100) })
	if s.Get() != -57 || s.String() != "-57" {
		t.Errorf("got %v, want what Go's int8 gives", s)
	}
	fork := forkField(&s)
	fork.Add(5)
	fork.Add(-5)
	if changeOf(t, fork) != nil {
		t.Error("adding nothing is a write")
	}
	fork.Overwrite(-57)
	if c := changeOf(t, fork); c == nil || !keeps(&s, c) {
		t.Error("overwriting with the same is not recorded, or progress")
	}
	commitField(t, &s, func(s *graph.Sum[int8]) { s.Overwrite(3); s.Add(1) })
	if s.Get() != 4 || !s.Merger().(field.Infallible).Infallible() {
		t.Errorf("got %v", s)
	}
}

func TestSumFloat(t *testing.T) {
	var s graph.Sum[float32]
	commitField(t, &s, func(s *graph.Sum[float32]) { s.Add(0.1) })
	if s.Merger().(field.Infallible).Infallible() {
		t.Error("adding floats can overflow")
	}
	for _, x := range []float32{float32(math.NaN()), float32(math.Inf(1))} {
		fork := forkField(&s)
		fork.Add(x)
		if _, err := fork.Merger().Change(); err == nil {
			t.Errorf("%v was taken", x)
		}
	}
	c, err := s.Merger().DecodeChange([]byte("3e38"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Merger().Apply(c); err != nil {
		t.Fatal(err)
	}
	if err := s.Merger().Apply(c); err == nil || s.Get() > math.MaxFloat32 {
		t.Errorf("overflow: %v, %v", s, err)
	}
}

func FuzzSum(f *testing.F) { fuzzField[graph.Sum[float64]](f, `1e308`, `{"$overwrite":-0}`) }
