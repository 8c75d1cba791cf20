package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/fleet/bus"
	"github.com/superstep-dev/superstep/internal/local"
	"github.com/superstep-dev/superstep/tool"
)

// What happens on a worker goes to those who follow the thread in batches: tokens of a
// model come a hundred a second, and each batch is a write of whatever keeps the bus.
const (
	batchDelay = 50 * time.Millisecond // how long an event waits for others
	batchBytes = 32 << 10              // from which on a batch does not wait

	busTimeout = 2 * time.Second // of a call of the bus
	busRest    = time.Second     // after one that failed: meanwhile what happens is dropped

	mostHeld = 1000 // batches that wait for what was recorded before them
)

// The kinds of events that go over a bus.
const (
	sent     = local.Custom | local.Message | local.ToolCalled | local.ToolReturned
	course   = recorded | local.TaskStarted | local.TaskEnded | local.TaskFailed | local.TaskRetried | local.InterruptRaised // if the run's stream wants them
	recorded = local.Updates | local.Values | local.Checkpointed                                                             // of subgraphs: those of the graph itself are read in the store
)

// batch is what goes over a bus, as JSON. What a version adds, older ones read past.
type batch struct {
	Superstep  checkpoint.ID `json:"superstep"`
	Execution  string        `json:"execution,omitempty"` // of tasks, by one call of RunTasks; empty: of Advance
	Sent       []ofTask      `json:"sent"`
	size       int
	readBefore bool // the store was read after it
}

// ofTask is what happened to an attempt of a task, one after another. Task is -1 where it
// happened to a subgraph.
type ofTask struct {
	Graph   string        `json:"graph"`
	Path    []string      `json:"path,omitempty"`
	Within  []string      `json:"within,omitempty"`
	Step    int           `json:"step"`
	Node    string        `json:"node"`
	Task    int           `json:"task"`
	Do      string        `json:"do,omitempty"`
	Epoch   checkpoint.ID `json:"epoch"`
	Attempt int           `json:"attempt"`
	Tags    []string      `json:"tags,omitempty"`
	Events  []oneEvent    `json:"events"`
}

type oneEvent struct {
	Kind  string          `json:"kind"`
	Type  string          `json:"type,omitempty"` // of the value; else it is any JSON
	Time  time.Time       `json:"time"`
	Value json.RawMessage `json:"value,omitempty"` // that a node has sent

	Update   json.RawMessage      `json:"update,omitempty"`
	Payload  json.RawMessage      `json:"payload,omitempty"`
	From     string               `json:"from,omitempty"`
	Question *checkpoint.Question `json:"question,omitempty"`
	ID       checkpoint.ID        `json:"id,omitempty"`
	Parent   checkpoint.ID        `json:"parent,omitempty"`
	Source   checkpoint.Source    `json:"source,omitempty"`
	Next     []string             `json:"next,omitempty"`
	Error    *string              `json:"error,omitempty"`
	Cached   bool                 `json:"cached,omitempty"`
	Duration time.Duration        `json:"duration,omitempty"`
	Delay    time.Duration        `json:"delay,omitempty"`
	State    json.RawMessage      `json:"state,omitempty"`
	Output   json.RawMessage      `json:"output,omitempty"` // nil: as State
}

// encodeEvent returns what is told of an event but for whose it is.
func encodeEvent(ev *local.Event) (one oneEvent, err error) {
	one = oneEvent{
		Kind: ev.Kind.Name(), Time: ev.Time, Update: ev.Update, Payload: ev.Payload, From: ev.From, Question: ev.Question, ID: ev.ID, Parent: ev.Parent,
		Source: ev.Source, Next: ev.Next, Error: textOf(ev.Err), Cached: ev.Cached, Duration: ev.Duration, Delay: ev.Delay,
	}
	if ev.Kind&sent != 0 {
		one.Type, one.Value, err = encodeValue(ev.Value)
	}
	if ev.State != nil && err == nil {
		one.State, err = json.Marshal(ev.State)
	}
	if ev.Output != nil && err == nil {
		one.Output, err = ev.Output(ev.State)
	}
	return one, err
}

// decode enters it into an event that says whose it is. It reports whether it is known.
func (one *oneEvent) decode(ev *local.Event) bool {
	ev.Kind = local.KindNamed(one.Kind) & (sent | course)
	ev.Time, ev.Update, ev.Payload, ev.From, ev.Question, ev.ID, ev.Parent = one.Time, one.Update, one.Payload, one.From, one.Question, one.ID, one.Parent
	ev.Source, ev.Next, ev.Err, ev.Cached, ev.Duration, ev.Delay = one.Source, one.Next, errorOf(one.Error), one.Cached, one.Duration, one.Delay
	if one.State != nil {
		ev.State = one.State
	}
	if output := one.Output; output != nil {
		ev.Output = func(any) (json.RawMessage, error) { return output, nil }
	}
	var err error
	if ev.Kind&sent != 0 {
		ev.Value, err = decodeValue(one.Type, one.Value)
	}
	return err == nil && ev.Kind != 0
}

