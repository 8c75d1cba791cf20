package file

import (
	"errors"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/engine"
)

// A log to which something was appended since it was read isn't shortened on the strength
// of what was read: its newest row would say that there is more than there is.
func TestALogThatHasGrownSinceIsNotShortened(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{Sync: SyncNever})
	log, run := checkpoint.Log{Thread: "t"}, checkpoint.NewRunID()
	head := checkpoint.ID("")
	add := func(n int64) {
		t.Helper()
		r := &checkpoint.Record{ID: run.Checkpoint(uint32(n)), Log: log, Seq: n, Parent: head, Source: checkpoint.SourceLoop, Graph: "g"}
		if _, err := s.Write(t.Context(), &checkpoint.Write{Log: log, Record: r, Head: head}); err != nil {
			t.Fatal(err)
		}
		head = r.ID
	}
	add(1)
	add(2)
	l, err := s.driver.Load(t.Context(), log)
	if err != nil {
		t.Fatal(err)
	}
	add(3)
	h := l.Header
	h.Version++
	c := &engine.Commit{Thread: "t", Version: l.Header.Version, Header: &h, Remove: []engine.Places{{From: 1, To: 1}}, Newest: l.Newest.Place}
	if err := s.driver.Commit(t.Context(), []*engine.Commit{c}); err != nil || !errors.Is(c.Err, engine.ErrStale) {
		t.Errorf("%v, %v", err, c.Err)
	}
}
