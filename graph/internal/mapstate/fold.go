package mapstate

import (
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"math/bits"
	"reflect"
	"slices"

	"github.com/superstep-dev/superstep/internal/core"
)

// Changes is what one task wrote. It holds copies.
type Changes struct {
	node   string  // that wrote; empty when not known
	writes []write // by field, several of one field in the order written
}

// Changes returns what was written to a fork, nil if nothing was, and tells
// warn of fields that aren't declared.
func (t *Type) Changes(fork *State, warn func(Warning)) (*Changes, error) {
	if fork.err != nil {
		return nil, fork.err
	}
	if len(fork.writes) == 0 {
		return nil, nil
	}
	if warn != nil && fork.unknown != nil {
		names := slices.Clone(fork.unknown)
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			warn(Warning{Kind: UndeclaredField, Field: name, Node: fork.node})
		}
	}
	ws := slices.Clone(fork.writes)
	slices.SortStableFunc(ws, t.order)
	// What a later write of the same task replaces is not worth keeping.
	kept := ws[:0]
	for i, w := range ws {
		if i > 0 && t.order(ws[i-1], w) == 0 && t.replaces(w) {
			for len(kept) > 0 && t.order(kept[len(kept)-1], w) == 0 {
				kept = kept[:len(kept)-1]
			}
		}
		kept = append(kept, w)
	}
	return &Changes{node: fork.node, writes: kept}, nil
}

// replaces reports whether a write makes earlier ones irrelevant.
func (t *Type) replaces(w write) bool {
	return w.over || w.field < 0 || t.fields[w.field].Reducer.Kind <= Override
}

// folder folds writes into slots.
type folder struct {
	t        *Type
	slots    []slot
	extra    map[string]any
	borrowed bool // the slots' slices belong to somebody else
	sc       *scratch
	digest   uint64
}

// scratch is what a fold needs, by field.
type scratch struct {
	parts   [][]any // updates of fields that append or merge, not yet applied
	touched []int32
	writer  []int32 // the task that replaced the value, plus 1
	value   []any   // what it wrote
}

func newScratch(n int) *scratch {
	return &scratch{parts: make([][]any, n), writer: make([]int32, n), value: make([]any, n)}
}

func (f *folder) release() {
	sc := f.sc
	if sc == nil {
		return
	}
	for _, i := range sc.touched {
		parts := sc.parts[i][:cap(sc.parts[i])]
		clear(parts)
		sc.parts[i] = parts[:0]
	}
	sc.touched = sc.touched[:0]
	f.t.scratch.Put(sc)
	f.sc = nil
}

// write applies one write. Those of fields that append or merge wait for
// finish.
func (f *folder) write(w write) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicError(p)
		}
	}()
	if w.field < 0 {
		if f.extra == nil {
			f.extra = map[string]any{}
		}
		old, had := f.extra[w.name]
		f.extra[w.name] = w.value
		if !had || !reflect.DeepEqual(old, w.value) {
			f.digest += maphash.String(seed, w.name) | 1
		}
		return nil
	}
	fi := &f.t.fields[w.field]
	s := &f.slots[w.field]
	kind := fi.Reducer.Kind
	if w.over || kind <= Override {
		if f.sc != nil && len(f.sc.parts[w.field]) > 0 {
			f.sc.parts[w.field] = f.sc.parts[w.field][:0]
			f.digest += fi.salt
		}
		f.changed(fi, s.v, w.value)
		*s = slot{v: w.value}
		return nil
	}
	switch kind {
	case Append, Merge:
		if f.sc == nil {
			f.sc = f.t.scratch.Get().(*scratch)
		}
		if len(f.sc.parts[w.field]) == 0 {
			f.sc.touched = append(f.sc.touched, w.field)
		}
		f.sc.parts[w.field] = append(f.sc.parts[w.field], w.value)
		return nil
	case Sum:
		old := s.v
		if old == nil {
			old = fi.fallback
		}
		sum := w.value
		if old != nil {
			sum = fi.add(old, w.value)
			if err := finite(sum); err != nil {
				return err
			}
		}
		f.changed(fi, s.v, sum)
		*s = slot{v: sum}
		return nil
	}
	old, update := s.v, w.value
	if old == nil {
		old = fi.fallback
	}
	if isNull(old) {
		old = nil
	}
	if isNull(update) {
		update = nil
	}
	result, got, ok := fi.assign(fi.Type, fi.Reducer.Fn(clip(old), update))
	if !ok {
		return &FieldTypeError{Field: fi.Name, Want: fi.Type.String(), Got: got}
	}
	if err := finite(result); err != nil {
		return err
	}
	f.changed(fi, s.v, result)
	*s = slot{v: result}
	return nil
}

