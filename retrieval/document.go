package retrieval

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Document is a text with what is known of it.
type Document struct {
	// ID stands for the document in an [Index]; empty: its Source.
	ID string `json:"id,omitempty"`

	// Source says where it is from, such as a path or a URL. Answers cite it.
	Source string `json:"source"`

	Title string `json:"title,omitempty"` // may be empty

	// Text is UTF-8. Of [Text] and [Markdown] it is the file itself, byte by byte.
	Text string `json:"text"`

	// Sections are the parts of the text, by where they start. What stands before the
	// first one has no heading.
	Sections []Section `json:"sections,omitempty"`

	// Metadata is a JSON object of the caller's, or nothing. A filter reaches its fields
	// as "metadata.name".
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// Section is a part of a document: a chapter, a page.
type Section struct {
	Start    int      `json:"start"`              // the byte of the text where it begins
	Headings []string `json:"headings,omitempty"` // the outermost first
	Page     int      `json:"page,omitempty"`     // from 1; 0: there are no pages
}

func (d Document) id() string {
	if d.ID != "" {
		return d.ID
	}
	return d.Source
}

// Check reports what is wrong with a document, a [*DocumentError].
func (d Document) Check() error {
	wrong := func(fix, reason string, args ...any) error {
		return &DocumentError{Document: d.id(), Kind: ErrInvalid, Fix: fix, Err: fmt.Errorf(reason, args...)}
	}
	switch {
	case d.id() == "":
		return wrong("set its Source or its ID", "it has neither an ID nor a source")
	case !plain(d.ID, d.Source, d.Title):
		return wrong("make them UTF-8", "its ID, source or title is no text")
	case !plain(d.Text):
		return wrong("convert the text to UTF-8; if it is a file of another kind, use its loader", "its text is not UTF-8, or has a zero byte")
	case strings.TrimSpace(d.Text) == "":
		return empty(d.id())
	case len(d.Metadata) > 0 && (!json.Valid(d.Metadata) || bytes.TrimSpace(d.Metadata)[0] != '{'):
		return wrong("make it one", "its metadata is not a JSON object")
	}
	last := 0
	for i, s := range d.Sections {
		if s.Start < last || s.Start > len(d.Text) || s.Start < len(d.Text) && !utf8.RuneStart(d.Text[s.Start]) {
			return wrong("give the sections in order", "section %d starts at byte %d of %d, after %d", i, s.Start, len(d.Text), last)
		}
		last = s.Start
	}
	return nil
}

func empty(document string) error {
	return &DocumentError{Document: document, Kind: ErrEmpty, Fix: "leave it out"}
}

// plain reports whether texts are UTF-8 that every store takes.
func plain(texts ...string) bool {
	for _, s := range texts {
		if !utf8.ValidString(s) || strings.Contains(s, "\x00") {
			return false
		}
	}
	return true
}
