package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
)

// costOf is how many bytes read cost as much as a comparison.
const costOf = 8

// budget is what a request that reads many states may still cost. When that is used
// up, or the client leaves, its context ends.
type budget struct {
	ctx  context.Context
	stop context.CancelCauseFunc

	limit, read int // bytes
	compared    int // values
}

// budget returns what a request may cost. Its context ends with the request's.
func (s *base) budget(r *http.Request) *budget {
	b := &budget{limit: s.limits.Read}
	b.ctx, b.stop = context.WithCancelCause(r.Context())
	return b
}

// spend counts bytes that were read. What is read first may be of any size.
func (b *budget) spend(n int) error {
	if b.ctx.Err() == nil && b.read > 0 && over(b.read+n, b.limit) {
		b.stop(invalid("the states that this asks for are larger than %d bytes: ask for fewer at a time, or leave values out with select", b.limit))
	}
	b.read += n
	return b.failed()
}

// compare counts a comparison. It is false when there were too many.
func (b *budget) compare() bool {
	if b.compared++; b.compared%1024 != 0 {
		return true
	}
	if over(costOf*b.compared, b.limit) {
		b.stop(invalid("the search compares more than %d values: ask for fewer elements at a time", b.limit/costOf))
	}
	return b.ctx.Err() == nil
}

// failed says why the budget's context has ended, if it has.
func (b *budget) failed() error {
	if b.ctx.Err() == nil {
		return nil
	}
	return context.Cause(b.ctx)
}

// or returns why the budget's context has ended rather than the errors that came of
// that.
func (b *budget) or(err error) error {
	if failed := b.failed(); failed != nil {
		return errors.Join(failed, err)
	}
	return err
}

// pattern is JSON that another must hold: objects have at least its members, arrays
// at least its elements.
type pattern struct {
	members  map[string]*pattern // of an object
	elements []*pattern          // of an array: objects and arrays
	scalars  map[any]bool        // and the others
	scalar   any                 // if it is neither
}

func patternOf(want any) *pattern {
	p := &pattern{}
	switch w := want.(type) {
	case map[string]any:
		p.members = map[string]*pattern{}
		for k, v := range w {
			p.members[k] = patternOf(v)
		}
	case []any:
		p.scalars = map[any]bool{}
		for _, v := range w {
			switch v.(type) {
			case map[string]any, []any:
				p.elements = append(p.elements, patternOf(v))
			default:
				p.scalars[v] = true
			}
		}
	default:
		p.scalar = want
	}
	return p
}

// holds reports whether JSON holds a pattern. It is false when the budget is used up.
func (p *pattern) holds(have any, b *budget) bool {
	if !b.compare() {
		return false
	}
	switch h := have.(type) {
	case map[string]any:
		for k, v := range p.members {
			if hv, ok := h[k]; !ok || !v.holds(hv, b) {
				return false
			}
		}
		return p.members != nil
	case []any:
		return p.scalars != nil && p.within(h, b)
	default:
		return p.members == nil && p.scalars == nil && have == p.scalar
	}
}

// within reports whether a list has the elements of a pattern.
func (p *pattern) within(list []any, b *budget) bool {
	left := make(map[any]bool, len(p.scalars))
	for v := range p.scalars {
		left[v] = true
	}
	wanted := append([]*pattern(nil), p.elements...)
	for _, v := range list {
		if len(left) == 0 && len(wanted) == 0 {
			return true
		}
		switch v.(type) {
		case map[string]any, []any:
			rest := wanted[:0]
			for _, w := range wanted {
				if !w.holds(v, b) {
					rest = append(rest, w)
				}
			}
			wanted = rest
		default:
			if !b.compare() {
				return false
			}
			delete(left, v)
		}
	}
	return len(left) == 0 && len(wanted) == 0
}

// matching returns a test of JSON for what a search asks for.
func matching(want object, b *budget) func(json.RawMessage) bool {
	if len(want) == 0 {
		return func(json.RawMessage) bool { return true }
	}
	var w any
	_ = json.Unmarshal(want.raw(), &w)
	p := patternOf(w)
	return func(have json.RawMessage) bool {
		var h any
		return b.ctx.Err() == nil && json.Unmarshal(have, &h) == nil && p.holds(h, b)
	}
}
