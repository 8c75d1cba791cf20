package postgres_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/checkpointtest"
	"github.com/superstep-dev/superstep/checkpoint/postgres"
	"github.com/superstep-dev/superstep/internal/race"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

var schemas atomic.Int64

// newSchema names a schema that is dropped at the end of the test.
func newSchema(t testing.TB, url string) string {
	t.Helper()
	schema := fmt.Sprintf(`superstep "test" %d %d`, os.Getpid(), schemas.Add(1))
	t.Cleanup(func() { exec(t, url, `DROP SCHEMA IF EXISTS `+quote(schema)+` CASCADE`) })
	return schema
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// exec runs statements without parameters on a connection of its own.
func exec(t testing.TB, url string, queries ...string) {
	t.Helper()
	c := connect(t, url)
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
	schemaOf.Store(checkpoint.Store(s), o.Schema)
	return s
}

func sameSchema(t testing.TB, s checkpoint.Store) string {
	t.Helper()
	schema, ok := schemaOf.Load(s)
	if !ok {
		t.Fatal("unknown store")
	}
	return schema.(string)
}

func TestStore(t *testing.T) { // SONI-32
	url := servertest.Postgres(t)
	again := func(t *testing.T, s checkpoint.Store) checkpoint.Store {
		return open(t, url, postgres.Options{Schema: sameSchema(t, s)})
	}
	checkpointtest.Run(t, func(t *testing.T) checkpoint.Store { return open(t, url, postgres.Options{}) }, checkpointtest.Options{
		Reopen: func(t *testing.T, s checkpoint.Store) checkpoint.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return again(t, s)
		},
		// A killed process leaves what the server has. What a killed server leaves
		// is tested elsewhere.
		Crash:   again,
		Another: again,
		Size: func(t *testing.T, s checkpoint.Store) (n int64) {
			schema := sameSchema(t, s)
			c := connect(t, url)
			defer c.Close(context.Background())
			for _, table := range []string{"threads", "logs", "records", "side"} {
				name := quote(schema) + ".superstep_" + table
				// The server does so by itself, in time.
				if _, err := c.Exec(t.Context(), `VACUUM `+name); err != nil {
					t.Fatal(err)
				}
				var size int64
				if err := c.QueryRow(t.Context(), `SELECT pg_total_relation_size($1::text::regclass)`, name).Scan(&size); err != nil {
					t.Fatal(err)
				}
				n += size
			}
			return n
		},
	})
}

func poolOf(t testing.TB, url string, change func(c *pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(c)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return pool
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
			c.ConnConfig.RuntimeParams["bytea_output"] = "escape"
		},
		"simple protocol, another time zone and search path": func(c *pgxpool.Config) {
			c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
			for k, v := range map[string]string{"TimeZone": "Asia/Kathmandu", "DateStyle": "ISO, DMY", "search_path": "none"} {
				c.ConnConfig.RuntimeParams[k] = v
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			checkpointtest.Run(t, func(t *testing.T) checkpoint.Store {
				schema := newSchema(t, url)
				pool := poolOf(t, url, change)
				t.Cleanup(pool.Close)
				s, err := postgres.New(t.Context(), pool, postgres.Options{Schema: schema})
				if err != nil {
					t.Fatal(err)
				}
				return s
			})
		})
	}
}
