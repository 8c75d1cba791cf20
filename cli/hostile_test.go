package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/cli"
)

// What would control a terminal, and begin a line that looks like the command's
// own. The second control character is one that JSON doesn't have to escape.
const (
	controls = "x\x1b[31m\u009b2J\u202e\x7f\r"
	evil     = controls + "\nforged: line"
)

const evilID = "11111111-1111-4111-8111-111111111111"

// hostile is a server all of whose texts are evil.
func hostile(t *testing.T) string {
	t.Helper()
	question := map[string]any{
		"id": evil, "key": evil, "value": map[string]any{evil: controls, "list": []string{evil}},
		"schema": map[string]any{"type": "object", "required": []string{evil}, "properties": map[string]any{evil: map[string]any{"enum": []string{evil}}}},
	}
	assistant := map[string]any{"assistant_id": evilID, "graph_id": evil, "name": evil, "description": evil, "metadata": map[string]any{"created_by": "system"}}
	checkpoint := map[string]any{"checkpoint_id": evil}
	state := map[string]any{
		"values":   map[string]any{evil: controls, "messages": []any{map[string]any{"type": "human", "content": controls}, map[string]any{"type": "ai", "content": controls, "id": "m"}}},
		"next":     []string{evil},
		"tasks":    []any{map[string]any{"id": evil, "name": evil, "error": evil, "interrupts": []any{question}}},
		"metadata": map[string]any{"source": evil, "step": 1, evil: evil}, "checkpoint": checkpoint, "parent_checkpoint": checkpoint, "interrupts": []any{question},
	}
	thread := map[string]any{"thread_id": evilID, "status": evil, "metadata": map[string]any{"graph_id": evil, "assistant_id": evilID, evil: evil}, "values": state["values"]}
	listed := map[string]any{"thread_id": evil, "status": evil, "metadata": map[string]any{"graph_id": evil}}
	chunk := []any{map[string]any{"id": "m", "type": "ai", "content": controls, "name": evil}, map[string]any{"langgraph_node": evil}}
	events := []struct {
		name string
		data any
	}{
		{"metadata", map[string]any{"run_id": evil}},
		{"tasks", map[string]any{"id": evil, "name": evil, "triggers": []string{evil}}},
		{"messages", chunk},
		{"tools", map[string]any{"event": "on_tool_start", "name": evil, "toolCallId": evil, "input": map[string]any{evil: evil}}},
		{"tools", map[string]any{"event": "on_tool_end", "name": evil, "toolCallId": evil, "output": evil}},
		{"tools", map[string]any{"event": "on_tool_error", "name": evil, "toolCallId": evil, "error": evil}},
		{"custom", map[string]any{"retrying": evil}},
		{"tasks", map[string]any{"id": evil, "name": evil, "error": evil}},
		{"updates", map[string]any{evil: map[string]any{evil: evil}}},
		{"updates", map[string]any{"__interrupt__": []any{question}}},
	}
	answer := func(v any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(v) }
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /info", answer(map[string]any{"version": evil}))
	mux.HandleFunc("POST /assistants/search", answer([]any{assistant}))
	mux.HandleFunc("GET /assistants/{id}", answer(assistant))
	mux.HandleFunc("GET /assistants/{id}/graph", answer(map[string]any{
		"nodes": []any{map[string]any{"id": "__start__"}, map[string]any{"id": controls, "data": map[string]any{"name": controls, "description": controls}}},
		"edges": []any{map[string]any{"source": "__start__", "target": controls, "data": controls, "conditional": true}},
	}))
	mux.HandleFunc("GET /assistants/{id}/schemas", answer(map[string]any{}))
	mux.HandleFunc("POST /threads/search", answer([]any{listed, listed}))
	mux.HandleFunc("GET /threads/{id}", answer(thread))
	mux.HandleFunc("GET /threads/{id}/state", answer(state))
	mux.HandleFunc("POST /threads/{id}/history", answer([]any{state}))
	mux.HandleFunc("POST /threads/{id}/copy", answer(listed))
	mux.HandleFunc("POST /threads/{id}/runs/stream", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		data, _ := io.ReadAll(r.Body)
		for i, e := range events {
			data, _ := json.Marshal(e.data)
			_, _ = fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", i, e.name, bytes.ReplaceAll(data, []byte("forged"), []byte("forged\xff")))
		}
		if strings.Contains(string(data), "fail") {
			data, _ := json.Marshal(map[string]string{"error": evil, "message": evil})
			_, _ = fmt.Fprintf(w, "id: 99\nevent: error\ndata: %s\n\n", data)
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, evil, http.StatusForbidden)
	})
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	return web.URL
}

