package local

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
)

// Do is a sub-step of a task that is tried as a node is, and seen as a task.
type Do struct {
	Call  string // how graph calls it
	Name  string
	Input json.RawMessage
	Run   func(ctx context.Context) (json.RawMessage, error)

	Retry   func(attempt int, err error) (delay time.Duration, again bool) // nil: never
	Timeout time.Duration                                                  // of an attempt; 0: none
	Cache   *Cache                                                         // its key is made of nil and Input
	Usable  func(data json.RawMessage) bool                                // whether what the cache has is a result
}

// planned is a call of Do that has its name in the records: what it is called with and
// how often that was done before tell it from others, and not who comes first.
type planned struct {
	Do
	base string
	nth  int
}

func (p *planned) name() string {
	if p.nth == 1 {
		return p.base
	}
	return p.base + "#" + strconv.Itoa(p.nth)
}

// plainName returns the name of a sub-step by that of its record, in its scope.
func plainName(record string) string {
	if m := ofDo.FindStringSubmatch(record); m != nil {
		return m[1]
	}
	return record
}

var ofDo = regexp.MustCompile(`(?s)^(.*)\([0-9a-f]{24}\)(?:#[0-9]+)?$`)

func (t *Task) plan(ctx context.Context, do Do) (*planned, error) {
	if err := t.canRecord(ctx, do.Call, do.Name, do.Run == nil); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(do.Input)
	p := &planned{Do: do, base: scopeOf(ctx) + do.Name + "(" + hex.EncodeToString(sum[:12]) + ")"}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.waiting(); err != nil {
		return nil, err
	}
	p.nth = t.talking().nth("did", p.base)
	return p, nil
}

// failed lets the next call try again what this one could not do.
func (p *planned) failed(t *Task) {
	t.mu.Lock()
	if at := [2]string{"did", p.base}; t.talk.times[at] == p.nth {
		t.talk.times[at]--
	}
	t.mu.Unlock()
}

// Do returns the recorded result of a sub-step, or runs it and records its result.
func (t *Task) Do(ctx context.Context, do Do) (json.RawMessage, error) {
	p, err := t.plan(ctx, do)
	if err != nil {
		return nil, err
	}
	return t.do(ctx, p)
}

func (t *Task) do(ctx context.Context, p *planned) (json.RawMessage, error) {
	name, c := p.name(), call{p.Call, p.Name, p.Input}
	data, err := t.recorded(ctx, c, name, func(id onceID) (json.RawMessage, error) {
		d := &doing{planned: p, t: t, ctx: ctx, id: id}
		d.tell(TaskStarted, nil, nil)
		data, err := t.effect(ctx, c, id, d.run)
		if err == nil {
			d.tell(TaskEnded, data, nil)
		} else if asks := new(*Interrupted); !errors.As(err, asks) {
			d.tell(TaskFailed, nil, err)
		}
		return data, err
	})
	if err != nil {
		p.failed(t)
	}
	return data, err
}

// doing is a sub-step that runs.
type doing struct {
	*planned
	t       *Task
	ctx     context.Context
	id      onceID
	start   time.Time
	attempt int // 0: the cache had its result
	data    json.RawMessage
}

func (d *doing) run() (json.RawMessage, error) {
	key, data, err := d.cached()
	if err != nil || data != nil {
		return data, err
	}
	v, attempt, err := d.t.s.try(d.ctx, d, d.Retry, 1)
	if v == failed {
		return nil, &NodeError{Node: d.Name, Path: d.t.s.o.childPath(d.t.node), Step: d.t.at.step(), Attempt: attempt, Payload: d.Input, Err: err}
	}
	if err == nil && key != "" {
		_ = d.Cache.Store.Set(d.ctx, key, d.data, d.Cache.TTL) // as of a node
	}
	return d.data, err
}

// cached looks a result up, nil if there is none.
func (d *doing) cached() (key string, data json.RawMessage, err error) {
	if d.Cache == nil {
		return "", nil, nil
	}
	if key, err = d.Cache.Key(nil, d.Input); err != nil {
		return "", nil, fmt.Errorf("cache key: %w", err)
	}
	data, ok, err := d.Cache.Store.Get(d.ctx, key)
	if err != nil || !ok || !d.Usable(data) {
		return key, nil, err
	}
	if d.t.s.o.Trace != nil {
		_, end := d.enter(0)
		end(Outcome{Cached: true})
	}
	return key, data, nil
}

// told names the sub-step in what is told of it; see Event.Do.
func (d *doing) told() string {
	sum := sha256.Sum256([]byte(d.id.name))
	return hex.EncodeToString(sum[:6])
}

func (d *doing) enter(attempt int) (context.Context, func(Outcome)) {
	t := d.t
	p := t.s.part(PartAttempt)
	p.Path, p.Node, p.Do, p.Attempt = t.s.o.childPath(t.node), d.Name, d.told(), attempt
	p.Task, p.Step, p.Epoch, p.Tags = t.index(), t.at.step(), t.at.epoch, t.Tags(d.ctx)
	return t.s.o.Trace(d.ctx, p)
}

func (d *doing) try(ctx context.Context, attempt int) (verdict, error) {
	if attempt > 1 {
		if err := d.t.over(); err != nil {
			return ended, err
		}
	}
	d.attempt = attempt
	data, err := d.bounded(&doContext{ctx, d, attempt})
	switch {
	case err == nil:
		d.data = data
		return succeeded, nil
	case errors.As(err, new(*Interrupted)), d.ctx.Err() != nil && causedBy(d.ctx, err), misconfigured(err):
		return ended, err
	}
	return failed, err
}

