package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Service keeps sessions. It is safe for concurrent use, by several processes if
// it keeps them outside of its own.
type Service interface {
	// Create makes a session with a state, whose keys may be of any scope but
	// "temp:", which is left out. An empty ID in the key stands for a new one.
	// A session that is there already is an [ErrExists].
	Create(ctx context.Context, key Key, state map[string]json.RawMessage) (*Session, error)

	// Get returns a session as it is: its state of all scopes, and its events as
	// far as w wants them, oldest first. Without w these are all events. For an
	// unknown or expired session there is a [*NotFoundError].
	Get(ctx context.Context, key Key, w ...Window) (*Session, error)

	// List yields the sessions of a user, in the order of the bytes of their IDs.
	// Sessions that are made or deleted meanwhile may be among them or not. An
	// error, such as the end of the context, is yielded once, as the last pair.
	List(ctx context.Context, app, user string) iter.Seq2[Info, error]

	// Delete removes a session with its events and its own state. The state of the
	// user and of the app stays. An unknown session is no error.
	Delete(ctx context.Context, key Key) error

	// AppendEvent appends an event and applies its StateDelta, as one: both
	// happen or neither. Appends to one session come one after the other; none
	// is lost. What the event lacks of ID, Seq and Time is set in it. An
	// event whose ID the session has is not appended again, and gets the Seq
	// that it has; so an append whose outcome is unknown can be repeated.
	// Partial events are refused. For an unknown or expired session there is a
	// [*NotFoundError].
	AppendEvent(ctx context.Context, key Key, ev *Event) error

	// Close ends the service. Other calls then return [ErrClosed].
	Close() error
}

// Key names a session. All of it must be set, valid UTF-8 without zero bytes, and
// each part at most [MaxName] bytes long.
type Key struct {
	App  string `json:"app"`
	User string `json:"user"`
	ID   string `json:"id"`
}

// MaxName is the most bytes that a part of a [Key] and a key of a state may have.
const MaxName = 512

func (k Key) String() string { return fmt.Sprintf("%q of user %q of %q", k.ID, k.User, k.App) }

// Check reports an [ErrInvalid] if the key names no session.
func (k Key) Check() error {
	for _, p := range []struct{ what, name string }{{"app", k.App}, {"user", k.User}, {"session ID", k.ID}} {
		if err := checkName(p.what, p.name); err != nil {
			return err
		}
	}
	return nil
}

// CheckUser is Check without the ID.
func (k Key) CheckUser() error { return Key{k.App, k.User, "any"}.Check() }

func checkName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: the %s is empty", ErrInvalid, what)
	case len(name) > MaxName:
		return fmt.Errorf("%w: the %s has %d bytes, more than %d", ErrInvalid, what, len(name), MaxName)
	case !utf8.ValidString(name) || strings.ContainsRune(name, 0):
		return fmt.Errorf("%w: the %s %q is not UTF-8 or has a zero byte", ErrInvalid, what, name)
	}
	return nil
}

// NewID returns a fresh session ID, a UUID that sorts by time.
func NewID() string {
	u, err := uuid.NewV7()
	if err != nil {
		return uuid.NewString()
	}
	return u.String()
}

// Info describes a session.
type Info struct {
	Key
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"` // when the last event was appended
	Seq     int64     `json:"seq"`     // of the last event; 0 if there is none

	// Synced is the highest Synced of the session's events.
	Synced int64 `json:"synced,omitempty"`
}

// Session is a session at one moment. It is the caller's own copy.
type Session struct {
	Info

	// State has the values of all stored scopes, those of the user and the app
	// under their keys with the scope.
	State map[string]json.RawMessage `json:"state,omitempty"`

	Events []Event `json:"events,omitempty"`
}

// Window says which events of a session are wanted: those that meet all that is
// set.
type Window struct {
	// Last, if positive, wants only the newest of what the rest selects. If
	// negative, no events are wanted.
	Last int

	Since time.Time // only events of this time or later
	After int64     // only events with a higher Seq
}