func TestNoServerControlsTheTerminal(t *testing.T) {
	t.Setenv("SUPERSTEP_STORE", "")
	url := hostile(t)
	for _, line := range []string{
		"graphs", "threads", "threads --json", "state -t " + evilID, "state --json -t " + evilID, "state --raw -t " + evilID, "history -t " + evilID,
		"history --states -t " + evilID, "history --all-branches --json -t " + evilID, "draw x", "draw x --format ascii", "draw x --format mermaid", "draw x --format dot",
		"draw x --format svg", "draw x --json", "draw x -t " + evilID, "run x -v", "run x --json", "run x -v --stream debug,messages,custom,tools,updates,values", "run x -v --input {\"fail\":1}",
		"resume -t " + evilID, "resume --json -t " + evilID, "resume -v --answer 1 -t " + evilID, "continue -t " + evilID, "update --input {} -t " + evilID, "copy " + evilID,
		"delete --yes -t " + evilID, "diff " + evilID + " " + evilID, "chat x hello", "chat --json x hello", "chat x --yes -t " + evilID + " fail", "chat -t " + evilID + " x hello",
		"state -t 22222222-2222-4222-8222-222222222222@" + controls[:1], "state",
	} {
		var stdout, stderr strings.Builder
		code := cli.Run(t.Context(), append(strings.Fields(line), "--url", url), strings.NewReader(""), &stdout, &stderr, cli.Program("flow", ""))
		if stdout.Len()+stderr.Len() == 0 {
			t.Errorf("%s: shows nothing, exit code %d", line, code)
		}
		for name, shown := range map[string]string{"standard output": stdout.String(), "standard error": stderr.String()} {
			if i := strings.IndexFunc(shown, func(r rune) bool {
				return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r == 0x202e
			}); i >= 0 {
				t.Errorf("%s: the %s has a control character: %q", line, name, shown[max(0, i-60):min(len(shown), i+20)])
			}
			if !utf8.ValidString(shown) {
				t.Errorf("%s: the %s is no UTF-8", line, name)
			}
			if i := strings.Index("\n"+shown, "\nforged"); i >= 0 {
				t.Errorf("%s: the %s has a line of the server's: %q", line, name, shown[max(0, i-80):min(len(shown), i+20)])
			}
		}
		if strings.Contains(line, "--json") || strings.Contains(line, "--stream") {
			pure(t, line, stdout.String())
		}
	}
}

// pure checks that an output is JSON and nothing else.
func pure(t *testing.T, line, out string) {
	t.Helper()
	d := json.NewDecoder(bufio.NewReader(strings.NewReader(out)))
	for {
		if err := d.Decode(new(any)); err == io.EOF {
			return
		} else if err != nil {
			t.Errorf("%s: the standard output is not JSON alone: %v\n%s", line, err, out)
			return
		}
	}
}

func TestAddressesThatAreNoURLs(t *testing.T) {
	t.Setenv("SUPERSTEP_STORE", "")
	for _, tt := range []struct {
		line, env, want string
		code            int
	}{
		{"threads --url localhost:8123", "", "did you mean http://localhost:8123?", cli.ExitUsage},
		{"chat 127.0.0.1:8123 --graph x hi", "", "did you mean http://127.0.0.1:8123?", cli.ExitUsage},
		{"threads", "foo", "it comes from SUPERSTEP_URL", cli.ExitUsage},
		{"threads", "http://me:secret@127.0.0.1:9/", "no answer from http://me:xxxxx@127.0.0.1:9: ", cli.ExitError},
		{"threads --url me:secret@127.0.0.1:9", "", "no URL of a server", cli.ExitUsage},
		{"chat http://me:secret@127.0.0.1:9 hi", "", "no answer from http://me:xxxxx@127.0.0.1:9: ", cli.ExitError},
	} {
		t.Setenv("SUPERSTEP_URL", tt.env)
		var stdout, stderr strings.Builder
		code := cli.Run(context.Background(), strings.Fields(tt.line), strings.NewReader(""), &stdout, &stderr)
		if code != tt.code || stdout.Len() > 0 || !strings.Contains(stderr.String(), tt.want) || strings.Contains(stderr.String(), "secret") {
			t.Errorf("%s: exit code %d\n%s%s", tt.line, code, &stdout, &stderr)
		}
	}
}
