package postgres_test

import (
	"context"
	"errors"
	"fmt"
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
	for _, o := range [][]postgres.Options{{{TTL: -1}}, {{}, {}}, {{Schema: "\x00"}}} {
		if _, err := postgres.Open(t.Context(), url, o...); err == nil {
			t.Errorf("%v was taken", o)
		}
	}
}
