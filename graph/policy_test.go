package graph_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/cache"
	"github.com/superstep-dev/superstep/graph"
)

// one returns a graph with a single node.
func one(fn func(ctx context.Context, s *trail) error, opts ...graph.NodeOption) *graph.Builder[trail] {
	b := graph.New[trail]("g")
	b.AddNode("a", fn, opts...)
	return b.AddEdge(graph.Start, "a")
}

func TestRetryPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errFatal, errSlow := errors.New("fatal"), errors.New("slow")
		var times []time.Duration
		var fail func(attempt int) error
		start := time.Now()
		b := one(func(ctx context.Context, s *trail) error {
			times = append(times, time.Since(start))
			s.Ran.Add(fmt.Sprint(graph.Info(ctx).Attempt))
			return fail(graph.Info(ctx).Attempt)
		}, graph.Retry(
			graph.RetryPolicy{If: func(err error) bool { return errors.Is(err, errSlow) }, MaxAttempts: 2, Initial: time.Minute, NoJitter: true},
			graph.RetryPolicy{If: func(err error) bool { return !errors.Is(err, errFatal) }, MaxAttempts: 4, Initial: time.Second, Factor: 3, Max: 5 * time.Second, NoJitter: true},
		))
		g := compile(t, b)
		fail = func(n int) error {
			if n < 4 {
				return errBoom
			}
			return nil
		}
		snap := must[*graph.Snapshot[trail]](t)(g.Invoke(bg, nil))
		equal(t, "only the last attempt's writes count", snap.State.ran(), "4")
		equalSlice(t, "times", times, []time.Duration{0, 1 * time.Second, 4 * time.Second, 9 * time.Second})

		times, start = nil, time.Now()
		fail = func(int) error { return errFatal }
		_, err := g.Invoke(bg, nil)
		if !errors.Is(err, errFatal) {
			t.Fatal(err)
		}
		equal(t, "attempts", len(times), 1)

		times, start = nil, time.Now()
		fail = func(int) error { return errSlow }
		_, err = g.Invoke(bg, nil)
		equal(t, "attempt", wantErr[*graph.NodeError](t, err).Attempt, 2)
		equal(t, "second attempt at", times[1], time.Minute)
	})
}

func TestJitterStaysWithinItsBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last time.Time
		var waits []time.Duration
		b := one(func(context.Context, *trail) error {
			if !last.IsZero() {
				waits = append(waits, time.Since(last))
			}
			last = time.Now()
			return errBoom
		}, graph.Retry(graph.RetryPolicy{MaxAttempts: 50, Initial: time.Second, Factor: 1}))
		_, _ = compile(t, b).Invoke(bg, nil)
		for _, w := range waits {
			if w < 500*time.Millisecond || w > time.Second {
				t.Errorf("waited %v", w)
			}
		}
	})
}

func TestCancelEndsAWaitForTheNextAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		start := time.Now()
		b := one(func(context.Context, *trail) error { return errBoom }, graph.Retry(graph.RetryPolicy{Initial: time.Hour}))
		_, err := compile(t, b).Invoke(ctx, nil)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		equal(t, "time", time.Since(start), time.Second)
	})
}

