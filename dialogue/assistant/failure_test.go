package assistant_test

import (
	"context"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/assistant"
	"github.com/superstep-dev/superstep/graph"
)

// failing is an airline whose action find fails in a way.
func failing(kind string) *airline {
	return &airline{fails: map[string]*dialogue.Failure{"find": {Type: kind, Message: "table bookings is locked"}}}
}

// SONI-40
func TestAFailedActionIsToldOfInFixedWords(t *testing.T) {
	for kind, says := range map[string]string{
		"action_not_found": "System error: Action 'find' not found.",
		"validation_error": "Some required information is invalid. Let's start over.",
		"unknown":          "Sorry, something went wrong. Please try again.",
	} {
		t.Run(kind, func(t *testing.T) {
			a := build(t, assistant.Config{Actions: failing(kind)})
			say(t, a, "Check my booking")
			r, s := say(t, a, "AB12")
			if r.Text != says {
				t.Errorf("reply %q", r.Text)
			}
			m := s.Metadata
			if s.ConversationState != dialogue.InError || m.Error == "" || m.ErrorType != kind || m.ErrorAt.IsZero() {
				t.Errorf("conversation_state %s, error %q, error_type %q, error_at %v", s.ConversationState, m.Error, m.ErrorType, m.ErrorAt)
			}
		})
	}
	t.Run("success", func(t *testing.T) {
		a := build(t, assistant.Config{})
		say(t, a, "Check my booking")
		_, s := say(t, a, "AB12")
		m := s.Metadata
		if v := m.ActionResult["status"]; s.ConversationState != dialogue.Done || v.String() != "on time" || m.ActionTimestamp.IsZero() || m.Error != "" {
			t.Errorf("conversation_state %s, %+v", s.ConversationState, m)
		}
	})
}

// SONI-42
func TestAnErrorIsOverWithTheNextTurn(t *testing.T) { // T-11
	for _, c := range []struct {
		kind, config, says string
		flows              int
		then               dialogue.ConversationState
	}{
		{"validation_error", "", "Some required information is invalid. Let's start over.", 0, dialogue.InError},
		{"timeout", "", "Request timed out. Would you like to try again?", 1, dialogue.Understanding},
		{"unknown", "patterns: {error: {recovery: reset}}\n", "Something went wrong. Let's start fresh.", 0, dialogue.InError},
	} {
		t.Run(c.kind, func(t *testing.T) {
			l := failing(c.kind)
			a := build(t, assistant.Config{Actions: l, Program: compile(t, flights+c.config)})
			if c.config != "" { // something else is open as well
				say(t, a, "Book a flight")
			}
			say(t, a, "Check my booking")
			r, s := say(t, a, "AB12")
			if r.Text != c.says || len(s.FlowStack) != c.flows || s.ConversationState != c.then {
				t.Errorf("reply %q, stack %v, conversation_state %s", r.Text, s.FlowStack, s.ConversationState)
			}
			if c.kind == "timeout" {
				l.mu.Lock()
				l.fails = nil
				l.mu.Unlock()
				if r, _ = say(t, a, "yes"); r.Text != "It is on time." {
					t.Errorf("tried again: %q", r.Text)
				}
				return
			}
			r, s = say(t, a, "Book a flight")
			if r.Text != "From where?" || s.Metadata.Error != "" || s.Metadata.ErrorType != "" || s.ConversationState != dialogue.WaitingForSlot {
				t.Errorf("the next turn: %q, %s, %+v", r.Text, s.ConversationState, s.Metadata)
			}
		})
	}
}

// desk is a graph around an assistant: what fails in a conversation is taken by a node.
type desk struct {
	assistant.State
	Ticket string `json:"ticket"`
}

// SONI-41
func TestAGraphAroundTheAssistantRoutesItsErrors(t *testing.T) {
	for kind, ticket := range map[string]string{"unknown": "opened for table bookings is locked", "": ""} {
		l := new(airline)
		if kind != "" {
			l = failing(kind)
		}
		a := build(t, assistant.Config{Actions: l})
		b := graph.New[desk]("desk")
		graph.AddShared(b, "execute_action", a.Graph(), func(d *desk) *assistant.State { return &d.State })
		b.AddNode("handle_error", func(_ context.Context, d *desk) error {
			d.Ticket = "opened for " + d.Metadata.Get().Error
			return nil
		})
		b.AddNode("generate_response", func(context.Context, *desk) error { return nil })
		b.AddEdge(graph.Start, "execute_action")
		b.AddConditionalEdges("execute_action", func(_ context.Context, d *desk) (graph.Command, error) {
			if d.Metadata.Get().Error != "" {
				return graph.Goto("handle_error"), nil
			}
			return graph.Goto("generate_response"), nil
		}, "handle_error", "generate_response")
		g, err := b.Compile(graph.WithCheckpointer(checkpoint.NewMemory()))
		if err != nil {
			t.Fatal(err)
		}
		thread := g.Thread("anna")
		if _, err := thread.Invoke(t.Context(), thread.Input(func(d *desk) error {
			return d.Begin(assistant.Input{Message: dialogue.Message{Text: "Check my booking"}})
		})); err != nil {
			t.Fatal(err)
		}
		snap, err := thread.Invoke(t.Context(), thread.Answer("AB12"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(snap.State.Ticket, ticket) || (snap.State.Ticket == "") != (ticket == "") {
			t.Errorf("%s: ticket %q, %+v", kind, snap.State.Ticket, snap.State.Metadata.Get())
		}
	}
}
