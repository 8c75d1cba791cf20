package file

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
)

// Rewrite implements [checkpoint.Rewriter]. The thread's file is written anew
// beside the old one and takes its place at once. The companion comes first: it
// gets all that lines say beside their records, so that lines can go.
func (s *Store) Rewrite(ctx context.Context, r *checkpoint.Rewrite) error {
	if err := s.start(ctx, r.Log.Thread); err != nil {
		return err
	}
	if err := r.Check(); err != nil {
		return err
	}
	err := s.with(ctx, r.Log.Thread, func(t *thread) error {
		return t.locked(ctx, true, false, func() error { return t.rewrite(ctx, r) })
	})
	if err == fs.ErrNotExist {
		return fmt.Errorf("%w: thread %q", checkpoint.ErrNotFound, r.Log.Thread)
	}
	return err
}

func (t *thread) rewrite(ctx context.Context, r *checkpoint.Rewrite) error {
	x := t.x
	l := x.log(r.Log.Namespace)
	if l == nil || len(l.recs) == 0 {
		return fmt.Errorf("%w: log %v", checkpoint.ErrNotFound, r.Log)
	}
	if err := r.CheckHold(x.fence, x.lease, time.Now()); err != nil {
		return err
	}
	head, err := t.idAt(l.recs[len(l.recs)-1])
	if err != nil {
		return err
	}
	if err := t.conflict(r.Log, head, r.Head); err != nil {
		return err
	}
	with := make(map[int32]*checkpoint.Record, len(r.Remove)+len(r.Replace)) // nil: goes
	find := func(id checkpoint.ID) (int32, error) {
		key, _ := keyOf(id)
		pos, ok := l.byID[key]
		if !ok {
			return 0, fmt.Errorf("%w: log %v has no record %s", checkpoint.ErrNotFound, r.Log, id)
		}
		return pos, nil
	}
	for _, id := range r.Remove {
		pos, err := find(id)
		if err != nil {
			return err
		}
		with[pos] = nil
	}
	for _, rec := range r.Replace {
		pos, err := find(rec.ID)
		if err != nil {
			return err
		}
		found := false
		if i, ok := l.byBranch[rec.Branch]; ok {
			b := &l.branches[i]
			n, ok := b.find(rec.Seq)
			found = ok && b.recs[n] == pos
		}
		if !found {
			return fmt.Errorf("%w: record %s of log %v stands elsewhere than its replacement", checkpoint.ErrInvalid, rec.ID, r.Log)
		}
		with[pos] = rec
	}
	if err := l.left(r, with); err != nil {
		return err
	}
	if len(with) == 0 {
		return nil
	}
	if err := t.writable("rewrite"); err != nil {
		return err
	}
	fence := x.fence
	if len(r.Remove) > 0 {
		fence = x.nextFence(time.Now())
	}
	if err := t.settleAll(fence); err != nil {
		return err
	}
	if t.x == nil { // the companion was closed to be replaced
		if err := t.refresh(ctx, true); err != nil {
			return err
		}
	}
	return t.shorten(ctx, with)
}

// settleAll makes the companion say all that lines of the thread's file say
// beside their records, durably, and a new fence.
func (t *thread) settleAll(fence checkpoint.Fence) error {
	if err := t.rewritePending(t, fence, true); err != nil {
		return err
	}
	if t.s.opts.Sync != SyncEvery && t.pend.f != nil {
		if err := t.s.sys.sync(t.pend.f); err != nil {
			return t.fail("sync", &t.pend, err)
		}
	}
	if err := t.s.sys.syncDir(t.s.dir); err != nil {
		return ioError("sync", t.s.dir, t.id, err)
	}
	return nil
}

// left checks that what remains of the log can stand.
func (l *logIndex) left(r *checkpoint.Rewrite, with map[int32]*checkpoint.Record) error {
	goes := func(pos int32) bool {
		rec, ok := with[pos]
		return ok && rec == nil
	}
	kept := 0
	for i := range l.branches {
		b := &l.branches[i]
		n := 0
		for _, pos := range b.recs {
			if !goes(pos) {
				n++
			}
		}
		kept += n
		if n == 0 {
			continue
		}
		if goes(b.recs[len(b.recs)-1]) {
			return fmt.Errorf("%w: the newest record of a branch of log %v goes, though others stay", checkpoint.ErrInvalid, r.Log)
		}
		if i != int(l.mainBranch()) && goes(b.recs[0]) {
			return fmt.Errorf("%w: the first record of a branch of log %v goes, though others stay", checkpoint.ErrInvalid, r.Log)
		}
	}
	if kept > 0 && goes(l.recs[len(l.recs)-1]) {
		return fmt.Errorf("%w: the head of log %v goes, though others stay", checkpoint.ErrInvalid, r.Log)
	}
	return nil
}

// mainBranch returns the index of the branch without a name; -1 if there is none.
func (l *logIndex) mainBranch() int32 {
	if i, ok := l.byBranch[""]; ok {
		return i
	}
	return -1
}

