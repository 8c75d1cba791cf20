package server_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/server"
)

// visit sends what a page of an origin would: a form's body, which no browser asks
// about before, a preflight, or the beginning of a WebSocket.
func visit(t *testing.T, s http.Handler, what, host, origin string) *httptest.ResponseRecorder {
	t.Helper()
	method, path, body := "POST", "/threads/search", "{}"
	headers := []string{"Content-Type", "text/plain", "Origin", origin}
	switch what {
	case "preflight":
		method, body, headers = "OPTIONS", "", append(headers, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type,x-api-key")
	case "websocket":
		method, path, body = "GET", "/threads/"+newThread()+"/stream/events", ""
		headers = append(headers, "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==")
	}
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Host = host
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] != "" {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func TestWithoutAuthenticationOnlyPagesOfThisMachineMayUseTheServer(t *testing.T) {
	const here = "127.0.0.1:8123"
	plain, more, anyone := calm(t), calm(t, server.AllowOrigins("https://chat.example"), server.AllowOrigins("https://two.example")), calm(t, server.AllowOrigins("*"))
	keys := calm(t, server.APIKeys(oldKey))
	for _, tt := range []struct {
		name    string
		s       http.Handler
		host    string
		origin  string
		status  int
		allowed string
	}{
		{"no page", plain, here, "", 200, ""},
		{"no page, by another name", plain, "agents.example", "", 200, ""},
		{"the server's own", plain, here, "http://127.0.0.1:8123", 200, ""},
		{"the server's own, behind a proxy with TLS", plain, "agents.example", "https://agents.example", 200, ""},
		{"a front end in development", plain, here, "http://localhost:3000", 200, "http://localhost:3000"},
		{"one at the address", plain, here, "http://127.0.0.1:5173", 200, "http://127.0.0.1:5173"},
		{"one at the address of IPv6", plain, here, "https://[::1]:5173", 200, "https://[::1]:5173"},
		{"one without a port", plain, here, "http://LOCALHOST", 200, "http://LOCALHOST"},
		{"another", plain, here, "https://evil.example", 403, ""},
		{"one that looks alike", plain, here, "http://localhost.evil.example", 403, ""},
		{"one that looks like the address", plain, here, "http://127.0.0.1.evil.example", 403, ""},
		{"one with a user", plain, here, "http://localhost:3000@evil.example", 403, ""},
		{"one on the network", plain, here, "http://192.168.1.7:3000", 403, ""},
		{"an extension's", plain, here, "chrome-extension://localhost", 403, ""},
		{"an opaque one", plain, here, "null", 403, ""},
		{"no origin at all", plain, here, "localhost", 403, ""},
		{"one that is allowed", more, here, "https://chat.example", 200, "https://chat.example"},
		{"another that is", more, here, "https://two.example", 200, "https://two.example"},
		{"one of this machine, beside those that are", more, here, "http://localhost:3000", 200, "http://localhost:3000"},
		{"one that isn't", more, here, "https://evil.example", 403, ""},
		{"any, if all are", anyone, here, "https://evil.example", 200, "*"},
		{"any, with keys", keys, here, "https://evil.example", 401, "*"},
	} {
		for _, what := range []string{"form", "preflight", "websocket"} {
			w := visit(t, tt.s, what, tt.host, tt.origin)
			want := tt.status
			switch {
			case want == 403:
			case what == "preflight":
				want = 204
			case what == "websocket" && want == 200:
				want = 501 // it was let in, and a recorder can't be a WebSocket
			}
			if got := w.Header().Get("Access-Control-Allow-Origin"); w.Code != want || got != tt.allowed && tt.allowed != "*" {
				t.Errorf("%s, a %s: %d, allowed is %q", tt.name, what, w.Code, got)
			}
			if w.Code == 403 && (!strings.Contains(w.Body.String(), "server.AllowOrigins") || !strings.Contains(w.Body.String(), "--allow-origin")) {
				t.Errorf("%s, a %s: it doesn't say what would allow it: %s", tt.name, what, w.Body)
			}
		}
	}
}

func TestWhatPagesOfOtherSitesRequestWithoutSayingWhoseTheyAreIsRefused(t *testing.T) {
	const here, run = "127.0.0.1:8123", "/runs/0197a0de-0000-7000-8000-000000000000/join?cancel_on_disconnect=true"
	plain, some, anyone := calm(t), calm(t, server.APIKeys(oldKey), server.AllowOrigins("https://chat.example")), calm(t, server.AllowOrigins("*"))
	keys := calm(t, server.APIKeys(oldKey))
	for _, tt := range []struct {
		name   string
		s      http.Handler
		method string
		host   string
		path   string
		site   string
		mode   string
		dest   string
		status int
	}{
		{"an image", plain, "GET", here, run, "cross-site", "no-cors", "image", 403},
		{"a script", plain, "GET", here, "/threads/search", "cross-site", "no-cors", "script", 403},
		{"a frame", plain, "GET", here, run, "cross-site", "navigate", "iframe", 403},
		{"a link", plain, "GET", here, run, "cross-site", "navigate", "document", 403},
		{"a form", plain, "POST", here, "/threads/search", "cross-site", "navigate", "document", 403},
		{"a word that is new", plain, "GET", here, run, "cross-origin", "no-cors", "image", 403},
		{"an image of a name beside it", plain, "GET", "agents.example", run, "same-site", "no-cors", "image", 403},
		{"an image of this machine", plain, "GET", "localhost:8123", run, "same-site", "no-cors", "image", 404},
		{"an image of the server's own pages", plain, "GET", here, run, "same-origin", "no-cors", "image", 404},
		{"an address that is typed", plain, "GET", here, run, "none", "navigate", "document", 404},
		{"an old browser", plain, "GET", here, run, "", "", "", 404},
		{"Node, which has a mode and no site", plain, "GET", here, run, "", "cors", "", 404},

		{"a link to the server", plain, "GET", here, "/", "cross-site", "navigate", "document", 302},
		{"a link to the studio", plain, "GET", here, "/studio/", "cross-site", "navigate", "document", 200},
		{"a link to a thread in the studio", plain, "GET", here, "/studio/threads/x", "same-site", "navigate", "document", 200},
		{"the studio that is typed", plain, "GET", here, "/studio/", "none", "navigate", "document", 200},
		{"the studio in a frame", plain, "GET", here, "/studio/", "cross-site", "navigate", "iframe", 403},
		{"the studio as a script", plain, "GET", here, "/studio/", "cross-site", "no-cors", "script", 403},
		{"a form to the studio", plain, "POST", here, "/studio/", "cross-site", "navigate", "document", 403},
		{"a path that only looks like it", plain, "GET", here, "/studio/..%2fthreads", "cross-site", "no-cors", "empty", 403},

		{"an image, with keys and pages that may", some, "GET", here, run, "cross-site", "no-cors", "image", 403},
		{"an image of this machine, with keys", some, "GET", "localhost:8123", run, "same-site", "no-cors", "image", 403},
		{"a link to the studio, with keys", some, "GET", here, "/studio/", "cross-site", "navigate", "document", 200},
		{"an image, with keys", keys, "GET", here, run, "cross-site", "no-cors", "image", 401},
		{"an image, if all may", anyone, "GET", here, run, "cross-site", "no-cors", "image", 404},
	} {
		r := httptest.NewRequestWithContext(t.Context(), tt.method, tt.path, nil)
		r.Host = tt.host
		for name, value := range map[string]string{"Sec-Fetch-Site": tt.site, "Sec-Fetch-Mode": tt.mode, "Sec-Fetch-Dest": tt.dest} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		w := httptest.NewRecorder()
		tt.s.ServeHTTP(w, r)
		if w.Code != tt.status {
			t.Errorf("%s: %d %s", tt.name, w.Code, w.Body)
		}
		if w.Code == 403 && !strings.Contains(w.Body.String(), "--allow-origin") {
			t.Errorf("%s: it doesn't say what would allow it: %s", tt.name, w.Body)
		}
	}
}

func TestAPageOfHTTPIsNotOfTheSameOriginAsAServerOfHTTPS(t *testing.T) {
	for site, want := range map[string]int{"cross-site": 403, "same-site": 403, "same-origin": 200, "": 200} {
		w := quick(t.Context(), calm(t), "POST", "/threads/search", "{}", "Origin", "http://example.com", "Sec-Fetch-Site", site)
		if w.Code != want {
			t.Errorf("%q: %d %s", site, w.Code, w.Body)
		}
	}
}

func TestAServerThatIsForThisMachineAnswersToNoOtherName(t *testing.T) {
	plain, local := calm(t), calm(t, server.LocalHosts("Mine"), server.AllowOrigins("https://agents.example:8443"))
	anyone := calm(t, server.LocalHosts(), server.AllowOrigins("*"))
	for _, tt := range []struct {
		host   string
		s      http.Handler
		status int
	}{
		{"localhost:8123", local, 200}, {"LocalHost.", local, 200}, {"127.0.0.1:8123", local, 200}, {"127.9.9.9", local, 200}, {"[::1]:8123", local, 200}, {"[::1]", local, 200},
		{"mine:8123", local, 200}, {"agents.example", local, 200}, {"agents.example:443", local, 200}, {"", local, 200},
		{"evil.example:8123", local, 403}, {"localhost.evil.example", local, 403}, {"127.0.0.1.evil.example", local, 403}, {"mine.evil.example", local, 403}, {"192.168.1.7:8123", local, 403}, {"[::1", local, 403}, {"0.0.0.0:8123", local, 403},
		{"evil.example", anyone, 200}, {"evil.example", plain, 200},
	} {
		w := visit(t, tt.s, "form", tt.host, "")
		if w.Code != tt.status {
			t.Errorf("Host: %s: %d %s", tt.host, w.Code, w.Body)
		}
		if w.Code == 403 && !strings.Contains(w.Body.String(), "--allow-origin") {
			t.Errorf("Host: %s: it doesn't say what would allow it: %s", tt.host, w.Body)
		}
		// A page of that name would be of the server's own origin.
		if w := visit(t, tt.s, "form", tt.host, "http://"+tt.host); tt.status == 403 && w.Code != 403 {
			t.Errorf("a page of %s: %d", tt.host, w.Code)
		}
	}
}

func TestWhoIsToTryAgainIsToldWhen(t *testing.T) {
	s := calm(t, server.WithLimits(server.Limits{OpenRuns: 1, Streams: 1, StreamsPerClient: -1}))
	const later = `{"assistant_id":"booking","input":{},"after_seconds":1000}`
	if w := quick(t.Context(), s, "POST", "/runs", later); w.Code != 200 || w.Header().Get("Retry-After") != "" {
		t.Errorf("the first run: %d %v", w.Code, w.Header())
	}
	w := quick(t.Context(), s, "POST", "/runs", later, "Origin", "http://localhost:3000")
	if w.Code != 429 || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Header().Get("Access-Control-Expose-Headers"), "retry-after") {
		t.Errorf("one too many: %d %v", w.Code, w.Header())
	}
}

func TestEveryRefusedKeyIsLogged(t *testing.T) {
	var audit logged
	const guess = "guess-5f3c0a1e9b7d4c62"
	c := start(t, server.Graph(booking(t)), server.APIKeys(oldKey), server.Logger(slog.New(slog.DiscardHandler)), server.Audit(slog.New(slog.NewTextHandler(&audit, nil))))
	thread := "/threads/" + newThread()
	c.ask(t.Context(), "POST", "/threads/search", "{}", "X-Api-Key", guess)
	c.ask(t.Context(), "GET", thread, "", "Authorization", "Bearer "+guess)
	c.ask(t.Context(), "GET", "/openapi.json", "", "X-Api-Key", guess)
	c.ask(t.Context(), "GET", "/metrics", "")
	c.ask(t.Context(), "GET", "/openapi.json", "", "X-Api-Key", oldKey)
	c.ask(t.Context(), "GET", "/ok", "", "X-Api-Key", guess)
	c.ask(t.Context(), "DELETE", thread, "", "X-Api-Key", oldKey)
	for !strings.Contains(audit.String(), "DELETE") {
	}
	for _, want := range []string{
		`user="" from=127.0.0.1 resource=threads verb=search route="POST /threads/search" status=401 error=wrong_credentials`,
		`user="" from=127.0.0.1 resource=threads verb=read route="GET /threads/{thread}" status=401 error=wrong_credentials`,
		`user="" from=127.0.0.1 route="GET /openapi.json" status=401 error=wrong_credentials`,
		`user="" from=127.0.0.1 resource=metrics verb=read route="GET /metrics" status=401 error=no_credentials`,
	} {
		if !strings.Contains(audit.String(), want) {
			t.Errorf("there is no record %s", want)
		}
	}
	if got := audit.String(); strings.Count(got, "\n") != 5 || strings.Contains(got, guess) || strings.Contains(got, `resource=""`) {
		t.Errorf("the log:\n%s", got)
	}
}

func TestAFloodOfGuessesDoesNotFloodTheLog(t *testing.T) {
	var audit logged
	s := calm(t, server.APIKeys(oldKey), server.Audit(slog.New(slog.NewTextHandler(&audit, nil))))
	const n = 5000
	for range n {
		quick(t.Context(), s, "POST", "/threads/search", "{}", "X-Api-Key", newKey)
	}
	server.ForgiveGuesses(s)
	quick(t.Context(), s, "POST", "/threads/search", "{}", "X-Api-Key", newKey)
	lines := strings.Split(strings.TrimSpace(audit.String()), "\n")
	if len(lines) >= n/2 || !strings.Contains(lines[len(lines)-1], " left_out=") {
		t.Errorf("%d records, the last is %s", len(lines), lines[len(lines)-1])
	}
}

// Pages of the program's own are for everybody, as the studio is, and are linked to.
func TestPagesOfAProgramAreForEverybody(t *testing.T) {
	manual := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("page " + r.URL.Path)) })
	s := calm(t, server.Pages("/docs/", manual), server.Authenticate(func(*http.Request) (*server.User, error) { return nil, nil }))
	if w := quick(t.Context(), s, "GET", "/docs/a/b.html", ""); w.Code != http.StatusOK || w.Body.String() != "page /docs/a/b.html" {
		t.Errorf("a page: %d %q", w.Code, w.Body)
	}
	if w := quick(t.Context(), s, "POST", "/threads/search", "{}"); w.Code != http.StatusUnauthorized {
		t.Errorf("the API: %d", w.Code)
	}
	link := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	for path, want := range map[string]int{"/docs/": 200, "/studio/": 200, "/threads/" + newThread(): 403} {
		if w := quick(t.Context(), s, "GET", path, "", link...); w.Code != want {
			t.Errorf("a link of another site to %s: %d, want %d", path, w.Code, want)
		}
	}
}

func TestPagesAreAtAPathOfTheirOwn(t *testing.T) {
	h := http.NotFoundHandler()
	for what, opts := range map[string][]server.Option{
		"no handler":     {server.Pages("/docs/", nil)},
		"no end":         {server.Pages("/docs", h)},
		"no beginning":   {server.Pages("docs/", h)},
		"the root":       {server.Pages("/", h)},
		"a pattern":      {server.Pages("/{any}/", h)},
		"dots":           {server.Pages("/a/../", h)},
		"twice":          {server.Pages("/docs/", h), server.Pages("/docs/", h)},
		"of the studio":  {server.Pages("/studio/", h)},
		"two at a slash": {server.Pages("//", h)},
	} {
		s, err := server.New(t.Context(), opts...)
		if err == nil {
			_ = s.Close(t.Context())
			t.Errorf("%s: it is served", what)
		} else if !strings.Contains(err.Error(), "server.Pages(") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
