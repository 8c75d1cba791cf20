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

// Middleware is what is done around the work of an agent: checks, limits, retries, what
// the model is sent. All of its functions are optional. An agent has a list of them
// ([ReAct.Use]), of which the first is the outermost: its functions before something are
// called first, those after something last. Package agent/middleware has some.
//
// BeforeAgent, BeforeModel, AfterModel and AfterAgent are nodes of the agent's graph, named
// "<Name>.before_agent" and so on: what they write to the state is a checkpoint, they may ask
// a person, and they say what follows: see [Next]. WrapModel and WrapTool are part of
// the node that calls the model, or the tools: what they do is not recorded, but what the
// model and tools answer is.
type Middleware[S any] struct {
	// Name is that of its nodes, and of what it keeps in the thread: see [Kept]. No two
	// of an agent may have the same.
	Name string

	// BeforeAgent comes once, before all else that the agent does in a turn; AfterAgent
	// when the turn ends with an answer.
	BeforeAgent, AfterAgent func(ctx context.Context, s *S) (Next, error)

	// BeforeModel and AfterModel come before and after each call of the model. An answer
	// that AfterModel removes from Messages or replaces is no longer LastResponse either.
	BeforeModel, AfterModel func(ctx context.Context, s *S) (Next, error)

	// WrapModel calls the model with call: with the request, which it may change, or with
	// another, several times, or not at all if it has an answer. A question, the end of
	// the run and a store that failed are its errors whatever WrapModel returns. Calls are
	// made one after the other. The answer of each is recorded: when the node runs again, the n-th call gets what
	// the n-th one got. The state is there to be read and written as by a node.
	WrapModel func(ctx context.Context, s *S, req *model.Request, call CallModel) (*model.Response, error)

	// WrapTool calls a tool with call: with the call of the model or with other arguments,
	// several times, one after the other, or not at all if it has a result. The tool's name and the ID of the
	// call stay. An error is the tool's, see [ErrorPolicy]. With Parallel several are
	// called at once. It is not called for a recorded result.
	WrapTool func(ctx context.Context, c chat.ToolCall, call CallTool) (*tool.Result, error)

	// Tools are added to those of the agent.
	Tools []tool.Tool
}

// OnRequest is middleware that changes what the model is sent.
func OnRequest[S any](name string, change func(ctx context.Context, s *S, req *model.Request) error) Middleware[S] {
	return Middleware[S]{Name: name, WrapModel: func(ctx context.Context, s *S, req *model.Request, call CallModel) (*model.Response, error) {
		if err := change(ctx, s, req); err != nil {
			return nil, err
		}
		return call(ctx, req)
	}}
}

// CallModel asks the model, or the middleware inside.
type CallModel func(ctx context.Context, req *model.Request) (*model.Response, error)

// CallTool calls the tool, or the middleware inside.
type CallTool func(ctx context.Context, c chat.ToolCall) (*tool.Result, error)

// Next is what follows a node of a [Middleware].
type Next uint8

// The choices. Calls of tools that wait are not made when something else follows than
// Onward: the model is told so.
const (
	Onward  Next = iota // what follows anyway
	ToModel             // the model is asked, and what comes before that is done
	ToEnd               // the turn ends, and what comes after the agent is done; what the user said is kept
)

func (n Next) String() string {
	switch n {
	case Onward:
		return "Onward"
	case ToModel:
		return "ToModel"
	case ToEnd:
		return "ToEnd"
	}
	return fmt.Sprintf("Next(%d)", uint8(n))
}

// Reply answers in the place of a model what the user has said.
func (s *State) Reply(text string) {
	s.hear()
	s.Messages.Add(chat.Assistant(text))
	s.LastResponse.Add(text)
}

// hear makes what the user has said, if it waits, a message of the conversation.
func (s *State) hear() {
	if s.UserInput != "" {
		s.Messages.Add(s.Messages.Identify(chat.User(s.UserInput)))
		s.UserInput = ""
	}
}

// StopMiddleware is why an agent stopped that a [Middleware] sent ToEnd.
const StopMiddleware StopReason = "middleware"

// hook is a node of a middleware.
type hook[S any] struct {
	owner, name string
	call        func(ctx context.Context, s *S) (Next, error)
	answers     bool // it comes after an answer of the model
}

// hooks are the nodes of a list of middleware, in their order.
type hooks[S any] struct{ beforeAgent, beforeModel, afterModel, afterAgent []hook[S] }

