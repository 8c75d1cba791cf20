package local

import (
	"context"
	"errors"
	"fmt"

	"github.com/superstep-dev/superstep/checkpoint"
)

// ShowSince tells, of the line that was opened, what was recorded after a record:
// of each input and each superstep what its tasks wrote, the checkpoint, and the
// values, as the run told of them that recorded them. An empty ID is the beginning
// of the thread. It reads each record once and keeps none. Before, unless it is nil, is called
// before what a record tells, with the superstep that was open until then.
func (s *Session) ShowSince(ctx context.Context, bus *Bus, since checkpoint.ID, before func(epoch checkpoint.ID)) error {
	return failedLoad(s.o.Log.Thread, s.showSince(ctx, bus, since, before))
}

func (s *Session) showSince(ctx context.Context, bus *Bus, since checkpoint.ID, before func(epoch checkpoint.ID)) error {
	missing := fmt.Errorf("%w: the thread does not come from checkpoint %q, or what followed it was pruned", checkpoint.ErrNotFound, since)
	if s.tip == nil {
		if since != "" {
			return missing
		}
		return nil
	}
	values := s.prog.Values
	state := values.New()
	var planned *checkpoint.Record // the open superstep
	epoch := checkpoint.ID("")     // of the superstep that a record closes
	next := int64(1)
	if since != "" {
		from, err := s.o.Store.Get(ctx, s.o.Log, since)
		begun := from
		if err == nil && from.Epoch != from.ID && from.Epoch != "" {
			begun, err = s.o.Store.Get(ctx, s.o.Log, from.Epoch)
		}
		if errors.Is(err, checkpoint.ErrNotFound) {
			return missing
		}
		if err != nil {
			return err
		}
		if branch, ok := branchAt(spans(s.tip.Record), from.Seq); !ok || branch != from.Branch {
			return missing
		}
		if bus.wants(Values) {
			if state, err = StateOf(ctx, s.o.Store, values, s.o.Log, from.ID, s.keeper()); err != nil {
				return err
			}
		}
		planned, epoch, next = begun, from.Epoch, from.Seq+1
	}
	for r, err := range Line(ctx, s.o.Store, s.tip.Record, checkpoint.Query{From: next}) {
		if err != nil {
			return err
		}
		if r.Seq != next {
			return missing
		}
		next++
		if !bus.wants(Checkpointed | Updates | Values) {
			continue // it is there
		}
		if bus.wants(Values) {
			if state, err = foldRecords(values, state, []*checkpoint.Record{r}, nil); err != nil {
				return err
			}
		}
		if r.Epoch == r.ID {
			planned = r
		}
		if before != nil {
			before(epoch)
		}
		if err := s.showAgain(bus, r, epoch, planned, state); err != nil {
			return err
		}
		epoch = r.Epoch
	}
	if next != s.tip.Record.Seq+1 {
		return missing
	}
	return nil
}

// showAgain tells of a record: of an input or a superstep all, of others what an edit
// has folded. Planned is the record that planned the superstep which is open after it.
func (s *Session) showAgain(bus *Bus, r *checkpoint.Record, epoch checkpoint.ID, planned *checkpoint.Record, state any) error {
	event := func(kind Kind) *Event { return s.eventAt(kind, r.Step, -1, epoch, r.CreatedAt) }
	next, err := PendingNodes(planned, r)
	if err != nil {
		return err
	}
	if err := s.flight.tell.written(bus, r, event); err != nil {
		return err
	}
	if r.Source != checkpoint.SourceLoop && r.Source != checkpoint.SourceInput {
		return nil
	}
	if bus.wants(Checkpointed) {
		ev := event(Checkpointed)
		ev.ID, ev.Parent, ev.Source, ev.Next = r.ID, r.Parent, r.Source, next
		bus.Send(ev)
	}
	if bus.wants(Values) {
		ev := event(Values)
		ev.State, ev.Output, ev.Next = s.prog.Values.Fork(state), s.prog.Output, next
		bus.Send(ev)
	}
	return nil
}

// PendingNodes lists the nodes of tasks that are to run after a record, in plan order: of
// an interrupt those that wait, since the others have ended, or failed. Planned is the
// record that planned them.
func PendingNodes(planned, r *checkpoint.Record) (nodes []string, err error) {
	tasks, err := checkpoint.TaskStates(planned, r, nil)
	for i := range tasks {
		pending := tasks[i].Status != checkpoint.StatusDone
		if r.Source == checkpoint.SourceInterrupt {
			pending = tasks[i].Asks()
		}
		if pending {
			nodes = append(nodes, tasks[i].Node)
		}
	}
	return nodes, err
}
