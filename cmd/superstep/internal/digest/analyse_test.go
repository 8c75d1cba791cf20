package digest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// among returns a look function for which the names exist.
func among(names ...string) func(string) presence {
	return func(name string) presence {
		for _, n := range names {
			if n == name {
				return present
			}
		}
		return absent
	}
}

func analyseText(t testing.TB, id, text string, names ...string) Document {
	t.Helper()
	d, err := analyse(context.Background(), id, []byte(text), among(names...))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func headingsText(d Document) string {
	var out []string
	for _, h := range d.Headings {
		out = append(out, fmt.Sprintf("%d %s", h.Level, h.Text))
	}
	return strings.Join(out, "; ")
}

func TestAnalyseStructure(t *testing.T) {
	for _, tc := range []struct {
		name, id, text           string
		title, headings, summary string
		words, sentences, code   int
	}{
		{"empty", "a/note.md", "", "note", "", "", 0, 0, 0},
		{"blank", "note.txt", "\n \n", "note", "", "", 0, 0, 0},
		{"odd name", " .txt", " ", ".txt", "", "", 0, 0, 0},
		{"markdown", "x.md", "# A *big* `title`\n\nFirst sentence here, all of it. Second.\n\n## Sub\n\n- item one\n- item two\n\n```go\nvar x int\nvar y int\n```\n",
			"A big title", "1 A big title; 2 Sub", "First sentence here, all of it. Second.", 15, 4, 2},
		{"setext and entities", "x.md", "Q&amp;A \\*now\\*\n===\n\nIt is a test of five words.\n", "Q&A *now*", "1 Q&A *now*", "It is a test of five words.", 10, 1, 0},
		{"front matter", "x.md", "---\ntitle: \"From the matter\"\ntags: [a, b]\n---\n# Body title\n\nText that is long enough to be shown.\n",
			"From the matter", "1 Body title", "Text that is long enough to be shown.", 10, 1, 0},
		{"thematic break first", "x.md", "---\n\nHello there, this is the text.\n\n---\n", "x", "", "Hello there, this is the text.", 6, 1, 0},
		{"html banner", "x.md", "<h1 align=\"center\">My &amp; Project</h1>\n<!-- no <h2>word</h2> -->\n\nA paragraph with more than five words.\n",
			"My & Project", "1 My & Project", "A paragraph with more than five words.", 9, 1, 0},
		{"badges before prose", "x.md", "# T\n\n[![build](b.svg)](https://ci.example)\n\nThe real first paragraph is here.\n",
			"T", "1 T", "The real first paragraph is here.", 7, 1, 0},
		{"table", "x.md", "# T\n\n| a | b |\n|---|---|\n| one cell | two |\n", "T", "1 T", "", 6, 0, 0},
		{"no heading", "x.md", "Shopping list\n\n- five apples and some ripe pears\n", "Shopping list", "", "five apples and some ripe pears", 8, 2, 0},
		{"no top heading", "x.md", "## Only a second\n\nText.\n", "Only a second", "2 Only a second", "Text.", 4, 1, 0},
		{"rst", "x.rst", "=====\nTitle\n=====\n\nThe intro has ``code`` and `a link <b.rst>`_ here::\n\n  code line\n  another\n\nPart\n----\n\nSub\n~~~\n\nEnd of it.\n",
			"Title", "1 Title; 2 Part; 3 Sub", "The intro has code and a link here::", 14, 2, 2},
		{"adoc", "x.adoc", "= Title\n:toc:\n\n// comment\nThe intro of this adoc file.\n\n[source]\n----\na\nb\n----\n\n== Part\n\nMore.\n",
			"Title", "1 Title; 2 Part", "The intro of this adoc file.", 9, 2, 2},
		{"org", "x.org", "#+TITLE: The title\n#+AUTHOR: me\n# comment\n\nThe intro of this org file.\n\n* TODO First :tag:\n** Second\n#+BEGIN_SRC go\nx\n#+END_SRC\nText.\n",
			"The title", "1 First; 2 Second", "The intro of this org file.", 9, 2, 1},
		{"plain", "x.txt", "Minutes of May\n==============\n\nPresent were all of the members.\n\n1.2 The budget\n\nIt was passed. SHOUTING IS PROSE.\n\nANY OTHER BUSINESS\n\nNone.\n",
			"Minutes of May", "1 Minutes of May; 2 The budget; 1 ANY OTHER BUSINESS", "Present were all of the members.", 22, 4, 0},
		{"crlf", "x.md", "# Title\r\n\r\nOne two three\r\nfour five six.\r\n", "Title", "1 Title", "One two three four five six.", 7, 1, 0},
		{"cjk", "x.md", "# 題\n\n日本語の文です。次。\n", "題", "1 題", "日本語の文です。次。", 9, 2, 0},
		{"hidden characters", "x.md", "# a\u202eb\x07c\n\nT.\n", "abc", "1 abc", "T.", 3, 1, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := analyseText(t, tc.id, tc.text)
			if tc.name == "plain" {
				tc.headings = strings.Replace(tc.headings, "2 The", "2 1.2 The", 1)
			}
			if d.Title != tc.title || headingsText(d) != tc.headings || d.Summary != tc.summary {
				t.Errorf("title %q, headings %q, summary %q\nwant %q, %q, %q", d.Title, headingsText(d), d.Summary, tc.title, tc.headings, tc.summary)
			}
			if d.Words != tc.words || d.Sentences != tc.sentences || d.CodeLines != tc.code {
				t.Errorf("words %d, sentences %d, code lines %d; want %d, %d, %d", d.Words, d.Sentences, d.CodeLines, tc.words, tc.sentences, tc.code)
			}
			if (d.Seconds > 0) != (d.Words > 0) || (d.Signature != nil) != (d.Words+d.CodeLines > 0) {
				t.Errorf("seconds %d, signature %t with %d words", d.Seconds, d.Signature != nil, d.Words)
			}
		})
	}
}

