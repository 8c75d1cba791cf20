package local

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/core"
)

type taskKey struct{}

// noAskKey marks a context in which no question can be asked; its value says
// where.
type noAskKey struct{}

// Task is one attempt of a task: the context its node is called with.
type Task struct {
	context.Context
	s       *Session
	node    *Node
	at      *place
	payload json.RawMessage

	// One is made for each attempt, so what can be small is.
	nth, attempt, gen, from int32 // nth: in the plan

	router bool        // one is called, which can't ask
	ended  bool        // by mu, as what follows
	going  atomic.Bool // it has called Go
	mu     sync.Mutex
	talk   *talk // nil until it is needed
}

// talk is what a task asks and calls; most tasks don't.
type talk struct {
	core.Calls
	times   map[[2]string]int    // see nth
	open    *checkpoint.Question // first one that waits
	watched *watched             // with Options.Check
	cut     error                // of subgraphs that ask and might have gone on
	overlay json.RawMessage      // in a subgraph: the update that the task alone sees
	unsaved error                // of what the task did
	futures []*Future
	places  chan struct{} // of futures that run
	idle    *time.Timer   // with Node.Idle
}

// watched is what a node was given: its state and the one committed, which it shares
// memory with; and the goroutine that runs the node.
type watched struct {
	base, state any
	goroutine   string
}

// talking returns t.talk, making it if need be. It is called with t.mu held.
func (t *Task) talking() *talk {
	if t.talk == nil {
		t.talk = new(talk)
	}
	return t.talk
}

// nth counts how often an execution has done something under a name, from 1.
func (k *talk) nth(what, name string) int {
	if k.times == nil {
		k.times = map[[2]string]int{}
	}
	n := k.times[[2]string{what, name}] + 1
	k.times[[2]string{what, name}] = n
	return n
}

// Value returns the task itself for its own key.
func (t *Task) Value(key any) any {
	switch key.(type) {
	case taskKey:
		return t
	case noAskKey:
		if t.router {
			return "in a router"
		}
	}
	return t.Context.Value(key)
}

type scopeKey struct{}

// WithScope returns a context in which questions, sub-steps and subgraph calls
// are told from those of other scopes, whatever their keys.
func WithScope(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, scopeKey{}, scopeOf(ctx)+name+"/")
}

// scopeOf returns the scope of ctx, empty or with a slash at its end.
func scopeOf(ctx context.Context) string {
	scope, _ := ctx.Value(scopeKey{}).(string)
	return scope
}

type tagsKey struct{}

// WithTags returns a context in which what tasks send has tags, beside those of ctx.
func WithTags(ctx context.Context, tags ...string) context.Context {
	return context.WithValue(ctx, tagsKey{}, slices.Concat(contextTags(ctx), tags))
}

func contextTags(ctx context.Context) []string {
	tags, _ := ctx.Value(tagsKey{}).([]string)
	return tags
}

// Tags returns the tags of what the task sends with a context.
func (t *Task) Tags(ctx context.Context) []string {
	if more := contextTags(ctx); more != nil {
		return slices.Concat(tagsOf(t.s.o.tags, t.node), more)
	}
	return tagsOf(t.s.o.tags, t.node)
}

// FromContext returns the task whose node was called with ctx or a context
// made from it.
func FromContext(ctx context.Context) (*Task, bool) {
	t, ok := ctx.Value(taskKey{}).(*Task)
	return t, ok
}

// Info describes the task's place in the run.
type Info struct {
	Graph, Node    string
	Path           []string
	Thread         checkpoint.ThreadID
	Namespace      string
	Run            checkpoint.ID
	Epoch          checkpoint.ID
	Task           int
	Step           int
	Attempt        int
	RemainingSteps int // -1: no limit
	Recent         []string
	From           string
}

// place is what the tasks of a superstep know of the machine: copied before they
// start, since the machine goes on when an attempt was left behind.
type place struct {
	*standing
	nth, ran int32 // of the superstep; ran: supersteps since the last input
	recent   []string
}

// standing is what they know of where records are, of which there are none without a store.
type standing struct {
	epoch    checkpoint.ID
	branch   checkpoint.Branch
	children map[string]checkpoint.ID
}

