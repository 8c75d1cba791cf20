package checkpointtest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
)

const long = time.Hour // a lease that doesn't run out during a test

// testLeases tests that a lease keeps others out for as long as it lasts.
func testLeases(t *testing.T, open Opener, o Options) {
	const a, b = "run 1 on höst/7", "run 2"
	claim := func(log checkpoint.Log, holder string, lease time.Duration) *checkpoint.Write {
		return &checkpoint.Write{Log: log, Claim: true, Holder: holder, Lease: lease}
	}
	refused := func(t *testing.T, s checkpoint.Store, w *checkpoint.Write, holder string) {
		t.Helper()
		_, err := s.Write(t.Context(), w)
		wantErr(t, err, checkpoint.ErrBusy, "claim of a leased thread")
		var busy *checkpoint.BusyError
		if !errors.As(err, &busy) || busy.Thread != w.Log.Thread || busy.Lease.Holder != holder || busy.Lease.Until.IsZero() != (holder == "") {
			t.Fatalf("got %#v, want a *BusyError with the lease of %s", err, holder)
		}
	}
	// soon claims until the claim is not refused any more.
	soon := func(t *testing.T, s checkpoint.Store, w *checkpoint.Write) checkpoint.Written {
		t.Helper()
		for {
			out, err := s.Write(t.Context(), w)
			if err == nil {
				return out
			}
			wantErr(t, err, checkpoint.ErrBusy, "claim of a thread whose lease runs out")
			time.Sleep(time.Millisecond)
		}
	}
	t.Run("a lease refuses the claims of others, and changes nothing by it", func(t *testing.T) {
		s, l := open(t), newLine("t")
		w := claim(l.log, a, long)
		w.Record = l.next()
		fence := mustWrite(t, s, w).Fence
		l.took(w.Record)
		other := claim(l.log, b, long)
		other.Record, other.Head = l.next(), l.head
		refused(t, s, other, a)
		refused(t, s, &checkpoint.Write{Log: l.log, Claim: true}, a)
		refused(t, s, &checkpoint.Write{Log: checkpoint.Log{Thread: "t", Namespace: "n"}, Claim: true, Holder: b}, a)
		wantRecord(t, mustHead(t, s, l.log), w.Record)
		r := l.next()
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Fence: fence, Record: r, Head: l.head})
		mustWrite(t, s, claim(checkpoint.Log{Thread: "another"}, b, long))
	})
	t.Run("a lease is for writers that claim: others write as ever", func(t *testing.T) {
		s, l := open(t), newLine("t")
		mustWrite(t, s, claim(l.log, a, long))
		l.add(t, s, 2)
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Results: []checkpoint.Result{result("e", 0, checkpoint.KindEvent, `1`)}})
	})
	t.Run("its holder may claim again", func(t *testing.T) {
		s, l := open(t), newLine("t")
		first := mustWrite(t, s, claim(l.log, a, long)).Fence
		second := mustWrite(t, s, claim(l.log, a, long)).Fence
		if second != first+1 {
			t.Fatalf("fence %d after %d, want the next", second, first)
		}
		refused(t, s, claim(l.log, b, long), a)
	})
	t.Run("a lease that was released refuses nobody", func(t *testing.T) {
		s, l := open(t), newLine("t")
		fence := mustWrite(t, s, claim(l.log, a, long)).Fence
		w := &checkpoint.Write{Log: l.log, Fence: fence, Record: l.next(), Release: true}
		mustWrite(t, s, w)
		l.took(w.Record)
		next := mustWrite(t, s, claim(l.log, b, long)).Fence
		_, err := s.Write(t.Context(), &checkpoint.Write{Log: l.log, Fence: fence, Release: true})
		wantErr(t, err, checkpoint.ErrFenced, "release of another's lease")
		refused(t, s, claim(l.log, a, long), b)
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Fence: next, Release: true})
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Claim: true})
	})
	t.Run("a lease that ran out refuses nobody, and its holder is fenced off", func(t *testing.T) {
		s, l := open(t), newLine("t")
		fence := mustWrite(t, s, claim(l.log, a, time.Millisecond)).Fence
		soon(t, s, claim(l.log, b, long))
		_, err := s.Write(t.Context(), &checkpoint.Write{Log: l.log, Fence: fence, Record: l.next()})
		wantErr(t, err, checkpoint.ErrFenced, "append after the lease was lost")
		_, err = s.Write(t.Context(), &checkpoint.Write{Log: l.log, Fence: fence, Holder: a, Lease: long})
		wantErr(t, err, checkpoint.ErrFenced, "renewal after the lease was lost")
	})
	t.Run("a lease that ran out is renewed if nobody took the thread", func(t *testing.T) {
		s, l := open(t), newLine("t")
		fence := mustWrite(t, s, claim(l.log, a, time.Millisecond)).Fence
		time.Sleep(5 * time.Millisecond)
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Fence: fence, Holder: a, Lease: long})
		refused(t, s, claim(l.log, b, long), a)
	})
	t.Run("a thread can be stolen from the holder that is named", func(t *testing.T) {
		s, l := open(t), newLine("t")
		fence := mustWrite(t, s, claim(l.log, a, long)).Fence
		w := claim(l.log, b, long)
		w.Steal = "somebody else"
		refused(t, s, w, a)
		w.Steal = a
		mustWrite(t, s, w)
		_, err := s.Write(t.Context(), &checkpoint.Write{Log: l.log, Fence: fence, Record: l.next()})
		wantErr(t, err, checkpoint.ErrFenced, "append to a stolen thread")
		refused(t, s, claim(l.log, a, long), b)
	})
	t.Run("nothing is stolen from a holder that has released the thread, or never had it", func(t *testing.T) {
		s, l := open(t), newLine("t")
		w := claim(l.log, b, long)
		w.Steal = a
		refused(t, s, w, "")
		fence := mustWrite(t, s, claim(l.log, a, long)).Fence
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Fence: fence, Holder: a, Release: true})
		refused(t, s, w, "")
		fence = mustWrite(t, s, claim(l.log, "c", time.Millisecond)).Fence
		soon(t, s, claim(l.log, "c", time.Millisecond))
		refused(t, s, w, "c")
		w.Steal = "c" // which has run out, and was not released
		mustWrite(t, s, w)
		_, err := s.Write(t.Context(), &checkpoint.Write{Log: l.log, Fence: fence, Record: l.next()})
		wantErr(t, err, checkpoint.ErrFenced, "append to a stolen thread")
	})
	t.Run("a lease is neither renewed nor released in another's name", func(t *testing.T) {
		s, l := open(t), newLine("t")
		fence := mustWrite(t, s, claim(l.log, a, long)).Fence
		sub := newLineIn(checkpoint.Log{Thread: "t", Namespace: "n"})
		l.add(t, s, 1) // whatever the store keeps in mind of a log, it has
		sub.add(t, s, 1)
		refusedAll := func(holder string) {
			t.Helper()
			for _, l := range []*line{l, sub} {
				for what, w := range map[string]*checkpoint.Write{
					"renewal":               {Lease: long},
					"release":               {Release: true},
					"renewal with a record": {Lease: long, Record: l.next(), Head: l.head},
					"release with a record": {Release: true, Record: l.next(), Head: l.head},
				} {
					w.Log, w.Fence, w.Holder = l.log, fence, holder
					_, err := s.Write(t.Context(), w)
					wantErr(t, err, checkpoint.ErrFenced, what)
				}
				if head := mustHead(t, s, l.log); head.ID != l.head {
					t.Fatalf("head %s, want %s: a write that was refused was done", head.ID, l.head)
				}
			}
			refused(t, s, claim(l.log, holder, long), a)
		}
		refusedAll(b)
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Fence: fence, Lease: long, Holder: a})
		refusedAll(b)
		r := l.next()
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Fence: fence, Release: true, Holder: a, Record: r, Head: l.head})
		l.took(r)
		// Nobody holds it now.
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Fence: fence, Lease: time.Millisecond, Holder: b})
		time.Sleep(5 * time.Millisecond)
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Fence: fence, Lease: long, Holder: a})
	})
	t.Run("a claim without a lease ends the one before", func(t *testing.T) {
		s, l := open(t), newLine("t")
		mustWrite(t, s, claim(l.log, a, long))
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Claim: true, Steal: a})
		mustWrite(t, s, claim(l.log, b, long))
	})
	t.Run("a write that fails leaves the lease as it was", func(t *testing.T) {
		s, l := open(t), newLine("t")
		l.add(t, s, 1)
		w := claim(l.log, a, long)
		w.Record = l.next() // with no Head: a conflict
		_, err := s.Write(t.Context(), w)
		wantErr(t, err, checkpoint.ErrConflict, "append at the wrong head")
		mustWrite(t, s, claim(l.log, b, long))
	})
	t.Run("leases that make no sense are invalid", func(t *testing.T) {
		s, log := open(t), checkpoint.Log{Thread: "t"}
		fence := mustWrite(t, s, &checkpoint.Write{Log: log, Claim: true}).Fence
		for what, w := range map[string]*checkpoint.Write{
			"no claim":          {Log: log, Holder: a, Lease: long},
			"no holder":         {Log: log, Claim: true, Lease: long},
			"negative":          {Log: log, Claim: true, Holder: a, Lease: -1},
			"too short":         {Log: log, Claim: true, Holder: a, Lease: 1},
			"lease and release": {Log: log, Fence: fence, Holder: a, Lease: long, Release: true},
			"release of what":   {Log: log, Release: true},
			"steal of what":     {Log: log, Fence: fence, Steal: a},
		} {
			_, err := s.Write(t.Context(), w)
			wantErr(t, err, checkpoint.ErrInvalid, what)
		}
	})
	t.Run("of many that claim at once one gets the thread", func(t *testing.T) {
		s, log := open(t), checkpoint.Log{Thread: "t"}
		stores := []checkpoint.Store{s}
		if o.Another != nil {
			second := o.Another(t, s)
			closeLater(t, second)
			stores = append(stores, second)
		}
		var won atomic.Int64
		each(16, func(i int) {
			_, err := stores[i%len(stores)].Write(t.Context(), claim(log, fmt.Sprint("run ", i), long))
			if err == nil {
				won.Add(1)
			} else if !errors.Is(err, checkpoint.ErrBusy) {
				t.Error(err)
			}
		})
		if won.Load() != 1 {
			t.Fatalf("%d of 16 claims succeeded, want 1", won.Load())
		}
	})
	t.Run("a list of threads says who holds them", func(t *testing.T) {
		s, l := open(t), newLine("t")
		lister := able[checkpoint.Lister](t, s)
		l.add(t, s, 1)
		lease := func() checkpoint.Lease {
			for info, err := range lister.Threads(t.Context(), checkpoint.ThreadFilter{}) {
				if err != nil {
					t.Fatal(err)
				}
				return info.Lease
			}
			t.Fatal("no thread is listed")
			return checkpoint.Lease{}
		}
		if got := lease(); got != (checkpoint.Lease{}) {
			t.Fatalf("got %+v for a thread that nobody holds", got)
		}
		fence := mustWrite(t, s, claim(l.log, a, long)).Fence
		if got := lease(); got.Holder != a || got.TTL != long || got.Until.Before(time.Now().Add(-long)) {
			t.Fatalf("got %+v, want a lease of %s for %v", got, a, long)
		}
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Fence: fence, Release: true})
		if got := lease(); got != (checkpoint.Lease{}) {
			t.Fatalf("got %+v for a thread that was released", got)
		}
	})
	t.Run("a lease outlives the store", func(t *testing.T) {
		if o.Reopen == nil {
			t.Skip("nothing outlives the store")
		}
		s, log := open(t), checkpoint.Log{Thread: "t"}
		fence := mustWrite(t, s, claim(log, a, long)).Fence
		s = o.Reopen(t, s)
		closeLater(t, s)
		refused(t, s, claim(log, b, long), a)
		mustWrite(t, s, &checkpoint.Write{Log: log, Fence: fence, Release: true})
		mustWrite(t, s, claim(log, b, long))
	})
}

