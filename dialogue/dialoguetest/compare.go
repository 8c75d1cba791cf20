package dialoguetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/internal/yamlvalue"
)

// compare reports what a turn should have shown and didn't.
func (r *run) compare(where string, t Turn, user *talk, s *seen) {
	fail := func(format string, args ...any) { r.failf(where, format, args...) }
	switch {
	case t.Error != "":
		if s.err == nil || !strings.Contains(s.err.Error(), t.Error) {
			fail("error: want %q, got %v", t.Error, s.err)
		}
	case s.err != nil:
		fail("error: %v", s.err)
		return
	}
	r.words(t, user, s, fail)
	st := &user.state
	if t.Stack != nil || t.StackStates != nil {
		var names, states []string
		for _, f := range st.FlowStack {
			if st.Metadata.Machine.Frames[f.FlowID].Role == dialogue.ByPattern {
				continue
			}
			names, states = append(names, f.FlowName), append(states, string(f.FlowState))
		}
		if t.Stack != nil && !slices.Equal(*t.Stack, names) {
			fail("stack: want %v, got %v", *t.Stack, names)
		}
		if t.StackStates != nil && !slices.Equal(*t.StackStates, states) {
			fail("stack_states: want %v, got %v", *t.StackStates, states)
		}
	}
	if !t.Wait.IsZero() {
		if want := yamlvalue.Of(&t.Wait).String(); want != st.WaitingForSlot {
			fail("wait: want %q, got %q", want, st.WaitingForSlot)
		}
	}
	if t.Options != nil {
		var got []string
		if w := s.reply.Waiting; w != nil {
			for _, o := range w.Options {
				v := o.Value
				if v.IsNone() {
					v = expr.Str(o.ID)
				}
				got = append(got, v.String())
			}
		}
		if want := texts(*t.Options); !slices.Equal(want, got) {
			fail("options: want %v, got %v", want, got)
		}
	}
	if t.State != "" && t.State != string(st.ConversationState) {
		fail("state: want %s, got %s", t.State, st.ConversationState)
	}
	if t.Depth != nil && *t.Depth != st.DigressionDepth {
		fail("depth: want %d, got %d", *t.Depth, st.DigressionDepth)
	}
	r.calls(t, user, s, fail)
	r.values(t, user, fail)
	kinds := map[string]bool{}
	for _, e := range s.reply.Events {
		kinds[e.Name] = true
	}
	ignored := map[string]bool{}
	for _, e := range st.Trace {
		if e.Turn > s.before {
			kinds[e.Kind] = true
			if e.Kind == "command_ignored" {
				ignored[e.Reason], ignored[e.Command] = true, true
			}
		}
	}
	for _, k := range t.Events {
		if !kinds[k] {
			fail("events: no %s", k)
		}
	}
	for _, k := range t.Ignored {
		if !ignored[k] {
			fail("ignored: no %s", k)
		}
	}
	if t.NLUCalls != nil && *t.NLUCalls != s.nluCalls {
		fail("nlu_calls: want %d, got %d", *t.NLUCalls, s.nluCalls)
	}
	for _, h := range t.Hidden {
		for where, text := range user.kept() {
			if strings.Contains(text, h) {
				fail("hidden: %q occurs in %s", h, where)
			}
		}
	}
}

// words compares what was said.
func (r *run) words(t Turn, user *talk, s *seen, fail func(string, ...any)) {
	text := strings.Join(s.text, "\n")
	low := strings.ToLower(text)
	from := 0
	for _, w := range t.Has {
		at := strings.Index(low[from:], strings.ToLower(w))
		if at < 0 {
			fail("has: no %q in %q", w, text)
			continue
		}
		if t.InOrder {
			from += at + len(w)
		}
	}
	for _, w := range t.Not {
		if strings.Contains(low, strings.ToLower(w)) {
			fail("not: %q in %q", w, text)
		}
	}
	if len(t.HasAny) > 0 && !slices.ContainsFunc(t.HasAny, func(w string) bool { return strings.Contains(low, strings.ToLower(w)) }) {
		fail("has_any: none of %q in %q", t.HasAny, text)
	}
	if t.Says != nil && !slices.Equal(*t.Says, s.says) {
		fail("says: want %v, got %v", *t.Says, s.says)
	}
	if t.Silent && text != "" {
		fail("silent: said %q", text)
	}
	if n := t.SameReplyAs; n > 0 {
		if n > len(user.replies) {
			fail("same_reply_as: there is no turn %d", n)
		} else if want := user.replies[n-1].Text; want != s.reply.Text {
			fail("same_reply_as: want %q, got %q", want, s.reply.Text)
		}
	}
}

