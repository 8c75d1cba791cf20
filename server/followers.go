package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/server/internal/db"
	"github.com/superstep-dev/superstep/server/internal/turn"
)

// followers tells clients what happens to threads.
type followers struct {
	*base
	access   *access
	commands *commands
	states   *states
}

func (s *followers) routes() []route {
	return []route{
		{"POST /threads/{thread}/stream/events", "streamEvents", rule{resource: Runs, verb: Read, how: byHandler, stream: true}, itself(s.streamEvents)},
		{"POST /threads/{thread}/stream", "streamThread", rule{resource: Runs, verb: Read, how: byHandler, stream: true}, itself(s.streamEvents)},
		{"GET /threads/{thread}/stream/events", "openSocket", rule{resource: Runs, verb: Read, how: byHandler, stream: true}, itself(s.socket)},
		{"GET /threads/{thread}/stream", "joinThread", rule{resource: Runs, verb: Read, how: byHandler, stream: true}, itself(s.joinThread)},
	}
}

// streamEvents sends a thread's events: those that are left, and then what happens
// until the client leaves. The thread need not exist yet.
func (s *followers) streamEvents(w http.ResponseWriter, r *http.Request) error {
	thread, err := pathThread(r)
	if err != nil {
		return err
	}
	var filter v2Filter
	if err := read(r, &filter); err != nil {
		return err
	}
	if err := filter.check(); err != nil {
		return err
	}
	rd, err := s.reader(r.Context(), 2, thread)
	if err != nil {
		return err
	}
	defer rd.leave()
	from := rd.since(0)
	if filter.Since != nil {
		from = rd.since(*filter.Since)
	}
	return serveFeed(w, rd, from, nil, func(ev *db.FeedEvent) []byte {
		if !filter.matches(ev) {
			return nil
		}
		return frame(ev.Method, rd.shown(ev), ev.Seq)
	})
}

// serveFeed sends the events of a feed from a number on, in the form that show
// gives them; it shows nothing of others. It ends when the client leaves or is too
// slow or may not read any more, the server closes, or the thread is removed, of which
// last tells.
func serveFeed(w http.ResponseWriter, rd *reader, from int64, last []byte, show func(*db.FeedEvent) []byte) error {
	out, err := turn.NewStream(w)
	if err != nil {
		return err
	}
	began := time.Now()
	beat := began.Add(heartbeat)
	for {
		wait, stop := context.WithDeadline(rd.ctx, beat)
		ev, err := rd.read(wait, from)
		stop()
		_, refused := errors.AsType[*fault](err)
		switch {
		case errors.Is(err, context.Canceled):
			return nil
		case errors.Is(err, errRemoved):
			return out.Put(last)
		case errors.Is(err, errOver), errors.Is(err, errExpired), refused:
			panic(http.ErrAbortHandler) // clients take an orderly end for the last they hear, and come back after this
		case errors.Is(err, context.DeadlineExceeded):
			err = out.Beat()
		case err == nil:
			from = ev.Seq + 1
			data := show(ev)
			if data == nil {
				continue
			}
			if ev.Ending && !pause(rd.ctx, settle-time.Since(began)) {
				return nil
			}
			err = out.Put(data)
		}
		if err != nil {
			return err
		}
		beat = time.Now().Add(heartbeat)
	}
}

// pause waits. It returns false if the context ends before.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// joinThread sends what the runs of a thread stream, whatever runs those are, from
// now on or from an event on that the client names.
func (s *followers) joinThread(w http.ResponseWriter, r *http.Request) error {
	if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return s.socket(w, r)
	}
	thread, err := pathThread(r)
	if err != nil {
		return err
	}
	modes, err := listed(r, "stream_mode")
	if err != nil {
		return err
	}
	if len(modes) == 0 {
		modes = []string{followRuns}
	}
	for _, m := range modes {
		if m != followRuns && m != followLifecycle && m != followState {
			return invalid("stream_mode must be run_modes, lifecycle or state_update, not %.80q", m)
		}
	}
	rd, err := s.reader(r.Context(), 1, thread)
	if err != nil {
		return err
	}
	defer rd.leave()
	if _, err := s.thread(r.Context(), thread); err != nil {
		return err
	}
	from := rd.next()
	if last, given, err := lastEvent(r); err != nil {
		return err
	} else if given {
		from = rd.since(last)
	}
	back := url.URL{Opaque: "/threads/" + url.PathEscape(thread) + "/stream", RawQuery: r.URL.RawQuery}
	w.Header().Set("Location", back.String()) // clients that lose the connection come back here
	gone, _ := json.Marshal(removed(thread))  // of strings
	return serveFeed(w, rd, from, frame("error", gone, rd.next()), func(ev *db.FeedEvent) []byte {
		wanted := ev.Channel
		if wanted == followLifecycle && slices.Contains(modes, followRuns) {
			wanted = followRuns
		}
		if !slices.Contains(modes, wanted) {
			return nil
		}
		if ev.Method == endEvent {
			return frame("metadata", runDone(ev.Run, thread), ev.Seq)
		}
		return frame(ev.Method, ev.Data, ev.Seq)
	})
}

// runDone is what those are told who have joined a thread when a run has ended.
func runDone(run, thread string) []byte {
	return object{"status": jsonText("run_done"), "run_id": jsonText(run), "thread_id": jsonText(thread)}.raw()
}
