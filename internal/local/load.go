package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
func Tip(ctx context.Context, store checkpoint.Store, values core.Values, log checkpoint.Log, at checkpoint.ID, keep Growing) (tip *core.Tip, fence checkpoint.Fence, err error) {
	err = Settled(ctx, store, log, func() (err error) {
		tip, fence, err = readTip(ctx, store, values, log, at, keep)
		return err
	})
	return tip, fence, err
}

func readTip(ctx context.Context, store checkpoint.Store, values core.Values, log checkpoint.Log, at checkpoint.ID, keep Growing) (*core.Tip, checkpoint.Fence, error) {
	head, fence, err := store.Head(ctx, log)
	if errors.Is(err, checkpoint.ErrNotFound) && at == "" {
		return nil, fence, nil
	}
	if err != nil {
		return nil, fence, err
	}
	tip, err := tipAt(ctx, store, values, head, at, keep)
	return tip, fence, err
}

func tipAt(ctx context.Context, store checkpoint.Store, values core.Values, head *checkpoint.Record, at checkpoint.ID, keep Growing) (_ *core.Tip, err error) {
	log := head.Log
	rec := head
	if at != "" && at != head.ID {
		if rec, err = store.Get(ctx, log, at); err != nil {
			return nil, err
		}
	}
	tip, err := standAt(ctx, store, rec, head)
	if err != nil {
		return nil, err
	}
	tip.LogHead = head.ID
	if err := readState(ctx, store, values, tip, keep); err != nil {
		return nil, err
	}
	return tip, nil
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
	return tip, err
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
		case checkpoint.KindOnce:
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
func StateOf(ctx context.Context, store checkpoint.Store, values core.Values, log checkpoint.Log, id checkpoint.ID, keep Growing) (state any, err error) {
	err = Settled(ctx, store, log, func() error {
		rec, err := store.Get(ctx, log, id)
		if err == nil {
			state, err = StateAt(ctx, store, values, rec, keep)
		}
		return err
	})
	return state, err
}

// StateAt returns the state at a record that was just read; see [Settled].
func StateAt(ctx context.Context, store checkpoint.Store, values core.Values, rec *checkpoint.Record, keep Growing) (any, error) {
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

// LineAsc is Line with the oldest record first.
func LineAsc(ctx context.Context, store checkpoint.Store, rec *checkpoint.Record, meta bool) func(yield func(*checkpoint.Record, error) bool) {
	return lineFrom(ctx, store, rec, 1, meta)
}

// lineFrom is LineAsc from a number on.
func lineFrom(ctx context.Context, store checkpoint.Store, rec *checkpoint.Record, from int64, meta bool) func(yield func(*checkpoint.Record, error) bool) {
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

// readState folds the state at tip.Record: the nearest snapshot before it, the
// records its ranges name, and the records since.
func readState(ctx context.Context, store checkpoint.Store, values core.Values, tip *core.Tip, keep Growing) error {
	var tail []*checkpoint.Record // newest first
	var snap *checkpoint.Record
	want, parent := tip.Record.Seq, tip.Record.ID
	take := func(r *checkpoint.Record) (more bool, err error) {
		if r.Seq != want {
			return false, fmt.Errorf("record %d of the line of %s is missing: %w", want, tip.Record.ID, checkpoint.ErrCorrupt)
		}
		if r.ID != parent { // of another thread of this name
			return false, fmt.Errorf("record %d of the line of %s is %s, not %s: %w", want, tip.Record.ID, r.ID, parent, checkpoint.ErrCorrupt)
		}
		want--
		parent = r.Parent
		if r.Snapshot != nil {
			snap = r
			return false, nil
		}
		tail = append(tail, r)
		return true, nil
	}
	more, err := take(tip.Record)
	if more && want > 0 {
		first := true
		for r, rerr := range Line(ctx, store, tip.Record, false) {
			if rerr != nil {
				return rerr
			}
			if first { // tip.Record itself
				first = false
				continue
			}
			if more, err = take(r); !more {
				break
			}
		}
	}
	if err != nil {
		return err
	}
	if snap == nil && want > 0 {
		return fmt.Errorf("the first %d records of the line of %s are missing: %w", want, tip.Record.ID, checkpoint.ErrCorrupt)
	}
	state := values.New()
	if snap != nil {
		if state, tip.Range, err = readSnapshot(ctx, store, values, snap, keep); err != nil {
			return err
		}
		tip.Snap, tip.Full = len(snap.Snapshot.Values), snap.Snapshot.Full
		tip.Ranges = map[string][][2]int64{}
		for f, rs := range snap.Snapshot.Ranges {
			tip.Ranges[f] = slices.Clone(rs)
			tip.Snap += len(f) + 12*len(rs)
		}
	}
	for _, r := range slices.Backward(tail) {
		state, err = foldRecord(values, state, r, func(data json.RawMessage, changes any) error {
			tip.Bytes += len(data)
			_, growth, err := values.Encode(changes)
			tip.Ranges = core.Grow(tip.Ranges, growth, r.Seq)
			return err
		})
		if err != nil {
			return err
		}
	}
	tip.State = state
	return nil
}

// foldRecord returns the state after a record, from that before it. Folded, if there
// is one, is called with each of the record's changes, as it is stored and decoded.
func foldRecord(values core.Values, state any, r *checkpoint.Record, folded func(data json.RawMessage, changes any) error) (any, error) {
	if r.Source == checkpoint.SourceInput && r.Epoch == r.ID { // what was open is given up
		state = values.Ahead(state)
	}
	for _, c := range r.Changes {
		if len(c.Data) == 0 {
			continue
		}
		data, err := core.Upgrade(values, r.Version, c.Data)
		if err != nil {
			return nil, err
		}
		changes, err := values.Decode(data, nil)
		if err != nil {
			return nil, err
		}
		if changes == nil {
			continue
		}
		when := core.Given
		if c.Node != "" {
			when = core.Written
		}
		if state, _, err = values.Fold(state, []any{changes}, when); err != nil {
			return nil, err
		}
		if folded != nil {
			if err := folded(c.Data, changes); err != nil {
				return nil, err
			}
		}
	}
	if r.Source != checkpoint.SourceLoop {
		return state, nil
	}
	state, _, err := values.Fold(state, nil, core.Committed)
	return state, err
}

// readSnapshot returns the state at a record with a snapshot, and the size of the
// changes that the snapshot refers to.
func readSnapshot(ctx context.Context, store checkpoint.Store, values core.Values, snap *checkpoint.Record, keep Growing) (state any, size int, err error) {
	data, err := core.Upgrade(values, snap.Version, snap.Snapshot.Values)
	if err != nil {
		return nil, 0, err
	}
	if !snap.Snapshot.Full && len(snap.Snapshot.Ranges) > 0 && core.Current(values, snap.Version) {
		state, size, err = readGrowing(ctx, store, values, snap, keep)
		if err == nil {
			state, err = values.Restore(state, data)
		}
		if !errors.Is(err, errNotCurrent) {
			return state, size, err
		}
	}
	if wholly(snap) && keep.keeps(len(data)) {
		known, err := keep.known(ctx, store, snap)
		if err != nil {
			return nil, 0, err
		}
		if known == nil {
			if state, err = values.Restore(nil, data); err != nil {
				return nil, 0, err
			}
			known = &grown{full: true, state: state, size: len(data)}
			keep.put(known, snap)
		}
		state, err = values.Restore(known.state, json.RawMessage("{}")) // the state itself is altered
		return state, 0, err
	}
	if state, err = values.Restore(nil, data); err != nil {
		return nil, 0, err
	}
	return readRanges(ctx, store, values, snap, state, snap.Snapshot.Ranges, nil)
}

// errNotCurrent is returned for changes that an older version of the program
// recorded: they may turn into changes to any field.
var errNotCurrent = errors.New("changes are of another version")

// readGrowing returns a state with the growing fields alone that a snapshot refers
// to, going on from what is kept.
func readGrowing(ctx context.Context, store checkpoint.Store, values core.Values, snap *checkpoint.Record, keep Growing) (any, int, error) {
	known, err := keep.known(ctx, store, snap)
	if err != nil {
		return nil, 0, err
	}
	state, size := values.New(), 0
	if known != nil {
		if known.id == snap.ID {
			return known.state, known.size, nil
		}
		if state, err = values.Restore(known.state, json.RawMessage("{}")); err != nil {
			return nil, 0, err
		}
		size = known.size
	}
	current := func(r *checkpoint.Record) error {
		if !core.Current(values, r.Version) {
			return errNotCurrent
		}
		return nil
	}
	state, more, err := readRanges(ctx, store, values, snap, state, known.since(snap.Snapshot.Ranges), current)
	if err != nil {
		return nil, 0, err
	}
	size += more
	keep.put(&grown{ranges: snap.Snapshot.Ranges, state: state, size: size}, snap)
	return state, size, nil
}

// readRanges folds growing fields onto a state: the changes of the records that
// ranges name, on the line of snap.
func readRanges(ctx context.Context, store checkpoint.Store, values core.Values, snap *checkpoint.Record, state any, ranges map[string][][2]int64, check func(*checkpoint.Record) error) (_ any, size int, err error) {
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
				if check != nil {
					if err := check(r); err != nil {
						return nil, 0, err
					}
				}
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
	if core.Current(values, version) {
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
