package local

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/recording"
	"github.com/superstep-dev/superstep/internal/core"
	"github.com/superstep-dev/superstep/internal/plan"
)

// ErrNotRecorded: the recording doesn't have the result of a sub-step that is called in a
// replay.
var ErrNotRecorded = errors.New("which the recording does not have")

// RecordedError is an error that an earlier run has recorded: of a sub-step, for a
// replay, or of a node for its error handler. Its text is what is left of it; of a node's,
// errors.Is finds in it what the error itself was or wrapped, by type and text.
type RecordedError struct {
	Text   string
	causes []string
}

func (e *RecordedError) Error() string { return e.Text }

// Is reports whether the error was, or wrapped, one of the target's type and text.
func (e *RecordedError) Is(target error) bool { return slices.Contains(e.causes, cause(target)) }

func cause(err error) string { return fmt.Sprintf("%T %v", err, err) }

// maxCauses bounds what is recorded of an error.
const maxCauses = 32

// causes lists what an error is and wraps.
func causes(err error) (all []string) {
	rest := []error{err}
	for len(rest) > 0 && len(all) < maxCauses {
		err, rest = rest[0], rest[1:]
		if err == nil {
			continue
		}
		all = append(all, cause(err))
		switch w := err.(type) {
		case interface{ Unwrap() error }:
			rest = append(rest, w.Unwrap())
		case interface{ Unwrap() []error }:
			rest = append(rest, w.Unwrap()...)
		}
	}
	return all
}

// tapeLog is a recorded log, indexed.
type tapeLog struct {
	*recording.Log
	byID     map[checkpoint.ID]*checkpoint.Record
	branches map[checkpoint.Branch][]*checkpoint.Record
	after    map[checkpoint.ID][]*checkpoint.Record // by parent
}

func indexLogs(rec *recording.Recording) map[string]*tapeLog {
	logs := map[string]*tapeLog{}
	for _, l := range rec.Logs {
		t := &tapeLog{Log: l, byID: map[checkpoint.ID]*checkpoint.Record{}, branches: map[checkpoint.Branch][]*checkpoint.Record{}, after: map[checkpoint.ID][]*checkpoint.Record{}}
		for _, r := range l.Records {
			t.byID[r.ID] = r
			t.branches[r.Branch] = append(t.branches[r.Branch], r)
			if r.Parent != "" {
				t.after[r.Parent] = append(t.after[r.Parent], r)
			}
		}
		logs[l.Namespace] = t
	}
	return logs
}

// back yields a record and those before it on its line, newest first.
func (l *tapeLog) back(r *checkpoint.Record) iter.Seq[*checkpoint.Record] {
	return func(yield func(*checkpoint.Record) bool) {
		for ; r != nil; r = l.byID[r.Parent] {
			if !yield(r) {
				return
			}
		}
	}
}

// closes returns the record that closed the superstep that is open at r, nil if
// none did.
func (l *tapeLog) closes(r *checkpoint.Record) *checkpoint.Record {
	for _, n := range l.after[r.ID] {
		if n.Epoch == n.ID && (n.Source == checkpoint.SourceLoop || n.Source == checkpoint.SourceInput) {
			return n
		}
		if n.Epoch == r.Epoch {
			if c := l.closes(n); c != nil {
				return c
			}
		}
	}
	return nil
}

// ended reports whether the node of a task of the superstep that is open at r has
// ended and asked nothing. Nothing is known of that when the superstep was closed.
func (l *tapeLog) ended(r *checkpoint.Record, task int) bool {
	for _, o := range l.Records {
		if t := o.OpenTask(task); o.Epoch == r.Epoch && t != nil && len(t.Questions) > 0 {
			return false
		}
	}
	return slices.ContainsFunc(l.Results, func(res checkpoint.Result) bool {
		return res.Branch == r.Branch && res.Epoch == r.Epoch && res.Task == task && res.Kind == checkpoint.KindChanges
	})
}

