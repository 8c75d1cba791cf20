package assistant

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/action"
	"github.com/superstep-dev/superstep/graph"
)

// begin returns the conversation, with so many of its messages, and what its turn begins
// with: the deadline that is over, or the first of the inbox.
func (a *Assistant) begin(ctx context.Context, s *State, messages int) (dialogue.State, begun, error) {
	d := s.dialogue(messages)
	if d.Metadata.Machine.Thread == "" {
		d.Metadata.Machine.Thread = graph.Info(ctx).Thread
	}
	in := s.Inbox.Get()
	if len(in) == 0 {
		return d, begun{}, errNothingSaid
	}
	return d, in[0], nil
}

// understand turns a message into commands: those of a button, those that its words are
// as an answer to the open question, or those that a model finds in it.
func (a *Assistant) understand(ctx context.Context, s *State) error {
	if busy(s) || s.Turn.Get().Decided {
		return nil // a turn was given up in the middle: it goes on before the next
	}
	d, in, err := a.begin(ctx, s, dialogue.HistoryShown)
	if err != nil {
		return err
	}
	inbox := append([]begun(nil), s.Inbox.Get()...)
	if in.at().IsZero() { // recorded, so that it is the same whenever the node runs again
		now, err := graph.Once(ctx, "now", func(context.Context, string) (time.Time, error) { return a.config.Now(), nil })
		if err != nil {
			return err
		}
		in = in.on(now)
		inbox[0] = in
	}
	if due, ok := d.Due(); ok && in.Wake == nil && !due.After(*in.at()) { // what is due comes first
		in = begun{Wake: &dialogue.Wake{Time: due}}
		inbox = append([]begun{in}, inbox...)
	}
	s.Inbox.Set(inbox)
	turn := underWay{}
	if in.Message != nil {
		turn.Commands = in.Message.Commands
		next, effects, err := dialogue.Advance(a.config.Program, d, *in.Message)
		if err != nil {
			return err
		}
		if len(effects) == 1 && effects[0].Understand != nil {
			if turn.Commands, turn.Called, err = a.read(ctx, next, *effects[0].Understand); err != nil {
				return &dialogue.UnderstandingError{Err: err}
			}
			turn.Read, turn.Before = true, s.ConversationState
			s.ConversationState = string(next.ConversationState)
			s.NLUResult.Set(&dialogue.NLUResult{Commands: dialogue.Masked(a.config.Program, next, turn.Commands)})
			if !turn.Called.IsZero() {
				s.LastNLUCall.Set(&turn.Called)
			}
		}
	}
	s.Turn.Set(turn)
	return nil
}

// heard is what a model found in a message.
type heard struct {
	Commands []dialogue.Command `json:"commands"`
	Called   time.Time          `json:"called"`
}

// read returns the commands of a message, and when a model was asked for them.
func (a *Assistant) read(ctx context.Context, d dialogue.State, in dialogue.Understand) ([]dialogue.Command, time.Time, error) {
	if cmds, ok := a.config.Read(a.config.Program, d, in.Message); ok {
		return cmds, time.Time{}, nil
	}
	if a.config.Understanding == nil {
		return nil, time.Time{}, nil
	}
	h, err := graph.Once(ctx, "nlu", func(ctx context.Context, _ string) (heard, error) {
		cmds, err := a.config.Understanding.Understand(ctx, in)
		return heard{cmds, a.config.Now().UTC()}, err
	})
	return h.Commands, h.Called, err
}

// afterUnderstand leads a turn to what its first command is about.
func afterUnderstand(s *State) string {
	switch {
	case busy(s):
		return handleIntentChange
	case s.Turn.Get().Decided:
		return generateResponse
	}
	in := s.Inbox.Get()[0]
	if in.Message == nil {
		if in.Operator != nil {
			return generateResponse
		}
		return handleIntentChange // an event, a deadline, a person that gives the conversation back
	}
	for _, c := range s.Turn.Get().Commands {
		switch c.Type {
		case dialogue.SetSlot, dialogue.CorrectSlot, dialogue.ClearSlot, dialogue.Affirm, dialogue.Deny, dialogue.Select, dialogue.NextOption, dialogue.Skip:
			return validateSlot
		case dialogue.AskQuestion, dialogue.Chitchat, dialogue.OutOfScope, dialogue.Clarify, dialogue.Repeat, dialogue.SetLanguage:
			return handleDigression
		case dialogue.StartFlow, dialogue.CancelFlow, dialogue.CompleteFlow, dialogue.ResumeFlow, dialogue.Handoff:
			return handleIntentChange
		}
	}
	return generateResponse
}

