package checkpoint_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/superstep-dev/superstep/checkpoint"
)

// Two writers read the same head: the first one to write wins, the other one is
// told so.
func ExampleMemory() {
	ctx := context.Background()
	store := checkpoint.NewMemory()
	defer store.Close()

	log := checkpoint.Log{Thread: "t-1"}
	for _, run := range []checkpoint.ID{checkpoint.NewRunID(), checkpoint.NewRunID()} {
		id := run.Checkpoint(1)
		_, err := store.Write(ctx, &checkpoint.Write{
			Log:    log,
			Record: &checkpoint.Record{ID: id, Log: log, Seq: 1, Epoch: id, Source: checkpoint.SourceInput},
			Head:   "", // the thread must be new
		})
		fmt.Println(err == nil, errors.Is(err, checkpoint.ErrConflict))
	}
	head, _, err := store.Head(ctx, log)
	fmt.Println(head.Seq, head.Source, err)
	// Output:
	// true false
	// false true
	// 1 input <nil>
}

func ExampleStore_records() {
	ctx := context.Background()
	var store checkpoint.Store = checkpoint.NewMemory()
	defer store.Close()

	log, run := checkpoint.Log{Thread: "t-1"}, checkpoint.NewRunID()
	var head checkpoint.ID
	for i := range 5 {
		id := run.Checkpoint(uint32(i + 1))
		r := &checkpoint.Record{ID: id, Parent: head, Log: log, Seq: int64(i + 1), Epoch: id, Step: i}
		if _, err := store.Write(ctx, &checkpoint.Write{Log: log, Record: r, Head: head}); err != nil {
			fmt.Println(err)
			return
		}
		head = id
	}
	for r, err := range store.Records(ctx, checkpoint.Query{Log: log, Desc: true, Limit: 2, Meta: true}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("step", r.Step)
	}
	// Output:
	// step 4
	// step 3
}
