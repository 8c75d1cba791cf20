package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/tracecontext"
	"github.com/superstep-dev/superstep/server/internal/db"
)

// runBody is what a client asks for. It is stored with the run.
type runBody struct {
	AssistantID string          `json:"assistant_id,omitempty"`
	Input       json.RawMessage `json:"input,omitempty"`
	Command     *command        `json:"command,omitempty"`
	Config      runConfig       `json:"config,omitzero"`
	Context     object          `json:"context,omitempty"`
	Metadata    object          `json:"metadata,omitempty"`

	StreamMode      names    `json:"stream_mode,omitempty"`
	StreamSubgraphs bool     `json:"stream_subgraphs,omitempty"`
	StreamResumable bool     `json:"stream_resumable,omitempty"`
	FeedbackKeys    []string `json:"feedback_keys,omitempty"`

	InterruptBefore names `json:"interrupt_before,omitempty"`
	InterruptAfter  names `json:"interrupt_after,omitempty"`

	Checkpoint   *checkpointRef `json:"checkpoint,omitempty"`
	CheckpointID *string        `json:"checkpoint_id,omitempty"`

	Webhook      string  `json:"webhook,omitempty"`
	Strategy     string  `json:"multitask_strategy,omitempty"`
	OnCompletion string  `json:"on_completion,omitempty"`
	OnDisconnect string  `json:"on_disconnect,omitempty"`
	AfterSeconds float64 `json:"after_seconds,omitempty"`
	IfNotExists  string  `json:"if_not_exists,omitempty"`
	Durability   string  `json:"durability,omitempty"`

	// Headers are those of the request that nodes may see.
	Headers object `json:"__request_headers__,omitempty"`

	Trace *tracecontext.Caller `json:"__trace__,omitempty"` // whoever asks for it

	Talk *talking `json:"__talk__,omitempty"` // set if a message to the dialogue started it

	V2 *v2Run `json:"__v2__,omitempty"` // set if a command of the second version started it

	left leftOut // what the client is told was left out
}

// runConfig is the part of a configuration that the server knows; the rest is
// kept.
type runConfig struct {
	RecursionLimit int      `json:"recursion_limit,omitempty"`
	Tags           []string `json:"tags,omitempty"`
	Configurable   object   `json:"configurable,omitempty"`
}

// after returns what is configured for a run on a thread: what the request says, and of what
// earlier runs of the graph were configured with, which the thread keeps, the rest.
func (c *runConfig) after(t *db.Thread, g *served) (object, error) {
	if textOf(objectOf(t.Metadata)["graph_id"]) != g.name {
		return c.Configurable, nil
	}
	var kept runConfig
	if err := json.Unmarshal(t.Config, &kept); err != nil {
		return nil, err
	}
	return kept.Configurable.with(c.Configurable), nil
}

// names is a string or a list of them.
type names []string

func (s *names) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*s = names{one}
		return nil
	}
	var list []string
	if err := json.Unmarshal(data, &list); err != nil {
		return invalid("expected a string or a list of strings, not %.80s", data)
	}
	*s = list
	return nil
}

// The ways of treating a thread that has a run.
const (
	reject    = "reject"
	enqueue   = "enqueue"
	interrupt = "interrupt"
	rollback  = "rollback"
)

const busyText = "Thread is already running a task. Wait for it to finish or choose a different multitask strategy."

// runs starts, shows and stops runs.
type runs struct {
	*base
	access     *access
	assistants *assistants
	dispatcher *dispatcher
	hooks      *hooks
	states     *states
	threads    *threads
	replays    *gauge
	replayTime time.Duration
}

