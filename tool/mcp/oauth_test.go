package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/superstep-dev/superstep/tool/mcp"
)

// guard is a server that lets in whoever has a token that it gave out and that is not
// used up, and gives out tokens.
type guard struct {
	url           string
	mu            sync.Mutex
	logins, given int
	good          string // token
	lasts         int    // seconds
}

func guarded(t *testing.T) *guard {
	g := &guard{lasts: 3600}
	m := http.NewServeMux()
	says := func(path string, v func() any) {
		m.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(v())
		})
	}
	says("/.well-known/oauth-protected-resource/mcp", func() any {
		return map[string]any{"resource": g.url + "/mcp", "authorization_servers": []string{g.url}}
	})
	says("/.well-known/oauth-authorization-server", func() any {
		return map[string]any{
			"issuer": g.url, "authorization_endpoint": g.url + "/authorize", "token_endpoint": g.url + "/token",
			"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"},
			"token_endpoint_auth_methods_supported": []string{"client_secret_post"},
		}
	})
	m.HandleFunc("/authorize", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		http.Redirect(w, r, q.Get("redirect_uri")+"?code=c&state="+url.QueryEscape(q.Get("state")), http.StatusFound)
	})
	m.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		refuse := func(status int, why string) {
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"error":%q}`, why)
		}
		switch {
		case r.FormValue("client_id") != "me" || r.FormValue("client_secret") != "hush":
			refuse(http.StatusUnauthorized, "invalid_client")
			return
		case r.FormValue("grant_type") == "authorization_code" && r.FormValue("code") == "c":
			g.logins++
		case r.FormValue("grant_type") != "refresh_token" || r.FormValue("refresh_token") != fmt.Sprint("r", g.given):
			refuse(http.StatusBadRequest, "invalid_grant")
			return
		}
		g.given++
		g.good = fmt.Sprint("t", g.given)
		fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":%d,"refresh_token":"r%d"}`, g.good, g.lasts, g.given)
	})
	box := closing(t, toolbox().server)
	let := auth.RequireBearerToken(func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if token != g.good {
			return nil, auth.ErrInvalidToken
		}
		return &auth.TokenInfo{Expiration: time.Now().Add(time.Hour)}, nil
	}, nil)
	m.Handle("/mcp", let(box.Handler()))
	s := httptest.NewServer(m)
	t.Cleanup(s.Close)
	g.url = s.URL
	return g
}

// vault keeps tokens in memory.
type vault struct {
	mu   sync.Mutex
	kept map[string][]byte
	fail error
}

func (v *vault) Load(_ context.Context, server string) ([]byte, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.kept[server], v.fail
}

func (v *vault) Save(_ context.Context, server string, data []byte) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.kept == nil {
		v.kept = map[string][]byte{}
	}
	v.kept[server] = data
	return v.fail
}

// login returns a client that is to log in, and closes it.
func login(t *testing.T, g *guard, tokens mcp.Tokens) error {
	t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	cfg := &auth.AuthorizationCodeHandlerConfig{
		RedirectURL:              "http://localhost:1/callback",
		PreregisteredClient:      &oauthex.ClientCredentials{ClientID: "me", ClientSecretAuth: &oauthex.ClientSecretAuth{ClientSecret: "hush"}},
		Client:                   client,
		AuthorizationCodeFetcher: says,
	}
	h, err := mcp.OAuth(t.Context(), g.url, cfg, tokens)
	if err != nil {
		return err
	}
	c, err := mcp.Connect(t.Context(), mcp.Config{Transport: mcp.HTTP{URL: g.url + "/mcp", OAuth: h, Client: client}})
	if err != nil {
		return err
	}
	defer c.Close()
	if got := text(t, get(t, c, "echo"), `{"text":"in"}`); got != "in" {
		t.Errorf("got %q", got)
	}
	return nil
}

func TestATokenIsKeptForLaterProcesses(t *testing.T) {
	g, tokens := guarded(t), &vault{}
	for range 2 {
		if err := login(t, g, tokens); err != nil {
			t.Fatal(err)
		}
		if g.logins != 1 || g.given != 1 {
			t.Errorf("%d logins, %d tokens", g.logins, g.given)
		}
	}
}

func TestATokenThatWasRenewedIsKeptToo(t *testing.T) {
	g, tokens := guarded(t), &vault{}
	g.lasts = 1 // so that it counts as used up
	for n := range 3 {
		if err := login(t, g, tokens); err != nil {
			t.Fatal(err)
		}
		if g.logins != 1 || g.given <= n {
			t.Errorf("%d logins, %d tokens", g.logins, g.given)
		}
	}
	g.good, g.given = "", 1000 // the server has forgotten all: a person logs in again
	if err := login(t, g, tokens); err != nil || g.logins != 2 {
		t.Errorf("%d logins, %v", g.logins, err)
	}
}

func TestTokensThatCannotBeKeptAreAnError(t *testing.T) {
	g := guarded(t)
	if err := login(t, g, &vault{fail: errors.New("the vault is shut")}); err == nil || !strings.Contains(err.Error(), "the vault is shut") {
		t.Errorf("error is %v", err)
	}
	if err := login(t, g, &vault{kept: map[string][]byte{g.url: []byte("{}")}}); err == nil || !strings.Contains(err.Error(), "log in again") {
		t.Errorf("error is %v", err)
	}
	h, err := mcp.OAuth(t.Context(), g.url, &auth.AuthorizationCodeHandlerConfig{
		RedirectURL: "http://localhost:1/callback", AuthorizationCodeFetcher: says, PreregisteredClient: &oauthex.ClientCredentials{ClientID: "me"},
	}, &vault{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = mcp.Connect(t.Context(), mcp.Config{Transport: mcp.HTTP{URL: g.url, OAuth: h, Header: http.Header{"Authorization": {"Bearer x"}}}})
	if err == nil || !strings.Contains(err.Error(), "leave one out") {
		t.Errorf("two tokens: %v", err)
	}
	if err := login(t, g, nil); err == nil {
		t.Error("no error without Tokens")
	}
}
