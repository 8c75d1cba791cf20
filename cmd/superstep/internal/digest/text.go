package digest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
)

// ErrChanged says that a file is not what it was when it was analysed.
var ErrChanged = errors.New("the file has changed since it was read")

// Text returns the text of the file that doc is about, at most max bytes of it,
// and whether that is all. A file that can't be read any more, or that has become
// unfit, is [ErrChanged].
func Text(ctx context.Context, src Source, max int) (text string, all bool, err error) {
	if err := ctx.Err(); err != nil {
		return "", false, err
	}
	root, err := os.OpenRoot(src.Root)
	if err != nil {
		return "", false, fmt.Errorf("%w: %w", ErrChanged, err)
	}
	defer root.Close()
	data, why, _, err := read(root, src)
	switch {
	case err != nil:
		return "", false, fmt.Errorf("%w: %w", ErrChanged, err)
	case why != "":
		return "", false, fmt.Errorf("%w: %s", ErrChanged, why)
	}
	text, _ = decode(data)
	if len(text) <= max {
		return text, true, nil
	}
	return strings.ToValidUTF8(text[:max], ""), false, nil
}

// SetSummary sets a model's summary, as one line that can be shown. An empty one
// counts as failed.
func (d *Document) SetSummary(text string) {
	if d.Written = cut(clean(text), maxWritten); d.Written == "" {
		d.SetNoSummary("the model said nothing")
	}
}

// SetNoSummary notes why a model wrote no summary.
func (d *Document) SetNoSummary(why string) { d.Written, d.NotWritten = "", cut(clean(why), maxWhy) }
