package file

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
)

// Threads implements [checkpoint.Lister]. It reads the first and last lines of
// each file. A damaged file does not hide the others: its error comes last.
func (s *Store) Threads(ctx context.Context, f checkpoint.ThreadFilter) iter.Seq2[checkpoint.ThreadInfo, error] {
	return func(yield func(checkpoint.ThreadInfo, error) bool) {
		infos, err := s.list(ctx, f)
		for i, info := range infos {
			if f.Limit > 0 && i == f.Limit {
				return
			}
			if err := ctx.Err(); err != nil {
				yield(checkpoint.ThreadInfo{}, err)
				return
			}
			if !yield(info, nil) {
				return
			}
		}
		if err != nil {
			yield(checkpoint.ThreadInfo{}, err)
		}
	}
}

func (s *Store) list(ctx context.Context, f checkpoint.ThreadFilter) (infos []checkpoint.ThreadInfo, bad error) {
	if err := s.start(ctx, "all"); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, ioError("list", s.dir, "", err)
	}
	var errs []error
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if !strings.HasSuffix(e.Name(), extMain) || !e.Type().IsRegular() {
			continue
		}
		info, ok, err := s.info(ctx, e.Name(), f.Prefix)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, checkpoint.ErrClosed):
			return nil, err
		case err != nil:
			errs = append(errs, err)
		case ok && f.Takes(&info):
			infos = append(infos, info)
		}
	}
	slices.SortFunc(infos, func(a, b checkpoint.ThreadInfo) int { return a.Place().Compare(b.Place()) })
	return infos, errors.Join(errs...)
}

// info describes the thread of a file.
func (s *Store) info(ctx context.Context, name, prefix string) (info checkpoint.ThreadInfo, ok bool, err error) {
	path := filepath.Join(s.dir, name)
	id, err := s.threadOf(path)
	if err == errNoLine {
		return info, false, nil
	}
	if err != nil {
		return info, false, err
	}
	if !strings.HasPrefix(string(id), prefix) {
		return info, false, nil
	}
	if FileName(id) != name {
		t := thread{id: id}
		return info, false, t.corrupt(&log{path: path}, 1, 0, t.foreign(string(id)))
	}
	if info, ok = s.quickInfo(path, id); ok {
		return info, true, nil
	}
	err = s.view(ctx, id, func(t *thread, x *index) error {
		l := x.log("")
		ok = false
		if l == nil || len(l.recs) == 0 {
			return nil
		}
		for i, pos := range []int32{l.recs[0], l.recs[len(l.recs)-1]} {
			b, prev, err := t.recordAt(pos)
			if err != nil {
				return err
			}
			r, err := t.decode(b, "", pos, x.recs[pos].off, prev)
			if err != nil {
				return err
			}
			if i == 0 {
				info.CreatedAt = r.CreatedAt
			} else {
				info.Head = r.Meta()
			}
		}
		if x.lease.Live(time.Now()) {
			info.Lease = x.lease
		}
		info.Thread, info.Records, info.Bytes, ok = id, int64(len(l.recs)), t.main.size+t.pend.size, true
		return nil
	})
	return info, ok, err
}

var errNoLine = errors.New("file is empty")

// threadOf returns whose a file is by its first line.
func (s *Store) threadOf(path string) (id checkpoint.ThreadID, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", errNoLine // deleted meanwhile
	}
	if err != nil {
		return "", ioError("open", path, "", err)
	}
	defer func() { _ = f.Close() }()
	st, err := f.Stat()
	if err != nil {
		return "", ioError("stat", path, "", err)
	}
	sc := scanner{f: f, end: st.Size()}
	b, whole, err := sc.next()
	if err == io.EOF || err == nil && !whole && s.opts.Recover {
		return "", errNoLine
	}
	if err != nil {
		return "", ioError("read", path, "", err)
	}
	var first struct {
		Thread *text `json:"thread"`
	}
	if jerr := json.Unmarshal(b, &first); jerr != nil || first.Thread == nil {
		if jerr == nil {
			jerr = errors.New("the first line does not name its thread")
		}
		if !whole {
			jerr = fmt.Errorf("%w: %d bytes without an end of line", errIncomplete, len(b))
		}
		return "", &checkpoint.CorruptError{Place: path + ", line 1", Offset: 0, Err: jerr}
	}
	return checkpoint.ThreadID(*first.Thread), nil
}

