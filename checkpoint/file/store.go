package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/engine"
	"golang.org/x/sync/semaphore"
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
	// Each takes a file descriptor, and in memory about 50 bytes for each of its
	// records and what it has beside them: results of its open superstep, or a user's
	// sessions. Others are opened when they are used.
	MaxOpen int
}

const defaultMaxOpen = 256

// writers is more than there are: threads have files of their own, and gain nothing by
// waiting for one another.
const writers = 1 << 14

// Store keeps threads in files of a directory: a [checkpoint.Store] with all that an
// [engine.Engine] can do. Several stores, also of several processes, may use one
// directory.
type Store struct {
	*engine.Engine
	driver *driver
}

// driver keeps an engine's rows.
type driver struct {
	dir   string
	opts  Options
	sys   system
	slots *semaphore.Weighted // bounds how many do something at once

	mu      sync.Mutex
	threads map[checkpoint.ThreadID]*thread
	closed  bool

	glances sync.Map // of *glance by the name of the file
}

var (
	_ engine.Driver  = (*driver)(nil)
	_ engine.Checker = (*driver)(nil)
)

var (
	errNotDir     = syscall.ENOTDIR
	errNoPath     = errors.New("the path is empty")
	errNotRegular = errors.New("not a regular file")
)

func readonly(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
}

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
	if _, err := os.Stat(abs); errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(abs, 0o700); err != nil {
			return nil, ioError("create", abs, "", err)
		}
		if opts.Sync == SyncEvery {
			if err := syncDirectory(filepath.Dir(abs)); err != nil {
				return nil, ioError("sync", filepath.Dir(abs), "", err)
			}
		}
	}
	f, err := os.Open(abs)
	if err == nil {
		_, err = f.Readdirnames(1) // can it be read?
		_ = f.Close()
	}
	if err != nil && err != io.EOF {
		return nil, ioError("open", abs, "", err)
	}
	d := &driver{
		dir:     abs,
		opts:    opts,
		sys:     realSystem(),
		slots:   semaphore.NewWeighted(int64(opts.MaxOpen)),
		threads: make(map[checkpoint.ThreadID]*thread),
	}
	return &Store{engine.New(d, engine.Options{Writers: writers}), d}, nil
}

// acquire returns what is known of a thread, not locked yet.
func (d *driver) acquire(id checkpoint.ThreadID) (*thread, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, checkpoint.ErrClosed
	}
	t := d.threads[id]
	if t == nil {
		t = &thread{d: d, source: source{id: id, seed: seedOf(id), path: filepath.Join(d.dir, FileName(id))}, turn: semaphore.NewWeighted(1)}
		d.threads[id] = t
	}
	t.refs++
	return t, nil
}

// release gives a thread back, and puts some away if there are too many.
func (d *driver) release(t *thread) {
	var away []*thread
	d.mu.Lock()
	t.refs--
	if d.closed && t.refs == 0 {
		away = append(away, t)
	}
	if len(d.threads) > d.opts.MaxOpen {
		for id, old := range d.threads {
			if old.refs == 0 && old.undo == nil { // a thread with a failed append to take back is kept
				delete(d.threads, id)
				if away = append(away, old); len(d.threads) <= d.opts.MaxOpen {
					break
				}
			}
		}
	}
	d.mu.Unlock()
	for _, old := range away {
		old.forget() // nobody else can reach it
	}
}

// with runs f with a thread locked.
func (d *driver) with(ctx context.Context, id checkpoint.ThreadID, f func(t *thread) error) error {
	t, err := d.acquire(id)
	if err != nil {
		return err
	}
	defer d.release(t)
	if err := t.turn.Acquire(ctx, 1); err != nil {
		return err
	}
	defer t.turn.Release(1)
	return f(t)
}

// view runs f with a thread loaded; of one without a file nothing is known.
func (d *driver) view(ctx context.Context, id checkpoint.ThreadID, f func(t *thread, x *index) error) error {
	return d.with(ctx, id, func(t *thread) error {
		err := t.locked(ctx, false, false, func() error { return f(t, t.x) })
		if err == fs.ErrNotExist {
			return f(t, newIndex())
		}
		return err
	})
}

// Close implements [engine.Driver]. Calls that are under way end as usual.
func (d *driver) Close() error {
	d.mu.Lock()
	d.closed = true
	var idle []*thread
	for _, t := range d.threads {
		if t.refs == 0 {
			idle = append(idle, t)
		}
	}
	clear(d.threads)
	d.mu.Unlock()
	for _, t := range idle {
		t.forget()
	}
	return nil
}
