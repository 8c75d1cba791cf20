package graph_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// Where a question was open it can be answered otherwise, also while the superstep is
// open in which it was answered.
func TestAQuestionIsAnsweredOtherwiseWhereItWasOpen(t *testing.T) {
	store := checkpoint.NewMemory()
	b := graph.New[trail]("g")
	for _, name := range []string{"c", "d"} {
		b.AddNode(name, func(ctx context.Context, s *trail) error {
			answer, err := graph.Interrupt[int](ctx, name, nil)
			if err != nil {
				return err
			}
			s.Ran.Add(fmt.Sprint(name, answer))
			return nil
		}).AddEdge(graph.Start, name)
	}
	g := compile(t, b, graph.WithCheckpointer(store), graph.Concurrency(1))
	asked := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(graph.Answers{"c": 1})))
	then := must[*graph.Snapshot[trail]](t)(g.Thread("t").At(asked.Checkpoint).State(bg))
	equal(t, "what was open", fmt.Sprint(then.Next, len(then.Interrupts), then.State.Ran), "[c d] 2 []")
	forked := must[*graph.Snapshot[trail]](t)(g.Thread("t").At(asked.Parent).Fork(bg)) // before anything was asked
	equal(t, "what is stored of the fork", fmt.Sprint(must[*graph.Snapshot[trail]](t)(g.Thread("t").State(bg)).State.Ran), fmt.Sprint(forked.State.Ran))
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").At(asked.Checkpoint).Invoke(bg, g.Answer(graph.Answers{"c": 2, "d": 2})))
	equal(t, "ran", snap.State.ran(), "c2 d2")
	same(t, g, taped(t, store, "t"))
}

// Before a question was asked it is asked again, also while the superstep is open in
// which it was answered. What the task has come to since, it may not come to again.
func TestAQuestionIsAskedAgainBeforeItWasAsked(t *testing.T) {
	for name, opts := range map[string][]graph.Option{"one after the other": {graph.Concurrency(1)}, "at once": nil} {
		t.Run(name, func(t *testing.T) {
			store := checkpoint.NewMemory()
			b := graph.New[trail]("g")
			b.AddNode("a", visit("a")).AddEdge(graph.Start, "a")
			for _, name := range []string{"c", "d"} {
				b.AddNode(name, func(ctx context.Context, s *trail) error {
					for _, key := range []string{name, name + "'"} {
						answer, err := graph.Interrupt[int](ctx, key, nil)
						if err != nil {
							return err
						}
						s.Ran.Add(fmt.Sprint(key, answer))
					}
					return nil
				}).AddEdge(graph.Start, name)
			}
			g := compile(t, b, append(opts, graph.WithCheckpointer(store))...)
			first := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
			second := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(graph.Answers{"c": 1})))
			third := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(graph.Answers{"c'": 1})))
			equal(t, "what is seen", fmt.Sprint(third.State.Ran), "[a c1 c'1]")
			for _, at := range []string{first.Parent, first.Checkpoint, second.Parent, second.Checkpoint} {
				then := must[*graph.Snapshot[trail]](t)(g.Thread("t").At(at).State(bg))
				equal(t, "what was seen", fmt.Sprint(then.State.Ran), "[a]")
			}
			// Before the first question, and between the two.
			snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").At(first.Parent).Invoke(bg, g.Continue()))
			equal(t, "what is asked", fmt.Sprint(len(snap.Interrupts), snap.State.Ran), "2 [a]")
			must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(graph.Answers{"c": 2})))
			must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(graph.Answers{"c'": 2, "d": 2})))
			snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(graph.Answers{"d'": 2})))
			equal(t, "ran", snap.State.ran(), "a c2 c'2 d2 d'2")
			same(t, g, taped(t, store, "t"))
		})
	}
}

