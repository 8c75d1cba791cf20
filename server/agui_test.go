package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/server"
)

// runs sends a run of AG-UI and returns its events.
func (c client) events(assistant string, body object) (out []object) {
	c.t.Helper()
	status, header, text := c.do("POST", "/assistants/"+assistant+"/agui", body)
	if status != 200 || header.Get("Content-Type") != "text/event-stream" {
		c.t.Fatalf("%v: %d %s", body, status, text)
	}
	for line := range strings.SplitSeq(text, "\n") {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			var e object
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				c.t.Fatal(err)
			}
			out = append(out, e)
		}
	}
	return out
}

// types are those of events, each told once in a row.
func types(events []object) string {
	var out []string
	for _, e := range events {
		if one := e["type"].(string); len(out) == 0 || out[len(out)-1] != one {
			out = append(out, one)
		}
	}
	return strings.Join(out, " ")
}

func message(id, text string) user { return user{"id": id, "role": "user", "content": text} }

func TestARunOfAGUITellsMessagesToolsStepsAndState(t *testing.T) {
	c := start(t, server.Graph(answering(t)), server.Graph(slow(t)))
	thread := newThread()
	body := object{"threadId": thread, "runId": "run-1", "protocolVersion": "1.0", "messages": []any{message("m-1", "What is 6 times 7?")}, "state": object{}, "tools": []any{}, "context": []any{}, "forwardedProps": object{}}
	events := c.events("agent", body)
	got := types(events)
	for _, want := range []string{"RUN_STARTED STATE_SNAPSHOT STEP_STARTED TOOL_CALL_START TOOL_CALL_ARGS TOOL_CALL_END", "TOOL_CALL_RESULT", "TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END", "STEP_FINISHED", "MESSAGES_SNAPSHOT RUN_FINISHED"} {
		if !strings.Contains(got, want) {
			t.Errorf("the events are %s, without %s", got, want)
		}
	}
	last := events[len(events)-1]
	if last["runId"] != "run-1" || last["threadId"] != thread || last["outcome"].(object)["type"] != "success" {
		t.Errorf("the end is %v", last)
	}
	snapshot := events[len(events)-2]["messages"].([]any)
	if len(snapshot) != 4 || snapshot[0].(object)["id"] != "m-1" || snapshot[3].(object)["content"] != "The answer is 42." {
		t.Errorf("the messages are %v", snapshot)
	}
	// The client sends all it has, of which only one message is new.
	body["messages"] = append(snapshot, message("m-2", "Again"))
	events = c.events("agent", body)
	if n := len(events[len(events)-2]["messages"].([]any)); n != 8 {
		t.Errorf("the thread has %d messages", n)
	}

	events = c.events("slow", object{"threadId": newThread(), "runId": "run-1", "messages": []any{}, "state": object{"todo": 2}})
	var ticks, deltas []string
	for _, e := range events {
		switch e["type"] {
		case "CUSTOM":
			ticks = append(ticks, fmt.Sprint(e["name"], e["value"]))
		case "STATE_DELTA":
			deltas = append(deltas, fmt.Sprint(e["delta"]))
		}
	}
	if fmt.Sprint(ticks) != "[custommap[tick:1] custommap[tick:2]]" || !strings.Contains(fmt.Sprint(deltas), "map[op:replace path:/done value:2]") {
		t.Errorf("custom events %v, deltas %v", ticks, deltas)
	}
}

