package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server/internal/db"
	"github.com/superstep-dev/superstep/server/internal/turn"
)

// turns is the server as protocols of conversations need it.
type turns struct {
	*assistants
	runs *runs
}

// hello is an input that graphs with messages take.
var hello = json.RawMessage(`{"messages":[{"type":"human","content":"hello"}]}`)

func (t turns) Read(r *http.Request, v any) error { return read(r, v) }

func (s *assistants) assistantToTalkTo(a *db.Assistant, g *served) turn.Assistant {
	out := turn.Assistant{ID: a.ID, Name: a.ID, Created: a.CreatedAt, Takes: func(input json.RawMessage) error {
		if err := g.CheckJSON(graph.JSONInput, input); err != nil {
			return invalid("%s", plainly(err))
		}
		return nil
	}}
	out.Talks = out.Takes(hello) == nil
	if a.ID == assistantOfGraph(g.name) {
		out.Name = g.name
	}
	return out
}

func (t turns) Assistants(ctx context.Context) ([]turn.Assistant, error) {
	found, err := t.seen(ctx, func(name string) bool { return t.graphs[name].CheckJSON(graph.JSONInput, hello) == nil })
	var out []turn.Assistant
	for _, a := range found {
		out = append(out, t.assistantToTalkTo(a, t.graphs[a.GraphID]))
	}
	return out, err
}

// seen returns the assistants of some graphs that the user of a context sees.
func (t turns) seen(ctx context.Context, of func(graph string) bool) ([]*db.Assistant, error) {
	mine, err := t.access.ask(ctx, &Action{Resource: Assistants, Verb: Search})
	if err != nil {
		return nil, err
	}
	graphs := map[string]bool{}
	for _, name := range t.names {
		graphs[name] = of(name)
	}
	found, _, err := t.db.Assistants(ctx, "", "created", db.Page{Limit: maxPage, Ascending: true}, func(a *db.Assistant) bool {
		return graphs[a.GraphID] && seesAssistant(mine, Read, a)
	})
	return found, err
}

func (t turns) Assistant(ctx context.Context, name string) (*turn.Assistant, error) {
	a, g, err := t.usable(ctx, name)
	if isNotFound(err) {
		return nil, &turn.Fault{Status: http.StatusNotFound, Code: turn.CodeNoAssistant, Param: "model", Text: fmt.Sprintf("The model %.80q does not exist: a model is a graph by its name, or an assistant by its ID; GET /v1/models lists those that take messages.", name)}
	}
	if err != nil {
		return nil, err
	}
	out := t.assistantToTalkTo(a, g)
	return &out, nil
}

func (t turns) Thread(ctx context.Context, id string) (*turn.Thread, error) {
	exists, err := t.access.askOf(ctx, &Action{Resource: Runs, Verb: CreateRun, ID: id})
	if err != nil || !exists {
		return nil, err
	}
	out := &turn.Thread{ID: id}
	snap, _, err := t.runs.states.newest(ctx, id)
	if text, unfit := misfit(err); unfit {
		return nil, conflict("%s", text)
	}
	if err != nil || snap == nil {
		return out, err
	}
	if out.Values, err = wholeMessages(snap.OutputJSON()); err != nil {
		return nil, err
	}
	asked, err := t.runs.states.asked(ctx, id)
	for _, q := range asked {
		out.Questions = append(out.Questions, questionOf(interruptOf(q)))
	}
	return out, err
}

func questionOf(v interruptValue) turn.Question {
	return turn.Question{ID: v.ID, Key: v.Key, Value: v.Value, Schema: v.Schema}
}