func (s *runs) routes() []route {
	return []route{
		{"POST /threads/{thread}/runs", "createRun", rule{resource: Runs, verb: CreateRun, how: byHandler}, s.createRun},
		{"POST /threads/{thread}/runs/stream", "streamRun", rule{resource: Runs, verb: CreateRun, how: byHandler, stream: true}, itself(s.streamRun)},
		{"POST /threads/{thread}/runs/wait", "waitRun", rule{resource: Runs, verb: CreateRun, how: byHandler, stream: true}, itself(s.waitRun)},
		{"GET /threads/{thread}/runs", "listRuns", rule{resource: Runs, verb: Search}, s.onThread(s.listRuns)},
		{"GET /threads/{thread}/runs/{run}", "getRun", rule{resource: Runs, verb: Read}, s.onRun(s.getRun)},
		{"DELETE /threads/{thread}/runs/{run}", "deleteRun", rule{resource: Runs, verb: Delete}, s.onRun(s.deleteRun)},
		{"GET /threads/{thread}/runs/{run}/join", "joinRun", rule{resource: Runs, verb: Read, stream: true}, itself(s.joinRun)},
		{"GET /threads/{thread}/runs/{run}/stream", "joinStream", rule{resource: Runs, verb: Read, stream: true, refuse: refuseStream}, itself(s.joinStream)},
		{"POST /threads/{thread}/runs/{run}/cancel", "cancelRun", rule{resource: Runs, verb: Update}, s.onRun(s.cancelRun)},
		{"POST /threads/{thread}/replay", "replayThread", rule{resource: Runs, verb: CreateRun, stream: true}, s.onThread(s.replayThread)},
		{"POST /runs", "createStatelessRun", rule{resource: Runs, verb: CreateRun, how: byHandler}, s.createRun},
		{"POST /runs/stream", "streamStatelessRun", rule{resource: Runs, verb: CreateRun, how: byHandler, stream: true}, itself(s.streamRun)},
		{"POST /runs/wait", "waitStatelessRun", rule{resource: Runs, verb: CreateRun, how: byHandler, stream: true}, itself(s.waitRun)},
		{"POST /runs/batch", "batchRuns", rule{resource: Runs, verb: CreateRun, how: byHandler}, given(s.batchRuns)},
		{"POST /runs/search", "searchRuns", rule{resource: Runs, verb: Search, how: byHandler}, given(s.searchRuns)},
		{"POST /runs/figures", "getFigures", rule{resource: Runs, verb: Search, how: byHandler}, given(s.showFigures)},
		{"POST /runs/cancel", "cancelRuns", rule{resource: Runs, verb: Update, how: byHandler}, given(s.cancelRuns)},
		{"GET /runs/{run}/stream", "joinStatelessStream", rule{resource: Runs, verb: Read, stream: true, refuse: refuseStream}, itself(s.joinStream)},
		{"GET /runs/{run}/join", "joinStatelessRun", rule{resource: Runs, verb: Read, stream: true}, itself(s.joinRun)},
	}
}

// checkRun reports what is wrong with a request, as far as it shows without running.
func (s *runs) checkRun(b *runBody, g *served) error {
	if len(b.StreamMode) == 0 {
		b.StreamMode = names{modeValues}
	}
	for _, m := range b.StreamMode {
		if _, ok := modes[m]; !ok {
			return invalid("stream_mode: there is no %.80q; there are %s", m, strings.Join(slices.Sorted(maps.Keys(modes)), ", "))
		}
	}
	if b.Strategy == "" {
		b.Strategy = enqueue
	}
	err := errors.Join(
		oneOf("multitask_strategy", b.Strategy, reject, enqueue, interrupt, rollback),
		oneOf("on_completion", b.OnCompletion, "delete", "keep", "complete", "continue"),
		oneOf("on_disconnect", b.OnDisconnect, "cancel", "continue"),
		oneOf("if_not_exists", b.IfNotExists, "create", "reject"),
		oneOf("durability", b.Durability, "sync", "async", "exit"),
		checkConfig(g, b.Config.Configurable, b.Context),
	)
	if err != nil {
		return err
	}
	if b.Config.RecursionLimit < 0 {
		return invalid("config.recursion_limit must be positive")
	}
	if b.AfterSeconds < 0 || b.AfterSeconds > 1e9 {
		return invalid("after_seconds must be between 0 and 1e9")
	}
	for _, names := range []struct {
		what string
		list names
	}{{"interrupt_before", b.InterruptBefore}, {"interrupt_after", b.InterruptAfter}} {
		for _, n := range names.list {
			if n != "*" && !slices.Contains(g.Nodes(), n) {
				return invalid("%s: graph %q has no node %q; there are %s", names.what, g.name, n, strings.Join(g.Nodes(), ", "))
			}
		}
	}
	if _, err := b.Checkpoint.id(); err != nil {
		return err
	}
	if b.Webhook != "" {
		if err := s.hooks.checkWebhook(b.Webhook); err != nil {
			return err
		}
	}
	if c := b.Command; c != nil {
		if !c.Resume.IsZero() && c.Goto.set() {
			return invalid("command.resume and command.goto cannot be given together")
		}
		if _, err := c.Goto.command(g); err != nil {
			return err
		}
		if c.Update != nil {
			return checkUpdate("command.update", c.Update, g)
		}
		return nil
	}
	if isNull(b.Input) {
		return nil
	}
	if err := g.CheckJSON(graph.JSONInput, b.Input); err != nil {
		text := strings.TrimPrefix(strings.TrimPrefix(plainly(err), "input: "), "update: ")
		if strings.HasPrefix(text, "must ") {
			return invalid("input %s", text)
		}
		return invalid("input: %s", text)
	}
	return nil
}