func testScheduling(t *testing.T, open Opener, o Options) {
	opened := func(t *testing.T) (checkpoint.Store, checkpoint.Scheduler) {
		t.Helper()
		s := open(t)
		sch := able[checkpoint.Scheduler](t, s)
		return s, sch
	}
	due := func(t *testing.T, s checkpoint.Scheduler, before time.Time, limit int) []checkpoint.Waiting {
		t.Helper()
		var out []checkpoint.Waiting
		for w, err := range s.Due(t.Context(), before, limit) {
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, w)
		}
		return out
	}
	want := func(t *testing.T, got []checkpoint.Waiting, want ...string) {
		t.Helper()
		ids := []string{}
		for _, w := range got {
			ids = append(ids, string(w.Thread))
		}
		if fmt.Sprint(ids) != fmt.Sprint(want) {
			t.Fatalf("got threads %v, want %v", ids, want)
		}
	}
	at := func(l *line, due time.Time) *checkpoint.Record {
		r := l.next()
		r.Due = due
		return r
	}
	t.Run("threads are due at the time of their head, the earliest first", func(t *testing.T) {
		s, sch := opened(t)
		want(t, due(t, sch, time.Time{}, 0))
		lines := map[string]*line{}
		for i, id := range []string{"c", "a", "b", "never"} {
			lines[id] = newLine(checkpoint.ThreadID(id))
			lines[id].add(t, s, 1)
			if id != "never" {
				lines[id].write(t, s, at(lines[id], epochStart.Add(time.Duration(i)*time.Hour)))
			}
		}
		got := due(t, sch, time.Time{}, 0)
		want(t, got, "c", "a", "b")
		for i, w := range got {
			if w.Due.Sub(epochStart.Add(time.Duration(i)*time.Hour)).Abs() > time.Millisecond || w.Lease != (checkpoint.Lease{}) {
				t.Fatalf("got %+v, want it due after %d hours and without a lease", w, i)
			}
		}
		want(t, due(t, sch, time.Time{}, 2), "c", "a")
		want(t, due(t, sch, epochStart.Add(time.Hour), 0), "c", "a")
		want(t, due(t, sch, epochStart.Add(-time.Hour), 0))
		lines["c"].write(t, s, at(lines["c"], epochStart.Add(9*time.Hour)))
		lines["a"].add(t, s, 1)
		want(t, due(t, sch, time.Time{}, 0), "b", "c")
		if err := s.Delete(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		want(t, due(t, sch, time.Time{}, 0), "c")
	})
	t.Run("a log with a namespace makes no thread due", func(t *testing.T) {
		s, sch := opened(t)
		l := newLineIn(checkpoint.Log{Thread: "t", Namespace: "n"})
		l.write(t, s, at(l, epochStart))
		want(t, due(t, sch, time.Time{}, 0))
		root := newLine("t")
		root.write(t, s, at(root, epochStart))
		l.add(t, s, 1)
		want(t, due(t, sch, time.Time{}, 0), "t")
	})
	t.Run("a thread that is held is not due until it is released", func(t *testing.T) {
		s, sch := opened(t)
		l := newLine("t")
		l.write(t, s, at(l, epochStart))
		w := &checkpoint.Write{Log: l.log, Claim: true, Holder: string(l.run), Lease: long}
		fence := mustWrite(t, s, w).Fence
		want(t, due(t, sch, time.Time{}, 0))
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Fence: fence, Release: true})
		want(t, due(t, sch, time.Time{}, 0), "t")
	})
	t.Run("a thread is due when it was woken, until it is claimed", func(t *testing.T) {
		s, sch := opened(t)
		l := newLine("t")
		l.write(t, s, at(l, time.Now().Add(long)))
		soon := time.Now().Add(long / 2)
		want(t, due(t, sch, soon, 0))
		event := result("e", 0, checkpoint.KindEvent, `"paid"`)
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Wake: true, Results: []checkpoint.Result{event}})
		want(t, due(t, sch, soon, 0), "t")
		wantResults(t, mustResults(t, s, l.log, "", "e"), []checkpoint.Result{event})
		sub := newLineIn(checkpoint.Log{Thread: "t", Namespace: "n"})
		sub.add(t, s, 1)
		want(t, due(t, sch, soon, 0), "t")
		l.write(t, s, at(l, time.Now().Add(long)))
		want(t, due(t, sch, soon, 0), "t")
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Claim: true})
		want(t, due(t, sch, soon, 0))
		want(t, due(t, sch, time.Time{}, 0), "t")
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Claim: true, Wake: true})
		want(t, due(t, sch, soon, 0), "t")
	})
	t.Run("waking does not delay a thread that is due earlier", func(t *testing.T) {
		s, sch := opened(t)
		l := newLine("t")
		l.write(t, s, at(l, epochStart))
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Wake: true})
		want(t, due(t, sch, epochStart.Add(time.Second), 0), "t")
	})
	t.Run("threads whose lease ran out are abandoned, until one claims or releases them", func(t *testing.T) {
		s, sch := opened(t)
		abandoned := func() []string {
			ids := []string{}
			for w, err := range sch.Abandoned(t.Context(), 0) {
				if err != nil {
					t.Fatal(err)
				}
				if w.Lease.Holder == "" || w.Lease.Until.IsZero() {
					t.Fatalf("got %+v, want the lease that ran out", w)
				}
				ids = append(ids, string(w.Thread))
			}
			return ids
		}
		var fences []checkpoint.Fence
		for _, id := range []checkpoint.ThreadID{"dead", "held", "done"} {
			l := newLine(id)
			lease := time.Millisecond
			if id == "held" {
				lease = long
			}
			w := &checkpoint.Write{Log: l.log, Claim: true, Holder: string(l.run), Lease: lease, Record: l.next()}
			fences = append(fences, mustWrite(t, s, w).Fence)
		}
		mustWrite(t, s, &checkpoint.Write{Log: checkpoint.Log{Thread: "done"}, Fence: fences[2], Release: true})
		for len(abandoned()) == 0 {
			time.Sleep(time.Millisecond)
		}
		if got := fmt.Sprint(abandoned()); got != "[dead]" {
			t.Fatalf("got %s, want the dead run's thread alone", got)
		}
		mustWrite(t, s, &checkpoint.Write{Log: checkpoint.Log{Thread: "dead"}, Claim: true, Holder: "another", Lease: long})
		if got := abandoned(); len(got) != 0 {
			t.Fatalf("got %s after it was taken over", got)
		}
	})
	t.Run("what is due outlives the store", func(t *testing.T) {
		if o.Reopen == nil {
			t.Skip("nothing outlives the store")
		}
		s, _ := opened(t)
		l, m := newLine("t"), newLine("u")
		l.write(t, s, at(l, epochStart))
		m.add(t, s, 1)
		mustWrite(t, s, &checkpoint.Write{Log: m.log, Wake: true})
		s = o.Reopen(t, s)
		closeLater(t, s)
		want(t, due(t, s.(checkpoint.Scheduler), time.Time{}, 0), "t", "u")
	})
	t.Run("a copy is due when the thread copied is, and nobody holds it", func(t *testing.T) {
		s, sch := opened(t)
		c := able[checkpoint.Copier](t, s)
		l := newLine("t")
		l.write(t, s, at(l, epochStart))
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Claim: true, Holder: string(l.run), Lease: long})
		if err := c.Copy(t.Context(), "t", "u"); err != nil {
			t.Fatal(err)
		}
		want(t, due(t, sch, time.Time{}, 0), "u")
	})
	t.Run("many due threads are listed in order", func(t *testing.T) {
		s, sch := opened(t)
		const n = 300
		each(8, func(i int) {
			for j := i; j < n; j += 8 {
				l := newLine(checkpoint.ThreadID(fmt.Sprintf("t%03d", j)))
				if _, err := s.Write(t.Context(), &checkpoint.Write{Log: l.log, Record: at(l, epochStart.Add(time.Duration(j)*time.Second))}); err != nil {
					t.Error(err)
				}
			}
		})
		got := due(t, sch, time.Time{}, 0)
		if len(got) != n {
			t.Fatalf("%d threads, want %d", len(got), n)
		}
		for i, w := range got {
			if w.Thread != checkpoint.ThreadID(fmt.Sprintf("t%03d", i)) {
				t.Fatalf("thread %d is %s", i, w.Thread)
			}
		}
	})
}

