package checkpoint

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Memory is a [Store] that keeps everything in memory: for tests and for
// programs whose threads end with the process. Threads don't wait for one
// another. The zero value is not usable; call [NewMemory].
type Memory struct {
	Locks
	seed   maphash.Seed
	shards [memShards]memShard
	closed atomic.Bool

	deleted atomic.Int64 // the highest fence of all threads that were deleted
}

const memShards = 64

var (
	_ Store  = (*Memory)(nil)
	_ Lister = (*Memory)(nil)
	_ Copier = (*Memory)(nil)
	_ Locker = (*Memory)(nil)

	_ Scheduler = (*Memory)(nil)
	_ Rewriter  = (*Memory)(nil)
)

type memShard struct {
	mu      sync.RWMutex
	threads map[ThreadID]*memThread
	waiting memWaiting
	_       [56]byte // a cache line of its own
}

// memThread is one thread. Whoever finds it gone looks it up again.
type memThread struct {
	mu    sync.RWMutex
	gone  bool // deleted
	fence Fence
	lease Lease
	woken time.Time // by Write.Wake
	root  *memLog   // the log with the empty namespace
	logs  map[string]*memLog
	noted memNoted
}

type memLog struct {
	records  []*Record            // in the order appended
	ids      map[ID]*Record       // nil while the IDs grow in this order, as they do mostly
	branches map[Branch]memBranch // nil while all records are of one branch
	open     map[Drop]*memResults
	bytes    int64
}

// memBranch are the records of a branch, by sequence number.
type memBranch []*Record

// memResults are the results of one superstep, in the order put. A task has few,
// so they are found through it: a map by all that a result is known by would cost
// more than the results. They stand in pieces, since a fan-out has many, and
// moving them to where there is more room costs more than putting them.
type memResults struct {
	pieces [][]memResult // all but the last are full
	n      int
	last   map[int]int // by task: the number of its last result, counted from 1
}

type memResult struct {
	Result
	before int // the number of its task's result before it; 0: none
}

const memResultPiece = 64

func (e *memResults) at(i int) *memResult { return &e.pieces[i/memResultPiece][i%memResultPiece] }

// find returns the result that r would replace, or nil.
func (e *memResults) find(r *Result) *memResult {
	for n := e.last[r.Task]; n > 0; {
		k := e.at(n - 1)
		if k.Gen == r.Gen && k.Kind == r.Kind && k.Name == r.Name {
			return k
		}
		n = k.before
	}
	return nil
}

func (e *memResults) add(r *Result) {
	switch {
	case e.n == 0:
		e.pieces, e.last = make([][]memResult, 1), make(map[int]int)
	case e.n%memResultPiece == 0:
		e.pieces = append(e.pieces, make([]memResult, 0, memResultPiece))
	}
	p := &e.pieces[len(e.pieces)-1] // the first grows as it is filled: mostly there are few results
	*p = append(*p, memResult{*r, e.last[r.Task]})
	e.n++
	e.last[r.Task] = e.n
}

// list returns the results.
func (e *memResults) list() []Result {
	out := make([]Result, e.n)
	for i := range out {
		out[i] = e.at(i).Result
	}
	return out
}

// memResultsOf returns results that have different keys.
func memResultsOf(list []Result) *memResults {
	e := new(memResults)
	for i := range list {
		e.add(&list[i])
	}
	return e
}

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{seed: maphash.MakeSeed()}
}

func (m *Memory) shard(t ThreadID) *memShard {
	return &m.shards[maphash.String(m.seed, string(t))%memShards]
}

func (m *Memory) start(ctx context.Context, t ThreadID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if m.closed.Load() {
		return ErrClosed
	}
	return Log{Thread: t}.Check()
}

// missing returns err, or why nothing is there any more.
func (m *Memory) missing(err error) error {
	if m.closed.Load() {
		return ErrClosed
	}
	return err
}

