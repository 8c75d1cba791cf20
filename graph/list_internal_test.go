package graph

import "testing"

// A thread's state that is kept and that of the run which begins with it grow by the same
// items, one after the other, turn after turn: neither copies what both have.
func TestCopiesOfALongListGrowBesideWhatTheyShare(t *testing.T) {
	var kept List[int]
	kept.Add(make([]int, 1000)...)
	kept.Merger().Bind()
	arrays := map[*int]bool{}
	for range 50 {
		run := kept
		for _, l := range []*List[int]{&run, &kept} {
			for range 2 {
				l.Add(1)
				l.Merger().Bind()
			}
			arrays[&l.base.head.items[0]] = true
		}
	}
	if kept.Len() != 1100 || len(arrays) > 4 {
		t.Errorf("%d items, in %d arrays after 100 copies were written to", kept.Len(), len(arrays))
	}
}
