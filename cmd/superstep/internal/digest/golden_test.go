package digest

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files")

// digestFolder takes all steps but the last.
func digestFolder(t testing.TB, root string) ([]Document, Corpus) {
	t.Helper()
	sources, err := Find(context.Background(), root, FindOptions{MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	var docs []Document
	for _, s := range sources {
		d, err := Analyse(context.Background(), s)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, d)
	}
	return docs, NewCorpus(docs, CorpusOptions{})
}

func checkGolden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got == string(want) {
		return
	}
	g, w := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Fatalf("%s, line %d:\n got %s\nwant %s\n(go test -update writes it anew)", name, i+1, g[i], w[i])
		}
	}
	t.Fatalf("%s: %d lines, want %d", name, len(g), len(w))
}

func TestGoldenReport(t *testing.T) {
	_, c := digestFolder(t, "testdata/handbook")
	checkGolden(t, "handbook.golden.md", Report(c, ReportOptions{
		Title: "Digest of the handbook", Folder: "./handbook", Date: time.Date(2026, 1, 15, 0, 0, 0, 0, time.UTC),
	}))
}
