package session

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
)

// State is the state of the session in which a run works, of all scopes. It has
// what was stored when the run began and what the run itself has written since.
// It is safe for concurrent use.
//
// What a node writes is seen at once by all nodes of the run, in the same
// superstep too: who depends on an order puts the value into the graph's state.
// Values of the session, the user and the app are stored before Set returns, each
// as an event of the session, and stay even if the node then fails; a node that
// runs again writes them again. Temporary values are never stored, so a run that
// resumes another one doesn't have them.
//
// What nodes store is yielded by the run as a [KindState]; what callbacks of the
// runner store isn't.
type State struct {
	service Service
	key     Key
	run     string
	agent   string

	// writing is held by who stores values, so that values has them in the order
	// in which they were stored.
	writing chan struct{}

	mu     sync.RWMutex
	values map[string]json.RawMessage
}

func newState(service Service, key Key, run, agent string, values map[string]json.RawMessage) *State {
	if values == nil {
		values = map[string]json.RawMessage{}
	}
	return &State{service: service, key: key, run: run, agent: agent, values: values, writing: make(chan struct{}, 1)}
}

// From returns the state of the session, in a node of a graph that a [Runner]
// runs. Elsewhere there is an error that wraps [graph.ErrNotInNode] or a
// [*graph.MissingDepsError].
func From(ctx context.Context) (*State, error) {
	s, err := graph.Deps[*State](ctx)
	if err != nil {
		return nil, fmt.Errorf("no session: the graph is not run by a session.Runner: %w", err)
	}
	return s, nil
}

var _ agent.Values = (*State)(nil)

// Session names the session.
func (s *State) Session() Key { return s.key }

// Run returns the ID of the call of [Runner.Run].
func (s *State) Run() string { return s.run }

// Events returns events of the session as they are stored now.
func (s *State) Events(ctx context.Context, w Window) ([]Event, error) {
	sess, err := s.service.Get(ctx, s.key, w)
	if err != nil {
		return nil, err
	}
	return sess.Events, nil
}

// Get returns the value of a key, and whether there is one.
func (s *State) Get(key string) (json.RawMessage, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	v, ok := s.values[key]
	return append(json.RawMessage(nil), v...), ok
}

// Value implements [agent.Values].
func (s *State) Value(_ context.Context, name string) (any, bool) {
	v, ok := s.Get(name)
	return v, ok
}

// ValueOf returns the value of a key as a T, and whether there is one.
func ValueOf[T any](s *State, key string) (v T, ok bool, err error) {
	data, ok := s.Get(key)
	if !ok {
		return v, false, nil
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return v, true, fmt.Errorf("session state %q: %w", key, err)
	}
	return v, true, nil
}

// Set sets the value of a key, which is encoded as JSON; nil removes it.
func (s *State) Set(ctx context.Context, key string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("%w: the value of state key %q: %w", ErrInvalid, key, err)
	}
	return s.set(ctx, map[string]json.RawMessage{key: data})
}

// Delete removes a key. An unknown one is no error.
func (s *State) Delete(ctx context.Context, key string) error { return s.Set(ctx, key, nil) }

func (s *State) set(ctx context.Context, delta map[string]json.RawMessage) error {
	lasting := map[string]json.RawMessage{}
	for k, v := range delta {
		name := k
		for _, scope := range []string{ScopeApp, ScopeUser, ScopeTemp} {
			name = strings.TrimPrefix(name, scope)
		}
		if err := checkName("state key", name); err != nil {
			return err
		}
		if strings.HasPrefix(k, "_") {
			return fmt.Errorf("%w: the state key %q begins with _: these describe events", ErrInvalid, k)
		}
		if !strings.HasPrefix(k, ScopeTemp) {
			lasting[k] = v
		}
	}
	if len(lasting) == 0 {
		s.change(delta)
		return nil
	}
	var info graph.TaskInfo
	running, err := From(ctx)
	inside := err == nil && running == s // and not in a node of some other run
	if inside {
		info = graph.Info(ctx)
	}
	ev := &Event{
		Run: s.run, Kind: KindState, Author: info.Node, Node: info.Node, Path: info.Path, Task: info.Task,
		Step: info.Step, Attempt: info.Attempt, StateDelta: lasting,
	}
	if ev.Author == "" {
		ev.Author = s.agent
	}
	if err := s.store(ctx, ev, delta); err != nil {
		return err
	}
	if !inside {
		return nil
	}
	return graph.Emit(ctx, ev)
}

// store appends an event and then shows the change that it is part of.
func (s *State) store(ctx context.Context, ev *Event, delta map[string]json.RawMessage) error {
	select {
	case s.writing <- struct{}{}:
		defer func() { <-s.writing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := s.service.AppendEvent(ctx, s.key, ev); err != nil {
		return err
	}
	s.change(delta)
	return nil
}

func (s *State) change(delta map[string]json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, v := range delta {
		if len(v) == 0 || string(v) == "null" {
			delete(s.values, k)
		} else {
			s.values[k] = v
		}
	}
}
