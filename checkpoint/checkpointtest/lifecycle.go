package checkpointtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
)

func testLifecycle(t *testing.T, open Opener, _ Options) {
	t.Run("a closed store refuses everything", func(t *testing.T) {
		s, l := open(t), newLine("t")
		l.add(t, s, 1)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		wantAll(t, t.Context(), s, l, checkpoint.ErrClosed)
		wantErr(t, s.Close(), checkpoint.ErrClosed, "Close")
	})
	t.Run("closing while others write and read ends them cleanly", func(t *testing.T) {
		s := open(t)
		each(8, func(i int) {
			if i == 0 {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				return
			}
			l := newLine(checkpoint.ThreadID(fmt.Sprint("t", i)))
			for {
				r := l.next()
				if _, err := s.Write(t.Context(), &checkpoint.Write{Log: l.log, Record: r, Head: l.head}); err != nil {
					wantErrNow(t, err, checkpoint.ErrClosed)
					return
				}
				l.took(r)
				if _, err := collect(t.Context(), s, checkpoint.Query{Log: l.log}); err != nil {
					wantErrNow(t, err, checkpoint.ErrClosed)
					return
				}
			}
		})
	})
	t.Run("Delete removes a thread with all its logs and results, and nothing else", func(t *testing.T) {
		s := open(t)
		a, an, b := newLine("a"), newLineIn(checkpoint.Log{Thread: "a", Namespace: "n"}), newLine("b")
		r := a.add(t, s, 3)[2]
		an.add(t, s, 2)
		kept := b.add(t, s, 2)
		mustWrite(t, s, &checkpoint.Write{Log: a.log, Claim: true, Results: []checkpoint.Result{result(r.ID, 0, checkpoint.KindChanges, `1`)}})
		if err := s.Delete(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		for _, log := range []checkpoint.Log{a.log, an.log} {
			_, _, err := s.Head(t.Context(), log)
			wantErr(t, err, checkpoint.ErrNotFound, "head of a deleted thread")
			wantSeqs(t, mustCollect(t, s, checkpoint.Query{Log: log, AllBranches: true}))
		}
		_, err := s.Get(t.Context(), a.log, r.ID)
		wantErr(t, err, checkpoint.ErrNotFound, "record of a deleted thread")
		wantResults(t, mustResults(t, s, a.log, "", r.ID), nil)
		wantRecords(t, mustCollect(t, s, checkpoint.Query{Log: b.log}), kept)
	})
	t.Run("deleting an unknown thread is no error", func(t *testing.T) {
		s := open(t)
		for range 2 {
			if err := s.Delete(t.Context(), "nobody"); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Run("a deleted thread can begin anew", func(t *testing.T) {
		s := open(t)
		for i := range 3 {
			l := newLine("t")
			rs := l.add(t, s, 4-i)
			wantRecords(t, mustCollect(t, s, checkpoint.Query{Log: l.log}), rs)
			if err := s.Delete(t.Context(), "t"); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Run("a run whose thread was deleted cannot go on", func(t *testing.T) {
		s, l := open(t), newLine("t")
		r := l.next()
		f := mustWrite(t, s, &checkpoint.Write{Log: l.log, Claim: true, Record: r}).Fence
		l.took(r)
		if err := s.Delete(t.Context(), "t"); err != nil {
			t.Fatal(err)
		}
		_, err := s.Write(t.Context(), &checkpoint.Write{Log: l.log, Fence: f, Record: l.next(), Head: l.head})
		wantErr(t, err, checkpoint.ErrFenced, "append to a deleted thread")
		_, _, err = s.Head(t.Context(), l.log)
		wantErr(t, err, checkpoint.ErrNotFound, "head of the deleted thread")
	})
	t.Run("a run whose thread was deleted has nothing to say in the one begun anew", func(t *testing.T) {
		s, l := open(t), newLine("t")
		const holder = "a run"
		lease := &checkpoint.Write{Log: l.log, Claim: true, Holder: holder, Lease: long}
		var old checkpoint.Fence
		for range 3 {
			old = mustWrite(t, s, lease).Fence
		}
		for range 2 {
			if err := s.Delete(t.Context(), "t"); err != nil {
				t.Fatal(err)
			}
			l = newLine("t")
			l.add(t, s, 1)
			_, err := s.Write(t.Context(), &checkpoint.Write{Log: l.log, Fence: old, Record: l.next(), Head: l.head})
			wantErr(t, err, checkpoint.ErrFenced, "append to a thread that nobody has claimed yet")
			began := mustWrite(t, s, lease).Fence
			if began <= old {
				t.Fatalf("the thread begins anew with fence %d, a run of the deleted one had %d", began, old)
			}
			for _, w := range []*checkpoint.Write{
				{Log: l.log, Fence: old},
				{Log: l.log, Fence: old, Record: l.next(), Head: l.head},
				{Log: l.log, Fence: old, Lease: long, Holder: holder},
				{Log: l.log, Fence: old, Release: true},
			} {
				_, err := s.Write(t.Context(), w)
				wantErr(t, err, checkpoint.ErrFenced, "write by a run of the deleted thread")
			}
			mustWrite(t, s, &checkpoint.Write{Log: l.log, Fence: began, Record: l.next(), Head: l.head})
			old = began
		}
	})
}

func wantErrNow(t *testing.T, err, want error) {
	t.Helper()
	if !strings.Contains(err.Error(), want.Error()) {
		t.Errorf("got error %v, want %v", err, want)
	}
}

func testListing(t *testing.T, open Opener, _ Options) {
	list := func(t *testing.T, s checkpoint.Store, f checkpoint.ThreadFilter) []checkpoint.ThreadInfo {
		t.Helper()
		var out []checkpoint.ThreadInfo
		for info, err := range s.(checkpoint.Lister).Threads(t.Context(), f) {
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, info)
		}
		return out
	}
	want := func(t *testing.T, got []checkpoint.ThreadInfo, want ...checkpoint.ThreadID) {
		t.Helper()
		ids := []checkpoint.ThreadID{}
		for _, info := range got {
			ids = append(ids, info.Thread)
		}
		if fmt.Sprintf("%q", ids) != fmt.Sprintf("%q", want) {
			t.Fatalf("got threads %q, want %q", ids, want)
		}
	}
	lister := func(t *testing.T) checkpoint.Store {
		s := open(t)
		able[checkpoint.Lister](t, s)
		return s
	}
	t.Run("an empty store lists nothing", func(t *testing.T) {
		want(t, list(t, lister(t), checkpoint.ThreadFilter{}))
	})
	t.Run("threads are listed by the time of their head, newest first", func(t *testing.T) {
		s := lister(t)
		lines := map[checkpoint.ThreadID]*line{}
		for i, id := range []checkpoint.ThreadID{"a", "b", "c", "d"} {
			lines[id] = newLine(id)
			lines[id].clock = epochStart.Add(time.Duration(i) * time.Hour)
			lines[id].add(t, s, 1)
		}
		want(t, list(t, s, checkpoint.ThreadFilter{}), "d", "c", "b", "a")
		lines["b"].clock = epochStart.Add(24 * time.Hour)
		lines["b"].add(t, s, 1)
		lines["a"].clock = epochStart.Add(2*time.Hour + 500*time.Millisecond)
		lines["a"].add(t, s, 1)
		want(t, list(t, s, checkpoint.ThreadFilter{}), "b", "d", "a", "c")
		lines["d"].clock = epochStart.Add(-24 * time.Hour) // a host whose clock is behind
		lines["d"].add(t, s, 1)
		want(t, list(t, s, checkpoint.ThreadFilter{}), "b", "a", "c", "d")
		want(t, list(t, s, checkpoint.ThreadFilter{Limit: 2}), "b", "a")
	})
	t.Run("threads with the same time are listed by ID", func(t *testing.T) {
		s := lister(t)
		for _, id := range []checkpoint.ThreadID{"b", "c", "a"} {
			newLine(id).add(t, s, 1)
		}
		want(t, list(t, s, checkpoint.ThreadFilter{}), "a", "b", "c")
		want(t, list(t, s, checkpoint.ThreadFilter{Limit: 2}), "a", "b")
	})
	t.Run("a prefix selects by the letter", func(t *testing.T) {
		s := lister(t)
		for _, id := range []checkpoint.ThreadID{"user/1", "user/2", "User/3", "user%", "use", "user/\U0010ffff", "v"} {
			newLine(id).add(t, s, 1)
		}
		want(t, list(t, s, checkpoint.ThreadFilter{Prefix: "user/"}), "user/1", "user/2", "user/\U0010ffff")
		want(t, list(t, s, checkpoint.ThreadFilter{Prefix: "user%"}), "user%")
		want(t, list(t, s, checkpoint.ThreadFilter{Prefix: "user/", Limit: 1}), "user/1")
		want(t, list(t, s, checkpoint.ThreadFilter{Prefix: "x"}))
	})
	// begin starts threads an hour after one another, the last of them the newest.
	begin := func(t *testing.T, s checkpoint.Store, metadata map[checkpoint.ThreadID]map[string]string, ids ...checkpoint.ThreadID) map[checkpoint.ThreadID]*line {
		lines := map[checkpoint.ThreadID]*line{}
		for i, id := range ids {
			l := newLine(id)
			l.clock = epochStart.Add(time.Duration(i) * time.Hour)
			r := l.next()
			r.Metadata = metadata[id]
			l.write(t, s, r)
			lines[id] = l
		}
		return lines
	}
	t.Run("metadata of the head select threads", func(t *testing.T) {
		s := lister(t)
		odd := map[string]string{"a\x00b": "ü'\"%_{}", "": "", "long": strings.Repeat("x", 5000)}
		begin(t, s, map[checkpoint.ThreadID]map[string]string{
			"one":  {"user": "ann", "plan": "free"},
			"two":  {"user": "ann", "plan": "paid"},
			"odd":  odd,
			"user": {"ann": "user", "userann": ""},
			"four": {"user": "Ann", "plan": ""},
		}, "one", "two", "odd", "user", "none", "four")
		match := func(metadata map[string]string, ids ...checkpoint.ThreadID) {
			t.Helper()
			want(t, list(t, s, checkpoint.ThreadFilter{Metadata: metadata}), ids...)
		}
		match(map[string]string{}, "four", "none", "user", "odd", "two", "one")
		match(map[string]string{"user": "ann"}, "two", "one")
		match(map[string]string{"user": "ann", "plan": "free"}, "one")
		match(map[string]string{"user": "ann", "plan": "none"})
		match(map[string]string{"plan": ""}, "four")
		match(map[string]string{"other": ""})
		match(map[string]string{"other": "x"})
		match(odd, "odd")
		for k, v := range odd {
			match(map[string]string{k: v}, "odd")
		}
		want(t, list(t, s, checkpoint.ThreadFilter{Metadata: map[string]string{"user": "ann"}, Prefix: "o"}), "one")
		want(t, list(t, s, checkpoint.ThreadFilter{Metadata: map[string]string{"user": "ann"}, Prefix: "x"}))
	})
	t.Run("the metadata are those of the newest record, whatever became of the thread", func(t *testing.T) {
		s := lister(t)
		tag := func(v string) map[string]string { return map[string]string{"tag": v} }
		lines := begin(t, s, map[checkpoint.ThreadID]map[string]string{"a": tag("1"), "b": tag("1"), "c": tag("1")}, "a", "b", "c")
		match := func(metadata map[string]string, ids ...checkpoint.ThreadID) {
			t.Helper()
			want(t, list(t, s, checkpoint.ThreadFilter{Metadata: metadata}), ids...)
		}
		write := func(l *line, metadata map[string]string) *checkpoint.Record {
			r := l.next()
			r.Metadata = metadata
			return l.write(t, s, r)
		}
		match(tag("1"), "c", "b", "a")
		same := write(lines["a"], tag("1"))
		write(lines["b"], tag("2"))
		match(tag("1"), "c", "a")
		match(tag("2"), "b")
		write(lines["b"], nil)
		match(tag("2"))
		// On another branch, and in the log of a subgraph.
		fork := lines["a"].fork(same)
		fork.Metadata = tag("3")
		lines["a"].write(t, s, fork)
		inner := newLineIn(checkpoint.Log{Thread: "c", Namespace: "n"})
		write(inner, tag("3"))
		match(tag("3"), "a")
		match(tag("1"), "c")
		if c, ok := s.(checkpoint.Copier); ok {
			if err := c.Copy(t.Context(), "c", "copy"); err != nil {
				t.Fatal(err)
			}
			match(tag("1"), "c", "copy")
			l := *lines["c"]
			l.log.Thread = "copy"
			write(&l, tag("4"))
			match(tag("1"), "c")
			match(tag("4"), "copy")
			if err := s.Delete(t.Context(), "copy"); err != nil {
				t.Fatal(err)
			}
			match(tag("4"))
		}
		if rw, ok := s.(checkpoint.Rewriter); ok {
			head := mustHead(t, s, lines["a"].log)
			again := *head
			again.Metadata = tag("5")
			if err := rw.Rewrite(t.Context(), &checkpoint.Rewrite{Log: lines["a"].log, Head: head.ID, Replace: []*checkpoint.Record{&again}}); err != nil {
				t.Fatal(err)
			}
			match(tag("3"))
			match(tag("5"), "a")
			head = mustHead(t, s, lines["b"].log)
			var all []checkpoint.ID
			for _, r := range mustCollect(t, s, checkpoint.Query{Log: lines["b"].log}) {
				all = append(all, r.ID)
			}
			if err := rw.Rewrite(t.Context(), &checkpoint.Rewrite{Log: lines["b"].log, Head: head.ID, Remove: all}); err != nil {
				t.Fatal(err)
			}
			match(nil, "c", "a")
			begin(t, s, map[checkpoint.ThreadID]map[string]string{"b": tag("6")}, "b")
			match(tag("6"), "b")
		}
		if err := s.Delete(t.Context(), "c"); err != nil {
			t.Fatal(err)
		}
		match(tag("1"))
		begin(t, s, nil, "c")
		match(tag("1"))
	})
	t.Run("threads are read page by page", func(t *testing.T) {
		s := lister(t)
		var ids []checkpoint.ThreadID
		metadata := map[checkpoint.ThreadID]map[string]string{}
		for i := range 20 {
			l := newLine(checkpoint.ThreadID(fmt.Sprintf("%c%02d", 'a'+i%2, i)))
			l.clock = epochStart.Add(time.Duration(i/4) * 20 * time.Second) // four at a time, three times in a minute
			r := l.next()
			r.Metadata = map[string]string{"third": fmt.Sprint(i % 3)}
			l.write(t, s, r)
			ids, metadata[l.log.Thread] = append(ids, l.log.Thread), r.Metadata
		}
		for _, f := range []checkpoint.ThreadFilter{{}, {Prefix: "a"}, {Metadata: map[string]string{"third": "1"}}, {Prefix: "b", Metadata: map[string]string{"third": "2"}}} {
			all := list(t, s, f)
			n := 0
			for _, id := range ids {
				if strings.HasPrefix(string(id), f.Prefix) && (f.Metadata == nil || metadata[id]["third"] == f.Metadata["third"]) {
					n++
				}
			}
			if len(all) != n {
				t.Fatalf("%+v selects %d threads, want %d", f, len(all), n)
			}
			for _, limit := range []int{1, 2, 3, 7} {
				f := f
				f.Limit = limit
				for at := 0; ; at += limit {
					page := list(t, s, f)
					var left []checkpoint.ThreadID
					for _, info := range all[min(at, n):min(at+limit, n)] {
						left = append(left, info.Thread)
					}
					if want(t, page, left...); len(page) == 0 {
						break
					}
					f.After = page[len(page)-1].Place()
				}
			}
		}
		// The place of a thread that is gone is one as well.
		f := checkpoint.ThreadFilter{After: checkpoint.ThreadPlace{At: epochStart.Add(-time.Hour), Thread: "gone"}}
		want(t, list(t, s, f))
		f.After.At = epochStart.Add(time.Hour)
		if got := list(t, s, f); len(got) != 20 {
			t.Fatalf("%d threads after a place before all", len(got))
		}
	})
	t.Run("a thread is described by its head, first record and number of records", func(t *testing.T) {
		s, l := lister(t), newLine("t")
		first := l.add(t, s, 1)[0]
		l.add(t, s, 3)
		l.write(t, s, l.fork(first))
		head := l.write(t, s, fullRecord(l.next()))
		newLineIn(checkpoint.Log{Thread: "t", Namespace: "n"}).add(t, s, 9)
		got := list(t, s, checkpoint.ThreadFilter{})
		want(t, got, "t")
		wantRecord(t, got[0].Head, head.Meta())
		if !got[0].CreatedAt.Equal(first.CreatedAt) || got[0].Records != 6 {
			t.Fatalf("got %+v, want 6 records since %v", got[0], first.CreatedAt)
		}
	})
	t.Run("threads without a record of their own are not listed", func(t *testing.T) {
		s := lister(t)
		newLineIn(checkpoint.Log{Thread: "sub", Namespace: "n"}).add(t, s, 1)
		mustWrite(t, s, &checkpoint.Write{Log: checkpoint.Log{Thread: "claimed"}, Claim: true})
		mustWrite(t, s, &checkpoint.Write{Log: checkpoint.Log{Thread: "results"}, Results: []checkpoint.Result{result("e", 0, checkpoint.KindChanges, `1`)}})
		newLine("gone").add(t, s, 1)
		if err := s.Delete(t.Context(), "gone"); err != nil {
			t.Fatal(err)
		}
		want(t, list(t, s, checkpoint.ThreadFilter{}))
	})
	t.Run("many threads are listed whole, and the store is free meanwhile", func(t *testing.T) {
		s := lister(t)
		const n = 350
		each(10, func(i int) {
			for j := i; j < n; j += 10 {
				l := newLine(checkpoint.ThreadID(fmt.Sprintf("t%03d", j)))
				l.clock = epochStart.Add(time.Duration(j) * 7 * time.Second)
				if _, err := s.Write(t.Context(), &checkpoint.Write{Log: l.log, Record: l.next()}); err != nil {
					t.Error(err)
				}
			}
		})
		seen := 0
		for info, err := range s.(checkpoint.Lister).Threads(t.Context(), checkpoint.ThreadFilter{}) {
			if err != nil {
				t.Fatal(err)
			}
			seen++
			if want := checkpoint.ThreadID(fmt.Sprintf("t%03d", n-seen)); info.Thread != want {
				t.Fatalf("thread %d is %q, want %q", seen, info.Thread, want)
			}
			if seen%100 == 1 {
				l := newLineIn(checkpoint.Log{Thread: info.Thread, Namespace: "n"})
				l.add(t, s, 1)
				mustHead(t, s, checkpoint.Log{Thread: info.Thread})
			}
		}
		if seen != n {
			t.Fatalf("%d threads, want %d", seen, n)
		}
	})
}

func testCopying(t *testing.T, open Opener, _ Options) {
	copier := func(t *testing.T) checkpoint.Store {
		s := open(t)
		able[checkpoint.Copier](t, s)
		return s
	}
	t.Run("a copy has all logs, branches and results, and a life of its own", func(t *testing.T) {
		s, l := copier(t), newLine("from")
		trunk := l.add(t, s, 3)
		l.write(t, s, l.fork(trunk[0]))
		l.add(t, s, 2)
		sub := newLineIn(checkpoint.Log{Thread: "from", Namespace: "n"})
		sub.add(t, s, 2)
		res := []checkpoint.Result{result(l.tip, 0, checkpoint.KindChanges, `1`), result(l.tip, 1, checkpoint.KindRouting, `{}`)}
		fence := mustWrite(t, s, &checkpoint.Write{Log: l.log, Claim: true, Results: res}).Fence
		if err := s.(checkpoint.Copier).Copy(t.Context(), "from", "to"); err != nil {
			t.Fatal(err)
		}
		moved := func(log checkpoint.Log) checkpoint.Log {
			return checkpoint.Log{Thread: "to", Namespace: log.Namespace}
		}
		for _, from := range []checkpoint.Log{l.log, sub.log} {
			want := mustCollect(t, s, checkpoint.Query{Log: from, AllBranches: true})
			got := mustCollect(t, s, checkpoint.Query{Log: moved(from), AllBranches: true})
			if len(got) != len(want) {
				t.Fatalf("the copy has %d records, want %d", len(got), len(want))
			}
			for i := range want {
				w := *want[i]
				w.Log = moved(from)
				wantRecord(t, got[i], &w)
				g, err := s.Get(t.Context(), w.Log, w.ID)
				if err != nil {
					t.Fatal(err)
				}
				wantRecord(t, g, &w)
			}
		}
		wantSeqs(t, mustCollect(t, s, checkpoint.Query{Log: moved(l.log), Branch: l.branch}), 2, 3, 4)
		wantResults(t, mustResults(t, s, moved(l.log), "", l.tip), res)

		other := *l
		other.log = moved(l.log)
		other.add(t, s, 2)
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Fence: fence, Drop: &checkpoint.Drop{Epoch: l.tip}})
		wantResults(t, mustResults(t, s, other.log, "", l.tip), res)
		if head := mustHead(t, s, l.log); head.ID != l.tip {
			t.Fatalf("writing to the copy moved the head of the thread that was copied")
		}
		if err := s.Delete(t.Context(), "from"); err != nil {
			t.Fatal(err)
		}
		if head := mustHead(t, s, other.log); head.ID != other.tip {
			t.Fatal("deleting the thread that was copied changed the copy")
		}
	})
	t.Run("copying an unknown thread is not found", func(t *testing.T) {
		s := copier(t)
		wantErr(t, s.(checkpoint.Copier).Copy(t.Context(), "nobody", "to"), checkpoint.ErrNotFound, "Copy")
		_, _, err := s.Head(t.Context(), checkpoint.Log{Thread: "to"})
		wantErr(t, err, checkpoint.ErrNotFound, "head of the copy")
	})
	t.Run("copying onto a thread that exists is a conflict", func(t *testing.T) {
		s := copier(t)
		newLine("a").add(t, s, 1)
		r := newLine("b").add(t, s, 1)[0]
		wantErr(t, s.(checkpoint.Copier).Copy(t.Context(), "a", "b"), checkpoint.ErrConflict, "Copy")
		wantErr(t, s.(checkpoint.Copier).Copy(t.Context(), "a", "a"), checkpoint.ErrConflict, "Copy onto itself")
		wantRecord(t, mustHead(t, s, r.Log), r)
	})
}
