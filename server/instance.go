package server

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/superstep-dev/superstep/internal/process"
)

const (
	beatEvery = 2 * time.Second        // an instance gives a sign of life
	silence   = 10 * time.Second       // after which an instance counts as dead
	lookEvery = 250 * time.Millisecond // for runs of this instance that others want stopped
)

// newInstance names this server, and its process for those who can see that.
func newInstance() string { return uuid.NewString() + " " + process.Self() }

// gone reports whether an instance's process has certainly ended.
func gone(instance string) bool {
	_, where, _ := strings.Cut(instance, " ")
	return process.Gone(where)
}

// live gives signs of life, takes over the runs of instances that give none, and
// stops the runs that other instances were asked to stop.
func (s *Server) live(ctx context.Context) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	var beaten time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		err := s.runs.stopAsked(ctx)
		if time.Since(beaten) >= beatEvery {
			beaten = time.Now()
			err = errors.Join(err, s.db.Beat(ctx, s.instance), s.takeOver(ctx), s.db.SweepEvents(ctx, keepLog))
			if s.db.Shared() {
				err = errors.Join(err, s.db.SweepFeeds(ctx, keepLog, oldEvents))
			}
		}
		if err != nil && ctx.Err() == nil {
			s.log.LogAttrs(ctx, slog.LevelError, "server: the database failed", slog.Any("error", err))
		}
	}
}

// takeOver has the runs of dead instances run here.
func (s *Server) takeOver(ctx context.Context) error {
	left, err := s.db.Left(ctx, s.silence, gone)
	if err != nil {
		return err
	}
	for _, dead := range left {
		if dead == s.instance { // this process stood still; it lives
			continue
		}
		threads, err := s.db.TakeOver(ctx, dead, s.instance)
		if err != nil {
			return err
		}
		if len(threads) > 0 {
			s.log.LogAttrs(ctx, slog.LevelWarn, "server: runs of an instance that has died are taken over", slog.String("instance", dead), slog.Int("runs", len(threads)))
		}
		for _, t := range threads {
			s.runs.wake(t)
		}
		if err := s.db.Leave(ctx, dead); err != nil {
			return err
		}
	}
	return nil
}
