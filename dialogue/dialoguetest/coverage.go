package dialoguetest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/program"
)

// Class is a kind of what scenarios can reach.
type Class string

// The classes, in the order in which they are told.
const (
	Steps     Class = "steps"
	Sides     Class = "sides"     // of branches, loops and of a step's when
	Exits     Class = "exits"     // where a no, a deadline or an error leads
	Patterns  Class = "patterns"  // repairs of the conversation
	Responses Class = "responses" // in each language in which they have words
)

// Classes are all classes.
var Classes = []Class{Steps, Sides, Exits, Patterns, Responses}

// Status says whether something was reached.
type Status string

// The statuses. Skipped is a collect that was passed over because its slots were filled
// and that asked in no scenario: it counts neither as reached nor as missed.
const (
	Reached Status = "reached"
	Skipped Status = "skipped"
	Missed  Status = "missed"
)

// Item is one thing that scenarios can reach.
type Item struct {
	Class  Class            `json:"class"`
	Flow   string           `json:"flow,omitempty"`
	Step   string           `json:"step,omitempty"`
	What   string           `json:"what"`
	Status Status           `json:"status"`
	Pos    program.Position `json:"pos,omitzero"` // zero of what is built in
}

// Coverage notes what scenarios reach. Its zero value is ready; it is not safe for
// concurrent use.
type Coverage struct {
	seen map[mark]bool
}

// mark is one thing that was seen.
type mark struct {
	kind, flow, step string
	side             int
}

// see notes what happened in a turn.
func (c *Coverage) see(trace []dialogue.TraceEvent, reply dialogue.Reply) {
	if c.seen == nil {
		c.seen = map[mark]bool{}
	}
	for _, e := range trace {
		switch e.Kind {
		case "step", "step_skipped", "branch", "confirmed", "denied", "deadline", "error":
			c.seen[mark{e.Kind, e.Flow, e.Step, e.Side}] = true
		}
	}
	if w := reply.Waiting; w != nil && w.Type == dialogue.AskCollect {
		c.seen[mark{kind: "asked", flow: w.Flow, step: w.Step}] = true
	}
	for _, m := range reply.Messages {
		c.seen[mark{kind: "said", flow: m.Response, step: reply.Language}] = true
	}
}

// Of returns all that can be reached of a program, and whether it was, by the place in
// its files.
func (c *Coverage) Of(p *program.Program) []Item {
	l := &coverageList{coverage: c, program: p}
	for _, name := range p.Order {
		l.flow(p.Flows[name])
	}
	l.patterns()
	l.responses()
	slices.SortStableFunc(l.items, func(a, b Item) int {
		return cmp.Or(slices.Index(Classes, a.Class)-slices.Index(Classes, b.Class), strings.Compare(a.Pos.File, b.Pos.File), a.Pos.Line-b.Pos.Line, a.Pos.Column-b.Pos.Column)
	})
	return l.items
}

// coverageList collects what can be reached.
type coverageList struct {
	coverage *Coverage
	program  *program.Program
	items    []Item
}

func (l *coverageList) add(class Class, what string, pos program.Position, seen mark) {
	i := Item{Class: class, What: what, Status: Missed, Pos: pos}
	if class == Steps || class == Sides || class == Exits {
		i.Flow, i.Step = seen.flow, seen.step
	}
	if l.coverage.seen[seen] {
		i.Status = Reached
	}
	l.items = append(l.items, i)
}

func (l *coverageList) flow(f *program.Flow) {
	for _, s := range f.Steps {
		at := func(kind string, side int) mark { return mark{kind, f.Name, s.Name, side} }
		l.add(Steps, s.Type, s.Pos(), at("step", 0))
		if _, ok := s.Body.(*program.Collect); ok && l.coverage.seen[at("step", 0)] && !l.coverage.seen[at("asked", 0)] {
			l.items[len(l.items)-1].Status = Skipped
		}
		for _, w := range f.Ways(s) {
			switch w.Kind {
			case program.WayPast:
				l.add(Sides, "when is false: "+s.When.String(), s.Pos(), at("step_skipped", 0))
			case program.WayCase:
				l.add(Sides, fmt.Sprintf("case %d, to %s", w.Case, w.To), w.To.Pos(), at("branch", w.Case))
			case program.WayElse:
				l.add(Sides, "no case holds", s.Pos(), at("branch", 0))
			case program.WayRound:
				l.add(Sides, "the loop goes round", s.Pos(), at("branch", 1))
			case program.WayLeave:
				l.add(Sides, "the loop is left", s.Pos(), at("branch", 0))
			case program.WayNo:
				l.add(Exits, "the user says no", s.Pos(), at("denied", 0))
			case program.WayDeadline:
				l.add(Exits, "the deadline passes", s.Pos(), at("deadline", 0))
			case program.WayError:
				if w.To == s.Exits().OnError {
					l.add(Exits, "an error, to "+w.To.String(), w.To.Pos(), at("error", 0))
				}
			}
		}
	}
	if f.OnError == nil {
		return
	}
	i := Item{Class: Exits, Flow: f.Name, What: "an error, to " + f.OnError.String(), Status: Missed, Pos: f.OnError.Pos()}
	for _, s := range f.Steps {
		if s.Exits().OnError == nil && l.coverage.seen[mark{"error", f.Name, s.Name, 0}] {
			i.Status = Reached
		}
	}
	l.items = append(l.items, i)
}

