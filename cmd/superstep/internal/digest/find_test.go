package digest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
)

// writeTree writes files below a new folder and returns it.
func writeTree(t testing.TB, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// listing writes sources as "id" or "id: reason".
func listing(sources []Source) []string {
	var out []string
	for _, s := range sources {
		line := s.ID
		if s.Skip != "" {
			line += ": " + string(s.Skip)
		}
		out = append(out, line)
	}
	return out
}

func TestFind(t *testing.T) {
	root := writeTree(t, map[string]string{
		"b.md": "b", "a-b.txt": "x", "a/z.rst": "z", "a/README": "r", "A.ORG": "o", "c.adoc": "c", "d.markdown": "d",
		"main.go": "package main", "LICENSE": "free", "page.html": "<p>",
		".hidden.md": "x", ".git/HEAD.md": "x", "a/.obsidian/x.md": "x",
		"node_modules/m/README.md": "x", "a/vendor/v.md": "x",
		"big.txt": strings.Repeat("long ", 300), "image.txt": "\x89PNG\r\n", "zero.txt": "a\x00b", "control.txt": "\x01\x02\x03abc",
		"wide.txt": "\xff\xfeh\x00i\x00", "latin.txt": "caf\xe9", "empty.md": "",
	})
	got, err := Find(context.Background(), root, FindOptions{MaxBytes: 1000})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"A.ORG", "a-b.txt", "a/README", "a/vendor: dependency folder", "a/z.rst", "b.md", "big.txt: too large", "c.adoc",
		"control.txt: not text", "d.markdown", "empty.md", "image.txt: not text", "latin.txt", "node_modules: dependency folder",
		"wide.txt", "zero.txt: not text",
	}
	if !reflect.DeepEqual(listing(got), want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(listing(got), "\n"), strings.Join(want, "\n"))
	}
	for _, s := range got {
		if s.ID == "big.txt" && (s.Size != 1500 || s.Detail != "1.5 KiB, the limit is 1000 bytes" && s.Detail != "1.5 KiB, the limit is 1,000 bytes") {
			t.Errorf("big.txt: %+v", s)
		}
		if s.ID == "image.txt" && s.Detail != "a PNG image" {
			t.Errorf("image.txt: %+v", s)
		}
		data, err := json.Marshal(s)
		var back Source
		if err != nil || json.Unmarshal(data, &back) != nil || back != s {
			t.Errorf("%+v does not survive JSON: %s", s, data)
		}
	}
}

func TestFindSymlinks(t *testing.T) {
	root := writeTree(t, map[string]string{"a.md": "a", "sub/b.md": "b"})
	outside := writeTree(t, map[string]string{"secret.md": "s"})
	for link, target := range map[string]string{
		"loop": ".", "sub/up": "..", "self": "self", "other.md": "a.md", "out.md": filepath.Join(outside, "secret.md"), "away": outside, "gone.md": "nowhere",
	} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Skip(err)
		}
	}
	want := []string{"a.md", "away: symbolic link", "gone.md: symbolic link", "loop: symbolic link", "other.md: symbolic link",
		"out.md: symbolic link", "sub/b.md", "sub/up: symbolic link"}
	got, err := Find(context.Background(), root, FindOptions{})
	if err != nil || !reflect.DeepEqual(listing(got), want) {
		t.Errorf("got %q, %v; want %q", listing(got), err, want)
	}

	// The root itself may be a link.
	alias := filepath.Join(t.TempDir(), "alias")
	if err := os.Symlink(root, alias); err != nil {
		t.Fatal(err)
	}
	if got, err = Find(context.Background(), alias, FindOptions{}); err != nil || len(got) != len(want) {
		t.Errorf("through a link: %q, %v", listing(got), err)
	}
	// What was a file and is a link now is not followed.
	d, err := Analyse(context.Background(), Source{ID: "out.md", Root: root})
	if err != nil || d.Skip != SkipSpecial {
		t.Errorf("Analyse of a link: %+v, %v", d, err)
	}
	if d, err := Analyse(context.Background(), Source{ID: "away/secret.md", Root: root}); err == nil && d.Skip == "" {
		t.Errorf("Analyse left the root: %+v", d)
	}
	if d, err := Analyse(context.Background(), Source{ID: "../" + filepath.Base(outside) + "/secret.md", Root: root}); err == nil && d.Skip == "" {
		t.Errorf("Analyse left the root: %+v", d)
	}
}

