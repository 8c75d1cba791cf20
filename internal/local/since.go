package local

import (
	"context"
	"fmt"
	"slices"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/core"
)

// ShowSince tells, of the line that was opened, what was recorded after a record:
// of each input and each superstep the checkpoint, what its tasks wrote, and the
// values, as the run told of them that recorded them. An empty ID is the beginning
// of the thread.
func (s *Session) ShowSince(ctx context.Context, bus *Bus, since checkpoint.ID) error {
	const kinds = Checkpointed | Updates | Values
	if bus == nil || bus.Wants&kinds == 0 {
		return nil
	}
	missing := func() error {
		err := fmt.Errorf("%w: the thread does not come from checkpoint %q", checkpoint.ErrNotFound, since)
		return &CheckpointError{Thread: s.o.Log.Thread, Op: "load", Err: err}
	}
	if s.tip == nil {
		if since != "" {
			return missing()
		}
		return nil
	}
	var list []*checkpoint.Record // newest first
	found := false
	for r, err := range Line(ctx, s.o.Store, s.tip.Record, false) {
		if err != nil {
			return &CheckpointError{Thread: s.o.Log.Thread, Op: "load", Err: err}
		}
		if found = r.ID == since; found {
			break
		}
		list = append(list, r)
	}
	if !found && (since != "" || len(list) == 0 || list[len(list)-1].Seq != 1) {
		return missing()
	}
	// Results that were folded before the superstep's end, by an edit from outside.
	var folded []checkpoint.Change
	epoch := checkpoint.ID("") // of the superstep that a record closes
	for _, r := range slices.Backward(list) {
		if r.Parent != "" && epoch == "" {
			parent, err := s.o.Store.Get(ctx, s.o.Log, r.Parent)
			if err != nil {
				return &CheckpointError{Thread: s.o.Log.Thread, Op: "load", Err: err}
			}
			epoch = parent.Epoch
		}
		if err := s.showAgain(ctx, bus, r, epoch, folded); err != nil {
			return &CheckpointError{Thread: s.o.Log.Thread, Op: "load", Err: err}
		}
		if folded = append(folded, r.Changes...); r.Epoch != epoch {
			folded = nil
		}
		epoch = r.Epoch
	}
	return nil
}

// showAgain tells of a record of an input or a superstep.
func (s *Session) showAgain(ctx context.Context, bus *Bus, r *checkpoint.Record, epoch checkpoint.ID, folded []checkpoint.Change) error {
	if r.Source != checkpoint.SourceLoop && r.Source != checkpoint.SourceInput {
		return nil
	}
	event := func(kind Kind) *Event {
		return &Event{
			Kind: kind, Path: s.o.path, Tasks: s.o.tasks, Graph: s.prog.Plan.Name, Thread: s.o.Log.Thread,
			Step: r.Step, Task: -1, Epoch: epoch, Time: r.CreatedAt,
		}
	}
	var next []string
	for _, t := range r.Tasks {
		next = append(next, t.Node)
	}
	if bus.wants(Checkpointed) {
		ev := event(Checkpointed)
		ev.ID, ev.Parent, ev.Source, ev.Next = r.ID, r.Parent, r.Source, next
		bus.Send(ev)
	}
	if bus.wants(Updates) && r.Source == checkpoint.SourceLoop {
		all := append(slices.Clip(folded), r.Changes...)
		slices.SortStableFunc(all, func(a, b checkpoint.Change) int { return a.Task - b.Task })
		for _, c := range all {
			if c.Node == "" {
				continue
			}
			ev := event(Updates)
			ev.Task, ev.Node = c.Task, c.Node
			if len(c.Data) > 0 {
				data, err := core.Upgrade(s.prog.Values, r.Version, c.Data)
				if err != nil {
					return err
				}
				ev.Update = data
			}
			bus.Send(ev)
		}
	}
	if bus.wants(Values) {
		state, err := StateAt(ctx, s.o.Store, s.prog.Values, r, s.growing())
		if err != nil {
			return err
		}
		ev := event(Values)
		ev.State, ev.Next = state, next
		bus.Send(ev)
	}
	return nil
}
