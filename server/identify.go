package server

import (
	"encoding/json"
	"iter"
	"maps"
	"slices"

	"github.com/superstep-dev/superstep/graph"
)

// A message that a node writes without an ID gets one when its superstep is committed.
// identified yields events so that such a message has it in all that is told of it: what
// tells of an update with one comes before the values that the superstep ends with, and
// what its superstep never commits, at the end and without. Updates stay in their order.
func identified(seq iter.Seq2[graph.Event, error]) iter.Seq2[graph.Event, error] {
	return func(yield func(graph.Event, error) bool) {
		held := map[string][]*written{} // by the place of their graph
		tell := func(at string) bool {
			list := held[at]
			delete(held, at)
			for _, u := range list {
				if !yield(u.ev, nil) {
					return false
				}
			}
			return true
		}
		for ev, err := range seq {
			if err != nil {
				for _, at := range slices.Sorted(maps.Keys(held)) {
					if !tell(at) {
						return
					}
				}
				yield(ev, err)
				return
			}
			at := place(ev)
			if ev.Update != nil {
				ev.Update, _ = wholeMessages(ev.Update, nil)
			}
			switch ev.Type {
			case graph.EventUpdate, graph.EventTaskEnd:
				u := writtenBy(ev)
				waits := func(o *written) bool { return o.ev.Type == graph.EventUpdate }
				if len(u.unnamed) > 0 || ev.Type == graph.EventUpdate && slices.ContainsFunc(held[at], waits) {
					held[at] = append(held[at], u)
					continue
				}
			case graph.EventValues:
				if len(held[at]) > 0 {
					if state, err := wholeMessages(ev.StateJSON()); err == nil { // or else whoever encodes it says so
						name(held[at], state)
					}
					if !tell(at) {
						return
					}
				}
			}
			if !yield(ev, nil) {
				return
			}
		}
		for _, at := range slices.Sorted(maps.Keys(held)) {
			if !tell(at) {
				return
			}
		}
	}
}

// written is an event that tells what a task wrote.
type written struct {
	ev      graph.Event
	lists   map[string][]json.RawMessage // of messages, by field
	unnamed []unnamed
}

// unnamed is a message without an ID.
type unnamed struct {
	text  string
	field string
	at    int // in the list
}

func writtenBy(ev graph.Event) *written {
	u := &written{ev: ev}
	for field, list := range messagesIn(ev.Update) {
		for i, raw := range list {
			if id, text := apart(raw); id == "" && isMessage(raw) {
				u.unnamed = append(u.unnamed, unnamed{text, field, i})
			}
		}
		if len(u.unnamed) > 0 && u.unnamed[len(u.unnamed)-1].field == field {
			if u.lists == nil {
				u.lists = map[string][]json.RawMessage{}
			}
			u.lists[field] = list
		}
	}
	return u
}

// name gives the messages of updates the IDs that a state has given them, by fields.
func name(updates []*written, state json.RawMessage) {
	waits := func(u *written) bool { return len(u.unnamed) > 0 }
	for field, list := range messagesIn(state) {
		for _, raw := range slices.Backward(list) { // they are the last of the conversation
			if !slices.ContainsFunc(updates, waits) {
				break
			}
			id, text := apart(raw)
			if id == "" {
				continue
			}
			// A task that has ended and its update tell of the same message.
			for _, kind := range []graph.EventType{graph.EventUpdate, graph.EventTaskEnd} {
				for _, u := range slices.Backward(updates) {
					if u.ev.Type == kind && u.take(field, text, raw) {
						break
					}
				}
			}
		}
	}
	for _, u := range updates {
		fields := objectOf(u.ev.Update)
		for field, list := range u.lists {
			fields[field], _ = json.Marshal(list) // of JSON
		}
		if len(u.lists) > 0 {
			u.ev.Update = fields.raw()
		}
	}
}

// take puts a message with an ID in the place of its like without one.
func (u *written) take(field, text string, raw json.RawMessage) bool {
	for i, m := range slices.Backward(u.unnamed) {
		if m.field == field && m.text == text {
			u.lists[field][m.at] = raw
			u.unnamed = slices.Delete(u.unnamed, i, i+1)
			return true
		}
	}
	return false
}