var unstored standing // of all that have no records

func (p *place) step() int { return int(p.nth) }

func (t *Task) index() int { return int(t.nth) }

// place returns the place of the open superstep's tasks.
func (s *Session) place() *place {
	p := new(place)
	s.setPlace(p, new(core.Pieces[standing]))
	return p
}

func (s *Session) setPlace(p *place, pieces *core.Pieces[standing]) {
	ran := s.m.Ran()
	p.nth, p.ran, p.recent = int32(s.m.Step()+1), int32(ran), s.m.Recent()
	if epoch, children := s.m.Epoch(), s.m.Children(); epoch == "" && children == nil {
		p.standing = &unstored
	} else {
		p.standing = pieces.Next()
		p.epoch, p.branch, p.children = epoch, s.m.Branch(), children
	}
}

// Info returns where the task stands.
func (t *Task) Info() Info {
	s := t.s
	in := Info{
		Graph: s.prog.Plan.Name, Node: t.node.Name, Path: s.o.path, Thread: s.o.Log.Thread, Namespace: s.o.Log.Namespace,
		Run: s.id.get(), Epoch: t.at.epoch, Task: t.index(), Step: t.at.step(), Attempt: int(t.attempt), RemainingSteps: -1,
		Recent: slices.Clone(t.at.recent[max(0, len(t.at.recent)-core.RecentNodes):]),
	}
	if t.from >= 0 {
		in.From = s.prog.Plan.Nodes[t.from].Name
	}
	if s.o.MaxSteps > 0 {
		in.RemainingSteps = s.o.MaxSteps - int(t.at.ran) - 1
	}
	return in
}

// Deps returns the run's dependencies.
func (t *Task) Deps() any { return t.s.o.Deps }

// Programs yields the graph of the task and those around it.
func (t *Task) Programs() iter.Seq[*Program] {
	return func(yield func(*Program) bool) {
		for ; t != nil && yield(t.s.prog); t = t.s.o.parent {
		}
	}
}

// Several reports whether the task's node contains several graphs.
func (t *Task) Several() bool { return t.node.Several }

// Payload returns the recorded payload of a send.
func (t *Task) Payload() json.RawMessage { return t.payload }

// over says why the attempt can do nothing more, if so: it has ended, or its context
// has. What the node made of its context doesn't count.
func (t *Task) over() error {
	if cause := context.Cause(t.Context); cause != nil {
		return fmt.Errorf("%w: %w", ErrLate, cause)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return ErrLate
	}
	return nil
}

// unsaved notes that what the task did could not be recorded. Neither this attempt
// nor those that contain it are followed by others: the run ends.
func (t *Task) unsaved(err error) {
	for ; t != nil; t = t.s.o.parent {
		t.mu.Lock()
		t.talking().unsaved = err
		t.mu.Unlock()
	}
}

// Emit sends an event of the task to the run's listeners. It is dropped when
// the attempt has ended.
func (t *Task) Emit(ctx context.Context, kind Kind, value any) error {
	if err := t.over(); err != nil {
		return err
	}
	t.Beat()
	if t.s.o.Bus.wants(kind) {
		ev := t.s.eventAt(kind, t.at.step(), t.index(), t.at.epoch, time.Now())
		ev.Node, ev.Value, ev.Attempt, ev.Tags = t.node.Name, value, int(t.attempt), t.Tags(ctx)
		t.s.o.Bus.Send(ev)
	}
	return t.Context.Err()
}

// Beat is a sign of life, for the idle timeouts of the task and of those that contain
// it.
func (t *Task) Beat() {
	for ended := false; t != nil && !ended; t = t.s.o.parent {
		t.mu.Lock()
		if ended = t.ended; !ended && t.talk != nil && t.talk.idle != nil {
			t.talk.idle.Reset(t.node.Idle)
		}
		t.mu.Unlock()
	}
}

// end closes the attempt: what it still does has no effect.
func (t *Task) end() {
	t.mu.Lock()
	t.close()
	t.mu.Unlock()
}

// close is end with t.mu held.
func (t *Task) close() {
	t.ended = true
	if t.talk != nil && t.talk.idle != nil {
		t.talk.idle.Stop()
	}
}

