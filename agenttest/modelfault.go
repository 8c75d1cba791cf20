package agenttest

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
)

// provider is the name in errors.
const provider = "agenttest"

// FaultyModel is a model with faults; see [Faulty].
type FaultyModel struct{ injector[model.Model] }

var _ model.Model = (*FaultyModel)(nil)

// Faulty returns a model that answers as m does, but for the faults. Calls are
// counted in the order in which they begin, those of Generate and of Stream, whose
// iteration is the call, together. Where several faults meet, the first is around
// the others.
func Faulty(m model.Model, faults ...ModelFault) *FaultyModel {
	return &FaultyModel{newInjector(m, faults)}
}

// Generate implements [model.Model].
func (m *FaultyModel) Generate(ctx context.Context, req *model.Request) (*model.Response, error) {
	return m.next().Generate(ctx, req)
}

// Stream implements [model.Model].
func (m *FaultyModel) Stream(ctx context.Context, req *model.Request) iter.Seq2[chat.Chunk, error] {
	return func(yield func(chat.Chunk, error) bool) { m.next().Stream(ctx, req)(yield) }
}

// answering is a fault that gives an answer, or an error, in the model's stead,
// which isn't asked.
func answering(name string, answer func(ctx context.Context) (*model.Response, error)) ModelFault {
	return ModelFault{name: name, wrap: func(_ model.Model, happened func()) model.Model {
		return model.Func(func(ctx context.Context, _ *model.Request) (*model.Response, error) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			happened()
			return answer(ctx)
		})
	}}
}

// Fail makes a call fail with err before an answer begins. The model isn't asked.
func Fail(err error) ModelFault {
	return answering("Fail", func(context.Context) (*model.Response, error) { return nil, err })
}

// RateLimit makes a call fail as one does that the provider refuses with status
// 429. RetryAfter is how long it asks to wait; 0 if it doesn't say. The model
// isn't asked.
func RateLimit(retryAfter time.Duration) ModelFault {
	f := Fail(&model.Error{Provider: provider, Kind: model.ErrorRateLimit, Status: 429, Message: "too many requests", RetryAfter: retryAfter})
	f.name = "RateLimit"
	return f
}

// ServerError makes a call fail with status 500. The model isn't asked.
func ServerError() ModelFault {
	f := Fail(&model.Error{Provider: provider, Kind: model.ErrorServer, Status: 500, Message: "internal error"})
	f.name = "ServerError"
	return f
}

// Hang makes a call last until its context ends, and fail with an error that
// wraps the context's. The model isn't asked. A call without a deadline is never
// over.
func Hang() ModelFault {
	return answering("Hang", func(ctx context.Context) (*model.Response, error) {
		<-ctx.Done()
		return nil, fmt.Errorf("%s: no answer: %w", provider, ctx.Err())
	})
}

// EmptyAnswer makes a call succeed with a message that says nothing. The model
// isn't asked.
func EmptyAnswer() ModelFault {
	return answering("EmptyAnswer", func(context.Context) (*model.Response, error) {
		return &model.Response{Message: chat.Message{Role: chat.RoleAssistant, Finish: chat.FinishStop}}, nil
	})
}

// BreakStream makes a stream fail after n chunks of the model's answer, or at its
// end if it has fewer, and Generate when the answer is there. The model has been
// asked then: a scripted one has used up its reply.
func BreakStream(n int) ModelFault {
	return ModelFault{name: "BreakStream", wrap: func(m model.Model, happened func()) model.Model {
		return &breaking{m, n, happened}
	}}
}

type breaking struct {
	m        model.Model
	n        int
	happened func()
}

func (b *breaking) fail() error {
	b.happened()
	return &model.Error{Provider: provider, Kind: model.ErrorBrokenStream, Status: 200, Message: "the connection broke"}
}

func (b *breaking) Generate(ctx context.Context, req *model.Request) (*model.Response, error) {
	if _, err := b.m.Generate(ctx, req); err != nil {
		return nil, err
	}
	return nil, b.fail()
}

