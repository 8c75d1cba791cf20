package tool

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

var (
	unmarshalerType     = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// SchemaOf returns the JSON Schema that [New] infers for arguments of type T. T may be
// any type whose JSON it can describe.
func SchemaOf[T any]() (json.RawMessage, error) {
	t := reflect.TypeFor[T]()
	s, err := infer(t)
	if err != nil {
		return nil, fmt.Errorf("no schema can be inferred from %v: %w", t, err)
	}
	return json.Marshal(s)
}

// infer returns the JSON Schema of what decodes into t.
func infer(t reflect.Type) (*jsonschema.Schema, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	w := walker{
		known: map[reflect.Type]*jsonschema.Schema{
			reflect.TypeFor[time.Time]():   {Type: "string", Format: "date-time"},
			reflect.TypeFor[slog.Level]():  {Type: "string"},
			reflect.TypeFor[json.Number](): {Type: "number"},
		},
		open: map[reflect.Type]bool{},
	}
	w.visit(t, "")
	if len(w.errs) > 0 {
		return nil, errors.Join(w.errs...)
	}
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: w.known})
	if err != nil {
		return nil, err
	}
	w.decorate(t, s, "")
	if len(w.errs) > 0 {
		return nil, errors.Join(w.errs...)
	}
	if s.Type == "object" && s.Properties == nil && s.AdditionalProperties != nil && t.Kind() == reflect.Struct {
		s.Properties = map[string]*jsonschema.Schema{} // some providers insist on it
	}
	return s, nil
}

// walker goes through a type, first to find what the inference can't describe,
// then beside the inferred schema.
type walker struct {
	known map[reflect.Type]*jsonschema.Schema // schemas of types that decode themselves
	open  map[reflect.Type]bool               // types that are being visited
	errs  []error
}

func (w *walker) fail(path, format string, args ...any) {
	err := fmt.Errorf(format, args...)
	if path != "" {
		err = fmt.Errorf("field %q: %w", path, err)
	}
	w.errs = append(w.errs, err)
}

// visit finds types that decode themselves, and those without a schema.
func (w *walker) visit(t reflect.Type, path string) {
	if w.known[t] != nil {
		return
	}
	if t.Kind() != reflect.Pointer && t.Kind() != reflect.Interface {
		switch p := reflect.PointerTo(t); {
		case p.Implements(unmarshalerType):
			w.known[t] = anything()
			return
		case p.Implements(textUnmarshalerType):
			w.known[t] = &jsonschema.Schema{Type: "string"}
			return
		}
	}
	if w.open[t] {
		w.fail(path, "type %v holds itself; give the schema with the option Schema", t)
		return
	}
	w.open[t] = true
	defer delete(w.open, t)
	switch t.Kind() {
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			w.known[t] = &jsonschema.Schema{Type: "string", ContentEncoding: "base64"}
			return
		}
		w.visit(t.Elem(), path)
	case reflect.Pointer, reflect.Array:
		w.visit(t.Elem(), path)
	case reflect.Map:
		if k := t.Key(); k.Kind() != reflect.String {
			w.fail(path, "a map's keys must be strings, not %v", k)
			return
		}
		w.visit(t.Elem(), path)
	case reflect.Struct:
		w.unique(t, path)
		for i := range t.NumField() {
			f := t.Field(i)
			name, opts, skip := jsonName(f)
			if skip {
				continue
			}
			at := join(path, name)
			if f.Anonymous {
				if opts.named {
					w.fail(at, "an embedded struct can't have a name in JSON; make it a field")
					continue
				}
				at = path
			}
			w.visit(f.Type, at)
		}
	case reflect.Interface:
		if t.NumMethod() > 0 {
			w.fail(path, "JSON doesn't decode into an interface with methods: %v", t)
		} else if path != "" {
			w.known[t] = anything()
		}
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		w.fail(path, "JSON doesn't decode into a %v", t)
	}
}

// unique finds fields of a struct that have one name in JSON, such as one that
// hides that of an embedded struct: the inferred schema would mix them up.
func (w *walker) unique(t reflect.Type, path string) {
	first := map[string]string{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, skip := jsonName(f)
		if skip || f.Anonymous {
			continue
		}
		if other, ok := first[name]; ok {
			w.fail(join(path, name), "the fields %s and %s of %v have this name", other, f.Name, t)
		}
		first[name] = f.Name
	}
}

// anything matches all. Without its description it would be written as the
// schema true, which some providers don't take.
func anything() *jsonschema.Schema { return &jsonschema.Schema{Description: "any JSON value"} }

type jsonOptions struct{ named, quoted bool }