func TestAnalyseLines(t *testing.T) {
	for text, want := range map[string]int{"": 0, "a": 1, "a\n": 1, "a\nb": 2, "a\r\nb\r\n": 2, "a\rb": 2, "\n\n": 2} {
		if d := analyseText(t, "x.txt", text); d.Lines != want {
			t.Errorf("%q: %d lines, want %d", text, d.Lines, want)
		}
	}
}

func TestAnalyseLinks(t *testing.T) {
	names := []string{"docs/a.md", "docs/b.md", "docs/sub", "docs/sub/c.md", "top.md", "docs/my file.md", "docs/img.png", ".github/x.md", "docs/r.rst"}
	for _, tc := range []struct {
		name, id, text string
		targets        string
		broken         string // targets
		external       string
		unchecked      int
	}{
		{"relative", "docs/a.md", "[b](b.md) [c](./sub/c.md#part) [up](../top.md?x=1) [self](a.md) [here](#x)", "docs/b.md docs/sub/c.md top.md", "", "", 0},
		{"broken once", "docs/a.md", "[x](no.md) [y](no.md#z) ![i](img.png) ![j](no.png)", "docs/img.png", "docs/no.md docs/no.png", "", 0},
		{"folder", "docs/a.md", "[s](sub/) [r](..)", "docs/sub", ".", "", 0},
		{"escaped", "docs/a.md", "[m](my%20file.md) [n](<my file.md>)", "docs/my file.md", "", "", 0},
		{"hidden target", "docs/a.md", "[g](/.github/x.md)", ".github/x.md", "", "", 0},
		{"site root", "docs/a.md", "[g](/guide/none)", "", "", "", 1},
		{"outside", "docs/a.md", "[o](../../other/x.md) [p](../..)", "", "", "", 2},
		{"without extension", "docs/a.md", "[b](b) [c](sub/c.html) [n](none)", "docs/b.md docs/sub/c.md", "docs/none", "", 0},
		{"reference", "docs/a.md", "[b][1] and [gone]\n\n[1]: b.md\n[gone]: x.md 'title'\n", "docs/b.md", "docs/x.md", "", 0},
		{"external", "docs/a.md", "<https://a.example/x> [b](HTTP://B.example/y#frag) https://c.example/z, and [d](//d.example) [m](mailto:a@b.example) [u](https://me:pw@e.example/)",
			"", "", "HTTP://B.example/y https://a.example/x https://c.example/z https://d.example https://e.example/", 0},
		{"templates", "docs/a.md", "[t]({{site.url}}/x) [u](${y}/z)", "", "", "", 0},
		{"html", "docs/a.md", "<a href='b.md'>b</a> <img alt=x src=\"no.png\">\n\n<p><a class=\"x\" href=sub/c.md>c</a>\n", "docs/b.md docs/sub/c.md", "docs/no.png", "", 0},
		{"in code", "docs/a.md", "`[x](no.md)`\n\n    [y](no.md)\n", "", "", "", 0},
		{"windows drive and nonsense", "docs/a.md", "[c](C:/x.md) [j](javascript:x) [e]() [nul](a%00b)", "", "", "", 1},
		{"rst", "docs/a.rst", ":doc:`r` `text\n<b.md>`__ :doc:`T <none>` `x`_ `y <z_>`_\n\n.. image:: no.png\n\n.. _t: https://t.example/\n", "docs/b.md docs/r.rst", "docs/none docs/no.png", "https://t.example/", 0},
		{"adoc", "docs/a.adoc", "xref:b.md[the\nb] link:no.md[] image::img.png[] <<gone.adoc#x,text>> <<anchor>> https://e.example/x[site].", "docs/b.md docs/img.png", "docs/no.md docs/gone.adoc", "https://e.example/x", 0},
		{"org", "docs/a.org", "[[file:b.md][b]] [[./no.org::*x]] [[https://o.example/][o]] [[Heading]]", "docs/b.md", "docs/no.org", "https://o.example/", 0},
		{"plain", "docs/a.txt", "See https://p.example/x. (https://q.example/y) and b.md.", "", "", "https://p.example/x https://q.example/y", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := analyseText(t, tc.id, tc.text, names...)
			var broken []string
			for _, l := range d.Broken {
				broken = append(broken, l.Target)
			}
			external := strings.ReplaceAll(tc.external, "HTTP://B", "http://b")
			got := append([]string(nil), d.External...)
			if strings.Join(d.Targets, " ") != tc.targets || d.Unchecked != tc.unchecked || len(broken) != d.BrokenCount || len(got) != d.ExternalCount {
				t.Errorf("targets %q, unchecked %d; want %q, %d", d.Targets, d.Unchecked, tc.targets, tc.unchecked)
			}
			if !sameSet(broken, strings.Fields(tc.broken)) || !sameSet(got, strings.Fields(external)) {
				t.Errorf("broken %q, external %q; want %q, %q", broken, got, tc.broken, external)
			}
		})
	}
}

