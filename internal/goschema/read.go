package goschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
)

// Schema is a JSON Schema, of a type or from outside, that values are checked against.
type Schema struct {
	*jsonschema.Schema
	resolved *jsonschema.Resolved
	inferred bool // by [Of]: the checker knows all that is in it
}

// Parse reads a schema from outside.
func Parse(raw json.RawMessage) (*Schema, error) {
	s := new(jsonschema.Schema)
	if err := json.Unmarshal(raw, s); err != nil {
		return nil, err
	}
	return resolve(s, nil)
}

// Complete makes a schema, which [Of] inferred or is from outside, ready for [Schema.Read]:
// the defaults in it must match it.
func Complete(s *jsonschema.Schema, inferred bool) (*Schema, error) {
	made, err := resolve(s, &jsonschema.ResolveOptions{ValidateDefaults: true})
	if err == nil {
		made.inferred = inferred
	}
	return made, err
}

// resolve refuses a schema that leads to itself, that has references which aren't JSON
// pointers into it, or types that there aren't.
func resolve(s *jsonschema.Schema, opts *jsonschema.ResolveOptions) (*Schema, error) {
	raw, err := json.Marshal(s)
	if err == nil {
		err = bounded(raw)
	}
	if err != nil {
		return nil, err
	}
	resolved, err := s.Resolve(opts)
	if err == nil {
		err = knownTypes(s)
	}
	return &Schema{Schema: s, resolved: resolved}, err
}

// knownTypes reports a type that JSON doesn't have, which the library lets pass.
func knownTypes(s *jsonschema.Schema) error {
	if s == nil {
		return nil
	}
	for _, t := range append([]string{s.Type}, s.Types...) {
		switch t {
		case "", "null", "boolean", "integer", "number", "string", "array", "object":
		default:
			return fmt.Errorf("there is no type %q", t)
		}
	}
	for _, one := range below(s) {
		if err := knownTypes(one); err != nil {
			return err
		}
	}
	return nil
}

// below returns the schemas that are directly in one, and nils.
func below(s *jsonschema.Schema) []*jsonschema.Schema {
	list := slices.Concat(s.PrefixItems, s.ItemsArray, s.AllOf, s.AnyOf, s.OneOf, []*jsonschema.Schema{
		s.Items, s.AdditionalItems, s.Contains, s.UnevaluatedItems, s.AdditionalProperties, s.PropertyNames,
		s.UnevaluatedProperties, s.Not, s.If, s.Then, s.Else,
	})
	for _, named := range []map[string]*jsonschema.Schema{s.Defs, s.Definitions, s.Properties, s.PatternProperties, s.DependentSchemas, s.DependencySchemas} {
		list = slices.AppendSeq(list, maps.Values(named))
	}
	return list
}

// Move makes a schema, which [Parse] has read, ready to stand in another, at a JSON pointer:
// there its references lead to the same.
func Move(s *jsonschema.Schema, to string) {
	s.ID, s.Schema = "", ""
	var move func(s *jsonschema.Schema)
	move = func(s *jsonschema.Schema) {
		if s == nil {
			return
		}
		if s.Ref != "" {
			s.Ref = "#" + to + s.Ref[1:]
		}
		for _, one := range below(s) {
			move(one)
		}
	}
	move(s)
}

// Check returns what is wrong with JSON that is to be as a schema from outside has it.
func Check(schema, data json.RawMessage) error {
	s, err := Parse(schema)
	if err != nil {
		return fmt.Errorf("the schema itself is wrong: %w", err)
	}
	return s.Check(data)
}

// Check returns what is wrong with JSON, in words that a model can use.
func (s *Schema) Check(data []byte) error {
	v, err := read(data)
	if err != nil {
		return err
	}
	if !utf8.Valid(data) {
		return errors.New("a string in it is not valid UTF-8")
	}
	return s.check(v)
}

func (s *Schema) check(v any) error {
	c := checker{root: s.Schema, most: maxErrors}
	var wordless error
	if !s.inferred {
		if c.inRange(v, nil); c.errs != nil {
			return c.err()
		}
		err := s.resolved.Validate(plain(v))
		if err == nil {
			return nil
		}
		wordless = placed(err)
	}
	if c.check(s.Schema, v, nil); c.errs != nil {
		return c.err()
	}
	return wordless
}

// placed gives an error of the library the path of the value, as far as the paths of the
// schemas that it was checked against tell.
func placed(err error) error {
	text, path, at := err.Error(), "", ""
	for {
		first, rest, _ := strings.Cut(text, ": ")
		schema, ok := strings.CutPrefix(first, "validating ")
		if !ok {
			break
		}
		if !strings.HasPrefix(schema, "/") { // the root, by its $id
			schema = ""
		}
		if way, below := strings.CutPrefix(schema, at+"/"); below { // not by a reference
			switch keyword, name, _ := strings.Cut(way, "/"); keyword {
			case "properties":
				path = join(path, strings.NewReplacer("~1", "/", "~0", "~").Replace(name))
			case "items", "prefixItems", "contains":
				path += "[]"
			}
		}
		text, at = rest, schema
	}
	switch keyword, _, _ := strings.Cut(text, ":"); keyword { // of what the library shows the insides of Go
	case "oneOf":
		text = "has more than one of the forms that are allowed here"
	case "not":
		text = "has a form that is not allowed here"
	case "contains":
		text = "has no item of the form that one must have"
	}
	if path != "" {
		text = path + ": " + text
	}
	return errors.New(text)
}