func textOf(err error) *string {
	if err == nil {
		return nil
	}
	return new(err.Error())
}

func errorOf(text *string) error {
	if text == nil {
		return nil
	}
	return errors.New(*text)
}

// The types of values that arrive as they were sent.
const (
	typeChunk   = "chunk"        // chat.Chunk
	typeStarted = "tool_started" // tool.Started
	typeEnded   = "tool_ended"   // tool.Ended
)

type ended struct {
	CallID   string          `json:"call_id,omitempty"`
	Name     string          `json:"name,omitempty"`
	Content  *chat.Message   `json:"content,omitempty"`
	Artifact json.RawMessage `json:"artifact,omitempty"`
	Error    *string         `json:"error,omitempty"`
	Duration time.Duration   `json:"duration,omitempty"`
	Recorded bool            `json:"recorded,omitempty"`
}

// inParts puts parts of a message where JSON can have them.
func inParts(parts []chat.Part) *chat.Message {
	if len(parts) == 0 {
		return nil
	}
	return &chat.Message{Role: chat.RoleAssistant, Parts: parts}
}

func partsOf(m *chat.Message) []chat.Part {
	if m == nil {
		return nil
	}
	return m.Parts
}

// encodeValue returns what a node has sent as JSON, and its type.
func encodeValue(value any) (typ string, data json.RawMessage, err error) {
	switch v := value.(type) {
	case chat.Chunk:
		typ = typeChunk
	case tool.Started:
		typ = typeStarted
	case tool.Ended:
		typ, value = typeEnded, ended{CallID: v.CallID, Name: v.Name, Content: inParts(v.Result.Content), Artifact: v.Result.Artifact, Error: textOf(v.Err), Duration: v.Duration, Recorded: v.Recorded}
	}
	data, err = json.Marshal(value)
	return typ, data, err
}

// decodeValue is the reverse. What has no type of its own is JSON.
func decodeValue(typ string, data json.RawMessage) (any, error) {
	switch typ {
	case typeChunk:
		var c chat.Chunk
		err := json.Unmarshal(data, &c)
		return c, err
	case typeStarted:
		var s tool.Started
		err := json.Unmarshal(data, &s)
		return s, err
	case typeEnded:
		var e ended
		err := json.Unmarshal(data, &e)
		return tool.Ended{CallID: e.CallID, Name: e.Name, Result: tool.Result{Content: partsOf(e.Content), Artifact: e.Artifact}, Err: errorOf(e.Error), Duration: e.Duration, Recorded: e.Recorded}, err
	}
	return data, nil
}

func logger(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.Default()
	}
	return l
}

// publisher publishes what happens in one call of RunTasks or Advance.
type publisher struct {
	w       *Worker
	ctx     context.Context
	thread  string
	wants   local.Kind
	topOnly bool // but for what is sent

	sending sync.Mutex // one batch after another

	mu      sync.Mutex
	batch   batch
	timer   *time.Timer // nil: nothing waits
	unclear bool        // it was said that something can't be told
}

// publisher publishes what happens in an operation, of which some is wanted; nil if nothing
// is, or there is no bus.
func (w *Worker) publisher(ctx context.Context, ref Ref, wants local.Kind, execution string) *publisher {
	if w.o.Bus == nil || wants == 0 {
		return nil
	}
	return &publisher{
		w: w, ctx: context.WithoutCancel(ctx), thread: ref.Thread, wants: wants, topOnly: ref.TopOnly,
		batch: batch{Superstep: checkpoint.ID(ref.Superstep), Execution: execution},
	}
}

func (p *publisher) send(ev *local.Event) {
	switch {
	case ev.Kind&sent != 0:
	case len(ev.Path) > 0 && p.topOnly, len(ev.Path) == 0 && ev.Kind&recorded != 0:
		return
	}
	one, err := encodeEvent(ev)
	if err != nil {
		p.mu.Lock()
		said := p.unclear
		p.unclear = true
		p.mu.Unlock()
		if !said {
			logger(p.w.o.Log).LogAttrs(p.ctx, slog.LevelWarn, "fleet: what happens in a node is not told elsewhere: it can't be written as JSON",
				slog.String("thread", p.thread), slog.String("node", ev.Node), slog.Any("error", err))
		}
		return
	}
	p.mu.Lock()
	if p.batch.Execution == "" { // which tasks of the next superstep wait
		p.batch.Superstep = ev.Epoch
	}
	p.batch.add(ev, one)
	full := p.batch.size >= batchBytes
	if !full && p.timer == nil {
		p.timer = time.AfterFunc(batchDelay, p.flush)
	}
	p.mu.Unlock()
	if full {
		p.flush()
	}
}

