package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/core"
)

// Keep says which records pruning leaves.
type Keep struct {
	Last       int           // newest ones of each line; at least 1
	Newer      time.Duration // all that are younger; 0: none
	Interrupts bool          // those at which questions are open
	Where      func(*checkpoint.Record) bool
	DropForks  bool // the lines that the thread is not on go, whatever else is said
}

// Pruned says what pruning did.
type Pruned struct {
	Kept    int   // records of the log that are left
	Removed int   // records of the log that went
	Logs    int   // logs of subgraphs that went
	Freed   int64 // bytes, as far as the store knows
}

// Prune removes old records of a log, and the logs of subgraphs that nothing
// refers to any more. The records that are left have the state they had. A run that
// holds the thread is waited for or stopped, as the policy says: [Rollback] is
// [Interrupt].
func Prune(ctx context.Context, store checkpoint.Store, prog *Program, log checkpoint.Log, keep Keep, policy BusyPolicy) (out Pruned, err error) {
	since := time.Now().Add(-keep.Newer)
	s := visitor(store, log.Thread)
	unlock, err := s.lock(ctx, policy)
	if err != nil {
		return Pruned{}, err
	}
	defer unlock(false)
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		did, err := prune(ctx, store, prog, log, keep, since)
		out = Pruned{Kept: did.Kept, Removed: out.Removed + did.Removed, Logs: out.Logs + did.Logs, Freed: out.Freed + did.Freed}
		if policy == Reject || !Busy(err) {
			return out, err
		}
		if policy != Queue { // and don't keep the lease: the store rewrites what nobody holds
			if _, err := s.acquire(ctx, policy); err != nil {
				return out, err
			}
			_ = s.release(ctx, func(ctx context.Context) bool { return hasMail(ctx, store, log) })
			s.disclaim()
		}
		if err := pause(ctx, wait, err); err != nil {
			return out, err
		}
	}
}

// Busy reports whether a write failed since another run holds or had the thread.
func Busy(err error) bool {
	return errors.Is(err, checkpoint.ErrBusy) || errors.Is(err, checkpoint.ErrConflict) || errors.Is(err, checkpoint.ErrFenced)
}

func prune(ctx context.Context, store checkpoint.Store, prog *Program, log checkpoint.Log, keep Keep, since time.Time) (Pruned, error) {
	var p *pruning
	var before int64
	err := Settled(ctx, store, log, func() (err error) {
		if p, err = newPruning(ctx, store, prog, log); err != nil {
			return err
		}
		p.choose(keep, since)
		if p.drop, err = p.unreached(ctx); err != nil {
			return err
		}
		before = p.bytes(ctx)
		return p.shorten(ctx)
	})
	if err != nil {
		return Pruned{}, err
	}
	out := Pruned{Kept: len(p.kept), Removed: len(p.all) - len(p.kept)}
	if out.Logs, err = p.orphans(ctx); err != nil {
		return out, err
	}
	if out.Removed > 0 || out.Logs > 0 {
		if err := p.sweep(ctx); err != nil {
			return out, err
		}
	}
	out.Freed = before - p.bytes(ctx)
	return out, nil
}

// pruning is the work on one log.
type pruning struct {
	store   checkpoint.Store
	values  core.Values
	version int // of the state's schema that values have
	log     checkpoint.Log
	all     []*checkpoint.Record // without their data, in the order appended
	lines                        // of them
	newest  map[checkpoint.Branch]*checkpoint.Record
	kept    map[checkpoint.ID]bool
	drop    []checkpoint.LogInfo // logs of subgraphs that go
	head    checkpoint.ID
	fence   checkpoint.Fence // as it was before anything was read
}

