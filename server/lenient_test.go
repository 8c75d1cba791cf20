package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/server"
)

// plain returns a text without what quotes it.
func plain(text string) string { return strings.NewReplacer(`\`, "", `"`, "").Replace(text) }

// What begins with nothing is not echoed: the first values are those after a node.
func TestAnInputThatWritesNothingTellsNoValues(t *testing.T) {
	c := start(t, server.Graph(booking(t)), quiet())
	for input, want := range map[string]int{`{}`: 0, `{"zap":1}`: 0, `{"city":"Ulm"}`: 1} {
		_, _, text := c.ask(t.Context(), "POST", "/runs/stream", `{"assistant_id":"booking","interrupt_before":["*"],"stream_mode":["values","tasks"],"input":`+input+`}`)
		if got := strings.Count(text, "event: values") - strings.Count(text, `{"__interrupt__"`); got != want {
			t.Errorf("%s tells %d:\n%s", input, got, text)
		}
	}
}

// LangGraph's clients send more than a graph takes, and go on reading what comes.
func TestWhatAGraphDoesNotKnowIsLeftOutWithAWarning(t *testing.T) {
	c := start(t, server.Graph(booking(t)), quiet())
	for _, w := range []struct {
		what, body, says string
	}{
		{"a member of the input", `"input":{"city":"Ulm","zap":5}`, `input: unknown field "zap" was left out`},
		{"a breakpoint", `"input":{"city":"Ulm"},"interrupt_before":["zap"]`, `interrupt_before: graph "booking" has no node "zap" was left out`},
		{"one in other letters", `"input":{"city":"Ulm","z\"ä":5}`, `input: unknown field "z\\"?"`},
	} {
		body := `{"assistant_id":"booking",` + w.body + `}`
		for _, path := range []string{"/runs/wait", "/runs/stream", "/runs"} {
			status, header, answer := c.ask(t.Context(), "POST", path, body)
			if got := header.Get("Warning"); status != http.StatusOK || !strings.HasPrefix(got, `299 superstep "`) || !strings.Contains(plain(got), plain(w.says)) {
				t.Errorf("%s, %s: %d, Warning %q: %.200s", w.what, path, status, got, answer)
			}
		}
		// Who asks for it is told of the mistake.
		status, _, answer := c.ask(t.Context(), "POST", "/runs/wait", body, "Prefer", "respond-async, handling=strict")
		if status != http.StatusUnprocessableEntity {
			t.Errorf("%s, strictly: %d %s", w.what, status, answer)
		}
	}
	status, header, _ := c.ask(t.Context(), "POST", "/runs/wait", `{"assistant_id":"booking","input":{"city":"Ulm"},"interrupt_before":["*"]}`)
	if status != http.StatusOK || header.Get("Warning") != "" {
		t.Errorf("nothing was left out: %d, %q", status, header.Get("Warning"))
	}
	c.refused("POST", "/runs/wait", object{"assistant_id": "booking", "input": object{"city": 5, "zap": 1}}, 422, `field "city": must be a string`)
	thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	if got := c.must(thread, "run.start", object{"assistant_id": "booking", "input": object{"zap": 1}}); !strings.Contains(fmt.Sprint(got["warnings"]), `unknown field "zap"`) {
		t.Errorf("the second version says %v", got)
	}
}
