package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	neturl "net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/internal/logtest"
	"github.com/superstep-dev/superstep/checkpoint/postgres"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
)

func wantError(t *testing.T, err, kind error, says ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("got error %v, want %v", err, kind)
	}
	if _, ok := errors.AsType[*postgres.Error](err); !ok {
		t.Fatalf("error %v is not a *postgres.Error", err)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Fatalf("error %q does not say %q", err, s)
		}
	}
}

// refused opens a database that cannot be opened.
func refused(t *testing.T, url string, o postgres.Options, kind error, says ...string) {
	t.Helper()
	s, err := postgres.Open(t.Context(), url, o)
	if err == nil {
		s.Close()
		t.Fatal("the database was opened")
	}
	wantError(t, err, kind, says...)
}

// with changes a URL.
func with(t *testing.T, url string, f func(u *neturl.URL)) string {
	t.Helper()
	u, err := neturl.Parse(url)
	if err != nil {
		t.Skip("the server's URL is no URL")
	}
	f(u)
	return u.String()
}

func parameter(t *testing.T, url, name, value string) string {
	return with(t, url, func(u *neturl.URL) {
		q := u.Query()
		q.Set(name, value)
		u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20")
	})
}

func TestAWrongPassword(t *testing.T) {
	url := with(t, servertest.Postgres(t), func(u *neturl.URL) { u.User = neturl.UserPassword(u.User.Username(), "not-my-password") })
	_, err := postgres.Open(t.Context(), url)
	if err == nil {
		t.Skip("the server asks for no password")
	}
	wantError(t, err, postgres.ErrDenied, "password is wrong", "correct user and password")
	if strings.Contains(fmt.Sprintf("%v %+v", err, err), "not-my-password") {
		t.Fatalf("error %q shows the password", err)
	}
}

func TestAnUnknownDatabase(t *testing.T) {
	refused(t, with(t, servertest.Postgres(t), func(u *neturl.URL) { u.Path = "/nowhere" }), postgres.Options{}, postgres.ErrNoDatabase, "/nowhere", "CREATE DATABASE")
}

func TestNobodyThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	refused(t, "postgres://me:hush@"+addr+"/db", postgres.Options{}, postgres.ErrUnavailable, addr, "check that the server runs")
}

func TestConnectionStringsThatMakeNoSense(t *testing.T) {
	const secret = "hush"
	for url, says := range map[string]string{
		"postgres://me:" + secret + "@host:port/db":                "percent-encode",
		"postgres://me:" + secret + "%zz@host/db":                  "percent-encode",
		"postgres://me:" + secret + "@host/db?sslmode=perhaps":     "sslmode",
		"host=h user=me password=" + secret + " sslmode=perhaps":   "write postgres://",
		"mysql://me:" + secret + "@host/db":                        "write postgres://",
		"postgres://me:" + secret + "@host/db?pool_max_conns=many": "pool_max_conns",
	} {
		_, err := postgres.Open(t.Context(), url)
		if !errors.Is(err, postgres.ErrURL) {
			t.Errorf("%s: got error %v", url, err)
			continue
		}
		wantError(t, err, postgres.ErrURL, says)
		for e := error(err); e != nil; e = errors.Unwrap(e) {
			if strings.Contains(fmt.Sprintf("%v %+v %#v", e, e, e), secret) {
				t.Fatalf("error %q shows the password", e)
			}
		}
	}
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	for _, o := range [][]postgres.Options{{{}, {}}, {{MaxConns: -1}}, {{Writers: -1}}, {{Timeout: -1}}, {{LockTimeout: -1}}, {{Schema: "\x00"}}} {
		if _, err := postgres.Open(t.Context(), "postgres://127.0.0.1:1/db", o...); err == nil || errors.Is(err, postgres.ErrUnavailable) {
			t.Fatalf("%+v: got error %v", o, err)
		}
	}
}

func TestANewerSchema(t *testing.T) {
	url := servertest.Postgres(t)
	s := open(t, url, postgres.Options{})
	schema := sameSchema(t, s)
	s.Close()
	exec(t, url, `INSERT INTO `+quote(schema)+`.superstep_meta (version) VALUES (1000)`)
	refused(t, url, postgres.Options{Schema: schema}, checkpoint.ErrVersion, "schema version 1000", "use a newer version")
}

