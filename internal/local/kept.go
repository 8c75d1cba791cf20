package local

import (
	"container/list"
	"encoding/json"
	"sync"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/core"
	"github.com/superstep-dev/superstep/internal/plan"
)

// Kept holds states that were read lately, so that reading a thread again decodes only
// what was recorded since. It is safe for concurrent use.
//
// What is kept was decoded, never taken from a run: a state read twice in one process is
// the state that another process would read. Nobody goes on from what the store no longer
// has: the thread's fence says that no records were removed, and then only what was
// recorded since is read.
type Kept struct {
	mu    sync.Mutex
	used  list.List // of *stood, the latest first
	byLog map[keptKey]*list.Element
	size  int
	parts keptParts
}

type keptKey struct {
	plan *plan.Graph
	log  checkpoint.Log
}

// stood is where a thread stood when it was read. It is immutable.
type stood struct {
	key    keptKey
	id     checkpoint.ID
	branch checkpoint.Branch
	seq    int64
	fence  checkpoint.Fence // of the thread, before it was read
	state  any

	// Weight is what the state was read from: the changes that make a list may say much
	// else, which was replaced since.
	core.Weight

	weighed, at int // the state's size when it was looked at, and what it had been read from then
}

// size returns about how large the state is, and rather more.
func (n *stood) size() int { return n.weighed + n.Read() - n.at }

// weigh looks at the size of a state that seems to be large, if it may have doubled since
// somebody looked.
func (n *stood) weigh(values core.Values, old *stood, most int) {
	if old != nil && old.at <= n.Read() {
		n.weighed, n.at = old.weighed, old.at
	}
	if n.size() <= most/16 || n.Read()-n.at <= n.weighed {
		return
	}
	if whole, err := values.Snapshot(n.state, true); err == nil { // else it counts as before
		n.weighed, n.at = len(whole), n.Read()
	}
}

// NewKept returns an empty Kept.
func NewKept() *Kept { return &Kept{byLog: map[keptKey]*list.Element{}} }

// Keeper is where one reader looks for states, and leaves them. The zero Keeper keeps
// nothing.
type Keeper struct {
	Kept *Kept
	Max  int // bytes to keep, in their recorded form
	Plan *plan.Graph

	// Fence is that of the thread before it was read; 0: it isn't known.
	Fence checkpoint.Fence
}

// keeps reports whether something of a size is kept.
func (g Keeper) keeps(size int) bool { return g.Kept != nil && g.Max > 0 && size <= g.Max }

// get returns what is kept that stands on the line of a record, by its number, if its log
// was not cut since; nil if there is nothing.
func (g Keeper) get(rec *checkpoint.Record) *stood {
	if !g.keeps(0) {
		return nil
	}
	g.Kept.mu.Lock()
	defer g.Kept.mu.Unlock()
	e := g.Kept.byLog[keptKey{g.Plan, rec.Log}]
	if e == nil {
		return nil
	}
	n := e.Value.(*stood)
	if n.size() > g.Max || n.seq > rec.Seq || !n.fence.Uncut(g.Fence) {
		return nil
	}
	if branch, ok := branchAt(spans(rec), n.seq); !ok || branch != n.branch {
		return nil
	}
	g.Kept.used.MoveToFront(e)
	return n
}

// put keeps where a thread stands at a record, and returns a state that may be altered.
// What stands further on the same branch stays, unless its log was cut since.
func (g Keeper) put(values core.Values, tip *core.Tip) (any, error) {
	rec := tip.Record
	n := &stood{
		key: keptKey{g.Plan, rec.Log}, fence: g.Fence, id: rec.ID, branch: rec.Branch, seq: rec.Seq, state: tip.State, Weight: tip.Weight.Clone(),
	}
	k := g.Kept
	k.mu.Lock()
	var old *stood
	if e := k.byLog[n.key]; e != nil {
		old = e.Value.(*stood)
	}
	k.mu.Unlock()
	n.weigh(values, old, g.Max)
	if !g.keeps(n.size()) {
		return tip.State, nil
	}
	if old != nil && old.branch == n.branch && old.seq > n.seq && old.size() <= g.Max && old.fence.Uncut(g.Fence) {
		return tip.State, nil
	}
	state, err := copied(values, n.state)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.byLog[n.key]; e != nil {
		k.drop(e)
	}
	k.byLog[n.key] = k.used.PushFront(n)
	k.size += n.size()
	for k.size > g.Max {
		k.drop(k.used.Back())
	}
	return state, nil
}

// drop is called with the lock held.
func (k *Kept) drop(e *list.Element) {
	n := k.used.Remove(e).(*stood)
	delete(k.byLog, n.key)
	k.size -= n.size()
}

// copied returns a copy of a state with all that is in it.
func copied(values core.Values, state any) (any, error) {
	return values.Restore(state, json.RawMessage("{}"))
}
