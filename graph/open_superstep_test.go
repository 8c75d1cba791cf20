package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// Routers that take longer than a moment have what their nodes wrote recorded on
// its own. It is tested with both.
var routerTimes = map[string]time.Duration{"a fast router": 0, "a slow router": 20 * time.Millisecond}

func TestWhatARouterWaitsWithIsMigratedOnce(t *testing.T) {
	for name, wait := range routerTimes {
		t.Run(name, func(t *testing.T) {
			fails := true
			store := checkpoint.NewMemory()
			build := func() *graph.Graph[trail] {
				b := graph.New[trail]("g")
				b.AddNode("a", func(_ context.Context, s *trail) error { s.N = 5; return nil }).AddNode("b", visit("b"))
				b.AddConditionalEdges("a", func(context.Context, *trail) (graph.Command, error) {
					time.Sleep(wait)
					if fails {
						return graph.Command{}, errors.New("boom")
					}
					return graph.Goto("b"), nil
				}, "b")
				b.AddEdge(graph.Start, "a")
				return compile(t, b, graph.WithCheckpointer(store), graph.SchemaVersion(1),
					graph.Migrate(1, func(fields map[string]json.RawMessage) error {
						if n, ok := fields["N"]; ok {
							fields["N"] = append(n, "00"...)
						}
						return nil
					}))
			}
			_, err := build().Thread("t").Invoke(bg, graph.Requests[trail]{}.Input(func(*trail) error { return nil }))
			wantErr[*graph.NodeError](t, err)
			fails = false
			equal(t, "N", must[*graph.Snapshot[trail]](t)(build().Thread("t").Invoke(bg, graph.Requests[trail]{}.Continue())).State.N, 5)
		})
	}
}

func TestASubgraphsMemoryOutlivesWhatHappensInARouter(t *testing.T) {
	type inner struct{ Calls graph.Sum[int] }
	for name, wait := range routerTimes {
		t.Run(name, func(t *testing.T) {
			c := graph.New[inner]("inner")
			c.AddNode("x", func(_ context.Context, s *inner) error { s.Calls.Add(1); return nil }).AddEdge(graph.Start, "x")
			b := graph.New[trail]("g")
			graph.AddSubgraph(b, "sub", compile(t, c, graph.KeepState()), graph.Mapping[trail, inner]{
				Out: func(c *inner, s *trail) { s.Ran.Add(fmt.Sprint("call ", c.Calls.Get())) },
			})
			var g *graph.Graph[trail]
			routed := 0
			b.AddNode("z", visit("z")).AddConditionalEdges("sub", func(context.Context, *trail) (graph.Command, error) {
				time.Sleep(wait)
				if routed++; routed > 1 {
					return graph.Goto("z"), nil
				}
				if wait > 0 { // what a process that is killed here leaves
					if err := g.Thread("t").Copy(bg, "killed"); err != nil {
						t.Error(err)
					}
				}
				return graph.Command{}, errors.New("boom")
			}, "z")
			b.AddEdge(graph.Start, "sub")
			g = compile(t, b, graph.WithCheckpointer(checkpoint.NewMemory()))
			_, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }))
			wantErr[*graph.NodeError](t, err)
			threads := []string{"t"}
			if wait > 0 {
				threads = append(threads, "killed")
			}
			for _, thread := range threads {
				must[*graph.Snapshot[trail]](t)(g.Thread(thread).Invoke(bg, g.Continue()))
				snap := must[*graph.Snapshot[trail]](t)(g.Thread(thread).Invoke(bg, g.Input(func(*trail) error { return nil })))
				equal(t, thread, snap.State.ran(), "call 1 z call 2 z")
			}
		})
	}
}

func TestANodeWhoseCommandCannotBeFollowedRunsAgain(t *testing.T) {
	for name, bad := range map[string]graph.Command{
		"to an unknown node":    graph.Goto("nowhere"),
		"with a damaged send":   graph.Dispatch(graph.SendJSON("b", []byte("{bad"))),
		"to a graph outside it": graph.GotoParent("b"),
	} {
		t.Run(name, func(t *testing.T) {
			runs := 0
			b := graph.New[trail]("g")
			b.AddCommandNode("a", func(_ context.Context, s *trail) (graph.Command, error) {
				s.Ran.Add("a")
				if runs++; runs == 1 {
					return bad, nil
				}
				return graph.Goto("b"), nil
			}, graph.Destinations("b"))
			b.AddNode("b", visit("b")).AddNode("static", visit("static")).AddEdge(graph.Start, "a").AddEdge("a", "static")
			g := compile(t, b, stored()...)
			_, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }))
			wantErr[*graph.NodeError](t, err)
			snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
			equal(t, "ran", snap.State.ran(), "a b")
			equal(t, "runs", runs, 2)
		})
	}
}

