package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	keepFeed = 2 * time.Minute // after the last reader and the last run have gone
	maxFeed  = 16 << 20        // bytes of a thread's feed; the oldest events go
	maxTree  = 1000            // subgraphs of a run that a feed remembers
)

// feeds are the newest events of threads, for as long as clients may come for
// them.
type feeds struct {
	mu       sync.Mutex
	byThread map[string]*feed
	over     bool
}

func newFeeds() *feeds { return &feeds{byThread: map[string]*feed{}} }

var errClosing = &fault{503, "the server is closing"}

// open returns the feed of a thread, which is kept until it is left.
func (f *feeds) open(thread string) (*feed, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		return nil, errClosing
	}
	one := f.byThread[thread]
	if one == nil {
		// Numbers grow over all of a thread's runs, also those that another process
		// or an earlier feed told of: clients drop numbers that they have seen. So
		// they begin at the time, in microseconds, which a feed doesn't overtake.
		one = &feed{first: time.Now().UnixMicro(), changed: make(chan struct{})}
		f.byThread[thread] = one
	}
	one.users++
	return one, nil
}

// find is open for a feed that exists already; nil if it doesn't.
func (f *feeds) find(thread string) *feed {
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.byThread[thread]
	if one != nil {
		one.users++
	}
	return one
}

// leave says that a feed isn't used any more.
func (f *feeds) leave(one *feed) {
	if one == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if one.users--; one.users == 0 {
		one.left = time.Now()
	}
}

// sweep removes the feeds that nobody has come for.
func (f *feeds) sweep(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for thread, one := range f.byThread {
		if one.users == 0 && now.Sub(one.left) > keepFeed {
			delete(f.byThread, thread)
		}
	}
}

// forget drops the events of a thread that was removed.
func (f *feeds) forget(thread string) {
	if one := f.find(thread); one != nil {
		defer f.leave(one)
		one.empty()
	}
}

// end cuts off all readers: the server is closing.
func (f *feeds) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	for _, one := range f.byThread {
		one.end()
	}
}

// through returns the number of a thread's newest event, 0 if there is none.
func (f *feeds) through(thread string) int64 {
	one := f.find(thread)
	if one == nil {
		return 0
	}
	defer f.leave(one)
	return one.next() - 1
}

// tree returns what a thread's newest run consists of, nil if it isn't known.
func (f *feeds) tree(thread string) *v2Node {
	one := f.find(thread)
	if one == nil {
		return nil
	}
	defer f.leave(one)
	one.mu.Lock()
	defer one.mu.Unlock()
	var root *v2Node
	known := map[string]*v2Node{}
	for _, n := range one.tree { // parents before children
		n := *n
		known[strings.Join(n.Namespace, "\x00")] = &n
		if len(n.Namespace) == 0 {
			root = &n
		} else if parent := known[strings.Join(n.Namespace[:len(n.Namespace)-1], "\x00")]; parent != nil {
			parent.Children = append(parent.Children, &n)
		}
	}
	return root
}

// state returns what a subgraph's newest events say of its state, nil if there are
// none.
func (f *feeds) state(thread string, namespace []string) (values object, at *v2CheckpointRef) {
	one := f.find(thread)
	if one == nil {
		return nil, nil
	}
	defer f.leave(one)
	data := func(channel string) (object, []string) {
		one.mu.Lock()
		defer one.mu.Unlock()
		for _, ev := range slices.Backward(one.events) {
			if ev.channel == channel && len(ev.namespace) == len(namespace) && below(ev.namespace, namespace) {
				return objectOf(objectOf(objectOf(ev.data)["params"])["data"]), ev.namespace
			}
		}
		return nil, nil
	}
	values, _ = data("values")
	if c, ns := data("checkpoints"); values != nil && c != nil {
		at = &v2CheckpointRef{textOf(c["id"]), strings.Join(ns, "|")}
	}
	return values, at
}

// feed is a thread's newest events. It is safe for concurrent use.
type feed struct {
	users int       // guarded by feeds.mu
	left  time.Time // by the last user; guarded by feeds.mu

	mu      sync.Mutex
	first   int64 // number of events[0]
	events  []feedEvent
	bytes   int
	changed chan struct{} // closed at the next change
	over    bool
	tree    []*v2Node // the graphs of the newest run
}

// feedEvent is an event as filters and readers see it.
type feedEvent struct {
	seq       int64
	method    string
	channel   string
	namespace []string
	data      []byte
	ending    bool // a run is over
}

// settle is how long after a subscription the end of a run is told at the
// earliest. Clients make several one after the other, and take the end of a run,
// seen by one, for that of all that they have: those that come for what was before
// are not too late.
const settle = 100 * time.Millisecond

