package graphtest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/checkpointtest"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graphtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// spy is a testing.TB that notes what fails.
type spy struct {
	testing.TB
	failures []string
}

type stop struct{}

func (s *spy) Helper() {}
func (s *spy) Errorf(format string, a ...any) {
	s.failures = append(s.failures, fmt.Sprintf(format, a...))
}
func (s *spy) Fatalf(format string, a ...any) {
	s.Errorf(format, a...)
	panic(stop{})
}
func (s *spy) Fatal(a ...any) { s.Fatalf("%s", fmt.Sprint(a...)) }

// spied returns what a helper reports to its test.
func spied(t *testing.T, helper func(tb testing.TB)) (failures []string) {
	s := &spy{TB: t}
	defer func() {
		if v := recover(); v != nil {
			if _, ok := v.(stop); !ok {
				panic(v)
			}
		}
		failures = s.failures
	}()
	helper(s)
	return nil
}

// wantFailure checks that a helper reports exactly one failure that says so.
func wantFailure(t *testing.T, what string, failures []string) {
	t.Helper()
	if len(failures) != 1 || !strings.Contains(failures[0], what) {
		t.Errorf("reported %q, want one failure with %q", failures, what)
	}
}

var bg = context.Background()

// steps returns a graph of one node after the other.
func steps(nodes ...func(ctx context.Context, s *State) error) *graph.Builder[State] {
	b := graph.New[State]("steps")
	from := graph.Start
	for i, fn := range nodes {
		name := string(rune('a' + i))
		b.AddNode(name, fn).AddEdge(from, name)
		from = name
	}
	return b
}

func add(joke string) func(context.Context, *State) error {
	return func(_ context.Context, s *State) error { s.Jokes.Add(joke); return nil }
}

func TestDriveReportsWhatTheScriptMisses(t *testing.T) {
	wantFailure(t, `the script has 1 answers to "review"`, spied(t, func(tb testing.TB) {
		graphtest.Run(tb, build(), cats, graphtest.Script{"review": {false}})
	}))
	wantFailure(t, `not asked for: 1 to "revue", 2 to "review"`, spied(t, func(tb testing.TB) {
		graphtest.Run(tb, build(), cats, graphtest.Script{"review": {true, true, false}, "revue": {1}})
	}))
	wantFailure(t, `node "a" failed`, spied(t, func(tb testing.TB) {
		graphtest.Run(tb, steps(func(context.Context, *State) error { return errors.New("no") }), cats, nil)
	}))
	wantFailure(t, `answer to "review" refused: it has the wrong shape`, spied(t, func(tb testing.TB) {
		graphtest.Run(tb, build(), cats, graphtest.Script{"review": {"yes"}})
	}))
}

func TestDrivePassesBreakpointsAndAnswersSeveralQuestions(t *testing.T) {
	b := graph.New[State]("several")
	for _, name := range []string{"x", "y"} {
		b.AddNode(name, func(ctx context.Context, s *State) error {
			v, err := graph.Interrupt[string](ctx, "who", name)
			s.Jokes.Add(name + "=" + v)
			return err
		})
		b.AddEdge(graph.Start, name)
	}
	snap := graphtest.Run(t, b, nil, graphtest.Script{"who": {"1", "2"}}, graph.InterruptBefore("x"), graph.InterruptAfter("*"))
	if got := strings.Join(snap.State.Jokes.Slice(), " "); got != "x=1 y=2" && got != "x=2 y=1" {
		t.Error(got)
	}
}

func TestRunsCheckForMutations(t *testing.T) {
	type state struct{ Rows graph.List[[]int] }
	b := graph.New[state]("g")
	b.AddNode("spoil", func(_ context.Context, s *state) error { s.Rows.At(0)[0] = 99; return nil })
	b.AddEdge(graph.Start, "spoil")
	wantFailure(t, `node "spoil" changed field "Rows" in place`, spied(t, func(tb testing.TB) {
		graphtest.Run(tb, b, func(s *state) error {
			s.Rows.Add([]int{1})
			return nil
		}, nil)
	}))
}

