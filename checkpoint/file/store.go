package file

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sort"
	"sync"
	"syscall"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
)

// Sync says when a write counts as done.
type Sync int

const (
	// SyncEvery makes each write durable before it is acknowledged: it
	// outlives a power failure.
	SyncEvery Sync = iota

	// SyncNever hands each write to the operating system: it outlives the
	// process, killed or not, but a power failure or a crash of the system may
	// take the newest writes, which is then reported as damage unless it took
	// whole writes from the end.
	SyncNever
)

// Options of [Open]. The zero value is strict and durable.
type Options struct {
	Sync Sync

	// Recover puts an incomplete last line aside when a thread is loaded, as
	// [Repair] does, instead of reporting it. Any other damage is an error
	// still.
	Recover bool

	// MaxOpen is how many threads are kept open and indexed; 0 means 256.
	// Each takes up to two file descriptors, and about 100 bytes of memory for
	// each of its records. Others are opened when they are used.
	MaxOpen int
}

const defaultMaxOpen = 256

// Store keeps threads in files of a directory. It implements
// [checkpoint.Store], [checkpoint.Lister], [checkpoint.Copier],
// [checkpoint.Scheduler], [checkpoint.Rewriter] and [checkpoint.Verifier].
// Several stores, also of several processes, may use one directory.
type Store struct {
	checkpoint.Locks

	dir    string
	opts   Options
	sys    system
	repair bool
	slots  slots

	mu      sync.Mutex
	threads map[checkpoint.ThreadID]*thread
	lru     list.List // of *thread, most recently used first
	closed  bool

	waits sync.Map // of *waiting by the name of the file, see Due
}

var (
	_ checkpoint.Store  = (*Store)(nil)
	_ checkpoint.Lister = (*Store)(nil)
	_ checkpoint.Copier = (*Store)(nil)

	_ checkpoint.Scheduler = (*Store)(nil)
	_ checkpoint.Rewriter  = (*Store)(nil)
	_ checkpoint.Verifier  = (*Store)(nil)
)

var (
	errNotDir     = syscall.ENOTDIR
	errNoPath     = errors.New("the path is empty")
	errNotRegular = errors.New("not a regular file")
)

func readonly(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
}

// slots bounds how many threads are worked on at once.
type slots chan struct{}

func (s slots) take(ctx context.Context) error {
	select {
	case s <- struct{}{}:
		return nil
	default:
	}
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s slots) give() { <-s }

// Open opens the store in dir, which is made if it does not exist. A directory
// that cannot be written to can be read.
func Open(dir string, opts Options) (*Store, error) {
	if opts.MaxOpen < 0 || opts.Sync < SyncEvery || opts.Sync > SyncNever {
		return nil, fmt.Errorf("checkpoint/file: invalid options %+v", opts)
	}
	if opts.MaxOpen == 0 {
		opts.MaxOpen = defaultMaxOpen
	}
	if dir == "" {
		return nil, &Error{Op: "open", Path: `""`, Err: errNoPath, Fix: "name a directory; . is the current one"}
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, ioError("open", dir, "", err)
	}
	st, err := os.Stat(abs)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(abs, 0o700); err != nil {
			return nil, ioError("create", abs, "", err)
		}
		if opts.Sync == SyncEvery {
			if err := syncDirectory(filepath.Dir(abs)); err != nil {
				return nil, ioError("sync", filepath.Dir(abs), "", err)
			}
		}
	case err != nil:
		return nil, ioError("open", abs, "", err)
	case !st.IsDir():
		return nil, ioError("open", abs, "", errNotDir)
	}
	d, err := os.Open(abs) // can it be read?
	if err != nil {
		return nil, ioError("open", abs, "", err)
	}
	_ = d.Close()
	return &Store{
		dir:     abs,
		opts:    opts,
		sys:     realSystem(),
		slots:   make(slots, opts.MaxOpen),
		threads: make(map[checkpoint.ThreadID]*thread),
	}, nil
}

func (s *Store) start(ctx context.Context, thread checkpoint.ThreadID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return checkpoint.ErrClosed
	}
	return checkpoint.Log{Thread: thread}.Check()
}

