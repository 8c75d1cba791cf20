// Package redact keeps secrets out of errors.
package redact

import (
	"errors"
	"net/url"
	"slices"
	"strings"
)

// Secrets are texts that no error may tell.
type Secrets []string

// Add adds a secret. Of a scheme and what follows, such as "Bearer abc", that is
// what follows.
func (s *Secrets) Add(secret string) {
	secret = strings.TrimSpace(secret)
	s.AddWhole(secret[strings.LastIndexByte(secret, ' ')+1:])
}

// AddWhole adds a secret as it is.
func (s *Secrets) AddWhole(secret string) {
	if secret != "" && !slices.Contains(*s, secret) {
		*s = append(*s, secret)
		// The longest first: what another is a part of must not be left in pieces.
		slices.SortStableFunc(*s, func(a, b string) int { return len(b) - len(a) })
	}
}

// AddHeader adds the value of a header whose name says that it is secret.
func (s *Secrets) AddHeader(name, value string) {
	if Secretive(name) {
		s.Add(value)
	}
}

// Secretive reports whether a header of this name likely holds a secret.
func Secretive(header string) bool {
	header = strings.ToLower(header)
	return slices.ContainsFunc([]string{"auth", "key", "token", "cookie", "secret"}, func(part string) bool { return strings.Contains(header, part) })
}

// AddURL adds the password of a URL, as it is and as it is written there.
func (s *Secrets) AddURL(u *url.URL) {
	if password, ok := u.User.Password(); ok {
		s.AddWhole(password)
		if _, written, ok := strings.Cut(u.User.String(), ":"); ok && written != password {
			s.AddWhole(written)
		}
	}
}

// Clean returns a text without the secrets.
func (s Secrets) Clean(text string) string {
	for _, secret := range s {
		text = strings.ReplaceAll(text, secret, "[redacted]")
	}
	return text
}

// Error returns err, or what stands for it if its text has a secret.
func (s Secrets) Error(err error) error {
	text := err.Error()
	clean := s.Clean(text)
	if clean == text {
		return err
	}
	return &redacted{clean, err}
}

// redacted is an error whose text held a secret. What it stands for can be asked
// for with errors.Is, but not got at.
type redacted struct {
	text string
	err  error
}

func (e *redacted) Error() string { return e.text }

// Is reports whether the error is, or wraps, another.
func (e *redacted) Is(target error) bool { return errors.Is(e.err, target) }
