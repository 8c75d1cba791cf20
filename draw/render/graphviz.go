// Package render lets other programs draw a graph: Graphviz on this machine and
// the service mermaid.ink. The package draw needs neither.
package render

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/draw"
)

// A GraphvizNotFoundError says that Graphviz can't be run because there is no
// dot command in PATH.
type GraphvizNotFoundError struct {
	Err error // of exec.LookPath
}

func (e *GraphvizNotFoundError) Error() string {
	return fmt.Sprintf("draw: Graphviz is needed for this, but its command dot can't be run (is Graphviz installed?): %v", e.Err)
}

func (e *GraphvizNotFoundError) Unwrap() error { return e.Err }

// A GraphvizError says that dot failed.
type GraphvizError struct {
	Format string
	Stderr string // the beginning of what dot wrote to its standard error
	Err    error
}

func (e *GraphvizError) Error() string {
	s := fmt.Sprintf("draw: dot -T%s failed: %v", e.Format, e.Err)
	if e.Stderr != "" {
		s += ": " + e.Stderr
	}
	return s
}

func (e *GraphvizError) Unwrap() error { return e.Err }

// Graphviz has Graphviz draw a graph in one of its formats, "png" or "svg" for
// instance, from the text of [draw.StyledDOT]. It runs the command dot found in PATH
// until ctx is done. Without Graphviz it returns a [*GraphvizNotFoundError],
// and a [*GraphvizError] when dot fails.
func Graphviz(ctx context.Context, g *draw.Graph, format string, opts *draw.DOTOptions) ([]byte, error) {
	if format == "" || strings.Trim(format, "abcdefghijklmnopqrstuvwxyz0123456789_:") != "" {
		return nil, fmt.Errorf("draw: %q is not a Graphviz format, such as png or svg", format)
	}
	dot, err := exec.LookPath("dot")
	if err != nil {
		return nil, &GraphvizNotFoundError{err}
	}
	var out bytes.Buffer
	stderr := limitedBuffer{limit: 4 << 10}
	cmd := exec.CommandContext(ctx, dot, "-T"+format)
	cmd.Stdin = strings.NewReader(draw.StyledDOT(g, opts))
	cmd.Stdout = &out
	cmd.Stderr = &stderr
	cmd.WaitDelay = time.Second
	err = cmd.Run()
	if ctx.Err() != nil {
		err = ctx.Err()
	} else if err == nil && out.Len() == 0 {
		err = fmt.Errorf("no output")
	}
	if err != nil {
		return nil, &GraphvizError{format, strings.TrimSpace(stderr.b.String()), err}
	}
	return out.Bytes(), nil
}

// A limitedBuffer keeps the beginning of what is written to it.
type limitedBuffer struct {
	b     bytes.Buffer
	limit int
}

func (l *limitedBuffer) Write(p []byte) (int, error) {
	l.b.Write(p[:min(len(p), l.limit-l.b.Len())])
	return len(p), nil
}
