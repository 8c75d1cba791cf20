package local

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/core"
)

// rereads bounds how often something is done again since a thread was rewritten
// meanwhile.
const rereads = 32

// Settled calls read, which reads a thread by several calls of its store, and again
// while it misses something and the thread's fence has moved meanwhile: then another
// has pruned the thread, say, or deleted it, and what is missing is no damage.
func Settled(ctx context.Context, store checkpoint.Store, log checkpoint.Log, read func() error) error {
	err := read()
	for range rereads {
		if !errors.Is(err, checkpoint.ErrCorrupt) && !errors.Is(err, checkpoint.ErrNotFound) && !errors.Is(err, checkpoint.ErrFenced) {
			break
		}
		_, before, ferr := HeadOf(ctx, store, log)
		if ferr != nil {
			break
		}
		if err = read(); err == nil {
			break
		}
		if _, after, ferr := HeadOf(ctx, store, log); ferr != nil || after == before {
			break
		}
	}
	return err
}

// HeadOf returns the newest record of a log, nil if there is none, and the thread's fence.
func HeadOf(ctx context.Context, store checkpoint.Store, log checkpoint.Log) (*checkpoint.Record, checkpoint.Fence, error) {
	head, fence, err := store.Head(ctx, log)
	if errors.Is(err, checkpoint.ErrNotFound) {
		return nil, fence, nil
	}
	return head, fence, failedLoad(log.Thread, err)
}

func failedLoad(thread checkpoint.ThreadID, err error) error {
	if err == nil {
		return nil
	}
	return &CheckpointError{Thread: thread, Op: "load", Err: err}
}

// Tip reads where a log stands: at a record, or at its head if at is empty. The
// tip is nil when the log is empty and at too. The fence is that of the thread
// before it was read.
func Tip(ctx context.Context, store checkpoint.Store, values core.Values, log checkpoint.Log, at checkpoint.ID, keep Keeper) (tip *core.Tip, fence checkpoint.Fence, err error) {
	err = Settled(ctx, store, log, func() (err error) {
		tip, fence, err = readTip(ctx, store, values, log, at, keep)
		return err
	})
	return tip, fence, err
}

func readTip(ctx context.Context, store checkpoint.Store, values core.Values, log checkpoint.Log, at checkpoint.ID, keep Keeper) (*core.Tip, checkpoint.Fence, error) {
	head, fence, err := store.Head(ctx, log)
	if errors.Is(err, checkpoint.ErrNotFound) && at == "" {
		return nil, fence, nil
	}
	if err != nil {
		return nil, fence, err
	}
	rec := head
	if at != "" && at != head.ID {
		if rec, err = store.Get(ctx, log, at); err != nil {
			return nil, fence, err
		}
	}
	tip, err := standAt(ctx, store, rec, head)
	if err != nil {
		return nil, fence, err
	}
	tip.LogHead, keep.Fence = head.ID, fence
	return tip, fence, readState(ctx, store, values, tip, keep)
}

// standAt reads what is recorded of the tasks of the superstep that is open at a record.
// Head is the log's newest record.
func standAt(ctx context.Context, store checkpoint.Store, rec, head *checkpoint.Record) (tip *core.Tip, err error) {
	tip = &core.Tip{Record: rec, Epoch: rec}
	if rec.Epoch != rec.ID {
		if tip.Epoch, err = store.Get(ctx, rec.Log, rec.Epoch); err != nil {
			return nil, fmt.Errorf("record %s refers to its epoch: %w", rec.ID, err)
		}
	}
	if len(tip.Epoch.Tasks) == 0 {
		return tip, nil
	}
	if tip.Results, err = store.Results(ctx, rec.Log, rec.Branch, rec.Epoch); err != nil {
		return nil, err
	}
	if rec != head && len(tip.Results) > 0 { // the superstep is still open, or a fork's is
		tip.Results, err = resultsAt(ctx, store, rec, tip.Results)
	}
	if err == nil && head.Branch != rec.Branch && head.Epoch == rec.Epoch {
		err = takeOnce(ctx, store, tip, head)
	}
	return tip, err
}

