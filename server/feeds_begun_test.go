package server

import (
	"testing"
	"time"

	"github.com/superstep-dev/superstep/server/internal/db"
)

// Two clients may find that a thread isn't there, and one of them makes it: what is told of
// its run before the one that made it has answered is of the new thread.
func TestWhatIsToldOfAThreadBeforeItsMakerKnowsIsOfThatThread(t *testing.T) {
	all := &feeds{byThread: map[string]*feed{}}
	told := func() *feed {
		one := &feed{of: all, thread: "t", changed: make(chan struct{}), stop: func() {}}
		all.byThread["t"] = one
		one.tells(&db.Run{ID: "r"})
		return one
	}
	old := told()
	since := time.Now()
	all.renew("t", since)
	if old.over == nil {
		t.Error("what was told before another thread was made isn't over")
	}
	since = time.Now()
	one := told()
	if all.renew("t", since); one.over != nil {
		t.Errorf("what is told of the new thread is over: %v", one.over)
	}
}
