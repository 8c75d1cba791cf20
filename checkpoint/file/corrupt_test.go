package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"

	"github.com/superstep-dev/superstep/internal/race"
)

var contextBackground = context.Background()

// damaged makes a thread of three records and returns its file's bytes and
// where the last line starts.
func damaged(t *testing.T) (dir, path string, b []byte, last int, w *writer) {
	t.Helper()
	dir = t.TempDir()
	s := mustOpen(t, dir, Options{Sync: SyncNever})
	w = newWriter("t")
	for i := range 3 {
		w.add(t, s, fmt.Sprintf(`{"n":%d}`, i))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "t.jsonl")
	b = readFile(t, path)
	return dir, path, b, bytes.LastIndexByte(b[:len(b)-1], '\n') + 1, w
}

func TestEveryTruncationIsReportedAndRecoverable(t *testing.T) { // W7-31
	dir, path, b, last, w := damaged(t)
	ctx := t.Context()
	for cut := last + 1; cut < len(b); cut++ {
		writeFile(t, path, b[:cut])
		strict := mustOpen(t, dir, Options{Sync: SyncNever})
		_, _, err := strict.Head(ctx, w.log)
		wantCorrupt(t, err, "t.jsonl, line 3", int64(last))
		_, err = strict.Write(ctx, &checkpoint.Write{Log: w.log, Claim: true})
		wantCorrupt(t, err, "t.jsonl, line 3", int64(last))
		if got := readFile(t, path); !bytes.Equal(got, b[:cut]) {
			t.Fatal("a strict store changed a damaged file")
		}
		_ = strict.Close()

		side := path + ".damaged"
		_ = os.Remove(side)
		s := mustOpen(t, dir, Options{Sync: SyncNever, Recover: true})
		head, _, err := s.Head(ctx, w.log)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		want := int64(2)
		if cut == len(b)-1 {
			want = 3 // the line is whole, only its end is missing
		} else if !bytes.Contains(readFile(t, side), []byte(`"offset":`+fmt.Sprint(last))) {
			t.Fatal("the side file does not say where the bytes stood")
		}
		if head.Seq != want {
			t.Fatalf("cut at %d: head is record %d, want %d", cut, head.Seq, want)
		}
		n := &writer{log: w.log, run: checkpoint.NewRunID(), seq: head.Seq, head: head.ID}
		n.add(t, s, `"after"`)
		if got := shapes(t, path); int64(len(got)) != want+1 {
			t.Fatalf("cut at %d: %d lines, want %d", cut, len(got), want+1)
		}
		if !bytes.HasPrefix(readFile(t, path), b[:last]) {
			t.Fatal("earlier bytes changed")
		}
		_ = s.Close()
	}
	// Cut at the line's first byte, the file is a good one.
	writeFile(t, path, b[:last])
	s := mustOpen(t, dir, Options{})
	if head, _, err := s.Head(ctx, w.log); err != nil || head.Seq != 2 {
		t.Fatalf("head %v, %v", head, err)
	}
}

func TestEveryFlippedByteIsNoticed(t *testing.T) {
	dir, path, b, _, w := damaged(t)
	masks := []byte{0x20, 1, 0xff}
	if race.Enabled {
		masks = masks[:1]
	}
	for _, recover := range []bool{false, true} {
		for i := range b {
			for _, mask := range masks {
				bad := bytes.Clone(b)
				bad[i] ^= mask
				writeFile(t, path, bad)
				s := mustOpen(t, dir, Options{Sync: SyncNever, Recover: recover})
				n, err := count(s, w.log)
				_ = s.Close()
				if recover && i == len(b)-1 {
					// The end of the last line: nothing of it is lost.
					if err != nil || n != 3 {
						t.Fatalf("flipped end of file: %d records, %v", n, err)
					}
					continue
				}
				line := bytes.Count(b[:i], []byte("\n")) + 1
				start := bytes.LastIndexByte(b[:i], '\n') + 1
				wantCorrupt(t, err, fmt.Sprintf("t.jsonl, line %d", line), int64(start))
				if !bytes.Equal(readFile(t, path), bad) {
					t.Fatalf("byte %d: damage that is not an incomplete end was changed", i)
				}
			}
		}
	}
}

// A byte that changes after the file was indexed is noticed when it is read.
func TestDamageUnderAnOpenStoreIsNoticed(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{Sync: SyncNever})
	w := newWriter("t")
	first := w.add(t, s, `"one"`)
	w.add(t, s, `"two"`)
	path := filepath.Join(dir, "t.jsonl")
	b := readFile(t, path)
	b[bytes.Index(b, []byte("one"))] ^= 1
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	_, err = s.Get(t.Context(), w.log, first.ID)
	wantCorrupt(t, err, "t.jsonl, line 1", 0)
	if _, _, err := s.Head(t.Context(), w.log); err != nil {
		t.Fatalf("the other record: %v", err)
	}
}

