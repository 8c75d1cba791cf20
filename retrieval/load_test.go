package retrieval_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"testing/iotest"

	"github.com/cockroachdb/datadriven"

	"github.com/superstep-dev/superstep/retrieval"
)

var byKind = map[string]retrieval.Loader{"text": retrieval.Text, "markdown": retrieval.Markdown, "html": retrieval.HTML}

// The files in testdata/split show documents, how they are cut and what loaders make of
// them.
func TestDocumentsAreCutAlongTheirStructure(t *testing.T) {
	datadriven.Walk(t, "testdata/split", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			kind := "markdown"
			var s retrieval.Splitter
			d.MaybeScanArgs(t, "kind", &kind)
			d.MaybeScanArgs(t, "size", &s.Size)
			d.MaybeScanArgs(t, "overlap", &s.Overlap)
			if d.HasArg("words") {
				s.Count = func(text string) int { return len(strings.Fields(text)) }
			}
			doc, err := byKind[kind]("doc", strings.NewReader(d.Input+"\n"))
			if err != nil {
				return err.Error()
			}
			var b strings.Builder
			if d.Cmd == "load" {
				fmt.Fprintf(&b, "title %q metadata %s\n", doc.Title, doc.Metadata)
				if kind == "html" {
					b.WriteString(doc.Text)
				}
			}
			chunks, err := s.Split(doc)
			if err != nil {
				return err.Error()
			}
			for _, c := range chunks {
				if doc.Text[c.Start:c.End] != c.Text || strings.TrimSpace(c.Text) != c.Text {
					t.Errorf("%q isn't what stands at %d to %d", c.Text, c.Start, c.End)
				}
				if kind != "html" && d.Input[c.Start:c.End] != c.Text {
					t.Errorf("%q isn't what stands in the file", c.Text)
				}
				if d.Cmd == "split" {
					fmt.Fprintf(&b, "%d-%d %q %q\n", c.Start, c.End, c.Headings, c.Text)
				}
			}
			return b.String()
		})
	})
}

func TestNothingButWhiteSpaceIsInNoChunk(t *testing.T) {
	page, err := os.ReadFile("../docs/memory.md")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := retrieval.Markdown("memory.md", strings.NewReader(string(page)))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []retrieval.Splitter{{}, {Size: 40}, {Size: 200, Overlap: 80}, {Size: 1}, {Size: 1 << 20}} {
		chunks, err := s.Split(doc)
		if err != nil {
			t.Fatal(err)
		}
		at := 0
		for _, c := range chunks {
			if n := len([]rune(c.Text)); n > max(s.Size, 1) && s.Size > 0 || n > 1000 && s.Size == 0 {
				t.Errorf("size %d: a chunk of %d", s.Size, n)
			}
			if c.Start > at && strings.TrimSpace(doc.Text[at:c.Start]) != "" {
				t.Errorf("size %d: %q is in no chunk", s.Size, doc.Text[at:c.Start])
			}
			if s.Overlap == 0 && c.Start < at {
				t.Errorf("size %d: %q is in two chunks", s.Size, c.Text)
			}
			at = c.End
		}
		if strings.TrimSpace(doc.Text[at:]) != "" {
			t.Errorf("size %d: the end is in no chunk", s.Size)
		}
	}
}

func TestDocumentsThatCannotBeLoadedAreNamedWithTheMend(t *testing.T) {
	for name, c := range map[string]struct {
		load retrieval.Loader
		r    io.Reader
		kind error
		says string
	}{
		"an empty text":          {retrieval.Text, strings.NewReader(" \n"), retrieval.ErrEmpty, "leave it out"},
		"an empty page":          {retrieval.HTML, strings.NewReader(""), retrieval.ErrEmpty, "leave it out"},
		"a page without a text":  {retrieval.HTML, strings.NewReader("<script>alert(1)</script><img src='data:x'>"), retrieval.ErrEmpty, "leave it out"},
		"nothing but headings":   {retrieval.Markdown, strings.NewReader("---\na: 1\n---\n"), retrieval.ErrEmpty, "leave it out"},
		"another encoding":       {retrieval.Text, strings.NewReader("Gr\xfc\xdfe"), retrieval.ErrInvalid, "convert the text to UTF-8"},
		"a binary file":          {retrieval.Text, strings.NewReader("PK\x00"), retrieval.ErrInvalid, "use its loader"},
		"a reader that fails":    {retrieval.Markdown, iotest.ErrReader(errors.New("the disk is on fire")), retrieval.ErrUnreadable, "the disk is on fire"},
		"front matter that's no": {retrieval.Markdown, strings.NewReader("---\na: [\n---\ntext"), retrieval.ErrInvalid, "correct the YAML"},
		"a text without an end":  {retrieval.Text, endless{}, retrieval.ErrTooLarge, "divide it"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.load("shelf/book", c.r)
			e, ok := errors.AsType[*retrieval.DocumentError](err)
			if !ok || e.Document != "shelf/book" || e.Fix == "" || !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
				t.Fatal(err)
			}
		})
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

