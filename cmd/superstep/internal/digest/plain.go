package digest

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/internal/lazyregexp"
)

// parsePlain takes apart a file that is not parsed as Markdown, line by line.
// The formats share paragraphs, which blank lines separate, and differ in how
// headings, code and links look. What a heuristic does not recognise stays
// prose.
func parsePlain(text string, format Format) *page {
	p := &page{}
	if format == Markdown {
		p.title, text = frontMatter(text)
	}
	r := plainReader{page: p, format: format, lines: strings.Split(text, "\n"), levels: make(map[string]int)}
	for r.at < len(r.lines) {
		r.step()
	}
	r.endParagraph()
	return p
}

type plainReader struct {
	page   *page
	format Format
	lines  []string
	at     int
	para   []string       // lines of the current paragraph
	levels map[string]int // of the underlines of reStructuredText
	// literal says that an indented block that follows is code, as after "::".
	literal bool
}

func (r *plainReader) line(i int) string {
	if i < 0 || i >= len(r.lines) {
		return ""
	}
	return strings.TrimRight(r.lines[i], " \t\f\v")
}

func (r *plainReader) endParagraph() {
	if len(r.para) == 0 {
		return
	}
	text := strings.Join(r.para, "\n")
	r.para = r.para[:0]
	if r.format == RST {
		r.literal = strings.HasSuffix(text, "::")
	}
	r.page.add(prose, 0, r.inline(text))
}

func (r *plainReader) heading(level int, text string) {
	r.endParagraph()
	r.page.add(heading, level, r.inline(text))
}

// code adds the lines from r.at up to but without end as code and goes on at
// next.
func (r *plainReader) code(end, next int) {
	r.endParagraph()
	r.page.add(code, 0, strings.Join(r.lines[r.at:min(end, len(r.lines))], "\n"))
	r.at = next
}

// fenced handles a block of code whose first line is r.at and that ends with a
// line for which isEnd holds, or with the file.
func (r *plainReader) fenced(isEnd func(string) bool) {
	r.at++
	end := r.at
	for end < len(r.lines) && !isEnd(r.line(end)) {
		end++
	}
	r.code(end, end+1)
}

var (
	mdHeading    = lazyregexp.New(`^ {0,3}(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?$`)
	adocHeading  = lazyregexp.New(`^(={1,6})[ \t]+(\S.*)$`)
	orgHeading   = lazyregexp.New(`^(\*+)[ \t]+(?:(?:TODO|DONE)[ \t]+)?(\S.*?)(?:[ \t]+:[\w@:]+:)?$`)
	orgKeyword   = lazyregexp.New(`(?i)^#\+([a-z_]+):[ \t]*(.*)$`)
	numbered     = lazyregexp.New(`^(\d{1,3}(?:\.\d{1,3})*)[.)]?[ \t]+\S`)
	rstDirective = lazyregexp.New(`^\.\.(?:[ \t]+(.*))?$`)
	rstTarget    = lazyregexp.New(`^\.\.[ \t]+_[^:]+:[ \t]*(\S+)$`)
	rstImage     = lazyregexp.New(`^\.\.[ \t]+(?:image|figure|include|literalinclude)::[ \t]*(\S+)$`)
	rstCode      = lazyregexp.New(`^\.\.[ \t]+(?:code|code-block|sourcecode|parsed-literal)::`)
)

// step handles the line at r.at and any that belong to it.
func (r *plainReader) step() {
	line := r.line(r.at)
	if strings.TrimSpace(line) == "" {
		r.endParagraph()
		r.at++
		return
	}
	if len(r.para) == 0 && r.literal {
		r.literal = false
		if indented(line) {
			end := r.at
			for end < len(r.lines) && (r.line(end) == "" || indented(r.line(end))) {
				end++
			}
			r.code(end, end)
			return
		}
	}
	var done bool
	switch r.format {
	case Markdown:
		done = r.stepMarkdown(line)
	case RST:
		done = r.stepRST(line)
	case ASCIIDoc:
		done = r.stepASCIIDoc(line)
	case Org:
		done = r.stepOrg(line)
	default:
		done = r.stepText(line)
	}
	if !done {
		r.para = append(r.para, line)
		r.at++
	}
}