func TestFindErrors(t *testing.T) {
	root := writeTree(t, map[string]string{
		"full/a.md": "a", "full/b.md": "b", "code/main.go": "x", "binary/a.txt": "\x00", "two/a.txt": "\x00", "two/b.txt": "\x00", "file.md": "x",
	})
	if err := os.Mkdir(filepath.Join(root, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		path string
		opts FindOptions
		kind error
		text string // part of the message
	}{
		{"missing", FindOptions{}, ErrMissing, "check the spelling"},
		{"file.md", FindOptions{}, ErrNotFolder, "name the folder that holds it: "},
		{"file.md/x", FindOptions{}, nil, ""},
		{"empty", FindOptions{}, ErrEmpty, "ending in .adoc"},
		{"code", FindOptions{}, ErrEmpty, "none of its 1 file"},
		{"binary", FindOptions{}, ErrEmpty, `it has one that must be skipped: "a.txt" (not text, binary content)`},
		{"two", FindOptions{}, ErrEmpty, "it has 2 that must be skipped, such as"},
		{"full", FindOptions{MaxBytes: -1}, ErrEmpty, "too large"},
		{"full", FindOptions{MaxFiles: 1}, ErrTooMany, "it has more than 1"},
	} {
		t.Run(tc.path, func(t *testing.T) {
			_, err := Find(context.Background(), filepath.Join(root, tc.path), tc.opts)
			e, ok := errors.AsType[*Error](err)
			if !ok || tc.kind != nil && !errors.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.text) || e.Fix == "" {
				t.Errorf("got %v, want %v with %q", err, tc.kind, tc.text)
			}
		})
	}
	if _, err := Find(context.Background(), "", FindOptions{}); !errors.Is(err, ErrMissing) {
		t.Errorf("no path: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Find(ctx, root, FindOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestFindUnreadable(t *testing.T) {
	if runtime.GOOS == "windows" || os.Getuid() == 0 {
		t.Skip("needs a user whom permissions stop")
	}
	root := writeTree(t, map[string]string{"a.md": "a", "b.md": "b", "sub/c.md": "c", "locked/d.md": "d"})
	for _, name := range []string{"b.md", "sub", "locked"} {
		file := filepath.Join(root, name)
		if err := os.Chmod(file, 0); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Chmod(file, 0o755) })
	}
	got, err := Find(context.Background(), root, FindOptions{})
	want := []string{"a.md", "b.md: cannot be read", "locked: cannot be read", "sub: cannot be read"}
	if err != nil || !reflect.DeepEqual(listing(got), want) {
		t.Errorf("got %q, %v", listing(got), err)
	}
	if _, err := Find(context.Background(), filepath.Join(root, "locked"), FindOptions{}); !errors.Is(err, ErrUnreadable) {
		t.Errorf("locked root: %v", err)
	}
}

func TestFindOddNames(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs a file system that takes any bytes as a name")
	}
	root := writeTree(t, map[string]string{"ok.md": "x", "bad\xff.md": "x", "dir\xff/a.md": "x", "line\nbreak.md": "x"})
	got, err := Find(context.Background(), root, FindOptions{})
	want := []string{"bad\uFFFD.md: file name is not UTF-8", "dir\uFFFD: file name is not UTF-8", "line\nbreak.md", "ok.md"}
	if err != nil || !reflect.DeepEqual(listing(got), want) {
		t.Errorf("got %q, %v", listing(got), err)
	}
}

func TestAnalyseChangedFiles(t *testing.T) {
	root := writeTree(t, map[string]string{"grown.md": strings.Repeat("x", 200), "binary.md": "\x00", "folder.md/x": "x"})
	ctx := context.Background()
	for id, want := range map[string]Skip{"gone.md": SkipGone, "grown.md": SkipTooLarge, "binary.md": SkipBinary, "folder.md": SkipSpecial} {
		d, err := Analyse(ctx, Source{ID: id, Root: root, Limit: 100})
		if err != nil || d.Skip != want || d.ID != id {
			t.Errorf("%s: %+v, %v; want %s", id, d, err, want)
		}
	}
	skipped := Source{ID: "x", Size: 9, Skip: SkipTooLarge, Detail: "why"}
	if d, err := Analyse(ctx, skipped); err != nil || !reflect.DeepEqual(d, Document{ID: "x", Size: 9, Skip: SkipTooLarge, Detail: "why"}) {
		t.Errorf("skipped: %+v, %v", d, err)
	}
	if _, err := Analyse(ctx, Source{ID: "x", Root: filepath.Join(root, "none")}); !errors.Is(err, ErrMissing) {
		t.Errorf("no root: %v", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := Analyse(ctx, Source{ID: "grown.md", Root: root}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// The order of the folder's entries plays no part, nor does when it is read.
func TestFindTwice(t *testing.T) {
	files := make(map[string]string)
	for i := range 60 {
		files[fmt.Sprintf("%c/%d.md", 'a'+i%7, i)] = "x"
	}
	root := writeTree(t, files)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	a, err := Find(ctx, root, FindOptions{})
	if err != nil || len(a) != 60 {
		t.Fatalf("%d, %v", len(a), err)
	}
	b, _ := Find(ctx, root, FindOptions{})
	if !reflect.DeepEqual(a, b) {
		t.Error("two listings differ")
	}
	for i := 1; i < len(a); i++ {
		if a[i-1].ID >= a[i].ID {
			t.Errorf("%s before %s", a[i-1].ID, a[i].ID)
		}
	}
}