// acquire returns what is known of a thread, not locked yet.
func (s *Store) acquire(id checkpoint.ThreadID) (*thread, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, checkpoint.ErrClosed
	}
	t := s.threads[id]
	if t == nil {
		base := filepath.Join(s.dir, baseName(string(id)))
		t = &thread{s: s, id: id, seed: seedOf(id), base: base, sem: make(chan struct{}, 1)}
		t.main.path, t.pend.path = base+extMain, base+extPending
		t.elem = s.lru.PushFront(t)
		s.threads[id] = t
	} else {
		s.lru.MoveToFront(t.elem)
	}
	t.refs++
	return t, nil
}

// release gives a thread back, and puts the least recently used ones away.
func (s *Store) release(t *thread) {
	var away []*thread
	s.mu.Lock()
	t.refs--
	if s.closed && t.refs == 0 {
		away = append(away, t)
	}
	for e := s.lru.Back(); e != nil && s.lru.Len() > s.opts.MaxOpen; {
		old := e.Value.(*thread)
		e = e.Prev()
		// A thread with a failed append to take back is kept.
		if old.refs == 0 && old.main.undo == nil && old.pend.undo == nil {
			s.lru.Remove(old.elem)
			delete(s.threads, old.id)
			away = append(away, old)
		}
	}
	s.mu.Unlock()
	for _, old := range away {
		old.forget() // nobody else can reach it
	}
}

// with runs f with a thread locked.
func (s *Store) with(ctx context.Context, id checkpoint.ThreadID, f func(t *thread) error) error {
	t, err := s.acquire(id)
	if err != nil {
		return err
	}
	defer s.release(t)
	if err := t.lock(ctx); err != nil {
		return err
	}
	defer t.unlock()
	return f(t)
}

// Write implements [checkpoint.Store].
func (s *Store) Write(ctx context.Context, w *checkpoint.Write) (out checkpoint.Written, err error) {
	if err := s.start(ctx, w.Log.Thread); err != nil {
		return out, err
	}
	if err := w.Check(); err != nil {
		return out, err
	}
	err = s.with(ctx, w.Log.Thread, func(t *thread) error {
		return t.locked(ctx, true, true, func() (err error) {
			out, err = t.write(w)
			return err
		})
	})
	if err != nil {
		return checkpoint.Written{}, err
	}
	return out, nil
}

func (t *thread) write(w *checkpoint.Write) (out checkpoint.Written, err error) {
	x, now := t.x, time.Now()
	out.Fence = x.fence
	if err := w.CheckHold(x.fence, x.lease, now); err != nil {
		if errors.Is(err, checkpoint.ErrFenced) {
			err = fmt.Errorf("%w%s", err, t.gone())
		}
		return out, err
	}
	if w.Claim {
		out.Fence = x.nextFence(now)
	}
	l := x.log(w.Log.Namespace)
	var prev before
	if w.Record != nil {
		if prev, err = t.before(l); err != nil {
			return out, err
		}
		if err := t.place(l, w, prev.head); err != nil {
			return out, err
		}
	}
	keep, remove, ignored := l.filter(w)
	out.Ignored = ignored
	drop := w.Drop
	if drop != nil && (l == nil || l.open[dropWire(*drop)] == nil) {
		drop = nil // nothing is there, and nothing of it is put
	}
	release := w.Release && x.lease.Holder != ""
	if w.Record == nil && !w.Claim && w.Lease == 0 && !release && !w.Wake && len(remove) == 0 && len(keep) == 0 && drop == nil {
		return out, nil
	}
	if err := t.writable("append"); err != nil {
		return out, err
	}
	if t.leftover {
		if err := t.removePending(); err != nil {
			return out, err
		}
	}
	var ln line
	if len(keep) > 0 {
		if err := ln.setResults(keep); err != nil {
			return out, t.unfit(err)
		}
	}
	if w.Claim {
		ln.Claim = out.Fence
	}
	lease := checkpoint.Lease{Holder: w.Holder, Until: now.Add(w.Lease), TTL: w.Lease}
	if w.Lease > 0 {
		ln.Lease = newLease(lease)
	}
	if w.Wake {
		at := now.UTC().Round(0)
		ln.Wake = &at
	}
	ln.Release, ln.Remove = release, remove
	if drop != nil {
		ln.Drop = (*dropWire)(drop)
	}
	if w.Record == nil {
		err := t.appendPending(&ln, w.Log.Namespace)
		if err == nil && len(keep) == 0 {
			t.tidyPending() // a lease that is renewed for long
		}
		return out, err
	}
	ln.Held = !w.Claim && (x.lease.Holder != "" && w.Lease == 0 && !release || !x.woken.IsZero() && !w.Wake)
	if x.version >= versionShort && !ln.Held {
		ln.Release = false // who can read the file knows it
	}
	ln.Seq = t.main.lines + 1
	if err := ln.setRecord(w.Record, prev); err != nil {
		return out, t.unfit(err)
	}
	if w.Lease > 0 {
		ln.Lease = x.shorten(lease, w.Record, ln.CreatedAt)
	}
	var fresh bool
	if ln.Log, fresh = x.logNumber(w.Log.Namespace); fresh {
		ln.NS = (*text)(&w.Log.Namespace)
	}
	if err := t.appendLine(&t.main, &ln); err != nil {
		return out, err
	}
	if drop != nil {
		t.tidyPending()
	}
	return out, nil
}

