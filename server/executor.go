package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/token"
	"iter"
	"log/slog"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/agent/calls"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/engine"
	"github.com/superstep-dev/superstep/fleet"
	"github.com/superstep-dev/superstep/fleet/bus"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/tracecontext"
	"github.com/superstep-dev/superstep/server/internal/db"
)

// executor executes one run after the other, on behalf of the dispatcher.
type executor struct {
	*base
	states   *states
	threads  *threads
	hooks    *hooks
	draining <-chan struct{}
	fleet    fleet.Dispatcher // nil: runs are done here
	bus      bus.Bus          // for the dispatcher's workers
}

// begun is a run that works on its thread, with what the thread was when it began.
type begun struct {
	run    *db.Run
	thread *db.Thread         // nil: it is being removed
	head   *checkpoint.Record // nil: it has none
	failed error              // why the head can't be read
}

// execution is one run at work.
type execution struct {
	*executor
	active *activeRun
	keep   context.Context // what has happened is noted even when the run is cancelled
	run    *db.Run
	body   runBody
	of     *prepared // nil: it can't be run
	graph  *served   // nil: there is none
	head   *checkpoint.Record
	resume bool       // it goes on where it was when its process ended
	last   *lastWrite // on which it works; nil: on the server's store
	line   *line
	live   *live
	enc    *encoder // nil: it has told nothing
	used   runUsage
}

// execute runs a run that has begun, sends what happens to its log, and notes what came of
// it. The error is that of noting.
func (s *executor) execute(a *activeRun, of *begun) error {
	x := &execution{executor: s, active: a, keep: context.WithoutCancel(a.ctx), run: of.run, head: of.head}
	x.last = s.lastWrite(x.run)
	defer x.last.end(x.keep)
	err := errors.Join(json.Unmarshal(of.run.Kwargs, &x.body), of.failed)
	line, failed := s.line(x.keep, x.run, &x.body)
	if failed != nil {
		return failed
	}
	defer line.end()
	x.line, x.live = line, newLive(line)
	var assistant *db.Assistant
	if err == nil {
		assistant, x.graph, err = s.findAssistant(x.keep, x.run.AssistantID)
	}
	if of.thread == nil {
		a.stopAs(stopRemoved) // as it was asked to, or will be
	}
	if db.Outage(err) {
		return err
	}
	if err == nil && a.stopped() == stopNone {
		x.of, err = prepare(a.ctx, x.run, assistant, of.thread, x.graph, &x.body)
	}
	if why := a.stopped(); err != nil || why != stopNone {
		return x.conclude(err, why)
	}
	// It goes on if it had begun.
	x.resume = x.run.Attempt > 1 && x.head != nil && x.head.Metadata["run_id"] == x.run.ID
	return x.work()
}

