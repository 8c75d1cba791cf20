package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

type form struct {
	Name    string
	Age     int
	Answers graph.Map[string, string]
	Log     graph.List[string]
}

func TestSeveralQuestionsOfOneNodeAreAnsweredInOrder(t *testing.T) { // SONI-07
	store := checkpoint.NewMemory()
	before := 0
	build := func() *graph.Graph[form] {
		b := graph.New[form]("form")
		b.AddNode("ask", func(ctx context.Context, s *form) error {
			before++
			name, err := graph.Interrupt[string](ctx, "name", "Your name?")
			if err != nil {
				return err
			}
			age, err := graph.Interrupt[int](ctx, "age", "Your age, "+name+"?")
			if err != nil {
				return err
			}
			s.Name, s.Age = name, age
			return nil
		})
		b.AddEdge(graph.Start, "ask")
		return compile(t, b, graph.WithCheckpointer(store))
	}
	snap := must[*graph.Snapshot[form]](t)(build().Thread("t").Invoke(bg, graph.Requests[form]{}.Input(func(*form) error { return nil })))
	equal(t, "question", fmt.Sprint(snap.Interrupts[0].Value), "Your name?")
	first := snap.Interrupts[0].ID
	snap = must[*graph.Snapshot[form]](t)(build().Thread("t").Invoke(bg, graph.Requests[form]{}.Answer("Alice"))) // as another process would
	equal(t, "question", fmt.Sprint(snap.Interrupts[0].Value), "Your age, Alice?")
	if snap.Interrupts[0].ID == first {
		t.Error("two questions have one ID")
	}
	snap = must[*graph.Snapshot[form]](t)(build().Thread("t").Invoke(bg, graph.Requests[form]{}.Answer(25)))
	equal(t, "name", snap.State.Name, "Alice")
	equal(t, "age", snap.State.Age, 25)
	equal(t, "runs of the node", before, 3)
}

func TestW5AnswerFollowsItsKeyWhenTheCodeChanges(t *testing.T) {
	store := checkpoint.NewMemory()
	build := func(confirmFirst bool) *graph.Graph[form] {
		b := graph.New[form]("form")
		b.AddNode("ask", func(ctx context.Context, s *form) error {
			if confirmFirst {
				ok, err := graph.Interrupt[string](ctx, "confirm", "confirm?")
				if err != nil {
					return err
				}
				s.Log.Add("confirm=" + ok)
			}
			amount, err := graph.Interrupt[string](ctx, "amount", "amount?")
			if err != nil {
				return err
			}
			s.Log.Add("amount=" + amount)
			return nil
		})
		b.AddEdge(graph.Start, "ask")
		return compile(t, b, graph.WithCheckpointer(store))
	}
	must[*graph.Snapshot[form]](t)(build(false).Thread("t").Invoke(bg, graph.Requests[form]{}.Input(func(*form) error { return nil })))
	snap := must[*graph.Snapshot[form]](t)(build(true).Thread("t").Invoke(bg, graph.Requests[form]{}.Answer(graph.Answers{"amount": "100"})))
	equal(t, "open", snap.Interrupts[0].Key, "confirm")
	snap = must[*graph.Snapshot[form]](t)(build(true).Thread("t").Invoke(bg, graph.Requests[form]{}.Answer("yes")))
	equal(t, "log", strings.Join(snap.State.Log.Slice(), " "), "confirm=yes amount=100")
}

