package checkpoint

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Check reports what makes w impossible whatever the store holds: no thread, a
// record of another log, a result without a kind. Back ends call it first.
func (w *Write) Check() error {
	if err := w.Log.Check(); err != nil {
		return err
	}
	for i := range w.Results {
		r := &w.Results[i]
		switch {
		case r.Kind == "":
			return fmt.Errorf("%w: result %d of thread %q has no kind", ErrInvalid, i, w.Log.Thread)
		case r.Epoch == "":
			return fmt.Errorf("%w: result %d of thread %q has no epoch", ErrInvalid, i, w.Log.Thread)
		case r.Task < 0 || r.Gen < 0:
			return fmt.Errorf("%w: result %d of thread %q has a negative task or generation", ErrInvalid, i, w.Log.Thread)
		}
	}
	switch {
	case w.Lease < 0 || w.Lease > 0 && w.Lease < time.Millisecond:
		return fmt.Errorf("%w: a lease of %v on thread %q; the shortest is a millisecond", ErrInvalid, w.Lease, w.Log.Thread)
	case w.Lease > 0 && w.Holder == "":
		return fmt.Errorf("%w: lease on thread %q has no holder", ErrInvalid, w.Log.Thread)
	case w.Lease > 0 && w.Release:
		return fmt.Errorf("%w: one write both leases and releases thread %q", ErrInvalid, w.Log.Thread)
	case (w.Lease > 0 || w.Release) && !w.Claim && w.Fence == 0:
		return fmt.Errorf("%w: lease on thread %q without a claim or the fence of one", ErrInvalid, w.Log.Thread)
	case w.Steal != "" && !w.Claim:
		return fmt.Errorf("%w: Steal without Claim on thread %q", ErrInvalid, w.Log.Thread)
	}
	if w.Drop != nil && w.Drop.Epoch == "" {
		return fmt.Errorf("%w: drop of thread %q has no epoch", ErrInvalid, w.Log.Thread)
	}
	r := w.Record
	if r == nil {
		return nil
	}
	switch {
	case r.ID == "":
		return fmt.Errorf("%w: record of thread %q has no ID", ErrInvalid, w.Log.Thread)
	case r.Log != w.Log:
		return fmt.Errorf("%w: record %s belongs to %v, not to %v", ErrInvalid, r.ID, r.Log, w.Log)
	case r.Seq < 1:
		return fmt.Errorf("%w: record %s of thread %q has sequence number %d, the first is 1", ErrInvalid, r.ID, w.Log.Thread, r.Seq)
	}
	for _, id := range []ID{r.ID, r.Parent, r.Epoch} {
		if strings.HasPrefix(string(id), "*") { // which is how stored forms tell other texts
			return fmt.Errorf("%w: record %s of thread %q has an ID that begins with *", ErrInvalid, r.ID, w.Log.Thread)
		}
	}
	return nil
}

// CheckHold reports whether w may be written to a thread that is at a fence and
// has a lease, now by the store's clock. Back ends call it first of all that
// depends on what they hold.
func (w *Write) CheckHold(at Fence, l Lease, now time.Time) error {
	switch {
	case w.Claim:
		if l.Holder != w.Holder && l.Holder != w.Steal && l.Live(now) || w.Steal != "" && l.Holder != w.Steal {
			return &BusyError{Thread: w.Log.Thread, Lease: l}
		}
		if w.Fence != 0 && w.Fence != at.Read() {
			return &FencedError{Thread: w.Log.Thread, At: at, Writer: w.Fence}
		}
	case w.Fence != 0 && w.Fence != at:
		return &FencedError{Thread: w.Log.Thread, At: at, Writer: w.Fence}
	case (w.Lease > 0 || w.Release) && w.Holder != "" && l.Holder != w.Holder && l.Live(now):
		return &FencedError{Thread: w.Log.Thread, At: at, Writer: w.Fence, Holder: l.Holder}
	}
	return nil
}

// Check returns [ErrNoThread] when the log names no thread.
func (l Log) Check() error {
	if l.Thread == "" {
		return ErrNoThread
	}
	return nil
}

