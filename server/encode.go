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
	"time"

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

	complete []complete      // messages that are whole, of which the mode messages tells after the values
	input    object          // of the run, whose messages are still to be told
	given    map[string]bool // IDs of those that were
	silent   bool            // the input writes nothing: the first values are those after a node
	started  bool            // the mode events has told so
	feedback []string
	moment   func(ns, id string, nested bool) (*threadState, error) // of the thread: see [states.momentAt]
}

func newEncoder(b *runBody, a about, send func(string, []byte)) *encoder {
	return &encoder{
		about: a, modes: b.StreamMode, subgraphs: b.StreamSubgraphs, send: send, feedback: b.FeedbackKeys, given: map[string]bool{},
	}
}

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

// talks reports whether a mode tells of messages.
func (e *encoder) talks() bool {
	return e.has(modeMessages) || e.has(modeMessagesTuple) || e.has(modeEvents)
}

// event sends what an event of the engine is to the modes.
func (e *encoder) event(ev tracked) error {
	if e.has(modeEvents) {
		if err := e.traceEvent(ev); err != nil {
			return err
		}
	}
	shown := len(ev.Path) == 0 || e.subgraphs
	if ev.Type == graph.EventValues {
		if err := e.asked(ev.values); err != nil {
			return err
		}
	}
	for _, p := range ev.passed {
		if err := e.checkpoint(p); err != nil {
			return err
		}
	}
	for _, one := range ev.said { // wherever it is said
		if err := e.message(ev, one); err != nil {
			return err
		}
	}
	if ev.Type == graph.EventValues {
		silent := e.silent && len(ev.Path) == 0
		e.silent = e.silent && !silent
		if shown && e.has(modeValues) && !silent {
			output, err := ev.values.output()
			if err != nil {
				return err
			}
			if err := e.emit(modeValues, namespaceOf(ev.Event), output); err != nil {
				return err
			}
		}
		return e.completed(ev.place)
	}
	if !shown {
		return nil
	}
	switch ev.Type {
	case graph.EventUpdate:
		if e.has(modeUpdates) && ev.Node != "" {
			return e.emit(modeUpdates, namespaceOf(ev.Event), map[string]json.RawMessage{ev.Node: orNull(ev.Update)})
		}
	case graph.EventCustom:
		if e.has(modeCustom) {
			return e.emit(modeCustom, namespaceOf(ev.Event), ev.Value)
		}
	case graph.EventToolCall, graph.EventToolResult:
		return e.tool(ev.Event)
	case graph.EventTaskStart, graph.EventTaskEnd, graph.EventTaskError:
		return e.task(ev)
	}
	return nil
}

// checkpoint sends a checkpoint.
func (e *encoder) checkpoint(ev passed) error {
	if !e.has(modeCheckpoints) && !e.has(modeDebug) || len(ev.Path) > 0 && !e.subgraphs {
		return nil
	}
	ns := place(*ev.Event)
	at := &threadState{Values: json.RawMessage("null"), Next: append([]string{}, ev.Next...), Checkpoint: refTo(e.run.ThreadID, ns, ev.Checkpoint)}
	if ev.values != nil {
		var err error
		if at.Values, err = ev.values.state(); err != nil {
			return err
		}
	}
	source, parent := ev.Source, ev.Parent
	if takes(source, ev.Checkpoint, parent, ev.Next) {
		source, parent = string(checkpoint.SourceLoop), beforeInput(ev.Checkpoint)
		before, err := e.moment(ns, cmp.Or(ev.Parent, graph.Start), false)
		if err != nil {
			return err
		}
		input := &threadState{Values: before.Values, Next: []string{graph.Start}, Checkpoint: refTo(e.run.ThreadID, ns, parent), Parent: before.Checkpoint}
		input.Metadata = metadataOf(nil, string(checkpoint.SourceInput), ev.Step-1)
		if err := e.tellMoment(namespaceOf(*ev.Event), ev.Time, input); err != nil {
			return err
		}
	}
	at.Metadata, at.Parent = metadataOf(nil, source, ev.Step), refTo(e.run.ThreadID, ns, parent)
	return e.tellMoment(namespaceOf(*ev.Event), ev.Time, at)
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

// inputOf returns what a task begins with: what was sent to it, or else its graph's
// state. Of a run that goes on with a thread nothing is told of the state before
// the first superstep ends: until then it is null.
func (e *encoder) inputOf(ev tracked) (json.RawMessage, error) {
	if ev.Input != nil {
		return ev.Input, nil
	}
	if ev.values != nil {
		return ev.values.state()
	}
	return json.RawMessage("null"), nil
}

func (e *encoder) task(ev tracked) error {
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
		payload["metadata"] = e.messageMetadata(ev.Event)
	case graph.EventTaskEnd:
		payload["result"], payload["error"] = ev.Update, nil
	default:
		payload["error"] = errorOf(ev.Err).Message
	}
	if e.has(modeTasks) {
		if err := e.emit(modeTasks, namespaceOf(ev.Event), payload); err != nil {
			return err
		}
	}
	return e.debug(ev.Event, namespaceOf(ev.Event), kind, payload)
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

// message sends what an event says of a message. Of one that was streamed the whole isn't
// sent as a piece.
func (e *encoder) message(ev tracked, one said) error {
	switch one.what {
	case messageBegins:
		if e.has(modeMessages) {
			return e.introduce(one.of.id, ev.Event)
		}
	case messageGoesOn:
		if e.has(modeMessagesTuple) {
			data, err := chunkJSON(one.piece)
			if err != nil {
				return err
			}
			if err := e.emit("messages", e.path(ev.Event), []any{data, e.messageMetadata(ev.Event)}); err != nil {
				return err
			}
		}
		if e.has(modeMessages) {
			m, err := json.Marshal(one.of.sum.Message())
			if err != nil {
				return err
			}
			return e.emit("messages/partial", e.path(ev.Event), []json.RawMessage{wholeMessage(m)})
		}
	case messageWritten:
		if e.given[one.id] {
			return nil
		}
		if e.has(modeMessagesTuple) && !one.streamed && ev.Node != "" {
			if err := e.emit("messages", e.path(ev.Event), []any{one.raw, e.messageMetadata(ev.Event)}); err != nil {
				return err
			}
		}
		if e.has(modeMessages) {
			e.complete = append(e.complete, complete{one.id, one.raw, ev.Event, one.streamed})
		}
	}
	return nil
}

// introduce sends where a message comes from, before any of it.
func (e *encoder) introduce(id string, ev graph.Event) error {
	return e.emit("messages/metadata", e.path(ev), map[string]any{id: map[string]any{"metadata": e.messageMetadata(ev)}})
}

// path is the part of an event's name that says where it happened.
func (e *encoder) path(ev graph.Event) []string {
	if !e.subgraphs {
		return nil
	}
	return namespaceOf(ev)
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
func (e *encoder) asked(v *values) error {
	input := e.input
	if input == nil {
		return nil
	}
	e.input = nil
	data, err := v.state()
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
			e.given[id] = true
			e.complete = append(e.complete, complete{id: id, raw: raw})
		}
	}
	return nil
}

// complete is a message that is whole.
type complete struct {
	id       string
	raw      json.RawMessage
	from     graph.Event // of no node for an input
	streamed bool
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
	if !m.streamed && m.from.Node != "" {
		if err := e.introduce(m.id, m.from); err != nil {
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
func (e *encoder) end(last tracked, snap *snapshot, failure *db.RunError) {
	for _, p := range last.passed {
		_ = e.checkpoint(p) // what can't be encoded was an error before
	}
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
