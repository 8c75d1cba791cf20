package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"math/bits"
	"slices"
	"time"
	"unsafe"

	"github.com/superstep-dev/superstep/field"
	"github.com/superstep-dev/superstep/internal/core"
)

// changes is what one task wrote. It holds copies: a goroutine that the task
// left behind may go on writing to the task's state.
type changes struct {
	values unsafe.Pointer // of a state with the new values of the plain fields; nil when there are none
	plain  []int32        // indexes of fields, ascending
	merged []merged       // ascending

	// Where plain and merged begin: most tasks write to few fields.
	firstPlain  [2]int32
	firstMerged [1]merged
}

func newChanges() *changes {
	c := new(changes)
	c.plain, c.merged = c.firstPlain[:0], c.firstMerged[:0]
	return c
}

type merged struct {
	field int32
	field.Change
}

// New implements [core.Values].
func (t *Type) New() any { return t.state(t.copy(t.zero)) }

// Fork implements [core.Values].
func (t *Type) Fork(base any) any {
	s := t.room()
	t.fork(s, t.at(base))
	return t.state(s)
}

// fork makes the state at s, which is zero in Go's sense, a fork of base.
func (t *Type) fork(s, base unsafe.Pointer) {
	t.copyTo(s, base)
	if t.apart != nil {
		return
	}
	for _, i := range t.merging {
		t.fields[i].field(s).Bind()
	}
}

// forks is [core.Forks].
type forks[S any] struct {
	t    *Type
	made core.Pieces[S]
	look *S
}

// Forks implements [core.Values].
func (t *Type) Forks() core.Forks { return t.memory.forks(t) }

func (f *forks[S]) Fork(base any) any {
	s := f.made.Next()
	f.t.fork(unsafe.Pointer(s), f.t.at(base))
	return s
}

func (f *forks[S]) Look(base any) any {
	if f.look == nil {
		f.look = new(S)
	} else {
		clear(unsafe.Slice(f.look, 1))
	}
	f.t.fork(unsafe.Pointer(f.look), f.t.at(base))
	return f.look
}

// Ahead implements [core.Values].
func (t *Type) Ahead(base any) any {
	if len(t.stepped) == 0 {
		return base
	}
	s := t.copy(t.at(base))
	for _, i := range t.stepped {
		t.fields[i].field(s).(field.Stepped).Ahead()
	}
	return t.Fork(t.state(s))
}

// Changes implements [core.Values].
func (t *Type) Changes(base, fork, reuse any) (any, error) {
	b, f := t.at(base), t.at(fork)
	c, _ := reuse.(*changes)
	if c != nil {
		t.reset(c)
	}
	for i := range t.groups {
		g := &t.groups[i]
		if g.n > 0 && sameBytes(b, f, g.off, g.n) {
			continue
		}
		for _, at := range t.plain[g.from:g.to] {
			fi := &t.fields[at]
			if fi.equal(b, f) {
				continue
			}
			if err := fi.finite(f); err != nil {
				return nil, fi.err(err)
			}
			if c == nil {
				c = t.wrote()
			} else if c.values == nil {
				c.values = t.room()
			}
			fi.copy(c.values, f)
			c.plain = append(c.plain, at)
		}
	}
	for n := 0; ; n++ {
		at, m := t.written(f, n)
		if m == nil {
			break
		}
		ch, err := m.Change()
		if err != nil {
			return nil, t.fields[at].err(err)
		}
		if ch == nil {
			continue
		}
		if c == nil {
			c = newChanges()
		}
		c.merged = append(c.merged, merged{at, ch})
	}
	if c == nil || c.empty() {
		return nil, nil
	}
	return c, nil
}

// written returns the merging fields of a fork that may have been written to, one after
// the other in their order, and nil after the last.
func (t *Type) written(s unsafe.Pointer, n int) (at int32, m field.Merger) {
	if t.apart != nil {
		return t.apart.owned(s, n)
	}
	if n == len(t.merging) {
		return 0, nil
	}
	at = t.merging[n]
	return at, t.fields[at].field(s)
}

func (c *changes) empty() bool { return len(c.plain)+len(c.merged) == 0 }

// reset empties c and lets go of what it refers to.
func (t *Type) reset(c *changes) {
	for _, at := range c.plain {
		fi := &t.fields[at]
		for _, o := range fi.ops {
			if o.kind == opString {
				*(*string)(unsafe.Add(c.values, o.off)) = ""
			}
		}
	}
	clear(c.merged)
	c.plain, c.merged = c.plain[:0], c.merged[:0]
}

