package mapstate

import (
	"maps"
	"reflect"
	"slices"
)

// State is a state, or a task's private copy of one. What its slots refer to is
// shared and never altered, except that a slice with an owner may be appended
// to behind what others see of it.
type State struct {
	t     *Type
	slots []slot         // by field; shared by copies, replaced as a whole
	extra map[string]any // undeclared fields; likewise
	fork  bool           // a copy: owns nothing
	spent bool           // another state was made from this one and owns what it owned

	// Of a task's copy.
	node    string
	writes  []write // what was written, in order
	settled int     // how many of the writes are in the slots
	unknown []string
	err     error // the first write that failed
}

// slot holds the value of a field.
type slot struct {
	v   any  // nil: absent
	own bool // v is a slice, and this state may append to it in place
}

// write is one update of one field.
type write struct {
	field int32  // -1: undeclared
	name  string // of an undeclared field
	over  bool   // replaces the value, whatever the reducer
	value any
}

// Overwriting is an update that replaces a field's value, whatever the field's
// reducer.
type Overwriting struct{ Value any }

// Type returns what handles the state; nil for the zero State.
func (s *State) Type() *Type { return s.t }

// Node names the node that writes to the copy.
func (s *State) Node(name string) { s.node = name }

// New returns a state in which no field is set.
func (t *Type) New() State { return State{t: t, slots: make([]slot, len(t.fields))} }

// Fork returns a private copy.
func (t *Type) Fork(base *State) State {
	base.settle()
	if base.t != t {
		return t.adopt(base)
	}
	return State{t: t, slots: base.slots, extra: base.extra, fork: true}
}

// adopt returns a copy of a state with other fields: those that both have, and
// undeclared ones if they are allowed.
func (t *Type) adopt(base *State) State {
	s := t.New()
	s.fork = true
	if base.t == nil {
		return s
	}
	take := func(name string, v any) {
		if i, ok := t.index[name]; ok {
			f := &t.fields[i]
			if isNull(v) {
				v = nil
			}
			if v, _, ok := f.assign(f.Type, v); ok {
				s.slots[i].v = v
			}
			return
		}
		if !t.Strict {
			if s.extra == nil {
				s.extra = map[string]any{}
			}
			s.extra[name] = v
		}
	}
	for i := range base.t.fields {
		if v := base.slots[i].v; v != nil {
			take(base.t.fields[i].Name, v)
		}
	}
	for name, v := range base.extra {
		take(name, v)
	}
	return s
}

// settle brings what was written into the slots, so that the task reads its own
// writes. What a reducer makes of them is provisional.
func (s *State) settle() {
	if s.settled == len(s.writes) {
		return
	}
	f := folder{t: s.t, slots: slices.Clone(s.slots), extra: maps.Clone(s.extra), borrowed: true}
	defer f.release()
	for _, w := range s.writes[s.settled:] {
		if err := f.write(w); err != nil {
			s.fail(fieldErr(s.t.nameOf(w), err))
		}
	}
	f.finish()
	s.settled = len(s.writes)
	s.slots, s.extra = f.slots, f.extra
	for i := range s.slots {
		s.slots[i].own = false
	}
}

func (s *State) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

func (t *Type) nameOf(w write) string {
	if w.field < 0 {
		return w.name
	}
	return t.fields[w.field].Name
}

// value returns the value of a field, shared; ok is false when it is absent and
// has no default.
func (s *State) value(i int32) (v any, ok bool) {
	if v = s.slots[i].v; v == nil {
		v = s.t.fields[i].fallback
	}
	if v == nil {
		return nil, false
	}
	return shown(v), true
}

// shown returns what a slot or write holds as users see it.
func shown(v any) any {
	if isNull(v) {
		return nil
	}
	return v
}

func isNull(v any) bool {
	_, ok := v.(null)
	return ok
}

// Get returns a private copy of a field's value.
func (s *State) Get(name string) (v any, ok bool, err error) {
	if s.t == nil {
		return nil, false, nil
	}
	s.settle()
	if i, declared := s.t.index[name]; declared {
		if v, ok = s.value(i); !ok || s.t.fields[i].Untracked {
			return v, ok, nil
		}
	} else if v, ok = s.extra[name]; !ok {
		return nil, false, nil
	}
	v, err = clone(shown(v))
	if err != nil {
		return nil, false, fieldErr(name, err)
	}
	return v, true, nil
}

