package goschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// bounded returns an error for a schema that leads to itself by references for one and the
// same value, which a validator would follow until the process dies: its stack's end can't be
// recovered from. So that all references are known, only those that are JSON pointers into
// the schema are taken. The JSON is to be as a Schema writes it: as one reads it, the names of
// keywords may be in any case.
func bounded(schema json.RawMessage) error {
	var root any
	if err := json.Unmarshal(schema, &root); err != nil {
		return err
	}
	const open, done = 1, 2
	state := map[uintptr]int{}
	var place func(v any) error // follows what applies to the same value
	place = func(v any) error {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		id := reflect.ValueOf(m).Pointer()
		switch state[id] {
		case open:
			return errors.New("it leads to itself by references, without going into the value")
		case done:
			return nil
		}
		state[id] = open
		defer func() { state[id] = done }()
		var next []any
		for _, name := range []string{"$ref", "$dynamicRef", "$recursiveRef"} {
			if ref, ok := m[name].(string); ok {
				pointer, within := strings.CutPrefix(ref, "#")
				to := lookup(root, pointer)
				if name != "$ref" || !within || to == nil {
					return fmt.Errorf("%s %q: only references within the schema are followed, such as {\"$ref\": \"#/$defs/name\"}", name, ref)
				}
				next = append(next, to)
			}
		}
		for _, name := range []string{"allOf", "anyOf", "oneOf"} {
			list, _ := m[name].([]any)
			next = append(next, list...)
		}
		next = append(next, m["not"], m["if"], m["then"], m["else"])
		for _, name := range []string{"dependentSchemas", "dependencies"} {
			dependent, _ := m[name].(map[string]any)
			next = slices.AppendSeq(next, maps.Values(dependent))
		}
		for _, v := range next {
			if err := place(v); err != nil {
				return err
			}
		}
		return nil
	}
	var all func(v any) error
	all = func(v any) error {
		err := place(v)
		switch v := v.(type) {
		case map[string]any:
			if id, ok := v["$id"].(string); ok && reflect.ValueOf(v).Pointer() != reflect.ValueOf(root).Pointer() {
				return fmt.Errorf("$id %q: it may stand at the top alone", id)
			}
			for _, name := range slices.Sorted(maps.Keys(v)) {
				if err == nil {
					err = all(v[name])
				}
			}
		case []any:
			for _, x := range v {
				if err == nil {
					err = all(x)
				}
			}
		}
		return err
	}
	return all(root)
}

// lookup returns what a JSON pointer leads to, nil if that is nothing.
func lookup(v any, pointer string) any {
	pointer, err := url.PathUnescape(pointer)
	switch {
	case err != nil, pointer != "" && pointer[0] != '/':
		return nil
	case pointer == "":
		return v
	}
	for _, name := range strings.Split(pointer[1:], "/") {
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		switch x := v.(type) {
		case map[string]any:
			v = x[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	return v
}
