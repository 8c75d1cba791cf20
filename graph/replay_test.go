package graph_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/recording"
	"github.com/superstep-dev/superstep/graph"
)

// taped returns a thread of a store as it comes back from a file.
func taped(t *testing.T, store checkpoint.Store, thread string) *recording.Recording {
	t.Helper()
	var b bytes.Buffer
	if err := recording.Export(bg, store, checkpoint.ThreadID(thread), &b); err != nil {
		t.Fatal(err)
	}
	return must[*recording.Recording](t)(recording.Read(&b))
}

// differences replays a recording and returns what differs, one text each.
func differences[S any](t *testing.T, g *graph.Graph[S], rec *recording.Recording, o ...graph.ReplayOptions) []string {
	t.Helper()
	var ds []string
	for d, err := range g.Replay(bg, rec, append(o, graph.ReplayOptions{})[0]) {
		if err != nil {
			t.Fatal(err)
		}
		ds = append(ds, fmt.Sprintf("%d %s/%s %s %s: %s | %s", d.Step, strings.Join(d.Path, "/"), d.Node, d.Kind, d.Field, d.Want, d.Got))
	}
	return ds
}

func same[S any](t *testing.T, g *graph.Graph[S], rec *recording.Recording, o ...graph.ReplayOptions) {
	t.Helper()
	for _, d := range differences(t, g, rec, o...) {
		t.Errorf("replay differs: %s", d)
	}
}

// first wants the replay to differ first in that.
func first[S any](t *testing.T, g *graph.Graph[S], rec *recording.Recording, want string, o ...graph.ReplayOptions) {
	t.Helper()
	ds := differences(t, g, rec, o...)
	if len(ds) == 0 {
		t.Errorf("no difference, want %s", want)
	} else if ds[0] != want {
		t.Errorf("differs in\n  %s\nwant\n  %s", strings.Join(ds, "\n  "), want)
	}
}

type desk struct {
	Topic  string
	Drafts graph.List[string]
	Votes  graph.Sum[int]
	OK     bool
	Done   graph.List[string]
}

// change is what a program has that its recording doesn't.
type change struct {
	draft, question, value, once string
	next                         string
	without                      bool   // the last node
	ask                          func() // told of each call of the model
}

// deskGraph has sub-steps, a loop with a question, a fan-out with sends, a join
// and a node that fails at first.
func deskGraph(t *testing.T, c change, opts ...graph.Option) *graph.Graph[desk] {
	t.Helper()
	def := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	def(&c.draft, "draft")
	def(&c.question, "like")
	def(&c.value, "v")
	def(&c.once, "model")
	def(&c.next, "left")
	b := graph.New[desk]("desk")
	b.AddNode("write", func(ctx context.Context, s *desk) error {
		text, err := graph.Once(ctx, c.once, func(context.Context, string) (string, error) {
			if c.ask != nil {
				c.ask()
			}
			return fmt.Sprint(s.Topic, s.Drafts.Len()), nil
		})
		if err != nil {
			return err
		}
		s.Drafts.Add(c.draft + " " + text)
		return nil
	})
	b.AddNode("review", func(ctx context.Context, s *desk) error {
		ok, err := graph.Interrupt[bool](ctx, c.question, c.value+s.Drafts.Last())
		s.OK = ok
		return err
	})
	vote := graph.AddTask(b, "vote", func(ctx context.Context, s *desk, n int) error {
		n, err := graph.Once(ctx, "tool", func(context.Context, string) (int, error) {
			if c.ask != nil {
				c.ask()
			}
			return n, nil
		})
		s.Votes.Add(n)
		return err
	})
	b.AddNode("count", func(ctx context.Context, s *desk) error {
		if graph.Info(ctx).Attempt == 1 {
			return errBoom
		}
		s.Done.Add(fmt.Sprint("count ", s.Votes.Get()))
		return nil
	}, graph.Retry(graph.RetryPolicy{MaxAttempts: 2, Initial: time.Millisecond}))
	for _, n := range []string{"left", "right"} {
		b.AddNode(n, func(_ context.Context, s *desk) error { s.Done.Add(n); return nil })
	}
	b.AddEdge(graph.Start, "write").AddEdge("write", "review")
	b.AddConditionalEdges("review", func(_ context.Context, s *desk) (graph.Command, error) {
		if !s.OK {
			return graph.Goto("write"), nil
		}
		return graph.Dispatch(vote.Send(1), vote.Send(2), vote.Send(3)), nil
	}, "write", "vote")
	b.AddEdge("vote", "count")
	b.AddConditionalEdges("count", func(context.Context, *desk) (graph.Command, error) { return graph.Goto(c.next, "right"), nil })
	if !c.without {
		b.AddNode("last", func(_ context.Context, s *desk) error { s.Done.Add("last"); return nil })
		b.AddJoin([]string{"left", "right"}, "last")
	}
	return compile(t, b, opts...)
}

