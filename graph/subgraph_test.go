package graph_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

type child struct {
	In   string
	Log  graph.List[string]
	Runs int
}

func childGraph(t testing.TB, ran *calls, ask bool, opts ...graph.Option) *graph.Graph[child] {
	b := graph.New[child]("child")
	b.AddNode("first", func(_ context.Context, s *child) error {
		ran.add("first")
		s.Runs++
		s.Log.Add("first " + s.In)
		return nil
	})
	b.AddNode("second", func(ctx context.Context, s *child) error {
		ran.add("second")
		if !ask {
			s.Log.Add("second")
			return nil
		}
		v, err := graph.Interrupt[string](ctx, "ask", "for "+s.In)
		s.Log.Add("second " + v)
		return err
	})
	b.AddEdge(graph.Start, "first").AddEdge("first", "second")
	return compile(t, b, opts...)
}

var mapping = graph.Mapping[trail, child]{
	In:  func(p *trail, c *child) { c.In = p.Note },
	Out: func(c *child, p *trail) { p.Ran.Add(c.Log.Slice()...); p.N = c.Runs },
}

func mounted(t testing.TB, c *graph.Graph[child], ran *calls, opts ...graph.Option) *graph.Graph[trail] {
	b := graph.New[trail]("parent")
	b.AddNode("before", func(_ context.Context, s *trail) error {
		ran.add("before")
		s.Note = "hi"
		return nil
	})
	graph.AddSubgraph(b, "sub", c, mapping)
	visits(b, "after")
	b.AddEdge(graph.Start, "before").AddSequence("before", "sub", "after")
	return compile(t, b, opts...)
}

func TestSubgraphMapsInAndOut(t *testing.T) {
	ran := &calls{}
	for _, opts := range [][]graph.Option{nil, stored()} {
		g := mounted(t, childGraph(t, ran, false), ran, opts...)
		snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
		equal(t, "ran", snap.State.ran(), "first hi second after")
		equal(t, "step of the parent", snap.Step, 3)
	}
}

func TestSubgraphGoesOnAfterItsQuestion(t *testing.T) {
	store := checkpoint.NewMemory()
	ran := &calls{}
	build := func() *graph.Graph[trail] {
		return mounted(t, childGraph(t, ran, true), ran, graph.WithCheckpointer(store))
	}
	snap := must[*graph.Snapshot[trail]](t)(build().Thread("t").Invoke(bg, graph.Requests[trail]{}.Input(func(*trail) error { return nil })))
	i := snap.Interrupts[0]
	equal(t, "question", fmt.Sprint(i.Path, i.Node, i.Key, i.Value), "[sub]secondaskfor hi")
	equal(t, "subgraphs of the task", len(snap.Tasks[0].Subgraphs), 1)
	snap = must[*graph.Snapshot[trail]](t)(build().Thread("t").Invoke(bg, graph.Requests[trail]{}.Answer(graph.Answers{"ask": "yes"})))
	equal(t, "ran", snap.State.ran(), "first hi second yes after")
	equal(t, "runs of first", ran.of("first"), 1)
	equal(t, "runs of second", ran.of("second"), 2)
}

func TestSubgraphWithBreakpoint(t *testing.T) {
	ran := &calls{}
	g := mounted(t, childGraph(t, ran, false, graph.InterruptBefore("second")), ran, stored()...)
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	equal(t, "error", snap.Err().Error(), "interrupted before node 'sub/second'")
	snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
	equal(t, "ran", snap.State.ran(), "first hi second after")
	equal(t, "runs of first", ran.of("first"), 1)
}

