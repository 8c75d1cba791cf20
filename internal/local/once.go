package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/checkpoint"
)

// effects are the sub-steps of the superstep that is open in a run's root, those of
// subgraphs included: under way, done or failed.
type effects struct {
	used atomic.Bool // calls has held something

	mu       sync.Mutex
	calls    map[onceID]*onceCall
	underWay int
	settled  func() // is called when none is under way any more

	noted *noted // nil: nothing is
}

// onceID names a sub-step by the task of the run's root that it belongs to, and its
// name there. It has the epoch, since one step may be planned anew, and the step,
// since without a store there is no epoch.
type onceID struct {
	epoch      checkpoint.ID
	step, task int
	name       string
}

// onceCall is a sub-step that runs or has run.
type onceCall struct {
	done chan struct{}
	over bool // by effects.mu, as what follows; both may be read when done is closed
	data json.RawMessage
	err  error
	late bool // it failed for an attempt that was over: another's try may not

	note bool // it is no sub-step but a note
	had  bool // by a record of the subgraph whose task has made it
}

var errOnceAbandoned = errors.New("the sub-step panicked")

// begin returns the call that has a sub-step's result, or one to be made by t, whose
// result is then given to end. Nothing begins for an attempt that is over.
func (e *effects) begin(ctx context.Context, t *Task, id onceID) (call *onceCall, mine bool, err error) {
	for {
		e.mu.Lock()
		call := e.calls[id]
		if call == nil || call.over && call.err != nil { // it failed: the next caller tries again
			defer e.mu.Unlock()
			if err := t.over(); err != nil { // looked at here, so that held misses nothing
				return nil, false, err
			}
			if e.calls == nil {
				e.calls = map[onceID]*onceCall{}
			}
			call = &onceCall{done: make(chan struct{})}
			e.calls[id] = call
			e.underWay++
			e.used.Store(true)
			return call, true, nil
		}
		e.mu.Unlock()
		select {
		case <-call.done:
			if call.err == errOnceAbandoned || call.late {
				continue
			}
			return call, false, call.err
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		case <-t.Context.Done():
			return nil, false, t.over()
		}
	}
}

// end says what a call of t came to. With keep a failure is kept to be recorded.
func (e *effects) end(t *Task, id onceID, call *onceCall, data json.RawMessage, err error, keep bool) {
	late := err != nil && t.over() != nil
	e.mu.Lock()
	call.over, call.data, call.err, call.late = true, data, err, late
	if err != nil && !keep && e.calls[id] == call {
		delete(e.calls, id)
	}
	var settled func()
	if e.underWay--; e.underWay == 0 {
		settled, e.settled = e.settled, nil
	}
	e.mu.Unlock()
	close(call.done)
	if settled != nil {
		settled()
	}
}

// held reports whether sub-steps are under way; if so, then is called when none is.
// Those of attempts that were left behind are: no other begins once this was asked.
func (e *effects) held(then func()) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.underWay == 0 {
		return false
	}
	e.settled = then
	return true
}

// load takes in recorded results of the superstep that is open in s.
func (e *effects) load(s *Session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, call := range e.calls {
		if call.over {
			delete(e.calls, id)
		}
	}
	for i := range s.tip.Results {
		r := &s.tip.Results[i]
		if r.Kind != checkpoint.KindOnce && r.Kind != checkpoint.KindNote {
			continue
		}
		if e.calls == nil {
			e.calls = map[onceID]*onceCall{}
		}
		call := &onceCall{done: make(chan struct{}), over: true, data: r.Data, note: r.Kind == checkpoint.KindNote}
		close(call.done)
		e.calls[onceID{s.m.Epoch(), s.m.Step() + 1, r.Task, r.Name}] = call
		e.used.Store(true)
	}
}

