package file

import (
	"bytes"
	"fmt"
	"slices"
	"sort"

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
	side   engine.SideRows
	rows   int64 // bytes of lines with records, without side rows
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

// live returns how many bytes of the file are of use still, about: side rows are in base64,
// as a rule.
func (x *index) live() int64 { return x.rows + x.side.Bytes*4/3 }

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
		x.rows += int64(n - p.putSize)
	}
	if slices.ContainsFunc(p.put, func(p engine.Put) bool { return len(p.Key) == 0 }) {
		return errNotALine
	}
	x.side.Change(p.delete, p.put, p.clear)
	x.lines++
	return nil
}
