package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool"
)

// DefaultMaxIterations is how many calls of a model a [ReAct] agent makes in a
// turn unless MaxIterations says otherwise.
const DefaultMaxIterations = 12

// The nodes of a [ReAct] agent.
const (
	NodeModel     = "agent"     // asks the model
	NodeTools     = "tools"     // calls the tools
	NodeSummary   = "summary"   // ReAct.Summary
	NodeStructure = "structure" // asks for the answer in the form of ReAct.Output
)

// ReAct is an agent as a graph: a model that calls tools until it has an answer.
// Its two nodes take turns, so that each answer of the model and each round of
// tools is a checkpoint. Only Model is needed.
//
//	a, err := agent.New(agent.ReAct[agent.State]{
//		Model: openai.New("gpt-5"),
//		Tools: []tool.Tool{weather},
//	})
//	snap, err := a.Invoke(ctx, agent.Ask[agent.State]("Do I need a coat in Bern?"))
//	fmt.Println(snap.State.LastResponse)
//
// A turn ends with an answer, or at a limit; Stopped of the state says which. The
// answer is in LastResponse: if the model had said nothing when the limit was
// reached, that is still the one of the turn before, if any.
type ReAct[S any] struct {
	Name string // of the graph; "agent" if empty

	Model model.Model
	Tools []tool.Tool

	// Instruction, Prompt, Config and Whole are those of [LLM];
	// Choose is that of both nodes. With tools an empty Instruction stands for
	// [DefaultInstruction], unless there is a Prompt.
	Instruction string
	Prompt      func(ctx context.Context, s *S) (string, error)
	Config      model.Config
	Choose      func(ctx context.Context, s *S) ([]tool.Tool, error)
	Whole       bool

	// MaxIterations is how many calls of the model a turn may take. A run's limit
	// of supersteps holds as well.
	MaxIterations int

	// OnError, Parallel, TaskPerCall, Approve and Direct are those of [Tools].
	OnError     ErrorPolicy
	Parallel    int
	TaskPerCall bool
	Approve     []Approval
	Direct      []string

	// Output asks for the final answer in JSON that follows a schema (see
	// [model.OutputOf]): it is put in Structured of the state, from where
	// [Structured] reads it. How it is asked for follows from what the model says it
	// has ([model.Capable]): with each request; or, from one that can't be asked so
	// beside tools, by a tool of its own, [AnswerTool]; or else once more when the
	// answer is there, unless that has the form already. OutputTries is how many
	// answers the model has to give one in that form before the run fails; 0 means
	// [DefaultOutputTries]. A form in which a tool's own result is the answer
	// (Direct) can't be asked for.
	Output      *model.Schema
	OutputTries int

	// Summary keeps the conversation short, also between the rounds of a long turn:
	// its node comes before each call of the model.
	Summary *Summary

	// Use is what is done around the agent's work: the first of them is the outermost.
	Use []Middleware[S]
}

// New compiles an agent. The options are those of [graph.Builder.Compile].
func New[S any, P Stateful[S]](a ReAct[S], opts ...graph.Option) (*graph.Graph[S], error) {
	return Builder[S, P](a).Compile(opts...)
}

