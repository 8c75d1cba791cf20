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
	_       [24]byte // a cache line of its own
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
}

type memLog struct {
	records  []*Record          // in the order appended
	runs     map[string]*memRun // by the part of an ID that its run shares
	last     *memRun            // of the head
	odd      map[ID]*Record     // those whose IDs are not UUIDs
	main     memBranch
	branches map[Branch]*memBranch // the others
	open     map[Drop]*memResults
	bytes    int64
}

type memBranch struct {
	records []*Record // by sequence number
}

// memRun says where the records of one run stand: in pieces with consecutive
// IDs, ordered by the first. As a run mostly appends one record after the other,
// an append costs no entry of a map.
type memRun struct{ pieces []memPiece }

type memPiece struct {
	count   uint32 // of the first record's ID
	records []*Record
}

// find returns the piece that holds count, or else where one would begin.
func (r *memRun) find(count uint32) (at int, found bool) {
	at, found = slices.BinarySearchFunc(r.pieces, count, func(p memPiece, n uint32) int { return cmp.Compare(p.count, n) })
	if !found && at > 0 {
		if p := r.pieces[at-1]; uint64(count)-uint64(p.count) < uint64(len(p.records)) {
			return at - 1, true
		}
	}
	return at, found
}

// memResults are the results of one superstep.
type memResults struct {
	at   map[memKey]int
	list []Result
}

