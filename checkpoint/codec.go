package checkpoint

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/internal/jsonscan"
)

// Format is the version of the format that [MarshalBody] writes, as 100 times its
// major number plus its minor number. A reader refuses another major number,
// tolerates unknown fields from a newer minor one, and calls unknown fields
// damage otherwise.
const Format = 100

// The format. The meta of a record is a JSON object without white space, its members in this
// order. Where short forms exist, the long one is used only when it must be:
//
//	v   format
//	g   graph
//	p   parent: absent for the one before in the same run, a number for
//	    another one of the same run, else the ID; the 16 bytes of a UUID are
//	    written in base64 after a '*'
//	e   epoch: absent for the record itself, else as p
//	l   lineage: [[branch, to], ...]
//	s   step, absent if it is the sum of what h says
//	o   source: its number in sourceCodes, else its name; absent for a loop's
//	t   time, if its nanoseconds since 1970 are no number: [seconds, nanoseconds]
//	n   version of the state's schema
//	h   limits: [step at which the thread was last given something, tasks run
//	    since, if any]
//	a   due, in nanoseconds since 1970, or as t
//	i   thread that waits for the end
//	x   sealed: [meta in base64, size of its data]
//	m   metadata
//	c   changes: [[node, task, size, routing], ...], without routing along the
//	    edges, and with a list of names for one that goes to nodes alone; the
//	    node only, if the task is as far on in its superstep as the change is
//	    here, and its data is the last value of the data: the name without brackets.
//	    Numbers after a change say when its task ran: how long it took, how long
//	    before t it ended, both in microseconds, and how many attempts failed, if
//	    any did. The second is null if when it began isn't known; zeros at the end
//	    are left out
//	z   snapshot: [size, ranges, 1 if it is full]
//	k   tasks: [[node, from, sent, size of payload, size of overlay], ...], the
//	    node without brackets where nothing follows
//	y   results of Once: [[task, name, size, error if there was one], ...]
//	r   recent, absent if it is the nodes of c, the last of them:
//	    [digits, name, ...], or digits alone: each is the index of a
//	    name, first of the first nodes of c and k, each once, then of these
//	w   open tasks, j joins, f deferred, ch children, u paused
//
// A size is the length in bytes of a value in the data, where they follow one another in the
// order of the sizes; it is -1 for none.

var sourceCodes = [...]Source{SourceInput, SourceLoop, SourceInterrupt, SourceResume, SourceUpdate, SourceFork, SourceVoid, SourceInside}

// MarshalBody encodes what of a record a back end does not keep elsewhere: not
// its Log, ID, Branch, Seq and CreatedAt.UnixNano(), if this has a meaning at
// that time. The result has two parts, so that one can be read
// without the other: meta is JSON and holds what [Query.Meta] asks for; data
// holds the large values, one after the other, and is empty when there are none.
func MarshalBody(r *Record) (meta, data []byte, err error) {
	c := coder{Codec: jsonscan.Codec{Writing: true, B: append(make([]byte, 0, 256), `{"v":100`...)}, r: r}
	if c.record(); c.Err != nil {
		return nil, nil, fmt.Errorf("checkpoint: record %s of thread %q cannot be stored: %w", r.ID, r.Log.Thread, c.Err)
	}
	n := 0
	for _, v := range c.values {
		n += len(v)
	}
	data = make([]byte, 0, n)
	for _, v := range c.values {
		data = append(data, v...)
	}
	return append(c.B, '}'), data, nil
}

// UnmarshalBody decodes what [MarshalBody] encoded into a record whose Log, ID,
// Branch, Seq and CreatedAt are set. If data is nil, the record is left without what data
// holds, as by [Record.Meta]. Meta that a store kept as JSON, with members in another order and
// with white space, is read as well, if more slowly. Its errors are [ErrVersion] for a newer format and otherwise say
// what is damaged; the caller knows where it stood, see [CorruptError].
func UnmarshalBody(r *Record, meta, data []byte) error { return unmarshalBody(r, meta, data, false) }

// UnmarshalBodyFolding is [UnmarshalBody] for a query with Folding: of the record that
// it decodes into, Seq must be set.
func UnmarshalBodyFolding(r *Record, meta, data []byte) error {
	return unmarshalBody(r, meta, data, true)
}

