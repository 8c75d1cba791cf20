package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool"
)

// Supervisor says how a model hands tasks to agents. Model and Agents are
// needed.
//
// Each agent looks like a tool to the model: a call gives it a task, and its
// answer is the result. Agents that are called in one message work in parallel,
// each in a node of its own name. They don't see the conversation, only their
// task.
type Supervisor struct {
	Name   string // of the graph; "supervisor" if empty
	Model  model.Model
	Agents []*Agent

	// Tools are the supervisor's own. OnError holds for them and for agents that
	// fail or give no answer.
	Tools   []tool.Tool
	OnError ErrorPolicy
	Approve []Approval // of the supervisor's own tools

	// These are as in [ReAct].
	Instruction   string
	Prompt        func(ctx context.Context, s *State) (string, error)
	Config        model.Config
	MaxIterations int // 0 means [DefaultMaxIterations]
}

// NodeSupervisor is the node of a [Supervisor] that asks the model.
const NodeSupervisor = "supervisor"

// NewSupervisor returns the graph of a supervisor.
func NewSupervisor(v Supervisor, opts ...graph.Option) (*graph.Graph[State], error) {
	if v.Name == "" {
		v.Name = NodeSupervisor
	}
	if v.MaxIterations == 0 {
		v.MaxIterations = DefaultMaxIterations
	}
	b := graph.New[State](v.Name)
	if v.MaxIterations < 0 {
		b.Mistake(NodeSupervisor, fmt.Errorf("MaxIterations is %d: give a positive number, or 0 for %d", v.MaxIterations, DefaultMaxIterations))
	}
	if len(v.Agents) == 0 {
		b.Mistake("", errors.New("there are no agents"))
	}
	members := &team{agents: map[string]tool.Tool{}}
	for _, a := range v.Agents {
		t := AsTool(a)
		members.order = append(members.order, t)
		members.agents[a.Name()] = t
	}
	AddLLM(b, NodeSupervisor, LLM[State]{
		Model: v.Model, Instruction: v.Instruction, Prompt: v.Prompt, Config: v.Config,
		Tools: slices.Concat(v.Tools, members.order), MaxCalls: v.MaxIterations,
	})
	b.AddEdge(graph.Start, NodeSupervisor)
	destinations := []string{graph.End}
	own := Tools[State]{Tools: v.Tools, OnError: v.OnError, Approve: v.Approve, team: members}
	for _, a := range v.Agents {
		if err := a.check(); err != nil {
			b.Mistake("", err)
			continue
		}
		b.AddNode(a.name, func(ctx context.Context, s *State) error { return own.delegate(ctx, s, a.name) }, a.node)
		b.AddEdge(a.name, NodeSupervisor)
		destinations = append(destinations, a.name)
	}
	AddTools(b, NodeTools, own) // without tools it still says which calls can't be made
	b.AddEdge(NodeTools, NodeSupervisor)
	b.AddConditionalEdges(NodeSupervisor, func(_ context.Context, s *State) (graph.Command, error) {
		_, calls := Pending(&s.Messages)
		if len(calls) == 0 {
			return graph.Goto(graph.End), nil
		}
		var to []string
		for _, c := range calls {
			node := NodeTools
			if members.makes(c) {
				node = c.Name
			}
			if !slices.Contains(to, node) {
				to = append(to, node)
			}
		}
		return graph.Goto(to...), nil
	}, append(destinations, NodeTools)...)
	return b.Compile(opts...)
}

// team are the agents of a supervisor as tools, which are called in nodes of
// their own. A nil team is empty.
type team struct {
	order  []tool.Tool
	agents map[string]tool.Tool
}

func (t *team) tools() []tool.Tool {
	if t == nil {
		return nil
	}
	return t.order
}

// makes reports whether a call is made in an agent's node. Calls that can't be
// made are left to the Tools node, which says so.
func (t *team) makes(c chat.ToolCall) bool {
	if t == nil || t.agents[c.Name] == nil || c.ID == "" {
		return false
	}
	_, err := c.Arguments()
	return err == nil
}

// delegate makes the calls of one agent.
func (t *Tools[S]) delegate(ctx context.Context, st *State, name string) error {
	from, calls := Pending(&st.Messages)
	calls = slices.DeleteFunc(calls, func(c chat.ToolCall) bool { return c.Name != name || !t.team.makes(c) })
	if st.wentOn(from) {
		return t.abandon(ctx, st, from, calls)
	}
	for _, c := range calls {
		args, err := c.Arguments()
		if err != nil {
			return err
		}
		j := &job{call: c, tool: t.team.agents[name], args: args}
		if err := t.call(ctx, j); err != nil {
			return err
		}
		st.Messages.Add(j.result)
		spend(&st.Usage, t.placed(ctx, j.used))
	}
	return nil
}
