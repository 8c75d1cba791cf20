package graph_test

import (
	"testing"

	"github.com/superstep-dev/superstep/graph"
)

func TestUntracked(t *testing.T) {
	var u graph.Untracked[func() int]
	if u.Get() != nil || fieldJSON(t, u) != "null" {
		t.Error("zero value")
	}
	a, b := forkField(&u), forkField(&u)
	a.Set(func() int { return 1 })
	b.Set(func() int { return 2 })
	if a.Get()() != 1 {
		t.Error("own write")
	}
	ca, cb := changeOf(t, a), changeOf(t, b)
	if err := u.Merger().Apply(ca); err != nil {
		t.Error(err)
	}
	if err := u.Merger().Apply(cb); err != nil || u.Get()() != 2 {
		t.Error("the last one wins", err)
	}
	if fieldJSON(t, u) != "null" || fieldJSON(t, cb) != "null" {
		t.Error("it was stored")
	}
	var p graph.Untracked[*int]
	p.Set(new(int))
	fork := forkField(&p)
	fork.Set(p.Get())
	if c := changeOf(t, fork); c == nil || !keeps(fork, c) {
		t.Error("setting the same pointer is not recorded, or progress")
	}
}

func FuzzUntracked(f *testing.F) { fuzzField[graph.Untracked[map[string]int]](f) }
