package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/expr"
	flows "github.com/superstep-dev/superstep/dialogue/program"
	spelling "github.com/superstep-dev/superstep/internal/plan"
	"github.com/superstep-dev/superstep/server/internal/db"
	"github.com/superstep-dev/superstep/server/internal/turn"
)

// chatBody is what a user says to the dialogue, or presses.
type chatBody struct {
	UserID    string `json:"user_id"`
	Message   string `json:"message"`
	MessageID string `json:"message_id"`
	Language  string `json:"language"`
	Channel   string `json:"channel"`

	// Commands are those of a button, and Question the waiting.id of the question that it
	// belongs to.
	Commands []dialogue.Command `json:"commands"`
	Question string             `json:"question"`
}

// chatMembers are the names of what a chatBody has.
var chatMembers = []string{"user_id", "message", "message_id", "language", "channel", "commands", "question"}

// chatOf reads what a user says. The message has an ID.
func (s *conversations) chatOf(r *http.Request) (user string, m dialogue.Message, err error) {
	var raw json.RawMessage
	if err := read(r, &raw); err != nil {
		return "", m, err
	}
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || raw[0] != '{' {
		return "", m, invalid("the body must be an object with user_id and message")
	}
	for _, name := range slices.Sorted(maps.Keys(objectOf(raw))) {
		if !slices.Contains(chatMembers, name) {
			text := fmt.Sprintf("there is no %.80q in a message", name)
			if near := spelling.Nearest(name, chatMembers); near != "" {
				text += fmt.Sprintf("; did you mean %s?", near)
			}
			return "", m, invalid("%s", text)
		}
	}
	var b chatBody
	if err := decode(raw, &b); err != nil {
		return "", m, err
	}
	user = b.UserID
	if of := r.PathValue("user_id"); of != "" {
		if user != "" && user != of {
			return "", m, invalid("user_id is another one than in the path")
		}
		user = of
	}
	if err := checkUser(user); err != nil {
		return "", m, err
	}
	for _, part := range []struct{ what, text string }{{"message_id", b.MessageID}, {"language", b.Language}, {"channel", b.Channel}, {"question", b.Question}} {
		if err := checkName(part.what, part.text); err != nil {
			return "", m, err
		}
	}
	if strings.ContainsRune(b.Message, 0) {
		return "", m, invalid("message must not have zero characters")
	}
	if len(b.Commands) == 0 && strings.TrimSpace(b.Message) == "" {
		if objectOf(raw)["message"] == nil {
			return "", m, invalid("message is required, or commands")
		}
		return "", m, invalid("message must not be empty")
	}
	for i, c := range b.Commands {
		if of := s.dialogue.assistant.Program().Actions[string(c.Type)]; !flows.IsCommand(string(c.Type)) && (of == nil || of.Command == "") {
			return "", m, invalid("commands[%d].type: there is no command %.80q", i, c.Type)
		}
	}
	if b.MessageID == "" {
		b.MessageID = uuid.NewString()
	}
	return user, dialogue.Message{
		ID: b.MessageID, Text: b.Message, Language: b.Language, Channel: b.Channel, Commands: b.Commands, Question: b.Question,
	}, nil
}

// chatReply is the reply to a message.
type chatReply struct {
	UserID     string            `json:"user_id"`
	MessageID  string            `json:"message_id"`
	Response   string            `json:"response"`
	Messages   []dialogue.Said   `json:"messages"`
	Waiting    *dialogue.Waiting `json:"waiting"`
	FlowState  string            `json:"flow_state"`
	ActiveFlow *string           `json:"active_flow"`
	TurnCount  int               `json:"turn_count"`
	Language   string            `json:"language"`
	Events     []dialogue.Event  `json:"events"`
}

func replyTo(user, message string, r dialogue.Reply) chatReply {
	out := chatReply{
		UserID: user, MessageID: message, Response: r.Text, Messages: r.Messages, Waiting: r.Waiting, FlowState: string(r.State),
		ActiveFlow: orNone(r.ActiveFlow), TurnCount: r.Turn, Language: r.Language, Events: r.Events,
	}
	if out.Messages == nil {
		out.Messages = []dialogue.Said{}
	}
	if out.Events == nil {
		out.Events = []dialogue.Event{}
	}
	return out
}

// orNone returns a text for JSON, in which an empty one is null.
func orNone(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// chat has the dialogue answer a message.
func (s *conversations) chat(w http.ResponseWriter, r *http.Request) (any, error) {
	user, m, run, err := s.say(r, modeCustom)
	if err != nil {
		return nil, err
	}
	log, err := s.streamOf(r.Context(), run)
	if err != nil {
		return nil, err
	}
	defer log.leave()
	for _, err := range log.events(r.Context(), 0, heartbeat, nil) {
		if err != nil && !errors.Is(err, errOver) { // of which s.answered says what it means
			return nil, err // the turn goes on
		}
	}
	reply, err := s.answered(r.Context(), run, log, m.ID)
	if f, ok := errors.AsType[*fault](err); ok && f.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retryAfter)
	}
	return replyTo(user, m.ID, reply), err
}

// happening is what a client is told of a turn while it is under way.
type happening struct {
	Type   string `json:"type"` // node, action, validator or model
	Name   string `json:"name,omitempty"`
	Status string `json:"status"` // started, completed or failed
}

