package file

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/engine"
)

// Version is the format version of the files that this package reads and writes.
const Version = 7

// fullEvery is after how many lines a record of the thread's own log leaves nothing out, so
// that not many of them have to be read.
const fullEvery = 64

// none is a number that a line does not say.
const none = math.MinInt64

// entry is what a line says, with what it leaves out because lines before say it.
type entry struct {
	seq     int64
	version int64 // of the format; 0: it isn't said
	full    bool  // it leaves out nothing
	at      int64 // when, in nanoseconds since 1970; a row's At
	thread  string
	beside  bool // it has no record

	header engine.Header
	loose  bool // what it says of the header is of no matter: a later line says it
	leased bool // it says the lease

	delete, clear [][]byte
	put           []engine.Put // all replace
	putSize       int          // how many bytes they take in the line

	row  engine.Row // what was read has no Meta and no Data
	key  idKey      // of its ID
	body body
}

// root reports whether a line has a record of the thread's own log.
func (e *entry) root() bool { return !e.beside && e.row.Namespace == "" }

// idKey is an ID in its short form; zero if it has none.
type idKey [16]byte

func keyOf(id checkpoint.ID) idKey {
	b, _ := id.Bytes()
	return b
}

// next returns the ID after k in its run; zero if there is none.
func (k idKey) next() idKey {
	n := binary.BigEndian.Uint32(k[12:])
	if k == (idKey{}) || n == 1<<32-1 {
		return idKey{}
	}
	binary.BigEndian.PutUint32(k[12:], n+1)
	return k
}

// follows reports whether an ID is the next one after prev in the same run.
func (k idKey) follows(prev idKey) bool { return k != idKey{} && k == prev.next() }

// parent returns how a record says that the one with this ID is its parent.
func (k idKey) parent(b []byte) []byte {
	return append(base64.RawURLEncoding.AppendEncode(append(b, '"', '*'), k[:]), '"')
}

// apart reports whether records say another parent than the one before with its ID does.
func (k idKey) apart(prev idKey) bool { return prev != (idKey{}) && !k.follows(prev) }

// firstOfRun ends the ID of the first record of a run, which its line leaves out.
const firstOfRun = "00000001"

const formatMember = `"v":100` // what records of format 100 leave out

// codec writes a line or reads one. Its methods take the members of a line in their order:
// each writes the value, unless it is the other one, or reads it, and takes the other one
// where the line doesn't have the member.
type codec struct {
	cursor
	writing bool   // to b
	key     []byte // the next member's when reading
	start   int    // where it begins
}

// step goes to the next member.
func (c *codec) step() {
	c.key = nil
	if c.start = c.i + 1; c.err == nil && c.i < len(c.b) {
		c.expect(',')
		c.key = c.cursor.key()
	}
}

// has reports whether the line has a member, of which the value is next. When writing it has
// those that are said.
func (c *codec) has(key string, said bool) bool {
	if !c.writing {
		return c.err == nil && string(c.key) == key
	}
	if said {
		c.b = append(append(append(c.b, `,"`...), key...), `":`...)
	}
	return said
}

// take takes a member by how it is written and read.
func take[T comparable](c *codec, key string, v *T, other T, write func([]byte, T) []byte, read func(*cursor) T) {
	switch has := c.has(key, *v != other); {
	case !has:
		*v = other
	case c.writing:
		c.b = write(c.b, *v)
	default:
		*v = read(&c.cursor)
		c.step()
	}
}

func (c *codec) number(key string, n *int64, other int64) {
	take(c, key, n, other, func(b []byte, n int64) []byte { return strconv.AppendInt(b, n, 10) }, (*cursor).number)
}

func (c *codec) truth(key string, v *bool, other bool) {
	take(c, key, v, other, strconv.AppendBool, (*cursor).truth)
}

func (c *codec) text(key string, s *string, other string) {
	take(c, key, s, other, appendText[string], (*cursor).text)
}

// time takes a time that is always said, in nanoseconds since 1970.
func (c *codec) time(key string, at *int64) {
	if !c.has(key, true) {
		c.fail()
	} else if c.writing {
		c.b = append(time.Unix(0, *at).UTC().AppendFormat(append(c.b, '"'), time.RFC3339Nano), '"')
	} else {
		t, err := time.Parse(time.RFC3339Nano, string(bytes.Trim(c.value(), `"`)))
		if *at = t.UnixNano(); err != nil {
			c.fail()
		}
		c.step()
	}
}

// texts takes an array of texts. One that isn't said stays.
func texts[T ~string | ~[]byte](c *codec, key string, l *[]T, said bool) {
	if !c.has(key, said) {
		return
	}
	if c.writing {
		c.b = append(c.b, '[')
		for i, s := range *l {
			if i > 0 {
				c.b = append(c.b, ',')
			}
			c.b = appendText(c.b, s)
		}
		c.b = append(c.b, ']')
		return
	}
	*l = nil
	c.list(func() { *l = append(*l, T(c.cursor.text())) })
	c.step()
}

