package file

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
)

// waiting is what was last found out about a thread, and of which files.
type waiting struct {
	main, pend fs.FileInfo // pend is nil if there is no companion
	id         checkpoint.ThreadID
	due        time.Time
	lease      checkpoint.Lease
}

// Due implements [checkpoint.Scheduler]. It looks at all files of the directory,
// and reads those that changed since they were last looked at: that is meant for
// thousands of threads, not for millions. A damaged file does not hide the
// others: its error comes last.
func (s *Store) Due(ctx context.Context, before time.Time, limit int) iter.Seq2[checkpoint.Waiting, error] {
	return s.wait(ctx, limit, func(w *waiting) bool {
		return !w.due.IsZero() && (before.IsZero() || !w.due.After(before)) && !w.lease.Live(time.Now())
	})
}

// Abandoned implements [checkpoint.Scheduler], as Due does.
func (s *Store) Abandoned(ctx context.Context, limit int) iter.Seq2[checkpoint.Waiting, error] {
	return s.wait(ctx, limit, func(w *waiting) bool { return w.lease.Holder != "" && !w.lease.Live(time.Now()) })
}

func (s *Store) wait(ctx context.Context, limit int, want func(w *waiting) bool) iter.Seq2[checkpoint.Waiting, error] {
	return func(yield func(checkpoint.Waiting, error) bool) {
		list, bad := s.poll(ctx, want)
		for i, w := range list {
			if limit > 0 && i == limit {
				return
			}
			if err := s.start(ctx, w.Thread); err != nil {
				yield(checkpoint.Waiting{}, err)
				return
			}
			if !yield(w, nil) {
				return
			}
		}
		if bad != nil {
			yield(checkpoint.Waiting{}, bad)
		}
	}
}

// poll returns the threads that want takes, the earliest due first, and what
// went wrong.
func (s *Store) poll(ctx context.Context, want func(w *waiting) bool) (list []checkpoint.Waiting, bad error) {
	if err := s.start(ctx, "all"); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, ioError("list", s.dir, "", err)
	}
	var errs []error
	seen := make(map[string]bool, len(entries))
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), extMain) || !e.Type().IsRegular() {
			continue
		}
		w, err := s.look(ctx, e.Name())
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, checkpoint.ErrClosed):
			return nil, err
		case err != nil:
			errs = append(errs, err)
		case w != nil:
			seen[e.Name()] = true
			if want(w) {
				list = append(list, checkpoint.Waiting{Thread: w.id, Due: w.due, Lease: w.lease})
			}
		}
	}
	s.waits.Range(func(name, _ any) bool {
		if !seen[name.(string)] {
			s.waits.Delete(name)
		}
		return true
	})
	slices.SortFunc(list, func(a, b checkpoint.Waiting) int {
		return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.Thread, b.Thread))
	})
	return list, errors.Join(errs...)
}

// look returns what is known of the thread of a file; nil if there is none.
func (s *Store) look(ctx context.Context, name string) (*waiting, error) {
	path := filepath.Join(s.dir, name)
	pending := strings.TrimSuffix(path, extMain) + extPending
	// Before the files are read: what is written meanwhile is read next time.
	w := new(waiting)
	for _, f := range []struct {
		path string
		into *fs.FileInfo
	}{{path, &w.main}, {pending, &w.pend}} {
		st, err := os.Stat(f.path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, ioError("stat", f.path, "", err)
		}
		if err == nil {
			*f.into = st
		}
	}
	if w.main == nil {
		return nil, nil
	}
	if v, ok := s.waits.Load(name); ok {
		if old := v.(*waiting); unchanged(old.main, w.main) && unchanged(old.pend, w.pend) {
			return old, nil
		}
	}
	var err error
	w.id, err = s.threadOf(path)
	if err == errNoLine {
		w.id, err = s.threadOf(pending) // leased or woken before its first record
	}
	if err == errNoLine {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if FileName(w.id) != name {
		t := thread{id: w.id}
		return nil, t.corrupt(&log{path: path}, 1, 0, t.foreign(string(w.id)))
	}
	if _, x, ok := s.glance(path, w.id); ok {
		w.due, w.lease = x.dueAt(), x.lease
	} else if err := s.view(ctx, w.id, func(_ *thread, x *index) error {
		w.due, w.lease = x.dueAt(), x.lease
		return nil
	}); err != nil {
		return nil, err
	}
	s.waits.Store(name, w)
	return w, nil
}

// unchanged reports whether two looks at a path saw the same file: it only ever
// grows, or another takes its place.
func unchanged(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && os.SameFile(a, b)
}