func deskRecording(t *testing.T, calls *calls, opts ...graph.Option) *recording.Recording {
	t.Helper()
	store := checkpoint.NewMemory()
	opts = append([]graph.Option{graph.WithCheckpointer(store), graph.RecordOnce()}, opts...)
	g := deskGraph(t, change{ask: func() { calls.add("call") }}, opts...)
	must[*graph.Snapshot[desk]](t)(g.Thread("t").Invoke(bg, g.Input(func(s *desk) error {
		s.Topic = "cats"
		return nil
	})))
	must[*graph.Snapshot[desk]](t)(g.Thread("t").Invoke(bg, g.Answer(false)))
	snap := must[*graph.Snapshot[desk]](t)(g.Thread("t").Invoke(bg, g.Answer(true)))
	equal(t, "next", len(snap.Next), 0)
	return taped(t, store, "t")
}

func TestARecordedThreadReplays(t *testing.T) {
	ran := &calls{}
	rec := deskRecording(t, ran)
	equal(t, "calls", ran.of("call"), 5)
	same(t, deskGraph(t, change{ask: func() { ran.add("call") }}), rec)
	equal(t, "calls after the replay", ran.of("call"), 5)
}

func TestAReplayFindsWhatChanged(t *testing.T) {
	ran := &calls{}
	rec := deskRecording(t, ran)
	outside := func() { t.Error("a replay has called out") }
	for name, c := range map[string]struct {
		change
		want string
	}{
		"value":    {change{draft: "sketch"}, `1 /write state Drafts: ["draft cats0"] | ["sketch cats0"]`},
		"question": {change{question: "fine"}, `2 /review question : asks "like": "vdraft cats0" | asks "fine": "vdraft cats0"`},
		"asked":    {change{value: "w"}, `2 /review question : asks "like": "vdraft cats0" | asks "like": "wdraft cats0"`},
		"once":     {change{once: "other"}, `1 /write once : no such call | calls Once "other"`},
		"routing":  {change{next: "last"}, `6 /count routing : leads to left, right | leads to right, last`},
		"removed":  {change{without: true}, `7 /right routing : leads to last | leads to the end`},
	} {
		t.Run(name, func(t *testing.T) {
			c.ask = outside
			first(t, deskGraph(t, c.change), rec, c.want)
		})
	}
	t.Run("one difference doesn't lead to others", func(t *testing.T) {
		equal(t, "differences", len(differences(t, deskGraph(t, change{draft: "sketch"}), rec)), 2)
	})
	t.Run("ignored", func(t *testing.T) {
		same(t, deskGraph(t, change{draft: "sketch"}), rec, graph.ReplayOptions{IgnoreFields: []string{"Drafts"}})
	})
	t.Run("taken", func(t *testing.T) {
		same(t, deskGraph(t, change{draft: "sketch", once: "other", ask: outside}), rec, graph.ReplayOptions{TakeRecorded: []string{"write", "vote"}})
	})
	t.Run("unknown names", func(t *testing.T) {
		for _, o := range []graph.ReplayOptions{{TakeRecorded: []string{"wirte"}}, {IgnoreFields: []string{"Draft"}}} {
			for _, err := range deskGraph(t, change{}).Replay(bg, rec, o) {
				if err == nil || !strings.Contains(err.Error(), "did you mean") {
					t.Errorf("error is %v", err)
				}
			}
		}
	})
}

