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

	// Output asks for the final answer once more, in JSON that follows a schema
	// (see [model.OutputOf]): it is put in Structured of the state, from where
	// [Structured] reads it.
	Output *model.Schema

	// PreModel and PostModel are nodes before and after each call of the model,
	// for example to trim the conversation or to check an answer.
	PreModel, PostModel func(ctx context.Context, s *S) error
}

// New compiles an agent. The options are those of [graph.Builder.Compile].
func New[S any, P Stateful[S]](a ReAct[S], opts ...graph.Option) (*graph.Graph[S], error) {
	return Builder[S, P](a).Compile(opts...)
}

// Builder returns the graph of an agent before it is compiled, so that nodes may
// be added.
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
	AddLLM[S, P](b, NodeModel, LLM[S]{
		Model: a.Model, Instruction: a.Instruction, Prompt: a.Prompt, Tools: a.Tools, Choose: a.Choose, Config: a.Config,
		Before: a.Before, After: a.After, Whole: a.Whole, MaxCalls: a.MaxIterations, reserve: a.round(),
	})
	first, last := NodeModel, NodeModel
	if a.PreModel != nil {
		b.AddNode(NodeBefore, a.PreModel)
		b.AddEdge(NodeBefore, NodeModel)
		first = NodeBefore
	}
	if a.PostModel != nil {
		b.AddNode(NodeAfter, a.PostModel)
		b.AddEdge(NodeModel, NodeAfter)
		last = NodeAfter
	}
	b.AddEdge(graph.Start, first)
	end := graph.End
	if a.Output != nil {
		end = NodeStructure
		b.AddNode(NodeStructure, func(ctx context.Context, s *S) error { return a.structure(ctx, P(s).AgentState()) })
	}
	if len(a.Tools) == 0 && a.Choose == nil {
		b.AddEdge(last, end)
		return b
	}
	var opts []graph.NodeOption
	if len(a.Direct) > 0 {
		opts = append(opts, graph.Destinations(graph.End))
	}
	AddTools[S, P](b, NodeTools, Tools[S]{
		Tools: a.Tools, Choose: a.Choose, OnError: a.OnError, Parallel: a.Parallel, Approve: a.Approve, Direct: a.Direct,
		Before: a.BeforeTool, After: a.AfterTool,
	}, opts...)
	b.AddConditionalEdges(last, func(_ context.Context, s *S) (graph.Command, error) {
		st := P(s).AgentState()
		if _, calls := Pending(&st.Messages); len(calls) > 0 {
			return graph.Goto(NodeTools), nil
		}
		if st.Stopped.Get() == StopMaxIterations { // there is no answer to give a form to
			return graph.Goto(graph.End), nil
		}
		return graph.Goto(end), nil
	}, slices.Compact([]string{NodeTools, end, graph.End})...)
	b.AddEdge(NodeTools, first)
	return b
}

// round is how many supersteps another round takes after a call of the model,
// with what follows the last call.
func (a *ReAct[S]) round() int {
	n := 2 // the tools and the model
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

// structure asks for the final answer in the form of Output.
func (a *ReAct[S]) structure(ctx context.Context, st *State) error {
	// Providers refuse a conversation that ends with the model's answer, or take it
	// for the beginning of the next one.
	messages := append(answered(st.Messages.Slice()), chat.User(askForForm))
	req := &model.Request{Messages: messages, Output: a.Output, Config: a.Config}
	resp, err := generate(ctx, a.Model, req, "structure", answerID(ctx, "structure"), true, func(m chat.Message) error {
		_, err := model.ReadOutput[json.RawMessage](a.Output, m)
		return err
	})
	if err != nil {
		return err
	}
	spend(&st.Usage, UsedBy(NodeStructure, resp))
	data, err := model.ReadOutput[json.RawMessage](a.Output, resp.Message)
	if err != nil {
		return err
	}
	st.Structured.Set(data)
	return nil
}

// askForForm asks for the answer in the form of an Output. It is not stored.
const askForForm = "Give your last answer once more, as JSON that follows the schema and nothing else."

// ErrNoStructured says that a state has no structured answer.
var ErrNoStructured = errors.New("the agent has no structured answer: set Output, and run it to its end")

// Structured reads the structured answer of an agent.
func Structured[T any](s *State) (T, error) {
	var v T
	data := s.Structured.Get()
	if data == nil {
		return v, ErrNoStructured
	}
	err := json.Unmarshal(data, &v)
	return v, err
}
