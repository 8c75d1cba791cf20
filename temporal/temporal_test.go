package temporal

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/mocks"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/fleet"
	"github.com/superstep-dev/superstep/graph"
)

func TestADispatcherNeedsAClientAndAQueue(t *testing.T) {
	for want, make := range map[string]func() (*Dispatcher, error){
		"a client":     func() (*Dispatcher, error) { return New(nil, Options{TaskQueue: "q"}) },
		"TaskQueue":    func() (*Dispatcher, error) { return New(&mocks.Client{}, Options{}) },
		"not be negat": func() (*Dispatcher, error) { return New(&mocks.Client{}, Options{TaskQueue: "q", Batch: -1}) },
	} {
		if d, err := make(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v; want an error with %q", d, err, want)
		}
	}
}

func TestAThreadHasOneWorkflow(t *testing.T) {
	ctx, c := t.Context(), &mocks.Client{}
	ref := fleet.Ref{Graph: "g", Thread: "t"}
	c.On("SignalWithStartWorkflow", ctx, "superstep/t", dispatched, ref, client.StartWorkflowOptions{TaskQueue: "q"}, workflowName, mock.Anything).Return(&mocks.WorkflowRun{}, nil).Once()
	c.On("SignalWithStartWorkflow", mock.Anything, mock.Anything, mock.Anything, mock.Anything, mock.Anything, mock.Anything, mock.Anything).Return(nil, serviceerror.NewUnavailable("down"))
	c.On("CancelWorkflow", ctx, "superstep/t", "").Return(serviceerror.NewNotFound("none")).Once()
	c.On("CancelWorkflow", ctx, "superstep/t", "").Return(serviceerror.NewUnavailable("down"))
	d, err := New(c, Options{TaskQueue: "q"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Dispatch(ctx, ref); err != nil {
		t.Error(err)
	}
	if _, err := d.Dispatch(ctx, ref); err == nil || !strings.Contains(err.Error(), `thread "t"`) {
		t.Errorf("the server is down: %v", err)
	}
	if err := d.Cancel(ctx, "t"); err != nil {
		t.Errorf("there is no run: %v", err)
	}
	if err := d.Cancel(ctx, "t"); err == nil {
		t.Error("the server is down, and nothing is said of it")
	}
	ref.Thread = strings.Repeat("t", maxID)
	if _, err := d.Dispatch(ctx, ref); err == nil || !strings.Contains(err.Error(), "thread's ID") {
		t.Errorf("a thread whose ID is too long: %v", err)
	}
	if err := d.Cancel(ctx, ref.Thread); err == nil {
		t.Error("a thread whose ID is too long was cancelled")
	}
}

// A run goes on as a new workflow where Temporal wants that, and nothing is lost: neither
// where it stood nor that it was called meanwhile.
func TestARunIsContinuedAsNew(t *testing.T) {
	store := checkpoint.NewMemory()
	b := graph.New[fleetState]("g")
	for _, n := range []string{"a", "b"} {
		b.AddNode(n, func(_ context.Context, s *fleetState) error { s.N.Add(1); return nil })
		b.AddEdge(graph.Start, n)
		b.AddConditionalEdges(n, func(_ context.Context, s *fleetState) (graph.Command, error) {
			if s.N.Get() >= 7 {
				return graph.Goto(graph.End), nil
			}
			return graph.Goto(n), nil
		}, n, graph.End)
	}
	g := b.MustCompile(graph.WithCheckpointer(store))
	w, err := fleet.NewWorker(store, fleet.Options{}, fleet.Program{Graph: g})
	if err != nil {
		t.Fatal(err)
	}
	if err := fleet.Submit(t.Context(), g.Thread("t"), g.Input(func(*fleetState) error { return nil })); err != nil {
		t.Fatal(err)
	}
	ref, err := fleet.NewRef(t.Context(), store, "t")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{}
	pl, workflows := o.plan(), 0
	for {
		var s testsuite.WorkflowTestSuite
		env := s.NewTestWorkflowEnvironment()
		env.SetContinueAsNewSuggested(true)
		Register(env, w)
		calls := 0
		if workflows++; workflows == 1 {
			calls = 2 // of which the second is one to be remembered
		}
		env.RegisterDelayedCallback(func() {
			for range calls {
				env.SignalWorkflow(dispatched, ref)
			}
		}, 0)
		if pl.Progress != nil {
			pl.Call = &ref
		}
		env.ExecuteWorkflow(workflowName, pl)
		err := env.GetWorkflowError()
		if err == nil {
			var p fleet.Progress
			if err := env.GetWorkflowResult(&p); err != nil || p.Status != fleet.RunEnded {
				t.Fatalf("%+v, %v", p, err)
			}
			break
		}
		next := new(workflow.ContinueAsNewError)
		if !errors.As(err, &next) || workflows > 9 {
			t.Fatal(err)
		}
		pl = plan{}
		if err := converter.GetDefaultDataConverter().FromPayloads(next.Input, &pl); err != nil {
			t.Fatal(err)
		}
	}
	snap, err := g.Thread("t").State(t.Context())
	if err != nil || !snap.Done() || snap.State.N.Get() != 8 || snap.Step != 4 {
		t.Errorf("%+v, %v", snap, err)
	}
	if workflows < 2 {
		t.Errorf("%d workflows", workflows)
	}
}

type fleetState struct{ N graph.Sum[int] }
