package client_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/client"
)

// quiet logs nothing.
var quiet = log.New(io.Discard, "", 0)

// answering serves answers of a kind from a function, until the test is over.
func answering(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	web := httptest.NewServer(h)
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return web.URL
}

// failure returns the error that a stream ends with.
func failure(seq func(func(client.Event, error) bool)) (events int, err error) {
	for _, err := range seq {
		if err != nil {
			return events, err
		}
		events++
	}
	return events, nil
}

// streaming is an answer whose events are what f writes.
func streaming(r *http.Request, f func(w *io.PipeWriter)) *http.Response {
	pr, pw := io.Pipe()
	go f(pw)
	return &http.Response{StatusCode: 200, Request: r, Body: pr, Header: http.Header{
		"Content-Type": {"text/event-stream"}, "Content-Location": {"/threads/t/runs/r"}, "Location": {"/threads/t/runs/r/stream"},
	}}
}

func TestALoopThatTakesLongIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		h := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			calls++
			return streaming(r, func(w *io.PipeWriter) {
				defer w.Close()
				for range 2 {
					_, _ = io.WriteString(w, ": heartbeat\n")
					time.Sleep(5 * time.Second)
				}
				_, _ = io.WriteString(w, ": heartbeat\nevent: values\ndata: {}\nid: 1\n\nevent: values\ndata: {}\nid: 2\n\n")
				for range 3 { // waited to be read
					_, _ = io.WriteString(w, ": heartbeat\n")
				}
				time.Sleep(14 * time.Second)
				_, _ = io.WriteString(w, "event: values\ndata: {}\nid: 3\n\n")
			}), nil
		})}
		var ids []string
		for ev, err := range open(t, "http://slow.example", client.HTTPClient(h)).Stream(t.Context(), "t", client.RunRequest{}) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, ev.ID)
			time.Sleep(2 * time.Minute)
		}
		if fmt.Sprint(ids) != "[1 2 3]" || calls != 1 {
			t.Errorf("events %v after %d calls", ids, calls)
		}
	})
}

func TestAServerSaysWhenToComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		var waits []time.Duration
		h := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			busy := &http.Response{StatusCode: 503, Request: r, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("later"))}
			switch calls++; calls {
			case 1:
				return streaming(r, func(w *io.PipeWriter) { w.CloseWithError(io.ErrUnexpectedEOF) }), nil
			case 2:
				busy.Header.Set("Retry-After", "17")
				return busy, nil
			case 3:
				busy.StatusCode = 429
				busy.Header.Set("Retry-After", "86400")
				return busy, nil
			case 4:
				busy.Header.Set("Retry-After", time.Now().Add(20*time.Second).UTC().Format(http.TimeFormat))
				return busy, nil
			}
			return streaming(r, func(w *io.PipeWriter) { w.Close() }), nil
		})}
		c := open(t, "http://busy.example", client.HTTPClient(h), client.OnReconnect(func(_ error, wait time.Duration) { waits = append(waits, wait.Round(time.Second)) }))
		if _, err := failure(c.Stream(t.Context(), "t", client.RunRequest{})); err != nil {
			t.Fatal(err)
		}
		if want := []time.Duration{0, 17 * time.Second, time.Minute, 20 * time.Second}; !slices.Equal(waits, want) {
			t.Errorf("waited %v, want %v", waits, want)
		}
	})
	url := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3")
		http.Error(w, "too many", http.StatusTooManyRequests)
	})
	var refused *client.Error
	if _, err := open(t, url).Thread(t.Context(), "t"); !errors.As(err, &refused) || refused.RetryAfter != 3*time.Second || err.Error() != "GET /threads/t: 429: too many" {
		t.Errorf("%v, %+v", err, refused)
	}
}

