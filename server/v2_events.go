package server

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server/internal/db"
	"github.com/superstep-dev/superstep/tool"
)

// What graphs of a run can be.
const (
	statusStarted     = "started" // a subgraph; then it is running
	statusRunning     = "running"
	statusCompleted   = "completed"
	statusFailed      = "failed"
	statusInterrupted = "interrupted"
)

// live tells of a run to those who follow its thread. It is used by one goroutine.
//
// A run is told of in full if a command started it, or if its thread has a feed
// when it begins: somebody follows the thread, or did minutes ago. Of other runs
// nothing is encoded; who comes while one works is told what it has come to, and
// sees the rest in the thread's state and history.
type live struct {
	base  *base
	run   *db.Run
	line  *line
	told  bool   // somebody is told
	graph string // by which clients know it

	running  map[string]map[string][]string // task IDs, by the path of the graph and the node
	open     [][]string                     // namespaces of subgraphs that run, parents first
	speeches map[*making]*speech            // messages that are being made
}

func newLive(l *line) *live {
	return &live{
		base: l.base, run: l.run, line: l, told: l.followed, running: map[string]map[string][]string{}, speeches: map[*making]*speech{},
	}
}

// tell tells of an event.
func (l *live) tell(method, channel string, namespace []string, at time.Time, node string, data any) error {
	ev, err := eventOf(method, channel, namespace, at, node, data)
	if err == nil {
		l.line.tell(ev)
	}
	return err
}

// wants are the events that the feed is made of.
func (l *live) wants() graph.Mode {
	if !l.told {
		return 0
	}
	return graph.ModeValues | graph.ModeUpdates | graph.ModeMessages | graph.ModeCustom | graph.ModeTools | graph.ModeTasks | graph.ModeCheckpoints
}

// begin tells that the run begins. A run that goes on with a thread needs to know
// the tasks that are open.
func (l *live) begin(ctx context.Context, g *served, b *runBody) error {
	if !l.told {
		return nil
	}
	l.graph = g.name
	if isNull(b.Input) && b.Checkpoint == nil {
		snap, err := l.base.on(g, l.run.ThreadID).State(ctx)
		if err == nil {
			for _, t := range snap.Tasks {
				if t.Status != "done" {
					l.started(nil, t.Node, t.ID)
				}
			}
		} // else the run will say so
	}
	if err := l.lifecycle(nil, statusRunning, l.graph, ""); err != nil {
		return err
	}
	if b.V2 == nil || len(b.V2.Answers) == 0 {
		return nil
	}
	return l.tell("input.answered", "input", nil, time.Now(), "", map[string]any{"interrupt_ids": b.V2.Answers})
}

// event tells of an event of the engine.
func (l *live) event(ev tracked) error {
	if !l.told {
		return nil
	}
	ns := namespaceOf(ev.Event)
	if err := l.enter(ns, ev.Graph); err != nil {
		return err
	}
	for _, p := range ev.passed {
		if err := l.checkpoint(p.Event); err != nil {
			return err
		}
	}
	for _, one := range ev.said {
		if err := l.message(ns, ev.Event, one); err != nil {
			return err
		}
	}
	switch ev.Type {
	case graph.EventTaskStart, graph.EventTaskRetry:
		l.started(ev.Path, ev.Node, ev.Task)
		if ev.Type == graph.EventTaskStart {
			data := map[string]any{"id": ev.Task, "name": ev.Node, "triggers": []string{"branch:to:" + ev.Node}, "interrupts": []any{}}
			if ev.Input != nil { // else readers are shown the state that the values tell, as [feed.shown] says
				data["input"] = ev.Input
			} else if ev.values != nil && ev.values.differ() {
				data["input"], _ = ev.values.state()
			}
			return l.send("tasks", ns, ev.Event, data)
		}
	case graph.EventTaskEnd:
		if err := l.exit(ev.Event, statusCompleted, ""); err != nil {
			return err
		}
		return l.send("tasks", ns, ev.Event, map[string]any{"id": ev.Task, "name": ev.Node, "result": ev.Update, "error": nil, "interrupts": []any{}})
	case graph.EventTaskError:
		text := errorOf(ev.Err).Message
		if err := l.exit(ev.Event, statusFailed, text); err != nil {
			return err
		}
		return l.send("tasks", ns, ev.Event, map[string]any{"id": ev.Task, "name": ev.Node, "error": text, "interrupts": []any{}})
	case graph.EventUpdate:
		if ev.Node != "" {
			return l.send("updates", ns, ev.Event, orNull(ev.Update))
		}
	case graph.EventValues:
		output, err := ev.values.output()
		if err != nil {
			return err
		}
		return l.send("values", ns, ev.Event, orNull(output))
	case graph.EventCustom:
		return l.custom(ns, ev.Event)
	case graph.EventToolCall, graph.EventToolResult:
		return l.send("tools", ns, ev.Event, toolData(ev.Event))
	}
	return nil
}