// What finished tasks have left lies beside the log until their superstep is committed.
// Forks take it along until then; later the tasks run again, with the keys they had.
func TestAForkIntoACommittedSuperstepRunsItsTasksAgain(t *testing.T) {
	ran, keys := &calls{}, &calls{}
	b := graph.New[trail]("g")
	b.AddNode("free", func(ctx context.Context, s *trail) error {
		ran.add("free")
		s.Ran.Add("free")
		_, err := graph.Once(ctx, "charge", func(_ context.Context, key string) (int, error) { return keys.add(key), nil })
		return err
	})
	for _, name := range []string{"c", "d"} {
		b.AddNode(name, func(ctx context.Context, s *trail) error {
			answer, err := graph.Interrupt[int](ctx, name, nil)
			s.Ran.Add(fmt.Sprint(name, answer))
			return err
		}).AddEdge(graph.Start, name)
	}
	b.AddEdge(graph.Start, "free")
	g := compile(t, b, stored()...)
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	asked := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(graph.Answers{"c": 1})))

	fork := must[*graph.Snapshot[trail]](t)(g.Thread("t").At(asked.Checkpoint).Fork(bg))
	equal(t, "next while it is open", fmt.Sprint(fork.Next), "[d]")
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(graph.Answers{"d": 1})))
	equal(t, "ran", snap.State.ran(), "free c1 d1")
	equal(t, "runs of what had finished", ran.of("free"), 1)

	fork = must[*graph.Snapshot[trail]](t)(g.Thread("t").At(fork.Checkpoint).Fork(bg))
	equal(t, "next when it is committed", fmt.Sprint(fork.Next, fork.State.Ran), "[free c d] []")
	snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(graph.Answers{"d": 2})))
	equal(t, "ran", snap.State.ran(), "free c1 d2")
	equal(t, "runs of what had finished", ran.of("free"), 2)
	equal(t, "effects with the same key", keys.of(keys.all()[0]), 2)
}

// Where two tasks have ended that can't be merged, a fork runs the later one again.
func TestAForkBeforeAConflict(t *testing.T) {
	ran := &calls{}
	b := graph.New[trail]("g")
	for i, name := range []string{"a", "b"} {
		b.AddNode(name, func(_ context.Context, s *trail) error { ran.add(name); s.N = 1 + i*ran.of("b")%2; return nil }).AddEdge(graph.Start, name)
	}
	g := compile(t, b, stored()...)
	_, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }))
	wantErr[*graph.ConflictError](t, err)
	began := entriesOf(t, g.Thread("t"), graph.HistoryQuery{OldestFirst: true})[0]
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").At(began.Checkpoint).Fork(bg))
	equal(t, "next", fmt.Sprint(snap.Next, snap.State.N), "[b] 1")
	snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
	equal(t, "N", snap.State.N, 1)
	equal(t, "runs", fmt.Sprint(ran.of("a"), ran.of("b")), "1 2")
}

// What a task came to on a state that was edited is not of the checkpoints before.
func TestWhatRanAfterAnEditIsNotOfTheCheckpointBefore(t *testing.T) {
	fails := true
	b := graph.New[trail]("g")
	b.AddNode("a", visit("a")).AddNode("b", func(_ context.Context, s *trail) error {
		if fails {
			return errBoom
		}
		s.Ran.Add("b sees [" + s.Note + "]")
		return nil
	}).AddNode("c", func(context.Context, *trail) error { return errBoom })
	for _, name := range []string{"a", "b", "c"} {
		b.AddEdge(graph.Start, name)
	}
	g := compile(t, b, append(stored(), graph.Concurrency(1))...)
	_, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }))
	wantErr[*graph.NodeError](t, err)
	began := must[*graph.Snapshot[trail]](t)(g.Thread("t").State(bg))
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Edit(bg, func(s *trail) error {
		s.Note = "edited"
		return nil
	}))
	fails = false
	_, err = g.Thread("t").Invoke(bg, g.Continue())
	wantErr[*graph.NodeError](t, err)
	equal(t, "what is seen", must[*graph.Snapshot[trail]](t)(g.Thread("t").State(bg)).State.ran(), "a b sees [edited]")
	equal(t, "what was seen", must[*graph.Snapshot[trail]](t)(g.Thread("t").At(began.Checkpoint).State(bg)).State.ran(), "a")
	_, err = g.Thread("t").At(began.Checkpoint).Invoke(bg, g.Continue())
	wantErr[*graph.NodeError](t, err)
	equal(t, "what is seen of the fork", must[*graph.Snapshot[trail]](t)(g.Thread("t").State(bg)).State.ran(), "a b sees []")
}