func TestTablesInTheSearchPath(t *testing.T) {
	url := servertest.Postgres(t)
	schema := newSchema(t, url)
	refused(t, parameter(t, url, "search_path", quote(schema)), postgres.Options{}, postgres.ErrNoTables, "search path", "Options.Schema")
	exec(t, url, `CREATE SCHEMA `+quote(schema))
	s, err := postgres.Open(t.Context(), parameter(t, url, "search_path", quote(schema)))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	write(t, s, "t", 3)
	again := open(t, url, postgres.Options{Schema: schema})
	defer again.Close()
	if n := count(t, again, "t"); n != 3 {
		t.Fatalf("%d records, want 3", n)
	}
}

func TestSettingsOfTheServerInTheURL(t *testing.T) {
	url := servertest.Postgres(t)
	s := open(t, parameter(t, parameter(t, url, "synchronous_commit", "off"), "statement_timeout", "5000"), postgres.Options{})
	defer s.Close()
	write(t, s, "t", 3)
	if n := count(t, s, "t"); n != 3 {
		t.Fatalf("%d records, want 3", n)
	}
	refused(t, parameter(t, url, "synchronous_commit", "perhaps"), postgres.Options{}, postgres.ErrURL, "synchronous_commit", "URL")
}

func TestAnOutputThatTheDriverCannotRead(t *testing.T) {
	url := parameter(t, servertest.Postgres(t), "bytea_output", "escape")
	refused(t, parameter(t, url, "default_query_exec_mode", "exec"), postgres.Options{}, postgres.ErrURL, "bytea_output=hex")
	s := open(t, url, postgres.Options{})
	defer s.Close()
	write(t, s, "t", 2)
}

