package chat

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"

	"github.com/benbjohnson/immutable"

	"github.com/superstep-dev/superstep/field"
	"github.com/superstep-dev/superstep/internal/jsonscan"
	"github.com/superstep-dev/superstep/internal/plainjson"
)

// History is a state field that holds a conversation. A message that is added
// replaces the one with its ID, in its place, or is appended. What the tasks of
// one superstep write is folded in plan order; two tasks that write different
// messages under one ID, or of which one writes and the other removes it, are
// an error, as are two tasks that overwrite the history differently.
//
// A message without an ID gets one when it is folded: a hash of its content and
// of the ID before it, so that it is the same whenever a thread is replayed. A
// task that reads its own messages sees these IDs already, but they are
// provisional: if another task of the superstep adds messages before it in plan
// order, the committed ones differ.
//
// Adding costs O(log n), whatever the length of the history.
//
// In JSON a History is an array of messages; see [Message.MarshalJSON]. An
// update is an array as well, in which {"type": "remove", "id": …} removes a
// message, and the ID "__remove_all__" all that stand before; a single message,
// a string, which is a message of the user, or {"$overwrite": […]}.
//
// The zero History is empty and ready to use. Like all field types it may be
// copied, and is used by one goroutine at a time.
type History struct {
	self  *History // the field that was bound; another's address in a copy
	bound bool

	view conversation  // with what is pending
	ops  []op          // pending since Bind
	from *conversation // what they were written to; nil: folding them may not come to view

	// at is the position in ops of what writes an ID, once they are many.
	at map[string]int
}

// RemoveAll is the ID of the JSON update {"type": "remove"} that removes all
// messages.
const RemoveAll = "__remove_all__"

// op is one step of an update.
type op struct {
	kind opKind
	m    Message // put
	id   string  // remove; put: the ID that m has in the task's view
}

type opKind uint8

const (
	opPut opKind = iota
	opRemove
	opClear
	opReplaceLast // the last message, if it is the user's
)

// conversation is a persistent ordered map of messages: by a number that only
// grows, and from ID to number. Copies share memory; nobody alters a message in it.
type conversation struct {
	byPos *immutable.SortedMap[int, *Message] // nil: empty
	byID  *immutable.Map[string, int]
	next  int
}

func (c *conversation) len() int {
	if c.byPos == nil {
		return 0
	}
	return c.byPos.Len()
}

func (c *conversation) last() (Message, bool) {
	if c.len() == 0 {
		return Message{}, false
	}
	it := c.byPos.Iterator()
	it.Last()
	_, m, _ := it.Next()
	return *m, true
}

func (c *conversation) get(id string) (Message, bool) {
	if c.byID == nil {
		return Message{}, false
	}
	pos, ok := c.byID.Get(id)
	if !ok {
		return Message{}, false
	}
	m, _ := c.byPos.Get(pos)
	return *m, true
}

// put adds or replaces a message and returns the ID under which it stands.
func (c *conversation) put(m Message) string {
	m = m.ValidUTF8()
	if m.ID == "" {
		m.ID = c.freshID(m)
	}
	if c.byPos == nil {
		c.byPos = immutable.NewSortedMap[int, *Message](nil)
		c.byID = immutable.NewMap[string, int](nil)
	}
	pos, known := c.byID.Get(m.ID)
	if !known {
		pos = c.next
		c.next++
		c.byID = c.byID.Set(m.ID, pos)
	}
	c.byPos = c.byPos.Set(pos, &m)
	return m.ID
}

// remove removes messages. Many are left out of new maps, where to take them out of the
// old ones would copy parts of these for each.
func (c *conversation) remove(ids ...string) {
	if 4*len(ids) < c.len() {
		for _, id := range ids {
			if pos, ok := c.byID.Get(id); ok {
				c.byID, c.byPos = c.byID.Delete(id), c.byPos.Delete(pos)
			}
		}
		return
	}
	if c.len() == 0 {
		return
	}
	gone := make(map[string]bool, len(ids))
	for _, id := range ids {
		gone[id] = true
	}
	byPos, byID := immutable.NewSortedMapBuilder[int, *Message](nil), immutable.NewMapBuilder[string, int](nil)
	for it := c.byPos.Iterator(); !it.Done(); {
		if pos, m, _ := it.Next(); !gone[m.ID] {
			byPos.Set(pos, m)
			byID.Set(m.ID, pos)
		}
	}
	c.byPos, c.byID = byPos.Map(), byID.Map()
}

