package codec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/internal/logtest"
)

// everything reads a thread, as JSON would show it.
func everything(t *testing.T, s *Store, thread checkpoint.ThreadID, epochs ...checkpoint.ID) (out []any) {
	t.Helper()
	for info, err := range s.Logs(t.Context(), thread) {
		if err != nil {
			t.Fatal(err)
		}
		for r, err := range s.Records(t.Context(), checkpoint.Query{Log: info.Log, AllBranches: true}) {
			if err != nil {
				t.Fatal(err)
			}
			c := *r
			c.Log.Thread = ""
			b, err := json.Marshal(&c)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, string(b))
		}
		for _, e := range epochs {
			rs, err := s.Results(t.Context(), info.Log, "", e)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range rs {
				out = append(out, fmt.Sprintf("%+v %s", r.Key(), r.Data))
			}
		}
	}
	return out
}

func rewrap(t *testing.T, s *Store, want int) {
	t.Helper()
	if n, err := s.Rewrap(t.Context(), "t-1"); err != nil || n != want {
		t.Fatalf("%d were sealed anew, want %d; error %v", n, want, err)
	}
}

// stores are the back ends that can do all.
var stores = map[string]func(*testing.T) checkpoint.Store{
	"memory": func(*testing.T) checkpoint.Store { return checkpoint.NewMemory() },
	"sqlite": func(t *testing.T) checkpoint.Store { return openSQLite(t, filepath.Join(t.TempDir(), "db")) },
	"file":   func(t *testing.T) checkpoint.Store { return openFile(t, t.TempDir()) },
}

func TestRotation(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			inner := open(t)
			defer inner.Close()
			s1 := mustWrap(t, inner, Options{Keys: testRing("k1")})
			rs := fill(t, s1, log1, 5)
			sub := fill(t, s1, checkpoint.Log{Thread: "t-1", Namespace: "n"}, 2)
			tip := rs[4].ID
			for i, name := range []string{"c", "a", "b"} {
				logtest.Write(t, s1, &checkpoint.Write{Log: log1, Results: []checkpoint.Result{once(tip, name, fmt.Sprint(i))}})
			}
			event := checkpoint.Result{Epoch: checkpoint.EventsEpoch, Kind: checkpoint.KindEvent, Name: "e", Data: []byte(`{}`)}
			logtest.Write(t, s1, &checkpoint.Write{Log: log1, Results: []checkpoint.Result{event}})
			want := everything(t, s1, "t-1", tip, checkpoint.EventsEpoch)

			// The new key writes, the old one reads, and names are found whichever wrote.
			s2 := mustWrap(t, inner, Options{Keys: testRing("k2", "k1"), Compress: true, Encoding: CBOR})
			if got := everything(t, s2, "t-1", tip, checkpoint.EventsEpoch); !reflect.DeepEqual(got, want) {
				t.Fatalf("got %v, want %v", got, want)
			}
			if n := logtest.Write(t, s2, &checkpoint.Write{Log: log1, Results: []checkpoint.Result{once(tip, "a", `"again"`)}}).Ignored; n != 1 {
				t.Fatalf("%d results ignored, want the one that was there", n)
			}
			gone := once(tip, "c", "")
			logtest.Write(t, s2, &checkpoint.Write{Log: log1, Remove: []checkpoint.ResultKey{gone.Key()}, Results: []checkpoint.Result{once(tip, "d", `3`)}})
			want = everything(t, s2, "t-1", tip, checkpoint.EventsEpoch)
			only := mustWrap(t, inner, Options{Keys: testRing("k2")})
			if _, err := only.Get(t.Context(), log1, rs[0].ID); !errors.Is(err, ErrKey) {
				t.Fatalf("got error %v", err)
			}

			// With names hashed by the new key as well, the old one can go.
			ring := testRing("k2", "k1")
			ring.Names = testKey("k2")
			full := mustWrap(t, inner, Options{Keys: ring})
			rewrap(t, full, len(rs)+len(sub)+3+1)
			rewrap(t, full, 0)
			if got := everything(t, only, "t-1", tip, checkpoint.EventsEpoch); !reflect.DeepEqual(got, want) {
				t.Fatalf("got %v, want %v", got, want)
			}
			if _, _, err := s1.Head(t.Context(), log1); !errors.Is(err, ErrKey) {
				t.Fatalf("got error %v", err)
			}
			for c, err := range only.Verify(t.Context(), "") {
				t.Fatalf("got %v, %v", c, err)
			}
		})
	}
}