func TestGarbageIsReportedWhereItStands(t *testing.T) {
	dir, path, b, last, w := damaged(t)
	mid := bytes.IndexByte(b, '\n') + 1
	for name, junk := range map[string]string{
		"an empty line":       "\n",
		"white space":         "  \n",
		"words":               "hello\n",
		"NULs":                strings.Repeat("\x00", 4096) + "\n",
		"another JSON":        `{"a":1}` + "\n",
		"a line twice":        string(b[:mid]),
		"a carriage return":   "\r\n",
		"a huge line":         strings.Repeat("x", 3<<20) + "\n",
		"a wrong checksum":    `{"seq":2,"crc":"00000000"}` + "\n",
		"half a line, closed": string(b[last:last+40]) + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			for _, recover := range []bool{false, true} {
				bad := string(b[:mid]) + junk + string(b[mid:])
				writeFile(t, path, []byte(bad))
				s := mustOpen(t, dir, Options{Sync: SyncNever, Recover: recover})
				_, _, err := s.Head(t.Context(), w.log)
				wantCorrupt(t, err, "t.jsonl, line 2", int64(mid))
				_ = s.Close()
				if string(readFile(t, path)) != bad {
					t.Fatal("the file was changed")
				}
			}
			if _, err := Repair(dir, "t"); !errors.Is(err, checkpoint.ErrCorrupt) {
				t.Fatalf("repair of damage in the middle: %v", err)
			}
		})
	}
	t.Run("a line missing in the middle", func(t *testing.T) {
		writeFile(t, path, append(bytes.Clone(b[:mid]), b[last:]...))
		_, _, err := mustOpen(t, dir, Options{Recover: true}).Head(t.Context(), w.log)
		wantCorrupt(t, err, "t.jsonl, line 2", int64(mid))
	})
	t.Run("NULs at the end", func(t *testing.T) {
		writeFile(t, path, append(bytes.Clone(b), make([]byte, 4096)...))
		_, _, err := mustOpen(t, dir, Options{}).Head(t.Context(), w.log)
		wantCorrupt(t, err, "t.jsonl, line 4", int64(len(b)))
		reps, err := Repair(dir, "t")
		if err != nil || len(reps) != 1 || reps[0].Moved != 4096 || reps[0].Line != 4 {
			t.Fatalf("%v, %v", reps, err)
		}
		if !bytes.Equal(readFile(t, path), b) {
			t.Fatal("repair did not restore the file")
		}
		if reps, err := Repair(dir, "t"); err != nil || len(reps) != 0 {
			t.Fatalf("second repair: %v, %v", reps, err)
		}
	})
	t.Run("an empty file", func(t *testing.T) {
		writeFile(t, path, nil)
		s := mustOpen(t, dir, Options{})
		if _, _, err := s.Head(t.Context(), w.log); !errors.Is(err, checkpoint.ErrNotFound) {
			t.Fatal(err)
		}
		newWriter("t").add(t, s, "1")
	})
}

func TestRepairOfAnUnknownThread(t *testing.T) {
	if _, err := Repair(t.TempDir(), "t"); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Fatal(err)
	}
	if _, err := Repair(t.TempDir(), ""); !errors.Is(err, checkpoint.ErrNoThread) {
		t.Fatal(err)
	}
}