// Only returns the one Window that was given to [Service.Get]. It is for those
// who implement that.
func Only(w []Window) (Window, error) {
	switch len(w) {
	case 0:
		return Window{}, nil
	case 1:
		return w[0], nil
	}
	return Window{}, fmt.Errorf("%w: more than one Window", ErrInvalid)
}

// Cut returns the newest events of a list, oldest first, that w wants. It is for
// those who implement [Service.Get].
func (w Window) Cut(events []Event) []Event {
	out := events[:0:0]
	for _, e := range events {
		if w.Last >= 0 && e.Seq > w.After && !e.Time.Before(w.Since) {
			out = append(out, e)
		}
	}
	if w.Last > 0 && len(out) > w.Last {
		out = out[len(out)-w.Last:]
	}
	return out
}

// The scopes of a state's keys; a key without one is the session's.
const (
	ScopeApp  = "app:"
	ScopeUser = "user:"
	ScopeTemp = "temp:"
)

// Delta is a change of state, by scope: the keys are without theirs. A nil value
// removes the key.
type Delta struct {
	App, User, Session map[string]json.RawMessage
}

// DeltaOf splits a change of state by scope. Keys of the scope "temp:" and those
// that begin with "_", which describe an event, are left out. A JSON null, or
// nothing, removes the key. The error is an [ErrInvalid].
func DeltaOf(state map[string]json.RawMessage) (d Delta, err error) {
	for key, v := range state {
		if strings.HasPrefix(key, "_") || strings.HasPrefix(key, ScopeTemp) {
			continue
		}
		in, name := &d.Session, key
		if rest, ok := strings.CutPrefix(key, ScopeApp); ok {
			in, name = &d.App, rest
		} else if rest, ok := strings.CutPrefix(key, ScopeUser); ok {
			in, name = &d.User, rest
		}
		if err := checkName("state key", name); err != nil {
			return d, err
		}
		v = trim(v)
		switch {
		case len(v) == 0 || string(v) == "null":
			v = nil
		case !json.Valid(v):
			return d, fmt.Errorf("%w: the value of state key %q is not JSON", ErrInvalid, key)
		}
		if *in == nil {
			*in = map[string]json.RawMessage{}
		}
		(*in)[name] = bytes.Clone(v)
	}
	return d, nil
}

// trim removes what JSON takes for space.
func trim(v json.RawMessage) json.RawMessage { return bytes.Trim(v, " \t\r\n") }

// StateOf puts the values of all scopes into one map, under their keys with the
// scope. It is for those who implement a [Service].
func StateOf(app, user, own map[string]json.RawMessage) map[string]json.RawMessage {
	all := make(map[string]json.RawMessage, len(app)+len(user)+len(own))
	maps.Copy(all, own)
	for k, v := range user {
		all[ScopeUser+k] = v
	}
	for k, v := range app {
		all[ScopeApp+k] = v
	}
	return all
}

// Errors of services and runners, to be tested with errors.Is.
var (
	// ErrNotFound: there is no such session, or it has expired.
	ErrNotFound = errors.New("session not found")

	// ErrExists: a session of this name is there already.
	ErrExists = errors.New("session exists")

	// ErrInvalid: a name, an event or a value can't be what it is to be.
	ErrInvalid = errors.New("invalid session data")

	// ErrBusy: another run is working in the session.
	ErrBusy = errors.New("session is busy")

	// ErrClosed: the service was closed.
	ErrClosed = errors.New("session service is closed")
)

// NotFoundError says which session there is none of.
type NotFoundError struct{ Key Key }

func (e *NotFoundError) Error() string { return fmt.Sprintf("%v: %v", ErrNotFound, e.Key) }

// Is reports whether target is [ErrNotFound].
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// ExistsError says which session is there already.
type ExistsError struct{ Key Key }

func (e *ExistsError) Error() string { return fmt.Sprintf("%v: %v", ErrExists, e.Key) }

// Is reports whether target is [ErrExists].
func (e *ExistsError) Is(target error) bool { return target == ErrExists }
