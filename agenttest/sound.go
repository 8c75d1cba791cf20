package agenttest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
)

// Sound returns what is wrong with a conversation, all of it, so that providers
// refuse it; nil if nothing. In a sound one
//
//   - each call of a tool has an ID, which no other call of its message has;
//   - the results of all calls of a message follow it, before any message of the
//     user or the assistant, each once;
//   - there are no other results.
func Sound(messages []chat.Message) error {
	var errs []error
	bad := func(n int, format string, args ...any) {
		errs = append(errs, fmt.Errorf("message %d: %s", n+1, fmt.Sprintf(format, args...)))
	}
	type call struct {
		chat.ToolCall
		answered bool
	}
	var open []*call // of the last message with calls
	from := 0
	settle := func() {
		for _, c := range open {
			if !c.answered {
				bad(from, "the call %q of %s has no result", c.ID, c.Name)
			}
		}
		open = nil
	}
	for n, m := range messages {
		if r, ok := m.ToolResult(); ok {
			found := false
			for _, c := range open {
				if c.ID != r.CallID {
					continue
				}
				if found = true; c.answered {
					bad(n, "another result of the call %q of %s", c.ID, c.Name)
				}
				c.answered = true
				break
			}
			if !found {
				bad(n, "a result of %s, whose call %q is not in the message before it", r.Name, r.CallID)
			}
			continue
		}
		if m.Role == chat.RoleSystem && len(m.ToolCalls()) == 0 {
			continue // providers put these elsewhere
		}
		settle()
		from = n
		ids := map[string]bool{}
		for _, c := range m.ToolCalls() {
			switch {
			case m.Role != chat.RoleAssistant:
				bad(n, "a call of %s in a message of the %s", c.Name, m.Role)
			case c.ID == "":
				bad(n, "a call of %s has no ID", c.Name)
			case ids[c.ID]:
				bad(n, "two calls have the ID %q", c.ID)
			}
			ids[c.ID] = true
			open = append(open, &call{ToolCall: c})
		}
	}
	settle()
	return errors.Join(errs...)
}

// CheckRequests fails the test for each request whose conversation isn't
// [Sound]: of a scripted model, for example, that would have taken anything.
func CheckRequests(tb testing.TB, requests []*model.Request) {
	tb.Helper()
	for n, r := range requests {
		if err := Sound(r.Messages); err != nil {
			tb.Errorf("agenttest: request %d: %v\n%s", n+1, err, Transcript(r.Messages))
		}
	}
}

// CheckConversation fails the test if a stored conversation isn't [Sound] or has
// messages of the system: an agent's instructions are sent and not stored, so
// that a new version of them holds for old threads.
func CheckConversation(tb testing.TB, messages []chat.Message) {
	tb.Helper()
	err := Sound(messages)
	for n, m := range messages {
		if m.Role == chat.RoleSystem {
			err = errors.Join(err, fmt.Errorf("message %d: a message of the system is stored", n+1))
		}
	}
	if err != nil {
		tb.Errorf("agenttest: the conversation: %v\n%s", err, Transcript(messages))
	}
}