func TestProgramsThatStartAtOnce(t *testing.T) {
	url := servertest.Postgres(t)
	schema := newSchema(t, url)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			s, err := postgres.Open(t.Context(), url, postgres.Options{Schema: schema, MaxConns: 2})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			log := checkpoint.Log{Thread: checkpoint.ThreadID(fmt.Sprint("t", i))}
			if _, err := s.Write(t.Context(), &checkpoint.Write{Log: log, Record: logtest.Step(log, checkpoint.NewRunID(), "", 1, message)}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestAReadOnlyServer(t *testing.T) {
	url := servertest.Postgres(t)
	refused(t, parameter(t, url, "default_transaction_read_only", "on"), postgres.Options{}, postgres.ErrReadOnly, "default_transaction_read_only=off")

	// It becomes read-only while the store is open.
	var readOnly atomic.Bool
	pool := poolOf(t, url, func(c *pgxpool.Config) {
		c.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) {
			if !readOnly.Load() {
				return true, nil
			}
			_, err := conn.Exec(ctx, `SET default_transaction_read_only = on`)
			return true, err
		}
	})
	defer pool.Close()
	s, err := postgres.New(t.Context(), pool, postgres.Options{Schema: newSchema(t, url)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	head := write(t, s, "t", 1)
	readOnly.Store(true)
	log := checkpoint.Log{Thread: "t"}
	_, err = s.Write(t.Context(), &checkpoint.Write{Log: log, Record: logtest.Step(log, head.Run(), head, 2, message), Head: head})
	wantError(t, err, postgres.ErrReadOnly, "primary")
	wantError(t, s.Delete(t.Context(), "t"), postgres.ErrReadOnly)
	if n := count(t, s, "t"); n != 1 {
		t.Fatalf("%d records, want 1", n)
	}
}

func TestAUserWithoutPermission(t *testing.T) {
	url := servertest.Postgres(t)
	role := fmt.Sprintf("superstep_guest_%d", schemas.Add(1))
	exec(t, url, `DROP ROLE IF EXISTS `+role, `CREATE ROLE `+role+` LOGIN PASSWORD 'guest'`)
	schema := newSchema(t, url)
	t.Cleanup(func() { exec(t, url, `DROP OWNED BY `+role+` CASCADE`, `DROP ROLE `+role) })
	guest := with(t, url, func(u *neturl.URL) { u.User = neturl.UserPassword(role, "guest") })

	exec(t, url, `CREATE SCHEMA `+quote(schema))
	refused(t, guest, postgres.Options{Schema: schema}, postgres.ErrDenied, "grant")
	exec(t, url, `GRANT USAGE ON SCHEMA `+quote(schema)+` TO `+role)
	refused(t, guest, postgres.Options{Schema: schema}, postgres.ErrDenied, "CREATE")

	owner := open(t, url, postgres.Options{Schema: schema})
	defer owner.Close()
	exec(t, url, `GRANT SELECT ON ALL TABLES IN SCHEMA `+quote(schema)+` TO `+role)
	refused(t, guest, postgres.Options{Schema: schema}, postgres.ErrDenied, "UPDATE on superstep_threads", "grant")
	exec(t, url, `GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA `+quote(schema)+` TO `+role)
	s := open(t, guest, postgres.Options{Schema: schema})
	defer s.Close()
	write(t, s, "t", 2)
	if n := count(t, owner, "t"); n != 2 {
		t.Fatalf("%d records, want 2", n)
	}
}

func TestTablesThatWereDropped(t *testing.T) {
	url := servertest.Postgres(t)
	s := open(t, url, postgres.Options{})
	defer s.Close()
	head := write(t, s, "t", 1)
	exec(t, url, `DROP SCHEMA `+quote(sameSchema(t, s))+` CASCADE`)
	log := checkpoint.Log{Thread: "t"}
	_, err := s.Write(t.Context(), &checkpoint.Write{Log: log, Record: logtest.Step(log, head.Run(), head, 2, message), Head: head})
	wantError(t, err, postgres.ErrNoTables, "dropped")
	_, _, err = s.Head(t.Context(), log)
	wantError(t, err, postgres.ErrNoTables)
}

// A trigger stands in for a disk that is full: what reaches the store is the same.
func TestAFullDiskHitsOnlyWhomItHits(t *testing.T) {
	url := servertest.Postgres(t)
	s := open(t, url, postgres.Options{Writers: 1})
	defer s.Close()
	schema := quote(sameSchema(t, s))
	exec(t, url, `CREATE FUNCTION `+schema+`.no_space() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF octet_length(NEW.data) > 5000 THEN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END IF;
			RETURN NEW;
		END $$`,
		`CREATE TRIGGER no_space BEFORE INSERT ON `+schema+`.superstep_records FOR EACH ROW EXECUTE FUNCTION `+schema+`.no_space()`)
	large := logtest.Noise(9000)
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			log := checkpoint.Log{Thread: checkpoint.ThreadID(fmt.Sprint("t", i))}
			data := message
			if i%10 == 0 {
				data = large
			}
			_, err := s.Write(t.Context(), &checkpoint.Write{Log: log, Record: logtest.Step(log, checkpoint.NewRunID(), "", 1, data)})
			switch {
			case i%10 != 0 && err != nil:
				t.Error(err)
			case i%10 == 0 && !errors.Is(err, postgres.ErrFull):
				t.Errorf("got error %v, want %v", err, postgres.ErrFull)
			case i%10 == 0 && !strings.Contains(err.Error(), "nothing was written"):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i := range 40 {
		want := 1
		if i%10 == 0 {
			want = 0
		}
		if n := count(t, s, checkpoint.ThreadID(fmt.Sprint("t", i))); n != want {
			t.Fatalf("thread %d has %d records, want %d", i, n, want)
		}
	}
}

func TestAThreadThatAnotherProgramLocks(t *testing.T) {
	url := servertest.Postgres(t)
	s := open(t, url, postgres.Options{LockTimeout: 100 * time.Millisecond, Writers: 1})
	defer s.Close()
	head := write(t, s, "held", 1)
	c := connect(t, url)
	defer c.Close(context.Background())
	tx, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT * FROM `+quote(sameSchema(t, s))+`.superstep_threads FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() { write(t, s, checkpoint.ThreadID(fmt.Sprint("t", i)), 1) })
	}
	log := checkpoint.Log{Thread: "held"}
	w := &checkpoint.Write{Log: log, Record: logtest.Step(log, head.Run(), head, 2, message), Head: head}
	_, err = s.Write(t.Context(), w)
	wantError(t, err, postgres.ErrLocked, "LockTimeout")
	wg.Wait()
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(t.Context(), w); err != nil {
		t.Fatal(err)
	}
}

// proxy stands between a store and its server.
type proxy struct {
	*servertest.Proxy
	mute atomic.Bool // answers are not passed on
}

func through(t *testing.T, url string) (*proxy, string) {
	u, err := neturl.Parse(url)
	if err != nil || u.Hostname() == "" {
		t.Skip("the server's URL names no host")
	}
	p := &proxy{}
	p.Proxy = servertest.NewProxy(t, u.Host, func() servertest.Tap {
		return servertest.Tap{Answer: func([]byte) servertest.Verdict {
			if p.mute.Load() {
				return servertest.Drop
			}
			return servertest.Pass
		}}
	})
	return p, with(t, url, func(u *neturl.URL) { u.Host = p.Addr() })
}

func TestAConnectionThatBreaksBeforeTheAnswer(t *testing.T) {
	direct := servertest.Postgres(t)
	p, url := through(t, direct)
	s := open(t, url, postgres.Options{MaxConns: 4})
	defer s.Close()
	look := open(t, direct, postgres.Options{Schema: sameSchema(t, s)})
	defer look.Close()
	head := write(t, s, "t", 1)

	// The server gets the write, and its answer is lost.
	p.mute.Store(true)
	log := checkpoint.Log{Thread: "t"}
	w := &checkpoint.Write{Log: log, Record: logtest.Step(log, head.Run(), head, 2, message), Head: head}
	done := make(chan error)
	go func() {
		_, err := s.Write(context.Background(), w)
		done <- err
	}()
	for count(t, look, "t") != 2 {
		time.Sleep(time.Millisecond)
	}
	p.Cut()
	err := <-done
	p.mute.Store(false)
	wantError(t, err, postgres.ErrUnknownOutcome, "read the log's head")

	// The store goes on at once, and whoever does not look meets a conflict.
	if _, err := s.Write(t.Context(), w); !errors.Is(err, checkpoint.ErrConflict) {
		t.Fatalf("got error %v, want a conflict", err)
	}
	got, _, err := s.Head(t.Context(), log)
	if err != nil || got.ID != w.Record.ID {
		t.Fatalf("got %v, %v, want the record whose answer was lost", got, err)
	}

	// Connections that broke while nobody used them are nobody's error.
	for range 5 {
		write(t, s, "warm", 1)
		if err := s.Delete(t.Context(), "warm"); err != nil {
			t.Fatal(err)
		}
		p.Cut()
		if _, _, err := s.Head(t.Context(), log); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAServerThatHangs(t *testing.T) {
	p, url := through(t, servertest.Postgres(t))
	url = with(t, url, func(u *neturl.URL) { u.RawQuery += "&connect_timeout=1" })
	s := open(t, url, postgres.Options{Timeout: 300 * time.Millisecond})
	defer s.Close()
	head := write(t, s, "t", 1)
	p.mute.Store(true)
	log := checkpoint.Log{Thread: "t"}
	w := &checkpoint.Write{Log: log, Record: logtest.Step(log, head.Run(), head, 2, message), Head: head}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := s.Write(ctx, w); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got error %v, want the context's", err)
	}
	if _, _, err := s.Head(ctx, log); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got error %v, want the context's", err)
	}
	other := checkpoint.Log{Thread: "other"}
	_, err := s.Write(t.Context(), &checkpoint.Write{Log: other, Record: logtest.Step(other, head.Run(), "", 1, message)})
	if !errors.Is(err, postgres.ErrUnknownOutcome) && !errors.Is(err, postgres.ErrUnavailable) {
		t.Fatalf("got error %v", err)
	}
	p.mute.Store(false)
	p.Cut()
	if _, _, err := s.Head(t.Context(), log); err != nil {
		t.Fatal(err)
	}
}

// write appends n records to a thread that has none and returns the last one's ID.
func write(t *testing.T, s checkpoint.Store, thread checkpoint.ThreadID, n int) checkpoint.ID {
	t.Helper()
	log, run := checkpoint.Log{Thread: thread}, checkpoint.NewRunID()
	var parent checkpoint.ID
	for seq := range int64(n) {
		r := logtest.Step(log, run, parent, seq+1, message)
		if _, err := s.Write(context.Background(), &checkpoint.Write{Log: log, Record: r, Head: parent}); err != nil {
			t.Error(err)
			return ""
		}
		parent = r.ID
	}
	return parent
}

func count(t *testing.T, s checkpoint.Store, thread checkpoint.ThreadID) (n int) {
	t.Helper()
	for _, err := range s.Records(t.Context(), checkpoint.Query{Log: checkpoint.Log{Thread: thread}}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}