// nextFence returns the fence of the thread's next claim. Its fences begin at the
// microseconds since 1970: its files may have been deleted a moment ago, and nothing
// is left of them that says how far they had come; nobody claims a thread a million
// times a second.
func (x *index) nextFence(now time.Time) checkpoint.Fence {
	if x.fence == 0 {
		return checkpoint.Fence(now.UnixMicro()) + 1
	}
	return x.fence + 1
}

// writable says why the thread cannot be written to.
func (t *thread) writable(op string) error {
	if t.readonly == nil {
		return nil
	}
	return &Error{Op: op, Path: t.main.path, Thread: t.id, Err: errors.Join(ErrReadOnly, t.readonly), Fix: fix(ErrReadOnly)}
}

// before returns what the lines of a log say about its next record.
func (t *thread) before(l *logIndex) (before, error) {
	if l == nil || len(l.recs) == 0 {
		return before{}, nil
	}
	return t.beforeNext(l.recs[len(l.recs)-1])
}

// beforeNext returns what the lines up to that of record pos say about the next
// record of its log.
func (t *thread) beforeNext(pos int32) (prev before, err error) {
	l := t.x.logs[t.x.recs[pos].log]
	if prev.head, err = t.idAt(pos); err != nil {
		return prev, err
	}
	if l.graph == nil {
		first := l.recs[0]
		b, err := t.lineAt(&t.main, t.x.recs[first].off, t.x.recs[first].n)
		if err != nil {
			return prev, err
		}
		r, err := t.decode(b, l.ns, first, t.x.recs[first].off, before{})
		if err != nil {
			return prev, err
		}
		l.graph = &r.Graph
	}
	prev.graph = *l.graph
	return prev, nil
}

// unfit is the error of a write that cannot be encoded.
func (t *thread) unfit(err error) error {
	return fmt.Errorf("%w: thread %q: %w", checkpoint.ErrInvalid, t.id, err)
}

// place checks that the record of w fits.
func (t *thread) place(l *logIndex, w *checkpoint.Write, head checkpoint.ID) error {
	if err := t.conflict(w.Log, head, w.Head); err != nil {
		return err
	}
	var last int64
	if l != nil {
		key, _ := keyOf(w.Record.ID)
		if _, ok := l.byID[key]; ok {
			return fmt.Errorf("%w: thread %q has a record %s already", checkpoint.ErrInvalid, t.id, w.Record.ID)
		}
		if i, ok := l.byBranch[w.Record.Branch]; ok {
			b := &l.branches[i]
			last = b.last
		}
	}
	return w.Record.CheckPlace(last)
}

