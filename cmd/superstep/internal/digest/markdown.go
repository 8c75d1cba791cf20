package digest

import (
	"bytes"
	"html"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	gmtext "github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"github.com/superstep-dev/superstep/internal/lazyregexp"
)

// gfm parses GitHub's dialect. A parser is safe for concurrent use.
var gfm = goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser()

// Limits of what is parsed as Markdown; see [tangled].
const (
	maxNesting    = 32
	maxBracketSq  = 100e6
	maxDelimSq    = 2e9
	maxIndentCols = 4 * maxNesting
)

// tangled reports whether a full parse of text may take very long. The parser
// takes time that grows with the square of the depth to which quotes and lists
// are nested in a line, and with the square of the number of brackets or of
// emphasis marks in a paragraph, and it cannot be interrupted. Documents that
// people write are far below the limits: they allow 10,000 brackets in a
// paragraph.
func tangled(text string) bool {
	var brackets, delims, bracketSq, delimSq float64
	end := func() {
		bracketSq += brackets * brackets
		delimSq += delims * delims
		brackets, delims = 0, 0
	}
	for line := range strings.Lines(text) {
		depth, indent, blank := 0, 0, true
	scan:
		for i := 0; i < len(line); i++ {
			c := line[i]
			switch {
			case c == ' ':
				indent++
			case c == '\t':
				indent += 4
			case c == '>':
				depth++
			case c == '-' || c == '*' || c == '+' || c == '.' || c == ')':
				if i+1 < len(line) && (line[i+1] == ' ' || line[i+1] == '\t') {
					depth++
				}
				if indent > maxIndentCols {
					return true
				}
			case isDigit(rune(c)):
			case c == '\n':
			default:
				blank = false
				break scan
			}
			if c != ' ' && c != '\t' && c != '\n' && c != '>' {
				blank = false
			}
		}
		if depth > maxNesting {
			return true
		}
		if blank {
			end()
			continue
		}
		for i := range len(line) {
			switch line[i] {
			case '[', ']':
				brackets++
			case '*', '_', '~', '`', '<':
				delims++
			}
		}
	}
	end()
	return bracketSq > maxBracketSq || delimSq > maxDelimSq
}

// parseMarkdown takes a Markdown file apart.
func parseMarkdown(text string) *page {
	p := &page{}
	p.title, text = frontMatter(text)
	src := []byte(text)
	m := mdWalker{page: p, src: src}
	root := gfm.Parse(gmtext.NewReader(src))
	for n := root.FirstChild(); n != nil; n = n.NextSibling() {
		m.block(n)
	}
	return p
}

type mdWalker struct {
	page *page
	src  []byte
}

// block handles a block node and those in it.
func (m *mdWalker) block(n ast.Node) {
	switch n := n.(type) {
	case *ast.Heading:
		m.page.add(heading, n.Level, m.inline(n))
	case *ast.Paragraph, *ast.TextBlock:
		m.page.add(prose, 0, m.inline(n))
	case *extast.TableCell:
		m.page.add(label, 0, m.inline(n))
	case *ast.FencedCodeBlock, *ast.CodeBlock:
		m.page.add(code, 0, string(n.Lines().Value(m.src)))
	case *ast.HTMLBlock:
		source := string(n.Lines().Value(m.src))
		if n.HasClosure() {
			source += string(n.ClosureLine.Value(m.src))
		}
		m.page.html(source)
	default:
		for c := n.FirstChild(); c != nil; c = c.NextSibling() {
			m.block(c)
		}
	}
}

// inline returns the text that n's inline children show and notes their links.
func (m *mdWalker) inline(n ast.Node) string {
	var b strings.Builder
	m.inlineTo(&b, n)
	return b.String()
}

