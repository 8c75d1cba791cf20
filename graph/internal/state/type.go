// Package state makes a state opaque to the core: it knows the state's fields, those
// of a struct or a list of named ones, and then forks, compares, folds and encodes
// states without knowing more of them than offsets.
package state

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"reflect"
	"sync"
	"unsafe"

	"github.com/superstep-dev/superstep/field"
	"github.com/superstep-dev/superstep/internal/core"
	"github.com/superstep-dev/superstep/internal/goschema"
	"github.com/superstep-dev/superstep/internal/plan"
)

// Type handles states of a type S. It implements [core.Values]; a state is a *S.
// It is safe for concurrent use. What it does to states it does by their fields and
// [memory]: code that depends on S is compiled again for each S.
type Type struct {
	layout
	memory
	zero    unsafe.Pointer // of a state that is never written to
	apart   *apart         // nil: a state is a struct whose fields these are
	scratch sync.Pool

	formsOnce sync.Once
	forms     []forms // of each field
}

var _ core.Values = (*Type)(nil)

// Apart says how to handle states that keep their fields in memory apart.
type Apart[S any] struct {
	Zero *S // as new states are

	// Field returns a field, which nobody alters. Copies of a state share it.
	Field func(s *S, i int32) field.Merger

	// Own returns a field that the state shares with no other.
	Own func(s *S, i int32) field.Merger

	// Owned returns the fields that Own has returned, one after the other in their
	// order, and nil after the last.
	Owned func(s *S, n int) (i int32, m field.Merger)

	// Copy makes the state at dst, which is zero in Go's sense, a copy of the one at
	// src, whose fields are bound.
	Copy func(dst, src *S)
}

// Named is a field of a state that keeps its fields apart.
type Named struct {
	Name     string
	Field    field.Merger // of the zero state; its JSON is that of encoding/json
	Optional bool         // it is not always part of the JSON of a state
	Open     bool         // it takes updates that the schema of its value doesn't tell

	// What it is of what the type of Field may be.
	Growing, Unrecorded bool

	// Rest makes it the field that holds what is written under the names of no
	// field, by these names. Its own name is not for users.
	Rest bool
}

// apart is an [Apart] of any S.
type apart struct {
	field, own func(s unsafe.Pointer, i int32) field.Merger
	owned      func(s unsafe.Pointer, n int) (i int32, m field.Merger)
}

// OfNamed returns the Type of states that keep these fields apart.
func OfNamed[S any](of Apart[S], named []Named) *Type {
	t := &Type{memory: memoryOf[S](), zero: unsafe.Pointer(of.Zero), apart: &apart{
		field: func(s unsafe.Pointer, i int32) field.Merger { return of.Field((*S)(s), i) },
		own:   func(s unsafe.Pointer, i int32) field.Merger { return of.Own((*S)(s), i) },
		owned: func(s unsafe.Pointer, n int) (int32, field.Merger) { return of.Owned((*S)(s), n) },
	}}
	t.copyTo = func(dst, src unsafe.Pointer) { of.Copy((*S)(dst), (*S)(src)) }
	fields := make([]fieldInfo, len(named))
	for i, n := range named {
		fields[i] = fieldInfo{
			name: n.Name, path: n.Name, typ: reflect.TypeOf(n.Field).Elem(), omit: n.Optional, open: n.Open, rest: n.Rest,
		}
		f := &fields[i]
		f.merges(n.Field)
		f.growing, f.unrecorded = f.growing && n.Growing, f.unrecorded && n.Unrecorded
	}
	t.init(fields)
	return t
}

// with returns where the struct begins that has field i of a state.
func (t *Type) with(s unsafe.Pointer, i int32) unsafe.Pointer {
	if t.apart != nil {
		return dataOf(t.apart.field(s, i))
	}
	return s
}

// own is with for a field that is written to.
func (t *Type) own(s unsafe.Pointer, i int32) unsafe.Pointer {
	if t.apart != nil {
		return dataOf(t.apart.own(s, i))
	}
	return s
}

// copy returns a copy of a state.
func (t *Type) copy(s unsafe.Pointer) unsafe.Pointer {
	c := t.room()
	t.copyTo(c, s)
	return c
}

// memory is what is done to the memory of states of one type S.
type memory struct {
	word   unsafe.Pointer              // of a *S in an interface
	room   func() unsafe.Pointer       // for a state, zero in Go's sense
	copyTo func(dst, s unsafe.Pointer) // makes the state at dst, which is zero in Go's sense, a copy
	wrote  func() *changes             // with room for the values of plain fields
	forks  func(t *Type) core.Forks
}

