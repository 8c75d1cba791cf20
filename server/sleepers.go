package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/server/internal/db"
)

// sleepers has threads go on that wait for a time or an event.
type sleepers struct {
	*base
	access     *access
	dispatcher *dispatcher
}

func (s *sleepers) routes() []route {
	return []route{
		{"POST /threads/{thread}/events", "postEvent", rule{resource: Threads, verb: Update, how: byHandler}, s.postEvent},
	}
}

// startDue starts runs of threads whose time has come: whose graph slept, was sent
// an event, or put a question whose deadline is over. It returns when the next one is due, if
// that is before a time.
func (s *sleepers) startDue(ctx context.Context, before time.Time) (next time.Time, err error) {
	sched, ok := s.store.(checkpoint.Scheduler)
	if !ok {
		return next, nil // it can't tell: such a thread goes on with its next run
	}
	var due []checkpoint.Waiting
	at := now()
	if before.Before(at) {
		before = at
	}
	for w, err := range sched.Due(ctx, before, 0) {
		if err != nil {
			return next, fmt.Errorf("looking for threads that are due: %w", err)
		}
		if w.Due.After(at) {
			next = w.Due
			break
		}
		due = append(due, w)
	}
	for _, w := range due {
		if err := s.goOn(ctx, w); err != nil {
			s.log.LogAttrs(ctx, slog.LevelError, "server: a thread that is due could not go on", slog.String("thread", string(w.Thread)), slog.Any("error", err))
			s.soon.Store(true)
		}
	}
	return next, nil
}

// goOn starts a run that continues a thread, as its last run was configured. All
// that find the thread due make the same run, so that one of them does.
func (s *sleepers) goOn(ctx context.Context, w checkpoint.Waiting) error {
	thread := string(w.Thread)
	t, err := s.db.Thread(ctx, thread)
	var first *db.Run
	if errors.Is(err, db.ErrNotFound) {
		if t, first, err = s.adopt(ctx, w.Thread); t == nil { // of another program
			return err
		}
	}
	if err != nil {
		return err
	}
	open, err := s.db.OpenRuns(ctx, thread)
	if err != nil {
		return err
	}
	for _, r := range open {
		if !r.StartsAt.After(now()) {
			return nil // it is at work, or about to
		}
	}
	last, err := s.db.Runs(ctx, thread, "", db.Page{Limit: 1})
	if err == nil && len(last) == 0 && first == nil { // whoever made the thread may have died before its run
		_, first, err = s.adopt(ctx, w.Thread)
	}
	if first != nil && len(last) == 0 {
		last = append(last, first)
	}
	if err != nil || len(last) == 0 {
		return err
	}
	id := uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "%s %d", thread, w.Due.UnixMicro())).String()
	if _, err := s.db.Run(ctx, id); !errors.Is(err, db.ErrNotFound) {
		return err // somebody made it
	}
	var b runBody
	if err := json.Unmarshal(last[0].Kwargs, &b); err != nil {
		return err
	}
	if b.V2 != nil {
		b.V2.Answers = nil // which were told of by the run that brought them
	}
	if b.Trace != nil {
		b.Trace.Detached = true
	}
	b.Input, b.Command, b.Checkpoint, b.AfterSeconds, b.Strategy = nil, nil, nil, 0, enqueue
	kwargs, err := json.Marshal(b)
	if err != nil {
		return err
	}
	at := now()
	run := &db.Run{
		ID: id, ThreadID: thread, AssistantID: last[0].AssistantID, CreatedAt: at, UpdatedAt: at, Status: db.Pending, Kwargs: kwargs,
		Strategy: b.Strategy, StartsAt: at, Holder: s.instance, User: last[0].User, Metadata: last[0].Metadata,
	}
	start, err := s.dispatcher.add(ctx, s.db.AddRun, db.NewRun{Run: run, Limit: db.RunLimit{All: -1, OfOwner: -1}})
	if err != nil {
		if _, found := s.db.Run(ctx, id); found == nil || errors.Is(err, db.ErrNotFound) { // made meanwhile, or the thread is gone
			return nil
		}
		return err
	}
	s.access.auditedSelf(ctx, Runs, CreateRun, "wait", slog.String("thread", t.ID), slog.String("run", run.ID))
	start()
	return nil
}

// adopt makes a thread that one of the server's has spawned (graph.Spawn) a thread of the
// server's, of the same user, and returns what its first run is like. Another's is nil.
func (s *sleepers) adopt(ctx context.Context, id checkpoint.ThreadID) (*db.Thread, *db.Run, error) {
	head, _, err := s.store.Head(ctx, checkpoint.Log{Thread: id})
	if errors.Is(err, checkpoint.ErrNotFound) || err == nil && (head.Caller == "" || s.graphs[head.Graph] == nil) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	caller, err := s.db.Runs(ctx, string(head.Caller), "", db.Page{Limit: 1})
	if err != nil || len(caller) == 0 {
		return nil, nil, err
	}
	by, err := s.db.Thread(ctx, string(head.Caller))
	if err != nil {
		if errors.Is(err, db.ErrNotFound) {
			err = nil
		}
		return nil, nil, err
	}
	assistant := assistantOfGraph(head.Graph)
	metadata := object{"graph_id": jsonText(head.Graph), "assistant_id": jsonText(assistant)}
	if owner, ok := objectOf(by.Metadata)["owner"]; ok {
		metadata["owner"] = owner
	}
	t := s.newThread(string(id), metadata, false)
	err = s.addThread(ctx, t)
	if errors.Is(err, db.ErrExists) {
		t, err = s.db.Thread(ctx, string(id))
	}
	if err != nil {
		return nil, nil, err
	}
	kwargs, err := json.Marshal(runBody{AssistantID: assistant})
	return t, &db.Run{AssistantID: assistant, Kwargs: kwargs, User: caller[0].User, Metadata: object(nil).raw()}, err
}

// postEvent sends an event to a thread whose graph waits for it, or will.
func (s *sleepers) postEvent(w http.ResponseWriter, r *http.Request) (any, error) {
	var e struct {
		Name  string          `json:"name"`
		Value json.RawMessage `json:"value"`
	}
	if err := read(r, &e); err != nil {
		return nil, err
	}
	if e.Name == "" {
		return nil, invalid("name is required: that of the event")
	}
	if err := checkName("name", e.Name); err != nil {
		return nil, err
	}
	t, err := s.threadOf(r)
	if err != nil {
		return nil, err
	}
	if err := s.access.askThread(r.Context(), &Action{Resource: Threads, Verb: Update, ID: t.ID}, t, nil); err != nil {
		return nil, err
	}
	g := s.graphOf(t)
	if g == nil {
		return nil, conflict("Thread with ID %s has no graph: run one on it first", t.ID)
	}
	if len(e.Value) == 0 {
		e.Value = json.RawMessage("null")
	}
	if err := s.on(g, t.ID).SendEvent(r.Context(), e.Name, e.Value); errors.Is(err, checkpoint.ErrNotFound) {
		return nil, conflict("Thread with ID %s has no checkpoint: run a graph on it first", t.ID)
	} else if err != nil {
		return nil, err
	}
	if _, err := s.startDue(background(r), time.Time{}); err != nil { // what is sent isn't lost
		s.soon.Store(true)
		s.log.LogAttrs(r.Context(), slog.LevelError, "server", slog.Any("error", err))
	}
	return noContent, nil
}