func TestNodeTimeouts(t *testing.T) { // TRPC-44, W12
	synctest.Test(t, func(t *testing.T) {
		var cancelled atomic.Bool
		polite := func(ctx context.Context, s *trail) error {
			s.Ran.Add("late")
			<-ctx.Done()
			cancelled.Store(true)
			return nil
		}
		deaf := func(ctx context.Context, s *trail) error {
			time.Sleep(time.Minute)
			s.Ran.Add("late")
			return nil
		}
		for name, c := range map[string]struct {
			b    *graph.Builder[trail]
			opts []graph.RunOption
			kind string
		}{
			"polite":    {one(polite, graph.Timeout(time.Second)), nil, "node"},
			"deaf":      {one(deaf, graph.Timeout(time.Second)), nil, "node"},
			"graph's":   {one(polite), []graph.RunOption{graph.NodeTimeout(time.Second)}, "node"},
			"idle":      {one(polite, graph.IdleTimeout(time.Second)), nil, "idle"},
			"step":      {one(polite), []graph.RunOption{graph.StepTimeout(time.Second)}, "step"},
			"deaf step": {one(deaf), []graph.RunOption{graph.StepTimeout(time.Second)}, "step"},
		} {
			cancelled.Store(false)
			start := time.Now()
			snap, err := compile(t, c.b).Invoke(bg, nil, c.opts...)
			e := wantErr[*graph.TimeoutError](t, err)
			equal(t, name+": kind", e.Kind, c.kind)
			equal(t, name+": node", e.Node, "a")
			equal(t, name+": limit", e.Limit, time.Second)
			if late := time.Since(start) - time.Second; late > 200*time.Millisecond {
				t.Errorf("%s: returned %v late", name, late)
			}
			equal(t, name+": what it still wrote", snap.State.ran(), "")
		}
		time.Sleep(2 * time.Minute) // the deaf ones end
	})
}

// A task that got no place to run in until its superstep's time was over has failed: the
// superstep did not end well.
func TestAStepTimeoutFailsTasksThatHaveNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := one(func(context.Context, *trail) error { time.Sleep(time.Millisecond); return nil })
		inner.AddNode("b", func(context.Context, *trail) error { return nil }).AddEdge("a", "b")
		b := graph.New[trail]("g")
		graph.AddSubgraph(b, "sub", compile(t, inner, graph.StepTimeout(time.Second)), graph.Mapping[trail, trail]{
			In:  func(*trail, *trail) {},
			Out: func(_ *trail, p *trail) { p.N = 1 },
		})
		// It gets the place of sub, which waits for its subgraph, or of the node in it.
		b.AddNode("slow", func(context.Context, *trail) error { time.Sleep(2 * time.Second); return nil })
		b.AddEdge(graph.Start, "sub").AddEdge(graph.Start, "slow")
		snap, err := compile(t, b).Invoke(bg, nil, graph.MaxConcurrency(1))
		e := wantErr[*graph.TimeoutError](t, err)
		equal(t, "kind", e.Kind, "step")
		equal(t, "N", snap.State.N, 0)
	})
}

func TestHeartbeatsKeepAnIdleNodeAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := one(func(ctx context.Context, s *trail) error {
			for range 10 {
				time.Sleep(900 * time.Millisecond)
				graph.Heartbeat(ctx)
			}
			s.N = 1
			return ctx.Err()
		}, graph.IdleTimeout(time.Second))
		equal(t, "N", must[*graph.Snapshot[trail]](t)(compile(t, b).Invoke(bg, nil)).State.N, 1)
	})
}

func TestTimeoutIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := one(func(ctx context.Context, s *trail) error {
			if graph.Info(ctx).Attempt == 1 {
				<-ctx.Done()
				return ctx.Err()
			}
			s.N = 2
			return nil
		}, graph.Timeout(time.Second), graph.Retry(graph.RetryPolicy{}))
		equal(t, "N", must[*graph.Snapshot[trail]](t)(compile(t, b).Invoke(bg, nil)).State.N, 2)
	})
}

func TestRunTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := one(func(ctx context.Context, s *trail) error { <-ctx.Done(); return ctx.Err() })
		_, err := compile(t, b).Invoke(bg, nil, graph.RunTimeout(time.Second))
		equal(t, "kind", wantErr[*graph.TimeoutError](t, err).Kind, "run")
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

func TestW12AFailingSiblingDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := graph.New[trail]("g")
		b.AddNode("slow", func(context.Context, *trail) error { time.Sleep(time.Hour); return nil })
		b.AddNode("bad", func(context.Context, *trail) error { return errBoom })
		b.AddEdge(graph.Start, "slow").AddEdge(graph.Start, "bad")
		start := time.Now()
		_, err := compile(t, b).Invoke(bg, nil)
		if !errors.Is(err, errBoom) {
			t.Fatal(err)
		}
		if d := time.Since(start); d > time.Second {
			t.Errorf("the error came after %v", d)
		}
		time.Sleep(2 * time.Hour)
	})
}

