package file

import (
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

	"github.com/superstep-dev/superstep/checkpoint"
)

// Verify implements [checkpoint.Verifier]. It reads every line of the files,
// however many of them are damaged, one thread after the other; nobody writes to
// a thread meanwhile.
func (s *Store) Verify(ctx context.Context, thread checkpoint.ThreadID) iter.Seq2[*checkpoint.CorruptError, error] {
	return func(yield func(*checkpoint.CorruptError, error) bool) {
		// one yields what is wrong with a thread and reports whether to go on.
		one := func(id checkpoint.ThreadID) bool {
			found, err := s.verify(ctx, id)
			for _, c := range found {
				if !yield(c, nil) {
					return false
				}
			}
			if err != nil {
				yield(nil, err)
			}
			return err == nil
		}
		if thread != "" {
			one(thread)
			return
		}
		if err := s.start(ctx, "all"); err != nil {
			yield(nil, err)
			return
		}
		entries, err := os.ReadDir(s.dir)
		if err != nil {
			yield(nil, ioError("list", s.dir, "", err))
			return
		}
		for _, e := range entries {
			if !strings.HasSuffix(e.Name(), extMain) || !e.Type().IsRegular() {
				continue
			}
			id, bad, err := s.owner(e.Name())
			switch {
			case err != nil:
				yield(nil, err)
				return
			case bad != nil:
				if !yield(bad, nil) {
					return
				}
			case id != "" && !one(id):
				return
			}
		}
	}
}

// owner returns whose file it is by its name, so that a damaged one can be read
// on; empty for one with nothing in it.
func (s *Store) owner(name string) (id checkpoint.ThreadID, bad *checkpoint.CorruptError, err error) {
	path := filepath.Join(s.dir, name)
	id, err = s.threadOf(path)
	if err == errNoLine {
		if id, err = s.threadOf(strings.TrimSuffix(path, extMain) + extPending); err == errNoLine {
			return "", nil, nil
		}
	}
	if err == nil && FileName(id) == name {
		return id, nil, nil
	}
	if plain := checkpoint.ThreadID(strings.TrimSuffix(name, extMain)); FileName(plain) == name {
		return plain, nil, nil
	}
	if err == nil {
		t := thread{id: id}
		err = t.corrupt(&log{path: path}, 1, 0, t.foreign(string(id)))
	}
	if errors.As(err, &bad) {
		return "", bad, nil
	}
	return "", nil, err
}

func (s *Store) verify(ctx context.Context, id checkpoint.ThreadID) (found []*checkpoint.CorruptError, err error) {
	if err := s.start(ctx, id); err != nil {
		return nil, err
	}
	err = s.with(ctx, id, func(t *thread) error {
		if err := s.slots.take(ctx); err != nil {
			return err
		}
		defer s.slots.give()
		for {
			if _, err := t.open(false); err != nil {
				return err
			}
			unlock, err := lockFile(ctx, t.main.f, t.base, false)
			if err != nil {
				return t.fail("lock", &t.main, err)
			}
			same, err := t.same()
			if err == nil && same {
				v := verifier{t: t, x: newIndex()}
				err = v.run(ctx)
				found = v.found
			}
			unlock()
			if err != nil || same {
				return err
			}
			t.forget()
		}
	})
	if err == fs.ErrNotExist {
		return nil, nil
	}
	return found, err
}

// verifier reads the files of one thread and collects what is wrong.
type verifier struct {
	t     *thread
	x     *index
	found []*checkpoint.CorruptError
	lost  bool // lines could not be read: what others say of them is not known
}

// add takes in a finding; other errors are returned.
func (v *verifier) add(err error) error {
	var c *checkpoint.CorruptError
	if !errors.As(err, &c) {
		return err
	}
	v.found = append(v.found, c)
	return nil
}

func (v *verifier) run(ctx context.Context) error {
	main := log{path: v.t.main.path}
	if err := v.file(ctx, v.t.main.f, &main, func(h *head, body []byte, off int64, n int) error {
		if v.lost {
			// Nobody knows how many records, and which logs, the lost lines began.
			v.x.seq, v.x.skipped = h.seq-h.skip-1, v.x.skipped+h.seq
			h.short = nil // what it leaves out may have stood there
			if h.ns != nil && h.log == len(v.x.numbered)+1 || h.log <= len(v.x.numbered) && h.ns == nil {
				if err := v.x.addMain(h, off, n); err != nil {
					return err
				}
			}
		} else if err := v.x.addMain(h, off, n); err != nil {
			return err
		}
		if !h.is {
			return nil
		}
		_, err := decodeRecord(body, checkpoint.Log{Thread: v.t.id}, before{})
		return err
	}); err != nil {
		return err
	}
	f, err := os.Open(v.t.pend.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return v.t.fail("open", &v.t.pend, err)
	}
	defer func() { _ = f.Close() }()
	pend, ahead := log{path: v.t.pend.path}, false
	lost := v.lost
	v.lost = false
	return v.file(ctx, f, &pend, func(h *head, _ []byte, off int64, n int) error {
		if main.lines == 0 && h.after > 0 && !lost {
			return nil // left over from a deletion
		}
		if v.lost {
			v.x.pending = h.seq - 1
		}
		if err := v.x.addPending(h, off, n); err != nil {
			return err
		}
		if h.after > main.lines && !ahead && !lost {
			ahead = true
			c := v.t.corrupt(&main, main.place(), main.size, fmt.Errorf("%w (%s, line %d, was written after line %d)",
				errCutAfterEnd, pend.path, pend.place(), h.after))
			return v.add(c)
		}
		return nil
	})
}

// file reads all lines of a file. What take says of a line is a finding.
func (v *verifier) file(ctx context.Context, f *os.File, l *log, take func(h *head, body []byte, off int64, n int) error) error {
	st, err := f.Stat()
	if err != nil {
		return v.t.fail("stat", l, err)
	}
	sc := scanner{f: f, end: st.Size()}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		off := sc.off
		b, whole, err := sc.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return v.t.fail("read", l, err)
		}
		l.size = sc.off
		if !whole {
			return v.add(v.t.corrupt(l, l.place(), off, fmt.Errorf("%w: %d bytes without an end of line; file.Repair or Options.Recover puts them aside", errIncomplete, len(b))))
		}
		h, err := v.t.parse(l, b, off)
		if err != nil {
			if err := v.add(err); err != nil {
				return err
			}
			l.lines++
			v.lost = true
			continue
		}
		body := b[:len(b)-crcLen]
		err = take(&h, body, off, len(b)+1)
		if err == nil && len(h.results) > 0 {
			_, err = decodeResults(slices.Clone(b))
		}
		if errors.Is(err, checkpoint.ErrVersion) {
			return fmt.Errorf("%s, line %d: %w", l.path, l.place(), err)
		}
		if err != nil {
			if !json.Valid(b) {
				err = fmt.Errorf("%w: %w", errNotALine, err)
			}
			if err := v.add(v.t.corrupt(l, l.place(), off, err)); err != nil {
				return err
			}
			v.lost = true
		}
		// Lines count on from what this one says, but their place in the file
		// from those that were read.
		at := l.place()
		l.lines = h.seq
		l.skipped = h.seq - at
	}
}