// emptyError says that a log has no record, as every log once hasn't: its text is made if
// somebody wants it.
type emptyError Log

func (e emptyError) Error() string {
	return fmt.Sprintf("%v: %v has no checkpoint", ErrNotFound, Log(e))
}

func (e emptyError) Unwrap() error { return ErrNotFound }

// find returns the thread, or nil.
func (m *Memory) find(id ThreadID) *memThread {
	s := m.shard(id)
	s.mu.RLock()
	t := s.threads[id]
	s.mu.RUnlock()
	return t
}

// lock returns the thread locked for writing, making it if need be.
func (m *Memory) lock(id ThreadID) *memThread {
	for {
		t := m.find(id)
		if t == nil {
			s := m.shard(id)
			s.mu.Lock()
			if t = s.threads[id]; t == nil {
				if s.threads == nil {
					s.threads = make(map[ThreadID]*memThread)
				}
				t = new(memThread)
				s.threads[id] = t
			}
			s.mu.Unlock()
		}
		t.mu.Lock()
		if !t.gone {
			return t
		}
		t.mu.Unlock()
	}
}

func (t *memThread) log(ns string) *memLog {
	if ns == "" {
		return t.root
	}
	return t.logs[ns]
}

func (t *memThread) empty() bool {
	return t.root == nil && len(t.logs) == 0 && t.fence == 0 && t.woken.IsZero()
}

// Write implements [Store].
func (m *Memory) Write(ctx context.Context, w *Write) (Written, error) {
	if err := m.start(ctx, w.Log.Thread); err != nil {
		return Written{}, err
	}
	if err := w.Check(); err != nil {
		return Written{}, err
	}
	t := m.lock(w.Log.Thread)
	if m.closed.Load() { // since, and the thread may be gone with the rest
		t.mu.Unlock()
		return Written{}, ErrClosed
	}
	out, err := t.write(w, Fence(m.deleted.Load()))
	if t.empty() {
		m.forget(w.Log.Thread, t)
	}
	m.note(w.Log.Thread, t)
	t.mu.Unlock()
	return out, err
}

// forget removes a thread that is locked.
func (m *Memory) forget(id ThreadID, t *memThread) {
	t.gone = true
	s := m.shard(id)
	s.mu.Lock()
	delete(s.threads, id)
	s.mu.Unlock()
}

// write applies w. The first claim goes on after deleted.
func (t *memThread) write(w *Write, deleted Fence) (Written, error) {
	var now time.Time
	if w.Claim || w.Lease > 0 || w.Release { // else it isn't asked for, and most writes are small
		now = time.Now()
	}
	if err := w.CheckHold(t.fence, t.lease, now); err != nil {
		return Written{}, err
	}
	fence := t.fence
	if w.Claim {
		fence = t.known(deleted) + 1
	}
	l := t.log(w.Log.Namespace)
	fresh := l == nil
	if fresh && (w.Record != nil || len(w.Results) > 0) {
		l = new(memLog)
	}
	if w.Record != nil {
		if err := l.place(w); err != nil {
			return Written{}, err
		}
	}

	// From here on nothing fails.
	t.fence = fence
	t.hold(w)
	out := Written{Fence: fence}
	if l == nil {
		return out, nil
	}
	if fresh {
		if w.Log.Namespace == "" {
			t.root = l
		} else {
			if t.logs == nil {
				t.logs = make(map[string]*memLog)
			}
			t.logs[w.Log.Namespace] = l
		}
	}
	for i := range w.Remove {
		l.remove(&w.Remove[i])
	}
	out.Ignored = l.put(w.Results, w.Drop)
	if w.Drop != nil {
		delete(l.open, *w.Drop)
	}
	if w.Record != nil {
		l.append(w.Record)
	}
	return out, nil
}

// known returns the fence, or one from which that of a new thread goes on after deleted.
func (t *memThread) known(deleted Fence) Fence {
	if t.fence == 0 {
		return deleted.Cut()
	}
	return t.fence
}