// run lists the records of a log up to one that the same task's run of a subgraph wrote,
// oldest first.
func (l *tapeLog) run(to *checkpoint.Record) (rs []*checkpoint.Record) {
	for r := range l.back(to) {
		if taskInMeta(r) != taskInMeta(to) {
			break
		}
		rs = append(rs, r)
	}
	slices.Reverse(rs)
	return rs
}

// began returns when a record's superstep began; that of an input is its own.
func (l *tapeLog) began(r *checkpoint.Record) time.Time {
	if before := l.byID[r.Parent]; before != nil && r.Source != checkpoint.SourceInput {
		if epoch := l.byID[before.Epoch]; epoch != nil {
			return epoch.CreatedAt
		}
	}
	return r.CreatedAt
}

// Tape is what the replay of one superstep of a log knows of it, and finds.
type Tape struct {
	r      *replay
	step   int                // the superstep
	asks   *checkpoint.Record // at which it is open and asks; nil: it is replayed to its end
	closed *checkpoint.Record // which closed it, nil if none did
	edited time.Time          // when the state was last edited while it was open
	once   map[taskName]checkpoint.OnceResult

	begun bool  // a subgraph: its run was recorded
	over  *Tape // that of the task which runs it, where it goes on
	of    int   // the task

	mu     sync.Mutex
	found  map[int][]Difference // by task: in its subgraphs, and calls of Once that the recording doesn't have
	missed map[int]bool         // tasks with such calls
}

type taskName struct {
	task int
	name string
}

// tape returns what is known of the superstep that is open at a record and led to next.
// Next is nil if the superstep goes on.
func (r *replay) tape(at, next *checkpoint.Record) *Tape {
	tp := &Tape{r: r, once: map[taskName]checkpoint.OnceResult{}, found: map[int][]Difference{}, missed: map[int]bool{}}
	if at == nil {
		return tp
	}
	tp.step = at.Step + 1
	var full []*checkpoint.Record // the newest first
	if next != nil {
		closing := next
		if next.Epoch != next.ID {
			closing = r.log.closes(next)
			full = append(full, next)
		}
		if closing != nil {
			full = slices.Insert(full, 0, closing)
			if closing.Source == checkpoint.SourceLoop {
				tp.closed = closing
			}
		}
		if next.Source == checkpoint.SourceInterrupt {
			tp.asks = next
		}
	}
	for b := range r.log.back(at) {
		if b.Epoch != at.Epoch || b.ID == b.Epoch { // which closed the one before
			break
		}
		full = append(full, b)
		if len(b.Changes) > 0 && b.CreatedAt.After(tp.edited) {
			tp.edited = b.CreatedAt
		}
	}
	keep := func(o checkpoint.OnceResult) {
		key := taskName{o.Task, o.Name}
		if _, known := tp.once[key]; !known {
			tp.once[key] = o
		}
	}
	for _, b := range full {
		for _, o := range b.Once {
			if o.Kept() {
				keep(o)
			}
		}
	}
	for _, res := range r.log.Results {
		if res.Epoch == at.Epoch && res.Kind == checkpoint.KindOnce {
			keep(checkpoint.OnceResult{Task: res.Task, Name: res.Name, Data: res.Data})
		}
	}
	return tp
}

// made returns the recorded result of a sub-step of a task.
func (tp *Tape) made(step, task int, name string) (o checkpoint.OnceResult, ok bool) {
	if step == tp.step {
		o, ok = tp.once[taskName{task, name}]
	}
	return o, ok
}

// finds adds differences to those of a task; one that is tried again finds them again.
// What a subgraph goes on with, no record of it stands for: it is found by what runs it.
func (tp *Tape) finds(t *Task, ds ...Difference) {
	step, task := t.at.step(), t.index()
	for ; tp.over != nil; tp, task = tp.over, tp.of {
		tp.r.placed(ds, step)
	}
	tp.mu.Lock()
	defer tp.mu.Unlock()
	for _, d := range ds {
		if !slices.ContainsFunc(tp.found[task], func(other Difference) bool { return reflect.DeepEqual(d, other) }) {
			tp.found[task] = append(tp.found[task], d)
		}
	}
}

