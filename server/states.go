package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/agent/calls"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/server/internal/db"
)

// checkpointRef names a checkpoint.
type checkpointRef struct {
	ThreadID string          `json:"thread_id"`
	NS       string          `json:"checkpoint_ns"`
	ID       *string         `json:"checkpoint_id"`
	Map      json.RawMessage `json:"checkpoint_map"`
}

func refTo(thread, ns, id string) *checkpointRef {
	if id == "" {
		return nil
	}
	return &checkpointRef{ThreadID: thread, NS: ns, ID: &id}
}

// placeRef names a subgraph's run in a thread, at its newest checkpoint.
type placeRef struct {
	ThreadID string `json:"thread_id"`
	NS       string `json:"checkpoint_ns"`
}

// Clients know namespaces without the first bar.

func shownNamespace(ns string) string { return strings.TrimPrefix(ns, "|") }

func namedNamespace(ns string) string {
	if ns == "" || ns[0] == '|' {
		return ns
	}
	return "|" + ns
}

// threadState is a thread at a checkpoint, as clients see it.
type threadState struct {
	Values     json.RawMessage  `json:"values"`
	Next       []string         `json:"next"`
	Tasks      []taskState      `json:"tasks"`
	Metadata   object           `json:"metadata"`
	CreatedAt  *instant         `json:"created_at"`
	Checkpoint *checkpointRef   `json:"checkpoint"`
	Parent     *checkpointRef   `json:"parent_checkpoint"`
	Interrupts []interruptValue `json:"interrupts,omitzero"` // nil for a task's: they are its own
	Ran        []ranTask        `json:"ran,omitempty"`       // in the superstep that led here
}

// ranTask is when a task ran, as measured: LangGraph has no such member.
type ranTask struct {
	Name    string  `json:"name"`
	BeganAt instant `json:"began_at"`
	Took    float64 `json:"took"` // seconds
}

type taskState struct {
	ID         string           `json:"id"`
	Name       string           `json:"name"`
	Path       []any            `json:"path"`
	Error      *string          `json:"error"`
	Interrupts []interruptValue `json:"interrupts"`
	Checkpoint *placeRef        `json:"checkpoint"`
	State      *threadState     `json:"state"`
	Result     json.RawMessage  `json:"result"`
}

// stateOf shows a snapshot of a thread.
func stateOf(snap *snapshot, nested bool) *threadState {
	values, _ := wholeMessages(snap.State, nil)
	out := &threadState{
		Values: values, Next: append([]string{}, snap.Next...), Tasks: []taskState{}, Metadata: metadataOf(snap.Metadata, snap.Source, snap.Step),
		Checkpoint: refTo(snap.Thread, shownNamespace(snap.Namespace), snap.Checkpoint), Parent: refTo(snap.Thread, shownNamespace(snap.Namespace), snap.Parent),
		Interrupts: []interruptValue{},
	}
	out.Metadata["thread_id"] = jsonText(snap.Thread)
	if !snap.CreatedAt.IsZero() {
		out.CreatedAt = new(instant(snap.CreatedAt))
	}
	sent := 0
	for _, t := range snap.Tasks {
		ns := insideOf(t)
		if t.Sent {
			sent++
		}
		if t.Status == "done" && len(t.Interrupts) == 0 {
			continue // what it wrote shows in the values
		}
		v := taskState{ID: t.ID, Name: t.Node, Path: []any{"__pregel_pull", t.Node}, Interrupts: questionsOf(t), Result: json.RawMessage("null")}
		if t.Sent {
			v.Path = []any{"__pregel_push", sent - 1} // among the sends: clients find what was sent by it
		}
		if t.Error != "" {
			v.Error = &t.Error
		}
		switch {
		case ns == "":
		case !nested: // clients ask for the newest checkpoint of the namespace
			v.Checkpoint = &placeRef{snap.Thread, shownNamespace(ns)}
		case t.States[ns] != nil:
			v.State = stateOf(t.States[ns], true)
			v.State.Interrupts = nil
		default: // it hasn't begun: it has no state, and is still said where it will be
			begins := *noState
			begins.Interrupts = nil
			begins.Checkpoint = &checkpointRef{ThreadID: snap.Thread, NS: shownNamespace(ns)}
			v.State = &begins
		}
		out.Tasks = append(out.Tasks, v)
	}
	for _, q := range snap.Interrupts {
		if q.When == "inside" {
			out.Interrupts = append(out.Interrupts, interruptOf(q))
		}
	}
	return out
}

