package main

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
	"github.com/superstep-dev/superstep/tool"
)

// shower shows a turn as it runs.
type shower struct {
	c    *console.Console
	out  io.Writer // of the answer
	live bool      // tokens are shown as they come; else the answer alone, at its end
	json bool

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
		}
	case graph.EventMessage:
		if k, ok := ev.Value.(chat.Chunk); ok {
			return w.chunk(k)
		}
	case graph.EventToolCall:
		if t, ok := ev.Value.(tool.Started); ok {
			w.c.Status(console.Clean("… " + t.Name))
			if w.json {
				return w.print(eventLine{Type: "tool_call", ID: t.CallID, Name: t.Name, Args: t.Args})
			}
		}
	case graph.EventToolResult:
		if t, ok := ev.Value.(tool.Ended); ok {
			return w.result(t)
		}
	case graph.EventCustom:
		if r, ok := ev.Value.(retrying); ok {
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
	if w.seen == nil {
		w.seen = map[string]bool{}
	}
	w.seen[k.ID] = true
	return w.write(text)
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
	w.c.Notef("%s", console.Fit(clean(strings.ReplaceAll(text, "\n", " ")), max(40, w.c.Width()-1)))
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
		line += ": " + count(lines, "line")
	default:
		line += ": " + text
	}
	w.note(line)
	return nil
}

// end shows what of the answer wasn't shown yet: all of it if it doesn't go to
// a terminal, or if a run before this one got it.
func (w *shower) end(s *chatState, done bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.c.Status("")
	w.endLine()
	if w.json || !done {
		return nil
	}
	if m, ok := s.answer(); ok && !w.seen[m.ID] {
		if err := w.write(m.Text()); err != nil {
			return err
		}
		w.endLine()
	}
	if s.Stopped.Get() == agent.StopMaxIterations {
		w.c.Notef("The model was asked %d times without coming to an end. Say something to go on.", chatCalls)
	}
	return nil
}

// eventLine is an event as --json prints it.
type eventLine struct {
	Type     string           `json:"type"` // "messages", "tool_call", "tool_result" or "interrupt"
	ID       string           `json:"id,omitempty"`
	Name     string           `json:"name,omitempty"`
	Args     json.RawMessage  `json:"args,omitempty"`
	Text     string           `json:"text,omitempty"`
	Error    string           `json:"error,omitempty"`
	Recorded bool             `json:"recorded,omitempty"`
	Value    *approvalRequest `json:"value,omitempty"`
}

type approvalRequest = agent.ApprovalRequest

// resultLine ends a turn in --json.
type resultLine struct {
	Type   string           `json:"type"` // "result"
	Status string           `json:"status"`
	Thread string           `json:"thread"`
	Model  string           `json:"model"`
	Answer string           `json:"answer"`
	Reason agent.StopReason `json:"stop_reason,omitempty"`
}

func (w *shower) print(v any) error { return printJSON(w.out, v) }

func printJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
