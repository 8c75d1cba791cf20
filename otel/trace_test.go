package otel_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/propagation"
	api "go.opentelemetry.io/otel/trace"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

func TestARunIsASpanWithItsSuperstepsAndNodes(t *testing.T) { // W7-38
	r := record(t, false)
	b := visits("g", "start", "left", "right", "join").AddEdge(graph.Start, "start").
		AddEdge("start", "left").AddEdge("start", "right").AddJoin([]string{"left", "right"}, "join")
	g := compile(t, b, r.Observe(), graph.WithCheckpointer(checkpoint.NewMemory()))
	snap, err := g.Thread("t-1").Invoke(bg, g.Input(func(*State) error { return nil }))
	if err != nil {
		t.Fatal(err)
	}
	spans := r.spans.GetSpans()
	wantTree(t, r.tree("superstep.graph", "superstep.thread", "superstep.step", "superstep.tasks", "superstep.node", "superstep.attempt", "superstep.from", "superstep.outcome"), `
		invoke_workflow g graph=g thread=t-1 outcome=success
		  superstep graph=g thread=t-1 step=1 tasks=1 outcome=success
		    node start graph=g thread=t-1 step=1 node=start attempt=1 outcome=success
		  superstep graph=g thread=t-1 step=2 tasks=2 outcome=success
		    node left graph=g thread=t-1 step=2 node=left attempt=1 from=start outcome=success
		    node right graph=g thread=t-1 step=2 node=right attempt=1 from=start outcome=success
		  superstep graph=g thread=t-1 step=3 tasks=1 outcome=success
		    node join graph=g thread=t-1 step=3 node=join attempt=1 from=right outcome=success`)
	for _, s := range spans {
		if s.Name != "invoke_workflow g" {
			continue
		}
		if text := describe(s, []string{"superstep.checkpoint", "gen_ai.operation.name", "gen_ai.workflow.name", "gen_ai.conversation.id"}); text !=
			"invoke_workflow g checkpoint="+snap.Checkpoint+" name=invoke_workflow name=g id=t-1" {
			t.Error(text)
		}
	}
	wantTree(t, r.metrics(t), `
		superstep.node.duration [graph=g node=join outcome=success] 1 times
		superstep.node.duration [graph=g node=left outcome=success] 1 times
		superstep.node.duration [graph=g node=right outcome=success] 1 times
		superstep.node.duration [graph=g node=start outcome=success] 1 times
		superstep.run.active [graph=g] 0
		superstep.run.duration [graph=g outcome=success] 1 times`)
}

func TestAGraphThatIsNotObservedHasNoSpans(t *testing.T) { // W7-38
	r := record(t, false)
	g := compile(t, visits("g", "a").AddEdge(graph.Start, "a"))
	ctx, span := r.provider.Tracer("caller").Start(bg, "caller")
	if _, err := g.Invoke(ctx, nil); err != nil {
		t.Fatal(err)
	}
	span.End()
	wantTree(t, r.tree(), `caller`)
}

func TestASubgraphStandsUnderItsNode(t *testing.T) {
	r := record(t, false)
	child := compile(t, visits("child", "inner").AddEdge(graph.Start, "inner"))
	b := graph.New[State]("parent")
	graph.AddSubgraph(b, "sub", child, graph.Mapping[State, State]{})
	b.AddNode("call", func(ctx context.Context, _ *State) error {
		_, err := graph.Call(ctx, "k", child, nil)
		return err
	})
	g := compile(t, b.AddEdge(graph.Start, "sub").AddEdge("sub", "call"), r.Observe())
	if _, err := g.Invoke(bg, nil); err != nil {
		t.Fatal(err)
	}
	wantTree(t, r.tree("superstep.path"), `
		invoke_workflow parent
		  superstep
		    node sub
		      invoke_workflow child path=sub
		        superstep path=sub
		          node inner path=sub
		  superstep
		    node call
		      invoke_workflow child path=call
		        superstep path=call
		          node inner path=call`)
	if got := r.metrics(t); strings.Count(got, "superstep.run.duration") != 1 {
		t.Errorf("a subgraph counts as a run:%s", got)
	}
}

type quotaError struct{}

func (quotaError) Error() string { return "no quota" }

