package program_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/dialogue/program"
)

// with returns a program with one flow of the steps.
func with(steps string) string {
	return `version: "2.0"
slots: {name: {ask: {text: Name?}}, age: {type: integer, ask: {text: Age?}}}
actions: {pay: {effect: irreversible, inputs: [age]}, look: {effect: read, inputs: [age], outputs: {found: boolean}}}
responses: {hi: Hi., many: {text: {count: age, one: One., other: "{age}."}}}
flows:
  sub: {description: Sub., inputs: [age], outputs: [name], steps: [{collect: name}]}
  a:
    description: A.
    steps:
` + steps
}

func TestEveryMistakeIsNamedWithItsPlaceAndItsRepair(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"a key twice":                {with("    - {say: hi, say: hi}"), []string{`bad.yaml:10:17: error: the key "say" is written twice, first in line 10; keep one`}},
		"an unknown step":            {with("    - {sya: hi}"), []string{`the step does nothing ("sya"; did you mean "say"?)`}},
		"a key that is nearly known": {with("    - {collect: age, max_attempt: 3}"), []string{`unknown key "max_attempt"; did you mean "max_attempts"?`}},
		"a flow that is no other's":  {with("    - call: something_else_altogether"), []string{`flow "something_else_altogether" does not exist; known are a, sub`}},
		"a placeholder of nothing":   {with("    - {say: {text: \"Hi {nobody_knows}.\"}}"), []string{`bad.yaml:10:25: error: flow "a", step "say_1": slot "nobody_knows" does not exist; declare it under slots`}},
		"two types":                  {with("    - {say: hi, collect: name}"), []string{`the step has the types say and collect; make one step of each`}},
		"an unknown response":        {with("    - say: hii"), []string{`bad.yaml:10:12: error: flow "a", step "say_1": response "hii" does not exist; did you mean "hi"?`}},
		"an unknown action":          {with("    - action: loko"), []string{`action "loko" does not exist; did you mean "look"?`}},
		"an unknown flow":            {with("    - call: sbu"), []string{`flow "sbu" does not exist; did you mean "sub"?`}},
		"a missing input":            {with("    - call: sub"), []string{`flow "sub" needs the input "age"; give it under inputs`}},
		"an input too many":          {with("    - {call: sub, inputs: {age: age, agee: name}}"), []string{`flow "sub" has no input "agee"; did you mean "age"?`}},
		"an unknown output":          {with("    - {call: sub, inputs: {age: age}, outputs: {nme: x}}"), []string{`flow "sub" has no output "nme"; did you mean "name"?`}},
		"an unconfirmed action":      {with("    - collect: age\n    - action: pay"), []string{`action "pay" is irreversible and no confirm stands on every path to it`}},
		"another value confirmed":    {with("    - collect: [age, name]\n    - {confirm: [name], ask: hi}\n    - action: pay"), []string{`action "pay" is irreversible and its input "age" is not confirmed on every path to it; list "age" in a confirm before it`}},
		"from a model":               {with("    - agent: {instruction: X, may_set: [age]}\n    - {confirm: [name], ask: hi}\n    - action: pay"), []string{`slot "age" can't be set by an agent`, `its input "age" is not confirmed on every path`}},
		"confirmed on one path":      {with("    - collect: age\n    - {branch: [{when: age > 3, then: p}]}\n    - {confirm: [age], ask: hi}\n    - {step: p, action: pay}"), []string{`flow "a", step "p": action "pay" is irreversible`}},
		"emptied after the confirm":  {with("    - collect: age\n    - {confirm: [age], ask: hi}\n    - {set: {age: 3}}\n    - {step: p, action: pay}"), []string{`action "pay" is irreversible`}},
		"irreversible for an agent":  {with("    - agent: {instruction: X, tools: [pay]}"), []string{`action "pay" is irreversible and can't be a tool of an agent`}},
		"irreversible in parallel":   {with("    - parallel: [{action: pay}]"), []string{`action "pay" is irreversible and can't run in parallel`}},
		"an endless loop":            {with("    - {step: x, say: hi}\n    - {say: hi, next: x}"), []string{`the steps x, say_2 repeat without an end`}},
		"a while that never changes": {with("    - {while: age > 3, do: [{say: hi}]}"), []string{`repeat without an end`}},
		"an empty loop":              {with("    - {while: age > 3, do: []}"), []string{`the loop does nothing; write at least one step under "do"`}},
		"into a loop":                {with("    - {collect: name, next: inner}\n    - {while: age > 3, do: [{step: inner, collect: [age], force: true}]}"), []string{`target "inner" is inside the loop "while_2"; go to the loop instead`}},
		"a reserved name":            {with("    - {step: end, say: hi}"), []string{`"end" is reserved and can't name a step`}},
		"a text that cannot be":      {with("    - {say: {text: \"{age.years}\"}}"), []string{`"age.years" can never exist: slot "age" is a integer, which has no parts`}},
		"an unknown format":          {with("    - {say: {text: \"{age:mony}\"}}"), []string{`unknown format "mony"; did you mean "money"?`}},
		"a sum of texts":             {with("    - {set: {x: \"{{ 'a' + name }}\"}}"), []string{`+ adds numbers only`}},
		"an order of booleans":       {with("    - {action: look}\n    - {branch: [{when: found > 3, then: end}]}"), []string{`a boolean has no order`}},
		"a constant of a wrong type": {with("    - {set: {age: old}}"), []string{`slot "age" can't be set to this value: it has to be a integer, not a text`}},
		"a clash of types":           {with("    - {set: {x: 1}}\n    - {set: {x: [a]}}"), []string{`slot "x" is a list here and a number elsewhere in the flow`}},
		"a confirm without words":    {with("    - {confirm: [age]}"), []string{`the confirm has no question; write "ask"`}},
		"a case without a target":    {with("    - {branch: [{when: age > 3}]}"), []string{`the case leads nowhere; write "then" and a target`}},
		"cases without any":          {with("    - {branch: age, cases: {}}"), []string{`"cases" needs at least one pattern`}},
		"a guard of nothing":         {"version: \"2.0\"\nflows: {a: {description: A., guard: session.tier == 'x' and nme == 1, inputs: [name], steps: [{set: {x: 1}}]}}", []string{`bad.yaml:2:37: error: flow "a": session value "tier" does not exist; declare it under session`, `slot "nme" does not exist; did you mean "name"?`}},
		"a guard of wrong types":     {"version: \"2.0\"\nsession: {known: {type: boolean}}\nflows: {a: {description: A., guard: session.known > 3, steps: [{set: {x: 1}}]}}", []string{`a boolean has no order`}},
		"an action's guard":          {"version: \"2.0\"\nactions: {look: {inputs: [\"n?\"], guard: n > 3 and m > 3 and session.m}}\nflows: {a: {description: A., steps: [{action: look}]}}", []string{`bad.yaml:2:51: error: slot "m" does not exist`, `session value "m" does not exist`}},
		"a date that is none":        {"version: \"2.0\"\nslots: {d: {type: date, minimum: 2024-13-45, ask: {text: D?}}}\nflows: {a: {description: A., steps: [{collect: d}]}}", []string{`bad.yaml:2:34: error: "minimum" can't be "2024-13-45", which is no date; write it as 2026-01-31`}},
		"a name that it has":         {"version: \"2.0\"\nflows: {a: {description: A., formerly: a, steps: [{step: s, formerly: s, set: {x: 1}}]}}", []string{`flow "a": the flow is called "a" now; remove the name from "formerly"`, `the step is called "s" now`}},
		"a name that another has":    {"version: \"2.0\"\nflows: {a: {description: A., formerly: b, steps: [{step: s, formerly: t, set: {x: 1}}, {step: t, set: {y: 1}}]}, b: {description: B., steps: [{set: {x: 1}}]}}", []string{`there is a flow "b", in which its conversations stay; remove the name from "formerly"`, `there is a step "t"`}},
		"a name that two had":        {"version: \"2.0\"\nflows: {a: {description: A., formerly: z, steps: [{step: s, formerly: u, set: {x: 1}}, {step: t, formerly: u, set: {y: 1}}]}, b: {description: B., formerly: z, steps: [{set: {x: 1}}]}}", []string{`flow "b": the flow "a" was called "z" as well; say it of one of them`, `the step "s" was called "u" as well`}},
		"no steps":                   {"version: \"2.0\"\nflows: {a: {description: A., steps: []}}", []string{`"steps" has to be a list with at least one step`}},
		"flows in a circle":          {"version: \"2.0\"\nflows: {a: {description: A., steps: [{call: b}]}, b: {description: B., steps: [{call: a}]}}", []string{`the flows a, b call one another without an end`}},
		"an unknown version":         {"version: \"3.0\"\nflows: {a: {description: A., steps: [{set: {x: 1}}]}}", []string{`unsupported version "3.0"; use "2.0"`}},
		"no version":                 {"flows: {a: {description: A., steps: [{set: {x: 1}}]}}", []string{`the version is missing`}},
		"zero as a limit":            {"version: \"2.0\"\nsettings: {stack: {max_depth: 0}}\nflows: {a: {description: A., steps: [{set: {x: 1}}]}}", []string{`"max_depth" has to be a whole number above zero`}},
		"an unknown language":        {"version: \"2.0\"\ntranslations: {fr: {hi: Salut.}}\nresponses: {hi: Hi.}\nflows: {a: {description: A., steps: [{say: hi}]}}", []string{`bad.yaml:2:16: error: language "fr" is not declared`}},
		"a translation of nothing":   {"version: \"2.0\"\nlanguages: {also: [fr]}\ntranslations: {fr: {hii: Salut.}}\nresponses: {hi: Hi.}\nflows: {a: {description: A., steps: [{say: hi}]}}", []string{`the translation "hii" translates no response; did you mean "hi"?`}},
		"words twice":                {"version: \"2.0\"\nlanguages: {also: [fr]}\ntranslations: {fr: {hi: Salut.}}\nresponses: {hi: {text: Hi., fr: Salut.}}\nflows: {a: {description: A., steps: [{say: hi}]}}", []string{`has words in "fr" of its own`}},
		"minimum above maximum":      {"version: \"2.0\"\nslots: {n: {type: number, minimum: 5, maximum: 3, ask: {text: N?}}}\nflows: {a: {description: A., steps: [{collect: n}]}}", []string{`the minimum 5 is above the maximum 3`}},
		"a default outside":          {"version: \"2.0\"\nslots: {n: {type: number, minimum: 5, default: 3, ask: {text: N?}}}\nflows: {a: {description: A., steps: [{collect: n}]}}", []string{`the default is outside the slot's own rules: it has to be at least 5`}},
		"extending itself":           {"version: \"2.0\"\nslots: {n: {extends: m, ask: {text: N?}}, m: {extends: n}}\nflows: {a: {description: A., steps: [{collect: n}]}}", []string{`bad.yaml:2:22: error: slot "n" extends itself`, `slot "m" extends itself`}},
		"plural without other":       {with("    - {say: {text: {count: age, one: x}}}"), []string{`plural forms need "other"`}},
		"a list as a language":       {with("    - say: hi\nlanguages: {default: [en]}"), []string{`a language has to be a BCP-47 tag such as en or de-AT; found a list`}},
		"a list as words":            {with("    - {say: {text: {count: age, other: [a]}}}"), []string{`this has to be a text; found a list`}},
		"a list as a label":          {with("    - {say: {text: Hi, buttons: [{label: {en: [a]}, value: 1}]}}"), []string{`this has to be a text; found a list`}},
		"a map as an option's label": {"version: \"2.0\"\nslots: {n: {options: [{value: a, label: {en: {a: b}}}], ask: {text: N?}}}\nflows: {a: {description: A., steps: [{collect: n}]}}", []string{`this has to be a text; found a map`}},
		"variations that are a text": {with("    - {say: {default: Hi., variations: Hello.}}"), []string{`"variations" has to be a list; found a value`}},
		"variations and more":        {with("    - {say: {default: Hi., variation: [Hello.]}}"), []string{`unknown key "variation"; did you mean "variations"?`}},
		"variations of nothing":      {with("    - {say: {variations: [Hello.]}}"), []string{`the response has variations and no "default"`}},
		"a word as a command":        {with("    - {say: {text: Hi, buttons: [{label: No, commands: [deny]}]}}"), []string{`a command has to be a map with a "type"`}},
		"a slot of a list, unnamed":  {"version: \"2.0\"\nslots: [{type: string}]\nflows: {a: {description: A., steps: [{set: {x: 1}}]}}", []string{`a slot of a list needs a "name"; better write a map from name to slot`}},
		"an alias of itself":         {"version: \"2.0\"\nflows: &f {a: *f}", []string{`the alias "f" leads to itself`}},
		"a list":                     {"- a", []string{`the file has to be a map with keys such as flows; found a list`}},
		"two documents":              {with("    - say: hi\n---\na: b\n"), []string{`the file has a second document`}},
		"tabs":                       {"version: \"2.0\"\nflows:\n\ta: b", []string{`bad.yaml:3:1: error: the YAML can't be read: found character`}},
		"nothing":                    {"", []string{`the version is missing`, `there is no flow`}},
		"not UTF-8":                  {"a: \xff", []string{`the file is not UTF-8`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := program.Compile(program.File{Name: "bad.yaml", Text: []byte(c.text)})
			var f program.Findings
			if !errors.As(err, &f) {
				t.Fatalf("no findings: %v", err)
			}
			for _, w := range c.want {
				if !strings.Contains(f.Error(), w) {
					t.Errorf("no finding %q in:\n%v", w, f)
				}
			}
			if n := len(f.Errors()); c.want != nil && n != len(c.want) {
				t.Errorf("%d errors, want %d:\n%v", n, len(c.want), f)
			}
		})
	}
}

