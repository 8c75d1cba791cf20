package file

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
)

// index is what is kept in memory of an open thread: where records and results
// stand, not what they hold.
type index struct {
	recs  []rec // one for each line of the thread's file
	logs  []*logIndex
	byNS  map[string]int32
	fence checkpoint.Fence

	seq     int64 // of the last line of the thread's file
	skipped int64 // how many records were removed before it
	cut     bool  // the file was written anew, without some of its lines
	lease   checkpoint.Lease
	leased  bool        // there ever was a lease
	version int         // the newest of the lines of the thread's file
	named   *leaseNamed // what short leases in the thread's file leave out
	due     time.Time
	woken   time.Time
	shadow  bool // the companion takes away results that stand in the thread's file

	numbered []int32 // logs by their number in the file, from 1

	pending int64 // lines of the companion file
}

// leaseNamed is what the last lease in the thread's file says of where its run
// worked, and for how long it held. The companion's leases don't count: lines of
// it come and go.
type leaseNamed struct {
	ttl   time.Duration
	place string
}

type rec struct {
	off  int64
	n    int32 // bytes of the line with its newline
	log  int32 // -1: the record was removed
	prev int32 // the record before it in the same log; -1: none
	key  [16]byte
	uuid bool // key is the ID
}

type logIndex struct {
	ns       string
	number   int // in the thread's file; 0: none yet, or the empty namespace
	recs     []int32
	byID     map[[16]byte]int32
	branches []branchIndex
	byBranch map[checkpoint.Branch]int32
	graph    *string // of the first record; nil: not read yet
	open     map[dropWire]*stepIndex
}

type branchIndex struct {
	first, last int64 // sequence numbers
	recs        []int32
	seqs        []int64 // of recs; nil if there are no gaps
	skipped     int64   // records removed anywhere before the last one
}

// find returns where the record with a sequence number is or would be.
func (b *branchIndex) find(seq int64) (at int, found bool) {
	if b.seqs != nil {
		return slices.BinarySearch(b.seqs, seq)
	}
	switch {
	case seq < b.first:
		return 0, false
	case seq > b.last:
		return len(b.recs), false
	}
	return int(seq - b.first), true
}

func (b *branchIndex) slice(from, to int64) []int32 {
	i, _ := b.find(from)
	j := len(b.recs)
	if to != 0 {
		k, found := b.find(to)
		if j = k; found {
			j++
		}
	}
	if i >= j {
		return nil
	}
	return b.recs[i:j]
}

func (b *branchIndex) add(pos int32, seq, skipped int64) {
	if len(b.recs) > 0 && b.seqs == nil && seq != b.last+1 {
		b.seqs = make([]int64, len(b.recs), len(b.recs)+1)
		for i := range b.seqs {
			b.seqs[i] = b.first + int64(i)
		}
	}
	if b.seqs != nil {
		b.seqs = append(b.seqs, seq)
	}
	b.recs, b.last, b.skipped = append(b.recs, pos), seq, skipped
}

// stepIndex are the results of a superstep.
type stepIndex struct {
	at   map[resultKey]int
	list []resultAt
}

type resultKey struct {
	task, gen int
	kind      checkpoint.ResultKind
	name      string
}

// resultAt says where a result stands: the nth of a line.
type resultAt struct {
	off     int64
	n       int32
	nth     int32
	task    int
	pending bool // in the companion file
}

func newIndex() *index {
	return &index{byNS: make(map[string]int32)}
}

func (x *index) log(ns string) *logIndex {
	if i, ok := x.byNS[ns]; ok {
		return x.logs[i]
	}
	return nil
}

// addLog makes the log of a namespace known.
func (x *index) addLog(ns string) (int32, *logIndex) {
	if i, ok := x.byNS[ns]; ok {
		return i, x.logs[i]
	}
	l := &logIndex{ns: ns}
	i := int32(len(x.logs))
	x.logs = append(x.logs, l)
	x.byNS[ns] = i
	return i, l
}

