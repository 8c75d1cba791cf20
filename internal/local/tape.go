package local

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
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

// Tape is what the replay of one superstep knows of one log: that of the thread,
// or of a subgraph that one of its tasks called.
type Tape struct {
	p      *play
	parent *Tape    // of the log whose task called it; nil for the thread's own
	step   int      // of that log
	root   int      // task of the thread's superstep; -1 for the thread's own log
	path   []string // nodes above
	ns     string   // of the recorded log
	log    *tapeLog // nil if there is none
	prog   *Program
	here   string // namespace of the replayed log

	full []*checkpoint.Record // of this run, oldest first, to its end
	cut  []*checkpoint.Record // as far as the run had come

	results map[stepTaskName]checkpoint.OnceResult
	epochs  map[int]checkpoint.ID      // by the step they planned
	closed  map[int]*checkpoint.Record // by step

	edited map[int]bool // tasks of the thread's superstep; see replay.edited
}

type stepTaskName struct {
	step, task int
	name       string
}

// play is the replay of one superstep of a thread.
type play struct {
	logs  map[string]*tapeLog
	take  map[string]bool // nodes, with their path, whose recorded changes are taken
	store *replayStore

	mu     sync.Mutex
	missed map[int][]Difference // calls of Once that the recording doesn't have, by task
	tapes  []*Tape              // of subgraphs, in the order called
}

// index makes the tape's tables from its records.
func (tp *Tape) index() {
	tp.results, tp.epochs, tp.closed = map[stepTaskName]checkpoint.OnceResult{}, map[int]checkpoint.ID{}, map[int]*checkpoint.Record{}
	for _, r := range tp.full {
		step := r.Step
		if r.Source == checkpoint.SourceLoop && r.Epoch == r.ID {
			tp.closed[step] = r
		} else {
			step++
		}
		for _, o := range r.Once {
			if !o.Kept() {
				continue
			}
			tp.results[stepTaskName{step, o.Task, o.Name}] = o
		}
		if r.Epoch == r.ID {
			tp.epochs[r.Step+1] = r.ID
		} else if _, known := tp.epochs[r.Step+1]; !known {
			tp.epochs[r.Step+1] = r.Epoch
		}
	}
	if tp.log == nil {
		return
	}
	steps := map[checkpoint.ID]int{}
	for step, epoch := range tp.epochs {
		steps[epoch] = step
	}
	for _, r := range tp.log.Results {
		if step, ok := steps[r.Epoch]; ok && r.Kind == checkpoint.KindOnce {
			key := stepTaskName{step, r.Task, r.Name}
			if _, known := tp.results[key]; !known {
				tp.results[key] = checkpoint.OnceResult{Task: r.Task, Name: r.Name, Data: r.Data}
			}
		}
	}
}

