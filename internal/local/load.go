package local

import (
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
		before, ferr := fenceOf(ctx, store, log)
		if ferr != nil {
			break
		}
		if err = read(); err == nil {
			break
		}
		if after, ferr := fenceOf(ctx, store, log); ferr != nil || after == before {
			break
		}
	}
	return err
}

func fenceOf(ctx context.Context, store checkpoint.Store, log checkpoint.Log) (checkpoint.Fence, error) {
	_, fence, err := store.Head(ctx, log)
	if errors.Is(err, checkpoint.ErrNotFound) {
		err = nil
	}
	return fence, err
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
// Head is the log's newest record, nil if that of the record's branch is meant and it
// is the record.
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
	if head != nil && rec != head && len(tip.Results) > 0 { // the superstep is still open, or a fork's is
		tip.Results, err = resultsAt(ctx, store, rec, tip.Results)
	}
	if err == nil && head != nil && head.Branch != rec.Branch && head.Epoch == rec.Epoch {
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

// Line yields the records of the line that ends at rec, newest first.
func Line(ctx context.Context, store checkpoint.Store, rec *checkpoint.Record, meta bool) func(yield func(*checkpoint.Record, error) bool) {
	return func(yield func(*checkpoint.Record, error) bool) {
		line := spans(rec)
		for i := len(line) - 1; i >= 0; i-- {
			from := int64(1)
			if i > 0 {
				from = line[i-1].To + 1
			}
			q := checkpoint.Query{Log: rec.Log, Branch: line[i].Branch, From: from, To: line[i].To, Desc: true, Meta: meta}
			for r, err := range store.Records(ctx, q) {
				if !yield(r, err) || err != nil {
					return
				}
			}
		}
	}
}

// LineFrom is Line with the oldest record first, from a number on.
func LineFrom(ctx context.Context, store checkpoint.Store, rec *checkpoint.Record, from int64, meta bool) func(yield func(*checkpoint.Record, error) bool) {
	return func(yield func(*checkpoint.Record, error) bool) {
		from := from
		for _, span := range spans(rec) {
			if from > span.To {
				continue
			}
			q := checkpoint.Query{Log: rec.Log, Branch: span.Branch, From: from, To: span.To, Meta: meta}
			from = span.To + 1
			for r, err := range store.Records(ctx, q) {
				if !yield(r, err) || err != nil {
					return
				}
			}
		}
	}
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
	if known := keep.get(tip.Record); known != nil && tip.Record.Seq-known.seq <= onMost {
		if ok, err := goOn(ctx, store, values, tip, known, keep); ok || err != nil {
			return err
		}
	}
	snap, tail, err := toSnapshot(ctx, store, tip.Record)
	if err != nil {
		return err
	}
	if snap == nil {
		tip.State = values.New()
	} else {
		tip.Snap, tip.Full, tip.Ranges = snapSize(snap), snap.Snapshot.Full, cloneRanges(snap.Snapshot.Ranges)
		if tip.State, tip.Range, err = readSnapshot(ctx, store, values, snap); err != nil {
			return err
		}
	}
	tip.State, err = foldRecords(values, tip.State, tail, func(r *checkpoint.Record, changes []core.Changes) {
		tip.Bytes += changesSize(r)
		tip.Since++
		tip.Ranges = grown(values, tip.Ranges, r, changes)
	})
	if err != nil || !keep.keeps(0) {
		return err
	}
	tip.State, err = keep.put(values, tip)
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
		for r, rerr := range Line(ctx, store, rec, false) {
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

// goOn folds the state at tip.Record from what is kept of its line, in a log that was not
// cut since: what was recorded before is not read. It reports whether what is kept
// is of that line.
func goOn(ctx context.Context, store checkpoint.Store, values core.Values, tip *core.Tip, known *stood, keep Keeper) (bool, error) {
	state, err := copied(values, known.tip.State)
	if err != nil {
		return false, err
	}
	on := core.Tip{
		Record: tip.Record, Epoch: tip.Epoch, LogHead: tip.LogHead, Results: tip.Results, State: state,
		Bytes: known.tip.Bytes, Since: known.tip.Since, Snap: known.tip.Snap, Full: known.tip.Full, Range: known.tip.Range, Ranges: cloneRanges(known.tip.Ranges),
	}
	last, seq, size := known.id, known.seq, known.tip.Range+known.tip.Bytes
	var since []*checkpoint.Record
	if seq < tip.Record.Seq {
		for r, err := range LineFrom(ctx, store, tip.Record, seq+1, false) {
			if err != nil {
				return false, err
			}
			if r.Parent != last || r.Seq != seq+1 {
				return false, nil
			}
			last, seq = r.ID, r.Seq
			since = append(since, r)
		}
	}
	on.State, err = foldRecords(values, on.State, since, func(r *checkpoint.Record, changes []core.Changes) {
		size += changesSize(r)
		s := r.Snapshot
		if s == nil {
			on.Bytes += changesSize(r)
			on.Since++
			on.Ranges = grown(values, on.Ranges, r, changes)
			return
		}
		on.Snap, on.Full, on.Bytes, on.Since, on.Range, on.Ranges = snapSize(r), s.Full, 0, 0, 0, cloneRanges(s.Ranges)
		if len(on.Ranges) > 0 {
			on.Range = size
		}
	})
	if err != nil {
		return false, err
	}
	if last != tip.Record.ID {
		return false, nil
	}
	*tip = on
	if last != known.id {
		tip.State, err = keep.put(values, tip)
	}
	return true, err
}

// snapSize returns the size of a record's snapshot.
func snapSize(r *checkpoint.Record) int {
	size := len(r.Snapshot.Values)
	for f, rs := range r.Snapshot.Ranges {
		size += len(f) + 12*len(rs)
	}
	return size
}

// changesSize returns the size of a record's changes.
func changesSize(r *checkpoint.Record) (size int) {
	for i := range r.Changes {
		size += len(r.Changes[i].Data)
	}
	return size
}

// grown notes in ranges which growing fields a record's changes touch.
func grown(values core.Values, ranges map[string][][2]int64, r *checkpoint.Record, changes []core.Changes) map[string][][2]int64 {
	for _, c := range changes {
		ranges = core.Grow(ranges, values.Growth(c), r.Seq)
	}
	return ranges
}

// foldRecords returns the state after records that stand one after the other, from that
// before them. Folded, if there is one, is called after each with its changes, decoded:
// without what a later one replaces.
func foldRecords(values core.Values, state any, records []*checkpoint.Record, folded func(*checkpoint.Record, []core.Changes)) (any, error) {
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
			if folded != nil {
				folded(r, changes)
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

// readSnapshot returns the state at a record with a snapshot, and the size of the
// changes that the snapshot refers to.
func readSnapshot(ctx context.Context, store checkpoint.Store, values core.Values, snap *checkpoint.Record) (state any, size int, err error) {
	data, err := core.Upgrade(values, snap.Version, snap.Snapshot.Values)
	if err != nil {
		return nil, 0, err
	}
	if state, err = values.Restore(nil, data); err != nil {
		return nil, 0, err
	}
	return readRanges(ctx, store, values, snap, state, snap.Snapshot.Ranges)
}

// readRanges folds growing fields onto a state: the changes of the records that
// ranges name, on the line of snap.
func readRanges(ctx context.Context, store checkpoint.Store, values core.Values, snap *checkpoint.Record, state any, ranges map[string][][2]int64) (_ any, size int, err error) {
	if len(ranges) == 0 {
		return state, 0, nil
	}
	names := slices.Sorted(maps.Keys(ranges))
	var all [][2]int64
	for _, f := range names {
		all = append(all, ranges[f]...)
	}
	line := spans(snap)
	only := make([]string, 0, len(names))
	for _, iv := range union(all) {
		for i, span := range line {
			from, to := iv[0], min(iv[1], span.To)
			if i > 0 {
				from = max(from, line[i-1].To+1)
			}
			if from > to {
				continue
			}
			records := store.Records(ctx, checkpoint.Query{Log: snap.Log, Branch: span.Branch, From: from, To: to, Folding: true})
			if to-from+1 >= aheadFrom {
				records = readAhead(records)
			}
			want := from
			for r, err := range records {
				if err != nil {
					return nil, 0, err
				}
				if r.Seq != want {
					return nil, 0, fmt.Errorf("record %d that the snapshot of %s refers to is missing: %w", want, snap.ID, checkpoint.ErrCorrupt)
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
					if err != nil {
						return nil, 0, err
					}
					if changes == nil {
						continue
					}
					if state, _, err = values.Fold(state, []any{changes}, core.Written); err != nil {
						return nil, 0, err
					}
				}
			}
			if want != to+1 {
				return nil, 0, fmt.Errorf("record %d that the snapshot of %s refers to is missing: %w", want, snap.ID, checkpoint.ErrCorrupt)
			}
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
	_, ok := slices.BinarySearchFunc(ranges, seq, func(r [2]int64, s int64) int {
		switch {
		case r[1] < s:
			return -1
		case r[0] > s:
			return 1
		}
		return 0
	})
	return ok
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
