package s3_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3/backend/s3bolt"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"go.etcd.io/bbolt"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/internal/logtest"
	"github.com/superstep-dev/superstep/checkpoint/s3"
)

func sound(t testing.TB, s *s3.Store) {
	t.Helper()
	for c, err := range s.Verify(t.Context(), "") {
		t.Fatal(c, err)
	}
}

func wantError(t testing.TB, err, kind error, texts ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("got %v, want %v", err, kind)
	}
	for _, s := range texts {
		if !strings.Contains(err.Error(), s) {
			t.Fatalf("%q doesn't say %q", err, s)
		}
	}
	if strings.Contains(err.Error(), "secret") && !errors.Is(err, s3.ErrURL) && !strings.Contains(err.Error(), "check key and secret") {
		t.Fatalf("%q tells the secret", err)
	}
}

func isHead(r *http.Request) bool {
	return r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/h/")
}

// cut has a request come to nothing for the client: done or not.
func cut(next http.Handler, r *http.Request, done bool) {
	if done {
		next.ServeHTTP(httptest.NewRecorder(), r)
	} else {
		_, _ = io.CopyN(io.Discard, r.Body, 10)
	}
	panic(http.ErrAbortHandler)
}

func TestConnectionsThatAreCutLoseAndDoubleNothing(t *testing.T) {
	for i := range 4 {
		other, retries, writes := i%2 == 1, 1, 16
		if i > 1 { // it takes its time
			retries, writes = 5, 5
		}
		t.Run(fmt.Sprintf("others write meanwhile %v, the client tries %d times", other, retries), func(t *testing.T) {
			srv := serve(t, s3mem.New())
			s := openBy(t, srv, retries)
			defer s.Close()
			o := open(t, srv.url("x"))
			defer o.Close()
			log := checkpoint.Log{Thread: "t"}
			head := logtest.Begin(t, s, log, 1)
			run := checkpoint.NewRunID()
			for i := range int64(writes) {
				var cuts atomic.Int64
				cuts.Store(1 + i%2)
				done := i%4 < 2
				srv.through(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
					if !strings.Contains(r.URL.Path, "/h/") || r.Method != http.MethodPut || cuts.Add(-1) < 0 {
						next.ServeHTTP(w, r)
						return
					}
					if other && i%3 == 0 {
						defer func() {
							srv.through(nil)
							logtest.Write(t, o, &checkpoint.Write{Log: log, Wake: true})
						}()
					}
					cut(next, r, done)
				})
				r := logtest.Step(log, run, head, i+2, logtest.Message)
				once := checkpoint.Result{Epoch: r.ID, Kind: checkpoint.KindOnce}
				out := logtest.Write(t, s, &checkpoint.Write{Log: log, Head: head, Record: r, Results: []checkpoint.Result{once}})
				if out.Ignored != 0 {
					t.Fatalf("%d results ignored: the write's own", out.Ignored)
				}
				head = r.ID
			}
			srv.through(nil)
			if n := logtest.Count(t, s, log); n != writes+1 {
				t.Fatalf("%d records, want %d", n, writes+1)
			}
			sound(t, s)
		})
	}
}

// All that is asked for is cut now and then: pages, entries, lists and reads, too.
func TestAServerWhoseConnectionsBreakAllTheTime(t *testing.T) {
	srv := serve(t, s3mem.New())
	s := open(t, srv.url("x"))
	defer s.Close()
	const writers, each = 4, 60
	var mu sync.Mutex
	rnd := rand.New(rand.NewPCG(3, 4))
	srv.through(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		n := rnd.IntN(40)
		mu.Unlock()
		switch n {
		case 0, 1:
			cut(next, r, n == 0)
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			next.ServeHTTP(w, r)
		}
	})
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			log := checkpoint.Log{Thread: checkpoint.ThreadID(rune('a' + i))}
			run, head := checkpoint.NewRunID(), checkpoint.ID("")
			for seq := range int64(each) {
				r := logtest.Step(log, run, head, seq+1, logtest.Message)
				r.CreatedAt = r.CreatedAt.Add(time.Duration(seq) * 20 * time.Second)
				if _, err := s.Write(t.Context(), &checkpoint.Write{Log: log, Head: head, Record: r}); err != nil {
					t.Error(err)
					return
				}
				head = r.ID
			}
		})
	}
	wg.Wait()
	srv.through(nil)
	for i := range writers {
		if n := logtest.Count(t, s, checkpoint.Log{Thread: checkpoint.ThreadID(rune('a' + i))}); n != each {
			t.Errorf("%d records, want %d", n, each)
		}
	}
	n := 0
	for _, err := range s.Threads(t.Context(), checkpoint.ThreadFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != writers {
		t.Fatalf("%d threads are listed", n)
	}
	sound(t, s)
}

