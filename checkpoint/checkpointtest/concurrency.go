package checkpointtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
)

// each runs f n times at once and waits for all.
func each(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

func testConcurrency(t *testing.T, open Opener, o Options) {
	t.Run("of 32 writers on one head exactly one wins each round", func(t *testing.T) {
		s := open(t)
		race(t, func(int) checkpoint.Store { return s }, 32, 15)
	})
	if o.Another != nil {
		t.Run("of writers with stores of their own exactly one wins each round", func(t *testing.T) {
			s := open(t)
			all := []checkpoint.Store{s}
			for range 3 {
				a := o.Another(t, s)
				closeLater(t, a)
				all = append(all, a)
			}
			race(t, func(i int) checkpoint.Store { return all[i%len(all)] }, 16, 15)
		})
		t.Run("a store sees what another one wrote", func(t *testing.T) {
			s, l := open(t), newLine("t")
			other := o.Another(t, s)
			closeLater(t, other)
			stores := []checkpoint.Store{s, other}
			for i := range 10 {
				a, b := stores[i%2], stores[(i+1)%2]
				r := l.add(t, a, 1)[0]
				wantRecord(t, mustHead(t, b, l.log), r)
				if i%3 == 0 {
					l.add(t, a, 2)
				}
			}
			f := mustWrite(t, s, &checkpoint.Write{Log: l.log, Claim: true}).Fence
			l.add(t, s, 1)
			mustWrite(t, other, &checkpoint.Write{Log: l.log, Claim: true})
			_, err := s.Write(t.Context(), &checkpoint.Write{Log: l.log, Fence: f, Record: l.next(), Head: l.head})
			wantErr(t, err, checkpoint.ErrFenced, "write after another store's claim")
			e := l.tip
			mustWrite(t, other, &checkpoint.Write{Log: l.log, Results: []checkpoint.Result{result(e, 0, checkpoint.KindChanges, `1`)}})
			w := mustWrite(t, s, &checkpoint.Write{
				Log: l.log, Record: l.next(), Head: l.head, Drop: &checkpoint.Drop{Epoch: e},
				Results: []checkpoint.Result{result(e, 0, checkpoint.KindChanges, `2`)},
			})
			if w.Ignored != 1 {
				t.Fatalf("%d results ignored, want the one that another store wrote first", w.Ignored)
			}
			wantResults(t, mustResults(t, s, l.log, "", e), nil)
			if err := other.Delete(t.Context(), "t"); err != nil {
				t.Fatal(err)
			}
			l = newLine("t")
			l.add(t, s, 3)
			wantSeqs(t, mustCollect(t, other, checkpoint.Query{Log: l.log}), 1, 2, 3)
		})
	}
	t.Run("writers that read the head and retry lose nothing", func(t *testing.T) {
		s := open(t)
		const writers, each1 = 8, 10
		log := checkpoint.Log{Thread: "t"}
		each(writers, func(i int) {
			l := newLine("t")
			for done := 0; done < each1; {
				l.seq, l.tip, l.head = 0, "", ""
				head, _, err := s.Head(t.Context(), log)
				if err == nil {
					l.seq, l.tip, l.head = head.Seq, head.ID, head.ID
				} else if !errors.Is(err, checkpoint.ErrNotFound) {
					t.Error(err)
					return
				}
				r := l.next()
				_, err = s.Write(t.Context(), &checkpoint.Write{Log: log, Record: r, Head: l.head})
				switch {
				case err == nil:
					l.n++
					done++
				case !errors.Is(err, checkpoint.ErrConflict):
					t.Error(err)
					return
				}
			}
		})
		if n := len(chain(t, s, log)); n != writers*each1 {
			t.Fatalf("%d records, want %d", n, writers*each1)
		}
	})
	t.Run("50 threads are written in parallel", func(t *testing.T) {
		s := open(t)
		each(50, func(i int) {
			l := newLine(checkpoint.ThreadID(fmt.Sprint("t", i)))
			for range 20 {
				r := l.next()
				e := checkpoint.ID(l.tip)
				w := &checkpoint.Write{Log: l.log, Record: r, Head: l.head}
				if e != "" {
					w.Results = []checkpoint.Result{result(e, 0, checkpoint.KindChanges, `1`)}
					w.Drop = &checkpoint.Drop{Epoch: e}
				}
				if _, err := s.Write(t.Context(), w); err != nil {
					t.Error(err)
					return
				}
				l.took(r)
			}
		})
		for i := range 50 {
			if n := len(chain(t, s, checkpoint.Log{Thread: checkpoint.ThreadID(fmt.Sprint("t", i))})); n != 20 {
				t.Fatalf("thread %d has %d records, want 20", i, n)
			}
		}
	})
	t.Run("one writer's conflict does not touch another's write", func(t *testing.T) {
		s := open(t)
		var lost atomic.Int32
		each(40, func(i int) {
			l := newLine(checkpoint.ThreadID(fmt.Sprint("t", i%20)))
			// Two writers a thread: one of them conflicts.
			_, err := s.Write(t.Context(), &checkpoint.Write{Log: l.log, Record: l.next()})
			switch {
			case errors.Is(err, checkpoint.ErrConflict):
				lost.Add(1)
			case err != nil:
				t.Error(err)
			}
		})
		if n := lost.Load(); n != 20 {
			t.Fatalf("%d conflicts, want 20", n)
		}
		for i := range 20 {
			chain(t, s, checkpoint.Log{Thread: checkpoint.ThreadID(fmt.Sprint("t", i))})
		}
	})
	t.Run("of many first writes of a result one wins", func(t *testing.T) {
		s, l := open(t), newLine("t")
		e := l.add(t, s, 1)[0].ID
		var stored atomic.Int32
		each(16, func(i int) {
			w, err := s.Write(t.Context(), &checkpoint.Write{Log: l.log, Results: []checkpoint.Result{result(e, 0, checkpoint.KindChanges, fmt.Sprint(i))}})
			if err != nil {
				t.Error(err)
			}
			stored.Add(int32(1 - w.Ignored))
		})
		if n := stored.Load(); n != 1 {
			t.Fatalf("%d writers were told that they stored it", n)
		}
		if n := len(mustResults(t, s, l.log, "", e)); n != 1 {
			t.Fatalf("%d results, want 1", n)
		}
	})
	t.Run("a reader during writes sees only whole writes", func(t *testing.T) {
		s, l := open(t), newLine("t")
		l.add(t, s, 1)
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			defer close(stop)
			for range 60 {
				// A record names its results' epoch; both come and go together.
				r := l.next()
				_, err := s.Write(t.Context(), &checkpoint.Write{
					Log: l.log, Record: r, Head: l.head,
					Drop:    &checkpoint.Drop{Epoch: l.tip},
					Results: []checkpoint.Result{result(r.ID, 0, checkpoint.KindChanges, `1`), result(r.ID, 1, checkpoint.KindChanges, `2`)},
				})
				if err != nil {
					t.Error(err)
					return
				}
				l.took(r)
			}
		})
		for range 2 {
			wg.Go(func() {
				log := checkpoint.Log{Thread: "t"}
				var last int64
				for {
					select {
					case <-stop:
						return
					default:
					}
					head, _, err := s.Head(t.Context(), log)
					if err != nil {
						t.Error(err)
						return
					}
					if head.Seq < last {
						t.Errorf("head went back from %d to %d", last, head.Seq)
						return
					}
					last = head.Seq
					rs, err := s.Results(t.Context(), log, "", head.ID)
					if err != nil {
						t.Error(err)
						return
					}
					if len(rs) == 1 {
						t.Errorf("a reader saw half a write: %+v", rs)
						return
					}
					var seq int64
					for r, err := range s.Records(t.Context(), checkpoint.Query{Log: log, Meta: true}) {
						if err != nil {
							t.Error(err)
							return
						}
						if seq++; r.Seq != seq {
							t.Errorf("a reader saw record %d at place %d", r.Seq, seq)
							return
						}
					}
					if seq < last {
						t.Errorf("history ends at %d after head %d was seen", seq, last)
						return
					}
				}
			})
		}
		wg.Wait()
	})
}

