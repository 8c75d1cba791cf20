// Package redis keeps sessions in a Redis server, or one that speaks its language:
// version 6.2 or later. Many processes may share it.
//
//	service, err := redis.Open(ctx, "redis://user:password@localhost:6379/0")
//
// A write is one script that the server runs as a whole. What outlives the
// server's process depends on how it is set up: appendonly and appendfsync. A
// server with an eviction policy throws parts of sessions away when its memory
// runs out; use noeviction. Redis Cluster is not supported, since the state of
// users and apps needs keys beside those of a session.
package redis

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/superstep-dev/superstep/internal/options"
	"github.com/superstep-dev/superstep/internal/redisdb"
	"github.com/superstep-dev/superstep/session"
)

// Options changes how a server is used. The zero value is fine.
type Options struct {
	// Prefix begins all keys; "" means "superstep-session:".
	Prefix string

	// TTL, if positive, is how long a session is kept after it was last written
	// to; the shortest is a millisecond. The state of users and apps is kept
	// for ever.
	TTL time.Duration
}

const (
	defaultPrefix = "superstep-session:"
	layout        = 1   // version of the keys
	page          = 256 // sessions of a list, or events, that are read at once
	sample        = 4   // sessions that a sweep looks at
)

// Service is a [session.Service] in a Redis server.
type Service struct {
	client goredis.UniversalClient
	own    bool
	server string
	prefix string
	ttl    time.Duration
	closed atomic.Bool
}

var _ session.Service = (*Service)(nil)

// Open connects to the server at a URL such as redis://user:password@host:6379/0,
// rediss:// for TLS, or unix:///path/to/socket. Errors about the server are a
// [*session.Error].
func Open(ctx context.Context, rawURL string, opts ...Options) (*Service, error) {
	o, err := optionsOf(opts)
	if err != nil {
		return nil, err
	}
	c, err := redisdb.ParseURL(rawURL)
	if err != nil {
		return nil, &session.Error{Op: "open", Kind: session.ErrConnection, Err: err, Fix: redisdb.FixURL}
	}
	client := goredis.NewClient(c)
	s, err := open(ctx, client, o)
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	s.own = true
	return s, nil
}

// New uses a client that is open already, and leaves it open on Close. A client
// for a cluster, or a ring of servers, is refused.
func New(ctx context.Context, client goredis.UniversalClient, opts ...Options) (*Service, error) {
	o, err := optionsOf(opts)
	if err != nil {
		return nil, err
	}
	return open(ctx, client, o)
}

func optionsOf(opts []Options) (Options, error) {
	o, err := options.Only("session/redis", opts)
	if err != nil {
		return o, err
	}
	if o.TTL < 0 || o.TTL > 0 && o.TTL < time.Millisecond {
		return o, fmt.Errorf("session/redis: Options.TTL is %v; the shortest is a millisecond, 0 means for ever", o.TTL)
	}
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	return o, nil
}

func open(ctx context.Context, client goredis.UniversalClient, o Options) (*Service, error) {
	place, err := redisdb.Place(client)
	if err != nil {
		return nil, &session.Error{Op: "open", Kind: session.ErrUnsupported, Err: err, Fix: redisdb.FixPlace}
	}
	s := &Service{client: client, prefix: o.Prefix, ttl: o.TTL, server: cmp.Or(place, "server")}
	key := s.prefix + "version"
	if err := client.SetNX(ctx, key, layout, 0).Err(); err != nil {
		return nil, s.explain(ctx, "open", err)
	}
	v, err := client.Get(ctx, key).Int()
	if err != nil {
		return nil, s.explain(ctx, "open", err)
	}
	if v > layout {
		return nil, &session.Error{
			Op: "open", Place: s.server, Kind: session.ErrVersion, Fix: "use a newer version of this module, or another Options.Prefix",
			Err: fmt.Errorf("layout version %d, known are versions up to %d", v, layout),
		}
	}
	return s, nil
}

