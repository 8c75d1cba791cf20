// Package acyclic looks for JSON Schemas that a validator would follow until the process
// dies: its stack's end can't be recovered from.
package acyclic

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

// ErrCircular says that a schema leads to itself by references for one and the same value.
var ErrCircular = errors.New("it leads to itself by references, without going into the value")

// Check returns an error for a schema that leads to itself by references for one and
// the same value: the validator would follow them until the process dies. So that all
// references are known, only those within the schema are taken.
func Check(schema json.RawMessage) error {
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
			return ErrCircular
		case done:
			return nil
		}
		state[id] = open
		defer func() { state[id] = done }()
		var next []any
		for _, name := range []string{"$ref", "$dynamicRef", "$recursiveRef"} {
			if ref, ok := m[name].(string); ok {
				pointer, within := strings.CutPrefix(ref, "#")
				if name != "$ref" || !within || pointer != "" && pointer[0] != '/' {
					return fmt.Errorf("%s %q: only references within the schema are followed, such as {\"$ref\": \"#/$defs/name\"}", name, ref)
				}
				next = append(next, lookup(root, pointer))
			}
		}
		for _, name := range []string{"allOf", "anyOf", "oneOf"} {
			list, _ := m[name].([]any)
			next = append(next, list...)
		}
		next = append(next, m["not"], m["if"], m["then"], m["else"])
		dependent, _ := m["dependentSchemas"].(map[string]any)
		for _, v := range dependent {
			next = append(next, v)
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
	if pointer == "" {
		return v
	}
	for _, name := range strings.Split(pointer[1:], "/") {
		if plain, err := url.PathUnescape(name); err == nil {
			name = plain
		}
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