// An effect isn't repeated by going back: its key is that of its task. One that depends
// on an answer has the answer in its name.
func TestGoingBackRepeatsNoOnceOfTheSameName(t *testing.T) {
	ran := &calls{}
	var keys []string
	b := graph.New[trail]("g")
	b.AddNode("trip", func(ctx context.Context, s *trail) error {
		city, err := graph.Interrupt[string](ctx, "city", nil)
		if err != nil {
			return err
		}
		for _, name := range []string{"open", "book " + city} {
			what, err := graph.Once(ctx, name, func(_ context.Context, key string) (string, error) {
				ran.add(name)
				keys = append(keys, key)
				return name, nil
			})
			if err != nil {
				return err
			}
			s.Ran.Add(what)
		}
		_, err = graph.Interrupt[bool](ctx, "sure", nil)
		return err
	}).AddEdge(graph.Start, "trip")
	g := compile(t, b, stored()...)
	asked := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer("Ulm")))
	must[*graph.Snapshot[trail]](t)(g.Thread("t").At(asked.Checkpoint).Invoke(bg, g.Answer("Rome")))
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(true)))
	equal(t, "what was decided", fmt.Sprint(snap.State.Ran), "[open book Rome]")
	equal(t, "what ran", fmt.Sprint(ran.of("open"), ran.of("book Ulm"), ran.of("book Rome"), len(keys)), "1 1 1 3")

	// What a superstep that has ended recorded is gone: whoever is given the key
	// again knows that it was done.
	again := "again"
	asked = must[*graph.Snapshot[trail]](t)(g.Thread(again).Invoke(bg, g.Input(func(*trail) error { return nil })))
	must[*graph.Snapshot[trail]](t)(g.Thread(again).Invoke(bg, g.Answer("Ulm")))
	must[*graph.Snapshot[trail]](t)(g.Thread(again).Invoke(bg, g.Answer(true)))
	must[*graph.Snapshot[trail]](t)(g.Thread(again).At(asked.Checkpoint).Invoke(bg, g.Answer("Ulm")))
	equal(t, "the keys", fmt.Sprint(keys[5:]), fmt.Sprint(keys[3:5]))
}

// An input at an earlier checkpoint begins a branch there by itself.
func TestAnInputAtAnEarlierCheckpointFollowsThatOne(t *testing.T) {
	g := compile(t, graph.New[trail]("g").AddNode("a", func(_ context.Context, s *trail) error { s.Ran.Add("a"); return nil }).AddEdge(graph.Start, "a"), stored()...)
	th := g.Thread("t")
	at := must[*graph.Snapshot[trail]](t)(th.Invoke(bg, g.Input(noInput))).Checkpoint
	must[*graph.Snapshot[trail]](t)(th.Invoke(bg, g.Input(noInput)))
	for _, call := range []graph.Request[trail]{g.Input(noInput), g.Restart(noInput)} {
		var told, stored []string
		for e, err := range th.At(at).Stream(bg, call, graph.Modes(graph.ModeCheckpoints)) {
			if err != nil {
				t.Fatal(err)
			}
			told = append(told, fmt.Sprint(e.Checkpoint, " after ", e.Parent, ": ", e.Source, e.Next))
		}
		for e, err := range th.History(bg, graph.HistoryQuery{Limit: 2}) {
			if err != nil {
				t.Fatal(err)
			}
			stored = append([]string{fmt.Sprint(e.Checkpoint, " after ", e.Parent, ": ", e.Source, e.Next)}, stored...)
		}
		if !slices.Equal(told, stored) || !strings.Contains(told[0], " after "+at+": input") {
			t.Errorf("at %s the stream told of\n%q\nthe history has\n%q", at, told, stored)
		}
	}
}