// takeOnce adds to the results of a tip what sub-steps have come to on the branch of the
// head, which has gone on with the same superstep from elsewhere: what was done for a
// task there isn't done again. Since each branch takes them so from the one before, the
// head's has them all.
func takeOnce(ctx context.Context, store checkpoint.Store, tip *core.Tip, head *checkpoint.Record) error {
	results, err := store.Results(ctx, head.Log, head.Branch, head.Epoch)
	if err != nil {
		return err
	}
	had := len(tip.Results)
	for _, r := range results {
		if r.Kind == checkpoint.KindOnce && !slices.ContainsFunc(tip.Results[:had], func(o checkpoint.Result) bool {
			return o.Kind == r.Kind && o.Task == r.Task && o.Name == r.Name
		}) {
			tip.Results = append(tip.Results, r)
		}
	}
	return nil
}

// resultsAt returns which results of the superstep that is open at a record are such
// that its tasks have left them there, or could have. Left out is what a task came to
// that has asked more since, what it was voided for since, and what it came to on a
// state that was edited since.
func resultsAt(ctx context.Context, store checkpoint.Store, rec *checkpoint.Record, results []checkpoint.Result) ([]checkpoint.Result, error) {
	newer := map[int]bool{}
	var edited []*checkpoint.Record // those that edit the state
	q := checkpoint.Query{Log: rec.Log, Branch: rec.Branch, From: rec.Seq + 1, Meta: true}
	for r, err := range store.Records(ctx, q) {
		if err != nil {
			return nil, err
		}
		if r.Epoch != rec.Epoch {
			break
		}
		for i := range r.Open {
			o, was := &r.Open[i], rec.OpenTask(r.Open[i].Task)
			if was == nil {
				was = new(checkpoint.OpenTask)
			}
			newer[o.Task] = newer[o.Task] || len(o.Questions) > len(was.Questions) || o.Gen > was.Gen
		}
		if len(r.Changes) > 0 {
			edited = append(edited, r)
		}
	}
	return slices.DeleteFunc(slices.Clone(results), func(r checkpoint.Result) bool {
		switch r.Kind {
		case checkpoint.KindOnce, checkpoint.KindNote:
			return false
		case checkpoint.KindOpen:
			var o checkpoint.OpenTask
			if err := json.Unmarshal(r.Data, &o); err != nil || o.After <= rec.Seq {
				return false // what is no OpenTask is told by who takes it in
			}
		}
		return newer[r.Task] || slices.ContainsFunc(edited, func(edit *checkpoint.Record) bool {
			o := edit.OpenTask(r.Task) // what had ended is folded there
			return o == nil || !o.Folded || o.Routing == nil && r.Kind == checkpoint.KindRouting
		})
	}), nil
}

// StateOf returns the state at the record with an ID.
func StateOf(ctx context.Context, store checkpoint.Store, values core.Values, log checkpoint.Log, id checkpoint.ID, keep Keeper) (state any, err error) {
	err = Settled(ctx, store, log, func() error {
		if keep.keeps(0) {
			if _, keep.Fence, err = store.Head(ctx, log); err != nil {
				return err
			}
		}
		rec, err := store.Get(ctx, log, id)
		if err == nil {
			state, err = StateAt(ctx, store, values, rec, keep)
		}
		return err
	})
	return state, err
}

// StateAt returns the state at a record that was just read; see [Settled].
func StateAt(ctx context.Context, store checkpoint.Store, values core.Values, rec *checkpoint.Record, keep Keeper) (any, error) {
	tip := &core.Tip{Record: rec}
	err := readState(ctx, store, values, tip, keep)
	return tip.State, err
}

// spans returns where the records of a line stand, up to rec, oldest first.
func spans(rec *checkpoint.Record) []checkpoint.Span {
	return append(slices.Clone(rec.Lineage), checkpoint.Span{Branch: rec.Branch, To: rec.Seq})
}

