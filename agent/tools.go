package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/superstep-dev/superstep/agent/calls"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/tool"
)

// Tools is a node that makes the calls of tools that a model asked for, those
// that [Pending] returns, and adds their results to Messages in the order of the
// calls. When there are none it changes nothing.
//
// When UserInput is set, the user has gone on without waiting for the calls:
// those that were not made yet are not made. (One that was there already when the
// model answered OneShot doesn't count, nor one that came while a question about
// the calls waited.)
//
// That a call begins is recorded before, and its result as soon as the tool has
// returned: when the node runs again, after a question, an error or a crash, the
// tool isn't called again. A tool whose result is lost with the process is; see
// [tool.Info] for the key with which a service can tell. If the user goes on
// instead, the model is told what is recorded; see [Turns].
type Tools[S any] struct {
	Tools []tool.Tool

	// Choose, if set, returns the tools for this time in the stead of Tools.
	Choose func(ctx context.Context, s *S) ([]tool.Tool, error)

	// OnError says what happens when a tool fails.
	OnError ErrorPolicy

	// Parallel is how many tools are called at once; 0 and 1 mean one after the
	// other, in the order of the calls. Tools that take the state
	// ([NewStateTool]) are always called so, after the others.
	Parallel int

	// TaskPerCall makes each call a task of the node by itself, all of a message in one
	// superstep, as LangGraph's create_react_agent does in its version "v2": a call then
	// has its own status, events, retries and place on a fleet, and an agent that it calls
	// has the namespace "<node>:<task>". It goes without Parallel: [graph.Concurrency]
	// bounds how many run at once. When a call fails, those beside it may have begun. From
	// the first call of a tool that takes the state to the last, the calls of a message are
	// one task, since each sees what the one before wrote. Choose is called for each task,
	// and before.
	//
	// Where a human decides about calls, and where [AddToolsConditionalEdges] or an edge
	// leads to the node, it runs once before its tasks. If all calls are of Direct tools,
	// and several, it runs once after them.
	TaskPerCall bool

	// Approve asks a human before the calls of some tools.
	Approve []Approval

	// Direct names the tools whose result is the answer: when all calls are of
	// such tools the turn ends, and the last result's text is in LastResponse.
	// When one of them failed or was rejected, the model is told so as ever.
	Direct []string

	// Use is what is done around each call: WrapTool of each.
	Use []Middleware[S]

	team  *team // of a supervisor; nil: none
	node  graph.Task[*round]
	round string // tells the rounds of one task apart
	set   *tool.Set
	state *S     // of the task; for tools that take it
	alone bool   // the task makes one call
	end   string // the node that follows an answer of Direct; empty: graph.End
}

// ErrorPolicy says what happens when a tool fails.
type ErrorPolicy uint8

// The policies. Under FailFast and TellModel a call that can't be made, since
// there is no such tool, its arguments are not a JSON object or it has no ID,
// fails the node before any tool is called.
const (
	// FailFast fails the node with a [ToolCallError]; the calls after it are not
	// made. Results before it are recorded: when the node runs again, it goes on
	// with the call that failed.
	FailFast ErrorPolicy = iota

	// TellModel adds a result "[TOOL ERROR] <tool>: <error>" and goes on.
	TellModel

	// TellModelAll tells the model of calls that can't be made, too, and gives
	// IDs to calls that have none.
	TellModelAll
)

func (p ErrorPolicy) String() string {
	switch p {
	case FailFast:
		return "FailFast"
	case TellModel:
		return "TellModel"
	case TellModelAll:
		return "TellModelAll"
	}
	return fmt.Sprintf("ErrorPolicy(%d)", uint8(p))
}

// ToolCallError says that a call of a tool failed, or can't be made.
type ToolCallError struct {
	Call chat.ToolCall
	Err  error // a [*tool.Error] in most cases
}

func (e *ToolCallError) Error() string {
	if t := new(tool.Error); errors.As(e.Err, &t) && t.Tool == e.Call.Name {
		return fmt.Sprintf("tool call %q failed: %v", e.Call.ID, e.Err)
	}
	return fmt.Sprintf("tool call %q of %q failed: %v", e.Call.ID, e.Call.Name, e.Err)
}

// Unwrap returns the cause.
func (e *ToolCallError) Unwrap() error { return e.Err }

