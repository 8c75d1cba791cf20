package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server/internal/db"
)

// The second version of the protocol knows threads only: commands go to a thread,
// and one numbered sequence of events comes from it, whatever runs they are of.
// Clients send commands by POST and read events as a stream, or do both over one
// WebSocket. Any instance can be asked, whichever has the runs.

// v2Run is what a run's body holds if a command started it.
type v2Run struct {
	Answers []string `json:"answers,omitempty"` // IDs of the questions that it answers
}

// v2Command is what a client wants.
type v2Command struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// v2Answer is what a client gets for a command.
type v2Answer struct {
	Type    string          `json:"type"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result,omitempty"`
	Error   string          `json:"error,omitempty"`
	Message string          `json:"message,omitempty"`
	Meta    *v2Meta         `json:"meta,omitempty"`
}

type v2Meta struct {
	ThreadID string `json:"thread_id"`
	Through  int64  `json:"applied_through_seq"` // the newest event when the command had been carried out
}

// refusal is an error in the protocol's own words.
type refusal struct{ code, text string }

func (r *refusal) Error() string { return r.text }

// commands carries out the commands of the protocol's second version.
type commands struct {
	*base
	access *access
	runs   *runs
	states *states
}

func (s *commands) routes() []route {
	return []route{
		{"POST /threads/{thread}/commands", "command", rule{resource: Threads, verb: Read, how: byHandler}, s.postCommand},
	}
}

// postCommand carries out a command of a request. That it can't be is an answer
// too, with the status 200.
func (s *commands) postCommand(w http.ResponseWriter, r *http.Request) (any, error) {
	thread, err := pathThread(r)
	if err != nil {
		return nil, err
	}
	var c v2Command
	if err := read(r, &c); err != nil {
		return nil, err
	}
	if err := s.askCommand(r.Context(), thread); err != nil {
		return nil, err
	}
	return s.carryOut(r, thread, &c, s.obey), nil
}

// askCommand asks whether a user may send commands to a thread, which need not exist
// yet. Those that start runs ask again.
func (s *commands) askCommand(ctx context.Context, thread string) error {
	_, err := s.access.askOf(ctx, &Action{Resource: Threads, Verb: Read, ID: thread})
	return err
}

// carryOut has a command carried out, and says what came of it.
func (s *commands) carryOut(r *http.Request, thread string, c *v2Command, obey func(*http.Request, string, *v2Command) (any, error)) *v2Answer {
	if id := strings.TrimSpace(string(c.ID)); id == "" || id[0] < '0' || id[0] > '9' {
		return &v2Answer{Type: "error", ID: json.RawMessage("null"), Error: "invalid_argument", Message: "id must be a number"}
	}
	a := &v2Answer{Type: "success", ID: c.ID}
	defer func() { s.access.auditedCommand(r, thread, c, a) }()
	result, err := obey(r, thread, c)
	if refused, ok := errors.AsType[*refusal](err); ok {
		a.Type, a.Error, a.Message = "error", refused.code, refused.text
	} else if err != nil {
		f := s.explain(r, err)
		a.Type, a.Error, a.Message = "error", "invalid_argument", f.text
		switch {
		case f.status >= 500:
			a.Error = "unknown_error"
		case f.status == http.StatusForbidden:
			a.Error = "permission_denied"
		}
	} else {
		a.Result, a.Meta = result, &v2Meta{thread, s.feeds.through(r.Context(), thread)}
	}
	return a
}

// commands are what a client may send to a thread.
func (s *commands) commands() map[string]func(r *http.Request, thread string, params json.RawMessage) (any, error) {
	return map[string]func(*http.Request, string, json.RawMessage) (any, error){
		"run.start":             s.v2Start,
		"input.respond":         s.v2Respond,
		"state.get":             s.v2State,
		"state.listCheckpoints": s.v2Checkpoints,
		"state.fork":            s.v2Fork,
		"agent.getTree":         s.v2Tree,
	}
}

// obey carries out a command, and returns its result.
func (s *commands) obey(r *http.Request, thread string, c *v2Command) (any, error) {
	if carryOut, ok := s.commands()[c.Method]; ok {
		return carryOut(r, thread, c.Params)
	}
	switch c.Method {
	case "subscription.subscribe", "subscription.unsubscribe":
		return nil, &refusal{"not_supported", c.Method + " is for WebSockets: here each request to stream/events is a subscription"}
	default:
		return nil, &refusal{"unknown_command", "there is no command " + strconv.Quote(c.Method)}
	}
}

