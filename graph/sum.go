package graph

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/superstep-dev/superstep/field"
)

// Number is what a [Sum] can hold.
type Number interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 |
		~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 |
		~float32 | ~float64
}

// Sum is a state field to which tasks add: a counter, a score, a cost. What the
// tasks of one superstep add is added up. An overwrite replaces what stands
// before it in plan order; two different overwrites in one superstep are an
// error.
//
// Integers wrap around on overflow, as in Go. A float that becomes infinite or
// NaN is an error.
//
// The zero Sum is 0 and ready to use. Like all field types it may be copied,
// and is used by one goroutine at a time.
type Sum[N Number] struct {
	stamp stamp
	base  N
	pend  N    // to add to base
	over  bool // base is 0: what was there is replaced
}

// Add adds n, which may be negative.
func (s *Sum[N]) Add(n N) {
	s.stamp.own()
	s.pend += n
}

// Get returns the sum.
func (s *Sum[N]) Get() N { return s.base + s.pend }

// Overwrite sets the sum to n.
func (s *Sum[N]) Overwrite(n N) {
	s.stamp.own()
	s.base, s.pend, s.over = 0, n, true
}

// IsZero reports whether the sum is 0; encoding/json's omitzero uses it.
func (s Sum[N]) IsZero() bool { return isZero(s.Get()) }

// String formats the sum as fmt.Sprint does.
func (s Sum[N]) String() string { return fmt.Sprint(s.Get()) }

// MarshalJSON returns the sum as a number.
func (s Sum[N]) MarshalJSON() ([]byte, error) { return json.Marshal(s.Get()) }

// UnmarshalJSON replaces the sum.
func (s *Sum[N]) UnmarshalJSON(data []byte) error {
	var n N
	if err := json.Unmarshal(data, &n); err != nil {
		return err
	}
	*s = Sum[N]{base: n}
	return nil
}

// Merger implements [field.Merging], for the engine.
func (s *Sum[N]) Merger() field.Merger { return (*sumMerger[N])(s) }

// sumMerger is a Sum as the engine sees it.
type sumMerger[N Number] Sum[N]

// Bind implements [field.Merger].
func (f *sumMerger[N]) Bind() {
	s := (*Sum[N])(f)
	s.base, s.pend, s.over = s.Get(), 0, false
	s.stamp.bind()
}

// Change implements [field.Merger].
func (f *sumMerger[N]) Change() (field.Change, error) {
	s := (*Sum[N])(f)
	if err := s.stamp.check(); err != nil {
		return nil, err
	}
	if !s.over && s.pend == 0 {
		return nil, nil
	}
	if err := finite(s.pend, s.Get()); err != nil {
		return nil, err
	}
	return &sumChange[N]{n: s.pend, over: s.over}, nil
}

// Write implements [field.Merger].
func (f *sumMerger[N]) Write(c field.Change) error {
	s := (*Sum[N])(f)
	sc, err := changeAs[*sumChange[N]](c)
	switch {
	case err != nil:
	case sc.over:
		s.Overwrite(sc.n)
	default:
		s.Add(sc.n)
	}
	return err
}

// Apply implements [field.Merger].
func (f *sumMerger[N]) Apply(c field.Change) error {
	s := (*Sum[N])(f)
	sc, err := changeAs[*sumChange[N]](c)
	if err != nil {
		return err
	}
	n := sc.n
	if !sc.over {
		n += s.Get()
	}
	if err := finite(n); err != nil {
		return err
	}
	*s = Sum[N]{base: n}
	return nil
}

// DecodeChange implements [field.Merger]. It takes the number to add, or
// {"$overwrite": number}.
func (*sumMerger[N]) DecodeChange(data []byte) (field.Change, error) {
	c := new(sumChange[N])
	if ops, ok := operations(data, opOverwrite); ok {
		data, c.over = ops[opOverwrite], true
	}
	if err := json.Unmarshal(data, &c.n); err != nil {
		return nil, err
	}
	return c, nil
}

// Check implements [field.Checker]: only overwrites can conflict.
func (*sumMerger[N]) Check(cs []field.Change) (later, earlier int, err error) {
	return checkOverwrites(cs)
}

// Hash implements [state.Hashing].
func (f *sumMerger[N]) Hash() (h uint64, ok bool) { return hashScalar(&f.base), true }

// Infallible implements [field.Infallible]: floats can overflow.
func (*sumMerger[N]) Infallible() bool { return !holdsFraction[N]() }

// SchemaOf implements [field.Schemer].
func (*sumMerger[N]) SchemaOf() any { return *new(N) }

func holdsFraction[N Number]() bool {
	one := N(1)
	return one/2 != 0
}

type sumChange[N Number] struct {
	n    N
	over bool
}

func (c *sumChange[N]) overwrites() bool { return c.over }

func (c *sumChange[N]) equals(o field.Change) bool { return equal(c.n, o.(*sumChange[N]).n) }

func (c *sumChange[N]) MarshalJSON() ([]byte, error) {
	if c.over {
		return json.Marshal(map[string]N{opOverwrite: c.n})
	}
	return json.Marshal(c.n)
}

// AppendJSON spares the engine from looking at the JSON once more.
func (c *sumChange[N]) AppendJSON(b []byte) ([]byte, error) {
	if n, ok := any(c.n).(int); ok && !c.over {
		return strconv.AppendInt(b, int64(n), 10), nil
	}
	data, err := c.MarshalJSON()
	return append(b, data...), err
}