// insideOf returns the namespace of the subgraph that a task runs, is to run or has
// run; empty if there is none.
func insideOf(t graph.TaskState) string {
	if _, ok := t.Subgraphs[t.Inside]; ok || len(t.Subgraphs) == 0 {
		return t.Inside
	}
	return slices.Min(slices.Collect(maps.Keys(t.Subgraphs))) // of a node that calls graphs, or had another name
}

// metadataOf returns what a checkpoint says about itself. Entries that runs wrote
// are JSON where they are (see metadataOptions), those of others text.
func metadataOf(written map[string]string, source string, step int) object {
	out := object{}
	for k, v := range written {
		if k == beganAt { // which its parent says
			continue
		}
		if json.Valid([]byte(v)) && strings.HasPrefix(k, jsonPrefix) {
			out[strings.TrimPrefix(k, jsonPrefix)] = json.RawMessage(v)
		} else {
			out[k] = jsonText(v)
		}
	}
	if inside(source) {
		source = string(checkpoint.SourceLoop)
	}
	out["source"] = jsonText(source)
	out["step"] = json.RawMessage(strconv.Itoa(step))
	if out["parents"] == nil {
		out["parents"] = json.RawMessage("{}")
	}
	return out
}

// jsonPrefix marks entries of a checkpoint's metadata, which are text, that hold
// JSON.
const jsonPrefix = "json:"

// metadataOptions are the options that write metadata to checkpoints.
func metadataOptions(o object) []graph.RunOption {
	opts := make([]graph.RunOption, 0, len(o))
	for k, v := range o {
		var text string
		if k == beganAt {
			continue
		}
		if json.Unmarshal(v, &text) == nil && !strings.HasPrefix(k, jsonPrefix) {
			opts = append(opts, graph.Metadata(k, text))
		} else {
			opts = append(opts, graph.Metadata(jsonPrefix+k, string(v)))
		}
	}
	return opts
}

var noState = &threadState{Values: json.RawMessage("{}"), Next: []string{}, Tasks: []taskState{}, Metadata: object{}, Interrupts: []interruptValue{}}

// misfit returns what to say of a thread that its graph can't read: another graph
// has written it, or another version of the program.
func misfit(err error) (text string, ok bool) {
	if e, ok := errors.AsType[*graph.UnknownNodeError](err); ok {
		return fmt.Sprintf("%s (graph.Formerly(%q) on the node that takes its place lets it go on)", e, e.Node), true
	}
	if e, ok := errors.AsType[*graph.VersionError](err); ok {
		return e.Error(), true
	}
	e, ok := errors.AsType[*graph.CheckpointError](err)
	if !ok || e.Op != "load" {
		return "", false
	}
	_, kind := errors.AsType[*json.UnmarshalTypeError](e)
	_, syntax := errors.AsType[*json.SyntaxError](e)
	_, date := errors.AsType[*time.ParseError](e)
	if !kind && !syntax && !date || errors.Is(e, checkpoint.ErrCorrupt) {
		return "", false
	}
	return fmt.Sprintf("thread %q does not fit the state of its graph: %s", e.Thread, plainly(e.Err)), true
}

// states shows and edits the states of threads.
type states struct {
	*base
	threads   *threads
	access    *access
	openModel func(context.Context, *calls.Call) (model.Model, error) // see [AskAgain]; may be nil
}

func (s *states) routes() []route {
	return []route{
		{"GET /threads/{thread}/state", "getState", rule{resource: Threads, verb: Read}, s.onThread(s.getState)},
		{"GET /threads/{thread}/state/{checkpoint}", "getCheckpoint", rule{resource: Threads, verb: Read}, s.onThread(s.getState)},
		{"POST /threads/{thread}/state/checkpoint", "findCheckpoint", rule{resource: Threads, verb: Read}, s.onThread(s.getStateAt)},
		{"POST /threads/{thread}/state", "updateState", rule{resource: Threads, verb: Update}, s.onThread(s.updateState)},
		{"PATCH /threads/{thread}/state", "patchState", rule{resource: Threads, verb: Update, how: byHandler}, given(s.threads.patchThread)},
		{"GET /threads/{thread}/history", "getHistory", rule{resource: Threads, verb: Read}, s.getHistory},
		{"POST /threads/{thread}/history", "searchHistory", rule{resource: Threads, verb: Read}, given(s.postHistory)},
		{"GET /threads/{thread}/model_calls", "listModelCalls", rule{resource: Threads, verb: Read}, s.onThread(s.listCalls)},
		{"GET /threads/{thread}/recording", "getRecording", rule{resource: Threads, verb: Read}, itself(s.getRecording)},
		{"GET /threads/{thread}/tool_calls", "listToolCalls", rule{resource: Threads, verb: Read}, s.onThread(s.listToolCalls)},
		{"GET /threads/{thread}/model_calls/{call}", "getModelCall", rule{resource: Threads, verb: Read}, s.onThread(s.getCall)},
		{"POST /threads/{thread}/model_calls/{call}", "askModelAgain", rule{resource: Runs, verb: CreateRun, stream: true}, s.onThread(s.askAgain)},
	}
}

