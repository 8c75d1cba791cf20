package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/tool"
)

// watcher makes a session's events of those of a graph.
type watcher struct {
	skipUser bool              // a message of the user is the input, which was written down
	said     []string          // texts that it may have
	inputs   map[string]string // texts of those that were it, by ID

	executed map[string][]ModelExecutionMetadata // of tasks
	called   map[string]ToolExecutionMetadata    // by call
	shown    map[string]bool                     // messages that a subgraph has told of
	running  map[string]int                      // supersteps that have begun, by path
	final    *chat.Message                       // the last answer
	answered bool                                // LastResponse was written
	open     []Question
}

// told is an event, and what is to be done with it.
type told struct {
	Event
	kept  bool // in the session
	quiet bool // not yielded
}

func (w *watcher) events(ev graph.Event, durable bool) []told {
	e := Event{Time: ev.Time, Node: ev.Node, Path: ev.Path, Task: ev.Task, Step: ev.Step, Attempt: ev.Attempt, Author: ev.Node}
	if e.Author == "" {
		e.Author = AuthorNode
	}
	one := func(k Kind) []told { e.Kind = k; return []told{{Event: e}} }
	switch ev.Type {
	case graph.EventMessage:
		return w.piece(e, ev.Value)
	case graph.EventCustom:
		return w.custom(e, ev)
	case graph.EventToolCall:
		if c, ok := ev.Value.(tool.Started); ok {
			e.Call = &ToolCall{ID: c.CallID, Name: c.Name, Args: bytes.Clone(c.Args)}
			w.note(&w.called, c.CallID, ToolExecutionMetadata{Node: e.Author, CallID: c.CallID, Tool: c.Name, Input: e.Call.Args})
			return one(KindToolCall)
		}
		e.Custom = ev.Value
		return one(KindCustom)
	case graph.EventToolResult:
		if c, ok := ev.Value.(tool.Ended); ok {
			return w.ended(e, c)
		}
		e.Custom = ev.Value
		return one(KindCustom)
	case graph.EventTaskStart:
		out := w.begun(e)
		return append(out, one(KindNodeStart)...)
	case graph.EventTaskEnd:
		e.StateDelta, e.Duration = deltaOf(ev.Update), ev.Duration
		return one(KindNodeEnd)
	case graph.EventTaskError, graph.EventTaskRetry:
		e.Err, e.Duration = ev.Err, ev.Duration
		if ev.Type == graph.EventTaskRetry {
			e.Duration = ev.Delay
			return one(KindNodeRetry)
		}
		e.Author = AuthorPregel
		return one(KindNodeError)
	case graph.EventUpdate:
		return w.update(e, ev, durable)
	case graph.EventValues:
		e.Author, e.Next = AuthorPregel, ev.Next
		var out []told
		if ev.Step > 0 {
			step := e
			step.Kind, step.Next = KindStep, nil
			out = append(out, told{Event: step})
		}
		if len(ev.Next) > 0 {
			out = append(out, one(KindPlanning)...)
		}
		return out
	case graph.EventCheckpoint:
		e.Author, e.Checkpoint, e.Source, e.Next = AuthorExecutor, ev.Checkpoint, ev.Source, ev.Next
		return one(KindCheckpoint)
	case graph.EventInterrupt:
		if ev.Interrupt == nil {
			return nil
		}
		q := questionOf(ev.Interrupt)
		e.Kind, e.Question = KindInterrupt, &q
		w.open = append(w.open, q)
		return []told{{Event: e, kept: true}}
	}
	return nil
}

func (*watcher) note(m *map[string]ToolExecutionMetadata, id string, t ToolExecutionMetadata) {
	if *m == nil {
		*m = map[string]ToolExecutionMetadata{}
	}
	(*m)[id] = t
}

// piece is a part of a message that a node streams.
func (w *watcher) piece(e Event, v any) []told {
	e.Kind, e.Partial = KindDelta, true
	switch v := v.(type) {
	case chat.Chunk:
		e.Delta = &Piece{Content: v.Text, Reasoning: v.Reasoning, Message: v.ID, Chunk: v}
		if v.Text == "" {
			for _, p := range v.Parts { // a message that came as a whole
				if t, ok := p.(chat.Text); ok {
					e.Delta.Content += t.Text
				}
			}
		}
	case string:
		e.Delta = &Piece{Content: v, Chunk: chat.Chunk{Text: v}}
	default:
		e.Kind, e.Partial, e.Custom = KindCustom, false, v
	}
	return []told{{Event: e}}
}

func (w *watcher) custom(e Event, ev graph.Event) []told {
	switch v := ev.Value.(type) {
	case *Event:
		if v.Kind == KindState && v.Seq > 0 { // written by State.Set
			return []told{{Event: *v}}
		}
	case execution:
		e.Kind = KindModelEnd
		e.StateDelta, e.Duration, e.Error = metadata(KeyModelMetadata, v.ModelExecutionMetadata), v.Duration, v.Error
		if v.Error == "" {
			if w.executed == nil {
				w.executed = map[string][]ModelExecutionMetadata{}
			}
			id := taskKey(ev)
			w.executed[id] = append(w.executed[id], v.ModelExecutionMetadata)
		}
		return []told{{Event: e}}
	}
	e.Kind, e.Custom = KindCustom, ev.Value
	return []told{{Event: e}}
}

// taskKey names a task in a way that its update has as well.
func taskKey(ev graph.Event) string {
	_, index, _ := strings.Cut(ev.Task, ".")
	return fmt.Sprint(strings.Join(ev.Path, "/"), "\x00", ev.Node, "\x00", ev.Step, "\x00", index)
}

