package graph

import (
	"errors"
	"slices"
)

// Request says what [Thread.Invoke] and [Thread.Stream] do to a thread. It is a
// value: one may be made once and given to several calls. Its methods are those of a
// graph and of its threads (see [Requests]); the zero value is [Requests.Continue].
type Request[S any] struct {
	kind   requestKind
	input  func(s *S) error
	answer any
	start  *Command
	update bool // the input is one of a graph from JSON
}

type requestKind uint8

const (
	goOn requestKind = iota
	giveInput
	giveAnswer
	startAnew
	runAnew
)

// Requests makes the requests of a graph over S. A [Graph] and each [Thread] has its
// methods, so that a request is typed by whose it is.
type Requests[S any] struct{}

// Input writes to the state before the first node runs; an error refuses it, and
// nothing has happened then. What it does depends on the thread:
//
//   - The thread is new: input starts it.
//   - The thread has ended: input starts a new turn at the entry, on the state as it
//     is.
//   - Something is pending (the last run was interrupted, failed or was killed):
//     input is folded into the state, and the thread goes on. A graph with
//     [OnInput], as one with nodes of package agent, decides that itself.
//
// A nil f is the same as [Requests.Continue].
func (Requests[S]) Input(f func(s *S) error) Request[S] {
	if f == nil {
		return Request[S]{}
	}
	return Request[S]{kind: giveInput, input: f}
}

// Continue lets a pending thread go on: breakpoints are passed, questions still wait.
// On a thread that has ended nothing runs; on a new one there is
// [ErrNothingToResume].
func (Requests[S]) Continue() Request[S] { return Request[S]{} }

// Answer answers what the thread waits for and lets it go on. The answer may be a
// single value when exactly one question is open, or [Answers]. It is checked against
// the type that the node asked for, and an answer that is unknown, stale or of the
// wrong type is an [AnswerError] that changes nothing.
//
// A node that asked runs again from its beginning, and its call of [Interrupt]
// returns the answer. A task with several open questions runs when all are answered.
// Breakpoints are passed by a nil answer; others wait for all answers.
//
// Edits change the state in the same step, before any node runs; an error of one
// refuses the answer, and a nil one is none.
func (Requests[S]) Answer(answer any, edits ...func(s *S) error) Request[S] {
	r := Request[S]{kind: giveAnswer, answer: answer}
	edits = slices.DeleteFunc(slices.Clone(edits), func(edit func(*S) error) bool { return edit == nil })
	if len(edits) > 0 {
		r.input = func(s *S) error {
			for _, edit := range edits {
				if err := edit(s); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return r
}

// Restart gives up what is pending on the thread and starts a new turn on the state
// as it is, with input, which may be nil: at the entry, or where the commands say: at
// nodes, or with tasks sent from outside.
func (Requests[S]) Restart(input func(s *S) error, at ...Command) Request[S] {
	r := Request[S]{kind: startAnew, input: input}
	if len(at) > 0 {
		c := at[0].And(at[1:]...)
		r.start = &c
	}
	return r
}

// RestartStep gives up the results of the open superstep and continues, so that all
// its tasks run again. Results of [Once] are kept, and so is what an edit or an input
// has folded into the state already: those tasks are done.
func (Requests[S]) RestartStep() Request[S] { return Request[S]{kind: runAnew} }

// AsUpdate returns the request with an input that is, of a graph from [JSON], an update
// of the state even where the graph has an input type of its own ([SetInput]): for those
// who go on with a thread rather than call a graph. Other requests stay as they are.
func (r Request[S]) AsUpdate() Request[S] {
	r.update = true
	return r
}

// Answers answers several questions at once, by ID or key.
type Answers map[string]any

// request is a [Request] to an engine.
type request struct {
	kind   requestKind
	input  func(state any) error // of an answer: its edits; nil: none
	answer any
	start  *Command
}

// check reports what is wrong with a request whatever thread it is made to.
func (r *request) check() error {
	if r.start != nil && r.start.IsZero() {
		return errors.New("graph: Restart at a command without destinations")
	}
	return nil
}

func (t *Thread[S]) erase(r Request[S]) request {
	req := request{kind: r.kind, answer: r.answer, start: r.start}
	switch {
	case r.input == nil || t.e == nil: // the graph was never compiled
	case r.kind == giveAnswer || r.update:
		req.input = t.form.edit(t.e, r.input)
	default:
		req.input = t.form.input(t.e, r.input)
	}
	return req
}

// form is how a graph's caller sees its states.
type form[S any] struct {
	// edit and input return a caller's function over S as one over an engine's state.
	edit, input func(e *engine, f func(s *S) error) func(state any) error
	// read returns a state, which the caller may keep.
	read func(state any) (S, error)
}

// typed is the form of a graph whose states are S.
func typed[S any]() form[S] {
	edit := func(_ *engine, f func(s *S) error) func(any) error {
		return func(state any) error { return f(state.(*S)) }
	}
	return form[S]{
		edit: edit, input: edit,
		read: func(state any) (S, error) { return *state.(*S), nil },
	}
}
