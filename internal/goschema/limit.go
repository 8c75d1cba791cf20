package goschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/plan"
)

// Limit sets what the tags of a field say of its values:
//
//	enum:"red,green,blue"   values that are allowed; of a list, its elements
//	minimum, maximum        of a number
//	minLength, maxLength    of a text, in characters
//	minItems, maxItems      of a list
//	pattern, format         of a text: a regular expression; date, email, uri, ...
//
// Values are text for strings and JSON for others. Errors name the field by its path.
func Limit(s *jsonschema.Schema, tag reflect.StructTag, path string) error {
	elem := s
	for elem.Items != nil {
		elem = elem.Items
	}
	var errs []error
	on := func(key string, set func(text string) error) {
		text, ok := tag.Lookup(key)
		if !ok {
			return
		}
		if err := set(text); err != nil {
			if err = fmt.Errorf("tag %s:%q: %w", key, text, err); path != "" {
				err = fmt.Errorf("field %q: %w", path, err)
			}
			errs = append(errs, err)
		}
	}
	number := func(to **float64) func(string) error {
		return func(text string) error {
			f, err := strconv.ParseFloat(text, 64)
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
		return func(text string) error {
			n, err := strconv.Atoi(text)
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
	word := func(to *string) func(string) error {
		return func(text string) error {
			if !hasType(elem, "string") {
				return errors.New("the field isn't of type string")
			}
			*to = text
			return nil
		}
	}
	on("minimum", number(&elem.Minimum))
	on("maximum", number(&elem.Maximum))
	on("minLength", count(elem, "string", &elem.MinLength))
	on("maxLength", count(elem, "string", &elem.MaxLength))
	on("minItems", count(s, "array", &s.MinItems))
	on("maxItems", count(s, "array", &s.MaxItems))
	on("format", word(&elem.Format))
	on("pattern", func(text string) error {
		if _, err := regexp.Compile(text); err != nil {
			return err
		}
		return word(&elem.Pattern)(text)
	})
	on("enum", func(list string) error {
		var enum []any
		for text := range strings.SplitSeq(list, ",") {
			v, err := valueOf(elem, text)
			if err != nil {
				return err
			}
			enum = append(enum, v)
		}
		return setEnum(elem, enum)
	})
	return errors.Join(errs...)
}

// Limits reports whether a tag is one of those that [Limit] heeds.
func Limits(tag reflect.StructTag) bool {
	return slices.ContainsFunc(limiting, func(key string) bool { _, ok := tag.Lookup(key); return ok })
}

var limiting = []string{"minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "format", "pattern", "enum"}

// setDefault sets the value of a field that has none.
func setDefault(s *jsonschema.Schema, text string) error {
	v, err := valueOf(s, text)
	if err == nil {
		s.Default, err = json.Marshal(v)
	}
	return err
}

// valueOf reads a value in a tag.
func valueOf(s *jsonschema.Schema, text string) (any, error) {
	if hasType(s, "string") {
		return text, nil
	}
	v, err := read([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("%q isn't JSON", text)
	}
	return plain(v), nil
}

// Enum limits the field at a path, names that are joined by points, to some values; of a
// list or map, its elements.
func Enum[T any](root *jsonschema.Schema, path string, values []T) error {
	s, err := find(root, path)
	if err != nil {
		return err
	}
	enum := make([]any, len(values))
	for i, v := range values {
		data, err := json.Marshal(v)
		if err == nil {
			enum[i], err = read(data)
		}
		if err != nil {
			return err
		}
		enum[i] = plain(enum[i])
	}
	if err := setEnum(s, enum); err != nil {
		return fmt.Errorf("field %q: %w", path, err)
	}
	return nil
}

// setEnum limits a schema to values, which must be of its type.
func setEnum(s *jsonschema.Schema, enum []any) error {
	for s.Items != nil || s.Type == "object" && s.Properties == nil && s.AdditionalProperties != nil {
		if s.Items != nil {
			s = s.Items
		} else {
			s = s.AdditionalProperties
		}
	}
	if len(enum) == 0 {
		return errors.New("an enum needs values")
	}
	for _, v := range enum {
		if !ofType(s, v) {
			return fmt.Errorf("%s is no value of the field, which must be %s", given{v}, typeNames(s))
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
			err := fmt.Errorf("unknown field %q", path)
			if near := plan.Nearest(name, names(s)); near != "" {
				err = fmt.Errorf("%w; did you mean %q?", err, near)
			}
			return nil, err
		}
		s, rest = p, more
	}
}
