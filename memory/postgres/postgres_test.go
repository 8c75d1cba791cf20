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

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	threads "github.com/superstep-dev/superstep/checkpoint/postgres"
	"github.com/superstep-dev/superstep/internal/race"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/memory/memorytest"
	"github.com/superstep-dev/superstep/memory/postgres"
)

func TestMain(m *testing.M) { servertest.Main(m) }

var schemas atomic.Int64

// newSchema names a schema that is dropped at the end of the test.
func newSchema(t testing.TB, url string) string {
	t.Helper()
	schema := fmt.Sprintf(`superstep "it's" 100%%s @. %d %d`, os.Getpid(), schemas.Add(1))
	t.Cleanup(func() { exec(t, url, `DROP SCHEMA IF EXISTS `+quote(schema)+` CASCADE`) })
	return schema
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// exec runs statements on a connection of its own.
func exec(t testing.TB, url string, queries ...string) {
	t.Helper()
	c, err := pgx.Connect(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	for _, q := range queries {
		if _, err := c.Exec(context.Background(), q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
}

// schemaOf remembers where the suite's stores keep their tables.
var schemaOf sync.Map

func open(t testing.TB, url string, o postgres.Options) *postgres.Store {
	t.Helper()
	if o.Schema == "" {
		o.Schema = newSchema(t, url)
	}
	s, err := postgres.Open(context.Background(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	schemaOf.Store(memory.Store(s), o.Schema)
	return s
}

func sameSchema(t testing.TB, s memory.Store) string {
	t.Helper()
	schema, ok := schemaOf.Load(s)
	if !ok {
		t.Fatal("unknown store")
	}
	return schema.(string)
}

func run(t *testing.T, url string, o postgres.Options, items int) {
	again := func(t *testing.T, s memory.Store, c memory.Config) memory.Store {
		o := o
		o.Config, o.Schema = c, sameSchema(t, s)
		return open(t, url, o)
	}
	memorytest.Run(t, func(t *testing.T, c memory.Config) memory.Store {
		o := o
		o.Config = c
		return open(t, url, o)
	}, memorytest.Options{
		Reopen: func(t *testing.T, s memory.Store, c memory.Config) memory.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return again(t, s, c)
		},
		Another:   again,
		ManyItems: items,
	})
}

// items returns how many items the suite's test with many of them puts: as many as
// it likes, and fewer under the race detector, which takes minutes over them.
func items() int {
	if race.Enabled {
		return 500
	}
	return 0
}

func TestStore(t *testing.T) {
	run(t, servertest.Postgres(t), postgres.Options{NoPgvector: true}, items())
}

func TestStoreThroughAPooler(t *testing.T) {
	url := servertest.OwnPgBouncer(t, servertest.OwnPostgres(t)).URL() + "&default_query_exec_mode=exec"
	run(t, url, postgres.Options{NoPgvector: true}, 500)
}

// withPgvector makes the extension in the database, if the server has it.
func withPgvector(t *testing.T, url string) bool {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	var there bool
	if err := c.QueryRow(t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_available_extensions WHERE name = 'vector')`).Scan(&there); err != nil {
		t.Fatal(err)
	}
	if there {
		exec(t, url, `CREATE EXTENSION IF NOT EXISTS vector`)
	}
	return there
}

// needPgvector skips a test whose server has no pgvector.
func needPgvector(t *testing.T, url string) {
	t.Helper()
	if !withPgvector(t, url) {
		t.Skipf("NOT TESTED: the server has no pgvector; install it (the package postgresql-<version>-pgvector), or name a server that has it in %s", servertest.PostgresEnv)
	}
}

func TestStoreWithPgvector(t *testing.T) {
	url := servertest.Postgres(t)
	needPgvector(t, url)
	s := open(t, url, postgres.Options{})
	defer s.Close()
	if !s.Pgvector() {
		t.Fatal("pgvector wasn't found")
	}
	run(t, url, postgres.Options{}, items())
}

// The statements for pgvector, where the extension can't be had: something with
// its names stands in for it.
func TestStoreWithAStandInForPgvector(t *testing.T) {
	if race.Enabled || testing.Short() {
		t.Skip("the suite once more: run without -race and -short")
	}
	url := servertest.OwnPostgres(t).URL()
	exec(t, url,
		`CREATE SCHEMA "ext 1"`,
		`CREATE DOMAIN "ext 1".vector AS real[]`,
		`CREATE FUNCTION "ext 1".distance(a real[], b real[]) RETURNS float8 LANGUAGE plpgsql IMMUTABLE AS $$
		BEGIN
			IF array_length(a, 1) <> array_length(b, 1) THEN
				RAISE 'different vector dimensions';
			END IF;
			RETURN (SELECT 1 - sum(x::float8 * y) / sqrt(sum(x::float8 * x) * sum(y::float8 * y)) FROM unnest(a, b) AS u (x, y));
		END $$`,
		`CREATE OPERATOR "ext 1".<=> (LEFTARG = real[], RIGHTARG = real[], FUNCTION = "ext 1".distance)`,
		`SET allow_system_table_mods = on; INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)
			SELECT 99999, 'vector', 10, oid, true, '0' FROM pg_namespace WHERE nspname = 'ext 1'`,
	)
	s := open(t, url, postgres.Options{})
	defer s.Close()
	if !s.Pgvector() {
		t.Fatal("the stand-in wasn't found")
	}
	run(t, url, postgres.Options{}, 500)
}

// Whatever a pool is set to, the store does what it should.
func TestStoreOnAnExistingPool(t *testing.T) {
	if race.Enabled || testing.Short() {
		t.Skip("the suite once more: run without -race and -short")
	}
	url := servertest.Postgres(t)
	for name, change := range map[string]func(c *pgxpool.Config){
		"one connection, serializable": func(c *pgxpool.Config) {
			c.MaxConns = 1
			c.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
		},
		"simple protocol, another time zone and search path": func(c *pgxpool.Config) {
			c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
			for k, v := range map[string]string{"TimeZone": "Asia/Kathmandu", "DateStyle": "ISO, DMY", "search_path": "none", "extra_float_digits": "0"} {
				c.ConnConfig.RuntimeParams[k] = v
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			memorytest.Run(t, func(t *testing.T, c memory.Config) memory.Store {
				p, err := pgxpool.ParseConfig(url)
				if err != nil {
					t.Fatal(err)
				}
				change(p)
				pool, err := pgxpool.NewWithConfig(t.Context(), p)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(pool.Close)
				s, err := postgres.New(t.Context(), pool, postgres.Options{Config: c, Schema: newSchema(t, url), NoPgvector: true})
				if err != nil {
					t.Fatal(err)
				}
				return s
			}, memorytest.Options{ManyItems: 500})
		})
	}
}

func TestTheTablesOfThreadsStandBesideThoseOfTheMemory(t *testing.T) {
	url := servertest.Postgres(t)
	schema := newSchema(t, url)
	var wg sync.WaitGroup
	for i := range 8 { // all at the same moment
		wg.Go(func() {
			if i%2 == 0 {
				s, err := threads.Open(context.Background(), url, threads.Options{Schema: schema, MaxConns: 2})
				if err != nil {
					t.Errorf("threads: %v", err)
					return
				}
				s.Close()
				return
			}
			s, err := postgres.Open(context.Background(), url, postgres.Options{Schema: schema, MaxConns: 2})
			if err != nil {
				t.Errorf("memory: %v", err)
				return
			}
			defer s.Close()
			if _, err := s.Put(context.Background(), []string{"a"}, fmt.Sprint(i), []byte(`{}`)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s := open(t, url, postgres.Options{Schema: schema})
	defer s.Close()
	if items, err := s.Search(t.Context(), nil, memory.Query{}); err != nil || len(items) != 4 {
		t.Fatal(items, err)
	}
}

func wantError(t *testing.T, err, kind error) {
	t.Helper()
	e, ok := errors.AsType[*postgres.Error](err)
	if !ok || !errors.Is(err, kind) || e.Fix == "" {
		t.Fatalf("got error %v, want %v", err, kind)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	for name, url := range map[string]string{
		"no number as port": "postgres://u:secret@localhost:http/db",
		"no URL":            "what secret is it",
		"a bad setting":     "postgres://u:secret@localhost/db?sslmode=secret",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := postgres.Open(t.Context(), url)
			wantError(t, err, postgres.ErrURL)
			if text := err.Error(); strings.Contains(text, "secret") {
				t.Fatalf("%q shows the password", text)
			}
		})
	}
	t.Run("nobody listens", func(t *testing.T) {
		_, err := postgres.Open(t.Context(), "postgres://u:secret@127.0.0.1:1/db?sslmode=disable")
		wantError(t, err, postgres.ErrUnavailable)
	})
	t.Run("a server that doesn't answer", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		_, err = postgres.Open(t.Context(), "postgres://u:secret@"+l.Addr().String()+"/db?sslmode=disable&connect_timeout=1")
		wantError(t, err, postgres.ErrUnavailable)
	})
	t.Run("a wrong index", func(t *testing.T) {
		_, err := postgres.Open(t.Context(), "postgres://u:secret@127.0.0.1:1/db", postgres.Options{Config: memory.Config{Index: &memory.Index{}}})
		if !errors.Is(err, memory.ErrOption) {
			t.Fatal(err)
		}
	})

	url := servertest.Postgres(t)
	t.Run("tables of a newer version", func(t *testing.T) {
		schema := newSchema(t, url)
		open(t, url, postgres.Options{Schema: schema}).Close()
		exec(t, url, `INSERT INTO `+quote(schema)+`.superstep_memory_meta (version) VALUES (1000)`)
		_, err := postgres.Open(t.Context(), url, postgres.Options{Schema: schema})
		wantError(t, err, postgres.ErrVersion)
	})
	t.Run("tables that somebody dropped", func(t *testing.T) {
		schema := newSchema(t, url)
		s := open(t, url, postgres.Options{Schema: schema})
		defer s.Close()
		exec(t, url, `DROP TABLE `+quote(schema)+`.superstep_memory_items CASCADE`)
		_, err := s.Get(t.Context(), []string{"a"}, "k")
		wantError(t, err, postgres.ErrNoTables)
		_, err = s.Put(t.Context(), []string{"a"}, "k", []byte(`{}`))
		wantError(t, err, postgres.ErrNoTables)
	})
	t.Run("no schema in the search path", func(t *testing.T) {
		_, err := postgres.Open(t.Context(), url+"&search_path=none")
		wantError(t, err, postgres.ErrNoTables)
	})
	t.Run("no permission", func(t *testing.T) {
		schema := newSchema(t, url)
		open(t, url, postgres.Options{Schema: schema}).Close()
		role := quote(fmt.Sprint("reader", os.Getpid()))
		exec(t, url, `CREATE ROLE `+role, `GRANT USAGE ON SCHEMA `+quote(schema)+` TO `+role, `GRANT SELECT ON ALL TABLES IN SCHEMA `+quote(schema)+` TO `+role)
		t.Cleanup(func() { exec(t, url, `DROP OWNED BY `+role, `DROP ROLE `+role) })
		c, err := pgxpool.ParseConfig(url)
		if err != nil {
			t.Fatal(err)
		}
		c.ConnConfig.RuntimeParams["role"] = fmt.Sprint("reader", os.Getpid())
		pool, err := pgxpool.NewWithConfig(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		_, err = postgres.New(t.Context(), pool, postgres.Options{Schema: schema})
		wantError(t, err, postgres.ErrDenied)
	})
	t.Run("a server that goes away and comes back", func(t *testing.T) {
		server := servertest.OwnPostgres(t)
		s, err := postgres.Open(t.Context(), server.URL())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := s.Put(t.Context(), []string{"a"}, "k", []byte(`{}`)); err != nil {
			t.Fatal(err)
		}
		server.Kill()
		_, err = s.Put(t.Context(), []string{"a"}, "l", []byte(`{}`))
		wantError(t, err, postgres.ErrUnavailable)
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		for { // connections that are dead are noticed one by one
			items, err := s.Search(t.Context(), nil, memory.Query{})
			if err == nil {
				if len(items) != 1 {
					t.Fatal(items)
				}
				break
			}
			wantError(t, err, postgres.ErrUnavailable)
		}
	})
}
