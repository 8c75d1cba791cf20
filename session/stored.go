package session

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/engine"
	"github.com/superstep-dev/superstep/internal/options"
)

// Store is a store of threads that sessions can be kept in beside them: those of the
// packages checkpoint/file, sqlite, postgres, redis and s3.
type Store interface {
	// Beside returns the rows beside the threads, see [engine.Engine.Beside].
	Beside() engine.Driver
}

// ServiceOptions changes a [Service]. The zero value is fine.
type ServiceOptions struct {
	// TTL, if positive, is how long a session is kept after it was last written
	// to; the shortest is a millisecond. The state of users and apps is kept for ever.
	TTL time.Duration
}

// Stored is a [Service] that keeps sessions in a store of threads, beside these, or in
// memory. It is made by [New] and [NewMemory]. Errors of the store are those of its package.
//
// The sessions of a user and the user's state are rows of one owner, that of an app of
// another. So an event and what it writes to the session's state and to the user's are
// one commit. What it writes to the app's is noted in that commit, and done next; if the
// program is killed in between, whoever uses a session of that user next does it.
type Stored struct {
	rows   engine.Driver
	ttl    time.Duration
	closed atomic.Bool

	mu    sync.Mutex
	known map[Key]stood
	swept time.Time
}

var _ Service = (*Stored)(nil)

// New returns a service that keeps sessions in a store. Several programs may share one.
// Times are the store's. Closing the service leaves the store open; closing the store
// ends the service. A Redis store that has a TTL of its own also forgets what is kept
// of users and apps.
func New(store Store, opts ...ServiceOptions) (*Stored, error) {
	o, err := options.Only("session", opts)
	if err != nil {
		return nil, err
	}
	if o.TTL < 0 || o.TTL > 0 && o.TTL < time.Millisecond {
		return nil, fmt.Errorf("session: ServiceOptions.TTL is %v; the shortest is a millisecond, 0 means for ever", o.TTL)
	}
	return &Stored{rows: store.Beside(), ttl: o.TTL, known: map[Key]stood{}}, nil
}

// NewMemory returns a service that keeps sessions in memory, for tests and programs that
// may forget. Of several options the last holds.
func NewMemory(opts ...ServiceOptions) *Stored {
	s := &Stored{rows: new(engine.Memory), known: map[Key]stood{}}
	for _, o := range opts {
		s.ttl = max(o.TTL, 0)
	}
	return s
}

// The kinds of rows. Keys are the kind and names, each with a zero byte after it, which no
// name has.
const (
	keyInfo  = 'A' // ID: the session
	keyEvent = 'B' // ID, seq: an event
	keyKnown = 'C' // ID, event ID: its seq
	keyOwn   = 'D' // ID, name: a value of the session's state
	keyLate  = 'E' // ID, version, seq: what is to be written to the app's state
	keyValue = 'F' // name: a value of the state of the user, or the app
	keyUntil = 'G' // when, hash: a session that may have expired then
)

// Owners of rows.
func userRows(k Key) checkpoint.ThreadID {
	return engine.Reserved + checkpoint.ThreadID("user\x00"+k.App+"\x00"+k.User)
}

func appRows(k Key) checkpoint.ThreadID {
	return engine.Reserved + checkpoint.ThreadID("app\x00"+k.App)
}

const untilRows = engine.Reserved + checkpoint.ThreadID("until")

func rowKey(kind byte, names ...string) []byte {
	b := []byte{kind}
	for _, n := range names {
		b = append(append(b, n...), 0)
	}
	return b
}

func numbered(kind byte, id string, seq int64) []byte {
	return binary.BigEndian.AppendUint64(rowKey(kind, id), uint64(seq))
}

// saved is a session as its row has it.
type saved struct {
	Created int64 `json:"created"` // in microseconds since 1970
	Updated int64 `json:"updated"`
	Until   int64 `json:"until,omitempty"` // 0: for ever
	Seq     int64 `json:"seq,omitempty"`
	Synced  int64 `json:"synced,omitempty"`
}

func (i *saved) info(k Key) Info {
	return Info{Key: k, Created: engine.FromMicroseconds(i.Created), Updated: engine.FromMicroseconds(i.Updated), Seq: i.Seq, Synced: i.Synced}
}

func (i *saved) over(now time.Time) bool { return i.Until != 0 && now.UnixMicro() >= i.Until }

