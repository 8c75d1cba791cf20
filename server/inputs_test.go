package server_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/superstep-dev/superstep/server"
)

// Each input has a moment of its own, before it is taken in, from which another can be
// given: in histories, states and streams alike.
func TestEveryInputHasAMomentBeforeIt(t *testing.T) {
	c := start(t, server.Graph(answering(t)), quiet())
	thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	at := "/threads/" + thread
	ask := func(text string, more object) object {
		body := object{"assistant_id": "agent", "input": object{"messages": []object{{"type": "human", "content": text}}}, "metadata": object{"turn": text}}
		for k, v := range more {
			body[k] = v
		}
		return call[object](c, "POST", at+"/runs/wait", body)
	}
	ask("one", nil)
	ask("two", nil)
	history := call[[]object](c, "POST", at+"/history", object{"limit": 100})
	var inputs []object
	for i, h := range history {
		parent := ""
		if i+1 < len(history) {
			parent = checkpointID(history[i+1]["checkpoint"])
		}
		if got := checkpointID(h["parent_checkpoint"]); got != parent {
			t.Errorf("the parent of entry %d, %v, is %s, not %s", i, h["next"], got, parent)
		}
		if fmt.Sprint(h["next"]) == "[__start__]" {
			inputs = append(inputs, h)
		}
	}
	messages := func(h object) []any { list, _ := h["values"].(object)["messages"].([]any); return list }
	if len(inputs) != 2 || len(messages(inputs[0])) != 4 || len(messages(inputs[1])) != 0 {
		t.Fatalf("before the inputs were %v", inputs)
	}
	turn := call[[]object](c, "POST", at+"/history", object{"metadata": object{"turn": "two"}})
	if n := len(turn); n != 5 || checkpointID(turn[n-1]["checkpoint"]) != checkpointID(inputs[0]["checkpoint"]) {
		t.Errorf("of the second turn there are %d entries", len(turn))
	}
	for _, in := range inputs {
		id := checkpointID(in["checkpoint"])
		state := call[object](c, "GET", at+"/state/"+id, nil)
		if fmt.Sprint(state) != fmt.Sprint(in) {
			t.Errorf("the state is\n%v\nthe history says\n%v", state, in)
		}
		page := call[[]object](c, "POST", at+"/history", object{"before": in["checkpoint"], "limit": 1})
		if parent := checkpointID(in["parent_checkpoint"]); parent == "" && len(page) != 0 || parent != "" && checkpointID(page[0]["checkpoint"]) != parent {
			t.Errorf("before it the history has %v", page)
		}
	}
	// Another second message, on a branch of its own.
	out := ask("three", object{"checkpoint": inputs[0]["checkpoint"]})
	if got := messages(object{"values": out}); len(got) != 8 || got[4].(object)["content"] != "three" {
		t.Errorf("with another second message it is %v", got)
	}
	var next []string
	for _, part := range c.streamed(at+"/runs/stream", object{"assistant_id": "agent", "input": object{"messages": []object{{"type": "human", "content": "four"}}}, "stream_mode": "checkpoints"}) {
		if part.event == "checkpoints" {
			next = append(next, fmt.Sprint(part.data.(object)["next"], part.data.(object)["metadata"].(object)["source"]))
		}
	}
	if want := []string{"[__start__]input", "[agent]loop", "[tools]loop", "[agent]loop", "[]loop"}; !slices.Equal(next, want) {
		t.Errorf("the stream tells %q", next)
	}
	for _, wrong := range []string{checkpointID(history[0]["checkpoint"]), "01a21a14-c3e9-7917-9076-19b200000002"} {
		wrong = wrong[:14] + "8" + wrong[15:] // of what took no input in, and of what isn't there
		c.refused("GET", at+"/state/"+wrong, nil, 404, "not found")
		c.refused("POST", at+"/runs/wait", object{"assistant_id": "agent", "input": object{}, "checkpoint_id": wrong}, 404, "not found")
		c.refused("POST", at+"/state", object{"values": object{}, "checkpoint_id": wrong}, 404, "not found")
	}
}