// err returns what is wrong, with the paths.
func (c *checker) err() error {
	if c.errs == nil {
		return nil
	}
	var list []string
	for _, e := range c.errs {
		text := e.text()
		if e.Path != "" {
			text = e.Path + ": " + text
		}
		list = append(list, text)
	}
	if c.more {
		list = append(list, "and more")
	}
	return errors.New(strings.Join(list, "; "))
}

// Read checks the arguments of a call by a model and decodes them into to. Its errors are
// for the model to read.
//
// What was checked is what is decoded: args are parsed once, so that a key that stands there
// twice can't show one value to the schema and another to Go. Numbers are decoded as they
// were written. Nothing and null are an object without members, a field that has a default
// gets it, and null for another that isn't required is its absence.
func (s *Schema) Read(args []byte, to any) error {
	object, err := readObject(args)
	if err != nil {
		return err
	}
	c := checker{root: s.Schema, most: maxErrors}
	c.complete(s.Schema, object, nil)
	if err := c.err(); err != nil {
		return err
	}
	if err := s.check(object); err != nil {
		return err
	}
	data, err := json.Marshal(object)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, to); err != nil {
		var te *json.UnmarshalTypeError
		if errors.As(err, &te) && te.Field != "" {
			return fmt.Errorf("%s: %s doesn't fit a Go %v", fieldPath(s.Schema, te.Field), te.Value, te.Type)
		}
		return err
	}
	return nil
}

// fieldPath leaves out of a path what isn't a field in JSON: embedded structs.
func fieldPath(s *jsonschema.Schema, path string) string {
	out := ""
	for name := range strings.SplitSeq(path, ".") {
		p := property(s, name)
		if p == nil || s.Properties[name] == nil && isNothing(p) {
			continue
		}
		out = join(out, name)
		for s = p; s.Items != nil; {
			s = s.Items
		}
	}
	return out
}

// read reads JSON, with the numbers as they were written.
func read(data []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	switch err := dec.Decode(&v); err {
	case nil:
	case io.EOF:
		return nil, errors.New("nothing was given")
	default:
		return nil, err
	}
	switch _, err := dec.Token(); err {
	case io.EOF:
		return v, nil
	case nil:
		return nil, errors.New("there is more after the end of the object")
	default:
		return nil, err
	}
}

// readObject reads a JSON object. Nothing and null are an empty one.
func readObject(args []byte) (map[string]any, error) {
	if len(bytes.TrimSpace(args)) == 0 {
		return map[string]any{}, nil
	}
	v, err := read(args)
	if err != nil {
		return nil, syntax(args, err)
	}
	switch v := v.(type) {
	case nil:
		return map[string]any{}, nil
	case map[string]any:
		return v, nil
	}
	return nil, fmt.Errorf("they must be a JSON object, not %s", given{v})
}

// syntax says where JSON is broken.
func syntax(args []byte, err error) error {
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

// complete puts in defaults, takes null for an optional field as its absence,
// which is how models often leave a field out, and writes 3.0 as 3, which is an
// integer. A name that only differs in case from that of a field is refused:
// encoding/json would take it for the field, past what the schema says.
func (c *checker) complete(s *jsonschema.Schema, v any, at *place) any {
	s = c.follow(s)
	switch v := v.(type) {
	case json.Number:
		switch n, ok := numberOf(v); {
		case !ok:
			c.outOfRange(v, at)
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
			v[i] = c.complete(items, v[i], &place{up: at, item: i + 1})
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			value, member := v[name], &place{up: at, name: name}
			if value == nil && omissible(s, name) && !takesNull(c.follow(s.Properties[name])) {
				delete(v, name)
				continue
			}
			if other := inAnotherCase(s, name); other != "" {
				c.wrong(member, fmt.Sprintf("did you mean %q?", other), "unknown field")
				continue
			}
			v[name] = c.complete(property(s, name), value, member)
		}
		if s == nil {
			break
		}
		for name, property := range s.Properties {
			if _, ok := v[name]; ok || property.Default == nil || !omissible(s, name) {
				continue
			}
			member := &place{up: at, name: name}
			value, err := read(property.Default)
			if err != nil {
				c.wrong(member, "", "its default isn't JSON: %v", err)
				continue
			}
			v[name] = c.complete(nil, value, member) // numbers alone: a default is whole
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
