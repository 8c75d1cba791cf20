package program

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/superstep-dev/superstep/cmd/superstep/internal/tools"
	"github.com/superstep-dev/superstep/internal/console"
)

// describe says what a call of write_file would do to the file as it is now.
func (p *proposal) describe(dir string) {
	size := console.Count(len(p.Text), "byte")
	old, err := tools.Folder(dir).Text(p.Path)
	switch {
	case errors.Is(err, tools.ErrMissing):
		p.title = fmt.Sprintf("write the new file %s, %s", p.Path, size)
	case errors.Is(err, tools.ErrBinary):
		p.title = fmt.Sprintf("write %s, %s, in place of something that is not text", p.Path, size)
	case errors.Is(err, tools.ErrTooLarge):
		p.title = fmt.Sprintf("write %s, %s, in place of a very large file", p.Path, size)
	case err != nil:
		p.title = fmt.Sprintf("write %s, %s; it would fail: %v", p.Path, size, err)
	case old == p.Text:
		p.title = fmt.Sprintf("write %s, %s: just what it holds", p.Path, size)
	case old == "":
		p.title = fmt.Sprintf("write %s, %s, which is empty now", p.Path, size)
	default:
		p.title = fmt.Sprintf("change %s, from %s to %s", p.Path, console.Count(len(old), "byte"), size)
		p.lines = difference(old, p.Text)
	}
	if p.lines == nil && p.Text != "" {
		p.lines = difference("", p.Text)
	}
}

// difference returns how to get from one text to another, without the heads of a
// patch.
func difference(from, to string) []string {
	text := string(diff.Diff("", []byte(from), "", []byte(to)))
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSuffix(line, "\n"); strings.HasPrefix(line, "@@") {
			if len(lines) > 0 {
				lines = append(lines, line)
			} else {
				lines = []string{}
			}
		} else if lines != nil {
			lines = append(lines, line)
		}
	}
	return lines
}

// rejected is what the model is told.
func rejected(reason string) string {
	if reason = strings.TrimSpace(reason); reason == "" {
		return "The user does not want this file to be written."
	}
	return "The user does not want this file to be written: " + reason
}
