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
	"sync/atomic"
	"time"

	"github.com/superstep-dev/superstep/internal/sse"
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

// Stream runs something and yields what happens until the run is over; ranging
// over it again starts another run. Without a thread the run has one of its own,
// which goes when the run has ended. If the connection is cut, the events go on
// after the last one; see [Reconnects].
//
// The error of a run that failed is a [*RunError], that of a connection that is
// gone a [*LostError]. When ctx ends, the error is its cause; what becomes of the
// run then says [RunRequest.CancelOnLeave].
func (c *Client) Stream(ctx context.Context, thread string, r RunRequest) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		f := follower{c: c, thread: thread, created: r.Created, cancels: r.CancelOnLeave}
		f.follow(ctx, call{method: http.MethodPost, path: runPath(thread, "/stream"), body: r.wire(thread, true)}, yield)
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
	cancels     bool   // the run is cancelled when it is left
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

// follow yields events until the run is over.
func (f *follower) follow(parent context.Context, first call, yield func(Event, error) bool) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	// left cancels the run where that is wanted.
	left := func() error {
		if !f.cancels || f.run == "" || f.thread == "" {
			return nil
		}
		return f.c.leave(parent, f.thread, f.run)
	}
	fail := func(err error) {
		if parent.Err() != nil {
			err = context.Cause(parent)
			if odd := left(); odd != nil {
				err = errors.Join(err, odd)
			}
		}
		yield(Event{}, err)
	}
	resp, end, err := f.c.start(ctx, first, f.cancels)
	defer end()
	if err != nil {
		fail(err)
		return
	}
	for again := (retry{c: f.c}); ; {
		if err := f.begin(resp); err != nil {
			resp.Body.Close()
			fail(err)
			return
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
			// Whoever has left can't be told that this failed; the run goes on then.
			_ = left()
			return
		case err == nil:
			return
		case errors.As(err, &run):
			yield(Event{}, err)
			return
		case errors.As(err, &odd), ctx.Err() != nil:
			fail(err)
			return
		}
		lost := func(err error) {
			fail(&LostError{URL: f.c.URL(), Thread: f.thread, Run: f.run, LastEventID: f.last, Err: err})
		}
		if f.location == "" || f.unnamed { // what was missed could not be told from what was not
			lost(err)
			return
		}
		if resp, err = again.open(ctx, err, f.rest()); err != nil {
			lost(err)
			return
		}
	}
}

// start sends the request that starts a run. If the run is to be cancelled when
// the context ends, a context that ends before the server has said which run it is
// leaves it some time to do so. The function end is to be called when the answer
// was read.
func (c *Client) start(ctx context.Context, q call, cancels bool) (_ *http.Response, end func(), err error) {
	if ctx.Err() != nil {
		return nil, func() {}, context.Cause(ctx)
	}
	if !cancels {
		resp, err := c.send(ctx, q)
		return resp, func() {}, err
	}
	own, drop := context.WithCancelCause(context.WithoutCancel(ctx))
	answered := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		late := time.NewTimer(leaving)
		defer late.Stop()
		select {
		case <-answered:
		case <-late.C:
		}
		drop(context.Cause(ctx))
	})
	resp, err := c.send(own, q)
	close(answered)
	return resp, func() { stop(); drop(nil) }, err
}

// begin reads the head of an answer.
func (f *follower) begin(resp *http.Response) error {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if kind != "text/event-stream" {
		return &ProtocolError{URL: f.c.URL(), Err: fmt.Errorf("%s %s: the answer is of type %q and not text/event-stream", resp.Request.Method, resp.Request.URL.Path, kind)}
	}
	thread, run := located(resp.Header.Get("Content-Location"))
	if f.run != "" && run != "" && run != f.run {
		return &ProtocolError{URL: f.c.URL(), Err: fmt.Errorf("%s %s: the answer is about run %q, and not %q", resp.Request.Method, resp.Request.URL.Path, run, f.run)}
	}
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
		if rest, ok := strings.CutPrefix(f.location, f.c.base.EscapedPath()+"/"); ok { // the server knows where it is
			f.location = "/" + rest
		}
		if f.query == nil {
			f.query = u.Query()
		}
	}
	return nil
}

