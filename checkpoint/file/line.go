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
	"github.com/superstep-dev/superstep/internal/jsonscan"
)

// Version is the format version of the files that this package reads and writes.
const Version = 8

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

const plainFormat = "100" // which records leave out

// codec writes a line or reads one: see [jsonscan.Codec].
type codec struct{ jsonscan.Codec }

func (c *codec) number(key string, n *int64, other int64) { jsonscan.Integer(&c.Codec, key, n, other) }

func (c *codec) truth(key string, v *bool, other bool) {
	jsonscan.Take(&c.Codec, key, v, other, strconv.AppendBool, (*jsonscan.Codec).Bool)
}

func (c *codec) text(key string, s *string, other string) {
	jsonscan.Take(&c.Codec, key, s, other, appendText[string], textIn)
}

// time takes a time that is always said, in nanoseconds since 1970.
func (c *codec) time(key string, at *int64) {
	if !c.Has(key, true) {
		c.Fail()
	} else if c.Writing {
		c.B = append(time.Unix(0, *at).UTC().AppendFormat(append(c.B, '"'), time.RFC3339Nano), '"')
	} else {
		t, err := time.Parse(time.RFC3339Nano, string(bytes.Trim(c.Value(), `"`)))
		if *at = t.UnixNano(); err != nil {
			c.Fail()
		}
		c.Step()
	}
}

// texts takes an array of texts. One that isn't said stays.
func texts[T ~string | ~[]byte](c *codec, key string, l *[]T, said bool) {
	if !c.Has(key, said) {
		return
	}
	if !c.Writing {
		*l = nil
	}
	c.List(len(*l), func(i int) {
		if c.Writing {
			c.B = appendText(c.B, (*l)[i])
		} else {
			*l = append(*l, T(textIn(&c.Codec)))
		}
	})
	c.Step()
}

