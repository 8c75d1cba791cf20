package file

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/engine"
)

// Version is the format version of the files that this package reads and writes.
const Version = 6

// line is what a line is to say.
type line struct {
	at     int64          // when, in nanoseconds since 1970; a row's At
	header *engine.Header // nil: as before
	row    *engine.Row
	delete [][]byte
	put    []engine.Put // all replace
	clear  [][]byte
	loose  bool // what it says of the header and of side rows is of no matter: a later one says it
}

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

// firstOfRun ends the ID of the first record of a run, which its line leaves out.
const firstOfRun = "00000001"

// full reports whether the line of a record says its ID and its bytes even if lines before
// do: so that not many of them have to be read.
func full(place int64) bool { return place%32 == 0 }

const formatMember = `"v":100` // what records of format 100 leave out

// encode returns the next line of a thread's file, with its newline.
func (x *index) encode(thread checkpoint.ThreadID, seed uint32, l *line) ([]byte, error) {
	n := 512
	if l.row != nil {
		n += len(l.row.Meta) + len(l.row.Data)
	}
	for _, p := range l.put {
		n += len(p.Key) + len(p.Value)
	}
	b := append(make([]byte, 0, n), `{"seq":`...)
	b = strconv.AppendInt(b, x.lines+1, 10)
	b = time.Unix(0, l.at).UTC().AppendFormat(append(b, `,"at":"`...), time.RFC3339Nano)
	b = append(b, '"')
	if x.lines == 0 {
		b = appendText(append(strconv.AppendInt(append(b, `,"v":`...), Version, 10), `,"thread":`...), thread)
	}
	if l.row != nil && l.row.Namespace != "" {
		b = appendText(append(b, `,"ns":`...), l.row.Namespace)
	}
	b = x.appendHeader(b, l)
	b = appendTexts(b, "delete", l.delete)
	for i, p := range l.put {
		b = appendText(append(b, opening("put", i, `[`)...), p.Key)
		b = append(appendText(append(b, ','), p.Value), ']')
	}
	if len(l.put) > 0 {
		b = append(b, ']')
	}
	b = appendTexts(b, "clear", l.clear)
	if l.row != nil {
		lx := x.logs[l.row.Namespace]
		if lx == nil {
			lx = new(logIndex)
		}
		var err error
		if b, err = lx.appendRow(b, x.lines+1, l.row); err != nil {
			return nil, fmt.Errorf("%w: thread %q, record %s: %w", checkpoint.ErrInvalid, thread, l.row.ID, err)
		}
	}
	return append(seal(seed, b), '\n'), nil
}

// opening returns what stands before element i of a member that is an array.
func opening(key string, i int, more string) string {
	if i > 0 {
		return "," + more
	}
	return `,"` + key + `":[` + more
}

func appendTexts(b []byte, key string, list [][]byte) []byte {
	for i, k := range list {
		b = appendText(append(b, opening(key, i, "")...), k)
	}
	if len(list) > 0 {
		b = append(b, ']')
	}
	return b
}

// place is the end of a holder that begins with the ID of the run of the line's record.
type place struct {
	ttl    time.Duration
	text   string
	byRun  bool
	spoken bool // a line said one
}

func minuteOf(at int64) int64 { return time.Unix(0, at).Unix() / 60 }

// unsaid returns the header after a line, if it says nothing of it but that it is another:
// a record of the thread's own log ends the lease.
func unsaid(before *engine.Header, root bool, at int64) engine.Header {
	h := engine.Header{Version: before.Version, Fence: before.Fence}
	if root {
		h.Listed, h.Minute = true, minuteOf(at)
	}
	return h
}

func sameHeader(a, b *engine.Header) bool {
	return a.Version == b.Version && a.Fence == b.Fence && a.Lease.Holder == b.Lease.Holder && a.Lease.TTL == b.Lease.TTL &&
		a.Lease.Until.Equal(b.Lease.Until) && a.Woken.Equal(b.Woken) && a.HeadDue.Equal(b.HeadDue) &&
		a.Listed == b.Listed && a.Minute == b.Minute && slices.Equal(a.Labels, b.Labels)
}

