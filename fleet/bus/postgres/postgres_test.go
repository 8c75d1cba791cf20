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

func TestABusOnAPoolLeavesItOpen(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), servertest.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	b, err := postgres.New(t.Context(), pool, postgres.Options{Schema: newSchema()})
	if err != nil {
		t.Fatal(err)
	}
	s, err := b.Subscribe(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := pool.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	_, err = s.Read(t.Context())
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
