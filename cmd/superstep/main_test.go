package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
	"github.com/superstep-dev/superstep/cmd/superstep/internal/digest"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
)

// program runs the tests and ends the servers that they shared.
type program struct{ *testing.M }

func (p program) Run() int {
	defer servertest.Stop()
	return p.M.Run()
}

func TestMain(m *testing.M) {
	testscript.Main(program{m}, map[string]func(){"superstep": func() { os.Exit(run()) }})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) < 2 {
					ts.Fatalf("usage: code N COMMAND ARGS...")
				}
				want, err := strconv.Atoi(args[0])
				ts.Check(err)
				got := 0
				var exit *exec.ExitError
				if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
					got = exit.ExitCode()
				} else {
					ts.Check(err)
				}
				if got != want {
					ts.Fatalf("exit code %d, want %d", got, want)
				}
			},
			"lines": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) != 2 {
					ts.Fatalf("usage: lines FILE N")
				}
				if got := strings.Count(ts.ReadFile(args[0]), "\n"); strconv.Itoa(got) != args[1] {
					ts.Fatalf("%s has %d lines, want %s", args[0], got, args[1])
				}
			},
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

// superstep returns a command that runs in dir.
func superstep(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "superstep", args...)
	cmd.Dir = dir
	// A model or store of whoever runs the tests is none of theirs.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "SUPERSTEP_") })
	return cmd
}

// generate makes a folder of n text files, some of them nearly the same, with
// links, and some that cannot be digested.
func generate(t *testing.T, n int) string {
	t.Helper()
	// The name is part of the report.
	root := filepath.Join(t.TempDir(), "texts")
	r := rand.New(rand.NewPCG(1, 2))
	words := make([]string, 400)
	for i := range words {
		b := make([]byte, 3+r.IntN(7))
		for k := range b {
			b[k] = byte('a' + r.IntN(26))
		}
		words[i] = string(b)
	}
	body := ""
	for i := range n {
		if i%9 != 0 || i == 0 { // each ninth file is like the one before
			var b strings.Builder
			for p := range 2 + r.IntN(4) {
				fmt.Fprintf(&b, "## Part %d\n\n", p)
				for range 20 + r.IntN(60) {
					b.WriteString(words[r.IntN(len(words))])
					b.WriteByte(' ')
				}
				b.WriteString("\n\n")
			}
			body = b.String()
		}
		text := fmt.Sprintf("# Text %d\n\nSee [the next](../d%d/t%04d.md).\n\n%s", i, (i+1)%5, i+1, body)
		write(t, filepath.Join(root, fmt.Sprintf("d%d", i%5), fmt.Sprintf("t%04d.md", i)), text)
	}
	write(t, filepath.Join(root, "picture.txt"), "\x89PNG\r\n\x1a\n\x00\x00")
	write(t, filepath.Join(root, "empty.md"), "")
	return root
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// recorded returns the files whose results are stored, in order.
func recorded(t *testing.T, db, root string) []string {
	t.Helper()
	store, err := sqlite.Open(db)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	snap, err := digestGraph().Thread("digest:"+root, graph.WithCheckpointer(store)).State(t.Context())
	if errors.Is(err, checkpoint.ErrNotFound) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, d := range snap.State.Docs.All() {
		ids = append(ids, d.ID)
	}
	return ids
}

// reads returns the lines of a trace.
func reads(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Fields(string(data))
}

var dateLine = regexp.MustCompile(`· Date: \d{4}-\d\d-\d\d`)

func report(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return dateLine.ReplaceAllString(string(data), "")
}

// TestKilled kills the digest of a folder with SIGKILL twenty-four times, at
// random moments of its work, and lets it go on each time. What is guaranteed:
//
//   - A file whose result was recorded when the process died is never read
//     again. Only files that were being read at that moment are: at most as
//     many a kill as files are read at a time.
//   - The report is the same as that of a run that nobody disturbed.
func TestKilled(t *testing.T) {
	const files, kills, atOnce = 240, 8, 3
	root := generate(t, files)
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		t.Fatal(err)
	}

	calm := t.TempDir()
	if out, err := superstep(t, calm, "demo", "digest", root, "--yes", "--trace", "trace").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := report(t, filepath.Join(calm, "texts-digest.md"))
	if got := reads(t, filepath.Join(calm, "trace")); len(got) != files+1 || len(unique(got)) != files+1 { // and the empty one
		t.Fatalf("an undisturbed run reads %d files, %d different ones; want %d", len(got), len(unique(got)), files+1)
	}

	dir := t.TempDir()
	trace, db, out := filepath.Join(dir, "trace"), filepath.Join(dir, "superstep.db"), filepath.Join(dir, "texts-digest.md")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	done := map[string]bool{} // recorded before the run
	killed := 0
	for killed < kills {
		before := len(reads(t, trace))
		args := []string{"demo", "digest", root, "--trace", "trace", "--concurrency", strconv.Itoa(atOnce)}
		if killed > kills-4 {
			args = append(args, "--yes")
		}
		cmd := superstep(t, dir, args...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }()
		// Most kills come after so many more files, a few at any time.
		target, pause := before+r.IntN(2*files/kills), time.Duration(0)
		if r.IntN(5) == 0 || len(done) > files {
			target, pause = 0, time.Duration(r.Int64N(int64(60*time.Millisecond)))
		}
		waitFor(ended, trace, target, pause)
		_ = cmd.Process.Kill() // it may have been faster: that is a moment, too
		<-ended
		killed++

		all := reads(t, trace)
		for _, id := range all[before:] {
			if done[id] {
				t.Fatalf("after kill %d: %s was read again though its result was recorded", killed, id)
			}
		}
		ids := recorded(t, db, real)
		if len(unique(ids)) != len(ids) {
			t.Fatalf("after kill %d: a result is there twice", killed)
		}
		now := map[string]bool{}
		for _, id := range ids {
			now[id] = true
		}
		for id := range done {
			if !now[id] {
				t.Fatalf("after kill %d: the result of %s is lost", killed, id)
			}
		}
		done = now
		if data, err := os.ReadFile(out); err == nil && dateLine.ReplaceAllString(string(data), "") != want {
			t.Fatalf("after kill %d: a part of the report is there", killed)
		}
	}
	if msg, err := superstep(t, dir, "demo", "digest", root, "--yes", "--trace", "trace").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, msg)
	}
	all := reads(t, trace)
	again := len(all) - len(unique(all))
	if got := report(t, out); got != want {
		t.Errorf("the report differs from that of an undisturbed run:\n%s", got)
	}
	if n := len(unique(all)); n != files+1 {
		t.Errorf("%d files were read, want %d", n, files+1)
	}
	if again > kills*atOnce {
		t.Errorf("%d files were read again, more than %d for each of %d kills", again, atOnce, kills)
	}
	t.Logf("%d kills while %d files were read at a time: %d files, %d reads more since a kill came before their result was recorded", killed, atOnce, files+1, again)

	// A last start says that all is done, and reads nothing.
	msg, err := superstep(t, dir, "demo", "digest", root, "--trace", "trace").CombinedOutput()
	if err != nil || !strings.Contains(string(msg), "is done") {
		t.Errorf("%v\n%s", err, msg)
	}
	if n := len(reads(t, trace)); n != len(all) {
		t.Errorf("%d files were read after the end", n-len(all))
	}
}