func (d *doing) outcome(err error) Outcome {
	if asks := new(*Interrupted); errors.As(err, asks) {
		return Outcome{Err: err, Questions: []checkpoint.Question{(*asks).Question}}
	}
	return Outcome{Err: err, Cancelled: !misconfigured(err)}
}

// bounded calls the function with its limit of time, for which it gets a goroutine of
// its own. The end of the task's time leaves nothing behind: it is an effect.
func (d *doing) bounded(ctx context.Context) (data json.RawMessage, err error) {
	call := func(ctx context.Context) (data json.RawMessage, err error) {
		err = Safely(func() (err error) {
			data, err = d.Run(ctx)
			return err
		})
		return data, err
	}
	if d.Timeout <= 0 {
		return call(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over := make(chan struct{})
	late := &TimeoutError{Node: d.t.node.Name + "/" + d.Name, Kind: "node", Limit: d.Timeout}
	timer := time.AfterFunc(d.Timeout, func() {
		cancel(late)
		close(over)
	})
	defer timer.Stop()
	data, err = abandonable(over, func() (json.RawMessage, error) { return call(ctx) }, func() error { return late })
	if err != nil && context.Cause(ctx) == error(late) {
		return nil, late
	}
	return data, err
}

func (d *doing) again(attempt int, err error, delay time.Duration) bool {
	if ev := d.event(TaskRetried); ev != nil {
		ev.Err, ev.Delay, ev.Attempt = err, delay, attempt
		d.t.s.o.Bus.Send(ev)
	}
	return true
}

func (d *doing) cancelled(error) {}

// event returns an event of the sub-step, nil if nobody wants it or the attempt of its
// task is over.
func (d *doing) event(kind Kind) *Event {
	t, o := d.t, &d.t.s.o
	if !o.Bus.wants(kind) || t.over() != nil {
		return nil
	}
	ev := t.s.eventAt(kind, t.at.step(), t.index(), t.at.epoch, time.Now())
	ev.Path, ev.Within = o.childPath(t.node), append(slices.Clip(o.within), checkpoint.Segment(t.node.Name, t.taskID(), ""))
	ev.Node, ev.Do, ev.Tags = d.Name, d.told(), t.Tags(d.ctx)
	return ev
}

// tell tells that the sub-step starts, has ended or has failed.
func (d *doing) tell(kind Kind, data json.RawMessage, err error) {
	ev := d.event(kind)
	if kind == TaskStarted {
		if d.start = time.Now(); ev != nil {
			ev.Payload = d.Input
		}
	} else if ev != nil {
		ev.Attempt, ev.Update, ev.Err, ev.Cached = d.attempt, data, err, d.attempt == 0 && err == nil
		ev.Duration = ev.Time.Sub(d.start)
	}
	if ev != nil {
		d.t.s.o.Bus.Send(ev)
	}
}

type doKey struct{}

// doContext is the context of an attempt of a sub-step.
type doContext struct {
	context.Context
	d       *doing
	attempt int
}

func (c *doContext) Value(key any) any {
	switch key.(type) {
	case doKey:
		return c
	case noAskKey:
		return "inside Do"
	}
	return c.Context.Value(key)
}

// Doing returns the sub-step whose function was called with ctx or a context made
// from it, with its idempotency key. Without one, ok is false.
func Doing(ctx context.Context) (name, key string, attempt int, ok bool) {
	c, ok := ctx.Value(doKey{}).(*doContext)
	if !ok {
		return "", "", 0, false
	}
	return c.d.Name, c.d.t.idempotencyKey(c.d.id), c.attempt, true
}

// Future is a sub-step that runs beside its task.
type Future struct {
	done   chan struct{}
	cancel context.CancelCauseFunc
	asked  atomic.Bool // somebody waits, and sees the error
	data   json.RawMessage
	err    error
}

// Go is Do on a goroutine of its own. What tells the sub-step from others is settled
// when it returns. With one place for tasks it has then ended, too. An err is what it
// comes to.
func (t *Task) Go(ctx context.Context, do Do, err error) *Future {
	f := &Future{done: make(chan struct{})}
	ctx, f.cancel = context.WithCancelCause(ctx)
	var p *planned
	if err == nil {
		p, err = t.plan(ctx, do)
	}
	limit := cmp.Or(max(t.s.o.Concurrency, 0), DefaultConcurrency)
	t.mu.Lock()
	if err == nil && t.ended {
		err = ErrLate
	}
	k := t.talking()
	if k.places == nil {
		k.places = make(chan struct{}, limit)
	}
	places := k.places
	k.futures = append(k.futures, f)
	t.going.Store(true)
	t.mu.Unlock()
	run := func() {
		defer close(f.done)
		defer f.cancel(nil)
		if f.err = err; err != nil {
			return
		}
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			f.err = context.Cause(ctx)
			return
		}
		defer func() { <-places }()
		f.err = errExited
		f.data, f.err = t.do(ctx, p)
	}
	if limit == 1 || err != nil {
		run()
	} else {
		go run()
	}
	return f
}

// Wait returns the sub-step's result.
func (f *Future) Wait(ctx context.Context) (json.RawMessage, error) {
	f.asked.Store(true)
	select {
	case <-f.done:
		return f.data, f.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// await waits for the futures of a node that has come to err. If it has failed they are
// cancelled; an error that nobody has waited for is the node's.
func (t *Task) await(err error) error {
	for i := 0; ; i++ {
		t.mu.Lock()
		futures, asks := t.talk.futures, t.talk.open != nil
		t.mu.Unlock()
		if i == len(futures) {
			return err
		}
		f := futures[i]
		if err != nil && !asks {
			for _, f := range futures[i:] {
				f.cancel(err)
			}
		}
		<-f.done
		if err == nil && !f.asked.Load() {
			err = f.err
		}
	}
}
