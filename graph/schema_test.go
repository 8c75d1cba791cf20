package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/draw"
	"github.com/superstep-dev/superstep/graph"
)

// guide is the schema of the guide's examples.
func guide() *graph.Schema {
	return graph.NewSchema().
		AddField("counter", graph.FieldOf(0, graph.SumReducer)).
		AddField("items", graph.Field{Type: reflect.TypeFor[[]string](), Reducer: graph.StringSliceReducer}).
		AddField("note", graph.Field{Type: reflect.TypeFor[string]()})
}

func compileSchema(t testing.TB, b *graph.Builder[graph.SchemaState], opts ...graph.Option) *graph.Graph[graph.SchemaState] {
	t.Helper()
	g, err := b.Compile(append([]graph.Option{graph.OnWarning(func(graph.Warning) {})}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func runSchema(t testing.TB, g *graph.Graph[graph.SchemaState], in graph.MapState, opts ...graph.RunOption) *graph.Snapshot[graph.SchemaState] {
	t.Helper()
	snap, err := g.Thread("t").Invoke(bg, g.Input(in.Into), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

// returns makes a node that always returns the same.
func returns(out any) func(ctx context.Context, state graph.MapState) (any, error) {
	return func(context.Context, graph.MapState) (any, error) { return out, nil }
}

func wantState(t testing.TB, s graph.SchemaState, want graph.MapState) {
	t.Helper()
	if got := s.Map(); !reflect.DeepEqual(got, want) {
		t.Errorf("state is %#v, want %#v", got, want)
	}
}

func TestSchemaFields(t *testing.T) { // TRPC-13
	b := graph.NewSchemaGraph("g", guide().AddField("limit", graph.Field{Type: reflect.TypeFor[int](), Default: func() any { return 3 }}))
	graph.AddMapNode(b, "a", func(_ context.Context, s graph.MapState) (any, error) {
		equal(t, "default", s["limit"], any(3))
		_, has := s["items"]
		equal(t, "a field without default is absent", has, false)
		return graph.MapState{"counter": 2, "items": []string{"x"}, "note": "first"}, nil
	})
	graph.AddMapNode(b, "b", returns(graph.MapState{"counter": 3, "items": []string{"y", "z"}, "note": "second"}))
	b.AddSequence(graph.Start, "a", "b")
	snap := runSchema(t, compileSchema(t, b), graph.MapState{"counter": 10})
	wantState(t, snap.State, graph.MapState{"counter": 15, "items": []string{"x", "y", "z"}, "note": "second", "limit": 3})
}

func TestSchemaEntryAndFinish(t *testing.T) { // TRPC-03
	nodes := func() *graph.Builder[graph.SchemaState] {
		return graph.AddMapNode(graph.AddMapNode(graph.NewSchemaGraph("g", guide()), "first", returns(nil)), "last", returns(nil)).AddEdge("first", "last")
	}
	a := compileSchema(t, nodes().SetEntryPoint("first").SetFinishPoint("last"))
	b := compileSchema(t, nodes().AddEdge(graph.Start, "first").AddEdge("last", graph.End))
	equal(t, "drawing", draw.Mermaid(a.Drawing(0), nil), draw.Mermaid(b.Drawing(0), nil))
	equal(t, "Start", graph.Start, "__start__")
	equal(t, "End", graph.End, "__end__")
	several := graph.AddMapNode(graph.AddMapNode(graph.NewSchemaGraph("g", guide()), "a", returns(nil)), "b", returns(nil))
	several.AddEdge(graph.Start, "a").AddEdge(graph.Start, "b").SetFinishPoint("a").SetFinishPoint("b")
	runSchema(t, compileSchema(t, several), nil)
}

func TestSchemaMistakesAreReportedTogether(t *testing.T) { // TRPC-04, TRPC-15
	schema := graph.NewSchema().
		AddField("n", graph.Field{Type: reflect.TypeFor[int](), Default: "zero"}).
		AddField("n", graph.FieldOf(0, nil)).
		AddField("$x", graph.FieldOf(0, nil)).
		AddField("untyped", graph.Field{}).
		AddField("sum", graph.FieldOf("", graph.SumReducer)).
		AddField("list", graph.FieldOf([]int(nil), graph.StringSliceReducer)).
		AddField("ch", graph.Field{Type: reflect.TypeFor[chan int]()}).
		AddField("of", graph.FieldOf("", graph.ReducerOf(func(a, b int) int { return a + b })))
	b := graph.NewSchemaGraph("g", schema)
	graph.AddMapNode(graph.AddMapNode(graph.AddMapNode(b, "a", returns(nil), graph.Reads("sun")), "a", returns(nil)), "nil", nil).AddEdge("a", "nowhere")
	_, err := b.Compile()
	e := wantErr[*graph.CompileError](t, err)
	for _, want := range []string{
		`field "n": its default is a value of type string, not int`, `"n" is declared twice`, "begin with $", `"untyped" has no type`, "needs a number",
		"its reducer is for []string", "chan int cannot be encoded", "its reducer is for values of type int",
		`node "a" is added twice`, `node "nil" has a nil function`, `leads to "nowhere"`, "no entry",
	} {
		if !strings.Contains(e.Error(), want) {
			t.Errorf("the error does not say %q:\n%v", want, e)
		}
	}
	_, err = graph.AddMapNode(graph.NewSchemaGraph("g", guide()), "a", returns(nil), graph.Reads("notes")).SetEntryPoint("a").Compile()
	if err == nil || !strings.Contains(err.Error(), `did you mean "note"?`) {
		t.Error(err)
	}
	if _, err := graph.AddMapNode(graph.NewSchemaGraph("g", nil), "a", returns(nil)).SetEntryPoint("a").Compile(); err == nil {
		t.Error("a graph without a schema compiles")
	}
}

func TestSchemaReducers(t *testing.T) { // TRPC-14, W7-07 to W7-10
	type entry map[string]int
	schema := graph.NewSchema().
		AddField("messages", graph.Field{Type: reflect.TypeFor[[]string](), Reducer: graph.AppendReducer}).
		AddField("metadata", graph.Field{Type: reflect.TypeFor[entry](), Reducer: graph.MergeReducer}).
		AddField("steps", graph.FieldOf(uint8(250), graph.SumReducer)).
		AddField("status", graph.FieldOf("", graph.OverrideReducer)).
		AddField("best", graph.FieldOf(0, graph.ReducerOf(func(a, b int) int { return max(a, b) }))).
		AddField("last", graph.FieldOf("", nil)).
		AddField("any", graph.Field{Type: reflect.TypeFor[string](), Reducer: graph.ReducerOf(func(existing string, update any) string {
			return fmt.Sprint(existing, update)
		})})
	given := graph.MapState{"messages": []string{"a"}, "metadata": entry{"x": 1}, "steps": uint8(3), "status": "one", "best": 7, "last": "p", "any": 1}
	for _, opts := range [][]graph.Option{nil, stored()} {
		b := graph.NewSchemaGraph("g", schema)
		graph.AddMapNode(b, "one", returns(given))
		graph.AddMapNode(b, "two", returns(graph.MapState{"messages": "b", "metadata": entry{"x": 2, "y": 3}, "steps": uint8(4), "status": "two", "best": 3, "last": "q", "any": "-"}))
		graph.AddMapNode(b, "three", returns(graph.MapState{"messages": []string(nil), "metadata": entry(nil), "any": nil}))
		b.AddSequence(graph.Start, "one", "two", "three")
		g := compileSchema(t, b, opts...)
		snap := runSchema(t, g, nil)
		want := graph.MapState{
			"messages": []string{"a", "b"}, "metadata": entry{"x": 2, "y": 3}, "steps": uint8(1), "status": "two", "best": 7, "last": "q", "any": "1-<nil>",
		}
		wantState(t, snap.State, want)
		if opts != nil {
			wantState(t, must[*graph.Snapshot[graph.SchemaState]](t)(g.Thread("t").State(bg)).State, want)
		}
	}
	if !reflect.DeepEqual(given["metadata"], entry{"x": 1}) || !reflect.DeepEqual(given["messages"], []string{"a"}) {
		t.Error("a reducer altered its input")
	}
}

func TestSchemaOverwrite(t *testing.T) { // C-06
	b := graph.NewSchemaGraph("g", guide())
	graph.AddMapNode(b, "a", returns(graph.MapState{"items": graph.Overwrite([]string{"new"}), "counter": graph.Overwrite(1)}))
	graph.AddMapNode(b, "b", returns(graph.MapState{"items": "more", "counter": 1}))
	b.AddSequence(graph.Start, "a", "b")
	g := compileSchema(t, b, stored()...)
	in := graph.MapState{"items": []string{"old"}, "counter": 40}
	want := graph.MapState{"items": []string{"new", "more"}, "counter": 2}
	wantState(t, runSchema(t, g, in).State, want)
	wantState(t, must[*graph.Snapshot[graph.SchemaState]](t)(g.Thread("t").State(bg)).State, want)
}

func TestSchemaParallelWorkersAddUp(t *testing.T) { // TRPC-14
	const workers = 100
	build := func() *graph.Builder[graph.SchemaState] {
		b := graph.NewSchemaGraph("g", guide())
		var want []string
		for i := range workers {
			name := fmt.Sprintf("w%03d", i)
			want = append(want, name)
			graph.AddMapNode(b, name, func(_ context.Context, s graph.MapState) (any, error) {
				time.Sleep(time.Duration(rand.N(200)) * time.Microsecond)
				s["counter"] = 1000
				return graph.MapState{"counter": 1, "items": name}, nil
			})
			b.AddEdge(graph.Start, name)
		}
		graph.AddMapNode(b, "check", func(_ context.Context, s graph.MapState) (any, error) {
			equal(t, "counter", s["counter"], any(workers))
			equalSlice(t, "items", s["items"].([]string), want)
			return nil, nil
		})
		for _, name := range want {
			b.AddEdge(name, "check")
		}
		return b
	}
	for _, opts := range [][]graph.Option{nil, stored()} {
		snap := runSchema(t, compileSchema(t, build(), opts...), nil)
		equal(t, "counter", snap.State.Get("counter"), any(workers))
	}
}

func TestSchemaValuesAreChecked(t *testing.T) { // TRPC-15
	b := graph.NewSchemaGraph("g", guide())
	graph.AddMapNode(b, "bad", returns(graph.MapState{"counter": "three"}))
	b.SetEntryPoint("bad")
	g := compileSchema(t, b)
	_, err := g.Thread("t").Invoke(bg, g.Continue())
	e := wantErr[*graph.FieldError](t, err)
	equal(t, "error", *e, graph.FieldError{Node: "bad", Field: "counter", Want: "int", Got: "string"})
	if !strings.Contains(err.Error(), `node "bad"`) || !strings.Contains(err.Error(), `field "counter" takes a value of type int, not string`) {
		t.Error(err)
	}
	_, err = g.Thread("t").Invoke(bg, g.Input(graph.MapState{"items": 5}.Into))
	e = wantErr[*graph.FieldError](t, err)
	equal(t, "error of an input", *e, graph.FieldError{Field: "items", Want: "[]string", Got: "int"})
	_, err = g.Thread("t").Invoke(bg, g.Input(graph.MapState{"counter": nil}.Into))
	equal(t, "got", wantErr[*graph.FieldError](t, err).Got, "nil")

	// A reducer's panics are its node's error.
	reduce := graph.ReducerOf(func(int, any) int { panic(errBoom) })
	schema := graph.NewSchema().AddField("n", graph.Field{Type: reflect.TypeFor[int](), Reducer: reduce})
	b = graph.AddMapNode(graph.NewSchemaGraph("g", schema), "a", returns(graph.MapState{"n": 1})).SetEntryPoint("a")
	_, err = compileSchema(t, b, stored()...).Thread("t").Invoke(bg, graph.Requests[graph.SchemaState]{}.Input(func(*graph.SchemaState) error { return nil }))
	conflict := wantErr[*graph.ConflictError](t, err)
	equal(t, "node and field", conflict.Node+" "+conflict.Field, "a n")
	if !errors.Is(err, errBoom) {
		t.Error(err)
	}
}

func TestSchemaNodesGetTheirOwnCopy(t *testing.T) { // TRPC-18, TRPC-34
	type inner struct{ Tags []string }
	schema := graph.NewSchema().
		AddField("list", graph.FieldOf([]string{"a"}, graph.AppendReducer)).
		AddField("map", graph.FieldOf(map[string][]int{"k": {1}}, nil)).
		AddField("ptr", graph.FieldOf(&inner{[]string{"t"}}, nil)).
		AddField("any", graph.FieldOf[any](map[string]any{"deep": []any{"x"}}, nil))
	spoil := func(s graph.MapState) {
		s["list"].([]string)[0] = "spoiled"
		s["map"].(map[string][]int)["k"][0] = 9
		s["map"].(map[string][]int)["new"] = nil
		s["ptr"].(*inner).Tags[0] = "spoiled"
		s["any"].(map[string]any)["deep"].([]any)[0] = "spoiled"
		s["added"] = true
		delete(s, "list")
	}
	var kept []string
	b := graph.NewSchemaGraph("g", schema)
	graph.AddMapNode(b, "spoil", func(_ context.Context, s graph.MapState) (any, error) {
		spoil(s)
		return nil, nil
	})
	graph.AddMapNode(b, "write", func(_ context.Context, s graph.MapState) (any, error) {
		kept = []string{"b"}
		return graph.MapState{"list": kept}, nil
	})
	graph.AddMapNode(b, "alter", func(_ context.Context, s graph.MapState) (any, error) {
		kept[0] = "spoiled" // after it was returned
		spoil(s)
		return nil, nil
	})
	b.AddRoutes("alter", func(_ context.Context, s *graph.SchemaState) (string, error) { // SONI-21
		spoil(s.Map())
		return graph.End, nil
	}, nil)
	b.AddSequence(graph.Start, "spoil", "write", "alter")
	snap := runSchema(t, compileSchema(t, b, append(stored(), graph.CheckMutations())...), graph.MapState{})
	spoil(snap.State.Map())
	wantState(t, snap.State, graph.MapState{
		"list": []string{"a", "b"}, "map": map[string][]int{"k": {1}}, "ptr": &inner{[]string{"t"}}, "any": map[string]any{"deep": []any{"x"}},
	})
}

func TestSchemaConditionalEdges(t *testing.T) { // TRPC-25, W7-11, C-22, C-23
	build := func(label string, err error) *graph.Builder[graph.SchemaState] {
		b := graph.AddMapNode(graph.NewSchemaGraph("g", guide()), "a", returns(nil))
		graph.AddMapNode(graph.AddMapNode(b, "yes", returns(graph.MapState{"note": "yes"})), "no", returns(graph.MapState{"note": "no"}))
		b.AddRoutes("a", func(context.Context, *graph.SchemaState) (string, error) { return label, err }, map[string]string{"ok": "yes", "stop": graph.End, "ko": "no"})
		return b.SetEntryPoint("a")
	}
	for label, want := range map[string]any{"ok": "yes", "ko": "no", "no": "no", "stop": nil, graph.End: nil} {
		equal(t, label, runSchema(t, compileSchema(t, build(label, nil)), nil).State.Get("note"), want)
	}
	_, err := compileSchema(t, build("okay", nil)).Invoke(bg, nil)
	e := wantErr[*graph.InvalidEdgeError](t, err)
	equal(t, "target", e.Target, "okay")
	equalSlice(t, "allowed", e.Allowed, []string{"ko", "ok", "stop"})
	_, err = compileSchema(t, build("", errBoom)).Invoke(bg, nil)
	equal(t, "node", wantErr[*graph.NodeError](t, err).Node, "a")
	if !errors.Is(err, errBoom) {
		t.Error(err)
	}
	b := build("ok", nil).AddRoutes("yes", func(context.Context, *graph.SchemaState) (string, error) { return "", nil }, map[string]string{"x": "nope"})
	if _, err := b.Compile(); err == nil || !strings.Contains(err.Error(), `"nope"`) {
		t.Error(err)
	}
	if d := draw.Mermaid(compileSchema(t, build("ok", nil)).Drawing(0), nil); !strings.Contains(d, "ko") {
		t.Errorf("the drawing has no label:\n%s", d)
	}
}

func TestSchemaMultiConditionalEdges(t *testing.T) {
	b := graph.NewSchemaGraph("g", guide())
	for _, n := range []string{"a", "b", "c", "rest"} {
		graph.AddMapNode(b, n, returns(graph.MapState{"items": n}))
	}
	b.AddConditionalEdges("a", func(_ context.Context, s *graph.SchemaState) (graph.Command, error) {
		if s.Get("counter") == 1 {
			return graph.Goto("c", "b"), nil
		}
		return graph.Command{}, nil
	}, "c", "b")
	b.AddEdge("a", "rest").SetEntryPoint("a")
	g := compileSchema(t, b)
	equal(t, "both, in the order declared", fmt.Sprint(runSchema(t, g, graph.MapState{"counter": 1}).State.Get("items")), "[a b c]")
	equal(t, "none", fmt.Sprint(runSchema(t, g, nil).State.Get("items")), "[a rest]")
}

func TestSchemaEdgesRunInParallel(t *testing.T) { // TRPC-27, SONI-53
	for _, dynamic := range []bool{false, true} {
		var meet sync.WaitGroup
		meet.Add(2)
		wait := func(context.Context, graph.MapState) (any, error) {
			meet.Done()
			meet.Wait()
			return nil, nil
		}
		b := graph.AddMapNode(graph.AddMapNode(graph.NewSchemaGraph("g", guide()), "l", wait), "r", wait).SetEntryPoint("a")
		if dynamic {
			graph.AddMapNode(b, "a", returns(&graph.MapCommand{Goto: graph.Goto("l", "r")}))
		} else {
			graph.AddMapNode(b, "a", returns(nil)).AddEdge("a", "l").AddEdge("a", "r")
		}
		runSchema(t, compileSchema(t, b), nil)
	}
}

func TestSchemaNodeResults(t *testing.T) { // TRPC-28, SONI-11
	for _, c := range []struct {
		out  any
		want string
	}{
		{nil, "<nil> next"},
		{graph.MapState(nil), "<nil> next"},
		{graph.MapState{"note": "s"}, "s next"},
		{map[string]any{"note": "m"}, "m next"},
		{(*graph.MapCommand)(nil), "<nil> next"},
		{&graph.MapCommand{Update: graph.MapState{"note": "u"}}, "u next"},
		{&graph.MapCommand{Update: graph.MapState{"note": "u"}, Goto: graph.Goto("other")}, "u other"},
		{[]*graph.MapCommand{{Update: graph.MapState{"note": "o"}, Goto: graph.Goto("other")}}, "<nil> other"},
		{[]*graph.MapCommand{}, "<nil>"},
		{graph.Goto("other"), "<nil> other"},
		{graph.EndRun(), "<nil>"},
	} {
		b := graph.AddMapNode(graph.NewSchemaGraph("g", guide()), "a", returns(c.out)).SetEntryPoint("a").AddEdge("a", "next")
		graph.AddMapNode(graph.AddMapNode(b, "next", returns(graph.MapState{"items": "next"})), "other", returns(graph.MapState{"items": "other"}))
		s := runSchema(t, compileSchema(t, b), nil).State
		items, _ := s.Get("items").([]string)
		equal(t, fmt.Sprintf("%T", c.out), strings.Join(append([]string{fmt.Sprint(s.Get("note"))}, items...), " "), c.want)
	}
	for _, out := range []any{5, "next", []graph.MapState{}, &graph.MapState{}} {
		b := graph.AddMapNode(graph.NewSchemaGraph("g", guide()), "a", returns(out)).SetEntryPoint("a")
		_, err := compileSchema(t, b).Invoke(bg, nil)
		e := wantErr[*graph.FieldError](t, err)
		equal(t, "node", e.Node, "a")
		if want := fmt.Sprintf("a %T;", out); !strings.HasPrefix(e.Reason, want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for _, list := range [][]*graph.MapCommand{{nil}, {{Update: graph.MapState{}}}} {
		b := graph.AddMapNode(graph.NewSchemaGraph("g", guide()), "a", returns(list)).SetEntryPoint("a")
		if _, err := compileSchema(t, b).Invoke(bg, nil); err == nil || !strings.Contains(err.Error(), "command 0") {
			t.Error(err)
		}
	}
}

func TestSchemaCommand(t *testing.T) { // TRPC-29, TRPC-31, C-37
	build := func(target string) *graph.Builder[graph.SchemaState] {
		b := graph.NewSchemaGraph("g", guide().AddField("routed", graph.FieldOf("", nil)))
		graph.AddMapNode(b, "decide", func(_ context.Context, s graph.MapState) (any, error) {
			return &graph.MapCommand{Update: graph.MapState{"routed": target}, Goto: graph.Goto(target)}, nil
		})
		for _, n := range []string{"A", "B", "static"} {
			graph.AddMapNode(b, n, func(_ context.Context, s graph.MapState) (any, error) {
				return graph.MapState{"items": n + " saw " + s["routed"].(string)}, nil
			})
		}
		return b.SetEntryPoint("decide").AddEdge("decide", "static")
	}
	for _, n := range []string{"A", "B"} {
		g := compileSchema(t, build(n))
		equalSlice(t, "items", runSchema(t, g, nil).State.Get("items").([]string), []string{n + " saw " + n})
		equal(t, "warnings", len(g.Warnings()), 2) // A and B are reached by commands alone
	}
	_, err := compileSchema(t, build("C")).Invoke(bg, nil)
	equal(t, "target", wantErr[*graph.InvalidEdgeError](t, err).Target, "C")
}

func TestSchemaCommandList(t *testing.T) { // TRPC-30
	for _, opts := range [][]graph.Option{nil, stored()} {
		b := graph.NewSchemaGraph("g", guide().AddField("param", graph.Field{Type: reflect.TypeFor[int]()}))
		graph.AddMapNode(b, "spread", func(context.Context, graph.MapState) (any, error) {
			var list []*graph.MapCommand
			for _, p := range []int{7, 8, 9} {
				list = append(list, &graph.MapCommand{Update: graph.MapState{"param": p, "items": "overlay"}, Goto: graph.Goto("worker")})
			}
			return list, nil
		})
		graph.AddMapNode(b, "worker", func(_ context.Context, s graph.MapState) (any, error) {
			return graph.MapState{"items": fmt.Sprint(s["param"], s["note"], s["items"]), "counter": 1}, nil
		})
		graph.AddMapNode(b, "collect", func(_ context.Context, s graph.MapState) (any, error) {
			_, set := s["param"]
			equal(t, "param is part of the shared state", set, false)
			return nil, nil
		})
		b.SetEntryPoint("spread").AddEdge("worker", "collect").AddEdge("spread", "collect")
		snap := runSchema(t, compileSchema(t, b, opts...), graph.MapState{"note": "n"})
		wantState(t, snap.State, graph.MapState{
			"note": "n", "counter": 3, "items": []string{"7n[overlay]", "8n[overlay]", "9n[overlay]"},
		})
	}
}

func TestSchemaOverlaysSurviveACrash(t *testing.T) { // TRPC-30, T-07
	store := checkpoint.NewMemory()
	ran := &calls{}
	fail := true
	build := func() *graph.Graph[graph.SchemaState] {
		b := graph.NewSchemaGraph("g", guide().AddField("param", graph.Field{Type: reflect.TypeFor[any]()}))
		graph.AddMapNode(b, "spread", returns([]*graph.MapCommand{
			{Update: graph.MapState{"param": 1}, Goto: graph.Goto("worker")},
			{Update: graph.MapState{"param": int64(2)}, Goto: graph.Goto("worker")},
			{Update: graph.MapState{"param": []string{"three"}}, Goto: graph.Goto("worker")},
		}))
		graph.AddMapNode(b, "worker", func(ctx context.Context, s graph.MapState) (any, error) {
			what := fmt.Sprintf("%T", s["param"])
			ran.add(what)
			if _, ok := s["param"].(int64); ok && fail {
				return nil, errBoom
			}
			return graph.MapState{"items": what}, nil
		})
		b.SetEntryPoint("spread")
		return compileSchema(t, b, graph.WithCheckpointer(store), graph.Concurrency(1))
	}
	if _, err := build().Thread("t").Invoke(bg, graph.Requests[graph.SchemaState]{}.Input(graph.MapState{}.Into)); !errors.Is(err, errBoom) {
		t.Fatal(err)
	}
	fail = false
	snap := must[*graph.Snapshot[graph.SchemaState]](t)(build().Thread("t").Invoke(bg, graph.Requests[graph.SchemaState]{}.Continue()))
	equalSlice(t, "items", snap.State.Get("items").([]string), []string{"int", "int64", "[]string"})
	equal(t, "the finished one ran", ran.of("int"), 1)
	if _, set := snap.State.Map()["param"]; set {
		t.Error("an overlay is part of the state")
	}
}

func TestSchemaRouterSeesItsTasksOverlay(t *testing.T) {
	b := graph.NewSchemaGraph("g", guide().AddField("param", graph.Field{Type: reflect.TypeFor[int]()}))
	graph.AddMapNode(b, "spread", returns([]*graph.MapCommand{
		{Update: graph.MapState{"param": 1}, Goto: graph.Goto("worker")},
		{Update: graph.MapState{"param": 2}, Goto: graph.Goto("worker")},
	}))
	graph.AddMapNode(b, "worker", func(_ context.Context, s graph.MapState) (any, error) {
		return graph.MapState{"items": fmt.Sprint("worker ", s["param"])}, nil
	})
	seen := &calls{}
	b.AddRoutes("worker", func(_ context.Context, s *graph.SchemaState) (string, error) {
		seen.add(fmt.Sprint(s.Get("param"), " after ", s.Get("items")))
		return graph.End, nil
	}, nil)
	b.SetEntryPoint("spread")
	snap := runSchema(t, compileSchema(t, b, graph.Concurrency(1)), graph.MapState{})
	equalSlice(t, "what the router saw", seen.all(), []string{"1 after [worker 1]", "2 after [worker 2]"})
	if _, set := snap.State.Map()["param"]; set {
		t.Error("an overlay is part of the state")
	}
}

func TestSchemaDestinations(t *testing.T) { // TRPC-32, TRPC-48
	build := func(to ...string) *graph.Builder[graph.SchemaState] {
		b := graph.AddMapNode(graph.AddMapNode(graph.NewSchemaGraph("g", guide()), "c", returns(nil)), "b", returns(nil))
		graph.AddMapNode(b, "a", returns(graph.Goto("c")), graph.Destinations(to...), graph.Describe("The A", "decides"))
		return b.SetEntryPoint("a").AddEdge("b", "c")
	}
	g := compileSchema(t, build("b"))
	d := draw.Mermaid(g.Drawing(0), nil)
	if !strings.Contains(d, "a -.-> b") || !strings.Contains(d, "The A") {
		t.Errorf("no dotted edge or label:\n%s", d)
	}
	runSchema(t, g, nil) // goes to c all the same
	if _, err := build("bb").Compile(); err == nil || !strings.Contains(err.Error(), `"bb"`) {
		t.Error(err)
	}
}

func TestSchemaDiamondIsDeterministic(t *testing.T) { // TRPC-33, C-08
	b := graph.NewSchemaGraph("g", guide())
	for _, n := range []string{"left", "right"} {
		graph.AddMapNode(b, n, func(context.Context, graph.MapState) (any, error) {
			time.Sleep(time.Duration(rand.N(50)) * time.Microsecond)
			return graph.MapState{"items": n, "counter": 1, "note": n}, nil
		})
		b.AddEdge(graph.Start, n)
	}
	graph.AddMapNode(b, "join", returns(graph.MapState{"items": "join"})).AddJoin([]string{"right", "left"}, "join")
	g := compileSchema(t, b)
	for range 1000 {
		snap := runSchema(t, g, nil)
		wantState(t, snap.State, graph.MapState{"items": []string{"left", "right", "join"}, "counter": 2, "note": "right"})
		equalSlice(t, "steps", snap.Recent, []string{"left", "right", "join"})
	}
}

func TestSchemaServesManyRuns(t *testing.T) { // TRPC-35
	b := graph.NewSchemaGraph("g", guide())
	graph.AddMapNode(b, "a", func(_ context.Context, s graph.MapState) (any, error) {
		to := []string{"even", "odd"}[s["counter"].(int)%2]
		return &graph.MapCommand{Update: graph.MapState{"note": fmt.Sprint(s["counter"])}, Goto: graph.Goto(to)}, nil
	})
	for _, n := range []string{"even", "odd"} {
		graph.AddMapNode(b, n, func(ctx context.Context, s graph.MapState) (any, error) {
			answer, err := graph.Interrupt[string](ctx, "q", s["note"])
			return graph.MapState{"items": []string{n, answer}}, err
		})
	}
	b.SetEntryPoint("a")
	g := compileSchema(t, b, graph.WithCheckpointer(checkpoint.NewMemory()))
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			thread := fmt.Sprint("t", i)
			snap, err := g.Thread(thread).Invoke(bg, g.Input(graph.MapState{"counter": i}.Into))
			if err != nil || len(snap.Interrupts) != 1 || snap.Interrupts[0].Value != fmt.Sprint(i) {
				t.Error(snap, err)
				return
			}
			snap, err = g.Thread(thread).Invoke(bg, g.Answer(fmt.Sprint("answer", i)))
			if err != nil {
				t.Error(err)
				return
			}
			want := []string{[]string{"even", "odd"}[i%2], fmt.Sprint("answer", i)}
			if got := snap.State.Get("items"); !reflect.DeepEqual(got, want) {
				t.Errorf("run %d ended with %v", i, got)
			}
		})
	}
	all.Wait()
}

func TestSchemaDistinctAndSharedKeysInParallel(t *testing.T) { // TRPC-34
	schema := guide()
	b := graph.NewSchemaGraph("g", schema)
	for i := range 50 {
		key := fmt.Sprint("k", i)
		schema.AddField(key, graph.FieldOf(0, nil))
		graph.AddMapNode(b, key, func(_ context.Context, s graph.MapState) (any, error) {
			s[key] = -1
			return graph.MapState{key: i, "counter": 1}, nil
		})
		b.AddEdge(graph.Start, key)
	}
	s := runSchema(t, compileSchema(t, b), nil).State.Map()
	equal(t, "counter", s["counter"], any(50))
	for i := range 50 {
		equal(t, "key", s[fmt.Sprint("k", i)], any(i))
	}
}

func TestSchemaUndeclaredKeys(t *testing.T) {
	build := func(s *graph.Schema, opts ...graph.Option) *graph.Graph[graph.SchemaState] {
		b := graph.NewSchemaGraph("g", s)
		graph.AddMapNode(b, "a", returns(graph.MapState{"extra": 1, "note": "n"}))
		graph.AddMapNode(b, "b", func(_ context.Context, s graph.MapState) (any, error) {
			return graph.MapState{"extra": s["extra"].(int) + 1, "nothing": nil}, nil
		})
		return compileSchema(t, b.AddSequence(graph.Start, "a", "b"), append(opts, stored()...)...)
	}
	var warned []graph.Warning
	g := build(guide(), graph.OnWarning(func(w graph.Warning) { warned = append(warned, w) }))
	snap := runSchema(t, g, graph.MapState{"from": "outside"})
	want := graph.MapState{"counter": 0, "note": "n", "extra": 2, "nothing": nil, "from": "outside"}
	wantState(t, snap.State, want)
	wantState(t, must[*graph.Snapshot[graph.SchemaState]](t)(g.Thread("t").State(bg)).State, want)
	equalSlice(t, "warnings", warned, []graph.Warning{
		{Kind: graph.UndeclaredField, Field: "from"}, {Kind: graph.UndeclaredField, Field: "extra", Node: "a"},
		{Kind: graph.UndeclaredField, Field: "extra", Node: "b"}, {Kind: graph.UndeclaredField, Field: "nothing", Node: "b"},
	})
	warned = nil
	var ofThread []string
	th := g.Thread("u", graph.OnWarning(func(w graph.Warning) { ofThread = append(ofThread, w.Field) }))
	must[*graph.Snapshot[graph.SchemaState]](t)(th.Invoke(bg, th.Input(graph.MapState{"from": "outside"}.Into)))
	must[*graph.Snapshot[graph.SchemaState]](t)(th.Edit(bg, graph.MapState{"edited": true}.Into))
	equalSlice(t, "warnings of a thread's runs and edits", ofThread, []string{"from", "extra", "extra", "nothing", "edited"})
	equal(t, "warnings of the graph", len(warned), 0)

	_, err := build(guide().Strict()).Thread("t").Invoke(bg, graph.Requests[graph.SchemaState]{}.Input(func(*graph.SchemaState) error { return nil }))
	e := wantErr[*graph.UnknownFieldError](t, err)
	equal(t, "field", e.Field, "extra")
	equal(t, "node", wantErr[*graph.NodeError](t, err).Node, "a")
	_, err = build(guide().Strict()).Thread("t").Invoke(bg, graph.Requests[graph.SchemaState]{}.Input(graph.MapState{"notes": ""}.Into))
	equal(t, "near", wantErr[*graph.UnknownFieldError](t, err).Near, "note")
}

func TestSchemaConcurrentWrites(t *testing.T) { // C-08
	build := func(s *graph.Schema, opts ...graph.Option) *graph.Graph[graph.SchemaState] {
		b := graph.NewSchemaGraph("g", s.AddField("winner", graph.FieldOf("", graph.OverrideReducer)))
		for _, n := range []string{"a", "b", "c"} {
			note := n
			if n == "c" {
				note = "b" // what b writes: no conflict
			}
			graph.AddMapNode(b, n, returns(graph.MapState{"note": note, "winner": n, "extra": n})).AddEdge(graph.Start, n)
		}
		return compileSchema(t, b, append(opts, stored()...)...)
	}
	var warned []graph.Warning
	g := build(guide(), graph.OnWarning(func(w graph.Warning) {
		if w.Kind == graph.ConcurrentWrites {
			warned = append(warned, w)
		}
	}))
	var shown []graph.Warning
	for ev, err := range g.Thread("t").Stream(bg, g.Input(graph.MapState{}.Into), graph.Modes(graph.ModeWarnings)) {
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "type", ev.Type, graph.EventWarning)
		if w := ev.Value.(graph.Warning); w.Kind == graph.ConcurrentWrites {
			shown = append(shown, w)
		}
	}
	want := []graph.Warning{
		{Kind: graph.ConcurrentWrites, Field: "note", Node: "b", With: "a"}, {Kind: graph.ConcurrentWrites, Field: "extra", Node: "b", With: "a"},
		{Kind: graph.ConcurrentWrites, Field: "extra", Node: "c", With: "b"},
	}
	equalSlice(t, "warnings", warned, want)
	equalSlice(t, "events", shown, want)
	wantState(t, must[*graph.Snapshot[graph.SchemaState]](t)(g.Thread("t").State(bg)).State, graph.MapState{"counter": 0, "note": "b", "winner": "c", "extra": "c"})

	_, err := build(guide().AddField("extra", graph.FieldOf("", graph.OverrideReducer)).Strict()).Thread("t").Invoke(bg, graph.Requests[graph.SchemaState]{}.Input(func(*graph.SchemaState) error { return nil }))
	c := wantErr[*graph.ConflictError](t, err)
	equal(t, "conflict", c.Field+" "+c.With+" "+c.Node, "note a b")
}

func TestSchemaRequiredFields(t *testing.T) {
	b := graph.NewSchemaGraph("g", graph.NewSchema().AddField("topic", graph.Field{Type: reflect.TypeFor[string](), Required: true}))
	graph.AddMapNode(b, "a", returns(nil)).SetEntryPoint("a")
	g := compileSchema(t, b)
	_, err := g.Invoke(bg, nil)
	equal(t, "error", *wantErr[*graph.FieldError](t, err), graph.FieldError{Node: "a", Field: "topic", Reason: "is required and has no value: set it in the input"})
	runSchema(t, g, graph.MapState{"topic": ""})
}

type item struct {
	Name string
	At   time.Time
	N    int
}

func TestSchemaTypesSurviveTheCheckpoint(t *testing.T) { // T-07, SONI-55, C-05
	at := time.Date(2026, 11, 21, 12, 0, 0, 5, time.UTC)
	in := graph.MapState{
		"int": 1 << 60, "f32": float32(0.5), "items": []item{{"a", at, 1}}, "byName": map[string]*item{"x": {N: 2}}, "at": at,
		"any":  map[string]any{"i": 3, "f": 3.0, "l": []any{int8(4), "s", nil, item{N: 5}}, "$type": "mine", "s": []string{"t"}, "m": map[string]int{"k": 1}},
		"free": []item{{N: 6}}, "nil": nil, "$dollar": map[string]any{"$overwrite": true}, "counted": 9, "bytes": []byte{1, 2},
	}
	delete(in, "$dollar")
	schema := func() *graph.Schema {
		s := graph.NewSchema().AddField("bytes", graph.Field{Type: reflect.TypeFor[[]byte]()})
		for name, v := range in {
			switch name {
			case "any":
				s.AddField(name, graph.Field{Type: reflect.TypeFor[any]()})
			case "free", "nil", "bytes": // not declared, or above
			case "counted":
				s.AddField(name, graph.Field{Type: reflect.TypeFor[int](), Reducer: graph.ReducerOf(func(n int, b any) int {
					switch b := b.(type) {
					case int:
						return n + b
					case item:
						return n + b.N
					}
					return n
				})})
			default:
				s.AddField(name, graph.Field{Type: reflect.TypeOf(v)})
			}
		}
		return s
	}
	store := checkpoint.NewMemory()
	runs := 0
	build := func() *graph.Graph[graph.SchemaState] {
		b := graph.AddMapNode(graph.NewSchemaGraph("g", schema()), "a", returns(graph.MapState{"counted": item{N: 1}}))
		graph.AddMapNode(b, "ask", func(ctx context.Context, s graph.MapState) (any, error) {
			want := graph.MapState{}
			for k, v := range in {
				want[k] = v
			}
			runs++
			want["counted"] = 9 + runs
			if !reflect.DeepEqual(s, want) {
				t.Errorf("state is\n%#v, want\n%#v", s, want)
			}
			_, err := graph.Interrupt[bool](ctx, "q", nil)
			return nil, err
		})
		return compileSchema(t, b.AddSequence(graph.Start, "a", "ask"), graph.WithCheckpointer(store))
	}
	runSchema(t, build(), in)
	again := build()
	must[*graph.Snapshot[graph.SchemaState]](t)(again.Thread("t").Invoke(bg, again.Restart(nil))) // on the state as read back
	equal(t, "runs", runs, 2)
	snap := must[*graph.Snapshot[graph.SchemaState]](t)(build().Thread("t").State(bg))
	equal(t, "int", snap.State.Get("int"), any(1<<60))

	type secret struct{ hidden int }
	for _, v := range []any{func() {}, secret{1}, struct{ C chan int }{}, map[string]any{"k": struct{ X int }{1}}} {
		_, err := build().Thread("other").Invoke(bg, graph.Requests[graph.SchemaState]{}.Input(graph.MapState{"any": v}.Into))
		if err == nil || !strings.Contains(err.Error(), `"any"`) {
			t.Errorf("storing a %T: %v", v, err)
		}
	}
	// A registered type round-trips.
	type note struct{ Text string }
	b := graph.AddMapNode(graph.NewSchemaGraph("g", schema().RegisterType(reflect.TypeFor[note]())), "a", returns(graph.MapState{"any": []any{note{"x"}}})).SetEntryPoint("a")
	g := compileSchema(t, b, stored()...)
	runSchema(t, g, graph.MapState{})
	if got := must[*graph.Snapshot[graph.SchemaState]](t)(g.Thread("t").State(bg)).State.Get("any"); !reflect.DeepEqual(got, []any{note{"x"}}) {
		t.Errorf("came back as %#v", got)
	}
}

func TestSchemaUpdatesOnTheLog(t *testing.T) { // golden
	schema := guide().AddField("any", graph.Field{Type: reflect.TypeFor[any]()}).
		AddField("meta", graph.Field{Type: reflect.TypeFor[map[string]any](), Reducer: graph.MergeReducer}).
		AddField("best", graph.FieldOf(0, graph.ReducerOf(func(a int, b any) int { return len(fmt.Sprint(a, b)) })))
	b := graph.NewSchemaGraph("g", schema)
	graph.AddMapNode(b, "a", returns(graph.MapState{
		"counter": 2, "items": "x", "note": "<n>", "any": 7, "meta": map[string]any{"$k": 1.5, "n": int64(3)}, "best": "text", "extra": []string{"e"},
	}))
	b.AddNode("b", func(_ context.Context, s *graph.SchemaState) error {
		for range 2 {
			if err := (graph.MapState{"items": []string{"y"}, "note": "twice", "counter": 1}).Into(s); err != nil {
				return err
			}
		}
		equal(t, "reads its own writes", fmt.Sprint(s.Get("items"), s.Get("counter")), "[x y y] 4")
		return graph.MapState{"counter": graph.Overwrite(9), "any": map[string]any{"$type": 1.0}, "best": 3}.Into(s)
	})
	graph.AddMapNode(b, "c", returns(nil))
	b.AddSequence(graph.Start, "a", "b", "c")
	g := compileSchema(t, b, stored()...)
	var got []string
	for ev, err := range g.Thread("t").Stream(bg, g.Input(graph.MapState{"note": "in"}.Into)) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, ev.Node+" "+string(ev.Update))
	}
	equalSlice(t, "updates", got, []string{
		`a {"counter":2,"items":["x"],"note":"\u003cn\u003e","any":{"$type":"int","$value":7},"meta":{"$value":{"$k":1.5,"n":{"$type":"int64","$value":3}}},"best":{"$type":"string","$value":"text"},"$extra":{"extra":{"$type":"[]string","$value":["e"]}}}`,
		`b {"counter":{"$overwrite":9},"items":["y","y"],"note":"twice","any":{"$value":{"$type":1}},"best":3}`,
		`c `,
	})
	state := must[*graph.Snapshot[graph.SchemaState]](t)(g.Thread("t").State(bg)).State
	data, err := json.Marshal(state)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "JSON of the state", string(data), `{"any":{"$type":1},"best":3,"counter":9,"extra":["e"],"items":["x","y","y"],"meta":{"$k":1.5,"n":3},"note":"twice"}`)
}