func TestW5QuestionsFromSeveralGoroutines(t *testing.T) { // TRPC-59
	for range 20 {
		b := graph.New[form]("form")
		b.AddNode("ask", func(ctx context.Context, s *form) error {
			keys := []string{"a", "b", "c"}
			answers := make([]string, len(keys))
			errs := make([]error, len(keys))
			var wg sync.WaitGroup
			for i, k := range keys {
				wg.Go(func() { answers[i], errs[i] = graph.Interrupt[string](ctx, k, k+"?") })
			}
			wg.Wait()
			if err := errors.Join(errs...); err != nil {
				return err
			}
			for i, k := range keys {
				s.Answers.Put(k, answers[i])
			}
			return nil
		})
		b.AddEdge(graph.Start, "ask")
		g := compile(t, b, stored()...)
		snap := must[*graph.Snapshot[form]](t)(g.Thread("t").Invoke(bg, g.Input(func(*form) error { return nil })))
		equal(t, "questions", len(snap.Interrupts), 3)
		_, err := g.Thread("t").Invoke(bg, g.Answer("which?"))
		wantErr[*graph.AnswerError](t, err)
		snap = must[*graph.Snapshot[form]](t)(g.Thread("t").Invoke(bg, g.Answer(graph.Answers{"a": "1", "c": "3"})))
		equal(t, "still open", snap.Interrupts[0].Key, "b")
		snap = must[*graph.Snapshot[form]](t)(g.Thread("t").Invoke(bg, g.Answer("2")))
		for k, want := range map[string]string{"a": "1", "b": "2", "c": "3"} {
			got, _ := snap.State.Answers.Get(k)
			equal(t, k, got, want)
		}
	}
}

func TestW5UnknownStaleAndDuplicateAnswersAreRefused(t *testing.T) { // TRPC-57
	runs := 0
	b := graph.New[form]("form")
	b.AddNode("ask", func(ctx context.Context, s *form) error {
		runs++
		if _, err := graph.Interrupt[string](ctx, "first", 1); err != nil {
			return err
		}
		_, err := graph.Interrupt[string](ctx, "second", 2)
		return err
	})
	b.AddEdge(graph.Start, "ask")
	g := compile(t, b, stored()...)
	snap := must[*graph.Snapshot[form]](t)(g.Thread("t").Invoke(bg, g.Input(func(*form) error { return nil })))
	id := snap.Interrupts[0].ID
	refused := func(answer any) *graph.AnswerError {
		t.Helper()
		at := must[*graph.Snapshot[form]](t)(g.Thread("t").State(bg)).Checkpoint
		n := runs
		_, err := g.Thread("t").Invoke(bg, g.Answer(answer))
		e := wantErr[*graph.AnswerError](t, err)
		equal(t, "runs of the node", runs, n)
		equal(t, "checkpoint", must[*graph.Snapshot[form]](t)(g.Thread("t").State(bg)).Checkpoint, at)
		return e
	}
	if e := refused(graph.Answers{"frist": "x"}); !strings.Contains(e.Error(), `"first"`) {
		t.Errorf("no suggestion in %v", e)
	}
	refused(graph.Answers{"first": "x", id: "y"}) // the same question twice
	refused(42)                                   // of the wrong type
	refused(nil)
	must[*graph.Snapshot[form]](t)(g.Thread("t").Invoke(bg, g.Answer("x")))
	refused(graph.Answers{"first": "again"}) // answered before
	refused(graph.Answers{id: "again"})
	must[*graph.Snapshot[form]](t)(g.Thread("t").Invoke(bg, g.Answer("y")))
	if _, err := g.Thread("t").Invoke(bg, g.Answer("late")); !errors.Is(err, graph.ErrNothingToResume) {
		t.Fatal(err)
	}
}

func TestW5NullIsAnAnswer(t *testing.T) {
	b := graph.New[form]("form")
	b.AddNode("ask", func(ctx context.Context, s *form) error {
		v, err := graph.Interrupt[*string](ctx, "maybe", nil)
		if err != nil {
			return err
		}
		s.Log.Add(fmt.Sprint(v == nil))
		return nil
	})
	b.AddEdge(graph.Start, "ask")
	g := compile(t, b, stored()...)
	must[*graph.Snapshot[form]](t)(g.Thread("t").Invoke(bg, g.Input(func(*form) error { return nil })))
	snap := must[*graph.Snapshot[form]](t)(g.Thread("t").Invoke(bg, g.Answer(nil)))
	equal(t, "log", snap.State.Log.Last(), "true")
}

