package cache

import (
	"cmp"
	"container/list"
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// DefaultBytes is how many bytes a [Memory] holds unless it says otherwise.
const DefaultBytes = 64 << 20

// Memory is a [Store] in memory. The zero value is ready to use. When it is
// full it drops what was not used for the longest time; entries that have expired
// are dropped when they are looked up as well.
type Memory struct {
	MaxBytes   int // of keys, results and what it takes to find them; 0: DefaultBytes
	MaxEntries int // 0: as many as the bytes allow

	mu      sync.Mutex
	used    list.List // of *memoryEntry, the latest first
	entries map[string]*list.Element
	size    int
}

type memoryEntry struct {
	key     string
	data    []byte
	expires time.Time
}

// entryCost is about what an entry takes beside its key and data.
const entryCost = 256

func (e *memoryEntry) size() int { return len(e.key) + len(e.data) + entryCost }

// Get implements [Store].
func (c *Memory) Get(_ context.Context, key string) ([]byte, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.entries[key]
	if at == nil {
		return nil, false, nil
	}
	e := at.Value.(*memoryEntry)
	if !e.expires.IsZero() && !time.Now().Before(e.expires) {
		c.drop(at)
		return nil, false, nil
	}
	c.used.MoveToFront(at)
	return e.data, true, nil
}

// Set implements [Store]. What is larger than MaxBytes is not kept.
func (c *Memory) Set(_ context.Context, key string, data []byte, ttl time.Duration) error {
	e := &memoryEntry{key: key, data: slices.Clone(data)}
	if ttl > 0 {
		e.expires = time.Now().Add(ttl)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.entries[key]; at != nil {
		c.drop(at)
	}
	limit := cmp.Or(c.MaxBytes, DefaultBytes)
	if e.size() > limit {
		return nil
	}
	if c.entries == nil {
		c.entries = map[string]*list.Element{}
	}
	c.entries[key] = c.used.PushFront(e)
	c.size += e.size()
	for c.size > limit || c.MaxEntries > 0 && len(c.entries) > c.MaxEntries {
		c.drop(c.used.Back())
	}
	return nil
}

// Clear implements [Store]. It takes time in proportion to all entries.
func (c *Memory) Clear(_ context.Context, prefix string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, at := range c.entries {
		if strings.HasPrefix(key, prefix) {
			c.drop(at)
		}
	}
	return nil
}

// drop is called with the lock held.
func (c *Memory) drop(at *list.Element) {
	e := c.used.Remove(at).(*memoryEntry)
	delete(c.entries, e.key)
	c.size -= e.size()
}