func (w *watcher) ended(e Event, c tool.Ended) []told {
	t := w.called[c.CallID]
	t.Node, t.CallID, t.Tool, t.Duration, t.Recorded = e.Author, c.CallID, c.Name, c.Duration, c.Recorded
	t.Artifact = bytes.Clone(c.Result.Artifact)
	t.Output = chat.ToolResult{Content: c.Result.Content}.Text()
	if c.Err != nil {
		t.Error, e.Err = c.Err.Error(), c.Err
	}
	w.note(&w.called, c.CallID, t)
	e.Kind, e.Duration = KindToolEnd, c.Duration
	e.Call = &ToolCall{ID: c.CallID, Name: c.Name, Args: t.Input}
	e.StateDelta = metadata(KeyToolMetadata, t)
	return []told{{Event: e}}
}

// begun tells of a superstep whose first task starts.
func (w *watcher) begun(e Event) []told {
	path := strings.Join(e.Path, "/")
	if step, ok := w.running[path]; ok && step == e.Step {
		return nil
	}
	if w.running == nil {
		w.running = map[string]int{}
	}
	w.running[path] = e.Step
	return []told{{Event: Event{Time: e.Time, Kind: KindExecution, Author: AuthorPregel, Path: e.Path, Step: e.Step}}}
}

// update tells of what a task has committed, and of the messages in it.
func (w *watcher) update(e Event, ev graph.Event, durable bool) []told {
	state := e
	state.Kind, state.Author, state.StateDelta = KindUpdate, AuthorExecutor, deltaOf(ev.Update)
	out := []told{{Event: state}}
	if _, ok := state.StateDelta["last_response"]; ok && len(ev.Path) == 0 {
		w.answered = true
	}
	took := string(state.StateDelta["user_input"]) == `""`
	executed := w.executed[taskKey(ev)]
	delete(w.executed, taskKey(ev))
	for _, m := range messagesOf(state.StateDelta["messages"]) {
		t := told{Event: e, kept: len(ev.Path) == 0}
		t.Message, t.Task, t.InThread = &m, "", durable && t.kept
		id := m.ID
		switch m.Role {
		case chat.RoleUser:
			if w.isInput(m, took, t.kept) {
				continue
			}
			t.Kind = KindMessage
		case chat.RoleAssistant:
			t.Kind = KindModel
			meta := ModelExecutionMetadata{Node: e.Author, Model: m.Model}
			if len(executed) > 0 {
				// Without the whole conversation, which is kept elsewhere.
				meta, executed = executed[0], executed[1:]
				meta.Input, meta.Output = nil, nil
				t.Duration = meta.Duration
			}
			t.StateDelta = metadata(KeyModelMetadata, meta)
			if len(m.ToolCalls()) == 0 && t.kept {
				w.final = &m
			}
		case chat.RoleTool:
			t.Kind = KindTool
			if r, ok := m.ToolResult(); ok {
				if id == "" {
					id = "call:" + r.CallID
				}
				if meta, ok := w.called[r.CallID]; ok {
					meta.Input, meta.Output, meta.Artifact = nil, "", nil
					t.StateDelta, t.Duration = metadata(KeyToolMetadata, meta), meta.Duration
				}
			}
		default:
			t.Kind = KindMessage
		}
		if t.quiet = w.shown[id] && t.kept; !t.kept {
			if w.shown == nil {
				w.shown = map[string]bool{}
			}
			w.shown[id] = true
		}
		out = append(out, t)
	}
	return out
}

// isInput reports whether a message that a task has committed is what the user
// said: the task took UserInput, or left it and the text is the same. Those that
// answer it in one superstep all commit it.
func (w *watcher) isInput(m chat.Message, took, kept bool) bool {
	text := m.Text()
	if was, ok := w.inputs[m.ID]; ok && was == text {
		return true
	}
	if !w.skipUser || !took && (text == "" || !slices.Contains(w.said, text)) {
		return false
	}
	w.skipUser = !kept // a subgraph's is that of its node, too
	if w.inputs == nil {
		w.inputs = map[string]string{}
	}
	if m.ID != "" {
		w.inputs[m.ID] = text
	}
	return true
}

// messagesOf reads the messages that were added in an update of a conversation.
func messagesOf(update json.RawMessage) []chat.Message {
	if len(update) == 0 {
		return nil
	}
	var typed struct { // of a field whose state is a map
		Type  string          `json:"$type"`
		Value json.RawMessage `json:"$value"`
	}
	if json.Unmarshal(update, &typed) == nil && typed.Type != "" {
		update = typed.Value
	}
	var h chat.History
	c, err := h.Merger().DecodeChange(update)
	if err != nil || h.Merger().Apply(c) != nil {
		return nil // a field of that name that isn't a conversation
	}
	return h.Slice()
}

// deltaOf copies an update of the graph's state.
func deltaOf(update json.RawMessage) map[string]json.RawMessage {
	if len(update) == 0 {
		return nil
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(update, &fields) != nil {
		return nil // not an object: there are no fields
	}
	for k := range fields {
		if strings.HasPrefix(k, "_") {
			delete(fields, k)
		}
	}
	return fields
}

func metadata[T any](key string, v T) map[string]json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil { // a message that JSON has no form for
		data, _ = json.Marshal(map[string]string{"error": "metadata: " + err.Error()})
	}
	return map[string]json.RawMessage{key: data}
}