// quickInfo describes a thread by the first and the last lines of its file and
// by its companion. It gives up on a thread that has subgraph logs, forks or
// damage there, that was shortened or that a run holds as earlier lines say: then
// the whole file is read.
func (s *Store) quickInfo(path string, id checkpoint.ThreadID) (info checkpoint.ThreadInfo, ok bool) {
	info, x, ok := s.glance(path, id)
	if ok && x.lease.Live(time.Now()) {
		info.Lease = x.lease
	}
	return info, ok
}

// glance returns a description of a thread and what is known of its lease and
// of when it is due, see quickInfo.
func (s *Store) glance(path string, id checkpoint.ThreadID) (info checkpoint.ThreadInfo, x *index, ok bool) {
	f, err := os.Open(path)
	if err != nil {
		return info, nil, false
	}
	defer func() { _ = f.Close() }()
	st, err := f.Stat()
	if err != nil {
		return info, nil, false
	}
	sc := scanner{f: f, end: st.Size()}
	first, whole, err := sc.next()
	if err != nil || !whole {
		return info, nil, false
	}
	prev, last, err := lastLines(f, st.Size())
	if err != nil {
		return info, nil, false
	}
	t := thread{id: id, seed: seedOf(id)}
	var records [2]*checkpoint.Record
	var known before
	var end int64
	x = newIndex()
	for i, b := range [][]byte{first, prev, last} {
		if b == nil {
			continue // there is no line but the last
		}
		h, err := t.parse(&log{path: path, lines: int64(i)}, b, 0)
		// A record whose sequence number is the line's has only records of its
		// own log and branch before it.
		if err != nil || !h.is || h.log != 0 || h.branch != "" || h.recSeq != h.seq {
			return info, nil, false
		}
		if i == 0 && h.cut || i == 2 && h.held {
			return info, nil, false
		}
		if i == 2 {
			if x.complete(&h) != nil { // it leaves out what a line between says
				return info, nil, false
			}
			end = h.seq
			x.hold(&h, true)
		}
		if i == 1 {
			known = before{head: h.id, graph: records[0].Graph}
			continue
		}
		if records[i/2], err = decodeRecord(b[:len(b)-crcLen], checkpoint.Log{Thread: id}, known); err != nil {
			return info, nil, false
		}
	}
	info = checkpoint.ThreadInfo{
		Thread:    id,
		Head:      records[1].Meta(),
		CreatedAt: records[0].CreatedAt,
		Records:   records[1].Seq,
		Bytes:     st.Size(),
	}
	n, ok := s.glancePending(strings.TrimSuffix(path, extMain)+extPending, id, end, x)
	info.Bytes += n
	return info, x, ok
}

// glancePending takes what a companion says of lease and waking into x, which
// knows what the last line of the thread's file says of it.
func (s *Store) glancePending(path string, id checkpoint.ThreadID, end int64, x *index) (size int64, ok bool) {
	f, err := os.Open(path)
	if err != nil {
		return 0, errors.Is(err, fs.ErrNotExist)
	}
	defer func() { _ = f.Close() }()
	st, err := f.Stat()
	if err != nil {
		return 0, false
	}
	t := thread{id: id, seed: seedOf(id)}
	l := log{path: path}
	sc := scanner{f: f, end: st.Size()}
	for {
		b, whole, err := sc.next()
		if err == io.EOF {
			return st.Size(), true
		}
		if err != nil || !whole {
			return 0, false
		}
		h, err := t.parse(&l, b, 0)
		if err != nil {
			return 0, false
		}
		l.lines = h.seq
		if h.after >= end {
			x.hold(&h, false)
		}
	}
}

// Copy implements [checkpoint.Copier].
func (s *Store) Copy(ctx context.Context, from, to checkpoint.ThreadID) error {
	if err := s.start(ctx, from); err != nil {
		return err
	}
	if to == "" {
		return checkpoint.ErrNoThread
	}
	if from == to {
		return s.view(ctx, from, func(_ *thread, x *index) error {
			if !x.exists() {
				return fmt.Errorf("%w: thread %q", checkpoint.ErrNotFound, from)
			}
			return fmt.Errorf("%w: thread %q exists already", checkpoint.ErrConflict, to)
		})
	}
	a, err := s.acquire(from)
	if err != nil {
		return err
	}
	defer s.release(a)
	b, err := s.acquire(to)
	if err != nil {
		return err
	}
	defer s.release(b)
	// In one order everywhere, so that two copies cannot wait for each other.
	order := []*thread{a, b}
	if to < from {
		order = []*thread{b, a}
	}
	for _, t := range order {
		if err := t.lock(ctx); err != nil {
			return err
		}
		defer t.unlock()
	}
	err = order[0].lockedIn(ctx, true, order[0] == b, func() error {
		return order[1].lockedIn(ctx, true, order[1] == b, func() error { return a.copyTo(ctx, b) })
	})
	if err == fs.ErrNotExist {
		return fmt.Errorf("%w: thread %q", checkpoint.ErrNotFound, from)
	}
	return err
}

