// Package note keeps what nodes say of their work beside a thread's checkpoints: the request
// that a model was sent, how long something took. Notes are no part of the state, and of no
// effect on a run. A node adds them with [Add], and [List] reads them. Package agent/calls
// stands on it.
package note

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/local"
)

// Note is what a node says of its work, for those who look at the thread later.
type Note struct {
	Kind string          // such as "model_call"; with a kind, notes are looked for
	Data json.RawMessage // any JSON

	// Lists are of any JSON. Of what they have in common with lists of the thread's notes
	// so far, nothing is stored again: a conversation that grows costs what is new of it.
	Lists [][]json.RawMessage
}

// Add adds a note of the node whose context it is. It is stored with what is next
// stored of the run (a result of graph.Once, the node's failure, the record of its superstep),
// so it costs no write of its own, but for new lists that the record of a subgraph's superstep
// refers to, and is as durable as that. It is kept whatever becomes of the node: notes of
// attempts that failed are there as well.
//
// Without a checkpointer nothing is kept. What is not JSON is an error, graph.ErrNotInNode that
// the context is no node's, and graph.ErrLate that the attempt of the node has ended.
func Add(ctx context.Context, n Note) error {
	t, ok := local.FromContext(ctx)
	if !ok {
		return fmt.Errorf("note.Add %w", local.ErrOutside)
	}
	refuse := func(reason string) error {
		return &local.CallError{Call: "note.Add", Node: t.Info().Node, Key: n.Kind, Reason: reason}
	}
	if n.Kind == "" {
		return refuse("it needs a Kind")
	}
	note := local.Note{Kind: n.Kind}
	var err error
	if n.Data != nil {
		if note.Data, err = compact(n.Data); err != nil {
			return refuse("its Data: " + err.Error())
		}
	}
	for i, list := range n.Lists {
		items := make([]json.RawMessage, len(list))
		for k, item := range list {
			if items[k], err = compact(item); err != nil {
				return refuse(fmt.Sprintf("item %d of list %d: %v", k, i, err))
			}
		}
		note.Lists = append(note.Lists, items)
	}
	return t.Note(ctx, note)
}

// compact returns data as encoding/json writes it: items are known again by their bytes,
// however often they were encoded.
func compact(data json.RawMessage) (json.RawMessage, error) {
	var b, escaped bytes.Buffer
	b.Grow(len(data))
	if err := json.Compact(&b, data); err != nil {
		return nil, err
	}
	json.HTMLEscape(&escaped, b.Bytes())
	return escaped.Bytes(), nil
}

// Query selects notes of a thread. The zero value is all.
type Query struct {
	Kind   string // of this kind alone
	ID     string // the one with this ID alone
	Before string // only those made before the one with this ID
	Limit  int    // at most that many; 0: all

	Since time.Time // only those made then or later, to the millisecond: earlier checkpoints aren't read
}

// Entry is a [Note] as it was stored.
type Entry struct {
	ID   string // a UUID of version 7
	Kind string
	Data json.RawMessage

	Node       string
	Namespace  string            // of the log of the graph that the node is in, as of graph.Thread.Inside
	Step       int               // of that log
	Task       int               // plan index in the superstep
	Checkpoint string            // that has it; empty: its superstep is open
	Metadata   map[string]string // of that checkpoint

	lists func(context.Context) ([][]json.RawMessage, error)
}

// At is when it was made, to the millisecond.
func (e *Entry) At() time.Time {
	b, _ := checkpoint.ID(e.ID).Bytes()
	var ms int64
	for _, c := range b[:6] {
		ms = ms<<8 | int64(c)
	}
	return time.UnixMilli(ms).UTC()
}

// Lists reads the note's lists.
func (e *Entry) Lists(ctx context.Context) ([][]json.RawMessage, error) { return e.lists(ctx) }

// List yields what nodes have noted on a thread, the newest first: on all branches of a log,
// which is that with the empty namespace if none is said, in subgraphs as well, also of a superstep that is open.
// They go with the checkpoints that have them when the thread is pruned. An unknown thread
// has none. An error is yielded once, as the last pair.
func List(ctx context.Context, store checkpoint.Store, log checkpoint.Log, q Query) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		var err error
		switch {
		case store == nil:
			err = errors.New("note: List needs a store")
		case log.Thread == "":
			err = checkpoint.ErrNoThread
		case q.Limit < 0:
			err = fmt.Errorf("note: Query.Limit of %d: use 0 for all", q.Limit)
		case q.ID != "" && !checkpoint.ID(q.ID).Valid():
			err = fmt.Errorf("note: Query.ID %q is not the ID of a note: it is a UUID", q.ID)
		case q.Before != "" && !checkpoint.ID(q.Before).Valid():
			err = fmt.Errorf("note: Query.Before %q is not the ID of a note: it is a UUID", q.Before)
		}
		if err != nil {
			yield(Entry{}, err)
			return
		}
		n := 0
		for e, err := range noted(ctx, store, log, q) {
			if err != nil {
				yield(Entry{}, &local.CheckpointError{Thread: log.Thread, Op: "load", Err: err})
				return
			}
			if !q.Since.IsZero() && e.At().Before(q.Since.Truncate(time.Millisecond)) || q.Kind != "" && e.Kind != q.Kind || q.ID != "" && e.ID != q.ID || q.Before != "" && e.ID >= q.Before {
				continue
			}
			if n++; !yield(e, nil) || n == q.Limit || q.ID != "" {
				return
			}
		}
	}
}

