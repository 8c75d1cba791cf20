package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/server/internal/db"
)

const (
	keepFeed = db.KeepFeed // after the last reader and the last run have gone
	maxFeed  = 16 << 20    // bytes of a thread's feed; the oldest events go
	maxTree  = 1000        // subgraphs of a run that a feed remembers
)

// The kinds of feeds.
const (
	kindEvents = "events" // what those see who follow a thread
	kindJoins  = "joins"  // what those see who have joined the streams of a thread
)

// feeds are the newest events of threads, for as long as clients may come for
// them. Where several instances share a database they stand there, and each
// instance has a copy of those that are read from it.
type feeds struct {
	kind   string
	most   int    // bytes of all
	db     *db.DB // nil if this process alone has them
	log    *slog.Logger
	ctx    context.Context // of the copying
	copies *sync.WaitGroup

	mu       sync.Mutex
	byThread map[string]*feed
	over     bool
}

func newFeeds(kind string, most int) *feeds {
	return &feeds{kind: kind, most: most, byThread: map[string]*feed{}}
}

// shared makes the feeds copies of those in a database.
func (f *feeds) shared(ctx context.Context, d *db.DB, log *slog.Logger, copies *sync.WaitGroup) {
	f.ctx, f.db, f.log, f.copies = ctx, d, log, copies
}

var errClosing = &fault{503, "the server is closing"}

// open returns the feed of a thread, with all that was told so far. It is kept
// until it is left.
func (f *feeds) open(ctx context.Context, thread string) (*feed, error) {
	if f.db == nil {
		return f.enter(db.Feed{Thread: thread})
	}
	state, err := f.db.FollowFeed(ctx, thread, f.kind)
	if err != nil {
		return nil, err
	}
	one, err := f.enter(state)
	if err != nil {
		return nil, err
	}
	if err := one.reach(ctx, state); err != nil {
		f.leave(one)
		return nil, err
	}
	return one, nil
}

func (f *feeds) enter(state db.Feed) (*feed, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		return nil, errClosing
	}
	one := f.byThread[state.Thread]
	if one != nil && one.first < state.First {
		f.remove(state.Thread, one)
		one = nil
	}
	if one == nil {
		one = &feed{kind: f.kind, first: state.First, changed: make(chan struct{}), kick: make(chan struct{}, 1), stop: func() {}}
		if f.db != nil {
			var ctx context.Context
			ctx, one.stop = context.WithCancel(f.ctx)
			f.copies.Go(func() { f.copy(ctx, state.Thread, one) })
		} else {
			// Numbers grow over all of a thread's runs, also those that another process
			// or an earlier feed told of: clients drop numbers that they have seen. So
			// they begin at the time, in microseconds, which a feed doesn't overtake.
			one.at = time.Now().UnixMicro()
		}
		f.byThread[state.Thread] = one
	}
	one.users++
	return one, nil
}

// find is open for a feed that exists already in this process; nil if it doesn't.
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

// sweep removes the feeds that nobody has come for, and those left first if all are
// too large together.
func (f *feeds) sweep(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var unused []string
	total := 0
	for thread, one := range f.byThread {
		total += one.size()
		if one.users == 0 {
			unused = append(unused, thread)
		}
	}
	slices.SortFunc(unused, func(a, b string) int { return f.byThread[a].left.Compare(f.byThread[b].left) })
	for _, thread := range unused {
		one := f.byThread[thread]
		if now.Sub(one.left) <= keepFeed && !over(total, f.most) {
			return
		}
		total -= one.size()
		one.stop()
		delete(f.byThread, thread)
	}
}

func (f *feed) size() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bytes
}

// forget ends the feed of a thread that is being removed.
func (f *feeds) forget(thread string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one := f.byThread[thread]; one != nil {
		f.remove(thread, one)
	}
}

