package server

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server/internal/db"
)

// The modes of streams.
const (
	modeValues        = "values"
	modeUpdates       = "updates"
	modeMessages      = "messages"
	modeMessagesTuple = "messages-tuple"
	modeCustom        = "custom"
	modeDebug         = "debug"
	modeTasks         = "tasks"
	modeCheckpoints   = "checkpoints"
	modeTools         = "tools"
)

// modes says what of a run each mode is made of.
var modes = map[string]graph.Mode{
	modeValues:        graph.ModeValues,
	modeUpdates:       graph.ModeUpdates | graph.ModeValues,
	modeMessages:      graph.ModeMessages | graph.ModeUpdates | graph.ModeValues,
	modeMessagesTuple: graph.ModeMessages | graph.ModeUpdates | graph.ModeValues,
	modeCustom:        graph.ModeCustom,
	modeDebug:         graph.ModeTasks | graph.ModeCheckpoints | graph.ModeValues,
	modeTasks:         graph.ModeTasks | graph.ModeValues,
	modeCheckpoints:   graph.ModeCheckpoints | graph.ModeValues,
	modeTools:         graph.ModeTools,
	modeEvents:        graph.ModeTasks | graph.ModeMessages | graph.ModeTools | graph.ModeValues,
}

// about is what events say of their run.
type about struct {
	run       *db.Run
	assistant *db.Assistant
	graph     string
	tags      []string
}

// encoder turns what happens in a run into the events of a stream. It is used by
// one goroutine.
type encoder struct {
	about
	modes     []string
	subgraphs bool
	send      func(event string, data []byte)

	speaking map[string]string          // message ID, by the task that streams it
	spoken   map[string]*chat.Collector // messages that were streamed, by ID
	whole    map[string]bool            // messages that were sent whole
	complete []complete                 // messages that are whole, of which the mode messages tells after the values
	input    object                     // of the run, whose messages are still to be told
	states   map[string]state           // newest state of each graph that runs, by its namespace
	pending  *graph.Event               // a checkpoint whose values are still to come
	feedback []string
	moment   func(ns, id string, nested bool) (*threadState, error) // of the thread: see [states.momentAt]
	tracer                                                          // of the mode events
}

func newEncoder(b *runBody, a about, send func(string, []byte)) *encoder {
	return &encoder{
		about: a, modes: b.StreamMode, subgraphs: b.StreamSubgraphs, send: send, feedback: b.FeedbackKeys,
		speaking: map[string]string{}, spoken: map[string]*chat.Collector{}, whole: map[string]bool{}, states: map[string]state{},
	}
}

// state returns a graph's state; it is encoded when it is asked for.
type state func() (json.RawMessage, error)

// wants are the events that the modes are made of.
func (e *encoder) wants() graph.Mode {
	var m graph.Mode
	for _, name := range e.modes {
		m |= modes[name]
	}
	return m
}

func (e *encoder) has(mode string) bool { return slices.Contains(e.modes, mode) }

// emit sends an event. Those of subgraphs have their namespace in the name.
func (e *encoder) emit(name string, ns []string, data any) error {
	encoded, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("event %s: %w", name, err)
	}
	if len(ns) > 0 {
		name += "|" + strings.Join(ns, "|")
	}
	e.send(name, encoded)
	return nil
}

// metadata sends the first event.
func (e *encoder) metadata() {
	_ = e.emit("metadata", nil, map[string]any{"run_id": e.run.ID, "attempt": e.run.Attempt}) // of texts
}

