package graph_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/superstep-dev/superstep/field"
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

// level has no null.
type level string

func (l *level) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return errors.New("unknown level null")
	}
	*l = level(data)
	return nil
}

func TestNullIsNoValueOfAField(t *testing.T) {
	var u graph.Untracked[level]
	var r graph.Reduced[level, graph.Latest[level]]
	for name, f := range map[string]json.Unmarshaler{"untracked": &u, "reduced": &r} {
		if err := f.UnmarshalJSON([]byte("null")); err != nil {
			t.Error(name, err)
		}
	}
	if err := r.Merger().(field.Snapshotting).UnmarshalSnapshot([]byte("null")); err != nil || !r.IsZero() {
		t.Error("a snapshot of none:", err, r)
	}
	var set graph.Reduced[*int, graph.Latest[*int]]
	set.Overwrite(nil)
	data, err := set.Merger().(field.Snapshotting).MarshalSnapshot()
	var read graph.Reduced[*int, graph.Latest[*int]]
	if err = errors.Join(err, read.Merger().(field.Snapshotting).UnmarshalSnapshot(data)); err != nil || read.IsZero() {
		t.Errorf("a null that was set is kept as %s and read as %v, %v", data, read, err)
	}
}