// checkUpdate reports what is wrong with what is to be written to a state.
func checkUpdate(what string, update json.RawMessage, g interface {
	CheckJSON(kind graph.JSONKind, data []byte) error
}) error {
	if text := bytes.TrimSpace(update); len(text) == 0 || text[0] != '{' {
		return invalid("%s must be an object, with fields of the state", what)
	}
	if err := g.CheckJSON(graph.JSONUpdate, update); err != nil {
		return invalid("%s: %s", what, plainly(err))
	}
	return nil
}

// plainly returns the text of an error about JSON, without the words of Go.
func plainly(err error) string {
	text := strings.ReplaceAll(err.Error(), "json: unknown field", "unknown field")
	for _, e := range typeErrors(err) {
		not := "a JSON " + e.Value
		if n, ok := strings.CutPrefix(e.Value, "number "); ok {
			not = n
		}
		say := "must be " + kindOf(e.Type) + ", not " + not
		if e.Field != "" {
			say = e.Field + " " + say
		}
		text = strings.ReplaceAll(text, e.Error(), say)
	}
	return text
}

// typeErrors returns the errors in a tree that say that JSON is of another type.
func typeErrors(err error) []*json.UnmarshalTypeError {
	switch e := err.(type) {
	case *json.UnmarshalTypeError:
		return []*json.UnmarshalTypeError{e}
	case interface{ Unwrap() error }:
		return typeErrors(e.Unwrap())
	case interface{ Unwrap() []error }:
		var out []*json.UnmarshalTypeError
		for _, one := range e.Unwrap() {
			out = append(out, typeErrors(one)...)
		}
		return out
	}
	return nil
}

// kindOf says of what kind the JSON of a type is.
func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return kindOf(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return "a whole number that is not negative"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.String:
		return "a string"
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return "a string of base64"
		}
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	}
	return "of another kind"
}

func isNull(raw json.RawMessage) bool {
	return len(raw) == 0 || strings.TrimSpace(string(raw)) == "null"
}

// headersOf returns the headers of a request that nodes may see: no credentials.
func headersOf(r *http.Request) object {
	out := object{}
	for name, values := range r.Header {
		name = strings.ToLower(name)
		if name == "x-tenant-id" || looksSecret(name) {
			continue
		}
		if ofHeader(name) {
			out[name] = jsonText(strings.Join(values, ", "))
		}
	}
	return out
}

// ofHeader reports whether what is configured under a name comes from a header, and
// from nowhere else: a proxy may have set it, and what a client says in a body must
// not count as that.
func ofHeader(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "x-") || name == "user-agent"
}