// Asking is what a task waits for: an answer, an event or a time.
type Asking struct {
	Key           string
	Value, Schema json.RawMessage
	For           time.Duration    // until the clock answers, counted from the first call; 0: never
	Event         string           // waited for; nobody is asked
	Sleep         bool             // nothing but the time is waited for
	Turn          *checkpoint.Turn // whose end is waited for

	// Accept decodes an answer. When it can't, the answer is void and the question
	// is open again.
	Accept func(q *checkpoint.Question) error
}

// kind sets what is asked apart from what is waited for with the same key.
func (a *Asking) kind() string {
	switch {
	case a.Sleep:
		return "sleep"
	case a.Event != "":
		return "event"
	case a.Turn != nil:
		return "spawned"
	}
	return "interrupt"
}

// waits reports whether nobody is asked.
func (a *Asking) waits() bool { return a.kind() != "interrupt" }

// Call is how graph calls what asks.
func (a *Asking) Call() string { return askedBy[a.kind()] }

var askedBy = map[string]string{"interrupt": "Interrupt", "sleep": "Sleep", "event": "WaitFor", "spawned": "Spawned.Wait"}

// Ask returns the answer to a question, or an error while there is none. An
// empty key stands for the question's position among those without one. When
// the clock has answered, the error is ErrDeadline, and nil for a sleep.
func (t *Task) Ask(ctx context.Context, a Asking) (json.RawMessage, error) {
	key := a.Key
	if where, ok := ctx.Value(noAskKey{}).(string); ok {
		return nil, fmt.Errorf("%s %q in node %q: %w (%s)", a.kind(), key, t.node.Name, ErrNoAsking, where)
	}
	if t.s.o.Store == nil {
		return nil, fmt.Errorf("%s %q in node %q %w", a.kind(), key, t.node.Name, ErrNoCheckpointer)
	}
	if !utf8.ValidString(scopeOf(ctx)+key) || !utf8.ValidString(a.Event) {
		return nil, &CallError{Call: a.Call(), Node: t.node.Name, Key: cmp.Or(key, a.Event), Reason: notUTF8}
	}
	timed := a.Event != "" || a.Turn != nil || a.For > 0
	if ns := t.s.root().o.Log.Namespace; timed && ns != "" {
		return nil, fmt.Errorf("%s %q in node %q: %w, this thread has %q", a.kind(), key, t.node.Name, ErrNamespace, ns)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return nil, ErrLate
	}
	if a.Sleep {
		if err := t.waiting(); err != nil {
			return nil, err
		}
	}
	k := t.talking()
	scope := scopeOf(ctx)
	idKey := "ask " + key
	if a.waits() {
		idKey = a.kind() + " " + key
	}
	if key == "" {
		key = "#" + strconv.Itoa(k.nth("asked", scope)-1)
		// A question known by its position alone is the same question only
		// if it says the same.
		sum := sha256.Sum256(a.Value)
		idKey = "ask " + key + hex.EncodeToString(sum[:8])
	}
	positional := idKey != "ask "+key
	if k.nth(scope+a.kind(), key) > 1 {
		return nil, &CallError{Call: a.Call(), Node: t.node.Name, Key: key, Reason: "the key is used twice in one execution: give each its own"}
	}
	i := slices.IndexFunc(k.Questions, func(q checkpoint.Question) bool {
		return len(q.Path) == 0 && q.Scope == scope && q.Key == key && q.Event == a.Event && q.Wait == a.waits() && (q.Turn != nil) == (a.Turn != nil) && (!positional || bytes.Equal(q.Value, a.Value))
	})
	if i < 0 {
		i = len(k.Questions)
		k.Questions = append(k.Questions, checkpoint.Question{
			ID:  core.QuestionID(t.s.o.Log, t.at.branch, t.at.epoch, t.index(), int(t.gen), scope+idKey),
			Key: key, Scope: scope, Node: t.node.Name, When: "inside", Due: a.due(), Wait: a.waits(), Event: a.Event, Turn: a.Turn,
		})
	}
	q := &k.Questions[i]
	if q.Expired && !a.Sleep {
		late := &DeadlineError{Node: t.node.Name, Key: key, Event: a.Event, Due: q.Due}
		if a.Turn != nil {
			late.Thread = string(a.Turn.Thread)
		}
		return nil, late
	}
	if q.Answered {
		if a.Accept == nil {
			return q.Answer, nil
		}
		err := a.Accept(q)
		if err == nil {
			return q.Answer, nil
		}
		t.s.root().findings.refuse(q.ID, err)
		q.Answer, q.Answered = nil, false
	}
	q.Value, q.Schema = a.Value, a.Schema
	t.wait(q)
	return nil, &Interrupted{Question: *q}
}

