package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/file"
	"github.com/superstep-dev/superstep/graph"
)

// even is a type that is stricter than its schema.
type even int

func (e *even) UnmarshalJSON(data []byte) error {
	var n int
	if err := json.Unmarshal(data, &n); err != nil {
		return err
	}
	if n%2 != 0 {
		return fmt.Errorf("%d is odd", n)
	}
	*e = even(n)
	return nil
}

// choosy panics at what it doesn't know.
type choosy string

func (c *choosy) UnmarshalJSON(data []byte) error {
	if string(data) != `"yes"` {
		panic("never heard of it")
	}
	*c = "yes"
	return nil
}

// asks is a graph of one node that asks for a T and says what it got.
func asks[T any](t testing.TB, store checkpoint.Store, opts ...graph.AskOption) *graph.Graph[trail] {
	t.Helper()
	b := graph.New[trail]("g")
	b.AddNode("a", func(ctx context.Context, s *trail) error {
		v, err := graph.Interrupt[T](ctx, "k", "what?", opts...)
		if err != nil {
			return err
		}
		s.Note = fmt.Sprint(v)
		return nil
	})
	b.AddEdge(graph.Start, "a")
	return compile(t, b, graph.WithCheckpointer(store))
}

// refusedThenAnswered gives wrong answers to a graph, each in a process of its own,
// and then a right one.
func refusedThenAnswered[T any](t *testing.T, wrong []string, right, want string, opts ...graph.AskOption) {
	t.Helper()
	store := checkpoint.NewMemory()
	must[*graph.Snapshot[trail]](t)(asks[T](t, store, opts...).Thread("t").Invoke(bg, graph.Requests[trail]{}.Input(func(*trail) error { return nil })))
	for _, answer := range wrong {
		snap, err := asks[T](t, store, opts...).Thread("t").Invoke(bg, graph.Requests[trail]{}.Answer(json.RawMessage(answer)))
		e := wantErr[*graph.AnswerError](t, err)
		if e.Key != "k" || e.Err == nil {
			t.Errorf("%s is refused with %+v", answer, e)
		}
		if nodeErr := new(graph.NodeError); errors.As(err, &nodeErr) {
			t.Errorf("%s made the node fail: %v", answer, err)
		}
		if len(snap.Interrupts) != 1 || snap.Interrupts[0].Key != "k" {
			t.Fatalf("after %s the thread waits for %+v", answer, snap.Interrupts)
		}
		snap = must[*graph.Snapshot[trail]](t)(asks[T](t, store, opts...).Thread("t").Invoke(bg, graph.Requests[trail]{}.Continue()))
		equal(t, "questions after going on", len(snap.Interrupts), 1)
	}
	snap := must[*graph.Snapshot[trail]](t)(asks[T](t, store, opts...).Thread("t").Invoke(bg, graph.Requests[trail]{}.Answer(json.RawMessage(right))))
	equal(t, "answer", snap.State.Note, want)
	equal(t, "done", snap.Done(), true)
}

func TestAnAnswerThatDoesNotDecodeIsRefusedAndTheQuestionWaits(t *testing.T) {
	t.Run("a type stricter than its schema", func(t *testing.T) {
		refusedThenAnswered[even](t, []string{`3`, `"four"`}, `4`, "4")
	})
	t.Run("a type that panics", func(t *testing.T) { refusedThenAnswered[choosy](t, []string{`"no"`}, `"yes"`, "yes") })
	t.Run("a schema wider than the type", func(t *testing.T) {
		refusedThenAnswered[int](t, []string{`"many"`, `1.5`}, `2`, "2", graph.AnswerSchema(json.RawMessage(`{"type":["number","string"]}`)))
	})
	t.Run("a time", func(t *testing.T) {
		refusedThenAnswered[time.Time](t, []string{`"tomorrow"`, `"2026-02-30T00:00:00Z"`, `3`}, `"2026-03-01T10:00:00Z"`, "2026-03-01 10:00:00 +0000 UTC")
	})
	t.Run("an integer", func(t *testing.T) {
		refusedThenAnswered[int](t, []string{`1e30`, `1e3`, `9223372036854775808`}, `1000`, "1000")
	})
	t.Run("a small float", func(t *testing.T) { refusedThenAnswered[float32](t, []string{`1e300`}, `0.5`, "0.5") })
	t.Run("a number", func(t *testing.T) { refusedThenAnswered[json.Number](t, []string{`"many"`}, `12`, "12") })
	t.Run("a map by numbers", func(t *testing.T) {
		refusedThenAnswered[map[int]bool](t, []string{`{"one":true}`, `{"1":2}`}, `{"1":true}`, "map[1:true]")
	})
}

