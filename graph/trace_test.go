package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/cache"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// parts is a tracer that writes down what it is told, as a tree.
type parts struct {
	mu   sync.Mutex
	root part
}

type part struct {
	text     string
	children []*part
}

type partKey struct{}

func (p *parts) Begin(ctx context.Context, in graph.Part) (context.Context, func(graph.Outcome)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	parent, _ := ctx.Value(partKey{}).(*part)
	if parent == nil {
		parent = &p.root
	}
	me := &part{text: string(in.Kind)}
	switch in.Kind {
	case graph.PartRun:
		me.text += " " + in.Graph
		if in.Metadata != nil {
			in.Metadata["by"] = "parts"
		}
	case graph.PartStep:
		me.text += fmt.Sprintf(" %d of %d tasks", in.Step, in.Tasks)
	default:
		me.text += fmt.Sprintf(" %s %d in step %d", in.Node, in.Attempt, in.Step)
	}
	if in.Path != nil {
		me.text += " at " + strings.Join(in.Path, "/")
	}
	parent.children = append(parent.children, me)
	return context.WithValue(ctx, partKey{}, me), func(o graph.Outcome) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if o.Err != nil {
			me.text += fmt.Sprintf(": %v", o.Err)
		}
		if o.Cancelled {
			me.text += " (cancelled)"
		}
		if o.Retry {
			me.text += fmt.Sprintf(" (again in %v)", o.Delay)
		}
		if o.Cached {
			me.text += " (cached)"
		}
		for _, i := range o.Interrupts {
			me.text += fmt.Sprintf(" (asks %s %s %s)", strings.Join(i.Path, "/"), i.When, i.Key)
		}
		for _, w := range o.Waits {
			me.text += fmt.Sprintf(" (waits %s)", w.Key)
		}
		if o.Before != "" {
			me.text += " (goes on after " + o.BeforeMetadata["by"] + ")"
		}
		me.text += " ."
	}
}

// tree returns what was told. Parallel parts are in the order of their text.
func (p *parts) tree() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	var write func(*part, string)
	write = func(n *part, indent string) {
		slices.SortStableFunc(n.children, func(x, y *part) int {
			if strings.HasPrefix(x.text, "attempt") && strings.HasPrefix(y.text, "attempt") {
				return strings.Compare(x.text, y.text)
			}
			return 0
		})
		for _, c := range n.children {
			b.WriteString("\n" + indent + c.text)
			write(c, indent+"  ")
		}
	}
	write(&p.root, "\t\t")
	p.root = part{}
	return b.String()
}

func wantTree(t *testing.T, p *parts, want string) {
	t.Helper()
	if got := p.tree(); strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Errorf("told:%s\nwant:%s", got, want)
	}
}

func TestATracerFollowsARunAndItsContexts(t *testing.T) {
	p := &parts{}
	child := compile(t, visits(graph.New[trail]("child"), "inner").AddEdge(graph.Start, "inner"))
	b := visits(graph.New[trail]("g"), "left", "right")
	graph.AddSubgraph(b, "sub", child, graph.Mapping[trail, trail]{})
	b.AddEdge(graph.Start, "left").AddEdge(graph.Start, "right").AddJoin([]string{"left", "right"}, "sub")
	var router *part
	b.AddConditionalEdges("sub", func(ctx context.Context, _ *trail) (graph.Command, error) {
		router, _ = ctx.Value(partKey{}).(*part)
		return graph.Goto(graph.End), nil
	})
	g := compile(t, b, graph.Trace(p))
	if _, err := g.Invoke(bg, nil); err != nil {
		t.Fatal(err)
	}
	wantTree(t, p, `
		run g .
		  step 1 of 2 tasks .
		    attempt left 1 in step 1 .
		    attempt right 1 in step 1 .
		  step 2 of 1 tasks .
		    attempt sub 1 in step 2 .
		      run child at sub .
		        step 1 of 1 tasks at sub .
		          attempt inner 1 in step 1 at sub .`)
	if router == nil || !strings.HasPrefix(router.text, "step 2") {
		t.Errorf("a router's context comes from %+v", router)
	}
	if _, err := g.Invoke(bg, nil, graph.Trace(nil)); err != nil {
		t.Fatal(err)
	}
	wantTree(t, p, ``)
}

func TestATracerIsToldHowAttemptsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &parts{}
		boom := errors.New("boom")
		b := graph.New[trail]("g")
		n := 0
		b.AddNode("flaky", func(context.Context, *trail) error {
			if n++; n < 3 {
				return boom
			}
			return nil
		}, graph.Retry(graph.RetryPolicy{MaxAttempts: 3, Initial: time.Second, NoJitter: true}))
		b.AddNode("handled", func(context.Context, *trail) error { return boom }, graph.OnError(func(context.Context, *trail, *graph.NodeError) (graph.Command, error) {
			return graph.Command{}, nil
		}))
		b.AddNode("cached", visit("cached"), graph.Cache(graph.CachePolicy{Store: new(cache.Memory), Key: func(any, json.RawMessage) (string, error) { return "", nil }}))
		b.AddNode("fails", func(context.Context, *trail) error { return boom })
		b.AddNode("slow", func(ctx context.Context, _ *trail) error { <-ctx.Done(); return ctx.Err() })
		b.AddEdge(graph.Start, "flaky").AddEdge("flaky", "handled").AddEdge("handled", "cached").AddEdge("cached", "fails").AddEdge("cached", "slow")
		g := compile(t, b, graph.Trace(p))
		_, err := g.Invoke(bg, nil)
		if !errors.Is(err, boom) {
			t.Fatal(err)
		}
		wantTree(t, p, `
		run g: node "fails" failed in step 4: boom .
		  step 1 of 1 tasks .
		    attempt flaky 1 in step 1: boom (again in 1s) .
		    attempt flaky 2 in step 1: boom (again in 2s) .
		    attempt flaky 3 in step 1 .
		  step 2 of 1 tasks .
		    attempt handled 1 in step 2: boom .
		    handler handled 1 in step 2 .
		  step 3 of 1 tasks .
		    attempt cached 1 in step 3 .
		  step 4 of 2 tasks: node "fails" failed in step 4: boom .
		    attempt fails 1 in step 4: boom .
		    attempt slow 1 in step 4: another task of the superstep failed (cancelled) .`)
		_, _ = g.Thread("").Invoke(bg, g.Restart(nil, graph.Goto("cached")))
		if got := p.tree(); !strings.Contains(got, "attempt cached 0 in step 1 (cached) .") {
			t.Errorf("told:%s", got)
		}
	})
}

func TestATracerIsToldOfQuestionsAndOfTheRunBefore(t *testing.T) {
	p := &parts{}
	child := compile(t, graph.New[trail]("child").AddNode("ask", func(ctx context.Context, _ *trail) error {
		_, err := graph.Interrupt[string](ctx, "name", nil)
		return err
	}).AddEdge(graph.Start, "ask"))
	b := visits(graph.New[trail]("g"), "last")
	graph.AddSubgraph(b, "sub", child, graph.Mapping[trail, trail]{})
	b.AddEdge(graph.Start, "sub").AddEdge("sub", "last")
	g := compile(t, b, graph.WithCheckpointer(checkpoint.NewMemory()), graph.InterruptBefore("last"), graph.Trace(p))
	snap, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }))
	if err != nil || snap.Metadata["by"] != "parts" {
		t.Fatal(snap.Metadata, err)
	}
	wantTree(t, p, `
		run g (asks sub inside name) .
		  step 1 of 1 tasks (asks sub inside name) .
		    attempt sub 1 in step 1 (asks sub inside name) .
		      run child at sub (asks  inside name) .
		        step 1 of 1 tasks at sub (asks  inside name) .
		          attempt ask 1 in step 1 at sub (asks  inside name) .`)
	if _, err := g.Thread("t").Invoke(bg, g.Answer("Ada")); err != nil {
		t.Fatal(err)
	}
	wantTree(t, p, `
		run g (asks  before last) (goes on after parts) .
		  step 1 of 1 tasks .
		    attempt sub 1 in step 1 .
		      run child at sub (goes on after ) .
		        step 1 of 1 tasks at sub .
		          attempt ask 1 in step 1 at sub .`)
	if _, err := g.Thread("t").Invoke(bg, g.Answer("nobody asked this")); err == nil {
		t.Fatal("no error")
	}
	if got := p.tree(); !strings.Contains(got, "run g: ") {
		t.Errorf("a refused answer is no failed run: %s", got)
	}
}

func TestATracerSeesThatARunWasCancelled(t *testing.T) {
	p := &parts{}
	ctx, cancel := context.WithCancel(bg)
	b := graph.New[trail]("g").AddNode("a", func(ctx context.Context, _ *trail) error { cancel(); <-ctx.Done(); return ctx.Err() })
	g := compile(t, b.AddEdge(graph.Start, "a"), graph.Trace(p))
	if _, err := g.Invoke(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if got := p.tree(); strings.Count(got, "(cancelled) .") != 3 {
		t.Errorf("told:%s", got)
	}
}
