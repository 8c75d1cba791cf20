package checkpoint

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Format is the version of the format that [Marshal] writes, as 100 times its
// major number plus its minor number. A reader refuses another major number,
// tolerates unknown fields from a newer minor one, and calls unknown fields
// damage otherwise.
const Format = 100

// The format. A record is a JSON object. Where short forms exist, the long one
// is used only when it must be:
//
//	v   format
//	id  ID, b branch, q sequence number; not in a body, see MarshalBody
//	p   parent: absent for the one before in the same run, a number for
//	    another one of the same run, else the ID; the 16 bytes of a UUID are
//	    written in base64 after a '*'
//	e   epoch: absent for the record itself, else as p
//	l   lineage: [[branch, to], ...]
//	s   step
//	o   source: its number in sourceCodes, else its name
//	t   time in nanoseconds since 1970, or [seconds, nanoseconds]
//	g   graph, n version of the state's schema, m metadata
//	c   changes: [[node, task, size], ...]
//	z   snapshot: [size, ranges]
//	k   tasks: [[node, from, sent, size of payload, size of overlay], ...]
//	w   open tasks, j joins, f deferred, ch children, u paused
//	r   recent: [digits, name, ...], each digit the index of a name; a digit
//	    is followed by '*' and another that says how often it stands there
//	d   what the sizes speak of: data of changes, snapshot, payload and overlay
//	    of each task, in this order
//
// A size is the length in bytes of a value in d, and -1 for none.

var sourceCodes = [...]Source{SourceInput, SourceLoop, SourceInterrupt, SourceResume, SourceUpdate, SourceFork, SourceVoid}

// Marshal encodes a record as one line of JSON, without its Log.
func Marshal(r *Record) ([]byte, error) {
	e := encoder{r: r, full: true}
	if err := e.record(); err != nil {
		return nil, err
	}
	out := e.meta
	if len(e.values) > 0 {
		out = append(out, `,"d":[`...)
		for i, v := range e.values {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(out, v...)
		}
		out = append(out, ']')
	}
	return append(out, '}'), nil
}

// MarshalBody encodes what of a record a back end does not keep elsewhere: not
// its Log, ID, Branch, Seq and CreatedAt.UnixNano(), if this has a meaning at
// that time. The result has two parts, so that one can be read
// without the other: meta is JSON and holds what [Query.Meta] asks for; data
// holds the large values, one after the other, and is empty when there are none.
func MarshalBody(r *Record) (meta, data []byte, err error) {
	e := encoder{r: r}
	if err := e.record(); err != nil {
		return nil, nil, err
	}
	n := 0
	for _, v := range e.values {
		n += len(v)
	}
	data = make([]byte, 0, n)
	for _, v := range e.values {
		data = append(data, v...)
	}
	return append(e.meta, '}'), data, nil
}

type encoder struct {
	r      *Record
	full   bool
	meta   []byte
	values [][]byte
}