// event sends what an event of the engine is to the modes.
func (e *encoder) event(ev graph.Event) error {
	if e.has(modeEvents) {
		if err := e.traceEvent(ev); err != nil {
			return err
		}
	}
	shown := len(ev.Path) == 0 || e.subgraphs
	switch ev.Type {
	case graph.EventMessage, graph.EventUpdate, graph.EventValues: // messages are shown wherever they are said
	case graph.EventTaskEnd, graph.EventTaskError:
		e.left(ev)
		fallthrough
	default:
		if !shown {
			return nil
		}
	}
	switch ev.Type {
	case graph.EventValues:
		var state state = sync.OnceValues(func() (json.RawMessage, error) { return wholeMessages(ev.StateJSON()) }) // not every mode needs it
		e.states[place(ev)] = state
		if err := e.asked(state); err != nil {
			return err
		}
		if err := e.checkpoint(state); err != nil {
			return err
		}
		if e.has(modeValues) && shown {
			data, err := wholeMessages(ev.OutputJSON())
			if err != nil {
				return err
			}
			if err := e.emit(modeValues, namespaceOf(ev), data); err != nil {
				return err
			}
		}
		return e.completed(place(ev))
	case graph.EventUpdate:
		if err := e.messagesOf(ev); err != nil {
			return err
		}
		if e.has(modeUpdates) && shown && ev.Node != "" {
			update := ev.Update
			if update == nil {
				update = json.RawMessage("null")
			}
			return e.emit(modeUpdates, namespaceOf(ev), map[string]json.RawMessage{ev.Node: update})
		}
	case graph.EventMessage:
		return e.message(ev)
	case graph.EventCustom:
		if e.has(modeCustom) {
			return e.emit(modeCustom, namespaceOf(ev), ev.Value)
		}
	case graph.EventToolCall, graph.EventToolResult:
		return e.tool(ev)
	case graph.EventTaskStart, graph.EventTaskEnd, graph.EventTaskError:
		return e.task(ev)
	case graph.EventCheckpoint:
		if err := e.checkpoint(nil); err != nil {
			return err
		}
		if (e.has(modeCheckpoints) || e.has(modeDebug)) && !inside(ev.Source) {
			e.pending = &ev
		}
	}
	return nil
}

// checkpoint sends the checkpoint that waits for its values.
func (e *encoder) checkpoint(state state) error {
	ev := e.pending
	if ev == nil {
		return nil
	}
	e.pending = nil
	if state == nil {
		state = e.states[""]
	}
	at := &threadState{Values: json.RawMessage("null"), Next: append([]string{}, ev.Next...), Checkpoint: refTo(e.run.ThreadID, place(*ev), ev.Checkpoint)}
	if state != nil {
		var err error
		if at.Values, err = state(); err != nil {
			return err
		}
	}
	source, parent := ev.Source, ev.Parent
	if takes(source, ev.Checkpoint, parent, ev.Next) {
		source, parent = string(checkpoint.SourceLoop), beforeInput(ev.Checkpoint)
		before, err := e.moment(place(*ev), cmp.Or(ev.Parent, graph.Start), false)
		if err != nil {
			return err
		}
		input := &threadState{Values: before.Values, Next: []string{graph.Start}, Checkpoint: refTo(e.run.ThreadID, place(*ev), parent), Parent: before.Checkpoint}
		input.Metadata = metadataOf(nil, string(checkpoint.SourceInput), ev.Step-1)
		if err := e.tellMoment(namespaceOf(*ev), ev.Time, input); err != nil {
			return err
		}
	}
	at.Metadata, at.Parent = metadataOf(nil, source, ev.Step), refTo(e.run.ThreadID, place(*ev), parent)
	return e.tellMoment(namespaceOf(*ev), ev.Time, at)
}

// tellMoment sends a checkpoint of the thread.
func (e *encoder) tellMoment(ns []string, when time.Time, s *threadState) error {
	if s.Metadata["run_id"] == nil {
		s.Metadata["run_id"], s.Metadata["thread_id"] = jsonText(e.run.ID), jsonText(e.run.ThreadID)
	}
	payload := map[string]any{
		"config": configOf(s.Checkpoint), "parent_config": configOf(s.Parent), "checkpoint": s.Checkpoint, "parent_checkpoint": s.Parent,
		"values": s.Values, "metadata": s.Metadata, "next": s.Next, "tasks": []any{},
	}
	if e.has(modeCheckpoints) {
		if err := e.emit(modeCheckpoints, ns, payload); err != nil {
			return err
		}
	}
	var step int
	_ = json.Unmarshal(s.Metadata["step"], &step) // it is one
	return e.debug(graph.Event{Step: step, Time: when}, ns, "checkpoint", payload)
}

func configOf(ref *checkpointRef) any {
	if ref == nil {
		return nil
	}
	return map[string]any{"configurable": ref}
}

func (e *encoder) debug(ev graph.Event, ns []string, kind string, payload any) error {
	if !e.has(modeDebug) {
		return nil
	}
	return e.emit(modeDebug, ns, map[string]any{
		"step": ev.Step, "type": kind, "timestamp": instant(ev.Time), "payload": payload,
	})
}

// place names the graph of an event among those that run.
func place(ev graph.Event) string { return strings.Join(namespaceOf(ev), "|") }

// seat names the task of an event among those that run.
func seat(ev graph.Event) string {
	return strings.Join(append(namespaceOf(ev), segment(ev.Node, ev.Task)), "|")
}

// left forgets the states of a task's subgraphs.
func (e *encoder) left(ev graph.Event) {
	at := seat(ev)
	maps.DeleteFunc(e.states, func(place string, _ state) bool { return place == at || strings.HasPrefix(place, at+"|") })
}

