package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/console"
	nodes "github.com/superstep-dev/superstep/remote"
	"github.com/superstep-dev/superstep/tool"
)

// dialog is what a chat knows of a state.
type dialog struct {
	Messages  []chat.Message
	UserInput string           // of package agent: said and not yet part of the messages
	Stopped   agent.StopReason // of package agent
}

// dialogOf reads a state member by member: what is of another form is not of
// interest.
func dialogOf(state json.RawMessage) dialog {
	var d dialog
	var o struct {
		Messages  []json.RawMessage
		UserInput json.RawMessage `json:"user_input"`
		Stopped   json.RawMessage `json:"stop_reason"`
	}
	_ = json.Unmarshal(state, &o)
	for _, raw := range o.Messages {
		if m, ok := nodes.MessageOf(raw); ok {
			d.Messages = append(d.Messages, m)
		}
	}
	_ = json.Unmarshal(o.UserInput, &d.UserInput)
	_ = json.Unmarshal(o.Stopped, &d.Stopped)
	return d
}

// ids returns the messages that are there.
func (d *dialog) ids() map[string]bool {
	out := map[string]bool{}
	for _, m := range d.Messages {
		out[m.ID] = true
	}
	return out
}

// asked returns what the user said in the turn that is under way.
func (d *dialog) asked() string {
	if d.UserInput != "" {
		return d.UserInput
	}
	for i := len(d.Messages) - 1; i >= 0; i-- {
		if d.Messages[i].Role == chat.RoleUser {
			return d.Messages[i].Text()
		}
	}
	return ""
}

// answers returns the messages of the model in this turn that say something.
func (d *dialog) answers() []chat.Message {
	if d.UserInput != "" {
		return nil
	}
	var out []chat.Message
	for _, m := range d.Messages {
		switch {
		case m.Role == chat.RoleUser:
			out = nil
		case m.Role == chat.RoleAssistant && m.Text() != "":
			out = append(out, m)
		}
	}
	return out
}

// answer returns the last one of them.
func (d *dialog) answer() (chat.Message, bool) {
	all := d.answers()
	if len(all) == 0 {
		return chat.Message{}, false
	}
	return all[len(all)-1], true
}

// shower shows a turn as it runs.
type shower struct {
	c     *console.Console
	out   io.Writer       // of the answer
	live  bool            // tokens are shown as they come; else the answer alone, at its end
	json  bool            // as lines of JSON
	known map[string]bool // messages that were there before the turn

	mu   sync.Mutex
	id   string          // of the message that is being streamed
	seen map[string]bool // messages of which something was shown
	open bool            // the line isn't ended
}

// event shows an event of the run.
func (w *shower) event(ev graph.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch ev.Type {
	case graph.EventTaskStart:
		if ev.Node == agent.NodeModel {
			w.c.Status("… thinking")
		} else if len(ev.Path) == 0 {
			w.c.Status(oneLine("… " + ev.Node))
		}
	case graph.EventMessage:
		if k, ok := ev.Value.(chat.Chunk); ok {
			return w.chunk(k)
		}
	case graph.EventToolCall:
		if t, ok := ev.Value.(tool.Started); ok {
			w.c.Status(oneLine("… " + t.Name))
			if w.json {
				return w.print(eventLine{Type: "tool_call", ID: t.CallID, Name: t.Name, Args: t.Args})
			}
		}
	case graph.EventToolResult:
		if t, ok := ev.Value.(tool.Ended); ok {
			return w.result(t)
		}
	case graph.EventCustom:
		// What agents tell of a model that is asked again.
		var r struct{ Retrying string }
		if data, err := json.Marshal(ev.Value); err == nil && json.Unmarshal(data, &r) == nil && r.Retrying != "" && !w.json {
			w.note("  … " + r.Retrying)
		}
	}
	return nil
}

