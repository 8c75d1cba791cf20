package file

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/checkpointtest"
	"github.com/superstep-dev/superstep/internal/race"
)

// conversation writes turns of two records with 1,000 bytes of messages.
func conversation(t testing.TB, s *Store, w *writer, turns int) (messages int64) {
	t.Helper()
	for turn := range turns {
		w.run, w.n = checkpoint.NewRunID(), 0
		for _, role := range []string{"human", "ai"} {
			msg := fmt.Sprintf(`{"role":%q,"id":"m%d","content":"`, role, turn)
			msg += strings.Repeat("x", 500-len(msg)-2) + `"}`
			messages += int64(len(msg))
			r := w.next(`{"messages":[` + msg + `]}`)
			r.Step = turn
			if role == "human" {
				r.Source, r.Changes[0].Node = checkpoint.SourceInput, ""
				r.Tasks = []checkpoint.Task{{Node: "agent", From: "__start__"}}
			}
			for range min(turn+1, 20) {
				r.Recent = append(r.Recent, "agent")
			}
			if _, err := s.Write(contextBackground, &checkpoint.Write{Log: w.log, Record: r, Head: w.head}); err != nil {
				t.Fatal(err)
			}
			w.wrote(r)
		}
	}
	return messages
}

func TestConversationGrowsWithItsMessages(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{Sync: SyncNever})
	w := newWriter("t")
	messages := conversation(t, s, w, 2000)
	st, err := os.Stat(filepath.Join(dir, "t.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes for %d of messages: %.2f", st.Size(), messages, float64(st.Size())/float64(messages))
	if 2*st.Size() > 3*messages {
		t.Fatalf("%d bytes on disk for %d bytes of messages", st.Size(), messages)
	}
	if n := len(shapes(t, filepath.Join(dir, "t.jsonl"))); n != 4000 {
		t.Fatalf("%d lines", n)
	}
}

func TestResultsLeaveNoGrowth(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{Sync: SyncNever})
	w := newWriter("t")
	r := w.add(t, s, "1")
	w.result(t, s, "kept", 3, text1k(100))
	for range 500 {
		for task := range 3 {
			w.result(t, s, r.ID, task, text1k(300))
		}
		next := w.next("1")
		cw := &checkpoint.Write{Log: w.log, Record: next, Head: w.head, Drop: &checkpoint.Drop{Epoch: r.ID}}
		if _, err := s.Write(t.Context(), cw); err != nil {
			t.Fatal(err)
		}
		w.wrote(next)
		r = next
	}
	st, err := os.Stat(filepath.Join(dir, "t.pending"))
	if err != nil {
		t.Fatal(err)
	}
	if st.Size() > 3*compactAt {
		t.Fatalf("results that were dropped take %d bytes", st.Size())
	}
	for _, s := range []*Store{s, mustOpen(t, dir, Options{})} {
		rs, err := s.Results(t.Context(), w.log, "", "kept")
		if err != nil || len(rs) != 1 || rs[0].Task != 3 {
			t.Fatalf("the result that was not dropped: %v, %v", rs, err)
		}
		if rs, err := s.Results(t.Context(), w.log, "", w.head); err != nil || len(rs) != 0 {
			t.Fatalf("%v, %v", rs, err)
		}
	}
}

// W7-45.
func TestHundredThreadsAtOnce(t *testing.T) { // W7-45
	for _, maxOpen := range []int{0, 3} {
		dir := t.TempDir()
		s := mustOpen(t, dir, Options{Sync: SyncNever, MaxOpen: maxOpen})
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				w := newWriter(fmt.Sprintf("t-%d", i))
				for n := range 50 {
					r := w.next(fmt.Sprint(n))
					if _, err := s.Write(contextBackground, &checkpoint.Write{Log: w.log, Record: r, Head: w.head}); err != nil {
						t.Error(err)
						return
					}
					w.wrote(r)
				}
			})
		}
		wg.Wait()
		s.mu.Lock()
		open := s.lru.Len()
		s.mu.Unlock()
		if open > s.opts.MaxOpen {
			t.Fatalf("%d threads are open, %d may be", open, s.opts.MaxOpen)
		}
		for i := range 100 {
			if n := len(shapes(t, filepath.Join(dir, fmt.Sprintf("t-%d.jsonl", i)))); n != 50 {
				t.Fatalf("thread %d has %d lines", i, n)
			}
		}
	}
}

// W7-30.
func TestMetadataListingNeedsLittleMemory(t *testing.T) { // W7-30
	n, body := 10000, 100<<10
	if race.Enabled || testing.Short() {
		n = 1000
	}
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{Sync: SyncNever})
	w := newWriter("t")
	data := text1k(body)
	for range n {
		w.add(t, s, data)
	}
	_ = s.Close()
	s = mustOpen(t, dir, Options{})
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before, seq := heap(), int64(0)
	var most int64
	for r, err := range s.Records(t.Context(), checkpoint.Query{Log: w.log, Meta: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if seq++; r.Seq != seq || r.CreatedAt.IsZero() || r.Changes[0].Data != nil {
			t.Fatalf("record %d: %+v", seq, r)
		}
		if seq%1000 == 0 {
			most = max(most, heap()-before)
		}
	}
	if seq != int64(n) || most > 4<<20 {
		t.Fatalf("%d records listed with %d bytes of memory", seq, most)
	}
	t.Logf("%d records of %d bytes: %d bytes of memory", n, body, most)
}

