package server

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/tool"
)

// modeEvents is the mode of the events that LangChain's runnables make: where
// graphs, nodes, models and tools begin and end, and what models say. Nodes are
// chains there. A model's input isn't known here, so that it is left out, and so is
// a model whose message isn't streamed: it looks like any other.
const modeEvents = "events"

// traced is what clients are told in that mode.
type traced struct {
	Event    string         `json:"event"`
	Name     string         `json:"name"`
	RunID    string         `json:"run_id"`
	Parents  []string       `json:"parent_ids"`
	Tags     []string       `json:"tags"`
	Metadata map[string]any `json:"metadata"`
	Data     map[string]any `json:"data"`
}

// derived returns the ID of a part of a run, which is the same in all events.
func (e *encoder) derived(parts ...string) string {
	space, err := uuid.Parse(e.run.ID)
	if err != nil {
		space = uuid.NameSpaceOID
	}
	return uuid.NewSHA1(space, []byte(strings.Join(parts, sep))).String()
}

func (e *encoder) trace(event, name, id string, parents []string, metadata, data map[string]any) error {
	tags, ok := metadata["tags"].([]string)
	if !ok {
		tags = append([]string{}, e.tags...)
	}
	return e.emit(modeEvents, nil, traced{event, name, id, parents, tags, metadata, data})
}

// rootMetadata is what events of the whole graph say.
func (e *encoder) rootMetadata() map[string]any {
	return map[string]any{
		"thread_id": e.run.ThreadID, "run_id": e.run.ID, "graph_id": e.graph, "assistant_id": e.run.AssistantID, "run_attempt": e.run.Attempt,
	}
}

// begin tells that the run begins.
func (e *encoder) begin(b *runBody) error {
	if e.has(modeMessages) && b.Command == nil && e.run.Attempt == 1 {
		e.input = objectOf(b.Input)
	}
	if e.run.Attempt == 1 && (isNull(b.Input) || b.Command != nil) {
		if err := e.goesOn(b); err != nil {
			return err
		}
	} else if e.run.Attempt == 1 {
		var input object
		e.silent = json.Unmarshal(b.Input, &input) == nil && len(input) == 0
	}
	if !e.has(modeEvents) {
		return nil
	}
	e.started = true
	input := b.Input
	if b.Command != nil {
		data, err := json.Marshal(b.Command)
		if err != nil {
			return err
		}
		input = data
	}
	return e.trace("on_chain_start", e.graph, e.run.ID, []string{}, e.rootMetadata(), map[string]any{"input": orNull(input)})
}

// goesOn tells what a run without an input goes on from.
func (e *encoder) goesOn(b *runBody) error {
	c := b.Command
	values := e.has(modeValues) && (c == nil || c.Update == nil && !c.Goto.set()) // or else the next ones have what is written
	if !values && !e.has(modeCheckpoints) && !e.has(modeDebug) {
		return nil
	}
	id, err := b.Checkpoint.id()
	if err != nil {
		return err
	}
	from, err := e.moment("", id, values && e.subgraphs)
	if err != nil || from.Checkpoint == nil {
		return err
	}
	if err := e.tellMoment(nil, time.Now(), from); err != nil || !values {
		return err
	}
	return e.goingOn(nil, from)
}

// goingOn tells the values of a graph, and of the subgraphs in which tasks of it go on.
func (e *encoder) goingOn(ns []string, from *threadState) error {
	if err := e.emit(modeValues, ns, from.Values); err != nil {
		return err
	}
	for _, t := range from.Tasks {
		if t.State == nil || t.State.Checkpoint == nil {
			continue
		}
		if err := e.goingOn(strings.Split(t.State.Checkpoint.NS, "|"), t.State); err != nil {
			return err
		}
	}
	return nil
}

