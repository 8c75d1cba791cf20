package file

import (
	"bufio"
	"bytes"
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
	"github.com/superstep-dev/superstep/internal/jsonscan"
	"golang.org/x/sync/semaphore"
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

// source is the file of a thread.
type source struct {
	id   checkpoint.ThreadID
	seed uint32 // of its checksums
	path string
	f    *os.File // nil: it isn't open
}

// thread is what the store knows of one thread. It may go when nobody uses it.
type thread struct {
	source
	d *driver

	refs int // guarded by driver.mu

	turn *semaphore.Weighted // the lock of everything below, and of source.f

	size      int64  // bytes that were read and found good, or written
	x         *index // nil: nothing is loaded
	synced    bool   // the directory was synced since the file was opened
	readonly  error  // why it could only be opened for reading
	undo      *undo
	compactAt int64 // bytes of no use at which the file is written anew
	reports   []Report
}

// undo is a failed append that is to be taken back.
type undo struct{ keep, size int64 }

// forget drops what is known of the file and closes it.
func (t *thread) forget() {
	if t.f != nil {
		_ = t.f.Close()
	}
	t.f, t.size, t.x, t.synced, t.readonly, t.compactAt = nil, 0, nil, false, nil, 0
}

func (t *source) fail(op string, err error) error { return ioError(op, t.path, t.id, err) }

func (t *source) corrupt(line, off int64, err error) error {
	return &checkpoint.CorruptError{Thread: t.id, Place: fmt.Sprintf("%s, line %d", t.path, line), Offset: off, Err: err}
}

// writable says why the thread cannot be written to.
func (t *thread) writable(op string) error {
	if t.readonly == nil {
		return nil
	}
	return &Error{Op: op, Path: t.path, Thread: t.id, Err: errors.Join(ErrReadOnly, t.readonly), Fix: fix(ErrReadOnly)}
}

// open opens the thread's file. It returns fs.ErrNotExist, bare, when there is
// none though its directory is there.
func (t *thread) open(create bool) (created bool, err error) {
	if t.f != nil {
		return false, nil
	}
	f, err := os.OpenFile(t.path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if st, derr := os.Stat(t.d.dir); derr != nil {
			return false, ioError("open", t.d.dir, t.id, derr)
		} else if !st.IsDir() {
			return false, ioError("open", t.d.dir, t.id, errNotDir)
		}
		if !create {
			return false, fs.ErrNotExist
		}
		f, err = os.OpenFile(t.path, os.O_RDWR|os.O_CREATE, 0o600)
		created = err == nil
	}
	if err != nil && readonly(err) {
		if ro, roerr := os.Open(t.path); roerr == nil {
			t.readonly, f, err = err, ro, nil
		}
	}
	if err != nil {
		return false, t.fail("open", err)
	}
	if st, serr := f.Stat(); serr != nil || !st.Mode().IsRegular() {
		_ = f.Close()
		if serr == nil {
			serr = errNotRegular
		}
		return false, t.fail("open", serr)
	}
	t.f = f
	return created, nil
}

// locked runs f with the thread's file open and everything read that other processes
// appended; if exclusive is set, with its lock taken. Without create, a thread that has
// no file gives fs.ErrNotExist. The caller has locked t.
func (t *thread) locked(ctx context.Context, exclusive, create bool, f func() error) error {
	if err := t.d.slots.Acquire(ctx, 1); err != nil {
		return err
	}
	defer t.d.slots.Release(1)
	created, unlock, err := t.hold(ctx, exclusive, create)
	if err != nil {
		return err
	}
	if unlock == nil {
		return f()
	}
	if err = t.refresh(ctx); err == nil {
		err = f()
	}
	if created && t.f != nil && t.size == 0 && t.undo == nil {
		t.removeEmpty()
	}
	unlock()
	return err
}

// hold opens the thread's file and takes its lock, unless it is to be read and is known:
// unlock is nil then, and what others are appending meanwhile is not looked at.
func (t *thread) hold(ctx context.Context, exclusive, create bool) (created bool, unlock func(), err error) {
	for {
		if err := ctx.Err(); err != nil {
			return false, nil, err
		}
		created, err := t.open(create)
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				t.forget()
			}
			return false, nil, err
		}
		if !exclusive && t.x != nil && t.undo == nil {
			if size, err := t.standing(); err == nil && size == t.size {
				return created, nil, nil
			}
		}
		mends := t.undo != nil || t.d.opts.Recover // what is read may have to be mended
		unlock, err := lockFile(ctx, t.f, t.path, exclusive || mends)
		if err != nil {
			return false, nil, t.fail("lock", err)
		}
		size, err := t.standing()
		if err == nil && size >= 0 {
			return created, unlock, nil
		}
		unlock()
		t.forget()
		if err != nil {
			return false, nil, err
		}
		// deleted or replaced since it was opened
	}
}

