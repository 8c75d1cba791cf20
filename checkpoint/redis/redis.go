// Package redis keeps threads in a Redis server, or one that speaks its
// language: version 6.2 or later. Many processes may share it.
//
//	store, err := redis.Open(ctx, "redis://user:password@localhost:6379/0")
//	if err != nil { ... }
//	defer store.Close()
//
// A write is one script that the server runs as a whole, so a crash, of the
// program or of the server, leaves no half of one. Leases are counted by the
// server's clock. A write that got no answer is sent again, and the server tells
// by a token that it has it already. If there is no answer for some seconds, the
// error is [ErrUncertain]; a store need not be opened again when its server was
// away.
//
// # Durability
//
// A server keeps its data in memory, and all threads must fit. What outlives the
// server's process depends on how it is set up:
//
//   - appendonly yes, appendfsync always: an acknowledged write is on the disk,
//     and nothing is lost.
//   - appendonly yes, appendfsync everysec (the usual): a power failure loses about
//     the last second, and a killed process may lose as much, or two seconds when
//     the disk is slow: the server acknowledges while a sync is under way, before
//     it has handed the write to the operating system.
//   - appendonly no: whatever was written since the last snapshot is lost with
//     the process.
//
// A write is acknowledged before replicas have it: a failover may lose the last
// ones. Whatever is lost are the newest writes, each as a whole. Fences and
// leases may be lost with them, so a run that held a thread before may meet
// [checkpoint.ErrConflict] instead of [checkpoint.ErrFenced].
//
// A server with a limit of memory (maxmemory) and an eviction policy other than
// noeviction throws keys away, and with them parts of threads. [Open] refuses it;
// see [Options.AllowEviction].
//
// # Cluster
//
// Redis Cluster is not supported, since lists of threads need keys beside those
// of one thread: the error is [ErrCluster]. Replicas with Sentinel are fine.
package redis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/engine"
	"github.com/superstep-dev/superstep/internal/options"
	"github.com/superstep-dev/superstep/internal/redisdb"
)

// Options changes how a server is used. The zero value is fine.
type Options struct {
	// Prefix begins all keys; "" means "superstep:". Stores with different
	// prefixes, of which none begins with another, don't see one another.
	Prefix string

	// TTL, if positive, is how long a thread is kept after it was last written
	// to: then it is gone with all its logs and results. It may stay a twentieth
	// longer. Reading does not count. The shortest is a millisecond. Stores that
	// share threads should have the same: the last writer's counts.
	TTL time.Duration

	// AllowEviction accepts a server whose eviction policy may throw away parts
	// of threads when memory runs out. What is left of such a thread is reported
	// as damaged.
	AllowEviction bool
}

const (
	defaultPrefix = "superstep:"

	// A call that got no answer is tried again for so long, with pauses that
	// grow: enough for connections that broke, and for a server that is started
	// again. The client, once it saw a server gone, looks for it each second.
	patience     = 2500 * time.Millisecond
	openPatience = 300 * time.Millisecond
	firstPause   = 10 * time.Millisecond
	longestPause = 300 * time.Millisecond
)

const opening = "open"

// Store is a [checkpoint.Store] in a Redis server, with all that an [engine.Engine] can
// do.
type Store struct{ *engine.Engine }

// writers is how many batches of commits may be under way at once. With few, writers share
// round trips; the second is for those that don't wait for a long log to be shortened.
const writers = 2

// driver keeps an engine's rows.
type driver struct {
	client goredis.UniversalClient
	own    bool
	blind  bool // the client itself may send a command again
	server string
	prefix string
	ttl    time.Duration

	closed atomic.Bool
	stop   chan struct{} // closed by Close

	mu    sync.Mutex
	calls sync.WaitGroup // begun with mu held
}

var (
	_ engine.Driver  = (*driver)(nil)
	_ engine.Checker = (*driver)(nil)
)

// Open connects to the server at a URL such as
// redis://user:password@host:6379/0, rediss:// for TLS, or
// unix:///path/to/socket. Timeouts and the size of the pool can be given in its
// query, see [goredis.ParseURL]. Errors about the server are an [*Error].
func Open(ctx context.Context, rawURL string, opts ...Options) (*Store, error) {
	o, err := optionsOf(opts)
	if err != nil {
		return nil, err
	}
	c, err := redisdb.ParseURL(rawURL)
	if err != nil {
		return nil, &Error{Package: "redis", Op: opening, Kind: ErrURL, What: err.Error(), Fix: redisdb.FixURL}
	}
	// The store itself tries again, for it must know what was sent.
	c.MaxRetries, c.DialerRetries = -1, 1
	return open(ctx, goredis.NewClient(c), true, o)
}

