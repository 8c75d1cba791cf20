package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool"
)

// Scratch is what a [ReActNode] reads and writes. A graph's state embeds it.
type Scratch struct {
	// UserInput is the question. It is sent to the model as it is, and stays.
	UserInput string `json:"user_input,omitempty"`

	// Scratchpad is what was thought, done and seen about the question.
	Scratchpad graph.List[Step] `json:"scratchpad"`

	// Iterations is how many calls of the model there were about it.
	Iterations int `json:"iterations,omitempty"`

	// FinalOutput is the answer; empty if the node stopped without one.
	FinalOutput string `json:"final_output,omitempty"`

	// Stopped says why the node stopped: [StopAnswer], [StopLength], [StopFilter] or
	// [StopMaxIterations]. If
	// it is empty, the node goes on with what is in Scratchpad; otherwise it
	// begins a new one.
	Stopped StopReason `json:"stop_reason,omitempty"`

	// Usage is what models have used on this thread, agents that are tools
	// included. It is added to and never cleared.
	Usage UsageField `json:"model_usage,omitzero"`
}

// ScratchState returns s: it is how a [ReActNode] finds the Scratch in a struct
// that embeds it.
func (s *Scratch) ScratchState() *Scratch { return s }

// Scratched is a pointer to a state that is, or embeds, a [Scratch].
type Scratched[S any] interface {
	*S
	ScratchState() *Scratch
}

// ReActNode is an agent as a single node, for embedding in a graph that has more
// to do. Only Model is needed. It asks the model, calls the tools one after the
// other and asks again, until there is an answer or a limit is reached; then it
// writes the whole scratchpad at once.
//
// There are no checkpoints inside of the node. With a checkpointer the answers of
// the model and the results of tools are recorded nevertheless, so that a node
// that runs again, after a crash or a tool's question, doesn't repeat them.
// [New] makes the same agent as a graph, whose conversation is a state that other
// nodes share.
type ReActNode struct {
	Model model.Model
	Tools []tool.Tool

	// Instruction is sent as the message of the system; [DefaultInstruction] if
	// empty. For its placeholders see [Values].
	Instruction string

	Config model.Config

	// MaxIterations is how many calls of the model a question may take; 0 means
	// [DefaultMaxIterations]. In one run the node makes no more calls than
	// supersteps are left to the run, this one included.
	MaxIterations int

	OnError ErrorPolicy

	// Approve asks a human before the calls of some tools, as [Tools] does. The
	// scratchpad has the calls as they were decided.
	Approve []Approval

	set *tool.Set
}

// DefaultInstruction is the instruction of a [ReAct] or [ReActNode] that gives
// none.
const DefaultInstruction = "Answer the user's question. Use the tools when they help, one step at a time, and don't invent what they can tell you. When you know the answer, give it and call no more tools."

// ReActError is the error of a [ReActNode]: nothing of what it did is in the
// state.
type ReActError struct {
	Steps []Step // the scratchpad as it was, an error step last
	Err   error  // a [*ToolCallError] or the model's error
}

func (e *ReActError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *ReActError) Unwrap() error { return e.Err }

// AddReAct adds an agent as a single node.
func AddReAct[S any, P Scratched[S]](b *graph.Builder[S], name string, r ReActNode, opts ...graph.NodeOption) {
	b.Mistake(name, r.check()).Defaults(graph.OnInput(func(s *S, open graph.Open) (bool, error) {
		if waits := waitsFor(open); len(waits) > 0 && !open.Restart {
			return false, &WaitingError{For: waits}
		}
		return true, nil
	}))
	b.AddNode(name, func(ctx context.Context, s *S) error {
		var before []chat.Message
		if buffered, ok := any(s).(interface{ BufferState() *Buffer }); ok {
			before = answered(buffered.BufferState().Messages.Slice())
		}
		st := P(s).ScratchState()
		_, err := counted(ctx, func() *UsageField { return &st.Usage }, func(ctx context.Context) (struct{}, error) { return struct{}{}, r.run(ctx, st, before) })
		return err
	}, opts...)
}

func (r *ReActNode) check() error {
	var errs []error
	if r.Model == nil {
		errs = append(errs, errors.New("a ReAct node needs a Model"))
	}
	if r.MaxIterations < 0 {
		errs = append(errs, fmt.Errorf("limit MaxIterations is %d: give a positive number, or 0 for %d", r.MaxIterations, DefaultMaxIterations))
	}
	var err error
	if r.set, err = tool.NewSet(r.Tools...); err != nil {
		errs = append(errs, err)
	} else {
		for _, a := range r.Approve {
			errs = append(errs, a.check(r.set))
		}
	}
	return errors.Join(errs...)
}