func indented(line string) bool { return strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t") }

func (r *plainReader) stepMarkdown(line string) bool {
	if fence := strings.TrimLeft(line, " "); strings.HasPrefix(fence, "```") || strings.HasPrefix(fence, "~~~") {
		r.fenced(func(l string) bool { return strings.HasPrefix(strings.TrimLeft(l, " "), fence[:3]) })
		return true
	}
	if m := mdHeading().FindStringSubmatch(line); m != nil {
		r.heading(len(m[1]), m[2])
		r.at++
		return true
	}
	return false
}

// adornment returns the character of which line is a run, or 0.
func adornment(line string) byte {
	if len(line) < 2 || !strings.ContainsRune("=-~^\"'`#*+.:_<>", rune(line[0])) {
		return 0
	}
	if strings.Trim(line, line[:1]) != "" {
		return 0
	}
	return line[0]
}

func (r *plainReader) stepRST(line string) bool {
	if len(r.para) == 0 {
		// A title between two equal lines, or above one.
		if c := adornment(line); c != 0 && r.line(r.at+2) == line && strings.TrimSpace(r.line(r.at+1)) != "" {
			r.heading(r.level(string(c)+"over"), strings.TrimSpace(r.line(r.at+1)))
			r.at += 3
			return true
		}
		under := r.line(r.at + 1)
		if c := adornment(under); c != 0 && !indented(line) && utf8.RuneCountInString(line) <= len(under) {
			r.heading(r.level(string(c)), line)
			r.at += 2
			return true
		}
	}
	if !rstDirective().MatchString(line) {
		return false
	}
	r.endParagraph()
	if m := rstTarget().FindStringSubmatch(line); m != nil {
		r.page.link("", m[1])
	} else if m := rstImage().FindStringSubmatch(line); m != nil {
		r.page.link("", m[1])
	}
	// The indented lines below are the directive's options and content. Those
	// of notes and warnings are prose, so only code is left out.
	r.at++
	if rstCode().MatchString(line) {
		r.literal = true
	}
	for r.at < len(r.lines) && strings.HasPrefix(strings.TrimSpace(r.line(r.at)), ":") && indented(r.line(r.at)) {
		r.at++
	}
	return true
}

// level returns the level of an adornment: they rank in the order in which they
// first occur, as the reStructuredText specification has it ("Sections").
func (r *plainReader) level(adornment string) int {
	if r.levels[adornment] == 0 {
		r.levels[adornment] = len(r.levels) + 1
	}
	return r.levels[adornment]
}

func (r *plainReader) stepASCIIDoc(line string) bool {
	switch {
	case len(line) >= 4 && (strings.Trim(line, "-") == "" || strings.Trim(line, ".") == ""), strings.HasPrefix(line, "```"):
		r.fenced(func(l string) bool { return l == line || line[0] == '`' && strings.HasPrefix(l, "```") })
	case len(line) >= 4 && strings.Trim(line, "/") == "": // a comment
		r.endParagraph()
		for r.at++; r.at < len(r.lines) && r.line(r.at) != line; {
			r.at++
		}
		r.at++
	case strings.HasPrefix(line, "//"), strings.HasPrefix(line, ":") && strings.Contains(line[1:], ":"):
		r.at++ // a comment or an attribute
	case strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") && len(r.para) == 0 && !strings.Contains(line, "]("):
		r.at++ // attributes of the block below
	default:
		m := adocHeading().FindStringSubmatch(line)
		if m == nil || len(r.para) > 0 {
			return false
		}
		r.heading(len(m[1]), m[2])
		r.at++
	}
	return true
}

func (r *plainReader) stepOrg(line string) bool {
	lower := strings.ToLower(strings.TrimLeft(line, " \t"))
	if strings.HasPrefix(lower, "#+begin_src") || strings.HasPrefix(lower, "#+begin_example") {
		r.fenced(func(l string) bool {
			return strings.HasPrefix(strings.ToLower(strings.TrimLeft(l, " \t")), "#+end_")
		})
		return true
	}
	if m := orgKeyword().FindStringSubmatch(line); m != nil {
		r.endParagraph()
		if strings.EqualFold(m[1], "title") && r.page.title == "" {
			r.page.title = m[2]
		}
		r.at++
		return true
	}
	if strings.HasPrefix(lower, "#+") || strings.HasPrefix(line, "# ") { // other keywords and comments
		r.endParagraph()
		r.at++
		return true
	}
	if m := orgHeading().FindStringSubmatch(line); m != nil {
		r.heading(len(m[1]), m[2])
		r.at++
		return true
	}
	return false
}

// stepText finds headings in plain text: an underlined line, or a short line
// alone between blank ones that is in capitals or numbered and does not end
// like a sentence.
func (r *plainReader) stepText(line string) bool {
	if len(r.para) > 0 {
		return false
	}
	text := strings.TrimSpace(line)
	size := utf8.RuneCountInString(text)
	under := strings.TrimSpace(r.line(r.at + 1))
	if c := adornment(under); (c == '=' || c == '-' || c == '~' || c == '*') && size <= 100 && len(under) >= 3 && 2*len(under) >= size && adornment(text) == 0 {
		level := 1
		if c != '=' && c != '*' {
			level = 2
		}
		r.heading(level, text)
		r.at += 2
		return true
	}
	if size < 2 || size > 80 || under != "" || r.at > 0 && strings.TrimSpace(r.line(r.at-1)) != "" {
		return false
	}
	if last, _ := utf8.DecodeLastRuneInString(text); strings.ContainsRune(".,;!?…", last) {
		return false
	}
	level := 0
	if m := numbered().FindStringSubmatch(text); m != nil && !indented(line) {
		level = min(strings.Count(m[1], ".")+1, 6)
	} else if capitals(text) {
		level = 1
	}
	if level == 0 {
		return false
	}
	r.heading(level, strings.TrimSuffix(text, ":"))
	r.at++
	return true
}

// capitals reports whether text has at least three capital letters and no small
// ones.
func capitals(text string) bool {
	upper := 0
	for _, c := range text {
		switch {
		case unicode.IsLower(c):
			return false
		case unicode.IsUpper(c):
			upper++
		}
	}
	return upper >= 3
}

var (
	mdLink   = lazyregexp.New(`\[([^\[\]]{0,200})\]\(<?([^\s()<>]{1,400})>?(?:\s+"[^"\n]{0,200}")?\)`)
	rstLink  = lazyregexp.New("`([^`<]{0,300})<([^`<>]{1,400})>`__?")
	rstRole  = lazyregexp.New(":(doc|download|ref|file|[a-z]+(?::[a-z]+)?):`([^`]{1,400})`")
	rstTitle = lazyregexp.New(`^(.*?)\s*<([^<>]+)>$`)
	adocLink = lazyregexp.New(`\b(?:link|xref|image|include):{1,2}([^\s\[\]]{1,400})\[([^\[\]]{0,300})\]`)
	adocXref = lazyregexp.New(`<<([^<>,#\n]{1,400}\.a(?:scii)?doc)(?:#[^<>,\n]*)?(?:,([^<>]{0,300}))?>>`)
	orgLink  = lazyregexp.New(`\[\[([^\[\]\n]{1,400})\](?:\[([^\[\]]{1,300})\])?\]`)
)

// rstMarks removes the marks of literals and strong emphasis.
var rstMarks = strings.NewReplacer("``", "", "**", "")

// replaceLinks replaces what re matches in text by the text that f returns for
// the submatches.
func replaceLinks(re *regexp.Regexp, text string, f func(m []string) string) string {
	return re.ReplaceAllStringFunc(text, func(s string) string { return f(re.FindStringSubmatch(s)) })
}

// inline notes the links of text and returns it without their addresses.
func (r *plainReader) inline(text string) string {
	p := r.page
	switch r.format {
	case Markdown:
		text = replaceLinks(mdLink(), text, func(m []string) string {
			p.link(m[1], m[2])
			return m[1]
		})
	case RST:
		text = replaceLinks(rstLink(), text, func(m []string) string {
			if strings.HasSuffix(m[2], "_") { // names a target that is defined elsewhere
				return m[1]
			}
			p.link(m[1], m[2])
			return m[1]
		})
		text = replaceLinks(rstRole(), text, func(m []string) string {
			title, dest := m[2], m[2]
			if t := rstTitle().FindStringSubmatch(m[2]); t != nil {
				title, dest = t[1], t[2]
			}
			switch m[1] {
			case "doc":
				p.link(title, dest) // without an extension; see linkSet.find
			case "download":
				p.link(title, dest)
			}
			return title
		})
		text = rstMarks.Replace(text)
	case ASCIIDoc:
		text = replaceLinks(adocLink(), text, func(m []string) string {
			p.link(m[2], m[1])
			return m[2]
		})
		text = replaceLinks(adocXref(), text, func(m []string) string {
			p.link(m[2], m[1])
			return m[2]
		})
	case Org:
		text = replaceLinks(orgLink(), text, func(m []string) string {
			dest, ok := strings.CutPrefix(m[1], "file:")
			if ok || strings.HasPrefix(dest, "http") || strings.HasPrefix(dest, "./") || strings.HasPrefix(dest, "../") {
				dest, _, _ = strings.Cut(dest, "::") // a place in the file
				p.link(m[2], dest)
			}
			if m[2] != "" {
				return m[2]
			}
			return " "
		})
	}
	return p.takeURLs(text)
}
