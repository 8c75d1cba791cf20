package local

import (
	"context"
	"sync"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
)

// An attempt that was left behind may save the result of a sub-step in the
// moment in which the run ends.
func TestSavingWhileTheBackgroundWriterEnds(t *testing.T) {
	ctx := context.Background()
	store := checkpoint.NewMemory()
	log := checkpoint.Log{Thread: "t"}
	epoch := checkpoint.NewRunID()
	const late = 4
	for i := range 2000 {
		s := newSaver(&Options{Store: store, Log: log, Durability: Async})
		if err := s.save(ctx, &checkpoint.Write{Log: log}); err != nil { // claims
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for k := range late {
			wg.Go(func() {
				w := &checkpoint.Write{Log: log, Results: []checkpoint.Result{{Epoch: epoch, Task: i*late + k, Kind: checkpoint.KindOnce, Data: []byte("1")}}}
				if err := s.saveNow(ctx, w); err != nil {
					t.Error(err)
				}
			})
		}
		if err := s.save(ctx, &checkpoint.Write{Log: log}); err != nil { // starts the writer
			t.Fatal(err)
		}
		if err := s.flush(ctx); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
	}
	results, err := store.Results(ctx, log, "", epoch)
	if err != nil || len(results) != 2000*late {
		t.Fatalf("%d results, %v", len(results), err)
	}
}