func TestAnInterruptOfAGUIIsAnsweredOnce(t *testing.T) {
	c := start(t, server.Graph(booking(t)), server.Graph(failing(t)), quiet())
	thread := newThread()
	on := func(more object) object {
		out := object{"threadId": thread, "runId": "r", "messages": []any{message("m-1", "Book it")}}
		for k, v := range more {
			out[k] = v
		}
		return out
	}
	events := c.events("booking", on(object{"state": object{"city": "Bonn"}}))
	outcome := events[len(events)-1]["outcome"].(object)
	if outcome["type"] != "interrupt" {
		t.Fatalf("the outcome is %v", outcome)
	}
	asked := outcome["interrupts"].([]any)[0].(object)
	if asked["message"] != "Book Bonn?" || fmt.Sprint(asked["responseSchema"]) != "map[type:boolean]" {
		t.Errorf("it asks %v", asked)
	}
	resolved := object{"interruptId": asked["id"], "status": "resolved", "payload": true}
	refused := func(body object, code string) {
		t.Helper()
		text := c.refused("POST", "/assistants/booking/agui", body, 400, `"code":"`+code+`"`)
		if !strings.Contains(text, `"message":"`) {
			t.Errorf("it says %s", text)
		}
	}
	refused(on(object{"messages": []any{message("m-2", "And a hotel")}}), "interrupt_open")
	refused(on(object{"resume": []any{object{"interruptId": "x", "status": "resolved"}}}), "interrupt_not_open")
	refused(on(object{"resume": []any{resolved, resolved}}), "answered_twice")
	refused(on(object{"resume": []any{resolved}, "messages": []any{message("m-2", "And a hotel")}}), "answers_and_messages")
	refused(on(object{"resume": []any{object{"interruptId": asked["id"], "status": "maybe"}}}), "invalid_resume")
	events = c.events("booking", on(object{"resume": []any{object{"interruptId": asked["id"], "status": "resolved", "payload": "perhaps"}}}))
	if last := events[len(events)-1]; last["type"] != "RUN_ERROR" || last["code"] != "AnswerError" {
		t.Errorf("an answer of another type: %v", last)
	}
	events = c.events("booking", on(object{"resume": []any{resolved}}))
	if got := events[len(events)-1]["outcome"].(object)["type"]; got != "success" {
		t.Errorf("the outcome is %v", got)
	}
	if booked := call[object](c, "GET", "/threads/"+thread+"/state", nil)["values"].(object)["booked"]; booked != true {
		t.Errorf("booked is %v", booked)
	}
	refused(on(object{"resume": []any{resolved}}), "interrupt_not_open")
	refused(on(nil), "nothing_new")
	refused(on(object{"protocolVersion": "2.0"}), "unsupported_version")
	refused(on(object{"threadId": "mine"}), "invalid_thread_id")
	refused(on(object{"runId": ""}), "invalid_run_id")
	refused(on(object{"state": object{"cities": 1}}), "invalid_state")
	refused(on(object{"state": []any{}}), "invalid_state")
	refused(on(object{"tools": []any{object{"name": "open"}}}), "unsupported_tools")
	refused(on(object{"messages": []any{message("m-3", "a"), message("m-3", "b")}}), "invalid_message")
	refused(on(object{"messages": []any{user{"id": "m-4", "role": "wizard"}}}), "invalid_message")
	refused(on(object{"messages": []any{user{"role": "user", "content": "x"}}}), "invalid_message")

	// New input gives up a question whose answer is cancelled.
	events = c.events("booking", on(object{"messages": []any{message("m-5", "Another")}}))
	asked = events[len(events)-1]["outcome"].(object)["interrupts"].([]any)[0].(object)
	events = c.events("booking", on(object{"messages": []any{message("m-6", "No, another")}, "resume": []any{object{"interruptId": asked["id"], "status": "cancelled"}}}))
	if got := events[len(events)-1]["outcome"].(object)["type"]; got != "interrupt" {
		t.Errorf("the outcome is %v", got)
	}
	events = c.events("failing", object{"threadId": newThread(), "runId": "r", "messages": []any{message("m-1", "x")}})
	if last := events[len(events)-1]; last["type"] != "RUN_ERROR" || last["message"] != "I am a teapot" {
		t.Errorf("a failure is %v", last)
	}
}

// One thread by two protocols at once: the second is refused in its own words, and nothing
// of the first is lost.
func TestAThreadThatWorksForOneProtocolIsBusyForTheOthers(t *testing.T) {
	begun, let := make(chan struct{}), make(chan struct{})
	c := start(t, server.Graph(patient(t, begun, let)), quiet())
	thread := newThread()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _, _ = c.ask(ctx, "POST", "/assistants/patient/agui", marshalled(t, object{"threadId": thread, "runId": "r", "messages": []any{message("m-1", "hello")}}))
	}()
	<-begun
	chats := object{"model": "patient", "messages": []any{says("hello")}, "metadata": object{"thread_id": thread}}
	c.refusedAs("/v1/chat/completions", chats, 409, "conversation_locked")
	c.refused("POST", "/assistants/patient/agui", object{"threadId": thread, "runId": "r", "messages": []any{message("m-2", "x")}}, 409, "conversation_locked", "try again")
	let <- struct{}{}
	<-done
	go func() { <-begun; let <- struct{}{} }()
	out := call[object](c, "POST", "/v1/chat/completions", chats)
	if text, _ := tells(out); text != "done" {
		t.Errorf("then it says %q", text)
	}
	values := call[object](c, "GET", "/threads/"+thread+"/state", nil)["values"].(object)
	if n := len(values["messages"].([]any)); n != 4 {
		t.Errorf("the thread has %d messages", n)
	}
}