func TestWithoutRecordOnceNoResultIsKept(t *testing.T) {
	store := checkpoint.NewMemory()
	g := deskGraph(t, change{}, graph.WithCheckpointer(store))
	must[*graph.Snapshot[desk]](t)(g.Thread("t").Invoke(bg, g.Input(func(s *desk) error {
		s.Topic = "cats"
		return nil
	})))
	rec := taped(t, store, "t")
	for _, r := range rec.Logs[0].Records {
		for _, o := range r.Once {
			if o.Kept() {
				t.Errorf("record %d keeps %v", r.Seq, o)
			}
		}
	}
	first(t, g, rec, `1 /write once : no result of Once: the thread ran without the option RecordOnce | calls Once "model"`)
}

func TestAllBranchesReplay(t *testing.T) {
	store := checkpoint.NewMemory()
	g := deskGraph(t, change{}, graph.WithCheckpointer(store), graph.RecordOnce())
	asked := must[*graph.Snapshot[desk]](t)(g.Thread("t").Invoke(bg, g.Input(func(s *desk) error {
		s.Topic = "cats"
		return nil
	})))
	must[*graph.Snapshot[desk]](t)(g.Thread("t").Invoke(bg, g.Answer(true)))
	must[*graph.Snapshot[desk]](t)(g.Thread("t").At(asked.Checkpoint).Invoke(bg, g.Answer(false))) // a fork with another answer
	must[*graph.Snapshot[desk]](t)(g.Thread("t").At(asked.Checkpoint).EditAs(bg, "review", func(s *desk) error {
		s.Topic = "dogs"
		return nil
	}, graph.Goto("write")))
	must[*graph.Snapshot[desk]](t)(g.Thread("t").Invoke(bg, g.Continue()))
	must[*graph.Snapshot[desk]](t)(g.Thread("t").At(asked.Parent).Invoke(bg, g.Continue())) // runs again
	must[*graph.Snapshot[desk]](t)(g.Thread("t").Invoke(bg, g.Restart(func(s *desk) error {
		s.Topic = "new"
		return nil
	})))
	rec := taped(t, store, "t")
	same(t, deskGraph(t, change{}), rec)
	ds := differences(t, deskGraph(t, change{draft: "sketch"}), rec)
	equal(t, "drafts that differ", len(ds), 4)
}

type inner struct {
	N    int
	Said graph.List[string]
}

type outer struct {
	inner
	Total graph.Sum[int]
	Log   graph.List[string]
}

func (o *outer) part() *inner { return &o.inner }

