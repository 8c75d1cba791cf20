package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
)

func Example() {
	dir, err := os.MkdirTemp("", "superstep")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "threads.db")

	ctx, log := context.Background(), checkpoint.Log{Thread: "t-1"}
	id := checkpoint.NewRunID().Checkpoint(1)
	store, err := sqlite.Open(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = store.Write(ctx, &checkpoint.Write{
		Log:    log,
		Record: &checkpoint.Record{ID: id, Log: log, Seq: 1, Epoch: id, Source: checkpoint.SourceInput},
	})
	fmt.Println("written:", err == nil)
	store.Close()

	// Later, in another process.
	store, err = sqlite.Open(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	head, _, err := store.Head(ctx, log)
	fmt.Println("head:", head.ID == id, head.Source, err)
	// Output:
	// written: true
	// head: true input <nil>
}

func ExampleError() {
	_, err := sqlite.Open("/no/such/directory/threads.db")
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		fmt.Println(errors.Is(err, sqlite.ErrCannotOpen))
		fmt.Println(e.Fix)
	}
	// Output:
	// true
	// directory /no/such/directory does not exist: create it
}
