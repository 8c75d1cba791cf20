package graph

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"sync/atomic"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/field"
	"github.com/superstep-dev/superstep/internal/jsonscan"
)

// List is a state field that holds a sequence to which tasks add. What the
// tasks of one superstep add is concatenated in plan order. An overwrite
// replaces what stands before it in plan order; two different overwrites in one
// superstep are an error.
//
// A step that adds k items costs O(k), times the logarithm of the list's length at most.
//
// Items are frozen once added: memory that they refer to may not be altered any
// more, neither by who added them nor by who reads them. Items of a type with a
// method Clone() T are exempt: they are cloned when added and whenever they are
// handed out.
//
// The zero List is empty and ready to use. Like all field types it may be
// copied, and is used by one goroutine at a time.
type List[T any] struct {
	stamp stamp
	base  vec[T]
	pend  []T  // added since Bind; only ever appended to
	over  bool // base is none: what was there is replaced
}

// Add appends items. The slice is copied.
func (l *List[T]) Add(items ...T) {
	own := l.stamp.own()
	if len(items) == 0 {
		return
	}
	if !own {
		l.pend = l.pend[:len(l.pend):len(l.pend)] // so that append makes a copy
	}
	n := len(l.pend)
	l.pend = append(l.pend, items...)
	if clone := cloner[T](); clone != nil {
		for i := n; i < len(l.pend); i++ {
			l.pend[i] = clone(l.pend[i])
		}
	}
}

// Overwrite replaces the whole list by items. The slice is copied.
func (l *List[T]) Overwrite(items ...T) {
	l.stamp.own()
	l.base, l.pend, l.over = vec[T]{}, nil, true
	l.Add(items...)
}

// Len returns the number of items.
func (l *List[T]) Len() int { return l.base.len() + len(l.pend) }

// At returns the item at index i and panics, as indexing a slice does, when
// there is none.
func (l *List[T]) At(i int) T {
	n := l.Len()
	switch pend := n - len(l.pend); {
	case i < 0 || i >= n:
		panic(fmt.Sprintf("graph: List index %d out of range with length %d", i, n))
	case i >= pend:
		return cloned(l.pend[i-pend])
	default:
		return cloned(l.base.at(i))
	}
}

// Last returns the last item, or the zero T when the list is empty.
func (l *List[T]) Last() T {
	if n := l.Len(); n > 0 {
		return l.At(n - 1)
	}
	var zero T
	return zero
}

// All returns an iterator over the indexes and items. It shows the list as it
// was when the iteration began.
func (l *List[T]) All() iter.Seq2[int, T] {
	return func(yield func(int, T) bool) {
		clone := cloner[T]()
		n := 0
		l.parts(func(part []T) bool {
			for _, item := range part {
				if clone != nil {
					item = clone(item)
				}
				if !yield(n, item) {
					return false
				}
				n++
			}
			return true
		})
	}
}

// Slice returns the items as a new slice, nil when there are none.
func (l *List[T]) Slice() []T {
	n := l.Len()
	if n == 0 {
		return nil
	}
	items := l.joined(n)
	if clone := cloner[T](); clone != nil {
		for i := range items {
			items[i] = clone(items[i])
		}
	}
	return items
}

// IsZero reports whether the list is empty; encoding/json's omitzero uses it.
func (l List[T]) IsZero() bool { return l.Len() == 0 }

// String formats the list as fmt.Sprint does a slice.
func (l List[T]) String() string { return fmt.Sprint(l.raw()) }

// parts yields the items in the slices that they stand in, one after the other. They are
// read-only.
func (l *List[T]) parts(yield func([]T) bool) {
	if l.base.parts(yield) {
		yield(l.pend)
	}
}

// joined returns the items, n of them, in a slice of their own.
func (l *List[T]) joined(n int) []T {
	items := make([]T, 0, n)
	l.parts(func(part []T) bool { items = append(items, part...); return true })
	return items
}

// raw returns the items, not cloned, to be read only.
func (l *List[T]) raw() []T {
	switch n := l.Len(); {
	case n == len(l.pend):
		return l.pend
	case n == len(l.base.top.items):
		return l.base.top.items
	default:
		return l.joined(n)
	}
}

// settle makes what is pending part of base.
func (l *List[T]) settle() {
	if len(l.pend) > 0 {
		l.base.append(l.pend)
	}
	l.pend, l.over = nil, false
}

// MarshalJSON returns an array of the items.
func (l List[T]) MarshalJSON() ([]byte, error) {
	if l.Len() == 0 {
		return []byte("[]"), nil
	}
	return marshalArray(l.raw())
}

// UnmarshalJSON replaces the list.
func (l *List[T]) UnmarshalJSON(data []byte) error {
	items, err := unmarshalArray[T](data)
	if err == nil {
		*l = List[T]{base: vec[T]{top: run[T]{items: items[:len(items):len(items)]}}}
	}
	return err
}

