package local

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/core"
)

// ShowSince tells, of the line that was opened, what was recorded after a record:
// of each input and each superstep the checkpoint, what its tasks wrote, and the
// values, as the run told of them that recorded them. An empty ID is the beginning
// of the thread. It reads each record once and keeps none.
func (s *Session) ShowSince(ctx context.Context, bus *Bus, since checkpoint.ID) error {
	if err := s.showSince(ctx, bus, since); err != nil {
		return &CheckpointError{Thread: s.o.Log.Thread, Op: "load", Err: err}
	}
	return nil
}

func (s *Session) showSince(ctx context.Context, bus *Bus, since checkpoint.ID) error {
	missing := fmt.Errorf("%w: the thread does not come from checkpoint %q, or what followed it was pruned", checkpoint.ErrNotFound, since)
	if s.tip == nil {
		if since != "" {
			return missing
		}
		return nil
	}
	values := s.prog.Values
	state := values.New()
	var open superstep
	epoch := checkpoint.ID("") // of the superstep that a record closes
	next := int64(1)
	if since != "" {
		from, err := s.ofLine(ctx, since)
		if err == nil && from.Epoch != from.ID {
			open, err = s.openAt(ctx, from)
		} else if err == nil {
			open.take(from)
		}
		if errors.Is(err, checkpoint.ErrNotFound) {
			return missing
		}
		if err != nil {
			return err
		}
		if bus.wants(Values) {
			if state, err = StateAt(ctx, s.o.Store, values, from, s.growing()); err != nil {
				return err
			}
		}
		epoch, next = from.Epoch, from.Seq+1
	}
	for r, err := range lineFrom(ctx, s.o.Store, s.tip.Record, next, false) {
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
			if state, err = foldRecord(values, state, r, nil); err != nil {
				return err
			}
		}
		if err := s.showAgain(bus, r, epoch, open.folded, state); err != nil {
			return err
		}
		open.take(r)
		epoch = r.Epoch
	}
	if next != s.tip.Record.Seq+1 {
		return missing
	}
	return nil
}

// ofLine returns a record of the line that was opened.
func (s *Session) ofLine(ctx context.Context, id checkpoint.ID) (*checkpoint.Record, error) {
	rec, err := s.o.Store.Get(ctx, s.o.Log, id)
	if err != nil {
		return nil, err
	}
	if branch, ok := branchAt(spans(s.tip.Record), rec.Seq); !ok || branch != rec.Branch {
		return nil, checkpoint.ErrNotFound
	}
	return rec, nil
}

// superstep is what records tell of one that is open.
type superstep struct {
	planned []checkpoint.Task
	folded  []checkpoint.Change // of tasks whose results an edit from outside has folded, and of edits
}

// take takes in the next record.
func (o *superstep) take(r *checkpoint.Record) {
	if r.Epoch == r.ID {
		*o = superstep{planned: r.Tasks}
		return
	}
	o.folded = append(o.folded, r.Changes...)
	told := map[int]bool{}
	for _, c := range o.folded {
		if c.Node != "" {
			told[c.Task] = true
		}
	}
	for _, t := range r.Open {
		if !t.Folded || told[t.Task] {
			continue
		}
		c := checkpoint.Change{Node: t.Node, Task: t.Task} // it wrote nothing
		if t.Node == "" && t.Task >= 0 && t.Task < len(o.planned) {
			c.Node = o.planned[t.Task].Node
		}
		o.folded = append(o.folded, c)
	}
}

// openAt returns what stands in the records of a superstep from its beginning up to
// a record.
func (s *Session) openAt(ctx context.Context, to *checkpoint.Record) (o superstep, err error) {
	if to.Epoch == "" { // nothing was planned so far
		return o, nil
	}
	begun, err := s.o.Store.Get(ctx, s.o.Log, to.Epoch)
	if err != nil {
		return o, err
	}
	o.take(begun)
	for r, err := range lineFrom(ctx, s.o.Store, to, begun.Seq+1, false) {
		if err != nil {
			return o, err
		}
		o.take(r)
	}
	return o, nil
}

// showAgain tells of a record of an input or a superstep.
func (s *Session) showAgain(bus *Bus, r *checkpoint.Record, epoch checkpoint.ID, folded []checkpoint.Change, state any) error {
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
		ev := event(Values)
		ev.State, ev.Next = s.prog.Values.Fork(state), next
		bus.Send(ev)
	}
	return nil
}
