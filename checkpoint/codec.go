package checkpoint

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/internal/jsonscan"
)

// Format is the version of the format that [Marshal] writes, as 100 times its
// major number plus its minor number. A reader refuses another major number,
// tolerates unknown fields from a newer minor one, and calls unknown fields
// damage otherwise.
const Format = 100

// formatSealed is that of sealed records: a reader that doesn't know them would take
// one for an empty record.
const formatSealed = 200

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
//	s   step, absent if it is the sum of what h says
//	o   source: its number in sourceCodes, else its name; absent for a loop's
//	t   time in nanoseconds since 1970, or [seconds, nanoseconds]
//	g   graph, n version of the state's schema, m metadata
//	c   changes: [[node, task, size, routing], ...], without routing along the
//	    edges, and with a list of names for one that goes to nodes alone; the
//	    node only, if the task is as far on in its superstep as the change is
//	    here, and its data is the last value in d: the name without brackets.
//	    Numbers after a change say when its task ran: how long it took, how long
//	    before t it ended, both in microseconds, and how many attempts failed, if
//	    any did. The second is null if when it began isn't known; zeros at the end
//	    are left out
//	z   snapshot: [size, ranges, 1 if it is full]
//	k   tasks: [[node, from, sent, size of payload, size of overlay], ...], the
//	    node without brackets where nothing follows
//	w   open tasks, j joins, f deferred, ch children, u paused
//	h   limits: [step at which the thread was last given something, tasks run
//	    since, if any]
//	a   due, as t
//	x   sealed: [meta in base64, size of its data, -1 for none]; in a line data
//	    is in base64 too
//	r   recent, absent if it is the nodes of c, the last of them:
//	    [digits, name, ...], or digits alone: each is the index of a
//	    name, first of the first nodes of c and k, each once, then of these; a
//	    digit is followed by '*' and another that says how often it stands there
//	i   thread that waits for the end
//	y   results of Once: [[task, name, size, error if there was one], ...]
//	d   what the sizes speak of: data of changes, snapshot, payload and overlay
//	    of each task, results of Once, in this order
//
// A size is the length in bytes of a value in d, and -1 for none.

