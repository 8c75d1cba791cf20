package graph_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// toolLog is an observer that knows of tools.
type toolLog struct {
	mu   sync.Mutex // so that a test may read while a run goes on
	seen []string
}

func (l *toolLog) add(what string, ev graph.Event) {
	if !l.mu.TryLock() {
		panic("an observer was called twice at once")
	}
	defer l.mu.Unlock()
	if ev.Value != nil {
		what += fmt.Sprint(" ", ev.Value)
	}
	l.seen = append(l.seen, what+" "+ev.Node)
}

func (l *toolLog) OnNodeEnter(ev graph.Event)       { l.add("enter", ev) }
func (l *toolLog) OnNodeExit(ev graph.Event)        { l.add("exit", ev) }
func (l *toolLog) OnError(ev graph.Event)           { l.add("error", ev) }
func (*toolLog) OnInterrupt(graph.Event)            {}
func (l *toolLog) OnCheckpointSaved(ev graph.Event) {}
func (l *toolLog) OnToolCall(ev graph.Event)        { l.add("call", ev) }
func (l *toolLog) OnToolResult(ev graph.Event)      { l.add("result", ev) }

func callTool(name string) func(context.Context, *toolState) error {
	return func(ctx context.Context, s *toolState) error {
		returned, err := graph.EmitToolCall(ctx, name)
		if err != nil {
			return err
		}
		return returned(name)
	}
}

type toolState struct{ N int }

func TestAnObserverIsToldOfTools(t *testing.T) { // W5-24
	g := graph.New[toolState]("g").
		AddNode("a", callTool("x")).
		AddEdge(graph.Start, "a").
		MustCompile()
	var l toolLog
	if _, err := g.Invoke(t.Context(), nil, graph.Observe(&l)); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(l.seen, ", "); got != "enter a, call x a, result x a, exit a" {
		t.Error(got)
	}
}

// Tools of parallel nodes are told one at a time.
func TestObserversAreNotCalledAtOnce(t *testing.T) {
	b := graph.New[toolState]("g")
	for i := range 50 {
		name := fmt.Sprint("n", i)
		b.AddNode(name, callTool("x")).AddEdge(graph.Start, name)
	}
	var l toolLog
	if _, err := b.MustCompile().Invoke(t.Context(), nil, graph.Observe(&l)); err != nil {
		t.Fatal(err)
	}
	if len(l.seen) != 200 {
		t.Errorf("%d events", len(l.seen))
	}
}

func TestToolsAreStreamed(t *testing.T) {
	g := graph.New[toolState]("g").AddNode("a", callTool("x")).AddEdge(graph.Start, "a").MustCompile()
	var types []graph.EventType
	for ev, err := range g.Stream(t.Context(), nil, graph.Modes(graph.ModeTools)) {
		if err != nil {
			t.Fatal(err)
		}
		types = append(types, ev.Type)
	}
	if !slices.Equal(types, []graph.EventType{graph.EventToolCall, graph.EventToolResult}) {
		t.Error(types)
	}
	if _, err := graph.EmitToolCall(t.Context(), "x"); !errors.Is(err, graph.ErrNotInNode) {
		t.Errorf("outside of a node: %v", err)
	}
}

func TestTheErrorOfAQuestionIsToldFromAFailure(t *testing.T) {
	var asked error
	g := graph.New[toolState]("g").
		AddNode("a", func(ctx context.Context, _ *toolState) error {
			_, asked = graph.Interrupt[bool](ctx, "k", "?")
			return fmt.Errorf("wrapped: %w", asked)
		}).
		AddEdge(graph.Start, "a").
		MustCompile(graph.WithCheckpointer(checkpoint.NewMemory()))
	snap, err := g.Thread("t").Invoke(t.Context(), g.Input(func(*toolState) error { return nil }))
	if err != nil || len(snap.Interrupts) == 0 || !errors.Is(fmt.Errorf("x: %w", asked), graph.ErrInterrupted) {
		t.Errorf("%v, %v, %v", snap, err, asked)
	}
	if errors.Is(errors.New("x"), graph.ErrInterrupted) || errors.Is(nil, graph.ErrInterrupted) {
		t.Error("a failure is taken for a question")
	}
}

func TestMistakesOfPrebuiltNodesAreReportedAtCompile(t *testing.T) {
	b := graph.New[toolState]("g").AddNode("a", callTool("x")).AddEdge(graph.Start, "a")
	b.Mistake("a", nil)
	if _, err := b.Compile(); err != nil {
		t.Fatal(err)
	}
	_, err := b.Mistake("a", errors.New("needs a model")).Mistake("b", errors.New("no name")).Compile()
	var ce *graph.CompileError
	if !errors.As(err, &ce) || len(ce.Problems) != 2 || ce.Problems[0].Name != "a" || !strings.Contains(err.Error(), "needs a model") || !strings.Contains(err.Error(), "no name") {
		t.Errorf("got %v", err)
	}
}
