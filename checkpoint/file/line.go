package file

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/checkpoint"
)

// Version is the newest format version that this package reads. A line is
// written in the oldest one that has what it says.
const Version = 3

const (
	versionPlain = 1
	versionHeld  = 2 // leases, waking, removed results and lines
	versionShort = 3 // leases, and their ends, that leave out what other lines say
)

// line is one line of a file, as written. The fields' order is part of the
// format: what the index needs comes first.
type line struct {
	Seq       int64             `json:"seq"`
	CreatedAt *time.Time        `json:"created_at,omitempty"`
	Version   int               `json:"v,omitempty"`
	Thread    *text             `json:"thread,omitempty"`
	After     *int64            `json:"after,omitempty"`
	Skip      *int64            `json:"skip,omitempty"`
	Gone      bool              `json:"gone,omitempty"`
	Reset     bool              `json:"reset,omitempty"`
	Log       int               `json:"log,omitempty"`
	NS        *text             `json:"ns,omitempty"`
	Claim     checkpoint.Fence  `json:"claim,omitempty"`
	Lease     leaseForm         `json:"lease,omitempty"`
	Release   bool              `json:"release,omitempty"`
	Held      bool              `json:"held,omitempty"`
	Wake      *time.Time        `json:"wake,omitempty"`
	Remove    []resultName      `json:"remove,omitempty"`
	Drop      *dropWire         `json:"drop,omitempty"`
	Results   []json.RawMessage `json:"results,omitempty"`
	Own       bool              `json:"own,omitempty"` // the record leaves out nothing that earlier lines say

	record []byte // the member "checkpoint", last: what checkpoint.Marshal gave
}

type dropWire struct {
	Branch checkpoint.Branch `json:"branch,omitempty"`
	Epoch  checkpoint.ID     `json:"epoch"`
}

// leaseForm is how a line says a lease: a *leaseWire or a *leaseShort.
type leaseForm interface{ needs() int }

type leaseWire struct {
	Holder text          `json:"holder"`
	Until  time.Time     `json:"until"`
	TTL    time.Duration `json:"ttl"` // nanoseconds
}

func (l *leaseWire) needs() int { return versionHeld }

func (l *leaseWire) lease() checkpoint.Lease {
	return checkpoint.Lease{Holder: string(l.Holder), Until: l.Until, TTL: l.TTL}
}

func newLease(l checkpoint.Lease) *leaseWire {
	return &leaseWire{Holder: text(l.Holder), Until: l.Until.UTC().Round(0), TTL: l.TTL}
}

// leaseShort is a lease of the run that wrote the line's record: its holder is the
// run's ID and the place, and it ends TTL and late after the record's time. A TTL
// and a place that are left out are those of the lease before.
type leaseShort struct {
	late  int64         // milliseconds
	ttl   time.Duration // 0: left out
	place *text         // nil: left out; with it comes the TTL
}

func (l *leaseShort) needs() int { return versionShort }

// MarshalJSON writes [late, ttl, place] without what is left out.
func (l *leaseShort) MarshalJSON() ([]byte, error) {
	b := strconv.AppendInt([]byte{'['}, l.late, 10)
	if l.ttl != 0 {
		b = strconv.AppendInt(append(b, ','), int64(l.ttl), 10)
	}
	if l.place != nil {
		place, err := l.place.MarshalJSON()
		if err != nil {
			return nil, err
		}
		b = append(append(b, ','), place...)
	}
	return append(b, ']'), nil
}

func (l *leaseShort) UnmarshalJSON(b []byte) error {
	var list []json.RawMessage
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	into := []any{&l.late, &l.ttl, &l.place}
	if len(list) == 0 || len(list) > len(into) {
		return fmt.Errorf("a lease of %d elements", len(list))
	}
	for i, e := range list {
		if err := json.Unmarshal(e, into[i]); err != nil {
			return err
		}
	}
	if len(list) > 1 && l.ttl <= 0 || len(list) > 2 && l.place == nil {
		return errors.New("a lease without length or place")
	}
	return nil
}