func TestRetriesAreEventsAndErrorsHaveATypeAndAStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := record(t, false)
		b := graph.New[State]("g")
		b.AddNode("flaky", func(ctx context.Context, _ *State) error {
			if graph.Info(ctx).Attempt < 2 {
				return fmt.Errorf("asking: %w", quotaError{})
			}
			return nil
		}, once(2*time.Second, 3))
		b.AddNode("bad", func(context.Context, *State) error { panic("boom") })
		b.AddNode("late", func(ctx context.Context, _ *State) error { <-ctx.Done(); return ctx.Err() })
		b.AddNode("handled", func(context.Context, *State) error { return errors.New("plain") },
			graph.OnError(func(context.Context, *State, *graph.NodeError) (graph.Command, error) { return graph.Command{}, nil }))
		b.AddEdge(graph.Start, "flaky").AddEdge("flaky", "handled").AddEdge("handled", "bad").AddEdge("handled", "late")
		g := compile(t, b, r.Observe())
		if _, err := g.Invoke(bg, nil); err == nil {
			t.Fatal("no error")
		}
		wantTree(t, r.tree("error.type", "superstep.attempt", "superstep.outcome"), `
		invoke_workflow g type=panic outcome=failed ERROR node "bad" failed in step 3: panic: boom
		  superstep outcome=success
		    node flaky type=otel_test.quotaError attempt=1 outcome=failed !retry attempt=2 delay=2 ERROR asking: no quota
		    node flaky attempt=2 outcome=success
		  superstep outcome=success
		    node handled type=_OTHER attempt=1 outcome=failed ERROR plain
		    handle handled attempt=1 outcome=success
		  superstep type=panic outcome=failed ERROR node "bad" failed in step 3: panic: boom
		    node bad type=panic attempt=1 outcome=failed ERROR panic: boom
		    node late attempt=1 outcome=cancelled`)
		wantTree(t, r.metrics(t), `
		superstep.node.duration [graph=g node=flaky outcome=success] 1 times
		superstep.node.duration [graph=g node=late outcome=cancelled] 1 times
		superstep.node.duration [type=_OTHER graph=g node=handled outcome=failed] 1 times
		superstep.node.duration [type=otel_test.quotaError graph=g node=flaky outcome=failed] 1 times
		superstep.node.duration [type=panic graph=g node=bad outcome=failed] 1 times
		superstep.run.active [graph=g] 0
		superstep.run.duration [type=panic graph=g outcome=failed] 1 times`)
	})
}

