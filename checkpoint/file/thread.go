package file

import (
	"bytes"
	"container/list"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
)

// system is what the store does to files when it writes; tests put failures
// in its place.
type system struct {
	writeAt  func(f *os.File, b []byte, off int64) (int, error)
	sync     func(f *os.File) error
	truncate func(f *os.File, size int64) error
	syncDir  func(dir string) error
	rename   func(from, to string) error
	remove   func(path string) error
}

func realSystem() system {
	return system{
		writeAt:  (*os.File).WriteAt,
		sync:     syncFile,
		truncate: (*os.File).Truncate,
		syncDir:  syncDirectory,
		rename:   os.Rename,
		remove:   os.Remove,
	}
}

func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrInvalid) {
		err = nil // some systems have no such thing
	}
	return errors.Join(err, d.Close())
}

// thread is what the store knows of one thread. It goes when the least recently
// used threads are put away.
type thread struct {
	s    *Store
	id   checkpoint.ThreadID
	seed uint32
	base string // path without extension

	refs int           // guarded by Store.mu
	elem *list.Element // guarded by Store.mu

	sem chan struct{} // holds one token: the lock of everything below

	main, pend log
	x          *index // nil: nothing is loaded
	synced     bool   // the directory was synced since the files were opened
	readonly   error  // why main could only be opened for reading
	lost       bool   // main was there and is not any more
	leftover   bool   // the companion file is of no use and goes at the next write
	ahead      bool   // the companion file knows of lines that main has not
	compactAt  int64  // size of the companion at which it is written anew
	reports    []Report
}

// log is one of the thread's two files.
type log struct {
	path  string
	f     *os.File
	size  int64 // bytes that were read and found good, or written
	lines int64 // the number of the last of them

	skipped int64 // numbers that were left out before
	dirty   bool  // some of them may not be on the disk yet
	undo    *undo
}

// place returns which line of the file comes next.
func (l *log) place() int64 { return l.lines - l.skipped + 1 }

// undo is a failed append that is to be taken back.
type undo struct{ keep, size int64 }

func (t *thread) lock(ctx context.Context) error {
	select {
	case t.sem <- struct{}{}:
		return nil
	default:
	}
	select {
	case t.sem <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *thread) unlock() { <-t.sem }

// forget drops what is known of the files and closes them.
func (t *thread) forget() {
	t.main.close()
	t.pend.close()
	t.x, t.synced, t.readonly, t.leftover, t.ahead = nil, false, nil, false, false
}

func (l *log) close() {
	if l.f != nil {
		_ = l.f.Close()
	}
	*l = log{path: l.path, undo: l.undo}
}

// rewind makes the file be read from its beginning.
func (l *log) rewind() { l.size, l.lines, l.skipped = 0, 0, 0 }

func (t *thread) fail(op string, l *log, err error) error { return ioError(op, l.path, t.id, err) }

func (t *thread) corrupt(l *log, line, off int64, err error) error {
	return &checkpoint.CorruptError{
		Thread: t.id,
		Place:  fmt.Sprintf("%s, line %d", l.path, line),
		Offset: off,
		Err:    err,
	}
}

// open opens the thread's file. It returns fs.ErrNotExist, bare, when there is
// none though its directory is there.
func (t *thread) open(create bool) (created bool, err error) {
	if t.main.f != nil {
		return false, nil
	}
	flags := os.O_RDWR
	f, err := os.OpenFile(t.main.path, flags, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if st, derr := os.Stat(t.s.dir); derr != nil {
			return false, ioError("open", t.s.dir, t.id, derr)
		} else if !st.IsDir() {
			return false, ioError("open", t.s.dir, t.id, errNotDir)
		}
		if !create {
			return false, fs.ErrNotExist
		}
		f, err = os.OpenFile(t.main.path, flags|os.O_CREATE, 0o600)
		created = err == nil
	}
	if err != nil && readonly(err) {
		if ro, roerr := os.Open(t.main.path); roerr == nil {
			t.readonly, f, err = err, ro, nil
		}
	}
	if err != nil {
		return false, t.fail("open", &t.main, err)
	}
	if st, serr := f.Stat(); serr != nil || !st.Mode().IsRegular() {
		_ = f.Close()
		if serr == nil {
			serr = errNotRegular
		}
		return false, t.fail("open", &t.main, serr)
	}
	t.main.f = f
	return created, nil
}

// locked runs f with the thread's file open and its lock taken, and everything
// that other processes appended read. Without create, a thread that has no file
// gives fs.ErrNotExist. The caller has locked t.
func (t *thread) locked(ctx context.Context, exclusive, create bool, f func() error) error {
	if err := t.s.slots.take(ctx); err != nil {
		return err
	}
	defer t.s.slots.give()
	return t.lockedIn(ctx, exclusive, create, f)
}

// lockedIn is locked for a caller that has a slot.
func (t *thread) lockedIn(ctx context.Context, exclusive, create bool, f func() error) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		created, err := t.open(create)
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				t.forget()
			}
			return err
		}
		if !exclusive && t.current() {
			return f()
		}
		unlock, err := lockFile(ctx, t.main.f, t.base, exclusive)
		if err != nil {
			return t.fail("lock", &t.main, err)
		}
		same, err := t.same()
		if err != nil || !same {
			unlock()
			if t.x != nil && len(t.x.recs) > 0 {
				t.lost = true
			}
			t.forget()
			if err != nil {
				return err
			}
			continue // deleted or replaced since it was opened
		}
		err = t.refresh(ctx, exclusive)
		if errors.Is(err, errNeedExclusive) {
			unlock()
			exclusive = true
			continue
		}
		if err == nil {
			err = f()
		}
		if created && t.main.f != nil && t.main.size == 0 && t.pend.size == 0 && t.main.undo == nil && t.pend.undo == nil {
			t.removeEmpty()
		}
		unlock()
		return err
	}
}