func TestAPageIsReadInTheEncodingThatItNames(t *testing.T) {
	d, err := retrieval.HTML("a", strings.NewReader("<meta charset=iso-8859-1><title>Gr\xf6\xdfe</title><p>B\xe4ume"))
	if err != nil || d.Title != "Größe" || d.Text != "Bäume" {
		t.Fatalf("%+v, %v", d, err)
	}
}

func TestEmptyLinesBeforeAHeadingDontTakeItAway(t *testing.T) {
	d, err := retrieval.Markdown("a", strings.NewReader("\n\n# Heading\n\nText.\n"))
	if err != nil {
		t.Fatal(err)
	}
	chunks, err := retrieval.Splitter{}.Split(d)
	if err != nil || len(chunks) != 1 || chunks[0].Start != 2 || strings.Join(chunks[0].Headings, " ") != "Heading" {
		t.Fatalf("%+v, %v", chunks, err)
	}
}

func TestDocumentsThatAreNotAsTheyMustBe(t *testing.T) {
	for name, d := range map[string]retrieval.Document{
		"without a name":           {Text: "text"},
		"with other metadata":      {Source: "a", Text: "text", Metadata: []byte(`[1]`)},
		"with sections backwards":  {Source: "a", Text: "text", Sections: []retrieval.Section{{Start: 2}, {Start: 1}}},
		"with sections behind it":  {Source: "a", Text: "text", Sections: []retrieval.Section{{Start: 5}}},
		"cut inside of characters": {Source: "a", Text: "tä", Sections: []retrieval.Section{{Start: 2}}},
		"with a name that is none": {Source: "a\xff", Text: "text"},
	} {
		if _, err := (retrieval.Splitter{}).Split(d); !errors.Is(err, retrieval.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, s := range map[string]retrieval.Splitter{"size": {Size: -1}, "overlap": {Overlap: -1}, "more overlap than size": {Size: 5, Overlap: 5}} {
		if _, err := s.Split(retrieval.Document{Source: "a", Text: "text"}); !as[*retrieval.OptionError](err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func as[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func TestFilesAreLoadedByTheEndsOfTheirNames(t *testing.T) {
	fsys := fstest.MapFS{
		"a.md":           {Data: []byte("# A")},
		"b/c.TXT":        {Data: []byte("c")},
		"b/page.html":    {Data: []byte("<p>page")},
		"b/table.csv":    {Data: []byte("1;2")},
		"b/empty.txt":    {Data: []byte("")},
		".git/config.md": {Data: []byte("# no")},
		".hidden.md":     {Data: []byte("# no")},
	}
	csv := func(source string, r io.Reader) (retrieval.Document, error) { return retrieval.Text(source, r) }
	for name, c := range map[string]struct {
		loaders  retrieval.Loaders
		patterns []string
		want     string
	}{
		"all":                      {nil, nil, "a.md b/c.TXT !empty b/page.html !unknown"},
		"with a loader more":       {retrieval.Loaders{".csv": csv}, nil, "a.md b/c.TXT !empty b/page.html b/table.csv"},
		"by name in all folders":   {nil, []string{"*.TXT", "*.html"}, "b/c.TXT b/page.html"},
		"by path":                  {nil, []string{"*/p*"}, "b/page.html"},
		"hidden ones that is said": {nil, []string{".hidden*"}, ".hidden.md"},
		"a pattern without files":  {nil, []string{"a.md", "*.pdf"}, "a.md !pattern"},
		"a pattern that is none":   {nil, []string{"["}, "!pattern"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for d, err := range retrieval.LoadFS(t.Context(), fsys, c.loaders, c.patterns...) {
				switch {
				case errors.Is(err, retrieval.ErrEmpty):
					got = append(got, "!empty")
				case errors.Is(err, retrieval.ErrUnknownType):
					got = append(got, "!unknown")
				case as[*retrieval.OptionError](err):
					got = append(got, "!pattern")
				case err != nil:
					t.Fatal(err)
				default:
					got = append(got, d.Source)
				}
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	t.Run("it stops when nobody wants more, and when the context ends", func(t *testing.T) {
		for range retrieval.LoadFS(t.Context(), fsys, nil) {
			break
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n := 0
		for _, err := range retrieval.LoadFS(ctx, fsys, nil) {
			if n++; n == 1 {
				cancel()
			} else if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
		if n != 2 {
			t.Fatal(n)
		}
	})
	if _, err := retrieval.LoadFile(t.Context(), "testdata/none.md", nil); !errors.Is(err, retrieval.ErrUnreadable) || !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
}
