package assistant

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/superstep-dev/superstep/agent/calls"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/graph"
)

// Understanding turns a message into commands where its words are not simply the answer to
// the open question: what a language model is for. The commands of an error are dropped;
// the message then counts as never sent.
type Understanding interface {
	Understand(ctx context.Context, in dialogue.Understand) ([]dialogue.Command, error)
}

// Actions are the code that a program calls. Failures are told in the results: of type
// action_not_found, validation_error, timeout, unknown, or one of the action's own.
type Actions interface {
	// Do makes one attempt. It ends when the call's Timeout is over.
	Do(ctx context.Context, call dialogue.ActionCall) dialogue.Result
	Validate(ctx context.Context, v dialogue.Validation) dialogue.Validated
	// Check says whether everything that the program calls is there and fits what the
	// program says of it, with all that is wrong in one error.
	Check(p *program.Program) error
}

// Generation asks a model for the text of a generate step, or for the next move of an
// agent step.
type Generation interface {
	Generate(ctx context.Context, call dialogue.ModelCall) dialogue.Answer
}

// Rephrasing says a reply in other words.
type Rephrasing interface {
	Rephrase(ctx context.Context, r dialogue.Reply) (dialogue.Reply, error)
}

// Config is what an assistant is made of. Only the program is needed.
type Config struct {
	Program *program.Program

	// Understanding is asked about messages that [Config.Read] doesn't read. Without it
	// they mean nothing, and the assistant says so.
	Understanding Understanding
	// Actions run actions and validators. Without them a program may name none.
	Actions Actions
	// Generation is needed by programs with generate or agent steps.
	Generation Generation
	// Rephrasing words replies anew where the program says so. An error leaves them.
	Rephrasing Rephrasing

	// Read understands a message without a model; nil is [dialogue.Read]. The state has the
	// last [dialogue.HistoryShown] messages.
	Read func(p *program.Program, s dialogue.State, in dialogue.Message) ([]dialogue.Command, bool)
	// Now is the clock; nil is [time.Now]. It gives inputs their time that have none.
	Now func() time.Time

	// User returns whom the conversation of a thread is with, for actions, where the run
	// doesn't say so by [User]; nil is the thread's ID.
	User func(thread string) string

	// Store keeps the conversations; nil keeps them in memory.
	Store checkpoint.Store
}

// Caller is what runs of the graph are configured with: whom the conversation is with.
// Actions find it by action.CallOf.
type Caller struct {
	User string `json:"user_id,omitempty"`
}

// User says whom a conversation is with, as long as a turn lasts. It is never stored: who
// wakes a thread says it anew. The default is [Config.User].
func User(id string) graph.RunOption {
	return graph.Configure(func(c *Caller) { c.User = id })
}

// Assistant holds conversations. It is safe for concurrent use.
type Assistant struct {
	config Config
	graph  *graph.Graph[State]
	takes  graph.AskOption // what answers are checked against
}

// The nodes of the graph.
const (
	understand         = "understand"
	validateSlot       = "validate_slot"
	handleDigression   = "handle_digression"
	handleIntentChange = "handle_intent_change"
	collectNextSlot    = "collect_next_slot"
	executeAction      = "execute_action"
	generateResponse   = "generate_response"
)

