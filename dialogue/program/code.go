package program

import (
	"fmt"
	"slices"
)

// Code is what stands behind the names that programs use.
type Code struct {
	Actions map[string]Signature
	// Validators are the types of the values that validators take and return.
	Validators map[string]Type
}

// Signature is what the code of an action takes and returns.
type Signature struct {
	Inputs, Outputs []Param
	// AnyInputs and AnyOutputs say that the names are not known before it runs.
	AnyInputs, AnyOutputs bool
	// Effect is what the code says of itself; empty if it says nothing.
	Effect Effect
}

// Check says whether the code is there for every action and validator of the program,
// and fits what the program says of it. The error is [Findings] with everything that
// doesn't, each at its place in the YAML.
func (p *Program) Check(code Code) error {
	b := &binding{code: code}
	for _, name := range keysOf(p.Actions) {
		b.action(p.Actions[name])
	}
	slots := map[*Slot]bool{}
	visit := func(list map[string]*Slot) {
		for _, name := range keysOf(list) {
			if s := list[name]; !slots[s] {
				slots[s] = true
				b.validators(s.pos, scope{}, s, s.Validate)
			}
		}
	}
	visit(p.Session)
	visit(p.Slots)
	for _, name := range keysOf(p.Flows) {
		f := p.Flows[name]
		visit(f.Slots)
		for _, step := range f.Steps {
			x, ok := step.Body.(*Collect)
			if !ok {
				continue
			}
			for _, slot := range x.Slots {
				if s := f.Slots[slot]; s != nil {
					b.validators(step.pos, scope{flow: f.Name, step: step.Name}, s, x.Validate)
				}
			}
		}
	}
	if len(b.findings) == 0 {
		return nil
	}
	return b.findings.sorted()
}

// binding compares a program with the code.
type binding struct {
	code     Code
	findings Findings
}

func (b *binding) errorf(at Position, s scope, format string, args ...any) {
	f := Finding{File: at.File, Line: at.Line, Column: at.Column, Severity: Error, Flow: s.flow, Step: s.step, Message: fmt.Sprintf(format, args...)}
	if !slices.Contains(b.findings, f) {
		b.findings = append(b.findings, f)
	}
}

func (b *binding) action(a *Action) {
	code, ok := b.code.Actions[a.Name]
	if !ok {
		b.errorf(a.pos, scope{}, "action %q has no code%s", a.Name, orElse(suggest(a.Name, keysOf(b.code.Actions)), "register it under this name"))
		return
	}
	if a.implicit {
		return // it has no contract
	}
	fail := func(format string, args ...any) {
		b.errorf(a.pos, scope{}, "action %q: %s", a.Name, fmt.Sprintf(format, args...))
	}
	if caution(a.Effect) < caution(code.Effect) {
		fail("its effect is %s here and %s in its code; write effect: %s", a.Effect, code.Effect, code.Effect)
	}
	for _, in := range a.Inputs {
		if code.AnyInputs {
			break
		}
		taken, ok := param(code.Inputs, in.Name)
		switch {
		case !ok:
			fail("its code has no input %q%s", in.Name, orElse(suggest(in.Name, paramNames(code.Inputs)), "remove it here, or take it there"))
		case in.Optional && !taken.Optional:
			fail("the input %q may be missing here, and its code needs it; write it without the ?, or make it optional there", in.Name)
		case !fits(in.Type, taken.Type):
			fail("the input %q is of type %s here, and of type %s in its code; give both one type", in.Name, in.Type, taken.Type)
		}
	}
	for _, taken := range code.Inputs {
		if _, ok := param(a.Inputs, taken.Name); !ok && !taken.Optional {
			fail("its code needs the input %q; add it to inputs", taken.Name)
		}
	}
	for _, out := range a.Outputs {
		if code.AnyOutputs {
			break
		}
		given, ok := param(code.Outputs, out.Name)
		switch {
		case !ok:
			fail("its code has no output %q%s", out.Name, orElse(suggest(out.Name, paramNames(code.Outputs)), "remove it here, or return it there"))
		case given.Optional && !out.Optional:
			fail("the output %q may be missing, says its code; write %q", out.Name, out.Name+"?")
		case !fits(given.Type, out.Type):
			fail("the output %q is of type %s here, and of type %s in its code; give both one type", out.Name, out.Type, given.Type)
		}
	}
}

func (b *binding) validators(at Position, in scope, s *Slot, validators []string) {
	for _, name := range validators {
		t, ok := b.code.Validators[name]
		switch {
		case !ok:
			b.errorf(at, in, "slot %q: validator %q has no code%s", s.Name, name, orElse(suggest(name, keysOf(b.code.Validators)), "register it under this name"))
		case t == DateTime && (s.Type == Date || s.Type == Time): // a time.Time
			b.errorf(at, in, "slot %q is of type %s, and the code of its validator %q takes the type %s; let it take a string", s.Name, s.Type, name, t)
		case !fits(s.Type, t) || !fits(t, s.Type):
			b.errorf(at, in, "slot %q is of type %s, and the code of its validator %q takes the type %s; give both one type", s.Name, s.Type, name, t)
		}
	}
}

// fits says whether every value of a type, or at least those that look like it, are of
// another: dates and times are texts, and what a text holds shows when it is there.
func fits(from, to Type) bool {
	if from == to || from == Any || to == Any || from == "" || to == "" {
		return true
	}
	switch to {
	case Number:
		return from == Integer
	case String:
		return from == Date || from == Time || from == DateTime
	case Date, Time:
		return from == String
	case DateTime:
		return from == String || from == Date
	}
	return false
}

// caution orders effects by what repeating them does.
func caution(e Effect) int { return slices.Index([]Effect{Read, Write, Irreversible}, e) }

func param(list []Param, name string) (Param, bool) {
	i := slices.IndexFunc(list, func(p Param) bool { return p.Name == name })
	if i < 0 {
		return Param{}, false
	}
	return list[i], true
}

func orElse(suggestion, mend string) string {
	if suggestion == "" {
		return "; " + mend
	}
	return suggestion
}