// AddTools adds a node that calls tools. It makes the calls of the last message
// that has any, so models that call tools in one superstep must be agents of their
// own, added with [AddAgent] or in a [Parallel].
func AddTools[S any, P Stateful[S]](b *graph.Builder[S], name string, t Tools[S], opts ...graph.NodeOption) {
	addTools[S, P](b, name, &t, opts)
}

func addTools[S any, P Stateful[S]](b *graph.Builder[S], name string, t *Tools[S], opts []graph.NodeOption) {
	b.Mistake(name, t.check()).Defaults(Turns[S, P]())
	t.node = graph.AddCommandTask(b, name, func(ctx context.Context, s *S, r *round) (graph.Command, error) {
		return t.run(ctx, s, P(s).AgentState(), r)
	}, t.options(name, opts)...)
}

// options are those of the node: it contains the agents that are its tools, and leads to
// its own tasks.
func (t *Tools[S]) options(name string, opts []graph.NodeOption) []graph.NodeOption {
	if t.TaskPerCall && (len(t.Approve) > 0 || len(t.Direct) > 0) {
		opts = append(opts, graph.Destinations(name))
	}
	declared := map[string]bool{}
	for _, tool := range t.Tools {
		for _, a := range graphsOf(tool) {
			if !declared[a.graph] {
				declared[a.graph] = true
				opts = append(opts, a.node)
			}
		}
	}
	return opts
}

// AddToolsConditionalEdges leads from a node that asks a model to the node that
// calls tools if there are calls to make, and to fallback otherwise.
func AddToolsConditionalEdges[S any, P Stateful[S]](b *graph.Builder[S], llm, tools, fallback string) {
	b.AddConditionalEdges(llm, func(_ context.Context, s *S) (graph.Command, error) {
		if _, calls := Pending(&P(s).AgentState().Messages); len(calls) > 0 {
			return graph.Goto(tools), nil
		}
		return graph.Goto(fallback), nil
	}, tools, fallback)
}

// check prepares the node, and returns what is wrong with the declaration.
func (t *Tools[S]) check() error {
	set, err := tool.NewSet(slices.Concat(t.Tools, t.team.tools())...)
	err = errors.Join(err, wrapsOnly(t.Use))
	if t.TaskPerCall && t.Parallel > 0 {
		err = errors.Join(err, fmt.Errorf("Parallel is %d and has no effect with TaskPerCall: leave it out, and bound the calls with graph.Concurrency", t.Parallel))
	}
	if t.set = set; err != nil || t.Choose != nil {
		return err
	}
	var errs []error
	for _, a := range t.Approve {
		errs = append(errs, a.check(set))
	}
	for _, name := range t.Direct {
		if _, err := set.Get(name); err != nil {
			errs = append(errs, fmt.Errorf("tool of Direct: %w", err))
		}
	}
	return errors.Join(errs...)
}

// job is a call and what becomes of it.
type job struct {
	call   chat.ToolCall
	tool   tool.Tool // nil: it can't be made
	args   json.RawMessage
	result chat.Message // set when done
	done   bool
	edited bool  // by a human
	used   Usage // of models, by what the call led to
}

func (t *Tools[S]) run(ctx context.Context, s *S, st *State, r *round) (graph.Command, error) {
	return counted(ctx, func() *UsageField { return &st.Usage }, func(ctx context.Context) (graph.Command, error) { return t.make(ctx, s, st, r) })
}

