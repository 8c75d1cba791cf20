package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/cache"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graphtest"
)

// double notes its calls and doubles a number.
func double(ran *calls) func(context.Context, int) (int, error) {
	return func(_ context.Context, in int) (int, error) {
		ran.add(fmt.Sprint("double ", in))
		return 2 * in, nil
	}
}

// nothing is an input.
func nothing(*trail) error { return nil }

// A workflow may be one function: what it has done isn't done again after a question, in
// another process either.
func TestAWorkflowIsOneFunctionOfRecordedSteps(t *testing.T) {
	store := checkpoint.NewMemory()
	ran := &calls{}
	build := func() *graph.Graph[trail] {
		return compile(t, one(func(ctx context.Context, s *trail) error {
			for i := range 3 {
				n, err := graph.Do(ctx, "double", double(ran), i)
				if err != nil {
					return err
				}
				s.N += n
			}
			more, err := graph.Interrupt[int](ctx, "more", s.N)
			if err != nil {
				return err
			}
			if more, err = graph.Do(ctx, "double", double(ran), more); err != nil {
				return err
			}
			if err := graph.Sleep(ctx, "rest", time.Nanosecond); err != nil {
				return err
			}
			s.N += more
			return nil
		}), graph.WithCheckpointer(store))
	}
	g := build()
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(nothing)))
	equal(t, "asked about", snap.Interrupts[0].Value.(float64), 6)
	g = build()
	snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(10)))
	for len(snap.Waits) > 0 {
		g = build()
		snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
	}
	equal(t, "result", snap.State.N, 26)
	equalSlice(t, "calls", ran.all(), []string{"double 0", "double 1", "double 2", "double 10"})
}

// Calls with the same name and input are told apart by their order.
func TestEqualCallsOfDoAreCounted(t *testing.T) {
	for name, opts := range map[string][]graph.Option{"stored": stored(), "not stored": nil} {
		t.Run(name, func(t *testing.T) {
			ran, keys := 0, map[string]bool{}
			var got [][]int
			g := compile(t, one(func(ctx context.Context, s *trail) error {
				var polled []int
				for range 3 {
					n, err := graph.Do(ctx, "poll", func(ctx context.Context, _ string) (int, error) {
						ran++
						keys[graph.Info(ctx).IdempotencyKey] = true
						return ran, nil
					}, "job")
					if err != nil {
						return err
					}
					polled = append(polled, n)
				}
				if got = append(got, polled); len(got) == 1 {
					return errBoom
				}
				return nil
			}, graph.Retry(graph.RetryPolicy{Initial: 1})), opts...)
			must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(nothing)))
			equal(t, "calls", ran, 3)
			equal(t, "keys", len(keys), 3)
			equal(t, "attempts", len(got), 2)
			for _, polled := range got {
				equalSlice(t, "polled", polled, []int{1, 2, 3})
			}
		})
	}
}

// A call that failed isn't counted: who makes it again by hand makes the same one.
func TestACallOfDoThatFailedKeepsItsKey(t *testing.T) {
	var keys []string
	g := compile(t, one(func(ctx context.Context, s *trail) error {
		for range 3 {
			n, err := graph.Do(ctx, "pay", func(ctx context.Context, in int) (int, error) {
				if keys = append(keys, graph.Info(ctx).IdempotencyKey); len(keys) < 3 {
					return 0, errBoom
				}
				return in, nil
			}, 7)
			if err == nil {
				s.N = n
				return nil
			}
		}
		return errBoom
	}), stored()...)
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(nothing)))
	equal(t, "paid", snap.State.N, 7)
	equal(t, "calls", len(keys), 3)
	equal(t, "distinct keys", len(slices.Compact(keys)), 1)
}

