package agui

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/internal/jsondiff"
	"github.com/superstep-dev/superstep/server/internal/turn"
)

// event is one of the protocol; its type is a member.
type event map[string]any

// teller tells what happens in a run in the protocol's events. What begins also ends before
// the run does.
type teller struct {
	put func(event) error

	texts    []string // IDs of messages that are open
	thoughts []string // and of reasoning
	calls    []string // and of calls of tools
	steps    []string // nodes that work, each as often as it does
	byIndex  map[string]string
	pending  []string // calls without a result

	told  bool                       // of the state
	state map[string]json.RawMessage // without messages
	usage map[string]chat.Usage      // by model
}

func (t *teller) all(events ...event) error {
	for _, e := range events {
		if err := t.put(e); err != nil {
			return err
		}
	}
	return nil
}

func remove(list *[]string, one string) bool {
	i := slices.Index(*list, one)
	if i >= 0 {
		*list = slices.Delete(*list, i, i+1)
	}
	return i >= 0
}

func (t *teller) tell(ev turn.Event) error {
	switch ev := ev.(type) {
	case *turn.Piece:
		return t.piece(ev)
	case *turn.Values:
		return t.values(ev.JSON)
	case *turn.Task:
		return t.task(ev)
	case *turn.Custom:
		var named struct {
			Name  string          `json:"name"`
			Value json.RawMessage `json:"value"`
		}
		if json.Unmarshal(ev.Value, &named) == nil && named.Name != "" && named.Value != nil {
			return t.put(event{"type": "CUSTOM", "name": named.Name, "value": named.Value})
		}
		return t.put(event{"type": "CUSTOM", "name": "custom", "value": ev.Value})
	}
	return nil
}

func (t *teller) task(ev *turn.Task) error {
	switch {
	case len(ev.Within) > 0: // steps of subgraphs have no words in the protocol
		return t.put(event{"type": "RAW", "source": "superstep", "event": map[string]any{"event": "tasks", "within": ev.Within, "data": ev.Raw}})
	case ev.Begins:
		first := !slices.Contains(t.steps, ev.Node) // a name can be active once
		if t.steps = append(t.steps, ev.Node); first {
			return t.put(event{"type": "STEP_STARTED", "stepName": ev.Node})
		}
	case remove(&t.steps, ev.Node) && !slices.Contains(t.steps, ev.Node):
		return t.put(event{"type": "STEP_FINISHED", "stepName": ev.Node})
	}
	return nil
}

func (t *teller) piece(p *turn.Piece) error {
	if result, ok := p.ToolResult(); ok {
		if err := t.endCall(result.CallID); err != nil {
			return err
		}
		remove(&t.pending, result.CallID)
		return t.put(event{"type": "TOOL_CALL_RESULT", "messageId": p.ID, "toolCallId": result.CallID, "content": contentOf(result.Content), "role": "tool"})
	}
	if p.Usage != nil {
		t.usage[p.Model] = t.usage[p.Model].Add(*p.Usage)
	}
	thinking := p.ID + "-reasoning"
	if text := p.Reasoning(); text != "" {
		if !slices.Contains(t.thoughts, thinking) {
			t.thoughts = append(t.thoughts, thinking)
			if err := t.all(event{"type": "REASONING_START", "messageId": thinking}, event{"type": "REASONING_MESSAGE_START", "messageId": thinking, "role": "reasoning"}); err != nil {
				return err
			}
		}
		if err := t.put(event{"type": "REASONING_MESSAGE_CONTENT", "messageId": thinking, "delta": text}); err != nil {
			return err
		}
	}
	if text := p.Text(); text != "" {
		if err := t.endThought(thinking); err != nil {
			return err
		}
		if !slices.Contains(t.texts, p.ID) {
			t.texts = append(t.texts, p.ID)
			if err := t.put(event{"type": "TEXT_MESSAGE_START", "messageId": p.ID, "role": string(p.Role)}); err != nil {
				return err
			}
		}
		if err := t.put(event{"type": "TEXT_MESSAGE_CONTENT", "messageId": p.ID, "delta": text}); err != nil {
			return err
		}
	}
	for _, c := range p.Calls {
		at := p.ID + "/" + strconv.Itoa(c.Index)
		if c.ID != "" && t.byIndex[at] == "" {
			t.byIndex[at] = c.ID
			t.calls, t.pending = append(t.calls, c.ID), append(t.pending, c.ID)
			if err := t.put(event{"type": "TOOL_CALL_START", "toolCallId": c.ID, "toolCallName": c.Name, "parentMessageId": p.ID}); err != nil {
				return err
			}
		}
		if id := t.byIndex[at]; id != "" && c.Args != "" {
			if err := t.put(event{"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": c.Args}); err != nil {
				return err
			}
		}
	}
	if !p.Whole && p.Finish == "" {
		return nil
	}
	if err := t.endThought(thinking); err != nil {
		return err
	}
	for _, at := range slices.Sorted(maps.Keys(t.byIndex)) {
		if strings.HasPrefix(at, p.ID+"/") {
			if err := t.endCall(t.byIndex[at]); err != nil {
				return err
			}
		}
	}
	return t.endText(p.ID)
}

func (t *teller) endText(id string) error {
	if !remove(&t.texts, id) {
		return nil
	}
	return t.put(event{"type": "TEXT_MESSAGE_END", "messageId": id})
}

func (t *teller) endThought(id string) error {
	if !remove(&t.thoughts, id) {
		return nil
	}
	return t.all(event{"type": "REASONING_MESSAGE_END", "messageId": id}, event{"type": "REASONING_END", "messageId": id})
}