// removeEmpty removes the file that an operation made and then had no use for.
func (t *thread) removeEmpty() {
	if st, err := t.f.Stat(); err == nil && st.Size() == 0 {
		_ = t.d.sys.remove(t.path)
		t.forget()
	}
}

// standing returns the size of the file at the thread's path; -1 if the open one is another.
func (t *thread) standing() (int64, error) {
	a, err := t.f.Stat()
	if err != nil {
		return 0, t.fail("stat", err)
	}
	b, err := os.Stat(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		return -1, nil
	}
	if err != nil {
		return 0, t.fail("stat", err)
	}
	if !os.SameFile(a, b) {
		return -1, nil
	}
	return b.Size(), nil
}

// refresh reads what was appended since the file was last read.
func (t *thread) refresh(ctx context.Context) error {
	if t.undo != nil {
		if err := t.settle(); err != nil {
			return err
		}
	}
	st, err := t.f.Stat()
	if err != nil {
		return t.fail("stat", err)
	}
	if t.x == nil || st.Size() < t.size {
		t.x, t.size = newIndex(), 0
	}
	if st.Size() == t.size {
		return nil
	}
	sc := lines(t.f, t.size, st.Size())
	for err == nil {
		err = t.next(ctx, sc)
	}
	if err == io.EOF {
		return nil
	}
	t.x, t.size = nil, 0
	return err
}

// settle takes back a failed append that could not be taken back at once.
func (t *thread) settle() error {
	st, err := t.f.Stat()
	if err != nil {
		return t.fail("stat", err)
	}
	// When the size is another, somebody else dealt with it.
	if st.Size() == t.undo.size {
		if err := t.d.sys.truncate(t.f, t.undo.keep); err != nil {
			failed := newError("truncate", t.path, t.id, err)
			failed.Unsettled = true
			return failed
		}
	}
	t.undo = nil
	return nil
}

// next takes in the next line.
func (t *thread) next(ctx context.Context, sc *scanner) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	off := sc.off
	b, whole, err := sc.next()
	if err == nil && !whole {
		b, err = t.tail(b, off)
	}
	if err == io.EOF {
		return err
	}
	if err != nil {
		return t.fail("read", err)
	}
	e, err := t.parse(t.x, b, t.x.lines+1, off)
	if err != nil {
		return err
	}
	if err := t.x.apply(e, off, len(b)+1); err != nil {
		return t.corrupt(t.x.lines+1, off, err)
	}
	t.size = off + int64(len(b)) + 1
	return nil
}

// parse checks a line, the next one after those of which x is.
func (t *source) parse(x *index, b []byte, line, off int64) (*entry, error) {
	body, err := unseal(t.seed, b)
	if err != nil {
		if line == 1 {
			// Checksums start at the thread's ID: see whether it is another's.
			if other, ok := ownerOf(b); ok && other != t.id {
				if _, err := unseal(seedOf(other), b); err == nil {
					return nil, t.corrupt(line, off, foreign(other))
				}
			}
		}
		return nil, t.corrupt(line, off, err)
	}
	e, err := x.read(body, -1)
	switch {
	case e.version != 0 && e.version != Version:
		return nil, &VersionError{Path: t.path, Line: line, Found: int(e.version), Supported: Version}
	case err != nil:
	case line == 1 && e.thread == "":
		err = errors.New("the first line does not name format and thread")
	case line == 1 && e.thread != string(t.id):
		err = foreign(checkpoint.ThreadID(e.thread))
	}
	if err != nil {
		return nil, t.corrupt(line, off, err)
	}
	return e, nil
}

// ownerOf returns whose file it is by its first line.
func ownerOf(b []byte) (checkpoint.ThreadID, bool) {
	c := jsonscan.Codec{B: b}
	c.Expect('{')
	for more := true; more && c.Err == nil; more = c.More() {
		if string(c.Key()) == "thread" {
			s := textIn(&c)
			return checkpoint.ThreadID(s), c.Err == nil
		}
		c.Value()
	}
	return "", false
}

func foreign(other checkpoint.ThreadID) error {
	return fmt.Errorf("%w: its records are of thread %q (it belongs into %s)", ErrThread, other, FileName(other))
}

