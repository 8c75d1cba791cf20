package core

import (
	"slices"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/plan"
)

// breakpoints are those of the graph and of the run.
type breakpoints struct {
	g             *plan.Graph
	before, after []bool // of the run, by node
	tail          *tail
}

// pauses returns the breakpoints after the nodes of a superstep.
func (b *breakpoints) pauses(done []Task) []checkpoint.Pause {
	if b.after == nil && b.g.After == nil {
		return nil
	}
	var ps []checkpoint.Pause
	for i := range done {
		n := done[i].Node
		if !at(b.after, n) && !at(b.g.After, n) {
			continue
		}
		name := b.g.Nodes[n].Name
		if !slices.ContainsFunc(ps, func(p checkpoint.Pause) bool { return p.Node == name }) {
			ps = append(ps, checkpoint.Pause{ID: b.tail.questionID(i, done[i].Gen, "after "+name), Node: name})
		}
	}
	return ps
}

// hold marks the tasks behind breakpoints. It is called once, when the tasks
// are planned and the epoch is known.
func (b *breakpoints) hold(tasks []Task) {
	if b.before == nil && b.g.Before == nil {
		return
	}
	for i := range tasks {
		t := &tasks[i]
		if t.passed || t.ran || t.Status == Done || !at(b.before, t.Node) && !at(b.g.Before, t.Node) {
			continue
		}
		name := b.g.Nodes[t.Node].Name
		t.Status = Held
		t.Questions = []checkpoint.Question{{ID: b.tail.questionID(i, t.Gen, "before "+name), Key: name, Node: name, When: "before"}}
	}
}

// ask gives tasks the questions with which their nodes begin, as if they had run and
// asked. Like hold it is called when they are planned: one record holds both.
func (b *breakpoints) ask(tasks []Task, state State, first func(node int, state State) *checkpoint.Question) {
	for i := range tasks {
		t := &tasks[i]
		if t.Status != Waiting || t.passed || t.ran || t.Sent || t.Overlay != nil {
			continue
		}
		if q := first(t.Node, state); q != nil {
			q.ID = b.tail.questionID(i, t.Gen, "ask "+q.Key)
			t.Status, t.Questions, t.first = Interrupted, []checkpoint.Question{*q}, true
		}
	}
}

func at(set []bool, i int) bool { return set != nil && set[i] }