func (s *Stored) touch(i *saved, now time.Time) {
	i.Updated, i.Until = now.UnixMicro(), 0
	if s.ttl > 0 {
		i.Until = now.Add(s.ttl).UnixMicro()
	}
}

// stood is where a session stood. Somebody else may have moved on: then what is based on
// it has no effect.
type stood struct {
	saved   saved
	version int64 // of the user's rows
	ref     any

	store, ours time.Time // the store's clock, and when by ours
}

func (at *stood) now() time.Time { return at.store.Add(time.Since(at.ours)) }

const (
	clockAge = time.Minute // for how long a look at the store's clock is trusted
	maxKnown = 4096        // sessions at a time
	pageRows = 256
	sweepMax = 100 // sessions that are removed at once
	tries    = 1000
)

func (s *Stored) start(ctx context.Context, check func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.closed.Load() {
		return ErrClosed
	}
	return check()
}

// told is what the caller is told of an error of the store's.
func (s *Stored) told(ctx context.Context, err error) error {
	switch {
	case err == nil, errors.Is(err, ErrNotFound), errors.Is(err, ErrExists), errors.Is(err, ErrInvalid):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, checkpoint.ErrClosed):
		return ErrClosed
	}
	if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
		return context.DeadlineExceeded // a connection's timer was the faster one
	}
	return fmt.Errorf("session: %w", err)
}

// side returns rows with their values.
func (s *Stored) side(ctx context.Context, of checkpoint.ThreadID, q engine.SideQuery) ([]engine.SideRow, error) {
	rows, err := s.rows.Side(ctx, of, q)
	for i := range rows {
		if err == nil {
			rows[i].Value, err = engine.OpenSide(of, &rows[i])
		}
	}
	return rows, err
}

func (s *Stored) under(ctx context.Context, of checkpoint.ThreadID, prefix []byte) ([]engine.SideRow, error) {
	return s.side(ctx, of, engine.SideQuery{From: prefix, Below: engine.Below(prefix)})
}

// one returns the value of a row, nil if there is none.
func (s *Stored) one(ctx context.Context, of checkpoint.ThreadID, key []byte) ([]byte, error) {
	rows, err := s.side(ctx, of, engine.SideQuery{From: key, Below: append(bytes.Clone(key), 0), Limit: 1})
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return rows[0].Value, nil
}

func damaged(of checkpoint.ThreadID, key []byte, err error) error {
	return &checkpoint.CorruptError{Thread: of, Place: fmt.Sprintf("row %q", key), Offset: -1, Err: err}
}

func unmarshal(of checkpoint.ThreadID, key, data []byte, into any) error {
	if err := json.Unmarshal(data, into); err != nil {
		return damaged(of, key, err)
	}
	return nil
}

// load reads a session, and its row as it is. It is nil if there is none.
func (s *Stored) load(ctx context.Context, key Key) (i *saved, row []byte, err error) {
	of, at := userRows(key), rowKey(keyInfo, key.ID)
	if row, err = s.one(ctx, of, at); err != nil || row == nil {
		return nil, nil, err
	}
	i = new(saved)
	return i, row, unmarshal(of, at, row, i)
}

var errRestless = fmt.Errorf("%w: others keep writing to it", checkpoint.ErrConflict)

// change commits what plan makes of an owner's rows as they are, until nobody changes them
// meanwhile. A commit that renews the header makes all others stale that are under way.
func (s *Stored) change(ctx context.Context, of checkpoint.ThreadID, renew bool, plan func(l *engine.Loaded) (*engine.Commit, error)) error {
	for range tries {
		l, err := s.rows.Load(ctx, checkpoint.Log{Thread: of})
		if err != nil {
			return err
		}
		c, err := plan(&l)
		if err != nil || c == nil {
			return err
		}
		c.Thread, c.Version, c.Ref = of, l.Header.Version, l.Ref
		if h := l.Header; renew || h.Version == 0 {
			h.Renew(l.Now)
			c.Header = &h
		}
		if err := s.commit(ctx, c); !errors.Is(err, engine.ErrStale) {
			return err
		}
	}
	return errRestless
}

func (s *Stored) commit(ctx context.Context, c *engine.Commit) error {
	if err := s.rows.Commit(ctx, []*engine.Commit{c}); err != nil {
		return err
	}
	return c.Err
}

func put(c *engine.Commit, of checkpoint.ThreadID, key []byte, value any) {
	data, ok := value.(json.RawMessage)
	if !ok {
		var err error
		if data, err = json.Marshal(value); err != nil {
			panic(err) // of numbers, and of JSON that was checked
		}
	}
	c.Put = append(c.Put, engine.SealSide(of, key, data))
}

