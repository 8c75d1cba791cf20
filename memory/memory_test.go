package memory_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool"
)

func TestFiltersThatAreWrong(t *testing.T) {
	for name, c := range map[string]struct{ filter, says string }{
		"a list":                        {`[]`, "it is not a JSON object"},
		"no JSON":                       {`{"a":`, "it is not a JSON object"},
		"an unknown operator":           {`{"a":{"$regex":"x"}}`, `invalid filter "a": unknown operator "$regex"; the operators are ["$eq" "$ne" "$gt" "$gte" "$lt" "$lte" "$in" "$nin" "$and" "$or" "$not"]`},
		"an operator without a field":   {`{"$eq":1}`, `operators such as "$eq" stand below a field`},
		"or of an object":               {`{"$or":{"a":1}}`, "$or takes an array of filters, not an object"},
		"and of a number":               {`{"a":{"$and":[{"$gt":1},2]}}`, `invalid filter "a": $and has a number at index 1; a filter is an object`},
		"not of a value":                {`{"a":{"$not":5}}`, `invalid filter "a": $not takes a filter, which is an object, not a number`},
		"in of a value":                 {`{"a":{"$in":"b"}}`, `invalid filter "a": $in takes an array of values, not a text`},
		"an operator inside of or":      {`{"$or":[{"a":{"$no":1}}]}`, `invalid filter "a": unknown operator "$no"`},
		"filters in one another":        {strings.Repeat(`{"$not":`, 101) + "{}" + strings.Repeat("}", 101), "more than 100 conditions are in one another"},
		"an operator beside a field":    {`{"a":{"$gt":1,"b":2}}`, `invalid filter "a": operators and names of fields stand side by side`},
		"an empty name":                 {`{"":1}`, "a field's name is empty"},
		"an empty name after a point":   {`{"a.":1}`, `invalid filter "a."`},
		"an order of booleans":          {`{"a":{"$gt":true}}`, "$gt takes a number or a text, not a boolean"},
		"an order of null":              {`{"a":{"$lte":null}}`, "$lte takes a number or a text, not null"},
		"an order of objects":           {`{"a":{"$lt":{}}}`, "$lt takes a number or a text, not an object"},
		"a number beyond all others":    {`{"a":1e999}`, "out of the range of a float64"},
		"a text with a zero character":  {`{"a":"\u0000"}`, `\u0000`},
		"an operator deep in an object": {`{"a":{"b":{"$no":1}}}`, `invalid filter "a.b": unknown operator "$no"`},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := memory.ParseFilter(json.RawMessage(c.filter))
			if f != nil || !errors.Is(err, memory.ErrFilter) || !errors.Is(err, memory.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("got %v, error %v", f, err)
			}
		})
	}
	for _, nothing := range []string{"", " ", "null", "{}", " { } "} {
		if f, err := memory.ParseFilter(json.RawMessage(nothing)); len(f) != 0 || err != nil {
			t.Errorf("%q: %v, %v", nothing, f, err)
		}
	}
}

func TestAWrongFilterOrValueMatchesNothing(t *testing.T) {
	value := json.RawMessage(`{"n":1,"big":1e999999999}`)
	for name, f := range map[string]memory.Filter{
		"an unknown operator":   {{Field: "n", Op: "$is", Value: json.RawMessage(`1`)}},
		"no list":               {{Field: "n", Op: memory.OpIn, Value: json.RawMessage(`1`)}},
		"not of a wrong one":    {memory.Not(memory.Eq("n", 2), memory.Eq("n", func() {}))},
		"or with a wrong one":   {memory.Or(memory.Eq("n", 1), memory.Eq("", 1))},
		"a field that is or":    {{Field: "n", Op: memory.OpOr, Of: memory.Filter{memory.Eq("n", 1)}}},
		"a comparison of joins": {{Field: "n", Op: memory.OpEq, Value: json.RawMessage(`1`), Of: memory.Filter{memory.Eq("n", 1)}}},
		"a value without JSON":  {memory.Eq("n", func() {})},
		"a number out of range": {memory.Gt("big", 1)},
		"no value":              {{Field: "n", Op: memory.OpEq}},
	} {
		if f.Match(value) {
			t.Errorf("%s: it matches", name)
		}
	}
	if (memory.Filter{memory.Eq("n", 1)}).Match(json.RawMessage(`{`)) {
		t.Error("what isn't JSON matches")
	}
}