func (b *batch) add(ev *local.Event, one oneEvent) {
	b.size += len(one.Value) + len(one.Update) + len(one.Payload) + len(one.State) + len(one.Output) + 100 // about, with what stands around it
	t := ofTask{ev.Graph, ev.Path, ev.Within, ev.Step, ev.Node, ev.Task, ev.Do, ev.Epoch, ev.Attempt, ev.Tags, nil}
	if n := len(b.Sent); n == 0 || !b.Sent[n-1].is(&t) {
		b.Sent = append(b.Sent, t)
		b.size += 200
	}
	last := &b.Sent[len(b.Sent)-1]
	last.Events = append(last.Events, one)
}

// is reports whether two are of one attempt of a task, and tagged alike.
func (t *ofTask) is(o *ofTask) bool {
	return t.Task == o.Task && t.Do == o.Do && t.Epoch == o.Epoch && t.Node == o.Node && t.Attempt == o.Attempt && t.Step == o.Step &&
		slices.Equal(t.Within, o.Within) && slices.Equal(t.Path, o.Path) && slices.Equal(t.Tags, o.Tags)
}

// flush publishes what waits.
func (p *publisher) flush() {
	p.sending.Lock()
	defer p.sending.Unlock()
	p.mu.Lock()
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	b := p.batch
	p.batch.Sent, p.batch.size = nil, 0
	p.mu.Unlock()
	if len(b.Sent) > 0 {
		p.w.publish(p.ctx, p.thread, &b)
	}
}

// publish publishes a batch. While the bus is down it is dropped: what tasks come to
// doesn't wait for who watches them.
func (w *Worker) publish(ctx context.Context, thread string, b *batch) {
	until := w.busDown.Load()
	if until > time.Now().UnixNano() {
		return
	}
	data, err := json.Marshal(b)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, busTimeout)
		err = w.o.Bus.Publish(ctx, thread, data)
		cancel()
	}
	if err == nil {
		w.busDown.CompareAndSwap(until, 0)
		return
	}
	if w.busDown.Swap(time.Now().Add(busRest).UnixNano()) == 0 {
		logger(w.o.Log).LogAttrs(ctx, slog.LevelWarn, "fleet: what happens in nodes is not told elsewhere until the bus works again", slog.Any("error", err))
	}
}

// listener tells a stream what comes over a bus, in order with what was recorded.
type listener struct {
	c      *Client
	thread string
	f      local.Followed
	out    *local.Bus

	sub    bus.Subscription // nil: it is still to be made
	tried  time.Time        // when that failed last
	failed bool             // it was said that the bus is down
	held   []batch

	superstep checkpoint.ID          // that the newest batch is of
	past      map[checkpoint.ID]bool // runs that had supersteps before
	runs      map[string]string      // execution by task
	gone      map[[2]string]struct{} // tasks and their executions that were superseded
	told      map[string]bool        // IDs of questions, and of tasks that have started
}

func (c *Client) listen(ctx context.Context, thread string, f local.Followed) *listener {
	l := &listener{c: c, thread: thread, f: f, out: f.Bus(), past: map[checkpoint.ID]bool{}}
	l.begin("")
	if l.hears() {
		l.subscribe(ctx)
	}
	return l
}

// hears reports whether there is anything to listen to.
func (l *listener) hears() bool {
	return l.c.Bus != nil && l.f.Wants()&(sent|course) != 0
}

// subscribe subscribes, unless that has just failed.
func (l *listener) subscribe(ctx context.Context) {
	if time.Since(l.tried) < busRest {
		return
	}
	l.tried = time.Now()
	ctx, cancel := context.WithTimeout(ctx, busTimeout)
	defer cancel()
	var err error
	if l.sub, err = l.c.Bus.Subscribe(ctx, l.thread); err != nil {
		l.sub = nil
		l.down(ctx, err)
	}
}

// down says once that nothing comes over the bus.
func (l *listener) down(ctx context.Context, err error) {
	if !l.failed && !errors.Is(err, context.Canceled) {
		l.failed = true
		logger(l.c.Log).LogAttrs(ctx, slog.LevelWarn, "fleet: what happens in nodes is missing from a stream until the bus works again", slog.String("thread", l.thread), slog.Any("error", err))
	}
}

func (l *listener) close() {
	if l.sub != nil {
		l.sub.Close()
	}
}

// news has something when there may be something to tell.
func (l *listener) news() <-chan struct{} {
	if l == nil || l.sub == nil {
		return nil
	}
	return l.sub.News()
}