func memoryOf[S any]() memory {
	return memory{
		word:   wordsOf((*S)(nil)).typ,
		room:   func() unsafe.Pointer { return unsafe.Pointer(new(S)) },
		copyTo: func(dst, s unsafe.Pointer) { *(*S)(dst) = *(*S)(s) },
		wrote: func() *changes {
			p := new(struct {
				changes
				room S
			})
			c := &p.changes
			c.plain, c.merged, c.values = c.firstPlain[:0], c.firstMerged[:0], unsafe.Pointer(&p.room)
			return c
		},
		forks: func(t *Type) core.Forks {
			few := max(1, min(8, 4096/(1+int(unsafe.Sizeof(*new(S)))))) // large ones
			return &forks[S]{t: t, made: core.Pieces[S]{Most: few}}
		},
	}
}

// words are those of an interface that holds a pointer.
type words struct{ typ, data unsafe.Pointer }

func wordsOf(v any) words { return *(*words)(unsafe.Pointer(&v)) }

// at returns where a state is.
func (t *Type) at(state any) unsafe.Pointer {
	w := wordsOf(state)
	if w.typ != t.word {
		panic(fmt.Sprintf("state: a %T is not a state of this type", state))
	}
	return w.data
}

// state is the state at s as others see it.
func (t *Type) state(s unsafe.Pointer) (state any) {
	*(*words)(unsafe.Pointer(&state)) = words{t.word, s}
	return state
}

// layout is what is known of a state type.
type layout struct {
	fields  []fieldInfo // in the order of declaration, which is that of offsets
	plain   []int32     // indexes of fields
	merging []int32     // indexes of fields
	stepped []int32     // indexes of fields
	groups  []group
	byName  map[string]int32
	rest    int32   // index of the field for what has none; -1: there is none
	size    uintptr // of the plain fields
}

type fieldInfo struct {
	name   string // in JSON
	key    string // the name as the key of a member, with the colon
	path   string // in Go
	typ    reflect.Type
	tag    reflect.StructTag
	off    uintptr
	salt   uint64 // distinguishes the fields' hashes
	quoted bool   // by the tag option "string"
	omit   bool   // by the tag options omitempty or omitzero

	// Of plain fields.
	ops    []op
	floats []floats
	simple reflect.Kind // of a type that encodes itself in the way of its kind; else Invalid

	// Of merging fields.
	tab        unsafe.Pointer // method table of field.Merger
	zero       field.Merger   // never written to
	open       bool
	rest       bool
	infallible bool
	checker    bool
	keeping    bool
	replaces   bool // each change replaces the value, as those of a plain field do
	hashing    bool
	growing    bool
	stepped    bool
	unrecorded bool
}

// op is a part of a plain field that is compared and copied as one.
type op struct {
	kind opKind
	off  uintptr
	n    uintptr
}

type opKind uint8

const (
	opBytes opKind = iota // n bytes without pointers and padding
	opString
	opTime
)

// floats is a run of n floats of the given size.
type floats struct{ off, n, size uintptr }

// group is a run of fields without padding in and between them: when their
// memory is the same, so are their values.
type group struct {
	off, n   uintptr // n = 0: memory says nothing, look at the fields
	from, to int     // in layout.plain
}

// groupFields bounds the number of fields of a group: when one of them has
// changed, all are looked at.
const groupFields = 16

var seed = maphash.MakeSeed()

// Of returns the Type for S, or everything that is wrong with S.
func Of[S any]() (*Type, []plan.Problem) {
	t := &Type{memory: memoryOf[S](), zero: unsafe.Pointer(new(S))}
	typ := reflect.TypeFor[S]()
	w := walker{names: map[string]string{}}
	if typ.Kind() != reflect.Struct {
		w.problem("", typ, "a state is a struct", "declare a struct with a field for each value")
		return nil, w.problems
	}
	w.promoted(typ)
	w.structFields(typ, "", 0)
	if w.problems != nil {
		return nil, w.problems
	}
	t.init(w.fields)
	return t, nil
}

func (t *Type) init(fields []fieldInfo) {
	t.layout.init(fields)
	t.scratch.New = func() any { return newScratch(len(fields)) }
}

