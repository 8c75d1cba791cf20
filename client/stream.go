package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Event is something that happened in a run.
type Event struct {
	ID string // for [Join.After]; empty if the server gives none

	// Name is that of its mode, messages for [ModeMessages]; metadata for the first
	// event, which says the run's ID.
	Name string

	// Namespace is where it happened: the subgraphs from the graph on, each a
	// node's name, or that with a colon and the task's ID.
	Namespace []string

	Data json.RawMessage
}

// Stream runs something and yields what happens until the run is over. Without a
// thread the run has one of its own, which goes when the run has ended. If the
// connection is cut, the events go on after the last one; see [Reconnects].
//
// The error of a run that failed is a [*RunError], that of a connection that is
// gone a [*LostError]. When ctx ends, the error is its cause; what becomes of the
// run then says [RunRequest.CancelOnLeave].
func (c *Client) Stream(ctx context.Context, thread string, r RunRequest) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		f := follower{c: c, thread: thread, created: r.Created}
		over := f.follow(ctx, call{method: http.MethodPost, path: runPath(thread, "/stream"), body: r.wire(true)}, yield)
		if r.CancelOnLeave && !over && f.run != "" && f.thread != "" {
			// Whoever has left can't be told that this failed; the run goes on then.
			_ = c.leave(ctx, f.thread, f.run)
		}
	}
}

// Join says from where on a run is followed.
type Join struct {
	After string // ID of the last event that is known; empty for all, as far as the server has them
	Modes []Mode // none means those that the run was started with
}

// JoinStream yields what happens in a run that was started before, as
// [Client.Stream] does.
func (c *Client) JoinStream(ctx context.Context, thread, run string, j Join) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		q := url.Values{}
		for _, m := range j.Modes {
			q.Add("stream_mode", string(m))
		}
		f := follower{c: c, thread: thread, run: run, last: j.After, query: q}
		if f.last == "" {
			f.last = "-1"
		}
		f.location = path("/threads/%s/runs/%s/stream", thread, run)
		f.follow(ctx, f.rest(), yield)
	}
}

// follower follows the events of a run over connections that may be cut.
type follower struct {
	c           *Client
	thread, run string
	created     func(thread, run string)
	location    string // where to ask for the rest; empty: nowhere
	query       url.Values
	last        string // ID of the last event
	unnamed     bool   // an event had no ID
}

// rest asks for the events after the last one.
func (f *follower) rest() call {
	last := f.last
	if last == "" {
		last = "-1"
	}
	return call{method: http.MethodGet, path: f.location, query: f.query, header: http.Header{"Last-Event-Id": {last}}}
}

// errLeft says that the loop was left.
var errLeft = errors.New("left")

