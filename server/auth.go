package server

import (
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"golang.org/x/time/rate"
)

// User is who sends a request. A node that runs for a request has the user in its
// graph's configuration ([graph.Configurable]), if that has a place for it:
//
//	type Config struct {
//		User server.User `json:"langgraph_auth_user"`
//	}
//
// and the parts of it that are asked for most as "langgraph_auth_user_id",
// "langgraph_auth_permissions" and "user_id". Clients cannot configure these
// themselves. (Without authentication there is no user, and "user_id" is what a
// client says it is.)
type User struct {
	ID          string         `json:"identity"` // not empty; at most 256 bytes of text
	DisplayName string         `json:"display_name,omitempty"`
	Permissions []string       `json:"permissions"`
	Claims      map[string]any `json:"claims,omitempty"` // what else is known: JSON values

	// Expires is when the credentials end, and with them WebSockets and streams of
	// threads; zero if they don't. Runs that were started go on, and nodes aren't told.
	Expires time.Time `json:"-"`
}

var (
	// ErrUnauthenticated says that credentials are wrong. Clients are told no more
	// than that, with the status 401, unless a [Refusal] says more.
	ErrUnauthenticated = errors.New("unauthenticated")

	// ErrUnavailable says that credentials could not be checked, such as when the
	// identity provider doesn't answer. Clients get the status 503, and may try again.
	ErrUnavailable = errors.New("authentication is unavailable")
)

// Refusal is an error of a function of the program's, given to [Authenticate] or
// [Authorize], with a text for the client, who gets the status 401 or 403.
type Refusal struct {
	Text string
	Err  error // is logged; nil: the text is
}

func (e *Refusal) Error() string {
	if e.Err != nil {
		return e.Err.Error()
	}
	return e.Text
}

// Unwrap returns what is logged.
func (e *Refusal) Unwrap() error { return e.Err }

// authenticator finds out who sends a request. It returns nil, and no error, if
// the request has no credentials of its kind.
type authenticator func(*http.Request) (*User, error)

// Authenticate has a function find out who sends a request. It returns nil and no
// error if the request has no credentials that it knows: then the next way of
// authentication is tried, in the order of the options, and a request that none
// knows is refused. Every error refuses the request, with the status 401, or 503
// for [ErrUnavailable]; its text is logged and not told, unless it is a [Refusal]. The function is called by
// many goroutines at a time. It must not read the body. IDs that are "api-key", or
// begin with "api-key:", are refused.
//
// What the function reads may be what browsers send by themselves, such as cookies. So
// pages of other origins than the server's own are refused unless [AllowOrigins] names
// them.
//
// As soon as there is one way of authentication, all of the server but /ok, /ready,
// /info and the studio's page needs it.
func Authenticate(f func(r *http.Request) (*User, error)) Option {
	return func(c *config) {
		if f == nil {
			c.problems = append(c.problems, errors.New("server.Authenticate was given no function"))
			return
		}
		c.reads = true
		c.authenticators = append(c.authenticators, func(context.Context) (authenticator, error) { return unlikeKeys(f), nil })
	}
}

// apiKeyUser is the ID of the user of keys without a name, and the beginning of
// those of others. No other way of authentication may make such users.
const apiKeyUser = "api-key"

// unlikeKeys refuses users whose IDs are those of API keys: whoever chooses what a
// token has for a subject would be the user of a key otherwise.
func unlikeKeys(a authenticator) authenticator {
	return func(r *http.Request) (*User, error) {
		u, err := a(r)
		if err == nil && u != nil && (u.ID == apiKeyUser || strings.HasPrefix(u.ID, apiKeyUser+":")) {
			return nil, fmt.Errorf("%w: the ID %q is for users of API keys", ErrUnauthenticated, u.ID)
		}
		return u, err
	}
}

// minNamedKey is the fewest bytes of a key that has a name.
const minNamedKey = 16

// howNamed explains the form of keys with names to those who meant none.
const howNamed = "a list of keys has name=key, and what stands before the first = is the name: give a key that has = elsewhere than at its end a name"

// APIKey is a key of a user.
type APIKey struct {
	// Name tells users apart: the user's ID is "api-key:" and the name. Several keys
	// of one name are of one user, for changing them without a break. Names have
	// letters, digits and - _ . only, at most 64. Without a name the ID is "api-key".
	Name string

	// Key is long and random, such as 32 bytes of crypto/rand in hexadecimal.
	Key string

	// Permissions are the user's, as [Authorizer]s see them: [OwnedByUser] lets users
	// with "metrics:read" read the metrics.
	Permissions []string
}