// placeOf returns what follows the run's ID in a holder.
func placeOf(holder string, run checkpoint.ID) (place string, ok bool) {
	if !run.Valid() {
		return "", false
	}
	return strings.CutPrefix(holder, string(run))
}

// resultName is a [checkpoint.ResultKey].
type resultName struct {
	Branch checkpoint.Branch     `json:"branch,omitempty"`
	Epoch  checkpoint.ID         `json:"epoch"`
	Task   int                   `json:"task,omitempty"`
	Gen    int                   `json:"gen,omitempty"`
	Kind   checkpoint.ResultKind `json:"kind"`
	Name   string                `json:"name,omitempty"`
}

func (n *resultName) step() dropWire    { return dropWire{n.Branch, n.Epoch} }
func (n *resultName) result() resultKey { return resultKey{n.Task, n.Gen, n.Kind, n.Name} }

// needs returns the format version that the line needs.
func (l *line) needs() int {
	v := versionPlain
	if l.Skip != nil || l.Gone || l.Reset || l.Wake != nil || len(l.Remove) > 0 {
		v = versionHeld
	}
	if l.Lease != nil {
		v = max(v, l.Lease.needs())
	}
	return v
}

// before is what the lines before a record say that it need not repeat.
type before struct {
	head  checkpoint.ID // the log's newest record
	graph string        // of the log's first record
}

// sealedFormat is that of sealed records, which is another major one.
const sealedFormat = 200

// formatMember is what records of format 100 leave out.
const formatMember = `"v":100,`

// setRecord puts a record into the line, whose Seq is set. The line's
// created_at is the record's.
func (l *line) setRecord(r *checkpoint.Record, prev before) error {
	k := *r
	if y := r.CreatedAt.Year(); 0 < y && y <= 9999 {
		at := r.CreatedAt.UTC()
		l.CreatedAt, k.CreatedAt = &at, time.Time{}
	}
	own := prev.head == "" || !r.ID.Valid() || r.Graph == "" && prev.graph != "" ||
		r.Parent != prev.head && r.Parent == nearParent(r.ID)
	if l.Own = own && prev.head != ""; !own {
		if r.Parent == prev.head {
			k.Parent = nearParent(r.ID) // which Marshal leaves out
		}
		if r.Graph == prev.graph {
			k.Graph = ""
		}
	}
	b, err := checkpoint.Marshal(&k)
	if err != nil {
		return err
	}
	b = bytes.Replace(b, []byte("{"+formatMember), []byte("{"), 1)
	if r.ID.Valid() {
		key := []byte(`{"id":"` + string(r.ID) + `",`)
		q := []byte(`"q":` + strconv.FormatInt(l.Seq, 10) + ",")
		if bytes.HasPrefix(b, key) && bytes.HasPrefix(b[len(key):], q) {
			b = append(key, b[len(key)+len(q):]...)
		}
	}
	l.record = b
	return nil
}

// nearParent returns the record before in the same run, the parent that
// checkpoint.Marshal leaves out.
func nearParent(id checkpoint.ID) checkpoint.ID { return id.Checkpoint(id.Count() - 1) }

// decodeRecord returns the record of a line's body whose checksum fits.
func decodeRecord(body []byte, log checkpoint.Log, prev before) (*checkpoint.Record, error) {
	h, b, err := recordIn(body)
	if err != nil {
		return nil, err
	}
	r, err := checkpoint.Unmarshal(b)
	if err != nil {
		return nil, err
	}
	r.Log = log
	if h.created != nil {
		if err := json.Unmarshal(h.created, &r.CreatedAt); err != nil {
			return nil, err
		}
	}
	if !h.own && prev.head != "" {
		if r.ID.Valid() && r.Parent == nearParent(r.ID) {
			r.Parent = prev.head
		}
		if r.Graph == "" {
			r.Graph = prev.graph
		}
	}
	return r, nil
}

// decodeFolding is decodeRecord for a query with Folding. The record may hold parts of
// the body.
func decodeFolding(body []byte, log checkpoint.Log) (*checkpoint.Record, error) {
	_, b, err := recordIn(body)
	if err != nil {
		return nil, err
	}
	r, err := checkpoint.UnmarshalFolding(b)
	if err == nil {
		r.Log = log
	}
	return r, err
}