// On a fork with another answer what depends on it is done anew, and the rest is not.
func TestAForkWithAnotherAnswerDoesOtherSteps(t *testing.T) {
	ran := &calls{}
	note := func(_ context.Context, in string) (string, error) { ran.add(in); return in + "!", nil }
	g := compile(t, one(func(ctx context.Context, s *trail) error {
		if _, err := graph.Do(ctx, "note", note, "first"); err != nil {
			return err
		}
		city, err := graph.Interrupt[string](ctx, "city", nil)
		if err != nil {
			return err
		}
		if s.Note, err = graph.Do(ctx, "note", note, city); err != nil {
			return err
		}
		_, err = graph.Interrupt[bool](ctx, "fine", nil)
		return err
	}), stored()...)
	thread := g.Thread("t")
	asked := must[*graph.Snapshot[trail]](t)(thread.Invoke(bg, g.Input(nothing)))
	must[*graph.Snapshot[trail]](t)(thread.Invoke(bg, g.Answer("Rome")))
	must[*graph.Snapshot[trail]](t)(thread.At(asked.Checkpoint).Invoke(bg, g.Answer("Paris")))
	snap := must[*graph.Snapshot[trail]](t)(thread.Invoke(bg, g.Answer(true)))
	equal(t, "booked", snap.State.Note, "Paris!")
	equalSlice(t, "calls", ran.all(), []string{"first", "Rome", "Paris"})
}

// What was done is kept when the superstep is restarted.
func TestRestartStepKeepsWhatDoHasRecorded(t *testing.T) {
	ran := &calls{}
	g := compile(t, one(func(ctx context.Context, s *trail) (err error) {
		if s.N, err = graph.Do(ctx, "double", double(ran), 4); err != nil {
			return err
		}
		_, err = graph.Interrupt[bool](ctx, "fine", nil)
		return err
	}), stored()...)
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(nothing)))
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.RestartStep()))
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(true)))
	equal(t, "result", snap.State.N, 8)
	equal(t, "calls", len(ran.all()), 1)
}

func TestDoIsRetriedByItsPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var at []time.Duration
		keys := map[string]bool{}
		fails := 3
		g := compile(t, one(func(ctx context.Context, s *trail) (err error) {
			s.N, err = graph.Do(ctx, "flaky", func(ctx context.Context, in int) (int, error) {
				info := graph.Info(ctx)
				at = append(at, time.Since(start))
				keys[info.IdempotencyKey] = true
				equal(t, "attempt", info.Attempt, len(at))
				equal(t, "name", info.Do, "flaky")
				if len(at) < fails {
					return 0, errBoom
				}
				return in, nil
			}, 5, graph.Retry(graph.RetryPolicy{Initial: time.Second, NoJitter: true}))
			equal(t, "attempt of the node", graph.Info(ctx).Attempt, 1)
			return err
		}), stored()...)
		snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(nothing)))
		equal(t, "result", snap.State.N, 5)
		equalSlice(t, "times", at, []time.Duration{0, time.Second, 3 * time.Second})
		equal(t, "keys", len(keys), 1)

		at, start, fails = nil, time.Now(), 100
		_, err := g.Thread("u").Invoke(bg, g.Input(nothing))
		if !errors.Is(err, errBoom) || !strings.Contains(err.Error(), `node "a/flaky" failed in step 1 (attempt 3): boom`) {
			t.Errorf("error %v", err)
		}
		equal(t, "attempts", len(at), 3)
	})
}

func TestDoHasATimeoutOfItsOwn(t *testing.T) {
	for name, deaf := range map[string]bool{"heeded": false, "ignored": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ran := &calls{}
				g := compile(t, one(func(ctx context.Context, s *trail) (err error) {
					s.N, err = graph.Do(ctx, "slow", func(ctx context.Context, in int) (int, error) {
						if ran.add("slow") == 2 {
							return in, nil
						}
						if deaf {
							time.Sleep(time.Minute)
							return 99, nil
						}
						<-ctx.Done()
						return 0, ctx.Err()
					}, 5, graph.Timeout(time.Second), graph.Retry(graph.RetryPolicy{Initial: 1, If: func(err error) bool {
						e := wantErr[*graph.TimeoutError](t, err)
						equal(t, "who", e.Node, "a/slow")
						return true
					}}))
					return err
				}), stored()...)
				snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(nothing)))
				equal(t, "result", snap.State.N, 5)
				equal(t, "attempts", ran.of("slow"), 2)
				time.Sleep(time.Hour) // the one that was left behind ends
			})
		})
	}
}

