package file

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/engine"
)

// glance is what was last found out about a thread, and of which file. Of its header
// version and fence may be missing.
type glance struct {
	file   fs.FileInfo         // nil: nothing but whose it is
	thread checkpoint.ThreadID // empty: the file is
	header engine.Header
	head   engine.Row // of its own log, without data
	first  int64      // At of the oldest row there
}

// files returns the names of the threads' files.
func (d *driver) files() ([]string, error) {
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return nil, ioError("list", d.dir, "", err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), extMain) && e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// each calls f for all threads. A damaged file does not hide the others: its error comes
// last.
func (d *driver) each(ctx context.Context, f func(g *glance)) error {
	names, err := d.files()
	if err != nil {
		return err
	}
	var errs []error
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		g, err := d.look(ctx, name)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, checkpoint.ErrClosed):
			return err
		case err != nil:
			errs = append(errs, err)
		case g != nil && g.thread != "":
			seen[name] = true
			f(g)
		}
	}
	d.glances.Range(func(name, _ any) bool {
		if !seen[name.(string)] {
			d.glances.Delete(name)
		}
		return true
	})
	return errors.Join(errs...)
}

// look returns what is known of the thread of a file; nil if there is none. The file is
// read if it changed since the last look.
func (d *driver) look(ctx context.Context, name string) (*glance, error) {
	path := filepath.Join(d.dir, name)
	st, err := os.Stat(path) // before it is read: what is written meanwhile is read next time
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, ioError("stat", path, "", err)
	}
	if v, ok := d.glances.Load(name); ok {
		old := v.(*glance)
		// It only ever grows, or another takes its place.
		if old.file != nil && old.file.Size() == st.Size() && old.file.ModTime().Equal(st.ModTime()) && os.SameFile(old.file, st) {
			return old, nil
		}
	}
	g, err := d.read(ctx, path, name)
	if err != nil || g == nil {
		return nil, err
	}
	g.file = st
	d.glances.Store(name, g)
	return g, nil
}

func (d *driver) read(ctx context.Context, path, name string) (*glance, error) {
	id, err := d.owner(name)
	if err != nil || id == "" {
		return nil, err
	}
	t := &source{id: id, seed: seedOf(id), path: path}
	if f, err := os.Open(path); err == nil {
		t.f = f
		g, ok := t.glance()
		_ = f.Close()
		if ok {
			return g, nil
		}
	}
	g := &glance{thread: id}
	return g, d.view(ctx, id, func(t *thread, x *index) error {
		*g = glance{thread: id, header: x.header}
		lx := x.logs[""]
		if x.lines == 0 {
			g.thread = ""
		}
		if lx == nil || len(lx.rows) == 0 {
			return nil
		}
		first, err := t.row("", 0, true)
		if err == nil {
			g.first = first.At
			g.head, err = t.row("", len(lx.rows)-1, true)
		}
		return err
	})
}

// lookBack is how much of a file's end a glance reads at most.
const lookBack = 1 << 20

// glance tells of a thread what its first line and the last ones say. It gives up where
// that is not enough, or damaged: then the whole file is read.
func (t *source) glance() (*glance, bool) {
	st, err := t.f.Stat()
	if err != nil {
		return nil, false
	}
	first, oldest, ok := t.ends(newIndex(), 0, st.Size(), 1)
	if !ok {
		return nil, false
	}
	for size := int64(64 << 10); size <= lookBack; size *= 4 {
		x := newIndex()
		x.logs[""], x.end = &logIndex{graph: first.logs[""].graph}, true
		from := max(st.Size()-size, 0)
		if x, head, ok := t.ends(x, from, st.Size(), math.MaxInt); ok {
			return &glance{thread: t.id, header: x.header, head: head, first: oldest.At}, true
		}
		if from == 0 {
			break
		}
	}
	return nil, false
}

// ends reads at most so many lines between two offsets, from the first that leaves nothing
// out, and returns the newest record of the thread's own log there. It fails if one of them
// is damaged, or if there is none.
func (t *source) ends(x *index, from, end int64, most int) (*index, engine.Row, bool) {
	var head []byte
	sc := lines(t.f, from, end)
	if from > 0 {
		_, _, _ = sc.next() // it began before
	}
	for n := 0; n < most; {
		off := sc.off
		b, whole, err := sc.next()
		if err == io.EOF {
			break
		}
		if err != nil || !whole {
			return nil, engine.Row{}, false
		}
		if _, rest, _ := bytes.Cut(b, []byte(",")); n == 0 && !bytes.HasPrefix(rest, []byte(`"v":`)) {
			continue
		}
		line := int64(2)
		if off == 0 {
			line = 1
		}
		e, err := t.parse(x, b, line, off)
		if err != nil {
			return nil, engine.Row{}, false
		}
		if n == 0 {
			if off == 0 && !e.root() {
				return nil, engine.Row{}, false
			}
			if !e.root() {
				continue
			}
			x.lines = e.seq - 1
		}
		if x.apply(e, off, len(b)+1) != nil {
			return nil, engine.Row{}, false
		}
		if n++; e.root() {
			head = append(head[:0], b[:len(b)-crcLen]...)
		}
	}
	if head == nil {
		return nil, engine.Row{}, false
	}
	r, err := x.row(t.id, head, len(x.logs[""].rows)-1, true)
	return x, r, err == nil
}