func TestRedirectsAreFollowedOnTheServerAlone(t *testing.T) {
	var leaked atomic.Bool
	other := answering(t, func(_ http.ResponseWriter, r *http.Request) { leaked.Store(r.Header.Get("X-Api-Key") != "") })
	url := answering(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/threads/away":
			http.Redirect(w, r, other+"/threads/away", http.StatusTemporaryRedirect)
		case "/threads/round":
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		case "/threads/moved":
			http.Redirect(w, r, "/threads/new", http.StatusPermanentRedirect)
		case "/threads":
			http.Redirect(w, r, "/threads/", http.StatusMovedPermanently)
		default:
			_, _ = fmt.Fprintf(w, `{"thread_id": %q}`, r.Header.Get("X-Api-Key"))
		}
	})
	c := open(t, url, client.APIKey("k-1\n"))
	for id, want := range map[string]string{"away": "it redirects to " + other, "round": "too often"} {
		_, err := c.Thread(t.Context(), id)
		if !errors.As(err, new(*client.ProtocolError)) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", id, err)
		}
	}
	if leaked.Load() {
		t.Error("the key was sent elsewhere")
	}
	if th := must(c.Thread(t.Context(), "moved"))(t); th.ID != "k-1" {
		t.Errorf("the key was %q", th.ID)
	}
	if _, err := c.CreateThread(t.Context(), client.NewThread{}); err == nil || !strings.Contains(err.Error(), "it redirects /threads to /threads/, which POST cannot follow") {
		t.Errorf("a POST that would become a GET: %v", err)
	}
}