// CheckHead returns [ErrConflict] when the log's head is not the one that a writer expected.
func (l Log) CheckHead(head, want ID) error {
	if head == want {
		return nil
	}
	return fmt.Errorf("%w: thread %q, namespace %q has head %s, the writer expected %s", ErrConflict, l.Thread, l.Namespace, cmp.Or(head, "none"), cmp.Or(want, "none"))
}

// CheckPlace reports whether r may be appended to its branch, whose newest
// record has sequence number last (0: the branch has none). Back ends call it
// after the head was compared.
func (r *Record) CheckPlace(last int64) error {
	switch {
	case last > 0:
		if r.Seq != last+1 {
			return fmt.Errorf("%w: record %s of thread %q has sequence number %d, the next of its branch is %d", ErrInvalid, r.ID, r.Log.Thread, r.Seq, last+1)
		}
	case r.Branch == "":
		if r.Seq != 1 {
			return fmt.Errorf("%w: record %s of thread %q has sequence number %d, the first of a log has 1", ErrInvalid, r.ID, r.Log.Thread, r.Seq)
		}
	case r.Branch != Branch(r.ID):
		return fmt.Errorf("%w: record %s of thread %q starts branch %s; a branch has the ID of its first record", ErrInvalid, r.ID, r.Log.Thread, r.Branch)
	}
	return nil
}

// Meta returns the record without what may be large, as [Query.Meta] wants it:
// the data of changes and of Once, the snapshot, payloads and overlays of tasks. The
// rest is shared with r.
func (r *Record) Meta() *Record {
	m := *r
	m.Snapshot = nil
	if r.Sealed != nil {
		m.Sealed = &Sealed{Meta: r.Sealed.Meta}
	}
	if len(r.Changes) > 0 {
		m.Changes = make([]Change, len(r.Changes))
		for i, c := range r.Changes {
			c.Data, c.Routing = nil, metaRouting(c.Routing)
			m.Changes[i] = c
		}
	}
	if len(r.Once) > 0 {
		m.Once = make([]OnceResult, len(r.Once))
		for i, o := range r.Once {
			m.Once[i] = OnceResult{Task: o.Task, Name: o.Name, Error: o.Error}
		}
	}
	m.Tasks = metaTasks(r.Tasks)
	for i := range r.Open {
		if rt := metaRouting(r.Open[i].Routing); rt != r.Open[i].Routing {
			if &m.Open[0] == &r.Open[0] {
				m.Open = append([]OpenTask(nil), r.Open...)
			}
			m.Open[i].Routing = rt
		}
	}
	return &m
}

func metaTasks(ts []Task) []Task {
	for i := range ts {
		if ts[i].Payload == nil && ts[i].Overlay == nil {
			continue
		}
		out := append([]Task(nil), ts...)
		for j := i; j < len(out); j++ {
			out[j].Payload, out[j].Overlay = nil, nil
		}
		return out
	}
	return ts
}

func metaRouting(r *Routing) *Routing {
	if r == nil {
		return nil
	}
	sends, parent := metaTasks(r.Sends), metaRouting(r.Parent)
	if parent == r.Parent && (len(sends) == 0 || &sends[0] == &r.Sends[0]) {
		return r
	}
	m := *r
	m.Sends, m.Parent = sends, parent
	return &m
}

// Size estimates what a record takes in memory or on disk, in bytes.
func (r *Record) size() int64 {
	n := 120 + len(r.Graph)
	for i := range r.Changes {
		n += 16 + len(r.Changes[i].Node) + len(r.Changes[i].Data)
		if r.Changes[i].Routing != nil {
			n += r.Changes[i].Routing.size()
		}
	}
	for i := range r.Tasks {
		t := &r.Tasks[i]
		n += 16 + len(t.Node) + len(t.From) + len(t.Payload) + len(t.Overlay)
	}
	for i := range r.Once {
		n += 16 + len(r.Once[i].Name) + len(r.Once[i].Data) + len(r.Once[i].Error)
	}
	if r.Sealed != nil {
		n += len(r.Sealed.Meta) + len(r.Sealed.Data)
	}
	if r.Snapshot != nil {
		n += len(r.Snapshot.Values)
		for k, v := range r.Snapshot.Ranges {
			n += len(k) + 8*len(v)
		}
	}
	return int64(n)
}

