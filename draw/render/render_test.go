package render_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/draw"
	"github.com/superstep-dev/superstep/draw/internal/drawtest"
	"github.com/superstep-dev/superstep/draw/render"
)

// fakeDot puts a shell script named dot in front of everything in PATH.
func fakeDot(t *testing.T, script string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the fake dot is a shell script")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "dot"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func TestGraphviz(t *testing.T) { // SYN-35
	fakeDot(t, `echo "args: $*"; cat`)
	got, err := render.Graphviz(t.Context(), drawtest.Linear(), "png", &draw.DOTOptions{Plain: true})
	if want := "args: -Tpng\n" + draw.DOT(drawtest.Linear()); err != nil || string(got) != want {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := render.Graphviz(t.Context(), drawtest.Linear(), "png -o/etc/passwd", nil); err == nil {
		t.Error("a format with an option in it is accepted")
	}
}

func TestGraphvizFails(t *testing.T) {
	fakeDot(t, `echo "syntax error in line 1" >&2; exit 3`)
	_, err := render.Graphviz(t.Context(), drawtest.Linear(), "svg", nil)
	var e *render.GraphvizError
	if !errors.As(err, &e) || e.Format != "svg" || e.Stderr != "syntax error in line 1" {
		t.Errorf("got %v", err)
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("the exit code is lost: %v", err)
	}
}

func TestGraphvizCancelled(t *testing.T) {
	fakeDot(t, "exec sleep 60")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := render.Graphviz(ctx, drawtest.Linear(), "svg", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestGraphvizWithoutGraphviz(t *testing.T) { // SYN-35
	t.Setenv("PATH", "")
	_, err := render.Graphviz(t.Context(), drawtest.Linear(), "png", nil)
	var e *render.GraphvizNotFoundError
	if !errors.As(err, &e) || !errors.Is(err, exec.ErrNotFound) ||
		!strings.Contains(err.Error(), "Graphviz") || !strings.Contains(err.Error(), "dot") {
		t.Errorf("got %v", err)
	}
}

// Graphviz itself reads what we write.
func TestGraphvizAccepts(t *testing.T) {
	if _, err := exec.LookPath("dot"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("CI needs Graphviz: ", err)
		}
		t.Skip("SKIPPED: Graphviz is not installed, so nothing checks that dot reads our text (apt-get install graphviz)")
	}
	for _, s := range drawtest.Samples() {
		for _, plain := range []bool{true, false} {
			got, err := render.Graphviz(t.Context(), s.Graph, "svg", &draw.DOTOptions{Plain: plain})
			if err != nil || !bytes.Contains(got, []byte("</svg>")) {
				t.Errorf("%s: %v", s.Name, err)
			}
			nodes := 2 + len(s.Graph.Nodes)
			if n := bytes.Count(got, []byte(`class="node"`)); s.Name == "nasty" && n != nodes {
				t.Errorf("nasty: Graphviz sees %d nodes, want %d", n, nodes)
			}
		}
	}
}

// ink is a server that speaks as mermaid.ink does.
func ink(t *testing.T, answer func(w http.ResponseWriter, kind, text string)) render.MermaidInk {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind, code, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/base/"), "/")
		if kind == "img" && r.URL.Query().Get("type") != "png" {
			http.Error(w, "this would be a JPEG", http.StatusTeapot)
			return
		}
		text, err := base64.URLEncoding.DecodeString(code)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer(w, kind, string(text))
	}))
	t.Cleanup(s.Close)
	return render.MermaidInk{BaseURL: s.URL + "/base/", Client: s.Client()}
}

func TestMermaidInk(t *testing.T) { // SYN-36
	g := drawtest.Nasty()
	m := ink(t, func(w http.ResponseWriter, kind, text string) {
		switch {
		case text != draw.Mermaid(g, nil):
			http.Error(w, "wrong text", http.StatusBadRequest)
		case kind == "img":
			w.Write([]byte("\x89PNG\r\n\x1a\npixels"))
		case kind == "svg":
			w.Write([]byte("<?xml version=\"1.0\"?>\n<!-- made here -->\n<svg xmlns=\"http://www.w3.org/2000/svg\"></svg>"))
		default:
			http.NotFound(w, nil)
		}
	})
	if b, err := m.PNG(t.Context(), g); err != nil || !bytes.HasSuffix(b, []byte("pixels")) {
		t.Errorf("PNG: %q, %v", b, err)
	}
	if b, err := m.SVG(t.Context(), g); err != nil || !bytes.HasSuffix(b, []byte("</svg>")) {
		t.Errorf("SVG: %q, %v", b, err)
	}
}

func TestMermaidInkFails(t *testing.T) { // SYN-36
	path := filepath.Join(t.TempDir(), "graph.png")
	save := func(m render.MermaidInk) error {
		b, err := m.PNG(t.Context(), drawtest.Linear())
		if err != nil {
			return err
		}
		return draw.WriteFile(path, b)
	}

	status := ink(t, func(w http.ResponseWriter, _, _ string) {
		http.Error(w, "out of\norder", http.StatusInternalServerError)
	})
	var e *render.MermaidInkError
	if err := save(status); !errors.As(err, &e) || e.StatusCode != 500 || !strings.Contains(err.Error(), "status 500") ||
		!strings.HasSuffix(err.Error(), "out of order") {
		t.Errorf("status: %v", err)
	}

	html := ink(t, func(w http.ResponseWriter, _, _ string) { w.Write([]byte("<html>log in first</html>")) })
	if err := save(html); !errors.As(err, &e) || !strings.Contains(err.Error(), "not a PNG picture") {
		t.Errorf("HTML for PNG: %v", err)
	}
	if _, err := html.SVG(t.Context(), drawtest.Linear()); !errors.As(err, &e) || !strings.Contains(err.Error(), "begins with <html>") {
		t.Errorf("HTML for SVG: %v", err)
	}
	empty := ink(t, func(http.ResponseWriter, string, string) {})
	if _, err := empty.SVG(t.Context(), drawtest.Linear()); !errors.As(err, &e) {
		t.Errorf("nothing for SVG: %v", err)
	}

	gone := httptest.NewServer(nil)
	gone.Close()
	if err := save(render.MermaidInk{BaseURL: gone.URL}); !errors.As(err, &e) || e.StatusCode != 0 || e.Unwrap() == nil {
		t.Errorf("refused: %v", err)
	}
	if err := save(render.MermaidInk{BaseURL: "::"}); !errors.As(err, &e) {
		t.Errorf("not a URL: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := status.PNG(ctx, drawtest.Linear()); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}

	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a failure left a file: %v", err)
	}
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "graph.svg")
	for _, text := range []string{"one", "two"} {
		if err := draw.WriteFile(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != text {
			t.Errorf("read %q, %v", b, err)
		}
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := draw.WriteFile(path, nil); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("the mode was not kept: %v, %v", info.Mode(), err)
	}
	if err := draw.WriteFile(filepath.Join(dir, "missing", "x"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	if err := draw.WriteFile(dir, []byte("x")); err == nil {
		t.Error("a directory was overwritten")
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}