func (t *teller) endCall(id string) error {
	if !remove(&t.calls, id) {
		return nil
	}
	return t.put(event{"type": "TOOL_CALL_END", "toolCallId": id})
}

// values tells of the state: all of it first, and then what has changed.
func (t *teller) values(raw json.RawMessage) error {
	_, now := split(raw)
	before := t.state
	t.state = now
	if !t.told {
		t.told = true
		return t.put(event{"type": "STATE_SNAPSHOT", "snapshot": now})
	}
	data := marshal(now)
	switch patch := delta(marshal(before), data); {
	case len(patch) == 0:
		return nil
	case len(patch) > largePatch && len(marshal(patch)) > len(data): // of a list that slides, say
		return t.put(event{"type": "STATE_SNAPSHOT", "snapshot": now})
	default:
		return t.put(event{"type": "STATE_DELTA", "delta": patch})
	}
}

// largePatch is how many operations may be more to tell than the whole state.
const largePatch = 50

func same(a, b json.RawMessage) bool { return a != nil && b != nil && len(delta(a, b)) == 0 }

// delta is a JSON Patch that makes a of b's form.
func delta(a, b json.RawMessage) []event {
	x, _ := jsondiff.Decode(string(a)) // of JSON
	y, _ := jsondiff.Decode(string(b))
	patch := []event{}
	for _, c := range jsondiff.Changes(x, y) {
		at := ""
		for _, step := range c.Path {
			at += "/" + pointer.Replace(fmt.Sprint(step))
		}
		one := event{"op": c.Op, "path": at}
		if c.Op != "remove" {
			one["value"] = c.New
		}
		patch = append(patch, one)
	}
	return patch
}

var pointer = strings.NewReplacer("~", "~0", "/", "~1")

// end ends all that is open.
func (t *teller) end() error {
	for _, step := range []struct {
		open *[]string
		end  func(string) error
	}{{&t.thoughts, t.endThought}, {&t.texts, t.endText}, {&t.calls, t.endCall}} {
		for len(*step.open) > 0 {
			if err := step.end((*step.open)[0]); err != nil {
				return err
			}
		}
	}
	slices.Sort(t.steps)
	for _, node := range slices.Compact(t.steps) {
		if err := t.put(event{"type": "STEP_FINISHED", "stepName": node}); err != nil {
			return err
		}
	}
	t.steps = nil
	return nil
}

// used is what the run has cost.
func (t *teller) used() []event {
	var out []event
	for _, model := range slices.Sorted(maps.Keys(t.usage)) {
		u := t.usage[model]
		one := event{"inputTokens": u.Input, "outputTokens": u.Output, "totalTokens": u.Total()}
		for name, n := range map[string]int{"reasoningTokens": u.Reasoning, "cachedInputTokens": u.CacheRead, "cacheWriteInputTokens": u.CacheWrite} {
			if n > 0 {
				one[name] = n
			}
		}
		if model != "" {
			one["model"] = model
		}
		out = append(out, one)
	}
	return out
}

// follow streams the events of a run.
func (a Agents) follow(w http.ResponseWriter, r *http.Request, in *input, run turn.Run, before *turn.Thread) error {
	out, err := turn.NewStream(w)
	if err != nil {
		return err
	}
	t := &teller{byIndex: map[string]string{}, usage: map[string]chat.Usage{}, put: func(e event) error { return out.Send("", e) }}
	started := event{"type": "RUN_STARTED", "threadId": in.ThreadID, "runId": in.RunID, "protocolVersion": Version, "metadata": event{"superstep_run_id": run.ID()}}
	if in.Parent != "" {
		started["parentRunId"] = in.Parent
	}
	if err := t.put(started); err != nil {
		return err
	}
	end, err := run.Follow(r.Context(), out.BeatAlone, t.tell)
	if err != nil && r.Context().Err() != nil {
		return err
	}
	if err := t.end(); err != nil {
		return err
	}
	usage := t.used()
	if err != nil || end.Failure != nil {
		told := event{"type": "RUN_ERROR"}
		if err != nil {
			f := a.Server.Explain(r, err)
			told["message"], told["code"] = f.Text, codeOf(f)
		} else {
			told["message"], told["code"] = end.Failure.Text, end.Failure.Type
		}
		if usage != nil {
			told["usage"] = usage
		}
		return t.put(told)
	}
	if !t.told {
		if err := t.values(end.Values); err != nil {
			return err
		}
	}
	list := []message{}
	for _, m := range turn.MessagesOf(end.Values) {
		list = append(list, shown(m))
	}
	if len(list) > 0 || len(before.Messages()) > 0 {
		if err := t.put(event{"type": "MESSAGES_SNAPSHOT", "messages": list}); err != nil {
			return err
		}
	}
	done := event{"type": "RUN_FINISHED", "threadId": in.ThreadID, "runId": in.RunID, "outcome": t.outcome(end)}
	if usage != nil {
		done["usage"] = usage
	}
	return t.put(done)
}

// outcome says how a run ended that has not failed.
func (t *teller) outcome(end *turn.End) event {
	switch {
	case len(end.Questions) > 0:
		var open []event
		for _, q := range end.Questions {
			one := event{"id": q.ID, "reason": "question", "message": q.Text(), "metadata": event{"value": q.Value, "key": q.Key}}
			if strings.HasPrefix(string(q.Schema), "{") {
				one["responseSchema"] = q.Schema
			}
			open = append(open, one)
		}
		return event{"type": "interrupt", "interrupts": open}
	case end.Cancelled:
		return event{"type": "cancelled"}
	}
	out := event{"type": "success"}
	if len(t.pending) > 0 {
		out["pendingToolCallIds"] = t.pending
	}
	return out
}
