package server_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/superstep-dev/superstep/internal/servers/servertest"
	"github.com/superstep-dev/superstep/server"
)

// Whoever has nothing to do asks for little: what others do is told.
func TestAnIdleInstanceAsksLittle(t *testing.T) {
	t.Parallel()
	pg := servertest.OwnPostgres(t)
	start(t, server.Data(pg.URL()), server.Graph(booking(t)), quiet())
	c, err := pgx.Connect(t.Context(), pg.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	commits := func() (n int) {
		t.Helper()
		if err := c.QueryRow(t.Context(), `SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	const span = 5 * time.Second
	n := 0
	for range 10 { // until it listens
		before := commits()
		time.Sleep(span)
		if n = commits() - before; n <= 12 { // there were 50
			return
		}
	}
	t.Errorf("%d transactions in %v", n, span)
}