func TestFirstEncryption(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			inner := open(t)
			defer inner.Close()
			bare := mustWrap(t, inner, Options{})
			var rs []*checkpoint.Record
			for _, r := range sample(log1, 4) {
				var head checkpoint.ID
				if len(rs) > 0 {
					head = rs[len(rs)-1].ID
				}
				logtest.Write(t, inner, &checkpoint.Write{Log: log1, Record: r, Head: head})
				rs = append(rs, r)
			}
			tip := rs[3].ID
			replaced := checkpoint.Result{Epoch: tip, Kind: checkpoint.KindOpen, Data: []byte(`[1]`), Replace: true}
			logtest.Write(t, inner, &checkpoint.Write{Log: log1, Results: []checkpoint.Result{once(tip, "a", `1`), once(tip, "b", `2`), replaced, once(tip, "c", `3`)}})

			// While it is going on, what stands in clear counts.
			s := mustWrap(t, inner, Options{Keys: testRing("k1"), AllowPlain: true})
			b := once(tip, "b", "")
			replaced.Data = []byte(`[2]`)
			w := &checkpoint.Write{Log: log1, Remove: []checkpoint.ResultKey{b.Key()}, Results: []checkpoint.Result{once(tip, "a", `"again"`), once(tip, "b", `"new"`), replaced}}
			if n := logtest.Write(t, s, w).Ignored; n != 1 {
				t.Fatalf("%d results ignored, want 1", n)
			}
			want := everything(t, s, "t-1", tip)
			if fmt.Sprint(want[4:]) != fmt.Sprint([]string{
				fmt.Sprintf("{Branch: Epoch:%s Task:0 Gen:0 Kind:once Name:a} 1", tip), fmt.Sprintf("{Branch: Epoch:%s Task:0 Gen:0 Kind:once Name:c} 3", tip),
				fmt.Sprintf("{Branch: Epoch:%s Task:0 Gen:0 Kind:once Name:b} \"new\"", tip), fmt.Sprintf("{Branch: Epoch:%s Task:0 Gen:0 Kind:open Name:} [2]", tip),
			}) {
				t.Fatalf("got %v", want[4:])
			}
			rewrap(t, s, 4+4)
			strict := mustWrap(t, inner, Options{Keys: testRing("k1")})
			if got := everything(t, strict, "t-1", tip); !reflect.DeepEqual(got, want) {
				t.Fatalf("got %v, want %v", got, want)
			}
			if _, _, err := bare.Head(t.Context(), log1); !errors.Is(err, ErrKey) {
				t.Fatalf("got error %v", err)
			}
		})
	}
}