// inputOf returns what a task begins with: what was sent to it, or else its graph's
// state. Of a run that goes on with a thread nothing is told of the state before
// the first superstep ends: until then it is null.
func (e *encoder) inputOf(ev graph.Event) (json.RawMessage, error) {
	if ev.Input != nil {
		return ev.Input, nil
	}
	if state := e.states[place(ev)]; state != nil {
		return state()
	}
	return json.RawMessage("null"), nil
}

func (e *encoder) task(ev graph.Event) error {
	if !e.has(modeTasks) && !e.has(modeDebug) {
		return nil
	}
	payload := map[string]any{"id": ev.Task, "name": ev.Node, "interrupts": []any{}}
	kind := "task_result"
	switch ev.Type {
	case graph.EventTaskStart:
		kind = "task"
		input, err := e.inputOf(ev)
		if err != nil {
			return err
		}
		payload["input"] = input
		payload["triggers"] = []string{"branch:to:" + ev.Node}
		payload["metadata"] = e.messageMetadata(ev)
	case graph.EventTaskEnd:
		payload["result"], payload["error"] = ev.Update, nil
	default:
		payload["error"] = errorOf(ev.Err).Message
	}
	if e.has(modeTasks) {
		if err := e.emit(modeTasks, namespaceOf(ev), payload); err != nil {
			return err
		}
	}
	return e.debug(ev, namespaceOf(ev), kind, payload)
}

func (e *encoder) tool(ev graph.Event) error {
	if !e.has(modeTools) {
		return nil
	}
	return e.emit(modeTools, namespaceOf(ev), toolEvent(ev))
}

// messageMetadata is what clients are told of where a message comes from.
func (e *encoder) messageMetadata(ev graph.Event) map[string]any {
	ns := seat(ev)
	return map[string]any{
		"tags": append(append([]string{}, e.tags...), ev.Tags...), "langgraph_node": ev.Node, "langgraph_step": ev.Step,
		"langgraph_triggers": []string{"branch:to:" + ev.Node}, "langgraph_path": []string{"__pregel_pull", ev.Node},
		"langgraph_checkpoint_ns": ns, "checkpoint_ns": ns, "thread_id": e.run.ThreadID, "run_id": e.run.ID,
		"graph_id": e.graph, "assistant_id": e.run.AssistantID, "run_attempt": e.run.Attempt,
	}
}

// message sends a chunk of a message that is being made.
func (e *encoder) message(ev graph.Event) error {
	k, ok := ev.Value.(chat.Chunk)
	if !ok || !e.has(modeMessages) && !e.has(modeMessagesTuple) {
		return nil
	}
	task := seat(ev)
	if k.ID != "" {
		e.speaking[task] = k.ID
	}
	id := e.speaking[task]
	if id == "" {
		return nil // a message that nothing can be added to
	}
	sum := e.spoken[id]
	first := sum == nil
	if first {
		sum = &chat.Collector{}
		e.spoken[id] = sum
	}
	k.ID = id
	sum.Add(k)
	if e.has(modeMessagesTuple) {
		data, err := chunkJSON(k)
		if err != nil {
			return err
		}
		if err := e.emit("messages", e.path(ev), []any{data, e.messageMetadata(ev)}); err != nil {
			return err
		}
	}
	if !e.has(modeMessages) {
		return nil
	}
	if first {
		if err := e.emit("messages/metadata", e.path(ev), map[string]any{id: map[string]any{"metadata": e.messageMetadata(ev)}}); err != nil {
			return err
		}
	}
	m, err := json.Marshal(sum.Message())
	if err != nil {
		return err
	}
	return e.emit("messages/partial", e.path(ev), []json.RawMessage{wholeMessage(m)})
}

// path is the part of an event's name that says where it happened.
func (e *encoder) path(ev graph.Event) []string {
	if !e.subgraphs {
		return nil
	}
	return namespaceOf(ev)
}

