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
	"cmp"
	"context"
	"errors"
	"iter"
	"strings"
	"time"
)

// Errors of a [Store]. Back ends wrap them with what was asked for.
var (
	// ErrNotFound: no such thread, log or record.
	ErrNotFound = errors.New("checkpoint: not found")

	// ErrConflict: the log's head is not the one the writer expected;
	// somebody else wrote to the thread.
	ErrConflict = errors.New("checkpoint: thread has moved on")

	// ErrFenced: since the writer claimed the thread, or read what its claim is
	// based on, another run has claimed it, or it was rewritten or deleted. Back
	// ends return a *FencedError that says which.
	ErrFenced = errors.New("checkpoint: thread was taken over by another run")

	// ErrBusy: a run holds the thread. A claim that meets another run's lease
	// is refused with a *BusyError that says whose and until when.
	ErrBusy = errors.New("checkpoint: thread is busy")

	// ErrCorrupt: what is stored cannot be read. Back ends wrap it in a
	// *CorruptError that says where.
	ErrCorrupt = errors.New("checkpoint: stored data is damaged")

	// ErrVersion: the store was written in another format, by another version
	// of this package.
	ErrVersion = errors.New("checkpoint: store has another format")

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

// Fence is a number that grows each time a run claims a thread, and each time
// records are removed from it. A write that carries an older one is refused, so a
// run that stalled cannot write after another took over, and none can claim a
// thread on the strength of what it read before records went. A thread that was
// deleted and begins anew goes on above all fences that it had: its first one is
// whatever a store can be sure of.
//
// A claim raises it by one, and what removes records as [Fence.Cut] does: so it tells
// whether records went since another was read, however often the thread was claimed.
type Fence int64

// claims is how many bits of a fence count claims, about. Fences stay below 2^53: there
// are carriers of JSON that keep no greater number.
const claims = 10

// Cut returns the fence after records were removed.
func (f Fence) Cut() Fence { return f + 1<<claims }

// Uncut reports whether surely nobody began to remove records between two reads of a thread
// that returned f and g.
func (f Fence) Uncut(g Fence) bool { return f > 0 && g > 0 && f>>claims == g>>claims }

// FirstFence returns a fence for a thread that has none yet, which is claimed or cut then:
// above those that a deleted thread of its name had, if it was cut less than once a
// millisecond.
func FirstFence(now time.Time) Fence { return Fence(now.UnixMicro()) }

// Unclaimed is the fence that [Store.Head] returns of a thread that has none yet.
const Unclaimed Fence = -1

// Read returns f as [Store.Head] does: [Unclaimed] for 0.
func (f Fence) Read() Fence {
	if f == 0 {
		return Unclaimed
	}
	return f
}

// Store keeps threads. All methods are safe for concurrent use. A context that
// is done makes them return promptly with its error; a write then either
// happened as a whole or not at all.
type Store interface {
	// Write applies w as a whole or not at all. It returns ErrBusy when w
	// claims a thread that another run holds by a lease, ErrFenced when
	// w.Fence is not zero and not the thread's, or w is about the lease of
	// another than w.Holder, ErrConflict when w has a Record
	// and the log's head is not w.Head, and ErrInvalid when the record cannot
	// stand where it says: its ID exists or its branch does not continue with
	// its sequence number. The first that applies is returned. A write to an
	// unknown thread starts the thread.
	//
	// The store may keep what w refers to, its record above all, but not w and its
	// slices: they are the caller's again.
	Write(ctx context.Context, w *Write) (Written, error)

	// Head returns the newest record of a log, the one appended last, and the
	// fence that its thread has at that moment: with it, a claim is refused if what
	// was read from then on may be there no more. It returns ErrNotFound, and the
	// fence, when the log is empty.
	Head(ctx context.Context, log Log) (*Record, Fence, error)

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
	// unknown thread is no error. Nobody is told: a thread that waits for the end
	// of this one learns of it from graph.Thread.Delete alone.
	Delete(ctx context.Context, thread ThreadID) error

	// Close releases what the store holds. Later calls return ErrClosed.
	Close() error
}

// Write is one atomic change of a thread.
type Write struct {
	Log Log

	// Claim takes the thread over: its fence grows by one, unless it is the first,
	// and the new value is returned. A lease that another run holds refuses the
	// claim with a *BusyError, unless it ran out or Steal names its holder; a lease
	// of Holder itself does not. The claim ends whatever lease there was. A claim
	// with Steal is also refused if that holder has no lease any more, run out or
	// not: who steals knows whom it has stopped.
	Claim bool
	Steal string

	// Fence is that of the writer's claim or, with Claim, the one that Head
	// returned when the writer read the thread. 0 skips the check.
	Fence Fence

	// Lease, if positive, holds the thread for Holder from now on for so long,
	// by the store's own clock, in whole milliseconds at least. It needs Claim,
	// or the Fence of an earlier claim: then it renews the lease or begins one,
	// and is refused while another holder has one.
	Lease  time.Duration
	Holder string // says which run holds the lease; any text

	// Release ends the thread's lease: that of Holder, or of anybody if Holder is
	// empty. It needs Claim or Fence. With Lease it is an error.
	Release bool

	// Wake makes the thread due now, see [Scheduler], until it is next claimed.
	// It needs no claim itself; with Claim it is done after it.
	Wake bool

	// Results are put beside the log.
	Results []Result

	// Remove takes single results of Log away, before Results are put. Those
	// that don't exist are no error.
	Remove []ResultKey

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

// ResultKey names one result of a log.
type ResultKey struct {
	Branch Branch
	Epoch  ID
	Task   int
	Gen    int
	Kind   ResultKind
	Name   string
}

// Key returns what r is known by.
func (r *Result) Key() ResultKey {
	return ResultKey{Branch: r.Branch, Epoch: r.Epoch, Task: r.Task, Gen: r.Gen, Kind: r.Kind, Name: r.Name}
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

	// Meta leaves out what may be large: the data of changes and of Once,
	// snapshots, payloads and overlays of tasks. Everything else is there, and reading
	// costs memory for one record at a time.
	Meta bool

	// Folding says that the records are read for what they fold into the state:
	// nothing but their Seq, Source, Version, Sealed and Changes with their data
	// will be looked at, not when their tasks ran. A store may leave out the rest, which takes half of the
	// time of decoding a record. It is of no effect with Meta.
	Folding bool
}

// Lister is implemented by stores that can list threads.
type Lister interface {
	// Threads yields the threads with at least one record in a log with an
	// empty namespace that f selects, ordered by the CreatedAt of their head,
	// newest first; equal times by thread ID.
	Threads(ctx context.Context, f ThreadFilter) iter.Seq2[ThreadInfo, error]

	// Logs yields the logs of a thread that have at least one record, ordered
	// by namespace. An unknown thread has none.
	Logs(ctx context.Context, thread ThreadID) iter.Seq2[LogInfo, error]
}

// ThreadFilter selects threads. The zero value selects all.
type ThreadFilter struct {
	Prefix   string            // of the thread's ID
	Metadata map[string]string // entries that the head's metadata have
	After    ThreadPlace       // those that come after this place
	Limit    int               // 0: all
}

// ThreadPlace is where a thread stands in the order of [Lister.Threads]: with that of
// the last one that was read, [ThreadFilter.After] goes on from there. A thread that
// was written to since stands elsewhere.
type ThreadPlace struct {
	At     time.Time // CreatedAt of the head
	Thread ThreadID  // empty: before all
}

// Place returns where the thread stands.
func (i *ThreadInfo) Place() ThreadPlace { return ThreadPlace{i.Head.CreatedAt, i.Thread} }

// Compare returns a negative number if p comes before q, a positive one if after.
func (p ThreadPlace) Compare(q ThreadPlace) int {
	return cmp.Or(q.At.Compare(p.At), cmp.Compare(p.Thread, q.Thread))
}

// Takes reports whether f selects a thread, for back ends: all of f counts but Limit.
func (f *ThreadFilter) Takes(info *ThreadInfo) bool {
	if !strings.HasPrefix(string(info.Thread), f.Prefix) || f.After.Thread != "" && info.Place().Compare(f.After) <= 0 {
		return false
	}
	for k, v := range f.Metadata {
		if got, ok := info.Head.Metadata[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// ThreadInfo describes a thread.
type ThreadInfo struct {
	Thread    ThreadID
	Head      *Record   // as with Query.Meta
	CreatedAt time.Time // of the oldest record there is
	Records   int64     // in the log with the empty namespace
	Bytes     int64     // stored size of these records, as far as the store knows; 0 if it does not
	Lease     Lease     // zero if no run holds the thread
}

// LogInfo describes one log of a thread.
type LogInfo struct {
	Log     Log
	Head    ID
	Records int64
	Bytes   int64 // as ThreadInfo.Bytes
}

// Lease says which run holds a thread, and until when by the store's clock. It
// has run out when Until is past, and also when Until is further away than TTL:
// the clock was set back.
type Lease struct {
	Holder string
	Until  time.Time
	TTL    time.Duration
}

// Live reports whether somebody holds the lease at a time.
func (l Lease) Live(now time.Time) bool {
	return !l.Until.IsZero() && now.Before(l.Until) && l.Until.Sub(now) <= l.TTL
}

// BusyError says which run holds a thread. errors.Is(err, ErrBusy) holds.
type BusyError struct {
	Thread ThreadID
	Lease  Lease
}

// FencedError says why a run may not write to a thread any more.
// errors.Is(err, ErrFenced) holds.
type FencedError struct {
	Thread     ThreadID
	At, Writer Fence  // of the thread, of the write
	Holder     string // who holds the thread, where both have the same fence
}

// Scheduler is implemented by stores that know which threads wait for a run:
// those that are due, and those whose run died.
type Scheduler interface {
	// Due yields the threads that are due at or before a time, a zero time
	// meaning any, the earliest first. A thread is due at Record.Due of its
	// head (of the log with the empty namespace), or when a [Write] with Wake
	// made it so, whichever is earlier. Threads that a live lease holds are
	// left out. Limit 0 means all.
	Due(ctx context.Context, before time.Time, limit int) iter.Seq2[Waiting, error]

	// Abandoned yields the threads whose lease ran out without being released,
	// in any order. Limit 0 means all.
	Abandoned(ctx context.Context, limit int) iter.Seq2[Waiting, error]
}

// Waiting is a thread that waits for a run.
type Waiting struct {
	Thread ThreadID
	Due    time.Time // when it is due; zero if it is not
	Lease  Lease     // the one that ran out; zero if there is none
}

// Copier is implemented by stores that can copy a thread.
type Copier interface {
	// Copy makes thread to a copy of thread from with all its logs, branches
	// and open results. It returns ErrNotFound when from does not exist and
	// ErrConflict when to exists. The copy has not been claimed by anyone, and
	// is due when from is.
	Copy(ctx context.Context, from, to ThreadID) error
}

// Rewriter is implemented by stores that can shorten the logs of a thread.
type Rewriter interface {
	// Rewrite applies r. What is replaced, and the fence, change as a whole or not at
	// all. What goes may go in pieces, the newest first: whoever reads meanwhile may see
	// older records that have all that they refer to, and one that is cut off leaves
	// them for the next. It returns ErrNotFound when
	// a record of Replace or Remove does not exist, ErrConflict when the log's
	// head is not r.Head, ErrBusy when another holds the thread by a live lease, ErrFenced
	// when r.Fence is not the thread's, and ErrInvalid when what remains cannot
	// stand: see [Rewrite]. When records are removed, the thread's fence grows as
	// [Fence.Cut] says: whoever has claimed or read it before must read it again. What it
	// frees is free for new records at once, if not for other programs.
	Rewrite(ctx context.Context, r *Rewrite) error
}

// Rewrite replaces and removes records of one log. Either all records go, or the
// head stays; so does the newest record of each branch that has records left,
// and the first record of such a branch, other than the log's first branch,
// since the branch is named after it.
type Rewrite struct {
	Log     Log
	Head    ID
	Fence   Fence     // that Head returned with it; 0 skips the check
	Holder  string    // of the lease that may be live
	Replace []*Record // each for the one with the same ID, Branch and Seq
	Remove  []ID
}

// Verifier is implemented by stores that can look for damage.
type Verifier interface {
	// Verify yields what is damaged, of one thread or, when thread is empty, of
	// all: each a *CorruptError. An error that ends the search comes last, as
	// the second value. Nothing is changed.
	Verify(ctx context.Context, thread ThreadID) iter.Seq2[*CorruptError, error]
}