// changed counts a new value of a field as progress, unless it is the old one.
func (f *folder) changed(fi *field, old, value any) {
	switch {
	case fi.hashable:
		f.digest += fi.hash(value) - fi.hash(old)
	case fi.Untracked || !reflect.DeepEqual(old, value):
		f.digest += fi.salt
	}
}

func (f *field) hash(v any) uint64 {
	if v == nil {
		return 0
	}
	hi, lo := bits.Mul64(maphash.Comparable(seed, v)^f.salt, 0xbf58476d1ce4e5b9)
	return hi ^ lo
}

// clip makes appending to a slice copy it: its space may be another's.
func clip(v any) any {
	switch s := v.(type) {
	case nil, string, int, float64, bool:
		return v
	case []string:
		return slices.Clip(s)
	case []any:
		return slices.Clip(s)
	}
	r := reflect.ValueOf(v)
	if r.Kind() != reflect.Slice || r.Len() == r.Cap() {
		return v
	}
	return r.Slice3(0, r.Len(), r.Len()).Interface()
}

// finish applies what waits.
func (f *folder) finish() {
	if f.sc == nil {
		return
	}
	for _, i := range f.sc.touched {
		parts := f.sc.parts[i]
		if len(parts) == 0 {
			continue
		}
		f.sc.parts[i] = parts[:0] // the field may be listed twice
		fi, s := &f.t.fields[i], &f.slots[i]
		base := s.v
		if base == nil {
			base = fi.fallback
		}
		if fi.Reducer.Kind == Append {
			var grew bool
			if s.v, grew = appendAll(fi.Type, base, s.own && !f.borrowed, parts); grew {
				s.own = true
				f.digest += fi.salt
			}
			continue
		}
		merged, changed := mergeAll(fi.Type, base, parts)
		s.v, s.own = merged, false
		if changed {
			f.digest += fi.salt
		}
	}
}

// appendAll appends lists to base, in place if that is allowed.
func appendAll(t reflect.Type, base any, own bool, parts []any) (result any, grew bool) {
	if all, ok := base.([]string); ok || base == nil && t == reflect.TypeFor[[]string]() {
		return appendTo(all, own, parts)
	}
	if all, ok := base.([]any); ok || base == nil && t == reflect.TypeFor[[]any]() {
		return appendTo(all, own, parts)
	}
	n := 0
	for _, p := range parts {
		n += reflect.ValueOf(p).Len()
	}
	if base == nil {
		base = reflect.Zero(t).Interface()
	}
	all := reflect.New(t).Elem()
	all.Set(reflect.ValueOf(base))
	if n == 0 {
		return base, false
	}
	if !own {
		all = all.Slice3(0, all.Len(), all.Len())
	}
	for _, p := range parts {
		all = reflect.AppendSlice(all, reflect.ValueOf(p))
	}
	return all.Interface(), true
}

func appendTo[T any](all []T, own bool, parts []any) (any, bool) {
	n := 0
	for _, p := range parts {
		n += len(p.([]T))
	}
	if n == 0 {
		return all, false
	}
	if !own {
		all = slices.Clip(all)
	}
	for _, p := range parts {
		all = append(all, p.([]T)...)
	}
	return all, true
}

// mergeAll puts the entries of maps into a copy of base.
func mergeAll(t reflect.Type, base any, parts []any) (result any, changed bool) {
	var from reflect.Value
	if base != nil {
		from = reflect.ValueOf(base)
	} else {
		from = reflect.Zero(t)
	}
	n := 0
	for _, p := range parts {
		n += reflect.ValueOf(p).Len()
	}
	if n == 0 {
		return from.Interface(), false
	}
	m := reflect.MakeMapWithSize(t, from.Len()+n)
	for it := from.MapRange(); it.Next(); {
		m.SetMapIndex(it.Key(), it.Value())
	}
	for _, p := range parts {
		for it := reflect.ValueOf(p).MapRange(); it.Next(); {
			k, v := it.Key(), it.Value()
			if !changed {
				old := m.MapIndex(k)
				changed = !old.IsValid() || !reflect.DeepEqual(old.Interface(), v.Interface())
			}
			m.SetMapIndex(k, v)
		}
	}
	return m.Interface(), changed
}

