// Package engine is the log of threads, written once for all back ends: claims, leases
// and fences, heads and branches, results of which the first wins, IDs, lists, what is
// due, rewriting, copying, checksums and commits that several writers share. A [Driver]
// keeps what the engine tells it to, in rows, and knows nothing of what they mean; an
// [Engine] over it is a [checkpoint.Store] with every optional ability.
//
// The tests of a driver are those of the store that it becomes: see
// [github.com/superstep-dev/superstep/checkpoint/checkpointtest].
package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
)

// ErrStale: the thread's header, or the newest row of a log, is not the one that the commit
// is based on, or a side row is there that must not be. The commit has no effect. All other
// errors of a [Driver] are its own, and reach the user as they are.
var ErrStale = errors.New("engine: the thread has changed")

// Undone returns err as an error of Commit of which it is certain that none of the commits
// has happened. The engine then tries them one by one, so that each gets its own answer.
func Undone(err error) error { return undone{err} }

type undone struct{ error }

func (e undone) Unwrap() error { return e.error }

// Agreed reports whether an error is one that the contract of a [checkpoint.Store] names: it
// says enough as it is.
func Agreed(err error) bool {
	for _, e := range []error{
		checkpoint.ErrNotFound, checkpoint.ErrConflict, checkpoint.ErrFenced, checkpoint.ErrBusy, checkpoint.ErrInvalid,
		checkpoint.ErrNoThread, checkpoint.ErrClosed, checkpoint.ErrVersion, checkpoint.ErrCorrupt,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Driver keeps the rows of threads. All methods are safe for concurrent use. A context
// that is done makes them return promptly with its error.
//
// Of each thread there is a header; rows of its logs, which are found by log and place;
// and side rows, found by key. Rows of different threads have nothing to do with one
// another. All texts and keys may hold any bytes.
type Driver interface {
	// Load returns a thread's header and the newest row of one of its logs, read at one
	// moment.
	Load(ctx context.Context, log checkpoint.Log) (Loaded, error)

	// Commit applies commits, each as a whole or not at all: it sets Err and Ignored of
	// each. They may be of different threads, and may share a transaction. An error that
	// it returns is that of all of them; see [Undone].
	Commit(ctx context.Context, batch []*Commit) error

	// Rows returns a page of a log's rows, and whether there are no more. It returns at
	// least one if there is one. With the error of a row that can't be read come those
	// before it.
	Rows(ctx context.Context, q RowQuery) (page []Row, last bool, err error)

	// Side returns the side rows of a thread that q selects, by key.
	Side(ctx context.Context, thread checkpoint.ThreadID, q SideQuery) ([]SideRow, error)

	// Logs returns the newest row of each log of a thread that has rows, by namespace,
	// without Data.
	Logs(ctx context.Context, thread checkpoint.ThreadID) ([]Row, error)

	// List returns the threads that q selects, in any order, and the minute below which
	// it goes on; ok is false where there are no more. With an error of threads that
	// can't be read come the others.
	List(ctx context.Context, q ListQuery) (page []Listed, below int64, ok bool, err error)

	// Waiting returns a page of the threads that wait for a run. With an error of threads
	// that can't be read come the others.
	Waiting(ctx context.Context, q WaitQuery) ([]Waiter, error)

	// Names returns the IDs of threads above one, in order, at most so many.
	Names(ctx context.Context, above checkpoint.ThreadID, most int) ([]checkpoint.ThreadID, error)

	// Delete removes a thread with all that there is of it. An unknown one is no error.
	Delete(ctx context.Context, thread checkpoint.ThreadID) error

	// Close releases what the driver holds.
	Close() error
}

// Checker is implemented by drivers that can look for damage beyond what rows say: of
// the whole store, or of a thread. Found is told of each finding.
type Checker interface {
	Check(ctx context.Context, thread checkpoint.ThreadID, found func(*checkpoint.CorruptError)) error
}

// Header is what is kept of a thread beside its rows. It is replaced as a whole.
type Header struct {
	Version int64 // another one each time that it is replaced, never used again for a thread; 0: there is no thread
	Fence   checkpoint.Fence
	Lease   checkpoint.Lease // zero: none
	Woken   time.Time        // zero: never
	HeadDue time.Time        // of the newest record of the log with the empty namespace

	// Listed says that this log has records. Minute is then that of its newest one,
	// since 1970, and Labels are those of its metadata.
	Listed bool
	Minute int64
	Labels []string
}

// Due returns when the thread is due, zero for never.
func (h *Header) Due() time.Time {
	if h.Woken.IsZero() || !h.HeadDue.IsZero() && h.HeadDue.Before(h.Woken) {
		return h.HeadDue
	}
	return h.Woken
}

// Row is a row of a log: a record.
type Row struct {
	Namespace string // of the log
	Place     int64  // in the order appended, from 1; removed rows leave gaps

	ID     checkpoint.ID
	Branch checkpoint.Branch
	Seq    int64
	At     int64 // CreatedAt, in nanoseconds since 1970
	Count  int64 // of the log's rows up to this one, when it was the newest
	Bytes  int64 // of their Meta and Data

	// Top is the highest ID of the log's rows up to this one. A row is in order if it is its
	// own: then its ID leads to it, as the rows' Top only grows. One that is no UUID, or not
	// higher than all before, is out of order; a side row says where it stands.
	Top checkpoint.ID

	Sum        uint64 // checksums of the thread's ID and all of this: see sums
	Meta, Data []byte // see [checkpoint.MarshalBody]
}

// SideRow is a side row of a thread.
type SideRow struct {
	Key   []byte
	Value []byte

	// Order grows with each new key of the thread, and stays when a row is replaced.
	Order int64
}

// Loaded is what Load returns.
type Loaded struct {
	Header Header
	Newest *Row      // nil: the log has none
	Now    time.Time // by the store's clock

	// Ref is the driver's own, and comes with commits that are based on what was loaded.
	// It may have become wrong: the header's version is compared first of all.
	Ref any
}

// Commit is a change of one thread.
type Commit struct {
	Thread checkpoint.ThreadID

	// Version must be that of the thread's header; 0: there must be no such thread.
	Version int64

	// Header, if not nil, replaces the thread's.
	Header *Header

	// Absent are beginnings of keys: the thread must have no side row with such a key.
	Absent [][]byte

	// Append are rows to be added. Each has the place after the newest of its log, or after
	// the one before it here; that place must be free.
	Append []Row

	// Replace are rows that stand for those in their places. Remove are places of rows that
	// go. All are of one log, whose newest row must be at Newest, if that isn't 0.
	Replace []Row
	Remove  []Places
	Newest  int64

	// What is to be done with side rows, in this order: Delete removes those with these
	// keys, Put adds rows or replaces them, Clear removes all whose keys have one of these
	// beginnings.
	Delete [][]byte
	Put    []Put
	Clear  [][]byte

	Ref any // of what was loaded, if anything was: see Loaded

	Ignored int   // rows of Put that were not, since one is there that may not be replaced
	Err     error // ErrStale, or what went wrong with this one alone
}

// Changed returns the namespace of the log whose rows are replaced and removed.
func (c *Commit) Changed() string {
	if len(c.Remove) > 0 {
		return c.Remove[0].Namespace
	}
	return c.Replace[0].Namespace
}

// Put is a side row to be added.
type Put struct {
	Key, Value []byte

	// Replace has it replace the row with its key, if there is one. Else that row stays.
	Replace bool
}

// Places are rows of a log: those from one place to another.
type Places struct {
	Namespace string
	From, To  int64
}

// RowQuery selects rows of a log.
type RowQuery struct {
	Log      checkpoint.Log
	From, To int64 // places, both included
	Desc     bool  // the highest place first
	Meta     bool  // without Data

	// A page ends with the row with which it has so many rows or so many bytes.
	Rows, Bytes int
}

// SideQuery selects side rows: those with keys of at least From and below Below (nil:
// no end), the highest first if Desc is set; at most Limit, if it isn't 0.
type SideQuery struct {
	From, Below []byte
	Desc        bool
	Limit       int
}

// Range returns where the keys begin that the query selects, and where they end: neither is
// nil. None begins with ten bytes 255, as a kind is none.
func (q *SideQuery) Range() (from, below []byte) {
	from, below = q.From, q.Below
	if from == nil {
		from = []byte{}
	}
	if below == nil {
		below = bytes.Repeat([]byte{255}, 10)
	}
	return from, below
}

// ListQuery selects threads that are listed: with a prefix all that have it, else those
// of the highest minutes below one, of whole minutes and as many minutes as it takes to
// have Want threads. Labels are what threads must have, all of them.
type ListQuery struct {
	Prefix string
	Below  int64
	Labels []string
	Want   int
}

// Takes reports whether a thread is one that the query selects, by its header: for drivers
// that look at all.
func (q *ListQuery) Takes(id checkpoint.ThreadID, h *Header) bool {
	return h.Listed && strings.HasPrefix(string(id), q.Prefix) && (q.Prefix != "" || h.Minute < q.Below) &&
		!slices.ContainsFunc(q.Labels, func(l string) bool { return !slices.Contains(h.Labels, l) })
}

// Listed is a thread that is listed. Head is the newest row of its log with the empty
// namespace, without Data; First is At of its oldest.
type Listed struct {
	Thread checkpoint.ThreadID
	Header Header
	Head   Row
	First  int64
}

// WaitQuery selects threads that are due until a time, ordered by when, or those that
// have a lease, ordered by its end; equal times by ID. It goes on after a time and a
// thread; a zero time is before all.
type WaitQuery struct {
	Leased bool
	Until  time.Time // zero: any
	After  time.Time
	Thread checkpoint.ThreadID
	Limit  int // a page with fewer is the last
}

func (q *WaitQuery) at(h *Header) time.Time {
	if q.Leased {
		return h.Lease.Until
	}
	return h.Due()
}

// Takes reports whether a thread is one that the query selects, by its header: for drivers
// that look at all. Compare orders them.
func (q *WaitQuery) Takes(id checkpoint.ThreadID, h *Header) bool {
	at := q.at(h)
	return !at.IsZero() && (q.Until.IsZero() || !at.After(q.Until)) && cmp.Or(at.Compare(q.After), cmp.Compare(id, q.Thread)) > 0
}

// Compare orders what the query selects.
func (q *WaitQuery) Compare(a, b Waiter) int {
	return cmp.Or(q.at(&a.Header).Compare(q.at(&b.Header)), cmp.Compare(a.Thread, b.Thread))
}

// Waiter is a thread that WaitQuery selects. Now is the store's time.
type Waiter struct {
	Thread checkpoint.ThreadID
	Header Header
	Now    time.Time
}
