package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// runRows returns the keys of the side rows that say where records stand.
func runRows(t *testing.T, d engine.Driver, thread checkpoint.ThreadID) (keys [][]byte) {
	t.Helper()
	rows, err := d.Side(t.Context(), thread, engine.SideQuery{From: []byte("u"), Below: []byte("v")})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		keys = append(keys, r.Key)
	}
	return keys
}

// Records of runs that began one after the other are found by their IDs, in whatever order
// the others came, how many there are and what was removed; what isn't there is not found.
func TestARecordIsFoundByItsID(t *testing.T) {
	for name, runs := range map[string][]int{ // the ages of the runs that write, one record each
		"in order": {0, 0, -1, -1, -1}, "by turns": {0, 1, 0, 1, 0, 1, 2, 0, 3}, "the wrong way round": {9, 8, 7, 6, 5, 5, 4}, "one too early": {3, 9, 4, 4, 5, 6, 6, 7},
	} {
		t.Run(name, func(t *testing.T) {
			d := new(engine.Memory)
			s, l := engine.New(d, engine.Options{}), newLog(t, "t")
			ids := make([]checkpoint.ID, 10)
			for i := range ids {
				ids[i] = checkpoint.NewRunID()
			}
			next := map[checkpoint.ID]uint32{}
			var all []checkpoint.ID
			for round := range 40 {
				for _, age := range runs {
					switch {
					case name != "in order":
						l.run = ids[age]
					case age == 0: // else the run goes on
						l.run = checkpoint.NewRunID()
					}
					next[l.run]++
					id := l.run.Checkpoint(next[l.run])
					r := &checkpoint.Record{ID: id, Log: l.log, Seq: int64(len(all) + 1), Parent: l.head, Source: checkpoint.SourceLoop, Graph: "g"}
					if _, err := s.Write(t.Context(), &checkpoint.Write{Log: l.log, Record: r, Head: l.head}); err != nil {
						t.Fatal(round, err)
					}
					l.head, all = id, append(all, id)
				}
			}
			again := &checkpoint.Record{ID: all[len(all)/3], Log: l.log, Seq: int64(len(all) + 1), Parent: l.head, Source: checkpoint.SourceLoop, Graph: "g"}
			if _, err := s.Write(t.Context(), &checkpoint.Write{Log: l.log, Record: again, Head: l.head}); !errors.Is(err, checkpoint.ErrInvalid) {
				t.Errorf("an ID that is there: %v", err)
			}
			gone := map[checkpoint.ID]bool{}
			look := func() {
				t.Helper()
				for i, id := range append(all, checkpoint.NewRunID(), ids[0], ids[4].Checkpoint(1<<31)) {
					r, err := s.Get(t.Context(), l.log, id)
					switch {
					case i >= len(all) || gone[id]:
						if !errors.Is(err, checkpoint.ErrNotFound) {
							t.Fatalf("record %d, which is not there: %v, %v", i, r, err)
						}
					case err != nil || r.Seq != int64(i+1):
						t.Fatalf("record %d: %v, %v", i+1, r, err)
					}
				}
				for c, err := range s.Verify(t.Context(), "t") {
					t.Fatal(c, err)
				}
			}
			look()
			if n := len(runRows(t, d, "t")); name == "in order" && n != 0 {
				t.Errorf("%d side rows say where records in order stand", n)
			}
			rw := &checkpoint.Rewrite{Log: l.log, Head: l.head}
			for i, id := range all[:len(all)-1] {
				if i%3 == 0 || i > 50 && i < 90 {
					rw.Remove, gone[id] = append(rw.Remove, id), true
				}
			}
			if err := s.Rewrite(t.Context(), rw); err != nil {
				t.Fatal(err)
			}
			look()
		})
	}
}

func TestARecordToWhichNoIDLeadsIsDamage(t *testing.T) {
	d := new(engine.Memory)
	s, l := engine.New(d, engine.Options{}), newLog(t, "t")
	early := l.run
	l.run = checkpoint.NewRunID()
	l.add(s, 2)
	l.run = early
	l.add(s, 2)
	keys := runRows(t, d, "t")
	l0, err := d.Load(t.Context(), l.log)
	if err != nil || len(keys) != 1 {
		t.Fatalf("%d side rows, %v", len(keys), err)
	}
	if err := d.Commit(t.Context(), []*engine.Commit{{Thread: "t", Version: l0.Header.Version, Delete: keys}}); err != nil {
		t.Fatal(err)
	}
	n := 0
	for c, err := range s.Verify(t.Context(), "t") {
		if n++; err != nil || !strings.Contains(c.Error(), "its ID does not lead to it") {
			t.Error(c, err)
		}
	}
	if n != 2 {
		t.Errorf("%d findings, want one of each record that came too late", n)
	}
}
