package state_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/internal/state"
	"github.com/superstep-dev/superstep/internal/core"
)

type ten struct {
	A    int
	B    string
	C, D int
	E    bool
	F    float64
	G    string
	H    int32
	I, J string
}

type (
	ten0 struct{ A0, B0, C0, D0, E0, F0, G0, H0, I0, J0 int }
	ten1 struct{ A1, B1, C1, D1, E1, F1, G1, H1, I1, J1 string }
	ten2 struct{ A2, B2, C2, D2, E2, F2, G2, H2, I2, J2 int }
	ten3 struct{ A3, B3, C3, D3, E3, F3, G3, H3, I3, J3 bool }
	ten4 struct{ A4, B4, C4, D4, E4, F4, G4, H4, I4, J4 string }
	ten5 struct{ A5, B5, C5, D5, E5, F5, G5, H5, I5, J5 float64 }
	ten6 struct{ A6, B6, C6, D6, E6, F6, G6, H6, I6, J6 int32 }
	ten7 struct{ A7, B7, C7, D7, E7, F7, G7, H7, I7, J7 string }
	ten8 struct{ A8, B8, C8, D8, E8, F8, G8, H8, I8, J8 int }
	ten9 struct{ A9, B9, C9, D9, E9, F9, G9, H9, I9, J9 string }
)

type hundredFlat struct {
	ten0
	ten1
	ten2
	ten3
	ten4
	ten5
	ten6
	ten7
	ten8
	ten9
}

func benchStep[S any](b *testing.B, init, task func(*S)) {
	b.Helper()
	typ, problems := state.Of[S]()
	if problems != nil {
		b.Fatal(problems)
	}
	base := typ.New()
	init(base.(*S))
	var reuse any
	cs := make([]any, 1)
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		fork := typ.Fork(base)
		task(fork.(*S))
		c, err := typ.Changes(base, fork, reuse)
		if err != nil {
			b.Fatal(err)
		}
		cs[0] = c
		if base, _, err = typ.Fold(base, cs, core.Committed); err != nil {
			b.Fatal(err)
		}
		if c != nil {
			reuse = c
		}
	}
	if n := len(typ.Fields()); n > 0 {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/field")
	}
}

func BenchmarkStepPlain(b *testing.B) {
	b.Run("1", func(b *testing.B) {
		benchStep(b, func(*struct{ A int }) {}, func(s *struct{ A int }) { s.A++ })
	})
	b.Run("10", func(b *testing.B) { benchStep(b, func(*ten) {}, func(s *ten) { s.A++ }) })
	b.Run("10-unchanged", func(b *testing.B) { benchStep(b, func(*ten) {}, func(s *ten) {}) })
	b.Run("100", func(b *testing.B) { benchStep(b, func(*hundredFlat) {}, func(s *hundredFlat) { s.A0++ }) })
	b.Run("100-unchanged", func(b *testing.B) { benchStep(b, func(*hundredFlat) {}, func(s *hundredFlat) {}) })
	b.Run("100-all", func(b *testing.B) {
		benchStep(b, func(*hundredFlat) {}, func(s *hundredFlat) {
			s.A0++
			s.B0++
			s.C0++
			s.D0++
			s.E0++
			s.A1, s.B4, s.C7, s.D9 = s.D9, "x", "y", "z"
			s.A6++
			s.A8++
		})
	})
}

// The cost of a step doesn't depend on what else is in the state.
func BenchmarkStepBigStrings(b *testing.B) {
	type big struct {
		A, B, C, D string
		N          int
	}
	for _, n := range []int{0, 1 << 20} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			benchStep(b, func(s *big) {
				s.A, s.B, s.C, s.D = strings.Repeat("a", n), strings.Repeat("b", n), strings.Repeat("c", n), strings.Repeat("d", n)
			}, func(s *big) { s.N++ })
		})
	}
}

func BenchmarkStepList(b *testing.B) {
	type lists struct{ L graph.List[int] }
	for _, n := range []int{0, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			benchStep(b, func(s *lists) { s.L.Add(make([]int, n)...); s.L.Merger().Bind() }, func(s *lists) { s.L.Add(1) })
		})
	}
}

func BenchmarkStepMap(b *testing.B) {
	type mapped struct{ M graph.Map[int, int] }
	for _, n := range []int{1, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			i := 0
			benchStep(b, func(s *mapped) {
				for k := range n {
					s.M.Put(k, k)
				}
				s.M.Merger().Bind()
			}, func(s *mapped) { i++; s.M.Put(i%n, -i) })
		})
	}
}

// Each of n tasks adds one item to one list.
func BenchmarkFanOut(b *testing.B) {
	type lists struct {
		L graph.List[int]
		N graph.Sum[int]
	}
	typ, _ := state.Of[lists]()
	for _, n := range []int{1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			cs := make([]any, n)
			for b.Loop() {
				base := typ.New()
				for i := range cs {
					fork := typ.Fork(base)
					fork.(*lists).L.Add(i)
					cs[i], _ = typ.Changes(base, fork, nil)
				}
				if _, _, err := typ.Fold(base, cs, core.Committed); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/task")
		})
	}
}

// A turn of a conversation as it is read from the log.
func BenchmarkDecode(b *testing.B) {
	type message struct{ Role, ID, Content string }
	type chat struct {
		Texts    graph.List[string]
		Messages graph.List[message]
		N        int
	}
	typ, _ := state.Of[chat]()
	text := strings.Repeat("some words ", 100)
	for name, data := range map[string]string{
		"texts":    fmt.Sprintf(`{"Texts":[%q]}`, text),
		"messages": fmt.Sprintf(`{"Messages":[{"Role":"human","ID":"m1","Content":%q}]}`, text),
		"skipped":  fmt.Sprintf(`{"Texts":[%q],"N":1}`, text),
	} {
		b.Run(name, func(b *testing.B) {
			var only []string
			if name == "skipped" {
				only = []string{"N"}
			}
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if c, err := typ.Decode([]byte(data), only); err != nil || c == nil {
					b.Fatal(c, err)
				}
			}
		})
	}
}