// race lets writers compete for the head of one thread and checks the outcome.
func race(t *testing.T, store func(i int) checkpoint.Store, writers, rounds int) {
	t.Helper()
	log := checkpoint.Log{Thread: "t"}
	var head *checkpoint.Record
	for round := range rounds {
		winners := make([]*checkpoint.Record, writers)
		each(writers, func(i int) {
			l := newLine("t")
			if head != nil {
				l.seq, l.tip, l.head = head.Seq, head.ID, head.ID
			}
			r := l.next()
			_, err := store(i).Write(t.Context(), &checkpoint.Write{
				Log: log, Record: r, Head: l.head,
				Results: []checkpoint.Result{result("round", round, checkpoint.KindChanges, `1`)},
			})
			switch {
			case err == nil:
				winners[i] = r
			case !errors.Is(err, checkpoint.ErrConflict):
				t.Errorf("round %d: %v", round, err)
			}
		})
		head = nil
		for _, r := range winners {
			if r == nil {
				continue
			}
			if head != nil {
				t.Fatalf("round %d has two winners", round)
			}
			head = r
		}
		if head == nil {
			t.Fatalf("round %d has no winner", round)
		}
		for i := range writers {
			wantRecord(t, mustHead(t, store(i), log), head)
		}
	}
	if n := len(chain(t, store(0), log)); n != rounds {
		t.Fatalf("%d records after %d rounds", n, rounds)
	}
	if n := len(mustResults(t, store(0), log, "", "round")); n != rounds {
		t.Fatalf("%d results after %d rounds", n, rounds)
	}
}