// messagesOf sends the messages that a task wrote and that weren't streamed, and
// notes the end of those that were.
func (e *encoder) messagesOf(ev graph.Event) error {
	if !e.has(modeMessages) && !e.has(modeMessagesTuple) || ev.Update == nil {
		return nil
	}
	for _, list := range messagesIn(ev.Update) {
		for _, raw := range list {
			if id, _ := apart(raw); id != "" && isMessage(raw) {
				if err := e.said(id, raw, ev); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// apart returns a message's ID, and the message without it.
func apart(raw json.RawMessage) (id, rest string) {
	o := objectOf(raw)
	id = textOf(o["id"])
	delete(o, "id")
	return id, string(o.raw())
}

// asked notes the messages of the run's input: as the graph's state has them, they
// have IDs.
func (e *encoder) asked(state state) error {
	input := e.input
	if input == nil {
		return nil
	}
	e.input = nil
	data, err := state()
	if err != nil {
		return err
	}
	fields := objectOf(data)
	for _, name := range slices.Sorted(maps.Keys(input)) {
		list := []json.RawMessage{input[name]} // one may stand for a list of it
		_ = json.Unmarshal(input[name], &list)
		ids, others := map[string]bool{}, 0
		for _, one := range list {
			if id := textOf(objectOf(one)["id"]); id != "" {
				ids[id] = true
			} else {
				others++
			}
		}
		// Those without an ID are the last of the conversation.
		var given []json.RawMessage
		var told []json.RawMessage
		_ = json.Unmarshal(fields[name], &told)
		for _, raw := range slices.Backward(told) {
			if !isMessage(raw) {
				continue
			}
			id, _ := apart(raw)
			if !ids[id] {
				if others == 0 {
					continue
				}
				others--
			}
			given = append(given, raw)
		}
		for _, raw := range slices.Backward(given) {
			id, _ := apart(raw)
			if err := e.said(id, raw, graph.Event{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// complete is a message that is whole.
type complete struct {
	id   string
	raw  json.RawMessage
	from graph.Event // of no node for an input
}

// said sends a message that is whole.
func (e *encoder) said(id string, raw json.RawMessage, ev graph.Event) error {
	if e.whole[id] {
		return nil
	}
	e.whole[id] = true
	streamed := e.spoken[id] != nil
	if e.has(modeMessagesTuple) && !streamed && ev.Node != "" {
		if err := e.emit("messages", e.path(ev), []any{raw, e.messageMetadata(ev)}); err != nil {
			return err
		}
	}
	if e.has(modeMessages) {
		e.complete = append(e.complete, complete{id, raw, ev})
	}
	return nil
}

// completed sends the messages of a graph that are whole. Clients expect them after
// the values that have them.
func (e *encoder) completed(at string) error {
	var rest []complete
	for _, m := range e.complete {
		if place(m.from) != at {
			rest = append(rest, m)
			continue
		}
		if err := e.tellComplete(m); err != nil {
			return err
		}
	}
	e.complete = rest
	return nil
}

func (e *encoder) tellComplete(m complete) error {
	if e.spoken[m.id] == nil && m.from.Node != "" {
		if err := e.emit("messages/metadata", e.path(m.from), map[string]any{m.id: map[string]any{"metadata": e.messageMetadata(m.from)}}); err != nil {
			return err
		}
	}
	return e.emit("messages/complete", e.path(m.from), []json.RawMessage{m.raw})
}

// messagesIn yields the fields of an update or a state that are lists with messages.
func messagesIn(update json.RawMessage) iter.Seq2[string, []json.RawMessage] {
	return func(yield func(string, []json.RawMessage) bool) {
		if !bytes.Contains(update, []byte(`"type"`)) {
			return
		}
		fields := objectOf(update)
		for _, field := range slices.Sorted(maps.Keys(fields)) {
			var list []json.RawMessage
			if json.Unmarshal(fields[field], &list) != nil {
				continue
			}
			if slices.ContainsFunc(list, isMessage) && !yield(field, list) {
				return
			}
		}
	}
}

func isMessage(raw json.RawMessage) bool {
	var m struct {
		Type    string          `json:"type"`
		Content json.RawMessage `json:"content"`
	}
	return json.Unmarshal(raw, &m) == nil && m.Content != nil && slices.Contains([]string{"human", "ai", "system", "tool"}, m.Type)
}

// end sends what the run has come to.
func (e *encoder) end(snap *snapshot, failure *db.RunError) {
	_ = e.checkpoint(nil) // what can't be encoded was an error before
	for _, m := range e.complete {
		_ = e.tellComplete(m)
	}
	if failure == nil && snap != nil && len(snap.Interrupts) > 0 {
		asked := map[string]any{"__interrupt__": stateOf(snap, false).Interrupts}
		for _, mode := range []string{modeValues, modeUpdates} {
			if e.has(mode) {
				_ = e.emit(mode, nil, asked)
			}
		}
	}
	if failure == nil {
		e.traceEnd(snap)
	}
	for _, key := range e.feedback {
		_ = e.emit("feedback", nil, map[string]any{key: nil})
	}
	if failure != nil {
		_ = e.emit("error", nil, failure)
	}
}