func (t *Tools[S]) make(ctx context.Context, s *S, st *State, r *round) (graph.Command, error) {
	task := *t
	t = &task
	t.state = s
	if st.Messages.Len() == 0 {
		return graph.Command{}, ErrNoMessages
	}
	from, calls := Pending(&st.Messages)
	if t.OnError == TellModelAll || st.UserInput != "" {
		// Results refer to calls by their IDs, so each call gets one.
		if named, changed := identified(from, st.Messages.Last().ID); changed {
			st.Messages.Add(named)
			from, calls = Pending(&st.Messages)
		}
	}
	calls = slices.DeleteFunc(calls, t.team.makes)
	if len(calls) == 0 {
		if t.TaskPerCall && st.Messages.Last().Role == chat.RoleTool {
			return t.follow(st, from), nil
		}
		return graph.Command{}, nil
	}
	if st.wentOn(from) {
		return graph.Command{}, t.abandon(ctx, st, from, r.of(calls))
	}
	set, err := choose(ctx, s, t.Choose, t.set, t.team.tools()...)
	if err != nil {
		return graph.Command{}, err
	}
	jobs, err := t.prepareAll(set, calls)
	if err != nil {
		return graph.Command{}, err
	}
	jobs = r.jobs(jobs)
	if r == nil || !r.Decided {
		if err := t.review(ctx, set, jobs); err != nil {
			return graph.Command{}, err
		}
	}
	if edited := edit(from, jobs); edited != nil {
		from = *edited
		st.Messages.Add(from)
	}
	if rounds := roundsOf(jobs); t.TaskPerCall && r == nil && len(rounds) > 1 {
		return t.dispatch(rounds, true), nil
	}
	t.alone = t.TaskPerCall && len(jobs) == 1
	cmd := new(graph.Command)
	if err := t.callAll(withCommand(ctx, cmd), jobs); err != nil {
		return graph.Command{}, err
	}
	for _, j := range jobs {
		st.Messages.Add(j.result)
		spend(&st.Usage, t.placed(ctx, j.used))
	}
	switch {
	case r != nil && r.Beside:
		return graph.Goto(graph.End), nil
	case !cmd.IsZero():
		return *cmd, nil
	case r != nil && len(r.Calls) < len(calls) && t.allDirect(from): // the others' results are not here
		return graph.Goto(graph.Info(ctx).Node), nil
	}
	return t.follow(st, from), nil
}

// follow returns where a round of calls leads by itself: to the end if all of their results
// are the answer, and else where the edges lead.
func (t *Tools[S]) follow(st *State, from chat.Message) graph.Command {
	if !t.allDirect(from) || from.Metadata[keeps] != "" {
		return graph.Command{}
	}
	results := map[string]chat.Message{}
	for m := range st.Messages.Backward() {
		if m.ID == from.ID {
			break
		}
		if r, ok := m.ToolResult(); ok {
			results[r.CallID] = m
		}
	}
	var last chat.Message
	for _, c := range from.ToolCalls() {
		last = results[c.ID]
		if r, ok := last.ToolResult(); !ok || r.IsError {
			return graph.Command{}
		}
	}
	st.LastResponse.Add(last.Text())
	st.Stopped.Add(StopDirect)
	return graph.Goto(cmp.Or(t.end, graph.End))
}

// allDirect reports whether all calls of a message are of tools whose result is the answer.
func (t *Tools[S]) allDirect(from chat.Message) bool {
	return len(t.Direct) > 0 && !slices.ContainsFunc(from.ToolCalls(), func(c chat.ToolCall) bool { return !slices.Contains(t.Direct, c.Name) })
}

// abandon answers the calls that are left when the user has spoken instead of
// waiting for them: as the records say.
func (t *Tools[S]) abandon(ctx context.Context, st *State, from chat.Message, calls []chat.ToolCall) error {
	for _, c := range calls {
		made, out, found, err := recordedOf(c, t.round, look(ctx))
		switch {
		case err != nil:
			return err
		case !found:
			out.Message = notCalled(c, wentOn)
		case made != c:
			from = replaced(from, made)
			st.Messages.Add(from)
		}
		st.Messages.Add(out.Message)
		spend(&st.Usage, t.placed(ctx, out.Used))
	}
	return nil
}

// placed returns what calls have used as that of their node. An agent's node of a
// supervisor has the name of the agent.
func (t *Tools[S]) placed(ctx context.Context, u Usage) Usage {
	node := graph.Info(ctx).Node
	if t.team != nil && t.team.agents[node] != nil {
		return u
	}
	return u.below(node)
}

// prepareAll checks that the calls of a message can be made.
func (t *Tools[S]) prepareAll(set *tool.Set, calls []chat.ToolCall) ([]*job, error) {
	jobs := make([]*job, len(calls))
	ids := map[string]bool{}
	for i, c := range calls {
		var err error
		if jobs[i], err = t.prepare(set, c, ids[c.ID]); err != nil {
			return nil, err
		}
		ids[c.ID] = true
	}
	return jobs, nil
}

// prepare checks that a call can be made. Twice says that its ID is that of
// another.
func (t *Tools[S]) prepare(set *tool.Set, c chat.ToolCall, twice bool) (*job, error) {
	j := &job{call: c}
	err := func() (err error) {
		if c.ID == "" {
			return &tool.Error{Tool: c.Name, Kind: tool.ErrorArguments, Err: errors.New("the call has no ID")}
		}
		if twice {
			return &tool.Error{Tool: c.Name, Kind: tool.ErrorArguments, Err: fmt.Errorf("another call has the ID %q, too", c.ID)}
		}
		if j.tool, err = set.Get(c.Name); err != nil {
			return err
		}
		if j.args, err = c.Arguments(); err != nil {
			return &tool.Error{Tool: c.Name, Kind: tool.ErrorArguments, Err: fmt.Errorf("not a JSON object: %w", err)}
		}
		return nil
	}()
	if err == nil {
		return j, nil
	}
	if t.OnError != TellModelAll {
		return nil, &ToolCallError{Call: c, Err: err}
	}
	j.tool = nil
	j.finish(failure(c, errorText(c, err)))
	return j, nil
}

