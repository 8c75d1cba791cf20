package server

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/superstep-dev/superstep/server/internal/db"
)

// streams are the logs of what runs of this process send, for as long as clients
// may come for them.
type streams struct {
	ending chan struct{} // closed when all that is not over goes on elsewhere
	limits Limits
	sent   atomic.Int64 // bytes, since it was looked whether the logs are too large

	mu   sync.Mutex
	logs map[string]*runLog
}

func newStreams(l Limits) *streams {
	return &streams{ending: make(chan struct{}), limits: l, logs: map[string]*runLog{}}
}

const (
	keepLog   = 5 * time.Minute // after the end of its run
	heartbeat = 5 * time.Second
	eventCost = 64 // bytes that an event takes beside its data
)

// open makes the log of a run, before anything is sent to it.
func (s *streams) open(run *db.Run) *runLog {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.logs[run.ID]
	if l == nil || l.isBroken() {
		l = s.newLog(run)
	}
	if s.over() {
		l.breakOff()
	}
	return l
}

// end cuts off the readers of logs that have not ended: the server is closing. Those
// that are filled from what is stored get that first.
func (s *streams) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over() {
		return
	}
	close(s.ending)
	for _, l := range s.logs {
		if !l.stored {
			l.breakOff()
		}
	}
}

// over reports whether the server is closing.
func (s *streams) over() bool {
	select {
	case <-s.ending:
		return true
	default:
		return false
	}
}

// ownerOf returns the ID of the user for whom a run works, empty if there is none.
func ownerOf(run *db.Run) string { return textOf(objectOf(run.User)["identity"]) }

// newLog is called with the lock held.
func (s *streams) newLog(run *db.Run) *runLog {
	l := &runLog{of: s, thread: run.ThreadID, user: ownerOf(run), changed: make(chan struct{}), end: make(chan struct{}), told: make(chan struct{}, 1)}
	s.logs[run.ID] = l
	return l
}

// follow returns the log of a run that is stored, and whether it was made just
// now, so that the caller is the one to fill it.
func (s *streams) follow(run *db.Run) (l *runLog, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l = s.logs[run.ID]; l != nil && !l.isBroken() {
		return l, false
	}
	l = s.newLog(run)
	l.stored = true
	return l, true
}

// tell says that there are new events of a run to be read, to whoever follows it
// here.
func (s *streams) tell(run string) {
	if l := s.get(run); l != nil {
		select {
		case l.told <- struct{}{}:
		default:
		}
	}
}

// get returns the log of a run, nil if there is none (any more).
func (s *streams) get(run string) *runLog {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.logs[run]; l != nil && !l.isBroken() {
		return l
	}
	return nil
}

func (s *streams) drop(run string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.logs, run)
}

// forget removes the logs of a thread that was removed.
func (s *streams) forget(thread string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for run, l := range s.logs {
		if l.thread == thread {
			l.breakOff() // without effect after its end
			delete(s.logs, run)
		}
	}
}

// sweep removes logs that nobody has come for, and what is too much of the others.
func (s *streams) sweep(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent.Store(0)
	var all []kept
	byUser := map[string][]kept{}
	for run, l := range s.logs {
		k := l.kept(run)
		if !k.at.IsZero() && now.Sub(k.at) > keepLog {
			delete(s.logs, run)
			continue
		}
		all = append(all, k)
		if k.user != "" {
			byUser[k.user] = append(byUser[k.user], k)
		}
	}
	for _, of := range byUser {
		s.fit(of, s.limits.LogsPerUser)
	}
	all = slices.DeleteFunc(all, func(k kept) bool { return s.logs[k.run] == nil })
	s.fit(all, s.limits.Logs)
}

// kept is a log as it counts.
type kept struct {
	*runLog
	run  string
	at   time.Time // of its end
	size int
}

// fit makes logs fit into a number of bytes: those that have ended go, the oldest
// first, and then the oldest events of those that are the largest. Who comes later
// finds what came of a run in the database. The caller holds the lock.
func (s *streams) fit(logs []kept, limit int) {
	total := 0
	for _, k := range logs {
		total += k.size
	}
	if !over(total, limit) {
		return
	}
	slices.SortFunc(logs, func(a, b kept) int {
		if a.at.IsZero() != b.at.IsZero() {
			return cmp.Compare(b.at.Unix(), a.at.Unix()) // what has not ended comes last
		}
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(b.size, a.size))
	})
	for _, k := range logs {
		if total <= limit {
			return
		}
		if !k.at.IsZero() {
			delete(s.logs, k.run)
			total -= k.size
			continue
		}
		total -= k.trim(total - limit + k.size/8)
	}
}

