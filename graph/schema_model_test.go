package graph_test

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// twin is a struct with the fields of a schema.
type twin struct {
	Items  graph.List[string]                             `json:"items"`
	Count  graph.Sum[int]                                 `json:"count"`
	Last   graph.Reduced[string, graph.Latest[string]]    `json:"last"`
	Best   graph.Reduced[int, biggest]                    `json:"best"`
	Scores graph.MergeMap[string, int, graph.Latest[int]] `json:"scores"`
	Plain  int                                            `json:"plain"`
}

type biggest struct{}

func (biggest) Reduce(a, b int) int { return max(a, b) }

func twinSchema() *graph.Schema {
	return graph.NewSchema().Strict().
		AddField("items", graph.Field{Type: reflect.TypeFor[[]string](), Reducer: graph.AppendReducer}).
		AddField("count", graph.FieldOf(0, graph.SumReducer)).
		AddField("last", graph.FieldOf("", graph.OverrideReducer)).
		AddField("best", graph.FieldOf(0, graph.ReducerOf(func(a, b int) int { return max(a, b) }))).
		AddField("scores", graph.Field{Type: reflect.TypeFor[map[string]int](), Reducer: graph.MergeReducer}).
		AddField("plain", graph.FieldOf(0, nil))
}

// action is what a node does, in both forms.
type action struct {
	items  []string
	fresh  bool // overwrite the items
	count  int
	last   string
	best   int
	key    string
	score  int
	writes [5]bool
	plain  int // is added to the plain field: two in a superstep may be a conflict
}

func drawAction(t *rapid.T, name string) action {
	text := rapid.StringMatching(`[a-z$]{0,3}`)
	a := action{
		items: rapid.SliceOfN(text, 0, 3).Draw(t, "items"), fresh: rapid.IntRange(0, 9).Draw(t, "fresh") == 0,
		count: rapid.IntRange(-3, 3).Draw(t, "count"), last: text.Draw(t, "last"), best: rapid.IntRange(1, 9).Draw(t, "best"),
		key: text.Draw(t, "key"), score: rapid.IntRange(0, 3).Draw(t, "score"),
	}
	for i := range a.writes {
		a.writes[i] = rapid.Bool().Draw(t, "writes")
	}
	return a
}

// update is the action as an update; what it reads makes results depend on what
// nodes see.
func (a *action) update(s graph.MapState) graph.MapState {
	u := graph.MapState{}
	if a.writes[0] {
		items := append([]string{fmt.Sprint(s["count"], len(s["items"].([]string)))}, a.items...)
		u["items"] = items
		if a.fresh {
			u["items"] = graph.Overwrite(items)
		}
	}
	if a.writes[1] {
		u["count"] = a.count
	}
	if a.writes[2] {
		u["last"] = a.last
	}
	if a.writes[3] {
		u["best"] = a.best
	}
	if a.writes[4] {
		u["scores"] = map[string]int{a.key: a.score}
	}
	if a.plain > 0 {
		u["plain"] = s["plain"].(int) + a.plain
	}
	return u
}

func (a *action) apply(s *twin) {
	if a.writes[0] {
		items := append([]string{fmt.Sprint(s.Count.Get(), s.Items.Len())}, a.items...)
		if a.fresh {
			s.Items.Overwrite(items...)
		} else {
			s.Items.Add(items...)
		}
	}
	if a.writes[1] {
		s.Count.Add(a.count)
	}
	if a.writes[2] {
		s.Last.Add(a.last)
	}
	if a.writes[3] {
		s.Best.Add(a.best)
	}
	if a.writes[4] {
		s.Scores.Add(a.key, a.score)
	}
	s.Plain += a.plain
}

func (s *twin) asMap() graph.MapState {
	m := graph.MapState{"items": s.Items.Slice(), "count": s.Count.Get(), "last": s.Last.Get(), "best": s.Best.Get(), "scores": map[string]int{}, "plain": s.Plain}
	for k, v := range s.Scores.All() {
		m["scores"].(map[string]int)[k] = v
	}
	return full(m)
}