// puts takes side rows: their keys and values in turn.
func (c *codec) puts(e *entry) {
	var all [][]byte
	for _, p := range e.put {
		all = append(all, p.Key, p.Value)
	}
	from, size := c.start, len(c.b)
	texts(c, "put", &all, len(all) > 0)
	if e.putSize = len(c.b) - size; c.writing {
		return
	}
	e.putSize = c.start - from
	for p := range slices.Chunk(all, 2) {
		if len(p) != 2 || len(p[0]) == 0 {
			c.fail()
			return
		}
		e.put = append(e.put, engine.Put{Key: p[0], Value: p[1], Replace: true})
	}
}

// line takes a line: the next one of a file, or that of row i of a log, if i isn't negative.
// It fails if what it reads says no line.
func (c *codec) line(e *entry, x *index, i int) {
	c.number("seq", &e.seq, none)
	c.number("v", &e.version, 0)
	if e.full = e.version != 0; e.full && e.version != Version {
		return
	}
	c.time("at", &e.at)
	if e.seq == 1 && !e.full { // format 6 and those before say it here
		c.number("v", &e.version, 0)
		return
	}
	if e.full && e.seq == 1 {
		c.text("thread", &e.thread, "")
	}
	c.truth("beside", &e.beside, false)
	c.text("ns", &e.row.Namespace, "")
	lx, prev := x.logs[e.row.Namespace], rowAt{}
	if lx == nil {
		lx = new(logIndex)
	}
	if i < 0 {
		i = len(lx.rows)
	}
	if i > 0 && !e.full {
		prev = lx.rows[i-1]
	}
	if !e.beside {
		c.id(e, prev.id)
	}
	c.header(e, x)
	texts(c, "delete", &e.delete, len(e.delete) > 0)
	c.puts(e)
	texts(c, "clear", &e.clear, len(e.clear) > 0)
	if !e.beside {
		c.row(e, lx, prev)
	}
	if !c.writing && (e.seq < 1 || c.i != len(c.b)) {
		c.fail()
	}
}

// id takes the ID of a record, which is left out if it is the one after that of the record
// before in its log.
func (c *codec) id(e *entry, prev idKey) {
	var run, id string
	e.key = keyOf(e.row.ID) // none as yet when reading
	switch {
	case !c.writing, e.key.follows(prev):
	case binary.BigEndian.Uint32(e.key[12:]) == 1:
		run = string(e.row.ID[:len(e.row.ID)-len(firstOfRun)])
	default:
		id = string(e.row.ID)
	}
	c.text("run", &run, "")
	c.text("id", &id, "")
	switch {
	case c.writing:
		return
	case run != "":
		id = run + firstOfRun
	case id == "":
		if e.key = prev.next(); e.key != (idKey{}) {
			e.row.ID = checkpoint.IDFromBytes(e.key)
		}
		return
	}
	e.row.ID, e.key = checkpoint.ID(id), keyOf(checkpoint.ID(id))
}

func sameLease(a, b *checkpoint.Lease) bool {
	return a.Holder == b.Holder && a.TTL == b.TTL && a.Until.Equal(b.Until)
}

func sameHeader(a, b *engine.Header) bool {
	return a.Version == b.Version && a.Fence == b.Fence && sameLease(&a.Lease, &b.Lease) && a.Woken.Equal(b.Woken) &&
		a.HeadDue.Equal(b.HeadDue) && a.Listed == b.Listed && a.Minute == b.Minute && slices.Equal(a.Labels, b.Labels)
}

