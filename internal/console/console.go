// Package console is what the commands share about the terminal: questions to
// the person in front of it, a line that shows progress, and what Ctrl-C means.
package console

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
	"golang.org/x/term"
)

// Console is the three streams of a command. What is written to Err through it
// doesn't mix with the progress line.
type Console struct {
	Out io.Writer

	in  io.Reader
	err io.Writer

	inTTY, outTTY, errTTY bool
	inFD, errFD, outFD    int

	mu     sync.Mutex
	status string // the progress line that is shown; empty: none

	asking  sync.Mutex // held while a question is open
	reader  *bufio.Reader
	lines   chan line
	pending bool // a line is being read that no question has got
}

type line struct {
	text string
	err  error
}

// New returns the console of these streams. Those that are terminals are
// treated as such.
func New(in io.Reader, out, err io.Writer) *Console {
	c := &Console{Out: out, in: in, err: err, inFD: -1, errFD: -1, outFD: -1}
	if f, ok := in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		c.inTTY, c.inFD = true, int(f.Fd())
	}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		c.outTTY, c.outFD = true, int(f.Fd())
	}
	if f, ok := err.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		c.errTTY, c.errFD = true, int(f.Fd())
	}
	return c
}

// CanAsk reports whether somebody can answer questions: the input and what
// questions are written to are terminals.
func (c *Console) CanAsk() bool { return c.inTTY && c.errTTY }

// OutTerminal reports whether what is written to Out is read by a person.
func (c *Console) OutTerminal() bool { return c.outTTY }

// ErrTerminal reports whether messages are read by a person.
func (c *Console) ErrTerminal() bool { return c.errTTY }

// Width returns the width of the terminal, 80 where there is none.
func (c *Console) Width() int {
	for _, fd := range []int{c.errFD, c.outFD} {
		if fd >= 0 {
			if w, _, err := term.GetSize(fd); err == nil && w > 0 {
				return w
			}
		}
	}
	return 80
}

// Height returns the height of the terminal, 24 where there is none.
func (c *Console) Height() int {
	for _, fd := range []int{c.errFD, c.outFD} {
		if fd >= 0 {
			if _, h, err := term.GetSize(fd); err == nil && h > 0 {
				return h
			}
		}
	}
	return 24
}

// Notef writes a line of its own to Err, above the progress line.
func (c *Console) Notef(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	if c.errTTY {
		text = environment().text(text)
	}
	c.wipe()
	fmt.Fprintln(c.err, text)
	c.paint()
}

// Status shows text as the progress line, in place of the one before; an empty
// text removes it. Where Err is no terminal nothing is shown.
func (c *Console) Status(text string) {
	if !c.errTTY {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if text == c.status {
		return
	}
	c.wipe()
	c.status = text
	c.paint()
}

// wipe takes the progress line off the screen.
func (c *Console) wipe() {
	if c.status != "" {
		fmt.Fprint(c.err, "\r\x1b[K")
	}
}

func (c *Console) paint() {
	if c.status != "" {
		fmt.Fprint(c.err, Fit(environment().text(c.status), c.Width()-4)) // room for an ellipsis in ASCII
	}
}

// ErrNoAnswer says that the input ended before an answer.
var ErrNoAnswer = errors.New("no answer: the input has ended")

// Ask shows a prompt and returns the line that is typed, without white space
// around it. What was typed at a terminal before the prompt appeared is dropped:
// it can't be meant as the answer. Ask returns ctx's error when ctx is done
// first.
func (c *Console) Ask(ctx context.Context, prompt string) (string, error) {
	c.asking.Lock()
	defer c.asking.Unlock()
	if c.inTTY {
		discard(c.inFD)
	}
	c.mu.Lock()
	c.wipe()
	c.status = ""
	fmt.Fprint(c.err, prompt)
	c.mu.Unlock()
	if c.reader == nil {
		c.reader, c.lines = bufio.NewReader(c.in), make(chan line, 1)
	}
	// A read can't be interrupted: one that was given up goes on until the
	// next question.
	if !c.pending {
		c.pending = true
		go func() {
			text, err := c.reader.ReadString('\n')
			if text != "" {
				err = nil
			}
			c.lines <- line{strings.TrimSpace(text), err}
		}()
	}
	select {
	case <-ctx.Done():
		fmt.Fprintln(c.err)
		return "", context.Cause(ctx)
	case l := <-c.lines:
		c.pending = false
		if l.err != nil {
			fmt.Fprintln(c.err)
			if l.err != io.EOF {
				return "", l.err
			}
			return "", ErrNoAnswer
		}
		return l.text, nil
	}
}

// Confirm asks a question until it is answered with yes or no.
func (c *Console) Confirm(ctx context.Context, question string) (bool, error) {
	for {
		text, err := c.Ask(ctx, question+" [y/n] ")
		if err != nil {
			return false, err
		}
		if yes, ok := YesNo(text); ok {
			return yes, nil
		}
		c.Notef("Please answer yes or no.")
	}
}

// YesNo understands an answer to a yes-no question.
func YesNo(text string) (yes, ok bool) {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "y", "yes", "true":
		return true, true
	case "n", "no", "false":
		return false, true
	}
	return false, false
}

