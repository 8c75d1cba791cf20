package goschema

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// Kind is what a schema is for.
type Kind uint8

const (
	// State: what the JSON of a state may be. What has no words in JSON Schema may be
	// anything.
	State Kind = iota

	// Answer is State with the bounds of all kinds of numbers, and patterns: what it lets
	// pass, the type can nearly always be decoded from.
	Answer

	// Output is what a model is asked for: lists and maps are there rather than null, and
	// what has no words in JSON Schema is a mistake.
	Output

	// Arguments is Output for what [Schema.Read] reads: a field may have a tag
	// default:"10", and needs no value then.
	Arguments
)

// model reports whether a model is told the schema. What it gives is only read: methods by
// which a type writes itself don't count.
func (k Kind) model() bool { return k >= Output }

// Of infers the schema of what encoding/json reads and writes of a type. Descriptions come
// from jsonschema tags, limits from those that [Limit] knows. What is wrong is said for all
// fields at once.
//
// The inference of jsonschema-go would have to be corrected nearly everywhere: by methods that
// write JSON, bytes, maps that are null or have numbers as keys, bounds of numbers, embedded
// structs, and the tag options of encoding/json.
func Of(t reflect.Type, kind Kind) (*jsonschema.Schema, error) {
	in := inference{kind: kind, open: map[reflect.Type]bool{}}
	s := in.of(t, "")
	if in.errs != nil {
		return nil, errors.Join(in.errs...)
	}
	return s, nil
}

type inference struct {
	kind Kind
	open map[reflect.Type]bool // those inside of which it is
	errs []error
}

func (in *inference) fail(path, format string, args ...any) {
	err := fmt.Errorf(format, args...)
	if path != "" {
		err = fmt.Errorf("field %q: %w", path, err)
	}
	in.errs = append(in.errs, err)
}

// anything returns the schema that matches everything. Without a description it would be
// written as the schema true, which some providers of models don't take.
func (in *inference) anything() *jsonschema.Schema {
	if in.kind.model() {
		return &jsonschema.Schema{Description: "any JSON value"}
	}
	return new(jsonschema.Schema)
}

// wordless is anything for a type that JSON Schema has no words for.
func (in *inference) wordless(path, format string, args ...any) *jsonschema.Schema {
	if in.kind.model() {
		in.fail(path, format, args...)
	}
	return in.anything()
}

func (in *inference) of(t reflect.Type, path string) *jsonschema.Schema {
	s := new(jsonschema.Schema)
	switch {
	case t == timeType:
		if s.Type, s.Format = "string", "date-time"; in.kind == Answer {
			s.Pattern = timePattern
		}
		return s
	case t == levelType: // which writes and reads the text of its level
		s.Type = "string"
		return s
	case t == numberType:
		s.Type = "number"
		return s
	case t.Kind() == reflect.Pointer, t.Kind() == reflect.Interface:
	case ownJSON(t, in.kind.model()):
		return in.anything()
	case ownText(t, in.kind.model()):
		s.Type = "string"
		return s
	}
	if in.open[t] {
		fix := ""
		if in.kind == Arguments {
			fix = "; give the schema with the option Schema"
		}
		return in.wordless(path, "type %v holds itself%s", t, fix)
	}
	in.open[t] = true
	defer delete(in.open, t)
	switch k := t.Kind(); k {
	case reflect.Bool:
		s.Type = "boolean"
	case reflect.String:
		s.Type = "string"
	case reflect.Float64:
		s.Type = "number"
	case reflect.Float32:
		if s.Type = "number"; in.kind == Answer {
			s.Minimum, s.Maximum = jsonschema.Ptr(-math.MaxFloat32), jsonschema.Ptr(math.MaxFloat32)
		}
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return in.wordless(path, "JSON doesn't decode into an interface with methods: %v", t)
		}
		return in.anything()
	case reflect.Pointer:
		s = in.of(t.Elem(), path)
		OrNull(s)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 && !opaque(t.Elem(), in.kind.model()) {
			if s.Type, s.ContentEncoding = "string", "base64"; in.kind == Answer {
				s.Pattern = base64Pattern
			}
		} else {
			s.Type, s.Items = "array", in.inside(t.Elem(), path)
		}
		if !in.kind.model() {
			OrNull(s)
		}
	case reflect.Array:
		s.Type, s.MinItems, s.MaxItems = "array", jsonschema.Ptr(t.Len()), jsonschema.Ptr(t.Len())
		s.Items = in.inside(t.Elem(), path)
	case reflect.Map:
		s.Type = "object"
		switch k := t.Key(); {
		case k.Kind() == reflect.String || !in.kind.model() && k.Implements(textMarshalerType):
		case in.kind.model():
			return in.wordless(path, "a map's keys must be strings, not %v", k)
		case k.Kind() >= reflect.Uint && k.Kind() <= reflect.Uintptr:
			s.PropertyNames = &jsonschema.Schema{Pattern: uintPattern}
		case whole(k.Kind()):
			s.PropertyNames = &jsonschema.Schema{Pattern: intPattern}
		default:
			return in.anything()
		}
		s.AdditionalProperties = in.inside(t.Elem(), path)
	case reflect.Struct:
		in.members(s, t, path)
	default:
		if !whole(k) {
			return in.wordless(path, "JSON doesn't decode into a %v", t)
		}
		s.Type = "integer"
		in.bound(s, t)
	}
	return s
}

