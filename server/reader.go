package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/server/internal/db"
)

// reader reads what is told of a thread, which need not exist yet, for a user who may
// see it.
//
// A thread that is removed ends its feed, and what is told of another one of the same
// ID stands in another feed. So it is enough to ask whether the user may see the
// thread after the feed is open, and, if the thread isn't there by then, when there is
// something to be read: somebody else may have made it.
type reader struct {
	*feed
	version int // of the protocol
	access  *access
	from    *feeds
	thread  string
	ctx     context.Context // of the request; it ends with the user's credentials
	stop    context.CancelFunc

	mu    sync.Mutex
	asked time.Time // when the user might see the thread; zero if it wasn't there
}

// askAgain is after which time is asked again what a user may see, for whom it may
// have changed.
const askAgain = 5 * time.Second

var (
	errRemoved = errors.New("the thread was removed")
	errExpired = errors.New("the credentials have expired")
)

// reader follows a thread for the user of a request.
func (s *followers) reader(ctx context.Context, version int, thread string) (*reader, error) {
	one, err := s.feeds.follow(ctx, thread)
	if err != nil {
		return nil, err
	}
	r := &reader{feed: one, version: version, access: s.access, from: s.feeds, thread: thread, ctx: ctx, stop: func() {}}
	if u := userOf(ctx); u != nil && !u.Expires.IsZero() {
		r.ctx, r.stop = context.WithDeadlineCause(ctx, u.Expires, errExpired)
	}
	if _, err := r.may(); err != nil {
		expired := errors.Is(context.Cause(r.ctx), errExpired)
		r.leave()
		if expired {
			return nil, errWrongCredentials
		}
		return nil, err
	}
	return r, nil
}

func (r *reader) leave() {
	r.stop()
	r.from.unfollow(r.feed)
}

// may asks whether the user may see the thread, and reports whether there is one.
func (r *reader) may() (exists bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.asked.IsZero() && time.Since(r.asked) < askAgain {
		return true, nil
	}
	rule := callerOf(r.ctx).rule
	exists, err = r.access.askOf(r.ctx, &Action{Resource: rule.resource, Verb: rule.verb, ID: r.thread})
	if exists && err == nil {
		r.asked = time.Now()
	}
	return exists, err
}

// allowed returns why the user may not read what was told, nil if the user may.
func (r *reader) allowed() error {
	if r.access.authorize == nil {
		return nil
	}
	exists, err := r.may()
	if err == nil && !exists {
		err = errRemoved
	}
	return err
}

// read waits for the first event from a number on.
func (r *reader) read(ctx context.Context, seq int64) (*db.FeedEvent, error) {
	ev, err := r.feed.read(ctx, seq, r.version, "")
	if err == nil {
		err = r.allowed()
	}
	if r.ctx.Err() != nil {
		err = context.Cause(r.ctx)
	}
	return ev, err
}