func (j *job) finish(m chat.Message) { j.result, j.done = m, true }

// errorText is what a model is told of a failure.
func errorText(c chat.ToolCall, err error) string {
	if t := new(tool.Error); errors.As(err, &t) && t.Tool == c.Name {
		if t.Kind != tool.ErrorFailed {
			return fmt.Sprintf("[TOOL ERROR] %s: %s: %v", c.Name, t.Kind, t.Err)
		}
		err = t.Err
	}
	return fmt.Sprintf("[TOOL ERROR] %s: %v", c.Name, err)
}

// callAll makes the calls that are left.
func (t *Tools[S]) callAll(ctx context.Context, jobs []*job) error {
	var alone []*job
	if t.Parallel > 1 {
		group, groupCtx := errgroup.WithContext(ctx)
		group.SetLimit(t.Parallel)
		var asked error // by a tool: the others may finish
		errs := make([]error, len(jobs))
		for i, j := range jobs {
			if j.done {
				continue
			}
			if takesState(j.tool) {
				alone = append(alone, j)
				continue
			}
			group.Go(func() error {
				errs[i] = t.call(groupCtx, j)
				if errors.Is(errs[i], graph.ErrInterrupted) {
					return nil
				}
				return errs[i]
			})
		}
		if err := group.Wait(); err != nil {
			for _, err := range errs { // the first in the order of the calls, not of time
				if err != nil && !errors.Is(err, graph.ErrInterrupted) && !errors.Is(err, context.Canceled) {
					return err
				}
			}
			return err
		}
		for _, err := range errs {
			if asked == nil {
				asked = err
			}
		}
		if asked != nil {
			return asked
		}
	} else {
		alone = jobs
	}
	for _, j := range alone {
		if j.done {
			continue
		}
		if err := t.call(ctx, j); err != nil {
			return err
		}
	}
	return nil
}

// outcome is what is recorded of a call.
type outcome struct {
	Message  chat.Message
	Used     Usage `json:",omitempty"`
	recorded bool
}

// call makes a call, unless its result is recorded.
func (t *Tools[S]) call(ctx context.Context, j *job) error {
	node := ctx
	// What a tool asks, records and calls is apart from what other calls do.
	if a, ok := runsGraph(j.tool); ok && t.alone {
		ctx = withoutKey(ctx, a.graph)
	} else {
		ctx = graph.Scope(ctx, record(t.round, j.call))
	}
	returned, err := graph.EmitToolCall(ctx, tool.Started{CallID: j.call.ID, Name: j.call.Name, Args: j.args})
	if err != nil {
		return err
	}
	start := time.Now()
	var res tool.Result
	var failed error
	var out outcome
	if takesState(j.tool) {
		// What it writes isn't recorded, so it runs again with the node.
		out, res, failed, err = t.attempt(ctx, node, j, "")
	} else {
		fresh := false
		// The tool gets the node's context and not that of Once: it may ask.
		out, err = graph.Once(node, record(t.round, j.call), func(_ context.Context, key string) (o outcome, err error) {
			fresh = true
			o, res, failed, err = t.attempt(ctx, node, j, key)
			return o, err
		})
		out.recorded = !fresh
	}
	if errors.Is(err, graph.ErrInterrupted) {
		return err
	}
	if err != nil {
		failed = err
	}
	ended := tool.Ended{CallID: j.call.ID, Name: j.call.Name, Result: res, Err: failed, Duration: time.Since(start), Recorded: out.recorded}
	if out.recorded {
		if r, ok := out.Message.ToolResult(); ok {
			ended.Result = tool.Result{Content: r.Content, Artifact: r.Artifact}
		}
	}
	if emitErr := returned(ended); err == nil {
		err = emitErr
	}
	if err != nil {
		return err
	}
	j.finish(out.Message)
	j.used = out.Used
	return nil
}

