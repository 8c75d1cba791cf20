package pgdb_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/follow"
	"github.com/superstep-dev/superstep/internal/pgdb"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

func open(t *testing.T, url string) *pgdb.DB {
	t.Helper()
	d, err := pgdb.Open(t.Context(), url, pgdb.Config{
		Package: "test", Schema: "wire", Settings: map[string]string{"lock_timeout": "1000"},
		Tables: pgdb.Tables{Meta: "superstep_test_meta", In: func(_, query string) string { return query }},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// A connection of the server goes on listening when its client has gone, and whoever has
// it next is told: nothing may be kept that nobody asks for.
func TestNotesThatComeToTheWrongOneAreDropped(t *testing.T) {
	pooler := servertest.OwnPgBouncer(t, servertest.OwnPostgres(t), "default_pool_size = 1")
	d := open(t, pooler.URL()+"&default_query_exec_mode=exec")
	wire := d.Wire("test")
	ctx, stop := context.WithCancel(t.Context())
	_ = wire.Receive(ctx, stop, func(string) {})
	if err := wire.Send(t.Context(), "note"); err != nil {
		t.Fatal(err)
	}
	c, err := d.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if note, err := c.Conn().WaitForNotification(over); err == nil {
		t.Errorf("kept is %v", note)
	}
}

// In session mode a connection is its client's, and notes come.
func TestAPoolerInSessionModeCarriesNotes(t *testing.T) {
	pooler := servertest.OwnPgBouncer(t, servertest.OwnPostgres(t), "pool_mode = session", "ignore_startup_parameters = lock_timeout")
	a, b := open(t, pooler.URL()), open(t, pooler.URL())
	heard := make(chan string)
	look := func(context.Context) error { return nil }
	ctx, stop := context.WithCancel(t.Context())
	f := follow.New(a.Wire("test"), time.Hour, look, func(note string) {
		select {
		case heard <- note:
		case <-ctx.Done(): // one is enough
		}
	})
	var following sync.WaitGroup
	following.Go(func() { f.Run(ctx) })
	defer following.Wait()
	defer stop()
	other := follow.New(b.Wire("test"), time.Hour, look, func(string) {})
	defer other.Close()
	for {
		other.Tell("note") // until the first one listens
		select {
		case note := <-heard:
			if note != "note" {
				t.Errorf("heard is %q", note)
			}
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}