func (s *states) getState(w http.ResponseWriter, r *http.Request, t *db.Thread) (any, error) {
	subgraphs, err := flag(r, "subgraphs")
	if err != nil {
		return nil, err
	}
	id, err := optionalID("checkpoint", r.PathValue("checkpoint"))
	if err != nil {
		return nil, err
	}
	return s.stateAt(r.Context(), t, id, "", subgraphs)
}

func (s *states) getStateAt(w http.ResponseWriter, r *http.Request, t *db.Thread) (any, error) {
	var b struct {
		Checkpoint checkpointRef `json:"checkpoint"`
		Subgraphs  bool          `json:"subgraphs"`
	}
	if err := read(r, &b); err != nil {
		return nil, err
	}
	id, err := b.Checkpoint.id()
	if err != nil {
		return nil, err
	}
	return s.stateAt(r.Context(), t, id, b.Checkpoint.NS, b.Subgraphs)
}

// id returns the checkpoint's ID; empty for the newest one.
func (c *checkpointRef) id() (string, error) {
	if c == nil {
		return "", nil
	}
	if err := checkName("checkpoint_ns", c.NS); err != nil {
		return "", err
	}
	if c.ID == nil {
		return "", nil
	}
	return optionalID("checkpoint", *c.ID)
}

func (s *states) updateState(w http.ResponseWriter, r *http.Request, t *db.Thread) (any, error) {
	var b struct {
		Values       json.RawMessage `json:"values"`
		AsNode       string          `json:"as_node"`
		Checkpoint   *checkpointRef  `json:"checkpoint"`
		CheckpointID *string         `json:"checkpoint_id"`
	}
	if err := read(r, &b); err != nil {
		return nil, err
	}
	g := s.graphOf(t)
	if g == nil {
		return nil, malformed("Thread has no graph_id: run an assistant on it first, or set graph_id in its metadata")
	}
	open, err := s.db.OpenRuns(r.Context(), t.ID)
	if err != nil {
		return nil, err
	}
	if len(open) > 0 {
		return nil, conflict("Thread is busy")
	}
	if b.Checkpoint == nil {
		b.Checkpoint = &checkpointRef{}
	}
	if b.CheckpointID != nil {
		b.Checkpoint.ID = b.CheckpointID
	}
	if err := s.edit(r.Context(), g, t.ID, b.Values, nil, b.AsNode, b.Checkpoint); err != nil {
		return nil, err
	}
	snap, err := s.on(g, t.ID).State(r.Context())
	if err != nil {
		return nil, err
	}
	if err := s.settle(r.Context(), t.ID, snap, nil); err != nil {
		return nil, err
	}
	if err := s.tellEdit(background(r), t.ID); err != nil { // what is written stands for all that
		s.log.LogAttrs(r.Context(), slog.LevelWarn, "server: an edit could not be told of", slog.String("thread", t.ID), slog.Any("error", err))
	}
	ref := refTo(t.ID, "", snap.Checkpoint)
	return map[string]any{"checkpoint": ref, "configurable": ref}, nil
}

// inputNode is what LangGraph's checkpoints call whoever gives an input.
const inputNode = "__input__"