func TestHeadsAreListedFromTheEnds(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{Sync: SyncNever})
	w := newWriter("t")
	for i := range 5 {
		want := w.add(t, s, text1k(40000))
		info, ok := s.quickInfo(filepath.Join(dir, "t.jsonl"), "t")
		if !ok || !reflect.DeepEqual(info.Head, want.Meta()) || info.Records != int64(i)+1 || !info.CreatedAt.Equal(clock) {
			t.Fatalf("%v: %+v", ok, info)
		}
	}
}

func BenchmarkStore(b *testing.B) {
	checkpointtest.Benchmark(b, func(b *testing.B) checkpoint.Store { return mustOpen(b, b.TempDir(), Options{}) })
}

func BenchmarkAppend(b *testing.B) {
	for name, when := range map[string]Sync{"sync": SyncEvery, "nosync": SyncNever} {
		for _, n := range []int{1, 1000, 100000} {
			b.Run(fmt.Sprintf("%s/after=%d", name, n), func(b *testing.B) {
				dir := b.TempDir()
				s := mustOpen(b, dir, Options{Sync: SyncNever})
				w := newWriter("t")
				for range n {
					w.add(b, s, text1k(200))
				}
				_ = s.Close()
				s = mustOpen(b, dir, Options{Sync: when})
				w.add(b, s, text1k(200))
				for b.Loop() {
					w.add(b, s, text1k(200))
				}
			})
		}
	}
}

func BenchmarkHundredThreads(b *testing.B) {
	for name, when := range map[string]Sync{"sync": SyncEvery, "nosync": SyncNever} {
		b.Run(name, func(b *testing.B) {
			s := mustOpen(b, b.TempDir(), Options{Sync: when})
			writers := make([]*writer, 100)
			for i := range writers {
				writers[i] = newWriter(fmt.Sprint(i))
			}
			for b.Loop() { // one record on each thread
				var wg sync.WaitGroup
				for _, w := range writers {
					wg.Go(func() { w.add(b, s, text1k(200)) })
				}
				wg.Wait()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(writers)), "ns/record")
		})
	}
}

func BenchmarkLoadConversation(b *testing.B) {
	dir := b.TempDir()
	s := mustOpen(b, dir, Options{Sync: SyncNever})
	w := newWriter("t")
	conversation(b, s, w, 2000)
	path := filepath.Join(dir, "t.jsonl")
	b.Run("read the file", func(b *testing.B) {
		for b.Loop() {
			if bytes.Count(readFile(b, path), []byte("\n")) != 4000 {
				b.Fatal("lines")
			}
		}
	})
	load := func(b *testing.B, s *Store) {
		if n, err := count(s, w.log); err != nil || n != 4000 {
			b.Fatal(n, err)
		}
	}
	b.Run("warm", func(b *testing.B) {
		for b.Loop() {
			load(b, s)
		}
	})
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			s, err := Open(dir, Options{})
			if err != nil {
				b.Fatal(err)
			}
			load(b, s)
			_ = s.Close()
		}
	})
	b.Run("cold head", func(b *testing.B) {
		for b.Loop() {
			s, err := Open(dir, Options{})
			if err != nil {
				b.Fatal(err)
			}
			if _, _, err := s.Head(contextBackground, w.log); err != nil {
				b.Fatal(err)
			}
			_ = s.Close()
		}
	})
}

// FuzzLine: whatever a line holds, decoding it ends, and what it takes for good
// has the right checksum.
func FuzzLine(f *testing.F) {
	w := newWriter("t")
	ln := line{Seq: 1, Version: 1, Thread: (*text)(&w.log.Thread), Claim: 2}
	if err := ln.setRecord(w.next(`{"a":[1,"\\\""]}`), before{}); err != nil {
		f.Fatal(err)
	}
	b, err := ln.encode(seedOf("t"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b[:len(b)-1])
	f.Add([]byte(`{"seq":1,"after":0,"results":[{"v":100,"epoch":"e","kind":"once"}],"crc":"00000000"}`))
	f.Add([]byte(`{"seq":1,"checkpoint":{"id":"\`))
	f.Add([]byte(`{"seq":4,"v":2,"thread":"t","skip":3,"gone":true,"crc":"00000000"}`))
	f.Add([]byte(`{"seq":1,"v":2,"thread":"t","after":0,"reset":true,"claim":1,"lease":{"holder":"h","until":"2026-03-04T05:06:07Z","ttl":1},` +
		`"wake":"2026-03-04T05:06:07Z","remove":[{"epoch":"e","kind":"event"}],"crc":"00000000"}`))
	f.Add([]byte(`{"seq":1,"created_at":"2026-03-04T05:06:07Z","v":3,"thread":"t","claim":1,"lease":[-1,2," p"],` +
		`"checkpoint":{"id":"01a20281-baab-79f2-8065-fc7c00000001"}`))
	f.Add([]byte(`{"seq":1,"release":true,"held":true,"checkpoint":{"v":101,"id":"i","a":[1,2],"h":[1,2],"a":5}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		seed := seedOf("t")
		if body, err := unseal(seed, b); err == nil && !bytes.Equal(seal(seed, bytes.Clone(body)), b) {
			t.Fatal("checksum")
		}
		if n := wholeLine(seed, b); n > 0 {
			if _, err := unseal(seed, b[:n]); err != nil {
				t.Fatal(err)
			}
		}
		// Behind a good checksum anything may stand.
		body := bytes.TrimSuffix(b, []byte("}"))
		h, err := parseHead(body)
		if err != nil {
			_, _ = decodeRecord(body, checkpoint.Log{Thread: "t"}, before{head: "h"})
			return
		}
		x := newIndex()
		_, _ = x.addMain(&h, 0, len(b)), x.addPending(&h, 0, len(b))
		_, _ = decodeRecord(body, checkpoint.Log{Thread: "t"}, before{head: "h"})
		_, _ = decodeResults(b)
	})
}