func TestW5QuestionInALoopAsksOncePerVisit(t *testing.T) {
	asked := &calls{}
	b := graph.New[form]("form")
	b.AddNode("ask", func(ctx context.Context, s *form) error {
		asked.add("ask")
		v, err := graph.Interrupt[string](ctx, "next", s.Log.Len())
		if err != nil {
			return err
		}
		s.Log.Add(v)
		return nil
	})
	b.AddEdge(graph.Start, "ask")
	b.AddConditionalEdges("ask", func(_ context.Context, s *form) (graph.Command, error) {
		if s.Log.Len() == 3 {
			return graph.Goto(graph.End), nil
		}
		return graph.Goto("ask"), nil
	}, "ask", graph.End)
	g := compile(t, b, stored()...)
	snap := must[*graph.Snapshot[form]](t)(g.Thread("t").Invoke(bg, g.Input(func(*form) error { return nil })))
	ids := map[string]bool{}
	for i := range 3 {
		equal(t, "question", fmt.Sprint(snap.Interrupts[0].Value), fmt.Sprint(i))
		ids[snap.Interrupts[0].ID] = true
		snap = must[*graph.Snapshot[form]](t)(g.Thread("t").Invoke(bg, g.Answer(fmt.Sprint("v", i))))
	}
	equal(t, "answers", strings.Join(snap.State.Log.Slice(), " "), "v0 v1 v2")
	equal(t, "distinct IDs", len(ids), 3)
	equal(t, "runs", asked.of("ask"), 6)
}

func TestW5ParallelTasksAskAndAnsweredOnesDontAskAgain(t *testing.T) {
	ran := &calls{}
	b := graph.New[form]("form")
	for _, n := range []string{"x", "y", "z"} {
		b.AddEdge(graph.Start, n)
		b.AddNode(n, func(ctx context.Context, s *form) error {
			ran.add(n)
			if n == "z" {
				s.Answers.Put("z", "free")
				return nil
			}
			v, err := graph.Interrupt[string](ctx, "q", n)
			if err != nil {
				return err
			}
			s.Answers.Put(n, v)
			return nil
		})
	}
	g := compile(t, b, stored()...)
	snap := must[*graph.Snapshot[form]](t)(g.Thread("t").Invoke(bg, g.Input(func(*form) error { return nil })))
	equal(t, "questions", len(snap.Interrupts), 2)
	if v, _ := snap.State.Answers.Get("z"); v != "free" {
		t.Error("the finished sibling's result is not shown")
	}
	_, err := g.Thread("t").Invoke(bg, g.Answer(graph.Answers{"q": "which of the two?"}))
	wantErr[*graph.AnswerError](t, err)
	x, y := snap.Interrupts[0], snap.Interrupts[1]
	equal(t, "first asks in plan order", x.Node, "x")
	snap = must[*graph.Snapshot[form]](t)(g.Thread("t").Invoke(bg, g.Answer(graph.Answers{y.ID: "Y"})))
	equal(t, "open", len(snap.Interrupts), 1)
	equal(t, "runs of y", ran.of("y"), 2)
	snap = must[*graph.Snapshot[form]](t)(g.Thread("t").Invoke(bg, g.Answer("X")))
	equal(t, "runs of x", ran.of("x"), 2)
	equal(t, "runs of y", ran.of("y"), 2)
	equal(t, "runs of z", ran.of("z"), 1)
	if v, _ := snap.State.Answers.Get("y"); v != "Y" {
		t.Errorf("y got %q", v)
	}
}