// start makes the run that a request asks for, and hands it to the dispatcher.
func (s *runs) start(r *http.Request, thread string, b *runBody) (*db.Run, error) {
	ctx := r.Context()
	a, g, err := s.assistants.usable(ctx, b.AssistantID)
	if err != nil {
		return nil, err
	}
	if b.CheckpointID != nil {
		if b.Checkpoint == nil {
			b.Checkpoint = &checkpointRef{}
		}
		b.Checkpoint.ID, b.CheckpointID = b.CheckpointID, nil
	}
	b.AssistantID = a.ID
	b.Headers, b.Trace = headersOf(r), askerOf(r)
	if !strict(r) {
		if err := b.leaveOut(g, s.dialogue != nil && g == s.dialogue.served); err != nil {
			return nil, err
		}
	}
	if err := s.checkRun(b, g); err != nil {
		return nil, err
	}
	if err := s.checkMetadata(b.Metadata); err != nil {
		return nil, err
	}
	var mine Filter
	if b.Metadata, mine, err = s.access.stamp(ctx, &Action{Resource: Runs, Verb: CreateRun, ID: thread}, b.Metadata); err != nil {
		return nil, err
	}
	var t, made *db.Thread
	var run *db.Run
	for tries := 0; ; tries++ {
		if thread == "" {
			owned, _, err := s.access.stamp(ctx, &Action{Resource: Runs, Verb: CreateRun}, nil)
			if err != nil {
				return nil, err
			}
			made = s.newThread(uuid.Must(uuid.NewV7()).String(), owned, b.OnCompletion != "keep")
			if err := within(mine, made.Metadata); err != nil {
				return nil, err
			}
			t = made
		} else if t, made, err = s.place(ctx, thread, mine, b.IfNotExists == "create"); err != nil {
			return nil, err
		}
		run, err = s.enqueue(context.WithoutCancel(ctx), s.db.AddRun, t, made, a, g, b) // whoever leaves now is to know of it, or nobody stops it
		if err == nil {
			break
		}
		if !errors.Is(err, db.ErrExists) || tries == 10 { // somebody has made it meanwhile
			return nil, err
		}
	}
	note(ctx, "thread", t.ID)
	note(ctx, "run", run.ID)
	return run, nil
}

// place returns a thread that is the user's; made is the same if there is none yet, and
// it is to be made.
func (s *runs) place(ctx context.Context, thread string, mine Filter, create bool) (t, made *db.Thread, err error) {
	t, err = s.db.Thread(ctx, thread)
	if _, unfit := checkID("thread", thread); errors.Is(err, db.ErrNotFound) && create && unfit == nil {
		owned, _, err := s.access.stampNew(ctx, &Action{Resource: Threads, Verb: Create, ID: thread}, nil)
		made = s.newThread(thread, owned, false)
		return made, made, err
	}
	if err != nil && !errors.Is(err, db.ErrNotFound) {
		return nil, nil, err
	}
	if t == nil || !mine.allows(t.Metadata) {
		return nil, nil, noThread(thread)
	}
	return t, nil, nil
}

// enqueue has a run stored by add, which is [db.DB.AddRun] or does more, and has it
// started. It returns the run as it was asked for. A thread that is made for it is stored with
// it; the error is [db.ErrExists] if it is there.
func (s *runs) enqueue(ctx context.Context, add func(context.Context, db.NewRun) error, t, made *db.Thread, a *db.Assistant, g *served, b *runBody) (*db.Run, error) {
	if err := s.canBegin(ctx, t, g, b); err != nil {
		return nil, err
	}
	thread := t.ID
	at := now()
	run := &db.Run{
		ID: uuid.Must(uuid.NewV7()).String(), ThreadID: thread, AssistantID: a.ID, CreatedAt: at, UpdatedAt: at, Status: db.Pending,
		Strategy: b.Strategy, StartsAt: at.Add(time.Duration(b.AfterSeconds * float64(time.Second))), Holder: s.instance, User: userJSON(ctx),
	}
	var earlier []*db.Run
	var err error
	if made == nil && (b.Strategy == interrupt || b.Strategy == rollback) {
		if earlier, err = s.db.OpenRuns(ctx, thread); err != nil {
			return nil, err
		}
	}
	since := time.Now()
	start, err := s.dispatcher.add(ctx, add, db.NewRun{Run: run, Made: made, Alone: b.Strategy == reject, Limit: s.runLimit(ctx), Change: func(t *db.Thread) error {
		own := object{"graph_id": jsonText(g.name), "assistant_id": jsonText(a.ID)}
		config, err := b.Config.after(t, g)
		if err != nil {
			return err
		}
		asked := *b
		if asked.Config.Configurable = config; len(config) > 0 {
			t.Config = object{"configurable": config.raw()}.raw()
		}
		if run.Kwargs, err = json.Marshal(&asked); err != nil {
			return err
		}
		run.Metadata = objectOf(a.Metadata).with(objectOf(t.Metadata), b.Metadata, own, object{"created_by": nil}).raw()
		delete(own, "created_by")
		t.Metadata = objectOf(t.Metadata).with(own).raw()
		return nil
	}})
	if err != nil {
		switch {
		case errors.Is(err, db.ErrBusy):
			return nil, invalid(busyText)
		case errors.Is(err, db.ErrTooMany):
			return nil, tooMany("%v", err)
		case errors.Is(err, db.ErrNotFound):
			return nil, noThread(thread)
		}
		return nil, err
	}
	defer start()
	asked := *run // which the run's own work changes
	asked.Status, asked.UpdatedAt = db.Pending, at
	if made != nil {
		s.feeds.renew(thread, since)
	}
	for _, e := range earlier {
		why := stopInterrupt
		if b.Strategy == rollback {
			why = stopRollback
		}
		if err := s.dispatcher.cancel(context.WithoutCancel(ctx), e, why, false); err != nil {
			return nil, err
		}
	}
	return &asked, nil
}

