package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// concurrency is how many threads are written to at once.
var concurrency = []int{1, 16, 256, 1024}

// figures are what was measured of a store.
type figures struct {
	name        string
	write, head quantiles
	steps, bare []float64 // a second, for each of concurrency; bare is nil if there is no loop

	size, pruned int64         // bytes of the conversation, and of what pruning leaves
	load, turn   time.Duration // reading it, and one turn more
}

type quantiles struct{ p50, p99 time.Duration }

func of(times []time.Duration) quantiles {
	slices.Sort(times)
	return quantiles{times[len(times)/2], times[len(times)*99/100]}
}

// text returns n bytes of words, which compress about as well as prose does.
func text(r *rand.Rand, n int) string {
	var b strings.Builder
	for b.Len() < n {
		for range 2 + r.IntN(8) {
			b.WriteByte("eeeetttaaoooinnsshhrdlucmfwypvbgkjqxz"[r.IntN(37)])
		}
		b.WriteByte(' ')
	}
	return b.String()[:n]
}

// message is what a step adds.
var message = func() json.RawMessage {
	data, _ := json.Marshal(map[string]any{"messages": []string{text(rand.New(rand.NewPCG(1, 2)), 480)}})
	return data
}()

var routing = json.RawMessage(`{"static":true}`)

// line writes the records of one thread.
type line struct {
	log  checkpoint.Log
	run  checkpoint.ID
	head checkpoint.ID
	seq  int64
}

// step is the write that commits a superstep: its record, and the results of its
// task, which need not be kept.
func (l *line) step() *checkpoint.Write {
	l.seq++
	id := l.run.Checkpoint(uint32(l.seq))
	w := &checkpoint.Write{
		Log: l.log, Head: l.head,
		Record: &checkpoint.Record{
			ID: id, Parent: l.head, Log: l.log, Seq: l.seq, Epoch: id, Step: int(l.seq), Source: checkpoint.SourceLoop,
			CreatedAt: time.Now().UTC(), Graph: "chat", Version: 1,
			Changes: []checkpoint.Change{{Node: "agent", Data: message}}, Tasks: []checkpoint.Task{{Node: "agent", From: "agent"}},
			Recent: []string{"agent"},
		},
	}
	if l.head != "" {
		w.Drop = &checkpoint.Drop{Epoch: l.head}
		w.Results = []checkpoint.Result{{Epoch: l.head, Kind: checkpoint.KindChanges, Data: message}, {Epoch: l.head, Kind: checkpoint.KindRouting, Data: routing}}
	}
	l.head = id
	return w
}

func newLine(thread string) *line {
	return &line{log: checkpoint.Log{Thread: checkpoint.ThreadID(thread)}, run: checkpoint.NewRunID()}
}

// measure measures a store.
func measure(ctx context.Context, x *subject, s settings) (*figures, error) {
	f := &figures{name: x.name}
	store, err := x.open(ctx, "steps")
	if err != nil {
		return nil, err
	}
	defer func() { store.Close() }()
	if err := f.latency(ctx, store, s.duration); err != nil {
		return nil, err
	}
	for _, n := range concurrency {
		if x.bare != nil {
			insert, end, err := x.bare(ctx, n)
			if err != nil {
				return nil, err
			}
			rate, err := parallel(ctx, n, s.duration, func(i int) func() error { return func() error { return insert(ctx, i) } })
			end()
			if err != nil {
				return nil, fmt.Errorf("bare loop: %w", err)
			}
			f.bare = append(f.bare, rate)
		}
		rate, err := parallel(ctx, n, s.duration, func(i int) func() error {
			l := newLine(fmt.Sprintf("p-%d-%d", n, i))
			return func() error {
				_, err := store.Write(ctx, l.step())
				return err
			}
		})
		if err != nil {
			return nil, err
		}
		f.steps = append(f.steps, rate)
	}
	return f, f.conversation(ctx, x, s)
}

// latency measures one thread at a time.
func (f *figures) latency(ctx context.Context, store checkpoint.Store, d time.Duration) error {
	var writes, heads []time.Duration
	l := newLine("latency")
	for end := time.Now().Add(d); time.Now().Before(end) || len(writes) < 100; {
		w := l.step()
		begin := time.Now()
		if _, err := store.Write(ctx, w); err != nil {
			return err
		}
		writes = append(writes, time.Since(begin))
	}
	for end := time.Now().Add(d / 2); time.Now().Before(end) || len(heads) < 100; {
		begin := time.Now()
		if _, _, err := store.Head(ctx, l.log); err != nil {
			return err
		}
		heads = append(heads, time.Since(begin))
	}
	f.write, f.head = of(writes), of(heads)
	return nil
}