// params decodes the parameters of a command; none are an empty object.
func params(raw json.RawMessage, v any) error {
	if isNull(raw) {
		return nil
	}
	return decode(raw, v)
}

// v2Run is the part of parameters that runs are started with.
type v2RunParams struct {
	AssistantID string          `json:"assistant_id"`
	Input       json.RawMessage `json:"input"`
	Config      json.RawMessage `json:"config"`
	Context     object          `json:"context"`
	Metadata    object          `json:"metadata"`
	Strategy    string          `json:"multitask_strategy"`
	Camel       string          `json:"multitaskStrategy"` // older clients have no other
	Webhook     string          `json:"webhook"`
	Durability  string          `json:"durability"`

	InterruptBefore names `json:"interrupt_before"`
	InterruptAfter  names `json:"interrupt_after"`
}

// body returns the request that it comes to. A checkpoint in the configuration is
// where the run starts.
func (p *v2RunParams) body() (*runBody, error) {
	b := &runBody{
		AssistantID: p.AssistantID, Input: p.Input, Context: p.Context, Metadata: p.Metadata, Strategy: cmp.Or(p.Strategy, p.Camel), Webhook: p.Webhook,
		Durability: p.Durability, InterruptBefore: p.InterruptBefore, InterruptAfter: p.InterruptAfter,
		IfNotExists: "create", OnDisconnect: "continue", V2: &v2Run{},
	}
	if err := params(p.Config, &b.Config); err != nil {
		return nil, err
	}
	if id := textOf(b.Config.Configurable["checkpoint_id"]); id != "" {
		b.Checkpoint = &checkpointRef{ID: &id}
	}
	for _, own := range []string{"checkpoint_id", "checkpoint_ns", "checkpoint_map", "thread_id"} {
		delete(b.Config.Configurable, own)
	}
	return b, nil
}

// v2Start starts a run. What is given to a thread that has asked something is the
// answer, unless the run starts from another checkpoint.
func (s *commands) v2Start(r *http.Request, thread string, raw json.RawMessage) (any, error) {
	var p v2RunParams
	if err := params(raw, &p); err != nil {
		return nil, err
	}
	if p.AssistantID == "" {
		return nil, invalid("assistant_id is required")
	}
	b, err := p.body()
	if err != nil {
		return nil, err
	}
	if c, err := commandOf(b.Input); err != nil {
		return nil, err
	} else if c != nil {
		b.Command, b.Input = c, nil
	} else if b.Checkpoint == nil && !isNull(b.Input) {
		asked, err := s.states.asked(r.Context(), thread)
		if err != nil {
			return nil, err
		}
		if len(asked) > 0 {
			b.Command, b.Input = &command{Resume: optional{b.Input}}, nil
			b.V2.Answers = answered(asked, b.Command.Resume.raw)
		}
	}
	return s.v2Begin(r, thread, b)
}

// v2Began is what the client is told of a run that it has started.
type v2Began struct {
	RunID    string   `json:"run_id"`
	ThreadID string   `json:"thread_id,omitempty"`
	Warnings []string `json:"warnings,omitempty"` // of what was left out
}

// v2Begin starts a run whose events clients will come for.
func (s *commands) v2Begin(r *http.Request, thread string, b *runBody) (*v2Began, error) {
	run, err := s.runs.start(r, thread, b)
	if err != nil {
		return nil, err
	}
	return &v2Began{RunID: run.ID, Warnings: b.left}, nil
}

// commandOf reads an input that is one of LangGraph's commands, as its own
// remote graph sends it; nil for any other.
func commandOf(input json.RawMessage) (*command, error) {
	if textOf(objectOf(input)["lg_name"]) != "Command" {
		return nil, nil
	}
	c := &command{}
	return c, decode(input, c)
}

// answered returns the questions that an answer is for: those it names, or the
// only one.
func answered(asked []graph.Interrupted, answer json.RawMessage) []string {
	ids := make([]string, len(asked))
	for i, q := range asked {
		ids[i] = q.ID
	}
	named := []string{}
	for id := range objectOf(answer) {
		if !slices.Contains(ids, id) {
			return ids[:min(1, len(ids))]
		}
		named = append(named, id)
	}
	if len(named) == 0 {
		return ids[:min(1, len(ids))]
	}
	slices.Sort(named)
	return named
}

