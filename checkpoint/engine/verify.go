package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/checkpoint"
)

// Verify implements [checkpoint.Verifier]. Of all threads, what the driver finds comes
// first.
func (e *Engine) Verify(ctx context.Context, thread checkpoint.ThreadID) iter.Seq2[*checkpoint.CorruptError, error] {
	return func(yield func(*checkpoint.CorruptError, error) bool) {
		// look calls f and yields what it found. It reports whether to go on.
		look := func(id checkpoint.ThreadID, f func(v *verifier) error) bool {
			v := &verifier{e: e, ctx: ctx, thread: id}
			err := e.start(ctx, "all")
			if err == nil {
				err = f(v)
			}
			var c *checkpoint.CorruptError
			if errors.As(err, &c) { // what can't be read is found, and the search goes on elsewhere
				if c.Thread == "" {
					c = &checkpoint.CorruptError{Thread: id, Place: c.Place, Offset: c.Offset, Err: c.Err}
				}
				err = nil
				known := func(k *checkpoint.CorruptError) bool {
					return k.Thread == c.Thread && k.Place == c.Place && k.Offset == c.Offset
				}
				if !slices.ContainsFunc(v.found, known) {
					v.found = append(v.found, c)
				}
			}
			for _, c := range v.found {
				if !yield(c, nil) {
					return false
				}
			}
			if err != nil {
				yield(nil, e.failed(ctx, err))
			}
			return err == nil
		}
		check, _ := e.driver.(Checker)
		of := func(id checkpoint.ThreadID) bool {
			return look(id, func(v *verifier) error {
				if check != nil {
					if err := check.Check(ctx, id, func(c *checkpoint.CorruptError) { v.found = append(v.found, c) }); err != nil {
						return err
					}
				}
				if id == "" {
					return nil
				}
				return v.settled()
			})
		}
		if !of(thread) || thread != "" {
			return
		}
		var last checkpoint.ThreadID
		for {
			var names []checkpoint.ThreadID
			ok := look("", func(*verifier) (err error) {
				names, err = e.driver.Names(ctx, last, pageRows)
				return err
			})
			if !ok || len(names) == 0 {
				return
			}
			for _, id := range names {
				if last = id; strings.HasPrefix(string(id), string(Reserved)) {
					continue
				}
				if !of(id) {
					return
				}
			}
		}
	}
}

// verifier collects what is damaged of a thread.
type verifier struct {
	e      *Engine
	ctx    context.Context
	thread checkpoint.ThreadID
	found  []*checkpoint.CorruptError
}

func (v *verifier) add(place, format string, args ...any) {
	v.found = append(v.found, &checkpoint.CorruptError{Thread: v.thread, Place: place, Offset: -1, Err: fmt.Errorf(format, args...)})
}

// settled looks at the thread until nobody writes to it meanwhile: what is read piece by
// piece may else contradict itself.
func (v *verifier) settled() error {
	before := v.found
	for n := range tries {
		v.found = before
		l, err := v.e.driver.Load(v.ctx, checkpoint.Log{Thread: v.thread})
		if err != nil {
			return err
		}
		if err := v.all(&l); err != nil {
			return err
		}
		if len(v.found) == len(before) {
			return nil
		}
		again, err := v.e.driver.Load(v.ctx, checkpoint.Log{Thread: v.thread})
		if err != nil {
			return err
		}
		if n > 0 && again.Header.Version == l.Header.Version && (l.Newest == nil) == (again.Newest == nil) && (l.Newest == nil || l.Newest.ID == again.Newest.ID) {
			return nil
		}
	}
	return nil
}

