package program

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/superstep-dev/superstep/cli"
)

// server speaks the protocol of OpenAI's chat completions, as far as it needs
// to. Its answers depend on the last message alone.
type server struct {
	*httptest.Server
	answer func(last string) reply // called one at a time

	mu       sync.Mutex
	asked    []string // the last message of each request
	requests []request
}

type request struct {
	key    string
	Model  string
	Stream bool
	Tools  []struct{ Function struct{ Name string } }

	Messages []struct {
		Role    string
		Content string
	}
}

// reply is an answer: a failure, calls of tools or words.
type reply struct {
	status int
	call   string // a tool's name, a space and its arguments
	words  []string
	hold   <-chan struct{} // after the first word
}

func serve(t *testing.T, answer func(last string) reply) *server {
	t.Helper()
	s := &server{answer: answer}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req request
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			t.Errorf("the request can't be read: %v", err)
		}
		req.key = r.Header.Get("Authorization")
		last := req.Messages[len(req.Messages)-1].Content
		s.mu.Lock()
		s.asked = append(s.asked, last)
		s.requests = append(s.requests, req)
		a := s.answer(last)
		s.mu.Unlock()
		s.reply(w, r, a, req.Stream)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) reply(w http.ResponseWriter, r *http.Request, a reply, stream bool) {
	wait := func() {
		if a.hold != nil {
			select {
			case <-a.hold:
			case <-r.Context().Done():
			}
		}
	}
	if a.status != 0 {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(a.status)
		fmt.Fprintf(w, `{"error": {"message": "status %d", "type": "test"}}`, a.status)
		return
	}
	if !stream {
		wait()
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"c","object":"chat.completion","model":"x","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}]}`, strings.Join(a.words, ""))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(delta, finish string) {
		fmt.Fprintf(w, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"x\",\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":%s}]}\n\n", delta, finish)
		w.(http.Flusher).Flush()
	}
	for i, word := range a.words {
		data, _ := json.Marshal(word)
		send(fmt.Sprintf(`{"role":"assistant","content":%s}`, data), "null")
		if i == 0 {
			wait()
		}
	}
	if name, args, ok := strings.Cut(a.call, " "); ok {
		data, _ := json.Marshal(args)
		s.mu.Lock()
		id := len(s.asked)
		s.mu.Unlock()
		send(fmt.Sprintf(`{"role":"assistant","tool_calls":[{"index":0,"id":"call_%d","type":"function","function":{"name":%q,"arguments":%s}}]}`, id, name, data), "null")
		send("{}", `"tool_calls"`)
	} else {
		send("{}", `"stop"`)
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// name is what --model takes.
func (s *server) name() string { return "openai:x@" + s.URL + "/v1" }

func (s *server) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// sent returns a request, from 0; -1 is the last.
func (s *server) sent(i int) request {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i < 0 {
		i += len(s.requests)
	}
	return s.requests[i]
}

// must runs a command that is to end with an exit code, and returns what it
// wrote.
func must(t *testing.T, code int, cmd *exec.Cmd) (stdout, stderr string) {
	t.Helper()
	var out, err strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &err
	var exit *exec.ExitError
	if e := cmd.Run(); e != nil && !errors.As(e, &exit) {
		t.Fatal(e)
	}
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Fatalf("%q: exit code %d, want %d\n%s%s", cmd.Args, got, code, &out, &err)
	}
	return out.String(), err.String()
}

func TestChatWithAServer(t *testing.T) {
	s := serve(t, func(last string) reply {
		if last == "What does a.txt say?" {
			return reply{call: `read_file {"path": "a.txt"}`}
		}
		return reply{words: []string{"It ", "says: ", last, "\x1b[31m."}}
	})
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.txt"), "hello")
	cmd := superstep(t, dir, "chat", "--model", s.name(), "What does a.txt say?")
	cmd.Env = append(cmd.Env, "OPENAI_API_KEY=sk-secret")
	out, msg := must(t, cli.ExitDone, cmd)
	if out != "It says: hello\uFFFD[31m.\n" || !strings.Contains(msg, "· read_file: hello") {
		t.Errorf("wrote %q and %q", out, msg)
	}
	r := s.sent(0)
	var names []string
	for _, f := range r.Tools {
		names = append(names, f.Function.Name)
	}
	if r.Model != "x" || !r.Stream || r.key != "" || r.Messages[0].Role != "system" || len(names) != 5 {
		t.Errorf("sent %+v", r)
	}
	// The conversation goes on, with the model that it had.
	must(t, cli.ExitDone, superstep(t, dir, "chat", "And now?"))
	if last := s.sent(-1); len(last.Messages) != 6 || last.Messages[4].Content != "It says: hello\x1b[31m." {
		t.Errorf("sent %+v", last.Messages)
	}
	// Other commands go on, too.
	must(t, cli.ExitDone, superstep(t, dir, "run", "chat", "-t", "other", "--input", fmt.Sprintf(`{"user_input": "Hello?", "model": %q}`, s.name())))
}

func TestChatWithAModelThatDoesNotExist(t *testing.T) {
	s := serve(t, func(string) reply { return reply{status: http.StatusNotFound} })
	dir := t.TempDir()
	_, msg := must(t, cli.ExitError, superstep(t, dir, "chat", "--model", s.name(), "what is 6*7"))
	if !strings.Contains(msg, "not found") || !strings.Contains(msg, "check the model's name") {
		t.Errorf("said %q", msg)
	}
	// The question isn't lost: another model answers it.
	out, msg := must(t, cli.ExitDone, superstep(t, dir, "chat", "--model", "demo"))
	if out != "6*7 = 42\n" || !strings.Contains(msg, "Going on:") {
		t.Errorf("wrote %q and %q", out, msg)
	}
	if len(s.all()) != 1 {
		t.Errorf("asked %q", s.all())
	}
}

// A turn whose process is killed between two calls of the model, after a tool has
// had its effect, goes on: neither is repeated.
func TestChatKilled(t *testing.T) {
	reached, release := make(chan struct{}, 1), make(chan struct{})
	defer close(release)
	first := true
	s := serve(t, func(last string) reply {
		switch {
		case last == "do it":
			return reply{call: `current_time {}`}
		case strings.HasPrefix(last, "wrote"):
			if first {
				first = false
				reached <- struct{}{}
				return reply{words: []string{"all"}, hold: release}
			}
			return reply{words: []string{"all ", "done"}}
		}
		return reply{call: `write_file {"path": "a.txt", "text": "x"}`}
	})
	dir := t.TempDir()
	args := []string{"chat", "--model", s.name(), "--yes", "do it"}
	cmd := superstep(t, dir, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-reached
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if err := os.Remove(filepath.Join(dir, "a.txt")); err != nil {
		t.Fatal(err)
	}
	// The same command means the same turn.
	out, msg := must(t, cli.ExitDone, superstep(t, dir, args...))
	if out != "all done\n" || !strings.Contains(msg, `Going on: "do it" was not answered yet.`) || strings.Contains(msg, "write_file") {
		t.Errorf("wrote %q and %q", out, msg)
	}
	if _, err := os.Stat(filepath.Join(dir, "a.txt")); err == nil {
		t.Error("the file was written again")
	}
	if asked := s.all(); len(asked) != 4 || asked[0] != "do it" || asked[2] != asked[3] {
		t.Errorf("asked %q", asked)
	}
}