// Fold applies changes in order. The state that it returns takes over what base
// owned; base stays readable. See core.Values.
func (t *Type) Fold(base *State, cs []*Changes, commit bool, warn func(Warning)) (State, uint64, error) {
	if len(cs) > 1 && (t.Strict || commit && warn != nil) {
		if err := t.conflicts(cs, warn); err != nil {
			return State{}, 0, err
		}
	}
	extra := false
	for _, c := range cs {
		extra = extra || c != nil && c.writes[len(c.writes)-1].field < 0
	}
	base.settle()
	f := folder{t: t, slots: slices.Clone(base.slots), extra: base.extra, borrowed: base.fork || base.spent}
	if extra {
		f.extra = maps.Clone(base.extra)
	}
	if f.borrowed {
		for i := range f.slots {
			f.slots[i].own = false
		}
		f.borrowed = false
	}
	defer f.release()
	for i, c := range cs {
		if c == nil {
			continue
		}
		for _, w := range c.writes {
			if err := f.write(w); err != nil {
				return State{}, 0, &core.FoldError{Field: t.nameOf(w), Index: i, With: -1, Err: err}
			}
		}
	}
	if !base.fork {
		base.spent = true
	}
	f.finish()
	return State{t: t, slots: f.slots, extra: f.extra}, f.digest, nil
}

// conflicts looks for fields without a reducer that several tasks wrote. With
// Strict the first one is an error, a *core.FoldError; otherwise warn is told.
func (t *Type) conflicts(cs []*Changes, warn func(Warning)) error {
	sc := t.scratch.Get().(*scratch)
	defer t.scratch.Put(sc)
	type other struct {
		task  int
		value any
	}
	var others map[string]other // undeclared fields
	var touched []int32
	defer func() {
		for _, i := range touched {
			sc.writer[i], sc.value[i] = 0, nil
		}
	}()
	for i, c := range cs {
		if c == nil {
			continue
		}
		for _, w := range c.writes {
			with, same := -1, false
			if w.field < 0 {
				if o, ok := others[w.name]; ok && o.task != i {
					with, same = o.task, reflect.DeepEqual(o.value, w.value)
				}
				if others == nil {
					others = map[string]other{}
				}
				if !same { // the first of those that agree counts
					others[w.name] = other{i, w.value}
				}
			} else if w.over && t.fields[w.field].Reducer.Kind != Override || t.fields[w.field].Reducer.Kind == Replace {
				if p := sc.writer[w.field]; p == 0 {
					touched = append(touched, w.field)
				} else if int(p-1) != i {
					with, same = int(p-1), reflect.DeepEqual(sc.value[w.field], w.value)
				}
				if !same {
					sc.writer[w.field], sc.value[w.field] = int32(i)+1, w.value
				}
			}
			switch {
			case with < 0 || same:
			case t.Strict:
				return &core.FoldError{Field: t.nameOf(w), Index: i, With: with, Err: errConflict}
			default:
				warn(Warning{Kind: ConcurrentWrites, Field: t.nameOf(w), Node: c.node, With: cs[with].node})
			}
		}
	}
	return nil
}

// adder returns the addition of two values of a type of numbers, nil for other
// types.
func adder(t reflect.Type) func(a, b any) any {
	switch t {
	case reflect.TypeFor[int]():
		return func(a, b any) any { return a.(int) + b.(int) }
	case reflect.TypeFor[int64]():
		return func(a, b any) any { return a.(int64) + b.(int64) }
	case reflect.TypeFor[float64]():
		return func(a, b any) any { return a.(float64) + b.(float64) }
	}
	sum := func(set func(r, a, b reflect.Value)) func(a, b any) any {
		return func(a, b any) any {
			r := reflect.New(t).Elem()
			set(r, reflect.ValueOf(a), reflect.ValueOf(b))
			return r.Interface()
		}
	}
	switch k := t.Kind(); {
	case k >= reflect.Int && k <= reflect.Int64:
		return sum(func(r, a, b reflect.Value) { r.SetInt(wrap(a.Int()+b.Int(), t.Bits())) })
	case k >= reflect.Uint && k <= reflect.Uint64:
		return sum(func(r, a, b reflect.Value) { r.SetUint(a.Uint() + b.Uint()) })
	case k == reflect.Float32 || k == reflect.Float64:
		return sum(func(r, a, b reflect.Value) { r.SetFloat(a.Float() + b.Float()) })
	}
	return nil
}

// wrap cuts n to its lowest bits, as arithmetic of that size does.
func wrap(n int64, size int) int64 { return n << (64 - size) >> (64 - size) }

var errNotFinite = errors.New("NaN and infinity cannot be stored")

// finite returns an error for a number that cannot be stored.
func finite(v any) error {
	var x float64
	switch v := v.(type) {
	case nil, string, int, bool, []string, []any, map[string]any:
		return nil
	case float64:
		x = v
	default:
		r := reflect.ValueOf(v)
		if k := r.Kind(); k != reflect.Float32 && k != reflect.Float64 {
			return nil
		}
		x = r.Float()
	}
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return fmt.Errorf("%w: %v", errNotFinite, x)
	}
	return nil
}