// attempt calls the tool with the middleware around it. Failed is the tool's
// error that the model is told of. Node is the context of the node, ctx that of the
// call.
func (t *Tools[S]) attempt(ctx, node context.Context, j *job, key string) (o outcome, res tool.Result, failed, err error) {
	call := j.call
	start := time.Now()
	defer func() {
		if errors.Is(err, graph.ErrInterrupted) {
			return // it asks, and runs again
		}
		ran := calls.ToolCall{Tool: call.Name, Call: call.ID, Began: start, Took: time.Since(start), Failed: failed != nil || err != nil}
		if noted := calls.RecordTool(node, ran); err == nil {
			err = noted
		}
	}()
	ctx, spent := Metered(ctx)
	began := false
	r, err := wrapTool(t.Use, call, func(ctx context.Context, c chat.ToolCall) (*tool.Result, error) {
		args := j.args
		if c.Args != j.call.Args {
			var err error
			if args, err = c.Arguments(); err != nil {
				return nil, fmt.Errorf("the arguments that middleware gave the call of %q: %w", c.Name, err)
			}
		}
		if takesState(j.tool) {
			ctx = withState(ctx, t.state)
		}
		if !began {
			if err := t.begin(node, j); err != nil {
				return nil, err
			}
			began = true
		}
		return invoke(tool.WithInfo(ctx, tool.Info{CallID: c.ID, IdempotencyKey: key}), j.tool, c.Name, args)
	})(ctx, call)
	if err == nil {
		if err = storable(*r); err != nil {
			err = &tool.Error{Tool: call.Name, Err: err}
		}
	}
	switch {
	case err == nil:
		return outcome{Message: resultOf(j.call, *r), Used: spent()}, *r, nil, nil
	case passes(err), ctx.Err() != nil:
		return o, res, nil, err
	case t.OnError == FailFast:
		return o, res, nil, &ToolCallError{Call: j.call, Err: err}
	}
	return outcome{Message: failure(j.call, errorText(j.call, err)), Used: spent()}, res, err, nil
}

// passes reports whether an error is the run's and not the tool's: a question, a
// drain, a store that fails, something that the run was not given.
func passes(err error) bool {
	var stored *graph.CheckpointError
	var deps *graph.MissingDepsError
	var config *graph.ConfigError
	if errors.As(err, &deps) || errors.As(err, &config) {
		return true
	}
	return errors.Is(err, graph.ErrInterrupted) || errors.Is(err, errAltered) || errors.Is(err, graph.ErrDrained) || errors.Is(err, graph.ErrLate) || errors.Is(err, graph.ErrThreadBusy) || errors.As(err, &stored)
}

// storable reports what of a result can't be stored.
func storable(r tool.Result) error {
	if len(r.Artifact) > 0 && !json.Valid(r.Artifact) {
		return errors.New("its artifact is not JSON")
	}
	for i, p := range r.Content {
		switch p.(type) {
		case chat.Text, chat.Image, chat.Audio, chat.File:
		case nil:
			return fmt.Errorf("part %d of its result is nil", i)
		default:
			return fmt.Errorf("part %d of its result is a %T, which no tool returns", i, p)
		}
	}
	return nil
}

// invoke calls a tool. A panic is its error.
func invoke(ctx context.Context, t tool.Tool, name string, args json.RawMessage) (res *tool.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &tool.Error{Tool: name, Kind: tool.ErrorPanic, Err: &tool.PanicError{Value: p, Stack: debug.Stack()}}
		}
	}()
	r, err := t.Call(ctx, args)
	if err != nil {
		return nil, err
	}
	return &r, nil
}

func resultOf(c chat.ToolCall, r tool.Result) chat.Message {
	return chat.Message{Role: chat.RoleTool, Name: c.Name, Parts: []chat.Part{
		chat.ToolResult{CallID: c.ID, Name: c.Name, Content: r.Content, Artifact: r.Artifact},
	}}.ValidUTF8()
}

// edit returns the message of the calls as a human has changed them, nil if
// nobody did.
func edit(from chat.Message, jobs []*job) *chat.Message {
	var edited *chat.Message
	for i, p := range from.Parts {
		c, ok := p.(chat.ToolCall)
		if !ok {
			continue
		}
		for _, j := range jobs {
			if j.call.ID == c.ID && j.call != c {
				if edited == nil {
					m := from
					m.Parts = slices.Clone(from.Parts)
					edited = &m
				}
				edited.Parts[i] = j.call
			}
		}
	}
	return edited
}