// Map returns private copies of the values of all fields, or of the named ones.
func (s *State) Map(only []string) (map[string]any, error) {
	if s.t == nil {
		return map[string]any{}, nil
	}
	s.settle()
	if only != nil {
		m := make(map[string]any, len(only))
		for _, name := range only {
			v, ok, err := s.Get(name)
			if err != nil {
				return nil, err
			}
			if ok {
				m[name] = v
			}
		}
		return m, nil
	}
	m := make(map[string]any, len(s.slots)+len(s.extra))
	for i := range s.slots {
		v, ok := s.value(int32(i))
		if !ok {
			continue
		}
		if f := &s.t.fields[i]; !f.Untracked {
			var err error
			if v, err = clone(v); err != nil {
				return nil, fieldErr(f.Name, err)
			}
		}
		m[s.t.fields[i].Name] = v
	}
	for name, v := range s.extra {
		v, err := clone(shown(v))
		if err != nil {
			return nil, fieldErr(name, err)
		}
		m[name] = v
	}
	return m, nil
}

// Missing returns an error when a required field has no value.
func (s *State) Missing(node string) error {
	for _, i := range s.t.required {
		if _, ok := s.value(i); !ok {
			return &RequiredError{Node: node, Field: s.t.fields[i].Name}
		}
	}
	return nil
}

// Write records an update. Either all of it is taken or none; an error also
// makes Changes fail.
func (s *State) Write(update map[string]any) error {
	if len(update) == 0 {
		return nil
	}
	ws, unknown, err := s.t.check(s.node, update)
	if err != nil {
		s.fail(err)
		return err
	}
	s.writes = append(s.writes, ws...)
	s.unknown = append(s.unknown, unknown...)
	return nil
}

// Pass writes changes of another state to dst, a task's copy whose fields may
// differ. Fields that dst doesn't declare and t does are t's own and not passed.
func (t *Type) Pass(dst *State, c *Changes) error {
	if c == nil {
		return nil
	}
	for _, w := range c.writes {
		name := t.nameOf(w)
		if w.field >= 0 && !dst.t.Has(name) {
			continue
		}
		v := shown(w.value)
		if w.over {
			v = Overwriting{v}
		}
		if err := dst.Write(map[string]any{name: v}); err != nil {
			return err
		}
	}
	return nil
}

// check turns an update into writes, in the order of the fields.
func (t *Type) check(node string, update map[string]any) (ws []write, unknown []string, err error) {
	ws = make([]write, 0, len(update))
	for name, v := range update {
		w := write{field: -1, name: name}
		if i, ok := t.index[name]; ok {
			w = write{field: i}
		}
		w.value = v
		ws = append(ws, w)
	}
	if len(ws) > 1 {
		slices.SortFunc(ws, t.order)
	}
	for k := range ws {
		w := &ws[k]
		if o, ok := w.value.(Overwriting); ok {
			w.over, w.value = true, o.Value
		}
		if w.field < 0 {
			if t.Reserved[w.name] {
				return nil, nil, &ReservedFieldError{Node: node, Field: w.name}
			}
			if t.Strict || w.name == "" || w.name[0] == '$' {
				return nil, nil, t.unknown(w.name)
			}
			unknown = append(unknown, w.name)
			if w.value == nil {
				w.value = null{}
			}
			if w.value, err = clone(normal(w.value)); err != nil {
				return nil, nil, fieldErr(w.name, err)
			}
			continue
		}
		f := &t.fields[w.field]
		v, want, got := f.accept(w.over, w.value)
		if got != "" {
			return nil, nil, &FieldTypeError{Node: node, Field: f.Name, Want: want, Got: got}
		}
		if err := finite(v); err != nil {
			return nil, nil, fieldErr(f.Name, err)
		}
		if !f.Untracked {
			if v, err = clone(v); err != nil {
				return nil, nil, fieldErr(f.Name, err)
			}
		}
		w.value = v
	}
	return ws, unknown, nil
}

// order compares writes by field in the order declared, then by name.
func (t *Type) order(a, b write) int {
	switch {
	case a.field >= 0 && b.field >= 0:
		return int(a.field - b.field)
	case a.field >= 0:
		return -1
	case b.field >= 0:
		return 1
	case a.name < b.name:
		return -1
	case a.name > b.name:
		return 1
	}
	return 0
}

// accept checks the type of an update. If it doesn't fit, got is set.
func (f *field) accept(over bool, v any) (value any, want, got string) {
	to := f.update
	switch {
	case over:
		to = f.Type
	case to == nil: // a reducer that takes anything
		if v == nil {
			return null{}, "", ""
		}
		return normal(v), "", ""
	case f.Reducer.Kind == Append:
		if a, _, ok := f.assign(f.Type, v); ok {
			return a, "", ""
		}
		if a, _, ok := f.assign(f.elem, v); ok {
			list := reflect.MakeSlice(f.Type, 1, 1)
			if !isNull(a) {
				list.Index(0).Set(reflect.ValueOf(a))
			}
			return list.Interface(), "", ""
		}
	}
	a, got, ok := f.assign(to, v)
	if !ok {
		return nil, to.String(), got
	}
	return a, "", ""
}

// FieldNames returns the names of the declared fields in their order.
func (t *Type) FieldNames() []string {
	names := make([]string, len(t.fields))
	for i := range t.fields {
		names[i] = t.fields[i].Name
	}
	return names
}
