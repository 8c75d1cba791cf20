package core_test

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/superstep-dev/superstep/internal/core"
)

// toy implements core.Values for states whose fields have their kind by their
// name: "l..." is a growing list, "n..." a sum that may not fall below zero,
// "e..." lives for one step, and anything else is plain. What is to come of a field "e"
// is the field "~e".
type toy struct{}

// toyState is a field's value by name: a list's items, or else one value.
// Values are JSON.
type toyState struct{ fields map[string][]string }

// toyChanges are updates by field name.
type toyChanges map[string]toyUpdate

type toyUpdate struct {
	items []string
	over  bool // replaces a list
}

func kind(field string) byte {
	switch k := (field + " ")[0]; k {
	case 'l', 'n', 'e':
		return k
	}
	return 'x'
}

const toCome = "~"

func (toy) New() any { return &toyState{fields: map[string][]string{}} }

func (toy) Fork(base any) any {
	s := &toyState{fields: maps.Clone(base.(*toyState).fields)}
	maps.DeleteFunc(s.fields, func(name string, _ []string) bool { return strings.HasPrefix(name, toCome) })
	return s
}

func (v toy) Forks() core.Forks { return v }
func (v toy) Look(base any) any { return v.Fork(base) }

func (toy) Unrecorded(any) bool                                          { return false }
func (toy) Current(int) bool                                             { return true }
func (toy) Upgrade(_ int, data json.RawMessage) (json.RawMessage, error) { return data, nil }

func (v toy) Ahead(base any) any {
	s := v.Fork(base).(*toyState)
	for name, value := range base.(*toyState).fields {
		if name, ok := strings.CutPrefix(name, toCome); ok {
			s.fields[name] = value
		}
	}
	return s
}

func (toy) Changes(base, fork, _ any) (any, error) {
	b, f := base.(*toyState).fields, fork.(*toyState).fields
	cs := toyChanges{}
	for name, now := range f {
		was := b[name]
		switch {
		case slices.Equal(was, now):
		case kind(name) == 'n':
			cs[name] = toyUpdate{items: []string{strconv.Itoa(number(now) - number(was))}}
		case kind(name) == 'l' && len(now) >= len(was) && slices.Equal(now[:len(was)], was):
			cs[name] = toyUpdate{items: now[len(was):]}
		default:
			cs[name] = toyUpdate{items: now, over: kind(name) == 'l'}
		}
	}
	if len(cs) == 0 {
		return nil, nil
	}
	return cs, nil
}

func number(v []string) int {
	if len(v) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(v[0])
	return n
}

func (v toy) Fold(base any, cs []any, when core.When) (any, uint64, error) {
	writers := map[string]int{}
	fallible := false
	for i, c := range cs {
		c, _ := c.(toyChanges)
		for _, name := range slices.Sorted(maps.Keys(c)) {
			k := kind(name)
			fallible = fallible || k == 'n'
			if k == 'l' || k == 'n' {
				continue
			}
			if w, ok := writers[name]; ok && c[name].items[0] != cs[w].(toyChanges)[name].items[0] {
				return nil, 0, &core.FoldError{Field: name, Index: i, With: w, Err: fmt.Errorf("%s is not %s", c[name].items[0], cs[w].(toyChanges)[name].items[0])}
			}
			writers[name] = i
		}
	}
	s := base.(*toyState)
	if fallible {
		s = &toyState{fields: maps.Clone(s.fields)}
	}
	digest := uint64(0)
	for i, c := range cs {
		c, _ := c.(toyChanges)
		for _, name := range slices.Sorted(maps.Keys(c)) {
			u := c[name]
			if kind(name) == 'e' {
				if delete(s.fields, toCome+name); when != core.Given {
					name = toCome + name
				}
			}
			digest -= hash(name, s.fields[name])
			switch {
			case kind(name) == 'n':
				n := number(s.fields[name]) + number(u.items)
				if n < 0 {
					return nil, 0, &core.FoldError{Field: name, Index: i, With: -1, Err: fmt.Errorf("the sum would be %d", n)}
				}
				s.fields[name] = []string{strconv.Itoa(n)}
			case kind(name) == 'l' && !u.over:
				s.fields[name] = slices.Concat(s.fields[name], u.items)
			default:
				s.fields[name] = u.items
			}
			digest += hash(name, s.fields[name])
		}
	}
	if when == core.Committed {
		for name := range s.fields {
			if kind(name) == 'e' {
				digest -= hash(name, s.fields[name])
				delete(s.fields, name)
			}
		}
		for name, value := range s.fields {
			if to, ok := strings.CutPrefix(name, toCome); ok {
				delete(s.fields, name)
				s.fields[to] = value
				digest += hash(to, value) - hash(name, value)
			}
		}
	}
	return s, digest, nil
}

