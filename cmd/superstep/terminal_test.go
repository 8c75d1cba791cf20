//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/internal/console/consoletest"
)

func TestDigestInTerminal(t *testing.T) {
	root, dir := generate(t, 60), t.TempDir()
	open := func(args ...string) *consoletest.Terminal {
		t.Helper()
		return consoletest.Open(t, superstep(t, dir, append([]string{"demo", "digest", root, "--trace", "trace"}, args...)...))
	}
	out := filepath.Join(dir, "texts-digest.md")

	// The draft is shown; leaving lets it wait. What is typed before the question
	// appears is no answer to it.
	x := open()
	x.Type("y\n")
	x.Expect("# Digest of texts")
	x.Expect("more lines")
	x.Expect("Write this report to ")
	x.Expect("[y/n, v to view the rest] ")
	x.Type("hm\n")
	x.Expect("Please answer y or n.")
	x.Expect("[y/n, v to view the rest] ")
	x.Type("v\n")
	x.Expect("How this was counted")
	x.Expect("[y/n, v to view the rest] ")
	x.Type("\x03")
	x.Expect("The draft waits. To be asked again:")
	if code := x.End(); code != cli.ExitInterrupted {
		t.Errorf("exit code %d", code)
	}

	// Declined, and asked again.
	x = open()
	x.Expect("Going on: the digest of")
	x.Expect("has 62 of 62 files")
	x.Expect("[y/n, v to view the rest] ")
	x.Type("n\n")
	x.Expect("Nothing was written.")
	if code := x.End(); code != cli.ExitDone {
		t.Errorf("exit code %d", code)
	}
	if _, err := os.Stat(out); err == nil {
		t.Fatal("the report was written though it was declined")
	}
	x = open()
	x.Expect("Asking again")
	x.Expect("[y/n, v to view the rest] ")
	x.Type("y\n")
	x.Expect("texts-digest.md")
	if code := x.End(); code != cli.ExitDone {
		t.Errorf("exit code %d", code)
	}
	if text := report(t, out); !strings.HasPrefix(text, "# Digest of texts") {
		t.Errorf("the report is %q", text)
	}
	if n := len(reads(t, filepath.Join(dir, "trace"))); n != 61 {
		t.Errorf("%d files were read, want 61", n)
	}
}

func TestDigestAsksBeforeItReplacesAFile(t *testing.T) {
	root, dir := generate(t, 3), t.TempDir()
	out := filepath.Join(dir, "texts-digest.md")
	write(t, out, "notes\n")
	for _, answer := range []string{"n", "y"} {
		x := consoletest.Open(t, superstep(t, dir, "demo", "digest", root))
		x.Expect("this digest did not write it: replace it with this report? [y/n")
		x.Type(answer + "\n")
		if code := x.End(); code != cli.ExitDone {
			t.Errorf("exit code %d", code)
		}
		if text := report(t, out); strings.HasPrefix(text, "# Digest of texts") != (answer == "y") {
			t.Errorf("after %q the file is %q", answer, text)
		}
	}
}
