package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/tool"
)

// Agent is a graph as a part of others: a node of a graph ([AddAgent]), a tool
// ([AsTool]), or a member of a [Chain], [Parallel], [Cycle] or [Supervisor].
//
// It runs inside a node, as graph.Call does: its checkpoints stand below the
// node's, its questions are the thread's, and its events carry the node in
// their path. It begins with an empty conversation each time.
type Agent struct {
	name, description string
	call              func(ctx context.Context, key string, input func(*State) error) (*State, error)
	node              graph.NodeOption
}

// Of makes a graph an agent. Its name is the graph's, the description tells
// models what it is for. The graph may also have been made by New, Chain,
// Parallel, Cycle, NewSupervisor or NewSwarm.
func Of[C any, P Stateful[C]](g *graph.Graph[C], description string) *Agent {
	return of(g, description, func(c *C, use func(*State) error) error { return use(P(c).AgentState()) },
		func(c *C) (*State, error) { return P(c).AgentState(), nil })
}

// of makes a graph an agent, of whose state a State is a part, or a view.
func of[C any](g *graph.Graph[C], description string, on func(*C, func(*State) error) error, result func(*C) (*State, error)) *Agent {
	a := &Agent{description: description}
	if g == nil {
		return a
	}
	a.name, a.node = g.Name(), graph.Contains(g)
	a.call = func(ctx context.Context, key string, input func(*State) error) (*State, error) {
		out, err := callGraph(ctx, key, g, func(c *C) error { return on(c, input) })
		if err != nil {
			return nil, err
		}
		return result(out)
	}
	return a
}

// ParentState returns the state of the graph that an agent is a node of ([AddAgent]),
// in a node or a tool of the agent: as it was when the agent began, for reading. It is
// false where the agent is no such node, or the state no S.
func ParentState[S any](ctx context.Context) (*S, bool) {
	s, ok := ctx.Value(parentKey{}).(*S)
	return s, ok
}

type parentKey struct{}

// withParent shows a state to the agent that works in the context.
func withParent[S any](ctx context.Context, s *S) context.Context {
	seen := *s
	return context.WithValue(ctx, parentKey{}, &seen)
}

// callGraph runs a graph: inside a node as a part of it, and elsewhere on a
// thread of its own.
func callGraph[S any](ctx context.Context, key string, g *graph.Graph[S], input func(*S) error) (*S, error) {
	if graph.Info(ctx).Graph != "" {
		return graph.Call(ctx, key, g, input)
	}
	snap, err := g.Thread(string(checkpoint.NewRunID())).Invoke(ctx, g.Input(input))
	if err == nil {
		err = snap.Err() // nobody is there to answer
	}
	if err != nil {
		return nil, err
	}
	return &snap.State, nil
}

// Name returns the name of the agent's graph.
func (a *Agent) Name() string {
	if a == nil {
		return ""
	}
	return a.name
}

// Description returns what the agent is for.
func (a *Agent) Description() string { return a.description }

func (a *Agent) check() error {
	if a == nil || a.call == nil {
		return errors.New("an agent is nil")
	}
	return nil
}

// SubAgent says how an agent is a node of a graph over the state S. The zero
// value gives it the user's input and takes its answer.
type SubAgent[S any] struct {
	// Conversation lets the agent see the conversation so far. That is written
	// to the agent's own log each time. Otherwise it sees its input alone.
	Conversation bool

	// Input, if set, is called at last with what the agent is given.
	Input func(s *S, in *State)

	// Output, if set, is called at last with what the agent came to.
	Output func(s *S, out *State)
}

// AddAgent adds an agent as a node. Its input is UserInput; if that is empty, the
// last message if that is the user's, and else LastResponse. Metadata is passed
// on. Its answer is added to Messages, with the agent's name, behind the user's
// message if UserInput was set, which is cleared. It is in LastResponse and in
// NodeResponses as well, where those of its nodes stand as "<name>/<node>", as
// in Usage what its models used.
func AddAgent[S any, P Stateful[S]](b *graph.Builder[S], name string, a *Agent, c SubAgent[S], opts ...graph.NodeOption) {
	if err := a.check(); err != nil {
		b.Mistake(name, err)
		b.AddNode(name, func(context.Context, *S) error { return err }, opts...)
		return
	}
	b.Defaults(Turns[S, P]())
	b.AddNode(name, func(ctx context.Context, s *S) error { return runAgent[S, P](withParent(ctx, s), s, name, a, c) }, append([]graph.NodeOption{a.node}, opts...)...)
}