// New builds an assistant. What the program calls and the configuration lacks is an
// error. The options are those of the graph. Results of actions, validators and models
// stay in the history ([graph.RecordOnce]), so that a conversation can be explained, made a
// test and replayed. What models are asked isn't recorded, since it may have values of slots
// that are sensitive, unless [calls.Redact] is among the options.
func New(c Config, opts ...graph.Option) (*Assistant, error) {
	if c.Program == nil {
		return nil, errors.New("assistant: Config.Program is missing; compile one with program.Load")
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.Read == nil {
		c.Read = dialogue.Read
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.User == nil {
		c.User = func(thread string) string { return thread }
	}
	if c.Store == nil {
		c.Store = checkpoint.NewMemory()
	}
	a := &Assistant{config: c, takes: graph.AnswerSchema(answerSchema)}
	name := c.Program.Name
	if name == "" {
		name = "assistant"
	}
	b := graph.New[State](name)
	graph.SetInput(b, func(s *State, in Input) error { return s.Begin(in) })
	graph.SetOutput(b, outputOf)
	b.AddNode(understand, a.understand, graph.Describe("", "turns a message into commands"))
	b.AddNode(validateSlot, a.takeSlot, graph.Describe("", "takes what was said about slots and goes on with the flow"))
	b.AddNode(handleDigression, a.decide, graph.Describe("", "answers and keeps to the flow"))
	b.AddNode(handleIntentChange, a.decide, graph.Describe("", "begins, ends or resumes a flow"))
	b.AddNode(executeAction, a.execute, graph.Describe("", "runs actions and models"))
	b.AddNode(generateResponse, a.respond, graph.Describe("", "has the last word about the reply"))
	b.AddNode(collectNextSlot, a.collect, graph.Describe("", "waits for what comes next"), graph.AskFirst[State, answer](asked, a.asks))

	b.AddEdge(graph.Start, understand)
	to := func(f func(s *State) string) func(context.Context, *State) (graph.Command, error) {
		return func(_ context.Context, s *State) (graph.Command, error) { return graph.Goto(f(s)), nil }
	}
	b.AddConditionalEdges(understand, to(afterUnderstand), validateSlot, handleDigression, handleIntentChange, generateResponse)
	b.AddConditionalEdges(validateSlot, to(afterSlot), executeAction, collectNextSlot, generateResponse)
	b.AddConditionalEdges(handleDigression, to(afterDecision), generateResponse, executeAction)
	b.AddConditionalEdges(handleIntentChange, to(afterDecision), generateResponse, executeAction)
	b.AddConditionalEdges(executeAction, to(afterDecision), generateResponse, executeAction)
	b.AddConditionalEdges(generateResponse, to(afterResponse), graph.End, collectNextSlot, executeAction)
	b.AddEdge(collectNextSlot, understand)

	g, err := b.Defaults(graph.OnInput(onInput)).Compile(append([]graph.Option{graph.WithCheckpointer(c.Store), graph.Configurable(Caller{}), graph.RecordOnce(), calls.Off()}, opts...)...)
	if err != nil {
		return nil, err
	}
	a.graph = g
	return a, nil
}

// check finds what the program needs and the configuration lacks.
func (c *Config) check() error {
	var errs []error
	if c.Actions != nil {
		errs = append(errs, c.Actions.Check(c.Program))
	} else if n := len(c.Program.Actions); n > 0 {
		errs = append(errs, fmt.Errorf("assistant: Config.Actions is missing; the program declares %d actions", n))
	}
	if c.Generation == nil {
		for _, name := range c.Program.Order {
			for _, step := range c.Program.Flows[name].Steps {
				switch step.Body.(type) {
				case *program.Generate, *program.Agent:
					errs = append(errs, fmt.Errorf("assistant: Config.Generation is missing; step %q of flow %q asks a model", step.Name, name))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// Graph returns the graph, for servers, runners and everything that works on threads. It
// is the one that the assistant itself runs.
func (a *Assistant) Graph() *graph.Graph[State] { return a.graph }

// Program returns the program.
func (a *Assistant) Program() *program.Program { return a.config.Program }

// onInput has a message begin a turn where the conversation waits for one, and otherwise
// wait for the end of the turn under way. One that could not be understood counts as
// never sent.
func onInput(s *State, open graph.Open) (newTurn bool, err error) {
	for _, t := range open.Tasks {
		switch {
		case t.Node == collectNextSlot:
		case t.Node == understand && t.Status == "failed":
			if in := s.Inbox.Get(); len(in) > 0 {
				s.Inbox.Set(in[1:])
			}
		default:
			return false, nil
		}
	}
	return true, nil
}
