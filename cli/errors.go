package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/client"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/console"
)

// usageError says that the command line is wrong.
type usageError struct {
	err  error
	hint string
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// hinted is an error with advice.
type hinted struct {
	err  error
	hint string
}

func (e *hinted) Error() string { return e.err.Error() }
func (e *hinted) Unwrap() error { return e.err }

// worded is an error in other words.
type worded struct {
	text string
	err  error
}

func (e *worded) Error() string { return e.text }
func (e *worded) Unwrap() error { return e.err }

// Code returns the exit code that belongs to the error of a command.
func Code(err error) int {
	var code ExitCode
	var usage *usageError
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &usage):
		return ExitUsage
	case errors.Is(err, graph.ErrThreadBusy), errors.Is(err, checkpoint.ErrFenced), errors.Is(err, checkpoint.ErrConflict), errors.Is(err, client.ErrBusy):
		return ExitBusy
	case errors.Is(err, graph.ErrDrained), errors.Is(err, console.ErrStopped), errors.Is(err, context.Canceled):
		return ExitStopped
	}
	return ExitError
}

// report prints the error of a command, and returns the exit code.
func report(cmd *cobra.Command, err error) int {
	code := Code(err)
	var quiet ExitCode
	if err == nil || errors.As(err, &quiet) {
		return code
	}
	hint := hintOf(err)
	w := cmd.ErrOrStderr()
	if asJSON, _ := cmd.Flags().GetBool("json"); asJSON {
		writeJSON(w, struct {
			Error string `json:"error"`
			Hint  string `json:"hint,omitempty"`
			Code  int    `json:"code"`
		}{err.Error(), hint, code}, false)
		return code
	}
	fmt.Fprintf(w, "%s: %s\n", cmd.Root().Name(), foreign(err.Error()))
	var panicked *graph.PanicError
	if f := cmd.Flags().Lookup("verbose"); f != nil && errors.As(err, &panicked) {
		if f.Changed {
			fmt.Fprintf(w, "%s\n", console.Clean(strings.TrimRight(string(panicked.Stack), "\n")))
		} else {
			fmt.Fprintf(w, "  -v shows where it panicked\n")
		}
	}
	if hint != "" {
		fmt.Fprintf(w, "%s\n", console.Clean(indent(hint, "  ")))
	}
	return code
}

// hintOf says what to do about an error, if there is something to say.
func hintOf(err error) string {
	var hints []string
	add := func(h string) {
		if h != "" {
			hints = append(hints, h)
		}
	}
	var usage *usageError
	if errors.As(err, &usage) {
		add(usage.hint)
	}
	var h *hinted
	if errors.As(err, &h) {
		add(h.hint)
	}
	var steps *graph.LimitError
	var answer *graph.AnswerError
	var there *client.RunError
	switch {
	case errors.Is(err, graph.ErrThreadBusy):
		add("another run has the thread: wait until it has ended")
	case errors.Is(err, checkpoint.ErrFenced), errors.Is(err, checkpoint.ErrConflict):
		add("another run has taken the thread over; this one has stopped")
	case errors.As(err, &steps):
		add("allow more with --max-steps")
	case errors.As(err, &answer):
		add("nothing was changed: the question still waits")
	case wasRefused(err):
		add("nothing was changed: the question still waits")
	case errors.As(err, &there) && there.Name == "GraphRecursionError":
		add("allow more with --max-steps")
	case errors.Is(err, checkpoint.ErrVersion):
		add("use a newer version of this program")
	}
	return strings.Join(hints, "\n")
}

// foreign is text of others, such as an error's, as it is printed: lines of it after the
// first are indented, so that none passes for one of the command.
func foreign(text string) string { return console.Clean(strings.ReplaceAll(text, "\n", "\n  ")) }

func indent(text, by string) string { return by + strings.ReplaceAll(text, "\n", "\n"+by) }

// writeJSON writes v as JSON and a line break; pretty spreads it over lines.
func writeJSON(w io.Writer, v any, pretty bool) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if pretty {
		e.SetIndent("", "  ")
	}
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(printable(b.Bytes()))
	return err
}

// say prints what a command did: a value as JSON, or else a line.
func (a *app) say(v any, format string, args ...any) error {
	if a.json {
		return writeJSON(a.console.Out, v, true)
	}
	_, err := fmt.Fprintln(a.console.Out, oneLine(fmt.Sprintf(format, args...)))
	return err
}

// printable returns JSON in which no character can control a terminal, nor is any
// cut: JSON allows more in a string than it has to.
func printable(data []byte) []byte {
	text := string(data)
	if console.Clean(text) == text && utf8.ValidString(text) {
		return data
	}
	out := make([]byte, 0, len(text)+64)
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		one := text[:n]
		switch {
		case r == utf8.RuneError && n == 1:
			out = append(out, `\ufffd`...)
		case r >= 0x7f && console.Clean(one) != one:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			out = append(out, one...)
		}
		text = text[n:]
	}
	return out
}

// args returns a check that a command has at most n arguments and at least min.
func args(min, max int, names string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < min {
			return &usageError{fmt.Errorf("%s is missing", names), "usage: " + cmd.UseLine()}
		}
		if len(args) > max {
			return &usageError{fmt.Errorf("unexpected argument %q", args[max]), "usage: " + cmd.UseLine()}
		}
		return nil
	}
}