// work has the run's graph run, tells of it, and notes what came of it.
func (x *execution) work() error {
	a, line, live, thread := x.active, x.line, x.live, x.of.thread
	enc := newEncoder(&x.body, about{run: x.run, assistant: x.of.assistant, graph: x.graph.name, tags: x.body.Config.Tags}, line.stream)
	enc.moment = func(ns, id string, nested bool) (*threadState, error) {
		return x.states.momentAt(x.keep, thread, x.graph, ns, id, nested)
	}
	x.enc = enc
	passed := passage{store: x.store, thread: thread.ID, known: map[string]string{}}
	line.track.messages = enc.talks() || live.told
	enc.metadata()
	err := live.begin(x.keep, x.graph, &x.body)
	if err == nil {
		err = enc.begin(&x.body)
	}
	if at := x.of.began(); at != "" && err == nil {
		var shown bool
		if passed.of, shown, err = originOf(x.keep, x.on(x.graph), thread, at); shown {
			passed.began = at
		}
	}
	var catchUp []graph.StreamOption
	if x.resume && err == nil {
		if catchUp, err = line.catchUp(x.keep, x.graph); db.Outage(err) {
			return err
		}
	}
	events := 0
	ctx := calls.Heard(a.ctx, x.used.add)
	for queue := x.resume; err == nil; {
		var seq iter.Seq2[graph.Event, error]
		opts := append(catchUp, graph.Modes(line.wants(enc.wants()|live.wants())))
		if queue {
			opts = append(opts, graph.WhenBusy(graph.BusyQueue))
		}
		if seq, err = x.call(ctx, x.by(x.of.own, enc.subgraphs || live.told), opts); err != nil {
			break
		}
		for ev, failure := range identified(line.together(seq)) {
			if failure != nil {
				err = failure
				break
			}
			events++
			if x.last.any() {
				line.holdBack()
			}
			if ev.Type == graph.EventCheckpoint {
				if err = passed.show(x.keep, &ev); err != nil {
					break
				}
			}
			line.before(ev)
			told := line.track.event(ev)
			if err = errors.Join(enc.event(told), live.event(told)); err != nil {
				break
			}
			line.after(ev)
		}
		if errors.Is(err, checkpoint.ErrNotFound) && events == 0 && catchUp != nil { // it was pruned meanwhile
			catchUp, err = nil, nil
			continue
		}
		// No other run of the thread works: so it is one of a process that has died,
		// whose claim on the thread ends in a moment.
		if !errors.Is(err, graph.ErrThreadBusy) || queue || events > 0 {
			break
		}
		queue, err = true, nil
	}
	why := a.stopped()
	if err != nil && why == stopNone && (errors.Is(err, graph.ErrDrained) || errors.Is(context.Cause(ctx), graph.ErrDrained)) {
		return nil // clients come back for the rest
	}
	if why == stopNone && x.run.Attempt < maxAttempts && outage(err) {
		if holds, failed := x.db.Holds(x.keep, x.run.ID, x.instance); failed == nil && !holds {
			return db.ErrTaken
		}
		return fmt.Errorf("it goes on: %w", err)
	}
	return x.conclude(err, why)
}

// maxAttempts is how often a run is begun again because the database failed.
const maxAttempts = 100

// outage reports whether a run ended because the server's database or its dispatcher did
// not answer, rather than by what its nodes did.
func outage(err error) bool {
	if _, ok := errors.AsType[*fleet.DispatchError](err); ok {
		return true
	}
	_, node := errors.AsType[*graph.NodeError](err)
	return !node && db.Outage(err)
}

// head returns the newest checkpoint of a thread; nil if there is none.
func (s *base) head(ctx context.Context, thread string) (*checkpoint.Record, error) {
	head, _, err := s.store.Head(ctx, checkpoint.Log{Thread: checkpoint.ThreadID(thread)})
	if errors.Is(err, checkpoint.ErrNotFound) {
		return nil, nil
	}
	return head, err
}

// claim makes a run the one that works on its thread. The run may have been asked to stop
// before. With [db.ErrBusy] it isn't its turn.
func (s *executor) claim(a *activeRun, run *db.Run) (*begun, error) {
	ctx := context.WithoutCancel(a.ctx)
	head, failed := s.head(ctx, run.ThreadID)
	if failed != nil && db.Outage(failed) {
		return nil, failed
	}
	first := !run.Begun
	run, thread, err := s.db.BeginRun(ctx, run.ID, run.ThreadID, s.instance, func(r *db.Run, why int) {
		a.stopAs(stop(why))
		begins(r, head)
	})
	if err != nil {
		return nil, err
	}
	of := &begun{run, thread, head, failed}
	if first {
		err = s.rebase(ctx, of)
	}
	return of, err
}

// begins notes of a run that it begins, once more perhaps, and to which checkpoint a
// rollback returns.
func begins(r *db.Run, head *checkpoint.Record) {
	r.UpdatedAt = now()
	r.Attempt++
	if !r.Begun {
		r.Begun, r.StartedAt, r.Base = true, r.UpdatedAt, baseOf(head)
	}
}

func baseOf(head *checkpoint.Record) string {
	if head == nil {
		return ""
	}
	return string(head.ID)
}