// decide works out what a turn begins with, as far as nothing has to be done in the world.
func (a *Assistant) decide(ctx context.Context, s *State) error {
	if busy(s) {
		return nil
	}
	d, in, err := a.begin(ctx, s, a.config.Program.Settings.HistoryMessages)
	if err != nil {
		return err
	}
	turn := s.Turn.Get()
	if turn.Read {
		d.ConversationState = dialogue.ConversationState(cmp.Or(turn.Before, string(dialogue.Idle)))
	}
	given := in.input()
	if turn.Read {
		given = dialogue.Understood{Message: in.Message, Commands: turn.Commands, Time: turn.Called}
	}
	d, effects, err := dialogue.Advance(a.config.Program, d, given)
	if err != nil {
		return err
	}
	return a.settle(ctx, s, d, effects)
}

// settle has validators asked, and keeps what came of it all.
func (a *Assistant) settle(ctx context.Context, s *State, d dialogue.State, effects []dialogue.Effect) error {
	ctx, err := a.calling(ctx, "") // a validation says its own
	if err != nil {
		return err
	}
	turn := s.Turn.Get()
	turn.Decided = true
	for len(effects) > 0 {
		e := effects[0]
		effects = effects[1:]
		if e.Reply != nil {
			turn.Reply = e.Reply
		}
		if e.Validate == nil {
			continue
		}
		v, err := graph.Do(ctx, "validate "+e.Validate.Validator, a.validate, *e.Validate)
		if err != nil {
			return err
		}
		var more []dialogue.Effect
		if d, more, err = dialogue.Advance(a.config.Program, d, v); err != nil {
			return err
		}
		effects = append(effects, more...)
	}
	s.Turn.Set(turn)
	s.set(d, a.config.Program.Settings)
	return nil
}

func (a *Assistant) validate(ctx context.Context, v dialogue.Validation) (dialogue.Validated, error) {
	out := a.config.Actions.Validate(ctx, v)
	out.ID = v.ID
	if out.Error != nil && ctx.Err() != nil {
		return out, context.Cause(ctx) // the run ends, which says nothing about the value
	}
	return out, nil
}

// takeSlot is decide for what was said about slots. If the turn ends with it, and there is
// nothing to be said about its words, it is over.
func (a *Assistant) takeSlot(ctx context.Context, s *State) error {
	if err := a.decide(ctx, s); err != nil {
		return err
	}
	if r := s.Turn.Get().Reply; r != nil && !a.rephrases(s) {
		s.end()
		if !waits(s) {
			s.Turn.Set(underWay{Decided: true, Ended: true}) // generate_response leads to the end
		}
	}
	return nil
}

// respond answers what means nothing in particular, words the reply anew where the program
// wants that, and ends the turn.
func (a *Assistant) respond(ctx context.Context, s *State) error {
	if !s.Turn.Get().Decided {
		if err := a.decide(ctx, s); err != nil {
			return err
		}
		if busy(s) {
			return nil
		}
	}
	if r := s.Turn.Get().Reply; r != nil && a.rephrases(s) {
		if err := a.rephrase(ctx, s, *r); err != nil {
			return err
		}
	}
	s.end()
	return nil
}

// rephrase has the reply said in other words. What fails leaves it as it is.
func (a *Assistant) rephrase(ctx context.Context, s *State, r dialogue.Reply) error {
	worded, err := graph.Once(ctx, "rephrase", func(ctx context.Context, _ string) (dialogue.Reply, error) {
		worded, err := a.config.Rephrasing.Rephrase(ctx, r)
		if err != nil {
			if ctx.Err() != nil {
				return r, context.Cause(ctx)
			}
			return r, nil
		}
		return worded, nil
	})
	if err != nil {
		return err
	}
	s.reword(worded)
	return nil
}

// rephrases says whether the reply is to be said in other words. One that shows something
// sensitive is left alone: no model reads it.
func (a *Assistant) rephrases(s *State) bool {
	r := s.Turn.Get().Reply
	return a.config.Rephrasing != nil && r.Text == s.LastResponse &&
		slices.ContainsFunc(r.Messages, func(m dialogue.Said) bool { return m.Rephrase })
}

// end ends the turn.
func (s *State) end() {
	if in, turn := s.Inbox.Get(), s.Turn.Get(); len(in) > 0 && turn.Decided && !turn.Ended {
		s.Inbox.Set(in[1:])
	}
	s.Turn.Set(underWay{})
}

// busy says whether something has to be done in the world before the turn can go on.
func busy(s *State) bool { return len(s.Machine.Get().Pending) > 0 }

