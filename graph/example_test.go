package graph_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// A graph is nodes that read and write one state, and edges that say what
// follows what.
func Example() {
	type greeting struct {
		Name string
		Text string
	}
	b := graph.New[greeting]("hello")
	b.AddNode("greet", func(_ context.Context, s *greeting) error {
		s.Text = "Hello, " + s.Name + "!"
		return nil
	})
	b.AddEdge(graph.Start, "greet")
	g, err := b.Compile()
	if err != nil {
		fmt.Println(err)
		return
	}
	snap, err := g.Invoke(context.Background(), func(s *greeting) error {
		s.Name = "Ada"
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(snap.State.Text)
	// Output: Hello, Ada!
}

// Nodes that follow the same node run in parallel. What they write to a merging
// field, such as a List, is merged; "report" runs when both have run.
func ExampleBuilder_AddEdge_parallel() {
	type survey struct {
		Found graph.List[string]
	}
	b := graph.New[survey]("survey")
	for _, source := range []string{"news", "papers"} {
		b.AddNode(source, func(_ context.Context, s *survey) error {
			s.Found.Add("something in the " + source)
			return nil
		})
		b.AddEdge(graph.Start, source).AddEdge(source, "report")
	}
	b.AddNode("report", func(_ context.Context, s *survey) error {
		for _, line := range s.Found.All() {
			fmt.Println(line)
		}
		return nil
	})
	if _, err := b.MustCompile().Invoke(context.Background(), nil); err != nil {
		fmt.Println(err)
	}
	// Output:
	// something in the news
	// something in the papers
}

// A task runs once for each payload that is sent to it, all in parallel: map,
// and then reduce.
func ExampleAddTask() {
	type count struct {
		Texts graph.List[string]
		Words graph.Sum[int]
	}
	b := graph.New[count]("count")
	words := graph.AddTask(b, "words", func(_ context.Context, s *count, text string) error {
		s.Words.Add(len(strings.Fields(text)))
		return nil
	})
	b.AddCommandNode("split", func(_ context.Context, s *count) (graph.Command, error) {
		var sends []graph.Send
		for _, text := range s.Texts.All() {
			sends = append(sends, words.Send(text))
		}
		return graph.Dispatch(sends...), nil
	}, graph.Destinations("words"))
	b.AddNode("total", func(_ context.Context, s *count) error {
		fmt.Println(s.Words.Get(), "words")
		return nil
	})
	b.AddEdge(graph.Start, "split").AddEdge("words", "total")
	_, err := b.MustCompile().Invoke(context.Background(), func(s *count) error {
		s.Texts.Add("one two", "three", "four five six")
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: 6 words
}

// A loop runs until a router ends it. MaxSteps bounds one that never would.
func ExampleMaxSteps() {
	type root struct{ Of, Guess float64 }
	b := graph.New[root]("root")
	b.AddNode("improve", func(_ context.Context, s *root) error {
		s.Guess = (s.Guess + s.Of/s.Guess) / 2
		return nil
	})
	b.AddEdge(graph.Start, "improve")
	b.AddConditionalEdges("improve", func(_ context.Context, s *root) (graph.Command, error) {
		if d := s.Guess*s.Guess - s.Of; d < 1e-9 && d > -1e-9 {
			return graph.Goto(graph.End), nil
		}
		return graph.Goto("improve"), nil
	}, "improve", graph.End)
	g := b.MustCompile()
	ctx, input := context.Background(), func(s *root) error {
		s.Of, s.Guess = 2, 1
		return nil
	}

	snap, err := g.Invoke(ctx, input)
	fmt.Printf("%.6f after %d steps, %v\n", snap.State.Guess, snap.Step, err)

	var limit *graph.StepLimitError
	_, err = g.Invoke(ctx, input, graph.MaxSteps(2))
	fmt.Println(errors.As(err, &limit))
	// Output:
	// 1.414214 after 4 steps, <nil>
	// true
}

// A node asks, and the run ends. Resume gives the answer, in this process or
// another, now or in a week.
func ExampleInterrupt() {
	type order struct {
		Item   string
		Bought bool
	}
	b := graph.New[order]("order")
	b.AddNode("approve", func(ctx context.Context, s *order) error {
		ok, err := graph.Interrupt[bool](ctx, "approve", "Buy "+s.Item+"?")
		if err != nil {
			return err // the question is asked: the node runs again when it is answered
		}
		s.Bought = ok
		return nil
	})
	b.AddEdge(graph.Start, "approve")
	g := b.MustCompile(graph.WithCheckpointer(checkpoint.NewMemory()))

	ctx := context.Background()
	snap, err := g.Thread("t").Invoke(ctx, g.Input(func(s *order) error {
		s.Item = "a chair"
		return nil
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(snap.Interrupts[0].Value)
	snap, err = g.Thread("t").Invoke(ctx, g.Answer(true))
	fmt.Println(snap.State.Bought, err)
	// Output:
	// Buy a chair?
	// true <nil>
}

// Stream yields what happens while the graph runs: here what each node wrote.
func ExampleGraph_Stream() {
	g := threeSteps().MustCompile()
	for ev, err := range g.Stream(context.Background(), nil) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(ev.Type, ev.Node, string(ev.Update))
	}
	// Output:
	// updates draft {"Log":["draft"]}
	// updates review {"Log":["review"]}
	// updates publish {"Log":["publish"]}
}

// threeSteps is a graph of three nodes in a row that write down their names.
func threeSteps() *graph.Builder[logbook] {
	b := graph.New[logbook]("steps")
	names := []string{"draft", "review", "publish"}
	for _, name := range names {
		b.AddNode(name, func(_ context.Context, s *logbook) error { s.Log.Add(name); return nil })
	}
	return b.SetEntryPoint(names[0]).AddSequence(names...)
}

type logbook struct{ Log graph.List[string] }

// Every superstep is a checkpoint. A run from an earlier one is a new branch;
// the old one stays.
func ExampleThread_At() {
	g := threeSteps().MustCompile(graph.WithCheckpointer(checkpoint.NewMemory()))
	ctx := context.Background()
	if _, err := g.Thread("t").Invoke(ctx, g.Input(func(*logbook) error { return nil })); err != nil {
		fmt.Println(err)
		return
	}
	var drafted string // the checkpoint after "draft"
	for e, err := range g.Thread("t").History(ctx, graph.HistoryQuery{}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(e.Step, "ran", e.Nodes, "next", e.Next)
		if e.Step == 1 {
			drafted = e.Checkpoint
		}
	}
	snap, err := g.Thread("t").At(drafted).Invoke(ctx, g.Input(func(s *logbook) error {
		s.Log.Add("(edited)")
		return nil
	}))
	fmt.Println(snap.State.Log.Slice(), err)
	// Output:
	// 3 ran [publish] next []
	// 2 ran [review] next [publish]
	// 1 ran [draft] next [review]
	// 0 ran [] next [draft]
	// [draft (edited) review publish] <nil>
}

// Since yields what was committed after a checkpoint: a client that lost its
// connection goes on where it was.
func ExampleSince() {
	g := threeSteps().MustCompile(graph.WithCheckpointer(checkpoint.NewMemory()))
	ctx := context.Background()
	last := ""
	for ev, err := range g.Thread("t").Stream(ctx, g.Input(func(*logbook) error { return nil }), graph.Modes(graph.ModeCheckpoints), graph.InterruptAfter("draft")) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if ev.Type == graph.EventCheckpoint {
			last = ev.Checkpoint
		}
	}
	if _, err := g.Thread("t").Invoke(ctx, g.Continue()); err != nil { // nobody listens to it
		fmt.Println(err)
		return
	}
	for ev, err := range g.Thread("t").Stream(ctx, g.Continue(), graph.Since(last)) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(ev.Type, ev.Node)
	}
	// Output:
	// updates review
	// updates publish
}

// A graph is a node of another. Mapping says what goes in and what comes out.
func ExampleAddSubgraph() {
	type area struct{ Width, Height, Result int }
	type plan struct{ Side, Area int }

	child := graph.New[area]("area")
	child.AddNode("multiply", func(_ context.Context, s *area) error {
		s.Result = s.Width * s.Height
		return nil
	})
	child.AddEdge(graph.Start, "multiply")

	b := graph.New[plan]("plan")
	graph.AddSubgraph(b, "measure", child.MustCompile(), graph.Mapping[plan, area]{
		In:  func(p *plan, c *area) { c.Width, c.Height = p.Side, p.Side },
		Out: func(c *area, p *plan) { p.Area = c.Result },
	})
	b.AddEdge(graph.Start, "measure")
	snap, err := b.MustCompile().Invoke(context.Background(), func(p *plan) error {
		p.Side = 4
		return nil
	})
	fmt.Println(snap.State.Area, err)
	// Output: 16 <nil>
}

// What Once has returned is recorded at once: when the node runs again, the
// payment isn't made a second time.
func ExampleOnce() {
	type sale struct{ Receipt string }
	attempts := 0
	b := graph.New[sale]("sale")
	b.AddNode("sell", func(ctx context.Context, s *sale) error {
		receipt, err := graph.Once(ctx, "pay", func(context.Context, string) (string, error) {
			fmt.Println("paying")
			return "receipt 1", nil
		})
		if err != nil {
			return err
		}
		if attempts++; attempts == 1 {
			return errors.New("the printer is out of paper")
		}
		s.Receipt = receipt
		return nil
	})
	b.AddEdge(graph.Start, "sell")
	g := b.MustCompile(graph.WithCheckpointer(checkpoint.NewMemory()))
	ctx := context.Background()
	_, err := g.Thread("t").Invoke(ctx, g.Input(func(*sale) error { return nil }))
	fmt.Println(err)
	snap, err := g.Thread("t").Invoke(ctx, g.Continue())
	fmt.Println(snap.State.Receipt, err)
	// Output:
	// paying
	// node "sell" failed in step 1: the printer is out of paper
	// receipt 1 <nil>
}

// A node that fails is tried again. What a failed attempt wrote is dropped.
func ExampleRetry() {
	type fetch struct{ Log graph.List[string] }
	attempts := 0
	b := graph.New[fetch]("fetch")
	b.AddNode("get", func(_ context.Context, s *fetch) error {
		attempts++
		s.Log.Add(fmt.Sprint("attempt ", attempts))
		if attempts < 3 {
			return errors.New("connection refused")
		}
		return nil
	}, graph.Retry(graph.RetryPolicy{MaxAttempts: 5, Initial: time.Millisecond}))
	b.AddEdge(graph.Start, "get")
	snap, err := b.MustCompile().Invoke(context.Background(), nil)
	fmt.Println(snap.State.Log.Slice(), err)
	// Output: [attempt 3] <nil>
}

// With a checkpointer a thread keeps its state: the next run begins where the
// last one ended.
func ExampleWithCheckpointer() {
	type counter struct{ Visits int }
	b := graph.New[counter]("counter")
	b.AddNode("visit", func(_ context.Context, s *counter) error { s.Visits++; return nil })
	b.AddEdge(graph.Start, "visit")
	g := b.MustCompile(graph.WithCheckpointer(checkpoint.NewMemory()))

	for _, thread := range []string{"ada", "ada", "bob"} {
		snap, err := g.Thread(thread).Invoke(context.Background(), g.Input(func(*counter) error { return nil }))
		fmt.Println(thread, snap.State.Visits, err)
	}
	// Output:
	// ada 1 <nil>
	// ada 2 <nil>
	// bob 1 <nil>
}
