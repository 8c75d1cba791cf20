package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/checkpointtest"
	"github.com/superstep-dev/superstep/checkpoint/engine"
)

// The drivers' stores are kept apart from what they are opened on, so that a test can
// open one again.
func TestTheSimplestDriverMakesAStore(t *testing.T) { suite(t, engine.Options{}) }

func TestAStoreThatRemovesRecordsOneByOne(t *testing.T) { suite(t, engine.Options{Remove: 1}) }

func suite(t *testing.T, with engine.Options) {
	drivers := map[checkpoint.Store]*engine.Memory{}
	open := func(d *engine.Memory) checkpoint.Store {
		s := engine.New(d, with)
		drivers[s] = d
		return s
	}
	fresh := func(*testing.T) checkpoint.Store { return open(new(engine.Memory)) }
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
	*engine.Memory
	do func()
}

func (d *between) Rows(ctx context.Context, q engine.RowQuery) ([]engine.Row, bool, error) {
	page, last, err := d.Memory.Rows(ctx, q)
	if do := d.do; do != nil {
		d.do = nil
		do()
	}
	return page, last, err
}

func TestWhatIsAppendedWhileALogIsShortenedStays(t *testing.T) {
	d := new(engine.Memory)
	slow := &between{Memory: d}
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

// log is a log of records in a store.
type log struct {
	t    *testing.T
	log  checkpoint.Log
	run  checkpoint.ID
	head checkpoint.ID
	n    uint32
}

func newLog(t *testing.T, thread checkpoint.ThreadID) *log {
	return &log{t: t, log: checkpoint.Log{Thread: thread}, run: checkpoint.NewRunID()}
}

func (l *log) add(s checkpoint.Store, n int) {
	l.t.Helper()
	for range n {
		l.n++
		r := &checkpoint.Record{ID: l.run.Checkpoint(l.n), Log: l.log, Seq: int64(l.n), Parent: l.head, Source: checkpoint.SourceLoop, Graph: "g"}
		if _, err := s.Write(context.Background(), &checkpoint.Write{Log: l.log, Record: r, Head: l.head}); err != nil {
			l.t.Error(err)
		}
		l.head = r.ID
	}
}

func (l *log) ids(from, to uint32) (ids []checkpoint.ID) {
	for n := from; n <= to; n++ {
		ids = append(ids, l.run.Checkpoint(n))
	}
	return ids
}

// seqs returns the numbers of the records that are left.
func (l *log) seqs(s checkpoint.Store) (seqs []int64) {
	l.t.Helper()
	for r, err := range s.Records(context.Background(), checkpoint.Query{Log: l.log}) {
		if err != nil {
			l.t.Error(err)
			break
		}
		seqs = append(seqs, r.Seq)
	}
	return seqs
}

// after has something done after each commit that removes rows.
type after struct {
	*engine.Memory
	do func() error
}

func (d *after) Commit(ctx context.Context, batch []*engine.Commit) error {
	err := d.Memory.Commit(ctx, batch)
	if c := batch[0]; err == nil && c.Err == nil && len(c.Remove) > 0 {
		return d.do()
	}
	return err
}

func TestWhatGoesGoesInPiecesTheNewestFirst(t *testing.T) {
	d := &after{Memory: new(engine.Memory)}
	s, other := engine.New(d, engine.Options{Remove: 3}), engine.New(d.Memory, engine.Options{})
	cut := errors.New("cut off")
	for name, c := range map[string]struct {
		do   func(l *log) error
		want string
		err  error
	}{
		"alone":                  {func(*log) error { return nil }, "[[1 2 3 4 5 6 7 11 12] [1 2 3 4 11 12] [1 11 12] [11 12]]", nil},
		"beside another's write": {func(l *log) error { l.add(other, 1); return nil }, "[[1 2 3 4 5 6 7 11 12] [1 2 3 4 11 12 13] [1 11 12 13 14] [11 12 13 14 15]]", nil},
		"cut off":                {func(*log) error { return cut }, "[[1 2 3 4 5 6 7 11 12]]", cut},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLog(t, checkpoint.ThreadID(name))
			l.add(other, 12)
			var stages [][]int64
			d.do = func() error {
				stages = append(stages, l.seqs(other))
				for c, err := range other.Verify(t.Context(), l.log.Thread) {
					t.Error(c, err)
				}
				return c.do(l)
			}
			rw := &checkpoint.Rewrite{Log: l.log, Head: l.head, Remove: l.ids(1, 10)}
			if err := s.Rewrite(t.Context(), rw); !errors.Is(err, c.err) {
				t.Fatal(err)
			}
			if got := fmt.Sprint(stages); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
			if c.err == nil {
				return
			}
			d.do = func() error { return nil }
			rw.Remove = l.ids(1, 7)
			if err := s.Rewrite(t.Context(), rw); err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(l.seqs(other)); got != "[11 12]" {
				t.Errorf("taken up again: %s", got)
			}
		})
	}
}
