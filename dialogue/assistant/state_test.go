package assistant_test

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	backends "github.com/superstep-dev/superstep/checkpoint/stores"
	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/assistant"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
)

func object(t *testing.T, v any) map[string]any {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// SONI-13
func TestAFlowOnTheStackHasTheseFields(t *testing.T) {
	a := build(t, assistant.Config{})
	_, s := say(t, a, "Book a flight")
	m := object(t, s.FlowStack[0])
	want := []string{"completed_at", "context", "current_step", "flow_id", "flow_name", "flow_state", "outputs", "paused_at", "started_at"}
	if have := slices.Sorted(maps.Keys(m)); !slices.Equal(have, want) {
		t.Errorf("fields %v", have)
	}
	if id := m["flow_id"].(string); !strings.HasPrefix(id, "book_flight_") || m["flow_state"] != "active" {
		t.Errorf("flow_id %s, flow_state %v", id, m["flow_state"])
	}
	for _, state := range []dialogue.FlowState{dialogue.Active, dialogue.Paused, dialogue.Completed, dialogue.Cancelled, dialogue.Abandoned, dialogue.Failed} {
		text, err := json.Marshal(state)
		if err != nil {
			t.Fatal(err)
		}
		var back dialogue.FlowState
		if err := json.Unmarshal(text, &back); err != nil || back != state {
			t.Errorf("%s came back as %q, %v", text, back, err)
		}
	}
	var f dialogue.FlowContext
	if err := json.Unmarshal([]byte(`{"flow_state": "asleep"}`), &f); err == nil {
		t.Error("an unknown flow_state is taken")
	}
}

// SONI-14
func TestAConversationComesBackFromEveryStore(t *testing.T) {
	ctx := t.Context()
	for name, url := range map[string]func(t *testing.T) string{ // of the subtest, which is skipped alone
		"memory":   func(*testing.T) string { return "memory" },
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "t.db") },
		"files":    func(t *testing.T) string { return "file:" + t.TempDir() },
		"postgres": func(t *testing.T) string { return servertest.Postgres(t) },
		"redis":    func(t *testing.T) string { return servertest.Redis(t) },
	} {
		t.Run(name, func(t *testing.T) {
			s, err := backends.Open(ctx, url(t))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			a := build(t, assistant.Config{Store: s})
			for _, u := range []string{"Book a flight", "New York", "Actually, check my booking first", "What cities do you support?"} {
				say(t, a, u)
			}
			kept := snapshot(t, a).State
			have := object(t, &kept)
			for _, field := range []string{
				"user_message", "last_response", "messages", "flow_stack", "flow_slots", "conversation_state", "current_step", "waiting_for_slot",
				"nlu_result", "last_nlu_call", "digression_depth", "last_digression_type", "turn_count", "trace", "metadata",
			} {
				if _, ok := have[field]; !ok {
					t.Errorf("the state has no %s", field)
				}
			}
			again := build(t, assistant.Config{Store: s})
			d := state(t, again)
			if want := kept.Dialogue(); !reflect.DeepEqual(object(t, d), object(t, want)) {
				t.Errorf("came back as\n%v\nwas\n%v", object(t, d), object(t, want))
			}
			if len(d.FlowStack) != 2 || d.TurnCount != 4 || len(d.Messages) != 8 {
				t.Errorf("%d flows, %d turns, %d messages", len(d.FlowStack), d.TurnCount, len(d.Messages))
			}
			// And so does the pure state.
			text, err := json.Marshal(d)
			if err != nil {
				t.Fatal(err)
			}
			var back dialogue.State
			if err := json.Unmarshal(text, &back); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(object(t, back), object(t, d)) {
				t.Errorf("%s\ncame back as\n%v", text, object(t, back))
			}
		})
	}
}

// SONI-16
func TestTheLastFlowIsActiveAndEndsFirst(t *testing.T) {
	a := build(t, assistant.Config{})
	say(t, a, "Book a flight")
	_, s := say(t, a, "Check my booking")
	if len(s.FlowStack) != 2 || s.FlowStack[0].FlowName != "book_flight" || s.FlowStack[0].FlowState != dialogue.Paused ||
		s.FlowStack[1].FlowName != "check_booking" || s.FlowStack[1].FlowState != dialogue.Active {
		t.Fatalf("stack %+v", s.FlowStack)
	}
	_, s = say(t, a, "AB12")
	if len(s.FlowStack) != 1 || s.FlowStack[0].FlowName != "book_flight" || s.FlowStack[0].FlowState != dialogue.Active {
		t.Errorf("stack %+v", s.FlowStack)
	}
}

