package checkpointtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
)

func testPersistence(t *testing.T, open Opener, o Options) {
	if o.Reopen == nil {
		t.Run("a new store is empty", func(t *testing.T) {
			newLine("t").add(t, open(t), 1)
			_, _, err := open(t).Head(t.Context(), checkpoint.Log{Thread: "t"})
			wantErr(t, err, checkpoint.ErrNotFound, "head in a new store")
		})
		return
	}
	reopen := func(t *testing.T, s checkpoint.Store) checkpoint.Store {
		t.Helper()
		s = o.Reopen(t, s)
		closeLater(t, s)
		return s
	}
	t.Run("what was written is there after the store was opened again", func(t *testing.T) {
		s, l := open(t), newLine("t")
		var rs []*checkpoint.Record
		var fence checkpoint.Fence
		for i := range 4 {
			if i > 0 {
				s = reopen(t, s)
			}
			wantRecords(t, mustCollect(t, s, checkpoint.Query{Log: l.log, AllBranches: true}), rs)
			for _, r := range rs {
				got, err := s.Get(t.Context(), l.log, r.ID)
				if err != nil {
					t.Fatal(err)
				}
				wantRecord(t, got, r)
			}
			f := mustWrite(t, s, &checkpoint.Write{Log: l.log, Claim: true}).Fence
			if f <= fence {
				t.Fatalf("fence %d after %d", f, fence)
			}
			fence = f
			rs = append(rs, l.add(t, s, 3)...)
			rs = append(rs, l.write(t, s, fullRecord(l.next())))
			if i == 1 {
				rs = append(rs, l.write(t, s, l.fork(rs[1])))
			}
		}
	})
	t.Run("results outlive the store", func(t *testing.T) {
		s, l := open(t), newLine("t")
		e := l.add(t, s, 1)[0].ID
		rs := []checkpoint.Result{result(e, 1, checkpoint.KindChanges, `1`), result(e, 1, checkpoint.KindRouting, `{}`)}
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Results: rs})
		s = reopen(t, s)
		wantResults(t, mustResults(t, s, l.log, "", e), rs)
		if n := mustWrite(t, s, &checkpoint.Write{Log: l.log, Results: rs[:1]}).Ignored; n != 1 {
			t.Fatalf("%d results ignored, want 1", n)
		}
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Drop: &checkpoint.Drop{Epoch: e}})
		s = reopen(t, s)
		wantResults(t, mustResults(t, s, l.log, "", e), nil)
	})
	t.Run("odd names outlive the store", func(t *testing.T) {
		s := open(t)
		var rs []*checkpoint.Record
		for i, n := range odd {
			rs = append(rs, newLineIn(checkpoint.Log{Thread: checkpoint.ThreadID(n), Namespace: odd[len(odd)-1-i]}).add(t, s, 1)[0])
		}
		s = reopen(t, s)
		for _, r := range rs {
			wantRecord(t, mustHead(t, s, r.Log), r)
		}
	})
	t.Run("what was deleted stays deleted", func(t *testing.T) {
		s, l := open(t), newLine("t")
		l.add(t, s, 3)
		if err := s.Delete(t.Context(), "t"); err != nil {
			t.Fatal(err)
		}
		s = reopen(t, s)
		_, _, err := s.Head(t.Context(), l.log)
		wantErr(t, err, checkpoint.ErrNotFound, "head of a deleted thread")
		newLine("t").add(t, s, 1)
	})
}