func TestARefusalNamesTheQuestionTheValueAndWhy(t *testing.T) {
	g := asks[even](t, checkpoint.NewMemory())
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	_, err := g.Thread("t").Invoke(bg, g.Answer(3))
	equal(t, "error", fmt.Sprint(err), `answer to "k" refused: 3 is no graph_test.even: 3 is odd`)
	_, err = g.Thread("t").Invoke(bg, g.Answer(strings.Repeat("ä", 1000)))
	if n := len(fmt.Sprint(err)); n > 400 {
		t.Errorf("the error has %d bytes", n)
	}
}

func TestARefusedAnswerIsVoidInAFileToo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	in := func(do func(g *graph.Graph[trail])) {
		store, err := file.Open(dir, file.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		do(asks[even](t, store))
	}
	in(func(g *graph.Graph[trail]) {
		must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	})
	in(func(g *graph.Graph[trail]) {
		_, err := g.Thread("t").Invoke(bg, g.Answer(3))
		wantErr[*graph.AnswerError](t, err)
	})
	in(func(g *graph.Graph[trail]) {
		snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(4)))
		equal(t, "answer", snap.State.Note, "4")
	})
}

func TestOneOfSeveralAnswersIsRefused(t *testing.T) {
	b := graph.New[trail]("g")
	for _, name := range []string{"a", "b"} {
		b.AddNode(name, func(ctx context.Context, s *trail) error {
			v, err := graph.Interrupt[even](ctx, name, nil)
			if err != nil {
				return err
			}
			s.Ran.Add(fmt.Sprint(name, v))
			return nil
		})
		b.AddEdge(graph.Start, name)
	}
	g := compile(t, b, stored()...)
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	snap, err := g.Thread("t").Invoke(bg, g.Answer(graph.Answers{"a": 2, "b": 3}))
	equal(t, "refused", wantErr[*graph.AnswerError](t, err).Key, "b")
	equal(t, "questions", len(snap.Interrupts), 1)
	snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(4)))
	equal(t, "ran", snap.State.ran(), "a2 b4")
}

func TestAnAnswerToASubgraphIsRefused(t *testing.T) {
	store := checkpoint.NewMemory()
	build := func() *graph.Graph[trail] {
		in := graph.New[trail]("inner")
		in.AddNode("ask", func(ctx context.Context, s *trail) error {
			v, err := graph.Interrupt[even](ctx, "k", nil)
			if err != nil {
				return err
			}
			s.Note = fmt.Sprint(v)
			return nil
		})
		in.AddEdge(graph.Start, "ask")
		inner := compile(t, in)
		b := graph.New[trail]("outer")
		graph.AddSubgraph(b, "sub", inner, graph.Mapping[trail, trail]{
			In:  func(*trail, *trail) {},
			Out: func(c *trail, p *trail) { p.Note = c.Note },
		})
		b.AddEdge(graph.Start, "sub")
		return compile(t, b, graph.WithCheckpointer(store))
	}
	must[*graph.Snapshot[trail]](t)(build().Thread("t").Invoke(bg, graph.Requests[trail]{}.Input(func(*trail) error { return nil })))
	for range 2 {
		snap, err := build().Thread("t").Invoke(bg, graph.Requests[trail]{}.Answer(3))
		wantErr[*graph.AnswerError](t, err)
		if len(snap.Interrupts) != 1 || len(snap.Interrupts[0].Path) != 1 {
			t.Fatalf("the thread waits for %+v", snap.Interrupts)
		}
	}
	snap := must[*graph.Snapshot[trail]](t)(build().Thread("t").Invoke(bg, graph.Requests[trail]{}.Answer(4)))
	equal(t, "answer", snap.State.Note, "4")
}

func TestAnEventThatDoesNotDecodeIsDropped(t *testing.T) {
	store := checkpoint.NewMemory()
	build := func() *graph.Graph[turns] {
		return oneNode(t, store, func(ctx context.Context, s *turns) error {
			n, err := graph.WaitFor[even](ctx, "", "paid")
			if err != nil {
				return err
			}
			s.Said.Add(fmt.Sprint(n))
			return nil
		})
	}
	must[*graph.Snapshot[turns]](t)(build().Thread("t").Invoke(bg, graph.Requests[turns]{}.Input(say("a"))))
	if err := build().Thread("t").SendEvent(bg, "paid", 3); err != nil {
		t.Fatal(err)
	}
	snap, err := build().Thread("t").Invoke(bg, graph.Requests[turns]{}.Continue())
	e := wantErr[*graph.AnswerError](t, err)
	equal(t, "error", e.Error(), `answer to "paid" refused: event "paid": 3 is no graph_test.even: 3 is odd`)
	equal(t, "waits", len(snap.Waits), 1)
	for _, n := range []any{5, 6, 8} {
		if err := build().Thread("t").SendEvent(bg, "paid", n); err != nil {
			t.Fatal(err)
		}
	}
	snap = must[*graph.Snapshot[turns]](t)(build().Thread("t").Invoke(bg, graph.Requests[turns]{}.Continue())) // past the 5
	equal(t, "said", said(&snap.State), "a 6")
}