func (x *index) appendHeader(b []byte, l *line) []byte {
	root := l.row != nil && l.row.Namespace == ""
	was, want := &x.header, l.header
	if l.loose {
		return b
	}
	h := unsaid(was, root, l.at)
	if want == nil || sameHeader(was, want) {
		if root && !sameHeader(&h, was) {
			b = append(b, `,"held":true`...)
		}
		return b
	}
	number := func(key string, n int64) { b = strconv.AppendInt(append(b, `,"`+key+`":`...), n, 10) }
	step, other := int64(1), *want // of the version, if nothing is said of it
	if other.Version = was.Version; sameHeader(&other, was) {
		step = 0
	}
	if d := want.Version - was.Version; d != step || !root {
		number("version", d)
	}
	leased := want.Lease != (checkpoint.Lease{})
	claim := leased && want.Fence == was.Fence+1
	if d := int64(want.Fence - was.Fence); d != 0 && !claim {
		number("fence", d)
	}
	if leased {
		key := `,"lease":[`
		if claim {
			key = `,"claim":[`
		}
		t := want.Lease
		b = strconv.AppendInt(append(b, key...), t.Until.UnixMicro()-(l.at/1000+t.TTL.Microseconds()), 10)
		p := place{ttl: t.TTL, text: t.Holder, spoken: true}
		if l.row != nil && x.says(l.row) && l.row.ID.Valid() {
			if end, ok := bytes.CutPrefix([]byte(t.Holder), []byte(l.row.ID.Run())); ok {
				p.text, p.byRun = string(end), true
			}
		}
		if p != x.said {
			b = appendText(append(strconv.AppendInt(append(b, ','), int64(p.ttl), 10), ','), p.text)
			if p.byRun {
				b = append(b, ",1"...)
			}
		}
		b = append(b, ']')
	}
	if !want.Woken.IsZero() {
		number("woken", want.Woken.UnixMicro())
	}
	if !want.HeadDue.IsZero() {
		number("due", want.HeadDue.UnixMicro())
	}
	if want.Listed && (!root || want.Minute != h.Minute) {
		number("minute", want.Minute)
	}
	for i, t := range want.Labels {
		b = appendText(append(b, opening("labels", i, "")...), t)
	}
	if len(want.Labels) > 0 {
		b = append(b, ']')
	}
	return b
}

// says reports whether the line of a row says its ID.
func (x *index) says(r *engine.Row) bool {
	lx := x.logs[r.Namespace]
	return lx == nil || full(r.Place) || !keyOf(r.ID).follows(lx.last().id)
}

// appendRow appends the members of a row, the last of which is its record.
func (lx *logIndex) appendRow(b []byte, seq int64, r *engine.Row) ([]byte, error) {
	m := body{}
	if n := len(r.Meta) - 1; n < 1 || r.Meta[0] != '{' || r.Meta[n] != '}' || m.read(r.Meta[1:n]) != nil || m.data != nil || bytes.IndexByte(r.Meta, '\n') >= 0 {
		return nil, errNotALine
	}
	last, id, n := lx.last(), keyOf(r.ID), values(r.Data)
	implied := last.bytes + int64(len(r.Meta)+len(r.Data))
	if full(r.Place) {
		implied = -1
	}
	for _, m := range []struct {
		key          string
		n, otherwise int64
	}{{"place", r.Place, seq}, {"count", r.Count, r.Place}, {"bytes", r.Bytes, implied}} {
		if m.n != m.otherwise {
			b = strconv.AppendInt(append(b, `,"`+m.key+`":`...), m.n, 10)
		}
	}
	if r.Top != r.ID {
		b = appendText(append(b, `,"top":`...), r.Top)
	}
	next := id.follows(last.id)
	apart := last.id != idKey{} && !next
	own := apart && m.parent == nil || lx.graph != nil && m.graph == nil
	if own {
		b = append(b, `,"own":true`...)
	}
	start := len(b)
	switch {
	case next && !full(r.Place):
	case binary.BigEndian.Uint32(id[12:]) == 1:
		b = append(append(append(b, `,"run":"`...), r.ID[:len(r.ID)-len(firstOfRun)]...), '"')
	default:
		b = appendText(append(b, `,"id":`...), r.ID)
	}
	if r.Branch != "" {
		b = appendText(append(b, `,"b":`...), r.Branch)
	}
	if r.Seq != r.Place {
		b = strconv.AppendInt(append(b, `,"q":`...), r.Seq, 10)
	}
	var buf [32]byte
	for i, k := range m.members {
		switch {
		case i == 0 && string(k) == formatMember:
		case !own && apart && isMember(k, "p") && bytes.Equal(k[4:], last.id.parent(buf[:0])):
		case !own && isMember(k, "g") && bytes.Equal(k[4:], lx.graph):
		default:
			b = append(append(b, ','), k...)
		}
	}
	if n == 1 {
		b = append(append(b, `,"d":`...), r.Data...)
	} else if n > 1 {
		c := cursor{b: r.Data}
		for i := range n {
			b = append(append(b, opening("ds", i, "")...), c.value()...)
		}
		b = append(b, ']')
	} else if len(r.Data) > 0 {
		b = append(append(append(b, `,"raw":"`...), rawEscapes.Replace(string(r.Data))...), '"')
	}
	if len(b) == start { // else there would be no record
		b = append(append(b, ','), formatMember...)
	}
	return b, nil
}

