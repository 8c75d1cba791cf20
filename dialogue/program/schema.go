package program

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// Schema returns the JSON Schema (draft 2020-12) of one file of an assistant, for editors
// and other tools. It has every key, every word of a closed set and the earlier
// spellings, these as deprecated. What a name stands for, and what takes more than one
// place to see, only [Compile] checks.
func Schema() []byte {
	root := rootObject.schema()
	root.Schema = "https://json-schema.org/draft/2020-12/schema"
	root.Title = "Assistant of Superstep"
	root.Defs = definitions()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(root); err != nil { // strings, numbers and lists always marshal
		return nil
	}
	return b.Bytes()
}

// schema is a JSON Schema, as far as the language needs it.
type schema struct {
	Schema               string             `json:"$schema,omitempty"`
	Title                string             `json:"title,omitempty"`
	Description          string             `json:"description,omitempty"`
	Deprecated           bool               `json:"deprecated,omitempty"`
	Ref                  string             `json:"$ref,omitempty"`
	Type                 oneType            `json:"type,omitempty"`
	Enum                 []any              `json:"enum,omitempty"`
	Pattern              string             `json:"pattern,omitempty"`
	MinLength            int                `json:"minLength,omitempty"`
	Minimum              int                `json:"minimum,omitempty"`
	ExclusiveMinimum     *int               `json:"exclusiveMinimum,omitempty"`
	MinItems             int                `json:"minItems,omitempty"`
	Items                *schema            `json:"items,omitempty"`
	MinProperties        int                `json:"minProperties,omitempty"`
	Properties           map[string]*schema `json:"properties,omitempty"`
	PropertyNames        *schema            `json:"propertyNames,omitempty"`
	AdditionalProperties any                `json:"additionalProperties,omitempty"` // *schema or false
	Required             []string           `json:"required,omitempty"`
	AnyOf                []*schema          `json:"anyOf,omitempty"`
	AllOf                []*schema          `json:"allOf,omitempty"`
	Not                  *schema            `json:"not,omitempty"`
	Defs                 map[string]*schema `json:"$defs,omitempty"`
}

// oneType is a type, or several.
type oneType []string

// MarshalJSON writes a single one as a text.
func (t oneType) MarshalJSON() ([]byte, error) {
	if len(t) == 1 {
		return json.Marshal(t[0])
	}
	return json.Marshal([]string(t))
}

// schema returns the schema of a map of the kind.
func (o *object) schema() *schema {
	s := &schema{Type: oneType{"object"}, Description: o.about, Properties: map[string]*schema{}, AdditionalProperties: false}
	for _, k := range o.keys {
		s.Properties[k.name] = k.schema()
		for _, old := range k.old {
			s.Properties[old] = deprecated(k.is.schema, "Old: `"+k.name+"`.")
		}
		spellings := k.spellings()
		for i, a := range spellings {
			for _, b := range spellings[:i] {
				s.apart(a, b)
			}
		}
	}
	if o.tagged != nil {
		s.PropertyNames = &schema{AnyOf: []*schema{{Pattern: "^[a-z]{2,3}(-[a-zA-Z0-9]{1,8})*$"}, {Enum: []any{}}}}
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			s.PropertyNames.AnyOf[1].Enum = append(s.PropertyNames.AnyOf[1].Enum, name)
		}
		s.AdditionalProperties = o.tagged.schema
	}
	for _, group := range o.needs {
		var names []string
		for _, name := range group {
			names = append(names, o.key(name).spellings()...)
		}
		s.need(names)
	}
	for _, pair := range o.apart {
		for _, a := range o.key(pair[0]).spellings() {
			s.apart(a, pair[1])
		}
	}
	return s
}

func (k *key) spellings() []string { return append([]string{k.name}, k.old...) }

// need asks for one of the keys.
func (s *schema) need(names []string) {
	if len(names) == 1 {
		s.Required = append(s.Required, names[0])
		return
	}
	one := &schema{}
	for _, name := range names {
		one.AnyOf = append(one.AnyOf, &schema{Required: []string{name}})
	}
	s.AllOf = append(s.AllOf, one)
}

// apart refuses two keys together.
func (s *schema) apart(a, b string) {
	s.AllOf = append(s.AllOf, &schema{Not: &schema{Required: []string{b, a}}})
}

// schema returns the schema of a key's value, with what it means.
func (k *key) schema() *schema {
	s := *k.is.schema
	s.Description = k.about
	if k.fallback != "" {
		s.Description += " Default: " + k.fallback + "."
	}
	return &s
}

func deprecated(s *schema, why string) *schema {
	d := *s
	d.Deprecated, d.Description = true, why
	return &d
}

