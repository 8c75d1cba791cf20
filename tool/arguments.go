package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/plainjson"
)

// arguments checks the arguments of calls.
type arguments struct {
	schema   *jsonschema.Schema
	resolved *jsonschema.Resolved
}

// read checks args and decodes them into to. Its errors are for a model to read.
//
// What was checked is what is decoded: args are parsed once, so that a key that
// stands there twice can't show one value to the schema and another to Go. Numbers
// are decoded as they were written.
func (a *arguments) read(args json.RawMessage, to any) error {
	object, err := parse(args)
	if err != nil {
		return err
	}
	p := &problems{root: a.schema}
	p.complete(a.schema, object, "")
	if err := p.err(); err != nil {
		return err
	}
	checked := native(object)
	if err := a.resolved.Validate(checked); err != nil {
		p.explain(a.schema, checked, "")
		if e := p.err(); e != nil {
			return e
		}
		return err
	}
	data, err := json.Marshal(object)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, to); err != nil {
		var te *json.UnmarshalTypeError
		if errors.As(err, &te) && te.Field != "" {
			return fmt.Errorf("%s: %s doesn't fit a Go %v", fieldPath(a.schema, te.Field), te.Value, te.Type)
		}
		return err
	}
	return nil
}

// fieldPath leaves out of a path what isn't a field in JSON: embedded structs.
func fieldPath(s *jsonschema.Schema, path string) string {
	out := ""
	for _, name := range strings.Split(path, ".") {
		p := property(s, name)
		if p == nil || s.Properties[name] == nil && isFalse(p) {
			continue
		}
		out = join(out, name)
		for s = p; s.Items != nil; {
			s = s.Items
		}
	}
	return out
}

// isFalse sees the schema that nothing matches.
func isFalse(s *jsonschema.Schema) bool {
	return s.Not != nil && reflect.ValueOf(*s.Not).IsZero()
}

// parse reads a JSON object. Nothing and null are an empty one.
func parse(args json.RawMessage) (map[string]any, error) {
	if len(bytes.TrimSpace(args)) == 0 {
		return map[string]any{}, nil
	}
	dec := json.NewDecoder(bytes.NewReader(args))
	dec.UseNumber()
	var v any
	err := dec.Decode(&v)
	if err == nil {
		if _, err = dec.Token(); err == io.EOF {
			err = nil
		} else if err == nil {
			err = errors.New("there is more after the end of the object")
		}
	}
	if err != nil {
		return nil, syntax(args, err)
	}
	switch v := v.(type) {
	case nil:
		return map[string]any{}, nil
	case map[string]any:
		return v, nil
	}
	return nil, fmt.Errorf("they must be a JSON object, not %s", given(v))
}

// syntax says where JSON is broken.
func syntax(args json.RawMessage, err error) error {
	var se *json.SyntaxError
	if errors.As(err, &se) && se.Offset > 0 {
		at := min(int(se.Offset), len(args))
		before := strings.ToValidUTF8(string(args[max(0, at-20):at]), "")
		return fmt.Errorf("they aren't valid JSON: %w, after %q", err, before)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("they aren't valid JSON: %w: something is cut off or not closed", err)
	}
	return fmt.Errorf("they aren't valid JSON: %w", err)
}

// maxProblems bounds what a model is told at once.
const maxProblems = 10

// problems collects what is wrong with arguments.
type problems struct {
	root *jsonschema.Schema
	list []string
	more int
}

func (p *problems) add(path, format string, args ...any) {
	if len(p.list) == maxProblems {
		p.more++
		return
	}
	s := fmt.Sprintf(format, args...)
	if path != "" {
		s = path + ": " + s
	}
	p.list = append(p.list, s)
}

func (p *problems) err() error {
	if len(p.list) == 0 {
		return nil
	}
	s := strings.Join(p.list, "; ")
	if p.more > 0 {
		s += fmt.Sprintf("; and %d more", p.more)
	}
	return errors.New(s)
}

// follow returns the schema that a reference into the schema itself leads to.
func (p *problems) follow(s *jsonschema.Schema) *jsonschema.Schema {
	for range 10 {
		if s == nil || s.Ref == "" {
			return s
		}
		switch {
		case s.Ref == "#":
			s = p.root
		case strings.HasPrefix(s.Ref, "#/$defs/"):
			s = p.root.Defs[strings.TrimPrefix(s.Ref, "#/$defs/")]
		case strings.HasPrefix(s.Ref, "#/definitions/"):
			s = p.root.Definitions[strings.TrimPrefix(s.Ref, "#/definitions/")]
		default:
			return nil
		}
	}
	return nil
}