// APIKeys lets requests in that have one of some keys, in the header X-Api-Key or
// as Authorization: Bearer. A key may have a name before it, name=key, as
// [APIKey] explains: the name ends at the first equals sign. Keys without a name
// may have equals signs at their end, as base64 has, and nowhere else. They are all
// of one user, with the ID "api-key".
// Keys should be long and random, such as 32 bytes of crypto/rand in hexadecimal.
// The server keeps only their hashes.
func APIKeys(keys ...string) Option {
	all := make([]APIKey, len(keys))
	for i, k := range keys {
		all[i].Key = k
		// What ends in equals signs is a key in base64.
		if name, key, ok := strings.Cut(k, "="); ok && strings.Trim(key, "=") != "" {
			all[i] = APIKey{Name: name, Key: key}
			if name == "" {
				all[i].Name = "=" // which is no name
			}
		}
	}
	return NamedAPIKeys(all...)
}

// NamedAPIKeys is [APIKeys] for keys with permissions.
func NamedAPIKeys(keys ...APIKey) Option {
	return func(c *config) {
		if len(keys) == 0 {
			c.problems = append(c.problems, errors.New("server.APIKeys was given no keys"))
		}
		hashes, users := make([][sha256.Size]byte, len(keys)), make([]User, len(keys))
		for i, k := range keys {
			if k.Key == "" || strings.ContainsFunc(k.Key, func(r rune) bool { return r <= ' ' || r > '~' }) {
				c.problems = append(c.problems, fmt.Errorf("API key %d is empty, or has characters that cannot stand in a header: keys are of printable ASCII, without spaces", i+1))
			}
			users[i] = User{ID: apiKeyUser, Permissions: slices.Clone(k.Permissions)}
			if k.Name != "" {
				users[i].ID, users[i].DisplayName = apiKeyUser+":"+k.Name, k.Name
				if len(k.Name) > 64 || strings.ContainsFunc(k.Name, func(r rune) bool { return !isNameRune(r) }) {
					c.problems = append(c.problems, fmt.Errorf("the name of API key %d must have letters, digits and - _ . only, at most 64; %s", i+1, howNamed))
				}
				if len(k.Key) < minNamedKey {
					c.problems = append(c.problems, fmt.Errorf("API key %d has fewer than %d characters after its name; %s", i+1, minNamedKey, howNamed))
				}
			}
			hashes[i] = sha256.Sum256([]byte(k.Key))
			for j := range i {
				if hashes[j] == hashes[i] && users[j].ID != users[i].ID {
					c.problems = append(c.problems, fmt.Errorf("API keys %d and %d are the same, with two names", j+1, i+1))
				}
			}
		}
		check := func(r *http.Request) (*User, error) {
			for _, given := range []string{r.Header.Get("X-Api-Key"), bearer(r)} {
				if given == "" {
					continue
				}
				// Whichever key is right, and however much of it, takes the same time.
				sum, found := sha256.Sum256([]byte(given)), -1
				for i := range hashes {
					found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(sum[:], hashes[i][:]), i, found)
				}
				if found >= 0 {
					u := users[found]
					u.Permissions = append([]string{}, u.Permissions...)
					return &u, nil
				}
			}
			return nil, nil
		}
		c.authenticators = append(c.authenticators, func(context.Context) (authenticator, error) { return check, nil })
	}
}

func isNameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.'
}

// bearer returns the token of the header Authorization; empty if there is none.
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// JWTConfig says which JSON Web Tokens are let in.
type JWTConfig struct {
	// Issuer and Audience must be the token's. Both are required: a token that the
	// same issuer made for another service must not be good here.
	Issuer   string
	Audience string

	// KeysURL is where the issuer's public keys are, as a JSON Web Key Set. They are
	// read again when a token names one that isn't known, but not more often than
	// every few seconds. Empty means that OpenID Connect's discovery finds it, at
	// the Issuer, when the server starts.
	KeysURL string

	// Keys are public keys to be used instead: *rsa.PublicKey, *ecdsa.PublicKey or
	// ed25519.PublicKey.
	Keys []crypto.PublicKey

	// Secret is a key that the issuer shares with this server, of at least 32 bytes, in the
	// place of public ones: for issuers that sign with HS256, HS384 or HS512. Whoever has
	// it can make tokens.
	Secret []byte

	// Algorithms of signatures that are taken, such as RS256. The default are those
	// that discovery names, or else all that the keys are for.
	Algorithms []string

	// User makes a user of a token's claims. By default the ID is the claim sub, the
	// name is name, preferred_username or email, and the permissions are those of
	// permissions, scope or scp. Issuers may have the same sub for two people: where
	// there is more than one issuer, User must be given, and tell them apart. IDs that
	// are "api-key", or begin with "api-key:", are refused. The user Expires with the
	// token, unless User says that it is earlier.
	User func(claims map[string]any) (*User, error)

	// Client reads the keys. The default gives up after ten seconds.
	Client *http.Client
}

