// Package turn is a turn of a conversation with an assistant, as protocols see it that
// programs for chats speak: what a client says, what happens until the turn is over, and
// how it ended. It is what such a protocol needs of the server, whichever it is.
package turn

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/internal/console"
)

// Server starts turns and shows what they are about, all of it for the user of a request's
// context: what is somebody else's is as if it didn't exist.
type Server interface {
	// Read decodes a request's body, within the server's limits.
	Read(r *http.Request, v any) error

	// Assistants returns those that take messages.
	Assistants(ctx context.Context) ([]Assistant, error)

	// Assistant returns one by its ID or the name of its graph. Its absence is a
	// [Fault] with the status 404.
	Assistant(ctx context.Context, name string) (*Assistant, error)

	// Thread returns a thread that a run is to go on with; nil if there is none.
	Thread(ctx context.Context, id string) (*Thread, error)

	// ThreadOf returns the thread of a run, and whether the run is its newest; nil if
	// there is no such run.
	ThreadOf(ctx context.Context, run string) (t *Thread, newest bool, err error)

	// Start starts a run. The thread is made if there is none.
	Start(r *http.Request, ask Request) (Run, error)

	// Explain says what a client is told of an error.
	Explain(r *http.Request, err error) *Fault
}

// Assistant is somebody to talk to.
type Assistant struct {
	ID      string
	Name    string // the graph's for a graph's own assistant, and else the ID
	Created time.Time
	Talks   bool // its input has messages

	Takes func(input json.RawMessage) error // reports what is wrong with an input
}

// Thread is how a conversation stands.
type Thread struct {
	ID        string
	Values    json.RawMessage // what its graph shows of its state; nil before its first run
	Questions []Question      // that wait for answers; none while a run works
}

// Messages returns the messages of the state.
func (t *Thread) Messages() []chat.Message { return MessagesOf(t.Values) }

// MessagesOf returns the messages of a state, without what isn't one.
func MessagesOf(values json.RawMessage) []chat.Message {
	var state struct {
		Messages []json.RawMessage `json:"messages"`
	}
	_ = json.Unmarshal(values, &state) // a state of another form has none
	var out []chat.Message
	for _, raw := range state.Messages {
		var m chat.Message
		if json.Unmarshal(raw, &m) == nil {
			out = append(out, m)
		}
	}
	return out
}

// Question is what a graph has asked.
type Question struct {
	ID     string          `json:"id"`
	Key    string          `json:"key"`
	Value  json.RawMessage `json:"value"`
	Schema json.RawMessage `json:"schema"` // of the answer; may be nil
}

// Text is the question in words: its value if that is a text, the text in it if it is an
// object that has one under a usual name, or else its JSON.
func (q *Question) Text() string {
	var text string
	if json.Unmarshal(q.Value, &text) == nil && text != "" {
		return text
	}
	var o map[string]json.RawMessage
	_ = json.Unmarshal(q.Value, &o)
	for _, name := range []string{"question", "prompt", "message", "text"} {
		if json.Unmarshal(o[name], &text) == nil && text != "" {
			return text
		}
	}
	return string(q.Value)
}

// Answer makes an answer of what somebody wrote: JSON of the type that the question's
// schema asks for, with yes and no for a boolean. Without one, text that is JSON counts as
// that, and all other as a text.
func (q *Question) Answer(text string) json.RawMessage {
	var schema struct {
		Type any `json:"type"`
	}
	_ = json.Unmarshal(q.Schema, &schema) // the engine says what is wrong with an answer
	typ := fmt.Sprint(schema.Type)
	trimmed := strings.TrimSpace(text)
	if yes, ok := console.YesNo(trimmed); ok && strings.Contains(typ, "boolean") {
		return json.RawMessage(fmt.Sprint(yes))
	}
	if typ != "string" && json.Valid([]byte(trimmed)) {
		return json.RawMessage(trimmed)
	}
	data, _ := json.Marshal(text) // of a text
	return data
}

// Request is a turn that is to begin: an input, or answers.
type Request struct {
	Assistant string          // its ID
	Thread    string          // empty for one that is made for the run and removed after it
	Keep      time.Duration   // of a thread that is made: how long after its last change; 0 for ever
	Input     json.RawMessage // nil with answers
	Answers   map[string]json.RawMessage
	Metadata  map[string]string
	Tasks     bool // events tell where nodes begin and end, and what they emit
}

// Run is a turn under way.
type Run interface {
	ID() string
	Thread() string // empty if it goes with the run

	// Follow tells what happens until the run ends, and returns how it has ended. Beat, if
	// it isn't nil, is called when nothing has happened for some seconds. If the client
	// leaves, or tell or beat fails, that is the error; the run goes on.
	Follow(ctx context.Context, beat func() error, tell func(Event) error) (*End, error)

	// Cancel ends the run; what it has recorded stays.
	Cancel(ctx context.Context) error
}

// End is how a run ended.
type End struct {
	Values    json.RawMessage // what the graph shows of its state
	Questions []Question      // the run waits with these
	Cancelled bool
	Failure   *Failure // nil if it has not failed
}

// Failure is why a run failed.
type Failure struct {
	Type string `json:"error"` // the name of the error's type
	Text string `json:"message"`
}

// Fault is an error that a client is told, in the words of its protocol.
type Fault struct {
	Status int    // of HTTP
	Code   string // the protocol's; may be empty
	Param  string // what of the request is wrong; may be empty
	Text   string
}

func (f *Fault) Error() string { return f.Text }

// Refuse answers with an error in the form of a protocol: of texts, in JSON.
func Refuse(w http.ResponseWriter, status int, told any) {
	data, _ := json.Marshal(told) // of texts
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(data) // a client that has gone needs no error
}

// Stream is an answer of server-sent events.
type Stream struct {
	w     http.ResponseWriter
	flush func() error
}

// NewStream begins an answer.
func NewStream(w http.ResponseWriter) (*Stream, error) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	s := &Stream{w, http.NewResponseController(w).Flush}
	return s, s.flush()
}

// Put sends text as it is.
func (s *Stream) Put(text []byte) error {
	if _, err := s.w.Write(text); err != nil {
		return err
	}
	return s.flush()
}

// Send sends an event, under a name if it has one.
func (s *Stream) Send(name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if name != "" {
		name = "event: " + name + "\n"
	}
	return s.Put(fmt.Appendf(nil, "%sdata: %s\n\n", name, data))
}

// Beat keeps the connection alive. It is a comment with a single line feed: LangGraph's
// clients take an empty line for the end of an event.
func (s *Stream) Beat() error { return s.Put([]byte(": heartbeat\n")) }

// BeatAlone is Beat for clients that take what stands between empty lines for an event.
func (s *Stream) BeatAlone() error { return s.Put([]byte(": heartbeat\n\n")) }

// Invalid is a request that can't work.
func Invalid(code, param, format string, args ...any) error {
	return &Fault{Status: http.StatusBadRequest, Code: code, Param: param, Text: fmt.Sprintf(format, args...)}
}

// Codes of faults that the server itself finds.
const (
	CodeNoAssistant = "model_not_found"
	CodeBusy        = "conversation_locked"
)