// SONI-17
func TestTwoInstancesOfAFlowHaveTheirOwnSlots(t *testing.T) {
	understood := maps.Clone(heard)
	understood["Plan a trip"] = start("plan_trip")
	understood["Boston"] = set("origin", "Boston")
	a := build(t, assistant.Config{Understanding: understood, Program: compile(t, flights+`
  plan_trip:
    description: Plan a trip.
    steps:
    - call: book_flight
`)})
	for _, u := range []string{"Book a flight", "New York", "Plan a trip"} {
		say(t, a, u)
	}
	_, s := say(t, a, "Boston")
	origins := map[string]string{}
	for _, f := range s.FlowStack {
		if f.FlowName == "book_flight" {
			v := s.FlowSlots[f.FlowID]["origin"]
			origins[f.FlowID] = v.String()
		}
	}
	if have := slices.Sorted(maps.Values(origins)); !slices.Equal(have, []string{"Boston", "New York"}) {
		t.Errorf("origins by flow_id: %v", origins)
	}
	if v := s.SlotsOf("book_flight")["origin"]; v.String() != "Boston" { // C-41: by name, the topmost instance's
		t.Errorf("SlotsOf: %v", v)
	}
}

// SONI-18
func TestEveryConversationStateIsAPlainStringThatComesBack(t *testing.T) {
	for _, name := range []string{"idle", "understanding", "waiting_for_slot", "validating_slot", "executing_action", "confirming", "generating_response", "completed", "handoff", "fallback", "error"} {
		var s dialogue.ConversationState
		if err := json.Unmarshal([]byte(`"`+name+`"`), &s); err != nil || string(s) != name {
			t.Errorf("%s is read as %q, %v", name, s, err)
		}
		if text, err := json.Marshal(s); err != nil || string(text) != `"`+name+`"` {
			t.Errorf("%s is written as %s, %v", name, text, err)
		}
	}
	for synonym, name := range map[string]dialogue.ConversationState{"collecting": dialogue.WaitingForSlot, "ready_for_action": dialogue.ExecutingAction, "ready_for_confirmation": dialogue.Confirming} {
		var s dialogue.ConversationState
		if err := json.Unmarshal([]byte(`"`+synonym+`"`), &s); err != nil || s != name {
			t.Errorf("%s is read as %q, %v", synonym, s, err)
		}
	}
	var s dialogue.ConversationState
	if err := json.Unmarshal([]byte(`"asleep"`), &s); err == nil {
		t.Error("an unknown state is taken")
	}
	a := build(t, assistant.Config{})
	say(t, a, "Book a flight")
	kept := snapshot(t, a).State
	if have := object(t, &kept)["conversation_state"]; have != "waiting_for_slot" {
		t.Errorf("conversation_state is kept as %v", have)
	}
}

// SONI-19
func TestACompletedFlowIsKeptWithItsOutputs(t *testing.T) {
	text := strings.Replace(flights, "Say how a booking stands.\n", "Say how a booking stands.\n    outputs: [status]\n", 1)
	a := build(t, assistant.Config{Program: compile(t, text)})
	say(t, a, "Check my booking")
	_, s := say(t, a, "AB12")
	done := s.Metadata.CompletedFlows
	if len(done) != 1 || done[0].FlowName != "check_booking" || done[0].FlowState != dialogue.Completed || done[0].CompletedAt == nil {
		t.Fatalf("completed: %+v", done)
	}
	if v := done[0].Outputs["status"]; v.String() != "on time" {
		t.Errorf("outputs %v", done[0].Outputs)
	}
	kept := snapshot(t, a).State
	meta := object(t, &kept)["metadata"].(map[string]any)
	if list, _ := meta["completed_flows"].([]any); len(list) != 1 {
		t.Errorf("metadata %v", meta)
	}
}

// SONI-20
func TestTurnsAndDigressionsAreCountedAndTraced(t *testing.T) {
	a := build(t, assistant.Config{})
	say(t, a, "Book a flight")
	say(t, a, "New York")
	_, s := say(t, a, "What cities do you support?")
	if s.TurnCount != 3 || s.DigressionDepth != 1 || s.LastDigressionType != "question" {
		t.Errorf("turn_count %d, digression_depth %d, last_digression_type %q", s.TurnCount, s.DigressionDepth, s.LastDigressionType)
	}
	turns := map[int]bool{}
	for _, e := range s.Trace {
		turns[e.Turn] = true
		if e.Kind == "" || e.Time.IsZero() {
			t.Errorf("event %+v", e)
		}
	}
	if len(turns) != 3 {
		t.Errorf("events of turns %v", turns)
	}
}
