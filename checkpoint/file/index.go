package file

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/engine"
)

// index is what is known of a thread's file: what its lines say but for the contents of
// rows, and where these are.
type index struct {
	lines  int64
	header engine.Header
	said   place // of the last lease
	logs   map[string]*logIndex
	kinds  []kind // side rows by the first byte of their key
	order  int64  // of the last side row that was new
	live   int64  // bytes of lines that are of use still
}

func newIndex() *index { return &index{logs: map[string]*logIndex{}} }

// logIndex is where the rows of a log are.
type logIndex struct {
	graph []byte // that of the first one's record, as it is written there
	rows  []rowAt
}

type rowAt struct {
	off   int64
	n     uint32 // bytes of the line, with its newline
	place uint32
	id    idKey
	bytes int64 // see engine.Row
}

// last returns the newest row, zero if there is none.
func (lx *logIndex) last() (r rowAt) {
	if len(lx.rows) > 0 {
		r = lx.rows[len(lx.rows)-1]
	}
	return r
}

// add takes in the record of a line of n bytes that stands at off.
func (lx *logIndex) add(p *parsed, text []byte, off int64, n int) error {
	last := lx.last()
	r := rowAt{off: off, n: uint32(n), place: uint32(p.place), id: keyOf(p.id), bytes: p.bytes}
	if p.id == "" {
		if r.id = last.id.next(); r.id == (idKey{}) {
			return errUnsaid
		}
	}
	var m body
	if err := m.read(text[p.recAt:]); err != nil {
		return err
	}
	if len(lx.rows) == 0 && lx.graph == nil {
		lx.graph = bytes.Clone(m.graph)
	}
	if r.bytes == 0 {
		var room [512]byte
		r.bytes = last.bytes + int64(len(lx.appendMeta(room[:0], &m, p.own, r.id, last.id))+m.size)
	}
	lx.rows = append(lx.rows, r)
	return nil
}

// find returns the index of the first row at a place or above it.
func (lx *logIndex) find(place int64) int {
	return sort.Search(len(lx.rows), func(i int) bool { return int64(lx.rows[i].place) >= place })
}

func (lx *logIndex) newest() (place int64) {
	if lx != nil {
		place = int64(lx.last().place)
	}
	return place
}

// kind is the side rows whose keys begin with one byte, in order.
type kind struct {
	first byte
	rows  []sideAt
}

// sideAt is a side row. A long value stands in the file: element nth of the line at off.
type sideAt struct {
	key   string
	value string
	order int64
	off   int64
	n     int32 // bytes of the line
	nth   int32
	size  int32 // bytes that it takes in its line
	long  bool
}

const longValue = 64

// ofKind returns the side rows that begin with a byte.
func (x *index) ofKind(first byte) *kind {
	i, ok := slices.BinarySearchFunc(x.kinds, first, func(k kind, b byte) int { return cmp.Compare(k.first, b) })
	if !ok {
		x.kinds = slices.Insert(x.kinds, i, kind{first: first})
	}
	return &x.kinds[i]
}

// find returns where a key is, or belongs.
func (k *kind) find(key string) (int, bool) {
	if n := len(k.rows); n == 0 || k.rows[n-1].key < key {
		return n, false
	}
	return slices.BinarySearchFunc(k.rows, key, func(s sideAt, key string) int { return strings.Compare(s.key, key) })
}

func (x *index) has(key []byte) bool {
	if len(key) == 0 {
		return false
	}
	_, ok := x.ofKind(key[0]).find(string(key))
	return ok
}

// under reports whether there are side rows whose keys begin with a prefix.
func (x *index) under(prefix []byte) bool {
	found := false
	x.each(prefix, engine.Below(prefix), func(*sideAt) bool { found = true; return false })
	return found
}

// each calls f for the side rows with keys of at least from and below another, in order.
func (x *index) each(from, below []byte, f func(s *sideAt) bool) {
	for i := range x.kinds {
		rows := x.kinds[i].rows
		at := sort.Search(len(rows), func(i int) bool { return rows[i].key >= string(from) })
		for ; at < len(rows) && (below == nil || rows[at].key < string(below)); at++ {
			if !f(&rows[at]) {
				return
			}
		}
	}
}

func (x *index) putSide(s sideAt) {
	k := x.ofKind(s.key[0])
	i, ok := k.find(s.key)
	if x.live += int64(s.size); ok {
		x.live -= int64(k.rows[i].size)
		s.order = k.rows[i].order
		k.rows[i] = s
		return
	}
	x.order++
	s.order = x.order
	k.rows = slices.Insert(k.rows, i, s)
}

// drop removes the side rows with keys of at least from and below another.
func (x *index) drop(from, below string) {
	if from == "" {
		return
	}
	k := x.ofKind(from[0])
	a, _ := k.find(from)
	b := len(k.rows)
	if below != "" {
		b, _ = k.find(below)
	}
	for i := a; i < b; i++ {
		x.live -= int64(k.rows[i].size)
	}
	k.rows = slices.Delete(k.rows, a, max(a, b))
}

// apply takes in a line of n bytes that stands at off.
func (x *index) apply(thread checkpoint.ThreadID, p *parsed, text []byte, off int64, n int) (err error) {
	if p.seq != x.lines+1 {
		return fmt.Errorf("line %d follows line %d", p.seq, x.lines)
	}
	if p.header {
		if x.header, err = p.headerAfter(&x.header, &x.said); err != nil {
			return err
		}
	}
	sides := 0
	if p.is {
		lx := x.logs[p.ns]
		if lx == nil {
			lx = new(logIndex)
			x.logs[p.ns] = lx
		}
		if p.place <= lx.newest() || p.place >= 1<<32 {
			return fmt.Errorf("record %d follows record %d", p.place, lx.newest())
		}
		if err := lx.add(p, text, off, n); err != nil {
			return err
		}
		x.live += int64(n)
	}
	for _, k := range p.delete {
		x.drop(k, k+"\x00")
	}
	for i, kv := range p.put {
		if kv[0] == "" {
			return errNotALine
		}
		s := sideAt{key: kv[0], off: off, n: int32(n), nth: int32(i), size: int32(p.putAt[i][1] - p.putAt[i][0]), long: len(kv[1]) > longValue}
		if sides += int(s.size); !s.long {
			s.value = kv[1]
		}
		x.putSide(s)
	}
	for _, prefix := range p.clear {
		x.drop(prefix, string(engine.Below([]byte(prefix))))
	}
	if p.is {
		x.live -= int64(sides)
	}
	x.lines++
	return nil
}
