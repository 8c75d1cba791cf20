package server

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/superstep-dev/superstep/internal/process"
)

const (
	silence   = 10 * time.Second       // after which an instance counts as dead; it gives three signs of life in that time
	lookEvery = 250 * time.Millisecond // for runs of this instance that others want stopped, and those that others have left, unless that is told
)

// newInstance names this server, and its process for those who can see that.
func newInstance() string { return uuid.NewString() + " " + process.Self() }

// gone reports whether an instance's process has certainly ended.
func gone(instance string) bool {
	_, where, _ := strings.Cut(instance, " ")
	return process.Gone(where)
}

// instances keeps this server and others that share its database from losing runs.
type instances struct {
	*base
	dispatcher *dispatcher
	silence    time.Duration // after which an instance counts as dead

	others []string  // that live, as was last seen
	next   time.Time // when one of them counts as dead unless it gives another sign of life

	pulse    context.Context    // of giving signs of life
	stopBeat context.CancelFunc // ends it
	beating  sync.Mutex
}

func newInstances(b *base, d *dispatcher, silence time.Duration) *instances {
	s := &instances{base: b, dispatcher: d, silence: silence}
	s.pulse, s.stopBeat = context.WithCancel(b.besideCtx)
	return s
}

// live gives signs of life, takes over the runs of instances that give none, and
// stops the runs that other instances were asked to stop. It asks the database when it is told
// to, when another instance's time would be over if it gave no more signs, or its process has
// ended, and all the time where nothing is told.
func (s *instances) live(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var beaten time.Time
	for {
		told := false
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.base.look:
			told = true
		}
		var err error
		if time.Since(beaten) >= s.silence/3 {
			if err = s.beat(); err == nil {
				beaten = time.Now()
			}
		}
		if told || !s.feeds.others.Hears() || !time.Now().Before(s.next) || slices.ContainsFunc(s.others, gone) {
			err = errors.Join(err, s.look(ctx))
		}
		if err != nil && ctx.Err() == nil {
			s.log.LogAttrs(ctx, slog.LevelError, "server: the database failed", slog.Any("error", err))
		}
	}
}

// beat gives a sign of life, unless the server has given its runs to others.
func (s *instances) beat() error {
	s.beating.Lock()
	defer s.beating.Unlock()
	if s.pulse.Err() != nil {
		return nil
	}
	err := s.db.Beat(s.pulse, s.instance)
	if s.pulse.Err() != nil {
		return nil
	}
	return err
}

// leave gives the runs of this server to others, however little time is left for
// the rest.
func (s *instances) leave(ctx context.Context) error {
	s.stopBeat()
	s.beating.Lock()
	defer s.beating.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, err := s.db.Leave(ctx, s.instance, 0)
	s.lookAll()
	return err
}

// look stops the runs of this instance that others were asked to stop, and has those
// run here that instances hold which have left, or died.
func (s *instances) look(ctx context.Context) error {
	s.next = time.Now() // if it fails
	asked, lives, err := s.db.Look(ctx, s.instance, s.silence)
	if err != nil {
		return err
	}
	var left []string
	s.others, s.next = nil, time.Now().Add(s.silence)
	for id, until := range lives {
		switch {
		case id == s.instance: // this process lives, even if it stood still
		case until <= 0 || gone(id):
			left = append(left, id)
		default:
			s.others = append(s.others, id)
			if at := time.Now().Add(until); at.Before(s.next) {
				s.next = at
			}
		}
	}
	if lives[s.instance] <= 0 { // this process stood still, and others have seen it
		err = s.beat()
	}
	if err := errors.Join(err, s.dispatcher.stopAsked(ctx, asked), s.takeOver(ctx, left)); err != nil {
		s.next = time.Now()
		return err
	}
	return nil
}

// takeOver has the runs of instances that have left, or died, run here, unless none
// begins here any more.
func (s *instances) takeOver(ctx context.Context, left []string) error {
	if s.dispatcher.stopping() {
		return nil
	}
	for _, dead := range left {
		threads, err := s.db.TakeOver(ctx, dead, s.instance)
		if err != nil {
			return err
		}
		for _, t := range threads {
			s.dispatcher.wake(t)
		}
		silence := s.silence
		if gone(dead) {
			silence = 0
		}
		died, err := s.db.Leave(ctx, dead, silence)
		if err != nil {
			return err
		}
		attrs := []slog.Attr{slog.String("instance", dead), slog.Int("runs", len(threads))}
		switch {
		case len(threads) == 0: // another instance was faster
		case died:
			s.log.LogAttrs(ctx, slog.LevelWarn, "server: runs of an instance that has died are taken over", attrs...)
		default:
			s.log.LogAttrs(ctx, slog.LevelInfo, "server: runs that an instance has left are taken over", attrs...)
		}
	}
	return nil
}
