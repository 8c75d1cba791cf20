package graphtest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graphtest"
)

type State struct {
	Topic    string
	Jokes    graph.List[string]
	Approved bool
}

// build is the function under test.
func build() *graph.Builder[State] {
	b := graph.New[State]("jokes")
	b.AddNode("write", func(_ context.Context, s *State) error {
		s.Jokes.Add("Why did the " + s.Topic + " cross the road?")
		return nil
	})
	b.AddNode("review", func(ctx context.Context, s *State) error {
		ok, err := graph.Interrupt[bool](ctx, "review", s.Jokes.Last())
		if err != nil {
			return err
		}
		s.Approved = ok
		return nil
	})
	b.AddEdge(graph.Start, "write").AddEdge("write", "review")
	b.AddConditionalEdges("review", func(_ context.Context, s *State) (graph.Command, error) {
		if s.Approved {
			return graph.Goto(graph.End), nil
		}
		return graph.Goto("write"), nil
	}, "write", graph.End)
	return b
}

func cats(s *State) error {
	s.Topic = "cat"
	return nil
}

// t stands for the *testing.T of a test: it prints what fails.
var t testing.TB = printer{}

type printer struct{ testing.TB }

func (printer) Helper()                          {}
func (printer) Context() context.Context         { return context.Background() }
func (printer) Errorf(format string, a ...any)   { fmt.Printf(format+"\n", a...) }
func (p printer) Fatalf(format string, a ...any) { p.Errorf(format, a...) }

// A script answers what the graph asks: the first joke is sent back.
func ExampleRun() {
	snap := graphtest.Run(t, build(), cats, graphtest.Script{"review": {false, true}})
	fmt.Println(snap.State.Jokes.Len(), snap.State.Approved)
	// Output: 2 true
}

func ExampleDrive() {
	g := build().MustCompile(graph.WithCheckpointer(checkpoint.NewMemory()), graph.CheckMutations())
	snap := graphtest.Drive(t, g.Thread("t-1"), cats, graphtest.Script{"review": {true}})
	fmt.Println(snap.State.Jokes.Last())
	// Output: Why did the cat cross the road?
}

func ExampleInject() {
	b := build()
	in := graphtest.Inject(b, graphtest.FailAt("review", 1))
	g := b.MustCompile(graph.WithCheckpointer(checkpoint.NewMemory()))
	thread := g.Thread("t-1")
	_, err := thread.Invoke(context.Background(), thread.Input(cats))
	fmt.Println(err)
	snap, err := thread.Invoke(context.Background(), thread.Continue()) // what was written is there
	fmt.Println(snap.State.Jokes.Len(), len(snap.Interrupts) > 0, err, in.Runs("write"))
	in.Check(t)
	// Output:
	// node "review" failed in step 2: graphtest: injected fault: attempt 1 of node "review"
	// 1 true <nil> 1
}

func ExampleStore() {
	store := graphtest.NewStore(checkpoint.NewMemory(), graphtest.StoreFault{Write: 2, Effect: graphtest.Crash})
	g := build().MustCompile(graph.WithCheckpointer(store))
	thread := g.Thread("t-1")
	_, err := thread.Invoke(context.Background(), thread.Input(cats))
	fmt.Println(err)
	store.Restart()
	snap, err := thread.Invoke(context.Background(), thread.Continue())
	fmt.Println(snap.Interrupts[0].Key, err)
	// Output:
	// checkpoint save failed for thread "t-1": graphtest: the store has crashed
	// review <nil>
}

// A node that counts its calls in a variable comes to something else when it
// runs again after a crash.
func ExampleCheckIdempotent() {
	graphtest.CheckIdempotent(t, build, cats, graphtest.Script{"review": {true}})

	calls := 0
	graphtest.CheckIdempotent(t, func() *graph.Builder[State] {
		b := graph.New[State]("careless")
		b.AddNode("write", func(context.Context, *State) error { return nil })
		b.AddNode("count", func(_ context.Context, s *State) error {
			calls++
			s.Topic = strings.Repeat("again ", calls)
			return nil
		})
		return b.AddEdge(graph.Start, "write").AddEdge("write", "count")
	}, cats, nil)
	// Output: graphtest: node "count" comes to something else when it runs again: field "Topic" is "again again ", then "again again again "
}

func ExampleCheckRecovery() {
	graphtest.CheckRecovery(t, build, cats, graphtest.Script{"review": {false, true}})
	fmt.Println("recovers from a crash at any write")
	// Output: recovers from a crash at any write
}

func ExampleCheckDeterministic() {
	graphtest.CheckDeterministic(t, 10, build, cats, graphtest.Script{"review": {false, true}})
	fmt.Println("the same in 10 runs")
	// Output: the same in 10 runs
}

func ExampleFormat() {
	var seen graphtest.CollectingObserver
	graphtest.Run(t, build(), cats, graphtest.Script{"review": {true}}, graph.Observe(&seen))
	fmt.Print(graphtest.Format(seen.Events()))
	// Output:
	// 0 checkpoints input next write
	// 1 task write
	// 1 task_result write {"Jokes":["Why did the cat cross the road?"]}
	// 1 checkpoints loop next review
	// 2 task review
	// 2 interrupt review "review" inside asks "Why did the cat cross the road?"
	// 1 checkpoints interrupt next review
	// 1 checkpoints resume next review
	// 2 task review
	// 2 task_result review {"Approved":true}
	// 2 checkpoints loop
}