func TestSchemaUpdateJSON(t *testing.T) {
	schema := guide().AddField("item", graph.FieldOf(item{}, nil)).AddField("tags", graph.FieldOf(map[string]int(nil), graph.MergeReducer)).
		AddField("best", graph.FieldOf(0, graph.ReducerOf(func(a, b int) int { return max(a, b) })))
	g := compileSchema(t, graph.AddMapNode(graph.NewSchemaGraph("g", schema), "a", returns(nil)).SetEntryPoint("a"))
	input := func(data string) (*graph.Snapshot[graph.SchemaState], error) {
		var err error
		snap, _ := g.Invoke(bg, func(s *graph.SchemaState) error {
			err = g.UpdateJSON(s, []byte(data))
			return nil
		})
		return snap, err
	}
	snap, err := input(`{"counter": 3, "items": {"$overwrite": ["b", "c"]}, "best": {"$overwrite": 3, "$updates": [9, 5]}, "item": {"Name": "x", "At": "2026-01-02T03:04:05Z", "N": 1}, "tags": {"x": 1}, "free": {"n": 1}}`)
	if err != nil {
		t.Fatal(err)
	}
	wantState(t, snap.State, graph.MapState{
		"counter": 3, "items": []string{"b", "c"}, "best": 9, "item": item{"x", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), 1}, "tags": map[string]int{"x": 1}, "free": map[string]any{"n": 1.0},
	})
	_, err = input(`{"free": ` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}`)
	if err == nil || !strings.Contains(err.Error(), "nests too deep") {
		t.Error(err)
	}
	_, err = input(`{"counter": "x", "item": {"M": 1}, "note": null, "tags": {"$put": 1}, "$free": 1}`)
	if err == nil {
		t.Fatal("wrong input is taken")
	}
	for _, want := range []string{
		`field "counter": must be an integer, not a string`, `field "item.M": unknown field`, `field "item.Name": is missing`,
		`field "note": must be a string, not null`, `field "tags": unknown operation $put`, `unknown field "$free"`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
	var zero graph.SchemaState
	if err := g.UpdateJSON(&zero, []byte(`{"counter": 2}`)); err != nil || zero.Get("counter") != 2 {
		t.Error(err, zero)
	}
}

func TestSchemaCrashAndResume(t *testing.T) { // T-07, law 2
	store := checkpoint.NewMemory()
	ran := &calls{}
	crash := "b"
	build := func() *graph.Graph[graph.SchemaState] {
		b := graph.NewSchemaGraph("g", guide())
		prev := graph.Start
		for _, n := range []string{"a", "b", "c"} {
			graph.AddMapNode(b, n, func(_ context.Context, s graph.MapState) (any, error) {
				ran.add(n)
				if n == crash {
					return nil, errBoom
				}
				return graph.MapState{"items": fmt.Sprintf("%s%d", n, s["counter"].(int)), "counter": 1}, nil
			})
			b.AddEdge(prev, n)
			prev = n
		}
		return compileSchema(t, b, graph.WithCheckpointer(store))
	}
	for _, at := range []string{"b", "c"} {
		crash = at
		if _, err := build().Thread("t").Invoke(bg, graph.Requests[graph.SchemaState]{}.Input(map[string]func(*graph.SchemaState) error{"b": graph.MapState{"counter": 5}.Into}[at])); !errors.Is(err, errBoom) {
			t.Fatal(err)
		}
	}
	crash = ""
	snap := must[*graph.Snapshot[graph.SchemaState]](t)(build().Thread("t").Invoke(bg, graph.Requests[graph.SchemaState]{}.Continue()))
	wantState(t, snap.State, graph.MapState{"counter": 8, "items": []string{"a5", "b6", "c7"}})
	equalSlice(t, "ran", ran.all(), []string{"a", "b", "b", "c", "c"})
	var steps []string
	for e, err := range build().Thread("t").History(bg, graph.HistoryQuery{OldestFirst: true}) {
		if err != nil {
			t.Fatal(err)
		}
		s, err := e.State(bg)
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, fmt.Sprint(s.Get("counter")))
	}
	equal(t, "history", strings.Join(slices.Compact(steps), " "), "5 6 7 8")
	snap = must[*graph.Snapshot[graph.SchemaState]](t)(build().Thread("t").Edit(bg, graph.MapState{"counter": 2}.Into))
	equal(t, "edited", snap.State.Get("counter"), any(10))
	_, err := build().Thread("t").Edit(bg, graph.MapState{"counter": 2.5}.Into)
	wantErr[*graph.FieldError](t, err)
}

func TestSchemaLongThreadIsReadBack(t *testing.T) {
	store := checkpoint.NewMemory()
	build := func() *graph.Graph[graph.SchemaState] {
		b := graph.NewSchemaGraph("g", guide().AddField("words", graph.FieldOf([]any{"first"}, graph.AppendReducer)))
		graph.AddMapNode(b, "loop", func(_ context.Context, s graph.MapState) (any, error) {
			n := s["counter"].(int)
			out := graph.MapState{"counter": 1, "items": strings.Repeat("x", 100), "words": n, "free": n}
			if n == 150 {
				out["items"] = graph.Overwrite([]string{"fresh"})
			}
			return out, nil
		})
		b.AddRoutes("loop", func(_ context.Context, s *graph.SchemaState) (string, error) {
			if s.Get("counter") == 300 {
				return graph.End, nil
			}
			return "loop", nil
		}, nil)
		return compileSchema(t, b.SetEntryPoint("loop"), graph.WithCheckpointer(store), graph.MaxSteps(1000))
	}
	live := runSchema(t, build(), graph.MapState{})
	read := must[*graph.Snapshot[graph.SchemaState]](t)(build().Thread("t").State(bg))
	if !reflect.DeepEqual(live.State.Map(), read.State.Map()) {
		t.Error("live and replayed state differ")
	}
	equal(t, "items", len(read.State.Get("items").([]string)), 150)
	equal(t, "words", fmt.Sprint(read.State.Get("words").([]any)[:3]), "[first 0 1]")
}

func TestSchemaEvolves(t *testing.T) { // law 8
	store := checkpoint.NewMemory()
	build := func(s *graph.Schema) *graph.Graph[graph.SchemaState] {
		return compileSchema(t, graph.AddMapNode(graph.NewSchemaGraph("g", s), "a", returns(nil)).SetEntryPoint("a"), graph.WithCheckpointer(store))
	}
	runSchema(t, build(guide().AddField("gone", graph.FieldOf("", nil))), graph.MapState{"items": "x", "note": "n", "gone": "g", "late": 5})
	next := graph.NewSchema().
		AddField("things", graph.Field{Type: reflect.TypeFor[[]string](), Reducer: graph.AppendReducer, Former: []string{"items"}}).
		AddField("note", graph.FieldOf("", nil)).
		AddField("late", graph.FieldOf(0, nil)).
		AddField("new", graph.FieldOf("default", nil))
	g := build(next)
	want := graph.MapState{"things": []string{"x"}, "note": "n", "late": 5, "new": "default"}
	wantState(t, must[*graph.Snapshot[graph.SchemaState]](t)(g.Thread("t").State(bg)).State, want)
	runSchema(t, g, graph.MapState{"things": "y"})
	want["things"] = []string{"x", "y"}
	wantState(t, must[*graph.Snapshot[graph.SchemaState]](t)(g.Thread("t").State(bg)).State, want)
	_, err := build(graph.NewSchema().AddField("note", graph.FieldOf(0, nil))).Thread("t").State(bg)
	if err == nil || !strings.Contains(err.Error(), `"note"`) || !strings.Contains(err.Error(), `"t"`) {
		t.Errorf("a field of another type: %v", err)
	}
}

func TestSchemaSends(t *testing.T) { // SONI-53, SONI-54, C-32
	schema := guide()
	b := graph.NewSchemaGraph("g", schema)
	graph.AddMapTask(b, "process_item", func(_ context.Context, payload graph.MapState) (any, error) {
		equal(t, "payload", fmt.Sprintf("%v %T", payload, payload["n"]), "map[n:3 note:x] int")
		return graph.MapState{"items": "processed"}, nil
	})
	graph.AddMapNode(b, "a", func(_ context.Context, s graph.MapState) (any, error) {
		return graph.MapState{"items": fmt.Sprint("a ", s["note"])}, nil
	}, graph.Reads("note"))
	graph.AddMapNode(b, "start", func(_ context.Context, s graph.MapState) (any, error) {
		return &graph.MapCommand{Goto: graph.Dispatch(schema.Send("process_item", graph.MapState{"n": 3, "note": "x"}))}, nil
	})
	b.SetEntryPoint("start")
	g := compileSchema(t, b, graph.WithCheckpointer(checkpoint.NewMemory()))
	from := func(thread string, c graph.Command) any {
		snap := must[*graph.Snapshot[graph.SchemaState]](t)(g.Thread(thread).Invoke(bg, g.Restart(graph.MapState{"note": "shared"}.Into, c)))
		return snap.State.Get("items")
	}
	equal(t, "from a node", fmt.Sprint(from("1", graph.Goto("start"))), "[processed]")
	equal(t, "from outside", fmt.Sprint(from("2", graph.Dispatch(schema.Send("process_item", graph.MapState{"n": 3, "note": "x"})))), "[processed]")
	overlaid := graph.Dispatch(schema.SendOverlay("a", graph.MapState{"note": "mine"})).And(graph.Goto("a"))
	equal(t, "with an overlay", fmt.Sprint(from("3", overlaid)), "[a mine a shared]")
	for _, c := range []graph.Command{
		graph.Dispatch(schema.Send("process_item", graph.MapState{"note": 1})), graph.Dispatch(schema.SendOverlay("a", graph.MapState{"note": 1})),
	} {
		_, err := g.Thread("4").Invoke(bg, g.Restart(graph.MapState{}.Into, c))
		wantErr[*graph.FieldError](t, err)
	}
}

func TestSchemaUntrackedFields(t *testing.T) { // SONI-55
	open := &sync.Mutex{}
	schema := guide().AddField("client", graph.Field{Type: reflect.TypeFor[*sync.Mutex](), Untracked: true})
	b := graph.NewSchemaGraph("g", schema)
	graph.AddMapNode(b, "a", func(_ context.Context, s graph.MapState) (any, error) {
		equal(t, "shared", s["client"].(*sync.Mutex), open)
		return nil, nil
	})
	g := compileSchema(t, b.SetEntryPoint("a"), stored()...)
	snap := runSchema(t, g, graph.MapState{"client": open, "note": "n"})
	equal(t, "in the run", snap.State.Get("client").(*sync.Mutex), open)
	wantState(t, must[*graph.Snapshot[graph.SchemaState]](t)(g.Thread("t").State(bg)).State, graph.MapState{"counter": 0, "note": "n"})
}

func TestSchemaGraphAsASubgraph(t *testing.T) {
	child := func() *graph.Graph[graph.SchemaState] {
		b := graph.NewSchemaGraph("child", guide().AddField("own", graph.FieldOf(0, nil)))
		graph.AddMapNode(b, "x", returns(graph.MapState{"items": "child", "counter": 1, "own": 1, "free": 1}))
		return compileSchema(t, b.SetEntryPoint("x"))
	}
	for _, opts := range [][]graph.Option{nil, stored()} {
		b := graph.NewSchemaGraph("parent", guide())
		graph.AddMapNode(b, "before", returns(graph.MapState{"items": "before", "counter": 10}))
		graph.AddShared(b, "shared", child(), func(s *graph.SchemaState) *graph.SchemaState { return s })
		graph.AddSubgraph(b, "mapped", child(), graph.Mapping[graph.SchemaState, graph.SchemaState]{
			In:  func(p, c *graph.SchemaState) { _ = graph.MapState{"counter": p.Get("counter")}.Into(c) },
			Out: func(c, p *graph.SchemaState) { _ = graph.MapState{"note": fmt.Sprint(c.Get("counter"))}.Into(p) },
		})
		b.AddSequence(graph.Start, "before", "shared", "mapped")
		snap := runSchema(t, compileSchema(t, b, opts...), graph.MapState{})
		wantState(t, snap.State, graph.MapState{"items": []string{"before", "child"}, "counter": 11, "free": 1, "note": "12"})
	}
}

// leaving mounts a subgraph whose only node returns what list says in a graph with
// the workers of its tasks. The field param is an int outside and a string inside.
func leaving(t testing.TB, list func(ctx context.Context, state graph.MapState) (any, error), work func(ctx context.Context, s graph.MapState) (any, error), opts ...graph.Option) *graph.Graph[graph.SchemaState] {
	t.Helper()
	outside := guide().AddField("param", graph.Field{Type: reflect.TypeFor[int]()})
	inner := graph.NewSchemaGraph("child", guide().AddField("param", graph.Field{Type: reflect.TypeFor[string]()}))
	graph.AddMapNode(graph.AddMapNode(inner, "leave", list, graph.Destinations("own", graph.End)), "own", func(context.Context, graph.MapState) (any, error) {
		t.Error("a task of the graph that was left ran")
		return nil, nil
	})
	inner.SetEntryPoint("leave")
	b := graph.NewSchemaGraph("parent", outside)
	graph.AddSubgraph(b, "sub", compileSchema(t, inner), graph.Mapping[graph.SchemaState, graph.SchemaState]{
		Out: func(c, p *graph.SchemaState) {
			if note, set := c.Map()["note"]; set {
				_ = graph.MapState{"note": note}.Into(p)
			}
		},
	}, graph.ParentDestinations("worker", "item", "collect"))
	graph.AddMapNode(b, "worker", work)
	graph.AddMapTask(b, "item", func(_ context.Context, p graph.MapState) (any, error) {
		return graph.MapState{"items": fmt.Sprint("item ", p["n"])}, nil
	})
	graph.AddMapNode(b, "collect", func(_ context.Context, s graph.MapState) (any, error) {
		return graph.MapState{"items": fmt.Sprint("collected ", s["counter"])}, nil
	})
	b.SetEntryPoint("sub").AddEdge("sub", "collect").AddEdge("worker", "collect").AddEdge("item", "collect")
	return compileSchema(t, b, opts...)
}

// worked is a worker's result: what it saw.
func worked(_ context.Context, s graph.MapState) (any, error) {
	return graph.MapState{"items": fmt.Sprint("worker ", s["param"], " ", s["note"]), "counter": 1}, nil
}

func TestSchemaCommandListToTheContainingGraph(t *testing.T) { // TRPC-30
	list := []*graph.MapCommand{
		{Update: graph.MapState{"param": 7}, Goto: graph.GotoParent("worker")},
		{Goto: graph.GotoParent("worker")},
		{Goto: graph.DispatchParent(guide().Send("item", graph.MapState{"n": 3}))},
		{Update: graph.MapState{"param": 8, "note": "mine"}, Goto: graph.GotoParent("worker")},
	}
	mixed := slices.Insert(slices.Clone(list), 1,
		&graph.MapCommand{Update: graph.MapState{"param": "inside"}, Goto: graph.Goto("own")}, &graph.MapCommand{Goto: graph.Goto(graph.End)})
	ended := append(slices.Clone(list), &graph.MapCommand{Goto: graph.EndRun()})
	for what, list := range map[string][]*graph.MapCommand{"alone": list, "with commands for the own graph": mixed, "with the end of the run": ended} {
		for _, opts := range [][]graph.Option{nil, stored()} {
			snap := runSchema(t, leaving(t, returns(list), worked, opts...), graph.MapState{})
			t.Log(what)
			wantState(t, snap.State, graph.MapState{"counter": 3, "items": []string{
				"worker 7 <nil>", "worker <nil> <nil>", "item 3", "worker 8 mine", "collected 3",
			}})
		}
	}
}

func TestSchemaCommandListMayEndTheBranchInTheContainingGraph(t *testing.T) {
	for _, c := range []graph.Command{graph.GotoParent(graph.End), graph.DispatchParent()} {
		snap := runSchema(t, leaving(t, returns([]*graph.MapCommand{{Goto: c}, {Goto: graph.Goto("own")}}), worked), graph.MapState{})
		wantState(t, snap.State, graph.MapState{"counter": 0})
	}
}

func TestSchemaCommandListToTheContainingGraphIsThatOfACommand(t *testing.T) {
	single := runSchema(t, leaving(t, returns(&graph.MapCommand{
		Update: graph.MapState{"note": "from inside"}, Goto: graph.GotoParent("worker").And(graph.Goto("own")),
	}), worked), graph.MapState{})
	wantState(t, single.State, graph.MapState{"counter": 1, "note": "from inside", "items": []string{"worker <nil> from inside", "collected 1"}})
}

func TestSchemaOverlaysReachTheContainingGraph(t *testing.T) {
	outside := guide().AddField("param", graph.Field{Type: reflect.TypeFor[int]()})
	send := func() graph.Send { return outside.SendOverlay("worker", graph.MapState{"param": 9}) }
	for what, out := range map[string]any{
		"a command":              graph.DispatchParent(send()),
		"a command with a state": &graph.MapCommand{Goto: graph.DispatchParent(send())},
		"a list":                 []*graph.MapCommand{{Goto: graph.DispatchParent(send())}},
	} {
		for _, opts := range [][]graph.Option{nil, stored()} {
			t.Log(what)
			snap := runSchema(t, leaving(t, returns(out), worked, opts...), graph.MapState{})
			wantState(t, snap.State, graph.MapState{"counter": 1, "items": []string{"worker 9 <nil>", "collected 1"}})
		}
	}
}

func TestSchemaCommandListToTheContainingGraphSurvivesACrash(t *testing.T) {
	store := checkpoint.NewMemory()
	ran := &calls{}
	crash := ""
	build := func() *graph.Graph[graph.SchemaState] {
		inner := graph.NewSchemaGraph("child", guide())
		graph.AddMapNode(inner, "leave", func(context.Context, graph.MapState) (any, error) {
			ran.add("leave")
			return []*graph.MapCommand{
				{Update: graph.MapState{"param": 1}, Goto: graph.GotoParent("worker")},
				{Update: graph.MapState{"param": int64(2)}, Goto: graph.GotoParent("worker")},
			}, nil
		})
		graph.AddMapNode(inner, "beside", func(context.Context, graph.MapState) (any, error) {
			if crash == "beside the node" {
				return nil, errBoom
			}
			return nil, nil
		})
		inner.AddEdge(graph.Start, "leave").AddEdge(graph.Start, "beside")
		b := graph.NewSchemaGraph("parent", guide().AddField("param", graph.Field{Type: reflect.TypeFor[any]()}))
		graph.AddSubgraph(b, "sub", compileSchema(t, inner, graph.Concurrency(1)), graph.Mapping[graph.SchemaState, graph.SchemaState]{},
			graph.ParentDestinations("worker"), graph.WithCallbacks(graph.Callbacks[graph.SchemaState]{
				After: func(context.Context, *graph.SchemaState) error {
					if crash == "after the subgraph" {
						return errBoom
					}
					return nil
				},
			}))
		graph.AddMapNode(b, "worker", func(_ context.Context, s graph.MapState) (any, error) {
			what := fmt.Sprintf("%T", s["param"])
			ran.add(what)
			if what == "int64" && crash == "in a worker" {
				return nil, errBoom
			}
			return graph.MapState{"items": what}, nil
		})
		b.SetEntryPoint("sub")
		return compileSchema(t, b, graph.WithCheckpointer(store), graph.Concurrency(1))
	}
	crash = "beside the node"
	if _, err := build().Thread("t").Invoke(bg, graph.Requests[graph.SchemaState]{}.Input(graph.MapState{}.Into)); !errors.Is(err, errBoom) {
		t.Fatal(err)
	}
	for _, crash = range []string{"after the subgraph", "in a worker"} {
		if _, err := build().Thread("t").Invoke(bg, graph.Requests[graph.SchemaState]{}.Continue()); !errors.Is(err, errBoom) {
			t.Fatalf("%s: %v", crash, err)
		}
	}
	crash = ""
	snap := must[*graph.Snapshot[graph.SchemaState]](t)(build().Thread("t").Invoke(bg, graph.Requests[graph.SchemaState]{}.Continue()))
	equalSlice(t, "items", snap.State.Get("items").([]string), []string{"int", "int64"})
	equal(t, "the node that left ran", ran.of("leave"), 1)
	equal(t, "the finished worker ran", ran.of("int"), 1)
	if _, set := snap.State.Map()["param"]; set {
		t.Error("an overlay is part of the state")
	}
}

func TestSchemaCommandListToTheContainingGraphWaitsForAnswers(t *testing.T) {
	list := func(ctx context.Context, _ graph.MapState) (any, error) {
		name, err := graph.Interrupt[string](ctx, "name", nil)
		return []*graph.MapCommand{
			{Update: graph.MapState{"param": 1, "note": name}, Goto: graph.GotoParent("worker")},
			{Update: graph.MapState{"param": 2}, Goto: graph.GotoParent("worker")},
		}, err
	}
	work := func(ctx context.Context, s graph.MapState) (any, error) {
		if s["param"] == 2 {
			note, err := graph.Interrupt[string](ctx, "note", nil)
			s["note"] = note
			if err != nil {
				return nil, err
			}
		}
		return worked(ctx, s)
	}
	opts := stored()
	build := func() *graph.Graph[graph.SchemaState] { return leaving(t, list, work, opts...) }
	snap := runSchema(t, build(), graph.MapState{})
	equal(t, "question inside", snap.Interrupts[0].Key, "name")
	snap = must[*graph.Snapshot[graph.SchemaState]](t)(build().Thread("t").Invoke(bg, graph.Requests[graph.SchemaState]{}.Answer("ann")))
	equal(t, "question outside", snap.Interrupts[0].Key, "note")
	snap = must[*graph.Snapshot[graph.SchemaState]](t)(build().Thread("t").Invoke(bg, graph.Requests[graph.SchemaState]{}.Answer("later")))
	want := []string{"worker 1 ann", "worker 2 later", "collected 2"}
	equalSlice(t, "items", snap.State.Get("items").([]string), want)

	// From where the tasks of the list were planned, they run again with their updates.
	for e, err := range build().Thread("t").History(bg, graph.HistoryQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(e.Next, []string{"worker", "worker"}) {
			continue
		}
		snap = must[*graph.Snapshot[graph.SchemaState]](t)(build().Thread("t").At(e.Checkpoint).Invoke(bg, graph.Requests[graph.SchemaState]{}.Continue()))
		if len(snap.Interrupts) > 0 {
			snap = must[*graph.Snapshot[graph.SchemaState]](t)(build().Thread("t").Invoke(bg, graph.Requests[graph.SchemaState]{}.Answer("later")))
		}
		equalSlice(t, "items of another branch", snap.State.Get("items").([]string), want)
	}
}

func TestSchemaCommandListToTheContainingGraphReplays(t *testing.T) {
	list := returns([]*graph.MapCommand{
		{Update: graph.MapState{"param": 1}, Goto: graph.GotoParent("worker")}, {Update: graph.MapState{"param": 2}, Goto: graph.GotoParent("worker")},
	})
	store := checkpoint.NewMemory()
	g := leaving(t, list, worked, graph.WithCheckpointer(store))
	runSchema(t, g, graph.MapState{})
	same(t, g, taped(t, store, "t"))
	other := returns([]*graph.MapCommand{
		{Update: graph.MapState{"param": 1}, Goto: graph.GotoParent("worker")}, {Update: graph.MapState{"param": 3}, Goto: graph.GotoParent("worker")},
	})
	first(t, leaving(t, other, worked), taped(t, store, "t"),
		`1 sub/leave routing : leads to worker with {"param":1}, worker with {"param":2} | leads to worker with {"param":1}, worker with {"param":3}`)
	same(t, leaving(t, other, worked), taped(t, store, "t"), graph.ReplayOptions{TakeRecorded: []string{"sub/leave"}})
	same(t, leaving(t, other, worked), taped(t, store, "t"), graph.ReplayOptions{TakeRecorded: []string{"sub"}})
}

func TestSchemaCommandListRefusesWhatTheContainingGraphCantTake(t *testing.T) {
	to := func(update graph.MapState, c graph.Command) func(ctx context.Context, state graph.MapState) (any, error) {
		return returns([]*graph.MapCommand{{Goto: graph.GotoParent("collect")}, {Update: update, Goto: c}})
	}
	fails := func(list func(ctx context.Context, state graph.MapState) (any, error)) error {
		_, err := leaving(t, list, worked).Invoke(bg, graph.MapState{}.Into)
		return err
	}
	err := fails(to(graph.MapState{"param": "a string, as inside"}, graph.GotoParent("worker")))
	equal(t, "type", wantErr[*graph.FieldError](t, err).Want, "int")
	if !strings.Contains(err.Error(), "command 1 of the list") {
		t.Error(err)
	}
	equal(t, "target", wantErr[*graph.InvalidEdgeError](t, fails(to(nil, graph.GotoParent("wrker")))).Near, "worker")
	twice := graph.DispatchParent(guide().SendOverlay("worker", graph.MapState{"counter": 1}))
	if err := fails(to(graph.MapState{"counter": 2}, twice)); err == nil || !strings.Contains(err.Error(), "overlay of its own") {
		t.Error(err)
	}

	inner := graph.AddMapNode(graph.NewSchemaGraph("child", guide()), "leave", to(graph.MapState{"note": "x"}, graph.GotoParent("collect")))
	child := compileSchema(t, inner.SetEntryPoint("leave"))
	_, err = child.Invoke(bg, graph.MapState{}.Into)
	equal(t, "target without a containing graph", wantErr[*graph.InvalidEdgeError](t, err).Target, "parent")
	b := graph.New[trail]("typed")
	graph.AddSubgraph(b, "sub", child, graph.Mapping[trail, graph.SchemaState]{}, graph.ParentDestinations("collect"))
	visits(b, "collect").SetEntryPoint("sub")
	_, err = compile(t, b).Invoke(bg, func(*trail) error { return nil })
	if e := wantErr[*graph.FieldError](t, err); e.Node != "leave" || !strings.Contains(e.Reason, `tasks of graph "typed"`) {
		t.Error(err)
	}
}

func TestSchemaWarningsOfASubgraphAreShown(t *testing.T) {
	inner := graph.AddMapNode(graph.NewSchemaGraph("child", guide()), "x", returns(graph.MapState{"free": 1})).SetEntryPoint("x")
	b := graph.NewSchemaGraph("parent", guide())
	graph.AddSubgraph(b, "sub", compileSchema(t, inner), graph.Mapping[graph.SchemaState, graph.SchemaState]{})
	g := compileSchema(t, b.SetEntryPoint("sub"))
	n := 0
	for ev, err := range g.Stream(bg, graph.MapState{}.Into, graph.Modes(graph.ModeWarnings)) {
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "node", ev.Node, "sub")
		equal(t, "warning", ev.Value.(graph.Warning), graph.Warning{Kind: graph.UndeclaredField, Field: "free", Node: "x"})
		n++
	}
	equal(t, "warnings", n, 1)
}

func TestSchemaHandlersAndCallbacks(t *testing.T) {
	b := graph.NewSchemaGraph("g", guide())
	graph.AddMapNode(b, "a", func(context.Context, graph.MapState) (any, error) { return nil, errBoom },
		graph.OnError(func(_ context.Context, s *graph.SchemaState, err *graph.NodeError) (graph.Command, error) {
			return graph.Goto("b"), graph.MapState{"note": err.Err.Error()}.Into(s)
		}))
	graph.AddMapNode(b, "b", returns(graph.MapState{"items": "b"}), graph.WithCallbacks(graph.Callbacks[graph.SchemaState]{
		After: func(_ context.Context, s *graph.SchemaState) error {
			equal(t, "after", fmt.Sprint(s.Get("items")), "[b]")
			return graph.MapState{"items": "after"}.Into(s)
		},
	}))
	snap := runSchema(t, compileSchema(t, b.SetEntryPoint("a")), nil)
	wantState(t, snap.State, graph.MapState{"counter": 0, "note": "boom", "items": []string{"b", "after"}})

	// An update that was refused fails its node even if the error is ignored.
	b = graph.NewSchemaGraph("g", guide())
	b.AddNode("a", func(_ context.Context, s *graph.SchemaState) error {
		_ = graph.MapState{"counter": ""}.Into(s)
		return nil
	})
	_, err := compileSchema(t, b.SetEntryPoint("a")).Invoke(bg, nil)
	wantErr[*graph.FieldError](t, err)

	typed := graph.New[trail]("g").AddNode("a", visit("a"), graph.Reads("x")).SetEntryPoint("a")
	if _, err := typed.Compile(); err == nil {
		t.Error("Reads is taken by a graph over a struct")
	}
}

func TestSchemaNodesCanBeTestedAlone(t *testing.T) {
	s := must[*graph.SchemaState](t)(guide().NewState())
	if err := (graph.MapState{"counter": 2}).Into(s); err != nil {
		t.Fatal(err)
	}
	equal(t, "counter", s.Get("counter"), any(2))
	var zero graph.SchemaState
	equal(t, "zero", len(zero.Map()), 0)
	if err := (graph.MapState{"x": 1}).Into(&zero); err == nil {
		t.Error("a state without a schema takes an update")
	}
}

func TestSchemaDependencies(t *testing.T) { // SONI-10, SONI-11
	type greeting struct{ Greeting string }
	b := graph.NewSchemaGraph("g", guide())
	graph.AddMapNode(b, "a", func(ctx context.Context, _ graph.MapState) (any, error) {
		c, err := graph.Configured[greeting](ctx)
		return graph.MapState{"note": c.Greeting}, err
	}).SetEntryPoint("a")
	g := must[*graph.Graph[graph.SchemaState]](t)(b.Compile(graph.Configurable(greeting{"hello"})))
	equal(t, "note", runSchema(t, g, nil, graph.Configure(func(c *greeting) { c.Greeting = "hi" })).State.Get("note"), any("hi"))
	equal(t, "note", runSchema(t, g, nil).State.Get("note"), any("hello"))
}

func TestSchemaCyclicValuesAreRefused(t *testing.T) {
	loop := map[string]any{}
	loop["self"] = loop
	b := graph.NewSchemaGraph("g", graph.NewSchema().AddField("any", graph.Field{Type: reflect.TypeFor[any]()}))
	graph.AddMapNode(b, "a", returns(graph.MapState{"any": loop})).SetEntryPoint("a")
	_, err := compileSchema(t, b).Invoke(bg, nil)
	if err == nil || !strings.Contains(err.Error(), "holds itself") {
		t.Error(err)
	}

	s := graph.NewSchema()
	b = graph.NewSchemaGraph("g", s)
	graph.AddMapNode(b, "a", returns(graph.Dispatch(s.Send("work", loop)))).SetEntryPoint("a")
	graph.AddMapTask(b, "work", returns(nil))
	if _, err := compileSchema(t, b).Invoke(bg, nil); err == nil || !strings.Contains(err.Error(), "holds itself") {
		t.Error(err)
	}
}