// edit updates the state of a thread from outside.
func (s *states) edit(ctx context.Context, g *served, thread string, values json.RawMessage, c *command, asNode string, at *checkpointRef) error {
	update, err := updateOf(values, c)
	if err != nil {
		return err
	}
	t, err := s.in(g, thread, ns(at))
	if err != nil {
		return err
	}
	if update != nil {
		if err := checkUpdate("values", update, t); err != nil {
			return err
		}
	}
	id, err := at.id()
	if err != nil {
		return err
	}
	edit := graph.Edit[json.RawMessage]{Apply: graph.UpdateWith(update), AsNode: asNode}
	from, err := s.at(ctx, t, thread, ns(at), id)
	if errors.Is(err, checkpoint.ErrNotFound) {
		err = notFound("Checkpoint %s not found", id)
	}
	if err != nil {
		return err
	}
	apply := func() error {
		_, err := from.BulkEdit(ctx, []graph.Edit[json.RawMessage]{edit})
		return err
	}
	if c != nil && c.Goto.set() {
		if asNode == "" || asNode == graph.End || ns(at) != "" {
			return invalid("command.goto leads on from a node of the graph: name it in as_node")
		}
		if edit.Command, err = c.Goto.command(g); err != nil {
			return err
		}
	}
	if asNode == inputNode {
		asNode, edit.AsNode = graph.Start, graph.Start
	}
	if ns(at) != "" || asNode == graph.Start || asNode == graph.End {
		return apply()
	}
	if asNode != "" {
		if !slices.Contains(g.Nodes(), asNode) {
			return invalid("as_node: graph %q has no node %q; there are %s", g.name, asNode, strings.Join(g.Nodes(), ", "))
		}
	}
	if asNode != "" && from == t {
		if from, err = unasked(ctx, t, asNode); err != nil {
			return err
		}
	}
	err = apply()
	if errors.Is(err, checkpoint.ErrNotFound) {
		return notFound("Checkpoint %s not found", id)
	}
	return err
}

// unasked returns a thread at the checkpoint before the questions that it waits
// with, for an edit as a node which is none of those that ask: they asked about
// another state, and are run again. What other tasks of the superstep have
// finished is taken along. It is the thread as it is if nothing is asked.
func unasked(ctx context.Context, t *graph.Thread[json.RawMessage], asNode string) (*graph.Thread[json.RawMessage], error) {
	snap, err := t.State(ctx)
	if errors.Is(err, checkpoint.ErrNotFound) {
		return t, nil
	}
	if err != nil || !slices.ContainsFunc(snap.Interrupts, func(q graph.Interrupted) bool { return q.When == "inside" }) {
		return t, err
	}
	if slices.ContainsFunc(snap.Tasks, func(t graph.TaskState) bool { return t.Node == asNode && len(t.Interrupts) > 0 }) {
		return t, nil
	}
	for snap.Parent != "" && inside(snap.Source) {
		if snap, err = t.At(snap.Parent).State(ctx); err != nil {
			return nil, err
		}
	}
	return t.At(snap.Checkpoint), nil
}

// in returns a thread of a graph, or the run of a subgraph in it that has a namespace.
func (s *base) in(g *served, thread, ns string) (*graph.Thread[json.RawMessage], error) {
	t := s.on(g, thread)
	if ns == "" {
		return t, nil
	}
	if t = t.Inside(namedNamespace(ns)); t.Err() != nil {
		return nil, notFound("Namespace %.200q not found", ns)
	}
	return t, nil
}

// updateOf returns the update of values or of a command; nil if there is none.
func updateOf(values json.RawMessage, c *command) (json.RawMessage, error) {
	if c != nil && c.Update != nil {
		return c.Update, nil
	}
	switch text := strings.TrimSpace(string(values)); {
	case text == "", text == "null", text == "[]":
		return nil, nil
	case text[0] != '{':
		return nil, invalid("values must be an object")
	default:
		return values, nil
	}
}

// tellEdit tells those who have joined a thread of what an edit did to its state.
func (s *states) tellEdit(ctx context.Context, thread string) error {
	if followed, err := s.feeds.followed(ctx, thread); err != nil || !followed {
		return err
	}
	t, err := s.thread(ctx, thread)
	if err != nil {
		return err
	}
	state, err := s.stateAt(ctx, t, "", "", false)
	if err != nil {
		return err
	}
	data, err := json.Marshal(map[string]any{"thread_id": thread, "state": state})
	if err != nil {
		return err
	}
	return s.feeds.tell(ctx, thread, false, db.FeedEvent{Version: 1, Method: followState, Channel: followState, Data: data})
}

// settle notes on a thread what came of a run or an edit.
func (s *states) settle(ctx context.Context, thread string, snap *snapshot, failure *db.RunError) error {
	_, err := s.db.UpdateThread(ctx, thread, func(t *db.Thread) error {
		settle := settled(snap, failure)
		if snap != nil {
			settle = settledSaying(s.graphOf(t), snap, settle)
		}
		settle(t)
		return nil
	})
	s.soon.Store(true) // it may sleep
	return err
}

// settled is settle for a thread at hand.
func settled(snap *snapshot, failure *db.RunError) func(*db.Thread) {
	return func(t *db.Thread) {
		t.UpdatedAt = now()
		t.ChangedAt = t.UpdatedAt
		if t.TTL > 0 {
			t.ExpiresAt = t.UpdatedAt.Add(time.Duration(t.TTL * float64(time.Minute)))
		}
		t.Error, t.Status = nil, db.Idle
		switch {
		case failure != nil:
			t.Status = db.Failed
			t.Error, _ = json.Marshal(failure) // of strings
		case snap != nil && len(snap.Waits) > 0 && len(snap.Interrupts) == 0: // it goes on by itself
			t.Status = db.Busy
		case snap != nil && !snap.Done():
			t.Status = db.Interrupted
		}
	}
}

