package checkpointtest

import (
	"fmt"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
)

func result(epoch checkpoint.ID, task int, kind checkpoint.ResultKind, data string) checkpoint.Result {
	return checkpoint.Result{Epoch: epoch, Task: task, Kind: kind, Data: []byte(data)}
}

func testResults(t *testing.T, open Opener, _ Options) {
	const changes, routing, once = checkpoint.KindChanges, checkpoint.KindRouting, checkpoint.KindOnce

	t.Run("results come back by task, then in the order written", func(t *testing.T) {
		s, l := open(t), newLine("t")
		e := l.add(t, s, 1)[0].ID
		a, b, c := result(e, 2, changes, `1`), result(e, 0, changes, `2`), result(e, 10, routing, `{"goto":["x"]}`)
		d, f := result(e, 0, once, `"4"`), result(e, 0, once, `null`)
		d.Name, f.Name = "z", "a"
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Results: []checkpoint.Result{a, b}})
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Results: []checkpoint.Result{c}})
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Results: []checkpoint.Result{d}})
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Results: []checkpoint.Result{f}})
		wantResults(t, mustResults(t, s, l.log, "", e), []checkpoint.Result{b, d, f, a, c})
	})
	t.Run("results do not move the head", func(t *testing.T) {
		s, l := open(t), newLine("t")
		r := l.add(t, s, 1)[0]
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Results: []checkpoint.Result{result(r.ID, 0, changes, `1`)}})
		wantRecord(t, mustHead(t, s, l.log), r)
		l.add(t, s, 1)
	})
	t.Run("results may precede the first record", func(t *testing.T) {
		s, l := open(t), newLine("t")
		r := result(l.next().ID, 0, changes, `1`)
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Results: []checkpoint.Result{r}})
		_, _, err := s.Head(t.Context(), l.log)
		wantErr(t, err, checkpoint.ErrNotFound, "head of a log with results alone")
		l.add(t, s, 1)
		wantResults(t, mustResults(t, s, l.log, "", r.Epoch), []checkpoint.Result{r})
	})
	t.Run("the first write wins and later ones are counted as ignored", func(t *testing.T) {
		s, l := open(t), newLine("t")
		e := l.add(t, s, 1)[0].ID
		first, other := result(e, 0, changes, `"first"`), result(e, 1, changes, `"other"`)
		if n := mustWrite(t, s, &checkpoint.Write{Log: l.log, Results: []checkpoint.Result{first}}).Ignored; n != 0 {
			t.Fatalf("%d results ignored, want 0", n)
		}
		w := &checkpoint.Write{Log: l.log, Results: []checkpoint.Result{result(e, 0, changes, `"second"`), other, result(e, 1, changes, `"third"`)}}
		if n := mustWrite(t, s, w).Ignored; n != 2 {
			t.Fatalf("%d results ignored, want 2", n)
		}
		wantResults(t, mustResults(t, s, l.log, "", e), []checkpoint.Result{first, other})
	})
	t.Run("with Replace the newest write wins and keeps its place", func(t *testing.T) {
		s, l := open(t), newLine("t")
		e := l.add(t, s, 1)[0].ID
		q, c, q2 := result(e, 0, checkpoint.KindOpen, `[1]`), result(e, 0, changes, `2`), result(e, 0, checkpoint.KindOpen, `[1,2]`)
		q.Replace, q2.Replace = true, true
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Results: []checkpoint.Result{q, c}})
		if n := mustWrite(t, s, &checkpoint.Write{Log: l.log, Results: []checkpoint.Result{q2}}).Ignored; n != 0 {
			t.Fatalf("%d results ignored, want 0", n)
		}
		wantResults(t, mustResults(t, s, l.log, "", e), []checkpoint.Result{q2, c})
		plain := result(e, 0, checkpoint.KindOpen, `"late"`)
		if n := mustWrite(t, s, &checkpoint.Write{Log: l.log, Results: []checkpoint.Result{plain}}).Ignored; n != 1 {
			t.Fatalf("%d results ignored, want 1", n)
		}
		wantResults(t, mustResults(t, s, l.log, "", e), []checkpoint.Result{q2, c})
	})
	t.Run("branch, epoch, task, generation, kind and name tell results apart", func(t *testing.T) {
		s, l := open(t), newLine("t")
		e := l.add(t, s, 1)[0].ID
		base := checkpoint.Result{Epoch: e, Kind: once, Name: "n", Data: []byte(`0`)}
		all := []checkpoint.Result{base}
		for i, change := range []func(*checkpoint.Result){
			func(r *checkpoint.Result) { r.Gen = 1 },
			func(r *checkpoint.Result) { r.Kind = checkpoint.KindEvent },
			func(r *checkpoint.Result) { r.Name = "N" },
			func(r *checkpoint.Result) { r.Name = "" },
			func(r *checkpoint.Result) { r.Name = "n'\x00/\n🎈" },
			func(r *checkpoint.Result) { r.Task = 1 },
		} {
			r := base
			r.Data = fmt.Appendf(nil, `%d`, i+1)
			change(&r)
			all = append(all, r)
		}
		elsewhere, later := base, base
		elsewhere.Branch, later.Epoch = checkpoint.Branch(checkpoint.NewRunID()), checkpoint.NewRunID()
		elsewhere.Data, later.Data = []byte(`"branch"`), []byte(`"epoch"`)
		w := mustWrite(t, s, &checkpoint.Write{Log: l.log, Results: append(all, elsewhere, later)})
		if w.Ignored != 0 {
			t.Fatalf("%d results ignored, want 0", w.Ignored)
		}
		wantResults(t, mustResults(t, s, l.log, "", e), all)
		wantResults(t, mustResults(t, s, l.log, elsewhere.Branch, e), []checkpoint.Result{elsewhere})
		wantResults(t, mustResults(t, s, l.log, "", later.Epoch), []checkpoint.Result{later})
	})
	t.Run("Drop removes one superstep's results together with the append", func(t *testing.T) {
		s, l := open(t), newLine("t")
		e := l.add(t, s, 1)[0].ID
		branch, other := checkpoint.Branch(checkpoint.NewRunID()), checkpoint.NewRunID()
		onBranch, ofOther := result(e, 0, changes, `1`), result(other, 0, changes, `2`)
		onBranch.Branch = branch
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Results: []checkpoint.Result{
			result(e, 0, changes, `3`), result(e, 1, changes, `4`), onBranch, ofOther,
		}})
		stale := &checkpoint.Write{Log: l.log, Record: l.next(), Head: "stale", Drop: &checkpoint.Drop{Epoch: e}}
		_, err := s.Write(t.Context(), stale)
		wantErr(t, err, checkpoint.ErrConflict, "append with a stale head")
		if n := len(mustResults(t, s, l.log, "", e)); n != 2 {
			t.Fatalf("a refused write left %d results, want 2", n)
		}
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Record: l.next(), Head: l.head, Drop: &checkpoint.Drop{Epoch: e}})
		wantResults(t, mustResults(t, s, l.log, "", e), nil)
		wantResults(t, mustResults(t, s, l.log, branch, e), []checkpoint.Result{onBranch})
		wantResults(t, mustResults(t, s, l.log, "", other), []checkpoint.Result{ofOther})
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Drop: &checkpoint.Drop{Branch: branch, Epoch: e}})
		wantResults(t, mustResults(t, s, l.log, branch, e), nil)
	})
	t.Run("results written and dropped by one write leave nothing, but are counted", func(t *testing.T) {
		s, l := open(t), newLine("t")
		e := l.add(t, s, 1)[0].ID
		r := l.next()
		w := mustWrite(t, s, &checkpoint.Write{
			Log: l.log, Record: r, Head: l.head, Drop: &checkpoint.Drop{Epoch: e},
			Results: []checkpoint.Result{result(e, 0, changes, `1`), result(e, 0, routing, `{}`)},
		})
		l.took(r)
		if w.Ignored != 0 {
			t.Fatalf("%d results ignored, want 0", w.Ignored)
		}
		wantResults(t, mustResults(t, s, l.log, "", e), nil)

		e = r.ID
		replaced := result(e, 1, changes, `1`)
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Results: []checkpoint.Result{result(e, 0, changes, `1`), replaced}})
		replaced.Replace = true
		w = mustWrite(t, s, &checkpoint.Write{
			Log: l.log, Record: l.next(), Head: l.head, Drop: &checkpoint.Drop{Epoch: e},
			Results: []checkpoint.Result{
				result(e, 0, changes, `"late"`), replaced, result(e, 0, routing, `{}`), result(e, 0, routing, `{}`),
				result(l.next().ID, 0, changes, `"next"`),
			},
		})
		if w.Ignored != 2 {
			t.Fatalf("%d results ignored, want 2", w.Ignored)
		}
		wantResults(t, mustResults(t, s, l.log, "", e), nil)
		if n := len(mustResults(t, s, l.log, "", l.next().ID)); n != 1 {
			t.Fatalf("%d results of the next superstep, want 1", n)
		}
	})
	t.Run("what was dropped can be written again", func(t *testing.T) {
		s, l := open(t), newLine("t")
		e := l.add(t, s, 1)[0].ID
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Results: []checkpoint.Result{result(e, 0, changes, `1`)}})
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Drop: &checkpoint.Drop{Epoch: e}})
		again := result(e, 0, changes, `2`)
		if n := mustWrite(t, s, &checkpoint.Write{Log: l.log, Results: []checkpoint.Result{again}}).Ignored; n != 0 {
			t.Fatalf("%d results ignored, want 0", n)
		}
		wantResults(t, mustResults(t, s, l.log, "", e), []checkpoint.Result{again})
	})
	t.Run("a superstep may leave thousands of results", func(t *testing.T) {
		s, l := open(t), newLine("t")
		e := l.add(t, s, 1)[0].ID
		const n = 3000
		want := make([]checkpoint.Result, n)
		for i := range want {
			want[i] = result(e, i, changes, fmt.Sprintf(`{"i":%d}`, i))
		}
		for i := 0; i < n; i += 500 {
			mustWrite(t, s, &checkpoint.Write{Log: l.log, Results: want[i : i+500]})
		}
		wantResults(t, mustResults(t, s, l.log, "", e), want)
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Record: l.next(), Head: l.head, Drop: &checkpoint.Drop{Epoch: e}})
		wantResults(t, mustResults(t, s, l.log, "", e), nil)
	})
	t.Run("results of two logs of a thread are apart", func(t *testing.T) {
		s := open(t)
		a, b := checkpoint.Log{Thread: "t"}, checkpoint.Log{Thread: "t", Namespace: "n"}
		e := checkpoint.NewRunID()
		ra, rb := result(e, 0, changes, `"a"`), result(e, 0, changes, `"b"`)
		mustWrite(t, s, &checkpoint.Write{Log: a, Results: []checkpoint.Result{ra}})
		mustWrite(t, s, &checkpoint.Write{Log: b, Results: []checkpoint.Result{rb}})
		wantResults(t, mustResults(t, s, a, "", e), []checkpoint.Result{ra})
		mustWrite(t, s, &checkpoint.Write{Log: a, Drop: &checkpoint.Drop{Epoch: e}})
		wantResults(t, mustResults(t, s, b, "", e), []checkpoint.Result{rb})
	})
}