// send appends an event. Its text is made when its number is known.
func (f *feed) send(method, channel string, namespace []string, ending bool, text func(seq int64) []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	seq := f.first + int64(len(f.events))
	data := text(seq)
	f.events = append(f.events, feedEvent{seq, method, channel, namespace, data, ending})
	for f.bytes += len(data); f.bytes > maxFeed && len(f.events) > 1; f.first++ {
		f.bytes -= len(f.events[0].data)
		f.events[0] = feedEvent{}
		f.events = f.events[1:]
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

// event appends an event of the protocol's second version.
func (f *feed) event(method, channel string, namespace []string, at time.Time, node string, data any) error {
	if namespace == nil {
		namespace = []string{}
	}
	params, err := json.Marshal(struct {
		Namespace []string `json:"namespace"`
		Timestamp int64    `json:"timestamp"`
		Node      string   `json:"node,omitempty"`
		Data      any      `json:"data"`
	}{namespace, at.UnixMilli(), node, data})
	if err != nil {
		return fmt.Errorf("event %s: %w", method, err)
	}
	f.send(method, channel, namespace, method == "lifecycle" && len(namespace) == 0 && !isStatus(data, statusRunning), func(seq int64) []byte {
		return fmt.Appendf(nil, `{"type":"event","event_id":"%d","seq":%d,"method":%q,"params":%s}`, seq, seq, method, params)
	})
	return nil
}

// isStatus reports whether an event of a graph's life says that it has a status.
func isStatus(data any, status string) bool {
	life, ok := data.(map[string]any)
	return ok && life["event"] == status
}

// mark notes the state of a graph of the newest run.
func (f *feed) mark(namespace []string, status, graph string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(namespace) == 0 && status == statusRunning {
		f.tree = nil
	}
	for _, n := range f.tree {
		if slices.Equal(n.Namespace, namespace) {
			n.Status = status
			return
		}
	}
	if len(f.tree) < maxTree {
		f.tree = append(f.tree, &v2Node{Namespace: append([]string{}, namespace...), Status: status, Graph: graph})
	}
}

func (f *feed) empty() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.first += int64(len(f.events))
	f.events, f.bytes, f.tree = nil, 0, nil
}

func (f *feed) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.over {
		f.over = true
		close(f.changed)
		f.changed = make(chan struct{})
	}
}

// next returns the number that the next event will have.
func (f *feed) next() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.first + int64(len(f.events))
}

// since returns the number of the first event after one that is left.
func (f *feed) since(seq int64) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return min(max(seq+1, f.first), f.first+int64(len(f.events)))
}

var (
	errSlow = errors.New("the reader is slower than the runs") // what it had to read next is gone
	errOver = errors.New("the server is closing")
)

// read waits for the event with a number.
func (f *feed) read(ctx context.Context, seq int64) (feedEvent, error) {
	for {
		f.mu.Lock()
		i := seq - f.first
		if i < 0 {
			f.mu.Unlock()
			return feedEvent{}, errSlow
		}
		if i < int64(len(f.events)) {
			ev := f.events[i]
			f.mu.Unlock()
			return ev, nil
		}
		changed, over := f.changed, f.over
		f.mu.Unlock()
		if over {
			return feedEvent{}, errOver
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return feedEvent{}, ctx.Err()
		}
	}
}

// buffered returns the events before a number that are left.
func (f *feed) buffered(before int64) []feedEvent {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := min(max(before-f.first, 0), int64(len(f.events)))
	return slices.Clone(f.events[:n])
}

// v2Filter says which events a client wants. Channels that there are none of, as
// later clients may name, bring nothing.
type v2Filter struct {
	Channels   []string   `json:"channels"`
	Namespaces [][]string `json:"namespaces"` // prefixes; none are all
	Depth      *int       `json:"depth"`      // how many segments more than the prefix; none is any
	Since      *int64     `json:"since"`      // only those after that number
}

func (f *v2Filter) check() error {
	if len(f.Channels) == 0 {
		return invalid("channels is required: a list of values, updates, messages, tools, custom, custom:NAME, checkpoints, tasks, lifecycle, input")
	}
	if f.Depth != nil && *f.Depth < 0 {
		return invalid("depth must not be negative")
	}
	return nil
}

func (f *v2Filter) matches(ev *feedEvent) bool {
	if !slices.Contains(f.Channels, ev.channel) && (!strings.HasPrefix(ev.channel, "custom:") || !slices.Contains(f.Channels, "custom")) {
		return false
	}
	if len(f.Namespaces) == 0 {
		return f.Depth == nil || len(ev.namespace) <= *f.Depth
	}
	return slices.ContainsFunc(f.Namespaces, func(prefix []string) bool {
		return below(ev.namespace, prefix) && (f.Depth == nil || len(ev.namespace)-len(prefix) <= *f.Depth)
	})
}

// below reports whether a namespace begins with a prefix, whose segments may
// leave out which task of the node it is.
func below(namespace, prefix []string) bool {
	if len(prefix) > len(namespace) {
		return false
	}
	for i, want := range prefix {
		name, _, _ := strings.Cut(namespace[i], ":")
		if namespace[i] != want && name != want {
			return false
		}
	}
	return true
}
