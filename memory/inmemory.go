package memory

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"
)

// InMemory is a [Store] in the memory of the process. What was stored is gone when it is
// closed.
type InMemory struct{ Store }

// held is a [Backend] in memory.
type held struct {
	config Config

	mu      sync.RWMutex
	items   map[string]map[string]*entry // by namespace and key
	version int64
}

// entry is an item. All but expires is never changed.
type entry struct {
	namespace, key   string
	value            json.RawMessage
	created, updated time.Time
	expires          time.Time // zero: never
	ttl              time.Duration
	version          int64
	vectors          [][]float32
}

func (e *entry) live(now time.Time) bool { return e.expires.IsZero() || now.Before(e.expires) }

func (e *entry) item(score float64) Item {
	return Item{
		Namespace: Split(e.namespace), Key: e.key, Value: bytes.Clone(e.value),
		CreatedAt: e.created, UpdatedAt: e.updated, ExpiresAt: e.expires, Version: e.version, Score: score,
	}
}

// NewInMemory returns an empty store. It takes at most one Config.
func NewInMemory(config ...Config) (*InMemory, error) {
	c, err := one(config)
	if err != nil {
		return nil, err
	}
	if err := c.Check(); err != nil {
		return nil, err
	}
	return &InMemory{Over(&held{config: c, items: make(map[string]map[string]*entry)}, c)}, nil
}

// find returns a live item or nil.
func (s *held) find(namespace, key string, now time.Time) *entry {
	if e := s.items[namespace][key]; e != nil && e.live(now) {
		return e
	}
	return nil
}

// Get implements [Backend].
func (s *held) Get(_ context.Context, p *PreparedGet) (Item, error) {
	defer s.lock(p.Refresh)()
	now := s.config.Time()
	e := s.find(p.Namespace, p.Key, now)
	if e == nil {
		return Item{}, nil
	}
	if p.Refresh {
		e.refresh(now)
	}
	return e.item(0), nil
}

func (e *entry) refresh(now time.Time) {
	if until := now.Add(e.ttl); e.ttl > 0 && until.After(e.expires) {
		e.expires = until
	}
}

// lock locks for reading or also for writing, and returns how to unlock.
func (s *held) lock(write bool) (unlock func()) {
	if write {
		s.mu.Lock()
		return s.mu.Unlock
	}
	s.mu.RLock()
	return s.mu.RUnlock
}

// Put implements [Backend].
func (s *held) Put(_ context.Context, p *PreparedPut) (Item, error) {
	defer s.lock(true)()
	now := s.config.Time()
	old := s.find(p.Namespace, p.Key, now)
	if err := met(p.IfVersion, p.IfAbsent, old, p.Namespace, p.Key); err != nil {
		return Item{}, err
	}
	s.version++
	e := &entry{
		namespace: p.Namespace, key: p.Key, value: p.Value, created: now, updated: now,
		ttl: p.TTL, version: s.version, vectors: p.Vectors,
	}
	if old != nil {
		if p.Keep {
			e.vectors = old.vectors
		}
		e.created = old.created
		if now.Before(e.created) { // the clock went back
			e.updated = e.created
		}
	}
	e.refresh(now)
	if s.items[p.Namespace] == nil {
		s.items[p.Namespace] = make(map[string]*entry)
	}
	s.items[p.Namespace][p.Key] = e
	return e.item(0), nil
}

// met reports a condition that isn't met.
func met(version int64, absent bool, old *entry, namespace, key string) error {
	var have int64
	if old != nil {
		have = old.version
	}
	if absent && old != nil || version > 0 && have != version {
		return &ConflictError{Namespace: Split(namespace), Key: key, Want: version, Have: have}
	}
	return nil
}

// Delete implements [Backend].
func (s *held) Delete(_ context.Context, p *PreparedDelete) error {
	defer s.lock(true)()
	if err := met(p.IfVersion, false, s.find(p.Namespace, p.Key, s.config.Time()), p.Namespace, p.Key); err != nil {
		return err
	}
	s.remove(p.Namespace, p.Key)
	return nil
}

func (s *held) remove(namespace, key string) {
	delete(s.items[namespace], key)
	if len(s.items[namespace]) == 0 {
		delete(s.items, namespace)
	}
}

// Search implements [Backend].
func (s *held) Search(ctx context.Context, p *PreparedSearch) ([]Item, error) {
	defer s.lock(p.Refresh)()
	now, match := s.config.Time(), p.Filter.Matcher()
	looked := 0
	over := func() error { // now and then
		if looked++; looked%lookEvery != 0 {
			return nil
		}
		return ctx.Err()
	}
	var found []*entry
	for ns, items := range s.items {
		if !within(ns, p.Prefix) || p.Exact && ns != p.Prefix {
			continue
		}
		for _, e := range items {
			if err := over(); err != nil {
				return nil, err
			}
			if e.live(now) {
				found = append(found, e)
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var out []Item
	add := func(e *entry, score float64) {
		if p.Refresh {
			e.refresh(now)
		}
		out = append(out, e.item(score))
	}
	if p.Ranked {
		var scored []Scored
		by := make(map[int64]*entry, len(found))
		for _, e := range found {
			if err := over(); err != nil {
				return nil, err
			}
			if p.Vector == nil || len(e.vectors) == 0 || !match(e.value) {
				continue
			}
			by[e.version] = e
			for _, v := range e.vectors {
				scored = append(scored, Scored{e.version, Cosine(p.Vector, v)})
			}
		}
		for _, x := range p.Rank(scored) {
			add(by[x.Version], x.Score)
		}
		return out, ctx.Err()
	}
	slices.SortFunc(found, func(a, b *entry) int { return int(b.version - a.version) })
	skip := p.Offset
	for _, e := range found {
		if len(out) == p.Limit {
			break
		}
		if err := over(); err != nil {
			return nil, err
		}
		if !match(e.value) {
			continue
		}
		if skip > 0 {
			skip--
			continue
		}
		add(e, 0)
	}
	return out, ctx.Err()
}

// lookEvery is after how many items a search looks whether its context has ended.
const lookEvery = 256

// within reports whether a namespace begins with the labels of a prefix.
func within(namespace, prefix string) bool {
	rest, ok := strings.CutPrefix(namespace, prefix)
	return ok && (prefix == "" || rest == "" || strings.HasPrefix(rest, Separator))
}

// Namespaces implements [Backend].
func (s *held) Namespaces(_ context.Context, root string) (all []string, err error) {
	defer s.lock(false)()
	now := s.config.Time()
	for ns, items := range s.items {
		if !within(ns, root) {
			continue
		}
		for _, e := range items {
			if e.live(now) {
				all = append(all, ns)
				break
			}
		}
	}
	return all, nil
}

// Sweep implements [Backend].
func (s *held) Sweep(context.Context) (n int, err error) {
	defer s.lock(true)()
	now := s.config.Time()
	for ns, items := range s.items {
		for key, e := range items {
			if !e.live(now) {
				s.remove(ns, key)
				n++
			}
		}
	}
	return n, nil
}

// Explain implements [Backend]. Its methods return errors of contexts alone.
func (s *held) Explain(_ string, err error) error { return err }

// Close implements [Backend].
func (s *held) Close() error {
	defer s.lock(true)()
	clear(s.items)
	return nil
}