// v2Respond answers questions of a thread.
func (s *commands) v2Respond(r *http.Request, thread string, raw json.RawMessage) (any, error) {
	type response struct {
		ID       string          `json:"interrupt_id"`
		Response json.RawMessage `json:"response"`
	}
	var p struct {
		v2RunParams
		response
		Responses []response      `json:"responses"`
		Update    json.RawMessage `json:"update"`
		Goto      json.RawMessage `json:"goto"`
	}
	if err := params(raw, &p); err != nil {
		return nil, err
	}
	if p.ID != "" {
		p.Responses = append(p.Responses, p.response)
	}
	if len(p.Responses) == 0 {
		return nil, invalid("interrupt_id or responses is required")
	}
	snap, _, err := s.states.newest(r.Context(), thread)
	if err != nil {
		return nil, err
	}
	answers, ids := object{}, []string{}
	for _, one := range p.Responses {
		if snap == nil || !slices.ContainsFunc(snap.Interrupts, func(q graph.Interrupted) bool { return q.ID == one.ID && q.When == "inside" }) {
			return nil, &refusal{"no_such_interrupt", "the thread doesn't ask " + strconv.Quote(one.ID)}
		}
		answers[one.ID] = one.Response
		if one.Response == nil {
			answers[one.ID] = json.RawMessage("null")
		}
		ids = append(ids, one.ID)
	}
	t, err := s.thread(r.Context(), thread)
	if err != nil {
		return nil, err
	}
	p.AssistantID = cmp.Or(p.AssistantID, textOf(objectOf(t.Metadata)["assistant_id"]))
	b, err := p.body()
	if err != nil {
		return nil, err
	}
	if b.Checkpoint != nil {
		return nil, invalid("config.configurable.checkpoint_id: an answer is for the thread as it is; use run.start to start from a checkpoint")
	}
	b.Command, b.Input, b.V2.Answers = &command{}, nil, ids
	if err := json.Unmarshal(object{"update": orNull(p.Update), "goto": orNull(p.Goto)}.raw(), b.Command); err != nil {
		return nil, err
	}
	b.Command.Resume = optional{answers.raw()}
	if _, err := s.v2Begin(r, thread, b); err != nil {
		return nil, err
	}
	return struct{}{}, nil
}

func orNull(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return json.RawMessage("null")
	}
	return raw
}

// v2Fork starts a run from an earlier checkpoint.
func (s *commands) v2Fork(r *http.Request, thread string, raw json.RawMessage) (any, error) {
	var p struct {
		v2RunParams
		CheckpointID string `json:"checkpoint_id"`
	}
	if err := params(raw, &p); err != nil {
		return nil, err
	}
	t, err := s.thread(r.Context(), thread)
	if err != nil {
		return nil, err
	}
	if _, err := checkID("checkpoint", p.CheckpointID); err != nil {
		return nil, err
	}
	if _, err := s.states.stateAt(r.Context(), t, p.CheckpointID, "", false); err != nil {
		if f, ok := errors.AsType[*fault](err); ok && f.status == http.StatusNotFound {
			return nil, &refusal{"no_such_checkpoint", f.text}
		}
		return nil, err
	}
	p.AssistantID = cmp.Or(p.AssistantID, textOf(objectOf(t.Metadata)["assistant_id"]))
	b, err := p.body()
	if err != nil {
		return nil, err
	}
	b.Checkpoint = &checkpointRef{ID: &p.CheckpointID}
	result, err := s.v2Begin(r, thread, b)
	if err != nil {
		return nil, err
	}
	result.ThreadID = thread
	return result, nil
}

type v2CheckpointRef struct {
	ID string `json:"id"`
	NS string `json:"ns,omitempty"`
}

