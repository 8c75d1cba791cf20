package program_test

import (
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/dialogue/program"
)

// Who says yes to what can't be taken back is to have seen it.
func TestAConfirmThatHidesWhatItConfirmsIsWarnedOf(t *testing.T) {
	const text = `version: "2.0"
languages: {default: en, also: [es]}
slots: {age: {type: integer, ask: {text: Age?, es: ¿Edad?}}, kind: {options: [a, b], ask: {text: Kind?, es: ¿Tipo?}}}
actions: {pay: {effect: irreversible, inputs: [age, kind]}}
flows:
  a:
    description: A.
    steps:
    - collect: [age, kind]
    - {confirm: [age, kind], ask: ASK}
    - action: pay
`
	const hidden = `flow "a", step "confirm_2": the words of the confirm do not show "age" in `
	for ask, want := range map[string]string{
		`{text: "{age}?", es: "¿{age:number}?"}`:                            "",
		`{text: "{{ age + 0 }}?", es: "¿{age}?"}`:                           "",
		`{text: "Sure?", es: "¿{age}?"}`:                                    hidden + "en,",
		`{text: "{age}?", es: "¿Seguro?"}`:                                  hidden + "es,",
		`{text: "Sure?", es: "¿Seguro?"}`:                                   hidden + "en, es,",
		`[{text: "{age}?", es: "¿{age}?"}, {text: "Well?", es: "¿{age}?"}]`: hidden + "en,",
	} {
		p, err := program.Compile(program.File{Name: "a.yaml", Text: []byte(strings.Replace(text, "ASK", ask, 1))})
		if err != nil {
			t.Fatalf("%s: %v", ask, err)
		}
		got := p.Warnings.Error()
		if len(p.Warnings) == 0 {
			got = ""
		}
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", ask, got, want)
		}
	}
}
