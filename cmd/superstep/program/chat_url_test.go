//go:build unix

package program

import (
	"context"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/internal/console/consoletest"
	langgraph "github.com/superstep-dev/superstep/server"
)

// serveGraphs serves graphs of the demonstration, whose files are in a new folder.
func serveGraphs(t *testing.T) (*httptest.Server, *langgraph.Server, string) {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	s, err := langgraph.New(t.Context(), langgraph.Graph(assistantGraph()), langgraph.Graph(chatGraph(nil)), langgraph.Graph(helloGraph()),
		langgraph.Logger(slog.New(slog.NewTextHandler(io.Discard, nil))))
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s)
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return web, s, dir
}

func TestChatOverAServerInTerminal(t *testing.T) {
	web, _, dir := serveGraphs(t)
	mine := t.TempDir()
	open := func(args ...string) *consoletest.Terminal {
		t.Helper()
		return consoletest.Open(t, superstep(t, mine, append([]string{"chat", web.URL, "--graph", "assistant"}, args...)...))
	}
	holds := func(want string) {
		t.Helper()
		if data, err := os.ReadFile(filepath.Join(dir, "a.txt")); err != nil || string(data) != want {
			t.Errorf("the file holds %q, %v; want %q", data, err, want)
		}
	}
	x := open()
	x.Expect("Chat with assistant, " + web.URL)
	x.Expect("you: ")
	x.Type("what is 6*7\n")
	x.Expect("· calculator: 42")
	x.Expect("6*7 = 42")
	x.Expect("you: ")
	// Approve, after a letter that means nothing.
	x.Type("write a.txt one\n")
	x.Expect("The model wants to call write_file:")
	x.Expect("path  a.txt")
	x.Expect("Make this call? [y/n, e to edit] ")
	x.Type("x\n")
	x.Expect("Please answer with one of the letters.")
	x.Expect("[y/n, e to edit] ")
	x.Type("y\n")
	x.Expect("· write_file: wrote a.txt")
	x.Expect("you: ")
	holds("one\n")
	// Edit.
	x.Type("write a.txt two\n")
	x.Expect("[y/n, e to edit] ")
	x.Type("e\n")
	x.Expect("The arguments in JSON, such as ")
	x.Expect(": ")
	x.Type("three\n")
	x.Expect("That is not an object in JSON.")
	x.Expect("The arguments in JSON, such as ")
	x.Type(`{"path": "a.txt", "text": "three"}` + "\n")
	x.Expect("· write_file: wrote a.txt")
	x.Expect("you: ")
	holds("three")
	// Reject.
	x.Type("write a.txt four\n")
	x.Expect("[y/n, e to edit] ")
	x.Type("n\n")
	x.Expect("Why not? (Enter for no reason) ")
	x.Type("it is enough\n")
	x.Expect("it is enough")
	x.Expect("you: ")
	// The question waits while there is no process.
	x.Type("write a.txt five\n")
	x.Expect("[y/n, e to edit] ")
	x.Type("\x04")
	x.Expect("The model waits for your approval. To be asked again:")
	x.Expect("superstep chat " + web.URL + " --graph assistant --thread ")
	x.Expect("\r\n")
	x.End(cli.ExitInterrupted)
	out, _ := must(t, cli.ExitDone, superstep(t, mine, "threads", "--url", web.URL, "--status", "interrupted", "--json"))
	_, id, _ := strings.Cut(out, `"thread": "`)
	id, _, _ = strings.Cut(id, `"`)
	x = open("--thread", id)
	x.Expect("The conversation has ")
	x.Expect(`Going on: "write a.txt five" waits for your approval.`)
	x.Expect("[y/n, e to edit] ")
	x.Type("\x03")
	x.Expect("It still waits.")
	x.Expect("you: ")
	x.Type("\n")
	x.Expect("[y/n, e to edit] ")
	x.Type("y\n")
	x.Expect("Done: wrote a.txt")
	x.Expect("you: ")
	x.Type("\x04")
	x.End(cli.ExitDone)
	holds("five\n")
}

func TestChatWhoseServerDiesInTerminal(t *testing.T) {
	hold := make(chan struct{})
	defer close(hold)
	model := serve(t, func(last string) reply {
		if last == "slow" {
			return reply{words: []string{"one ", "two"}, hold: hold}
		}
		return reply{words: []string{last, " is answered"}}
	})
	t.Setenv("SUPERSTEP_MODEL", model.name())
	web, _, _ := serveGraphs(t)
	x := consoletest.Open(t, superstep(t, t.TempDir(), "chat", web.URL, "--graph", "chat"))
	x.Expect("you: ")
	// Ctrl-C stops the run at the server: the thread is free for the next turn.
	x.Type("slow\n")
	x.Expect("one ")
	x.Type("\x03")
	x.Expect("Stopped. Press Enter to go on with it, or say something else.")
	x.Expect("you: ")
	x.Type("another\n")
	x.Expect("another is answered")
	x.Expect("you: ")
	x.Type("slow\n")
	x.Expect("one ")
	web.Listener.Close()
	web.CloseClientConnections()
	x.Expect("The connection was lost: ")
	x.Expect("Trying again in ")
	x.Expect("could not be had again: ")
	x.Expect("superstep state --url " + web.URL)
	x.Expect("you: ")
	x.Type("\x04")
	x.End(cli.ExitStopped)
}

// Two people talk on one thread: each is told what the other did, and neither's
// turn is lost or made twice.
func TestTwoChatsOnOneThreadInTerminal(t *testing.T) {
	web, _, dir := serveGraphs(t)
	mine := t.TempDir()
	open := func(args ...string) *consoletest.Terminal {
		t.Helper()
		return consoletest.Open(t, superstep(t, mine, append([]string{"chat", web.URL, "--graph", "assistant"}, args...)...))
	}
	a := open()
	a.Expect("you: ")
	a.Type("write a.txt one\n")
	a.Expect("[y/n, e to edit] ")
	out, _ := must(t, cli.ExitDone, superstep(t, mine, "threads", "--url", web.URL, "--json"))
	_, id, _ := strings.Cut(out, `"thread": "`)
	id, _, _ = strings.Cut(id, `"`)
	b := open("--thread", id)
	b.Expect(`Going on: "write a.txt one" waits for your approval.`)
	b.Expect("[y/n, e to edit] ")
	b.Type("y\n")
	b.Expect("Done: wrote a.txt")
	b.Expect("you: ")
	a.Type("y\n")
	a.Expect("has ended")
	a.Expect("you: ")
	a.Type("what is 6*7\n")
	a.Expect("6*7 = 42")
	a.Expect("you: ")
	b.Type("write a.txt two\n")
	b.Expect("[y/n, e to edit] ")
	a.Type("what is 2*4\n")
	a.Expect("Your message was not sent: the conversation has gone on elsewhere.")
	a.Expect(`Going on: "write a.txt two" waits for your approval.`)
	a.Expect("[y/n, e to edit] ")
	a.Type("n\n")
	a.Expect("Why not?")
	a.Type("\n")
	a.Expect("you: ")
	b.Type("y\n")
	b.Expect("has ended")
	b.Expect("it may have been answered elsewhere")
	b.Expect("you: ")
	if data, err := os.ReadFile(filepath.Join(dir, "a.txt")); err != nil || string(data) != "one\n" {
		t.Errorf("the file holds %q, %v", data, err)
	}
	for _, x := range []*consoletest.Terminal{a, b} {
		x.Type("\x04")
		x.End(cli.ExitDone)
	}
}
