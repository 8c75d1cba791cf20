package server_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server"
)

// ask sends a request with headers, in pairs.
func (c client) ask(ctx context.Context, method, path, body string, headers ...string) (int, http.Header, string) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil && ctx.Err() == nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	return answer.StatusCode, answer.Header, string(data)
}

const (
	oldKey = "old-5f3c0a1e9b7d4c62"
	newKey = "new-0b9d2e7f6a1c4385"
)

func TestAPIKeysOpenTheServerAndNothingElseDoes(t *testing.T) {
	c := start(t, server.Graph(booking(t)), server.APIKeys(oldKey, newKey), server.Logger(slog.New(slog.DiscardHandler)))
	for _, tt := range []struct {
		name    string
		path    string
		headers []string
		want    int
	}{
		{"the first key", "/threads/search", []string{"X-Api-Key", oldKey}, 200},
		{"another key", "/threads/search", []string{"x-api-key", newKey}, 200},
		{"a key as bearer", "/threads/search", []string{"Authorization", "Bearer " + newKey}, 200},
		{"bearer in other letters", "/threads/search", []string{"Authorization", "bearer  " + newKey}, 200},
		{"a wrong key beside a right one", "/threads/search", []string{"X-Api-Key", "no", "Authorization", "Bearer " + newKey}, 200},
		{"nothing", "/threads/search", nil, 401},
		{"an empty key", "/threads/search", []string{"X-Api-Key", ""}, 401},
		{"a part of a key", "/threads/search", []string{"X-Api-Key", oldKey[:8]}, 401},
		{"a key and more", "/threads/search", []string{"X-Api-Key", oldKey + "0"}, 401},
		{"both keys in one", "/threads/search", []string{"X-Api-Key", oldKey + "," + newKey}, 401},
		{"a key of other letters", "/threads/search", []string{"X-Api-Key", strings.ToUpper(oldKey)}, 401},
		{"a key with another scheme", "/threads/search", []string{"Authorization", "Basic " + oldKey}, 401},
		{"a key in the query", "/threads/search?x-api-key=" + oldKey + "&api_key=" + oldKey, nil, 401},
		{"a key as a cookie", "/threads/search", []string{"Cookie", "x-api-key=" + oldKey}, 401},
	} {
		status, header, text := c.ask(t.Context(), "POST", tt.path, "{}", tt.headers...)
		if status != tt.want {
			t.Errorf("%s: %d %s", tt.name, status, text)
		}
		if status == 401 && (header.Get("WWW-Authenticate") != "Bearer" || header.Get("Access-Control-Allow-Origin") != "*" || !strings.Contains(text, "credentials")) {
			t.Errorf("%s: %v %s", tt.name, header, text)
		}
	}
	for _, path := range []string{"/ok", "/info"} {
		if status, _, _ := c.ask(t.Context(), "GET", path, ""); status != 200 {
			t.Errorf("%s: %d", path, status)
		}
	}
	status, _, _ := c.ask(t.Context(), "OPTIONS", "/threads", "", "Origin", "https://a.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "x-api-key")
	if status != 204 {
		t.Errorf("a preflight is answered with %d", status)
	}
}

// Every route but those that are meant to be open needs credentials.
func TestKeysWithNamesAreOfDifferentUsers(t *testing.T) {
	ada, ada2, bob, base64 := "ada-5f3c0a1e9b7d4c62", "ada-0b9d2e7f6a1c4385", "bob-81f2c3d4e5a69788", "YWJjZGVmZ2hpamtsbW5vcA=="
	eve := "ZXZl=c2VjcmV0LW9mLWV2ZQ=="
	var logged bytes.Buffer
	c := start(t, server.Graph(booking(t)), server.Authorize(server.OwnedByUser()), server.Logger(slog.New(slog.DiscardHandler)), server.Audit(slog.New(slog.NewTextHandler(&logged, nil))),
		server.WithLimits(server.Limits{OpenRunsPerUser: 1}), server.APIKeys("ada="+ada, "ada="+ada2, "bob="+bob, "eve="+eve, base64, oldKey),
		server.NamedAPIKeys(server.APIKey{Name: "prometheus", Key: newKey, Permissions: []string{"metrics:read"}}))
	as := func(key, method, path, body string) (int, string) {
		status, _, text := c.ask(t.Context(), method, path, body, "X-Api-Key", key)
		return status, text
	}
	if status, text := as(ada, "POST", "/threads", `{"metadata":{"owner":"api-key:bob"}}`); status != 200 || !strings.Contains(text, `"owner":"api-key:ada"`) {
		t.Errorf("ada's thread: %d %s", status, text)
	}
	for _, tt := range []struct {
		name, key string
		status    int
		threads   string
	}{
		{"her key", ada, 200, "1"}, {"her new key", ada2, 200, "1"}, {"somebody else's", bob, 200, "0"}, {"one without a name", oldKey, 200, "0"}, {"one in base64", base64, 200, "0"},
		{"one with a name and equals signs", eve, 200, "0"}, {"what follows its first equals sign", eve[5:], 401, ""},
		{"her name with it", "ada=" + ada, 401, ""}, {"her name", "ada", 401, ""},
	} {
		status, text := as(tt.key, "POST", "/threads/count", `{}`)
		if status != tt.status || status == 200 && text != tt.threads {
			t.Errorf("%s: %d %s", tt.name, status, text)
		}
	}
	for key, want := range map[string]int{ada: 403, oldKey: 403, newKey: 200} {
		if status, text := as(key, "GET", "/metrics", ""); status != want {
			t.Errorf("metrics: %d, want %d: %.100s", status, want, text)
		}
	}
	for _, tt := range []struct {
		key  string
		want int
	}{{ada, 200}, {ada2, 429}, {bob, 200}} {
		if status, text := as(tt.key, "POST", "/runs", `{"assistant_id":"booking","input":{},"after_seconds":1000}`); status != tt.want {
			t.Errorf("a run: %d, want %d: %s", status, tt.want, text)
		}
	}
	if got := logged.String(); !strings.Contains(got, "user=api-key:ada ") || !strings.Contains(got, "user=api-key:bob ") || strings.Contains(got, ada) {
		t.Errorf("the audit says %s", got)
	}
}

func TestWithoutCredentialsEveryRouteIs401(t *testing.T) {
	s, err := server.New(t.Context(), server.Graph(booking(t)), server.APIKeys(oldKey), server.Logger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	for _, pattern := range server.Routes(s) {
		method, path, _ := strings.Cut(pattern, " ")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(method, fill(path, nil), strings.NewReader("{}")))
		want := 401
		if slices.Contains([]string{"/ok", "/info", "/ready"}, path) {
			want = 200
		}
		if w.Code != want {
			t.Errorf("%s: %d %s", pattern, w.Code, w.Body)
		}
	}
}

func TestWhatAServerIsNotMadeWith(t *testing.T) {
	allow := func(context.Context, *server.User, *server.Action) (server.Filter, error) {
		return server.Filter{}, nil
	}
	for _, tt := range []struct {
		name string
		opts []server.Option
		says string
	}{
		{"no keys", []server.Option{server.APIKeys()}, "no keys"},
		{"an empty key", []server.Option{server.APIKeys("", oldKey)}, "API key 1"},
		{"a key with a line feed", []server.Option{server.APIKeys(oldKey, "a\nb")}, "API key 2"},
		{"a short key with a name", []server.Option{server.APIKeys("ada=0123456789")}, "API key 1 has fewer than 16"},
		{"a name of other characters", []server.Option{server.APIKeys(oldKey, "a/b="+newKey)}, "name of API key 2"},
		{"a key with an equals sign and no name", []server.Option{server.APIKeys("q/+k=" + oldKey)}, "what stands before the first = is the name"},
		{"a key with an equals sign near its end", []server.Option{server.APIKeys(oldKey + "=ab==")}, "what stands before the first = is the name"},
		{"no name before a key", []server.Option{server.APIKeys("=" + newKey)}, "name of API key 1"},
		{"one key of two users", []server.Option{server.APIKeys("ada="+newKey, "bob="+newKey)}, "API keys 1 and 2"},
		{"no function", []server.Option{server.Authenticate(nil)}, "no function"},
		{"a token's issuer without audience", []server.Option{server.JWT(server.JWTConfig{Issuer: "https://a.example"})}, "Audience"},
		{"an algorithm that is a secret's", []server.Option{server.JWT(server.JWTConfig{Issuer: "a", Audience: "b", Algorithms: []string{"HS256"}})}, "HS256"},
		{"an authoriser without users", []server.Option{server.Authorize(allow)}, "needs users"},
		{"two authorisers", []server.Option{server.APIKeys(oldKey), server.Authorize(allow), server.Authorize(allow)}, "once"},
		{"an origin with a path", []server.Option{server.AllowOrigins("https://a.example/x")}, "origin"},
	} {
		if _, err := server.New(t.Context(), tt.opts...); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", tt.name, err)
		} else if strings.Contains(err.Error(), oldKey) {
			t.Errorf("%s: the error names a key: %v", tt.name, err)
		}
	}
}

