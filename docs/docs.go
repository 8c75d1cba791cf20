// Package docs has the pages of the documentation as they are read in the repository.
// Package docs/site makes a site of them.
package docs

import "embed"

// Files has the pages, in Markdown, and below pictures what they show. README.md is the
// index.
//
//go:embed *.md pictures/*.png
var Files embed.FS
