// Package checkpoint defines how threads are stored: the records of a thread's
// log, the [Store] that every back end implements, and an in-memory store.
//
// A thread is a log of records, one for each committed superstep and for each
// input, question, answer and edit in between. A record holds what changed, and
// now and then a snapshot; the state at a record is the fold of the changes up
// to it. Beside the log stand the results of the tasks of the superstep that is
// open: they are written as tasks finish, do not move the head, and are dropped
// when the record that folds them is appended, in one transaction.
package checkpoint

import (
	"context"
	"errors"
	"iter"
	"time"
)

// Errors of a [Store]. Back ends wrap them with what was asked for.
var (
	// ErrNotFound: no such thread, log or record.
	ErrNotFound = errors.New("checkpoint: not found")

	// ErrConflict: the log's head is not the one the writer expected;
	// somebody else wrote to the thread.
	ErrConflict = errors.New("checkpoint: thread has moved on")

	// ErrFenced: another run has claimed the thread since the writer did.
	ErrFenced = errors.New("checkpoint: thread was taken over by another run")

	// ErrCorrupt: what is stored cannot be read. Back ends wrap it in a
	// *CorruptError that says where.
	ErrCorrupt = errors.New("checkpoint: stored data is damaged")

	// ErrVersion: the store was written by a newer version of this package.
	ErrVersion = errors.New("checkpoint: store has a newer format")

	// ErrNoThread: a thread is needed and its ID is empty.
	ErrNoThread = errors.New("checkpoint: thread_id is required")

	// ErrInvalid: a write that no store can take, such as a record that
	// skips a sequence number. It is the caller's mistake.
	ErrInvalid = errors.New("checkpoint: write is not valid")

	// ErrClosed: the store was closed.
	ErrClosed = errors.New("checkpoint: store is closed")
)

// CorruptError says where damaged data stands. errors.Is(err, ErrCorrupt) holds.
type CorruptError struct {
	Thread ThreadID
	Place  string // file and line, or table and key
	Offset int64  // byte offset in the file; -1 when it has no meaning
	Err    error
}

// Fence is a number that grows each time a run claims a thread. A write that
// carries an older one is refused, so a run that stalled cannot write after
// another took over.
type Fence int64

// Store keeps threads. All methods are safe for concurrent use. A context that
// is done makes them return promptly with its error; a write then either
// happened as a whole or not at all.
type Store interface {
	// Write applies w as a whole or not at all. It returns ErrFenced when
	// w.Fence is not zero and not the thread's, ErrConflict when w has a Record
	// and the log's head is not w.Head, and ErrInvalid when the record cannot
	// stand where it says: its ID exists or its branch does not continue with
	// its sequence number. The first that applies is returned. A write to an
	// unknown thread starts the thread.
	Write(ctx context.Context, w *Write) (Written, error)

	// Head returns the newest record of a log: the one appended last. It
	// returns ErrNotFound when the log is empty.
	Head(ctx context.Context, log Log) (*Record, error)

	// Get returns the record with that ID. It returns ErrNotFound when the
	// log has none.
	Get(ctx context.Context, log Log, id ID) (*Record, error)

	// Records yields the records that q selects. It yields an error at most
	// once, as the last pair. Unknown logs yield nothing.
	Records(ctx context.Context, q Query) iter.Seq2[*Record, error]

	// Results returns what the tasks of an open superstep left, ordered by
	// task, then in the order written; a result that replaced another keeps
	// its place. None is no error.
	Results(ctx context.Context, log Log, branch Branch, epoch ID) ([]Result, error)

	// Delete removes a thread with all its logs and results. Deleting an
	// unknown thread is no error.
	Delete(ctx context.Context, thread ThreadID) error

	// Close releases what the store holds. Later calls return ErrClosed.
	Close() error
}

// Write is one atomic change of a thread.
type Write struct {
	Log Log

	// Claim takes the thread over: its fence grows by one, and the new value
	// is returned. With Claim, Fence is not checked.
	Claim bool
	Fence Fence // of the writer's claim; 0 skips the check

	// Results are put beside the log.
	Results []Result

	// Record, if not nil, is appended: it becomes the log's head if the head
	// is still Head (empty: the log must have no record).
	Record *Record
	Head   ID

	// Drop, if not nil, removes the results of a superstep: those that Record
	// folds. It is done after Results are put, so a result written and
	// dropped by one Write need not be stored at all.
	Drop *Drop
}

// Drop names the results of one superstep.
type Drop struct {
	Branch Branch
	Epoch  ID
}

// Written is what a [Write] did.
type Written struct {
	Fence   Fence // the thread's fence after the write
	Ignored int   // results that were not stored since an earlier one stands
}

// Query selects records of one log.
type Query struct {
	Log Log

	// Branch and the closed interval From..To of sequence numbers select the
	// records; To 0 means to the branch's end. With AllBranches they are
	// ignored, and all records of the log are yielded in the order appended.
	Branch      Branch
	From, To    int64
	AllBranches bool

	Desc  bool // newest first
	Limit int  // 0: all

	// Meta leaves out what may be large: the data of changes, snapshots,
	// payloads and overlays of tasks. Everything else is there, and reading
	// costs memory for one record at a time.
	Meta bool
}

// Lister is implemented by stores that can list threads.
type Lister interface {
	// Threads yields the threads with at least one record in a log with an
	// empty namespace, ordered by the CreatedAt of their head, newest first;
	// equal times by thread ID.
	Threads(ctx context.Context, f ThreadFilter) iter.Seq2[ThreadInfo, error]
}

// ThreadFilter selects threads. The zero value selects all.
type ThreadFilter struct {
	Prefix string // of the thread's ID
	Limit  int    // 0: all
}

// ThreadInfo describes a thread.
type ThreadInfo struct {
	Thread    ThreadID
	Head      *Record   // as with Query.Meta
	CreatedAt time.Time // of the thread's first record
	Records   int64     // in the log with the empty namespace
	Bytes     int64     // stored size of these records, as far as the store knows; 0 if it does not
}

// Copier is implemented by stores that can copy a thread.
type Copier interface {
	// Copy makes thread to a copy of thread from with all its logs, branches
	// and open results. It returns ErrNotFound when from does not exist and
	// ErrConflict when to exists. The copy has not been claimed by anyone.
	Copy(ctx context.Context, from, to ThreadID) error
}