// rebase is for a run that has begun for the first time: another instance's run may have
// worked on the thread since its head was read.
func (s *executor) rebase(ctx context.Context, of *begun) error {
	if !s.db.Shared() {
		return nil
	}
	newest, err := s.head(ctx, of.run.ThreadID)
	if err != nil || baseOf(newest) == of.run.Base {
		return err
	}
	of.run, err = s.db.UpdateRun(ctx, of.run.ID, s.instance, func(r *db.Run) error {
		r.Base = baseOf(newest)
		return nil
	})
	return err
}

// call begins what the run asks for.
func (x *execution) call(ctx context.Context, g via, more []graph.StreamOption) (iter.Seq2[graph.Event, error], error) {
	b, t := &x.body, x.of.thread
	opts := append(slices.Clip(more), graph.Buffer(64), graph.Drain(x.draining))
	for _, o := range x.of.options(x.each) {
		opts = append(opts, o)
	}
	thread := x.on(g.served)
	ctx = tracecontext.With(ctx, b.Trace)
	if x.resume {
		return g.resume(ctx, thread, opts), nil
	}
	at, err := b.Checkpoint.id()
	if err != nil {
		return nil, err
	}
	if thread, err = x.states.at(x.keep, thread, t.ID, "", at); err != nil {
		return nil, err
	}
	c := b.Command
	if c == nil {
		if isNull(b.Input) {
			return g.stream(ctx, thread, g.Continue(), opts), nil
		}
		if x.dialogue != nil && g.served == x.dialogue.served { // which takes messages one after another
			return g.stream(ctx, thread, g.Input(graph.UpdateWith(b.Input)), opts), nil
		}
		return g.stream(ctx, thread, g.Restart(graph.UpdateWith(b.Input)), opts), nil
	}
	switch {
	case !c.Resume.IsZero():
		snap, err := thread.State(x.keep)
		if err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
			return nil, err
		}
		answer, asked := answerOf(snap, c.Resume.raw)
		if !asked { // a breakpoint, or nothing: it goes on
			return g.stream(ctx, thread, g.Input(graph.UpdateWith(c.Update)).AsUpdate(), opts), nil
		}
		return g.stream(ctx, thread, g.Answer(answer, graph.UpdateWith(c.Update)), opts), nil
	case c.Goto.set():
		to, err := c.Goto.command(g.served)
		if err != nil {
			return nil, err
		}
		return g.stream(ctx, thread, g.Restart(graph.UpdateWith(c.Update), to).AsUpdate(), opts), nil
	default:
		return g.stream(ctx, thread, g.Input(graph.UpdateWith(c.Update)).AsUpdate(), opts), nil
	}
}

// answerOf returns the answers in the engine's words: by the IDs of questions, or
// one for the only question. It reports whether anything is asked.
func answerOf(snap *snapshot, raw json.RawMessage) (answer any, asked bool) {
	var ids []string
	if snap != nil {
		for _, q := range snap.Interrupts {
			if q.When == "inside" {
				ids = append(ids, q.ID)
			}
		}
	}
	var o object
	if json.Unmarshal(raw, &o) == nil && len(o) > 0 {
		answers, known, named := graph.Answers{}, true, true
		for id, v := range o {
			known = known && slices.Contains(ids, id)
			named = named && questionID.MatchString(id)
			answers[id] = v
		}
		if known || named && len(ids) == 0 { // answers to questions that are no longer open are refused
			return answers, true
		}
	}
	return raw, len(ids) > 0
}

// questionID is what IDs of questions look like, here and in LangGraph.
var questionID = regexp.MustCompile("^[0-9a-f]{32}$")