// header takes the header: what is another than before, but for what follows from the
// record of the thread's own log, if the line has one.
func (c *codec) header(e *entry, x *index) {
	was, last, root := x.header, x.last, e.root()
	if e.full {
		was, last = engine.Header{}, lease{}
	}
	next := was
	if root {
		next.Listed, next.Minute, next.Lease = true, time.Unix(0, e.at).Unix()/60, checkpoint.Lease{}
	}
	if !c.writing || e.loose {
		e.header = next
	}
	h := &e.header
	held, late := !root, int64(none)
	if c.writing {
		switch same := sameLease(&h.Lease, &was.Lease); {
		case h.Lease == checkpoint.Lease{}:
			held = !root && same
		case same:
			held = true
		default:
			late = h.Lease.Until.UnixMicro() - e.at/1000 - h.Lease.TTL.Microseconds()
		}
	}
	c.truth("held", &held, !root)
	c.number("lease", &late, none)
	if e.leased = late != none; e.leased {
		ttl := int64(h.Lease.TTL)
		c.number("ttl", &ttl, int64(last.TTL))
		c.text("holder", &h.Lease.Holder, last.of(e))
		h.Lease.TTL = time.Duration(ttl)
		h.Lease.Until = engine.FromMicroseconds(e.at/1000 + h.Lease.TTL.Microseconds() + late)
	} else if !c.writing && held {
		h.Lease = was.Lease
	} else if !c.writing {
		h.Lease = checkpoint.Lease{}
	}
	fence := int64(was.Fence)
	if e.leased && was.Lease == (checkpoint.Lease{}) { // a claim
		fence++
	}
	c.number("fence", (*int64)(&h.Fence), fence)
	woken, due := engine.Microseconds(h.Woken), engine.Microseconds(h.HeadDue)
	c.number("woken", &woken, engine.Microseconds(was.Woken))
	c.number("due", &due, engine.Microseconds(was.HeadDue))
	h.Woken, h.HeadDue = engine.FromMicroseconds(woken), engine.FromMicroseconds(due)
	minute := func(h *engine.Header) int64 {
		if !h.Listed {
			return none
		}
		return h.Minute
	}
	m := minute(h)
	if c.number("minute", &m, minute(&next)); m != none {
		h.Listed, h.Minute = true, m
	}
	texts(c, "labels", &h.Labels, !slices.Equal(h.Labels, was.Labels))
	version := h.Version
	if h.Version = was.Version; !sameHeader(h, &was) {
		h.Version++
	}
	if e.loose {
		version = h.Version
	}
	c.number("version", &version, h.Version)
	h.Version = version
}

// lease is the last one that a line said, and the run of that line's record.
type lease struct {
	checkpoint.Lease
	run checkpoint.ID
}

// of returns the holder that a lease has as a rule: the one before, or the same of another
// run.
func (l *lease) of(e *entry) string {
	if rest, ok := bytes.CutPrefix([]byte(l.Holder), []byte(l.run)); ok && l.run != "" && e.root() {
		return string(e.row.ID.Run()) + string(rest)
	}
	return l.Holder
}

// row takes the members of a row, the last of which is its record.
func (c *codec) row(e *entry, lx *logIndex, prev rowAt) {
	r := &e.row
	c.number("place", &r.Place, e.seq)
	c.number("count", &r.Count, r.Place)
	size := int64(none)
	if c.writing && (e.full || r.Bytes != prev.bytes+int64(len(r.Meta)+len(r.Data))) {
		size = r.Bytes
	}
	c.number("bytes", &size, none)
	c.text("top", (*string)(&r.Top), string(r.ID))
	c.text("b", (*string)(&r.Branch), "")
	c.number("q", &r.Seq, r.Place)
	graph := lx.graph
	if e.full {
		graph = nil
	}
	if c.writing {
		c.b = e.body.append(c.b, r.Data, e.key, prev.id, graph)
		return
	}
	if c.key == nil || c.err != nil {
		c.fail()
		return
	}
	if err := e.body.read(c.b[c.start:]); err != nil {
		c.err = err
		return
	}
	c.i = len(c.b)
	if r.Bytes = size; size == none {
		var room [512]byte
		r.Bytes = prev.bytes + int64(len(e.body.meta(room[:0], e.key, prev.id, graph))+e.body.size)
	}
}

// write returns the next line of a thread's file, with its newline. It completes what e says.
func (x *index) write(thread checkpoint.ThreadID, seed uint32, e *entry) ([]byte, error) {
	r := &e.row
	n := 512 + len(r.Meta) + len(r.Data)
	for _, p := range e.put {
		n += len(p.Key) + len(p.Value)
	}
	e.seq = x.lines + 1
	e.full = e.seq == 1 || e.root() && e.seq >= x.full+fullEvery
	if !e.beside {
		m := &e.body
		if n := len(r.Meta) - 1; n < 1 || r.Meta[0] != '{' || r.Meta[n] != '}' || m.read(r.Meta[1:n]) != nil || m.data != nil || bytes.IndexByte(r.Meta, '\n') >= 0 {
			return nil, fmt.Errorf("%w: thread %q, record %s: %w", checkpoint.ErrInvalid, thread, r.ID, errNotALine)
		}
		if lx := x.logs[r.Namespace]; lx != nil { // else it would be read with what it doesn't have
			e.full = e.full || m.parent == nil && keyOf(r.ID).apart(lx.last().id) || m.graph == nil && lx.graph != nil
		}
	}
	if e.full {
		e.version, e.thread = Version, string(thread)
	}
	c := codec{cursor: cursor{b: make([]byte, 0, n)}, writing: true}
	c.line(e, x, -1)
	c.b[0] = '{'
	return append(seal(seed, c.b), '\n'), nil
}

