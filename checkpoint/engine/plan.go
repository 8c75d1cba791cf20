package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
)

// logState is what is known of a log of a thread: of its newest row, if it has any.
type logState struct {
	ref    any
	place  int64 // 0: the log has no row
	id     checkpoint.ID
	branch checkpoint.Branch
	seq    int64
	count  int64
	bytes  int64
	top    checkpoint.ID // see Row

	metadata map[string]string // of which the header has the labels; nil: unknown
}

func stateOf(l *Loaded) logState {
	st := logState{ref: l.Ref}
	if r := l.Newest; r != nil {
		st.place, st.id, st.branch, st.seq, st.count, st.bytes, st.top = r.Place, r.ID, r.Branch, r.Seq, r.Count, r.Bytes, r.Top
	}
	return st
}

// looked is what was looked up of a record that is to be appended.
type looked struct {
	id, branch bool // was it?

	exists bool  // the log has the ID
	last   int64 // the newest number of its branch; 0: the log doesn't have the branch
}

// planned is a commit, and what is known when it has happened.
type planned struct {
	commit *Commit // nil: nothing is to be done
	header Header
	log    logState
	fence  checkpoint.Fence

	needs looked // what is to be looked up first
}

// planWrite says what a write does to a thread and a log, now by the store's clock. Row
// is w's record, encoded.
func planWrite(h *Header, st *logState, w *checkpoint.Write, row *Row, see looked, now time.Time) (p planned, err error) {
	if err := w.CheckHold(h.Fence, h.Lease, now); err != nil {
		return p, err
	}
	p.header, p.log = *h, *st
	thread, ns := w.Log.Thread, w.Log.Namespace
	c := &Commit{Thread: thread, Version: h.Version, Ref: st.ref}
	if w.Record != nil {
		if err := w.Log.CheckHead(st.id, w.Head); err != nil {
			return p, err
		}
		if p.needs = needs(st, w.Record, see); p.needs.id || p.needs.branch {
			return p, nil
		}
		if err := p.log.append(c, st, w.Record, row, see); err != nil {
			return p, err
		}
	}
	changed := p.header.after(w, now)
	if w.Record != nil && ns == "" && p.header.list(w.Record, st) {
		changed = true
	}
	if w.Record != nil {
		p.log.metadata = w.Record.Metadata
	}
	for i := range w.Remove {
		c.Delete = append(c.Delete, resultKey(ns, w.Remove[i]))
	}
	for i := range w.Results {
		r := &w.Results[i]
		c.Put = append(c.Put, resultPut(thread, ns, r, w.Drop != nil && r.Epoch == w.Drop.Epoch && r.Branch == w.Drop.Branch))
	}
	if w.Drop != nil && (h.Version != 0 || len(c.Put) > 0) {
		c.Clear = [][]byte{stepKey(ns, *w.Drop)}
	}
	p.fence = p.header.Fence
	some := len(c.Append)+len(c.Delete)+len(c.Put)+len(c.Clear) > 0
	if changed || h.Version == 0 && (len(c.Append)+len(c.Put) > 0) {
		renewed := p.header
		renewed.Renew(now)
		c.Header, some = &renewed, true
	}
	if some && (h.Version != 0 || c.Header != nil) {
		p.commit = c
	}
	return p, nil
}

// Renew gives a header that is about to replace another its version, at a time by the
// store's clock.
func (h *Header) Renew(now time.Time) {
	if h.Version == 0 { // above all that a deleted thread of this name had
		h.Version = now.UnixMicro()<<10 | int64(rand.IntN(1<<10))
		return
	}
	h.Version++
}

// fence returns the fence, that of a new one by the time if there is none: above all that a
// deleted thread of this name had, of which nothing is left.
func (h *Header) fence(now time.Time) checkpoint.Fence {
	if h.Fence == 0 {
		return checkpoint.FirstFence(now)
	}
	return h.Fence
}