func (s *Service) explain(ctx context.Context, op string, err error) error {
	if err == nil {
		return nil
	}
	if told := session.Told(ctx, err); told != nil {
		return told
	}
	if s.closed.Load() && errors.Is(err, goredis.ErrClosed) {
		return session.ErrClosed
	}
	e := &session.Error{Op: op, Place: s.server, Err: err}
	text := err.Error()
	_, answered := errors.AsType[goredis.Error](err)
	_, network := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, session.ErrDamaged):
		e.Kind, e.Fix = session.ErrDamaged, "restore a backup, or delete the session"
	case !answered || network:
		e.Kind, e.Fix = session.ErrUnavailable, "start the server, or check host, port, TLS and firewalls"
	case strings.HasPrefix(text, "WRONGPASS"), strings.HasPrefix(text, "NOAUTH"), strings.HasPrefix(text, "NOPERM"), strings.HasPrefix(text, "ERR AUTH"):
		e.Kind, e.Fix = session.ErrDenied, "correct user and password in the URL, and allow the user the keys "+s.prefix+"*"
	case strings.HasPrefix(text, "LOADING"), strings.HasPrefix(text, "MASTERDOWN"), strings.HasPrefix(text, "READONLY"), strings.HasPrefix(text, "MISCONF"):
		e.Kind, e.Fix = session.ErrUnavailable, "connect to a primary that takes writes"
	case strings.HasPrefix(text, "MOVED"), strings.HasPrefix(text, "CROSSSLOT"), strings.HasPrefix(text, "CLUSTERDOWN"):
		e.Kind, e.Fix = session.ErrUnsupported, "use a single server, or one with replicas"
	}
	return e
}

func (s *Service) start(ctx context.Context, check func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.closed.Load() {
		return session.ErrClosed
	}
	return check()
}

// keys are those of a session, in the order in which scripts take them: its data
// (hash), its events by seq (hash), their seqs by ID (hash), its state, that of
// the user and that of the app (hashes), and the IDs of the user's sessions
// (sorted set).
func (s *Service) keys(key session.Key) []string {
	app, user, id := url.PathEscape(key.App), url.PathEscape(key.User), url.PathEscape(key.ID)
	own := s.prefix + "s:" + app + "/" + user + "/" + id
	return []string{own, own + "/events", own + "/ids", own + "/state", s.prefix + "u:" + app + "/" + user, s.prefix + "a:" + app, s.prefix + "l:" + app + "/" + user}
}

// The places in keys.
const (
	keyData = iota
	keyEvents
	keyIDs
	keyState
	keyUser
	keyApp
	keyList
)

// Scripts begin with prelude. Deltas are three times a number of pairs, and the
// pairs; an empty value removes, as JSON is never empty.
const prelude = `
local function now()
	local t = redis.call('TIME')
	return t[1] .. string.format('%06d', t[2])
end
local function apply(at)
	for _, key in ipairs({KEYS[6], KEYS[5], KEYS[4]}) do
		local n = tonumber(ARGV[at])
		at = at + 1
		for i = 1, n do
			if ARGV[at + 1] == '' then redis.call('HDEL', key, ARGV[at])
			else redis.call('HSET', key, ARGV[at], ARGV[at + 1]) end
			at = at + 2
		end
	end
end
local function live(ttl)
	for i = 1, 4 do
		if ttl ~= '0' then redis.call('PEXPIRE', KEYS[i], ttl)
		else redis.call('PERSIST', KEYS[i]) end
	end
end
`

