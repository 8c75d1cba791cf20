package server

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
)

// tracker follows a run for all that tells of it, in either version of the protocol: which
// messages are being made, which checkpoints wait for their values, and what state each
// graph has. It is used by one goroutine.
type tracker struct {
	messages bool // somebody is told of messages

	making  map[string]*making      // messages, by the task that makes them
	told    map[string]*telling     // messages that were told, by ID
	pending map[string]*graph.Event // checkpoints whose values are still to come, by their graph
	states  map[string]*values      // newest of each graph that runs
}

func newTracker() *tracker {
	return &tracker{making: map[string]*making{}, told: map[string]*telling{}, pending: map[string]*graph.Event{}, states: map[string]*values{}}
}

// tracked is an event, with what follows from those before it.
type tracked struct {
	graph.Event
	place  string   // of its graph
	passed []passed // checkpoints that are told of before it
	said   []said   // of messages
	values *values  // newest of its graph; nil: not known
}

// passed is a checkpoint with the values that its graph has then; nil: they aren't known.
type passed struct {
	*graph.Event
	values *values
}

// values are a graph's state and what of it is its output, encoded when that is asked for.
type values struct {
	state, output func() (json.RawMessage, error)
	differ        func() bool
}

func valuesOf(ev graph.Event) *values {
	v := &values{
		state:  sync.OnceValues(func() (json.RawMessage, error) { return wholeMessages(ev.StateJSON()) }),
		output: sync.OnceValues(func() (json.RawMessage, error) { return wholeMessages(ev.OutputJSON()) }),
	}
	v.differ = sync.OnceValue(func() bool {
		state, err := v.state()
		output, failed := v.output()
		return err == nil && failed == nil && !bytes.Equal(state, output)
	})
	return v
}

// making is a message while it is made.
type making struct {
	id   string
	from graph.Event // its first piece
	sum  chat.Collector
}

// telling is how a message was told.
type telling struct{ streamed, written bool }

// said is what an event says of a message.
type said struct {
	what     saying
	of       *making    // nil of one that was written
	piece    chat.Chunk // of one that goes on
	failure  string     // of one that broke off
	id       string     // of one that was written, as what follows
	raw      json.RawMessage
	streamed bool // before
}

// saying is what can be said of a message.
type saying int

const (
	messageBegins  saying = iota
	messageGoesOn         // by a piece
	messageEnds           // as it was streamed
	messageBreaks         // off
	messageWritten        // by a node, as it is in the state
)

// event follows an event of the engine.
func (t *tracker) event(ev graph.Event) tracked {
	out := tracked{Event: ev, place: place(ev)}
	here := func(at string) bool { return at == out.place }
	switch ev.Type {
	case graph.EventMessage:
		out.said = t.piece(ev)
	case graph.EventUpdate:
		out.said = t.wrote(ev)
	case graph.EventTaskEnd, graph.EventTaskError:
		task := append(namespaceOf(ev), segment(ev.Node, ev.Task))
		seat := strings.Join(task, "|")
		if m := t.making[seat]; m != nil {
			delete(t.making, seat)
			one := said{what: messageEnds, of: m}
			if ev.Type == graph.EventTaskError {
				one.what, one.failure = messageBreaks, errorOf(ev.Err).Message
			}
			out.said = []said{one}
		}
		of := func(at string) bool { return ranBy(strings.Split(at, "|"), task) }
		out.passed = t.pass(of)
		maps.DeleteFunc(t.states, func(at string, _ *values) bool { return of(at) })
	case graph.EventCheckpoint:
		if !inside(ev.Source) {
			out.passed = t.pass(here)
			t.pending[out.place] = &ev
		}
	case graph.EventValues:
		t.states[out.place] = valuesOf(ev)
		out.passed = t.pass(here)
	}
	out.values = t.states[out.place]
	return out
}

// pass returns the checkpoints of some graphs that wait for values.
func (t *tracker) pass(of func(place string) bool) (out []passed) {
	for _, at := range slices.Sorted(maps.Keys(t.pending)) {
		if of(at) {
			out = append(out, passed{t.pending[at], t.states[at]})
			delete(t.pending, at)
		}
	}
	return out
}

// ranBy reports whether a graph is one that a task runs, or inside of one.
func ranBy(place, task []string) bool {
	n := len(task) - 1
	return len(place) > n && slices.Equal(place[:n], task[:n]) && ofTask(place[n]) == task[n]
}

// end returns what is still to be told when nothing more comes.
func (t *tracker) end() (out tracked) {
	out.passed = t.pass(func(string) bool { return true })
	for _, at := range slices.Sorted(maps.Keys(t.making)) {
		out.said = append(out.said, said{what: messageBreaks, of: t.making[at], failure: "the message broke off"})
	}
	clear(t.making)
	return out
}

// piece follows a piece of a message.
func (t *tracker) piece(ev graph.Event) (out []said) {
	k, ok := ev.Value.(chat.Chunk)
	if !ok || !t.messages { // or it isn't of a conversation
		return nil
	}
	seat := seat(ev)
	m := t.making[seat]
	if m != nil && k.ID != "" && k.ID != m.id {
		out, m = append(out, said{what: messageEnds, of: m}), nil
	}
	if m == nil {
		if k.ID == "" {
			return nil // a message that nothing can be added to
		}
		m = &making{id: k.ID, from: ev}
		t.making[seat] = m
		t.tells(m.id).streamed = true
		out = append(out, said{what: messageBegins, of: m, piece: k})
	}
	k.ID = m.id
	m.sum.Add(k)
	return append(out, said{what: messageGoesOn, of: m, piece: k})
}

// wrote follows what a task has written.
func (t *tracker) wrote(ev graph.Event) (out []said) {
	if !t.messages {
		return nil
	}
	for _, list := range messagesIn(ev.Update) {
		for _, raw := range list {
			if id, _ := apart(raw); id != "" && isMessage(raw) && !t.tells(id).written {
				t.tells(id).written = true
				out = append(out, said{what: messageWritten, id: id, raw: raw, streamed: t.tells(id).streamed})
			}
		}
	}
	return out
}

// tells returns how a message was told so far.
func (t *tracker) tells(id string) *telling {
	if t.told[id] == nil {
		t.told[id] = &telling{}
	}
	return t.told[id]
}