// removeEmpty removes the file that an operation made and then had no use for.
func (t *thread) removeEmpty() {
	st, err := t.main.f.Stat()
	if err != nil || st.Size() > 0 {
		return
	}
	if _, err := os.Stat(t.pend.path); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	_ = t.s.sys.remove(t.main.path)
	t.forget()
}

// same reports whether the open file is the one at its path.
func (t *thread) same() (bool, error) {
	a, err := t.main.f.Stat()
	if err != nil {
		return false, t.fail("stat", &t.main, err)
	}
	b, err := os.Stat(t.main.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, t.fail("stat", &t.main, err)
	}
	return os.SameFile(a, b), nil
}

// current reports whether everything is loaded and nothing was appended since.
func (t *thread) current() bool {
	if t.x == nil || t.main.undo != nil || t.pend.undo != nil {
		return false
	}
	a, err := t.main.f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(t.main.path)
	if err != nil || !os.SameFile(a, b) || b.Size() != t.main.size {
		return false
	}
	c, err := os.Stat(t.pend.path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) && t.pend.f == nil
	}
	if t.pend.f == nil || c.Size() != t.pend.size {
		return false
	}
	d, err := t.pend.f.Stat()
	return err == nil && os.SameFile(c, d)
}

var errNeedExclusive = errors.New("needs the exclusive lock")

// refresh reads what was appended to the two files since they were last read.
// The thread's file is locked.
func (t *thread) refresh(ctx context.Context, exclusive bool) error {
	for _, l := range []*log{&t.main, &t.pend} {
		if l.undo != nil {
			if !exclusive {
				return errNeedExclusive
			}
			if err := t.settle(l); err != nil {
				return err
			}
		}
	}
	if err := t.read(ctx, exclusive); err != nil {
		t.x = nil
		t.main.rewind()
		t.pend.rewind()
		return err
	}
	return nil
}

// settle takes back a failed append that could not be taken back at once.
func (t *thread) settle(l *log) error {
	if l.f == nil { // the companion: opened by path
		f, err := os.OpenFile(l.path, os.O_RDWR, 0)
		if errors.Is(err, fs.ErrNotExist) {
			l.undo = nil
			return nil
		}
		if err != nil {
			return t.fail("open", l, err)
		}
		l.f = f
	}
	st, err := l.f.Stat()
	if err != nil {
		return t.fail("stat", l, err)
	}
	// When the size is another, somebody else dealt with it.
	if st.Size() == l.undo.size {
		if err := t.s.sys.truncate(l.f, l.undo.keep); err != nil {
			return &Error{Op: "truncate", Path: l.path, Thread: t.id, Err: err, Fix: fix(err), Unsettled: true}
		}
	}
	l.undo = nil
	return nil
}