func hooksOf[S any](list []Middleware[S]) (h hooks[S]) {
	add := func(to *[]hook[S], m *Middleware[S], when string, call func(context.Context, *S) (Next, error), answers bool) {
		if call != nil {
			*to = append(*to, hook[S]{m.Name, m.Name + "." + when, call, answers})
		}
	}
	for i := range list {
		m, last := &list[i], &list[len(list)-1-i]
		add(&h.beforeAgent, m, "before_agent", m.BeforeAgent, false)
		add(&h.beforeModel, m, "before_model", m.BeforeModel, false)
		add(&h.afterModel, last, "after_model", last.AfterModel, true)
		add(&h.afterAgent, last, "after_agent", last.AfterAgent, false)
	}
	return h
}

func (h *hooks[S]) none() bool {
	return len(h.beforeAgent)+len(h.beforeModel)+len(h.afterModel)+len(h.afterAgent) == 0
}

// checkMiddleware returns what is wrong with a list.
func checkMiddleware[S any](list []Middleware[S]) error {
	var errs []error
	for i, m := range list {
		switch {
		case m.Name == "":
			errs = append(errs, fmt.Errorf("middleware %d has no Name", i+1))
		case slices.ContainsFunc(list[:i], func(o Middleware[S]) bool { return o.Name == m.Name }):
			errs = append(errs, fmt.Errorf("two middlewares have the name %q: give one of them another", m.Name))
		case m.BeforeAgent == nil && m.AfterAgent == nil && m.BeforeModel == nil && m.AfterModel == nil && m.WrapModel == nil && m.WrapTool == nil && len(m.Tools) == 0:
			errs = append(errs, fmt.Errorf("middleware %q does nothing: set one of its functions", m.Name))
		}
	}
	return errors.Join(errs...)
}

// wrapsOnly returns what is wrong with the middleware of a node that isn't an agent's.
func wrapsOnly[S any](list []Middleware[S]) error {
	errs := []error{checkMiddleware(list)}
	for _, m := range list {
		if h := hooksOf([]Middleware[S]{m}); !h.none() || len(m.Tools) > 0 {
			errs = append(errs, fmt.Errorf("middleware %q has nodes or tools of its own, which only an agent can have: give it to ReAct.Use", m.Name))
		}
	}
	return errors.Join(errs...)
}

// wraps returns what of a list is for the nodes that call the model and the tools.
func wraps[S any](list []Middleware[S]) (out []Middleware[S]) {
	for _, m := range list {
		if m.WrapModel != nil || m.WrapTool != nil {
			out = append(out, Middleware[S]{Name: m.Name, WrapModel: m.WrapModel, WrapTool: m.WrapTool})
		}
	}
	return out
}

// toolsOf returns the tools of a list.
func toolsOf[S any](list []Middleware[S]) (tools []tool.Tool) {
	for _, m := range list {
		tools = append(tools, m.Tools...)
	}
	return tools
}

// firstOf returns the name of the first of some nodes, or of what follows them.
func firstOf[S any](hooks []hook[S], to string) string {
	if len(hooks) == 0 {
		return to
	}
	return hooks[0].name
}

// addHooks adds nodes that follow one another, the last of which leads to a node, if one
// is named. ToModel and ToEnd lead to the nodes of these names.
func addHooks[S any, P Stateful[S]](b *graph.Builder[S], hooks []hook[S], to, model, end string) {
	for i, h := range hooks {
		b.AddCommandNode(h.name, func(ctx context.Context, s *S) (graph.Command, error) {
			next, err := counted(ctx, func() *UsageField { return &P(s).AgentState().Usage }, func(ctx context.Context) (Next, error) { return runHook[S, P](ctx, &h, s) })
			switch {
			case err != nil:
				return graph.Command{}, err
			case next == ToModel:
				return graph.Goto(model), nil
			case next == ToEnd:
				return graph.Goto(end), nil
			}
			return graph.Command{}, nil
		}, graph.Destinations(model, end))
		if onward := firstOf(hooks[i+1:], to); onward != "" {
			b.AddEdge(h.name, onward)
		}
	}
}

// runHook calls the function of a hook, and settles what its decision leaves undone.
func runHook[S any, P Stateful[S]](ctx context.Context, h *hook[S], s *S) (next Next, err error) {
	st := P(s).AgentState()
	last, text := st.Messages.Last(), st.LastResponse.Get()
	if next, err = h.call(ctx, s); err != nil {
		return next, err
	}
	if next > ToEnd {
		return next, fmt.Errorf("middleware %q returned %v: want Onward, ToModel or ToEnd", h.owner, next)
	}
	st = P(s).AgentState() // which the function may have replaced
	if h.answers {
		takenBack(st, last, text)
	}
	if next == Onward {
		return next, nil
	}
	if from, calls := Pending(&st.Messages); len(calls) > 0 {
		if named, changed := identified(from, st.Messages.Last().ID); changed {
			st.Messages.Add(named)
			_, calls = Pending(&st.Messages)
		}
		for _, c := range calls {
			st.Messages.Add(notCalled(c, fmt.Sprintf("%s decided otherwise", h.owner)))
		}
	}
	if next == ToEnd {
		st.hear() // the next turn's input takes its place
		st.Stopped.Add(StopMiddleware)
	}
	return next, nil
}