// apply adds a change of state to a commit: that of an event, or of the creation with seq 0.
// What is to be done when it has happened is returned, if there is anything.
func (s *Stored) apply(ctx context.Context, c *engine.Commit, key Key, version, seq int64, d Delta, now time.Time) (*late, error) {
	of := userRows(key)
	for _, part := range []struct {
		key    func(name string) []byte
		values map[string]json.RawMessage
	}{
		{func(name string) []byte { return rowKey(keyOwn, key.ID, name) }, d.Session},
		{func(name string) []byte { return rowKey(keyValue, name) }, d.User},
	} {
		for _, name := range slices.Sorted(maps.Keys(part.values)) {
			if v := part.values[name]; v == nil {
				c.Delete = append(c.Delete, part.key(name))
			} else {
				put(c, of, part.key(name), v)
			}
		}
	}
	if len(d.App) == 0 {
		return nil, nil
	}
	l := &late{row: binary.BigEndian.AppendUint64(numbered(keyLate, key.ID, version), uint64(seq)), At: now.UnixMicro(), Values: d.App}
	for name := range d.App {
		was, err := s.appValue(ctx, key, name)
		if err != nil {
			return nil, err
		}
		l.At = max(l.At, was.At+1)
	}
	put(c, of, l.row, l)
	return l, nil
}

// late is a change of an app's state that was noted. At is later than what was there before,
// so that the change gives way to what was written since, and is done once.
type late struct {
	row    []byte
	At     int64                      `json:"at"`
	Values map[string]json.RawMessage `json:"values"`
}

// appValue is a value of an app's state. One that was removed is kept, so that a change of
// before that is not mistaken for a newer one.
type appValue struct {
	At    int64           `json:"at"`
	Value json.RawMessage `json:"value"`
}

func (s *Stored) appValue(ctx context.Context, key Key, name string) (v appValue, err error) {
	of, at := appRows(key), rowKey(keyValue, name)
	data, err := s.one(ctx, of, at)
	if err == nil && data != nil {
		err = unmarshal(of, at, data, &v)
	}
	return v, err
}

// finish writes to the app's state what was noted, if anything was.
func (s *Stored) finish(ctx context.Context, key Key, l *late) error {
	if l == nil {
		return nil
	}
	of := appRows(key)
	err := s.change(ctx, of, true, func(*engine.Loaded) (*engine.Commit, error) {
		c := &engine.Commit{}
		for _, name := range slices.Sorted(maps.Keys(l.Values)) {
			was, err := s.appValue(ctx, key, name)
			if err != nil {
				return nil, err
			}
			if was.At < l.At {
				put(c, of, rowKey(keyValue, name), appValue{l.At, l.Values[name]})
			}
		}
		if len(c.Put) == 0 {
			return nil, nil
		}
		return c, nil
	})
	if err != nil {
		return err
	}
	return s.change(ctx, userRows(key), false, func(user *engine.Loaded) (*engine.Commit, error) {
		if user.Header.Version == 0 { // it is gone meanwhile
			return nil, nil
		}
		return &engine.Commit{Delete: [][]byte{l.row}}, nil
	})
}