// pendingBeside is a graph whose node a has written N = 1 and "a" while b asks.
func pendingBeside(t *testing.T, opts ...graph.Option) *graph.Graph[trail] {
	b := graph.New[trail]("g")
	b.AddNode("a", func(_ context.Context, s *trail) error { s.N = 1; s.Ran.Add("a"); return nil })
	b.AddNode("b", func(ctx context.Context, _ *trail) error { _, err := graph.Interrupt[int](ctx, "q", nil); return err })
	b.AddNode("one", visit("one")).AddNode("other", visit("other"))
	b.AddRoutes("b", func(_ context.Context, s *trail) (string, error) {
		if s.N == 1 {
			return "one", nil
		}
		return "other", nil
	}, map[string]string{"one": "one", "other": "other"})
	b.AddEdge(graph.Start, "a").AddEdge(graph.Start, "b")
	g := compile(t, b, append(stored(), opts...)...)
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	equal(t, "what is seen", fmt.Sprint(snap.State.N, snap.State.Ran), "1 [a]")
	return g
}

func TestAnEditWithAnAnswerIsMadeOnWhatIsSeen(t *testing.T) {
	g := pendingBeside(t)
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(1, func(s *trail) error {
		equal(t, "the edit sees", fmt.Sprint(s.N, s.Ran), "1 [a]")
		s.N = 5
		s.Ran.Overwrite("edited")
		return nil
	})))
	equal(t, "N", snap.State.N, 5)
	equal(t, "ran", snap.State.ran(), "edited other")
	equal(t, "stored", must[*graph.Snapshot[trail]](t)(g.Thread("t").State(bg)).State.ran(), "edited other")
}

func TestTheRouterOfAnEditSeesWhatTheEditSaw(t *testing.T) {
	g := pendingBeside(t)
	must[*graph.Snapshot[trail]](t)(g.Thread("t").EditAs(bg, "b", func(s *trail) error {
		s.N = 1
		return nil
	}))
	equal(t, "ran", must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue())).State.ran(), "a one")
}

func TestEditsStandForTheSourcesOfAJoin(t *testing.T) {
	build := func() *graph.Graph[trail] {
		b := visits(graph.New[trail]("g"), "s", "b", "c", "e")
		b.AddEdge(graph.Start, "s").AddEdge("s", "b").AddEdge("s", "c").AddJoin([]string{"b", "c"}, "e")
		return compile(t, b, stored()...)
	}
	as := func(n string) graph.Edit[trail] {
		return graph.Edit[trail]{Apply: func(s *trail) error {
			s.Ran.Add("edit-" + n)
			return nil
		}, AsNode: n}
	}
	bulk := build()
	snap := must[*graph.Snapshot[trail]](t)(bulk.Thread("t").BulkEdit(bg, []graph.Edit[trail]{as("b"), as("c")}))
	equal(t, "next", strings.Join(snap.Next, " "), "e")
	one := build()
	for _, n := range []string{"b", "c"} {
		snap = must[*graph.Snapshot[trail]](t)(one.Thread("t").BulkEdit(bg, []graph.Edit[trail]{as(n)}))
	}
	equal(t, "next", strings.Join(snap.Next, " "), "e")
	for _, g := range []*graph.Graph[trail]{bulk, one} {
		equal(t, "ran", must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue())).State.ran(), "edit-b edit-c e")
	}
}

// pendingRouter is a graph whose node a has written N = 1 and "a", but not come to
// where it leads: its router fails until that is mended.
func pendingRouter(t *testing.T, store checkpoint.Store) (g *graph.Graph[trail], mend func()) {
	fails := true
	b := graph.New[trail]("g")
	b.AddNode("a", func(_ context.Context, s *trail) error { s.N = 1; s.Ran.Add("a"); return nil })
	b.AddNode("b", visit("b")).AddNode("c", visit("c"))
	b.AddConditionalEdges("a", func(_ context.Context, s *trail) (graph.Command, error) {
		if fails {
			return graph.Command{}, errors.New("boom")
		}
		if s.N == 7 && s.Ran.Len() == 2 {
			return graph.Goto("b"), nil
		}
		return graph.Goto("c"), nil
	}, "b", "c")
	b.AddEdge(graph.Start, "a")
	g = compile(t, b, graph.WithCheckpointer(store))
	_, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }))
	wantErr[*graph.NodeError](t, err)
	return g, func() { fails = false }
}

