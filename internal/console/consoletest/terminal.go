//go:build unix

// Package consoletest runs programs in a pseudo terminal, for tests.
package consoletest

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/creack/pty"
)

// Terminal is a program that runs in a terminal.
type Terminal struct {
	t   *testing.T
	cmd *exec.Cmd
	tty *os.File

	mu      sync.Mutex
	changed *sync.Cond
	screen  bytes.Buffer
	seen    int // how much of screen was expected before
	closed  bool
}

// Open starts cmd in a terminal of 30 lines of 100 columns. The test is skipped
// where there are no pseudo terminals.
func Open(t *testing.T, cmd *exec.Cmd) *Terminal {
	t.Helper()
	x := &Terminal{t: t, cmd: cmd}
	x.changed = sync.NewCond(&x.mu)
	tty, err := pty.StartWithSize(x.cmd, &pty.Winsize{Rows: 30, Cols: 100})
	if err != nil {
		t.Skipf("no pseudo terminal here: %v", err)
	}
	x.tty = tty
	t.Cleanup(func() { tty.Close() })
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := tty.Read(buf)
			x.mu.Lock()
			x.screen.Write(buf[:n])
			x.closed = err != nil
			x.changed.Broadcast()
			x.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return x
}

// Expect waits until text is shown, after what was expected before.
func (x *Terminal) Expect(text string) {
	x.t.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	for {
		if i := strings.Index(x.screen.String()[x.seen:], text); i >= 0 {
			x.seen += i + len(text)
			return
		}
		if x.closed {
			x.t.Fatalf("the terminal does not show %q but:\n%s", text, x.screen.String())
		}
		x.changed.Wait()
	}
}

// Type types text.
func (x *Terminal) Type(text string) {
	x.t.Helper()
	if _, err := io.WriteString(x.tty, text); err != nil {
		x.t.Fatal(err)
	}
}

// End waits for the program's end, which is to be with that exit code.
func (x *Terminal) End(code int) {
	x.t.Helper()
	err := x.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		x.t.Fatal(err)
	}
	if got := x.cmd.ProcessState.ExitCode(); got != code {
		x.t.Errorf("exit code %d, want %d", got, code)
	}
}