// conclude notes what came of the run, and tells of it.
func (x *execution) conclude(failure error, why stop) error {
	ctx, run, g := x.keep, x.run, x.graph
	if why == stopRollback {
		if holds, err := x.db.Holds(ctx, run.ID, x.instance); err == nil && !holds {
			return db.ErrTaken
		}
		err := x.last.flush(ctx)
		if err == nil || engine.Agreed(err) {
			err = x.rollBack()
		}
		if err == nil {
			x.metrics.ended(run, rolledBack)
		}
		return err
	}
	var snap *snapshot
	var err error
	readable := false
	if g != nil {
		if snap, err = x.on(g).State(ctx); errors.Is(err, checkpoint.ErrNotFound) {
			snap, err = nil, nil
		}
		if db.Outage(err) {
			return err
		}
		if readable = err == nil; !readable && failure == nil {
			failure = err
		}
	}
	var output json.RawMessage
	if snap != nil {
		if output, err = wholeMessages(snap.OutputJSON()); err != nil && failure == nil {
			failure = err
		}
	}
	status, told := db.Success, (*db.RunError)(nil)
	switch {
	case why == stopInterrupt || why == stopRemoved:
		status = db.Interrupted
	case failure != nil:
		status, told = db.Failed, errorOf(failure)
		if errors.Is(failure, context.DeadlineExceeded) {
			status = db.Timeout
		}
		x.logFailure(ctx, run, failure)
	case snap != nil && !snap.Done():
		status = db.Interrupted
	}
	outcome := json.RawMessage("null")
	said := told
	if why == stopRemoved {
		said = removed(run.ThreadID)
	}
	if said != nil {
		data, _ := json.Marshal(said) // of strings
		outcome = object{"__error__": data}.raw()
	} else if snap != nil {
		outcome = withInterrupts(output, stateOf(snap, false).Interrupts)
	}
	x.line.hold()
	last := x.line.track.end()
	if x.enc != nil {
		x.enc.end(last, snap, said)
	} else if said != nil {
		data, _ := json.Marshal(said)
		x.line.stream("error", data)
	}
	if err := x.live.end(ctx, last, status, snap, told); err != nil {
		return err
	}
	x.line.tell(endOf(run.ID, outcome))
	shown := snap
	waits := snap != nil && len(snap.Waits) > 0 && told == nil // it goes on by itself
	if status == db.Interrupted && told == nil && snap != nil && len(snap.Interrupts) == 0 && len(snap.Next) > 0 && !waits {
		shown = nil // cancelled: nothing waits for anybody
	}
	settle := settled(shown, told)
	if _, refused := errors.AsType[*graph.AnswerError](failure); refused {
		settle = settled(snap, nil) // the thread waits as it did
	}
	if readable {
		settle = settledSaying(g, snap, settle)
	}
	used, cost, err := x.usageOf(ctx, run, &x.used)
	if db.Outage(err) {
		return err
	}
	if err != nil { // what the run came to stands for all that
		x.log.LogAttrs(ctx, slog.LevelWarn, "server: what the models of a run used can't be read", slog.String("run", run.ID), slog.String("thread", run.ThreadID), slog.Any("error", err))
	}
	ended := func(r *db.Run) {
		r.Status, r.Error, r.UpdatedAt, r.EndedAt, r.Usage, r.Cost = status, told, now(), now(), used, cost
	}
	ended(run)
	end := db.End{Now: now(), Settle: settle, Webhook: webhookOf(run, &x.body, outcome, traceOf(run, &x.body, snap)), Waits: waits}
	if x.last != nil {
		end.Last = x.last.storeIn
	}
	var remove time.Time
	err = x.line.conclude(func(rest []db.FeedEvent) (err error) {
		end.Events = rest
		_, remove, err = x.db.FinishRun(ctx, run.ID, run.ThreadID, x.instance, end, ended)
		if !errors.Is(err, db.ErrNotFound) {
			return err
		}
		if end.Webhook != nil { // it went with its thread
			return x.db.AddWebhook(ctx, end.Webhook)
		}
		return nil
	})
	if engine.Agreed(err) { // others have written to the thread: nothing is told of what they refuse
		x.line.last = nil
		return x.conclude(fmt.Errorf("%w: %w", graph.ErrThreadBusy, err), why)
	}
	if err != nil {
		return err
	}
	if !remove.IsZero() {
		err := x.threads.eraseThread(ctx, run.ThreadID, remove, true)
		if err != nil && !errors.Is(err, db.ErrNotFound) { // which is tried again
			x.log.LogAttrs(ctx, slog.LevelWarn, "server: the thread of a run could not be removed", slog.String("thread", run.ThreadID), slog.Any("error", err))
		}
	}
	x.metrics.ended(run, status)
	if end.Webhook != nil {
		x.hooks.wake()
	}
	return nil
}