func TestW12LimitsAreHierarchical(t *testing.T) {
	var active, most atomic.Int32
	cb := graph.New[trail]("child")
	for _, n := range []string{"x", "y", "z"} {
		cb.AddNode(n, func(context.Context, *trail) error {
			most.Store(max(most.Load(), active.Add(1)))
			time.Sleep(time.Millisecond)
			active.Add(-1)
			return nil
		})
		cb.AddEdge(graph.Start, n)
	}
	c := compile(t, cb)
	b := graph.New[trail]("parent")
	for _, n := range []string{"one", "two", "three"} {
		b.AddNode(n, func(ctx context.Context, s *trail) error {
			_, err := graph.Call(ctx, "", c, nil)
			return err
		})
		b.AddEdge(graph.Start, n)
	}
	must[*graph.Snapshot[trail]](t)(compile(t, b).Invoke(bg, nil, graph.MaxConcurrency(2)))
	if most.Load() > 2 {
		t.Errorf("%d tasks ran at a time", most.Load())
	}
}

func TestErrorHandlerStandsInForItsNode(t *testing.T) { // SONI-41, W20
	attempts := 0
	b := graph.New[trail]("g")
	b.AddNode("a", func(context.Context, *trail) error { attempts++; return errBoom },
		graph.Retry(graph.RetryPolicy{Initial: 1}),
		graph.OnError(func(_ context.Context, s *trail, err *graph.NodeError) (graph.Command, error) {
			s.Note = fmt.Sprintf("%s after %d: %v", err.Node, err.Attempt, errors.Is(err, errBoom))
			return graph.Goto("recover"), nil
		}), graph.Destinations("recover"))
	visits(b, "next", "recover")
	b.AddNode("bad", func(context.Context, *trail) error { return errBoom },
		graph.OnError(func(_ context.Context, s *trail, err *graph.NodeError) (graph.Command, error) {
			return graph.Command{}, fmt.Errorf("handler: %w", err)
		}))
	b.AddEdge(graph.Start, "a").AddEdge("a", "next").AddEdge("recover", "bad")
	snap, err := compile(t, b).Invoke(bg, nil)
	equal(t, "note", snap.State.Note, "a after 3: true")
	equal(t, "ran", snap.State.ran(), "recover")
	if !errors.Is(err, errBoom) || wantErr[*graph.NodeError](t, err).Node != "bad" {
		t.Error(err)
	}
}

func TestNodeCache(t *testing.T) {
	ran := &calls{}
	version := "1"
	results := &cache.Memory{}
	build := func() *graph.Graph[trail] {
		b := graph.New[trail]("g")
		b.AddNode("slow", func(_ context.Context, s *trail) error {
			ran.add("slow")
			s.Ran.Add("slow")
			s.Total.Add(s.N)
			return nil
		}, graph.Cache(graph.CachePolicy{Store: results, TTL: time.Minute, Version: version}))
		b.AddEdge(graph.Start, "slow")
		return compile(t, b)
	}
	synctest.Test(t, func(t *testing.T) {
		with := func(n int) int {
			return must[*graph.Snapshot[trail]](t)(build().Invoke(bg, func(s *trail) error {
				s.N = n
				return nil
			})).State.Total.Get()
		}
		equal(t, "result", with(3), 3)
		equal(t, "cached result", with(3), 3)
		equal(t, "runs", ran.of("slow"), 1)
		equal(t, "another input", with(4), 4)
		equal(t, "runs", ran.of("slow"), 2)
		version = "2"
		with(3)
		equal(t, "runs after the code changed", ran.of("slow"), 3)
		time.Sleep(2 * time.Minute)
		with(3)
		equal(t, "runs after the entry expired", ran.of("slow"), 4)
		evs := must[[]graph.Event](t)(collect(build().Stream(bg, func(s *trail) error {
			s.N = 3
			return nil
		})))
		equal(t, "the event says so", evs[0].Cached, true)
	})
}