// shorten writes the thread's file anew. Lines keep their numbers, since the
// companion refers to them: the last one stays, without its record if that goes.
func (t *thread) shorten(ctx context.Context, with map[int32]*checkpoint.Record) error {
	tmp := t.base + extTemp
	f, err := os.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return ioError("create", tmp, t.id, err)
	}
	err = t.writeLeft(ctx, f, with)
	if err == nil {
		err = t.s.sys.sync(f)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		if !renamesOpenFiles {
			_ = t.main.f.Close()
		}
		err = t.s.sys.rename(tmp, t.main.path)
	}
	if err != nil {
		_ = t.s.sys.remove(tmp)
		if !renamesOpenFiles {
			t.main.close()
			t.x = nil
		}
		if errors.Is(err, checkpoint.ErrCorrupt) || errors.Is(err, checkpoint.ErrVersion) {
			return err
		}
		return ioError("rewrite", tmp, t.id, err)
	}
	t.forget() // the lock goes with the old file
	if err := t.s.sys.syncDir(t.s.dir); err != nil {
		return ioError("sync", t.s.dir, t.id, err)
	}
	return nil
}

// writeLeft writes the lines that stay.
func (t *thread) writeLeft(ctx context.Context, f *os.File, with map[int32]*checkpoint.Record) error {
	type logLeft struct {
		number int
		last   int32 // position of the record before
		before before
		was    string // before.graph as it was
	}
	var (
		x       = t.x
		logs    = make(map[int32]*logLeft)
		numbers int
		off     int64
		out     []byte
		seq     int64 // of the last line written
	)
	flush := func() error {
		_, err := t.s.sys.writeAt(f, out, off)
		off += int64(len(out))
		out = out[:0]
		return err
	}
	for pos := range x.recs {
		if err := ctx.Err(); err != nil {
			return err
		}
		pos, r := int32(pos), &x.recs[pos]
		rec, changed := with[pos]
		last := int(pos) == len(x.recs)-1
		goes := changed && rec == nil || r.log < 0
		if goes && !last {
			continue
		}
		b, err := t.lineAt(&t.main, r.off, r.n)
		if err != nil {
			return err
		}
		h, err := parseHead(b[:len(b)-crcLen])
		if err != nil {
			return t.corrupt(&t.main, int64(pos)+1, r.off, err)
		}
		ln := line{Seq: h.seq, Gone: goes}
		if skip := h.seq - seq - 1; skip > 0 || seq == 0 {
			ln.Skip = &skip
		}
		if seq == 0 {
			ln.Thread = (*text)(&t.id)
		}
		if !goes {
			l := logs[r.log]
			ns := x.logs[r.log].ns
			if l == nil {
				was, err := t.before(x.logs[r.log])
				if err != nil {
					return err
				}
				l = &logLeft{last: -1, was: was.graph}
				if ns != "" {
					numbers++
					l.number = numbers
					ln.NS = (*text)(&ns)
				}
				logs[r.log] = l
			}
			ln.Log = l.number
			if !changed && l.last >= 0 && r.prev == l.last && l.before.graph == l.was {
				if err := ln.repeat(&h, b[:len(b)-crcLen]); err != nil {
					return t.corrupt(&t.main, int64(pos)+1, r.off, err)
				}
			} else {
				if rec == nil {
					if rec, err = t.recordOf(pos, ns, &h); err != nil {
						return err
					}
				}
				if err := ln.setRecord(rec, l.before); err != nil {
					return t.unfit(err)
				}
				if l.last < 0 {
					l.before.graph = rec.Graph
				}
			}
			l.last, l.before.head = pos, h.id
		}
		enc, err := ln.encode(t.seed)
		if err != nil {
			return t.unfit(err)
		}
		seq = h.seq
		if out = append(out, enc...); len(out) > 1<<20 {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// recordOf decodes a record that is to be written anew. One that has what this
// version does not know cannot be.
func (t *thread) recordOf(pos int32, ns string, h *head) (*checkpoint.Record, error) {
	if h.format > checkpoint.Format && h.format != sealedFormat {
		return nil, &VersionError{Path: t.main.path, Line: int64(pos) + 1, Found: h.format, Supported: checkpoint.Format}
	}
	b, prev, err := t.recordAt(pos)
	if err != nil {
		return nil, err
	}
	return t.decode(b, ns, pos, t.x.recs[pos].off, prev)
}

// repeat takes the record of another line as it stands there.
func (l *line) repeat(h *head, body []byte) error {
	if h.created != nil {
		l.CreatedAt = new(time.Time)
		if err := json.Unmarshal(h.created, l.CreatedAt); err != nil {
			return err
		}
	}
	l.Own, l.record = h.own, body[h.recAt:]
	return nil
}

// Compact frees what companion files hold in vain. The files of threads are
// never larger than what they hold.
func (s *Store) Compact(ctx context.Context) error {
	if err := s.start(ctx, "all"); err != nil {
		return err
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return ioError("list", s.dir, "", err)
	}
	var errs []error
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), extPending) || !e.Type().IsRegular() {
			continue
		}
		id, err := s.threadOf(filepath.Join(s.dir, e.Name()))
		if err == errNoLine {
			continue
		}
		if err == nil && baseName(string(id))+extPending != e.Name() {
			t := thread{id: id}
			err = t.corrupt(&log{path: filepath.Join(s.dir, e.Name())}, 1, 0, t.foreign(string(id)))
		}
		if err == nil {
			err = s.with(ctx, id, func(t *thread) error {
				return t.locked(ctx, true, false, func() error {
					switch {
					case t.leftover:
						return t.removePending()
					case t.pend.f == nil:
						return nil
					}
					if err := t.writable("compact"); err != nil {
						return err
					}
					return t.rewritePending(t, t.x.fence, false)
				})
			})
		}
		switch {
		case err == fs.ErrNotExist:
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, checkpoint.ErrClosed):
			return err
		case err != nil:
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