func newPruning(ctx context.Context, store checkpoint.Store, prog *Program, log checkpoint.Log) (*pruning, error) {
	p := &pruning{
		store: store, values: prog.Values, version: prog.Version, log: log,
		newest: map[checkpoint.Branch]*checkpoint.Record{}, kept: map[checkpoint.ID]bool{},
	}
	if _, ok := store.(checkpoint.Rewriter); !ok {
		return nil, fmt.Errorf("pruning thread %q: %T is no checkpoint.Rewriter: %w", log.Thread, store, errors.ErrUnsupported)
	}
	head, fence, err := store.Head(ctx, log)
	if errors.Is(err, checkpoint.ErrNotFound) {
		return nil, fmt.Errorf("%w: thread %q has no checkpoint in namespace %q", checkpoint.ErrNotFound, log.Thread, log.Namespace)
	}
	if err != nil {
		return nil, err
	}
	p.head, p.fence = head.ID, fence
	for r, err := range store.Records(ctx, checkpoint.Query{Log: log, AllBranches: true, Meta: true}) {
		if err != nil {
			return nil, err
		}
		p.all = append(p.all, r)
		p.newest[r.Branch] = r
	}
	p.lines = linesOf(p.all)
	if len(p.all) == 0 || p.all[len(p.all)-1].ID != p.head {
		return nil, fmt.Errorf("%w: thread %q was written to", checkpoint.ErrConflict, log.Thread)
	}
	return p, nil
}

// choose fills p.kept. Those since then are the younger ones.
func (p *pruning) choose(keep Keep, since time.Time) {
	head := p.all[len(p.all)-1]
	main := map[checkpoint.ID]bool{}
	for r := range p.back(head) {
		main[r.ID] = true
	}
	for _, newest := range p.newest {
		if keep.DropForks && newest != head {
			continue
		}
		n := 0
		for r := range p.back(newest) {
			if n++; n > max(keep.Last, 1) {
				break
			}
			p.kept[r.ID] = true
		}
	}
	for _, r := range p.all {
		if keep.DropForks && !main[r.ID] {
			continue
		}
		if keep.Newer > 0 && !r.CreatedAt.Before(since) || keep.Interrupts && asks(r) || keep.Where != nil && keep.Where(r) {
			p.kept[r.ID] = true
		}
	}
	for p.keepAlso() {
	}
}

// keepAlso adds to p.kept what those in it need and reports whether it did: what
// is added may need others in turn.
func (p *pruning) keepAlso() (added bool) {
	keep := func(r *checkpoint.Record) {
		if r != nil && !p.kept[r.ID] {
			p.kept[r.ID], added = true, true
		}
	}
	// The record that planned a superstep stays as long as one inside it does,
	// and so do those in between, so that one snapshot serves all of them.
	for _, r := range p.all {
		if !p.kept[r.ID] || r.Epoch == r.ID {
			continue
		}
		for e := p.before(r); e != nil; e = p.before(e) {
			keep(e)
			if e.ID == r.Epoch {
				break
			}
		}
	}
	// A branch is named after its first record, and goes on after its newest.
	for _, r := range p.all {
		if p.kept[r.ID] {
			keep(p.newest[r.Branch])
			if r.Branch != "" {
				keep(p.lines[checkpoint.ID(r.Branch)])
			}
		}
	}
	return added
}

// asks reports whether questions are open at a record.
func asks(r *checkpoint.Record) bool {
	return len(r.Paused) > 0 || slices.ContainsFunc(r.Open, func(o checkpoint.OpenTask) bool { return o.Asks() })
}

