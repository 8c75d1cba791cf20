package site_test

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/docs"
	"github.com/superstep-dev/superstep/docs/site"
)

func get(t *testing.T, h http.Handler, target string, headers ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, target, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
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

var (
	anchors = regexp.MustCompile(` id="([^"]+)"`)
	targets = regexp.MustCompile(` (?:href|src)="([^"]+)"`)
)

const source = "https://github.com/superstep-dev/superstep/blob/main/"

// Every link of the site leads to a page that is there and to a heading that it has, or to
// a file of the repository.
func TestEveryLinkLeadsSomewhere(t *testing.T) {
	dir := t.TempDir()
	if err := site.Write(dir); err != nil {
		t.Fatal(err)
	}
	pages := map[string]string{}
	files, err := filepath.Glob(filepath.Join(dir, "*.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pages[filepath.Base(file)] = string(data)
	}
	has := func(page, anchor string) bool {
		for _, m := range anchors.FindAllStringSubmatch(pages[page], -1) {
			if m[1] == anchor {
				return true
			}
		}
		return false
	}
	leads := 0
	for name, text := range pages {
		for _, m := range targets.FindAllStringSubmatch(text, -1) {
			to, err := url.Parse(m[1])
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			file := strings.TrimPrefix(to.Path, "./")
			switch in, ok := strings.CutPrefix(m[1], source); {
			case ok:
				leads++
				in, _, _ = strings.Cut(in, "#")
				if _, err := os.Stat(filepath.Join("../..", in)); err != nil {
					t.Errorf("%s links to %s: %v", name, m[1], err)
				}
			case to.IsAbs():
			case strings.HasPrefix(m[1], "#"):
				if !has(name, to.Fragment) {
					t.Errorf("%s has no %s", name, m[1])
				}
			default:
				if file == "" {
					file = "index.html"
				}
				if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
					t.Errorf("%s links to %s: %v", name, m[1], err)
				} else if to.Fragment != "" && !has(file, to.Fragment) {
					t.Errorf("%s links to %s, which has no such heading", name, m[1])
				}
			}
		}
	}
	if leads < 2*len(pages) {
		t.Errorf("%d links into the source in %d pages", leads, len(pages))
	}
}

// A page is found by the index or not at all.
func TestTheIndexListsEveryPageOnce(t *testing.T) {
	index, err := docs.Files.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, m := range regexp.MustCompile(`(?m)^- \[[^\]]+\]\(([\w-]+\.md)\)`).FindAllStringSubmatch(string(index), -1) {
		listed = append(listed, m[1])
	}
	slices.Sort(listed)
	there, err := fs.Glob(docs.Files, "*.md")
	if err != nil {
		t.Fatal(err)
	}
	there = slices.DeleteFunc(there, func(name string) bool { return name == "README.md" })
	if !slices.Equal(listed, there) {
		t.Errorf("README.md lists\n%q\nthere are\n%q", listed, there)
	}
	for _, kind := range []string{"Path", "How-to", "Reference", "Explanation"} {
		if !strings.Contains(string(index), "\n## "+kind+"\n\n- [") {
			t.Errorf("README.md has no list of the kind %s", kind)
		}
	}
}

func TestThePagesAreAtAnyPrefix(t *testing.T) {
	for _, prefix := range []string{"/docs/", "/a/b", "", "/"} {
		h := site.Handler(prefix)
		at := "/" + strings.Trim(prefix, "/")
		if at != "/" {
			if r := get(t, h, at); r.StatusCode != http.StatusMovedPermanently || r.Header.Get("Location") != path.Base(at)+"/" {
				t.Errorf("%q: %d, to %q", prefix, r.StatusCode, r.Header.Get("Location"))
			}
			if r := get(t, h, "/other"); r.StatusCode != http.StatusNotFound {
				t.Errorf("%q outside: %d", prefix, r.StatusCode)
			}
			at += "/"
		}
		for name, want := range map[string]string{
			"": "Superstep documentation</h1>", "concepts.html": `<h2 id="field">Field</h2>`, "concepts.md": "# Concepts", "assets/site.css": "--accent", "pictures/studio-chat.png": "PNG",
		} {
			r := get(t, h, at+name)
			if r.StatusCode != http.StatusOK || !strings.Contains(body(t, r), want) {
				t.Errorf("%s%s: %d, without %q", at, name, r.StatusCode, want)
			}
			if p := r.Header.Get("Content-Security-Policy"); !strings.Contains(p, "script-src 'self';") || r.Header.Get("Content-Type") == "" {
				t.Errorf("%s: %q", name, r.Header)
			}
		}
		if r := get(t, h, at+"nothing.html"); r.StatusCode != http.StatusNotFound {
			t.Errorf("nothing.html: %d", r.StatusCode)
		}
	}
}

func TestAPageIsSentOnceAndCompressed(t *testing.T) {
	h := site.Handler("/docs/")
	plain := get(t, h, "/docs/concepts.html")
	zipped := get(t, h, "/docs/concepts.html", "Accept-Encoding", "br, gzip")
	z, err := gzip.NewReader(zipped.Body)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil || string(data) != body(t, plain) {
		t.Errorf("compressed it is another page: %v", err)
	}
	for accept, want := range map[string]string{"gzip;q=0": "", "gzip; q=0.5": "gzip", "identity": ""} {
		if got := get(t, h, "/docs/", "Accept-Encoding", accept).Header.Get("Content-Encoding"); got != want {
			t.Errorf("Accept-Encoding %q: %q", accept, got)
		}
	}
	if r := get(t, h, "/docs/concepts.html", "If-None-Match", plain.Header.Get("ETag")); r.StatusCode != http.StatusNotModified {
		t.Errorf("a page that the browser has: %d", r.StatusCode)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/docs/", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
}

// What is read on the page is searched for: the text of each section, at its heading.
func TestTheSearchKnowsEverySection(t *testing.T) {
	h := site.Handler("/")
	var sections []struct{ Page, Heading, URL, Text string }
	if err := json.Unmarshal([]byte(body(t, get(t, h, "/search.json"))), &sections); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, s := range sections {
		if seen[s.URL] || s.Page == "" || s.Heading == "" {
			t.Errorf("%+v is there twice, or has no title", s)
		}
		seen[s.URL] = true
		name, anchor, _ := strings.Cut(s.URL, "#")
		if text := body(t, get(t, h, "/"+name)); anchor != "" && !strings.Contains(text, ` id="`+anchor+`"`) {
			t.Errorf("%s has no such heading", s.URL)
		}
	}
	at := slices.IndexFunc(sections, func(s struct{ Page, Heading, URL, Text string }) bool {
		return s.URL == "tutorial.html#fields-that-merge"
	})
	if at < 0 || sections[at].Page != "Tutorial" || sections[at].Heading != "Fields that merge" || !strings.Contains(sections[at].Text, `b := graph.New[Article]("conflict")`) {
		t.Errorf("the section of the tutorial is not found whole, at %d", at)
	}
}