func TestARunnerGoesOnWithTheEventAfterAWrongOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := checkpoint.NewMemory()
		g := oneNode(t, store, func(ctx context.Context, s *turns) error {
			n, err := graph.WaitFor[even](ctx, "", "paid")
			if err != nil {
				return err
			}
			s.Said.Add(fmt.Sprint(n))
			return nil
		})
		must[*graph.Snapshot[turns]](t)(g.Thread("t").Invoke(t.Context(), g.Input(say("a"))))
		var refused []error
		r := must[*graph.Runner](t)(graph.NewRunner(store, graph.RunnerOptions{Poll: time.Minute, Report: func(r graph.RunnerReport) {
			if r.Err != nil && !errors.Is(r.Err, context.Canceled) {
				refused = append(refused, r.Err)
			}
		}}, g))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = r.Run(ctx) }()
		for _, n := range []int{3, 4} {
			if err := g.Thread("t").SendEvent(t.Context(), "paid", n); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
		}
		cancel()
		<-done
		snap := must[*graph.Snapshot[turns]](t)(g.Thread("t").State(t.Context()))
		equal(t, "said", said(&snap.State), "a 4")
		equal(t, "reports", len(refused), 1)
	})
}

func TestADeadlineStillCountsAfterARefusedAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := checkpoint.NewMemory()
		g := oneNode(t, store, func(ctx context.Context, s *turns) error {
			_, err := graph.Interrupt[even](ctx, "k", nil, graph.Deadline(time.Hour))
			if late := new(graph.DeadlineError); errors.As(err, &late) {
				s.Said.Add("late")
				return nil
			}
			return err
		})
		must[*graph.Snapshot[turns]](t)(g.Thread("t").Invoke(t.Context(), g.Input(say("a"))))
		_, err := g.Thread("t").Invoke(t.Context(), g.Answer(3))
		wantErr[*graph.AnswerError](t, err)
		time.Sleep(2 * time.Hour)
		snap := must[*graph.Snapshot[turns]](t)(g.Thread("t").Invoke(t.Context(), g.Continue()))
		equal(t, "said", said(&snap.State), "a late")
	})
}

// schemaAsked returns the schema of the question that asks for a T.
func schemaAsked[T any](t *testing.T) string {
	t.Helper()
	snap := must[*graph.Snapshot[trail]](t)(asks[T](t, checkpoint.NewMemory()).Thread("t").Invoke(bg, graph.Requests[trail]{}.Input(func(*trail) error { return nil })))
	return string(snap.Interrupts[0].Schema)
}

func TestTheSchemaOfAnAnswerTakesWhatItsTypeWrites(t *testing.T) {
	type form struct {
		Scan []byte    `json:"scan"`
		At   time.Time `json:"at"`
	}
	at := time.Date(2026, 3, 1, 10, 0, 0, 5000, time.FixedZone("", -3600))
	t.Run("bytes", func(t *testing.T) {
		refusedThenAnswered[[]byte](t, []string{`[1,2]`, `"%"`, `"abc"`}, string(must[[]byte](t)(json.Marshal([]byte("hi")))), "[104 105]")
	})
	t.Run("a struct", func(t *testing.T) {
		refusedThenAnswered[form](t, []string{`{"scan":[1],"at":"2026-03-01T10:00:00Z"}`, `{"scan":"aGk=","at":"soon"}`},
			string(must[[]byte](t)(json.Marshal(form{[]byte("hi"), at}))), "{[104 105] 2026-03-01 10:00:00.000005 -0100 -0100}")
	})
	t.Run("the largest numbers", func(t *testing.T) {
		refusedThenAnswered[int64](t, []string{`1e19`}, `9223372036854775807`, "9223372036854775807")
		refusedThenAnswered[uint64](t, []string{`-1`, `1e20`}, `18446744073709551615`, "18446744073709551615")
	})
	t.Run("maps by small numbers", func(t *testing.T) {
		refusedThenAnswered[map[uint8]string](t, []string{`{"-1":"a"}`, `{"256":"a"}`}, `{"255":"a"}`, "map[255:a]")
	})
}