func TestCachedResultsAreToldApartByOverlays(t *testing.T) {
	ran := &calls{}
	kept := func(topic string) (run func() []string) {
		b := graph.NewSchemaGraph("g", guide().AddField("param", graph.Field{Type: reflect.TypeFor[int]()}))
		graph.AddMapNode(b, "spread", returns([]*graph.MapCommand{
			{Update: graph.MapState{"param": 1}, Goto: graph.Goto("worker")},
			{Update: graph.MapState{"param": 2}, Goto: graph.Goto("worker")},
		}))
		policy := graph.CachePolicy{Store: &cache.Memory{}}
		if topic != "" {
			policy.Key = func(state any, _ json.RawMessage) (string, error) {
				return fmt.Sprint(state.(*graph.SchemaState).Get(topic)), nil
			}
		}
		graph.AddMapNode(b, "worker", func(_ context.Context, s graph.MapState) (any, error) {
			what := fmt.Sprint("worker ", s["param"])
			ran.add(what)
			return graph.MapState{"items": what}, nil
		}, graph.Cache(policy))
		b.SetEntryPoint("spread")
		g := compileSchema(t, b, graph.Concurrency(1))
		return func() []string {
			return must[*graph.Snapshot[graph.SchemaState]](t)(g.Invoke(bg, graph.MapState{}.Into)).State.Get("items").([]string)
		}
	}
	for _, key := range []string{"", "param"} {
		run, before := kept(key), len(ran.in)
		equalSlice(t, "items", run(), []string{"worker 1", "worker 2"})
		equalSlice(t, "cached items", run(), []string{"worker 1", "worker 2"})
		equal(t, "runs", len(ran.all())-before, 2)
	}
}

func TestResultsWithUntrackedFieldsAreNotCached(t *testing.T) {
	type handled struct {
		Handle graph.Untracked[int]
		Notes  graph.List[string]
	}
	policy := func() graph.NodeOption { return graph.Cache(graph.CachePolicy{Store: &cache.Memory{}}) }
	b := graph.New[handled]("g")
	b.AddNode("open", func(_ context.Context, s *handled) error { s.Handle.Set(7); s.Notes.Add("opened"); return nil }, policy())
	b.AddNode("use", func(_ context.Context, s *handled) error {
		s.Notes.Add(fmt.Sprint("used ", s.Handle.Get()))
		return nil
	})
	b.AddEdge(graph.Start, "open").AddEdge("open", "use")
	for name, g := range map[string]*graph.Graph[handled]{
		"a state": compile(t, b), "a state with former names": compile(t, b, graph.FieldAlias("Remarks", "Notes")),
	} {
		for range 2 {
			equalSlice(t, name, must[*graph.Snapshot[handled]](t)(g.Invoke(bg, func(*handled) error { return nil })).State.Notes.Slice(), []string{"opened", "used 7"})
		}
	}

	sb := graph.NewSchemaGraph("g", guide().AddField("handle", graph.Field{Type: reflect.TypeFor[int](), Untracked: true}))
	graph.AddMapNode(sb, "open", returns(graph.MapState{"handle": 7, "items": "opened"}), policy())
	graph.AddMapNode(sb, "use", func(_ context.Context, s graph.MapState) (any, error) {
		return graph.MapState{"items": fmt.Sprint("used ", s["handle"])}, nil
	})
	sb.SetEntryPoint("open").AddEdge("open", "use")
	g := compileSchema(t, sb)
	for range 2 {
		equalSlice(t, "a schema", runSchema(t, g, graph.MapState{}).State.Get("items").([]string), []string{"opened", "used 7"})
	}
}