// read takes in the new lines of both files, in the order they were written: a
// line of the companion says after which line of the thread's file it came.
func (t *thread) read(ctx context.Context, exclusive bool) error {
	mst, err := t.main.f.Stat()
	if err != nil {
		return t.fail("stat", &t.main, err)
	}
	pst, err := t.openPending()
	if err != nil {
		return err
	}
	if t.x == nil || mst.Size() < t.main.size || pst != nil && pst.Size() < t.pend.size {
		t.x, t.leftover = newIndex(), false
		t.main.rewind()
		t.pend.rewind()
	}
	main := lines{t: t, l: &t.main, exclusive: exclusive, sc: scanner{f: t.main.f, off: t.main.size, end: mst.Size()}}
	pend := lines{t: t, l: &t.pend, exclusive: exclusive}
	if pst != nil {
		pend.sc = scanner{f: t.pend.f, off: t.pend.size, end: pst.Size()}
	}
	for {
		if err := main.peek(ctx); err != nil {
			return err
		}
		for {
			if err := pend.peek(ctx); err != nil {
				return err
			}
			if pend.done || pend.h.after > t.main.lines {
				break
			}
			if err := t.x.addPending(&pend.h, pend.off, pend.n); err != nil {
				return t.corrupt(&t.pend, t.pend.place(), pend.off, err)
			}
			pend.take()
		}
		if main.done {
			break
		}
		if err := t.x.addMain(&main.h, main.off, main.n); err != nil {
			return t.corrupt(&t.main, t.main.place(), main.off, err)
		}
		main.take()
	}
	if t.x.cut {
		t.lost = false // the file was not removed but shortened
	}
	switch {
	case pend.done:
	case t.main.lines == 0:
		// A deletion or a copy that did not come to its end left it.
		t.x, t.leftover = newIndex(), true
		t.pend.size = pst.Size()
	case t.s.repair:
		t.ahead = true
		for !pend.done {
			if err := t.x.addPending(&pend.h, pend.off, pend.n); err != nil {
				return t.corrupt(&t.pend, t.pend.place(), pend.off, err)
			}
			pend.take()
			if err := pend.peek(ctx); err != nil {
				return err
			}
		}
	default:
		return t.corrupt(&t.main, t.main.place(), t.main.size,
			fmt.Errorf("%w (%s, line %d, was written after line %d)", errCutAfterEnd, t.pend.path, t.pend.place(), pend.h.after))
	}
	return nil
}

// lines reads the lines of one file, one ahead.
type lines struct {
	t         *thread
	l         *log
	sc        scanner
	exclusive bool

	full bool // h, off and n are of the next line
	done bool
	h    head
	off  int64
	n    int // bytes with the newline
}

