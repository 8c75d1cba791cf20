//go:build unix

package program

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/internal/console/consoletest"
)

func TestChatInTerminal(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.txt"), "one\ntwo\n")
	open := func(args ...string) *consoletest.Terminal {
		t.Helper()
		return consoletest.Open(t, superstep(t, dir, append([]string{"chat"}, args...)...))
	}
	holds := func(want string) {
		t.Helper()
		if data, err := os.ReadFile(filepath.Join(dir, "a.txt")); err != nil || string(data) != want {
			t.Errorf("the file holds %q, %v; want %q", data, err, want)
		}
	}

	x := open("--model", "demo")
	x.Expect("Chat with demo about the files in ")
	x.Expect("you: ")
	x.Type("what is 6*7\n")
	x.Expect("· calculator: 42")
	x.Expect("6*7 = 42")
	x.Expect("you: ")
	x.Type("write a.txt one\n")
	x.Expect("The model wants to change a.txt, from 8 bytes to 4 bytes:")
	x.Expect("   one")
	x.Expect("  -two")
	x.Expect("Write it? [y/n] ")
	x.Type("hm\n")
	x.Expect("Please answer y or n.")
	x.Expect("Write it? [y/n] ")
	x.Type("n\n")
	x.Expect("Why not? (Enter for no reason) ")
	x.Type("two is needed\n")
	x.Expect("not want this file to be written: two is needed")
	x.Expect("you: ")
	x.Type("\x04")
	x.End(cli.ExitDone)
	holds("one\ntwo\n")

	// A question waits while there is no process, and is asked again.
	x = open()
	x.Expect("The conversation has 8 messages so far.")
	x.Expect("you: ")
	x.Type("write a.txt three\n")
	x.Expect("Write it? [y/n] ")
	x.Type("\x04")
	x.Expect("The model waits for your approval. To be asked again:")
	x.End(cli.ExitInterrupted)
	x = open()
	x.Expect(`Going on: "write a.txt three" waits for your approval.`)
	x.Expect("Write it? [y/n] ")
	x.Type("\x03")
	x.Expect("It still waits.")
	x.Expect("you: ")
	x.Type("\n")
	x.Expect("Write it? [y/n] ")
	x.Type("y\n")
	x.Expect("Done: wrote a.txt: 6 bytes.")
	x.Expect("you: ")
	x.Type("\x03")
	x.End(cli.ExitDone)
	holds("three\n")

	// One turn at a terminal asks, too.
	x = open("write", "a.txt", "four")
	x.Expect("Write it? [y/n] ")
	x.Type("y\n")
	x.Expect("Done: wrote a.txt: 5 bytes.")
	x.End(cli.ExitDone)
	holds("four\n")
}

func TestChatStoppedInTerminal(t *testing.T) {
	hold := make(chan struct{})
	defer close(hold)
	var calls atomic.Int32
	s := serve(t, func(last string) reply {
		if last == "slow" && calls.Add(1) != 2 {
			return reply{words: []string{"one ", "two"}, hold: hold}
		}
		return reply{words: []string{last, " is answered"}}
	})
	dir := t.TempDir()
	x := consoletest.Open(t, superstep(t, dir, "chat", "--model", s.name()))
	x.Expect("you: ")
	x.Type("slow\n")
	x.Expect("one ")
	x.Type("\x03")
	x.Expect("Stopped. Press Enter to go on with it, or say something else.")
	x.Expect("you: ")
	x.Type("\n")
	x.Expect("slow is answered")
	x.Expect("you: ")
	x.Type("slow\n")
	x.Expect("one ")
	x.Type("\x03")
	x.Expect("you: ")
	x.Type("another\n")
	x.Expect("another is answered")
	x.Expect("you: ")
	x.Type("slow\n")
	x.Expect("one ")
	x.Type("\x03")
	x.Expect("you: ")
	x.Type("\x03")
	x.Expect("The last turn is not over. To go on:")
	x.End(cli.ExitStopped)
}
