package session

import (
	"context"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"
)

// Memory is a [Service] that keeps sessions in memory, for tests and programs
// that may forget. It is made by [NewMemory].
type Memory struct {
	ttl time.Duration

	mu     sync.RWMutex
	closed bool
	swept  time.Time
	users  map[owner]map[string]*kept // sessions by ID
	values map[owner]map[string]json.RawMessage
}

type owner struct{ app, user string } // user empty: the app

type kept struct {
	info   Info
	until  time.Time // zero: for ever
	state  map[string]json.RawMessage
	events [][]byte
	seqs   map[string]int64 // of events, by ID
}

// NewMemory returns a service that keeps sessions in memory. Of several options
// the last holds.
func NewMemory(opts ...ServiceOptions) *Memory {
	m := &Memory{users: map[owner]map[string]*kept{}, values: map[owner]map[string]json.RawMessage{}}
	for _, o := range opts {
		m.ttl = o.TTL
	}
	return m
}

var _ Service = (*Memory)(nil)

func (m *Memory) expired(s *kept) bool { return !s.until.IsZero() && !time.Now().Before(s.until) }

func (m *Memory) touch(s *kept, now time.Time) {
	if s.info.Updated = now; m.ttl > 0 {
		s.until = now.Add(m.ttl)
	}
}

// find returns a session that has not expired.
func (m *Memory) find(key Key) (*kept, error) {
	if m.closed {
		return nil, ErrClosed
	}
	s := m.users[owner{key.App, key.User}][key.ID]
	if s == nil || m.expired(s) {
		return nil, &NotFoundError{key}
	}
	return s, nil
}

// start checks what all calls check.
func start(ctx context.Context, key Key) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return key.Check()
}

// Create implements [Service].
func (m *Memory) Create(ctx context.Context, key Key, state map[string]json.RawMessage) (*Session, error) {
	if key.ID == "" {
		key.ID = NewID()
	}
	if err := start(ctx, key); err != nil {
		return nil, err
	}
	d, err := DeltaOf(state)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.find(key); err == nil {
		return nil, &ExistsError{key}
	} else if m.closed {
		return nil, err
	}
	now := time.Now()
	m.sweep(now)
	s := &kept{info: Info{Key: key, Created: now}, seqs: map[string]int64{}}
	m.touch(s, now)
	of := owner{key.App, key.User}
	if m.users[of] == nil {
		m.users[of] = map[string]*kept{}
	}
	m.users[of][key.ID] = s
	m.apply(s, d)
	return m.show(s, nil), nil
}

// sweep removes sessions that have expired, now and then.
func (m *Memory) sweep(now time.Time) {
	if m.ttl <= 0 || now.Sub(m.swept) < m.ttl {
		return
	}
	m.swept = now
	for of, all := range m.users {
		maps.DeleteFunc(all, func(_ string, s *kept) bool { return m.expired(s) })
		if len(all) == 0 {
			delete(m.users, of)
		}
	}
}

func (m *Memory) apply(s *kept, d Delta) {
	change(&s.state, d.Session)
	of := owner{s.info.App, s.info.User}
	for of, by := range map[owner]map[string]json.RawMessage{of: d.User, {app: of.app}: d.App} {
		if len(by) > 0 {
			values := m.values[of]
			change(&values, by)
			m.values[of] = values
		}
	}
}

func change(values *map[string]json.RawMessage, by map[string]json.RawMessage) {
	for k, v := range by {
		switch {
		case v == nil:
			delete(*values, k)
			continue
		case *values == nil:
			*values = map[string]json.RawMessage{}
		}
		(*values)[k] = v
	}
}

func (m *Memory) show(s *kept, events []Event) *Session {
	app, user := m.values[owner{app: s.info.App}], m.values[owner{s.info.App, s.info.User}]
	state := StateOf(app, user, s.state)
	for k, v := range state {
		state[k] = slices.Clone(v)
	}
	return &Session{Info: s.info, State: state, Events: events}
}

// Get implements [Service].
func (m *Memory) Get(ctx context.Context, key Key, w ...Window) (*Session, error) {
	if err := start(ctx, key); err != nil {
		return nil, err
	}
	win, err := Only(w)
	if err != nil {
		return nil, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	s, err := m.find(key)
	if err != nil {
		return nil, err
	}
	var events []Event
	if win.Last >= 0 {
		from := min(max(int(win.After), 0), len(s.events))
		if win.Last > 0 && win.Since.IsZero() {
			from = max(from, len(s.events)-win.Last)
		}
		for i := from; i < len(s.events); i++ {
			e, err := EventOf(int64(i+1), s.events[i])
			if err != nil {
				return nil, err
			}
			events = append(events, e)
		}
		events = win.Cut(events)
	}
	return m.show(s, events), nil
}

// List implements [Service].
func (m *Memory) List(ctx context.Context, app, user string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		infos, err := m.list(ctx, app, user)
		if err != nil {
			yield(Info{}, err)
			return
		}
		for _, info := range infos {
			if err := ctx.Err(); err != nil {
				yield(Info{}, err)
				return
			}
			if !yield(info, nil) {
				return
			}
		}
	}
}

func (m *Memory) list(ctx context.Context, app, user string) ([]Info, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := (Key{App: app, User: user}).CheckUser(); err != nil {
		return nil, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return nil, ErrClosed
	}
	all := m.users[owner{app, user}]
	var infos []Info
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if !m.expired(all[id]) {
			infos = append(infos, all[id].info)
		}
	}
	return infos, nil
}

// Delete implements [Service].
func (m *Memory) Delete(ctx context.Context, key Key) error {
	if err := start(ctx, key); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	of := owner{key.App, key.User}
	if delete(m.users[of], key.ID); len(m.users[of]) == 0 {
		delete(m.users, of)
	}
	return nil
}

// AppendEvent implements [Service].
func (m *Memory) AppendEvent(ctx context.Context, key Key, ev *Event) error {
	if err := start(ctx, key); err != nil {
		return err
	}
	r, err := ev.Record()
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.find(key)
	if err != nil {
		return err
	}
	if seq, ok := s.seqs[r.ID]; ok {
		ev.Seq = seq
		return nil
	}
	s.events = append(s.events, r.Data)
	s.info.Seq++
	s.info.Synced = max(s.info.Synced, r.Synced)
	s.seqs[r.ID] = s.info.Seq
	m.touch(s, time.Now())
	m.apply(s, r.Delta)
	ev.Seq = s.info.Seq
	return nil
}

// Close implements [Service]. It forgets everything.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	m.closed, m.users, m.values = true, nil, nil
	return nil
}