func sameSet(a, b []string) bool {
	m := make(map[string]int)
	for _, s := range a {
		m[s]++
	}
	for _, s := range b {
		m[s]--
	}
	for _, n := range m {
		if n != 0 {
			return false
		}
	}
	return true
}

func TestAnalyseTerms(t *testing.T) {
	d := analyseText(t, "x.md", "# Queues\n\nThe queue holds messages. A queue's message is a Message, and queues are many.\n\n`queue` 42 x\n\n    code code code\n")
	want := []Term{{"queue", 5}, {"message", 3}, {"holds", 1}}
	if !reflect.DeepEqual(d.Terms, want) || d.Language != "" && d.Language != "en" {
		t.Errorf("got %v, %q; want %v", d.Terms, d.Language, want)
	}
	d = analyseText(t, "x.md", "データベースの設計。データベースを使う。設計図\n")
	if want := []Term{{"データベース", 2}, {"設計", 2}, {"計図", 1}}; !reflect.DeepEqual(d.Terms, want) {
		t.Errorf("got %v, want %v", d.Terms, want)
	}
}

// hostile are Markdown texts that make the parser slow.
func hostile(n int) map[string]string {
	stairs := func() string {
		var b strings.Builder
		for i := 0; b.Len() < n; i++ {
			b.WriteString(strings.Repeat(" ", 2*i) + "- x\n")
		}
		return b.String()
	}
	return map[string]string{
		"quotes":     strings.Repeat(">", n),
		"lists":      strings.Repeat("- ", n/2) + "x",
		"numbers":    strings.Repeat("1. ", n/3) + "x",
		"stairs":     stairs(),
		"brackets":   strings.Repeat("[", n),
		"links":      strings.Repeat("[a](", n/4),
		"empty":      strings.Repeat("[](", n/3),
		"angles":     strings.Repeat("[](<", n/4),
		"emphasis":   strings.Repeat("a**b_", n/5),
		"strikes":    strings.Repeat("~a", n/2),
		"nested":     strings.Repeat("*_", n/4) + "a" + strings.Repeat("_*", n/4),
		"lazy lines": strings.Repeat("[](\n", n/4),
	}
}

