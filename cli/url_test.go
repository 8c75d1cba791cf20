package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server"
)

// newServer serves graphs of the tests, with a store at a path.
func newServer(ctx context.Context, path string, opts ...server.Option) (*server.Server, error) {
	return server.New(ctx, append(opts,
		server.Graph(jokes(), server.Describe("Writes jokes until one is liked.")), server.Graph(pair()), server.Graph(fan()), server.Graph(fragile()), server.Graph(nap()),
		server.Graph(endless(), server.Named("loop")), server.Graph(talker()), server.Data("sqlite:"+path), server.Logger(slog.New(slog.NewTextHandler(io.Discard, nil))),
	)...)
}

// startServer starts a server and sets a variable to its URL:
// server NAME STORE [KEY]
func startServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: server NAME STORE [KEY]")
	}
	var opts []server.Option
	if len(args) > 2 {
		opts = append(opts, server.APIKeys(args[2]))
	}
	s, err := newServer(context.Background(), ts.MkAbs(args[1]), opts...)
	ts.Check(err)
	web := httptest.NewServer(s)
	ts.Setenv(args[0], web.URL)
	ts.Defer(func() {
		web.CloseClientConnections()
		web.Close()
		ts.Check(s.Close(context.Background()))
	})
}

type talkState struct {
	Messages chat.History `json:"messages"`
	Name     string       `json:"name"`
}

// talker has messages and no model: it repeats, asks for a name on "who", asks
// about a call of a tool on "call", and fails on "fail".
func talker() *graph.Graph[talkState] {
	b := graph.New[talkState]("talker")
	b.AddNode("talk", func(ctx context.Context, s *talkState) error {
		last := s.Messages.Last()
		switch last.Text() {
		case "fail":
			return io.ErrClosedPipe
		case "wait":
			<-ctx.Done()
			return context.Cause(ctx)
		case "who":
			name, err := graph.Interrupt[string](ctx, "name", "Who are you?")
			if err != nil {
				return err
			}
			s.Name = name
			s.Messages.Add(chat.AI("Hello, " + name + "."))
			return nil
		case "call":
			answer, err := graph.Interrupt[agent.ApprovalAnswer](ctx, "call", agent.ApprovalRequest{
				Actions: []agent.ActionRequest{{Name: "weather\x1b[31m\nin", Args: json.RawMessage(`{"city": "Ulm\u001b[2J"}`)}},
				Reviews: []agent.ReviewConfig{{Name: "weather\x1b[31m\nin", Allowed: []agent.DecisionType{agent.RespondCall, agent.RejectCall}}},
			})
			if err != nil {
				return err
			}
			s.Messages.Add(chat.AI(fmt.Sprintf("It was decided: %s %s", answer.Decisions[0].Type, answer.Decisions[0].Message)))
			return nil
		}
		s.Messages.Add(chat.AI("You said:"), chat.AI(last.Text()+"\x1b[31m!"))
		return nil
	})
	b.SetEntryPoint("talk")
	return b.MustCompile()
}

// A server that dies in the middle of a run is said to be gone, and what to do.
func TestServerDiesInARun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := newServer(context.Background(), filepath.Join(dir, "s.db"))
	if err != nil {
		t.Fatal(err)
	}
	began := make(chan struct{}, 1)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/runs/stream") {
			began <- struct{}{}
		}
		s.ServeHTTP(w, r)
	}))
	cmd := program(t, dir, "bare", "run", "talker", "--url", web.URL, "--input", `{"messages": [{"type": "human", "content": "wait"}]}`, "--stream", "values")
	cmd.Env = append(cmd.Env, "SUPERSTEP_STORE=")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-began
	if _, err := out.Read(make([]byte, 1)); err != nil { // the first event is there
		t.Fatal(err)
	}
	web.CloseClientConnections()
	go web.Close()
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != cli.ExitError {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{"The connection was lost", "Trying again in", "the connection to " + web.URL + " was lost and could not be had again", " may go on there", "see what became of it:\n    bare state --url " + web.URL + " --thread "} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, &stderr)
		}
	}
	now, cancel := context.WithCancel(context.Background())
	cancel()
	s.Drain(now) // the node never ends by itself
	if err := s.Close(context.Background()); err != nil {
		t.Error(err)
	}
}