func TestAFileThatCanNotBeReadIsAllThatIsSaid(t *testing.T) {
	_, err := program.Compile(
		program.File{Name: "a.yaml", Text: []byte("version: \"2.0\"\nslots: {n: [}")},
		program.File{Name: "b.yaml", Text: []byte("flows: {f: {description: F., steps: [{collect: n}]}}")},
	)
	var f program.Findings
	if !errors.As(err, &f) || len(f) != 1 || f[0].File != "a.yaml" || f[0].Line != 2 {
		t.Errorf("want one finding in line 2 of a.yaml, got %v", err)
	}
}

func TestANameDefinedInTwoFilesIsAnErrorThatNamesBothPlaces(t *testing.T) {
	_, err := program.Compile(
		program.File{Name: "a.yaml", Text: []byte("version: \"2.0\"\nresponses: {hi: Hi.}\nflows: {f: {description: F., steps: [{say: hi}]}}")},
		program.File{Name: "b.yaml", Text: []byte("responses:\n  hi: Hello.\nsettings: {stack: {max_depth: 2}}")},
	)
	if want := `b.yaml:2:3: error: the response "hi" is defined twice, first in a.yaml:2:13; keep one`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestAliasesThatExplodeAndFilesThatAreTooLargeAreRefusedAtOnce(t *testing.T) {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 20; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", i, i, i-1, i-1, i-1, i-1, i-1, i-1, i-1, i-1)
	}
	for name, text := range map[string]string{"aliases": b.String(), "size": strings.Repeat("#", 10<<20), "nesting": strings.Repeat("[", 100_000)} {
		_, err := program.Compile(program.File{Name: name, Text: []byte(text)})
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzCompile(f *testing.F) {
	f.Add([]byte(with("    - {say: {text: \"{age:money} {{ age + 1 if age > 3 else 0 }}\"}}")))
	f.Add([]byte(with("    - {while: age < 3, do: [{collect: age, force: true}]}")))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := program.Compile(program.File{Name: "f.yaml", Text: text})
		var findings program.Findings
		switch {
		case err == nil && len(p.Order) == 0:
			t.Error("a program without a flow")
		case err != nil && (!errors.As(err, &findings) || len(findings.Errors()) == 0):
			t.Errorf("an error without a finding: %v", err)
		}
		for _, x := range findings {
			if strings.Contains(x.String(), "\n") || x.Line < 1 || x.Column < 1 {
				t.Errorf("a finding without a place: %q", x)
			}
		}
	})
}
