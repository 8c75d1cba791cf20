package graph

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/superstep-dev/superstep/internal/local"
)

// Command says where a node or router leads. It carries destinations only: a
// node writes to its state, and an answer's edit is given to [Requests.Answer]. The
// zero Command follows the static edges.
type Command struct{ c local.Command }

// Send is a task to be run on a payload; see [Task.Send].
type Send struct{ send local.Send }

// SendJSON returns a send to a node whose payload is JSON, from outside of the
// program. [Task.Send] checks types; of this one they are checked when it runs.
func SendJSON(node string, payload json.RawMessage) Send {
	s := Send{send: local.Send{Node: node, Raw: payload}}
	if !json.Valid(payload) {
		s.send.Err = fmt.Errorf("payload of a send to %q is not valid JSON", node)
	}
	return s
}

// Goto leads to the named nodes, in parallel if there are several. Goto(End)
// ends the branch: other branches go on.
func Goto(nodes ...string) Command { return Command{local.Command{Goto: local.NamesOf(nodes...)}} }

// Dispatch runs tasks, all in parallel. Without sends it ends the branch.
func Dispatch(sends ...Send) Command {
	if len(sends) == 0 {
		return Goto(End)
	}
	c := local.Command{Sends: make([]local.Send, len(sends))}
	for i, s := range sends {
		c.Sends[i] = s.send
	}
	return Command{c}
}

// EndRun ends the run: other tasks of the superstep finish and are committed,
// and nothing else is started.
func EndRun() Command { return Command{local.Command{Stop: true}} }

// GotoParent ends the run of a subgraph and leads to nodes of the graph that
// contains it; see [ParentDestinations]. Out of a graph that is run by [Call] it is a
// [ParentError].
func GotoParent(nodes ...string) Command {
	return Command{local.Command{Parent: &local.Command{Goto: local.NamesOf(nodes...)}}}
}

// DispatchParent ends the run of a subgraph and runs tasks of the graph that
// contains it, where [GotoParent] may lead there.
func DispatchParent(sends ...Send) Command {
	c := Dispatch(sends...).c
	return Command{local.Command{Parent: &c}}
}

// And adds the destinations of others to those of c.
func (c Command) And(others ...Command) Command {
	sum := c.c
	for _, o := range others {
		sum = sum.And(o.c)
	}
	return Command{sum}
}

// IsZero reports whether c chooses nothing.
func (c Command) IsZero() bool { return c.c.Zero() }

// Nodes returns the names of the nodes that c leads to: those that it goes to, then that
// of each of its sends. It lets a test look at what a router decides.
func (c Command) Nodes() []string {
	nodes := slices.Clone(c.c.Goto.List())
	for i := range c.c.Sends {
		nodes = append(nodes, c.c.Sends[i].Node)
	}
	return nodes
}

func (c Command) local() local.Command { return c.c }
