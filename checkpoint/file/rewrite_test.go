package file

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"

	"github.com/superstep-dev/superstep/internal/race"
)

func wantSound(t *testing.T, s *Store) {
	t.Helper()
	for c, err := range s.Verify(t.Context(), "") {
		t.Fatalf("damage: %v, %v", c, err)
	}
}

// busyThread makes a thread whose files have lines of all kinds.
func busyThread(t *testing.T, dir string) (w *writer, sub *writer, ids []checkpoint.ID) {
	t.Helper()
	s := mustOpen(t, dir, Options{Sync: SyncNever})
	defer s.Close()
	w, sub = newWriter("t"), newWriter("t")
	sub.log.Namespace = "n"
	must := func(c *checkpoint.Write) checkpoint.Fence {
		t.Helper()
		out, err := s.Write(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return out.Fence
	}
	event := checkpoint.Result{Epoch: "e", Kind: checkpoint.KindEvent, Name: "a", Data: json.RawMessage(`1`)}
	for i := range 5 {
		r := w.next(fmt.Sprintf(`{"n":%d}`, i))
		r.Due = clock
		c := &checkpoint.Write{Log: w.log, Record: r, Head: w.head}
		if i == 0 {
			c.Claim, c.Holder, c.Lease, c.Results = true, "first", time.Hour, []checkpoint.Result{event}
		}
		must(c)
		w.wrote(r)
		ids = append(ids, r.ID)
		sub.add(t, s, `"sub"`)
	}
	w.result(t, s, w.head, 0, `"kept"`)
	must(&checkpoint.Write{Log: w.log, Remove: []checkpoint.ResultKey{event.Key()}})
	fence := must(&checkpoint.Write{Log: w.log, Claim: true, Steal: "first", Holder: "run", Lease: time.Hour})
	must(&checkpoint.Write{Log: w.log, Fence: fence, Release: true})
	must(&checkpoint.Write{Log: w.log, Wake: true})
	must(&checkpoint.Write{Log: w.log, Fence: fence, Holder: "run", Lease: time.Millisecond})
	time.Sleep(3 * time.Millisecond)
	return w, sub, ids
}

// state is all that a store says of the thread t.
func state(t *testing.T, s *Store) map[string]any {
	t.Helper()
	out := map[string]any{}
	for _, ns := range []string{"", "n"} {
		log := checkpoint.Log{Thread: "t", Namespace: ns}
		var rs []*checkpoint.Record
		for r, err := range s.Records(t.Context(), checkpoint.Query{Log: log, AllBranches: true}) {
			if err != nil {
				t.Fatal(err)
			}
			rs = append(rs, r)
		}
		out["records "+ns] = rs
		for _, e := range append([]*checkpoint.Record{{ID: "e"}}, rs...) {
			res, err := s.Results(t.Context(), log, "", e.ID)
			if err != nil {
				t.Fatal(err)
			}
			out[fmt.Sprint("results ", ns, e.ID)] = res
		}
	}
	for _, list := range []string{"due", "abandoned"} {
		l := s.Abandoned(t.Context(), 0)
		if list == "due" {
			l = s.Due(t.Context(), time.Time{}, 0)
		}
		for w, err := range l {
			if err != nil {
				t.Fatal(err)
			}
			out[list] = w
		}
	}
	w, err := s.Write(t.Context(), &checkpoint.Write{Log: checkpoint.Log{Thread: "t"}})
	if err != nil {
		t.Fatal(err)
	}
	out["fence"] = w.Fence
	wantSound(t, s)
	return out
}

// Whenever a process ends while it shortens a thread, the thread is as it was or
// as it was to become.
func TestRewriteThatEndsAnywhere(t *testing.T) {
	for _, whole := range []bool{false, true} {
		rewrite := func(w, sub *writer, ids []checkpoint.ID) *checkpoint.Rewrite {
			if !whole {
				return &checkpoint.Rewrite{Log: w.log, Head: w.head, Remove: ids[:4]}
			}
			// The file's last record is of this log.
			r := &checkpoint.Rewrite{Log: sub.log, Head: sub.head}
			for i := range uint32(5) {
				r.Remove = append(r.Remove, sub.run.Checkpoint(i+1))
			}
			return r
		}
		from := t.TempDir()
		w, sub, ids := busyThread(t, from)
		s := mustOpen(t, from, Options{})
		before := state(t, s)
		copied := func() string {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
				t.Fatal(err)
			}
			return dir
		}
		s = mustOpen(t, copied(), Options{})
		if err := s.Rewrite(t.Context(), rewrite(w, sub, ids)); err != nil {
			t.Fatal(err)
		}
		after := state(t, s)
		if reflect.DeepEqual(before, after) {
			t.Fatal("nothing changed")
		}
		if got := state(t, mustOpen(t, s.driver.dir, Options{})); !reflect.DeepEqual(got, after) {
			t.Fatalf("opened again:\n%v\nwant\n%v", got, after)
		}
		died := errors.New("died")
		seen := [2]int{}
		for k := 0; ; k++ {
			dir := copied()
			s := mustOpen(t, dir, Options{})
			n := 0
			real := s.driver.sys
			step := func() bool { n++; return n > k }
			s.driver.sys = system{
				writeAt: func(f *os.File, b []byte, off int64) (int, error) {
					if step() {
						if n == k+1 { // half of it
							_, _ = real.writeAt(f, b[:len(b)/2], off)
						}
						return 0, died
					}
					return real.writeAt(f, b, off)
				},
				sync: func(f *os.File) error {
					if step() {
						return died
					}
					return real.sync(f)
				},
				truncate: func(f *os.File, size int64) error {
					if step() {
						return died
					}
					return real.truncate(f, size)
				},
				syncDir: func(string) error {
					if step() {
						return died
					}
					return real.syncDir(dir)
				},
				rename: func(a, b string) error {
					if step() {
						return died
					}
					return real.rename(a, b)
				},
				remove: func(string) error { return died },
			}
			err := s.Rewrite(t.Context(), rewrite(w, sub, ids))
			_ = s.Close()
			got := state(t, mustOpen(t, dir, Options{}))
			switch {
			case reflect.DeepEqual(got, before):
				seen[0]++
				if err == nil {
					t.Fatal("acknowledged, and not done")
				}
			case reflect.DeepEqual(got, after):
				seen[1]++
			default:
				t.Fatalf("after %d calls:\n%v\nwant\n%v\nor\n%v", k, got, before, after)
			}
			if err == nil {
				break
			}
		}
		if seen[0] < 3 || seen[1] < 1 {
			t.Fatalf("%v", seen)
		}
	}
}

