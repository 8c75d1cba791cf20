package graph_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/cache"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

func TestCompileRefusesWhatCannotBeMeant(t *testing.T) {
	handle := graph.OnError[trail](nil)
	for want, opt := range map[string]graph.NodeOption{
		`node "a": OnError has a nil handler`:                          handle,
		`node "a": Timeout of -1s`:                                     graph.Timeout(-time.Second),
		`node "a": IdleTimeout of -1s`:                                 graph.IdleTimeout(-time.Second),
		`node "a": RetryPolicy{MaxAttempts: -3,`:                       graph.Retry(graph.RetryPolicy{MaxAttempts: -3}),
		`Factor: NaN, Max: 0s} has a negative number`:                  graph.Retry(graph.RetryPolicy{Factor: math.NaN()}),
		`node "a": a cache policy with a TTL of -1s`:                   graph.Cache(graph.CachePolicy{Store: &cache.Memory{}, TTL: -time.Second}),
		`node "a": the subgraph is nil or was never compiled`:          graph.Contains[trail](nil),
		`the subgraph is nil or was never compiled; pass the graph th`: graph.Contains(&graph.Graph[trail]{}),
	} {
		b := graph.New[trail]("g").AddEdge(graph.Start, "a").AddNode("a", func(context.Context, *trail) error { return nil }, opt)
		_, err := b.Compile()
		if e := wantErr[*graph.CompileError](t, err); len(e.Problems) != 1 || !strings.Contains(e.Error(), want) {
			t.Errorf("%v; want %s", e, want)
		}
	}
	var store *checkpoint.Memory
	for want, opt := range map[string]graph.Option{
		"StepTimeout of -1s":       graph.StepTimeout(-time.Second),
		"NodeTimeout of -1s":       graph.NodeTimeout(-time.Second),
		"RunTimeout of -1s":        graph.RunTimeout(-time.Second),
		"WithCheckpointer(nil)":    graph.WithCheckpointer(nil),
		"WithCheckpointer(nil): l": graph.WithCheckpointer(store),
	} {
		_, err := visits(graph.New[trail]("g"), "a").AddEdge(graph.Start, "a").Compile(opt)
		if e := wantErr[*graph.CompileError](t, err); len(e.Problems) != 1 || !strings.Contains(e.Error(), want) {
			t.Errorf("%v; want %s", e, want)
		}
	}
	_, err := visits(graph.New[trail](""), "a").AddEdge(graph.Start, "a").Compile()
	if e := wantErr[*graph.CompileError](t, err); len(e.Problems) != 1 || !strings.Contains(e.Error(), "the graph has no name") {
		t.Error(e)
	}
	deferred := visits(graph.New[trail]("g"), "a").AddEdge(graph.Start, "a")
	graph.AddTask(deferred, "task", func(context.Context, *trail, int) error { return nil }, graph.Defer())
	_, err = deferred.Compile()
	if e := wantErr[*graph.CompileError](t, err); len(e.Problems) != 1 || !strings.Contains(e.Error(), `node "task": it has Defer`) {
		t.Error(e)
	}
	b := graph.New[trail]("g").AddEdge(graph.Start, "sub")
	graph.AddSubgraph[trail, trail](b, "sub", nil, graph.Mapping[trail, trail]{})
	_, err = b.Compile()
	if e := wantErr[*graph.CompileError](t, err); len(e.Problems) != 1 || !strings.Contains(e.Error(), `node "sub": the subgraph is nil`) {
		t.Error(e)
	}
}

func TestAnEditOfNothingStartsNoThread(t *testing.T) {
	store := checkpoint.NewMemory()
	g := compile(t, visits(graph.New[trail]("g"), "a").AddEdge(graph.Start, "a"), graph.WithCheckpointer(store))
	if _, err := g.Thread("t").Edit(bg, nil); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Error(err)
	}
	if _, err := g.Thread("t").State(bg); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("the thread was begun: %v", err)
	}
	must[*graph.Snapshot[trail]](t)(g.Thread("t").EditAs(bg, "a", nil))
}