// follow yields events until the run is over. It reports whether it was followed
// to its end.
func (f *follower) follow(ctx context.Context, first call, yield func(Event, error) bool) (over bool) {
	fail := func(err error) bool {
		yield(Event{}, err)
		return false
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	resp, err := f.c.send(ctx, first)
	if err != nil {
		return fail(err)
	}
	for again := (retry{c: f.c}); ; {
		if err := f.begin(resp); err != nil {
			resp.Body.Close()
			return fail(err)
		}
		err := f.read(ctx, resp, func(e Event) bool {
			again.tries = 0
			return yield(e, nil)
		})
		resp.Body.Close()
		var run *RunError
		var odd *ProtocolError
		switch {
		case errors.Is(err, errLeft):
			return false
		case err == nil:
			return true
		case errors.As(err, &run):
			yield(Event{}, err)
			return true
		case errors.As(err, &odd):
			return fail(err)
		case ctx.Err() != nil:
			return fail(context.Cause(ctx))
		}
		lost := func(err error) bool {
			return fail(&LostError{URL: f.c.URL(), Thread: f.thread, Run: f.run, LastEventID: f.last, Err: err})
		}
		if f.location == "" || f.unnamed { // what was missed could not be told from what was not
			return lost(err)
		}
		if resp, err = again.open(ctx, err, f.rest()); err != nil {
			if ctx.Err() != nil {
				return fail(context.Cause(ctx))
			}
			return lost(err)
		}
	}
}

// begin reads the head of an answer.
func (f *follower) begin(resp *http.Response) error {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if kind != "text/event-stream" {
		return &ProtocolError{URL: f.c.URL(), Err: fmt.Errorf("%s %s: the answer is of type %q and not text/event-stream", resp.Request.Method, resp.Request.URL.Path, kind)}
	}
	thread, run := located(resp.Header.Get("Content-Location"))
	if f.run == "" && run != "" {
		f.run = run
		if thread != "" {
			f.thread = thread
		}
		if f.created != nil {
			f.created(f.thread, f.run)
		}
	}
	if at := resp.Header.Get("Location"); at != "" && f.location == "" {
		u, err := url.Parse(at)
		if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(at, "/") {
			return &ProtocolError{URL: f.c.URL(), Err: fmt.Errorf("the rest of the stream is said to be at %q, which is not below the server", at)}
		}
		f.location = u.EscapedPath()
	}
	return nil
}

// read yields the events of one connection. Without an error they were the last.
func (f *follower) read(ctx context.Context, resp *http.Response, yield func(Event) bool) error {
	w := watch(resp.Body)
	defer w.stop()
	d := newDecoder(resp.Body)
	d.line = w.line
	for {
		e, err := d.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if errors.Is(err, errTooLong) {
			return &ProtocolError{URL: f.c.URL(), Err: err}
		}
		if err != nil {
			if idle := w.idle(); idle != nil {
				return idle
			}
			return err
		}
		if len(e.data) == 0 { // some servers' sign of life
			continue
		}
		if !json.Valid(e.data) {
			return &ProtocolError{URL: f.c.URL(), Err: fmt.Errorf("the data of event %.80q is not JSON: %.200q", e.name, e.data)}
		}
		if e.id != "" {
			f.last = e.id
		} else {
			f.unnamed = true
		}
		name, path, _ := strings.Cut(e.name, "|")
		if name == "error" {
			failed := &RunError{Thread: f.thread, Run: f.run}
			var o struct{ Error, Message string }
			if json.Unmarshal(e.data, &o) == nil {
				failed.Name, failed.Message = o.Error, o.Message
			} else {
				failed.Message = string(e.data)
			}
			return failed
		}
		ev := Event{ID: e.id, Name: name, Data: e.data}
		if path != "" {
			ev.Namespace = strings.Split(path, "|")
		}
		if !yield(ev) {
			return errLeft
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// watcher ends a connection on which nothing comes any more, where signs of life
// came before.
type watcher struct {
	body  io.Closer
	timer *time.Timer
	beats int
	last  time.Time
	fired chan struct{}
}

func watch(body io.Closer) *watcher { return &watcher{body: body, fired: make(chan struct{})} }

// The bounds of the silence after which a connection counts as cut.
const (
	leastSilence = 6 * time.Second
	mostSilence  = 30 * time.Second
)

// line is told of each line, and whether it is a comment: a sign of life.
func (w *watcher) line(comment bool) {
	if w.timer != nil {
		w.timer.Reset(mostSilence)
	}
	if !comment {
		return
	}
	now := time.Now()
	if w.beats++; w.beats >= 2 {
		limit := min(max(3*now.Sub(w.last), leastSilence), mostSilence)
		if w.timer == nil {
			w.timer = time.AfterFunc(limit, func() {
				close(w.fired)
				w.body.Close()
			})
		} else {
			w.timer.Reset(limit)
		}
	}
	w.last = now
}

func (w *watcher) idle() error {
	select {
	case <-w.fired:
		return errors.New("no sign of life came any more")
	default:
		return nil
	}
}

func (w *watcher) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// retry opens what was cut again.
type retry struct {
	c     *Client
	tries int // since the last event
}

// The pauses before a connection is tried again.
const (
	firstPause = 250 * time.Millisecond
	longPause  = 4 * time.Second
)

// open sends a request until it is answered or has failed too often. Why is what
// happened before.
func (r *retry) open(ctx context.Context, why error, q call) (*http.Response, error) {
	for {
		if r.tries >= r.c.tries {
			return nil, why
		}
		pause := min(firstPause<<min(r.tries, 10), longPause)
		pause += rand.N(pause/4 + 1) // clients of a server that restarts don't come back all at once
		r.tries++
		if r.c.lost != nil {
			r.c.lost(why, pause)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		resp, err := r.c.send(ctx, q)
		if err == nil {
			return resp, nil
		}
		var refused *Error
		if errors.As(err, &refused) && refused.Status < 500 && refused.Status != http.StatusTooManyRequests || ctx.Err() != nil {
			return nil, err
		}
		why = err
	}
}