// What outlives the node's attempt, but not its own time, is recorded nevertheless.
func TestDoThatOutlivesItsNodesAttemptIsTheNextOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := &calls{}
		g := compile(t, one(func(ctx context.Context, s *trail) (err error) {
			s.N, err = graph.Do(ctx, "charge", func(context.Context, int) (int, error) {
				time.Sleep(1500 * time.Millisecond)
				return ran.add("charge"), nil
			}, 0, graph.Timeout(time.Minute))
			return err
		}, graph.Timeout(time.Second), graph.Retry(graph.RetryPolicy{Initial: 1})), stored()...)
		snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(nothing)))
		equal(t, "charged", ran.of("charge"), 1)
		equal(t, "result", snap.State.N, 1)
	})
}

// One that ends with the time of the node's attempt doesn't fail the next attempt.
func TestDoThatEndsWithItsNodesAttemptIsMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := &calls{}
		g := compile(t, one(func(ctx context.Context, s *trail) (err error) {
			s.N, err = graph.Do(ctx, "charge", func(ctx context.Context, _ int) (int, error) {
				if ran.add("charge") == 1 {
					time.Sleep(1500 * time.Millisecond)
					return 0, ctx.Err()
				}
				return 7, nil
			}, 0)
			return err
		}, graph.Timeout(time.Second), graph.Retry(graph.RetryPolicy{Initial: 1, MaxAttempts: 2})), stored()...)
		snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(nothing)))
		equal(t, "calls", ran.of("charge"), 2)
		equal(t, "result", snap.State.N, 7)
	})
}

func TestDoTakesItsResultFromACache(t *testing.T) {
	ran := &calls{}
	results := &cache.Memory{}
	g := compile(t, one(func(ctx context.Context, s *trail) error {
		for _, in := range []int{1, 2, 3} {
			n, err := graph.Do(ctx, "double", double(ran), in, graph.Cache(graph.CachePolicy{Store: results, Key: func(in any, _ json.RawMessage) (string, error) {
				return fmt.Sprint(in.(int) % 2), nil
			}}))
			if err != nil {
				return err
			}
			s.N += n
		}
		return nil
	}), stored()...)
	var cached []string
	o := graph.Observe(watcher(func(ev graph.Event) {
		if ev.Type == graph.EventTaskEnd && ev.Cached {
			cached = append(cached, string(ev.Update))
		}
	}))
	for _, thread := range []string{"t", "u"} {
		snap := must[*graph.Snapshot[trail]](t)(g.Thread(thread, o).Invoke(bg, g.Input(nothing)))
		equal(t, "sum", snap.State.N, 2+4+2)
	}
	equalSlice(t, "calls", ran.all(), []string{"double 1", "double 2"})
	equalSlice(t, "cached", cached, []string{"2", "2", "4", "2"})
}

// watcher is an observer of nodes.
type watcher func(ev graph.Event)

func (w watcher) OnNodeEnter(ev graph.Event)     { w(ev) }
func (w watcher) OnNodeExit(ev graph.Event)      { w(ev) }
func (w watcher) OnError(ev graph.Event)         { w(ev) }
func (watcher) OnInterrupt(graph.Event)          {}
func (watcher) OnCheckpointSaved(ev graph.Event) {}

func TestFuturesRunAtOnce(t *testing.T) {
	for name, opts := range map[string][]graph.Option{"stored": stored(), "not stored": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ran := &calls{}
				attempts := 0
				g := compile(t, one(func(ctx context.Context, s *trail) error {
					attempts++
					var futures []*graph.Future[int]
					for i := range 50 {
						futures = append(futures, graph.Go(ctx, "slow", func(ctx context.Context, in int) (int, error) {
							time.Sleep(time.Second)
							return ran.add("slow"), nil
						}, i/2))
					}
					s.N = 0
					for _, f := range futures {
						n, err := f.Wait(ctx)
						if err != nil {
							return err
						}
						s.N += n
					}
					if attempts == 1 {
						return errBoom
					}
					return nil
				}, graph.Retry(graph.RetryPolicy{Initial: 1})), opts...)
				start := time.Now()
				snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(nothing)))
				equal(t, "calls", ran.of("slow"), 50)
				equal(t, "sum", snap.State.N, 50*51/2)
				equal(t, "seconds", time.Since(start).Round(time.Second), time.Second)
			})
		})
	}
}

func TestAtMostAsManyFuturesRunAsTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []int
		g := compile(t, one(func(ctx context.Context, s *trail) error {
			for i := range 6 {
				graph.Go(ctx, "slow", func(ctx context.Context, in int) (int, error) {
					time.Sleep(time.Second)
					order = append(order, in)
					return in, nil
				}, i)
			}
			return nil
		}))
		start := time.Now()
		must[*graph.Snapshot[trail]](t)(g.Invoke(bg, nil, graph.Concurrency(1)))
		equal(t, "one at a time", time.Since(start), 6*time.Second)
		equalSlice(t, "order", order, []int{0, 1, 2, 3, 4, 5})
	})
	synctest.Test(t, func(t *testing.T) {
		g := compile(t, one(func(ctx context.Context, s *trail) error {
			for i := range 6 {
				graph.Go(ctx, "slow", func(ctx context.Context, in int) (int, error) {
					time.Sleep(time.Second)
					return in, nil
				}, i)
			}
			return nil
		}))
		start := time.Now()
		must[*graph.Snapshot[trail]](t)(g.Invoke(bg, nil, graph.Concurrency(2)))
		equal(t, "two at a time", time.Since(start), 3*time.Second)
	})
}

// A node that returns waits for its futures: what fails there is its failure, and its own
// failure cancels them.
func TestANodeEndsWithItsFutures(t *testing.T) {
	slow := func(ran *calls) func(context.Context, string) (int, error) {
		return func(ctx context.Context, in string) (int, error) {
			select {
			case <-time.After(time.Second):
				ran.add(in)
				return 1, nil
			case <-ctx.Done():
				ran.add(in + " cancelled")
				return 0, context.Cause(ctx)
			}
		}
	}
	for name, c := range map[string]struct {
		node func(ctx context.Context, ran *calls) error
		want string
		fail bool
	}{
		"success": {func(ctx context.Context, ran *calls) error { graph.Go(ctx, "slow", slow(ran), "x"); return nil }, "x", false},
		"failure": {func(ctx context.Context, ran *calls) error {
			graph.Go(ctx, "slow", slow(ran), "x")
			time.Sleep(time.Millisecond)
			return errBoom
		}, "x cancelled", true},
		"panic": {func(ctx context.Context, ran *calls) error {
			graph.Go(ctx, "slow", slow(ran), "x")
			time.Sleep(time.Millisecond)
			panic(errBoom)
		}, "x cancelled", true},
		"failure of a future": {func(ctx context.Context, ran *calls) error {
			graph.Go(ctx, "bad", func(context.Context, int) (int, error) { return 0, errBoom }, 1)
			graph.Go(ctx, "slow", slow(ran), "x")
			time.Sleep(time.Millisecond)
			return nil
		}, "x cancelled", true},
		"panic of a future": {func(ctx context.Context, ran *calls) error {
			graph.Go(ctx, "bad", func(context.Context, int) (int, error) { panic(errBoom) }, 1)
			return nil
		}, "", true},
		"end of a future's goroutine": {func(ctx context.Context, ran *calls) error {
			f := graph.Go(ctx, "bad", func(context.Context, int) (int, error) { runtime.Goexit(); return 0, nil }, 1)
			_, err := f.Wait(ctx)
			return errors.Join(err, errBoom)
		}, "", true},
		"failure that was seen": {func(ctx context.Context, ran *calls) error {
			f := graph.Go(ctx, "bad", func(context.Context, int) (int, error) { return 0, errBoom }, 1)
			graph.Go(ctx, "slow", slow(ran), "x")
			_, _ = f.Wait(ctx)
			return nil
		}, "x", false},
		"question": {func(ctx context.Context, ran *calls) error {
			graph.Go(ctx, "slow", slow(ran), "x")
			_, err := graph.Interrupt[bool](ctx, "q", nil)
			return err
		}, "x", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ran := &calls{}
				g := compile(t, one(func(ctx context.Context, s *trail) error { return c.node(ctx, ran) }), stored()...)
				_, err := g.Thread("t").Invoke(bg, g.Input(nothing))
				equal(t, "fails", errors.Is(err, errBoom), c.fail)
				if err != nil && !c.fail {
					t.Error(err)
				}
				equal(t, "calls", strings.Join(ran.all(), ", "), c.want)
			})
		})
	}
}