// forms returns the schemas of the ways in which a step of the type is written: with its
// type as a key, and as {type: T, …}.
func (k *stepKind) forms() []*schema {
	plain := k.object.schema()
	plain.Required = append([]string{k.types[0]}, plain.Required...)

	old := k.object.schema()
	old.Description = ""
	words := &schema{}
	for _, t := range k.types {
		words.Enum = append(words.Enum, t)
	}
	old.Properties["type"] = deprecated(words, "Old: the type is a key.")
	main := k.keys[0].is
	if k.oldIs != nil {
		main = *k.oldIs
	}
	for _, name := range k.old {
		if own := k.key(name); own != nil && name != k.types[0] { // it means something else here
			for _, spelling := range own.old {
				delete(old.Properties, spelling)
			}
		}
		old.Properties[name] = deprecated(main.schema, "Old: `"+k.types[0]+"`.")
	}
	old.Required = append([]string{"type"}, old.Required...)
	old.need(append([]string{k.types[0]}, k.old...))
	return []*schema{plain, old}
}

// objects are the kinds of maps that have a definition.
func objects() []*object {
	list := []*object{languagesObject, settingsObject, stackObject, collectionObject, conversationObject, historyObject, runtimeObject, rephraseObject, modelsObject, modelObject, persistenceObject, patternsObject}
	for _, p := range patternObjects {
		if p.name != "patterns.several_starts" { // always a word
			list = append(list, p)
		}
	}
	return append(list, slotObject, namedSlotObject, lengthObject, optionObject, actionObject, retryObject, entryObject, wordsObject, buttonObject, variationsObject,
		flowObject, triggerObject, caseObject, generateObject, agentObject, waitObject, parallelObject)
}

func definitions() map[string]*schema {
	zero := 0
	text := oneType{"string", "number", "boolean"}
	defs := map[string]*schema{
		"duration":    {AnyOf: []*schema{ref("time"), {Enum: []any{"none"}}}},
		"time":        {AnyOf: []*schema{{Type: oneType{"number"}, ExclusiveMinimum: &zero}, {Type: oneType{"string"}, Pattern: duration.String()}}},
		"expression":  {Type: text},
		"slotName":    {Type: oneType{"string"}, Pattern: `^[a-zA-Z_][a-zA-Z0-9_]*(\.[a-zA-Z0-9_]+)*$`},
		"target":      {AnyOf: []*schema{{Enum: []any{"continue", "end", "cancel", "error", "handoff"}}, {Type: oneType{"string"}, MinLength: 1}}},
		"type":        {Enum: []any{}},
		"oneEntry":    {AnyOf: []*schema{{Type: text, MinLength: 1}, ref("entry")}},
		"entries":     {AnyOf: []*schema{{Type: text, MinLength: 1}, ref("entry"), ref("variations"), {Type: oneType{"array"}, MinItems: 1, Items: ref("oneEntry")}}},
		"said":        ref("entries"),
		"words":       {AnyOf: []*schema{{Type: text}, ref("pluralForms")}},
		"params":      {AnyOf: []*schema{{Type: oneType{"string", "boolean"}, Pattern: paramName}, {Type: oneType{"array"}, Items: &schema{Type: oneType{"string", "boolean"}, Pattern: paramName}}, {Type: oneType{"object"}, PropertyNames: &schema{Pattern: paramName}, AdditionalProperties: ref("type")}}},
		"args":        {AnyOf: []*schema{{Type: oneType{"array"}, Items: ref("slotName")}, {Type: oneType{"object"}}}},
		"slots":       {Type: oneType{"object"}, PropertyNames: &schema{Pattern: name.String()}, AdditionalProperties: &schema{AnyOf: []*schema{ref("slot"), {Type: oneType{"null"}}}}},
		"assignments": {Type: oneType{"object"}, MinProperties: 1, PropertyNames: &schema{Pattern: `^(session\.)?[a-zA-Z_][a-zA-Z0-9_]{0,63}$`}},
		"step":        {},
	}
	for _, t := range types {
		defs["type"].Enum = append(defs["type"].Enum, string(t))
	}
	for _, old := range keysOf(oldTypes) {
		defs["type"].Enum = append(defs["type"].Enum, old)
	}
	for _, o := range objects() {
		defs[o.name] = o.schema()
	}
	for _, form := range []int{0, 1} { // the new forms first: editors offer them first
		for _, k := range stepKinds {
			defs["step"].AnyOf = append(defs["step"].AnyOf, k.forms()[form])
		}
	}
	return defs
}

// paramName is a name of inputs and outputs.
const paramName = `^[a-zA-Z_][a-zA-Z0-9_]{0,63}\??$`
