package graph_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/graph"
)

type concat struct{}

func (concat) Reduce(current, update []int) []int { return append(current, update...) }

type quotient struct{}

func (quotient) Reduce(current, update int) int { return current / update }

func TestReduced(t *testing.T) {
	var r graph.Reduced[int, quotient]
	if r.Get() != 0 || fieldJSON(t, r) != "null" || !r.IsZero() {
		t.Error("zero value")
	}
	commitField(t, &r, func(r *graph.Reduced[int, quotient]) { r.Add(100) }) // stored as it is
	commitField(t, &r, func(r *graph.Reduced[int, quotient]) {
		r.Add(2)
		r.Add(5)
		if r.Get() != 10 {
			t.Error("own write")
		}
	})
	if r.Get() != 10 || r.String() != "10" {
		t.Errorf("got %v", r)
	}
	fork := forkField(&r)
	fork.Add(2)
	if got := fieldJSON(t, changeOf(t, fork)); got != "2" {
		t.Error(got)
	}
	fork.Add(5)
	if got := fieldJSON(t, changeOf(t, fork)); got != `{"$updates":[2,5]}` {
		t.Error(got)
	}
	fork.Overwrite(8)
	fork.Add(4)
	if got := fieldJSON(t, changeOf(t, fork)); got != `{"$overwrite":8,"$updates":[4]}` || fork.Get() != 2 {
		t.Error(got)
	}
	fork.Overwrite(10)
	if c := changeOf(t, fork); c == nil || !keeps(&r, c) {
		t.Error("overwriting with the same is not recorded, or progress")
	}
	zero, err := r.Merger().DecodeChange([]byte("0"))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Merger().Apply(zero); err == nil || !strings.Contains(err.Error(), "divide") || r.Get() != 10 {
		t.Errorf("got %v, value %v", err, r)
	}
	fork = forkField(&r)
	fork.Add(2)
	if err := fork.Merger().Write(zero); err == nil || fork.Get() != 5 {
		t.Errorf("got %v, value %v", err, fork)
	}
}

// A reducer that appends in place writes behind nobody's value.
func TestReducedAppends(t *testing.T) {
	var base graph.Reduced[[]int, concat]
	commitField(t, &base, func(r *graph.Reduced[[]int, concat]) { r.Add(make([]int, 3, 100)) })
	a, b := forkField(&base), forkField(&base)
	a.Add([]int{1})
	b.Add([]int{2})
	if !slices.Equal(a.Get(), []int{0, 0, 0, 1}) || !slices.Equal(b.Get(), []int{0, 0, 0, 2}) {
		t.Errorf("got %v and %v", a, b)
	}
}

func FuzzReduced(f *testing.F) {
	fuzzField[graph.Reduced[any, graph.Latest[any]]](f, `{"$overwrite":{"a":1},"$updates":[1,{}]}`, `{"$updates":[{"$updates":[]}]}`)
}
