package core

import (
	"slices"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/plan"
)

// superstep is the open superstep.
type superstep struct {
	tasks  []Task             // in plan order
	paused []checkpoint.Pause // breakpoints after nodes of the one before
	spare  []Task             // the slice of the superstep before
	alive  int                // tasks that run
	ended  []int              // tasks reported since results were last saved
	start  []int              // for startable
}

// complete reports whether the open superstep can be committed.
func (s *superstep) complete() bool {
	if len(s.tasks) == 0 || len(s.paused) > 0 {
		return false
	}
	for i := range s.tasks {
		if s.tasks[i].routing == nil {
			return false
		}
	}
	return true
}

// startable lists the tasks that can run now.
func (s *superstep) startable() []int {
	s.start = slices.Grow(s.start[:0], len(s.tasks))
	for i := range s.tasks {
		if s.tasks[i].Startable() {
			s.start = append(s.start, i)
		}
	}
	return s.start
}

// waits reports whether a node is still to run in the open superstep, without a
// payload.
func (s *superstep) waits(node int) bool {
	return slices.ContainsFunc(s.tasks, func(t Task) bool { return t.Node == node && !t.Sent && !t.Ran() })
}

// pendingOf returns the first task of a node that is not done, -1 if none.
func (s *superstep) pendingOf(node int) int {
	return slices.IndexFunc(s.tasks, func(t Task) bool { return t.Node == node && t.routing == nil })
}

// standIn completes task i, or adds a completed task of the node if there is none.
func (s *superstep) standIn(i, node int, r Routing) {
	if i == len(s.tasks) {
		s.tasks = append(s.tasks, Task{Index: i, Node: node, From: plan.FromStart, added: true})
	}
	t := &s.tasks[i]
	t.folded, t.routing, t.Err, t.ErrText = true, &r, nil, ""
	t.Questions, t.Children, t.changes, t.data = nil, nil, nil, nil
}

// openTasks lists what is known of the tasks of the open superstep.
func (s *superstep) openTasks(c *codec) []checkpoint.OpenTask {
	var open []checkpoint.OpenTask
	for i := range s.tasks {
		t := &s.tasks[i]
		if t.Gen == 0 && !t.folded && !t.passed && len(t.Questions) == 0 && len(t.Children) == 0 && len(t.kept) == 0 && !t.added {
			continue
		}
		o := t.open()
		o.Gen, o.Folded, o.Passed = t.Gen, t.folded, t.passed
		if t.added {
			o.Node = c.Plan.Nodes[t.Node].Name
		}
		if t.folded && t.routing != nil {
			o.Routing = c.encode(t.Routing())
			t.saved.routing = true
		}
		t.saved.open, t.saved.asked = true, true
		open = append(open, o)
	}
	return open
}
