package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/recording"
	"github.com/superstep-dev/superstep/internal/plan"
)

// ErrNotRecorded: the recording doesn't have the result of a sub-step that is called in a
// replay.
var ErrNotRecorded = errors.New("which the recording does not have")

// tapeLog is a recorded log, indexed.
type tapeLog struct {
	*recording.Log
	lines
	after map[checkpoint.ID][]*checkpoint.Record // by parent
}

func newTapeLog(l *recording.Log) *tapeLog {
	t := &tapeLog{Log: l, lines: linesOf(l.Records), after: map[checkpoint.ID][]*checkpoint.Record{}}
	for _, r := range l.Records {
		t.after[r.Parent] = append(t.after[r.Parent], r)
	}
	return t
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
	if before := l.lines[r.Parent]; before != nil && r.Source != checkpoint.SourceInput {
		if epoch := l.lines[before.Epoch]; epoch != nil {
			return epoch.CreatedAt
		}
	}
	return r.CreatedAt
}

// Tape is what the replay of one superstep of a log knows of it, and finds.
type Tape struct {
	r      *replay
	step   int                // the superstep
	closed *checkpoint.Record // which closed it, or gave it up; nil if none did
	asks   *checkpoint.Record // at which it is open and asks; nil: it is replayed to its end
	edited time.Time          // when the state was last edited while it was open
	once   map[taskName]checkpoint.OnceResult

	begun bool  // a subgraph: its run was recorded
	over  *Tape // that of the task which runs it, where it goes on
	of    int   // the task

	mu    sync.Mutex
	found map[int][]Difference // by task: in its subgraphs, and calls of Once that the recording doesn't have
}

type taskName struct {
	task int
	name string
}

