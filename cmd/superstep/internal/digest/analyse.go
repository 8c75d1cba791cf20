package digest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Analyse reads the file of src and returns what there is to know about it.
//
// A source that was skipped gives a document that says so. So does a file that
// has become unfit since it was listed: removed, grown beyond the limit, no
// longer text or no longer readable. Other failures to read are errors, which
// may pass when it is tried again; Analyse writes nothing, so that is safe. It
// returns ctx's error if ctx is done before the work is.
func Analyse(ctx context.Context, src Source) (Document, error) {
	doc := Document{ID: src.ID, Size: src.Size, Skip: src.Skip, Detail: src.Detail}
	if src.Skip != "" {
		return doc, nil
	}
	if err := ctx.Err(); err != nil {
		return Document{}, err
	}
	root, err := os.OpenRoot(src.Root)
	if errors.Is(err, fs.ErrNotExist) {
		return Document{}, &Error{Path: src.Root, Kind: ErrMissing, Fix: "put the folder back, or start over with another"}
	}
	if err != nil {
		return Document{}, &Error{Path: src.Root, Kind: ErrUnreadable, Fix: fixUnreadable, Err: err}
	}
	defer root.Close()

	data, why, detail, err := read(root, src)
	if err != nil {
		return Document{}, fmt.Errorf("digest: read %q: %w", src.ID, err)
	}
	if why != "" {
		doc.Skip, doc.Detail = why, detail
		return doc, nil
	}
	return analyse(ctx, src.ID, data, lookIn(root))
}

// read returns the content of src, or why it is to be skipped.
func read(root *os.Root, src Source) (data []byte, why Skip, detail string, err error) {
	limit := cmp.Or(src.Limit, DefaultMaxBytes)
	name := filepath.FromSlash(src.ID)
	info, err := root.Lstat(name) // before it is opened: to open a pipe would block
	if err == nil && !info.Mode().IsRegular() {
		return nil, SkipSpecial, "", nil
	}
	var f *os.File
	if err == nil {
		f, err = root.Open(name)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, SkipGone, "", nil
	case errors.Is(err, fs.ErrPermission):
		return nil, SkipUnreadable, reason(err), nil
	case err != nil:
		return nil, "", "", err
	}
	defer f.Close()
	data, err = io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, "", "", err
	}
	if int64(len(data)) > limit {
		return nil, SkipTooLarge, tooLarge(max(info.Size(), limit+1), limit), nil
	}
	if what := binaryKind(data[:min(len(data), headSize)]); what != "" {
		return nil, SkipBinary, what, nil
	}
	return data, "", "", nil
}

// analyse is Analyse for content at hand; look tells which link targets exist.
func analyse(ctx context.Context, id string, data []byte, look func(string) presence) (Document, error) {
	sum := sha256.Sum256(data)
	doc := Document{ID: id, Size: int64(len(data)), Format: cmp.Or(formatOf(id), Plain), SHA256: hex.EncodeToString(sum[:])}
	var text string
	text, doc.Encoding = decode(data)
	doc.Lines = strings.Count(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		doc.Lines++
	}

	var p *page
	if doc.Format == Markdown && !tangled(text) {
		p = parseMarkdown(text)
	} else {
		doc.Simplified = doc.Format == Markdown
		p = parsePlain(text, doc.Format)
	}
	if err := ctx.Err(); err != nil {
		return Document{}, err
	}

	c := newCounter()
	for _, b := range p.blocks {
		if err := ctx.Err(); err != nil {
			return Document{}, err
		}
		c.add(b)
	}
	doc.Words = c.spaced + c.ideographs
	doc.Sentences = c.sentences
	doc.CodeLines = c.codeLines
	doc.Seconds = readingSeconds(c.spaced, c.ideographs)
	doc.Language = guessLanguage(c.counts)
	doc.Terms = c.terms(doc.Language)
	doc.Signature = c.signer.signature()

	describe(&doc, p)
	links := newLinkSet(id, look)
	for _, l := range p.links {
		if err := ctx.Err(); err != nil {
			return Document{}, err
		}
		links.add(l)
	}
	links.result(&doc)
	return doc, nil
}

