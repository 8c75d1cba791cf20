package local

import (
	"container/list"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/plan"
)

// Kept holds the growing fields of states that were read lately, so that reading
// a thread again decodes only what it has grown by. It is safe for concurrent use.
//
// An entry is what the records add up to that a snapshot refers to; a reader
// reads the snapshot itself in any case, so it never sees what the store no longer
// has. What is kept was decoded, never taken from a run: a state read twice in one
// process is the state that another process would read.
type Kept struct {
	mu    sync.Mutex
	used  list.List // of *grown, the latest first
	byLog map[keptKey]*list.Element
	size  int
}

type keptKey struct {
	plan *plan.Graph
	log  checkpoint.Log
}

// grown are the growing fields of a thread's state at a snapshot. It is immutable.
type grown struct {
	key    keptKey
	id     checkpoint.ID // the snapshot's record
	branch checkpoint.Branch
	seq    int64
	ranges map[string][][2]int64
	full   bool // the snapshot held them itself; state then has all fields
	state  any  // with growing fields only
	size   int  // of the changes that gave it, in their recorded form
}

// NewKept returns an empty Kept.
func NewKept() *Kept { return &Kept{byLog: map[keptKey]*list.Element{}} }

// Growing is where one reader looks for growing fields, and leaves them. The zero
// Growing keeps nothing.
type Growing struct {
	Kept *Kept
	Max  int // bytes to keep, in their recorded form
	Plan *plan.Graph
}

// keeps reports whether something of a size is kept.
func (g Growing) keeps(size int) bool { return g.Kept != nil && g.Max > 0 && size <= g.Max }

// known returns what is kept that a snapshot goes on from, nil if nothing is.
func (g Growing) known(ctx context.Context, store checkpoint.Store, snap *checkpoint.Record) (*grown, error) {
	n := g.get(snap.Log)
	if n == nil {
		return nil, nil
	}
	leads := n.leadsTo(snap)
	switch {
	case leads && n.id == snap.ID:
		return n, nil
	case !leads && !n.outlasts(snap):
		return nil, nil
	}
	_, err := store.Get(ctx, snap.Log, n.id)
	switch {
	case errors.Is(err, checkpoint.ErrNotFound): // the log is another one of the same name
		g.forget(n)
		return nil, nil
	case err != nil:
		return nil, err
	case !leads:
		return nil, nil
	}
	return n, nil
}

func (g Growing) get(log checkpoint.Log) *grown {
	if !g.keeps(0) {
		return nil
	}
	g.Kept.mu.Lock()
	defer g.Kept.mu.Unlock()
	e := g.Kept.byLog[keptKey{g.Plan, log}]
	if e == nil || e.Value.(*grown).size > g.Max {
		return nil
	}
	g.Kept.used.MoveToFront(e)
	return e.Value.(*grown)
}

func (g Growing) put(n *grown, snap *checkpoint.Record) {
	if !g.keeps(n.size) {
		return
	}
	n.key, n.id, n.branch, n.seq = keptKey{g.Plan, snap.Log}, snap.ID, snap.Branch, snap.Seq
	k := g.Kept
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.byLog[n.key]; e != nil {
		if old := e.Value.(*grown); old.outlasts(snap) && old.size <= g.Max {
			return
		}
		k.drop(e)
	}
	k.byLog[n.key] = k.used.PushFront(n)
	k.size += n.size
	for k.size > g.Max {
		k.drop(k.used.Back())
	}
}

// forget drops n unless something else has taken its place.
func (g Growing) forget(n *grown) {
	k := g.Kept
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.byLog[n.key]; e != nil && e.Value.(*grown) == n {
		k.drop(e)
	}
}

// drop is called with the lock held.
func (k *Kept) drop(e *list.Element) {
	n := k.used.Remove(e).(*grown)
	delete(k.byLog, n.key)
	k.size -= n.size
}

// outlasts reports whether n stays kept when an older snapshot is read: a look
// at an older checkpoint, unless n is of a log that is gone.
func (n *grown) outlasts(snap *checkpoint.Record) bool {
	return n.branch == snap.Branch && n.seq > snap.Seq
}

// wholly reports whether a snapshot holds the growing fields itself.
func wholly(snap *checkpoint.Record) bool {
	return snap.Snapshot.Full && len(snap.Snapshot.Ranges) == 0
}

// leadsTo reports whether what is kept is the beginning of what a snapshot
// refers to: the same records of the same line up to the kept one.
func (n *grown) leadsTo(snap *checkpoint.Record) bool {
	if n.full || wholly(snap) {
		return n.full && wholly(snap) && n.id == snap.ID
	}
	if n.id == snap.ID {
		return maps.EqualFunc(n.ranges, snap.Snapshot.Ranges, slices.Equal[[][2]int64])
	}
	if n.seq >= snap.Seq {
		return false
	}
	branch, ok := branchAt(spans(snap), n.seq)
	return ok && branch == n.branch && within(n.ranges, snap.Snapshot.Ranges, n.seq)
}

// within reports whether ranges up to seq are just those of old: no field was
// reset since, and none refers to records that old left out.
func within(old, ranges map[string][][2]int64, seq int64) bool {
	for f, was := range old {
		is := upTo(ranges[f], seq)
		if len(is) != len(was) {
			return false
		}
		for i := range is {
			if is[i][0] != was[i][0] || is[i][1] != was[i][1] && (i < len(is)-1 || is[i][1] != seq) {
				return false
			}
		}
	}
	for f, is := range ranges {
		if _, ok := old[f]; !ok && len(upTo(is, seq)) > 0 {
			return false
		}
	}
	return true
}

// upTo cuts intervals off after seq.
func upTo(ivs [][2]int64, seq int64) [][2]int64 {
	var out [][2]int64
	for _, iv := range ivs {
		if iv[0] <= seq {
			out = append(out, [2]int64{iv[0], min(iv[1], seq)})
		}
	}
	return out
}

// since returns what ranges name after what was kept of each field.
func (n *grown) since(ranges map[string][][2]int64) map[string][][2]int64 {
	if n == nil {
		return ranges
	}
	out := map[string][][2]int64{}
	for f, ivs := range ranges {
		last := int64(0)
		if was := n.ranges[f]; len(was) > 0 {
			last = was[len(was)-1][1]
		}
		for _, iv := range ivs {
			if iv[1] > last {
				out[f] = append(out[f], [2]int64{max(iv[0], last+1), iv[1]})
			}
		}
	}
	return out
}
