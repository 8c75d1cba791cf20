package digest

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/internal/lazyregexp"
)

// ReportOptions configures [Report]. The zero value gives a report without a
// date and with the default bounds.
type ReportOptions struct {
	Title  string    // "Digest" if empty
	Folder string    // what was digested, as the user knows it; may be empty
	Date   time.Time // left out if zero
	Model  string    // that wrote the summaries; empty: none did
	// MaxRows bounds the table of documents; 0 means 100.
	MaxRows int
	// MaxItems bounds every other list; 0 means 20.
	MaxItems int
}

// Report writes the findings about a corpus as Markdown in GitHub's dialect.
// Lists that would get too long end with "and N more". Titles, file names and
// other text from the documents are escaped, so they cannot change the
// structure of the report.
func Report(c Corpus, opts ReportOptions) string {
	opts.MaxRows = cmp.Or(max(opts.MaxRows, 0), 100)
	opts.MaxItems = cmp.Or(max(opts.MaxItems, 0), 20)
	r := &reporter{c: c, opts: opts}
	r.head()
	r.totals()
	r.keywords()
	r.documents()
	r.summaries()
	r.duplicates()
	r.broken()
	r.orphans()
	r.hosts()
	r.skipped()
	r.method()
	return r.b.String()
}

type reporter struct {
	b    strings.Builder
	c    Corpus
	opts ReportOptions
}

func (r *reporter) printf(format string, args ...any) { fmt.Fprintf(&r.b, format, args...) }

func (r *reporter) section(name string) { r.printf("\n## %s\n\n", name) }

// more ends a list of which n of total items are shown.
func (r *reporter) more(n, total int, format string) {
	if total > n {
		r.printf(format, "and "+thousands(total-n)+" more")
	}
}

func (r *reporter) head() {
	r.printf("# %s\n\n", escape(cmp.Or(clean(r.opts.Title), "Digest")))
	var line []string
	if r.opts.Folder != "" {
		line = append(line, "Folder: "+escape(r.opts.Folder))
	}
	if !r.opts.Date.IsZero() {
		line = append(line, "Date: "+r.opts.Date.Format(time.DateOnly))
	}
	if len(line) > 0 {
		r.printf("%s\n\n", strings.Join(line, " · "))
	}
	t := r.c.Totals
	if t.Documents == 0 {
		r.printf("There are no documents.\n")
		return
	}
	r.printf("%s with %s, %s to read.", plural(t.Documents, "document"), plural(t.Words, "word"), readingText(t.Seconds))
	var found []string
	if n := len(r.c.Groups); n > 0 {
		found = append(found, plural(n, "group")+" of near-duplicates")
	}
	if t.BrokenLinks > 0 {
		found = append(found, plural(t.BrokenLinks, "broken link"))
	}
	if t.Empty > 0 {
		found = append(found, plural(t.Empty, "document")+" without text")
	}
	if n := len(r.c.Skipped); n > 0 {
		found = append(found, plural(n, "file")+" skipped")
	}
	if n := r.missing(); n > 0 {
		found = append(found, plural(n, "document")+" without a summary")
	}
	if len(found) > 0 {
		r.printf(" To look at: %s.", strings.Join(found, ", "))
	}
	r.printf("\n")
}

func (r *reporter) totals() {
	t := r.c.Totals
	if t.Documents == 0 {
		return
	}
	r.section("Totals")
	r.printf("| | |\n| --- | ---: |\n")
	row := func(name, value string) { r.printf("| %s | %s |\n", name, value) }
	row("Documents", thousands(t.Documents))
	if len(t.Formats) > 1 {
		for _, f := range t.Formats {
			row("… in "+escape(f.Name), thousands(f.Count))
		}
	}
	if len(t.Languages) > 0 {
		var list []string
		for _, l := range t.Languages {
			list = append(list, languageName(l.Name)+" "+thousands(l.Count))
		}
		row("Languages, as guessed", strings.Join(list, ", "))
	}
	row("Size", bytesText(t.Bytes))
	row("Lines", thousands(t.Lines))
	if t.CodeLines > 0 {
		row("… of code", thousands(t.CodeLines))
	}
	row("Words", thousands(t.Words))
	row("Sentences", thousands(t.Sentences))
	row("Headings", thousands(t.Headings))
	row("Reading time", readingText(t.Seconds))
	row("Links between documents", thousands(t.InternalLinks))
	row("Links to the web", thousands(t.ExternalLinks))
	row("Broken links", thousands(t.BrokenLinks))
	if t.Documents > 1 {
		row("Largest", escape(cut(r.c.Largest, maxShown)))
		row("Most words", escape(cut(r.c.Longest, maxShown)))
	}
}

