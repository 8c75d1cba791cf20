package retrieval

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
	"go.yaml.in/yaml/v4"
	"golang.org/x/net/html"
	"golang.org/x/net/html/charset"
)

// Loader reads a document. Source becomes its source and names it in errors, which are
// a [*DocumentError].
type Loader func(source string, r io.Reader) (Document, error)

// MaxBytes is how many bytes [Read] takes.
const MaxBytes = 64 << 20

// Read reads all of a document that is to be loaded, up to [MaxBytes]. It is for
// loaders.
func Read(source string, r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return nil, unreadable(source, err)
	}
	if len(data) > MaxBytes {
		return nil, &DocumentError{Document: source, Kind: ErrTooLarge, Err: fmt.Errorf("it has more than %d bytes", MaxBytes), Fix: "divide it"}
	}
	return data, nil
}

func unreadable(source string, err error) error {
	return &DocumentError{Document: source, Kind: ErrUnreadable, Err: err, Fix: "check that it is there, that it may be read, and that it is whole"}
}

// Text loads plain text in UTF-8.
func Text(source string, r io.Reader) (Document, error) {
	data, err := Read(source, r)
	if err != nil {
		return Document{}, err
	}
	d := Document{Source: source, Text: string(data)}
	if bom := "\uFEFF"; strings.HasPrefix(d.Text, bom) {
		d.Text = strings.Repeat(" ", len(bom)) + d.Text[len(bom):]
	}
	return d, d.Check()
}

// Markdown loads Markdown in UTF-8, with a section for each heading. The title is
// that of the front matter, which becomes the metadata, or else the first heading.
// Front matter is YAML between lines of three hyphens at the beginning; in the text
// spaces stand in its place, so that places in the text are those of the file.
func Markdown(source string, r io.Reader) (Document, error) {
	d, err := Text(source, r)
	if err != nil {
		return Document{}, err
	}
	if err := d.takeFrontMatter(); err != nil {
		return Document{}, err
	}
	d.takeHeadings()
	return d, d.Check()
}

// takeFrontMatter makes metadata of front matter.
func (d *Document) takeFrontMatter() error {
	lines := strings.SplitAfter(d.Text, "\n")
	if strings.TrimSpace(lines[0]) != "---" {
		return nil
	}
	end := slices.IndexFunc(lines[1:], func(l string) bool { return strings.TrimRight(l, "\r\n") == "---" }) + 1
	if end < 1 {
		return nil // a rule between paragraphs
	}
	matter := strings.Join(lines[1:end], "")
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(matter), &fields); err != nil {
		return &DocumentError{Document: d.Source, Kind: ErrInvalid, Err: fmt.Errorf("front matter: %w", err), Fix: "correct the YAML between the lines of three hyphens"}
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		return &DocumentError{Document: d.Source, Kind: ErrInvalid, Err: fmt.Errorf("front matter: %w", err), Fix: "write values that JSON has, too"}
	}
	if len(fields) > 0 {
		d.Metadata = raw
	}
	d.Title, _ = fields["title"].(string)
	n := len(strings.Join(lines[:end+1], ""))
	d.Text = strings.Repeat(" ", n) + d.Text[n:]
	return nil
}

// takeHeadings makes sections of the headings of Markdown.
func (d *Document) takeHeadings() {
	source := []byte(d.Text)
	body := len(source) - len(bytes.TrimLeft(source, " ")) // spaces would be code to Markdown
	root := goldmark.DefaultParser().Parse(text.NewReader(source[body:]))
	type heading struct {
		level int
		name  string
	}
	var open []heading
	for n := root.FirstChild(); n != nil; n = n.NextSibling() {
		h, ok := n.(*ast.Heading)
		if !ok || h.Lines().Len() == 0 {
			continue
		}
		name := strings.Join(strings.Fields(words(h, source[body:])), " ")
		if name == "" {
			continue
		}
		for len(open) > 0 && open[len(open)-1].level >= h.Level {
			open = open[:len(open)-1]
		}
		open = append(open, heading{h.Level, name})
		at := body + h.Lines().At(0).Start
		s := Section{Start: max(body, bytes.LastIndexByte(source[:at], '\n')+1)}
		for _, o := range open {
			s.Headings = append(s.Headings, o.name)
		}
		d.Sections = append(d.Sections, s)
		if d.Title == "" {
			d.Title = name
		}
	}
}

