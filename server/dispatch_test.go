package server_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/superstep-dev/superstep/fleet"
	"github.com/superstep-dev/superstep/internal/dispatchtest"
	"github.com/superstep-dev/superstep/server"
)

func TestRunsAreDoneByTheServer(t *testing.T) { dispatchtest.Run(t, dispatchtest.Suite{}) }

func TestRunsAreDoneByADispatcherInTheProcess(t *testing.T) {
	dispatchtest.Run(t, dispatchtest.Suite{Begin: func(*testing.T) func(*fleet.Worker) (fleet.Dispatcher, error) {
		return func(w *fleet.Worker) (fleet.Dispatcher, error) { return fleet.NewLocal(w, fleet.LocalOptions{}) }
	}})
}

func TestADispatcherThatCanNotBeUsedIsRefused(t *testing.T) {
	local := func(w *fleet.Worker) (fleet.Dispatcher, error) { return fleet.NewLocal(w, fleet.LocalOptions{}) }
	for want, opts := range map[string][]server.Option{
		"was given no function":                        {server.Graph(booking(t)), server.Dispatch(nil)},
		"was given twice":                              {server.Graph(booking(t)), server.Dispatch(local), server.Dispatch(local)},
		"returned no dispatcher":                       {server.Graph(booking(t)), server.Dispatch(func(*fleet.Worker) (fleet.Dispatcher, error) { return nil, nil })},
		"the engine is down":                           {server.Graph(booking(t)), server.Dispatch(func(*fleet.Worker) (fleet.Dispatcher, error) { return nil, errors.New("the engine is down") })},
		"server.Dispatch needs a graph that is served": {server.Dispatch(local)},
	} {
		if _, err := server.New(t.Context(), opts...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// unsteady is a dispatcher that can't be reached at first.
type unsteady struct {
	fleet.Dispatcher
	left atomic.Int64
}

func (d *unsteady) Dispatch(ctx context.Context, ref fleet.Ref) (fleet.Run, error) {
	if d.left.Add(-1) >= 0 {
		return nil, errors.New("the engine is down")
	}
	return d.Dispatcher.Dispatch(ctx, ref)
}

func TestARunWaitsForADispatcherThatIsDown(t *testing.T) {
	c := start(t, quiet(), server.Graph(booking(t)), server.Dispatch(func(w *fleet.Worker) (fleet.Dispatcher, error) {
		d, err := fleet.NewLocal(w, fleet.LocalOptions{})
		u := &unsteady{Dispatcher: d}
		u.left.Store(1)
		return u, err
	}))
	thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	out := call[object](c, "POST", "/threads/"+thread+"/runs/wait", object{"assistant_id": "booking", "input": object{"city": "Bonn"}})
	if out["__interrupt__"] == nil || out["city"] != "Bonn" {
		t.Errorf("%v", out)
	}
}