// v2State returns the state of a thread, or of a subgraph that its newest runs
// have told of.
func (s *commands) v2State(r *http.Request, thread string, raw json.RawMessage) (any, error) {
	ctx := r.Context()
	var p struct {
		Namespace []string `json:"namespace"`
		Keys      []string `json:"keys"`
	}
	if err := params(raw, &p); err != nil {
		return nil, err
	}
	t, err := s.thread(ctx, thread)
	if err != nil {
		return nil, err
	}
	var values object
	var at *v2CheckpointRef
	if len(p.Namespace) > 0 {
		if values, at, err = s.feeds.state(ctx, thread, p.Namespace); err != nil {
			return nil, err
		}
		if values == nil { // it ran longer ago
			state, err := s.states.stateAt(ctx, t, "", strings.Join(p.Namespace, "|"), false)
			if f, ok := errors.AsType[*fault](err); ok && f.status == http.StatusNotFound || err == nil && state.Checkpoint == nil {
				return nil, &refusal{"no_such_namespace", "no run has told of " + strconv.Quote(strings.Join(p.Namespace, "|"))}
			}
			if err != nil {
				return nil, err
			}
			values, at = objectOf(state.Values), &v2CheckpointRef{ID: *state.Checkpoint.ID}
		}
	} else {
		state, err := s.states.stateAt(ctx, t, "", "", false)
		if err != nil {
			return nil, err
		}
		values = objectOf(state.Values)
		if c := state.Checkpoint; c != nil {
			at = &v2CheckpointRef{ID: *c.ID}
		}
	}
	if p.Keys != nil {
		for k := range values {
			if !slices.Contains(p.Keys, k) {
				delete(values, k)
			}
		}
	}
	return struct {
		Values     object           `json:"values"`
		Checkpoint *v2CheckpointRef `json:"checkpoint,omitempty"`
	}{values, at}, nil
}

func (s *commands) v2Checkpoints(r *http.Request, thread string, raw json.RawMessage) (any, error) {
	ctx := r.Context()
	var p struct {
		Namespace []string `json:"namespace"`
		Limit     *int     `json:"limit"`
		Before    string   `json:"before"`
	}
	if err := params(raw, &p); err != nil {
		return nil, err
	}
	if len(p.Namespace) > 0 {
		return nil, &refusal{"not_supported", "only the checkpoints of the thread itself are listed: namespace must be empty"}
	}
	page, err := paging{Limit: p.Limit}.page(10)
	if err != nil {
		return nil, err
	}
	t, err := s.thread(ctx, thread)
	if err != nil {
		return nil, err
	}
	type summary struct {
		ID       string  `json:"id"`
		At       instant `json:"timestamp"`
		Step     int     `json:"step"`
		Node     string  `json:"node_name,omitempty"` // if it was one
		Metadata object  `json:"metadata"`
	}
	list := []summary{}
	if g := s.graphOf(t); g != nil && page.Limit > 0 {
		entries, err := moments(ctx, s.on(g, thread), t, graph.HistoryQuery{AllBranches: true}, p.Before, page.Limit, matching(nil, nil))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			one := summary{ID: e.Checkpoint, At: instant(e.CreatedAt), Step: e.Step, Metadata: metadataOf(e.Metadata, e.Source, e.Step)}
			if len(e.Nodes) == 1 {
				one.Node = e.Nodes[0]
			}
			list = append(list, one)
		}
	}
	return map[string]any{"checkpoints": list}, nil
}

// v2Node is a graph that runs in a thread, and those inside of it.
type v2Node struct {
	Namespace []string  `json:"namespace"`
	Status    string    `json:"status"`
	Graph     string    `json:"graph_name"`
	Children  []*v2Node `json:"children,omitempty"`
}

// v2Tree shows the thread's newest run: with the subgraphs it has had, if it was
// told of them not long ago.
func (s *commands) v2Tree(r *http.Request, thread string, _ json.RawMessage) (any, error) {
	ctx := r.Context()
	if tree, err := s.feeds.tree(ctx, thread); err != nil || tree != nil {
		return map[string]any{"tree": tree}, err
	}
	t, err := s.thread(ctx, thread)
	if err != nil {
		return nil, err
	}
	g := s.graphOf(t)
	if g == nil {
		return nil, &refusal{"no_such_run", "the thread has had no run"}
	}
	status := map[string]string{db.Busy: statusRunning, db.Interrupted: statusInterrupted, db.Failed: statusFailed}[t.Status]
	if status == "" {
		status = statusCompleted
	}
	return map[string]any{"tree": &v2Node{Namespace: []string{}, Status: status, Graph: g.name}}, nil
}