// logFailure logs why a run failed. A panic is a mistake in the program, of which the
// stack tells where.
func (s *executor) logFailure(ctx context.Context, run *db.Run, failure error) {
	attrs := []slog.Attr{
		slog.String("run", run.ID), slog.String("thread", run.ThreadID), slog.String("graph", textOf(objectOf(run.Metadata)["graph_id"])),
	}
	if e, ok := errors.AsType[*graph.NodeError](failure); ok {
		attrs = append(attrs, slog.String("node", strings.Join(slices.Concat(e.Path, []string{e.Node}), "/")))
	}
	attrs = append(attrs, slog.Any("error", failure))
	if p, ok := errors.AsType[*graph.PanicError](failure); ok {
		s.log.LogAttrs(ctx, slog.LevelError, "server: a node panicked", append(attrs, slog.String("stack", string(p.Stack)))...)
		return
	}
	s.log.LogAttrs(ctx, slog.LevelWarn, "server: a run failed", attrs...)
}

// rollBack makes the thread what it was before the run, and removes the run. It may be
// done again if the process dies in the middle.
func (x *execution) rollBack() error {
	ctx, run, g := x.keep, x.run, x.graph
	head, err := x.executor.head(ctx, run.ThreadID)
	if err != nil {
		return err
	}
	switch {
	case head == nil || string(head.ID) == run.Base || g == nil: // it wrote nothing, or can't be told from others
	case run.Base == "":
		if err := x.store.Delete(ctx, checkpoint.ThreadID(run.ThreadID)); err != nil {
			return err
		}
	default:
		if _, err := x.on(g).At(run.Base).Fork(ctx); err != nil {
			return fmt.Errorf("rolling back: %w", err)
		}
		_, err := x.db.UpdateThread(ctx, run.ThreadID, func(t *db.Thread) error {
			if !slices.Contains(t.RolledBack, run.ID) {
				t.RolledBack = append(t.RolledBack, run.ID)
			}
			return nil
		})
		if err != nil && !errors.Is(err, db.ErrNotFound) {
			return err
		}
	}
	x.line.hold()
	if err := x.live.end(ctx, x.line.track.end(), db.Interrupted, nil, nil); err != nil {
		return err
	}
	x.line.tell(endOf(run.ID, nil))
	var snap *snapshot
	if g != nil {
		if snap, err = x.on(g).State(ctx); err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
			return err
		}
	}
	return x.line.conclude(func(rest []db.FeedEvent) error {
		return unlessGone(x.db.DropRun(ctx, run.ID, run.ThreadID, x.instance, db.End{Now: now(), Settle: settledSaying(g, snap, settled(snap, nil)), Events: rest}))
	})
}

// errorOf says what clients are told about why a run failed: the name of the
// error's type, and its text.
func errorOf(err error) *db.RunError {
	if e, ok := errors.AsType[*graph.LimitError](err); ok && e.Of == "supersteps" {
		return &db.RunError{Error: "GraphRecursionError", Message: e.Error()}
	}
	if f, ok := errors.AsType[*fault](err); ok {
		return &db.RunError{Error: "InvalidRequest", Message: f.text}
	}
	cause := err
	if e, ok := errors.AsType[*graph.NodeError](err); ok && e.Unwrap() != nil {
		cause = e.Unwrap()
	}
	name, _, _ := strings.Cut(reflect.TypeOf(cause).String(), "[")
	name = name[strings.LastIndexByte(name, '.')+1:]
	if !token.IsExported(name) { // which says nothing to clients
		name = "Error"
	}
	return &db.RunError{Error: name, Message: cause.Error()}
}
