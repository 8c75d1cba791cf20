package retrieval

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// DefaultSize is how large chunks are if nothing else is said.
const DefaultSize = 1000

// Splitter cuts documents into chunks: along sections, and inside of those that are too
// large along paragraphs, lines, sentences, words and characters, whichever comes first.
// A section that fits with all those below it stays one chunk with them. The zero value
// makes chunks of up to 1000 runes.
type Splitter struct {
	// Size is how large a chunk is at most; 0: [DefaultSize].
	Size int

	// Overlap is how much of a chunk the next one of the same section repeats at most:
	// whole sentences or lines, say.
	Overlap int

	// Count counts the size of a text; nil counts runes. The sizes of parts should add up
	// to that of the whole, about: the tokens of a model do.
	Count func(text string) int
}

// Chunk is a part of a document, as it is kept and found. Filters name its fields as its
// JSON does.
type Chunk struct {
	Document string          `json:"document"` // its ID
	Source   string          `json:"source"`
	Title    string          `json:"title,omitempty"`
	Headings []string        `json:"headings,omitempty"` // of its section, the outermost first
	Page     int             `json:"page,omitempty"`     // from 1; 0: there are no pages
	Start    int             `json:"start"`              // its first byte in the document's text
	End      int             `json:"end"`                // the byte after its last one
	Text     string          `json:"text"`
	Metadata json.RawMessage `json:"metadata,omitempty"` // of the document
}

// Ref says where the chunk stands, such as "guide.md#120-480" by its bytes, or
// "guide.pdf#page=3": it is what answers cite.
func (c Chunk) Ref() string {
	if c.Page > 0 {
		return fmt.Sprintf("%s#page=%d", c.cited(), c.Page)
	}
	return fmt.Sprintf("%s#%d-%d", c.cited(), c.Start, c.End)
}

func (c Chunk) cited() string {
	if c.Source != "" {
		return c.Source
	}
	return c.Document
}

// span is a part of a text, by its bytes.
type span struct{ start, end int }

// Check reports what is wrong with a splitter, an [*OptionError].
func (s Splitter) Check() error {
	switch size := s.size(); {
	case s.Size < 0:
		return &OptionError{"Splitter.Size", "it is negative; 0 means 1000"}
	case s.Overlap < 0 || s.Overlap >= size:
		return &OptionError{"Splitter.Overlap", fmt.Sprintf("it is %d; it must be less than the size, %d", s.Overlap, size)}
	}
	return nil
}

func (s Splitter) size() int {
	if s.Size == 0 {
		return DefaultSize
	}
	return s.Size
}

// Split cuts a document into chunks, in the order of its text. Only white space is in
// no chunk.
func (s Splitter) Split(d Document) ([]Chunk, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	if err := d.Check(); err != nil {
		return nil, err
	}
	if s.Count == nil {
		s.Count = utf8.RuneCountInString
	}
	sections := d.Sections
	if len(sections) == 0 || strings.TrimSpace(d.Text[:sections[0].Start]) != "" {
		sections = slices.Insert(slices.Clone(sections), 0, Section{})
	}
	end := func(i int) int {
		if i+1 < len(sections) {
			return sections[i+1].Start
		}
		return len(d.Text)
	}
	var out []Chunk
	for i := 0; i < len(sections); {
		first, last := sections[i], i
		for last+1 < len(sections) && below(sections[last+1], first) {
			last++
		}
		spans := []span{{first.Start, end(last)}}
		if s.count(d.Text, trimmed(d.Text, span{first.Start, end(last)})) > s.size() {
			last = i
			spans = s.cut(d.Text, trimmed(d.Text, span{first.Start, end(i)}))
		}
		i = last + 1
		for _, at := range spans {
			if at = trimmed(d.Text, at); at.start == at.end {
				continue
			}
			out = append(out, Chunk{
				Document: d.id(), Source: d.Source, Title: d.Title, Headings: first.Headings, Page: first.Page,
				Start: at.start, End: at.end, Text: d.Text[at.start:at.end], Metadata: d.Metadata,
			})
		}
	}
	return out, nil
}

// below reports whether a section is part of another one.
func below(s, of Section) bool {
	return s.Page == of.Page && len(s.Headings) > len(of.Headings) && slices.Equal(s.Headings[:len(of.Headings)], of.Headings)
}

func trimmed(text string, at span) span {
	part := text[at.start:at.end]
	at.start = at.end - len(strings.TrimLeftFunc(part, unicode.IsSpace))
	return span{at.start, at.start + len(strings.TrimSpace(part))}
}

// cut divides a part of a text into parts that are small enough.
func (s Splitter) cut(text string, at span) (out []span) {
	pieces := s.pieces(text, at, 0)
	sizes, ends := make([]int, len(pieces)), make([]int, len(pieces)) // white space at a chunk's end doesn't count
	for i, p := range pieces {
		sizes[i], ends[i] = s.Count(text[p.start:p.end]), s.count(text, p)
	}
	for from := 0; from < len(pieces); {
		to, sum := from, 0
		for to < len(pieces) && (to == from || sum+ends[to] <= s.size()) {
			sum += sizes[to]
			to++
		}
		out = append(out, span{pieces[from].start, pieces[to-1].end})
		if to == len(pieces) {
			break
		}
		next, repeated := to, 0
		for next-1 > from && repeated+sizes[next-1] <= s.Overlap && repeated+sizes[next-1]+ends[to] <= s.size() {
			next--
			repeated += sizes[next]
		}
		from = next
	}
	return out
}

// count is the size of a part of a text without white space at its end.
func (s Splitter) count(text string, at span) int {
	return s.Count(strings.TrimRightFunc(text[at.start:at.end], unicode.IsSpace))
}

// pieces divides a part of a text at the coarsest places that make all of them small
// enough. The parts join without a gap.
func (s Splitter) pieces(text string, at span, level int) []span {
	if s.count(text, at) <= s.size() || level == len(levels) {
		return []span{at}
	}
	var out []span
	for start := at.start; start < at.end; {
		n := levels[level](text[start:at.end])
		out = append(out, s.pieces(text, span{start, start + n}, level+1)...)
		start += n
	}
	return out
}

var blankLine = regexp.MustCompile(`\n[ \t\r]*\n\s*`)

// levels return how long the first part of a text is, at least one byte: a paragraph, a
// line, a sentence, what may stand at the end of a line, a character.
var levels = []func(text string) int{
	func(text string) int {
		if m := blankLine.FindStringIndex(text); m != nil {
			return m[1]
		}
		return len(text)
	},
	func(text string) int {
		if i := strings.IndexByte(text, '\n'); i >= 0 {
			return i + 1
		}
		return len(text)
	},
	func(text string) int {
		sentence, _, _ := uniseg.FirstSentenceInString(text, -1)
		return len(sentence)
	},
	func(text string) int {
		segment, _, _, _ := uniseg.FirstLineSegmentInString(text, -1)
		return len(segment)
	},
	func(text string) int {
		character, _, _, _ := uniseg.FirstGraphemeClusterInString(text, -1)
		return len(character)
	},
}
