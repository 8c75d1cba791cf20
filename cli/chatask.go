package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/console"
)

// approvalOf returns the question whether tools may be called, if a question is
// one.
func approvalOf(q question) (req agent.ApprovalRequest, ok bool) {
	if json.Unmarshal(q.Value, &req) != nil || len(req.Actions) == 0 {
		return req, false
	}
	for _, a := range req.Actions {
		if a.Name == "" {
			return req, false
		}
	}
	return req, true
}

// onlyApprovals reports whether there are questions, all of them whether tools may
// be called.
func onlyApprovals(open []question) bool {
	return len(open) > 0 && !slices.ContainsFunc(open, func(q question) bool {
		_, ok := approvalOf(q)
		return !ok
	})
}

// decisions returns what may be decided about each action of a request.
func decisions(req agent.ApprovalRequest, i int) []agent.DecisionType {
	var allowed []agent.DecisionType
	if i < len(req.Reviews) && req.Reviews[i].Name == req.Actions[i].Name {
		allowed = req.Reviews[i].Allowed
	} else if at := slices.IndexFunc(req.Reviews, func(r agent.ReviewConfig) bool { return r.Name == req.Actions[i].Name }); at >= 0 {
		allowed = req.Reviews[at].Allowed
	}
	if len(allowed) == 0 {
		return []agent.DecisionType{agent.ApproveCall, agent.RejectCall}
	}
	return allowed
}

// errAsk says that somebody has to be asked, and nobody can be.
var errAsk = errors.New("nobody can be asked")

// answer answers questions, or has the person at the terminal do so.
func (h *chatter) answer(ctx context.Context, open []question) (graph.Answers, error) {
	can := !h.json && h.c.CanAsk()
	out := graph.Answers{}
	for i, q := range open {
		req, ok := approvalOf(q)
		if !ok {
			if !can {
				return nil, errAsk
			}
			v, err := h.a.askOne(ctx, q, nth(i, len(open)))
			if err != nil {
				return nil, err
			}
			out[q.ID] = v
			continue
		}
		var answer agent.ApprovalAnswer
		for i, action := range req.Actions {
			d, err := h.decide(ctx, action, decisions(req, i), nth(i, len(req.Actions)), can)
			if err != nil {
				return nil, err
			}
			answer.Decisions = append(answer.Decisions, d)
		}
		data, err := json.Marshal(answer)
		if err != nil {
			return nil, err
		}
		out[q.ID] = json.RawMessage(data)
	}
	return out, nil
}

// nth counts what is asked, where it is more than one.
func nth(i, n int) string {
	if n < 2 {
		return ""
	}
	return fmt.Sprintf("[%d/%d] ", i+1, n)
}

// review returns how an action is shown.
func (h *chatter) review(action agent.ActionRequest) (Review, error) {
	if h.Review != nil {
		return h.Review(action)
	}
	r := Review{Title: "call " + action.Name}
	if first, _, _ := strings.Cut(strings.TrimSpace(action.Description), "\n"); first != "" {
		r.Lines = append(r.Lines, "("+console.Fit(first, 200)+")")
	}
	var b strings.Builder
	w := renderer{w: &b, width: max(20, h.c.Width()-2), full: true}
	if text := strings.TrimSpace(string(action.Args)); text != "" && text != "{}" && text != "null" {
		w.value(action.Args, "")
		r.Lines = append(r.Lines, strings.Split(strings.TrimRight(b.String(), "\n"), "\n")...)
	}
	return r, nil
}

// decide decides about a call.
func (h *chatter) decide(ctx context.Context, action agent.ActionRequest, allowed []agent.DecisionType, nth string, can bool) (agent.Decision, error) {
	var none agent.Decision
	r, err := h.review(action)
	if err != nil {
		return none, err
	}
	switch {
	case h.Reject != nil && slices.Contains(allowed, agent.RejectCall):
		return rejection(r, *h.Reject), nil
	case h.Yes && slices.Contains(allowed, agent.ApproveCall):
		return agent.Decision{Type: agent.ApproveCall}, nil
	case !can:
		return none, errAsk
	}
	return h.ask(ctx, action, allowed, nth, r)
}

func rejection(r Review, reason string) agent.Decision {
	reason = strings.TrimSpace(reason)
	if r.Rejected != nil {
		reason = r.Rejected(reason)
	}
	return agent.Decision{Type: agent.RejectCall, Message: reason}
}

// choice is a decision by the keys that stand for it.
type choice struct {
	key   string
	what  agent.DecisionType
	words string
}