// checkpoint sends a checkpoint; clients take it together with the values that follow.
func (l *live) checkpoint(ev *graph.Event) error {
	source, parent := ev.Source, ev.Parent
	if takes(source, ev.Checkpoint, parent, ev.Next) {
		source, parent = string(checkpoint.SourceLoop), beforeInput(ev.Checkpoint)
	}
	data := map[string]any{"id": ev.Checkpoint, "step": ev.Step, "source": source}
	if parent != "" {
		data["parent_id"] = parent
	}
	return l.send("checkpoints", namespaceOf(*ev), *ev, data)
}

func (l *live) send(channel string, ns []string, ev graph.Event, data any) error {
	return l.tell(channel, channel, ns, ev.Time, ev.Node, data)
}

// custom sends what a node emits. What has a name is of a channel of its own,
// custom:NAME, and is sent as it is.
func (l *live) custom(ns []string, ev graph.Event) error {
	data, err := json.Marshal(ev.Value)
	if err != nil {
		return err
	}
	o, channel := objectOf(data), "custom"
	if o["name"] == nil {
		o = object{"payload": data}
	} else if name := textOf(o["name"]); name != "" {
		channel += ":" + name
	}
	return l.tell("custom", channel, ns, ev.Time, ev.Node, o)
}

// toolData is what clients are told of a call of a tool. Calls that a node tells
// of in its own way go by the node's task.
func toolData(ev graph.Event) map[string]any {
	switch v := ev.Value.(type) {
	case tool.Started:
		return map[string]any{"event": "tool-started", "tool_call_id": v.CallID, "tool_name": v.Name, "input": v.Args}
	case tool.Ended:
		if v.Err != nil {
			return map[string]any{"event": "tool-error", "tool_call_id": v.CallID, "message": v.Err.Error()}
		}
		return map[string]any{"event": "tool-finished", "tool_call_id": v.CallID, "output": toolMessage(v)}
	default:
		if ev.Type == graph.EventToolResult {
			return map[string]any{"event": "tool-finished", "tool_call_id": ev.Task, "output": v}
		}
		return map[string]any{"event": "tool-started", "tool_call_id": ev.Task, "tool_name": ev.Node, "input": v}
	}
}

const sep = "\x00"

// started notes a task that runs.
func (l *live) started(path []string, node, task string) {
	at := strings.Join(path, sep)
	if l.running[at] == nil {
		l.running[at] = map[string][]string{}
	}
	if !slices.Contains(l.running[at][node], task) {
		l.running[at][node] = append(l.running[at][node], task)
	}
}

// segment names a task in a namespace.
func segment(node, task string) string { return checkpoint.Segment(node, task, "") }

// ofTask returns the segment of a task for that of one of the graphs which the task runs.
func ofTask(segment string) string {
	node, id, _, _ := checkpoint.CutSegment(segment)
	return checkpoint.Segment(node, taskOf(id), "")
}

// taskOf returns the ID of a task without how often what it had come to was given up.
func taskOf(id string) string {
	epoch, rest, _ := strings.Cut(id, ".")
	task, _, _ := strings.Cut(rest, ".")
	return epoch + "." + task
}

// namespaceOf returns where the graph of an event runs: the tasks above it.
func namespaceOf(ev graph.Event) []string { return slices.Clip(ev.Within) }

// namespace is namespaceOf for a path alone, as questions have it: where several
// tasks of a node run at once, their subgraphs share the node's name.
func (l *live) namespace(path []string) []string {
	ns := make([]string, len(path))
	for i, node := range path {
		ns[i] = node
		if tasks := l.running[strings.Join(path[:i], sep)][node]; len(tasks) == 1 {
			ns[i] = segment(node, tasks[0])
		}
	}
	return ns
}

// lifecycle tells what a graph has come to.
func (l *live) lifecycle(ns []string, status, graph, failure string) error {
	data := map[string]any{"event": status}
	if graph != "" {
		data["graph_name"] = graph
	}
	if failure != "" {
		data["error"] = failure
	}
	if len(ns) == 0 {
		data["run_id"] = l.run.ID
	}
	return l.tell("lifecycle", "lifecycle", ns, time.Now(), "", data)
}

