package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	goredis "github.com/redis/go-redis/v9"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/engine"
	"github.com/superstep-dev/superstep/checkpoint/file"
	"github.com/superstep-dev/superstep/checkpoint/postgres"
	"github.com/superstep-dev/superstep/checkpoint/redis"
	"github.com/superstep-dev/superstep/checkpoint/s3"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
	"github.com/superstep-dev/superstep/internal/servers"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
	"github.com/superstep-dev/superstep/session"
	"github.com/superstep-dev/superstep/session/sessiontest"
)

func TestMain(m *testing.M) {
	goredis.SetLogger(servertest.Quiet{})
	servertest.Main(m, servertest.IgnoreRedisDial())
}

// store is one that sessions are kept in.
type store interface {
	checkpoint.Store
	session.Store
}

var places atomic.Int64

// stores returns, for each kind, what opens a new store, or one more on the data of one.
func stores(t *testing.T) map[string]func(t *testing.T) func() store {
	opened := func(t *testing.T, s store, err error) store {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	ctx := context.Background()
	return map[string]func(t *testing.T) func() store{
		"sqlite": func(t *testing.T) func() store {
			path := filepath.Join(t.TempDir(), "a b#?.db")
			return func() store { s, err := sqlite.Open(path); return opened(t, s, err) }
		},
		"file": func(t *testing.T) func() store {
			dir := t.TempDir()
			return func() store { s, err := file.Open(dir, file.Options{Sync: file.SyncNever}); return opened(t, s, err) }
		},
		"postgres": func(t *testing.T) func() store {
			url := servertest.Postgres(t)
			schema := fmt.Sprintf(`sessions @"test" %d %d`, os.Getpid(), places.Add(1))
			t.Cleanup(func() {
				c, err := pgx.Connect(ctx, url)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close(ctx)
				if _, err := c.Exec(ctx, `DROP SCHEMA IF EXISTS `+pgx.Identifier{schema}.Sanitize()+` CASCADE`); err != nil {
					t.Error(err)
				}
			})
			return func() store {
				s, err := postgres.Open(ctx, url, postgres.Options{Schema: schema, MaxConns: 3})
				return opened(t, s, err)
			}
		},
		"s3": func(t *testing.T) func() store {
			url, stop, err := servers.StartS3()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(stop)
			return func() store { s, err := s3.Open(ctx, url); return opened(t, s, err) }
		},
		"redis": func(t *testing.T) func() store {
			url := servertest.Redis(t)
			prefix := fmt.Sprintf("sessions-test:%d-%d:", os.Getpid(), places.Add(1))
			return func() store { s, err := redis.Open(ctx, url, redis.Options{Prefix: prefix}); return opened(t, s, err) }
		},
	}
}

// kept returns the sessions of a store.
func kept(t testing.TB, st session.Store, o ...session.ServiceOptions) *session.Stored {
	t.Helper()
	s, err := session.New(st, o...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStored(t *testing.T) { // TRPC-08
	for name, at := range stores(t) {
		t.Run(name, func(t *testing.T) {
			type made struct {
				again func() store
				store store
				ttl   time.Duration
			}
			all := map[session.Service]made{}
			sessiontest.Run(t, sessiontest.Backend{
				New: func(t *testing.T, ttl time.Duration) session.Service {
					m := made{again: at(t), ttl: ttl}
					m.store = m.again()
					s := kept(t, m.store, session.ServiceOptions{TTL: ttl})
					all[s] = m
					return s
				},
				Reopen: func(t *testing.T, s session.Service) session.Service {
					return kept(t, all[s].again(), session.ServiceOptions{TTL: all[s].ttl})
				},
				Stored: func(t *testing.T, s session.Service) (n int) {
					rows := all[s].store.Beside()
					names, err := rows.Names(t.Context(), "", 1000)
					if err != nil {
						t.Fatal(err)
					}
					for _, name := range names {
						side, err := rows.Side(t.Context(), name, engine.SideQuery{From: []byte{'A'}, Below: []byte{'B'}})
						if err != nil {
							t.Fatal(err)
						}
						n += len(side)
					}
					return n
				},
			})
		})
	}
}

// fragile is a store whose rows can't be written to while it is broken, but for so many
// commits.
type fragile struct {
	engine.Driver
	broken bool
	left   int
}

func (f *fragile) Beside() engine.Driver { return f }

var errBroken = errors.New("broken")

func (f *fragile) Commit(ctx context.Context, batch []*engine.Commit) error {
	if f.broken {
		if f.left == 0 {
			return errBroken
		}
		f.left--
	}
	return f.Driver.Commit(ctx, batch)
}

func TestWhatAKilledProgramLeftUndoneOfAnAppsStateIsDone(t *testing.T) {
	st, err := sqlite.Open(":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	ctx := t.Context()
	ann, bob := session.Key{App: "app", User: "ann", ID: "s"}, session.Key{App: "app", User: "bob", ID: "s"}
	sound := kept(t, st)
	for _, k := range []session.Key{ann, bob} {
		if _, err := sound.Create(ctx, k, nil); err != nil {
			t.Fatal(err)
		}
	}
	write := func(s session.Service, k session.Key, id, state string) error {
		return s.AppendEvent(ctx, k, &session.Event{ID: id, Kind: session.KindState, Author: "n", StateDelta: map[string]json.RawMessage{"app:x": json.RawMessage(state), "own": json.RawMessage(state)}})
	}
	state := func(k session.Key) string {
		t.Helper()
		got, err := sound.Get(ctx, k)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%s %s", got.State["app:x"], got.State["own"])
	}
	for n := range 3 { // of the commits that an append takes
		for _, later := range []bool{false, true} {
			id, value := fmt.Sprint("e", n, later), fmt.Sprintf(`"%d %v"`, n, later)
			broken := kept(t, &fragile{Driver: st.Beside(), broken: true, left: n})
			err := write(broken, ann, id, value)
			if !errors.Is(err, errBroken) {
				t.Fatalf("%d commits: %v", n, err)
			}
			want := value + " " + value
			if n == 0 {
				want = state(ann) // nothing has happened
			}
			if later && n > 0 { // what was written since stays
				if err := write(sound, bob, "", `"later"`); err != nil {
					t.Fatal(err)
				}
				want = `"later" ` + value
			}
			if got := state(ann); got != want {
				t.Errorf("after %d commits: %s, want %s", n, got, want)
			}
			if err := write(sound, ann, id, value); err != nil { // who repeats it
				t.Fatal(err)
			}
			if n == 0 {
				want = value + " " + value
			}
			if got := state(ann); got != want {
				t.Errorf("repeated after %d commits: %s, want %s", n, got, want)
			}
		}
	}
}

// paused is a store in which something is done after the next commit.
type paused struct {
	engine.Driver
	then func()
}

func (p *paused) Beside() engine.Driver { return p }

func (p *paused) Commit(ctx context.Context, batch []*engine.Commit) error {
	err := p.Driver.Commit(ctx, batch)
	if then := p.then; then != nil {
		p.then = nil
		then()
	}
	return err
}

// What somebody has seen of an app's state, and others have written since, does not come
// back.
func TestAWriterThatIsSlowDoesNotUndoWhatCameAfterIt(t *testing.T) {
	st, err := sqlite.Open(":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	ctx := t.Context()
	ann, bob := session.Key{App: "app", User: "ann", ID: "s"}, session.Key{App: "app", User: "bob", ID: "s"}
	sound := kept(t, st)
	for _, k := range []session.Key{ann, bob} {
		if _, err := sound.Create(ctx, k, nil); err != nil {
			t.Fatal(err)
		}
	}
	write := func(s session.Service, k session.Key, value string) {
		t.Helper()
		ev := &session.Event{Kind: session.KindState, Author: "n", StateDelta: map[string]json.RawMessage{"app:x": json.RawMessage(value)}}
		if err := s.AppendEvent(ctx, k, ev); err != nil {
			t.Error(err)
		}
	}
	want := func(value string) {
		t.Helper()
		if got, err := sound.Get(ctx, ann); err != nil || string(got.State["app:x"]) != value {
			t.Errorf("%s (%v), want %s", got.State["app:x"], err, value)
		}
	}
	slow := &paused{Driver: st.Beside()}
	slow.then = func() { // ann's event is there
		want("1")
		write(sound, bob, "2")
		want("2")
	}
	write(kept(t, slow), ann, "1")
	want("2")
}

// A session that nobody can read holds nobody up.
func TestADamagedSessionThatHasExpiredHoldsNobodyUp(t *testing.T) {
	st, err := sqlite.Open(":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	s := kept(t, st, session.ServiceOptions{TTL: time.Millisecond})
	if _, err := s.Create(t.Context(), session.Key{App: "a", User: "u", ID: "s"}, nil); err != nil {
		t.Fatal(err)
	}
	for of, kind := range map[checkpoint.ThreadID]string{engine.Reserved + "user\x00a\x00u": "A", engine.Reserved + "until": "G"} {
		rows := st.Beside()
		side, err := rows.Side(t.Context(), of, engine.SideQuery{From: []byte(kind), Limit: 1})
		if err != nil || len(side) != 1 {
			t.Fatal(side, err)
		}
		l, err := rows.Load(t.Context(), checkpoint.Log{Thread: of})
		if err != nil {
			t.Fatal(err)
		}
		c := &engine.Commit{Thread: of, Version: l.Header.Version, Put: []engine.Put{{Key: side[0].Key, Value: []byte("damage"), Replace: true}}}
		if err := errors.Join(rows.Commit(t.Context(), []*engine.Commit{c}), c.Err); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			time.Sleep(5 * time.Millisecond)
			if _, err := s.Create(t.Context(), session.Key{App: "a", User: "other"}, nil); err != nil {
				t.Errorf("after damage of %q: %v", of, err)
			}
		}
	}
}

func TestARowThatIsDamagedIsTold(t *testing.T) {
	st, err := sqlite.Open(":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	s := kept(t, st)
	key := session.Key{App: "a", User: "u", ID: "s"}
	if _, err := s.Create(t.Context(), key, map[string]json.RawMessage{"x": json.RawMessage(`1`), "app:x": json.RawMessage(`1`)}); err != nil {
		t.Fatal(err)
	}
	if err := s.AppendEvent(t.Context(), key, &session.Event{Kind: session.KindInput, Author: session.AuthorUser}); err != nil {
		t.Fatal(err)
	}
	rows := st.Beside()
	names, err := rows.Names(t.Context(), "", 100)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, name := range names {
		side, err := rows.Side(t.Context(), name, engine.SideQuery{})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range side {
			change := func(value []byte) {
				t.Helper()
				l, err := rows.Load(t.Context(), checkpoint.Log{Thread: name})
				if err != nil {
					t.Fatal(err)
				}
				c := &engine.Commit{Thread: name, Version: l.Header.Version, Put: []engine.Put{{Key: r.Key, Value: value, Replace: true}}}
				if err := errors.Join(rows.Commit(t.Context(), []*engine.Commit{c}), c.Err); err != nil {
					t.Fatal(err)
				}
			}
			flipped := append([]byte(nil), r.Value...)
			flipped[0] ^= 1
			change(flipped)
			_, err := s.Get(t.Context(), key)
			if known := r.Key[0] == 'C'; !known && !errors.Is(err, checkpoint.ErrCorrupt) || known && err != nil {
				t.Errorf("row %q: %v", r.Key, err)
			}
			change(r.Value)
			n++
		}
	}
	if n != 5 { // session, event, its ID, a value of its own, one of the app
		t.Errorf("%d rows", n)
	}
	for c, err := range st.Verify(t.Context(), "") {
		t.Error(c, err)
	}
}

// A session that was written to by a service without a TTL stays, whatever the one that
// made it had, and the other way round.
func TestTheLastWriterSaysHowLongASessionStays(t *testing.T) {
	st, err := sqlite.Open(":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	const ttl = time.Second // in which the next writer's turn comes, on a busy machine too
	short, forever := kept(t, st, session.ServiceOptions{TTL: ttl}), kept(t, st)
	say := func(s *session.Stored, k session.Key) {
		t.Helper()
		if err := s.AppendEvent(t.Context(), k, &session.Event{Kind: session.KindInput, Author: session.AuthorUser}); err != nil {
			t.Fatal(err)
		}
	}
	stays, goes := session.Key{App: "a", User: "u", ID: "stays"}, session.Key{App: "a", User: "u", ID: "goes"}
	for _, k := range []session.Key{stays, goes} {
		if _, err := forever.Create(t.Context(), k, nil); err != nil {
			t.Fatal(err)
		}
		say(short, k)
		if k == stays {
			say(forever, k)
		}
	}
	time.Sleep(ttl + ttl/10)
	if _, err := forever.Get(t.Context(), goes); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("goes: %v", err)
	}
	if _, err := short.Create(t.Context(), session.Key{App: "a", User: "u"}, nil); err != nil { // which removes it
		t.Fatal(err)
	}
	say(forever, stays)
	of := engine.Reserved + "user\x00a\x00u"
	side, err := st.Beside().Side(t.Context(), of, engine.SideQuery{From: []byte("A"), Below: []byte("B")})
	if err != nil || len(side) != 2 {
		t.Errorf("%d sessions are kept, %v", len(side), err)
	}
}

func TestSessionsAreNoThreads(t *testing.T) {
	for name, at := range stores(t) {
		t.Run(name, func(t *testing.T) {
			st := at(t)()
			s := kept(t, st, session.ServiceOptions{TTL: time.Millisecond})
			key := session.Key{App: "a", User: "u", ID: "s"}
			if _, err := s.Create(t.Context(), key, nil); err != nil {
				t.Fatal(err)
			}
			for info, err := range st.(checkpoint.Lister).Threads(t.Context(), checkpoint.ThreadFilter{}) {
				t.Errorf("listed: %v, %v", info, err)
			}
			for w, err := range st.(checkpoint.Scheduler).Due(t.Context(), time.Now().Add(time.Hour), 0) {
				t.Errorf("due: %v, %v", w, err)
			}
			of := engine.Reserved + "user\x00a\x00u"
			if _, _, err := st.Head(t.Context(), checkpoint.Log{Thread: of}); !errors.Is(err, checkpoint.ErrInvalid) {
				t.Errorf("read as a thread: %v", err)
			}
			if err := st.Delete(t.Context(), of); !errors.Is(err, checkpoint.ErrInvalid) {
				t.Errorf("deleted as a thread: %v", err)
			}
			for c, err := range st.(checkpoint.Verifier).Verify(t.Context(), "") {
				t.Errorf("damaged: %v, %v", c, err)
			}
			if err := st.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Create(t.Context(), key, nil); !errors.Is(err, session.ErrClosed) {
				t.Errorf("of a store that was closed: %v", err)
			}
		})
	}
}

func TestOptionsOfSessionsAreChecked(t *testing.T) {
	st, err := sqlite.Open(":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	for _, o := range [][]session.ServiceOptions{{{TTL: -1}}, {{TTL: time.Microsecond}}, {{}, {}}} {
		if _, err := session.New(st, o...); err == nil {
			t.Errorf("%v was taken", o)
		}
	}
}

func ExampleNew() {
	store, err := sqlite.Open(":memory:")
	if err != nil {
		panic(err)
	}
	defer store.Close()
	service, err := session.New(store)
	if err != nil {
		panic(err)
	}
	s, err := service.Create(context.Background(), session.Key{App: "support", User: "ann", ID: "s1"}, nil)
	if err != nil {
		panic(err)
	}
	fmt.Println(s.Key)
	// Output: "s1" of user "ann" of "support"
}