// maxEvent bounds an event, in bytes: it may be a whole state.
const maxEvent = 256 << 20

// read yields the events of one connection. Without an error they were the last.
func (f *follower) read(ctx context.Context, resp *http.Response, yield func(Event) bool) error {
	w := watch(resp.Body)
	defer w.stop()
	d := sse.NewReader(resp.Body, maxEvent)
	d.Line = w.line
	for {
		e, err := d.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if errors.Is(err, sse.ErrTooLong) {
			return &ProtocolError{URL: f.c.URL(), Err: fmt.Errorf("an event is longer than %d MB", maxEvent>>20)}
		}
		if err != nil {
			if idle := w.idle(); idle != nil {
				return idle
			}
			return err
		}
		if len(e.Data) == 0 { // some servers' sign of life
			continue
		}
		if !json.Valid(e.Data) {
			return &ProtocolError{URL: f.c.URL(), Err: fmt.Errorf("the data of event %.80q is not JSON: %.200q", e.Name, e.Data)}
		}
		if e.ID != "" {
			f.last = e.ID
		} else {
			f.unnamed = true
		}
		name, path, _ := strings.Cut(e.Name, "|")
		if name == "error" {
			failed := &RunError{Thread: f.thread, Run: f.run}
			var o struct{ Error, Message string }
			if json.Unmarshal(e.Data, &o) == nil {
				failed.Name, failed.Message = o.Error, o.Message
			} else {
				failed.Message = string(e.Data)
			}
			return failed
		}
		ev := Event{ID: e.ID, Name: name, Data: e.Data}
		if path != "" {
			ev.Namespace = strings.Split(path, "|")
		}
		w.pause()
		if !yield(ev) {
			return errLeft
		}
		w.resume()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// watcher ends a connection on which nothing comes any more, where signs of life
// came before.
type watcher struct {
	body  io.Closer
	timer *time.Timer // nil: it is not known yet how often signs of life come
	limit time.Duration
	every time.Duration // the longest time between two of them
	last  time.Time
	fired atomic.Bool
}

func watch(body io.Closer) *watcher { return &watcher{body: body} }

// The bounds of the silence after which a connection counts as cut.
const (
	leastSilence = 6 * time.Second
	mostSilence  = 30 * time.Second
)

// atOnce is how close lines are that were waiting to be read: they don't say how
// often the server sends.
const atOnce = 500 * time.Millisecond

// line is told of each line, and whether it is a comment: a sign of life.
func (w *watcher) line(comment bool) {
	w.limit = mostSilence
	if comment {
		now := time.Now()
		if gap := now.Sub(w.last); !w.last.IsZero() && gap >= atOnce {
			w.every = max(w.every, gap)
		}
		w.last = now
		w.limit = min(max(3*w.every, leastSilence), mostSilence)
		if w.timer == nil && w.every > 0 {
			w.timer = time.AfterFunc(w.limit, func() {
				w.fired.Store(true)
				w.body.Close()
			})
		}
	}
	w.resume()
}

// pause stops the clock while nobody reads.
func (w *watcher) pause() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// resume starts it again.
func (w *watcher) resume() {
	if w.timer != nil && !w.fired.Load() {
		w.timer.Reset(w.limit)
	}
}

func (w *watcher) idle() error {
	if w.fired.Load() {
		return errors.New("no sign of life came any more")
	}
	return nil
}

func (w *watcher) stop() { w.pause() }

// retry opens what was cut again.
type retry struct {
	c     *Client
	tries int // since the last event
}

// The pauses before a connection is tried again.
const (
	firstPause = 250 * time.Millisecond
	longPause  = 4 * time.Second
	askedPause = time.Minute // at most, if the server asks for it
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
		var asked *Error
		if errors.As(why, &asked) {
			pause = max(pause, min(asked.RetryAfter, askedPause))
		}
		r.tries++
		if r.c.lost != nil {
			r.c.lost(why, pause)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
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