func TestAnAnswerIsNotCached(t *testing.T) {
	ran := &calls{}
	policy := graph.CachePolicy{Store: &cache.Memory{}}
	b := graph.New[trail]("g")
	b.AddNode("price", func(_ context.Context, s *trail) error { ran.add("price"); s.N = 3; return nil }, graph.Cache(policy))
	b.AddNode("pay", func(ctx context.Context, s *trail) error {
		ok, err := graph.Interrupt[bool](ctx, "approve", s.N)
		if err == nil {
			s.Ran.Add(fmt.Sprint("paid ", ok))
		}
		return err
	}, graph.Cache(policy))
	b.AddEdge(graph.Start, "price").AddEdge("price", "pay")
	g := compile(t, b, append(stored(), graph.InterruptBefore("price"))...)
	for thread, yes := range map[string]bool{"one": true, "two": false} {
		on := thread
		must[*graph.Snapshot[trail]](t)(g.Thread(on).Invoke(bg, g.Input(func(*trail) error { return nil })))
		snap := must[*graph.Snapshot[trail]](t)(g.Thread(on).Invoke(bg, g.Continue()))
		equal(t, "questions in thread "+thread, len(snap.Interrupts), 1)
		snap = must[*graph.Snapshot[trail]](t)(g.Thread(on).Invoke(bg, g.Answer(yes)))
		equal(t, "ran", snap.State.ran(), fmt.Sprint("paid ", yes))
	}
	equal(t, "runs of a node with a breakpoint", ran.of("price"), 1)
}

func TestWhatMovesTheStateOfASubgraphIsNotCached(t *testing.T) {
	type inner struct{ Calls graph.Sum[int] }
	c := graph.New[inner]("inner")
	c.AddNode("x", func(_ context.Context, s *inner) error { s.Calls.Add(1); return nil }).AddEdge(graph.Start, "x")
	b := graph.New[trail]("g")
	graph.AddSubgraph(b, "sub", compile(t, c, graph.KeepState()), graph.Mapping[trail, inner]{
		Out: func(c *inner, s *trail) { s.N = c.Calls.Get() },
	}, graph.Cache(graph.CachePolicy{Store: &cache.Memory{}, Key: func(any, json.RawMessage) (string, error) { return "same", nil }}))
	b.AddEdge(graph.Start, "sub")
	g := compile(t, b, stored()...)
	for turn := range 3 {
		equal(t, "calls", must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }))).State.N, turn+1)
	}
}

// oddCache is a cache whose calls do what they are told.
type oddCache struct {
	cache.Memory
	get    func() ([]byte, bool, error)
	set    func()
	setErr error
	clear  error
}

func (c *oddCache) Clear(ctx context.Context, prefix string) error {
	return cmp.Or(c.clear, c.Memory.Clear(ctx, prefix))
}

func (c *oddCache) Get(ctx context.Context, key string) ([]byte, bool, error) {
	if c.get != nil {
		return c.get()
	}
	return c.Memory.Get(ctx, key)
}

func (c *oddCache) Set(ctx context.Context, key string, data []byte, ttl time.Duration) error {
	if c.set != nil {
		c.set()
	}
	return cmp.Or(c.setErr, c.Memory.Set(ctx, key, data, ttl))
}

func TestAPanicOfACacheIsAnErrorOfItsNode(t *testing.T) {
	for name, p := range map[string]graph.CachePolicy{
		"key": {Store: &cache.Memory{}, Key: func(any, json.RawMessage) (string, error) { panic("key") }},
		"get": {Store: &oddCache{get: func() ([]byte, bool, error) { panic("get") }}},
		"set": {Store: &oddCache{set: func() { panic("set") }}},
	} {
		b := graph.New[trail]("g")
		b.AddNode("bad", visit("bad"), graph.Cache(p))
		visits(b, "good")
		b.AddEdge(graph.Start, "bad").AddEdge(graph.Start, "good")
		_, err := compile(t, b).Invoke(bg, nil)
		equal(t, "node", wantErr[*graph.NodeError](t, err).Node, "bad")
		equal(t, "panic", wantErr[*graph.PanicError](t, err).Value, any(name))
	}
}