// shorten rewrites the log.
func (p *pruning) shorten(ctx context.Context) error {
	rw := &checkpoint.Rewrite{Log: p.log, Head: p.head, Fence: p.fence}
	cut := false // whether a record before has gone
	for _, r := range p.all {
		if !p.kept[r.ID] {
			rw.Remove = append(rw.Remove, r.ID)
			cut = true
		}
	}
	if !cut {
		return nil
	}
	for _, r := range p.all {
		if !p.kept[r.ID] {
			continue
		}
		prev := p.before(r)
		whole := r.Seq == 1 || prev != nil && p.kept[prev.ID]
		rec, err := p.store.Get(ctx, p.log, r.ID)
		if err != nil {
			return err
		}
		if whole && !p.refersToGone(rec) {
			continue
		}
		n := *rec
		n.Snapshot = nil
		if !whole && !(rec.Snapshot != nil && rec.Snapshot.Full) {
			state, err := StateAt(ctx, p.store, p.values, rec, Keeper{})
			if err != nil {
				return err
			}
			full, err := p.values.Snapshot(state, true)
			if err != nil {
				return err
			}
			n.Snapshot = &checkpoint.Snapshot{Values: full, Full: true}
			// All of the record is of one version of the state's schema.
			if err := p.upgrade(&n); err != nil {
				return err
			}
		} else if !whole {
			n.Snapshot = rec.Snapshot
		}
		if !whole {
			n.Parent = ""
			for a := range p.back(p.lines[r.Parent]) {
				if p.kept[a.ID] {
					n.Parent = a.ID
					break
				}
			}
		}
		rw.Replace = append(rw.Replace, &n)
	}
	return p.store.(checkpoint.Rewriter).Rewrite(ctx, rw)
}

// upgrade makes a record one of the version that the values have. What it shares with
// others isn't altered. What is sent to a containing graph stays as it is.
func (p *pruning) upgrade(r *checkpoint.Record) error {
	var err error
	upgrade := func(data *json.RawMessage) {
		if err == nil {
			*data, err = core.Upgrade(p.values, r.Version, *data)
		}
	}
	routing := func(at **checkpoint.Routing) {
		if *at == nil || len((*at).Sends) == 0 {
			return
		}
		n := **at
		n.Sends = slices.Clone(n.Sends)
		for k := range n.Sends {
			upgrade(&n.Sends[k].Overlay)
		}
		*at = &n
	}
	r.Changes, r.Tasks, r.Open = slices.Clone(r.Changes), slices.Clone(r.Tasks), slices.Clone(r.Open)
	for i := range r.Changes {
		upgrade(&r.Changes[i].Data)
		routing(&r.Changes[i].Routing)
	}
	for i := range r.Tasks {
		upgrade(&r.Tasks[i].Overlay)
	}
	for i := range r.Open {
		routing(&r.Open[i].Routing)
	}
	r.Version = p.version
	return err
}

// refersToGone reports whether a snapshot refers to records that go.
func (p *pruning) refersToGone(r *checkpoint.Record) bool {
	if r.Snapshot == nil || len(r.Snapshot.Ranges) == 0 {
		return false
	}
	kept := map[int64]bool{}
	for a := range p.back(r) {
		if p.kept[a.ID] {
			kept[a.Seq] = true
		}
	}
	for _, rs := range r.Snapshot.Ranges {
		for _, iv := range rs {
			for seq := iv[0]; seq <= iv[1]; seq++ {
				if !kept[seq] {
					return true
				}
			}
		}
	}
	return false
}

// unreached returns the logs of subgraphs that were called for one superstep and
// that no record which is left refers to. Once the log is shortened none ever will,
// whoever writes to the thread then.
func (p *pruning) unreached(ctx context.Context) (drop []checkpoint.LogInfo, err error) {
	open := map[checkpoint.ID]bool{} // supersteps that are open at records left
	for _, r := range p.all {
		if p.kept[r.ID] {
			open[r.Epoch] = true
		}
	}
	logs, err := logsOf(ctx, p.store, p.log.Thread)
	for _, info := range logs {
		if epoch := calledIn(p.log.Namespace, info.Log.Namespace); epoch != "" && !open[epoch] {
			drop = append(drop, info)
		}
	}
	return drop, err
}

// orphans removes what hangs on records that are gone: results of branches, and
// the logs that are not reached any more.
func (p *pruning) orphans(ctx context.Context) (logs int, err error) {
	for b, newest := range p.newest {
		if p.kept[newest.ID] {
			continue
		}
		w := &checkpoint.Write{Log: p.log, Drop: &checkpoint.Drop{Branch: b, Epoch: newest.Epoch}}
		if _, err := p.store.Write(ctx, w); err != nil {
			return 0, err
		}
	}
	for _, info := range p.drop {
		rw := &checkpoint.Rewrite{Log: info.Log, Head: info.Head}
		for r, err := range p.store.Records(ctx, checkpoint.Query{Log: info.Log, AllBranches: true, Meta: true}) {
			if err != nil {
				return logs, err
			}
			rw.Remove = append(rw.Remove, r.ID)
		}
		err := p.store.(checkpoint.Rewriter).Rewrite(ctx, rw)
		if errors.Is(err, checkpoint.ErrNotFound) { // another prune was first
			continue
		}
		if err != nil {
			return logs, err
		}
		logs++
	}
	return logs, nil
}

