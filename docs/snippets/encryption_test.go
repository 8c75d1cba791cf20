package snippets_test

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/codec"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
	"github.com/superstep-dev/superstep/graph"
)

// newKey returns a key as it would stand in an environment variable.
func newKey(id string) string {
	secret := make([]byte, codec.KeySize)
	_, _ = rand.Read(secret)
	return id + ":" + base64.StdEncoding.EncodeToString(secret)
}

func Example_encryption() {
	dir, err := os.MkdirTemp("", "threads")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "threads.db")
	_ = os.Setenv("SUPERSTEP_KEY", newKey("2026-11"))
	defer os.Unsetenv("SUPERSTEP_KEY")
	//snippet:encrypt
	key, err := codec.ParseKey(os.Getenv("SUPERSTEP_KEY")) // 2026-11:qf3k...=
	if err != nil {
		log.Fatal(err)
	}
	database, err := sqlite.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	store, err := codec.Wrap(database, codec.Options{Keys: &codec.KeyRing{Current: key}})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	g := chatGraph(graph.WithCheckpointer(store))
	t := g.Thread("c-1")
	snap, err := t.Invoke(ctx, t.Input(say("my PIN is 1234")))
	fmt.Println(snap.State.Said.Last(), err)
	//snippet:end
	for _, name := range []string{path, path + "-wal"} {
		b, err := os.ReadFile(name)
		fmt.Println(len(b) > 0, strings.Contains(string(b), "PIN"), err)
	}
	// Output:
	// reply 1 to "my PIN is 1234" <nil>
	// true false <nil>
	// true false <nil>
}

func Example_rotate() {
	old, _ := codec.ParseKey(newKey("2026-10"))
	key, _ := codec.ParseKey(newKey("2026-11"))
	database := checkpoint.NewMemory()
	before, _ := codec.Wrap(database, codec.Options{Keys: &codec.KeyRing{Current: old}})
	t := chatGraph(graph.WithCheckpointer(before)).Thread("c-1")
	_, _ = t.Invoke(ctx, t.Input(say("hello")))
	//snippet:rotate
	ring := codec.KeyRing{Current: key, Old: []codec.Key{old}, Names: key}
	store, err := codec.Wrap(database, codec.Options{Keys: &ring})
	if err != nil {
		log.Fatal(err)
	}
	for info, err := range store.Threads(ctx, checkpoint.ThreadFilter{}) {
		if err != nil {
			log.Fatal(err)
		}
		n, err := store.Rewrap(ctx, info.Thread)
		fmt.Println(info.Thread, n, err)
	}
	//snippet:end
	after, _ := codec.Wrap(database, codec.Options{Keys: &codec.KeyRing{Current: key}})
	t = chatGraph(graph.WithCheckpointer(after)).Thread("c-1")
	snap, err := t.Invoke(ctx, t.Input(say("bye")))
	fmt.Println(snap.State.Said.Last(), err)
	_, _, err = before.Head(ctx, checkpoint.Log{Thread: "c-1"})
	fmt.Println(errors.Is(err, codec.ErrKey))
	// Output:
	// c-1 2 <nil>
	// reply 2 to "bye" <nil>
	// true
}

func Example_firstEncryption() {
	database := checkpoint.NewMemory()
	t := chatGraph(graph.WithCheckpointer(database)).Thread("c-1")
	_, _ = t.Invoke(ctx, t.Input(say("hello")))
	key, _ := codec.ParseKey(newKey("2026-11"))
	ring := codec.KeyRing{Current: key}
	//snippet:first
	strict, _ := codec.Wrap(database, codec.Options{Keys: &ring})
	_, _, err := strict.Head(ctx, checkpoint.Log{Thread: "c-1"})
	fmt.Println(errors.Is(err, codec.ErrPlain))

	lax, _ := codec.Wrap(database, codec.Options{Keys: &ring, AllowPlain: true})
	for info, err := range lax.Threads(ctx, checkpoint.ThreadFilter{}) {
		if err != nil {
			log.Fatal(err)
		}
		n, err := lax.Rewrap(ctx, info.Thread)
		fmt.Println(info.Thread, n, err)
	}

	_, _, err = strict.Head(ctx, checkpoint.Log{Thread: "c-1"})
	fmt.Println(err)
	//snippet:end
	// Output:
	// true
	// c-1 2 <nil>
	// <nil>
}

func Example_compression() {
	database := checkpoint.NewMemory()
	//snippet:compress
	store, err := codec.Wrap(database, codec.Options{Compress: true, Encoding: codec.CBOR})
	//snippet:end
	t := chatGraph(graph.WithCheckpointer(store)).Thread("c-1")
	_, err2 := t.Invoke(ctx, t.Input(say("hello")))
	fmt.Println(err, err2)
	// Output: <nil> <nil>
}