// due returns when the clock answers, zero for never.
func (a *Asking) due() time.Time {
	if a.For > 0 || a.Sleep {
		return time.Now().UTC().Round(0).Add(a.For)
	}
	return time.Time{}
}

func (t *Task) wait(q *checkpoint.Question) {
	if k := t.talking(); k.open == nil {
		copied := *q
		k.open = &copied
	}
}

// waiting returns the error of the open question, if there is one.
func (t *Task) waiting() error {
	if t.talk != nil && t.talk.open != nil {
		return &Interrupted{Question: *t.talk.open}
	}
	return nil
}

// asking reports whether a question is open.
func (t *Task) asking() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.talk != nil && t.talk.open != nil
}

// hasAsked reports whether the task asked or waited, in this attempt or before,
// itself or by a subgraph. Breakpoints before its node don't count.
func (t *Task) hasAsked() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.talk != nil && haveAsked(t.talk.Questions)
}

func haveAsked(questions []checkpoint.Question) bool {
	return slices.ContainsFunc(questions, func(q checkpoint.Question) bool { return q.When != "before" || len(q.Path) > 0 })
}

// watch returns what says whether the state was written to since. Goroutines that the
// node started are left alone: others may write while one is in Once.
func (t *Task) watch() (wrote func(c call) error) {
	none := func(call) error { return nil }
	t.mu.Lock()
	var w *watched
	if t.talk != nil {
		w = t.talk.watched
	}
	t.mu.Unlock()
	if w == nil || goroutine() != w.goroutine {
		return none
	}
	before, err := t.s.prog.Check(w.state)
	if err != nil {
		return none // what the node writes is refused when it returns
	}
	return func(c call) error {
		fields, err := t.s.prog.changed(w.state, before)
		if len(fields) > 0 {
			return &MutationError{Node: t.node.Name, Field: fields[0], Kind: c.fn, Name: c.name}
		}
		return err
	}
}

// goroutine names the goroutine that calls it. It is for checks alone.
func goroutine() string {
	var b [64]byte
	name, _, _ := strings.Cut(string(b[:runtime.Stack(b[:], false)]), " [")
	return name
}

// report is how a task ended. It is kept small: a fan-out has a hundred thousand.
type report struct {
	core.End
	task    int
	attempt int32
}

// failed says that the task has failed, cancelled that it was cancelled.
func (r *report) failed(err error) { r.Err, r.Cancelled = err, false }

func (r *report) cancelled(cause error) { r.Err, r.Cancelled = cause, true }

// kept returns where the subgraphs stand that a finished task has called and that keep
// their state.
func (r *report) kept() map[string]checkpoint.ID {
	if r.Calls == nil {
		return nil
	}
	return r.Calls.Kept
}

// stepExpired returns the timeout that ended the superstep's context, if one
// did.
func stepExpired(ctx context.Context) *TimeoutError {
	if ctx.Err() == nil {
		return nil
	}
	var te *TimeoutError
	if errors.As(context.Cause(ctx), &te) && te.Kind == "step" {
		return te
	}
	return nil
}

// causedBy reports whether err is the context's end, seen by a node, rather
// than a failure of its own.
func causedBy(ctx context.Context, err error) bool {
	return errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))
}

// cancelGrace is how long the run waits for tasks whose context was cancelled.
// A node that honours its context returns well within it; one that doesn't is
// left behind, and what it still does has no effect.
const cancelGrace = 100 * time.Millisecond

