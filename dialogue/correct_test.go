package dialogue_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/expr"
)

// computing is a program at random whose actions, sets, calls and loops compute values from
// what the user says and from one another, and the slots that it asks for.
func computing(r *rand.Rand) (text string, asked []string) {
	var b, actions strings.Builder
	var known []string
	some := func() []string {
		var out []string
		for range 1 + r.IntN(2) {
			if x := known[r.IntN(len(known))]; !slices.Contains(out, x) {
				out = append(out, x)
			}
		}
		return out
	}
	ask := func() string {
		slot := fmt.Sprint("s", len(asked))
		asked = append(asked, slot)
		return slot
	}
	for k := range 4 + r.IntN(7) {
		out := fmt.Sprint("c", k)
		kind := r.IntN(9)
		if len(known) == 0 {
			kind = 0
		}
		switch kind {
		case 0:
			slot := ask()
			fmt.Fprintf(&b, "    - collect: %s\n", slot)
			known = append(known, slot)
		case 1:
			one, two := ask(), ask()
			fmt.Fprintf(&b, "    - collect: [%s, %s]\n", one, two)
			known = append(known, one, two)
		case 2, 3:
			fmt.Fprintf(&actions, "  a%d: {effect: read, inputs: [%s], outputs: {%s: string}}\n", k, strings.Join(some(), ", "), out)
			fmt.Fprintf(&b, "    - action: a%d\n", k)
			known = append(known, out)
		case 4:
			fmt.Fprintf(&b, "    - set: {%s: \"<{%s}>\"}\n", out, strings.Join(some(), "}{"))
			known = append(known, out)
		case 5:
			fmt.Fprintf(&b, "    - {call: part, inputs: {x: %s}, outputs: {y: %s}}\n", some()[0], out)
			known = append(known, out)
		case 6: // what it leads past is read by nobody
			fmt.Fprintf(&actions, "  a%d: {effect: read, inputs: [%s], outputs: {%s: string}}\n", k, some()[0], out)
			fmt.Fprintf(&b, "    - branch: [{when: %s > 5, then: past_%d}]\n    - action: a%d\n    - {step: past_%d, say: {text: \"{%s}\"}}\n", some()[0], k, k, k, some()[0])
		case 7:
			fmt.Fprintf(&actions, "  a%d: {effect: read, inputs: [%s], outputs: {%s: string}}\n", k, some()[0], out)
			fmt.Fprintf(&b, "    - {action: a%d, when: %s > 5}\n", k, some()[0])
		case 8:
			fmt.Fprintf(&b, "    - {confirm: [%s], ask: {text: \"{%s}?\"}}\n", strings.Join(some(), ", "), some()[0])
		}
	}
	var slots strings.Builder
	for _, s := range append(asked, "last") {
		fmt.Fprintf(&slots, "  %s: {ask: {text: \"%s?\"}}\n", s, s)
	}
	return fmt.Sprintf(`version: "2.0"
slots:
%sactions:
%s  part: {effect: read, inputs: [x], outputs: {y: string}}
flows:
  part: {description: P., internal: true, inputs: [x], outputs: [y], steps: [{action: part}]}
  f:
    description: F.
    steps:
%s    - collect: last
`, slots.String(), actions.String(), b.String()), asked
}

// Whatever is corrected, in whatever order and however much of it in one message, the
// values that are computed are in the end those of somebody who said the last values at
// once.
func TestCorrectionsLeadWhereTheCorrectedValuesLead(t *testing.T) {
	programs := uint64(150)
	if n, err := strconv.ParseUint(os.Getenv("HOSTILE_SEEDS"), 10, 64); err == nil {
		programs = n
	}
	corrected := 0
	for seed := range programs {
		r := rand.New(rand.NewPCG(seed, 6))
		text, asked := computing(r)
		p := compile(t, text)
		act := func(c dialogue.ActionCall) dialogue.Result {
			in := ""
			for _, x := range p.Actions[c.Action].Inputs {
				in += c.Inputs[x.Name].String() + ","
			}
			return dialogue.Result{ID: c.ID, Outputs: map[string]expr.Value{p.Actions[c.Action].Outputs[0].Name: expr.Str(c.Action + "(" + in + ")")}}
		}
		var history []string
		s := dialogue.New("t")
		final := map[string]string{}
		value := func() string { return strconv.Itoa(1 + r.IntN(9)) }
		say := func(s *dialogue.State, cmds []dialogue.Command) {
			r := talk(t, p, s, dialogue.Message{Text: "a"}, cmds, act)
			history = append(history, fmt.Sprintf("%v: %s", cmds, r.Text))
		}
		say(&s, start("f"))
		for range 60 {
			var cmds []dialogue.Command
			if slot := s.WaitingForSlot; strings.HasPrefix(slot, "confirm:") {
				if r.IntN(2) == 0 {
					cmds = []dialogue.Command{{Type: dialogue.Affirm}}
				}
			} else if slot != "last" {
				final[slot] = value()
				cmds = set(slot, final[slot])
			} else if corrected++; r.IntN(8) == 0 {
				break
			}
			for range r.IntN(3) {
				slot := asked[r.IntN(len(asked))]
				if _, told := final[slot]; told && slot != s.WaitingForSlot && !slices.ContainsFunc(cmds, func(c dialogue.Command) bool { return c.Slot == slot }) {
					c := dialogue.Command{Type: dialogue.CorrectSlot, Slot: slot}
					if r.IntN(5) == 0 {
						c.Type = dialogue.ClearSlot // asked for again
						delete(final, slot)
					} else {
						final[slot] = value()
						c.Value = expr.Str(final[slot])
					}
					cmds = append(cmds, c)
				}
			}
			r.Shuffle(len(cmds), func(i, j int) { cmds[i], cmds[j] = cmds[j], cmds[i] })
			say(&s, cmds)
		}
		if s.WaitingForSlot != "last" {
			continue // not all was told
		}
		at := dialogue.New("t")
		say(&at, start("f"))
		for at.WaitingForSlot != "last" {
			if strings.HasPrefix(at.WaitingForSlot, "confirm:") {
				say(&at, []dialogue.Command{{Type: dialogue.Affirm}})
				continue
			}
			say(&at, set(at.WaitingForSlot, final[at.WaitingForSlot]))
		}
		for name, want := range at.SlotsOf("f") {
			if got := s.SlotsOf("f")[name]; !got.Same(want) {
				t.Errorf("seed %d: %s is %s, and of the values at once %s\n%s\n%s", seed, name, got, want, text, strings.Join(history, "\n"))
				break
			}
		}
		if t.Failed() {
			break
		}
	}
	if corrected < int(programs)/2 {
		t.Errorf("only %d times was all told", corrected)
	}
}