// misses notes that a task called what has no recorded result.
func (tp *Tape) misses(task int) {
	for ; tp != nil; tp, task = tp.over, tp.of {
		tp.mu.Lock()
		tp.missed[task] = true
		tp.mu.Unlock()
	}
}

// told returns what was found of a task, and whether it misses a result.
func (tp *Tape) told(task int) (ds []Difference, misses bool) {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	return slices.Clone(tp.found[task]), tp.missed[task]
}

// recall is Task.recorded in a replay: it calls nothing.
func (tp *Tape) recall(t *Task, c call, name string) (json.RawMessage, error) {
	o, ok := tp.made(t.at.step(), t.index(), name)
	if top := t.top(); !ok { // while its superstep is open it stands beside the log of the run's root
		o, ok = top.s.o.Tape.made(top.at.step(), top.index(), t.onceName(name))
	}
	switch {
	case !ok:
		tp.finds(t, Difference{Kind: DiffOnce, Node: t.node.Name, Want: "no such call", Got: "calls " + c.String()})
		tp.misses(t.index())
		return nil, fmt.Errorf("node %q calls %v, %w", t.node.Name, c, ErrNotRecorded)
	case o.Error != "":
		return nil, &RecordedError{Text: o.Error}
	}
	return o.Data, nil
}

// asked asks what was open in a sub-step at this point of the recording: questions
// in a scope of the sub-step's name, of subgraphs called there too. The sub-step had
// no result then; it isn't called to ask again.
func (tp *Tape) asked(t *Task, name string) error {
	if tp.asks == nil || tp.step != t.at.step() {
		return nil
	}
	scope := name + "/"
	var open []checkpoint.Question
	if o := tp.asks.OpenTask(t.index()); o != nil {
		below := map[string]bool{} // questions of subgraphs, by ID
		for ns, id := range o.Children {
			l := tp.r.logs[ns]
			if l == nil || l.byID[id] == nil || !strings.Contains(ns, "#"+keyOfScope(scope)) {
				continue
			}
			for _, inner := range l.byID[id].Open {
				for _, q := range inner.Questions {
					below[q.ID] = !q.Answered
				}
			}
		}
		for _, q := range o.Questions {
			if !q.Answered && (below[q.ID] || len(q.Path) == 0 && strings.HasPrefix(q.Scope, scope)) {
				open = append(open, q)
			}
		}
	}
	if len(open) == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.talking()
	for i := range open {
		if !slices.ContainsFunc(k.Questions, func(q checkpoint.Question) bool { return q.ID == open[i].ID }) {
			k.Questions = append(k.Questions, open[i])
		}
		t.wait(&open[i])
	}
	return t.waiting()
}

// takes reports whether the recorded changes of a node stand for it.
func (tp *Tape) takes(node *Node) bool {
	return len(tp.r.take) > 0 && tp.r.take[nodePath(tp.r.o.path, node.Name)]
}

// recorded says what the recording has of a task, in the stead of its node.
func (tp *Tape) recorded(e *execution) (done bool) {
	s, task := e.s, e.task
	rec := tp.closed
	if rec == nil || tp.step != s.m.Step()+1 {
		e.fails(0, errors.New("the recording has no result of it"))
		return true
	}
	for _, c := range rec.Changes {
		if n, ok := s.prog.Plan.Recorded(c.Node); c.Task != task.Index || !ok || n != task.Node {
			continue
		}
		var err error
		if e.Changes, err = core.Recorded(s.prog.Values, rec.Version, c.Data); err == nil && e.Changes != nil {
			e.Data, err = s.prog.Values.Encode(e.Changes)
		}
		if err != nil {
			e.fails(0, fmt.Errorf("recorded changes: %w", err))
			return true
		}
	}
	e.command = tp.command(s.prog.Plan, task, rec)
	return false
}

