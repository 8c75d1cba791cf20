package graph_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// handled is a graph whose node fails twice, with an error handler, each time in
// another process.
func handled(t *testing.T, store checkpoint.Store, ran *calls, handler func(context.Context, *trail, *graph.NodeError) (graph.Command, error)) *graph.Graph[trail] {
	b := one(func(context.Context, *trail) error {
		if ran.add("node") > 2 {
			return nil
		}
		return errBoom
	}, graph.Retry(graph.RetryPolicy{MaxAttempts: 2, Initial: 1}), graph.OnError(handler))
	return compile(t, b, graph.WithCheckpointer(store))
}

// A handler that asks is given the answer: it stands in for its node for good.
func TestAHandlersQuestionIsAnsweredToTheHandler(t *testing.T) {
	ran := &calls{}
	store := checkpoint.NewMemory()
	handler := func(ctx context.Context, s *trail, err *graph.NodeError) (graph.Command, error) {
		ran.add("handler")
		skip, aerr := graph.Interrupt[bool](ctx, "skip", err.Err.Error())
		s.Note = fmt.Sprint(skip, " ", err.Attempt, " ", err.Err)
		return graph.Command{}, aerr
	}
	snap := must[*graph.Snapshot[trail]](t)(handled(t, store, ran, handler).Thread("t").Invoke(bg, graph.Requests[trail]{}.Input(func(*trail) error { return nil })))
	equal(t, "asked", fmt.Sprint(snap.Interrupts[0].Value), "boom")
	must[*graph.Snapshot[trail]](t)(handled(t, store, ran, handler).Thread("t").At(snap.Checkpoint).Fork(bg))
	snap = must[*graph.Snapshot[trail]](t)(handled(t, store, ran, handler).Thread("t").Invoke(bg, graph.Requests[trail]{}.Answer(true)))
	equal(t, "note", snap.State.Note, "true 2 boom")
	equal(t, "node ran", ran.of("node"), 2)
	equal(t, "handler ran", ran.of("handler"), 2)
}

// When the handler has failed, or the run was cut short in it, the handler runs again
// and the node doesn't; RestartStep begins with the node.
func TestAHandlerThatFailedRunsAgainAndTheNodeDoesNot(t *testing.T) {
	for _, cut := range []bool{false, true} {
		ran := &calls{}
		store := checkpoint.NewMemory()
		ctx, cancel := context.WithCancel(bg)
		handler := func(ctx context.Context, s *trail, err *graph.NodeError) (graph.Command, error) {
			if n := ran.add("handler"); n == 1 && cut {
				cancel()
				return graph.Command{}, ctx.Err()
			} else if n < 3 {
				return graph.Command{}, fmt.Errorf("handler: %w", err)
			}
			s.Note = err.Err.Error()
			return graph.Command{}, nil
		}
		if _, err := handled(t, store, ran, handler).Thread("t").Invoke(ctx, graph.Requests[trail]{}.Input(func(*trail) error { return nil })); err == nil {
			t.Error("no error")
		}
		_, err := handled(t, store, ran, handler).Thread("t").Invoke(bg, graph.Requests[trail]{}.Continue())
		equal(t, "cause", wantErr[*graph.RecordedError](t, err).Text, "boom")
		snap := must[*graph.Snapshot[trail]](t)(handled(t, store, ran, handler).Thread("t").Invoke(bg, graph.Requests[trail]{}.Continue()))
		equal(t, "note", snap.State.Note, "boom")
		equal(t, "node ran", ran.of("node"), 2)
		equal(t, "handler ran", ran.of("handler"), 3)
	}
	ran := &calls{}
	handler := func(context.Context, *trail, *graph.NodeError) (graph.Command, error) {
		return graph.Command{}, errBoom
	}
	g := handled(t, checkpoint.NewMemory(), ran, handler)
	if _, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })); !errors.Is(err, errBoom) {
		t.Fatal(err)
	}
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.RestartStep()))
	equal(t, "node ran", ran.of("node"), 3)
}

// Attempts are counted over the life of a task: a run that was cut short between them
// goes on with the next.
func TestAttemptsAreCountedOverAResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := &calls{}
		var attempts []int
		store := checkpoint.NewMemory()
		build := func() *graph.Graph[trail] {
			b := one(func(ctx context.Context, _ *trail) error {
				ran.add("node")
				attempts = append(attempts, graph.Info(ctx).Attempt)
				return errBoom
			}, graph.Retry(graph.RetryPolicy{MaxAttempts: 3, Initial: time.Minute}))
			return compile(t, b, graph.WithCheckpointer(store))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := build().Thread("t").Invoke(ctx, graph.Requests[trail]{}.Input(func(*trail) error { return nil })); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		equal(t, "attempts before the cut", ran.of("node"), 1)
		_, err := build().Thread("t").Invoke(t.Context(), graph.Requests[trail]{}.Continue())
		equal(t, "attempt that failed last", wantErr[*graph.NodeError](t, err).Attempt, 3)
		_, err = build().Thread("t").Invoke(t.Context(), graph.Requests[trail]{}.Continue())
		equal(t, "attempt after the last", wantErr[*graph.NodeError](t, err).Attempt, 4)
		equalSlice(t, "attempts", attempts, []int{1, 2, 3, 4})
		if _, err = build().Thread("t").Invoke(t.Context(), graph.Requests[trail]{}.RestartStep()); !errors.Is(err, errBoom) {
			t.Fatal(err)
		}
		equalSlice(t, "attempts", attempts, []int{1, 2, 3, 4, 1, 2, 3})
	})
}