func isMember(k []byte, key string) bool { return len(k) > 4 && k[1] == key[0] && k[2] == '"' }

// body is a record as a line has it.
type body struct {
	id      checkpoint.ID
	branch  checkpoint.Branch
	seq     int64
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
		k, head := string(c.key()), len(m.members) == 0
		switch {
		case k == "d": // the last, and the longest
			m.kind, m.data, m.size, c.i = 'd', text[c.i:], len(text)-c.i, len(text)
		case k == "ds":
			from := c.i
			c.list(func() { m.size += len(c.value()) })
			m.kind, m.data = 's', text[from:c.i]
		case k == "raw":
			m.kind, m.data = 'r', c.quoted()
			m.size = rawSize(m.data)
		case head && k == "id":
			m.id = checkpoint.ID(c.text())
		case head && k == "run":
			m.id = checkpoint.ID(c.text() + firstOfRun)
		case head && k == "b":
			m.branch = checkpoint.Branch(c.text())
		case head && k == "q":
			m.seq = c.number()
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

// parsed is a line that was read.
type parsed struct {
	seq     int64
	created []byte // JSON
	version int
	thread  *string

	ns   string
	root bool // it has a record of the thread's own log

	// Of the header.
	held        bool
	header      bool // it says it
	step, fence int64
	stepped     bool
	claim       bool
	lease       []byte
	woken, due  int64
	minute      int64
	listed      bool
	labels      []string

	delete, clear [][]byte
	put           []engine.Put
	putSize       int // how many bytes they take in the line

	is           bool // there is a record
	place, count int64
	bytes        int64
	top          *string // of a record that is out of order
	own          bool
	id           checkpoint.ID // empty: the one after that of the record before in the log
	recAt        int           // where the record starts in the body
}

// parse reads a body whose checksum fits.
func parse(body []byte) (p parsed, err error) {
	c := cursor{b: body}
	c.expect('{')
	for more := true; more && c.err == nil && !p.is; more = !p.is && c.more() {
		at := c.i
		switch k := string(c.key()); k {
		case "seq":
			p.seq = c.number()
		case "at":
			p.created = c.value()
		case "created_at": // of earlier formats
			c.value()
		case "ns":
			p.ns = c.text()
		case "place":
			p.place = c.number()
		case "count":
			p.count = c.number()
		case "bytes":
			p.bytes = c.number()
		case "top":
			t := c.text()
			p.top = &t
		case "own":
			p.own = c.truth()
		case "thread", "held", "version", "fence", "claim", "lease", "woken", "due", "minute", "labels", "delete", "put", "clear":
			p.word(k, &c)
		default:
			if k == "v" && p.seq == 1 && p.thread == nil && p.version == 0 {
				p.version = int(c.number())
				continue
			}
			switch p.is, p.recAt, p.root = true, at, p.ns == ""; k {
			case "id":
				p.id = checkpoint.ID(c.text())
			case "run":
				p.id = checkpoint.ID(c.text() + firstOfRun)
			}
		}
	}
	if p.is {
		if p.place == 0 {
			p.place = p.seq
		}
		if p.count == 0 {
			p.count = p.place
		}
		p.header = (p.header || p.root) && !p.held
	}
	if c.err == nil && (p.seq < 1 || p.is && p.place < 1 || !p.is && c.i != len(body)) {
		c.fail()
	}
	return p, c.err
}

// word reads a member that says nothing of a row.
func (p *parsed) word(k string, c *cursor) {
	keys := func() (out [][]byte) {
		c.list(func() { out = append(out, []byte(c.text())) })
		return out
	}
	switch k {
	case "thread":
		t := c.text()
		p.thread = &t
	case "held":
		p.held = c.truth()
	case "version":
		p.step, p.stepped, p.header = c.number(), true, true
	case "fence":
		p.fence, p.header = c.number(), true
	case "claim", "lease":
		p.lease, p.claim, p.header = c.value(), k == "claim", true
	case "woken":
		p.woken, p.header = c.number(), true
	case "due":
		p.due, p.header = c.number(), true
	case "minute":
		p.minute, p.listed, p.header = c.number(), true, true
	case "labels":
		c.list(func() { p.labels = append(p.labels, c.text()) })
		p.header = true
	case "delete":
		p.delete = keys()
	case "put":
		from := c.i
		c.list(func() {
			c.expect('[')
			key := c.text()
			c.expect(',')
			p.put = append(p.put, engine.Put{Key: []byte(key), Value: []byte(c.text()), Replace: true})
			c.expect(']')
		})
		p.putSize = c.i - from
	case "clear":
		p.clear = keys()
	}
}

// at returns the line's time.
func (p *parsed) at() (int64, error) {
	if len(p.created) < 2 {
		return 0, errNotALine
	}
	t, err := time.Parse(time.RFC3339Nano, string(p.created[1:len(p.created)-1]))
	return t.UnixNano(), err
}

// headerAfter returns the header after a line that says it.
func (p *parsed) headerAfter(was *engine.Header, said *place) (h engine.Header, err error) {
	at, err := p.at()
	if err != nil {
		return h, err
	}
	h = unsaid(was, p.root, at)
	h.Fence += checkpoint.Fence(p.fence)
	if p.claim {
		h.Fence++
	}
	if p.lease != nil {
		c := cursor{b: p.lease}
		var late int64
		var next place
		n := 0
		c.list(func() {
			switch n++; n {
			case 1:
				late = c.number()
			case 2:
				next.ttl = time.Duration(c.number())
			case 3:
				next.text, next.spoken = c.text(), true
			case 4:
				next.byRun = c.number() == 1
			}
		})
		switch {
		case c.err != nil:
			return h, c.err
		case next.spoken:
			*said = next
		case !said.spoken:
			return h, errUnsaid
		}
		h.Lease = checkpoint.Lease{
			Holder: said.text, TTL: said.ttl, Until: engine.FromMicroseconds(at/1000 + said.ttl.Microseconds() + late),
		}
		if said.byRun {
			h.Lease.Holder = string(p.id.Run()) + said.text
		}
	}
	h.Woken, h.HeadDue = engine.FromMicroseconds(p.woken), engine.FromMicroseconds(p.due)
	if p.listed {
		h.Listed, h.Minute = true, p.minute
	}
	h.Labels = p.labels
	switch {
	case p.stepped:
		h.Version += p.step
	case !sameHeader(&h, was):
		h.Version++
	}
	return h, nil
}

var errUnsaid = fmt.Errorf("%w: its lease leaves out what no line before says", errNotALine)

// appendMeta appends the Meta of a row, whose record was read; prev is the ID of the row before
// it.
func (lx *logIndex) appendMeta(b []byte, m *body, own bool, id, prev idKey) []byte {
	b = append(b, '{')
	if len(m.members) == 0 || !bytes.HasPrefix(m.members[0], []byte(`"v":`)) {
		b = append(append(b, formatMember...), ',')
	}
	if !own && m.parent == nil && prev != (idKey{}) && !id.follows(prev) {
		b = append(prev.parent(append(b, `"p":`...)), ',')
	}
	if !own && m.graph == nil && lx.graph != nil {
		b = append(append(append(b, `"g":`...), lx.graph...), ',')
	}
	for _, k := range m.members {
		b = append(append(b, k...), ',')
	}
	b[len(b)-1] = '}'
	return b
}

// row returns row i of the log, whose line was read and has a checksum that fits.
func (lx *logIndex) row(thread checkpoint.ThreadID, text []byte, i int, meta bool) (r engine.Row, err error) {
	p, err := parse(text)
	if err == nil && !p.is {
		err = errNotALine
	}
	if err != nil {
		return r, err
	}
	at, prev := lx.rows[i], idKey{}
	if i > 0 {
		prev = lx.rows[i-1].id
	}
	m := body{seq: p.place}
	if err := m.read(text[p.recAt:]); err != nil {
		return r, err
	}
	if m.id == "" {
		m.id = checkpoint.IDFromBytes(at.id)
	}
	r = engine.Row{Namespace: p.ns, Place: p.place, ID: m.id, Branch: m.branch, Seq: m.seq, Count: p.count, Bytes: at.bytes, Top: m.id}
	if p.top != nil {
		r.Top = checkpoint.ID(*p.top)
	}
	if r.At, err = p.at(); err != nil {
		return r, err
	}
	r.Meta = lx.appendMeta(make([]byte, 0, len(text)-p.recAt-len(m.data)+len(lx.graph)+64), &m, p.own, at.id, prev)
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
	return r, err
}
