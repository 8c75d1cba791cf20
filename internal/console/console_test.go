package console

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
)

func TestAskReadsLines(t *testing.T) {
	var out, errs bytes.Buffer
	c := New(strings.NewReader("maybe\nYES\nlast"), &out, &errs)
	yes, err := c.Confirm(t.Context(), "Go on?")
	if err != nil || !yes {
		t.Fatalf("Confirm = %v, %v; want yes", yes, err)
	}
	if want := "Go on? [y/n] Please answer yes or no.\nGo on? [y/n] "; errs.String() != want {
		t.Errorf("prompted %q, want %q", errs.String(), want)
	}
	if got, err := c.Ask(t.Context(), "? "); got != "last" || err != nil {
		t.Errorf("a last line without its end: %q, %v", got, err)
	}
	for range 2 {
		if _, err := c.Ask(t.Context(), "? "); !errors.Is(err, ErrNoAnswer) {
			t.Errorf("after the input's end: %v", err)
		}
	}
	if c.CanAsk() || c.OutTerminal() || c.ErrTerminal() {
		t.Error("a buffer is taken for a terminal")
	}
}

func TestAskEndsWithItsContext(t *testing.T) {
	r, w := newPipe(t)
	defer w.Close()
	c := New(r, &bytes.Buffer{}, &bytes.Buffer{})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ErrStopped)
	if _, err := c.Ask(ctx, "? "); !errors.Is(err, ErrStopped) {
		t.Errorf("error %v, want ErrStopped", err)
	}
}

func TestFit(t *testing.T) {
	for _, tt := range []struct {
		text  string
		width int
		want  string
	}{
		{"short", 10, "short"}, {"exactly", 7, "exactly"}, {"too long", 5, "too …"},
		{"新人研修", 8, "新人研修"}, {"新人研修", 7, "新人研…"}, {"新人研修", 6, "新人…"}, {"x", 0, ""}, {"xy", 1, "…"},
	} {
		if got := Fit(tt.text, tt.width); got != tt.want {
			t.Errorf("Fit(%q, %d) = %q, want %q", tt.text, tt.width, got, tt.want)
		}
	}
}

func TestClean(t *testing.T) {
	if got, want := Clean("a\x1b[31mb\n\tc\u202ed"), "a\ufffd[31mb\n\tc\ufffdd"; got != want {
		t.Errorf("Clean gives %q, want %q", got, want)
	}
}
