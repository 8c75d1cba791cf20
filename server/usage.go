package server

import (
	"context"
	"sync"

	"github.com/superstep-dev/superstep/agent/calls"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/server/internal/db"
)

// runUsage adds up what models use that a run calls, as the calls are recorded.
type runUsage struct {
	mu      sync.Mutex
	of      map[string]chat.Usage // by model
	unknown bool                  // a model answered and didn't say
}

func (u *runUsage) add(c *calls.Call) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if c.Usage == nil {
		u.unknown = u.unknown || c.Error == ""
		return
	}
	if u.of == nil {
		u.of = map[string]chat.Usage{}
	}
	u.of[c.Model] = u.of[c.Model].Add(*c.Usage)
}

// sum returns what was used, and what it cost if that is known.
func (u *runUsage) sum() (used *db.Usage, cost *float64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	var sum chat.Usage
	spent, known := 0.0, model.KnownModels()
	priced := !u.unknown
	for name, of := range u.of {
		sum = sum.Add(of)
		if p, ok := known.Prices(name)[name]; ok {
			spent += p.Cost(of)
		} else if of.Total() > 0 {
			priced = false
		}
	}
	if priced {
		cost = &spent
	}
	return new(db.Usage(sum)), cost
}

// usageOf returns what the models of a run used. Counted has what this process saw of
// it: that is all if no other one has worked on the run, and else what is recorded says.
func (s *executor) usageOf(ctx context.Context, run *db.Run, counted *runUsage) (used *db.Usage, cost *float64, err error) {
	if run.Attempt > 1 || s.fleet != nil {
		if counted, err = recordedUsage(ctx, s.base, run); err != nil {
			return nil, nil, err
		}
	}
	used, cost = counted.sum()
	return used, cost, nil
}

// recordedUsage adds up the calls that are recorded on a run's thread since it began. The run
// before may have made calls in the same millisecond.
func recordedUsage(ctx context.Context, s *base, run *db.Run) (*runUsage, error) {
	u := new(runUsage)
	for c, err := range calls.List(ctx, s.store, run.ThreadID, calls.Query{Since: run.StartedAt}) {
		if err != nil {
			return nil, err
		}
		if of := c.Metadata["run_id"]; of == "" || of == run.ID { // in subgraphs it isn't said
			u.add(c)
		}
	}
	return u, nil
}
