package file

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/superstep-dev/superstep/checkpoint"
)

// Report says what a repair did to a thread's file.
type Report struct {
	Thread checkpoint.ThreadID
	File   string
	Line   int64 // the line that was damaged
	Offset int64 // where it starts, in bytes

	// Moved is how many bytes were taken off the end and put into SideFile.
	Moved    int64
	SideFile string

	// Completed is set when the line was whole and only its end was missing:
	// then it is kept.
	Completed bool
}

func (r Report) String() string {
	switch {
	case r.Completed && r.Moved == 0:
		return fmt.Sprintf("%s: line %d (byte %d) was whole, its end of line was added", r.File, r.Line, r.Offset)
	case r.Completed:
		return fmt.Sprintf("%s: line %d (byte %d) was whole, %d bytes after it were moved to %s", r.File, r.Line, r.Offset, r.Moved, r.SideFile)
	}
	return fmt.Sprintf("%s: line %d (byte %d) was incomplete, its %d bytes were moved to %s", r.File, r.Line, r.Offset, r.Moved, r.SideFile)
}

// Repair mends a thread of the store in dir. It puts an incomplete last line
// aside, into a side file, and never destroys one. The reports say what was done; none
// means that nothing was wrong. Any other damage is returned as
// [checkpoint.CorruptError] and left as it is. Repair returns
// [checkpoint.ErrNotFound] when the thread has no file. It may be called while
// the store is in use.
func Repair(dir string, id checkpoint.ThreadID) ([]Report, error) {
	ctx := context.Background()
	if err := (checkpoint.Log{Thread: id}).Check(); err != nil {
		return nil, err
	}
	s, err := Open(dir, Options{Recover: true, MaxOpen: 1})
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	var reports []Report
	err = s.driver.with(ctx, id, func(t *thread) error {
		err := t.locked(ctx, true, false, func() error { return t.writable("repair") })
		reports = t.reports
		return err
	})
	if err == fs.ErrNotExist {
		return nil, fmt.Errorf("%w: thread %q has no file in %s", checkpoint.ErrNotFound, id, dir)
	}
	return reports, err
}