// shared reads the state of the user and the app. What somebody has left undone of the
// latter is done first.
func (s *Stored) shared(ctx context.Context, key Key) (user, app map[string]json.RawMessage, err error) {
	of := userRows(key)
	rows, err := s.side(ctx, of, engine.SideQuery{From: []byte{keyLate}, Below: []byte{keyValue + 1}})
	if err != nil {
		return nil, nil, err
	}
	user, app = map[string]json.RawMessage{}, map[string]json.RawMessage{}
	for _, r := range rows {
		if r.Key[0] == keyValue {
			user[name(r.Key)] = r.Value
			continue
		}
		l := late{row: r.Key}
		err := unmarshal(of, r.Key, r.Value, &l)
		if err == nil {
			err = s.finish(ctx, key, &l)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	if rows, err = s.under(ctx, appRows(key), []byte{keyValue}); err != nil {
		return nil, nil, err
	}
	for _, r := range rows {
		var v appValue
		if err := unmarshal(appRows(key), r.Key, r.Value, &v); err != nil {
			return nil, nil, err
		}
		if string(v.Value) != "null" {
			app[name(r.Key)] = v.Value
		}
	}
	return user, app, nil
}

// name returns the last name in a key.
func name(key []byte) string {
	key = key[1 : len(key)-1]
	return string(key[bytes.LastIndexByte(key, 0)+1:])
}

// Create implements [Service].
func (s *Stored) Create(ctx context.Context, key Key, state map[string]json.RawMessage) (*Session, error) {
	if key.ID == "" {
		key.ID = NewID()
	}
	if err := s.start(ctx, key.Check); err != nil {
		return nil, err
	}
	d, err := DeltaOf(state)
	if err != nil {
		return nil, err
	}
	out, err := s.create(ctx, key, d)
	return out, s.told(ctx, err)
}

func (s *Stored) create(ctx context.Context, key Key, d Delta) (*Session, error) {
	if err := s.sweep(ctx); err != nil {
		return nil, err
	}
	of := userRows(key)
	var made saved
	var noted *late
	for made.Created == 0 {
		err := s.change(ctx, of, true, func(l *engine.Loaded) (*engine.Commit, error) {
			made = saved{}
			i, _, err := s.load(ctx, key)
			switch {
			case err != nil:
				return nil, err
			case i != nil && !i.over(l.Now):
				return nil, &ExistsError{key}
			case i != nil: // it has expired, and goes first
				return gone(key), nil
			}
			made = saved{Created: l.Now.UnixMicro()}
			s.touch(&made, l.Now)
			c := &engine.Commit{}
			put(c, of, rowKey(keyInfo, key.ID), made)
			if noted, err = s.apply(ctx, c, key, l.Header.Version, 0, d, l.Now); err != nil {
				return nil, err
			}
			return c, s.expires(ctx, key, made.Until)
		})
		if err != nil {
			return nil, err
		}
	}
	if err := s.finish(ctx, key, noted); err != nil {
		return nil, err
	}
	user, app, err := s.shared(ctx, key)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(d.Session, func(_ string, v json.RawMessage) bool { return v == nil })
	return &Session{Info: made.info(key), State: StateOf(app, user, d.Session)}, nil
}

// gone removes a session.
func gone(key Key) *engine.Commit {
	return &engine.Commit{Delete: [][]byte{rowKey(keyInfo, key.ID)}, Clear: [][]byte{rowKey(keyEvent, key.ID), rowKey(keyKnown, key.ID), rowKey(keyOwn, key.ID)}}
}

// Get implements [Service].
func (s *Stored) Get(ctx context.Context, key Key, w ...Window) (*Session, error) {
	if err := s.start(ctx, key.Check); err != nil {
		return nil, err
	}
	win, err := Only(w)
	if err != nil {
		return nil, err
	}
	out, err := s.get(ctx, key, win)
	return out, s.told(ctx, err)
}

// get reads until nobody writes to the session meanwhile.
func (s *Stored) get(ctx context.Context, key Key, w Window) (*Session, error) {
	of := userRows(key)
	for range tries {
		i, row, err := s.live(ctx, key)
		if err != nil {
			return nil, err
		}
		rows, err := s.under(ctx, of, rowKey(keyOwn, key.ID))
		if err != nil {
			return nil, err
		}
		own := make(map[string]json.RawMessage, len(rows))
		for _, r := range rows {
			own[name(r.Key)] = r.Value
		}
		events, err := s.events(ctx, key, i.Seq, w)
		if err != nil {
			return nil, err
		}
		user, app, err := s.shared(ctx, key)
		if err != nil {
			return nil, err
		}
		if _, again, err := s.load(ctx, key); err != nil {
			return nil, err
		} else if bytes.Equal(row, again) {
			return &Session{Info: i.info(key), State: StateOf(app, user, own), Events: events}, nil
		}
	}
	return nil, errRestless
}

// live reads a session that has not expired.
func (s *Stored) live(ctx context.Context, key Key) (*saved, []byte, error) {
	i, row, err := s.load(ctx, key)
	if err == nil && i != nil && i.Until != 0 {
		var now time.Time
		if now, err = s.now(ctx, userRows(key)); err == nil && i.over(now) {
			i = nil
		}
	}
	if err == nil && i == nil {
		err = &NotFoundError{key}
	}
	return i, row, err
}

func (s *Stored) now(ctx context.Context, of checkpoint.ThreadID) (time.Time, error) {
	l, err := s.rows.Load(ctx, checkpoint.Log{Thread: of})
	return l.Now, err
}

// events reads the events of a session up to one.
func (s *Stored) events(ctx context.Context, key Key, last int64, w Window) (out []Event, err error) {
	if w.Last < 0 {
		return nil, nil
	}
	from := max(w.After, 0) + 1
	if w.Last > 0 && w.Since.IsZero() {
		from = max(from, last-int64(w.Last)+1)
	}
	of := userRows(key)
	for from <= last {
		rows, err := s.side(ctx, of, engine.SideQuery{From: numbered(keyEvent, key.ID, from), Below: numbered(keyEvent, key.ID, last+1), Limit: pageRows})
		if err != nil || len(rows) == 0 {
			return w.Cut(out), err // it is being removed
		}
		for _, r := range rows {
			e, err := EventOf(int64(binary.BigEndian.Uint64(r.Key[len(r.Key)-8:])), r.Value)
			if err != nil {
				return nil, damaged(of, r.Key, err)
			}
			out = append(out, e)
			from = e.Seq + 1
		}
	}
	return w.Cut(out), nil
}

// List implements [Service].
func (s *Stored) List(ctx context.Context, app, user string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		key := Key{App: app, User: user}
		of, q := userRows(key), engine.SideQuery{From: []byte{keyInfo}, Below: []byte{keyInfo + 1}, Limit: pageRows}
		for {
			err := s.start(ctx, key.CheckUser)
			var rows []engine.SideRow
			var now time.Time
			if err == nil {
				rows, err = s.side(ctx, of, q)
			}
			if err == nil && len(rows) > 0 {
				now, err = s.now(ctx, of)
			}
			if err != nil {
				yield(Info{}, s.told(ctx, err))
				return
			}
			for _, r := range rows {
				q.From = append(r.Key, 0)
				key.ID = name(r.Key)
				var i saved
				err := cmp.Or(ctx.Err(), unmarshal(of, r.Key, r.Value, &i))
				if err == nil && i.over(now) {
					continue
				}
				if info := i.info(key); err != nil {
					yield(Info{}, s.told(ctx, err))
					return
				} else if !yield(info, nil) {
					return
				}
			}
			if len(rows) < q.Limit {
				return
			}
		}
	}
}

// Delete implements [Service].
func (s *Stored) Delete(ctx context.Context, key Key) error {
	if err := s.start(ctx, key.Check); err != nil {
		return err
	}
	s.forget(key)
	return s.told(ctx, s.remove(ctx, key, nil))
}

// remove removes a session; if over is given, one that it says so of.
func (s *Stored) remove(ctx context.Context, key Key, over func(*saved) bool) error {
	return s.change(ctx, userRows(key), true, func(*engine.Loaded) (*engine.Commit, error) {
		i, _, err := s.load(ctx, key)
		if err != nil || i == nil || over != nil && !over(i) {
			return nil, err
		}
		return gone(key), nil
	})
}

// AppendEvent implements [Service].
func (s *Stored) AppendEvent(ctx context.Context, key Key, ev *Event) error {
	if err := s.start(ctx, key.Check); err != nil {
		return err
	}
	r, err := ev.Record()
	if err != nil {
		return err
	}
	seq, err := s.append(ctx, key, &r)
	if err != nil {
		s.forget(key)
		return s.told(ctx, err)
	}
	ev.Seq = seq
	return nil
}

func (s *Stored) append(ctx context.Context, key Key, r *Record) (seq int64, err error) {
	of, known := userRows(key), rowKey(keyKnown, key.ID, r.ID)
	for range tries {
		at, err := s.stands(ctx, key)
		if err != nil {
			return 0, err
		}
		now := at.now()
		if at.saved.over(now) {
			return 0, &NotFoundError{key}
		}
		if at.saved.Until == 0 && s.ttl > 0 { // it was written to by a service that keeps sessions
			if err := s.expires(ctx, key, now.Add(s.ttl).UnixMicro()); err != nil {
				return 0, err
			}
		}
		at.saved.Seq, at.saved.Synced = at.saved.Seq+1, max(at.saved.Synced, r.Synced)
		s.touch(&at.saved, now)
		seq := at.saved.Seq
		event := numbered(keyEvent, key.ID, seq)
		c := &engine.Commit{Thread: of, Version: at.version, Ref: at.ref, Absent: [][]byte{event, known}}
		put(c, of, rowKey(keyInfo, key.ID), at.saved)
		put(c, of, event, json.RawMessage(r.Data))
		put(c, of, known, seq)
		noted, err := s.apply(ctx, c, key, at.version, seq, r.Delta, now)
		if err != nil {
			return 0, err
		}
		switch err := s.commit(ctx, c); {
		case errors.Is(err, engine.ErrStale):
			s.forget(key)
			data, err := s.one(ctx, of, known)
			if err == nil && data != nil {
				_, _, err = s.live(ctx, key)
				if err == nil {
					_, _, err = s.shared(ctx, key) // what was noted with it
				}
				if err == nil {
					err = unmarshal(of, known, data, &seq)
				}
				return seq, err
			}
			if err != nil {
				return 0, err
			}
			continue
		case err != nil:
			return 0, err
		}
		at.ref = c.Ref
		s.note(key, at)
		return seq, s.finish(ctx, key, noted)
	}
	return 0, errRestless
}

// stands returns where a session stands: as far as is known, or as it is.
func (s *Stored) stands(ctx context.Context, key Key) (stood, error) {
	s.mu.Lock()
	at, ok := s.known[key]
	s.mu.Unlock()
	if ok && time.Since(at.ours) < clockAge {
		return at, nil
	}
	l, err := s.rows.Load(ctx, checkpoint.Log{Thread: userRows(key)})
	if err != nil {
		return at, err
	}
	i, _, err := s.load(ctx, key)
	switch {
	case err != nil:
		return at, err
	case i == nil:
		return at, &NotFoundError{key}
	}
	return stood{saved: *i, version: l.Header.Version, ref: l.Ref, store: l.Now, ours: time.Now()}, nil
}

func (s *Stored) note(key Key, at stood) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxKnown {
		clear(s.known)
	}
	s.known[key] = at
}

