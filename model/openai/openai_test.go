package openai_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/openai"
)

// chunks is a handler that sends one event for each it is sent, at once, and
// ends with the channel.
func chunks(send <-chan string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		for {
			select {
			case text, ok := <-send:
				if !ok {
					return
				}
				io.WriteString(w, text)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}
}

func TestAChunkArrivesBeforeTheServerSendsTheNext(t *testing.T) {
	send := make(chan string)
	s := serve(t, chunks(send))
	go func() { send <- "data: " + delta(`{"role":"assistant","content":"a"}`, "") + "\n\n" }()
	var got []string
	for k, err := range s.model().Stream(t.Context(), ask()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, k.Text)
		switch len(got) { // only what was received has the next one sent
		case 1:
			send <- "data: " + delta(`{"content":"b"}`, "") + "\n\n"
		case 2:
			send <- "data: " + delta(`{"content":"c"}`, `"stop"`) + "\n\n"
		case 3:
			send <- "data: [DONE]\n\n"
		}
	}
	if len(got) != 3 || strings.Join(got, "") != "abc" {
		t.Errorf("got %q", got)
	}
}

func TestBreakingOutEndsTheRequest(t *testing.T) {
	gone := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: %s\n\n", delta(`{"content":"a"}`, ""))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(gone)
	})
	for _, err := range s.model().Stream(t.Context(), ask()) {
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	<-gone
}

// waiting is a handler that says when a request is there and waits for its end.
func waiting(there chan<- struct{}, begin string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if begin != "" {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, begin)
			w.(http.Flusher).Flush()
		}
		there <- struct{}{}
		<-r.Context().Done()
	}
}

func TestTheEndOfTheContextEndsACallWithItsError(t *testing.T) {
	cause := errors.New("the user left")
	check := func(t *testing.T, err error) {
		t.Helper()
		if !errors.Is(err, context.Canceled) || !errors.Is(err, cause) {
			t.Errorf("error %v doesn't wrap the context's and its cause", err)
		}
		if want := "openai: the user left"; err.Error() != want {
			t.Errorf("error %q, want %q", err, want)
		}
		if model.Temporary(err) {
			t.Errorf("error %v would be retried", err)
		}
	}
	t.Run("before the request", func(t *testing.T) {
		s := serve(t, replies(200, hello))
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		cancel(cause)
		_, err := s.model().Generate(ctx, ask())
		check(t, err)
	})
	t.Run("before the answer", func(t *testing.T) {
		there := make(chan struct{})
		s := serve(t, waiting(there, ""))
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		go func() { <-there; cancel(cause) }()
		_, err := s.model().Generate(ctx, ask())
		check(t, err)
	})
	t.Run("in the middle of a stream", func(t *testing.T) {
		there := make(chan struct{}, 1)
		s := serve(t, waiting(there, "data: "+delta(`{"content":"a"}`, "")+"\n\n"))
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		n := 0
		for k, err := range s.model().Stream(ctx, ask()) {
			if n++; n == 1 {
				if err != nil || k.Text != "a" {
					t.Fatalf("got %q, %v", k.Text, err)
				}
				cancel(cause)
				continue
			}
			check(t, err)
		}
		if n != 2 {
			t.Errorf("%d chunks, want one and an error", n)
		}
	})
}

// transport is an HTTP client's in memory, for tests with a synctest clock.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func inMemory(f transport) openai.Option { return openai.HTTPClient(&http.Client{Transport: f}) }

func TestADeadlineIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := openai.New("m", openai.APIKey("k"), inMemory(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		_, err := m.Generate(ctx, ask())
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Minute {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
	})
}

func TestATimeoutOfTheHTTPClientIsOneOfTheProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &http.Client{Timeout: time.Minute, Transport: transport(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})}
		m := openai.New("m", openai.APIKey("k"), openai.HTTPClient(client))
		failsAs(t, generateError(t, m, ask()), model.ErrorTimeout)
	})
}

func TestRetryAfterIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		date := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
		for _, tt := range []struct {
			name   string
			header map[string]string
			want   time.Duration
		}{
			{"none", nil, 0},
			{"seconds", map[string]string{"Retry-After": "20"}, 20 * time.Second},
			{"a part of a second", map[string]string{"Retry-After": "0.5"}, time.Second / 2},
			{"a date", map[string]string{"Retry-After": date(time.Minute)}, time.Minute},
			{"a date by the server's clock", map[string]string{"Retry-After": date(time.Hour), "Date": date(time.Hour - time.Second)}, time.Second},
			{"a date that has passed", map[string]string{"Retry-After": date(-time.Minute)}, 0},
			{"milliseconds first", map[string]string{"Retry-After-Ms": "1500", "Retry-After": "2"}, 1500 * time.Millisecond},
			{"nonsense", map[string]string{"Retry-After": "soon"}, 0},
			{"a negative number", map[string]string{"Retry-After": "-1"}, 0},
			{"more than fits", map[string]string{"Retry-After": "1e300"}, 1<<63 - 1},
		} {
			m := openai.New("m", openai.APIKey("k"), inMemory(func(r *http.Request) (*http.Response, error) {
				h := http.Header{}
				for k, v := range tt.header {
					h.Set(k, v)
				}
				return &http.Response{StatusCode: 429, Header: h, Body: io.NopCloser(strings.NewReader(`{"error":{"message":"slow down"}}`)), Request: r}, nil
			}))
			e := failsAs(t, generateError(t, m, ask()), model.ErrorRateLimit, "slow down")
			if e.RetryAfter != tt.want {
				t.Errorf("%s: to wait %v, want %v", tt.name, e.RetryAfter, tt.want)
			}
		}
	})
}

