package checkpoint

import (
	"fmt"
	"time"
)

func (e *CorruptError) Error() string {
	at := e.Place
	if e.Offset >= 0 {
		at = fmt.Sprintf("%s, byte %d", at, e.Offset)
	}
	if e.Thread != "" {
		return fmt.Sprintf("checkpoint: thread %q is damaged at %s: %v", e.Thread, at, e.Err)
	}
	return fmt.Sprintf("checkpoint: damaged at %s: %v", at, e.Err)
}

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Err }

// Is reports whether target is [ErrCorrupt].
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

func (e *BusyError) Error() string {
	if e.Lease.Holder == "" {
		return fmt.Sprintf("%v: thread %q", ErrBusy, e.Thread)
	}
	if e.Lease.Until.IsZero() {
		return fmt.Sprintf("%v: run %s holds thread %q", ErrBusy, e.Lease.Holder, e.Thread)
	}
	return fmt.Sprintf("%v: run %s holds thread %q until %s", ErrBusy, e.Lease.Holder, e.Thread, e.Lease.Until.UTC().Format(time.RFC3339))
}

// Is reports that target is [ErrBusy].
func (e *BusyError) Is(target error) bool { return target == ErrBusy }

func (e *FencedError) Error() string {
	switch {
	case e.At < e.Writer: // fences only grow
		return fmt.Sprintf("%v: thread %q was deleted since the writer claimed or read it", ErrFenced, e.Thread)
	case e.At == e.Writer:
		return fmt.Sprintf("%v: run %s holds thread %q, and the writer is another", ErrFenced, e.Holder, e.Thread)
	}
	return fmt.Sprintf("%v: thread %q is at fence %d, the writer has %d", ErrFenced, e.Thread, e.At, e.Writer)
}

// Is reports that target is [ErrFenced].
func (e *FencedError) Is(target error) bool { return target == ErrFenced }
