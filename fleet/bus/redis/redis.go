// Package redis is a bus for the events of a fleet's workers in a Redis server, 6.0 or
// newer.
//
// A thread that somebody follows has a stream of its newest batches, about a thousand,
// which is gone a minute after the last. A process publishes in which threads there is
// something new, and has a connection that hears so once it has followed one. Redis Cluster is
// not supported.
package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/superstep-dev/superstep/fleet/bus"
	"github.com/superstep-dev/superstep/fleet/bus/internal/logged"
	"github.com/superstep-dev/superstep/internal/options"
	"github.com/superstep-dev/superstep/internal/redisdb"
)

// Options changes how a server is used. The zero value is fine.
type Options struct {
	// Prefix begins all keys; "" means "superstep-bus:".
	Prefix string
}

const (
	name          = "fleet/bus/redis"
	defaultPrefix = "superstep-bus:"
	most          = 1000 // batches of a thread, about
)

// Bus is a [bus.Bus] in a Redis server.
type Bus struct {
	logged *logged.Bus
	log    *streams
}

var _ bus.Bus = (*Bus)(nil)

// Open connects to the server at a URL such as redis://user:password@host:6379/0.
func Open(ctx context.Context, rawURL string, opts ...Options) (*Bus, error) {
	c, err := redisdb.ParseURL(rawURL)
	if err != nil {
		return nil, fmt.Errorf("%s: open: %w; %s", name, err, redisdb.FixURL)
	}
	client := goredis.NewClient(c)
	b, err := New(ctx, client, opts...)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	b.log.own = true
	return b, nil
}

// New uses a client that is open already, and leaves it open on Close. A client for a
// cluster, or a ring of servers, is refused.
func New(ctx context.Context, client goredis.UniversalClient, opts ...Options) (*Bus, error) {
	o, err := options.Only(name, opts)
	if err != nil {
		return nil, err
	}
	place, err := redisdb.Place(client)
	if err != nil {
		return nil, fmt.Errorf("%s: open: %w; %s", name, err, redisdb.FixPlace)
	}
	l := &streams{client: client, prefix: cmp.Or(o.Prefix, defaultPrefix), server: cmp.Or(place, "server")}
	if err := client.Ping(ctx).Err(); err != nil {
		return nil, l.failed("open", err)
	}
	return &Bus{logged.New(l, l), l}, nil
}

// Publish implements [bus.Bus].
func (b *Bus) Publish(ctx context.Context, thread string, batch []byte) error {
	return b.logged.Publish(ctx, thread, batch)
}

// Subscribe implements [bus.Bus].
func (b *Bus) Subscribe(ctx context.Context, thread string) (bus.Subscription, error) {
	return b.logged.Subscribe(ctx, thread)
}

// Close ends all subscriptions, and the connections that [Open] made.
func (b *Bus) Close() error {
	b.logged.Close()
	if !b.log.own {
		return nil
	}
	if err := b.log.client.Close(); !errors.Is(err, goredis.ErrClosed) { // or it was closed before
		return b.log.failed("close", err)
	}
	return nil
}

// streams is a [logged.Log] and its [follow.Wire]. A thread that is wanted has a key with the ID of its newest
// batch.
type streams struct {
	client goredis.UniversalClient
	own    bool
	prefix string
	server string
}

func (s *streams) failed(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %s %s: %w", name, op, s.server, err)
}

func (s *streams) newest(thread string) string  { return s.prefix + "newest:" + thread }
func (s *streams) batches(thread string) string { return s.prefix + "batches:" + thread }

var publish = goredis.NewScript(`
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local id = redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[2], '*', 'b', ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
redis.call('SET', KEYS[1], id, 'KEEPTTL')
return 1`)

func (s *streams) Publish(ctx context.Context, thread string, batch []byte) (wanted bool, err error) {
	wanted, err = publish.Run(ctx, s.client, []string{s.newest(thread), s.batches(thread)}, batch, most, logged.Kept.Milliseconds()).Bool()
	return wanted, s.failed("publish to", err)
}

// want begins where the stream ends that may be left from before, or else at its
// beginning.
var want = goredis.NewScript(`
for i = 1, #KEYS, 2 do
	if redis.call('PEXPIRE', KEYS[i], ARGV[1]) == 0 then
		local at, last = '0-0', redis.call('XREVRANGE', KEYS[i+1], '+', '-', 'COUNT', 1)
		if #last > 0 then at = last[1][1] end
		redis.call('SET', KEYS[i], at, 'PX', ARGV[1])
	end
end
return 1`)

func (s *streams) Want(ctx context.Context, threads []string) error {
	var keys []string
	for _, thread := range threads {
		keys = append(keys, s.newest(thread), s.batches(thread))
	}
	return s.failed("subscribe to", want.Run(ctx, s.client, keys, logged.Wanted.Milliseconds()).Err())
}

func (s *streams) Newest(ctx context.Context, threads []string) (map[string]string, error) {
	out := map[string]string{}
	if len(threads) == 0 {
		return out, nil
	}
	var keys []string
	for _, thread := range threads {
		keys = append(keys, s.newest(thread))
	}
	found, err := s.client.MGet(ctx, keys...).Result()
	for i, id := range found {
		if id, ok := id.(string); ok {
			out[threads[i]] = id
		}
	}
	return out, s.failed("read", err)
}

func (s *streams) Read(ctx context.Context, thread, after string) (batches [][]byte, last string, err error) {
	found, err := s.client.XRead(ctx, &goredis.XReadArgs{Streams: []string{s.batches(thread), after}, Block: -1}).Result()
	if errors.Is(err, goredis.Nil) {
		return nil, "", nil
	}
	for _, stream := range found {
		for _, m := range stream.Messages {
			data, _ := m.Values["b"].(string)
			batches, last = append(batches, []byte(data)), m.ID
		}
	}
	return batches, last, s.failed("read", err)
}

func (s *streams) channel() string { return s.prefix + "news" }

// Send implements [follow.Wire].
func (s *streams) Send(ctx context.Context, text string) error {
	return s.client.Publish(ctx, s.channel(), text).Err()
}

// Receive implements [follow.Wire]. A connection that was lost is lost here, though the
// client would make another.
func (s *streams) Receive(ctx context.Context, up func(), got func(text string)) error {
	sub := s.client.Subscribe(ctx, s.channel())
	defer sub.Close()
	defer context.AfterFunc(ctx, func() { sub.Close() })() // which ends waiting
	for {
		switch m, err := sub.ReceiveTimeout(ctx, quiet); m := m.(type) {
		case *goredis.Subscription:
			up()
		case *goredis.Message:
			got(m.Payload)
		case *goredis.Pong:
		default: // nil
			timeout := net.Error(nil)
			if !errors.As(err, &timeout) || !timeout.Timeout() {
				return err
			}
			if err := sub.Ping(ctx); err != nil {
				return err
			}
		}
	}
}

// quiet is after which time without texts the connection is looked after.
const quiet = 30 * time.Second
