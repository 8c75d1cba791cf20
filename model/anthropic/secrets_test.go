package anthropic_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/anthropic"
)

// Whatever form an error is shown in, it tells no secret of the options: not even
// one that the server sends back, or that stands in the URL.
func TestNoErrorTellsASecretOfTheOptions(t *testing.T) {
	for name, body := range map[string]string{"an echo": `{"error":{"type":"authentication_error","message":"no token-abc, tok-def"}}`, "no body": ""} {
		m := serve(t, reply(401, "application/json", []byte(body)), anthropic.Header("Authorization", "Bearer token-abc"), anthropic.Header("X-Proxy-Token", "tok-def"))
		_, err := m.Generate(t.Context(), hello())
		e := check(t, err, model.ErrorAuth, "")
		hides(t, name, err, e.Err)
	}
	s := httptest.NewServer(reply(401, "text/plain", nil))
	t.Cleanup(s.Close)
	m := anthropic.New("m", anthropic.APIKey(key), anthropic.BaseURL(strings.Replace(s.URL, "http://", "http://me:hunter2@", 1)))
	_, err := m.Generate(t.Context(), hello())
	e := check(t, err, model.ErrorAuth, "")
	hides(t, "a password in the URL", err, e.Err)
	for _, base := range []string{"me:hunter2@proxy.example.com", "http://me:hunter2@h:port", "ftp://me:hunter2@h", "mailto:me:hunter2@h"} {
		_, err := anthropic.New("m", anthropic.APIKey(key), anthropic.BaseURL(base)).Generate(t.Context(), hello())
		hides(t, base, err)
	}
}

func hides(t *testing.T, what string, errs ...error) {
	t.Helper()
	for _, err := range errs {
		for _, s := range []string{"token-abc", "tok-def", "hunter2", key} {
			if text := fmt.Sprint(err); strings.Contains(text, s) {
				t.Errorf("%s: %q is told: %s", what, s, text)
			}
		}
	}
}