// full makes what is absent empty.
func full(m graph.MapState) graph.MapState {
	if l, _ := m["items"].([]string); l == nil {
		m["items"] = []string{}
	}
	if s, _ := m["scores"].(map[string]int); s == nil {
		m["scores"] = map[string]int{}
	}
	return m
}

func TestSchemaAndTypedGraphsAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		layers := rapid.IntRange(1, 4).Draw(t, "layers")
		width := rapid.IntRange(1, 4).Draw(t, "width")
		typed, mapped := graph.New[twin]("g"), graph.NewSchemaGraph("g", twinSchema())
		name := func(l, i int) string { return fmt.Sprintf("n%d%d", l, i) }
		loops := rapid.IntRange(0, 2).Draw(t, "loops")
		for l := range layers {
			overwritten := false
			for i := range width {
				a := drawAction(t, name(l, i))
				if a.fresh && overwritten { // two in a superstep are an error in both
					a.fresh = false
				}
				overwritten = overwritten || a.fresh && a.writes[0]
				typed.AddNode(name(l, i), func(_ context.Context, s *twin) error { a.apply(s); return nil })
				graph.AddMapNode(mapped, name(l, i), func(_ context.Context, s graph.MapState) (any, error) { return a.update(full(s)), nil })
				for j := range width {
					if l == 0 {
						typed.AddEdge(graph.Start, name(l, i))
						mapped.AddEdge(graph.Start, name(l, i))
					} else if j == i || rapid.Bool().Draw(t, "edge") {
						typed.AddEdge(name(l-1, j), name(l, i))
						mapped.AddEdge(name(l-1, j), name(l, i))
					}
				}
			}
		}
		// Go round while the count is odd, a few times.
		again := func(count, items int) string {
			if count%2 != 0 && items < 20*(loops+1) {
				return name(0, 0)
			}
			return graph.End
		}
		typed.AddRoutes(name(layers-1, 0), func(_ context.Context, s *twin) (string, error) {
			return again(s.Count.Get(), s.Items.Len()+100*(2-loops)), nil
		}, nil)
		mapped.AddRoutes(name(layers-1, 0), func(_ context.Context, s *graph.SchemaState) (string, error) {
			return again(s.Get("count").(int), len(full(s.Map())["items"].([]string))+100*(2-loops)), nil
		}, nil)
		for _, persist := range []bool{false, true} {
			options := func() []graph.Option {
				o := []graph.Option{graph.MaxSteps(40), graph.CycleGuard(0)}
				if persist {
					o = append(o, graph.WithCheckpointer(checkpoint.NewMemory()))
				}
				return o
			}
			tg, err := typed.Compile(options()...)
			if err != nil {
				t.Fatal(err)
			}
			mg, err := mapped.Compile(options()...)
			if err != nil {
				t.Fatal(err)
			}
			one, terr := tg.Thread("t").Invoke(bg, tg.Input(func(*twin) error { return nil }))
			two, merr := mg.Thread("t").Invoke(bg, mg.Input(graph.MapState{}.Into))
			if fmt.Sprint(terr) != fmt.Sprint(merr) {
				t.Fatalf("typed: %v\nschema: %v", terr, merr)
			}
			agree := func(what string, a *graph.Snapshot[twin], b *graph.Snapshot[graph.SchemaState]) {
				if x, y := a.State.asMap(), full(b.State.Map()); !reflect.DeepEqual(x, y) {
					t.Fatalf("%s: typed state is\n%v, that of the schema graph\n%v", what, x, y)
				}
				if !reflect.DeepEqual(a.Recent, b.Recent) || a.Step != b.Step {
					t.Fatalf("%s: typed graph ran %v (%d), schema graph %v (%d)", what, a.Recent, a.Step, b.Recent, b.Step)
				}
			}
			agree("live", one, two)
			if !persist {
				continue
			}
			if one, err = tg.Thread("t").State(bg); err != nil {
				t.Fatal(err)
			}
			if two, err = mg.Thread("t").State(bg); err != nil {
				t.Fatal(err)
			}
			agree("read back", one, two)
		}
	})
}