// after does what a write asks for with a thread, and reports whether that changes
// anything.
func (h *Header) after(w *checkpoint.Write, now time.Time) (changed bool) {
	due := h.HeadDue
	if w.Record != nil && w.Log.Namespace == "" {
		due = micro(w.Record.Due)
		changed = !due.Equal(h.HeadDue)
	}
	if !changed && !w.Claim && !w.Release && !w.Wake && w.Lease == 0 {
		return false
	}
	h.HeadDue = due
	if w.Claim {
		h.Fence = h.fence(now) + 1
		h.Woken = time.Time{}
	}
	switch {
	case w.Lease > 0:
		h.Lease = checkpoint.Lease{Holder: w.Holder, Until: micro(now.Add(w.Lease)), TTL: w.Lease}
	case w.Claim, w.Release:
		h.Lease = checkpoint.Lease{}
	}
	if w.Wake {
		h.Woken = micro(now)
	}
	return true
}

func micro(t time.Time) time.Time { return FromMicroseconds(Microseconds(t)) }

// list notes the head of the log with the empty namespace, and reports whether that
// changes anything.
func (h *Header) list(head *checkpoint.Record, st *logState) bool {
	minute := minuteOf(head.CreatedAt)
	labelled := h.Listed && st.metadata != nil && maps.Equal(st.metadata, head.Metadata)
	if labelled && minute == h.Minute {
		return false
	}
	labels := h.Labels
	if !labelled {
		labels = labelsOf(head.Metadata)
	}
	if h.Listed && minute == h.Minute && slices.Equal(labels, h.Labels) {
		return false
	}
	h.Listed, h.Minute, h.Labels = true, minute, labels
	return true
}

func minuteOf(t time.Time) int64 { return t.Unix() / 60 }

// labelsOf returns a label for each entry of metadata, in order: short texts by which
// threads are found, and of which two entries may, very rarely, have the same.
func labelsOf(metadata map[string]string) []string {
	if len(metadata) == 0 {
		return nil
	}
	labels := make([]string, 0, len(metadata))
	for k, v := range metadata {
		b := binary.AppendUvarint(nil, uint64(len(k)))
		sum := sha256.Sum256(append(append(b, k...), v...))
		labels = append(labels, hex.EncodeToString(sum[:8]))
	}
	slices.Sort(labels)
	return slices.Compact(labels)
}

// isNext reports whether id is the one after prev in the same run.
func isNext(id, prev checkpoint.ID) bool {
	const run = len("00000000-0000-0000-0000-0000") // of an ID's text
	if !prev.Valid() || !id.Valid() || id[:run] != prev[:run] {
		return false
	}
	n := prev.Count()
	return n != 1<<32-1 && id.Count() == n+1
}

// above reports whether an ID is in order in a log whose highest is top: then the log
// doesn't have it.
func above(id, top checkpoint.ID) bool { return id > top && id.Valid() }

// needs says what has to be looked up before a record can be appended.
func needs(st *logState, r *checkpoint.Record, see looked) (n looked) {
	if st.place > 0 {
		n.branch = !see.branch && r.Branch != st.branch
		n.id = !see.id && !above(r.ID, st.top)
	}
	return n
}

// append adds the row of a record to a commit, if it belongs there.
func (st *logState) append(c *Commit, before *logState, r *checkpoint.Record, row *Row, see looked) error {
	if see.exists {
		return fmt.Errorf("%w: thread %q has a record %s already", checkpoint.ErrInvalid, c.Thread, r.ID)
	}
	last := int64(0)
	switch {
	case before.place == 0:
	case r.Branch == before.branch:
		last = before.seq
	default:
		last = see.last
	}
	if err := r.CheckPlace(last); err != nil {
		return err
	}
	row.Place, row.Count = before.place+1, before.count+1
	row.Bytes = before.bytes + row.size()
	if row.Top = r.ID; !above(r.ID, before.top) {
		if row.Top = before.top; before.place == 0 || before.id == before.top || !isNext(r.ID, before.id) {
			run, n := runKey(row.Namespace, r.ID)
			c.Put = append(c.Put, piecePut(c.Thread, run, piece{n, row.Place}))
		}
	}
	row.Sum = row.sums(c.Thread)
	c.Append = []Row{*row}
	if g := (segment{row.Place, r.Branch, r.Seq}); before.place == 0 && g != (segment{1, "", 1}) || before.place > 0 && r.Branch != before.branch {
		c.Put = append(c.Put, segmentPut(c.Thread, row.Namespace, g))
	}
	st.place, st.id, st.branch, st.seq, st.count, st.bytes, st.top = row.Place, r.ID, r.Branch, r.Seq, row.Count, row.Bytes, row.Top
	return nil
}