func TestWhatIsNilSaysSo(t *testing.T) {
	var none *graph.Graph[trail]
	var noBuilder *graph.Builder[trail]
	for name, call := range map[string]struct {
		do   func()
		want string
	}{
		"Name":           {func() { none.Name() }, "the *Graph is nil or empty"},
		"String":         {func() { _ = none.String() }, "the *Graph is nil or empty"},
		"a zero Graph":   {func() { new(graph.Graph[trail]).Nodes() }, "the *Graph is nil or empty"},
		"AddNode":        {func() { noBuilder.AddNode("a", nil) }, "the *Builder is nil"},
		"AddEdge":        {func() { noBuilder.AddEdge("a", "b") }, "the *Builder is nil"},
		"Compile":        {func() { _, _ = noBuilder.Compile() }, "the *Builder is nil"},
		"SetEntryPoint":  {func() { noBuilder.SetEntryPoint("a") }, "the *Builder is nil"},
		"SetFinishPoint": {func() { noBuilder.SetFinishPoint("a") }, "the *Builder is nil"},
	} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.Contains(text, call.want) {
					t.Errorf("%s panics with %q", name, text)
				}
			}()
			call.do()
		}()
	}
	g := compile(t, visits(graph.New[trail]("g"), "a").AddEdge(graph.Start, "a"), stored()...)
	var ctx context.Context
	_, invoke := g.Thread("t").Invoke(ctx, g.Continue())
	_, state := g.Thread("t").State(ctx)
	for what, err := range map[string]error{"nil Context": invoke, "graph: nil Context": state, "the state is nil": g.UpdateJSON(nil, []byte(`{}`))} {
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want %s", err, what)
		}
	}
	for _, err := range g.Thread("t").Stream(ctx, g.Continue()) {
		if err == nil || !strings.Contains(err.Error(), "nil Context") {
			t.Error(err)
		}
	}
}

func TestHistoryShowsWhatIsPendingAfterAFork(t *testing.T) {
	g := compile(t, visits(graph.New[trail]("g"), "a", "b").AddEdge(graph.Start, "a").AddEdge("a", "b"), stored()...)
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	es := entriesOf(t, g.Thread("t"))
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").At(es[1].Checkpoint).Fork(bg))
	equalSlice(t, "next", snap.Next, []string{"b"})
	es = entriesOf(t, g.Thread("t"))
	equal(t, "source", es[0].Source, "fork")
	equalSlice(t, "next", es[0].Next, snap.Next)
}

func TestAPanicInAnInputHasItsStack(t *testing.T) {
	g := compile(t, visits(graph.New[trail]("g"), "a").AddEdge(graph.Start, "a"), stored()...)
	boom := func(*trail) error { panic("boom") }
	_, invoke := g.Thread("t").Invoke(bg, g.Input(boom))
	_, update := g.Thread("t").Edit(bg, boom)
	for _, err := range []error{invoke, update} {
		if e := wantErr[*graph.PanicError](t, err); e.Value != "boom" || !strings.Contains(string(e.Stack), "TestAPanicInAnInputHasItsStack") {
			t.Errorf("%v\n%s", e, e.Stack)
		}
	}
}

func TestOptionsThatNameNoNodeSaySo(t *testing.T) {
	g := compile(t, visits(graph.New[trail]("g"), "a").AddEdge(graph.Start, "a"), stored()...)
	_, before := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }), graph.InterruptBefore("aa"))
	_, after := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }), graph.InterruptAfter("aa"))
	_, as := g.Thread("t").EditAs(bg, "aa", func(*trail) error { return nil })
	for option, err := range map[string]error{"InterruptBefore": before, "InterruptAfter": after, "AsNode": as} {
		equal(t, "text", err.Error(), option+` names "aa", which is not a node; did you mean "a"?`)
		wantErr[*graph.InvalidEdgeError](t, err)
	}
}

