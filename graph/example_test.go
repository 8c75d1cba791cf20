package graph_test

import (
	"context"
	"encoding/json"
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

	var limit *graph.LimitError
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

// A workflow may be one node: a Go function whose sub-steps are recorded. When it runs
// again, here since it has asked, what it has done isn't done again.
func ExampleDo() {
	type report struct {
		Pages graph.List[string]
		Sent  bool
	}
	fetch := func(_ context.Context, url string) (string, error) {
		fmt.Println("fetching", url)
		return "<" + url + ">", nil
	}
	b := graph.New[report]("report").AddNode("run", func(ctx context.Context, s *report) error {
		var pages []*graph.Future[string] // fetched at once, with three attempts each
		for _, url := range []string{"a.example", "b.example"} {
			pages = append(pages, graph.Go(ctx, "fetch", fetch, url, graph.Retry(graph.RetryPolicy{}), graph.Timeout(time.Minute)))
		}
		for _, p := range pages {
			page, err := p.Wait(ctx)
			if err != nil {
				return err
			}
			s.Pages.Add(page)
		}
		ok, err := graph.Interrupt[bool](ctx, "send", s.Pages.Slice())
		if err != nil || !ok {
			return err
		}
		s.Sent, err = graph.Do(ctx, "send", func(ctx context.Context, n int) (bool, error) {
			fmt.Println("sending", n, "pages")
			return true, nil
		}, s.Pages.Len())
		return err
	}).AddEdge(graph.Start, "run")
	g := b.MustCompile(graph.WithCheckpointer(checkpoint.NewMemory()))

	ctx := context.Background()
	snap, err := g.Thread("t").Invoke(ctx, g.Input(func(*report) error { return nil }), graph.Concurrency(1))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("send?", snap.Interrupts[0].Value)
	snap, err = g.Thread("t").Invoke(ctx, g.Answer(true))
	fmt.Println(snap.State.Sent, err)
	// Output:
	// fetching a.example
	// fetching b.example
	// send? [<a.example> <b.example>]
	// sending 2 pages
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

// A thread that waits in a subgraph is read with that inside.
func ExampleThread_Nested() {
	type letter struct{ Text string }
	type desk struct{ Sent bool }
	inner := graph.New[letter]("letter")
	inner.AddNode("write", func(_ context.Context, l *letter) error { l.Text = "Dear Kim"; return nil })
	inner.AddNode("sign", func(ctx context.Context, _ *letter) error {
		_, err := graph.Interrupt[bool](ctx, "sign", nil)
		return err
	})
	inner.AddEdge(graph.Start, "write").AddEdge("write", "sign")
	b := graph.New[desk]("desk")
	graph.AddSubgraph(b, "letter", inner.MustCompile(), graph.Mapping[desk, letter]{})
	b.AddEdge(graph.Start, "letter")
	t := b.MustCompile(graph.WithCheckpointer(checkpoint.NewMemory())).Thread("t")

	ctx := context.Background()
	_, err := t.Invoke(ctx, t.Input(func(*desk) error { return nil }))
	fmt.Println(err)
	snap, err := t.Nested(ctx)
	fmt.Println(snap.State.Sent, err)
	for _, inside := range snap.Tasks[0].States {
		var l letter
		err := json.Unmarshal(inside.State, &l)
		fmt.Println(l.Text, inside.Next, err)
	}
	// Output:
	// <nil>
	// false <nil>
	// Dear Kim [sign] <nil>
}

// all puts what several tasks have found behind each other.
type all struct{}

func (all) Reduce(current, update []string) []string { return append(current, update...) }

// What tasks of a superstep add can be read in the next one, and is gone after that.
func ExampleMergeEphemeral() {
	type state struct {
		Found  graph.MergeEphemeral[[]string, all]
		Answer string
	}
	b := graph.New[state]("search")
	for _, source := range []string{"web", "mail"} {
		b.AddNode(source, func(_ context.Context, s *state) error {
			s.Found.Add([]string{"from " + source})
			return nil
		})
		b.AddEdge(graph.Start, source).AddEdge(source, "answer")
	}
	b.AddNode("answer", func(_ context.Context, s *state) error {
		s.Answer = fmt.Sprint(s.Found.Get())
		return nil
	})
	snap, err := b.MustCompile().Invoke(context.Background(), nil)
	fmt.Println(snap.State.Answer, snap.State.Found.Has(), err)
	// Output: [from web from mail] false <nil>
}

// A node starts a turn on another thread, of another graph, and waits for its end: days,
// perhaps, in which neither has a goroutine. A runner lets the one run, and the other go on.
func ExampleSpawn() {
	type report struct{ Topic, Text string }
	r := graph.New[report]("report")
	r.AddNode("write", func(_ context.Context, s *report) error {
		s.Text = "all about " + s.Topic
		return nil
	})
	r.AddEdge(graph.Start, "write")
	reports := r.MustCompile()

	type paper struct{ Title, Body string }
	b := graph.New[paper]("paper")
	b.AddNode("edit", func(ctx context.Context, s *paper) error {
		title := s.Title
		spawned, err := graph.Spawn(ctx, "report", reports.Thread("report-1"), reports.Input(func(r *report) error {
			r.Topic = title
			return nil
		}))
		if err != nil {
			return err
		}
		r, err := spawned.Wait(ctx)
		if err != nil {
			return err // the first time: the thread is parked
		}
		s.Body = r.Text
		return nil
	})
	b.AddEdge(graph.Start, "edit")
	store := checkpoint.NewMemory()
	papers := b.MustCompile(graph.WithCheckpointer(store))

	ctx := context.Background()
	t := papers.Thread("paper-1")
	snap, err := t.Invoke(ctx, t.Input(func(p *paper) error { p.Title = "cats"; return nil }))
	fmt.Println(snap.Waits[0], err)

	runner, err := graph.NewRunner(store, graph.RunnerOptions{}, papers, reports)
	for range 2 { // Run does so until its context ends
		err = errors.Join(err, runner.Sweep(ctx))
	}
	snap, err = t.State(ctx)
	fmt.Println(snap.State.Body, err)
	// Output:
	// node 'edit' waits for the end of thread "report-1" <nil>
	// all about cats <nil>
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
func ExampleBuilder_NodeDefaults() {
	type State struct{ Said string }
	attempts := 0
	flaky := func(context.Context, *State) error {
		attempts++
		return errors.New("no luck")
	}
	b := graph.New[State]("g").NodeDefaults(
		graph.Retry(graph.RetryPolicy{MaxAttempts: 4, Initial: time.Millisecond}),
		graph.OnError(func(_ context.Context, s *State, err *graph.NodeError) (graph.Command, error) {
			s.Said += fmt.Sprintf("%s failed %d times. ", err.Node, err.Attempt)
			return graph.Command{}, nil
		}))
	b.AddNode("patient", flaky)
	b.AddNode("hasty", flaky, graph.Retry()) // none
	b.AddSequence(graph.Start, "patient", "hasty")
	g := b.MustCompile()

	snap, err := g.Invoke(context.Background(), nil)
	fmt.Println(snap.State.Said, err)
	// Output: patient failed 4 times. hasty failed 1 times.  <nil>
}

func ExampleConfigurable() {
	type State struct{ Said string }
	type Config struct {
		Tone  string `json:"tone"`
		Words int    `json:"words"`
	}
	b := graph.New[State]("g")
	b.AddNode("greet", func(ctx context.Context, s *State) error {
		c, err := graph.Configured[Config](ctx)
		s.Said = fmt.Sprintf("a %s hello in %d words", c.Tone, c.Words)
		return err
	})
	b.AddEdge(graph.Start, "greet")
	g := b.MustCompile(graph.Configurable(Config{Tone: "plain", Words: 5}))

	ctx := context.Background()
	snap, err := g.Invoke(ctx, nil)
	fmt.Println(snap.State.Said, err)
	snap, err = g.Invoke(ctx, nil, graph.Configure(func(c *Config) { c.Words *= 2 }))
	fmt.Println(snap.State.Said, err)
	snap, err = g.Invoke(ctx, nil, graph.ConfigureJSON([]byte(`{"tone": "dry"}`))) // from outside
	fmt.Println(snap.State.Said, err)
	_, err = g.Invoke(ctx, nil, graph.ConfigureJSON([]byte(`{"tnoe": "dry"}`)))
	fmt.Println(errors.Unwrap(err))
	// Output:
	// a plain hello in 5 words <nil>
	// a plain hello in 10 words <nil>
	// a dry hello in 5 words <nil>
	// field "tnoe": unknown field; did you mean "tone"?
}

func ExampleFor() {
	type State struct{ Found graph.List[string] }
	type Index string
	inner := graph.New[State]("research")
	inner.AddNode("look", func(ctx context.Context, s *State) error {
		index, err := graph.Deps[Index](ctx)
		s.Found.Add("found in the " + string(index))
		return err
	})
	inner.AddEdge(graph.Start, "look")
	research := inner.MustCompile()

	b := graph.New[State]("report")
	graph.AddShared(b, "law", research, func(s *State) *State { return s })
	graph.AddShared(b, "press", research, func(s *State) *State { return s })
	b.AddSequence(graph.Start, "law", "press")
	g := b.MustCompile(graph.UseDeps(Index("library")), graph.For("press", graph.UseDeps(Index("archive")), graph.MaxSteps(5)))

	ctx := context.Background()
	snap, err := g.Invoke(ctx, nil)
	fmt.Println(snap.State.Found, err)
	_, err = g.Invoke(ctx, nil, graph.For("pres", graph.MaxSteps(5)))
	fmt.Println(err)
	// Output:
	// [found in the library found in the archive] <nil>
	// For names "pres", which is not a subgraph; did you mean "press"?
}

func ExampleTags() {
	type State struct{}
	say := func(ctx context.Context, _ *State) error {
		summary := graph.WithTags(ctx, graph.NoStream) // of one call of a model
		if err := graph.EmitMessage(summary, "notes to myself"); err != nil {
			return err
		}
		return graph.EmitMessage(ctx, "hello")
	}
	b := graph.New[State]("g")
	b.AddNode("greet", say, graph.Tags("customer"))
	b.AddNode("grade", say, graph.Tags("internal", graph.NoStream)) // of a node
	b.AddSequence(graph.Start, "greet", "grade")
	g := b.MustCompile()

	for ev, err := range g.Stream(context.Background(), nil, graph.Modes(graph.ModeMessages)) {
		fmt.Println(ev.Node, ev.Tags, ev.Value, err)
	}
	// Output: greet [customer] hello <nil>
}

func ExampleSetOutput() {
	type State struct {
		Question, Notes, Answer string
	}
	type Ask struct {
		Question string `json:"question"`
	}
	type Reply struct {
		Answer string `json:"answer"`
	}
	b := graph.New[State]("answering")
	graph.SetInput(b, func(s *State, in Ask) error { s.Question = in.Question; return nil })
	graph.SetOutput(b, func(s *State) Reply { return Reply{s.Answer} })
	b.AddNode("think", func(_ context.Context, s *State) error {
		s.Notes, s.Answer = "nobody's business", "42"
		return nil
	})
	b.AddEdge(graph.Start, "think")
	g := graph.JSON(b.MustCompile()) // as a server has it

	snap, err := g.Invoke(context.Background(), graph.UpdateWith([]byte(`{"question": "what?"}`)))
	out, _ := snap.OutputJSON()
	fmt.Println(string(out), err)
	_, err = g.Invoke(context.Background(), graph.UpdateWith([]byte(`{"question": "what?", "Notes": "mine"}`)))
	fmt.Println(err)
	// Output:
	// {"answer":"42"} <nil>
	// field "Notes": unknown field; remove it
}

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