func TestAnalyseHostileMarkdown(t *testing.T) {
	for name, text := range hostile(1 << 18) {
		if d := analyseText(t, "x.md", text+"\n\n# Found anyway\n"); !d.Simplified || headingsText(d) != "1 Found anyway" {
			t.Errorf("%s: simplified %t, headings %q", name, d.Simplified, headingsText(d))
		}
	}
	// Large but usual documents are parsed in full.
	var b strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&b, "- [Chapter *%d*](chapter-%d.md): some `code` and **bold** text\n", i, i)
	}
	b.WriteString("\n" + strings.Repeat("> > quoted *text* with a [link](a.md)\n\n", 5000) + strings.Repeat("-", 500) + "\n\n" + strings.Repeat("a | b [x](y) | c\n", 500))
	if tangled(b.String()) {
		t.Error("a usual document counts as tangled")
	}
}

// maxDocument is what the bounds of the parts come to, with JSON's escapes.
const maxDocument = 64 << 10

func checkDocument(t interface{ Fatalf(string, ...any) }, d Document) {
	data, err := json.Marshal(d)
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	if len(data) > maxDocument {
		t.Fatalf("%d bytes of JSON", len(data))
	}
	var back Document
	if err := json.Unmarshal(data, &back); err != nil || !reflect.DeepEqual(d, back) {
		t.Fatalf("JSON round trip: %v\n%s", err, data)
	}
	for _, s := range append([]string{d.Title, d.Summary}, d.Targets...) {
		if !utf8.ValidString(s) {
			t.Fatalf("%q is not UTF-8", s)
		}
	}
	switch {
	case d.Title == "" && d.Skip == "" && strings.ContainsFunc(d.ID, isAlnum):
		t.Fatalf("no title for %q", d.ID)
	case d.Words < 0, d.Sentences > d.Words, d.HeadingCount < len(d.Headings), d.BrokenCount < len(d.Broken), d.ExternalCount < len(d.External):
		t.Fatalf("counts: %+v", d)
	case len(d.Terms) > maxTerms, len(d.Headings) > maxHeadings, len(d.Targets) > maxTargets, len(d.Broken) > maxBroken, len(d.External) > maxExternal:
		t.Fatalf("bounds: %+v", d)
	case utf8.RuneCountInString(d.Title) > maxTitle, utf8.RuneCountInString(d.Summary) > maxSummary:
		t.Fatalf("title or summary too long")
	case d.Signature != nil && len(d.Signature) != SignatureHashes*4:
		t.Fatalf("signature of %d bytes", len(d.Signature))
	}
}

// A document is small however large the file.
func TestDocumentIsSmall(t *testing.T) {
	var b strings.Builder
	for i := range 6000 {
		fmt.Fprintf(&b, "## Heading <%d> %s\n\nWord%d unique%d \u2028 text [l%d](target-%d-%s.md) [e](https://h%d.example/%s) [b](broken-%d.md)\n\n",
			i, strings.Repeat("&<>", 50), i, i, i, i, strings.Repeat("x", i%300), i, strings.Repeat("&", 150), i)
	}
	d, err := analyse(context.Background(), "big.md", []byte(b.String()), func(n string) presence {
		if strings.HasPrefix(n, "broken") {
			return absent
		}
		return present
	})
	if err != nil {
		t.Fatal(err)
	}
	checkDocument(t, d)
	if d.HeadingCount != 6000 || d.TargetsOmitted == 0 || d.BrokenCount == 0 || d.ExternalCount != 6000 {
		t.Errorf("counts: %d headings, %d omitted, %d broken, %d external", d.HeadingCount, d.TargetsOmitted, d.BrokenCount, d.ExternalCount)
	}

	docs, _ := digestFolder(t, "testdata/handbook")
	for _, d := range docs {
		checkDocument(t, d)
		if data, _ := json.Marshal(d); len(data) > 8<<10 {
			t.Errorf("%s: %d bytes of JSON", d.ID, len(data))
		}
	}
}