// threadOf returns whose a file is by its first line; empty if it has none.
func (d *driver) threadOf(path string) (checkpoint.ThreadID, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil // deleted meanwhile
	}
	if err != nil {
		return "", ioError("open", path, "", err)
	}
	defer func() { _ = f.Close() }()
	b, whole, err := lines(f, 0, math.MaxInt64-1).next()
	if err == io.EOF || err == nil && !whole && d.opts.Recover {
		return "", nil
	}
	if err != nil {
		return "", ioError("read", path, "", err)
	}
	id, ok := ownerOf(b)
	switch {
	case ok:
		return id, nil
	case !whole:
		err = torn(b)
	default:
		err = errors.New("the first line does not name its thread")
	}
	return "", &checkpoint.CorruptError{Place: path + ", line 1", Offset: 0, Err: err}
}

// owner returns whose file it is by its name, if that says it, so that a damaged one can be read
// on; empty for one with nothing in it.
func (d *driver) owner(name string) (checkpoint.ThreadID, error) {
	if plain := checkpoint.ThreadID(strings.TrimSuffix(name, extMain)); FileName(plain) == name {
		return plain, nil
	}
	if v, ok := d.glances.Load(name); ok && v.(*glance).thread != "" { // names are never another's
		return v.(*glance).thread, nil
	}
	path := filepath.Join(d.dir, name)
	id, err := d.threadOf(path)
	if err != nil || id == "" {
		return "", err
	}
	if FileName(id) != name {
		t := source{id: id, path: path}
		return "", t.corrupt(1, 0, foreign(id))
	}
	d.glances.LoadOrStore(name, &glance{thread: id})
	return id, nil
}

// manyThreads is how many a list wants at most that does not want all. Each page takes a
// look at the whole directory.
const manyThreads = 255

// List implements [engine.Driver].
func (d *driver) List(ctx context.Context, q engine.ListQuery) (page []engine.Listed, below int64, more bool, err error) {
	var found []*glance
	err = d.each(ctx, func(g *glance) {
		if q.Takes(g.thread, &g.header) {
			found = append(found, g)
		}
	})
	slices.SortFunc(found, func(a, b *glance) int { return cmp.Compare(b.header.Minute, a.header.Minute) })
	below = q.Below
	for i, g := range found {
		if q.Prefix == "" && err == nil && i >= q.Want && q.Want <= manyThreads && g.header.Minute != below {
			more = true
			break
		}
		below = g.header.Minute
		page = append(page, engine.Listed{Thread: g.thread, Header: g.header, Head: g.head, First: g.first})
	}
	return page, below, more, err
}

// Waiting implements [engine.Driver]. All threads are one page, as all were looked at.
func (d *driver) Waiting(ctx context.Context, q engine.WaitQuery) (out []engine.Waiter, err error) {
	now := time.Now()
	err = d.each(ctx, func(g *glance) {
		if q.Takes(g.thread, &g.header) {
			out = append(out, engine.Waiter{Thread: g.thread, Header: g.header, Now: now})
		}
	})
	slices.SortFunc(out, q.Compare)
	return out, err
}

// Names implements [engine.Driver]. Files of which it isn't known whose they are Check
// tells of.
func (d *driver) Names(ctx context.Context, above checkpoint.ThreadID, most int) (out []checkpoint.ThreadID, err error) {
	names, err := d.files()
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		id, err := d.owner(name)
		if err != nil && !errors.Is(err, checkpoint.ErrCorrupt) {
			return nil, err
		}
		if id > above {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out[:min(len(out), most)], err
}

// Check implements [engine.Checker]: of the directory, that each file has an owner; of a
// thread, every line, however many of them are damaged.
func (d *driver) Check(ctx context.Context, id checkpoint.ThreadID, found func(*checkpoint.CorruptError)) error {
	if id == "" {
		names, err := d.files()
		for _, name := range names {
			var c *checkpoint.CorruptError
			if _, err := d.owner(name); errors.As(err, &c) {
				found(c)
			} else if err != nil {
				return err
			}
		}
		return err
	}
	err := d.with(ctx, id, func(t *thread) error {
		if err := d.slots.Acquire(ctx, 1); err != nil {
			return err
		}
		defer d.slots.Release(1)
		t.x = nil // it is read as it stands
		_, unlock, err := t.hold(ctx, false, false)
		if err != nil {
			return err
		}
		defer unlock()
		return t.check(ctx, found)
	})
	if err == fs.ErrNotExist {
		return nil
	}
	return err
}

func (t *source) check(ctx context.Context, found func(*checkpoint.CorruptError)) error {
	st, err := t.f.Stat()
	if err != nil {
		return t.fail("stat", err)
	}
	sc := lines(t.f, 0, st.Size())
	x, lost := newIndex(), false // lost: what lines say that could not be read isn't known
	var seq int64
	for n := int64(1); ; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		off := sc.off
		b, whole, err := sc.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return t.fail("read", err)
		}
		if !whole {
			err = t.corrupt(n, off, torn(b))
		} else if e, bad := t.parse(x, b, n, off); bad != nil {
			err = bad
		} else {
			if bad := x.apply(e, off, len(b)+1); bad != nil && !lost {
				err = t.corrupt(n, off, bad)
			} else if e.seq <= seq {
				err = t.corrupt(n, off, fmt.Errorf("line %d follows line %d", e.seq, seq))
			}
			seq = e.seq
		}
		var c *checkpoint.CorruptError
		if errors.As(err, &c) {
			lost = true
			found(c)
		} else if err != nil {
			return err
		}
	}
}
