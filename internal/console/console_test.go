package console

import (
	"bytes"
	"context"
	"errors"
	"os"
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
	for _, tt := range []struct{ name, text, want string }{
		{"escapes", "a\x1b[31mb\n\tc", "a\ufffd[31mb\n\tc"},
		{"C1 controls", "a\u009b31mb", "a\ufffd31mb"},
		{"embeddings and overrides", "\u202aa\u202bb\u202cc\u202dd\u202e", "\ufffda\ufffdb\ufffdc\ufffdd\ufffd"},
		{"isolates", "\u2066a\u2067b\u2068c\u2069", "\ufffda\ufffdb\ufffdc\ufffd"},
		{"marks", "pay 1\u200f-2 to 3\u061c/4\u200e", "pay 1\ufffd-2 to 3\ufffd/4\ufffd"},
		{"what is not ASCII", "שלום, مرحبا, naïve, 日本, \u200d\u200c👩\u200d💻", "שלום, مرحبا, naïve, 日本, \u200d\u200c👩\u200d💻"},
	} {
		if got := Clean(tt.text); got != tt.want {
			t.Errorf("%s: Clean gives %q, want %q", tt.name, got, tt.want)
		}
	}
}

// What is said of a signal is true when it is said: nothing starts after
// "stopping at the end of this step".
func TestStopsSaysWhatIsDone(t *testing.T) {
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan bool)
	armed := make(chan struct{})
	var drain <-chan struct{}
	ctx, drained, end := Stops(t.Context(), func(second bool) {
		<-armed
		select {
		case <-drain:
		default:
			t.Errorf("said (second %v) before the run was drained", second)
		}
		heard <- second
	})
	drain = drained
	close(armed)
	defer end()
	for _, second := range []bool{false, true} {
		if err := self.Signal(os.Interrupt); err != nil {
			t.Skip("NOT TESTED: a process cannot interrupt itself here:", err)
		}
		if got := <-heard; got != second {
			t.Errorf("said of the second signal: %v, want %v", got, second)
		}
	}
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, ErrStopped) {
		t.Errorf("cause %v, want ErrStopped", cause)
	}
}