// testCrashes makes a thread with every kind of write and crashes after each.
func testCrashes(t *testing.T, open Opener, o Options) {
	if o.Crash == nil {
		t.Skip("the back end gave no way to crash it")
	}
	// Each step writes and says what must hold from then on.
	type world struct {
		s     checkpoint.Store
		l     *line
		trunk []*checkpoint.Record
		all   []*checkpoint.Record
		res   map[checkpoint.ID][]checkpoint.Result
		fence checkpoint.Fence
		gone  bool
	}
	steps := []struct {
		name string
		do   func(t *testing.T, w *world)
	}{
		{"a claim", func(t *testing.T, w *world) {
			w.fence = mustWrite(t, w.s, &checkpoint.Write{Log: w.l.log, Claim: true}).Fence
		}},
		{"the first record", func(t *testing.T, w *world) { w.all = append(w.all, w.l.add(t, w.s, 1)...) }},
		{"a task's changes", func(t *testing.T, w *world) {
			r := result(w.l.tip, 0, checkpoint.KindChanges, `{"a":1}`)
			mustWrite(t, w.s, &checkpoint.Write{Log: w.l.log, Fence: w.fence, Results: []checkpoint.Result{r}})
			w.res[w.l.tip] = append(w.res[w.l.tip], r)
		}},
		{"a task's routing", func(t *testing.T, w *world) {
			r := result(w.l.tip, 0, checkpoint.KindRouting, `{}`)
			mustWrite(t, w.s, &checkpoint.Write{Log: w.l.log, Fence: w.fence, Results: []checkpoint.Result{r}})
			w.res[w.l.tip] = append(w.res[w.l.tip], r)
		}},
		{"the advance", func(t *testing.T, w *world) {
			r := fullRecord(w.l.next())
			mustWrite(t, w.s, &checkpoint.Write{
				Log: w.l.log, Fence: w.fence, Record: r, Head: w.l.head, Drop: &checkpoint.Drop{Epoch: w.l.tip},
				Results: []checkpoint.Result{result(w.l.tip, 1, checkpoint.KindChanges, `1`), result(r.ID, 0, checkpoint.KindOpen, `[]`)},
			})
			w.res[w.l.tip] = nil
			w.res[r.ID] = []checkpoint.Result{result(r.ID, 0, checkpoint.KindOpen, `[]`)}
			w.l.took(r)
			w.all = append(w.all, r)
		}},
		{"a refused write", func(t *testing.T, w *world) {
			r := w.l.next()
			_, err := w.s.Write(t.Context(), &checkpoint.Write{Log: w.l.log, Record: r, Head: "stale", Claim: true, Results: []checkpoint.Result{result(r.ID, 0, checkpoint.KindChanges, `1`)}})
			wantErr(t, err, checkpoint.ErrConflict, "a stale write")
			w.res[r.ID] = nil
		}},
		{"a fork", func(t *testing.T, w *world) {
			w.trunk = append(w.trunk, w.all...)
			w.all = append(w.all, w.l.write(t, w.s, w.l.fork(w.all[0])))
		}},
		{"a replaced result", func(t *testing.T, w *world) {
			r := result(w.l.tip, 0, checkpoint.KindOpen, `[1]`)
			r.Replace = true
			r.Branch = w.l.branch
			mustWrite(t, w.s, &checkpoint.Write{Log: w.l.log, Results: []checkpoint.Result{r}})
			r.Data = []byte(`[1,2]`)
			mustWrite(t, w.s, &checkpoint.Write{Log: w.l.log, Results: []checkpoint.Result{r}})
			w.res[w.l.tip] = []checkpoint.Result{r}
		}},
		{"another run", func(t *testing.T, w *world) {
			w.l.run, w.l.n = checkpoint.NewRunID(), 0
			w.all = append(w.all, w.l.add(t, w.s, 2)...)
		}},
		{"a record of 100 kB", func(t *testing.T, w *world) {
			r := w.l.next()
			r.Changes[0].Data = text(100_000)
			w.all = append(w.all, w.l.write(t, w.s, r))
		}},
		{"deletion", func(t *testing.T, w *world) {
			if err := w.s.Delete(t.Context(), w.l.log.Thread); err != nil {
				t.Fatal(err)
			}
			w.gone = true
		}},
	}
	check := func(t *testing.T, w *world) {
		t.Helper()
		if w.gone {
			_, _, err := w.s.Head(t.Context(), w.l.log)
			wantErr(t, err, checkpoint.ErrNotFound, "head of the deleted thread")
			return
		}
		wantRecords(t, mustCollect(t, w.s, checkpoint.Query{Log: w.l.log, AllBranches: true}), w.all)
		if len(w.all) > 0 {
			wantRecord(t, mustHead(t, w.s, w.l.log), w.all[len(w.all)-1])
		}
		for _, r := range w.all {
			got, err := w.s.Get(t.Context(), w.l.log, r.ID)
			if err != nil {
				t.Fatal(err)
			}
			wantRecord(t, got, r)
		}
		for e, rs := range w.res {
			var b checkpoint.Branch
			if len(rs) > 0 {
				b = rs[0].Branch
			}
			wantResults(t, mustResults(t, w.s, w.l.log, b, e), rs)
		}
		if f := mustWrite(t, w.s, &checkpoint.Write{Log: w.l.log}).Fence; f != w.fence {
			t.Fatalf("fence %d, want %d", f, w.fence)
		}
	}
	for n := 1; n <= len(steps); n++ {
		t.Run(fmt.Sprintf("after %d, %s", n, strings.TrimSpace(steps[n-1].name)), func(t *testing.T) {
			w := &world{s: open(t), l: newLine("t"), res: map[checkpoint.ID][]checkpoint.Result{}}
			for _, step := range steps[:n] {
				step.do(t, w)
			}
			w.s = o.Crash(t, w.s)
			closeLater(t, w.s)
			check(t, w)
			// The thread goes on.
			for _, step := range steps[n:] {
				step.do(t, w)
				check(t, w)
			}
		})
	}
	t.Run("after every one of them", func(t *testing.T) {
		w := &world{s: open(t), l: newLine("t"), res: map[checkpoint.ID][]checkpoint.Result{}}
		for _, step := range steps {
			step.do(t, w)
			w.s = o.Crash(t, w.s)
			closeLater(t, w.s)
			check(t, w)
		}
	})
}