func (s *Stored) forget(key Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, key)
}

// expires notes that a session may expire at a time, before it is kept.
func (s *Stored) expires(ctx context.Context, key Key, until int64) error {
	if until == 0 {
		return nil
	}
	return s.change(ctx, untilRows, false, func(*engine.Loaded) (*engine.Commit, error) {
		c := &engine.Commit{}
		noteUntil(c, key, until)
		return c, nil
	})
}

func noteUntil(c *engine.Commit, key Key, until int64) {
	sum := sha256.Sum256([]byte(strings.Join([]string{key.App, key.User, key.ID}, "\x00")))
	at := binary.BigEndian.AppendUint64([]byte{keyUntil}, uint64(until))
	put(c, untilRows, append(at, sum[:16]...), key)
}

// sweep removes some expired sessions, now and then; where there may be more, with the
// next session that is made.
func (s *Stored) sweep(ctx context.Context) error {
	s.mu.Lock()
	now := time.Now()
	due := s.ttl > 0 && now.Sub(s.swept) > min(s.ttl, time.Minute)/sweepMax
	if due {
		s.swept = now
	}
	s.mu.Unlock()
	if !due {
		return nil
	}
	store, err := s.now(ctx, untilRows)
	if err != nil {
		return err
	}
	rows, err := s.rows.Side(ctx, untilRows, engine.SideQuery{
		From: []byte{keyUntil}, Below: binary.BigEndian.AppendUint64([]byte{keyUntil}, uint64(store.UnixMicro())), Limit: sweepMax,
	})
	if err != nil || len(rows) == 0 {
		return err
	}
	c := &engine.Commit{}
	for _, r := range rows {
		var key Key
		until := int64(0)
		data, err := engine.OpenSide(untilRows, &r)
		if err == nil {
			err = unmarshal(untilRows, r.Key, data, &key)
		}
		if err == nil {
			err = s.remove(ctx, key, func(i *saved) bool {
				over := i.over(store)
				if !over {
					until = i.Until
				}
				return over
			})
		}
		if err != nil && !errors.Is(err, checkpoint.ErrCorrupt) { // who reads it is told; it holds up nobody else
			return err
		}
		if c.Delete = append(c.Delete, r.Key); until != 0 { // it was written to since
			noteUntil(c, key, until)
		}
	}
	if len(rows) == sweepMax {
		s.mu.Lock()
		s.swept = time.Time{}
		s.mu.Unlock()
	}
	return s.change(ctx, untilRows, false, func(*engine.Loaded) (*engine.Commit, error) {
		return &engine.Commit{Delete: c.Delete, Put: c.Put}, nil
	})
}

// Close implements [Service]. The store stays open.
func (s *Stored) Close() error {
	if s.closed.Swap(true) {
		return ErrClosed
	}
	return nil
}