// branchAt returns the branch on which a record of a line stands, given its number.
func branchAt(line []checkpoint.Span, seq int64) (checkpoint.Branch, bool) {
	for _, span := range line { // the first that reaches so far
		if seq <= span.To {
			return span.Branch, true
		}
	}
	return "", false
}

// Line yields the records of the line that ends at rec: of a query, its From, To, Desc,
// Meta and Folding hold.
func Line(ctx context.Context, store checkpoint.Store, rec *checkpoint.Record, q checkpoint.Query) iter.Seq2[*checkpoint.Record, error] {
	if len(rec.Lineage) == 0 && q.From <= rec.Seq { // as most are
		return store.Records(ctx, partOf(q, rec.Log, 0, checkpoint.Span{Branch: rec.Branch, To: rec.Seq}))
	}
	return func(yield func(*checkpoint.Record, error) bool) {
		var parts []checkpoint.Query
		before := int64(0)
		for _, span := range spans(rec) {
			if p := partOf(q, rec.Log, before, span); p.From <= p.To {
				parts = append(parts, p)
			}
			before = span.To
		}
		if q.Desc {
			slices.Reverse(parts)
		}
		for _, p := range parts {
			for r, err := range store.Records(ctx, p) {
				if !yield(r, err) || err != nil {
					return
				}
			}
		}
	}
}

// partOf returns what a query of a line selects of one of its spans, after a number.
func partOf(q checkpoint.Query, log checkpoint.Log, before int64, span checkpoint.Span) checkpoint.Query {
	q.Log, q.Branch, q.From = log, span.Branch, max(q.From, before+1)
	if q.To == 0 || q.To > span.To {
		q.To = span.To
	}
	return q
}

// lines are the records of a log by their IDs. A line is walked back from one to its
// parent, which pruning has set to the newest record before it that is left.
type lines map[checkpoint.ID]*checkpoint.Record

func linesOf(records []*checkpoint.Record) lines {
	l := make(lines, len(records))
	for _, r := range records {
		l[r.ID] = r
	}
	return l
}

// back yields a record and those before it on its line, newest first.
func (l lines) back(r *checkpoint.Record) iter.Seq[*checkpoint.Record] {
	return func(yield func(*checkpoint.Record) bool) {
		for ; r != nil && yield(r); r = l[r.Parent] {
		}
	}
}

// before returns the record right before r on its line, nil if there is none or it was
// pruned.
func (l lines) before(r *checkpoint.Record) *checkpoint.Record {
	if p := l[r.Parent]; p != nil && p.Seq+1 == r.Seq {
		return p
	}
	return nil
}

// readState folds the state at tip.Record: from what is kept of its line, or from the
// nearest snapshot and the records that its ranges name, on with the records since.
func readState(ctx context.Context, store checkpoint.Store, values core.Values, tip *core.Tip, keep Keeper) error {
	known := keep.get(tip.Record)
	since, ok, err := known.since(ctx, store, tip.Record)
	if err != nil {
		return err
	}
	if ok {
		tip.Weight = known.Weight.Clone()
		tip.State, err = copied(values, known.state)
		err = unreadable(err)
	} else {
		tip.State, since, err = readSnapshot(ctx, store, values, tip.Record, &tip.Weight)
	}
	if err == nil {
		tip.State, err = foldRecords(values, tip.State, since, &tip.Weight)
		err = unreadable(err)
	}
	if err != nil || !keep.keeps(0) || ok && len(since) == 0 {
		return err
	}
	tip.State, err = keep.put(values, tip)
	return err
}

// UnreadableError says that a program can't make its state of what the store has: another
// may.
type UnreadableError struct{ Err error }

func (e *UnreadableError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UnreadableError) Unwrap() error { return e.Err }

func unreadable(err error) error {
	if err != nil {
		err = &UnreadableError{err}
	}
	return err
}

// onMost is how many records are read to go on from what is kept: if there are more, a
// snapshot says it sooner.
const onMost = 1000

