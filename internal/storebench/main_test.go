package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The command measures what needs no server, and writes its tables into a page.
// SONI-35.
func TestTables(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("# Page\n\n"+begin+"old\n"+finish+"\nEnd.\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, only := range []string{"memory", "sqlite"} {
		if err := run(t.Context(), settings{duration: 5 * time.Millisecond, turns: 10, only: only, page: page, update: true}); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(page)
		text := string(data)
		if err != nil || strings.Contains(text, "old") || !strings.HasPrefix(text, "# Page\n\n"+begin) || !strings.HasSuffix(text, finish+"\nEnd.\n") {
			t.Fatalf("%v\n%s", err, text)
		}
		for _, want := range []string{"\n| " + only + " | ", "1024 threads", "bytes after pruning"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is not in\n%s", only, want, text)
			}
		}
	}
	if _, err := insert("no place", "x"); err == nil {
		t.Error("tables are put into a page that has no place for them")
	}
}

func TestNumbers(t *testing.T) {
	for d, want := range map[time.Duration]string{1500: "1.5 µs", 25 * time.Microsecond: "25 µs", 1500 * time.Microsecond: "1.5 ms", time.Second: "1000 ms"} {
		if got := span(d); got != want {
			t.Errorf("%d is written %q, want %q", d, got, want)
		}
	}
	for n, want := range map[float64]string{0: "0", 999: "999", 1234: "1,230", 99999: "100,000", 123456: "123,000"} {
		if got := count(n); got != want {
			t.Errorf("%v is written %q, want %q", n, got, want)
		}
	}
}
