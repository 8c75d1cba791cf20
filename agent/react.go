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
	NodeBefore    = "pre_model" // ReAct.PreModel
	NodeAfter     = "post_model"
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

	// Instruction, Prompt, Config, Before, After and Whole are those of [LLM];
	// Choose is that of both nodes. With tools an empty Instruction stands for
	// [DefaultInstruction], unless there is a Prompt.
	Instruction string
	Prompt      func(ctx context.Context, s *S) (string, error)
	Config      model.Config
	Choose      func(ctx context.Context, s *S) ([]tool.Tool, error)
	Before      func(ctx context.Context, s *S, req *model.Request) (*model.Response, error)
	After       func(ctx context.Context, s *S, req *model.Request, resp *model.Response, err error) (*model.Response, error)
	Whole       bool

	// MaxIterations is how many calls of the model a turn may take. A run's limit
	// of supersteps holds as well.
	MaxIterations int

	// OnError, Parallel, Approve, Direct, BeforeTool and AfterTool are those of
	// [Tools].
	OnError    ErrorPolicy
	Parallel   int
	Approve    []Approval
	Direct     []string
	BeforeTool func(ctx context.Context, call *chat.ToolCall) (*tool.Result, error)
	AfterTool  func(ctx context.Context, call chat.ToolCall, res *tool.Result, err error) (*tool.Result, error)

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

	// PreModel and PostModel are nodes before and after each call of the model,
	// for example to trim the conversation or to check an answer. An answer that
	// PostModel removes from Messages or replaces is no longer LastResponse either.
	PreModel, PostModel func(ctx context.Context, s *S) error
}

// New compiles an agent. The options are those of [graph.Builder.Compile].
func New[S any, P Stateful[S]](a ReAct[S], opts ...graph.Option) (*graph.Graph[S], error) {
	return Builder[S, P](a).Compile(opts...)
}

// Builder returns the graph of an agent before it is compiled, so that nodes may
// be added. It has its beginning: a further edge from the start runs beside that, so
// what comes before the model is PreModel or Summary.
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
	tools := len(a.Tools) > 0 || a.Choose != nil
	o := a.outputOf(tools)
	l := LLM[S]{
		Model: a.Model, Instruction: a.Instruction, Prompt: a.Prompt, Config: a.Config,
		Before: a.Before, After: a.After, Whole: a.Whole, MaxCalls: a.MaxIterations, reserve: a.round(), form: o.form, lenient: true,
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
	first, last := NodeModel, NodeModel
	if a.PreModel != nil {
		b.AddNode(NodeBefore, a.PreModel)
		b.AddEdge(NodeBefore, NodeModel)
		first = NodeBefore
	}
	if a.Summary != nil {
		AddSummary(b, NodeSummary, *a.Summary, func(s *S) *chat.History { return &P(s).AgentState().Messages })
		b.AddEdge(NodeSummary, first)
		first = NodeSummary
	}
	if a.PostModel != nil {
		b.AddNode(NodeAfter, func(ctx context.Context, s *S) error { return guarded[S, P](ctx, s, a.PostModel) })
		b.AddEdge(NodeModel, NodeAfter)
		last = NodeAfter
	}
	b.AddEdge(graph.Start, first)
	end := graph.End
	if o.form != nil {
		end = NodeStructure
		node, err := structure[S, P](&a, o)
		b.Mistake(NodeStructure, err)
		b.AddNode(NodeStructure, node)
	}
	if !tools && o.form == nil {
		b.AddEdge(last, end)
		return b
	}
	destinations := []string{end, graph.End}
	if tools {
		destinations = append(destinations, NodeTools)
		var opts []graph.NodeOption
		if len(a.Direct) > 0 || o.tool {
			opts = append(opts, graph.Destinations(graph.End))
		}
		AddTools[S, P](b, NodeTools, Tools[S]{
			Tools: a.Tools, Choose: a.Choose, OnError: a.OnError, Parallel: a.Parallel, Approve: a.Approve, Direct: a.Direct,
			Before: a.BeforeTool, After: a.AfterTool,
		}, opts...)
		b.AddEdge(NodeTools, first)
	}
	slices.Sort(destinations)
	b.AddConditionalEdges(last, func(_ context.Context, s *S) (graph.Command, error) {
		st := P(s).AgentState()
		if _, calls := Pending(&st.Messages); len(calls) > 0 {
			return graph.Goto(NodeTools), nil
		}
		if st.Stopped.Get() == StopMaxIterations || st.formed() { // there is no answer to give a form to, or it has it
			return graph.Goto(graph.End), nil
		}
		return graph.Goto(end), nil
	}, slices.Compact(destinations)...)
	return b
}

// guarded calls a PostModel. If that takes back or rewrites the model's answer, that
// is no longer the last response either, unless it has given another.
func guarded[S any, P Stateful[S]](ctx context.Context, s *S, check func(ctx context.Context, s *S) error) error {
	last := P(s).AgentState().Messages.Last()
	text := P(s).AgentState().LastResponse.Get()
	if err := check(ctx, s); err != nil {
		return err
	}
	st := P(s).AgentState()
	if last.Role != chat.RoleAssistant || last.Text() != text || st.LastResponse.Get() != text {
		return nil
	}
	now, _ := st.Messages.Get(last.ID)
	if now.Text() != text {
		st.LastResponse.Overwrite(now.Text())
		if now.Text() == "" {
			st.NodeResponses.Delete(NodeModel)
		} else {
			st.NodeResponses.Put(NodeModel, now.Text())
		}
	}
	return nil
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
func (a *ReAct[S]) round() int {
	n := 2 // the tools and the model
	if a.Summary != nil {
		n++
	}
	if a.PreModel != nil {
		n++
	}
	if a.PostModel != nil {
		n += 2
	}
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