func TestCachedResultsAreToldApartByNodeAndVersion(t *testing.T) {
	store := &cache.Memory{}
	policy := func(version string) graph.NodeOption {
		return graph.Cache(graph.CachePolicy{Store: store, Version: version, Key: func(any, json.RawMessage) (string, error) { return "k", nil }})
	}
	b := graph.New[trail]("g")
	b.AddNode("a", visit("a"), policy("b/1"))
	b.AddNode("a/b", visit("a/b"), policy("1"))
	b.AddEdge(graph.Start, "a").AddEdge("a", "a/b")
	equal(t, "ran", must[*graph.Snapshot[trail]](t)(compile(t, b).Invoke(bg, nil)).State.ran(), "a a/b")
}

func TestACacheIsClearedByNode(t *testing.T) {
	results, ran := &cache.Memory{}, &calls{}
	keep := func(version string) graph.NodeOption {
		return graph.Cache(graph.CachePolicy{Store: results, Version: version})
	}
	counted := func(name string) func(context.Context, *trail) error {
		return func(context.Context, *trail) error { ran.add(name); return nil }
	}
	build := func(name string) *graph.Graph[trail] {
		inner := graph.New[trail]("inner")
		inner.AddNode("a", counted(name+".inner"), keep("")).AddEdge(graph.Start, "a")
		b := graph.New[trail](name)
		b.AddNode("a", counted(name+".a"), keep("1")).AddNode("a/b", counted(name+".a/b"), keep("")).AddNode("bare", counted(name+".bare"))
		graph.AddSubgraph(b, "sub", compile(t, inner), graph.Mapping[trail, trail]{})
		return compile(t, b.AddEdge(graph.Start, "a").AddEdge("a", "a/b").AddEdge("a/b", "bare").AddEdge("bare", "sub"))
	}
	g, other := build("g"), build("g%")
	for _, c := range []struct {
		clear func() error
		want  string
	}{
		{func() error { return nil }, "g.a g.a/b g.bare g.inner g%.a g%.a/b g%.bare"},
		{func() error { return nil }, "g.bare g%.bare"},
		{func() error { return g.ClearCache(bg, "a") }, "g.a g.bare g%.bare"},
		{func() error { return g.ClearCache(bg, "a/b", "bare") }, "g.a/b g.bare g%.bare"},
		{func() error { return other.ClearCache(bg) }, "g.bare g%.a g%.a/b g%.bare"},
		{func() error {
			sub, _ := g.Subgraph("sub")
			return sub.ClearCache(bg, "a")
		}, "g.bare g.inner g%.bare"},
	} {
		ran.in = nil
		if err := c.clear(); err != nil {
			t.Fatal(err)
		}
		for _, g := range []*graph.Graph[trail]{g, other} {
			must[*graph.Snapshot[trail]](t)(g.Invoke(bg, nil))
		}
		equal(t, "ran", strings.Join(ran.all(), " "), c.want)
	}
	err := g.ClearCache(bg, "a", "bar")
	equal(t, "nearest", wantErr[*graph.UnknownNodeError](t, err).Near, "bare")
}

func TestACacheThatCannotBeClearedSaysSo(t *testing.T) {
	b := graph.New[trail]("g").AddNode("a", visit("a"), graph.Cache(graph.CachePolicy{Store: &oddCache{clear: errBoom}})).AddEdge(graph.Start, "a")
	if err := compile(t, b).ClearCache(bg); !errors.Is(err, errBoom) || !strings.Contains(err.Error(), `"a"`) {
		t.Error(err)
	}
}