// canBegin reports what keeps a run from beginning on its thread: a checkpoint that
// isn't there, or that its graph can't read the thread, which then stays as it is.
// What this server has left itself, its graphs can read; a thread that another
// program wrote, or said to be of another graph, is read for that. While the thread
// has another run it isn't known what the thread will be.
func (s *runs) canBegin(ctx context.Context, t *db.Thread, g *served, b *runBody) error {
	at, err := b.Checkpoint.id()
	if err != nil {
		return err
	}
	own := t.ChangedAt.After(s.began) && t.UpdatedAt.Equal(t.ChangedAt)
	if was := s.graphOf(t); at == "" && (was == nil || was == g && own) {
		return nil
	}
	if busy, err := s.db.AnyOpen(ctx, t.ID); err != nil || busy {
		return err
	}
	thread, err := s.states.at(ctx, s.on(g, t.ID), t.ID, "", at)
	if err == nil {
		_, err = thread.State(ctx)
	}
	if errors.Is(err, checkpoint.ErrNotFound) {
		if at == "" {
			return nil
		}
		return notFound("Checkpoint %s not found", at)
	}
	if text, unfit := misfit(err); unfit {
		head, err := s.head(ctx, t.ID)
		if err != nil {
			return err
		}
		if head != nil && head.Graph != g.name && s.graphs[head.Graph] != nil {
			text = fmt.Sprintf("thread %q is of graph %q, and graph %q can't go on with it: name an assistant of %q, or another thread", t.ID, head.Graph, g.name, head.Graph)
		}
		return conflict("%s", text)
	}
	return err
}

// asked starts the run that a request asks for, on a thread or without one, and tells the
// client where it is.
func (s *runs) asked(w http.ResponseWriter, r *http.Request) (*runBody, *db.Run, error) {
	thread, err := pathThread(r)
	if err != nil {
		return nil, nil, err
	}
	b := &runBody{}
	if err := read(r, b); err != nil {
		return nil, nil, err
	}
	b.own()
	run, err := s.start(r, thread, b)
	if err != nil {
		return nil, nil, err
	}
	warned(w, b.left)
	location(w, run, thread == "")
	return b, run, nil
}

// own removes what only the server writes.
func (b *runBody) own() { b.Headers, b.Trace, b.Talk, b.V2 = nil, nil, nil, nil }

// location tells clients where the run is.
func location(w http.ResponseWriter, run *db.Run, stateless bool) {
	path := "/threads/" + url.PathEscape(run.ThreadID) + "/runs/" + run.ID
	if stateless {
		path = "/runs/" + run.ID
	}
	w.Header().Set("Content-Location", path)
}

func (s *runs) createRun(w http.ResponseWriter, r *http.Request) (any, error) {
	_, run, err := s.asked(w, r)
	if err != nil {
		return nil, err
	}
	return runView(run), nil
}

func (s *runs) batchRuns(w http.ResponseWriter, r *http.Request, batch *[]*runBody) (any, error) {
	bodies := *batch
	if err := s.checkList("the batch", len(bodies)); err != nil {
		return nil, err
	}
	if len(bodies) == 0 { // nothing is done, for which somebody might be asked
		if _, err := s.access.ask(r.Context(), &Action{Resource: Runs, Verb: CreateRun}); err != nil {
			return nil, err
		}
	}
	out := []any{}
	for i, b := range bodies {
		if b == nil {
			return nil, invalid("run %d of the batch is null", i)
		}
		b.own()
		run, err := s.start(r, "", b)
		if err != nil {
			if f, ok := errors.AsType[*fault](err); ok {
				return nil, &fault{f.status, fmt.Sprintf("run %d of the batch: %s", i, f.text)}
			}
			return nil, err
		}
		warned(w, b.left)
		out = append(out, runView(run))
	}
	return out, nil
}

