package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/superstep-dev/superstep/server/internal/db"
)

const (
	pingEvery        = 30 * time.Second
	maxSubscriptions = 1000 // of one WebSocket
)

// socket is a connection over which a client sends commands to a thread and gets
// its events.
type socket struct {
	s    *followers
	conn *websocket.Conn
	rd   *reader

	mu     sync.Mutex // one writes at a time: a replay stands before what happens meanwhile
	subs   map[string]*v2Filter
	named  int
	cursor int64     // the next event of the feed that is sent as it happens
	newest time.Time // when a subscription was made
	both   sync.WaitGroup
}

// socket serves a WebSocket. The thread need not exist yet. Which pages
// may open it was decided before, as for the rest of the server.
func (s *followers) socket(w http.ResponseWriter, r *http.Request) error {
	thread, err := pathThread(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	rd, err := s.reader(ctx, 2, thread)
	if err != nil {
		return err
	}
	defer rd.leave()
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return nil // it has answered
	}
	defer conn.CloseNow()
	conn.SetReadLimit(s.limits.Body)
	c := &socket{s: s, conn: conn, rd: rd, subs: map[string]*v2Filter{}, cursor: rd.next()}
	c.both.Go(func() {
		defer cancel()
		c.commands(ctx, r)
	})
	c.both.Go(func() {
		defer cancel()
		c.ping(ctx)
	})
	if err = c.events(rd.ctx); rd.ctx.Err() != nil {
		err = context.Cause(rd.ctx)
	}
	_, refused := errors.AsType[*fault](err)
	switch {
	case errors.Is(err, errOver), errors.Is(err, errRemoved):
		_ = conn.Close(websocket.StatusGoingAway, err.Error())
	case refused:
		_ = conn.Close(websocket.StatusPolicyViolation, "the thread is not yours to read")
	case errors.Is(err, errSlow), errors.Is(err, errExpired):
		_ = conn.Close(websocket.StatusPolicyViolation, err.Error())
	default:
		_ = conn.CloseNow()
	}
	cancel() // not before the peer was told why: who reads would cut it off
	c.both.Wait()
	return nil
}

// ping ends the connection if the client doesn't answer any more.
func (c *socket) ping(ctx context.Context) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		wait, cancel := c.s.limits.patience(ctx)
		err := c.conn.Ping(wait)
		cancel()
		if err != nil {
			return
		}
	}
}

// write sends text. The caller holds the lock.
func (c *socket) write(ctx context.Context, data []byte) error {
	wait, cancel := c.s.limits.patience(ctx)
	defer cancel()
	return c.conn.Write(wait, websocket.MessageText, data)
}

// events sends what happens to the subscriptions, each event once.
func (c *socket) events(ctx context.Context) error {
	c.mu.Lock()
	at := c.cursor
	c.mu.Unlock()
	for {
		ev, err := c.rd.read(ctx, at)
		if err != nil {
			return err
		}
		at = ev.Seq + 1
		for wait := time.Duration(1); ev.Ending && wait > 0; {
			c.mu.Lock()
			wait = settle - time.Since(c.newest)
			c.mu.Unlock()
			if !pause(ctx, wait) {
				return ctx.Err()
			}
		}
		if err := c.event(ctx, ev); err != nil {
			return err
		}
	}
}

func (c *socket) event(ctx context.Context, ev *db.FeedEvent) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cursor = ev.Seq + 1
	for _, f := range c.subs {
		if f.matches(ev) {
			return c.write(ctx, c.rd.shown(ev))
		}
	}
	return nil
}

// commands carries out commands, one after the other.
func (c *socket) commands(ctx context.Context, r *http.Request) {
	r = r.WithContext(ctx)
	for {
		data, err := c.next(ctx, r)
		if err != nil {
			return
		}
		var cmd v2Command
		if err := errors.Join(checkJSON(data, c.s.limits), json.Unmarshal(data, &cmd)); err != nil {
			err = c.answer(ctx, &v2Answer{Type: "error", ID: json.RawMessage("null"), Error: "invalid_argument", Message: "a command is a JSON object with id, method and params"})
			if err != nil {
				return
			}
			continue
		}
		if cmd.Method == "subscription.subscribe" {
			err = c.subscribe(ctx, r, &cmd)
		} else {
			err = c.answer(ctx, c.carryOut(r, &cmd, c.obey))
		}
		if err != nil {
			return
		}
	}
}

