package checkpointtest

import (
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
)

func testAppend(t *testing.T, open Opener, _ Options) {
	t.Run("an appended record is the head and can be got by its ID", func(t *testing.T) {
		s, l := open(t), newLine("t")
		for range 3 {
			r := l.write(t, s, l.next())
			wantRecord(t, mustHead(t, s, l.log), r)
			got, err := s.Get(t.Context(), l.log, r.ID)
			if err != nil {
				t.Fatal(err)
			}
			wantRecord(t, got, r)
		}
	})
	t.Run("older records stay reachable by ID", func(t *testing.T) {
		s, l := open(t), newLine("t")
		rs := l.add(t, s, 40)
		for _, r := range rs {
			got, err := s.Get(t.Context(), l.log, r.ID)
			if err != nil {
				t.Fatal(err)
			}
			wantRecord(t, got, r)
		}
	})
	t.Run("records of many runs follow one another", func(t *testing.T) {
		s, l := open(t), newLine("t")
		var rs []*checkpoint.Record
		for range 10 {
			l.run, l.n = checkpoint.NewRunID(), 0
			rs = append(rs, l.add(t, s, 3)...)
		}
		wantRecords(t, mustCollect(t, s, checkpoint.Query{Log: l.log}), rs)
		for _, r := range rs {
			got, err := s.Get(t.Context(), l.log, r.ID)
			if err != nil {
				t.Fatal(err)
			}
			wantRecord(t, got, r)
		}
	})
	t.Run("a run's record IDs may leave gaps", func(t *testing.T) {
		s, l := open(t), newLine("t")
		a := l.add(t, s, 2)
		l.n += 5
		b := l.add(t, s, 2)
		for _, r := range append(a, b...) {
			got, err := s.Get(t.Context(), l.log, r.ID)
			if err != nil {
				t.Fatal(err)
			}
			wantRecord(t, got, r)
		}
		for _, n := range []uint32{0, 3, 7, 10} {
			_, err := s.Get(t.Context(), l.log, l.run.Checkpoint(n))
			wantErr(t, err, checkpoint.ErrNotFound, "a record that was skipped")
		}
	})
	t.Run("an empty log has no head, no record and no history", func(t *testing.T) {
		s := open(t)
		log := checkpoint.Log{Thread: "nobody"}
		_, _, err := s.Head(t.Context(), log)
		wantErr(t, err, checkpoint.ErrNotFound, "head of an unknown thread")
		_, err = s.Get(t.Context(), log, checkpoint.NewRunID())
		wantErr(t, err, checkpoint.ErrNotFound, "record of an unknown thread")
		wantSeqs(t, mustCollect(t, s, checkpoint.Query{Log: log}))
		wantSeqs(t, mustCollect(t, s, checkpoint.Query{Log: log, AllBranches: true}))
		wantResults(t, mustResults(t, s, log, "", checkpoint.NewRunID()), nil)
	})
	t.Run("an unknown record of a known thread is not found", func(t *testing.T) {
		s, l := open(t), newLine("t")
		l.add(t, s, 2)
		for _, id := range []checkpoint.ID{l.run, l.run.Checkpoint(3), checkpoint.NewRunID(), "", "no uuid", "'; --"} {
			_, err := s.Get(t.Context(), l.log, id)
			wantErr(t, err, checkpoint.ErrNotFound, "get "+string(id))
		}
	})
	t.Run("a write that cannot be is refused and changes nothing", func(t *testing.T) {
		s, l := open(t), newLine("t")
		first := l.add(t, s, 2)[1]
		for name, change := range map[string]func(w *checkpoint.Write, r *checkpoint.Record){
			"no ID":               func(_ *checkpoint.Write, r *checkpoint.Record) { r.ID = "" },
			"another log":         func(_ *checkpoint.Write, r *checkpoint.Record) { r.Log.Thread = "other" },
			"a skipped number":    func(_ *checkpoint.Write, r *checkpoint.Record) { r.Seq++ },
			"a repeated number":   func(_ *checkpoint.Write, r *checkpoint.Record) { r.Seq-- },
			"number zero":         func(_ *checkpoint.Write, r *checkpoint.Record) { r.Seq = 0 },
			"a repeated ID":       func(_ *checkpoint.Write, r *checkpoint.Record) { r.ID = first.Parent },
			"a foreign branch":    func(_ *checkpoint.Write, r *checkpoint.Record) { r.Branch = "b" },
			"result without kind": func(w *checkpoint.Write, r *checkpoint.Record) { w.Results = []checkpoint.Result{{Epoch: r.ID}} },
			"result without epoch": func(w *checkpoint.Write, _ *checkpoint.Record) {
				w.Results = []checkpoint.Result{{Kind: checkpoint.KindChanges}}
			},
		} {
			r := l.next()
			w := &checkpoint.Write{Log: l.log, Claim: true, Record: r, Head: l.head}
			change(w, r)
			_, err := s.Write(t.Context(), w)
			wantErr(t, err, checkpoint.ErrInvalid, name)
			wantRecord(t, mustHead(t, s, l.log), first)
		}
		if f := mustWrite(t, s, &checkpoint.Write{Log: l.log}).Fence; f != 0 {
			t.Fatalf("refused writes left fence %d", f)
		}
		l.add(t, s, 1)
	})
	t.Run("a write without anything in it is allowed", func(t *testing.T) {
		s, l := open(t), newLine("t")
		mustWrite(t, s, &checkpoint.Write{Log: l.log})
		_, _, err := s.Head(t.Context(), l.log)
		wantErr(t, err, checkpoint.ErrNotFound, "head after an empty write")
		l.add(t, s, 1)
	})
}