// nested has subgraphs of all kinds, two deep, that ask and call Once.
func nested(t *testing.T, add int, question string, called func(), opts ...graph.Option) *graph.Graph[outer] {
	t.Helper()
	deep := graph.New[inner]("deep")
	deep.AddNode("ask", func(ctx context.Context, s *inner) error {
		n, err := graph.Once(ctx, "deep", func(context.Context, string) (int, error) { called(); return 10, nil })
		if err != nil {
			return err
		}
		answer, err := graph.Interrupt[string](ctx, question, n)
		if err != nil {
			return err
		}
		s.N += n
		s.Said.Add(answer)
		return nil
	})
	deep.AddNode("more", func(_ context.Context, s *inner) error { s.N += add; return nil })
	deep.SetEntryPoint("ask").AddEdge("ask", "more")
	sub := func(name string, keep ...graph.Option) *graph.Graph[inner] {
		b := graph.New[inner](name)
		b.AddNode("one", func(ctx context.Context, s *inner) error {
			n, err := graph.Once(ctx, "one", func(context.Context, string) (int, error) { called(); return 1, nil })
			s.N += n
			return err
		})
		graph.AddSubgraph(b, "deep", compile(t, deep), graph.Mapping[inner, inner]{
			In:  func(p, c *inner) { c.N = p.N },
			Out: func(c, p *inner) { p.N = c.N; p.Said.Add(c.Said.Last()) },
		})
		b.SetEntryPoint("one").AddEdge("one", "deep")
		return compile(t, b, keep...)
	}
	b := graph.New[outer]("outer")
	into := graph.Mapping[outer, inner]{
		In:  func(p *outer, c *inner) { c.N += 100 },
		Out: func(c *inner, p *outer) { p.Total.Add(c.N); p.Log.Add(c.Said.Last()) },
	}
	graph.AddSubgraph(b, "fresh", sub("fresh"), into)
	graph.AddSubgraph(b, "kept", sub("kept", graph.KeepState()), into)
	graph.AddShared(b, "shared", sub("shared"), (*outer).part)
	b.AddNode("end", func(_ context.Context, s *outer) error { s.Log.Add("end"); return nil })
	b.AddEdge(graph.Start, "fresh").AddEdge(graph.Start, "kept").AddEdge(graph.Start, "shared")
	b.AddJoin([]string{"fresh", "kept", "shared"}, "end")
	return compile(t, b, opts...)
}

func TestSubgraphsReplay(t *testing.T) {
	store := checkpoint.NewMemory()
	n := &calls{}
	g := nested(t, 0, "q", func() { n.add("call") }, graph.WithCheckpointer(store), graph.RecordOnce())
	for turn := range 2 {
		snap := must[*graph.Snapshot[outer]](t)(g.Thread("t").Invoke(bg, g.Input(func(s *outer) error { return nil })))
		for i := 0; len(snap.Interrupts) > 0; i++ {
			snap = must[*graph.Snapshot[outer]](t)(g.Thread("t").Invoke(bg, g.Answer(graph.Answers{snap.Interrupts[0].ID: fmt.Sprint("answer ", turn, i)})))
		}
		equal(t, "next", len(snap.Next), 0)
	}
	equal(t, "calls", n.of("call"), 12)
	rec := taped(t, store, "t")
	outside := func() { t.Error("a replay has called out") }
	same(t, nested(t, 0, "q", outside), rec)
	first(t, nested(t, 5, "q", outside), rec, `1 fresh/deep/more state N: not written | 116`)
	first(t, nested(t, 0, "p", outside), rec, `1 fresh/deep/ask question : asks "q": 10 | asks "p": 10`)
	first(t, nested(t, 0, "q", outside), recordedWithout(rec), `1 fresh/one once : no result of Once: the thread ran without the option RecordOnce | calls Once "one"`)
	same(t, nested(t, 5, "p", outside), rec, graph.ReplayOptions{TakeRecorded: []string{"fresh/deep", "kept/deep", "shared/deep"}})
}

// recordedWithout returns a recording without results of Once.
func recordedWithout(rec *recording.Recording) *recording.Recording {
	out := &recording.Recording{Header: rec.Header}
	for _, l := range rec.Logs {
		c := &recording.Log{Namespace: l.Namespace}
		for _, r := range l.Records {
			k := *r
			k.Once = nil
			c.Records = append(c.Records, &k)
		}
		out.Logs = append(out.Logs, c)
	}
	return out
}