func (r *reporter) keywords() {
	if len(r.c.Keywords) == 0 {
		return
	}
	r.section("Keywords")
	shown := r.c.Keywords[:min(len(r.c.Keywords), 2*r.opts.MaxItems)]
	for i, k := range shown {
		if i > 0 {
			r.printf(", ")
		}
		r.printf("%s", escape(k.Text))
		if r.c.Totals.Documents > 1 {
			r.printf(" (%s)", thousands(k.Documents))
		}
	}
	r.more(len(shown), len(r.c.Keywords), ", %s")
	r.printf("\n")
	if r.c.Totals.Documents > 1 {
		r.printf("\nIn parentheses: the number of documents.\n")
	}
}

func (r *reporter) documents() {
	if len(r.c.Documents) == 0 {
		return
	}
	r.section("Documents")
	rows := slices.Clone(r.c.Documents)
	if total := len(rows); total > r.opts.MaxRows {
		slices.SortStableFunc(rows, func(a, b Entry) int { return cmp.Compare(b.Words, a.Words) })
		rows = rows[:r.opts.MaxRows]
		r.printf("The %s with most words, of %s.\n\n", thousands(len(rows)), thousands(total))
	}
	r.printf("| File | Title | Words | Reading | Keywords |\n| --- | --- | ---: | ---: | --- |\n")
	for _, e := range rows {
		var words []string
		for _, k := range e.Keywords {
			words = append(words, escape(k.Text))
		}
		title := escape(e.Title)
		if e.Words == 0 {
			title = "*no text*"
		}
		r.printf("| %s | %s | %s | %s | %s |\n", escape(cut(e.ID, maxShown)), title, thousands(e.Words), minutes(e.Seconds), cmp.Or(strings.Join(words, ", "), "–"))
	}
	r.more(len(rows), len(r.c.Documents), "\n… %s.\n")
}

// missing counts the documents that a model was to summarise and did not.
func (r *reporter) missing() int {
	n := 0
	for _, e := range r.c.Documents {
		if e.Missing != "" {
			n++
		}
	}
	return n
}

// written are the summaries of a model: of each document, since they are what it
// was asked for.
func (r *reporter) written() {
	r.section("Summaries")
	r.printf("By %s, which may be wrong.\n\n", escape(clean(r.opts.Model)))
	rows := slices.Clone(r.c.Documents)
	total := len(rows)
	if total > r.opts.MaxRows {
		slices.SortStableFunc(rows, func(a, b Entry) int { return cmp.Compare(b.Words, a.Words) })
		rows = rows[:r.opts.MaxRows]
	}
	for _, e := range rows {
		text := escape(e.Written)
		switch {
		case e.Missing != "":
			text = "*no summary: " + escape(e.Missing) + "*"
		case e.Written == "":
			text = "*no text*"
		}
		r.printf("- **%s** (%s): %s\n", escape(e.Title), escape(cut(e.ID, maxShown)), text)
	}
	r.more(len(rows), total, "- … %s\n")
}

