package redis_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/internal/logtest"
	"github.com/superstep-dev/superstep/checkpoint/redis"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
)

// TestAKilledServer kills the server under writers again and again, and starts it
// again at once. With appendfsync always nobody notices: nothing that was
// acknowledged is lost, and what was under way is sent again. With everysec the
// newest writes may be lost, each as a whole, and the writers are told.
func TestAKilledServer(t *testing.T) {
	for _, fsync := range []string{"everysec", "always"} {
		t.Run(fsync, func(t *testing.T) {
			t.Parallel()
			const threads, rounds = 4, 6
			server := servertest.OwnRedis(t, "--appendfsync", fsync)
			s, err := redis.Open(t.Context(), server.URL())
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			acked := make([]map[checkpoint.ID]bool, threads)
			for i := range acked {
				acked[i] = map[checkpoint.ID]bool{}
			}
			total, after, lost := 0, 0, 0
			killed := false
			var mu sync.Mutex
			for range rounds {
				killed = false
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				for i := range threads {
					wg.Go(func() {
						log := checkpoint.Log{Thread: checkpoint.ThreadID(fmt.Sprint("t", i))}
						err := grow(ctx, s, log, func(id checkpoint.ID) {
							mu.Lock()
							defer mu.Unlock()
							acked[i][id] = true
							total++
							if killed {
								after++
							}
						})
						if errors.Is(err, context.Canceled) || fsync != "always" && (errors.Is(err, checkpoint.ErrConflict) || errors.Is(err, checkpoint.ErrFenced)) {
							return
						}
						t.Errorf("got %v", err)
					})
				}
				mu.Lock()
				grown := total + threads
				mu.Unlock()
				for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
					mu.Lock()
					enough := total >= grown
					mu.Unlock()
					if enough {
						break
					}
				}
				time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
				if err := server.Kill(); err != nil {
					t.Fatal(err)
				}
				mu.Lock()
				killed = true
				before := after
				mu.Unlock()
				if err := server.Start(); err != nil {
					t.Fatal(err)
				}
				// Each writer goes on, or ends.
				for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
					if head, _, err := s.Head(t.Context(), checkpoint.Log{Thread: "t0"}); err == nil && head != nil {
						break
					}
				}
				time.Sleep(20 * time.Millisecond)
				if fsync == "always" { // all go on, when their connections are there again
					for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
						mu.Lock()
						more := after > before
						mu.Unlock()
						if more {
							break
						}
					}
				}
				cancel()
				wg.Wait()
				for i := range threads {
					log := checkpoint.Log{Thread: checkpoint.ThreadID(fmt.Sprint("t", i))}
					have := map[checkpoint.ID]bool{}
					var parent checkpoint.ID
					for r, err := range s.Records(t.Context(), checkpoint.Query{Log: log}) {
						if err != nil {
							t.Fatal(err)
						}
						if r.Seq != int64(len(have)+1) || r.Parent != parent {
							t.Fatalf("record %d follows %s, want %d and %s", r.Seq, r.Parent, len(have)+1, parent)
						}
						parent = r.ID
						have[r.ID] = true
					}
					for id := range acked[i] {
						if have[id] {
							continue
						}
						if fsync == "always" {
							t.Fatalf("record %s of thread %d was acknowledged and is gone", id, i)
						}
						lost++
						delete(acked[i], id)
					}
				}
				for d, err := range s.Verify(t.Context(), "") {
					t.Fatal(d, err)
				}
			}
			t.Logf("%d records acknowledged, %d after a kill, %d lost", total, after, lost)
			if total < rounds*threads || fsync == "always" && after == 0 {
				t.Fatalf("%d records acknowledged, %d after a kill", total, after)
			}
		})
	}
}

// grow continues a thread until a write fails: a result, then the record that
// drops it.
func grow(ctx context.Context, s checkpoint.Store, log checkpoint.Log, ack func(checkpoint.ID)) error {
	var parent checkpoint.ID
	var seq int64
	head, _, err := s.Head(ctx, log)
	if err == nil {
		parent, seq = head.ID, head.Seq
	} else if !errors.Is(err, checkpoint.ErrNotFound) {
		return err
	}
	w, err := s.Write(ctx, &checkpoint.Write{Log: log, Claim: true, Holder: "h", Lease: time.Minute})
	if err != nil {
		return err
	}
	run := checkpoint.NewRunID()
	for n := uint32(1); ; n++ {
		seq++
		r := logtest.Step(log, run, parent, seq, logtest.Message)
		r.ID = run.Checkpoint(n)
		r.Epoch = r.ID
		next := &checkpoint.Write{Log: log, Fence: w.Fence, Record: r, Head: parent}
		if parent != "" {
			res := checkpoint.Result{Epoch: parent, Kind: checkpoint.KindChanges, Data: logtest.Message}
			if _, err := s.Write(ctx, &checkpoint.Write{Log: log, Fence: w.Fence, Results: []checkpoint.Result{res}}); err != nil {
				return err
			}
			next.Drop = &checkpoint.Drop{Epoch: parent}
		}
		if _, err := s.Write(ctx, next); err != nil {
			return err
		}
		ack(r.ID)
		parent = r.ID
	}
}

func TestAServerThatIsStartedAgain(t *testing.T) {
	t.Parallel()
	server := servertest.OwnRedis(t)
	s, err := redis.Open(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	log := checkpoint.Log{Thread: "t"}
	head := logtest.Begin(t, s, log, 3)
	fence := logtest.Write(t, s, &checkpoint.Write{Log: log, Claim: true, Holder: "a", Lease: time.Hour}).Fence
	for i, end := range []func() error{server.Stop, server.Kill} {
		if err := end(); err != nil {
			t.Fatal(err)
		}
		_, _, err := s.Head(t.Context(), log)
		wantError(t, err, redis.ErrUnreachable)
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		r := logtest.Step(log, checkpoint.NewRunID(), head, int64(4+i), logtest.Message)
		logtest.Write(t, s, &checkpoint.Write{Log: log, Fence: fence, Head: head, Record: r})
		head = r.ID
		if _, err := s.Write(t.Context(), &checkpoint.Write{Log: log, Claim: true, Holder: "b"}); !errors.Is(err, checkpoint.ErrBusy) {
			t.Fatalf("%v: the lease is gone", err)
		}
	}
}
