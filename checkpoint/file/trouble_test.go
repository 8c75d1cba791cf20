package file

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
)

// wantError checks that err says what failed, where and what helps.
func wantError(t *testing.T, err, cause error, path string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || !errors.Is(err, cause) {
		t.Fatalf("error is %v, want an Error wrapping %v", err, cause)
	}
	if e.Op == "" || e.Fix == "" || !strings.HasPrefix(e.Path, path) || !strings.Contains(err.Error(), e.Path) || !strings.Contains(err.Error(), e.Fix) {
		t.Fatalf("error does not say what, where and how to fix it: %#v", e)
	}
}

func TestFailedAppendLeavesTheFileAsItWas(t *testing.T) {
	boom := syscall.ENOSPC
	for name, breakIt := range map[string]func(sys *system){
		"nothing written": func(sys *system) {
			sys.writeAt = func(*os.File, []byte, int64) (int, error) { return 0, boom }
		},
		"half written": func(sys *system) {
			sys.writeAt = func(f *os.File, b []byte, off int64) (int, error) {
				n, _ := f.WriteAt(b[:len(b)/2], off)
				return n, boom
			}
		},
		"not synced":           func(sys *system) { sys.sync = func(*os.File) error { return boom } },
		"directory not synced": func(sys *system) { sys.syncDir = func(string) error { return boom } },
	} {
		for _, truncates := range []bool{true, false} {
			for _, result := range []bool{false, true} {
				t.Run(name, func(t *testing.T) {
					dir := t.TempDir()
					w := newWriter("t")
					setup := mustOpen(t, dir, Options{})
					w.add(t, setup, `"first"`)
					w.result(t, setup, w.head, 0, `"r0"`)
					_ = setup.Close()
					before := readFile(t, filepath.Join(dir, "t.jsonl"))

					s := mustOpen(t, dir, Options{})
					breakIt(&s.driver.sys)
					if !truncates {
						s.driver.sys.truncate = func(*os.File, int64) error { return syscall.EIO }
					}
					cw := &checkpoint.Write{Log: w.log, Record: w.next(`"second"`), Head: w.head}
					if result {
						cw = &checkpoint.Write{Log: w.log, Results: []checkpoint.Result{{Epoch: w.head, Task: 1, Kind: checkpoint.KindOnce}}}
					}
					_, err := s.Write(t.Context(), cw)
					wantError(t, err, boom, filepath.Join(s.driver.dir, "t."))
					for range 2 { // what failed is not seen, in the same store
						if head, _, err := s.Head(t.Context(), w.log); truncates && (err != nil || head.Seq != 1) {
							t.Fatalf("head after the failure: %v, %v", head, err)
						} else if !truncates && err == nil && head.Seq != 1 {
							t.Fatalf("a failed append is the head")
						}
					}
					if got := readFile(t, filepath.Join(dir, "t.jsonl")); truncates && !bytes.Equal(got, before) {
						t.Fatalf("it was changed: %q, was %q", got, before)
					}
					s.driver.sys = realSystem() // the disk has space again
					if _, err := s.Write(t.Context(), cw); err != nil {
						t.Fatal(err)
					}
					_ = s.Close()
					s = mustOpen(t, dir, Options{})
					n, err := count(s, w.log)
					rs, rerr := s.Results(t.Context(), w.log, "", w.head)
					if err != nil || rerr != nil || n+int64(len(rs)) != 3 {
						t.Fatalf("%d records, %d results, %v, %v", n, len(rs), err, rerr)
					}
				})
			}
		}
	}
}

func TestFirstWriteThatFailsLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	s.driver.sys.writeAt = func(*os.File, []byte, int64) (int, error) { return 0, syscall.ENOSPC }
	w := newWriter("t")
	for _, cw := range []*checkpoint.Write{{Log: w.log, Record: w.next("1")}, {Log: w.log, Claim: true}} {
		if _, err := s.Write(t.Context(), cw); !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		if names, _ := os.ReadDir(dir); len(names) > 0 {
			t.Fatalf("left behind: %v", names)
		}
	}
}

func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := mountTiny(dir); err != nil {
		t.Skipf("no small disk to be had: %v", err)
	}
	t.Cleanup(func() { _ = unmount(dir) })
	s := mustOpen(t, dir, Options{})
	w := newWriter("t")
	var err error
	for range 100 {
		r := w.next(text1k(5000))
		if _, err = s.Write(t.Context(), &checkpoint.Write{Log: w.log, Record: r, Head: w.head}); err != nil {
			break
		}
		w.wrote(r)
	}
	wantError(t, err, syscall.ENOSPC, filepath.Join(dir, "t.jsonl"))
	if n, err := count(s, w.log); err != nil || n != w.seq || n == 0 {
		t.Fatalf("%d records of %d, %v", n, w.seq, err)
	}
	if len(shapes(t, filepath.Join(dir, "t.jsonl"))) != int(w.seq) {
		t.Fatal("the file has another number of lines")
	}
	other := newWriter("other")
	if _, err := s.Write(t.Context(), &checkpoint.Write{Log: other.log, Record: other.next(text1k(9000))}); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := s.Copy(t.Context(), "t", "copy"); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if _, _, err := s.Head(t.Context(), checkpoint.Log{Thread: "copy"}); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Fatalf("half a copy is there: %v", err)
	}
	if err := s.Delete(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	other.add(t, s, text1k(9000))
}

func TestDirectoryThatIsAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	writeFile(t, path, nil)
	_, err := Open(path, Options{})
	wantError(t, err, syscall.ENOTDIR, path)
	_, err = Open(filepath.Join(path, "sub"), Options{})
	wantError(t, err, syscall.ENOTDIR, path)
}

func TestThreadFileThatIsADirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "t.jsonl"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, dir, Options{})
	_, _, err := s.Head(t.Context(), checkpoint.Log{Thread: "t"})
	wantError(t, err, syscall.EISDIR, filepath.Join(dir, "t.jsonl"))
}

func TestDirectoryRemovedUnderneath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	s := mustOpen(t, dir, Options{})
	w := newWriter("t")
	w.add(t, s, "1")
	if err := os.Rename(dir, dir+"2"); err != nil {
		t.Fatal(err)
	}
	_, _, err := s.Head(t.Context(), w.log)
	wantError(t, err, fs.ErrNotExist, dir)
	_, err = s.Write(t.Context(), &checkpoint.Write{Log: w.log, Record: w.next("2"), Head: w.head})
	wantError(t, err, fs.ErrNotExist, dir)
	for _, err := range s.Threads(t.Context(), checkpoint.ThreadFilter{}) {
		wantError(t, err, fs.ErrNotExist, dir)
	}
	if err := s.Delete(t.Context(), "t"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if err := os.Rename(dir+"2", dir); err != nil { // put back
		t.Fatal(err)
	}
	w.add(t, s, "2")
}

func TestFileDeletedUnderneath(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	w := newWriter("t")
	w.add(t, s, "1")
	w.result(t, s, w.head, 0, "1")
	if err := os.Remove(filepath.Join(dir, "t.jsonl")); err != nil {
		t.Fatal(err)
	}
	_, err := s.Write(t.Context(), &checkpoint.Write{Log: w.log, Record: w.next("2"), Head: w.head})
	if !errors.Is(err, checkpoint.ErrConflict) || !strings.Contains(err.Error(), "head none") {
		t.Fatalf("write to a thread whose file is gone: %v", err)
	}
	if _, _, err := s.Head(t.Context(), w.log); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Fatal(err)
	}
	rs, err := s.Results(t.Context(), w.log, "", w.head)
	if err != nil || len(rs) != 0 {
		t.Fatalf("results of a deleted thread: %v, %v", rs, err)
	}
	newWriter("t").add(t, s, "1") // a thread of that name starts anew
	if rs, err := s.Results(t.Context(), w.log, "", w.head); err != nil || len(rs) != 0 {
		t.Fatalf("the old thread's results stay: %v, %v", rs, err)
	}
}

// asNobody runs f without the rights of the super-user.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	back, err := dropRights()
	if err != nil {
		t.Skip(err)
	}
	defer back()
	f()
}

func TestReadOnlyDirectory(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	w := newWriter("t")
	w.add(t, s, "1")
	_ = s.Close()
	path := filepath.Join(dir, "t.jsonl")
	for p, mode := range map[string]os.FileMode{path: 0o444, dir: 0o555, filepath.Dir(dir): 0o755} {
		if err := os.Chmod(p, mode); err != nil {
			t.Fatal(err)
		}
	}
	asNobody(t, func() {
		s := mustOpen(t, dir, Options{})
		if head, _, err := s.Head(t.Context(), w.log); err != nil || head.Seq != 1 {
			t.Fatalf("reading: %v, %v", head, err)
		}
		_, err := s.Write(t.Context(), &checkpoint.Write{Log: w.log, Record: w.next("2"), Head: w.head})
		wantError(t, err, fs.ErrPermission, path)
		if !errors.Is(err, ErrReadOnly) {
			t.Fatal(err)
		}
		_, err = s.Write(t.Context(), &checkpoint.Write{Log: checkpoint.Log{Thread: "new"}, Claim: true})
		wantError(t, err, fs.ErrPermission, dir)
		wantError(t, s.Delete(t.Context(), "t"), fs.ErrPermission, path)
		wantError(t, s.Copy(t.Context(), "t", "u"), fs.ErrPermission, dir)
		if _, err := Repair(dir, "t"); !errors.Is(err, ErrReadOnly) {
			t.Fatal(err)
		}
	})
	if err := os.Chmod(path, 0o000); err != nil {
		t.Fatal(err)
	}
	asNobody(t, func() {
		_, _, err := mustOpen(t, dir, Options{}).Head(t.Context(), w.log)
		wantError(t, err, fs.ErrPermission, path)
		_, err = Open(filepath.Join(dir, "sub"), Options{})
		wantError(t, err, fs.ErrPermission, dir)
	})
}

func TestCanceledWriteOfAWaitingStoreHappensNotAtAll(t *testing.T) {
	dir := t.TempDir()
	a, b := mustOpen(t, dir, Options{}), mustOpen(t, dir, Options{})
	w := newWriter("t")
	w.add(t, a, "1")
	err := a.driver.with(t.Context(), "t", func(th *thread) error {
		return th.locked(t.Context(), true, false, func() error {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, err := b.Write(ctx, &checkpoint.Write{Log: w.log, Record: w.next("2"), Head: w.head})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("canceled write: %v", err)
			}
			ctx, cancel = context.WithTimeout(t.Context(), 1)
			defer cancel()
			if _, err := b.Write(ctx, &checkpoint.Write{Log: w.log, Record: w.next("2"), Head: w.head}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("write that waits: %v", err)
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	w.add(t, b, "2")
}
