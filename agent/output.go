package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool"
)

// DefaultOutputTries is how many answers a [ReAct] agent has to give in the form of its
// Output before it fails, unless OutputTries says otherwise.
const DefaultOutputTries = 3

// AnswerTool is the name of the tool with which a model gives an answer in the form of
// [ReAct.Output], if it has tools and can't be asked for the form in the same request.
const AnswerTool = "final_answer"

// output is how an agent gets an answer in the form that is asked for.
type output struct {
	form  *model.Schema // nil: none is asked for
	tries int
	// with every request: the model's own way, or its only one. Else the form is
	// asked for when the answer is there, unless that has it.
	with bool
	tool bool // the answer is the call of a tool

	end string // the node that follows the answer
}

// outputOf chooses the way that the model has.
func (a *ReAct[S]) outputOf(tools bool, end string) output {
	o := output{form: a.Output, tries: a.OutputTries, end: end}
	if o.tries == 0 {
		o.tries = DefaultOutputTries
	}
	switch c, known := model.CapabilitiesOf(a.Model, a.Config.Model); {
	case o.form == nil:
	case known && c.Tools && (!c.Schema || tools && !c.SchemaWithTools):
		o.tool = true
	default:
		o.with = !tools || known && c.Schema && c.SchemaWithTools
	}
	return o
}

// answerTool is the [AnswerTool]: it ends the turn.
func answerTool[S any, P Stateful[S]](o output) tool.Tool { return finalAnswer[S, P]{o} }

type finalAnswer[S any, P Stateful[S]] struct{ o output }

func (finalAnswer[S, P]) takesState() {}

func (f finalAnswer[S, P]) Spec() chat.ToolSpec {
	description := "Gives the user the final answer. Call it once, when you know the answer, and in the place of writing it."
	if f.o.form.Description != "" {
		description += " The answer: " + f.o.form.Description
	}
	return chat.ToolSpec{Name: AnswerTool, Description: description, Schema: f.o.form.Schema}
}

func (f finalAnswer[S, P]) Call(ctx context.Context, args json.RawMessage) (tool.Result, error) {
	s, ok := ctx.Value(stateKey{}).(*S)
	if !ok {
		return tool.Result{}, &StateError{Tool: AnswerTool, Want: fmt.Sprintf("%T", s), Got: fmt.Sprintf("%T", ctx.Value(stateKey{}))}
	}
	st := P(s).AgentState()
	data, err := model.ReadOutput[json.RawMessage](f.o.form, chat.Assistant(string(args)))
	if err != nil {
		if misfits(&st.Messages)+1 >= f.o.tries {
			return tool.Result{}, err
		}
		return tool.Text(notTaken + err.Error() + ". Call " + AnswerTool + " again."), nil
	}
	st.answered(data)
	if to, ok := ctx.Value(commandKey{}).(*graph.Command); ok {
		*to = to.And(graph.Goto(f.o.end))
	}
	return tool.Text("The answer was given."), nil
}

// notTaken begins what a model is told of an answer in another form.
const notTaken = "Not taken: "

// misfits counts the answers of this turn that were not in the form.
func misfits(h *chat.History) (n int) {
	for m := range h.Backward() {
		if m.Role == chat.RoleUser {
			break
		}
		if r, ok := m.ToolResult(); ok && r.Name == AnswerTool {
			n++
		}
	}
	return n
}

// formed reports whether the last answer has the form that was asked for.
func (s *State) formed() bool {
	data := s.Structured.Get()
	return len(data) > 0 && string(data) != "null"
}

// answered notes an answer that came by a tool.
func (s *State) answered(data json.RawMessage) {
	s.Structured.Set(data)
	s.LastResponse.Add(string(data))
	s.Stopped.Add(StopAnswer)
}

// hopeless reports whether asking again for a form would not help.
func hopeless(err error) bool {
	return errors.Is(err, model.ErrTruncated) || errors.Is(err, model.ErrFiltered)
}

// structure returns the node that asks for the last answer in the form of Output, with
// the agent's instruction and middleware. What the model says there is not stored in the
// conversation.
func structure[S any, P Stateful[S]](a *ReAct[S], o output) (func(ctx context.Context, s *S) error, error) {
	l := LLM[S]{Model: a.Model, Instruction: a.Instruction, Prompt: a.Prompt, Config: a.Config, Use: wraps(a.Use), Whole: true, form: o.form, lenient: true}
	if o.tool {
		l.Tools, l.ToolChoice = []tool.Tool{answerTool[S, P](o)}, AnswerTool
	} else {
		l.Output = o.form
	}
	return Counted[S, P](func(ctx context.Context, s *S) error { return l.structured(ctx, s, P(s).AgentState(), o) }), l.check()
}

// structured asks until the answer has the form, or there are no more tries.
func (l *LLM[S]) structured(ctx context.Context, s *S, st *State, o output) error {
	// Providers refuse a conversation that ends with the model's answer, or take it
	// for the beginning of the next one.
	messages := append(st.Messages.Slice(), chat.User(askForForm))
	task := *l
	for try := 1; ; try++ {
		task.lenient = try < o.tries // the last is recorded only if it is of use: the node may run again
		l := &task
		t := turn{messages: messages, position: len(messages), last: NodeStructure}
		req, err := l.request(ctx, s, t)
		if err != nil {
			return err
		}
		resp, err := l.ask(ctx, s, req, t)
		if err != nil {
			return err
		}
		data, err := o.read(resp.Message)
		if err == nil {
			st.Structured.Set(data)
			return nil
		}
		if try >= o.tries || hopeless(err) {
			return err
		}
		messages = append(messages, o.corrects(resp.Message, err)...)
	}
}

// read reads an answer, which may be the call of a tool.
func (o output) read(m chat.Message) (json.RawMessage, error) {
	if calls := m.ToolCalls(); o.tool && len(calls) > 0 && calls[0].Name == AnswerTool {
		answer := chat.Assistant(calls[0].Args)
		answer.Finish = m.Finish
		if m.Finish == chat.FinishToolCalls {
			answer.Finish = chat.FinishStop
		}
		m = answer
	}
	return model.ReadOutput[json.RawMessage](o.form, m)
}

// corrects returns what a model is told after an answer in another form.
func (o output) corrects(m chat.Message, err error) []chat.Message {
	m.Role = chat.RoleAssistant
	out := []chat.Message{m.ValidUTF8()}
	calls := m.ToolCalls()
	for _, c := range calls {
		out = append(out, failure(c, notTaken+err.Error()))
	}
	if len(calls) > 0 {
		return out
	}
	return append(out, chat.User(notTaken+err.Error()+". "+askForForm))
}

// askForForm asks for the answer in the form of an Output. It is not stored.
const askForForm = "Give your last answer once more, as JSON that follows the schema and nothing else."
