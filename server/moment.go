package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server/internal/db"
)

// LangGraph's clients know a thread by its moments: one for each superstep, and one
// before each input is taken in. Here a superstep that asks has checkpoints of its questions
// and answers beside its own, whose ID the moment has; and what took an input in is one
// checkpoint, with a moment before it that is stored nowhere.

// beforeInput returns the ID of the moment before a checkpoint that took an input in: the
// checkpoint's, as a UUID of version 8 where it is one of version 7.
func beforeInput(id string) string {
	if len(id) != 36 || id[14] != '7' {
		return ""
	}
	return id[:14] + "8" + id[15:]
}

// takenAt returns the checkpoint that took in what was given at a moment; empty if there
// is none.
func takenAt(moment string) string {
	if len(moment) != 36 || moment[14] != '8' {
		return ""
	}
	return moment[:14] + "7" + moment[15:]
}

// takes reports whether a checkpoint has taken an input in, or what an edit began its
// thread with, and so is shown as two moments.
func takes(source, id, parent string, next []string) bool {
	switch checkpoint.Source(source) {
	case checkpoint.SourceInput:
	case checkpoint.SourceUpdate:
		if parent != "" || len(next) == 0 {
			return false
		}
	default:
		return false
	}
	return beforeInput(id) != ""
}

// beganAt is the entry of a checkpoint's metadata that names the moment before an input
// at which its run began. The run's first checkpoint follows the one that the moment has
// the state of, as what took that input in does; as clients know it, it follows the moment.
const beganAt = "superstep:began_at"

// took returns the checkpoint that took an input in, by the moment before it.
func took(ctx context.Context, t *graph.Thread[json.RawMessage], moment string) (entry, error) {
	for e, err := range t.At(takenAt(moment)).History(ctx, graph.HistoryQuery{Limit: 1}) {
		if err != nil || takes(e.Source, e.Checkpoint, e.Parent, e.Next) {
			return e, err
		}
	}
	return entry{}, checkpoint.ErrNotFound
}

// originOf returns what a moment before an input has the state of, and whether the history
// has the moment.
func originOf(ctx context.Context, thread *graph.Thread[json.RawMessage], t *db.Thread, moment string) (of string, ok bool, err error) {
	if takenAt(moment) == "" {
		return "", false, nil
	}
	e, err := took(ctx, thread, moment)
	if errors.Is(err, checkpoint.ErrNotFound) { // it was pruned
		return "", false, nil
	}
	return e.Parent, err == nil && !undone(t, metadataOf(e.Metadata, e.Source, e.Step)), err
}

// undone reports whether what has these metadata was written by a run that was rolled back.
func undone(t *db.Thread, metadata object) bool {
	return slices.Contains(t.RolledBack, textOf(metadata["run_id"]))
}

// inside reports whether checkpoints of a source lie inside of a superstep.
func inside(source string) bool {
	switch checkpoint.Source(source) {
	case checkpoint.SourceInterrupt, checkpoint.SourceResume, checkpoint.SourceVoid, checkpoint.SourceInside:
		return true
	}
	return false
}

// at returns a thread, or the run of a subgraph in it, at the moment that a client names:
// at the newest of the questions that the superstep asked, if it did, and as it is now if
// that is the newest of it all.
func (s *states) at(ctx context.Context, t *graph.Thread[json.RawMessage], thread, ns, id string) (*graph.Thread[json.RawMessage], error) {
	log := checkpoint.Log{Thread: checkpoint.ThreadID(thread), Namespace: namedNamespace(ns)}
	if takenAt(id) != "" {
		e, err := took(ctx, t, id)
		if err != nil {
			return nil, err
		}
		return t.At(cmp.Or(e.Parent, graph.Start)), nil
	}
	if id == "" {
		return t, nil
	}
	first, err := s.store.Get(ctx, log, checkpoint.ID(id))
	if errors.Is(err, checkpoint.ErrNotFound) {
		return t.At(id), nil // which says so
	}
	if err != nil {
		return nil, err
	}
	asked, last := id, first.ID
	for rec, err := range s.store.Records(ctx, checkpoint.Query{Log: log, Branch: first.Branch, From: first.Seq + 1, Meta: true}) {
		if err != nil {
			return nil, err
		}
		if !inside(string(rec.Source)) {
			break
		}
		if last = rec.ID; rec.Source == checkpoint.SourceInterrupt {
			asked = string(rec.ID)
		}
	}
	if head, _, err := s.store.Head(ctx, log); err == nil && head.ID == last {
		return t, nil
	}
	return t.At(asked), nil
}