func keyOf(id checkpoint.ID) (key [16]byte, uuid bool) {
	if b, ok := id.Bytes(); ok {
		return b, true
	}
	sum := sha256.Sum256([]byte(id))
	return [16]byte(sum[:16]), false
}

// exists reports whether anything was ever written to the thread.
func (x *index) exists() bool {
	if len(x.recs) > 0 || x.fence > 0 || !x.woken.IsZero() {
		return true
	}
	for _, l := range x.logs {
		if len(l.open) > 0 {
			return true
		}
	}
	return false
}

// logNumber returns the log's number in the thread's file, where numbers are
// given in the order of the logs' first records, and whether it is a new one.
// Number 0 is the log with the empty namespace.
func (x *index) logNumber(ns string) (n int, fresh bool) {
	if ns == "" {
		return 0, false
	}
	if l := x.log(ns); l != nil && l.number > 0 {
		return l.number, false
	}
	return len(x.numbered) + 1, true
}

// addMain takes in a line of the thread's file. An error means that the line
// cannot stand there.
func (x *index) addMain(h *head, off int64, n int) error {
	if want := x.seq + h.skip + 1; h.seq != want || h.skip < 0 {
		return fmt.Errorf("seq is %d, the line's is %d", h.seq, want)
	}
	if h.is == h.gone {
		return errors.New("no checkpoint in the line")
	}
	if n > math.MaxInt32 {
		return fmt.Errorf("line of %d bytes is too long", n)
	}
	if err := x.complete(h); err != nil {
		return err
	}
	if h.gone {
		x.begin(h)
		x.skipped++
		x.recs = append(x.recs, rec{off: off, n: int32(n), log: -1, prev: -1})
		x.hold(h, false)
		return nil
	}
	ns, err := x.namespace(h)
	if err != nil {
		return err
	}
	li, l := x.addLog(ns)
	key, uuid := keyOf(h.id)
	if _, ok := l.byID[key]; ok {
		return fmt.Errorf("record %s is there twice", h.id)
	}
	pos, prev := int32(len(x.recs)), int32(-1)
	if m := len(l.recs); m > 0 {
		prev = l.recs[m-1]
	}
	bi, ok := l.byBranch[h.branch]
	if !ok {
		if l.byBranch == nil {
			l.byBranch = make(map[checkpoint.Branch]int32)
		}
		bi = int32(len(l.branches))
		l.branches = append(l.branches, branchIndex{first: h.recSeq})
		l.byBranch[h.branch] = bi
	}
	b := &l.branches[bi]
	if more := h.recSeq - b.last - 1; ok && (more < 0 || more > x.skipped+h.skip-b.skipped) {
		return fmt.Errorf("record %s has sequence number %d, the next of its branch is %d", h.id, h.recSeq, b.last+1)
	}
	if h.log > 0 && l.number == 0 {
		l.number = h.log
		x.numbered = append(x.numbered, li)
	}
	x.begin(h)
	b.add(pos, h.recSeq, x.skipped)
	l.recs = append(l.recs, pos)
	if l.byID == nil {
		l.byID = make(map[[16]byte]int32)
	}
	l.byID[key] = pos
	x.recs = append(x.recs, rec{off: off, n: int32(n), log: li, prev: prev, key: key, uuid: uuid})

	x.hold(h, ns == "")
	x.take(l, h.remove, false)
	x.put(l, h.results, resultAt{off: off, n: int32(n)})
	x.remove(l, h.drop, false)
	return nil
}

// begin counts a line of the thread's file.
func (x *index) begin(h *head) {
	x.cut = x.cut || h.cut && len(x.recs) == 0
	x.seq, x.skipped, x.version = h.seq, x.skipped+h.skip, max(x.version, h.version)
}

// hold takes in what a line says of the thread.
func (x *index) hold(h *head, root bool) {
	x.fence = max(x.fence, h.claim)
	// A line with a record says when an earlier lease still counts.
	if h.claim != 0 || h.release || h.reset || h.is && !h.held {
		x.lease = checkpoint.Lease{}
	}
	if h.claim != 0 || h.reset {
		x.woken = time.Time{}
	}
	if h.lease != nil {
		x.lease, x.leased = h.lease.lease(), true
	}
	if h.release {
		x.leased = true
	}
	if root {
		x.due = h.due
	}
	if !h.wake.IsZero() {
		x.woken = h.wake
	}
}