func TestAnalyseProperty(t *testing.T) {
	piece := rapid.OneOf(
		rapid.String(),
		rapid.SampledFrom([]string{"# ", "\n", "\n\n", "[a](b.md)", "![", "](", "```\n", "> ", "- ", "| a | b |\n|---|---|\n", "https://x.example/a", "*", "_", "<a href=x>", "==\n", "----\n", ".. image:: x\n", "::\n\n  x\n", "= T\n", "* H\n", "---\n", "title: x\n", "\r", "\x00", "\xff", "日本", "é", "word ", "Two. "}),
	)
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.SampledFrom([]string{"a.md", "d/b.txt", "c.rst", "e.adoc", "f.org", "README"}).Draw(t, "id")
		text := strings.Join(rapid.SliceOfN(piece, 0, 30).Draw(t, "pieces"), "")
		d, err := analyse(context.Background(), id, []byte(text), among("x", "d/x"))
		if err != nil {
			t.Fatal(err)
		}
		checkDocument(t, d)
		again, _ := analyse(context.Background(), id, []byte(text), among("x", "d/x"))
		if !reflect.DeepEqual(d, again) {
			t.Fatal("two analyses differ")
		}
		if crlf := strings.ReplaceAll(text, "\n", "\r\n"); utf8.ValidString(text) && !strings.Contains(text, "\r") {
			e, _ := analyse(context.Background(), id, []byte(crlf), among("x", "d/x"))
			e.SHA256, e.Size = d.SHA256, d.Size
			if !reflect.DeepEqual(d, e) {
				t.Fatalf("with CRLF: %+v\nwant %+v", e, d)
			}
		}
	})
}

func FuzzAnalyse(f *testing.F) {
	files, err := filepath.Glob("testdata/handbook/*.[mra]*")
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, file := range append(files, "testdata/handbook/notes/retro.txt", "testdata/handbook/notes/scan.txt") {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(filepath.Base(file), data)
	}
	for _, text := range hostile(2000) {
		f.Add("x.md", []byte(text))
	}
	f.Fuzz(func(t *testing.T, id string, data []byte) {
		if !utf8.ValidString(id) || len(id) > 200 {
			t.Skip() // Find lists no such file
		}
		d, err := analyse(context.Background(), id, data, func(n string) presence { return presence(len(n) % 3) })
		if err != nil {
			t.Fatal(err)
		}
		checkDocument(t, d)
		c := NewCorpus([]Document{d}, CorpusOptions{})
		if r := Report(c, ReportOptions{}); !utf8.ValidString(r) {
			t.Fatal("the report is not UTF-8")
		}
	})
}

// Tasks analyse at the same time.
func TestAnalyseConcurrently(t *testing.T) {
	sources, err := Find(context.Background(), "testdata/handbook", FindOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want, _ := digestFolder(t, "testdata/handbook")
	var wg sync.WaitGroup
	for range 4 {
		for i, s := range sources {
			wg.Go(func() {
				d, err := Analyse(context.Background(), s)
				if err != nil || !reflect.DeepEqual(d, want[i]) {
					t.Errorf("%s: differs: %v", s.ID, err)
				}
			})
		}
	}
	wg.Wait()
}

func BenchmarkAnalyse(b *testing.B) {
	var prose, list strings.Builder
	vocabulary := strings.Fields("the harbour booking queue of payments and a release that waits for approval in region north while passengers sail on ferry number")
	for i := 0; prose.Len() < 1<<20; i++ {
		if i%200 == 0 {
			fmt.Fprintf(&prose, ".\n\n## Section %d\n\nStart ", i)
		}
		fmt.Fprintf(&prose, "%s%d ", vocabulary[i*7919%len(vocabulary)], i*i%997/3*(i%5/4))
		if i%13 == 0 {
			prose.WriteString("[end](x.md). Next ")
		}
	}
	for i := 0; list.Len() < 1<<20; i++ {
		fmt.Fprintf(&list, "- [Chapter %d](chapter-%d.md): some `code` and **bold** text\n", i, i)
	}
	for _, bc := range []struct{ name, id, text string }{
		{"markdown", "x.md", prose.String()},
		{"list", "x.md", list.String()},
		{"plain", "x.txt", prose.String()},
		{"rst", "x.rst", prose.String()},
		{"hostile", "x.md", strings.Repeat("[](", 1<<20/3)},
	} {
		b.Run(bc.name, func(b *testing.B) {
			data := []byte(bc.text)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := analyse(context.Background(), bc.id, data, among("x.md")); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