// runShown is a run as clients see it.
type runShown struct {
	ID          string          `json:"run_id"`
	ThreadID    string          `json:"thread_id"`
	AssistantID string          `json:"assistant_id"`
	CreatedAt   instant         `json:"created_at"`
	UpdatedAt   instant         `json:"updated_at"`
	Status      string          `json:"status"`
	Metadata    json.RawMessage `json:"metadata"`
	Kwargs      json.RawMessage `json:"kwargs"`
	Strategy    string          `json:"multitask_strategy"`
}

func runView(r *db.Run) runShown {
	return runShown{r.ID, r.ThreadID, r.AssistantID, instant(r.CreatedAt), instant(r.UpdatedAt), r.Status, r.Metadata, r.Kwargs, r.Strategy}
}

// waitRun answers when the run has ended, and meanwhile with line feeds, so that
// proxies don't give up.
func (s *runs) waitRun(w http.ResponseWriter, r *http.Request) error {
	b, run, err := s.asked(w, r)
	if err != nil {
		return err
	}
	comeBack(w, "/join")
	return s.left(r, run, b.OnDisconnect == "cancel", s.answer(w, r, run))
}

// answer waits for a run and writes what came of it.
func (s *runs) answer(w http.ResponseWriter, r *http.Request, run *db.Run) error {
	w.Header().Set("Content-Type", "application/json")
	log, err := s.outcomeOf(r.Context(), run)
	if err != nil {
		return err
	}
	defer log.leave()
	flush := http.NewResponseController(w).Flush
	for _, err := range log.events(r.Context(), 0, time.Second, func() error {
		if _, err := w.Write([]byte("\n")); err != nil {
			return err
		}
		return flush()
	}) {
		if errors.Is(err, errOver) {
			panic(http.ErrAbortHandler) // the run goes on elsewhere
		}
		if err != nil {
			return err
		}
	}
	return s.writeOutcome(w, r, run.ID, log)
}

// writeOutcome writes the values that a run has led to, or its error.
func (s *runs) writeOutcome(w http.ResponseWriter, r *http.Request, id string, log *stream) error {
	if log != nil && log.outcome != nil {
		_, err := w.Write(log.outcome)
		return err
	}
	run, err := s.db.Run(r.Context(), id)
	if err != nil {
		return err
	}
	outcome, err := s.cameOf(r.Context(), run)
	if err != nil {
		return err
	}
	_, err = w.Write(outcome)
	return err
}

// cameOf returns what a run that is over has led to, which may have been long ago.
func (s *runs) cameOf(ctx context.Context, run *db.Run) (json.RawMessage, error) {
	if run.Error != nil {
		return json.Marshal(map[string]any{"__error__": run.Error})
	}
	if _, err := s.thread(ctx, run.ThreadID); err != nil {
		return nil, err
	}
	snap, _, err := s.states.newest(ctx, run.ThreadID)
	if err != nil || snap == nil {
		return noState.Values, err
	}
	values, err := wholeMessages(snap.OutputJSON())
	return withInterrupts(values, stateOf(snap, false).Interrupts), err
}

// withInterrupts returns values with the questions that wait.
func withInterrupts(values json.RawMessage, asked []interruptValue) json.RawMessage {
	if len(asked) == 0 {
		return values
	}
	data, _ := json.Marshal(asked) // of JSON
	return objectOf(values).with(object{"__interrupt__": data}).raw()
}

func (s *base) findRun(r *http.Request) (*db.Run, error) {
	id, err := pathID(r, "run")
	if err != nil {
		return nil, err
	}
	thread, err := pathThread(r)
	if err != nil {
		return nil, err
	}
	run, err := s.db.Run(r.Context(), id)
	if err == nil && thread != "" && run.ThreadID != thread {
		err = db.ErrNotFound
	}
	return run, missing(err, "Run not found")
}

func (s *runs) getRun(w http.ResponseWriter, r *http.Request, run *db.Run) (any, error) {
	return runView(run), nil
}

