package local

import (
	"encoding/json"
	"slices"

	"github.com/superstep-dev/superstep/checkpoint"
)

// Command is where to go, by node names. The zero Command follows the static
// edges. Nobody alters one that others may hold.
type Command struct {
	Goto   Names
	Sends  []Send
	Parent *Command
	Stop   bool
}

// Send is a task for a node.
type Send struct {
	Node    string
	Raw     json.RawMessage // payload
	Overlay json.RawMessage
	Err     error // of encoding the payload
}

// toParent returns the command of a routing in the containing graph, nil for none.
func toParent(r *checkpoint.Routing) *Command {
	if r == nil {
		return nil
	}
	c := &Command{Goto: NamesOf(r.Goto...)}
	for _, t := range r.Sends {
		c.Sends = append(c.Sends, Send{Node: t.Node, Raw: t.Payload, Overlay: t.Overlay})
	}
	return c
}

// Zero reports whether c chooses nothing.
func (c *Command) Zero() bool {
	return c.Goto.Len() == 0 && len(c.Sends) == 0 && c.Parent == nil && !c.Stop
}

// And returns a command with the destinations of both.
func (c Command) And(o Command) Command {
	switch {
	case o.Zero():
		return c
	case c.Zero():
		return o
	}
	c.Goto, c.Sends, c.Stop = c.Goto.And(o.Goto.List()...), append(slices.Clip(c.Sends), o.Sends...), c.Stop || o.Stop
	if o.Parent != nil {
		var p Command
		if c.Parent != nil {
			p = *c.Parent
		}
		p = p.And(*o.Parent)
		c.Parent = &p
	}
	return c
}

// Names are names of nodes: mostly one, for which it needs no memory of its own.
type Names struct {
	one  string   // if there is one, and it isn't empty
	list []string // of others
}

// NamesOf returns names in a form of their own.
func NamesOf(names ...string) Names { return Names{}.And(names...) }

// Len returns how many there are.
func (n *Names) Len() int {
	if n.one != "" {
		return 1
	}
	return len(n.list)
}

// Alone returns the name if there is only one.
func (n *Names) Alone() (name string, ok bool) { return n.one, n.one != "" }

// List returns the names, which must not be altered.
func (n *Names) List() []string {
	if n.one != "" {
		return []string{n.one}
	}
	return n.list
}

// And returns the names with others after them.
func (n Names) And(more ...string) Names {
	if n.Len() == 0 && len(more) == 1 && more[0] != "" {
		return Names{one: more[0]}
	}
	return Names{list: append(slices.Clone(n.List()), more...)}
}