func unmarshalBody(r *Record, meta, data []byte, folding bool) error {
	err := readBody(r, meta, data, folding)
	if err == nil || errors.Is(err, ErrVersion) {
		return err
	}
	again, ok := inOrder(meta) // a store may keep it as JSON, and not as it was written
	if !ok {
		return err
	}
	*r = Record{Log: r.Log, ID: r.ID, Branch: r.Branch, Seq: r.Seq, CreatedAt: r.CreatedAt}
	return readBody(r, again, data, folding)
}

// inOrder returns the meta of a record with its members in their order and without white
// space, and whether it was something else.
func inOrder(meta []byte) (ordered []byte, ok bool) {
	values := map[string][]byte{}
	if !jsonscan.Members(meta, func(key, value []byte) bool {
		_, twice := values[string(key)]
		values[string(key)] = value
		return !twice
	}) {
		return nil, false
	}
	others := slices.DeleteFunc(slices.Sorted(maps.Keys(values)), func(name string) bool { return slices.Contains(members, name) })
	var b bytes.Buffer
	for _, name := range slices.Concat(members, others) {
		if value, has := values[name]; has {
			b.Write(append(appendString([]byte{','}, name), ':'))
			if json.Compact(&b, value) != nil {
				return nil, false
			}
		}
	}
	b.WriteByte('}')
	ordered = b.Bytes()
	ordered[0] = '{'
	return ordered, len(values) > 0 && !bytes.Equal(ordered, meta)
}

func readBody(r *Record, meta, data []byte, folding bool) error {
	c := coder{Codec: jsonscan.Codec{B: meta}, r: r, folding: folding, data: data}
	v := 0
	if c.Begin(); string(c.Next) == "v" {
		v = int(c.Int())
	}
	if err := checkFormat(v); err != nil {
		return err
	}
	switch c.newer = v > Format; {
	case folding:
		c.Skip = notFolded
	case c.newer:
		c.Skip = unknown
	}
	c.Step()
	c.record()
	switch {
	case c.Err != nil:
	case c.Next != nil:
		c.Err = fmt.Errorf("unknown field %q, or not in its place", c.Next)
	case folding:
		return nil
	case len(c.data) > 0:
		c.Err = fmt.Errorf("%d bytes more than were written", len(c.data))
	default:
		if c.Expect('}'); c.I != len(meta) {
			c.Fail()
		}
	}
	if c.Err != nil {
		return fmt.Errorf("not a record: %w", c.Err)
	}
	if data == nil {
		*r = *r.Meta()
	}
	return nil
}

func checkFormat(v int) error {
	switch {
	case v <= 0:
		return errors.New("not a record: it has no format number")
	case v/100 > Format/100:
		return fmt.Errorf("%w: format %d.%d, this version of Superstep reads up to %d; use a newer one", ErrVersion, v/100, v%100, Format/100)
	case v/100 < Format/100:
		return fmt.Errorf("unknown format %d.%d", v/100, v%100)
	}
	return nil
}

var members = strings.Fields("v g p e l s o t n h a i x m c z k y r w j f ch u")

func unknown(key []byte) bool { return !slices.Contains(members, string(key)) }

func notFolded(key []byte) bool {
	switch string(key) {
	case "o", "n", "x", "c":
		return false
	}
	return true
}

// coder writes the meta of a record, or reads it. What it writes is not changed: others may
// be reading it.
type coder struct {
	jsonscan.Codec
	r       *Record
	newer   bool // another version has written it
	folding bool // nothing but what Query.Folding names is read

	values [][]byte // the data that was written
	data   []byte   // what is left of the data; nil: it isn't read
}

// none is a number that a record does not say.
const none = math.MinInt64