func (s *runs) listRuns(w http.ResponseWriter, r *http.Request, t *db.Thread) (any, error) {
	limit, err := number(r, "limit", 10, 0, maxPage)
	if err != nil {
		return nil, err
	}
	offset, err := number(r, "offset", 0, 0, math.MaxInt)
	if err != nil {
		return nil, err
	}
	status := r.URL.Query().Get("status")
	members, err := listed(r, "select")
	if err = errors.Join(oneOf("status", status, runStatuses...), err, checkSelect(members, runMembers)); err != nil {
		return nil, err
	}
	found, err := s.db.Runs(r.Context(), t.ID, status, db.Page{Limit: limit, Offset: offset})
	if err != nil {
		return nil, err
	}
	return selected(views(found, runView), members)
}

func (s *runs) deleteRun(w http.ResponseWriter, r *http.Request, run *db.Run) (any, error) {
	return noContent, s.dispatcher.remove(background(r), run)
}

func (s *runs) joinRun(w http.ResponseWriter, r *http.Request) error {
	run, err := s.findRun(r)
	if err != nil {
		return err
	}
	cancel, err := flag(r, "cancel_on_disconnect")
	if err != nil {
		return err
	}
	location(w, run, r.PathValue("thread") == "")
	comeBack(w, "/join")
	return s.left(r, run, cancel, s.answer(w, r, run))
}

func (s *runs) cancelRun(w http.ResponseWriter, r *http.Request, run *db.Run) (any, error) {
	wait, err := flag(r, "wait")
	if err != nil {
		return nil, err
	}
	why, err := stopOf(r)
	if err != nil {
		return nil, err
	}
	if err := s.dispatcher.cancel(background(r), run, why, wait); err != nil {
		return nil, err
	}
	if wait {
		return noContent, nil
	}
	return bare(http.StatusAccepted), nil
}

func stopOf(r *http.Request) (stop, error) {
	switch action := r.URL.Query().Get("action"); action {
	case "", interrupt:
		return stopInterrupt, nil
	case rollback:
		return stopRollback, nil
	default:
		return 0, invalid("action must be interrupt or rollback, not %.80q", action)
	}
}

type cancelBody struct {
	ThreadID string   `json:"thread_id"`
	RunIDs   []string `json:"run_ids"`
	Status   string   `json:"status"`
}

func (s *runs) cancelRuns(w http.ResponseWriter, r *http.Request, b *cancelBody) (any, error) {
	why, err := stopOf(r)
	if err != nil {
		return nil, err
	}
	if b.Status == "" && len(b.RunIDs) == 0 {
		return nil, invalid("run_ids, with thread_id, or status is required")
	}
	if err := errors.Join(oneOf("status", b.Status, db.Pending, db.Running, "all"), s.checkList("run_ids", len(b.RunIDs))); err != nil {
		return nil, err
	}
	if b.ThreadID, err = threadID(b.ThreadID); err != nil {
		return nil, err
	}
	mine, err := s.access.ask(r.Context(), &Action{Resource: Runs, Verb: Update, ID: b.ThreadID})
	if err != nil {
		return nil, err
	}
	open, err := s.db.OpenRuns(r.Context(), b.ThreadID)
	if err != nil {
		return nil, err
	}
	if !mine.all() {
		if open, err = s.seen(r.Context(), open, mine); err != nil {
			return nil, err
		}
	}
	found := 0
	for _, run := range open {
		if len(b.RunIDs) > 0 && !slices.Contains(b.RunIDs, run.ID) || b.Status != "" && b.Status != "all" && b.Status != run.Status {
			continue
		}
		found++
		note(r.Context(), "run", run.ID)
		if err := s.dispatcher.cancel(background(r), run, why, false); err != nil {
			return nil, err
		}
	}
	if found == 0 && len(b.RunIDs) > 0 {
		return nil, notFound("Run not found")
	}
	return noContent, nil
}

// seen returns the runs whose threads a filter selects.
func (s *runs) seen(ctx context.Context, runs []*db.Run, f Filter) ([]*db.Run, error) {
	mine := map[string]bool{}
	var out []*db.Run
	for _, run := range runs {
		ok, known := mine[run.ThreadID]
		if !known {
			t, err := s.db.Thread(ctx, run.ThreadID)
			if err != nil && !errors.Is(err, db.ErrNotFound) {
				return nil, err
			}
			ok = err == nil && f.allows(t.Metadata)
			mine[run.ThreadID] = ok
		}
		if ok {
			out = append(out, run)
		}
	}
	return out, nil
}
