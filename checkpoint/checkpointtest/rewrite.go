package checkpointtest

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
)

func testRewriting(t *testing.T, open Opener, o Options) {
	opened := func(t *testing.T) (checkpoint.Store, func(*checkpoint.Rewrite) error) {
		t.Helper()
		s := open(t)
		rw := able[checkpoint.Rewriter](t, s)
		return s, func(r *checkpoint.Rewrite) error { return rw.Rewrite(t.Context(), r) }
	}
	ids := func(rs []*checkpoint.Record) []checkpoint.ID {
		var out []checkpoint.ID
		for _, r := range rs {
			out = append(out, r.ID)
		}
		return out
	}
	// full returns a copy of r as pruning leaves it: with a snapshot.
	full := func(r *checkpoint.Record) *checkpoint.Record {
		c := *r
		c.Parent = ""
		c.Changes = nil
		c.Snapshot = &checkpoint.Snapshot{Full: true, Values: json.RawMessage(fmt.Sprintf(`{"seq":%d}`, r.Seq))}
		return &c
	}
	t.Run("the oldest records go and the one that stays in their place is replaced", func(t *testing.T) {
		s, rewrite := opened(t)
		l := newLine("t")
		rs := l.add(t, s, 10)
		snap := full(rs[6])
		if err := rewrite(&checkpoint.Rewrite{Log: l.log, Head: l.head, Replace: []*checkpoint.Record{snap}, Remove: ids(rs[:6])}); err != nil {
			t.Fatal(err)
		}
		left := []*checkpoint.Record{snap, rs[7], rs[8], rs[9]}
		check := func(s checkpoint.Store, left []*checkpoint.Record) {
			t.Helper()
			wantRecords(t, mustCollect(t, s, checkpoint.Query{Log: l.log}), left)
			wantRecords(t, mustCollect(t, s, checkpoint.Query{Log: l.log, AllBranches: true}), left)
			wantSeqs(t, mustCollect(t, s, checkpoint.Query{Log: l.log, Desc: true, Limit: 2}), left[len(left)-1].Seq, left[len(left)-2].Seq)
			wantSeqs(t, mustCollect(t, s, checkpoint.Query{Log: l.log, From: 1, To: 8}), 7, 8)
			wantSeqs(t, mustCollect(t, s, checkpoint.Query{Log: l.log, From: 1, To: 6}))
			wantSeqs(t, mustCollect(t, s, checkpoint.Query{Log: l.log, From: 8, To: 9}), 8, 9)
			wantRecord(t, mustHead(t, s, l.log), left[len(left)-1])
			for _, r := range left {
				got, err := s.Get(t.Context(), l.log, r.ID)
				if err != nil {
					t.Fatal(err)
				}
				wantRecord(t, got, r)
			}
			for _, r := range rs[:6] {
				_, err := s.Get(t.Context(), l.log, r.ID)
				wantErr(t, err, checkpoint.ErrNotFound, "a record that was removed")
			}
			if lister, ok := s.(checkpoint.Lister); ok {
				for info, err := range lister.Threads(t.Context(), checkpoint.ThreadFilter{}) {
					if err != nil || info.Records != int64(len(left)) || !info.CreatedAt.Equal(snap.CreatedAt) || info.Bytes < 0 {
						t.Fatalf("got %+v, %v, want %d records since %v", info, err, len(left), snap.CreatedAt)
					}
				}
			}
		}
		check(s, left)
		left = append(left, l.add(t, s, 2)...)
		check(s, left)
		if o.Reopen != nil {
			s = o.Reopen(t, s)
			closeLater(t, s)
			check(s, left)
			left = append(left, l.add(t, s, 1)...)
			check(s, left)
		}
	})
	t.Run("a log can be shortened again and again", func(t *testing.T) {
		s, rewrite := opened(t)
		l := newLine("t")
		left := l.add(t, s, 3)
		for range 5 {
			left = append(left, l.add(t, s, 3)...)
			snap := full(left[3])
			if err := rewrite(&checkpoint.Rewrite{Log: l.log, Head: l.head, Replace: []*checkpoint.Record{snap}, Remove: ids(left[:3])}); err != nil {
				t.Fatal(err)
			}
			left = append([]*checkpoint.Record{snap}, left[4:]...)
			wantRecords(t, mustCollect(t, s, checkpoint.Query{Log: l.log}), left)
		}
	})
	t.Run("records in between go", func(t *testing.T) {
		s, rewrite := opened(t)
		l := newLine("t")
		rs := l.add(t, s, 8)
		if err := rewrite(&checkpoint.Rewrite{Log: l.log, Head: l.head, Remove: []checkpoint.ID{rs[1].ID, rs[4].ID, rs[5].ID}}); err != nil {
			t.Fatal(err)
		}
		wantSeqs(t, mustCollect(t, s, checkpoint.Query{Log: l.log}), 1, 3, 4, 7, 8)
		wantSeqs(t, mustCollect(t, s, checkpoint.Query{Log: l.log, From: 2, To: 6}), 3, 4)
		wantSeqs(t, mustCollect(t, s, checkpoint.Query{Log: l.log, From: 5, To: 7, Desc: true}), 7)
		l.add(t, s, 1)
		wantSeqs(t, mustCollect(t, s, checkpoint.Query{Log: l.log}), 1, 3, 4, 7, 8, 9)
	})
	t.Run("a branch goes whole, or keeps its first and its newest record", func(t *testing.T) {
		s, rewrite := opened(t)
		l := newLine("t")
		trunk := l.add(t, s, 4)
		side := append([]*checkpoint.Record{l.write(t, s, l.fork(trunk[1]))}, l.add(t, s, 2)...) // 3, 4, 5
		last := append([]*checkpoint.Record{l.write(t, s, l.fork(trunk[2]))}, l.add(t, s, 3)...) // 4 to 7
		refuse := func(what string, rw checkpoint.Rewrite) {
			t.Helper()
			rw.Log, rw.Head = l.log, l.head
			wantErr(t, rewrite(&rw), checkpoint.ErrInvalid, what)
		}
		refuse("the head", checkpoint.Rewrite{Remove: []checkpoint.ID{last[3].ID}})
		refuse("the newest of a branch", checkpoint.Rewrite{Remove: []checkpoint.ID{side[2].ID}})
		refuse("the first of a branch", checkpoint.Rewrite{Remove: []checkpoint.ID{side[0].ID}})
		all := len(mustCollect(t, s, checkpoint.Query{Log: l.log, AllBranches: true}))
		if all != 11 {
			t.Fatalf("%d records after rewrites that failed, want 11", all)
		}
		if err := rewrite(&checkpoint.Rewrite{Log: l.log, Head: l.head, Remove: append(ids(side), last[1].ID, last[2].ID)}); err != nil {
			t.Fatal(err)
		}
		b := checkpoint.Branch(side[0].ID)
		wantSeqs(t, mustCollect(t, s, checkpoint.Query{Log: l.log, Branch: b}))
		wantSeqs(t, mustCollect(t, s, checkpoint.Query{Log: l.log, Branch: l.branch}), 4, 7)
		wantSeqs(t, mustCollect(t, s, checkpoint.Query{Log: l.log}), 1, 2, 3, 4)
		l.add(t, s, 1)
		wantSeqs(t, mustCollect(t, s, checkpoint.Query{Log: l.log, Branch: l.branch}), 4, 7, 8)
		// The trunk goes, the branch stays.
		if err := rewrite(&checkpoint.Rewrite{Log: l.log, Head: l.head, Remove: ids(trunk)}); err != nil {
			t.Fatal(err)
		}
		wantSeqs(t, mustCollect(t, s, checkpoint.Query{Log: l.log, AllBranches: true}), 4, 7, 8)
		wantRecord(t, mustHead(t, s, l.log), mustCollect(t, s, checkpoint.Query{Log: l.log, Branch: l.branch, Desc: true, Limit: 1})[0])
	})
	t.Run("a log goes whole, its thread and its other logs stay", func(t *testing.T) {
		s, rewrite := opened(t)
		root, sub := newLine("t"), newLineIn(checkpoint.Log{Thread: "t", Namespace: "n"})
		kept := root.add(t, s, 2)
		rs := sub.add(t, s, 3)
		if err := rewrite(&checkpoint.Rewrite{Log: sub.log, Head: sub.head, Remove: ids(rs)}); err != nil {
			t.Fatal(err)
		}
		_, _, err := s.Head(t.Context(), sub.log)
		wantErr(t, err, checkpoint.ErrNotFound, "head of a log that is gone")
		wantRecords(t, mustCollect(t, s, checkpoint.Query{Log: root.log}), kept)
		again := newLineIn(sub.log)
		again.add(t, s, 1)
		wantSeqs(t, mustCollect(t, s, checkpoint.Query{Log: sub.log}), 1)
	})
	t.Run("results stay", func(t *testing.T) {
		s, rewrite := opened(t)
		l := newLine("t")
		rs := l.add(t, s, 3)
		res := []checkpoint.Result{result(l.head, 0, checkpoint.KindOnce, `1`)}
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Results: res})
		if err := rewrite(&checkpoint.Rewrite{Log: l.log, Head: l.head, Remove: ids(rs[:2])}); err != nil {
			t.Fatal(err)
		}
		wantResults(t, mustResults(t, s, l.log, "", l.head), res)
	})
	t.Run("a rewrite that does not fit changes nothing", func(t *testing.T) {
		s, rewrite := opened(t)
		l := newLine("t")
		rs := l.add(t, s, 4)
		moved := full(rs[2])
		moved.Seq = 2
		other := full(rs[2])
		other.Log.Namespace = "n"
		for what, c := range map[string]struct {
			rw   checkpoint.Rewrite
			want error
		}{
			"an old head":              {checkpoint.Rewrite{Log: l.log, Head: rs[2].ID, Remove: ids(rs[:1])}, checkpoint.ErrConflict},
			"an unknown record":        {checkpoint.Rewrite{Log: l.log, Head: l.head, Remove: []checkpoint.ID{rs[0].ID, l.run.Checkpoint(99)}}, checkpoint.ErrNotFound},
			"an unknown replacement":   {checkpoint.Rewrite{Log: l.log, Head: l.head, Replace: []*checkpoint.Record{l.next()}, Remove: ids(rs[:1])}, checkpoint.ErrNotFound},
			"another place":            {checkpoint.Rewrite{Log: l.log, Head: l.head, Replace: []*checkpoint.Record{moved}, Remove: ids(rs[:1])}, checkpoint.ErrInvalid},
			"another log":              {checkpoint.Rewrite{Log: l.log, Head: l.head, Replace: []*checkpoint.Record{other}, Remove: ids(rs[:1])}, checkpoint.ErrInvalid},
			"twice":                    {checkpoint.Rewrite{Log: l.log, Head: l.head, Remove: []checkpoint.ID{rs[0].ID, rs[0].ID}}, checkpoint.ErrInvalid},
			"removed and replaced":     {checkpoint.Rewrite{Log: l.log, Head: l.head, Replace: []*checkpoint.Record{full(rs[0])}, Remove: ids(rs[:1])}, checkpoint.ErrInvalid},
			"an unknown thread":        {checkpoint.Rewrite{Log: checkpoint.Log{Thread: "nobody"}, Remove: ids(rs[:1])}, checkpoint.ErrNotFound},
			"no thread":                {checkpoint.Rewrite{}, checkpoint.ErrNoThread},
			"an unknown log of thread": {checkpoint.Rewrite{Log: checkpoint.Log{Thread: "t", Namespace: "n"}, Remove: ids(rs[:1])}, checkpoint.ErrNotFound},
		} {
			wantErr(t, rewrite(&c.rw), c.want, what)
			wantRecords(t, mustCollect(t, s, checkpoint.Query{Log: l.log}), rs)
		}
	})
	t.Run("a thread that another holds is left alone", func(t *testing.T) {
		s, rewrite := opened(t)
		l := newLine("t")
		rs := l.add(t, s, 3)
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Claim: true, Holder: string(l.run), Lease: long})
		rw := &checkpoint.Rewrite{Log: l.log, Head: l.head, Remove: ids(rs[:1])}
		wantErr(t, rewrite(rw), checkpoint.ErrBusy, "rewriting a thread that is held")
		other := *rw
		other.Holder = "another"
		wantErr(t, rewrite(&other), checkpoint.ErrBusy, "rewriting a thread that another holds")
		own := *rw
		own.Holder, own.Remove = string(l.run), ids(rs[1:2])
		if err := rewrite(&own); err != nil {
			t.Fatal("its holder can't rewrite it:", err)
		}
		_, fence, err := s.Head(t.Context(), l.log)
		if err != nil {
			t.Fatal(err)
		}
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Fence: fence, Release: true})
		if err := rewrite(rw); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("the fence says that records went", func(t *testing.T) {
		s, rewrite := opened(t)
		l := newLine("t")
		rs := l.add(t, s, 3)
		claimed := mustWrite(t, s, &checkpoint.Write{Log: l.log, Claim: true}).Fence
		if err := rewrite(&checkpoint.Rewrite{Log: l.log, Head: l.head, Remove: ids(rs[:1])}); err != nil {
			t.Fatal(err)
		}
		_, cut, err := s.Head(t.Context(), l.log)
		if err != nil {
			t.Fatal(err)
		}
		again := mustWrite(t, s, &checkpoint.Write{Log: l.log, Fence: cut, Claim: true}).Fence
		if claimed.Uncut(cut) || claimed.Uncut(again) || again != cut+1 {
			t.Errorf("the fence is %d, %d after records went and %d after another claim", claimed, cut, again)
		}
	})
	t.Run("what was shortened is copied as it is", func(t *testing.T) {
		s, rewrite := opened(t)
		c := able[checkpoint.Copier](t, s)
		l := newLine("t")
		rs := l.add(t, s, 6)
		if err := rewrite(&checkpoint.Rewrite{Log: l.log, Head: l.head, Replace: []*checkpoint.Record{full(rs[3])}, Remove: ids(rs[:3])}); err != nil {
			t.Fatal(err)
		}
		if err := c.Copy(t.Context(), "t", "u"); err != nil {
			t.Fatal(err)
		}
		wantSeqs(t, mustCollect(t, s, checkpoint.Query{Log: checkpoint.Log{Thread: "u"}}), 4, 5, 6)
		got, err := s.Get(t.Context(), checkpoint.Log{Thread: "u"}, rs[4].ID)
		if err != nil || got.Seq != 5 {
			t.Fatalf("got %v, %v", got, err)
		}
	})
	t.Run("shortening makes a thread smaller", func(t *testing.T) {
		s, rewrite := opened(t)
		lister := able[checkpoint.Lister](t, s)
		l := newLine("t")
		for range 20 {
			r := l.next()
			r.Changes[0].Data = text(10_000)
			l.write(t, s, r)
		}
		rs := mustCollect(t, s, checkpoint.Query{Log: l.log})
		size := func() int64 {
			for info, err := range lister.Logs(t.Context(), "t") {
				if err != nil {
					t.Fatal(err)
				}
				return info.Bytes
			}
			return 0
		}
		before := size()
		if before == 0 {
			t.Skip("the store does not know sizes")
		}
		if err := rewrite(&checkpoint.Rewrite{Log: l.log, Head: l.head, Remove: ids(rs[:19])}); err != nil {
			t.Fatal(err)
		}
		if after := size(); after <= 0 || after > before/10 {
			t.Fatalf("%d bytes after 19 of 20 records went, %d before", after, before)
		}
	})
}
