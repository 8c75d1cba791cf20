package dialoguetest_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/superstep-dev/superstep/dialogue/dialoguetest"
	"github.com/superstep-dev/superstep/dialogue/program"

	"github.com/superstep-dev/superstep/internal/race"
)

// member returns the value of a key, nil if there is none.
func member(m *yaml.Node, key string) *yaml.Node {
	for i := 0; m != nil && m.Kind == yaml.MappingNode && i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return m.Content[i+1]
		}
	}
	return nil
}

// eachFlow edits the flows of an assistant.
func eachFlow(files []program.File, edit func(flow *yaml.Node)) ([]program.File, error) {
	out := slices.Clone(files)
	for i, f := range out {
		var root yaml.Node
		if err := yaml.Unmarshal(f.Text, &root); err != nil {
			return nil, err
		}
		flows := member(root.Content[0], "flows")
		for n := 1; flows != nil && n < len(flows.Content); n += 2 {
			edit(flows.Content[n])
		}
		text, err := yaml.Marshal(&root)
		if err != nil {
			return nil, err
		}
		out[i].Text = text
	}
	return out, nil
}

func put(flow *yaml.Node, text string) {
	var n yaml.Node
	if err := yaml.Unmarshal([]byte(text), &n); err != nil {
		panic(err)
	}
	flow.Content = append(flow.Content, n.Content[0].Content...)
}

// longer adds a step at the end of a flow, which nobody sees.
func longer(flow *yaml.Node) {
	for _, key := range []string{"steps", "process"} {
		if steps := member(flow, key); steps != nil {
			var list yaml.Node
			if err := yaml.Unmarshal([]byte("[{step: one_more, set: {longer: true}}]"), &list); err != nil {
				panic(err)
			}
			steps.Content = append(steps.Content, list.Content[0].Content...)
		}
	}
}

// otherNames gives the steps of a flow other names.
func otherNames(flow *yaml.Node) {
	names := map[string]bool{}
	var walk func(n *yaml.Node, visit func(key string, in, value *yaml.Node))
	walk = func(n *yaml.Node, visit func(key string, in, value *yaml.Node)) {
		for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
			visit(n.Content[i].Value, n, n.Content[i+1])
		}
		for _, c := range n.Content {
			walk(c, visit)
		}
	}
	walk(flow, func(key string, _, v *yaml.Node) {
		if key == "step" {
			names[v.Value] = true
		}
	})
	rename := func(v *yaml.Node) {
		if v.Kind == yaml.ScalarNode && names[v.Value] {
			v.Value += "_now"
		}
	}
	walk(flow, func(key string, in, v *yaml.Node) {
		switch key {
		case "step":
			if old := v.Value; !strings.HasSuffix(old, "_now") {
				rename(v)
				if formerly := member(in, "formerly"); formerly == nil {
					put(in, "{formerly: "+old+"}")
				}
			}
		case "next", "then", "else", "exit", "on_error", "on_yes", "on_no", "on_change", "on_limit", "on_invalid", "on_deadline", "on_cancel", "jump_to", "on_confirm", "on_deny", "exit_to":
			rename(v)
		case "cases":
			for i := 1; i < len(v.Content); i += 2 {
				rename(v.Content[i])
			}
		case "do":
			for _, x := range v.Content {
				rename(x)
			}
		}
	})
}

// TestAProgramThatChangesAtAnyInputOfAnyScenarioChangesNothingThatIsSeen: the row "versions"
// of what the dialogues must show: a change at every step, under each way to migrate that
// goes on where the conversation stands.
func TestAProgramThatChangesAtAnyInputOfAnyScenarioChangesNothingThatIsSeen(t *testing.T) {
	list := append(scenarios(t, "testdata/scenarios.yaml"), scenarios(t, "testdata/more.yaml")...)
	stride := 5 // every input is the first to see the change in one of so many runs
	if race.Enabled {
		stride = 15
	}
	if os.Getenv("DIALOGUE_VERSIONS") != "" {
		stride = 1
	}
	for _, way := range []struct {
		name, migrate string
		stored        bool
		edit          func(*yaml.Node)
	}{
		{"a longer flow, pinned", "pin", true, longer},
		{"a longer flow, pinned to what is gone", "pin", false, longer},
		{"a longer flow, by name", "alias", true, longer},
		{"other names, pinned", "pin", true, otherNames},
		{"other names, by name", "alias", false, otherNames},
	} {
		t.Run(way.name, func(t *testing.T) {
			changed := map[*program.Program]*program.Program{}
			change := func(p *program.Program, files []program.File) (*program.Program, error) {
				if q := changed[p]; q != nil {
					return q, nil
				}
				files, err := eachFlow(files, func(f *yaml.Node) {
					way.edit(f)
					if member(f, "migrate") == nil {
						put(f, "{migrate: "+way.migrate+"}")
					}
				})
				if err != nil {
					return nil, err
				}
				q, err := program.Compile(files...)
				if err != nil {
					return nil, err
				}
				if way.stored {
					q = q.With(p)
				}
				changed[p] = q
				return q, nil
			}
			r := runner(t)
			at, inputs := 0, 0
			r.Program = func(n int, p *program.Program, files []program.File) (*program.Program, error) {
				inputs = max(inputs, n+1)
				if n < at {
					return nil, nil
				}
				return change(p, files)
			}
			runs := 0
			for i, s := range list {
				if s.Check != nil || slices.ContainsFunc(s.Turns, func(t dialoguetest.Turn) bool { return member(&t.Restart, "program") != nil }) {
					continue // it changes by itself
				}
				inputs = 0
				for at = i % stride; at == i%stride || at < inputs; at += stride {
					runs++
					for _, f := range r.Run(s, list) {
						if !strings.Contains(f, `wait: want "confirm:`) { // it has another name
							t.Errorf("%s, changed at input %d: %s", s.ID, at, f)
						}
					}
				}
			}
			if runs < 300/stride {
				t.Errorf("only %d runs", runs)
			}
		})
	}
}

func TestAScenarioThatGoesOnWithAnOlderProgram(t *testing.T) {
	list, err := dialoguetest.Parse([]byte(`
- id: pinned
  program: &before
    version: "2.0"
    slots: {x: {ask: {text: "X?"}}, y: {ask: {text: "Y?"}}}
    flows: {a: {description: A., steps: [{collect: x}, {call: b}, {say: {text: "old {x}"}}]}, b: {description: B., internal: true, steps: [{collect: y}]}}
  turns:
  - {u: a, cmd: [start a], wait: x}
  - {u: "1", restart: {stored: true, program: {version: "2.0", slots: {x: {ask: {text: "X?"}}, y: {ask: {text: "New Y?"}}}, flows: {a: {description: A., steps: [{collect: x}, {say: {text: "new {x}"}}]}}}}, wait: y, has: ["Y?"], not: ["New"]}
  - {u: "2", has: ["old 1"], stack: []}
  - {u: a, cmd: [start a], wait: x}
  - {u: "3", has: ["new 3"], stack: []}
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range new(dialoguetest.Runner).Run(list[0], list) {
		t.Error(f)
	}
}