// read returns what the body of a line says whose checksum fits, until the next call; see
// codec.line for i.
func (x *index) read(body []byte, i int) (*entry, error) {
	e := &x.reading
	*e = entry{}
	c := codec{cursor: cursor{b: body}}
	c.expect('{')
	c.start, c.key = c.i, c.cursor.key()
	c.line(e, x, i)
	return e, c.err
}

// body is a record as a line has it.
type body struct {
	members [][]byte // of the row's Meta
	parent  []byte   // values of some
	graph   []byte
	kind    byte // of data: d for a value, s for several, r for other bytes
	data    []byte
	size    int // of the row's Data
	room    [12][]byte
}

// read reads the members of a record, with which the text ends.
func (m *body) read(text []byte) error {
	m.members = m.room[:0]
	c := cursor{b: text}
	for more := true; more && c.err == nil; more = c.more() {
		at := c.i
		switch k := string(c.key()); k {
		case "d": // the last, and the longest
			m.kind, m.data, m.size, c.i = 'd', text[c.i:], len(text)-c.i, len(text)
		case "ds":
			from := c.i
			c.list(func() { m.size += len(c.value()) })
			m.kind, m.data = 's', text[from:c.i]
		case "raw":
			m.kind, m.data = 'r', c.quoted()
			m.size = rawSize(m.data)
		default:
			v := c.value()
			switch k {
			case "p":
				m.parent = v
			case "g":
				m.graph = v
			}
			m.members = append(m.members, text[at:c.i])
		}
	}
	if c.i != len(text) {
		c.fail()
	}
	return c.err
}

// append appends a record: its Meta, which was read, without what the record before with its
// ID and the graph of its log say, and its data.
func (m *body) append(b, data []byte, id, prev idKey, graph []byte) []byte {
	is := func(k []byte, key string) bool { return len(k) > 4 && k[1] == key[0] && k[2] == '"' }
	start, apart := len(b), id.apart(prev)
	var buf [32]byte
	for i, k := range m.members {
		switch {
		case i == 0 && string(k) == formatMember:
		case apart && is(k, "p") && bytes.Equal(k[4:], prev.parent(buf[:0])):
		case is(k, "g") && bytes.Equal(k[4:], graph):
		default:
			b = append(append(b, ','), k...)
		}
	}
	if n := values(data); n == 1 {
		b = append(append(b, `,"d":`...), data...)
	} else if n > 1 {
		c := cursor{b: data}
		b = append(b, `,"ds":`...)
		for i := range n {
			b = append(append(b, "[,"[min(i, 1)]), c.value()...)
		}
		b = append(b, ']')
	} else if len(data) > 0 {
		b = append(append(append(b, `,"raw":"`...), rawEscapes.Replace(string(data))...), '"')
	}
	if len(b) == start { // else there would be no record
		b = append(append(b, ','), formatMember...)
	}
	return b
}

// meta appends the Meta of a row, whose record was read.
func (m *body) meta(b []byte, id, prev idKey, graph []byte) []byte {
	format, rest := []byte(formatMember), m.members
	if len(rest) > 0 && bytes.HasPrefix(rest[0], []byte(`"v":`)) {
		format, rest = rest[0], rest[1:]
	}
	b = append(append(append(b, '{'), format...), ',')
	if m.parent == nil && id.apart(prev) {
		b = append(prev.parent(append(b, `"p":`...)), ',')
	}
	if m.graph == nil && graph != nil {
		b = append(append(append(b, `"g":`...), graph...), ',')
	}
	for _, k := range rest {
		b = append(append(b, k...), ',')
	}
	b[len(b)-1] = '}'
	return b
}

// row returns row i of its log, whose line was read and has a checksum that fits.
func (x *index) row(thread checkpoint.ThreadID, text []byte, i int, meta bool) (engine.Row, error) {
	e, err := x.read(text, i)
	if err == nil && e.beside {
		err = errNotALine
	}
	if err != nil {
		return engine.Row{}, err
	}
	r, m := &e.row, &e.body
	lx, prev, graph := x.logs[r.Namespace], idKey{}, []byte(nil)
	if !e.full {
		if graph = lx.graph; i > 0 {
			prev = lx.rows[i-1].id
		}
	}
	r.At, r.Bytes = e.at, lx.rows[i].bytes
	r.Meta = m.meta(make([]byte, 0, len(text)-len(m.data)+len(graph)+64), lx.rows[i].id, prev, graph)
	switch {
	case meta:
	case m.kind == 'd':
		r.Data = m.data
	case m.kind == 's':
		c := cursor{b: m.data}
		r.Data = make([]byte, 0, len(m.data))
		c.list(func() { r.Data = append(r.Data, c.value()...) })
	case m.kind == 'r':
		r.Data = []byte(rawUnescapes.Replace(string(m.data)))
	}
	r.Seal(thread)
	return *r, nil
}