// complete gives a line of the thread's file the lease that it says in short, and
// notes what the next may leave out.
func (x *index) complete(h *head) error {
	if s := h.short; s != nil {
		var at time.Time
		if err := json.Unmarshal(h.created, &at); err != nil || !h.id.Valid() {
			return errors.New("a short lease without a record of a run")
		}
		named := leaseNamed{ttl: s.ttl}
		switch {
		case s.place != nil:
			named.place = string(*s.place)
		case x.named == nil:
			return errors.New("a short lease, and no lease before it")
		default:
			named.place = x.named.place
		}
		if named.ttl == 0 {
			named.ttl = x.named.ttl
		}
		h.lease = newLease(checkpoint.Lease{
			Holder: string(h.id.Run()) + named.place, Until: at.Add(named.ttl + time.Duration(s.late)*time.Millisecond), TTL: named.ttl,
		})
		h.short, x.named = nil, &named
		return nil
	}
	if h.lease != nil {
		x.named = nil
		if place, ok := placeOf(string(h.lease.Holder), h.id.Run()); ok {
			x.named = &leaseNamed{ttl: h.lease.TTL, place: place}
		}
	}
	return nil
}

// maxLate is how far a record's time and the lease it begins are apart at most for
// a short lease.
const maxLate = 24 * time.Hour

// shorten returns how the line of a record says a lease, whole or in short.
func (x *index) shorten(l checkpoint.Lease, r *checkpoint.Record, created *time.Time) leaseForm {
	whole := newLease(l)
	if created == nil {
		return whole
	}
	place, ok := placeOf(l.Holder, r.ID.Run())
	late := whole.Until.Sub(created.Add(l.TTL))
	if !ok || late < 0 || late > maxLate {
		return whole
	}
	// Rounded down: a lease that reached further than its TTL would not be live.
	short := &leaseShort{late: late.Milliseconds()}
	if x.named == nil || x.named.place != place {
		short.ttl, short.place = l.TTL, (*text)(&place)
	} else if x.named.ttl != l.TTL {
		short.ttl = l.TTL
	}
	return short
}

// dueAt returns when the thread is due; zero for never.
func (x *index) dueAt() time.Time { return earlier(x.due, x.woken) }

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (x *index) namespace(h *head) (string, error) {
	switch {
	case h.log == 0:
		return "", nil
	case h.ns != nil:
		if n, fresh := x.logNumber(string(*h.ns)); !fresh || n != h.log {
			return "", fmt.Errorf("log number %d is not the next", h.log)
		}
		return string(*h.ns), nil
	case h.log < 0 || h.log > len(x.numbered):
		return "", fmt.Errorf("unknown log number %d", h.log)
	}
	return x.logs[x.numbered[h.log-1]].ns, nil
}

// put takes in results. Those that an earlier one forbids are left out.
func (x *index) put(l *logIndex, rs []resultHead, at resultAt) {
	for i, r := range rs {
		of := dropWire{r.Branch, r.Epoch}
		e := l.open[of]
		if e == nil {
			e = &stepIndex{at: make(map[resultKey]int)}
			if l.open == nil {
				l.open = make(map[dropWire]*stepIndex)
			}
			l.open[of] = e
		}
		k := resultKey{r.Task, r.Gen, r.Kind, r.Name}
		at.nth, at.task = int32(i), r.Task
		n, known := e.at[k]
		switch {
		case !known:
			e.at[k] = len(e.list)
			e.list = append(e.list, at)
		case r.Replace:
			e.list[n] = at
		}
	}
}

// remove takes away the results of a superstep.
func (x *index) remove(l *logIndex, of *dropWire, pending bool) {
	if of == nil {
		return
	}
	if e := l.open[*of]; e != nil && pending {
		x.shadow = x.shadow || slices.ContainsFunc(e.list, func(at resultAt) bool { return !at.pending })
	}
	delete(l.open, *of)
}