func TestAKeyTwiceInOneExecutionIsAnError(t *testing.T) {
	b := graph.New[form]("form")
	b.AddNode("ask", func(ctx context.Context, s *form) error {
		_, err1 := graph.Interrupt[string](ctx, "k", 1)
		_, err2 := graph.Interrupt[string](ctx, "k", 2)
		s.Log.Add(fmt.Sprint(err2))
		equal(t, "key", wantErr[*graph.CallError](t, err2).Key, "k")
		return err1
	})
	b.AddEdge(graph.Start, "ask")
	g := compile(t, b, stored()...)
	must[*graph.Snapshot[form]](t)(g.Thread("t").Invoke(bg, g.Input(func(*form) error { return nil })))
}

func TestWritesAreDroppedWhileAQuestionIsOpen(t *testing.T) {
	b := graph.New[form]("form")
	b.AddNode("ask", func(ctx context.Context, s *form) error {
		s.Log.Add("wrote")
		_, _ = graph.Interrupt[string](ctx, "k", 1)
		return nil // the node swallows the error
	}, graph.Retry(graph.RetryPolicy{MaxAttempts: 5}))
	b.AddEdge(graph.Start, "ask")
	g := compile(t, b, stored()...)
	snap := must[*graph.Snapshot[form]](t)(g.Thread("t").Invoke(bg, g.Input(func(*form) error { return nil })))
	equal(t, "log", snap.State.Log.Len(), 0)
	equal(t, "interrupted", len(snap.Interrupts) > 0, true)
	snap = must[*graph.Snapshot[form]](t)(g.Thread("t").Invoke(bg, g.Answer("x")))
	equal(t, "log", snap.State.Log.Len(), 1)
}

func TestPositionalQuestionsMatchByWhatTheySay(t *testing.T) {
	store := checkpoint.NewMemory()
	build := func(text string) *graph.Graph[form] {
		b := graph.New[form]("form")
		b.AddNode("ask", func(ctx context.Context, s *form) error {
			v, err := graph.Interrupt[string](ctx, "", text)
			if err != nil {
				return err
			}
			s.Log.Add(v)
			return nil
		})
		b.AddEdge(graph.Start, "ask")
		return compile(t, b, graph.WithCheckpointer(store))
	}
	must[*graph.Snapshot[form]](t)(build("amount?").Thread("t").Invoke(bg, graph.Requests[form]{}.Input(func(*form) error { return nil })))
	snap := must[*graph.Snapshot[form]](t)(build("confirm?").Thread("t").Invoke(bg, graph.Requests[form]{}.Answer("100")))
	equal(t, "asked anew", fmt.Sprint(snap.Interrupts[0].Value), "confirm?")
	snap = must[*graph.Snapshot[form]](t)(build("confirm?").Thread("t").Invoke(bg, graph.Requests[form]{}.Answer("yes")))
	equal(t, "log", snap.State.Log.Last(), "yes")
}

func TestStaticBreakpointBefore(t *testing.T) { // SYN-24 to 26, SONI-48, W7-17
	b := visits(graph.New[trail]("g"), "agent", "tools")
	b.AddEdge(graph.Start, "agent")
	b.AddEdge("agent", "tools")
	b.AddConditionalEdges("tools", func(_ context.Context, s *trail) (graph.Command, error) {
		if s.Ran.Len() >= 4 {
			return graph.Goto(graph.End), nil
		}
		return graph.Goto("agent"), nil
	}, "agent", graph.End)
	g := compile(t, b, append(stored(), graph.InterruptBefore("tools"))...)
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	equal(t, "ran", snap.State.ran(), "agent")
	equalSlice(t, "next", snap.Next, []string{"tools"})
	if err := snap.Err(); err == nil || err.Error() != "interrupted before node 'tools'" {
		t.Errorf("error is %v", err)
	}
	edited := must[*graph.Snapshot[trail]](t)(g.Thread("t").Edit(bg, func(s *trail) error {
		s.Note = "edited"
		return nil
	}))
	equal(t, "source", edited.Source, "update")
	equalSlice(t, "next after the edit", edited.Next, []string{"tools"})
	snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
	equal(t, "ran: resumed by the same graph, paused again at the second visit", snap.State.ran(), "agent tools agent")
	equal(t, "note", snap.State.Note, "edited")
	snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
	equal(t, "ran", snap.State.ran(), "agent tools agent tools")
	equal(t, "done", snap.Done(), true)
}