func TestAnEditWhileARouterIsPendingIsNotOverridden(t *testing.T) {
	edit := func(s *trail) error {
		s.N = 7
		s.Ran.Add("edit")
		return nil
	}
	for name, how := range map[string]func(t *testing.T, g *graph.Graph[trail], mend func()) (*graph.Snapshot[trail], error){
		"an edit": func(t *testing.T, g *graph.Graph[trail], mend func()) (*graph.Snapshot[trail], error) {
			snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Edit(bg, edit))
			equal(t, "next", strings.Join(snap.Next, " "), "a")
			for _, e := range entriesOf(t, g.Thread("t"))[:1] {
				equal(t, "next in the history", strings.Join(e.Next, " "), "a")
			}
			mend()
			return g.Thread("t").Invoke(bg, g.Continue())
		},
		"an edit, and once more a failure": func(t *testing.T, g *graph.Graph[trail], mend func()) (*graph.Snapshot[trail], error) {
			must[*graph.Snapshot[trail]](t)(g.Thread("t").Edit(bg, edit))
			_, err := g.Thread("t").Invoke(bg, g.Continue())
			wantErr[*graph.NodeError](t, err)
			mend()
			return g.Thread("t").Invoke(bg, g.Continue())
		},
		"an input": func(t *testing.T, g *graph.Graph[trail], mend func()) (*graph.Snapshot[trail], error) {
			mend()
			return g.Thread("t").Invoke(bg, g.Input(edit))
		},
		"an edit, from a fork": func(t *testing.T, g *graph.Graph[trail], mend func()) (*graph.Snapshot[trail], error) {
			edited := must[*graph.Snapshot[trail]](t)(g.Thread("t").Edit(bg, edit))
			mend()
			must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
			return g.Thread("t").At(edited.Checkpoint).Invoke(bg, g.Continue())
		},
		"an edit, and the superstep again": func(t *testing.T, g *graph.Graph[trail], mend func()) (*graph.Snapshot[trail], error) {
			edited := must[*graph.Snapshot[trail]](t)(g.Thread("t").Edit(bg, edit))
			mend()
			must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
			return g.Thread("t").At(edited.Checkpoint).Invoke(bg, g.RestartStep())
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := checkpoint.NewMemory()
			g, mend := pendingRouter(t, store)
			snap, err := how(t, g, mend)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "the state", fmt.Sprint(snap.State.N, snap.State.Ran), "7 [a edit b]")
			equal(t, "stored", fmt.Sprint(must[*graph.Snapshot[trail]](t)(g.Thread("t").State(bg)).State.Ran), "[a edit b]")
			same(t, g, taped(t, store, "t"))
		})
	}
}

type passing struct {
	Ran  graph.List[string]
	Once graph.Ephemeral[string]
	Note string
}

// passingBeside is a graph whose node a has set Once for what follows while b asks,
// and whose node after notes what it sees.
func passingBeside(t *testing.T, store checkpoint.Store) *graph.Graph[passing] {
	b := graph.New[passing]("g")
	b.AddNode("a", func(_ context.Context, s *passing) error { s.Once.Set("from a"); s.Ran.Add("a"); return nil })
	b.AddNode("b", func(ctx context.Context, s *passing) error {
		if _, err := graph.Interrupt[int](ctx, "q", nil); err != nil {
			return err
		}
		s.Ran.Add("b sees [" + s.Once.Get() + "]")
		return nil
	})
	for _, name := range []string{"after", "last"} {
		b.AddNode(name, func(_ context.Context, s *passing) error {
			s.Ran.Add(name + " sees [" + s.Once.Get() + "]")
			return nil
		})
	}
	b.AddEdge(graph.Start, "a").AddEdge(graph.Start, "b").AddEdge("a", "after").AddEdge("after", "last")
	g := compile(t, b, graph.WithCheckpointer(store))
	snap := must[*graph.Snapshot[passing]](t)(g.Thread("t").Invoke(bg, g.Input(func(*passing) error { return nil })))
	equal(t, "what is seen", snap.State.Once.Get(), "from a")
	return g
}