// execution is an execution of a task: attempts of its node, then its routers.
type execution struct {
	report // how it has ended

	s       *Session
	ctx     context.Context
	node    *Node
	task    *core.Task
	at      *place // nil for a lone task on the driver's goroutine, until it runs
	lone    bool   // it is one
	reuse   any    // changes to be recycled
	command Command
	slow    *slowRouter // nil until one is needed; whoever runs executions keeps it for the next

	first     int // attempt of this execution
	payload   any
	cacheKey  string     // empty: its result isn't cached
	standsFor *NodeError // for which the node's error handler stands in; nil until it does
}

// init makes e one that is to be run.
func (e *execution) init(s *Session, ctx context.Context, task *core.Task, at *place, reuse any) {
	slow := e.slow
	*e = execution{}
	e.report.task, e.s, e.ctx, e.node, e.task = task.Index, s, ctx, &s.prog.Nodes[task.Node], task
	e.at, e.lone, e.reuse, e.slow = at, at == nil, reuse, slow
}

// run runs the task.
func (e *execution) run() {
	s, ctx, task := e.s, e.ctx, e.task
	if s.timed && !task.Ran() {
		defer func(start time.Time) { e.Began, e.Took = start.UnixMicro(), int64(time.Since(start)) }(time.Now())
	}
	defer func() { // the node's own panics are errors already: it is its payload, its cache, a codec
		if v := recover(); v != nil {
			e.report = report{task: task.Index, attempt: e.attempt, End: core.End{Failure: e.Failure, Calls: e.Calls}}
			e.fails(int(e.attempt), &PanicError{Value: v, Stack: debug.Stack()})
		}
	}()
	if task.Ran() { // only its routing is pending
		e.Changes, e.Data = task.Changes(), task.Data()
	} else if s.o.Tape != nil && s.o.Tape.r.takes(e.node.Name) {
		e.fails(0, s.o.Tape.missing(e))
		return
	} else if done := e.attempts(); done {
		return
	}
	e.Ran = true
	if err := e.route(); err != nil {
		e.Ran = e.command.Zero() // else it was the node's own: what it decided isn't known, so it runs again
		if e.Ran && ctx.Err() != nil && causedBy(ctx, err) {
			e.cancelled(context.Cause(ctx))
			return
		}
		e.fails(int(e.attempt), err)
	}
}

// fails says that the task has failed by an error of its node, or of what is around it.
func (e *execution) fails(attempt int, err error) { e.failed(e.nodeError(attempt, err)) }

func (e *execution) nodeError(attempt int, err error) *NodeError {
	return e.s.nodeError(e.node, e.task.Raw, attempt, err)
}

func (s *Session) nodeError(node *Node, payload json.RawMessage, attempt int, err error) *NodeError {
	return &NodeError{Node: node.Name, Path: s.o.path, Step: s.m.Step() + 1, Attempt: attempt, Payload: payload, Err: err}
}

// newTask returns the context of one attempt.
func (e *execution) newTask(ctx context.Context, attempt int) *Task {
	s, task, at := e.s, e.task, e.at
	var t *Task
	if at != nil {
		t = &Task{at: at}
	} else { // a lone task, in one piece with its place
		p := s.flight.pieces.Next()
		s.setPlace(&p.place, &s.flight.standing)
		e.at = &p.place // for the next attempt and the routers too
		t, p.task.at = &p.task, &p.place
	}
	t.Context, t.s, t.node, t.nth, t.attempt = ctx, s, e.node, int32(task.Index), int32(attempt)
	t.gen, t.from, t.payload = int32(task.Gen), int32(task.From), task.Raw
	if len(task.Questions) > 0 || len(task.Children) > 0 {
		t.talk = &talk{Calls: core.Calls{Questions: slices.Clone(task.Questions), Children: maps.Clone(task.Children)}}
	}
	if s.o.parent != nil && task.Overlay != nil {
		t.talking().overlay = task.Overlay
	}
	return t
}

// fork returns the task's private copy of the state, with the task's own overlay.
func (e *execution) fork() (any, error) {
	state, err := e.s.prog.overlaid(e.s.m.State(), e.task)
	if err != nil {
		return nil, err
	}
	if e.lone {
		return e.s.flight.forks.Fork(state), nil
	}
	return e.s.prog.Values.Fork(state), nil
}