type memKey struct {
	task, gen int
	kind      ResultKind
	name      string
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
	out, err := t.write(w)
	if t.empty() {
		m.forget(w.Log.Thread, t)
	}
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

func (t *memThread) write(w *Write) (Written, error) {
	fence := t.fence
	switch {
	case w.Claim:
		if h := t.lease.Holder; h != w.Holder && h != w.Steal && t.lease.Live(time.Now()) {
			return Written{}, &BusyError{w.Log.Thread, t.lease}
		}
		fence++
	case w.Fence != 0 && w.Fence != fence:
		return Written{}, fmt.Errorf("%w: thread %q is at fence %d, the writer has %d", ErrFenced, w.Log.Thread, fence, w.Fence)
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

// place checks that the record fits.
func (l *memLog) place(w *Write) error {
	var head ID
	if n := len(l.records); n > 0 {
		head = l.records[n-1].ID
	}
	if head != w.Head {
		return conflict(w, head)
	}
	r := w.Record
	if l.get(r.ID) != nil {
		return fmt.Errorf("%w: thread %q has a record %s already", ErrInvalid, w.Log.Thread, r.ID)
	}
	var last int64
	if b := l.branch(r.Branch); b != nil && len(b.records) > 0 {
		last = b.records[len(b.records)-1].Seq
	}
	return r.CheckPlace(last)
}

func conflict(w *Write, head ID) error {
	if head == "" {
		return fmt.Errorf("%w: log %v is empty, the writer expected head %s", ErrConflict, w.Log, w.Head)
	}
	if w.Head == "" {
		return fmt.Errorf("%w: log %v has head %s, the writer expected an empty log", ErrConflict, w.Log, head)
	}
	return fmt.Errorf("%w: log %v has head %s, the writer expected %s", ErrConflict, w.Log, head, w.Head)
}

func (l *memLog) branch(b Branch) *memBranch {
	if b == "" {
		return &l.main
	}
	return l.branches[b]
}

func (l *memLog) append(r *Record) {
	l.records = append(l.records, r)
	l.index(r)
	b := l.branch(r.Branch)
	if b == nil {
		b = new(memBranch)
		if l.branches == nil {
			l.branches = make(map[Branch]*memBranch)
		}
		l.branches[r.Branch] = b
	}
	b.records = append(b.records, r)
	l.bytes += r.size()
}

// run returns the run that wrote a record with a valid ID.
func (l *memLog) run(id ID) *memRun {
	if l.last != nil && l.last.pieces[0].records[0].ID[:idCount] == id[:idCount] {
		return l.last
	}
	return l.runs[string(id[:idCount])]
}

// get returns the record with an ID, or nil.
func (l *memLog) get(id ID) *Record {
	if !id.Valid() {
		return l.odd[id]
	}
	run := l.run(id)
	if run == nil {
		return nil
	}
	n := id.count()
	i, ok := run.find(n)
	if !ok {
		return nil
	}
	return run.pieces[i].records[n-run.pieces[i].count]
}

// index makes a record, whose ID is new, known by it.
func (l *memLog) index(r *Record) {
	if !r.ID.Valid() {
		if l.odd == nil {
			l.odd = make(map[ID]*Record)
		}
		l.odd[r.ID] = r
		return
	}
	run, n := l.run(r.ID), r.ID.count()
	if run == nil {
		if l.runs == nil {
			l.runs = make(map[string]*memRun)
		}
		run = new(memRun)
		l.runs[string(r.ID[:idCount])] = run
	}
	l.last = run
	i, _ := run.find(n)
	if i > 0 {
		if p := &run.pieces[i-1]; uint64(p.count)+uint64(len(p.records)) == uint64(n) {
			p.records = append(p.records, r)
			return
		}
	}
	run.pieces = slices.Insert(run.pieces, i, memPiece{count: n, records: []*Record{r}})
}

// put stores results and counts those that an earlier one forbids. The results
// of the superstep that is about to be dropped are only counted.
func (l *memLog) put(rs []Result, drop *Drop) (ignored int) {
	var seen map[memKey]bool
	for i := range rs {
		r := rs[i]
		of := Drop{Branch: r.Branch, Epoch: r.Epoch}
		k := memKey{r.Task, r.Gen, r.Kind, r.Name}
		e := l.open[of]
		if drop != nil && of == *drop {
			known := seen[k]
			if !known && e != nil {
				_, known = e.at[k]
			}
			if known && !r.Replace {
				ignored++
			}
			if !known && i < len(rs)-1 {
				if seen == nil {
					seen = make(map[memKey]bool)
				}
				seen[k] = true
			}
			continue
		}
		if e == nil {
			e = &memResults{at: make(map[memKey]int)}
			if l.open == nil {
				l.open = make(map[Drop]*memResults)
			}
			l.open[of] = e
		}
		n, known := e.at[k]
		switch {
		case !known:
			e.at[k] = len(e.list)
			e.list = append(e.list, r)
		case r.Replace:
			// Readers copy the list under the lock, so writing in place is safe.
			e.list[n] = r
		default:
			ignored++
		}
	}
	return ignored
}

// read runs f with the log locked for reading. f gets nil for an unknown log.
func (m *Memory) read(log Log, f func(l *memLog)) {
	t := m.find(log.Thread)
	if t == nil {
		f(nil)
		return
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.gone {
		f(nil)
		return
	}
	f(t.log(log.Namespace))
}

// Head implements [Store].
func (m *Memory) Head(ctx context.Context, log Log) (*Record, error) {
	if err := m.start(ctx, log.Thread); err != nil {
		return nil, err
	}
	var r *Record
	m.read(log, func(l *memLog) {
		if l != nil && len(l.records) > 0 {
			r = l.records[len(l.records)-1]
		}
	})
	if r == nil {
		return nil, fmt.Errorf("%w: log %v has no record", ErrNotFound, log)
	}
	return r, nil
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
		return nil, fmt.Errorf("%w: log %v has no record %s", ErrNotFound, log, id)
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
				if b := l.branch(q.Branch); b != nil {
					rs = b.slice(q.From, q.To)
				}
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

func (b *memBranch) slice(from, to int64) []*Record {
	i, _ := b.find(from)
	j := len(b.records)
	if to != 0 {
		k, found := b.find(to)
		if j = k; found {
			j++
		}
	}
	if i >= j {
		return nil
	}
	return b.records[i:j]
}

// find returns where the record with a sequence number is or would be. A branch
// that was shortened has gaps.
func (b *memBranch) find(seq int64) (at int, found bool) {
	if len(b.records) == 0 {
		return 0, false
	}
	if i := seq - b.records[0].Seq; i >= 0 && i < int64(len(b.records)) && b.records[i].Seq == seq {
		return int(i), true
	}
	return slices.BinarySearchFunc(b.records, seq, func(r *Record, n int64) int { return cmp.Compare(r.Seq, n) })
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
			out = slices.Clone(e.list)
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
	if !t.gone {
		m.forget(thread, t)
	}
	t.mu.Unlock()
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
					infos = append(infos, ThreadInfo{
						Thread:    head.Log.Thread,
						Head:      head,
						CreatedAt: l.records[0].CreatedAt,
						Records:   int64(len(l.records)),
						Bytes:     l.bytes,
						Lease:     t.lease.now(),
					})
				}
				t.mu.RUnlock()
			}
		}
		slices.SortFunc(infos, func(a, b ThreadInfo) int {
			return cmp.Or(b.Head.CreatedAt.Compare(a.Head.CreatedAt), cmp.Compare(a.Thread, b.Thread))
		})
		for i, info := range infos {
			if f.Limit > 0 && i == f.Limit {
				return
			}
			if err := ctx.Err(); err != nil {
				yield(ThreadInfo{}, err)
				return
			}
			info.Head = info.Head.Meta()
			if !yield(info, nil) {
				return
			}
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
		n := &memResults{at: make(map[memKey]int, len(e.at)), list: slices.Clone(e.list)}
		for i, r := range n.list {
			n.at[memKey{r.Task, r.Gen, r.Kind, r.Name}] = i
		}
		if c.open == nil {
			c.open = make(map[Drop]*memResults)
		}
		c.open[of] = n
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