// recordIn returns the record of a line's body as it was before it was shortened.
func recordIn(body []byte) (h head, b []byte, err error) {
	if h, err = parse(cursor{b: body, skim: true}); err != nil {
		return h, nil, err
	}
	if !h.is {
		return h, nil, errNotALine
	}
	b = body[h.recAt:]
	if h.format == 0 || h.implied {
		full := make([]byte, 0, len(b)+48)
		full = append(full, '{')
		if h.format == 0 {
			full = append(full, formatMember...)
		}
		if h.implied {
			full = append(strconv.AppendInt(append(full, `"q":`...), h.recSeq, 10), ',')
		}
		b = append(full, b[1:]...)
	}
	return h, b, nil
}

func (l *line) setResults(rs []checkpoint.Result) error {
	l.Results = make([]json.RawMessage, len(rs))
	for i := range rs {
		b, err := checkpoint.MarshalResult(&rs[i])
		if err != nil {
			return err
		}
		l.Results[i] = b
	}
	return nil
}

// text is a string that may hold any bytes.
type text string

func (t text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(struct {
		Hex string `json:"hex"`
	}{hex.EncodeToString([]byte(t))})
}

func (t *text) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		var v struct {
			Hex string `json:"hex"`
		}
		if err := json.Unmarshal(b, &v); err != nil {
			return err
		}
		raw, err := hex.DecodeString(v.Hex)
		*t = text(raw)
		return err
	}
	return json.Unmarshal(b, (*string)(t))
}

