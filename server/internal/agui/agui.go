// Package agui speaks AG-UI 1.0, by which front ends such as CopilotKit's follow agents: it
// translates between its requests and events and turns of the server. docs/protocols.md
// says what becomes of each.
package agui

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/server/internal/turn"
)

// Version is that of the protocol.
const Version = "1.0"

// Agents answers the route.
type Agents struct{ Server turn.Server }

// Refuse answers with an error before anything has begun; the protocol's client throws it.
func Refuse(w http.ResponseWriter, _ *http.Request, f *turn.Fault) {
	status := f.Status
	if status == http.StatusUnprocessableEntity {
		status = http.StatusBadRequest
	}
	turn.Refuse(w, status, map[string]string{"code": codeOf(f), "message": f.Text})
}

func codeOf(f *turn.Fault) string {
	return cmp.Or(f.Code, strings.ReplaceAll(strings.ToLower(http.StatusText(f.Status)), " ", "_"))
}

// input is what a client wants run.
type input struct {
	ThreadID  string            `json:"threadId"`
	RunID     string            `json:"runId"`
	Version   string            `json:"protocolVersion"`
	Parent    string            `json:"parentRunId"`
	State     json.RawMessage   `json:"state"`
	Messages  []json.RawMessage `json:"messages"`
	Tools     json.RawMessage   `json:"tools"`
	Context   json.RawMessage   `json:"context"`
	Forwarded json.RawMessage   `json:"forwardedProps"`
	Resume    []resume          `json:"resume"`
}

type resume struct {
	ID      string          `json:"interruptId"`
	Status  string          `json:"status"`
	Payload json.RawMessage `json:"payload"`
}

// Run answers POST /assistants/{assistant}/agui.
func (a Agents) Run(w http.ResponseWriter, r *http.Request) error {
	var in input
	if err := a.Server.Read(r, &in); err != nil {
		return err
	}
	request, before, err := a.request(r, &in)
	if err != nil {
		return err
	}
	run, err := a.Server.Start(r, *request)
	if err != nil {
		return err
	}
	err = a.follow(w, r, &in, run, before)
	if err != nil {
		_ = run.Cancel(r.Context()) // to leave is how clients stop a run; what it has recorded stays
	}
	return err
}

// request makes a turn of what a client wants, and returns its thread as it is now.
func (a Agents) request(r *http.Request, in *input) (*turn.Request, *turn.Thread, error) {
	if in.Version != "" && !strings.HasPrefix(in.Version, "1.") {
		return nil, nil, turn.Invalid("unsupported_version", "protocolVersion", "protocolVersion %.80q is not known: this is %s.", in.Version, Version)
	}
	if in.RunID == "" || len(in.RunID) > 1000 {
		return nil, nil, turn.Invalid("invalid_run_id", "runId", "runId is required, and has at most 1000 bytes.")
	}
	id, err := uuid.Parse(in.ThreadID)
	if err != nil || len(in.ThreadID) != 36 {
		return nil, nil, turn.Invalid("invalid_thread_id", "threadId", "threadId: %.80q is no ID of a thread, which is a UUID.", in.ThreadID)
	}
	who, err := a.Server.Assistant(r.Context(), r.PathValue("assistant"))
	if err != nil {
		return nil, nil, err
	}
	t, err := a.Server.Thread(r.Context(), id.String())
	if err != nil {
		return nil, nil, err
	}
	if t == nil {
		t = &turn.Thread{ID: id.String()}
	}
	out := &turn.Request{Assistant: who.ID, Thread: t.ID, Tasks: true, Metadata: map[string]string{"agui_run_id": in.RunID}}
	fresh, err := news(in.Messages, t)
	if err != nil {
		return nil, nil, err
	}
	abandoned, err := answers(in.Resume, t, out)
	if err != nil {
		return nil, nil, err
	}
	if out.Answers != nil {
		if len(fresh) > 0 {
			return nil, nil, turn.Invalid("answers_and_messages", "resume", "Answers and new messages can't be sent at once: send the answers, and the messages with the next run.")
		}
		return out, t, nil
	}
	if len(t.Questions) > 0 && !abandoned {
		return nil, nil, turn.Invalid("interrupt_open", "resume", "The thread waits with %d interrupts: answer them with resume, or give them up with the status cancelled and a new message. The first is %q.", len(t.Questions), t.Questions[0].ID)
	}
	fields, err := state(in.State, t, who)
	if err != nil {
		return nil, nil, err
	}
	if len(fresh) > 0 {
		fields["messages"], err = json.Marshal(fresh)
		if err != nil {
			return nil, nil, turn.Invalid("invalid_message", "messages", "messages: %v", err)
		}
	}
	passed, err := ambient(in, t.Values != nil, who)
	if err != nil {
		return nil, nil, err
	}
	if len(fields) == 0 && t.Values != nil {
		return nil, nil, turn.Invalid("nothing_new", "messages", "Nothing is new: the thread has all the messages and the state. Send a message with an ID of its own, or a state that is another.")
	}
	maps.Copy(fields, passed)
	if out.Input, err = json.Marshal(fields); err != nil {
		return nil, nil, err
	}
	return out, t, nil
}

