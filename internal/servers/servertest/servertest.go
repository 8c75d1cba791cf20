// Package servertest gives tests the database servers they need: one that the
// environment names, or one of [servers] that all tests of a program share, or
// one of a test's own.
//
// A test whose server's programs are not installed is skipped and says that
// something was not tested; where the environment has CI=true it fails.
//
// A program that uses a shared server ends it in TestMain, by [Main] or [Stop].
package servertest

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/internal/servers"
)

// These variables of the environment name servers to test with, by their URLs.
// The tests share them with whoever else uses them.
const (
	PostgresEnv = "SUPERSTEP_TEST_POSTGRES_URL"
	RedisEnv    = "SUPERSTEP_TEST_REDIS_URL"
)

// Postgres returns the URL of a PostgreSQL server that tests share, so each
// should use a schema of its own: the server that [PostgresEnv] names, or else
// one that the program starts once for each list of settings (see
// [servers.StartPostgres]). It may be called from several goroutines.
func Postgres(t testing.TB, settings ...string) string {
	t.Helper()
	return shared(t, "postgres", PostgresEnv, settings, func() (string, func(), error) {
		p, end, err := startPostgres(settings)
		if err != nil {
			return "", nil, err
		}
		return p.URL(), end, nil
	})
}

// Redis returns the URL of a Redis server that tests share, so each should use
// keys of its own: the server that [RedisEnv] names, or else one that the program
// starts once for each list of options (see [servers.StartRedis]). It may be
// called from several goroutines.
func Redis(t testing.TB, args ...string) string {
	t.Helper()
	return shared(t, "redis", RedisEnv, args, func() (string, func(), error) {
		r, end, err := startRedis(args)
		if err != nil {
			return "", nil, err
		}
		return r.URL(), end, nil
	})
}

// OwnPostgres starts a server for this test, which may kill it. It is stopped
// when the test ends. For settings see [servers.StartPostgres].
func OwnPostgres(t testing.TB, settings ...string) *servers.Postgres {
	t.Helper()
	p, end, err := startPostgres(settings)
	Available(t, err)
	t.Cleanup(end)
	return p
}

// OwnPgBouncer starts a pooler before a server for this test, which is stopped when the
// test ends. For settings see [servers.StartPgBouncer].
func OwnPgBouncer(t testing.TB, p *servers.Postgres, settings ...string) *servers.PgBouncer {
	t.Helper()
	// A test's own directory would not do: the pooler's user can't reach it.
	dir, err := os.MkdirTemp("", "superstep-pgbouncer")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	b, err := servers.StartPgBouncer(dir, p, settings...)
	Available(t, err)
	t.Cleanup(func() {
		b.Stop()
		if t.Failed() {
			t.Logf("what PgBouncer said:\n%s", b.Log())
		}
	})
	return b
}

// OwnRedis starts a server for this test, which may kill it. It is killed when
// the test ends. For args see [servers.StartRedis].
func OwnRedis(t testing.TB, args ...string) *servers.Redis {
	t.Helper()
	r, end, err := startRedis(args)
	Available(t, err)
	t.Cleanup(end)
	return r
}

// Available returns when err, that of starting a server, is nil. It skips the
// test when err is [servers.ErrUnavailable], unless the environment has CI=true,
// and fails it otherwise.
func Available(t testing.TB, err error) {
	t.Helper()
	switch {
	case err == nil:
	case errors.Is(err, servers.ErrUnavailable) && os.Getenv("CI") != "true":
		t.Skipf("NOT TESTED: %v", err)
	default:
		t.Fatal(err)
	}
}

// Stop ends the shared servers and removes their data. A test that asks for one
// later has it started anew.
func Stop() {
	pool.Lock()
	defer pool.Unlock()
	for _, s := range pool.servers {
		if s.end != nil {
			s.end()
		}
	}
	clear(pool.servers)
}

// Main is a TestMain: it runs the tests, stops the shared servers, looks for
// goroutines that were left if all went well, and ends the program.
func Main(m *testing.M, ignore ...goleak.Option) {
	code := m.Run()
	Stop()
	if code == 0 {
		if err := goleak.Find(ignore...); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// IgnoreRedisDial is for [Main] where a Redis server goes away: for a second the
// client goes on to look whether it is back, even when it was closed.
func IgnoreRedisDial() goleak.Option {
	return goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial")
}

// pool holds the servers that the tests of this program share.
var pool = struct {
	sync.Mutex
	servers map[string]*server
}{servers: map[string]*server{}}

type server struct {
	url string
	end func() // nil when it was not started
	err error
}

// shared returns the URL that env holds, or that of the server for these
// options, which the first call starts.
func shared(t testing.TB, kind, env string, options []string, start func() (string, func(), error)) string {
	t.Helper()
	if url := os.Getenv(env); url != "" {
		return url
	}
	s := started(strings.Join(append([]string{kind}, options...), "\x00"), start)
	if s.err != nil {
		Available(t, fmt.Errorf("%w; or name a server in %s", s.err, env))
	}
	return s.url
}

func started(key string, start func() (string, func(), error)) *server {
	pool.Lock()
	defer pool.Unlock()
	s := pool.servers[key]
	if s == nil {
		s = &server{}
		s.url, s.end, s.err = start()
		pool.servers[key] = s
	}
	return s
}

// startPostgres starts a server on data of its own. End stops it and removes
// them.
func startPostgres(settings []string) (p *servers.Postgres, end func(), err error) {
	// A test's own directory would not do: the server's user can't reach it.
	dir, err := os.MkdirTemp("", "superstep-postgres")
	if err != nil {
		return nil, nil, err
	}
	if p, err = servers.StartPostgres(dir, settings...); err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	return p, func() {
		p.Stop()
		_ = os.RemoveAll(dir)
	}, nil
}

// startRedis starts a server on data of its own. End kills it, since nobody needs
// them and a suspended server would not hear anything else, and removes them.
func startRedis(args []string) (r *servers.Redis, end func(), err error) {
	dir, err := os.MkdirTemp("", "superstep-redis")
	if err != nil {
		return nil, nil, err
	}
	if r, err = servers.StartRedis(dir, args...); err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	return r, func() {
		_ = r.Kill()
		_ = os.RemoveAll(dir)
	}, nil
}
