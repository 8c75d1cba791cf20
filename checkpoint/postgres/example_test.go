package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/postgres"
)

func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	store, err := postgres.Open(ctx, "postgres://superstep@localhost:5432/superstep")
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	thread := checkpoint.Log{Thread: "t-1"}
	id := checkpoint.NewRunID().Checkpoint(1)
	_, err = store.Write(ctx, &checkpoint.Write{
		Log:    thread,
		Record: &checkpoint.Record{ID: id, Log: thread, Seq: 1, Epoch: id, Source: checkpoint.SourceInput},
	})
	if err != nil {
		log.Fatal(err)
	}
	// Any program with the same database goes on from there.
	head, _, err := store.Head(ctx, thread)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(head.ID == id)
}

func ExampleOptions() {
	ctx := context.Background()
	store, err := postgres.Open(ctx, os.Getenv("DATABASE_URL"), postgres.Options{Schema: "superstep", MaxConns: 16})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
}

func ExampleError() {
	_, err := postgres.Open(context.Background(), "postgres://me:secret@localhost/threads?sslmode=perhaps")
	if e, ok := errors.AsType[*postgres.Error](err); ok {
		fmt.Println(errors.Is(err, postgres.ErrURL))
		fmt.Println(e)
	}
	// Output:
	// true
	// postgres: open: connection string cannot be understood: failed to configure TLS (sslmode is invalid); correct that part of it
}