// Count returns a number of things in English, whose plural ends in s.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Fit cuts text to a width in columns, with an ellipsis.
func Fit(text string, width int) string {
	if width <= 0 {
		return ""
	}
	if Columns(text) <= width {
		return text
	}
	end, rest, state := 0, text, -1
	for {
		var character string
		var n int
		character, rest, n, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if width -= n; width < 1 { // the ellipsis has one
			return text[:end] + "…"
		}
		end += len(character)
	}
}

// Clean makes text safe to print on a terminal: control characters other than
// line breaks and tabs are replaced, and so is what changes the order of a line
// without being seen.
func Clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		if r < 0x20 || r >= 0x7f && r < 0xa0 || reorders(r) {
			return utf8.RuneError
		}
		return r
	}, text)
}

// reorders reports whether a character is one of Unicode's Bidi_Control: invisible,
// and only there to say in which order others are shown. The marks among them
// (U+061C, U+200E, U+200F) do less than overrides. But each is a letter with a
// direction that nobody sees, which is enough to make the figures and signs around
// it change places: in a path, an amount, or what somebody is asked to approve.
// Honest text in Arabic or Hebrew has such a mark now and then, and is as legible
// with a replacement character. Its letters reorder a line, too, and are seen to.
func reorders(r rune) bool { return unicode.Is(unicode.Bidi_Control, r) }

// ErrStopped is the cause of a context that [Stops] or [Until] cancelled.
var ErrStopped = errors.New("stopped by a signal")

// Until returns a context that ends, by [ErrStopped], as soon as a run is to be drained:
// for what isn't finished then, such as a question to a person. The returned function
// ends it before.
func Until(ctx context.Context, drain <-chan struct{}) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-drain:
			cancel(ErrStopped)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// Stops makes interrupt and termination signals stop a run in an orderly way:
// the first one closes drain and calls said, the second one cancels the
// returned context. The third one ends the process as usual. The returned
// function ends this.
func Stops(ctx context.Context, said func(second bool)) (_ context.Context, drain <-chan struct{}, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	closed := make(chan struct{})
	signals := make(chan os.Signal, 2)
	done := make(chan struct{})
	var wg sync.WaitGroup
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	wg.Go(func() {
		for n := 0; n < 2; n++ {
			select {
			case <-signals:
			case <-done:
				return
			}
			if n == 0 {
				close(closed) // before it is said, since it is true then
				said(false)
			} else {
				said(true)
				cancel(ErrStopped)
				signal.Stop(signals)
			}
		}
	})
	return ctx, closed, func() {
		signal.Stop(signals)
		close(done)
		wg.Wait()
		cancel(nil)
	}
}