func (c *coder) record() {
	r := c.r
	c.text("g", &r.Graph)
	if !c.near("p", &r.Parent, !r.ID.after(r.Parent)) && !c.Writing && !c.folding {
		r.Parent = r.ID.Checkpoint(r.ID.Count() - 1)
	}
	if !c.near("e", &r.Epoch, r.Epoch != r.ID) && !c.Writing && !c.folding {
		r.Epoch = r.ID
	}
	list(c, "l", &r.Lineage, func(_ int, s *Span) {
		c.tuple(2, 2, 2, func(i int) {
			if i == 0 {
				str(c, (*string)(&s.Branch))
			} else {
				num(c, &s.To)
			}
		})
	})
	step := int64(none)
	if c.Writing && r.Step != r.Begun+r.Ran {
		step = int64(r.Step)
	}
	jsonscan.Integer(&c.Codec, "s", &step, none)
	c.source()
	c.time("t", &r.CreatedAt, !inNanos(r.CreatedAt))
	jsonscan.Integer(&c.Codec, "n", &r.Version, 0)
	if c.Has("h", r.Begun != 0 || r.Ran != 0) {
		c.tuple(1+one(r.Ran != 0), 1, 2, func(i int) {
			if i == 0 {
				num(c, &r.Begun)
			} else {
				num(c, &r.Ran)
			}
		})
		c.Step()
	}
	if !c.Writing && !c.folding {
		if r.Step = r.Begun + r.Ran; step != none {
			r.Step = int(step)
		}
	}
	c.time("a", &r.Due, !r.Due.IsZero())
	c.text("i", (*string)(&r.Caller))
	c.sealed()
	c.json("m", "metadata", &r.Metadata, len(r.Metadata) > 0)
	c.changes()
	if c.folding {
		return
	}
	c.snapshot()
	list(c, "k", &r.Tasks, c.task)
	list(c, "y", &r.Once, func(_ int, o *OnceResult) {
		c.tuple(3+one(o.Error != ""), 3, 4, func(i int) {
			switch i {
			case 0:
				num(c, &o.Task)
			case 1:
				str(c, &o.Name)
			case 2:
				if err := c.value(&o.Data); err != nil {
					c.failed(err, "result of Once %q of task %d", o.Name, o.Task)
				}
			case 3:
				str(c, &o.Error)
			}
		})
	})
	c.recent()
	c.json("w", "open tasks", &r.Open, len(r.Open) > 0)
	c.json("j", "joins", &r.Joins, len(r.Joins) > 0)
	c.json("f", "deferred nodes", &r.Deferred, len(r.Deferred) > 0)
	c.json("ch", "children", &r.Children, len(r.Children) > 0)
	c.json("u", "breakpoints", &r.Paused, len(r.Paused) > 0)
}

func (c *coder) sealed() {
	s := c.r.Sealed
	if !c.Has("x", s != nil) {
		return
	}
	if !c.Writing {
		s = new(Sealed)
		c.r.Sealed = s
	}
	c.tuple(2, 2, 2, func(i int) {
		switch {
		case i == 1:
			if err := c.bytes(&s.Data); err != nil {
				c.failed(err, "sealed data")
			}
		case c.Writing:
			c.B = append(base64.StdEncoding.AppendEncode(append(c.B, '"'), s.Meta), '"')
		default:
			var err error
			if s.Meta, err = base64.StdEncoding.AppendDecode([]byte{}, bytes.Trim(c.Value(), `"`)); err != nil {
				c.Fail()
			}
		}
	})
	c.Step()
}

