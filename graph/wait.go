package graph

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/internal/local"
)

// Sleep lets a node's thread rest for a time, be it a second or a year. The
// first time it returns an error, which the node must return: the thread is
// parked, and costs nothing but its place in the store. When the time has come
// somebody must wake it: a [Runner], in this process or another. The node then
// runs again from its beginning, and Sleep returns nil.
//
// The end of the sleep is recorded when it is first called: crashes, retries and
// the time that a node takes to run again don't delay it. The key tells the
// sleeps of a node apart; using one twice in one execution is an error. While a
// question of the node is open, Sleep returns its error. To sleep until a time, give
// what is left until then: time.Until(t).
//
// Without a checkpointer Sleep waits in place.
func Sleep(ctx context.Context, key string, d time.Duration) error {
	t, err := task(ctx, "Sleep")
	if err != nil {
		return err
	}
	if key == "" {
		return fmt.Errorf("graph.Sleep in node %q needs a key", t.Info().Node)
	}
	_, err = t.Ask(ctx, local.Asking{Key: key, Sleep: true, For: d})
	if !errors.Is(err, ErrNoCheckpointer) {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// WaitFor lets a node's thread rest until an event is sent to it with
// [Thread.SendEvent], and returns the event's value. As with [Interrupt] it
// returns an error first, which the node must return, and the node runs again
// from its beginning when the event has come. An event that was sent before
// anybody waited is kept for the first who does; each event wakes one waiter. One
// whose value can't be decoded into a T is dropped, and the next waited for; if
// there is none, the run ends with an [AnswerError].
// [Deadline] bounds the wait, and is then a [DeadlineError].
//
// The key tells the waits of a node apart, as in [Sleep]; when it is empty it is
// the event's name.
func WaitFor[T any](ctx context.Context, key, event string, opts ...AskOption) (T, error) {
	var zero T
	t, err := task(ctx, "WaitFor")
	if err != nil {
		return zero, err
	}
	if event == "" {
		return zero, fmt.Errorf("graph.WaitFor in node %q needs the name of an event", t.Info().Node)
	}
	if key == "" {
		key = event
	}
	return ask[T](ctx, t, opts, local.Asking{Key: key, Event: event})
}

// SendEvent sends an event to the thread, which must exist. It
// is stored before SendEvent returns, whatever the thread is doing, and reaches
// the first node that waits for it with [WaitFor], now or later. A parked
// thread is not run by SendEvent itself but by a [Runner], or by
// [Requests.Continue]. Events with one name are received in the order stored.
//
// The value is encoded as JSON.
func (h *handle) SendEvent(ctx context.Context, event string, value any) error {
	err := h.stored(ctx)
	switch {
	case err != nil:
		return err
	case event == "":
		return errors.New("graph: SendEvent needs the name of an event")
	case h.set.namespace != "":
		return fmt.Errorf("event %q: %w", event, local.ErrNamespace)
	}
	if !utf8.ValidString(event) {
		return fmt.Errorf("graph: SendEvent: the name %q is not valid UTF-8", event)
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("value of event %q: %w", event, err)
	}
	return local.SendEvent(ctx, h.set.store, h.set.thread, event, raw)
}