var (
	// create takes the TTL in milliseconds, the ID, a name of the call and a delta.
	// It returns the session's data and the state of the app, the user and its own,
	// or nothing if there is such a session. One that the same call has made is not
	// one: the client repeats it when it didn't hear the answer.
	create = goredis.NewScript(prelude + `
local new = redis.call('EXISTS', KEYS[1]) == 0
if new then
	redis.call('DEL', KEYS[2], KEYS[3], KEYS[4])
	local t = now()
	redis.call('HSET', KEYS[1], 'created', t, 'updated', t, 'seq', 0, 'synced', 0, 'call', ARGV[3])
	redis.call('ZADD', KEYS[7], 0, ARGV[2])
	apply(4)
elseif redis.call('HGET', KEYS[1], 'call') ~= ARGV[3] then
	return {}
end
local all = {redis.call('HGETALL', KEYS[1]), redis.call('HGETALL', KEYS[6]), redis.call('HGETALL', KEYS[5]), redis.call('HGETALL', KEYS[4])}
if new then live(ARGV[1]) end -- it may be gone at once
return all`)

	// add takes the TTL, the event's ID, Synced and data, and a delta. It returns
	// the event's seq, or 0 if there is no session.
	add = goredis.NewScript(prelude + `
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local there = redis.call('HGET', KEYS[3], ARGV[2])
if there then return tonumber(there) end
local seq = redis.call('HINCRBY', KEYS[1], 'seq', 1)
redis.call('HSET', KEYS[2], seq, ARGV[4])
redis.call('HSET', KEYS[3], ARGV[2], seq)
redis.call('HSET', KEYS[1], 'updated', now())
if tonumber(ARGV[3]) > tonumber(redis.call('HGET', KEYS[1], 'synced')) then
	redis.call('HSET', KEYS[1], 'synced', ARGV[3])
end
apply(5)
live(ARGV[1])
return seq`)

	// forget takes the ID of a session and removes it from the list if it is gone.
	forget = goredis.NewScript(`
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('ZREM', KEYS[7], ARGV[1]) end
return 0`)
)

func delta(args []any, d session.Delta) []any {
	for _, values := range []map[string]json.RawMessage{d.App, d.User, d.Session} {
		args = append(args, len(values))
		for _, k := range slices.Sorted(maps.Keys(values)) {
			args = append(args, k, []byte(values[k]))
		}
	}
	return args
}

// Create implements [session.Service].
func (s *Service) Create(ctx context.Context, key session.Key, state map[string]json.RawMessage) (*session.Session, error) {
	if key.ID == "" {
		key.ID = session.NewID()
	}
	if err := s.start(ctx, key.Check); err != nil {
		return nil, err
	}
	d, err := session.DeltaOf(state)
	if err != nil {
		return nil, err
	}
	if err := s.sweep(ctx, key); err != nil {
		return nil, s.explain(ctx, "create", err)
	}
	made, err := create.Run(ctx, s.client, s.keys(key), delta([]any{s.ttl.Milliseconds(), key.ID, session.NewID()}, d)...).Slice()
	if err != nil {
		return nil, s.explain(ctx, "create", err)
	}
	if len(made) == 0 {
		return nil, &session.ExistsError{Key: key}
	}
	var hashes [4]map[string]string
	for i := range hashes {
		hashes[i] = hash(made[i])
	}
	out, err := sessionOf(key, hashes[0], hashes[1], hashes[2], hashes[3])
	return out, s.explain(ctx, "create", err)
}

// hash reads a hash that a script returns: names and values in turn.
func hash(v any) map[string]string {
	list, _ := v.([]any)
	out := make(map[string]string, len(list)/2)
	for i := 0; i+1 < len(list); i += 2 {
		name, _ := list[i].(string)
		out[name], _ = list[i+1].(string)
	}
	return out
}

func sessionOf(key session.Key, data, app, user, own map[string]string) (*session.Session, error) {
	info, err := infoOf(key, data)
	if err != nil {
		return nil, err
	}
	return &session.Session{Info: info, State: session.StateOf(values(app), values(user), values(own))}, nil
}