// takenBack sees to it that an answer of the model which was removed or rewritten is no
// longer the last response either, unless another one was given.
func takenBack(st *State, answer chat.Message, text string) {
	if answer.Role != chat.RoleAssistant || answer.Text() != text || st.LastResponse.Get() != text {
		return
	}
	now, _ := st.Messages.Get(answer.ID)
	if now.Text() == text {
		return
	}
	if st.LastResponse.Overwrite(now.Text()); now.Text() == "" {
		st.NodeResponses.Delete(NodeModel)
	} else {
		st.NodeResponses.Put(NodeModel, now.Text())
	}
}

// nested puts functions around a call, the first outermost. What is the run's error and not
// that of what is called stays whatever they return; nothing is the error of one that returns
// neither.
func nested[In, Out any](around []around[In, Out], call func(context.Context, In) (*Out, error), nothing error) func(context.Context, In) (*Out, error) {
	var fatal error
	wrapped := func(ctx context.Context, in In) (*Out, error) {
		if fatal != nil {
			return nil, fatal
		}
		out, err := call(ctx, in)
		if err != nil && passes(err) {
			fatal = err
		}
		return out, err
	}
	for _, a := range slices.Backward(around) {
		next := wrapped
		wrapped = func(ctx context.Context, in In) (*Out, error) {
			out, err := a.f(ctx, in, next)
			if err == nil && out == nil {
				err = fmt.Errorf("middleware %q returned %w", a.name, nothing)
			}
			return out, err
		}
	}
	return func(ctx context.Context, in In) (*Out, error) {
		out, err := wrapped(ctx, in)
		if fatal != nil {
			return nil, fatal
		}
		return out, err
	}
}

type around[In, Out any] struct {
	name string
	f    func(ctx context.Context, in In, next func(context.Context, In) (*Out, error)) (*Out, error)
}

var (
	errNoReply  = fmt.Errorf("neither an answer nor an error: %w", model.ErrNoAnswer)
	errNoResult = errors.New("neither a result nor an error")

	// errAltered is a mistake of middleware, and no error of a tool.
	errAltered = errors.New("middleware may change the arguments alone")
)

// wrapModel puts middleware around the call of a model.
func wrapModel[S any](s *S, list []Middleware[S], call CallModel) CallModel {
	var all []around[*model.Request, model.Response]
	for _, m := range list {
		if m.WrapModel != nil {
			all = append(all, around[*model.Request, model.Response]{m.Name, func(ctx context.Context, req *model.Request, next func(context.Context, *model.Request) (*model.Response, error)) (*model.Response, error) {
				return m.WrapModel(ctx, s, req, next)
			}})
		}
	}
	return nested(all, call, errNoReply)
}

// wrapTool puts middleware around the call of a tool.
func wrapTool[S any](list []Middleware[S], was chat.ToolCall, call CallTool) CallTool {
	var all []around[chat.ToolCall, tool.Result]
	for _, m := range list {
		if m.WrapTool != nil {
			all = append(all, around[chat.ToolCall, tool.Result]{m.Name, func(ctx context.Context, c chat.ToolCall, next func(context.Context, chat.ToolCall) (*tool.Result, error)) (*tool.Result, error) {
				return m.WrapTool(ctx, c, next)
			}})
		}
	}
	return nested(all, func(ctx context.Context, c chat.ToolCall) (*tool.Result, error) {
		if c.Name != was.Name || c.ID != was.ID {
			return nil, fmt.Errorf("call %q of %q became one of %q with the ID %q: %w", was.ID, was.Name, c.Name, c.ID, errAltered)
		}
		return call(ctx, c)
	}, errNoResult)
}

// Kept reads what a middleware of a name keeps in the thread, the zero value if that is
// nothing.
func Kept[T any](s *State, name string) (v T, err error) {
	data, ok := s.Metadata.Get(keptKey(name))
	if !ok {
		return v, nil
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return v, fmt.Errorf("what middleware %q keeps: %w", name, err)
	}
	return v, nil
}

// Keep keeps a value, as JSON, for a middleware of a name.
func Keep(s *State, name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("what middleware %q keeps: %w", name, err)
	}
	s.Metadata.Put(keptKey(name), data)
	return nil
}

func keptKey(name string) string { return "middleware." + name }