func testGrowth(t *testing.T, open Opener, o Options) {
	// perRecord writes n records of 1 kB and returns what each took.
	grow := func(t *testing.T, s checkpoint.Store, l *line, n int, size func() int64) int64 {
		t.Helper()
		before := size()
		for range n {
			r := l.next()
			r.Changes[0].Data = text(1000)
			l.write(t, s, r)
		}
		return (size() - before) / int64(n)
	}
	compare := func(t *testing.T, size func(s checkpoint.Store, l *line) int64) {
		s, l := open(t), newLine("t")
		at := func() int64 { return size(s, l) }
		grow(t, s, l, 300, at) // what a store sets up once
		early := grow(t, s, l, 300, at)
		l.add(t, s, 1)
		grow(t, s, l, 1200, at)
		late := grow(t, s, l, 300, at)
		if late > early+early/4+200 {
			t.Fatalf("a record took %d bytes at first and %d after 1,800 others", early, late)
		}
		if late > 2000 {
			t.Fatalf("a record with 1,000 bytes takes %d", late)
		}
	}
	t.Run("the bytes a record takes on disk do not grow with the history", func(t *testing.T) {
		if o.Size == nil {
			t.Skip("the back end did not say how to measure")
		}
		compare(t, func(s checkpoint.Store, _ *line) int64 { return o.Size(t, s) })
	})
	t.Run("the bytes a listing reports grow with what was written", func(t *testing.T) {
		s := open(t)
		l := able[checkpoint.Lister](t, s)
		newLine("t").add(t, s, 1)
		for info, err := range l.Threads(t.Context(), checkpoint.ThreadFilter{}) {
			if err != nil {
				t.Fatal(err)
			}
			if info.Bytes == 0 {
				t.Skip("the store does not report bytes")
			}
		}
		compare(t, func(s checkpoint.Store, l *line) (n int64) {
			for info, err := range s.(checkpoint.Lister).Threads(t.Context(), checkpoint.ThreadFilter{}) {
				if err != nil {
					t.Fatal(err)
				}
				n += info.Bytes
			}
			return n
		})
	})
	t.Run("results that come and go leave nothing behind", func(t *testing.T) {
		if o.Size == nil {
			t.Skip("the back end did not say how to measure")
		}
		s, l := open(t), newLine("t")
		l.add(t, s, 1)
		cycle := func(n int) {
			for range n {
				e := l.tip
				for task := range 4 {
					res := result(e, task, checkpoint.KindChanges, string(text(2000)))
					mustWrite(t, s, &checkpoint.Write{Log: l.log, Results: []checkpoint.Result{res}})
				}
				r := l.next()
				mustWrite(t, s, &checkpoint.Write{Log: l.log, Record: r, Head: l.head, Drop: &checkpoint.Drop{Epoch: e}})
				l.took(r)
			}
		}
		cycle(50)
		before := o.Size(t, s)
		cycle(200)
		if per := (o.Size(t, s) - before) / 200; per > 6000 {
			t.Fatalf("a superstep whose results (8 kB) were dropped left %d bytes", per)
		}
	})
}