// attempts runs the node until it succeeds, asks or fails for good, and then its error
// handler. It reports done when the task has ended. What an earlier run has recorded of it
// isn't done again: attempts go on being counted, and a handler that stood in goes on
// standing in.
func (e *execution) attempts() (done bool) {
	node, task := e.node, e.task
	var ne *NodeError
	if f := task.Failure; f != nil && f.Handled != "" && node.Recover != nil {
		ne = e.nodeError(f.Attempts, &RecordedError{f.Handled, f.Causes})
	} else {
		if done, ne = e.tries(); ne == nil {
			return done
		}
		f := &checkpoint.Failure{Attempts: ne.Attempt}
		if node.Recover == nil {
			e.Failure = f
			e.failed(ne)
			return true
		}
		f.Handled, f.Causes = cmp.Or(ne.Err.Error(), "unknown error"), causes(ne.Err)
		if err := e.note(ne.Err, f); err != nil {
			e.fails(ne.Attempt, errors.Join(ne.Err, err))
			return true
		}
	}
	e.standsFor = ne
	v, attempt, err := e.s.try(e.ctx, e, nil, ne.Attempt)
	if v == failed {
		e.fails(attempt, err)
	}
	return v != succeeded
}

// note records, before anything follows from it, that the node has failed.
func (e *execution) note(err error, f *checkpoint.Failure) error {
	s := e.s
	e.Failure = f
	if s.saver == nil {
		return nil
	}
	s.beside.Store(true)
	w := &checkpoint.Write{Log: s.o.Log, Results: []checkpoint.Result{s.m.FailureResult(e.task, err.Error(), f)}}
	s.addNotes(w, false)
	if err := s.saver.saveNow(e.ctx, w); err != nil {
		s.o.parent.unsaved(err)
		return err
	}
	return nil
}

// tries runs the node until it succeeds, asks or fails for good: then it returns the
// failure. It reports done when the task has ended.
func (e *execution) tries() (done bool, _ *NodeError) {
	s, ctx, node, task := e.s, e.ctx, e.node, e.task
	payload, err := node.payload(task.Raw)
	if err != nil {
		e.fails(0, err)
		return true, nil
	}
	var cacheKey string
	if node.Cache != nil && !haveAsked(task.Questions) { // the node is to have its answer
		var hit bool
		var err error
		if cacheKey, hit, err = e.cached(payload); err != nil {
			e.fails(0, err)
			return true, nil
		} else if hit {
			if s.o.Trace != nil {
				_, end := e.enter(0)
				end(Outcome{Cached: true})
			}
			return false, nil
		}
	}
	e.first = 1
	if task.Failure != nil {
		e.first += task.Failure.Attempts
	}
	e.payload, e.cacheKey = payload, cacheKey
	switch v, attempt, err := e.s.try(ctx, e, node.Retry, e.first); v {
	case failed:
		return false, e.nodeError(attempt, err)
	case ended:
		return true, nil
	}
	return false, nil
}

// try makes an attempt of the node, or calls the error handler that stands in for it.
func (e *execution) try(ctx context.Context, attempt int) (verdict, error) {
	s, node, task := e.s, e.node, e.task
	e.attempt = int32(attempt)
	t := e.newTask(ctx, attempt)
	state, err := e.fork()
	if err == nil && attempt > e.first && e.standsFor == nil { // an attempt may have spoiled its input
		e.payload, err = node.payload(task.Raw)
	}
	if err == nil {
		err = t.attemptNode(state, e.payload, e.standsFor, &e.command)
	}
	if e.closed(t, err) {
		return ended, nil
	}
	if e.Calls != nil && (s.saver == nil || s.saver.mode != Exit) { // which keeps nothing of an attempt that isn't the last
		task.Children = e.Calls.Children
	}
	if err == nil && stepExpired(e.ctx) != nil {
		err = context.Cause(e.ctx) // it came too late
	}
	if err == nil {
		err = e.collect(state)
	}
	if err == nil {
		if node.Cache != nil && e.standsFor == nil && !t.hasAsked() { // an answer holds where it was given
			if _, bad := s.prog.resolve(node.Name, &e.command, s.o.parent != nil); bad == nil {
				e.cache(e.cacheKey)
			}
		}
		return succeeded, nil
	}
	if errors.Is(err, ErrDrained) { // a subgraph stopped; it goes on with the task
		e.cancelled(err)
		return ended, nil
	}
	if e.stopped(attempt, err) {
		return ended, nil
	}
	return failed, err
}