func TestAnInterruptIsAnEventAndTheNextRunIsLinked(t *testing.T) {
	r := record(t, false)
	child := compile(t, graph.New[State]("child").AddNode("ask", func(ctx context.Context, _ *State) error {
		_, err := graph.Interrupt[string](ctx, "name", "a secret question")
		return err
	}).AddEdge(graph.Start, "ask"))
	b := visits("g", "last")
	graph.AddSubgraph(b, "sub", child, graph.Mapping[State, State]{})
	b.AddEdge(graph.Start, "sub").AddEdge("sub", "last")
	store := checkpoint.NewMemory()
	g := compile(t, b, r.Observe(), graph.WithCheckpointer(store), graph.InterruptBefore("last"))
	snap, err := g.Thread("t").Invoke(bg, g.Input(func(*State) error { return nil }))
	if err != nil {
		t.Fatal(err)
	}
	first := spanOf(t, r, "invoke_workflow g")
	wantTree(t, r.tree("superstep.outcome"), `
		invoke_workflow g outcome=interrupted
		  superstep outcome=interrupted
		    node sub outcome=interrupted
		      invoke_workflow child outcome=interrupted
		        superstep outcome=interrupted
		          node ask outcome=interrupted !interrupt key=name when=inside node=ask`)

	if _, err := g.Thread("t").Invoke(bg, g.Answer("Ada")); err != nil {
		t.Fatal(err)
	}
	for _, s := range r.spans.GetSpans() {
		if s.Name != "invoke_workflow g" {
			continue
		}
		if len(s.Links) != 1 || s.Links[0].SpanContext.SpanID() != first.SpanID() || s.Links[0].SpanContext.TraceID() != first.TraceID() {
			t.Errorf("links %+v, want one to %s", s.Links, first.SpanID())
		} else if at := s.Links[0].Attributes[0].Value.AsString(); at != snap.Checkpoint {
			t.Errorf("linked at %s, want %s", at, snap.Checkpoint)
		}
		if s.SpanContext.TraceID() == first.TraceID() {
			t.Error("a run of its own is in the trace of another")
		}
	}
	second := spanOf(t, r, "invoke_workflow g")
	wantTree(t, r.tree("superstep.outcome"), `
		invoke_workflow g outcome=interrupted !interrupt key=last when=before node=last
		  superstep outcome=success
		    node sub outcome=success
		      invoke_workflow child outcome=success
		        superstep outcome=success
		          node ask outcome=success`)

	// What an edit writes belongs to the run before it.
	if _, err := g.Thread("t").Edit(bg, func(s *State) error {
		s.Ran.Add("edited")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Thread("t").Invoke(bg, g.Answer(nil)); err != nil {
		t.Fatal(err)
	}
	for _, s := range r.spans.GetSpans() {
		if s.Name == "invoke_workflow g" && (len(s.Links) != 1 || s.Links[0].SpanContext.SpanID() != second.SpanID()) {
			t.Errorf("links %+v, want one to %s", s.Links, second.SpanID())
		}
	}
}

func spanOf(t *testing.T, r *recorder, name string) api.SpanContext {
	t.Helper()
	for _, s := range r.spans.GetSpans() {
		if s.Name == name {
			return s.SpanContext
		}
	}
	t.Fatalf("no span %s", name)
	return api.SpanContext{}
}

func TestASleepIsAnEventAndTheRunThatARunnerWakesIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := record(t, false)
		store := checkpoint.NewMemory()
		g := compile(t, graph.New[State]("g").AddNode("nap", func(ctx context.Context, _ *State) error {
			return graph.Sleep(ctx, "rest", time.Hour)
		}).AddEdge(graph.Start, "nap"), r.Observe(), graph.WithCheckpointer(store))
		if _, err := g.Thread("t").Invoke(bg, g.Input(func(*State) error { return nil })); err != nil {
			t.Fatal(err)
		}
		wantTree(t, r.tree("superstep.outcome"), `
		invoke_workflow g outcome=waiting
		  superstep outcome=waiting
		    node nap outcome=waiting !wait key=rest node=nap until=2000-01-01T01:00:00Z`)
		time.Sleep(2 * time.Hour)
		runner, err := graph.NewRunner(store, graph.RunnerOptions{}, g)
		if err != nil {
			t.Fatal(err)
		}
		if err := runner.Sweep(bg); err != nil {
			t.Fatal(err)
		}
		wantTree(t, r.tree("superstep.outcome"), `
		invoke_workflow g outcome=success
		  superstep outcome=success
		    node nap outcome=success`)
	})
}

func TestARunThatCouldNotBeginHasFailed(t *testing.T) {
	r := record(t, false)
	g := compile(t, visits("g", "a").AddEdge(graph.Start, "a"), r.Observe(), graph.WithCheckpointer(checkpoint.NewMemory()))
	if _, err := g.Invoke(bg, func(*State) error { return nil }); !errors.Is(err, graph.ErrThreadRequired) {
		t.Fatal(err)
	}
	if got := r.tree("superstep.outcome"); !strings.HasPrefix(got, "\n\t\tinvoke_workflow g outcome=failed ERROR ") {
		t.Error(got)
	}
}

func TestTheCallersSpanIsAboveARunAndANodesSpanInWhatItCalls(t *testing.T) {
	r := record(t, false)
	var header string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { header = req.Header.Get("traceparent") }))
	defer server.Close()
	g := compile(t, graph.New[State]("g").AddNode("fetch", func(ctx context.Context, _ *State) error {
		// What an instrumented client does.
		ctx, span := api.SpanFromContext(ctx).TracerProvider().Tracer("http").Start(ctx, "GET")
		defer span.End()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
		if err != nil {
			return err
		}
		propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(req.Header))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}, graph.Timeout(time.Minute)).AddEdge(graph.Start, "fetch"), r.Observe())
	ctx, span := r.provider.Tracer("caller").Start(bg, "POST /orders")
	for ev, err := range g.Stream(ctx, nil) {
		if err != nil {
			t.Fatal(ev, err)
		}
	}
	span.End()
	if !strings.Contains(header, span.SpanContext().TraceID().String()) {
		t.Errorf("the server got %q", header)
	}
	wantTree(t, r.tree(), `
		POST /orders
		  invoke_workflow g
		    superstep
		      node fetch
		        GET`)
}
