package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/cmd/superstep/internal/tools"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/console"
)

// describe says what a call of write_file would do to the file as it is now.
func (p *proposal) describe(dir string) {
	size := count(len(p.Text), "byte")
	old, err := tools.Folder(dir).Text(p.Path)
	switch {
	case errors.Is(err, tools.ErrMissing):
		p.title = fmt.Sprintf("write the new file %s, %s", p.Path, size)
	case errors.Is(err, tools.ErrBinary):
		p.title = fmt.Sprintf("write %s, %s, in place of something that is not text", p.Path, size)
	case errors.Is(err, tools.ErrTooLarge):
		p.title = fmt.Sprintf("write %s, %s, in place of a very large file", p.Path, size)
	case err != nil:
		p.title = fmt.Sprintf("write %s, %s; it would fail: %v", p.Path, size, err)
	case old == p.Text:
		p.title = fmt.Sprintf("write %s, %s: just what it holds", p.Path, size)
	case old == "":
		p.title = fmt.Sprintf("write %s, %s, which is empty now", p.Path, size)
	default:
		p.title = fmt.Sprintf("change %s, from %s to %s", p.Path, count(len(old), "byte"), size)
		p.lines = difference(old, p.Text)
	}
	if p.lines == nil && p.Text != "" {
		p.lines = difference("", p.Text)
	}
}

// difference returns how to get from one text to another, without the heads of a
// patch.
func difference(from, to string) []string {
	text := string(diff.Diff("", []byte(from), "", []byte(to)))
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSuffix(line, "\n"); strings.HasPrefix(line, "@@") {
			if len(lines) > 0 {
				lines = append(lines, line)
			} else {
				lines = []string{}
			}
		} else if lines != nil {
			lines = append(lines, line)
		}
	}
	return lines
}

// approvals returns the question about calls of tools that a thread waits for.
func approvals(snap *graph.Snapshot[chatState]) (id string, req agent.ApprovalRequest, ok bool, err error) {
	for i := range snap.Interrupts {
		q := &snap.Interrupts[i]
		if q.When != "inside" {
			continue
		}
		if q.Key != agent.ApprovalKey {
			return "", req, false, fmt.Errorf("the thread waits for an answer to %q: superstep resume answers it", q.Key)
		}
		return q.ID, req, true, q.Decode(&req)
	}
	return "", req, false, nil
}

// decide decides about calls of tools, or has the person at the terminal do so.
func (h *chatter) decide(ctx context.Context, dir string, req agent.ApprovalRequest) (agent.ApprovalAnswer, error) {
	var answer agent.ApprovalAnswer
	for i, action := range req.Actions {
		p, err := propose(dir, action)
		if err != nil {
			return answer, err
		}
		d := agent.Decision{Type: agent.ApproveCall}
		switch {
		case h.rejects:
			d = agent.Decision{Type: agent.RejectCall, Message: rejected(h.reject)}
		case !h.yes:
			nth := ""
			if n := len(req.Actions); n > 1 {
				nth = fmt.Sprintf("[%d/%d] ", i+1, n)
			}
			if d, err = h.ask(ctx, nth, p); err != nil {
				return answer, err
			}
		}
		answer.Decisions = append(answer.Decisions, d)
	}
	return answer, nil
}

// rejected is what the model is told.
func rejected(reason string) string {
	if reason = strings.TrimSpace(reason); reason == "" {
		return "The user does not want this file to be written."
	}
	return "The user does not want this file to be written: " + reason
}

// ask shows a proposal and asks about it.
func (h *chatter) ask(ctx context.Context, nth string, p proposal) (agent.Decision, error) {
	first := min(len(p.lines), max(draftLines, h.c.Height()-6))
	h.c.Notef("\n%sThe model wants to %s:", nth, clean(p.title))
	h.showLines(p.lines[:first])
	question := "Write it? [y/n] "
	if rest := len(p.lines) - first; rest > 0 {
		h.c.Notef("… %s", count(rest, "more line"))
		question = "Write it? [y/n, v to view the rest] "
	}
	for {
		text, err := h.c.Ask(ctx, question)
		if err != nil {
			return agent.Decision{}, err
		}
		switch yes, ok := console.YesNo(text); {
		case ok && yes:
			return agent.Decision{Type: agent.ApproveCall}, nil
		case ok:
			reason, err := h.c.Ask(ctx, "Why not? (Enter for no reason) ")
			if err != nil {
				return agent.Decision{}, err
			}
			return agent.Decision{Type: agent.RejectCall, Message: rejected(reason)}, nil
		case strings.EqualFold(text, "v") || strings.EqualFold(text, "view"):
			h.showLines(p.lines[first:])
		default:
			h.c.Notef("Please answer y or n.")
		}
	}
}

func (h *chatter) showLines(lines []string) {
	if len(lines) > 0 {
		h.c.Notef("%s", clean("  "+strings.Join(lines, "\n  ")))
	}
}

// show shows what waits for a decision where there is nobody to take it.
func (h *chatter) show(dir string, req agent.ApprovalRequest) error {
	for _, action := range req.Actions {
		p, err := propose(dir, action)
		if err != nil {
			return err
		}
		h.c.Notef("The model wants to %s:", clean(p.title))
		h.showLines(p.lines)
	}
	return nil
}

// clean makes text of models and files safe to show. A carriage return would
// write over what stands before it.
func clean(text string) string { return console.Clean(strings.ReplaceAll(text, "\r\n", "\n")) }
