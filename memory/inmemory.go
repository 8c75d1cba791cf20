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

// InMemory is a [Store] in the memory of the process.
type InMemory struct {
	config Config

	mu      sync.RWMutex
	items   map[string]map[string]*entry // by namespace and key
	version int64
	closed  bool
}

var _ Store = (*InMemory)(nil)

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
	return &InMemory{config: c, items: make(map[string]map[string]*entry)}, nil
}

// find returns a live item or nil.
func (s *InMemory) find(namespace, key string, now time.Time) *entry {
	if e := s.items[namespace][key]; e != nil && e.live(now) {
		return e
	}
	return nil
}

// Get implements [Store].
func (s *InMemory) Get(ctx context.Context, namespace []string, key string, opts ...GetOptions) (Item, error) {
	p, err := s.config.PrepareGet(ctx, namespace, key, opts)
	if err != nil {
		return Item{}, err
	}
	defer s.lock(p.Refresh)()
	if s.closed {
		return Item{}, ErrClosed
	}
	now := s.config.Time()
	e := s.find(p.Namespace, p.Key, now)
	if e == nil {
		return Item{}, &NotFoundError{Namespace: slices.Clone(namespace), Key: key}
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
func (s *InMemory) lock(write bool) (unlock func()) {
	if write {
		s.mu.Lock()
		return s.mu.Unlock
	}
	s.mu.RLock()
	return s.mu.RUnlock
}

// Put implements [Store].
func (s *InMemory) Put(ctx context.Context, namespace []string, key string, value json.RawMessage, opts ...PutOptions) (Item, error) {
	p, err := s.config.PreparePut(ctx, namespace, key, value, opts)
	if err != nil {
		return Item{}, err
	}
	defer s.lock(true)()
	if s.closed {
		return Item{}, ErrClosed
	}
	now := s.config.Time()
	old := s.find(p.Namespace, p.Key, now)
	if err := met(p.IfVersion, p.IfAbsent, old, namespace, key); err != nil {
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
func met(version int64, absent bool, old *entry, namespace []string, key string) error {
	var have int64
	if old != nil {
		have = old.version
	}
	if absent && old != nil || version > 0 && have != version {
		return &ConflictError{Namespace: slices.Clone(namespace), Key: key, Want: version, Have: have}
	}
	return nil
}

// Delete implements [Store].
func (s *InMemory) Delete(ctx context.Context, namespace []string, key string, opts ...DeleteOptions) error {
	p, err := s.config.PrepareDelete(ctx, namespace, key, opts)
	if err != nil {
		return err
	}
	defer s.lock(true)()
	if s.closed {
		return ErrClosed
	}
	if err := met(p.IfVersion, false, s.find(p.Namespace, p.Key, s.config.Time()), namespace, key); err != nil {
		return err
	}
	s.remove(p.Namespace, p.Key)
	return nil
}

func (s *InMemory) remove(namespace, key string) {
	delete(s.items[namespace], key)
	if len(s.items[namespace]) == 0 {
		delete(s.items, namespace)
	}
}

// Search implements [Store].
func (s *InMemory) Search(ctx context.Context, prefix []string, q Query) ([]Item, error) {
	p, err := s.config.PrepareSearch(ctx, prefix, q)
	if err != nil {
		return nil, err
	}
	defer s.lock(p.Refresh)()
	if s.closed {
		return nil, ErrClosed
	}
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
	out := []Item{}
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

// Namespaces implements [Store].
func (s *InMemory) Namespaces(ctx context.Context, q NamespaceQuery) ([][]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := q.Check(); err != nil {
		return nil, err
	}
	defer s.lock(false)()
	if s.closed {
		return nil, ErrClosed
	}
	now, root := s.config.Time(), Join(q.Root())
	var all [][]string
	for ns, items := range s.items {
		if !within(ns, root) {
			continue
		}
		for _, e := range items {
			if e.live(now) {
				all = append(all, Split(ns))
				break
			}
		}
	}
	return q.Select(all), nil
}

// Sweep implements [Store].
func (s *InMemory) Sweep(ctx context.Context) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	defer s.lock(true)()
	if s.closed {
		return 0, ErrClosed
	}
	now, n := s.config.Time(), 0
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

// Close implements [Store]. What was stored is gone.
func (s *InMemory) Close() error {
	defer s.lock(true)()
	if s.closed {
		return ErrClosed
	}
	s.closed, s.items = true, nil
	return nil
}
