package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/client"
	"github.com/superstep-dev/superstep/dialogue/action"
	flows "github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
)

// parties writes an assistant and its patterns, and returns where they are.
func parties(t *testing.T, deadline string) (path, patterns string) {
	t.Helper()
	dir := t.TempDir()
	path, patterns = filepath.Join(dir, "parties.yaml"), filepath.Join(dir, "patterns.yaml")
	for name, text := range map[string]string{
		path: `
version: "2.0"
name: parties
slots:
  guest: {type: string, ask: {text: "Who comes?"}}
flows:
  invite:
    description: Invite somebody.
    steps:
    - {collect: guest, deadline: ` + deadline + `, on_deadline: late}
    - {say: {text: "{guest} is invited."}, next: end}
    - {step: late, say: {text: "Too late."}}
`,
		patterns: `- {match: invite, start: invite}`,
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path, patterns
}

// told is what was written so far, which can be waited for.
type told struct {
	mu   sync.Mutex
	text strings.Builder
	more *sync.Cond
}

func newTold() *told {
	w := &told{}
	w.more = sync.NewCond(&w.mu)
	return w
}

func (w *told) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(p)
	w.more.Broadcast()
	return len(p), nil
}

func (w *told) until(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !strings.Contains(w.text.String(), text) {
		w.more.Wait()
	}
}

func TestADeadlineRunsWhileNobodyTypes(t *testing.T) {
	path, patterns := parties(t, "200ms")
	in, typed := io.Pipe()
	out := newTold()
	var notes bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- cli.Run(t.Context(), []string{"dialogue", "chat", path, "--patterns", patterns, "--store", "memory"}, in, out, &notes)
	}()
	_, _ = io.WriteString(typed, "invite\n")
	out.until("Who comes?\n")
	out.until("Too late.\n")
	_, _ = io.WriteString(typed, "invite\n")
	out.until("Too late.\nWho comes?\n")
	typed.Close()
	if got := <-code; got != cli.ExitDone {
		t.Errorf("exit code %d: %s", got, &notes)
	}
}