// complete puts in defaults, takes null for an optional field as its absence,
// which is how models often leave a field out, and writes 3.0 as 3, which is an
// integer. A name that only differs in case from that of a field is refused:
// encoding/json would take it for the field, past what the schema says.
func (p *problems) complete(s *jsonschema.Schema, v any, path string) any {
	s = p.follow(s)
	switch v := v.(type) {
	case json.Number:
		switch n, ok := numberOf(v); {
		case !ok:
			p.add(path, "number %s is out of range", abbreviate(v.String()))
		case strings.ContainsAny(v.String(), ".eE"):
			if i, ok := n.(int64); ok {
				return json.Number(strconv.FormatInt(i, 10))
			}
		}
		return v
	case []any:
		var items *jsonschema.Schema
		if s != nil {
			items = s.Items
		}
		for i := range v {
			v[i] = p.complete(items, v[i], at(path, i))
		}
	case map[string]any:
		for _, name := range sorted(v) {
			value := v[name]
			if value == nil && omissible(s, name) && !takesNull(p.follow(s.Properties[name])) {
				delete(v, name)
				continue
			}
			if other := inAnotherCase(s, name); other != "" {
				p.add(join(path, name), "unknown field; did you mean %q?", other)
				continue
			}
			v[name] = p.complete(property(s, name), value, join(path, name))
		}
		if s == nil {
			break
		}
		for name, property := range s.Properties {
			if _, ok := v[name]; ok || property.Default == nil || !omissible(s, name) {
				continue
			}
			dec := json.NewDecoder(bytes.NewReader(property.Default))
			dec.UseNumber()
			var value any
			if err := dec.Decode(&value); err != nil {
				p.add(join(path, name), "its default isn't JSON: %v", err)
				continue
			}
			v[name] = p.complete(nil, value, join(path, name)) // numbers alone: a default is whole
		}
	}
	return v
}

// inAnotherCase returns the field that encoding/json would take a name for that
// isn't one's.
func inAnotherCase(s *jsonschema.Schema, name string) string {
	if s == nil || s.Properties[name] != nil {
		return ""
	}
	for _, field := range names(s) {
		if strings.EqualFold(field, name) {
			return field
		}
	}
	return ""
}

// native returns a copy in which json.Numbers are what the schema can check: an
// int64, a uint64 or a float64.
func native(v any) any {
	switch v := v.(type) {
	case json.Number:
		n, _ := numberOf(v) // that it is one was checked
		return n
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = native(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, value := range v {
			out[name] = native(value)
		}
		return out
	}
	return v
}

// omissible reports whether a schema describes a field and doesn't require it.
func omissible(s *jsonschema.Schema, name string) bool {
	return s != nil && s.Properties[name] != nil && !slices.Contains(s.Required, name)
}

func property(s *jsonschema.Schema, name string) *jsonschema.Schema {
	if s == nil {
		return nil
	}
	if p := s.Properties[name]; p != nil {
		return p
	}
	return s.AdditionalProperties
}

// takesNull reports whether null may match a schema.
func takesNull(s *jsonschema.Schema) bool {
	return s == nil || s.Type == "null" || s.Type == "" && (s.Types == nil || slices.Contains(s.Types, "null"))
}

// numberOf returns an int64, a uint64 or a float64.
func numberOf(n json.Number) (any, bool) {
	if i, err := strconv.ParseInt(n.String(), 10, 64); err == nil {
		return i, true
	}
	if u, err := strconv.ParseUint(n.String(), 10, 64); err == nil {
		return u, true
	}
	f, err := strconv.ParseFloat(n.String(), 64)
	if err != nil {
		return nil, false
	}
	if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return int64(f), true
	}
	return f, true
}

// explain says what about v doesn't match s, as far as a sentence can.
func (p *problems) explain(s *jsonschema.Schema, v any, path string) {
	if s = p.follow(s); s == nil {
		return
	}
	if !ofType(s, v) {
		p.add(path, "must be %s, not %s", typeNames(s), given(v))
		return
	}
	if s.Enum != nil && !slices.ContainsFunc(s.Enum, func(e any) bool { return jsonschema.Equal(e, v) }) {
		p.add(path, "must be %s, not %s", oneOf(s.Enum), given(v))
		return
	}
	if s.Const != nil && !jsonschema.Equal(*s.Const, v) {
		p.add(path, "must be %s, not %s", given(*s.Const), given(v))
	}
	switch v := v.(type) {
	case map[string]any:
		p.object(s, v, path)
	case []any:
		if s.MinItems != nil && len(v) < *s.MinItems {
			p.add(path, "must have at least %d items, not %d", *s.MinItems, len(v))
		}
		if s.MaxItems != nil && len(v) > *s.MaxItems {
			p.add(path, "must have at most %d items, not %d", *s.MaxItems, len(v))
		}
		for i, item := range v {
			p.explain(s.Items, item, at(path, i))
		}
	case string:
		if n := utf8.RuneCountInString(v); s.MinLength != nil && n < *s.MinLength {
			p.add(path, "must have at least %d characters, not %d", *s.MinLength, n)
		} else if s.MaxLength != nil && n > *s.MaxLength {
			p.add(path, "must have at most %d characters, not %d", *s.MaxLength, n)
		}
		if s.Pattern != "" {
			if re, err := regexp.Compile(s.Pattern); err == nil && !re.MatchString(v) {
				p.add(path, "must match the regular expression %s, not be %s", s.Pattern, given(v))
			}
		}
	case int64, uint64, float64:
		p.number(s, v, path)
	}
}