func (b *breaking) Stream(ctx context.Context, req *model.Request) iter.Seq2[chat.Chunk, error] {
	return func(yield func(chat.Chunk, error) bool) {
		n := 0
		for chunk, err := range b.m.Stream(ctx, req) {
			if err != nil {
				yield(chat.Chunk{}, err)
				return
			}
			if n >= b.n {
				break
			}
			if n++; !yield(chunk, nil) {
				return
			}
		}
		yield(chat.Chunk{}, b.fail())
	}
}

// SlowTokens makes a stream wait for d before each chunk, and Generate for d
// before the answer.
func SlowTokens(d time.Duration) ModelFault {
	return ModelFault{name: "SlowTokens", wrap: func(m model.Model, happened func()) model.Model {
		return &slow{m, d, happened}
	}}
}

type slow struct {
	m        model.Model
	d        time.Duration
	happened func()
}

func (s *slow) Generate(ctx context.Context, req *model.Request) (*model.Response, error) {
	s.happened()
	if err := sleep(ctx, s.d); err != nil {
		return nil, err
	}
	return s.m.Generate(ctx, req)
}

func (s *slow) Stream(ctx context.Context, req *model.Request) iter.Seq2[chat.Chunk, error] {
	return func(yield func(chat.Chunk, error) bool) {
		s.happened()
		for chunk, err := range s.m.Stream(ctx, req) {
			if err == nil {
				err = sleep(ctx, s.d)
			}
			if err != nil {
				yield(chat.Chunk{}, err)
				return
			}
			if !yield(chunk, nil) {
				return
			}
		}
	}
}

// NoSuchTool is the name that [UnknownTool] gives to tools.
const NoSuchTool = "no_such_tool"

// UnknownTool makes the model call, in the place of each tool, one of the name
// [NoSuchTool]. An answer without calls stays as it is.
func UnknownTool() ModelFault {
	return malformed("UnknownTool", func(_ bool, _, name, _ *string) {
		if *name != "" {
			*name = NoSuchTool
		}
	})
}

// BrokenArguments makes the arguments of each call of the model's answer something
// that isn't JSON. An answer without calls stays as it is.
func BrokenArguments() ModelFault {
	return malformed("BrokenArguments", func(first bool, _, _, args *string) {
		if first {
			*args = "{" + *args
		}
	})
}

// NoCallID takes the IDs off the calls of the model's answer. An answer without
// calls stays as it is.
func NoCallID() ModelFault {
	return malformed("NoCallID", func(_ bool, id, _, _ *string) { *id = "" })
}

// malformed is a fault that alters the calls of an answer. First says that a
// piece of a call is its first.
func malformed(name string, alter func(first bool, id, name, args *string)) ModelFault {
	return ModelFault{name: name, wrap: func(m model.Model, happened func()) model.Model {
		return &altering{m, alter, happened}
	}}
}

type altering struct {
	m        model.Model
	alter    func(first bool, id, name, args *string)
	happened func()
}

func (a *altering) parts(parts []chat.Part) []chat.Part {
	out := slices.Clone(parts)
	for i, p := range out {
		if c, ok := p.(chat.ToolCall); ok {
			a.happened()
			a.alter(true, &c.ID, &c.Name, &c.Args)
			out[i] = c
		}
	}
	return out
}

func (a *altering) Generate(ctx context.Context, req *model.Request) (*model.Response, error) {
	resp, err := a.m.Generate(ctx, req)
	if err != nil {
		return nil, err
	}
	altered := *resp
	altered.Message.Parts = a.parts(resp.Message.Parts)
	return &altered, nil
}

func (a *altering) Stream(ctx context.Context, req *model.Request) iter.Seq2[chat.Chunk, error] {
	return func(yield func(chat.Chunk, error) bool) {
		begun := map[int]bool{} // calls
		for chunk, err := range a.m.Stream(ctx, req) {
			chunk.Parts = a.parts(chunk.Parts)
			chunk.ToolCalls = slices.Clone(chunk.ToolCalls)
			for i := range chunk.ToolCalls {
				c := &chunk.ToolCalls[i]
				a.happened()
				a.alter(!begun[c.Index], &c.ID, &c.Name, &c.Args)
				begun[c.Index] = true
			}
			if !yield(chunk, err) {
				return
			}
		}
	}
}
