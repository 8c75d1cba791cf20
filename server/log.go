package server

import (
	"context"
	"encoding/json"
	"sync"
	"time"
)

// streams are the logs of what runs of this process send, for as long as clients
// may come for them.
type streams struct {
	ending chan struct{} // closed when all that is not over goes on elsewhere

	mu   sync.Mutex
	logs map[string]*runLog
}

func newStreams() *streams {
	return &streams{ending: make(chan struct{}), logs: map[string]*runLog{}}
}

const (
	keepLog   = 5 * time.Minute // after the end of its run
	maxLog    = 64 << 20        // bytes of a run's log; the oldest events go
	heartbeat = 5 * time.Second
)

// open makes the log of a run, before anything is sent to it.
func (s *streams) open(run string) *runLog {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.logs[run]
	if l == nil || l.isBroken() {
		l = newLog()
		s.logs[run] = l
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

func newLog() *runLog {
	return &runLog{changed: make(chan struct{}), end: make(chan struct{}), told: make(chan struct{}, 1)}
}

// follow returns the log of a run that is stored, and whether it was made just
// now, so that the caller is the one to fill it.
func (s *streams) follow(run string) (l *runLog, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l = s.logs[run]; l != nil && !l.isBroken() {
		return l, false
	}
	l = newLog()
	l.stored = true
	s.logs[run] = l
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

// sweep removes logs that nobody has come for.
func (s *streams) sweep(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for run, l := range s.logs {
		if at := l.endedAt(); !at.IsZero() && now.Sub(at) > keepLog {
			delete(s.logs, run)
		}
	}
}

// sent is an event of a stream. Its ID is its place.
type sent struct {
	event string
	data  []byte
}

// runLog is what a run has sent. It is safe for concurrent use.
type runLog struct {
	stored bool // it is filled from what is stored

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
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.at.IsZero() {
		return
	}
	if len(l.events) == 0 && id >= 0 {
		l.first = id
	}
	l.events = append(l.events, sent{event, data})
	for l.bytes += len(data); l.bytes > maxLog && len(l.events) > 1; l.first++ {
		l.bytes -= len(l.events[0].data)
		l.events[0] = sent{}
		l.events = l.events[1:]
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// close ends the log. What the run came to, if given, is what waiting for it
// returns.
func (l *runLog) close(outcome json.RawMessage) {
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
	l.close(nil)
}

func (l *runLog) isBroken() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken
}

func (l *runLog) ended() <-chan struct{} { return l.end }

func (l *runLog) endedAt() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at
}

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