// once is Task.recorded in a replay: it calls nothing.
func (tp *Tape) once(t *Task, c call, name string) (json.RawMessage, error) {
	o, ok := tp.results[stepTaskName{t.at.step(), t.index, name}]
	if top := t.top(); !ok { // while its superstep is open it stands beside the log of the run's root
		o, ok = top.s.o.Tape.results[stepTaskName{top.at.step(), top.index, t.onceName(name)}]
	}
	switch {
	case !ok:
		root := tp.root
		if root < 0 {
			root = t.index
		}
		d := Difference{Kind: DiffOnce, Path: tp.path, Node: t.node.Name, Want: "no such call", Got: "calls " + c.String()}
		tp.p.mu.Lock()
		if !slices.ContainsFunc(tp.p.missed[root], func(other Difference) bool { return other.same(&d) }) {
			tp.p.missed[root] = append(tp.p.missed[root], d)
		}
		tp.p.mu.Unlock()
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
	if len(tp.cut) == 0 {
		return nil
	}
	last, scope := tp.cut[len(tp.cut)-1], name+"/"
	if last.Epoch != tp.epochs[t.at.step()] {
		return nil
	}
	var open []checkpoint.Question
	if o := last.OpenTask(t.index); o != nil {
		below := map[string]bool{} // questions of subgraphs, by ID
		for ns, id := range o.Children {
			l := tp.p.logs[ns]
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

// takes reports whether the recorded changes of a task stand for it.
func (tp *Tape) takes(node *Node, task int) bool {
	return tp.edited[task] || len(tp.p.take) > 0 && tp.p.take[strings.Join(append(slices.Clip(tp.path), node.Name), "/")]
}

// recorded says what the recording has of a task, in the stead of its node.
func (tp *Tape) recorded(e *execution) (done bool) {
	s, task := e.s, e.task
	rec := tp.closed[s.m.Step()+1]
	if rec == nil {
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
		over, err := core.Upgrade(tp.prog.Values, rec.Version, t.Overlay)
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

// child returns the tape of a subgraph that a task calls.
func (tp *Tape) child(t *Task, call *Call, here string) *Tape {
	epoch, branch := t.at.epoch, t.at.branch
	if tp.root >= 0 { // this log is replayed from its beginning, under other IDs
		epoch, branch = tp.epochs[t.at.step()], ""
		for _, r := range tp.cut {
			if r.Epoch == epoch {
				branch = r.Branch
			}
		}
	}
	c := &Tape{p: tp.p, parent: tp, step: t.at.step(), root: tp.root, path: t.s.o.childPath(t.node), prog: call.Program, here: here}
	if c.root < 0 {
		c.root = t.index
	}
	for _, name := range append([]string{t.node.Name}, t.node.Former...) {
		ns := ChildNamespace(tp.ns, name, CallerID(epoch, 0, t.index, int(t.gen)), call.Keep, call.Key)
		if l := tp.p.logs[ns]; l != nil && epoch != "" {
			c.ns, c.log = ns, l
			break
		}
	}
	if c.log != nil {
		c.find(tp, t, metaTask(branch, epoch, t.index, int(t.gen)), metaTask("", epoch, t.index, int(t.gen)))
	}
	c.index()
	tp.p.mu.Lock()
	tp.p.tapes = append(tp.p.tapes, c)
	tp.p.mu.Unlock()
	return c
}

// find finds the records of the run that a task began, by the task's ID or, if
// the run was forked, by the part of it that says nothing of the branch.
func (tp *Tape) find(parent *Tape, t *Task, id, suffix string) {
	mine := func(r *checkpoint.Record) bool { return strings.HasSuffix(r.Metadata[MetaTask], suffix) }
	var tip *checkpoint.Record
	for _, r := range tp.log.Records {
		if exact := tip != nil && tip.Metadata[MetaTask] == id; mine(r) && (!exact || r.Metadata[MetaTask] == id) {
			tip = r
		}
	}
	if tip == nil {
		return
	}
	for r := range tp.log.back(tip) {
		if !mine(r) {
			break
		}
		tp.full = append(tp.full, r)
	}
	slices.Reverse(tp.full)
	tp.cut = tp.full
	if at := parent.pointer(t.at.step(), t.index, tp.ns); at != "" {
		if i := slices.IndexFunc(tp.full, func(r *checkpoint.Record) bool { return r.ID == at }); i >= 0 {
			tp.cut = tp.full[:i+1]
		}
	}
}

// pointer returns the record at which a subgraph stood when its task last asked
// something, if that is where the run ends.
func (tp *Tape) pointer(step, task int, ns string) checkpoint.ID {
	if len(tp.cut) == 0 {
		return ""
	}
	last := tp.cut[len(tp.cut)-1]
	if last.Epoch != tp.epochs[step] {
		return ""
	}
	if o := last.OpenTask(task); o != nil && o.Asks() {
		return o.Children[ns]
	}
	return ""
}

// answers returns the recorded answers to what a replayed subgraph waits for.
func (tp *Tape) answers(m *core.Machine) map[string]json.RawMessage {
	if len(tp.cut) == 0 {
		return nil
	}
	answers := map[string]json.RawMessage{}
	last, step := tp.cut[len(tp.cut)-1], m.Step()+1
	for _, p := range m.Paused() {
		if c := tp.closed[m.Step()]; c != nil && last != c && last.Seq > c.Seq {
			answers[p.ID] = nil
		}
	}
	for i := range m.Tasks() {
		known := new(checkpoint.OpenTask) // the newest that is known of the task
		for _, r := range tp.cut {
			if o := r.OpenTask(i); o != nil && r.Epoch == tp.epochs[step] {
				known = o
			}
		}
		for _, q := range m.Task(i).Unanswered() {
			switch {
			case len(q.Path) > 0: // answered where it was asked
			case q.When == "before":
				if known.Passed || last.Step >= step {
					answers[q.ID] = nil
				}
			default:
				for _, k := range known.Questions {
					if k.Answered && len(k.Path) == 0 && k.Key == q.Key && k.Event == q.Event && k.Wait == q.Wait && k.When == q.When {
						answers[q.ID] = k.Answer
					}
				}
			}
		}
	}
	return answers
}

// drive lets a replayed subgraph go on for as long as the recording has answers.
func (tp *Tape) drive(ctx context.Context, child *Session) error {
	for {
		answers := tp.answers(child.m)
		if len(answers) == 0 {
			return nil
		}
		if err := child.Answer(answers, nil); err != nil {
			return err
		}
		if err := child.Drive(ctx); err != nil {
			return err
		}
	}
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

// replayStore shows the recorded thread as it was at one record, and keeps what a
// replay writes apart.
type replayStore struct {
	logs map[string]*tapeLog
	ns   string             // of the thread's own log
	head *checkpoint.Record // of it; nil: it is empty

	mu      sync.Mutex
	heads   map[string]checkpoint.ID // of logs of subgraphs that keep their state
	written map[string]*replayLog
}

type replayLog struct {
	records []*checkpoint.Record
	results []checkpoint.Result
}

var _ checkpoint.Store = (*replayStore)(nil)

// show lets the logs of subgraphs that keep their state be seen up to where the
// caller knows them.
func (s *replayStore) show(children map[string]checkpoint.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ns, id := range children {
		if s.heads == nil {
			s.heads = map[string]checkpoint.ID{}
		}
		s.heads[ns] = id
	}
}

func (s *replayStore) Write(_ context.Context, w *checkpoint.Write) (checkpoint.Written, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.written[w.Log.Namespace]
	if l == nil {
		l = &replayLog{}
		if s.written == nil {
			s.written = map[string]*replayLog{}
		}
		s.written[w.Log.Namespace] = l
	}
	for _, r := range w.Results {
		i := slices.IndexFunc(l.results, func(other checkpoint.Result) bool { return other.Key() == r.Key() })
		switch {
		case i < 0:
			l.results = append(l.results, r)
		case r.Replace:
			l.results[i] = r
		}
	}
	if w.Record != nil {
		l.records = append(l.records, w.Record)
	}
	return checkpoint.Written{Fence: 1}, nil
}

func (s *replayStore) Head(_ context.Context, log checkpoint.Log) (*checkpoint.Record, checkpoint.Fence, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.written[log.Namespace]; l != nil && len(l.records) > 0 {
		return l.records[len(l.records)-1], 0, nil
	}
	var r *checkpoint.Record
	if log.Namespace == s.ns {
		r = s.head
	} else if l := s.logs[log.Namespace]; l != nil {
		r = l.byID[s.heads[log.Namespace]]
	}
	if r == nil {
		return nil, 0, fmt.Errorf("%w: log %v has no record", checkpoint.ErrNotFound, log)
	}
	return r, 0, nil
}

func (s *replayStore) Get(_ context.Context, log checkpoint.Log, id checkpoint.ID) (*checkpoint.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.written[log.Namespace]; l != nil {
		if i := slices.IndexFunc(l.records, func(r *checkpoint.Record) bool { return r.ID == id }); i >= 0 {
			return l.records[i], nil
		}
	}
	if l := s.logs[log.Namespace]; l != nil && l.byID[id] != nil {
		return l.byID[id], nil
	}
	return nil, fmt.Errorf("%w: log %v has no record %s", checkpoint.ErrNotFound, log, id)
}

func (s *replayStore) Records(_ context.Context, q checkpoint.Query) iter.Seq2[*checkpoint.Record, error] {
	return func(yield func(*checkpoint.Record, error) bool) {
		var found []*checkpoint.Record
		add := func(rs []*checkpoint.Record) {
			from := 0
			if !q.AllBranches { // those of one branch ascend
				from, _ = slices.BinarySearchFunc(rs, q.From, func(r *checkpoint.Record, seq int64) int { return cmp.Compare(r.Seq, seq) })
			}
			for _, r := range rs[from:] {
				if !q.AllBranches && q.To != 0 && r.Seq > q.To {
					break
				}
				found = append(found, r)
			}
		}
		s.mu.Lock()
		var written []*checkpoint.Record
		if l := s.written[q.Log.Namespace]; l != nil {
			for _, r := range l.records {
				if q.AllBranches || r.Branch == q.Branch {
					written = append(written, r)
				}
			}
		}
		if l := s.logs[q.Log.Namespace]; l != nil && q.AllBranches {
			add(l.Records)
		} else if l != nil {
			rs := l.branches[q.Branch]
			if len(written) > 0 { // in the stead of what was recorded from there on
				end, _ := slices.BinarySearchFunc(rs, written[0].Seq, func(r *checkpoint.Record, seq int64) int { return cmp.Compare(r.Seq, seq) })
				rs = rs[:end]
			}
			add(rs)
		}
		add(written)
		s.mu.Unlock()
		if q.Desc {
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

func (s *replayStore) Results(_ context.Context, log checkpoint.Log, branch checkpoint.Branch, epoch checkpoint.ID) ([]checkpoint.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []checkpoint.Result
	if l := s.written[log.Namespace]; l != nil {
		for _, r := range l.results {
			if r.Branch == branch && r.Epoch == epoch {
				found = append(found, r)
			}
		}
	}
	slices.SortStableFunc(found, func(a, b checkpoint.Result) int { return a.Task - b.Task })
	return found, nil
}

func (s *replayStore) Delete(context.Context, checkpoint.ThreadID) error { return nil }

func (s *replayStore) Close() error { return nil }

// writtenTo returns the records that a replay wrote to a log.
func (s *replayStore) writtenTo(ns string) []*checkpoint.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.written[ns]; l != nil {
		return l.records
	}
	return nil
}