// moment is a checkpoint as clients know it.
type moment struct {
	entry
	at    string // the checkpoint whose state it has; empty before a thread's first
	input bool   // something is to be taken in there
	apart bool   // its parent is one at which its run began: histories have it as it is

	committed string // the checkpoint that has what the tasks of the superstep wrote which led to it
}

// stateAt returns the state of a thread: the newest one if id is empty.
func (s *states) stateAt(ctx context.Context, t *db.Thread, id, ns string, nested bool) (*threadState, error) {
	state, err := s.lookUp(ctx, t, id, ns, nested)
	if errors.Is(err, checkpoint.ErrNotFound) {
		if id != "" {
			return nil, notFound("Checkpoint %s not found", id)
		}
		return noState, nil
	}
	return state, err
}

func (s *states) lookUp(ctx context.Context, t *db.Thread, id, ns string, nested bool) (*threadState, error) {
	g := s.graphOf(t)
	if g == nil {
		return nil, checkpoint.ErrNotFound
	}
	thread, err := s.in(g, t.ID, ns)
	if err != nil {
		return nil, err
	}
	all := matching(nil, nil)
	if taken := takenAt(id); taken != "" {
		list, err := moments(ctx, thread.At(taken), t, graph.HistoryQuery{}, taken, 1, all)
		if err == nil && (len(list) == 0 || list[0].Checkpoint != id) {
			err = checkpoint.ErrNotFound
		}
		if err != nil {
			return nil, err
		}
		return show(ctx, thread, list[0], nested)
	}
	at, err := s.at(ctx, thread, t.ID, ns, id)
	if err != nil {
		return nil, err
	}
	state, err := show(ctx, at, moment{}, nested)
	if err != nil {
		return nil, err
	}
	// What led to it is said as the history says it. Of an older one only its own line is looked at.
	list, err := moments(ctx, at, t, graph.HistoryQuery{AllBranches: id == ""}, "", 1, all)
	if err == nil && len(list) > 0 {
		list[0].described(state, t.ID, state.Checkpoint.NS)
	}
	if errors.Is(err, checkpoint.ErrNotFound) { // it was pruned meanwhile
		err = nil
	}
	return state, err
}

// show returns a moment of a thread with its state; of the zero moment the state alone.
func show(ctx context.Context, thread *graph.Thread[json.RawMessage], m moment, nested bool) (*threadState, error) {
	if m.at != "" {
		thread = thread.At(m.at)
	} else if m.input {
		thread = thread.At(graph.Start)
	}
	read := thread.State
	if nested {
		read = thread.Nested
	}
	snap, err := read(ctx)
	if err != nil {
		return nil, err
	}
	state := stateOf(snap, nested)
	if m.Checkpoint != "" {
		m.described(state, snap.Thread, shownNamespace(snap.Namespace))
	}
	return state, nil
}

// described makes a state say of itself what the history says.
func (m *moment) described(state *threadState, thread, ns string) {
	state.Checkpoint, state.Parent = refTo(thread, ns, m.Checkpoint), refTo(thread, ns, m.Parent)
	state.Metadata = metadataOf(m.Metadata, m.Source, m.Step)
	state.Metadata["thread_id"] = jsonText(thread)
	for i, node := range m.Nodes {
		if !m.Began[i].IsZero() {
			state.Ran = append(state.Ran, ranTask{node, instant(m.Began[i]), m.Took[i].Seconds()})
		}
	}
	if m.input {
		state.CreatedAt, state.Next, state.Interrupts = new(instant(m.CreatedAt)), []string{graph.Start}, []interruptValue{}
		state.Tasks = []taskState{{ID: m.Checkpoint, Name: graph.Start, Path: []any{"__pregel_pull", graph.Start}, Interrupts: []interruptValue{}, Result: json.RawMessage("null")}}
	}
}

