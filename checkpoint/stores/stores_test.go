package stores_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/file"
	"github.com/superstep-dev/superstep/checkpoint/postgres"
	"github.com/superstep-dev/superstep/checkpoint/redis"
	"github.com/superstep-dev/superstep/checkpoint/s3"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
	"github.com/superstep-dev/superstep/checkpoint/stores"
	"github.com/superstep-dev/superstep/internal/servers"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	servertest.Stop()
	os.Exit(code)
}

// with adds options to a URL.
func with(url, options string) string {
	if strings.Contains(url, "?") {
		return url + "&" + options
	}
	return url + "?" + options
}

// bucket starts a server of object storage, until the test ends.
func bucket(t testing.TB, _ ...string) string {
	url, stop, err := servers.StartS3()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return url
}

// TestOpen opens each kind of store, writes a thread, and finds it again in what
// a second URL opens. SONI-34.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	unique := fmt.Sprintf("stores_test_%d", time.Now().UnixNano())
	for _, c := range []struct {
		url, again string // empty: it ends with the store
		want       checkpoint.Store
		start      func(testing.TB, ...string) string
	}{
		{url: "memory", want: &checkpoint.Memory{}},
		{url: "memory:", want: &checkpoint.Memory{}},
		{url: "MEMORY", want: &checkpoint.Memory{}},
		{url: "file:" + at("a"), again: "file://" + at("a"), want: &file.Store{}},
		{url: "file:" + at("b") + "?sync=never&recover=true&max_open=7", again: "file:" + at("b"), want: &file.Store{}},
		{url: "sqlite:" + at("a.x"), again: "sqlite3:" + at("a.x"), want: &sqlite.Store{}},
		{url: "sqlite://" + at("b.x") + "?full=true", again: "sqlite:" + at("b.x"), want: &sqlite.Store{}},
		{url: at("c.db"), again: "sqlite:" + at("c.db"), want: &sqlite.Store{}},
		{url: at("d.sqlite"), again: at("d.sqlite"), want: &sqlite.Store{}},
		{url: "sqlite::memory:", want: &sqlite.Store{}},
		{url: "postgres?schema=" + unique, again: "postgresql?schema=" + unique + "&writers=2", want: &postgres.Store{}, start: servertest.Postgres},
		{url: "redis?prefix=" + unique + ":&ttl=1h", again: "redis?prefix=" + unique + ":&pool_size=3", want: &redis.Store{}, start: servertest.Redis},
		{url: "s3?cache_bytes=1000", again: "s3?", want: &s3.Store{}, start: bucket},
	} {
		t.Run(c.url, func(t *testing.T) {
			url, again := c.url, c.again
			if c.start != nil {
				base := c.start(t)
				_, options, _ := strings.Cut(url, "?")
				url = with(base, options)
				scheme, options, _ := strings.Cut(again, "?")
				_, rest, _ := strings.Cut(base, ":")
				again = with(scheme+":"+rest, options)
			}
			s, err := stores.Open(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			if got := reflect.TypeOf(s); got != reflect.TypeOf(c.want) {
				t.Errorf("a %v is opened, want a %T", got, c.want)
			}
			thread := checkpoint.ThreadID("t")
			run := checkpoint.NewRunID()
			rec := &checkpoint.Record{ID: run.Checkpoint(1), Log: checkpoint.Log{Thread: thread}, Seq: 1, Epoch: run.Checkpoint(1), Source: checkpoint.SourceInput, CreatedAt: time.Now().UTC()}
			if _, err := s.Write(t.Context(), &checkpoint.Write{Log: rec.Log, Record: rec}); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if again == "" {
				return
			}
			if s, err = stores.Open(t.Context(), again); err != nil {
				t.Fatal(err)
			}
			head, _, err := s.Head(t.Context(), rec.Log)
			if err != nil || head.ID != rec.ID {
				t.Errorf("head is %v, %v; want %s", head, err, rec.ID)
			}
			if err := errors.Join(s.Delete(t.Context(), thread), s.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestConfig opens the back ends by their names. SONI-34.
func TestConfig(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []stores.Config{
		{Backend: "memory"},
		{Backend: "file", Path: filepath.Join(dir, "files")},
		{Backend: "SQLite", Path: filepath.Join(dir, "t.db")},
		{Backend: "postgresql"}, {Backend: "postgres", Postgres: postgres.Options{MaxConns: 2}},
		{Backend: "redis", Redis: redis.Options{Prefix: "stores-test:"}}, {Backend: "s3"},
	} {
		t.Run(c.Backend, func(t *testing.T) {
			switch {
			case strings.HasPrefix(c.Backend, "postgres"):
				c.URL = servertest.Postgres(t)
			case c.Backend == "redis":
				c.URL = servertest.Redis(t)
			case c.Backend == "s3":
				c.URL = bucket(t)
			}
			s, err := c.Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if c.Backend == "memory" {
				return
			}
			c.Path, c.URL = "", ""
			if s, err := c.Open(t.Context()); err == nil || s != nil {
				t.Errorf("without path and URL: %v, %v", s, err)
			}
		})
	}
	var unknown *stores.UnknownBackendError
	if s, err := (stores.Config{Backend: "oracle"}).Open(t.Context()); !errors.As(err, &unknown) || unknown.Backend != "oracle" || s != nil {
		t.Errorf("oracle: %v, %v", s, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := stores.Open(ctx, "memory"); !errors.Is(err, context.Canceled) || s != nil {
		t.Errorf("with a context that is done: %v, %v", s, err)
	}
}

// TestUnknownBackend: SONI-34.
func TestUnknownBackend(t *testing.T) {
	for url, name := range map[string]string{
		"mongodb":                         "mongodb",
		"mongodb://u:secret@h/db":         "mongodb",
		"postgre://u:secret@h/db":         "postgre",
		"memory:x":                        "memory",
		"file":                            "file",
		"some/path":                       "some/path",
		"":                                "",
		"host=h user=u password=secret":   "",
		"secret@host":                     "",
		"://u:secret@h":                   "",
		strings.Repeat("x", 60) + "://":   strings.Repeat("x", 40) + "…",
		"u:secret@h/threads":              "u",
		"host=h password='secret' a:b":    "",
		"my backend\x00://u:secret@h/abc": "",
	} {
		s, err := stores.Open(t.Context(), url)
		var unknown *stores.UnknownBackendError
		if !errors.As(err, &unknown) || unknown.Backend != name || s != nil {
			t.Errorf("%q: %v, %v; want an unknown backend %q", url, s, err, name)
			continue
		}
		text := err.Error()
		if !strings.Contains(text, "Unknown backend: "+name) || strings.Contains(text, "secret") {
			t.Errorf("%q: %s", url, text)
		}
		for _, valid := range []string{"memory", "file:", "sqlite:", "postgres://", "redis://"} {
			if !strings.Contains(text, valid) {
				t.Errorf("%q: %q does not name %s", url, text, valid)
			}
		}
	}
}

func TestBadOptions(t *testing.T) {
	for _, url := range []string{
		"memory:?x=1", "file:d?sync=maybe", "file:d?max_open=-1", "file:d?colour=red", "sqlite:x?full=perhaps", "sqlite:x?busy_timeout=10",
		"sqlite:x?readers=%zz", "postgres://h/d?writers=many", "postgres://u:secret@h/d?timeout=long", "redis://:secret@h?ttl=soon", "redis://h?allow_eviction=2",
	} {
		s, err := stores.Open(t.Context(), url)
		var bad *stores.OptionError
		if !errors.As(err, &bad) || s != nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, %v; want an option error", url, s, err)
		}
	}
	for _, url := range []string{"file:", "sqlite://", "sqlite:?full=true", "postgres:x", "redis:localhost"} {
		if s, err := stores.Open(t.Context(), url); err == nil || s != nil {
			t.Errorf("%q: %v, %v; want an error", url, s, err)
		}
	}
}

// Whatever is wrong with a URL or its server, the password is not in the error.
func TestPasswordsStaySecret(t *testing.T) {
	const secret = "s3cr3tword"
	for _, url := range []string{
		"postgres://u:" + secret + "@127.0.0.1:1/d?connect_timeout=1",
		"postgres://u:" + secret + "@127.0.0.1:notaport/d",
		"postgres://u:" + secret + "%zz@127.0.0.1:1/d",
		"postgresql://127.0.0.1:1/d?password=" + secret + "&sslmode=nonsense",
		"postgres://u:" + secret + "@127.0.0.1:1/d?schema=x&pool_max_conns=" + secret,
		"redis://u:" + secret + "@127.0.0.1:1/0",
		"redis://u:" + secret + "@127.0.0.1:1/x",
		"redis://:" + secret + "#@127.0.0.1:1",
		"redis://:" + secret + "@127.0.0.1:1?ttl=1h&colour=red",
		"rediss://u:" + secret + "@127.0.0.1:1/0",
	} {
		s, err := stores.Open(t.Context(), url)
		if err == nil {
			s.Close()
			t.Errorf("%q can be opened", url)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%q: the error shows the password: %v", url, err)
		}
		if shown := stores.Redact(url); strings.Contains(strings.ReplaceAll(shown, "pool_max_conns="+secret, ""), secret) {
			t.Errorf("%q is shown as %q", url, shown)
		}
	}
	for _, url := range []string{"memory", "file:a?b", "sqlite:x@y:z", "t.db", "redis://h:1/2", "postgres://u@h/d?schema=s", "nonsense"} {
		if shown := stores.Redact(url); shown != url {
			t.Errorf("%q is shown as %q", url, shown)
		}
	}
	if got := stores.Redact("mongo://u:secret@h"); got != "mongo://u:xxxxx@h" {
		t.Error(got)
	}
}

func Example() {
	store, err := stores.Open(context.Background(), "memory") // os.Getenv("STORE")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	fmt.Printf("%T\n", store)
	_, err = stores.Open(context.Background(), "mongodb://localhost")
	fmt.Println(err)
	// Output:
	// *checkpoint.Memory
	// Unknown backend: mongodb; use memory, file:DIR, sqlite:PATH (or a path that ends in .db), postgres://…, redis://… or s3://…
}