// place checks that the record fits.
func (l *memLog) place(w *Write) error {
	head := l.head()
	if err := w.Log.CheckHead(head, w.Head); err != nil {
		return err
	}
	r := w.Record
	if (l.ids != nil || r.ID <= head) && l.get(r.ID) != nil {
		return fmt.Errorf("%w: thread %q has a record %s already", ErrInvalid, w.Log.Thread, r.ID)
	}
	var last int64
	if b := l.branch(r.Branch); len(b) > 0 {
		last = b[len(b)-1].Seq
	}
	return r.CheckPlace(last)
}

// head returns the ID of the newest record, empty if there is none.
func (l *memLog) head() ID {
	if len(l.records) == 0 {
		return ""
	}
	return l.records[len(l.records)-1].ID
}

// branch returns the records of a branch, which must not be appended to.
func (l *memLog) branch(b Branch) memBranch {
	if l.branches != nil {
		return l.branches[b]
	}
	if len(l.records) > 0 && l.records[0].Branch == b {
		return l.records
	}
	return nil
}

// append appends a record whose ID is new.
func (l *memLog) append(r *Record) {
	if l.branches == nil && len(l.records) > 0 && l.records[0].Branch != r.Branch { // the first fork
		l.branches = map[Branch]memBranch{l.records[0].Branch: slices.Clone(l.records)}
	}
	if l.ids == nil && r.ID <= l.head() {
		l.ids = make(map[ID]*Record, len(l.records)+1)
		for _, old := range l.records {
			l.ids[old.ID] = old
		}
	}
	if l.ids != nil {
		l.ids[r.ID] = r
	}
	if l.records == nil {
		l.records = make([]*Record, 0, 8)
	}
	l.records = append(l.records, r)
	if l.branches != nil {
		l.branches[r.Branch] = append(l.branches[r.Branch], r)
	}
	l.bytes += r.size()
}

// get returns the record with an ID, or nil.
func (l *memLog) get(id ID) *Record {
	if l.ids != nil {
		return l.ids[id]
	}
	if head := l.head(); len(head) == idLen && len(id) == idLen { // those of the newest run follow one another
		if i := len(l.records) - 1 - int(head.count()) + int(id.count()); i >= 0 && i < len(l.records) && l.records[i].ID == id {
			return l.records[i]
		}
	}
	i, found := slices.BinarySearchFunc(l.records, id, func(r *Record, id ID) int { return cmp.Compare(r.ID, id) })
	if !found {
		return nil
	}
	return l.records[i]
}

// put stores results and counts those that an earlier one forbids. The results
// of the superstep that is about to be dropped are only counted.
func (l *memLog) put(rs []Result, drop *Drop) (ignored int) {
	var seen memResults
	var of Drop
	var e *memResults
	for i := range rs {
		r := &rs[i]
		if now := (Drop{Branch: r.Branch, Epoch: r.Epoch}); i == 0 || now != of { // mostly they are all of one
			of, e = now, l.open[now]
		}
		if drop != nil && of == *drop {
			known := seen.find(r) != nil || e != nil && e.find(r) != nil
			if known && !r.Replace {
				ignored++
			}
			if !known && i < len(rs)-1 {
				seen.add(r)
			}
			continue
		}
		if e == nil {
			e = new(memResults)
			if l.open == nil {
				l.open = make(map[Drop]*memResults)
			}
			l.open[of] = e
		}
		switch k := e.find(r); {
		case k == nil:
			e.add(r)
		case r.Replace:
			// Readers copy the results under the lock, so writing in place is safe.
			k.Result = *r
		default:
			ignored++
		}
	}
	return ignored
}