// take takes away single results.
func (x *index) take(l *logIndex, names []resultName, pending bool) {
	for i := range names {
		of, k := names[i].step(), names[i].result()
		e := l.open[of]
		if e == nil {
			continue
		}
		n, ok := e.at[k]
		if !ok {
			continue
		}
		x.shadow = x.shadow || pending && !e.list[n].pending
		delete(e.at, k)
		e.list = slices.Delete(e.list, n, n+1)
		for k, i := range e.at {
			if i > n {
				e.at[k] = i - 1
			}
		}
		if len(e.list) == 0 {
			delete(l.open, of)
		}
	}
}

// addPending takes in a line of the companion file. It may name lines of the
// thread's file, so it is read after that.
func (x *index) addPending(h *head, off int64, n int) error {
	if want := x.pending + 1; h.seq != want || h.skip != 0 || h.reset && want != 1 {
		return fmt.Errorf("seq is %d, the line's is %d", h.seq, want)
	}
	if h.is || n > math.MaxInt32 {
		return errNotALine
	}
	var ns string
	if h.ns != nil {
		ns = string(*h.ns)
	}
	x.pending++
	if h.reset {
		// What was said before counts no more; the fence is said again.
		x.shadow = true
		for _, l := range x.logs {
			l.open = nil
		}
	}
	x.hold(h, false)
	if len(h.results) > 0 || h.drop != nil || len(h.remove) > 0 {
		_, l := x.addLog(ns)
		x.take(l, h.remove, true)
		x.put(l, h.results, resultAt{off: off, n: int32(n), pending: true})
		x.remove(l, h.drop, true)
	}
	return nil
}

// filter returns the results of w that are to be stored and those that are to be
// removed, and counts those that an earlier one forbids.
func (l *logIndex) filter(w *checkpoint.Write) (keep []checkpoint.Result, remove []resultName, ignored int) {
	type place struct {
		of dropWire
		k  resultKey
	}
	var seen, gone map[place]bool
	for i := range w.Remove {
		n := resultName(w.Remove[i])
		p := place{n.step(), n.result()}
		if l == nil || l.open[p.of] == nil || gone[p] {
			continue
		}
		if _, ok := l.open[p.of].at[p.k]; ok {
			if gone == nil {
				gone = make(map[place]bool, len(w.Remove))
			}
			gone[p] = true
			remove = append(remove, n)
		}
	}
	for i := range w.Results {
		r := &w.Results[i]
		p := place{dropWire{r.Branch, r.Epoch}, resultKey{r.Task, r.Gen, r.Kind, r.Name}}
		known := seen[p]
		if !known && l != nil && !gone[p] {
			if e := l.open[p.of]; e != nil {
				_, known = e.at[p.k]
			}
		}
		if known && !r.Replace {
			ignored++
			continue
		}
		if len(w.Results) > 1 {
			if seen == nil {
				seen = make(map[place]bool, len(w.Results))
			}
			seen[p] = true
		}
		if w.Drop == nil || p.of != dropWire(*w.Drop) {
			keep = append(keep, *r)
		}
	}
	return keep, remove, ignored
}

// sorted returns where the results of a superstep stand, by task, then in the
// order written.
func (e *stepIndex) sorted() []resultAt {
	list := slices.Clone(e.list)
	slices.SortStableFunc(list, func(a, b resultAt) int { return cmp.Compare(a.task, b.task) })
	return list
}

// decodeResults returns the results of a line.
func decodeResults(line []byte) ([]checkpoint.Result, error) {
	var v struct {
		Results []json.RawMessage `json:"results"`
	}
	if err := json.Unmarshal(line, &v); err != nil {
		return nil, err
	}
	out := make([]checkpoint.Result, len(v.Results))
	for i, b := range v.Results {
		var err error
		if out[i], err = checkpoint.UnmarshalResult(b); err != nil {
			return nil, err
		}
	}
	return out, nil
}