// chain reads a log that has only its first branch and checks that each record
// follows the one before.
func chain(t *testing.T, s checkpoint.Store, log checkpoint.Log) []*checkpoint.Record {
	t.Helper()
	rs := mustCollect(t, s, checkpoint.Query{Log: log})
	var parent checkpoint.ID
	for i, r := range rs {
		if r.Seq != int64(i+1) || r.Parent != parent {
			t.Fatalf("record %d of %v has sequence number %d and parent %q, want %d and %q", i, log, r.Seq, r.Parent, i+1, parent)
		}
		parent = r.ID
	}
	if len(rs) > 0 {
		wantRecord(t, mustHead(t, s, log), rs[len(rs)-1])
	}
	return rs
}

func testContexts(t *testing.T, open Opener, _ Options) {
	t.Run("with a context that is done every method returns its error and does nothing", func(t *testing.T) {
		s, l := open(t), newLine("t")
		r := l.add(t, s, 2)[1]
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		wantAll(t, ctx, s, l, context.Canceled)
		wantRecord(t, mustHead(t, s, l.log), r)
		l.add(t, s, 1)
	})
	t.Run("a deadline that has passed is an error too", func(t *testing.T) {
		s, l := open(t), newLine("t")
		ctx, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
		defer cancel()
		_, err := s.Write(ctx, &checkpoint.Write{Log: l.log, Record: l.next()})
		wantErr(t, err, context.DeadlineExceeded, "Write")
	})
	t.Run("cancelling in the middle of a history ends it with the error", func(t *testing.T) {
		s, l := open(t), newLine("t")
		l.add(t, s, 600)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var n int
		var last error
		for _, err := range s.Records(ctx, checkpoint.Query{Log: l.log}) {
			if last != nil {
				t.Fatal("the iteration went on after its error")
			}
			last = err
			if n++; n == 3 {
				cancel()
			}
		}
		wantErr(t, last, context.Canceled, "history")
		l.add(t, s, 1)
	})
	t.Run("a write whose context ends under way happened as a whole or not at all", func(t *testing.T) {
		s, l := open(t), newLine("t")
		l.add(t, s, 1)
		for i := range 40 {
			ctx, cancel := context.WithCancel(t.Context())
			r := l.next()
			res := []checkpoint.Result{result(r.ID, 0, checkpoint.KindChanges, `1`)}
			var wg sync.WaitGroup
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 10 * time.Microsecond)
				cancel()
			})
			_, err := s.Write(ctx, &checkpoint.Write{Log: l.log, Record: r, Head: l.head, Results: res})
			wg.Wait()
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			// The write may still be on its way: a write after it settles that.
			mustWrite(t, s, &checkpoint.Write{Log: l.log, Claim: true})
			head := mustHead(t, s, l.log)
			switch {
			case head.ID == r.ID:
				wantResults(t, mustResults(t, s, l.log, "", r.ID), res)
				l.took(r)
			case err == nil:
				t.Fatal("the write returned no error and did not happen")
			default:
				wantResults(t, mustResults(t, s, l.log, "", r.ID), nil)
				l.n++ // that ID is spent
			}
		}
		chain(t, s, l.log)
	})
}