// sweep looks at some of a user's sessions and takes those off the list that have
// expired. As each session that is made brings such a look, few of those on the
// list are not there.
func (s *Service) sweep(ctx context.Context, key session.Key) error {
	if s.ttl <= 0 {
		return nil
	}
	ids, err := s.client.ZRandMember(ctx, s.keys(key)[keyList], sample).Result()
	if err != nil || len(ids) == 0 {
		return err
	}
	there := make([]*goredis.IntCmd, len(ids))
	if _, err := s.client.Pipelined(ctx, func(p goredis.Pipeliner) error {
		for i, id := range ids {
			there[i] = p.Exists(ctx, s.keys(session.Key{App: key.App, User: key.User, ID: id})[keyData])
		}
		return nil
	}); err != nil {
		return err
	}
	for i, id := range ids {
		if there[i].Val() > 0 {
			continue
		}
		if err := forget.Run(ctx, s.client, s.keys(session.Key{App: key.App, User: key.User, ID: id}), id).Err(); err != nil {
			return err
		}
	}
	return nil
}

// Get implements [session.Service].
func (s *Service) Get(ctx context.Context, key session.Key, w ...session.Window) (*session.Session, error) {
	if err := s.start(ctx, key.Check); err != nil {
		return nil, err
	}
	win, err := session.Only(w)
	if err != nil {
		return nil, err
	}
	out, err := s.get(ctx, key, win)
	if err != nil {
		return nil, s.explain(ctx, "get", err)
	}
	return out, nil
}

func (s *Service) get(ctx context.Context, key session.Key, w session.Window) (*session.Session, error) {
	keys := s.keys(key)
	var data, app, user, own *goredis.MapStringStringCmd
	// One transaction, so that the state is that of the last event.
	if _, err := s.client.TxPipelined(ctx, func(p goredis.Pipeliner) error {
		data, app, user, own = p.HGetAll(ctx, keys[keyData]), p.HGetAll(ctx, keys[keyApp]), p.HGetAll(ctx, keys[keyUser]), p.HGetAll(ctx, keys[keyState])
		return nil
	}); err != nil {
		return nil, err
	}
	if len(data.Val()) == 0 {
		return nil, &session.NotFoundError{Key: key}
	}
	out, err := sessionOf(key, data.Val(), app.Val(), user.Val(), own.Val())
	if err != nil || w.Last < 0 {
		return out, err
	}
	info := out.Info
	from := max(w.After, 0)
	if w.Last > 0 && w.Since.IsZero() {
		from = max(from, info.Seq-int64(w.Last))
	}
	for from < info.Seq {
		var seqs []string
		for n := from + 1; n <= info.Seq && len(seqs) < page; n++ {
			seqs = append(seqs, strconv.FormatInt(n, 10))
		}
		var made *goredis.StringCmd
		var got *goredis.SliceCmd
		if _, err := s.client.TxPipelined(ctx, func(p goredis.Pipeliner) error {
			made, got = p.HGet(ctx, keys[keyData], "created"), p.HMGet(ctx, keys[keyEvents], seqs...)
			return nil
		}); err != nil && !errors.Is(err, goredis.Nil) {
			return nil, err
		}
		if at := made.Val(); at != "" && at != data.Val()["created"] {
			return s.get(ctx, key, w) // it is another one of this name
		}
		for _, v := range got.Val() {
			from++
			data, ok := v.(string)
			if !ok { // it was deleted, or expired, meanwhile
				return nil, &session.NotFoundError{Key: key}
			}
			e, err := session.EventOf(from, []byte(data))
			if err != nil {
				return nil, err
			}
			out.Events = append(out.Events, e)
		}
	}
	out.Events = w.Cut(out.Events)
	return out, nil
}

func values(m map[string]string) map[string]json.RawMessage {
	out := make(map[string]json.RawMessage, len(m))
	for k, v := range m {
		out[k] = json.RawMessage(v)
	}
	return out
}

func infoOf(key session.Key, data map[string]string) (session.Info, error) {
	info := session.Info{Key: key}
	var created, updated int64
	for name, into := range map[string]*int64{"created": &created, "updated": &updated, "seq": &info.Seq, "synced": &info.Synced} {
		n, err := strconv.ParseInt(data[name], 10, 64)
		if err != nil {
			return info, fmt.Errorf("%w: session %v: %s: %w", session.ErrDamaged, key, name, err)
		}
		*into = n
	}
	info.Created, info.Updated = time.UnixMicro(created), time.UnixMicro(updated)
	return info, nil
}