// A run from the moment before an input begins there: histories, states and streams say so,
// as long as that moment is shown.
func TestWhatIsTakenInInsteadOfAnInputFollowsTheMomentBeforeThat(t *testing.T) {
	c := start(t, server.Graph(answering(t)), quiet())
	thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	at := "/threads/" + thread
	tell := func(text string, from any) []object {
		var told []object
		for _, part := range c.streamed(at+"/runs/stream", object{"assistant_id": "agent", "checkpoint": from, "stream_mode": "checkpoints",
			"input": object{"messages": []object{{"type": "human", "content": text}}}, "metadata": object{"superstep:began_at": "x", "turn": text}}) {
			if part.event == "checkpoints" {
				told = append(told, part.data.(object))
			}
		}
		return told
	}
	agree := func(told []object) {
		t.Helper()
		for _, h := range told {
			for _, way := range []object{call[object](c, "GET", at+"/state/"+checkpointID(h["checkpoint"]), nil), c.entryOf(thread, checkpointID(h["checkpoint"]))} {
				if got, want := checkpointID(way["parent_checkpoint"]), checkpointID(h["parent_checkpoint"]); got != want {
					t.Errorf("the parent of %v is %q; the stream said %q", h["next"], got, want)
				}
				if way["metadata"].(object)["superstep:began_at"] != nil {
					t.Errorf("clients are told of it: %v", way["metadata"])
				}
			}
		}
	}
	one := tell("one", nil)
	two := tell("two", nil)
	first, second := one[0], two[0]
	for _, h := range []object{first, second} { // the first has nothing before it
		told := tell("instead", h["checkpoint"])
		if got := checkpointID(told[0]["parent_checkpoint"]); got != checkpointID(h["checkpoint"]) {
			t.Errorf("the parent of an input that was given at %v is %q", h["checkpoint"], got)
		}
		again := tell("again", told[0]["checkpoint"])
		if got := checkpointID(again[0]["parent_checkpoint"]); got != checkpointID(told[0]["checkpoint"]) {
			t.Errorf("the parent of an input that was given at %v is %q", told[0]["checkpoint"], got)
		}
		agree(slices.Concat(told, again))
		if fmt.Sprint(told[0]["values"]) != fmt.Sprint(h["values"]) {
			t.Errorf("it began with %v, not %v", told[0]["values"], h["values"])
			for _, x := range told {
				t.Log(x["next"], x["metadata"], x["checkpoint"], x["parent_checkpoint"])
			}
		}
		c.checkHistory(thread, nil)
	}
	// At the checkpoint itself it is that one's.
	beside := tell("beside", second["parent_checkpoint"])
	if got, want := checkpointID(beside[0]["parent_checkpoint"]), checkpointID(second["parent_checkpoint"]); got != want {
		t.Errorf("the parent of an input that was given at %s is %q", want, got)
	}
	agree(slices.Concat(one, two, beside))
	last := tell("last", second["checkpoint"])
	call[any](c, "POST", "/threads/prune", object{"thread_ids": []string{thread}, "strategy": "keep_latest"})
	c.checkHistory(thread, nil)
	if h := c.entryOf(thread, checkpointID(last[len(last)-1]["checkpoint"])); h == nil {
		t.Error("the newest moment is gone")
	}
}

// entryOf returns the entry of a thread's history that a checkpoint has; nil if there is none.
func (c client) entryOf(thread, id string) object {
	c.t.Helper()
	for _, h := range call[[]object](c, "POST", "/threads/"+thread+"/history", object{"limit": 100}) {
		if checkpointID(h["checkpoint"]) == id {
			return h
		}
	}
	return nil
}

// What a stream told of a superstep is found in the history under the ID that it had there,
// though it asked something meanwhile; and a client that goes on from there answers it.
func TestASuperstepThatAsksHasTheIDThatItWasToldWith(t *testing.T) {
	c := start(t, server.Graph(booking(t)), quiet())
	thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	at := "/threads/" + thread
	told := func(body object) (ids []string) {
		body["assistant_id"], body["stream_mode"] = "booking", "checkpoints"
		for _, part := range c.streamed(at+"/runs/stream", body) {
			if part.event == "checkpoints" {
				ids = append(ids, checkpointID(part.data.(object)["checkpoint"]))
			}
		}
		return ids
	}
	history := func() (ids []string) {
		for _, h := range call[[]object](c, "POST", at+"/history", object{}) {
			ids = append([]string{checkpointID(h["checkpoint"])}, ids...)
		}
		return ids
	}
	first := told(object{"input": object{"city": "Bonn"}})
	if got := history(); !slices.Equal(got, first) || len(got) != 3 {
		t.Errorf("the stream told of %q, the history has %q", first, got)
	}
	state := call[object](c, "GET", at+"/state/"+first[2], nil)
	if newest := call[object](c, "GET", at+"/state", nil); fmt.Sprint(newest) != fmt.Sprint(state) || len(state["interrupts"].([]any)) != 1 {
		t.Errorf("the state is\n%v\nof its checkpoint\n%v", newest, state)
	}
	// A run that goes on tells first from where.
	more := told(object{"command": object{"resume": true}, "checkpoint_id": first[2]})
	if got := history(); !slices.Equal(got, append(first, more[1:]...)) || more[0] != first[2] {
		t.Errorf("the streams told of %q and %q, the history has %q", first, more, got)
	}
}