// Builder returns the graph of an agent before it is compiled, so that nodes may
// be added. It has its beginning: a further edge from the start runs beside that, so
// what comes before the model is a [Middleware], or Summary.
func Builder[S any, P Stateful[S]](a ReAct[S]) *graph.Builder[S] {
	if a.Name == "" {
		a.Name = "agent"
	}
	if a.Instruction == "" && a.Prompt == nil && (len(a.Tools) > 0 || a.Choose != nil) {
		a.Instruction = DefaultInstruction
	}
	b := graph.New[S](a.Name)
	switch {
	case a.MaxIterations < 0:
		b.Mistake(NodeModel, fmt.Errorf("MaxIterations is %d: give a positive number, or 0 for %d", a.MaxIterations, DefaultMaxIterations))
	case a.MaxIterations == 0:
		a.MaxIterations = DefaultMaxIterations
	}
	if a.OutputTries < 0 {
		b.Mistake(NodeModel, fmt.Errorf("OutputTries is %d: give a positive number, or 0 for %d", a.OutputTries, DefaultOutputTries))
	}
	if err := checkMiddleware(a.Use); err != nil {
		b.Mistake("", err)
		a.Use = nil
	}
	own := toolsOf(a.Use)
	a.Tools, a.Choose = slices.Concat(a.Tools, own), with(a.Choose, own...)
	// Where others lead: to what comes before the model, and after the agent.
	h := hooksOf(a.Use)
	first, end := firstOf(h.beforeModel, NodeModel), firstOf(h.afterAgent, graph.End)
	if a.Summary != nil {
		AddSummary(b, NodeSummary, *a.Summary, func(s *S) *chat.History { return &P(s).AgentState().Messages })
		b.AddEdge(NodeSummary, first)
		first = NodeSummary
	}
	tools := len(a.Tools) > 0 || a.Choose != nil
	o := a.outputOf(tools, end)
	l := LLM[S]{
		Model: a.Model, Instruction: a.Instruction, Prompt: a.Prompt, Config: a.Config,
		Use: wraps(a.Use), Whole: a.Whole, MaxCalls: a.MaxIterations, reserve: a.round(&h), form: o.form, lenient: true,
	}
	switch {
	case o.tool:
		if !tools {
			l.ToolChoice = AnswerTool
		}
		a.Tools = append(slices.Clip(a.Tools), answerTool[S, P](o))
		a.Choose = with(a.Choose, a.Tools[len(a.Tools)-1])
		l.final, tools = AnswerTool, true
	case o.with:
		l.Output = o.form
	}
	l.Tools, l.Choose = a.Tools, a.Choose
	AddLLM[S, P](b, NodeModel, l)
	b.AddEdge(graph.Start, firstOf(h.beforeAgent, first))
	addHooks[S, P](b, h.beforeAgent, first, first, end)
	addHooks[S, P](b, h.beforeModel, NodeModel, first, end)
	addHooks[S, P](b, h.afterModel, "", first, end) // its last leads as the model does
	addHooks[S, P](b, h.afterAgent, graph.End, first, graph.End)
	form := end
	if o.form != nil {
		form = NodeStructure
		node, err := structure[S, P](&a, o)
		b.Mistake(NodeStructure, err)
		b.AddNode(NodeStructure, node)
		if end != graph.End {
			b.AddEdge(NodeStructure, end)
		}
	}
	last := NodeModel
	if n := len(h.afterModel); n > 0 {
		b.AddEdge(NodeModel, h.afterModel[0].name)
		last = h.afterModel[n-1].name
	}
	if !tools && form == end {
		b.AddEdge(last, end)
		return b
	}
	destinations := []string{form, end}
	var node *Tools[S]
	if tools {
		destinations = append(destinations, NodeTools)
		var opts []graph.NodeOption
		if len(a.Direct) > 0 || o.tool {
			opts = append(opts, graph.Destinations(end))
		}
		node = &Tools[S]{
			Tools: a.Tools, Choose: a.Choose, OnError: a.OnError, Parallel: a.Parallel, TaskPerCall: a.TaskPerCall, Approve: a.Approve, Direct: a.Direct,
			Use: wraps(a.Use), end: end,
		}
		addTools[S, P](b, NodeTools, node, opts)
		b.AddEdge(NodeTools, first)
	}
	slices.Sort(destinations)
	b.AddConditionalEdges(last, func(ctx context.Context, s *S) (graph.Command, error) {
		st := P(s).AgentState()
		if _, calls := Pending(&st.Messages); len(calls) > 0 {
			return node.lead(ctx, s, st, NodeTools)
		}
		if st.Stopped.Get() == StopMaxIterations || st.formed() { // there is no answer to give a form to, or it has it
			return graph.Goto(end), nil
		}
		return graph.Goto(form), nil
	}, slices.Compact(destinations)...)
	return b
}

// with returns a function that chooses a tool beside those that another does.
func with[S any](choose func(context.Context, *S) ([]tool.Tool, error), more ...tool.Tool) func(context.Context, *S) ([]tool.Tool, error) {
	if choose == nil {
		return nil
	}
	return func(ctx context.Context, s *S) ([]tool.Tool, error) {
		chosen, err := choose(ctx, s)
		return slices.Concat(chosen, more), err
	}
}

// round is how many supersteps another round takes after a call of the model,
// with what follows the last call.
func (a *ReAct[S]) round(h *hooks[S]) int {
	n := 2 // the tools and the model
	if a.TaskPerCall && len(a.Approve) > 0 {
		n++ // a human decides before
	}
	if a.TaskPerCall && len(a.Direct) > 0 {
		n++ // what follows is said after
	}
	if a.Summary != nil {
		n++
	}
	n += len(h.beforeModel) + 2*len(h.afterModel) + len(h.afterAgent)
	if a.Output != nil {
		n++
	}
	return n
}

// ErrNoStructured says that a state has no structured answer.
var ErrNoStructured = errors.New("the agent has no structured answer: set Output, and run it to its end")

// Structured reads the structured answer of an agent.
func Structured[T any](s *State) (T, error) {
	var v T
	if !s.formed() {
		return v, ErrNoStructured
	}
	err := json.Unmarshal(s.Structured.Get(), &v)
	return v, err
}
