package server

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"sync/atomic"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server/internal/db"
)

// line is where a run tells what happens in it: in the feed of its thread. It is used by
// one goroutine.
//
// What must be there for other instances, or for this one's successor after it was
// killed, is stored before it is shown. A superstep is committed first, and then told of.
// When a process dies in between, or loses its database, whoever goes on with the run
// tells of it: what is told of one superstep is stored together, with the checkpoint that
// it is of.
type line struct {
	base     *base
	run      *db.Run
	followed bool                   // those who follow the thread are told, from the beginning
	feed     *feed                  // nil: nobody reads it here, or only what is stored
	events   *batcher[db.FeedEvent] // nil: nothing is stored
	awaited  atomic.Bool            // somebody follows, as far as is known
	waiting  int                    // bytes that were put since events were urged
	leave    []func()
	track    *tracker

	nth  int64          // of the next event that the run streams
	step bool           // what is told now is of a superstep
	held []db.FeedEvent // of it
	of   string         // its checkpoint

	ending bool           // what is told now is for when the run was noted as over
	last   []db.FeedEvent // of that
}

const (
	maxTold   = 10_000  // events may wait to be stored until the run waits for them
	ofAttempt = 1 << 32 // from one attempt to the next, events of a run have greater numbers
	maxUnread = 1 << 20 // bytes of events may wait to be stored if nobody reads them
)

// line begins to tell of a run: to those who follow its thread if a command started it, or
// if somebody follows when it begins.
func (s *executor) line(ctx context.Context, run *db.Run, b *runBody) (*line, error) {
	l := &line{base: s.base, run: run, followed: b.V2 != nil, track: newTracker(), nth: int64(max(run.Attempt-1, 0)) * ofAttempt}
	var err error
	if !l.followed {
		if l.followed, err = s.feeds.followed(ctx, run.ThreadID); err != nil {
			return nil, err
		}
	}
	if !s.feeds.shared {
		if l.feed, err = s.feeds.open(ctx, run.ThreadID); err != nil && !errors.Is(err, errClosing) {
			return nil, err
		}
		if l.feed != nil {
			l.leave = append(l.leave, l.feed.tells(run))
		}
	}
	if b.StreamResumable || s.feeds.shared {
		l.awaited.Store(l.followed)
		l.events = newBatcher(ctx, maxTold, l.store, l.read, func(ctx context.Context, err error) {
			if errors.Is(err, db.ErrTaken) || errors.Is(err, db.ErrNotFound) {
				return // another instance tells of it now, or it was removed
			}
			s.log.LogAttrs(ctx, slog.LevelWarn, "server: what a run tells could not be stored", slog.String("run", run.ID), slog.Any("error", err))
		})
		l.leave = append(l.leave, func() { _ = l.events.close() }) // which has said what is wrong
		l.leave = append(l.leave, s.feeds.stores(run.ThreadID, l))
	}
	return l, nil
}

func (l *line) store(ctx context.Context, some []db.FeedEvent) error {
	return l.number(some, func(some []db.FeedEvent) error {
		followed, err := l.base.db.AddFeed(ctx, l.run.ThreadID, l.run.ID, l.base.instance, true, some)
		if followed {
			l.awaited.Store(true)
		}
		return err
	})
}

// read reports whether somebody reads what is stored: here, or elsewhere by following.
func (l *line) read() bool { return l.awaited.Load() || l.base.feeds.read(l.run.ThreadID) }

// number has events stored by a function and shows them.
func (l *line) number(some []db.FeedEvent, store func([]db.FeedEvent) error) error {
	if l.feed != nil {
		return l.feed.store(some, store)
	}
	err := store(some)
	if err == nil && len(some) > 0 {
		l.base.feeds.stored(l.run.ThreadID, some)
	}
	return err
}

// end says that the run is over, or goes on elsewhere, for this process.
func (l *line) end() {
	for i := range l.leave {
		l.leave[len(l.leave)-1-i]()
	}
	l.leave = nil
}

// tell tells of an event.
func (l *line) tell(ev db.FeedEvent) {
	ev.Run = l.run.ID
	switch {
	case l.ending:
		l.last = append(l.last, ev)
	case l.step:
		l.held = append(l.held, ev)
	default:
		l.put(ev)
	}
}

func (l *line) put(events ...db.FeedEvent) {
	switch {
	case l.events != nil:
		l.events.put(events...)
		for i := range events {
			l.waiting += len(events[i].Data) + eventCost
		}
		if l.waiting > maxUnread {
			l.waiting = 0
			l.events.urge()
		}
	case l.feed != nil:
		l.feed.send(events...)
	}
}

// Channels of the first version's events: what clients may want of a thread's runs.
const (
	followRuns      = "run_modes"    // what the runs stream, and their ends
	followLifecycle = "lifecycle"    // where runs begin and end
	followState     = "state_update" // edits of the state from outside
)

// stream tells of what a run streams.
func (l *line) stream(event string, data []byte) {
	channel := followRuns
	if event == "metadata" {
		channel = followLifecycle
	}
	l.tell(db.FeedEvent{Nth: l.nth, Version: 1, Method: event, Channel: channel, Data: data})
	l.nth++
}