// again records that an attempt has failed and tells of it.
func (e *execution) again(attempt int, err error, delay time.Duration) bool {
	s := e.s
	if saveErr := e.note(err, &checkpoint.Failure{Attempts: attempt}); saveErr != nil {
		e.fails(attempt, errors.Join(err, saveErr))
		return false
	}
	if s.o.Bus.wants(TaskRetried) {
		ev := s.event(TaskRetried, e.task.Index)
		ev.Err, ev.Delay, ev.Attempt = err, delay, attempt
		s.o.Bus.Send(ev)
	}
	return true
}

// closed closes an attempt that came to err and reports whether the task has ended with
// it, with no other attempt and no handler: it asks, or something is wrong that is
// not the node's, whatever the node made of it. It says how.
func (e *execution) closed(t *Task, err error) bool {
	asks, unsaved := t.finish(&e.report)
	switch {
	case unsaved != nil && !errors.Is(err, unsaved):
		e.fails(int(t.attempt), unsaved)
	case unsaved != nil, err != nil && misconfigured(err):
		e.fails(int(t.attempt), err)
	case asks:
		e.Asks = true
		e.cutShort(t)
	default:
		return false
	}
	return true
}

// misconfigured reports whether the run lacks what a node needs.
func misconfigured(err error) bool {
	var deps *MissingDepsError
	var config *ConfigError
	return errors.As(err, &deps) || errors.As(err, &config)
}

// cutShort says of a task that asks if a subgraph of it might have gone on.
func (e *execution) cutShort(t *Task) {
	t.mu.Lock()
	err := t.talk.cut
	t.mu.Unlock()
	switch {
	case err == nil:
	case errors.Is(err, ErrDrained):
		e.cancelled(err)
	case !e.stopped(int(t.attempt), err):
		e.fails(int(t.attempt), err)
	}
}

// stopped reports whether err is the end of the step's context, and says
// how the task ended by it.
func (e *execution) stopped(attempt int, err error) bool {
	if e.ctx.Err() == nil || !causedBy(e.ctx, err) {
		return false
	}
	e.s.cutOff(e.ctx, &e.report, e.node, e.task.Raw, attempt)
	return true
}

// cutOff reports a task that was ended by its superstep's context: it was cancelled, or
// has failed if the superstep's time was over.
func (s *Session) cutOff(ctx context.Context, r *report, node *Node, payload json.RawMessage, attempt int) {
	r.cancelled(context.Cause(ctx))
	if step := stepExpired(ctx); step != nil {
		r.failed(s.nodeError(node, payload, attempt, &TimeoutError{Node: node.Name, Kind: "step", Limit: step.Limit}))
	}
}

// payload decodes a payload that was sent to the node.
func (n *Node) payload(raw json.RawMessage) (any, error) {
	if n.Decode == nil {
		return nil, nil
	}
	payload, err := n.Decode(raw)
	if err != nil {
		return nil, fmt.Errorf("payload: %w", err)
	}
	return payload, nil
}

// finish closes the attempt and reports a task whose node asked questions that
// wait for an answer, and what of it could not be recorded.
func (t *Task) finish(r *report) (asks bool, unsaved error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.close()
	if t.talk == nil {
		r.Calls = nil
		return false, nil
	}
	r.Calls = &t.talk.Calls
	return t.talk.open != nil, t.talk.unsaved
}

// collect learns what the node wrote.
func (e *execution) collect(state any) error {
	s := e.s
	changes, err := s.prog.Values.Changes(s.m.State(), state, e.reuse)
	if err != nil {
		return err
	}
	if s.o.Check && s.prog.Check != nil {
		if err := s.root().findings.keep(s.prog, strings.Join(s.o.childPath(e.node), "/"), state); err != nil {
			return err
		}
	}
	e.Changes = changes
	if changes != nil && (s.o.Store != nil || s.encode) {
		if e.Data, err = s.prog.Values.Encode(changes); err != nil {
			if s.o.Store != nil {
				return &CheckpointError{Thread: s.o.Log.Thread, Op: "save", Err: err}
			}
			return err
		}
	}
	return nil
}

