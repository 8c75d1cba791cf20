package local

import (
	"slices"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/core"
	"github.com/superstep-dev/superstep/internal/plan"
)

// event returns an event of a task of the open superstep; task -1 is the run.
func (s *Session) event(kind Kind, task int) *Event {
	ev := s.eventAt(kind, s.m.Step()+1, task, s.m.Epoch(), time.Now())
	if task >= 0 {
		s.about(ev, s.m.Task(task).Node)
	}
	return ev
}

// eventAt returns an event of a task, or of the run, in a superstep that an epoch planned.
func (s *Session) eventAt(kind Kind, step, task int, epoch checkpoint.ID, at time.Time) *Event {
	return &Event{
		Kind: kind, Path: s.o.path, Within: s.o.within, Graph: s.prog.Plan.Name, Thread: s.o.Log.Thread,
		Step: step, Task: task, Epoch: epoch, Time: at, Tags: s.o.tags,
	}
}

// about makes an event one about a node.
func (s *Session) about(ev *Event, node int) {
	n := &s.prog.Nodes[node]
	ev.Node, ev.Tags = n.Name, tagsOf(s.o.tags, n)
}

// tagsOf returns the tags of a node and of those that it is in.
func tagsOf(around []string, n *Node) []string {
	switch {
	case len(n.Tags) == 0:
		return around
	case len(around) == 0:
		return n.Tags
	}
	return slices.Concat(around, n.Tags)
}

// teller tells what happens in the run: of commits, and of tasks. How they end and what
// they wrote it tells when it is recorded, in plan order, so that what is told doesn't
// depend on who was first.
type teller struct {
	s    *Session
	ends []*ending // by task; nil: it has not ended
	next int       // the task whose end is told next
	live []*ending // to be told as they came, if so it is wanted
	of   int       // the superstep that ends and next are of
}

// ending is what is to be told of the end of a task.
type ending struct {
	task   int
	wrote  bool // it has finished
	events []*Event
}

// superstep begins with a superstep. What an earlier run has recorded of its tasks is to
// be told as if they ended now.
func (t *teller) superstep() {
	s := t.s
	step := s.m.Step() + 1
	if t.of == step || !s.o.Bus.wants(taskEnds) {
		return
	}
	t.ends, t.next, t.of = emptied(t.ends, len(s.m.Tasks())), 0, step
	if s.some { // whoever closes it tells of it, again of what is told here
		return
	}
	for i := range s.m.Tasks() {
		if task := s.m.Task(i); task.Status() == core.Done && !task.Folded() && s.o.Bus.wants(Updates) {
			ev := s.event(Updates, i)
			ev.Update, ev.Cached = task.Data(), task.Cached
			t.ends[i] = &ending{task: i, wrote: true, events: []*Event{ev}}
		}
	}
}

// started tells of tasks that start.
func (t *teller) started(tasks []int) {
	s := t.s
	t.superstep()
	if !s.o.Bus.wants(TaskStarted) {
		return
	}
	for _, i := range tasks {
		task := s.m.Task(i)
		ev := s.event(TaskStarted, i)
		ev.Payload = task.Raw
		if task.From >= 0 {
			ev.From = s.prog.Plan.Nodes[task.From].Name
		}
		s.o.Bus.Send(ev)
	}
}

// taskEnds are the events that the end of a task may lead to.
const taskEnds = TaskEnded | TaskFailed | InterruptRaised | Updates

// ended notes what is to be told of a task that was reported.
func (t *teller) ended(r *report) {
	s := t.s
	if !s.o.Bus.wants(taskEnds) {
		return
	}
	e := &ending{task: r.task}
	add := func(kind Kind) *Event {
		ev := s.event(kind, r.task)
		if s.o.Bus.wants(kind) {
			e.events = append(e.events, ev)
		}
		return ev
	}
	if r.Asks {
		for k := range r.Calls.Questions {
			if q := &r.Calls.Questions[k]; !q.Answered {
				add(InterruptRaised).Question = q
			}
		}
	}
	end := func(kind Kind) *Event {
		ev := add(kind)
		ev.Cached, ev.Attempt, ev.Duration = r.Cached, int(r.attempt), time.Duration(r.Took)
		return ev
	}
	switch {
	case r.Err != nil:
		end(TaskFailed).Err = r.Err
	case !r.Asks:
		e.wrote = true
		end(TaskEnded).Update = r.Data
		ev := add(Updates)
		ev.Update, ev.Cached = r.Data, r.Cached
	}
	if s.o.Bus.Live {
		t.live = append(t.live, e)
	} else {
		t.ends[r.task] = e
	}
}