// tail deals with an incomplete last line. It returns the line when only its
// newline was missing, io.EOF when it was put aside.
func (t *thread) tail(b []byte, off int64) ([]byte, error) {
	n, line := wholeLine(t.seed, b), t.x.lines+1
	if !t.d.opts.Recover {
		// Say first what is wrong with a file of another thread or version.
		if line == 1 {
			_, err := t.parse(t.x, b, line, off)
			if errors.Is(err, checkpoint.ErrVersion) || errors.Is(err, ErrThread) {
				return nil, err
			}
		}
		return nil, t.corrupt(line, off, torn(b))
	}
	if t.readonly != nil { // cannot be mended here, but read
		if n > 0 {
			return nil, t.corrupt(line, off, fmt.Errorf("%w: its end is missing and the file is read-only", errIncomplete))
		}
		t.size += int64(len(b))
		return nil, io.EOF
	}
	rep := Report{Thread: t.id, File: t.path, Line: line, Offset: off}
	if n < len(b) {
		if err := t.putAside(line, off+int64(n), b[n:]); err != nil {
			return nil, err
		}
		rep.Moved = int64(len(b) - n)
		rep.SideFile = t.path + extDamaged
		if err := t.d.sys.truncate(t.f, off+int64(n)); err != nil {
			return nil, t.fail("truncate", err)
		}
	}
	if n > 0 {
		if _, err := t.d.sys.writeAt(t.f, []byte{'\n'}, off+int64(n)); err != nil {
			return nil, t.fail("append", err)
		}
		rep.Completed = true
	}
	if err := t.d.sys.sync(t.f); err != nil {
		return nil, t.fail("sync", err)
	}
	t.reports = append(t.reports, rep)
	if n > 0 {
		return b[:n], nil
	}
	return nil, io.EOF
}

func torn(b []byte) error {
	return fmt.Errorf("%w: %d bytes without an end of line; file.Repair or Options.Recover puts them aside", errIncomplete, len(b))
}

// putAside appends bytes that are taken out of the file to the side file.
func (t *thread) putAside(line, off int64, b []byte) error {
	path := t.path + extDamaged
	entry, err := json.Marshal(struct {
		At     time.Time `json:"at"`
		File   string    `json:"file"`
		Line   int64     `json:"line"`
		Offset int64     `json:"offset"`
		Bytes  []byte    `json:"bytes"`
	}{time.Now().UTC(), filepath.Base(t.path), line, off, b})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return ioError("open", path, t.id, err)
	}
	_, err = f.Write(append(entry, '\n'))
	if err == nil {
		err = t.d.sys.sync(f)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = t.d.sys.syncDir(t.d.dir)
	}
	return ioError("append", path, t.id, err)
}

// append writes a line at the end of the file, durably if the store is to, and takes it
// into the index. When it fails the file is as it was.
func (t *thread) append(e *entry) error {
	b, err := t.x.write(t.id, t.seed, e)
	if err != nil {
		return err
	}
	n, err := t.d.sys.writeAt(t.f, b, t.size)
	op := "append"
	if err == nil && t.d.opts.Sync == SyncEvery {
		op = "sync"
		if err = t.d.sys.sync(t.f); err == nil && !t.synced {
			err = t.d.sys.syncDir(t.d.dir)
			t.synced = err == nil
		}
	}
	if err == nil {
		if t.x.apply(e, t.size, len(b)) != nil {
			t.x = nil // read the file anew
		}
		t.size += int64(len(b))
		return nil
	}
	failed := newError(op, t.path, t.id, err)
	size := t.size + int64(n)
	if st, serr := t.f.Stat(); serr == nil {
		size = st.Size()
	}
	if size > t.size {
		if terr := t.d.sys.truncate(t.f, t.size); terr != nil {
			t.undo = &undo{keep: t.size, size: size}
			failed.Unsettled = true
		}
	}
	return failed
}

// lineAt reads and checks a line, and returns its body.
func (t *source) lineAt(off int64, n int) ([]byte, error) {
	b := make([]byte, n)
	if _, err := t.f.ReadAt(b, off); err != nil {
		return nil, t.fail("read", err)
	}
	return t.body(b, off)
}

// body checks a line that stands at off and returns its body.
func (t *source) body(b []byte, off int64) ([]byte, error) {
	body, err := unseal(t.seed, b[:len(b)-1])
	if err != nil {
		return nil, t.corrupt(t.lineNumber(off), off, err)
	}
	return body, nil
}

// lineNumber returns the number of the line that starts at off.
func (t *source) lineNumber(off int64) (n int64) {
	sc := lines(t.f, 0, off)
	for n = 1; ; n++ {
		if _, _, err := sc.next(); err != nil {
			return n
		}
	}
}

// scanner reads lines without keeping more than one.
type scanner struct {
	*bufio.Reader
	off int64 // of the next line
}

// lines returns a scanner of the lines of a file between two offsets.
func lines(f io.ReaderAt, from, end int64) *scanner {
	return &scanner{bufio.NewReaderSize(io.NewSectionReader(f, from, end-from), int(min(64<<10, end-from+1))), from}
}

// next returns the next line without its newline; whole is false for a last
// line that has none. The bytes are valid until the next call.
func (s *scanner) next() (line []byte, whole bool, err error) {
	line, err = s.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		start := bytes.Clone(line)
		line, err = s.ReadBytes('\n')
		line = append(start, line...)
	}
	s.off += int64(len(line))
	switch {
	case err == nil:
		return line[:len(line)-1], true, nil
	case err == io.EOF && len(line) > 0:
		return line, false, nil
	}
	return nil, false, err // what could not be read on is not a line that was cut off
}