func TestFailuresOfOnceReplay(t *testing.T) {
	build := func(fail bool, opts ...graph.Option) *graph.Graph[trail] {
		b := graph.New[trail]("g")
		b.AddNode("a", func(ctx context.Context, s *trail) error {
			_, err := graph.Once(ctx, "pay", func(context.Context, string) (int, error) {
				if !fail {
					t.Error("a replay has called out")
				}
				return 0, errBoom
			})
			s.Note = fmt.Sprint(err)
			return nil
		})
		b.AddNode("sleep", func(ctx context.Context, s *trail) error {
			if err := graph.Sleep(ctx, "nap", time.Hour); err != nil {
				return err
			}
			_, err := graph.WaitFor[int](ctx, "", "paid", graph.Deadline(time.Hour))
			var late *graph.DeadlineError
			if !errors.As(err, &late) {
				return err
			}
			s.N++
			return nil
		})
		b.AddEdge(graph.Start, "a").AddEdge("a", "sleep")
		return compile(t, b, opts...)
	}
	store := checkpoint.NewMemory()
	g := build(true, graph.WithCheckpointer(store), graph.RecordOnce())
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(graph.Answers{"nap": nil})))
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(graph.Answers{"paid": 1})))
	same(t, build(false), taped(t, store, "t"))
}

func TestAReplayMigrates(t *testing.T) {
	type before struct {
		Title string
		Notes graph.List[string]
	}
	type after struct {
		Heading string
		Notes   graph.List[string]
		Extra   int
	}
	store := checkpoint.NewMemory()
	old := graph.New[before]("g")
	old.AddNode("first", func(_ context.Context, s *before) error { s.Title = "x"; s.Notes.Add("first"); return nil })
	old.AddNode("second", func(_ context.Context, s *before) error { s.Notes.Add(s.Title); return nil })
	old.SetEntryPoint("first").AddEdge("first", "second")
	must[*graph.Snapshot[before]](t)(compile(t, old, graph.WithCheckpointer(store)).Thread("t").Invoke(bg, graph.Requests[before]{}.Input(func(*before) error { return nil })))

	b := graph.New[after]("g")
	b.AddNode("one", func(_ context.Context, s *after) error { s.Heading = "<x>"; s.Notes.Add("first"); return nil }, graph.Formerly("first"))
	b.AddNode("second", func(_ context.Context, s *after) error { s.Notes.Add(strings.Trim(s.Heading, "<>")); return nil })
	b.SetEntryPoint("one").AddEdge("one", "second")
	g := compile(t, b, graph.Migrate(1, func(f map[string]json.RawMessage) error {
		var title string
		if json.Unmarshal(f["Title"], &title) == nil {
			f["Title"], _ = json.Marshal("<" + title + ">")
		}
		return nil
	}), graph.FieldAlias("Title", "Heading"))
	same(t, g, taped(t, store, "t"))
}

func TestANodeThatIsGoneIsADifference(t *testing.T) {
	store := checkpoint.NewMemory()
	b := visits(graph.New[trail]("g"), "a", "b")
	b.SetEntryPoint("a").AddEdge("a", "b")
	must[*graph.Snapshot[trail]](t)(compile(t, b, graph.WithCheckpointer(store)).Thread("t").Invoke(bg, graph.Requests[trail]{}.Input(func(*trail) error { return nil })))
	c := visits(graph.New[trail]("g"), "a")
	ds := differences(t, compile(t, c.SetEntryPoint("a")), taped(t, store, "t"))
	equal(t, "differences", len(ds), 2)
	equal(t, "first", ds[0], `1 /a routing : leads to b | leads to the end`)
	if !strings.HasPrefix(ds[1], `2 /b error : the node runs | `) {
		t.Errorf("second is %s", ds[1])
	}
}

func TestAPrunedThreadReplaysAndImports(t *testing.T) {
	store := checkpoint.NewMemory()
	g := deskGraph(t, change{}, graph.WithCheckpointer(store), graph.RecordOnce())
	must[*graph.Snapshot[desk]](t)(g.Thread("t").Invoke(bg, g.Input(func(s *desk) error {
		s.Topic = "cats"
		return nil
	})))
	must[*graph.Snapshot[desk]](t)(g.Thread("t").Invoke(bg, g.Answer(false)))
	must[graph.Pruned](t)(g.Thread("t").Prune(bg, graph.Keep{Last: 3}))
	rec := taped(t, store, "t")
	same(t, deskGraph(t, change{}), rec)
	first(t, deskGraph(t, change{value: "w"}), rec, `4 /review question : asks "like": "vdraft cats1" | asks "like": "wdraft cats1"`)
	to := checkpoint.NewMemory()
	if err := rec.Put(bg, to, "copy"); err != nil {
		t.Fatal(err)
	}
	snap := must[*graph.Snapshot[desk]](t)(g.Thread("copy", graph.WithCheckpointer(to)).Invoke(bg, g.Answer(true)))
	equal(t, "done", fmt.Sprint(snap.State.Done.Slice()), "[count 6 left right last]")
}

