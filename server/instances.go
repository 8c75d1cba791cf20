package server

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/superstep-dev/superstep/internal/process"
)

const (
	beatEvery = 2 * time.Second        // an instance gives a sign of life
	silence   = 10 * time.Second       // after which an instance counts as dead
	lookEvery = 250 * time.Millisecond // for runs of this instance that others want stopped, and those that others have left
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
// stops the runs that other instances were asked to stop.
func (s *instances) live(ctx context.Context) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	var beaten time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		err := s.look(ctx)
		if time.Since(beaten) >= beatEvery {
			beaten = time.Now()
			err = errors.Join(err, s.beat(), s.db.SweepFeeds(ctx, keepFeed, oldEvents))
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
	_, err := s.db.Leave(ctx, s.instance)
	return err
}

// look stops the runs of this instance that others were asked to stop, and has those
// run here that instances hold which have left, or died.
func (s *instances) look(ctx context.Context) error {
	asked, left, err := s.db.Look(ctx, s.instance, s.silence, gone)
	if err != nil {
		return err
	}
	return errors.Join(s.dispatcher.stopAsked(ctx, asked), s.takeOver(ctx, left))
}

// takeOver has the runs of instances that have left, or died, run here, unless none
// begins here any more.
func (s *instances) takeOver(ctx context.Context, left []string) error {
	if s.dispatcher.stopping() {
		return nil
	}
	for _, dead := range left {
		if dead == s.instance { // this process stood still; it lives
			continue
		}
		threads, err := s.db.TakeOver(ctx, dead, s.instance)
		if err != nil {
			return err
		}
		for _, t := range threads {
			s.dispatcher.wake(t)
		}
		died, err := s.db.Leave(ctx, dead)
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