// New uses a client that is open already, and leaves it open on Close. A client
// for a cluster, or a ring of servers, is refused with [ErrCluster]. A client
// that itself retries (MaxRetries is not -1) can't say whether a write was sent
// to a server that is gone: then all such errors are [ErrUncertain].
func New(ctx context.Context, client goredis.UniversalClient, opts ...Options) (*Store, error) {
	o, err := optionsOf(opts)
	if err != nil {
		return nil, err
	}
	return open(ctx, client, false, o)
}

func optionsOf(opts []Options) (Options, error) {
	o, err := options.Only("redis", opts)
	if err != nil {
		return o, err
	}
	if o.TTL < 0 || o.TTL > 0 && o.TTL < time.Millisecond {
		return o, fmt.Errorf("redis: Options.TTL is %v; the shortest is a millisecond, 0 means for ever", o.TTL)
	}
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	return o, nil
}

func open(ctx context.Context, client goredis.UniversalClient, own bool, o Options) (_ *Store, err error) {
	place, err := redisdb.Place(client)
	if err != nil {
		return nil, &Error{Package: "redis", Op: opening, Kind: ErrCluster, What: err.Error(), Fix: redisdb.FixPlace}
	}
	d := &driver{
		client: client, own: own, server: place, prefix: o.Prefix, ttl: o.TTL, blind: true,
		stop: make(chan struct{}),
	}
	if c, ok := client.(*goredis.Client); ok {
		d.blind = c.Options().MaxRetries > 0
	}
	defer func() {
		if err != nil && own {
			_ = client.Close()
		}
	}()
	if err := d.inspect(ctx, o); err != nil {
		return nil, err
	}
	if err := d.checkLayout(ctx); err != nil {
		return nil, err
	}
	return &Store{engine.New(d, engine.Options{Writers: writers, Leave: patience})}, nil
}

// inspect asks the server how it is set up.
func (d *driver) inspect(ctx context.Context, o Options) error {
	v, err := d.call(ctx, opening, false, func(ctx context.Context) (any, error) { return d.client.Info(ctx).Result() })
	if err != nil {
		if e, ok := errors.AsType[goredis.Error](err); ok && (says(e, "NOPERM") || says(e, "ERR unknown command")) {
			return nil // the server does not tell: it is used as it is
		}
		return err
	}
	info := map[string]string{}
	for line := range strings.Lines(v.(string)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[key] = value
		}
	}
	if info["cluster_enabled"] == "1" {
		return &Error{Package: "redis", Op: opening, Place: d.server, Kind: ErrCluster, What: "the server is part of a cluster: that is not supported", Fix: "use a single server, or one with replicas"}
	}
	policy := info["maxmemory_policy"]
	// A policy that takes keys with a TTL alone does not touch those without.
	harmless := policy == "" || policy == "noeviction" || strings.HasPrefix(policy, "volatile-") && o.TTL == 0
	if limit := info["maxmemory"]; limit != "0" && limit != "" && !harmless && !o.AllowEviction {
		return &Error{
			Package: "redis", Op: opening, Place: d.server, Kind: ErrEviction,
			What: fmt.Sprintf("the server may throw away parts of threads: its maxmemory is %s and its maxmemory-policy is %s", limit, policy),
			Fix:  "set maxmemory-policy noeviction, or accept it with Options.AllowEviction",
		}
	}
	return nil
}

