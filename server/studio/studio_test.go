package studio

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// get asks a handler for a path.
func get(t *testing.T, prefix, path string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	Handler(prefix).ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	data, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestThePageSaysWhereItsFilesAndTheAPIAre(t *testing.T) {
	for _, c := range []struct{ prefix, path, base, api string }{
		{"/studio/", "/studio/", "./", "../"},
		{"studio", "/studio/", "./", "../"},
		{"/studio/", "/studio/index.html", "./", "../"},
		{"/studio/", "/studio/threads/x", "../", "../"},
		{"/a/b", "/a/b/", "./", "../../"},
		{"", "/", "./", "./"},
		{"/", "/deep/down/here", "../../", "./"},
	} {
		r := get(t, c.prefix, c.path)
		page := body(t, r)
		if r.StatusCode != http.StatusOK || r.Header.Get("Content-Type") != "text/html; charset=utf-8" {
			t.Errorf("%s below %q: %s, %s", c.path, c.prefix, r.Status, r.Header.Get("Content-Type"))
		}
		if want := `<head><base href="` + c.base + `"><meta name="superstep-api" content="` + c.api + `">`; !strings.Contains(page, want) {
			t.Errorf("%s below %q lacks %s", c.path, c.prefix, want)
		}
		if r.Header.Get("Cache-Control") != "no-cache" || r.Header.Get("ETag") == "" {
			t.Errorf("%s below %q: the page must be asked for again: %v", c.path, c.prefix, r.Header)
		}
	}
}

var named = regexp.MustCompile(`(?:src|href)="\./([^"]+)"`)

func TestAllFilesThatThePageNamesAreThere(t *testing.T) {
	found := named.FindAllStringSubmatch(body(t, get(t, "/studio/", "/studio/")), -1)
	if len(found) < 3 {
		t.Fatalf("the page names %v: build it with npm run build", found)
	}
	kinds := map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
	for _, f := range found {
		r := get(t, "/studio/", "/studio/"+f[1])
		if r.StatusCode != http.StatusOK || r.Header.Get("Content-Type") != kinds[f[1][strings.LastIndexByte(f[1], '.'):]] || len(body(t, r)) == 0 {
			t.Errorf("%s: %s, %s", f[1], r.Status, r.Header.Get("Content-Type"))
		}
		if forever := strings.Contains(r.Header.Get("Cache-Control"), "immutable"); forever != strings.HasPrefix(f[1], "assets/") {
			t.Errorf("%s: Cache-Control: %s", f[1], r.Header.Get("Cache-Control"))
		}
	}
}

func TestFilesAreCompressedForThoseWhoTakeIt(t *testing.T) {
	script := named.FindStringSubmatch(body(t, get(t, "", "/")))[1]
	for name := range files() {
		if strings.HasSuffix(name, ".js") && len(files()[name].data) > 100_000 {
			script = name
		}
	}
	plain := get(t, "", "/"+script)
	for _, accept := range []string{"gzip", "br, gzip;q=0.5"} {
		zipped := get(t, "", "/"+script, "Accept-Encoding", accept)
		if zipped.Header.Get("Content-Encoding") != "gzip" || zipped.Header.Get("ETag") == plain.Header.Get("ETag") {
			t.Fatalf("%q: %v", accept, zipped.Header)
		}
		z, err := gzip.NewReader(zipped.Body)
		if err != nil {
			t.Fatal(err)
		}
		if data, err := io.ReadAll(z); err != nil || string(data) != string(files()[script].data) {
			t.Errorf("%q: other bytes come back (%v)", accept, err)
		}
	}
	for _, accept := range []string{"", "br", "gzip;q=0"} {
		if r := get(t, "", "/"+script, "Accept-Encoding", accept); r.Header.Get("Content-Encoding") != "" || body(t, r) != string(files()[script].data) {
			t.Errorf("%q: %v", accept, r.Header)
		}
	}
}

func TestWhoHasAFileIsNotSentItAgain(t *testing.T) {
	tag := get(t, "", "/").Header.Get("ETag")
	for _, have := range []string{tag, "W/" + tag, `"other", ` + tag} {
		if r := get(t, "", "/", "If-None-Match", have); r.StatusCode != http.StatusNotModified || body(t, r) != "" {
			t.Errorf("%s: %s", have, r.Status)
		}
	}
	if r := get(t, "", "/", "If-None-Match", `"other"`); r.StatusCode != http.StatusOK {
		t.Error(r.Status)
	}
}

func TestWhatIsNoPartOfTheStudio(t *testing.T) {
	for path, status := range map[string]int{
		"/elsewhere": http.StatusNotFound, "/studio/assets/old-0000.js": http.StatusNotFound, "/studios": http.StatusNotFound, "/studio": http.StatusMovedPermanently,
	} {
		if r := get(t, "/studio/", path); r.StatusCode != status {
			t.Errorf("%s: %s", path, r.Status)
		}
	}
	if r := get(t, "/a/studio/", "/a/studio?apiUrl=x"); r.Header.Get("Location") != "studio/?apiUrl=x" {
		t.Errorf("without its slash it leads to %q", r.Header.Get("Location"))
	}
	w := httptest.NewRecorder()
	Handler("").ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
	w = httptest.NewRecorder()
	Handler("").ServeHTTP(w, httptest.NewRequest(http.MethodHead, "/", nil))
	if w.Code != http.StatusOK || w.Body.Len() != 0 || w.Header().Get("Content-Length") == "0" {
		t.Errorf("HEAD: %d, %d bytes, %v", w.Code, w.Body.Len(), w.Header())
	}
}

func TestThePageMayCallNothingButItsAPI(t *testing.T) {
	for query, connect := range map[string]string{
		"":                              "'self'",
		"?apiUrl=http://127.0.0.1:8123": "'self' http://127.0.0.1:8123",
		"?apiUrl=https://[::1]:1/path":  "'self' https://[::1]:1",
		"?apiUrl=https://a.example%3B+script-src": "'self'",
		"?apiUrl=javascript:alert(1)":             "'self'",
		"?apiUrl=https://user@a.example":          "'self' https://a.example",
		"?apiUrl=*":                               "'self'",
		"?apiUrl=https://*":                       "'self'",
	} {
		policy := get(t, "", "/"+query).Header.Get("Content-Security-Policy")
		if !strings.Contains(policy, "; connect-src "+connect+";") || !strings.HasPrefix(policy, "default-src 'none'; script-src 'self'; style-src 'self';") {
			t.Errorf("%s: %s", query, policy)
		}
	}
}