func TestStaticBreakpointAfterAlsoWithACommand(t *testing.T) { // SYN-27, SONI-49
	b := graph.New[trail]("g")
	b.AddCommandNode("a", func(_ context.Context, s *trail) (graph.Command, error) {
		s.Ran.Add("a")
		return graph.Goto("c"), nil
	}, graph.Destinations("c"))
	visits(b, "b", "c")
	b.AddEdge(graph.Start, "a").AddEdge("a", "b").AddEdge("c", "b")
	g := compile(t, b, append(stored(), graph.InterruptAfter("a"))...)
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	equal(t, "ran", snap.State.ran(), "a")
	equalSlice(t, "next", snap.Next, []string{"c"})
	equal(t, "error", snap.Err().Error(), "interrupted after node 'a'")
	snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(nil)))
	equal(t, "ran", snap.State.ran(), "a c b")
}

func TestWildcardBreakpoints(t *testing.T) { // SONI-50, C-14
	for _, when := range []string{"before", "after"} {
		b := visits(graph.New[trail]("g"), "a", "b", "c")
		b.AddEdge(graph.Start, "a").AddSequence("a", "b", "c")
		opt := graph.InterruptBefore("*")
		if when == "after" {
			opt = graph.InterruptAfter("*")
		}
		g := compile(t, b, append(stored(), opt)...)
		snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
		pauses := 0
		for !snap.Done() {
			pauses++
			if pauses > 10 {
				t.Fatal("does not end")
			}
			equal(t, "when", snap.Interrupts[0].When, when)
			snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
		}
		equal(t, when+": pauses", pauses, 3)
		equal(t, when+": ran", snap.State.ran(), "a b c")
	}
}

func TestW17BreakpointHoldsItsNodeOnly(t *testing.T) {
	b := visits(graph.New[trail]("g"), "x", "y")
	b.AddEdge(graph.Start, "x").AddEdge(graph.Start, "y")
	g := compile(t, b, append(stored(), graph.InterruptBefore("x"))...)
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	equal(t, "shown", snap.State.ran(), "y")
	equal(t, "interrupt", snap.Interrupts[0].Node, "x")
	snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
	equal(t, "ran in plan order", snap.State.ran(), "x y")
}

func TestBreakpointsOfOneRunAndUnknownOnes(t *testing.T) { // W7-17
	b := visits(graph.New[trail]("g"), "a", "b")
	b.AddEdge(graph.Start, "a").AddEdge("a", "b")
	g := compile(t, b, stored()...)
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }), graph.InterruptBefore("b")))
	equal(t, "ran", snap.State.ran(), "a")
	_, err := g.Thread("t").Invoke(bg, g.Continue(), graph.InterruptBefore("bb"))
	wantErr[*graph.InvalidEdgeError](t, err)
	_, err = b.Compile(graph.InterruptBefore("nope"))
	wantErr[*graph.CompileError](t, err)
}

func TestInputSchemaOfABreakpoint(t *testing.T) { // W7-36
	b := visits(graph.New[trail]("g"), "draft", "review")
	b.AddEdge(graph.Start, "draft").AddEdge("draft", "review")
	schema := []byte(`{"type":"object","properties":{"N":{"type":"integer"}},"required":["N"],"additionalProperties":false}`)
	g := compile(t, b, append(stored(), graph.InterruptBefore("review"), graph.InputSchema("review", schema))...)
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	equal(t, "schema", string(snap.Interrupts[0].Schema), string(schema))
	_, err := g.Thread("t").Invoke(bg, g.Answer(map[string]any{"N": "many"}))
	wantErr[*graph.AnswerError](t, err)
	snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(map[string]any{"N": 3})))
	equal(t, "N", snap.State.N, 3)
	equal(t, "ran", snap.State.ran(), "draft review")
}