// Did returns what tasks of the open superstep have recorded by sub-steps, by task and name.
func (s *Session) Did() map[int]map[string]json.RawMessage {
	e, did := &s.effects, map[int]map[string]json.RawMessage{}
	if !e.used.Load() {
		return did
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, call := range e.calls {
		if _, task, name, ok := s.onceOf(id); ok && call.over && call.err == nil && !call.note {
			if did[task] == nil {
				did[task] = map[string]json.RawMessage{}
			}
			did[task][name] = call.data
		}
	}
	return did
}

// NamesOfDone returns the names of what a task has recorded, see [Session.Did], sorted.
func NamesOfDone(did map[string]json.RawMessage) (names []string) {
	for name := range did {
		names = append(names, plainName(name))
	}
	slices.Sort(names)
	return names
}

// DidOf names the sub-steps that a task had recorded when its record was written.
func DidOf(rec *checkpoint.Record, task int) (did []string) {
	for i := range rec.Once {
		if o := &rec.Once[i]; o.Task == task && o.Name != "" && o.Error == "" {
			did = append(did, plainName(o.Name))
		}
	}
	slices.Sort(did)
	return did
}

// KeptOf returns the sub-steps of a task whose results its record keeps.
func KeptOf(rec *checkpoint.Record, task int) (kept []checkpoint.OnceResult) {
	for _, o := range rec.Once {
		if o.Task == task && o.Kept() {
			o.Name = plainName(o.Name)
			kept = append(kept, o)
		}
	}
	return kept
}

// forget drops the sub-steps of the superstep that was committed.
func (e *effects) forget() {
	if !e.used.Load() { // which costs less than the lock
		return
	}
	e.mu.Lock()
	clear(e.calls)
	e.mu.Unlock()
}

// results lists what the sub-steps have come to that the tasks of a step of s called
// themselves, but for those of an epoch, and what these tasks have noted.
func (e *effects) results(s *Session, step int, but checkpoint.ID) []checkpoint.OnceResult {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []checkpoint.OnceResult
	var notes []onceID
	for id, call := range e.calls {
		if id.epoch == but || !call.over { // of an attempt that was left behind
			continue
		}
		at, task, name, ok := s.onceOf(id)
		if call.note {
			if ok && at == step || s.o.parent == nil && !ok && id.step == step && !call.had {
				notes = append(notes, id)
			}
			continue
		}
		if !ok || at != step {
			continue
		}
		r := checkpoint.OnceResult{Task: task, Name: name}
		if s.o.RecordOnce {
			if r.Data = call.data; call.err != nil {
				r.Error = call.err.Error()
			}
		}
		all = append(all, r)
	}
	return append(all, e.notes(s, notes)...)
}

// onceOf reads the name of a sub-step that a task of s itself called, not a
// subgraph's; see Task.onceName.
func (s *Session) onceOf(id onceID) (step, task int, name string, ok bool) {
	if s.o.parent == nil {
		if !strings.HasPrefix(id.name, "/") {
			return id.step, id.task, id.name, true
		}
		name, ok = strings.CutPrefix(id.name, "/:")
		return id.step, id.task, name, ok
	}
	if top := s.o.parent.top(); id.task != top.index() || id.epoch != top.at.epoch || id.step != top.at.step() {
		return 0, 0, "", false
	}
	rest, ok := strings.CutPrefix(id.name, s.o.address+"/")
	if !ok {
		return 0, 0, "", false
	}
	who, name, ok := strings.Cut(rest, ":")
	if !ok || strings.Contains(who, "/") {
		return 0, 0, "", false
	}
	at, who, _ := strings.Cut(who, ".")
	index, _, _ := strings.Cut(who, ".")
	step, err := strconv.Atoi(at)
	task, err2 := strconv.Atoi(index)
	return step, task, name, err == nil && err2 == nil
}

// top returns the task of the run's root that t belongs to: itself, or the one that
// called the subgraph.
func (t *Task) top() *Task {
	for t.s.o.parent != nil {
		t = t.s.o.parent
	}
	return t
}

// onceName returns how a sub-step is called in the task of the run's root. What of a
// subgraph is in it is the same when the subgraph begins anew, under another epoch:
// a task that is again planned as it was has the sub-steps that it had.
func (t *Task) onceName(name string) string {
	if t.s.o.parent != nil {
		return t.address() + ":" + name
	}
	if strings.HasPrefix(name, "/") { // as addresses do
		return "/:" + name
	}
	return name
}

// address names a task of a subgraph within the task of the run's root; see
// Options.address.
func (t *Task) address() string {
	a := t.s.o.address + "/" + strconv.Itoa(t.at.step()) + "." + strconv.Itoa(t.index()) + "." + url.QueryEscape(t.plannedAs())
	if overlay := t.overlay(); t.payload != nil || overlay != nil {
		sum := sha256.Sum256(append(append([]byte(t.payload), 0), overlay...))
		a += "." + hex.EncodeToString(sum[:8])
	}
	return a
}

// plannedAs returns the name under which the task's node was recorded.
func (t *Task) plannedAs() string {
	if tip := t.s.tip; tip != nil && tip.Epoch.ID == t.at.epoch && t.index() < len(tip.Epoch.Tasks) {
		return tip.Epoch.Tasks[t.index()].Node
	}
	return t.node.Name
}

func (t *Task) overlay() json.RawMessage {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.talk == nil {
		return nil
	}
	return t.talk.overlay
}

// Once returns the recorded result of a named sub-step, or runs it and records
// its result. It is given an idempotency key that is the same whenever the task
// runs again.
func (t *Task) Once(ctx context.Context, name string, fn func(ctx context.Context, key string) (json.RawMessage, error)) (json.RawMessage, error) {
	if err := t.canRecord(ctx, "Once", name, fn == nil); err != nil {
		return nil, err
	}
	name = scopeOf(ctx) + name
	c := call{fn: "Once", name: name}
	return t.recorded(ctx, c, name, func(id onceID) (json.RawMessage, error) {
		return t.effect(ctx, c, id, func() (json.RawMessage, error) {
			return fn(context.WithValue(ctx, noAskKey{}, "inside Once"), t.idempotencyKey(id))
		})
	})
}

// call is a call of a sub-step, as people are told of it.
type call struct {
	fn, name string
	input    json.RawMessage // nil: it has none
}

func (c call) String() string {
	if c.input == nil {
		return c.fn + " " + strconv.Quote(c.name)
	}
	return c.fn + " " + strconv.Quote(c.name) + " with " + text(c.input)
}

// canRecord checks a call of a sub-step; noFn says that its function is nil.
func (t *Task) canRecord(ctx context.Context, fn, name string, noFn bool) error {
	if where, ok := ctx.Value(noAskKey{}).(string); ok {
		return fmt.Errorf("%s is not possible %s", call{fn: fn, name: name}, where)
	}
	switch {
	case name == "":
		return &CallError{Call: fn, Node: t.node.Name, Reason: "it needs a name"}
	case noFn:
		return &CallError{Call: fn, Node: t.node.Name, Key: name, Reason: "its function is nil"}
	case !utf8.ValidString(scopeOf(ctx) + name):
		return &CallError{Call: fn, Node: t.node.Name, Key: scopeOf(ctx) + name, Reason: notUTF8}
	}
	return nil
}

// recorded returns what is recorded under a name, or makes it by run, unless the
// attempt is over or, to Once, waits for an answer: what Do has planned before it was
// asked is done.
func (t *Task) recorded(ctx context.Context, c call, name string, run func(id onceID) (json.RawMessage, error)) (_ json.RawMessage, err error) {
	if tape := t.s.o.Tape; tape != nil {
		if err := tape.asked(t, name); err != nil {
			return nil, err
		}
	}
	if c.input == nil {
		t.mu.Lock()
		err = t.waiting()
		t.mu.Unlock()
	}
	if err == nil {
		err = t.over()
	}
	if err != nil {
		return nil, err
	}
	if t.s.o.Tape != nil {
		return t.s.o.Tape.recall(t, c, name)
	}
	top := t.top()
	id := onceID{top.at.epoch, top.at.step(), top.index(), t.onceName(name)}
	e := &top.s.effects
	made, mine, err := e.begin(ctx, t, id)
	if err != nil {
		return nil, err
	}
	if !mine {
		return made.data, nil
	}
	var data json.RawMessage
	err = errOnceAbandoned
	defer func() {
		asked := new(*Interrupted)
		e.end(t, id, made, data, err, t.s.o.RecordOnce && !errors.As(err, asked))
	}()
	if data, err = run(id); err != nil {
		return nil, err
	}
	t.Beat()
	return data, nil
}

// effect makes a sub-step's result and records it beside the log of the run's root.
func (t *Task) effect(ctx context.Context, c call, id onceID, fn func() (json.RawMessage, error)) (json.RawMessage, error) {
	wrote := t.watch()
	data, err := fn()
	if err == nil {
		err = wrote(c)
	}
	if err != nil {
		return nil, err
	}
	if data == nil {
		data = json.RawMessage("null")
	}
	top := t.top()
	if s := top.s; s.saver != nil {
		w := &checkpoint.Write{Log: s.o.Log, Results: []checkpoint.Result{{
			Branch: top.at.branch, Epoch: id.epoch, Task: id.task, Kind: checkpoint.KindOnce, Name: id.name, Data: data,
		}}}
		s.addNotes(w, false)
		if err := s.saver.saveNow(ctx, w); err != nil {
			t.unsaved(err)
			return nil, err
		}
		s.beside.Store(true)
	}
	return data, nil
}

func (t *Task) idempotencyKey(id onceID) string {
	h := fnv.New128a()
	s := t.top().s
	for _, p := range []string{string(s.o.Log.Thread), s.o.Log.Namespace, string(id.epoch), strconv.Itoa(id.task), id.name} {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	if s.o.Store == nil {
		h.Write([]byte(s.id.get() + checkpoint.ID(strconv.Itoa(id.step))))
	}
	return hex.EncodeToString(h.Sum(nil))
}
