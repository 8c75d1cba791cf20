// Package redisdb holds what the packages that keep data in Redis do alike: they read
// its URLs, without telling a password, and refuse what spreads keys over servers.
package redisdb

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/redis/go-redis/v9"
)

// What to do about the errors of [ParseURL] and [Place].
const (
	FixURL   = "write it like redis://user:password@host:6379/0, with special characters of the password percent-encoded"
	FixPlace = "use a client of one server: redis.NewClient or redis.NewFailoverClient"
)

// ParseURL reads a URL as [redis.ParseURL] does. Calls of a client with these options
// end when their context does. Errors never quote a password: if the URL can't be
// parsed at all, not even what the parser says of it.
func ParseURL(raw string) (*redis.Options, error) {
	if raw == "" {
		return nil, errors.New("the URL is empty")
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, errors.New("the URL cannot be parsed")
	}
	o, err := redis.ParseURL(raw)
	if err != nil {
		what := strings.TrimPrefix(err.Error(), "redis: ")
		if p, _ := u.User.Password(); p != "" && strings.Contains(what, p) {
			return nil, errors.New("the URL is not valid")
		}
		return nil, errors.New("the URL is not valid: " + what)
	}
	o.ContextTimeoutEnabled = true
	return o, nil
}

// Place names the server and the database that a client is for, "" where the client
// doesn't tell. A client that spreads keys over servers is refused.
func Place(client redis.UniversalClient) (string, error) {
	switch c := client.(type) {
	case *redis.ClusterClient, *redis.Ring:
		return "", fmt.Errorf("a %T spreads keys over servers", c)
	case *redis.Client:
		return fmt.Sprintf("%s/%d", c.Options().Addr, c.Options().DB), nil
	}
	return "", nil
}
