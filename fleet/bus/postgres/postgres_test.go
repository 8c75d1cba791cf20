package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/superstep-dev/superstep/fleet/bus"
	"github.com/superstep-dev/superstep/fleet/bus/bustest"
	"github.com/superstep-dev/superstep/fleet/bus/postgres"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

var schemas atomic.Int64

func newSchema() string {
	return fmt.Sprintf(`superstep "it's" 100%%s @. bus %d %d`, os.Getpid(), schemas.Add(1))
}

func open(t testing.TB, url, schema string) *postgres.Bus {
	t.Helper()
	b, err := postgres.Open(context.Background(), url, postgres.Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func TestBus(t *testing.T) {
	url, schema := servertest.Postgres(t), newSchema()
	bustest.Run(t, func(t *testing.T) bus.Bus { return open(t, url, schema) })
}

// onPool returns a bus on a pool of its own, of which a tracer is told, and who follows t.
func onPool(t *testing.T, tracer pgx.QueryTracer) (*pgxpool.Pool, *postgres.Bus, bus.Subscription) {
	t.Helper()
	config, err := pgxpool.ParseConfig(servertest.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.Tracer = tracer
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	b, err := postgres.New(t.Context(), pool, postgres.Options{Schema: newSchema()})
	if err != nil {
		t.Fatal(err)
	}
	s, err := b.Subscribe(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	return pool, b, s
}

func TestABusOnAPoolLeavesItOpen(t *testing.T) {
	pool, b, s := onPool(t, nil)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := pool.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	_, err := s.Read(t.Context())
	_, serr := b.Subscribe(t.Context(), "t")
	for _, err := range []error{err, serr, b.Publish(t.Context(), "t", nil)} {
		if !errors.Is(err, bus.ErrClosed) {
			t.Errorf("a closed bus: %v", err)
		}
	}
}

// After a crash the tables are empty, and those that have subscribed go on.
func TestASubscriptionOutlivesACrashOfTheServer(t *testing.T) {
	server := servertest.OwnPostgres(t)
	kill := func() error { server.Kill(); return nil }
	bustest.Outlives(t, open(t, server.URL(), "bus"), open(t, server.URL(), "bus"), kill, server.Start)
}

// Notes come over a connection that may be lost, while those of the pool are not.
func TestASubscriptionOutlivesTheConnectionThatListens(t *testing.T) {
	server := servertest.OwnPostgres(t)
	a, b := open(t, server.URL(), "bus"), open(t, server.URL(), "bus")
	s, err := b.Subscribe(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	c, err := pgx.Connect(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	killed := 0
	for i := 0; killed < 3 || i < 50; i++ {
		var n int
		if err := c.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		killed += n
		if err := a.Publish(t.Context(), "t", []byte(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
		for read := false; !read; {
			select {
			case <-s.News():
			case <-time.After(time.Minute):
				t.Fatalf("there is no news of batch %d", i)
			}
			batches, err := s.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if read = len(batches) > 0; read && string(batches[0]) != fmt.Sprint(i) {
				t.Fatalf("read %q, want %d", batches, i)
			}
		}
	}
}

// Whoever waits for what is new asks for nothing.
func TestASubscriptionWithoutNewsAsksNothing(t *testing.T) {
	var queries counter
	_, b, s := onPool(t, &queries)
	defer b.Close()
	defer s.Close()
	quiet := false // once it listens
	for i := 0; i < 60 && !quiet; i++ {
		before := queries.Load()
		time.Sleep(time.Second)
		quiet = queries.Load()-before <= 3
	}
	if !quiet {
		t.Error("it is asked again and again")
	}
}

// counter counts queries.
type counter struct{ atomic.Int64 }

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.Add(1)
	return ctx
}

func (c *counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func TestRowsAreSwept(t *testing.T) {
	url, schema := servertest.Postgres(t), newSchema()
	b := open(t, url, schema)
	s, err := b.Subscribe(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, batch := range []string{"old", "new"} {
		if err := b.Publish(t.Context(), "t", []byte(batch)); err != nil {
			t.Fatal(err)
		}
	}
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	quoted := pgx.Identifier{schema}.Sanitize()
	for _, q := range []string{
		`UPDATE ` + quoted + `.superstep_bus_batches SET at = at - 3600000000 WHERE data = 'old'`,
		`INSERT INTO ` + quoted + `.superstep_bus_threads VALUES ('left long ago', 1, 1)`,
	} {
		if _, err := c.Exec(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	open(t, url, schema) // of another process
	rows, err := c.Query(t.Context(), `SELECT convert_from(data, 'UTF8') FROM `+quoted+`.superstep_bus_batches UNION ALL SELECT thread FROM `+quoted+`.superstep_bus_threads`)
	if err != nil {
		t.Fatal(err)
	}
	left, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || !slices.Equal(left, []string{"new", "t"}) {
		t.Errorf("left are %q, %v", left, err)
	}
}

func TestADatabaseThatIsNotThereIsRefused(t *testing.T) {
	if _, err := postgres.Open(t.Context(), "postgres://nobody@127.0.0.1:1/none?connect_timeout=5"); err == nil {
		t.Error("no error")
	}
}

func BenchmarkBus(b *testing.B) {
	url := servertest.Postgres(b)
	bustest.Bench(b, func(b *testing.B) bus.Bus { return open(b, url, "bench") })
}

func ExampleOpen() {
	ctx := context.Background()
	b, err := postgres.Open(ctx, "postgres://fleet@db/fleet")
	if err != nil {
		log.Print(err)
		return
	}
	defer b.Close()
	// fleet.Options{Bus: b} of the workers, fleet.Client{Bus: b} of who streams their runs
}