func (p *lines) peek(ctx context.Context) error {
	if p.full || p.done {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	off := p.sc.off
	b, whole, err := p.sc.next()
	if err == nil && !whole {
		if b, err = p.t.tail(p.l, b, off, p.exclusive); err != nil && err != io.EOF {
			return err
		}
	}
	if err == io.EOF {
		p.done = true
		return nil
	}
	if err != nil {
		return p.t.fail("read", p.l, err)
	}
	if p.h, err = p.t.parse(p.l, b, off); err != nil {
		return err
	}
	p.full, p.off, p.n = true, off, len(b)+1
	return nil
}

// take counts the line that was peeked at as read.
func (p *lines) take() {
	p.full = false
	p.l.size, p.l.lines, p.l.dirty = p.off+int64(p.n), p.h.seq, true
	p.l.skipped += p.h.skip
}

// openPending opens the companion file; nil means that there is none.
func (t *thread) openPending() (fs.FileInfo, error) {
	st, err := os.Stat(t.pend.path)
	if errors.Is(err, fs.ErrNotExist) {
		if t.pend.f != nil {
			t.pend.close()
			t.x = nil
		}
		return nil, nil
	}
	if err != nil {
		return nil, t.fail("stat", &t.pend, err)
	}
	if t.pend.f != nil {
		if old, err := t.pend.f.Stat(); err == nil && os.SameFile(st, old) {
			return st, nil
		}
		t.pend.close() // it was written anew
		t.x = nil
	}
	f, err := os.OpenFile(t.pend.path, os.O_RDWR, 0)
	if err != nil && readonly(err) {
		f, err = os.Open(t.pend.path)
	}
	if err != nil {
		return nil, t.fail("open", &t.pend, err)
	}
	t.pend.f = f
	return st, nil
}

// parse checks a line and returns its head.
func (t *thread) parse(l *log, b []byte, off int64) (h head, err error) {
	line := l.place()
	body, err := unseal(t.seed, b)
	if err != nil {
		if line == 1 {
			// Checksums start at the thread's ID: see whether it is another's.
			var first struct {
				Thread *text `json:"thread"`
			}
			if json.Unmarshal(b, &first) == nil && first.Thread != nil && string(*first.Thread) != string(t.id) {
				if _, err := unseal(seedOf(checkpoint.ThreadID(*first.Thread)), b); err == nil {
					return h, t.corrupt(l, line, off, t.foreign(string(*first.Thread)))
				}
			}
		}
		return h, t.corrupt(l, line, off, err)
	}
	h, err = parseHead(body)
	if h.version > Version {
		return h, &VersionError{Path: l.path, Line: line, Found: h.version, Supported: Version}
	}
	if h.format/100 > checkpoint.Format/100 && h.format/100 != sealedFormat/100 {
		return h, &VersionError{Path: l.path, Line: line, Found: h.format, Supported: checkpoint.Format}
	}
	if err == nil && line == 1 && (h.version < 1 || h.thread == nil) {
		err = errors.New("the first line does not name format and thread")
	}
	if err == nil && h.thread != nil && string(*h.thread) != string(t.id) {
		err = t.foreign(string(*h.thread))
	}
	if err != nil {
		return h, t.corrupt(l, line, off, err)
	}
	return h, nil
}

func (t *thread) foreign(other string) error {
	return fmt.Errorf("%w: its records are of thread %q (it belongs into %s)", ErrThread, other, FileName(checkpoint.ThreadID(other)))
}

// tail deals with an incomplete last line. It returns the line when only its
// newline was missing, io.EOF when it was put aside.
func (t *thread) tail(l *log, b []byte, off int64, exclusive bool) ([]byte, error) {
	n := wholeLine(t.seed, b)
	if !t.s.opts.Recover {
		// Say first what is wrong with a file of another thread or version.
		if l.lines == 0 {
			_, err := t.parse(l, b, off)
			if errors.Is(err, checkpoint.ErrVersion) || errors.Is(err, ErrThread) {
				return nil, err
			}
		}
		return nil, t.corrupt(l, l.place(), off, fmt.Errorf(
			"%w: %d bytes without an end of line; file.Repair or Options.Recover puts them aside", errIncomplete, len(b)))
	}
	if t.readonly != nil { // cannot be mended here, but read
		if n > 0 {
			return nil, t.corrupt(l, l.place(), off, fmt.Errorf("%w: its end is missing and the file is read-only", errIncomplete))
		}
		l.size += int64(len(b))
		return nil, io.EOF
	}
	if !exclusive {
		return nil, errNeedExclusive
	}
	rep := Report{Thread: t.id, File: l.path, Line: l.place(), Offset: off}
	if n < len(b) {
		if err := t.putAside(l, l.place(), off+int64(n), b[n:]); err != nil {
			return nil, err
		}
		rep.Moved = int64(len(b) - n)
		rep.SideFile = t.base + extMain + extDamaged
		if err := t.s.sys.truncate(l.f, off+int64(n)); err != nil {
			return nil, t.fail("truncate", l, err)
		}
	}
	if n > 0 {
		if _, err := t.s.sys.writeAt(l.f, []byte{'\n'}, off+int64(n)); err != nil {
			return nil, t.fail("append", l, err)
		}
		rep.Completed = true
	}
	if err := t.s.sys.sync(l.f); err != nil {
		return nil, t.fail("sync", l, err)
	}
	t.reports = append(t.reports, rep)
	if n > 0 {
		return b[:n], nil
	}
	return nil, io.EOF
}

// putAside appends bytes that are taken out of a file to the side file.
func (t *thread) putAside(l *log, line, off int64, b []byte) error {
	path := t.base + extMain + extDamaged
	entry, err := json.Marshal(struct {
		At     time.Time `json:"at"`
		File   string    `json:"file"`
		Line   int64     `json:"line"`
		Offset int64     `json:"offset"`
		Bytes  []byte    `json:"bytes"`
	}{time.Now().UTC(), filepath.Base(l.path), line, off, b})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return ioError("open", path, t.id, err)
	}
	_, err = f.Write(append(entry, '\n'))
	if err == nil {
		err = t.s.sys.sync(f)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = t.s.sys.syncDir(t.s.dir)
	}
	return ioError("append", path, t.id, err)
}