func testRemoving(t *testing.T, open Opener, _ Options) {
	t.Run("single results are removed, the others keep their order", func(t *testing.T) {
		s, l := open(t), newLine("t")
		rs := make([]checkpoint.Result, 5)
		for i := range rs {
			rs[i] = result("e", 0, checkpoint.KindEvent, fmt.Sprint(i))
			rs[i].Name = fmt.Sprint("n", i)
		}
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Results: rs})
		missing := rs[0].Key()
		missing.Task = 7
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Remove: []checkpoint.ResultKey{rs[1].Key(), rs[3].Key(), missing}})
		wantResults(t, mustResults(t, s, l.log, "", "e"), []checkpoint.Result{rs[0], rs[2], rs[4]})
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Results: []checkpoint.Result{rs[1]}})
		wantResults(t, mustResults(t, s, l.log, "", "e"), []checkpoint.Result{rs[0], rs[2], rs[4], rs[1]})
	})
	t.Run("a result is removed and put anew by one write", func(t *testing.T) {
		s, l := open(t), newLine("t")
		a, b := result("e", 0, checkpoint.KindEvent, `1`), result("e", 0, checkpoint.KindEvent, `2`)
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Results: []checkpoint.Result{a}})
		out := mustWrite(t, s, &checkpoint.Write{Log: l.log, Remove: []checkpoint.ResultKey{a.Key()}, Results: []checkpoint.Result{b}})
		if out.Ignored != 0 {
			t.Fatalf("%d results ignored, want 0", out.Ignored)
		}
		wantResults(t, mustResults(t, s, l.log, "", "e"), []checkpoint.Result{b})
	})
	t.Run("a result is removed in the write that appends a record", func(t *testing.T) {
		s, l := open(t), newLine("t")
		l.add(t, s, 1)
		a, b := result("e", 0, checkpoint.KindEvent, `1`), result("e", 1, checkpoint.KindEvent, `2`)
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Results: []checkpoint.Result{a, b}})
		r := l.next()
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Record: r, Head: l.head, Remove: []checkpoint.ResultKey{a.Key()}})
		l.took(r)
		wantResults(t, mustResults(t, s, l.log, "", "e"), []checkpoint.Result{b})
		// A write that fails removes nothing.
		w := &checkpoint.Write{Log: l.log, Record: l.next(), Head: "elsewhere", Remove: []checkpoint.ResultKey{b.Key()}}
		_, err := s.Write(t.Context(), w)
		wantErr(t, err, checkpoint.ErrConflict, "append at the wrong head")
		wantResults(t, mustResults(t, s, l.log, "", "e"), []checkpoint.Result{b})
	})
	t.Run("removing from an unknown thread does nothing", func(t *testing.T) {
		s, l := open(t), newLine("t")
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Remove: []checkpoint.ResultKey{{Epoch: "e", Kind: checkpoint.KindEvent}}})
	})
}