// Lines that say what is written between checkpoints are as safe as theirs.
func TestDamageOfLinesWithoutACheckpoint(t *testing.T) {
	dir, path, b, _, w := damaged(t)
	s := mustOpen(t, dir, Options{})
	w.result(t, s, w.head, 0, `"a"`)
	w.result(t, s, w.head, 1, `"b"`)
	_ = s.Close()
	p := readFile(t, path)
	last := bytes.LastIndexByte(p[:len(p)-1], '\n') + 1
	ctx := t.Context()
	for cut := last + 1; cut < len(p); cut++ {
		writeFile(t, path, p[:cut])
		strict := mustOpen(t, dir, Options{})
		_, err := strict.Results(ctx, w.log, "", w.head)
		wantCorrupt(t, err, "t.jsonl, line 5", int64(last))
		_ = strict.Close()
		reps, err := Repair(dir, "t")
		if err != nil || len(reps) != 1 {
			t.Fatalf("%v, %v", reps, err)
		}
		s := mustOpen(t, dir, Options{})
		rs, err := s.Results(ctx, w.log, "", w.head)
		if want := 1 + btoi(cut == len(p)-1); err != nil || len(rs) != want {
			t.Fatalf("cut at %d: %d results, %v", cut, len(rs), err)
		}
		_ = s.Close()
	}
	for i := len(b); i < len(p); i++ {
		bad := bytes.Clone(p)
		bad[i] ^= 1
		writeFile(t, path, bad)
		s := mustOpen(t, dir, Options{})
		if _, _, err := s.Head(ctx, w.log); !errors.Is(err, checkpoint.ErrCorrupt) {
			t.Fatalf("flipped byte %d: %v", i, err)
		}
		_ = s.Close()
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestMovedFileIsAnError(t *testing.T) {
	dir, path, _, _, _ := damaged(t)
	if err := os.Rename(path, filepath.Join(dir, "u.jsonl")); err != nil {
		t.Fatal(err)
	}
	for _, opts := range []Options{{}, {Recover: true}} {
		s := mustOpen(t, dir, opts)
		_, _, err := s.Head(t.Context(), checkpoint.Log{Thread: "u"})
		wantCorrupt(t, err, "u.jsonl, line 1", 0)
		if !errors.Is(err, ErrThread) {
			t.Fatal(err)
		}
		if err := s.Delete(t.Context(), "u"); !errors.Is(err, ErrThread) {
			t.Fatalf("deleting another thread's file: %v", err)
		}
		for _, err := range s.Threads(t.Context(), checkpoint.ThreadFilter{}) {
			if !errors.Is(err, ErrThread) {
				t.Fatalf("listing: %v", err)
			}
		}
	}
}

// A line that was copied from another thread's file does not fit.
func TestForeignLineIsAnError(t *testing.T) {
	dir, path, b, last, w := damaged(t)
	s := mustOpen(t, dir, Options{Sync: SyncNever})
	other := newWriter("other")
	for range 3 {
		other.add(t, s, "1")
	}
	o := readFile(t, filepath.Join(dir, "other.jsonl"))
	writeFile(t, path, append(bytes.Clone(b[:last]), o[bytes.LastIndexByte(o[:len(o)-1], '\n')+1:]...))
	_, _, err := s.Head(t.Context(), w.log)
	wantCorrupt(t, err, "t.jsonl, line 3", int64(last))
}

func TestOtherFormatsAreRefused(t *testing.T) {
	dir := t.TempDir()
	id := checkpoint.ThreadID("t")
	line := func(body string) {
		writeFile(t, filepath.Join(dir, "t.jsonl"), append(seal(seedOf(id), []byte(body)), '\n'))
	}
	for name, c := range map[string]struct {
		version int
		fix     string
	}{"newer": {Version + 1, "update"}, "from before the first release": {Version - 1, "before the first release"}} {
		t.Run(name, func(t *testing.T) {
			line(fmt.Sprintf(`{"seq":1,"v":%d,"at":"2026-11-21T12:00:00Z","thread":"t","future":{},"q":1`, c.version))
			s := mustOpen(t, dir, Options{})
			_, _, err := s.Head(t.Context(), checkpoint.Log{Thread: id})
			var ve *VersionError
			if !errors.As(err, &ve) || !errors.Is(err, checkpoint.ErrVersion) || ve.Found != c.version {
				t.Fatalf("%v", err)
			}
			for _, text := range []string{fmt.Sprint("format ", ve.Found), fmt.Sprint("reads ", ve.Supported), c.fix} {
				if !strings.Contains(err.Error(), text) {
					t.Fatalf("%v does not say %q", err, text)
				}
			}
		})
	}
	t.Run("of format 6, which says it elsewhere", func(t *testing.T) {
		line(`{"seq":1,"at":"2026-11-21T12:00:00Z","v":6,"thread":"t","id":"x"`)
		_, _, err := mustOpen(t, dir, Options{}).Head(t.Context(), checkpoint.Log{Thread: id})
		var ve *VersionError
		if !errors.As(err, &ve) || ve.Found != 6 {
			t.Fatal(err)
		}
	})
	t.Run("of a record", func(t *testing.T) {
		line(`{"seq":1,"v":8,"at":"2026-11-21T12:00:00Z","thread":"t","id":"x","bytes":10,"v":9900`)
		_, _, err := mustOpen(t, dir, Options{}).Head(t.Context(), checkpoint.Log{Thread: id})
		if !errors.Is(err, checkpoint.ErrVersion) || !strings.Contains(err.Error(), "99.0") {
			t.Fatal(err)
		}
	})
}