// conflict says what is wrong if the head of a log is not the one wanted.
func (t *thread) conflict(log checkpoint.Log, head, want checkpoint.ID) error {
	switch {
	case head == want:
		return nil
	case head == "":
		return fmt.Errorf("%w: log %v is empty, the writer expected head %s%s", checkpoint.ErrConflict, log, want, t.gone())
	case want == "":
		return fmt.Errorf("%w: log %v has head %s, the writer expected an empty log", checkpoint.ErrConflict, log, head)
	}
	return fmt.Errorf("%w: log %v has head %s, the writer expected %s", checkpoint.ErrConflict, log, head, want)
}

// gone explains why a thread that was there is not.
func (t *thread) gone() string {
	if !t.lost {
		return ""
	}
	return fmt.Sprintf(" (the thread was deleted, or its file %s removed, since this store read it)", t.main.path)
}

// appendLine numbers and encodes a line, appends it and takes it into the index.
func (t *thread) appendLine(l *log, ln *line) error {
	ln.Seq = l.lines + 1
	if ln.Seq == 1 {
		ln.Thread = (*text)(&t.id)
	}
	b, err := ln.encode(t.seed)
	if err != nil {
		return t.unfit(err)
	}
	h, err := parseHead(b[:len(b)-1-crcLen])
	if err != nil {
		return t.unfit(err)
	}
	off := l.size
	if err := t.append(l, b); err != nil {
		return err
	}
	if l == &t.main {
		t.lost = false
		err = t.x.addMain(&h, off, len(b))
	} else {
		err = t.x.addPending(&h, off, len(b))
	}
	if err != nil {
		t.x = nil // read the files anew
	}
	return nil
}

// idAt returns the ID of a record.
func (t *thread) idAt(pos int32) (checkpoint.ID, error) {
	r := &t.x.recs[pos]
	if r.uuid {
		return checkpoint.IDFromBytes(r.key), nil
	}
	b, err := t.lineAt(&t.main, r.off, r.n)
	if err != nil {
		return "", err
	}
	h, err := parseHead(b[:len(b)-crcLen])
	return h.id, err
}

// lineAt reads and checks a line, without its newline.
func (t *thread) lineAt(l *log, off int64, n int32) ([]byte, error) {
	b := make([]byte, n)
	if _, err := l.f.ReadAt(b, off); err != nil {
		return nil, t.fail("read", l, err)
	}
	return t.whole(l, off, b)
}

// whole checks a line that stands at off and returns it without its newline.
func (t *thread) whole(l *log, off int64, b []byte) ([]byte, error) {
	b = b[:len(b)-1]
	if _, err := unseal(t.seed, b); err != nil {
		return nil, t.corrupt(l, t.lineNumber(l, off), off, err)
	}
	return b, nil
}

// lineNumber returns the number of the line that starts at off.
func (t *thread) lineNumber(l *log, off int64) (n int64) {
	if l == &t.main {
		return int64(sort.Search(len(t.x.recs), func(i int) bool { return t.x.recs[i].off >= off })) + 1
	}
	sc := scanner{f: l.f, end: off}
	for n = 1; ; n++ {
		if _, _, err := sc.next(); err != nil {
			return n
		}
	}
}

// recordAt reads a record's line; decode turns it into the record and needs no
// lock.
func (t *thread) recordAt(pos int32) (b []byte, prev before, err error) {
	return t.recordIn(piece{}, pos)
}

// piece is a piece of the main file, read at once.
type piece struct {
	off int64
	b   []byte
}

// line returns the line of a record, nil if it is elsewhere.
func (p piece) line(r *rec) []byte {
	from := r.off - p.off
	if from < 0 || from+int64(r.n) > int64(len(p.b)) {
		return nil
	}
	return p.b[from : from+int64(r.n) : from+int64(r.n)]
}

// recordIn is recordAt for a record whose line may have been read already.
func (t *thread) recordIn(read piece, pos int32) (b []byte, prev before, err error) {
	r := &t.x.recs[pos]
	if r.prev >= 0 {
		if prev, err = t.beforeNext(r.prev); err != nil {
			return nil, prev, err
		}
	}
	if b = read.line(r); b != nil {
		b, err = t.whole(&t.main, r.off, b)
	} else {
		b, err = t.lineAt(&t.main, r.off, r.n)
	}
	return b, prev, err
}

