// Package pdf loads the text of PDF files for package retrieval.
//
//	retrieval.LoadFS(ctx, os.DirFS("manuals"), retrieval.Loaders{".pdf": pdf.Load})
package pdf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strings"
	"unicode"

	reader "github.com/ledongthuc/pdf"

	"github.com/superstep-dev/superstep/retrieval"
)

// ErrNoText says that a PDF has pages and no text on them: pictures of a scanner, say.
// The error is a [*retrieval.DocumentError], of the kind [retrieval.ErrEmpty], too.
var ErrNoText = errors.New("none of its pages has text")

// Load reads a PDF: a [retrieval.Loader]. Each page is a section, whose lines stand in
// the order of the file; a gap between lines is an empty line. Pictures and forms
// are left out, as is text that the file draws by way of other objects. A file that is
// encrypted with a password is [retrieval.ErrUnreadable].
//
// A file that somebody made for it may still take long, or much memory: files of
// strangers are best read by a process with limits.
func Load(source string, r io.Reader) (d retrieval.Document, err error) {
	data, err := retrieval.Read(source, r)
	if err != nil {
		return d, err
	}
	unreadable := func(err error, fix string) error {
		return &retrieval.DocumentError{Document: source, Kind: retrieval.ErrUnreadable, Err: err, Fix: fix}
	}
	const broken = "check that it is a whole PDF: open it and save it anew"
	defer func() { // the library panics at what is not as it should be
		if v := recover(); v != nil {
			d, err = retrieval.Document{}, unreadable(fmt.Errorf("%v", v), broken)
		}
	}()
	file, err := reader.NewReader(bytes.NewReader(data), int64(len(data)))
	if errors.Is(err, reader.ErrInvalidPassword) {
		return d, unreadable(err, "save it without a password")
	}
	if err != nil {
		return d, unreadable(err, broken)
	}
	d.Source = source
	if info := file.Trailer().Key("Info").Key("Title"); !info.IsNull() {
		d.Title = strings.Join(strings.Fields(clean(info.Text())), " ")
	}
	var text strings.Builder
	pages, err := pagesOf(file, len(data)/10) // no page takes less
	if err != nil {
		return retrieval.Document{}, unreadable(err, broken)
	}
	for i, page := range pages {
		d.Sections = append(d.Sections, retrieval.Section{Start: text.Len(), Page: i + 1})
		text.WriteString(strings.TrimSpace(clean(lines(page.Content().Text))))
		text.WriteString("\n\n")
	}
	d.Text = text.String()
	if strings.TrimSpace(d.Text) == "" {
		return retrieval.Document{}, &retrieval.DocumentError{
			Document: source, Kind: retrieval.ErrEmpty, Err: ErrNoText, Fix: "have a program for text recognition (OCR) add it, or leave the file out",
		}
	}
	return d, d.Check()
}

const maxDepth = 64 // of a tree of pages

// pagesOf returns the pages of a file, in order. The library's own way of finding them
// goes round in circles where a file does.
func pagesOf(file *reader.Reader, most int) (pages []reader.Page, err error) {
	seen := 0
	var walk func(v reader.Value, depth int) error
	walk = func(v reader.Value, depth int) error {
		if seen++; seen > most || depth > maxDepth {
			return errors.New("its tree of pages has no end")
		}
		if v.Key("Type").Name() == "Page" {
			above := v
			for range maxDepth {
				above = above.Key("Parent")
			}
			if !above.IsNull() {
				return errors.New("its tree of pages has no root")
			}
			pages = append(pages, reader.Page{V: v})
			return nil
		}
		kids := v.Key("Kids")
		for i := range kids.Len() {
			if err := walk(kids.Index(i), depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	return pages, walk(file.Trailer().Key("Root").Key("Pages"), 0)
}

// lines joins characters to lines: a new one begins where the height changes, and a word
// where there is a gap, since files may have no spaces.
func lines(characters []reader.Text) string {
	var b strings.Builder
	run, width := 0.0, 0.0 // where the characters before began, which stand at one place, and about how wide they are
	var last reader.Text
	for i, c := range characters {
		if c.S == "\n" || c.S == "\uFFFD" { // the library adds a line's end to some texts, which fonts may not know
			last.X, last.W = c.X, c.W
			continue
		}
		size := max(last.FontSize, c.FontSize, 1)
		height, moved := math.Abs(last.Y-c.Y), math.Abs(c.X-last.X) > size/5
		switch {
		case i == 0:
		case height > 2*size:
			b.WriteString("\n\n")
		case height > size/2:
			b.WriteByte('\n')
		case spaced(last.S, c.S):
		case last.W > 0 && c.X-last.X-last.W > size/5, last.W == 0 && moved && c.X-run > width:
			b.WriteByte(' ')
		}
		if i == 0 || moved || height > size/2 {
			run, width = c.X, 0
		}
		width += about(c.S) * c.FontSize
		b.WriteString(c.S)
		last = c
	}
	return b.String()
}

func spaced(last, next string) bool {
	return strings.TrimSpace(last) != last || strings.TrimSpace(next) != next || last == "" || next == ""
}

// about is how wide characters are at most, mostly, for their size: of some fonts the
// library doesn't know it.
func about(s string) (width float64) {
	for _, r := range s {
		switch {
		case strings.ContainsRune("iIljtf.,:;'|!()[]", r):
			width += 0.4
		case r == 'm' || r == 'w' || r > 0x2e80 || unicode.IsUpper(r):
			width += 1
		default:
			width += 0.65
		}
	}
	return width
}

// clean makes text of what files contain in its stead.
func clean(s string) string {
	s = strings.ToValidUTF8(ligatures.Replace(s), "\uFFFD")
	return emptyLines.ReplaceAllString(lineEnds.ReplaceAllString(s, "\n"), "\n\n")
}

var lineEnds, emptyLines = regexp.MustCompile(`[ \t]+\n`), regexp.MustCompile(`\n{3,}`)

var ligatures = strings.NewReplacer("ﬀ", "ff", "ﬁ", "fi", "ﬂ", "fl", "ﬃ", "ffi", "ﬄ", "ffl", "ﬅ", "st", "ﬆ", "st", "\u00ad", "", "\x00", "\uFFFD", "\r", "\n")
