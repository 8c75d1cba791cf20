package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
)

func TestLocksServeFirstComeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l checkpoint.Locks
		release, _, err := l.Lock(t.Context(), "t", "first", checkpoint.TryLock, nil)
		if err != nil {
			t.Fatal(err)
		}
		var busy *checkpoint.BusyError
		if _, _, err := l.Lock(t.Context(), "t", "other", checkpoint.TryLock, nil); !errors.As(err, &busy) || busy.Lease.Holder != "first" {
			t.Fatalf("got %v, want the thread held by the first", err)
		}
		var mu sync.Mutex
		var order []int
		for i := range 5 {
			go func() {
				release, _, err := l.Lock(t.Context(), "t", fmt.Sprint(i), checkpoint.WaitLock, nil)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				release(true)
			}()
			synctest.Wait() // in line
		}
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error)
		go func() { _, _, err := l.Lock(ctx, "t", "impatient", checkpoint.WaitLock, nil); left <- err }()
		synctest.Wait()
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
		release(true)
		release(true) // twice is once
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if fmt.Sprint(order) != "[0 1 2 3 4]" {
			t.Fatalf("served in the order %v", order)
		}
		if _, _, err := l.Lock(t.Context(), "t", "last", checkpoint.TryLock, nil); err != nil {
			t.Fatal(err)
		}
	})
}

func TestLocksEvictTheHolderAndThoseBeforeInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l checkpoint.Locks
		var mu sync.Mutex
		asked := map[string]int{}
		hold := func(holder string, mode checkpoint.LockMode) (release func(bool), evicted []string) {
			release, evicted, err := l.Lock(t.Context(), "t", holder, mode, func() {
				mu.Lock()
				defer mu.Unlock()
				asked[holder]++
			})
			if err != nil {
				t.Error(err)
			}
			return release, evicted
		}
		release, evicted := hold("a", checkpoint.EvictLock)
		if evicted != nil {
			t.Fatalf("evicted %v from a thread that nobody held", evicted)
		}
		var got []string
		for _, w := range []struct {
			holder string
			mode   checkpoint.LockMode
		}{{"b", checkpoint.WaitLock}, {"c", checkpoint.EvictLock}, {"d", checkpoint.EvictLock}} {
			go func() {
				release, evicted := hold(w.holder, w.mode)
				time.Sleep(time.Second) // time to be evicted
				mu.Lock()
				got = append(got, fmt.Sprint(w.holder, evicted))
				mu.Unlock()
				release(true)
			}()
			synctest.Wait()
		}
		mu.Lock()
		if asked["a"] != 1 {
			t.Fatalf("the holder was asked %d times, want once", asked["a"])
		}
		mu.Unlock()
		release(true)
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if fmt.Sprint(got) != "[b[] c[a b] d[a b c]]" || fmt.Sprint(asked) != "map[a:1 b:1 c:1]" {
			t.Fatalf("got %v, asked %v", got, asked)
		}
	})
}
