package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/server"
)

// An edit as a node is what the node did: those after it are next, and what one of
// them had asked before is asked anew.
func TestAnEditAsANodeIsFollowedByWhatComesAfterIt(t *testing.T) {
	c := start(t, server.Graph(booking(t)), quiet())
	for _, tt := range []struct {
		name  string
		asked bool
		node  string
		next  string
		asks  string // after going on
	}{
		{"a new thread, as a node", false, "plan", "[book]", "Book Rom?"},
		{"a thread that asks, as the node before", true, "plan", "[book]", "Book Rom?"},
		{"a new thread, as its input", false, "__start__", "[plan]", "Book Rom?"},
		{"a thread that asks, as its input", true, "__start__", "[plan]", "Book Rom?"},
		{"a thread that asks, as the node that asks", true, "book", "[]", ""},
	} {
		thread := call[object](c, "POST", "/threads", object{"graph_id": "booking"})["thread_id"].(string)
		if tt.asked {
			call[any](c, "POST", "/threads/"+thread+"/runs/wait", object{"assistant_id": "booking", "input": object{"city": "Bonn"}})
		}
		if status, _, text := c.do("POST", "/threads/"+thread+"/state", object{"values": object{"city": "Rom"}, "as_node": tt.node}); status != 200 {
			t.Errorf("%s: %d %s", tt.name, status, text)
			continue
		}
		state := call[object](c, "GET", "/threads/"+thread+"/state", nil)
		if got := fmt.Sprint(state["next"]); got != tt.next || len(state["interrupts"].([]any)) != 0 || state["values"].(object)["city"] != "Rom" {
			t.Errorf("%s: next is %s, %v, it asks %v", tt.name, got, state["values"], state["interrupts"])
		}
		for i, h := range call[[]object](c, "POST", "/threads/"+thread+"/history", object{}) {
			if i == 0 && h["checkpoint"].(object)["checkpoint_id"] != state["checkpoint"].(object)["checkpoint_id"] {
				t.Errorf("%s: the newest of the history is %v", tt.name, h)
			}
		}
		status, want := call[object](c, "GET", "/threads/"+thread, nil)["status"], "interrupted"
		if tt.next == "[]" {
			want = "idle"
		}
		if status != want {
			t.Errorf("%s: the thread is %v, want %s", tt.name, status, want)
		}
		out := call[object](c, "POST", "/threads/"+thread+"/runs/wait", object{"assistant_id": "booking", "input": nil})
		if got := fmt.Sprint(out["__interrupt__"]); tt.asks != "" && !strings.Contains(got, tt.asks) || tt.asks == "" && out["__interrupt__"] != nil {
			t.Errorf("%s: then it asks %s", tt.name, got)
		}
		if tt.asks == "" {
			continue
		}
		out = call[object](c, "POST", "/threads/"+thread+"/runs/wait", object{"assistant_id": "booking", "command": object{"resume": true}})
		if out["booked"] != true || out["city"] != "Rom" {
			t.Errorf("%s: after the answer: %v", tt.name, out)
		}
	}
}