// waitFor returns when the process has ended, when the trace has that many
// lines, or after a pause if there is one.
func waitFor(ended <-chan struct{}, trace string, lines int, pause time.Duration) {
	if pause > 0 {
		select {
		case <-ended:
		case <-time.After(pause):
		}
		return
	}
	for {
		data, _ := os.ReadFile(trace)
		if bytes.Count(data, []byte("\n")) >= lines {
			return
		}
		select {
		case <-ended:
			return
		case <-time.After(200 * time.Microsecond):
		}
	}
}

func unique(list []string) []string {
	s := slices.Clone(list)
	slices.Sort(s)
	return slices.Compact(s)
}

func TestNodesByThemselves(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.md"), "# A\n\nSome words here.\n")
	write(t, filepath.Join(dir, "out.md"), "# The report of last time\n")
	s := &digestState{Folder: dir, Out: filepath.Join(dir, "out.md")}
	s.Earlier.Add(sum([]byte("# The report of last time\n")))
	if err := listFolder(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	if s.Files.Len() != 1 || s.Files.At(0).ID != "a.md" {
		t.Fatalf("listed %v, want a.md alone", s.Files)
	}
	src := s.Files.At(0).Source
	src.Root = dir
	doc, err := digest.Analyse(context.Background(), src)
	if err != nil {
		t.Fatal(err)
	}
	s.Docs.Add(doc)
	if err := analyseFile(context.Background(), s, 1); err == nil {
		t.Error("a file that isn't there is analysed")
	}
	if err := draftReport(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	if err := writeReport(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(s.Out)
	if err != nil || !strings.Contains(string(data), "a.md") || s.Outcome != outcomeWritten {
		t.Errorf("wrote %q, %v, %q", data, err, s.Outcome)
	}
}