// streamChat has the dialogue answer a message, and tells what happens until then. The
// events have no names, so that browsers take them for messages; their type says what they
// are.
func (s *conversations) streamChat(w http.ResponseWriter, r *http.Request) error {
	user, m, run, err := s.say(r, modeTasks)
	if err != nil {
		return err
	}
	log, err := s.streamOf(r.Context(), run)
	if err != nil {
		return err
	}
	defer log.leave()
	out, err := turn.NewStream(w)
	if err != nil {
		return err
	}
	tell := func(v any) error { return out.Send("", v) }
	if err := tell(map[string]string{"type": "start", "user_id": user, "message_id": m.ID}); err != nil {
		return err
	}
	for ev, err := range log.events(r.Context(), 0, heartbeat, out.Beat) {
		if errors.Is(err, errOver) {
			break // s.answered says what that means
		}
		if err == nil {
			if h, ok := s.happened(ev); ok {
				err = tell(h)
			}
		}
		if err != nil {
			return err // the turn goes on
		}
	}
	reply, err := s.answered(r.Context(), run, log, m.ID)
	if err != nil {
		f := s.explain(r, err)
		return tell(map[string]any{"type": "error", "status": f.status, "detail": printable(f.text)})
	}
	for _, token := range tokens(reply) {
		if err := tell(map[string]string{"type": "token", "content": token}); err != nil {
			return err
		}
	}
	return tell(struct {
		Type string `json:"type"`
		chatReply
	}{"done", replyTo(user, m.ID, reply)})
}

// waitingNode waits for the next message: nothing happens there.
const waitingNode = "collect_next_slot"

// happened returns what a client is told of an event of a run.
func (s *conversations) happened(ev *db.FeedEvent) (h happening, ok bool) {
	told, _ := turn.Decode(ev.Method, ev.Data) // which the server has written
	t, ok := told.(*turn.Task)
	if !ok || len(t.Within) == 0 && t.Node == waitingNode {
		return h, false
	}
	h.Status = "completed"
	switch {
	case t.Begins:
		h.Status = "started"
	case t.Failed:
		h.Status = "failed"
	}
	h.Type, h.Name = s.happens(len(t.Within) > 0, t.Node)
	return h, true
}

// tokens returns the pieces of a reply, which together are its text.
func tokens(r dialogue.Reply) []string {
	var out []string
	for _, m := range r.Messages {
		if m.Text == "" {
			continue
		}
		if len(out) > 0 {
			m.Text = "\n" + m.Text
		}
		out = append(out, m.Text)
	}
	if strings.Join(out, "") != r.Text && r.Text != "" {
		return []string{r.Text}
	}
	return out
}

// chatState is how a conversation stands.
type chatState struct {
	UserID         string                           `json:"user_id"`
	ThreadID       string                           `json:"thread_id"`
	FlowState      string                           `json:"flow_state"`
	ActiveFlow     *string                          `json:"active_flow"`
	CurrentStep    *string                          `json:"current_step"`
	WaitingForSlot *string                          `json:"waiting_for_slot"`
	Slots          map[string]expr.Value            `json:"slots"`
	Session        map[string]expr.Value            `json:"session"`
	FlowStack      []dialogue.FlowContext           `json:"flow_stack"`
	FlowSlots      map[string]map[string]expr.Value `json:"flow_slots"`
	LastResponse   string                           `json:"last_response"`
	Messages       []dialogue.Entry                 `json:"messages"`
	TurnCount      int                              `json:"turn_count"`
	Error          *chatError                       `json:"error"`
	UpdatedAt      time.Time                        `json:"updated_at"`
}

type chatError struct {
	Type string    `json:"type"`
	Text string    `json:"text"`
	At   time.Time `json:"at"`
}

// showState shows a conversation, with sensitive values masked.
func (s *conversations) showState(w http.ResponseWriter, r *http.Request) (any, error) {
	user := r.PathValue("user_id")
	t, err := s.known(r.Context(), Read, user)
	if err != nil {
		return nil, err
	}
	d, err := s.talk(r.Context(), t.ID)
	if err != nil {
		return nil, err
	}
	return stateFor(user, t, d.Masked(s.dialogue.assistant.Program())), nil
}

func stateFor(user string, t *db.Thread, d dialogue.State) chatState {
	out := chatState{
		UserID: user, ThreadID: t.ID, FlowState: string(d.ConversationState), CurrentStep: orNone(d.CurrentStep), WaitingForSlot: orNone(d.WaitingForSlot),
		Slots: map[string]expr.Value{}, Session: map[string]expr.Value{}, FlowStack: d.FlowStack, FlowSlots: d.FlowSlots,
		LastResponse: d.LastResponse, Messages: d.Messages, TurnCount: d.TurnCount, UpdatedAt: t.UpdatedAt,
	}
	if f, ok := d.Active(); ok {
		out.ActiveFlow = &f.FlowName
		if slots := d.FlowSlots[f.FlowID]; slots != nil {
			out.Slots = slots
		}
	}
	if of := d.FlowSlots["session"]; of != nil {
		out.Session = of
	}
	if m := d.Metadata; m.ErrorType != "" {
		out.Error = &chatError{m.ErrorType, m.Error, m.ErrorAt}
	}
	return out
}

// forgetState stops what goes on in a conversation, and removes it.
func (s *conversations) forgetState(w http.ResponseWriter, r *http.Request) (any, error) {
	t, err := s.known(r.Context(), Delete, r.PathValue("user_id"))
	if err != nil {
		return nil, err
	}
	return noContent, unlessGone(s.threads.removeThread(background(r), t.ID))
}
