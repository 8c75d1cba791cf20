package server_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/superstep-dev/superstep/server"
)

// overdue makes the crons of an SQLite database due.
func overdue(t *testing.T, path string) {
	t.Helper()
	ago := time.Now().Add(-time.Hour).UTC().Truncate(time.Millisecond)
	inFile(t, path, fmt.Sprintf(`UPDATE superstep_crons SET next = %d, data = json_set(data, '$.next_run_date', '%s')`, ago.UnixMicro(), ago.Format(time.RFC3339Nano)))
}

// inFile changes the server's tables in SQLite.
func inFile(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// inSchema is a connection that changes the server's tables in PostgreSQL, and
// their schema.
func inSchema(t *testing.T, data string) (conn *pgx.Conn, schema string) {
	t.Helper()
	url, schema, _ := strings.Cut(data, "schema=")
	conn, err := pgx.Connect(t.Context(), strings.TrimRight(url, "?&"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn, schema
}

// trigger has a function run before a run is stored.
func trigger(t *testing.T, conn *pgx.Conn, schema, body string) {
	t.Helper()
	_, err := conn.Exec(t.Context(), fmt.Sprintf(`CREATE FUNCTION %[1]s.disturb() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN %[2]s RETURN NEW; END $$;
		CREATE TRIGGER disturb BEFORE INSERT ON %[1]s.superstep_runs FOR EACH ROW EXECUTE FUNCTION %[1]s.disturb()`, schema, body))
	if err != nil {
		t.Fatal(err)
	}
}

// fired waits until each of n crons has fired and the runs are over: one run each,
// and none is due.
func (c client) fired(t *testing.T, n int) {
	t.Helper()
	waitFor(t, "all crons have fired", func() bool {
		idle := call[float64](c, "POST", "/threads/count", object{"status": "idle"})
		return idle >= float64(n) && c.later(n)
	})
	if got := call[float64](c, "POST", "/threads/count", object{}); got != float64(n) {
		t.Errorf("%v threads of %d crons", got, n)
	}
	for _, thread := range call[[]object](c, "POST", "/threads/search", object{"limit": n}) {
		if runs := call[[]object](c, "GET", "/threads/"+thread["thread_id"].(string)+"/runs", nil); len(runs) != 1 || runs[0]["status"] != "success" {
			t.Errorf("a thread has the runs %v", runs)
		}
	}
}

// later reports whether there are n crons whose time is still to come.
func (c client) later(n int) bool {
	c.t.Helper()
	crons := call[[]object](c, "POST", "/runs/crons/search", object{"limit": n + 1})
	for _, cron := range crons {
		next, _ := cron["next_run_date"].(string)
		if at, err := time.Parse(time.RFC3339Nano, next); err != nil || at.Before(time.Now()) {
			return false
		}
	}
	return len(crons) == n
}

const yearly = `{"assistant_id":"slow","schedule":"@yearly","input":{},"on_run_completed":"keep"}`

func TestAFiringIsNotLostWhenItsRunCannotBeStored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, log := filepath.Join(dir, "a.server.db"), new(logged)
	c := start(t, server.Data("sqlite:"+filepath.Join(dir, "a.db")), server.Graph(slow(t)), server.Logger(slog.New(slog.NewTextHandler(log, nil))))
	call[any](c, "POST", "/runs/crons", yearly)
	inFile(t, file, `CREATE TRIGGER disturb BEFORE INSERT ON superstep_runs BEGIN SELECT RAISE(ABORT, 'disturbed'); END`)
	overdue(t, file)
	waitFor(t, "the run could not be stored", func() bool { return strings.Contains(log.String(), "disturbed") })
	if c.later(1) {
		t.Error("the cron was moved on without a run")
	}
	inFile(t, file, `DROP TRIGGER disturb`)
	c.fired(t, 1)
}

// Half of the attempts to store a run fail.
func TestFiringsAreNeitherLostNorDoubledWhenServersOfADatabaseFail(t *testing.T) {
	t.Parallel()
	data := ownSchema(t)
	opts := []server.Option{server.Data(data), server.Graph(slow(t)), quiet()}
	a, b := start(t, opts...), start(t, opts...)
	conn, schema := inSchema(t, data)
	if _, err := conn.Exec(t.Context(), fmt.Sprintf(`CREATE SEQUENCE %s.attempts`, schema)); err != nil {
		t.Fatal(err)
	}
	trigger(t, conn, schema, fmt.Sprintf(`IF nextval('%s.attempts') %% 2 = 1 THEN RAISE EXCEPTION 'disturbed'; END IF;`, schema))
	const n = 20
	for range n {
		call[any](a, "POST", "/runs/crons", yearly)
	}
	due(t, data)
	b.fired(t, n)
}

// The server is killed after the cron was moved on and before the run is stored.
func TestAServerThatIsKilledWhileACronFiresLosesNothing(t *testing.T) {
	t.Parallel()
	data := ownSchema(t)
	dying := launch(t, data)
	call[any](dying.client, "POST", "/runs/crons", yearly)
	conn, schema := inSchema(t, data)
	const lock = 7_310_442
	exec := func(statement string, args ...any) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), statement, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`SELECT pg_advisory_lock($1)`, lock)
	trigger(t, conn, schema, fmt.Sprintf("PERFORM pg_advisory_xact_lock(%d);", lock))
	due(t, data)
	waiting := func() (pid int) {
		_ = conn.QueryRow(t.Context(), `SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = $1 AND NOT granted`, lock).Scan(&pid)
		return pid
	}
	waitFor(t, "the cron fires", func() bool { return waiting() != 0 })
	dying.kill()
	exec(`SELECT pg_terminate_backend($1)`, waiting()) // which it would see later by itself
	waitFor(t, "the transaction has ended", func() bool { return waiting() == 0 })
	exec(fmt.Sprintf(`DROP TRIGGER disturb ON %s.superstep_runs`, schema))
	exec(`SELECT pg_advisory_unlock($1)`, lock)
	launch(t, data).fired(t, 1)
}