// parents returns the runs that the graph of an event is inside of.
func (e *encoder) parents(ev graph.Event) []string {
	out := []string{e.run.ID}
	for i, segment := range ev.Within {
		_, id, _, _ := checkpoint.CutSegment(segment)
		out = append(out, e.chain(ev.Path[:i], taskOf(id)))
	}
	return out
}

// chain returns the ID of the run of a node.
func (e *encoder) chain(path []string, task string) string {
	return e.derived("task", strings.Join(path, sep), task)
}

// traceEvent tells what an event of the engine is in that mode.
func (e *encoder) traceEvent(ev tracked) error {
	for _, one := range ev.said {
		if one.of != nil {
			if err := e.traceModel(one); err != nil {
				return err
			}
		}
	}
	id := e.chain(ev.Path, ev.Task)
	switch ev.Type {
	case graph.EventTaskStart:
		input, err := e.inputOf(ev)
		if err != nil {
			return err
		}
		return e.trace("on_chain_start", ev.Node, id, e.parents(ev.Event), e.messageMetadata(ev.Event), map[string]any{"input": input})
	case graph.EventTaskEnd: // that a chain fails ends the stream with an error, or is handled
		return e.trace("on_chain_end", ev.Node, id, e.parents(ev.Event), e.messageMetadata(ev.Event), map[string]any{"output": orNull(ev.Update)})
	case graph.EventToolCall, graph.EventToolResult:
		return e.traceTool(ev.Event, id)
	}
	return nil
}

// traceModel tells of a message that a model makes.
func (e *encoder) traceModel(one said) error {
	ev := one.of.from
	event, name, data := "on_chat_model_start", modelName(one.piece), map[string]any{}
	switch one.what {
	case messageGoesOn:
		chunk, err := chunkJSON(one.piece)
		if err != nil {
			return err
		}
		event, data["chunk"] = "on_chat_model_stream", chunk
	case messageEnds, messageBreaks:
		m := one.of.sum.Message()
		event, name, data["output"] = "on_chat_model_end", modelName(chat.Chunk{Model: m.Model}), m
	}
	parents := append(e.parents(ev), e.chain(ev.Path, ev.Task))
	return e.trace(event, name, e.derived("model", seat(ev), one.of.id), parents, e.messageMetadata(ev), data)
}

// modelName is what a model is called that says nothing of itself.
func modelName(k chat.Chunk) string {
	if k.Model != "" {
		return k.Model
	}
	return "chat_model"
}

// traceTool tells of a call of a tool.
func (e *encoder) traceTool(ev graph.Event, parent string) error {
	parents := append(e.parents(ev), parent)
	switch v := ev.Value.(type) {
	case tool.Started:
		return e.trace("on_tool_start", v.Name, e.derived("tool", parent, v.CallID), parents, e.messageMetadata(ev), map[string]any{"input": v.Args})
	case tool.Ended:
		if v.Err != nil {
			return e.trace("on_tool_error", v.Name, e.derived("tool", parent, v.CallID), parents, e.messageMetadata(ev), map[string]any{"error": v.Err.Error()})
		}
		return e.trace("on_tool_end", v.Name, e.derived("tool", parent, v.CallID), parents, e.messageMetadata(ev), map[string]any{"output": v.Result.Text()})
	}
	kind, field := "on_tool_start", "input"
	if ev.Type == graph.EventToolResult {
		kind, field = "on_tool_end", "output"
	}
	return e.trace(kind, ev.Node, e.derived("tool", parent, ev.Node), parents, e.messageMetadata(ev), map[string]any{field: ev.Value})
}

// traceEnd tells that the run has ended.
func (e *encoder) traceEnd(snap *snapshot) {
	if !e.started || snap == nil {
		return
	}
	output, err := wholeMessages(snap.OutputJSON())
	if err != nil { // which the run has failed with
		return
	}
	_ = e.trace("on_chain_end", e.graph, e.run.ID, []string{}, e.rootMetadata(), map[string]any{"output": orNull(output)}) // of JSON
}