func (t turns) ThreadOf(ctx context.Context, id string) (*turn.Thread, bool, error) {
	run, err := t.db.Run(ctx, id)
	if errors.Is(err, db.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	out, err := t.Thread(ctx, run.ThreadID)
	if err != nil || out == nil {
		if isNotFound(err) {
			err = nil
		}
		return nil, false, err
	}
	newest, err := t.db.Runs(ctx, run.ThreadID, "", db.Page{Limit: 1})
	return out, len(newest) > 0 && newest[0].ID == id, err
}

// Explain is explain for any protocol.
func (s *base) Explain(r *http.Request, err error) *turn.Fault {
	if f, ok := errors.AsType[*turn.Fault](err); ok {
		return &turn.Fault{Status: f.Status, Code: f.Code, Param: f.Param, Text: printable(f.Text)}
	}
	f := s.explain(r, err)
	return &turn.Fault{Status: f.status, Text: printable(f.text)}
}

func (t turns) Start(r *http.Request, ask turn.Request) (turn.Run, error) {
	if t.dispatcher.stopping() {
		return nil, errEnding
	}
	b := &runBody{
		AssistantID: ask.Assistant, Input: ask.Input, Metadata: object{}, StreamMode: turn.Modes(ask.Tasks), StreamSubgraphs: ask.Tasks,
		Strategy: reject, IfNotExists: "create",
	}
	for name, value := range ask.Metadata {
		b.Metadata[name] = jsonText(value)
	}
	if ask.Answers != nil {
		b.Command, b.Input = &command{Resume: optional{object(ask.Answers).raw()}}, nil
	}
	run, err := t.runs.start(r, ask.Thread, b)
	if f, ok := errors.AsType[*fault](err); ok && f.text == busyText {
		return nil, &turn.Fault{Status: http.StatusConflict, Code: turn.CodeBusy, Text: "Another run works on the thread: try again when it has ended, or stop it."}
	}
	if err != nil {
		return nil, err
	}
	if ask.Thread != "" && ask.Keep > 0 {
		_, err := t.db.UpdateThread(background(r), run.ThreadID, func(t *db.Thread) error {
			keep := ttl{set: true, minutes: ask.Keep.Minutes()}
			keep.apply(t, now())
			return nil
		})
		if err != nil && !errors.Is(err, db.ErrNotFound) {
			return nil, errors.Join(err, t.dispatcher.cancel(background(r), run, stopInterrupt, false))
		}
	}
	return &turnRun{runs: t.runs, run: run, stays: ask.Thread != ""}, nil
}

// errEnding is for a run that another server, or the next one, is to be asked for.
var errEnding = &fault{http.StatusServiceUnavailable, "The server is closing: try again. What a run on a thread has recorded is kept."}

// turnRun is a run as protocols of conversations follow it.
type turnRun struct {
	runs  *runs
	run   *db.Run
	stays bool
}

func (t *turnRun) ID() string { return t.run.ID }

func (t *turnRun) Thread() string {
	if t.stays {
		return t.run.ThreadID
	}
	return ""
}

func (t *turnRun) Follow(ctx context.Context, beat func() error, tell func(turn.Event) error) (*turn.End, error) {
	log, err := t.runs.streamOf(ctx, t.run)
	if err != nil {
		return nil, err
	}
	defer log.leave()
	for ev, err := range log.events(ctx, 0, heartbeat, beat) {
		var told turn.Event
		if err == nil {
			told, err = turn.Decode(ev.Method, ev.Data)
		}
		if told != nil && err == nil {
			err = tell(told)
		}
		if errors.Is(err, errOver) {
			err = errEnding
		}
		if err != nil {
			return nil, err
		}
	}
	run, err := t.runs.db.Run(ctx, t.run.ID)
	if err != nil && !errors.Is(err, db.ErrNotFound) { // it went with its thread
		return nil, err
	}
	var outcome json.RawMessage
	switch {
	case log != nil && log.outcome != nil:
		outcome = log.outcome
	case run == nil:
		return nil, conflict("The run was removed before it had ended")
	default:
		if outcome, err = t.runs.cameOf(ctx, run); err != nil {
			return nil, err
		}
	}
	end, err := turn.EndOf(outcome)
	if err == nil && run != nil {
		end.Cancelled = run.Status == db.Interrupted && end.Failure == nil && len(end.Questions) == 0
	}
	return end, err
}

func (t *turnRun) Cancel(ctx context.Context) error {
	return t.runs.dispatcher.cancel(context.WithoutCancel(ctx), t.run, stopInterrupt, false)
}
