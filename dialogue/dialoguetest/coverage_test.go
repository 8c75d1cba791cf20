package dialoguetest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/dialogue/dialoguetest"
	"github.com/superstep-dev/superstep/dialogue/program"
)

const covered = `version: "2.0"
languages: {also: [de]}
slots:
  n: {type: integer, ask: ask_n}
  name: {ask: {text: Name?}}
responses:
  ask_n: {text: "How many?", de: "Wie viele?"}
  done: Done.
actions: {look: {effect: read, outputs: {found: boolean}}}
flows:
  f:
    description: F.
    on_error: bad
    steps:
    - {step: count, collect: n, deadline: 10m, on_deadline: bad}
    - {step: size, branch: [{when: n > 10, then: big}, {when: n > 5, then: continue}]}
    - {step: round, while: n > 7, do: [{step: less, set: {n: "{{ n - 1 }}"}}]}
    - {step: who, collect: name, when: n != 3}
    - {step: sure, confirm: [n], ask: {text: Sure?}}
    - {step: find, action: look}
    - {step: fetch, action: look, on_error: end}
    - {say: done, next: end}
    - {step: big, say: {text: Big.}, next: end}
    - {step: bad, say: {text: Bad.}}
`

// reached runs turns and returns what was seen of the items that contain a text.
func reached(t *testing.T, scenarios, about string) string {
	t.Helper()
	files := []program.File{{Name: "f.yaml", Text: []byte(covered)}}
	p, err := program.Compile(files...)
	if err != nil {
		t.Fatal(err)
	}
	list, err := dialoguetest.Parse([]byte(scenarios))
	if err != nil {
		t.Fatal(err)
	}
	var c dialoguetest.Coverage
	for _, s := range list {
		r := &dialoguetest.Runner{Coverage: &c, Assistant: func(string) ([]program.File, error) { return files, nil }}
		for _, f := range r.Run(s, list) {
			t.Errorf("%s: %s", s.ID, f)
		}
	}
	var out []string
	for _, i := range c.Of(p) {
		if line := fmt.Sprintf("%s %s.%s %s", i.Class, i.Flow, i.Step, i.What); strings.Contains(line, about) {
			out = append(out, i.What+": "+string(i.Status))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

func TestCoverageSaysWhatWasReached(t *testing.T) {
	start := func(rest string) string {
		return "- id: a\n  stub: {look: [{found: true}, {error: broken}]}\n  turns:\n  - {u: Start, cmd: [start f]}\n" + rest
	}
	for name, c := range map[string]struct{ turns, about, want string }{
		"a step that was not come to":       {start(""), "steps f.big", "say: missed"},
		"a step that was":                   {start("  - {u: '11'}\n"), "steps f.big", "say: reached"},
		"a collect that asks":               {start(""), "steps f.count", "collect: reached"},
		"a collect that was filled before":  {"- id: a\n  turns:\n  - {u: Three, cmd: [start f, set n=6]}\n", "steps f.count", "collect: skipped"},
		"a collect that is not come to":     {start(""), "steps f.who", "collect: missed"},
		"the case that holds":               {start("  - {u: '6'}\n"), "sides f.size", "case 1, to big: missed; case 2, to continue: reached; no case holds: missed"},
		"no case":                           {start("  - {u: '2'}\n"), "sides f.size", "case 1, to big: missed; case 2, to continue: missed; no case holds: reached"},
		"a loop that is left at once":       {start("  - {u: '2'}\n"), "sides f.round", "the loop goes round: missed; the loop is left: reached"},
		"a loop that goes round":            {start("  - {u: '9'}\n"), "sides f.round", "the loop goes round: reached; the loop is left: reached"},
		"a step that is passed over":        {start("  - {u: '3'}\n"), "sides f.who", "when is false: n != 3: reached"},
		"a step that isn't":                 {start("  - {u: '2'}\n"), "sides f.who", "when is false: n != 3: missed"},
		"a yes":                             {start("  - {u: '3'}\n  - {u: 'yes'}\n"), "exits f.sure", "the user says no: missed"},
		"a no":                              {start("  - {u: '3'}\n  - {u: 'no'}\n"), "exits f.sure", "the user says no: reached"},
		"a deadline":                        {start("  - {u: late, clock: 11m, cmd: none}\n"), "exits f.count", "the deadline passes: reached"},
		"an error with an exit of its own":  {start("  - {u: '3'}\n  - {u: 'yes'}\n"), "exits f.fetch", "an error, to end: reached"},
		"an error that the flow deals with": {strings.Replace(start("  - {u: '3'}\n  - {u: 'yes'}\n"), "{found: true}, ", "", 1), "exits f.", "an error, to bad: reached; an error, to end: missed; the deadline passes: missed; the user says no: missed"},
		"a repair":                          {start("  - {u: what, cmd: [chitchat]}\n"), "patterns . c", "cancellation: missed; chitchat: reached; clarification: missed; confirmation: missed"},
		"words by language":                 {start("") + "- id: b\n  turns:\n  - {u: Los, lang: de, cmd: [start f]}\n", "responses . ask_n", "ask_n in de: reached; ask_n in en: reached"},
		"words in one language":             {start(""), "responses . ask_n", "ask_n in de: missed; ask_n in en: reached"},
		"a program of its own":              {"- id: a\n  program: {version: \"2.0\", flows: {f: {description: F, steps: [{step: big, set: {x: 1}}]}}}\n  turns:\n  - {u: Start, cmd: [start f]}\n", "steps f.big", "say: missed"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := reached(t, c.turns, c.about); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestCoverageSeesALongTurnWhole(t *testing.T) {
	turns := "- id: a\n  config: {settings: {history: {trace_events: 3}}}\n  turns:\n  - {u: Go, cmd: [start f, set n=9]}\n"
	if got := reached(t, turns, "sides f.size"); !strings.Contains(got, "case 2, to continue: reached") {
		t.Errorf("what the trace doesn't keep is lost: %s", got)
	}
}

func TestTheScenariosReachMostOfTheBank(t *testing.T) {
	var c dialoguetest.Coverage
	r := runner(t)
	r.Coverage = &c
	list := append(scenarios(t, "testdata/scenarios.yaml"), scenarios(t, "testdata/more.yaml")...)
	for _, s := range list {
		r.Run(s, list)
	}
	p, _, err := r.Compile(dialoguetest.Scenario{})
	if err != nil {
		t.Fatal(err)
	}
	items := c.Of(p)
	if n := dialoguetest.Counts(items)[0]; n.Percent() < 90 {
		t.Errorf("the scenarios reach %d %% of the steps: %v", n.Percent(), items)
	}
}