// calls compares which actions ran.
func (r *run) calls(t Turn, user *talk, s *seen, fail func(string, ...any)) {
	var names []string
	counts, last := map[string]int{}, map[string]map[string]expr.Value{}
	for _, c := range s.calls {
		names = append(names, c.Action)
		counts[c.Action]++
		last[c.Action] = c.Inputs
	}
	want := t.Calls
	if r.runner.Open != nil && want != nil { // those of one step are begun in any order
		sorted := slices.Sorted(slices.Values(*want))
		want = &sorted
		slices.Sort(names)
	}
	if want != nil && !slices.Equal(*want, names) {
		fail("calls: want %v, got %v", *want, names)
	}
	for name, n := range t.CallsCount {
		if counts[name] != n {
			fail("calls_count: want %d of %s, got %d", n, name, counts[name])
		}
	}
	for _, name := range t.NotCalled {
		if counts[name] > 0 {
			fail("not_called: %s was called", name)
		}
	}
	for name, args := range t.CallArgs {
		in, ok := last[name]
		if !ok {
			fail("call_args: %s was not called", name)
			continue
		}
		compareValues("call_args: "+name, args, in, fail)
	}
	ledger := map[string]int{}
	for _, action := range user.ledger {
		ledger[action]++
	}
	for name, n := range t.Ledger {
		if ledger[name] != n {
			fail("ledger: want %d of %s, got %d", n, name, ledger[name])
		}
	}
}

// values compares slots and the archive.
func (r *run) values(t Turn, user *talk, fail func(string, ...any)) {
	st := &user.state
	slots := st.Metadata.Machine.Ended
	if f, ok := st.Active(); ok {
		slots = st.FlowSlots[f.FlowID]
	}
	compareValues("slots", t.Slots, slots, fail)
	for _, name := range t.SlotsAbsent {
		if v, ok := slots[name]; ok {
			fail("slots_absent: %s is %s", name, v)
		}
	}
	compareValues("session", t.Session, st.FlowSlots["session"], fail)
	if t.ArchiveLast == "" && t.ArchiveSt == "" && t.Outputs == nil {
		return
	}
	if len(st.Metadata.CompletedFlows) == 0 {
		fail("archive: it is empty")
		return
	}
	last := st.Metadata.CompletedFlows[len(st.Metadata.CompletedFlows)-1]
	if t.ArchiveLast != "" && t.ArchiveLast != last.FlowName {
		fail("archive_last: want %s, got %s", t.ArchiveLast, last.FlowName)
	}
	if t.ArchiveSt != "" && t.ArchiveSt != string(last.FlowState) {
		fail("archive_state: want %s, got %s", t.ArchiveSt, last.FlowState)
	}
	compareValues("outputs", t.Outputs, last.Outputs, fail)
}

func compareValues(what string, want map[string]yaml.Node, got map[string]expr.Value, fail func(string, ...any)) {
	for name, n := range want {
		w := yamlvalue.Of(&n)
		v, ok := got[name]
		if !ok || !w.Same(v) {
			fail("%s: want %s = %s (%s), got %s", what, name, w, w.Kind(), describe(v, ok))
		}
	}
}

func describe(v expr.Value, ok bool) string {
	if !ok {
		return "nothing"
	}
	return fmt.Sprintf("%s (%s)", v, v.Kind())
}

func texts(nodes []yaml.Node) []string {
	out := make([]string, len(nodes))
	for i := range nodes {
		out[i] = yamlvalue.Of(&nodes[i]).String()
	}
	return out
}

// kept are the texts in which nothing sensitive may occur.
func (t *talk) kept() map[string]string {
	out := map[string]string{"user_message": t.state.UserMessage, "last_response": t.state.LastResponse}
	for name, v := range map[string]any{"messages": t.state.Messages, "trace": t.state.Trace, "nlu_result": t.state.NLUResult} {
		text, err := json.Marshal(v)
		if err != nil {
			text = []byte(err.Error())
		}
		out[name] = string(text)
	}
	for i, p := range t.prompts {
		out[fmt.Sprintf("prompt %d", i+1)] = p
	}
	return out
}
