package agenttest

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/superstep-dev/superstep/internal/jsondiff"
)

// masked stands for a secret.
const masked = "MASKED"

// minSecret is how long a secret must be to be looked for in other places than
// its own: shorter ones would take words out of conversations.
const minSecret = 8

// secretWords are those of the names of headers and parameters that hold secrets.
var secretWords = []string{
	"apikey", "auth", "authorization", "cookie", "credential", "credentials", "key", "password", "secret", "sig", "signature", "token",
}

// secretive reports whether a header or parameter of this name likely holds a
// secret: x-goog-api-key and accessToken do, keyword and max_tokens don't.
func secretive(name string) bool {
	var words []string
	var word []rune
	lower := false
	for _, r := range name + "-" {
		if !unicode.IsLetter(r) || lower && unicode.IsUpper(r) {
			words, word = append(words, string(word)), nil
		}
		if unicode.IsLetter(r) {
			word = append(word, unicode.ToLower(r))
		}
		lower = unicode.IsLower(r)
	}
	return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(secretWords, w) })
}

// secretMembers are the members of bodies that hold secrets.
var secretMembers = []string{
	"access_token", "refresh_token", "id_token", "client_secret", "client_assertion", "assertion",
	"api_key", "apikey", "password", "private_key",
}

// secrets are values that must not be on a tape. It is safe for concurrent use.
type secrets struct {
	mu     sync.Mutex
	values []string // the longest first
}

// add adds a value, in all the ways in which it may be written.
func (s *secrets) add(value string) {
	if value == "" {
		return
	}
	forms := map[string]bool{value: true, url.QueryEscape(value): true, url.PathEscape(value): true}
	if quoted, err := json.Marshal(value); err == nil {
		forms[string(quoted[1:len(quoted)-1])] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range slices.Sorted(maps.Keys(forms)) {
		if !slices.Contains(s.values, f) {
			s.values = append(s.values, f)
		}
	}
	slices.SortStableFunc(s.values, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
}

// hide masks the values in a text.
func (s *secrets) hide(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.values {
		text = strings.ReplaceAll(text, v, masked)
	}
	return text
}

func (s *secrets) long(value string) {
	if len(value) >= minSecret {
		s.add(value)
	}
}

// learnRequest finds the secrets of a request.
func (s *secrets) learnRequest(u *url.URL, h http.Header, body string) {
	if p, ok := u.User.Password(); ok {
		s.long(p)
	}
	s.members(u.Query(), secretive)
	for name, values := range h {
		if !secretive(name) {
			continue
		}
		for _, v := range values {
			s.long(v)
			s.long(v[strings.LastIndexByte(v, ' ')+1:]) // Bearer …
		}
	}
	r := http.Request{Header: h}
	if _, p, ok := r.BasicAuth(); ok {
		s.long(p)
	}
	for _, c := range r.Cookies() {
		s.long(c.Value)
	}
	s.learnBody(h, body)
}

// learnResponse finds the secrets of a response.
func (s *secrets) learnResponse(h http.Header, body string) {
	for _, c := range (&http.Response{Header: h}).Cookies() {
		s.long(c.Value)
	}
	s.learnBody(h, body)
}

// learnBody finds the secrets of a body: JSON or a form.
func (s *secrets) learnBody(h http.Header, body string) {
	if v, err := jsondiff.Decode(body); err == nil {
		s.walk(v)
	} else if strings.HasPrefix(h.Get("Content-Type"), "application/x-www-form-urlencoded") {
		if form, err := url.ParseQuery(body); err == nil {
			s.members(form, secretMember)
		}
	}
}

func secretMember(name string) bool { return slices.Contains(secretMembers, strings.ToLower(name)) }

func (s *secrets) members(v url.Values, secret func(name string) bool) {
	for name, values := range v {
		if secret(name) {
			for _, v := range values {
				s.long(v)
			}
		}
	}
}

func (s *secrets) walk(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			s.walk(e)
		}
	case map[string]any:
		for name, e := range v {
			if text, ok := e.(string); ok && secretMember(name) {
				s.long(text)
			}
			s.walk(e)
		}
	}
}