// freshID returns an ID for a message that is about to be appended. It depends
// on the messages alone, so that every fold of a thread's log finds the same.
func (c *conversation) freshID(m Message) string {
	before, _ := c.last()
	return freshID(before.ID, m, func(id string) bool { _, taken := c.get(id); return taken })
}

// freshID returns an ID for a message behind the one with the ID before.
func freshID(before string, m Message, taken func(id string) bool) string {
	data, err := m.MarshalJSON()
	if err != nil { // the commit will say so
		data = []byte(err.Error())
	}
	h := sha256.New()
	h.Write([]byte(before))
	for {
		h.Write([]byte{0})
		h.Write(data)
		if id := "msg_" + hex.EncodeToString(h.Sum(nil)[:12]); !taken(id) {
			return id
		}
	}
}

func (c *conversation) apply(o op) {
	switch o.kind {
	case opPut:
		c.put(o.m)
	case opRemove:
		c.remove(o.id)
	case opClear:
		*c = conversation{}
	case opReplaceLast:
		m := o.m
		if l, ok := c.last(); ok && l.Role == RoleUser {
			m.ID = l.ID
		}
		c.put(m)
	}
}

func (c *conversation) all() iter.Seq[Message] {
	return func(yield func(Message) bool) {
		if c.len() == 0 {
			return
		}
		for it := c.byPos.Iterator(); !it.Done(); {
			if _, m, _ := it.Next(); !yield(*m) {
				return
			}
		}
	}
}

// Of returns a history of messages.
func Of(messages ...Message) History {
	var h History
	for _, m := range messages {
		h.view.put(m)
	}
	return h
}

// Add adds messages: each replaces the one that has its ID, in its place, or
// becomes the last. A message that can't be written as JSON, since it has no role
// that there is or an artifact that is no JSON, fails the task when it commits.
func (h *History) Add(messages ...Message) {
	h.own()
	h.ops = slices.Grow(h.ops, len(messages))
	for _, m := range messages {
		h.put(m)
	}
}

func (h *History) put(m Message) {
	m = m.ValidUTF8()
	if known, ok := h.view.get(m.ID); ok && reflect.DeepEqual(known, m) {
		return
	}
	id := h.view.put(m)
	// One message written twice is written once.
	if i := h.pending(id); i >= 0 {
		if h.ops[i].m.ID == "" {
			m.ID, h.from = "", nil // it is still to get its ID
		}
		h.ops[i].m = m
		return
	}
	h.push(op{kind: opPut, m: m, id: id})
}

// manyOps is from how many on pending operations are found by an index.
const manyOps = 16

// pending returns the position of the operation that puts an ID, or -1.
func (h *History) pending(id string) int {
	if len(h.ops) < manyOps {
		return slices.IndexFunc(h.ops, func(o op) bool { return o.kind == opPut && o.id == id })
	}
	if h.at == nil {
		h.at = make(map[string]int, 2*len(h.ops))
		for i, o := range h.ops {
			if o.kind == opPut {
				h.at[o.id] = i
			}
		}
	}
	if i, ok := h.at[id]; ok {
		return i
	}
	return -1
}

func (h *History) push(o op) {
	if h.at != nil && o.kind == opPut {
		h.at[o.id] = len(h.ops)
	}
	h.ops = append(h.ops, o)
}

// Identify returns m with the ID that it would get if it were added now. Tasks
// that may each be the one to add a message, such as the user's, add the same
// one then.
func (h *History) Identify(m Message) Message {
	if m.ID == "" {
		m.ID = h.view.freshID(m)
	}
	return m
}

// Replace is Add for one message that must be known. It reports whether it was;
// if not, nothing is written.
func (h *History) Replace(m Message) bool {
	if _, ok := h.view.get(m.ID); !ok || m.ID == "" {
		return false
	}
	h.Add(m)
	return true
}