func TestSubgraphFailureGoesOnWhereItWas(t *testing.T) {
	fail := true
	ran := &calls{}
	cb := graph.New[child]("child")
	cb.AddNode("first", func(_ context.Context, s *child) error { ran.add("first"); s.Log.Add("first"); return nil })
	cb.AddNode("second", func(_ context.Context, s *child) error {
		if fail {
			return errBoom
		}
		s.Log.Add("second")
		return nil
	})
	cb.AddEdge(graph.Start, "first").AddEdge("first", "second")
	g := mounted(t, compile(t, cb), ran, stored()...)
	_, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }))
	if !errors.Is(err, errBoom) || !strings.Contains(err.Error(), "sub/second") {
		t.Fatal(err)
	}
	fail = false
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
	equal(t, "ran", snap.State.ran(), "first second after")
	equal(t, "runs of first", ran.of("first"), 1)
	equal(t, "runs of before", ran.of("before"), 1)
}

func TestNestedSubgraphsAskThroughTheirPath(t *testing.T) {
	ran := &calls{}
	mid := graph.New[trail]("mid")
	graph.AddSubgraph(mid, "inner", childGraph(t, ran, true), mapping)
	mid.AddEdge(graph.Start, "inner")
	b := graph.New[trail]("outer")
	graph.AddSubgraph(b, "middle", compile(t, mid), graph.Mapping[trail, trail]{
		Out: func(c, p *trail) { p.Ran.Add(c.Ran.Slice()...) },
	})
	b.AddEdge(graph.Start, "middle")
	g := compile(t, b, stored()...)
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	equalSlice(t, "path", snap.Interrupts[0].Path, []string{"middle", "inner"})
	snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer("deep")))
	equal(t, "ran", snap.State.ran(), "first  second deep")
	equal(t, "runs of first", ran.of("first"), 1)
}

func TestParallelSubgraphsAskIndependently(t *testing.T) { // W5, W13
	ran := &calls{}
	c := childGraph(t, ran, true)
	b := graph.New[trail]("parent")
	for _, n := range []string{"x", "y"} {
		graph.AddSubgraph(b, n, c, graph.Mapping[trail, child]{
			In:  func(_ *trail, c *child) { c.In = n },
			Out: func(c *child, p *trail) { p.Ran.Add(c.Log.Slice()...) },
		})
		b.AddEdge(graph.Start, n)
	}
	g := compile(t, b, stored()...)
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	equal(t, "questions", len(snap.Interrupts), 2)
	_, err := g.Thread("t").Invoke(bg, g.Answer("both?"))
	wantErr[*graph.AnswerError](t, err)
	answers := graph.Answers{}
	for _, i := range snap.Interrupts {
		answers[i.ID] = "for " + i.Path[0]
	}
	snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(answers)))
	equal(t, "ran", snap.State.ran(), "first x second for x first y second for y")
}

func TestSubgraphThatKeepsItsState(t *testing.T) {
	ran := &calls{}
	c := childGraph(t, ran, false, graph.KeepState())
	g := mounted(t, c, ran, stored()...)
	for turn := 1; turn <= 3; turn++ {
		snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
		equal(t, "runs counted by the child", snap.State.N, turn)
	}
	// Time travel: the second turn again, from the first turn's end.
	var first string
	for e, err := range g.Thread("t").History(bg, graph.HistoryQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Step == 3 && e.Source == "loop" {
			first = e.Checkpoint
		}
	}
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").At(first).Invoke(bg, g.Input(func(*trail) error { return nil })))
	equal(t, "runs counted on the branch", snap.State.N, 2)
}

func TestW13KeptStateCalledTwiceAtOnceIsAnError(t *testing.T) {
	ran := &calls{}
	c := childGraph(t, ran, false, graph.KeepState())
	b := graph.New[trail]("parent")
	work := graph.AddTask(b, "work", func(ctx context.Context, s *trail, n int) error {
		_, err := graph.Call(ctx, "", c, nil)
		return err
	})
	b.AddCommandNode("split", func(context.Context, *trail) (graph.Command, error) {
		return graph.Dispatch(work.Send(1), work.Send(2)), nil
	})
	b.AddEdge(graph.Start, "split")
	_, err := compile(t, b, stored()...).Thread("t").Invoke(bg, graph.Requests[trail]{}.Input(func(*trail) error { return nil }), graph.Concurrency(1))
	if err == nil || !strings.Contains(err.Error(), "twice in one superstep") {
		t.Fatal(err)
	}
}