// called calls every exported method of a graph or a thread with arguments that mean
// nothing, and returns the errors of those that have one: returned, or yielded first.
// Those that make requests know neither.
func called(t *testing.T, g any) (errs map[string]error, panics map[string]any) {
	t.Helper()
	errs, panics = map[string]error{}, map[string]any{}
	v := reflect.ValueOf(g)
	for i := range v.NumMethod() {
		name, m := v.Type().Method(i).Name, v.Method(i)
		if _, makes := reflect.TypeFor[graph.Requests[trail]]().MethodByName(name); makes {
			continue
		}
		var args []reflect.Value
		for k := range m.Type().NumIn() {
			switch in := m.Type().In(k); {
			case m.Type().IsVariadic() && k == m.Type().NumIn()-1:
			case in == reflect.TypeFor[context.Context]():
				args = append(args, reflect.ValueOf(bg))
			case in.Kind() == reflect.String:
				args = append(args, reflect.ValueOf("x"))
			default:
				args = append(args, reflect.Zero(in))
			}
		}
		func() {
			defer func() {
				if p := recover(); p != nil {
					panics[name] = p
				}
			}()
			for _, out := range m.Call(args) {
				switch {
				case out.Type() == reflect.TypeFor[error]():
					errs[name], _ = out.Interface().(error)
				case out.Kind() == reflect.Func && out.Type().CanSeq2():
					for _, err := range out.Seq2() {
						errs[name], _ = err.Interface().(error)
						break
					}
				}
			}
		}()
	}
	return errs, panics
}

func TestEveryMethodSaysThatThereIsNoGraph(t *testing.T) {
	for _, g := range []*graph.Graph[trail]{nil, {}} {
		errs, panics := called(t, g)
		for name, err := range errs {
			if !errors.Is(err, graph.ErrNotCompiled) {
				t.Errorf("%s returns %v", name, err)
			}
		}
		for name, p := range panics {
			if _, returns := errs[name]; returns || p != graph.ErrNotCompiled.Error() {
				t.Errorf("%s panics with %v", name, p)
			}
		}
		delete(panics, "Thread") // whose calls have the error
		if n := len(errs) + len(panics) + 1 + reflect.TypeFor[graph.Requests[trail]]().NumMethod(); n != reflect.TypeOf(g).NumMethod() {
			t.Errorf("%d methods of %d were looked at", n, reflect.TypeOf(g).NumMethod())
		}
	}
}

func TestARunnerSaysThatThereIsNoGraph(t *testing.T) {
	for _, g := range []*graph.Graph[trail]{nil, {}} {
		_, err := graph.NewRunner(checkpoint.NewMemory(), graph.RunnerOptions{}, g)
		equal(t, "error", err, graph.ErrNotCompiled)
	}
}

func TestEveryMethodOfAThreadSaysThatThereIsNoGraph(t *testing.T) {
	errs, panics := called(t, (&graph.Graph[trail]{}).Thread("t"))
	if len(panics) > 0 {
		t.Errorf("panics: %v", panics)
	}
	for name, err := range errs {
		if !errors.Is(err, graph.ErrNotCompiled) {
			t.Errorf("%s returns %v", name, err)
		}
	}
}

func TestEveryMethodOfAThreadSaysThatThereIsNoCheckpointer(t *testing.T) {
	errs, panics := called(t, compile(t, visits(graph.New[trail]("g"), "a").AddEdge(graph.Start, "a")).Thread("t"))
	if len(panics) > 0 {
		t.Errorf("panics: %v", panics)
	}
	delete(errs, "Err")       // of the handle alone
	delete(errs, "CheckJSON") // of no update
	delete(errs, "Invoke")    // which may run without
	delete(errs, "Stream")
	for name, err := range errs {
		if !errors.Is(err, graph.ErrNoCheckpointer) {
			t.Errorf("%s returns %v", name, err)
		}
	}
}
