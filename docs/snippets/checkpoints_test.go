package snippets_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/file"
	"github.com/superstep-dev/superstep/checkpoint/postgres"
	"github.com/superstep-dev/superstep/checkpoint/redis"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
	"github.com/superstep-dev/superstep/checkpoint/stores"
	"github.com/superstep-dev/superstep/graph"
)

type Chat struct {
	Said  graph.List[string]
	Turns graph.Sum[int]
}

func reply(_ context.Context, s *Chat) error {
	s.Turns.Add(1)
	s.Said.Add(fmt.Sprintf("reply %d to %q", s.Turns.Get(), s.Said.Last()))
	return nil
}

func chatGraph(opts ...graph.Option) *graph.Graph[Chat] {
	b := graph.New[Chat]("chat")
	b.AddNode("reply", reply)
	b.AddEdge(graph.Start, "reply")
	return b.MustCompile(opts...)
}

func say(text string) func(*Chat) error {
	return func(s *Chat) error {
		s.Said.Add(text)
		return nil
	}
}

func Example_stores() {
	dir, err := os.MkdirTemp("", "threads")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	//snippet:stores
	memory := checkpoint.NewMemory()
	files, err := file.Open(filepath.Join(dir, "threads"), file.Options{})
	if err != nil {
		log.Fatal(err)
	}
	database, err := sqlite.Open(filepath.Join(dir, "threads.db"))
	if err != nil {
		log.Fatal(err)
	}

	for _, store := range []checkpoint.Store{memory, files, database} {
		g := chatGraph(graph.WithCheckpointer(store))
		t := g.Thread("c-1")
		_, err := t.Invoke(ctx, t.Input(say("hello")))
		snap, err2 := t.Invoke(ctx, t.Input(say("bye")))
		fmt.Println(snap.State.Said.Last(), errors.Join(err, err2, store.Close()))
	}
	//snippet:end
	// Output:
	// reply 2 to "bye" <nil>
	// reply 2 to "bye" <nil>
	// reply 2 to "bye" <nil>
}

func Example_open() {
	//snippet:open
	store, err := stores.Open(ctx, cmp.Or(os.Getenv("STORE"), "memory"))
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	g := chatGraph(graph.WithCheckpointer(store))
	t := g.Thread("c-1")
	snap, err := t.Invoke(ctx, t.Input(say("hello")))
	fmt.Println(snap.State.Said.Last(), err)

	_, err = stores.Open(ctx, "oracle://scott:tiger@host")
	fmt.Println(err)
	//snippet:end
	// Output:
	// reply 1 to "hello" <nil>
	// Unknown backend: oracle; use memory, file:DIR, sqlite:PATH (or a path that ends in .db), postgres://…, redis://… or s3://…
}

// The servers of these two are not there when documentation is tested; the
// packages' own tests have some.
var (
	_ = func() error {
		//snippet:postgres
		store, err := postgres.Open(ctx, "postgres://agent:password@db.example.com/threads", postgres.Options{Schema: "agents"})
		if err != nil {
			return err
		}
		defer store.Close()
		g := chatGraph(graph.WithCheckpointer(store))
		//snippet:end
		_ = g
		return nil
	}
	_ = func() error {
		//snippet:redis
		store, err := redis.Open(ctx, "rediss://agent:password@cache.example.com:6379/0", redis.Options{TTL: 30 * 24 * time.Hour})
		if err != nil {
			return err
		}
		defer store.Close()
		g := chatGraph(graph.WithCheckpointer(store))
		//snippet:end
		_ = g
		return nil
	}
)

func Example_prune() {
	g := chatGraph(graph.WithCheckpointer(checkpoint.NewMemory()))
	//snippet:prune
	t := g.Thread("c-1")
	for i := range 100 {
		if _, err := t.Invoke(ctx, t.Input(say(fmt.Sprint("question ", i)))); err != nil {
			log.Fatal(err)
		}
	}
	done, err := t.Prune(ctx, graph.Keep{Last: 3, Interrupts: true})
	snap, _ := t.State(ctx)
	fmt.Println(done.Kept, done.Removed, snap.State.Said.Len(), err)
	//snippet:end
	// Output: 3 197 200 <nil>
}