// enter tells of the subgraphs of a namespace that haven't run so far.
func (l *live) enter(ns []string, graph string) error {
	for i := range ns {
		at := ns[:i+1]
		if slices.ContainsFunc(l.open, func(o []string) bool { return slices.Equal(o, at) }) {
			continue
		}
		name := ""
		if i == len(ns)-1 {
			name = graph
		}
		l.open = append(l.open, slices.Clone(at))
		if err := l.lifecycle(at, statusStarted, name, ""); err != nil {
			return err
		}
	}
	return nil
}

// exit tells that a task's subgraphs have ended, with the task.
func (l *live) exit(ev graph.Event, status, failure string) error {
	ns := append(namespaceOf(ev), segment(ev.Node, ev.Task))
	at := strings.Join(ev.Path, sep)
	tasks := l.running[at][ev.Node]
	if i := slices.Index(tasks, ev.Task); i >= 0 {
		l.running[at][ev.Node] = slices.Delete(tasks, i, i+1)
	}
	return l.leaveBelow(ns, status, failure)
}

// leaveBelow ends the subgraphs of a task that is named by the last of a namespace, and
// those below them, those inside first; of all tasks if the namespace is empty.
func (l *live) leaveBelow(ns []string, status, failure string) error {
	for i := len(l.open) - 1; i >= 0; i-- {
		one := l.open[i]
		if len(ns) > 0 && !ranBy(one, ns) {
			continue
		}
		l.open = slices.Delete(l.open, i, i+1)
		if err := l.lifecycle(one, status, "", failure); err != nil {
			return err
		}
	}
	return nil
}

// end tells what the run has come to; who comes while it worked is told no more than that.
func (l *live) end(ctx context.Context, last tracked, status string, snap *snapshot, failure *db.RunError) error {
	late := !l.told
	if late {
		if followed, err := l.base.feeds.followed(ctx, l.run.ThreadID); err != nil || !followed {
			return err
		}
	}
	// What can't be encoded was an error of the run before.
	for _, one := range last.said {
		if l.speeches[one.of] != nil { // or else they weren't told that it began
			_ = l.message(namespaceOf(one.of.from), one.of.from, one)
		}
	}
	for _, p := range last.passed {
		_ = l.checkpoint(p.Event)
	}
	end, text := statusCompleted, ""
	switch {
	case failure != nil:
		end, text = statusFailed, failure.Message
	case status != db.Success:
		end = statusInterrupted
	}
	_ = l.leaveBelow(nil, end, text)
	if snap != nil && late {
		if values, err := wholeMessages(snap.OutputJSON()); err == nil {
			_ = l.tell("values", "values", nil, time.Now(), "", orNull(values))
		}
	}
	if snap != nil && failure == nil {
		for _, q := range snap.Interrupts {
			if q.When != "inside" {
				continue
			}
			value := interruptOf(q)
			_ = l.tell("input.requested", "input", l.asker(snap, q), time.Now(), "", map[string]any{"interrupt_id": value.ID, "payload": value.Value})
		}
	}
	_ = l.lifecycle(nil, end, l.graph, text)
	return nil
}

// asker returns the namespace of the graph that asks.
func (l *live) asker(snap *snapshot, q graph.Interrupted) []string {
	ns := l.namespace(q.Path)
	for _, t := range snap.Tasks {
		if len(ns) > 0 && t.Node == q.Path[0] && slices.ContainsFunc(t.Interrupts, func(own graph.Interrupted) bool { return own.ID == q.ID }) {
			ns[0] = segment(t.Node, t.ID)
		}
	}
	return ns
}

// speech is a message while it is made.
type speech struct {
	id        string
	run       string // the run's ID; the message's, if its node makes another at the same time: some clients tell them apart by that
	namespace []string
	node      string
	parts     []*part
	calls     map[int]int // parts of tool calls, by their index in chunks
}

// part is a content block while it is made.
type part struct {
	kind     string // text, reasoning or tool_call
	text     strings.Builder
	id, name string
	shown    int // bytes of a tool call's arguments that clients know
	done     bool
}

func (l *live) say(s *speech, event string, more map[string]any) error {
	data := map[string]any{"event": event, "run_id": s.run, "message_id": s.id}
	for k, v := range more {
		data[k] = v
	}
	return l.tell("messages", "messages", s.namespace, time.Now(), s.node, data)
}