// Fold implements [core.Values].
func (t *Type) Fold(base any, cs []any, when core.When) (next any, digest uint64, err error) {
	n, infallible := 0, true
	for _, c := range cs {
		if c == nil {
			continue
		}
		n++
		for _, m := range c.(*changes).merged {
			infallible = infallible && t.fields[m.field].infallible
		}
	}
	if n > 1 {
		if err := t.conflict(cs); err != nil {
			return nil, 0, err
		}
	}
	s := t.at(base)
	if !infallible {
		s = t.copy(s)
	}
	digest, err = t.apply(s, cs, when)
	if err != nil {
		return nil, 0, err
	}
	return t.state(s), digest, nil
}

func (t *Type) apply(s unsafe.Pointer, cs []any, when core.When) (digest uint64, err error) {
	var at, index int
	defer func() {
		if p := recover(); p != nil {
			err = &core.FoldError{Field: t.fields[at].name, Index: index, With: -1, Err: panicError(p)}
		}
	}()
	for i, c := range cs {
		if c == nil {
			continue
		}
		index = i
		c := c.(*changes)
		for _, p := range c.plain {
			fi := &t.fields[p]
			digest -= fi.hash(s)
			fi.copy(s, c.values)
			digest += fi.hash(s)
		}
		for _, m := range c.merged {
			at = int(m.field)
			fi := &t.fields[m.field]
			f := fi.field(t.own(s, m.field))
			was, hashes := uint64(0), false
			if fi.hashing {
				was, hashes = f.(Hashing).Hash()
			}
			if !hashes && (!fi.keeping || !f.(field.Keeping).Keeps(m.Change)) {
				digest += fi.salt
			}
			if fi.stepped && when == core.Given {
				err = f.(field.Stepped).Give(m.Change)
			} else {
				err = f.Apply(m.Change)
			}
			if err != nil {
				return 0, &core.FoldError{Field: fi.name, Index: i, With: -1, Err: err}
			}
			if hashes {
				is, _ := f.(Hashing).Hash()
				digest += fi.salt * (is - was)
			}
		}
	}
	if when == core.Committed {
		for _, i := range t.stepped {
			at = int(i)
			if t.fields[i].field(s).(field.Stepped).EndStep() {
				digest += t.fields[i].salt
			}
		}
	}
	return digest, nil
}

func panicError(p any) error {
	if err, ok := p.(error); ok {
		return fmt.Errorf("panic: %w", err)
	}
	return fmt.Errorf("panic: %v", p)
}

var errConflict = errors.New("two tasks of one superstep set different values; use a merging field, such as graph.List or graph.Reduced, or let one task write it")

// scratch is what the search for conflicts needs. Everything is by field.
type scratch struct {
	writer  []int32 // the task that wrote the plain field, plus 1
	changes [][]field.Change
	tasks   [][]int32 // that made the changes
	touched []int32
}

func newScratch(fields int) *scratch {
	return &scratch{writer: make([]int32, fields), changes: make([][]field.Change, fields), tasks: make([][]int32, fields)}
}

func (s *scratch) reset() {
	for _, at := range s.touched {
		s.writer[at] = 0
		clear(s.changes[at])
		s.changes[at], s.tasks[at] = s.changes[at][:0], s.tasks[at][:0]
	}
	s.touched = s.touched[:0]
}

// manyWriters is how many tasks have written to a field when room is made for all.
const manyWriters = 64

// conflict returns a *core.FoldError for the first task that conflicts with an
// earlier one.
func (t *Type) conflict(cs []any) error {
	sc := t.scratch.Get().(*scratch)
	defer t.scratch.Put(sc)
	defer sc.reset()
	first := &core.FoldError{Index: math.MaxInt}
	for i, c := range cs {
		if c == nil {
			continue
		}
		c := c.(*changes)
		for _, at := range c.plain {
			w := sc.writer[at]
			if w == 0 {
				sc.writer[at] = int32(i) + 1
				sc.touched = append(sc.touched, at)
				continue
			}
			fi := &t.fields[at]
			if i < first.Index && !fi.equal(c.values, cs[w-1].(*changes).values) {
				first = &core.FoldError{Field: fi.name, Index: i, With: int(w - 1), Err: errConflict}
			}
		}
		for _, m := range c.merged {
			n := len(sc.changes[m.field])
			if n == 0 {
				sc.touched = append(sc.touched, m.field)
			}
			if n == manyWriters { // most likely the rest of a fan-out writes to it, too
				sc.changes[m.field] = slices.Grow(sc.changes[m.field], len(cs)-i)
				sc.tasks[m.field] = slices.Grow(sc.tasks[m.field], len(cs)-i)
			}
			sc.changes[m.field] = append(sc.changes[m.field], m.Change)
			sc.tasks[m.field] = append(sc.tasks[m.field], int32(i))
		}
	}
	for _, at := range t.merging {
		fi := &t.fields[at]
		if len(sc.changes[at]) < 2 || !fi.checker {
			continue
		}
		later, earlier, err := fi.check(sc.changes[at])
		if err != nil && int(sc.tasks[at][later]) < first.Index {
			first = &core.FoldError{Field: fi.name, Index: int(sc.tasks[at][later]), With: int(sc.tasks[at][earlier]), Err: err}
		}
	}
	if first.Err == nil {
		return nil
	}
	return first
}

