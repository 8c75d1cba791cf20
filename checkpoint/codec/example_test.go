package codec_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/codec"
)

func Example() {
	secret := make([]byte, codec.KeySize)
	_, _ = rand.Read(secret)
	text := "2026-11:" + base64.StdEncoding.EncodeToString(secret) // from a vault, an environment variable, ...
	key, err := codec.ParseKey(text)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(key)

	inner := checkpoint.NewMemory() // or any other store
	store, err := codec.Wrap(inner, codec.Options{Keys: &codec.KeyRing{Current: key}, Compress: true})
	if err != nil {
		log.Fatal(err)
	}
	ctx, thread := context.Background(), checkpoint.Log{Thread: "t-1"}
	id := checkpoint.NewRunID().Checkpoint(1)
	record := &checkpoint.Record{ID: id, Log: thread, Seq: 1, Epoch: id, Graph: "letters"}
	if _, err := store.Write(ctx, &checkpoint.Write{Log: thread, Record: record}); err != nil {
		log.Fatal(err)
	}

	// Whoever reads the inner store sees where the record stands.
	stored, _, _ := inner.Head(ctx, thread)
	fmt.Printf("%d %q %v\n", stored.Seq, stored.Graph, len(stored.Sealed.Meta) > 0)
	opened, _, _ := store.Head(ctx, thread)
	fmt.Printf("%d %q\n", opened.Seq, opened.Graph)
	// Output:
	// Key(2026-11, redacted)
	// 1 "" true
	// 1 "letters"
}

// A new key seals, the old one still opens, until nothing needs it any more.
func Example_rotation() {
	key := func(id string) codec.Key {
		secret := make([]byte, codec.KeySize)
		_, _ = rand.Read(secret)
		k, err := codec.NewKey(id, secret)
		if err != nil {
			log.Fatal(err)
		}
		return k
	}
	old, current := key("2026-10"), key("2026-11")
	ctx, thread := context.Background(), checkpoint.Log{Thread: "t-1"}
	id := checkpoint.NewRunID().Checkpoint(1)

	inner := checkpoint.NewMemory()
	before, _ := codec.Wrap(inner, codec.Options{Keys: &codec.KeyRing{Current: old}})
	_, _ = before.Write(ctx, &checkpoint.Write{Log: thread, Record: &checkpoint.Record{ID: id, Log: thread, Seq: 1, Epoch: id}})

	both, _ := codec.Wrap(inner, codec.Options{Keys: &codec.KeyRing{Current: current, Old: []codec.Key{old}, Names: current}})
	for info, err := range both.Threads(ctx, checkpoint.ThreadFilter{}) {
		if err != nil {
			log.Fatal(err)
		}
		n, err := both.Rewrap(ctx, info.Thread)
		fmt.Println(info.Thread, n, err)
	}

	after, _ := codec.Wrap(inner, codec.Options{Keys: &codec.KeyRing{Current: current}})
	_, _, err := after.Head(ctx, thread)
	fmt.Println(err)
	_, _, err = before.Head(ctx, thread)
	fmt.Println(errors.Is(err, codec.ErrKey))
	// Output:
	// t-1 1 <nil>
	// <nil>
	// true
}
