package textdiff

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestLines(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"", "", ""},
		{"a\n", "a\n", ""},
		{"", "a\nb\n", "+a|+b"},
		{"a\nb\n", "", "-a|-b"},
		{"a\nb\nc\n", "a\nx\nc\n", " a|-b|+x| c"},
		{"a\n", "a", "-a|+a (no line break at the end)"},
		{"1\n2\n3\n4\n5\n6\n", "1\n2\n3\n4\n5\nsix\n", "@@ line 5 @@| 5|-6|+six"},
		{"a\n1\n2\n3\n4\nb\n", "A\n1\n2\n3\n4\nB\n", "-a|+A| 1|@@ line 5 @@| 4|-b|+B"},
	} {
		if got := strings.Join(Lines(c.from, c.to, 1), "|"); got != c.want {
			t.Errorf("%q to %q: %s, want %s", c.from, c.to, got, c.want)
		}
	}
}

// What is shown is all that changes: with the whole text around it, the lines
// without - are the new text and those without + the old one.
func TestLinesAreTheTexts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	text := func() string {
		var b strings.Builder
		for range r.IntN(12) {
			fmt.Fprintf(&b, "%d\n", r.IntN(4))
		}
		return b.String()
	}
	for range 2000 {
		from, to := text(), text()
		if from == to {
			continue
		}
		var a, b strings.Builder
		for _, l := range Lines(from, to, 100) {
			if l[0] != '+' {
				a.WriteString(l[1:] + "\n")
			}
			if l[0] != '-' {
				b.WriteString(l[1:] + "\n")
			}
		}
		if a.String() != from || b.String() != to {
			t.Fatalf("%q to %q is shown as %q", from, to, Lines(from, to, 100))
		}
	}
	large := strings.Repeat("a\n", 3000)
	if got := Lines(large, strings.Repeat("b\n", 3000), 1); len(got) != 6000 {
		t.Errorf("%d lines", len(got))
	}
}
