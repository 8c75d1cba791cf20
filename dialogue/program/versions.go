package program

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/superstep-dev/superstep/dialogue/expr"
)

// With returns the program with older ones beside it, the newest of them first, so that
// a conversation that stands in a flow as it was can finish it as it was. Programs that
// older ones know are known too. p itself stays as it is.
func (p *Program) With(older ...*Program) *Program {
	with := *p
	with.older = slices.Clone(p.older)
	add := func(o *Program) {
		if o != p && !slices.Contains(with.older, o) {
			with.older = append(with.older, o)
		}
	}
	for _, o := range older {
		alone := *o
		alone.older = nil
		add(&alone)
		for _, x := range o.older {
			add(x)
		}
	}
	return &with
}

// Older returns the programs that [Program.With] put beside this one.
func (p *Program) Older() []*Program { return slices.Clone(p.older) }

// FlowAt returns the flow of a name, or of an earlier name, as it is at a [Flow.Hash],
// and the program that has it: p itself, or an older one. What such a flow calls is
// looked up in that program.
func (p *Program) FlowAt(name, hash string) (*Flow, *Program, bool) {
	f, ok := p.Flow(name)
	if ok && f.Hash == hash {
		return f, p, true
	}
	for _, o := range p.older {
		if f, ok := o.Flow(name); ok && f.Hash == hash {
			return f, o, true
		}
	}
	if f == nil {
		return nil, nil, false
	}
	for _, old := range f.Formerly {
		for _, o := range p.older {
			if f, ok := o.Flow(old); ok && f.Hash == hash {
				return f, o, true
			}
		}
	}
	return nil, nil, false
}

// hash returns the hash of what a flow does: of its steps, of the slots that it mentions
// and of the contracts of its actions, without descriptions, examples, earlier names and
// the words that are said. How the YAML is written makes no difference to it.
func (p *Program) hash(f *Flow) string {
	slots := map[string]*Slot{}
	for _, name := range f.Mentions {
		s := p.slotOf(f, name)
		if s == nil {
			continue
		}
		plain := *s
		plain.Description, plain.Examples, plain.Ask, plain.Explain, plain.Invalid = "", nil, nil, nil, nil
		slots[name] = &plain
	}
	steps := make([]json.RawMessage, len(f.Steps))
	for i, s := range f.Steps {
		steps[i] = s.canonical()
	}
	text := marshal(struct {
		Guard           *expr.Expr
		Inputs, Outputs []Param
		OnError         *Target
		Interruptible   bool
		First           int
		Slots           map[string]*Slot
		Steps           []json.RawMessage
	}{f.Guard, f.Inputs, f.Outputs, f.OnError, f.Interruptible, f.First, slots, steps})
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// slotOf returns a slot of a flow or, as session.NAME, a value of the session.
func (p *Program) slotOf(f *Flow, name string) *Slot {
	if s, ok := f.Slots[name]; ok {
		return s
	}
	if len(name) > len("session.") {
		return p.Session[name[len("session."):]]
	}
	return nil
}

// marshal returns the JSON of what always has one.
func marshal(x any) json.RawMessage {
	text, err := json.Marshal(x)
	if err != nil {
		return []byte(err.Error())
	}
	return text
}

// canonical returns what the step does, without its place in the file and the words that
// it says.
func (s *Step) canonical() json.RawMessage {
	plain := func(a *Action) *Action {
		c := *a
		c.Description = ""
		return &c
	}
	invoke := func(x *Invoke) *Invoke {
		c := *x
		c.Action = plain(c.Action)
		return &c
	}
	body := s.Body
	switch x := s.Body.(type) {
	case *Say:
		body = &Say{WaitForAck: x.WaitForAck}
	case *Collect:
		c := *x
		c.Ask, c.Invalid, c.Display = nil, nil, nil
		body = &c
	case *Confirm:
		c := *x
		c.Ask = nil
		body = &c
	case *Invoke:
		body = invoke(x)
	case *Parallel:
		c := &Parallel{}
		for _, a := range x.Actions {
			c.Actions = append(c.Actions, invoke(a))
		}
		body = c
	case *Agent:
		c := *x
		c.Tools = nil
		for _, a := range x.Tools {
			c.Tools = append(c.Tools, plain(a))
		}
		body = &c
	}
	return marshal(struct {
		Name, Type     string
		When           *expr.Expr
		Next           Target
		Continue, Loop int
		Body           Body
	}{s.Name, s.Type, s.When, s.Next, s.Continue, s.Loop, body})
}

// ChangeKind is a kind of change.
type ChangeKind string

// The kinds of changes.
const (
	Same    ChangeKind = "same"
	Added   ChangeKind = "added"
	Removed ChangeKind = "removed"
	Renamed ChangeKind = "renamed" // and otherwise the same
	Changed ChangeKind = "changed" // perhaps renamed too
)

// Change says what became of a flow between two programs.
type Change struct {
	Kind    ChangeKind   `json:"kind"`
	Flow    string       `json:"flow,omitempty"`    // its name in the older program; "" if it was added
	To      string       `json:"to,omitempty"`      // its name in the newer one; "" if it was removed
	Migrate string       `json:"migrate,omitempty"` // what a changed flow says of conversations that stand in it
	Steps   []StepChange `json:"steps,omitempty"`   // of a changed flow
}

// StepChange says what became of a step.
type StepChange struct {
	Kind ChangeKind `json:"kind"`
	Step string     `json:"step,omitempty"` // its name in the older program; "" if it was added
	To   string     `json:"to,omitempty"`   // its name in the newer one; "" if it was removed
}

// Diff returns what became of the flows of an older program in a newer one: first of
// those of the older one, then those that were added, each in the order written. Flows
// that stay as they are, are listed as [Same].
func Diff(older, newer *Program) []Change {
	var out []Change
	known := map[string]bool{}
	for _, name := range older.Order {
		f := older.Flows[name]
		to, ok := newer.Flow(name)
		if !ok || to.BuiltIn {
			out = append(out, Change{Kind: Removed, Flow: name})
			continue
		}
		known[to.Name] = true
		c := Change{Kind: kindOf(f.Name != to.Name, f.Hash != to.Hash), Flow: name, To: to.Name}
		if c.Kind == Changed {
			c.Migrate, c.Steps = to.Migrate, diffSteps(f, to)
		}
		out = append(out, c)
	}
	for _, name := range newer.Order {
		if !known[name] {
			out = append(out, Change{Kind: Added, To: name})
		}
	}
	return out
}

func diffSteps(older, newer *Flow) []StepChange {
	var out []StepChange
	known := map[string]bool{}
	for _, s := range older.Steps {
		to, ok := newer.Step(s.Name)
		if !ok {
			out = append(out, StepChange{Kind: Removed, Step: s.Name})
			continue
		}
		known[to.Name] = true
		a, b := *s, *to // where a step leads is its own only if it is written there
		a.Name, a.Index, a.Continue, a.Loop = "", 0, 0, 0
		b.Name, b.Index, b.Continue, b.Loop = "", 0, 0, 0
		out = append(out, StepChange{Kind: kindOf(s.Name != to.Name, !bytes.Equal(a.canonical(), b.canonical())), Step: s.Name, To: to.Name})
	}
	for _, s := range newer.Steps {
		if !known[s.Name] {
			out = append(out, StepChange{Kind: Added, To: s.Name})
		}
	}
	return out
}

func kindOf(renamed, changed bool) ChangeKind {
	switch {
	case changed:
		return Changed
	case renamed:
		return Renamed
	}
	return Same
}