// waits says whether something is open, so that the conversation isn't over.
func waits(s *State) bool {
	m := s.Machine.Get()
	return len(s.Inbox.Get()) > 0 || m.Question != nil || m.Handoff != nil || !m.Deadline.IsZero() || len(s.FlowStack.Get()) > 0
}

// afterSlot leads on: with nothing to be done or said, to the next question.
func afterSlot(s *State) string {
	if !busy(s) && !s.Turn.Get().Decided {
		return collectNextSlot
	}
	return afterDecision(s)
}

func afterDecision(s *State) string {
	if busy(s) {
		return executeAction
	}
	return generateResponse
}

func afterResponse(s *State) string {
	switch {
	case busy(s):
		return executeAction
	case waits(s):
		return collectNextSlot
	}
	return graph.End
}

// execute does what has to be done in the world, all at once, and goes on with the results.
func (a *Assistant) execute(ctx context.Context, s *State) error {
	p := a.config.Program
	d := s.dialogue(p.Settings.HistoryMessages)
	language := p.Languages.Default
	if t := d.Metadata.Machine.Turn; t != nil {
		language = t.Language
	}
	ctx, err := a.calling(ctx, language)
	if err != nil {
		return err
	}
	waiting := make([]func() (dialogue.Input, error), 0, len(d.Pending()))
	for _, e := range d.Pending() {
		switch {
		case e.Action != nil:
			f := graph.Go(ctx, e.Action.Action, a.act, *e.Action)
			waiting = append(waiting, func() (dialogue.Input, error) { return f.Wait(ctx) })
		case e.Model != nil:
			f := graph.Go(ctx, "model", a.generate, *e.Model)
			waiting = append(waiting, func() (dialogue.Input, error) { return f.Wait(ctx) })
		}
	}
	var errs []error
	var effects []dialogue.Effect
	for _, wait := range waiting {
		in, err := wait()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		var more []dialogue.Effect
		if d, more, err = dialogue.Advance(p, d, in); err != nil {
			return err
		}
		effects = append(effects, more...)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return a.settle(ctx, s, d, effects)
}

// act runs an action with its retries.
func (a *Assistant) act(ctx context.Context, call dialogue.ActionCall) (dialogue.Result, error) {
	for attempt := 1; ; attempt++ {
		r := a.config.Actions.Do(ctx, call)
		r.ID = call.ID
		if r.Error != nil && ctx.Err() != nil {
			return r, context.Cause(ctx) // the run ends; it is not known what became of the action
		}
		if r.Error == nil || !call.Retry.Applies(r.Error.Type, attempt) {
			return r, nil
		}
		select {
		case <-ctx.Done():
			return r, context.Cause(ctx)
		case <-time.After(call.Retry.After(attempt)):
			graph.Heartbeat(ctx)
		}
	}
}

// calling returns the context of code that the conversation calls, which says whom it is
// with.
func (a *Assistant) calling(ctx context.Context, language string) (context.Context, error) {
	thread := graph.Info(ctx).Thread
	c, err := graph.Configured[Caller](ctx)
	if err != nil {
		return nil, err
	}
	if c.User == "" {
		c.User = a.config.User(thread)
	}
	return action.WithCaller(ctx, action.Caller{Thread: thread, User: c.User, Language: language}), nil
}

func (a *Assistant) generate(ctx context.Context, call dialogue.ModelCall) (dialogue.Answer, error) {
	out := a.config.Generation.Generate(ctx, call)
	out.ID = call.ID
	if out.Error != nil && ctx.Err() != nil {
		return out, context.Cause(ctx)
	}
	return out, nil
}

// asked is the key of the question of a turn's end.
const asked = "turn"

// asks is what collect asks.
func (a *Assistant) asks(s *State) (question any, opts []graph.AskOption, ask bool) {
	d := s.outline()
	opts = []graph.AskOption{a.takes}
	if due, ok := d.Due(); ok {
		opts = append(opts, graph.Deadline(max(due.Sub(a.config.Now()), time.Millisecond)))
	}
	return a.question(d), opts, len(s.Inbox.Get()) == 0
}

// collect waits for what comes next.
func (a *Assistant) collect(ctx context.Context, s *State) error {
	if len(s.Inbox.Get()) > 0 {
		return nil // it came meanwhile
	}
	question, opts, _ := a.asks(s)
	said, err := graph.Interrupt[answer](ctx, asked, question, opts...)
	if _, late := errors.AsType[*graph.DeadlineError](err); late {
		d := s.outline()
		due, _ := d.Due()
		s.Inbox.Set([]begun{{Wake: &dialogue.Wake{Time: due}}})
		return nil
	}
	if err != nil {
		return err
	}
	b, err := said.begins()
	if err != nil {
		return err
	}
	s.Inbox.Set([]begun{b})
	return nil
}