// readOn reads the lines of records that follow one another in the file, or nearly
// so, from the first of count on: at(i) is where record i stands. Without success the
// piece is empty.
func (t *thread) readOn(count int, at func(i int) int32) piece {
	first := &t.x.recs[at(0)]
	end := first.off + int64(first.n)
	for i := 1; i < count && int(at(i)) < len(t.x.recs); i++ {
		r := &t.x.recs[at(i)]
		if r.off < end || r.off > end+aheadGap || r.off+int64(r.n) > first.off+aheadBytes {
			break
		}
		end = r.off + int64(r.n)
	}
	p := piece{first.off, make([]byte, end-first.off)}
	if _, err := t.main.f.ReadAt(p.b, p.off); err != nil { // to be found by who reads them one by one
		return piece{}
	}
	return p
}

func (t *thread) decode(b []byte, ns string, pos int32, off int64, prev before) (*checkpoint.Record, error) {
	r, err := decodeRecord(b[:len(b)-crcLen], checkpoint.Log{Thread: t.id, Namespace: ns}, prev)
	return r, t.undecoded(err, pos, off)
}

// undecoded says which line could not be decoded.
func (t *thread) undecoded(err error, pos int32, off int64) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, checkpoint.ErrVersion) {
		return fmt.Errorf("%s, line %d: %w", t.main.path, pos+1, err)
	}
	return t.corrupt(&t.main, int64(pos)+1, off, err)
}

// view runs f with a thread loaded; a thread without a file runs it with t.x nil.
func (s *Store) view(ctx context.Context, id checkpoint.ThreadID, f func(t *thread, x *index) error) error {
	if err := s.start(ctx, id); err != nil {
		return err
	}
	return s.with(ctx, id, func(t *thread) error {
		err := t.locked(ctx, false, false, func() error { return f(t, t.x) })
		if err == fs.ErrNotExist {
			return f(t, newIndex())
		}
		return err
	})
}

// Head implements [checkpoint.Store].
func (s *Store) Head(ctx context.Context, log checkpoint.Log) (*checkpoint.Record, checkpoint.Fence, error) {
	return s.one(ctx, log, func(l *logIndex) (int32, bool) {
		if l == nil || len(l.recs) == 0 {
			return 0, false
		}
		return l.recs[len(l.recs)-1], true
	}, "no record")
}

// Get implements [checkpoint.Store].
func (s *Store) Get(ctx context.Context, log checkpoint.Log, id checkpoint.ID) (*checkpoint.Record, error) {
	r, _, err := s.one(ctx, log, func(l *logIndex) (int32, bool) {
		if l == nil {
			return 0, false
		}
		key, _ := keyOf(id)
		pos, ok := l.byID[key]
		return pos, ok
	}, "no record "+string(id))
	return r, err
}

func (s *Store) one(ctx context.Context, log checkpoint.Log, find func(l *logIndex) (int32, bool), missing string) (r *checkpoint.Record, fence checkpoint.Fence, err error) {
	var (
		t    *thread
		pos  int32
		off  int64
		b    []byte
		prev before
	)
	err = s.view(ctx, log.Thread, func(th *thread, x *index) (err error) {
		fence = x.fence.Read()
		p, ok := find(x.log(log.Namespace))
		if !ok {
			return fmt.Errorf("%w: log %v has %s%s", checkpoint.ErrNotFound, log, missing, th.gone())
		}
		t, pos, off = th, p, x.recs[p].off
		b, prev, err = th.recordAt(p)
		return err
	})
	if err == nil {
		r, err = t.decode(b, log.Namespace, pos, off, prev)
	}
	return r, fence, err
}

