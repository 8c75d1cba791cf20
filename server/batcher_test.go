package server

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/server/internal/db"
)

// A shelf is what batches are stored on.
type shelf struct {
	slow time.Duration // how long an attempt takes
	read atomic.Bool   // somebody reads what is stored

	mu      sync.Mutex
	fail    []error // what the next attempts return
	batches [][]int
	tries   int
	lost    []error // why batches were given up
}

// batcher returns one whose batches somebody reads.
func (s *shelf) batcher(t *testing.T, most int) *batcher[int] {
	s.read.Store(true)
	b := newBatcher(t.Context(), most, func(_ context.Context, some []int) error {
		time.Sleep(s.slow)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tries++
		if len(s.fail) > 0 {
			err := s.fail[0]
			s.fail = s.fail[1:]
			return err
		}
		s.batches = append(s.batches, some)
		return nil
	}, s.read.Load, func(_ context.Context, err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lost = append(s.lost, err)
	})
	t.Cleanup(func() { _ = b.close() })
	return b
}

func (s *shelf) has(t *testing.T, want ...[]int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.EqualFunc(s.batches, want, slices.Equal) {
		t.Errorf("stored %v, want %v", s.batches, want)
	}
}

func TestWhatComesWhileABatchIsStoredIsStoredTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shelf{slow: time.Second}
		b := s.batcher(t, 0)
		b.put(1)
		time.Sleep(s.slow / 2)
		b.put(2)
		b.put(3, 4)
		if err := b.close(); err != nil {
			t.Fatal(err)
		}
		s.has(t, []int{1}, []int{2, 3, 4})
	})
}

func TestEventsWaitForThoseThatComeNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s shelf
		b := s.batcher(t, 0)
		b.put(1)
		time.Sleep(gather / 2)
		b.put(2)
		time.Sleep(gather / 4)
		b.put(3)
		synctest.Wait()
		s.has(t, []int{1})
		time.Sleep(gather)
		synctest.Wait()
		s.has(t, []int{1}, []int{2, 3})
		b.put(4)
		if err := b.flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.has(t, []int{1}, []int{2, 3}, []int{4})
	})
}

func TestEventsThatNobodyReadsWaitLongerUntilSomebodyComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s shelf
		b := s.batcher(t, 0)
		s.read.Store(false)
		b.put(1)
		time.Sleep(unread - gather)
		b.put(2)
		synctest.Wait()
		s.has(t)
		time.Sleep(gather)
		synctest.Wait()
		s.has(t, []int{1, 2})
		b.put(3)
		s.read.Store(true)
		if err := b.flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.has(t, []int{1, 2}, []int{3})
		b.put(4)
		time.Sleep(gather)
		synctest.Wait()
		s.has(t, []int{1, 2}, []int{3}, []int{4})
	})
}

func TestWhoHasAllStoredWaitsForWhatWasPutUntilThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shelf{slow: time.Second}
		b := s.batcher(t, 0)
		b.put(1)
		done := make(chan error)
		go func() { done <- b.flush(t.Context()) }()
		time.Sleep(s.slow / 2)
		b.put(2) // and so on: it would never end
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		s.has(t, []int{1})
	})
}

func TestWhoHasAllStoredWaitsAsLongAsTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shelf{slow: time.Hour}
		b := s.batcher(t, 0)
		b.put(1)
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		began := time.Now()
		if err := b.flush(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		s.has(t)
	})
}

func TestNobodyWaitsForWhatIsLeftToWhoEndedTheBatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shelf{slow: time.Second}
		b := s.batcher(t, 0)
		b.put(1)
		time.Sleep(s.slow / 2)
		b.put(2)
		done := make(chan error)
		go func() { done <- b.flush(t.Context()) }()
		synctest.Wait()
		if rest, err := b.leave(); err != nil || !slices.Equal(rest, []int{2}) {
			t.Errorf("left %v, %v", rest, err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestWhoLeavesABatcherGetsWhatIsNotStoredYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shelf{slow: time.Second}
		b := s.batcher(t, 0)
		b.put(1)
		time.Sleep(s.slow / 2)
		b.put(2, 3)
		rest, err := b.leave()
		if err != nil || !slices.Equal(rest, []int{2, 3}) {
			t.Errorf("left %v, %v", rest, err)
		}
		if err := b.close(); err != nil { // as it was told first
			t.Error(err)
		}
		s.has(t, []int{1})
	})
}

func TestABatchThatFailsIsTriedAgainBeforeWhatFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("no connection")
		s := shelf{fail: slices.Repeat([]error{broken}, storeTries-1)}
		b := s.batcher(t, 0)
		b.put(1)
		time.Sleep(time.Millisecond)
		b.put(2)
		if err := b.close(); err != nil {
			t.Fatal(err)
		}
		s.has(t, []int{1}, []int{2})
		if len(s.lost) > 0 {
			t.Errorf("gave up: %v", s.lost)
		}
	})
}

func TestABatcherGivesUpOnceAndForAll(t *testing.T) {
	broken := errors.New("no connection")
	for _, c := range []struct {
		fail  error
		tries int
	}{{broken, storeTries}, {db.ErrTaken, 1}, {db.ErrNotFound, 1}} {
		synctest.Test(t, func(t *testing.T) {
			s := shelf{fail: slices.Repeat([]error{c.fail}, c.tries)}
			b := s.batcher(t, 0)
			b.put(1)
			if err := b.flush(t.Context()); !errors.Is(err, c.fail) {
				t.Errorf("flush returns %v, want %v", err, c.fail)
			}
			b.put(2)
			if err := b.close(); !errors.Is(err, c.fail) {
				t.Errorf("close returns %v, want %v", err, c.fail)
			}
			s.has(t)
			if s.tries != c.tries || len(s.lost) != 1 {
				t.Errorf("%v: tried %d times, given up %v; want %d tries", c.fail, s.tries, s.lost, c.tries)
			}
		})
	}
}

func TestWhoPutsMoreThanMayWaitWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shelf{slow: time.Second}
		b := s.batcher(t, 2)
		b.put(1)
		time.Sleep(s.slow / 2)
		b.put(2, 3)
		var put atomic.Bool
		go func() {
			b.put(4)
			put.Store(true)
		}()
		synctest.Wait()
		if put.Load() {
			t.Error("more than two events wait")
		}
		time.Sleep(2 * s.slow)
		synctest.Wait()
		if !put.Load() {
			t.Error("an event waits though there is room")
		}
		if err := b.flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.has(t, []int{1}, []int{2, 3}, []int{4})
	})
}

func TestNobodyWaitsForABatcherThatGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shelf{slow: time.Second, fail: []error{db.ErrTaken}}
		b := s.batcher(t, 1)
		b.put(1)
		time.Sleep(s.slow / 2)
		b.put(2)
		b.put(3) // there is no room until the first is given up
		if err := b.flush(t.Context()); !errors.Is(err, db.ErrTaken) {
			t.Errorf("flush returns %v", err)
		}
	})
}