// command returns where a node that chooses itself has led, zero for along its edges.
func (tp *Tape) command(g *plan.Graph, task *core.Task, rec *checkpoint.Record) (c Command) {
	n, spec := &g.Nodes[task.Node], &g.Spec().Nodes[task.Node]
	if !n.Command && len(spec.ParentDestinations) == 0 && (!spec.Chooses || n.Routers > 0) {
		return c
	}
	led := rec.Led(task.Index)
	if led.Static {
		return c
	}
	c.Stop = led.Stop
	for _, name := range led.Goto {
		c.Goto = c.Goto.And(g.Present(name))
	}
	for _, t := range led.Sends {
		over, err := core.Upgrade(tp.r.prog.Values, rec.Version, t.Overlay)
		if err != nil {
			over = t.Overlay // the task will tell
		}
		c.Sends = append(c.Sends, Send{Node: g.Present(t.Node), Raw: t.Payload, Overlay: over})
	}
	c.Parent = toParent(led.Parent)
	if c.Zero() {
		c.Goto = NamesOf(plan.End)
	}
	return c
}

// subgraph replays what is recorded of the run of a subgraph that a task calls, and
// sets its options so that the call goes on where that run stood.
func (tp *Tape) subgraph(ctx context.Context, t *Task, call *Call, o *Options) error {
	o.Before, o.After = nil, nil
	sub := &replay{recorded: tp.r.recorded, prog: call.Program, o: *o, log: tp.r.logs[o.Log.Namespace], within: tp.r.prog, input: call.Input}
	sub.o.Limit = nil // the task's place is theirs
	if sub.log == nil {
		sub.log = &tapeLog{Log: &recording.Log{Namespace: o.Log.Namespace}}
	}
	at := tp.stood(t, sub.log)
	begun := at != nil
	if !begun {
		at = sub.log.byID[t.at.children[o.Log.Namespace]] // it keeps its state
	}
	o.Store, o.Tape = sub.store(at), sub.tape(at, nil)
	o.Tape.over, o.Tape.of = tp, t.index()
	if o.Tape.begun = begun; !begun {
		return nil
	}
	return o.Limit.without(ctx, func() error {
		for _, next := range sub.log.run(at) {
			shares := call.Seed != nil || next.Source == checkpoint.SourceInput
			if shares && !sub.log.began(next).After(tp.edited) || !sub.first(next) { // it would see the edit too soon
				continue
			}
			ds, err := sub.step(ctx, next)
			if err != nil {
				sub.again(next)
				return err
			}
			tp.finds(t, ds...)
		}
		return nil
	})
}

// first reports whether a record of a subgraph is to be replayed for the first time.
func (r *recorded) first(rec *checkpoint.Record) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	done := r.done[rec]
	r.done[rec] = true
	return !done
}

// again has a record replayed once more, since that was broken off.
func (r *recorded) again(rec *checkpoint.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.done, rec)
}

// stood returns where a subgraph's run that a task began stood, nil if there is none: when
// the task asked, else at the end. On a branch where nothing is recorded of it, it is the
// run that was forked.
func (tp *Tape) stood(t *Task, l *tapeLog) (at *checkpoint.Record) {
	if tp.step != t.at.step() {
		return nil
	}
	if tp.asks != nil {
		if o := tp.asks.OpenTask(t.index()); o != nil && o.Asks() && o.Children[l.Namespace] != "" {
			return l.byID[o.Children[l.Namespace]]
		}
	}
	id, suffix, best := t.id(), metaTask("", t.at.epoch, t.index(), int(t.gen)), 0
	for _, r := range l.Records {
		mine := r.Metadata[MetaTask]
		if !strings.HasSuffix(mine, suffix) {
			continue
		}
		rank := 1
		if r.Epoch == r.ID && len(r.Tasks) == 0 { // it has ended
			rank++
		}
		if mine == id {
			rank += 2
		}
		if rank >= best {
			at, best = r, rank
		}
	}
	return at
}

