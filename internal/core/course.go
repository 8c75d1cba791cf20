package core

import (
	"slices"

	"github.com/superstep-dev/superstep/internal/plan"
)

// course is how far a run has come, and what it may still do.
type course struct {
	step   int // supersteps committed
	begun  int // step of the last input
	ran    int // tasks since then
	guard  guard
	recent []string // node names of the turn, oldest first; only ever appended to
}

// begin counts limits anew: something was given from outside.
func (c *course) begin() {
	c.begun, c.ran = c.step, 0
	c.guard.progress()
}

func (c *course) remember(node string) {
	switch n := len(c.recent); {
	case c.recent == nil:
		c.recent = make([]string, 0, 12)
	case n == cap(c.recent) && n >= RecentNodes: // tasks and records hold the old one
		room := recentRoom
		if n == RecentNodes { // as a record has them: most runs that go on are short
			room = RecentNodes + 4
		}
		next := make([]string, RecentNodes, room)
		copy(next, c.recent[n-RecentNodes:])
		c.recent = next
	}
	c.recent = append(c.recent, node)
}

// allowed checks the limits before tasks start.
func (c *course) allowed(cfg *Config, tasks []Task, start []int) error {
	if n := c.step - c.begun; cfg.MaxSteps > 0 && n >= cfg.MaxSteps {
		return &LimitError{Of: LimitSteps, Max: cfg.MaxSteps, Reached: n, Coming: len(start), Recent: c.lastNodes(), Next: nodesOf(cfg.Plan, tasks, start)}
	}
	if n := c.ran + len(start); cfg.MaxTasks > 0 && n > cfg.MaxTasks {
		return &LimitError{Of: LimitTasks, Max: cfg.MaxTasks, Reached: c.ran, Coming: len(start), Recent: c.lastNodes(), Next: nodesOf(cfg.Plan, tasks, start)}
	}
	if cfg.CycleWindow > 0 {
		for _, i := range start {
			t := &tasks[i]
			if t.ran || !c.guard.recurs(t, c.step, cfg.CycleWindow, cfg.CycleStrict) {
				continue
			}
			return &CycleError{Node: cfg.Plan.Nodes[t.Node].Name, Recent: c.lastNodes(), Strict: cfg.CycleStrict}
		}
		for _, i := range start {
			if t := &tasks[i]; !t.ran { // else its changes may be in the state already
				c.guard.note(t, c.step)
			}
		}
	}
	return nil
}

func nodesOf(g *plan.Graph, all []Task, tasks []int) []string {
	var names []string
	for _, i := range tasks {
		if name := g.Nodes[all[i].Node].Name; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func (c *course) lastNodes() []string {
	return slices.Clone(c.recent[max(0, len(c.recent)-RecentNodes):])
}
