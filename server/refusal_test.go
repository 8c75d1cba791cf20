package server_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/superstep-dev/superstep/server"
)

func TestATokenSignedWithASharedSecretIsLetIn(t *testing.T) {
	secret := []byte("a secret of at least 32 bytes, shared")
	c := start(t, server.Graph(booking(t)), server.JWT(server.JWTConfig{Issuer: "https://auth.example", Audience: "superstep", Secret: secret}), quiet())
	signed := func(algorithm jose.SignatureAlgorithm, key any, audience string, ends time.Duration) string {
		s, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, nil)
		if err != nil {
			t.Fatal(err)
		}
		token, err := jwt.Signed(s).Claims(jwt.Claims{Issuer: "https://auth.example", Audience: jwt.Audience{audience}, Subject: "ada", Expiry: jwt.NewNumericDate(time.Now().Add(ends))}).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	const unsigned = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZGEifQ."
	for name, one := range map[string]struct {
		token string
		want  int
	}{
		"HS256":            {signed(jose.HS256, secret, "superstep", time.Minute), 200},
		"HS512":            {signed(jose.HS512, append(secret, strings.Repeat("x", 30)...), "superstep", time.Minute), 401},
		"another secret":   {signed(jose.HS256, []byte(strings.Repeat("x", 40)), "superstep", time.Minute), 401},
		"another service":  {signed(jose.HS256, secret, "elsewhere", time.Minute), 401},
		"one that is over": {signed(jose.HS256, secret, "superstep", -time.Hour), 401},
		"unsigned":         {unsigned, 401},
	} {
		if status, _, text := c.ask(t.Context(), "POST", "/threads/search", "{}", "Authorization", "Bearer "+one.token); status != one.want {
			t.Errorf("%s: %d %s, want %d", name, status, text, one.want)
		}
	}
	for _, bad := range []server.JWTConfig{
		{Issuer: "a", Audience: "b", Secret: []byte("short")},
		{Issuer: "a", Audience: "b", Secret: secret, KeysURL: "https://auth.example/keys"},
		{Issuer: "a", Audience: "b", Secret: secret, Algorithms: []string{"RS256"}},
	} {
		if _, err := server.New(t.Context(), server.Graph(booking(t)), server.JWT(bad)); err == nil || !strings.Contains(err.Error(), "JWT") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestAProgramSaysWhyItRefuses(t *testing.T) {
	authenticate := func(r *http.Request) (*server.User, error) {
		if name := r.Header.Get("X-Test-User"); name != "late" {
			return &server.User{ID: name}, nil
		}
		return nil, &server.Refusal{Text: "Your trial is over.", Err: errors.New("trial 17 is over")}
	}
	authorize := func(_ context.Context, u *server.User, a *server.Action) (server.Filter, error) {
		if a.Verb == server.CreateRun || a.Verb == server.Create {
			return server.Filter{}, &server.Refusal{Text: "Buy more runs."}
		}
		return server.Filter{}, nil
	}
	c := start(t, server.Graph(booking(t)), server.Authenticate(authenticate), server.Authorize(authorize), quiet())
	for _, one := range []struct {
		user, path, body, text string
		status                 int
	}{
		{"late", "/threads/search", "{}", "Your trial is over.", 401},
		{"ada", "/runs/wait", `{"assistant_id":"booking"}`, "Buy more runs.", 403},
		{"ada", "/threads/search", "{}", "[]", 200},
	} {
		status, _, text := c.ask(t.Context(), "POST", one.path, one.body, "X-Test-User", one.user)
		if status != one.status || strings.TrimSpace(text) != one.text {
			t.Errorf("%s at %s: %d %s, want %d %s", one.user, one.path, status, text, one.status, one.text)
		}
	}
}
