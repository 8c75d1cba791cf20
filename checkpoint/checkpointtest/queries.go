package checkpointtest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
)

func testQueries(t *testing.T, open Opener, _ Options) {
	t.Run("ranges, order and limit select records", func(t *testing.T) {
		s, l := open(t), newLine("t")
		l.add(t, s, 5)
		for _, c := range []struct {
			q    checkpoint.Query
			want []int64
		}{
			{checkpoint.Query{}, []int64{1, 2, 3, 4, 5}},
			{checkpoint.Query{From: 1, To: 5}, []int64{1, 2, 3, 4, 5}},
			{checkpoint.Query{From: 2, To: 4}, []int64{2, 3, 4}},
			{checkpoint.Query{From: 3}, []int64{3, 4, 5}},
			{checkpoint.Query{To: 2}, []int64{1, 2}},
			{checkpoint.Query{From: 3, To: 3}, []int64{3}},
			{checkpoint.Query{From: 4, To: 99}, []int64{4, 5}},
			{checkpoint.Query{From: -3, To: 1}, []int64{1}},
			{checkpoint.Query{From: 6}, nil},
			{checkpoint.Query{From: 4, To: 3}, nil},
			{checkpoint.Query{To: -1}, nil},
			{checkpoint.Query{Limit: 2}, []int64{1, 2}},
			{checkpoint.Query{Limit: 99}, []int64{1, 2, 3, 4, 5}},
			{checkpoint.Query{Desc: true}, []int64{5, 4, 3, 2, 1}},
			{checkpoint.Query{Desc: true, Limit: 2}, []int64{5, 4}},
			{checkpoint.Query{Desc: true, From: 2, To: 4, Limit: 2}, []int64{4, 3}},
			{checkpoint.Query{Desc: true, To: 3, Limit: 1}, []int64{3}},
			{checkpoint.Query{AllBranches: true, From: 2, To: 3, Branch: "ignored"}, []int64{1, 2, 3, 4, 5}},
			{checkpoint.Query{AllBranches: true, Desc: true, Limit: 3}, []int64{5, 4, 3}},
			{checkpoint.Query{Branch: "unknown"}, nil},
		} {
			c.q.Log = l.log
			for i := range 4 {
				c.q.Meta, c.q.Folding = i&1 == 1, i&2 == 2
				t.Run(fmt.Sprintf("%+v", c.q), func(t *testing.T) {
					wantSeqs(t, mustCollect(t, s, c.q), c.want...)
				})
			}
		}
	})
	t.Run("a long history is read whole, both ways", func(t *testing.T) {
		s, l := open(t), newLine("t")
		rs := l.add(t, s, 700)
		wantRecords(t, mustCollect(t, s, checkpoint.Query{Log: l.log}), rs)
		wantRecords(t, mustCollect(t, s, checkpoint.Query{Log: l.log, AllBranches: true}), rs)
		wantRecords(t, mustCollect(t, s, checkpoint.Query{Log: l.log, From: 100, To: 650, Limit: 500}), rs[99:599])
		slices.Reverse(rs)
		wantRecords(t, mustCollect(t, s, checkpoint.Query{Log: l.log, Desc: true}), rs)
		wantRecords(t, mustCollect(t, s, checkpoint.Query{Log: l.log, Desc: true, AllBranches: true}), rs)
		for i, r := range mustCollect(t, s, checkpoint.Query{Log: l.log, Desc: true, Folding: true}) {
			wantFolding(t, r, rs[i])
		}
		slices.Reverse(rs)
		for i, r := range mustCollect(t, s, checkpoint.Query{Log: l.log, From: 100, To: 650, Folding: true}) {
			wantFolding(t, r, rs[99+i])
		}
	})
	t.Run("Folding leaves nothing out that is folded", func(t *testing.T) {
		s, l := open(t), newLine("t")
		r := fullRecord(l.next())
		l.write(t, s, r)
		for _, q := range []checkpoint.Query{{}, {Desc: true}, {AllBranches: true}, {Limit: 1}} {
			q.Log, q.Folding = l.log, true
			got := mustCollect(t, s, q)
			if len(got) != 1 {
				t.Fatalf("%+v: %d records", q, len(got))
			}
			wantFolding(t, got[0], r)
		}
		got := mustCollect(t, s, checkpoint.Query{Log: l.log, Folding: true, Meta: true})
		wantRecords(t, got, []*checkpoint.Record{r.Meta()})
		wantRecord(t, mustHead(t, s, l.log), r)
	})
	t.Run("Meta leaves out what may be large and nothing else", func(t *testing.T) {
		s, l := open(t), newLine("t")
		r := fullRecord(l.next())
		l.write(t, s, r)
		got := mustCollect(t, s, checkpoint.Query{Log: l.log, Meta: true})
		wantRecords(t, got, []*checkpoint.Record{r.Meta()})
		wantRecord(t, mustHead(t, s, l.log), r)
	})
	t.Run("stopping early is fine", func(t *testing.T) {
		s, l := open(t), newLine("t")
		l.add(t, s, 30)
		for range s.Records(t.Context(), checkpoint.Query{Log: l.log}) {
			break
		}
		l.add(t, s, 1)
	})
	t.Run("an iterator can be used again and sees what is there then", func(t *testing.T) {
		s, l := open(t), newLine("t")
		l.add(t, s, 2)
		it := s.Records(t.Context(), checkpoint.Query{Log: l.log})
		count := func() (n int) {
			for _, err := range it {
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
			return n
		}
		if n := count(); n != 2 {
			t.Fatalf("%d records, want 2", n)
		}
		l.add(t, s, 1)
		if n := count(); n != 3 {
			t.Fatalf("%d records, want 3", n)
		}
	})
	t.Run("writing and reading while iterating does not block", func(t *testing.T) {
		s, l := open(t), newLine("t")
		l.add(t, s, 20)
		n := 0
		for r, err := range s.Records(t.Context(), checkpoint.Query{Log: l.log}) {
			if err != nil {
				t.Fatal(err)
			}
			if r.Seq > 20 {
				break // seeing newer ones is allowed
			}
			l.add(t, s, 1)
			mustHead(t, s, l.log)
			for _, err := range s.Records(t.Context(), checkpoint.Query{Log: l.log, Limit: 2, Desc: true}) {
				if err != nil {
					t.Fatal(err)
				}
			}
			n++
		}
		if n != 20 {
			t.Fatalf("iterated over %d records, want 20", n)
		}
	})
}

func testBranches(t *testing.T, open Opener, _ Options) {
	t.Run("branches have sequence numbers of their own and share no records", func(t *testing.T) {
		s, l := open(t), newLine("t")
		trunk := l.add(t, s, 4)
		f1 := l.write(t, s, l.fork(trunk[1]))
		b1 := append([]*checkpoint.Record{f1}, l.add(t, s, 3)...)
		f2 := l.write(t, s, l.fork(b1[1]))
		b2 := append([]*checkpoint.Record{f2}, l.add(t, s, 1)...)

		wantRecords(t, mustCollect(t, s, checkpoint.Query{Log: l.log}), trunk)
		wantRecords(t, mustCollect(t, s, checkpoint.Query{Log: l.log, Branch: f1.Branch}), b1)
		wantSeqs(t, mustCollect(t, s, checkpoint.Query{Log: l.log, Branch: f1.Branch}), 3, 4, 5, 6)
		wantRecords(t, mustCollect(t, s, checkpoint.Query{Log: l.log, Branch: f2.Branch}), b2)
		wantSeqs(t, mustCollect(t, s, checkpoint.Query{Log: l.log, Branch: f2.Branch, From: 1, To: 5}), 5)
		wantSeqs(t, mustCollect(t, s, checkpoint.Query{Log: l.log, Branch: f1.Branch, Desc: true, Limit: 2}), 6, 5)

		all := slices.Concat(trunk, b1, b2)
		wantRecords(t, mustCollect(t, s, checkpoint.Query{Log: l.log, AllBranches: true}), all)
		slices.Reverse(all)
		wantRecords(t, mustCollect(t, s, checkpoint.Query{Log: l.log, AllBranches: true, Desc: true}), all)
		wantRecord(t, mustHead(t, s, l.log), b2[1])
		for _, r := range all {
			got, err := s.Get(t.Context(), l.log, r.ID)
			if err != nil {
				t.Fatal(err)
			}
			wantRecord(t, got, r)
		}
	})
	t.Run("branches can grow in turns", func(t *testing.T) {
		s, trunk := open(t), newLine("t")
		base := trunk.add(t, s, 2)
		lines := []*line{trunk}
		for range 3 {
			b := newLine("t")
			b.head = lines[len(lines)-1].head
			b.write(t, s, b.fork(base[0]))
			lines = append(lines, b)
		}
		head := lines[len(lines)-1].head
		want := map[checkpoint.Branch][]int64{}
		for i, l := range lines {
			want[l.branch] = []int64{2}
			if i == 0 {
				want[l.branch] = []int64{1, 2}
			}
		}
		for round := range 6 {
			for i, l := range lines {
				if (round+i)%3 == 2 {
					continue
				}
				l.head = head
				want[l.branch] = append(want[l.branch], l.add(t, s, 1)[0].Seq)
				head = l.head
			}
		}
		for b, seqs := range want {
			wantSeqs(t, mustCollect(t, s, checkpoint.Query{Log: trunk.log, Branch: b}), seqs...)
			last := seqs[len(seqs)-1]
			wantSeqs(t, mustCollect(t, s, checkpoint.Query{Log: trunk.log, Branch: b, From: last - 2, To: last - 1}), last-2, last-1)
			slices.Reverse(seqs)
			wantSeqs(t, mustCollect(t, s, checkpoint.Query{Log: trunk.log, Branch: b, Desc: true}), seqs...)
		}
	})
	t.Run("lineage leads from a branch to all its past", func(t *testing.T) {
		s, l := open(t), newLine("t")
		trunk := l.add(t, s, 4)
		f1 := l.write(t, s, l.fork(trunk[2]))
		b1 := l.add(t, s, 2)
		l.write(t, s, l.fork(b1[0]))
		tip := l.add(t, s, 1)[0]

		head := mustHead(t, s, l.log)
		wantRecord(t, head, tip)
		var past []*checkpoint.Record
		from := int64(1)
		for _, span := range append(slices.Clone(head.Lineage), checkpoint.Span{Branch: head.Branch, To: head.Seq}) {
			rs := mustCollect(t, s, checkpoint.Query{Log: l.log, Branch: span.Branch, From: from, To: span.To})
			past = append(past, rs...)
			from = span.To + 1
		}
		wantSeqs(t, past, 1, 2, 3, 4, 5, 6, 7)
		for i := 1; i < len(past); i++ {
			if past[i].Parent != past[i-1].ID {
				t.Fatalf("record %d has parent %s, want %s", past[i].Seq, past[i].Parent, past[i-1].ID)
			}
		}
		wantRecord(t, past[3], f1)
	})
	t.Run("a branch can start before the first record", func(t *testing.T) {
		s, l := open(t), newLine("t")
		l.add(t, s, 2)
		r := l.next()
		r.Parent, r.Seq, r.Branch = "", 1, checkpoint.Branch(r.ID)
		l.write(t, s, r)
		wantRecords(t, mustCollect(t, s, checkpoint.Query{Log: l.log, Branch: r.Branch}), []*checkpoint.Record{r})
	})
	t.Run("a branch bears the ID of its first record", func(t *testing.T) {
		s, l := open(t), newLine("t")
		rs := l.add(t, s, 2)
		r := l.fork(rs[0])
		r.Branch = checkpoint.Branch(rs[0].ID)
		_, err := s.Write(t.Context(), &checkpoint.Write{Log: l.log, Record: r, Head: l.head})
		wantErr(t, err, checkpoint.ErrInvalid, "a branch named after another record")
	})
}
