package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/anygraph"
	"github.com/superstep-dev/superstep/server/internal/db"
)

// execute runs a run, sends what happens to its log, and notes what came of it.
// The error is that of noting.
func (s *Server) execute(ctx context.Context, run *db.Run, a *activeRun) error {
	keep := context.WithoutCancel(ctx) // what has happened is noted even when the run is cancelled
	var b runBody
	err := json.Unmarshal(run.Kwargs, &b)
	log, failed := s.outlet(keep, run, &b)
	if failed != nil {
		return failed
	}
	defer log.breakOff() // unless it has ended by then
	log.live = s.follow(run, &b)
	defer log.live.leave()
	var assistant *db.Assistant
	var g *served
	if err == nil {
		assistant, g, err = s.assistant(keep, run.AssistantID)
	}
	if err != nil {
		return s.conclude(keep, run, &b, g, log, err, stopNone)
	}
	thread, err := s.db.Thread(keep, run.ThreadID)
	if err != nil {
		return s.conclude(keep, run, &b, g, log, err, stopNone)
	}
	head, err := s.store.Head(keep, checkpoint.Log{Thread: checkpoint.ThreadID(run.ThreadID)})
	if err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
		return s.conclude(keep, run, &b, g, log, err, stopNone)
	}
	// The run goes on where it was when its process ended, if it had begun.
	resumed := run.Begun && head != nil && head.Metadata["run_id"] == run.ID
	run, err = s.db.UpdateRun(keep, run.ID, s.instance, func(r *db.Run) error {
		r.Status, r.UpdatedAt = db.Running, now()
		r.Attempt++
		if !r.Begun {
			r.Begun, r.StartedAt = true, r.UpdatedAt
			if head != nil {
				r.Base = string(head.ID)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	about := about{run: run, assistant: assistant, graph: g.name, tags: b.Config.Tags}
	enc := newEncoder(&b, about, s.join(run, log.send))
	enc.metadata()
	err = log.live.begin(keep, g, &b)
	var seq iter.Seq2[graph.Event, error]
	if err == nil {
		seq, err = s.call(ctx, keep, run, assistant, thread, g, &b, head, resumed, enc.wants()|log.live.wants())
	}
	if err == nil {
		for ev, failure := range seq {
			if failure != nil {
				err = failure
				break
			}
			if err = errors.Join(enc.event(ev), log.live.event(ev)); err != nil {
				break
			}
		}
	}
	why := s.runs.stopped(a)
	if err != nil && why == stopNone && (errors.Is(err, graph.ErrDrained) || errors.Is(context.Cause(ctx), graph.ErrDrained)) {
		return nil // clients come back for the rest
	}
	if now, failed := s.db.OpenRuns(keep, run.ThreadID); failed == nil && !slices.ContainsFunc(now, func(r *db.Run) bool { return r.ID == run.ID && r.Holder == s.instance }) {
		return db.ErrTaken
	}
	return s.conclude(keep, run, &b, g, log, err, why, enc)
}

// call begins what a run asks for.
func (s *Server) call(ctx, keep context.Context, run *db.Run, a *db.Assistant, t *db.Thread, g *served, b *runBody, head *checkpoint.Record, resumed bool, wants graph.Mode) (iter.Seq2[graph.Event, error], error) {
	opts, err := s.runOptions(run, a, t, g, b)
	if err != nil {
		return nil, err
	}
	opts = append(opts, graph.Modes(wants), graph.Buffer(64), graph.Drain(s.runs.draining))
	if resumed {
		return g.Stream(ctx, nil, append(opts, graph.WhenBusy(graph.BusyQueue))...), nil
	}
	at, err := b.Checkpoint.id()
	if err != nil {
		return nil, err
	}
	if at != "" && (head == nil || at != string(head.ID)) {
		opts = append(opts, graph.From(at))
	}
	c := b.Command
	if c == nil {
		if isNull(b.Input) {
			return g.Stream(ctx, nil, opts...), nil
		}
		return g.Stream(ctx, b.Input, append(opts, graph.Restart())...), nil
	}
	switch {
	case !c.Resume.IsZero():
		where := s.on(t.ID)
		if at != "" {
			where = append(where, graph.From(at))
		}
		snap, err := g.State(keep, where...)
		if err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
			return nil, err
		}
		answer, asked := answerOf(snap, c.Resume.raw)
		if !asked { // a breakpoint, or nothing: it goes on
			return g.Stream(ctx, c.Update, opts...), nil
		}
		return g.StreamResume(ctx, answer, c.Update, opts...), nil
	case c.Goto.set():
		to, err := c.Goto.command(g)
		if err != nil {
			return nil, err
		}
		update := c.Update
		if update == nil {
			update = json.RawMessage("{}")
		}
		return g.Stream(ctx, update, append(opts, graph.StartAt(to))...), nil
	default:
		return g.Stream(ctx, c.Update, opts...), nil
	}
}

// answerOf returns the answers in the engine's words: by the IDs of questions, or
// one for the only question. It reports whether anything is asked.
func answerOf(snap *anygraph.Snapshot, raw json.RawMessage) (answer any, asked bool) {
	var ids []string
	if snap != nil {
		for _, q := range snap.Interrupts {
			if q.When == "inside" {
				ids = append(ids, q.ID)
			}
		}
	}
	if len(ids) == 0 {
		return nil, false
	}
	var o object
	if json.Unmarshal(raw, &o) == nil && len(o) > 0 {
		answers, known := graph.Answers{}, true
		for id, v := range o {
			known = known && slices.Contains(ids, id)
			answers[id] = v
		}
		if known {
			return answers, true
		}
	}
	return raw, true
}

// runOptions returns the options of a run that follow from configurations: those
// of the assistant, the thread and the request, of which later ones win.
func (s *Server) runOptions(run *db.Run, a *db.Assistant, t *db.Thread, g *served, b *runBody) ([]graph.Option, error) {
	var ofAssistant, ofThread runConfig
	if err := errors.Join(json.Unmarshal(a.Config, &ofAssistant), json.Unmarshal(t.Config, &ofThread)); err != nil {
		return nil, err
	}
	configured := b.Headers.with(ofAssistant.Configurable, ofThread.Configurable, b.Config.Configurable, objectOf(a.Context), b.Context)
	own := object{
		"run_id": jsonText(run.ID), "thread_id": jsonText(t.ID), "graph_id": jsonText(g.name), "assistant_id": jsonText(a.ID),
	}
	configured, err := configuredUser(configured.with(own), run.User)
	if err != nil {
		return nil, err
	}
	opts := s.on(t.ID)
	for k, v := range configured {
		opts = append(opts, graph.Configure(k, v))
	}
	opts = append(opts, metadataOptions(objectOf(run.Metadata).with(own))...)
	for _, limit := range []int{ofAssistant.RecursionLimit, ofThread.RecursionLimit, b.Config.RecursionLimit} {
		if limit > 0 {
			opts = append(opts, graph.MaxSteps(limit))
		}
	}
	if len(b.InterruptBefore) > 0 {
		opts = append(opts, graph.InterruptBefore(b.InterruptBefore...))
	}
	if len(b.InterruptAfter) > 0 {
		opts = append(opts, graph.InterruptAfter(b.InterruptAfter...))
	}
	switch b.Durability {
	case "async":
		opts = append(opts, graph.WithDurability(graph.Async))
	case "exit":
		opts = append(opts, graph.WithDurability(graph.Exit))
	}
	return opts, nil
}

// conclude notes what came of a run, and ends its log.
func (s *Server) conclude(ctx context.Context, run *db.Run, b *runBody, g *served, log *outlet, failure error, why stop, enc ...*encoder) error {
	if why == stopRollback {
		err := s.rollBack(ctx, run, g, log)
		if err == nil {
			s.metrics.ended(run, rolledBack)
		}
		return err
	}
	var snap *anygraph.Snapshot
	var err error
	if g != nil {
		if snap, err = g.State(ctx, s.on(run.ThreadID)...); errors.Is(err, checkpoint.ErrNotFound) {
			snap, err = nil, nil
		}
		if err != nil && failure == nil {
			failure = err
		}
	}
	status, told := db.Success, (*db.RunError)(nil)
	switch {
	case why == stopInterrupt:
		status = db.Interrupted
	case failure != nil:
		status, told = db.Failed, errorOf(failure)
		if errors.Is(failure, context.DeadlineExceeded) {
			status = db.Timeout
		}
		s.log.Info("server: a run failed", "run", run.ID, "thread", run.ThreadID, "error", failure)
	case snap != nil && !snap.Done():
		status = db.Interrupted
	}
	outcome := json.RawMessage("null")
	if told != nil {
		data, _ := json.Marshal(told) // of strings
		outcome = object{"__error__": data}.raw()
	} else if snap != nil {
		outcome = withInterrupts(snap.State, stateOf(snap).Interrupts)
	}
	log.end()
	for _, e := range enc {
		e.end(snap, told)
	}
	if len(enc) == 0 && told != nil {
		data, _ := json.Marshal(told)
		log.send("error", data)
	}
	if err := log.store(outcome); err != nil && !errors.Is(err, db.ErrNotFound) {
		return err
	}
	if err := s.settleRun(ctx, run, status, snap, told); err != nil {
		return err
	}
	done, err := s.db.UpdateRun(ctx, run.ID, s.instance, func(r *db.Run) error {
		r.Status, r.Error, r.UpdatedAt, r.EndedAt = status, told, now(), now()
		return nil
	})
	switch {
	case err == nil:
		run = done
	case errors.Is(err, db.ErrNotFound): // it went with its thread
		run.Status, run.Error, run.EndedAt = status, told, now()
	default:
		return err
	}
	s.metrics.ended(run, status)
	s.notify(ctx, run, b, outcome)
	log.live.end(status, snap, told)
	log.close(outcome)
	return nil
}

// settleRun notes on a thread what came of a run, or removes the thread if it was
// made for the run.
func (s *Server) settleRun(ctx context.Context, run *db.Run, status string, snap *anygraph.Snapshot, told *db.RunError) error {
	t, err := s.db.Thread(ctx, run.ThreadID)
	if errors.Is(err, db.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if t.Temporary {
		if err := s.store.Delete(ctx, checkpoint.ThreadID(t.ID)); err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
			return err
		}
		if err := s.db.DeleteThread(ctx, t.ID); err != nil && !errors.Is(err, db.ErrNotFound) {
			return err
		}
		return nil
	}
	open, err := s.db.OpenRuns(ctx, t.ID)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(open, func(r *db.Run) bool { return r.ID != run.ID }) { // the thread stays busy
		return nil
	}
	if status == db.Interrupted && told == nil && snap != nil && len(snap.Interrupts) == 0 && len(snap.Next) > 0 {
		snap = nil // cancelled: nothing waits for anybody
	}
	return s.settle(ctx, t.ID, snap, told)
}

// rollBack makes a thread what it was before a run, and removes the run.
func (s *Server) rollBack(ctx context.Context, run *db.Run, g *served, log *outlet) error {
	head, err := s.store.Head(ctx, checkpoint.Log{Thread: checkpoint.ThreadID(run.ThreadID)})
	if err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
		return err
	}
	switch {
	case head == nil || string(head.ID) == run.Base || g == nil: // it wrote nothing, or can't be told from others
	case run.Base == "":
		if err := s.store.Delete(ctx, checkpoint.ThreadID(run.ThreadID)); err != nil {
			return err
		}
	default:
		if _, err := g.Fork(ctx, run.Base, s.on(run.ThreadID)...); err != nil {
			return fmt.Errorf("rolling back: %w", err)
		}
		_, err := s.db.UpdateThread(ctx, run.ThreadID, func(t *db.Thread) error {
			t.RolledBack = append(t.RolledBack, run.ID)
			return nil
		})
		if err != nil && !errors.Is(err, db.ErrNotFound) {
			return err
		}
	}
	if err := s.db.DeleteRun(ctx, run.ID); err != nil && !errors.Is(err, db.ErrNotFound) {
		return err
	}
	err = s.release(ctx, run.ThreadID)
	log.live.end(db.Interrupted, nil, nil)
	log.close(nil)
	return err
}

// errorOf says what clients are told about why a run failed: the name of the
// error's type, and its text.
func errorOf(err error) *db.RunError {
	if e, ok := errors.AsType[*graph.StepLimitError](err); ok {
		return &db.RunError{Error: "GraphRecursionError", Message: e.Error()}
	}
	if f, ok := errors.AsType[*fault](err); ok {
		return &db.RunError{Error: "InvalidRequest", Message: f.text}
	}
	cause := err
	if e, ok := errors.AsType[*graph.NodeError](err); ok && e.Unwrap() != nil {
		cause = e.Unwrap()
	}
	name := reflect.TypeOf(cause).String()
	name = name[strings.LastIndexByte(name, '.')+1:]
	switch name {
	case "errorString", "wrapError", "wrapErrors", "joinError":
		name = "Error"
	}
	return &db.RunError{Error: name, Message: cause.Error()}
}