// describe sets the title, the headings and the summary.
func describe(doc *Document, p *page) {
	top := ""
	for _, b := range p.blocks {
		if b.kind != heading {
			continue
		}
		text := clean(b.text)
		if text == "" {
			continue
		}
		if top == "" && b.level == 1 {
			top = text
		}
		if doc.HeadingCount++; len(doc.Headings) < maxHeadings {
			doc.Headings = append(doc.Headings, Heading{Level: b.level, Text: cut(text, maxHeading)})
		}
	}
	doc.Title = cmp.Or(clean(p.title), top)
	if doc.Title == "" && len(doc.Headings) > 0 {
		doc.Title = doc.Headings[0].Text
	}
	fallback := ""
	for _, b := range p.blocks {
		text := clean(b.text)
		if b.kind != prose || !strings.ContainsFunc(text, startsWord) {
			continue
		}
		if doc.Title == "" && utf8.RuneCountInString(text) <= 80 && !strings.Contains(b.text, "\n") && !strings.HasSuffix(text, ".") {
			doc.Title = text
			continue
		}
		if fallback == "" {
			fallback = text
		}
		if len(strings.Fields(text)) >= 5 || strings.ContainsFunc(text, ideographic) {
			doc.Summary = summarise(text, maxSummary)
			break
		}
	}
	doc.Summary = cmp.Or(doc.Summary, summarise(fallback, maxSummary))
	if doc.Title == "" {
		base := path.Base(doc.ID)
		doc.Title = cmp.Or(clean(strings.TrimSuffix(base, path.Ext(base))), clean(base))
	}
	doc.Title = cut(doc.Title, maxTitle)
}

// counter counts what is in the blocks of a document.
type counter struct {
	counts     map[string]int // of base terms
	signer     *signer
	spaced     int // words of scripts with spaces
	ideographs int
	sentences  int
	codeLines  int
}

func newCounter() *counter {
	return &counter{counts: make(map[string]int), signer: newSigner()}
}

func (c *counter) add(b block) {
	if b.kind == code {
		c.codeLines += strings.Count(strings.TrimSuffix(b.text, "\n"), "\n") + 1
		words(b.text, func(w string, _ int, _ bool) { c.signer.add(w) })
		return
	}
	if b.kind == prose {
		c.sentences += countSentences(b.text)
	}
	run := ideographRun{counts: c.counts}
	words(b.text, func(w string, at int, ideograph bool) {
		c.signer.add(w)
		if ideograph {
			c.ideographs++
			run.add(w, at)
			return
		}
		c.spaced++
		if t := baseTerm(w); t != "" {
			c.counts[t]++
		}
	})
	run.end()
}

// ideographRun finds terms in text that does not separate words. A run of
// katakana is a term: mostly a loanword. In a run of Chinese characters each
// pair is one, in place of the words that a dictionary would find, as in
// Lucene's CJKAnalyzer. Hiragana, which is mostly grammar, separates runs.
type ideographRun struct {
	counts map[string]int
	script *unicode.RangeTable
	chars  []string
	next   int // where the run goes on
}

func (r *ideographRun) add(char string, at int) {
	script := scriptOf(firstRune(char))
	if script != r.script || at != r.next {
		r.end()
	}
	r.script, r.next = script, at+len(char)
	r.chars = append(r.chars, char)
	if n := len(r.chars); script == unicode.Han && n == 2 {
		r.counts[r.chars[0]+r.chars[1]]++
		r.chars = append(r.chars[:0], char)
	}
}

func (r *ideographRun) end() {
	if r.script == unicode.Katakana && len(r.chars) >= 2 && len(r.chars) <= maxTerm/len("ア") {
		r.counts[strings.Join(r.chars, "")]++
	}
	r.chars = r.chars[:0]
}

// terms returns the most frequent terms that are no function words, with
// plurals counted as the singular if that occurs too.
func (c *counter) terms(lang string) []Term {
	folded := make(map[string]int, len(c.counts))
	known := func(w string) bool { return c.counts[w] > 0 && !isStop(w, lang) }
	for w, n := range c.counts {
		if !isStop(w, lang) {
			folded[fold(w, known)] += n
		}
	}
	out := make([]Term, 0, len(folded))
	for w, n := range folded {
		out = append(out, Term{Text: w, Count: n})
	}
	slices.SortFunc(out, func(a, b Term) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Text, b.Text))
	})
	if len(out) == 0 {
		return nil
	}
	return slices.Clone(out[:min(len(out), maxTerms)])
}