// chunk shows a piece of what the model says.
func (w *shower) chunk(k chat.Chunk) error {
	text := k.Text
	for _, p := range k.Parts {
		if t, ok := p.(chat.Text); ok {
			text += t.Text
		}
	}
	if text == "" {
		return nil
	}
	if w.json {
		return w.print(eventLine{Type: "messages", ID: k.ID, Text: text})
	}
	if !w.live {
		return nil
	}
	w.c.Status("")
	if w.id != k.ID {
		w.endLine()
		w.id = k.ID
	}
	w.mark(k.ID)
	return w.write(text)
}

// mark notes that something of a message was shown.
func (w *shower) mark(id string) {
	if w.seen == nil {
		w.seen = map[string]bool{}
	}
	w.seen[id] = true
}

func (w *shower) write(text string) error {
	// A line break may come in two pieces.
	text = clean(strings.ReplaceAll(text, "\r", ""))
	if text == "" {
		return nil
	}
	w.open = !strings.HasSuffix(text, "\n")
	_, err := io.WriteString(w.out, text)
	return err
}

func (w *shower) endLine() {
	if w.open {
		fmt.Fprintln(w.out)
		w.open = false
	}
}

// note shows a line that is no part of the answer.
func (w *shower) note(text string) {
	w.endLine()
	w.c.Notef("%s", console.Fit(oneLine(text), max(40, w.c.Width()-1)))
}

// result shows what a tool did, in a line.
func (w *shower) result(t tool.Ended) error {
	text := chat.ToolResult{Content: t.Result.Content}.Text()
	failed := ""
	if t.Err != nil {
		failed = t.Err.Error()
		if e := new(tool.Error); errors.As(t.Err, &e) && e.Err != nil {
			failed = e.Err.Error()
		}
	}
	if w.json {
		return w.print(eventLine{Type: "tool_result", ID: t.CallID, Name: t.Name, Text: text, Error: failed, Recorded: t.Recorded})
	}
	if t.Recorded {
		return nil // it was shown when it was made
	}
	w.c.Status("")
	line := "  · " + t.Name
	switch lines := strings.Count(strings.TrimRight(text, "\n"), "\n") + 1; {
	case failed != "":
		line += ": " + failed
	case lines > 1:
		line += ": " + console.Count(lines, "line")
	default:
		line += ": " + text
	}
	w.note(line)
	return nil
}

// end shows what of the answer wasn't shown yet: all of it if it doesn't go to
// a terminal, or if a run before this one got it.
func (w *shower) end(d *dialog, done bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.c.Status("")
	w.endLine()
	if w.json || !done {
		return nil
	}
	all := d.answers()
	for i, m := range all {
		// Of what wasn't streamed, a terminal is shown all of this turn, a pipe the
		// answer alone.
		last := i == len(all)-1
		if w.seen[m.ID] && m.ID != "" || !last && (!w.live || w.known[m.ID]) {
			continue
		}
		w.mark(m.ID)
		if err := w.write(m.Text()); err != nil {
			return err
		}
		w.endLine()
	}
	if d.Stopped == agent.StopMaxIterations {
		w.c.Notef("The model was asked as often as it may be, without coming to an end. Say something to go on.")
	}
	return nil
}

// eventLine is an event as --json prints it.
type eventLine struct {
	Type     string          `json:"type"` // "messages", "tool_call", "tool_result" or "interrupt"
	ID       string          `json:"id,omitempty"`
	Name     string          `json:"name,omitempty"`
	Args     json.RawMessage `json:"args,omitempty"`
	Text     string          `json:"text,omitempty"`
	Error    string          `json:"error,omitempty"`
	Recorded bool            `json:"recorded,omitempty"`
	Value    json.RawMessage `json:"value,omitempty"`
}

// resultLine ends a turn in --json.
type resultLine struct {
	Type   string           `json:"type"` // "result"
	Status string           `json:"status"`
	Thread string           `json:"thread"`
	Model  string           `json:"model,omitempty"`
	Answer string           `json:"answer"`
	Reason agent.StopReason `json:"stop_reason,omitempty"`
}

func (w *shower) print(v any) error { return writeJSON(w.out, v, false) }
