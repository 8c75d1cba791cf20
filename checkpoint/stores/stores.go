// Package stores opens whatever checkpoint store a text names, so that the choice
// is a setting:
//
//	store, err := stores.Open(ctx, os.Getenv("STORE"))
//
// It links every back end with its driver. A program that knows which store it
// uses imports that package alone.
//
// # URLs
//
//	memory
//	file:DIR                     also file://DIR
//	sqlite:PATH                  also sqlite://PATH, sqlite::memory: and any path
//	                             that ends in .db, .sqlite or .sqlite3
//	postgres://USER:PASSWORD@HOST:PORT/DATABASE      also postgresql://
//	redis://USER:PASSWORD@HOST:PORT/NUMBER           also rediss:// (TLS)
//	s3://KEY:SECRET@HOST:PORT/BUCKET/PREFIX?region=…
//
// Paths are taken as they stand: file:threads and file://threads are both the
// folder threads, file:/var/threads and file:///var/threads both /var/threads.
//
// Options follow after a question mark, as in sqlite:threads.db?full=true. Those
// of the drivers, such as sslmode or pool_size, are handed on to them. Ours are:
//
//	file      sync=every|never, recover=true, max_open=N
//	sqlite    full=true, busy_timeout=10s, readers=N, writable=true
//	postgres  schema=NAME, writers=N, timeout=1m
//	redis     prefix=TEXT, ttl=720h, allow_eviction=true
//	s3        cache_bytes=N
package stores

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/file"
	"github.com/superstep-dev/superstep/checkpoint/postgres"
	"github.com/superstep-dev/superstep/checkpoint/redis"
	"github.com/superstep-dev/superstep/checkpoint/s3"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
)

// The back ends, as [Config.Backend] names them.
const (
	Memory   = "memory"
	File     = "file"
	SQLite   = "sqlite"
	Postgres = "postgres"
	Redis    = "redis"
	S3       = "s3"
)

var backends = []string{Memory, File, SQLite, Postgres, Redis, S3}

// remote reports whether a back end is a server, which a URL names.
func remote(backend string) bool { return backend == Postgres || backend == Redis || backend == S3 }

// aliases are other names that the field has for them.
var aliases = map[string]string{"sqlite3": SQLite, "postgresql": Postgres, "rediss": Redis}

// Config says which store to open.
type Config struct {
	// Backend is one of the constants of this package; postgresql, sqlite3 and
	// rediss are taken, too. Case does not matter.
	Backend string

	// Path is the folder of the files, or the database file of SQLite.
	Path string

	// URL is how to reach PostgreSQL (also as "host=… user=…"), Redis or a bucket.
	URL string

	// Those of the back end are used, the others ignored.
	File     file.Options
	SQLite   sqlite.Options
	Postgres postgres.Options
	Redis    redis.Options
	S3       s3.Options
}

// UnknownBackendError says that a URL or a [Config] names no back end that there
// is.
type UnknownBackendError struct {
	Backend string // empty if there is none, or what is there could be a secret
}

func (e *UnknownBackendError) Error() string {
	name := e.Backend
	if name == "" {
		name = "(none)"
	}
	return "Unknown backend: " + name + "; use " + Usage
}

// Usage lists what [Open] takes, in half a sentence.
const Usage = "memory, file:DIR, sqlite:PATH (or a path that ends in .db), postgres://…, redis://… or s3://…"

// OptionError says what is wrong with an option of a URL.
type OptionError struct {
	Backend, Option string
	What            string
}

func (e *OptionError) Error() string {
	return fmt.Sprintf("stores: option %q of a %s URL %s", e.Option, e.Backend, e.What)
}

// Open opens the store that a URL names, and makes it if it is not there. What
// is wrong with the URL is an [*UnknownBackendError] or an [*OptionError]; what
// is wrong with the store is the back end's own error. No error shows a password.
func Open(ctx context.Context, url string) (checkpoint.Store, error) {
	c, err := Parse(url)
	if err != nil {
		return nil, err
	}
	return c.Open(ctx)
}

