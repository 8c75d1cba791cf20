package local

import (
	"errors"
	"fmt"
	"iter"
	"testing"

	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/checkpoint"
)

func TestReadAheadIteratesAsWithoutIt(t *testing.T) {
	defer goleak.VerifyNone(t)
	boom := errors.New("boom")
	records := func(n int, end error) iter.Seq2[*checkpoint.Record, error] {
		return func(yield func(*checkpoint.Record, error) bool) {
			for i := range n {
				if !yield(&checkpoint.Record{Seq: int64(i)}, nil) {
					return
				}
			}
			if end != nil {
				yield(nil, end)
			}
		}
	}
	for _, n := range []int{0, 1, aheadBatch - 1, aheadBatch, aheadBatch + 1, 10*aheadBatch + 7} {
		for _, end := range []error{nil, boom} {
			for _, most := range []int{1, aheadBatch, 3 * aheadBatch, n + 2} { // where the loop is left
				collect := func(seq iter.Seq2[*checkpoint.Record, error]) (seen []string) {
					for r, err := range seq {
						if err != nil {
							seen = append(seen, err.Error())
						} else {
							seen = append(seen, fmt.Sprint(r.Seq))
						}
						if len(seen) == most {
							break
						}
					}
					return seen
				}
				got, want := fmt.Sprint(collect(readAhead(records(n, end)))), fmt.Sprint(collect(records(n, end)))
				if got != want {
					t.Errorf("%d records, then %v, left after %d: %s, want %s", n, end, most, got, want)
				}
			}
		}
	}
}

func TestReadAheadPassesOnAPanic(t *testing.T) {
	defer goleak.VerifyNone(t)
	seen := 0
	defer func() {
		if got := recover(); got != "broken store" || seen != 3 {
			t.Errorf("panic %v after %d records", got, seen)
		}
	}()
	for range readAhead(func(yield func(*checkpoint.Record, error) bool) {
		for range 3 {
			yield(&checkpoint.Record{}, nil)
		}
		panic("broken store")
	}) {
		seen++
	}
}