// lineOf writes events down as text.
func lineOf(ev graph.Event) string {
	text := fmt.Sprintf("%s %s", ev.Type, strings.Join(append(slices.Clone(ev.Path), ev.Node), "/"))
	if ev.Input != nil {
		text += " with " + string(ev.Input)
	}
	if ev.Update != nil {
		text += " came to " + string(ev.Update)
	}
	if ev.Attempt > 0 {
		text += fmt.Sprintf(", attempt %d", ev.Attempt)
	}
	if ev.Err != nil {
		text += ": " + ev.Err.Error()
	}
	return text
}

// A sub-step is seen where tasks are seen; one that is recorded isn't seen again.
func TestDoIsSeenAsATask(t *testing.T) {
	fail := true
	g := compile(t, one(func(ctx context.Context, s *trail) error {
		n, err := graph.Do(ctx, "double", double(&calls{}), 4)
		if err != nil {
			return err
		}
		s.N, err = graph.Do(ctx, "flaky", func(ctx context.Context, in int) (int, error) {
			if fail {
				return 0, errBoom
			}
			return in, nil
		}, n, graph.Retry(graph.RetryPolicy{Initial: 1, MaxAttempts: 2}))
		return err
	}), stored()...)
	var got, ids []string
	run := func(req graph.Request[trail]) (err error) {
		got = nil
		for ev, e := range g.Thread("t").Stream(bg, req, graph.Modes(graph.ModeTasks)) {
			if e != nil {
				return e
			}
			got = append(got, lineOf(ev))
			if ev.Node == "flaky" && ev.Type == graph.EventTaskStart {
				ids = append(ids, ev.Task)
			}
			if len(ev.Path) > 0 {
				equal(t, "task of the node", len(ev.Within), 1)
				if _, task, _, _ := checkpoint.CutSegment(ev.Within[0]); !strings.HasPrefix(ev.Task, task+".") {
					t.Errorf("task %s of %s", ev.Task, task)
				}
			}
		}
		return nil
	}
	if err := run(g.Input(nothing)); !errors.Is(err, errBoom) {
		t.Fatal(err)
	}
	equalSlice(t, "events", got, []string{
		"task a",
		"task a/double with 4", "task_result a/double came to 8, attempt 1",
		"task a/flaky with 8", "task_retry a/flaky, attempt 1: boom",
		`task_error a/flaky, attempt 2: node "a/flaky" failed in step 1 (attempt 2): boom`,
		`task_error a, attempt 1: node "a" failed in step 1: node "a/flaky" failed in step 1 (attempt 2): boom`,
	})
	fail = false
	if err := run(g.Continue()); err != nil {
		t.Fatal(err)
	}
	equalSlice(t, "events", got, []string{
		"task a", "task a/flaky with 8", "task_result a/flaky came to 8, attempt 1", `task_result a came to {"N":8}, attempt 2`,
	})
	equal(t, "ID of the call", ids[0], ids[1])
}

// Observers are told one at a time, though futures run at once.
func TestObserversOfFuturesAreToldOneAtATime(t *testing.T) {
	g := compile(t, one(func(ctx context.Context, s *trail) error {
		for i := range 20 {
			graph.Go(ctx, "f", func(_ context.Context, in int) (int, error) { return in, nil }, i)
		}
		return nil
	}))
	n := 0 // not guarded: the race detector looks
	must[*graph.Snapshot[trail]](t)(g.Invoke(bg, nil, graph.Observe(watcher(func(graph.Event) { n++ }))))
	equal(t, "events", n, 2+2*20)
}

