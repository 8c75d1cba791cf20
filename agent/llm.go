package agent

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool"
)

// LLM is a node that asks a model. Only Model is needed.
//
// What it sends follows the first of these rules that applies:
//
//  1. OneShot of the state, if that is not empty, and nothing else: no
//     instruction either. OneShot is cleared, UserInput stays: it is the next
//     call's. If the answer calls tools, they are called, and the next call of
//     the model is sent what the rules below say: Messages, which have the calls
//     and the results but not OneShot, and UserInput behind them.
//  2. Messages and UserInput, if that is not empty, as a message of the user.
//     The user's and the model's message are added together, and UserInput
//     cleared.
//  3. Messages alone.
//
// The answer is added to Messages, its text is put in LastResponse and
// NodeResponses. Its tokens are streamed as they come; see [graph.ModeMessages],
// whose events carry a [chat.Chunk]. With a checkpointer the answer is recorded
// at once: a node that runs again doesn't ask the model again.
//
// A call of a tool that has no result in Messages, although the conversation
// went on, is answered in the request by a message that says so: providers
// refuse such conversations.
type LLM[S any] struct {
	Model model.Model

	// Instruction is sent before the messages as one of the system. It is not
	// stored. For its placeholders see [Values]. Prompt, if set, gives it
	// instead.
	Instruction string
	Prompt      func(ctx context.Context, s *S) (string, error)

	// Tools are described to the model. Choose, if set, returns those for this
	// time; they need not be among Tools.
	Tools      []tool.Tool
	Choose     func(ctx context.Context, s *S) ([]tool.Tool, error)
	ToolChoice model.ToolChoice

	Config model.Config

	// Output asks for an answer in JSON that follows a schema. It is put in
	// Structured of the state, too.
	Output *model.Schema

	// Use is what is done around the call of the model: WrapModel of each.
	Use []Middleware[S]

	// MaxCalls, if positive, is how many calls of a model the agent makes in a
	// turn, that is after a message of the user. When the last one wants tools,
	// or too few supersteps are left to call them and to ask again, they are not
	// called: results that say so are added, and Stopped of the state is
	// StopMaxIterations.
	MaxCalls int

	// Whole asks for the answer as a whole and streams it as one chunk.
	Whole bool

	set     *tool.Set     // of Tools; checked when the node is added
	reserve int           // supersteps that another round and the end take
	form    *model.Schema // read into Structured if an answer has it
	lenient bool          // an answer in another form than Output is no error
	final   string        // the tool whose call is the answer
}

// AddLLM adds a node that asks a model.
func AddLLM[S any, P Stateful[S]](b *graph.Builder[S], name string, l LLM[S], opts ...graph.NodeOption) {
	b.Mistake(name, l.check()).Defaults(Turns[S, P]())
	b.AddNode(name, Counted[S, P](func(ctx context.Context, s *S) error { return l.run(ctx, s, P(s).AgentState()) }), opts...)
}