// results makes the tasks of a page of a history, newest first, say what they wrote, as they did.
// Of those that ran again from a fork it is what they wrote at first. The page ends
// before a checkpoint, if one is given.
func (s *states) results(ctx context.Context, thread *graph.Thread[json.RawMessage], t *db.Thread, q *historyQuery, list []moment, states []*threadState, b *budget) error {
	log := checkpoint.Log{Thread: checkpoint.ThreadID(t.ID), Namespace: namedNamespace(ns(q.Checkpoint))}
	if before := q.Before.id; before != "" && len(list) > 0 { // what the newest ones wrote is on the page before
		next, err := moments(ctx, thread.At(before), t, graph.HistoryQuery{}, "", 1, matching(nil, nil))
		if err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
			return err
		}
		list, states = append(next, list...), append(make([]*threadState, len(next)), states...)
	}
	tasks := map[string][]taskState{}
	for i, m := range list {
		if states[i] != nil {
			tasks[m.Checkpoint] = states[i].Tasks
		}
	}
	for _, m := range list {
		if m.Source != string(checkpoint.SourceLoop) || m.input || m.committed == "" || len(tasks[m.Parent]) == 0 {
			continue
		}
		rec, err := s.store.Get(ctx, log, checkpoint.ID(m.committed))
		if errors.Is(err, checkpoint.ErrNotFound) { // it was pruned meanwhile
			continue
		}
		if err != nil {
			return err
		}
		for i := range tasks[m.Parent] {
			task := &tasks[m.Parent][i]
			at, err := strconv.Atoi(task.ID[strings.LastIndexByte(task.ID, '.')+1:])
			c := slices.IndexFunc(rec.Changes, func(c checkpoint.Change) bool { return c.Node != "" && c.Task == at })
			if err != nil || c < 0 || rec.Changes[c].Data == nil {
				continue
			}
			if task.Result, err = wholeMessages(rec.Changes[c].Data, nil); err != nil {
				return err
			}
			if err := b.spend(len(task.Result)); err != nil {
				return err
			}
		}
	}
	return nil
}

// moments returns the checkpoints of a history that clients are shown, newest
// first. Of those inside of a superstep the newest question's stands for the
// superstep. Where an edit as a node leads stands for the edit, and an edit for the fork
// that it begins with. Parents are among what is shown. What runs left that
// were rolled back isn't.
func moments(ctx context.Context, thread *graph.Thread[json.RawMessage], t *db.Thread, q graph.HistoryQuery, before string, limit int, match func(json.RawMessage) bool) ([]moment, error) {
	type child struct {
		*moment
		inside bool // of the superstep for which it stands
		asked  bool // whose ID it still has to get
		hidden bool // of it only the ID is asked for
	}
	var out []*moment
	waiting := map[string][]child{}  // whose parent may be another, by the parent that they have
	stands := map[string]*moment{}   // what stands for a superstep, by the checkpoints of that
	parents := map[*moment]*moment{} // whose ID may be another
	edited := map[string]bool{}      // checkpoints that an edit follows
	origins := map[string]struct {   // moments at which runs began
		of    string
		shown bool
	}{}
	found := before == ""
	visit := func(m *moment, taken bool) {
		children := waiting[m.Checkpoint]
		delete(waiting, m.Checkpoint)
		question := checkpoint.Source(m.Source) == checkpoint.SourceInterrupt
		planned := checkpoint.Source(m.Source) == checkpoint.SourceLoop && len(m.Nodes) == 0 && m.Parent != "" && !taken // where an edit as a node leads
		if planned {
			m.Source = string(checkpoint.SourceUpdate)
		}
		metadata := metadataOf(m.Metadata, m.Source, m.Step)
		gone := undone(t, metadata)
		begun := checkpoint.Source(m.Source) == checkpoint.SourceFork && edited[m.Checkpoint]
		if checkpoint.Source(m.Source) == checkpoint.SourceUpdate {
			edited[m.Parent] = true
		}
		if by := stands[m.Checkpoint]; by != nil || begun || gone || inside(m.Source) && !question {
			for _, c := range children {
				if by != nil && !c.inside {
					parents[c.moment] = by
					continue
				}
				if c.asked && !inside(m.Source) {
					c.Checkpoint, c.asked = m.Checkpoint, false
					if c.hidden {
						continue
					}
				}
				if c.inside && !inside(m.Source) {
					c.Source, c.inside = m.Source, planned // the superstep's own
					c.Nodes, c.Began, c.Took, c.committed = m.Nodes, m.Began, m.Took, m.committed
				}
				if c.Parent = m.Parent; m.Parent != "" && !m.apart {
					waiting[m.Parent] = append(waiting[m.Parent], c)
				}
			}
			if (inside(m.Source) || planned) && by != nil && stands[m.Parent] == nil {
				stands[m.Parent] = by
			}
			found = found || m.Checkpoint == before
			return
		}
		for _, c := range children {
			parents[c.moment] = m
		}
		if (question || planned) && stands[m.Parent] == nil {
			stands[m.Parent] = m
		}
		shown := found && len(out) < limit && match(metadata.raw())
		found = found || m.Checkpoint == before
		if shown {
			out = append(out, m)
		}
		if (shown || question) && m.Parent != "" && !m.apart {
			waiting[m.Parent] = append(waiting[m.Parent], child{m, question || planned, question, !shown})
		}
	}
	for e, err := range thread.History(ctx, q) {
		if err != nil {
			return nil, err
		}
		if len(out) >= limit && len(waiting) == 0 {
			break
		}
		taken, before := takes(e.Source, e.Checkpoint, e.Parent, e.Next), e.Parent
		apart := false
		if from := e.Metadata[beganAt]; from != "" {
			o, known := origins[from]
			if !known {
				if o.of, o.shown, err = originOf(ctx, thread, t, from); err != nil {
					return nil, err
				}
				origins[from] = o
			}
			if apart = o.shown && o.of == e.Parent && e.Checkpoint != takenAt(from); apart {
				e.Parent = from
			}
		}
		if !taken {
			visit(&moment{entry: e, at: e.Checkpoint, apart: apart, committed: e.Checkpoint}, false)
			continue
		}
		input := &moment{entry: e, at: before, input: true, apart: apart}
		input.Checkpoint, input.Source, input.Step, input.Nodes = beforeInput(e.Checkpoint), string(checkpoint.SourceInput), e.Step-1, nil
		if e.Parent = input.Checkpoint; e.Source == string(checkpoint.SourceInput) {
			e.Source = string(checkpoint.SourceLoop)
		}
		visit(&moment{entry: e, at: e.Checkpoint, committed: e.Checkpoint}, true)
		visit(input, false)
	}
	for m, parent := range parents {
		m.Parent = parent.Checkpoint
	}
	list := make([]moment, len(out))
	for i, m := range out {
		list[i] = *m
	}
	return list, nil
}