type Shared struct {
	Items graph.List[string]
	Count graph.Sum[int]
	Last  string
}

type parentState struct {
	Shared
	Topic string
}

func TestW13SharedStateIsAddedOnce(t *testing.T) {
	fail := false
	cb := graph.New[Shared]("child")
	cb.AddNode("one", func(_ context.Context, s *Shared) error {
		s.Items.Add(fmt.Sprint("one saw ", s.Items.Len()))
		s.Count.Add(1)
		return nil
	})
	cb.AddNode("two", func(ctx context.Context, s *Shared) error {
		if fail {
			if _, err := graph.Interrupt[bool](ctx, "go", nil); err != nil {
				return err
			}
		}
		s.Items.Add(fmt.Sprint("two saw ", s.Items.Len()))
		s.Last = "two"
		return nil
	})
	cb.AddEdge(graph.Start, "one").AddEdge("one", "two")
	c := compile(t, cb)
	for _, fail = range []bool{false, true} {
		b := graph.New[parentState]("parent")
		b.AddNode("a", func(_ context.Context, s *parentState) error { s.Items.Add("a"); return nil })
		graph.AddShared(b, "sub", c, func(p *parentState) *Shared { return &p.Shared })
		b.AddEdge(graph.Start, "a").AddEdge("a", "sub")
		g := compile(t, b, stored()...)
		snap := must[*graph.Snapshot[parentState]](t)(g.Thread("t").Invoke(bg, g.Input(func(s *parentState) error {
			s.Items.Add("in")
			s.Topic = "t"
			return nil
		})))
		if fail {
			snap = must[*graph.Snapshot[parentState]](t)(g.Thread("t").Invoke(bg, g.Answer(true)))
		}
		equal(t, "items", strings.Join(snap.State.Items.Slice(), ", "), "in, a, one saw 2, two saw 3")
		equal(t, "count", snap.State.Count.Get(), 1)
		equal(t, "last", snap.State.Last, "two")
		equal(t, "topic", snap.State.Topic, "t")
	}
}

func TestGotoParent(t *testing.T) {
	cb := graph.New[child]("child")
	cb.AddCommandNode("leave", func(_ context.Context, s *child) (graph.Command, error) {
		s.Log.Add("leaving")
		return graph.GotoParent("elsewhere"), nil
	})
	cb.AddNode("never", func(context.Context, *child) error { t.Error("ran"); return nil })
	cb.AddEdge(graph.Start, "leave").AddEdge("leave", "never")
	b := graph.New[trail]("parent")
	graph.AddSubgraph(b, "sub", compile(t, cb), mapping, graph.ParentDestinations("elsewhere"))
	visits(b, "next", "elsewhere")
	b.AddEdge(graph.Start, "sub").AddEdge("sub", "next")
	snap := must[*graph.Snapshot[trail]](t)(compile(t, b, stored()...).Thread("t").Invoke(bg, graph.Requests[trail]{}.Input(func(*trail) error { return nil })))
	equal(t, "ran", snap.State.ran(), "leaving elsewhere")

	bad := graph.New[trail]("parent")
	graph.AddSubgraph(bad, "sub", compile(t, cb), mapping, graph.ParentDestinations("nowhere"))
	bad.AddEdge(graph.Start, "sub")
	_, err := bad.Compile()
	wantErr[*graph.CompileError](t, err)
}

