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
// this one's successor after it was killed. It has a goroutine of its own: while
// it stores, what comes next is gathered.
type journal struct {
	s   *Server
	run *db.Run

	mu      sync.Mutex
	step    step[db.Event]
	next    int // number of the next event
	pending []db.Event
	over    bool
	rest    bool // what is pending is left to whoever ends the journal
	kick    chan struct{}
	closing chan struct{} // closed when it is over
	done    chan struct{}
	err     error // why nothing is stored any more
}

func (s *Server) newJournal(ctx context.Context, run *db.Run) (*journal, error) {
	next, err := s.db.NextEvent(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	j := &journal{s: s, run: run, next: next, kick: make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan struct{})}
	go j.write(context.WithoutCancel(ctx))
	return j, nil
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
	for _, e := range events {
		e.Seq = j.next
		j.next++
		j.pending = append(j.pending, e)
	}
	select {
	case j.kick <- struct{}{}:
	default:
	}
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
	at, err := j.s.db.LastTold(ctx, j.run.ID)
	if at == "" {
		at = begunAt(j.run)
	}
	return at, true, err
}

// close waits until all is stored.
func (j *journal) close() error {
	j.end(false)
	return j.err
}

// finish ends the journal, and returns what isn't stored yet.
func (j *journal) finish() ([]db.Event, error) {
	j.end(true)
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.pending, j.err
}

func (j *journal) end(rest bool) {
	j.mu.Lock()
	if !j.over {
		j.over, j.rest = true, rest
		close(j.closing)
	}
	j.mu.Unlock()
	<-j.done
}

// storeTries is how often a write is tried before a run's events are given up.
const storeTries = 5

// gather is how long events wait, after others were stored, for those that come
// next: every transaction has its price.
const gather = 10 * time.Millisecond

func (j *journal) write(ctx context.Context) {
	defer close(j.done)
	var stored time.Time
	for {
		select {
		case <-j.kick:
		case <-j.closing:
		}
		select {
		case <-time.After(gather - time.Since(stored)):
		case <-j.closing:
		}
		j.mu.Lock()
		some, over := j.pending, j.over
		if over && j.rest {
			j.mu.Unlock()
			return
		}
		j.pending = nil
		j.mu.Unlock()
		if len(some) > 0 && j.err == nil {
			j.err = j.store(ctx, some)
			stored = time.Now()
		}
		if over {
			return
		}
	}
}

func (j *journal) store(ctx context.Context, some []db.Event) error {
	for try := 1; ; try++ {
		err := j.s.db.AddEvents(ctx, j.run.ID, j.s.instance, some)
		if err == nil {
			j.s.streams.tell(j.run.ID)
			return nil
		}
		if try == storeTries || errors.Is(err, db.ErrTaken) || errors.Is(err, db.ErrNotFound) {
			j.s.log.LogAttrs(ctx, slog.LevelWarn, "server: events of a run could not be stored", slog.String("run", j.run.ID), slog.Any("error", err))
			return err
		}
		time.Sleep(time.Duration(try) * 100 * time.Millisecond)
	}
}

// logOf returns the log of a run, and begins to follow what is stored of it if
// this instance has none. It is nil for a run of which nothing is left.
func (s *Server) logOf(ctx context.Context, run *db.Run) (*runLog, error) {
	if l := s.streams.get(run.ID); l != nil {
		return l, nil
	}
	if run.Ended() {
		n, err := s.db.NextEvent(ctx, run.ID)
		if err != nil || n == 0 {
			return nil, err
		}
	}
	l, first := s.streams.follow(run.ID)
	if first {
		s.beside.Go(func() { s.followStored(s.besideCtx, run.ID, l) })
	}
	return l, nil
}

const (
	followPage = 500                   // events read at once
	followPoll = 50 * time.Millisecond // how often others' events are looked for
	ownPoll    = time.Second           // and one's own, which one is told of
)

// followStored passes on what is stored of a run until its end.
func (s *Server) followStored(ctx context.Context, id string, l *runLog) {
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
			l.close(outcome)
			return
		case last:
			return
		}
		idle++
		poll := min(time.Duration(idle)*followPoll/5, followPoll)
		if run != nil && s.runs.has(run.ThreadID) {
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

func (s *Server) outlet(ctx context.Context, run *db.Run, b *runBody) (*outlet, error) {
	if b.StreamResumable || s.db.Shared() {
		j, err := s.newJournal(ctx, run)
		return &outlet{journal: j, tell: func() { s.streams.tell(run.ID) }}, err
	}
	log := s.streams.open(run.ID)
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
	return o.journal.finish()
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
		_ = o.journal.close() // which has said what is wrong
	} else {
		o.log.breakOff()
	}
}