func (r *Routing) size() int {
	n := 16
	for _, name := range r.Goto {
		n += len(name)
	}
	for i := range r.Sends {
		n += len(r.Sends[i].Node) + len(r.Sends[i].Payload) + len(r.Sends[i].Overlay)
	}
	if r.Parent != nil {
		n += r.Parent.size()
	}
	return n
}

// Check reports what makes r impossible whatever the store holds. Back ends call
// it first.
func (r *Rewrite) Check() error {
	if err := r.Log.Check(); err != nil {
		return err
	}
	seen := make(map[ID]bool, len(r.Replace)+len(r.Remove))
	for _, id := range r.Remove {
		if seen[id] {
			return fmt.Errorf("%w: record %s of thread %q is removed twice", ErrInvalid, id, r.Log.Thread)
		}
		seen[id] = true
	}
	for _, rec := range r.Replace {
		if rec.Log != r.Log {
			return fmt.Errorf("%w: record %s belongs to %v, not to %v", ErrInvalid, rec.ID, rec.Log, r.Log)
		}
		if seen[rec.ID] {
			return fmt.Errorf("%w: record %s of thread %q is replaced twice, or removed too", ErrInvalid, rec.ID, r.Log.Thread)
		}
		seen[rec.ID] = true
	}
	return nil
}

// CheckHold reports whether a log may be rewritten of a thread that is at a fence
// and has a lease, now by the store's clock.
func (r *Rewrite) CheckHold(at Fence, l Lease, now time.Time) error {
	switch {
	case l.Live(now) && (r.Holder == "" || l.Holder != r.Holder):
		return &BusyError{Thread: r.Log.Thread, Lease: l}
	case r.Fence != 0 && r.Fence != at.Read():
		return &FencedError{Thread: r.Log.Thread, At: at, Writer: r.Fence}
	}
	return nil
}

// Find returns which of the n records of a log r removes, and what it replaces others with:
// at says of each, in the order appended, its ID, branch and sequence number. It returns
// [ErrNotFound] when the log lacks one of them, and [ErrInvalid] when what remains cannot
// stand. Back ends call it after CheckHold and CheckHead.
func (r *Rewrite) Find(n int, at func(i int) (ID, Branch, int64)) (gone map[int]bool, with map[int]*Record, err error) {
	index := make(map[ID]int, n)
	newest := map[Branch]int{}
	for i := range n {
		id, branch, _ := at(i)
		index[id], newest[branch] = i, i
	}
	gone, with = make(map[int]bool, len(r.Remove)), make(map[int]*Record, len(r.Replace))
	for _, id := range r.Remove {
		i, ok := index[id]
		if !ok {
			return nil, nil, fmt.Errorf("%w: %v has no checkpoint %s", ErrNotFound, r.Log, id)
		}
		gone[i] = true
	}
	for _, rec := range r.Replace {
		i, ok := index[rec.ID]
		if !ok {
			return nil, nil, fmt.Errorf("%w: %v has no checkpoint %s", ErrNotFound, r.Log, rec.ID)
		}
		if _, branch, seq := at(i); branch != rec.Branch || seq != rec.Seq {
			return nil, nil, fmt.Errorf("%w: record %s of %v stands elsewhere than its replacement", ErrInvalid, rec.ID, r.Log)
		}
		with[i] = rec
	}
	if len(gone) == n {
		return gone, with, nil
	}
	kept := map[Branch]bool{}
	for i := range n {
		id, b, _ := at(i)
		if gone[i] {
			continue
		}
		if b != "" && !kept[b] && Branch(id) != b {
			return nil, nil, fmt.Errorf("%w: the first record of branch %s of %v goes, though others stay", ErrInvalid, b, r.Log)
		}
		kept[b] = true
	}
	for b, i := range newest {
		if kept[b] && gone[i] {
			id, _, _ := at(i)
			return nil, nil, fmt.Errorf("%w: record %s, the newest of its branch, goes, though others stay", ErrInvalid, id)
		}
	}
	if gone[n-1] {
		return nil, nil, fmt.Errorf("%w: the head of %v goes, though others stay", ErrInvalid, r.Log)
	}
	return gone, with, nil
}
