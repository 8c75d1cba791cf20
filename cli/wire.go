package cli

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/client"
	"github.com/superstep-dev/superstep/graph"
	nodes "github.com/superstep-dev/superstep/remote"
	"github.com/superstep-dev/superstep/tool"
)

// eventDecoder turns the events of a server's stream into those that a run here
// would have, as far as they tell.
type eventDecoder struct {
	graph, thread string
	run           string
	took          string // parent of what takes an input in
	step          int
	open          []began         // tasks, in the order in which they began
	ended         map[string]int  // the last step of each node
	asked         map[string]bool // questions that were told of
}

// began is a task that runs.
type began struct {
	id, node string
	step     int
}

// decode returns the events that one of a server is; none if it is of no interest
// or not of the usual form.
func (d *eventDecoder) decode(ev client.Event) []event {
	e := graph.Event{Graph: d.graph, Thread: d.thread, Time: time.Now(), Step: d.step}
	for _, part := range ev.Namespace { // node:task
		name, _, _ := strings.Cut(part, ":")
		e.Path = append(e.Path, name)
	}
	switch client.Mode(ev.Name) {
	case "metadata":
		var about struct {
			Run string `json:"run_id"`
		}
		_ = json.Unmarshal(ev.Data, &about) // without it nothing is left out
		d.run = about.Run
	case client.ModeValues:
		if asked, ok := d.interrupts(e, ev.Data); ok {
			return asked
		}
		e.Type = graph.EventValues
		return []event{{Event: e, values: func() (json.RawMessage, error) { return ev.Data, nil }}}
	case client.ModeUpdates:
		if asked, ok := d.interrupts(e, ev.Data); ok {
			return asked
		}
		var updates map[string]json.RawMessage
		if json.Unmarshal(ev.Data, &updates) != nil {
			return nil
		}
		var out []event
		for node, update := range updates {
			e.Type, e.Node, e.Update = graph.EventUpdate, node, notNull(update)
			if step, ok := d.ended[node]; ok {
				e.Step = step
			}
			out = append(out, event{Event: e})
		}
		slices.SortFunc(out, func(a, b event) int { return strings.Compare(a.Node, b.Node) })
		return out
	case "messages":
		return d.message(e, ev.Data)
	case client.ModeCustom:
		e.Type, e.Value = graph.EventCustom, ev.Data
		return []event{{Event: e}}
	case client.ModeTools:
		return d.tool(e, ev.Data)
	case client.ModeTasks:
		return d.task(e, ev.Data)
	case client.ModeCheckpoints:
		var c client.State
		if json.Unmarshal(ev.Data, &c) != nil {
			return nil
		}
		e.Type, e.Next = graph.EventCheckpoint, c.Next
		e.Source, e.Parent = origin(&c)
		if c.Checkpoint.BeforeInput() { // what took it in follows
			d.took = e.Parent
			return nil
		}
		if c.Parent.BeforeInput() {
			e.Parent = d.took
		}
		if by, ok := c.Metadata["run_id"].(string); ok && by != d.run && d.run != "" { // what it goes on from
			return nil
		}
		if c.Checkpoint != nil {
			e.Checkpoint = c.Checkpoint.ID
		}
		if _, ok := c.Metadata["step"]; ok {
			e.Step = c.Step()
			d.step = e.Step
		}
		return []event{{Event: e}}
	}
	return nil
}

func notNull(data json.RawMessage) json.RawMessage {
	if string(data) == "null" {
		return nil
	}
	return data
}

// interrupts returns the questions that an event is about, and whether it is
// about such. Servers tell of each in more than one mode.
func (d *eventDecoder) interrupts(e graph.Event, data json.RawMessage) ([]event, bool) {
	var o map[string]json.RawMessage
	if json.Unmarshal(data, &o) != nil || len(o) != 1 || o["__interrupt__"] == nil {
		return nil, false
	}
	var asked []client.Interrupt
	if json.Unmarshal(o["__interrupt__"], &asked) != nil {
		return nil, true
	}
	var out []event
	for i, q := range asked {
		if d.asked[q.ID] {
			continue
		}
		// Which task asks isn't said. Those that haven't ended do.
		if at := min(i, len(d.open)-1); at >= 0 && (len(d.open) == 1 || len(d.open) == len(asked)) {
			e.Node, e.Task, e.Step = d.open[at].node, d.open[at].id, d.open[at].step
		}
		if d.asked == nil {
			d.asked = map[string]bool{}
		}
		d.asked[q.ID] = true
		e.Type = graph.EventInterrupt
		e.Interrupt = &graph.Interrupted{ID: q.ID, Key: q.Key, Node: e.Node, When: "inside", Raw: q.Value, Schema: q.Schema}
		out = append(out, event{Event: e})
	}
	return out, true
}

