package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"golang.org/x/oauth2"
)

// Tokens keeps what logging in to servers led to, for later processes. What is kept
// lets its bearer in: keep it as a secret. It is used by several goroutines.
type Tokens interface {
	// Load returns what was saved for a server last, nil if nothing was.
	Load(ctx context.Context, server string) ([]byte, error)

	// Save keeps what Load is to return.
	Save(ctx context.Context, server string, grant []byte) error
}

// OAuth returns an authorizer for [HTTP.OAuth] that logs in by the authorization code
// flow of the protocol's SDK when the server asks for it, and keeps what that leads to: a
// later process is let in without a person, as long as the server renews its token. The
// server is the name under which it is kept, such as its URL. The configuration says
// how the client is known to the server and how a person comes to the page where it asks
// them; it is not to be used any more. To be let in for long, set RequestRefreshToken.
//
// What can't be loaded or saved is an error of the request. For programs that log in
// by themselves the SDK has package auth/extauth.
func OAuth(ctx context.Context, server string, cfg *auth.AuthorizationCodeHandlerConfig, tokens Tokens) (auth.OAuthHandler, error) {
	if cfg == nil || tokens == nil {
		return nil, errors.New("mcp: OAuth needs a configuration, and Tokens to keep tokens")
	}
	if cfg.InitialTokenSource != nil || cfg.NewTokenSource != nil {
		return nil, errors.New("mcp: OAuth sets InitialTokenSource and NewTokenSource itself: leave them nil, or use auth.NewAuthorizationCodeHandler in its place")
	}
	data, err := tokens.Load(ctx, server)
	if err != nil {
		return nil, fmt.Errorf("mcp: server %q: loading its token: %w", server, err)
	}
	// What renews the token outlives this call.
	ctx = context.WithoutCancel(ctx)
	if data != nil {
		var g grant
		if err := json.Unmarshal(data, &g); err != nil || g.Config == nil || g.Token == nil {
			return nil, fmt.Errorf("mcp: server %q: what is kept of its token isn't one: delete it and log in again", server)
		}
		renew := ctx
		if cfg.Client != nil {
			renew = context.WithValue(ctx, oauth2.HTTPClient, cfg.Client)
		}
		cfg.InitialTokenSource = &kept{TokenSource: g.Config.TokenSource(renew, g.Token), ctx: ctx, server: server, tokens: tokens, grant: g}
	}
	cfg.NewTokenSource = func(renew context.Context, c *oauth2.Config, t *oauth2.Token) (oauth2.TokenSource, error) {
		k := &kept{TokenSource: c.TokenSource(renew, t), ctx: ctx, server: server, tokens: tokens, grant: grant{Config: c}}
		_, err := k.Token()
		return k, err
	}
	return auth.NewAuthorizationCodeHandler(cfg)
}

// grant is what is kept: the token, and what it takes to renew it.
type grant struct {
	Config *oauth2.Config `json:"config"`
	Token  *oauth2.Token  `json:"token"`
}

// kept is a source of tokens that are kept when they are new.
type kept struct {
	oauth2.TokenSource
	ctx    context.Context
	server string
	tokens Tokens

	mu    sync.Mutex
	grant grant
}

// Token returns the token, a new one when the old is no good any more.
func (k *kept) Token() (*oauth2.Token, error) {
	t, err := k.TokenSource.Token()
	k.mu.Lock()
	defer k.mu.Unlock()
	if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok && e.ErrorCode == "invalid_grant" && k.grant.Token != nil {
		return k.grant.Token, nil // the server refuses the old one, and a person logs in again
	}
	if err != nil {
		return nil, err
	}
	if k.grant.Token != nil && k.grant.Token.AccessToken == t.AccessToken {
		return t, nil
	}
	data, err := json.Marshal(grant{k.grant.Config, t})
	if err != nil {
		return nil, err
	}
	if err := k.tokens.Save(k.ctx, k.server, data); err != nil {
		return nil, fmt.Errorf("mcp: server %q: keeping its token: %w", k.server, err)
	}
	k.grant.Token = t
	return t, nil
}

// unauthorized takes what the SDK adds from requests to where a server redirects.
func unauthorized(r *http.Request) *http.Request {
	if r.Header.Get("Authorization") == "" {
		return r
	}
	r = r.Clone(r.Context())
	r.Header.Del("Authorization")
	return r
}