func (t *thread) copyTo(ctx context.Context, to *thread) error {
	if !t.x.exists() {
		return fmt.Errorf("%w: thread %q", checkpoint.ErrNotFound, t.id)
	}
	if to.x.exists() {
		return fmt.Errorf("%w: thread %q exists already", checkpoint.ErrConflict, to.id)
	}
	if to.leftover || to.pend.f != nil {
		if err := to.removePending(); err != nil {
			return err
		}
	}
	// The companion first: without the thread's file it counts for nothing.
	if err := t.rewritePending(to, 0, false); err != nil {
		return err
	}
	if t.main.lines == 0 {
		to.x = nil
		return t.s.copied(to)
	}
	tmp := to.base + extTemp
	f, err := os.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return ioError("create", tmp, to.id, err)
	}
	err = t.copyLines(ctx, f, to)
	if err == nil && t.s.opts.Sync == SyncEvery {
		err = t.s.sys.sync(f)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		if !renamesOpenFiles {
			_ = to.main.f.Close()
		}
		err = t.s.sys.rename(tmp, to.main.path)
	}
	if err != nil {
		_ = t.s.sys.remove(tmp)
		_ = t.s.sys.remove(to.pend.path)
		var ce *checkpoint.CorruptError
		if errors.As(err, &ce) {
			return err
		}
		return ioError("copy", tmp, to.id, err)
	}
	to.main.close()
	to.x = nil
	return t.s.copied(to)
}

func (s *Store) copied(to *thread) error {
	if s.opts.Sync == SyncEvery {
		if err := s.sys.syncDir(s.dir); err != nil {
			return ioError("sync", s.dir, to.id, err)
		}
	}
	return nil
}

// copyLines writes the lines of t as lines of another thread.
func (t *thread) copyLines(ctx context.Context, f *os.File, to *thread) error {
	sc := scanner{f: t.main.f, end: t.main.size}
	var off int64
	var out []byte
	flush := func() error {
		_, err := t.s.sys.writeAt(f, out, off)
		off += int64(len(out))
		out = out[:0]
		return err
	}
	for n := int64(1); ; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		at := sc.off
		b, _, err := sc.next()
		if err == io.EOF {
			return flush()
		}
		if err != nil {
			return err
		}
		l := log{path: t.main.path, lines: n - 1}
		h, err := t.parse(&l, b, at)
		if err != nil {
			return err
		}
		body := b[:len(b)-crcLen]
		// The copy has another ID, and nobody claimed it yet.
		start := len(out)
		cut := 0
		if h.thread != nil {
			name, err := text(to.id).MarshalJSON()
			if err != nil {
				return err
			}
			out = append(out, body[:h.threadAt[0]]...)
			out = append(out, `"thread":`...)
			out = append(out, name...)
			cut = h.threadAt[1]
		}
		for _, at := range h.claimAt {
			out = append(out, body[cut:at[0]]...)
			cut = at[1] + 1 // with the comma: a member always follows
		}
		out = append(out, body[cut:]...)
		tail := seal(to.seed, out[start:len(out):len(out)])
		out = append(append(out[:start], tail...), '\n')
		if len(out) > 1<<20 {
			if err := flush(); err != nil {
				return err
			}
		}
	}
}

// lastLines returns the last two lines of a file, which must be complete; prev
// is nil when there is only one.
func lastLines(f io.ReaderAt, size int64) (prev, last []byte, err error) {
	for chunk := int64(16 << 10); ; chunk *= 4 {
		from := max(size-chunk, 0)
		b := make([]byte, size-from)
		if _, err := f.ReadAt(b, from); err != nil {
			return nil, nil, err
		}
		if len(b) == 0 || b[len(b)-1] != '\n' {
			return nil, nil, errIncomplete
		}
		b = b[:len(b)-1]
		i := bytes.LastIndexByte(b, '\n')
		if i < 0 && from == 0 {
			return nil, b, nil
		}
		if i < 0 {
			continue
		}
		if j := bytes.LastIndexByte(b[:i], '\n'); j >= 0 || from == 0 {
			return b[j+1 : i], b[i+1:], nil
		}
	}
}
