package recording

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/process"
)

// metaTask is the metadata key of records of subgraphs: the same as that of
// internal/local, which stands above this package.
const metaTask = "superstep.task"

// Sub reports whether the log is that of a subgraph, and not one that runs of the
// thread begin with.
func (l *Log) Sub() bool {
	return len(l.Records) > 0 && l.Records[len(l.Records)-1].Metadata[metaTask] != ""
}

// Take reads a thread from a store, which must implement checkpoint.Lister. It
// should not be running: what is written in the meantime may be there in part. A
// thread that was pruned meanwhile is read again.
func Take(ctx context.Context, store checkpoint.Store, thread checkpoint.ThreadID) (*Recording, error) {
	fence := func() checkpoint.Fence {
		_, f, _ := store.Head(ctx, checkpoint.Log{Thread: thread})
		return f
	}
	for n, read := 0, fence(); ; n++ {
		r, err := take(ctx, store, thread)
		if now := fence(); now != read && n < retakes {
			read = now
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("export of thread %q: %w", thread, err)
		}
		return r, nil
	}
}

// retakes is how often a thread is read again, at most.
const retakes = 8

func take(ctx context.Context, store checkpoint.Store, thread checkpoint.ThreadID) (*Recording, error) {
	if thread == "" {
		return nil, checkpoint.ErrNoThread
	}
	lister, ok := store.(checkpoint.Lister)
	if !ok {
		return nil, fmt.Errorf("%w: the store can't list logs", errors.ErrUnsupported)
	}
	r := &Recording{Header: Header{Thread: thread, ExportedAt: time.Now().UTC().Truncate(time.Second)}}
	for info, err := range lister.Logs(ctx, thread) {
		if err != nil {
			return nil, err
		}
		r.Logs = append(r.Logs, &Log{Namespace: info.Log.Namespace})
	}
	if len(r.Logs) == 0 {
		return nil, checkpoint.ErrNotFound
	}
	for _, l := range r.Logs {
		if err := l.take(ctx, store, thread); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(r.Logs, func(a, b *Log) int {
		return cmp.Or(number(a.Sub())-number(b.Sub()), cmp.Compare(a.Namespace, b.Namespace))
	})
	if first := r.Logs[0]; len(first.Records) > 0 {
		head := first.Records[len(first.Records)-1]
		r.Header.Graph, r.Header.Version = head.Graph, head.Version
	}
	return r, nil
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (l *Log) take(ctx context.Context, store checkpoint.Store, thread checkpoint.ThreadID) error {
	log := checkpoint.Log{Thread: thread, Namespace: l.Namespace}
	newest := map[checkpoint.Branch]*checkpoint.Record{}
	var branches []checkpoint.Branch
	for rec, err := range store.Records(ctx, checkpoint.Query{Log: log, AllBranches: true}) {
		if err != nil {
			return err
		}
		if rec.Sealed != nil {
			return fmt.Errorf("record %s is sealed: read the store through the codec that it was written with", rec.ID)
		}
		if newest[rec.Branch] == nil {
			branches = append(branches, rec.Branch)
		}
		newest[rec.Branch] = rec
		l.Records = append(l.Records, rec)
	}
	for _, b := range branches {
		rs, err := store.Results(ctx, log, b, newest[b].Epoch)
		if err != nil {
			return err
		}
		l.Results = append(l.Results, rs...)
	}
	for _, apart := range []checkpoint.ID{checkpoint.EventsEpoch, checkpoint.PartsEpoch} {
		rs, err := store.Results(ctx, log, "", apart)
		if err != nil {
			return err
		}
		l.Results = append(l.Results, rs...)
	}
	return nil
}

// Export writes a thread to w; see [Take].
func Export(ctx context.Context, store checkpoint.Store, thread checkpoint.ThreadID, w io.Writer) error {
	r, err := Take(ctx, store, thread)
	if err != nil {
		return err
	}
	return r.Write(w)
}

// ErrExists: a thread of that ID is in the store.
var ErrExists = errors.New("the thread exists already")

// importing is how long nobody takes up a thread that is being imported: the import may have
// died.
const importing = 100 * 365 * 24 * time.Hour

// Import reads a recording from r and puts it into a store as a thread, of the
// recorded ID if thread is empty: see [Recording.Put].
func Import(ctx context.Context, store checkpoint.Store, r io.Reader, thread checkpoint.ThreadID) (*Recording, error) {
	rec, err := Read(r)
	if err != nil {
		return nil, err
	}
	return rec, rec.Put(ctx, store, thread)
}

// Put puts a recording into a store as a thread, of the recorded ID if thread is empty, as a
// whole or not at all. A thread that exists is [ErrExists]. The store must implement
// checkpoint.Copier, and for a thread that was pruned checkpoint.Rewriter: record by record
// it becomes a thread "importing/" and a random ID, which no runner takes up, which is copied
// and removed. If the process dies, that one is left: the next Put of a process that can tell,
// on the same machine, removes it.
func (r *Recording) Put(ctx context.Context, store checkpoint.Store, thread checkpoint.ThreadID) error {
	if thread == "" {
		thread = r.Header.Thread
	}
	if err := r.put(ctx, store, thread); err != nil {
		return fmt.Errorf("import of thread %q: %w", thread, err)
	}
	return nil
}

func (r *Recording) put(ctx context.Context, store checkpoint.Store, thread checkpoint.ThreadID) (err error) {
	if thread == "" {
		return checkpoint.ErrNoThread
	}
	if len(r.Logs) == 0 {
		return errors.New("the recording is empty")
	}
	copier, ok := store.(checkpoint.Copier)
	if !ok {
		return fmt.Errorf("%w: the store can't copy threads", errors.ErrUnsupported)
	}
	if l, ok := store.(checkpoint.Lister); ok {
		for _, err := range l.Logs(ctx, thread) {
			if err != nil {
				return err
			}
			return ErrExists
		}
	}
	if err := sweep(ctx, store); err != nil {
		return err
	}
	id := checkpoint.NewRunID()
	p := &putter{store: store, thread: attempt(string(id)), holder: string(id) + " " + process.Self()}
	defer func() {
		if derr := store.Delete(context.WithoutCancel(ctx), p.thread); derr != nil {
			err = errors.Join(err, fmt.Errorf("thread %q could not be removed: %w", p.thread, derr))
		}
	}()
	for _, l := range r.Logs {
		if err := p.log(ctx, l); err != nil {
			return err
		}
	}
	if err := copier.Copy(ctx, p.thread, thread); errors.Is(err, checkpoint.ErrConflict) {
		return fmt.Errorf("%w: %w", ErrExists, err)
	} else if err != nil {
		return err
	}
	return nil
}

// attempts is how the threads begin that are being imported.
const attempts = "importing/"

func attempt(id string) checkpoint.ThreadID { return checkpoint.ThreadID(attempts + id) }

// sweep removes the threads of imports whose process has certainly ended.
func sweep(ctx context.Context, store checkpoint.Store) error {
	l, ok := store.(checkpoint.Lister)
	if !ok {
		return nil
	}
	var left []checkpoint.ThreadID
	for t, err := range l.Threads(ctx, checkpoint.ThreadFilter{Prefix: attempts}) {
		if err != nil { // of that thread, or else what follows fails as well
			continue
		}
		id, where, _ := strings.Cut(t.Lease.Holder, " ")
		if t.Thread == attempt(id) && process.Gone(where) { // and not a user's, which only has such a name
			left = append(left, t.Thread)
		}
	}
	for _, thread := range left {
		if err := store.Delete(ctx, thread); err != nil {
			return fmt.Errorf("removing thread %q, which an import has left: %w", thread, err)
		}
	}
	return nil
}

// putter writes one thread.
type putter struct {
	store  checkpoint.Store
	thread checkpoint.ThreadID
	holder string
	fence  checkpoint.Fence // 0: nothing is written
}

func (p *putter) write(ctx context.Context, w *checkpoint.Write) error {
	if w.Fence = p.fence; p.fence == 0 {
		w.Claim, w.Lease, w.Holder = true, importing, p.holder
	}
	out, err := p.store.Write(ctx, w)
	if err == nil {
		p.fence = out.Fence
	}
	return err
}

func (p *putter) log(ctx context.Context, l *Log) error {
	log := checkpoint.Log{Thread: p.thread, Namespace: l.Namespace}
	var head checkpoint.ID
	last := map[checkpoint.Branch]int64{"": 0}
	var fill []checkpoint.ID
	put := func(rec *checkpoint.Record) error {
		if err := p.write(ctx, &checkpoint.Write{Log: log, Record: rec, Head: head}); err != nil {
			return err
		}
		head, last[rec.Branch] = rec.ID, rec.Seq
		return nil
	}
	filler := checkpoint.NewRunID()
	for _, r := range l.Records {
		rec := *r
		rec.Log = log
		// A store takes no record whose predecessor was never there.
		before, known := last[rec.Branch]
		for seq := before + 1; known && seq < rec.Seq; seq++ {
			id := filler.Checkpoint(uint32(len(fill) + 1))
			if err := put(&checkpoint.Record{ID: id, Log: log, Branch: rec.Branch, Seq: seq, Lineage: rec.Lineage, Epoch: id, Source: checkpoint.SourceLoop, CreatedAt: rec.CreatedAt}); err != nil {
				return err
			}
			fill = append(fill, id)
		}
		if err := put(&rec); err != nil {
			return err
		}
	}
	if len(l.Results) > 0 {
		if err := p.write(ctx, &checkpoint.Write{Log: log, Results: l.Results}); err != nil {
			return err
		}
	}
	if len(fill) == 0 {
		return nil
	}
	rewriter, ok := p.store.(checkpoint.Rewriter)
	if !ok {
		return fmt.Errorf("%w: the thread was pruned, and the store can't remove records", errors.ErrUnsupported)
	}
	if err := rewriter.Rewrite(ctx, &checkpoint.Rewrite{Log: log, Head: head, Holder: p.holder, Remove: fill}); err != nil {
		return err
	}
	_, fence, err := p.store.Head(ctx, log) // it has grown
	p.fence = fence
	return err
}