// Parse returns what a URL says, without opening anything.
func Parse(url string) (Config, error) {
	scheme, rest, ok := strings.Cut(url, ":")
	// A Windows path looks like a URL with a scheme of one letter.
	if slices.Contains([]string{".db", ".sqlite", ".sqlite3"}, filepath.Ext(url)) && (!ok || len(scheme) == 1 || strings.ContainsAny(scheme, `/\.`)) {
		return Config{Backend: SQLite, Path: url}, nil
	}
	backend, known := backendOf(scheme)
	switch {
	case !known, !ok && backend != Memory:
		return Config{}, &UnknownBackendError{name(url)}
	case remote(backend):
		return parseServer(backend, url)
	}
	c := Config{Backend: backend}
	path, query, _ := strings.Cut(rest, "?")
	c.Path = strings.TrimPrefix(path, "//")
	switch {
	case backend == Memory && c.Path != "":
		return Config{}, &UnknownBackendError{name(url)}
	case backend != Memory && c.Path == "":
		return Config{}, fmt.Errorf("stores: %s: needs a path: %s:PATH", backend, backend)
	}
	return c, c.options(query, nil)
}

func backendOf(name string) (string, bool) {
	name = strings.ToLower(name)
	if a, ok := aliases[name]; ok {
		name = a
	}
	return name, slices.Contains(backends, name)
}

// name returns the part of a URL that may be shown: its scheme, or all of a word
// that has none.
func name(url string) string {
	scheme, _, ok := strings.Cut(url, ":")
	if ok && scheme != "" && strings.IndexFunc(scheme, odd) < 0 {
		return clip(scheme)
	}
	if strings.IndexFunc(url, func(r rune) bool { return odd(r) && r != '/' && r != '\\' }) < 0 {
		return clip(url)
	}
	return ""
}

func odd(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("+-._", r)
}

func clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}

// parseServer takes our options out of the URL of a server, and leaves the rest
// as it is, down to the byte: it may hold characters that nobody escaped.
func parseServer(backend, url string) (Config, error) {
	if scheme, rest, _ := strings.Cut(url, ":"); !strings.HasPrefix(rest, "//") {
		return Config{}, fmt.Errorf("stores: %s: needs a URL: %s://USER:PASSWORD@HOST:PORT/DATABASE", backend, scheme)
	}
	base, query, _ := strings.Cut(url, "?")
	c := Config{Backend: backend}
	var rest []string
	if err := c.options(query, func(pair string) { rest = append(rest, pair) }); err != nil {
		return Config{}, err
	}
	c.URL = base
	if len(rest) > 0 {
		c.URL += "?" + strings.Join(rest, "&")
	}
	return c, nil
}

// options reads a query. Others is given the pairs that are not ours; nil makes
// them errors.
func (c *Config) options(query string, others func(pair string)) error {
	known := c.known()
	for pair := range strings.SplitSeq(query, "&") {
		if pair == "" {
			continue
		}
		key, value, _ := strings.Cut(pair, "=")
		set := known[key]
		if set == nil {
			if others == nil {
				names := make([]string, 0, len(known))
				for n := range known {
					names = append(names, n)
				}
				slices.Sort(names)
				what := "is unknown; there are none"
				if len(names) > 0 {
					what = "is unknown; there are " + strings.Join(names, ", ")
				}
				return &OptionError{c.Backend, clip(key), what}
			}
			others(pair)
			continue
		}
		v, err := url.QueryUnescape(value)
		if err != nil {
			return &OptionError{c.Backend, key, "is not percent-encoded as it should be"}
		}
		if err := set(v); err != nil {
			return &OptionError{c.Backend, key, err.Error()}
		}
	}
	return nil
}

