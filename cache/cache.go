// Package cache keeps results of nodes, so that a node need not run again on the
// same input: what graph.Cache takes. [Memory] is for one process; packages
// cache/sqlite and cache/redis keep results for several.
package cache

import (
	"context"
	"errors"
	"time"
)

// ErrClosed says that a store was closed.
var ErrClosed = errors.New("cache: store is closed")

// Store keeps bytes by key. It is safe for concurrent use. It may lose any entry at
// any time, as when it is full, but doesn't return one whose time is over, that was
// cleared or that was set anew.
//
// Keys are any bytes. Those that graphs make begin with the name of the graph and that
// of the node, a slash after each; slashes and percent signs in names are written %2F
// and %25.
type Store interface {
	// Get returns what was set. The caller doesn't change it.
	Get(ctx context.Context, key string) (data []byte, ok bool, err error)

	// Set keeps data, in place of what the key has. A TTL of 0 means for ever; of
	// others, stores may round up to whole milliseconds. The caller may change data
	// afterwards.
	Set(ctx context.Context, key string, data []byte, ttl time.Duration) error

	// Clear forgets all entries whose keys begin with a prefix, "" meaning all. What
	// is set while it runs may stay.
	Clear(ctx context.Context, prefix string) error
}
