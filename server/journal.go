package server

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/server/internal/db"
)

// endEvent is the last event of a run that is stored; its data is what waiting
// for the run returns. Clients don't see it.
const endEvent = "__end__"

// journal stores what a run sends, so that other instances can pass it on, and
// this one's successor after it was killed.
type journal struct {
	base   *base
	run    *db.Run
	events *batcher[db.Event]

	mu   sync.Mutex
	step step[db.Event]
	next int // number of the next event
}

func (s *executor) newJournal(ctx context.Context, run *db.Run) (*journal, error) {
	next, err := s.db.NextEvent(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	store := func(ctx context.Context, some []db.Event) error {
		err := s.db.AddEvents(ctx, run.ID, s.instance, some)
		if err == nil {
			s.streams.tell(run.ID)
		}
		return err
	}
	gaveUp := func(ctx context.Context, err error) {
		s.log.LogAttrs(ctx, slog.LevelWarn, "server: events of a run could not be stored", slog.String("run", run.ID), slog.Any("error", err))
	}
	return &journal{base: s.base, run: run, next: next, events: newBatcher(ctx, 0, store, gaveUp)}, nil
}

// send adds an event.
func (j *journal) send(event string, data []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if e := (db.Event{Event: event, Data: data}); !j.step.take(e) {
		j.add(e)
	}
}

// add is called with the lock held.
func (j *journal) add(events ...db.Event) {
	for i := range events {
		events[i].Seq = j.next
		j.next++
	}
	j.events.put(events...)
}

func (j *journal) beginStep(checkpoint string) {
	j.endStep()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.step.begin(checkpoint)
}

func (j *journal) endStep() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if held, of := j.step.end(); len(held) > 0 {
		held[len(held)-1].Told = of
		j.add(held...)
	}
}

func (j *journal) tellFrom(but map[string]bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.step.but = but
}

// toldOf is known always: a run that has a journal had one from its beginning.
func (j *journal) toldOf(ctx context.Context) (string, bool, error) {
	at, err := j.base.db.LastTold(ctx, j.run.ID)
	if at == "" {
		at = begunAt(j.run)
	}
	return at, true, err
}

// logOf returns the log of a run, and begins to follow what is stored of it if
// this instance has none. It is nil for a run of which nothing is left.
func (s *runs) logOf(ctx context.Context, run *db.Run) (*runLog, error) {
	if l := s.streams.get(run.ID); l != nil {
		return l, nil
	}
	if run.Ended() {
		n, err := s.db.NextEvent(ctx, run.ID)
		if err != nil || n == 0 {
			return nil, err
		}
	}
	l, first := s.streams.follow(run)
	if first {
		s.beside.Go(func() { s.followStored(s.besideCtx, run.ID, run.ThreadID, l) })
	}
	return l, nil
}

const (
	followPage = 500                   // events read at once
	followPoll = 50 * time.Millisecond // how often others' events are looked for
	ownPoll    = time.Second           // and one's own, which one is told of
)

// followStored passes on what is stored of a run until its end.
func (s *runs) followStored(ctx context.Context, id, thread string, l *runLog) {
	defer l.breakOff() // without effect after its end
	var outcome json.RawMessage
	for next, idle := 0, 0; ; {
		last := s.streams.over() // what is stored by now is passed on
		// What the run is comes first: what it sent before it ended is stored by then.
		run, err := s.db.Run(ctx, id)
		over := errors.Is(err, db.ErrNotFound) || err == nil && run.Ended()
		events, failed := s.db.Events(ctx, id, next, followPage)
		if failed != nil || err != nil && !over {
			if ctx.Err() != nil || last {
				return
			}
			s.log.LogAttrs(ctx, slog.LevelWarn, "server: events of a run could not be read", slog.String("run", id), slog.Any("error", errors.Join(err, failed)))
			over = false
		}
		for _, e := range events {
			next = e.Seq + 1
			if e.Event == endEvent {
				outcome = json.RawMessage(e.Data)
				continue
			}
			l.sendAt(e.Seq, e.Event, e.Data)
		}
		switch {
		case len(events) > 0:
			idle = 0
			continue
		case over:
			if outcome == nil {
				if _, err := s.db.Thread(ctx, thread); errors.Is(err, db.ErrNotFound) {
					l.closeRemoved(thread)
				}
			}
			l.close(outcome)
			return
		case last:
			return
		}
		idle++
		poll := min(time.Duration(idle)*followPoll/5, followPoll)
		if run != nil && s.dispatcher.has(run.ThreadID) {
			poll = ownPoll
		}
		wait := time.NewTimer(poll)
		select {
		case <-l.told:
		case <-wait.C:
		case <-s.streams.ending:
		case <-ctx.Done():
			wait.Stop()
			return
		}
		wait.Stop()
	}
}

// outlet is where a run's events go: into the database if others may want to read
// them, else into this process's memory alone.
type outlet struct {
	log     *runLog   // or
	journal *journal  // is there
	tell    func()    // says that the run is over
	live    *live     // tells of the run to those who follow its thread
	joined  *lateLine // and to those who have joined it

	ending bool   // what is sent now is for when the run was noted as over
	held   []sent // of it
}

// end holds back what is sent from now on until the run was noted as over: whoever
// reads that a thread waits may write to it at once.
func (o *outlet) end() { o.ending = true }

// attemptIDs is more than an attempt has events.
const attemptIDs = 1_000_000_000

func (s *executor) outlet(ctx context.Context, run *db.Run, b *runBody) (*outlet, error) {
	if b.StreamResumable || s.db.Shared() {
		j, err := s.newJournal(ctx, run)
		return &outlet{journal: j, tell: func() { s.streams.tell(run.ID) }}, err
	}
	log := s.streams.open(run)
	// The IDs of events that were lost with another process are not given again.
	log.begin((run.Attempt - 1) * attemptIDs)
	return &outlet{log: log}, nil
}

func (o *outlet) send(event string, data []byte) {
	switch {
	case o.ending:
		o.held = append(o.held, sent{event, data})
	case o.journal != nil:
		o.journal.send(event, data)
	default:
		o.log.send(event, data)
	}
}

// steps returns what of the outlet takes the run superstep by superstep.
func (o *outlet) steps() allSteps {
	all := stepsOf(o.live.line)
	if o.joined.feeds.db != nil {
		all = append(all, o.joined)
	}
	if o.journal != nil {
		all = append(all, o.journal)
	}
	return all
}

// rest returns what is to be stored together with noting that the run is over: what
// isn't stored yet of what was sent, and what waiting for the run returns.
func (o *outlet) rest(outcome json.RawMessage) ([]db.Event, error) {
	if o.journal == nil {
		return nil, nil
	}
	for _, ev := range o.held {
		o.journal.send(ev.event, ev.data)
	}
	o.journal.send(endEvent, outcome)
	return o.journal.events.leave()
}

// close ends the log of a run that was noted as over.
func (o *outlet) close(outcome json.RawMessage) {
	if o.journal != nil {
		o.tell()
		return
	}
	for _, ev := range o.held {
		o.log.send(ev.event, ev.data)
	}
	o.log.close(outcome)
}

// breakOff ends the log of a run that goes on elsewhere.
func (o *outlet) breakOff() {
	if o.journal != nil {
		_ = o.journal.events.close() // which has said what is wrong
	} else {
		o.log.breakOff()
	}
}