func TestAFunctionAuthenticates(t *testing.T) {
	var log bytes.Buffer
	find := func(r *http.Request) (*server.User, error) {
		switch name := r.Header.Get("X-Test-User"); name {
		case "":
			return nil, nil
		case "down":
			return nil, fmt.Errorf("%w: no answer from directory", server.ErrUnavailable)
		case "mallory":
			return nil, errors.New("mallory is locked out since Tuesday")
		case "nobody":
			return &server.User{}, nil
		case "chan":
			return &server.User{ID: "c", Claims: map[string]any{"c": make(chan int)}}, nil
		default:
			return &server.User{ID: name}, nil
		}
	}
	c := start(t, server.Authenticate(find), server.APIKeys(newKey), server.Logger(slog.New(slog.NewTextHandler(&log, nil))))
	for _, tt := range []struct {
		name string
		want int
	}{{"alice", 200}, {"mallory", 401}, {"down", 503}, {"nobody", 401}, {"chan", 401}, {"", 401}} {
		status, _, text := c.ask(t.Context(), "POST", "/threads/search", "{}", "X-Test-User", tt.name)
		if status != tt.want || strings.Contains(text, "Tuesday") {
			t.Errorf("%s: %d %s", tt.name, status, text)
		}
	}
	if status, _, _ := c.ask(t.Context(), "POST", "/threads/search", "{}", "X-Api-Key", newKey); status != 200 {
		t.Errorf("the other way of authentication: %d", status)
	}
}

// issuer is an OpenID provider.
type issuer struct {
	*httptest.Server
	mu    sync.Mutex
	key   *rsa.PrivateKey
	id    string
	down  bool
	reads atomic.Int32
}

