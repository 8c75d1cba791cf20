// Package redis keeps results of nodes in a Redis server, or one that speaks its
// language, for any number of processes.
//
//	results, err := redis.Open(ctx, "redis://user:password@localhost:6379/0")
//
// What bounds the results is the server's maxmemory: with an eviction policy such as
// allkeys-lru it throws away what wasn't used for long. A store of threads may not
// share such a server. Redis Cluster is not supported.
package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/superstep-dev/superstep/cache"
	"github.com/superstep-dev/superstep/internal/options"
	"github.com/superstep-dev/superstep/internal/redisdb"
)

// Options changes how a server is used. The zero value is fine.
type Options struct {
	// Prefix begins all keys; "" means "superstep-cache:". Stores with different
	// prefixes, of which none begins with another, don't see one another.
	Prefix string
}

const (
	defaultPrefix = "superstep-cache:"
	page          = 1000 // keys that Clear looks at at once
)

// Store is a [cache.Store] in a Redis server. The server removes what has expired.
type Store struct {
	client goredis.UniversalClient
	own    bool
	server string
	prefix string
	closed atomic.Bool
}

var _ cache.Store = (*Store)(nil)

// Open connects to the server at a URL such as redis://user:password@host:6379/0,
// rediss:// for TLS, or unix:///path/to/socket. Timeouts and the size of the pool can
// be given in its query, see [goredis.ParseURL].
func Open(ctx context.Context, rawURL string, opts ...Options) (*Store, error) {
	o, err := optionsOf(opts)
	if err != nil {
		return nil, err
	}
	c, err := redisdb.ParseURL(rawURL)
	if err != nil {
		return nil, fmt.Errorf("cache/redis: open: %w; %s", err, redisdb.FixURL)
	}
	client := goredis.NewClient(c)
	s, err := open(ctx, client, o)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	s.own = true
	return s, nil
}

// New uses a client that is open already, and leaves it open on Close. A client for a
// cluster, or a ring of servers, is refused.
func New(ctx context.Context, client goredis.UniversalClient, opts ...Options) (*Store, error) {
	o, err := optionsOf(opts)
	if err != nil {
		return nil, err
	}
	return open(ctx, client, o)
}

func optionsOf(opts []Options) (Options, error) {
	o, err := options.Only("cache/redis", opts)
	if err != nil {
		return o, err
	}
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	return o, nil
}

func open(ctx context.Context, client goredis.UniversalClient, o Options) (*Store, error) {
	place, err := redisdb.Place(client)
	if err != nil {
		return nil, fmt.Errorf("cache/redis: open: %w; %s", err, redisdb.FixPlace)
	}
	s := &Store{client: client, prefix: o.Prefix, server: cmp.Or(place, "server")}
	if err := client.Ping(ctx).Err(); err != nil {
		return nil, s.failed(ctx, "open", err)
	}
	return s, nil
}

func (s *Store) failed(ctx context.Context, op string, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case s.closed.Load() && errors.Is(err, goredis.ErrClosed):
		return cache.ErrClosed
	}
	return fmt.Errorf("cache/redis: %s %s: %w", op, s.server, err)
}

// Get implements [cache.Store].
func (s *Store) Get(ctx context.Context, key string) ([]byte, bool, error) {
	if s.closed.Load() {
		return nil, false, cache.ErrClosed
	}
	data, err := s.client.Get(ctx, s.prefix+key).Bytes()
	if errors.Is(err, goredis.Nil) {
		return nil, false, nil
	}
	return data, err == nil, s.failed(ctx, "get from", err)
}

// Set implements [cache.Store].
func (s *Store) Set(ctx context.Context, key string, data []byte, ttl time.Duration) error {
	if s.closed.Load() {
		return cache.ErrClosed
	}
	if ttl > 0 {
		ttl = (ttl + time.Millisecond - 1).Truncate(time.Millisecond)
	}
	return s.failed(ctx, "set in", s.client.Set(ctx, s.prefix+key, data, max(ttl, 0)).Err())
}

// Clear implements [cache.Store]. It takes time in proportion to all keys of the
// server's database, and doesn't keep the server from other work meanwhile.
func (s *Store) Clear(ctx context.Context, prefix string) error {
	if s.closed.Load() {
		return cache.ErrClosed
	}
	pattern := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s.prefix+prefix) + "*"
	for cursor := uint64(0); ; {
		keys, next, err := s.client.Scan(ctx, cursor, pattern, page).Result()
		if err == nil && len(keys) > 0 {
			err = s.client.Unlink(ctx, keys...).Err()
		}
		if err != nil || next == 0 {
			return s.failed(ctx, "clear", err)
		}
		cursor = next
	}
}

// Close ends the store. Later calls return [cache.ErrClosed].
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return cache.ErrClosed
	}
	if !s.own {
		return nil
	}
	return s.failed(context.Background(), "close", s.client.Close())
}