// before is where a page of a history ends: an ID, a configuration or a
// checkpoint.
type before struct{ id string }

func (b *before) UnmarshalJSON(data []byte) error {
	var o struct {
		ID           string `json:"checkpoint_id"`
		Configurable struct {
			ID string `json:"checkpoint_id"`
		} `json:"configurable"`
	}
	if json.Unmarshal(data, &b.id) == nil {
		return nil
	}
	if err := json.Unmarshal(data, &o); err != nil {
		return invalid("before must be the ID of a checkpoint, a checkpoint or a configuration")
	}
	b.id = cmp.Or(o.ID, o.Configurable.ID)
	return nil
}

type historyQuery struct {
	Limit      *int           `json:"limit"`
	Before     before         `json:"before"`
	Metadata   object         `json:"metadata"`
	Checkpoint *checkpointRef `json:"checkpoint"`
}

func (s *states) postHistory(w http.ResponseWriter, r *http.Request, q *historyQuery) (any, error) {
	return s.history(r, q)
}

func (s *states) getHistory(w http.ResponseWriter, r *http.Request) (any, error) {
	limit, err := number(r, "limit", 10, 0, maxPage)
	if err != nil {
		return nil, err
	}
	q := &historyQuery{Limit: &limit}
	if b := r.URL.Query().Get("before"); b != "" {
		if json.Unmarshal([]byte(b), &q.Before) != nil {
			q.Before.id = b
		}
	}
	return s.history(r, q)
}

func (s *states) history(r *http.Request, q *historyQuery) (any, error) {
	t, err := s.threadOf(r)
	if err != nil {
		return nil, err
	}
	p, err := paging{Limit: q.Limit}.page(10)
	if err != nil {
		return nil, err
	}
	if q.Before.id, err = optionalID("checkpoint", q.Before.id); err != nil {
		return nil, err
	}
	out := []*threadState{}
	g := s.graphOf(t)
	if g == nil || p.Limit == 0 {
		return out, nil
	}
	if _, err := q.Checkpoint.id(); err != nil {
		return nil, err
	}
	if err := s.checkFilter("metadata", q.Metadata); err != nil {
		return nil, err
	}
	thread, err := s.in(g, t.ID, ns(q.Checkpoint))
	if err != nil {
		return nil, err
	}
	b := s.budget(r)
	entries, err := moments(b.ctx, thread, t, graph.HistoryQuery{AllBranches: true}, q.Before.id, p.Limit, matching(q.Metadata, b))
	if err = b.or(err); err != nil {
		return nil, err
	}
	for i, e := range entries {
		at := thread
		if i == 0 && !e.input { // maybe as it is now
			if at, err = s.at(b.ctx, thread, t.ID, ns(q.Checkpoint), e.Checkpoint); err != nil {
				return nil, err
			}
			e.at = ""
		}
		state, err := show(b.ctx, at, e, false)
		if err == nil {
			err = b.spend(len(state.Values))
		}
		if err != nil {
			return nil, err
		}
		out = append(out, state)
	}
	return out, s.results(b.ctx, thread, t, q, entries, out, b)
}

func ns(c *checkpointRef) string {
	if c == nil {
		return ""
	}
	return c.NS
}

// asked returns the questions that a thread waits with; none while a run is
// pending or works.
func (s *states) asked(ctx context.Context, thread string) ([]graph.Interrupted, error) {
	open, err := s.db.OpenRuns(ctx, thread)
	if err != nil || len(open) > 0 {
		return nil, err
	}
	snap, _, err := s.newest(ctx, thread)
	if err != nil || snap == nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(snap.Interrupts), func(q graph.Interrupted) bool { return q.When != "inside" }), nil
}

// newest returns a thread as it is now, and its graph; nil for a thread that
// doesn't exist or has had no run.
func (s *states) newest(ctx context.Context, thread string) (*snapshot, *served, error) {
	t, err := s.db.Thread(ctx, thread)
	if errors.Is(err, db.ErrNotFound) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	g := s.graphOf(t)
	if g == nil {
		return nil, nil, nil
	}
	snap, err := s.on(g, thread).State(ctx)
	if errors.Is(err, checkpoint.ErrNotFound) {
		return nil, g, nil
	}
	return snap, g, err
}
