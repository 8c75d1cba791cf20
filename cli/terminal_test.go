//go:build unix

package cli_test

import (
	"bytes"
	"context"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/internal/console/consoletest"
)

// openTerminal runs a program in a terminal.
func openTerminal(t *testing.T, dir, name string, args ...string) *consoletest.Terminal {
	t.Helper()
	return consoletest.Open(t, program(t, dir, name, args...))
}

func TestPromptsInTerminal(t *testing.T) {
	dir := t.TempDir()
	x := openTerminal(t, dir, "flow", "run", "jokes", "-t", "t-1", "--input", `{"topic": "cats"}`, "-i")
	x.Expect("✓ write")
	x.Expect("? review")
	x.Expect(`Question "like" of node review:`)
	x.Expect("cats no. 1")
	x.Expect("Yes or no? [y/n] ")
	x.Type("perhaps\n")
	x.Expect(`"perhaps" is not true or false`)
	x.Expect("Yes or no? [y/n] ")
	x.Type("n\n")
	x.Expect("cats no. 2")
	x.Expect("[y/n] ")
	x.Type("yes\n")
	x.Expect("done after 4 steps")
	x.End(cli.ExitDone)

	// Several questions, a text, and an answer in JSON.
	if out, err := program(t, dir, "flow", "run", "pair", "-t", "p").CombinedOutput(); !strings.Contains(string(out), "Answer with") {
		t.Fatalf("%v\n%s", err, out)
	}
	x = openTerminal(t, dir, "flow", "resume", "-t", "p")
	x.Expect(`[1/2] Question "price"`)
	x.Expect("Answer (a number): ")
	x.Type("\n")
	x.Expect("Answer (a number): ")
	x.Type("12.5\n")
	x.Expect(`[2/2] Question "note"`)
	x.Expect("Answer: ")
	x.Type("to the best\n")
	x.Expect("to the best")
	x.Expect("note   to the best")
	x.End(cli.ExitDone)
}

func TestPromptIsLeft(t *testing.T) {
	dir := t.TempDir()
	for name, keys := range map[string]string{"Ctrl-C": "\x03", "Ctrl-D": "\x04"} {
		x := openTerminal(t, dir, "flow", "run", "jokes", "-t", name, "-i")
		x.Expect("[y/n] ")
		x.Type(keys)
		x.Expect("Answer with:")
		x.End(cli.ExitInterrupted)
	}
}

func TestDeleteAsks(t *testing.T) {
	dir := t.TempDir()
	if err := program(t, dir, "flow", "run", "fan", "-t", "f").Run(); err != nil {
		t.Fatal(err)
	}
	x := openTerminal(t, dir, "flow", "delete", "-t", "f")
	x.Expect(`Delete thread "f" with its history? [y/n] `)
	x.Type("no\n")
	x.Expect("Nothing was deleted.")
	x.End(cli.ExitError)
	x = openTerminal(t, dir, "flow", "delete", "-t", "f")
	x.Expect("[y/n] ")
	x.Type("y\n")
	x.Expect("Deleted thread f.")
	x.End(cli.ExitDone)
}

func TestProgressInTerminal(t *testing.T) {
	dir := t.TempDir()
	x := openTerminal(t, dir, "flow", "run", "slow", "-t", "s")
	x.Expect("step 1: first")
	x.Type("\x03")
	x.Expect("Stopping at the end of this step. Press Ctrl-C again to stop at once.")
	x.Type("\x03")
	x.Expect("Stopping now.")
	x.Expect("Stopped. Go on with:")
	x.Expect("flow continue slow")
	x.End(cli.ExitStopped)
	// A picture isn't shown in a terminal.
	x = openTerminal(t, dir, "flow", "draw", "jokes", "-f", "png")
	x.Expect("write it to a file: -o jokes.png")
	x.End(cli.ExitUsage)
}

func TestSignals(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		dir := t.TempDir()
		// The first signal: the step is finished, and nothing after it.
		cmd := program(t, dir, "flow", "run", "slow", "-t", "s", "--json")
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		said, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = io.MultiWriter(&errs, w)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		await(t, filepath.Join(dir, "started"))
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if _, err := said.Read(make([]byte, 64)); err != nil { // it was heard
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o666); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		said.Close()
		w.Close()
		if code := cmd.ProcessState.ExitCode(); code != cli.ExitStopped {
			t.Errorf("%v: exit code %d\n%s%s", signal, code, out.String(), errs.String())
		}
		if !strings.Contains(out.String(), `"First": true`) || !strings.Contains(out.String(), `"Second": false`) {
			t.Errorf("%v: drained to\n%s", signal, out.String())
		}
		if out, err := program(t, dir, "flow", "continue", "-t", "s", "--json").CombinedOutput(); err != nil || !strings.Contains(string(out), `"Second": true`) {
			t.Errorf("%v: continue: %v\n%s", signal, err, out)
		}
	}
}

// A call that may be answered in its place or rejected, here and over a server.
func TestChatRespondsInTerminal(t *testing.T) {
	dir := t.TempDir()
	s, err := newServer(t.Context(), filepath.Join(dir, "s.db"))
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s)
	defer func() {
		web.CloseClientConnections()
		web.Close()
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	for _, place := range [][]string{{"talker"}, {web.URL, "--graph", "talker"}} {
		cmd := program(t, dir, "flow", append([]string{"chat"}, place...)...)
		if len(place) > 1 {
			cmd.Env = append(cmd.Env, "SUPERSTEP_STORE=")
		}
		x := consoletest.Open(t, cmd)
		x.Expect("you: ")
		x.Type("call\n")
		x.Expect("The model wants to call weather\ufffd[31m in:")
		x.Expect("city  Ulm\ufffd[2J")
		x.Expect("Make this call? [n, a to answer in its place] ")
		x.Type("y\n")
		x.Expect("Please answer with one of the letters.")
		x.Expect("place] ")
		x.Type("a\n")
		x.Expect("What shall the model be told in place of the result? ")
		x.Type("\x03")
		x.Expect("It still waits.")
		x.Expect("you: ")
		x.Type("\n")
		x.Expect("place] ")
		x.Type("a\n")
		x.Expect("result? ")
		x.Type("It snows.\n")
		x.Expect("It was decided: respond It snows.")
		x.Expect("you: ")
		x.Type("call\n")
		x.Expect("place] ")
		x.Type("respond\n")
		x.Expect("result? ")
		x.Type("\x04")
		x.Expect("The model waits for your approval. To be asked again:")
		x.End(cli.ExitInterrupted)
	}
}

// What a server says in prompts cannot control the terminal either.
func TestHostileQuestionsInTerminal(t *testing.T) {
	url := hostile(t)
	x := openTerminal(t, t.TempDir(), "flow", "chat", url, "--graph", "x")
	x.Expect("Chat with x\ufffd[31m\ufffd2J\ufffd\ufffd")
	x.Expect("you: ")
	x.Type("hello\n")
	x.Expect(`Question "x\x1b[31m`) // as Go quotes it
	x.Expect("Answer (an object in JSON with x\ufffd[31m\ufffd2J\ufffd\ufffd forged: line): ")
	x.Type("\x04")
	x.Expect(`--graph $'x\u001b[31m\u009b2J\u202e\u007f\u000d\nforged: line'`)
	x.End(cli.ExitInterrupted)
}