func newIssuer(t *testing.T) *issuer {
	i := &issuer{}
	i.rotate(t, "k1")
	mux := http.NewServeMux()
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q,"authorization_endpoint":"x","token_endpoint":"x","id_token_signing_alg_values_supported":["RS256","HS256","none"]}`, i.URL, i.URL+"/keys")
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, r *http.Request) {
		i.reads.Add(1)
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.down {
			panic(http.ErrAbortHandler)
		}
		b64 := base64.RawURLEncoding.EncodeToString
		fmt.Fprintf(w, `{"keys":[{"kty":"RSA","use":"sig","kid":%q,"n":%q,"e":%q}]}`, i.id, b64(i.key.N.Bytes()), b64(big.NewInt(int64(i.key.E)).Bytes()))
	})
	return i
}

func (i *issuer) rotate(t *testing.T, id string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.key, i.id = key, id
}

// token signs claims, over those of a good token; a nil claim is left out.
func (i *issuer) token(t *testing.T, alg, kid string, claims map[string]any) string {
	t.Helper()
	all := map[string]any{"iss": i.URL, "aud": "superstep", "sub": "u-1", "name": "Ada", "scope": "read write", "exp": time.Now().Add(time.Hour).Unix(), "tenant": "acme"}
	for k, v := range claims {
		all[k] = v
		if v == nil {
			delete(all, k)
		}
	}
	part := func(v any) string {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(data)
	}
	text := part(map[string]any{"alg": alg, "kid": kid, "typ": "JWT"}) + "." + part(all)
	sum := sha256.Sum256([]byte(text))
	var sig []byte
	var err error
	i.mu.Lock()
	defer i.mu.Unlock()
	switch alg {
	case "RS256":
		sig, err = rsa.SignPKCS1v15(rand.Reader, i.key, crypto.SHA256, sum[:])
	case "HS256": // with the public key, which everybody has
		public, _ := x509.MarshalPKIXPublicKey(&i.key.PublicKey)
		m := hmac.New(sha256.New, public)
		m.Write([]byte(text))
		sig = m.Sum(nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(sig)
}

func TestTokensOfAnIssuerOpenTheServer(t *testing.T) {
	i := newIssuer(t)
	var seen atomic.Pointer[server.User]
	note := func(_ context.Context, u *server.User, _ *server.Action) (server.Filter, error) {
		seen.Store(u)
		return server.Filter{}, nil
	}
	for name, o := range map[string]server.JWTConfig{
		"found by discovery": {Issuer: i.URL, Audience: "superstep"},
		"at a URL":           {Issuer: i.URL, Audience: "superstep", KeysURL: i.URL + "/keys"},
		"given":              {Issuer: i.URL, Audience: "superstep", Keys: []crypto.PublicKey{&i.key.PublicKey}},
	} {
		c := start(t, server.JWT(o), server.Authorize(note), server.Logger(slog.New(slog.DiscardHandler)))
		good := i.token(t, "RS256", "k1", nil)
		head, rest, _ := strings.Cut(good, ".")
		payload, sig, _ := strings.Cut(rest, ".")
		_, otherRest, _ := strings.Cut(i.token(t, "RS256", "k1", map[string]any{"sub": "admin"}), ".")
		otherPayload, _, _ := strings.Cut(otherRest, ".")
		for _, tt := range []struct {
			name, token string
			want        int
		}{
			{"a good token", good, 200},
			{"several audiences", i.token(t, "RS256", "k1", map[string]any{"aud": []string{"x", "superstep"}}), 200},
			{"another audience", i.token(t, "RS256", "k1", map[string]any{"aud": "payroll"}), 401},
			{"another issuer", i.token(t, "RS256", "k1", map[string]any{"iss": "https://evil.example"}), 401},
			{"expired", i.token(t, "RS256", "k1", map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}), 401},
			{"without an end", i.token(t, "RS256", "k1", map[string]any{"exp": nil}), 401},
			{"not yet valid", i.token(t, "RS256", "k1", map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}), 401},
			{"of nobody", i.token(t, "RS256", "k1", map[string]any{"sub": nil}), 401},
			{"unsigned", i.token(t, "none", "k1", nil), 401},
			{"signed with the public key as a secret", i.token(t, "HS256", "k1", nil), 401},
			{"somebody else's claims", head + "." + otherPayload + "." + sig, 401},
			{"no signature", head + "." + payload + ".", 401},
			{"nonsense", "a.b.c", 401},
		} {
			status, _, text := c.ask(t.Context(), "POST", "/threads/search", "{}", "Authorization", "Bearer "+tt.token)
			if status != tt.want {
				t.Errorf("keys %s: %s: %d %s", name, tt.name, status, text)
			}
		}
		if u := seen.Load(); u == nil || u.ID != "u-1" || u.DisplayName != "Ada" || !slices.Equal(u.Permissions, []string{"read", "write"}) || u.Claims["tenant"] != "acme" {
			t.Errorf("keys %s: the user is %+v", name, u)
		}
	}
}

func TestAnIssuerThatChangesItsKeysIsAskedAgainButNotAtWill(t *testing.T) {
	i := newIssuer(t)
	c := start(t, server.JWT(server.JWTConfig{Issuer: i.URL, Audience: "superstep"}), server.Logger(slog.New(slog.DiscardHandler)))
	call := func(token string) int {
		status, _, _ := c.ask(t.Context(), "POST", "/threads/search", "{}", "Authorization", "Bearer "+token)
		return status
	}
	old := i.token(t, "RS256", "k1", nil)
	if got := call(old); got != 200 {
		t.Fatalf("the first token: %d", got)
	}
	i.rotate(t, "k2")
	// What was read is kept a moment after those who waited for it go on.
	waitFor(t, "a token of the new key is taken", func() bool { return call(i.token(t, "RS256", "k2", nil)) == 200 })
	waitFor(t, "a token of the old key is refused", func() bool { return call(old) == 401 })
	i.reads.Store(0)
	for n := range 50 {
		call(i.token(t, "RS256", fmt.Sprint("made-up-", n), nil))
	}
	if got := i.reads.Load(); got > 10 {
		t.Errorf("the keys were read %d times", got)
	}
}

func TestAnIssuerThatIsDownIsNotAWrongToken(t *testing.T) {
	i := newIssuer(t)
	i.down = true
	c := start(t, server.JWT(server.JWTConfig{Issuer: i.URL, Audience: "superstep"}), server.Logger(slog.New(slog.DiscardHandler)))
	status, _, text := c.ask(t.Context(), "POST", "/threads/search", "{}", "Authorization", "Bearer "+i.token(t, "RS256", "k1", nil))
	if status != 503 || strings.Contains(text, i.URL) {
		t.Errorf("%d %s", status, text)
	}
}

type informed struct {
	User        string `json:"user"`
	ID          string `json:"id"`
	Permissions string `json:"permissions"`
	UserID      string `json:"user_id"`
	Pay         string `json:"pay"`
}

// known is what the server configures of a user.
type known struct {
	User        *server.User    `json:"langgraph_auth_user"`
	ID          json.RawMessage `json:"langgraph_auth_user_id"`
	Permissions json.RawMessage `json:"langgraph_auth_permissions"`
	UserID      json.RawMessage `json:"user_id"`
}

// telling is a graph whose state is what it was configured with.
func informing(t testing.TB) *graph.Graph[informed] {
	t.Helper()
	b := graph.New[informed]("telling")
	b.AddNode("tell", func(ctx context.Context, s *informed) error {
		c, err := graph.Configured[known](ctx)
		if err != nil {
			return err
		}
		get := func(v json.RawMessage) string {
			if string(v) == "null" {
				return "nothing"
			}
			return string(v)
		}
		s.User, s.ID, s.Permissions, s.UserID = "nothing", get(c.ID), get(c.Permissions), get(c.UserID)
		if u := c.User; u != nil {
			s.User = fmt.Sprint(u.ID, " ", u.DisplayName, " ", u.Permissions, " ", u.Claims)
		}
		return nil
	})
	b.AddEdge(graph.Start, "tell")
	g, err := b.Compile(graph.Configurable(known{}))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// byHeader takes the header X-Test-User for the user. Of "ada/read,write" the
// rest are permissions.
func byHeader(r *http.Request) (*server.User, error) {
	name, may, _ := strings.Cut(r.Header.Get("X-Test-User"), "/")
	if name == "" {
		return nil, nil
	}
	u := &server.User{ID: name, DisplayName: strings.ToUpper(name), Claims: map[string]any{"tenant": "acme"}}
	if may != "" {
		u.Permissions = strings.Split(may, ",")
	}
	return u, nil
}

// spoofed is what clients may try in order to be somebody else.
const spoofed = `{"langgraph_auth_user":{"identity":"root"},"langgraph_auth_user_id":"root","langgraph_auth_permissions":["all"],"user_id":"root"}`

func TestNodesKnowTheUserWhateverClientsSay(t *testing.T) {
	c := start(t, server.Graph(informing(t)), server.Authenticate(byHeader), server.Logger(slog.New(slog.DiscardHandler)))
	who := []string{"X-Test-User", "ada/read,write"}
	want := `{"user":"ada ADA [read write] map[tenant:acme]","id":"\"ada\"","permissions":"[\"read\",\"write\"]","user_id":"\"ada\"","pay":""}`
	_, _, made := c.ask(t.Context(), "POST", "/assistants", `{"graph_id":"telling","config":{"configurable":`+spoofed+`},"context":`+spoofed+`}`, who...)
	var a struct {
		ID string `json:"assistant_id"`
	}
	if err := json.Unmarshal([]byte(made), &a); err != nil {
		t.Fatal(err, made)
	}
	for name, body := range map[string]string{
		"as it is":           `{"assistant_id":"telling"`,
		"in configurable":    `{"assistant_id":"telling","config":{"configurable":` + spoofed + `}`,
		"in context":         `{"assistant_id":"telling","context":` + spoofed,
		"in an assistant":    `{"assistant_id":"` + a.ID + `"`,
		"as request headers": `{"assistant_id":"telling","__request_headers__":` + spoofed,
	} {
		status, _, text := c.ask(t.Context(), "POST", "/runs/wait", body+`,"input":{}}`, who...)
		if status != 200 || strings.TrimSpace(text) != want {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
}

func TestWithoutAuthenticationNobodyIsAUser(t *testing.T) {
	c := start(t, server.Graph(informing(t)))
	_, _, text := c.ask(t.Context(), "POST", "/runs/wait", `{"assistant_id":"telling","input":{},"config":{"configurable":`+spoofed+`}}`)
	if want := `{"user":"nothing","id":"nothing","permissions":"nothing","user_id":"\"root\"","pay":""}`; strings.TrimSpace(text) != want {
		t.Errorf("%s", text)
	}
}

func TestARunOfACronIsItsUsers(t *testing.T) {
	c := start(t, server.Graph(informing(t)), server.Authenticate(byHeader), server.Authorize(server.OwnedByUser()), server.Logger(slog.New(slog.DiscardHandler)))
	ada := visitor{c, "ada"}
	cron := ada.json("POST", "/runs/crons", `{"assistant_id":"telling","schedule":"@every 1s","input":{},"on_run_completed":"keep","config":{"configurable":`+spoofed+`},"__request_headers__":`+spoofed+`}`).(object)
	if cron["user_id"] != "ada" || cron["user"] != nil {
		t.Errorf("the cron: %v", cron)
	}
	for {
		list := ada.json("POST", "/threads/search", `{"status":"idle"}`).([]any)
		if len(list) == 0 {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		if values, ok := list[0].(object)["values"].(object); ok { // else the run is still to begin
			if values["user_id"] != `"ada"` || values["id"] != `"ada"` {
				t.Errorf("its run knows %v", values)
			}
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if list := (visitor{c, "bob"}).json("POST", "/threads/search", `{}`).([]any); len(list) > 0 {
		t.Errorf("somebody else sees the thread: %v", list)
	}
}

// visitor is a client that is a user.
type visitor struct {
	client
	user string
}

func (v visitor) send(method, path, body string) (int, string) {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.t.Context(), 20*time.Second)
	defer cancel()
	status, _, text := v.ask(ctx, method, path, body, "X-Test-User", v.user)
	return status, text
}

// json is send for what must succeed.
func (v visitor) json(method, path, body string) any {
	v.t.Helper()
	status, text := v.send(method, path, body)
	if status >= 300 {
		v.t.Fatalf("%s: %s %s: %d %s", v.user, method, path, status, text)
	}
	if status == 204 || status == 202 {
		return nil
	}
	var out any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		v.t.Fatalf("%s: %s %s: %v: %s", v.user, method, path, err, text)
	}
	return out
}

// world is what a user has.
type world struct {
	visitor
	thread, run, assistant, cron, checkpoint, question string
}

// secret stands in all that a user has.
const secret = "the-secret-of-"

func settle(t testing.TB, v visitor) world {
	t.Helper()
	s := secret + v.user
	w := world{visitor: v}
	w.assistant = v.json("POST", "/assistants", `{"graph_id":"booking","name":"`+s+`","config":{"configurable":{"x":"`+s+`"}},"metadata":{"x":"`+s+`"}}`).(object)["assistant_id"].(string)
	w.thread = v.json("POST", "/threads", `{"metadata":{"x":"`+s+`"}}`).(object)["thread_id"].(string)
	v.json("POST", "/threads/"+w.thread+"/runs/wait", `{"assistant_id":"`+w.assistant+`","input":{"city":"`+s+`"},"metadata":{"x":"`+s+`"}}`)
	runs := v.json("GET", "/threads/"+w.thread+"/runs", "").([]any)
	w.run = runs[0].(object)["run_id"].(string)
	state := v.json("GET", "/threads/"+w.thread+"/state", "").(object)
	w.checkpoint = state["checkpoint"].(object)["checkpoint_id"].(string)
	w.question = state["interrupts"].([]any)[0].(object)["id"].(string)
	w.cron = v.json("POST", "/threads/"+w.thread+"/runs/crons", `{"assistant_id":"`+w.assistant+`","schedule":"0 0 1 1 *","input":{"city":"`+s+`"},"metadata":{"x":"`+s+`"}}`).(object)["cron_id"].(string)
	v.json("PUT", "/store/items", `{"namespace":["notes"],"key":"k","value":{"x":"`+s+`"}}`)
	return w
}

// all is everything that a user has, as the user sees it.
func (w world) all() string {
	w.t.Helper()
	var out []string
	for _, one := range [][3]string{
		{"GET", "/assistants/" + w.assistant}, {"POST", "/assistants/" + w.assistant + "/versions", "{}"}, {"POST", "/assistants/search", "{}"},
		{"GET", "/threads/" + w.thread}, {"POST", "/threads/" + w.thread + "/history", "{}"}, {"GET", "/threads/" + w.thread + "/runs"},
		{"POST", "/threads/search", "{}"}, {"POST", "/threads/count", "{}"}, {"POST", "/runs/crons/search", "{}"},
		{"POST", "/runs/search", "{}"}, {"POST", "/runs/figures", `{"bucket_seconds":1e9}`},
		{"GET", "/state/u-1"}, {"GET", "/store/items?namespace=notes&key=k"}, {"POST", "/store/items/search", `{"namespace_prefix":[]}`}, {"POST", "/store/namespaces", "{}"},
	} {
		status, text := w.send(one[0], one[1], one[2])
		out = append(out, fmt.Sprint(one[0], " ", one[1], ": ", status, " ", strings.TrimSpace(text)))
	}
	return strings.Join(out, "\n")
}

// ids are names of path values and what they are.
type ids map[string]string

// fill puts IDs into a path.
func fill(path string, of ids) string {
	for _, name := range []string{"thread", "run", "assistant", "cron", "checkpoint", "namespace", "user_id"} {
		id := of[name]
		if id == "" {
			id = "0198f1c2-0000-7000-8000-000000000000"
		}
		path = strings.ReplaceAll(path, "{"+name+"}", id)
	}
	return path
}

// bodies are what somebody else may send to any route in order to reach what a
// user has.
func (w world) bodies() []string {
	whole := object{
		"assistant_id": w.assistant, "thread_id": w.thread, "thread_ids": []string{w.thread}, "ids": []string{w.thread}, "run_ids": []string{w.run},
		"graph_id": "booking", "if_exists": "do_nothing", "if_not_exists": "create", "strategy": "delete", "status": "all",
		"namespace": []string{"notes"}, "namespace_prefix": []string{}, "prefix": []string{}, "key": "k", "value": object{"x": "mine"},
		"metadata": object{"owner": "bob", "x": "mine"}, "values": object{"city": "mine"}, "input": object{"city": "mine"}, "version": 1,
		"checkpoint": object{"checkpoint_id": w.checkpoint, "thread_id": w.thread}, "schedule": "0 0 1 1 *", "name": "mine", "bucket_seconds": 1e9,
		"channels": []string{"values", "updates", "lifecycle", "messages", "checkpoints", "tasks", "input"}, "on_completion": "keep",
	}
	with := func(more object) string {
		all := object{}
		for k, v := range whole {
			all[k] = v
		}
		for k, v := range more {
			all[k] = v
			if v == nil {
				delete(all, k)
			}
		}
		data, _ := json.Marshal(all)
		return string(data)
	}
	out := []string{
		with(nil), "[" + with(nil) + "]", "{}", "",
		with(object{"assistant_id": "booking"}), "[" + with(object{"assistant_id": "booking"}) + "]",
		with(object{"metadata": nil, "ids": nil, "status": nil, "values": nil, "assistant_id": nil, "thread_id": nil, "graph_id": nil, "name": nil}),
		with(object{"metadata": object{"owner": w.user}, "status": nil, "values": nil, "namespace": []string{w.user, "notes"}, "namespace_prefix": []string{w.user}, "prefix": []string{w.user}}),
		`{"user_id":"u-1","message":"mine","message_id":"m-1"}`, `{"message":"mine"}`,
		`{"model":"booking","messages":[{"role":"user","content":"mine"}],"metadata":{"thread_id":"` + w.thread + `"}}`, `{"model":"` + w.assistant + `","messages":[{"role":"user","content":"mine"}]}`,
		`{"model":"booking","messages":[{"role":"tool","tool_call_id":"` + server.CallID(w.thread, w.question) + `","content":"yes"}]}`,
		`{"threadId":"` + w.thread + `","runId":"r","messages":[{"id":"m","role":"user","content":"mine"}],"state":{"city":"mine"}}`,
		`{"threadId":"` + w.thread + `","runId":"r","messages":[],"resume":[{"interruptId":"` + w.question + `","status":"resolved","payload":true}]}`,
		`{"model":"booking","input":"mine","conversation":"` + w.thread + `"}`, `{"model":"booking","input":"mine","previous_response_id":"resp_` + w.run + `"}`,
		with(object{"namespace": []string{"..", w.user, "notes"}, "status": "pending", "strategy": "keep_latest"}),
	}
	for method, params := range map[string]object{
		"run.start": {"assistant_id": "booking", "input": object{"city": "mine"}}, "input.respond": {"interrupt_id": "x", "response": true},
		"state.get": {}, "state.listCheckpoints": {}, "state.fork": {"checkpoint_id": w.checkpoint, "assistant_id": "booking"}, "agent.getTree": {},
	} {
		data, _ := json.Marshal(object{"id": 1, "method": method, "params": params})
		out = append(out, string(data))
	}
	return out
}

// The walk goes over all routes that there are, so that a new one is walked too.
func TestNobodyReadsOrChangesWhatIsSomebodyElsesByAnyRoute(t *testing.T) {
	s, h, c := begun(t, server.Graph(booking(t)), server.Dialogue(new(boxOffice).assistant(t)), server.Authenticate(byHeader), server.Authorize(server.OwnedByUser()), server.Logger(slog.New(slog.DiscardHandler)))
	defer s.Close(context.Background())
	defer h.Close()
	alice := settle(t, visitor{c, "alice"})
	alice.json("POST", "/chat", `{"user_id":"u-1","message":"`+secret+`alice"}`)
	before := alice.all()
	if n := strings.Count(before, secret); n < 12 {
		t.Fatalf("alice's secret is only in %d places:\n%s", n, before)
	}
	queries := []string{"", "?namespace=notes&key=k&delete_threads=true&action=rollback&wait=0&include=values", "?namespace=alice.notes&key=k"}
	for _, pattern := range server.Routes(s) {
		method, path, _ := strings.Cut(pattern, " ")
		path = fill(path, ids{"thread": alice.thread, "run": alice.run, "assistant": alice.assistant, "cron": alice.cron, "checkpoint": alice.checkpoint, "namespace": "x", "user_id": "u-1"})
		bodies := alice.bodies()
		if method == "GET" {
			bodies = []string{"", "{}"}
		}
		for i, body := range bodies {
			for j, query := range queries {
				if underRace && i > 0 && j != i%len(queries) {
					continue
				}
				// A stream that isn't refused stays open.
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				r := httptest.NewRequest(method, path+query, strings.NewReader(body)).WithContext(ctx)
				r.Header.Set("X-Test-User", "bob")
				w := httptest.NewRecorder()
				s.ServeHTTP(w, r)
				if ctx.Err() != nil {
					t.Errorf("%s%s is open to somebody else", pattern, query)
				}
				cancel()
				if w.Code >= 500 {
					t.Errorf("%s%s with %s: %d %s", pattern, query, body, w.Code, w.Body)
				}
				if text := w.Body.String(); strings.Contains(text, secret+"alice") || strings.Contains(text, `"alice"`) {
					t.Errorf("%s%s with %s shows somebody else's: %d %s", pattern, query, body, w.Code, text)
				}
				named := strings.Contains(pattern, "{thread}") || strings.Contains(pattern, "{run}") || strings.Contains(pattern, "{assistant}") || strings.Contains(pattern, "{cron}")
				missing := strings.HasSuffix(pattern, "/runs/{run}/stream") && strings.HasPrefix(w.Body.String(), "event: error\ndata: {\"error\":\"NotFound\"")
				if named && !missing && w.Code != 404 && w.Code != 409 && w.Code != 422 && w.Code != 400 && w.Code != 426 {
					t.Errorf("%s%s with %s: %d %s", pattern, query, body, w.Code, w.Body)
				}
			}
		}
		if method == "GET" {
			continue
		}
		if after := alice.all(); after != before {
			t.Fatalf("%s has changed what is alice's:\n%s\nwas\n%s", pattern, after, before)
		}
	}
}

func TestTheAnswerForSomebodyElsesIsTheSameAsForNothing(t *testing.T) {
	c := start(t, server.Graph(booking(t)), server.Authenticate(byHeader), server.Authorize(server.OwnedByUser()), server.Logger(slog.New(slog.DiscardHandler)))
	alice := settle(t, visitor{c, "alice"})
	bob := visitor{c, "bob"}
	const none = "0198f1c2-0000-7000-8000-000000000000"
	for _, one := range [][3]string{
		{"GET", "/threads/{thread}", ""}, {"PATCH", "/threads/{thread}", "{}"}, {"DELETE", "/threads/{thread}", ""}, {"GET", "/threads/{thread}/state", ""},
		{"POST", "/threads/{thread}/copy", ""}, {"GET", "/threads/{thread}/runs/{run}", ""}, {"POST", "/threads/{thread}/runs/{run}/cancel", ""}, {"GET", "/runs/{run}/join", ""},
		{"POST", "/threads/{thread}/runs", `{"assistant_id":"booking","input":{}}`}, {"POST", "/threads/{thread}/runs/wait", `{"assistant_id":"booking","input":{}}`},
		{"GET", "/assistants/{assistant}", ""}, {"PATCH", "/assistants/{assistant}", "{}"}, {"DELETE", "/assistants/{assistant}", ""}, {"POST", "/assistants/{assistant}/latest", `{"version":1}`},
		{"PATCH", "/runs/crons/{cron}", "{}"}, {"DELETE", "/runs/crons/{cron}", ""},
		{"POST", "/runs", `{"assistant_id":"{assistant}"}`},
	} {
		at := func(of ids) string {
			status, text := bob.send(one[0], fill(one[1], of), fill(one[2], of))
			for _, id := range of {
				text = strings.ReplaceAll(text, id, "ID")
			}
			return fmt.Sprint(status, " ", text)
		}
		foreign := at(ids{"thread": alice.thread, "run": alice.run, "assistant": alice.assistant, "cron": alice.cron})
		if nothing := at(ids{"thread": none, "run": none, "assistant": none, "cron": none}); foreign != nothing || !strings.HasPrefix(foreign, "404 ") {
			t.Errorf("%s %s: %q, and for nothing %q", one[0], one[1], foreign, nothing)
		}
	}
	for _, one := range [][3]string{ // what would exist already
		{"POST", "/threads", `{"thread_id":"` + alice.thread + `","if_exists":"do_nothing"}`},
		{"POST", "/assistants", `{"graph_id":"booking","assistant_id":"` + alice.assistant + `","if_exists":"do_nothing"}`},
	} {
		if status, text := bob.send(one[0], one[1], one[2]); status != 409 {
			t.Errorf("%s %s: %d %s", one[0], one[1], status, text)
		}
	}
	if n := bob.json("POST", "/threads/count", "{}"); n != 0.0 {
		t.Errorf("bob counts %v threads", n)
	}
	if list := bob.json("POST", "/assistants/search", "{}").([]any); len(list) != 0 {
		t.Errorf("bob sees the assistants %v", list)
	}
	if list := bob.json("POST", "/store/namespaces", "{}").(object)["namespaces"].([]any); len(list) != 0 {
		t.Errorf("bob sees the namespaces %v", list)
	}
}

// Clients that join a run's stream read an error of it, which says no more of somebody
// else's run than of none.
func TestARunThatIsNotTheUsersIsAnErrorOfItsStream(t *testing.T) {
	c := start(t, server.Graph(booking(t)), server.Authenticate(byHeader), server.Authorize(server.OwnedByUser()), server.Logger(slog.New(slog.DiscardHandler)))
	alice := settle(t, visitor{c, "alice"})
	const none = "0198f1c2-0000-7000-8000-000000000000"
	for _, tt := range []struct{ thread, run, what string }{
		{alice.thread, alice.run, "Thread with ID " + alice.thread}, {none, none, "Thread with ID " + none}, {"", alice.run, "Run"}, {"", none, "Run"},
	} {
		path := "/runs/" + tt.run + "/stream"
		if tt.thread != "" {
			path = "/threads/" + tt.thread + path
		}
		status, header, text := c.ask(t.Context(), "GET", path, "", "X-Test-User", "bob")
		want := `event: error
data: {"error":"NotFound","message":"404: ` + tt.what + ` not found"}

`
		if status != 200 || header.Get("Content-Type") != "text/event-stream" || text != want {
			t.Errorf("%s: %d %q", path, status, text)
		}
		if status, _, text := c.ask(t.Context(), "GET", path, "", "X-Test-User", "bob", "Prefer", "handling=strict"); status != 404 || text != tt.what+" not found\n" {
			t.Errorf("%s, to a strict client: %d %q", path, status, text)
		}
		if status, _, text := c.ask(t.Context(), "GET", path, ""); status != 401 {
			t.Errorf("%s, to nobody: %d %q", path, status, text)
		}
	}
}

func TestAnOwnerStaysTheOwner(t *testing.T) {
	c := start(t, server.Graph(booking(t)), server.Authenticate(byHeader), server.Authorize(server.OwnedByUser()), server.Logger(slog.New(slog.DiscardHandler)))
	alice := settle(t, visitor{c, "alice"})
	for _, one := range [][3]string{
		{"POST", "/threads", `{"metadata":{"owner":"bob"}}`},
		{"PATCH", "/threads/" + alice.thread, `{"metadata":{"owner":"bob"}}`},
		{"PATCH", "/threads/" + alice.thread + "/state", `{"metadata":{"owner":null}}`},
		{"POST", "/threads/" + alice.thread + "/copy", ""},
		{"POST", "/assistants", `{"graph_id":"booking","metadata":{"owner":"bob"}}`},
		{"PATCH", "/assistants/" + alice.assistant, `{"metadata":{"owner":"bob","created_by":"system"}}`},
		{"POST", "/runs/crons", `{"assistant_id":"booking","schedule":"0 0 1 1 *","metadata":{"owner":"bob"}}`},
		{"PATCH", "/runs/crons/" + alice.cron, `{"metadata":{"owner":["bob"]}}`},
		{"PATCH", "/runs/crons/" + alice.cron, `{"schedule":"0 1 1 1 *"}`},
	} {
		got := alice.json(one[0], one[1], one[2]).(object)["metadata"].(object)["owner"]
		if got != "alice" {
			t.Errorf("%s %s: the owner is %v", one[0], one[1], got)
		}
	}
	alice.json("POST", "/runs/wait", `{"assistant_id":"booking","input":{},"on_completion":"keep","metadata":{"owner":"alice"}}`)
	alice.json("POST", "/threads/0198f1c2-0000-7000-8000-0000000000aa/runs/wait", `{"assistant_id":"booking","input":{},"if_not_exists":"create"}`)
	if n := alice.json("POST", "/threads/count", `{"metadata":{"owner":"alice"}}`); n != 5.0 {
		t.Errorf("alice has %v threads", n)
	}
	if n := (visitor{c, "bob"}).json("POST", "/threads/count", `{}`); n != 0.0 {
		t.Errorf("bob has %v threads", n)
	}
}

func TestWhatIsDoneToManyIsDoneToOnesOwn(t *testing.T) {
	c := start(t, server.Graph(slow(t)), server.Graph(booking(t)), server.Authenticate(byHeader), server.Authorize(server.OwnedByUser()), server.Logger(slog.New(slog.DiscardHandler)))
	alice, bob := visitor{c, "alice"}, visitor{c, "bob"}
	running := func(v visitor) (thread, run string) {
		thread = v.json("POST", "/threads", "{}").(object)["thread_id"].(string)
		return thread, v.json("POST", "/threads/"+thread+"/runs", `{"assistant_id":"slow","input":{"todo":500}}`).(object)["run_id"].(string)
	}
	at, ar := running(alice)
	bt, br := running(bob)
	bob.json("POST", "/runs/cancel", `{"status":"all"}`)
	if status, _ := bob.send("POST", "/runs/cancel", `{"run_ids":["`+ar+`"]}`); status != 404 {
		t.Errorf("cancelling alice's run: %d", status)
	}
	if got := bob.json("POST", "/threads/prune", `{"thread_ids":["`+at+`","`+bt+`"]}`).(object)["pruned_count"]; got != 1.0 {
		t.Errorf("bob pruned %v threads", got)
	}
	if status, _ := bob.send("GET", "/threads/"+bt+"/runs/"+br, ""); status != 404 {
		t.Errorf("bob's run: %d", status)
	}
	if got := alice.json("GET", "/threads/"+at+"/runs/"+ar, "").(object)["status"]; got != "pending" && got != "running" {
		t.Errorf("alice's run is %v", got)
	}
	alice.json("POST", "/threads/"+at+"/runs/"+ar+"/cancel?wait=1", "")
}

func TestUsersHaveTheirOwnStore(t *testing.T) {
	c := start(t, server.Authenticate(byHeader), server.Authorize(server.OwnedByUser()), server.Logger(slog.New(slog.DiscardHandler)))
	ada, eve, ana := visitor{c, "ada@lab.example"}, visitor{c, "eve"}, visitor{c, "ada@lab%2Eexample"}
	for i, v := range []visitor{ada, eve, ana} {
		v.json("PUT", "/store/items", fmt.Sprintf(`{"namespace":["notes","a"],"key":"k","value":{"n":%d}}`, i))
	}
	for i, v := range []visitor{ada, eve, ana} {
		item := v.json("GET", "/store/items?namespace=notes.a&key=k", "").(object)
		if got := fmt.Sprint(item["namespace"], item["value"]); got != fmt.Sprintf("[notes a] map[n:%d]", i) {
			t.Errorf("%s has %s", v.user, got)
		}
		found := v.json("POST", "/store/items/search", `{"namespace_prefix":[]}`).(object)["items"].([]any)
		if len(found) != 1 || fmt.Sprint(found[0].(object)["namespace"]) != "[notes a]" {
			t.Errorf("%s finds %v", v.user, found)
		}
		for body, want := range map[string]string{`{}`: "[[notes a]]", `{"max_depth":1}`: "[[notes]]", `{"prefix":["notes"]}`: "[[notes a]]", `{"suffix":["a"]}`: "[[notes a]]"} {
			if got := fmt.Sprint(v.json("POST", "/store/namespaces", body).(object)["namespaces"]); got != want {
				t.Errorf("%s has the namespaces %s", v.user, got)
			}
		}
	}
	for _, prefix := range []string{`["ada@lab%2Eexample"]`, `["ada@lab%2Eexample","notes"]`, `["ada@lab%252Eexample"]`} {
		if found := eve.json("POST", "/store/items/search", `{"namespace_prefix":`+prefix+`}`).(object)["items"].([]any); len(found) != 0 {
			t.Errorf("eve finds %v", found)
		}
	}
	eve.json("DELETE", "/store/items", `{"namespace":["notes","a"],"key":"k"}`)
	if ada.json("GET", "/store/items?namespace=notes.a&key=k", "") == nil {
		t.Error("eve deleted ada's item")
	}
	if got := server.NamespaceLabel("ada@lab.example"); got != "ada@lab%2Eexample" {
		t.Errorf("the label is %s", got)
	}
}

// As on LangGraph's server: who looks for assistants finds those that the filter is for.
func TestSearchesShowTheGraphsOwnAssistantsToWhoAsksForThem(t *testing.T) {
	c := start(t, server.Graph(booking(t)), server.Authenticate(byHeader), server.Authorize(server.OwnedByUser()), quiet())
	ada := visitor{c, "ada"}
	ada.json("POST", "/assistants", `{"graph_id":"booking","name":"mine"}`)
	for body, want := range map[string]string{
		`{"graph_id":"booking"}`:                 "mine",
		`{}`:                                     "mine",
		`{"metadata":{"created_by":"system"}}`:   "booking",
		`{"metadata":{"created_by":"somebody"}}`: "",
	} {
		var names []string
		for _, a := range ada.json("POST", "/assistants/search", body).([]any) {
			names = append(names, a.(object)["name"].(string))
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s finds %q", body, got)
		}
		if got := ada.json("POST", "/assistants/count", body); got != float64(len(names)) {
			t.Errorf("%s counts %v", body, got)
		}
	}
	if got := ada.json("GET", "/assistants/booking", "").(object)["name"]; got != "booking" {
		t.Errorf("by its name it is %v", got)
	}
}

func TestAnAuthoriserNarrowsASearchOfTheStore(t *testing.T) {
	c := start(t, server.Authenticate(byHeader), quiet(), server.Authorize(func(_ context.Context, u *server.User, a *server.Action) (server.Filter, error) {
		if a.Resource == server.Store && a.Verb == server.Search && len(a.Namespace) == 0 {
			a.Namespace = []string{u.ID}
		}
		return server.Filter{}, nil
	}))
	ada, eve := visitor{c, "ada"}, visitor{c, "eve"}
	for _, v := range []visitor{ada, eve} {
		v.json("PUT", "/store/items", `{"namespace":["`+v.user+`","notes"],"key":"k","value":{}}`)
	}
	for _, v := range []visitor{ada, eve} {
		found := v.json("POST", "/store/items/search", `{}`).(object)["items"].([]any)
		if want := "[" + v.user + " notes]"; len(found) != 1 || fmt.Sprint(found[0].(object)["namespace"]) != want {
			t.Errorf("%s finds %v", v.user, found)
		}
		if got := fmt.Sprint(v.json("POST", "/store/namespaces", `{}`).(object)["namespaces"]); got != "[["+v.user+" notes]]" {
			t.Errorf("%s has the namespaces %s", v.user, got)
		}
	}
	if found := ada.json("POST", "/store/items/search", `{"namespace_prefix":["eve"]}`).(object)["items"].([]any); len(found) != 1 {
		t.Errorf("what she names she is let see: %v", found)
	}
}

func TestAFilterSelectsByMetadata(t *testing.T) {
	var filter atomic.Pointer[server.Filter]
	filter.Store(&server.Filter{})
	c := start(t, server.APIKeys(newKey), server.Authorize(func(context.Context, *server.User, *server.Action) (server.Filter, error) {
		return *filter.Load(), nil
	}), server.Logger(slog.New(slog.DiscardHandler)))
	for i, m := range []string{`{}`, `{"owner":"ada"}`, `{"owner":["bob","ada"],"team":"x"}`, `{"owner":"bob","team":["x"],"color":"red"}`, `{"owner":{"ada":"ada"},"n":1}`, `{"owner":null}`} {
		id := fmt.Sprintf("0198f1c2-0000-7000-8000-00000000000%d", i)
		if status, _, text := c.ask(t.Context(), "POST", "/threads", `{"thread_id":"`+id+`","metadata":`+m+`}`, "X-Api-Key", newKey); status != 200 {
			t.Fatal(status, text)
		}
	}
	mine, ours, red := server.Where("owner", "ada"), server.Where("team", "x"), server.Where("color", "red")
	for name, tt := range map[string]struct {
		filter server.Filter
		want   string // the metadata below that are selected, by number
	}{
		"nothing said":    {server.Filter{}, "[0 1 2 3 4 5]"},
		"one":             {mine, "[1 2]"},
		"both":            {mine.And(ours), "[2]"},
		"either":          {mine.Or(ours), "[1 2 3]"},
		"either and":      {mine.Or(ours).And(red), "[3]"},
		"all and one":     {server.Filter{}.And(red), "[3]"},
		"all or one":      {red.Or(server.Filter{}), "[0 1 2 3 4 5]"},
		"an empty text":   {server.Where("owner", ""), "[]"},
		"what isn't text": {server.Where("n", "1"), "[]"},
	} {
		filter.Store(&tt.filter)
		_, _, text := c.ask(t.Context(), "POST", "/threads/search", `{"sort_by":"thread_id","sort_order":"asc"}`, "X-Api-Key", newKey)
		var list []struct {
			ID string `json:"thread_id"`
		}
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatal(err, text)
		}
		got := []int{}
		for _, one := range list {
			got = append(got, int(one.ID[len(one.ID)-1]-'0'))
		}
		if fmt.Sprint(got) != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestAnAuthoriserForbids(t *testing.T) {
	var log bytes.Buffer
	decide := func(_ context.Context, u *server.User, a *server.Action) (server.Filter, error) {
		switch {
		case a.Resource == server.Threads && a.Verb == server.Delete:
			return server.Filter{}, fmt.Errorf("%w: only administrators delete threads", server.ErrForbidden)
		case a.Resource == server.Assistants && a.Verb == server.Create:
			return server.Filter{}, errors.New("dial tcp 10.0.0.7: refused")
		case a.Resource == server.Threads && a.Verb == server.Create && a.Metadata["team"] == nil:
			return server.Filter{}, fmt.Errorf("%w: say which team", server.ErrForbidden)
		}
		return server.Where("team", "x"), nil
	}
	c := start(t, server.Graph(booking(t)), server.Authenticate(byHeader), server.Authorize(decide), server.Logger(slog.New(slog.NewTextHandler(&log, nil))))
	v := visitor{c, "ada"}
	thread := v.json("POST", "/threads", `{"metadata":{"team":"x"}}`).(object)["thread_id"].(string)
	for _, tt := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"DELETE", "/threads/" + thread, "", 403, "only administrators"},
		{"POST", "/threads", "{}", 403, "say which team"},
		{"POST", "/threads", `{"metadata":{"team":"y"}}`, 403, "somebody else's"},
		{"PATCH", "/threads/" + thread, `{"metadata":{"team":"y"}}`, 403, "somebody else's"},
		{"POST", "/assistants", `{"graph_id":"booking"}`, 403, "forbidden\n"},
		{"GET", "/store/items?namespace=a&key=k", "", 403, "forbidden"}, // the filter is of no use there
		{"POST", "/store/items/search", `{}`, 403, "forbidden"},
		{"GET", "/metrics", "", 403, "forbidden"},
		{"GET", "/threads/" + thread, "", 200, ""},
	} {
		status, text := v.send(tt.method, tt.path, tt.body)
		if status != tt.status || !strings.Contains(text, tt.says) || strings.Contains(text, "10.0.0.7") {
			t.Errorf("%s %s %s: %d %s", tt.method, tt.path, tt.body, status, text)
		}
	}
}

// Whoever waits for the events of a thread that isn't there yet doesn't get those
// of one that somebody else makes.
func TestAStreamThatWaitsForAThreadIsNotForSomebodyElses(t *testing.T) {
	c := start(t, server.Graph(booking(t)), server.Authenticate(byHeader), server.Authorize(server.OwnedByUser()), server.Logger(slog.New(slog.DiscardHandler)))
	const thread = "0198f1c2-0000-7000-8000-0000000000bb"
	read := func(user string) (<-chan string, context.CancelFunc) {
		ctx, cancel := context.WithCancel(t.Context())
		r, _ := http.NewRequestWithContext(ctx, "POST", c.url+"/threads/"+thread+"/stream/events", strings.NewReader(`{"channels":["values","lifecycle"]}`))
		r.Header.Set("X-Test-User", user)
		answer, err := http.DefaultClient.Do(r)
		if err != nil || answer.StatusCode != 200 {
			t.Fatal(err, answer)
		}
		lines := make(chan string, 100)
		go func() {
			defer answer.Body.Close()
			defer close(lines)
			for in := bufio.NewScanner(answer.Body); in.Scan(); {
				if strings.HasPrefix(in.Text(), "event:") {
					lines <- in.Text()
				}
			}
		}()
		return lines, cancel
	}
	bobs, stopBob := read("bob")
	alices, stopAlice := read("alice")
	(visitor{c, "alice"}).json("POST", "/threads/"+thread+"/commands", `{"id":1,"method":"run.start","params":{"assistant_id":"booking","input":{"city":"Ulm"}}}`)
	for n := 0; n < 4; n++ {
		if line, ok := <-alices; !ok {
			t.Fatal("alice's stream ended: " + line)
		}
	}
	stopBob()
	stopAlice()
	for line := range bobs {
		t.Errorf("bob got %s", line)
	}
}

// logged collects what is logged.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestEveryChangeIsLoggedAndNoSecretIs(t *testing.T) {
	var audit, log logged
	handler := func(w io.Writer) *slog.Logger {
		return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == "time" || a.Key == "level" || a.Key == "from" {
				return slog.Attr{}
			}
			return a
		}}))
	}
	c := start(t, server.Graph(booking(t)), server.Authenticate(byHeader), server.APIKeys(oldKey), server.Authorize(server.OwnedByUser()), server.Audit(handler(&audit)), server.Logger(handler(&log)))
	alice, bob := visitor{c, "alice"}, visitor{c, "bob"}
	const thread = "0198f1c2-0000-7000-8000-000000000001"
	const hidden = "do-not-log-me"
	alice.json("POST", "/threads", `{"thread_id":"`+thread+`","metadata":{"x":"`+hidden+`"}}`)
	alice.json("GET", "/threads/"+thread, "")
	alice.json("POST", "/threads/search", "{}")
	run := alice.json("POST", "/threads/"+thread+"/runs", `{"assistant_id":"booking","input":{"city":"`+hidden+`"}}`).(object)["run_id"].(string)
	alice.json("GET", "/threads/"+thread+"/runs/"+run+"/join", "")
	alice.json("POST", "/threads/"+thread+"/commands", `{"id":1,"method":"input.respond","params":{"interrupt_id":"`+hidden+`","response":"`+hidden+`"}}`)
	bob.send("DELETE", "/threads/"+thread, "")
	bob.send("PATCH", "/assistants/"+hidden, "{}")
	c.ask(t.Context(), "DELETE", "/threads/"+thread, "", "X-Api-Key", hidden, "Authorization", "Bearer "+hidden+".a.b")
	c.ask(t.Context(), "GET", "/threads/"+thread, "", "X-Api-Key", hidden)
	c.ask(t.Context(), "POST", "/store/items?token="+hidden, `{"value":"`+hidden, "X-Api-Key", oldKey)
	c.ask(t.Context(), "PUT", "/store/items?token="+hidden, `{"value":"`+hidden, "X-Api-Key", oldKey)
	alice.json("PUT", "/store/items", `{"namespace":["`+hidden+`"],"key":"`+hidden+`","value":{}}`)
	alice.json("DELETE", "/threads/"+thread, "")
	want := strings.ReplaceAll(strings.ReplaceAll(`msg=audit user=alice resource=threads verb=create route="POST /threads" status=200 thread=THREAD
msg=audit user=alice resource=runs verb=create_run route="POST /threads/{thread}/runs" status=200 thread=THREAD run=RUN
msg=audit user=alice resource=runs verb=create_run route="POST /threads/{thread}/commands" command=input.respond status=200 error=no_such_interrupt thread=THREAD
msg=audit user=bob resource=threads verb=delete route="DELETE /threads/{thread}" status=404 thread=THREAD
msg=audit user=bob resource=assistants verb=update route="PATCH /assistants/{assistant}" status=404 assistant=invalid
msg=audit user="" resource=threads verb=delete route="DELETE /threads/{thread}" status=401 error=wrong_credentials thread=THREAD
msg=audit user="" resource=threads verb=read route="GET /threads/{thread}" status=401 error=wrong_credentials thread=THREAD
msg=audit user=api-key resource=store verb=update route="PUT /store/items" status=400
msg=audit user=alice resource=store verb=update route="PUT /store/items" status=204
msg=audit user=alice resource=threads verb=delete route="DELETE /threads/{thread}" status=204 thread=THREAD
`, "THREAD", thread), "RUN", run)
	// The last record is written after its answer.
	for !strings.HasSuffix(audit.String(), want[strings.LastIndex(want[:len(want)-1], "\n")+1:]) {
		time.Sleep(time.Millisecond)
	}
	if got := audit.String(); got != want {
		t.Errorf("the log:\n%s\nwant\n%s", got, want)
	}
	for _, s := range []string{hidden, oldKey} {
		if strings.Contains(audit.String()+log.String(), s) {
			t.Errorf("%s is logged:\n%s\n%s", s, audit.String(), log.String())
		}
	}
}