func TestACronThatCannotStartItsRunWaitsForItsNextTime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, log := filepath.Join(dir, "a.server.db"), new(logged)
	c := start(t, server.Data("sqlite:"+filepath.Join(dir, "a.db")), server.Graph(slow(t)), server.Logger(slog.New(slog.NewTextHandler(log, nil))))
	busy := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	gone := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	run := call[object](c, "POST", "/threads/"+busy+"/runs", object{"assistant_id": "slow", "input": object{"todo": 100_000}})["run_id"]
	for _, thread := range []string{busy, gone} {
		call[any](c, "POST", "/threads/"+thread+"/runs/crons", object{"assistant_id": "slow", "schedule": "@yearly", "input": object{}, "multitask_strategy": "reject"})
	}
	if status, _, text := c.do("DELETE", "/threads/"+gone, nil); status != http.StatusNoContent {
		t.Fatalf("%d %s", status, text)
	}
	overdue(t, file)
	waitFor(t, "the crons were moved on", func() bool { return c.later(2) })
	if runs := call[[]object](c, "GET", "/threads/"+busy+"/runs", nil); len(runs) != 1 || runs[0]["run_id"] != run {
		t.Errorf("the runs: %v", runs)
	}
	if got := call[float64](c, "POST", "/threads/count", object{}); got != 1 {
		t.Errorf("%v threads", got)
	}
	waitFor(t, "both are logged", func() bool {
		return strings.Contains(log.String(), "already running") && strings.Contains(log.String(), "not found")
	})
	call[any](c, "POST", fmt.Sprintf("/threads/%s/runs/%v/cancel?wait=1", busy, run), nil)
}

func TestACronEndsAndItsThreadGoesWithItsRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "a.server.db")
	c := start(t, server.Data("sqlite:"+filepath.Join(dir, "a.db")), server.Graph(slow(t)), server.Graph(booking(t)), quiet())
	ends := time.Now().AddDate(2, 0, 0).UTC()
	thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	call[any](c, "POST", "/threads/"+thread+"/runs/crons", object{"assistant_id": "slow", "schedule": "@yearly", "input": object{"todo": 2}, "end_time": ends})
	call[any](c, "POST", "/runs/crons", object{"assistant_id": "slow", "schedule": "@yearly", "input": object{}, "end_time": ends})
	soon := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	inFile(t, file, fmt.Sprintf(`UPDATE superstep_crons SET data = json_set(data, '$.end_time', '%s')`, soon))
	overdue(t, file)
	waitFor(t, "both have ended", func() bool {
		crons := call[[]object](c, "POST", "/runs/crons/search", object{})
		return crons[0]["next_run_date"] == nil && crons[1]["next_run_date"] == nil
	})
	waitFor(t, "the run on the thread has ended", func() bool {
		runs := call[[]object](c, "GET", "/threads/"+thread+"/runs", nil)
		return len(runs) == 1 && runs[0]["status"] == "success" && c.values(thread)["done"] == 2.0
	})
	waitFor(t, "the thread of the other one is gone", func() bool {
		return call[float64](c, "POST", "/threads/count", object{}) == 1
	})
}
