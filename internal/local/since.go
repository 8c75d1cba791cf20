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
	t := &retelling{s, bus, before}
	if err := t.showSince(ctx, since); err != nil {
		return &CheckpointError{Thread: s.o.Log.Thread, Op: "load", Err: err}
	}
	return nil
}

// retelling tells again what was recorded.
type retelling struct {
	s      *Session
	bus    *Bus
	before func(epoch checkpoint.ID)
}

func (t *retelling) showSince(ctx context.Context, since checkpoint.ID) error {
	s, bus := t.s, t.bus
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
		from, err := t.ofLine(ctx, since)
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
		if t.before != nil {
			t.before(epoch)
		}
		if err := t.showAgain(r, epoch, planned, state); err != nil {
			return err
		}
		epoch = r.Epoch
	}
	if next != s.tip.Record.Seq+1 {
		return missing
	}
	return nil
}

// ofLine returns a record of the line that was opened.
func (t *retelling) ofLine(ctx context.Context, id checkpoint.ID) (*checkpoint.Record, error) {
	rec, err := t.s.o.Store.Get(ctx, t.s.o.Log, id)
	if err != nil {
		return nil, err
	}
	if branch, ok := branchAt(spans(t.s.tip.Record), rec.Seq); !ok || branch != rec.Branch {
		return nil, checkpoint.ErrNotFound
	}
	return rec, nil
}

// showAgain tells of a record: of an input or a superstep all, of others what an edit
// has folded. Planned is the record that planned the superstep which is open after it.
func (t *retelling) showAgain(r *checkpoint.Record, epoch checkpoint.ID, planned *checkpoint.Record, state any) error {
	s, bus := t.s, t.bus
	event := func(kind Kind) *Event {
		return &Event{
			Kind: kind, Path: s.o.path, Within: s.o.within, Graph: s.prog.Plan.Name, Thread: s.o.Log.Thread,
			Step: r.Step, Task: -1, Epoch: epoch, Time: r.CreatedAt, Tags: s.o.tags,
		}
	}
	whole := r.Source == checkpoint.SourceLoop || r.Source == checkpoint.SourceInput
	next, err := PendingNodes(planned, r)
	if err != nil {
		return err
	}
	if err := s.flight.tell.written(bus, r, event); err != nil {
		return err
	}
	if whole && bus.wants(Checkpointed) {
		ev := event(Checkpointed)
		ev.ID, ev.Parent, ev.Source, ev.Next = r.ID, r.Parent, r.Source, next
		bus.Send(ev)
	}
	if whole && bus.wants(Values) {
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
