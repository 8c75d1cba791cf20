package vendor

import (
	"fmt"
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
	if i := strings.LastIndexByte(secret, ' '); i >= 0 {
		secret = secret[i+1:]
	}
	if secret != "" {
		*s = append(*s, secret)
		// The longest first: what another is a part of must not be left in pieces.
		slices.SortStableFunc(*s, func(a, b string) int { return len(b) - len(a) })
	}
}

// AddHeader adds the value of a header whose name says that it is secret.
func (s *Secrets) AddHeader(name, value string) {
	if secretive(name) {
		s.Add(value)
	}
}

// secretive reports whether a header of this name likely holds a secret.
func secretive(header string) bool {
	header = strings.ToLower(header)
	return slices.ContainsFunc([]string{"auth", "key", "token", "cookie", "secret"}, func(part string) bool { return strings.Contains(header, part) })
}

// AddURL adds the password of a URL, as it is and as it is written there.
func (s *Secrets) AddURL(u *url.URL) {
	if password, ok := u.User.Password(); ok {
		s.Add(password)
		if _, written, ok := strings.Cut(u.User.String(), ":"); ok && written != password {
			s.Add(written)
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

// parseBase parses the URL of a server. The words for what is wrong with it tell no
// password; they are empty if nothing is.
func parseBase(base string) (u *url.URL, wrong string) {
	u, err := url.Parse(base)
	switch {
	case err != nil: // the parser's error quotes the URL, which may hold a password
		return nil, "the base URL can't be parsed as a URL"
	case (u.Scheme != "http" && u.Scheme != "https" || u.Host == "") && strings.Contains(u.Opaque, "@"):
		return nil, "the base URL is not an http or https URL"
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, fmt.Sprintf("the base URL %q is not an http or https URL", u.Redacted())
	case u.RawQuery != "" || u.Fragment != "":
		return nil, "the base URL may not have a query or a fragment"
	}
	return u, ""
}
