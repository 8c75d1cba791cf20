// Package site makes a site of the documentation: the pages of package docs in HTML, with
// navigation, a search that needs no network, colours for code, light and dark. It is made
// from the Markdown when it is first asked for, so that nothing can be out of date, and
// looks the same below any path:
//
//	mux.Handle("/docs/", site.Handler("/docs/"))
//
// [Write] writes the same files into a folder, for any web server.
package site

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/docs"
)

//go:embed page.html assets
var parts embed.FS

// file is a file of the site in the forms in which it is sent.
type file struct {
	data   []byte
	kind   string // content type
	tag    string // ETag
	zipped func() []byte
}

// kinds are the content types of the site's files.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".json": "application/json",
	".css":  "text/css; charset=utf-8",
	".svg":  "image/svg+xml",
	".png":  "image/png",
	".txt":  "text/plain; charset=utf-8",
	".md":   "text/markdown; charset=utf-8",
}

func newFile(name string, data []byte) *file {
	sum := sha256.Sum256(data)
	return &file{
		data: data, kind: kinds[path.Ext(name)],
		tag: `W/"` + hex.EncodeToString(sum[:12]) + `"`, // weak: of the content, compressed or not
		zipped: sync.OnceValue(func() []byte {
			var b bytes.Buffer
			w := gzip.NewWriter(&b)
			_, _ = w.Write(data) // to memory
			_ = w.Close()
			return b.Bytes()
		}),
	}
}

// built are the files of the site by their names. What they are made of is part of the
// program, and tests make them.
var built = sync.OnceValues(build)

func build() (map[string]*file, error) {
	files := map[string]*file{}
	add := func(name string, data []byte) { files[name] = newFile(name, data) }
	for _, from := range []struct {
		fs    fs.FS
		under string
	}{{docs.Files, "pictures"}, {parts, "assets"}} {
		err := fs.WalkDir(from.fs, from.under, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := fs.ReadFile(from.fs, name)
			add(name, data)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	layout, err := parts.ReadFile("page.html")
	if err != nil {
		return nil, err
	}
	index, err := docs.Files.ReadFile("README.md")
	if err != nil {
		return nil, err
	}
	kinds, err := contents(index)
	if err != nil {
		return nil, err
	}
	var found []section
	names := []string{"README.md"}
	for _, k := range kinds {
		for _, e := range k.entries {
			names = append(names, e.page)
		}
	}
	for i, name := range names {
		source, err := docs.Files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("site: README.md lists a page that isn't there: %w", err)
		}
		p := render(name, source)
		found = append(found, p.sections...)
		add(address(name), p.fill(string(layout), kinds, names, i))
		add(name, source)
	}
	search, err := json.Marshal(found)
	if err != nil {
		return nil, err
	}
	add("search.json", search)
	return files, nil
}

// policy lets pages load what is theirs, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Handler serves the site below a prefix, such as "/docs/"; "" and "/" are the root. All
// links are relative, so that a proxy may put more in front of it. A page is at its name
// with .html, and its source beside it, with .md. Requests outside of the prefix, and for
// what isn't there, are answered with 404. The handler is safe for concurrent use.
func Handler(prefix string) http.Handler {
	prefix = "/" + strings.Trim(prefix, "/")
	if prefix != "/" {
		prefix += "/"
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Content-Security-Policy", policy)
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
			return
		}
		if r.URL.Path+"/" == prefix { // what is relative to a page needs the slash
			h.Set("Location", path.Base(prefix)+"/")
			w.WriteHeader(http.StatusMovedPermanently)
			return
		}
		files, err := built()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		name, ok := strings.CutPrefix(r.URL.Path, prefix)
		if name == "" {
			name = home
		}
		f := files[name]
		if !ok || f == nil {
			http.NotFound(w, r)
			return
		}
		h.Set("Content-Type", f.kind)
		h.Set("Cache-Control", "no-cache")
		h.Set("ETag", f.tag)
		h.Add("Vary", "Accept-Encoding")
		data := f.data
		if acceptsGzip(r.Header.Get("Accept-Encoding")) && f.kind != kinds[".png"] {
			h.Set("Content-Encoding", "gzip")
			data = f.zipped()
		}
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(data))
	})
}

func acceptsGzip(accept string) bool {
	for coding := range strings.SplitSeq(accept, ",") {
		name, q, weighed := strings.Cut(strings.ReplaceAll(coding, " ", ""), ";")
		if name == "gzip" {
			return !weighed || strings.Trim(q, "q=0.") != ""
		}
	}
	return false
}

// Write writes the site into a folder, which is made if it isn't there. Files of the same
// names are replaced; others stay.
func Write(dir string) error {
	files, err := built()
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, files[name].data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