func TestInjectedFaults(t *testing.T) {
	retry := graph.Retry(graph.RetryPolicy{MaxAttempts: 5, Initial: 1, If: func(error) bool { return true }})
	var ran atomic.Int32
	b := graph.New[State]("g")
	b.AddNode("a", func(_ context.Context, s *State) error {
		ran.Add(1)
		s.Jokes.Add("a")
		return nil
	}, retry).AddEdge(graph.Start, "a")
	boom := errors.New("boom")
	in := graphtest.Inject(b,
		graphtest.FailAt("a", 1),
		graphtest.PanicAt("a", 2, boom),
		graphtest.Fault{Node: "a", Run: 3, After: true, Err: boom},
		graphtest.FailAt("a", 9), graphtest.FailAt("b", 1))
	snap := graphtest.Run(t, b, nil, nil)
	if got := snap.State.Jokes.Len(); got != 1 || ran.Load() != 2 || in.Runs("a") != 4 {
		t.Errorf("%d items, %d calls, %d attempts", got, ran.Load(), in.Runs("a"))
	}
	missed := spied(t, func(tb testing.TB) { in.Check(tb); tb.Fatal("end") })
	if len(missed) != 3 || !strings.Contains(missed[0], `attempt 9 of node "a" never happened: 4 attempts`) || !strings.Contains(missed[1], `node "b"`) {
		t.Errorf("missed faults: %q", missed)
	}
}

func TestInjectedDelayMeetsATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := graph.New[State]("g")
		b.AddNode("a", add("a"), graph.Timeout(time.Second)).AddEdge(graph.Start, "a")
		in := graphtest.Inject(b, graphtest.DelayAt("a", 1, time.Hour), graphtest.DelayAt("a", 2, time.Millisecond))
		g := b.MustCompile()
		_, err := g.Invoke(bg, nil)
		var te *graph.TimeoutError
		if !errors.As(err, &te) {
			t.Fatal(err)
		}
		if _, err := g.Invoke(bg, nil); err != nil {
			t.Fatal(err)
		}
		in.Check(t)
	})
}

func TestStoreIsAStore(t *testing.T) {
	checkpointtest.Run(t, func(t *testing.T) checkpoint.Store { return graphtest.NewStore(checkpoint.NewMemory()) })
}

func TestStoreFaults(t *testing.T) {
	lost := errors.New("lost")
	three := []func(context.Context, *State) error{add("a"), add("b"), add("c")}
	for name, c := range map[string]struct {
		fault graphtest.StoreFault
		is    error
		left  string // what the store then has
	}{
		"fail before":  {graphtest.StoreFault{Write: 3}, graphtest.ErrFault, "a"},
		"fail after":   {graphtest.StoreFault{Write: 3, After: true, Err: lost}, lost, "a b"},
		"crash before": {graphtest.StoreFault{Write: 3, Effect: graphtest.Crash}, graphtest.ErrCrashed, "a"},
		"crash after":  {graphtest.StoreFault{Write: 3, Effect: graphtest.Crash, After: true}, graphtest.ErrCrashed, "a b"},
		"block":        {graphtest.StoreFault{Write: 3, Effect: graphtest.Block}, context.DeadlineExceeded, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := graphtest.NewStore(checkpoint.NewMemory(), c.fault)
				g := steps(three...).MustCompile(graph.WithCheckpointer(store), graph.SaveTimeout(time.Minute))
				_, err := g.Thread("t").Invoke(bg, g.Input(cats))
				if !errors.Is(err, c.is) {
					t.Fatal(err)
				}
				_, err = g.Thread("t").State(bg)
				if crashed := c.fault.Effect == graphtest.Crash; errors.Is(err, graphtest.ErrCrashed) != crashed {
					t.Fatal(err)
				}
				store.Restart()
				snap, err := g.Thread("t").State(bg)
				if err != nil {
					t.Fatal(err)
				}
				if got := strings.Join(snap.State.Jokes.Slice(), " "); got != c.left {
					t.Errorf("the store has %q, want %q", got, c.left)
				}
				if snap, err = g.Thread("t").Invoke(bg, g.Continue()); err != nil {
					t.Fatal(err)
				}
				if got := strings.Join(snap.State.Jokes.Slice(), " "); got != "a b c" || store.Fired() != 1 {
					t.Errorf("ends with %q after %d faults", got, store.Fired())
				}
			})
		})
	}
}

// counted returns a graph in which node b depends on a variable that outlives
// its runs.
func counted() func() *graph.Builder[State] {
	n := 0
	return func() *graph.Builder[State] {
		n = 0
		return steps(add("a"), func(_ context.Context, s *State) error { n++; s.Jokes.Add(fmt.Sprint(n)); return nil }, add("c"))
	}
}