func (m *mdWalker) inlineTo(b *strings.Builder, parent ast.Node) {
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Text:
			v := n.Segment.Value(m.src)
			if !n.IsRaw() {
				v = unescape(v)
			}
			b.Write(v)
			if n.SoftLineBreak() || n.HardLineBreak() {
				b.WriteByte('\n')
			}
		case *ast.String:
			b.Write(n.Value)
		case *ast.CodeSpan:
			for c := n.FirstChild(); c != nil; c = c.NextSibling() {
				if t, ok := c.(*ast.Text); ok {
					b.Write(t.Segment.Value(m.src))
				}
			}
		case *ast.Link:
			at := b.Len()
			m.inlineTo(b, n)
			m.page.link(b.String()[at:], string(unescape(n.Destination)))
		case *ast.Image:
			// The text of an image is shown in its place only when it is
			// missing, so it is not part of the prose.
			m.page.link(m.inline(n), string(unescape(n.Destination)))
		case *ast.AutoLink:
			if n.AutoLinkType == ast.AutoLinkURL {
				m.page.link("", string(n.URL(m.src)))
			}
		case *ast.RawHTML:
			m.page.htmlLinks(string(n.Segments.Value(m.src)))
		default:
			m.inlineTo(b, n)
		}
	}
}

// unescape resolves backslash escapes and character references, each once.
func unescape(v []byte) []byte {
	if bytes.IndexByte(v, '\\') < 0 {
		return references(v)
	}
	out := make([]byte, 0, len(v))
	from := 0
	for i := 0; i+1 < len(v); i++ {
		if v[i] == '\\' && util.IsPunct(v[i+1]) {
			out = append(append(out, references(v[from:i])...), v[i+1])
			i++
			from = i + 1
		}
	}
	return append(out, references(v[from:])...)
}

// reference matches a character reference, which in Markdown needs its
// semicolon (CommonMark 0.31.2, section 2.5).
var reference = lazyregexp.New(`&(?:#[xX][0-9a-fA-F]{1,6}|#[0-9]{1,7}|[A-Za-z][A-Za-z0-9]{0,31});`)

func references(v []byte) []byte {
	if bytes.IndexByte(v, '&') < 0 {
		return v
	}
	return reference().ReplaceAllFunc(v, func(m []byte) []byte { return []byte(html.UnescapeString(string(m))) })
}

var (
	htmlComment = lazyregexp.New(`(?s)<!--.*?(?:-->|$)`)
	htmlCode    = lazyregexp.New(`(?is)<(?:script|style|pre)\b.*?(?:</(?:script|style|pre)\s*>|$)`)
	htmlHeading = lazyregexp.New(`(?is)<h([1-6])(?:\s[^>]*)?>(.*?)</h[1-6]\s*>`)
	htmlTag     = lazyregexp.New(`(?s)</?[A-Za-z][^>]*>|<[!?][^>]*>`)
	htmlLink    = lazyregexp.New(`(?is)<(?:a|img|source|video|iframe)\s(?:[^>]*?\s)?(?:href|src)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))`)
)

// html takes a piece of HTML apart as well as needed for the banners and
// tables that people put into Markdown.
func (p *page) html(source string) {
	source = htmlComment().ReplaceAllString(source, " ")
	p.htmlLinks(source)
	source = htmlCode().ReplaceAllStringFunc(source, func(s string) string {
		p.add(code, 0, htmlText(s))
		return " "
	})
	at := 0
	for _, m := range htmlHeading().FindAllStringSubmatchIndex(source, -1) {
		p.add(prose, 0, htmlText(source[at:m[0]]))
		p.add(heading, int(source[m[2]]-'0'), htmlText(source[m[4]:m[5]]))
		at = m[1]
	}
	p.add(prose, 0, htmlText(source[at:]))
}

func htmlText(source string) string {
	return string(references(htmlTag().ReplaceAll([]byte(source), []byte(" "))))
}

func (p *page) htmlLinks(source string) {
	for _, m := range htmlLink().FindAllStringSubmatch(source, -1) {
		p.link("", string(references([]byte(m[1]+m[2]+m[3]))))
	}
}
