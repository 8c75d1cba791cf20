package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"time"

	"github.com/superstep-dev/superstep/server/internal/db"
)

// stream reads what a run streams, in the feed of its thread. It is used by one
// goroutine.
type stream struct {
	base *base
	run  *db.Run
	feed *feed           // nil if the server is closing
	ctx  context.Context // of the request
	left func(*feed)

	asked   time.Time // when the database was asked whether the run is over
	gone    bool      // it is, and what it streamed was read
	over    bool
	outcome json.RawMessage // what waiting for it returns, if that is known once it is over
}

// askRun is how often at most the database is asked, while there is no news, whether a run is
// over: there is no end of a run whose process died, or whose end isn't kept any more.
const askRun = 5 * time.Second

// streamOf returns the stream of a run, to be left; nil if nothing is left of it.
func (s *base) streamOf(ctx context.Context, run *db.Run) (*stream, error) {
	if s.feeds.shared && run.Holder != s.instance && !run.Ended() { // the holder is to know
		return s.streamIn(ctx, run, s.feeds.join, s.feeds.unfollow)
	}
	return s.streamIn(ctx, run, s.feeds.attend, s.feeds.quit)
}

// outcomeOf is streamOf for who doesn't read it, but waits for its end.
func (s *base) outcomeOf(ctx context.Context, run *db.Run) (*stream, error) {
	return s.streamIn(ctx, run, s.feeds.open, s.feeds.leave)
}

func (s *base) streamIn(ctx context.Context, run *db.Run, open func(context.Context, string) (*feed, error), leave func(*feed)) (*stream, error) {
	one, err := open(ctx, run.ThreadID)
	if errors.Is(err, errClosing) {
		return &stream{base: s, run: run}, nil
	}
	if err != nil {
		return nil, err
	}
	if run.Ended() && !one.has(run.ID) {
		leave(one)
		return nil, nil
	}
	one.worksFor(run)
	return &stream{base: s, run: run, feed: one, ctx: ctx, left: leave, asked: time.Now()}, nil
}

// leave ends reading; without effect on none.
func (s *stream) leave() {
	if s != nil && s.feed != nil {
		s.left(s.feed)
	}
}

// next returns the number of the next event, or of the last if there is none after it.
func (s *stream) next() int64 {
	if s.feed == nil {
		return 0
	}
	return s.feed.nextOf(s.run.ID)
}

// nth returns the ID of the next event, as clients know it.
func (s *stream) nth() int64 {
	if s.feed == nil {
		return 0
	}
	return s.feed.nthOf(s.run.ID)
}

// read waits for the first event from a number on, of those that are left. It returns
// [io.EOF] when the run is over, and errOver if it goes on in another process.
func (s *stream) read(ctx context.Context, from int64) (ev *db.FeedEvent, err error) {
	for s.feed != nil && !s.over {
		ev, err = s.feed.read(ctx, from, 1, s.run.ID)
		switch {
		case err == nil && ev.Method == endEvent:
			s.over = true
			if len(ev.Data) > 0 {
				s.outcome = ev.Data
			}
		case errors.Is(err, errRemoved):
			return s.removed(), nil
		case !errors.Is(err, context.DeadlineExceeded) || s.ctx.Err() != nil:
			return ev, err
		case !s.gone:
			if s.gone = s.ended(); !s.gone { // what it told until then is read first
				return ev, err
			}
		default:
			if _, err := s.base.db.Thread(s.ctx, s.run.ThreadID); errors.Is(err, db.ErrNotFound) {
				return s.removed(), nil
			}
			s.over = true
		}
	}
	if s.over {
		return nil, io.EOF
	}
	return nil, errOver
}

// removed ends the stream of a run that went with its thread, of which its last event
// tells.
func (s *stream) removed() *db.FeedEvent {
	told, _ := json.Marshal(removed(s.run.ThreadID)) // of strings
	s.over, s.outcome = true, object{"__error__": told}.raw()
	return &db.FeedEvent{Seq: s.feed.next(), Nth: s.nth(), Method: "error", Data: told}
}

// ended asks, now and then, whether the run is over.
func (s *stream) ended() bool {
	if time.Since(s.asked) < askRun || s.feed.toldBy(s.run.ID) {
		return false
	}
	s.asked = time.Now()
	run, err := s.base.db.Run(s.ctx, s.run.ID)
	if !errors.Is(err, db.ErrNotFound) && (err != nil || !run.Ended()) {
		return false
	}
	if s.base.feeds.shared { // what it told before it ended is stored by now
		state, err := s.base.db.FeedState(s.ctx, s.run.ThreadID)
		if err != nil || s.feed.reach(s.ctx, state) != nil {
			return false
		}
	}
	return !s.feed.toldBy(s.run.ID)
}

// events yields what is left from a number on, and then what happens, until the run is over.
// The error is the context's, errOver if the run goes on in another process, or that of beat,
// which is called every so often; it may be nil. None has no events.
func (s *stream) events(ctx context.Context, from int64, every time.Duration, beat func() error) iter.Seq2[*db.FeedEvent, error] {
	return func(yield func(*db.FeedEvent, error) bool) {
		for s != nil {
			wait, stop := context.WithTimeout(ctx, every)
			err := s.until(wait, &from, yield)
			stop()
			switch {
			case err == nil, errors.Is(err, io.EOF):
				return
			case ctx.Err() != nil:
				err = ctx.Err()
			case errors.Is(err, context.DeadlineExceeded):
				if err = nil; beat != nil {
					err = beat()
				}
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// until yields events until there is an error; without one nobody wants more.
func (s *stream) until(ctx context.Context, from *int64, yield func(*db.FeedEvent, error) bool) error {
	for {
		ev, err := s.read(ctx, *from)
		if err != nil {
			return err
		}
		if *from = ev.Seq + 1; !yield(ev, nil) {
			return nil
		}
	}
}