func TestTracesHaveAPartForEachAttemptOfDo(t *testing.T) {
	p := &parts{}
	fail := true
	g := compile(t, one(func(ctx context.Context, s *trail) error {
		_, err := graph.Do(ctx, "flaky", func(ctx context.Context, in int) (int, error) {
			if fail = !fail; !fail {
				return 0, errBoom
			}
			if ctx.Value(partKey{}).(*part).text == "" {
				t.Error("the function is not in its part")
			}
			return in, nil
		}, 1, graph.Retry(graph.RetryPolicy{Initial: time.Millisecond, NoJitter: true}))
		return err
	}), graph.Trace(p))
	must[*graph.Snapshot[trail]](t)(g.Invoke(bg, nil))
	var lines []string
	var walk func(in *part, depth int)
	walk = func(in *part, depth int) {
		for _, c := range in.children {
			lines = append(lines, strings.Repeat(" ", depth)+c.text)
			walk(c, depth+1)
		}
	}
	walk(&p.root, 0)
	equal(t, "parts", strings.Join(lines, "\n"), `run g .
 step 1 of 1 tasks .
  attempt a 1 in step 1 .
   attempt flaky 1 in step 1 at a: boom (again in 1ms) .
   attempt flaky 2 in step 1 at a .`)
}

// A replay takes what was recorded. A call that the recording doesn't have, by its name or
// its input, is a difference.
func TestAReplayTakesWhatDoHasRecorded(t *testing.T) {
	store := checkpoint.NewMemory()
	ran := &calls{}
	build := func(in int) *graph.Graph[trail] {
		return compile(t, one(func(ctx context.Context, s *trail) error {
			futures := []*graph.Future[int]{graph.Go(ctx, "double", double(ran), in), graph.Go(ctx, "double", double(ran), in)}
			for _, f := range futures {
				n, err := f.Wait(ctx)
				if err != nil {
					return err
				}
				s.N += n
			}
			_, err := graph.Do(ctx, "bad", func(context.Context, int) (int, error) { return 0, errBoom }, 1)
			s.Note = fmt.Sprint(err)
			ok, err := graph.Interrupt[bool](ctx, "fine", s.N)
			if ok {
				s.Ran.Add("fine")
			}
			return err
		}), graph.WithCheckpointer(store), graph.RecordOnce())
	}
	g := build(3)
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(nothing)))
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(true)))
	equal(t, "note", snap.State.Note, `node "a/bad" failed in step 1: boom`)
	rec := taped(t, store, "t")
	same(t, g, rec)
	equal(t, "calls", len(ran.all()), 2)
	first(t, build(4), rec, `1 /a once : no such call | calls Go "double" with 4`)
}

// What can't be a sub-step is refused.
func TestDoRefusesWhatItCantRecord(t *testing.T) {
	id := func(_ context.Context, in int) (int, error) { return in, nil }
	for want, call := range map[string]func(ctx context.Context) error{
		`graph.Do "" in node "a": it needs a name`: func(ctx context.Context) error { _, err := graph.Do(ctx, "", id, 1); return err },
		`graph.Do "x" in node "a": its function is nil`: func(ctx context.Context) error {
			_, err := graph.Do[int, int](ctx, "x", nil, 1)
			return err
		},
		`graph.Go "x" in node "a": its function is nil`: func(ctx context.Context) error {
			_, err := graph.Go[int, int](ctx, "x", nil, 1).Wait(ctx)
			return err
		},
		`graph.Do "\xff" in node "a": it is not valid UTF-8`: func(ctx context.Context) error { _, err := graph.Do(ctx, "\xff", id, 1); return err },
		`graph.Do "x" in node "a": its input can't be encoded: json: unsupported type: func()`: func(ctx context.Context) error {
			_, err := graph.Do(ctx, "x", func(context.Context, func()) (int, error) { return 0, nil }, func() {})
			return err
		},
		`graph.Do "x" in node "a": Timeout of -1s: use a positive duration, or 0 for none`: func(ctx context.Context) error {
			_, err := graph.Do(ctx, "x", id, 1, graph.Timeout(-time.Second))
			return err
		},
		`graph.Do "x" in node "a": it has a nil option: remove it`: func(ctx context.Context) error { _, err := graph.Do(ctx, "x", id, 1, nil); return err },
		`graph.Do "x" in node "a": a cache policy without a store`: func(ctx context.Context) error {
			_, err := graph.Do(ctx, "x", id, 1, graph.Cache(graph.CachePolicy{}))
			return err
		},
		`Do "y" is not possible inside Do`: func(ctx context.Context) error {
			_, err := graph.Do(ctx, "x", func(ctx context.Context, in int) (int, error) { return graph.Do(ctx, "y", id, in) }, 1)
			return err
		},
		`an interrupt is not possible here`: func(ctx context.Context) error {
			_, err := graph.Do(ctx, "x", func(ctx context.Context, in int) (int, error) { return graph.Interrupt[int](ctx, "k", nil) }, 1)
			return err
		},
		`result of Do "x"`: func(ctx context.Context) error {
			_, err := graph.Do(ctx, "x", func(context.Context, int) (func(), error) { return func() {}, nil }, 1)
			return err
		},
		`wrote to field "N" of its state inside Do "x"`: nil,
	} {
		t.Run(want, func(t *testing.T) {
			g := compile(t, one(func(ctx context.Context, s *trail) error {
				if call == nil {
					_, err := graph.Do(ctx, "x", func(context.Context, int) (int, error) { s.N++; return 0, nil }, 1)
					return err
				}
				return call(ctx)
			}), append(stored(), graph.CheckMutations())...)
			if _, err := g.Thread("t").Invoke(bg, g.Input(nothing)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v", err)
			}
		})
	}
	if _, err := graph.Do(bg, "x", id, 1); !errors.Is(err, graph.ErrNotInNode) {
		t.Errorf("outside of a node: %v", err)
	}
	if _, err := graph.Go(bg, "x", id, 1).Wait(bg); !errors.Is(err, graph.ErrNotInNode) {
		t.Errorf("outside of a node: %v", err)
	}
}