// read runs f with the log locked for reading, and returns the thread's fence. f
// gets nil for an unknown log.
func (m *Memory) read(log Log, f func(l *memLog)) Fence {
	t := m.find(log.Thread)
	if t == nil {
		f(nil)
		return 0
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.gone {
		f(nil)
		return 0
	}
	f(t.log(log.Namespace))
	return t.fence
}

// Head implements [Store].
func (m *Memory) Head(ctx context.Context, log Log) (*Record, Fence, error) {
	if err := m.start(ctx, log.Thread); err != nil {
		return nil, 0, err
	}
	var r *Record
	fence := m.read(log, func(l *memLog) {
		if l != nil && len(l.records) > 0 {
			r = l.records[len(l.records)-1]
		}
	})
	if r == nil {
		return nil, fence.Read(), m.missing(emptyError(log))
	}
	return r, fence.Read(), nil
}

// Get implements [Store].
func (m *Memory) Get(ctx context.Context, log Log, id ID) (*Record, error) {
	if err := m.start(ctx, log.Thread); err != nil {
		return nil, err
	}
	var r *Record
	m.read(log, func(l *memLog) {
		if l != nil {
			r = l.get(id)
		}
	})
	if r == nil {
		return nil, m.missing(fmt.Errorf("%w: %v has no checkpoint %s", ErrNotFound, log, id))
	}
	return r, nil
}

// Records implements [Store]. It yields the records that were there when the
// iteration began.
func (m *Memory) Records(ctx context.Context, q Query) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		if err := m.start(ctx, q.Log.Thread); err != nil {
			yield(nil, err)
			return
		}
		var rs []*Record
		m.read(q.Log, func(l *memLog) {
			switch {
			case l == nil:
			case q.AllBranches:
				rs = l.records
			default:
				rs = l.branch(q.Branch).slice(q.From, q.To)
			}
		})
		// The slice is only ever appended to, so it is read without the lock.
		for i := range rs {
			if q.Limit > 0 && i == q.Limit {
				return
			}
			if m.closed.Load() {
				yield(nil, ErrClosed)
				return
			}
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			r := rs[i]
			if q.Desc {
				r = rs[len(rs)-1-i]
			}
			if q.Meta {
				r = r.Meta()
			}
			if !yield(r, nil) {
				return
			}
		}
	}
}

func (b memBranch) slice(from, to int64) []*Record {
	i, _ := b.find(from)
	j := len(b)
	if to != 0 {
		k, found := b.find(to)
		if j = k; found {
			j++
		}
	}
	if i >= j {
		return nil
	}
	return b[i:j]
}

// find returns where the record with a sequence number is or would be. A branch
// that was shortened has gaps.
func (b memBranch) find(seq int64) (at int, found bool) {
	if len(b) == 0 {
		return 0, false
	}
	if i := seq - b[0].Seq; i >= 0 && i < int64(len(b)) && b[i].Seq == seq {
		return int(i), true
	}
	return slices.BinarySearchFunc(b, seq, func(r *Record, n int64) int { return cmp.Compare(r.Seq, n) })
}

// Results implements [Store].
func (m *Memory) Results(ctx context.Context, log Log, branch Branch, epoch ID) ([]Result, error) {
	if err := m.start(ctx, log.Thread); err != nil {
		return nil, err
	}
	var out []Result
	m.read(log, func(l *memLog) {
		if l == nil {
			return
		}
		if e := l.open[Drop{Branch: branch, Epoch: epoch}]; e != nil {
			out = e.list()
		}
	})
	slices.SortStableFunc(out, func(a, b Result) int { return cmp.Compare(a.Task, b.Task) })
	return out, nil
}

// Delete implements [Store].
func (m *Memory) Delete(ctx context.Context, thread ThreadID) error {
	if err := m.start(ctx, thread); err != nil {
		return err
	}
	t := m.find(thread)
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone {
		return nil
	}
	for last := m.deleted.Load(); last < int64(t.fence) && !m.deleted.CompareAndSwap(last, int64(t.fence)); {
		last = m.deleted.Load()
	}
	m.forget(thread, t)
	m.note(thread, t)
	return nil
}