// known returns the options that a URL of the back end can have.
func (c *Config) known() map[string]func(string) error {
	switch c.Backend {
	case File:
		return map[string]func(string) error{
			"sync": func(v string) error {
				switch v {
				case "every":
					c.File.Sync = file.SyncEvery
				case "never":
					c.File.Sync = file.SyncNever
				default:
					return fmt.Errorf("is %q; use every or never", v)
				}
				return nil
			},
			"recover":  flag(&c.File.Recover),
			"max_open": number(&c.File.MaxOpen),
		}
	case SQLite:
		return map[string]func(string) error{
			"full":         flag(&c.SQLite.Full),
			"busy_timeout": duration(&c.SQLite.BusyTimeout),
			"readers":      number(&c.SQLite.Readers),
			"writable":     flag(&c.SQLite.Writable),
		}
	case Postgres: // lock_timeout and pool_max_conns are the driver's
		return map[string]func(string) error{
			"schema":  text(&c.Postgres.Schema),
			"writers": number(&c.Postgres.Writers),
			"timeout": duration(&c.Postgres.Timeout),
		}
	case Redis:
		return map[string]func(string) error{
			"prefix":         text(&c.Redis.Prefix),
			"ttl":            duration(&c.Redis.TTL),
			"allow_eviction": flag(&c.Redis.AllowEviction),
		}
	case S3: // region and insecure are the driver's
		return map[string]func(string) error{"cache_bytes": number(&c.S3.CacheBytes)}
	}
	return nil
}

func text(p *string) func(string) error { return func(v string) error { *p = v; return nil } }

func flag(p *bool) func(string) error {
	return func(v string) (err error) {
		if *p, err = strconv.ParseBool(v); v == "" {
			*p, err = true, nil
		}
		if err != nil {
			return fmt.Errorf("is %q; use true or false", v)
		}
		return nil
	}
}

func number(p *int) func(string) error {
	return func(v string) (err error) {
		if *p, err = strconv.Atoi(v); err != nil || *p < 0 {
			return fmt.Errorf("is %q; use a number", v)
		}
		return nil
	}
}

func duration(p *time.Duration) func(string) error {
	return func(v string) (err error) {
		if *p, err = time.ParseDuration(v); err != nil || *p < 0 {
			return fmt.Errorf("is %q; use a time such as 30s or 720h", v)
		}
		return nil
	}
}

// Open opens the store, and makes it if it is not there.
func (c Config) Open(ctx context.Context) (checkpoint.Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	backend, ok := backendOf(c.Backend)
	if !ok {
		return nil, &UnknownBackendError{name(c.Backend)}
	}
	switch {
	case remote(backend) && c.URL == "":
		return nil, fmt.Errorf("stores: Config.URL is empty: %s needs it", backend)
	case backend != Memory && !remote(backend) && c.Path == "":
		return nil, fmt.Errorf("stores: Config.Path is empty: %s needs it", backend)
	}
	switch backend {
	case File:
		return opened(file.Open(c.Path, c.File))
	case SQLite:
		return opened(sqlite.Open(c.Path, c.SQLite))
	case Postgres:
		return opened(postgres.Open(ctx, c.URL, c.Postgres))
	case Redis:
		return opened(redis.Open(ctx, c.URL, c.Redis))
	case S3:
		return opened(s3.Open(ctx, c.URL, c.S3))
	}
	return checkpoint.NewMemory(), nil
}

// opened keeps a nil pointer from becoming a store.
func opened[S checkpoint.Store](s S, err error) (checkpoint.Store, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Redact returns a URL that can be shown: without its passwords.
func Redact(raw string) string {
	scheme, rest, ok := strings.Cut(raw, ":")
	if backend, known := backendOf(scheme); !ok || known && !remote(backend) || !known && !strings.HasPrefix(rest, "//") {
		return raw
	}
	u, err := url.Parse(raw)
	if err != nil {
		return scheme + "://…"
	}
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		if key, value, ok := strings.Cut(pair, "="); ok && value != "" && strings.Contains(strings.ToLower(key), "password") {
			u.RawQuery = strings.Replace(u.RawQuery, pair, key+"=xxxxx", 1)
		}
	}
	return u.Redacted()
}