// Every byte of every kind of line counts, and Verify says where.
func TestDamageOfEveryKindOfLine(t *testing.T) {
	dir := t.TempDir()
	w, sub, ids := busyThread(t, dir)
	s := mustOpen(t, dir, Options{Sync: SyncNever})
	if err := s.Rewrite(t.Context(), &checkpoint.Rewrite{Log: w.log, Head: w.head, Remove: ids[1:3]}); err != nil {
		t.Fatal(err)
	}
	r := &checkpoint.Rewrite{Log: sub.log, Head: sub.head}
	for i := range uint32(5) {
		r.Remove = append(r.Remove, sub.run.Checkpoint(i+1))
	}
	if err := s.Rewrite(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	res := checkpoint.Result{Epoch: "e", Kind: checkpoint.KindEvent, Name: "a", Data: json.RawMessage(`1`)}
	var fence checkpoint.Fence
	for _, c := range []*checkpoint.Write{
		{Log: w.log, Results: []checkpoint.Result{res}},
		{Log: w.log, Remove: []checkpoint.ResultKey{res.Key()}},
		{Log: w.log, Results: []checkpoint.Result{res}},
		{Log: w.log, Drop: &checkpoint.Drop{Epoch: "e"}},
		{Log: w.log, Claim: true, Holder: "run", Lease: time.Hour, Wake: true},
		{Log: w.log, Release: true},
		{Log: w.log, Claim: true, Holder: "run", Lease: time.Hour},
	} {
		if c.Release {
			c.Fence = fence
		}
		out, err := s.Write(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		fence = out.Fence
	}
	w.add(t, s, `"held by nobody's fence"`)
	w.add(t, s, `"held"`)
	sub = newWriter("t")
	sub.log.Namespace = "n"
	sub.add(t, s, `"sub"`)
	wantSound(t, s)
	_ = s.Close()
	path := filepath.Join(dir, "t.jsonl")
	good := readFile(t, path)
	for _, member := range []string{`"fence":`, `"lease":`, `"ttl":`, `"holder":`, `"held":true`, `"held":false`, `"beside":true`, `"woken":`, `"due":`, `"version":`, `"delete":`, `"put":`, `"clear":`, `"ns":`, `"place":`, `"count":`} {
		if !bytes.Contains(good, []byte(member)) {
			t.Fatalf("no line with %s:\n%s", member, good)
		}
	}
	every := 1
	if race.Enabled {
		every = 3
	}
	for i := 0; i < len(good); i += every {
		bad := bytes.Clone(good)
		bad[i] ^= 1
		writeFile(t, path, bad)
		s := mustOpen(t, dir, Options{Sync: SyncNever})
		line := fmt.Sprintf("t.jsonl, line %d", bytes.Count(good[:i], []byte("\n"))+1)
		start := int64(bytes.LastIndexByte(good[:i], '\n') + 1)
		_, _, err := s.Head(t.Context(), w.log)
		wantCorrupt(t, err, line, start)
		n := 0
		for c, err := range s.Verify(t.Context(), "t") {
			if err != nil {
				t.Fatal(err)
			}
			n++
			wantCorrupt(t, c, line, start)
		}
		if n != 1 {
			t.Fatalf("byte %d: %d findings for one", i, n)
		}
		_ = s.Close()
	}
	for cut := range good {
		if cut%every != 0 || cut == 0 || good[cut-1] == '\n' {
			continue
		}
		writeFile(t, path, good[:cut])
		start := int64(bytes.LastIndexByte(good[:cut], '\n') + 1)
		s := mustOpen(t, dir, Options{Sync: SyncNever})
		_, _, err := s.Head(t.Context(), w.log)
		wantCorrupt(t, err, fmt.Sprintf("t.jsonl, line %d", bytes.Count(good[:cut], []byte("\n"))+1), start)
		_ = s.Close()
		if cut%16 != 0 { // it waits for the disk
			continue
		}
		if reps, err := Repair(dir, "t"); err != nil || len(reps) != 1 {
			t.Fatalf("cut at %d: %v, %v", cut, reps, err)
		}
	}
	writeFile(t, path, good)
	wantSound(t, mustOpen(t, dir, Options{}))
}

// All damage is found at once.
func TestVerifyFindsAllDamage(t *testing.T) {
	dir, path, b, last, _ := damaged(t)
	s := mustOpen(t, dir, Options{})
	w := newWriter("another")
	for range 6 {
		w.add(t, s, `"x"`)
	}
	other := filepath.Join(dir, "another.jsonl")
	o := readFile(t, other)
	for _, line := range []int{2, 5} {
		o[bytes.Index(o, fmt.Appendf(nil, `{"seq":%d`, line))+3] ^= 1
	}
	writeFile(t, other, o)
	writeFile(t, path, b[:last+10])
	var got []string
	for c, err := range s.Verify(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, filepath.Base(c.Place))
	}
	if want := []string{"another.jsonl, line 2", "another.jsonl, line 5", "t.jsonl, line 3"}; !reflect.DeepEqual(got, want) {
		t.Fatalf("found %q, want %q", got, want)
	}
}

// Reading goes on over a thread that another store shortens.
func TestReadingWhileAThreadIsShortened(t *testing.T) {
	dir := t.TempDir()
	a, b := mustOpen(t, dir, Options{Sync: SyncNever}), mustOpen(t, dir, Options{Sync: SyncNever})
	w := newWriter("t")
	var ids []checkpoint.ID
	for range 192 {
		ids = append(ids, w.add(t, a, `1`).ID)
	}
	n := 0
	var last int64
	for r, err := range a.Records(t.Context(), checkpoint.Query{Log: w.log}) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Seq <= last {
			t.Fatalf("record %d after %d", r.Seq, last)
		}
		if n++; n == 10 {
			if err := b.Rewrite(t.Context(), &checkpoint.Rewrite{Log: w.log, Head: w.head, Remove: ids[5:150]}); err != nil {
				t.Fatal(err)
			}
		}
		last = r.Seq
	}
	if last != int64(len(ids)) {
		t.Fatalf("ended at record %d of %d", last, len(ids))
	}
	if _, err := a.Write(t.Context(), &checkpoint.Write{Log: w.log, Record: w.next(`2`), Head: "elsewhere"}); !errors.Is(err, checkpoint.ErrConflict) || strings.Contains(err.Error(), "deleted") {
		t.Fatalf("%v", err)
	}
}