func (e *encoder) record() error {
	r := e.r
	b := make([]byte, 0, 256)
	b = append(b, `{"v":`...)
	b = strconv.AppendInt(b, Format, 10)
	if e.full {
		b = appendString(append(b, `,"id":`...), string(r.ID))
		if r.Branch != "" {
			b = appendString(append(b, `,"b":`...), string(r.Branch))
		}
		b = strconv.AppendInt(append(b, `,"q":`...), r.Seq, 10)
	}
	if r.Parent == "" || !r.ID.Valid() || r.Parent != r.ID.Checkpoint(r.ID.Count()-1) {
		b = appendNear(append(b, `,"p":`...), r.Parent, r.ID)
	}
	if r.Epoch != r.ID {
		b = appendNear(append(b, `,"e":`...), r.Epoch, r.ID)
	}
	if len(r.Lineage) > 0 {
		b = append(b, `,"l":[`...)
		for i, s := range r.Lineage {
			b = appendString(append(comma(b, i), '['), string(s.Branch))
			b = append(strconv.AppendInt(append(b, ','), s.To, 10), ']')
		}
		b = append(b, ']')
	}
	if r.Step != 0 {
		b = strconv.AppendInt(append(b, `,"s":`...), int64(r.Step), 10)
	}
	if r.Source != "" {
		b = appendSource(append(b, `,"o":`...), r.Source)
	}
	if e.full && !r.CreatedAt.IsZero() || !e.full && !inNanos(r.CreatedAt) {
		b = appendTime(append(b, `,"t":`...), r.CreatedAt)
	}
	if r.Graph != "" {
		b = appendString(append(b, `,"g":`...), r.Graph)
	}
	if r.Version != 0 {
		b = strconv.AppendInt(append(b, `,"n":`...), int64(r.Version), 10)
	}
	e.meta = b
	if len(r.Metadata) > 0 {
		if err := e.other("m", "metadata", r.Metadata); err != nil {
			return err
		}
	}
	if err := e.changes(); err != nil {
		return err
	}
	if err := e.tasks(); err != nil {
		return err
	}
	if len(r.Recent) > 0 {
		e.recent()
	}
	if len(r.Open) > 0 {
		if err := e.other("w", "open tasks", r.Open); err != nil {
			return err
		}
	}
	if len(r.Joins) > 0 {
		if err := e.other("j", "joins", r.Joins); err != nil {
			return err
		}
	}
	if len(r.Deferred) > 0 {
		if err := e.other("f", "deferred nodes", r.Deferred); err != nil {
			return err
		}
	}
	if len(r.Children) > 0 {
		if err := e.other("ch", "children", r.Children); err != nil {
			return err
		}
	}
	if len(r.Paused) > 0 {
		if err := e.other("u", "breakpoints", r.Paused); err != nil {
			return err
		}
	}
	return nil
}

func (e *encoder) changes() error {
	r := e.r
	if len(r.Changes) > 0 {
		e.meta = append(e.meta, `,"c":[`...)
		for i := range r.Changes {
			c := &r.Changes[i]
			n, err := e.value(c.Data)
			if err != nil {
				return e.failed(err, "changes of node %q (task %d)", c.Node, c.Task)
			}
			b := appendString(append(comma(e.meta, i), '['), c.Node)
			b = strconv.AppendInt(append(b, ','), int64(c.Task), 10)
			e.meta = append(strconv.AppendInt(append(b, ','), int64(n), 10), ']')
		}
		e.meta = append(e.meta, ']')
	}
	if s := r.Snapshot; s != nil {
		n, err := e.value(s.Values)
		if err != nil {
			return e.failed(err, "the snapshot")
		}
		e.meta = strconv.AppendInt(append(e.meta, `,"z":[`...), int64(n), 10)
		if len(s.Ranges) > 0 {
			b, err := marshal(s.Ranges)
			if err != nil {
				return e.failed(err, "the snapshot's ranges")
			}
			e.meta = append(append(e.meta, ','), b...)
		}
		e.meta = append(e.meta, ']')
	}
	return nil
}

func (e *encoder) tasks() error {
	if len(e.r.Tasks) == 0 {
		return nil
	}
	e.meta = append(e.meta, `,"k":[`...)
	for i := range e.r.Tasks {
		t := &e.r.Tasks[i]
		p, err := e.value(t.Payload)
		if err != nil {
			return e.failed(err, "payload of task %d (%s)", i, t.Node)
		}
		o, err := e.value(t.Overlay)
		if err != nil {
			return e.failed(err, "overlay of task %d (%s)", i, t.Node)
		}
		b := appendString(append(comma(e.meta, i), '['), t.Node)
		if t.From != "" || t.Sent || p >= 0 || o >= 0 {
			b = appendString(append(b, ','), t.From)
		}
		if t.Sent || p >= 0 || o >= 0 {
			sent := byte('0')
			if t.Sent {
				sent = '1'
			}
			b = append(b, ',', sent)
		}
		if p >= 0 || o >= 0 {
			b = strconv.AppendInt(append(b, ','), int64(p), 10)
		}
		if o >= 0 {
			b = strconv.AppendInt(append(b, ','), int64(o), 10)
		}
		e.meta = append(b, ']')
	}
	e.meta = append(e.meta, ']')
	return nil
}

const digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

func (e *encoder) recent() {
	names := make([]string, 0, len(e.r.Recent))
	index := make([]byte, len(e.r.Recent))
	for i, n := range e.r.Recent {
		k := 0
		for k < len(names) && names[k] != n {
			k++
		}
		if k == len(digits) { // too many for digits: the names as they are
			names, index = e.r.Recent, nil
			break
		}
		if k == len(names) {
			names = append(names, n)
		}
		index[i] = digits[k]
	}
	b := append(e.meta, `,"r":["`...)
	for i, n := 0, 0; i < len(index); i += n {
		for n = 1; i+n < len(index) && n < len(digits)-1 && index[i+n] == index[i]; {
			n++
		}
		if b = append(b, index[i]); n > 3 {
			b = append(b, '*', digits[n])
		} else {
			b = append(b, index[i+1:i+n]...)
		}
	}
	b = append(b, '"')
	for _, n := range names {
		b = appendString(append(b, ','), n)
	}
	e.meta = append(b, ']')
}

func (e *encoder) other(key, what string, v any) error {
	b, err := marshal(v)
	if err != nil {
		return e.failed(err, "%s", what)
	}
	e.meta = append(append(e.meta, `,"`+key+`":`...), b...)
	return nil
}

// value adds a large value and returns its size, -1 for none.
func (e *encoder) value(raw json.RawMessage) (int, error) {
	if len(raw) == 0 {
		return -1, nil
	}
	v, err := oneLine(raw)
	if err != nil {
		return 0, err
	}
	e.values = append(e.values, v)
	return len(v), nil
}

func (e *encoder) failed(err error, what string, args ...any) error {
	return fmt.Errorf("checkpoint: record %s of thread %q cannot be stored: %s: %w", e.r.ID, e.r.Log.Thread, fmt.Sprintf(what, args...), err)
}