// A handler knows what was sent to the task that failed, in a later run too.
func TestAHandlerSeesWhatWasSentToItsTask(t *testing.T) {
	type order struct{ City string }
	fail := true
	b := graph.New[trail]("g")
	work := graph.AddTask(b, "work", func(context.Context, *trail, order) error { return errBoom },
		graph.OnError(func(ctx context.Context, s *trail, err *graph.NodeError) (graph.Command, error) {
			in, perr := graph.Payload[order](ctx)
			if perr != nil || fail {
				return graph.Command{}, errors.Join(perr, err)
			}
			if _, perr := graph.Payload[[]int](ctx); perr == nil {
				t.Error("a payload of another type")
			}
			s.Ran.Add(in.City + string(err.Payload))
			return graph.Command{}, nil
		}))
	b.AddCommandNode("split", func(ctx context.Context, _ *trail) (graph.Command, error) {
		if _, err := graph.Payload[order](ctx); err == nil {
			t.Error("a payload of a node that was sent nothing")
		}
		return graph.Dispatch(work.Send(order{"Oslo"}), work.Send(order{"Rome"})), nil
	})
	g := compile(t, b.AddEdge(graph.Start, "split"), append(stored(), graph.Concurrency(1))...)
	_, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }))
	equal(t, "payload of the failure", string(wantErr[*graph.NodeError](t, err).Payload), `{"City":"Oslo"}`)
	fail = false
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
	equal(t, "handled", snap.State.ran(), `Oslo{"City":"Oslo"} Rome{"City":"Rome"}`)
}

// What a run was not given is its error: no other attempt, no handler makes up for it.
func TestMissingConfigurationEndsTheRun(t *testing.T) {
	ran := &calls{}
	retry := graph.Retry(graph.RetryPolicy{MaxAttempts: 4, Initial: 1})
	handle := graph.OnError(func(context.Context, *trail, *graph.NodeError) (graph.Command, error) { return graph.Command{}, nil })
	for name, node := range map[string]func(context.Context, *trail) error{
		"configuration": func(ctx context.Context, _ *trail) error {
			ran.add("configuration")
			_, err := graph.Configured[form](ctx)
			return err
		},
		"dependency": func(ctx context.Context, _ *trail) error {
			ran.add("dependency")
			_, err := graph.Deps[error](ctx)
			return fmt.Errorf("wrapped: %w", err)
		},
	} {
		inner := compile(t, one(node, retry, handle))
		b := graph.AddSubgraph(graph.New[trail]("g"), "sub", inner, graph.Mapping[trail, trail]{}, retry, handle)
		_, err := compile(t, b.AddEdge(graph.Start, "sub")).Invoke(bg, nil)
		if name == "configuration" {
			equal(t, "missing", wantErr[*graph.ConfigError](t, err).Type, "graph_test.form")
		} else {
			wantErr[*graph.MissingDepsError](t, err)
		}
		equal(t, name+": attempts", ran.of(name), 1)
	}
}

// What happens inside of a subgraph are signs of life of the node that runs it.
func TestASubgraphThatLivesIsNotIdle(t *testing.T) {
	for name, live := range map[string]func(context.Context){
		"message":   func(ctx context.Context) { _ = graph.EmitMessage(ctx, "token") },
		"event":     func(ctx context.Context) { _ = graph.Emit(ctx, 1) },
		"heartbeat": graph.Heartbeat,
		"nodes":     nil,
		"nothing":   func(context.Context) {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := graph.New[trail]("inner")
				work, names := live, []string{"a"}
				if live == nil { // nodes that say nothing and end in time
					work, names = func(context.Context) {}, []string{"a", "b", "c", "d"}
				}
				last := graph.Start
				for _, n := range names {
					g.AddNode(n, func(ctx context.Context, s *trail) error {
						for range 16 / len(names) {
							time.Sleep(200 * time.Millisecond)
							work(ctx)
						}
						return ctx.Err()
					}).AddEdge(last, n)
					last = n
				}
				middle := graph.AddSubgraph(graph.New[trail]("middle"), "sub", compile(t, g), graph.Mapping[trail, trail]{}).AddEdge(graph.Start, "sub")
				b := graph.AddSubgraph(graph.New[trail]("g"), "sub", compile(t, middle), graph.Mapping[trail, trail]{}, graph.IdleTimeout(time.Second))
				_, err := compile(t, b.AddEdge(graph.Start, "sub")).Invoke(t.Context(), nil)
				if name == "nothing" {
					equal(t, "kind", wantErr[*graph.TimeoutError](t, err).Kind, "idle")
				} else if err != nil {
					t.Error(err)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}