// While a question is open nothing begins.
func TestDoAfterAnOpenQuestionDoesNotRun(t *testing.T) {
	ran := &calls{}
	g := compile(t, one(func(ctx context.Context, s *trail) error {
		_, asked := graph.Interrupt[bool](ctx, "q", nil)
		f := graph.Go(ctx, "double", double(ran), 2)
		if _, err := graph.Do(ctx, "double", double(ran), 1); asked != nil && !errors.Is(err, graph.ErrInterrupted) {
			t.Errorf("error %v", err)
		}
		_, err := f.Wait(ctx)
		return err
	}), stored()...)
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(nothing)))
	equal(t, "calls", len(ran.all()), 0)
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(true)))
	equal(t, "calls", len(ran.all()), 2)
}

// In subgraphs, scopes and several tasks of one node each has its own.
func TestDoBelongsToItsTaskAndScope(t *testing.T) {
	ran := &calls{}
	var mu sync.Mutex
	keys := map[string]bool{}
	inner := graph.New[trail]("inner")
	work := graph.AddTask(inner, "work", func(ctx context.Context, s *trail, in int) error {
		for _, scope := range []string{"x", "y"} {
			n, err := graph.Do(graph.Scope(ctx, scope), "charge", func(ctx context.Context, in int) (int, error) {
				mu.Lock()
				keys[graph.Info(ctx).IdempotencyKey] = true
				mu.Unlock()
				ran.add("charge")
				return in, nil
			}, 7)
			if err != nil {
				return err
			}
			s.Total.Add(n)
		}
		_, err := graph.Interrupt[bool](ctx, fmt.Sprint("ok", in), nil)
		return err
	})
	inner.AddCommandNode("split", func(context.Context, *trail) (graph.Command, error) {
		return graph.Dispatch(work.Send(1), work.Send(2)), nil
	})
	inner.AddEdge(graph.Start, "split")
	b := graph.AddSubgraph(graph.New[trail]("g"), "sub", compile(t, inner), graph.Mapping[trail, trail]{Out: func(c, p *trail) { p.N = c.Total.Get() }})
	g := compile(t, b.AddEdge(graph.Start, "sub"), stored()...)
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(nothing)))
	for !snap.Done() {
		snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(graph.Answers{snap.Interrupts[0].Key: true})))
	}
	equal(t, "sum", snap.State.N, 4*7)
	equal(t, "calls", ran.of("charge"), 4)
	equal(t, "keys", len(keys), 4)
}

