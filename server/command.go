package server

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/graph"
)

// command tells a thread how to go on.
type command struct {
	Resume optional        `json:"resume"`
	Update json.RawMessage `json:"update"`
	Goto   goTo            `json:"goto"`
}

// optional is JSON that may be null and still be there.
type optional struct {
	raw json.RawMessage
}

func (o *optional) UnmarshalJSON(data []byte) error {
	o.raw = slices.Clone(data)
	return nil
}

func (o optional) MarshalJSON() ([]byte, error) {
	if o.raw == nil {
		return []byte("null"), nil
	}
	return o.raw, nil
}

func (o optional) IsZero() bool { return o.raw == nil }

// UnmarshalJSON reads a command. An update may be a list of pairs.
func (c *command) UnmarshalJSON(data []byte) error {
	type plain command
	var p struct {
		plain
		Resume *optional `json:"resume"`
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return invalid("command must be an object with resume, update and goto: %s", plainly(err))
	}
	*c = command(p.plain)
	if p.Resume != nil { // a null is left out by clients that mean none
		c.Resume = *p.Resume
	}
	switch text := strings.TrimSpace(string(c.Update)); {
	case text == "", text == "null":
		c.Update = nil
	case text[0] == '[':
		var pairs [][2]json.RawMessage
		if err := json.Unmarshal(c.Update, &pairs); err != nil {
			return invalid("command.update must be an object or a list of pairs")
		}
		update := object{}
		for _, p := range pairs {
			var name string
			if err := json.Unmarshal(p[0], &name); err != nil {
				return invalid("command.update: the name of a field must be a string")
			}
			update[name] = p[1]
		}
		c.Update = update.raw()
	}
	return nil
}

// goTo is where a command leads: a node, a send, or a list of them.
type goTo []struct {
	Node  string          `json:"node"`
	Input json.RawMessage `json:"input,omitempty"`
	send  bool
}

func (g goTo) set() bool { return len(g) > 0 }

func (g *goTo) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	var list []json.RawMessage
	if json.Unmarshal(data, &list) != nil {
		list = []json.RawMessage{data}
	}
	*g = make(goTo, len(list))
	for i, one := range list {
		to := &(*g)[i]
		if json.Unmarshal(one, &to.Node) == nil {
			continue
		}
		if err := json.Unmarshal(one, to); err != nil || to.Node == "" {
			return invalid("command.goto must be a node's name, {node, input} or a list of them")
		}
		to.send = true
	}
	return nil
}

func (g goTo) MarshalJSON() ([]byte, error) {
	list := make([]any, len(g))
	for i, to := range g {
		list[i] = to.Node
		if to.send {
			list[i] = map[string]any{"node": to.Node, "input": to.Input}
		}
	}
	return json.Marshal(list)
}

// command returns it in the engine's words.
func (g goTo) command(served *served) (graph.Command, error) {
	var out graph.Command
	for _, to := range g {
		switch {
		case to.Node == graph.End:
			out = out.And(graph.EndRun())
		case !slices.Contains(served.Nodes(), to.Node):
			return out, invalid("command.goto: graph %q has no node %q; there are %s", served.name, to.Node, strings.Join(served.Nodes(), ", "))
		case to.send:
			input := to.Input
			if input == nil {
				input = json.RawMessage("null")
			}
			out = out.And(graph.Dispatch(graph.SendJSON(to.Node, input)))
		default:
			out = out.And(graph.Goto(to.Node))
		}
	}
	return out, nil
}