// tell tells of ends that are recorded: of all, or of those whose predecessors in the
// plan have ended, too. Nothing else may wait to be told before a commit.
func (t *teller) tell(all bool) {
	s := t.s
	for ; t.next < len(t.ends); t.next++ {
		e := t.ends[t.next]
		if e != nil && !t.now(e, all) {
			break
		}
		if e == nil && !all {
			if task := s.m.Task(t.next); task.Runs() || task.Startable() {
				break
			}
		}
	}
	n := 0
	for n < len(t.live) && t.now(t.live[n], all) {
		n++
	}
	t.live = slices.Delete(t.live, 0, n)
}

// now tells of an end if it is recorded.
func (t *teller) now(e *ending, all bool) bool {
	s := t.s
	if e.wrote && !all && s.saver != nil && !s.m.Task(e.task).Saved() {
		return false
	}
	for _, ev := range e.events {
		s.o.Bus.Send(ev)
	}
	return true
}

// record tells of a record that was stored, unless a commit does.
func (t *teller) record(w *checkpoint.Write) {
	s := t.s
	if w.Record == nil || !s.o.Bus.wants(Checkpointed) {
		return
	}
	ev := s.event(Checkpointed, -1)
	ev.Step = w.Record.Step
	ev.ID, ev.Parent, ev.Source, ev.Next = w.Record.ID, w.Record.Parent, w.Record.Source, Next(s.prog.Plan, s.m.Tasks())
	s.o.Bus.Send(ev)
}

// folded tells what tasks of the open superstep wrote that an edit has folded.
func (t *teller) folded(r *checkpoint.Record) error {
	s := t.s
	if r == nil || r.Source == checkpoint.SourceLoop {
		return nil
	}
	return t.written(s.o.Bus, r, func(kind Kind) *Event {
		ev := s.event(kind, -1)
		ev.Step, ev.Epoch = r.Step, r.Epoch
		return ev
	})
}

// written tells what tasks wrote by a record, in events that are made for its step.
func (t *teller) written(bus *Bus, r *checkpoint.Record, event func(Kind) *Event) error {
	s := t.s
	if !bus.wants(Updates) {
		return nil
	}
	for i := range r.Changes {
		c := &r.Changes[i]
		if c.Node == "" {
			continue
		}
		ev := event(Updates)
		ev.Task, ev.Node = c.Task, c.Node
		if i, ok := s.prog.Plan.Node(c.Node); ok {
			s.about(ev, i)
		}
		if r.Source != checkpoint.SourceLoop { // the superstep is open
			ev.Step++
		}
		var err error
		if ev.Update, err = core.Upgrade(s.prog.Values, r.Version, c.Data); err != nil {
			return err
		}
		bus.Send(ev)
	}
	return nil
}

// committed tells of a superstep that was committed.
func (t *teller) committed(c *core.Commit) {
	s := t.s
	t.values(c.Step)
	if s.o.Bus.wants(InterruptRaised) {
		for _, p := range s.m.Paused() {
			ev := s.event(InterruptRaised, -1)
			ev.Step, ev.Node = c.Step, p.Node
			if i, ok := s.prog.Plan.Node(p.Node); ok {
				s.about(ev, i)
			}
			ev.Question = &checkpoint.Question{ID: p.ID, Key: p.Node, Node: p.Node, When: "after"}
			s.o.Bus.Send(ev)
		}
	}
	t.held()
}

// held tells of tasks that wait behind a breakpoint, or have begun with a question.
func (t *teller) held() {
	s := t.s
	if !s.o.Bus.wants(InterruptRaised) {
		return
	}
	for i := range s.m.Tasks() {
		t := s.m.Task(i)
		if stands := t.Status(); stands != core.Held && !(stands == core.Interrupted && t.First()) {
			continue
		}
		for k := range t.Questions {
			ev := s.event(InterruptRaised, i)
			ev.Question = &t.Questions[k]
			s.o.Bus.Send(ev)
		}
	}
}

// values tells of the committed state.
func (t *teller) values(step int) {
	s := t.s
	if !s.o.Bus.wants(Values) {
		return
	}
	ev := s.event(Values, -1)
	ev.Step, ev.State, ev.Next = step, s.prog.Values.Fork(s.m.State()), Next(s.prog.Plan, s.m.Tasks())
	ev.Output = s.prog.Output
	s.o.Bus.Send(ev)
}

// Next lists the nodes of tasks that are not done, in plan order.
func Next(g *plan.Graph, tasks []core.Task) []string {
	var next []string
	for i := range tasks {
		if tasks[i].Status() != core.Done {
			next = append(next, g.Nodes[tasks[i].Node].Name)
		}
	}
	return next
}