func (r *reporter) summaries() {
	if r.opts.Model != "" {
		if len(r.c.Documents) > 0 {
			r.written()
		}
		return
	}
	var list []Entry
	for _, e := range r.c.Documents {
		if e.Summary != "" {
			list = append(list, e)
		}
	}
	if len(list) == 0 {
		return
	}
	r.section("In their own words")
	total := len(list)
	if total > r.opts.MaxItems {
		slices.SortStableFunc(list, func(a, b Entry) int { return cmp.Compare(b.Words, a.Words) })
		list = list[:r.opts.MaxItems]
	}
	for _, e := range list {
		r.printf("- **%s**: %s\n", escape(e.Title), escape(e.Summary))
	}
	r.more(len(list), total, "- … %s\n")
}

func (r *reporter) duplicates() {
	if r.c.Totals.Documents < 2 {
		return
	}
	r.section("Near-duplicates")
	if len(r.c.Groups) == 0 {
		r.printf("No two documents have %s or more in common.\n", percent(r.c.Threshold))
		return
	}
	shown := r.c.Groups[:min(len(r.c.Groups), r.opts.MaxItems)]
	for _, g := range shown {
		r.printf("- %s\n", escape(cut(g.Members[0].ID, maxShown)))
		others := g.Members[1:]
		part := others[:min(len(others), r.opts.MaxItems)]
		for _, m := range part {
			how := "about " + percent(m.Similarity)
			if m.Identical {
				how = "identical"
			}
			r.printf("  - %s: %s\n", escape(cut(m.ID, maxShown)), how)
		}
		r.more(len(part), len(others), "  - … %s\n")
	}
	r.more(len(shown), len(r.c.Groups), "- … %s groups\n")
}

func (r *reporter) broken() {
	t := r.c.Totals
	if t.Documents == 0 {
		return
	}
	r.section("Broken links")
	if t.BrokenLinks == 0 {
		r.printf("None")
	} else {
		shown := r.c.Broken[:min(len(r.c.Broken), 2*r.opts.MaxItems)]
		for _, l := range shown {
			r.printf("- %s: “%s” → %s\n", escape(cut(l.From, maxShown)), escape(cmp.Or(l.Text, l.Dest)), escape(l.Target))
		}
		r.more(len(shown), t.BrokenLinks, "- … %s\n")
		r.printf("\nThese files do not exist")
	}
	if t.Unchecked > 0 {
		r.printf(". Not checked: %s that may lead out of the folder", plural(t.Unchecked, "link"))
	}
	r.printf(".\n")
}

func (r *reporter) orphans() {
	if r.c.Totals.Documents < 2 {
		return
	}
	r.section("Orphans")
	switch {
	case r.c.Totals.InternalLinks == 0:
		r.printf("No document links to another.\n")
		return
	case len(r.c.Orphans) == 0:
		r.printf("Every document is linked from another.\n")
		return
	}
	r.printf("No other document links to:\n\n")
	shown := r.c.Orphans[:min(len(r.c.Orphans), r.opts.MaxItems)]
	for _, id := range shown {
		r.printf("- %s\n", escape(cut(id, maxShown)))
	}
	r.more(len(shown), len(r.c.Orphans), "- … %s\n")
	if n := r.c.Totals.OmittedLinks; n > 0 {
		r.printf("\nSome of them may be linked after all: %s of documents with very many were not followed.\n", plural(n, "link"))
	}
}

func (r *reporter) hosts() {
	if len(r.c.Hosts) == 0 {
		return
	}
	r.section("Links to the web")
	shown := r.c.Hosts[:min(len(r.c.Hosts), r.opts.MaxItems)]
	for _, h := range shown {
		r.printf("- %s: %s\n", escape(cut(h.Name, maxShown)), plural(h.Count, "document"))
	}
	r.more(len(shown), len(r.c.Hosts), "- … %s\n")
}

func (r *reporter) skipped() {
	if len(r.c.Skipped) == 0 {
		return
	}
	r.section("Skipped")
	r.printf("| File | Reason |\n| --- | --- |\n")
	shown := r.c.Skipped[:min(len(r.c.Skipped), 2*r.opts.MaxItems)]
	for _, s := range shown {
		why := string(s.Skip)
		if s.Detail != "" {
			why += ": " + s.Detail
		}
		r.printf("| %s | %s |\n", escape(cut(s.ID, maxShown)), escape(why))
	}
	r.more(len(shown), len(r.c.Skipped), "\n… %s.\n")
}