func testConflicts(t *testing.T, open Opener, _ Options) {
	t.Run("a writer with an old head gets a conflict and nothing is written", func(t *testing.T) {
		s, l := open(t), newLine("t")
		rs := l.add(t, s, 2)
		stale := l.next()
		l.n++
		head := l.add(t, s, 1)[0]
		for _, h := range []checkpoint.ID{rs[1].ID, rs[0].ID, "", checkpoint.NewRunID()} {
			_, err := s.Write(t.Context(), &checkpoint.Write{
				Log: l.log, Record: stale, Head: h, Claim: true,
				Results: []checkpoint.Result{{Epoch: stale.ID, Kind: checkpoint.KindChanges}},
			})
			wantErr(t, err, checkpoint.ErrConflict, "write on head "+string(h))
		}
		wantRecord(t, mustHead(t, s, l.log), head)
		wantResults(t, mustResults(t, s, l.log, "", stale.ID), nil)
		_, err := s.Get(t.Context(), l.log, stale.ID)
		wantErr(t, err, checkpoint.ErrNotFound, "the refused record")
		if f := mustWrite(t, s, &checkpoint.Write{Log: l.log}).Fence; f != 0 {
			t.Fatalf("the refused claim left fence %d", f)
		}
	})
	t.Run("the first record of a log expects none", func(t *testing.T) {
		s, l := open(t), newLine("t")
		_, err := s.Write(t.Context(), &checkpoint.Write{Log: l.log, Record: l.next(), Head: checkpoint.NewRunID()})
		wantErr(t, err, checkpoint.ErrConflict, "a head expected of an empty log")
		l.add(t, s, 1)
		other := newLine("t")
		_, err = s.Write(t.Context(), &checkpoint.Write{Log: l.log, Record: other.next()})
		wantErr(t, err, checkpoint.ErrConflict, "a second first record")
	})
	t.Run("the same record written twice is a conflict", func(t *testing.T) {
		s, l := open(t), newLine("t")
		l.add(t, s, 1)
		w := &checkpoint.Write{Log: l.log, Record: l.next(), Head: l.head}
		mustWrite(t, s, w)
		_, err := s.Write(t.Context(), w)
		wantErr(t, err, checkpoint.ErrConflict, "the second write")
	})
	t.Run("a fork moves the head of the log, so a writer of the old branch conflicts", func(t *testing.T) {
		s, l := open(t), newLine("t")
		rs := l.add(t, s, 3)
		next := l.next()
		l.n++
		l.write(t, s, l.fork(rs[0]))
		_, err := s.Write(t.Context(), &checkpoint.Write{Log: l.log, Record: next, Head: rs[2].ID})
		wantErr(t, err, checkpoint.ErrConflict, "write after a fork")
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Record: next, Head: l.head})
		wantRecord(t, mustHead(t, s, l.log), next)
	})
}