// Two processes write results to one thread, of which the first wins: one that was written
// twice would be ignored.
func TestProcessesThatShareAThreadOverABadNetwork(t *testing.T) {
	srv := serve(t, s3mem.New())
	const stores, each = 2, 80
	log := checkpoint.Log{Thread: "t"}
	all := make([]*s3.Store, stores)
	for i := range all {
		all[i] = openBy(t, srv, 1)
		defer all[i].Close()
	}
	logtest.Begin(t, all[0], log, 1)
	var mu sync.Mutex
	rnd := rand.New(rand.NewPCG(7, 8))
	srv.through(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		n := rnd.IntN(12)
		mu.Unlock()
		if n < 2 && isHead(r) {
			cut(next, r, n == 0)
		}
		next.ServeHTTP(w, r)
	})
	var acknowledged [stores]int
	var wg sync.WaitGroup
	for i, s := range all {
		wg.Go(func() {
			for n := range each {
				r := checkpoint.Result{Epoch: "e", Task: i, Gen: n, Kind: checkpoint.KindEvent, Data: logtest.Message}
				out, err := s.Write(t.Context(), &checkpoint.Write{Log: log, Results: []checkpoint.Result{r}, Wake: n%3 == 0})
				switch {
				case errors.Is(err, s3.ErrUncertain): // others wrote too much to tell
				case err != nil || out.Ignored != 0:
					t.Errorf("got %+v, %v", out, err)
				default:
					acknowledged[i]++
				}
			}
		})
	}
	wg.Wait()
	srv.through(nil)
	got, err := all[0].Results(t.Context(), log, "", "e")
	if err != nil {
		t.Fatal(err)
	}
	if sum := acknowledged[0] + acknowledged[1]; len(got) < sum || sum < stores*each*9/10 {
		t.Fatalf("%d results of %d that were acknowledged", len(got), sum)
	}
	sound(t, all[0])
}

func TestAWriteThatManyOthersFollowedMayNotKnowItsOutcome(t *testing.T) {
	for _, others := range []int{5, 20} {
		srv := serve(t, s3mem.New())
		s, o := openBy(t, srv, 1), openBy(t, srv, 1)
		defer s.Close()
		defer o.Close()
		log := checkpoint.Log{Thread: "t"}
		logtest.Begin(t, s, log, 1)
		srv.through(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
			if !isHead(r) {
				next.ServeHTTP(w, r)
				return
			}
			srv.through(nil)
			next.ServeHTTP(httptest.NewRecorder(), r)
			for range others {
				logtest.Write(t, o, &checkpoint.Write{Log: log, Wake: true})
			}
			panic(http.ErrAbortHandler)
		})
		r := checkpoint.Result{Epoch: "e", Kind: checkpoint.KindEvent}
		out, err := s.Write(t.Context(), &checkpoint.Write{Log: log, Results: []checkpoint.Result{r}})
		switch {
		case others < 16 && (err != nil || out.Ignored != 0):
			t.Fatalf("got %+v, %v", out, err)
		case others > 16:
			wantError(t, err, s3.ErrUncertain)
		}
		if got, err := s.Results(t.Context(), log, "", "e"); err != nil || len(got) != 1 {
			t.Fatalf("%d results, %v", len(got), err)
		}
	}
}