// asymmetric are the algorithms whose keys verify and cannot sign.
var asymmetric = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// symmetric are those whose key does both.
var symmetric = []string{"HS256", "HS384", "HS512"}

// minSecret is the fewest bytes of a secret, those of the shortest signature.
const minSecret = 32

// secret checks the signatures of those who have it too.
type secret []byte

// VerifySignature implements oidc.KeySet.
func (s secret) VerifySignature(_ context.Context, jwt string) ([]byte, error) {
	token, err := jose.ParseSignedCompact(jwt, []jose.SignatureAlgorithm{jose.HS256, jose.HS384, jose.HS512})
	if err != nil {
		return nil, err
	}
	return token.Verify([]byte(s))
}

// JWT lets requests in that have a token of an issuer, as Authorization: Bearer,
// such as those of OpenID Connect. The signature, the issuer, the audience and the
// times are checked.
func JWT(o JWTConfig) Option {
	return func(c *config) {
		if o.Issuer == "" || o.Audience == "" {
			c.problems = append(c.problems, errors.New("server.JWT needs an Issuer and an Audience"))
			return
		}
		known := asymmetric
		if o.Secret != nil {
			known = symmetric
			if len(o.Secret) < minSecret || o.Keys != nil || o.KeysURL != "" {
				c.problems = append(c.problems, fmt.Errorf("server.JWT: a Secret has at least %d bytes, and no Keys or KeysURL beside it", minSecret))
			}
		}
		for _, a := range o.Algorithms {
			if !slices.Contains(known, a) {
				c.problems = append(c.problems, fmt.Errorf("server.JWT: algorithm %q is none of %s", a, strings.Join(known, ", ")))
			}
		}
		if c.issuers = append(c.issuers, o.Issuer); len(c.issuers) > 1 && (o.User == nil || c.subjects) && slices.ContainsFunc(c.issuers, func(i string) bool { return i != o.Issuer }) {
			c.problems = append(c.problems, fmt.Errorf("server.JWT: there are several issuers, %s, which may have the same subject for two people: each needs a User that tells them apart", strings.Join(c.issuers, ", ")))
		}
		c.subjects = c.subjects || o.User == nil
		c.authenticators = append(c.authenticators, func(ctx context.Context) (authenticator, error) {
			a, err := o.open(ctx)
			return unlikeKeys(a), err
		})
	}
}

// open makes the authenticator.
func (o JWTConfig) open(ctx context.Context) (authenticator, error) {
	client := http.Client{Timeout: 10 * time.Second}
	if o.Client != nil {
		client = *o.Client
	}
	next := client.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	// Anybody can send tokens with a key's name made up. They must not make this
	// server ask for the keys each time.
	client.Transport = &seldom{next: next, limit: rate.NewLimiter(rate.Every(5*time.Second), 5)}
	ctx = oidc.ClientContext(context.WithoutCancel(ctx), &client)
	settings := &oidc.Config{ClientID: o.Audience, SupportedSigningAlgs: o.Algorithms}
	if len(settings.SupportedSigningAlgs) == 0 && (o.Keys != nil || o.KeysURL != "") {
		settings.SupportedSigningAlgs = asymmetric
	}
	if len(settings.SupportedSigningAlgs) == 0 && o.Secret != nil {
		settings.SupportedSigningAlgs = symmetric
	}
	var verifier *oidc.IDTokenVerifier
	switch {
	case o.Secret != nil:
		verifier = oidc.NewVerifier(o.Issuer, secret(o.Secret), settings)
	case o.Keys != nil:
		verifier = oidc.NewVerifier(o.Issuer, keySet{&oidc.StaticKeySet{PublicKeys: o.Keys}}, settings)
	case o.KeysURL != "":
		verifier = oidc.NewVerifier(o.Issuer, keySet{oidc.NewRemoteKeySet(ctx, o.KeysURL)}, settings)
	default:
		p, err := oidc.NewProvider(ctx, o.Issuer)
		if err != nil {
			return nil, fmt.Errorf("finding the keys of issuer %s: %w", o.Issuer, err)
		}
		var found struct {
			KeysURL    string   `json:"jwks_uri"`
			Algorithms []string `json:"id_token_signing_alg_values_supported"`
		}
		if err := p.Claims(&found); err != nil {
			return nil, fmt.Errorf("issuer %s: %w", o.Issuer, err)
		}
		if len(settings.SupportedSigningAlgs) == 0 {
			for _, a := range found.Algorithms {
				if slices.Contains(asymmetric, a) {
					settings.SupportedSigningAlgs = append(settings.SupportedSigningAlgs, a)
				}
			}
		}
		verifier = oidc.NewVerifier(o.Issuer, keySet{oidc.NewRemoteKeySet(ctx, found.KeysURL)}, settings)
	}
	makeUser := o.User
	if makeUser == nil {
		makeUser = userOfClaims
	}
	return func(r *http.Request) (*User, error) {
		raw := bearer(r)
		if strings.Count(raw, ".") != 2 { // an API key, perhaps
			return nil, nil
		}
		trouble := error(nil)
		token, err := verifier.Verify(context.WithValue(r.Context(), keyTrouble{}, &trouble), raw)
		if trouble != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, trouble)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnauthenticated, err)
		}
		claims := map[string]any{}
		if err := token.Claims(&claims); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnauthenticated, err)
		}
		u, err := makeUser(claims)
		if u != nil && (u.Expires.IsZero() || token.Expiry.Before(u.Expires)) {
			u.Expires = token.Expiry
		}
		return u, err
	}, nil
}

