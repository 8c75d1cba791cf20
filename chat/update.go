package chat

import (
	"encoding/json"
	"slices"
)

// Update is a change of a conversation that is a list of messages: for states
// that are not made of Go structs, whose reducers take it. Its JSON is that of an
// update of a [History]. The zero Update changes nothing.
type Update struct{ ops []op }

// AppendMessages adds messages: each replaces the one that has its ID, in its
// place, or becomes the last.
func AppendMessages(messages ...Message) Update {
	u := Update{}
	for _, m := range messages {
		u.ops = append(u.ops, op{kind: opPut, m: m, id: m.ID})
	}
	return u
}

// ReplaceLastUser replaces the last message if it is the user's, and appends m
// otherwise.
func ReplaceLastUser(m Message) Update { return Update{[]op{{kind: opReplaceLast, m: m}}} }

// RemoveMessages removes the messages with these IDs.
func RemoveMessages(ids ...string) Update {
	u := Update{}
	for _, id := range ids {
		u.ops = append(u.ops, op{kind: opRemove, id: id})
	}
	return u
}

// RemoveAllMessages removes everything that stands before.
func RemoveAllMessages() Update { return Update{[]op{{kind: opClear}}} }

// Then returns the update that does u and then more, as one.
func (u Update) Then(more ...Update) Update {
	ops := slices.Clip(u.ops)
	for _, m := range more {
		ops = append(ops, m.ops...)
	}
	return Update{ops}
}

// IsZero reports whether the update changes nothing.
func (u Update) IsZero() bool { return len(u.ops) == 0 }

// Apply returns what the update makes of messages, which it leaves alone but may
// append to. Messages without an ID get one, as in a [History].
func (u Update) Apply(messages []Message) []Message {
	shared := true // messages is the caller's
	at := func(id string) int {
		if id == "" {
			return -1
		}
		return slices.IndexFunc(messages, func(m Message) bool { return m.ID == id })
	}
	own := func() {
		if shared {
			messages, shared = slices.Clone(messages), false
		}
	}
	put := func(m Message) {
		m = m.ValidUTF8()
		if m.ID == "" {
			before := ""
			if len(messages) > 0 {
				before = messages[len(messages)-1].ID
			}
			m.ID = freshID(before, m, func(id string) bool { return at(id) >= 0 })
		}
		if i := at(m.ID); i >= 0 {
			own()
			messages[i] = m
			return
		}
		messages = append(messages, m)
	}
	for _, o := range u.ops {
		switch o.kind {
		case opPut:
			put(o.m)
		case opReplaceLast:
			m := o.m
			if n := len(messages); n > 0 && messages[n-1].Role == RoleUser {
				m.ID = messages[n-1].ID
			}
			put(m)
		case opRemove:
			if i := at(o.id); i >= 0 {
				own()
				messages = slices.Delete(messages, i, i+1)
			}
		case opClear:
			messages, shared = nil, false
		}
	}
	return messages
}

// MarshalJSON writes the update as one of a [History].
func (u Update) MarshalJSON() ([]byte, error) { return (&historyChange{ops: u.ops}).MarshalJSON() }

// UnmarshalJSON reads what [History] takes as an update.
func (u *Update) UnmarshalJSON(data []byte) error {
	c, err := new(historyMerger).DecodeChange(data)
	if err != nil {
		return err
	}
	hc, err := changeOf(c)
	if err == nil {
		u.ops = hc.ops
	}
	return err
}

// Pending returns what was written to the history by this task, or since it was
// made.
func (h *History) Pending() Update { return Update{slices.Clone(h.ops)} }

// wireReplaceLast is an update that replaces the last message.
type wireReplaceLast struct {
	Type    string          `json:"type"`
	Message json.RawMessage `json:"message"`
}
