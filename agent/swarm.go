package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/tool"
)

// Swarm says how agents hand the conversation over to each other. They share it:
// each sees everything that was said, and the one that has it goes on talking
// with the user, in later runs on the thread too.
type Swarm struct {
	Name   string // of the graph; "swarm" if empty
	Agents []SwarmAgent

	// Start names the agent that begins; the first if empty.
	Start string

	// MaxIterations is how many calls of models a turn may take, of all agents
	// together; 0 means [DefaultMaxIterations].
	MaxIterations int
}

// SwarmAgent is a member of a [Swarm].
type SwarmAgent struct {
	// ReAct is the agent. Its Name is needed; MaxIterations, Output and Summary
	// can't be set, and Use can have neither nodes nor tools.
	ReAct[State]

	// Description tells the other agents' models what it is for.
	Description string

	// To names the agents that it may hand over to; all others if nil.
	To []string
}

// HandOffTool is the name of the tool that hands over to an agent.
func HandOffTool(agent string) string { return "transfer_to_" + agent }

// NewSwarm returns the graph of a swarm: each agent has a node that asks its
// model, by its name, and one that calls its tools.
func NewSwarm(w Swarm, opts ...graph.Option) (*graph.Graph[State], error) {
	if w.Name == "" {
		w.Name = "swarm"
	}
	if w.MaxIterations == 0 {
		w.MaxIterations = DefaultMaxIterations
	}
	b := graph.New[State](w.Name)
	if w.MaxIterations < 0 {
		b.Mistake("", fmt.Errorf("MaxIterations is %d: give a positive number, or 0 for %d", w.MaxIterations, DefaultMaxIterations))
	}
	if len(w.Agents) == 0 {
		b.Mistake("", errors.New("there are no agents"))
		return b.Compile(opts...)
	}
	byName := map[string]*SwarmAgent{}
	names := make([]string, len(w.Agents))
	for i := range w.Agents {
		a := &w.Agents[i]
		names[i], byName[a.Name] = a.Name, a
	}
	if w.Start == "" {
		w.Start = names[0]
	}
	if byName[w.Start] == nil {
		b.Mistake("", fmt.Errorf("start names %q, which is no agent of the swarm", w.Start))
	}
	for i := range w.Agents {
		w.Agents[i].addTo(b, byName, names, w.MaxIterations)
	}
	b.AddConditionalEdges(graph.Start, func(_ context.Context, s *State) (graph.Command, error) {
		if byName[s.Active] == nil { // nobody yet, or one that is no longer there
			return graph.Goto(w.Start), nil
		}
		return graph.Goto(s.Active), nil
	}, names...)
	return b.Compile(opts...)
}

func (a *SwarmAgent) addTo(b *graph.Builder[State], byName map[string]*SwarmAgent, names []string, max int) {
	if a.MaxIterations != 0 || a.Output != nil || a.Summary != nil {
		b.Mistake(a.Name, errors.New("an agent of a swarm can't have MaxIterations, Output or Summary"))
	}
	to := a.To
	if to == nil {
		for _, name := range names {
			if name != a.Name {
				to = append(to, name)
			}
		}
	}
	var handOffs []tool.Tool
	for _, name := range to {
		other := byName[name]
		if other == nil || name == a.Name {
			b.Mistake(a.Name, fmt.Errorf("hand-over list To names %q, which is no other agent of the swarm", name))
			continue
		}
		handOffs = append(handOffs, handOff(other))
	}
	tools := slices.Concat(a.Tools, handOffs)
	choose := with(a.Choose, handOffs...)
	AddLLM(b, a.Name, LLM[State]{
		Model: a.Model, Instruction: a.Instruction, Prompt: a.Prompt, Config: a.Config, Tools: tools, Choose: choose,
		Use: a.Use, Whole: a.Whole, MaxCalls: max,
	})
	if len(tools) == 0 && a.Choose == nil {
		b.AddEdge(a.Name, graph.End)
		return
	}
	node := a.Name + "_tools"
	own := &Tools[State]{
		Tools: tools, Choose: choose, OnError: a.OnError, Parallel: a.Parallel, TaskPerCall: a.TaskPerCall, Approve: a.Approve, Direct: a.Direct,
		Use: a.Use,
	}
	addTools(b, node, own, []graph.NodeOption{graph.Destinations(append(to[:len(to):len(to)], graph.End)...)})
	b.AddConditionalEdges(a.Name, func(ctx context.Context, s *State) (graph.Command, error) {
		if _, calls := Pending(&s.Messages); len(calls) == 0 {
			return graph.Goto(graph.End), nil
		}
		return own.lead(ctx, s, s, node)
	}, node, graph.End)
	b.AddEdge(node, a.Name)
}

// handOff is the tool that hands over to an agent.
func handOff(to *SwarmAgent) tool.Tool {
	description := "Hands the conversation over to " + to.Name + "."
	if to.Description != "" {
		description += " " + to.Description
	}
	return NewStateTool(HandOffTool(to.Name), description, func(ctx context.Context, s *State, _ struct{}) (string, graph.Command, error) {
		if routed(ctx) {
			return "Not done: the conversation was handed over to " + s.Active + " already.", graph.Command{}, nil
		}
		s.Active = to.Name
		return "The conversation was handed over to " + to.Name + ".", graph.Goto(to.Name), nil
	})
}
