package site

import (
	"bytes"
	"fmt"
	"html"
	"path"
	"regexp"
	"runtime/debug"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	markup "github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// home is the file of the index.
const home = "index.html"

// address is the file of a page, beside the others.
func address(page string) string {
	if page == "README.md" {
		return home
	}
	return strings.TrimSuffix(page, ".md") + ".html"
}

// kind is a kind of pages in the navigation, such as how-to pages.
type kind struct {
	title   string
	entries []entry
}

type entry struct{ page, title string }

// listed is a line of the index that lists a page: "- [Title](page.md): what it is about".
var listed = regexp.MustCompile(`(?m)^- \[([^\]]+)\]\(([\w-]+\.md)\)`)

// contents reads the navigation from the index: each heading that lists pages is a kind.
func contents(index []byte) ([]kind, error) {
	var kinds []kind
	for _, part := range strings.Split(string(index), "\n## ")[1:] {
		title, body, _ := strings.Cut(part, "\n")
		k := kind{title: title}
		for _, m := range listed.FindAllStringSubmatch(body, -1) {
			k.entries = append(k.entries, entry{m[2], m[1]})
		}
		if len(k.entries) > 0 {
			kinds = append(kinds, k)
		}
	}
	if len(kinds) == 0 {
		return nil, fmt.Errorf("site: README.md lists no pages")
	}
	return kinds, nil
}

// section is what the search finds: a heading and what stands below it.
type section struct {
	Page    string `json:"page"`
	Heading string `json:"heading"`
	URL     string `json:"url"`
	Text    string `json:"text"`
}

// page is a page in HTML.
type page struct {
	name, title string
	body        string
	headings    []heading // of the second and third level
	sections    []section
}

type heading struct {
	level    int
	id, text string
}

// repository is where links to the source lead to: to the version of the program if it has one.
func repository() string {
	at := "main"
	if info, ok := debug.ReadBuildInfo(); ok && regexp.MustCompile(`^v\d+\.\d+\.\d+$`).MatchString(info.Main.Version) && info.Main.Path == module {
		at = info.Main.Version
	}
	return "https://" + module + "/blob/" + at + "/"
}

const module = "github.com/superstep-dev/superstep"

// slugs makes the anchors of headings as GitHub does, so that links work in both places.
type slugs map[string]int

func (s slugs) Generate(value []byte, _ ast.NodeKind) []byte {
	slug := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsNumber(r), r == '-', r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(string(value)))
	n := s[slug]
	s[slug]++
	if n > 0 {
		slug = fmt.Sprintf("%s-%d", slug, n)
	}
	return []byte(slug)
}

func (s slugs) Put(value []byte) { s[string(value)]++ }

// elsewhere leads links of a page where they lead on the site, or in the repository.
func elsewhere(target string) string {
	if strings.Contains(target, "://") || strings.HasPrefix(target, "#") || strings.HasPrefix(target, "mailto:") {
		return target
	}
	file, anchor, hash := strings.Cut(target, "#")
	if hash {
		anchor = "#" + anchor
	}
	file = path.Join("docs", file)
	switch dir, name := path.Split(file); {
	case dir == "docs/" && name == "README.md":
		return "./" + anchor
	case dir == "docs/" && path.Ext(name) == ".md":
		return address(name) + anchor
	case dir == "docs/pictures/":
		return "pictures/" + name
	}
	return repository() + file + anchor
}

// snippet is the comment that says where a block of code comes from: docs_test.go knows it.
var snippet = regexp.MustCompile(`^<!-- (\S+\.(?:go|js))(?: \S+)* -->\s*$`)

// blocks renders blocks of HTML: of a comment, the file that the code below it is from.
type blocks struct{}

func (blocks) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindHTMLBlock, func(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		n := node.(*ast.HTMLBlock)
		raw := string(n.Lines().Value(source))
		if n.HasClosure() {
			raw += string(n.ClosureLine.Value(source))
		}
		switch from := snippet.FindStringSubmatch(raw); {
		case from != nil:
			fmt.Fprintf(w, "<p class=\"from\"><a href=\"%s\">%s</a></p>\n", elsewhere(from[1]), html.EscapeString(path.Join("docs", from[1])))
		case strings.HasPrefix(raw, "<!--"):
		default:
			_, _ = w.WriteString(raw) // of our own pages; what goes wrong is told at the end
		}
		return ast.WalkContinue, nil
	})
}

