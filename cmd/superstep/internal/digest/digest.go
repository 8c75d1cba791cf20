// Package digest analyses a folder of text files: which there are, what each
// is about, which are nearly the same, and which links between them are broken.
// It is the work of the command "superstep demo digest"; the graph around it is
// elsewhere, and nothing here knows of it.
//
// The four steps are [Find], which lists the files; [Analyse], which turns one
// file into a small [Document] and is meant to run once per file, in parallel;
// [NewCorpus], which combines the documents; and [Report], which writes the
// findings as Markdown. All results are plain values that survive a round trip
// through JSON, and each step gives the same result for the same files: no
// clock, no randomness, no dependence on the order of the input.
package digest

import (
	"errors"
	"fmt"
)

// The kinds of [Error].
var (
	// ErrMissing says that nothing stands at the path.
	ErrMissing = errors.New("does not exist")
	// ErrNotFolder says that the path is a file.
	ErrNotFolder = errors.New("is not a folder")
	// ErrUnreadable says that the folder may not be read.
	ErrUnreadable = errors.New("cannot be read")
	// ErrEmpty says that the folder holds no text file that can be digested.
	ErrEmpty = errors.New("holds no text files to digest")
	// ErrTooMany says that the folder holds more text files than the limit.
	ErrTooMany = errors.New("holds too many text files")
)

// Error is what [Find] returns when a folder cannot be digested. Kind is one of
// ErrMissing, ErrNotFolder, ErrUnreadable, ErrEmpty and ErrTooMany, and
// [errors.Is] matches it.
type Error struct {
	Path string // as it was given
	Kind error
	Fix  string // what to do about it: a sentence without a full stop
	Err  error  // the cause, or nil
}

func (e *Error) Error() string {
	s := fmt.Sprintf("digest: %q %v", e.Path, e.Kind)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.Fix != "" {
		s += "; " + e.Fix
	}
	return s
}

// Unwrap returns the kind and, if there is one, the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

// Skip says why a file was left out. It is empty for a file that was not.
type Skip string

// The reasons to skip a file or folder.
const (
	SkipTooLarge   Skip = "too large"
	SkipBinary     Skip = "not text"
	SkipUnreadable Skip = "cannot be read"
	SkipSymlink    Skip = "symbolic link"
	SkipSpecial    Skip = "not a regular file"
	SkipName       Skip = "file name is not UTF-8"
	SkipDependency Skip = "dependency folder"
	SkipGone       Skip = "removed since it was listed"
)

// Source is one text file, or something that was skipped and should be
// mentioned in the report. It holds all that [Analyse] needs, so that a task
// for it can be resumed by another process.
type Source struct {
	// ID is the path below the root, with slashes. It does not depend on the
	// content, so it can name a task.
	ID string `json:"id"`
	// Root is the absolute path of the folder.
	Root string `json:"root"`
	// Size is the size in bytes when the file was listed.
	Size int64 `json:"size"`
	// Limit is the size above which Analyse will not read the file either.
	Limit int64 `json:"limit,omitempty"`
	// Skip is why this is not to be read; empty for a file to digest.
	Skip Skip `json:"skip,omitempty"`
	// Detail says more about Skip, if there is more to say.
	Detail string `json:"detail,omitempty"`
}

// Format is how a file is marked up.
type Format string

// The formats.
const (
	Markdown Format = "Markdown"
	Plain    Format = "plain text"
	RST      Format = "reStructuredText"
	ASCIIDoc Format = "AsciiDoc"
	Org      Format = "Org"
)

// Document is what [Analyse] learned about one file. Every part of it has an
// upper bound that does not depend on the size of the file, so that it can be
// stored in a checkpoint: a usual document takes two to eight kB of JSON.
type Document struct {
	ID     string `json:"id"`
	Size   int64  `json:"size"`
	Skip   Skip   `json:"skip,omitempty"`
	Detail string `json:"detail,omitempty"`

	Format   Format `json:"format,omitempty"`
	Encoding string `json:"encoding,omitempty"` // "UTF-8", "UTF-16", or "Windows-1252" when it was assumed
	Language string `json:"language,omitempty"` // a guess from function words: "en", "de", "fr", "es" or empty
	SHA256   string `json:"sha256,omitempty"`   // of the bytes of the file, in hexadecimal
	// Simplified says that the Markdown is so nested that a full parse would
	// take minutes; headings and links were found line by line instead.
	Simplified bool `json:"simplified,omitempty"`

	Title        string    `json:"title,omitempty"`
	Summary      string    `json:"summary,omitempty"`
	Headings     []Heading `json:"headings,omitempty"`
	HeadingCount int       `json:"heading_count,omitempty"` // of all, also those beyond the bound of Headings

	Lines     int `json:"lines"`
	Words     int `json:"words"`     // in prose, headings and tables, not in code blocks; see [ReadingWordsPerMinute]
	Sentences int `json:"sentences"` // in prose
	CodeLines int `json:"code_lines,omitempty"`
	Seconds   int `json:"seconds"` // reading time

	// Targets are the files and folders below the root that the document links
	// to and that exist, as paths below the root, sorted, each once.
	Targets []string `json:"targets,omitempty"`
	// TargetsOmitted counts the targets beyond the bound of Targets.
	TargetsOmitted int `json:"targets_omitted,omitempty"`
	// Broken are the links to files that do not exist, in document order.
	Broken []Link `json:"broken,omitempty"`
	// BrokenCount counts all of them, also those beyond the bound of Broken.
	BrokenCount int `json:"broken_count,omitempty"`
	// Unchecked counts relative links that lead out of the root, or that start
	// with a slash and may refer to a web site's root.
	Unchecked int `json:"unchecked,omitempty"`
	// External are different URLs that the document links to, sorted.
	External []string `json:"external,omitempty"`
	// ExternalCount counts all different URLs.
	ExternalCount int `json:"external_count,omitempty"`

	// Written is a summary by a model, and NotWritten says why there is none
	// though one was asked for; see [Document.SetSummary]. Analyse sets neither.
	Written    string `json:"written,omitempty"`
	NotWritten string `json:"not_written,omitempty"`

	// Terms are the most frequent terms, most frequent first.
	Terms []Term `json:"terms,omitempty"`
	// Signature is the MinHash signature; see [Similarity]. It is nil for a
	// document without words.
	Signature []byte `json:"signature,omitempty"`
}

// Heading is one heading of a document. Levels start at 1.
type Heading struct {
	Level int    `json:"level"`
	Text  string `json:"text"`
}

// Link is a link to a file that does not exist.
type Link struct {
	Text   string `json:"text,omitempty"` // what is shown for the link
	Dest   string `json:"dest"`           // as it is written in the document
	Target string `json:"target"`         // the path below the root that it means
}

// Term is a word in lower case and how often it occurs.
type Term struct {
	Text  string `json:"t"`
	Count int    `json:"n"`
}

// Upper bounds of the parts of a [Document].
const (
	maxTitle    = 160 // runes
	maxSummary  = 320 // runes
	maxWritten  = 900 // runes
	maxWhy      = 200 // runes
	maxHeadings = 40
	maxHeading  = 100 // runes
	maxTargets  = 200
	maxTarget   = 400 // bytes; longer ones count as omitted
	maxTargetKB = 8 << 10
	maxBroken   = 40
	maxDest     = 160 // runes
	maxExternal = 24
	maxURL      = 200 // bytes; longer ones are only counted
	maxTerms    = 200
	maxTerm     = 40 // bytes; longer ones are not terms
)