func (r *reporter) method() {
	if r.c.Totals.Words == 0 {
		return
	}
	r.section("How this was counted")
	r.printf("Words are those of prose, headings and tables, without code. Reading time is at %d words a minute, or %d characters a minute in Chinese and Japanese. Keywords are ranked by TF-IDF.",
		ReadingWordsPerMinute, ReadingCharactersPerMinute)
	if r.c.Totals.Documents > 1 {
		r.printf(" Near-duplicates share %s or more of their sequences of %d words, as estimated from %d MinHash values, with at least one other document of their group; what is listed is how much each shares with the first of it, which may be less.",
			percent(r.c.Threshold), ShingleWords, SignatureHashes)
	}
	if n := r.c.Totals.Simplified; n > 0 {
		r.printf(" Read line by line, because a full parse would take too long: %s.", plural(n, "document"))
	}
	r.printf("\n")
}

// maxShown bounds a file name in the report, in runes.
const maxShown = 200

var (
	leadingNumber = lazyregexp.New(`^(\d{1,9})([.)])`)
	wwwDot        = lazyregexp.New(`(?i)(www)\.`)
)

// escape makes text that Markdown shows as it is, in a paragraph, a list item,
// a heading or a table cell. Line breaks and hidden characters, which could
// make a file name look like another, become U+FFFD.
func escape(s string) string {
	var b strings.Builder
	before := ' '
	for i, r := range s {
		switch {
		case isSpace(r) && r != ' ' && r != '\u00a0' && r != '\u3000' || hidden(r):
			r = utf8.RuneError
		case strings.ContainsRune("\\`*[]<>|~$@", r):
			b.WriteByte('\\')
		case r == '_':
			// Within a word it is no emphasis.
			after, _ := utf8.DecodeRuneInString(s[i+1:])
			if !isAlnum(before) || !isAlnum(after) {
				b.WriteByte('\\')
			}
		case r == '&':
			if after := s[i+1:]; after != "" && (after[0] == '#' || isAlnum(rune(after[0]))) {
				b.WriteByte('\\')
			}
		case r == '#' && before == ' ', (r == '-' || r == '+' || r == '=') && i == 0:
			b.WriteByte('\\')
		case r == ':' && strings.HasPrefix(s[i:], "://"):
			b.WriteByte('\\')
		}
		b.WriteRune(r)
		before = r
	}
	out := leadingNumber().ReplaceAllString(b.String(), `$1\$2`)
	return wwwDot().ReplaceAllString(out, `$1\.`)
}

func isAlnum(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || isDigit(r)
}

// thousands writes n with commas.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return thousands(n) + " " + noun + "s"
}

func percent(f float64) string { return strconv.Itoa(int(f*100+0.5)) + "%" }

func bytesText(n int64) string {
	switch {
	case n < 1<<10:
		return plural(int(n), "byte")
	case n < 1<<20:
		return decimal(float64(n)/(1<<10)) + " KiB"
	case n < 1<<30:
		return decimal(float64(n)/(1<<20)) + " MiB"
	}
	return decimal(float64(n)/(1<<30)) + " GiB"
}

func decimal(f float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0")
}

// minutes writes a reading time for a table.
func minutes(seconds int) string {
	if seconds == 0 {
		return "–"
	}
	return thousands(max((seconds+30)/60, 1)) + " min"
}

// readingText writes a reading time for a sentence.
func readingText(seconds int) string {
	m := (seconds + 30) / 60
	switch {
	case m < 1:
		return "less than a minute"
	case m < 90:
		return "about " + plural(m, "minute")
	}
	return "about " + decimal(float64(m)/60) + " hours"
}

func languageName(code string) string {
	switch code {
	case "en":
		return "English"
	case "de":
		return "German"
	case "fr":
		return "French"
	case "es":
		return "Spanish"
	}
	return code
}