// userOfClaims makes a user of the claims that most issuers give.
func userOfClaims(claims map[string]any) (*User, error) {
	text := func(name string) string { s, _ := claims[name].(string); return s }
	u := &User{ID: text("sub"), Permissions: []string{}, Claims: claims}
	for _, name := range []string{"name", "preferred_username", "email"} {
		if u.DisplayName == "" {
			u.DisplayName = text(name)
		}
	}
	for _, name := range []string{"permissions", "scope", "scp"} {
		switch v := claims[name].(type) {
		case string:
			u.Permissions = append(u.Permissions, strings.Fields(v)...)
		case []any:
			for _, one := range v {
				if s, ok := one.(string); ok {
					u.Permissions = append(u.Permissions, s)
				}
			}
		}
	}
	return u, nil
}

// keySet tells failures to get the keys apart from tokens that are wrong.
type keySet struct{ oidc.KeySet }

// keyTrouble is the key of a context for where to put them.
type keyTrouble struct{}

func (k keySet) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	payload, err := k.KeySet.VerifySignature(ctx, jwt)
	if failed, ok := errors.AsType[*url.Error](err); ok && !errors.Is(failed, errSeldom) {
		if at, ok := ctx.Value(keyTrouble{}).(*error); ok {
			*at = failed
		}
	}
	return payload, err
}

// seldom is a transport that refuses what comes too often.
type seldom struct {
	next  http.RoundTripper
	limit *rate.Limiter
}

var errSeldom = errors.New("the keys were read just now")

func (s *seldom) RoundTrip(r *http.Request) (*http.Response, error) {
	if !s.limit.Allow() {
		return nil, errSeldom
	}
	return s.next.RoundTrip(r)
}

// caller is who sends a request, and what for.
type caller struct {
	user  *User // nil without authentication
	rule  rule
	asked atomic.Bool // the authoriser was, or need not be

	mu    sync.Mutex
	noted []slog.Attr // for the audit log: what the request made
}

type callerKey struct{}

// callerOf returns who sends the request of a context; nil if it is the server's
// own.
func callerOf(ctx context.Context) *caller {
	c, _ := ctx.Value(callerKey{}).(*caller)
	return c
}