// Out of a graph that a node calls, nothing leads to the containing graph: the caller is
// told where the graph wants to go, and has what it came to.
func TestACalledGraphDoesNotLeadToItsParent(t *testing.T) {
	one := func(_ context.Context, s *trail, _ int) error { s.Ran.Add("one"); return nil }
	done := graph.AddTask(graph.New[trail]("other"), "one", one)
	for name, leaves := range map[string]graph.Command{
		"one": graph.DispatchParent(done.Send(1)), "elsewhere": graph.GotoParent("elsewhere"),
	} {
		for _, opts := range [][]graph.Option{nil, stored()} {
			cb := graph.New[trail]("child")
			cb.AddCommandNode("leave", func(_ context.Context, s *trail) (graph.Command, error) {
				s.Note = "leaving"
				return leaves, nil
			})
			cb.AddEdge(graph.Start, "leave")
			c := compile(t, cb)
			b := graph.New[trail]("parent")
			returned := errBoom
			b.AddCommandNode("call", func(ctx context.Context, s *trail) (graph.Command, error) {
				out, err := graph.Call(ctx, "key", c, nil)
				if out != nil {
					s.Note = out.Note
				}
				e := wantErr[*graph.ParentError](t, err)
				equal(t, name, fmt.Sprint(e.Graph, " ", e.Key, " ", e.To.Nodes()), "child key ["+name+"]")
				for _, part := range []string{`"child"`, `"` + name + `"`, "AddSubgraph", "AddShared"} {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("%s: the error does not say %s: %v", name, part, err)
					}
				}
				if returned = err; s.N == 1 {
					return e.To, nil
				}
				return graph.Command{}, err
			})
			graph.AddTask(visits(b, "elsewhere"), "one", one)
			b.AddEdge(graph.Start, "call")
			g := compile(t, b, opts...)
			_, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }))
			if !errors.Is(err, returned) {
				t.Errorf("%s: %v", name, err)
			}
			if opts != nil {
				g = compile(t, b, stored()...)
			}
			snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(s *trail) error {
				s.N = 1
				return nil
			})))
			equal(t, name+": ran", snap.State.Note+" "+snap.State.ran(), "leaving "+name)
		}
	}
	b := visits(graph.New[trail]("parent"), "next")
	b.AddNode("call", visit("call"), graph.ParentDestinations("next"))
	b.AddEdge(graph.Start, "call").AddEdge("call", "next")
	_, err := b.Compile()
	e := wantErr[*graph.CompileError](t, err)
	equal(t, "problem", e.Problems[0].Name, "call")
}

func TestSubgraphStateCanBeInspected(t *testing.T) {
	ran := &calls{}
	store := checkpoint.NewMemory()
	c := childGraph(t, ran, true)
	g := mounted(t, c, ran, graph.WithCheckpointer(store))
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	for ns, id := range snap.Tasks[0].Subgraphs {
		at := c.Thread("t", graph.WithCheckpointer(store), graph.Namespace(ns))
		inner := must[*graph.Snapshot[child]](t)(at.At(id).State(bg))
		equal(t, "child state", inner.State.In, "hi")
		equalSlice(t, "child next", inner.Next, []string{"second"})
		must[*graph.Snapshot[child]](t)(at.Edit(bg, func(s *child) error {
			s.Log.Add("edited")
			return nil
		}))
	}
	snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer("yes")))
	equal(t, "ran", snap.State.ran(), "first hi edited second yes after")
}