func TestConfigurationsThatAreWrong(t *testing.T) {
	e := memory.HashEmbedder(8)
	for name, c := range map[string]struct {
		config memory.Config
		kind   error
	}{
		"a negative TTL":          {memory.Config{TTL: -1}, memory.ErrOption},
		"no embedder":             {memory.Config{Index: &memory.Index{}}, memory.ErrOption},
		"an embedder of length 0": {memory.Config{Index: &memory.Index{Embedder: memory.HashEmbedder(0)}}, memory.ErrOption},
		"a name that is no text":  {memory.Config{Index: &memory.Index{Embedder: e, Name: "\x00"}}, memory.ErrOption},
		"a field without a name":  {memory.Config{Index: &memory.Index{Embedder: e, Fields: []string{"a..b"}}}, memory.ErrField},
		"an open bracket":         {memory.Config{Index: &memory.Index{Embedder: e, Fields: []string{"a[0"}}}, memory.ErrField},
	} {
		if s, err := memory.NewInMemory(c.config); s != nil || !errors.Is(err, c.kind) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := memory.NewInMemory(memory.Config{}, memory.Config{}); !errors.Is(err, memory.ErrOption) {
		t.Errorf("two configurations: %v", err)
	}
}

func TestHashEmbedderDependsOnTheWordsAlone(t *testing.T) {
	e := memory.HashEmbedder(64)
	v, err := model.Embed(t.Context(), e, []string{"Pizza, with olives!", "olives with pizza", "cars", " -- "})
	if err != nil {
		t.Fatal(err)
	}
	count := func(v []float32) (n float32) {
		for _, x := range v {
			n += x
		}
		return n
	}
	for i := range v[0] {
		if v[0][i] != v[1][i] {
			t.Fatal("the same words have other vectors")
		}
	}
	if count(v[0]) != 3 || count(v[2]) != 1 || count(v[3]) != 0 {
		t.Fatal(v)
	}
}

type note struct {
	Text string `json:"text"`
}

func TestTypedValues(t *testing.T) {
	s, ctx, at := newStore(t), t.Context(), []string{"a"}
	item, err := memory.Put(ctx, s, at, "k", note{"hello"})
	if err != nil {
		t.Fatal(err)
	}
	e, err := memory.Get[note](ctx, s, at, "k")
	if err != nil || e.Value.Text != "hello" || e.Version != item.Version || string(e.Item.Value) != `{"text":"hello"}` {
		t.Fatalf("%+v, %v", e, err)
	}
	for name, put := range map[string]func() (memory.Item, error){
		"a text":        func() (memory.Item, error) { return memory.Put(ctx, s, at, "bad", "hello") },
		"a nil pointer": func() (memory.Item, error) { return memory.Put[*note](ctx, s, at, "bad", nil) },
		"a function":    func() (memory.Item, error) { return memory.Put(ctx, s, at, "bad", func() {}) },
	} {
		if _, err := put(); !errors.Is(err, memory.ErrValue) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.Put(ctx, at, "number", json.RawMessage(`{"text":5}`)); err != nil {
		t.Fatal(err)
	}
	_, err = memory.Get[note](ctx, s, at, "number")
	_, err2 := memory.Search[note](ctx, s, at, memory.Query{})
	for _, err := range []error{err, err2} {
		if e, ok := errors.AsType[*memory.DecodeError](err); !ok || e.Key != "number" || e.Namespace[0] != "a" {
			t.Fatal(err)
		}
		if _, ok := errors.AsType[*json.UnmarshalTypeError](err); !ok {
			t.Fatal(err)
		}
	}
	found, err := memory.Search[note](ctx, s, at, memory.Query{Filter: memory.Filter{memory.Eq("text", "hello")}})
	if err != nil || len(found) != 1 || found[0].Value.Text != "hello" {
		t.Fatal(found, err)
	}
}

func TestUpdate(t *testing.T) {
	s, ctx, at := newStore(t), t.Context(), []string{"a"}
	calls := 0
	item, err := memory.Update(ctx, s, at, "k", func(n *note) error {
		if calls++; calls == 1 { // somebody else is faster
			if _, err := memory.Put(ctx, s, at, "k", note{"theirs"}); err != nil {
				return err
			}
		}
		n.Text += " and mine"
		return nil
	})
	if err != nil || calls != 2 || string(item.Value) != `{"text":"theirs and mine"}` {
		t.Fatal(calls, item, err)
	}
	stop := errors.New("stop")
	if _, err := memory.Update(ctx, s, at, "k", func(*note) error { return stop }); !errors.Is(err, stop) {
		t.Fatal(err)
	}
	if _, err := memory.Update(ctx, s, at, "k", func(*note) error { return nil }, memory.PutOptions{IfAbsent: true}); !errors.Is(err, memory.ErrOption) {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(ctx)
	_, err = memory.Update(ended, s, at, "k", func(n *note) error {
		if _, err := memory.Put(ctx, s, at, "k", note{"always faster"}); err != nil {
			return err
		}
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// inRun is a tool that is called by a run, as an agent does.
type inRun struct {
	tool.Tool
	opts []graph.RunOption
}

func (r inRun) Call(ctx context.Context, args json.RawMessage) (out tool.Result, err error) {
	b := graph.New[struct{}]("caller")
	b.AddNode("call", func(ctx context.Context, _ *struct{}) error {
		out, err = r.Tool.Call(ctx, args)
		return nil
	})
	b.AddEdge(graph.Start, "call")
	if _, failed := b.MustCompile().Invoke(ctx, nil, r.opts...); failed != nil {
		return out, failed
	}
	return out, err
}

func toolsOf(namespace func(context.Context) ([]string, error), opts ...graph.RunOption) []tool.Tool {
	tools := memory.Tools(namespace)
	for i, t := range tools {
		tools[i] = inRun{t, opts}
	}
	return tools
}

func call(t *testing.T, tools []tool.Tool, i int, args string) (string, error) {
	t.Helper()
	r, err := tools[i].Call(t.Context(), json.RawMessage(args))
	if err != nil {
		return "", err
	}
	return r.Content[0].(chat.Text).Text, nil
}

func mustCall(t *testing.T, tools []tool.Tool, i int, args string) string {
	t.Helper()
	text, err := call(t, tools, i, args)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestTools(t *testing.T) {
	const save, search, remove = 0, 1, 2
	at := []string{"users", "ann"}
	here := func(context.Context) ([]string, error) { return at, nil }
	contents := func(t *testing.T, result string) (out []string) {
		t.Helper()
		var r struct {
			Memories []struct{ Key, Content string } `json:"memories"`
		}
		if err := json.Unmarshal([]byte(result), &r); err != nil {
			t.Fatal(err)
		}
		for _, m := range r.Memories {
			out = append(out, m.Content)
		}
		return out
	}
	for name, config := range map[string]memory.Config{
		"without an index": {},
		"with an index of other fields": {
			Index: &memory.Index{Embedder: memory.HashEmbedder(512), Fields: []string{"text"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, config)
			tools := toolsOf(here, memory.Use(s))
			if _, err := tool.NewSet(tools...); err != nil {
				t.Fatal(err)
			}
			if got := contents(t, mustCall(t, tools, search, `{}`)); len(got) != 0 {
				t.Fatal(got)
			}
			first := mustCall(t, tools, save, `{"content":"likes green tea"}`)
			mustCall(t, tools, save, `{"content":"works at night"}`)
			mustCall(t, tools, save, `{"content":"likes red wine"}`)
			if again := mustCall(t, tools, save, `{"content":"likes green tea"}`); again != first {
				t.Fatalf("saved twice, as %s and %s", first, again)
			}
			// Others' items are not memories of this user.
			for _, other := range [][]string{{"users"}, {"users", "bob"}, {"users", "ann", "more"}} {
				if _, err := memory.Put(t.Context(), s, other, "k", memory.Memory{Content: "likes green wine at night"}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := s.Put(t.Context(), at, "profile", json.RawMessage(`{"content":{"text":"likes"},"text":"likes"}`)); err != nil {
				t.Fatal(err)
			}
			if got := contents(t, mustCall(t, tools, search, `{"query":"What tea likes she, green?"}`)); len(got) < 2 || got[0] != "likes green tea" || got[1] != "likes red wine" {
				t.Fatal(got)
			}
			if got := contents(t, mustCall(t, tools, search, `{"query":"night","limit":1}`)); len(got) != 1 || got[0] != "works at night" {
				t.Fatal(got)
			}
			if got := contents(t, mustCall(t, tools, search, ``)); len(got) != 3 || got[0] != "likes green tea" {
				t.Fatal(got)
			}
			var saved struct{ Key string }
			if err := json.Unmarshal([]byte(first), &saved); err != nil {
				t.Fatal(err)
			}
			if got := mustCall(t, tools, save, `{"content":"likes black tea","key":"`+saved.Key+`"}`); got != first {
				t.Fatal(got)
			}
			if got := contents(t, mustCall(t, tools, search, `{"query":"tea","limit":1}`)); got[0] != "likes black tea" {
				t.Fatal(got)
			}
			mustCall(t, tools, remove, `{"key":"`+saved.Key+`"}`)
			if got := contents(t, mustCall(t, tools, search, ``)); len(got) != 2 {
				t.Fatal(got)
			}
			for _, c := range []struct {
				tool int
				args string
			}{
				{remove, `{"key":"` + saved.Key + `"}`}, {save, `{"content":"x","key":"unknown"}`},
				{remove, `{"key":"profile"}`}, {save, `{"content":"x","key":"profile"}`}, // no memory
			} {
				_, err := call(t, tools, c.tool, c.args)
				if e, ok := errors.AsType[*tool.Error](err); !ok || !errors.Is(err, memory.ErrNotFound) || !strings.Contains(e.Error(), "there is no memory with key") {
					t.Fatal(err)
				}
			}
			if _, err := call(t, tools, save, `{"content":""}`); err == nil {
				t.Fatal("nothing was saved")
			}
		})
	}

	t.Run("a memory that was corrected isn't lost when the old one is saved again", func(t *testing.T) {
		tools := toolsOf(here, memory.Use(newStore(t)))
		var first, other struct{ Key string }
		read := func(result string, into any) {
			t.Helper()
			if err := json.Unmarshal([]byte(result), into); err != nil {
				t.Fatal(err)
			}
		}
		read(mustCall(t, tools, save, `{"content":"has a dog"}`), &first)
		mustCall(t, tools, save, `{"content":"has a cat","key":"`+first.Key+`"}`)
		for range 2 { // the call may be repeated
			read(mustCall(t, tools, save, `{"content":"has a dog"}`), &other)
		}
		if got := contents(t, mustCall(t, tools, search, ``)); len(got) != 2 || got[0] != "has a dog" || got[1] != "has a cat" || other.Key == first.Key {
			t.Fatal(got)
		}
		// What a correction made is the same memory, too.
		var again struct{ Key string }
		if read(mustCall(t, tools, save, `{"content":"has a cat"}`), &again); again.Key != first.Key {
			t.Fatalf("saved as %s and as %s", first.Key, again.Key)
		}
		mustCall(t, tools, remove, `{"key":"`+first.Key+`"}`)
		mustCall(t, tools, save, `{"content":"has a dog"}`)
		if got := contents(t, mustCall(t, tools, search, ``)); len(got) != 1 {
			t.Fatal(got)
		}
	})

	t.Run("a run without a memory is an error that says how it gets one", func(t *testing.T) {
		for i, args := range []string{`{"content":"x"}`, `{}`, `{"key":"k"}`} {
			_, err := call(t, toolsOf(here), i, args)
			if _, ok := errors.AsType[*graph.MissingDepsError](err); !ok || !strings.Contains(err.Error(), "memory.Use") {
				t.Errorf("tool %d: %v", i, err)
			}
		}
		if _, err := memory.From(t.Context()); err == nil || !strings.Contains(err.Error(), "memory.Use") {
			t.Error(err)
		}
	})

	t.Run("nobody's memories are an error", func(t *testing.T) {
		unknown := errors.New("no user")
		for _, c := range []struct {
			namespace func(context.Context) ([]string, error)
			want      error
		}{
			{func(context.Context) ([]string, error) { return nil, unknown }, unknown},
			{func(context.Context) ([]string, error) { return nil, nil }, memory.ErrEmptyNamespace},
		} {
			tools := toolsOf(c.namespace, memory.Use(newStore(t)))
			for i, args := range []string{`{"content":"x"}`, `{}`, `{"key":"k"}`} {
				if _, err := call(t, tools, i, args); !errors.Is(err, c.want) {
					t.Errorf("tool %d: %v", i, err)
				}
			}
		}
	})
}

func TestItemsAreWrittenAsTheProtocolHasThem(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	s := newStore(t, memory.Config{Now: func() time.Time { return now }})
	item, err := s.Put(t.Context(), []string{"a", "b"}, "k", json.RawMessage(`{"n":1}`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(item)
	const want = `{"namespace":["a","b"],"key":"k","value":{"n":1},"created_at":"2026-01-02T03:04:05.000006Z","updated_at":"2026-01-02T03:04:05.000006Z","version":1}`
	if err != nil || string(got) != want {
		t.Fatalf("got %s, error %v", got, err)
	}
}

func TestAGraphWithAMemoryOfItsOwnIsToldFromOthers(t *testing.T) {
	compiled := func(opts ...graph.Option) *graph.Graph[struct{}] {
		nothing := func(context.Context, *struct{}) error { return nil }
		child := graph.New[struct{}]("child")
		child.AddNode("n", nothing)
		child.AddEdge(graph.Start, "n")
		b := graph.New[struct{}]("g")
		graph.AddSubgraph(b, "child", child.MustCompile(), graph.Mapping[struct{}, struct{}]{})
		b.AddEdge(graph.Start, "child")
		g, err := b.Compile(opts...)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	s := newStore(t)
	for what, opt := range map[string]graph.Option{
		"for itself":         memory.Use(s),
		"for a graph inside": graph.For("child", memory.Use(s)),
		"opened by a run":    graph.ProvideDeps(func(context.Context) (memory.Store, error) { return s, nil }),
	} {
		if err := memory.CheckGraph(compiled(opt)); err == nil || !strings.Contains(err.Error(), `graph "g" was compiled with a memory of its own`) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := memory.CheckGraph(compiled(graph.UseDeps("something else"), graph.For("child", graph.MaxSteps(3)))); err != nil {
		t.Error(err)
	}
}