// tell tells what was recorded, and what was sent since it was called last. What has
// happened to a task comes before what it wrote, since workers publish it before the
// superstep is closed; and after what the supersteps before wrote.
func (l *listener) tell(ctx context.Context) error {
	if !l.hears() {
		return l.f.CatchUp(ctx, nil)
	}
	if l.sub == nil {
		l.subscribe(ctx)
	}
	for {
		l.read(ctx)
		for i := range l.held {
			l.held[i].readBefore = true
		}
		first := true
		if err := l.f.CatchUp(ctx, func(epoch checkpoint.ID) {
			if first {
				l.read(ctx)
				first = false
			}
			l.deliver(func(b *batch) bool { return b.Superstep == epoch })
		}); err != nil {
			return err
		}
		l.deliver(func(b *batch) bool { return b.readBefore })
		if len(l.held) == 0 {
			return nil
		}
	}
}

// read takes what has come over the bus.
func (l *listener) read(ctx context.Context) {
	if l.sub == nil || len(l.held) >= mostHeld {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, busTimeout)
	defer cancel()
	found, err := l.sub.Read(ctx)
	if err != nil {
		l.down(ctx, err)
		return
	}
	l.failed = l.failed && len(found) == 0
	for _, data := range found {
		var b batch
		if err := json.Unmarshal(data, &b); err != nil {
			l.down(ctx, err)
			continue
		}
		l.held = append(l.held, b)
	}
}

// deliver tells of those batches that a function chooses.
func (l *listener) deliver(which func(*batch) bool) {
	var rest []batch
	for i := range l.held {
		if b := &l.held[i]; which(b) {
			l.show(b)
		} else {
			rest = append(rest, *b)
		}
	}
	l.held = rest
}

// show tells of a batch. What is of a superstep before the newest, or of an execution of a
// task after which another has begun, is dropped.
func (l *listener) show(b *batch) {
	if run := b.Superstep.Run(); b.Superstep != l.superstep {
		if run == l.superstep.Run() && b.Superstep < l.superstep || l.past[run] {
			return
		}
		if before := l.superstep.Run(); before != run {
			l.past[before] = true
		}
		l.begin(b.Superstep)
	}
	for i := range b.Sent {
		t := &b.Sent[i]
		if b.Execution != "" && !l.executes(t, b.Execution) {
			continue
		}
		for j := range t.Events {
			ev := t.event(l.thread)
			if !t.Events[j].decode(ev) || l.toldOf(ev) { // of a version that is not known here
				continue
			}
			l.out.Send(ev)
		}
	}
}

// executes notes what an execution of a task has told. It reports whether that is the
// newest; of one after another it tells.
func (l *listener) executes(t *ofTask, execution string) bool {
	key := t.key()
	if _, gone := l.gone[[2]string{key, execution}]; gone {
		return false
	}
	if before := l.runs[key]; before != "" && before != execution {
		l.gone[[2]string{key, before}] = struct{}{}
		ev := t.event(l.thread)
		ev.Kind, ev.Time, ev.Err = local.TaskRetried, time.Now(), errAnew
		l.out.Send(ev)
	}
	l.runs[key] = execution
	return true
}

// toldOf reports whether an event was told before, in another call of the same operation:
// that a task starts, or asks.
func (l *listener) toldOf(ev *local.Event) bool {
	var id string
	switch {
	case ev.Kind == local.InterruptRaised && ev.Question != nil:
		id = strings.Join(append(slices.Clip(ev.Path), ev.Question.ID), "\x00") // those around a subgraph ask, too
	case ev.Kind == local.TaskStarted && len(ev.Path) == 0:
		id = local.TaskID(ev.Epoch, ev.Step, ev.Task)
	default:
		return false
	}
	told := l.told[id]
	l.told[id] = true
	return told
}

var errAnew = errors.New("fleet: the task has begun anew on another worker")

// begin begins with a superstep.
func (l *listener) begin(superstep checkpoint.ID) {
	l.superstep, l.runs, l.gone, l.told = superstep, map[string]string{}, map[[2]string]struct{}{}, map[string]bool{}
}

// key tells tasks of the graph itself apart: what is inside of them begins anew with them.
func (t *ofTask) key() string {
	if len(t.Within) > 0 {
		return taskOf(t.Within[0])
	}
	return taskOf(checkpoint.Segment(t.Node, local.TaskID(t.Epoch, t.Step, t.Task), ""))
}

// taskOf returns a segment without what tells several graphs of one task apart.
func taskOf(segment string) string {
	node, task, _, _ := checkpoint.CutSegment(segment)
	return strings.Join([]string{node, task}, "\x00")
}

func (t *ofTask) event(thread string) *local.Event {
	return &local.Event{
		Graph: t.Graph, Thread: checkpoint.ThreadID(thread), Path: t.Path, Within: t.Within, Step: t.Step, Node: t.Node,
		Task: t.Task, Epoch: t.Epoch, Attempt: t.Attempt, Tags: t.Tags,
	}
}