// A validator would follow it until its stack ends the process.
func TestAnswersToASchemaThatLeadsToItselfAreRefused(t *testing.T) {
	b := visits(graph.New[trail]("g"), "review").AddEdge(graph.Start, "review")
	for _, schema := range []string{`{"$ref":"#"}`, `{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"anyOf":[{"$ref":"#"}]}}}`} {
		_, err := b.Compile(append(stored(), graph.InterruptBefore("review"), graph.InputSchema("review", []byte(schema)))...)
		if err == nil || !strings.Contains(err.Error(), "leads to itself") {
			t.Errorf("%s: %v", schema, err)
		}
	}
	tree := `{"type":"object","properties":{"next":{"$ref":"#"}}}` // which goes into the value
	if _, err := b.Compile(append(stored(), graph.InterruptBefore("review"), graph.InputSchema("review", []byte(tree)))...); err != nil {
		t.Error(err)
	}
}

func TestResumeWithAnEdit(t *testing.T) { // SONI-51
	b := graph.New[trail]("g")
	seen := ""
	b.AddNode("a", func(ctx context.Context, s *trail) error {
		seen = s.Note
		v, err := graph.Interrupt[string](ctx, "k", nil)
		if err != nil {
			return err
		}
		s.Ran.Add(v)
		return nil
	})
	b.AddEdge(graph.Start, "a")
	g := compile(t, b, stored()...)
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer("yes", func(s *trail) error {
		s.Note = "from outside"
		return nil
	})))
	equal(t, "seen before the interrupt call", seen, "from outside")
	equal(t, "ran", snap.State.ran(), "yes")
}

func TestInterruptWithoutACheckpointer(t *testing.T) {
	b := graph.New[form]("form")
	b.AddNode("ask", func(ctx context.Context, s *form) error {
		_, err := graph.Interrupt[string](ctx, "k", 1)
		return err
	})
	b.AddEdge(graph.Start, "ask")
	_, err := compile(t, b).Invoke(bg, nil)
	if !errors.Is(err, graph.ErrNoCheckpointer) {
		t.Fatal(err)
	}
	_, err = graph.Interrupt[string](bg, "k", 1)
	if !errors.Is(err, graph.ErrNotInNode) {
		t.Fatal(err)
	}
	if _, err := compile(t, b).Invoke(bg, nil, graph.InterruptBefore("ask")); !errors.Is(err, graph.ErrNoCheckpointer) {
		t.Fatal(err)
	}
}

func TestFailureAfterAnAnswerLeavesItGiven(t *testing.T) { // SONI-43
	fail := true
	b := graph.New[form]("form")
	b.AddNode("ask", func(ctx context.Context, s *form) error {
		v, err := graph.Interrupt[string](ctx, "k", 1)
		if err != nil {
			return err
		}
		if fail {
			return errBoom
		}
		s.Log.Add(v)
		return nil
	})
	b.AddEdge(graph.Start, "ask")
	g := compile(t, b, stored()...)
	must[*graph.Snapshot[form]](t)(g.Thread("t").Invoke(bg, g.Input(func(*form) error { return nil })))
	snap, err := g.Thread("t").Invoke(bg, g.Answer("answer"))
	if !errors.Is(err, errBoom) {
		t.Fatal(err)
	}
	equalSlice(t, "next", snap.Next, []string{"ask"})
	fail = false
	snap = must[*graph.Snapshot[form]](t)(g.Thread("t").Invoke(bg, g.Continue()))
	equal(t, "log", snap.State.Log.Last(), "answer")
}