func testFences(t *testing.T, open Opener, _ Options) {
	t.Run("each claim raises the fence", func(t *testing.T) {
		s, l := open(t), newLine("t")
		var last checkpoint.Fence
		for range 3 {
			f := mustWrite(t, s, &checkpoint.Write{Log: l.log, Claim: true}).Fence
			if f <= last {
				t.Fatalf("fence %d after %d", f, last)
			}
			last = f
		}
		if f := mustWrite(t, s, &checkpoint.Write{Log: l.log, Fence: last}).Fence; f != last {
			t.Fatalf("a write without a claim returned fence %d, want %d", f, last)
		}
	})
	t.Run("who was taken over can write nothing more", func(t *testing.T) {
		s, l := open(t), newLine("t")
		r := l.next()
		old := mustWrite(t, s, &checkpoint.Write{Log: l.log, Claim: true, Record: r}).Fence
		l.took(r)
		now := mustWrite(t, s, &checkpoint.Write{Log: l.log, Claim: true}).Fence
		next := l.next()
		res := []checkpoint.Result{{Epoch: r.ID, Kind: checkpoint.KindChanges}}
		for _, w := range []*checkpoint.Write{
			{Log: l.log, Fence: old},
			{Log: l.log, Fence: old, Results: res},
			{Log: l.log, Fence: old, Record: next, Head: l.head},
			{Log: l.log, Fence: old, Record: next, Head: "stale as well"},
			{Log: l.log, Fence: old, Drop: &checkpoint.Drop{Epoch: r.ID}},
		} {
			_, err := s.Write(t.Context(), w)
			wantErr(t, err, checkpoint.ErrFenced, "write with an old fence")
		}
		wantResults(t, mustResults(t, s, l.log, "", r.ID), nil)
		wantRecord(t, mustHead(t, s, l.log), r)
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Fence: now, Record: next, Head: l.head, Results: res})
	})
	t.Run("a fence that the thread never gave is refused", func(t *testing.T) {
		s, l := open(t), newLine("t")
		l.add(t, s, 1)
		_, err := s.Write(t.Context(), &checkpoint.Write{Log: l.log, Fence: 7})
		wantErr(t, err, checkpoint.ErrFenced, "a fence out of nowhere")
	})
	t.Run("a claim holds for all logs of the thread", func(t *testing.T) {
		s := open(t)
		root, sub := newLine("t"), newLineIn(checkpoint.Log{Thread: "t", Namespace: "child"})
		old := mustWrite(t, s, &checkpoint.Write{Log: root.log, Claim: true}).Fence
		mustWrite(t, s, &checkpoint.Write{Log: sub.log, Fence: old, Record: sub.next()})
		mustWrite(t, s, &checkpoint.Write{Log: sub.log, Claim: true})
		_, err := s.Write(t.Context(), &checkpoint.Write{Log: root.log, Fence: old, Record: root.next()})
		wantErr(t, err, checkpoint.ErrFenced, "write to the root log")
	})
	t.Run("threads have their own fences", func(t *testing.T) {
		s := open(t)
		f := mustWrite(t, s, &checkpoint.Write{Log: checkpoint.Log{Thread: "a"}, Claim: true}).Fence
		mustWrite(t, s, &checkpoint.Write{Log: checkpoint.Log{Thread: "b"}, Claim: true})
		mustWrite(t, s, &checkpoint.Write{Log: checkpoint.Log{Thread: "a"}, Fence: f})
	})
	t.Run("a claim needs no fence", func(t *testing.T) {
		s, l := open(t), newLine("t")
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Claim: true})
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Claim: true})
		l.add(t, s, 1) // fence 0 skips the check
	})
}