func TestAReaderWhosePagesAreReplacedReadsOn(t *testing.T) {
	srv := serve(t, s3mem.New())
	s := open(t, srv.url("x"))
	defer s.Close()
	log := checkpoint.Log{Thread: "t"}
	head := logtest.Begin(t, s, log, 70)
	var first checkpoint.ID
	for r, err := range s.Records(t.Context(), checkpoint.Query{Log: log, Limit: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		first = r.ID
	}
	reader := open(t, srv.url("x"), s3.Options{CacheBytes: 1})
	defer reader.Close()
	run, replaced := checkpoint.NewRunID(), 0
	srv.through(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.URL.Path, "/p/") || r.Method != http.MethodGet {
			next.ServeHTTP(w, r)
			return
		}
		srv.through(nil)
		rw := &checkpoint.Rewrite{Log: log, Head: head, Remove: []checkpoint.ID{first}}
		if err := s.Rewrite(t.Context(), rw); err != nil {
			t.Error(err)
		}
		key := strings.TrimPrefix(r.URL.Path, "/"+bucket+"/")
		for i := int64(0); srv.objects(t, key)[key] > 0 && i < 500; i++ {
			rec := logtest.Step(log, run, head, 71+i, logtest.Message)
			logtest.Write(t, s, &checkpoint.Write{Log: log, Record: rec, Head: head})
			head = rec.ID
			replaced++
		}
		next.ServeHTTP(w, r)
	})
	if n := logtest.Count(t, reader, log); n != 69+replaced || replaced == 0 || replaced == 500 {
		t.Fatalf("%d records, want %d", n, 69+replaced)
	}
}

func TestAWriteWhoseOutcomeIsUnknownSaysSo(t *testing.T) {
	srv := serve(t, s3mem.New())
	s := open(t, srv.url("x"), s3.Patient(500*time.Millisecond))
	defer s.Close()
	log := checkpoint.Log{Thread: "t"}
	head := logtest.Begin(t, s, log, 1)
	var put atomic.Bool
	srv.through(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		switch {
		case isHead(r) && !put.Swap(true):
			cut(next, r, true)
		case put.Load():
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, r)
	})
	r := logtest.Step(log, checkpoint.NewRunID(), head, 2, logtest.Message)
	w := &checkpoint.Write{Log: log, Record: r, Head: head}
	_, err := s.Write(t.Context(), w)
	wantError(t, err, s3.ErrUncertain, "unknown", "read the thread's head")
	srv.through(nil)
	if now, _, err := s.Head(t.Context(), log); err != nil || now.ID != r.ID {
		t.Fatal(now, err)
	}
	if _, err := s.Write(t.Context(), w); !errors.Is(err, checkpoint.ErrConflict) {
		t.Fatalf("got %v for a record that is there", err)
	}
	srv.http.Close()
	_, err = s.Write(t.Context(), &checkpoint.Write{Log: log, Record: logtest.Step(log, checkpoint.NewRunID(), r.ID, 3, logtest.Message), Head: r.ID})
	wantError(t, err, s3.ErrUnreachable, "start the server")
	if errors.Is(err, s3.ErrUncertain) {
		t.Fatalf("%v: nothing was sent", err)
	}
}

func TestAContextEndsAnyWait(t *testing.T) {
	srv := serve(t, s3mem.New())
	s := open(t, srv.url("x"))
	defer s.Close()
	log := checkpoint.Log{Thread: "t"}
	head := logtest.Begin(t, s, log, 1)
	hold := make(chan struct{})
	srv.through(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		<-hold
		next.ServeHTTP(w, r)
	})
	r := logtest.Step(log, checkpoint.NewRunID(), head, 2, logtest.Message)
	for what, f := range map[string]func(ctx context.Context) error{
		"Write": func(ctx context.Context) error {
			_, err := s.Write(ctx, &checkpoint.Write{Log: log, Head: head, Record: r})
			return err
		},
		"Head": func(ctx context.Context) error {
			_, _, err := s.Head(ctx, log)
			return err
		},
		"Threads": func(ctx context.Context) error {
			for _, err := range s.Threads(ctx, checkpoint.ThreadFilter{}) {
				return err
			}
			return nil
		},
		"Delete": func(ctx context.Context) error { return s.Delete(ctx, "another") },
		"Open": func(ctx context.Context) error {
			_, err := s3.Open(ctx, srv.url("x"))
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		err := f(ctx)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%s: %v", what, err)
		}
	}
	// A later read waits for the write that was left, so it knows what became of it.
	time.AfterFunc(20*time.Millisecond, func() { close(hold) })
	now, _, err := s.Head(t.Context(), log)
	if err != nil {
		t.Fatal(err)
	}
	logtest.Write(t, s, &checkpoint.Write{Log: log, Claim: true})
	if later, _, err := s.Head(t.Context(), log); err != nil || later.ID != now.ID {
		t.Fatalf("a write that was given up came later: %v, %v", later, err)
	}
}

