package local

import (
	"iter"

	"github.com/superstep-dev/superstep/checkpoint"
)

const (
	aheadBatch   = 64  // records handed over at once
	aheadBatches = 2   // that wait, at most
	aheadFrom    = 256 // records; fewer aren't worth a goroutine
)

// readAhead iterates over records as seq does, which it runs in a goroutine of its
// own: a store reads and checks records while those before them are decoded. When
// the loop ends, the goroutine has ended.
func readAhead(seq iter.Seq2[*checkpoint.Record, error]) iter.Seq2[*checkpoint.Record, error] {
	type batch struct {
		records  []*checkpoint.Record
		err      error // comes after the records
		panicked any
	}
	return func(yield func(*checkpoint.Record, error) bool) {
		batches, stop := make(chan batch, aheadBatches), make(chan struct{})
		go func() {
			defer close(batches)
			var b batch
			send := func() bool {
				select {
				case batches <- b:
					b = batch{}
					return true
				case <-stop:
					return false
				}
			}
			defer func() {
				if b.panicked = recover(); b.panicked != nil {
					send()
				}
			}()
			for r, err := range seq {
				if b.err = err; err == nil {
					b.records = append(b.records, r)
				}
				if (err != nil || len(b.records) == aheadBatch) && !send() {
					return
				}
			}
			if len(b.records) > 0 {
				send()
			}
		}()
		defer func() {
			close(stop)
			for range batches {
			}
		}()
		for b := range batches {
			for _, r := range b.records {
				if !yield(r, nil) {
					return
				}
			}
			if b.panicked != nil {
				panic(b.panicked)
			}
			if b.err != nil && !yield(nil, b.err) {
				return
			}
		}
	}
}