var sourceCodes = [...]Source{SourceInput, SourceLoop, SourceInterrupt, SourceResume, SourceUpdate, SourceFork, SourceVoid, SourceInside}

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
	b = strconv.AppendInt(b, int64(formatOf(r)), 10)
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
	if r.Step != r.Begun+r.Ran {
		b = strconv.AppendInt(append(b, `,"s":`...), int64(r.Step), 10)
	}
	if r.Source != SourceLoop {
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
	if r.Begun != 0 || r.Ran != 0 {
		b = strconv.AppendInt(append(b, `,"h":[`...), int64(r.Begun), 10)
		if r.Ran != 0 {
			b = strconv.AppendInt(append(b, ','), int64(r.Ran), 10)
		}
		b = append(b, ']')
	}
	if !r.Due.IsZero() {
		b = appendTime(append(b, `,"a":`...), r.Due)
	}
	if r.Caller != "" {
		b = appendString(append(b, `,"i":`...), string(r.Caller))
	}
	e.meta = b
	if r.Sealed != nil {
		e.sealed(r.Sealed)
	}
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
	if err := e.once(); err != nil {
		return err
	}
	var room [4]string
	if !slices.Equal(r.Recent, newest(room[:0], len(r.Changes), func(i int) string { return r.Changes[i].Node })) {
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

// formatOf returns the format that a record is written in.
func formatOf(r *Record) int {
	if r.Sealed != nil {
		return formatSealed
	}
	return Format
}

func (e *encoder) sealed(s *Sealed) {
	b := append(e.meta, `,"x":["`...)
	b = append(base64.StdEncoding.AppendEncode(b, s.Meta), '"', ',')
	switch {
	case s.Data == nil:
		b = append(b, "-1"...)
	case e.full:
		v := append(base64.StdEncoding.AppendEncode([]byte{'"'}, s.Data), '"')
		e.values = append(e.values, v)
		b = strconv.AppendInt(b, int64(len(v)), 10)
	default:
		e.values = append(e.values, s.Data)
		b = strconv.AppendInt(b, int64(len(s.Data)), 10)
	}
	e.meta = append(b, ']')
}

func (e *encoder) changes() error {
	r := e.r
	if len(r.Changes) > 0 {
		last := r.lastValue()
		e.meta = append(e.meta, `,"c":[`...)
		for i := range r.Changes {
			c := &r.Changes[i]
			n, err := e.value(c.Data)
			if err != nil {
				return e.failed(err, "changes of node %q (task %d)", c.Node, c.Task)
			}
			if i == last && c.Task == i && c.Routing == nil {
				e.meta = appendTimes(appendString(comma(e.meta, i), c.Node), c, r.CreatedAt)
				continue
			}
			b := appendString(append(comma(e.meta, i), '['), c.Node)
			b = strconv.AppendInt(append(b, ','), int64(c.Task), 10)
			b = strconv.AppendInt(append(b, ','), int64(n), 10)
			if c.Routing != nil {
				if b, err = appendRouting(append(b, ','), c.Routing); err != nil {
					return e.failed(err, "routing of node %q (task %d)", c.Node, c.Task)
				}
			}
			e.meta = appendTimes(append(b, ']'), c, r.CreatedAt)
		}
		e.meta = append(e.meta, ']')
	}
	if s := r.Snapshot; s != nil {
		n, err := e.value(s.Values)
		if err != nil {
			return e.failed(err, "the snapshot")
		}
		e.meta = strconv.AppendInt(append(e.meta, `,"z":[`...), int64(n), 10)
		if len(s.Ranges) > 0 || s.Full {
			b, err := marshal(s.Ranges)
			if err != nil {
				return e.failed(err, "the snapshot's ranges")
			}
			e.meta = append(append(e.meta, ','), b...)
		}
		if s.Full {
			e.meta = append(e.meta, ",1"...)
		}
		e.meta = append(e.meta, ']')
	}
	return nil
}

// lastValue returns which change has the last value of the record's data, -1 if none has.
func (r *Record) lastValue() int {
	if r.Snapshot != nil || r.Sealed != nil || slices.ContainsFunc(r.Once, func(o OnceResult) bool { return len(o.Data) > 0 }) ||
		slices.ContainsFunc(r.Tasks, func(t Task) bool { return len(t.Payload)+len(t.Overlay) > 0 }) {
		return -1
	}
	i := len(r.Changes) - 1
	for i >= 0 && len(r.Changes[i].Data) == 0 {
		i--
	}
	return i
}

// appendTimes writes when a task ran whose change a record holds that was made at a time.
func appendTimes(b []byte, c *Change, at time.Time) []byte {
	if !c.timed() {
		return b
	}
	b = strconv.AppendInt(append(b, ','), c.Took, 10)
	switch ago := at.UnixMicro() - c.Began - c.Took; {
	case c.Began == 0:
		b = append(b, ",null"...)
	case ago != 0 || c.Failed != 0:
		b = strconv.AppendInt(append(b, ','), ago, 10)
	}
	if c.Failed != 0 {
		b = strconv.AppendInt(append(b, ','), int64(c.Failed), 10)
	}
	return b
}

// time decodes one of the numbers that appendTimes wrote.
func (c *wireChange) time(b []byte) error {
	c.times++
	switch {
	case c.times == 1:
		c.began = true
		return number(b, &c.took)
	case c.times == 2 && string(b) == "null":
		c.began = false
		return nil
	case c.times == 2:
		return number(b, &c.ago)
	case c.times == 3:
		return number(b, &c.failed)
	}
	return fmt.Errorf("change of node %q is followed by more than 3 numbers", c.node)
}

func appendRouting(b []byte, r *Routing) ([]byte, error) {
	if len(r.Goto) > 0 && !r.Static && !r.Stop && len(r.Sends) == 0 && r.Sent == 0 && r.Parent == nil {
		b = append(b, '[')
		for i, name := range r.Goto {
			b = appendString(comma(b, i), name)
		}
		return append(b, ']'), nil
	}
	v, err := marshal(r)
	return append(b, v...), err
}

// routing decodes what appendRouting wrote.
func (w *wire) routing(b []byte) (*Routing, error) {
	r := new(Routing)
	if b[0] != '[' {
		return r, w.loose(b, r)
	}
	err := elements(b, func(b []byte) error {
		var name string
		err := str(b, &name)
		r.Goto = append(r.Goto, name)
		return err
	})
	return r, err
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
		if t.From == "" && !t.Sent && p < 0 && o < 0 {
			e.meta = appendString(comma(e.meta, i), t.Node)
			continue
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

func (e *encoder) once() error {
	if len(e.r.Once) == 0 {
		return nil
	}
	e.meta = append(e.meta, `,"y":[`...)
	for i := range e.r.Once {
		o := &e.r.Once[i]
		n, err := e.value(o.Data)
		if err != nil {
			return e.failed(err, "result of Once %q of task %d", o.Name, o.Task)
		}
		b := strconv.AppendInt(append(comma(e.meta, i), '['), int64(o.Task), 10)
		b = appendString(append(b, ','), o.Name)
		b = strconv.AppendInt(append(b, ','), int64(n), 10)
		if o.Error != "" {
			b = appendString(append(b, ','), o.Error)
		}
		e.meta = append(b, ']')
	}
	e.meta = append(e.meta, ']')
	return nil
}

const digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// named is how many nodes of each kind a record's Recent refers to.
const named = 20

// known returns the first nodes of n changes or tasks, beside those that are known.
func known(names []string, n int, node func(i int) string) []string {
	for i := range min(n, named) {
		if s := node(i); s != "" && !slices.Contains(names, s) {
			names = append(names, s)
		}
	}
	return names
}

// newest appends the last nodes of n changes.
func newest(names []string, n int, node func(i int) string) []string {
	for i := n - 1; i >= 0 && len(names) < named; i-- {
		if s := node(i); s != "" {
			names = append(names, s)
		}
	}
	slices.Reverse(names)
	return names
}

func (e *encoder) recent() {
	r := e.r
	names := make([]string, 0, len(r.Recent)+2)
	names = known(names, len(r.Changes), func(i int) string { return r.Changes[i].Node })
	names = known(names, len(r.Tasks), func(i int) string { return r.Tasks[i].Node })
	said := len(names)
	index := make([]byte, len(e.r.Recent))
	for i, n := range e.r.Recent {
		k := 0
		for k < len(names) && names[k] != n {
			k++
		}
		if k == len(digits) { // too many for digits: the names as they are
			names, index, said = r.Recent, nil, 0
			break
		}
		if k == len(names) {
			names = append(names, n)
		}
		index[i] = digits[k]
	}
	b := append(e.meta, `,"r":`...)
	if names = names[said:]; len(names) > 0 {
		b = append(b, '[')
	}
	b = append(b, '"')
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
	if len(names) > 0 {
		b = append(b, ']')
	}
	e.meta = b
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
	if !jsonscan.Valid(raw) {
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
	v       int
	id      ID
	branch  Branch
	seq     int64
	keyed   bool // id, branch or seq were there
	parent  *near
	epoch   *near
	lineage []Span
	step    *int
	source  Source
	at      *time.Time
	graph   string
	version int
	meta    map[string]string
	changes []wireChange
	snap    *wireSnapshot
	tasks   []wireTask
	once    []wireOnce
	recent  []string
	open    []OpenTask
	joins   []Arrival
	after   []string
	kids    map[string]ID
	paused  []Pause
	begun   int
	caller  ThreadID
	ran     int
	due     time.Time
	sealed  *Sealed
	size    int  // of the data of sealed
	line    bool // it was in a line
	data    []json.RawMessage
	folding bool   // nothing but what Query.Folding names is read
	unknown string // a field that this version does not know
	next    func(size int) (json.RawMessage, error)

	// Where the lists of most records have room. A record never refers to
	// these: a wire is used again.
	room struct {
		near    [2]near
		changes [1]wireChange
		tasks   [1]wireTask
		recent  [4]string
		data    [2]json.RawMessage
	}
}

var wires = sync.Pool{New: func() any { return new(wire) }}

// free gives w back.
func (w *wire) free() {
	*w = wire{}
	wires.Put(w)
}

// Unmarshal decodes what [Marshal] encoded. Its errors are [ErrVersion] for a
// newer format and otherwise say what is damaged; the caller knows where it
// stood, see [CorruptError].
func Unmarshal(b []byte) (*Record, error) { return unmarshal(b, false) }

// UnmarshalFolding is [Unmarshal] for a query with Folding. The data of the changes
// are parts of b.
func UnmarshalFolding(b []byte) (*Record, error) { return unmarshal(b, true) }

func unmarshal(b []byte, folding bool) (*Record, error) {
	w := wires.Get().(*wire)
	defer w.free()
	w.folding = folding
	err := w.parse(b)
	if err != nil {
		return nil, err
	}
	w.line = true
	if w.id == "" || w.seq < 1 {
		return nil, errors.New("record has no ID or no sequence number")
	}
	n := 0
	w.next = func(size int) (json.RawMessage, error) {
		if n == len(w.data) {
			return nil, errors.New("a value is missing")
		}
		v := w.data[n]
		if n++; len(v) != size && size != theRest {
			return nil, fmt.Errorf("%d bytes, %d were written", len(v), size)
		}
		return v, nil
	}
	r := &Record{ID: w.id, Branch: w.branch, Seq: w.seq}
	if err := w.record(r); err != nil {
		return nil, err
	}
	if n != len(w.data) && !folding {
		return nil, fmt.Errorf("record holds %d values, %d are named", len(w.data), n)
	}
	return r, nil
}

// UnmarshalBody decodes what [MarshalBody] encoded into a record whose Log, ID,
// Branch, Seq and CreatedAt are set. If data is nil, the record is left without what data
// holds, as by [Record.Meta].
func UnmarshalBody(r *Record, meta, data []byte) error { return unmarshalBody(r, meta, data, false) }

// UnmarshalBodyFolding is [UnmarshalBody] for a query with Folding: of the record that
// it decodes into, Seq must be set.
func UnmarshalBodyFolding(r *Record, meta, data []byte) error {
	return unmarshalBody(r, meta, data, true)
}

func unmarshalBody(r *Record, meta, data []byte, folding bool) error {
	w := wires.Get().(*wire)
	defer w.free()
	w.folding = folding
	if err := w.parse(meta); err != nil {
		return err
	}
	if w.keyed || w.data != nil {
		return errors.New("a record's body holds its key")
	}
	if data != nil {
		w.next = func(size int) (json.RawMessage, error) {
			if size == theRest && len(data) > 0 {
				size = len(data)
			}
			if size > len(data) || size < 0 {
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
	if len(data) > 0 && !folding {
		return fmt.Errorf("%d bytes more than were written", len(data))
	}
	return nil
}

// parse decodes the JSON of a record and checks its format.
func (w *wire) parse(b []byte) error {
	w.source, w.changes, w.tasks, w.recent = SourceLoop, w.room.changes[:0], w.room.tasks[:0], w.room.recent[:0]
	err := members(b, w.member)
	if err != nil && !jsonscan.Valid(b) {
		return notRecord(b)
	}
	// The format decides whether an error is damage.
	if v := checkFormat(w.v); v != nil && (w.v != formatSealed || w.sealed == nil) && (err == nil || errors.Is(v, ErrVersion)) {
		return v
	}
	if err != nil {
		return fmt.Errorf("not a record: %w", err)
	}
	if w.unknown != "" && w.v <= Format {
		return fmt.Errorf("not a record: unknown field %q", w.unknown)
	}
	return nil
}

func notRecord(b []byte) error {
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		return fmt.Errorf("not a record: %w", err)
	}
	return errors.New("not a record")
}

// member decodes one field.
func (w *wire) member(key, b []byte) (err error) {
	if w.folding {
		switch string(key) {
		case "v", "id", "q", "o", "n", "x", "c", "d":
		default:
			return nil
		}
	}
	switch string(key) {
	case "v":
		err = number(b, &w.v)
	case "id":
		w.keyed = true
		err = str(b, (*string)(&w.id))
	case "b":
		w.keyed = true
		err = str(b, (*string)(&w.branch))
	case "q":
		w.keyed = true
		err = number(b, &w.seq)
	case "p":
		w.parent = &w.room.near[0]
		err = w.parent.parse(b)
	case "e":
		w.epoch = &w.room.near[1]
		err = w.epoch.parse(b)
	case "l":
		err = elements(b, func(b []byte) error {
			var s Span
			err := tuple(b, 2, func(i int, b []byte) error {
				if i == 0 {
					return str(b, (*string)(&s.Branch))
				}
				return number(b, &s.To)
			}, 2)
			w.lineage = append(w.lineage, s)
			return err
		})
	case "s":
		w.step = new(int)
		err = number(b, w.step)
	case "o":
		w.source, err = parseSource(b)
	case "t":
		w.at = new(time.Time)
		*w.at, err = parseTime(b)
	case "g":
		err = str(b, &w.graph)
	case "n":
		err = number(b, &w.version)
	case "m":
		err = json.Unmarshal(b, &w.meta)
	case "h":
		err = tuple(b, 1, func(i int, b []byte) error {
			if i == 0 {
				return number(b, &w.begun)
			}
			return number(b, &w.ran)
		}, 2)
	case "a":
		w.due, err = parseTime(b)
	case "i":
		err = str(b, (*string)(&w.caller))
	case "x":
		w.sealed = new(Sealed)
		err = tuple(b, 2, func(i int, b []byte) (err error) {
			if i == 0 {
				return unbase64(b, &w.sealed.Meta)
			}
			return number(b, &w.size)
		}, 2)
	case "c":
		err = elements(b, func(b []byte) error {
			c := wireChange{task: len(w.changes), size: theRest}
			if b[0] == '"' {
				err := str(b, &c.node)
				w.changes = append(w.changes, c)
				return err
			}
			if b[0] != '[' {
				if w.folding {
					return nil
				}
				if len(w.changes) == 0 {
					return errors.New("times of no change")
				}
				return w.changes[len(w.changes)-1].time(b)
			}
			err := tuple(b, 3, func(i int, b []byte) (err error) {
				switch i {
				case 0:
					return str(b, &c.node)
				case 1:
					return number(b, &c.task)
				case 2:
					return number(b, &c.size)
				}
				c.routing, err = w.routing(b)
				return err
			}, 4)
			w.changes = append(w.changes, c)
			return err
		})
	case "z":
		w.snap = new(wireSnapshot)
		err = tuple(b, 1, func(i int, b []byte) error {
			switch i {
			case 0:
				return number(b, &w.snap.size)
			case 1:
				return strict(b, &w.snap.ranges)
			}
			var full int
			err := number(b, &full)
			if w.snap.full = full == 1; err == nil && !w.snap.full {
				err = fmt.Errorf("unknown kind of snapshot %d", full)
			}
			return err
		}, 3)
	case "k":
		err = elements(b, func(b []byte) error {
			t, err := parseTask(b)
			w.tasks = append(w.tasks, t)
			return err
		})
	case "y":
		err = elements(b, func(b []byte) error {
			o := wireOnce{size: -1}
			err := tuple(b, 3, func(i int, b []byte) error {
				switch i {
				case 0:
					return number(b, &o.task)
				case 1:
					return str(b, &o.name)
				case 2:
					return number(b, &o.size)
				default:
					return str(b, &o.failure)
				}
			}, 4)
			w.once = append(w.once, o)
			return err
		})
	case "r":
		if b[0] == '"' {
			w.recent = append(w.recent, "")
			err = str(b, &w.recent[0])
			break
		}
		err = elements(b, func(b []byte) error {
			var s string
			err := str(b, &s)
			w.recent = append(w.recent, s)
			return err
		})
	case "w":
		err = w.loose(b, &w.open)
	case "j":
		err = w.loose(b, &w.joins)
	case "f":
		err = json.Unmarshal(b, &w.after)
	case "ch":
		err = json.Unmarshal(b, &w.kids)
	case "u":
		err = w.loose(b, &w.paused)
	case "d":
		w.data = w.room.data[:0]
		err = elements(b, func(b []byte) error {
			if !w.folding {
				b = bytes.Clone(b)
			}
			w.data = append(w.data, b)
			return nil
		})
	default:
		w.unknown = string(key)
	}
	if err != nil {
		return fmt.Errorf("field %q: %w", key, err)
	}
	return nil
}

// loose decodes with unknown fields if a newer version wrote them.
func (w *wire) loose(b []byte, v any) error {
	if w.v > Format {
		return json.Unmarshal(b, v)
	}
	return strict(b, v)
}

// strict is json.Unmarshal that refuses unknown fields.
func strict(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return d.Decode(v)
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

// decode is strict, and refuses what follows.
func decode(b []byte, v any) error {
	if !jsonscan.Valid(b) {
		return notRecord(b)
	}
	return strict(b, v)
}

func (w *wire) record(r *Record) error {
	r.Source, r.Version, r.Sealed = w.source, w.version, w.sealed
	if !w.folding {
		w.place(r)
	}
	value := func(size int) (json.RawMessage, error) {
		if size < theRest || size == -1 || w.next == nil {
			return nil, nil
		}
		return w.next(size)
	}
	var err error
	if w.sealed != nil {
		data, err := value(w.size)
		if err != nil {
			return fmt.Errorf("sealed data: %w", err)
		}
		if w.line && data != nil {
			if err := unbase64(data, &w.sealed.Data); err != nil {
				return fmt.Errorf("sealed data: %w", err)
			}
		} else {
			w.sealed.Data = data
		}
	}
	if len(w.changes) > 0 {
		r.Changes = make([]Change, len(w.changes))
		for i, c := range w.changes {
			r.Changes[i] = Change{Node: c.node, Task: c.task, Routing: c.routing, Took: c.took, Failed: c.failed}
			if c.began {
				r.Changes[i].Began = r.CreatedAt.UnixMicro() - c.ago - c.took
			}
			if r.Changes[i].Data, err = value(c.size); err != nil {
				return fmt.Errorf("changes of node %q: %w", c.node, err)
			}
		}
	}
	if w.folding {
		return nil
	}
	if w.snap != nil && w.next != nil {
		r.Snapshot = &Snapshot{Ranges: w.snap.ranges, Full: w.snap.full}
		if r.Snapshot.Values, err = value(w.snap.size); err != nil {
			return fmt.Errorf("snapshot: %w", err)
		}
	}
	if len(w.tasks) > 0 {
		r.Tasks = make([]Task, len(w.tasks))
		for i, t := range w.tasks {
			r.Tasks[i] = Task{Node: t.node, From: t.from, Sent: t.sent}
			if r.Tasks[i].Payload, err = value(t.payload); err != nil {
				return fmt.Errorf("payload of task %d (%s): %w", i, t.node, err)
			}
			if r.Tasks[i].Overlay, err = value(t.overlay); err != nil {
				return fmt.Errorf("overlay of task %d (%s): %w", i, t.node, err)
			}
		}
	}
	if len(w.once) > 0 {
		r.Once = make([]OnceResult, len(w.once))
		for i, o := range w.once {
			r.Once[i] = OnceResult{Task: o.task, Name: o.name, Error: o.failure}
			if r.Once[i].Data, err = value(o.size); err != nil {
				return fmt.Errorf("result of Once %q: %w", o.name, err)
			}
		}
	}
	if w.next == nil {
		*r = *r.Meta()
	}
	return w.recently(r)
}

// place sets what of a record has no data.
func (w *wire) place(r *Record) {
	r.Epoch = r.ID
	if w.parent != nil {
		r.Parent = w.parent.of(r.ID)
	} else {
		r.Parent = r.ID.Checkpoint(r.ID.Count() - 1)
	}
	if w.epoch != nil {
		r.Epoch = w.epoch.of(r.ID)
	}
	if w.at != nil {
		r.CreatedAt = *w.at
	}
	r.Lineage, r.Step, r.Graph, r.Metadata = w.lineage, w.begun+w.ran, w.graph, w.meta
	if w.step != nil {
		r.Step = *w.step
	}
	r.Open, r.Joins, r.Deferred, r.Children, r.Paused = w.open, w.joins, w.after, w.kids, w.paused
	r.Begun, r.Ran, r.Due, r.Caller = w.begun, w.ran, w.due, w.caller
}

func (w *wire) recently(r *Record) error {
	change := func(i int) string { return w.changes[i].node }
	if len(w.recent) == 0 {
		if !w.folding {
			r.Recent = newest(nil, len(w.changes), change)
		}
		return nil
	}
	index, names := w.recent[0], w.recent[1:]
	if index == "" {
		r.Recent = append([]string(nil), names...)
		return nil
	}
	var room [4]string
	said := known(room[:0], len(w.changes), change)
	names = append(known(said, len(w.tasks), func(i int) string { return w.tasks[i].node }), names...)
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

func (n *near) parse(b []byte) error {
	*n = near{}
	if b[0] != '"' {
		n.short = true
		return number(b, &n.count)
	}
	if len(b) > 1 && b[1] == '*' {
		var u [16]byte
		if k, err := base64.RawURLEncoding.Decode(u[:], b[2:min(len(b)-1, 24)]); err != nil || k != 16 || len(b) != 25 {
			return fmt.Errorf("not an ID: %s", b)
		}
		n.id = IDFromBytes(u)
		return nil
	}
	return str(b, (*string)(&n.id))
}

func parseSource(b []byte) (s Source, err error) {
	if b[0] == '"' {
		err = str(b, (*string)(&s))
		return s, err
	}
	var i int
	if err := number(b, &i); err != nil || i < 0 || i >= len(sourceCodes) {
		return "", fmt.Errorf("unknown source %s", b)
	}
	return sourceCodes[i], nil
}

func parseTime(b []byte) (time.Time, error) {
	var sec, nsec int64
	if b[0] != '[' {
		err := number(b, &nsec)
		return time.Unix(0, nsec).UTC(), err
	}
	err := tuple(b, 2, func(i int, b []byte) error {
		if i == 0 {
			return number(b, &sec)
		}
		return number(b, &nsec)
	}, 2)
	return time.Unix(sec, nsec).UTC(), err
}

type wireChange struct {
	node       string
	task, size int
	routing    *Routing
	times      int   // numbers that follow it
	began      bool  // ago says something
	took, ago  int64 // ago: before the record it ended
	failed     int
}

// theRest is the size of data that takes what is left.
const theRest = -2

type wireSnapshot struct {
	size   int
	full   bool
	ranges map[string][][2]int64
}

type wireOnce struct {
	task, size    int
	name, failure string
}

type wireTask struct {
	node, from       string
	sent             bool
	payload, overlay int
}

func parseTask(b []byte) (t wireTask, err error) {
	t.payload, t.overlay = -1, -1
	if b[0] == '"' {
		return t, str(b, &t.node)
	}
	err = tuple(b, 1, func(i int, b []byte) error {
		switch i {
		case 0:
			return str(b, &t.node)
		case 1:
			return str(b, &t.from)
		case 2:
			var sent int
			err := number(b, &sent)
			if t.sent = sent == 1; err == nil && sent&^1 != 0 {
				err = fmt.Errorf("unknown kind of task %d", sent)
			}
			return err
		case 3:
			return number(b, &t.payload)
		default:
			return number(b, &t.overlay)
		}
	}, 5)
	return t, err
}

// members calls f for each member of an object.
func members(b []byte, f func(key, value []byte) error) (err error) {
	if !jsonscan.Members(b, func(key, value []byte) bool { err = f(key, value); return err == nil }) && err == nil {
		err = errors.New("not an object")
	}
	return err
}

// elements calls f for each element of an array.
func elements(b []byte, f func(value []byte) error) (err error) {
	if !jsonscan.Elements(b, func(value []byte) bool { err = f(value); return err == nil }) && err == nil {
		err = errors.New("not a list")
	}
	return err
}

// tuple is elements for an array of least to most ones.
func tuple(b []byte, least int, f func(i int, value []byte) error, most int) error {
	n := 0
	err := elements(b, func(b []byte) error {
		if n++; n > most {
			return fmt.Errorf("more than %d elements", most)
		}
		return f(n-1, b)
	})
	if err == nil && n < least {
		err = fmt.Errorf("%d elements, want %d", n, least)
	}
	return err
}

func str(b []byte, into *string) error {
	if b[0] == '"' && bytes.IndexByte(b, '\\') < 0 && utf8.Valid(b) {
		*into = string(b[1 : len(b)-1])
		return nil
	}
	if b[0] != '"' {
		return fmt.Errorf("%s is not a string", b)
	}
	var s string // a variable of its own, so that *into needs no memory on the heap
	err := json.Unmarshal(b, &s)
	*into = s
	return err
}

// unbase64 decodes a string of base64.
func unbase64(b []byte, into *[]byte) error {
	var s string
	if err := str(b, &s); err != nil {
		return err
	}
	out, err := base64.StdEncoding.DecodeString(s)
	if out == nil {
		out = []byte{}
	}
	*into = out
	return err
}

func number[N int | int64 | uint32](b []byte, into *N) error {
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil || int64(N(n)) != n {
		return fmt.Errorf("%s is not a whole number, or too large", b)
	}
	*into = N(n)
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