// parallel runs n loops for a time, and returns how often they went round a
// second. The first round of each is not counted: it makes the thread.
func parallel(ctx context.Context, n int, d time.Duration, loop func(i int) func() error) (float64, error) {
	var ready, done sync.WaitGroup
	var count atomic.Int64
	var failed atomic.Pointer[error]
	start := make(chan struct{})
	var end time.Time
	ready.Add(n)
	for i := range n {
		done.Go(func() {
			f := loop(i)
			err := f()
			ready.Done()
			<-start
			for err == nil && ctx.Err() == nil && time.Now().Before(end) {
				if err = f(); err == nil {
					count.Add(1)
				}
			}
			if err != nil {
				failed.Store(&err)
			}
		})
	}
	ready.Wait()
	begin := time.Now()
	end = begin.Add(d)
	close(start)
	done.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return float64(count.Load()) / time.Since(begin).Seconds(), ctx.Err()
}

// chat is the state of a conversation.
type chat struct {
	Messages graph.List[string] `json:"messages"`
	Turns    int                `json:"turns"`
	Until    int                `json:"until"` // turns at which the run ends
}

// conversation measures what a conversation takes in which each turn says and
// answers 500 bytes, in a superstep each.
func (f *figures) conversation(ctx context.Context, x *subject, s settings) error {
	r := rand.New(rand.NewPCG(3, 4))
	b := graph.New[chat]("chat")
	b.AddNode("say", func(_ context.Context, c *chat) error {
		c.Messages.Add(text(r, 500))
		return nil
	})
	b.AddNode("answer", func(_ context.Context, c *chat) error {
		c.Messages.Add(text(r, 500))
		c.Turns++
		return nil
	})
	b.AddSequence(graph.Start, "say", "answer")
	b.AddConditionalEdges("answer", func(_ context.Context, c *chat) (graph.Command, error) {
		if c.Turns < c.Until {
			return graph.Goto("say"), nil
		}
		return graph.Goto(graph.End), nil
	}, "say", graph.End)
	g, err := b.Compile(graph.MaxSteps(3*s.turns + 10))
	if err != nil {
		return err
	}
	before, err := x.size(ctx, "talk")
	if err != nil {
		return err
	}
	store, err := x.open(ctx, "talk")
	if err != nil {
		return err
	}
	defer func() { store.Close() }()
	thread := func() *graph.Thread[chat] { return g.Thread("c", graph.WithCheckpointer(store)) }
	turns := func(n int) error {
		_, err := thread().Invoke(ctx, g.Input(func(c *chat) error {
			c.Until += n
			return nil
		}))
		return err
	}
	if err := turns(s.turns); err != nil {
		return err
	}
	// What is measured is what is stored, not what the program still knows.
	again := func() error {
		if !x.lasting {
			return nil
		}
		if err := store.Close(); err != nil {
			return err
		}
		store, err = x.open(ctx, "talk")
		return err
	}
	if err := again(); err != nil {
		return err
	}
	after, err := x.size(ctx, "talk")
	if err != nil {
		return err
	}
	f.size = after - before
	var loads, more []time.Duration
	for range 5 {
		if err := again(); err != nil {
			return err
		}
		begin := time.Now()
		snap, err := thread().State(ctx)
		if err != nil {
			return err
		}
		loads = append(loads, time.Since(begin))
		if n := snap.State.Messages.Len(); n != 2*s.turns {
			return fmt.Errorf("%d messages of %d are there", n, 2*s.turns)
		}
	}
	f.load = of(loads).p50
	if _, err := thread().Prune(ctx, graph.Keep{}); err != nil {
		return err
	}
	if c, ok := store.(interface{ Compact(context.Context) error }); ok {
		if err := c.Compact(ctx); err != nil {
			return err
		}
	}
	if err := again(); err != nil {
		return err
	}
	if after, err = x.size(ctx, "talk"); err != nil {
		return err
	}
	f.pruned = after - before
	for range 20 {
		begin := time.Now()
		if err := turns(1); err != nil {
			return err
		}
		more = append(more, time.Since(begin))
	}
	f.turn = of(more).p50
	return nil
}