func (p *problems) object(s *jsonschema.Schema, v map[string]any, path string) {
	for _, name := range names(s) {
		if value, ok := v[name]; ok {
			p.explain(s.Properties[name], value, join(path, name))
		}
	}
	for _, name := range s.Required {
		if _, ok := v[name]; ok {
			continue
		}
		what := ""
		if f := p.follow(s.Properties[name]); f != nil {
			what = ", " + typeNames(f)
			if f.Enum != nil {
				what = ", " + oneOf(f.Enum)
			}
		}
		p.add(join(path, name), "is missing%s", what)
	}
	extra := s.AdditionalProperties
	if extra == nil {
		return
	}
	for _, name := range sorted(v) {
		switch {
		case s.Properties[name] != nil || s.PatternProperties != nil:
		case isFalse(extra):
			p.add(join(path, name), "unknown field%s", didYouMean(name, names(s)))
		default:
			p.explain(extra, v[name], join(path, name))
		}
	}
}

func (p *problems) number(s *jsonschema.Schema, v any, path string) {
	var f float64
	switch v := v.(type) {
	case int64:
		f = float64(v)
	case uint64:
		f = float64(v)
	case float64:
		f = v
	}
	switch {
	case s.Minimum != nil && f < *s.Minimum:
		p.add(path, "must be at least %v, not %s", *s.Minimum, given(v))
	case s.Maximum != nil && f > *s.Maximum:
		p.add(path, "must be at most %v, not %s", *s.Maximum, given(v))
	case s.ExclusiveMinimum != nil && f <= *s.ExclusiveMinimum:
		p.add(path, "must be more than %v, not %s", *s.ExclusiveMinimum, given(v))
	case s.ExclusiveMaximum != nil && f >= *s.ExclusiveMaximum:
		p.add(path, "must be less than %v, not %s", *s.ExclusiveMaximum, given(v))
	}
}

func at(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// names lists a schema's fields in their order.
func names(s *jsonschema.Schema) []string {
	if s.PropertyOrder != nil {
		return s.PropertyOrder
	}
	return sorted(s.Properties)
}

func sorted[V any](m map[string]V) []string {
	list := make([]string, 0, len(m))
	for name := range m {
		list = append(list, name)
	}
	sort.Strings(list)
	return list
}

// ofType reports whether a value has the type that a schema asks for.
func ofType(s *jsonschema.Schema, v any) bool {
	if s.Type == "" && s.Types == nil {
		return true
	}
	var types []string
	switch v := v.(type) {
	case nil:
		types = []string{"null"}
	case bool:
		types = []string{"boolean"}
	case string:
		types = []string{"string"}
	case []any:
		types = []string{"array"}
	case map[string]any:
		types = []string{"object"}
	case float64:
		types = []string{"number"}
		if v == math.Trunc(v) {
			types = append(types, "integer")
		}
	default:
		types = []string{"integer", "number"}
	}
	return slices.ContainsFunc(types, func(t string) bool { return hasType(s, t) })
}

// typeNames names the types of a schema with their article.
func typeNames(s *jsonschema.Schema) string {
	types := s.Types
	if types == nil {
		types = []string{s.Type}
	}
	var list []string
	for _, t := range types {
		switch t {
		case "":
			list = append(list, "any value")
		case "null":
			list = append(list, "null")
		case "integer", "array", "object":
			list = append(list, "an "+t)
		default:
			list = append(list, "a "+t)
		}
	}
	slices.SortStableFunc(list, func(a, b string) int { // null comes last
		switch {
		case a == "null" && b != "null":
			return 1
		case b == "null" && a != "null":
			return -1
		}
		return 0
	})
	return strings.Join(list, " or ")
}

func oneOf(values []any) string {
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = given(v)
	}
	if len(list) == 1 {
		return list[0]
	}
	return "one of " + strings.Join(list, ", ")
}

// given shows a value, shortened.
func given(v any) string {
	data, err := plainjson.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return abbreviate(string(data))
}

const maxGiven = 60

func abbreviate(s string) string {
	if len(s) <= maxGiven {
		return s
	}
	return s[:boundary(s, maxGiven)] + "…"
}

// boundary returns the greatest n not above max at which s can be cut without
// breaking a rune.
func boundary(s string, max int) int {
	if max >= len(s) {
		return len(s)
	}
	for n := max; n > max-utf8.UTFMax && n >= 0; n-- {
		if utf8.RuneStart(s[n]) {
			return n
		}
	}
	return max // it isn't UTF-8 anyway
}
