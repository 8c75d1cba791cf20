package core

import (
	"fmt"
	"strings"
)

// The kinds of LimitError.
const (
	LimitSteps = "supersteps"
	LimitTasks = "tasks"
)

// LimitError says that a run was stopped before its next superstep, which would exceed
// how many it may take, or how many tasks. The thread can go on with a higher limit.
type LimitError struct {
	Of           string // "supersteps" or "tasks"
	Max, Reached int
	Coming       int      // tasks of the next superstep
	Recent       []string // nodes run last since the newest input, newest last
	Next         []string // nodes that would have run
}

func (e *LimitError) Error() string {
	if e.Of == LimitTasks {
		return fmt.Sprintf("max tasks (%d) exceeded: %d have run and the next superstep has %d; raise the limit with graph.MaxTasks", e.Max, e.Reached, e.Coming)
	}
	return fmt.Sprintf("max iterations (%d) exceeded after %d supersteps; last nodes: %s; next: %s; raise the limit with graph.MaxSteps or check the loop's condition",
		e.Max, e.Reached, strings.Join(e.Recent, ", "), strings.Join(e.Next, ", "))
}

// CycleError says that a node was about to run again although nothing has
// changed since it ran last.
type CycleError struct {
	Node   string
	Recent []string // nodes run last since the newest input, newest last
	Strict bool     // coming round is an error whatever has changed
}

func (e *CycleError) Error() string {
	if e.Strict {
		return fmt.Sprintf("cycle detected: node %q would run again so soon after its last run (recent nodes: %s)", e.Node, strings.Join(e.Recent, ", "))
	}
	return fmt.Sprintf("cycle detected: node %q would run again without any change to the state since its last run (recent nodes: %s)", e.Node, strings.Join(e.Recent, ", "))
}

// ConflictError says that two tasks of one superstep wrote a field in ways that
// cannot be merged, or that a reducer failed.
type ConflictError struct {
	Field string
	Node  string // whose changes could not be applied
	With  string // whose changes they conflict with; empty: none
	Step  int
	Err   error
}

func (e *ConflictError) Error() string {
	if e.With == "" {
		return fmt.Sprintf("step %d: changes of node %q to field %q can't be applied: %v", e.Step, e.Node, e.Field, e.Err)
	}
	return fmt.Sprintf("step %d: nodes %q and %q wrote field %q at once: %v", e.Step, e.With, e.Node, e.Field, e.Err)
}

// Unwrap returns the cause.
func (e *ConflictError) Unwrap() error { return e.Err }

// JoinError says that a run ended while a join had some of its sources, but not all.
type JoinError struct {
	Target    string
	Arrived   []string
	Elsewhere []string // ran, but a command or a router led elsewhere
	Missing   []string // did not run
}

func (e *JoinError) Error() string {
	var why []string
	if len(e.Missing) > 0 {
		why = append(why, "for "+strings.Join(e.Missing, ", ")+" to run")
	}
	fix := ""
	if len(e.Elsewhere) > 0 {
		why = append(why, "for "+strings.Join(e.Elsewhere, ", ")+", which ran but led elsewhere")
		fix = "; a command or a router goes on to the join with the zero Command"
	}
	return fmt.Sprintf("the run ended while the join into %q waited %s (%s arrived)%s", e.Target, strings.Join(why, " and "), strings.Join(e.Arrived, ", "), fix)
}

// UnknownNodeError says that a thread waits at a node that the graph does not
// have, or in another graph.
type UnknownNodeError struct {
	Thread string
	Graph  string // the other one; empty: it is this
	Node   string // empty: of the other graph
	Near   string
}

func (e *UnknownNodeError) Error() string {
	if e.Graph != "" {
		return fmt.Sprintf("thread %q waits in graph %q: continue it there, or end it, or give graph.FormerName(%q) to Compile if that was this graph's name", e.Thread, e.Graph, e.Graph)
	}
	s := fmt.Sprintf("thread %q waits at node %q, which the graph does not have", e.Thread, e.Node)
	if e.Near != "" {
		s += fmt.Sprintf("; was it renamed to %q?", e.Near)
	}
	return s
}
