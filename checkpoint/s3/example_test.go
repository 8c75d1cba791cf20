package s3_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/s3"
)

func ExampleOpen() {
	ctx, log := context.Background(), checkpoint.Log{Thread: "t-1"}
	store, err := s3.Open(ctx, "s3://s3.eu-central-1.amazonaws.com/my-bucket/threads?region=eu-central-1") // key and secret are in the environment
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	id := checkpoint.NewRunID().Checkpoint(1)
	_, err = store.Write(ctx, &checkpoint.Write{
		Log:    log,
		Record: &checkpoint.Record{ID: id, Log: log, Seq: 1, Epoch: id, Source: checkpoint.SourceInput},
	})
	fmt.Println("written:", err == nil)
}

func ExampleNew() {
	client, err := minio.New("minio.internal:9000", &minio.Options{Creds: credentials.NewIAM(""), Secure: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	store, err := s3.New(context.Background(), client, "my-bucket", s3.Options{Prefix: "threads"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
}

func ExampleError() {
	_, err := s3.Open(context.Background(), "s3://key@localhost:9000/bucket")
	if e, ok := errors.AsType[*s3.Error](err); ok {
		fmt.Println(errors.Is(err, s3.ErrURL))
		fmt.Println(e.What)
	}
	// Output:
	// true
	// the URL has a key without a secret, or a secret without a key
}