// sweep removes the parts of lists that no note refers to which is left. If a run has
// begun meanwhile they stay, until the thread is next pruned.
func (p *pruning) sweep(ctx context.Context) error {
	_, fence, err := p.store.Head(ctx, p.log) // before the rest is read
	if err != nil {
		return err
	}
	parts, err := LoadParts(ctx, p.store, p.log)
	if err != nil || len(parts.of) == 0 {
		return err
	}
	marked := map[string]bool{}
	mark := func(notes []Noted, err error) error {
		for _, n := range notes {
			for _, l := range n.Lists {
				parts.reach(l, marked)
			}
		}
		return err
	}
	logs, err := LogsInside(ctx, p.store, p.log)
	if err != nil {
		return err
	}
	for _, log := range logs {
		for r, err := range p.store.Records(ctx, checkpoint.Query{Log: log, AllBranches: true}) {
			if err == nil {
				err = mark(NotesOf(r))
			}
			if err != nil {
				return err
			}
		}
	}
	for b, newest := range p.newest {
		results, err := p.store.Results(ctx, p.log, b, newest.Epoch)
		if err == nil {
			err = mark(OpenNotes(p.log, results))
		}
		if err != nil {
			return err
		}
	}
	w := &checkpoint.Write{Log: p.log, Fence: fence}
	for name := range parts.of {
		if !marked[name] {
			w.Remove = append(w.Remove, checkpoint.ResultKey{Epoch: checkpoint.PartsEpoch, Kind: checkpoint.KindPart, Name: name})
		}
	}
	if len(w.Remove) == 0 {
		return nil
	}
	if _, err := p.store.Write(ctx, w); err != nil && !Busy(err) {
		return err
	}
	return nil
}

// LogsInside returns a log and those of the subgraphs in it, as far as the store lists them.
func LogsInside(ctx context.Context, store checkpoint.Store, log checkpoint.Log) ([]checkpoint.Log, error) {
	infos, err := logsOf(ctx, store, log.Thread)
	logs := []checkpoint.Log{log}
	for _, info := range infos {
		if checkpoint.Below(info.Log.Namespace, log.Namespace) {
			logs = append(logs, info.Log)
		}
	}
	return logs, err
}

// logsOf lists the logs of a thread, none if the store doesn't.
func logsOf(ctx context.Context, store checkpoint.Store, thread checkpoint.ThreadID) (logs []checkpoint.LogInfo, err error) {
	lister, ok := store.(checkpoint.Lister)
	if !ok {
		return nil, nil
	}
	for info, err := range lister.Logs(ctx, thread) {
		if err != nil {
			return nil, err
		}
		logs = append(logs, info)
	}
	return logs, nil
}

// calledIn returns the superstep of the log root in which the subgraph with a namespace
// was called, or one around it; none if that lives as long as the thread, or is no
// subgraph of that log. See Task.namespace.
func calledIn(root, ns string) checkpoint.ID {
	if !checkpoint.Below(ns, root) {
		return ""
	}
	_, task, _, _ := checkpoint.CutSegment(ns[len(root):])
	epoch, _, _ := strings.Cut(task, ".")
	if e := checkpoint.ID(epoch); e.Valid() {
		return e
	}
	return ""
}

// bytes returns what the thread's logs take, 0 if the store doesn't know.
func (p *pruning) bytes(ctx context.Context) (n int64) {
	logs, _ := logsOf(ctx, p.store, p.log.Thread)
	for _, info := range logs {
		n += info.Bytes
	}
	return n
}