// run answers the question of s, given the conversation before it.
func (r *ReActNode) run(ctx context.Context, s *Scratch, before []chat.Message) error {
	if s.UserInput == "" {
		return ErrNoMessages
	}
	steps, iterations := s.Scratchpad.Slice(), s.Iterations
	if s.Stopped != "" { // about another question
		steps, iterations = nil, 0
	}
	limit := r.MaxIterations
	if limit == 0 {
		limit = DefaultMaxIterations
	}
	if left := graph.Info(ctx).RemainingSteps; left >= 0 {
		limit = min(limit, iterations+left+1)
	}
	kept := len(steps)
	// What is recorded is about this question: another one may be asked by the
	// time that the node runs again.
	sum := sha256.Sum256([]byte(s.UserInput))
	ctx = graph.Scope(ctx, hex.EncodeToString(sum[:6]))
	answer, stopped := "", StopMaxIterations
	// What is said in this run is sent back as it was said, with the parts that
	// steps have no place for: signed thoughts, pictures.
	said := slices.Concat(before, []chat.Message{chat.User(s.UserInput)}, messagesOf(steps))
	for iterations < limit {
		iterations++
		m, err := r.ask(ctx, answered(said), iterations)
		if err != nil {
			return r.fail(steps, err)
		}
		said = append(said, m)
		calls := m.ToolCalls()
		answer = m.Text()
		if len(calls) == 0 {
			steps, stopped = append(steps, FinalAnswer(answer)), stopOf(m)
			break
		}
		if answer != "" {
			steps = append(steps, Thought(answer))
		}
		if iterations == limit {
			steps = append(steps, actions(calls)...)
			for _, c := range calls {
				steps = append(steps, observe(notCalled(c, fmt.Sprintf("the limit of %d model calls was reached", limit)), c))
			}
			break
		}
		jobs, err := r.call(ctx, calls, iterations)
		if jobs == nil { // none was made
			steps = append(steps, actions(calls)...)
		}
		for _, j := range jobs {
			steps = append(steps, Action(j.call))
		}
		for _, j := range jobs {
			if j.done {
				steps = append(steps, observe(j.result, j.call))
				Spend(ctx, j.used)
			}
		}
		if err != nil {
			return r.fail(steps, err)
		}
		if edited := edit(m, jobs); edited != nil {
			said[len(said)-1] = *edited
		}
		for _, j := range jobs {
			said = append(said, j.result)
		}
	}
	if s.Stopped != "" {
		s.Scratchpad.Overwrite(steps...)
	} else {
		s.Scratchpad.Add(steps[kept:]...)
	}
	s.Iterations, s.FinalOutput, s.Stopped = iterations, answer, stopped
	return nil
}

// fail returns the error of the node.
func (r *ReActNode) fail(steps []Step, err error) error {
	if errors.Is(err, graph.ErrInterrupted) {
		return err
	}
	return &ReActError{Steps: append(steps, ErrorStep(err.Error())), Err: err}
}

// ask asks the model.
func (r *ReActNode) ask(ctx context.Context, messages []chat.Message, n int) (chat.Message, error) {
	instruction := r.Instruction
	if instruction == "" {
		instruction = DefaultInstruction
	}
	req := &model.Request{Config: r.Config, Tools: r.set.Specs()}
	req.Messages = append([]chat.Message{chat.System(expand(ctx, instruction))}, messages...)
	resp, err := Generate(ctx, fmt.Sprint("model ", n), r.Model, req)
	if err != nil {
		return chat.Message{}, err
	}
	m := resp.Message.ValidUTF8()
	m.Role = chat.RoleAssistant
	return m, nil
}

func actions(calls []chat.ToolCall) []Step {
	var steps []Step
	for _, c := range calls {
		steps = append(steps, Action(c))
	}
	return steps
}

// messagesOf returns the conversation that a scratchpad tells of.
func messagesOf(steps []Step) []chat.Message {
	var out []chat.Message
	said := func() *chat.Message { // the message of the assistant that is being put together
		if len(out) == 0 || out[len(out)-1].Role != chat.RoleAssistant {
			out = append(out, chat.Message{Role: chat.RoleAssistant})
		}
		return &out[len(out)-1]
	}
	for _, s := range steps {
		switch s.Kind {
		case StepThought, StepFinalAnswer:
			m := said()
			m.Parts = append(m.Parts, chat.Text{Text: s.Text})
		case StepAction:
			m := said()
			m.Parts = append(m.Parts, s.Call)
		case StepObservation:
			var text string
			if json.Unmarshal(s.Observation, &text) != nil {
				text = string(s.Observation)
			}
			out = append(out, chat.ResultText(s.Call, text))
		case StepError: // for people
		}
	}
	return answered(out)
}

// call calls the tools. The calls that are done when one of them fails have their
// results; if the calls can't be made there are no jobs.
func (r *ReActNode) call(ctx context.Context, calls []chat.ToolCall, n int) ([]*job, error) {
	t := Tools[Scratch]{OnError: r.OnError, Approve: r.Approve, round: fmt.Sprint(n, " ")}
	jobs, err := t.prepareAll(r.set, calls)
	if err != nil {
		return nil, err
	}
	if err := t.review(ctx, r.set, jobs); err != nil {
		return nil, err
	}
	for _, j := range jobs {
		if !j.done {
			if err := t.call(ctx, j); err != nil {
				return jobs, err
			}
		}
	}
	return jobs, nil
}

// observe returns what a tool returned as a step: JSON if it is that, else text.
func observe(m chat.Message, c chat.ToolCall) Step {
	r, _ := m.ToolResult()
	text := r.Text()
	if !r.IsError && json.Valid([]byte(text)) {
		return Observation(c, json.RawMessage(text))
	}
	return Observation(c, asJSON(text))
}
