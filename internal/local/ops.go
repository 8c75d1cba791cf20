package local

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/core"
)

// The two operations that a distributed engine needs: run tasks, and advance.
// Both are idempotent over the store, carry references and never state, and may
// be called twice, late, out of order and from several processes at once.

// ErrOpen says that a superstep can't be closed yet.
var ErrOpen = errors.New("superstep is still open")

// openOp loads a thread for an operation of a run that holds the fence.
func openOp(ctx context.Context, prog *Program, o Options, fence checkpoint.Fence) (*Session, error) {
	if o.Store == nil {
		return nil, ErrNoCheckpointer
	}
	o.Durability = Sync
	s, err := Open(ctx, prog, &o, "", false)
	if err != nil {
		return nil, err
	}
	s.saver.fence, s.saver.claimed = fence, true
	if s.tip == nil {
		return nil, &CheckpointError{Thread: o.Log.Thread, Op: "load", Err: checkpoint.ErrNotFound}
	}
	return s, nil
}

// RunTasks runs tasks of the superstep that epoch planned and records what each
// left beside the log: its changes and routing, its questions, or its error,
// which is returned. Tasks that have ended, ask or wait behind a breakpoint are
// left alone, and so is everything when the superstep is closed. Of two that
// run one task the first result recorded stands.
func RunTasks(ctx context.Context, prog *Program, o Options, fence checkpoint.Fence, epoch checkpoint.ID, tasks []int) (err error) {
	s, err := openOp(ctx, prog, o, fence)
	if err != nil {
		return err
	}
	defer s.Close()
	if s.m.Epoch() != epoch {
		return nil
	}
	var due []int
	for _, i := range tasks {
		if i < 0 || i >= len(s.m.Tasks()) {
			return fmt.Errorf("superstep %s has no task %d", epoch, i)
		}
		if s.m.Task(i).Startable() && !slices.Contains(due, i) {
			due = append(due, i)
		}
	}
	if len(due) == 0 {
		return nil
	}
	s.m.Run(due)
	defer func() {
		if s.traced.end != nil {
			s.traced.leaveStep(false, err)
		}
	}()
	err = s.runStarted(ctx, due, func() error {
		if w := s.m.Results(); w != nil {
			return s.saver.write(ctx, w)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.over(ctx)
}

// runStarted runs tasks that the machine counts as running and waits for them. Store
// is called each time some of them have ended.
func (s *Session) runStarted(ctx context.Context, tasks []int, store func() error) error {
	s.flight.start(ctx, tasks)
	for s.flight.inbox != nil {
		s.flight.wait(ctx)
		if err := store(); err != nil {
			s.flight.stopTasks(err)
			return err
		}
		if s.flight.inbox != nil { // workers wait for it before they take another task
			s.flight.inbox.settle()
		}
	}
	return store() // a lone task is not waited for
}

// AdvanceThread closes the superstep that epoch planned and returns the record
// that does. Asked again it returns the same record. If tasks have not ended or
// wait for answers it returns an error that wraps ErrOpen.
func AdvanceThread(ctx context.Context, prog *Program, o Options, fence checkpoint.Fence, epoch checkpoint.ID) (*checkpoint.Record, error) {
	for {
		s, err := openOp(ctx, prog, o, fence)
		if err != nil {
			return nil, err
		}
		if s.m.Epoch() != epoch {
			return after(ctx, s, epoch)
		}
		s.m.Drain()
		err = s.Drive(ctx)
		switch {
		case errors.Is(err, checkpoint.ErrConflict):
			continue // somebody else closed it, or answered
		case err != nil:
			return nil, err
		case s.m.Epoch() == epoch:
			return nil, fmt.Errorf("%w: %s", ErrOpen, openTasks(s))
		}
		return s.last, nil
	}
}

// after finds the record that closed a superstep on the thread's line.
func after(ctx context.Context, s *Session, epoch checkpoint.ID) (*checkpoint.Record, error) {
	var later *checkpoint.Record
	for r, err := range Line(ctx, s.o.Store, s.tip.Record, false) {
		if err != nil {
			return nil, &CheckpointError{Thread: s.o.Log.Thread, Op: "load", Err: err}
		}
		if r.Epoch == epoch {
			return later, nil
		}
		later = r
	}
	return nil, &CheckpointError{Thread: s.o.Log.Thread, Op: "load", Err: fmt.Errorf("%w: no superstep %s on the thread's line", checkpoint.ErrNotFound, epoch)}
}

func openTasks(s *Session) string {
	text := ""
	for i := range s.m.Tasks() {
		if t := s.m.Task(i); t.Status != core.Done {
			if text != "" {
				text += ", "
			}
			text += fmt.Sprintf("task %d (%s)", i, s.prog.Nodes[t.Node].Name)
		}
	}
	if text == "" {
		return "a breakpoint holds it"
	}
	return text
}
