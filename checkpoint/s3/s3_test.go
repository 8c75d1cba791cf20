package s3_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/checkpointtest"
	"github.com/superstep-dev/superstep/checkpoint/s3"
	"github.com/superstep-dev/superstep/internal/race"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

const bucket = "threads"

// server is a server in this process.
type server struct {
	backend gofakes3.Backend
	http    *httptest.Server

	mu  sync.Mutex
	tap func(next http.Handler, w http.ResponseWriter, r *http.Request) // nil: none
}

// serve serves what a backend has, with one bucket.
func serve(t testing.TB, b gofakes3.Backend) *server {
	t.Helper()
	if ok, err := b.BucketExists(bucket); err != nil {
		t.Fatal(err)
	} else if !ok {
		if err := b.CreateBucket(bucket); err != nil {
			t.Fatal(err)
		}
	}
	s := &server{backend: b}
	fake := gofakes3.New(b, gofakes3.WithLogger(gofakes3.DiscardLog()), gofakes3.WithTimeSkewLimit(0)).Server()
	s.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		tap := s.tap
		s.mu.Unlock()
		if tap == nil {
			fake.ServeHTTP(w, r)
			return
		}
		tap(fake, w, r)
	}))
	t.Cleanup(s.http.Close)
	return s
}

// through has requests go through a function; nil: none.
func (s *server) through(tap func(next http.Handler, w http.ResponseWriter, r *http.Request)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tap = tap
}

func (s *server) url(prefix string) string {
	return "s3://key:secret@" + strings.TrimPrefix(s.http.URL, "http://") + "/" + bucket + "/" + prefix + "?region=us-east-1&insecure=true"
}

// objects returns the sizes of all objects below a prefix, by key.
func (s *server) objects(t testing.TB, prefix string) map[string]int64 {
	t.Helper()
	p := gofakes3.NewPrefix(&prefix, nil)
	l, err := s.backend.ListBucket(bucket, &p, gofakes3.ListBucketPage{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int64{}
	for _, c := range l.Contents {
		out[c.Key] = c.Size
	}
	return out
}

var prefixes atomic.Int64

func newPrefix() string { return fmt.Sprintf("test/%d", prefixes.Add(1)) }

func open(t testing.TB, url string, opts ...s3.Options) *s3.Store {
	t.Helper()
	s, err := s3.Open(t.Context(), url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// used remembers where the suite's stores are.
var used sync.Map

func openAt(t testing.TB, url string, opts ...s3.Options) checkpoint.Store {
	t.Helper()
	s := open(t, url, opts...)
	used.Store(checkpoint.Store(s), url)
	return s
}

func urlOf(t testing.TB, s checkpoint.Store) string {
	t.Helper()
	u, ok := used.Load(s)
	if !ok {
		t.Fatal("unknown store")
	}
	return u.(string)
}

func suiteOptions(srv *server, opts ...s3.Options) checkpointtest.Options {
	again := func(t *testing.T, s checkpoint.Store) checkpoint.Store { return openAt(t, urlOf(t, s), opts...) }
	return checkpointtest.Options{
		Reopen: func(t *testing.T, s checkpoint.Store) checkpoint.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return again(t, s)
		},
		Crash:   again,
		Another: again,
		Size: func(t *testing.T, s checkpoint.Store) (n int64) {
			u, err := url.Parse(urlOf(t, s))
			if err != nil {
				t.Fatal(err)
			}
			for _, size := range srv.objects(t, strings.TrimPrefix(u.Path, "/"+bucket+"/")+"/") {
				n += size
			}
			return n
		},
	}
}

// caches are what the store keeps in memory: much, and nothing, so that what is read is read
// from the server each time.
var caches = map[string]s3.Options{"cached": {}, "not cached": {CacheBytes: 1}}

func TestStore(t *testing.T) {
	for name, o := range caches {
		if o.CacheBytes > 0 && (race.Enabled || testing.Short()) { // a minute
			continue
		}
		t.Run(name, func(t *testing.T) {
			srv := serve(t, s3mem.New())
			checkpointtest.Run(t, func(t *testing.T) checkpoint.Store { return openAt(t, srv.url(newPrefix()), o) }, suiteOptions(srv, o))
		})
	}
}

func TestModel(t *testing.T) {
	for name, o := range caches {
		if o.CacheBytes == 0 && race.Enabled { // the other finds more
			continue
		}
		t.Run(name, func(t *testing.T) {
			srv := serve(t, s3mem.New())
			checkpointtest.Model(t, func(t *testing.T) checkpoint.Store { return openAt(t, srv.url(newPrefix()), o) }, suiteOptions(srv, o))
		})
	}
}