// endEvent is the last event of what a run streams; its data is what waiting for the run
// returns, if that is known. Those who stream the run don't see it.
const endEvent = "__end__"

// endOf returns the last event of a run.
func endOf(run string, outcome json.RawMessage) db.FeedEvent {
	return db.FeedEvent{Run: run, Version: 1, Method: endEvent, Channel: followLifecycle, Data: outcome}
}

// hold holds back what is told from now on until the run was noted as over: whoever reads
// that a thread waits may write to it at once.
func (l *line) hold() {
	l.endStep()
	l.ending = true
}

// holdBack is hold for a run that has just written its last checkpoint, which is stored
// with its end: what is told from now on is of that.
func (l *line) holdBack() {
	l.step, l.ending = false, true
	l.last, l.held = append(l.last, l.held...), nil
}

// conclude has the run noted as over by a function, together with what is still to be
// stored of it, and then shows that.
func (l *line) conclude(note func(rest []db.FeedEvent) error) error {
	rest := l.last
	if l.events == nil {
		return l.number(rest, func([]db.FeedEvent) error { return note(nil) })
	}
	pending, err := l.events.leave()
	if err != nil && !errors.Is(err, db.ErrNotFound) {
		return err
	}
	return l.number(append(pending, rest...), note)
}

// beginStep says that what comes until endStep is of one checkpoint.
func (l *line) beginStep(checkpoint string) {
	l.endStep()
	l.step, l.of = true, checkpoint
}

func (l *line) endStep() {
	if l.step = false; len(l.held) > 0 {
		l.held[len(l.held)-1].Told = l.of
		l.put(l.held...)
		l.held = nil
	}
}

// begunAt returns the checkpoint from which on a run is told of.
func begunAt(run *db.Run) string {
	var b struct {
		Checkpoint *checkpointRef `json:"checkpoint"`
	}
	if json.Unmarshal(run.Kwargs, &b) == nil {
		if at, err := b.Checkpoint.id(); err == nil && at != "" {
			return at
		}
	}
	return run.Base
}

// together yields events with what tasks of the root graph wrote after the checkpoint
// that commits it: what is told of a superstep is stored as one. What no checkpoint
// commits comes last.
func (l *line) together(seq iter.Seq2[graph.Event, error]) iter.Seq2[graph.Event, error] {
	if l.events == nil {
		return seq
	}
	return func(yield func(graph.Event, error) bool) {
		var wrote []graph.Event
		tell := func() bool {
			for len(wrote) > 0 {
				ev := wrote[0]
				if wrote = wrote[1:]; !yield(ev, nil) {
					return false
				}
			}
			return true
		}
		for ev, err := range seq {
			switch {
			case err != nil:
				if tell() {
					yield(ev, err)
				}
				return
			case ev.Type == graph.EventUpdate && len(ev.Path) == 0:
				wrote = append(wrote, ev)
				continue
			}
			commits := ev.Type == graph.EventCheckpoint && len(ev.Path) == 0 && ev.Source != string(checkpoint.SourceInterrupt)
			if !yield(ev, nil) || commits && !tell() {
				return
			}
		}
		tell()
	}
}

// before looks at an event that is then told of, after at one that was: so the events of
// a superstep stand between.
func (l *line) before(ev graph.Event) {
	if l.events != nil && ev.Type == graph.EventCheckpoint && len(ev.Path) == 0 && (ev.Source == string(checkpoint.SourceLoop) || ev.Source == string(checkpoint.SourceInput)) {
		l.beginStep(ev.Checkpoint)
	}
}

func (l *line) after(ev graph.Event) {
	if ev.Type == graph.EventValues && len(ev.Path) == 0 {
		l.endStep()
	}
}

// wants are the events by which supersteps are told apart.
func (l *line) wants(others graph.Mode) graph.Mode {
	const recorded = graph.ModeValues | graph.ModeUpdates | graph.ModeCheckpoints
	if l.events == nil || others&recorded == 0 {
		return others
	}
	return others | graph.ModeCheckpoints | graph.ModeValues
}

// catchUp returns the options that make a run, with which this process goes on, tell of
// what was recorded and not told of.
func (l *line) catchUp(ctx context.Context, g *served) ([]graph.StreamOption, error) {
	if l.events == nil {
		return nil, nil
	}
	told, err := l.base.db.LastTold(ctx, l.run.ThreadID, l.run.ID)
	if err != nil {
		return nil, err
	}
	if told == "" {
		told = begunAt(l.run)
	}
	newer := 0
	for e, err := range l.base.on(g, l.run.ThreadID).History(ctx, graph.HistoryQuery{}) {
		if err != nil {
			return nil, err
		}
		if e.Checkpoint == told {
			if newer == 0 {
				return nil, nil
			}
			return []graph.StreamOption{graph.Since(told)}, nil
		}
		newer++
	}
	if told != "" || newer == 0 { // it isn't of this line, or there is nothing
		return nil, nil
	}
	return []graph.StreamOption{graph.Since("")}, nil // nothing was told of a thread that was new
}