// List implements [session.Service].
func (s *Service) List(ctx context.Context, app, user string) iter.Seq2[session.Info, error] {
	return func(yield func(session.Info, error) bool) {
		if err := s.start(ctx, session.Key{App: app, User: user}.CheckUser); err != nil {
			yield(session.Info{}, err)
			return
		}
		for after := "-"; ; {
			infos, last, err := s.page(ctx, app, user, after)
			if err != nil {
				yield(session.Info{}, s.explain(ctx, "list", err))
				return
			}
			for _, info := range infos {
				if err := ctx.Err(); err != nil {
					yield(session.Info{}, err)
					return
				}
				if !yield(info, nil) {
					return
				}
			}
			if last == "" {
				return
			}
			after = "(" + last
		}
	}
}

// page returns some sessions and the ID of the last one looked at, empty when
// there are no more. IDs of sessions that have expired are removed.
func (s *Service) page(ctx context.Context, app, user, after string) (infos []session.Info, last string, err error) {
	list := s.keys(session.Key{App: app, User: user})[keyList]
	ids, err := s.client.ZRangeByLex(ctx, list, &goredis.ZRangeBy{Min: after, Max: "+", Count: page}).Result()
	if err != nil {
		return nil, "", err
	}
	found := make([]*goredis.MapStringStringCmd, len(ids))
	if len(ids) > 0 {
		if _, err := s.client.Pipelined(ctx, func(p goredis.Pipeliner) error {
			for i, id := range ids {
				found[i] = p.HGetAll(ctx, s.keys(session.Key{App: app, User: user, ID: id})[keyData])
			}
			return nil
		}); err != nil {
			return nil, "", err
		}
	}
	for i, id := range ids {
		key := session.Key{App: app, User: user, ID: id}
		if len(found[i].Val()) == 0 {
			if err := forget.Run(ctx, s.client, s.keys(key), id).Err(); err != nil {
				return nil, "", err
			}
			continue
		}
		info, err := infoOf(key, found[i].Val())
		if err != nil {
			return nil, "", err
		}
		infos = append(infos, info)
	}
	if len(ids) == page {
		last = ids[page-1]
	}
	return infos, last, nil
}

// Delete implements [session.Service].
func (s *Service) Delete(ctx context.Context, key session.Key) error {
	if err := s.start(ctx, key.Check); err != nil {
		return err
	}
	keys := s.keys(key)
	_, err := s.client.TxPipelined(ctx, func(p goredis.Pipeliner) error {
		p.Del(ctx, keys[keyData], keys[keyEvents], keys[keyIDs], keys[keyState])
		p.ZRem(ctx, keys[keyList], key.ID)
		return nil
	})
	return s.explain(ctx, "delete", err)
}

// AppendEvent implements [session.Service].
func (s *Service) AppendEvent(ctx context.Context, key session.Key, ev *session.Event) error {
	if err := s.start(ctx, key.Check); err != nil {
		return err
	}
	r, err := ev.Record()
	if err != nil {
		return err
	}
	seq, err := add.Run(ctx, s.client, s.keys(key), delta([]any{s.ttl.Milliseconds(), r.ID, r.Synced, r.Data}, r.Delta)...).Int64()
	if err != nil {
		return s.explain(ctx, "append", err)
	}
	if seq == 0 {
		return &session.NotFoundError{Key: key}
	}
	ev.Seq = seq
	return nil
}

// Close implements [session.Service]. A client that was given to [New] stays open.
func (s *Service) Close() error {
	if s.closed.Swap(true) {
		return session.ErrClosed
	}
	if !s.own {
		return nil
	}
	return s.explain(context.Background(), "close", s.client.Close())
}
