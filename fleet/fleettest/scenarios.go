package fleettest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/superstep-dev/superstep/graph"
)

var scenarios = []scenario{
	{"sequence", func(b *graph.Builder[State], ran *counts) {
		b.AddSequence(say(b, ran, "a"), say(b, ran, "b"), say(b, ran, "c"))
		b.AddEdge(graph.Start, "a")
	}, []step{input, input}, nil},

	{"fan-out and fan-in", func(b *graph.Builder[State], ran *counts) {
		for _, n := range []string{"a", "b", "c", "d"} {
			b.AddEdge(graph.Start, say(b, ran, n))
		}
		b.AddJoin([]string{"a", "b", "c", "d"}, say(b, ran, "join"))
	}, []step{input}, nil},

	{"joins of unequal paths", func(b *graph.Builder[State], ran *counts) {
		b.AddEdge(graph.Start, say(b, ran, "short")).AddEdge(graph.Start, say(b, ran, "long"))
		b.AddEdge("long", say(b, ran, "longer")).AddJoin([]string{"short", "longer"}, say(b, ran, "join"))
		b.AddNode("last", speaker(ran, "last"), graph.Defer()).AddEdge(graph.Start, "last")
	}, []step{input}, nil},

	{"loop", func(b *graph.Builder[State], ran *counts) {
		b.AddEdge(graph.Start, say(b, ran, "a")).AddConditionalEdges("a", func(_ context.Context, s *State) (graph.Command, error) {
			if s.N.Get() >= 7 {
				return graph.Goto(graph.End), nil
			}
			return graph.Goto("a"), nil
		}, "a", graph.End)
	}, []step{input}, nil},

	{"limit of supersteps", func(b *graph.Builder[State], ran *counts) {
		b.AddEdge(graph.Start, say(b, ran, "a")).AddEdge("a", "a")
	}, []step{input, again}, []graph.Option{graph.MaxSteps(4)}},

	{"limit of tasks", func(b *graph.Builder[State], ran *counts) {
		b.AddEdge(graph.Start, say(b, ran, "a")).AddEdge("a", say(b, ran, "b")).AddEdge("a", "a")
	}, []step{input}, []graph.Option{graph.MaxTasks(5)}},

	{"subgraph", func(b *graph.Builder[State], ran *counts) {
		inner := graph.New[Inner]("inner")
		inner.AddNode("x", func(_ context.Context, s *Inner) error { ran.add("x"); s.Seen.Add("x"); return nil })
		inner.AddNode("ask", func(ctx context.Context, s *Inner) error {
			ran.add("ask")
			answer, err := graph.Interrupt[string](ctx, "who", s.Seen.Len())
			if err == nil {
				s.Seen.Add(answer)
			}
			return err
		})
		inner.AddEdge(graph.Start, "x").AddEdge("x", "ask")
		graph.AddShared(b, "inside", inner.MustCompile(), func(s *State) *Inner { return &s.Inner })
		b.AddEdge(graph.Start, "inside").AddEdge(graph.Start, say(b, ran, "beside")).AddEdge("inside", say(b, ran, "after"))
	}, []step{input, answer("Ada")}, nil},

	{"sends", func(b *graph.Builder[State], ran *counts) {
		work := graph.AddTask(b, "work", func(_ context.Context, s *State, n int) error {
			ran.add(fmt.Sprint("work ", n))
			s.N.Add(n)
			s.Log.Add(fmt.Sprint(n))
			return nil
		})
		b.AddCommandNode("split", func(context.Context, *State) (graph.Command, error) {
			var sends []graph.Send
			for n := range 70 {
				sends = append(sends, work.Send(n))
			}
			return graph.Dispatch(sends...), nil
		}, graph.Destinations("work"))
		b.AddEdge(graph.Start, "split").AddEdge("work", say(b, ran, "join"))
	}, []step{input}, nil},

	{"interrupts", func(b *graph.Builder[State], ran *counts) {
		for _, n := range []string{"a", "b"} {
			b.AddNode(n, func(ctx context.Context, s *State) error {
				ran.add(n)
				answer, err := graph.Interrupt[string](ctx, n, "and "+n+"?")
				if err == nil {
					s.Log.Add(answer)
				}
				return err
			})
			b.AddEdge(graph.Start, n).AddEdge(n, "end")
		}
		b.AddEdge(graph.Start, say(b, ran, "c"))
		say(b, ran, "end")
	}, []step{input, again, answer(graph.Answers{"b": "B"}), answer("A")}, nil},

	{"breakpoints", func(b *graph.Builder[State], ran *counts) {
		b.AddEdge(graph.Start, say(b, ran, "a"))
		b.AddSequence("a", say(b, ran, "b"), say(b, ran, "c"))
	}, []step{input, again, again}, []graph.Option{graph.InterruptBefore("b"), graph.InterruptAfter("b")}},

	{"sleep", func(b *graph.Builder[State], ran *counts) {
		b.AddNode("nap", func(ctx context.Context, s *State) error {
			if err := graph.Sleep(ctx, "nap", 20*time.Millisecond); err != nil {
				return err
			}
			ran.add("nap")
			s.Log.Add("awake")
			return nil
		})
		b.AddEdge(graph.Start, "nap").AddEdge(graph.Start, say(b, ran, "beside")).AddEdge("nap", say(b, ran, "after"))
	}, []step{input}, nil},

	{"event", func(b *graph.Builder[State], ran *counts) {
		b.AddNode("wait", func(ctx context.Context, s *State) error {
			word, err := graph.WaitFor[string](ctx, "", "word")
			if err == nil {
				ran.add("wait")
				s.Last = word
			}
			return err
		})
		b.AddEdge(graph.Start, "wait").AddEdge("wait", say(b, ran, "after"))
	}, []step{input, event("word", "hello"), event("word", "kept"), input}, nil},

	{"deadline", func(b *graph.Builder[State], ran *counts) {
		b.AddNode("ask", func(ctx context.Context, s *State) error {
			_, err := graph.WaitFor[string](ctx, "", "word", graph.Deadline(time.Nanosecond))
			if late := new(graph.DeadlineError); errors.As(err, &late) {
				s.Last = "too late"
				return nil
			}
			return err
		})
		b.AddEdge(graph.Start, "ask").AddEdge("ask", say(b, ran, "after"))
	}, []step{input}, nil},

	{"fork and edit", func(b *graph.Builder[State], ran *counts) {
		b.AddEdge(graph.Start, say(b, ran, "a")).AddSequence("a", say(b, ran, "b"), say(b, ran, "c"))
	}, []step{
		input,
		func(ctx context.Context, th *graph.Thread[State], _ invoke) (*graph.Snapshot[State], error) {
			return th.Edit(ctx, func(s *State) error { s.Last = "edited"; return nil })
		},
		func(ctx context.Context, th *graph.Thread[State], run invoke) (*graph.Snapshot[State], error) {
			for e, err := range th.History(ctx, graph.HistoryQuery{WhereNext: "b"}) {
				if err != nil {
					return nil, err
				}
				snap, err := run(ctx, th.At(e.Checkpoint), th.Continue())
				if err != nil {
					return snap, err
				}
				break
			}
			return th.State(ctx)
		},
		func(ctx context.Context, th *graph.Thread[State], run invoke) (*graph.Snapshot[State], error) {
			if _, err := th.EditAs(ctx, "a", func(s *State) error { s.Log.Add("as a"); return nil }); err != nil {
				return nil, err
			}
			return run(ctx, th, th.Continue())
		},
	}, nil},

	{"retries", func(b *graph.Builder[State], ran *counts) {
		b.AddNode("shy", func(_ context.Context, s *State) error {
			n := ran.add("shy")
			s.Log.Add(fmt.Sprint("attempt ", n))
			if n < 3 {
				return errors.New("not yet")
			}
			return nil
		}, graph.Retry(graph.RetryPolicy{Initial: time.Millisecond}))
		b.AddEdge(graph.Start, "shy").AddEdge("shy", say(b, ran, "after"))
	}, []step{input}, nil},

	{"timeout", func(b *graph.Builder[State], ran *counts) {
		b.AddNode("slow", func(ctx context.Context, s *State) error {
			if ran.add("slow") == 1 {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return nil
		}, graph.Timeout(20*time.Millisecond))
		b.AddEdge(graph.Start, "slow").AddEdge("slow", say(b, ran, "after"))
	}, []step{input, again}, nil},

	{"error", func(b *graph.Builder[State], ran *counts) {
		b.AddNode("bad", func(_ context.Context, s *State) error {
			if ran.add("bad") == 1 {
				return errors.New("no luck")
			}
			s.Log.Add("luck")
			return nil
		})
		b.AddEdge(graph.Start, "bad").AddEdge("bad", say(b, ran, "after"))
	}, []step{input, again}, nil},

	{"conflict", func(b *graph.Builder[State], ran *counts) {
		for _, n := range []string{"a", "b"} {
			b.AddNode(n, func(_ context.Context, s *State) error {
				if ran.add(n) == 1 {
					s.Last = n
				}
				return nil
			})
			b.AddEdge(graph.Start, n).AddEdge(n, "after")
		}
		say(b, ran, "after")
	}, []step{input, again}, nil},

	{"Once", func(b *graph.Builder[State], ran *counts) {
		b.AddNode("pay", func(ctx context.Context, s *State) error {
			n, err := graph.Once(ctx, "pay", func(context.Context, string) (int, error) { return ran.add("paid"), nil })
			if err != nil {
				return err
			}
			if ran.add("pay") == 1 {
				return errors.New("the line went dead")
			}
			s.N.Add(n)
			_, err = graph.Interrupt[string](ctx, "ok", n)
			return err
		})
		b.AddEdge(graph.Start, "pay").AddEdge("pay", say(b, ran, "after"))
	}, []step{input, again, answer("yes")}, nil},
}

// say adds a node that says its name, and returns that.
func say(b *graph.Builder[State], ran *counts, name string) string {
	b.AddNode(name, speaker(ran, name))
	return name
}

func speaker(ran *counts, name string) func(context.Context, *State) error {
	return func(_ context.Context, s *State) error {
		ran.add(name)
		s.Log.Add(name)
		s.N.Add(1)
		return nil
	}
}

func input(ctx context.Context, th *graph.Thread[State], run invoke) (*graph.Snapshot[State], error) {
	return run(ctx, th, th.Input(func(s *State) error { s.Log.Add("input"); return nil }))
}

func again(ctx context.Context, th *graph.Thread[State], run invoke) (*graph.Snapshot[State], error) {
	return run(ctx, th, th.Continue())
}

func answer(a any) step {
	return func(ctx context.Context, th *graph.Thread[State], run invoke) (*graph.Snapshot[State], error) {
		return run(ctx, th, th.Answer(a))
	}
}

// event sends one and lets the thread go on.
func event(name, value string) step {
	return func(ctx context.Context, th *graph.Thread[State], run invoke) (*graph.Snapshot[State], error) {
		if err := th.SendEvent(ctx, name, value); err != nil {
			return nil, err
		}
		return run(ctx, th, th.Continue())
	}
}