// attemptNode calls the node once, or its error handler, with callbacks and limits of
// time. The caller closes the attempt by finish.
func (t *Task) attemptNode(state, payload any, standsFor *NodeError, c *Command) (err error) {
	*c = Command{}
	if t.s.o.Check && t.s.prog.Check != nil {
		t.talking().watched = &watched{base: t.s.m.State(), state: state}
	}
	timeout := cmp.Or(t.node.Timeout, t.s.o.NodeTimeout)
	if timeout <= 0 && t.node.Idle <= 0 {
		return t.guarded(func(ctx context.Context) error { return t.call(ctx, state, payload, standsFor, c) })
	}
	*c, err = t.limited(timeout, func() (c Command, err error) {
		err = t.guarded(func(ctx context.Context) error { return t.call(ctx, state, payload, standsFor, &c) })
		return c, err
	})
	return err
}

// limited calls fn on a goroutine of its own, so that an attempt that
// ignores the end of its time can be left behind.
func (t *Task) limited(timeout time.Duration, fn func() (Command, error)) (Command, error) {
	node := t.node
	ctx, cancel := context.WithCancelCause(t.Context)
	defer cancel(nil)
	if timeout > 0 {
		timer := time.AfterFunc(timeout, func() { cancel(&TimeoutError{Node: node.Name, Kind: "node", Limit: timeout}) })
		defer timer.Stop()
	}
	if node.Idle > 0 {
		t.mu.Lock()
		t.talking().idle = time.AfterFunc(node.Idle, func() { cancel(&TimeoutError{Node: node.Name, Kind: "idle", Limit: node.Idle}) })
		t.mu.Unlock()
	}
	t.Context = ctx
	c, err := abandonable(ctx.Done(), fn, func() error { return context.Cause(ctx) })
	var te *TimeoutError
	if errors.As(context.Cause(ctx), &te) && te.Kind != "step" && te.Kind != "run" {
		return Command{}, te
	}
	return c, err
}

// call runs the node between its callbacks, or its error handler.
func (t *Task) call(ctx context.Context, state, payload any, standsFor *NodeError, c *Command) (err error) {
	s, node := t.s, t.node
	if standsFor != nil {
		*c, err = node.Recover(ctx, state, standsFor)
		return err
	}
	for _, before := range node.Before {
		skip, err := before(ctx, state)
		if err != nil || skip {
			return err
		}
	}
	if s.o.Check && s.prog.Check != nil {
		t.mu.Lock()
		t.talk.watched.goroutine = goroutine()
		t.mu.Unlock()
		err = t.checked(ctx, state, payload, c)
	} else {
		*c, err = node.Run(ctx, state, payload)
	}
	if t.going.Load() {
		err = t.await(err)
	}
	if len(node.After) == 0 || t.asking() { // then the node has neither succeeded nor failed
		return err
	}
	for _, after := range node.After {
		err = after(ctx, state, err)
	}
	return err
}

// checked runs the node and compares the committed state before and after.
func (t *Task) checked(ctx context.Context, state, payload any, c *Command) error {
	s, node, base := t.s, t.node, t.talk.watched.base
	before, err := s.prog.Check(base)
	if err != nil {
		return err
	}
	got, runErr := node.Run(ctx, state, payload)
	fields, err := s.prog.changed(base, before)
	switch {
	case err != nil:
		return err
	case len(fields) > 0:
		return &MutationError{Node: node.Name, Field: fields[0], Kind: "in place"}
	}
	*c = got
	return runErr
}

// guarded calls fn with the task as its context, waits for the futures that it left
// and turns a panic into an error.
func (t *Task) guarded(fn func(ctx context.Context) error) (err error) {
	normal := false
	defer func() {
		if normal {
			return
		}
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
			if t.going.Load() {
				err = t.await(err)
			}
			return
		}
		// runtime.Goexit: the goroutine ends, and the caller that waits for
		// it is told by the worker.
		t.end()
	}()
	err = fn(t)
	normal = true
	if t.going.Load() {
		err = t.await(err)
	}
	return err
}