func TestChecksFindWhatTheyAreFor(t *testing.T) {
	wantFailure(t, `node "b" comes to something else when it runs again: field "Jokes" is ["a","1"], then ["a","2"]`, spied(t, func(tb testing.TB) {
		graphtest.CheckIdempotent(tb, counted(), cats, nil)
	}))
	wantFailure(t, `field "Jokes" is ["a","1","c"], then ["a","2","c"]`, spied(t, func(tb testing.TB) {
		graphtest.CheckRecovery(tb, counted(), cats, nil)
	}))
	n := 0
	wantFailure(t, "runs 1 and 2 end differently", spied(t, func(tb testing.TB) {
		graphtest.CheckDeterministic(tb, 5, func() *graph.Builder[State] {
			return steps(func(_ context.Context, s *State) error { n++; s.Jokes.Add(fmt.Sprint(n)); return nil })
		}, cats, nil)
	}))
	n = 0
	wantFailure(t, "runs 1 and 3 take different ways: line 3:", spied(t, func(tb testing.TB) {
		graphtest.CheckDeterministic(tb, 5, func() *graph.Builder[State] {
			n++
			if n == 3 {
				return steps(func(context.Context, *State) error { return nil }, add("x"))
			}
			return steps(add("x"), func(context.Context, *State) error { return nil })
		}, cats, nil)
	}))
}

// bank is a service that takes idempotency keys.
type bank struct{ receipts sync.Map }

func (b *bank) pay(_ context.Context, key string) (int, error) {
	n := 1
	b.receipts.Range(func(any, any) bool { n++; return true })
	v, _ := b.receipts.LoadOrStore(key, n)
	return v.(int), nil
}

// thorough has everything that a node can do that is not to be repeated.
func thorough() *graph.Builder[State] {
	var bank bank
	cb := graph.New[State]("child")
	cb.AddNode("ask", func(ctx context.Context, s *State) error {
		who, err := graph.Interrupt[string](ctx, "who", "who?")
		s.Topic = who
		return err
	}).AddEdge(graph.Start, "ask")
	child := cb.MustCompile()

	b := graph.New[State]("thorough")
	b.AddNode("pay", func(ctx context.Context, s *State) error {
		n, err := graph.Once(ctx, "pay", bank.pay)
		s.Jokes.Add(fmt.Sprint("paid ", n))
		return err
	}, graph.Retry(graph.RetryPolicy{Initial: 1}))
	b.AddNode("fails", func(context.Context, *State) error { return errors.New("no") },
		graph.OnError(func(_ context.Context, s *State, _ *graph.NodeError) (graph.Command, error) {
			s.Jokes.Add("handled")
			return graph.Command{}, nil
		}))
	work := graph.AddTask(b, "work", func(_ context.Context, s *State, n int) error { s.Jokes.Add(fmt.Sprint(n)); return nil })
	b.AddCommandNode("split", func(context.Context, *State) (graph.Command, error) {
		return graph.Dispatch(work.Send(1), work.Send(2), work.Send(3)), nil
	})
	graph.AddSubgraph(b, "sub", child, graph.Mapping[State, State]{Out: func(c, p *State) { p.Topic = c.Topic }})
	b.AddNode("left", add("left")).AddNode("end", add("end"))
	b.AddEdge(graph.Start, "pay").AddEdge("pay", "fails").AddEdge("fails", "split").AddEdge("work", "sub").AddEdge("work", "left")
	b.AddJoin([]string{"sub", "left"}, "end")
	return b
}

func TestAGoodGraphPassesAllChecks(t *testing.T) {
	script := graphtest.Script{"who": {"Ada"}}
	for name, d := range map[string]graph.Durability{"sync": graph.Sync, "async": graph.Async, "exit": graph.Exit} {
		t.Run(name, func(t *testing.T) {
			opt := graph.WithDurability(d)
			graphtest.CheckIdempotent(t, thorough, cats, script, opt)
			graphtest.CheckDeterministic(t, 20, thorough, cats, script, opt)
			if d != graph.Exit { // which loses what Once did, as it says
				graphtest.CheckRecovery(t, thorough, cats, script, opt)
			}
		})
	}
}

func TestGolden(t *testing.T) {
	t.Chdir(t.TempDir())
	var seen graphtest.CollectingObserver
	graphtest.Run(t, build(), cats, graphtest.Script{"review": {true}}, graph.Observe(&seen))
	golden := func(tb testing.TB) { graphtest.GoldenEvents(tb, "review", &seen) }
	wantFailure(t, "write it with GRAPHTEST_UPDATE=1", spied(t, golden))
	t.Setenv("GRAPHTEST_UPDATE", "1")
	golden(t)
	t.Setenv("GRAPHTEST_UPDATE", "")
	golden(t)
	if got := strings.Join(seen.Nodes(), " "); got != "write review review" {
		t.Error(got)
	}
	path := filepath.Join("testdata", "review.golden")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(data), "2 task review\n", "2 task revue\n", 1)
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	failures := spied(t, func(tb testing.TB) { golden(tb); tb.Fatal("end") })
	if len(failures) != 2 || !strings.Contains(failures[0], "want 2 task revue\n  got  2 task review") {
		t.Errorf("%q", failures)
	}
	seen.Reset()
	if len(seen.Events()) != 0 {
		t.Error("Reset has forgotten nothing")
	}
}
