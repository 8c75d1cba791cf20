package program

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/internal/yamlvalue"
)

// Reference returns the reference of the language as a page of Markdown.
func Reference() []byte {
	r := &reference{}
	r.line("# Dialogues: reference of the language")
	r.line("")
	r.line("Written by `superstep dialogue schema --markdown` out of what the parser reads; [dialogues.md](dialogues.md) is the tutorial. Unknown keys are errors. Old spellings are read, and mean the same; both at once are an error.")
	r.line("")
	r.objects("Assistant", rootObject, languagesObject)
	r.line("## What is written")
	r.line("")
	r.table([]string{"what", "how"}, [][]string{
		{"name", "letters, digits and `_`, no digit first, at most 64 characters; names of steps may also have `-`"},
		{"type", join(stringsOf(types)) + "; old: " + join(keysOf(oldTypes))},
		{"duration", "`500ms`, `20s`, `10m`, `2h`, `7d`, or a number of seconds; `none` for no limit"},
		{"value", "a YAML value with its type; a text with `{path}` or `{{ EXPR }}` is a text; a text that is exactly one `{{ EXPR }}` has the type of the expression; `none` empties a slot"},
		{"text", "`{path}` puts in a value, `{path:FORMAT}` a formatted one with FORMAT one of " + join(formats) + ", `{{ EXPR }}` an expression"},
		{"true and false", "`yes`, `no`, `on` and `off` are texts"},
	})
	r.line("Reserved, and no names of slots: %s. No names of steps: %s.", join(reservedNames), join(reservedSteps))
	r.line("")
	r.objects("Settings", settingsObject, stackObject, collectionObject, conversationObject, historyObject, runtimeObject, rephraseObject, modelsObject, modelObject, persistenceObject)
	r.patterns()
	r.objects("Slots", slotObject, lengthObject, optionObject)
	r.objects("Actions", actionObject, retryObject)
	r.line("## Responses")
	r.line("")
	r.line("A response is a text, a map or a list of these.")
	r.line("")
	r.tables(entryObject, wordsObject, buttonObject)
	r.objects("Flows", flowObject, triggerObject)
	r.line("## Steps")
	r.line("")
	r.line("A step has one key that says its type. Every step may also have:")
	r.line("")
	r.keys(stepKeys)
	for _, k := range stepKinds {
		o := k.object
		o.keys = slices.DeleteFunc(slices.Clone(o.keys), func(k key) bool {
			return slices.ContainsFunc(stepKeys, func(s key) bool { return s.name == k.name })
		})
		r.tables(&o)
		old := []string{"`type: " + strings.Join(k.types, "` or `type: ") + "`"}
		if k.old != nil {
			old = append(old, "with "+join(k.old)+" for what it is about")
		}
		r.line("Old: %s.", strings.Join(old, ", "))
		r.line("")
	}
	r.tables(caseObject, generateObject, agentObject, waitObject, parallelObject)
	r.line("## Targets")
	r.line("")
	r.line("The name of a step, or `continue` (the next step in the list), `end` (completed), `cancel` (cancelled), `error` (ended as error) or `handoff` (to a person). None of them says anything. A target in a loop is a step of the same loop or of what is around it. Old: %s, and `jump_to_STEP` for `STEP`.", join(oldTargets))
	r.line("")
	r.line("## Expressions")
	r.line("")
	r.line("Values are none, booleans, numbers, texts, lists and objects. From weak to strong: `A if C else B`; `or`; `and`; `not`; `==` `!=` `<` `<=` `>` `>=` `in` `not in`; `+` `-`; `*` `/` `%%`; `-`. Texts stand in `'…'` or `\"…\"`, lists in `[…]`. Names are slots of the flow and `session.NAME`, `turn.text|language|channel|number|time`, `flow.name|id|description`, `error.type|message|action`, `repair.command|slot|value|topic`.")
	r.line("")
	r.line("None, false, 0, `''`, `[]` and `{}` are false. A number and a text that is one compare as numbers. An order with none is unknown: `not` leaves it so, `and` and `or` go on without it, and at the end it is false. Functions: %s. Those without arguments are fixed for a turn.", join(expr.Functions()))
	r.line("")
	r.library()
	return []byte(strings.TrimRight(r.b.String(), "\n") + "\n")
}

type reference struct{ b strings.Builder }

func (r *reference) line(format string, args ...any) {
	fmt.Fprintf(&r.b, format+"\n", args...)
}

func join(words []string) string { return "`" + strings.Join(words, "` `") + "`" }

func (r *reference) objects(title string, list ...*object) {
	r.line("## %s", title)
	r.line("")
	r.tables(list...)
}

func (r *reference) tables(list ...*object) {
	for _, o := range list {
		r.line("### %s", o.name)
		r.line("")
		if o.about != "" {
			r.line("%s", o.about)
			r.line("")
		}
		r.keys(o.keys)
		if o.tagged != nil && len(o.keys) > 0 {
			r.line("The other keys are tags of languages, with the text in them.")
			r.line("")
		}
	}
}

func (r *reference) keys(keys []key) {
	var rows [][]string
	for _, k := range keys {
		name := "`" + k.name + "`"
		if len(k.old) > 0 {
			name += " (old: " + join(k.old) + ")"
		}
		fallback := k.fallback
		if fallback != "" && !strings.Contains(fallback, " ") {
			fallback = "`" + fallback + "`"
		}
		rows = append(rows, []string{name, k.is.words, fallback, k.about})
	}
	r.table([]string{"key", "what", "default", "meaning"}, rows)
}

func (r *reference) table(head []string, rows [][]string) {
	r.line("| %s |", strings.Join(head, " | "))
	r.line("|%s", strings.Repeat("---|", len(head)))
	for _, row := range rows {
		for i, cell := range row {
			row[i] = strings.ReplaceAll(cell, "|", "\\|")
		}
		r.line("| %s |", strings.Join(row, " | "))
	}
	r.line("")
}

func (r *reference) patterns() {
	r.line("## Patterns")
	r.line("")
	r.line("%s", patternsObject.about)
	r.line("")
	for _, p := range patternObjects {
		k := patternsObject.key(strings.TrimPrefix(p.name, "patterns."))
		r.line("### %s", p.name)
		r.line("")
		about := k.about
		if k.fallback != "" {
			about += " One of " + k.is.words + "; default `" + k.fallback + "`."
		}
		if len(k.old) > 0 {
			about += " Old: " + join(k.old) + "."
		}
		r.line("%s", about)
		r.line("")
		if k.name != "several_starts" {
			r.keys(p.keys)
		}
	}
}

// library lists what is said by what is built in.
func (r *reference) library() {
	r.line("## Built-in responses")
	r.line("")
	r.line("A response of yours with the name replaces it. They are built in in English and German.")
	r.line("")
	var doc yaml.Node
	if err := yaml.Unmarshal(libraryText, &doc); err != nil { // it is compiled into every program
		return
	}
	said, _ := yamlvalue.Of(doc.Content[0]).Get("responses")
	words := map[string]string{}
	for _, name := range said.Keys() {
		v, _ := said.Get(name)
		words[name] = v.String()
	}
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(words)) {
		rows = append(rows, []string{"`" + name + "`", "`" + words[name] + "`"})
	}
	r.table([]string{"name", "words"}, rows)
}
