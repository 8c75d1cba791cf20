package server_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
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

// Of two servers on a database each has its runs done by the other's worker.
func TestRunsAreDoneByTheWorkerOfAnotherServer(t *testing.T) {
	dispatchtest.Run(t, dispatchtest.Suite{Begin: func(*testing.T) func(*fleet.Worker) (fleet.Dispatcher, error) {
		all := &crossed{}
		return func(w *fleet.Worker) (fleet.Dispatcher, error) {
			d, err := fleet.NewLocal(w, fleet.LocalOptions{})
			return all.add(d), err
		}
	}})
}

// crossed are dispatchers of which each hands its threads to the next one.
type crossed struct {
	mu  sync.Mutex
	all []*fleet.Local
}

func (c *crossed) add(d *fleet.Local) fleet.Dispatcher {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, d)
	return &toNext{c, d}
}

type toNext struct {
	of  *crossed
	own *fleet.Local
}

func (d *toNext) next() *fleet.Local {
	d.of.mu.Lock()
	defer d.of.mu.Unlock()
	return d.of.all[(slices.Index(d.of.all, d.own)+1)%len(d.of.all)]
}

func (d *toNext) Dispatch(ctx context.Context, ref fleet.Ref) (fleet.Run, error) {
	return d.next().Dispatch(ctx, ref)
}

func (d *toNext) Cancel(ctx context.Context, thread string) error {
	return d.next().Cancel(ctx, thread)
}

func (d *toNext) Close() error {
	d.of.mu.Lock()
	d.of.all = slices.DeleteFunc(d.of.all, func(o *fleet.Local) bool { return o == d.own })
	d.of.mu.Unlock()
	return d.own.Close()
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
