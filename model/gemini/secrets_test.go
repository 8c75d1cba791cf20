package gemini_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/gemini"
)

// Whatever form an error is shown in, it tells no secret of the options: not even
// one that the server sends back, or that stands in the URL.
func TestNoErrorTellsASecretOfTheOptions(t *testing.T) {
	hides := func(what string, errs ...error) {
		t.Helper()
		for _, err := range errs {
			for _, s := range []string{"token-abc", "tok-def", "hunter2", key} {
				if text := fmt.Sprint(err); strings.Contains(text, s) {
					t.Errorf("%s: %q is told: %s", what, s, text)
				}
			}
		}
	}
	for name, body := range map[string]string{"an echo": `{"error":{"code":401,"status":"UNAUTHENTICATED","message":"no token-abc, tok-def, hunter2"}}`, "no body": "", "no JSON": "<p>token-abc hunter2"} {
		s := httptest.NewServer(reply(401, "application/json", []byte(body)))
		t.Cleanup(s.Close)
		m := gemini.New("m", gemini.APIKey(key), gemini.BaseURL(strings.Replace(s.URL, "http://", "http://me:hunter2@", 1)),
			gemini.Header("Authorization", "Bearer token-abc"), gemini.Header("X-Proxy-Token", "tok-def"))
		_, err := m.Generate(t.Context(), hello())
		e := check(t, err, model.ErrorAuth, "")
		hides(name, err, e.Err)
		for _, err := range m.Stream(t.Context(), hello()) {
			hides(name, err)
		}
	}
	for _, base := range []string{"me:hunter2@proxy.example.com", "http://me:hunter2@h:port", "ftp://me:hunter2@h", "mailto:me:hunter2@h"} {
		_, err := gemini.New("m", gemini.APIKey(key), gemini.BaseURL(base)).Generate(t.Context(), hello())
		hides(base, err)
	}
}