// tape returns what is known of the superstep that is open at a record and led to next.
// Next is nil if the superstep goes on.
func (r *replay) tape(at, next *checkpoint.Record) *Tape {
	tp := &Tape{r: r, once: map[taskName]checkpoint.OnceResult{}, found: map[int][]Difference{}}
	if at == nil {
		return tp
	}
	tp.step = at.Step + 1
	for b := range r.log.back(at) {
		if b.Epoch != at.Epoch || b.ID == b.Epoch { // which closed the one before
			break
		}
		if len(b.Changes) > 0 && b.CreatedAt.After(tp.edited) {
			tp.edited = b.CreatedAt
		}
	}
	closing := next
	if next != nil && next.Epoch == next.ID {
		tp.closed = next
	}
	if next != nil && next.Source == checkpoint.SourceInterrupt {
		tp.asks, closing = next, r.log.closes(next)
	}
	for _, res := range r.log.Results {
		if res.Epoch == at.Epoch && res.Kind == checkpoint.KindOnce {
			tp.once[taskName{res.Task, res.Name}] = checkpoint.OnceResult{Data: res.Data}
		}
	}
	if closing != nil {
		for _, o := range closing.Once {
			if o.Kept() {
				tp.once[taskName{o.Task, o.Name}] = o
			}
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

// finds adds differences to those of a task, again of one that is tried again. What a
// subgraph goes on with, no record of it stands for: it is found by what runs it.
func (tp *Tape) finds(t *Task, ds ...Difference) {
	step, task := t.at.step(), t.index()
	for ; tp.over != nil; tp, task = tp.over, tp.of {
		tp.r.placed(ds, step)
	}
	tp.mu.Lock()
	defer tp.mu.Unlock()
	tp.found[task] = append(tp.found[task], ds...)
}

// told returns what was found of a task.
func (tp *Tape) told(task int) []Difference {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	return slices.Clone(tp.found[task])
}

// recall is Task.recorded in a replay: it calls nothing.
func (tp *Tape) recall(t *Task, c call, name string) (json.RawMessage, error) {
	o, ok := tp.made(t.at.step(), t.index(), name)
	if top := t.top(); !ok { // while its superstep is open it stands beside the log of the run's root
		o, ok = top.s.o.Tape.made(top.at.step(), top.index(), t.onceName(name))
	}
	switch {
	case !ok:
		d := Difference{Kind: DiffOnce, Node: t.node.Name, Want: "no such call", Got: "calls " + c.String()}
		if !tp.r.taped {
			d.Want = "no result of Once: the thread ran without the option RecordOnce"
		}
		tp.finds(t, d)
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
			if l == nil || l.lines[id] == nil || !strings.Contains(ns, "#"+keyOfScope(scope)) {
				continue
			}
			for _, inner := range l.lines[id].Open {
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
func (r *replay) takes(node string) bool { return slices.Contains(r.ro.Take, nodePath(r.o.path, node)) }

// results returns what stands for tasks of the superstep that is open at a record and is
// closed, or given up, by next: what their nodes have left, as it stands beside a log.
func (r *replay) results(at, next *checkpoint.Record) (rs []checkpoint.Result) {
	if at == nil || next.Epoch != next.ID {
		return nil
	}
	left := next.Changes
	if next.Begins() {
		left = next.Left()
	}
	for _, c := range left {
		i, ok := r.prog.Plan.Recorded(c.Node)
		if !ok || !next.Begins() && !r.takes(r.prog.Nodes[i].Name) {
			continue
		}
		led := next.Led(c.Task)
		if r.gone(led) != "" { // the task fails, and the others are looked at
			continue
		}
		res := checkpoint.Result{Branch: at.Branch, Epoch: at.Epoch, Task: c.Task, Kind: checkpoint.KindChanges, Name: checkpoint.VersionName(next.Version), Data: c.Data}
		if o := at.OpenTask(c.Task); o != nil {
			res.Gen = o.Gen
		}
		rs = append(rs, res)
		// Where the node itself may have chosen to go is taken, too; its routers run.
		n, spec := &r.prog.Plan.Nodes[i], &r.prog.Plan.Spec().Nodes[i]
		if !next.Begins() && !led.Static && (n.Command || len(spec.ParentDestinations) > 0 || spec.Chooses && n.Routers == 0) {
			res.Kind = checkpoint.KindRouting
			res.Data, _ = json.Marshal(led) // of texts, and of JSON that was read
			rs = append(rs, res)
		}
	}
	return rs
}

// gone returns where a task led that is no node any more, empty if there are all.
func (r *replay) gone(led *checkpoint.Routing) string {
	for _, name := range led.Goto {
		if _, ok := r.prog.Plan.Recorded(name); !ok && name != plan.End {
			return name
		}
	}
	for _, t := range led.Sends {
		if _, ok := r.prog.Plan.Recorded(t.Node); !ok {
			return t.Node
		}
	}
	return ""
}

// missing says why nothing recorded stands for a task.
func (tp *Tape) missing(e *execution) error {
	if tp.closed != nil && tp.step == e.s.m.Step()+1 {
		if name := tp.r.gone(tp.closed.Led(e.task.Index)); name != "" {
			return &InvalidEdgeError{Source: e.node.Name, Target: name, Near: plan.Nearest(name, e.s.prog.Plan.Names())}
		}
	}
	return errors.New("the recording has no result of it")
}

// subgraph replays what is recorded of the run of a subgraph that a task calls, and
// sets its options so that the call goes on where that run stood.
func (tp *Tape) subgraph(ctx context.Context, t *Task, call *Call, o *Options) error {
	o.Before, o.After = nil, nil
	sub := &replay{recorded: tp.r.recorded, prog: call.Program, o: *o, log: tp.r.logs[o.Log.Namespace], within: tp.r.prog, input: call.Input}
	sub.o.Limit = nil // the task's place is theirs
	if sub.log == nil {
		sub.log = newTapeLog(&recording.Log{Namespace: o.Log.Namespace})
	}
	at := tp.stood(t, sub.log)
	begun := at != nil
	if !begun {
		at = sub.log.lines[t.at.children[o.Log.Namespace]] // it keeps its state
	}
	o.Store, o.Tape = sub.at(at, nil), sub.tape(at, nil)
	o.Tape.over, o.Tape.of = tp, t.index()
	if o.Tape.begun = begun; !begun {
		return nil
	}
	return o.Limit.without(ctx, func() error {
		for _, next := range sub.log.run(at) {
			shares := call.Seed != nil || next.Source == checkpoint.SourceInput
			if shares && !sub.log.began(next).After(tp.edited) { // it would see the edit too soon
				continue
			}
			if _, done := sub.done.LoadOrStore(next, nil); done {
				continue
			}
			ds, err := sub.step(ctx, next)
			if err != nil {
				sub.done.Delete(next) // it was broken off
				return err
			}
			tp.finds(t, ds...)
		}
		return nil
	})
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
			return l.lines[o.Children[l.Namespace]]
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

// replayStore shows the recorded thread with one of its logs as it was at a record. What a
// replay writes, nobody reads.
type replayStore struct {
	checkpoint.Store
	log     checkpoint.Log
	head    *checkpoint.Record  // of it; nil: it is empty
	results []checkpoint.Result // of the superstep that is open there: its other tasks run again
}

func (r *replay) at(head *checkpoint.Record, results []checkpoint.Result) *replayStore {
	return &replayStore{r.store, r.o.Log, head, results}
}

func (s *replayStore) Write(context.Context, *checkpoint.Write) (checkpoint.Written, error) {
	return checkpoint.Written{Fence: 1}, nil
}

// Head returns the head of the log, or the end of another: whether there is one says
// under which of its names a node has called a subgraph.
func (s *replayStore) Head(ctx context.Context, log checkpoint.Log) (*checkpoint.Record, checkpoint.Fence, error) {
	switch {
	case log != s.log:
		return s.Store.Head(ctx, log)
	case s.head == nil:
		return nil, 0, fmt.Errorf("%w: %v has no checkpoint", checkpoint.ErrNotFound, log)
	}
	return s.head, 0, nil
}

func (s *replayStore) Results(_ context.Context, log checkpoint.Log, _ checkpoint.Branch, epoch checkpoint.ID) ([]checkpoint.Result, error) {
	if log != s.log || s.head == nil || epoch != s.head.Epoch {
		return nil, nil
	}
	return s.results, nil
}