// next returns the next message, which may take its time to begin, and not to
// arrive.
func (c *socket) next(ctx context.Context, r *http.Request) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_, from, err := c.conn.Reader(ctx)
	if err != nil {
		return nil, err
	}
	if d := c.s.limits.BodyTimeout; d > 0 {
		defer time.AfterFunc(d, cancel).Stop()
	}
	data, err := receive(ctx, clientOf(userOf(ctx), r), from)
	if f, ok := errors.AsType[*fault](err); ok {
		_ = c.conn.Close(websocket.StatusTryAgainLater, f.text)
	}
	return data, err
}

// carryOut has a command carried out, if the user may by now.
func (c *socket) carryOut(r *http.Request, cmd *v2Command, obey func(*http.Request, string, *v2Command) (any, error)) *v2Answer {
	return c.s.commands.carryOut(r, c.rd.thread, cmd, func(r *http.Request, thread string, cmd *v2Command) (any, error) {
		if err := c.s.commands.askCommand(r.Context(), thread); err != nil {
			return nil, err
		}
		return obey(r, thread, cmd)
	})
}

// obey carries out a command that is of the connection or of the thread.
func (c *socket) obey(r *http.Request, thread string, cmd *v2Command) (any, error) {
	if cmd.Method != "subscription.unsubscribe" {
		return c.s.commands.obey(r, thread, cmd)
	}
	var p struct {
		ID string `json:"subscription_id"`
	}
	if err := params(cmd.Params, &p); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.subs[p.ID] == nil {
		return nil, &refusal{"no_such_subscription", "there is no subscription " + strconv.Quote(p.ID)}
	}
	delete(c.subs, p.ID)
	return struct{}{}, nil
}

// subscribe begins a subscription: the answer, then the events that are left, then
// what happens. If the last of those left is the end of a run, it comes a moment
// later, as [settle] says.
func (c *socket) subscribe(ctx context.Context, r *http.Request, cmd *v2Command) error {
	var replay []*db.FeedEvent
	c.mu.Lock()
	defer c.mu.Unlock()
	answer := c.carryOut(r, cmd, func(*http.Request, string, *v2Command) (any, error) {
		f := &v2Filter{}
		if err := params(cmd.Params, f); err != nil {
			return nil, err
		}
		if err := f.check(); err != nil {
			return nil, err
		}
		if len(c.subs) == maxSubscriptions {
			return nil, invalid("a connection has at most %d subscriptions", maxSubscriptions)
		}
		left := c.rd.buffered(c.cursor)
		if len(left) > 0 && c.rd.allowed() != nil {
			left = nil
		}
		for _, ev := range left {
			if f.matches(ev) && (f.Since == nil || ev.Seq > *f.Since) {
				replay = append(replay, ev)
			}
		}
		c.newest = time.Now()
		c.named++
		id := "sub-" + strconv.Itoa(c.named)
		c.subs[id] = f
		return map[string]any{"subscription_id": id, "replayed_events": len(replay)}, nil
	})
	if err := c.send(ctx, answer); err != nil {
		return err
	}
	n := len(replay)
	for n > 0 && replay[n-1].Ending {
		n--
	}
	if last := replay[n:]; len(last) > 0 {
		replay = replay[:n]
		c.both.Go(func() {
			if !pause(ctx, settle) {
				return
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, ev := range last {
				_ = c.write(ctx, c.rd.shown(ev)) // who reads and pings finds out
			}
		})
	}
	for i := range replay {
		if err := c.write(ctx, c.rd.shown(replay[i])); err != nil {
			return err
		}
	}
	return nil
}

func (c *socket) answer(ctx context.Context, a *v2Answer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.send(ctx, a)
}

// send writes an answer. The caller holds the lock.
func (c *socket) send(ctx context.Context, a *v2Answer) error {
	data, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return c.write(ctx, data)
}
