package checkpointtest

import (
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
)

// testReading tests that nobody claims a thread on the strength of what it was
// before: with the fence that Head returned, a claim is refused when another
// claimed, rewrote or deleted the thread since.
func testReading(t *testing.T, open Opener, _ Options) {
	fence := func(t *testing.T, s checkpoint.Store, log checkpoint.Log) checkpoint.Fence {
		t.Helper()
		_, f, err := s.Head(t.Context(), log)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	// refused tries to claim l as it was read at a fence, with and without a record.
	refused := func(t *testing.T, s checkpoint.Store, l *line, read checkpoint.Fence) {
		t.Helper()
		now := fence(t, s, l.log)
		for _, w := range []*checkpoint.Write{
			{Log: l.log, Claim: true, Fence: read},
			{Log: l.log, Claim: true, Fence: read, Holder: "me", Lease: long},
			{Log: l.log, Claim: true, Fence: read, Wake: true, Results: []checkpoint.Result{result(l.head, 0, checkpoint.KindOnce, `1`)}},
			{Log: l.log, Claim: true, Fence: read, Record: l.next(), Head: l.head},
			{Log: checkpoint.Log{Thread: l.log.Thread, Namespace: "another"}, Claim: true, Fence: read},
		} {
			_, err := s.Write(t.Context(), w)
			wantErr(t, err, checkpoint.ErrFenced, "a claim of what is not there any more")
		}
		if f := fence(t, s, l.log); f != now {
			t.Fatalf("fence %d after claims that were refused, want %d", f, now)
		}
		if l.head != "" {
			wantResults(t, mustResults(t, s, l.log, "", l.head), nil)
		}
	}
	t.Run("head tells the fence", func(t *testing.T) {
		s, l := open(t), newLine("t")
		_, f, err := s.Head(t.Context(), l.log)
		wantErr(t, err, checkpoint.ErrNotFound, "head of an unknown thread")
		if f != checkpoint.Unclaimed {
			t.Fatalf("fence %d of an unknown thread, want %d", f, checkpoint.Unclaimed)
		}
		first := mustWrite(t, s, &checkpoint.Write{Log: l.log, Claim: true, Fence: f}).Fence
		if _, f, err = s.Head(t.Context(), l.log); f != first {
			t.Fatalf("fence %d of a thread without a record, want %d", f, first)
		}
		wantErr(t, err, checkpoint.ErrNotFound, "head of an empty log")
		l.add(t, s, 2)
		if f := fence(t, s, l.log); f != first {
			t.Fatalf("fence %d, want %d", f, first)
		}
		next := mustWrite(t, s, &checkpoint.Write{Log: l.log, Claim: true, Fence: first}).Fence
		if f := fence(t, s, l.log); f != next || next <= first {
			t.Fatalf("fence %d after a claim that got %d, and %d before", f, next, first)
		}
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Fence: next, Record: l.next(), Head: l.head})
	})
	t.Run("a claim of a thread that nobody has claimed", func(t *testing.T) {
		s, l := open(t), newLine("t")
		l.add(t, s, 2)
		f := fence(t, s, l.log)
		if f != checkpoint.Unclaimed {
			t.Fatalf("fence %d, want %d", f, checkpoint.Unclaimed)
		}
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Claim: true, Fence: f, Record: l.next(), Head: l.head})
	})
	t.Run("after another claim", func(t *testing.T) {
		s, l := open(t), newLine("t")
		l.add(t, s, 2)
		never := fence(t, s, l.log)
		once := mustWrite(t, s, &checkpoint.Write{Log: l.log, Claim: true}).Fence
		refused(t, s, l, never)
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Claim: true})
		refused(t, s, l, never)
		refused(t, s, l, once)
	})
	t.Run("a lease is told first", func(t *testing.T) {
		s, l := open(t), newLine("t")
		l.add(t, s, 1)
		f := fence(t, s, l.log)
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Claim: true, Holder: "other", Lease: long})
		_, err := s.Write(t.Context(), &checkpoint.Write{Log: l.log, Claim: true, Fence: f, Holder: "me", Lease: long})
		wantErr(t, err, checkpoint.ErrBusy, "a claim of a thread that is held")
		f = fence(t, s, l.log)
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Claim: true, Fence: f, Steal: "other"})
	})
	t.Run("after a deletion", func(t *testing.T) {
		s, l := open(t), newLine("t")
		l.add(t, s, 1)
		read := mustWrite(t, s, &checkpoint.Write{Log: l.log, Claim: true}).Fence
		if err := s.Delete(t.Context(), l.log.Thread); err != nil {
			t.Fatal(err)
		}
		_, err := s.Write(t.Context(), &checkpoint.Write{Log: l.log, Claim: true, Fence: read})
		wantErr(t, err, checkpoint.ErrFenced, "a claim of a thread that was deleted")
		again := newLine("t")
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Claim: true, Fence: checkpoint.Unclaimed})
		again.add(t, s, 1)
		refused(t, s, again, read)
	})
	t.Run("after a rewrite", func(t *testing.T) {
		s, l := open(t), newLine("t")
		rw := able[checkpoint.Rewriter](t, s)
		rs := l.add(t, s, 5)
		never := fence(t, s, l.log)
		if err := rw.Rewrite(t.Context(), &checkpoint.Rewrite{Log: l.log, Head: l.head, Fence: never, Remove: []checkpoint.ID{rs[0].ID}}); err != nil {
			t.Fatal(err)
		}
		refused(t, s, l, never)
		claimed := mustWrite(t, s, &checkpoint.Write{Log: l.log, Claim: true, Fence: fence(t, s, l.log)}).Fence
		if err := rw.Rewrite(t.Context(), &checkpoint.Rewrite{Log: l.log, Head: l.head, Fence: claimed, Remove: []checkpoint.ID{rs[1].ID}}); err != nil {
			t.Fatal(err)
		}
		refused(t, s, l, claimed)
		_, err := s.Write(t.Context(), &checkpoint.Write{Log: l.log, Fence: claimed, Record: l.next(), Head: l.head})
		wantErr(t, err, checkpoint.ErrFenced, "a record of who claimed before")
		sub := newLineIn(checkpoint.Log{Thread: "t", Namespace: "sub"})
		subs := sub.add(t, s, 1)
		read := fence(t, s, l.log)
		if err := rw.Rewrite(t.Context(), &checkpoint.Rewrite{Log: sub.log, Head: sub.head, Fence: read, Remove: []checkpoint.ID{subs[0].ID}}); err != nil {
			t.Fatal(err)
		}
		refused(t, s, l, read) // when a log went whole, too
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Claim: true, Fence: fence(t, s, l.log), Record: l.next(), Head: l.head})
	})
	t.Run("a rewrite of what was read before", func(t *testing.T) {
		s, l := open(t), newLine("t")
		rw := able[checkpoint.Rewriter](t, s)
		rs := l.add(t, s, 3)
		for _, change := range []func(){
			func() { mustWrite(t, s, &checkpoint.Write{Log: l.log, Claim: true}) },
			func() {
				if err := rw.Rewrite(t.Context(), &checkpoint.Rewrite{Log: l.log, Head: l.head, Remove: []checkpoint.ID{rs[0].ID}}); err != nil {
					t.Fatal(err)
				}
			},
		} {
			read := fence(t, s, l.log)
			change()
			err := rw.Rewrite(t.Context(), &checkpoint.Rewrite{Log: l.log, Head: l.head, Fence: read, Remove: []checkpoint.ID{rs[1].ID}})
			wantErr(t, err, checkpoint.ErrFenced, "a rewrite of what was read before")
		}
		wantSeqs(t, mustCollect(t, s, checkpoint.Query{Log: l.log}), 2, 3)
	})
}