func TestAnswersOfOtherFormsAreErrors(t *testing.T) {
	body := ""
	c := open(t, answering(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
	ctx := t.Context()
	page := strings.TrimSuffix(strings.Repeat(`{"checkpoint": {"checkpoint_id": "same"}},`, 20), ",")
	for _, tt := range []struct {
		name, body string
		call       func() error
	}{
		{"a thread that is null", "null", func() error { _, err := c.Thread(ctx, "t"); return err }},
		{"a thread that is empty", "", func() error { _, err := c.Thread(ctx, "t"); return err }},
		{"a state that is null", "null", func() error { _, err := c.State(ctx, "t", false); return err }},
		{"a run that is null", "null", func() error { _, err := c.Start(ctx, "t", client.RunRequest{}); return err }},
		{"feedback of which one is null", "[null]", func() error { _, err := c.Feedback(ctx, "t", "", 0); return err }},
		{"calls of models of which one is null", "[null]", func() error { return last(c.ModelCalls(ctx, "t", 0)) }},
		{"a call of a model that is null", "null", func() error { _, err := c.ModelCall(ctx, "t", "c"); return err }},
		{"a replay that is null", "null", func() error { _, err := c.ReplayThread(ctx, "t", client.ReplayOptions{}); return err }},
		{"an import that is null", "null", func() error { _, err := c.ImportThread(ctx, strings.NewReader("x"), ""); return err }},
		{"threads of which one is null", "[null]", func() error { return last(c.Threads(ctx, client.ThreadSearch{})) }},
		{"assistants of which one is null", "[null]", func() error { return last(c.Assistants(ctx, client.AssistantSearch{})) }},
		{"items of which one is null", `{"items": [null]}`, func() error { return last(c.SearchItems(ctx, client.ItemSearch{})) }},
		{"a history whose last state is null", "[" + strings.Repeat("{},", 19) + "null]", func() error { return last(c.History(ctx, "t", client.HistoryQuery{})) }},
		{"calls of tools that never end", "[" + strings.TrimSuffix(strings.Repeat(`{"call_id": "same"},`, 100), ",") + "]", func() error { return last(c.ToolCalls(ctx, "t", 0)) }},
		{"a history that never ends", "[" + page + "]", func() error { return last(c.History(ctx, "t", client.HistoryQuery{})) }},
		{"a page for browsers", "<html>", func() error { _, err := c.Join(ctx, "t", "r"); return err }},
	} {
		body = tt.body
		if err := tt.call(); !errors.As(err, new(*client.ProtocolError)) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	body = "null"
	if _, err := c.Item(ctx, []string{"a"}, "k"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("no item: %v", err)
	}
	body = "[" + strings.TrimSuffix(strings.Repeat(`{"thread_id": "t"},`, 7), ",") + "]"
	if got := all(t, c.Threads(ctx, client.ThreadSearch{Limit: 3})); len(got) != 3 {
		t.Errorf("%d threads, although 3 were wanted", len(got))
	}
}

// last returns the error of a sequence.
func last[T any](seq func(func(T, error) bool)) error {
	n := 0
	for _, err := range seq {
		if err != nil {
			return err
		}
		if n++; n > 1000 {
			return errors.New("it doesn't end")
		}
	}
	return nil
}

func TestListsCanBeRangedOverAgain(t *testing.T) {
	c := open(t, serve(t, nil, nil))
	thread := must(c.CreateThread(t.Context(), client.NewThread{}))(t)
	must(c.Wait(t.Context(), thread.ID, client.RunRequest{Assistant: "booking", Input: trip{City: "Ulm"}}))(t)
	for range 11 {
		must(c.UpdateState(t.Context(), thread.ID, client.Update{Values: trip{City: "Ulm"}, AsNode: "plan"}))(t)
		must(c.UpdateState(t.Context(), thread.ID, client.Update{Values: trip{City: "Bonn"}, AsNode: "plan"}))(t)
	}
	history := c.History(t.Context(), thread.ID, client.HistoryQuery{})
	first := all(t, history)
	if again := all(t, history); len(first) < 22 || len(again) != len(first) || again[0].Checkpoint.ID != first[0].Checkpoint.ID {
		t.Errorf("%d states, then %d", len(first), len(again))
	}
	threads := c.Threads(t.Context(), client.ThreadSearch{})
	if a, b := all(t, threads), all(t, threads); len(a) != 1 || len(b) != 1 {
		t.Errorf("%d threads, then %d", len(a), len(b))
	}
}

func TestAnAnswerAboutAnotherRun(t *testing.T) {
	var calls atomic.Int32
	url := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		n := calls.Add(1)
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Content-Location", fmt.Sprintf("/threads/t/runs/r%d", n))
		w.Header().Set("Location", "/threads/t/runs/r1/stream")
		_, _ = fmt.Fprintf(w, "id: %d\nevent: values\ndata: {}\n\n", n)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	n, err := failure(open(t, url).Stream(t.Context(), "t", client.RunRequest{}))
	if n != 1 || !errors.As(err, new(*client.ProtocolError)) || !strings.Contains(err.Error(), `about run "r2", and not "r1"`) {
		t.Errorf("%d events, %v", n, err)
	}
}

func TestTheRestOfAStreamIsBelowThePathOfTheServer(t *testing.T) {
	for _, location := range []string{"/threads/t/runs/r/stream?a=b", "/base/threads/t/runs/r/stream?a=b"} {
		var asked []string
		var mu sync.Mutex
		url := answering(t, func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			asked = append(asked, r.URL.String())
			cut := len(asked) == 1
			mu.Unlock()
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Location", location)
			_, _ = fmt.Fprint(w, "id: 1\nevent: values\ndata: {}\n\n")
			_ = http.NewResponseController(w).Flush()
			if cut {
				panic(http.ErrAbortHandler)
			}
		})
		if n, err := failure(open(t, url+"/base/").Stream(t.Context(), "t", client.RunRequest{})); n != 2 || err != nil {
			t.Errorf("%d events, %v", n, err)
		}
		if want := "[/base/threads/t/runs/stream /base/threads/t/runs/r/stream?a=b]"; fmt.Sprint(asked) != want {
			t.Errorf("asked at %v, want %s", asked, want)
		}
	}
}

// The context ends when the server has made the run and not yet said which it is.
func TestARunIsCancelledThoughItsNameCameLate(t *testing.T) {
	for _, wait := range []bool{false, true} {
		ctx, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		var cancelled atomic.Value
		url := answering(t, func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/cancel") {
				cancelled.Store(r.URL.Path)
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			cancel(enough)
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Content-Location", "/threads/t/runs/late")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
		c, r := open(t, url), client.RunRequest{CancelOnLeave: true}
		var err error
		if wait {
			_, err = c.Wait(ctx, "t", r)
		} else {
			_, err = failure(c.Stream(ctx, "t", r))
		}
		if !errors.Is(err, enough) || cancelled.Load() != "/threads/t/runs/late/cancel" {
			t.Errorf("wait %v: %v; cancelled %v", wait, err, cancelled.Load())
		}
	}
}

// A run without a thread can be cancelled by its connection alone.
func TestARunWithoutAThreadIsTiedToItsConnection(t *testing.T) {
	var asked []string
	url := answering(t, func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			OnDisconnect string `json:"on_disconnect"`
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		asked = append(asked, body.OnDisconnect)
		w.Header().Set("Content-Type", "text/event-stream")
	})
	c := open(t, url)
	for _, cancel := range []bool{true, false} {
		if _, err := failure(c.Stream(t.Context(), "", client.RunRequest{CancelOnLeave: cancel})); err != nil {
			t.Error(err)
		}
	}
	if fmt.Sprint(asked) != "[cancel continue]" {
		t.Errorf("on_disconnect was %q", asked)
	}
}

func TestNothingIsLeftWhereverTheContextEnds(t *testing.T) {
	transport := &http.Transport{}
	k := &cutter{after: 2, most: 1 << 30}
	c := open(t, serve(t, nil, k.around), client.HTTPClient(&http.Client{Transport: transport}))
	thread := must(c.CreateThread(t.Context(), client.NewThread{}))(t)
	transport.CloseIdleConnections()
	before := runtime.NumGoroutine()
	enough := errors.New("enough")
	for at := range 12 {
		ctx, cancel := context.WithCancelCause(t.Context())
		moment := 0
		now := func() {
			if moment++; moment > at {
				cancel(enough)
			}
		}
		now()
		seq := c.Stream(ctx, thread.ID, client.RunRequest{
			Assistant: "booking", Input: trip{City: "Ulm"}, Modes: []client.Mode{client.ModeValues, client.ModeTasks}, CancelOnLeave: at%2 == 0,
			Created: func(string, string) { now() },
		})
		var err error
		for _, err = range seq {
			now()
		}
		if moment > at && !errors.Is(err, enough) || moment <= at && err != nil {
			t.Errorf("moment %d: %v", at, err)
		}
		cancel(nil)
	}
	for range 1000 {
		transport.CloseIdleConnections()
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > before {
		stacks := make([]byte, 1<<16)
		t.Errorf("%d goroutines, before %d\n%s", n, before, stacks[:runtime.Stack(stacks, true)])
	}
}

func TestStreamsAreReadWholeHoweverTheyAreSent(t *testing.T) {
	big := strings.Repeat("größer ", 3<<20) // some 24 MB on one line
	for name, send := range map[string]func(w io.Writer){
		"gzip": func(w io.Writer) {
			z := gzip.NewWriter(w)
			_, _ = fmt.Fprintf(z, "id: 1\nevent: values\ndata: %q\n\n", "größer")
			_ = z.Close()
		},
		"a long line": func(w io.Writer) { _, _ = fmt.Fprintf(w, "id: 1\nevent: values\ndata: \"%s\"\n\n", big) },
		"cut characters": func(w io.Writer) {
			for _, b := range []byte("id: 1\nevent: values\ndata: \"größer\"\n\n") {
				_, _ = w.Write([]byte{b})
				_ = http.NewResponseController(w.(http.ResponseWriter)).Flush()
			}
		},
	} {
		url := answering(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			if name == "gzip" {
				w.Header().Set("Content-Encoding", "gzip")
			}
			send(w)
		})
		for ev, err := range open(t, url).Stream(t.Context(), "", client.RunRequest{}) {
			if err != nil || name == "a long line" && len(ev.Data) != len(big)+2 || name != "a long line" && string(ev.Data) != `"größer"` {
				t.Errorf("%s: %.40q, %v", name, ev.Data, err)
			}
		}
	}
	// A character that was cut by the end of a connection is sent again.
	var calls atomic.Int32
	url := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Location", "/rest")
		if calls.Add(1) == 1 {
			_, _ = io.WriteString(w, "id: 1\nevent: values\ndata: \"gr\xc3")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, "id: 1\nevent: values\ndata: \"größer\"\n\n")
	})
	n := 0
	for ev, err := range open(t, url).Stream(t.Context(), "", client.RunRequest{}) {
		if n++; err != nil || string(ev.Data) != `"größer"` {
			t.Errorf("%.40q, %v", ev.Data, err)
		}
	}
	if n != 1 || calls.Load() != 2 {
		t.Errorf("%d events of %d connections", n, calls.Load())
	}
}

