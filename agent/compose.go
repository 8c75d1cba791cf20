package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/tool"
)

// Chain returns the graph of agents that work one after the other: the first
// answers the user, each further one the answer of the one before.
func Chain(name string, agents []*Agent, opts ...graph.Option) (*graph.Graph[State], error) {
	b := members(name, agents)
	for i, a := range agents {
		if i == 0 {
			b.AddEdge(graph.Start, a.Name())
			continue
		}
		b.AddEdge(agents[i-1].Name(), a.Name())
	}
	return b.Compile(opts...)
}

// Parallel returns the graph of agents that answer the user all at once. Their
// answers stand in Messages in the order of the agents, and in NodeResponses;
// LastResponse is all of them, each behind the agent's name.
func Parallel(name string, agents []*Agent, opts ...graph.Option) (*graph.Graph[State], error) {
	b := members(name, agents)
	for _, a := range agents {
		b.AddEdge(graph.Start, a.Name())
		if len(agents) > 1 {
			b.AddEdge(a.Name(), nodeCollect)
		}
	}
	if len(agents) > 1 {
		b.AddNode(nodeCollect, func(_ context.Context, s *State) error {
			var all []string
			for _, a := range agents {
				if text, ok := s.NodeResponses.Get(a.Name()); ok {
					all = append(all, a.Name()+": "+text)
				}
			}
			s.LastResponse.Add(strings.Join(all, "\n\n"))
			return nil
		})
	}
	return b.Compile(opts...)
}

// nodeCollect is the node of [Parallel] that joins the answers.
const nodeCollect = "collect_answers"

// Cycle says how agents take turns again and again.
type Cycle struct {
	Name   string
	Agents []*Agent

	// MaxRounds is how many rounds there are at most. It must be positive.
	MaxRounds int

	// Until, if set, is called after each round: true ends the cycle. It also
	// ends when an agent calls [EscalateTool]; the agents after it have their
	// turn.
	Until func(s *State) bool
}

// The nodes of a [Cycle] beside its agents.
const (
	nodeBegin = "begin_cycle"
	nodeRound = "end_round"
)

// NewCycle returns the graph of a cycle. The first agent answers the user, each
// further one, and in later rounds the first one, the answer of the one before.
// Rounds of the state says how many rounds there were.
func NewCycle(c Cycle, opts ...graph.Option) (*graph.Graph[State], error) {
	b := members(c.Name, c.Agents)
	if c.MaxRounds <= 0 {
		b.Mistake("", fmt.Errorf("MaxRounds is %d: give a positive number", c.MaxRounds))
	}
	b.AddNode(nodeBegin, func(_ context.Context, s *State) error {
		s.Rounds, s.Escalated = 0, false
		return nil
	})
	b.AddNode(nodeRound, func(_ context.Context, s *State) error { s.Rounds++; return nil })
	b.AddEdge(graph.Start, nodeBegin)
	last := nodeBegin
	for _, a := range c.Agents {
		b.AddEdge(last, a.Name())
		last = a.Name()
	}
	b.AddEdge(last, nodeRound)
	if len(c.Agents) == 0 {
		return b.Compile(opts...)
	}
	first := c.Agents[0].Name()
	b.AddRoutes(nodeRound, func(_ context.Context, s *State) (string, error) {
		if s.Escalated || s.Rounds >= c.MaxRounds || c.Until != nil && c.Until(s) {
			return "done", nil
		}
		return "again", nil
	}, map[string]string{"again": first, "done": graph.End})
	return b.Compile(opts...)
}

// EscalateTool is a tool with which a model ends the [Cycle] that its agent is
// in.
func EscalateTool[S any, P Stateful[S]]() tool.Tool {
	return NewStateTool("exit_loop", "Ends the loop: call it when nothing is left to improve.", func(_ context.Context, s *S, _ struct{}) (string, graph.Command, error) {
		P(s).AgentState().Escalated = true
		return "The loop ends after this turn.", graph.Command{}, nil
	})
}

// members returns a graph with a node for each agent.
func members(name string, agents []*Agent) *graph.Builder[State] {
	b := graph.New[State](name)
	if len(agents) == 0 {
		b.Mistake("", errors.New("there are no agents"))
	}
	for _, a := range agents {
		AddAgent(b, a.Name(), a, SubAgent[State]{})
	}
	return b
}