// speaker returns the ID by which the events of a message say whose run it is of.
func (l *live) speaker(ns []string, node, id string) string {
	for _, s := range l.speeches {
		if s.run == l.run.ID && s.node == node && slices.Equal(s.namespace, ns) {
			return id
		}
	}
	return l.run.ID
}

// message sends what an event says of a message.
func (l *live) message(ns []string, ev graph.Event, one said) error {
	s := l.speeches[one.of]
	switch one.what {
	case messageBegins:
		s = &speech{id: one.of.id, run: l.speaker(ns, ev.Node, one.of.id), namespace: ns, node: ev.Node, calls: map[int]int{}}
		l.speeches[one.of] = s
		return l.say(s, "message-start", map[string]any{"id": s.id, "role": "ai"})
	case messageGoesOn:
		return l.piece(s, one.piece)
	case messageEnds:
		delete(l.speeches, one.of)
		return l.conclude(s, one.of.sum.Message())
	case messageBreaks:
		delete(l.speeches, one.of)
		return l.say(s, "error", map[string]any{"message": one.failure})
	}
	if one.streamed || ev.Node == "" {
		return nil
	}
	return l.whole(ns, ev.Node, one.id, one.raw)
}

// piece sends a piece of a message.
func (l *live) piece(s *speech, k chat.Chunk) error {
	for _, grown := range []struct{ kind, text string }{{"reasoning", k.Reasoning}, {"text", k.Text}} {
		if grown.text == "" {
			continue
		}
		i, err := l.block(s, grown.kind)
		if err != nil {
			return err
		}
		s.parts[i].text.WriteString(grown.text)
		if err := l.say(s, "content-block-delta", map[string]any{"index": i, "delta": map[string]string{"type": grown.kind + "-delta", grown.kind: grown.text}}); err != nil {
			return err
		}
	}
	for _, c := range k.ToolCalls {
		if err := l.calls(s, c); err != nil {
			return err
		}
	}
	for _, p := range k.Parts {
		if r, ok := p.(chat.Reasoning); ok && r.Text == "" && !r.Redacted {
			continue // the signature of what was streamed before, which values have
		}
		blocks, err := blocksOf(chat.Message{Role: chat.RoleAssistant, Parts: []chat.Part{p}})
		if err != nil {
			return err
		}
		for _, b := range blocks {
			if err := l.wholeBlock(s, b); err != nil {
				return err
			}
		}
	}
	return nil
}

// block returns the place of the part that text of a kind is appended to: the last
// one if it is of that kind, or a new one.
func (l *live) block(s *speech, kind string) (int, error) {
	if n := len(s.parts) - 1; n >= 0 {
		if s.parts[n].kind == kind && !s.parts[n].done {
			return n, nil
		}
		if s.parts[n].kind != "tool_call" { // calls may go on side by side
			if err := l.closeBlock(s, n); err != nil {
				return 0, err
			}
		}
	}
	s.parts = append(s.parts, &part{kind: kind})
	i := len(s.parts) - 1
	return i, l.say(s, "content-block-start", map[string]any{"index": i, "content": map[string]string{"type": kind, kind: ""}})
}

// calls sends a piece of a tool call. Clients replace the arguments they have, so
// that what is sent would grow with the square of the length: later pieces wait
// until the arguments have grown by an eighth.
func (l *live) calls(s *speech, c chat.ToolCallChunk) error {
	i, ok := s.calls[c.Index]
	if !ok {
		if n := len(s.parts) - 1; n >= 0 && s.parts[n].kind != "tool_call" {
			if err := l.closeBlock(s, n); err != nil {
				return err
			}
		}
		i = len(s.parts)
		s.calls[c.Index] = i
		s.parts = append(s.parts, &part{kind: "tool_call", id: c.ID, name: c.Name})
		if err := l.say(s, "content-block-start", map[string]any{"index": i, "content": map[string]any{
			"type": "tool_call_chunk", "id": textOrNull(c.ID), "name": textOrNull(c.Name), "args": "",
		}}); err != nil {
			return err
		}
	}
	p := s.parts[i]
	if c.ID != "" {
		p.id = c.ID
	}
	if c.Name != "" {
		p.name = c.Name
	}
	p.text.WriteString(c.Args)
	if p.text.Len() <= p.shown+p.shown/8 {
		return nil
	}
	p.shown = p.text.Len()
	return l.say(s, "content-block-delta", map[string]any{"index": i, "delta": map[string]any{
		"type":   "block-delta",
		"fields": map[string]any{"type": "tool_call_chunk", "id": textOrNull(p.id), "name": textOrNull(p.name), "args": p.text.String()},
	}})
}

func textOrNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// closeBlock sends a part as it has become.
func (l *live) closeBlock(s *speech, i int) error {
	p := s.parts[i]
	if p.done {
		return nil
	}
	p.done = true
	content := map[string]any{"type": p.kind, p.kind: p.text.String()}
	if p.kind == "tool_call" {
		args := strings.TrimSpace(p.text.String())
		if args == "" {
			args = "{}"
		}
		var o map[string]json.RawMessage
		if err := json.Unmarshal([]byte(args), &o); err != nil || o == nil {
			content = map[string]any{"type": "invalid_tool_call", "id": textOrNull(p.id), "name": textOrNull(p.name), "args": p.text.String(), "error": "the arguments are not a JSON object"}
		} else {
			content = map[string]any{"type": "tool_call", "id": textOrNull(p.id), "name": p.name, "args": json.RawMessage(args)}
		}
	}
	return l.say(s, "content-block-finish", map[string]any{"index": i, "content": content})
}

// wholeBlock sends a part that is complete.
func (l *live) wholeBlock(s *speech, content json.RawMessage) error {
	i := len(s.parts)
	if i > 0 && s.parts[i-1].kind != "tool_call" {
		if err := l.closeBlock(s, i-1); err != nil {
			return err
		}
	}
	s.parts = append(s.parts, &part{done: true})
	if err := l.say(s, "content-block-start", map[string]any{"index": i, "content": content}); err != nil {
		return err
	}
	return l.say(s, "content-block-finish", map[string]any{"index": i, "content": content})
}

// conclude sends the end of a message.
func (l *live) conclude(s *speech, sum chat.Message) error {
	for i := range s.parts {
		if err := l.closeBlock(s, i); err != nil {
			return err
		}
	}
	data, err := json.Marshal(sum)
	if err != nil {
		return err
	}
	return l.say(s, "message-finish", finishOf(objectOf(data)))
}

// finishOf returns what the end of a message says.
func finishOf(message object) map[string]any {
	out := map[string]any{}
	if u := message["usage_metadata"]; u != nil {
		out["usage"] = u
	}
	if m := objectOf(message["response_metadata"]); len(m) > 0 {
		out["metadata"] = m
		if m["finish_reason"] != nil {
			out["reason"] = m["finish_reason"]
		}
	}
	return out
}

// whole sends a message that is complete, if it says something. Results of tools are told of
// as tools, and so are calls alone; clients read a message of nothing else as an empty text.
func (l *live) whole(ns []string, node, id string, raw json.RawMessage) error {
	o := objectOf(raw)
	role := textOf(o["type"])
	blocks := blocksIn(o)
	if role == "tool" || !slices.ContainsFunc(blocks, func(b json.RawMessage) bool { return !strings.HasSuffix(textOf(objectOf(b)["type"]), "tool_call") }) {
		return nil
	}
	s := &speech{id: id, run: l.speaker(ns, node, id), namespace: ns, node: node}
	if err := l.say(s, "message-start", map[string]any{"id": id, "role": role}); err != nil {
		return err
	}
	for _, b := range blocks {
		if err := l.wholeBlock(s, b); err != nil {
			return err
		}
	}
	return l.say(s, "message-finish", finishOf(o))
}

func blocksOf(m chat.Message) ([]json.RawMessage, error) {
	data, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	return blocksIn(objectOf(data)), nil
}

// blocksIn returns the content of a message as blocks, its tool calls among them.
func blocksIn(message object) []json.RawMessage {
	var blocks []json.RawMessage
	var text string
	if json.Unmarshal(message["content"], &text) == nil {
		if text != "" {
			blocks = append(blocks, object{"type": jsonText("text"), "text": jsonText(text)}.raw())
		}
	} else {
		_ = json.Unmarshal(message["content"], &blocks) // null, or what is no message's
	}
	for _, kind := range []string{"tool_call", "invalid_tool_call"} {
		if slices.ContainsFunc(blocks, func(b json.RawMessage) bool { return textOf(objectOf(b)["type"]) == kind }) {
			continue
		}
		var calls []object
		_ = json.Unmarshal(message[kind+"s"], &calls) // none
		for _, c := range calls {
			blocks = append(blocks, c.with(object{"type": jsonText(kind)}).raw())
		}
	}
	return blocks
}