func jsonName(f reflect.StructField) (name string, opts jsonOptions, skip bool) {
	if !f.IsExported() && !f.Anonymous {
		return "", opts, true
	}
	tag := f.Tag.Get("json")
	if tag == "-" {
		return "", opts, true
	}
	name, rest, _ := strings.Cut(tag, ",")
	opts.named = name != ""
	opts.quoted = slices.Contains(strings.Split(rest, ","), "string")
	if name == "" {
		name = f.Name
	}
	return name, opts, false
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// decorate completes an inferred schema with what the struct tags say, and
// straightens it: a list that isn't a pointer can't be null.
func (w *walker) decorate(t reflect.Type, s *jsonschema.Schema, path string) {
	if t.Kind() == reflect.Slice && slices.Equal(s.Types, []string{"null", "array"}) {
		s.Type, s.Types = "array", nil
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if known := w.known[t]; known != nil {
		if known.Type == "" { // the inference lets pointers to these be null alone
			s.Types = nil
		}
		return
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		w.decorate(t.Elem(), s.Items, path)
	case reflect.Map:
		w.decorate(t.Elem(), s.AdditionalProperties, path)
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			if f.Anonymous {
				continue
			}
			name, opts, skip := jsonName(f)
			p := s.Properties[name]
			if skip || p == nil {
				continue
			}
			at := join(path, name)
			w.decorate(f.Type, p, at)
			if opts.quoted {
				quote(f.Type, p)
			}
			if err := tags(f.Tag, p, at); err != nil {
				w.errs = append(w.errs, err)
			}
			if p.Default != nil { // who gives a default doesn't insist on a value
				s.Required = slices.DeleteFunc(s.Required, func(r string) bool { return r == name })
			}
		}
	}
}

// quote does what the json tag's option "string" does to numbers and booleans.
func quote(t reflect.Type, s *jsonschema.Schema) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr,
		reflect.Float32, reflect.Float64:
		if s.Types != nil {
			s.Types = []string{"null", "string"}
		} else {
			s.Type = "string"
		}
		s.Minimum, s.Maximum = nil, nil
	}
}

// tags applies the struct tags that limit a field.
func tags(tag reflect.StructTag, s *jsonschema.Schema, path string) error {
	elem := s
	for elem.Items != nil {
		elem = elem.Items
	}
	var errs []error
	on := func(key string, set func(value string) error) {
		if v, ok := tag.Lookup(key); ok {
			if err := set(v); err != nil {
				errs = append(errs, fmt.Errorf("field %q: tag %s:%q: %w", path, key, v, err))
			}
		}
	}
	number := func(to **float64) func(string) error {
		return func(v string) error {
			f, err := strconv.ParseFloat(v, 64)
			if err != nil {
				return errors.New("not a number")
			}
			if !hasType(elem, "integer") && !hasType(elem, "number") {
				return errors.New("the field isn't a number")
			}
			*to = &f
			return nil
		}
	}
	count := func(of *jsonschema.Schema, typ string, to **int) func(string) error {
		return func(v string) error {
			n, err := strconv.Atoi(v)
			if err != nil || n < 0 {
				return errors.New("not a count")
			}
			if !hasType(of, typ) {
				return fmt.Errorf("the field isn't of type %s", typ)
			}
			*to = &n
			return nil
		}
	}
	text := func(to *string) func(string) error {
		return func(v string) error {
			if !hasType(elem, "string") {
				return errors.New("the field isn't of type string")
			}
			*to = v
			return nil
		}
	}
	on("minimum", number(&elem.Minimum))
	on("maximum", number(&elem.Maximum))
	on("minLength", count(elem, "string", &elem.MinLength))
	on("maxLength", count(elem, "string", &elem.MaxLength))
	on("minItems", count(s, "array", &s.MinItems))
	on("maxItems", count(s, "array", &s.MaxItems))
	on("pattern", text(&elem.Pattern))
	on("format", text(&elem.Format))
	on("enum", func(v string) error {
		var enum []any
		for _, item := range strings.Split(v, ",") {
			x, err := tagValue(elem, item)
			if err != nil {
				return err
			}
			enum = append(enum, x)
		}
		return setEnum(elem, path, enum)
	})
	on("default", func(v string) error {
		x, err := tagValue(s, v)
		if err != nil {
			return err
		}
		s.Default, err = json.Marshal(x)
		return err
	})
	return errors.Join(errs...)
}

// tagValue reads a value in a tag: text as it is for strings, JSON for others.
func tagValue(s *jsonschema.Schema, v string) (any, error) {
	if hasType(s, "string") {
		return v, nil
	}
	var x any
	if err := json.Unmarshal([]byte(v), &x); err != nil {
		return nil, fmt.Errorf("%q isn't JSON", v)
	}
	return x, nil
}

func hasType(s *jsonschema.Schema, typ string) bool {
	return s.Type == typ || slices.Contains(s.Types, typ)
}

// setEnum limits a schema. The values must be of its type.
func setEnum(s *jsonschema.Schema, path string, enum []any) error {
	for {
		switch {
		case s.Items != nil:
			s = s.Items
			continue
		case s.Type == "object" && s.Properties == nil && s.AdditionalProperties != nil:
			s = s.AdditionalProperties
			continue
		}
		break
	}
	if len(enum) == 0 {
		return fmt.Errorf("field %q: an enum needs values", path)
	}
	for _, v := range enum {
		if !ofType(s, v) {
			return fmt.Errorf("field %q: enum value %s must be %s", path, given(v), typeNames(s))
		}
	}
	if slices.Contains(s.Types, "null") && !slices.Contains(enum, nil) {
		enum = append(enum, nil)
	}
	s.Enum = enum
	return nil
}

// find returns the schema of a field by its path.
func find(s *jsonschema.Schema, path string) (*jsonschema.Schema, error) {
	for rest := path; ; {
		for s.Properties == nil { // into lists and maps
			switch {
			case s.Items != nil:
				s = s.Items
			case s.AdditionalProperties != nil:
				s = s.AdditionalProperties
			default:
				return nil, fmt.Errorf("unknown field %q", path)
			}
		}
		if p := s.Properties[rest]; p != nil { // names may have points
			return p, nil
		}
		name, more, nested := strings.Cut(rest, ".")
		p := s.Properties[name]
		if p == nil || !nested {
			return nil, fmt.Errorf("unknown field %q%s", path, didYouMean(name, names(s)))
		}
		s, rest = p, more
	}
}

func jsonValue(v any) (any, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var x any
	err = json.Unmarshal(data, &x)
	return x, err
}