func TestBreakpointsReplay(t *testing.T) {
	child := visits(graph.New[trail]("child"), "x", "y", "z")
	child.AddSequence("x", "y", "z").SetEntryPoint("x")
	sub := compile(t, child, graph.InterruptBefore("y"), graph.InterruptAfter("y"))
	b := visits(graph.New[trail]("g"), "a", "b", "c")
	graph.AddShared(b, "sub", sub, func(s *trail) *trail { return s })
	b.AddSequence("a", "b", "sub", "c").SetEntryPoint("a")
	store := checkpoint.NewMemory()
	g := compile(t, b, graph.WithCheckpointer(store), graph.InterruptBefore("b"), graph.InterruptAfter("b"))
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	n := 0
	for ; len(snap.Interrupts) > 0; n++ {
		snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(nil)))
	}
	equal(t, "pauses", n, 4)
	equal(t, "ran", snap.State.ran(), "a b x y z c")
	same(t, g, taped(t, store, "t"))
}

func TestCommandsReplayAndCanBeTaken(t *testing.T) {
	build := func(outside bool, opts ...graph.Option) *graph.Graph[trail] {
		b := graph.New[trail]("g")
		var work graph.Task[string]
		b.AddCommandNode("route", func(_ context.Context, s *trail) (graph.Command, error) {
			if outside {
				return graph.Command{}, errBoom
			}
			s.Ran.Add("route")
			return graph.Dispatch(work.Send("one"), work.Send("two")).And(graph.Goto("b", "late")), nil
		})
		work = graph.AddCommandTask(b, "work", func(_ context.Context, s *trail, in string) (graph.Command, error) {
			s.Ran.Add("work " + in)
			if outside {
				return graph.Command{}, errBoom
			}
			if in == "two" {
				return graph.Goto("c"), nil
			}
			return graph.Goto(graph.End), nil
		})
		visits(b, "b", "c")
		b.AddNode("late", visit("late"), graph.Defer())
		b.SetEntryPoint("route")
		return compile(t, b, opts...)
	}
	store := checkpoint.NewMemory()
	snap := must[*graph.Snapshot[trail]](t)(build(false, graph.WithCheckpointer(store)).Thread("t").Invoke(bg, graph.Requests[trail]{}.Input(func(*trail) error { return nil })))
	equal(t, "ran", snap.State.ran(), "route work one work two b c late")
	rec := taped(t, store, "t")
	same(t, build(false), rec)
	same(t, build(true), rec, graph.ReplayOptions{TakeRecorded: []string{"route", "work"}})
	first(t, build(true), rec, `1 /route error : the node finishes | it fails: boom`)
}

func TestFailedAndVoidedTasksReplay(t *testing.T) {
	fail := true
	b := graph.New[trail]("g")
	b.AddNode("a", func(_ context.Context, s *trail) error { s.N = 1; s.Ran.Add("a"); return nil })
	b.AddNode("b", func(_ context.Context, s *trail) error {
		s.Ran.Add("b")
		if fail {
			s.N = 2 // as another writes 1
		}
		return nil
	})
	b.AddNode("c", func(_ context.Context, s *trail) error {
		s.Ran.Add("c")
		if fail {
			return errBoom
		}
		return nil
	})
	b.AddEdge(graph.Start, "a").AddEdge(graph.Start, "b").AddEdge("a", "c")
	store := checkpoint.NewMemory()
	g := compile(t, b, graph.WithCheckpointer(store))
	if _, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })); err == nil {
		t.Fatal("no conflict")
	}
	fail = false
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
	rec := taped(t, store, "t")
	same(t, g, rec)
	fail = true
	ds := differences(t, g, rec)
	equal(t, "differences", len(ds), 2)
	if !strings.HasPrefix(ds[0], `1 /b state N: the superstep is committed | `) {
		t.Errorf("first is %s", ds[0])
	}
	equal(t, "second", ds[1], `2 /c error : the node finishes | it fails: boom`)
}