// The checksum stands at the end of each line: ,"crc":"0a1b2c3d"}
const (
	crcOpen  = `,"crc":"`
	crcClose = `"}`
	crcLen   = len(crcOpen) + 8 + len(crcClose)
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seedOf returns where a thread's checksums start: at its ID, so that a line of
// another thread does not fit.
func seedOf(thread checkpoint.ThreadID) uint32 {
	return crc32.Checksum(append([]byte(thread), 0), castagnoli)
}

func checksum(seed uint32, body []byte) (hx [8]byte) {
	sum := crc32.Update(seed, castagnoli, body)
	hex.Encode(hx[:], []byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
	return hx
}

// seal appends the checksum and the end of a line to body, which is a JSON
// object without its closing brace.
func seal(seed uint32, body []byte) []byte {
	hx := checksum(seed, body)
	body = append(body, crcOpen...)
	body = append(body, hx[:]...)
	return append(body, crcClose...)
}

var (
	errNoChecksum  = errors.New("no checksum at the end of the line")
	errChecksum    = errors.New("checksum does not fit")
	errIncomplete  = errors.New("the last line is incomplete")
	errNotALine    = errors.New("not a line of a checkpoint file")
	errCutAfterEnd = errors.New("lines are missing at the end: results written after them are there")
)

// unseal checks a line without its newline and returns its body.
func unseal(seed uint32, b []byte) (body []byte, err error) {
	n := len(b) - crcLen
	if n < 0 || string(b[n:n+len(crcOpen)]) != crcOpen || string(b[len(b)-len(crcClose):]) != crcClose {
		return nil, errNoChecksum
	}
	if sum := checksum(seed, b[:n]); string(sum[:]) != string(b[n+len(crcOpen):n+len(crcOpen)+8]) {
		return nil, errChecksum
	}
	return b[:n], nil
}

// wholeLine returns the length of the complete line that b begins with though
// it has no newline after it, or 0.
func wholeLine(seed uint32, b []byte) int {
	for i := 0; ; {
		j := bytes.Index(b[i:], []byte(crcOpen))
		if j < 0 || i+j+crcLen > len(b) {
			return 0
		}
		i += j
		if _, err := unseal(seed, b[:i+crcLen]); err == nil {
			return i + crcLen
		}
		i++
	}
}

// encode returns the line with its newline.
func (l *line) encode(seed uint32) ([]byte, error) {
	if v := l.needs(); l.Thread != nil || v > versionPlain {
		l.Version = v
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(l); err != nil {
		return nil, err
	}
	b := bytes.TrimSuffix(buf.Bytes(), []byte("}\n"))
	if l.record != nil {
		b = slices.Grow(b, len(l.record)+64)
		b = append(append(b, `,"checkpoint":`...), l.record...)
	}
	return append(seal(seed, b), '\n'), nil
}

// head is what the index needs of a line.
type head struct {
	seq     int64
	created []byte // JSON
	version int
	thread  *text
	after   int64
	cut     bool  // there is a member skip
	skip    int64 // lines removed before this one
	gone    bool  // the line's record was removed
	reset   bool
	log     int
	ns      *text
	claim   checkpoint.Fence
	lease   *leaseWire
	short   *leaseShort // instead of lease, until the index knows the one before
	release bool
	held    bool
	wake    time.Time
	remove  []resultName
	drop    *dropWire
	results []resultHead

	// of the record
	is      bool
	format  int
	id      checkpoint.ID
	branch  checkpoint.Branch
	recSeq  int64
	implied bool // recSeq is the line's seq, not said again
	own     bool
	due     time.Time
	recAt   int // where it starts in the body, of which it is the rest

	// Byte positions in the body, to copy a line to another thread: of the
	// thread's name, and of what the lines of a copy do not say.
	threadAt [2]int
	claimAt  [][2]int
}

type resultHead struct {
	Branch  checkpoint.Branch     `json:"branch"`
	Epoch   checkpoint.ID         `json:"epoch"`
	Task    int                   `json:"task"`
	Gen     int                   `json:"gen"`
	Kind    checkpoint.ResultKind `json:"kind"`
	Name    string                `json:"name"`
	Replace bool                  `json:"replace"`
}

// parseHead reads the head of a body whose checksum fits. It stops at the first
// member of the record that the index does not need.
func parseHead(body []byte) (h head, err error) { return parse(cursor{b: body}) }

func parse(c cursor) (h head, err error) {
	c.expect('{')
	for c.err == nil && c.i < len(c.b) {
		at := c.i
		key := c.key()
		if c.skim && key != "seq" && key != "created_at" && key != "own" && key != "checkpoint" {
			c.value()
			c.comma()
			continue
		}
		switch key {
		case "seq":
			h.seq = c.number()
		case "created_at":
			h.created = c.value()
		case "v":
			h.version = int(c.number())
		case "thread":
			h.thread = new(text)
			c.into(h.thread)
			h.threadAt = [2]int{at, c.i}
		case "after":
			h.after = c.number()
		case "skip":
			h.cut, h.skip = true, c.number()
		case "gone":
			h.gone = c.truth()
		case "reset":
			h.reset = c.truth()
		case "log":
			h.log = int(c.number())
		case "ns":
			h.ns = new(text)
			c.into(h.ns)
		case "claim":
			h.claim = checkpoint.Fence(c.number())
			h.claimAt = append(h.claimAt, [2]int{at, c.i})
		case "lease":
			if c.i < len(c.b) && c.b[c.i] == '[' {
				h.short = new(leaseShort)
				c.into(h.short)
			} else {
				h.lease = new(leaseWire)
				c.into(h.lease)
			}
			h.claimAt = append(h.claimAt, [2]int{at, c.i})
		case "release":
			h.release = c.truth()
			h.claimAt = append(h.claimAt, [2]int{at, c.i})
		case "held":
			h.held = c.truth()
			h.claimAt = append(h.claimAt, [2]int{at, c.i})
		case "wake":
			c.into(&h.wake)
			h.claimAt = append(h.claimAt, [2]int{at, c.i})
		case "remove":
			c.into(&h.remove)
		case "own":
			h.own = c.truth()
		case "drop":
			h.drop = new(dropWire)
			c.into(h.drop)
		case "results":
			c.into(&h.results)
		case "checkpoint":
			h.is, h.recAt = true, c.i
			c.expect('{')
			h.record(&c)
			if h.recSeq == 0 {
				h.recSeq, h.implied = h.seq, true
			}
			if c.err == nil && (h.id == "" || h.recSeq < 1 || h.seq < 1) {
				c.fail()
			}
			return h, c.err
		default:
			c.value()
		}
		c.comma()
	}
	if c.err == nil && h.seq < 1 {
		c.fail()
	}
	return h, c.err
}

func (h *head) record(c *cursor) {
	for c.err == nil && c.i < len(c.b) && c.b[c.i] != '}' {
		switch c.key() {
		case "v":
			h.format = int(c.number())
		case "id":
			c.into(&h.id)
		case "b":
			c.into(&h.branch)
		case "q":
			h.recSeq = c.number()
		case "a":
			h.due = c.moment()
			return
		case "x", "m", "c", "z", "k", "w", "j", "f", "ch", "u", "r", "d": // what follows "a"
			return
		default:
			c.value()
		}
		if c.i < len(c.b) && c.b[c.i] == ',' {
			c.i++
		}
	}
}

// cursor walks over compact JSON.
type cursor struct {
	b    []byte
	i    int
	err  error
	skim bool // what is no part of a record isn't decoded: it was when the line was found
}

func (c *cursor) fail() {
	if c.err == nil {
		c.err = fmt.Errorf("%w (at byte %d of it)", errNotALine, c.i)
	}
}

func (c *cursor) expect(b byte) {
	if c.err != nil || c.i >= len(c.b) || c.b[c.i] != b {
		c.fail()
		return
	}
	c.i++
}

// comma steps over the comma before the next member, if there is one.
func (c *cursor) comma() {
	if c.err == nil && c.i < len(c.b) {
		c.expect(',')
	}
}

func (c *cursor) key() string {
	k := c.value()
	c.expect(':')
	if c.err != nil || len(k) < 2 || k[0] != '"' {
		c.fail()
		return ""
	}
	return string(k[1 : len(k)-1])
}

func (c *cursor) number() int64 {
	v := c.value()
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil {
		c.fail()
	}
	return n
}

func (c *cursor) truth() bool { return string(c.value()) == "true" }

// moment reads a time as records have it: nanoseconds since 1970, or seconds and
// nanoseconds.
func (c *cursor) moment() time.Time {
	if c.i < len(c.b) && c.b[c.i] == '[' {
		var v [2]int64
		c.into(&v)
		return time.Unix(v[0], v[1]).UTC()
	}
	return time.Unix(0, c.number()).UTC()
}

func (c *cursor) into(v any) {
	b := c.value()
	if c.err != nil {
		return
	}
	// The common strings have nothing to decode.
	if p, ok := v.(*checkpoint.ID); ok && len(b) >= 2 && b[0] == '"' && plainText(b[1:len(b)-1]) {
		*p = checkpoint.ID(b[1 : len(b)-1])
		return
	}
	if err := json.Unmarshal(b, v); err != nil {
		c.fail()
	}
}

func plainText(b []byte) bool {
	for _, x := range b {
		if x < 0x20 || x == '\\' || x >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// value steps over one JSON value and returns it.
func (c *cursor) value() []byte {
	start, depth := c.i, 0
	for c.err == nil && c.i < len(c.b) {
		switch c.b[c.i] {
		case '"':
			c.text()
		case '{', '[':
			depth++
			c.i++
			continue
		case '}', ']':
			if depth == 0 {
				c.fail()
				return nil
			}
			depth--
			c.i++
		case ',', ':':
			if depth == 0 {
				c.fail()
				return nil
			}
			c.i++
			continue
		default:
			for c.i < len(c.b) && !delimiter(c.b[c.i]) {
				c.i++
			}
		}
		if c.err != nil {
			return nil
		}
		if depth == 0 {
			return c.b[start:c.i]
		}
	}
	c.fail()
	return nil
}

func delimiter(b byte) bool {
	switch b {
	case ',', ':', '}', ']', '{', '[', '"':
		return true
	}
	return false
}

func (c *cursor) text() {
	for c.i++; c.i < len(c.b); c.i++ {
		switch c.b[c.i] {
		case '\\':
			c.i++
		case '"':
			c.i++
			return
		}
	}
	c.fail()
}
