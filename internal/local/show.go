package local

import (
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/core"
)

// event returns an event of a task of the open superstep; task -1 is the run.
func (s *Session) event(kind Kind, task int) *Event {
	ev := &Event{
		Kind: kind, Path: s.o.path, Tasks: s.o.tasks, Graph: s.prog.Plan.Name, Thread: s.o.Log.Thread,
		Step: s.m.Step() + 1, Task: task, Epoch: s.m.Epoch(), Time: time.Now(),
	}
	if task >= 0 {
		ev.Node = s.prog.Plan.Nodes[s.m.Task(task).Node].Name
	}
	return ev
}

// teller tells how tasks start and end, in plan order.
type teller struct {
	s       *Session
	shown   int       // tasks of the open superstep whose end was shown
	reports []*report // by task, if somebody wants to be told of them
}

// started tells of tasks that start.
func (t *teller) started(tasks []int) {
	s := t.s
	if t.shown = 0; s.o.Bus.wants(taskEnds) {
		t.reports = emptied(t.reports, len(s.m.Tasks()))
	}
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

// ended passes the ends of tasks on, the last of which has just been
// reported: in plan order, those whose predecessors
// in the plan have all ended.
func (t *teller) ended(last *report) {
	s := t.s
	if !s.o.Bus.wants(taskEnds) {
		return
	}
	if s.o.Bus.Live {
		t.end(last)
		return
	}
	kept := *last
	t.reports[last.task] = &kept
	for t.shown < len(t.reports) {
		r := t.reports[t.shown]
		if r == nil {
			if st := s.m.Task(t.shown).Status; st == core.Running || st == core.Changed {
				return
			}
		} else if !r.shown {
			t.end(r)
			r.shown = true
		}
		t.shown++
	}
}

// taskEnds are the events that the end of a task may lead to.
const taskEnds = TaskEnded | TaskFailed | InterruptRaised

func (t *teller) end(r *report) {
	s := t.s
	if r.Asks && s.o.Bus.wants(InterruptRaised) {
		for k := range r.Calls.Questions {
			if q := &r.Calls.Questions[k]; !q.Answered {
				ev := s.event(InterruptRaised, r.task)
				ev.Question = q
				s.o.Bus.Send(ev)
			}
		}
	}
	var ev *Event
	switch {
	case r.Err != nil:
		ev = s.event(TaskFailed, r.task)
		ev.Err = r.Err
	case r.Asks:
		return
	default:
		ev = s.event(TaskEnded, r.task)
		ev.Update = r.Data
	}
	if !s.o.Bus.wants(ev.Kind) {
		return
	}
	ev.Cached, ev.Attempt, ev.Duration = r.Cached, int(r.attempt), r.took
	s.o.Bus.Send(ev)
}

// showRecord tells of a record that was stored, unless a commit does.
func (s *Session) showRecord(w *checkpoint.Write) {
	if w.Record == nil || !s.o.Bus.wants(Checkpointed) {
		return
	}
	ev := s.event(Checkpointed, -1)
	ev.Step = w.Record.Step
	ev.ID, ev.Parent, ev.Source, ev.Next = w.Record.ID, w.Record.Parent, w.Record.Source, s.next()
	s.o.Bus.Send(ev)
}

// showFolded tells what tasks of the open superstep wrote that an edit has folded.
func (s *Session) showFolded(r *checkpoint.Record) error {
	if r == nil || r.Source == checkpoint.SourceLoop {
		return nil
	}
	return s.showWritten(s.o.Bus, r, func(kind Kind) *Event {
		ev := s.event(kind, -1)
		ev.Step, ev.Epoch = r.Step, r.Epoch
		return ev
	})
}

// showWritten tells what tasks wrote by a record, in events that are made for its step.
func (s *Session) showWritten(bus *Bus, r *checkpoint.Record, event func(Kind) *Event) error {
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

// showCommit tells of a superstep that was committed.
func (s *Session) showCommit(c *core.Commit) {
	if s.o.Bus.wants(Updates) {
		for i := range c.Tasks {
			t := &c.Tasks[i]
			if t.Folded() { // it was told of when it was
				continue
			}
			ev := s.event(Updates, -1)
			ev.Step, ev.Epoch, ev.Task, ev.Node = c.Step, c.Epoch, i, s.prog.Plan.Nodes[t.Node].Name
			ev.Update, ev.Cached = t.Data(), t.Cached
			s.o.Bus.Send(ev)
		}
	}
	s.showValues(c.Step)
	if s.o.Bus.wants(InterruptRaised) {
		for _, p := range s.m.Paused() {
			ev := s.event(InterruptRaised, -1)
			ev.Step, ev.Node = c.Step, p.Node
			ev.Question = &checkpoint.Question{ID: p.ID, Key: p.Node, Node: p.Node, When: "after"}
			s.o.Bus.Send(ev)
		}
	}
	s.showHeld()
}

// showHeld tells of tasks that wait behind a breakpoint.
func (s *Session) showHeld() {
	if !s.o.Bus.wants(InterruptRaised) {
		return
	}
	for i := range s.m.Tasks() {
		t := s.m.Task(i)
		if t.Status != core.Held {
			continue
		}
		for k := range t.Questions {
			ev := s.event(InterruptRaised, i)
			ev.Question = &t.Questions[k]
			s.o.Bus.Send(ev)
		}
	}
}

// showValues tells of the committed state.
func (s *Session) showValues(step int) {
	if !s.o.Bus.wants(Values) {
		return
	}
	ev := s.event(Values, -1)
	ev.Step, ev.State, ev.Next = step, s.prog.Values.Fork(s.m.State()), s.next()
	s.o.Bus.Send(ev)
}

// next lists the nodes of the planned tasks.
func (s *Session) next() []string { return Next(s.prog.Plan.Names(), s.m.Tasks()) }

// Next lists the nodes of tasks that are not done, in plan order.
func Next(names []string, tasks []core.Task) []string {
	var next []string
	for i := range tasks {
		if tasks[i].Status != core.Done {
			next = append(next, names[tasks[i].Node])
		}
	}
	return next
}