// A connection that was kept and is dead fails no call that only reads.
func TestDeadConnectionsFailNoCallThatReads(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	answers := []string{`{"thread_id": "t"}`, `[]`}
	var served atomic.Int32
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { // answers once, takes another request, and closes
				defer conn.Close()
				r := bufio.NewReader(conn)
				for i := range 2 {
					req, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, req.Body)
					if len(req.Header["X-Idempotency-Key"]) > 0 {
						t.Error("the header was sent")
					}
					if i == 0 {
						body := answers[0]
						if req.Method == http.MethodPost {
							body = answers[1]
						}
						served.Add(1)
						_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
					}
				}
			}()
		}
	}()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	c := open(t, "http://"+l.Addr().String(), client.HTTPClient(&http.Client{Transport: transport}))
	for range 3 {
		if _, err := c.Thread(t.Context(), "t"); err != nil {
			t.Error(err)
		}
		if err := last(c.Threads(t.Context(), client.ThreadSearch{})); err != nil {
			t.Error(err)
		}
	}
	if served.Load() != 6 {
		t.Errorf("%d calls were served", served.Load())
	}
}

func TestWhatNoClientCanBeMadeFrom(t *testing.T) {
	for url, want := range map[string]string{
		"127.0.0.1:8123": `"127.0.0.1:8123" is no URL of a server: use http://`, "u:secret@host:1": "what was given is no URL", "": `"" is no URL`,
		"http://u:secret@host:port": "cannot be read", "ftp://u:secret@host": "ftp://u:xxxxx@host",
	} {
		if _, err := client.New(url); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, o := range []client.Option{client.APIKey("a\nb"), client.Header("a b", "c"), client.Header("", "c"), client.Header("A", "c\x00")} {
		if _, err := client.New("http://localhost", o); err == nil || !strings.Contains(err.Error(), "cannot be sent") {
			t.Errorf("a header that cannot be sent: %v", err)
		}
	}
	if _, err := client.New("http://localhost", client.HTTPClient(nil), client.APIKey(" ")); err != nil {
		t.Error(err)
	}
}

func TestAddressesOfTheWrongKindAreTold(t *testing.T) {
	web := httptest.NewUnstartedServer(http.NotFoundHandler())
	web.Config.ErrorLog = quiet
	web.StartTLS()
	defer web.Close()
	_, err := open(t, web.URL).Info(t.Context())
	if !errors.As(err, new(x509.UnknownAuthorityError)) || !strings.Contains(err.Error(), "let this machine trust who issued it") {
		t.Errorf("a certificate that isn't trusted: %v", err)
	}
	plain := answering(t, http.NotFound)
	if _, err := open(t, strings.Replace(plain, "http:", "https:", 1)).Info(t.Context()); !errors.As(err, new(*client.UnreachableError)) || !strings.HasSuffix(err.Error(), "use http:// in the address") {
		t.Errorf("https where there is http: %v", err)
	}
	proxy := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusBadGateway)
		_, _ = io.WriteString(w, "<html>\x1b[31m")
	})
	if _, err := open(t, proxy).Info(t.Context()); err == nil || err.Error() != "GET /info: 502: Bad Gateway" {
		t.Errorf("a proxy without a server: %v", err)
	}
}
