package engine

import (
	"bytes"

	"github.com/benbjohnson/immutable"
)

// SideRows are the side rows of a thread, for drivers that have them in memory. The zero
// value has none. A copy stays as it is when the other one is changed.
type SideRows struct {
	rows  *immutable.SortedMap[string, SideRow]
	order int64

	Bytes int64 // of all keys and values
}

// each calls f for the rows that q selects, in order, as long as it returns true. They are
// not to be changed.
func (s *SideRows) each(q SideQuery, f func(r SideRow) bool) {
	if s.rows == nil {
		return
	}
	it := s.rows.Iterator()
	step := it.Next
	switch {
	case !q.Desc:
		it.Seek(string(q.From))
	case q.Below == nil:
		it.Last()
		step = it.Prev
	default:
		if it.Seek(string(q.Below)); it.Done() { // all are below
			it.Last()
		}
		step = it.Prev
	}
	for n := 0; !it.Done(); {
		key, r, _ := step()
		switch {
		case key < string(q.From) || !q.Desc && q.Below != nil && key >= string(q.Below):
			return
		case q.Below != nil && key >= string(q.Below):
			continue
		}
		if n++; !f(r) || n == q.Limit {
			return
		}
	}
}

// Select returns the rows that q selects.
func (s *SideRows) Select(q SideQuery) (out []SideRow) {
	s.each(q, func(r SideRow) bool {
		out = append(out, SideRow{Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value), Order: r.Order})
		return true
	})
	return out
}

// Has reports whether there is a row with a key.
func (s *SideRows) Has(key []byte) bool {
	if s.rows == nil {
		return false
	}
	_, ok := s.rows.Get(string(key))
	return ok
}

// Under reports whether there are rows whose keys begin with a prefix.
func (s *SideRows) Under(prefix []byte) (found bool) {
	s.each(SideQuery{From: prefix, Below: Below(prefix), Limit: 1}, func(SideRow) bool { found = true; return true })
	return found
}

// Change does with the rows what a [Commit] says. It returns how many of put were ignored.
func (s *SideRows) Change(remove [][]byte, put []Put, clear [][]byte) (ignored int) {
	if s.rows == nil {
		s.rows = immutable.NewSortedMap[string, SideRow](nil)
	}
	for _, k := range remove {
		s.remove(k)
	}
	for _, p := range put {
		old, ok := s.rows.Get(string(p.Key))
		if ok && !p.Replace {
			ignored++
			continue
		}
		if !ok {
			s.order++
			old.Order = s.order
			s.Bytes += int64(len(p.Key))
		}
		s.Bytes += int64(len(p.Value) - len(old.Value))
		s.rows = s.rows.Set(string(p.Key), SideRow{Key: bytes.Clone(p.Key), Value: bytes.Clone(p.Value), Order: old.Order})
	}
	for _, prefix := range clear {
		for _, r := range s.Select(SideQuery{From: prefix, Below: Below(prefix)}) {
			s.remove(r.Key)
		}
	}
	return ignored
}

func (s *SideRows) remove(key []byte) {
	if old, ok := s.rows.Get(string(key)); ok {
		s.Bytes -= int64(len(old.Key) + len(old.Value))
		s.rows = s.rows.Delete(string(key))
	}
}