// A line that another store is writing is not one that was left incomplete.
func TestReadingWhileALineIsWritten(t *testing.T) {
	dir := t.TempDir()
	a, b := mustOpen(t, dir, Options{Sync: SyncNever}), mustOpen(t, dir, Options{Sync: SyncNever})
	a.driver.sys.writeAt = func(f *os.File, line []byte, off int64) (int, error) {
		for i := range 8 {
			from, to := i*len(line)/8, (i+1)*len(line)/8
			if n, err := f.WriteAt(line[from:to], off+int64(from)); err != nil {
				return from + n, err
			}
			runtime.Gosched()
		}
		return len(line), nil
	}
	w := newWriter("t")
	w.add(t, a, `0`)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if _, _, err := b.Head(contextBackground, w.log); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 1000 {
		w.add(t, a, text1k(200))
		time.Sleep(10 * time.Microsecond) // so that readers know all there is
	}
	close(done)
	readers.Wait()
}

func TestAPollReadsOnlyWhatChanged(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{Sync: SyncNever})
	ws := make([]*writer, 5)
	for i := range ws {
		ws[i] = newWriter(fmt.Sprint("t", i))
		r := ws[i].next(`1`)
		r.Due = clock.Add(time.Duration(i) * time.Hour)
		if _, err := s.Write(t.Context(), &checkpoint.Write{Log: ws[i].log, Record: r}); err != nil {
			t.Fatal(err)
		}
		ws[i].wrote(r)
	}
	poll := func() (n int, known map[string]*glance) {
		t.Helper()
		for _, err := range s.Due(t.Context(), time.Time{}, 0) {
			if n++; err != nil {
				t.Fatal(err)
			}
		}
		known = map[string]*glance{}
		s.driver.glances.Range(func(k, v any) bool { known[k.(string)] = v.(*glance); return true })
		return n, known
	}
	if n, _ := poll(); n != 5 {
		t.Fatalf("%d threads are due", n)
	}
	_, first := poll()
	ws[2].add(t, s, `2`)
	if err := s.Delete(t.Context(), "t3"); err != nil {
		t.Fatal(err)
	}
	n, second := poll()
	if n != 3 || len(second) != 4 {
		t.Fatalf("%d threads are due, %d known", n, len(second))
	}
	for name, w := range second {
		if (w == first[name]) != (name != "t2.jsonl") {
			t.Fatalf("%s was read again, or was not", name)
		}
	}
}

// A lease that is renewed for long leaves no growth, and Compact none at all.
func TestRenewalsLeaveNoGrowth(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{Sync: SyncNever})
	w := newWriter("t")
	w.add(t, s, `1`)
	out, err := s.Write(t.Context(), &checkpoint.Write{Log: w.log, Claim: true, Holder: "run", Lease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for range 2000 {
		if _, err := s.Write(t.Context(), &checkpoint.Write{Log: w.log, Fence: out.Fence, Holder: "run", Lease: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "t.jsonl")
	if n := len(readFile(t, path)); n > 2*tidyAt {
		t.Fatalf("%d bytes for one record", n)
	}
	if err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(readFile(t, path), []byte("\n")); n != 1 {
		t.Fatalf("%d lines, want 1", n)
	}
	again := mustOpen(t, dir, Options{})
	if _, err := again.Write(t.Context(), &checkpoint.Write{Log: w.log, Claim: true, Holder: "other", Lease: time.Hour}); !errors.Is(err, checkpoint.ErrBusy) {
		t.Fatal(err)
	}
}
