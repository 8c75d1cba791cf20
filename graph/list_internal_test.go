package graph

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A thread's state that is kept and that of the run which begins with it grow by the same
// items, one after the other, turn after turn: neither copies what both have.
func TestCopiesOfALongListGrowBesideWhatTheyShare(t *testing.T) {
	var kept List[int]
	kept.Add(make([]int, 1000)...)
	kept.Merger().Bind()
	shared := &kept.base.top.items[0]
	for range 2000 {
		run := kept
		for _, l := range []*List[int]{&run, &kept} {
			for range 2 {
				l.Add(1)
				l.Merger().Bind()
			}
			runs, bottom := 0, &l.base
			for v := bottom; v != nil; v = v.under {
				runs, bottom = runs+1, v
			}
			if runs > 4*runsMax {
				t.Fatalf("%d items stand in %d runs", l.Len(), runs)
			}
			if l.Len() < 3000 && &bottom.top.items[0] != shared {
				t.Fatalf("what was there before is copied, at %d items", l.Len())
			}
		}
	}
	if kept.Len() != 5000 {
		t.Errorf("%d items", kept.Len())
	}
}

// Whatever copies are made of lists and whatever is added to which of them, each holds
// what was added to it.
func TestCopiesOfListsHoldWhatWasAddedToThem(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	type pair struct {
		list List[int]
		want []int
	}
	for range 20 {
		pairs := []pair{{}}
		for n := range 3000 {
			p := pairs[rng.IntN(len(pairs))]
			if rng.IntN(10) == 0 {
				pairs = append(pairs, p)
				continue
			}
			p.want = slices.Clip(p.want)
			for k := range rng.IntN(4) * rng.IntN(4) {
				p.want = append(p.want, n+k)
				p.list.Add(n + k)
			}
			if rng.IntN(3) > 0 {
				p.list.Merger().Bind()
			}
			if k := rng.IntN(9); k < len(pairs) {
				pairs[k] = p
			}
		}
		for _, p := range pairs {
			if got := p.list.Slice(); !slices.Equal(got, p.want) || p.list.Len() != len(p.want) {
				t.Fatalf("a list has %d items %v, want %v", p.list.Len(), got, p.want)
			}
			for i, v := range p.list.All() {
				if v != p.want[i] || p.list.At(i) != v {
					t.Fatalf("item %d is %d, and %d by its index; want %d", i, v, p.list.At(i), p.want[i])
				}
			}
		}
	}
}