// toSnapshot reads a line back from a record to the nearest snapshot. It returns the
// record that has it, nil if the line has none, and those after it, oldest first.
func toSnapshot(ctx context.Context, store checkpoint.Store, rec *checkpoint.Record) (snap *checkpoint.Record, tail []*checkpoint.Record, err error) {
	want, parent := rec.Seq, rec.ID
	take := func(r *checkpoint.Record) (more bool, err error) {
		if r.Seq != want {
			return false, fmt.Errorf("record %d of the line of %s is missing: %w", want, rec.ID, checkpoint.ErrCorrupt)
		}
		if r.ID != parent { // of another thread of this name
			return false, fmt.Errorf("record %d of the line of %s is %s, not %s: %w", want, rec.ID, r.ID, parent, checkpoint.ErrCorrupt)
		}
		want--
		if parent = r.Parent; r.Snapshot != nil {
			snap = r
			return false, nil
		}
		tail = append(tail, r)
		return want > 0, nil
	}
	more, err := take(rec)
	if more {
		for r, rerr := range Line(ctx, store, rec, checkpoint.Query{Desc: true}) {
			if rerr != nil {
				return nil, nil, rerr
			}
			if r.Seq == rec.Seq { // it was taken
				continue
			}
			if more, err = take(r); !more {
				break
			}
		}
	}
	if err == nil && snap == nil && want > 0 {
		err = fmt.Errorf("the first %d records of the line of %s are missing: %w", want, rec.ID, checkpoint.ErrCorrupt)
	}
	slices.Reverse(tail)
	return snap, tail, err
}

// since returns the records after n up to one, oldest first; not ok if that isn't on the
// line of n, in a log that was not cut since, or n is nil, or there are too many.
func (n *stood) since(ctx context.Context, store checkpoint.Store, rec *checkpoint.Record) (records []*checkpoint.Record, ok bool, err error) {
	if n == nil || rec.Seq-n.seq > onMost {
		return nil, false, nil
	}
	last := n.id
	if n.seq < rec.Seq {
		for r, err := range Line(ctx, store, rec, checkpoint.Query{From: n.seq + 1}) {
			if err != nil {
				return nil, false, err
			}
			if records = append(records, r); r.Parent != last || r.Seq != n.seq+int64(len(records)) {
				return nil, false, nil
			}
			last = r.ID
		}
	}
	return records, last == rec.ID, nil
}

// weigh adds to what a state was read from a record with its changes.
func weigh(values core.Values, w *core.Weight, r *checkpoint.Record, changes []core.Changes) {
	w.Add(r)
	for _, c := range changes {
		w.Ranges = core.Grow(w.Ranges, values.Growth(c), r.Seq)
	}
	if r.Snapshot != nil {
		read := w.Range + w.Bytes
		if *w = core.WeightOf(r); len(w.Ranges) > 0 {
			w.Range = read
		}
	}
}

// foldRecords returns the state after records that stand one after the other, from that
// before them, and adds to what it is read from, if that isn't nil.
func foldRecords(values core.Values, state any, records []*checkpoint.Record, weight *core.Weight) (any, error) {
	for records := range slices.Chunk(records, foldedAtOnce) {
		all, err := core.RecordedAll(values, records)
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			changes := all[:len(r.Changes)]
			all = all[len(changes):]
			if state, err = foldRecord(values, state, r, changes); err != nil {
				return nil, err
			}
			if weight != nil {
				weigh(values, weight, r, changes)
			}
		}
	}
	return state, nil
}

// foldedAtOnce are records that are decoded before they are folded.
const foldedAtOnce = 64

// foldRecord returns the state after a record, from that before it.
func foldRecord(values core.Values, state any, r *checkpoint.Record, changes []core.Changes) (_ any, err error) {
	for i := range changes {
		if r.Begins() && i == len(changes)-1 { // what was open is given up
			state = values.Ahead(state)
		}
		if changes[i] == nil {
			continue
		}
		when := core.Given
		if r.Changes[i].Node != "" {
			when = core.Written
		}
		if state, _, err = values.Fold(state, changes[i:i+1], when); err != nil {
			return nil, err
		}
	}
	if r.Source != checkpoint.SourceLoop {
		if r.Begins() && len(changes) == 0 {
			state = values.Ahead(state)
		}
		return state, nil
	}
	state, _, err = values.Fold(state, nil, core.Committed)
	return state, err
}