// Merger implements [field.Merging], for the engine.
func (l *List[T]) Merger() field.Merger { return (*listMerger[T])(l) }

// listMerger is a List as the engine sees it.
type listMerger[T any] List[T]

// Bind implements [field.Merger].
func (f *listMerger[T]) Bind() {
	l := (*List[T])(f)
	if l.over || len(l.pend) > 0 {
		l.settle()
	}
	l.stamp.bind()
}

// Change implements [field.Merger].
func (f *listMerger[T]) Change() (field.Change, error) {
	if err := f.stamp.check(); err != nil {
		return nil, err
	}
	if !f.over && len(f.pend) == 0 {
		return nil, nil
	}
	if err := finite(f.pend...); err != nil {
		return nil, err
	}
	// The capacity is cut so that the change sees nothing of a later append.
	return &listChange[T]{items: f.pend[:len(f.pend):len(f.pend)], over: f.over}, nil
}

// Write implements [field.Merger].
func (f *listMerger[T]) Write(c field.Change) error {
	l := (*List[T])(f)
	lc, err := changeAs[*listChange[T]](c)
	switch {
	case err != nil:
	case lc.over:
		l.Overwrite(lc.items...)
	default:
		l.Add(lc.items...)
	}
	return err
}

// Apply implements [field.Merger].
func (f *listMerger[T]) Apply(c field.Change) error {
	l := (*List[T])(f)
	lc, err := changeAs[*listChange[T]](c)
	if err != nil {
		return err
	}
	l.settle()
	if lc.over {
		l.base = vec[T]{}
	}
	l.base.append(lc.items)
	return nil
}

