package pdf_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/retrieval"
	"github.com/superstep-dev/superstep/retrieval/pdf"
)

func Example() {
	ctx := context.Background()
	for d, err := range retrieval.LoadFS(ctx, os.DirFS("testdata"), retrieval.Loaders{".pdf": pdf.Load}, "*.pdf") {
		if err != nil {
			fmt.Println(err)
			return
		}
		chunks, err := retrieval.Splitter{}.Split(d)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, c := range chunks {
			fmt.Println(c.Title, c.Ref(), len(c.Text))
		}
	}
	// Output:
	// Handbook of the Depot handbook.pdf#page=1 269
	// Handbook of the Depot handbook.pdf#page=2 24
}

// A browser has printed the file.
func TestTheTextOfAPage(t *testing.T) {
	d, err := retrieval.LoadFile(t.Context(), "testdata/handbook.pdf", retrieval.Loaders{".pdf": pdf.Load})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Handbook\nTrams leave the depot at five in the morning. Bäume & Größe: “ligatures” efficient office\nfluffy.\n",
		"by the workshop; a brake that fails is\nreplaced the same night.\n\n",
		"\n7 12\n",
		"first\nsecond",
	} {
		if !strings.Contains(d.Text, want) {
			t.Errorf("%q isn't in %q", want, d.Text)
		}
	}
	if len(d.Sections) != 2 || d.Sections[1].Page != 2 || !strings.HasPrefix(d.Text[d.Sections[1].Start:], "Second page") {
		t.Errorf("sections %+v", d.Sections)
	}
}

// plain makes a PDF with a font that every reader knows, and what is drawn on its page.
func plain(drawn string) []byte {
	var b bytes.Buffer
	b.WriteString("%PDF-1.4\n")
	var at []int
	for i, o := range []string{
		"<< /Type /Catalog /Pages 2 0 R >>",
		"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
		"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] /Contents 4 0 R /Resources << /Font << /F 5 0 R >> >> >>",
		fmt.Sprintf("<< /Length %d >>\nstream\n%s\nendstream", len(drawn), drawn),
		"<< /Type /Font /Subtype /Type1 /BaseFont /Courier /FirstChar 32 /LastChar 126 /Widths [" + strings.Repeat("600 ", 95) + "] >>",
	} {
		at = append(at, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	start := b.Len()
	b.WriteString("xref\n0 6\n0000000000 65535 f \n")
	for _, n := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", n)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", start)
	return b.Bytes()
}

func TestWordsWithoutSpacesBetweenThemAreApart(t *testing.T) {
	d, err := pdf.Load("a.pdf", bytes.NewReader(plain("BT /F 10 Tf 20 150 Td [(Th) 20 (e) -600 (brake)] TJ 0 -12 Td (holds.) Tj 0 -40 Td (Mostly.) Tj ET")))
	if err != nil || d.Text != "The brake\nholds.\n\nMostly.\n\n" {
		t.Fatalf("%q, %v", d.Text, err)
	}
}

func TestAFileThatCannotBeReadIsNamedWithTheMend(t *testing.T) {
	whole, err := os.ReadFile("testdata/handbook.pdf")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		data []byte
		kind error
		says string
	}{
		"no PDF":             {[]byte("text"), retrieval.ErrUnreadable, "open it and save it anew"},
		"nothing":            {nil, retrieval.ErrUnreadable, "open it and save it anew"},
		"half a PDF":         {whole[:len(whole)/2], retrieval.ErrUnreadable, "open it and save it anew"},
		"pages in a circle":  {bytes.Replace(plain("BT /F 10 Tf (a) Tj ET"), []byte("/Kids [3"), []byte("/Kids [2"), 1), retrieval.ErrUnreadable, "has no end"},
		"parents in circles": {bytes.Replace(plain("BT /F 10 Tf (a) Tj ET"), []byte("/Parent 2"), []byte("/Parent 3"), 1), retrieval.ErrUnreadable, "has no root"},
		"pages of pictures":  {plain("0 0 100 100 re f"), pdf.ErrNoText, "text recognition"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pdf.Load("shelf/a.pdf", bytes.NewReader(c.data))
			e, ok := errors.AsType[*retrieval.DocumentError](err)
			if !ok || e.Document != "shelf/a.pdf" || !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
				t.Fatal(err)
			}
		})
	}
	if _, err := pdf.Load("a", bytes.NewReader(plain(""))); !errors.Is(err, retrieval.ErrEmpty) {
		t.Fatal(err)
	}
}

// Whatever stands in a file, loading it ends with text or with an error.
func FuzzLoad(f *testing.F) {
	whole, err := os.ReadFile("testdata/handbook.pdf")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(plain("BT /F 10 Tf (a) Tj ET"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if d, err := pdf.Load("a", bytes.NewReader(data)); err == nil && strings.TrimSpace(d.Text) == "" {
			t.Fatal("neither text nor an error")
		}
	})
}