// remove ends a feed whose thread was removed: who reads it hears nothing of the next
// thread of that ID. The caller holds the lock.
func (f *feeds) remove(thread string, one *feed) {
	one.stop()
	one.end(errRemoved)
	if f.byThread[thread] == one {
		delete(f.byThread, thread)
	}
}

// end cuts off all readers: the server is closing.
func (f *feeds) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	for _, one := range f.byThread {
		one.end(errOver)
	}
}

// through returns the number of a thread's newest event, 0 if there is none.
func (f *feeds) through(ctx context.Context, thread string) int64 {
	if f.db != nil {
		state, err := f.db.FeedState(ctx, thread, f.kind)
		if err != nil || state.Next == state.First {
			return 0 // clients lose nothing by it
		}
		return state.Next - 1
	}
	one := f.find(thread)
	if one == nil {
		return 0
	}
	defer f.leave(one)
	return one.next() - 1
}

// look is open for whoever only looks at what was told already; nil if nothing
// was.
func (f *feeds) look(ctx context.Context, thread string) (*feed, error) {
	if f.db == nil {
		return f.find(thread), nil
	}
	state, err := f.db.FeedState(ctx, thread, f.kind)
	if err != nil || state.Next == state.First {
		return nil, err
	}
	return f.open(ctx, thread)
}

// tree returns what a thread's newest run consists of, nil if it isn't known.
func (f *feeds) tree(ctx context.Context, thread string) (*v2Node, error) {
	one, err := f.look(ctx, thread)
	if one == nil {
		return nil, err
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
	return root, nil
}

// state returns what a subgraph's newest events say of its state, nil if there are
// none.
func (f *feeds) state(ctx context.Context, thread string, namespace []string) (values object, at *v2CheckpointRef, err error) {
	one, err := f.look(ctx, thread)
	if one == nil {
		return nil, nil, err
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
	return values, at, nil
}

// feed is a thread's newest events. It is safe for concurrent use.
type feed struct {
	kind  string
	first int64     // of it in the database
	users int       // guarded by feeds.mu
	left  time.Time // by the last user; guarded by feeds.mu

	kick chan struct{} // that there may be more to copy
	stop func()        // ends the copying

	mu      sync.Mutex
	lost    int64 // number of the newest event that isn't left
	at      int64 // number that is still to come
	events  []feedEvent
	bytes   int
	changed chan struct{} // closed at the next change
	over    error         // why nothing more comes
	tree    []*v2Node     // the graphs of the newest run
}

// told is an event as whoever tells it knows it: of the protocol's second version,
// data are the parameters.
type told struct {
	method    string
	channel   string
	namespace []string
	ending    bool // a run is over
	data      []byte
	upTo      string // where all is told with this event, as a storedLine notes it
}

// feedEvent is an event as filters and readers see it.
type feedEvent struct {
	seq int64
	told
}

// settle is how long after a subscription the end of a run is told at the
// earliest. Clients make several one after the other, and take the end of a run,
// seen by one, for that of all that they have: those that come for what was before
// are not too late.
const settle = 100 * time.Millisecond

// send appends an event.
func (f *feed) send(ev told) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.add(f.at, ev)
	f.wake()
}

// add appends an event with a number. The caller holds the lock.
func (f *feed) add(seq int64, ev told) {
	id := strconv.FormatInt(seq, 10)
	if ev.method == "lifecycle" {
		// Clients read from the ID which run begins or ends.
		if run := f.note(ev); run != "" {
			id = "synth:" + run + ":" + id
		}
	}
	if f.kind == kindEvents {
		ev.data = fmt.Appendf(nil, `{"type":"event","event_id":%q,"seq":%d,"method":%q,"params":%s}`, id, seq, ev.method, ev.data)
	}
	f.events = append(f.events, feedEvent{seq, ev})
	f.at = seq + 1
	for f.bytes += len(ev.data); f.bytes > maxFeed && len(f.events) > 1; {
		f.bytes -= len(f.events[0].data)
		f.lost = f.events[0].seq
		f.events[0] = feedEvent{}
		f.events = f.events[1:]
	}
}

// wake has readers look again. The caller holds the lock.
func (f *feed) wake() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// event makes an event of the protocol's second version.
func eventOf(method, channel string, namespace []string, at time.Time, node string, data any) (told, error) {
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
		return told{}, fmt.Errorf("event %s: %w", method, err)
	}
	ending := method == "lifecycle" && len(namespace) == 0 && !isStatus(data, statusRunning)
	return told{method, channel, namespace, ending, params, ""}, nil
}