// render makes a page of its Markdown.
func render(name string, source []byte) *page {
	md := goldmark.New(
		goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)), extension.Strikethrough), // no styles: policy
		goldmark.WithParserOptions(parser.WithAutoHeadingID()),
		goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(blocks{}, 1)), markup.WithUnsafe()),
	)
	root := md.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(slugs{}))))
	p := &page{name: name}
	at := section{URL: address(name)}
	var words strings.Builder
	close := func() {
		at.Text = strings.Join(strings.Fields(words.String()), " ")
		if at.Heading != "" {
			p.sections = append(p.sections, at)
		}
		words.Reset()
	}
	_ = ast.Walk(root, func(node ast.Node, entering bool) (ast.WalkStatus, error) { // this function returns no error
		if !entering {
			if node.Type() == ast.TypeBlock {
				words.WriteByte(' ')
			}
			return ast.WalkContinue, nil
		}
		switch n := node.(type) {
		case *ast.Heading:
			close()
			title := plain(n, source)
			id, _ := n.AttributeString("id")
			h := heading{n.Level, string(id.([]byte)), title}
			if n.Level == 1 {
				p.title = title
			} else if n.Level <= 3 {
				p.headings = append(p.headings, h)
			}
			at = section{Page: p.title, Heading: title, URL: address(name)}
			if n.Level > 1 {
				at.URL += "#" + h.id
			}
		case *ast.Link:
			n.Destination = []byte(elsewhere(string(n.Destination)))
		case *ast.Image:
			n.Destination = []byte(elsewhere(string(n.Destination)))
		case *ast.Text:
			if _, ok := n.Parent().(*ast.Heading); ok {
				break // it is the section's title
			}
			words.Write(n.Value(source))
			if n.SoftLineBreak() || n.HardLineBreak() {
				words.WriteByte(' ')
			}
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			words.Write(n.Lines().Value(source))
		}
		return ast.WalkContinue, nil
	})
	close()
	var b bytes.Buffer
	_ = md.Renderer().Render(&b, source, root) // to memory
	// What is wider than a phone is scrolled, with the keyboard too.
	p.body = strings.NewReplacer("<table>", `<div class="wide" tabindex="0"><table>`, "</table>", "</table></div>", "<pre>", `<pre tabindex="0">`).Replace(b.String())
	return p
}

// plain is the text of a heading.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := node.(*ast.Text); ok && entering {
			b.Write(t.Value(source))
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// fill puts the page into the layout, the i-th of all.
func (p *page) fill(layout string, kinds []kind, names []string, i int) []byte {
	var nav, toc, turn strings.Builder
	titles := map[string]string{}
	for _, k := range kinds {
		fmt.Fprintf(&nav, "<h2>%s</h2>\n<ul>\n", html.EscapeString(k.title))
		for _, e := range k.entries {
			titles[e.page] = e.title
			current := ""
			if e.page == p.name {
				current = ` aria-current="page"`
			}
			fmt.Fprintf(&nav, "<li><a href=\"%s\"%s>%s</a></li>\n", address(e.page), current, html.EscapeString(e.title))
		}
		nav.WriteString("</ul>\n")
	}
	for _, h := range p.headings {
		fmt.Fprintf(&toc, "<li class=\"level%d\"><a href=\"#%s\">%s</a></li>\n", h.level, h.id, html.EscapeString(h.text))
	}
	if i > 1 {
		fmt.Fprintf(&turn, "<a rel=\"prev\" href=\"%s\"><span>Before</span> %s</a>\n", address(names[i-1]), html.EscapeString(titles[names[i-1]]))
	}
	if i+1 < len(names) {
		fmt.Fprintf(&turn, "<a rel=\"next\" href=\"%s\"><span>Next</span> %s</a>\n", address(names[i+1]), html.EscapeString(titles[names[i+1]]))
	}
	title := p.title
	if i > 0 {
		title += " · Superstep"
	}
	return []byte(strings.NewReplacer(
		"{{title}}", html.EscapeString(title), "{{nav}}", nav.String(), "{{contents}}", toc.String(), "{{turn}}", turn.String(),
		"{{body}}", p.body, "{{markdown}}", p.name, "{{source}}", repository()+"docs/"+p.name, "{{repository}}", "https://"+module,
	).Replace(layout))
}