// append writes one line at the end of l, durably if the store is to. When it
// fails the file is as it was.
func (t *thread) append(l *log, b []byte) error {
	off := l.size
	n, err := t.s.sys.writeAt(l.f, b, off)
	op := "append"
	if err == nil && t.s.opts.Sync == SyncEvery {
		op = "sync"
		if err = t.s.sys.sync(l.f); err == nil && !t.synced {
			if err = t.s.sys.syncDir(t.s.dir); err == nil {
				t.synced = true
			}
		}
	}
	if err == nil {
		l.size, l.lines, l.dirty = off+int64(len(b)), l.lines+1, t.s.opts.Sync != SyncEvery
		return nil
	}
	e := &Error{Op: op, Path: l.path, Thread: t.id, Err: err, Fix: fix(err)}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		e.Err = pe.Err
		e.Fix = fix(pe.Err)
	}
	size := off + int64(n)
	if st, serr := l.f.Stat(); serr == nil {
		size = st.Size()
	}
	if size > off {
		if terr := t.s.sys.truncate(l.f, off); terr != nil {
			l.undo = &undo{keep: off, size: size}
			e.Unsettled = true
		}
	}
	return e
}

// scanner reads lines without keeping more than one.
type scanner struct {
	f        io.ReaderAt
	off, end int64 // of the next line; where to stop
	buf      []byte
	start, n int // buf[start:n] stands at off
}

// next returns the next line without its newline; whole is false for a last
// line that has none. The bytes are valid until the next call.
func (s *scanner) next() (line []byte, whole bool, err error) {
	searched := 0
	for {
		if i := bytes.IndexByte(s.buf[s.start+searched:s.n], '\n'); i >= 0 {
			i += searched
			line = s.buf[s.start : s.start+i]
			s.start += i + 1
			s.off += int64(i) + 1
			return line, true, nil
		}
		have := s.n - s.start
		searched = have
		left := s.end - s.off - int64(have)
		if left <= 0 {
			if have == 0 {
				return nil, false, io.EOF
			}
			line = s.buf[s.start:s.n]
			s.off += int64(have)
			s.start = s.n
			return line, false, nil
		}
		if s.start > 0 {
			copy(s.buf, s.buf[s.start:s.n])
			s.start, s.n = 0, have
		}
		if have == len(s.buf) {
			size := max(64<<10, 2*len(s.buf))
			if int64(size) > s.end-s.off {
				size = int(max(s.end-s.off, int64(have)+1))
			}
			s.buf = append(make([]byte, 0, size), s.buf[:have]...)[:size]
		}
		want := s.buf[s.n:]
		if int64(len(want)) > left {
			want = want[:left]
		}
		m, err := s.f.ReadAt(want, s.off+int64(have))
		s.n += m
		if err != nil && !(err == io.EOF && m > 0) {
			if err == io.EOF {
				s.end = s.off + int64(have) // shorter than it was
				continue
			}
			return nil, false, err
		}
	}
}