// words is the text of a node of Markdown, without markup.
func words(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function never fails
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			b.Write(n.Value(source))
			if n.SoftLineBreak() || n.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(n.Value)
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// HTML loads a page as Markdown: its text, headings, lists, tables and links, without
// scripts and styles. Its encoding is the one that it names. Places are those in the
// Markdown.
func HTML(source string, r io.Reader) (Document, error) {
	data, err := Read(source, r)
	if err != nil {
		return Document{}, err
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return Document{}, empty(source)
	}
	decoded, err := charset.NewReader(bytes.NewReader(data), "text/html")
	if err != nil {
		return Document{}, unreadable(source, err)
	}
	root, err := html.Parse(decoded)
	if err != nil {
		return Document{}, unreadable(source, err)
	}
	d := Document{Source: source, Title: cleanHTML(root)}
	c := converter.NewConverter(converter.WithPlugins(base.NewBasePlugin(), commonmark.NewCommonmarkPlugin(), table.NewTablePlugin()))
	markdown, err := c.ConvertNode(root)
	if err != nil {
		return Document{}, unreadable(source, err)
	}
	d.Text = strings.ReplaceAll(strings.ToValidUTF8(string(markdown), "\uFFFD"), "\x00", "\uFFFD")
	d.takeHeadings()
	return d, d.Check()
}

// cleanHTML returns a page's title, and removes pictures that are in the page itself,
// which would be long texts without a meaning.
func cleanHTML(root *html.Node) (title string) {
	var pictures []*html.Node
	for n := range root.Descendants() {
		switch {
		case n.Type != html.ElementNode:
		case n.Data == "title" && n.FirstChild != nil && title == "":
			title = strings.Join(strings.Fields(n.FirstChild.Data), " ")
		case n.Data == "img" && slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "src" && strings.HasPrefix(a.Val, "data:") }):
			pictures = append(pictures, n)
		}
	}
	for _, n := range pictures {
		n.Parent.RemoveChild(n)
	}
	return title
}

// Loaders are loaders by the ends of files' names, in lower case: ".pdf". They are
// added to those that are known without them: .txt, .md, .markdown, .html and .htm.
type Loaders map[string]Loader

var known = Loaders{".txt": Text, ".md": Markdown, ".markdown": Markdown, ".html": HTML, ".htm": HTML}

// of returns the loader of a file.
func (l Loaders) of(name string) (Loader, error) {
	ext := strings.ToLower(path.Ext(name))
	if load := l[ext]; load != nil {
		return load, nil
	}
	if load := known[ext]; load != nil {
		return load, nil
	}
	all := slices.AppendSeq(slices.Collect(maps.Keys(known)), maps.Keys(l))
	slices.Sort(all)
	return nil, &DocumentError{
		Document: name, Kind: ErrUnknownType,
		Fix: fmt.Sprintf("give a loader for %q, or load other files; there are loaders for %s", ext, strings.Join(slices.Compact(all), ", ")),
	}
}

// LoadFile loads a file by the end of its name. Loaders may be nil.
func LoadFile(ctx context.Context, name string, loaders Loaders) (Document, error) {
	if err := ctx.Err(); err != nil {
		return Document{}, err
	}
	load, err := loaders.of(filepath.ToSlash(name))
	if err != nil {
		return Document{}, err
	}
	f, err := os.Open(name)
	if err != nil {
		return Document{}, unreadable(name, err)
	}
	defer f.Close()
	return load(name, f)
}

// LoadFS loads files by the ends of their names, in the order of their paths, which
// become their sources. Loaders may be nil.
//
// Patterns are those of [path.Match]; one without a slash is for the names of files in
// all folders. Without a pattern all files are loaded but those in hidden folders and
// hidden ones themselves, whose names begin with a point. A file that can't be loaded is
// an error among the documents, which go on after it; so is a pattern that no file
// matches.
func LoadFS(ctx context.Context, fsys fs.FS, loaders Loaders, patterns ...string) iter.Seq2[Document, error] {
	return func(yield func(Document, error) bool) {
		matched := make([]bool, len(patterns))
		wanted := func(name string) bool {
			found := len(patterns) == 0
			for i, p := range patterns {
				of := name
				if !strings.Contains(p, "/") {
					of = path.Base(name)
				}
				if ok, _ := path.Match(p, of); ok { // patterns were checked
					found, matched[i] = true, true
				}
			}
			return found
		}
		for _, p := range patterns {
			if _, err := path.Match(p, ""); err != nil {
				yield(Document{}, &OptionError{Option: fmt.Sprintf("pattern %q", p), Reason: err.Error() + "; see path.Match for how to write it"})
				return
			}
		}
		errStop := errors.New("enough")
		err := fs.WalkDir(fsys, ".", func(name string, e fs.DirEntry, err error) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				if !yield(Document{}, unreadable(name, err)) {
					return errStop
				}
				return nil
			}
			hidden := len(patterns) == 0 && name != "." && strings.HasPrefix(e.Name(), ".")
			switch {
			case e.IsDir() && hidden:
				return fs.SkipDir
			case e.IsDir() || hidden || !wanted(name):
				return nil
			}
			d, err := loadFrom(fsys, name, loaders)
			if !yield(d, err) {
				return errStop
			}
			return nil
		})
		if err == errStop || err != nil && !yield(Document{}, err) {
			return
		}
		for i, p := range patterns {
			if err == nil && !matched[i] && !yield(Document{}, &OptionError{Option: fmt.Sprintf("pattern %q", p), Reason: "no file matches it"}) {
				return
			}
		}
	}
}

func loadFrom(fsys fs.FS, name string, loaders Loaders) (Document, error) {
	load, err := loaders.of(name)
	if err != nil {
		return Document{}, err
	}
	f, err := fsys.Open(name)
	if err != nil {
		return Document{}, unreadable(name, err)
	}
	defer f.Close()
	return load(name, f)
}