// grew notes that a log has grown.
func (s *streams) grew(n int) {
	if n > 0 && s.limits.Logs > 0 && s.sent.Add(int64(n)) > int64(s.limits.Logs/64) {
		s.sweep(time.Now())
	}
}

// sent is an event of a stream. Its ID is its place.
type sent struct {
	event string
	data  []byte
}

// runLog is what a run has sent. It is safe for concurrent use.
type runLog struct {
	of     *streams
	thread string
	user   string // empty if there is none
	stored bool   // it is filled from what is stored

	mu      sync.Mutex
	first   int // ID of events[0]
	events  []sent
	bytes   int
	changed chan struct{} // closed at the next change
	end     chan struct{} // closed at the end
	at      time.Time     // of the end
	told    chan struct{} // that more is stored

	broken  bool            // the run goes on elsewhere
	outcome json.RawMessage // set before the end
}

// send appends an event.
func (l *runLog) send(event string, data []byte) { l.sendAt(-1, event, data) }

// begin makes the log's next event have an ID, if it has none yet.
func (l *runLog) begin(id int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.events) == 0 {
		l.first = max(l.first, id)
	}
}

// sendAt is send for an event that has an ID already; of a log, either all have
// one or none.
func (l *runLog) sendAt(id int, event string, data []byte) {
	if l.append(id, event, data) {
		l.of.grew(len(data) + eventCost)
	}
}

func (l *runLog) append(id int, event string, data []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.at.IsZero() {
		return false
	}
	if len(l.events) == 0 && id >= 0 {
		l.first = id
	}
	l.events = append(l.events, sent{event, data})
	l.bytes += len(data) + eventCost
	if limit := l.of.limits.Log; over(l.bytes, limit) {
		l.shed(l.bytes - limit)
	}
	close(l.changed)
	l.changed = make(chan struct{})
	return true
}

// shed removes the oldest events, but not the newest. The caller holds the lock.
func (l *runLog) shed(bytes int) {
	for before := l.bytes; before-l.bytes < bytes && len(l.events) > 1; l.first++ {
		l.bytes -= len(l.events[0].data) + eventCost
		l.events[0] = sent{}
		l.events = l.events[1:]
	}
}

// trim is shed for others. It returns how many bytes it removed.
func (l *runLog) trim(bytes int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.bytes
	l.shed(bytes)
	return before - l.bytes
}

func (l *runLog) kept(run string) kept {
	l.mu.Lock()
	defer l.mu.Unlock()
	return kept{l, run, l.at, l.bytes + len(l.outcome)}
}

// close ends the log. What the run came to, if given, is what waiting for it
// returns.
func (l *runLog) close(outcome json.RawMessage) {
	l.finish(outcome)
	l.of.grew(len(outcome))
}

func (l *runLog) finish(outcome json.RawMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.at.IsZero() {
		return
	}
	l.outcome, l.at = outcome, time.Now()
	close(l.changed)
	close(l.end)
}

// closeRemoved ends the log of a run that went with its thread.
func (l *runLog) closeRemoved(thread string) {
	told, _ := json.Marshal(removed(thread)) // of strings
	l.send("error", told)
	l.close(object{"__error__": told}.raw())
}

// breakOff ends the log of a run that goes on elsewhere: readers are cut off, so
// that they look for it again.
func (l *runLog) breakOff() {
	l.mu.Lock()
	l.broken = l.broken || l.at.IsZero()
	l.mu.Unlock()
	l.finish(nil)
}

func (l *runLog) isBroken() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken
}

func (l *runLog) ended() <-chan struct{} { return l.end }

// next returns the ID that the next event will have.
func (l *runLog) next() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first + len(l.events)
}

// read waits for the event with an ID, or the first after it that is left. It
// returns false at the end of the log.
func (l *runLog) read(ctx context.Context, id int) (ev sent, at int, ok bool, err error) {
	for {
		l.mu.Lock()
		at = max(id, l.first)
		if i := at - l.first; i < len(l.events) {
			ev = l.events[i]
			l.mu.Unlock()
			return ev, at, true, nil
		}
		changed, over := l.changed, !l.at.IsZero()
		l.mu.Unlock()
		if over {
			return sent{}, 0, false, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return sent{}, 0, false, ctx.Err()
		}
	}
}
