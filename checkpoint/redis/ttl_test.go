package redis_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/internal/logtest"
	"github.com/superstep-dev/superstep/checkpoint/redis"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
)

// busyThread gives a thread one of everything.
func busyThread(t *testing.T, s checkpoint.Store, id checkpoint.ThreadID) {
	t.Helper()
	for _, ns := range []string{"", "n"} {
		log := checkpoint.Log{Thread: id, Namespace: ns}
		head := logtest.Begin(t, s, log, 3)
		r := logtest.Step(log, checkpoint.NewRunID(), head, 4, logtest.Noise(3000))
		r.Due = time.Now()
		logtest.Write(t, s, &checkpoint.Write{
			Log: log, Claim: true, Holder: "me", Lease: time.Millisecond, Head: head, Record: r,
			Results: []checkpoint.Result{{Epoch: r.ID, Kind: checkpoint.KindOnce}, {Epoch: "e", Kind: checkpoint.KindOnce}},
		})
	}
}

func TestIdleThreadsVanishWhole(t *testing.T) {
	p := newPrefix(t)
	const ttl = time.Second
	s := openAt(t, p, redis.Options{TTL: ttl})
	defer s.Close()
	c := client(t, servertest.Redis(t))
	busyThread(t, s, "idle")
	busyThread(t, s, "copied")
	if err := s.Copy(t.Context(), "idle", "copy"); err != nil {
		t.Fatal(err)
	}
	forever := openAt(t, p)
	defer forever.Close()
	busyThread(t, forever, "kept")
	// A thread is kept for ever from when a store without TTL writes to it.
	logtest.Write(t, forever, &checkpoint.Write{Log: checkpoint.Log{Thread: "copied"}, Wake: true})

	of := func(id string) []string { return keys(t, c, p+"t:{"+id+"}") }
	for _, id := range []string{"idle", "copy"} {
		all := of(id)
		if len(all) != 7 {
			t.Fatalf("thread %s has keys %q", id, all)
		}
		var ends []time.Duration
		for _, k := range all {
			ends = append(ends, c.PExpireTime(t.Context(), k).Val())
		}
		if slices.Min(ends) != slices.Max(ends) || ends[0] <= 0 {
			t.Fatalf("keys %q end at %v", all, ends)
		}
	}
	// Writing to one log keeps all of the thread.
	busy := checkpoint.Log{Thread: "busy", Namespace: "a"}
	kept := checkpoint.Log{Thread: "busy", Namespace: "b"}
	logtest.Begin(t, s, kept, 2)
	for begun := time.Now(); time.Since(begun) < 3*ttl; time.Sleep(ttl / 10) {
		logtest.Write(t, s, &checkpoint.Write{Log: busy, Results: []checkpoint.Result{{Epoch: checkpoint.NewRunID(), Kind: checkpoint.KindOnce}}})
		if n := logtest.Count(t, s, kept); n != 2 {
			t.Fatalf("%d records of a thread that is in use", n)
		}
	}
	for _, id := range []string{"idle", "copy"} {
		if left := of(id); len(left) > 0 {
			t.Fatalf("thread %s still has %q", id, left)
		}
		if _, _, err := s.Head(t.Context(), checkpoint.Log{Thread: checkpoint.ThreadID(id)}); !errors.Is(err, checkpoint.ErrNotFound) {
			t.Fatal(err)
		}
	}
	// The lists don't have them, and what is met is cleaned up.
	var listed []checkpoint.ThreadID
	for info, err := range s.Threads(t.Context(), checkpoint.ThreadFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, info.Thread)
	}
	slices.Sort(listed)
	if !slices.Equal(listed, []checkpoint.ThreadID{"copied", "kept"}) {
		t.Fatalf("threads %q", listed)
	}
	for _, list := range []func(yield func(checkpoint.Waiting, error) bool){s.Due(t.Context(), time.Time{}, 0), s.Abandoned(t.Context(), 0)} {
		for w, err := range list {
			if err != nil || w.Thread != "kept" && w.Thread != "copied" {
				t.Fatal(w, err)
			}
		}
	}
	for _, index := range []string{"i:threads", "i:due", "i:lease", "i:names", "i:expiry"} {
		for _, m := range c.ZRange(t.Context(), p+index, 0, -1).Val() {
			for _, gone := range []string{"idle", "copy"} {
				if len(m) >= len(gone) && m[len(m)-len(gone):] == gone {
					t.Errorf("%s has %q", index, m)
				}
			}
		}
	}
	for _, id := range []string{"kept", "copied"} {
		for _, k := range of(id) {
			if d := c.PTTL(t.Context(), k).Val(); d >= 0 {
				t.Errorf("key %q ends in %v", k, d)
			}
		}
		if n := logtest.Count(t, s, checkpoint.Log{Thread: checkpoint.ThreadID(id)}); n != 4 {
			t.Errorf("thread %s has %d records", id, n)
		}
	}
	// A thread that vanished can begin anew.
	busyThread(t, s, "idle")
}

// TestThreadsThatVanishLeaveTheIndexes also when nobody lists them: other
// writes see to it.
func TestThreadsThatVanishLeaveTheIndexes(t *testing.T) {
	p := newPrefix(t)
	s := openAt(t, p, redis.Options{TTL: 400 * time.Millisecond})
	defer s.Close()
	for i := range 20 {
		busyThread(t, s, checkpoint.ThreadID(rune('a'+i)))
	}
	time.Sleep(600 * time.Millisecond)
	for range 10 {
		logtest.Write(t, s, &checkpoint.Write{Log: checkpoint.Log{Thread: "other"}, Claim: true})
	}
	c := client(t, servertest.Redis(t))
	for _, index := range []string{"i:threads", "i:due", "i:lease", "i:names", "i:expiry"} {
		if n := c.ZCard(t.Context(), p+index).Val(); n > 1 {
			t.Errorf("%s has %d members", index, n)
		}
	}
	if n := c.HLen(t.Context(), p+"i:at").Val(); n > 1 {
		t.Errorf("i:at has %d fields", n)
	}
}

// TestAThreadThatBeginsAnew has nothing of the one that vanished.
func TestAThreadThatBeginsAnew(t *testing.T) {
	for _, copied := range []bool{false, true} {
		p := newPrefix(t)
		s := openAt(t, p, redis.Options{TTL: 400 * time.Millisecond})
		defer s.Close()
		busyThread(t, s, "t")
		time.Sleep(600 * time.Millisecond)
		forever := openAt(t, p)
		defer forever.Close()
		log := checkpoint.Log{Thread: "t"}
		if copied {
			logtest.Begin(t, forever, checkpoint.Log{Thread: "u"}, 1)
			if err := forever.Copy(t.Context(), "u", "t"); err != nil {
				t.Fatal(err)
			}
		} else {
			logtest.Begin(t, forever, log, 1)
		}
		for _, list := range []func(yield func(checkpoint.Waiting, error) bool){s.Due(t.Context(), time.Time{}, 0), s.Abandoned(t.Context(), 0)} {
			for w, err := range list {
				t.Fatalf("got %v, %v", w, err)
			}
		}
		if n := logtest.Count(t, forever, log); n != 1 {
			t.Fatalf("%d records", n)
		}
		if w := logtest.Write(t, forever, &checkpoint.Write{Log: log}); w.Fence != 0 {
			t.Fatalf("fence %d", w.Fence)
		}
	}
}
