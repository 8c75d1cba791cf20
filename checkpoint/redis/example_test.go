package redis_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/redis"
)

func Example() {
	ctx, log := context.Background(), checkpoint.Log{Thread: "t-1"}
	store, err := redis.Open(ctx, "redis://localhost:6379/0", redis.Options{TTL: 30 * 24 * time.Hour})
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
	head, _, err := store.Head(ctx, log)
	fmt.Println("head:", head.ID == id, head.Source, err)
}

func ExampleNew() {
	ctx := context.Background()
	client := goredis.NewFailoverClient(&goredis.FailoverOptions{
		MasterName: "main", SentinelAddrs: []string{"sentinel-1:26379", "sentinel-2:26379"},
		MaxRetries: -1, // the store tries again by itself
	})
	defer client.Close()
	store, err := redis.New(ctx, client, redis.Options{Prefix: "my-app:"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
}

func ExampleError() {
	_, err := redis.Open(context.Background(), "localhost:6379")
	if e, ok := errors.AsType[*redis.Error](err); ok {
		fmt.Println(errors.Is(err, redis.ErrURL))
		fmt.Println(e.Fix)
	}
	// Output:
	// true
	// write it like redis://user:password@host:6379/0, with special characters of the password percent-encoded
}