// What fails in a subgraph is told though a sibling asks there, is tried again when the
// run is continued, and the question waits: as it is outside of subgraphs.
func TestErrorAndQuestionTogetherInASubgraph(t *testing.T) {
	for _, mode := range []graph.Durability{graph.Sync, graph.Async, graph.Exit} {
		for depth := range 3 {
			asked, fail := make(chan bool, 1), true
			inner := visits(graph.New[trail]("inner"), "z")
			inner.AddNode("ask", func(ctx context.Context, s *trail) error {
				v, err := graph.Interrupt[string](ctx, "q", nil)
				if err != nil {
					asked <- true
				}
				s.Ran.Add("heard " + v)
				return err
			})
			inner.AddNode("fail", func(_ context.Context, s *trail) error {
				if fail {
					if asked != nil { // the first time
						<-asked
						asked = nil
					}
					return errBoom
				}
				s.Ran.Add("fine")
				return nil
			})
			b := inner.AddEdge(graph.Start, "ask").AddEdge(graph.Start, "fail").AddEdge("ask", "z")
			for range depth {
				outer := graph.New[trail]("outer")
				graph.AddSubgraph(outer, "own", compile(t, b), graph.Mapping[trail, trail]{Out: func(c, p *trail) { p.Ran.Add(c.Ran.Slice()...) }})
				b = outer.AddEdge(graph.Start, "own")
			}
			g := compile(t, b, append(stored(), graph.WithDurability(mode))...)
			snap, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }))
			for range 3 {
				if !errors.Is(err, errBoom) {
					t.Errorf("mode %v, depth %d: %v", mode, depth, err)
				}
				equal(t, "questions", len(snap.Interrupts), 1)
				snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").State(bg))
				equal(t, "questions read back", len(snap.Interrupts), 1)
				if depth > 0 && !strings.Contains(snap.Tasks[0].Error, "boom") {
					t.Errorf("the task's error is %q", snap.Tasks[0].Error)
				}
				snap, err = g.Thread("t").Invoke(bg, g.Continue())
			}
			fail = false
			snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
			equal(t, "questions", len(snap.Interrupts), 1)
			equal(t, "error", snap.Tasks[0].Error, "")
			snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer("yes")))
			equal(t, "ran", snap.State.ran(), "heard yes fine z")
		}
	}
}

// A shared subgraph that runs anew on a branch writes what it did there, and not what
// it has done on the branch before.
func TestASharedSubgraphRunsAnewOnABranch(t *testing.T) {
	cb := graph.New[Shared]("child")
	cb.AddNode("one", func(_ context.Context, s *Shared) error {
		s.Items.Add(fmt.Sprint("one saw ", s.Items.Len()))
		s.Count.Add(1)
		return nil
	})
	b := graph.New[parentState]("parent")
	graph.AddShared(b, "sub", compile(t, cb.AddEdge(graph.Start, "one")), func(p *parentState) *Shared { return &p.Shared })
	g := compile(t, b.AddEdge(graph.Start, "sub"), stored()...)
	must[*graph.Snapshot[parentState]](t)(g.Thread("t").Invoke(bg, g.Input(func(s *parentState) error {
		s.Items.Add("in")
		return nil
	})))
	begun := entriesOf(t, g.Thread("t"), graph.HistoryQuery{OldestFirst: true})[0].Checkpoint
	must[*graph.Snapshot[parentState]](t)(g.Thread("t").At(begun).Fork(bg))
	snap := must[*graph.Snapshot[parentState]](t)(g.Thread("t").Invoke(bg, g.Continue()))
	equal(t, "items", strings.Join(snap.State.Items.Slice(), ", "), "in, one saw 1")
	equal(t, "count", snap.State.Count.Get(), 1)
}

