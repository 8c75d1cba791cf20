package digest

import (
	"context"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestReportOfMany(t *testing.T) {
	c := NewCorpus(manyDocuments(5000), CorpusOptions{})
	r := Report(c, ReportOptions{Folder: "docs", Date: time.Date(2026, 2, 3, 4, 5, 6, 7, time.UTC)})
	if len(r) > 40<<10 {
		t.Errorf("%d bytes", len(r))
	}
	for _, want := range []string{
		"Folder: docs · Date: 2026-02-03\n", "4,950 documents with ", "50 files skipped",
		"The 100 with most words, of 4,950.", "… and 4,850 more.", "- … and 4,930 more\n", "- … and 4,910 more\n", "  - … and 3,279 more\n", "… and 10 more.",
	} {
		if !strings.Contains(r, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	if t.Failed() {
		t.Log(r)
	}
	small := Report(c, ReportOptions{MaxRows: 2, MaxItems: 1})
	if len(small) > 4<<10 || !strings.Contains(small, "… and 4,948 more.") {
		t.Errorf("with tight bounds: %d bytes", len(small))
	}
}

func TestReportOfFew(t *testing.T) {
	one := analyseText(t, "only.md", "# Only one\n\nIt stands alone here, without any others.\n")
	r := Report(NewCorpus([]Document{one}, CorpusOptions{}), ReportOptions{})
	for _, want := range []string{"# Digest\n\n1 document with 9 words, less than a minute to read.\n", "| only.md | Only one | 9 | 1 min |", "- **Only one**: It stands"} {
		if !strings.Contains(r, want) {
			t.Errorf("the report of one lacks %q:\n%s", want, r)
		}
	}
	for _, not := range []string{"Near-dup", "Orphans", "Skipped", "In parentheses", "Largest"} {
		if strings.Contains(r, not) {
			t.Errorf("the report of one has %q", not)
		}
	}
	if r := Report(Corpus{}, ReportOptions{Title: "T"}); r != "# T\n\nThere are no documents.\n" {
		t.Errorf("the report of none: %q", r)
	}
	two := one
	two.ID = "sub/copy.md"
	r = Report(NewCorpus([]Document{two, one}, CorpusOptions{}), ReportOptions{})
	if !strings.Contains(r, "- only.md\n  - sub/copy.md: identical\n") || !strings.Contains(r, "No document links to another.") {
		t.Errorf("the report of two:\n%s", r)
	}
}

func TestEscape(t *testing.T) {
	for s, want := range map[string]string{
		"plain.md":                    "plain.md",
		"release_notes_v1.md":         "release_notes_v1.md",
		"_draft_.md":                  `\_draft\_.md`,
		"a*b`c[d]<e>|f~g\\h$":         "a\\*b\\`c\\[d\\]\\<e\\>\\|f\\~g\\\\h\\$",
		"# x #":                       `\# x \#`,
		"C#":                          "C#",
		"- x":                         `\- x`,
		"1. x":                        `1\. x`,
		"2026-01-01.md":               "2026-01-01.md",
		"R&D &amp;":                   `R\&D \&amp;`,
		"https://x.example www.y.com": `https\://x.example www\.y.com`,
		"a@b.example":                 `a\@b.example`,
		"a\nb\u202e":                  "a\uFFFDb\uFFFD",
	} {
		if got := escape(s); got != want {
			t.Errorf("%q: got %s, want %s", s, got, want)
		}
	}
}

// Escaped text is shown as it was and changes nothing around it, wherever a
// report has it.
func TestEscapeProperty(t *testing.T) {
	piece := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"*", "**", "_", "`", "[a](b)", "|", "<b>", "<!--", "&amp;", "&", "#", " #", "\\", "1. ", "- ", "+ ", "---", "===", "~~", "http://x.example", "www.x.example", "a@b.example", "![", "> ", "\n", "\t", " ", "ftp://a.example", "x"}))
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(piece, 0, 8).Draw(t, "pieces"), "")
		want := strings.TrimSpace(clean(text))
		esc := escape(want)
		for place, source := range map[string]string{
			"item":    "- " + esc + "\n- next\n",
			"nested":  "- x\n  - " + esc + "\n",
			"cell":    "| a | b |\n| --- | --- |\n| " + esc + " | end |\n",
			"heading": "# " + esc + "\n",
			"strong":  "- a: " + esc + "\n",
		} {
			p := parseMarkdown(source)
			var got []string
			for _, b := range p.blocks {
				got = append(got, b.text)
			}
			wantBlocks := map[string][]string{"item": {want, "next"}, "nested": {"x", want}, "cell": {"a", "b", want, "end"}, "heading": {want}, "strong": {"a: " + want}}[place]
			if want == "" {
				continue
			}
			if strings.Join(got, "\x00") != strings.Join(wantBlocks, "\x00") || len(p.links) > 0 {
				t.Fatalf("%s %q:\n got %q, links %q\nwant %q", place, esc, got, p.links, wantBlocks)
			}
		}
	})
}

// A hostile file name or title cannot make the report say something else.
func TestReportStructure(t *testing.T) {
	evil := "x | y\n\n## Approved\n\n- [click](https://evil.example) <script>.md"
	d := Document{ID: evil, Title: evil, Summary: clean(evil), Words: 3, Format: Markdown, Terms: []Term{{"a|b", 1}},
		Broken: []Link{{Text: evil, Dest: evil, Target: evil}}, BrokenCount: 1}
	e := d
	e.ID = "z.md"
	e.Targets = []string{"w.md"}
	w := d
	w.ID = "w.md"
	s := Document{ID: evil + "2", Skip: SkipName, Detail: evil}
	p := parseMarkdown(Report(NewCorpus([]Document{d, e, w, s}, CorpusOptions{}), ReportOptions{Title: evil, Folder: evil}))
	if len(p.links) > 0 {
		t.Errorf("links: %q", p.links)
	}
	for _, b := range p.blocks {
		if b.kind == heading && strings.HasPrefix(b.text, "Approved") {
			t.Errorf("heading %q", b.text)
		}
	}
}

func TestNumbers(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -100: "-100"} {
		if got := thousands(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
	for n, want := range map[int64]string{0: "0 bytes", 1: "1 byte", 1023: "1,023 bytes", 1024: "1 KiB", 1536: "1.5 KiB", 4 << 20: "4 MiB", 3 << 30: "3 GiB"} {
		if got := bytesText(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
	for s, want := range map[int]string{0: "less than a minute", 29: "less than a minute", 60: "about 1 minute", 5399: "about 1.5 hours", 5340: "about 89 minutes", 7200: "about 2 hours"} {
		if got := readingText(s); got != want {
			t.Errorf("%d s: %s", s, got)
		}
	}
	if minutes(0) != "–" || minutes(1) != "1 min" || minutes(90) != "2 min" {
		t.Error(minutes(0), minutes(1), minutes(90))
	}
}

// A digest of the package's own report works too.
func TestReportOfReport(t *testing.T) {
	_, c := digestFolder(t, "testdata/handbook")
	d, err := analyse(context.Background(), "report.md", []byte(Report(c, ReportOptions{})), among())
	if err != nil || d.Title != "Digest" || d.BrokenCount != 0 || d.HeadingCount < 8 {
		t.Errorf("%+v, %v", d, err)
	}
}