func hash(name string, v []string) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s=%q", name, v)
	return h.Sum64()
}

func (toy) Encode(changes any) (json.RawMessage, error) {
	c, _ := changes.(toyChanges)
	if len(c) == 0 {
		return nil, nil
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(c)) {
		u := c[name]
		form := strings.Join(u.items, ",")
		if kind(name) == 'l' {
			form = "[" + form + "]"
		}
		if u.over {
			form = `{"$overwrite":` + form + `}`
		}
		parts = append(parts, strconv.Quote(name)+":"+form)
	}
	return json.RawMessage("{" + strings.Join(parts, ",") + "}"), nil
}

func (toy) Growth(changes any) (growth []core.Growth) {
	c, _ := changes.(toyChanges)
	for _, name := range slices.Sorted(maps.Keys(c)) {
		if kind(name) == 'l' {
			growth = append(growth, core.Growth{Field: name, Reset: c[name].over})
		}
	}
	return growth
}

func (v toy) DecodeAll(data []json.RawMessage) (all []any, err error) {
	for _, d := range data {
		var c any
		if len(d) > 0 && err == nil {
			c, err = v.Decode(d, nil)
		}
		all = append(all, c)
	}
	return all, err
}

func (toy) Decode(data json.RawMessage, only []string) (any, error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, err
	}
	cs := toyChanges{}
	for name, d := range raw {
		if only != nil && !slices.Contains(only, name) {
			continue
		}
		if kind(name) != 'l' {
			cs[name] = toyUpdate{items: []string{string(d)}}
			continue
		}
		var over struct {
			Items []json.RawMessage `json:"$overwrite"`
		}
		var items []json.RawMessage
		u := toyUpdate{}
		if json.Unmarshal(d, &items) != nil {
			if err := json.Unmarshal(d, &over); err != nil {
				return nil, err
			}
			items, u.over = over.Items, true
		}
		for _, it := range items {
			u.items = append(u.items, string(it))
		}
		cs[name] = u
	}
	if len(cs) == 0 {
		return nil, nil
	}
	return cs, nil
}

func (toy) Snapshot(base any, full bool) (json.RawMessage, error) {
	s := base.(*toyState)
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(s.fields)) {
		form := strings.Join(s.fields[name], ",")
		if kind(name) == 'l' {
			if !full {
				continue
			}
			form = "[" + form + "]"
		}
		parts = append(parts, strconv.Quote(name)+":"+form)
	}
	return json.RawMessage("{" + strings.Join(parts, ",") + "}"), nil
}

func (v toy) Restore(base any, data json.RawMessage) (any, error) {
	if base == nil {
		base = v.New()
	} else {
		base = v.Fork(base)
	}
	cs, err := v.Decode(data, nil)
	if err != nil || cs == nil {
		return base, err
	}
	s, _, err := v.Fold(base, []any{cs}, core.Given)
	return s, err
}

func (v toy) show(state any) string {
	data, _ := v.Snapshot(state, true)
	return string(data)
}