// puts takes side rows: their keys and values in turn.
func (c *codec) puts(e *entry) {
	var all [][]byte
	for _, p := range e.put {
		all = append(all, p.Key, p.Value)
	}
	from, size := c.From, len(c.B)
	texts(c, "put", &all, len(all) > 0)
	if e.putSize = len(c.B) - size; c.Writing {
		return
	}
	e.putSize = c.From - from
	for p := range slices.Chunk(all, 2) {
		if len(p) != 2 || len(p[0]) == 0 {
			c.Fail()
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
	if !c.Writing && (e.seq < 1 || c.I != len(c.B)) {
		c.Fail()
	}
}

// id takes the ID of a record, which is left out if it is the one after that of the record
// before in its log.
func (c *codec) id(e *entry, prev idKey) {
	var run, id string
	e.key = keyOf(e.row.ID) // none as yet when reading
	switch {
	case !c.Writing, e.key.follows(prev):
	case binary.BigEndian.Uint32(e.key[12:]) == 1:
		run = string(e.row.ID[:len(e.row.ID)-len(firstOfRun)])
	default:
		id = string(e.row.ID)
	}
	c.text("run", &run, "")
	c.text("id", &id, "")
	switch {
	case c.Writing:
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
	if !c.Writing || e.loose {
		e.header = next
	}
	h := &e.header
	held, late := !root, int64(none)
	if c.Writing {
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
	} else if !c.Writing && held {
		h.Lease = was.Lease
	} else if !c.Writing {
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
	if c.Writing && (e.full || r.Bytes != prev.bytes+int64(len(r.Meta)+len(r.Data))) {
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
	if c.Writing {
		c.B = e.body.append(c.B, r.Data, e.key, prev.id, graph)
		return
	}
	if c.Next == nil || c.Err != nil {
		c.Fail()
		return
	}
	if err := e.body.read(c.B[c.From:]); err != nil {
		c.Err = err
		return
	}
	c.I = len(c.B)
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
	c := codec{jsonscan.Codec{Writing: true, B: make([]byte, 0, n)}}
	c.line(e, x, -1)
	c.B[0] = '{'
	return append(seal(seed, c.B), '\n'), nil
}

// read returns what the body of a line says whose checksum fits, until the next call; see
// codec.line for i.
func (x *index) read(body []byte, i int) (*entry, error) {
	e := &x.reading
	*e = entry{}
	c := codec{jsonscan.Codec{B: body}}
	c.Begin()
	if c.line(e, x, i); c.Err != nil {
		return e, fmt.Errorf("%w: %w", errNotALine, c.Err)
	}
	return e, nil
}

// body is a record as a line has it.
type body struct {
	format, graph, parent []byte   // of the row's Meta, if they are there
	members               [][]byte // the others, with their keys
	kind                  byte     // of data: d for a value, s for several, r for other bytes
	data                  []byte
	size                  int // of the row's Data
	room                  [12][]byte
}

// read reads the members of a record, with which the text ends.
func (m *body) read(text []byte) error {
	m.members = m.room[:0]
	c := jsonscan.Codec{B: text}
	for more := true; more && c.Err == nil; more = c.More() {
		at := c.I
		switch k := string(c.Key()); k {
		case "d": // the last, and the longest
			m.kind, m.data, m.size, c.I = 'd', text[c.I:], len(text)-c.I, len(text)
		case "ds":
			from := c.I
			c.List(0, func(int) { m.size += len(c.Value()) })
			m.kind, m.data = 's', text[from:c.I]
		case "raw":
			m.kind, m.data = 'r', quoted(&c)
			m.size = rawSize(m.data)
		case "v":
			m.format = c.Value()
		case "g":
			m.graph = c.Value()
		case "p":
			m.parent = c.Value()
		default:
			c.Value()
			m.members = append(m.members, text[at:c.I])
		}
	}
	if c.I != len(text) {
		c.Fail()
	}
	return c.Err
}

// append appends a record: its Meta, which was read, without what the record before with its
// ID and the graph of its log say, and its data.
func (m *body) append(b, data []byte, id, prev idKey, graph []byte) []byte {
	var buf [32]byte
	start := len(b)
	if string(m.format) != plainFormat {
		b = append(append(b, `,"v":`...), m.format...)
	}
	if m.graph != nil && !bytes.Equal(m.graph, graph) {
		b = append(append(b, `,"g":`...), m.graph...)
	}
	if m.parent != nil && !(id.apart(prev) && bytes.Equal(m.parent, prev.parent(buf[:0]))) {
		b = append(append(b, `,"p":`...), m.parent...)
	}
	for _, k := range m.members {
		b = append(append(b, ','), k...)
	}
	if n := values(data); n == 1 {
		b = append(append(b, `,"d":`...), data...)
	} else if n > 1 {
		c := jsonscan.Codec{B: data}
		b = append(b, `,"ds":`...)
		for i := range n {
			b = append(append(b, "[,"[min(i, 1)]), c.Value()...)
		}
		b = append(b, ']')
	} else if len(data) > 0 {
		b = append(append(append(b, `,"raw":"`...), rawEscapes.Replace(string(data))...), '"')
	}
	if len(b) == start { // else there would be no record
		b = append(append(b, `,"v":`...), m.format...)
	}
	return b
}

// meta appends the Meta of a row, whose record was read.
func (m *body) meta(b []byte, id, prev idKey, graph []byte) []byte {
	if m.graph != nil {
		graph = m.graph
	}
	b = append(b, `{"v":`...)
	if m.format != nil {
		b = append(b, m.format...)
	} else {
		b = append(b, plainFormat...)
	}
	if graph != nil {
		b = append(append(b, `,"g":`...), graph...)
	}
	if m.parent != nil {
		b = append(append(b, `,"p":`...), m.parent...)
	} else if id.apart(prev) {
		b = prev.parent(append(b, `,"p":`...))
	}
	for _, k := range m.members {
		b = append(append(b, ','), k...)
	}
	return append(b, '}')
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
		c := jsonscan.Codec{B: m.data}
		r.Data = make([]byte, 0, len(m.data))
		c.List(0, func(int) { r.Data = append(r.Data, c.Value()...) })
	case m.kind == 'r':
		r.Data = []byte(rawUnescapes.Replace(string(m.data)))
	}
	r.Seal(thread)
	return *r, nil
}
