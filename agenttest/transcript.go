package agenttest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/internal/jsondiff"
	"github.com/superstep-dev/superstep/model"
)

// Transcript writes a conversation as text, for golden files and for people:
//
//	system: Be brief.
//	user: What is 6 times 7?
//	assistant:
//	  call #1 multiply {"a":6,"b":7}
//	tool multiply #1: 42
//	assistant: 42.
//
// It has all that a model is told, and nothing that is different each time: calls
// have numbers instead of IDs; the messages' IDs, models, usages and metadata and
// the results' artifacts are left out. Further lines of a text are indented.
func Transcript(messages []chat.Message) string {
	w := writer{ids: map[string]int{}}
	w.messages(messages)
	return w.String()
}

// FormatRequests writes what models were asked as text: of each request the
// tools, the settings and the messages as by [Transcript]. What it repeats of the
// request before is named and not written again.
func FormatRequests(requests []*model.Request) string {
	w := writer{ids: map[string]int{}}
	var before *model.Request
	var last head
	for n, r := range requests {
		fmt.Fprintf(&w, "--- request %d\n", n+1)
		h, err := headOf(r)
		if err != nil {
			fmt.Fprintf(&w, "(can't be written: %v)\n", err)
		}
		switch {
		case len(h.Tools) == 0:
		case n > 0 && reflect.DeepEqual(h.Tools, last.Tools):
			w.WriteString("(the same tools)\n")
		default:
			for _, t := range h.Tools {
				w.line("tool", strings.TrimSuffix(t.Name+": "+t.Description, ": "))
				if t.Schema != nil {
					fmt.Fprintf(&w, "  %s\n", t.Schema)
				}
				if t.Strict {
					w.WriteString("  strict\n")
				}
			}
		}
		if r.ToolChoice != "" {
			fmt.Fprintf(&w, "tool choice: %s\n", r.ToolChoice)
		}
		if h.Output != nil {
			fmt.Fprintf(&w, "output: %s\n", h.Output)
		}
		if h.Config != nil {
			fmt.Fprintf(&w, "config: %s\n", h.Config)
		}
		messages := r.Messages
		if before != nil && len(before.Messages) > 0 && len(messages) >= len(before.Messages) &&
			reflect.DeepEqual(messages[:len(before.Messages)], before.Messages) {
			messages = messages[len(before.Messages):]
			fmt.Fprintf(&w, "(the same %s)\n", count(len(before.Messages), "message"))
		}
		w.messages(messages)
		before, last = r, h
	}
	return w.String()
}

// head is a request without its messages, as [model.Canonical] writes it.
type head struct {
	Tools []struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Schema      json.RawMessage `json:"schema"`
		Strict      bool            `json:"strict"`
	} `json:"tools"`
	Output json.RawMessage `json:"output"`
	Config json.RawMessage `json:"config"`
}

func headOf(r *model.Request) (h head, err error) {
	data, err := model.Canonical(r)
	if err != nil {
		return h, err
	}
	return h, json.Unmarshal(data, &h)
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// writer writes messages.
type writer struct {
	strings.Builder
	ids map[string]int // of calls
}

// number returns what stands for the ID of a call.
func (w *writer) number(id string) string {
	if id == "" {
		return "(no ID)"
	}
	n, ok := w.ids[id]
	if !ok {
		n = len(w.ids) + 1
		w.ids[id] = n
	}
	return fmt.Sprintf("#%d", n)
}

// line writes a text behind a label.
func (w *writer) line(label, text string) {
	w.WriteString(label)
	w.WriteString(":")
	if text != "" {
		w.WriteString(" ")
		w.WriteString(strings.ReplaceAll(text, "\n", "\n    "))
	}
	w.WriteString("\n")
}

func (w *writer) messages(messages []chat.Message) {
	for _, m := range messages {
		if r, ok := m.ToolResult(); ok && len(m.Parts) == 1 {
			label := fmt.Sprintf("%s %s %s", m.Role, r.Name, w.number(r.CallID))
			if r.IsError {
				label += " failed"
			}
			w.parts(label, r.Content)
			continue
		}
		label := string(m.Role)
		if m.Name != "" {
			label += " " + m.Name
		}
		if m.Finish != "" && m.Finish != chat.FinishStop && m.Finish != chat.FinishToolCalls {
			label += " (" + string(m.Finish) + ")"
		}
		w.parts(label, m.Parts)
	}
}

// parts writes the text that a message begins with behind its label, and below
// that a line for each other part.
func (w *writer) parts(label string, parts []chat.Part) {
	if len(parts) > 0 {
		if t, ok := parts[0].(chat.Text); ok {
			w.line(label, t.Text)
			parts = parts[1:]
			label = ""
		}
	}
	if label != "" {
		w.line(label, "")
	}
	for _, p := range parts {
		switch p := p.(type) {
		case chat.Text:
			w.line("  text", p.Text)
		case chat.Reasoning:
			if p.Redacted {
				w.line("  thinks", "(hidden)")
			} else {
				w.line("  thinks", p.Text)
			}
		case chat.ToolCall:
			fmt.Fprintf(w, "  call %s %s %s\n", w.number(p.ID), p.Name, arguments(p.Args))
		case chat.ToolResult:
			label := "  result " + w.number(p.CallID)
			if p.IsError {
				label += " failed"
			}
			w.parts(label, p.Content)
		case chat.Image:
			w.line("  image", source(p.Source, p.Detail))
		case chat.Audio:
			w.line("  audio", source(p.Source, p.Transcript))
		case chat.File:
			w.line("  file", source(p.Source, p.Name))
		default:
			fmt.Fprintf(w, "  %T\n", p)
		}
	}
}

// arguments writes those of a call: as JSON without space, or quoted if they are
// not JSON.
func arguments(args string) string {
	if strings.TrimSpace(args) == "" {
		return "{}"
	}
	v, err := jsondiff.Decode(args)
	if err != nil {
		return fmt.Sprintf("%q", args)
	}
	return jsondiff.Encode(v, "")
}

func source(s chat.Source, more string) string {
	var words []string
	switch {
	case s.FileID != "":
		words = append(words, "file "+s.FileID)
	case s.URL != "":
		words = append(words, s.URL)
	default:
		words = append(words, count(len(s.Data), "byte"))
	}
	words = append(words, s.MIME, more)
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), ", ")
}
