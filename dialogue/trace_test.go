package dialogue_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/program"
)

func TestTheTraceSaysWhichSidesWereTakenAndHowConfirmsWereAnswered(t *testing.T) {
	p, err := program.Compile(program.File{Name: "f.yaml", Text: []byte(`
version: "2.0"
slots: {n: {type: integer, ask: {text: N?}}}
flows:
  f:
    description: F.
    steps:
    - collect: n
    - {step: size, branch: [{when: n > 100, then: end}, {when: n > 1, then: continue}]}
    - {step: down, while: n > 2, do: [{set: {n: "{{ n - 1 }}"}}]}
    - {step: sure, confirm: [n], ask: {text: Sure?}}
`)})
	if err != nil {
		t.Fatal(err)
	}
	for said, want := range map[string]string{
		"500":   "size 1",
		"3 yes": "size 2, down 1, down 0, sure confirmed",
		"1 no":  "size 0, down 0, sure denied",
	} {
		state := dialogue.New("thread")
		now := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
		give := func(in dialogue.Input) {
			t.Helper()
			if state, _, err = dialogue.Advance(p, state, in); err != nil {
				t.Fatal(err)
			}
		}
		give(dialogue.Message{Commands: []dialogue.Command{{Type: dialogue.StartFlow, Flow: "f"}}, Time: now})
		for _, word := range strings.Fields(said) {
			m := dialogue.Message{Text: word, Time: now}
			m.Commands, _ = dialogue.Read(p, state, m)
			give(m)
		}
		var got []string
		for _, e := range state.Trace {
			switch e.Kind {
			case "branch":
				got = append(got, fmt.Sprintf("%s %d", e.Step, e.Side))
			case "confirmed", "denied":
				got = append(got, e.Step+" "+e.Kind)
			}
		}
		if s := strings.Join(got, ", "); s != want {
			t.Errorf("%q: trace %s, want %s", said, s, want)
		}
	}
}