// Records implements [checkpoint.Store]. It yields the records that were there
// when the iteration began, and holds no lock and no file between them.
func (s *Store) Records(ctx context.Context, q checkpoint.Query) iter.Seq2[*checkpoint.Record, error] {
	return func(yield func(*checkpoint.Record, error) bool) {
		var (
			list []int32
			file fs.FileInfo
			was  []rec // what list points into
		)
		err := s.view(ctx, q.Log.Thread, func(t *thread, x *index) (err error) {
			l := x.log(q.Log.Namespace)
			switch {
			case l == nil:
				return nil
			case q.AllBranches:
				list = l.recs
			default:
				if i, ok := l.byBranch[q.Branch]; ok {
					list = l.branches[i].slice(q.From, q.To)
				}
			}
			if was = x.recs; len(list) > 0 {
				if file, err = t.main.f.Stat(); err != nil {
					return t.fail("stat", &t.main, err)
				}
			}
			return nil
		})
		if err != nil {
			yield(nil, err)
			return
		}
		if q.Limit > 0 && q.Limit < len(list) {
			if q.Desc {
				list = list[len(list)-q.Limit:]
			} else {
				list = list[:q.Limit]
			}
		}
		// The slice is only ever appended to, so it is read without the lock.
		at := func(i int) int32 {
			if q.Desc {
				return list[len(list)-1-i]
			}
			return list[i]
		}
		var ahead []rawRecord
		for next := 0; next < len(list) || len(ahead) > 0; {
			if err := s.start(ctx, q.Log.Thread); err != nil {
				yield(nil, err)
				return
			}
			if len(ahead) == 0 {
				if ahead, next, err = s.again(ctx, q.Log, file, was, next, len(list), at); err != nil {
					yield(nil, err)
					return
				}
				if len(ahead) == 0 {
					return
				}
			}
			raw := ahead[0]
			ahead = ahead[1:]
			r, err := raw.decode(q)
			if err != nil {
				yield(nil, err)
				return
			}
			if q.Meta {
				r = r.Meta()
			}
			if !yield(r, nil) {
				return
			}
		}
	}
}

// rawRecord is a record that was read and not decoded yet.
type rawRecord struct {
	t    *thread
	pos  int32
	off  int64
	line []byte
	prev before
}

func (r *rawRecord) decode(q checkpoint.Query) (*checkpoint.Record, error) {
	if !q.Folding || q.Meta {
		return r.t.decode(r.line, q.Log.Namespace, r.pos, r.off, r.prev)
	}
	out, err := decodeFolding(r.line[:len(r.line)-crcLen], q.Log)
	return out, r.t.undecoded(err, r.pos, r.off)
}

const (
	aheadRecords = 64
	aheadBytes   = 128 << 10
	aheadGap     = 256 // bytes between two records that are read for nothing
)

// again reads records of a file that was seen before: at(i) and a few more, up
// to at(n-1), and returns which is next. Damage in those is left to be found when
// they are next. If the file was shortened meanwhile, what is left is found by
// what is known of it from before.
func (s *Store) again(ctx context.Context, log checkpoint.Log, file fs.FileInfo, was []rec, i, n int, at func(i int) int32) (out []rawRecord, next int, err error) {
	id := log.Thread
	err = s.view(ctx, id, func(t *thread, x *index) error {
		same := false
		if t.main.f != nil {
			st, err := t.main.f.Stat()
			if err != nil {
				return t.fail("stat", &t.main, err)
			}
			same = os.SameFile(st, file)
		}
		var read piece
		for size := 0; i < n && len(out) < aheadRecords && size < aheadBytes; i++ {
			pos := at(i)
			if !same && x.cut {
				l := x.log(log.Namespace)
				if l == nil {
					continue
				}
				now, ok := l.byID[was[pos].key]
				if !ok {
					continue
				}
				pos = now
			} else if !same || int(pos) >= len(x.recs) {
				return fmt.Errorf("%w: thread %q was deleted while its records were read", checkpoint.ErrNotFound, id)
			}
			if len(out) > 0 && size+int(x.recs[pos].n) > aheadBytes {
				return nil
			}
			if read.line(&x.recs[pos]) == nil && same {
				read = t.readOn(min(n-i, aheadRecords-len(out)), func(k int) int32 { return at(i + k) })
			}
			b, prev, err := t.recordIn(read, pos)
			if err != nil && len(out) > 0 {
				return nil
			}
			if err != nil {
				return err
			}
			size += len(b)
			out = append(out, rawRecord{t, pos, x.recs[pos].off, b, prev})
		}
		return nil
	})
	return out, i, err
}

