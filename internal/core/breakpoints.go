package core

import (
	"slices"

	"github.com/superstep-dev/superstep/checkpoint"
)

// pauses returns the breakpoints after the nodes of a superstep.
func (m *Machine) pauses(done []Task) []checkpoint.Pause {
	g := m.cfg.Plan
	if m.cfg.After == nil && g.After == nil {
		return nil
	}
	var ps []checkpoint.Pause
	for i := range done {
		n := done[i].Node
		if !at(m.cfg.After, n) && !at(g.After, n) {
			continue
		}
		name := g.Nodes[n].Name
		if !slices.ContainsFunc(ps, func(p checkpoint.Pause) bool { return p.Node == name }) {
			ps = append(ps, checkpoint.Pause{ID: m.tail.questionID(i, done[i].Gen, "after "+name), Node: name})
		}
	}
	return ps
}

// hold marks the tasks behind breakpoints. It is called once, when the tasks
// are planned and the epoch is known.
func (m *Machine) hold() {
	g := m.cfg.Plan
	if m.cfg.Before == nil && g.Before == nil {
		return
	}
	for i := range m.tasks {
		t := &m.tasks[i]
		if t.passed || t.Ran() || !at(m.cfg.Before, t.Node) && !at(g.Before, t.Node) {
			continue
		}
		name := g.Nodes[t.Node].Name
		t.Questions = []checkpoint.Question{{ID: m.tail.questionID(i, t.Gen, "before "+name), Key: name, Node: name, When: "before"}}
	}
}

// ask gives tasks the questions with which their nodes begin, as if they had run and
// asked. Like hold it is called when they are planned: one record holds both.
func (m *Machine) ask() {
	if m.cfg.First == nil {
		return
	}
	for i := range m.tasks {
		t := &m.tasks[i]
		if t.Status() != Waiting || t.passed || t.Sent || t.Overlay != nil {
			continue
		}
		if q := m.cfg.First(t.Node, m.base); q != nil {
			q.ID = m.tail.questionID(i, t.Gen, "ask "+q.Key)
			t.Questions, t.first = []checkpoint.Question{*q}, true
		}
	}
}

func at(set []bool, i int) bool { return set != nil && set[i] }
