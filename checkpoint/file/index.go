package file

import (
	"bytes"
	"fmt"
	"sort"

	"github.com/superstep-dev/superstep/checkpoint/engine"
)

// index is what is known of a thread's file: what its lines say but for the contents of
// rows, and where these are.
type index struct {
	lines   int64
	full    int64 // the last line that left nothing out
	header  engine.Header
	last    lease
	logs    map[string]*logIndex
	side    engine.SideRows
	rows    int64 // bytes of lines with records, without side rows
	reading entry
	end     bool // of the lines only those at the file's end are known, and of the logs only the thread's own
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
func (x *index) apply(e *entry, off int64, n int) error {
	if e.seq != x.lines+1 {
		return fmt.Errorf("line %d follows line %d", e.seq, x.lines)
	}
	r := &e.row
	if !e.beside && !(x.end && r.Namespace != "") {
		lx := x.logs[r.Namespace]
		if lx == nil {
			lx = new(logIndex)
			x.logs[r.Namespace] = lx
		}
		if r.ID == "" {
			return errUnsaid
		}
		if r.Place <= lx.newest() || r.Place >= 1<<32 {
			return fmt.Errorf("record %d follows record %d", r.Place, lx.newest())
		}
		if len(lx.rows) == 0 && !x.end { // whose first record is not among them
			lx.graph = bytes.Clone(e.body.graph)
		}
		lx.rows = append(lx.rows, rowAt{off: off, n: uint32(n), place: uint32(r.Place), id: e.key, bytes: r.Bytes})
		x.rows += int64(n - e.putSize)
	}
	if e.leased && e.header.Lease.TTL == 0 {
		return errUnsaid
	}
	if e.full {
		x.last = lease{}
		if e.root() {
			x.full = e.seq
		}
	}
	if e.leased {
		x.last = lease{Lease: e.header.Lease}
		if e.root() {
			x.last.run = r.ID.Run()
		}
	}
	x.header = e.header
	x.side.Change(e.delete, e.put, e.clear)
	x.lines++
	return nil
}

var errUnsaid = fmt.Errorf("%w: it leaves out what no line before says", errNotALine)