// isStatus reports whether an event of a graph's life says that it has a status.
func isStatus(data any, status string) bool {
	life, ok := data.(map[string]any)
	return ok && life["event"] == status
}

// note notes what an event says of a graph's life, and returns the run that it is of
// if it is the whole graph's. The caller holds the lock.
func (f *feed) note(ev told) (run string) {
	data := objectOf(objectOf(ev.data)["data"])
	status := textOf(data["event"])
	if status == statusStarted {
		status = statusRunning
	}
	f.mark(ev.namespace, status, textOf(data["graph_name"]))
	return textOf(data["run_id"])
}

// mark notes the state of a graph of the newest run. The caller holds the lock.
func (f *feed) mark(namespace []string, status, graph string) {
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

// index returns the place of the first event that is left from a number on. The
// caller holds the lock.
func (f *feed) index(seq int64) int {
	i, _ := slices.BinarySearchFunc(f.events, seq, func(ev feedEvent, seq int64) int { return cmp.Compare(ev.seq, seq) })
	return i
}

// end says why nothing more comes.
func (f *feed) end(why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over == nil {
		f.over = why
		f.wake()
	}
}

// next returns a number that the next event will have, or a smaller one that no
// event has.
func (f *feed) next() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at
}

// since returns the number from which on to read what is left after an event.
func (f *feed) since(seq int64) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return min(max(seq, f.lost)+1, f.at)
}

var (
	errSlow = errors.New("the reader is slower than the runs") // what it had to read next is gone
	errOver = errors.New("the server is closing")
)

// read waits for the first event from a number on.
func (f *feed) read(ctx context.Context, seq int64) (feedEvent, error) {
	for {
		f.mu.Lock()
		if seq <= f.lost {
			f.mu.Unlock()
			return feedEvent{}, errSlow
		}
		if i := f.index(seq); i < len(f.events) {
			ev := f.events[i]
			f.mu.Unlock()
			return ev, nil
		}
		changed, over := f.changed, f.over
		f.mu.Unlock()
		if over != nil {
			return feedEvent{}, over
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return feedEvent{}, ctx.Err()
		}
	}
}

// shown returns an event as readers see it. That a task begins is kept without the
// state that it begins with: the values before it have that, and many tasks would
// have it once more.
func (f *feed) shown(ev *feedEvent) []byte {
	if ev.channel != "tasks" {
		return ev.data
	}
	event := objectOf(ev.data)
	params := objectOf(event["params"])
	data := objectOf(params["data"])
	if data["triggers"] == nil || data["input"] != nil {
		return ev.data
	}
	data["input"] = orNull(objectOf(objectOf(f.valuesBefore(ev))["params"])["data"])
	return event.with(object{"params": params.with(object{"data": data.raw()}).raw()}).raw()
}

// valuesBefore returns the newest values of an event's graph that its run told of
// before, nil if there are none left.
func (f *feed) valuesBefore(ev *feedEvent) json.RawMessage {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, earlier := range slices.Backward(f.events[:f.index(ev.seq)]) {
		switch {
		case earlier.channel == "values" && slices.Equal(earlier.namespace, ev.namespace):
			return earlier.data
		case earlier.channel == "lifecycle" && len(earlier.namespace) == 0: // the beginning of the run
			return nil
		}
	}
	return nil
}

// buffered returns the events before a number that are left.
func (f *feed) buffered(before int64) []feedEvent {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.events[:f.index(before)])
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