// patterns are the repairs that the program can come to.
func (l *coverageList) patterns() {
	p := l.program
	steps := func(is func(*program.Flow, *program.Step) bool) bool {
		return slices.ContainsFunc(p.Order, func(name string) bool {
			return slices.ContainsFunc(p.Flows[name].Steps, func(s *program.Step) bool { return is(p.Flows[name], s) })
		})
	}
	confirms := steps(func(_ *program.Flow, s *program.Step) bool { _, ok := s.Body.(*program.Confirm); return ok })
	irreversible := steps(func(_ *program.Flow, s *program.Step) bool {
		x, ok := s.Body.(*program.Invoke)
		return ok && x.Action != nil && x.Action.Effect == program.Irreversible && x.Action.Compensate == ""
	})
	announced := steps(func(f *program.Flow, _ *program.Step) bool { return f.Resume == "announce" })
	possible := map[string]bool{
		"correction": p.Patterns.Correction && p.Patterns.AnnounceCorrected, "correction_too_late": irreversible,
		"confirmation": confirms, "resume": announced, "session_end": p.Settings.SessionAfter > 0,
	}
	for _, flow := range slices.Sorted(maps.Keys(p.Flows)) {
		name, ok := strings.CutPrefix(flow, "pattern_")
		if !ok || !p.Flows[flow].BuiltIn {
			continue
		}
		if can, known := possible[name]; known && !can {
			continue
		}
		if own := p.Patterns.Flows[name]; own != "" {
			flow = own
		}
		i := Item{Class: Patterns, What: name, Status: Missed}
		for m := range l.coverage.seen {
			if m.kind == "step" && m.flow == flow {
				i.Status = Reached
			}
		}
		l.items = append(l.items, i)
	}
}

// responses are those of the assistant by name, in each language in which they have
// words.
func (l *coverageList) responses() {
	p := l.program
	for _, name := range slices.Sorted(maps.Keys(p.Responses)) {
		r := p.Responses[name]
		if r.BuiltIn {
			continue
		}
		tags := map[string]bool{p.Languages.Default: true}
		for _, e := range r.Entries {
			for tag := range e.Words {
				tags[cmp.Or(tag, p.Languages.Default)] = true
			}
		}
		for tag := range r.In {
			tags[tag] = true
		}
		for _, tag := range slices.Sorted(maps.Keys(tags)) {
			l.add(Responses, name+" in "+tag, r.Pos(), mark{kind: "said", flow: name, step: tag})
			if tag == p.Languages.Default && l.fellBack(name, tags) {
				l.items[len(l.items)-1].Status = Reached
			}
		}
	}
}

// fellBack says whether a response was said in a language in which it has no words, so
// that those of the default language were heard.
func (l *coverageList) fellBack(name string, tags map[string]bool) bool {
	for m := range l.coverage.seen {
		if m.kind == "said" && m.flow == name && !tags[m.step] {
			return true
		}
	}
	return false
}

// Count is how many items of a class were reached.
type Count struct {
	Class   Class `json:"class,omitempty"` // "" is all but patterns
	Reached int   `json:"reached"`
	Missed  int   `json:"missed"`
	Skipped int   `json:"skipped"`
}

// Percent returns how much was reached of what was reached or missed, rounded down; 100
// of nothing.
func (c Count) Percent() int {
	if c.Reached+c.Missed == 0 {
		return 100
	}
	return 100 * c.Reached / (c.Reached + c.Missed)
}

// Counts returns the count of each class, and last of all together but the patterns: most
// of these are built in, and not the assistant's own to test.
func Counts(items []Item) []Count {
	counts := make([]Count, len(Classes)+1)
	for i, class := range Classes {
		counts[i].Class = class
	}
	for _, item := range items {
		for _, c := range []*Count{&counts[slices.Index(Classes, item.Class)], &counts[len(Classes)]} {
			if c.Class == "" && item.Class == Patterns {
				continue
			}
			switch item.Status {
			case Reached:
				c.Reached++
			case Skipped:
				c.Skipped++
			default:
				c.Missed++
			}
		}
	}
	return counts
}