// noted yields the notes that may be selected.
func noted(ctx context.Context, store checkpoint.Store, log checkpoint.Log, q Query) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		root := log
		root.Namespace, _, _ = strings.Cut(log.Namespace, "|")
		var mu sync.Mutex
		var parts *local.Parts
		lists := func(refs []string) func(context.Context) ([][]json.RawMessage, error) {
			return func(ctx context.Context) (all [][]json.RawMessage, err error) {
				mu.Lock()
				defer mu.Unlock()
				if parts == nil {
					if parts, err = local.LoadParts(ctx, store, root); err != nil {
						return nil, err
					}
				}
				for _, ref := range refs {
					list, err := parts.List(ref)
					if err != nil {
						return nil, fmt.Errorf("a note's list: %w", err)
					}
					all = append(all, list)
				}
				return all, nil
			}
		}
		seen := map[checkpoint.ID]bool{}
		tell := func(notes []local.Noted, meta map[string]string) bool {
			for _, n := range slices.Backward(notes) {
				if seen[n.ID] || n.Log.Namespace != log.Namespace && !checkpoint.Below(n.Log.Namespace, log.Namespace) {
					continue
				}
				seen[n.ID] = true
				if !yield(Entry{
					ID: string(n.ID), Kind: n.Kind, Data: n.Data, Node: n.Node, Namespace: n.Log.Namespace, Step: n.Step, Task: n.Task,
					Checkpoint: string(n.In), Metadata: meta, lists: lists(n.Lists),
				}, nil) {
					return false
				}
			}
			return true
		}
		records, heads, err := noters(ctx, store, log, root, q)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		var open []local.Noted
		for branch, head := range heads {
			results, err := store.Results(ctx, root, branch, head.Epoch)
			if err == nil {
				var notes []local.Noted
				notes, err = local.OpenNotes(root, results)
				open = append(open, notes...)
			}
			if err != nil {
				yield(Entry{}, err)
				return
			}
		}
		slices.SortFunc(open, func(a, b local.Noted) int { return cmp.Compare(a.ID, b.ID) })
		if !tell(open, nil) {
			return
		}
		for _, r := range records {
			full, err := store.Get(ctx, r.Log, r.ID)
			if errors.Is(err, checkpoint.ErrNotFound) { // it was pruned meanwhile
				continue
			}
			var notes []local.Noted
			if err == nil {
				notes, err = local.NotesOf(full)
			}
			if err != nil {
				yield(Entry{}, err)
				return
			}
			if !tell(notes, full.Metadata) {
				return
			}
		}
	}
}

// noters returns the records that have notes, without their data, the newest first, and the
// newest record of each branch of the root's log. Where one note is looked for, the record
// that has it comes before those written later.
func noters(ctx context.Context, store checkpoint.Store, log, root checkpoint.Log, q Query) (records []*checkpoint.Record, heads map[checkpoint.Branch]*checkpoint.Record, err error) {
	logs, err := local.LogsInside(ctx, store, log)
	if err != nil {
		return nil, nil, err
	}
	if log != root {
		logs = append(logs, root)
	}
	since := q.Since
	if q.ID != "" {
		since = (&Entry{ID: q.ID}).At()
	}
	if !since.IsZero() {
		since = since.Add(-time.Second) // the clock may have been set
	}
	heads = map[checkpoint.Branch]*checkpoint.Record{}
	for _, l := range logs {
		for r, err := range store.Records(ctx, checkpoint.Query{Log: l, AllBranches: true, Desc: true, Meta: true}) {
			if err != nil {
				return nil, nil, err
			}
			if l == root && heads[r.Branch] == nil {
				heads[r.Branch] = r
			}
			if !q.Since.IsZero() && r.CreatedAt.Before(since) { // of what comes now, the head of the thread was the first
				break
			}
			if local.HasNotes(r) && !r.CreatedAt.Before(since) {
				records = append(records, r)
			}
		}
	}
	slices.SortStableFunc(records, func(a, b *checkpoint.Record) int { return b.CreatedAt.Compare(a.CreatedAt) })
	if q.ID != "" {
		slices.Reverse(records)
	}
	return records, heads, nil
}