func runAgent[S any, P Stateful[S]](ctx context.Context, s *S, node string, a *Agent, c SubAgent[S]) error {
	st := P(s).AgentState()
	// The input with which the agent began: the user may have said something else
	// since.
	input, err := graph.Once(ctx, agentInput, func(context.Context, string) (string, error) { return st.UserInput, nil })
	if err != nil {
		return err
	}
	out, err := a.call(ctx, "", func(in *State) error {
		if c.Conversation {
			in.Messages.Overwrite(st.Messages.Slice()...)
			in.UserInput = st.UserInput
		} else {
			in.UserInput = st.input()
		}
		for k, v := range st.Metadata.All() {
			in.Metadata.Put(k, v)
		}
		if c.Input != nil {
			c.Input(s, in)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if input != "" {
		st.Messages.Add(st.Messages.Identify(chat.User(input)))
	}
	if st.UserInput == input {
		st.UserInput = ""
	}
	if answer := out.answer(); answer.Role != "" {
		answer.Name = a.name
		if _, taken := st.Messages.Get(answer.ID); taken {
			answer.ID = "" // of an earlier run of the agent
		}
		st.Messages.Add(answer)
	}
	if text := out.LastResponse.Get(); text != "" {
		st.LastResponse.Add(text)
		st.NodeResponses.Put(node, text)
	} else {
		st.NodeResponses.Delete(node) // of the turn before
	}
	for inner, text := range out.NodeResponses.All() {
		st.NodeResponses.Put(node+"/"+inner, text)
	}
	spend(&st.Usage, out.Usage.Get().below(node))
	st.Escalated = st.Escalated || out.Escalated
	if c.Output != nil {
		c.Output(s, out)
	}
	return nil
}

// input returns what an agent is to answer.
func (s *State) input() string {
	if s.UserInput != "" {
		return s.UserInput
	}
	if m := s.Messages.Last(); m.Role == chat.RoleUser {
		return m.Text()
	}
	return s.LastResponse.Get()
}

// answer returns LastResponse as a message of the assistant: if a message says
// just that, with the ID under which it was streamed.
func (s *State) answer() chat.Message {
	text := s.LastResponse.Get()
	if text == "" {
		return chat.Message{}
	}
	a := chat.Assistant(text)
	for m := range s.Messages.Backward() {
		if m.Role == chat.RoleAssistant && m.Text() == text {
			a.ID, a.Model, a.Finish, a.Usage = m.ID, m.Model, m.Finish, m.Usage
			break
		}
	}
	return a
}

// errNoAnswer says that an agent said nothing.
func errNoAnswer(a *Agent, out *State) error {
	return fmt.Errorf("agent %q gave no answer (stopped: %s)", a.name, out.Stopped.Get())
}

// task is what a model says to an agent that it calls as a tool.
type task struct {
	Task string `json:"task" jsonschema:"what the agent is to do, with everything that it needs to know: it doesn't see this conversation"`
}

// GraphTool makes any graph a tool: input writes the arguments to its state, and
// output reads the result. Its name is the graph's. It runs as [AsTool] says.
func GraphTool[S, In, Out any](g *graph.Graph[S], description string, input func(s *S, in In), output func(s *S) (Out, error), opts ...tool.Option) tool.Tool {
	if g == nil || input == nil || output == nil {
		return tool.New[In, Out]("graph", description, nil, opts...)
	}
	return agentTool{tool.New(g.Name(), description, func(ctx context.Context, in In) (Out, error) {
		s, err := callGraph(ctx, keyOf(ctx, g.Name()), g, func(s *S) error {
			input(s, in)
			return nil
		})
		if err != nil {
			var none Out
			return none, err
		}
		if st, ok := any(s).(interface{ AgentState() *State }); ok {
			Spend(ctx, st.AgentState().Usage.Get().below(g.Name()))
		}
		return output(s)
	}, opts...), g.Name(), graph.Contains(g)}
}

// AsTool makes an agent a tool: the model gives it a task, and its answer is the
// result.
//
// Called by a [Tools] node, or inside any other node of a graph, it runs as a
// part of that node. Elsewhere, as in a server of package mcp, each call is a run
// on a thread of its own, whose questions are errors.
//
// A tool of yours that chooses among such tools and calls one has the method Unwrap() []tool.Tool,
// which returns them all: the node that calls it then declares their graphs, as with
// [graph.Contains].
func AsTool(a *Agent, opts ...tool.Option) tool.Tool {
	if err := a.check(); err != nil {
		return tool.New[task, string]("agent", "", nil, opts...)
	}
	return agentTool{tool.New(a.name, a.description, func(ctx context.Context, in task) (string, error) {
		return a.do(ctx, in.Task)
	}, opts...), a.name, a.node}
}

// do lets the agent do a task.
func (a *Agent) do(ctx context.Context, task string) (string, error) {
	out, err := a.call(ctx, keyOf(ctx, a.name), func(in *State) error {
		in.UserInput = task
		return nil
	})
	if err != nil {
		return "", err
	}
	Spend(ctx, out.Usage.Get().below(a.name))
	if text := out.LastResponse.Get(); text != "" {
		return text, nil
	}
	return "", errNoAnswer(a, out)
}