func (v *verifier) all(l *Loaded) error {
	if l.Header.Version == 0 {
		return nil
	}
	logs, err := v.e.driver.Logs(v.ctx, v.thread)
	if err != nil {
		return err
	}
	side, err := v.e.driver.Side(v.ctx, v.thread, SideQuery{})
	if err != nil {
		return err
	}
	pieces, segments := map[string][]piece{}, map[string][]segment{}
	for i := range side {
		row := &side[i]
		r := reader{b: row.Key}
		kind := r.byte()
		var err error
		switch {
		case kind == keyRun:
			var p piece
			if p, err = parsePiece(v.thread, row); err == nil {
				run := string(row.Key[:len(row.Key)-4])
				pieces[run] = append(pieces[run], p)
			}
		case kind == keySegment:
			var g segment
			if g, err = parseSegment(v.thread, row); err == nil {
				log := string(row.Key[:len(row.Key)-8])
				segments[log] = append(segments[log], g)
			}
		default:
			_, err = OpenSide(v.thread, row)
		}
		if err != nil {
			var c *checkpoint.CorruptError
			if !errors.As(err, &c) {
				return err
			}
			v.found = append(v.found, c)
		}
	}
	root := false
	for i := range logs {
		root = root || logs[i].Namespace == ""
		if err := v.log(&logs[i], &l.Header, pieces, segments[string(logKey(keySegment, logs[i].Namespace))]); err != nil {
			return err
		}
	}
	if l.Header.Listed != root {
		v.add("header", "it says that the thread's own log has records: %v; there are: %v", l.Header.Listed, root)
	}
	return nil
}

// log looks at one log as far as its newest row.
func (v *verifier) log(newest *Row, h *Header, pieces map[string][]piece, segments []segment) error {
	segments = append([]segment{{1, "", 1}}, segments...)
	type numbers struct{ seq, place, holes int64 }
	branches := map[checkpoint.Branch]numbers{}
	var count, bytes, before int64
	var top checkpoint.ID
	g := 0
	for row, err := range v.e.rows(v.ctx, checkpoint.Log{Thread: v.thread, Namespace: newest.Namespace}, false) {
		if err != nil {
			return err
		}
		if row.Place > newest.Place {
			break
		}
		bad := func(format string, args ...any) {
			v.found = append(v.found, damagedRow(v.thread, row, fmt.Errorf(format, args...)))
		}
		rec, err := row.record(v.thread, whole)
		var c *checkpoint.CorruptError
		if errors.As(err, &c) {
			v.found = append(v.found, c)
		} else if err != nil {
			return err
		}
		if row.Place <= before {
			bad("the row before has place %d", before)
		}
		before = row.Place
		count++
		bytes += row.size()
		holes := row.Place - count
		b, known := branches[row.Branch]
		switch {
		case !known && row.Branch != "" && row.Branch != checkpoint.Branch(row.ID):
			bad("branch %s has no first record", row.Branch)
		case known && (row.Seq <= b.seq || row.Seq-b.seq-1 > holes-b.holes):
			bad("its number is %d, the record before in its branch has %d", row.Seq, b.seq)
		}
		branches[row.Branch] = numbers{row.Seq, row.Place, holes}
		for g+1 < len(segments) && segments[g+1].place <= row.Place {
			g++
		}
		if s := segments[g]; s.branch != row.Branch || s.seq+row.Place-s.place != row.Seq {
			bad("segments say that it is record %d of branch %q, the row says %d of %q", s.seq+row.Place-s.place, s.branch, row.Seq, row.Branch)
		}
		if inOrder := row.Top == row.ID; row.Top < top || inOrder && !above(row.ID, top) || !inOrder && !leads(pieces, row) {
			bad("its ID does not lead to it")
		}
		top = row.Top
		if row.Place != newest.Place {
			continue
		}
		if row.Count != count || row.Bytes != bytes {
			bad("it says that the log has %d records of %d bytes: there are %d of %d", row.Count, row.Bytes, count, bytes)
		}
		if row.Namespace == "" && rec != nil {
			if due := micro(rec.Due); !due.Equal(h.HeadDue) {
				v.add("header", "it says that the head is due at %v, the head says %v", h.HeadDue, due)
			}
			if h.Minute != minuteOf(rec.CreatedAt) || !slices.Equal(h.Labels, labelsOf(rec.Metadata)) {
				v.add("header", "its minute or its labels are not those of the head")
			}
		}
	}
	return nil
}

// leads reports whether the pieces lead to a row that is out of order.
func leads(pieces map[string][]piece, row *Row) bool {
	run, n := runKey(row.Namespace, row.ID)
	list := pieces[string(run)]
	i, found := slices.BinarySearchFunc(list, n, func(p piece, n uint32) int { return cmp.Compare(p.n, n) })
	if !found {
		i--
	}
	return i >= 0 && list[i].place+int64(n-list[i].n) == row.Place
}