// news returns the messages that the thread doesn't have. What a thread has stays as it is there.
func news(given []json.RawMessage, t *turn.Thread) ([]chat.Message, error) {
	known := map[string]bool{}
	for _, m := range t.Messages() {
		known[m.ID] = true
	}
	var out []chat.Message
	seen := map[string]bool{}
	for i, raw := range given {
		m, err := read(raw)
		if err == nil && m != nil && seen[m.ID] {
			err = fmt.Errorf("the ID %.80q is that of an earlier message", m.ID)
		}
		if err != nil {
			return nil, turn.Invalid("invalid_message", fmt.Sprintf("messages[%d]", i), "messages[%d]: %v", i, err)
		}
		if m == nil {
			continue
		}
		seen[m.ID] = true
		if !known[m.ID] {
			out = append(out, *m)
		}
	}
	return out, nil
}

// answers takes the answers to open questions. It reports whether the client gives them up.
func answers(given []resume, t *turn.Thread, out *turn.Request) (abandoned bool, err error) {
	seen := map[string]bool{}
	for _, one := range given {
		if !slices.ContainsFunc(t.Questions, func(q turn.Question) bool { return q.ID == one.ID }) {
			return false, turn.Invalid("interrupt_not_open", "resume", "The interrupt %.80q is not open (any more): it has been answered or given up, or it isn't the thread's. Run again without it.", one.ID)
		}
		if seen[one.ID] {
			return false, turn.Invalid("answered_twice", "resume", "The interrupt %.80q is answered twice.", one.ID)
		}
		seen[one.ID] = true
		switch one.Status {
		case "resolved":
			if out.Answers == nil {
				out.Answers = map[string]json.RawMessage{}
			}
			if out.Answers[one.ID] = one.Payload; one.Payload == nil {
				out.Answers[one.ID] = json.RawMessage("null")
			}
		case "cancelled":
			abandoned = true
		default:
			return false, turn.Invalid("invalid_resume", "resume", "The status of an answer is resolved or cancelled, not %.80q.", one.Status)
		}
	}
	if abandoned && out.Answers != nil {
		return false, turn.Invalid("invalid_resume", "resume", "Some interrupts are answered and others given up: new input gives all of them up.")
	}
	return abandoned, nil
}

// state returns what a client has changed of the state, as an input.
func state(raw json.RawMessage, t *turn.Thread, who *turn.Assistant) (map[string]json.RawMessage, error) {
	fields := map[string]json.RawMessage{}
	var given map[string]json.RawMessage
	if raw != nil && json.Unmarshal(raw, &given) != nil {
		return nil, turn.Invalid("invalid_state", "state", "state must be an object with the fields of the graph's state.")
	}
	_, had := split(t.Values)
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if name == "messages" || same(given[name], had[name]) {
			continue
		}
		var ok bool
		if fields[name], ok = fitting(name, given[name], t.Values != nil, who); !ok {
			return nil, turn.Invalid("invalid_state", "state", "state.%.80s: %v", name, who.Takes(marshal(map[string]json.RawMessage{name: given[name]})))
		}
	}
	return fields, nil
}

// fitting returns the value of a field as the input takes it: it replaces what the field
// has, where updates would add to it.
func fitting(name string, value json.RawMessage, replaces bool, who *turn.Assistant) (json.RawMessage, bool) {
	if replaces {
		over := marshal(map[string]json.RawMessage{"$overwrite": value})
		if who.Takes(marshal(map[string]json.RawMessage{name: over})) == nil {
			return over, true
		}
	}
	return value, who.Takes(marshal(map[string]json.RawMessage{name: value})) == nil
}

// ambient returns the client's tools, its context and what it passes on, for graphs whose
// input has a place for that.
func ambient(in *input, replaces bool, who *turn.Assistant) (map[string]json.RawMessage, error) {
	fields := map[string]json.RawMessage{}
	for _, one := range []struct {
		name  string
		value json.RawMessage
		must  bool
	}{{"tools", in.Tools, true}, {"context", in.Context, true}, {"forwardedProps", in.Forwarded, false}} {
		if text := string(one.value); slices.Contains([]string{"", "null", "[]", "{}"}, text) {
			continue
		}
		value, ok := fitting(one.name, one.value, replaces, who)
		if ok {
			fields[one.name] = value
		} else if one.must {
			return nil, turn.Invalid("unsupported_"+one.name, one.name, "The graph's input has no %s of that form: send none, or give the state a field of that name that takes them.", one.name)
		}
	}
	return fields, nil
}

func marshal(v any) json.RawMessage {
	data, _ := json.Marshal(v) // of JSON and texts
	return data
}

// split returns a state's messages, and the rest of it.
func split(values json.RawMessage) ([]chat.Message, map[string]json.RawMessage) {
	rest := map[string]json.RawMessage{}
	_ = json.Unmarshal(values, &rest) // a state of another form has no fields
	delete(rest, "messages")
	return turn.MessagesOf(values), rest
}
