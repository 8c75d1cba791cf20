package agent

import (
	"context"
	"slices"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/tool"
)

// round is what a task of a node that calls tools is to do; nil is all that waits.
type round struct {
	Calls   []string       `json:"calls,omitempty"`   // by their IDs
	Decided bool           `json:"decided,omitempty"` // a human has been asked what needs a decision
	Results []chat.Message `json:"results,omitempty"` // of those that are not made, as was decided

	// Beside says that another task of the message says what follows.
	Beside bool `json:"beside,omitempty"`
}

// of returns the calls among some that the round is about.
func (r *round) of(calls []chat.ToolCall) []chat.ToolCall {
	if r == nil {
		return calls
	}
	return slices.DeleteFunc(calls, func(c chat.ToolCall) bool { return !slices.Contains(r.Calls, c.ID) })
}

// jobs is of, for the jobs of the calls, with what was decided.
func (r *round) jobs(jobs []*job) []*job {
	if r == nil {
		return jobs
	}
	jobs = slices.DeleteFunc(slices.Clone(jobs), func(j *job) bool { return !slices.Contains(r.Calls, j.call.ID) })
	for _, m := range r.Results {
		for _, j := range jobs {
			if result, _ := m.ToolResult(); result.CallID == j.call.ID {
				j.finish(m)
			}
		}
	}
	return jobs
}

// roundsOf tells jobs that are tasks of their own from those, between the first and the
// last that take the state, that are one: the order of the calls is that of the tasks.
func roundsOf(jobs []*job) []round {
	first, last := len(jobs), -1
	for i, j := range jobs {
		if !j.done && takesState(j.tool) {
			first, last = min(first, i), i
		}
	}
	var rounds []round
	for i, j := range jobs {
		if i <= first || i > last {
			rounds = append(rounds, round{Beside: last >= 0 && i != first})
		}
		r := &rounds[len(rounds)-1]
		r.Calls = append(r.Calls, j.call.ID)
		if j.done {
			r.Results = append(r.Results, j.result)
		}
	}
	return rounds
}

// dispatch returns the tasks of rounds.
func (t *Tools[S]) dispatch(rounds []round, decided bool) graph.Command {
	sends := make([]graph.Send, len(rounds))
	for i := range rounds {
		rounds[i].Decided = decided
		sends[i] = t.node.Send(&rounds[i])
	}
	return graph.Dispatch(sends...)
}

// lead returns where calls of a message lead that wait: each to a task of its own or, if
// something is to be done about all of them before, to the node of a name.
func (t *Tools[S]) lead(ctx context.Context, s *S, st *State, name string) (graph.Command, error) {
	from, calls := Pending(&st.Messages)
	if !t.TaskPerCall || st.wentOn(from) {
		return graph.Goto(name), nil
	}
	set, err := choose(ctx, s, t.Choose, t.set, t.team.tools()...)
	if err != nil {
		return graph.Command{}, err
	}
	jobs := make([]*job, len(calls))
	seen := map[string]bool{"": true}
	for i, c := range calls {
		if _, asked := t.approval(c); asked || seen[c.ID] {
			return graph.Goto(name), nil
		}
		seen[c.ID] = true
		jobs[i] = &job{call: c}
		if jobs[i].tool, err = set.Get(c.Name); err != nil {
			jobs[i].tool = nil // the task says so
		}
	}
	return t.dispatch(roundsOf(jobs), false), nil
}

// An agentTool is a tool that runs a graph.
type agentTool struct {
	tool.Tool
	graph string
	node  graph.NodeOption // declares it
}

// Check returns what is wrong with the definition.
func (t agentTool) Check() error { return tool.Check(t.Tool) }

// Unwrap returns the function.
func (t agentTool) Unwrap() tool.Tool { return t.Tool }

// runsGraph returns the tool, or the one that it wraps, if it runs a graph.
func runsGraph(t tool.Tool) (agentTool, bool) {
	for t != nil {
		if a, ok := t.(agentTool); ok {
			return a, true
		}
		w, ok := t.(interface{ Unwrap() tool.Tool })
		if !ok {
			break
		}
		t = w.Unwrap()
	}
	return agentTool{}, false
}

// graphsOf returns the tools that run a graph among a tool, those that it wraps and those
// that it chooses among.
func graphsOf(t tool.Tool) []agentTool {
	if a, ok := t.(agentTool); ok {
		return []agentTool{a}
	}
	var all []agentTool
	switch w := t.(type) {
	case interface{ Unwrap() tool.Tool }:
		all = graphsOf(w.Unwrap())
	case interface{ Unwrap() []tool.Tool }:
		for _, one := range w.Unwrap() {
			all = append(all, graphsOf(one)...)
		}
	}
	return all
}

type keylessKey struct{}

// keyless is a call that is alone in its task, of a tool that runs a graph.
type keyless struct{ task, graph string }

// withoutKey makes the graph of a name the one of the task: it needs no key to be told from
// others.
func withoutKey(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, keylessKey{}, keyless{graph.Info(ctx).Task, name})
}

// keyOf returns the key with which a tool runs a graph of a name.
func keyOf(ctx context.Context, name string) string {
	if k, ok := ctx.Value(keylessKey{}).(keyless); ok && k == (keyless{graph.Info(ctx).Task, name}) {
		return ""
	}
	return name + " " + tool.InfoOf(ctx).CallID
}
