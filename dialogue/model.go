package dialogue

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
)

// model hands out the call of a model.
func (m *machine) model(i int, step *program.Step, call *ModelCall) {
	if m.t.Advances++; m.t.Advances > m.p.Settings.Advances {
		m.failed(i, &Failure{Type: "turn_limit"}, false)
		return
	}
	f := m.frame(i)
	n := f.Visits[step.Name].N + 1
	call.ID = m.key(i, step, n)
	if f.Agent != nil {
		call.ID += fmt.Sprintf("/%d", f.Agent.Steps)
	}
	call.Language = m.t.Language
	m.secrets()
	call.Instruction = m.mask(call.Instruction)
	m.s.ConversationState = ExecutingAction
	m.effect(Effect{Model: call})
}

// agent asks the model of an agent step for its next move, or ends the step.
func (m *machine) agent(i int, step *program.Step, x *program.Agent) {
	run := m.frame(i).Agent
	if x.ExitWhen != nil && x.ExitWhen.True(m.scene(i)) {
		m.agentDone(i, step, x)
		return
	}
	if run.Steps >= x.MaxSteps {
		m.fail(i, &Failure{Type: "agent_limit"}, false)
		return
	}
	run.Steps++
	call := &ModelCall{Agent: true, Instruction: x.Instruction.Render(m.scene(i)), Log: slices.Clone(run.Log)}
	for _, a := range x.Tools {
		call.Tools = append(call.Tools, a.Name)
	}
	for _, name := range x.MaySet {
		s := m.slot(i, name)
		call.MaySet = append(call.MaySet, SlotOffer{Flow: m.flow(i).Name, Name: name, Type: s.Type, Description: s.Description})
	}
	m.model(i, step, call)
}

func (m *machine) agentDone(i int, step *program.Step, x *program.Agent) {
	var wrote []string
	for _, name := range x.MaySet {
		if _, filled := m.value(i, name); filled {
			wrote = append(wrote, name)
		}
	}
	m.visit(i, step, wrote)
	m.follows(i, step)
}

// asker returns the frame for which a model is asked, -1 if it is gone.
func (m *machine) asker(call *ModelCall) int {
	return slices.IndexFunc(m.s.FlowStack, func(f FlowContext) bool {
		return strings.HasPrefix(call.ID, m.m.Thread+"/"+f.FlowID+"/")
	})
}

// modelAnswer takes what a model said or wants.
func (m *machine) modelAnswer(call ModelCall, in Answer) {
	i := m.asker(&call)
	if i < 0 {
		return
	}
	_, step := m.at(i)
	if step == nil || !m.frame(i).Entered {
		return
	}
	const longest = 16_000 // characters of a text that a model may say
	if r := []rune(in.Text); len(r) > longest {
		in.Text = string(r[:longest])
	}
	if in.Error != nil {
		f := *in.Error
		f.Type = cmp.Or(f.Type, "unknown")
		m.fail(i, &f, false)
		return
	}
	switch x := step.Body.(type) {
	case *program.Generate:
		if x.Store == "" {
			m.visit(i, step, nil)
			m.t.Messages = append(m.t.Messages, Said{Type: "text", Text: in.Text, Generated: true})
		} else {
			v, reason := m.slot(i, x.Store).Check(expr.Str(in.Text), m.lang())
			if reason != "" {
				m.fail(i, &Failure{Type: "invalid_output", Message: reason}, false)
				return
			}
			m.store(i, x.Store, v, Provenance{Source: program.FromAction, Turn: m.t.Number, Read: slices.Clone(step.Reads)})
			m.visit(i, step, []string{x.Store})
		}
		m.follows(i, step)
	case *program.Agent:
		m.agentMove(i, step, x, in)
	}
}

// agentMove carries out what the model of an agent step wants.
func (m *machine) agentMove(i int, step *program.Step, x *program.Agent, in Answer) {
	f := m.frame(i)
	run := f.Agent
	entry := AgentEntry{Tool: in.Tool, Args: in.Args, Text: in.Text}
	switch {
	case in.Tool == "": // its own finish
		run.Log = append(run.Log, entry)
		m.agentDone(i, step, x)
		return
	case in.Tool == "set_slot":
		name, _ := in.Args["slot"].Str()
		slot := m.slot(i, name)
		v, reason := expr.Value{}, "this slot can't be set"
		if slices.Contains(x.MaySet, name) && m.flow(i).Allows(slot, program.FromAgent) {
			v, reason = slot.Parse(in.Args["value"], m.lang())
		}
		if reason != "" {
			entry.Error = reason
		} else {
			m.store(i, name, v, Provenance{Source: program.FromAgent, Turn: m.t.Number, Read: slices.Clone(step.Reads)})
		}
		run.Log = append(run.Log, entry)
	default:
		at := slices.IndexFunc(x.Tools, func(a *program.Action) bool { return a.Name == in.Tool })
		if at < 0 {
			entry.Error = "there is no such tool"
			run.Log = append(run.Log, entry)
			break
		}
		a := x.Tools[at]
		var args map[string]expr.Value
		args, entry.Error = given("input", a.Inputs, among(in.Args), asIs)
		if entry.Error == "" && a.Guard != nil && !a.Guard.True(m.scene(i)) {
			entry.Error = "refused"
		}
		run.Log = append(run.Log, entry)
		if entry.Error == "" {
			id := fmt.Sprintf("%s/%d", m.key(i, step, f.Visits[step.Name].N+1), run.Steps)
			m.act(i, &ActionCall{ID: id, Action: a.Name, Effect: a.Effect, Inputs: args, Timeout: a.Timeout, Retry: a.Retry, FlowID: m.s.FlowStack[i].FlowID, Step: step.Name})
			return
		}
	}
	m.agent(i, step, x)
}