// Whether there is a result must be known: to run the node in doubt would undo what
// the cache is for. That one is not kept costs a run of the node at most.
func TestACacheThatCannotBeReadFailsItsNodeAndOneThatCannotBeWrittenDoesNot(t *testing.T) {
	for _, reads := range []bool{true, false} {
		store := &oddCache{setErr: errBoom}
		if !reads {
			store.get = func() ([]byte, bool, error) { return nil, false, errBoom }
		}
		b := graph.New[trail]("g").AddNode("a", visit("a"), graph.Cache(graph.CachePolicy{Store: store})).AddEdge(graph.Start, "a")
		snap, err := compile(t, b).Invoke(bg, nil)
		if reads {
			equal(t, "ran", snap.State.ran(), "a")
			equal(t, "error", err, nil)
		} else if !errors.Is(err, errBoom) || wantErr[*graph.NodeError](t, err).Node != "a" {
			t.Error(err)
		}
	}
}

func TestACachedResultThatLeadsToANodeThatIsGoneIsNotUsed(t *testing.T) {
	store := &cache.Memory{}
	through := func(next string) string {
		b := graph.New[trail]("g")
		b.AddCommandNode("choose", func(context.Context, *trail) (graph.Command, error) { return graph.Goto(next), nil },
			graph.Cache(graph.CachePolicy{Store: store}), graph.Destinations(next))
		visits(b, next).AddEdge(graph.Start, "choose")
		return must[*graph.Snapshot[trail]](t)(compile(t, b).Invoke(bg, nil)).State.ran()
	}
	equal(t, "ran", through("old"), "old")
	equal(t, "ran after the node was renamed", through("new"), "new")
}

func TestAKeyFunctionChangesNothing(t *testing.T) {
	b := graph.New[trail]("g")
	b.AddNode("a", visit("a"), graph.Cache(graph.CachePolicy{Store: &cache.Memory{}, Key: func(state any, _ json.RawMessage) (string, error) {
		s := state.(*trail)
		s.Note = strings.ToLower(s.Note)
		s.Ran.Add("key")
		return s.Note, nil
	}}))
	b.AddEdge(graph.Start, "a")
	s := must[*graph.Snapshot[trail]](t)(compile(t, b).Invoke(bg, func(s *trail) error {
		s.Note = "Note"
		return nil
	})).State
	equal(t, "note", s.Note, "Note")
	equal(t, "ran", s.ran(), "a")
}

func TestAnAnswerIsUsedThoughAResultIsCachedMeanwhile(t *testing.T) {
	asks := true
	g := compile(t, one(func(ctx context.Context, s *trail) error {
		s.N = 5
		if !asks {
			return nil
		}
		n, err := graph.Interrupt[int](ctx, "n", nil)
		s.N = n
		return err
	}, graph.Cache(graph.CachePolicy{Store: &cache.Memory{}})), stored()...)
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	asks = false
	equal(t, "N of the other thread", must[*graph.Snapshot[trail]](t)(g.Thread("other").Invoke(bg, g.Input(func(*trail) error { return nil }))).State.N, 5)
	asks = true
	equal(t, "N", must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(42))).State.N, 42)
}

func TestW9AFailedNodeIsNotCached(t *testing.T) {
	fail := true
	b := one(func(_ context.Context, s *trail) error {
		s.N = 1
		if fail {
			return errBoom
		}
		return nil
	}, graph.Cache(graph.CachePolicy{Store: &cache.Memory{}}))
	g := compile(t, b)
	if _, err := g.Invoke(bg, nil); err == nil {
		t.Fatal("no error")
	}
	if _, err := g.Invoke(bg, nil); err == nil {
		t.Fatal("the failure was cached as a success")
	}
	fail = false
	equal(t, "N", must[*graph.Snapshot[trail]](t)(g.Invoke(bg, nil)).State.N, 1)
}