func TestAServerThatWasKilledHasAllThatItAcknowledged(t *testing.T) {
	file := filepath.Join(t.TempDir(), "objects")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	var srv *server
	start := func() func() {
		t.Helper()
		db, err := bbolt.Open(file, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		srv = serve(t, s3bolt.New(db))
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		again := &http.Server{Handler: srv.http.Config.Handler}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = again.Serve(l)
		}()
		return func() {
			again.Close()
			<-ended
			srv.http.Close()
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	kill := start()
	s := open(t, "s3://key:secret@"+addr+"/"+bucket+"/x?region=us-east-1&insecure=true")
	defer s.Close()
	log := checkpoint.Log{Thread: "t"}
	head, run := checkpoint.ID(""), checkpoint.NewRunID()
	seq := int64(0)
	for range 3 {
		for range 60 {
			seq++
			r := logtest.Step(log, run, head, seq, logtest.Message)
			logtest.Write(t, s, &checkpoint.Write{Log: log, Head: head, Record: r})
			head = r.ID
		}
		kill()
		kill = start() // the store is the same as before
		if n := logtest.Count(t, s, log); n != int(seq) {
			t.Fatalf("%d records, want %d", n, seq)
		}
	}
	sound(t, s)
	kill()
}

func TestServersThatCanNotBeUsedAreRefused(t *testing.T) {
	srv := serve(t, s3mem.New())
	ignore := func(header string) func(http.Handler, http.ResponseWriter, *http.Request) {
		return func(next http.Handler, w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut && (header != "If-Match" || r.Header.Get(header) == `"`+strings.Repeat("0", 32)+`"`) {
				r.Header.Del(header)
			}
			next.ServeHTTP(w, r)
		}
	}
	answer := func(status int, code string) func(http.Handler, http.ResponseWriter, *http.Request) {
		return func(_ http.Handler, w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(status)
			fmt.Fprintf(w, "<Error><Code>%s</Code><Message>no</Message></Error>", code)
		}
	}
	dated := func(by time.Duration) func(http.Handler, http.ResponseWriter, *http.Request) {
		return func(next http.Handler, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Date", time.Now().Add(by).UTC().Format(http.TimeFormat))
			next.ServeHTTP(w, r)
		}
	}
	for _, c := range []struct {
		name string
		tap  func(http.Handler, http.ResponseWriter, *http.Request)
		kind error
		says []string
	}{
		{"no If-None-Match", ignore("If-None-Match"), s3.ErrConditions, []string{"s3: open", "If-None-Match", "use a server that"}},
		{"no If-Match", ignore("If-Match"), s3.ErrConditions, []string{"s3: open", "If-Match", "use a server that"}},
		{"conditions are not implemented", answer(501, "NotImplemented"), s3.ErrConditions, nil},
		{"a wrong key", answer(403, "InvalidAccessKeyId"), s3.ErrDenied, []string{"check key and secret"}},
		{"a wrong secret", answer(403, "SignatureDoesNotMatch"), s3.ErrDenied, []string{"s3:PutObject"}},
		{"a clock that the server refuses", answer(403, "RequestTimeTooSkewed"), s3.ErrClock, []string{"NTP"}},
		{"a clock that is slow", dated(time.Minute), s3.ErrClock, []string{"behind", "NTP"}},
		{"a clock that is fast", dated(-time.Minute), s3.ErrClock, []string{"ahead of", "NTP"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv.through(c.tap)
			defer srv.through(nil)
			_, err := s3.Open(t.Context(), srv.url("x"))
			wantError(t, err, c.kind, append(c.says, srv.http.Listener.Addr().String()+"/"+bucket+"/x")...)
			if e, ok := errors.AsType[*s3.Error](err); !ok || e.Fix == "" {
				t.Fatalf("%#v", err)
			}
		})
	}
	srv.through(dated(2 * time.Second))
	open(t, srv.url("x")).Close()
	srv.through(nil)
	if left := srv.objects(t, ""); len(left) != 0 {
		t.Fatalf("objects left: %v", left)
	}
	_, err := s3.Open(t.Context(), strings.Replace(srv.url("x"), bucket, "another", 1))
	wantError(t, err, s3.ErrBucket, `create bucket "another"`)
	srv.http.Close()
	_, err = s3.Open(t.Context(), srv.url("x"))
	wantError(t, err, s3.ErrUnreachable)
}

func TestURLsThatAreNone(t *testing.T) {
	for url, says := range map[string]string{
		"http://k:hidden@h/b":               "does not begin with s3://",
		"s3://k:hidden@h":                   "no bucket",
		"s3://k:hidden@/b":                  "no host",
		"s3://k@h/b":                        "without a secret",
		"s3://:hidden@h/b":                  "without a key",
		"s3://k:12/hidden+@h:9000/b":        "@ after its host",
		"s3://k:hidden/x@h:9000/b":          "can't be read",
		"s3://k:%zzhidden@h/b":              "can't be read",
		"s3://k:hidden@h/b?secure=no":       `"secure"`,
		"s3://k:hidden@h/b?insecure=maybe":  `"insecure"`,
		"s3://k:hidden@h h/b?insecure=true": "",
	} {
		_, err := s3.Open(t.Context(), url)
		wantError(t, err, s3.ErrURL, says, "percent-encoded")
		if strings.Contains(err.Error(), "hidden") {
			t.Errorf("%q tells the secret", err)
		}
	}
	if _, err := s3.Open(t.Context(), "s3://k:s@h/b", s3.Options{}, s3.Options{}); err == nil {
		t.Error("two Options")
	}
}

// clientOf returns a client that sends a request so often, and is of no use after the test.
func clientOf(t *testing.T, srv *server, retries int) *minio.Client {
	t.Helper()
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	c, err := minio.New(strings.TrimPrefix(srv.http.URL, "http://"), &minio.Options{
		Creds: credentials.NewStaticV4("k", "s", ""), Transport: tr, MaxRetries: retries, Region: "us-east-1",
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func openBy(t *testing.T, srv *server, retries int) *s3.Store {
	t.Helper()
	s, err := s3.New(t.Context(), clientOf(t, srv, retries), bucket, s3.Options{Prefix: "x"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAClientOfTheCallersStaysOpen(t *testing.T) {
	srv := serve(t, s3mem.New())
	c := clientOf(t, srv, 1)
	s, err := s3.New(t.Context(), c, bucket, s3.Options{Prefix: "/a/"})
	if err != nil {
		t.Fatal(err)
	}
	logtest.Begin(t, s, checkpoint.Log{Thread: "t"}, 2)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for key := range srv.objects(t, "") {
		if !strings.HasPrefix(key, "a/") {
			t.Errorf("object %q is not below the prefix", key)
		}
	}
	if ok, err := c.BucketExists(t.Context(), bucket); !ok || err != nil {
		t.Fatal(ok, err)
	}
}

func TestKeyAndSecretMayBeInTheEnvironment(t *testing.T) {
	srv := serve(t, s3mem.New())
	var seen atomic.Value
	srv.through(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		seen.Store(r.Header.Get("Authorization"))
		next.ServeHTTP(w, r)
	})
	t.Setenv("AWS_ACCESS_KEY_ID", "from-there")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hidden")
	open(t, strings.Replace(srv.url("x"), "key:secret@", "", 1)).Close()
	if a, _ := seen.Load().(string); !strings.Contains(a, "Credential=from-there/") {
		t.Fatal(a)
	}
}
