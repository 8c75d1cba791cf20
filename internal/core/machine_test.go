package core_test

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/core"
	"github.com/superstep-dev/superstep/internal/plan"
)

// steps processes effects until tasks run or the run is over.
func steps(t *testing.T, sh *shell) core.Ready {
	t.Helper()
	for range 10 {
		rd := sh.m.Ready()
		if err := sh.save(rd.Write); err != nil {
			t.Fatal(err)
		}
		sh.m.Advance()
		if rd.Done || len(rd.Start) > 0 {
			return rd
		}
	}
	t.Fatal("nothing starts and nothing ends")
	return core.Ready{}
}

func twoNodes(t *testing.T) *shell {
	t.Helper()
	g, problems, _ := plan.Compile(plan.Spec{
		Nodes: []plan.NodeSpec{{Name: "a"}, {Name: "b"}},
		Edges: []plan.EdgeSpec{{From: plan.Start, To: "a"}, {From: plan.Start, To: "b"}},
	})
	if g == nil {
		t.Fatal(problems)
	}
	sh := newShell(g)
	if err := sh.load(""); err != nil {
		t.Fatal(err)
	}
	return sh
}

// A machine may go on after its run has ended: what failed is tried again, and
// a node that succeeded is not, though it wrote nothing.
func TestContinueOnOneMachine(t *testing.T) {
	sh := twoNodes(t)
	m := sh.m
	static := core.Routing{Static: true}
	if err := m.Input(checkpoint.SourceInput, nil, nil, static); err != nil {
		t.Fatal(err)
	}
	steps(t, sh)
	m.Ended(0, &core.End{Ran: true, Err: errors.New("router")})
	m.Ended(1, &core.End{Err: errors.New("node")})
	if rd := steps(t, sh); !rd.Done {
		t.Fatalf("the run goes on: %+v", rd)
	}
	if err := m.Continue(true); err != nil {
		t.Fatal(err)
	}
	rd := steps(t, sh)
	if !slices.Equal(rd.Start, []int{0, 1}) || m.Task(0).Status() != core.Changed || m.Task(1).Status() != core.Running {
		t.Fatalf("%v start as %d and %d", rd.Start, m.Task(0).Status(), m.Task(1).Status())
	}
	m.Ended(0, &core.End{Ran: true, Routing: &static})
	m.Ended(1, &core.End{Err: errors.New("node again")})
	steps(t, sh)
	if err := sh.load(""); err != nil {
		t.Fatal(err)
	}
	if got := sh.m.Task(1).ErrText; got != "node again" {
		t.Errorf("the recorded error is %q, want that of the second attempt", got)
	}
}