func TestCallbacks(t *testing.T) {
	var log []string
	note := func(what string) graph.Callbacks[trail] {
		return graph.Callbacks[trail]{
			Before: func(ctx context.Context, s *trail) (bool, error) {
				in := graph.Info(ctx)
				log = append(log, fmt.Sprint(what, " before ", in.Node, " ", in.Step))
				if s.Note == "skip" && in.Node == "a" && what == "node" {
					s.Ran.Add("skipped a")
					return true, nil
				}
				return false, nil
			},
			After:   func(_ context.Context, s *trail) error { log = append(log, what+" after"); s.N++; return nil },
			OnError: func(_ context.Context, _ *trail, err error) { log = append(log, what+" error "+err.Error()) },
		}
	}
	b := graph.New[trail]("g")
	b.NodeDefaults(graph.WithCallbacks(note("graph")))
	b.AddNode("a", visit("a"), graph.WithCallbacks(note("node")))
	b.AddNode("b", func(context.Context, *trail) error { return errBoom })
	b.AddEdge(graph.Start, "a").AddEdge("a", "b")
	g := compile(t, b)
	snap, _ := g.Invoke(bg, nil)
	equalSlice(t, "log", log, []string{"graph before a 1", "node before a 1", "node after", "graph after", "graph before b 2", "graph error boom"})
	equal(t, "N", snap.State.N, 2)
	snap, _ = g.Invoke(bg, func(s *trail) error {
		s.Note = "skip"
		return nil
	})
	equal(t, "ran", snap.State.ran(), "skipped a")
}

func TestOptionsOfAnotherStateAreRefused(t *testing.T) {
	b := one(func(context.Context, *trail) error { return nil }, graph.WithCallbacks(graph.Callbacks[form]{}))
	_, err := b.Compile()
	wantErr[*graph.CompileError](t, err)
}

func TestDrainStopsAtASuperstepAndCanGoOn(t *testing.T) {
	drain := make(chan struct{})
	b := graph.New[trail]("g")
	b.AddNode("a", func(_ context.Context, s *trail) error { close(drain); s.Ran.Add("a"); return nil })
	visits(b, "b")
	b.AddEdge(graph.Start, "a").AddEdge("a", "b")
	g := compile(t, b, stored()...)
	snap, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }), graph.Drain(drain))
	if !errors.Is(err, graph.ErrDrained) {
		t.Fatal(err)
	}
	equal(t, "ran", snap.State.ran(), "a")
	snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
	equal(t, "ran", snap.State.ran(), "a b")
}

func TestDependencies(t *testing.T) { // SONI-09, SONI-10
	type clock func() string
	type unused struct{}
	type named struct{ Name string }
	as := func(name string) graph.RunOption { return graph.Configure(func(c *named) { c.Name = name }) }
	b := one(func(ctx context.Context, s *trail) error {
		c, err := graph.Deps[clock](ctx)
		if err != nil {
			return err
		}
		is, err := graph.Configured[named](ctx)
		s.Note = c() + is.Name
		return err
	})
	fixed := func(s string) clock { return func() string { return s } }
	g := compile(t, b, append(stored(), graph.ProvideDeps(func(context.Context) (clock, error) { return fixed("noon "), nil }), graph.RequireDeps[clock](), graph.Configurable(named{"nobody"}))...)
	equal(t, "note", must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }), as("x"))).State.Note, "noon x")
	equal(t, "note", must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }), as("y"), graph.UseDeps(fixed("night ")))).State.Note, "night y")
	equal(t, "note", must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }))).State.Note, "noon nobody")
	g = compile(t, b, graph.RequireDeps[clock](), graph.RequireDeps[*unused]())
	_, err := g.Thread("t").Invoke(bg, g.Continue())
	equal(t, "missing", len(wantErr[*graph.MissingDepsError](t, err).Types), 2)
}

func TestCheckMutationsNamesNodeAndField(t *testing.T) { // W9
	type shelf struct{ Books graph.Value[[]string] }
	b := graph.New[shelf]("g")
	b.AddNode("sneaky", func(_ context.Context, s *shelf) error {
		s.Books.Get()[0] = "spoiled"
		return nil
	})
	b.AddEdge(graph.Start, "sneaky")
	_, err := compile(t, b).Invoke(bg, func(s *shelf) error {
		s.Books.Set([]string{"a"})
		return nil
	}, graph.CheckMutations())
	e := wantErr[*graph.MutationError](t, err)
	equal(t, "where", e.Node+" "+e.Field, "sneaky Books")
}
