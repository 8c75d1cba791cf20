package program

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"go.yaml.in/yaml/v4"

	"github.com/superstep-dev/superstep/dialogue/internal/yamlvalue"

	"github.com/superstep-dev/superstep/internal/race"
)

// validator returns the schema as an editor uses it.
func validator(t testing.TB) *jsonschema.Resolved {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal(Schema(), &s); err != nil {
		t.Fatal(err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// valid says what the schema has against a document.
func valid(t testing.TB, r *jsonschema.Resolved, n *yaml.Node) error {
	t.Helper()
	text, err := json.Marshal(yamlvalue.Of(n))
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return r.Validate(v)
}

func document(t testing.TB, text string) *yaml.Node {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if len(doc.Content) == 0 { // comments alone
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
	}
	return doc.Content[0]
}

func TestTheSchemaTakesEveryAssistantOfTheRepository(t *testing.T) {
	r := validator(t)
	documents := map[string]*yaml.Node{"library.yaml": document(t, string(libraryText))}
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	files, err := filepath.Glob("../../examples/banking/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("the bank has %d files: %v", len(files), err)
	}
	for _, f := range files {
		documents[f] = document(t, read(f))
	}
	scenarios, err := filepath.Glob("../dialoguetest/testdata/*.yaml")
	if err != nil || len(scenarios) < 2 {
		t.Fatalf("%d files of scenarios: %v", len(scenarios), err)
	}
	for _, f := range scenarios {
		for i, s := range document(t, read(f)).Content {
			for k := 0; k < len(s.Content); k += 2 {
				switch key, v := s.Content[k].Value, s.Content[k+1]; key {
				case "program", "config":
					documents[fmt.Sprintf("%s %d %s", f, i, key)] = v
				}
			}
		}
	}
	pages, err := filepath.Glob("../../docs/dialogue*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages: %v", len(pages), err)
	}
	for _, f := range pages {
		for i, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(read(f), -1) {
			if n := document(t, block[1]); n.Kind == yaml.MappingNode {
				documents[fmt.Sprintf("%s %d", f, i)] = n
			}
		}
	}
	for name, n := range documents {
		if err := valid(t, r, n); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// places has, for each kind of maps, a document with one of them at %s.
func places() map[string]string {
	flow := func(steps string) string {
		return `{version: "2.0", slots: {n: {ask: {text: N}}}, actions: {n: {inputs: []}}, responses: {n: N}, flows: {other: {description: O, inputs: ["n?"], outputs: [n], steps: [{collect: n}]}, n: {description: F, steps: [` + steps + `, {step: x, set: {n: 1}}]}}}`
	}
	with := func(key string) string {
		return `{version: "2.0", ` + key + `, flows: {n: {description: F, steps: [{set: {n: 1}}]}}}`
	}
	p := map[string]string{
		"languages": with("languages: %s"), "settings": with("settings: %s"), "patterns": with("patterns: %s"), "model": with("settings: {models: {nlu: %s}}"),
		"slot": with("slots: {n: %s}"), "namedSlot": with("slots: [%s]"), "length": with("slots: {n: {length: %s}}"), "option": with("slots: {n: {options: [%s]}}"),
		"action": with("actions: {n: %s}"), "retry": with("actions: {n: {retry: %s}}"), "entry": with("responses: {n: %s}"), "variations": with("responses: {n: %s}"),
		"pluralForms": with("responses: {n: {text: %s}}"), "button": with("responses: {n: {text: N, buttons: [%s]}}"),
		"flow":    `{version: "2.0", flows: {n: %s}}`,
		"trigger": `{version: "2.0", flows: {n: {description: F, trigger: %s, steps: [{set: {n: 1}}]}}}`,
		"case":    flow("{branch: [%s]}"), "generate": flow("{generate: %s}"), "agent": flow("{agent: %s}"), "wait": flow("{wait: %s}"), "parallel": flow("{parallel: [%s]}"),
	}
	for _, o := range objects() {
		if name, ok := strings.CutPrefix(o.name, "settings."); ok {
			p[o.name] = with("settings: {" + name + ": %s}")
		}
		if name, ok := strings.CutPrefix(o.name, "patterns."); ok {
			p[o.name] = with("patterns: {" + name + ": %s}")
		}
	}
	for _, k := range stepKinds {
		p[k.name] = flow("%s")
	}
	return p
}

// sample returns a value that a schema takes, as YAML.
func sample(s *schema, defs map[string]*schema) string {
	switch {
	case s.Ref != "":
		return sample(defs[strings.TrimPrefix(s.Ref, "#/$defs/")], defs)
	case len(s.Enum) > 0:
		text, _ := json.Marshal(s.Enum[0])
		return string(text)
	case len(s.AnyOf) > 0 && len(s.Type) == 0:
		return sample(s.AnyOf[0], defs)
	case len(s.Type) == 0:
		return "1"
	}
	switch s.Type[0] {
	case "integer", "number":
		return "1"
	case "boolean":
		return "true"
	case "array":
		return "[" + sample(s.Items, defs) + "]"
	case "object":
		var parts []string
		for _, name := range s.Required {
			value := "n"
			if p := s.Properties[name]; p != nil {
				value = sample(p, defs)
			}
			parts = append(parts, name+": "+value)
		}
		for _, one := range s.AllOf {
			if len(one.AnyOf) > 0 {
				name := one.AnyOf[0].Required[0]
				parts = append(parts, name+": "+sample(s.Properties[name], defs))
			}
		}
		if inner, ok := s.AdditionalProperties.(*schema); ok && len(parts) == 0 {
			parts = append(parts, "n: "+sample(inner, defs))
		} else if s.MinProperties > 0 {
			parts = append(parts, "n: 1")
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return "n"
}

// form is one way to write a map: its schema, and where it stands.
type form struct {
	what, place string
	schema      *schema
}

func forms(t *testing.T) []form {
	at := places()
	list := []form{{"assistant", "%s", rootObject.schema()}}
	for _, o := range objects() {
		if at[o.name] == "" {
			t.Fatalf("no document has a %s", o.name)
		}
		list = append(list, form{o.name, at[o.name], o.schema()})
	}
	for _, k := range stepKinds {
		for i, s := range k.forms() {
			list = append(list, form{fmt.Sprintf("%s, form %d", k.name, i+1), at[k.name], s})
		}
	}
	return list
}

// with returns the map with what the schema requires and one more key.
func (f form) with(key, value string, defs map[string]*schema) string {
	members := map[string]string{}
	need := slices.Clone(f.schema.Required)
	for _, one := range f.schema.AllOf {
		var names []string
		for _, x := range one.AnyOf {
			names = append(names, x.Required[0])
		}
		if len(names) > 0 && !slices.Contains(names, key) {
			need = append(need, names[0])
		}
	}
	for _, name := range need {
		if !f.apart(name, key) {
			members[name] = sample(f.schema.Properties[name], defs)
		}
	}
	members[key] = value
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(members)) {
		parts = append(parts, fmt.Sprintf("%q: %s", k, members[k]))
	}
	return fmt.Sprintf(f.place, "{"+strings.Join(parts, ", ")+"}")
}

func (f form) apart(a, b string) bool {
	return slices.ContainsFunc(f.schema.AllOf, func(s *schema) bool {
		return s.Not != nil && a != b && slices.Contains(s.Not.Required, a) && slices.Contains(s.Not.Required, b)
	})
}

func findingsOf(text string) Findings {
	_, err := Compile(File{Name: "f.yaml", Text: []byte(text)})
	var f Findings
	errors.As(err, &f)
	return f.Errors()
}

func TestTheParserKnowsEveryKeyOfTheSchema(t *testing.T) {
	defs, r := definitions(), validator(t)
	for _, f := range forms(t) {
		for _, key := range slices.Sorted(maps.Keys(f.schema.Properties)) {
			text := f.with(key, sample(f.schema.Properties[key], defs), defs)
			if err := valid(t, r, document(t, text)); err != nil {
				t.Errorf("%s: the schema refuses its own %q: %v\n%s", f.what, key, err, text)
			}
			for _, x := range findingsOf(text) {
				if strings.Contains(x.Message, "unknown key") {
					t.Errorf("%s: %v\n%s", f.what, x, text)
				}
			}
		}
	}
}

// The parser reads no key that the vocabulary doesn't have, so the other direction needs
// keys that nobody has.
func TestBothRefuseAKeyThatNobodyHas(t *testing.T) {
	defs, r := definitions(), validator(t)
	for _, f := range forms(t) {
		text := f.with("nobody_has_it", "1", defs)
		if valid(t, r, document(t, text)) == nil {
			t.Errorf("%s: the schema takes it\n%s", f.what, text)
		}
		if !strings.Contains(findingsOf(text).Error(), `unknown key "nobody_has_it"`) {
			t.Errorf("%s: the parser takes it: %v\n%s", f.what, findingsOf(text), text)
		}
	}
}

func everyStepHas(name string) bool {
	return slices.ContainsFunc(stepKeys, func(k key) bool { return slices.Contains(k.spellings(), name) })
}

func TestWhatTheParserTakesTheSchemaTakes(t *testing.T) {
	defs, r := definitions(), validator(t)
	values := []string{"n", "3", "true", "[n]", "[]", "{n: n}", "10m", "{text: n}", "none"}
	taken, refused := 0, 0
	var f, last form
	for _, next := range forms(t) {
		last, f = f, next
		for _, key := range slices.Sorted(maps.Keys(f.schema.Properties)) {
			again := strings.HasSuffix(f.what, "form 2") && key != "type" && last.schema.Properties[key] != nil
			if again || everyStepHas(key) && strings.Contains(f.what, " step, ") && f.what != "say step, form 1" {
				continue // the same in both forms, or for every type of steps
			}
			for k, v := range values {
				if race.Enabled && k%5 != len(key)%5 { // it takes many times as long
					continue
				}
				text := f.with(key, v, defs)
				errs := findingsOf(text)
				err := valid(t, r, document(t, text))
				switch {
				case len(errs) == 0 && err != nil:
					t.Errorf("%s: the parser takes %s: %s, the schema doesn't: %v\n%s", f.what, key, v, err, text)
				case len(errs) == 0:
					taken++
				case err == nil && slices.ContainsFunc(errs, func(x Finding) bool {
					return strings.Contains(x.Message, fmt.Sprintf("%q has to be", key)) && !strings.Contains(x.Message, "the slot is a") // which the schema can't know
				}):
					t.Errorf("%s: the schema takes %s: %s, the parser doesn't: %v\n%s", f.what, key, v, errs, text)
				default:
					refused++
				}
			}
		}
	}
	t.Logf("%d taken, %d refused", taken, refused)
	if taken < 150 && !race.Enabled || taken < 40 {
		t.Errorf("only %d documents were taken: the samples prove nothing", taken)
	}
}

func TestTheSchemaRefusesWhatIsWrongByItsStructure(t *testing.T) {
	r := validator(t)
	step := func(s string) string { return "flows: {a: {description: A., steps: [" + s + "]}}" }
	for name, text := range map[string]string{
		"an unknown key":             "flowss: {}",
		"an unknown step":            step("{sya: hi}"),
		"an unknown key of a step":   step("{say: hi, rephrased: true}"),
		"two types":                  step("{say: hi, collect: name}"),
		"an unknown old type":        step("{type: sya, message: hi}"),
		"a step about nothing":       step("{type: say}"),
		"an empty loop":              step("{while: age > 3, do: []}"),
		"a confirm without words":    step("{confirm: [age]}"),
		"a case without a target":    step("{branch: [{when: age > 3}]}"),
		"else with a condition":      step("{branch: [{else: end, when: age > 3}]}"),
		"cases without any":          step("{branch: age, cases: {}}"),
		"a set of nothing":           step("{set: {}}"),
		"both spellings":             step("{say: hi, next: end, jump_to: end}"),
		"no steps":                   step(""),
		"no description":             "flows: {a: {steps: [{set: {x: 1}}]}}",
		"an unknown version":         `version: "3.0"`,
		"zero as a limit":            "settings: {stack: {max_depth: 0}}",
		"a word that is none of two": "settings: {stack: {on_limit: cancel}}",
		"plural without other":       "responses: {a: {text: {count: age, one: x}}}",
		"an unknown format":          "slots: {a: {format: ibann}}",
		"a name with a blank":        "slots: {a b: {type: string}}",
		"a list":                     "[a]",
	} {
		if valid(t, r, document(t, text)) == nil {
			t.Errorf("%s: the schema takes it", name)
		}
		if len(findingsOf(text)) == 0 {
			t.Errorf("%s: the parser takes it", name)
		}
	}
}

func TestTheDefaultsThatAreToldAreThoseThatHold(t *testing.T) {
	compiled := func(text string) string {
		p, err := Compile(File{Name: "f.yaml", Text: []byte("version: \"2.0\"\nflows: {f: {description: F, steps: [{set: {x: 1}}]}}\n" + text)})
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		out, err := json.Marshal([]any{p.Settings, p.Patterns, p.Languages})
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	plain, tried := compiled(""), 0
	for _, o := range objects() {
		section, group, ok := strings.Cut(o.name, ".")
		if !ok {
			continue
		}
		for _, k := range o.keys {
			if k.fallback == "" {
				continue
			}
			tried++
			if got := compiled(fmt.Sprintf("%s: {%s: {%s: %s}}", section, group, k.name, k.fallback)); got != plain && o != persistenceObject {
				t.Errorf("%s.%s: %s is told as its default; with it\n%s, without\n%s", o.name, k.name, k.fallback, got, plain)
			}
		}
	}
	if tried < 20 {
		t.Errorf("only %d defaults were tried", tried)
	}
}