// momentAt returns a moment of a thread that a run tells of, the newest without an ID; at
// [graph.Start] it is what is before everything.
func (s *states) momentAt(ctx context.Context, t *db.Thread, g *served, ns, id string, nested bool) (*threadState, error) {
	if id != graph.Start {
		return s.stateAt(ctx, t, id, ns, nested)
	}
	thread, err := s.in(g, t.ID, ns)
	if err != nil {
		return nil, err
	}
	return show(ctx, thread.At(graph.Start), moment{}, false)
}

// passage follows the checkpoints of a run, to name the moments that they are of.
type passage struct {
	store  checkpoint.Store
	thread string
	known  map[string]string // moments, by checkpoint

	began string // the moment before an input at which the run began; empty if it isn't one, and once the run has told of a checkpoint
	of    string // what that has the state of
}

// show makes the parent of a checkpoint a moment.
func (p *passage) show(ctx context.Context, ev *graph.Event) error {
	if p.began != "" && len(ev.Path) == 0 && ev.Parent == p.of {
		if takes(ev.Source, ev.Checkpoint, ev.Parent, ev.Next) {
			ev.Source = string(checkpoint.SourceInput) // also what an edit began the thread with
		}
		ev.Parent, p.known[ev.Checkpoint], p.began = p.began, ev.Checkpoint, ""
		return nil
	}
	log := checkpoint.Log{Thread: checkpoint.ThreadID(p.thread), Namespace: namedNamespace(place(*ev))}
	parent := ev.Parent
	for parent != "" && p.known[parent] == "" { // of an earlier run
		rec, err := p.store.Get(ctx, log, checkpoint.ID(parent))
		if errors.Is(err, checkpoint.ErrNotFound) {
			break
		}
		if err != nil {
			return err
		}
		if !inside(string(rec.Source)) {
			break
		}
		parent = string(rec.Parent)
	}
	if known := p.known[parent]; known != "" {
		delete(p.known, parent) // a checkpoint of the run has one after it
		parent = known
	}
	ev.Parent, p.known[ev.Checkpoint] = parent, ev.Checkpoint
	if inside(ev.Source) {
		p.known[ev.Checkpoint] = parent
	}
	return nil
}