// checkLayout compares the layout's version with ours, or leaves ours.
func (d *driver) checkLayout(ctx context.Context) error {
	key := d.prefix + "version"
	v, err := d.call(ctx, opening, false, func(ctx context.Context) (any, error) {
		v, err := d.client.Get(ctx, key).Result()
		if !errors.Is(err, goredis.Nil) {
			return v, err
		}
		if err := d.client.SetNX(ctx, key, layout, 0).Err(); err != nil {
			return "", err
		}
		return d.client.Get(ctx, key).Result()
	})
	if err != nil {
		return err
	}
	e := &Error{Package: "redis", Op: opening, Place: d.server, Kind: checkpoint.ErrVersion}
	switch n, err := strconv.Atoi(v.(string)); {
	case err != nil || n < 1:
		e.Kind, e.What, e.Fix = ErrForeign, fmt.Sprintf("key %q is not a version number", key), "choose another Options.Prefix or database"
	case n > layout:
		e.What = fmt.Sprintf("the keys that begin with %q have layout version %d, this package knows versions up to %d", d.prefix, n, layout)
		e.Fix = "use a newer version of this module"
	case n < layout:
		e.What = fmt.Sprintf("the keys that begin with %q have layout version %d, of before the first release, which is not read any more", d.prefix, n)
		e.Fix = "use another Options.Prefix or database"
	default:
		return nil
	}
	return e
}

// Close implements [engine.Driver]. Calls that are under way are finished, as long as the
// client's timeouts let them.
func (d *driver) Close() error {
	d.mu.Lock()
	d.closed.Store(true)
	close(d.stop)
	d.mu.Unlock()
	d.calls.Wait()
	if !d.own {
		return nil
	}
	return d.explain("close", d.client.Close(), false)
}

// begin registers a call that Close waits for.
func (d *driver) begin() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed.Load() {
		return checkpoint.ErrClosed
	}
	d.calls.Add(1)
	return nil
}

// call runs f, which talks to the server, and tries again if that may help. It
// returns when ctx ends, whatever f does: the client hears no cancellation while
// it waits for an answer.
func (d *driver) call(ctx context.Context, op string, write bool, f func(context.Context) (any, error)) (any, error) {
	if err := d.begin(); err != nil {
		return nil, err
	}
	if ctx.Done() == nil {
		defer d.calls.Done()
		return d.attempt(ctx, op, write, f)
	}
	type answer struct {
		v   any
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		defer d.calls.Done()
		v, err := d.attempt(ctx, op, write, f)
		answers <- answer{v, err}
	}()
	select {
	case a := <-answers:
		if a.err != nil {
			// However the client put it.
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
				return nil, context.DeadlineExceeded
			}
		}
		return a.v, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// attempt runs f until it is answered, within reason. A write that is sent again
// carries the same token, so the server does it once.
func (d *driver) attempt(ctx context.Context, op string, write bool, f func(context.Context) (any, error)) (any, error) {
	sent := false // a write whose outcome is unknown
	end := time.Now().Add(patience)
	if op == opening {
		end = time.Now().Add(openPatience)
	}
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		v, err := f(ctx)
		if err == nil {
			return v, nil
		}
		sent = sent || write && d.maySent(err)
		if !passing(err) || time.Now().After(end) || ctx.Err() != nil || d.closed.Load() {
			return nil, d.failed(op, err, sent)
		}
		timer := time.NewTimer(pause/2 + rand.N(pause/2))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, d.failed(op, err, sent)
		case <-d.stop:
			timer.Stop()
			return nil, d.failed(op, err, sent)
		}
	}
}

// maySent reports whether a write that failed with err may have reached the server.
func (d *driver) maySent(err error) bool { return !answered(err) && (d.blind || !unsent(err)) }

// failed explains an error. A store that is closed says so.
func (d *driver) failed(op string, err error, sent bool) error {
	if errors.Is(err, goredis.ErrClosed) && d.closed.Load() {
		return checkpoint.ErrClosed
	}
	if engine.Agreed(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) && !answered(err) && !unsent(err) {
		return err
	}
	return d.explain(op, err, sent)
}

// eval runs a script that reads.
func (d *driver) eval(ctx context.Context, op string, sc *goredis.Script, thread checkpoint.ThreadID, args ...any) ([]string, error) {
	return d.script(ctx, op, sc, thread, false, args)
}

// script runs a script and returns its answer, a list of texts.
func (d *driver) script(ctx context.Context, op string, sc *goredis.Script, thread checkpoint.ThreadID, write bool, args []any) ([]string, error) {
	keys := d.keys(thread)
	v, err := d.call(ctx, op, write, func(ctx context.Context) (any, error) { return sc.Run(ctx, d.client, keys, args...).StringSlice() })
	if err != nil {
		return nil, err
	}
	return v.([]string), nil
}
