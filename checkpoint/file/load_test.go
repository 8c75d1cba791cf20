package file

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/checkpointtest"
	"github.com/superstep-dev/superstep/checkpoint/engine"
	"github.com/superstep-dev/superstep/internal/race"
	"pgregory.net/rapid"
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
	st, err := os.Stat(filepath.Join(dir, "t.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	live := int64(0) // what the records take
	for _, line := range bytes.SplitAfter(readFile(t, filepath.Join(dir, "t.jsonl")), []byte("\n")) {
		if bytes.Contains(line, []byte(`,"d":`)) {
			live += int64(len(line))
		}
	}
	if st.Size() > 2*live+2*tidyAt {
		t.Fatalf("results that were dropped take %d bytes", st.Size()-live)
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
		d := s.driver
		d.mu.Lock()
		open := len(d.threads)
		d.mu.Unlock()
		if open > d.opts.MaxOpen {
			t.Fatalf("%d threads are open, %d may be", open, d.opts.MaxOpen)
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

// What a list says of a thread the ends of its file say, however long it is.
func TestHeadsAreListedFromTheEnds(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{Sync: SyncNever})
	w := newWriter("t")
	for i := range 8 {
		if i%3 == 0 { // a new run
			w.run, w.n = checkpoint.NewRunID(), 0
		}
		want := w.add(t, s, text1k(40000))
		for _, more := range []func(){func() {}, func() { w.result(t, s, w.head, 0, `1`) }} {
			more()
			g := glanceAt(t, dir)
			for info, err := range s.Threads(t.Context(), checkpoint.ThreadFilter{}) {
				if err != nil || !reflect.DeepEqual(info.Head, want.Meta()) || info.Records != int64(i)+1 || !info.CreatedAt.Equal(clock) {
					t.Fatalf("%+v, %v", info, err)
				}
				if g.head.ID != info.Head.ID || g.head.Bytes != info.Bytes {
					t.Fatalf("at a glance: %+v; want %+v", g, info)
				}
			}
		}
	}
}

// The end of a long file tells of the thread what all of it tells, wherever reading begins.
func TestTheEndOfAFileTellsWhatAllOfItTells(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{Sync: SyncNever})
	w, sub := newWriter("t"), newWriter("t")
	sub.log.Namespace = "n"
	add := func(graph string) {
		r := w.next(text1k(2000))
		r.Graph = graph
		if _, err := s.Write(t.Context(), &checkpoint.Write{Log: w.log, Record: r, Head: w.head}); err != nil {
			t.Fatal(err)
		}
		w.wrote(r)
	}
	add("") // what a line says of the graph is not its log's
	for i := range 150 {
		place := []string{" here", " there"}[i/50%2]
		turn(t, s, w, place, time.Hour, i%7 == 3)
		if i%3 == 0 {
			sub.add(t, s, text1k(3000))
			w.result(t, s, w.head, i, `1`)
		}
		add([]string{"chat", ""}[i%2])
		if i%5 == 0 {
			c := &checkpoint.Write{Log: w.log, Wake: true}
			if i%7 == 3 {
				c = &checkpoint.Write{Log: w.log, Claim: true, Steal: string(w.run) + place, Holder: "other", Lease: time.Minute}
			}
			if _, err := s.Write(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		g := glanceAt(t, dir)
		if err := s.driver.view(t.Context(), "t", func(th *thread, x *index) error {
			head, err := th.row("", len(x.logs[""].rows)-1, true)
			if !sameHeader(&g.header, &x.header) || !reflect.DeepEqual(g.head, head) {
				t.Errorf("turn %d: at a glance\n%+v\n%+v\nwant\n%+v\n%+v", i, g.header, g.head, x.header, head)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		// What is written next must fit both.
		if _, err := s.Write(t.Context(), &checkpoint.Write{Log: w.log, Claim: true, Steal: g.header.Lease.Holder}); err != nil {
			t.Fatal(err)
		}
	}
	if st, err := os.Stat(filepath.Join(dir, "t.jsonl")); err != nil || st.Size() < 256<<10 {
		t.Fatalf("the file is short: %v, %v", st.Size(), err)
	}
	wantSound(t, s)
}

// glanceAt returns what the ends of the file of thread t say.
func glanceAt(t *testing.T, dir string) *glance {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "t.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	g, ok := (&source{id: "t", seed: seedOf("t"), f: f}).glance()
	if !ok {
		t.Fatal("the ends of the file do not say it")
	}
	return g
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

// FuzzLine: whatever a line holds, reading it ends, and what it takes for good
// has the right checksum.
func FuzzLine(f *testing.F) {
	for _, l := range []string{
		`{"seq":1,"v":8,"at":"2026-03-04T05:06:07Z","thread":"t","run":"01a20281-baab-79f2-8065-fc7c","fence":7,"bytes":40,"s":1,"g":"chat","d":{"a":[1,"\\\""]}`,
		`{"seq":1,"v":8,"at":"2026-03-04T05:06:07Z","thread":"*AP8","beside":true,"fence":7,"woken":3,"version":5,"delete":["k"],"put":["*AAEC","a","k","v"],"clear":["x"]`,
		`{"seq":1,"at":"\`,
		`{"seq":1,"v":8,"at":"2026-03-04T05:06:07Z","thread":"t","ns":"n","id":"x","lease":-1,"ttl":2,"holder":"p","due":5,"minute":3,"labels":["l"],"version":2,"place":4,"count":2,"bytes":1,"b":"y","q":3,"v":200,"x":1,"raw":"*\n\""`,
		`{"seq":1,"at":"2026-03-04T05:06:07Z","id":"i","held":true,"a":[1,2],"h":[1,2],"ds":[5,6]`,
	} {
		f.Add(seal(seedOf("t"), []byte(l)))
	}
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
		for _, body := range [][]byte{bytes.TrimSuffix(b, []byte("}")), b[:max(len(b)-crcLen, 0)]} {
			x := newIndex()
			e, err := x.read(body, -1)
			if err == nil && x.apply(e, 0, len(b)) == nil && !e.beside {
				_, _ = x.row("t", body, 0, false)
			}
		}
	})
}

// Any bytes are the same again.
func TestTextsHoldAnyBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
			rapid.StringMatching(`[*"\\a-c\x00-\x1f]{0,9}`)).Draw(t, "text")
		b := appendText(nil, s)
		if got, ok := textOf(b); !ok || got != s {
			t.Fatalf("%q is %s, read as %q", s, b, got)
		}
		if !json.Valid(b) || bytes.IndexByte(b, '\n') >= 0 {
			t.Fatalf("%q is %s", s, b)
		}
	})
}

func lastOf(x *index) (id idKey) {
	if lx := x.logs["n"]; lx != nil {
		id = lx.last().id
	}
	return id
}

// What is sealed says its format first, whatever stands in its line and what before it.
func TestSealedRecordsOutliveARewrite(t *testing.T) {
	s, w := mustOpen(t, t.TempDir(), Options{Sync: SyncNever}), newWriter("t")
	for range 70 {
		w.run, w.n = checkpoint.NewRunID(), 0
		r := w.next("1")
		r.Changes, r.Graph, r.Sealed = nil, "", &checkpoint.Sealed{Meta: []byte{1, 2}, Data: []byte("x")}
		if _, err := s.Write(t.Context(), &checkpoint.Write{Log: w.log, Record: r, Head: w.head}); err != nil {
			t.Fatal(err)
		}
		w.wrote(r)
		w.result(t, s, w.head, 1, text1k(2000))
		if _, err := s.Write(t.Context(), &checkpoint.Write{Log: w.log, Drop: &checkpoint.Drop{Epoch: w.head}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantSound(t, s)
}

// A row is the same again, whatever it consists of.
func TestRowsAreReadAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const id = "t"
		x, seed := newIndex(), seedOf(id)
		runs := []checkpoint.ID{checkpoint.NewRunID(), checkpoint.NewRunID()}
		var rows []engine.Row
		var lines [][]byte
		n := uint32(0)
		for range rapid.IntRange(1, 5).Draw(t, "rows") {
			n++
			r := engine.Row{Namespace: "n", At: rapid.Int64().Draw(t, "at"), Bytes: rapid.Int64Range(1, 1<<40).Draw(t, "bytes")}
			r.ID = rapid.SampledFrom(runs).Draw(t, "run").Checkpoint(n)
			r.Place = x.logs["n"].newest() + rapid.SampledFrom([]int64{1, 2, 15}).Draw(t, "place")
			r.Seq = rapid.SampledFrom([]int64{r.Place, 1, 7}).Draw(t, "seq")
			r.Count = rapid.SampledFrom([]int64{r.Place, 1, 7}).Draw(t, "count")
			r.Branch = rapid.SampledFrom([]checkpoint.Branch{"", "\xff", "b"}).Draw(t, "branch")
			m := `{"v":` + rapid.SampledFrom([]string{"100", "101"}).Draw(t, "format")
			if k := rapid.SampledFrom([]string{"", "5", "b", "before"}).Draw(t, "parent"); k == "before" {
				m += `,"p":` + string(lastOf(x).parent(nil))
			} else if k != "" {
				m += `,"p":"` + k + `"`
			}
			if rapid.Bool().Draw(t, "else") {
				m += `,"c":[["a",0,5]],"x":{"g":"g"}`
			}
			if g := rapid.SampledFrom([]string{"", "g", "h"}).Draw(t, "graph"); g != "" {
				m += `,"g":"` + g + `"`
			}
			r.Meta = []byte(m + "}")
			for range rapid.IntRange(0, 3).Draw(t, "values") {
				r.Data = append(r.Data, rapid.SampledFrom([]string{`{"a":"\\\""}`, `"}"`, `[1,{}]`, `5`, `null`, "\x00\xff", "\n", " \t\r", `"a\\`}).Draw(t, "data")...)
			}
			r.Top = rapid.SampledFrom([]checkpoint.ID{r.ID, "top"}).Draw(t, "top")
			if rapid.Bool().Draw(t, "adds up") {
				r.Bytes = int64(len(r.Meta) + len(r.Data))
				if lx := x.logs["n"]; lx != nil {
					r.Bytes += lx.last().bytes
				}
			}
			b, err := x.write(id, seed, &entry{at: r.At, row: r, put: []engine.Put{{Key: []byte("u"), Value: []byte("v")}}})
			if err != nil {
				t.Fatal(err)
			}
			body, err := unseal(seed, b[:len(b)-1])
			if err != nil || !json.Valid(b) && bytes.IndexByte(r.Data, 0) < 0 || bytes.IndexByte(b, '\n') != len(b)-1 {
				t.Fatalf("%s: %v", b, err)
			}
			e, err := x.read(body, -1)
			if err == nil {
				err = x.apply(e, 0, len(b))
			}
			if err != nil {
				t.Fatalf("%s: %v", b, err)
			}
			rows, lines = append(rows, r), append(lines, body)
		}
		for i, want := range rows {
			got, err := x.row(id, lines[i], i, false)
			if err != nil {
				t.Fatal(err)
			}
			want.Seal(id)
			// Members may have changed places.
			meta := func(b []byte) (m map[string]any) {
				if err := json.Unmarshal(b, &m); err != nil {
					t.Fatalf("%s: %v", b, err)
				}
				return m
			}
			if !reflect.DeepEqual(meta(got.Meta), meta(want.Meta)) || len(got.Meta) != len(want.Meta) {
				t.Fatalf("line %s\nhas meta %s\nwant     %s", lines[i], got.Meta, want.Meta)
			}
			got.Meta, want.Meta, got.Sum, want.Sum = nil, nil, 0, 0
			if string(got.Data) != string(want.Data) {
				t.Fatalf("line %s\nhas data %q\nwant     %q", lines[i], got.Data, want.Data)
			}
			got.Data, want.Data = nil, nil
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("line %s\nhas row %+v\nwant    %+v", lines[i], got, want)
			}
		}
	})
}

// broken is a file of which no more than so many bytes can be read.
type broken struct {
	data []byte
	at   int64
}

func (b broken) ReadAt(p []byte, off int64) (int, error) {
	if off >= b.at {
		return 0, os.ErrDeadlineExceeded
	}
	n := copy(p, b.data[off:b.at])
	if n < len(p) {
		return n, os.ErrDeadlineExceeded
	}
	return n, nil
}

func TestWhatCannotBeReadIsNotALineThatWasCutOff(t *testing.T) {
	data := []byte("one\ntwo\nthree")
	for at := range int64(len(data)) {
		in := lines(broken{data, at}, 0, int64(len(data)))
		for {
			line, whole, err := in.next()
			if err == nil && whole {
				continue
			}
			if err != os.ErrDeadlineExceeded {
				t.Errorf("of %d bytes: %q, %v, %v", at, line, whole, err)
			}
			break
		}
	}
	in := lines(bytes.NewReader(data), 0, int64(len(data)))
	for _, want := range []string{"one", "two"} {
		if line, whole, err := in.next(); string(line) != want || !whole || err != nil {
			t.Errorf("%q, %v, %v", line, whole, err)
		}
	}
	if line, whole, err := in.next(); string(line) != "three" || whole || err != nil {
		t.Errorf("the last line: %q, %v, %v", line, whole, err)
	}
	if _, _, err := in.next(); err != io.EOF {
		t.Error(err)
	}
}
