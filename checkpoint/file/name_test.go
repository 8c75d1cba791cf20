package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"pgregory.net/rapid"
)

func TestFileNames(t *testing.T) { // W7-29
	for id, want := range map[string]string{
		"t-1":                                  "t-1.jsonl",
		"0192f3c4-1111-7222-8333-444455556666": "0192f3c4-1111-7222-8333-444455556666.jsonl",
		"a_b":                                  "a_b.jsonl",
		"a b.c":                                "a b.c.jsonl",
		"🙂":                                    "🙂.jsonl",
		"会话":                                   "会话.jsonl",
		"user/1":                               "user_1~*",
		"a:b":                                  "a_b~*",
		"a/b":                                  "a_b~*",
		"../../etc/x":                          "_.._etc_x~*",
		"..":                                   "thread-*",
		"":                                     "thread-*",
		" . ":                                  "thread-*",
		"con":                                  "_con~*",
		"con.txt":                              "_con.txt~*",
		"lpt1":                                 "_lpt1~*",
		"ABC":                                  "ABC~*",
		"é":                                    "é~*",
		".hidden":                              "hidden~*",
		"dot.":                                 "dot~*",
		"a\x00b":                               "a_b~*",
		"a\xffb":                               "a_b~*",
		"x~0123456789ab":                       "x~0123456789ab~*",
		"thread-0123456789ab":                  "thread-0123456789ab~*",
		strings.Repeat("x", 300):               strings.Repeat("x", 100) + "~*",
		strings.Repeat("x", 100):               strings.Repeat("x", 100) + ".jsonl",
	} {
		got := FileName(checkpoint.ThreadID(id))
		prefix, hashed := strings.CutSuffix(want, "*")
		if hashed && (!strings.HasPrefix(got, prefix) || len(got) != len(prefix)+12+len(".jsonl")) || !hashed && got != want {
			t.Errorf("file of thread %q is %q, want %q", id, got, want)
		}
	}
}

func TestNamesAreSafeAndApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gen := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-cA-C./:~ ]{0,6}`), rapid.StringMatching(`(con|nul|com1|thread-|x~)[0-9a-f.]{0,13}`))
		a, b := gen.Draw(t, "a"), gen.Draw(t, "b")
		x, y := FileName(checkpoint.ThreadID(a)), FileName(checkpoint.ThreadID(b))
		if a != b && strings.EqualFold(x, y) {
			t.Fatalf("threads %q and %q share file %q", a, b, x)
		}
		if !fs.ValidPath(x) || filepath.Base(x) != x || strings.ContainsAny(x, `/\:*?"<>|`) || len(x) > 140 || strings.HasPrefix(x, ".") || reserved(x) {
			t.Fatalf("thread %q has file %q", a, x)
		}
	})
}

func TestThreadsWithOddNamesHaveTheirOwnFiles(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, filepath.Join(dir, "in"), Options{Sync: SyncNever})
	ids := []string{"user/1", "..", "con", strings.Repeat("é", 150), "🙂", "a:b", "a/b", "a_b", "A_B", "../../etc/x", "t\xff", "t\xfe"}
	for round := range 3 {
		for _, id := range ids {
			path := filepath.Join(dir, "in", FileName(checkpoint.ThreadID(id)))
			before, err := os.ReadFile(path)
			if err != nil && (!errors.Is(err, fs.ErrNotExist) || round > 0) {
				t.Fatal(err)
			}
			w := newWriter(id)
			if head, _, err := s.Head(t.Context(), w.log); err == nil {
				w.seq, w.head = head.Seq, head.ID
			}
			w.add(t, s, "1")
			if got := readFile(t, path); !strings.HasPrefix(string(got), string(before)) {
				t.Fatal("earlier bytes of the file changed")
			}
			if n := len(shapes(t, path)); n != round+1 {
				t.Fatalf("thread %q has %d lines in round %d", id, n, round)
			}
		}
	}
	if names, _ := os.ReadDir(dir); len(names) != 1 {
		t.Fatalf("something was written outside: %v", names)
	}
	seen := map[string]bool{}
	for info, err := range s.Threads(t.Context(), checkpoint.ThreadFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		seen[string(info.Thread)] = true
	}
	if len(seen) != len(ids) {
		t.Fatalf("%d threads are listed of %d", len(seen), len(ids))
	}
}
