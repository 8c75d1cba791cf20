package dialogue_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/dialoguetest"
	"github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/internal/race"
)

// rarer is how much less is tried with the race detector, under which all takes many
// times as long.
var rarer = map[bool]int{false: 1, true: 3}[race.Enabled]

// otherwise returns the program after a change of every flow, which says how to migrate.
func otherwise(t *testing.T, files []program.File, migrate string) *program.Program {
	t.Helper()
	files = slices.Clone(files)
	for i := range files {
		var root map[string]any
		if err := yaml.Unmarshal(files[i].Text, &root); err != nil {
			t.Fatal(err)
		}
		flows, _ := root["flows"].(map[string]any)
		for _, f := range flows {
			flow, _ := f.(map[string]any)
			flow["migrate"] = migrate
			for _, key := range []string{"steps", "process"} {
				if steps, ok := flow[key].([]any); ok {
					flow[key] = append(steps, map[string]any{"step": "one_more", "set": map[string]any{"longer": true}})
				}
			}
		}
		text, err := yaml.Marshal(root)
		if err != nil {
			t.Fatal(err)
		}
		files[i].Text = text
	}
	p, err := program.Compile(files...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestAChangeOfTheProgramAfterAnyTurnLosesNoSlotAndRepeatsNoEffect: the row "versions" of
// what the dialogues must show. The harness fails for an effect that runs twice and for an
// irreversible one without its own yes.
func TestAChangeOfTheProgramAfterAnyTurnLosesNoSlotAndRepeatsNoEffect(t *testing.T) {
	kept := 0
	type change struct {
		of      *program.Program
		migrate string
	}
	changed := map[change]*program.Program{}
	eachScenario(t, func(s dialoguetest.Scenario, p *program.Program, files []program.File) {
		for way, migrate := range []string{"pin", "alias", "restart_keep_slots"} {
			after := changed[change{p, migrate}]
			if after == nil {
				after = otherwise(t, files, migrate)
				changed[change{p, migrate}] = after
			}
			for at := 1; at <= len(s.Turns); at++ {
				if at%(3*rarer) != way+3*(len(s.ID)%rarer) && os.Getenv("DIALOGUE_VERSIONS") == "" {
					continue
				}
				h := newHostile(t, p, rand.New(rand.NewPCG(uint64(at), 5)))
				for _, turn := range s.Turns[:at] {
					h.play(turn, false)
				}
				h.wake()
				before := h.state
				for _, st := range dialogue.Standings(after, before) {
					again := st.Fate == dialogue.Ends && migrate == "restart_keep_slots" && before.Metadata.Machine.Frames[st.FlowID].Role == dialogue.ByCall
					if st.Fate == dialogue.Ends && !again || len(st.Lost) > 0 || st.Fate == dialogue.Stays {
						t.Errorf("%s, %s after turn %d: %+v", s.ID, migrate, at, st)
					}
				}
				h.p = after
				h.give(dialogue.Message{Text: "hm", Time: h.now}, nil)
				for _, f := range before.FlowStack {
					now, open := h.state.FlowSlots[f.FlowID]
					flow, _ := after.Flow(f.FlowName)
					for name, v := range before.FlowSlots[f.FlowID] {
						src := before.Metadata.Machine.Frames[f.FlowID].Provenance[name].Source
						if !open || forced(flow, name) || src != program.FromUser && src != program.FromButton {
							continue
						}
						if got, ok := now[name]; !ok || !got.Same(v) {
							h.fail("%s, %s after turn %d: slot %s was %s and is %s, %v", s.ID, migrate, at, name, v, got, ok)
						}
						kept++
					}
				}
				for range 8 {
					h.give(dialogue.Message{Text: "go on", Time: h.now}, []dialogue.Command{h.sensible()})
				}
				h.recover()
			}
		}
	})
	if kept < 300/rarer {
		t.Errorf("only %d slots were looked at", kept)
	}
}

// TestAChangeOfTheProgramInTheMiddleOfATurnLosesNoSlotAndRepeatsNoEffect: the same where an
// action, a validator or a model is under way: its result is the first to see the change.
func TestAChangeOfTheProgramInTheMiddleOfATurnLosesNoSlotAndRepeatsNoEffect(t *testing.T) {
	kept, done := 0, 0
	type change struct {
		of      *program.Program
		migrate string
	}
	changed := map[change]*program.Program{}
	i := 0
	eachScenario(t, func(s dialoguetest.Scenario, p *program.Program, files []program.File) {
		i++
		id := s.ID
		whole := newHostile(t, p, calm{})
		for _, turn := range s.Turns {
			whole.play(turn, false)
		}
		for way, migrate := range []string{"pin", "alias", "restart_keep_slots"} {
			after := changed[change{p, migrate}]
			if after == nil {
				after = otherwise(t, files, migrate)
				changed[change{p, migrate}] = after
			}
			for at := range whole.inputs {
				if at%(18*rarer) != 6*way+len(s.ID)%6+18*(i%rarer) && os.Getenv("DIALOGUE_VERSIONS") == "" {
					continue
				}
				h := newHostile(t, p, calm{})
				h.advance = func(n int, s dialogue.State, in dialogue.Input) {
					if n != at {
						return
					}
					h.p = after
					switch in.(type) {
					case dialogue.Result, dialogue.Validated, dialogue.Answer:
					default: // a message may change slots itself, or answer what is not asked any more
						return
					}
					was, _, err := dialogue.Advance(p, s, in)
					if err != nil {
						h.fail("%v", err)
					}
					now, _, err := dialogue.Advance(after, s, in)
					if err != nil {
						h.fail("%v", err)
					}
					kept += keeps(h, after, was, now, fmt.Sprintf("%s, %s at input %d", id, migrate, at))
				}
				for _, turn := range s.Turns {
					h.play(turn, false)
				}
				for call, n := range h.done {
					done++
					if n > 1 && whole.done[call] < n {
						h.fail("%s, %s at input %d: %s ran %d times", s.ID, migrate, at, call, n)
					}
				}
				h.recover()
			}
		}
	})
	if least := 100 / (2*rarer - 1); kept < least || done < least {
		t.Errorf("only %d slots and %d effects were looked at", kept, done)
	}
}

// keeps counts the slots that the user filled, which are what they would be without the
// change.
func keeps(h *hostile, p *program.Program, was, now dialogue.State, where string) (n int) {
	h.t.Helper()
	for _, f := range was.FlowStack {
		frame := now.Metadata.Machine.Frames[f.FlowID]
		flow, known := p.Flow(f.FlowName)
		for name, v := range was.FlowSlots[f.FlowID] {
			src := was.Metadata.Machine.Frames[f.FlowID].Provenance[name].Source
			if frame == nil || !known || forced(flow, name) || src != program.FromUser && src != program.FromButton {
				continue
			}
			if got, ok := now.FlowSlots[f.FlowID][name]; !ok || !got.Same(v) {
				h.fail("%s: slot %s is %s and not %s, %v", where, name, got, v, ok)
			}
			n++
		}
	}
	return n
}

// forced says whether a flow asks for a slot on each visit.
func forced(f *program.Flow, slot string) bool {
	return slices.ContainsFunc(f.Steps, func(s *program.Step) bool {
		x, ok := s.Body.(*program.Collect)
		return ok && x.Force && slices.Contains(x.Slots, slot)
	})
}

const before = `
version: "2.0"
slots:
  x: {ask: {text: "X?"}}
  y: {type: integer, ask: {text: "Y?"}}
actions: {pay: {effect: irreversible, inputs: [x]}}
flows:
  a: {description: A., steps: [{collect: x}, {step: sure, confirm: [x], ask: {text: "Pay {x}?"}}, {step: pay, action: pay}, {step: more, collect: y}]}
  b: {description: B., steps: [{collect: x}]}
  c: {description: C., steps: [{collect: x}]}
`

func compile(t *testing.T, text string) *program.Program {
	t.Helper()
	p, err := program.Compile(program.File{Name: "p.yaml", Text: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestStandingsSayWhatBecomesOfEveryFlowThatIsOpen(t *testing.T) {
	old := compile(t, before)
	s := dialogue.New("t")
	act := func(c dialogue.ActionCall) dialogue.Result { return dialogue.Result{ID: c.ID} }
	talk(t, old, &s, dialogue.Message{Text: "c"}, start("c"), act)
	talk(t, old, &s, dialogue.Message{Text: "b"}, start("b"), act)
	talk(t, old, &s, dialogue.Message{Text: "a"}, start("a"), act)
	talk(t, old, &s, dialogue.Message{Text: "5"}, set("x", "5"), act)
	talk(t, old, &s, dialogue.Message{Text: "yes"}, []dialogue.Command{{Type: dialogue.Affirm}}, act)
	for _, c := range []struct{ name, change, with, want string }{
		{"nothing", "", "", "c stays collect_1, b stays collect_1, a stays more"},
		{"words", `X?`, `Your X?`, "c stays collect_1, b stays collect_1, a stays more"},
		{"a description", `description: A.`, `description: The A.`, "c stays collect_1, b stays collect_1, a stays more"},
		{"a step, pinned", `{step: more, `, `{set: {z: 1}}, {step: more, `, "c stays collect_1, b stays collect_1, a pinned more"},
		{"a step, by name", `{description: A., steps: [`, `{description: A., migrate: alias, steps: [{set: {z: 1}}, `, "c stays collect_1, b stays collect_1, a moves more"},
		{"a name", `{step: more, `, `{step: further, formerly: more, `, "c stays collect_1, b stays collect_1, a pinned more"},
		{"a name, by name", `{description: A., steps: [{collect: x}, {step: sure, confirm: [x], ask: {text: "Pay {x}?"}}, {step: pay, action: pay}, {step: more, `, `{description: A., migrate: alias, steps: [{collect: x}, {step: sure, confirm: [x], ask: {text: "Pay {x}?"}}, {step: pay, action: pay}, {step: further, formerly: more, `, "c stays collect_1, b stays collect_1, a moves further"},
		{"a restart", `{description: A., steps`, `{description: A., migrate: restart_keep_slots, steps: [{set: {z: 1}}, {collect: x}, {step: sure, confirm: [x], ask: {text: "Pay {x}?"}}, {step: pay, action: pay}]}
  e: {description: E., steps`, "c stays collect_1, b stays collect_1, a restarts set_1 done [pay]"},
		{"a slot that is refused, by name", `  x: {`, `  x: {length: 3, `, "c pinned collect_1, b pinned collect_1, a pinned more"},
		{"a flow less", `  b: {description: B., steps: [{collect: x}]}`, ``, "c stays collect_1, b ends , a stays more"},
		{"a flow's name", `  b: {`, `  d: {formerly: b, `, "c stays collect_1, d stays collect_1, a stays more"},
	} {
		next := compile(t, strings.Replace(before, c.change, c.with, 1)).With(old)
		var got []string
		for _, st := range dialogue.Standings(next, s) {
			text := cmp.Or(st.To, st.Flow) + " " + string(st.Fate) + " " + st.ToStep
			if len(st.Done) > 0 {
				text += fmt.Sprint(" done ", st.Done)
			}
			got = append(got, text)
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s: %s, want %s", c.name, text, c.want)
		}
	}
	if st := dialogue.Standings(compile(t, strings.Replace(before, `{step: more, `, `{set: {z: 1}}, {step: more, `, 1)), s); st[2].Fate != dialogue.Moves || !st[2].Missing {
		t.Errorf("pinned to a version that nobody has: %+v", st[2])
	}
	if st := dialogue.Standings(compile(t, strings.Replace(before, `  x: {`, `  x: {length: 3, `, 1)), s); st[2].Fate != dialogue.Restarts || !slices.Equal(st[2].Lost, []string{"x"}) {
		t.Errorf("a value that the changed flow refuses: %+v", st[2])
	}
}