func TestRewrapWithoutKeys(t *testing.T) {
	inner := checkpoint.NewMemory()
	fill(t, inner, log1, 3)
	s := mustWrap(t, inner, Options{Compress: true})
	want := everything(t, s, "t-1")
	rewrap(t, s, 3)
	rewrap(t, s, 0)
	if got := everything(t, s, "t-1"); !reflect.DeepEqual(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func TestRewrapLeavesRunsAlone(t *testing.T) {
	inner := checkpoint.NewMemory()
	old := mustWrap(t, inner, Options{Keys: testRing("k1")})
	fill(t, old, log1, 3)
	s := mustWrap(t, inner, Options{Keys: testRing("k2", "k1")})
	release, _, err := s.Lock(t.Context(), "t-1", "a run", checkpoint.TryLock, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Rewrap(t.Context(), "t-1"); !errors.Is(err, checkpoint.ErrBusy) {
		t.Fatalf("got error %v", err)
	}
	release(false)
	f := logtest.Write(t, s, &checkpoint.Write{Log: log1, Claim: true, Holder: "a run", Lease: time.Hour}).Fence
	if _, err := s.Rewrap(t.Context(), "t-1"); !errors.Is(err, checkpoint.ErrBusy) {
		t.Fatalf("got error %v", err)
	}
	logtest.Write(t, s, &checkpoint.Write{Log: log1, Fence: f, Release: true})
	rewrap(t, s, 3)
	logtest.Write(t, s, &checkpoint.Write{Log: log1, Fence: f}) // it took nothing over
}

// 35 MB are sealed anew in more than one rewrite.
func TestCopyInBatches(t *testing.T) {
	inner := checkpoint.NewMemory()
	s := mustWrap(t, inner, Options{Keys: testRing("k1")})
	var head checkpoint.ID
	big := append(append([]byte{'"'}, make([]byte, 7<<20)...), '"')
	for i := range big[1 : len(big)-1] {
		big[i+1] = 'x'
	}
	for _, r := range sample(log1, 5) {
		r.Changes[0].Data = big
		logtest.Write(t, s, &checkpoint.Write{Log: log1, Record: r, Head: head})
		head = r.ID
	}
	if err := s.Copy(t.Context(), "t-1", "t-2"); err != nil {
		t.Fatal(err)
	}
	if got, want := everything(t, s, "t-2"), everything(t, s, "t-1"); !reflect.DeepEqual(got, want) {
		t.Fatal("the copy is different")
	}
}

func TestCopyThatFailsLeavesNothing(t *testing.T) {
	m := &meddler{Memory: checkpoint.NewMemory()}
	s := mustWrap(t, m, Options{Keys: testRing("k1")})
	rs := fill(t, s, log1, 5)
	m.record = func(r *checkpoint.Record) {
		if r.ID == rs[3].ID && r.Sealed.Data != nil {
			r.Sealed.Data[3] ^= 1
		}
	}
	err := s.Copy(t.Context(), "t-1", "t-2")
	if !errors.Is(err, checkpoint.ErrCorrupt) {
		t.Fatalf("got error %v", err)
	}
	m.record = nil
	if _, _, err := m.Memory.Head(t.Context(), checkpoint.Log{Thread: "t-2"}); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Fatalf("got error %v, want nothing left", err)
	}
	if _, _, err := s.Head(t.Context(), log1); err != nil {
		t.Fatal(err)
	}
}

func TestVerify(t *testing.T) {
	m := &meddler{Memory: checkpoint.NewMemory()}
	s := mustWrap(t, m, Options{Keys: testRing("k1")})
	rs := fill(t, s, log1, 3)
	other := fill(t, s, checkpoint.Log{Thread: "t-2"}, 2)
	logtest.Write(t, s, &checkpoint.Write{Log: log1, Results: []checkpoint.Result{once(rs[2].ID, "a", `1`)}})
	find := func(thread checkpoint.ThreadID) (out []string) {
		for c, err := range s.Verify(t.Context(), thread) {
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, string(c.Thread)+" "+c.Place)
		}
		return out
	}
	if got := find(""); got != nil {
		t.Fatalf("got %v", got)
	}
	m.record = func(r *checkpoint.Record) {
		if r.ID == rs[1].ID || r.ID == other[0].ID {
			r.Sealed.Meta[30] ^= 1
		}
	}
	m.result = func(r *checkpoint.Result) { r.Task++ }
	want := []string{
		fmt.Sprintf("t-1 record %s", rs[1].ID), fmt.Sprintf("t-1 result once of task 1 of epoch %s", rs[2].ID),
	}
	if got := find("t-1"); !reflect.DeepEqual(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	if got := find(""); len(got) != 3 {
		t.Fatalf("got %v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n := 0
	for _, err := range s.Verify(ctx, "") {
		if n++; !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
	}
	if n != 1 {
		t.Fatalf("yielded %d times", n)
	}
}

// poor can do no more than it must.
type poor struct{ checkpoint.Store }

func TestAbilitiesThatAreMissing(t *testing.T) {
	for _, o := range []Options{{}, {Keys: testRing("k1")}} {
		s := mustWrap(t, poor{checkpoint.NewMemory()}, o)
		ctx := t.Context()
		fill(t, s, log1, 1)
		errs := map[string]error{
			"Copy": s.Copy(ctx, "t-1", "t-2"), "Rewrite": s.Rewrite(ctx, &checkpoint.Rewrite{Log: log1}),
		}
		_, errs["Rewrap"] = s.Rewrap(ctx, "t-1")
		for _, err := range s.Threads(ctx, checkpoint.ThreadFilter{}) {
			errs["Threads"] = err
		}
		for _, err := range s.Logs(ctx, "t-1") {
			errs["Logs"] = err
		}
		for _, err := range s.Due(ctx, time.Time{}, 0) {
			errs["Due"] = err
		}
		for _, err := range s.Abandoned(ctx, 0) {
			errs["Abandoned"] = err
		}
		for _, err := range s.Verify(ctx, "") {
			errs["Verify"] = err
		}
		if len(errs) != 8 {
			t.Fatalf("got %v", errs)
		}
		for what, err := range errs {
			if !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%s: got error %v", what, err)
			}
		}
		release, _, err := s.Lock(ctx, "t-1", "a", checkpoint.TryLock, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Lock(ctx, "t-1", "b", checkpoint.TryLock, nil); !errors.Is(err, checkpoint.ErrBusy) {
			t.Errorf("got error %v", err)
		}
		release(false)
	}
}

// Whatever the options were when it was written, it is read.
func TestOptionsMayChange(t *testing.T) {
	for _, first := range []Options{{}, {Compress: true}, {Encoding: CBOR}, {Compress: true, Encoding: CBOR}} {
		inner := checkpoint.NewMemory()
		var head checkpoint.ID
		for i, r := range sample(log1, 8) {
			o := first
			o.Compress, o.Encoding = o.Compress != (i%2 == 0), Encoding(i/2%2)
			s := mustWrap(t, inner, o)
			r.Changes[0].Data = fmt.Appendf(nil, `"%0200d"`, i)
			res := once("e", fmt.Sprint(i), fmt.Sprintf(`"superstep:sealed:%0200d"`, i))
			logtest.Write(t, s, &checkpoint.Write{Log: log1, Record: r, Head: head, Results: []checkpoint.Result{res}})
			head = r.ID
		}
		n := 0
		s := mustWrap(t, inner, first)
		for r, err := range s.Records(t.Context(), checkpoint.Query{Log: log1}) {
			if err != nil || string(r.Changes[0].Data) != fmt.Sprintf(`"%0200d"`, n) {
				t.Fatalf("got %v, %v", r, err)
			}
			n++
		}
		rs, err := s.Results(t.Context(), log1, "", "e")
		if err != nil || n != 8 || len(rs) != 8 {
			t.Fatalf("%d records, %d results, %v", n, len(rs), err)
		}
		for i, r := range rs {
			if string(r.Data) != fmt.Sprintf(`"superstep:sealed:%0200d"`, i) {
				t.Fatalf("got %s", r.Data)
			}
		}
	}
}

func TestResultThatIsNoJSON(t *testing.T) {
	for _, f := range forms {
		s := mustWrap(t, checkpoint.NewMemory(), f.Options)
		if _, err := s.Write(t.Context(), &checkpoint.Write{Log: log1, Results: []checkpoint.Result{once("e", "n", `{`)}}); err == nil {
			t.Errorf("%s: it is stored", f.name)
		}
	}
}