// message decodes a piece of a message with what is told about it.
func (d *eventDecoder) message(e graph.Event, data json.RawMessage) []event {
	k, ok := nodes.ChunkOf(data)
	if !ok {
		return nil
	}
	var pair [2]struct { // the message, and where it comes from
		Node string `json:"langgraph_node"`
		Step int    `json:"langgraph_step"`
		NS   string `json:"langgraph_checkpoint_ns"`
	}
	if json.Unmarshal(data, &pair) == nil {
		about := pair[1]
		e.Node, e.Step = about.Node, about.Step
		last := about.NS[strings.LastIndexByte(about.NS, '|')+1:]
		_, e.Task, _ = strings.Cut(last, ":")
	}
	e.Type, e.Value = graph.EventMessage, k
	return []event{{Event: e}}
}

func (d *eventDecoder) tool(e graph.Event, data json.RawMessage) []event {
	var t struct {
		Event, Name string
		ID          string `json:"toolCallId"`
		Input       json.RawMessage
		Output      json.RawMessage
		Error       json.RawMessage
	}
	if json.Unmarshal(data, &t) != nil {
		return nil
	}
	words := func(raw json.RawMessage) string {
		var s string
		if json.Unmarshal(raw, &s) == nil {
			return s
		}
		var whole struct{ Content json.RawMessage }
		if json.Unmarshal(raw, &whole) == nil && whole.Content != nil { // a message, of whatever role
			said, _ := json.Marshal(map[string]any{"role": chat.RoleUser, "content": whole.Content})
			if m, ok := nodes.MessageOf(said); ok {
				return m.Text()
			}
		}
		return string(raw)
	}
	switch t.Event {
	case "on_tool_start":
		var inner string
		if json.Unmarshal(t.Input, &inner) == nil && json.Valid([]byte(inner)) { // JSON in a text
			t.Input = json.RawMessage(inner)
		}
		e.Type, e.Value = graph.EventToolCall, tool.Started{CallID: t.ID, Name: t.Name, Args: t.Input}
	case "on_tool_end":
		ended := tool.Ended{CallID: t.ID, Name: t.Name}
		ended.Result.Content = []chat.Part{chat.Text{Text: words(t.Output)}}
		e.Type, e.Value = graph.EventToolResult, ended
	case "on_tool_error":
		e.Type, e.Value = graph.EventToolResult, tool.Ended{CallID: t.ID, Name: t.Name, Err: errors.New(words(t.Error))}
	default:
		return nil
	}
	return []event{{Event: e}}
}

func (d *eventDecoder) task(e graph.Event, data json.RawMessage) []event {
	var t struct {
		ID, Name string
		Triggers []string
		Input    json.RawMessage
		Metadata struct {
			Step int `json:"langgraph_step"`
		}
		Result json.RawMessage
		Error  *client.Text
		Asked  []client.Interrupt `json:"interrupts"`
	}
	if json.Unmarshal(data, &t) != nil {
		return nil
	}
	e.Task, e.Node = t.ID, t.Name
	if t.Triggers != nil {
		if t.Metadata.Step != 0 {
			e.Step = t.Metadata.Step
		} else {
			e.Step = d.step + 1
		}
		if len(e.Path) == 0 {
			d.open = append(d.open, began{t.ID, t.Name, e.Step})
		}
		e.Type, e.Input = graph.EventTaskStart, notNull(t.Input)
		return []event{{Event: e}}
	}
	at := slices.IndexFunc(d.open, func(b began) bool { return b.id == t.ID })
	if at >= 0 {
		e.Step = d.open[at].step
	}
	if at >= 0 && len(t.Asked) == 0 {
		d.open = slices.Delete(d.open, at, at+1)
		if d.ended == nil {
			d.ended = map[string]int{}
		}
		d.ended[t.Name] = e.Step
	}
	switch {
	case t.Error != nil && *t.Error != "":
		e.Type, e.Err = graph.EventTaskError, errors.New(string(*t.Error))
	case len(t.Asked) > 0:
		return nil // its questions are told of at the end
	default:
		e.Type, e.Update = graph.EventTaskEnd, notNull(t.Result)
	}
	return []event{{Event: e}}
}