// taskInMeta returns the part of the metadata that names the task of a subgraph's run,
// which says nothing of the branch.
func taskInMeta(r *checkpoint.Record) string {
	_, task, _ := strings.Cut(r.Metadata[MetaTask], "|")
	return task
}

// quiet returns a program that neither waits before it tries again nor uses a
// cache.
func quiet(prog *Program) *Program {
	p := *prog
	p.Nodes = slices.Clone(prog.Nodes)
	for i := range p.Nodes {
		n := &p.Nodes[i]
		n.Cache = nil
		if retry := n.Retry; retry != nil {
			n.Retry = func(attempt int, err error) (time.Duration, bool) {
				if errors.Is(err, ErrNotRecorded) {
					return 0, false
				}
				_, again := retry(attempt, err)
				return 0, again
			}
		}
	}
	return &p
}

// replayStore shows a recorded log as it was at one record. What a replay writes, nobody
// reads.
type replayStore struct {
	logs map[string]*tapeLog
	ns   string             // of the log
	head *checkpoint.Record // of it; nil: it is empty
}

var _ checkpoint.Store = (*replayStore)(nil)

func (r *replay) store(head *checkpoint.Record) *replayStore {
	return &replayStore{logs: r.logs, ns: r.log.Namespace, head: head}
}

func (s *replayStore) Write(context.Context, *checkpoint.Write) (checkpoint.Written, error) {
	return checkpoint.Written{Fence: 1}, nil
}

// Head returns the head of the log, or the end of another: whether there is one says
// under which of its names a node has called a subgraph.
func (s *replayStore) Head(_ context.Context, log checkpoint.Log) (*checkpoint.Record, checkpoint.Fence, error) {
	head := s.head
	if l := s.logs[log.Namespace]; log.Namespace != s.ns && l != nil && len(l.Records) > 0 {
		head = l.Records[len(l.Records)-1]
	} else if log.Namespace != s.ns {
		head = nil
	}
	if head == nil {
		return nil, 0, fmt.Errorf("%w: log %v has no record", checkpoint.ErrNotFound, log)
	}
	return head, 0, nil
}

func (s *replayStore) Get(_ context.Context, log checkpoint.Log, id checkpoint.ID) (*checkpoint.Record, error) {
	if l := s.logs[log.Namespace]; l != nil && l.byID[id] != nil {
		return l.byID[id], nil
	}
	return nil, fmt.Errorf("%w: log %v has no record %s", checkpoint.ErrNotFound, log, id)
}

func (s *replayStore) Records(_ context.Context, q checkpoint.Query) iter.Seq2[*checkpoint.Record, error] {
	return func(yield func(*checkpoint.Record, error) bool) {
		l := s.logs[q.Log.Namespace]
		if l == nil {
			return
		}
		found := l.Records
		if !q.AllBranches { // those of one branch ascend
			bySeq := func(r *checkpoint.Record, seq int64) int { return cmp.Compare(r.Seq, seq) }
			found = l.branches[q.Branch]
			if q.To != 0 {
				to, _ := slices.BinarySearchFunc(found, q.To+1, bySeq)
				found = found[:to]
			}
			from, _ := slices.BinarySearchFunc(found, q.From, bySeq)
			found = found[from:]
		}
		if q.Desc {
			found = slices.Clone(found)
			slices.Reverse(found)
		}
		for i, r := range found {
			if q.Limit > 0 && i == q.Limit {
				return
			}
			if q.Meta {
				r = r.Meta()
			}
			if !yield(r, nil) {
				return
			}
		}
	}
}

// Results returns none: the tasks of an open superstep run again.
func (s *replayStore) Results(context.Context, checkpoint.Log, checkpoint.Branch, checkpoint.ID) ([]checkpoint.Result, error) {
	return nil, nil
}

func (s *replayStore) Delete(context.Context, checkpoint.ThreadID) error { return nil }

func (s *replayStore) Close() error { return nil }
