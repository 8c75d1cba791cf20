// Package studio is the web page on which people see and drive the graphs of a
// server: they run them, answer their questions, look at their history and go
// on from any point of it.
//
// The page uses the server's public API alone, by LangGraph's JavaScript SDK.
// Its sources are in the folder web and its built files in dist, which are
// committed, so that Go alone builds a program with the studio in it:
//
//	mux := http.NewServeMux()
//	mux.Handle("/studio/", studio.Handler("/studio/"))
//	mux.Handle("/", api)
package studio

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
)

//go:embed all:dist
var dist embed.FS

// page is the file that all paths show which name no other file.
const page = "index.html"

// file is a file of the studio in the forms in which it is sent.
type file struct {
	name    string
	data    []byte
	kind    string // content type
	tag     string // ETag
	forever bool   // its name changes with its content
	zipped  func() []byte
}

// types are the content types of the studio's files. What the machine thinks of
// file names doesn't matter.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".svg":  "image/svg+xml",
	".txt":  "text/plain; charset=utf-8",
}

// files reads the files of the studio. They are part of the program, so reading
// them cannot fail.
var files = sync.OnceValue(func() map[string]*file {
	out := map[string]*file{}
	_ = fs.WalkDir(dist, "dist", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := dist.ReadFile(p)
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(p, "dist/")
		out[name] = newFile(name, data)
		return nil
	})
	return out
})

func newFile(name string, data []byte) *file {
	kind, ok := types[path.Ext(name)]
	if !ok {
		if kind = mime.TypeByExtension(path.Ext(name)); kind == "" {
			kind = "application/octet-stream"
		}
	}
	sum := sha256.Sum256(data)
	return &file{
		name: name, data: data, kind: kind, tag: hex.EncodeToString(sum[:12]), forever: strings.HasPrefix(name, "assets/"),
		zipped: sync.OnceValue(func() []byte {
			var b bytes.Buffer
			w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level exists
			_, _ = w.Write(data)                                  // to memory
			_ = w.Close()
			return b.Bytes()
		}),
	}
}

// Handler serves the studio below a prefix, such as "/studio/"; "" and "/" are
// the root. Paths below the prefix that name no file show the page, so that
// reloading it works wherever it is. Requests outside of the prefix are answered
// with 404.
//
// The page calls the API at the place that is as many levels above it as the
// prefix has: for "/studio/" at the root of the same origin. The query parameter
// apiUrl of the page's address names another server, whose origin the page is
// then allowed to call; it may call no other. The handler is safe for concurrent
// use and reads no file of the disk.
func Handler(prefix string) http.Handler {
	prefix = "/" + strings.Trim(prefix, "/")
	if prefix != "/" {
		prefix += "/"
	}
	up := strings.Repeat("../", strings.Count(prefix, "/")-1)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Content-Security-Policy", policy(r.URL.Query().Get("apiUrl")))
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
			return
		}
		if r.URL.Path+"/" == prefix { // what is relative to the page needs the slash
			to := path.Base(strings.TrimSuffix(prefix, "/")) + "/"
			if r.URL.RawQuery != "" {
				to += "?" + r.URL.RawQuery
			}
			h.Set("Location", to)
			w.WriteHeader(http.StatusMovedPermanently)
			return
		}
		name, ok := strings.CutPrefix(r.URL.Path, prefix)
		if !ok {
			http.NotFound(w, r)
			return
		}
		f := files()[name]
		switch {
		case f != nil && name != page:
		case strings.HasPrefix(name, "assets/"): // of another version: the page instead would be taken for a script
			http.NotFound(w, r)
			return
		default:
			f = pageAt(strings.Count(name, "/"), up)
		}
		f.send(w, r)
	})
}

// pageAt is the page as it is shown some levels below the prefix, with the way
// to the studio's files and from there to the API.
func pageAt(depth int, up string) *file {
	base := strings.Repeat("../", depth)
	if base == "" {
		base = "./"
	}
	if up == "" {
		up = "./"
	}
	head := `<head><base href="` + base + `"><meta name="superstep-api" content="` + up + `">`
	return newFile(page, bytes.Replace(files()[page].data, []byte("<head>"), []byte(head), 1))
}

// policy is what the page may load and call: its own origin, and the API that its
// address names.
func policy(api string) string {
	connect := "'self'"
	if u, err := url.Parse(api); err == nil && (u.Scheme == "http" || u.Scheme == "https") && plainHost(u.Host) {
		connect += " " + u.Scheme + "://" + u.Host
	}
	return "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src data: blob:; font-src 'self'; connect-src " + connect +
		"; base-uri 'self'; form-action 'none'; frame-ancestors 'none'"
}

// plainHost reports whether a host can stand in a policy as it is.
func plainHost(host string) bool {
	return host != "" && strings.IndexFunc(host, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(".-:[]", r))
	}) < 0
}

func (f *file) send(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Cache-Control", "no-cache")
	if f.forever {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	h.Add("Vary", "Accept-Encoding")
	data, tag := f.data, `"`+f.tag+`"`
	if len(data) > 1024 && acceptsGzip(r.Header.Get("Accept-Encoding")) {
		h.Set("Content-Encoding", "gzip")
		data, tag = f.zipped(), `"`+f.tag+`-gzip"`
	}
	h.Set("ETag", tag)
	for have := range strings.SplitSeq(r.Header.Get("If-None-Match"), ",") {
		if have = strings.TrimPrefix(strings.TrimSpace(have), "W/"); have == tag || have == "*" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	h.Set("Content-Length", strconv.Itoa(len(data)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(data) // who doesn't read it has gone
	}
}

// acceptsGzip reports whether a client takes gzip.
func acceptsGzip(accept string) bool {
	for coding := range strings.SplitSeq(accept, ",") {
		name, params, _ := strings.Cut(coding, ";")
		if strings.TrimSpace(name) != "gzip" {
			continue
		}
		q, ok := strings.CutPrefix(strings.TrimSpace(params), "q=")
		if !ok {
			return true
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(q), 64)
		return err == nil && v > 0
	}
	return false
}