// Threads implements [Lister].
func (m *Memory) Threads(ctx context.Context, f ThreadFilter) iter.Seq2[ThreadInfo, error] {
	return func(yield func(ThreadInfo, error) bool) {
		if err := m.start(ctx, "all"); err != nil {
			yield(ThreadInfo{}, err)
			return
		}
		var infos []ThreadInfo
		var ts []*memThread
		for i := range m.shards {
			s := &m.shards[i]
			ts = ts[:0]
			s.mu.RLock()
			for id, t := range s.threads {
				if strings.HasPrefix(string(id), f.Prefix) {
					ts = append(ts, t)
				}
			}
			s.mu.RUnlock()
			for _, t := range ts {
				t.mu.RLock()
				if l := t.root; !t.gone && l != nil && len(l.records) > 0 {
					head := l.records[len(l.records)-1]
					info := ThreadInfo{
						Thread:    head.Log.Thread,
						Head:      head,
						CreatedAt: l.records[0].CreatedAt,
						Records:   int64(len(l.records)),
						Bytes:     l.bytes,
						Lease:     t.lease.now(),
					}
					if f.Takes(&info) {
						infos = append(infos, info)
					}
				}
				t.mu.RUnlock()
			}
		}
		slices.SortFunc(infos, func(a, b ThreadInfo) int { return a.Place().Compare(b.Place()) })
		each(ctx, infos, f.Limit, func(info ThreadInfo, err error) bool {
			if err == nil {
				info.Head = info.Head.Meta()
			}
			return yield(info, err)
		})
	}
}

// each yields the elements of a list, limit of them at most if that isn't 0.
func each[T any](ctx context.Context, list []T, limit int, yield func(T, error) bool) {
	if limit > 0 {
		list = list[:min(limit, len(list))]
	}
	for _, v := range list {
		if err := ctx.Err(); err != nil {
			var none T
			yield(none, err)
			return
		}
		if !yield(v, nil) {
			return
		}
	}
}

// Copy implements [Copier].
func (m *Memory) Copy(ctx context.Context, from, to ThreadID) error {
	if err := m.start(ctx, from); err != nil {
		return err
	}
	if to == "" {
		return ErrNoThread
	}
	src := m.find(from)
	if src == nil {
		return fmt.Errorf("%w: thread %q", ErrNotFound, from)
	}
	dst := new(memThread)
	src.mu.RLock()
	gone := src.gone
	dst.woken = src.woken
	if src.root != nil {
		dst.root = src.root.clone(Log{Thread: to})
	}
	for ns, l := range src.logs {
		if dst.logs == nil {
			dst.logs = make(map[string]*memLog)
		}
		dst.logs[ns] = l.clone(Log{Thread: to, Namespace: ns})
	}
	src.mu.RUnlock()
	if gone {
		return fmt.Errorf("%w: thread %q", ErrNotFound, from)
	}
	dst.mu.Lock() // nobody else has it yet
	defer dst.mu.Unlock()
	s := m.shard(to)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.threads[to] != nil {
		return fmt.Errorf("%w: thread %q exists already", ErrConflict, to)
	}
	if s.threads == nil {
		s.threads = make(map[ThreadID]*memThread)
	}
	s.threads[to] = dst
	m.note(to, dst)
	return nil
}

func (l *memLog) clone(log Log) *memLog {
	c := new(memLog)
	for _, r := range l.records {
		k := *r
		k.Log = log
		c.append(&k)
	}
	for of, e := range l.open {
		if c.open == nil {
			c.open = make(map[Drop]*memResults)
		}
		c.open[of] = memResultsOf(e.list())
	}
	return c
}

// Close implements [Store]. What the store held is gone.
func (m *Memory) Close() error {
	if m.closed.Swap(true) {
		return ErrClosed
	}
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		s.threads = nil
		s.mu.Unlock()
	}
	return nil
}