// ReplaceLastUser replaces the last message if it is the user's, and appends m
// otherwise.
func (h *History) ReplaceLastUser(m Message) {
	if l, ok := h.view.last(); ok && l.Role == RoleUser {
		m.ID = l.ID
	}
	h.Add(m)
}

// Remove removes the messages with these IDs. An unknown one is no error.
func (h *History) Remove(ids ...string) {
	h.own()
	h.view.remove(ids...)
	for _, id := range ids {
		if i := h.pending(id); i >= 0 {
			fresh := h.ops[i].m.ID == "" // it came with this update
			h.ops = slices.Delete(h.ops, i, i+1)
			h.at, h.from = nil, nil // what came after it may get another ID
			if fresh {
				continue
			}
		}
		h.push(op{kind: opRemove, id: id})
	}
}

// Clear removes all messages.
func (h *History) Clear() {
	h.own()
	h.view = conversation{}
	h.ops, h.at = []op{{kind: opClear}}, nil
}

// Overwrite replaces the whole history.
func (h *History) Overwrite(messages ...Message) {
	h.Clear()
	h.Add(messages...)
}

// own makes the pending update the receiver's own.
func (h *History) own() {
	if h.self != h {
		h.self, h.bound = h, false
		h.ops, h.at = slices.Clone(h.ops), nil
	}
	if len(h.ops) == 0 {
		base := h.view
		h.from = &base
	}
}

// Len returns the number of messages.
func (h *History) Len() int { return h.view.len() }

// Last returns the last message, or the zero Message.
func (h *History) Last() Message {
	m, _ := h.view.last()
	return m
}

// Get returns the message with an ID, and whether there is one.
func (h *History) Get(id string) (Message, bool) { return h.view.get(id) }

// All returns an iterator over the messages. It shows the history as it was
// when All was called.
func (h *History) All() iter.Seq[Message] {
	view := h.view
	return view.all()
}

// Backward is All from the last message to the first.
func (h *History) Backward() iter.Seq[Message] {
	view := h.view
	return func(yield func(Message) bool) {
		if view.len() == 0 {
			return
		}
		it := view.byPos.Iterator()
		for it.Last(); !it.Done(); {
			if _, m, _ := it.Prev(); !yield(*m) {
				return
			}
		}
	}
}

// Slice returns the messages in a slice of the caller's own.
func (h *History) Slice() []Message {
	return slices.AppendSeq(make([]Message, 0, h.Len()), h.All())
}

// IsZero reports whether the history is empty; encoding/json's omitzero uses it.
func (h History) IsZero() bool { return h.Len() == 0 }