func TestThreadsInOtherNamespacesReplay(t *testing.T) {
	store := checkpoint.NewMemory()
	g := deskGraph(t, change{}, graph.WithCheckpointer(store), graph.RecordOnce())
	must[*graph.Snapshot[desk]](t)(g.Thread("t", graph.Namespace("ns")).Invoke(bg, g.Input(func(s *desk) error {
		s.Topic = "cats"
		return nil
	})))
	rec := taped(t, store, "t")
	same(t, g, rec, graph.ReplayOptions{Namespace: "ns"})
	for _, err := range g.Replay(bg, rec, graph.ReplayOptions{}) {
		if err == nil || !strings.Contains(err.Error(), `has no log ""`) {
			t.Errorf("error is %v", err)
		}
	}
}

func TestAReplayEndsWithItsContext(t *testing.T) {
	rec := deskRecording(t, &calls{})
	ctx, cancel := context.WithCancel(bg)
	cancel()
	for _, err := range deskGraph(t, change{}).Replay(ctx, rec, graph.ReplayOptions{}) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error is %v", err)
		}
	}
}

func TestSchemaGraphsReplay(t *testing.T) {
	build := func(by int, opts ...graph.Option) *graph.Graph[graph.SchemaState] {
		b := graph.NewSchemaGraph("g", guide())
		graph.AddMapNode(b, "a", returns(graph.MapState{"counter": by, "items": []string{"a"}}))
		graph.AddMapNode(b, "b", func(_ context.Context, s graph.MapState) (any, error) {
			return graph.MapState{"note": fmt.Sprint(s["counter"])}, nil
		})
		b.AddEdge(graph.Start, "a").AddEdge("a", "b")
		return compileSchema(t, b, opts...)
	}
	store := checkpoint.NewMemory()
	runSchema(t, build(1, graph.WithCheckpointer(store)), graph.MapState{"counter": 2})
	rec := taped(t, store, "t")
	same(t, build(1), rec)
	first(t, build(5), rec, `1 /a state counter: 1 | 5`)
}

func TestACommandThatTakesNotAllEdgesCanBeTaken(t *testing.T) {
	for want, command := range map[string]graph.Command{
		"a b":     graph.Goto("b"),
		"a c":     graph.Goto("c"),
		"a":       graph.Goto(graph.End),
		"a d":     graph.Goto("d"),
		"a b c j": {}, // the edges
	} {
		build := func(outside bool, opts ...graph.Option) *graph.Graph[trail] {
			b := visits(graph.New[trail]("g"), "b", "c", "d", "j")
			b.AddCommandNode("a", func(_ context.Context, s *trail) (graph.Command, error) {
				if outside {
					return graph.Command{}, errBoom
				}
				s.Ran.Add("a")
				return command, nil
			})
			b.SetEntryPoint("a").AddEdge("a", "b").AddEdge("a", "c")
			if want == "a b c j" {
				b.AddJoin([]string{"a", "b"}, "j")
			}
			return compile(t, b, opts...)
		}
		store := checkpoint.NewMemory()
		snap := must[*graph.Snapshot[trail]](t)(build(false, graph.WithCheckpointer(store)).Thread("t").Invoke(bg, graph.Requests[trail]{}.Input(func(*trail) error { return nil })))
		equal(t, "ran", snap.State.ran(), want)
		same(t, build(true), taped(t, store, "t"), graph.ReplayOptions{TakeRecorded: []string{"a"}})
	}
}