func TestAnAssistantIsServed(t *testing.T) {
	path, patterns := parties(t, "1h")
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	code := make(chan int, 1)
	var notes bytes.Buffer
	go func() {
		code <- cli.Run(ctx, []string{"dialogue", "serve", path, "--patterns", patterns, "--port", "0", "--json", "--store", "memory"}, strings.NewReader(""), in, &notes)
		in.Close()
	}()
	defer func() {
		stop()
		<-code
	}()
	var said struct{ URL string }
	if err := json.NewDecoder(out).Decode(&said); err != nil {
		t.Fatalf("%v: %s", err, &notes)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()

	answer, err := http.Post(said.URL+"/chat", "application/json", strings.NewReader(`{"user_id": "u-1", "message": "invite"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var reply struct{ Response string }
	if err := json.NewDecoder(answer.Body).Decode(&reply); err != nil || reply.Response != "Who comes?" {
		t.Errorf("%s %+v %v", answer.Status, reply, err)
	}

	// Clients of LangGraph's protocol have it as a graph.
	c, err := client.New(said.URL)
	if err != nil {
		t.Fatal(err)
	}
	th, err := c.CreateThread(t.Context(), client.NewThread{})
	if err != nil {
		t.Fatal(err)
	}
	var values struct {
		Messages []struct{ Type, ID, Content string }
	}
	run := client.RunRequest{Assistant: "parties", Input: json.RawMessage(`{"messages": [{"role": "user", "content": "invite", "id": "m-1"}]}`)}
	for ev, err := range c.Stream(t.Context(), th.ID, run) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Name == "values" {
			if err := json.Unmarshal(ev.Data, &values); err != nil {
				t.Fatal(err)
			}
		}
	}
	if m := values.Messages; len(m) != 2 || m[0].ID != "m-1" || m[0].Type != "human" || m[1].Type != "ai" || m[1].Content != "Who comes?" {
		t.Errorf("messages: %+v", m)
	}
	state, err := c.State(t.Context(), th.ID, false)
	if err != nil {
		t.Fatal(err)
	}
	if q := state.Questions(); len(q) != 1 || !strings.Contains(string(q[0].Value), `"prompt":"Who comes?"`) {
		t.Fatalf("questions: %+v", q)
	}
	if _, err := c.Wait(t.Context(), th.ID, client.RunRequest{Assistant: "parties", Command: &client.Command{Resume: "Bob"}}); err != nil {
		t.Fatal(err)
	}
	if state, err = c.State(t.Context(), th.ID, false); err != nil || len(state.Next) != 0 || !strings.Contains(string(state.Values), `"last_response":"Bob is invited."`) {
		t.Errorf("after the answer: %v %s %v", state.Next, state.Values, err)
	}
}

// --model has a model understand what users say.
func TestAModelUnderstands(t *testing.T) {
	path, _ := parties(t, "1h")
	var named string
	opts := cli.Dialogue(cli.Dialogues{Variable: "PARTIES_MODEL", Model: func(name string) (model.Model, error) {
		named = name
		return scripted.New(scripted.Text(`{"commands":[{"type":"start_flow","flow":"invite"}]}`).Repeat()), nil
	}})
	t.Setenv("PARTIES_MODEL", "from:environment")
	for _, c := range []struct {
		args []string
		want string
	}{{nil, "from:environment"}, {[]string{"--model", "from:flag"}, "from:flag"}} {
		var out, notes bytes.Buffer
		code := cli.Run(t.Context(), append([]string{"dialogue", "chat", path, "--store", "memory"}, c.args...), strings.NewReader("please have somebody over\n"), &out, &notes, opts)
		if code != cli.ExitDone || out.String() != "Who comes?\n" || named != c.want {
			t.Errorf("exit code %d, model %q: %s%s", code, named, &out, &notes)
		}
	}
	t.Setenv("PARTIES_MODEL", "")
	var out, notes bytes.Buffer
	if code := cli.Run(t.Context(), []string{"dialogue", "chat", path, "--store", "memory"}, strings.NewReader(""), &out, &notes, opts); code != cli.ExitUsage || !strings.Contains(notes.String(), "--model names one") {
		t.Errorf("without a model: exit code %d: %s", code, &notes)
	}
}

// --actions takes the code of an assistant from another process, with a key.
func TestActionsAreTakenFromAServer(t *testing.T) {
	type whose struct {
		Whose string `json:"whose"`
	}
	set, err := action.NewSet(action.New("book", func(ctx context.Context, _ struct{}) (whose, error) {
		return whose{action.CallOf(ctx).User}, nil
	}, action.Effect(flows.Write)))
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer key-of-actions" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		action.Handler(set).ServeHTTP(w, r)
	}))
	defer h.Close()
	dir := t.TempDir()
	path, patterns := filepath.Join(dir, "tables.yaml"), filepath.Join(dir, "patterns.txt")
	for name, text := range map[string]string{
		path:     `{version: "2.0", actions: {book: {effect: write, outputs: {whose: string}}}, flows: {book_table: {description: Book., steps: [{action: book}, {say: {text: "Booked for {whose}."}}]}}}`,
		patterns: `- {match: table, start: book_table}`,
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	chat := func() (int, string, string) {
		var out, notes bytes.Buffer
		code := cli.Run(t.Context(), []string{"dialogue", "chat", path, "--patterns", patterns, "--store", "memory", "--user", "u-7", "--actions", h.URL}, strings.NewReader("a table\n"), &out, &notes)
		return code, out.String(), notes.String()
	}
	if code, out, notes := chat(); code != cli.ExitError || !strings.Contains(notes, "--actions") {
		t.Errorf("without the key: exit code %d: %s%s", code, out, notes)
	}
	t.Setenv("SUPERSTEP_ACTIONS_KEY", "key-of-actions")
	if code, out, notes := chat(); code != cli.ExitDone || out != "Booked for u-7.\n" {
		t.Errorf("exit code %d: %s%s", code, out, notes)
	}
}