func TestAFailedRequestIsSentOnceUnlessToldOtherwise(t *testing.T) {
	for _, c := range []struct {
		opts []openai.Option
		kind model.ErrorKind
		sent int
	}{
		{nil, model.ErrorServer, 1},
		{[]openai.Option{openai.Retries(2)}, model.ErrorServer, 3},
		{[]openai.Option{openai.Retries(-1)}, model.ErrorInvalid, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			m := openai.New("m", append(c.opts, openai.APIKey("k"), inMemory(func(r *http.Request) (*http.Response, error) {
				n++
				return &http.Response{StatusCode: 500, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"error":{"message":"oops"}}`)), Request: r}, nil
			}))...)
			err := generateError(t, m, ask())
			failsAs(t, err, c.kind)
			if _, err := model.Collect(m.Stream(t.Context(), ask())); err == nil || n != 2*c.sent {
				t.Errorf("%v, sent %d times by two calls", err, n)
			}
			if c.kind == model.ErrorInvalid {
				failsAs(t, err, c.kind, "Retries(-1)")
			}
		})
	}
}

func noEnvironment(t *testing.T) {
	for _, v := range []string{"OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY"} {
		t.Setenv(v, "")
	}
}

func TestAMissingKeyIsAnErrorOfTheCall(t *testing.T) {
	noEnvironment(t)
	m := openai.New("m")
	failsAs(t, generateError(t, m, ask()), model.ErrorAuth, "OPENAI_API_KEY", "openai.APIKey", "openai.BaseURL")
	failsAs(t, streamError(t, m), model.ErrorAuth)
}

func TestAHeaderCanBeTheKey(t *testing.T) {
	noEnvironment(t)
	var sent *http.Request
	m := openai.New("m", openai.Header("Authorization", "Bearer tok"), inMemory(func(r *http.Request) (*http.Response, error) {
		sent = r
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(hello)), Request: r}, nil
	}))
	if text := generate(t, m, ask()).Text(); text != "hello" {
		t.Errorf("got %q", text)
	}
	if u, a := sent.URL.String(), sent.Header.Get("Authorization"); u != "https://api.openai.com/v1/chat/completions" || a != "Bearer tok" {
		t.Errorf("sent to %s with %q", u, a)
	}
}

func TestTheEnvironmentIsReadByNew(t *testing.T) {
	noEnvironment(t)
	s := serve(t, replies(200, hello))
	t.Setenv("OPENAI_API_KEY", " sk-env\n")
	t.Setenv("OPENAI_BASE_URL", s.URL+"/v1/")
	t.Setenv("OPENAI_ORG_ID", "org-env")
	t.Setenv("OPENAI_PROJECT_ID", "proj-env")
	m := openai.New("m")
	other := openai.New("m", openai.APIKey("sk-mine"), openai.Organization("org-mine"), openai.Project("proj-mine"), openai.Header("X-Title", "t"))
	noEnvironment(t)
	for _, tt := range []struct {
		m                       *openai.Model
		key, org, project, more string
	}{
		{m, "Bearer sk-env", "org-env", "proj-env", ""},
		{other, "Bearer sk-mine", "org-mine", "proj-mine", "t"},
	} {
		generate(t, tt.m, ask())
		h := s.last(t).header
		for name, want := range map[string]string{"Authorization": tt.key, "OpenAI-Organization": tt.org, "OpenAI-Project": tt.project, "X-Title": tt.more} {
			if got := h.Get(name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
	}
}

func TestAServerGivenByAnOptionGetsNothingOfTheEnvironment(t *testing.T) {
	noEnvironment(t)
	t.Setenv("OPENAI_API_KEY", "sk-env")
	t.Setenv("OPENAI_ADMIN_KEY", "sk-admin")
	t.Setenv("OPENAI_ORG_ID", "org-env")
	s := serve(t, replies(200, hello))
	generate(t, s.model(), ask())
	h := s.last(t).header
	if a, o := h.Get("Authorization"), h.Get("OpenAI-Organization"); a != "" || o != "" {
		t.Errorf("it got the key %q and the organization %q", a, o)
	}
	generate(t, s.model(openai.Header("Authorization", "Basic abcd")), ask())
	if a := s.last(t).header.Get("Authorization"); a != "Basic abcd" {
		t.Errorf("the header arrived as %q", a)
	}
	generate(t, s.model(openai.APIKey("sk-x"), openai.Header("Authorization", "Basic abcd")), ask())
	if a := s.last(t).header.Get("Authorization"); a != "Basic abcd" {
		t.Errorf("the header arrived as %q", a)
	}
}

func TestABaseURLThatCannotWorkIsAnErrorOfTheCall(t *testing.T) {
	for _, u := range []string{"localhost:11434/v1", "http://", "://x", "/v1", "https://h/v1?api-version=1", "http://user:secret@\x7f"} {
		e := failsAs(t, generateError(t, openai.New("m", openai.BaseURL(u)), ask()), model.ErrorInvalid, "base URL")
		if strings.Contains(e.Error(), "secret") {
			t.Errorf("error %q tells the password", e)
		}
	}
}

func TestAServerThatIsNotThereIsAConnectionError(t *testing.T) {
	s := serve(t, replies(200, hello))
	m := s.model()
	s.Close()
	for _, err := range []error{generateError(t, m, ask()), streamError(t, m)} {
		if e := failsAs(t, err, model.ErrorConnection); !e.Temporary() || e.Err == nil {
			t.Errorf("error %v has the cause %v", e, e.Err)
		}
	}
}

func TestNoErrorTellsAKey(t *testing.T) {
	const key, token = "sk-very-secret", "tok-very-secret"
	opts := []openai.Option{openai.APIKey(key), openai.Header("X-Auth-Token", "Bearer "+token)}
	echo := `{"error":{"message":"wrong key sk-very-secret or tok-very-secret","code":"sk-very-secret"}}`
	var errs []error
	for _, h := range []http.HandlerFunc{
		replies(401, echo),
		replies(500, "<p>sk-very-secret tok-very-secret</p>"),
		streams(events(echo)),
		streams("data: sk-very-secret tok-very-secret\n\n"),
		replies(200, echo),
	} {
		errs = append(errs, streamError(t, serve(t, h).model(opts...)))
	}
	failure := errors.New("the proxy says sk-very-secret")
	m := openai.New("m", append(opts, inMemory(func(*http.Request) (*http.Response, error) { return nil, failure }))...)
	err := generateError(t, m, ask())
	if !errors.Is(err, failure) {
		t.Errorf("error %v doesn't wrap the transport's", err)
	}
	for _, err := range append(errs, err) {
		failsAs(t, err, err.(*model.Error).Kind)
		for err := err; err != nil; err = errors.Unwrap(err) {
			if text := fmt.Sprintf("%v %+v %#v", err, err, err.Error()); strings.Contains(text, "secret ") || strings.Contains(text, "very-secret") {
				t.Errorf("error %q tells a key", text)
			}
		}
	}
}

func TestManyCallsAtOnce(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept") == "text/event-stream" {
			streams(events(delta(`{"content":"hello"}`, `"stop"`)))(w, r)
			return
		}
		replies(200, hello)(w, r)
	})
	m := s.model(openai.Defaults(model.Config{Extra: map[string]any{"top_k": 1}}))
	req := ask()
	done := make(chan chat.Message)
	for i := range 8 {
		go func() {
			var resp *model.Response
			var err error
			if i%2 == 0 {
				resp, err = m.Generate(t.Context(), req)
			} else {
				resp, err = model.Collect(m.Stream(t.Context(), req))
			}
			if err != nil {
				t.Error(err)
				resp = &model.Response{}
			}
			done <- resp.Message
		}()
	}
	for range 8 {
		if text := (<-done).Text(); text != "hello" {
			t.Errorf("got %q", text)
		}
	}
}