func testLogs(t *testing.T, open Opener, _ Options) {
	t.Run("the logs of a thread are listed by namespace", func(t *testing.T) {
		s := open(t)
		lister := able[checkpoint.Lister](t, s)
		newLine("other").add(t, s, 1)
		want := map[string]int64{"b": 2, "": 3, "b/a": 1}
		heads := map[string]checkpoint.ID{}
		for ns, n := range want {
			l := newLineIn(checkpoint.Log{Thread: "t", Namespace: ns})
			l.add(t, s, int(n))
			heads[ns] = l.head
		}
		mustWrite(t, s, &checkpoint.Write{Log: checkpoint.Log{Thread: "t", Namespace: "results"}, Results: []checkpoint.Result{result("e", 0, checkpoint.KindOnce, `1`)}})
		var order []string
		for info, err := range lister.Logs(t.Context(), "t") {
			if err != nil {
				t.Fatal(err)
			}
			ns := info.Log.Namespace
			order = append(order, ns)
			if info.Log.Thread != "t" || info.Records != want[ns] || info.Head != heads[ns] {
				t.Fatalf("got %+v, want %d records up to %s", info, want[ns], heads[ns])
			}
		}
		if fmt.Sprintf("%q", order) != `["" "b" "b/a"]` {
			t.Fatalf("got namespaces %q", order)
		}
		for info, err := range lister.Logs(t.Context(), "nobody") {
			t.Fatalf("got %+v, %v of an unknown thread", info, err)
		}
	})
}
