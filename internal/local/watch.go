package local

import (
	"sync"
	"time"
)

// watch notices what takes longer than it may. One timer serves many things, one after
// the other: to set one for each costs more than most of them take.
type watch struct {
	limit time.Duration
	of    overdue

	mu    sync.Mutex
	busy  bool          // something is under way
	since time.Time     // when it began; zero: since before the timer's next look
	told  chan struct{} // of what is under way: of is told, and has been when it is closed
	timer *time.Timer
	armed bool
}

// overdue is told of each thing that takes longer than it may, once.
type overdue interface{ overdue() }

// begin says that something begins, now. Who doesn't know the time gives none, and is told
// up to twice as late: to look at the clock costs more than what is mostly watched.
func (w *watch) begin(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy, w.since = true, now
	switch {
	case w.armed:
	case w.timer == nil:
		w.timer = time.AfterFunc(w.limit, w.look)
	default:
		w.timer.Reset(w.limit)
	}
	w.armed = true
}

// end says that it has ended, and reports whether it took too long: then late has
// returned.
func (w *watch) end() bool {
	w.mu.Lock()
	told := w.told
	w.busy, w.told = false, nil
	w.mu.Unlock()
	if told == nil {
		return false
	}
	<-told
	return true
}

// stop lets go of the timer. Nothing is under way.
func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.armed {
		w.timer.Stop()
	}
	w.armed, w.timer = false, nil
}

// look is called by the timer.
func (w *watch) look() {
	w.mu.Lock()
	if !w.busy || w.told != nil {
		w.armed = false
		w.mu.Unlock()
		return
	}
	if w.since.IsZero() {
		w.since = time.Now()
	}
	if left := w.limit - time.Since(w.since); left > 0 {
		w.timer.Reset(left)
		w.mu.Unlock()
		return
	}
	told := make(chan struct{})
	w.armed, w.told = false, told
	w.mu.Unlock()
	w.of.overdue()
	close(told)
}