// oneLine checks that raw is JSON, and removes white space if it has any line
// break in it or white space around it.
func oneLine(raw []byte) ([]byte, error) {
	if !json.Valid(raw) {
		var v any
		err := json.Unmarshal(raw, &v)
		if err == nil {
			err = errors.New("invalid JSON")
		}
		return nil, err
	}
	if raw[0] > ' ' && raw[len(raw)-1] > ' ' && bytes.IndexByte(raw, '\n') < 0 && bytes.IndexByte(raw, '\r') < 0 {
		return raw, nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// marshal is json.Marshal without the escapes for HTML.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), nil
}

func comma(b []byte, i int) []byte {
	if i > 0 {
		return append(b, ',')
	}
	return b
}

// appendNear writes an ID, short if it is of the same run as self.
func appendNear(b []byte, id, self ID) []byte {
	if id.Valid() && self.Valid() && id[:idCount] == self[:idCount] {
		return strconv.AppendUint(b, uint64(id.Count()), 10)
	}
	if u, ok := id.Bytes(); ok {
		b = base64.RawURLEncoding.AppendEncode(append(b, '"', '*'), u[:])
		return append(b, '"')
	}
	return appendString(b, string(id))
}

func appendSource(b []byte, s Source) []byte {
	for i, c := range sourceCodes {
		if c == s {
			return strconv.AppendInt(b, int64(i), 10)
		}
	}
	return appendString(b, string(s))
}

// inNanos reports whether a time's nanoseconds since 1970 fit into 64 bits.
func inNanos(t time.Time) bool {
	const most = 1 << 33 // seconds
	sec := t.Unix()
	return -most < sec && sec < most
}

func appendTime(b []byte, t time.Time) []byte {
	if inNanos(t) {
		return strconv.AppendInt(b, t.UnixNano(), 10)
	}
	b = strconv.AppendInt(append(b, '['), t.Unix(), 10)
	return append(strconv.AppendInt(append(b, ','), int64(t.Nanosecond()), 10), ']')
}

func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf || c == 0x7f {
			return appendQuoted(b, s)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

func appendQuoted(b []byte, s string) []byte {
	q, err := marshal(s)
	if err != nil {
		panic(err) // a string always encodes
	}
	return append(b, q...)
}

// wire is a record as it is stored.
type wire struct {
	V    int               `json:"v"`
	ID   *ID               `json:"id"`
	B    Branch            `json:"b"`
	Q    int64             `json:"q"`
	P    *near             `json:"p"`
	E    *near             `json:"e"`
	L    []wireSpan        `json:"l"`
	S    int               `json:"s"`
	O    wireSource        `json:"o"`
	T    *wireTime         `json:"t"`
	G    string            `json:"g"`
	N    int               `json:"n"`
	M    map[string]string `json:"m"`
	C    []wireChange      `json:"c"`
	Z    *wireSnapshot     `json:"z"`
	K    []wireTask        `json:"k"`
	R    []string          `json:"r"`
	W    []OpenTask        `json:"w"`
	J    []Arrival         `json:"j"`
	F    []string          `json:"f"`
	CH   map[string]ID     `json:"ch"`
	U    []Pause           `json:"u"`
	D    []json.RawMessage `json:"d"`
	next func(size int) (json.RawMessage, error)
}

// Unmarshal decodes what [Marshal] encoded. Its errors are [ErrVersion] for a
// newer format and otherwise say what is damaged; the caller knows where it
// stood, see [CorruptError].
func Unmarshal(b []byte) (*Record, error) {
	w, err := parse(b)
	if err != nil {
		return nil, err
	}
	if w.ID == nil || *w.ID == "" || w.Q < 1 {
		return nil, errors.New("record has no ID or no sequence number")
	}
	n := 0
	w.next = func(size int) (json.RawMessage, error) {
		if n == len(w.D) {
			return nil, errors.New("a value is missing")
		}
		v := w.D[n]
		if n++; len(v) != size {
			return nil, fmt.Errorf("%d bytes, %d were written", len(v), size)
		}
		return v, nil
	}
	r := &Record{ID: *w.ID, Branch: w.B, Seq: w.Q}
	if err := w.record(r); err != nil {
		return nil, err
	}
	if n != len(w.D) {
		return nil, fmt.Errorf("record holds %d values, %d are named", len(w.D), n)
	}
	return r, nil
}

// UnmarshalBody decodes what [MarshalBody] encoded into a record whose Log, ID,
// Branch, Seq and CreatedAt are set. If data is nil, the record is left without what data
// holds, as by [Record.Meta].
func UnmarshalBody(r *Record, meta, data []byte) error {
	w, err := parse(meta)
	if err != nil {
		return err
	}
	if w.ID != nil || w.Q != 0 || w.B != "" || w.D != nil {
		return errors.New("a record's body holds its key")
	}
	if data != nil {
		w.next = func(size int) (json.RawMessage, error) {
			if size > len(data) {
				return nil, fmt.Errorf("%d bytes are left, %d were written", len(data), size)
			}
			v := data[:size:size]
			data = data[size:]
			return v, nil
		}
	}
	if err := w.record(r); err != nil {
		return err
	}
	if len(data) > 0 {
		return fmt.Errorf("%d bytes more than were written", len(data))
	}
	return nil
}

// parse decodes the JSON of a record and checks its format.
func parse(b []byte) (*wire, error) {
	w := new(wire)
	if err := decode(b, w); err != nil {
		// The format decides whether this is damage.
		var v struct {
			V int `json:"v"`
		}
		if json.Unmarshal(b, &v) != nil || v.V <= Format {
			return nil, err
		}
		if v.V/100 == Format/100 { // unknown fields are fine
			*w = wire{}
			if err := json.Unmarshal(b, w); err != nil {
				return nil, err
			}
			return w, nil
		}
		w.V = v.V
	}
	return w, checkFormat(w.V)
}

func checkFormat(v int) error {
	switch {
	case v <= 0:
		return errors.New("no format number")
	case v/100 > Format/100:
		return fmt.Errorf("%w: format %d.%d, this version of Superstep reads up to %d; use a newer one", ErrVersion, v/100, v%100, Format/100)
	case v/100 < Format/100:
		return fmt.Errorf("unknown format %d.%d", v/100, v%100)
	}
	return nil
}

// decode is json.Unmarshal that refuses unknown fields.
func decode(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("not a record: %w", err)
	}
	if rest := b[d.InputOffset():]; len(bytes.TrimSpace(rest)) > 0 {
		return errors.New("not a record: more follows its end")
	}
	return nil
}

func (w *wire) record(r *Record) error {
	r.Parent, r.Epoch = r.ID.Checkpoint(r.ID.Count()-1), r.ID
	if w.P != nil {
		r.Parent = w.P.of(r.ID)
	}
	if w.E != nil {
		r.Epoch = w.E.of(r.ID)
	}
	if len(w.L) > 0 {
		r.Lineage = make([]Span, len(w.L))
		for i, s := range w.L {
			r.Lineage[i] = Span(s)
		}
	}
	r.Step, r.Source = w.S, Source(w.O)
	if w.T != nil {
		r.CreatedAt = time.Time(*w.T)
	}
	r.Graph, r.Version, r.Metadata = w.G, w.N, w.M
	r.Open, r.Joins, r.Deferred, r.Children, r.Paused = w.W, w.J, w.F, w.CH, w.U
	value := func(size int) (json.RawMessage, error) {
		if size < 0 || w.next == nil {
			return nil, nil
		}
		return w.next(size)
	}
	var err error
	if len(w.C) > 0 {
		r.Changes = make([]Change, len(w.C))
		for i, c := range w.C {
			r.Changes[i] = Change{Node: c.node, Task: c.task}
			if r.Changes[i].Data, err = value(c.size); err != nil {
				return fmt.Errorf("changes of node %q: %w", c.node, err)
			}
		}
	}
	if w.Z != nil && w.next != nil {
		r.Snapshot = &Snapshot{Ranges: w.Z.ranges}
		if r.Snapshot.Values, err = value(w.Z.size); err != nil {
			return fmt.Errorf("snapshot: %w", err)
		}
	}
	if len(w.K) > 0 {
		r.Tasks = make([]Task, len(w.K))
		for i, t := range w.K {
			r.Tasks[i] = Task{Node: t.node, From: t.from, Sent: t.sent}
			if r.Tasks[i].Payload, err = value(t.payload); err != nil {
				return fmt.Errorf("payload of task %d (%s): %w", i, t.node, err)
			}
			if r.Tasks[i].Overlay, err = value(t.overlay); err != nil {
				return fmt.Errorf("overlay of task %d (%s): %w", i, t.node, err)
			}
		}
	}
	if w.next == nil {
		*r = *r.Meta()
	}
	return w.recent(r)
}

func (w *wire) recent(r *Record) error {
	if len(w.R) == 0 {
		return nil
	}
	index, names := w.R[0], w.R[1:]
	if index == "" {
		r.Recent = names
		return nil
	}
	r.Recent = make([]string, 0, 20)
	for i := 0; i < len(index); i++ {
		k, times := strings.IndexByte(digits, index[i]), 1
		if k < 0 || k >= len(names) {
			return fmt.Errorf("recent nodes: %q names no node", index[i])
		}
		if i+2 < len(index) && index[i+1] == '*' {
			if times = strings.IndexByte(digits, index[i+2]); times < 0 {
				return fmt.Errorf("recent nodes: %q is no number", index[i+2])
			}
			i += 2
		}
		for range times {
			r.Recent = append(r.Recent, names[k])
		}
	}
	return nil
}

// near is an ID that may be a number, the place in the run of another one.
type near struct {
	id    ID
	count uint32
	short bool
}

func (n *near) of(self ID) ID {
	if n.short {
		return self.Checkpoint(n.count)
	}
	return n.id
}

func (n *near) UnmarshalJSON(b []byte) error {
	if b[0] == '"' {
		if len(b) > 1 && b[1] == '*' {
			var u [16]byte
			if k, err := base64.RawURLEncoding.Decode(u[:], b[2:min(len(b)-1, 24)]); err != nil || k != 16 || len(b) != 25 {
				return fmt.Errorf("not an ID: %s", b)
			}
			n.id = IDFromBytes(u)
			return nil
		}
		return json.Unmarshal(b, &n.id)
	}
	n.short = true
	return json.Unmarshal(b, &n.count)
}

type wireSource Source

func (s *wireSource) UnmarshalJSON(b []byte) error {
	if b[0] == '"' {
		return json.Unmarshal(b, (*string)(s))
	}
	i, err := strconv.Atoi(string(b))
	if err != nil || i < 0 || i >= len(sourceCodes) {
		return fmt.Errorf("unknown source %s", b)
	}
	*s = wireSource(sourceCodes[i])
	return nil
}

type wireTime time.Time

func (t *wireTime) UnmarshalJSON(b []byte) error {
	if b[0] == '[' {
		var p [2]int64
		if err := json.Unmarshal(b, &p); err != nil {
			return err
		}
		*t = wireTime(time.Unix(p[0], p[1]).UTC())
		return nil
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil {
		return fmt.Errorf("not a time: %w", err)
	}
	*t = wireTime(time.Unix(0, n).UTC())
	return nil
}

type wireSpan Span

func (s *wireSpan) UnmarshalJSON(b []byte) error {
	return tuple(b, 2, &s.Branch, &s.To)
}

type wireChange struct {
	node       string
	task, size int
}

func (c *wireChange) UnmarshalJSON(b []byte) error {
	return tuple(b, 3, &c.node, &c.task, &c.size)
}

type wireSnapshot struct {
	size   int
	ranges map[string][][2]int64
}

func (s *wireSnapshot) UnmarshalJSON(b []byte) error {
	return tuple(b, 1, &s.size, &s.ranges)
}

type wireTask struct {
	node, from       string
	sent             bool
	payload, overlay int
}

func (t *wireTask) UnmarshalJSON(b []byte) error {
	sent := 0
	t.payload, t.overlay = -1, -1
	err := tuple(b, 1, &t.node, &t.from, &sent, &t.payload, &t.overlay)
	t.sent = sent == 1
	if err == nil && sent&^1 != 0 {
		err = fmt.Errorf("unknown kind of task %d", sent)
	}
	return err
}

// tuple decodes an array of at least least elements, each into its own place.
func tuple(b []byte, least int, into ...any) error {
	var list []json.RawMessage
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	if len(list) < least || len(list) > len(into) {
		return fmt.Errorf("%d elements, want %d to %d", len(list), least, len(into))
	}
	for i, raw := range list {
		if err := json.Unmarshal(raw, into[i]); err != nil {
			return err
		}
	}
	return nil
}

// wireResult is a result as it is stored.
type wireResult struct {
	V      int `json:"v"`
	Result     // its own tags
}

// MarshalResult encodes a result as one line of JSON.
func MarshalResult(r *Result) ([]byte, error) {
	w := wireResult{V: Format, Result: *r}
	if len(r.Data) == 0 {
		w.Data = nil
	} else if v, err := oneLine(r.Data); err == nil {
		w.Data = v
	} else {
		return nil, fmt.Errorf("checkpoint: %s of task %d of epoch %s cannot be stored: %w", r.Kind, r.Task, r.Epoch, err)
	}
	return marshal(w)
}

// UnmarshalResult decodes what [MarshalResult] encoded, see [Unmarshal].
func UnmarshalResult(b []byte) (Result, error) {
	var w wireResult
	if err := decode(b, &w); err != nil {
		var v struct {
			V int `json:"v"`
		}
		if json.Unmarshal(b, &v) != nil || v.V <= Format {
			return Result{}, err
		}
		w.V = v.V
		if v.V/100 == Format/100 {
			if err := json.Unmarshal(b, &w); err != nil {
				return Result{}, err
			}
		}
	}
	if err := checkFormat(w.V); err != nil {
		return Result{}, err
	}
	if w.Kind == "" || w.Epoch == "" {
		return Result{}, errors.New("result has no kind or no epoch")
	}
	return w.Result, nil
}