// check finds the first of cs that conflicts with an earlier one. A panic
// counts as a conflict of the change that was looked at.
func (f *fieldInfo) check(cs []field.Change) (later, earlier int, err error) {
	defer func() {
		if p := recover(); p != nil {
			later, err = max(later, 1), panicError(p)
		}
	}()
	return f.zero.(field.Checker).Check(cs)
}

func (f *fieldInfo) err(err error) error { return fmt.Errorf("field %q: %w", f.name, err) }

func bytesAt(s unsafe.Pointer, off, n uintptr) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(s, off)), n)
}

func sameBytes(a, b unsafe.Pointer, off, n uintptr) bool {
	return unsafe.String((*byte)(unsafe.Add(a, off)), n) == unsafe.String((*byte)(unsafe.Add(b, off)), n)
}

// equal compares a plain field of the states at a and b.
func (f *fieldInfo) equal(a, b unsafe.Pointer) bool {
	for i := range f.ops {
		o := &f.ops[i]
		if sameBytes(a, b, o.off, o.n) {
			continue
		}
		switch o.kind {
		case opBytes:
			return false
		case opString:
			if *(*string)(unsafe.Add(a, o.off)) != *(*string)(unsafe.Add(b, o.off)) {
				return false
			}
		case opTime:
			ta, tb := *(*time.Time)(unsafe.Add(a, o.off)), *(*time.Time)(unsafe.Add(b, o.off))
			_, oa := ta.Zone()
			_, ob := tb.Zone()
			if oa != ob || !ta.Equal(tb) {
				return false
			}
		}
	}
	return true
}

// copy copies a plain field of the state at src to the one at dst.
func (f *fieldInfo) copy(dst, src unsafe.Pointer) {
	for i := range f.ops {
		o := &f.ops[i]
		switch o.kind {
		case opBytes:
			copy(bytesAt(dst, o.off, o.n), bytesAt(src, o.off, o.n))
		case opString:
			*(*string)(unsafe.Add(dst, o.off)) = *(*string)(unsafe.Add(src, o.off))
		case opTime:
			*(*time.Time)(unsafe.Add(dst, o.off)) = Stored(*(*time.Time)(unsafe.Add(src, o.off)))
		}
	}
}

// Stored returns t as it is after having been stored: live and replayed states
// are the same.
func Stored(t time.Time) time.Time {
	_, offset := t.Zone()
	if offset == 0 {
		return t.Round(0).UTC()
	}
	return t.Round(0).In(time.FixedZone("", offset))
}

var errNotFinite = errors.New("NaN and infinity cannot be stored")

// finite returns an error when a float of a plain field cannot be stored.
func (f *fieldInfo) finite(s unsafe.Pointer) error {
	for _, run := range f.floats {
		for i := range run.n {
			p := unsafe.Add(s, run.off+i*run.size)
			var x float64
			if run.size == 4 {
				x = float64(*(*float32)(p))
			} else {
				x = *(*float64)(p)
			}
			if math.IsNaN(x) || math.IsInf(x, 0) {
				return fmt.Errorf("%w: %v", errNotFinite, x)
			}
		}
	}
	return nil
}

// hash hashes a plain field of the state at s.
func (f *fieldInfo) hash(s unsafe.Pointer) uint64 {
	h := f.salt
	for i := range f.ops {
		o := &f.ops[i]
		switch o.kind {
		case opBytes:
			b := bytesAt(s, o.off, o.n)
			switch {
			case len(b) == 8:
				h = mix(h ^ binary.NativeEndian.Uint64(b))
			case len(b) == 1:
				h = mix(h ^ uint64(b[0]))
			default:
				h = mix(h ^ maphash.Bytes(seed, b))
			}
		case opString:
			h = mix(h ^ maphash.String(seed, *(*string)(unsafe.Add(s, o.off))))
		case opTime:
			t := *(*time.Time)(unsafe.Add(s, o.off))
			_, offset := t.Zone()
			h = mix(h ^ uint64(t.Unix()))
			h = mix(h ^ uint64(t.Nanosecond())<<32 ^ uint64(uint32(offset)))
		}
	}
	return h
}

// mix spreads the bits of x.
func mix(x uint64) uint64 {
	hi, lo := bits.Mul64(x^0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9)
	x = hi ^ lo
	x ^= x >> 31
	x *= 0x94d049bb133111eb
	return x ^ x>>29
}
