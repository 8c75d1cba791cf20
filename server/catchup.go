package server

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server/internal/db"
)

// A superstep is committed first, and then told of. When a process dies in between,
// or loses its database, whoever goes on with the run tells of it: what is told of
// one superstep is stored together, with the checkpoint that it is of.

// steps is what takes the events of a run, superstep by superstep.
type steps interface {
	// beginStep says that what comes until endStep is of one checkpoint.
	beginStep(checkpoint string)
	endStep()

	// tellFrom leaves out what is of some checkpoints, which was told before.
	tellFrom(but map[string]bool)

	// toldOf returns the newest checkpoint of which a process has told that had the
	// run before; false if none told of it from the beginning.
	toldOf(ctx context.Context) (checkpoint string, ok bool, err error)
}

// step gathers what is told of a superstep.
type step[E any] struct {
	open, drop bool
	at         string
	but        map[string]bool
	held       []E
}

func (g *step[E]) begin(checkpoint string) {
	g.open, g.drop, g.at = true, g.but[checkpoint], checkpoint
}

// end returns what was gathered, and the checkpoint that it is of.
func (g *step[E]) end() (held []E, of string) {
	held, of = g.held, g.at
	*g = step[E]{but: g.but}
	return held, of
}

// take reports whether an event isn't for now.
func (g *step[E]) take(e E) bool {
	if g.open && !g.drop {
		g.held = append(g.held, e)
	}
	return g.open
}

// begunAt returns the checkpoint from which on a run is told of.
func begunAt(run *db.Run) string {
	var b struct {
		Checkpoint *checkpointRef `json:"checkpoint"`
	}
	if json.Unmarshal(run.Kwargs, &b) == nil {
		if at, err := b.Checkpoint.id(); err == nil && at != "" {
			return at
		}
	}
	return run.Base
}

// allSteps are several.
type allSteps []steps

// together yields events with what tasks of the root graph wrote after the checkpoint
// that commits it: what is told of a superstep is stored as one. What no checkpoint
// commits comes last.
func (all allSteps) together(seq iter.Seq2[graph.Event, error]) iter.Seq2[graph.Event, error] {
	if len(all) == 0 {
		return seq
	}
	return func(yield func(graph.Event, error) bool) {
		var wrote []graph.Event
		tell := func() bool {
			for len(wrote) > 0 {
				ev := wrote[0]
				if wrote = wrote[1:]; !yield(ev, nil) {
					return false
				}
			}
			return true
		}
		for ev, err := range seq {
			switch {
			case err != nil:
				if tell() {
					yield(ev, err)
				}
				return
			case ev.Type == graph.EventUpdate && len(ev.Path) == 0:
				wrote = append(wrote, ev)
				continue
			}
			commits := ev.Type == graph.EventCheckpoint && len(ev.Path) == 0 && ev.Source != string(checkpoint.SourceInterrupt)
			if !yield(ev, nil) || commits && !tell() {
				return
			}
		}
		tell()
	}
}

// before looks at an event that is then sent, after at one that was: so the events of
// a superstep stand between.
func (all allSteps) before(ev graph.Event) {
	if ev.Type == graph.EventCheckpoint && len(ev.Path) == 0 && (ev.Source == string(checkpoint.SourceLoop) || ev.Source == string(checkpoint.SourceInput)) {
		for _, one := range all {
			one.beginStep(ev.Checkpoint)
		}
	}
}

func (all allSteps) after(ev graph.Event) {
	if ev.Type == graph.EventValues && len(ev.Path) == 0 {
		all.end()
	}
}

func (all allSteps) end() {
	for _, one := range all {
		one.endStep()
	}
}

// wants are the events by which supersteps are told apart.
func (all allSteps) wants(others graph.Mode) graph.Mode {
	const recorded = graph.ModeValues | graph.ModeUpdates | graph.ModeCheckpoints
	if len(all) == 0 || others&recorded == 0 {
		return others
	}
	return others | graph.ModeCheckpoints | graph.ModeValues
}

// catchUp returns the options that make a run, with which this process goes on,
// tell of what was recorded and not told of.
func (all allSteps) catchUp(ctx context.Context, b *base, run *db.Run, g *served) ([]graph.StreamOption, error) {
	told := map[int]string{} // the checkpoint up to which each has told, if that is known
	for i, one := range all {
		at, ok, err := one.toldOf(ctx)
		if err != nil {
			return nil, err
		}
		if ok {
			told[i] = at
		}
	}
	if len(told) == 0 {
		return nil, nil
	}
	var list []string      // the newest checkpoints, the newest first
	found := map[int]int{} // how many of them each has not told of
	for e, err := range b.on(g, run.ThreadID).History(ctx, graph.HistoryQuery{}) {
		if err != nil {
			return nil, err
		}
		for i, at := range told {
			if at == e.Checkpoint {
				found[i] = len(list)
			}
		}
		if len(found) == len(told) {
			break
		}
		list = append(list, e.Checkpoint)
	}
	most, since := 0, ""
	for i, at := range told {
		if at == "" { // it has told of nothing of a thread that was new
			found[i] = len(list)
		}
		if n, ok := found[i]; ok && n >= most {
			most, since = n, at
		}
	}
	list = list[:most] // more if one isn't of this line: that one isn't regarded
	if most == 0 {
		return nil, nil
	}
	for i, one := range all {
		but := map[string]bool{}
		for _, id := range list[found[i]:] {
			but[id] = true
		}
		one.tellFrom(but)
	}
	return []graph.StreamOption{graph.Since(since)}, nil
}
