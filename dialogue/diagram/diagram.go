// Package diagram turns the flows of an assistant into graphs that package draw draws.
package diagram

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/draw"
)

// The nodes at which a flow ends otherwise than as completed. No step has such a name.
const (
	CancelledID = "(cancelled)"
	FailedID    = "(error)"
	HandoffID   = "(handoff)"
)

// Program draws an assistant: each of its flows as a graph inside a node of the flow's
// name, the start leading to those that a user can start, and calls and links between
// them. Flows of the built-in library are left out.
func Program(p *program.Program) *draw.Graph {
	g := &draw.Graph{Name: p.Name}
	for _, name := range p.Order {
		f := p.Flows[name]
		g.Nodes = append(g.Nodes, draw.Node{ID: name, Description: f.Description, Kind: draw.KindSubgraph, Sub: Flow(f)})
		if !f.Internal {
			e := draw.Edge{From: draw.StartID, To: name}
			if f.Guard != nil {
				e.Kind, e.Label = draw.EdgeConditional, f.Guard.String()
			}
			g.Edges = append(g.Edges, e)
		}
		seen := map[draw.Edge]bool{}
		for _, s := range f.Steps {
			e := draw.Edge{From: name}
			switch x := s.Body.(type) {
			case *program.Call:
				e.To, e.Label = x.Flow, "call"
			case *program.Link:
				e.To, e.Label = x.Flow, "link"
			default:
				continue
			}
			if to, ok := p.Flow(e.To); ok && !to.BuiltIn && !seen[e] {
				seen[e] = true
				e.To = to.Name
				g.Edges = append(g.Edges, e)
			}
		}
	}
	return g
}

// Flow draws one flow: a node for each step, solid edges where it goes on, dashed ones
// with their conditions at branches, loops and confirms, and dotted ones where deadlines,
// errors, cancelling and limits lead.
func Flow(f *program.Flow) *draw.Graph {
	d := &drawing{flow: f, graph: &draw.Graph{Name: f.Name}, ends: map[string]bool{}}
	d.graph.Edges = append(d.graph.Edges, draw.Edge{From: draw.StartID, To: d.node(f.First), Kind: draw.EdgeStatic})
	for _, s := range f.Steps {
		d.step(s)
	}
	return d.graph
}

type drawing struct {
	flow  *program.Flow
	graph *draw.Graph
	ends  map[string]bool
}

// node returns the node of a step's index.
func (d *drawing) node(index int) string {
	if index == program.End {
		return draw.EndID
	}
	return d.flow.Steps[index].Name
}

// to returns the node to which a way leads.
func (d *drawing) to(w program.Way) string {
	switch w.To.Kind {
	case program.ToCancel:
		return d.end(CancelledID, "cancelled")
	case program.ToError:
		return d.end(FailedID, "error")
	case program.ToHandoff:
		return d.end(HandoffID, "handoff")
	}
	return d.node(w.Step)
}

func (d *drawing) end(id, label string) string {
	if !d.ends[id] {
		d.ends[id] = true
		d.graph.Nodes = append(d.graph.Nodes, draw.Node{ID: id, Label: label})
	}
	return id
}

// unnamed are the names of steps that were given none: TYPE_n, and OUTER.n in loops.
var unnamed = regexp.MustCompile(`^[a-z]+_[0-9]+$|\.[0-9]+$`)

func (d *drawing) step(s *program.Step) {
	kind, what := about(s.Body)
	n := draw.Node{ID: s.Name, Kind: kind, Description: s.Description, Label: what}
	if !unnamed.MatchString(s.Name) {
		n.Label = s.Name + "\n" + n.Label
	}
	if s.When != nil {
		n.Label += "\nif " + s.When.String()
	}
	d.graph.Nodes = append(d.graph.Nodes, n)
	for _, w := range d.flow.Ways(s) {
		kind, label := draw.EdgeConditional, string(w.Kind)
		switch w.Kind {
		case program.WayPast:
			continue
		case program.WayNext:
			kind, label = draw.EdgeStatic, ""
		case program.WayCase:
			label = condition(s.Body.(*program.Branch).Cases[w.Case-1])
		case program.WayRound:
			label = s.Body.(*program.While).Cond.String()
		case program.WayLeave:
			label = "else"
		case program.WayYes, program.WayNo, program.WayElse:
		default:
			kind = draw.EdgeDynamic
		}
		if w.After > 0 {
			label = "after " + short(w.After)
		}
		if w.To != nil {
			d.graph.Edges = append(d.graph.Edges, draw.Edge{From: s.Name, To: d.to(w), Kind: kind, Label: label})
		}
	}
}

// short writes a time as assistants do.
func short(d time.Duration) string {
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if d%u.unit == 0 {
			return fmt.Sprintf("%d%s", d/u.unit, u.name)
		}
	}
	return d.String()
}

// condition returns when a case holds.
func condition(c program.Case) string {
	switch {
	case c.When != nil:
		return c.When.String()
	case c.Subject != nil:
		value := c.Value.String()
		if c.Value.Kind() == expr.Text {
			value = "'" + value + "'"
		}
		if c.Value.IsNone() {
			value = "none"
		}
		return strings.Join(c.Subject, ".") + " " + c.Sign + " " + value
	}
	return "else"
}

// about returns the look of a step, and what it is about.
func about(body program.Body) (kind draw.NodeKind, what string) {
	list := func(names []string) string { return strings.Join(names, ", ") }
	switch x := body.(type) {
	case *program.Say:
		return draw.KindPlain, "say " + response(x.Response)
	case *program.Collect:
		return draw.KindPlain, "collect " + list(x.Slots)
	case *program.Set:
		var names []string
		for _, a := range x.Assign {
			names = append(names, a.Slot)
		}
		return draw.KindPlain, "set " + list(names)
	case *program.Invoke:
		return draw.KindTool, "action " + action(x)
	case *program.Branch:
		return draw.KindRouter, "branch"
	case *program.While:
		return draw.KindRouter, "while"
	case *program.Confirm:
		return draw.KindPlain, "confirm " + list(x.Slots)
	case *program.Call:
		return draw.KindSubgraph, "call " + x.Flow
	case *program.Link:
		return draw.KindSubgraph, "link " + x.Flow
	case *program.Generate:
		return draw.KindLLM, "generate"
	case *program.Agent:
		return draw.KindAgent, "agent"
	case *program.Handoff:
		return draw.KindPlain, "handoff " + x.Queue
	case *program.Wait:
		if x.Event != "" {
			return draw.KindPlain, "wait for " + x.Event
		}
		return draw.KindPlain, "wait " + short(x.For)
	case *program.Parallel:
		var names []string
		for _, i := range x.Actions {
			names = append(names, action(i))
		}
		return draw.KindTool, "parallel " + list(names)
	}
	return draw.KindPlain, ""
}

func action(x *program.Invoke) string {
	if x.Action == nil {
		return ""
	}
	return x.Action.Name
}

// response returns what a response is called, or the beginning of its words.
func response(r *program.Response) string {
	if r == nil {
		return ""
	}
	if !r.Inline {
		return r.Name
	}
	for _, e := range r.Entries {
		if w := e.Words[""]; w != nil && w.Forms["other"] != nil {
			text, err := w.Forms["other"].MarshalText()
			if err == nil {
				return "“" + cut(string(text), 30) + "”"
			}
		}
	}
	return "…"
}

// cut returns the first words of a text.
func cut(text string, most int) string {
	r := []rune(strings.Join(strings.Fields(text), " "))
	if len(r) <= most {
		return string(r)
	}
	return string(r[:most-1]) + "…"
}
