package file_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/file"
)

func Example() {
	dir, err := os.MkdirTemp("", "threads")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	store, err := file.Open(dir, file.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()

	ctx := context.Background()
	thread := checkpoint.Log{Thread: "user/1"}
	id := checkpoint.NewRunID().Checkpoint(1)
	_, err = store.Write(ctx, &checkpoint.Write{Log: thread, Record: &checkpoint.Record{
		ID: id, Log: thread, Seq: 1, Epoch: id, Source: checkpoint.SourceInput, CreatedAt: time.Now().UTC(),
		Changes: []checkpoint.Change{{Data: json.RawMessage(`{"topic":"cats"}`)}},
	}})
	if err != nil {
		log.Fatal(err)
	}
	head, _, err := store.Head(ctx, thread)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(head.Seq, string(head.Changes[0].Data))
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range names {
		fmt.Println(filepath.Base(name))
	}
	// Output:
	// 1 {"topic":"cats"}
	// user_1~a298c9161b6c.jsonl
}
