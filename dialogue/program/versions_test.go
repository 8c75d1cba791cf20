package program_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/dialogue/program"
)

func compiled(t testing.TB, text string) *program.Program {
	t.Helper()
	p, err := program.Compile(program.File{Name: "p.yaml", Text: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTheHashOfAFlowIsThatOfWhatItDoes(t *testing.T) {
	const text = `version: "2.0"
slots: {x: {ask: {text: X?}}, other: {ask: {text: O?}}}
actions: {pay: {effect: write, inputs: [x]}}
flows:
  a: {description: A., steps: [{collect: x}, {action: pay}, {say: {text: Done.}}, {branch: [{when: x == 'y', then: end}]}]}
  b: {description: B., steps: [{collect: other}]}
`
	was := compiled(t, text).Flows["a"].Hash
	for what, c := range map[string]struct {
		old, new string
		same     bool
	}{
		"its description":     {"A.", "The A.", true},
		"what it says":        {"Done.", "It is done.", true},
		"a question":          {"X?", "Which X?", true},
		"another flow":        {"collect: other", "collect: other, force: true", true},
		"how it is written":   {"{action: pay}", "{type: action, call: pay}", true},
		"an earlier name":     {"{description: A.,", "{description: A., formerly: z,", true},
		"how it migrates":     {"{description: A.,", "{description: A., migrate: alias,", true},
		"a step":              {"{say: {text: Done.}}, ", "", false},
		"a condition":         {"x == 'y'", "x == 'z'", false},
		"a rule of its slot":  {"{ask: {text: X?}}", "{length: 3, ask: {text: X?}}", false},
		"an action's effect":  {"effect: write", "effect: read", false},
		"where a step leads":  {"{action: pay}", "{action: pay, next: end}", false},
		"who may start it":    {"{description: A.,", "{description: A., guard: x != 'z',", false},
		"a default of a slot": {"{ask: {text: X?}}", "{default: y, ask: {text: X?}}", false},
	} {
		changed := strings.Replace(text, c.old, c.new, 1)
		if changed == text {
			t.Fatalf("%s: nothing was changed", what)
		}
		if now := compiled(t, changed).Flows["a"].Hash; (now == was) != c.same {
			t.Errorf("%s: the hash stays %v, want %v", what, now == was, c.same)
		}
	}
}

func ExampleDiff() {
	compile := func(flows string) *program.Program {
		p, err := program.Compile(program.File{Name: "p.yaml", Text: []byte(`version: "2.0"
slots: {x: {ask: {text: X?}}, y: {ask: {text: Y?}}}
flows:
` + flows)})
		if err != nil {
			fmt.Println(err)
		}
		return p
	}
	older := compile(`
  a: {description: A., steps: [{step: one, collect: x}, {step: two, collect: y}]}
  b: {description: B., steps: [{collect: x}]}
  c: {description: C., steps: [{collect: x}]}
`)
	newer := compile(`
  a: {description: A., migrate: alias, steps: [{step: first, formerly: one, collect: x}, {step: two, collect: y, force: true}]}
  d: {description: B., formerly: b, steps: [{collect: x}]}
`)
	for _, c := range program.Diff(older, newer) {
		text, err := json.Marshal(c)
		fmt.Println(string(text), err)
	}
	// Output:
	// {"kind":"changed","flow":"a","to":"a","migrate":"alias","steps":[{"kind":"renamed","step":"one","to":"first"},{"kind":"changed","step":"two","to":"two"}]} <nil>
	// {"kind":"renamed","flow":"b","to":"d"} <nil>
	// {"kind":"removed","flow":"c"} <nil>
}
