package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint/file"
)

// TestMain is the program itself where a test starts it.
func TestMain(m *testing.M) {
	if os.Getenv("TEST_DIGEST") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// A file whose result was recorded when the process died is never read again.
func TestADigestThatIsKilledReadsNoRecordedFileAgain(t *testing.T) {
	const files, kills = 80, 4
	texts := t.TempDir()
	for i := range files {
		text := fmt.Sprintf("# Text %d\n\n%s", i, strings.Repeat("word ", i))
		if err := os.WriteFile(filepath.Join(texts, fmt.Sprintf("%03d.md", i)), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	start := func(dir string) (*exec.Cmd, string) {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-threads", filepath.Join(dir, "threads"), "-out", filepath.Join(dir, "out.md"), "-pace", "5ms", texts)
		cmd.Env = append(os.Environ(), "TEST_DIGEST=1")
		cmd.Stdin = strings.NewReader("yes\n")
		trace := filepath.Join(dir, "trace")
		out, err := os.OpenFile(trace, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, trace
	}
	reads := func(trace string) (list []string) {
		data, err := os.ReadFile(trace)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			if path, ok := strings.CutPrefix(line, "read "); ok {
				list = append(list, path)
			}
		}
		return list
	}
	written := func(dir string) string {
		cmd, trace := start(dir)
		if err := cmd.Wait(); err != nil {
			data, _ := os.ReadFile(trace)
			t.Fatalf("%v\n%s", err, data)
		}
		data, err := os.ReadFile(filepath.Join(dir, "out.md"))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	recorded := func(dir string) (list []string) {
		store, err := file.Open(filepath.Join(dir, "threads"), file.Options{Recover: true})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		g, err := build(0, "", store)
		if err != nil {
			t.Fatal(err)
		}
		snap, err := g.Thread("digest:" + texts).State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for path := range snap.State.Notes.All() {
			list = append(list, path+"\n")
		}
		return list
	}
	calm, dir := t.TempDir(), t.TempDir()
	want := written(calm)
	trace := filepath.Join(dir, "trace")
	var had []string // results, when the run before was killed
	before := 0
	readAgain := func() {
		t.Helper()
		for _, path := range reads(trace)[before:] {
			if slices.Contains(had, path) {
				t.Errorf("%s was read again, though its result was recorded", path)
			}
		}
	}
	for i := range kills {
		cmd, _ := start(dir)
		for len(reads(trace)) < (i+1)*files/(kills+1) {
			time.Sleep(time.Millisecond)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		readAgain()
		had, before = recorded(dir), len(reads(trace))
		if len(had) == 0 {
			t.Fatal("nothing was recorded")
		}
	}
	if got := written(dir); got != want {
		t.Errorf("the overview is\n%s\nand of an undisturbed run\n%s", got, want)
	}
	readAgain()
	all := reads(trace)
	slices.Sort(all)
	if n := len(slices.Compact(all)); n != files {
		t.Errorf("%d of %d files were read", n, files)
	}
}
