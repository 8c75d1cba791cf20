package digest

import (
	"strings"

	"github.com/superstep-dev/superstep/internal/lazyregexp"
)

// blockKind is what a block of text is.
type blockKind uint8

const (
	prose   blockKind = iota // a paragraph
	heading                  // has a level
	label                    // a table cell, a caption: words without sentences
	code                     // not prose
)

type block struct {
	kind  blockKind
	level int // of a heading, from 1
	text  string
}

// page is a file taken apart, whatever its format.
type page struct {
	title  string // what the file says is its title, if it has a place for that
	blocks []block
	links  []rawLink
}

// rawLink is a link as it is written.
type rawLink struct {
	text, dest string
}

func (p *page) add(kind blockKind, level int, text string) {
	if strings.TrimSpace(text) != "" {
		p.blocks = append(p.blocks, block{kind: kind, level: level, text: text})
	}
}

func (p *page) link(text, dest string) {
	if dest = strings.TrimSpace(dest); dest != "" {
		p.links = append(p.links, rawLink{text: text, dest: dest})
	}
}

// bareURL matches a URL in running text. It ends before punctuation that
// rather belongs to the sentence.
var bareURL = lazyregexp.New(`https?://[^\s<>"'` + "`" + `|\\^{}\[\]]*[^\s<>"'` + "`" + `|\\^{}\[\].,;:!?…)*_]`)

// takeURLs notes the URLs of text as links and returns text without them.
func (p *page) takeURLs(text string) string {
	if !strings.Contains(text, "http") {
		return text
	}
	return bareURL().ReplaceAllStringFunc(text, func(u string) string {
		p.link("", u)
		return " "
	})
}

// frontMatter splits off the metadata block that site generators read, YAML
// between lines of three hyphens or TOML between lines of three plus signs,
// and returns the title in it.
func frontMatter(text string) (title, rest string) {
	var fence string
	switch {
	case strings.HasPrefix(text, "---\n"):
		fence = "---"
	case strings.HasPrefix(text, "+++\n"):
		fence = "+++"
	default:
		return "", text
	}
	at := 4
	for n := 0; at < len(text) && n < 200; n++ {
		line, _, _ := strings.Cut(text[at:], "\n")
		next := min(at+len(line)+1, len(text))
		if l := strings.TrimRight(line, " \t"); l == fence || fence == "---" && l == "..." {
			return title, text[next:]
		}
		if n == 0 && strings.TrimSpace(line) == "" { // a thematic break, not a fence
			return "", text
		}
		if m := titleLine().FindStringSubmatch(line); m != nil && title == "" {
			title = unquote(m[1])
		}
		at = next
	}
	return "", text
}

var titleLine = lazyregexp.New(`^title\s*[:=]\s*(.+?)\s*$`)

func unquote(s string) string {
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1]
	}
	return s
}
