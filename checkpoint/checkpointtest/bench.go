package checkpointtest

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
)

// Benchmark measures what an engine does with a store. Each benchmark gets a
// store of its own from open and closes it.
func Benchmark(b *testing.B, open func(b *testing.B) checkpoint.Store) {
	fresh := func(b *testing.B) checkpoint.Store {
		s := open(b)
		b.Cleanup(func() { _ = s.Close() })
		return s
	}
	put := func(b *testing.B, s checkpoint.Store, l *line, results bool) {
		r := l.next()
		r.Changes[0].Data = benchData
		w := &checkpoint.Write{Log: l.log, Record: r, Head: l.head}
		if results && l.tip != "" {
			w.Results = []checkpoint.Result{
				{Epoch: l.tip, Kind: checkpoint.KindChanges, Data: benchData},
				{Epoch: l.tip, Kind: checkpoint.KindRouting, Data: benchRouting},
			}
			w.Drop = &checkpoint.Drop{Epoch: l.tip}
		}
		if _, err := s.Write(b.Context(), w); err != nil {
			b.Fatal(err)
		}
		l.took(r)
	}
	b.Run("Append", func(b *testing.B) {
		s, l := fresh(b), newLine("t")
		b.ReportAllocs()
		for b.Loop() {
			put(b, s, l, false)
		}
	})
	b.Run("Superstep", func(b *testing.B) { // with the results of its task, dropped at once
		s, l := fresh(b), newLine("t")
		b.ReportAllocs()
		for b.Loop() {
			put(b, s, l, true)
		}
	})
	b.Run("Result", func(b *testing.B) {
		s, l := fresh(b), newLine("t")
		put(b, s, l, false)
		n := 0
		b.ReportAllocs()
		for b.Loop() {
			r := checkpoint.Result{Epoch: l.tip, Task: n, Kind: checkpoint.KindChanges, Data: benchData}
			if _, err := s.Write(b.Context(), &checkpoint.Write{Log: l.log, Results: []checkpoint.Result{r}}); err != nil {
				b.Fatal(err)
			}
			n++
		}
	})
	for _, n := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("Threads-%d", n), func(b *testing.B) {
			s := fresh(b)
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ResetTimer()
			each(n, func(i int) {
				l := newLine(checkpoint.ThreadID(fmt.Sprint("t", i)))
				for left.Add(-1) >= 0 {
					r := l.next()
					r.Changes[0].Data = benchData
					if _, err := s.Write(b.Context(), &checkpoint.Write{Log: l.log, Record: r, Head: l.head}); err != nil {
						b.Error(err)
						return
					}
					l.took(r)
				}
			})
		})
	}
	b.Run("Head", func(b *testing.B) {
		s, l := fresh(b), newLine("t")
		for range 2000 {
			put(b, s, l, false)
		}
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := s.Head(b.Context(), l.log); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Get", func(b *testing.B) {
		s, l := fresh(b), newLine("t")
		for range 2000 {
			put(b, s, l, false)
		}
		n := uint32(0)
		b.ReportAllocs()
		for b.Loop() {
			n = n%2000 + 1
			if _, err := s.Get(b.Context(), l.log, l.run.Checkpoint(n)); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, meta := range []bool{false, true} {
		name := "History-2000"
		if meta {
			name = "HistoryMeta-2000"
		}
		b.Run(name, func(b *testing.B) {
			s, l := fresh(b), newLine("t")
			for range 2000 {
				put(b, s, l, false)
			}
			b.ReportAllocs()
			for b.Loop() {
				n := 0
				for _, err := range s.Records(b.Context(), checkpoint.Query{Log: l.log, Meta: meta}) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
				if n != 2000 {
					b.Fatalf("%d records", n)
				}
			}
		})
	}
}

var (
	benchData    = []byte(`{"messages":[{"role":"assistant","content":` + string(text(440)) + `}]}`)
	benchRouting = []byte(`{"static":true}`)
)