func Example_durability() {
	store := checkpoint.NewMemory()
	//snippet:durability
	g := chatGraph(graph.WithCheckpointer(store), graph.WithDurability(graph.Async))
	t := g.Thread("c-1")
	_, err := t.Invoke(ctx, t.Input(say("hello")), graph.WithDurability(graph.Sync)) // for this run
	//snippet:end
	fmt.Println(err)
	// Output: <nil>
}

func Example_history() {
	b := graph.New[Ticket]("history")
	b.AddNode("read", visit("read"))
	b.AddNode("answer", visit("answer"))
	b.AddSequence(graph.Start, "read", "answer")
	g := b.MustCompile(graph.WithCheckpointer(checkpoint.NewMemory()))
	//snippet:history
	t := g.Thread("t-1")
	end, _ := t.Invoke(ctx, t.Input(func(*Ticket) error { return nil }))

	var afterRead string
	for entry, err := range t.History(ctx, graph.HistoryQuery{}) { // newest first
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(entry.Step, entry.Source, entry.Nodes, entry.Next)
		if entry.Step == 1 {
			afterRead = entry.Checkpoint
		}
	}

	then, _ := t.At(afterRead).State(ctx) // look back
	fmt.Println(then.State.Trail)

	_, _ = t.At(afterRead).Edit(ctx, func(s *Ticket) error { // branch off with an edit
		s.Urgent = true
		return nil
	})
	branch, _ := t.Invoke(ctx, t.Continue())
	fmt.Println(branch.State.Trail, branch.State.Urgent)

	old, _ := t.At(end.Checkpoint).State(ctx) // the other branch is still there
	fmt.Println(old.State.Trail, old.State.Urgent)
	//snippet:end
	// Output:
	// 2 loop [answer] []
	// 1 loop [read] [answer]
	// 0 input [] [read]
	// [read]
	// [read answer] true
	// [read answer] false
}

func Example_continue() {
	down := true
	b := graph.New[Ticket]("continue")
	b.AddNode("read", visit("read"))
	b.AddNode("answer", func(ctx context.Context, s *Ticket) error {
		if down {
			return errors.New("model is down")
		}
		return visit("answer")(ctx, s)
	})
	b.AddSequence(graph.Start, "read", "answer")
	g := b.MustCompile(graph.WithCheckpointer(checkpoint.NewMemory()))
	//snippet:continue
	t := g.Thread("t-1")
	snap, err := t.Invoke(ctx, t.Input(func(*Ticket) error { return nil }))
	fmt.Println(err)
	fmt.Println(snap.State.Trail, snap.Next)

	down = false // the cause is gone, or this is a new process after a crash
	snap, err = t.Invoke(ctx, t.Continue())
	fmt.Println(snap.State.Trail, err)
	//snippet:end
	// Output:
	// node "answer" failed in step 2: model is down
	// [read] [answer]
	// [read answer] <nil>
}

func Example_find() {
	store := checkpoint.NewMemory()
	g := chatGraph(graph.WithCheckpointer(store))
	for _, id := range []string{"c-1", "c-2", "c-3"} {
		_, _ = g.Thread(id).Invoke(ctx, g.Input(say("hello")), graph.Metadata("user", "ann"))
	}
	//snippet:find
	f := checkpoint.ThreadFilter{Metadata: map[string]string{"user": "ann"}, Limit: 2}
	for {
		n := 0
		for info, err := range store.Threads(ctx, f) { // the newest first
			fmt.Println(info.Thread, err)
			f.After = info.Place() // where the next page begins
			n++
		}
		if n < f.Limit {
			break
		}
	}
	//snippet:end
	// Output:
	// c-3 <nil>
	// c-2 <nil>
	// c-1 <nil>
}

func Example_threads() {
	store := checkpoint.NewMemory()
	g := chatGraph(graph.WithCheckpointer(store))
	_, _ = g.Thread("c-1").Invoke(ctx, g.Input(say("hello")))
	//snippet:threads
	t := g.Thread("c-1")
	fmt.Println(t.Copy(ctx, "c-2"))
	for info, err := range store.Threads(ctx, checkpoint.ThreadFilter{Prefix: "c-"}) {
		fmt.Println(info.Thread, info.Records, err)
	}
	fmt.Println(t.Delete(ctx))
	_, err := t.State(ctx)
	fmt.Println(errors.Is(err, checkpoint.ErrNotFound))
	//snippet:end
	// Unordered output:
	// <nil>
	// c-1 2 <nil>
	// c-2 2 <nil>
	// <nil>
	// true
}