func TestAnEditLeavesAnEphemeralToWhatFollows(t *testing.T) {
	note := func(s *passing) error {
		s.Note = "edited"
		return nil
	}
	for name, tt := range map[string]struct {
		do   func(t *testing.T, g *graph.Graph[passing]) (*graph.Snapshot[passing], error)
		want string
	}{
		"an edit": {func(t *testing.T, g *graph.Graph[passing]) (*graph.Snapshot[passing], error) {
			snap := must[*graph.Snapshot[passing]](t)(g.Thread("t").Edit(bg, note))
			equal(t, "what is seen", snap.State.Once.Get(), "from a")
			return g.Thread("t").Invoke(bg, g.Answer(1))
		}, "a b sees [] after sees [from a] last sees []"},
		"two edits, forked": {func(t *testing.T, g *graph.Graph[passing]) (*graph.Snapshot[passing], error) {
			must[*graph.Snapshot[passing]](t)(g.Thread("t").Edit(bg, note))
			snap := must[*graph.Snapshot[passing]](t)(g.Thread("t").Edit(bg, note))
			must[*graph.Snapshot[passing]](t)(g.Thread("t").Invoke(bg, g.Answer(1)))
			return g.Thread("t").At(snap.Checkpoint).Invoke(bg, g.Answer(1))
		}, "a b sees [] after sees [from a] last sees []"},
		"an answer with an edit": {func(t *testing.T, g *graph.Graph[passing]) (*graph.Snapshot[passing], error) {
			return g.Thread("t").Invoke(bg, g.Answer(1, note))
		}, "a b sees [] after sees [from a] last sees []"},
		"an edit of it, for what waits": {func(t *testing.T, g *graph.Graph[passing]) (*graph.Snapshot[passing], error) {
			must[*graph.Snapshot[passing]](t)(g.Thread("t").Edit(bg, note))
			snap := must[*graph.Snapshot[passing]](t)(g.Thread("t").Edit(bg, func(s *passing) error {
				s.Once.Set("edited")
				return nil
			}))
			equal(t, "what is seen", snap.State.Once.Get(), "edited")
			return g.Thread("t").Invoke(bg, g.Answer(1))
		}, "a b sees [edited] after sees [] last sees []"},
		"an input that gives the superstep up": {func(t *testing.T, g *graph.Graph[passing]) (*graph.Snapshot[passing], error) {
			must[*graph.Snapshot[passing]](t)(g.Thread("t").Edit(bg, note))
			must[*graph.Snapshot[passing]](t)(g.Thread("t").Invoke(bg, g.Restart(func(s *passing) error {
				s.Ran.Add("input sees [" + s.Once.Get() + "]")
				return nil
			})))
			return g.Thread("t").Invoke(bg, g.Answer(1))
		}, "a input sees [from a] a b sees [from a] after sees [from a] last sees []"},
		"an edit as the node that waits": {func(t *testing.T, g *graph.Graph[passing]) (*graph.Snapshot[passing], error) {
			must[*graph.Snapshot[passing]](t)(g.Thread("t").EditAs(bg, "b", func(s *passing) error {
				s.Once.Set("as b")
				return nil
			}))
			return g.Thread("t").Invoke(bg, g.Continue())
		}, "a after sees [as b] last sees []"},
		"an edit as a node that has run": {func(t *testing.T, g *graph.Graph[passing]) (*graph.Snapshot[passing], error) {
			snap := must[*graph.Snapshot[passing]](t)(g.Thread("t").EditAs(bg, "a", func(s *passing) error {
				s.Once.Set("as a")
				return nil
			}))
			equal(t, "what is seen", snap.State.Once.Get(), "as a")
			return g.Thread("t").Invoke(bg, g.Answer(1))
		}, "a b sees [] after sees [as a] last sees []"},
	} {
		t.Run(name, func(t *testing.T) {
			store := checkpoint.NewMemory()
			g := passingBeside(t, store)
			snap, err := tt.do(t, g)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "ran", strings.Join(snap.State.Ran.Slice(), " "), tt.want)
			stored := must[*graph.Snapshot[passing]](t)(g.Thread("t").State(bg))
			equal(t, "stored", strings.Join(stored.State.Ran.Slice(), " "), tt.want)
			same(t, g, taped(t, store, "t"))
		})
	}
}