func (c *coder) changes() {
	r := c.r
	if !c.Has("c", len(r.Changes) > 0) {
		return
	}
	last, times := -1, 0
	if c.Writing {
		last = r.lastValue()
	}
	c.List(len(r.Changes), func(i int) {
		short := false
		if !c.Writing {
			p := c.Peek()
			if p != '"' && p != '[' {
				c.ran(times)
				times++
				return
			}
			i, times, short = len(r.Changes), 0, p == '"'
			r.Changes = append(r.Changes, Change{})
		}
		v := &r.Changes[i]
		var err error
		if short || i == last && v.Task == i && v.Routing == nil {
			if str(c, &v.Node); c.Writing {
				err = c.keep(v.Data)
			} else {
				v.Task = i
				v.Data, err = c.rest()
			}
		} else {
			c.tuple(3+one(v.Routing != nil), 3, 4, func(k int) {
				switch k {
				case 0:
					str(c, &v.Node)
				case 1:
					num(c, &v.Task)
				case 2:
					err = c.value(&v.Data)
				case 3:
					c.routing(v)
				}
			})
		}
		if err != nil {
			c.failed(err, "changes of node %q (task %d)", v.Node, v.Task)
		}
		if c.Writing {
			c.B = appendTimes(c.B, v, r.CreatedAt)
		}
	})
	c.Step()
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

// ran reads one of the numbers that appendTimes wrote, behind others of the same change.
func (c *coder) ran(behind int) {
	if c.folding {
		c.Value()
		return
	}
	n := len(c.r.Changes)
	if n == 0 {
		c.failed(errors.New("of no change"), "times")
		return
	}
	switch v := &c.r.Changes[n-1]; {
	case behind == 0:
		v.Took = c.Int()
		v.Began = c.r.CreatedAt.UnixMicro() - v.Took
	case behind == 1 && c.Peek() == 'n':
		c.Value()
		v.Began = 0
	case behind == 1:
		v.Began -= c.Int()
	case behind == 2:
		num(c, &v.Failed)
	default:
		c.failed(errors.New("followed by more than 3 numbers"), "change of node %q", v.Node)
	}
}

func (c *coder) routing(v *Change) {
	r := v.Routing
	if !c.Writing {
		r = new(Routing)
		v.Routing = r
	}
	if c.Writing && len(r.Goto) > 0 && !r.Static && !r.Stop && len(r.Sends) == 0 && r.Sent == 0 && r.Parent == nil || c.Peek() == '[' {
		c.List(len(r.Goto), func(i int) {
			if !c.Writing {
				r.Goto = append(r.Goto, "")
			}
			str(c, &r.Goto[i])
		})
		return
	}
	c.element("routing", r)
}

func (c *coder) snapshot() {
	s := c.r.Snapshot
	if !c.Has("z", s != nil) {
		return
	}
	if !c.Writing {
		s = new(Snapshot)
	}
	c.tuple(1+one(len(s.Ranges) > 0 || s.Full)+one(s.Full), 1, 3, func(i int) {
		switch i {
		case 0:
			if err := c.value(&s.Values); err != nil {
				c.failed(err, "the snapshot")
			}
		case 1:
			c.element("the snapshot's ranges", &s.Ranges)
		case 2:
			c.one(&s.Full)
		}
	})
	if !c.Writing && c.data != nil {
		c.r.Snapshot = s
	}
	c.Step()
}

func (c *coder) task(i int, t *Task) {
	n := 1
	switch {
	case len(t.Overlay) > 0:
		n = 5
	case len(t.Payload) > 0:
		n = 4
	case t.Sent:
		n = 3
	case t.From != "":
		n = 2
	}
	if c.Writing && n == 1 || c.Peek() == '"' {
		str(c, &t.Node)
		return
	}
	c.tuple(n, 1, 5, func(k int) {
		switch k {
		case 0:
			str(c, &t.Node)
		case 1:
			str(c, &t.From)
		case 2:
			c.one(&t.Sent)
		case 3:
			if err := c.value(&t.Payload); err != nil {
				c.failed(err, "payload of task %d (%s)", i, t.Node)
			}
		case 4:
			if err := c.value(&t.Overlay); err != nil {
				c.failed(err, "overlay of task %d (%s)", i, t.Node)
			}
		}
	})
}

const digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// named is how many nodes of each kind a record's Recent refers to.
const named = 20

// said returns the nodes of a record that its Recent may refer to: the first of its changes
// and of its tasks, each once.
func (r *Record) said(names []string) []string {
	changes, tasks := r.Changes[:min(len(r.Changes), named)], r.Tasks[:min(len(r.Tasks), named)]
	for i := range len(changes) + len(tasks) {
		var s string
		if i < len(changes) {
			s = changes[i].Node
		} else {
			s = tasks[i-len(changes)].Node
		}
		if s != "" && !slices.Contains(names, s) {
			names = append(names, s)
		}
	}
	return names
}

// newest appends the nodes of the last changes.
func (r *Record) newest(names []string) []string {
	for i := len(r.Changes) - 1; i >= 0 && len(names) < named; i-- {
		if s := r.Changes[i].Node; s != "" {
			names = append(names, s)
		}
	}
	slices.Reverse(names)
	return names
}

func (c *coder) recent() {
	r := c.r
	var room [4]string
	switch has := c.Has("r", c.Writing && !slices.Equal(r.Recent, r.newest(room[:0]))); {
	case has && c.Writing:
		c.appendRecent()
	case has:
		var all []string
		if c.Peek() == '"' {
			all = []string{c.Text()}
		} else {
			c.List(0, func(int) { all = append(all, c.Text()) })
		}
		c.Step()
		if len(all) > 0 {
			c.readRecent(all[0], all[1:])
		}
	case !c.Writing:
		r.Recent = r.newest(nil)
	}
}

func (c *coder) appendRecent() {
	r := c.r
	names := r.said(make([]string, 0, len(r.Recent)+2))
	said := len(names)
	index := make([]byte, len(r.Recent))
	for i, n := range r.Recent {
		k := slices.Index(names, n)
		if k < 0 {
			k, names = len(names), append(names, n)
		}
		if k >= len(digits) { // too many for digits: the names as they are
			names, index, said = r.Recent, nil, 0
			break
		}
		index[i] = digits[k]
	}
	names = names[said:]
	if len(names) > 0 {
		c.B = append(c.B, '[')
	}
	c.B = append(append(append(c.B, '"'), index...), '"')
	for _, n := range names {
		c.B = appendString(append(c.B, ','), n)
	}
	if len(names) > 0 {
		c.B = append(c.B, ']')
	}
}

func (c *coder) readRecent(index string, names []string) {
	if index == "" {
		if len(names) > 0 {
			c.r.Recent = names
		}
		return
	}
	var room [4]string
	all := append(c.r.said(room[:0]), names...)
	c.r.Recent = make([]string, len(index))
	for i := range index {
		k := strings.IndexByte(digits, index[i])
		if k < 0 || k >= len(all) {
			c.failed(fmt.Errorf("%q names no node", index[i]), "recent nodes")
			return
		}
		c.r.Recent[i] = all[k]
	}
}

// after reports whether id is the checkpoint after another one in its run. One that is no UUID
// comes after none.
func (id ID) after(other ID) bool {
	if !id.Valid() {
		return other == ""
	}
	return other.Valid() && id[:idCount] == other[:idCount] && id.count() == other.count()+1
}

// near takes an ID beside the record's, and reports whether it is there.
func (c *coder) near(key string, id *ID, said bool) bool {
	if !c.Has(key, said) {
		return false
	}
	if c.Writing {
		c.B = appendNear(c.B, *id, c.r.ID)
		return true
	}
	switch b := c.Value(); {
	case c.Err != nil:
	case b[0] != '"':
		n, err := strconv.ParseUint(string(b), 10, 32)
		if *id = c.r.ID.Checkpoint(uint32(n)); err != nil {
			c.Fail()
		}
	case b[1] == '*':
		var u [16]byte
		if k, err := base64.RawURLEncoding.Decode(u[:], b[2:min(len(b)-1, 24)]); err != nil || k != 16 || len(b) != 25 {
			c.Fail()
		}
		*id = IDFromBytes(u)
	default:
		text, _ := jsonscan.Text(b)
		*id = ID(text)
	}
	c.Step()
	return true
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

func (c *coder) source() {
	s := &c.r.Source
	switch has := c.Has("o", *s != SourceLoop); {
	case c.Writing && has:
		if i := slices.Index(sourceCodes[:], *s); i >= 0 {
			c.B = strconv.AppendInt(c.B, int64(i), 10)
		} else {
			c.B = appendString(c.B, string(*s))
		}
	case c.Writing:
	case !has:
		*s = SourceLoop
	case c.Peek() == '"':
		*s = Source(c.Text())
		c.Step()
	default:
		if i := c.Int(); 0 <= i && i < int64(len(sourceCodes)) {
			*s = sourceCodes[i]
		} else {
			c.Fail()
		}
		c.Step()
	}
}

// inNanos reports whether a time's nanoseconds since 1970 fit into 64 bits.
func inNanos(t time.Time) bool {
	const most = 1 << 33 // seconds
	sec := t.Unix()
	return -most < sec && sec < most
}

// time takes a time, in nanoseconds since 1970 or as [seconds, nanoseconds].
func (c *coder) time(key string, t *time.Time, said bool) {
	if !c.Has(key, said) {
		return
	}
	at := [2]int64{t.Unix(), int64(t.Nanosecond())}
	if c.Writing && inNanos(*t) {
		c.B = strconv.AppendInt(c.B, t.UnixNano(), 10)
	} else if c.Writing || c.Peek() == '[' {
		c.tuple(2, 2, 2, func(i int) { num(c, &at[i]) })
	} else {
		at = [2]int64{0, c.Int()}
	}
	if !c.Writing {
		*t = time.Unix(at[0], at[1]).UTC()
	}
	c.Step()
}

// json takes a member by encoding/json.
func (c *coder) json(key, what string, v any, said bool) {
	if c.Has(key, said) {
		c.element(what, v)
		c.Step()
	}
}

// element takes an element by encoding/json, with unknown fields if a newer version wrote it.
func (c *coder) element(what string, v any) {
	if c.Writing {
		b, err := marshal(v)
		if c.B = append(c.B, b...); err != nil {
			c.failed(err, "%s", what)
		}
		return
	}
	b := c.Value()
	if c.Err != nil {
		return
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if !c.newer {
		d.DisallowUnknownFields()
	}
	if err := d.Decode(v); err != nil {
		c.failed(err, "%s", what)
	}
}

// failed notes what went wrong first.
func (c *coder) failed(err error, what string, args ...any) {
	if c.Err == nil {
		c.Err = fmt.Errorf(what+": %w", append(args, err)...)
	}
}

// value takes the size of a value in the data, which is JSON, and the value.
func (c *coder) value(raw *json.RawMessage) (err error) {
	switch {
	case !c.Writing:
		return c.bytes((*[]byte)(raw))
	case len(*raw) == 0:
		c.B = append(c.B, "-1"...)
		return nil
	}
	n := len(c.values)
	err = c.keep(*raw)
	c.B = strconv.AppendInt(c.B, int64(len(c.values[n])), 10)
	return err
}

// bytes is value for any bytes.
func (c *coder) bytes(v *[]byte) (err error) {
	switch {
	case !c.Writing:
		*v, err = c.take(c.Int())
	case *v == nil:
		c.B = append(c.B, "-1"...)
	default:
		c.values = append(c.values, *v)
		c.B = strconv.AppendInt(c.B, int64(len(*v)), 10)
	}
	return err
}

// keep writes a value without its size; rest reads it, which is the last.
func (c *coder) keep(raw []byte) error {
	v, err := oneLine(raw)
	c.values = append(c.values, v)
	return err
}

func (c *coder) rest() ([]byte, error) {
	if c.data != nil && len(c.data) == 0 {
		return nil, errors.New("the data is missing")
	}
	return c.take(int64(len(c.data)))
}

// take reads a value of the data.
func (c *coder) take(size int64) ([]byte, error) {
	switch {
	case size == -1 || c.data == nil:
		return nil, nil
	case size < 0 || size > int64(len(c.data)):
		return nil, fmt.Errorf("%d bytes are left, %d were written", len(c.data), size)
	}
	v := c.data[:size:size]
	c.data = c.data[size:]
	return v, nil
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

func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf || c == 0x7f {
			q, err := marshal(s)
			if err != nil {
				panic(err) // a string always encodes
			}
			return append(b, q...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// list takes a member that is a list: each takes an element.
func list[T any](c *coder, key string, l *[]T, each func(i int, v *T)) {
	if !c.Has(key, len(*l) > 0) {
		return
	}
	c.List(len(*l), func(i int) {
		if !c.Writing {
			var none T
			*l = append(*l, none)
		}
		each(i, &(*l)[i])
	})
	c.Step()
}

// tuple takes a list of least to most elements, n of them when writing.
func (c *coder) tuple(n, least, most int, each func(i int)) {
	n = c.List(n, func(i int) {
		if i == most {
			c.Fail()
			return
		}
		each(i)
	})
	if n < least {
		c.Fail()
	}
}

func (c *coder) text(key string, s *string) {
	if c.Has(key, *s != "") {
		str(c, s)
		c.Step()
	}
}

func str(c *coder, s *string) {
	if c.Writing {
		c.B = appendString(c.B, *s)
	} else {
		*s = c.Text()
	}
}

func num[N int | int64](c *coder, n *N) {
	if c.Writing {
		c.B = strconv.AppendInt(c.B, int64(*n), 10)
	} else {
		*n = N(c.Int())
	}
}

// one takes what is said by a one, and mostly by nothing.
func (c *coder) one(v *bool) {
	n := one(*v)
	if num(c, &n); n != one(n == 1) {
		c.Fail()
	}
	if !c.Writing {
		*v = n == 1
	}
}

func one(v bool) int {
	if v {
		return 1
	}
	return 0
}