func TestAGraphIsATaskThatRunsOnEachPayloadSentToIt(t *testing.T) {
	ran := &calls{}
	refused := ""
	b := graph.New[trail]("parent")
	each := graph.AddSubgraphTask(b, "each", childGraph(t, ran, true), func(p *trail, c *child, in string) error {
		if in == refused {
			return errBoom
		}
		c.In = p.Note + in
		return nil
	}, func(c *child, p *trail, in string) error {
		p.Ran.Add(in + ": " + strings.Join(c.Log.Slice(), ", "))
		return nil
	})
	b.AddCommandNode("split", func(_ context.Context, s *trail) (graph.Command, error) {
		s.Note = "for "
		return graph.Dispatch(each.Send("x"), each.Send("y")), nil
	}).AddEdge(graph.Start, "split")
	g := compile(t, b, stored()...)
	inside, ok := g.Subgraph("each")
	equal(t, "drawn and found", ok && inside.Name() == "child", true)

	th := g.Thread("t")
	snap := must[*graph.Snapshot[trail]](t)(th.Invoke(bg, th.Input(func(*trail) error { return nil })))
	answers := graph.Answers{}
	for _, q := range snap.Interrupts {
		answers[q.ID] = "and " + q.Value.(string)
	}
	snap = must[*graph.Snapshot[trail]](t)(th.Invoke(bg, th.Answer(answers)))
	equal(t, "ran", snap.State.ran(), "x: first for x, second and for for x y: first for y, second and for for y")
	equal(t, "each began once", ran.of("first"), 2)

	refused = "y"
	failed := g.Thread("refused")
	_, err := failed.Invoke(bg, failed.Input(func(*trail) error { return nil }))
	if ne := wantErr[*graph.NodeError](t, err); ne.Node != "each" || string(ne.Payload) != `"y"` || !errors.Is(err, errBoom) {
		t.Error(err)
	}
}

func TestANodeContainsGraphsOfDifferentNames(t *testing.T) {
	c := childGraph(t, &calls{}, false)
	other := compile(t, graph.New[child]("other").AddNode("x", func(context.Context, *child) error { return nil }).AddEdge(graph.Start, "x"))
	_, err := one(func(context.Context, *trail) error { return nil }, graph.Contains(c), graph.Contains(c)).Compile()
	if e := wantErr[*graph.CompileError](t, err); len(e.Problems) != 1 || !strings.Contains(e.Error(), `it contains graph "child" already`) {
		t.Error(e)
	}
	_, err = graph.AddSubgraph(graph.New[trail]("g").AddEdge(graph.Start, "sub"), "sub", c, graph.Mapping[trail, child]{}, graph.Contains(other)).Compile()
	if e := wantErr[*graph.CompileError](t, err); len(e.Problems) != 1 || !strings.Contains(e.Error(), `it is graph "child", and contains "other"`) {
		t.Error(e)
	}
	b := graph.New[trail]("g").AddEdge(graph.Start, "sub")
	graph.AddSubgraphTask[string](b, "sub", c, nil, func(*child, *trail, string) error { return nil })
	_, err = b.Compile()
	if e := wantErr[*graph.CompileError](t, err); !strings.Contains(e.Error(), `node "sub" has a nil function`) {
		t.Error(e)
	}
}

// What it left is in the store by then, however the run is stored.
func TestASubgraphThatKeepsItsStateIsCalledAgainInARun(t *testing.T) {
	for _, asks := range []bool{false, true} {
		for _, d := range []graph.Durability{graph.Sync, graph.Async, graph.Exit} {
			c := graph.New[trail]("child")
			c.AddNode("a", func(ctx context.Context, s *trail) error {
				if !asks || s.N > 0 {
					return nil
				}
				s.N++
				_, err := graph.Interrupt[string](ctx, "q", nil)
				return err
			})
			b := graph.New[trail]("loop")
			graph.AddSubgraph(b, "own", compile(t, c.AddEdge(graph.Start, "a"), graph.KeepState()), graph.Mapping[trail, trail]{})
			b.AddNode("x", func(ctx context.Context, s *trail) error { s.N++; return nil })
			b.AddConditionalEdges("x", func(_ context.Context, s *trail) (graph.Command, error) {
				if s.N < 3 {
					return graph.Goto("own"), nil
				}
				return graph.Goto(graph.End), nil
			}, "own", graph.End)
			g := compile(t, b.AddEdge(graph.Start, "own").AddSequence("own", "x"), graph.WithCheckpointer(checkpoint.NewMemory()), graph.WithDurability(d))
			_, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }))
			if err == nil && asks {
				_, err = g.Thread("t").Invoke(bg, g.Answer("y"))
			}
			if err != nil {
				t.Errorf("asks %v, %v: %v", asks, d, err)
			}
		}
	}
}