// Results implements [checkpoint.Store].
func (s *Store) Results(ctx context.Context, log checkpoint.Log, branch checkpoint.Branch, epoch checkpoint.ID) (out []checkpoint.Result, err error) {
	err = s.view(ctx, log.Thread, func(t *thread, x *index) (err error) {
		out = nil
		l := x.log(log.Namespace)
		if l == nil {
			return nil
		}
		e := l.open[dropWire{branch, epoch}]
		if e == nil {
			return nil
		}
		out, err = t.resultsAt(ctx, e.sorted())
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// resultsAt reads results.
func (t *thread) resultsAt(ctx context.Context, at []resultAt) ([]checkpoint.Result, error) {
	type place struct {
		off     int64
		pending bool
	}
	lines := make(map[place][]checkpoint.Result) // those with more than one
	out := make([]checkpoint.Result, 0, len(at))
	for _, a := range at {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p := place{a.off, a.pending}
		rs, ok := lines[p]
		if !ok {
			l := &t.main
			if a.pending {
				l = &t.pend
			}
			b, err := t.lineAt(l, a.off, a.n)
			if err != nil {
				return nil, err
			}
			if rs, err = decodeResults(b); err == nil && int(a.nth) >= len(rs) {
				err = errNotALine
			}
			if err != nil {
				return nil, t.corrupt(l, t.lineNumber(l, a.off), a.off, err)
			}
			if len(rs) > 1 {
				lines[p] = rs
			}
		}
		out = append(out, rs[a.nth])
	}
	return out, nil
}

// Delete implements [checkpoint.Store]. It also removes what was put aside of
// the thread's damaged lines. A damaged thread can be deleted.
func (s *Store) Delete(ctx context.Context, id checkpoint.ThreadID) error {
	if err := s.start(ctx, id); err != nil {
		return err
	}
	return s.with(ctx, id, func(t *thread) error {
		_, err := os.Stat(t.pend.path)
		create := err == nil
		err = t.deleteLocked(ctx, create)
		if err == fs.ErrNotExist {
			return nil
		}
		return err
	})
}

func (t *thread) deleteLocked(ctx context.Context, create bool) error {
	if err := t.s.slots.take(ctx); err != nil {
		return err
	}
	defer t.s.slots.give()
	for {
		if _, err := t.open(create); err != nil {
			return err
		}
		unlock, err := lockFile(ctx, t.main.f, t.base, true)
		if err != nil {
			return t.fail("lock", &t.main, err)
		}
		same, err := t.same()
		if err != nil || !same {
			unlock()
			t.forget()
			if err != nil {
				return err
			}
			continue
		}
		err = t.delete()
		unlock()
		t.forget()
		return err
	}
}

func (t *thread) delete() error {
	// Only the first line says whose file it is.
	st, err := t.main.f.Stat()
	if err != nil {
		return t.fail("stat", &t.main, err)
	}
	sc := scanner{f: t.main.f, end: st.Size()}
	if b, _, err := sc.next(); err == nil {
		first := log{path: t.main.path}
		if _, err := t.parse(&first, b, 0); errors.Is(err, ErrThread) {
			return err
		}
	}
	if !renamesOpenFiles {
		t.main.close()
		t.pend.close()
	}
	// The companion of a file that is gone counts for nothing, so the first
	// removal is what deletes the thread.
	paths := []string{t.main.path, t.pend.path, t.base + extMain + extDamaged, t.base + extTemp}
	if st.Size() == 0 {
		paths[0], paths[1] = paths[1], paths[0]
	}
	for _, path := range paths {
		if err := t.s.sys.remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return ioError("remove", path, t.id, err)
		}
	}
	t.main.undo, t.pend.undo, t.lost = nil, nil, false
	if t.s.opts.Sync == SyncEvery {
		if err := t.s.sys.syncDir(t.s.dir); err != nil {
			return ioError("sync", t.s.dir, t.id, err)
		}
	}
	return nil
}

// Close implements [checkpoint.Store]. Calls that are under way end as usual.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return checkpoint.ErrClosed
	}
	s.closed = true
	var idle []*thread
	for _, t := range s.threads {
		if t.refs == 0 {
			idle = append(idle, t)
		}
	}
	clear(s.threads)
	s.lru.Init()
	s.mu.Unlock()
	for _, t := range idle {
		t.forget()
	}
	return nil
}