func withCaller(ctx context.Context, c *caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// userOf returns the user of a context; nil if there is none.
func userOf(ctx context.Context) *User {
	if c := callerOf(ctx); c != nil {
		return c.user
	}
	return nil
}

// identify finds out who sends a request.
func (s *access) identify(r *http.Request) (*User, error) {
	if len(s.authenticators) == 0 {
		return nil, nil
	}
	var failed error
	for _, a := range s.authenticators {
		u, err := a(r)
		if err == nil && u == nil {
			continue
		}
		if err == nil {
			err = u.check()
		}
		if err == nil {
			return u, nil
		}
		failed = errors.Join(failed, err)
	}
	if errors.Is(failed, ErrUnavailable) {
		s.log.LogAttrs(r.Context(), slog.LevelError, "server: authentication failed", slog.Any("error", failed))
		return nil, &fault{http.StatusServiceUnavailable, "credentials cannot be checked at the moment"}
	}
	if failed != nil {
		s.log.LogAttrs(r.Context(), slog.LevelInfo, "server: credentials were refused", slog.String("from", hostOf(r)), slog.Any("error", failed))
	}
	if told, ok := errors.AsType[*Refusal](failed); ok {
		return nil, &fault{http.StatusUnauthorized, told.Text}
	}
	if r.Header.Get("X-Api-Key") == "" && r.Header.Get("Authorization") == "" {
		return nil, errNoCredentials
	}
	return nil, errWrongCredentials
}

var (
	errNoCredentials    = &fault{http.StatusUnauthorized, "credentials are required, such as the header x-api-key or Authorization: Bearer"}
	errWrongCredentials = &fault{http.StatusUnauthorized, "credentials are not valid"}
)

// Authenticates reports whether a server with these options asks who sends a
// request. One that doesn't should listen for its own machine only.
func Authenticates(opts ...Option) bool {
	return len(config{}.with(opts).authenticators) > 0
}

// looksSecret reports whether a header, by its name in small letters, may hold what
// lets somebody in: such ones are not kept with runs.
func looksSecret(name string) bool {
	return slices.ContainsFunc(secretParts, func(part string) bool { return strings.Contains(name, part) })
}

// secretParts are those of names of headers that proxies and clients use for
// credentials. "auth" takes x-author too; a header that is kept in vain does more
// harm than one that isn't.
var secretParts = []string{
	"token", "secret", "auth", "key", "cookie", "passw", "session", "csrf", "xsrf", "credential", "jwt", "oidc", "bearer", "signature",
}

// maxUserID is in bytes.
const maxUserID = 256

// check reports what is wrong with a user that a function returned.
func (u *User) check() error {
	switch {
	case u.ID == "":
		return errors.New("the user has no ID")
	case len(u.ID) > maxUserID || !utf8.ValidString(u.ID) || strings.ContainsFunc(u.ID, unicode.IsControl):
		return fmt.Errorf("the user's ID is longer than %d bytes, or no text", maxUserID)
	}
	if _, err := json.Marshal(u); err != nil {
		return fmt.Errorf("the user's claims are no JSON: %w", err)
	}
	return nil
}

// ownConfig are the names that only the server configures.
var ownConfig = []string{"langgraph_auth_user", "langgraph_auth_user_id", "langgraph_auth_permissions"}

// configuredUser returns what nodes are told of the user for whom a run works; stored
// is what userJSON returned. What clients said of it is dropped.
func configuredUser(configured object, stored json.RawMessage) (object, error) {
	for _, name := range ownConfig {
		delete(configured, name)
	}
	if isNull(stored) {
		return configured, nil
	}
	var u User
	if err := json.Unmarshal(stored, &u); err != nil {
		return nil, fmt.Errorf("the user of a run: %w", err)
	}
	if u.Permissions == nil {
		u.Permissions = []string{}
	}
	permissions, err := json.Marshal(u.Permissions)
	if err != nil {
		return nil, err
	}
	return configured.with(object{
		"langgraph_auth_user":        objectOf(stored).with(object{"is_authenticated": json.RawMessage("true"), "permissions": permissions}).raw(),
		"langgraph_auth_user_id":     jsonText(u.ID),
		"langgraph_auth_permissions": permissions,
		"user_id":                    jsonText(u.ID),
	}), nil
}

// userJSON is the user of a context as it is stored with what works for it later;
// nil if there is none.
func userJSON(ctx context.Context) json.RawMessage {
	u := userOf(ctx)
	if u == nil {
		return nil
	}
	data, _ := json.Marshal(u) // User.check has tried
	return data
}

func newAccess(ctx context.Context, b *base, c *config) (*access, error) {
	s := &access{base: b, authorize: c.authorize, guesses: newGuesses(), audit: c.audit, open: newGauge("streams are open", b.limits.Streams, b.limits.StreamsPerClient)}
	for _, open := range c.authenticators {
		a, err := open(ctx)
		if err != nil {
			return nil, err
		}
		s.authenticators = append(s.authenticators, a)
	}
	if s.authorize != nil && len(s.authenticators) == 0 {
		return nil, errors.New("server.Authorize needs users: use server.APIKeys, server.JWT or server.Authenticate too, or set SUPERSTEP_API_KEYS for the command serve")
	}
	if s.audit == nil && len(s.authenticators) > 0 {
		s.audit = s.log
	}
	return s, nil
}