func TestTheSchemasOfStatesAndAnswersAgree(t *testing.T) {
	type form struct {
		Scan []byte
		At   time.Time
		N    json.Number
	}
	type state struct{ Form graph.Value[form] }
	b := graph.New[state]("g")
	b.AddNode("a", func(context.Context, *state) error { return nil })
	b.AddEdge(graph.Start, "a")
	var all struct {
		Properties struct{ Form json.RawMessage }
	}
	if err := json.Unmarshal(must[json.RawMessage](t)(compile(t, b).JSONSchema(graph.JSONState)), &all); err != nil {
		t.Fatal(err)
	}
	for what, schema := range map[string]string{"state": string(all.Properties.Form), "answer": schemaAsked[form](t)} {
		var of struct {
			Properties struct{ Scan, At, N map[string]any }
		}
		if err := json.Unmarshal([]byte(schema), &of); err != nil {
			t.Fatal(err)
		}
		equal(t, what+": bytes", fmt.Sprint(of.Properties.Scan["type"], of.Properties.Scan["contentEncoding"]), "[null string]base64")
		equal(t, what+": time", fmt.Sprint(of.Properties.At["type"], of.Properties.At["format"]), "stringdate-time")
		equal(t, what+": number", fmt.Sprint(of.Properties.N["type"]), "number")
	}
}

func TestAQuestionWithABrokenSchemaIsNotAsked(t *testing.T) {
	for _, schema := range []string{
		`{"type":`, `{"type":"nope"}`, `{"type":["string","nope"]}`, `{"pattern":"("}`, `{"$ref":"#/nowhere"}`,
		`{"properties":{"x":{"items":{"type":"nope"}}}}`, `{"anyOf":[{"type":"nope"}]}`, `3`,
	} {
		_, err := asks[any](t, checkpoint.NewMemory(), graph.AnswerSchema(json.RawMessage(schema))).Thread("t").Invoke(bg, graph.Requests[trail]{}.Input(func(*trail) error { return nil }))
		equal(t, schema, wantErr[*graph.CallError](t, err).Key, "k")
		b := visits(graph.New[trail]("g"), "a").AddEdge(graph.Start, "a")
		_, err = b.Compile(graph.InputSchema("a", json.RawMessage(schema)))
		e := wantErr[*graph.CompileError](t, err)
		if len(e.Problems) != 1 || e.Problems[0].Name != "a" || !strings.Contains(e.Error(), "JSON Schema") {
			t.Errorf("%s: %v", schema, e)
		}
	}
	_, err := asks[any](t, checkpoint.NewMemory(), graph.AnswerSchema(json.RawMessage(`{"properties":{"type":{"enum":[{"type":"nope"}]}}}`))).Thread("t").Invoke(bg, graph.Requests[trail]{}.Input(func(*trail) error { return nil }))
	if err != nil {
		t.Error(err)
	}
}

func TestNamesThatCannotBeRecordedAreRefused(t *testing.T) {
	const bad = "a\xff"
	one := func(context.Context, string) (int, error) { return 1, nil }
	for what, call := range map[string]func(ctx context.Context) error{
		"Interrupt": func(ctx context.Context) error { _, err := graph.Interrupt[int](ctx, bad, nil); return err },
		"WaitFor":   func(ctx context.Context) error { _, err := graph.WaitFor[int](ctx, "", bad); return err },
		"Sleep":     func(ctx context.Context) error { return graph.Sleep(ctx, bad, time.Hour) },
		"Once":      func(ctx context.Context) error { _, err := graph.Once(ctx, bad, one); return err },
		"Once in a scope": func(ctx context.Context) error {
			_, err := graph.Once(graph.Scope(ctx, bad), "x", one)
			return err
		},
		"Once without a name":     func(ctx context.Context) error { _, err := graph.Once(ctx, "", one); return err },
		"Once without a function": func(ctx context.Context) error { _, err := graph.Once[int](ctx, "x", nil); return err },
	} {
		b := graph.New[trail]("g")
		b.AddNode("a", func(ctx context.Context, _ *trail) error { return call(ctx) })
		b.AddEdge(graph.Start, "a")
		_, err := compile(t, b, stored()...).Thread("t").Invoke(bg, graph.Requests[trail]{}.Input(func(*trail) error { return nil }))
		e := wantErr[*graph.CallError](t, err)
		equal(t, "node", e.Node, "a")
		equal(t, what+" is the call", strings.HasPrefix(what, e.Call), true)
	}
	for _, b := range []*graph.Builder[trail]{
		visits(graph.New[trail]("g"), bad).AddEdge(graph.Start, bad),
		visits(graph.New[trail](bad), "a").AddEdge(graph.Start, "a"),
	} {
		_, err := b.Compile()
		if e := wantErr[*graph.CompileError](t, err); !strings.Contains(e.Error(), "UTF-8") {
			t.Error(e)
		}
	}
	g := asks[int](t, checkpoint.NewMemory())
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	if err := g.Thread("t").SendEvent(bg, bad, 1); err == nil || !strings.Contains(err.Error(), "UTF-8") {
		t.Errorf("event: %v", err)
	}
}
