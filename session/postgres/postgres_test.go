package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/superstep-dev/superstep/internal/servers/servertest"
	"github.com/superstep-dev/superstep/session"
	"github.com/superstep-dev/superstep/session/postgres"
	"github.com/superstep-dev/superstep/session/sessiontest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

var schemas atomic.Int64

// newSchema names a schema that is dropped at the end of the test.
func newSchema(t testing.TB, url string) string {
	t.Helper()
	schema := fmt.Sprintf(`sessions @"test" %d %d`, os.Getpid(), schemas.Add(1))
	t.Cleanup(func() { exec(t, url, `DROP SCHEMA IF EXISTS `+pgx.Identifier{schema}.Sanitize()+` CASCADE`) })
	return schema
}

func exec(t testing.TB, url, query string) {
	t.Helper()
	ctx := context.Background()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, query); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, url string, o postgres.Options) *postgres.Service {
	t.Helper()
	s, err := postgres.Open(context.Background(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestService(t *testing.T) { // TRPC-08
	url := servertest.Postgres(t)
	options := map[session.Service]postgres.Options{}
	sessiontest.Run(t, sessiontest.Backend{
		New: func(t *testing.T, ttl time.Duration) session.Service {
			o := postgres.Options{Schema: newSchema(t, url), TTL: ttl}
			s := open(t, url, o)
			options[s] = o
			return s
		},
		Stored: func(t *testing.T, s session.Service) (n int) {
			c, err := pgx.Connect(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close(context.Background())
			if err := c.QueryRow(t.Context(), `SELECT count(*) FROM `+pgx.Identifier{options[s].Schema}.Sanitize()+`.superstep_sessions`).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		},
		Reopen: func(t *testing.T, s session.Service) session.Service { return open(t, url, options[s]) },
	})
}

func TestAPoolOfTheCaller(t *testing.T) {
	url := servertest.Postgres(t)
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	s, err := postgres.New(t.Context(), pool, postgres.Options{Schema: newSchema(t, url)})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := pool.Ping(t.Context()); err != nil {
		t.Errorf("the pool was closed: %v", err)
	}
}

// Programs that start at the same moment make the tables once.
func TestManyOpenAnEmptyDatabase(t *testing.T) {
	url := servertest.Postgres(t)
	schema := newSchema(t, url)
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			s, err := postgres.Open(context.Background(), url, postgres.Options{Schema: schema})
			if err != nil {
				t.Error(err)
				return
			}
			s.Close()
		})
	}
	wg.Wait()
}

// Whoever may use the tables need not be allowed to make any.
func TestTheOwnerMakesTheTablesForOthers(t *testing.T) {
	url := servertest.Postgres(t)
	schema := newSchema(t, url)
	open(t, url, postgres.Options{Schema: schema}).Close()
	role, quoted := fmt.Sprint("session_user_", os.Getpid()), pgx.Identifier{schema}.Sanitize()
	exec(t, url, `CREATE ROLE `+role+`; GRANT USAGE ON SCHEMA `+quoted+` TO `+role+`;
		GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA `+quoted+` TO `+role)
	t.Cleanup(func() { exec(t, url, `DROP OWNED BY `+role+`; DROP ROLE `+role) })
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	c.ConnConfig.RuntimeParams["role"] = role
	pool, err := pgxpool.NewWithConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	s, err := postgres.New(t.Context(), pool, postgres.Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(t.Context(), session.Key{App: "a", User: "u", ID: "s"}, nil); err != nil {
		t.Error(err)
	}
	_, err = postgres.New(t.Context(), pool, postgres.Options{Schema: newSchema(t, url)})
	if !errors.Is(err, session.ErrDenied) {
		t.Errorf("a schema that must be made: %v, want %v", err, session.ErrDenied)
	}
}

func TestWhatCannotBeOpened(t *testing.T) {
	url := servertest.Postgres(t)
	schema := newSchema(t, url)
	open(t, url, postgres.Options{Schema: schema}).Close()
	exec(t, url, `INSERT INTO `+pgx.Identifier{schema}.Sanitize()+`.superstep_session_meta (version) VALUES (99)`)
	for name, c := range map[string]struct {
		url  string
		o    postgres.Options
		want error
	}{
		"newer tables":   {url, postgres.Options{Schema: schema}, session.ErrVersion},
		"no server":      {"postgres://u:hidden@127.0.0.1:1/x", postgres.Options{}, session.ErrUnavailable},
		"a wrong URL":    {"postgres://u:hidden@host:port/x", postgres.Options{}, session.ErrConnection},
		"an odd setting": {"postgres://u:hidden@host/x?pool_max_conns=many", postgres.Options{}, session.ErrConnection},
		"no database":    {strings.Replace(url, "/superstep?", "/nothing?", 1), postgres.Options{}, session.ErrUnavailable},
	} {
		_, err := postgres.Open(t.Context(), c.url, c.o)
		e := new(session.Error)
		if !errors.Is(err, c.want) || !errors.As(err, &e) || e.Fix == "" || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	for _, o := range [][]postgres.Options{{{TTL: -1}}, {{TTL: time.Microsecond}}, {{}, {}}, {{Schema: "\x00"}}} {
		if _, err := postgres.Open(t.Context(), url, o...); err == nil {
			t.Errorf("%v was taken", o)
		}
	}
}

// That a server doesn't answer in the driver's time is its matter, not the end of
// the caller's context.
func TestAServerThatDoesNotAnswerIsUnavailable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = postgres.Open(t.Context(), "postgres://u:hidden@"+l.Addr().String()+"/x?sslmode=disable&connect_timeout=1")
	e := new(session.Error)
	if !errors.Is(err, session.ErrUnavailable) || !errors.As(err, &e) || e.Fix == "" {
		t.Errorf("%v", err)
	}
}

// An event that somebody has spoilt is not a server that is away.
func TestWhatCannotBeReadIsDamaged(t *testing.T) {
	url := servertest.Postgres(t)
	schema := newSchema(t, url)
	s := open(t, url, postgres.Options{Schema: schema})
	defer s.Close()
	key := session.Key{App: "a", User: "u", ID: "s"}
	if _, err := s.Create(t.Context(), key, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.AppendEvent(t.Context(), key, &session.Event{Kind: session.KindInput, Author: session.AuthorUser}); err != nil {
		t.Fatal(err)
	}
	exec(t, url, `UPDATE `+pgx.Identifier{schema}.Sanitize()+`.superstep_session_events SET data = '{'`)
	_, err := s.Get(t.Context(), key)
	e := new(session.Error)
	if !errors.As(err, &e) || e.Fix == "" || !errors.Is(err, session.ErrDamaged) || strings.Count(err.Error(), session.ErrDamaged.Error()) != 1 {
		t.Errorf("%v", err)
	}
}