// readSnapshot returns the state at the snapshot that is nearest to a record, what it was
// read from, and the records after it.
func readSnapshot(ctx context.Context, store checkpoint.Store, values core.Values, rec *checkpoint.Record, w *core.Weight) (state any, since []*checkpoint.Record, err error) {
	snap, since, err := toSnapshot(ctx, store, rec)
	if err != nil || snap == nil {
		return values.New(), since, err
	}
	*w = core.WeightOf(snap)
	data, err := core.Upgrade(values, snap.Version, snap.Snapshot.Values)
	if err == nil {
		state, err = values.Restore(nil, data)
	}
	if err != nil {
		return nil, nil, unreadable(err)
	}
	if len(w.Ranges) > 0 {
		state, w.Range, err = readRanges(ctx, store, values, snap, state)
	}
	return state, since, err
}

// readRanges folds growing fields onto a state: the changes of the records that the
// ranges of a snapshot name. It returns their size, too.
func readRanges(ctx context.Context, store checkpoint.Store, values core.Values, snap *checkpoint.Record, state any) (_ any, size int, err error) {
	ranges := snap.Snapshot.Ranges
	names := slices.Sorted(maps.Keys(ranges))
	var all [][2]int64
	for _, f := range names {
		all = append(all, ranges[f]...)
	}
	only := make([]string, 0, len(names))
	for _, iv := range union(all) {
		records := Line(ctx, store, snap, checkpoint.Query{From: iv[0], To: iv[1], Folding: true})
		if iv[1]-iv[0]+1 >= aheadFrom {
			records = readAhead(records)
		}
		want := iv[0]
		for r, err := range records {
			if err != nil {
				return nil, 0, err
			}
			if r.Seq != want {
				break
			}
			want++
			only = only[:0]
			for _, f := range names {
				if contains(ranges[f], r.Seq) {
					only = append(only, f)
				}
			}
			for _, c := range r.Changes {
				if len(c.Data) == 0 {
					continue
				}
				size += len(c.Data)
				changes, err := decodeOnly(values, r.Version, c.Data, only)
				if err == nil && changes != nil {
					state, _, err = values.Fold(state, []any{changes}, core.Written)
				}
				if err != nil {
					return nil, 0, unreadable(err)
				}
			}
		}
		if want != iv[1]+1 {
			return nil, 0, fmt.Errorf("record %d that the snapshot of %s refers to is missing: %w", want, snap.ID, checkpoint.ErrCorrupt)
		}
	}
	return state, size, nil
}

// decodeOnly decodes some fields of changes. Their names are those of the time
// when the snapshot was written, or the changes.
func decodeOnly(values core.Values, version int, data json.RawMessage, only []string) (any, error) {
	if values.Current(version) {
		return values.Decode(data, only)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	maps.DeleteFunc(fields, func(name string, _ json.RawMessage) bool { return !slices.Contains(only, name) })
	data, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	if data, err = core.Upgrade(values, version, data); err != nil {
		return nil, err
	}
	return values.Decode(data, nil)
}

func contains(ranges [][2]int64, seq int64) bool {
	i, _ := slices.BinarySearchFunc(ranges, seq, func(r [2]int64, seq int64) int { return cmp.Compare(r[1], seq) })
	return i < len(ranges) && ranges[i][0] <= seq
}

// union merges intervals.
func union(ivs [][2]int64) [][2]int64 {
	slices.SortFunc(ivs, func(a, b [2]int64) int { return int(a[0] - b[0]) })
	var out [][2]int64
	for _, iv := range ivs {
		if n := len(out); n > 0 && iv[0] <= out[n-1][1]+1 {
			out[n-1][1] = max(out[n-1][1], iv[1])
			continue
		}
		out = append(out, iv)
	}
	return out
}