// DecodeChange implements [field.Merger]. It takes an array of the items to
// add, or {"$overwrite": [...]}.
func (*listMerger[T]) DecodeChange(data []byte) (field.Change, error) {
	c := new(listChange[T])
	if ops, ok := operations(data, opOverwrite); ok {
		data, c.over = ops[opOverwrite], true
	}
	var err error
	c.items, err = unmarshalArray[T](data)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Check implements [field.Checker]: only overwrites can conflict.
func (*listMerger[T]) Check(cs []field.Change) (later, earlier int, err error) {
	return checkOverwrites(cs)
}

// Infallible implements [field.Infallible].
func (*listMerger[T]) Infallible() bool { return true }

// Keeps implements [field.Keeping].
func (f *listMerger[T]) Keeps(c field.Change) bool {
	lc, ok := c.(*listChange[T])
	return ok && lc.over && len(lc.items) == f.base.len() && equalSlices(lc.items, (&List[T]{base: f.base}).raw())
}

// Resets implements [field.Growing].
func (*listMerger[T]) Resets(c field.Change) bool {
	lc, ok := c.(*listChange[T])
	return ok && lc.over
}

// SchemaOf implements [field.Schemer].
func (*listMerger[T]) SchemaOf() any { return []T(nil) }

type listChange[T any] struct {
	items []T
	over  bool
}

func (c *listChange[T]) overwrites() bool { return c.over }

func (c *listChange[T]) equals(o field.Change) bool {
	return equalSlices(c.items, o.(*listChange[T]).items)
}

func (c *listChange[T]) MarshalJSON() ([]byte, error) { return c.AppendJSON(nil) }

// AppendJSON spares the engine from looking at the JSON once more.
func (c *listChange[T]) AppendJSON(b []byte) ([]byte, error) {
	if err := encodable(c.items...); err != nil {
		return nil, err
	}
	items := c.items
	if items == nil {
		items = []T{}
	}
	if !c.over {
		return appendJSON(b, &items)
	}
	b, err := appendJSON(append(b, overwritten...), &items)
	return append(b, '}'), err
}

// overwriting is a change that may be an overwrite.
type overwriting interface {
	overwrites() bool
	equals(o field.Change) bool // of another overwrite of the field
}

// overwrites reports whether a change replaces the value, whatever it was.
func overwrites(c field.Change) bool {
	o, ok := c.(overwriting)
	return !ok || o.overwrites()
}

// checkOverwrites finds the first overwrite that differs from an earlier one.
func checkOverwrites(cs []field.Change) (later, earlier int, err error) {
	first := -1
	for i, c := range cs {
		switch c := c.(overwriting); {
		case !c.overwrites():
		case first < 0:
			first = i
		case !c.equals(cs[first]):
			return i, first, errOverwrite
		}
	}
	return -1, -1, nil
}

// run is a slice of which several copies share one backing array. The copy that
// reaches to the end of the array's used part may append in place. So no copy ever sees
// a change.
type run[T any] struct {
	items []T
	used  *atomic.Int64 // length of the used part; nil: the array has no room
}

// newRun returns a copy of some items, with room for more if it is to have some.
func newRun[T any](room int, parts ...[]T) run[T] {
	r := run[T]{items: make([]T, 0, room)}
	for _, part := range parts {
		r.items = append(r.items, part...)
	}
	if len(r.items) < room {
		r.used = new(atomic.Int64)
		r.used.Store(int64(len(r.items)))
	}
	return r
}

// extend appends in place, if it may.
func (r *run[T]) extend(more []T) bool {
	n, m := len(r.items), len(r.items)+len(more)
	if r.used == nil || m > cap(r.items) || !r.used.CompareAndSwap(int64(n), int64(m)) {
		return false
	}
	r.items = append(r.items, more...)
	return true
}

// append makes an array of its own where it may not append in place.
func (r *run[T]) append(more []T) {
	if n := len(r.items); n == 0 {
		*r = run[T]{items: slices.Clip(more)} // which is frozen
	} else if !r.extend(more) {
		*r = newRun(max(n+len(more), n+n/2, 4), r.items, more)
	}
}

// class is the same for runs whose lengths are about the same.
func (r *run[T]) class() int { return bits.Len(uint(len(r.items))) / 3 }

// vec is a sequence of which several copies share what they have in common: runs, of
// which only the last is ever appended to. A copy that can't append in place begins a run
// of its own: a thread's state that is kept and that of the run which begins with it both
// grow, by the same items, at every turn. Once there are many runs of about the same
// length they become one, so that an item is copied, and a sequence has runs, in
// proportion to the logarithm of its length.
type vec[T any] struct {
	under  *vec[T] // what stands before; it is shared, and never altered
	before int     // items in under
	top    run[T]
}

func (v *vec[T]) len() int { return v.before + len(v.top.items) }

func (v *vec[T]) at(i int) T {
	for i < v.before {
		v = v.under
	}
	return v.top.items[i-v.before]
}

// parts yields the items in order; it reports whether yield never said no.
func (v *vec[T]) parts(yield func([]T) bool) bool {
	return (v.under == nil || v.under.parts(yield)) && yield(v.top.items)
}

const (
	runFrom  = 24 // items that are worth a run beside another
	runsMax  = 8  // of about the same length
	runTaken = 4  // items that are worth a run by themselves
)

func (v *vec[T]) append(more []T) {
	if v.len() < runFrom {
		v.top.append(more)
		return
	}
	if len(more) == 0 || v.top.extend(more) {
		return
	}
	top := run[T]{items: slices.Clip(more)} // which is frozen
	if n := len(v.top.items); v.top.used != nil || len(more) < runTaken {
		room := 2 * len(more)
		if v.top.used != nil && cap(v.top.items) < n+len(more) { // it has grown in place, and will go on so
			room = max(room, 2*n)
		}
		top = newRun(room, more)
	}
	under := *v
	*v = vec[T]{under: &under, before: under.len(), top: top}
	for v.join() {
	}
}

// join makes the last runs one if there are many of about the same length.
func (v *vec[T]) join() bool {
	runs, at, class := 0, v, v.top.class()
	for ; at != nil && at.top.class() <= class; at = at.under {
		runs++
	}
	if runs < runsMax {
		return false
	}
	next := vec[T]{under: at}
	if at != nil {
		next.before = at.len()
	}
	next.top.items = make([]T, v.len()-next.before)
	for w := v; w != at; w = w.under {
		copy(next.top.items[w.before-next.before:], w.top.items)
	}
	*v = next
	return true
}

// marshalArray is json.Marshal with [] for nil.
func marshalArray[T any](items []T) ([]byte, error) {
	if items == nil {
		items = []T{}
	}
	return json.Marshal(items)
}

func unmarshalArray[T any](data []byte) ([]T, error) {
	var items []T
	if texts, ok := any(&items).(*[]string); ok {
		if *texts, ok = plainTexts(data); ok {
			return items, nil
		}
	}
	n := 0
	if jsonscan.Elements(data, func([]byte) bool { n++; return n < mostItems }) || n == mostItems {
		items = make([]T, 0, n)
	}
	err := decodeJSON(data, &items)
	return items, err
}

// mostItems is for how many items room is made at once.
const mostItems = 1024

// plainTexts reads an array of strings if it is compact and they are plain:
// ASCII without any escapes. That is the bulk of many conversations, and
// encoding/json reads it at a tenth of the speed.
func plainTexts(b []byte) (items []string, ok bool) {
	if len(b) < 2 || b[0] != '[' || b[len(b)-1] != ']' {
		return nil, false
	}
	for b = b[1:]; len(b) > 1 && b[0] == '"'; b = b[1:] {
		end := bytes.IndexByte(b[1:], '"') + 1
		if end == 0 || !plainText(b[1:end]) {
			return nil, false
		}
		items = append(items, string(b[1:end]))
		if b = b[end+1:]; len(b) == 1 { // the closing bracket
			return items, true
		}
		if b[0] != ',' {
			return nil, false
		}
	}
	return nil, false
}

func plainText(b []byte) bool {
	for _, c := range b {
		if c < ' ' || c >= utf8.RuneSelf || c == '\\' {
			return false
		}
	}
	return true
}