// The records at which subgraphs that keep their state stand are committed with
// the superstep, survive a process that dies before, and don't alter records
// that were written.
func TestKeptChildren(t *testing.T) {
	for _, edit := range []bool{false, true} {
		sh := twoNodes(t)
		static := core.Routing{Static: true}
		if err := sh.m.Input(checkpoint.SourceInput, nil, nil, static); err != nil {
			t.Fatal(err)
		}
		steps(t, sh)
		sh.m.Ended(0, &core.End{Ran: true, Routing: &static, Calls: &core.Calls{Kept: map[string]checkpoint.ID{"/a": "child-1"}}})
		rd := sh.m.Ready()
		if err := sh.save(rd.Write); err != nil {
			t.Fatal(err)
		}
		// The process dies. An edit may come before the run goes on.
		if edit {
			if err := sh.load(""); err != nil {
				t.Fatal(err)
			}
			if err := sh.m.Update(checkpoint.SourceUpdate, nil, -1, -1, core.Routing{}); err != nil {
				t.Fatal(err)
			}
			rd := sh.m.Ready()
			if err := sh.save(rd.Write); err != nil {
				t.Fatal(err)
			}
		}
		if err := sh.load(""); err != nil {
			t.Fatal(err)
		}
		if err := sh.m.Continue(true); err != nil {
			t.Fatal(err)
		}
		if rd := steps(t, sh); !slices.Equal(rd.Start, []int{1}) {
			t.Fatalf("%v start, want the second task alone", rd.Start)
		}
		open := map[string]checkpoint.ID{"/b:1": "pending"}
		sh.m.Ended(1, &core.End{Asks: true, Calls: &core.Calls{Questions: []checkpoint.Question{{ID: "q", Key: "q", When: "inside"}}, Children: open}})
		steps(t, sh)
		if err := sh.load(""); err != nil {
			t.Fatal(err)
		}
		if got := sh.m.Task(1).Children; !maps.Equal(got, open) {
			t.Errorf("the subgraph that waits stands at %v, want %v", got, open)
		}
		if err := sh.m.Answer(map[string]json.RawMessage{"q": json.RawMessage("1")}, nil); err != nil {
			t.Fatal(err)
		}
		steps(t, sh)
		sh.m.Ended(1, &core.End{Ran: true, Routing: &static, Calls: &core.Calls{Kept: map[string]checkpoint.ID{"/b": "child-2"}}})
		steps(t, sh)
		if want := map[string]checkpoint.ID{"/a": "child-1", "/b": "child-2"}; !maps.Equal(sh.m.Children(), want) {
			t.Errorf("with edit %v: subgraphs stand at %v, want %v", edit, sh.m.Children(), want)
		}
		if len(open) != 1 {
			t.Errorf("a record was altered: %v", open)
		}
	}
}

// A breakpoint inside a subgraph is a question of the task that called it, not
// a breakpoint before that task.
func TestBreakpointInsideSubgraph(t *testing.T) {
	sh := twoNodes(t)
	if err := sh.m.Input(checkpoint.SourceInput, nil, nil, core.Routing{Static: true}); err != nil {
		t.Fatal(err)
	}
	steps(t, sh)
	sh.m.Ended(1, &core.End{Ran: true, Routing: &core.Routing{Static: true}})
	sh.m.Ended(0, &core.End{Asks: true, Calls: &core.Calls{Questions: []checkpoint.Question{{ID: "q", Key: "x", Node: "x", Path: []string{"a"}, When: "before"}}}})
	steps(t, sh)
	if err := sh.load(""); err != nil {
		t.Fatal(err)
	}
	if got := sh.m.Task(0).Status(); got != core.Interrupted {
		t.Fatalf("the task is %s, want interrupted", got)
	}
	if err := sh.m.Continue(true); err != nil {
		t.Fatal(err)
	}
	steps(t, sh)
	if q := sh.m.Task(0).Questions; len(q) != 1 || !q[0].Answered {
		t.Errorf("the task goes on with %+v, want the breakpoint as passed", q)
	}
}

func TestGrow(t *testing.T) {
	type change struct {
		seq   int64
		reset bool
	}
	for _, c := range []struct {
		changes []change
		want    [][2]int64
	}{
		{[]change{{1, false}}, [][2]int64{{1, 1}}},
		{[]change{{1, false}, {1, false}, {2, false}}, [][2]int64{{1, 2}}},
		{[]change{{1, false}, {4, false}}, [][2]int64{{1, 4}}}, // a gap of two is read along
		{[]change{{1, false}, {5, false}}, [][2]int64{{1, 1}, {5, 5}}},
		{[]change{{1, false}, {9, true}}, [][2]int64{{9, 9}}},
		{[]change{{1, false}, {9, true}, {9, false}, {10, false}}, [][2]int64{{9, 10}}},
		{[]change{{9, false}, {9, true}}, [][2]int64{{9, 9}}},
		{[]change{{8, false}, {9, false}, {9, true}}, [][2]int64{{9, 9}}},
	} {
		var ranges map[string][][2]int64
		for _, ch := range c.changes {
			ranges = core.Grow(ranges, []core.Growth{{Field: "l", Reset: ch.reset}}, ch.seq)
		}
		if !slices.Equal(ranges["l"], c.want) {
			t.Errorf("changes %v give ranges %v, want %v", c.changes, ranges["l"], c.want)
		}
	}
}
