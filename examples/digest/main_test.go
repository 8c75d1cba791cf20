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
)

// TestMain is the program itself where a test starts it.
func TestMain(m *testing.M) {
	if os.Getenv("TEST_DIGEST") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// A file whose result was recorded when the process died is never read again: only those
// that were being read at that moment are, four at a time.
func TestADigestThatIsKilledReadsNoRecordedFileAgain(t *testing.T) {
	const files, kills, atOnce = 80, 4, 4
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
	calm, dir := t.TempDir(), t.TempDir()
	want := written(calm)
	for i := range kills {
		cmd, trace := start(dir)
		for len(reads(trace)) < (i+1)*files/(kills+1) {
			time.Sleep(time.Millisecond)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
	}
	if got := written(dir); got != want {
		t.Errorf("the overview is\n%s\nand of an undisturbed run\n%s", got, want)
	}
	all := reads(filepath.Join(dir, "trace"))
	again := len(all)
	slices.Sort(all)
	all = slices.Compact(all)
	if again -= len(all); len(all) != files || again > kills*atOnce {
		t.Errorf("%d of %d files were read, and %d read again by %d kills", len(all), files, again, kills)
	}
	t.Logf("%d files were read again", again)
}