func TestWhatANodeOfASchemaGraphReturnedCanBeTaken(t *testing.T) {
	for want, out := range map[string]any{
		"b":   graph.Goto("b"),
		"c":   &graph.MapCommand{Update: graph.MapState{"note": "x"}, Goto: graph.Goto("c")},
		"b c": nil, // the edges
		"":    graph.Goto(graph.End),
	} {
		build := func(outside bool, opts ...graph.Option) *graph.Graph[graph.SchemaState] {
			b := graph.NewSchemaGraph("g", guide())
			graph.AddMapNode(b, "a", func(context.Context, graph.MapState) (any, error) {
				if outside {
					return nil, errBoom
				}
				return out, nil
			})
			for _, name := range []string{"b", "c"} {
				graph.AddMapNode(b, name, returns(graph.MapState{"items": []string{name}}))
				b.AddEdge("a", name)
			}
			b.SetEntryPoint("a")
			return compileSchema(t, b, opts...)
		}
		store := checkpoint.NewMemory()
		snap := runSchema(t, build(false, graph.WithCheckpointer(store)), graph.MapState{})
		ran, _ := snap.State.Get("items").([]string)
		equal(t, "ran", strings.Join(ran, " "), want)
		same(t, build(true), taped(t, store, "t"), graph.ReplayOptions{TakeRecorded: []string{"a"}})
	}
}

func TestAQuestionThatIsOpenIsReplayedApartFromTheSuperstepBefore(t *testing.T) {
	build := func(today bool, opts ...graph.Option) *graph.Graph[trail] {
		b := graph.New[trail]("g")
		b.AddCommandNode("a", func(ctx context.Context, s *trail) (graph.Command, error) {
			if today {
				if _, err := graph.Once(ctx, "call", func(context.Context, string) (int, error) { return 1, nil }); err != nil {
					return graph.Command{}, err
				}
			}
			if s.Total.Get() == 0 {
				s.Total.Add(1)
				return graph.Goto("a"), nil
			}
			_, err := graph.Interrupt[string](ctx, "q", nil)
			return graph.Command{}, err
		})
		b.AddEdge(graph.Start, "a")
		return compile(t, b, opts...)
	}
	store := checkpoint.NewMemory()
	g := build(false, graph.WithCheckpointer(store))
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	equalSlice(t, "differences", differences(t, build(true), taped(t, store, "t")), []string{
		`1 /a once : no result of Once: the thread ran without the option RecordOnce | calls Once "call"`,
		`2 /a once : no result of Once: the thread ran without the option RecordOnce | calls Once "call"`,
	})
}

func TestATakenTaskThatLedToANodeThatIsGoneFailsAlone(t *testing.T) {
	build := func(today bool, opts ...graph.Option) *graph.Graph[trail] {
		to, adds := "x", 1
		if today {
			to, adds = "c", 2
		}
		b := graph.New[trail]("g")
		b.AddCommandNode("a", func(context.Context, *trail) (graph.Command, error) { return graph.Goto(to), nil }, graph.Destinations(to))
		b.AddNode("k", func(_ context.Context, s *trail) error {
			s.Total.Add(adds)
			return nil
		})
		b.AddNode(to, func(context.Context, *trail) error { return nil })
		b.AddEdge("k", to).AddEdge(graph.Start, "a").AddEdge(graph.Start, "k")
		return compile(t, b, opts...)
	}
	store := checkpoint.NewMemory()
	g := build(false, graph.WithCheckpointer(store))
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	found := differences(t, build(true), taped(t, store, "t"), graph.ReplayOptions{TakeRecorded: []string{"a"}})
	equalSlice(t, "differences of the first superstep", found[:min(2, len(found))], []string{
		`1 /a error : the node finishes | it fails: node "a" leads to "x", which is not a node`,
		"1 /k state Total: 1 | 2",
	})
}