// The state of a thread tells what its tasks have done.
func TestStateTellsWhatWasDone(t *testing.T) {
	g := compile(t, one(func(ctx context.Context, s *trail) error {
		for range 2 {
			if _, err := graph.Do(ctx, "double", double(&calls{}), 1); err != nil {
				return err
			}
		}
		if _, err := graph.Do(graph.Scope(ctx, "in"), "double", double(&calls{}), 1); err != nil {
			return err
		}
		if _, err := graph.Once(ctx, "Once (b)", func(context.Context, string) (int, error) { return 0, nil }); err != nil {
			return err
		}
		return errBoom
	}), stored()...)
	snap, err := g.Thread("t").Invoke(bg, g.Input(nothing))
	if !errors.Is(err, errBoom) {
		t.Fatal(err)
	}
	want := []string{"Once (b)", "double", "double", "in/double"}
	equalSlice(t, "what the run did", snap.Tasks[0].Did, want)
	snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").State(bg))
	equalSlice(t, "what is recorded", snap.Tasks[0].Did, want)
}

// The history of a thread tells what the tasks of each superstep have done.
func TestHistoryTellsWhatWasDone(t *testing.T) {
	b := graph.New[trail]("g").AddNode("quiet", func(context.Context, *trail) error { return nil })
	for i, name := range []string{"one", "two"} {
		b.AddNode(name, func(ctx context.Context, s *trail) error {
			for range i + 1 {
				if _, err := graph.Do(graph.Scope(ctx, name), "double", double(&calls{}), 1); err != nil {
					return err
				}
			}
			return nil
		}).AddEdge(graph.Start, name).AddEdge(name, "last")
	}
	b.AddNode("last", func(context.Context, *trail) error { return nil }).AddEdge(graph.Start, "quiet")
	g := compile(t, b, stored()...)
	for _, with := range []struct {
		opts []graph.ThreadOption
		want string
	}{{nil, ""}, {[]graph.ThreadOption{graph.RecordOnce()}, "one one/double 2, two two/double 2, two two/double 2"}} {
		thread := g.Thread(fmt.Sprint("t", len(with.opts)), with.opts...)
		must[*graph.Snapshot[trail]](t)(thread.Invoke(bg, g.Input(nothing)))
		var got, results []string
		for e, err := range thread.History(bg, graph.HistoryQuery{OldestFirst: true}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprint(e.Nodes, e.Did))
			for _, r := range must[[]graph.Recorded](t)(e.Recorded(bg)) {
				results = append(results, fmt.Sprintf("%s %s %s%s", r.Node, r.Name, r.Data, r.Error))
			}
		}
		equalSlice(t, "history", got, []string{"[] []", "[quiet one two] [[] [one/double] [two/double two/double]]", "[last] []"})
		if got := strings.Join(results, ", "); got != with.want {
			t.Errorf("results: %s; want %s", got, with.want)
		}
	}
}

// Wherever the process dies, what is recorded isn't done again, and what is done again has
// the key that it had.
func TestDoGoesOnAfterACrashAtAnyWrite(t *testing.T) {
	var mu sync.Mutex
	did := map[string]int{}
	graphtest.CheckRecovery(t, func() *graph.Builder[trail] {
		return one(func(ctx context.Context, s *trail) error {
			var futures []*graph.Future[int]
			for i := range 3 {
				futures = append(futures, graph.Go(ctx, "double", func(ctx context.Context, in int) (int, error) {
					mu.Lock()
					defer mu.Unlock()
					info := graph.Info(ctx)
					did[info.Thread+info.IdempotencyKey]++
					return 2 * in, nil
				}, i))
			}
			for _, f := range futures {
				n, err := f.Wait(ctx)
				if err != nil {
					return err
				}
				s.N += n
			}
			ok, err := graph.Interrupt[bool](ctx, "ok", nil)
			if ok {
				s.Note = "ok"
			}
			return err
		})
	}, func(*trail) error { return nil }, graphtest.Script{"ok": {true}})
	for key, n := range did {
		if n > 2 { // at most once more: the effect came before the crash and its record did not
			t.Errorf("key %s: done %d times", key, n)
		}
	}
}
