package mcp_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/tool/mcp"
)

// Many servers are named by a URL with a key in it, and the HTTP client's errors
// quote the URL.
func TestNoErrorTellsASecretOfTheURLOrTheHeader(t *testing.T) {
	secret := func(what string, err error) {
		t.Helper()
		for e := err; e != nil; e = errors.Unwrap(e) {
			if text := fmt.Sprintf("%v %+v", e, e); strings.Contains(text, "hunter2") {
				t.Errorf("%s: %s", what, text)
			}
		}
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	header := http.Header{"Authorization": {"Bearer hunter2-token"}}
	_, err := mcp.Connect(t.Context(), mcp.Config{Transport: mcp.HTTP{URL: "http://u:hunter2@127.0.0.1:1/mcp?api_key=hunter2", Header: header}})
	secret("nobody there", err)
	_, err = mcp.Connect(t.Context(), mcp.Config{Transport: mcp.HTTP{URL: "http://127.0.0.1:1/mcp?api_key=hunter2%20x"}})
	secret("an escaped key", err)
	for _, status := range []int{401, 403, 404, 500, 503} {
		h := web(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "no "+r.Header.Get("Authorization")+" "+r.URL.RawQuery, status)
		}))
		h.URL += "/mcp?api_key=hunter2"
		h.Header = header
		_, err = mcp.Connect(t.Context(), mcp.Config{Transport: h})
		secret(fmt.Sprint(status), err)
	}
}

// A server of HTTPS that leads to the same host and port without encryption doesn't
// get the token there.
func TestARedirectToTheSameHostWithoutTLSGetsNoToken(t *testing.T) {
	var told []string
	says := func(status int, header http.Header) *http.Response {
		return &http.Response{StatusCode: status, Header: header, Body: http.NoBody}
	}
	client := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		told = append(told, r.URL.String()+" "+r.Header.Get("Authorization"))
		switch r.URL.Scheme + r.URL.Port() {
		case "https", "https443":
			return says(307, http.Header{"Location": {"http://tools.test:443/mcp"}}), nil
		}
		return says(500, nil), nil
	})}
	for _, at := range []string{"https://tools.test/mcp", "https://TOOLS.test:443/mcp"} {
		told = nil
		_, err := mcp.Connect(t.Context(), mcp.Config{Transport: mcp.HTTP{URL: at, Header: http.Header{"Authorization": {"Bearer x"}}, Client: client}})
		if err == nil || len(told) < 2 {
			t.Fatal(err, told)
		}
		for _, one := range told {
			if strings.HasPrefix(one, "https:") != strings.HasSuffix(one, " Bearer x") {
				t.Errorf("%s: %s", at, one)
			}
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