// inside is of for what is inside of something: a map may be null there.
func (in *inference) inside(t reflect.Type, path string) *jsonschema.Schema {
	s := in.of(t, path)
	if !in.kind.model() && t.Kind() == reflect.Map {
		OrNull(s)
	}
	return s
}

// OrNull makes a schema of one type match null as well.
func OrNull(s *jsonschema.Schema) {
	if s.Type != "" {
		s.Type, s.Types = "", []string{"null", s.Type}
	}
}

// whole reports whether a kind is one of whole numbers.
func whole(k reflect.Kind) bool { return k >= reflect.Int && k <= reflect.Uintptr }

// bound sets the bounds of a type of whole numbers, as near as a float64 comes to them.
func (in *inference) bound(s *jsonschema.Schema, t reflect.Type) {
	low, high := 0., math.Ldexp(1, t.Bits())
	if t.Kind() < reflect.Uint {
		low, high = -high/2, high/2
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int64, reflect.Uint, reflect.Uint64, reflect.Uintptr:
		if in.kind != Answer {
			if low == 0 {
				s.Minimum = &low
			}
			return
		}
	default:
		high--
	}
	s.Minimum, s.Maximum = &low, &high
}

// members makes a schema that of a struct.
func (in *inference) members(s *jsonschema.Schema, t reflect.Type, path string) {
	s.Type, s.AdditionalProperties = "object", Nothing()
	s.Properties = map[string]*jsonschema.Schema{} // some providers of models insist on it
	for _, f := range jsonFields(t) {
		name := f.tag.Name
		at := join(path, name)
		if f.twin != "" {
			if in.kind.model() {
				in.fail(at, "the fields %s and %s of %v have this name", f.Name, f.twin, t)
			}
			continue
		}
		p := in.inside(f.Type, at)
		of := f.Type
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if f.tag.Quoted && quotable(of, in.kind.model()) {
			if p.Type, p.Types, p.Minimum, p.Maximum = "string", nil, nil, nil; of != f.Type {
				OrNull(p)
			}
		}
		if err := Limit(p, f.Tag, at); err != nil {
			in.errs = append(in.errs, err)
		}
		if text, ok := f.Tag.Lookup("jsonschema"); ok && text == "" {
			in.fail(at, "its jsonschema tag is empty")
		} else if word, _, ok := strings.Cut(text, "="); ok && !strings.ContainsAny(word, " \t\n") {
			in.fail(at, "its jsonschema tag must not begin with 'WORD=': %q", text)
		} else if text != "" {
			p.Description = text
		}
		optional := f.tag.Omit || f.loose && !in.kind.model()
		if text, ok := f.Tag.Lookup("default"); ok && in.kind == Arguments {
			if err := setDefault(p, text); err != nil {
				in.fail(at, "tag default:%q: %w", text, err)
			}
			optional = true
		}
		s.Properties[name] = p
		s.PropertyOrder = append(s.PropertyOrder, name)
		if !optional {
			s.Required = append(s.Required, name)
		}
	}
}

// Nothing returns the schema that nothing matches.
func Nothing() *jsonschema.Schema { return &jsonschema.Schema{Not: &jsonschema.Schema{}} }

// isNothing sees the schema that nothing matches.
func isNothing(s *jsonschema.Schema) bool {
	return s != nil && s.Not != nil && reflect.ValueOf(*s.Not).IsZero()
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// What the strings of some types look like. [encoding/json] is stricter still.
const (
	timePattern   = `^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`
	base64Pattern = `^[A-Za-z0-9+/\r\n]*={0,2}[\r\n]*$`

	intPattern  = `^[+-]?\d+$`
	uintPattern = `^\d+$`
)