// String writes the conversation for people, a message a line.
func (h History) String() string {
	var b bytes.Buffer
	for m := range h.All() {
		fmt.Fprintf(&b, "%s:", m.Role)
		if text := m.Text(); text != "" {
			b.WriteString(" " + text)
		}
		for _, c := range m.ToolCalls() {
			fmt.Fprintf(&b, " %s(%s)", c.Name, c.Args)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// MarshalJSON returns an array of messages.
func (h History) MarshalJSON() ([]byte, error) {
	b := []byte{'['}
	for m := range h.All() {
		data, err := m.MarshalJSON()
		if err != nil {
			return nil, err
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(b, data...)
	}
	return append(b, ']'), nil
}

// UnmarshalJSON replaces the history.
func (h *History) UnmarshalJSON(data []byte) error {
	var messages []Message
	if err := json.Unmarshal(data, &messages); err != nil {
		return err
	}
	var c conversation
	for _, m := range messages {
		c.put(m)
	}
	*h = History{view: c}
	return nil
}

// Merger implements [field.Merging], for the engine.
func (h *History) Merger() field.Merger { return (*historyMerger)(h) }

// historyMerger is a History as the engine sees it.
type historyMerger History

// Bind implements [field.Merger].
func (f *historyMerger) Bind() {
	h := (*History)(f)
	h.self, h.bound, h.ops, h.at, h.from = h, true, nil, nil, nil
}

// Change implements [field.Merger].
func (f *historyMerger) Change() (field.Change, error) {
	h := (*History)(f)
	if !h.bound || h.self != h {
		return nil, field.ErrReplaced
	}
	if len(h.ops) == 0 {
		return nil, nil
	}
	return &historyChange{ops: slices.Clone(h.ops), from: h.from, to: h.view}, nil
}

// Write implements [field.Merger].
func (f *historyMerger) Write(c field.Change) error {
	h := (*History)(f)
	hc, err := changeOf(c)
	if err != nil {
		return err
	}
	for _, o := range hc.ops {
		switch o.kind {
		case opPut:
			h.Add(o.m)
		case opRemove:
			h.Remove(o.id)
		case opClear:
			h.Clear()
		case opReplaceLast:
			h.ReplaceLastUser(o.m)
		}
	}
	return nil
}

// Apply implements [field.Merger].
func (f *historyMerger) Apply(c field.Change) error {
	hc, err := changeOf(c)
	if err != nil {
		return err
	}
	if hc.from != nil && *hc.from == f.view {
		f.view = hc.to
	} else {
		for ops := hc.ops; len(ops) > 0; {
			var gone []string
			for ; len(ops) > 0 && ops[0].kind == opRemove; ops = ops[1:] {
				gone = append(gone, ops[0].id)
			}
			f.view.remove(gone...)
			if len(ops) > 0 {
				f.view.apply(ops[0])
				ops = ops[1:]
			}
		}
	}
	f.ops, f.at, f.from = nil, nil, nil
	return nil
}

// Resets implements [field.Growing].
func (*historyMerger) Resets(c field.Change) bool {
	hc, err := changeOf(c)
	return err == nil && hc.clears()
}

// Infallible implements [field.Infallible]: messages were encoded before.
func (*historyMerger) Infallible() bool { return true }

// SchemaOf implements [field.Schemer]. Clients of LangGraph's server know a list of messages by
// langgraph_type.
func (*historyMerger) SchemaOf() any {
	return json.RawMessage(`{
		"type": "array", "langgraph_type": "messages",
		"items": {
			"type": "object", "required": ["type", "content"],
			"properties": {
				"type": {"type": "string", "description": "human, ai, system or tool"},
				"id": {"type": "string", "description": "a known ID replaces that message"},
				"name": {"type": "string"},
				"content": {"description": "a text or a list of content blocks"},
				"tool_calls": {"type": "array", "items": {
					"type": "object", "required": ["name", "args"],
					"properties": {"id": {"type": "string"}, "name": {"type": "string"}, "args": {"type": ["null", "object"]}}
				}},
				"tool_call_id": {"type": "string"},
				"status": {"type": "string"}
			}
		}
	}`)
}

// historyChange is what a task wrote.
type historyChange struct {
	ops  []op
	from *conversation // folded onto it, the ops come to a view that is known; may be nil
	to   conversation
}

func changeOf(c field.Change) (*historyChange, error) {
	if hc, ok := c.(*historyChange); ok {
		return hc, nil
	}
	return nil, fmt.Errorf("chat: a change of type %T given where one of a History is needed", c)
}

func (c *historyChange) clears() bool {
	return slices.ContainsFunc(c.ops, func(o op) bool { return o.kind == opClear })
}

type wireRemove struct {
	Type string `json:"type"`
	ID   string `json:"id"`
}

// MarshalJSON implements [field.Change].
func (c *historyChange) MarshalJSON() ([]byte, error) { return c.AppendJSON(nil) }

// AppendJSON spares the engine from looking at the JSON once more.
func (c *historyChange) AppendJSON(b []byte) ([]byte, error) {
	b = append(b, '[')
	for i := range c.ops {
		o := &c.ops[i]
		if i > 0 {
			b = append(b, ',')
		}
		var data []byte
		var err error
		switch o.kind {
		case opPut:
			var ok bool
			if b, ok = o.m.appendSimple(b); ok {
				continue
			}
			data, err = o.m.MarshalJSON()
		case opRemove:
			data, err = plainjson.Marshal(wireRemove{Type: "remove", ID: o.id})
		case opClear:
			data, err = plainjson.Marshal(wireRemove{Type: "remove", ID: RemoveAll})
		case opReplaceLast:
			if data, err = o.m.MarshalJSON(); err == nil {
				data, err = plainjson.Marshal(wireReplaceLast{Type: "replace_last_user", Message: data})
			}
		}
		if err != nil {
			return nil, err
		}
		b = append(b, data...)
	}
	return append(b, ']'), nil
}

// DecodeChange implements [field.Merger].
func (*historyMerger) DecodeChange(data []byte) (field.Change, error) {
	data = bytes.TrimSpace(data)
	if len(data) == 0 {
		return nil, errors.New("chat: an empty update")
	}
	c := new(historyChange)
	switch data[0] {
	case '[':
	case '{':
		var over struct {
			Messages json.RawMessage `json:"$overwrite"`
		}
		if err := json.Unmarshal(data, &over); err != nil {
			return nil, err
		}
		if over.Messages == nil {
			data = slices.Concat([]byte{'['}, data, []byte{']'})
			break
		}
		c.ops = append(c.ops, op{kind: opClear})
		data = over.Messages
	default:
		data = slices.Concat([]byte{'['}, data, []byte{']'})
	}
	n := 0
	if !jsonscan.Elements(data, func([]byte) bool { n++; return true }) {
		return c, json.Unmarshal(data, &[]json.RawMessage{}) // says what is wrong, unless it is null
	}
	c.ops = slices.Grow(c.ops, n)
	n = 0
	var err error
	jsonscan.Elements(data, func(item []byte) bool {
		var o op
		if o, err = decodeOp(item); err != nil {
			err = fmt.Errorf("message %d: %w", n, err)
			return false
		}
		if o.kind == opClear {
			c.ops = c.ops[:0]
		}
		c.ops = append(c.ops, o)
		n++
		return true
	})
	return c, err
}

func decodeOp(item json.RawMessage) (op, error) {
	if item[0] == '"' {
		var text string
		err := json.Unmarshal(item, &text)
		return op{kind: opPut, m: User(text)}, err
	}
	item = plain(item)
	var head wireRemove
	if bytes.Contains(item, []byte(`"re`)) { // else it is a message
		if err := json.Unmarshal(item, &head); err != nil {
			return op{}, err
		}
	}
	if head.Type == "replace_last_user" {
		var r wireReplaceLast
		var m Message
		if err := json.Unmarshal(item, &r); err != nil {
			return op{}, err
		}
		err := json.Unmarshal(r.Message, &m)
		return op{kind: opReplaceLast, m: m}, err
	}
	if head.Type != "remove" {
		var m Message
		err := m.UnmarshalJSON(item)
		return op{kind: opPut, m: m, id: m.ID}, err
	}
	switch head.ID {
	case RemoveAll:
		return op{kind: opClear}, nil
	case "":
		return op{}, errors.New(`chat: {"type": "remove"} needs the id of a message`)
	}
	return op{kind: opRemove, id: head.ID}, nil
}

// written is what a task did to an ID.
type written struct {
	task int
	op   op
}

// Check implements [field.Checker].
func (*historyMerger) Check(cs []field.Change) (later, earlier int, err error) {
	clear := -1 // the last that overwrote
	var cleared *historyChange
	ids := map[string]written{}
	for i, change := range cs {
		c, err := changeOf(change)
		if err != nil {
			return i, 0, err
		}
		if c.clears() {
			if clear >= 0 && !reflect.DeepEqual(cleared.ops, c.ops) {
				return i, clear, errors.New("both overwrite the history, differently")
			}
			clear, cleared = i, c
		}
		for _, o := range c.ops {
			if o.kind == opClear || o.kind == opReplaceLast || o.kind == opPut && o.m.ID == "" {
				continue
			}
			w, ok := ids[o.id]
			if ok && w.task != i && (w.op.kind != o.kind || !reflect.DeepEqual(w.op.m, o.m)) {
				return i, w.task, fmt.Errorf("both write the message %q, differently", o.id)
			}
			ids[o.id] = written{i, o}
		}
	}
	return 0, 0, nil
}
