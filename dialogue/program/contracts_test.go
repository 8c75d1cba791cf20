package program_test

import (
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/dialogue/program"
)

// What an action is given and answers has the types of its contract: else every call would
// fail.
func TestContractsAreComparedWithTheSlots(t *testing.T) {
	const text = `version: "2.0"
slots: {day: {type: date, ask: {text: D?}}, at: {type: time, ask: {text: T?}}, n: {type: integer, ask: {text: N?}}, x: {ask: {text: X?}}}
actions: {look: CONTRACT}
flows:
  a:
    description: A.
    steps:
    - collect: [day, at, n, x]
    - {action: look, CALL}
    - {say: {text: "{n} {x}"}}
`
	for _, c := range []struct{ contract, call, want string }{
		{"{effect: read, inputs: {day: date, at: time, n: number}, outputs: {x: string}}", "", ""},
		{"{effect: read, inputs: {day: string, at: string, n: integer}, outputs: {x: date}}", "", ""},
		{"{effect: read, inputs: [day, n], outputs: [x]}", "", ""},
		{"{effect: read, inputs: {n: integer}}", `inputs: {n: "{{ n + 1 }}"}`, ""},
		{"{effect: read, inputs: {day: integer}}", "", `action "look" takes its input "day" as integer, and the slot "day" is date; give both one type`},
		{"{effect: read, inputs: {when: datetime}}", "inputs: {when: day}", `action "look" takes its input "when" as datetime, and the slot "day" is date`},
		{"{effect: read, inputs: {n: boolean}}", `inputs: {n: "{{ n + 1 }}"}`, `action "look" takes its input "n" as boolean, and the expression gives a number`},
		{"{effect: read, outputs: {n: list}}", "", `action "look" answers "n" as list, and the slot "n" is integer; give both one type`},
	} {
		y := strings.Replace(strings.Replace(text, "CONTRACT", c.contract, 1), ", CALL", strings.TrimSuffix(", "+c.call, ", "), 1)
		_, err := program.Compile(program.File{Name: "a.yaml", Text: []byte(y)})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s %s: %v", c.contract, c.call, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s %s: got %v, want %s", c.contract, c.call, err, c.want)
		}
	}
}