// A refusal says what is wrong and where, in terms of the answer.
func TestARefusedAnswerIsExplained(t *testing.T) {
	type place struct {
		City string `json:"city"`
	}
	type party struct {
		Guests int      `json:"guests"`
		Where  place    `json:"where"`
		Names  []string `json:"names,omitempty"`
	}
	b := graph.New[form]("form")
	b.AddNode("ask", func(ctx context.Context, _ *form) error {
		_, err := graph.Interrupt[party](ctx, "party", nil)
		return err
	})
	b.AddEdge(graph.Start, "ask")
	g := compile(t, b, stored()...)
	must[*graph.Snapshot[form]](t)(g.Thread("t").Invoke(bg, g.Input(func(*form) error { return nil })))
	for answer, want := range map[string]string{
		`"four"`:                         `must be an object, not "four"`,
		`{"guests":4}`:                   `where: is missing, an object`,
		`{"guests":4,"where":{"abc":1}}`: `where.city: is missing, a string; where.abc: unknown field; remove it`,
		`{"guests":4,"where":{"city":{"name":"Bonn"}}}`:             `where.city: must be a string, not {"name":"Bonn"}`,
		`{"guests":"4","where":{"city":"Bonn"}}`:                    `guests: must be an integer, not "4"`,
		`{"guests":4,"where":{"city":"Bonn"},"names":["Kim",null]}`: `names[1]: must be a string, not null`,
	} {
		_, err := g.Thread("t").Invoke(bg, g.Answer(json.RawMessage(answer)))
		e := wantErr[*graph.AnswerError](t, err)
		if text := e.Error(); !strings.Contains(text, want) || strings.Contains(text, "/properties/") || strings.Contains(text, "map[") {
			t.Errorf("%s: %s", answer, text)
		}
	}
}

func TestHistoryNamesTheNodesThatWait(t *testing.T) {
	asks := func(ctx context.Context, _ *trail) error { _, err := graph.Interrupt[bool](ctx, "k", nil); return err }
	b := graph.New[trail]("g").AddNode("done", visit("done")).AddNode("p", asks).AddNode("q", asks).AddNode("stops", visit("stops"))
	b.AddEdge(graph.Start, "done").AddEdge(graph.Start, "p").AddEdge(graph.Start, "q").AddEdge("p", "stops")
	g := compile(t, b, append(stored(), graph.InterruptBefore("stops"))...)
	newest := func() graph.Entry[trail] { return entriesOf(t, g.Thread("t"))[0] }

	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	equal(t, "source", newest().Source, "interrupt")
	equalSlice(t, "next", newest().Next, []string{"p", "q"})
	equalSlice(t, "next of the state", snap.Next, []string{"p", "q"})
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(graph.Answers{snap.Interrupts[0].ID: true, snap.Interrupts[1].ID: true})))
	equalSlice(t, "next at a breakpoint", newest().Next, []string{"stops"})
}

func TestAnInputPassesNoBreakpoint(t *testing.T) {
	for name, c := range map[string]struct {
		opt  graph.ThreadOption
		held tally
	}{"before": {graph.InterruptBefore("two"), tally{N: 1}}, "after": {graph.InterruptAfter("one"), tally{N: 1}}} {
		t.Run(name, func(t *testing.T) {
			ctx, th := t.Context(), twoSteps(t).Thread("t", c.opt)
			if snap, err := th.Invoke(ctx, th.Input(func(*tally) error { return nil })); err != nil || snap.State != c.held || len(snap.Interrupts) != 1 {
				t.Fatal(snap.State, snap.Interrupts, err)
			}
			snap, err := th.Invoke(ctx, th.Input(func(s *tally) error { s.N += 10; return nil }))
			if err != nil || snap.State.N != 11 || len(snap.Interrupts) != 1 {
				t.Fatal(snap.State, snap.Interrupts, err)
			}
			if snap, err = th.Invoke(ctx, th.Continue()); err != nil || snap.State.N != 12 || !snap.Done() {
				t.Fatal(snap.State, err)
			}
		})
	}
}
