package graph_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

func noInput(*trail) error { return nil }

// W7-16: a checkpointer is attached to a graph, and a thread to what runs it: runs then
// need no configuration, and the store has the thread.
func TestACheckpointerAndAThreadAreAttachedOnce(t *testing.T) {
	store := checkpoint.NewMemory()
	plain := compile(t, visits(graph.New[trail]("g"), "a").AddEdge(graph.Start, "a"))
	g := must[*graph.Graph[trail]](t)(plain.With(graph.WithCheckpointer(store)))
	run := g.Thread("thread_id")
	must[*graph.Snapshot[trail]](t)(run.Invoke(bg, run.Input(noInput)))
	head, _, err := store.Head(bg, checkpoint.Log{Thread: "thread_id"})
	if err != nil || head == nil {
		t.Fatalf("%v, %v", head, err)
	}
	equal(t, "ran", must[*graph.Snapshot[trail]](t)(run.State(bg)).State.ran(), "a")
}

// SYN-07, SYN-11: the page's graph of two steps, built in one expression, runs them in
// order to the end, along fixed edges.
func TestTwoStepsRunInOrderToTheEnd(t *testing.T) {
	g := graph.New[trail]("page").
		AddNode("step_1", visit("step_1")).
		AddNode("step_2", visit("step_2")).
		SetEntryPoint("step_1").
		AddEdge("step_1", "step_2").
		AddEdge("step_2", graph.End).
		MustCompile()
	snap := must[*graph.Snapshot[trail]](t)(g.Invoke(bg, nil))
	equal(t, "ran", snap.State.ran(), "step_1 step_2")
	equal(t, "done", snap.Done(), true)
	equal(t, "steps", snap.Step, 2)
}

// SYN-30: three sends to several targets run at the same time, see each its own payload,
// and merge in the order of the sends.
func TestThreeSendsToSeveralTargetsOverlapWithTheirPayloads(t *testing.T) {
	var all sync.WaitGroup
	all.Add(3)
	work := func(name string) func(context.Context, *trail, string) error {
		return func(_ context.Context, s *trail, in string) error {
			all.Done()
			all.Wait() // for ever, if they ran one after another
			s.Ran.Add(name + "(" + in + ")")
			return nil
		}
	}
	b := graph.New[trail]("g")
	left, right := graph.AddTask(b, "left", work("left")), graph.AddTask(b, "right", work("right"))
	b.AddCommandNode("split", func(context.Context, *trail) (graph.Command, error) {
		return graph.Dispatch(left.Send("1"), right.Send("2"), left.Send("3")), nil
	}, graph.Destinations("left", "right"))
	snap := must[*graph.Snapshot[trail]](t)(compile(t, b.AddEdge(graph.Start, "split")).Invoke(bg, nil))
	equal(t, "merged", snap.State.ran(), "left(1) right(2) left(3)")
}

// SONI-58: what threads share is a dependency: both see one cache, and neither has it in
// its state.
func TestTwoThreadsShareADependencyAndNotTheirState(t *testing.T) {
	type cache struct{ sync.Map }
	shared := &cache{}
	g := compile(t, one(func(ctx context.Context, s *trail) error {
		c, err := graph.Deps[*cache](ctx)
		if err != nil {
			return err
		}
		was, _ := c.LoadOrStore("setting", "set by "+graph.Info(ctx).Thread)
		s.Note = fmt.Sprint(was)
		return nil
	}), append(stored(), graph.ProvideDeps(func(context.Context) (*cache, error) { return shared, nil }))...)
	for _, id := range []string{"one", "two"} {
		th := g.Thread(id)
		snap := must[*graph.Snapshot[trail]](t)(th.Invoke(bg, th.Input(noInput)))
		equal(t, "read by "+id, snap.State.Note, map[string]string{"one": "set by one", "two": "set by one"}[id])
	}
}
