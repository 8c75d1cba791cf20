package engine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/checkpointtest"
	"github.com/superstep-dev/superstep/checkpoint/engine"
)

// The drivers' stores are kept apart from what they are opened on, so that a test can
// open one again.
func TestTheSimplestDriverMakesAStore(t *testing.T) {
	drivers := map[checkpoint.Store]*simple{}
	open := func(d *simple) checkpoint.Store {
		s := engine.New(d, engine.Options{})
		drivers[s] = d
		return s
	}
	fresh := func(*testing.T) checkpoint.Store { return open(newSimple()) }
	o := checkpointtest.Options{
		Reopen: func(t *testing.T, s checkpoint.Store) checkpoint.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return open(drivers[s])
		},
		Crash:   func(_ *testing.T, s checkpoint.Store) checkpoint.Store { return open(drivers[s]) },
		Another: func(_ *testing.T, s checkpoint.Store) checkpoint.Store { return open(drivers[s]) },
	}
	checkpointtest.Run(t, fresh, o)
	t.Run("Model", func(t *testing.T) { checkpointtest.Model(t, fresh, o) })
}

// between has something done after the first page of rows was read.
type between struct {
	*simple
	do func()
}

func (d *between) Rows(ctx context.Context, q engine.RowQuery) ([]engine.Row, bool, error) {
	page, last, err := d.simple.Rows(ctx, q)
	if do := d.do; do != nil {
		d.do = nil
		do()
	}
	return page, last, err
}

func TestWhatIsAppendedWhileALogIsShortenedStays(t *testing.T) {
	d := newSimple()
	slow := &between{simple: d}
	a, b := engine.New(slow, engine.Options{}), engine.New(d, engine.Options{})
	log, run := checkpoint.Log{Thread: "t"}, checkpoint.NewRunID()
	head := checkpoint.ID("")
	add := func(s checkpoint.Store, n int64) error {
		r := &checkpoint.Record{ID: run.Checkpoint(uint32(n)), Log: log, Seq: n, Parent: head, Source: checkpoint.SourceLoop, Graph: "g"}
		_, err := s.Write(t.Context(), &checkpoint.Write{Log: log, Record: r, Head: head})
		head = r.ID
		return err
	}
	for n := range int64(5) {
		if err := add(b, n+1); err != nil {
			t.Fatal(err)
		}
	}
	old := head
	slow.do = func() {
		if err := add(b, 6); err != nil {
			t.Error(err)
		}
	}
	err := a.Rewrite(t.Context(), &checkpoint.Rewrite{Log: log, Head: old, Remove: []checkpoint.ID{run.Checkpoint(2)}})
	if !errors.Is(err, checkpoint.ErrConflict) {
		t.Errorf("the head has moved on: %v", err)
	}
	if err := a.Rewrite(t.Context(), &checkpoint.Rewrite{Log: log, Head: head, Remove: []checkpoint.ID{run.Checkpoint(2)}}); err != nil {
		t.Fatal(err)
	}
	for c, err := range a.Verify(t.Context(), "") {
		t.Error(c, err)
	}
}