// merges sets what is known of a merging field by a zero one.
func (f *fieldInfo) merges(m field.Merger) {
	f.tab, f.zero = tableOf(m), m
	if i, ok := m.(field.Infallible); ok {
		f.infallible = i.Infallible()
	}
	_, f.checker = m.(field.Checker)
	_, f.keeping = m.(field.Keeping)
	_, f.hashing = m.(Hashing)
	if r, ok := m.(Replacing); ok {
		f.replaces = r.Replaces()
	}
	_, f.growing = m.(field.Growing)
	_, f.stepped = m.(field.Stepped)
	_, f.unrecorded = m.(field.Unrecorded)
}

// Hashing is implemented by the Merger of a field whose values may have a hash: what it
// was and what changes have made it differ exactly if that is progress, so that changes
// that cancel out are none. Where ok is false, and of other fields, each change is
// progress that doesn't keep the value.
type Hashing interface {
	field.Merger
	Hash() (h uint64, ok bool)
}

// Replacing is implemented by the Merger of a field of which each change may replace the
// value, whatever it was.
type Replacing interface {
	field.Merger
	Replaces() bool
}

func (l *layout) init(fields []fieldInfo) {
	l.fields, l.rest = fields, -1
	l.byName = make(map[string]int32, len(fields))
	for i := range fields {
		f := &fields[i]
		f.salt = mix(maphash.String(seed, f.name)) | 1
		key, _ := json.Marshal(f.name) // a string cannot fail
		f.key = string(key) + ":"
		if f.tab == nil && !f.quoted && !goschema.Opaque(f.typ) {
			f.simple = f.typ.Kind()
		}
		l.byName[f.name] = int32(i)
		if f.rest {
			l.rest = int32(i)
		}
		if f.tab != nil {
			l.merging = append(l.merging, int32(i))
			if f.stepped {
				l.stepped = append(l.stepped, int32(i))
			}
			continue
		}
		f.replaces = true
		l.size += f.typ.Size()
		if len(f.ops) > 0 {
			l.plain = append(l.plain, int32(i))
			l.group(f)
		}
	}
}

// group adds the last of l.plain, f, to the last group or to a new one.
func (l *layout) group(f *fieldInfo) {
	at := len(l.plain) - 1
	end := f.off
	for _, o := range f.ops {
		if o.off != end {
			l.groups = append(l.groups, group{from: at, to: at + 1})
			return
		}
		end += o.n
	}
	if n := len(l.groups); n > 0 {
		g := &l.groups[n-1]
		if g.n > 0 && g.off+g.n == f.off && g.to-g.from < groupFields {
			g.n, g.to = end-g.off, at+1
			return
		}
	}
	l.groups = append(l.groups, group{off: f.off, n: end - f.off, from: at, to: at + 1})
}

// iface is the memory of a value of a non-empty interface type.
type iface struct{ tab, data unsafe.Pointer }

// field returns a merging field of the state at s.
func (f *fieldInfo) field(s unsafe.Pointer) (m field.Merger) {
	i := (*iface)(unsafe.Pointer(&m))
	i.tab, i.data = f.tab, unsafe.Add(s, f.off)
	return m
}

func dataOf(m field.Merger) unsafe.Pointer {
	return (*iface)(unsafe.Pointer(&m)).data
}

func tableOf(m field.Merger) unsafe.Pointer {
	return (*iface)(unsafe.Pointer(&m)).tab
}

// mergerOf returns the Merger of a zero t. It returns nil if t is no merging field
// type, or its Merger isn't a pointer to the field, all of it.
func mergerOf(t reflect.Type) (m field.Merger) {
	zero := reflect.New(t)
	f, ok := zero.Interface().(field.Merging)
	if !ok {
		return nil
	}
	defer func() { _ = recover() }() // the method may be that of something embedded that is nil
	of := f.Merger()
	if p := reflect.ValueOf(of); p.Kind() == reflect.Pointer && p.Pointer() == zero.Pointer() && p.Type().Elem().Size() == t.Size() {
		m = of
	}
	return m
}

// value returns a pointer to a field of the state at s.
func (f *fieldInfo) value(s unsafe.Pointer) any {
	return reflect.NewAt(f.typ, unsafe.Add(s, f.off)).Interface()
}

// Merged calls f with the changes of merging fields among what a task wrote.
func (t *Type) Merged(written any, f func(field.Change)) {
	if c, ok := written.(*changes); ok {
		for _, m := range c.merged {
			f(m.Change)
		}
	}
}

// Size returns the number of bytes that the plain fields take in each copy of
// the state, without what strings refer to.
func (t *Type) Size() int { return int(t.size) }

var (
	marshalerType   = reflect.TypeFor[json.Marshaler]()
	unmarshalerType = reflect.TypeFor[json.Unmarshaler]()
	mergingType     = reflect.TypeFor[field.Merging]()
)