var choices = []choice{
	{"y", agent.ApproveCall, ""}, {"n", agent.RejectCall, ""}, {"e", agent.EditCall, "e to edit"}, {"a", agent.RespondCall, "a to answer in its place"},
}

// shownAtFirst is how many lines of a call are shown at first.
const shownAtFirst = 40

// ask shows a call and asks about it.
func (h *chatter) ask(ctx context.Context, action agent.ActionRequest, allowed []agent.DecisionType, nth string, r Review) (agent.Decision, error) {
	var none agent.Decision
	first := min(len(r.Lines), max(shownAtFirst, h.c.Height()-6))
	h.c.Notef("\n%sThe model wants to %s:", nth, oneLine(r.Title))
	h.showLines(r.Lines[:first])
	question := r.Question
	if question == "" {
		question = "Make this call?"
	}
	var keys, more []string
	for _, c := range choices {
		switch {
		case !slices.Contains(allowed, c.what):
		case c.words == "":
			keys = append(keys, c.key)
		default:
			more = append(more, c.words)
		}
	}
	var offers []string
	if len(keys) > 0 {
		offers = append(offers, strings.Join(keys, "/"))
	}
	offers = append(offers, more...)
	if rest := len(r.Lines) - first; rest > 0 {
		h.c.Notef("… %s", console.Count(rest, "more line"))
		offers = append(offers, "v to view the rest")
	}
	question += " [" + strings.Join(offers, ", ") + "] "
	for {
		text, err := h.c.Ask(ctx, question)
		if err != nil {
			return none, err
		}
		text = strings.ToLower(text)
		if text == "v" || text == "view" {
			h.showLines(r.Lines[first:])
			continue
		}
		d, known, err := h.decided(ctx, action, chosen(text), allowed, r)
		if err != nil || known {
			return d, err
		}
		if len(more) == 0 && len(keys) == 2 {
			h.c.Notef("Please answer y or n.")
		} else {
			h.c.Notef("Please answer with one of the letters.")
		}
	}
}

// chosen returns the decision that was typed; empty if none was.
func chosen(text string) agent.DecisionType {
	if yes, ok := console.YesNo(text); ok {
		if yes {
			return agent.ApproveCall
		}
		return agent.RejectCall
	}
	for _, c := range choices {
		if text == c.key || text == string(c.what) {
			return c.what
		}
	}
	return ""
}

// decided asks for what a decision needs beside itself. It reports whether it was
// one that is allowed.
func (h *chatter) decided(ctx context.Context, action agent.ActionRequest, what agent.DecisionType, allowed []agent.DecisionType, r Review) (d agent.Decision, ok bool, err error) {
	if !slices.Contains(allowed, what) {
		return d, false, nil
	}
	d.Type = what
	switch what {
	case agent.RejectCall:
		reason, err := h.c.Ask(ctx, "Why not? (Enter for no reason) ")
		return rejection(r, reason), true, err
	case agent.RespondCall:
		d.Message, err = h.c.Ask(ctx, "What shall the model be told in place of the result? ")
		return d, true, err
	case agent.EditCall:
		for {
			text, err := h.c.Ask(ctx, "The arguments in JSON, such as "+console.Fit(oneLine(string(action.Args)), 200)+"\n: ")
			if err != nil {
				return d, true, err
			}
			var o map[string]json.RawMessage
			if bad := json.Unmarshal([]byte(text), &o); bad != nil || o == nil {
				h.c.Notef("That is not an object in JSON.")
				continue
			}
			d.Edited = &agent.EditedAction{Name: action.Name, Args: json.RawMessage(text)}
			return d, true, nil
		}
	}
	return d, true, nil
}

func (h *chatter) showLines(lines []string) {
	if len(lines) > 0 {
		h.c.Notef("%s", clean("  "+strings.Join(lines, "\n  ")))
	}
}

// show shows what waits for an answer where there is nobody to give it.
func (h *chatter) show(w *shower, open []question) error {
	for _, q := range open {
		if h.json {
			if err := writeJSON(w.out, eventLine{Type: "interrupt", ID: q.ID, Value: q.Value}, false); err != nil {
				return err
			}
			continue
		}
		req, ok := approvalOf(q)
		if !ok {
			h.a.noteQuestion(q, "")
			continue
		}
		for _, action := range req.Actions {
			r, err := h.review(action)
			if err != nil {
				return err
			}
			h.c.Notef("The model wants to %s:", oneLine(r.Title))
			h.showLines(r.Lines)
		}
	}
	return nil
}
