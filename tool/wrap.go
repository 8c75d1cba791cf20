package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/chat"
)

// Limit returns t with its text cut to at most maxBytes bytes, all text parts of
// a result together. What is cut is followed by a note of how much that was, which
// comes on top of maxBytes. The text of an [*Error] is cut likewise, its cause
// stays. Other parts and the artifact pass.
//
// MaxBytes must be positive; otherwise Check and every Call say so.
func Limit(t Tool, maxBytes int) Tool {
	w := wrap(t)
	if maxBytes <= 0 {
		w.add(fmt.Errorf("a limit of %d bytes: it must be positive", maxBytes))
	}
	return &limited{wrapper: w, max: maxBytes}
}

// WithTimeout returns t with a limit to the time that each call takes. When it is
// over, the call's context ends and the call returns at once an [*Error] that
// wraps [context.DeadlineExceeded]; what the tool still returns is dropped. A tool
// that doesn't heed its context goes on in the background.
//
// D must be positive; otherwise Check and every Call say so.
func WithTimeout(t Tool, d time.Duration) Tool {
	w := wrap(t)
	if d <= 0 {
		w.add(fmt.Errorf("a timeout of %v: it must be positive", d))
	}
	return &timed{wrapper: w, d: d}
}

// wrapper is a tool around another.
type wrapper struct {
	Tool
	bad DefinitionError
}

func wrap(t Tool) wrapper {
	w := wrapper{Tool: t}
	if isNil(t) {
		w.Tool = nothing{}
	}
	w.bad.add("", Check(t))
	return w
}

func (w *wrapper) add(err error) { w.bad.add(w.Spec().Name, err) }

func (w *wrapper) Check() error { return w.bad.err() }

// Unwrap returns the tool inside.
func (w *wrapper) Unwrap() Tool { return w.Tool }

// nothing stands for a nil tool.
type nothing struct{}

func (nothing) Spec() chat.ToolSpec { return chat.ToolSpec{} }

func (nothing) Call(context.Context, json.RawMessage) (Result, error) {
	return Result{}, Check(nil)
}

type limited struct {
	wrapper
	max int
}

func (l *limited) Call(ctx context.Context, args json.RawMessage) (Result, error) {
	if err := l.Check(); err != nil {
		return Result{}, err
	}
	r, err := l.Tool.Call(ctx, args)
	var e *Error
	if errors.As(err, &e) && e.Err != nil {
		if text := e.Err.Error(); len(text) > l.max {
			n := boundary(text, l.max)
			return Result{}, &Error{Tool: e.Tool, Kind: e.Kind, Err: &cutError{text[:n] + cutNote(len(text)-n, len(text)), err}}
		}
	}
	if err != nil {
		return Result{}, err
	}
	r.Content = cut(r.Content, l.max)
	return r, nil
}

// cutError is an error with a shorter text.
type cutError struct {
	text string
	err  error
}

func (e *cutError) Error() string { return e.text }
func (e *cutError) Unwrap() error { return e.err }

func cutNote(cut, of int) string {
	return fmt.Sprintf("\n[cut: %d of %d bytes are left out]", cut, of)
}

// cut leaves max bytes of text in parts.
func cut(parts []chat.Part, max int) []chat.Part {
	total := 0
	for _, p := range parts {
		if t, ok := p.(chat.Text); ok {
			total += len(t.Text)
		}
	}
	if total <= max {
		return parts
	}
	var out []chat.Part
	left, noted := max, false
	for _, p := range parts {
		t, ok := p.(chat.Text)
		switch {
		case !ok:
			out = append(out, p)
		case noted: // all of it is gone, and counted
		case len(t.Text) <= left:
			left -= len(t.Text)
			out = append(out, t)
		default:
			n := boundary(t.Text, left)
			kept := max - left + n
			t.Text = t.Text[:n] + cutNote(total-kept, total)
			out, noted = append(out, t), true
		}
	}
	return out
}

type timed struct {
	wrapper
	d time.Duration
}

func (t *timed) Call(ctx context.Context, args json.RawMessage) (Result, error) {
	if err := t.Check(); err != nil {
		return Result{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, t.d, errTimeout)
	defer cancel()
	type answer struct {
		r   Result
		err error
	}
	done := make(chan answer, 1)
	go func() {
		a := answer{err: errGone} // stays if the tool calls runtime.Goexit
		defer func() {
			if v := recover(); v != nil {
				a = answer{err: panicked(t.Spec().Name, v)}
			}
			done <- a
		}()
		r, err := t.Tool.Call(ctx, args)
		a = answer{r, err}
	}()
	select {
	case a := <-done:
		if ctx.Err() == nil || !errors.Is(a.err, context.DeadlineExceeded) {
			return a.r, a.err
		}
	case <-ctx.Done():
	}
	if errors.Is(context.Cause(ctx), errTimeout) {
		return Result{}, &Error{Tool: t.Spec().Name, Err: fmt.Errorf("no answer within %v: %w", t.d, context.DeadlineExceeded)}
	}
	return Result{}, ctx.Err()
}

var (
	errTimeout = errors.New("the tool's time is over")
	errGone    = errors.New("the tool ended its goroutine")
)

// boundary returns the greatest n not above max at which s can be cut without
// breaking a rune.
func boundary(s string, max int) int {
	if max >= len(s) {
		return len(s)
	}
	for n := max; n > max-utf8.UTFMax && n >= 0; n-- {
		if utf8.RuneStart(s[n]) {
			return n
		}
	}
	return max // it isn't UTF-8 anyway
}