// check prepares the node, and returns what is wrong with the declaration.
func (l *LLM[S]) check() error {
	errs := []error{wrapsOnly(l.Use)}
	if l.Model == nil {
		errs = append(errs, errors.New("an LLM node needs a Model"))
	}
	var err error
	if l.set, err = tool.NewSet(l.Tools...); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// turn is what an LLM node sends and what it will write.
type turn struct {
	messages []chat.Message
	user     *chat.Message // to be added before the answer
	oneShot  bool
	last     string // ID of the message that the answer follows
	calls    int    // of models, since the user spoke
	position int    // of the conversation: tells calls of one task apart
}

func turnOf(st *State) turn {
	t := turn{position: st.Messages.Len(), last: st.Messages.Last().ID}
	if one := st.OneShot.Get(); len(one) > 0 {
		t.messages, t.oneShot = one, true
		once := chat.Of(one...)
		t.last = once.Last().ID
		return t
	}
	t.messages = st.Messages.Slice()
	if st.UserInput != "" {
		// Parallel nodes that answer one input add it once.
		m := st.Messages.Identify(chat.User(st.UserInput))
		t.user, t.last = &m, m.ID
		t.messages = append(t.messages, m)
		return t
	}
	t.calls = answersSince(t.messages)
	return t
}

func (l *LLM[S]) run(ctx context.Context, s *S, st *State) error {
	t := turnOf(st)
	req, err := l.request(ctx, s, t)
	if err != nil {
		return err
	}
	resp, err := l.ask(ctx, s, req, t)
	if err != nil {
		return err
	}
	m := unique(resp.Message.ValidUTF8())
	m.Role = chat.RoleAssistant
	if t.oneShot {
		st.OneShot.Set(nil)
		if st.UserInput != "" && len(m.ToolCalls()) > 0 {
			m = marked(m, awaited, st.UserInput)
		}
	}
	if t.user != nil {
		st.Messages.Add(*t.user)
		st.UserInput = ""
	}
	st.Messages.Add(m)
	if text := m.Text(); text != "" {
		st.LastResponse.Add(text)
		st.NodeResponses.Put(graph.Info(ctx).Node, text)
	}
	if form := cmp.Or(l.Output, l.form); form != nil {
		data, err := model.ReadOutput[json.RawMessage](form, m)
		switch {
		case err == nil:
			st.Structured.Set(data)
		case l.lenient || len(m.ToolCalls()) > 0:
			if st.formed() {
				st.Structured.Set(nil) // of the turn before
			}
		default:
			return err
		}
	}
	l.stop(ctx, st, m, t.calls+1)
	return nil
}

// stop records why no further model call follows, if none does.
func (l *LLM[S]) stop(ctx context.Context, st *State, m chat.Message, calls int) {
	wanted := m.ToolCalls()
	if len(wanted) == 0 {
		st.Stopped.Add(stopOf(m))
		return
	}
	if l.MaxCalls <= 0 {
		return
	}
	why := ""
	switch left := graph.Info(ctx).RemainingSteps; {
	case l.final != "" && calls == l.MaxCalls && left != 0 && slices.ContainsFunc(wanted, func(c chat.ToolCall) bool { return c.Name == l.final }):
		return // it is the answer
	case calls >= l.MaxCalls:
		why = fmt.Sprintf("the limit of %d model calls was reached", l.MaxCalls)
	case left >= 0 && left < max(l.reserve, 2):
		why = "the limit of supersteps was reached"
	default:
		return
	}
	if named, changed := identified(m, st.Messages.Last().ID); changed {
		m.Parts, wanted = named.Parts, named.ToolCalls()
		st.Messages.Add(m)
	}
	for _, c := range wanted {
		st.Messages.Add(notCalled(c, why))
	}
	st.Stopped.Add(StopMaxIterations)
}

// notCalled is the result of a call that was not made.
func notCalled(c chat.ToolCall, why string) chat.Message {
	return failure(c, "not called: "+why)
}

// failure is the result of a call that failed.
func failure(c chat.ToolCall, text string) chat.Message {
	return chat.Message{Role: chat.RoleTool, Name: c.Name, Parts: []chat.Part{
		chat.ToolResult{CallID: c.ID, Name: c.Name, IsError: true, Content: []chat.Part{chat.Text{Text: text}}},
	}}.ValidUTF8()
}

// choose returns the tools for this time.
func choose[S any](ctx context.Context, s *S, f func(ctx context.Context, s *S) ([]tool.Tool, error), set *tool.Set, more ...tool.Tool) (*tool.Set, error) {
	if f == nil {
		return set, nil
	}
	tools, err := f(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("choosing tools: %w", err)
	}
	return tool.NewSet(slices.Concat(tools, more)...)
}

func (l *LLM[S]) request(ctx context.Context, s *S, t turn) (*model.Request, error) {
	req := &model.Request{Config: l.Config, ToolChoice: l.ToolChoice, Output: l.Output}
	set, err := choose(ctx, s, l.Choose, l.set)
	if err != nil {
		return nil, err
	}
	req.Tools = set.Specs()
	if t.oneShot {
		req.Messages = t.messages
		return req, nil
	}
	instruction := l.Instruction
	if l.Prompt != nil {
		if instruction, err = l.Prompt(ctx, s); err != nil {
			return nil, fmt.Errorf("prompt: %w", err)
		}
	}
	if instruction = expand(ctx, instruction); instruction != "" {
		req.Messages = append(req.Messages, chat.System(instruction))
	}
	req.Messages = append(req.Messages, answered(t.messages)...)
	if len(req.Messages) == 0 {
		return nil, ErrNoMessages
	}
	return req, nil
}

// ErrNoMessages says that there is nothing to send to a model or to look for
// calls of tools in.
var ErrNoMessages = errors.New("the conversation is empty: set UserInput or add a message, for example with agent.Ask")

// answered returns the conversation as providers take it: behind each message
// that calls tools stand the results, one for each call, and nowhere else. A call
// without a result gets one that says so, one without an ID or with that of
// another in its message gets an ID.
func answered(messages []chat.Message) []chat.Message {
	if sound(messages) {
		return messages
	}
	results := map[string][]chat.Message{} // that no call took yet, by the ID they answer
	for _, m := range messages {
		if r, ok := m.ToolResult(); ok {
			results[r.CallID] = append(results[r.CallID], m)
		}
	}
	out := make([]chat.Message, 0, len(messages)+2)
	for i, m := range messages {
		if _, ok := m.ToolResult(); ok {
			continue
		}
		named, _ := identified(m, strconv.Itoa(i))
		out = append(out, named)
		calls := named.ToolCalls()
		for k, was := range m.ToolCalls() {
			waiting := results[was.ID]
			if len(waiting) == 0 {
				out = append(out, notCalled(calls[k], "the conversation went on"))
				continue
			}
			results[was.ID] = waiting[1:]
			r, _ := waiting[0].ToolResult()
			r.CallID = calls[k].ID
			waiting[0].Parts = []chat.Part{r}
			out = append(out, waiting[0])
		}
	}
	return out
}

// sound reports whether a conversation is one that providers take.
func sound(messages []chat.Message) bool {
	var open []chat.ToolCall
	for _, m := range messages {
		if r, ok := m.ToolResult(); ok {
			k := slices.IndexFunc(open, func(c chat.ToolCall) bool { return c.ID == r.CallID })
			if k < 0 {
				return false
			}
			open = slices.Delete(open, k, k+1)
			continue
		}
		if len(open) > 0 {
			return false
		}
		open = m.ToolCalls()
		if _, changed := identified(m, ""); changed {
			return false
		}
	}
	return len(open) == 0
}

// unique returns m with other IDs for calls that have the ID of another call of
// the message. Those without one stay.
func unique(m chat.Message) chat.Message {
	seen := map[string]bool{}
	parts := slices.Clone(m.Parts)
	for i, p := range parts {
		c, ok := p.(chat.ToolCall)
		if !ok || c.ID == "" {
			continue
		}
		for n := 2; seen[c.ID]; n++ {
			c.ID = fmt.Sprintf("%s_%d", p.(chat.ToolCall).ID, n)
		}
		seen[c.ID], parts[i] = true, c
	}
	m.Parts = parts
	return m
}

// identified returns m with an ID for each call that has none or that of another
// call, and whether there were any. The IDs begin with what place says.
func identified(m chat.Message, place string) (chat.Message, bool) {
	seen := map[string]bool{"": true}
	changed := false
	for i, p := range m.Parts {
		c, ok := p.(chat.ToolCall)
		if !ok {
			continue
		}
		if seen[c.ID] {
			if !changed {
				m.Parts = slices.Clone(m.Parts)
			}
			changed = true
			c.ID = fmt.Sprintf("call_%s_%d", place, i)
			m.Parts[i] = c
		}
		seen[c.ID] = true
	}
	return m, changed
}

// ask gets the answer, with the middleware around it.
func (l *LLM[S]) ask(ctx context.Context, s *S, req *model.Request, t turn) (*model.Response, error) {
	var id string
	answers, tries := 0, 0
	call := wrapModel(s, l.Use, func(ctx context.Context, req *model.Request) (*model.Response, error) {
		// The record is of this answer to this message: when the user has said
		// something else by the time that the node runs again, it isn't used. What a
		// call that failed has streamed is no part of the next one's answer.
		name, at := fmt.Sprintf("model %d %s", t.position, t.last), t.last
		if answers > 0 {
			name = fmt.Sprintf("%s #%d", name, answers+1)
		}
		if tries++; tries > 1 {
			at = fmt.Sprintf("%s #%d", at, tries)
		}
		id = answerID(ctx, at)
		resp, err := generate(ctx, l.Model, req, name, id, l.Whole, l.usable)
		if err == nil {
			answers++
			model.Count(ctx, "", resp)
		}
		return resp, err
	})
	resp, err := call(ctx, req)
	if err != nil {
		return nil, err
	}
	if id == "" {
		id = answerID(ctx, t.last)
	}
	return named(resp, id), nil // under which it may have been streamed
}

// named returns an answer with an ID if it has none. The callbacks' own stays as
// it is: they may give it again.
func named(resp *model.Response, id string) *model.Response {
	if resp.Message.ID != "" {
		return resp
	}
	r := *resp
	r.Message.ID = id
	return &r
}

// StableIDs gives the answers of models IDs that follow from where they stand in
// the conversation, so that tests can compare runs. By default they are random: a
// client that has seen the tokens of an attempt that failed must not take those of
// the next one for the rest of the message.
func StableIDs() graph.RunOption {
	return graph.ProvideDeps(func(context.Context) (stableIDs, error) { return stableIDs{}, nil })
}

type stableIDs struct{}

// answerID returns an ID for an answer that follows the message with the ID last.
func answerID(ctx context.Context, last string) string {
	if _, err := graph.Deps[stableIDs](ctx); err != nil {
		return "msg_" + uuid.NewString()
	}
	in := graph.Info(ctx)
	h := sha256.New()
	for _, part := range append(in.Path, in.Node, in.Task[strings.LastIndexByte(in.Task, '.')+1:], last) {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return "msg_" + hex.EncodeToString(h.Sum(nil)[:12])
}

// usable reports what is wrong with an answer that can't be used. It isn't
// recorded, so that the model is asked again when the node runs again.
func (l *LLM[S]) usable(m chat.Message) error {
	form := cmp.Or(l.Output, l.form)
	o := output{form: form, tool: l.ToolChoice == AnswerTool}
	if form == nil || len(m.ToolCalls()) > 0 && !(o.tool && !l.lenient) {
		return nil
	}
	_, err := o.read(m)
	if l.lenient && !(hopeless(err) && (l.Output != nil || o.tool)) {
		return nil
	}
	return err
}

// Generate asks a model within a node of any graph: its tokens are streamed as those of a
// message ([graph.ModeMessages]), the answer is recorded, so that a node that runs again,
// after an interrupt or a crash, doesn't ask again, and what it used is counted ([Counted]).
// The name tells the request from others that the node makes. Outside a node it is an error.
func Generate(ctx context.Context, name string, m model.Model, req *model.Request) (*model.Response, error) {
	resp, err := generate(ctx, m, req, name, answerID(ctx, name), false, nil)
	if err == nil {
		model.Count(ctx, "", resp)
	}
	return resp, err
}

// generate asks a model and streams what it says, as a message with that ID. If
// check takes the answer, it is recorded under a name.
func generate(ctx context.Context, m model.Model, req *model.Request, name, id string, whole bool, check func(chat.Message) error) (*model.Response, error) {
	// The model may ask a human, so it gets the node's context and not that of
	// Once.
	return graph.Once(ctx, name, func(context.Context, string) (*model.Response, error) {
		resp, err := watched(ctx, req, id, func(ctx context.Context) (*model.Response, error) { return stream(ctx, m, req, id, whole) })
		if err == nil && check != nil {
			err = check(resp.Message)
		}
		return resp, err
	})
}

// stream asks a model and streams what it says.
func stream(ctx context.Context, m model.Model, req *model.Request, id string, whole bool) (*model.Response, error) {
	if whole {
		resp, err := model.Ask(ctx, answering{m, id}, req)
		if err != nil {
			return nil, err
		}
		return resp, graph.EmitMessage(ctx, chat.ChunkOf(resp.Message))
	}
	return model.AskStream(ctx, m, req, func(c *chat.Chunk) error {
		c.ID = id // the provider's need not be unique
		return graph.EmitMessage(ctx, *c)
	})
}

// answering is a model whose whole answers have an ID.
type answering struct {
	model.Model
	id string
}

func (a answering) Generate(ctx context.Context, req *model.Request) (*model.Response, error) {
	resp, err := a.Model.Generate(ctx, req)
	if err != nil || resp == nil {
		return nil, err
	}
	named := *resp
	named.Message.ID = a.id
	return &named, nil
}

func (a answering) Capabilities(name string) (model.Capabilities, bool) {
	return model.CapabilitiesOf(a.Model, name)
}

// asJSON is json.Marshal for values that can't fail.
func asJSON(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage(strconv.Quote(err.Error()))
	}
	return data
}
