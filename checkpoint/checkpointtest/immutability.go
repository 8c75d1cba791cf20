package checkpointtest

import (
	"encoding/json"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
)

func testImmutability(t *testing.T, open Opener, _ Options) {
	t.Run("records that were read do not change with later writes", func(t *testing.T) {
		s, l := open(t), newLine("t")
		l.write(t, s, fullRecord(l.next()))
		head := mustHead(t, s, l.log)
		list := mustCollect(t, s, checkpoint.Query{Log: l.log})
		meta := mustCollect(t, s, checkpoint.Query{Log: l.log, Meta: true})
		before, err := json.Marshal([]any{head, list, meta})
		if err != nil {
			t.Fatal(err)
		}
		first := l.tip
		l.add(t, s, 50)
		at, err := s.Get(t.Context(), l.log, first)
		if err != nil {
			t.Fatal(err)
		}
		l.write(t, s, l.fork(at))
		l.add(t, s, 50)
		if err := s.Delete(t.Context(), l.log.Thread); err != nil {
			t.Fatal(err)
		}
		newLine("t").add(t, s, 3)
		after, err := json.Marshal([]any{head, list, meta})
		if err != nil {
			t.Fatal(err)
		}
		if string(before) != string(after) {
			t.Fatalf("records changed after they were read:\n%s\n%s", before, after)
		}
	})
	t.Run("results that were read do not change with later writes", func(t *testing.T) {
		s, l := open(t), newLine("t")
		e := l.add(t, s, 1)[0].ID
		r := result(e, 0, checkpoint.KindOpen, `[1]`)
		r.Replace = true
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Results: []checkpoint.Result{r}})
		got := mustResults(t, s, l.log, "", e)
		for _, data := range []string{`[2]`, `[3]`} {
			n := r
			n.Data = []byte(data)
			mustWrite(t, s, &checkpoint.Write{Log: l.log, Results: []checkpoint.Result{n}})
		}
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Drop: &checkpoint.Drop{Epoch: e}})
		wantResults(t, got, []checkpoint.Result{r})
	})
	t.Run("the slice of results is the reader's own", func(t *testing.T) {
		s, l := open(t), newLine("t")
		e := l.add(t, s, 1)[0].ID
		r := result(e, 0, checkpoint.KindChanges, `1`)
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Results: []checkpoint.Result{r}})
		mustResults(t, s, l.log, "", e)[0] = checkpoint.Result{}
		wantResults(t, mustResults(t, s, l.log, "", e), []checkpoint.Result{r})
	})
	t.Run("the writer may use its Write and slice of results again", func(t *testing.T) {
		s, l := open(t), newLine("t")
		e := l.add(t, s, 1)[0].ID
		r := result(e, 0, checkpoint.KindChanges, `1`)
		w := &checkpoint.Write{Log: l.log, Results: []checkpoint.Result{r}}
		mustWrite(t, s, w)
		w.Results[0] = result(e, 1, checkpoint.KindChanges, `2`)
		*w = checkpoint.Write{}
		wantResults(t, mustResults(t, s, l.log, "", e), []checkpoint.Result{r})
	})
}
